"""The robust prior of Bayarri et al. (2012)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from modejump.priors.coefficients.base import CoefPrior, compiled, plain

LOG_2 = math.log(2.0)


@compiled
def _mixture_form(par, n, base, k):
    least = (1.0 + n) / (base + k)  # the least value of 1 + g
    return (least - 1.0, least, 1.0, 1.5, 0.0), -LOG_2


@dataclass(frozen=True)
class Robust(CoefPrior):
    """Robust prior of Bayarri et al. (2012) with a = 1/2, b = 1 and rho = 1 / (columns of the model).

    p(g) = 1/2 sqrt(L) (1+g)^(-3/2) for 1 + g > L, L = (1+n) / (base + k).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, Robust
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(coef_prior=Robust()).fit(X, y)
    >>> round(float(model.inclusion_.loc["s1", "probability"]), 2)
    0.78
    """

    name = "robust"
    mixture_form = _mixture_form
    mixture_form_plain = plain(
        lambda par, n, base, k: (((1 + n) / (base + k) - 1, (1 + n) / (base + k), 1.0, 1.5, 0.0), -np.log(2))
    )
