"""Gamma responses: positive amounts, whose shape is estimated."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import digamma, gammainc, gammaln, logsumexp, polygamma

from modejump.core.compilation import kernel
from modejump.core.errors import InputError
from modejump.likelihoods.family import Link
from modejump.likelihoods.glm.family import GlmFamily
from modejump.likelihoods.glm.gamma_shape import settle_shape, shape_rules
from modejump.likelihoods.glm.rows import fast_exp


@kernel
def _log_rows(glm, work, first, m):
    """Score and information of a block at shape one under the log link; returns its log likelihood."""
    y, weight, eta, score, info = glm.y, glm.weight, work.eta, work.score, work.info
    total = 0.0
    for r in range(m):
        ratio = y[first + r] * fast_exp(-eta[r])
        score[r] = weight[first + r] * (ratio - 1.0)
        # The observed information: positive, and Newton's method needs no other.
        info[r] = weight[first + r] * ratio
    for r in range(m):
        total -= info[r] + weight[first + r] * eta[r]
    return total


@kernel
def _inverse_rows(glm, work, first, m):
    """Score and information of a block at shape one under the inverse link; returns its log likelihood."""
    total = 0.0
    for r in range(m):
        w, target, t = glm.weight[first + r], glm.y[first + r], work.eta[r]
        if not t > 0.0:
            return -np.inf
        work.score[r] = w * (1.0 / t - target)
        work.info[r] = w / (t * t)
        total += w * (math.log(t) - target * t)
    return total


def _log_mean_of_inverse(loc: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log mean under the inverse link; NaN where the predictor is not positive.

    A normal predictor may be negative, which no mean allows, and its reciprocal has no expectation: the lognormal with
    the same mean and variance takes its place.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        log_variance = np.log1p(variance / loc**2)
        return 0.5 * log_variance - np.log(loc), log_variance


LOG = Link(
    "log", np.log, np.exp, latex=r"\log {}", text="log {}", positive=True, rows=_log_rows, settle=settle_shape
)  # fmt: skip
INVERSE = Link(
    "inverse", lambda mean: 1.0 / mean, lambda t: 1.0 / t, latex="1 / {}", text="1/{}", positive=True,
    log_mean=_log_mean_of_inverse, rows=_inverse_rows, settle=settle_shape,
)  # fmt: skip


class Gamma(GlmFamily):
    """Amounts with a gamma distribution of common shape."""

    name = "gamma"
    links = (LOG, INVERSE)
    response = "amount"
    bounded = True
    perfect = ("fit y perfectly, so that its shape is infinite", "choose a Gaussian response, such as the log of y")
    shape_rules = staticmethod(shape_rules)

    def check(self, y: np.ndarray) -> None:
        """Refuse what is not positive."""
        if (y <= 0.0).any():
            row = int(np.argmax(y <= 0.0))
            raise InputError(
                f"a gamma response is positive, and y is {y[row]:g} in row {row}; drop such rows, or choose another "
                "family."
            )

    def first_guesses(self, y: np.ndarray, w: np.ndarray, offset: np.ndarray) -> Iterator[np.ndarray]:
        """The mean of the amounts; then, where an offset varies too much for that, one constant that is possible."""
        yield from super().first_guesses(y, w, offset)
        log_link = self.link == "log"
        constant = logsumexp(np.log(y) - offset, b=w / w.sum()) if log_link else w.sum() / (w * y).sum() - offset.min()
        yield np.full(len(y), constant)

    def deviance(self, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Deviance of each row, but for the shape."""
        return 2.0 * (np.log(mean / y) + y / mean - 1.0)

    def noise(self, mean: np.ndarray, second: np.ndarray, shape: np.ndarray) -> np.ndarray:
        """Expected variance of an amount."""
        return second / shape

    def cdf(self, y: np.ndarray, log_mean: np.ndarray, shape: np.ndarray) -> np.ndarray:
        """Probability of an amount of at most y."""
        with np.errstate(divide="ignore"):
            return self.log_response(np.log(np.maximum(y, 0.0)), log_mean, shape)[0]

    def sharpness(self, log_mean: np.ndarray, shape: np.ndarray) -> np.ndarray:
        """The standard deviation of an amount over its mean."""
        return np.full(len(log_mean), float(shape.max()) ** -0.5)

    def log_response(self, x: np.ndarray, log_mean: np.ndarray, shape: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distribution function and density of the log of an amount."""
        log_z = np.log(shape) + x - log_mean
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            z = np.exp(log_z)
            log_density = np.where(np.isfinite(z), shape * log_z - z, -np.inf) - gammaln(shape)
            return gammainc(shape, z), np.exp(log_density)

    def log_moments(self, shape: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the log of an amount over its mean."""
        return digamma(shape) - np.log(shape), polygamma(1, shape)
