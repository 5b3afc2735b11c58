"""What the classifiers share: probabilities of classes, and one posterior for each of several classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin, clone
from sklearn.metrics import accuracy_score

from modejump.core.errors import InputError
from modejump.data.response import ManyClasses
from modejump.data.tables import Table
from modejump.estimators.base import PosteriorEstimator
from modejump.estimators.docs import documented
from modejump.estimators.given import Given, frame_like, read_given
from modejump.estimators.options import Options
from modejump.estimators.prepare import Chunks
from modejump.posterior.posterior import Posterior


class OneVersusRest(PosteriorEstimator):
    """A classifier of two classes, or of more: then ``estimators_`` has one for each class, fitted against the rest."""

    classes_: np.ndarray
    estimators_: list[Any]

    @property
    def _several(self) -> bool:
        """Whether there are more than two classes."""
        return hasattr(self, "estimators_")

    @property
    def _fitted(self) -> Posterior:
        if self._several:
            raise InputError(
                f"a model of {len(self.classes_)} classes is one posterior for each of them; call this on one of "
                "model.estimators_, which are in the order of classes_."
            )
        return super()._fitted

    def _keep(self, table: Table | Chunks, options: Options, posterior: Posterior) -> Self:
        # An earlier fit may have been to more classes.
        self.__dict__.pop("estimators_", None)
        return super()._keep(table, options, posterior)

    def _fit_given(self, given: Given) -> Self:
        try:
            return super()._fit_given(given)
        except ManyClasses as many:
            return self._fit_each(given, many.labels, many.classes)

    def _fit_each(self, given: Given, labels: np.ndarray, classes: np.ndarray) -> Self:
        """Fit a copy of this estimator to each class against the rest."""
        fitted = []
        for label in classes.tolist():
            name = label if isinstance(label, str) else f"class_{label}"
            one = clone(self).fit(given.X, pd.Series(labels == label, name=name), given.sample_weight, given.offset)
            one._beside = given.named
            fitted.append(one)
        self.__dict__.pop("posterior_", None)
        self.estimators_, self.classes_ = fitted, classes
        for known in ("n_features_in_", "feature_names_in_", "offset_", "seed_"):
            self.__dict__.pop(known, None)
            if hasattr(fitted[0], known):
                setattr(self, known, getattr(fitted[0], known))
        return self

    def _class_probabilities(self, X: Any, kind: str, offset: Any) -> np.ndarray:
        """Probabilities of the classes; those of each class against the rest, divided by their sum, for several."""
        if not self._several:
            second = self._mean(X, kind, offset)
            return np.column_stack([1.0 - second, second])
        each = np.column_stack([one._mean(X, kind, offset) for one in self.estimators_])
        total = each.sum(axis=1, keepdims=True)
        # A row that is like none of the classes tells nothing.
        return np.divide(each, total, out=np.full_like(each, 1.0 / each.shape[1]), where=total > 0.0)

    @property
    def inclusion_(self) -> pd.DataFrame:
        """Inclusion probability of each term or law, best first; of several classes a column for each of them."""
        if not self._several:
            return super().inclusion_
        columns = [one.inclusion_["probability"] for one in self.estimators_]
        table = pd.concat(columns, axis=1, keys=self.classes_.tolist()).fillna(0.0)
        return table.iloc[np.argsort(-table.max(axis=1).to_numpy(), kind="stable")].rename_axis(index="feature")

    def _page_text(self, features: int, models: int) -> str:
        if not self._several:
            return super()._page_text(features, models)
        pages = [one.summary(features, models) for one in self.estimators_]
        return "\n\n\n".join(f"{label}, against the rest\n\n{page}" for label, page in zip(self.classes_, pages))

    def _transformed(self, X: Any, kind: str) -> np.ndarray:
        if not self._several:
            return super()._transformed(X, kind)
        columns = np.hstack([one._transformed(X, kind) for one in self.estimators_])
        return columns[:, self._first_places(None, kind)]

    def _names_out(self, names: Sequence[str] | None, kind: str) -> list[str]:
        if not self._several:
            return super()._names_out(names, kind)
        every = [name for one in self.estimators_ for name in one._names_out(names, kind)]
        return [every[j] for j in self._first_places(names, kind)]

    def _first_places(self, names: Sequence[str] | None, kind: str) -> list[int]:
        """Columns of the classes' models, each once."""
        every = [name for one in self.estimators_ for name in one._names_out(names, kind)]
        return [j for j, name in enumerate(every) if name not in every[:j]]


class PosteriorClassifier(ClassifierMixin, OneVersusRest):
    """A posterior that predicts which class a row belongs to."""

    link: str | None

    def _response_words(self) -> str:
        other, event = self.classes_.tolist()
        return f"{super()._response_words()}; the probability is that of {event!r}, against {other!r}"

    @documented()
    def predict(self, X: Any, interval: float | None = None, kind: str = "bma", offset: Any = None) -> Any:
        """Predict the most probable class of new rows.

        {parameters}

        Returns
        -------
        ndarray of shape (rows,), or data frame
            Labels; with ``interval``, a frame with columns ``class``, and ``mean``, ``lower`` and ``upper`` of the
            probability of the second class, where there are two.

        Examples
        --------
        >>> from modejump import BGLMClassifier
        >>> X = np.random.default_rng(1).normal(size=(200, 3))
        >>> y = np.where(X[:, 1] + np.random.default_rng(2).logistic(size=200) > 0, "yes", "no")
        >>> model = BGLMClassifier().fit(X, y)
        >>> model.predict(X[:3]).tolist()
        ['yes', 'yes', 'yes']
        """
        if interval is None:
            most = np.argmax(self._class_probabilities(X, kind, offset), axis=1)
            return self.classes_[most]
        ends = self._mean_and_interval(X, interval, kind, offset)
        table = {name: np.asarray(ends[name]) for name in ("mean", "lower", "upper")}
        return frame_like(X, {"class": self.classes_[(table["mean"] > 0.5).astype(np.int64)], **table})

    @documented()
    def predict_proba(
        self, X: Any, interval: float | None = None, kind: str = "bma", offset: Any = None
    ) -> np.ndarray | pd.DataFrame:
        """Predict the probabilities of the classes.

        {parameters}

        Returns
        -------
        ndarray of shape (rows, classes), or data frame
            Probabilities in the order of ``classes_``; of more than two classes those of each against the rest, divided
            by their sum. With ``interval``, a frame with columns ``mean``, ``lower``
            and ``upper`` for the second class, where there are two.

        Examples
        --------
        >>> from modejump import BGLMClassifier
        >>> X = np.random.default_rng(1).normal(size=(200, 3))
        >>> y = np.where(X[:, 1] + np.random.default_rng(2).logistic(size=200) > 0, "yes", "no")
        >>> model = BGLMClassifier().fit(X, y)
        >>> model.predict_proba(X[:2]).round(2)
        array([[0.3 , 0.7 ],
               [0.26, 0.74]])
        """
        if interval is not None:
            return self._mean_and_interval(X, interval, kind, offset)
        return self._class_probabilities(X, kind, offset)

    @documented()
    def predict_log_proba(self, X: Any, kind: str = "bma", offset: Any = None) -> np.ndarray:
        """Logarithms of the probabilities of the classes, in the order of ``classes_``.

        {parameters}

        Examples
        --------
        >>> from modejump import BGLMClassifier
        >>> X = np.random.default_rng(1).normal(size=(200, 3))
        >>> y = np.where(X[:, 1] + np.random.default_rng(2).logistic(size=200) > 0, "yes", "no")
        >>> model = BGLMClassifier().fit(X, y)
        >>> model.predict_log_proba(X[:1]).round(2)
        array([[-1.2 , -0.36]])
        """
        with np.errstate(divide="ignore"):
            return np.log(np.asarray(self.predict_proba(X, kind=kind, offset=offset)))

    @documented()
    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Share of rows whose class is predicted.

        {parameters}

        Examples
        --------
        >>> from modejump import BGLMClassifier
        >>> X = np.random.default_rng(1).normal(size=(200, 3))
        >>> y = np.where(X[:, 1] + np.random.default_rng(2).logistic(size=200) > 0, "yes", "no")
        >>> model = BGLMClassifier().fit(X, y)
        >>> round(model.score(X, y), 2)
        0.67
        """
        X, y, sample_weight, offset, _ = read_given(X, y, sample_weight, offset)
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(accuracy_score(np.asarray(y), self.predict(X, offset=offset), sample_weight=weights))
