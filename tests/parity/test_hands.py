"""Threads that share work: all parts are done once, whoever does them, and a failure is heard by all."""

from __future__ import annotations

import threading
import time

import pytest

from modejump.core.threads import ThreadPool
from modejump.runtime.executors import SLICES, Crew


class Counting:
    """Stands for a chain: notes what it was asked for, and that no two threads work on it at once."""

    def __init__(self, pause: float = 0.0) -> None:
        self.asked: list[int] = []
        self.pause = pause
        self._busy = threading.Lock()

    def work(self, count: int) -> None:
        assert self._busy.acquire(blocking=False), "two threads at one chain"
        time.sleep(self.pause * count)
        self.asked.append(count)
        self._busy.release()


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("parts", [0, 1, 2, 40])
def test_parts_are_done_once_and_told_in_order(count: int, parts: int) -> None:
    done: list[int] = []

    def work(part: int) -> int:
        done.append(part)
        return part * part

    hands = ThreadPool(count)
    # After a close there is work again.
    for _ in range(2):
        done.clear()
        with hands:
            assert hands.share(work, parts) == [part * part for part in range(parts)]
        assert sorted(done) == list(range(parts))


@pytest.mark.parametrize("count", [1, 3])
def test_a_part_that_fails_ends_the_work(count: int) -> None:
    done: list[int] = []

    def work(part: int) -> None:
        if part == 2:
            raise ZeroDivisionError
        time.sleep(0.01)
        done.append(part)

    with ThreadPool(count) as hands, pytest.raises(ZeroDivisionError):
        hands.share(work, 1000)
    assert len(done) < 100


@pytest.mark.parametrize("workers", [1, 2, 3, 9])
@pytest.mark.parametrize("count", [1, 7, 50])
def test_every_chain_is_worked_on_as_often_as_asked(workers: int, count: int) -> None:
    crew, chains = Crew(workers), [Counting() for _ in range(8)]
    crew.repeat(chains, Counting.work, count)  # type: ignore[type-var]
    crew.close()
    assert [sum(chain.asked) for chain in chains] == [count] * 8
    assert all(min(chain.asked) >= 1 for chain in chains)
    assert workers > 1 or all(chain.asked == [count] for chain in chains)


def test_a_slow_chain_is_left_in_time() -> None:
    crew, chains = Crew(2), [Counting(0.003 if i == 7 else 0.0005) for i in range(8)]
    crew.repeat(chains, Counting.work, 64)  # type: ignore[type-var]
    crew.close()
    # No part is more than half of the work, or less than a slice of it, but for what is left over.
    for chain in chains:
        assert max(chain.asked) <= 32
        assert all(part >= 64 // SLICES for part in chain.asked[:-1])


class Side:
    """Work beside the chains, in pieces."""

    def __init__(self, pieces: int) -> None:
        self.left = pieces
        self._busy = threading.Lock()

    @property
    def done(self) -> bool:
        return self.left == 0

    def go_on(self) -> None:
        assert self._busy.acquire(blocking=False), "two threads at one work"
        time.sleep(0.0005)
        self.left -= 1
        self._busy.release()

    def finish(self) -> None:
        while not self.done:
            self.go_on()


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("pieces", [0, 3, 10_000])
def test_work_is_done_aside_while_there_is_work_for_others(workers: int, pieces: int) -> None:
    crew, chains, side = Crew(workers), [Counting(0.0005) for _ in range(4)], Side(pieces if workers > 1 else 3)
    crew.repeat(chains, Counting.work, 16, side)  # type: ignore[type-var]
    crew.close()
    assert [sum(chain.asked) for chain in chains] == [16] * 4
    assert crew.overlaps(4) == (workers > 1) and not crew.overlaps(1)
    # Long work does not hold up the chains; short work is done.
    assert side.done if workers == 1 or pieces <= 3 else 0 < side.left < pieces


def test_a_chain_that_fails_ends_the_piece() -> None:
    crew, chains = Crew(2), [Counting(0.0005) for _ in range(40)]

    def work(chain: Counting, count: int) -> None:
        if chain is chains[1]:
            raise ZeroDivisionError
        chain.work(count)

    with pytest.raises(ZeroDivisionError):
        crew.repeat(chains, work, 32)  # type: ignore[type-var]
    crew.close()
    assert sum(bool(chain.asked) for chain in chains) < 20
