"""The complementary log-log link of binomial responses."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from modejump.core.compilation import kernel
from modejump.likelihoods.glm.steps import TINY, StepLink, add_row, impossible


@kernel
def _bend(hazard, slope):
    """Minus the second derivative, by log hazard, of log(1 - exp(-hazard)), given its first: positive."""
    if hazard < 0.01:
        return slope * hazard * (0.5 + hazard * (1.0 / 12.0 - hazard * hazard / 720.0))
    return slope * (slope + hazard - 1.0)


class Cloglog(StepLink):
    """log(-log(1 - p))."""

    name: ClassVar[str] = "cloglog"
    latex: ClassVar[str] = r"\operatorname{cloglog} {}"
    text: ClassVar[str] = "cloglog {}"
    close: ClassVar[tuple[float, float] | None] = (math.log(math.log(2.0)), 1.151)
    reach: ClassVar[tuple[float, float]] = (-40.0, 9.0)

    @staticmethod
    def predictor(mean: np.ndarray) -> np.ndarray:
        """The link function."""
        return np.log(-np.log1p(-mean))

    @staticmethod
    def mean(predictor: np.ndarray) -> np.ndarray:
        """The inverse link function."""
        return -np.expm1(-np.exp(predictor))

    @staticmethod
    @kernel
    def step(t):
        """The inverse link function of one number."""
        return -math.expm1(-math.exp(t))

    @staticmethod
    @kernel
    def rows(glm, work, first, m):
        """Score and information of the block; returns its log likelihood."""
        total = 0.0
        for r in range(m):
            target = glm.y[first + r]
            hazard = math.exp(min(work.eta[r], 700.0))
            upper, lower = -math.expm1(-hazard), math.exp(-hazard)
            density = hazard * lower
            if impossible(target, upper, lower):
                return -np.inf
            upper, lower = max(upper, TINY), max(lower, TINY)
            bend = target * _bend(hazard, density / upper) + (1.0 - target) * hazard
            total += add_row(work, r, glm.weight[first + r], target, density, upper, lower, bend)
        return total

    @staticmethod
    @kernel
    def information_slope(t):
        """Derivatives of the log information."""
        hazard = math.exp(min(t, 700.0))
        if hazard > 700.0:
            return 2.0 - hazard, -hazard
        growth = math.expm1(hazard)
        share = hazard / growth if growth > 0.0 else 1.0
        return 2.0 - hazard - share, -hazard - share * (1.0 - share * math.exp(hazard))
