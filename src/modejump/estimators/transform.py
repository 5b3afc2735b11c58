"""Fitted estimators as selectors and makers of features in pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from modejump.core.errors import InputError, warn_user
from modejump.data.bits import is_genotypes
from modejump.data.coding import is_frame
from modejump.data.formulas import FormulaSpec
from modejump.data.sources import is_source
from modejump.data.tables import Spec
from modejump.estimators.equations import Equations
from modejump.estimators.given import arranged, check_names, dense
from modejump.posterior.fits import model_columns

# Models whose columns can be had.
_MODELS = ("median", "best")


class FeatureMaker(TransformerMixin, Equations):
    """Columns of the median model, or of the best one, as scikit-learn's transformers give them."""

    table_: Spec
    n_features_in_: int
    feature_names_in_: np.ndarray
    # Which of y, sample_weight and offset were given as columns of X, and their names.
    _beside: Mapping[str, str] = MappingProxyType({})

    def _design(self, X: Any) -> np.ndarray:
        """Design columns of new rows; columns of a frame may be in any order."""
        if isinstance(self.table_, FormulaSpec) or is_genotypes(X):
            return self.table_.apply(X)
        names, X = getattr(self, "feature_names_in_", None), dense(X)
        if not is_frame(X):
            design = self.table_.apply(X)
            check_names(self, X, reset=False)
            return design
        if names is not None:
            X = arranged(X, names, self._beside.values())
        check_names(self, X, reset=False)
        return self.table_.apply(X)

    def _columns(self, design: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Columns of new rows: those of the candidates, in the problem's order, and those of terms always in.

        Only the candidates' columns that are used need values.
        """
        raise NotImplementedError

    def _column_names(self, given: Sequence[str] | None) -> tuple[list[str], list[str]]:
        """Names of the same, where the columns of X have other names than at the fit perhaps."""
        raise NotImplementedError

    def _used(self, kind: str) -> np.ndarray:
        """Columns of the candidates in one model, in the order of its terms."""
        posterior = self._fitted
        if kind not in _MODELS:
            raise InputError(f"kind must be 'median' or 'best', a model whose columns are made; got {kind!r}.")
        terms = posterior.median_model() if kind == "median" else posterior.best_model()
        return model_columns(self.problem_, self.problem_.index_of(terms))

    def transform(self, X: Any, kind: str = "median") -> np.ndarray:
        """Columns of the features of a model, so that the estimator selects or makes features in a pipeline.

        Parameters
        ----------
        X : data frame or array of shape (rows, columns)
            Covariates, as at fit.
        kind : {"median", "best"}
            Whether they are those of the median probability model or of the best one.

        Returns
        -------
        ndarray of shape (rows, features), or data frame
            Columns of the terms that are always in, then those of the model; ``set_output`` chooses frames.

        Examples
        --------
        >>> from modejump import BGLMRegressor
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = BGLMRegressor().set_output(transform="pandas").fit(X, y)
        >>> list(model.transform(X).columns)
        ['sex', 'bmi', 'bp', 's1', 's3', 's5']
        """
        if kind == "best" and self._frames_wanted():
            raise InputError("set_output names the columns of the median model; for kind='best' set it to 'default'.")
        if is_source(X):
            raise InputError("transform needs its rows in memory, and these are read in chunks; read them first.")
        columns = self._transformed(X, kind)
        if columns.shape[1] == 0:
            warn_user(f"the {kind} model has no term, so there is no column; see inclusion_, or try kind='best'.")
        return columns

    def _transformed(self, X: Any, kind: str) -> np.ndarray:
        """Columns of a model."""
        used = self._used(kind)
        columns, always = self._columns(self._design(X), used)
        return np.hstack([always, columns[:, used]])

    def _names_out(self, names: Sequence[str] | None, kind: str) -> list[str]:
        """Their names; ``names`` are those of the columns of X where they differ from the fit's."""
        used = self._used(kind)
        candidates, always = self._column_names(names)
        return [*always, *(candidates[j] for j in used)]

    def _frames_wanted(self) -> bool:
        """Whether scikit-learn is going to name the columns of the output."""
        own = getattr(self, "_sklearn_output_config", {}).get("transform")
        return (own or get_config()["transform_output"]) != "default"

    def get_feature_names_out(self, input_features: Any = None, kind: str = "median") -> np.ndarray:
        """Names of the columns that ``transform`` gives.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of the columns of X; after a fit on a frame they have to be its own.
        kind : {"median", "best"}
            The model.

        Returns
        -------
        ndarray of str

        Examples
        --------
        >>> from modejump import BGLMRegressor
        >>> from sklearn.datasets import load_diabetes
        >>> model = BGLMRegressor().fit(*load_diabetes(return_X_y=True, as_frame=True))
        >>> model.get_feature_names_out(kind="best").tolist()
        ['sex', 'bmi', 'bp', 's3', 's5']
        """
        check_is_fitted(self)
        names = None if input_features is None else [str(name) for name in input_features]
        own = getattr(self, "feature_names_in_", None)
        if names is not None and len(names) != self.n_features_in_:
            raise InputError(f"input_features has {len(names)} names, but the fit had {self.n_features_in_} columns.")
        if names is not None and own is not None and names != own.tolist():
            raise InputError("input_features are not the names of the fit (feature_names_in_); leave them out.")
        return np.array(self._names_out(None if own is not None else names, kind), dtype=object)
