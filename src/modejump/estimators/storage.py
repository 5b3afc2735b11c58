"""Estimators on disk: options, the coding of the table, and a fitted posterior beside them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.data.coding import TableSpec
from modejump.data.formulas import FormulaSpec
from modejump.data.markers import MarkerSpec
from modejump.data.wide_table import WideSpec
from modejump.estimators.base import PosteriorEstimator
from modejump.estimators.bglm import BGLMClassifier, BGLMRegressor
from modejump.estimators.bgnlm import BGNLMClassifier, BGNLMRegressor, LawSearch
from modejump.estimators.classifier import PosteriorClassifier
from modejump.estimators.logic import LogicClassifier, LogicRegressor
from modejump.estimators.options import Options, saved_transforms
from modejump.estimators.questions.law_terms import Estimates
from modejump.estimators.questions.typical import covariates_from_list, covariates_to_list
from modejump.likelihoods import Family
from modejump.posterior.storage import load_run, save_run
from modejump.runtime.files import JOB, MODEL

ESTIMATORS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (BGLMRegressor, BGLMClassifier, BGNLMRegressor, BGNLMClassifier, LogicRegressor, LogicClassifier)
}
_SPECS: dict[str, Any] = {"table": TableSpec, "formula": FormulaSpec, "markers": MarkerSpec, "wide": WideSpec}


def estimator_to_dict(estimator: Any, options: Options, table: Any) -> dict[str, Any]:
    """An estimator as JSON holds it; refused where its formula has no plain form.

    Parameters
    ----------
    estimator : estimator
        One of modejump's, with the names of its columns.
    options : Options
        Its options.
    table : object
        ``spec``, ``target``, ``offset_name`` and ``classes`` of its rows.
    """
    names, spec = getattr(estimator, "feature_names_in_", None), table.spec.to_dict()
    # What cannot be read again must not be written.
    _SPECS[spec["kind"]].from_dict(spec)
    classes = table.classes
    kind = None if classes is None else "O" if classes.dtype.kind == "O" else classes.dtype.str
    return {
        "class": type(estimator).__name__,
        "options": options.to_dict(),
        "table": {
            "spec": spec,
            "target": table.target,
            "offset": table.offset_name,
            "classes": None if classes is None else {"dtype": kind, "labels": classes.tolist()},
            "beside": dict(estimator._beside),
            "n_features_in": int(estimator.n_features_in_),
            "feature_names_in": None if names is None else [str(name) for name in names],
        },
    }


def estimator_from_dict(
    stored: Mapping[str, Any], family: Family | None = None, **more: Any
) -> tuple[Any, Options, dict[str, Any]]:
    """An estimator that is not fitted, its options, and what is known of its table; KeyError and the like elsewhere.

    Parameters
    ----------
    stored : mapping
        What ``estimator_to_dict`` returned.
    family : Family, optional
        A likelihood of the user's own, which no file holds.
    **more
        Parameters of the estimator that are given anew.
    """
    if stored["class"] not in ESTIMATORS:
        raise InputError(f"the file holds a {stored['class']}, which this version does not know; upgrade modejump.")
    kind, options, table = ESTIMATORS[stored["class"]], Options.from_dict(stored["options"], family), stored["table"]
    estimator = kind(**options.params(classes=issubclass(kind, PosteriorClassifier)) | more)
    estimator.n_features_in_ = int(table["n_features_in"])
    estimator._beside = {str(what): str(name) for what, name in table.get("beside", {}).items()}
    if table["feature_names_in"] is not None:
        estimator.feature_names_in_ = np.array(table["feature_names_in"], dtype=object)
    about = {
        "spec": _SPECS[table["spec"]["kind"]].from_dict(table["spec"]),
        "target": str(table["target"]),
        "offset_name": table["offset"],
        "classes": None if table["classes"] is None else _classes(table["classes"]),
    }
    return estimator, options, about


def _classes(stored: Mapping[str, Any]) -> np.ndarray:
    """Labels of two classes; TypeError for anything else."""
    dtype = np.dtype(stored["dtype"])
    if dtype.kind not in "biufUO" or len(stored["labels"]) != 2:
        raise TypeError("no labels of two classes")
    return np.array(stored["labels"], dtype=dtype)


def save(estimator: Any, path: Path) -> Path:
    """Write a fitted estimator into a directory.

    Parameters
    ----------
    estimator : estimator
        One of modejump's, fitted.
    path : path
        The directory.
    """
    table = SimpleNamespace(
        spec=estimator.table_,
        target=estimator.target_,
        offset_name=estimator.offset_,
        classes=getattr(estimator, "classes_", None),
    )
    stored = estimator_to_dict(estimator, estimator._options, table)
    stored["covariates"] = covariates_to_list(estimator._covariates_seen)
    stored["constants"] = _constants_to_dict(estimator)
    stored["merged_seeds"] = [int(seed) for seed in getattr(estimator, "merged_seeds_", ())]
    save_run(estimator.posterior_, path, stored)
    return path


def _constants_to_dict(estimator: Any) -> dict[str, Any] | None:
    """Constants of the best model with their errors, which nobody finds without the rows; None without any."""
    if not isinstance(estimator, LawSearch):
        return None
    try:
        known = estimator._estimated_constants()
    except InputError:
        return None
    return {"law": estimator.equation(numbers=False)} | known.to_dict() if known.names else None


def load(path: str | os.PathLike[str]) -> Any:
    """Read a fitted estimator that ``save`` or ``modejump fit --out`` wrote.

    It predicts and reports as the one saved did; it holds no training data. Files hold no functions: where the family
    was a likelihood of your own, models that the file does not list cannot be evaluated.

    Parameters
    ----------
    path : str or path
        The directory.

    Returns
    -------
    estimator
        Of the class that was saved.

    Examples
    --------
    >>> import tempfile
    >>> x = np.random.default_rng(1).normal(size=(40, 2))
    >>> model = BGLMRegressor().fit(x, x[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load(model.save(f"{folder}/model"))
    >>> bool((again.predict(x) == model.predict(x)).all())
    True
    """
    folder = Path(path)
    if JOB.exists(folder) and not MODEL.exists(folder):
        raise InputError(f"the run in {path} is not finished; resume it with modejump.resume, then load it.")
    # Whatever else is wrong with the file is told below.
    with suppress(OSError, LookupError, TypeError):
        saved_transforms(MODEL.about(folder)["extra"]["options"]["transforms"])
    posterior, stored = load_run(path)
    family = posterior.problem.family
    try:
        estimator, options, table = estimator_from_dict(stored, family if family.custom else None)
        estimator._covariates_seen = covariates_from_list(stored)
        if stored.get("constants") is not None:
            known = stored["constants"]
            estimator._constants_read = (str(known["law"]), Estimates.from_dict(known))
        return restored(estimator, options, table, posterior, stored["merged_seeds"])
    except InputError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError):
        raise MODEL.damaged(folder, f"{MODEL.file} does not describe an estimator") from None


def restored(
    estimator: PosteriorEstimator, options: Options, table: Mapping[str, Any], posterior: Any, seeds: Any
) -> PosteriorEstimator:
    """A fitted estimator from its parts."""
    estimator.table_, estimator.offset_, estimator.target_ = table["spec"], table["offset_name"], table["target"]
    estimator.seed_, estimator._options, estimator.posterior_ = options.seed, options, posterior
    if table["classes"] is not None:
        estimator.classes_ = table["classes"]
    if seeds:
        estimator.merged_seeds_ = tuple(int(seed) for seed in seeds)
    return estimator
