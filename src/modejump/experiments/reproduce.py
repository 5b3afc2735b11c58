"""Repeat an experiment many times and set the detections beside published figures and ceilings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from modejump.experiments.detection import Detection, detect, rates
from modejump.experiments.effort import Effort, find_laws, prime
from modejump.experiments.ledger import Cell, Outcome, Rows, finished, run_seed
from modejump.experiments.published import published_figures
from modejump.features.expression import Expression
from modejump.problem.feature_problem import FeatureProblem
from modejump.samplers.settings import Sampler

# Stands for an algorithm among the cells.
CEILING = "ceiling"


@dataclass(frozen=True, eq=False)
class Design:
    """What is repeated: data, priors and true laws."""

    name: str
    protocol: str  # its priors by name
    priors: str  # in a few words
    perfect: str  # the posterior whose detections are the ceiling, in a few words
    # For each kind of features the true laws by label; each kind has rows of its own. The name of a kind is empty
    # where there is no other.
    laws: Mapping[str, Mapping[str, str]]
    eta: float  # a law is detected where its posterior probability exceeds this
    paper: Effort  # the paper's budget
    settings: Mapping[str, Any]  # what decides the outcome of a run, besides the names above, budget and seed
    # The search problem, from a kind of features and the seed of a run's data; other settings of the space by name.
    problem: Callable[..., FeatureProblem]
    # What a perfect sampler would detect, from a problem and its true laws; None where nobody knows.
    ceiling: Callable[[FeatureProblem, Sequence[Expression]], Detection | None]
    each: bool = False  # whether each true law is to be detected; otherwise any one of them will do
    fresh: bool = False  # whether each run has data of its own


@dataclass(frozen=True, eq=False)
class Trial:
    """An experiment under one budget, repeated."""

    design: Design  # data, priors and true laws
    budget: str  # ``paper`` or ``seconds=S``, for each run
    algorithms: Sequence[str]  # samplers to compare
    threads: Sequence[int]  # numbers of chains that make up a run
    runs: int  # runs for each kind of features, algorithm and number of chains
    seed: int  # every run's seed is spawned from it
    sampler: str | None = None  # settings of RGMJMCMC: "paper", or None for our default

    @cached_property
    def effort(self) -> Effort:
        """How long each run takes."""
        return Effort.parse(self.budget, self.design.paper)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What decides the outcome of a single run, its features, algorithm, threads and number apart."""
        return {
            "experiment": self.design.name,
            "protocol": self.design.protocol,
            "budget": self.budget,
            "sampler": self.sampler,
            "seed": self.seed,
            "eta": self.design.eta,
            **self.design.settings,
        }

    def cells(self) -> list[Cell]:
        """The ceilings, then each kind of features and algorithm with each number of threads, so many times."""
        tables = self.runs if self.design.fresh else 1
        ceilings: list[Cell] = [(features, CEILING, 0, i) for features in self.design.laws for i in range(tables)]
        return ceilings + [(*row, i) for row in self._row_names() for i in range(self.runs)]

    def _row_names(self) -> list[tuple[str, str, int]]:
        return [(f, a, t) for f in self.design.laws for a in self.algorithms for t in self.threads]

    def problem(self, features: str, number: int) -> FeatureProblem:
        """What a run searches."""
        seed = run_seed(self.seed, self.design.name, "data", number)
        return self.design.problem(features, seed, **self.effort.limits)

    def prime(self, missing: Sequence[Cell]) -> None:
        """Compile what these runs need."""
        for features, algorithm in sorted({(str(cell[0]), str(cell[1])) for cell in missing}):
            if algorithm != CEILING:
                prime(self.problem(features, 0), algorithm, Sampler.resolve(self.sampler))

    def run(self, cell: Cell) -> Outcome:
        """One run: what it detected, and how long it took."""
        features, algorithm, threads, number = str(cell[0]), str(cell[1]), int(cell[2]), int(cell[3])
        problem = self.problem(features, number)
        label = {problem.language.parse(text): label for label, text in self.design.laws[features].items()}
        truth = list(label)
        if algorithm == CEILING:
            exact = self.design.ceiling(problem, truth)
            return {"known": False} if exact is None else {"known": True, **_outcome(exact, label)}
        seed = run_seed(self.seed, self.design.name, self.design.protocol, *cell)
        started = time.perf_counter()
        found = find_laws(problem, algorithm, threads, self.effort, seed, Sampler.resolve(self.sampler))
        seconds = time.perf_counter() - started
        assert found.laws is not None
        seen = detect(problem, truth, found.laws.features, found.probability, self.design.eta, found.laws.constants)
        said = {"level": found.verdict.level, "search": found.verdict.search}
        return {"seconds": seconds, **said, **_outcome(seen, label)}

    def rows(self, outcomes: Mapping[str, Outcome]) -> Rows:
        """One row for each kind of features, algorithm and number of threads that has a finished run."""
        made = []
        for features, algorithm, threads in self._row_names():
            done = finished(outcomes, self.runs, features, algorithm, threads)
            if not done:
                continue
            truth = list(self.design.laws[features])
            figures = published_figures(self.design.name, algorithm, threads, features)
            made.append(
                {
                    "experiment": self.design.name,
                    "protocol": self.design.protocol,
                    **({"features": features} if features else {}),
                    "algorithm": algorithm,
                    "threads": threads,
                    "runs": len(done),
                    **asdict(rates(list(map(_detection, done)), truth, self.design.each)),
                    "seconds_per_run": sum(o["seconds"] for o in done) / len(done),
                    "well_searched": sum(o.get("search") == "well searched" for o in done),
                    "published": None if figures is None else _named(figures._asdict(), truth),
                    "ceiling": self._ceiling(outcomes, features),
                }
            )
        return made

    def _ceiling(self, outcomes: Mapping[str, Outcome], features: str) -> dict[str, Any] | None:
        """Rates of the ceilings, and the mean posterior probability of each true law; None where they are not known."""
        done = finished(outcomes, self.runs, features, CEILING, 0)
        if not done or not all(outcome["known"] for outcome in done):
            return None
        truth = list(self.design.laws[features])
        summary = rates(list(map(_detection, done)), truth, self.design.each)
        posterior = {law: round(sum(o["posterior"][law] for o in done) / len(done), 6) for law in truth}
        return {"power": summary.power, "fp": summary.fp, "fdr": summary.fdr, "posterior": posterior}


def _outcome(seen: Detection, label: Mapping[Expression, str]) -> Outcome:
    """A detection as plain data, true laws by their labels."""
    of_text = {feature.text: name for feature, name in label.items()}
    return {
        "true": [of_text[text] for text in seen.true],
        "false": list(seen.false),
        "posterior": {of_text.get(text, text): p for text, p in seen.posterior.items()},
    }


def _detection(outcome: Outcome) -> Detection:
    return Detection(tuple(outcome["true"]), tuple(outcome["false"]), outcome["posterior"])


def _named(figures: dict[str, Any], truth: Sequence[str]) -> dict[str, Any]:
    """Published figures; the laws by label, and left out where none were published."""
    laws = figures.pop("laws")
    return figures | {"laws": dict(zip(truth, laws, strict=True))} if laws else figures
