"""Runs on disk: JSON and plain arrays, readable by anything, never pickled.

A run is a directory. ``run.json`` holds names, priors, settings and the digest of ``posterior.npz``, which
holds the arrays; ``inclusion.csv`` and ``models.csv`` are for people. The training rows are never stored:
prediction needs only the Gram matrix, the loadings on the base and the like. A problem of very many columns
keeps the part of its Gram matrix that the models kept for prediction use. A generalised linear model keeps coefficients
and factors of the information of the models kept for prediction instead; of a likelihood of the user's own, a name.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.likelihoods import resolve_family
from modejump.likelihoods.custom.own import StoredLikelihood
from modejump.posterior.fits import KeptModels, members_of, model_columns
from modejump.posterior.posterior import KINDS, Posterior
from modejump.posterior.prediction.distribution import base_factor
from modejump.posterior.prediction.laplace import LaplaceFits
from modejump.posterior.stored_arrays import check_about, check_arrays
from modejump.priors.coefficients import coef_prior_from_dict
from modejump.priors.models import ModelPrior, model_prior_from_dict
from modejump.problem.problem import Columns, Problem, ProblemData, problem_data
from modejump.runtime.checkpoints import read_arrays
from modejump.samplers.result import ModelTable, SamplerResult

FORMAT = "modejump run"
# Gaussian responses are written in format 2, which earlier versions read; others need format 3.
FORMAT_VERSION = 3
_GAUSSIAN_VERSION = 2
JSON_NAME, ARRAYS_NAME = "run.json", "posterior.npz"
# Leading models written, besides those that prediction uses: 40 MB at most for up to 64 terms.
STORED_MODELS = 1_000_000
# Up to this many columns the whole Gram matrix is stored (4 MB), so any model can be evaluated after loading.
WHOLE_GRAM = 1024
# Fields of ProblemData that are numbers or arrays and stored as they are; the others are made anew.
_OTHER_DATA = ("gram", "rank", "coef_prior", "max_cols", "prior", "columns", "glm")
_PLAIN_DATA = tuple(name for name in ProblemData._fields if name not in _OTHER_DATA)


def save_run(
    posterior: Posterior,
    directory: str | os.PathLike[str],
    extra: Mapping[str, Any] | None = None,
    inclusion: pd.DataFrame | None = None,
) -> None:
    """Write a posterior to a directory, which is made where it is missing.

    Files appear under their names only when all of them are complete, and ``run.json``, which vouches for the arrays,
    comes last. Where they cannot be written, a run that is there already stays.

    Parameters
    ----------
    posterior : Posterior
        What to write.
    directory : path
        Where to write it; a run that is there already is replaced.
    extra : mapping, optional
        Anything more to keep, made of what JSON can hold.
    inclusion : DataFrame, optional
        The table of ``inclusion.csv``; that of the posterior by default.
    """
    folder = Path(directory)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, but a run is saved as a directory; give another path.")
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **_arrays(posterior))
    blob = buffer.getvalue()
    about = _about(posterior) | {"digest": hashlib.sha256(blob).hexdigest(), "extra": dict(extra or {})}
    text = json.dumps(about, indent=1, allow_nan=False, ensure_ascii=False)
    models = posterior.models()
    models["features"] = [" + ".join(f) for f in models["features"]]
    contents = {
        ARRAYS_NAME: blob,
        "inclusion.csv": (posterior.inclusion if inclusion is None else inclusion).to_csv().encode(),
        "models.csv": models.to_csv(index=False).encode(),
        JSON_NAME: text.encode(),
    }
    partials = {name: folder / f".{name}.{os.getpid()}.partial" for name in contents}
    try:
        for name, content in contents.items():
            _write(partials[name], content)
        # What vouched for the arrays before does not vouch for the new ones.
        (folder / JSON_NAME).unlink(missing_ok=True)
        for name, partial in partials.items():
            os.replace(partial, folder / name)
    finally:
        for partial in partials.values():
            partial.unlink(missing_ok=True)


def _write(path: Path, content: bytes) -> None:
    """Write a file, and bring it to the disk."""
    try:
        with open(path, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        # Errors of writing do not say where.
        error.filename = error.filename or str(path.parent)
        raise


def _about(posterior: Posterior) -> dict[str, Any]:
    """Everything that is not an array."""
    problem, result = posterior.problem, posterior.result
    cut = result.models.visits[STORED_MODELS:]
    cut_shared = cut[result.models.chains[STORED_MODELS:] >= 2]
    return {
        "format": FORMAT,
        "format_version": _GAUSSIAN_VERSION if problem.family.conjugate else FORMAT_VERSION,
        "modejump_version": _package_version(),
        "problem": {
            "names": list(problem.names),
            "always_in": list(problem.always_in),
            "intercept": bool(problem.intercept),
            "family": problem.family.name,
            "link": problem.family.link,
            # Files hold no functions: of a likelihood of the user's own they know the name.
            **({"likelihood": repr(problem.family)} if problem.family.custom else {}),
            "coef_prior": problem.coef_prior.to_dict(),
            "model_prior": problem.model_prior.to_dict(),
            "base_rss": float(problem.base_rss),
            "rows": int(problem.rows),
        },
        # What the run is a run of; earlier versions pass over it.
        "fingerprint": None if posterior.fingerprints is None else dict(posterior.fingerprints),
        "result": {
            name: _jsonable(value)
            for name, value in _fields(result)
            if name != "models" and not isinstance(value, np.ndarray)
        }
        # Models beyond the bound count as forgotten in what is loaded.
        | {
            "forgotten_visits": int(result.forgotten_visits + cut.sum()),
            "forgotten_shared": int(result.forgotten_shared + cut_shared.sum()),
            # JSON has no NaN.
            "library_share": None if np.isnan(result.library_share) else float(result.library_share),
        },
        "verdict": {"level": posterior.verdict.level, "text": str(posterior.verdict)},
    }


def _fields(record: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(record, field.name)) for field in dataclasses.fields(record)]


def _jsonable(value: Any) -> Any:
    """A value made of what JSON holds, with NumPy numbers as plain ones."""
    if isinstance(value, Mapping):
        return {str(name): _jsonable(part) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return [_jsonable(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def _package_version() -> str:
    try:
        return metadata.version("modejump")
    except metadata.PackageNotFoundError:
        return "unknown"


def _arrays(posterior: Posterior) -> dict[str, np.ndarray]:
    """The arrays of a run: models, chains, and the sufficient statistics of the data."""
    problem, result = posterior.problem, posterior.result
    data, columns = problem.data, problem.data.columns
    own = problem.family.custom
    # A likelihood of the user's own predicts nothing.
    kept = {} if own else _kept_kinds(posterior)
    stored = _stored_columns(problem, kept)
    block = data.gram[np.ix_(stored, stored)]
    arrays = {
        "loading": columns.loading,
        "scale": columns.scale,
        "base_coef": problem.base_coef,
        "base_factor": np.eye(data.base) if own else base_factor(problem),
        "parent_start": data.prior.parent_start,
        "parent_index": data.prior.parent_index,
        "gram_columns": stored,
        "gram_triangle": block[np.tril_indices(len(stored))],
    }
    arrays |= {f"models_{name}": value[:STORED_MODELS] for name, value in _fields(result.models)}
    arrays |= {f"result_{name}": value for name, value in _fields(result) if isinstance(value, np.ndarray)}
    for name in _PLAIN_DATA:
        arrays[f"data_{name}"] = np.asarray(getattr(data, name))
    for kind, models in kept.items():
        for field, value in models._asdict().items():
            if field != "fits":
                arrays[f"{kind}_{field}"] = np.asarray(value)
        for field, value in models.fits._asdict().items() if models.fits is not None else ():
            arrays[f"{kind}_fits_{field}"] = value
    return arrays


def _kept_kinds(posterior: Posterior) -> dict[str, KeptModels]:
    """The models behind each kind of prediction; merged runs may lack what their median model needs."""
    kept = {kind: posterior.kept_models(kind) for kind in KINDS if kind != "median"}
    try:
        return kept | {"median": posterior.kept_models("median")}
    except InputError:
        if posterior.kept is None:
            raise
        return kept


def _stored_columns(problem: Problem, kept: Mapping[str, KeptModels]) -> np.ndarray:
    """Columns whose products are stored: all, or where there are very many those that prediction uses."""
    if not problem.family.conjugate:
        return np.zeros(0, np.int64)
    if problem.n_columns <= WHOLE_GRAM:
        # A run that was itself read from a file may know some columns only.
        return np.flatnonzero(~np.isnan(np.diag(problem.data.gram)))
    used = [model_columns(problem, members_of(words)) for models in kept.values() for words in models.words]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *used]))


def load_run(directory: str | os.PathLike[str]) -> tuple[Posterior, dict[str, Any]]:
    """Read a posterior that :func:`save_run` wrote, and what was kept with it.

    The posterior predicts as the one saved did. It holds no training rows; its table holds the million leading
    models.
    """
    folder = Path(directory)
    about, blob = _read(folder)
    damaged = InputError(f"the saved run {folder} is damaged or incomplete; save it again.")
    if hashlib.sha256(blob).hexdigest() != about.get("digest"):
        raise damaged
    try:
        arrays = read_arrays(blob, packed=True)
        check_arrays(arrays, about["problem"]["names"])
        check_about(about["problem"], about["result"])
        problem = _problem(about["problem"], arrays)
        result = _result(about["result"], arrays)
        kinds = [kind for kind in KINDS if kind != "median" or "median_words" in arrays]
        kept = {} if problem.family.custom else {kind: _kept(problem, arrays, kind) for kind in kinds}
        identity = about.get("fingerprint")
        identity = None if identity is None else {str(name): str(value) for name, value in identity.items()}
        return Posterior(problem, result, kept, identity), dict(about["extra"])
    except (
        KeyError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError, MemoryError, NotImplementedError,
        OSError, EOFError, zipfile.BadZipFile, zlib.error,
    ):  # fmt: skip
        raise damaged from None


def _kept(problem: Problem, arrays: Mapping[str, np.ndarray], kind: str) -> KeptModels:
    """The models behind a kind of prediction."""
    words, weight, resid, mass = (arrays[f"{kind}_{field}"] for field in ("words", "weight", "resid", "mass"))
    fits = None if problem.family.conjugate else LaplaceFits(**_with_prefix(arrays, f"{kind}_fits_"))
    return KeptModels(words, weight, resid, float(mass), fits)


def _read(folder: Path) -> tuple[dict[str, Any], bytes]:
    """Contents of the two files, after a look at the format."""
    try:
        about = json.loads((folder / JSON_NAME).read_text(encoding="utf-8"))
    except OSError:
        raise InputError(
            f"{folder} is not a saved run: it has no readable {JSON_NAME}; give a directory that save wrote."
        ) from None
    except (ValueError, RecursionError):
        raise InputError(f"the saved run {folder} is damaged: {JSON_NAME} is not valid JSON; save it again.") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise InputError(f"{folder / JSON_NAME} was not written by modejump; give the directory that save wrote.")
    version = about.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise InputError(
            f"the saved run {folder} has format {version} (of modejump {about.get('modejump_version')}), but "
            f"this modejump reads formats up to {FORMAT_VERSION}; upgrade modejump."
        )
    try:
        return about, (folder / ARRAYS_NAME).read_bytes()
    except OSError:
        raise InputError(f"the saved run {folder} is incomplete: {ARRAYS_NAME} is missing; save it again.") from None


def _problem(about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Problem:
    """The problem without its rows. Columns whose products were not stored have NaN on the diagonal."""
    names, always_in = tuple(about["names"]), tuple(about["always_in"])
    coef_prior = coef_prior_from_dict(about["coef_prior"])
    model_prior = model_prior_from_dict(about["model_prior"])
    start, index = arrays["parent_start"], arrays["parent_index"]
    parents = [index[start[j] : start[j + 1]].tolist() for j in range(len(names))]
    compiled = model_prior.compile(len(names), names=names, parents=parents, always_in=always_in)
    plain = {name: arrays[f"data_{name}"] for name in _PLAIN_DATA}
    values: dict[str, Any] = {name: a.item() if a.ndim == 0 else a for name, a in plain.items()}
    p, base = len(arrays["scale"]), values["base"]
    stored = arrays["gram_columns"]
    block = np.zeros((len(stored), len(stored)))
    block[np.tril_indices(len(stored))] = arrays["gram_triangle"]
    gram = np.zeros((p, p))
    np.fill_diagonal(gram, np.nan)
    gram[np.ix_(stored, stored)] = block + np.tril(block, -1).T
    # The triangular factor of the base stands in for its rows: the leverages are the same.
    columns = Columns(
        np.empty((0, p)),
        arrays["base_factor"],
        arrays["loading"],
        arrays["scale"],
        np.ones(base),
        np.empty(0),
    )
    family = (
        StoredLikelihood(about["likelihood"])
        if "likelihood" in about
        else resolve_family(about.get("family", "gaussian"), about.get("link"))
    )
    data = problem_data(
        gram=gram, coef_prior=coef_prior, model_prior=compiled, columns=columns, glm=family.without_rows(base),
        base_rss=about["base_rss"], **values,
    )  # fmt: skip
    return Problem(
        names, always_in, about["intercept"], coef_prior, model_prior, data, about["base_rss"],
        arrays["base_coef"], about["rows"], family,
    )  # fmt: skip


def rowless_like(
    problem: Problem,
    names: tuple[str, ...],
    gram: np.ndarray,
    corr: np.ndarray,
    loading: np.ndarray,
    scale: np.ndarray,
    prior: ModelPrior,
) -> Problem:
    """A problem of one column for each term, with the base and the response of another, that holds no rows.

    Parameters
    ----------
    problem : Problem
        The other.
    names : tuple of str
        Terms.
    gram, corr : ndarray
        Products of the standardised columns with each other and with the response; NaN where nobody knows them.
    loading, scale : ndarray
        Loadings of the columns on the base, and their lengths without it.
    prior : ModelPrior
        Prior of the models.
    """
    old, p, base = problem.data, len(names), problem.data.base
    columns = Columns(np.empty((0, p)), base_factor(problem), loading, scale, np.ones(base), np.empty(0))
    compiled = prior.compile(p, names=names, parents=None, always_in=())
    data = problem_data(
        gram=gram, corr=corr, first=np.arange(p + 1, dtype=np.int64), coef_prior=problem.coef_prior,
        model_prior=compiled, columns=columns, glm=problem.family.without_rows(base), n=old.n, base=base,
        base_rss=problem.base_rss,
    )  # fmt: skip
    return dataclasses.replace(
        problem, names=names, always_in=(), model_prior=prior, data=data, observed=None,
        digest=None,
    )  # fmt: skip


def _result(about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> SamplerResult:
    table = ModelTable(**_with_prefix(arrays, "models_"))
    fields: dict[str, Any] = {**about, **_with_prefix(arrays, "result_")}
    fields["acceptance"] = {name: (int(a), int(b)) for name, (a, b) in about["acceptance"].items()}
    # Files of format 1 know nothing of libraries, nor of the chains that visited a model.
    moves, share = about.get("population_moves", {}), about.get("library_share")
    fields["population_moves"] = {name: (int(a), int(b), int(c)) for name, (a, b, c) in moves.items()}
    fields["library_share"] = float("nan") if share is None else float(share)
    fields["notes"] = tuple(about["notes"])
    return SamplerResult(models=table, **fields)


def _with_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
