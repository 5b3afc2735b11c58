"""The logit link of binomial responses."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from scipy.special import expit, logit

from modejump.core.compilation import kernel, summing
from modejump.likelihoods.glm.rows import fast_exp
from modejump.likelihoods.glm.steps import StepLink


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


class Logit(StepLink):
    """log(p / (1 - p))."""

    name: ClassVar[str] = "logit"
    latex: ClassVar[str] = r"\operatorname{logit} {}"
    text: ClassVar[str] = "logit {}"
    close: ClassVar[tuple[float, float] | None] = (0.0, 1.702)
    reach: ClassVar[tuple[float, float]] = (-40.0, 28.0)

    @staticmethod
    def predictor(mean: np.ndarray) -> np.ndarray:
        """The link function."""
        return logit(mean)

    @staticmethod
    def mean(predictor: np.ndarray) -> np.ndarray:
        """The inverse link function."""
        return expit(predictor)

    @staticmethod
    @kernel
    def step(t):
        """The inverse link function of one number."""
        return 1.0 / (1.0 + math.exp(-t))

    @staticmethod
    @kernel
    def rows(glm, work, first, m):
        """Score and information of the block; returns its log likelihood."""
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

    @staticmethod
    @kernel
    def information_slope(t):
        """Derivatives of the log information."""
        e = math.exp(-abs(t))
        slope = (1.0 - e) / (1.0 + e)
        return -slope if t >= 0.0 else slope, -2.0 * e / ((1.0 + e) * (1.0 + e))
