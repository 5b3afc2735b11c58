"""The hyper-g and hyper-g/n priors of Liang et al. (2008)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from modejump.core.numbers import real_number
from modejump.priors.coefficients.base import CoefPrior, compiled, plain


@dataclass(frozen=True)
class HyperG(CoefPrior):
    """Hyper-g prior of Liang et al. (2008): p(g) = (a-2)/2 (1+g)^(-a/2).

    Parameters
    ----------
    a : float
        Above 2; values in (2, 4] are recommended.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, HyperG
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(coef_prior=HyperG(a=4)).fit(X, y)
    >>> round(float(model.inclusion_.loc["s1", "probability"]), 2)
    0.8
    """

    a: float = 3.0

    name = "hyper-g"
    mixture_form = compiled(lambda par, n, base, k: ((0.0, 1.0, 1.0, 0.5 * par[0], 0.0), math.log(0.5 * par[0] - 1.0)))
    mixture_form_plain = plain(lambda par, n, base, k: ((0.0, 1.0, 1.0, par[0] / 2, 0.0), np.log((par[0] - 2) / 2)))

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", real_number(self.a, f"a of the {self.name} prior", above=2.0))

    def parameters(self, n: float, tss: float) -> tuple[float, ...]:
        """The parameter a."""
        return (self.a,)


@dataclass(frozen=True)
class HyperGN(HyperG):
    """Hyper-g/n prior of Liang et al. (2008): p(g) = (a-2)/(2n) (1+g/n)^(-a/2).

    Parameters
    ----------
    a : float
        Above 2; values in (2, 4] are recommended.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, HyperGN
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(coef_prior=HyperGN()).fit(X, y)
    >>> round(float(model.inclusion_.loc["s1", "probability"]), 2)
    0.75
    """

    name = "hyper-g-n"
    mixture_form = compiled(lambda par, n, base, k: ((0.0, n, 1.0, 0.5 * par[0], 0.0), math.log(0.5 * par[0] - 1.0)))
    mixture_form_plain = plain(lambda par, n, base, k: ((0.0, n, 1.0, par[0] / 2, 0.0), np.log((par[0] - 2) / 2)))
