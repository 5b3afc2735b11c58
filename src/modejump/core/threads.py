"""Threads of this process that share a piece of work whose parts do not depend on their number."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Hands:
    """Threads; there are none before there is work, and none after ``close``, until there is work again.

    Parameters
    ----------
    count : int
        How many work at once.
    """

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Hands:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for whoever works, and let all go."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def share(self, work: Callable[[int], Any], parts: int) -> list:
        """Do all parts of a work, by their number; what each returned.

        The parts are the same for any number of threads, and none needs what another makes.
        """
        if self.count == 1 or parts == 1:
            return [work(part) for part in range(parts)]
        results: list[Any] = [None] * parts
        waiting = iter(range(parts))

        def labour(stopped: threading.Event) -> None:
            for part in waiting:
                results[part] = work(part)
                if stopped.is_set():
                    return

        self.all(labour, parts)
        return results

    def all(self, labour: Callable[[threading.Event], None], most: int) -> None:
        """Let all threads, or so many, do the same until all are done.

        They are told when one of them has failed, or when the user wants no more.
        """
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count)
        stopped = threading.Event()

        def watched(_: int) -> None:
            try:
                labour(stopped)
            except BaseException:
                stopped.set()
                raise

        try:
            list(self._pool.map(watched, range(min(self.count, most))))
        except BaseException:
            stopped.set()
            raise
