"""Repeat an experiment many times and set the detections beside published figures and exact ceilings."""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from modejump.experiments.ceiling import exact_ceiling
from modejump.experiments.detection import Detection, detect, rates
from modejump.experiments.effort import Effort, find_laws, prime
from modejump.experiments.ledger import Ledger, Outcome, Rows
from modejump.experiments.protocols import EXPERIMENTS, Experiment, Planets
from modejump.experiments.published import published_figures
from modejump.problem.feature_problem import FeatureProblem

Progress = Callable[[float, float, str], None]
CEILING = "ceiling"


@dataclass(frozen=True, eq=False)
class Trial:
    """An experiment under one protocol and budget, repeated.

    Attributes
    ----------
    experiment, protocol, spelling : str
        Which experiment, under which priors.
    planets : Planets
        The data.
    budget : str
        ``paper`` or ``seconds=S``, for each run.
    algorithms : sequence of str
        Samplers to compare.
    threads : sequence of int
        Numbers of chains that make up a run.
    runs : int
        Runs for each algorithm and number of chains.
    seed : int
        Every run's seed is spawned from it.
    """

    experiment: str
    protocol: str
    spelling: str
    planets: Planets
    budget: str
    algorithms: Sequence[str]
    threads: Sequence[int]
    runs: int
    seed: int

    @property
    def design(self) -> Experiment:
        """The experiment's true laws, threshold and budgets."""
        return EXPERIMENTS[self.experiment]

    @cached_property
    def effort(self) -> Effort:
        """How long each run takes."""
        return Effort.parse(self.budget, self.design.distinct)

    @cached_property
    def problem(self) -> FeatureProblem:
        """What is searched."""
        return self.planets.problem(self.design, self.protocol, self.spelling, **self.effort.limits)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What decides the outcome of a single run, its algorithm, threads and number apart."""
        return {
            "experiment": self.experiment,
            "protocol": self.protocol,
            "spelling": self.spelling,
            "budget": self.budget,
            "seed": self.seed,
            "data": "simulated" if self.planets.simulated else digest(self.planets.frame),
            "eta": self.design.eta,
        }

    def cells(self) -> Iterator[tuple[str, int]]:
        """Each algorithm with each number of threads."""
        for algorithm in self.algorithms:
            for threads in self.threads:
                yield algorithm, threads

    def run(self, algorithm: str, threads: int, number: int) -> Outcome:
        """One run: what it detected, and how long it took."""
        seed = run_seed(self.seed, (self.experiment, self.protocol, algorithm), (threads, number))
        started = time.perf_counter()
        found = find_laws(self.problem, algorithm, threads, self.effort, seed)
        seconds = time.perf_counter() - started
        truth = self.planets.laws(self.design)
        seen = detect(self.problem, truth, found.laws, found.probability, self.design.eta, found.alphas)
        return {
            "seconds": seconds,
            "true": list(seen.true),
            "false": list(seen.false),
            "posterior": seen.posterior,
        }

    def rows(self, outcomes: Mapping[str, Outcome]) -> Rows:
        """One row for each algorithm and number of threads that has a finished run."""
        made = []
        truth = [law.text for law in self.planets.laws(self.design)]
        for algorithm, threads in self.cells():
            keys = [run_key(algorithm, threads, i) for i in range(self.runs)]
            done = [outcomes[key] for key in keys if key in outcomes]
            if not done:
                continue
            summary = rates([Detection(tuple(o["true"]), tuple(o["false"]), o["posterior"]) for o in done], truth)
            figures = None if self.planets.simulated else published_figures(self.experiment, algorithm, threads)
            made.append(
                {
                    "experiment": self.experiment,
                    "protocol": self.protocol,
                    "algorithm": algorithm,
                    "threads": threads,
                    "runs": len(done),
                    **asdict(summary),
                    "seconds_per_run": sum(o["seconds"] for o in done) / len(done),
                    "published": None if figures is None else figures._asdict(),
                    "ceiling": outcomes.get(CEILING, {}).get("value"),
                }
            )
        return made


def reproduce(trial: Trial, path: Path | None = None, jobs: int = 1, progress: Progress | None = None) -> Rows:
    """Run what is not yet in the file and return the rows.

    Parameters
    ----------
    trial : Trial
        What to repeat.
    path : path, optional
        JSON file that is written after every run and that a later call goes on from.
    jobs : int
        Runs side by side, in threads.
    progress : callable, optional
        Called with (done, total, note).
    """
    ledger = Ledger(path, trial.settings, trial.rows)
    wanted = [(a, t, i) for a, t in trial.cells() for i in range(trial.runs)]
    missing = [cell for cell in wanted if run_key(*cell) not in ledger.outcomes]
    if CEILING not in ledger.outcomes:
        if progress:
            progress(0, max(1, len(missing)), "exact ceiling")
        ledger.add(CEILING, {"value": exact_ceiling(trial.problem, trial.planets.laws(trial.design), trial.design.eta)})
    for algorithm in sorted({a for a, _, _ in missing}):
        prime(trial.problem, algorithm)

    def work(cell: tuple[str, int, int]) -> None:
        ledger.add(run_key(*cell), trial.run(*cell))

    def tell(done: int, cell: tuple[str, int, int]) -> None:
        if progress:
            progress(done, len(missing), f"{cell[0]}, threads {cell[1]}, run {cell[2] + 1} of {trial.runs}")

    side_by_side(work, missing, jobs, tell)
    ledger.write()
    return trial.rows(ledger.outcomes)


def side_by_side(
    work: Callable[[Any], None], cells: Sequence[Any], jobs: int, tell: Callable[[int, Any], None]
) -> None:
    """Do the work for every cell, ``jobs`` at a time; compiled code leaves the interpreter to the others.

    Parameters
    ----------
    work : callable
        Called with each cell.
    cells : sequence
        What to work on, in order.
    jobs : int
        Threads.
    tell : callable
        Called with the number of cells done and the cell that was last done.
    """
    if jobs <= 1:
        for done, cell in enumerate(cells, 1):
            work(cell)
            tell(done, cell)
        return
    with ThreadPoolExecutor(jobs) as pool:
        waiting: dict[Future[None], Any] = {pool.submit(work, cell): cell for cell in cells}
        done = 0
        try:
            while waiting:
                finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    future.result()
                    done += 1
                    tell(done, waiting.pop(future))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def run_key(*parts: str | int) -> str:
    """Name of a run in the file."""
    return "/".join(map(str, parts))


def run_seed(seed: int, names: Sequence[str], numbers: Sequence[int]) -> np.random.SeedSequence:
    """The seed of one run, spawned from the user's by what the run is, whatever else is run."""
    return np.random.SeedSequence(seed, spawn_key=(*(zlib.crc32(name.encode()) for name in names), *numbers))


def digest(frame: pd.DataFrame) -> str:
    """A fingerprint of the numbers and names of a table."""
    text = ",".join(map(str, frame.columns)).encode()
    return hashlib.sha256(text + np.ascontiguousarray(frame.to_numpy(np.float64)).tobytes()).hexdigest()[:16]
