"""Local empirical Bayes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from modejump.priors.coefficients.base import CoefPrior, compiled, plain
from modejump.priors.coefficients.g import (
    bayes_factor_given_g,
    bayes_factor_given_g_plain,
    laplace_given_g,
    laplace_given_g_plain,
)


@compiled
def _log_bayes_factor(par, n, base, k, resid):
    nu = n - base
    g = max((1.0 - resid) * (nu - k) / (k * resid) - 1.0, 0.0)
    return bayes_factor_given_g(g, math.log1p(g), nu, k, resid)


@plain
def _log_bayes_factor_plain(par, n, base, k, resid):
    f_statistic = ((1 - resid) / k) / (resid / (n - base - k))
    return bayes_factor_given_g_plain(max(f_statistic - 1, 0), n - base, k, resid)


@compiled
def _log_laplace(par, n, base, k, log_likelihood, log_det_base, wald):
    return laplace_given_g(max(wald / max(k, 1) - 1.0, 0.0), k, log_likelihood, log_det_base, wald)


@plain
def _log_laplace_plain(par, n, base, k, log_likelihood, log_det_base, wald):
    g = max(wald / k - 1, 0) if k else 0
    return laplace_given_g_plain(g, k, log_likelihood, log_det_base, wald)


@dataclass(frozen=True)
class EBLocal(CoefPrior):
    """Local empirical Bayes: the g-prior with the g that maximises the marginal likelihood of each model.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, EBLocal
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(coef_prior=EBLocal()).fit(X, y)
    >>> round(float(model.inclusion_.loc["s1", "probability"]), 2)
    0.79
    """

    name = "eb-local"
    log_bayes_factor, log_bayes_factor_plain = _log_bayes_factor, _log_bayes_factor_plain
    log_laplace, log_laplace_plain = _log_laplace, _log_laplace_plain

    def single_g(self, par: np.ndarray, statistic: float) -> float:
        """The g of the largest marginal likelihood."""
        return max(statistic - 1.0, 0.0)
