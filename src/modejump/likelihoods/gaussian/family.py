"""The Gaussian family: its marginal likelihood follows from the Gram matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.likelihoods.columns import Conjugate
from modejump.likelihoods.family import Family, Link, Table
from modejump.priors.coefficients import CoefPriorData

IDENTITY = Link("identity", predictor=np.asarray, mean=np.asarray)


class Gaussian(Family):
    """Gaussian responses."""

    name = "gaussian"
    links = (IDENTITY,)
    conjugate = True
    # Errors of new observations: degrees of freedom, and scale relative to that of the residuals. It is proportional to
    # the mean to a power, the spread; None where that is to be estimated.
    tail: tuple[float, float] = (math.inf, 1.0)
    spread: float | None = 0.0

    def words(self) -> str:
        """Nothing."""
        return ""

    def check_rows(self, weights: Any, offset: Any) -> None:
        """Refuse an offset."""
        if offset is not None:
            raise InputError(
                "an offset is for families other than gaussian; take it from y instead, and add it to predictions."
            )

    def check_floor(self, noise_floor: float) -> None:
        """Measurements may have one."""

    def text(self, response: str) -> str:
        """The name of the response."""
        return response

    def deviance(self, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Squared error of each row."""
        return np.square(y - mean)

    def bind(self, table: Table, prior: CoefPriorData, n: float) -> tuple[Family, Conjugate]:
        """The family: it needs no rows."""
        return self, Conjugate()

    def without_rows(self, base: int) -> Conjugate:
        """Nothing."""
        return Conjugate()
