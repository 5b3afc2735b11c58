"""How far estimates are from exact posteriors, as a function of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.experiments.ceiling import exact_laws
from modejump.experiments.detection import same_column
from modejump.experiments.effort import Effort, find_laws, prime
from modejump.experiments.ledger import Cell, Outcome, Rows, digest, finished, run_seed
from modejump.experiments.protocols import EXPERIMENTS, Planets
from modejump.features.expression import Expression
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.posterior import Posterior
from modejump.priors.coefficients import GPrior
from modejump.priors.complexity import ComplexityPrior
from modejump.problem.feature_problem import FeatureProblem, feature_problem
from modejump.problem.problem import Problem
from modejump.samplers.budget import Budget
from modejump.samplers.plan import Plan
from modejump.samplers.sample import sample

ALGORITHMS = ("mjmcmc", "gmjmcmc", "rgmjmcmc")
ESTIMATES = ("frequency", "renormalised")
# Chains of each sampler, as the estimators have them.
CHAINS = {"mjmcmc": 4, "gmjmcmc": 16, "rgmjmcmc": 16}
# Laws that count have at least this exact probability.
LEAST = 0.01
MOST_TERMS = 22


class Estimate(NamedTuple):
    """Estimated probabilities of a case's laws; no frequency where the sampler has none."""

    frequency: np.ndarray | None
    renormalised: np.ndarray


@dataclass(frozen=True, eq=False)
class Case:
    """A posterior that is known."""

    name: str  # what the rows call it
    title: str  # and the panels
    algorithms: tuple[str, ...]  # samplers that apply
    exact: np.ndarray  # exact probabilities of the laws that count
    # Estimates of the same from an algorithm, seconds and a seed.
    estimate: Callable[[str, float, np.random.SeedSequence], Estimate]
    prime: Callable[[str], None]  # compiles what an algorithm needs
    data: str  # fingerprint of the data


def selection_case(frame: pd.DataFrame | None) -> Case:
    """Selection among covariates of a table, or of simulated data like it: g-prior with g = n, uniform prior,
    enumeration.
    """
    data = _simulate_selection() if frame is None else _checked_selection(frame)
    covariates = data.drop(columns="y")
    problem = Problem.build(
        covariates.to_numpy(np.float64),
        data["y"].to_numpy(np.float64),
        terms={str(name): [j] for j, name in enumerate(covariates.columns)},
        coef_prior=GPrior(g=float(len(data))),
    )
    exact = sample(problem, Plan("enumerate")).renormalised
    counts = exact > LEAST

    def estimate(algorithm: str, seconds: float, seed: np.random.SeedSequence) -> Estimate:
        posterior = Posterior(
            problem, sample(problem, Plan("mjmcmc", CHAINS[algorithm], Budget(seconds=seconds), seed))
        )
        frequency = posterior.frequency
        return Estimate(None if frequency is None else frequency[counts], posterior.renormalised[counts])

    def prime_selection(algorithm: str) -> None:
        sample(problem, Plan("mjmcmc", 1, Budget(warmup=100, steps=100)))

    name = "selection" if frame is None else "crime"
    title = f"{name}: {problem.n_terms} covariates, {problem.rows} rows"
    return Case(name, title, ("mjmcmc",), exact[counts], estimate, prime_selection, digest(data))


def laws_case(
    name: str, title: str, problem: FeatureProblem, laws: Sequence[Expression], exact: np.ndarray, data: str
) -> Case:
    """Search among features whose exact posterior is given."""
    counts = np.flatnonzero(exact > LEAST).tolist()
    wanted = [laws[i] for i in counts]

    def estimate(algorithm: str, seconds: float, seed: np.random.SeedSequence) -> Estimate:
        found = find_laws(problem, algorithm, CHAINS[algorithm], Effort(seconds), seed)
        assert found.laws is not None
        same = same_column(problem, wanted, found.laws.features, found.laws.constants)
        # GMJMCMC's populations follow no chain on a fixed space, so its visits estimate nothing.
        frequency = None if algorithm == "gmjmcmc" else same @ found.probability
        return Estimate(frequency, same @ found.renormalised)

    def prime_laws(algorithm: str) -> None:
        prime(problem, algorithm)

    return Case(name, title, ("gmjmcmc", "rgmjmcmc"), exact[counts], estimate, prime_laws, data)


def small_space_case() -> Case:
    """A simulated law among three covariates, in a space small enough to evaluate every model."""
    rng = np.random.default_rng(20)
    x = rng.uniform(0.2, 2.0, (60, 3))
    y = x[:, 0] * x[:, 1] + np.sin(2.0 * x[:, 2]) + rng.standard_normal(60)
    problem = feature_problem(
        x,
        y,
        ["a", "b", "c"],
        transforms=[transforms["sin"], transforms["troot"]],
        space=Space(depth=2, width=3, complexity=3, size=3, population=10),
        coef_prior="g",
        model_prior=ComplexityPrior("exp(-1)"),
    )
    laws, exact = exact_laws(problem, everything=True)
    title = f"small space: 3 covariates, {len(laws)} laws, models of at most {problem.size}"
    return laws_case("small-space", title, problem, laws, exact, "simulated")


def planets_case(planets: Planets) -> Case:
    """Kepler's third law under the protocol of the papers' program; exact but for models of three and more."""
    design = EXPERIMENTS["kepler"]
    problem = planets.problem(design, "script", "canonical")
    laws, exact = exact_laws(problem)
    title = f"planets: Kepler's law, {len(problem.names)} covariates"
    return laws_case("planets", title, problem, laws, exact, digest(planets.frame))


@dataclass(frozen=True, eq=False)
class Study:
    """Errors over cases, algorithms and times."""

    cases: Sequence[Case]  # posteriors that are known
    algorithms: Sequence[str]  # samplers to compare
    seconds: Sequence[float]  # times of a run
    runs: int  # seeds for each
    seed: int  # every run's seed is spawned from it

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the outcome of a single run, its case, algorithm, seconds and number apart."""
        return {"experiment": "accuracy", "seed": self.seed, "data": {case.name: case.data for case in self.cases}}

    def _kinds(self) -> list[tuple[str, str, float]]:
        """Each case with each of its algorithms and each time."""
        return [
            (case.name, algorithm, float(seconds))
            for case in self.cases
            for algorithm in self.algorithms
            if algorithm in case.algorithms
            for seconds in self.seconds
        ]

    def cells(self) -> list[Cell]:
        """Each of them so many times."""
        return [(*kind, i) for i in range(self.runs) for kind in self._kinds()]

    def _case(self, name: Any) -> Case:
        return next(case for case in self.cases if case.name == name)

    def prime(self, missing: Sequence[Cell]) -> None:
        """Compile what these runs need."""
        for name, algorithm in dict.fromkeys((cell[0], str(cell[1])) for cell in missing):
            self._case(name).prime(algorithm)

    def run(self, cell: Cell) -> Outcome:
        """One run: errors of its estimates."""
        case, algorithm, seconds = self._case(cell[0]), str(cell[1]), float(cell[2])
        seed = run_seed(self.seed, "accuracy", case.name, algorithm, f"{seconds:g}", int(cell[3]))
        started = time.perf_counter()
        estimate = case.estimate(algorithm, seconds, seed)
        outcome: Outcome = {"seconds": time.perf_counter() - started}
        for kind, values in zip(ESTIMATES, estimate, strict=True):
            if values is not None:
                outcome[kind] = errors(values, case.exact)
        return outcome

    def rows(self, outcomes: Mapping[str, Outcome]) -> Rows:
        """One row for each case, algorithm, kind of estimate and time that has a finished run."""
        made = []
        for name, algorithm, seconds in self._kinds():
            done = finished(outcomes, self.runs, name, algorithm, seconds)
            for kind in ESTIMATES:
                kept = [o[kind] for o in done if kind in o]
                if kept:
                    made.append(
                        {
                            "experiment": "accuracy",
                            "case": name,
                            "algorithm": algorithm,
                            "estimate": kind,
                            "seconds": seconds,
                            "runs": len(kept),
                            "error": median(k["largest"] for k in kept),
                            "total_variation": median(k["total_variation"] for k in kept),
                            "laws": len(self._case(name).exact),
                        }
                    )
        return made


def errors(estimate: np.ndarray, exact: np.ndarray) -> dict[str, float]:
    """Largest difference of probabilities, and half the sum of all."""
    difference = np.abs(estimate - exact)
    return {"largest": float(difference.max()), "total_variation": float(0.5 * difference.sum())}


def _checked_selection(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of numbers with a response and few enough covariates to enumerate."""
    if "y" not in frame.columns:
        raise InputError("the table of the selection case has no column 'y'; name the response so.")
    for name in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            raise InputError(f"column {name!r} of the selection case holds text; give numbers.")
    if not 1 <= frame.shape[1] - 1 <= MOST_TERMS:
        raise InputError(
            f"the selection case has {frame.shape[1] - 1} covariates; its exact answer wants between 1 and "
            f"{MOST_TERMS} of them."
        )
    return frame


def _simulate_selection(rows: int = 47, terms: int = 15) -> pd.DataFrame:
    """Correlated covariates of which a few matter, of the size of the crime data."""
    rng = np.random.default_rng(15)
    x = 0.6 * rng.standard_normal((rows, 1)) + rng.standard_normal((rows, terms))
    y = x[:, :4] @ np.array([0.9, -0.7, 0.5, 0.35]) + rng.standard_normal(rows)
    return pd.DataFrame(x, columns=[f"x{j + 1}" for j in range(terms)]).assign(y=y)
