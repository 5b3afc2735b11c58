"""Zellner's g-prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from modejump.core.compilation import kernel
from modejump.priors.base import real_number
from modejump.priors.coefficients.base import CoefPrior


@kernel
def log_likelihood_of_g(g, log_one_plus_g, nu, k, resid):
    """Log Bayes factor of a Gaussian model given g."""
    return 0.5 * (nu * math.log1p(g * (1.0 - resid) / (1.0 + g * resid)) - k * log_one_plus_g)


@kernel
def laplace_given_g(g, k, log_likelihood, log_det_base, wald):
    """Log marginal likelihood of a generalised linear model given g."""
    return log_likelihood - 0.5 * (log_det_base + k * math.log1p(g) + wald / (1.0 + g))


def log_likelihood_of_g_plain(g, nu, k, resid):
    """Log Bayes factor of a Gaussian model given g, as the papers print it."""
    return 0.5 * (nu - k) * np.log1p(g) - 0.5 * nu * np.log1p(np.multiply(g, resid))


def laplace_given_g_plain(g, k, log_likelihood, log_det_base, wald):
    """Log marginal likelihood of a generalised linear model given g."""
    return log_likelihood - log_det_base / 2 - k / 2 * np.log(1 + g) - wald / (2 * (1 + g))


@dataclass(frozen=True)
class GPrior(CoefPrior):
    """Zellner's g-prior.

    Parameters
    ----------
    g : float, optional
        The prior variance relative to the least squares covariance; by default the number of observations
        (the unit information prior).
    """

    g: float | None = None

    name: ClassVar[str] = "g"

    def __post_init__(self) -> None:
        if self.g is not None:
            object.__setattr__(self, "g", real_number(self.g, "g of the g-prior", above=0.0))

    def values(self, n, tss):
        """Parameters: g and log(1 + g)."""
        g = n if self.g is None else self.g
        return g, math.log1p(g)

    def single_g(self, par, statistic):
        """The g that was given."""
        return float(par[0])

    @staticmethod
    @kernel
    def log_bayes_factor(par, n, base, k, resid):
        """Log Bayes factor of a Gaussian model."""
        return log_likelihood_of_g(par[0], par[1], n - base, k, resid)

    @staticmethod
    def log_bayes_factor_plain(par, n, base, k, resid):
        """Plain twin."""
        return log_likelihood_of_g_plain(par[0], n - base, k, resid)

    @staticmethod
    @kernel
    def log_laplace(par, n, base, k, log_likelihood, log_det_base, wald):
        """Log marginal likelihood of a generalised linear model."""
        return laplace_given_g(par[0], k, log_likelihood, log_det_base, wald)

    @staticmethod
    def log_laplace_plain(par, n, base, k, log_likelihood, log_det_base, wald):
        """Plain twin."""
        return laplace_given_g_plain(par[0], k, log_likelihood, log_det_base, wald)
