"""Fitted estimators on disk: the run of the posterior, and the coding of the table beside it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.data.formulas import FormulaSpec
from modejump.data.tables import TableSpec
from modejump.estimators.base import PosteriorClassifier, PosteriorEstimator
from modejump.estimators.bglm import BGLMRegressor
from modejump.estimators.bgnlm import BGNLMRegressor, Discovery
from modejump.estimators.classifiers import BGLMClassifier, BGNLMClassifier
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.posterior.posterior import Posterior
from modejump.posterior.storage import load_run, save_run
from modejump.priors.complexity import ComplexityPrior
from modejump.samplers.budget import Budget
from modejump.samplers.laws import Laws

_SELECTIONS = {kind.__name__: kind for kind in (BGLMRegressor, BGLMClassifier)}
_DISCOVERIES = {kind.__name__: kind for kind in (BGNLMRegressor, BGNLMClassifier)}
ESTIMATORS: dict[str, type[Any]] = {**_SELECTIONS, **_DISCOVERIES}
TABLES: dict[str, type[TableSpec] | type[FormulaSpec]] = {"table": TableSpec, "formula": FormulaSpec}


def save(estimator: Any, path: Path) -> Path:
    """Write a fitted estimator into a directory; refused where its formula has no plain form.

    Parameters
    ----------
    estimator : BGLMRegressor, BGLMClassifier, BGNLMRegressor or BGNLMClassifier
        A fitted one.
    path : path
        The directory.
    """
    names = getattr(estimator, "feature_names_in_", None)
    table = estimator.table_.to_dict()
    # What cannot be read again must not be written.
    TABLES[table["kind"]].from_dict(table)
    budget = estimator.budget
    stored = {
        "class": type(estimator).__name__,
        "table": table,
        "seed": int(estimator.seed_),
        "merged_seeds": [int(seed) for seed in getattr(estimator, "merged_seeds_", ())],
        "n_features_in": int(estimator.n_features_in_),
        "feature_names_in": None if names is None else [str(name) for name in names],
        "params": {
            # A classifier has no choice of the family.
            **({} if isinstance(estimator, PosteriorClassifier) else {"family": _family_text(estimator.family)}),
            "link": estimator.link,
            "algorithm": estimator.algorithm,
            "chains": None if estimator.chains is None else int(estimator.chains),
            "budget": None if budget is None else dataclasses.asdict(budget),
            "n_jobs": None if estimator.n_jobs is None else int(estimator.n_jobs),
        },
    }
    if isinstance(estimator, PosteriorClassifier):
        stored["classes"] = classes_to_dict(estimator.classes_)
    stored["offset"] = estimator.offset_
    if isinstance(estimator, Discovery):
        stored["search"] = _search_to_dict(estimator)
    save_run(estimator.posterior_, path, {"estimator": stored}, estimator.inclusion_)
    return path


def _family_text(family: Any) -> str:
    """The family by name; files hold no functions."""
    return repr(family) if getattr(family, "custom", False) else str(family)


def classes_to_dict(classes: np.ndarray) -> dict[str, Any]:
    """Labels as JSON holds them, with the type of their array."""
    return {"dtype": "O" if classes.dtype.kind == "O" else classes.dtype.str, "labels": classes.tolist()}


def classes_from_dict(stored: Mapping[str, Any]) -> np.ndarray:
    """Labels of two classes; TypeError for anything else."""
    dtype = np.dtype(stored["dtype"])
    if dtype.kind not in "biufUO" or len(stored["labels"]) != 2:
        raise TypeError("no labels of two classes")
    return np.array(stored["labels"], dtype=dtype)


def _search_to_dict(estimator: Discovery) -> dict[str, Any]:
    """What a search adds: priors, space, transforms, and the laws with their coefficients inside projections."""
    laws = estimator.laws_
    shown = {node for f in laws.features for node in f.subfeatures() if node.kind == "projection"}
    return {
        "target": estimator.target_,
        "model_prior": estimator._prior.to_dict(),
        "space": dataclasses.asdict(estimator._space),
        "transforms": list(estimator._transforms),
        "laws": [feature.text for feature in laws.features],
        "aliases": {law.text: [a.text for a in others] for law, others in laws.aliases.items() if others},
        "alphas": {node.text: [float(v) for v in laws.alphas[node]] for node in sorted(shown)},
        # Merging adds up the spellings of all runs.
        "spelled": [[sorted(f.text for f in model), value] for model, value in laws.spelled.items()],
    }


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
    BGLMRegressor, BGLMClassifier, BGNLMRegressor or BGNLMClassifier
    """
    folder = Path(path)
    if (folder / "job.json").exists() and not (folder / "run.json").exists():
        raise InputError(f"the run in {path} is not finished; go on with it by modejump.resume, then load it.")
    posterior, extra = load_run(path)
    try:
        return _restore(posterior, extra["estimator"])
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError):
        raise InputError(f"the saved run {path} does not hold an estimator; save it again.") from None


def _restore(posterior: Posterior, stored: Mapping[str, Any]) -> PosteriorEstimator:
    params = dict(stored["params"])
    budget = params.pop("budget")
    params["budget"] = None if budget is None else Budget(**budget)
    params |= {"coef_prior": posterior.problem.coef_prior, "random_state": stored["seed"]}
    if posterior.problem.family.custom:
        params["family"] = posterior.problem.family
    spec = TABLES[stored["table"]["kind"]].from_dict(stored["table"])
    estimator: PosteriorEstimator
    if stored["class"] in _SELECTIONS:
        estimator = _SELECTIONS[stored["class"]](
            model_prior=posterior.problem.model_prior,
            always_in=posterior.problem.always_in,
            groups=dict(spec.groups) or None if isinstance(spec, TableSpec) else None,
            **params,
        )
    elif stored["class"] in _DISCOVERIES:
        estimator = _search_from_dict(_DISCOVERIES[stored["class"]], stored["search"], posterior, params)
    else:
        raise InputError(f"the saved run holds a {stored['class']}, which this version does not know; upgrade.")
    if isinstance(estimator, PosteriorClassifier):
        estimator.classes_ = classes_from_dict(stored["classes"])
    estimator.table_ = spec
    # Files of earlier versions know nothing of offsets.
    estimator.offset_ = stored.get("offset")
    estimator.seed_ = stored["seed"]
    if stored.get("merged_seeds"):
        estimator.merged_seeds_ = tuple(int(seed) for seed in stored["merged_seeds"])
    estimator.posterior_ = posterior
    estimator.n_features_in_ = stored["n_features_in"]
    if stored["feature_names_in"] is not None:
        estimator.feature_names_in_ = np.array(stored["feature_names_in"], dtype=object)
    return estimator


def need_transforms(names: Sequence[str]) -> None:
    """Raise InputError for a transform of a saved run that nobody has told this process of."""
    for name in names:
        if name not in transforms:
            raise InputError(
                f"the saved run uses the transform {name!r}, which modejump.transforms does not have; add it before "
                "loading."
            )


def _search_from_dict(
    kind: type[Any], search: Mapping[str, Any], posterior: Posterior, params: Mapping[str, Any]
) -> Any:
    prior = ComplexityPrior(search["model_prior"]["a"], search["model_prior"]["spelling"])
    space, names = Space(**search["space"]), tuple(search["transforms"])
    need_transforms(names)
    estimator = kind(model_prior=prior, space=space, transforms=names, **params)
    features = tuple(Feature.parse(text) for text in search["laws"])
    if tuple(feature.text for feature in features) != posterior.problem.names:
        raise TypeError("laws of another posterior")
    aliases = {law: tuple(Feature.parse(t) for t in search["aliases"].get(law.text, ())) for law in features}
    alphas = {Feature.parse(text): np.array(values) for text, values in search["alphas"].items()}
    # Files of earlier versions have no such list.
    spelled = {frozenset(map(Feature.parse, texts)): float(v) for texts, v in search.get("spelled", ())}
    estimator.laws_ = Laws(features, aliases, alphas, posterior.problem, posterior.result.models, spelled)
    estimator.target_ = search["target"]
    estimator._training = None
    estimator._prior, estimator._space, estimator._transforms = prior, space, names
    return estimator
