"""The probit link of binomial responses."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from modejump.core.compilation import kernel
from modejump.likelihoods.glm.steps import TINY, StepLink, add_row, impossible

ROOT_2 = math.sqrt(2.0)
DENSITY_AT_0 = 0.3989422804014327


@kernel
def _bend(t, mills):
    """Minus the second derivative of log Phi(t), given its first: positive, and close to one far on the left."""
    return mills * (mills + t) if t > -30.0 else 1.0 - 1.0 / (t * t)


class Probit(StepLink):
    """Quantile of the normal distribution."""

    name: ClassVar[str] = "probit"
    latex: ClassVar[str] = r"\Phi^{-1} {}"
    text: ClassVar[str] = "probit {}"
    close: ClassVar[tuple[float, float] | None] = (0.0, 1.0)

    @staticmethod
    def predictor(mean: np.ndarray) -> np.ndarray:
        """The link function."""
        return ndtri(mean)

    @staticmethod
    def mean(predictor: np.ndarray) -> np.ndarray:
        """The inverse link function."""
        return ndtr(predictor)

    @staticmethod
    @kernel
    def rows(glm, work, first, m):
        """Score and information of the block; returns its log likelihood."""
        total = 0.0
        for r in range(m):
            t, target = work.eta[r], glm.y[first + r]
            density = DENSITY_AT_0 * math.exp(-0.5 * t * t)
            upper, lower = 0.5 * math.erfc(-t / ROOT_2), 0.5 * math.erfc(t / ROOT_2)
            if impossible(target, upper, lower):
                return -np.inf
            upper, lower = max(upper, TINY), max(lower, TINY)
            bend = target * _bend(t, density / upper) + (1.0 - target) * _bend(-t, density / lower)
            total += add_row(work, r, glm.weight[first + r], target, density, upper, lower, bend)
        return total

    @staticmethod
    @kernel
    def information_slope(t):
        """Derivatives of the log information."""
        density = DENSITY_AT_0 * math.exp(-0.5 * t * t)
        above = density / max(0.5 * math.erfc(t / ROOT_2), TINY)
        below = density / max(0.5 * math.erfc(-t / ROOT_2), TINY)
        return above - below - 2.0 * t, above * (above - t) + below * (below + t) - 2.0
