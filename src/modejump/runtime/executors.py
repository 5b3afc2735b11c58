"""Who works on the chains of a run: threads of this process, or processes elsewhere.

A run is a sequence of stages. In a stage every chain does the same work, alone, and the findings of all chains are
merged before the next stage begins. A chain has a random stream of its own and a snapshot that holds all of its future,
so the answer does not depend on who does the work, in which order, or how often a part of it had to be repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from modejump.core.threads import ThreadPool
from modejump.runtime.snapshots import Snapshot

# A chain is left, for one that is behind, at most after so small a part of its work.
SLICES = 64


class Movable(Protocol):
    """A chain that can be made again elsewhere."""

    def recipe(self) -> Mapping[str, Any]:
        """Arguments of the class, besides the problem and the random stream."""

    def snapshot(self) -> Snapshot:
        """The chain between two pieces of work."""

    def restore(self, snapshot: Snapshot) -> None:
        """Continue from where a chain of the same problem was when the snapshot was taken."""


class Aside(Protocol):
    """Work that has nothing to do with the chains, in short pieces."""

    done: bool

    def continue_(self) -> None:
        """The next piece."""

    def finish(self) -> object:
        """All that is left."""


class Pace(NamedTuple):
    """How long a piece of work should be: less than ``short`` seconds is too little, more than ``long`` too much, and
    a chain makes at most ``steps`` steps in one, or what it makes in ``seconds``.
    """

    short: float
    long: float
    steps: int
    seconds: float


class Executor:
    """Threads of this process; see :class:`modejump.runtime.remote.RemoteExecutor` for others."""

    # Whether chains have to travel.
    remote = False
    # Pieces end often enough to show progress and to answer interrupts.
    pace = Pace(0.05, 0.3, 25_000, 4.0)

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self.problem: Any = None
        # Threads of this process, for work that stays here whatever the executor.
        self.pool = ThreadPool(workers)

    def threads(self, chains: int) -> int:
        """Threads for each of so many chains, where there are more workers than chains."""
        return max(1, self.workers // chains)

    def overlaps(self, chains: int) -> bool:
        """Whether a worker can do something else while others work on so many chains."""
        return self.workers > 1 and chains > 1

    def open(self, problem: Any) -> None:
        """Prepare for the chains of a problem."""
        self.problem = problem

    def compile(self, work: Callable[..., object], *args: Any) -> None:
        """Compile in remote workers, before any clock runs, what ``work(problem, *args)`` has compiled here."""

    def run(self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Call ``work(problem, *task)`` for each task; numbers and results as they come."""
        return enumerate(self.pool.stream(lambda task: work(self.problem, *task), tasks))

    def map(self, work: Callable[[Any], Any], chains: Sequence[Movable]) -> list[Any]:
        """Do a piece of work on every chain; what it returned for each."""
        return self.pool.map(work, chains)

    def repeat(
        self, work: Callable[..., object], chains: Sequence[Movable], count: int, aside: Aside | None = None
    ) -> None:
        """Do something ``count`` times on every chain.

        Chains differ in the time that they take. So a thread leaves a chain after half of what is left to do, and
        takes the chain that is most behind. What is to be done aside, one thread does first.
        """
        if not self.overlaps(len(chains)):
            if aside is not None:
                aside.finish()
            for chain in chains:
                work(chain, count=count)
            return
        left, free, lock = [count] * len(chains), set(range(len(chains))), threading.Lock()
        least, stopped = -(-count // SLICES), threading.Event()

        def share(thread: int) -> None:
            while thread == 0 and aside is not None and not (aside.done or stopped.is_set()) and max(left) > 0:
                aside.continue_()
            while not stopped.is_set():
                with lock:
                    ready = [i for i in sorted(free) if left[i] > 0]
                    if not ready:
                        return
                    mine = max(ready, key=left.__getitem__)
                    some = min(left[mine], max(least, left[mine] // 2))
                    free.remove(mine)
                    left[mine] -= some
                try:
                    work(chains[mine], count=some)
                except BaseException:
                    stopped.set()
                    raise
                with lock:
                    free.add(mine)

        try:
            self.pool.map(share, range(min(self.workers, len(chains))))
        except BaseException:
            stopped.set()
            raise

    def snapshots(self, chains: Sequence[Movable]) -> list[Snapshot]:
        """Where all chains are."""
        return self.pool.map(lambda chain: chain.snapshot(), chains)

    def close(self) -> None:
        """End the workers; those of this process start again when there is work."""
        self.pool.close()
