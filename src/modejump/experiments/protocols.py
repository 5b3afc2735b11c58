"""The experiments on planets: what is explained by what, which laws are true, and under which priors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.experiments.ceiling import exact_ceiling
from modejump.experiments.detection import Detection
from modejump.experiments.effort import Effort
from modejump.experiments.ledger import digest
from modejump.experiments.planets import load_exoplanets
from modejump.experiments.reproduce import Design
from modejump.features.expression import Expression
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.priors.coefficients import CoefPrior, Jeffreys, KnownVariance
from modejump.priors.complexity import ComplexityPrior
from modejump.problem.feature_problem import FeatureProblem, feature_problem

PROTOCOLS = ("text", "script")
SPELLINGS = ("canonical", "trees")
FUNCTIONS = "G2"
DEPTH, SIZE = 5, 15
COLUMNS = (
    "TypeFlag", "PlanetaryMassJpt", "RadiusJpt", "PeriodDays", "SemiMajorAxisAU", "Eccentricity", "HostStarMassSlrMass",
    "HostStarRadiusSlrRad", "HostStarMetallicity", "HostStarTempK", "PlanetaryDensJpt",
)  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    """One experiment, in terms of the catalogue's columns."""

    name: str  # what the command line calls it
    target: str  # column to explain
    laws: tuple[str, ...]  # the true laws; each run should detect at least one
    protocol: str  # protocol of the published table
    threads: tuple[int, ...]  # numbers of chains in the published table
    paper: Effort  # the paper's budget
    # A law is detected where its posterior probability exceeds this.
    eta: float = 0.25

    @property
    def truth(self) -> tuple[Feature, ...]:
        """The true laws as features."""
        return tuple(map(Feature.parse, self.laws))


EXPERIMENTS: Mapping[str, Experiment] = {
    "mass": Experiment(
        "mass",
        "PlanetaryMassJpt",
        ("PlanetaryDensJpt*RadiusJpt*RadiusJpt*RadiusJpt",),
        "text",
        (1, 4, 16),
        Effort(distinct=10_000),
    ),
    "kepler": Experiment(
        "kepler",
        "SemiMajorAxisAU",
        tuple(
            f"troot(PeriodDays*PeriodDays*{star})"
            for star in ("HostStarMassSlrMass", "HostStarRadiusSlrRad", "HostStarTempK")
        ),
        "script",
        (1, 16, 64),
        Effort(distinct=20_000),
    ),
}


@dataclass(frozen=True, eq=False)
class Planets:
    """A catalogue of planets."""

    frame: pd.DataFrame  # one row for each planet

    @classmethod
    def of(cls, frame: pd.DataFrame | None = None, where: str = "the table") -> Planets:
        """A catalogue with the columns of the published one, which is the default; other columns are ignored."""
        frame = load_exoplanets() if frame is None else frame
        missing = [name for name in COLUMNS if name not in frame.columns]
        if missing:
            raise InputError(f"{where} has no column {missing[0]!r}; experiments on planets need {', '.join(COLUMNS)}.")
        for name in COLUMNS:
            if not pd.api.types.is_numeric_dtype(frame[name]):
                raise InputError(f"column {name!r} of {where} holds text; experiments on planets need numbers.")
        return cls(frame[list(COLUMNS)])

    def problem(self, experiment: Experiment, protocol: str, spelling: str, **limits: int) -> FeatureProblem:
        """The search problem of an experiment.

        The protocol "text" has unknown variance, Jeffreys prior and a = 1/n^2; "script" unit variance, flat
        coefficients and a = 1/n.
        """
        covariates = self.frame.drop(columns=experiment.target)
        coef_prior: CoefPrior = KnownVariance(1.0) if protocol == "script" else Jeffreys()
        return feature_problem(
            covariates.to_numpy(np.float64),
            self.frame[experiment.target].to_numpy(np.float64),
            list(covariates.columns),
            transforms=[transforms[name] for name in transforms.set(FUNCTIONS)],
            space=Space(depth=DEPTH, size=SIZE, **limits),  # type: ignore[arg-type]
            coef_prior=coef_prior,
            model_prior=ComplexityPrior("1/n" if protocol == "script" else "1/n^2", spelling),
        )


def planet_design(experiment: Experiment, protocol: str, spelling: str, planets: Planets) -> Design:
    """An experiment on planets under one protocol, for a trial to repeat."""

    def problem(features: str, seed: np.random.SeedSequence, **limits: int) -> FeatureProblem:
        return planets.problem(experiment, protocol, spelling, **limits)

    def ceiling(problem: FeatureProblem, truth: Sequence[Expression]) -> Detection | None:
        return exact_ceiling(problem, truth, experiment.eta)

    return Design(
        name=experiment.name,
        protocol=protocol,
        priors=f"{spelling} prior",
        perfect="the exact posterior",
        laws={"": {law.text: law.text for law in experiment.truth}},
        eta=experiment.eta,
        paper=experiment.paper,
        settings={"spelling": spelling, "data": digest(planets.frame)},
        problem=problem,
        ceiling=ceiling,
    )


def default_spelling(experiment: str, protocol: str) -> str:
    """The spelling that the papers used: their program for the mass took each tree for a feature of its own."""
    return "trees" if (experiment, protocol) == ("mass", "script") else "canonical"
