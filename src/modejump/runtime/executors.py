"""Who works on the chains of a run: threads of this process, or workers elsewhere.

A run is a sequence of stages. In each of them every chain does the same piece of work, alone, and what the chains found
is merged before the next stage. A chain has a random stream of its own and a snapshot that holds all of its future, so
that nothing depends on who does a piece, in which order, or how often one had to be done again.

Threads work on the chains in place. Workers elsewhere are told how to make such a chain for the problem, which they
have been given once; a snapshot goes there, and another one comes back.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from modejump.core.threads import Hands
from modejump.runtime.snapshots import Snapshot

# A chain is left in the middle of a piece of work, for one that is behind, at most after so small a part of it.
SLICES = 64


class Movable(Protocol):
    """A chain that can be made again elsewhere."""

    def recipe(self) -> Mapping[str, Any]:
        """Arguments of the class, besides the problem and the random stream."""

    def snapshot(self) -> Snapshot:
        """The chain between two pieces of work."""

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from where a chain of the same problem was when the snapshot was taken, whatever this one was."""


C = TypeVar("C", bound=Movable)


class Aside(Protocol):
    """Work that has nothing to do with the chains, in short pieces."""

    done: bool

    def go_on(self) -> None:
        """The next piece."""

    def finish(self) -> object:
        """All that is left."""


class Pace(NamedTuple):
    """How long a piece of work should be: of less than ``short`` seconds is too little, of more than ``long`` too much,
    and a chain makes at most ``steps`` steps in one, or what it makes in ``seconds``.
    """

    short: float
    long: float
    steps: int
    seconds: float


class Crew:
    """Threads of this process.

    A crew serves one run, whose driver closes it.

    Parameters
    ----------
    workers : int
        Threads.
    """

    # Pieces end often enough for progress to be seen and interrupts to be heard.
    pace = Pace(0.05, 0.3, 25_000, 4.0)

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self.hands = Hands(workers)

    def threads(self, chains: int) -> int:
        """Threads for each of so many chains, where there are more workers than chains."""
        return max(1, self.workers // chains)

    def overlaps(self, chains: int) -> bool:
        """Whether there is somebody who works on something else while others work on so many chains."""
        return self.workers > 1 and chains > 1

    def begin(self, problem: Any) -> None:
        """Make the problem of the run known."""

    def prime(self, work: Callable[..., object], *args: Any) -> None:
        """Let whoever works elsewhere compile, or load from the cache, before any clock runs.

        Parameters
        ----------
        work : callable
            Takes the problem and the arguments; has been called here already.
        *args : object
            The arguments.
        """

    def each(self, chains: Sequence[C], work: Callable[[C], object]) -> list:
        """Do a piece of work on every chain; what it returned for each."""
        return self.hands.share(lambda i: work(chains[i]), len(chains))

    def repeat(self, chains: Sequence[C], work: Callable[..., object], count: int, aside: Aside | None = None) -> None:
        """Do something ``count`` times on every chain.

        Chains differ in the time that they take, and who is done first would wait for the others. So a chain is left
        after half of what it has to do, then of the rest, and whoever is free takes the one that is behind.

        Parameters
        ----------
        chains : sequence
            The chains.
        work : callable
            Takes a chain, and ``count``.
        count : int
            How often.
        aside : Aside, optional
            What one of the threads does while there is work for the others.
        """
        if not self.overlaps(len(chains)):
            if aside is not None:
                aside.finish()
            for chain in chains:
                work(chain, count=count)
            return
        left, free, lock = [count] * len(chains), set(range(len(chains))), threading.Lock()
        least = -(-count // SLICES)

        nobody = threading.Lock()

        def labour(stopped: threading.Event) -> None:
            if aside is not None and nobody.acquire(blocking=False):
                while not aside.done and not stopped.is_set() and max(left) > 0:
                    aside.go_on()
            mine = -1
            while not stopped.is_set():
                with lock:
                    if mine >= 0:
                        free.add(mine)
                    ready = [i for i in sorted(free) if left[i] > 0]
                    if not ready:
                        # Those who work on the other chains take them to their end.
                        return
                    mine = max(ready, key=left.__getitem__)
                    some = min(left[mine], max(least, left[mine] // 2))
                    free.remove(mine)
                    left[mine] -= some
                work(chains[mine], count=some)

        self.hands.all(labour, len(chains))

    def snapshots(self, chains: Sequence[C]) -> list[Snapshot]:
        """Where all chains are."""
        return self.each(chains, type(chains[0]).snapshot)

    def close(self) -> None:
        """Let the workers go."""
        self.hands.close()


class Remote(Crew):
    """Workers elsewhere; how they are reached is for a class that is made from this one."""

    # A piece costs two journeys of a snapshot.
    pace = Pace(1.0, 4.0, 1 << 62, 10.0)

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        # For what is done here while the workers wait.
        self.hands = Hands(min(workers, os.cpu_count() or 1))

    def threads(self, chains: int) -> int:
        """One: a worker elsewhere works on one chain, and has its own machine's cores to care for."""
        return 1

    def overlaps(self, chains: int) -> bool:
        """No: this process only waits for the workers, and hears their news."""
        return False

    def send(self, work: Callable[..., Any], pieces: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Call a function of the problem and the arguments in each piece; their numbers and results as they come."""
        raise NotImplementedError

    def prime(self, work: Callable[..., object], *args: Any) -> None:
        """Let every worker compile, or load from the cache, before any clock runs."""
        for _ in self.send(work, [args] * self.workers):
            pass

    def each(self, chains: Sequence[C], work: Callable[[C], object]) -> list:
        """Do a piece of work on every chain; what it returned for each."""
        pieces = [(type(chain), chain.recipe(), chain.snapshot(), work) for chain in chains]
        results: list[Any] = [None] * len(chains)
        # Another thread takes over what came back, so that an interrupt never finds a chain in the middle of it.
        with ThreadPoolExecutor(1) as here:
            for i, (snapshot, result) in self.send(work_on, pieces):
                here.submit(chains[i].restore, snapshot).result()
                results[i] = result
        return results

    def repeat(self, chains: Sequence[C], work: Callable[..., object], count: int, aside: Aside | None = None) -> None:
        """Do something ``count`` times on every chain; what is to be done aside is done before, here."""
        if aside is not None:
            aside.finish()
        self.each(chains, partial(work, count=count))

    def snapshots(self, chains: Sequence[C]) -> list[Snapshot]:
        """Where all chains are."""
        return [chain.snapshot() for chain in chains]


# Of this process, as a worker: a chain for each recipe used last, while nobody works with it.
_idle: dict[tuple[int, bytes], tuple[Any, Any]] = {}
_MOST_IDLE = 2
_lock = threading.Lock()


def work_on(
    problem: Any, kind: type, recipe: Mapping[str, Any], snapshot: Snapshot, work: Callable[[Any], object]
) -> tuple[Snapshot, object]:
    """Make a chain, do a piece of work with it, and return its snapshot and the result."""
    key = (id(problem), pickle.dumps((kind, dict(recipe))))
    # The problem is kept with the chain: while it is there, no other one has its address.
    with _lock:
        _, chain = _idle.pop(key, (problem, None))
    if chain is None:
        # Its random stream is in the snapshot.
        chain = kind(problem, seed=np.random.SeedSequence(0), **recipe)
    chain.restore(snapshot)
    result = work(chain)
    after = chain.snapshot()
    with _lock:
        _idle[key] = (problem, chain)
        while len(_idle) > _MOST_IDLE:
            del _idle[next(iter(_idle))]
    return after, result


def forget_idle_chains() -> None:
    """Forget the chains that are kept for the next piece of work."""
    with _lock:
        _idle.clear()
