"""Zellner's g-prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.numbers import real_number
from modejump.priors.coefficients.base import CoefPrior, compiled, plain


@kernel
def bayes_factor_given_g(g, log_one_plus_g, nu, k, resid):
    """Log Bayes factor of a Gaussian model given g."""
    return 0.5 * (nu * math.log1p(g * (1.0 - resid) / (1.0 + g * resid)) - k * log_one_plus_g)


@kernel
def laplace_given_g(g, k, log_likelihood, log_det_base, wald):
    """Log marginal likelihood of a generalised linear model given g."""
    return log_likelihood - 0.5 * (log_det_base + k * math.log1p(g) + wald / (1.0 + g))


def bayes_factor_given_g_plain(g: Any, nu: float, k: int, resid: Any) -> Any:
    """Log Bayes factor of a Gaussian model given g, as the papers print it; of many where g or resid are arrays."""
    return 0.5 * (nu - k) * np.log1p(g) - 0.5 * nu * np.log1p(g * resid)


def laplace_given_g_plain(g: float, k: int, log_likelihood: float, log_det_base: float, wald: float) -> float:
    """Log marginal likelihood of a generalised linear model given g."""
    return float(log_likelihood - log_det_base / 2 - k / 2 * np.log(1 + g) - wald / (2 * (1 + g)))


@dataclass(frozen=True)
class GPrior(CoefPrior):
    """Zellner's g-prior.

    Parameters
    ----------
    g : float, optional
        The prior variance relative to the least squares covariance; by default the number of observations
        (the unit information prior).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, GPrior
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(coef_prior=GPrior(g=100)).fit(X, y)
    >>> round(float(model.inclusion_.loc["s1", "probability"]), 2)
    0.76
    """

    g: float | None = None

    name = "g"
    log_bayes_factor = compiled(lambda par, n, base, k, resid: bayes_factor_given_g(par[0], par[1], n - base, k, resid))
    log_bayes_factor_plain = plain(
        lambda par, n, base, k, resid: bayes_factor_given_g_plain(par[0], n - base, k, resid)
    )
    log_laplace = compiled(
        lambda par, n, base, k, log_likelihood, log_det_base, wald: laplace_given_g(
            par[0], k, log_likelihood, log_det_base, wald
        )
    )
    log_laplace_plain = plain(
        lambda par, n, base, k, log_likelihood, log_det_base, wald: laplace_given_g_plain(
            par[0], k, log_likelihood, log_det_base, wald
        )
    )

    def __post_init__(self) -> None:
        if self.g is not None:
            object.__setattr__(self, "g", real_number(self.g, "g of the g-prior", above=0.0))

    def parameters(self, n: float, tss: float) -> tuple[float, ...]:
        """The value of g, and log(1 + g)."""
        g = n if self.g is None else self.g
        return g, math.log1p(g)

    def single_g(self, par: np.ndarray, statistic: float) -> float:
        """The g that was given."""
        return float(par[0])
