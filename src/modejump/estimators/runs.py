"""Runs in a directory: fits that can be watched, and resumed after whatever ended them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from modejump.core.errors import InputError, warn_user
from modejump.data.tables import Table
from modejump.estimators.base import PosteriorEstimator
from modejump.estimators.options import Options, count_workers
from modejump.estimators.prepare import Chunks
from modejump.estimators.storage import estimator_from_dict, estimator_to_dict, load
from modejump.runtime.checkpoints import EVERY
from modejump.runtime.context import open_context
from modejump.runtime.directory import RunDirectory
from modejump.runtime.files import CHECKPOINT, JOB, MODEL, package_version

_ARRAYS = ("design", "response", "weights", "offset")


class Run:
    """A directory for one fit that may take long.

    Every few seconds the state of the fit is written there, so that :func:`resume` can continue it whatever ended it,
    and give the answer that it would have given.

    Parameters
    ----------
    directory : str or path
        The directory; made where it is missing.
    every : float
        Seconds between two checkpoints, at least; 0 writes none, so that a run that ended starts again.
    force : bool
        Whether a directory that is not empty may be used; an earlier run in it is given up.

    Examples
    --------
    >>> import tempfile
    >>> from modejump import BGLMRegressor, Budget, Run, resume
    >>> x = np.random.default_rng(1).normal(size=(60, 3))
    >>> y = x[:, 0] - x[:, 2]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = Run(f"{folder}/run").fit(BGLMRegressor(algorithm="mjmcmc", budget=Budget(steps=2000)), x, y)
    ...     again = resume(f"{folder}/run")  # it is finished: read from the directory
    >>> model.best_model() == again.best_model()
    True
    """

    def __init__(self, directory: str | os.PathLike[str], every: float = EVERY, force: bool = False) -> None:
        if not isinstance(every, int | float) or isinstance(every, bool) or not 0 <= every < np.inf:
            raise InputError(f"every is {every!r}; give the seconds between two checkpoints, 0 for none.")
        self.directory, self.every, self.force = RunDirectory(directory), float(every), bool(force)
        # What the run is about, in words.
        self.title = str(directory)
        # The command that asked for it, where one did.
        self.command = ""

    def fit(self, estimator: Any, X: Any, y: Any, **more: Any) -> Any:
        """Fit an estimator in the directory; returns it.

        Parameters
        ----------
        estimator : estimator
            One of modejump's.
        X, y : data
            As for its ``fit``.
        **more : data
            ``sample_weight`` and the like.

        Examples
        --------
        >>> import tempfile
        >>> from modejump import BGLMRegressor
        >>> x = np.random.default_rng(1).normal(size=(60, 3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Run(f"{folder}/run").fit(BGLMRegressor(), x, x[:, 0]).best_model()
        ('x0',)
        """
        return self._fit(estimator, "_read", X, y, **more)

    def fit_formula(self, estimator: Any, formula: str, data: Any, **more: Any) -> Any:
        """Fit an estimator by a formula in the directory; returns it.

        Parameters
        ----------
        estimator : estimator
            One of modejump's.
        formula : str
            As for its ``fit_formula``.
        data : data frame
            As for its ``fit_formula``.
        **more : data
            ``sample_weight`` and the like.

        Examples
        --------
        >>> import tempfile
        >>> import pandas as pd
        >>> from modejump import BGLMRegressor
        >>> table = pd.DataFrame({"a": np.arange(30.0), "y": np.arange(30.0) + np.sin(np.arange(30.0))})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Run(f"{folder}/run").fit_formula(BGLMRegressor(), "y ~ a + np.sqrt(a)", table).best_model()
        ('a',)
        """
        return self._fit(estimator, "_read_formula", formula, data, **more)

    def _fit(self, estimator: Any, read: str, *data: Any, **more: Any) -> Any:
        if not isinstance(estimator, PosteriorEstimator):
            raise InputError(f"a run fits modejump's estimators; got {type(estimator).__name__}.")
        self.directory.refuse_overwrite(self.force)
        table, options = getattr(estimator, read)(*data, **more)
        if isinstance(table, Chunks):
            raise InputError(
                "a run directory keeps the rows, and these are read in chunks; fit without one, and save the model."
            )
        if options.family.custom:
            raise InputError(
                "a run directory holds no functions, so a likelihood of your own cannot be resumed; fit without one, "
                "and save the model."
            )
        with self._taken():
            job = estimator_to_dict(estimator, options, table) | {
                "title": self.title,
                "command": self.command,
                "every": self.every,
            }
            arrays = {name: part for name in _ARRAYS if (part := getattr(table, name)) is not None}
            fingerprint = self.directory.begin(job, arrays)
            self.directory.log.write(f"begun: seed {options.seed}, modejump {package_version()}")
            return self._work(estimator, table, options, fingerprint)

    def store(self, estimator: Any) -> None:
        """Save a fitted estimator in the directory, in the place of whatever run is there.

        Parameters
        ----------
        estimator : estimator
            One that no run in a directory can fit, because its rows are elsewhere.

        Examples
        --------
        >>> import tempfile
        >>> from modejump import BGLMRegressor, load
        >>> x = np.random.default_rng(1).normal(size=(60, 3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Run(f"{folder}/run").store(BGLMRegressor().fit(x, x[:, 0]))
        ...     load(f"{folder}/run").best_model()
        ('x0',)
        """
        with self._taken():
            estimator.save(self.directory.path)
            JOB.remove(self.directory.path)
            self.directory.tidy()

    @contextmanager
    def _taken(self) -> Iterator[None]:
        """The directory for this process alone; where nothing was written there, it is gone afterwards."""
        directory = self.directory
        directory.refuse_overwrite(self.force)
        made = not directory.path.exists()
        directory.path.mkdir(parents=True, exist_ok=True)
        try:
            with directory.locked():
                # Another process may have been here since.
                directory.refuse_overwrite(self.force)
                yield
        finally:
            if made:
                with suppress(OSError):
                    directory.path.rmdir()

    def _work(self, estimator: Any, table: Table, options: Options, fingerprint: str) -> Any:
        """Fit, write the outcome, and let the log tell how it ended."""
        directory = self.directory
        try:
            checkpoint = directory.checkpoint(self.every, fingerprint)
            workers = count_workers(options.n_jobs)
            with open_context(estimator.progress, workers, checkpoint, directory.log) as context:
                estimator._fit(table, options, context)
            try:
                estimator.save(directory.path)
            except OSError as error:
                raise InputError(
                    f"the outcome cannot be written into {directory.path} ({error.strerror or error}); make room, then "
                    f"resume it with modejump resume {directory.path}."
                ) from error
        except BaseException as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            directory.log.write("interrupted" if isinstance(error, KeyboardInterrupt) else f"failed: {reason}")
            raise
        if estimator.posterior_.result.finished:
            directory.log.write("finished")
            directory.tidy()
        else:
            directory.log.write("interrupted; partial results are stored, and the run can be resumed")
        return estimator


def resume(
    directory: str | os.PathLike[str], *, n_jobs: int | None = None, every: float | None = None, progress: Any = "auto"
) -> Any:
    """Resume an interrupted run, and return the fitted estimator.

    The answer is that of a run that nothing had ended. Where the run is finished, it is read as ``load`` reads it.

    Parameters
    ----------
    directory : str or path
        The directory of the run.
    n_jobs : int, optional
        Workers; as before by default. The answer does not depend on it.
    every : float, optional
        Seconds between two checkpoints; as before by default.
    progress : bool, "auto" or callable
        As for the estimators.

    Examples
    --------
    >>> import tempfile
    >>> from modejump import BGLMRegressor
    >>> x = np.random.default_rng(1).normal(size=(60, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = Run(f"{folder}/run").fit(BGLMRegressor(), x, x[:, 0])
    ...     again = resume(f"{folder}/run")  # it is finished: read from the directory
    >>> again.best_model()
    ('x0',)
    """
    found = RunDirectory(directory)
    job = found.about()
    with found.locked():
        outcome = _outcome(found)
        if outcome is not None and outcome.posterior_.result.finished:
            found.tidy()
            return outcome
        job, arrays = found.read()
        try:
            estimator, options, about = estimator_from_dict(job, progress=progress)
            table = Table(**about, **{name: arrays.get(name) for name in _ARRAYS})  # type: ignore[arg-type]
            _check_rows(table)
            run = Run(directory, float(job["every"]) if every is None else every)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise JOB.damaged(found.path, f"{JOB.file} is not what was written") from None
        if n_jobs is not None:
            estimator.n_jobs, options = n_jobs, dataclasses.replace(options, n_jobs=n_jobs)
        if job["modejump_version"] != package_version():
            warn_user(
                f"the run was begun by modejump {job['modejump_version']}, and another version may round differently."
            )
        found.log.write("resumed" if CHECKPOINT.exists(found.path) else "resumed from the beginning")
        return run._work(estimator, table, options, job["fingerprint"])


def _check_rows(table: Table) -> None:
    """Raise TypeError where stored rows are no table."""
    parts = [part for part in (table.response, table.weights, table.offset) if part is not None]
    rows = table.design.shape[0]
    if table.design.ndim != 2 or any(part.shape != (rows,) or part.dtype != np.float64 for part in parts):
        raise TypeError("no table")


def _outcome(directory: RunDirectory) -> Any:
    """What a run left as its outcome; None where there is none, or a damaged one beside a run that can be resumed."""
    if not MODEL.exists(directory.path):
        return None
    try:
        return load(directory.path)
    except InputError:
        if directory.unfinished:
            return None
        raise
