"""Runs in a directory: fits that can be watched, and that go on after whatever ended them.

``job.json`` says what is to be done, ``data.npz`` holds the rows, ``checkpoint.json`` and ``checkpoint-N.npz`` how far
the work has come, ``log.txt`` what happened when. The outcome is written beside them as ``save`` writes it; then the
rows and the checkpoints are removed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from modejump.core.errors import InputError, ModejumpWarning
from modejump.core.progress import Log
from modejump.data.sources import is_source
from modejump.estimators import options
from modejump.estimators.base import PosteriorClassifier, PosteriorEstimator
from modejump.estimators.bgnlm import Discovery
from modejump.estimators.job import Desk, Job
from modejump.estimators.storage import (
    ESTIMATORS,
    TABLES,
    classes_from_dict,
    classes_to_dict,
    load,
    need_transforms,
)
from modejump.features.nonlinear.space import Space
from modejump.priors.coefficients import coef_prior_from_dict, resolve_coef_prior
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.models import model_prior_from_dict, resolve_model_prior
from modejump.runtime.checkpoints import (
    EVERY,
    Checkpoint,
    read_arrays,
    remove_checkpoints,
    write_arrays,
    write_whole,
)
from modejump.runtime.locks import locked_file
from modejump.samplers.budget import Budget

FORMAT, FORMAT_VERSION = "modejump job", 1
JOB, DATA, LOG, LOCK, OUTCOME = "job.json", "data.npz", "log.txt", "lock", "run.json"
# What may change from one part of a run to the next, because no answer depends on it.
_FREE = ("n_jobs", "every")
# Files that were being written when something ended the process.
_BEGUN_FILE = re.compile(
    r"\.(data\.npz|job\.json|checkpoint(-\d+)?\.(npz|json)|posterior\.npz|(inclusion|models)\.csv|run\.json)"
    r"(\.\d+)?\.partial"
)


class Run(Desk):
    """A directory for one fit that may take long.

    Every few seconds the state of the fit is written there, so that :func:`resume` can go on with it whatever ended
    it, and gives the same answer as if nothing had happened.

    Parameters
    ----------
    directory : str or path
        The directory; made where it is missing.
    every : float
        Seconds between two checkpoints, at least; 0 writes none, so that a run that ended begins anew.
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
        self.directory, self.every, self.force = Path(directory), float(every), bool(force)
        self.log = Log(self.directory / LOG)
        # Anything more to keep in ``job.json``, made of what JSON holds.
        self.about: dict[str, Any] = {}
        self._resumed = ""
        self._begun = False

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
        """
        if is_source(X):
            raise InputError(
                "a run directory keeps the rows, and these are read in chunks; fit the estimator without one, and save "
                "it."
            )
        return self._fit(estimator, lambda: estimator.fit(X, y, **more))

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
        """
        return self._fit(estimator, lambda: estimator.fit_formula(formula, data, **more))

    def _fit(self, estimator: Any, work: Any) -> Any:
        if not isinstance(estimator, PosteriorEstimator):
            raise InputError(f"a run fits modejump's estimators; got {type(estimator).__name__}.")
        if getattr(getattr(estimator, "family", None), "custom", False):
            raise InputError(
                "a run directory holds no functions, so a likelihood of your own cannot be resumed from it; fit the "
                "estimator without one, and save it."
            )
        self._refuse_overwrite()
        made, self._begun = not self.directory.exists(), False
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            with self.locked(), self._at_work(estimator):
                # Another process may have been here since.
                self._refuse_overwrite()
                work()
                self._finish(estimator)
        finally:
            if made and not self._begun:
                # Options or data were refused: nothing happened here.
                with suppress(OSError):
                    self.directory.rmdir()
        return estimator

    def _refuse_overwrite(self) -> None:
        folder = self.directory
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; give a directory.")
        if self.force or not occupied(folder):
            return
        if unfinished(folder):
            raise InputError(
                f"the directory {folder} holds a run that is not finished; go on with it by modejump resume, or by "
                "modejump.resume, or begin anew with force."
            )
        raise InputError(f"the directory {folder} is not empty; choose another, or use force to write into it.")

    @contextmanager
    def _at_work(self, estimator: Any) -> Iterator[None]:
        """The estimator works here, and the log tells how it ends."""
        estimator._desk = self
        try:
            yield
        except BaseException as error:
            if self._begun:
                reason = " ".join(str(error).split()) or type(error).__name__
                self.log.write("interrupted" if isinstance(error, KeyboardInterrupt) else f"failed: {reason}")
            raise
        finally:
            del estimator._desk

    def begin(self, estimator: Any, job: Job) -> Checkpoint | None:
        """Write down what is to be done; called by the estimator when it has read its options and its table."""
        if self._resumed:
            self._begun = True
            return self.checkpoint(self._resumed)
        self._give_up()
        try:
            written = self._write_job(estimator, job)
        except BaseException:
            # Rows without a job are nothing to go on with.
            self._give_up()
            raise
        self._begun = True
        self.log.write(f"begun: {job.algorithm}, seed {job.seed}, modejump {written['modejump_version']}")
        return self.checkpoint(written["fingerprint"])

    def _write_job(self, estimator: Any, job: Job) -> dict[str, Any]:
        """Write the rows, then what is to be done with them; returns the latter."""
        data = {"design": job.design, "response": job.response}
        data |= {name: part for name in ("weights", "offset") if (part := getattr(job, name)) is not None}
        digest, size = write_arrays(self.directory / DATA, data)
        written = _job_to_dict(estimator, job) | {"about": self.about, "every": self.every}
        written |= {"data": {"digest": digest, "size": size}}
        written["fingerprint"] = _fingerprint(written)
        write_whole(self.directory / JOB, json.dumps(written, indent=1, allow_nan=False, ensure_ascii=False).encode())
        return written

    def store(self, estimator: Any) -> None:
        """Save a fitted estimator in the directory, in the place of whatever run is there.

        Parameters
        ----------
        estimator : estimator
            One that no run in a directory can fit, because its rows are elsewhere.
        """
        self._refuse_overwrite()
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.locked():
            self._refuse_overwrite()
            estimator.save(self.directory)
            (self.directory / JOB).unlink(missing_ok=True)
            self.tidy()

    def _give_up(self) -> None:
        """Remove what an earlier run left."""
        for name in (OUTCOME, JOB):
            (self.directory / name).unlink(missing_ok=True)
        self.tidy()

    def checkpoint(self, fingerprint: str) -> Checkpoint | None:
        """What keeps the state of the work, where something does."""
        return Checkpoint(self.directory, self.every, fingerprint) if self.every > 0 else None

    def _finish(self, estimator: Any) -> None:
        """Write the outcome; where it is final, rows and checkpoints have done their duty."""
        try:
            estimator.save(self.directory)
        except OSError as error:
            raise InputError(
                f"the outcome cannot be written into {self.directory} ({error.strerror or error}); make that possible, "
                f"and go on with modejump resume {self.directory}, or with modejump.resume."
            ) from error
        if estimator.posterior_.result.finished:
            self.log.write("finished")
            self.tidy()
        else:
            self.log.write("interrupted; what there was is stored, and the run can go on")

    def tidy(self) -> None:
        """Remove rows and checkpoints of a run that is finished, and files whose writing something ended."""
        remove_checkpoints(self.directory)
        (self.directory / DATA).unlink(missing_ok=True)
        for path in self.directory.glob(".*.partial"):
            if _BEGUN_FILE.fullmatch(path.name):
                path.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out of the directory.

        The lock belongs to the open file, so that it goes with the process however that ends.
        """
        path = self.directory / LOCK
        with locked_file(path) as file:
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            try:
                yield
            finally:
                # Some systems keep a file that is open.
                with suppress(PermissionError):
                    path.unlink(missing_ok=True)


def resume(
    directory: str | os.PathLike[str], *, n_jobs: int | None = None, every: float | None = None, progress: Any = "auto"
) -> Any:
    """Go on with a run that was ended, and return the fitted estimator.

    The answer is that of a run that nothing had ended. Where the run is finished, it is read as ``load`` reads it.

    Parameters
    ----------
    directory : str or path
        The directory of the run.
    n_jobs : int, optional
        Threads; as before by default. The answer does not depend on it.
    every : float, optional
        Seconds between two checkpoints; as before by default.
    progress : bool, "auto" or callable
        As for the estimators.
    """
    folder = Path(directory)
    written = _read_job(folder)
    run = Run(folder, written["every"] if every is None else every)
    with run.locked():
        found = _outcome(folder)
        if found is not None and found.posterior_.result.finished:
            run.tidy()
            return found
        estimator, job = _restore(folder, written, n_jobs, progress)
        if written["modejump_version"] != metadata.version("modejump"):
            warnings.warn(
                f"the run was begun by modejump {written['modejump_version']}, and another version may round "
                "differently.",
                ModejumpWarning,
                stacklevel=2,
            )
        run.log.write("resumed" if (folder / "checkpoint.json").exists() else "resumed from the beginning")
        run._resumed = written["fingerprint"]
        with run._at_work(estimator):
            estimator._do(job)
            run._finish(estimator)
    return estimator


def _outcome(folder: Path) -> Any:
    """What a run left as its outcome; None where there is none, or one of no use beside a run that can go on."""
    if not (folder / OUTCOME).exists():
        return None
    try:
        return load(folder)
    except InputError:
        if unfinished(folder):
            return None
        raise


def occupied(directory: Path) -> bool:
    """Whether a directory holds more than what a run leaves that was killed before it had begun."""
    names = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    left = {name for name in names if name in (LOCK, DATA) or _BEGUN_FILE.fullmatch(name)}
    return bool(names - left) or (bool(names) and LOCK not in names)


def unfinished(directory: Path) -> bool:
    """Whether a directory holds a run that can go on."""
    return (directory / JOB).exists() and (directory / DATA).exists()


def title_of(directory: str | os.PathLike[str]) -> str:
    """What the run in a directory is about, in words."""
    return str(_read_job(Path(directory))["about"].get("title", directory))


def _fingerprint(written: Mapping[str, Any]) -> str:
    """SHA-256 of everything that an answer depends on: rows, options, priors, space, budget, seed."""
    kept = {name: value for name, value in written.items() if name not in (*_FREE, "fingerprint", "about")}
    kept["params"] = {name: value for name, value in written["params"].items() if name not in _FREE}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _job_to_dict(estimator: Any, job: Job) -> dict[str, Any]:
    """A job and its estimator as JSON holds them."""
    table = job.spec.to_dict()
    # What cannot be read again must not be written.
    TABLES[table["kind"]].from_dict(table)
    names = getattr(estimator, "feature_names_in_", None)
    params: dict[str, Any] = {
        **({} if isinstance(estimator, PosteriorClassifier) else {"family": estimator.family}),
        "link": estimator.link,
        "coef_prior": resolve_coef_prior(estimator.coef_prior).to_dict(),
        "chains": job.chains,
        "budget": None if job.budget is None else dataclasses.asdict(job.budget),
        "n_jobs": None if estimator.n_jobs is None else int(estimator.n_jobs),
    }
    if isinstance(estimator, Discovery):
        params |= {
            "model_prior": options.read_complexity_prior(estimator.model_prior).to_dict(),
            "space": dataclasses.asdict(options.read_space(estimator.space)),
            "transforms": [t.name for t in options.read_transforms(estimator.transforms)],
        }
    else:
        params["model_prior"] = resolve_model_prior(estimator.model_prior).to_dict()
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "modejump_version": metadata.version("modejump"),
        "class": type(estimator).__name__,
        "algorithm": job.algorithm,
        "asked": estimator.algorithm,
        "seed": job.seed,
        "always_in": list(job.always_in),
        "names": dict(job.names),
        "table": table,
        "n_features_in": int(estimator.n_features_in_),
        "feature_names_in": None if names is None else [str(name) for name in names],
        "classes": classes_to_dict(estimator.classes_) if isinstance(estimator, PosteriorClassifier) else None,
        "params": params,
    }


def _read_job(folder: Path) -> dict[str, Any]:
    """What is to be done, as it was written down."""
    damaged = InputError(f"the run in {folder} is damaged: {JOB} is not what was written; begin it anew.")
    try:
        written = json.loads((folder / JOB).read_bytes())
    except OSError:
        if (folder / OUTCOME).exists():
            raise InputError(
                f"{folder} holds an outcome that was saved, and no run to go on with; read it with modejump.load, or "
                "predict from it."
            ) from None
        raise InputError(f"{folder} holds no run: it has no readable {JOB}; give the directory of a run.") from None
    except (ValueError, RecursionError):
        raise damaged from None
    if not isinstance(written, dict) or written.get("format") != FORMAT:
        raise damaged
    if written.get("format_version") != FORMAT_VERSION:
        raise InputError(
            f"the run in {folder} has format {written.get('format_version')!r}, and this modejump goes on with format "
            f"{FORMAT_VERSION}; use modejump {written.get('modejump_version')}."
        )
    try:
        if _fingerprint(written) != written["fingerprint"] or not isinstance(written["every"], float):
            raise damaged
    except (KeyError, TypeError, AttributeError, ValueError):
        raise damaged from None
    return written


def _restore(folder: Path, written: Mapping[str, Any], n_jobs: int | None, progress: Any) -> tuple[Any, Job]:
    """The estimator and its job, from what was written down."""
    data = _read_data(folder, written["data"])
    try:
        params, kind = dict(written["params"]), ESTIMATORS[written["class"]]
        spec = TABLES[written["table"]["kind"]].from_dict(written["table"])
        budget = params.pop("budget")
        params |= {
            "coef_prior": coef_prior_from_dict(params["coef_prior"]),
            "budget": None if budget is None else Budget(**budget),
            "n_jobs": params["n_jobs"] if n_jobs is None else n_jobs,
        }
        prior = params["model_prior"]
        if issubclass(kind, Discovery):
            need_transforms(params["transforms"])
            params |= {
                "model_prior": ComplexityPrior(prior["a"], prior["spelling"]),
                "space": Space(**params["space"]),
                "transforms": tuple(params["transforms"]),
            }
        else:
            groups = dict(getattr(spec, "groups", {})) or None
            params |= {
                "model_prior": model_prior_from_dict(prior),
                "always_in": tuple(written["always_in"]),
                "groups": groups,
            }
        estimator = kind(algorithm=written["asked"], random_state=written["seed"], progress=progress, **params)
        if isinstance(estimator, PosteriorClassifier):
            estimator.classes_ = classes_from_dict(written["classes"])
        estimator.n_features_in_ = int(written["n_features_in"])
        if written["feature_names_in"] is not None:
            estimator.feature_names_in_ = np.array(written["feature_names_in"], dtype=object)
        job = Job(
            spec, data["design"], data["response"], data.get("weights"), data.get("offset"), str(written["algorithm"]),
            params["budget"], int(params["chains"]), options.count_workers(estimator.n_jobs), int(written["seed"]),
            tuple(written["always_in"]), dict(written["names"]),
        )  # fmt: skip
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the run in {folder} is damaged: {JOB} is not what was written; begin it anew.") from None
    return estimator, job


def _read_data(folder: Path, about: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The rows of a run."""
    damaged = InputError(f"the run in {folder} is damaged: {DATA} is not the file that was written; begin it anew.")
    try:
        blob = (folder / DATA).read_bytes()
        if len(blob) != about["size"] or hashlib.sha256(blob).hexdigest() != about["digest"]:
            raise damaged
        data = read_arrays(blob)
        rows = len(data["design"])
        if data["design"].ndim != 2 or any(a.dtype != np.float64 for a in data.values()):
            raise damaged
        if any(name != "design" and a.shape != (rows,) for name, a in data.items()):
            raise damaged
    except (OSError, ValueError, KeyError, TypeError, EOFError, NotImplementedError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise damaged from None
    return data
