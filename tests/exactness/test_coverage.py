"""Prediction intervals cover new observations as often as they say.

Where the prior of the coefficients is proper the posterior predictive distribution is calibrated exactly:
with the model, g and the coefficients drawn from their priors, an interval of 90 % covers a new observation
with probability 0.90, whatever intercept and variance are (their priors are invariant). So simulation has a
known answer, and a method that leaves a source of uncertainty out is caught. Under flat priors the same holds
given the model, so there a design with moderate signals is used, where the model is mostly clear.

Every data set brings several new rows; errors are computed over data sets, because rows of one are dependent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from running import enumerate_models
from scipy import stats

from modejump.posterior import Posterior
from modejump.posterior.prediction.distribution import NewRows, new_rows
from modejump.priors.coefficients import KnownVariance
from modejump.problem.problem import Problem

LEVEL = 0.9
# A correct method exceeds this many standard errors with probability 6e-5.
SIGMAS = 4.0
ALPHA, SIGMA = 5.0, 2.0
ROWS, TERMS, NEW = 12, 4, 20

Interval = Callable[[Posterior, NewRows], tuple[np.ndarray, np.ndarray]]


def averaged(posterior: Posterior, new: NewRows) -> tuple[np.ndarray, np.ndarray]:
    """The intervals under test."""
    return posterior.predictor().interval(new, LEVEL)


def best_model_only(posterior: Posterior, new: NewRows) -> tuple[np.ndarray, np.ndarray]:
    """A mutant that leaves out model uncertainty: the best model's predictive distribution."""
    return posterior.predictor("best").interval(new, LEVEL)


def noise_only(posterior: Posterior, new: NewRows) -> tuple[np.ndarray, np.ndarray]:
    """A mutant that leaves out model and parameter uncertainty: the best model's fit and its noise."""
    predictor = posterior.predictor("best")
    centre = predictor.mean(new)
    half = stats.norm.ppf(0.5 + LEVEL / 2) * np.sqrt(predictor.scale2 @ predictor.weight)
    return centre - half, centre + half


def spread_of_fits(posterior: Posterior, new: NewRows) -> tuple[np.ndarray, np.ndarray]:
    """A mutant that leaves out the noise: the spread of the models' own fits."""
    predictor = posterior.predictor()
    (_, fitted, _, _), *_ = predictor._blocks(new)
    order = np.argsort(fitted, axis=1)
    held = np.cumsum(predictor.models.weight[order], axis=1)
    ends = []
    for p in (0.5 - LEVEL / 2, 0.5 + LEVEL / 2):
        at = np.argmax(held >= p - 1e-12, axis=1)
        ends.append(np.take_along_axis(np.sort(fitted, axis=1), at[:, None], axis=1)[:, 0])
    centre = new.base @ posterior.problem.base_coef
    return centre + ends[0], centre + ends[1]


METHODS = (averaged, best_model_only, noise_only, spread_of_fits)


def g_of(prior: str, n: int, k: int, rng: np.random.Generator) -> float:
    """A draw of g from its prior, for a model of k columns beside the intercept."""
    if prior == "g":
        return float(n)
    if prior in ("hyper-g", "hyper-g-n"):
        u = rng.beta(1.0, 0.5)
        return float(u / (1 - u)) * (n if prior == "hyper-g-n" else 1)
    if prior == "jzs":
        return float((n / 2) / rng.gamma(0.5))
    if prior == "robust":
        return float((1 + n) / (1 + k) / rng.random() ** 2 - 1)
    if prior == "intrinsic":
        return float(n / ((1 + k) * rng.beta(0.5, 0.5)))
    assert prior == "beta-prime"
    return float(1 / rng.beta(0.25, (n - 1 - k - 0.5) / 2) - 1)


class Draw(NamedTuple):
    """Training rows and new rows."""

    x: np.ndarray
    y: np.ndarray
    new_x: np.ndarray
    new_y: np.ndarray


def from_the_prior(prior: str, rng: np.random.Generator) -> Draw:
    """Model from the uniform prior, g and coefficients from theirs, then training and new observations."""
    mixing = np.eye(TERMS) + 0.4
    x, new_x = rng.normal(size=(ROWS, TERMS)) @ mixing, rng.normal(size=(NEW, TERMS)) @ mixing
    inside = np.flatnonzero(rng.random(TERMS) < 0.5)
    centre = x.mean(axis=0)
    z = (x - centre)[:, inside]
    beta = np.zeros(TERMS)
    if len(inside):
        g = g_of(prior, ROWS, len(inside), rng)
        # z = QR, so R^-1 times white noise has covariance (z'z)^-1.
        beta[inside] = SIGMA * np.sqrt(g) * np.linalg.solve(np.linalg.qr(z, mode="r"), rng.normal(size=len(inside)))
    y = ALPHA + (x - centre) @ beta + SIGMA * rng.normal(size=ROWS)
    new_y = ALPHA + (new_x - centre) @ beta + SIGMA * rng.normal(size=NEW)
    return Draw(x, y, new_x, new_y)


def moderate_signal(_: str, rng: np.random.Generator) -> Draw:
    """Fixed coefficients that sixty rows see well, and as many that are zero."""
    beta = SIGMA * np.array([1.0, 0.0, -0.8, 0.0])
    x, new_x = rng.normal(size=(60, 4)), rng.normal(size=(NEW, 4))
    return Draw(
        x,
        ALPHA + x @ beta + SIGMA * rng.normal(size=60),
        new_x,
        ALPHA + new_x @ beta + SIGMA * rng.normal(size=NEW),
    )


def coverage(
    prior: str,
    draw: Callable[[str, np.random.Generator], Draw],
    runs: int,
    seed: int,
    methods: tuple[Interval, ...] = (averaged,),
) -> dict[str, np.ndarray]:
    """Share of the new rows of each data set that each method's interval covers."""
    rng = np.random.default_rng(seed)
    spec = KnownVariance(SIGMA**2) if prior == "known-variance" else prior
    out = {method.__name__: np.empty(runs) for method in methods}
    for i in range(runs):
        d = draw(prior, rng)
        problem = Problem.build(d.x, d.y, coef_prior=spec, model_prior="uniform")
        posterior = Posterior(problem, enumerate_models(problem))
        new = new_rows(problem, d.new_x)
        for method in methods:
            lower, upper = method(posterior, new)
            out[method.__name__][i] = ((lower <= d.new_y) & (d.new_y <= upper)).mean()
    return out


@cache
def covered(prior: str, runs: int) -> dict[str, np.ndarray]:
    """Coverage with data from the prior, computed once for all tests that look at it."""
    return coverage(prior, from_the_prior, runs, 71, METHODS if prior in BROKEN else (averaged,))


def deviation(share: np.ndarray) -> float:
    """Distance of the coverage from its level, in standard errors over data sets."""
    return float((share.mean() - LEVEL) / (share.std(ddof=1) / np.sqrt(len(share))))


QUICK = ("g", "hyper-g", "jzs", "robust")
# Of these the methods that leave something out are tried.
BROKEN = ("g", "hyper-g")
PROPER = (*QUICK, "hyper-g-n", "intrinsic", "beta-prime")
RUNS = 300


@pytest.mark.parametrize("prior", QUICK)
def test_intervals_cover_what_they_say(prior: str) -> None:
    assert abs(deviation(covered(prior, RUNS)["averaged"])) < SIGMAS


def pooled(method: str, priors: tuple[str, ...]) -> np.ndarray:
    return np.concatenate([covered(prior, RUNS)[method] for prior in priors])


def test_coverage_over_all_priors_is_within_two_hundredths() -> None:
    share = pooled("averaged", QUICK)
    # The band is wide enough for the simulation: a correct method leaves it with probability below 1e-4.
    assert SIGMAS * share.std(ddof=1) / np.sqrt(len(share)) < 0.02
    assert 0.88 < share.mean() < 0.92


@pytest.mark.parametrize("mutant", ["best_model_only", "noise_only", "spread_of_fits"])
def test_methods_that_leave_uncertainty_out_are_caught(mutant: str) -> None:
    share = pooled(mutant, BROKEN)
    assert deviation(share) < -SIGMAS
    assert share.mean() < 0.88


FLAT = ["bic", "known-variance", "eb-local", *[pytest.param(p, marks=pytest.mark.full) for p in ("jeffreys", "aic")]]


@pytest.mark.parametrize("prior", FLAT)
def test_flat_priors_cover_with_moderate_signals(prior: str) -> None:
    share = coverage(prior, moderate_signal, 300, seed=72)["averaged"]
    assert SIGMAS * share.std(ddof=1) / np.sqrt(len(share)) < 0.02
    assert 0.88 < share.mean() < 0.92


@pytest.mark.full
@pytest.mark.parametrize("prior", PROPER)
def test_intervals_cover_what_they_say_in_long_simulations(prior: str) -> None:
    share = coverage(prior, from_the_prior, 2500, seed=73)["averaged"]
    assert abs(deviation(share)) < SIGMAS
    assert abs(share.mean() - LEVEL) < 0.01
