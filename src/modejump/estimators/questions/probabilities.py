"""Tables of a posterior: terms and models with their probabilities, and the verdict on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from modejump.estimators.docs import documented
from modejump.estimators.equations import Equations
from modejump.features.expression import Expression

if TYPE_CHECKING:
    from modejump.posterior.verdict import Verdict

# Rows of ``models_``; ``posterior_.models(limit=None)`` has all.
MODELS_SHOWN = 1000


class Probabilities(Equations):
    """What a fitted estimator says of terms and models."""

    def _labelled(self, values: Mapping[str, np.ndarray]) -> pd.DataFrame:
        """Values of every coefficient, in the problem's order, as a frame in the order of the table."""
        raise NotImplementedError

    @property
    def inclusion_(self) -> pd.DataFrame:
        """Inclusion probability of each term or law, best first."""
        return self._fitted.inclusion

    @property
    def models_(self) -> pd.DataFrame:
        """The leading models, best first."""
        return self._fitted.models(MODELS_SHOWN)

    @property
    def verdict_(self) -> Verdict:
        """What can be said about convergence."""
        return self._fitted.verdict

    def discoveries(self, fdr: float = 0.1) -> pd.DataFrame:
        """The largest set of terms whose expected false discovery rate is at most ``fdr``.

        Parameters
        ----------
        fdr : float
            The rate, at least 0 and below 1.

        Returns
        -------
        DataFrame
            One row for each term of the set, highest ``probability`` first; ``fdr`` is the rate of those up to it.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> BGLMRegressor().fit(X, y).discoveries(fdr=0.05).round(3)
                 probability    fdr
        feature
        bmi            1.000  0.000
        s5             1.000  0.000
        bp             1.000  0.000
        sex            0.982  0.005
        """
        return self._fitted.discoveries(fdr)

    def best_model(self) -> tuple[str, ...]:
        """Terms of the model of highest posterior probability; those always in are left out.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> BGLMRegressor().fit(X, y).best_model()
        ('sex', 'bmi', 'bp', 's3', 's5')
        """
        return self._fitted.best_model()

    def median_model(self) -> tuple[str, ...]:
        """Terms with inclusion probability of at least one half; those always in are left out.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> BGLMRegressor().fit(X, y).median_model()
        ('sex', 'bmi', 'bp', 's1', 's3', 's5')
        """
        return self._fitted.median_model()

    def log_marginal_likelihood(self, features: str | Expression | Sequence[str | Expression]) -> float:
        """Log Bayes factor of a model against the base model, ``log p(y|M) - log p(y|base)``.

        The base model has the intercept and the terms always in. Its own marginal likelihood is improper for most
        priors, so only differences between models have a meaning.

        Parameters
        ----------
        features : sequence of str or Feature
            Terms of the model; those always in may be left out. Features need not be among those that a search found,
            unless the model was read from a file, which holds no data.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = BGLMRegressor().fit(X, y)
        >>> round(model.log_marginal_likelihood(["bmi", "s5"]), 2), model.log_marginal_likelihood([])
        (129.14, 0.0)
        """
        return self._fitted.log_marginal_likelihood(features)

    @documented()
    def coefficients(self, kind: str = "bma") -> pd.DataFrame:
        """Posterior mean and standard deviation of every coefficient, on the original scale of its column.

        {parameters}

        Returns
        -------
        DataFrame
            The intercept, then one row for each design column or law, with ``mean``, ``sd``, ``conditional_mean`` and
            ``conditional_sd`` (given that it is in the model) and the ``probability`` that it is.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> BGLMRegressor().fit(X, y).coefficients()[["mean", "sd", "probability"]].head(4).round(2)
                       mean     sd  probability
        column
        (intercept)  152.13   2.57         1.00
        age           -0.43  16.87         0.08
        sex         -224.89  67.41         0.98
        bmi          531.46  66.30         1.00
        """
        return self._labelled(self._fitted.predictor(kind).coefficient_moments())
