"""Jeffreys' prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from modejump.core.compilation import kernel
from modejump.priors.coefficients.base import CoefPrior

LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Jeffreys(CoefPrior):
    """Jeffreys prior with unknown variance: log p(y|M) = -(n/2) log RSS + (k/2) log 2 pi + const."""

    name: ClassVar[str] = "jeffreys"
    shrinks: ClassVar[bool] = False
    needs_information: ClassVar[bool] = False
    survives_separation: ClassVar[bool] = True

    @staticmethod
    @kernel
    def log_bayes_factor(par, n, base, k, resid):
        """Log Bayes factor of a Gaussian model."""
        return -0.5 * n * math.log(resid) + 0.5 * k * LOG_2PI

    @staticmethod
    def log_bayes_factor_plain(par, n, base, k, resid):
        """Plain twin."""
        return -n / 2 * np.log(resid) + k / 2 * np.log(2 * np.pi)

    @staticmethod
    @kernel
    def log_laplace(par, n, base, k, log_likelihood, log_det_base, wald):
        """Log marginal likelihood of a generalised linear model: the prior cancels the curvature."""
        return log_likelihood + 0.5 * k * LOG_2PI

    @staticmethod
    def log_laplace_plain(par, n, base, k, log_likelihood, log_det_base, wald):
        """Plain twin."""
        return log_likelihood + k / 2 * np.log(2 * np.pi)
