"""Intervals of coefficients cover the truth as often as they say.

With model, g and coefficients drawn from their priors, the posterior of a Gaussian coefficient is calibrated exactly:
its distribution function at the truth is uniform, once the jump at zero is spread evenly over it, and given that the
coefficient is in the model an interval of 90 % covers it with probability 0.90. The priors of generalised linear models
depend on the data, so that there moderate effects are fixed, and intervals are those of ten problems over all families.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from running import enumerate_models

from modejump.posterior import Posterior
from modejump.posterior.questions.coefficient_posteriors import CoefficientPosteriors, coefficient_intervals
from modejump.problem.problem import Problem

LEVEL = 0.9
# A correct method exceeds this many standard errors with probability 6e-5.
SIGMAS = 4.0
Rng = np.random.Generator

# --- data from the prior ----------------------------------------------------------------------------------------------

ROWS, TERMS = 14, 3


def g_of(prior: str, rng: Rng) -> float:
    """A draw of g from its prior."""
    if prior == "g":
        return float(ROWS)
    if prior == "hyper-g":
        u = rng.beta(1.0, 0.5)
        return float(u / (1.0 - u))
    assert prior == "jzs"
    return float(ROWS / 2.0 / rng.gamma(0.5))


def from_the_prior(prior: str, runs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each data set: randomised distribution functions at the truth, and whether intervals given inclusion cover.

    The second is NaN for coefficients that are zero.
    """
    rng = np.random.default_rng(seed)
    uniform, covered = np.empty((runs, TERMS)), np.full((runs, TERMS), np.nan)
    ends = np.array([0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    for run in range(runs):
        x = rng.normal(size=(ROWS, TERMS)) @ (np.eye(TERMS) + 0.4)
        inside = np.flatnonzero(rng.random(TERMS) < 0.5)
        z, beta = (x - x.mean(axis=0))[:, inside], np.zeros(TERMS)
        if len(inside):
            root = np.linalg.qr(z, mode="r")
            beta[inside] = np.sqrt(g_of(prior, rng)) * np.linalg.solve(root, rng.normal(size=len(inside)))
        y = 3.0 + (x - x.mean(axis=0)) @ beta + rng.normal(size=ROWS)
        problem = Problem.build(x, y, coef_prior=prior, model_prior="uniform")
        found = CoefficientPosteriors(Posterior(problem, enumerate_models(problem)).predictor())
        given = found.quantiles(ends, conditional=True)[1:]
        covered[run, inside] = ((given[:, 0] <= beta) & (beta <= given[:, 1]))[inside]
        for j in range(TERMS):
            density = found.density(j + 1, "", 2)
            below = density.cdf(beta[j])
            uniform[run, j] = below - rng.random() * density.zero * (beta[j] == 0.0)
    return uniform, covered


def off(values: np.ndarray, wanted: float) -> float:
    """Distance of a mean from what it should be, in standard errors over data sets."""
    by_set = np.nanmean(values[~np.isnan(values).all(axis=1)], axis=1)
    return float((by_set.mean() - wanted) / (by_set.std(ddof=1) / np.sqrt(len(by_set))))


def check_calibrated(prior: str, runs: int, seed: int) -> None:
    uniform, covered = from_the_prior(prior, runs, seed)
    assert abs(off(covered, LEVEL)) < SIGMAS
    for p in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert abs(off(uniform <= p, p)) < SIGMAS
    assert ((uniform >= 0.0) & (uniform <= 1.0)).all()


@pytest.mark.parametrize("prior", ["g", "hyper-g"])
def test_posteriors_of_coefficients_are_calibrated(prior: str) -> None:
    check_calibrated(prior, 250, 81)


@pytest.mark.full
@pytest.mark.parametrize("prior", ["g", "hyper-g", "jzs"])
def test_posteriors_of_coefficients_are_calibrated_in_long_simulations(prior: str) -> None:
    check_calibrated(prior, 1500, 82)


# --- ten problems over all families -----------------------------------------------------------------------------------


class Case(NamedTuple):
    """A problem with fixed effects: those of four columns, the first two of which are there."""

    family: str
    link: str
    prior: str
    rows: int
    intercept: float
    effects: tuple[float, float]
    respond: Callable[[np.ndarray, Rng], np.ndarray]
    correlation: float = 0.0
    offset: bool = False


def normal(eta: np.ndarray, rng: Rng) -> np.ndarray:
    return eta + rng.normal(size=len(eta))


def logistic(eta: np.ndarray, rng: Rng) -> np.ndarray:
    return (eta + rng.logistic(size=len(eta)) > 0.0).astype(float)


def probit(eta: np.ndarray, rng: Rng) -> np.ndarray:
    return (eta + rng.normal(size=len(eta)) > 0.0).astype(float)


def counts(eta: np.ndarray, rng: Rng) -> np.ndarray:
    return rng.poisson(np.exp(eta)).astype(float)


def amounts(eta: np.ndarray, rng: Rng) -> np.ndarray:
    return rng.gamma(3.0, np.exp(eta) / 3.0)


CASES = {
    "gaussian, g": Case("gaussian", "identity", "g", 80, 1.0, (0.8, -0.7), normal),
    "gaussian, bic": Case("gaussian", "identity", "bic", 80, 2.0, (0.8, 0.8), normal, 0.5),
    "logistic, g": Case("binomial", "logit", "g", 400, 0.3, (0.9, -0.7), logistic),
    "logistic, bic": Case("binomial", "logit", "bic", 400, -0.3, (0.8, 0.8), logistic, 0.3),
    "probit, g": Case("binomial", "probit", "g", 400, -0.2, (0.6, -0.5), probit),
    "poisson, g": Case("poisson", "log", "g", 150, 0.7, (0.4, -0.35), counts),
    "poisson with offset, bic": Case("poisson", "log", "bic", 150, 0.5, (0.4, 0.35), counts, 0.3, True),
    "gamma, g": Case("gamma", "log", "g", 120, 1.0, (0.4, -0.35), amounts),
    "gamma, hyper-g": Case("gamma", "log", "hyper-g", 120, -1.0, (0.4, 0.35), amounts, 0.3),
}


def coverage(case: Case, runs: int, seed: int) -> np.ndarray:
    """Of each data set: share of the intercept and the two effects that the intervals cover."""
    rng, out = np.random.default_rng(seed), np.empty(runs)
    truth = np.array([case.intercept, *case.effects])
    for run in range(runs):
        common = rng.normal(size=(case.rows, 1))
        x = np.sqrt(1.0 - case.correlation) * rng.normal(size=(case.rows, 4)) + np.sqrt(case.correlation) * common
        offset = rng.uniform(0.0, 1.0, case.rows) if case.offset else None
        eta = case.intercept + x[:, :2] @ np.array(case.effects) + (0.0 if offset is None else offset)
        problem = Problem.build(
            x, case.respond(eta, rng), coef_prior=case.prior, model_prior="uniform", family=case.family, link=case.link,
            offset=offset,
        )  # fmt: skip
        table = coefficient_intervals(Posterior(problem, enumerate_models(problem)), LEVEL)
        out[run] = ((table["lower"][:3] <= truth) & (truth <= table["upper"][:3])).mean()
    return out


QUICK = ("gaussian, g", "logistic, g", "poisson, g", "gamma, g")


@pytest.mark.parametrize("name", QUICK)
def test_intervals_of_moderate_effects_cover_what_they_say(name: str) -> None:
    share = coverage(CASES[name], 120, 83)
    assert abs(off(share[:, None], LEVEL)) < SIGMAS


@pytest.mark.full
@pytest.mark.parametrize("name", [*CASES, "gaussian, hyper-g, from the prior"])
def test_intervals_cover_on_ten_problems_over_all_families(name: str) -> None:
    if name in CASES:
        share = coverage(CASES[name], 1000, 84)
    else:
        covered = from_the_prior("hyper-g", 1000, 85)[1]
        share = np.nanmean(covered[~np.isnan(covered).all(axis=1)], axis=1)
    error = share.std(ddof=1) / np.sqrt(len(share))
    print(f"{name}: coverage {share.mean():.4f}, error {error:.4f}")
    assert 0.87 < share.mean() < 0.93
