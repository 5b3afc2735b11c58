"""Information criteria as log marginal likelihoods: BIC and AIC."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from modejump.priors.coefficients.base import CoefPrior, compiled, plain


@dataclass(frozen=True)
class BIC(CoefPrior):
    """Schwarz's criterion as a log marginal likelihood: -(n/2) log RSS - (k/2) log n.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, BIC
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(coef_prior=BIC()).fit(X, y)
    >>> round(float(model.inclusion_.loc["s1", "probability"]), 2)
    0.63
    """

    name = "bic"
    shrinks = False
    needs_information = False
    log_bayes_factor = compiled(lambda par, n, base, k, resid: -0.5 * (n * math.log(resid) + k * math.log(n)))
    log_bayes_factor_plain = plain(lambda par, n, base, k, resid: -n / 2 * np.log(resid) - k / 2 * np.log(n))
    log_laplace = compiled(
        lambda par, n, base, k, log_likelihood, log_det_base, wald: log_likelihood - 0.5 * k * math.log(n)
    )
    log_laplace_plain = plain(
        lambda par, n, base, k, log_likelihood, log_det_base, wald: log_likelihood - k / 2 * np.log(n)
    )


@dataclass(frozen=True)
class AIC(CoefPrior):
    """Akaike's criterion as a log marginal likelihood: -(n/2) log RSS - k.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, AIC
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(coef_prior=AIC()).fit(X, y)
    >>> round(float(model.inclusion_.loc["s1", "probability"]), 2)
    0.93
    """

    name = "aic"
    shrinks = False
    needs_information = False
    log_bayes_factor = compiled(lambda par, n, base, k, resid: -0.5 * n * math.log(resid) - k)
    log_bayes_factor_plain = plain(lambda par, n, base, k, resid: -n / 2 * np.log(resid) - k)
    log_laplace = compiled(lambda par, n, base, k, log_likelihood, log_det_base, wald: log_likelihood - k)
    log_laplace_plain = plain(lambda par, n, base, k, log_likelihood, log_det_base, wald: log_likelihood - k)
