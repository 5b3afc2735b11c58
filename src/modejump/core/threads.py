"""A pool of threads whose results do not depend on how many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

from threadpoolctl import threadpool_limits


def one_blas_thread() -> AbstractContextManager[Any]:
    """Around work that threads of ours share: they do not wait for others, and sums do not depend on their number."""
    return threadpool_limits(1, user_api="blas")


class ThreadPool:
    """Threads that start with the first work and end with ``close``; work after that starts them again."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Results of a function for each item, in order."""
        return list(self.stream(work, items))

    def stream(self, work: Callable[[Any], Any], items: Iterable[Any], aside: bool = False) -> Iterator[Any]:
        """The same one by one; after an error or an interrupt no further item is begun.

        A single thread is the caller's own, unless the work is to be done aside of it.
        """
        some = list(items)
        if not aside and (self.count == 1 or len(some) < 2):
            yield from map(work, some)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count)
        yield from self._pool.map(work, some)

    def close(self) -> None:
        """Wait for work under way, and end the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
