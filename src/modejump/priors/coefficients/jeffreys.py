"""Jeffreys' prior."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from modejump.priors.coefficients.base import CoefPrior, compiled, plain

LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Jeffreys(CoefPrior):
    """Jeffreys prior with unknown variance: log p(y|M) = -(n/2) log RSS + (k/2) log 2 pi + const.

    In a generalised linear model it cancels the curvature.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BernoulliPrior, BGLMRegressor, Jeffreys
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(coef_prior=Jeffreys(), model_prior=BernoulliPrior(0.01)).fit(X, y)
    >>> round(float(model.inclusion_.loc["s1", "probability"]), 2)
    0.44
    """

    name = "jeffreys"
    shrinks = False
    needs_information = False
    penalises_size = False
    survives_separation = True
    log_bayes_factor = compiled(lambda par, n, base, k, resid: -0.5 * n * math.log(resid) + 0.5 * k * LOG_2PI)
    log_bayes_factor_plain = plain(lambda par, n, base, k, resid: -n / 2 * np.log(resid) + k / 2 * np.log(2 * np.pi))
    log_laplace = compiled(
        lambda par, n, base, k, log_likelihood, log_det_base, wald: log_likelihood + 0.5 * k * LOG_2PI
    )
    log_laplace_plain = plain(
        lambda par, n, base, k, log_likelihood, log_det_base, wald: log_likelihood + k / 2 * np.log(2 * np.pi)
    )
