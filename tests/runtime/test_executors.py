"""Threads that share work: every piece is done once, whoever does it, and a failure ends the work of all."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from modejump.core.threads import ThreadPool
from modejump.runtime.executors import SLICES, Executor


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

    def snapshot(self) -> Any:
        return sum(self.asked)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("items", [0, 1, 2, 40])
def test_items_are_done_once_and_come_back_in_order(count: int, items: int) -> None:
    done: list[int] = []

    def square(item: int) -> int:
        done.append(item)
        return item * item

    pool = ThreadPool(count)
    # After a close there is work again.
    for _ in range(2):
        done.clear()
        with pool:
            assert pool.map(square, range(items)) == [item * item for item in range(items)]
        assert sorted(done) == list(range(items))


@pytest.mark.parametrize("count", [1, 3])
def test_an_item_that_fails_ends_the_work(count: int) -> None:
    done: list[int] = []

    def work(item: int) -> None:
        if item == 2:
            raise ZeroDivisionError
        time.sleep(0.01)
        done.append(item)

    with ThreadPool(count) as pool, pytest.raises(ZeroDivisionError):
        pool.map(work, range(1000))
    assert len(done) < 100


@pytest.mark.parametrize("count", [1, 3])
def test_who_stops_listening_stops_the_work(count: int) -> None:
    """An interrupt reaches the main thread between two results."""
    done: list[int] = []

    def work(item: int) -> int:
        time.sleep(0.01)
        done.append(item)
        return item

    with ThreadPool(count) as pool:
        for item in pool.stream(work, range(1000)):
            if item == 2:
                break
    assert 3 <= len(done) < 100


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("items", [1, 4])
def test_work_aside_leaves_the_callers_thread_free(count: int, items: int) -> None:
    with ThreadPool(count) as pool:
        workers = set(pool.stream(lambda _: threading.get_ident(), range(items), aside=True))
        assert threading.get_ident() not in workers and len(workers) <= count
        alone = set(pool.stream(lambda _: threading.get_ident(), range(items)))
        assert (threading.get_ident() in alone) == (count == 1 or items == 1)


@pytest.mark.parametrize("workers", [1, 2, 3, 9])
@pytest.mark.parametrize("count", [1, 7, 50])
def test_every_chain_is_worked_on_as_often_as_asked(workers: int, count: int) -> None:
    executor, chains = Executor(workers), [Counting() for _ in range(8)]
    executor.repeat(Counting.work, chains, count)
    assert executor.snapshots(chains) == [count] * 8
    executor.close()
    assert all(min(chain.asked) >= 1 for chain in chains)
    assert workers > 1 or all(chain.asked == [count] for chain in chains)


@pytest.mark.parametrize("workers", [1, 3])
def test_tasks_are_given_the_problem_and_numbered(workers: int) -> None:
    executor = Executor(workers)
    executor.open("problem")
    found = sorted(executor.run(lambda problem, a, b: (problem, a + b), [(i, 10) for i in range(7)]))
    executor.close()
    assert found == [(i, ("problem", i + 10)) for i in range(7)]


def test_a_slow_chain_is_left_in_time() -> None:
    executor, chains = Executor(2), [Counting(0.003 if i == 7 else 0.0005) for i in range(8)]
    executor.repeat(Counting.work, chains, 64)
    executor.close()
    # No piece is more than half of the work, or less than a slice of it, but for what is left over.
    for chain in chains:
        assert max(chain.asked) <= 32
        assert all(piece >= 64 // SLICES for piece in chain.asked[:-1])


class Side:
    """Work beside the chains, in pieces."""

    def __init__(self, pieces: int) -> None:
        self.left = pieces
        self._busy = threading.Lock()

    @property
    def done(self) -> bool:
        return self.left == 0

    def continue_(self) -> None:
        assert self._busy.acquire(blocking=False), "two threads at one work"
        time.sleep(0.0005)
        self.left -= 1
        self._busy.release()

    def finish(self) -> None:
        while not self.done:
            self.continue_()


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("pieces", [0, 3, 10_000])
def test_work_is_done_aside_while_there_is_work_for_others(workers: int, pieces: int) -> None:
    executor, chains = Executor(workers), [Counting(0.0005) for _ in range(4)]
    side = Side(pieces if workers > 1 else min(pieces, 3))
    executor.repeat(Counting.work, chains, 16, side)
    executor.close()
    assert [sum(chain.asked) for chain in chains] == [16] * 4
    assert executor.overlaps(4) == (workers > 1) and not executor.overlaps(1)
    # Long work does not hold up the chains; short work is done.
    assert side.done if workers == 1 or pieces <= 3 else 0 < side.left < pieces


def test_a_chain_that_fails_ends_the_piece() -> None:
    executor, chains = Executor(2), [Counting(0.0005) for _ in range(40)]

    def work(chain: Counting, count: int) -> None:
        if chain is chains[1]:
            raise ZeroDivisionError
        chain.work(count)

    with pytest.raises(ZeroDivisionError):
        executor.repeat(work, chains, 32)
    executor.close()
    assert sum(bool(chain.asked) for chain in chains) < 20
