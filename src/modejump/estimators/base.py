"""What the regressors share: prediction, tables of the posterior, storage, and what scikit-learn asks for."""

from __future__ import annotations

import dataclasses
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from modejump.errors import InputError, ModejumpWarning
from modejump.posterior.posterior import Posterior
from modejump.posterior.predict import NewRows
from modejump.problem import Problem

if TYPE_CHECKING:
    from modejump.estimators.summary import Summary
    from modejump.posterior.verdict import Verdict

# Rows of ``models_``; ``posterior_.models(limit=None)`` has all.
MODELS_SHOWN = 1000


class PosteriorRegressor(RegressorMixin, BaseEstimator):
    """A regressor whose fit is a posterior over models.

    A subclass sets ``table_``, ``seed_`` and ``posterior_`` by :meth:`_keep`, and says how the rows of a table
    become the columns of its problem (:meth:`_new_rows`).
    """

    posterior_: Posterior
    table_: Any
    seed_: int
    n_features_in_: int
    feature_names_in_: np.ndarray

    def _keep(self, spec: Any, seed: int, posterior: Posterior) -> None:
        """Keep the outcome of a fit, and warn where there is doubt."""
        self.table_ = spec
        self.seed_ = seed
        self.posterior_ = posterior
        doubts = [str(self.verdict_)] if self.verdict_.level in ("doubtful", "bad") else []
        for text in (*doubts, *posterior.result.notes):
            warnings.warn(text, ModejumpWarning, stacklevel=4)

    def predict(self, X: Any, interval: float | None = None, kind: str = "bma") -> np.ndarray | pd.DataFrame:
        """Predict new observations.

        Parameters
        ----------
        X : data frame or array of shape (rows, columns)
            Covariates, as at fit.
        interval : float, optional
            Level of a central prediction interval for new observations, such as 0.9.
        kind : str
            "bma" averages over the models, "best" and "median" use the best and the median probability model.

        Returns
        -------
        ndarray or DataFrame
            The predictive mean; with ``interval``, a frame with columns ``mean``, ``lower`` and ``upper``.
        """
        predictor = self._fitted.predictor(kind)
        new = self._new_rows(X, kind)
        if interval is None:
            return predictor.mean(new)
        try:
            level = float(interval)
        except (TypeError, ValueError):
            level = float("nan")
        if not 0.0 < level < 1.0:
            raise InputError(f"interval must lie between 0 and 1, such as 0.9; got {interval!r}.")
        lower, upper = predictor.interval(new, level)
        index = X.index if isinstance(X, pd.DataFrame) else None
        return pd.DataFrame({"mean": predictor.mean(new), "lower": lower, "upper": upper}, index=index)

    def _new_rows(self, X: Any, kind: str) -> NewRows:
        raise NotImplementedError

    def page(self, features: int = 20, models: int = 5) -> Summary:
        """What ``summary`` prints, as data.

        Parameters
        ----------
        features, models : int
            How many of each to list.
        """
        from modejump.estimators.summary import summarise

        return summarise(self._fitted, features, models)

    @property
    def inclusion_(self) -> pd.DataFrame:
        """Inclusion probability of each term, best first."""
        return self._fitted.inclusion

    @property
    def models_(self) -> pd.DataFrame:
        """The leading models, best first."""
        return self._fitted.models(MODELS_SHOWN)

    @property
    def problem_(self) -> Problem:
        """The data and priors as the samplers see them."""
        return self._fitted.problem

    @property
    def verdict_(self) -> Verdict:
        """What can be said about convergence."""
        return self._fitted.verdict

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle; arrays that joblib maps from a file are copied, because the kernels are compiled for own ones."""
        super().__setstate__(state)
        if "posterior_" in state:
            old = self.posterior_
            problem = dataclasses.replace(
                old.problem, data=_own_arrays(old.problem.data), base_coef=_own_arrays(old.problem.base_coef)
            )
            self.posterior_ = Posterior(problem, old.result, old.kept)

    @property
    def _fitted(self) -> Posterior:
        check_is_fitted(self, "posterior_")
        return self.posterior_

    def best_model(self) -> tuple[str, ...]:
        """Terms of the model of highest posterior probability; those always in are understood."""
        return self._fitted.best_model()

    def median_model(self) -> tuple[str, ...]:
        """Terms with inclusion probability of at least one half; those always in are understood."""
        return self._fitted.median_model()

    def summary(self, features: int = 20, models: int = 5) -> str:
        """The posterior on one page: data, priors, algorithm, verdict, features, models, and sizes.

        Parameters
        ----------
        features, models : int
            How many of each to list.
        """
        return self.page(features, models).text()

    def to_arviz(self) -> Any:
        """The chains as an ArviZ object; needs ArviZ and a sampled posterior."""
        return self._fitted.to_arviz()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fitted model into a directory, without pickle and without the data.

        ``modejump.load`` reads it.

        Parameters
        ----------
        path : str or path
            The directory; made where it does not exist.
        """
        from modejump.estimators.stored import save

        check_is_fitted(self, "posterior_")
        return save(self, Path(path))


def checked_names(estimator: Any, X: Any, *, reset: bool) -> None:
    """scikit-learn's check of the names and the number of columns."""
    try:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    except ValueError as error:
        raise InputError(str(error)) from None


def _own_arrays(value: Any) -> Any:
    """The same (nested) record with read-only arrays replaced by copies."""
    if isinstance(value, np.ndarray):
        return value if value.flags.writeable else np.array(value)
    if isinstance(value, tuple):
        return type(value)(*(_own_arrays(part) for part in value))
    return value
