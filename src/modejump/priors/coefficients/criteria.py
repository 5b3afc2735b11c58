"""Information criteria as log marginal likelihoods: BIC and AIC."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from modejump.core.compilation import kernel
from modejump.priors.coefficients.base import CoefPrior


@dataclass(frozen=True)
class BIC(CoefPrior):
    """Schwarz's criterion as a log marginal likelihood: -(n/2) log RSS - (k/2) log n."""

    name: ClassVar[str] = "bic"
    shrinks: ClassVar[bool] = False
    needs_information: ClassVar[bool] = False

    @staticmethod
    @kernel
    def log_bayes_factor(par, n, base, k, resid):
        """Log Bayes factor of a Gaussian model."""
        return -0.5 * (n * math.log(resid) + k * math.log(n))

    @staticmethod
    def log_bayes_factor_plain(par, n, base, k, resid):
        """Plain twin."""
        return -n / 2 * np.log(resid) - k / 2 * np.log(n)

    @staticmethod
    @kernel
    def log_laplace(par, n, base, k, log_likelihood, log_det_base, wald):
        """Log marginal likelihood of a generalised linear model."""
        return log_likelihood - 0.5 * k * math.log(n)

    @staticmethod
    def log_laplace_plain(par, n, base, k, log_likelihood, log_det_base, wald):
        """Plain twin."""
        return log_likelihood - k / 2 * np.log(n)


@dataclass(frozen=True)
class AIC(CoefPrior):
    """Akaike's criterion as a log marginal likelihood: -(n/2) log RSS - k."""

    name: ClassVar[str] = "aic"
    shrinks: ClassVar[bool] = False
    needs_information: ClassVar[bool] = False

    @staticmethod
    @kernel
    def log_bayes_factor(par, n, base, k, resid):
        """Log Bayes factor of a Gaussian model."""
        return -0.5 * n * math.log(resid) - k

    @staticmethod
    def log_bayes_factor_plain(par, n, base, k, resid):
        """Plain twin."""
        return -n / 2 * np.log(resid) - k

    @staticmethod
    @kernel
    def log_laplace(par, n, base, k, log_likelihood, log_det_base, wald):
        """Log marginal likelihood of a generalised linear model."""
        return log_likelihood - k

    @staticmethod
    def log_laplace_plain(par, n, base, k, log_likelihood, log_det_base, wald):
        """Plain twin."""
        return log_likelihood - k
