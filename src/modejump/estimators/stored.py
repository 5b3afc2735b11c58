"""Fitted estimators on disk: the run of the posterior, and the coding of the table beside it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from modejump.errors import InputError
from modejump.estimators.bglm import BGLMRegressor
from modejump.estimators.formulas import FormulaSpec
from modejump.estimators.tables import TableSpec
from modejump.posterior.posterior import Posterior
from modejump.posterior.storage import load_run, save_run
from modejump.samplers.budget import Budget

_KINDS: dict[str, type[TableSpec] | type[FormulaSpec]] = {"table": TableSpec, "formula": FormulaSpec}


def save(estimator: BGLMRegressor, path: Path) -> Path:
    """Write a fitted estimator into a directory; refused where its formula has no plain form.

    Parameters
    ----------
    estimator : BGLMRegressor
        A fitted one.
    path : path
        The directory.
    """
    names = getattr(estimator, "feature_names_in_", None)
    table = estimator.table_.to_dict()
    # What cannot be read again must not be written.
    _KINDS[table["kind"]].from_dict(table)
    budget = estimator.budget
    stored = {
        "class": type(estimator).__name__,
        "table": table,
        "seed": int(estimator.seed_),
        "n_features_in": int(estimator.n_features_in_),
        "feature_names_in": None if names is None else [str(name) for name in names],
        "params": {
            "family": estimator.family,
            "algorithm": estimator.algorithm,
            "chains": int(estimator.chains),
            "budget": None if budget is None else dataclasses.asdict(budget),
            "n_jobs": None if estimator.n_jobs is None else int(estimator.n_jobs),
        },
    }
    save_run(estimator.posterior_, path, {"estimator": stored})
    return path


def load(path: str | os.PathLike[str]) -> BGLMRegressor:
    """Read a fitted estimator that ``save`` or ``modejump fit --out`` wrote.

    It predicts and reports as the one saved did; it holds no training data.

    Parameters
    ----------
    path : str or path
        The directory.
    """
    posterior, extra = load_run(path)
    try:
        return _restore(posterior, extra["estimator"])
    except (KeyError, TypeError, AttributeError):
        raise InputError(f"the saved run {path} does not hold an estimator; save it again.") from None


def _restore(posterior: Posterior, stored: Mapping[str, Any]) -> BGLMRegressor:
    if stored["class"] != BGLMRegressor.__name__:
        raise InputError(f"the saved run holds a {stored['class']}, which this version does not know; upgrade.")
    params = dict(stored["params"])
    budget = params.pop("budget")
    spec = _KINDS[stored["table"]["kind"]].from_dict(stored["table"])
    estimator = BGLMRegressor(
        coef_prior=posterior.problem.coef_prior,
        model_prior=posterior.problem.model_prior,
        always_in=posterior.problem.always_in,
        groups=dict(spec.groups) or None if isinstance(spec, TableSpec) else None,
        budget=None if budget is None else Budget(**budget),
        random_state=stored["seed"],
        **params,
    )
    estimator.table_ = spec
    estimator.seed_ = stored["seed"]
    estimator.posterior_ = posterior
    estimator.n_features_in_ = stored["n_features_in"]
    if stored["feature_names_in"] is not None:
        estimator.feature_names_in_ = np.array(stored["feature_names_in"], dtype=object)
    return estimator
