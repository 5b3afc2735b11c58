"""Flat prior with known error variance."""

from __future__ import annotations

from dataclasses import dataclass

from modejump.core.numbers import real_number
from modejump.priors.coefficients.base import CoefPrior, compiled, plain


@dataclass(frozen=True)
class KnownVariance(CoefPrior):
    """Known error variance: log p(y|M) = -RSS / (2 sigma2) + const.

    Parameters
    ----------
    sigma2 : float
        The error variance.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, KnownVariance
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(coef_prior=KnownVariance(3000.0)).fit(X, y)
    >>> round(float(model.inclusion_.loc["s1", "probability"]), 2)
    0.98
    """

    sigma2: float = 1.0

    name = "known-variance"
    shrinks = False
    penalises_size = False
    known_variance = True
    log_bayes_factor = compiled(lambda par, n, base, k, resid: 0.5 * (1.0 - resid) * par[1] / par[0])
    log_bayes_factor_plain = plain(lambda par, n, base, k, resid: (1 - resid) * par[1] / (2 * par[0]))

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma2", real_number(self.sigma2, "sigma2 of the known-variance prior", above=0.0))

    def parameters(self, n: float, tss: float) -> tuple[float, ...]:
        """The variance, and RSS of the base model."""
        return self.sigma2, tss
