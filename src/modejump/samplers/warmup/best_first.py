"""Best-first search among models before the chains of MJMCMC begin, in pieces that fit a budget."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from modejump.core.handles import Handle
from modejump.kernels.best_first import expand
from modejump.kernels.chain import DONE, WANT_FIT
from modejump.kernels.store import ModelStore, bytes_per_model, resize
from modejump.problem.problem import Problem
from modejump.runtime.snapshots import Reader, Snapshot, place_arrays, read_place
from modejump.samplers.budget import DEFAULT_STEPS, Budget
from modejump.samplers.chains.mjmcmc_chain import answer, chain_of, may_ask, with_more_room

# The search evaluates at most so many models,
MOST_MODELS = 2**20
# one for so many sampling steps of all chains together, or for so many where models are fitted to rows: there it would
# take longer than the sampling, which meets few models that are new,
STEPS_PER_MODEL, STEPS_PER_FIT = 10, 50
# and takes at most this share of a budget in seconds.
TIME_SHARE = 0.1
_FIRST_PIECE = 4096
# Of a search that continues while the chains sample, this part is done before, for warm-up to learn from;
FIRST_PART = 8
# then it is made in pieces of about so many seconds, and of so many where nobody waits for it.
PIECE_SECONDS = 0.005
LONG_PIECE_SECONDS = 0.2


def compile_best_first(problem: Problem) -> None:
    """Compile, so that no clock counts it."""
    chain = chain_of(problem, np.zeros(4, np.uint64), 1)
    start = np.zeros(problem.n_terms, np.uint8)
    expand(problem.data, chain, np.zeros(1, np.int64), np.zeros(2, np.int64), start, 0)


class BestFirstSearch:
    """The expansion of the model space from the empty model, best first.

    What is met, and in which order, does not depend on the pieces that it is made in.

    Parameters
    ----------
    problem : Problem
        The target.
    budget : Budget
        Sets how many models are evaluated; the cache's memory bound counts too.
    chains : int
        How many chains will follow.
    threads : int
        Threads that share the rows of a long table; the result is the same for any number.
    begun : float, optional
        When a budget in seconds began; now by default.
    """

    def __init__(
        self, problem: Problem, budget: Budget, chains: int, threads: int = 1, begun: float | None = None
    ) -> None:
        self.problem, self.threads = problem, threads
        self.chain = chain_of(problem, np.zeros(4, np.uint64), _FIRST_PIECE)
        # Handles take longer to make than many a piece takes.
        self._data, self._handle = Handle(problem.data), Handle(self.chain)
        words = self.chain.store.words.shape[1]
        self.wanted = min(MOST_MODELS, budget.memory // (4 * bytes_per_model(words)))
        self.until = np.inf
        if budget.seconds is not None:
            self.until = (time.perf_counter() if begun is None else begun) + TIME_SHARE * budget.seconds
        else:
            # Most runs to a precision end long before their cap.
            planned = budget.sampling_steps() if budget.mcse is None else min(budget.sampling_steps(), DEFAULT_STEPS)
            per_model = STEPS_PER_MODEL if problem.family.conjugate else STEPS_PER_FIT
            self.wanted = min(self.wanted, planned * chains // per_model)
        self.done = False
        self._more = 64
        self._start = np.zeros(problem.n_terms, np.uint8)
        self._heap, self._heap_size = np.zeros(_FIRST_PIECE, np.int64), np.zeros(2, np.int64)

    @property
    def store(self) -> ModelStore:
        """The models met so far, in order."""
        return self.chain.store

    def expand(self, more: int) -> None:
        """Meet up to so many models more."""
        data, room = self.problem.data, len(self._heap)
        piece = min(self.wanted, int(self.store.scalars["count"]) + more)
        if piece > room:
            room = min(self.wanted, max(piece, 2 * room))
            self._heap = np.concatenate([self._heap, np.zeros(room - len(self._heap), np.int64)])
            self.chain = self.chain._replace(store=resize(self.store, room))
        while True:
            may_ask(self.chain, data)
            if self._handle.value is not self.chain:
                self._handle = Handle(self.chain)
            reason = expand(self._data, self._handle, self._heap, self._heap_size, self._start, piece)
            if reason == DONE:
                break
            if reason == WANT_FIT:
                answer(self.chain, data, self.threads)
            else:
                self.chain = with_more_room(self.chain, data.glm)
        self.done = int(self.store.scalars["count"]) < piece or piece >= self.wanted or time.perf_counter() > self.until

    def begin(self) -> None:
        """The part that warm-up learns from."""
        self.expand(max(self.wanted // FIRST_PART, _FIRST_PIECE))

    def continue_(self, seconds: float = PIECE_SECONDS) -> None:
        """A short piece; how short it is changes nothing but who waits for it."""
        began = time.perf_counter()
        self.expand(self._more)
        took = time.perf_counter() - began
        if took < seconds / 2:
            self._more *= 2
        elif took > 2 * seconds:
            self._more = max(self._more // 2, 1)

    def finish(self, keep: Callable[[], None] | None = None) -> ModelStore:
        """Continue to the end; all models met.

        Parameters
        ----------
        keep : callable, optional
            Called between two pieces, which are short then.
        """
        while not self.done:
            if keep is None:
                self.expand(max(int(self.store.scalars["count"]), _FIRST_PIECE))
            else:
                self.continue_(LONG_PIECE_SECONDS)
                keep()
        return self.store

    def snapshot(self) -> Snapshot:
        """The expansion between two pieces."""
        heap = {"heap": self._heap[: self._heap_size[0]].copy(), "heap_size": self._heap_size.copy()}
        return place_arrays(self.chain) | heap | {"done": np.array(self.done)}

    def restore(self, snapshot: Snapshot) -> None:
        """Resume from where the expansion of the same problem was when the snapshot was taken."""
        reader, chain = Reader(snapshot), self.chain
        most_room = len(chain.state.slot) + chain.work.products.shape[0]
        self.chain = read_place(reader, chain, self.problem.data.glm, max(self.wanted, _FIRST_PIECE), most_room)
        count = int(self.store.scalars["count"])
        self._heap_size = reader.array("heap_size", np.int64, (2,), (0, count + 1))
        # As long as the store, so that whatever is met has a place in it.
        self._heap = np.zeros(len(self.store.log_posterior), np.int64)
        size = int(self._heap_size[0])
        self._heap[:size] = reader.array("heap", np.int64, (size,), (0, max(count, 1)))
        self.done = bool(reader.array("done", np.bool_, ()))
