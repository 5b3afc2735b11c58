"""Flat prior with known error variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from modejump.core.compilation import kernel
from modejump.priors.base import real_number
from modejump.priors.coefficients.base import CoefPrior


@dataclass(frozen=True)
class KnownVariance(CoefPrior):
    """Known error variance: log p(y|M) = -RSS / (2 sigma2) + const.

    Parameters
    ----------
    sigma2 : float
        The error variance.
    """

    sigma2: float = 1.0

    name: ClassVar[str] = "known-variance"
    shrinks: ClassVar[bool] = False
    known_variance: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma2", real_number(self.sigma2, "sigma2 of the known-variance prior", above=0.0))

    def values(self, n, tss):
        """Parameters: the variance, and RSS of the base model."""
        return self.sigma2, tss

    @staticmethod
    @kernel
    def log_bayes_factor(par, n, base, k, resid):
        """Log Bayes factor of a Gaussian model."""
        return 0.5 * (1.0 - resid) * par[1] / par[0]

    @staticmethod
    def log_bayes_factor_plain(par, n, base, k, resid):
        """Plain twin."""
        return (1 - resid) * par[1] / (2 * par[0])
