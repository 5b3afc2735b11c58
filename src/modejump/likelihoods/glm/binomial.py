"""Binomial responses, classes or shares of both, with the logit, probit and complementary log-log links.

The information is the observed one for all links: scoring by the expected one converges linearly, at a pace that may
pass for that of rows which move off.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from modejump.core.compilation import kernel, summing
from modejump.core.errors import InputError
from modejump.likelihoods.family import Link
from modejump.likelihoods.glm.family import GlmFamily
from modejump.likelihoods.glm.rows import fast_exp

TINY = 1e-300
ROOT_2 = math.sqrt(2.0)
DENSITY_AT_0 = 0.3989422804014327  # of the normal distribution


@summing
def _linear_sum(y, weight, eta, first, m):
    """The part of the log likelihood that is linear in the predictor."""
    total = 0.0
    for r in range(m):
        total += weight[first + r] * (y[first + r] * eta[r] - max(eta[r], 0.0))
    return total


@summing
def _product(values, m):
    """Product of the values of a block."""
    total = 1.0
    for r in range(m):
        total *= values[r]
    return total


@kernel
def _logit_rows(glm, work, first, m):
    """Score and information of a block under the logit link; returns its log likelihood."""
    y, weight, eta, score, info = glm.y, glm.weight, work.eta, work.score, work.info
    weighted = work.weighted
    for r in range(m):
        e = fast_exp(-abs(eta[r]))
        p = 1.0 / (1.0 + e)
        mu = p if eta[r] >= 0.0 else 1.0 - p
        score[r] = weight[first + r] * (y[first + r] - mu)
        info[r] = weight[first + r] * p * (e * p)
        weighted[r] = 1.0 + e
    total = _linear_sum(y, weight, eta, first, m)
    if glm.unit:
        # At most 2^256: one logarithm for the whole block.
        return total - math.log(_product(weighted, m))
    for r in range(m):
        total -= weight[first + r] * math.log(weighted[r])
    return total


@kernel
def _logit_slope(t):
    """Derivatives of the log information under the logit link."""
    e = math.exp(-abs(t))
    slope = (1.0 - e) / (1.0 + e)
    return -slope if t >= 0.0 else slope, -2.0 * e / ((1.0 + e) * (1.0 + e))


@kernel
def _impossible(target, upper, lower):
    """Whether a row has probability zero: a side that underflows matters only to rows that are on it."""
    return not ((upper > 0.0 or target == 0.0) and (lower > 0.0 or target == 1.0))


@kernel
def _add_row(work, r, w, target, density, upper, lower, bend):
    """Write down score and information of a row; returns its log likelihood."""
    work.score[r] = w * density * (target / upper - (1.0 - target) / lower)
    work.info[r] = w * density * (density / (upper * lower)) if work.expected else w * bend
    return w * (target * math.log(upper) + (1.0 - target) * math.log(lower))


@kernel
def _probit_bend(t, mills):
    """Minus the second derivative of log Phi(t), given its first: positive, and close to one far on the left."""
    return mills * (mills + t) if t > -30.0 else 1.0 - 1.0 / (t * t)


@kernel
def _probit_rows(glm, work, first, m):
    """Score and information of a block under the probit link; returns its log likelihood."""
    total = 0.0
    for r in range(m):
        t, target = work.eta[r], glm.y[first + r]
        density = DENSITY_AT_0 * math.exp(-0.5 * t * t)
        upper, lower = 0.5 * math.erfc(-t / ROOT_2), 0.5 * math.erfc(t / ROOT_2)
        if _impossible(target, upper, lower):
            return -np.inf
        upper, lower = max(upper, TINY), max(lower, TINY)
        bend = target * _probit_bend(t, density / upper) + (1.0 - target) * _probit_bend(-t, density / lower)
        total += _add_row(work, r, glm.weight[first + r], target, density, upper, lower, bend)
    return total


@kernel
def _probit_slope(t):
    """Derivatives of the log information under the probit link."""
    density = DENSITY_AT_0 * math.exp(-0.5 * t * t)
    above = density / max(0.5 * math.erfc(t / ROOT_2), TINY)
    below = density / max(0.5 * math.erfc(-t / ROOT_2), TINY)
    return above - below - 2.0 * t, above * (above - t) + below * (below + t) - 2.0


@kernel
def _cloglog_bend(hazard, slope):
    """Minus the second derivative, by log hazard, of log(1 - exp(-hazard)), given its first: positive."""
    if hazard < 0.01:
        return slope * hazard * (0.5 + hazard * (1.0 / 12.0 - hazard * hazard / 720.0))
    return slope * (slope + hazard - 1.0)


@kernel
def _cloglog_rows(glm, work, first, m):
    """Score and information of a block under the complementary log-log link; returns its log likelihood."""
    total = 0.0
    for r in range(m):
        target = glm.y[first + r]
        hazard = math.exp(min(work.eta[r], 700.0))
        upper, lower = -math.expm1(-hazard), math.exp(-hazard)
        density = hazard * lower
        if _impossible(target, upper, lower):
            return -np.inf
        upper, lower = max(upper, TINY), max(lower, TINY)
        bend = target * _cloglog_bend(hazard, density / upper) + (1.0 - target) * hazard
        total += _add_row(work, r, glm.weight[first + r], target, density, upper, lower, bend)
    return total


@kernel
def _cloglog_slope(t):
    """Derivatives of the log information under the complementary log-log link."""
    hazard = math.exp(min(t, 700.0))
    if hazard > 700.0:
        return 2.0 - hazard, -hazard
    growth = math.expm1(hazard)
    share = hazard / growth if growth > 0.0 else 1.0
    return 2.0 - hazard - share, -hazard - share * (1.0 - share * math.exp(hazard))


LOGIT = Link(
    "logit", special.logit, special.expit, latex=r"\operatorname{logit} {}", text="logit {}", rows=_logit_rows,
    information_slope=_logit_slope, close=(0.0, 1.702), reach=(-40.0, 28.0),
    step=kernel(lambda t: 1.0 / (1.0 + math.exp(-t))),
)  # fmt: skip
PROBIT = Link(
    "probit", special.ndtri, special.ndtr, latex=r"\Phi^{-1} {}", text="probit {}", rows=_probit_rows,
    information_slope=_probit_slope, close=(0.0, 1.0),
)  # fmt: skip
CLOGLOG = Link(
    "cloglog", lambda mean: np.log(-np.log1p(-mean)), lambda t: -np.expm1(-np.exp(t)),
    latex=r"\operatorname{cloglog} {}", text="cloglog {}", rows=_cloglog_rows, information_slope=_cloglog_slope,
    close=(math.log(math.log(2.0)), 1.151), reach=(-40.0, 9.0), step=kernel(lambda t: -math.expm1(-math.exp(t))),
)  # fmt: skip


class Binomial(GlmFamily):
    """Responses between 0 and 1, whose mean is the probability of 1."""

    name = "binomial"
    links = (LOGIT, PROBIT, CLOGLOG)
    response = "class"
    separable = True

    def check(self, y: np.ndarray) -> None:
        """Refuse responses outside of 0 and 1."""
        bad = ~((y >= 0.0) & (y <= 1.0))
        if bad.any():
            row = int(np.argmax(bad))
            raise InputError(f"a binomial response lies between 0 and 1, and y is {y[row]:g} in row {row}.")

    def deviance(self, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Deviance of each row."""
        return 2.0 * (special.xlogy(y, y / mean) + special.xlogy(1.0 - y, (1.0 - y) / (1.0 - mean)))
