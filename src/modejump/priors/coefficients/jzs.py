"""The Jeffreys-Zellner-Siow prior."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from modejump.core.numbers import real_number
from modejump.priors.coefficients.base import CoefPrior, compiled, plain

HALF_LOG_PI = 0.5 * math.log(math.pi)


@dataclass(frozen=True)
class JZS(CoefPrior):
    """Jeffreys-Zellner-Siow prior, a multivariate Cauchy: g ~ InverseGamma(1/2, n scale^2 / 2).

    Parameters
    ----------
    scale : float
        Scale of the Cauchy distribution.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, JZS
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(coef_prior=JZS()).fit(X, y)
    >>> round(float(model.inclusion_.loc["s1", "probability"]), 2)
    0.73
    """

    scale: float = 1.0

    name = "jzs"
    mixture_form = compiled(lambda par, n, base, k: ((0.0, 0.5 * n * par[0] * par[0], -0.5, 0.0, 1.0), -HALF_LOG_PI))
    mixture_form_plain = plain(lambda par, n, base, k: ((0.0, n * par[0] ** 2 / 2, -0.5, 0.0, 1.0), -np.log(np.pi) / 2))

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", real_number(self.scale, "scale of the jzs prior", above=0.0))

    def parameters(self, n: float, tss: float) -> tuple[float, ...]:
        """The scale."""
        return (self.scale,)
