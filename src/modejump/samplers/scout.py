"""The scout of MJMCMC: best-first expansion, in rounds that threads share."""

from __future__ import annotations

import time

import numpy as np

from modejump.kernels.chain import DONE, WANT_FIT, Chain
from modejump.kernels.scout import (
    ENTRIES,
    LANES,
    Frontier,
    begin,
    copy_lane,
    enter_found,
    evaluate_flips,
    move_lane,
    new_frontier,
    new_round,
    take,
)
from modejump.kernels.store import COUNT, EVALUATED, ModelStore, bytes_per_model
from modejump.likelihoods.threads import is_long
from modejump.problem import Problem
from modejump.samplers.budget import DEFAULT_STEPS, Budget
from modejump.samplers.hands import Hands
from modejump.samplers.runner import answer, may_ask, new_chain, with_more_room

# The scout evaluates at most so many models,
MOST_MODELS = 2**20
# one for so many sampling steps of all chains together,
STEPS_PER_MODEL = 10
# and takes at most this share of a budget in seconds.
TIME_SHARE = 0.1
# A round expands so small a part of what was expanded before it, or one model, so that it is nearly best first,
ROUND_PART = 8
# and makes so many flips at most, unless one model has more.
MOST_FLIPS = 32_768
_FIRST_ROOM = 1024


def prime_scout(problem: Problem) -> None:
    """Compile, so that no clock counts it."""
    scouting = _Scouting(problem, Hands())
    scouting.expand(0)
    scouting.enlarge()
    scouting.store(1)


def round_size(expanded: int, n_terms: int, wanted: int) -> int:
    """How many models the next round expands.

    Parameters
    ----------
    expanded : int
        How many were expanded so far.
    n_terms : int
        Flips of each.
    wanted : int
        Models that are still to be met.
    """
    return max(1, min(expanded // ROUND_PART, MOST_FLIPS // n_terms, -(-wanted // n_terms)))


def scout(problem: Problem, budget: Budget, chains: int, hands: Hands | None = None) -> ModelStore:
    """Expand the model space from the empty model, best first; the models in order of evaluation, without an index.

    Parameters
    ----------
    problem : Problem
        The target.
    budget : Budget
        Sets how many models are evaluated; the cache's memory bound counts too.
    chains : int
        How many chains will follow.
    hands : Hands, optional
        Threads that share the rounds, or the rows of a long table; the result is the same for any number.
    """
    scouting = _Scouting(problem, hands or Hands())
    wanted = min(MOST_MODELS, budget.memory // (4 * bytes_per_model(scouting.words)))
    until = np.inf
    if budget.seconds is not None:
        until = time.perf_counter() + TIME_SHARE * budget.seconds
    else:
        # Most runs to a precision end long before their cap.
        planned = budget.sampling_steps() if budget.mcse is None else min(budget.sampling_steps(), DEFAULT_STEPS)
        wanted = min(wanted, max(planned * chains // STEPS_PER_MODEL, 1))
    while scouting.met < wanted and time.perf_counter() < until:
        if not scouting.expand(round_size(scouting.expanded, problem.n_terms, wanted - scouting.met)):
            break
    return scouting.store(wanted)


class _Scouting:
    """A scout on its way."""

    def __init__(self, problem: Problem, hands: Hands) -> None:
        self.problem, self.hands = problem, hands
        self.chains: list[Chain] = [new_chain(problem, np.zeros(4, np.uint64), 1) for _ in range(LANES)]
        self.words = self.chains[0].store.words.shape[1]
        self.frontier: Frontier = new_frontier(_FIRST_ROOM, self.words)
        self.round = new_round(max(1, MOST_FLIPS // problem.n_terms), problem.n_terms, self.words)
        self.expanded = 0
        # Number of the first flip of the next round; the model that all begins with is number 0.
        self.flips = 1
        begin(problem.data, self.chains[0], self.frontier, np.zeros(problem.n_terms, np.uint8))

    @property
    def met(self) -> int:
        """Distinct models so far."""
        return int(self.frontier.num[:, ENTRIES].sum())

    def expand(self, most: int) -> bool:
        """A round of so many models; False where there are none left."""
        models = take(self.frontier, self.round, most)
        flips = models * self.problem.n_terms
        cuts = [flips * i // LANES for i in range(LANES + 1)]
        if is_long(self.problem.data.glm):
            # The threads share the rows of each fit.
            for i in range(LANES):
                self._evaluate(i, cuts[i], cuts[i + 1], self.hands.count)
        else:
            self.hands.share(lambda i: self._evaluate(i, cuts[i], cuts[i + 1], 1), LANES)
        while not all(self.hands.share(lambda i: enter_found(self.frontier, self.round, flips, self.flips, i), LANES)):
            # What has been entered is found there when all is entered again.
            self.enlarge()
        self.flips += flips
        self.expanded += models
        return models > 0

    def _evaluate(self, part: int, start: int, stop: int, threads: int) -> None:
        """The flips of one part of a round, by a chain of its own."""
        data, at = self.problem.data, np.array([start])
        while True:
            chain = self.chains[part]
            may_ask(chain, data)
            reason = evaluate_flips(data, chain, self.frontier, self.round, at, stop)
            if reason == DONE:
                return
            if reason == WANT_FIT:
                answer(chain, data, threads)
            else:
                self.chains[part] = with_more_room(chain, data.glm)

    def enlarge(self) -> None:
        """Twice the room."""
        old, new = self.frontier, new_frontier(2 * self.frontier.value.shape[1], self.words)
        self.hands.share(lambda i: move_lane(old, new, i), LANES)
        self.frontier = new

    def store(self, most: int) -> ModelStore:
        """The models in order of evaluation, up to so many."""
        frontier = self.frontier
        present = np.zeros(self.flips, np.bool_)
        for lane, count in enumerate(frontier.num[:, ENTRIES]):
            present[frontier.rank[lane, :count]] = True
        place = np.cumsum(present) - 1
        count = min(self.met, most)
        room = max(count, 1)
        words, hashes = np.zeros((room, self.words), np.uint64), np.zeros(room, np.uint64)
        value, num = np.zeros(room), np.zeros(4, np.int64)
        self.hands.share(lambda i: copy_lane(frontier, i, place, words, value, hashes), LANES)
        num[COUNT] = num[EVALUATED] = count
        return ModelStore(words, value, np.zeros(room, np.int64), hashes, np.zeros(0, np.int32), num)
