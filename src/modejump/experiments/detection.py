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

    Parameters
    ----------
    problem : FeatureProblem
        The data.
    wanted, found : sequence of features
        Features to look for, and those to look at.
    constants : mapping, optional
        Constants inside features.

    Returns
    -------
    ndarray of bool, shape (wanted, found)
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
    """What one posterior detects.

    Attributes
    ----------
    true : tuple of str
        True laws above the threshold, in the words of the experiment.
    false : tuple of str
        Other features above it.
    posterior : dict
        Posterior probability of each true law and of each false detection.
    """

    true: tuple[str, ...]
    false: tuple[str, ...]
    posterior: dict[str, float]

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
    """Compare a posterior with the truth.

    Parameters
    ----------
    problem : FeatureProblem
        The data.
    truth : sequence of features
        The true laws.
    laws : sequence of features
        Laws of the posterior.
    probability : ndarray of shape (laws,)
        Their posterior probabilities.
    eta : float
        A law is detected where its probability exceeds this.
    constants : mapping, optional
        Constants inside features.
    """
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
    """What many detections say together.

    Attributes
    ----------
    power : float
        Share of the runs that detect at least one true law, or share of the true laws that are detected.
    power_low, power_high : float
        Its exact binomial confidence interval (level 0.95), as if laws were detected independently of each other.
    fp : float
        Mean number of false detections.
    fdr : float
        Mean share of the detections that are false.
    laws : dict
        Share of the runs that detect each true law.
    """

    power: float
    power_low: float
    power_high: float
    fp: float
    fdr: float
    laws: dict[str, float]


def rates(detections: Sequence[Detection], truth: Sequence[str], each: bool = False) -> Rates:
    """Summarise detections.

    Parameters
    ----------
    detections : sequence of Detection
        One for each run.
    truth : sequence of str
        The true laws.
    each : bool
        Whether each true law is to be detected; otherwise any one of them will do.
    """
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


def clopper_pearson(hits: int, runs: int, level: float = LEVEL) -> tuple[float, float]:
    """Exact confidence interval of a binomial probability.

    Parameters
    ----------
    hits, runs : int
        Successes and trials.
    level : float
        Level of the interval.

    Examples
    --------
    >>> low, high = clopper_pearson(0, 10)
    >>> low, round(high, 4)
    (0.0, 0.3085)
    """
    tail = (1.0 - level) / 2.0
    low = float(beta.ppf(tail, hits, runs - hits + 1)) if hits > 0 else 0.0
    high = float(beta.ppf(1.0 - tail, hits + 1, runs - hits)) if hits < runs else 1.0
    return low, high
