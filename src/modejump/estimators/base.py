"""What the estimators share: prediction, tables of the posterior, storage, and what scikit-learn asks for."""

from __future__ import annotations

import dataclasses
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from modejump.core.errors import InputError, ModejumpWarning
from modejump.data.chunks import column, frames, refuse_offset
from modejump.data.sources import is_source
from modejump.data.tables import read_labels, read_response
from modejump.estimators import options
from modejump.estimators.job import Desk, Job
from modejump.likelihoods import FAMILIES, Family
from modejump.likelihoods.custom.own import Own
from modejump.posterior.posterior import Posterior
from modejump.posterior.prediction.distribution import NewRows
from modejump.problem.problem import Problem

if TYPE_CHECKING:
    from modejump.estimators.summary import Summary
    from modejump.posterior.verdict import Verdict

# Rows of ``models_``; ``posterior_.models(limit=None)`` has all.
MODELS_SHOWN = 1000


class PosteriorEstimator(BaseEstimator):
    """An estimator whose fit is a posterior over models.

    A subclass sets ``table_``, ``seed_`` and ``posterior_`` by :meth:`_keep`, and says how the rows of a table
    become the columns of its problem (:meth:`_new_rows`).
    """

    # A run in a directory puts its own in the place of this one for the time of a fit.
    _desk: Desk = Desk()
    posterior_: Posterior
    table_: Any
    seed_: int
    merged_seeds_: tuple[int, ...]
    n_features_in_: int
    feature_names_in_: np.ndarray
    offset_: str | None

    def _keep(self, job: Job, posterior: Posterior, stacklevel: int) -> None:
        """Keep the outcome of a fit, and warn where there is doubt: in the line of the user's that called it."""
        self.table_ = job.spec
        self.seed_ = job.seed
        self.posterior_ = posterior
        doubts = [str(self.verdict_)] if self.verdict_.level in ("doubtful", "bad") else []
        for text in (*doubts, *posterior.result.notes):
            warnings.warn(text, ModejumpWarning, stacklevel=stacklevel)

    def _read_family(self) -> Family:
        """The family and link of the response, from the options."""
        raise NotImplementedError

    def _read_y(self, y: Any, weights: np.ndarray | None, offset: np.ndarray | None, rows: int) -> np.ndarray:
        """The response as numbers that its family can have; a classifier learns its labels."""
        raise NotImplementedError

    def _do(self, job: Job) -> Self:
        """Do the work of a fit, and keep its outcome."""
        raise NotImplementedError

    def _new_rows(self, X: Any, kind: str, offset: Any = None) -> NewRows:
        raise NotImplementedError

    def _new_offset(self, offset: Any, rows: int) -> np.ndarray | None:
        """The offset of new rows, which must have one where those of the fit had."""
        if offset is None and self.offset_ is not None:
            raise InputError("the model was fitted with an offset, so new rows need one too; give offset=.")
        return options.read_offset(offset, self.problem_.family, rows)

    def _response_words(self) -> str:
        """Family and link on the page; empty for a Gaussian response, which goes without saying."""
        return self.problem_.family.words()

    def _mean(self, X: Any, kind: str, offset: Any = None) -> np.ndarray:
        """Predictive mean of the response."""
        if is_source(X):
            refuse_offset(offset)
            return np.concatenate([self._mean(part, kind) for part in frames(X, self.table_.variables)])
        return self._fitted.predictor(kind).mean(self._new_rows(X, kind, offset))

    def _mean_and_interval(self, X: Any, interval: Any, kind: str, offset: Any = None) -> pd.DataFrame:
        """Columns ``mean``, ``lower`` and ``upper``."""
        try:
            level = float(interval)
        except (TypeError, ValueError):
            level = float("nan")
        if not 0.0 < level < 1.0:
            raise InputError(f"interval must lie between 0 and 1, such as 0.9; got {interval!r}.")
        if is_source(X):
            refuse_offset(offset)
            parts = [self._mean_and_interval(part, level, kind) for part in frames(X, self.table_.variables)]
            return pd.concat(parts, ignore_index=True)
        predictor = self._fitted.predictor(kind)
        new = self._new_rows(X, kind, offset)
        lower, upper = predictor.interval(new, level)
        index = X.index if isinstance(X, pd.DataFrame) else None
        return pd.DataFrame({"mean": predictor.mean(new), "lower": lower, "upper": upper}, index=index)

    def page(self, features: int = 20, models: int = 5) -> Summary:
        """What ``summary`` prints, as data.

        Parameters
        ----------
        features, models : int
            How many of each to list.
        """
        from modejump.estimators.summary import summarise

        return summarise(self._fitted, features, models, response=self._response_words())

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
            self.posterior_ = Posterior(problem, old.result, old.kept, old.identity)

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
        from modejump.estimators.storage import save

        check_is_fitted(self, "posterior_")
        return save(self, Path(path))


class PosteriorRegressor(RegressorMixin, PosteriorEstimator):
    """A posterior that predicts numbers: measurements, counts, or positive amounts."""

    family: str | Own
    link: str | None

    def _read_family(self) -> Family:
        return options.read_family(self.family, self.link)

    def _read_y(self, y: Any, weights: np.ndarray | None, offset: np.ndarray | None, rows: int) -> np.ndarray:
        response = read_response(y, rows)
        if offset is None or np.ptp(offset) == 0.0:
            options.check_varies(response, weights)
        # Rows of weight zero do not count, whatever their response; the others keep their places for the sentence.
        used = response if weights is None else np.where(weights > 0, response, response[np.argmax(weights)])
        self._read_family().check(used)
        return response

    def predict(
        self, X: Any, interval: float | None = None, kind: str = "bma", offset: Any = None
    ) -> np.ndarray | pd.DataFrame:
        """Predict new observations.

        Parameters
        ----------
        X : data frame or array of shape (rows, columns)
            Covariates, as at fit.
        interval : float, optional
            Level of a central prediction interval for new observations, such as 0.9.
        kind : str
            "bma" averages over the models, "best" and "median" use the best and the median probability model.
        offset : array of shape (rows,), optional
            Offset of the new rows; needed where the fit had one.

        Returns
        -------
        ndarray or DataFrame
            The predictive mean, on the scale of the response; with ``interval``, a frame with columns ``mean``,
            ``lower`` and ``upper``.
        """
        if interval is None:
            return self._mean(X, kind, offset)
        return self._mean_and_interval(X, interval, kind, offset)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Share of the deviance that the predictions explain: R squared for a Gaussian response.

        Parameters
        ----------
        X : data frame or array of shape (rows, columns)
            Covariates, as at fit.
        y : array of shape (rows,)
            Response.
        sample_weight : array of shape (rows,), optional
            Case weights.
        offset : array of shape (rows,), optional
            Offset of the rows; needed where the fit had one.
        """
        return self._explained(self._mean(X, "bma", offset), X, y, sample_weight)

    def _explained(self, mean: np.ndarray, X: Any, y: Any, sample_weight: Any) -> float:
        if is_source(X):
            y, sample_weight = column(X, y), None if sample_weight is None else column(X, sample_weight)
        check_consistent_length(y, mean, sample_weight)
        weights = None if sample_weight is None else column_or_1d(sample_weight)
        return self.problem_.family.explained(np.asarray(column_or_1d(y), dtype=np.float64), mean, weights)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = getattr(FAMILIES.get(str(self.family)), "response", "") in ("count", "amount")
        return tags


class PosteriorClassifier(ClassifierMixin, PosteriorEstimator):
    """A posterior that predicts which of two classes a row belongs to."""

    link: str
    classes_: np.ndarray

    def _read_family(self) -> Family:
        return options.read_link(self.link)

    def _read_y(self, y: Any, weights: np.ndarray | None, offset: np.ndarray | None, rows: int) -> np.ndarray:
        self.classes_, response = read_labels(y, weights, rows)
        return response

    def _response_words(self) -> str:
        other, event = self.classes_.tolist()
        return f"{super()._response_words()}; the probability is that of {event!r}, against {other!r}"

    def predict(self, X: Any, kind: str = "bma", offset: Any = None) -> np.ndarray:
        """Predict the class of new rows: the likelier one.

        Parameters
        ----------
        X : data frame or array of shape (rows, columns)
            Covariates, as at fit.
        kind : str
            "bma" averages over the models, "best" and "median" use the best and the median probability model.
        offset : array of shape (rows,), optional
            Offset of the new rows; needed where the fit had one.
        """
        return self._labels(self._mean(X, kind, offset))

    def predict_proba(
        self, X: Any, interval: float | None = None, kind: str = "bma", offset: Any = None
    ) -> np.ndarray | pd.DataFrame:
        """Predict the probabilities of the classes.

        Parameters
        ----------
        X : data frame or array of shape (rows, columns)
            Covariates, as at fit.
        interval : float, optional
            Level of a central credible interval of the probability, such as 0.9.
        kind : str
            "bma" averages over the models, "best" and "median" use the best and the median probability model.
        offset : array of shape (rows,), optional
            Offset of the new rows; needed where the fit had one.

        Returns
        -------
        ndarray of shape (rows, 2), or DataFrame
            Probabilities in the order of ``classes_``; with ``interval``, a frame with columns ``mean``, ``lower``
            and ``upper`` for the second class.
        """
        if interval is None:
            return two_columns(self._mean(X, kind, offset))
        return self._mean_and_interval(X, interval, kind, offset)

    def predict_log_proba(self, X: Any, kind: str = "bma", offset: Any = None) -> np.ndarray:
        """Logarithms of the probabilities of the classes, in the order of ``classes_``.

        Parameters
        ----------
        X : data frame or array of shape (rows, columns)
            Covariates, as at fit.
        kind : str
            "bma" averages over the models, "best" and "median" use the best and the median probability model.
        offset : array of shape (rows,), optional
            Offset of the new rows; needed where the fit had one.
        """
        with np.errstate(divide="ignore"):
            return np.log(two_columns(self._mean(X, kind, offset)))

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Share of rows whose class is predicted.

        Parameters
        ----------
        X : data frame or array of shape (rows, columns)
            Covariates, as at fit.
        y : array of shape (rows,)
            Labels.
        sample_weight : array of shape (rows,), optional
            Case weights.
        offset : array of shape (rows,), optional
            Offset of the rows; needed where the fit had one.
        """
        return float(accuracy_score(y, self._labels(self._mean(X, "bma", offset)), sample_weight=sample_weight))

    def _labels(self, probability: np.ndarray) -> np.ndarray:
        return self.classes_[(probability > 0.5).astype(np.int64)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def two_columns(probability: np.ndarray) -> np.ndarray:
    """Probabilities of both classes from those of the second."""
    return np.column_stack([1.0 - probability, probability])


def checked_names(estimator: Any, X: Any, *, reset: bool) -> None:
    """scikit-learn's check of the names and the number of columns."""
    try:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    except (TypeError, ValueError) as error:  # a TypeError where some names are text and some are not
        raise InputError(str(error)) from None


def _own_arrays(value: Any) -> Any:
    """The same (nested) record with read-only arrays replaced by copies."""
    if isinstance(value, np.ndarray):
        return value if value.flags.writeable else np.array(value)
    if isinstance(value, tuple):
        return type(value)(*(_own_arrays(part) for part in value))
    return value
