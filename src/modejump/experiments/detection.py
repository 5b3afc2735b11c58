"""Which laws a posterior detects, and what many runs together say: power, false detections, false discovery rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from modejump.features.expression import Expression
from modejump.problem.feature_problem import FeatureProblem
from modejump.samplers.laws import SAME_LAW

LEVEL = 0.95


def same_column(
    problem: FeatureProblem,
    wanted: Sequence[Expression],
    found: Sequence[Expression],
    constants: Mapping[Expression, np.ndarray] | None = None,
) -> np.ndarray:
    """Which of the features found are the wanted ones: their columns agree up to sign, scale and level.

    A matrix of truth values, one line for each feature wanted.
    """

    def standardised(features: Sequence[Expression]) -> np.ndarray:
        z = np.array(problem.language.columns(features, problem.table, constants or {})).reshape(
            len(features), problem.x.shape[1]
        )
        with np.errstate(all="ignore"):
            if problem.intercept:
                z = z - z.mean(axis=1, keepdims=True)
            z = z / np.abs(z).max(axis=1, keepdims=True)
            return z / np.linalg.norm(z, axis=1, keepdims=True)

    with np.errstate(invalid="ignore"):
        share = (standardised(wanted) @ standardised(found).T) ** 2
    # A column that is not finite or constant is no law: its share is NaN.
    return 1.0 - share < SAME_LAW


@dataclass(frozen=True)
class Detection:
    """What one posterior detects."""

    true: tuple[str, ...]  # true laws above the threshold, in the words of the experiment
    false: tuple[str, ...]  # other features above it
    posterior: dict[str, float]  # posterior probability of each true law and of each false detection

    @property
    def fdr(self) -> float:
        """Share of the detections that are false; 0 where nothing is detected."""
        return len(self.false) / max(1, len(self.true) + len(self.false))


def detect(
    problem: FeatureProblem,
    truth: Sequence[Expression],
    laws: Sequence[Expression],
    probability: np.ndarray,
    eta: float,
    constants: Mapping[Expression, np.ndarray] | None = None,
) -> Detection:
    """Compare a posterior with the truth; a law is detected where its probability exceeds eta."""
    probability = np.asarray(probability, dtype=np.float64)
    # Laws without weight are neither detections nor worth a column.
    alive = np.flatnonzero(probability > 1e-6).tolist()
    found = [laws[i] for i in alive]
    same = same_column(problem, truth, found, constants)
    share = same @ probability[alive]
    true = tuple(f.text for f, p in zip(truth, share, strict=True) if p > eta)
    wrong = [(f.text, float(probability[i])) for j, (i, f) in enumerate(zip(alive, found)) if not same[:, j].any()]
    wrong = sorted(((text, p) for text, p in wrong if p > eta), key=lambda item: -item[1])
    posterior = {f.text: float(p) for f, p in zip(truth, share, strict=True)} | dict(wrong)
    return Detection(true, tuple(text for text, _ in wrong), posterior)


@dataclass(frozen=True)
class Rates:
    """What many detections say together."""

    power: float  # share of the runs that detect at least one true law, or share of the true laws that are detected
    # power_low and power_high: its exact binomial confidence interval (level 0.95), as if laws were detected
    # independently of each other.
    power_low: float
    power_high: float
    fp: float  # mean number of false detections
    fdr: float  # mean share of the detections that are false
    laws: dict[str, float]  # share of the runs that detect each true law


def rates(detections: Sequence[Detection], truth: Sequence[str], each: bool = False) -> Rates:
    """Summarise detections of one or more runs; unless ``each``, any one of the true laws will do."""
    runs = len(detections)
    hits = sum(len(d.true) if each else bool(d.true) for d in detections)
    tries = runs * len(truth) if each else runs
    low, high = clopper_pearson(hits, tries)
    return Rates(
        hits / tries,
        low,
        high,
        sum(len(d.false) for d in detections) / runs,
        sum(d.fdr for d in detections) / runs,
        {law: sum(law in d.true for d in detections) / runs for law in truth},
    )


def clopper_pearson(hits: int, runs: int) -> tuple[float, float]:
    """Exact confidence interval of a binomial probability.

    Examples
    --------
    >>> low, high = clopper_pearson(0, 10)
    >>> low, round(high, 4)
    (0.0, 0.3085)
    """
    tail = (1.0 - LEVEL) / 2.0
    low = float(beta.ppf(tail, hits, runs - hits + 1)) if hits > 0 else 0.0
    high = float(beta.ppf(1.0 - tail, hits + 1, runs - hits)) if hits < runs else 1.0
    return low, high
