"""Every family of the registry, and likelihoods of the user's own, with marginal likelihoods in plain NumPy and SciPy.

Nothing here uses the package's fits: maxima come from Newton's method with a design on its original scale, means and
variances from textbooks, the gamma's shape from a root of SciPy's digamma function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, expit, log_expit, log_ndtr, ndtr
from scipy.stats import gamma, norm, poisson

from modejump.features.nonlinear.expression import Feature, evaluate
from modejump.likelihoods import FAMILIES
from modejump.likelihoods.custom.batch import BatchLikelihood
from modejump.likelihoods.custom.own import OwnLikelihood

Table = Mapping[str, np.ndarray]
# Steps of Newton's method, which ends where one no longer changes the estimate.
STEPS = 200


@dataclass(frozen=True)
class Case:
    """A likelihood: how to draw a response, how the library is told of it, and what a model is worth."""

    name: str
    draw: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    options: Callable[[Table, np.ndarray], dict[str, Any]]
    log_marginal: Callable[[np.ndarray, np.ndarray], float]


# --- means, derivatives and variances -------------------------------------------------------------------------


def mean_of(link: str, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean, and its derivative with respect to the linear predictor."""
    if link == "logit":
        return expit(eta), expit(eta) * expit(-eta)
    if link == "probit":
        return ndtr(eta), norm.pdf(eta)
    if link == "cloglog":
        return -np.expm1(-np.exp(eta)), np.exp(eta - np.exp(eta))
    if link == "log":
        return np.exp(eta), np.exp(eta)
    if link == "inverse":
        return 1.0 / eta, -1.0 / eta**2
    return eta, np.ones_like(eta)


VARIANCE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "binomial": lambda mu: mu * (1.0 - mu),
    "poisson": lambda mu: mu,
    "gamma": lambda mu: mu**2,
}


def log_likelihood(family: str, link: str, eta: np.ndarray, y: np.ndarray, shape: float) -> float:
    """Log density of the responses, all constants included."""
    if family == "poisson":
        return float(poisson.logpmf(y, np.exp(eta)).sum())
    if family == "gamma":
        return float(gamma.logpdf(y, shape, scale=mean_of(link, eta)[0] / shape).sum())
    upper, lower = {
        "logit": lambda: (log_expit(eta), log_expit(-eta)),
        "probit": lambda: (log_ndtr(eta), log_ndtr(-eta)),
        "cloglog": lambda: (np.log(mean_of(link, eta)[0]), -np.exp(eta)),
    }[link]()
    return float((y * upper + (1.0 - y) * lower).sum())


def sides(link: str, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of the log probabilities of 1 and, downwards, of 0."""
    mu, slope = mean_of(link, eta)
    with np.errstate(all="ignore"):
        return slope / mu, np.exp(eta) if link == "cloglog" else slope / ndtr(-eta)


def score_of(family: str, link: str, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Derivative of each row's log likelihood by the predictor."""
    if link in ("probit", "cloglog"):
        above, below = sides(link, eta)
        return y * above - (1.0 - y) * below
    mu, slope = mean_of(link, eta)
    return (y - mu) * slope / VARIANCE[family](mu)


def information(family: str, link: str, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Observed information of each row: minus the second derivative, which is the expected one of a canonical link."""
    if link in ("probit", "cloglog"):
        above, below = sides(link, eta)
        bend = eta if link == "probit" else np.exp(eta) - 1.0
        return y * above * (above + bend) + (1.0 - y) * below * (below - bend)
    mu, slope = mean_of(link, eta)
    return y / mu if (family, link) == ("gamma", "log") else slope**2 / VARIANCE[family](mu)


def fit(family: str, link: str, design: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Estimate, information, log likelihood and shape at the maximum, by Newton's method with halved steps."""
    beta = np.zeros(design.shape[1])
    first = {"log": math.log, "inverse": lambda m: 1.0 / m}.get(link, lambda m: 0.0)
    beta[0] = first(float(y.mean()))

    def value(b: np.ndarray) -> float:
        eta = design @ b
        if link == "inverse" and not (eta > 0.0).all():
            return -math.inf
        with np.errstate(all="ignore"):
            return log_likelihood(family, link, eta, y, 1.0)

    for _ in range(STEPS):
        eta = design @ beta
        score = design.T @ score_of(family, link, eta, y)
        info = design.T @ (information(family, link, eta, y)[:, None] * design)
        step = np.linalg.solve(info, score)
        before = value(beta)
        while not value(beta + step) >= before - 1e-9 and np.abs(step).max() > 1e-14:
            step *= 0.5
        beta = beta + step
        if np.abs(step).max() < 1e-13 * (1.0 + np.abs(beta).max()):
            break
    eta = design @ beta
    info = design.T @ (information(family, link, eta, y)[:, None] * design)
    shape = 1.0
    if family == "gamma":
        mu = mean_of(link, eta)[0]
        gap = float(np.mean(y / mu - 1.0 - np.log(y / mu)))
        shape = math.exp(brentq(lambda t: t - float(digamma(math.exp(t))) - gap, -20.0, 20.0, xtol=1e-14))
    return beta, shape * info, log_likelihood(family, link, eta, y, shape), shape


def laplace(family: str, link: str) -> Callable[[np.ndarray, np.ndarray], float]:
    """log p(y|M) under the g-prior with g = n, up to a constant that all models share."""

    def log_marginal(x: np.ndarray, y: np.ndarray) -> float:
        n, k = x.shape
        design = np.column_stack([np.ones(n), x])
        beta, info, value, _ = fit(family, link, design, y)
        rest = info[1:, 1:] - np.outer(info[1:, 0], info[0, 1:]) / info[0, 0]
        wald = float(beta[1:] @ rest @ beta[1:])
        return value - 0.5 * math.log(info[0, 0]) - 0.5 * k * math.log1p(n) - 0.5 * wald / (1.0 + n)

    return log_marginal


def gaussian(x: np.ndarray, y: np.ndarray) -> float:
    """log p(y|M) of a linear model under the g-prior with g = n, up to a constant."""
    n, k = x.shape
    rest = y - y.mean()
    total = float(rest @ rest)
    if k:
        z = x - x.mean(axis=0)
        rest = rest - z @ np.linalg.lstsq(z, rest, rcond=None)[0]
    return 0.5 * (n - 1 - k) * math.log1p(n) - 0.5 * (n - 1) * math.log1p(n * float(rest @ rest) / total)


# --- likelihoods of the user's own ----------------------------------------------------------------------------


def ridge(y, X, weights, params):
    """A linear model with unit noise and slopes from N(0, params[0]): the scale of the columns counts."""
    n, m = X.shape
    z = y - y.mean()
    precision = X.T @ X + np.eye(m) / params[0]
    loading = X.T @ z
    value = 0.5 * (loading @ np.linalg.solve(precision, loading)) - 0.5 * np.linalg.slogdet(precision)[1]
    return value - 0.5 * m * np.log(params[0])


# One for all problems: it is compiled once.
RIDGE = OwnLikelihood(ridge, [2.0])


def plain_ridge(x: np.ndarray, y: np.ndarray) -> float:
    """The same by the covariance of the response."""
    n = len(y)
    design = np.column_stack([np.ones(n), x])
    cov = np.eye(n) + 2.0 * design @ design.T
    z = y - y.mean()
    return float(-0.5 * z @ np.linalg.solve(cov, z) - 0.5 * np.linalg.slogdet(cov)[1])


def scorer(table: Table, y: np.ndarray) -> Callable[[list[tuple[str, ...]]], list[float]]:
    """Scores models by the names of their covariates or features."""

    def score(models: list[tuple[str, ...]]) -> list[float]:
        columns = [[evaluate(Feature.parse(name, list(table)), table) for name in model] for model in models]
        return [plain_ridge(np.array(c).reshape(len(c), len(y)).T, y) for c in columns]

    return score


# --- the cases ------------------------------------------------------------------------------------------------


# Given the weights of the rows, which are all one here, Student-t errors are Gaussian.
CONJUGATE = ("gaussian", "student")


def drawer(family: str, link: str) -> Callable[[np.ndarray, np.random.Generator], np.ndarray]:
    """Responses of a family whose signal is a number of order one for each row."""
    if family in CONJUGATE:
        return lambda signal, rng: signal + rng.normal(size=len(signal))
    if family == "poisson":
        return lambda signal, rng: rng.poisson(np.exp(0.8 + 0.4 * signal)).astype(float)
    if family == "binomial":
        return lambda signal, rng: (rng.random(len(signal)) < mean_of(link, 0.8 * signal - 0.2)[0]).astype(float)
    if link == "inverse":
        return lambda signal, rng: rng.gamma(2.0, 0.5 / (3.0 + np.tanh(signal)))
    return lambda signal, rng: rng.gamma(2.0, 0.5 * np.exp(0.3 * signal))


def of_registry(family: str, link: str) -> Case:
    value = gaussian if family in CONJUGATE else laplace(family, link)
    return Case(f"{family}, {link}", drawer(family, link), lambda table, y: {"family": family, "link": link}, value)


_noise = drawer("gaussian", "identity")
# A family that joins the registry is tested by being there.
REGISTRY = [of_registry(name, link.name) for name, family in FAMILIES.items() for link in family.links]
OWN = [
    Case("own", _noise, lambda table, y: {"family": RIDGE}, plain_ridge),
    Case("batch", _noise, lambda table, y: {"family": BatchLikelihood(scorer(table, y))}, plain_ridge),
]
CASES = {case.name: case for case in (*REGISTRY, *OWN)}
