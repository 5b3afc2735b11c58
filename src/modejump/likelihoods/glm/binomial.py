"""Binomial responses: classes, or shares of both."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import xlogy

from modejump.core.errors import InputError
from modejump.likelihoods.family import Link
from modejump.likelihoods.glm.cloglog import Cloglog
from modejump.likelihoods.glm.family import GlmFamily
from modejump.likelihoods.glm.logit import Logit
from modejump.likelihoods.glm.probit import Probit


class Binomial(GlmFamily):
    """Responses between 0 and 1, whose mean is the probability of 1."""

    name: ClassVar[str] = "binomial"
    links: ClassVar[tuple[type[Link], ...]] = (Logit, Probit, Cloglog)
    response: ClassVar[str] = "class"
    perfect: ClassVar[tuple[str, str] | None] = (
        "separate the classes", "coef_prior='jeffreys' weighs such models too",
    )  # fmt: skip
    separable: ClassVar[bool] = True

    def check(self, y: np.ndarray) -> None:
        """Refuse responses outside of 0 and 1."""
        bad = ~((y >= 0.0) & (y <= 1.0))
        if bad.any():
            row = int(np.argmax(bad))
            raise InputError(f"a binomial response lies between 0 and 1, and y is {y[row]:g} in row {row}.")

    def deviance(self, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Deviance of each row."""
        return 2.0 * (xlogy(y, y / mean) + xlogy(1.0 - y, (1.0 - y) / (1.0 - mean)))

    def noise(self, mean: np.ndarray, second: np.ndarray, shape: np.ndarray) -> np.ndarray:
        """Expected variance of a response."""
        return mean - second
