"""The beta-prime prior of Maruyama and George (2011)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln

from modejump.core.compilation import entry, kernel
from modejump.priors.coefficients.base import CoefPrior, compiled, plain

# First parameter of the beta prior of 1 / (1 + g).
A = 0.25


@kernel
def _stirling_series(x):
    """Log gamma of x minus its leading Stirling terms, for x >= 10."""
    w = 1.0 / (x * x)
    return (1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w * (1.0 / 1680.0 - w / 1188.0)))) / x


@entry
def log_gamma_ratio(x, d):
    """log Gamma(x + d) - log Gamma(x) for d >= 0, without the cancellation of two large log gammas."""
    if x < 10.0:
        return math.lgamma(x + d) - math.lgamma(x)
    leading = (x - 0.5) * math.log1p(d / x) + d * (math.log(x + d) - 1.0)
    return leading + _stirling_series(x + d) - _stirling_series(x)


@compiled
def _log_bayes_factor(par, n, base, k, resid):
    """Log Bayes factor of a Gaussian model.

    With v = 1 / (1 + g) the integrand is v**(a + k/2 - 1) (1 - v)**(b - 1) / (v + resid (1 - v))**(a + k/2 + b),
    because a + b + k/2 = (n - base)/2 for this b; that is Euler's integral B(a + k/2, b) resid**(-b).
    """
    b = 0.5 * (n - base - k) - A
    if b <= 0.0:
        return -math.inf
    half = 0.5 * k
    return log_gamma_ratio(A, half) - log_gamma_ratio(A + b, half) - b * math.log(resid)


@plain
def _log_bayes_factor_plain(par, n, base, k, resid):
    b = (n - base - k - 0.5) / 2
    return betaln(A + k / 2, b) - betaln(A, b) - b * np.log(resid) if b > 0 else -np.inf


@compiled
def _mixture_form(par, n, base, k):
    """Prior of g; none exists where b is not positive."""
    b = 0.5 * (n - base - k) - A
    if b <= 0.0:
        return (0.0, 1.0, 1.0, 1.0 + A, 0.0), -math.inf
    return (0.0, 1.0, b, A + b, 0.0), log_gamma_ratio(b, A) - math.lgamma(A)


@plain
def _mixture_form_plain(par, n, base, k):
    b = (n - base - k - 0.5) / 2
    return ((0.0, 1.0, b, A + b, 0.0), -betaln(A, b)) if b > 0 else ((0.0, 1.0, 1.0, 1.0 + A, 0.0), -np.inf)


@dataclass(frozen=True)
class BetaPrime(CoefPrior):
    """Beta-prime prior of Maruyama and George (2011): 1 / (1+g) ~ Beta(1/4, (n - base - k - 1/2) / 2).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, BetaPrime
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(coef_prior=BetaPrime()).fit(X, y)
    >>> round(float(model.inclusion_.loc["s1", "probability"]), 2)
    0.73
    """

    name = "beta-prime"
    log_bayes_factor, log_bayes_factor_plain = _log_bayes_factor, _log_bayes_factor_plain
    mixture_form, mixture_form_plain = _mixture_form, _mixture_form_plain
