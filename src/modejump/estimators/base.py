"""What the estimators share: fit, prediction, storage, and what scikit-learn asks for."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags, check_consistent_length, column_or_1d

from modejump.core.errors import InputError, warn_user
from modejump.data.coding import TableSpec, is_frame, open_frame
from modejump.data.formulas import FormulaSpec
from modejump.data.response import read_offset
from modejump.data.rows import as_if_writable
from modejump.data.sources import is_source, open_rows, open_source
from modejump.data.tables import Table, read_table
from modejump.estimators.docs import documented
from modejump.estimators.given import Given, check_names, frame_like, read_given
from modejump.estimators.options import Options, count_workers, read_always_in
from modejump.estimators.prepare import Chunks, prepare
from modejump.estimators.questions.questions import Questions
from modejump.estimators.questions.typical import Covariate, describe_covariates
from modejump.estimators.reports import Reports
from modejump.estimators.transform import FeatureMaker
from modejump.likelihoods import FAMILIES, Family, resolve_family
from modejump.posterior.posterior import Posterior
from modejump.posterior.prediction.distribution import NewRows, new_rows
from modejump.runtime.context import Context, open_context
from modejump.samplers.budget import Budget
from modejump.samplers.result import Result
from modejump.samplers.sample import sample
from modejump.samplers.warmup.noise import settle_noise


class PosteriorEstimator(Reports, Questions, FeatureMaker, BaseEstimator):
    """An estimator whose fit is a posterior over models.

    A subclass says how the rows of a table become the columns of its problem, and how its equation is written.
    """

    coef_prior: Any
    model_prior: Any
    algorithm: str
    chains: int | None
    budget: Budget | None
    n_jobs: int | None
    random_state: Any
    progress: Any
    sampler: Any
    always_in: Sequence[str | int] = ()
    target_: str
    seed_: int
    merged_seeds_: tuple[int, ...]
    offset_: str | None
    _options: Options
    # Typical value and range of each column, for effect curves; None where nobody looked.
    _covariates_seen: tuple[Covariate, ...] | None = None

    # --- fit ------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Compute the posterior over the models.

        Parameters
        ----------
        X : data frame or array of shape (n, columns), or source of chunks
            Covariates. In selection among the columns of a frame, those of categories or text are factors: blocks of
            treatment contrasts; in a search for laws, one indicator for each level, such as ``sex[male]``. Sparse
            matrices become dense where memory holds them. Rows beyond memory come from a source such as
            ``scan_parquet(path)``, or from a Dask frame: then X holds the response too.
        y : array of shape (n,), or str
            Response, or the name of its column in X, which is no covariate then.
        sample_weight : array of shape (n,), or str, optional
            Case weights, or the name of their column in X: a row of weight 2 counts as two rows.
        offset : array of shape (n,), or str, optional
            Known part of the linear predictor, such as the logarithm of the exposure for counts, or the name of its
            column in X; not for a Gaussian response, where it can be subtracted from y.

        Examples
        --------
        >>> from modejump import BGLMRegressor
        >>> rng = np.random.default_rng(1)
        >>> table = pd.DataFrame({"dose": rng.uniform(0, 4, 60), "age": rng.normal(size=60), "site": ["A", "B"] * 30})
        >>> table["growth"] = 2.0 * table["dose"] + 3.0 * (table["site"] == "B") + rng.normal(size=60)
        >>> BGLMRegressor().fit(table, "growth").best_model()
        ('dose', 'site')
        """
        return self._fit_given(read_given(X, y, sample_weight, offset))

    def _fit_given(self, given: Given) -> Self:
        """Fit to what was handed in."""
        return self._fit_here(*self._read_given(given))

    def _read(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> tuple[Table | Chunks, Options]:
        """The rows and the options of a fit; the names of the columns are learnt."""
        return self._read_given(read_given(X, y, sample_weight, offset))

    def _read_given(self, given: Given) -> tuple[Table | Chunks, Options]:
        self._beside = given.named
        return self._read_table(*given[:4])

    def _read_table(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[Table | Chunks, Options]:
        """The same from covariates, and what goes with each row."""
        options = Options.read(self)
        groups, laws = options.groups, options.space is not None
        options.family.check_rows(None, offset)
        if is_source(X):
            if getattr(self, "family", "") is None:
                options = dataclasses.replace(options, family=resolve_family("gaussian"))
            if not options.family.conjugate:
                raise InputError(
                    "rows that are read in chunks need family 'gaussian'; for other families read the table, or a "
                    "sample of its rows, into memory."
                )
            if options.missing != "refuse":
                raise InputError("missing values of rows that are read in chunks are refused; leave missing out.")
            rows = open_rows(X, y, sample_weight, count_workers(options.n_jobs))
            chunks = Chunks(TableSpec.of_numbers(rows.covariates, groups), rows)
            self._learn_names(rows.covariates)
            return chunks, self._with_terms(chunks.spec, options)
        table = read_table(
            X,
            y,
            sample_weight,
            offset,
            groups=groups,
            indicators=laws,
            missing=options.missing,
            labels=options.family.response == "class",
            estimator=self,
        )
        check_names(self, X, reset=True)
        return self._checked(table, options)

    def _checked(self, table: Table, options: Options) -> tuple[Table, Options]:
        """Rows whose response the family can have, equal ones merged."""
        if table.classes is None:
            options.family.check(table.used)
        assert isinstance(table.spec, TableSpec | FormulaSpec)
        options = self._with_terms(table.spec, options)
        return (table if options.family.custom else table.merged()), options

    def _with_terms(self, spec: TableSpec | FormulaSpec, options: Options) -> Options:
        """The options with the names of the terms that are always in."""
        columns = spec.variables if isinstance(spec, TableSpec) else []
        return dataclasses.replace(options, always_in=read_always_in(self.always_in, list(spec.terms), columns))

    def _fit_here(self, table: Table | Chunks, options: Options) -> Self:
        """Fit without a directory."""
        with open_context(self.progress, count_workers(options.n_jobs)) as context:
            return self._fit(table, options, context)

    def _fit(self, table: Table | Chunks, options: Options, context: Context) -> Self:
        """The way of every fit: prepare, sample, and what the result says."""
        problem, plan = settle_noise(*prepare(table, options), context)
        result = sample(problem, plan, context)
        return self._keep(table, options, Posterior(problem, result))

    def _keep(self, table: Table | Chunks, options: Options, posterior: Posterior) -> Self:
        """Keep the outcome of a fit, and warn where there is doubt."""
        self.table_, self.offset_, self.seed_ = table.spec, table.offset_name, options.seed
        self.target_ = table.target
        self._options = options
        self.posterior_ = posterior
        self._covariates_seen = describe_covariates(table)
        if table.classes is not None:
            self.classes_ = table.classes
        # Among given terms, a model that was missed changes no frequency.
        missed = options.space is not None and self.verdict_.search == "uncertain"
        doubt = missed or self.verdict_.level in ("doubtful", "bad")
        said = [str(self.verdict_) + _longer(self.verdict_, posterior.result)][: int(doubt)]
        # Nobody asked for the precision that a default aims at, and the verdict is about it.
        notes = [note for note in posterior.result.notes if options.budget or "wanted precision" not in note]
        for text in (*said, *notes):
            warn_user(text)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = getattr(self, "missing", "refuse") != "refuse"
        return tags

    def _learn_names(self, names: Sequence[str]) -> None:
        """What scikit-learn asks of a fitted estimator."""
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle; kernels are compiled for arrays that can be written to, and joblib may map others from a file."""
        super().__setstate__(state)
        if "posterior_" in state:
            old, result = self.posterior_.problem, self.posterior_.result
            problem = dataclasses.replace(old, data=_writable(old.data), base_coef=_writable(old.base_coef))
            if result.laws is not None:
                result = dataclasses.replace(result, laws=dataclasses.replace(result.laws, problem=problem))
            self.posterior_ = dataclasses.replace(self.posterior_, problem=problem, result=result)

    # --- prediction -----------------------------------------------------------------------------------------------

    def _new_rows(self, X: Any, kind: str, offset: Any) -> NewRows:
        if offset is None and self._beside.get("offset") in (open_frame(X).columns if is_frame(X) else ()):
            offset = self._beside["offset"]
        X, _, _, offset, _ = read_given(X, offset=offset)
        if offset is None and self.offset_ is not None:
            raise InputError("the model was fitted with an offset, so new rows need one too; give offset=.")
        self.problem_.family.check_rows(None, offset)
        design = self._design(X)
        columns = self._columns(design, self._fitted.predictor(kind).used)
        return new_rows(self.problem_, *columns, offset=read_offset(offset, len(design)))

    def _frames(self, source: Any, offset: Any) -> Iterator[pd.DataFrame]:
        """Chunks of new rows."""
        if offset is not None:
            raise InputError("an offset does not go with rows that are read in chunks; predict tables in memory.")
        return open_source(source).frames(self.table_.variables)

    def _mean(self, X: Any, kind: str, offset: Any) -> np.ndarray:
        """Predictive mean of the response."""
        if is_source(X):
            return np.concatenate([self._mean(part, kind, None) for part in self._frames(X, offset)])
        return self._fitted.predictor(kind).mean(self._new_rows(X, kind, offset))

    def _mean_and_interval(self, X: Any, interval: Any, kind: str, offset: Any) -> Any:
        """Columns ``mean``, ``lower`` and ``upper``, in a frame of the kind that X is."""
        try:
            level = float(interval)
        except (TypeError, ValueError):
            level = float("nan")
        if not 0.0 < level < 1.0:
            raise InputError(f"interval must lie between 0 and 1, such as 0.9; got {interval!r}.")
        if is_source(X):
            parts = [self._mean_and_interval(part, level, kind, None) for part in self._frames(X, offset)]
            return pd.concat(parts, ignore_index=True)
        predictor, new = self._fitted.predictor(kind), self._new_rows(X, kind, offset)
        lower, upper = predictor.interval(new, level)
        return frame_like(X, {"mean": predictor.mean(new), "lower": lower, "upper": upper})

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fitted model into a directory, without pickle and without the data; ``modejump.load`` reads it.

        Parameters
        ----------
        path : str or path
            The directory; made where it does not exist.

        Examples
        --------
        >>> import tempfile
        >>> from modejump import BGLMRegressor, load
        >>> x = np.random.default_rng(1).normal(size=(40, 2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = BGLMRegressor().fit(x, x[:, 0]).save(f"{folder}/model")
        ...     load(path).best_model()
        ('x0',)
        """
        from modejump.estimators.storage import save

        self._fitted  # noqa: B018  not fitted, or of several classes: a sentence
        return save(self, Path(path))


class PosteriorRegressor(RegressorMixin, PosteriorEstimator):
    """A posterior that predicts numbers: measurements, counts, or positive amounts."""

    family: str | Family | None
    link: str | None

    @documented()
    def predict(
        self, X: Any, interval: float | None = None, kind: str = "bma", offset: Any = None, return_std: bool = False
    ) -> Any:
        """Predict new observations.

        {parameters}

        Returns
        -------
        ndarray, tuple of two of them, or data frame
            The predictive mean, on the scale of the response; with ``return_std``, the mean and the standard deviation
            of a new observation; with ``interval``, a frame with columns ``mean``, ``lower`` and ``upper``.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = BGLMRegressor().fit(X, y)
        >>> model.predict(X.head(2)).round(1)
        array([206.6,  71.6])
        >>> model.predict(X.head(2), interval=0.9).round(1)
            mean  lower  upper
        0  206.6  117.0  296.2
        1   71.6  -18.0  161.2
        """
        if return_std and interval is not None:
            raise InputError("predict gives an interval or return_std, not both; call it twice.")
        if return_std:
            return self._mean_and_std(X, kind, offset)
        if interval is None:
            return self._mean(X, kind, offset)
        return self._mean_and_interval(X, interval, kind, offset)

    def _mean_and_std(self, X: Any, kind: str, offset: Any) -> tuple[np.ndarray, np.ndarray]:
        """Predictive mean and standard deviation."""
        if is_source(X):
            parts = [self._mean_and_std(part, kind, None) for part in self._frames(X, offset)]
            return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        predictor, new = self._fitted.predictor(kind), self._new_rows(X, kind, offset)
        return predictor.mean(new), predictor.std(new)

    @documented()
    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Share of the deviance that the predictions explain: R squared for a Gaussian response.

        {parameters}

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from modejump import BGLMRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> round(BGLMRegressor().fit(X[:300], y[:300]).score(X[300:], y[300:]), 2)
        0.51
        """
        X, y, sample_weight, offset, _ = read_given(X, y, sample_weight, offset)
        mean = self._mean(X, "bma", offset)
        if is_source(X):
            source = open_source(X)
            y, sample_weight = source.column(y), None if sample_weight is None else source.column(sample_weight)
        check_consistent_length(y, mean, sample_weight)
        weights = None if sample_weight is None else column_or_1d(sample_weight)
        return self.problem_.family.explained(np.asarray(column_or_1d(y), dtype=np.float64), mean, weights)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = getattr(FAMILIES.get(str(self.family)), "response", "") in ("count", "amount")
        return tags


def _longer(verdict: str, result: Result) -> str:
    """How to run longer, where a verdict says so: half the error takes four times the steps."""
    if result.batch_means is None or "run longer" not in verdict:
        return ""
    steps = 4 * result.steps // max(len(result.batch_means), 1)
    return f" To run longer, ask for more steps of each chain, such as budget=Budget(steps={steps})."


def _writable(value: Any) -> Any:
    """The same (nested) record with arrays that can be written to."""
    if isinstance(value, np.ndarray):
        return as_if_writable(value)
    if isinstance(value, tuple):
        return type(value)(*(_writable(part) for part in value))
    return value
