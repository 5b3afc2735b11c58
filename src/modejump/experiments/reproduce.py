"""Repeat an experiment many times and set the detections beside published figures and exact ceilings."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from modejump.experiments.ceiling import exact_ceiling
from modejump.experiments.detection import Detection, detect, rates
from modejump.experiments.effort import Effort, find_laws, prime
from modejump.experiments.ledger import Cell, Outcome, Rows, digest, run_key, run_seed
from modejump.experiments.protocols import EXPERIMENTS, Experiment, Planets
from modejump.experiments.published import published_figures
from modejump.problem.feature_problem import FeatureProblem
from modejump.samplers.settings import Sampler

CEILING: Cell = ("exact ceiling",)


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
    sampler : str, optional
        Settings of RGMJMCMC: "paper", or None for our default.
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
    sampler: str | None = None

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
            "sampler": self.sampler,
            "seed": self.seed,
            "data": digest(self.planets.frame),
            "eta": self.design.eta,
        }

    def cells(self) -> list[Cell]:
        """The exact ceiling, then each algorithm with each number of threads, so many times."""
        kinds = [(algorithm, threads) for algorithm in self.algorithms for threads in self.threads]
        return [CEILING, *((algorithm, threads, i) for algorithm, threads in kinds for i in range(self.runs))]

    def prime(self, missing: Sequence[Cell]) -> None:
        """Compile what these runs need."""
        for algorithm in sorted({str(cell[0]) for cell in missing if cell != CEILING}):
            prime(self.problem, algorithm, Sampler.resolve(self.sampler))

    def run(self, cell: Cell) -> Outcome:
        """One run: what it detected, and how long it took."""
        truth, eta = self.design.truth, self.design.eta
        if cell == CEILING:
            return {"value": exact_ceiling(self.problem, truth, eta)}
        algorithm, threads, number = str(cell[0]), int(cell[1]), int(cell[2])
        seed = run_seed(self.seed, self.experiment, self.protocol, algorithm, threads, number)
        started = time.perf_counter()
        found = find_laws(self.problem, algorithm, threads, self.effort, seed, Sampler.resolve(self.sampler))
        seconds = time.perf_counter() - started
        assert found.laws is not None
        seen = detect(self.problem, truth, found.laws.features, found.probability, eta, found.laws.constants)
        return {
            "seconds": seconds,
            "true": list(seen.true),
            "false": list(seen.false),
            "posterior": seen.posterior,
        }

    def rows(self, outcomes: Mapping[str, Outcome]) -> Rows:
        """One row for each algorithm and number of threads that has a finished run."""
        made = []
        truth = [law.text for law in self.design.truth]
        for algorithm, threads in ((a, t) for a in self.algorithms for t in self.threads):
            keys = [run_key(algorithm, threads, i) for i in range(self.runs)]
            done = [outcomes[key] for key in keys if key in outcomes]
            if not done:
                continue
            summary = rates([Detection(tuple(o["true"]), tuple(o["false"]), o["posterior"]) for o in done], truth)
            figures = published_figures(self.experiment, algorithm, threads)
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
                    "ceiling": outcomes.get(run_key(*CEILING), {}).get("value"),
                }
            )
        return made
