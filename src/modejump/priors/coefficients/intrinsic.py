"""The intrinsic prior of Womack et al. (2014)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from modejump.priors.coefficients.base import CoefPrior, compiled, plain

LOG_PI = math.log(math.pi)


@dataclass(frozen=True)
class Intrinsic(CoefPrior):
    """Intrinsic prior of Womack et al. (2014): g = n / ((base + k) w), w ~ Beta(1/2, 1/2).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, Intrinsic
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(coef_prior=Intrinsic()).fit(X, y)
    >>> round(float(model.inclusion_.loc["s1", "probability"]), 2)
    0.78
    """

    name = "intrinsic"
    mixture_form = compiled(lambda par, n, base, k: ((n / (base + k), n / (base + k), 0.5, 1.0, 0.0), -LOG_PI))
    mixture_form_plain = plain(lambda par, n, base, k: ((n / (base + k),) * 2 + (0.5, 1.0, 0.0), -np.log(np.pi)))
