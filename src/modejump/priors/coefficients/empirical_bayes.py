"""Local empirical Bayes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from modejump.core.compilation import kernel
from modejump.priors.coefficients.base import CoefPrior
from modejump.priors.coefficients.g import (
    laplace_given_g,
    laplace_given_g_plain,
    log_likelihood_of_g,
    log_likelihood_of_g_plain,
)


@dataclass(frozen=True)
class EBLocal(CoefPrior):
    """Local empirical Bayes: the g-prior with the g that maximises the marginal likelihood of each model."""

    name: ClassVar[str] = "eb-local"

    def single_g(self, par, statistic):
        """The g of the largest marginal likelihood: max(F - 1, 0)."""
        return max(statistic - 1.0, 0.0)

    @staticmethod
    @kernel
    def log_bayes_factor(par, n, base, k, resid):
        """Log Bayes factor of a Gaussian model."""
        nu = n - base
        g = max((1.0 - resid) * (nu - k) / (k * resid) - 1.0, 0.0)
        return log_likelihood_of_g(g, math.log1p(g), nu, k, resid)

    @staticmethod
    def log_bayes_factor_plain(par, n, base, k, resid):
        """Plain twin."""
        f_statistic = ((1 - resid) / k) / (resid / (n - base - k))
        return log_likelihood_of_g_plain(max(f_statistic - 1, 0), n - base, k, resid)

    @staticmethod
    @kernel
    def log_laplace(par, n, base, k, log_likelihood, log_det_base, wald):
        """Log marginal likelihood of a generalised linear model."""
        return laplace_given_g(max(wald / max(k, 1) - 1.0, 0.0), k, log_likelihood, log_det_base, wald)

    @staticmethod
    def log_laplace_plain(par, n, base, k, log_likelihood, log_det_base, wald):
        """Plain twin."""
        g = max(wald / k - 1, 0) if k else 0
        return laplace_given_g_plain(g, k, log_likelihood, log_det_base, wald)
