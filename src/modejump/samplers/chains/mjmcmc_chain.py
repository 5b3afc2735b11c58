"""One chain from the outside: its arrays, its growth, its batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from modejump.core.random import new_stream
from modejump.kernels.chain import DONE, WANT_FIT, WANT_STORE, Chain, new_chain, run_batches
from modejump.kernels.moves import MAX_FLIPS, Moves
from modejump.kernels.state import new_state, new_work, with_room
from modejump.kernels.store import better_half, bytes_per_model, forget, resize
from modejump.likelihoods.glm.newton import ANSWERED, Glm
from modejump.likelihoods.glm.parts import fit_columns_by_parts, is_long
from modejump.problem.problem import Problem, ProblemData
from modejump.runtime.snapshots import Reader, Snapshot, batch_arrays, chain_arrays, read_batches, read_chain

# Neighbouring batches are merged, two and two, when there are so many.
MAX_BATCHES = 512
FIRST_CAPACITY = 4096
# A snapshot whose store has room for more models than memory allows, and for more than this, is damaged.
MOST_CAPACITY = 1 << 22


class Batched(Protocol):
    """A chain that keeps the means of its batches."""

    batch: int
    means: list[np.ndarray]

    def merge_batches(self) -> None:
        """Make neighbouring batches one, two and two."""


def chain_of(problem: Problem, stream: np.ndarray, models: int) -> Chain:
    """Arrays of a chain at no model yet, with a store for so many models."""
    columns = problem.n_columns
    widest = int(np.sort(np.diff(problem.data.first))[-MAX_FLIPS:].sum())
    room = min(columns + widest, max(32, 2 * widest))
    return new_chain(problem.n_terms, columns, problem.data.glm, stream, widest=widest, room=room, models=models)


def may_ask(chain: Chain, data: ProblemData) -> None:
    """Let the kernels ask for fits of long tables, whose rows threads can share."""
    chain.work.glm.scalars["may_ask"] = is_long(data.glm)


def answer(chain: Chain, data: ProblemData, threads: int) -> None:
    """Make the fit that was asked for."""
    work = chain.work.glm
    cols = work.asked[: int(work.scalars["asked_columns"])].copy()
    work.scalars["answer"] = fit_columns_by_parts(data.glm, work, cols, data.coef_prior, data.n, threads)
    work.scalars["stage"] = ANSWERED


def with_more_room(chain: Chain, glm: Glm) -> Chain:
    """The same chain with room for larger models."""
    k, p = len(chain.state.member), len(chain.state.slot)
    widest = chain.work.products.shape[0]
    room = min(2 * len(chain.state.cols), p + widest)
    return chain._replace(
        state=with_room(chain.state, room),
        forward=new_state(k, p, room),
        backward=new_state(k, p, room),
        work=new_work(room, widest, k, glm),
    )


def with_larger_store(chain: Chain, max_models: int, reserve: int) -> tuple[Chain, np.ndarray]:
    """The same chain with room for more models, without the worse half of them at the bound; where each one went."""
    store, state = chain.store, chain.state
    capacity = len(store.log_posterior)
    if capacity < max(max_models, 2 * reserve):
        new = resize(store, max(min(2 * capacity, max_models), 2 * reserve))
        moved = np.arange(int(store.scalars["count"]))
    else:
        new, moved = store, forget(store, better_half(store, int(state.scalars["entry"])))
    if state.scalars["entry"] >= 0:
        state.scalars["entry"] = moved[state.scalars["entry"]]
    return chain._replace(store=new), moved


def forget_visits(chain: Chain) -> None:
    """Start to count: visits, sizes and proposals so far are forgotten."""
    chain.record.sizes[:] = 0.0
    chain.record.tried[:] = 0
    chain.store.visits[:] = 0
    chain.store.scalars["forgotten"] = 0


def halved(means: list[np.ndarray]) -> list[np.ndarray]:
    """Means of neighbouring batches made one, two and two; an odd one at the end is left out."""
    return [0.5 * (means[2 * i] + means[2 * i + 1]) for i in range(len(means) // 2)]


class MJMCMCChain:
    """A chain of MJMCMC: runs batches of steps, grows its arrays between them, keeps batch means.

    Parameters
    ----------
    problem : Problem
        The target.
    seed : SeedSequence
        The chain's own stream.
    memory : int
        Bytes for the chain's cache of models.
    batch : int
        Steps in the first batches.
    threads : int
        Threads that share the rows of a long table; the chain is the same for any number.
    """

    def __init__(
        self, problem: Problem, seed: np.random.SeedSequence, memory: int, batch: int, threads: int = 1
    ) -> None:
        self.data = problem.data
        self.threads = threads
        self._made_with = {"memory": memory, "batch": batch}
        start_seed, stream_seed = seed.spawn(2)
        self.chain = chain_of(problem, new_stream(stream_seed), FIRST_CAPACITY)
        self.max_models = max(FIRST_CAPACITY, memory // bytes_per_model(self.chain.store.words.shape[1]))
        self.batch = batch
        self.means: list[np.ndarray] = []
        self.start = self._random_model(np.random.default_rng(start_seed))

    def _random_model(self, rng: np.random.Generator) -> np.ndarray:
        """A model of a few terms."""
        k = len(self.chain.state.member)
        member = np.zeros(k, np.uint8)
        member[rng.choice(k, size=int(rng.integers(0, min(k, 5) + 1)), replace=False)] = 1
        return member

    def compile(self, moves: Moves) -> None:
        """Compile, so that no clock counts it."""
        self._run(moves, 1, np.empty((0, len(self.start))), np.zeros(2, np.int64))

    def _make_room(self, reason: int, reserve: int) -> None:
        """Give the chain what it stopped for."""
        if reason == WANT_FIT:
            answer(self.chain, self.data, self.threads)
        elif reason == WANT_STORE:
            self.chain, _ = with_larger_store(self.chain, self.max_models, reserve)
        else:
            self.chain = with_more_room(self.chain, self.data.glm)

    def run_batches(self, moves: Moves, count: int) -> None:
        """Sampling: full batches, with their means kept."""
        while count > 0:
            # Batches double their length when there are too many.
            some = min(count, MAX_BATCHES - len(self.means))
            self._run_some(moves, some)
            count -= some
            if len(self.means) == MAX_BATCHES:
                self.merge_batches()

    def _run(self, moves: Moves, batch: int, means: np.ndarray, at: np.ndarray) -> None:
        """Batches of one length, one for each row of ``means``; ``at`` tells how many are complete."""
        reserve = 2 * moves.search + 16  # models that one step may add to the store
        while True:
            may_ask(self.chain, self.data)
            reason = run_batches(self.data, self.chain, moves, batch, means, at, reserve, self.start)
            if reason == DONE:
                return
            self._make_room(reason, reserve)

    def _run_some(self, moves: Moves, count: int) -> None:
        means, at = np.empty((count, len(self.start))), np.zeros(2, np.int64)
        try:
            self._run(moves, self.batch, means, at)
        finally:
            # An interrupt leaves what is complete.
            self.means.extend(means[: at[0]])

    def merge_batches(self) -> None:
        """Make neighbouring batches one, two and two; an odd one at the end is left out."""
        self.means = halved(self.means)
        self.batch *= 2

    def warm_up(self, moves: Moves, steps: int) -> np.ndarray:
        """So many steps that do not count; returns the terms' shares of them."""
        share = np.zeros((1, len(self.start)))
        if steps > 0:
            self._run(moves, steps, share, np.zeros(2, np.int64))
        return share[0]

    def forget_warmup(self) -> None:
        """Start to count: nothing of warm-up is kept but the cache and the place."""
        forget_visits(self.chain)

    def recipe(self) -> Mapping[str, Any]:
        """Arguments of the class, besides the problem and the random stream."""
        return self._made_with

    def snapshot(self) -> Snapshot:
        """The chain between two batches; what its problem gives is left out."""
        batches = batch_arrays(self.batch, self.means, len(self.start))
        return chain_arrays(self.chain) | batches | {"start": self.start.copy()}

    def restore(self, snapshot: Snapshot) -> None:
        """Resume from where a chain of the same problem was when the snapshot was taken."""
        reader = Reader(snapshot)
        most_room = self.chain.state.slot.size + self.chain.work.products.shape[0]
        most_models = max(self.max_models, MOST_CAPACITY)
        self.chain = read_chain(reader, self.chain, self.data.glm, most_models, most_room)
        self.batch, self.means = read_batches(reader, MAX_BATCHES, len(self.start))
        self.start = reader.like("start", self.start, (0, 2))


def align_batches(runners: Sequence[Batched]) -> None:
    """Bring all chains to batches of one length and one number, as an interruption may not have left them."""
    longest = max(r.batch for r in runners)
    for r in runners:
        while r.batch < longest:
            r.merge_batches()
    complete = min(len(r.means) for r in runners)
    for r in runners:
        del r.means[complete:]
