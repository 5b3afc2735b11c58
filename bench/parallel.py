"""Row 12: chains side by side, and what checkpoints cost."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import joblib
import numpy as np

from bench.genetic import planets_problem
from bench.measure import Line, Note, Pace, Series, interleave, rate_lines, timed
from bench.problems import gauss
from modejump.runtime.checkpoints import Checkpoint
from modejump.runtime.context import Context
from modejump.runtime.executors import Executor
from modejump.runtime.remote import executor_for
from modejump.runtime.snapshots import Snapshot
from modejump.samplers.budget import Budget
from modejump.samplers.plan import Plan
from modejump.samplers.result import Result
from modejump.samplers.sample import sample

# Who works on the chains, by joblib's name.
WORKERS = {"one": "sequential", "two threads": "threading", "two processes": "loky"}


@dataclass(frozen=True)
class Size:
    """How much work the row does: repetitions, chains, steps of each; seconds of a run, and between checkpoints."""

    repetitions: int = 3
    chains: int = 8
    terms: int = 60
    steps: int = 2_000_000
    reversible_steps: int = 500_000
    seconds: float = 60.0
    every: float = 10.0


class Counted(Checkpoint):
    """Checkpoints whose cost is noted: seconds for which the chains stood still, and CPU seconds of the writer."""

    def __init__(self, directory: str, every: float) -> None:
        super().__init__(directory, every)
        self.costs: list[float] = []
        self.bytes = 0

    def save(self, state: Mapping[str, Any], arrays: Snapshot) -> None:
        """Hand over a state."""
        super().save(state, arrays)
        self.bytes = sum(array.nbytes for array in arrays.values())

    def _write(self, state: Mapping[str, Any], arrays: Snapshot) -> None:
        super()._write(state, arrays)
        self.costs.append(self._cost)


def _same(one: Result, other: Result) -> bool:
    assert one.batch_means is not None and other.batch_means is not None
    columns = ("words", "log_posterior", "visits", "first_seen", "chains")
    pairs = [(one.batch_means, other.batch_means), (one.renormalised, other.renormalised)]
    pairs += [(getattr(one.models, name), getattr(other.models, name)) for name in columns]
    return all(np.array_equal(ours, theirs) for ours, theirs in pairs) and one.log_evidence == other.log_evidence


def lines(row: int, size: Size) -> Iterator[Line | Note]:
    """Two workers against one on the same chains, and the share of the time that checkpoints take."""
    linear, planets = gauss(size.terms).problem, planets_problem(223)
    for name, problem, steps in (
        (f"MJMCMC, {size.terms} terms", linear, size.steps),
        ("RGMJMCMC, planets", planets, size.reversible_steps),
    ):
        algorithm = name.split(",")[0].lower()
        sample(problem, Plan(algorithm, chains=2, budget=Budget(warmup=300, steps=100)))
        plan = Plan(algorithm, chains=size.chains, budget=Budget(steps=steps), seed=1)
        yield from _worker_lines(row, name, partial(sample, problem, plan), size)
        plan = Plan(algorithm, chains=size.chains, budget=Budget(seconds=size.seconds), seed=1)
        yield from _cost_lines(row, name, partial(sample, problem, plan), size)


def _worker_lines(row: int, name: str, run: Callable[[Context], Result], size: Size) -> Iterator[Line | Note]:
    results: dict[str, Result] = {}
    sampling: dict[str, list[float]] = {workers: [] for workers in WORKERS}

    def work(repetition: int, workers: str) -> Pace:
        with joblib.parallel_config(backend=WORKERS[workers], n_jobs=2):
            executor = executor_for(1 if workers == "one" else 2)
            found, clock = timed(lambda: run(Context(executor=executor)))
        results[workers] = found
        sampling[workers].append(found.seconds)
        return Pace(found.steps, clock)

    found, _ = interleave({workers: partial(work, workers=workers) for workers in WORKERS}, size.repetitions)
    for two in ("two threads", "two processes"):
        what = f"{name}, {size.chains} chains, {two}"
        by_cpu, by_wall = rate_lines(row, what, "steps", found[two], found["one"], "one worker")
        # The CPU time of other processes is not counted.
        yield from (by_wall,) if two == "two processes" else (by_cpu, by_wall)
        ours, theirs = Series.of(sampling[two]), Series.of(sampling["one"])
        yield Line(row, f"{what}, sampling alone", "wall s", ours, theirs, "one worker", less=True)
        if not _same(results["one"], results[two]):
            yield Note(row, f"{name}: {two} gave another result than one.")


def _cost_lines(row: int, name: str, run: Callable[[Context], Result], size: Size) -> Iterator[Line | Note]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        keeper = Counted(folder, size.every)
        _, clock = timed(lambda: run(Context(None, Executor(2), keeper)))
        share = Series.of([sum(keeper.costs) / clock.wall])
    yield Line(row, f"{name}, checkpoints every {size.every:g} s", "share of wall", share, less=True)
    yield Note(
        row,
        f"{name}: {len(keeper.costs)} checkpoints in {clock.wall:.0f} s, the last of {keeper.bytes / 2**20:.0f} MiB; "
        "counted are the seconds for which the chains stood still and the CPU seconds of the writing thread.",
    )
