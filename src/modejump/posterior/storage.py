"""Posteriors on disk: JSON and plain arrays, readable by anything, never pickled.

``run.json`` holds names, priors and settings, and vouches for ``run-N.npz``, which holds the arrays; ``inclusion.csv``
and ``models.csv`` are for people. The training rows are never stored: prediction needs only the Gram matrix, the
loadings on the base and the like. A problem of very many columns keeps the part of its Gram matrix that the models kept
for prediction use. A generalised linear model keeps coefficients and factors of the information of these models
instead; of a likelihood of the user's own, a name.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.core.memory import need_memory
from modejump.features.language import language_from_dict, stored_language
from modejump.likelihoods import Family, resolve_family
from modejump.likelihoods.custom.own import StoredLikelihood
from modejump.posterior.best_laws import stored_errors
from modejump.posterior.fits import KeptModels, model_columns
from modejump.posterior.posterior import KINDS, Posterior
from modejump.posterior.prediction.distribution import base_factor
from modejump.posterior.prediction.laplace import LaplaceFits
from modejump.priors.coefficients import coef_prior_from_dict
from modejump.priors.models import ModelPrior, model_prior_from_dict
from modejump.problem.problem import Columns, Problem, problem_data
from modejump.runtime.files import MODEL
from modejump.runtime.snapshots import Reader, Snapshot, flatten, under
from modejump.samplers.laws import Laws
from modejump.samplers.result import ModelTable, Result, members_of

# Leading models written, besides those that prediction uses: 50 MB at most for up to 64 terms.
STORED_MODELS = 1_000_000
# Up to this many columns the whole Gram matrix is stored (4 MB), so any model can be evaluated after loading.
WHOLE_GRAM = 1024
# Fields of ProblemData that are stored as they are; the others are made anew.
_PLAIN_DATA = ("corr", "first", "n", "base", "zobrist")
_PLAIN_TYPES: dict[str, Any] = {"int": int, "float": (int, float), "bool": bool, "str": str}
F, I, U = np.float64, np.int64, np.uint64  # noqa: E741
# Ranges of numbers that a file may hold; NaN lies in none.
FINITE, POSITIVE = (-np.finfo(F).max, np.inf), (0.0, np.inf)


def save_run(posterior: Posterior, directory: str | os.PathLike[str], extra: Mapping[str, Any] | None = None) -> None:
    """Write a posterior to a directory, which is made where it is missing.

    Where it cannot be written, one that is there already stays. ``extra`` is kept with it, as JSON.
    """
    folder = Path(directory)
    if posterior.reweighting is not None:
        raise InputError("a reweighted model is not saved; save the model that it was made from, and reweight that.")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, but a model is saved as a directory; give another path.")
    folder.mkdir(parents=True, exist_ok=True)
    models = posterior.models()
    models["features"] = [" + ".join(f) for f in models["features"]]
    tables = {"inclusion.csv": posterior.inclusion.to_csv(), "models.csv": models.to_csv(index=False)}
    about = _about(posterior) | {"extra": dict(extra or {})}
    MODEL.write(folder, about, _arrays(posterior), {name: text.encode() for name, text in tables.items()})


def load_run(directory: str | os.PathLike[str]) -> tuple[Posterior, dict[str, Any]]:
    """Read a posterior that :func:`save_run` wrote, and what was kept with it.

    The posterior predicts as the one saved did. It holds no training rows; its table holds the million leading
    models.
    """
    folder = Path(directory)
    try:
        about, arrays = MODEL.read(folder)
    except OSError:
        raise InputError(
            f"{folder} is not a saved model: it has no readable {MODEL.file}; give a directory that save wrote."
        ) from None
    reader = Reader(arrays, damaged=InputError)
    try:
        problem = _problem(about["problem"], reader.under("problem"))
        laws = None if about["laws"] is None else laws_from_dict(about["laws"], problem)
        result = _result(about["result"], reader, problem.n_terms, laws)
        kinds = [kind for kind in KINDS if f"{kind}/words" in reader]
        kept = {kind: _kept(problem, reader.under(kind)) for kind in kinds}
        identity = about["fingerprint"]
        identity = None if identity is None else {str(name): str(value) for name, value in identity.items()}
        errors = {str(law): (float(error), float(spread)) for law, (error, spread) in about.get("errors", {}).items()}
        return Posterior(problem, result, kept, identity, errors=errors), dict(about["extra"])
    except InputError as error:
        raise MODEL.damaged(folder, str(error).rstrip(".")) from None
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, MemoryError, RecursionError):
        raise MODEL.damaged(folder, f"{MODEL.file} does not describe a posterior") from None


# --- writing ------------------------------------------------------------------------------------------------------


def _about(posterior: Posterior) -> dict[str, Any]:
    """Everything that is not an array."""
    problem, result = posterior.problem, posterior.result
    cut = result.models.visits[STORED_MODELS:]
    cut_shared = cut[result.models.chains[STORED_MODELS:] >= 2]
    plain = {
        name: _jsonable(value)
        for name, value in _fields(result)
        if name not in ("models", "laws") and not isinstance(value, np.ndarray)
    }
    return {
        "problem": {
            "names": list(problem.names),
            "always_in": list(problem.always_in),
            "intercept": bool(problem.intercept),
            "family": problem.family.spec,
            "link": problem.family.link,
            # Files hold no functions: of a likelihood of the user's own they know the name.
            "likelihood": repr(problem.family) if problem.family.custom else None,
            "coef_prior": problem.coef_prior.to_dict(),
            "model_prior": problem.model_prior.to_dict(),
            "base_rss": float(problem.base_rss),
            "noise_floor": float(problem.noise_floor),
            "rows": int(problem.rows),
        },
        "fingerprint": None if posterior.fingerprints is None else dict(posterior.fingerprints),
        # Models beyond the bound count as forgotten in what is loaded.
        "result": plain
        | {
            "forgotten_visits": int(result.forgotten_visits + cut.sum()),
            "forgotten_shared": int(result.forgotten_shared + cut_shared.sum()),
        },
        "laws": None if result.laws is None else laws_to_dict(result.laws),
        "errors": stored_errors(posterior),
        "verdict": {
            "level": posterior.verdict.level,
            "search": posterior.verdict.search,
            "text": str(posterior.verdict),
        },
    }


def _fields(record: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(record, field.name)) for field in dataclasses.fields(record)]


def _jsonable(value: Any) -> Any:
    """A value made of what JSON holds: NumPy numbers as plain ones, None for NaN."""
    if isinstance(value, Mapping):
        return {str(name): _jsonable(part) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return [_jsonable(part) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and np.isnan(value) else value


def laws_to_dict(laws: Laws) -> dict[str, Any]:
    """Laws as JSON holds them; features are texts."""
    return {
        "language": stored_language(laws.language),
        "features": [feature.text for feature in laws.features],
        "aliases": {law.text: [a.text for a in others] for law, others in laws.aliases.items() if others},
        "constants": {f.text: [float(v) for v in laws.constants[f]] for f in sorted(laws.constants)},
        # Merging adds up the spellings of all runs.
        "spelled": [[sorted(f.text for f in model), value] for model, value in laws.spelled.items()],
    }


def laws_from_dict(stored: Mapping[str, Any], problem: Problem) -> Laws:
    """Laws from what ``laws_to_dict`` returned."""
    language = language_from_dict(stored["language"])
    parse = language.parse
    features = tuple(map(parse, stored["features"]))
    if tuple(feature.text for feature in features) != problem.names:
        raise TypeError("laws of another posterior")
    aliases = {law: tuple(map(parse, stored["aliases"].get(law.text, ()))) for law in features}
    constants = {parse(text): np.array(values, F) for text, values in stored["constants"].items()}
    spelled = {frozenset(map(parse, texts)): float(value) for texts, value in stored["spelled"]}
    return Laws(features, aliases, constants, problem, language, spelled)


def _arrays(posterior: Posterior) -> Snapshot:
    """The arrays of a posterior: models, chains, and the sufficient statistics of the data."""
    problem, result = posterior.problem, posterior.result
    data, columns = problem.data, problem.data.columns
    own = problem.family.custom
    # A likelihood of the user's own predicts nothing.
    kept = {} if own else _kept_kinds(posterior)
    stored = _stored_columns(problem, kept)
    block = data.gram[np.ix_(stored, stored)]
    about = {
        "loading": columns.loading,
        "scale": columns.scale,
        "base_coef": problem.base_coef,
        "base_factor": np.eye(data.base) if own else base_factor(problem),
        "parent_start": data.prior.parent_start,
        "parent_index": data.prior.parent_index,
        "gram_columns": stored,
        "gram_triangle": block[np.tril_indices(len(stored))],
    }
    about |= {name: np.asarray(getattr(data, name)) for name in _PLAIN_DATA}
    arrays = under("problem", about)
    arrays |= under("models", {name: value[:STORED_MODELS] for name, value in _fields(result.models)})
    arrays |= under("result", {name: value for name, value in _fields(result) if isinstance(value, np.ndarray)})
    for kind, models in kept.items():
        arrays |= under(kind, flatten(models, ("fits",)))
        if models.fits is not None:
            arrays |= under(f"{kind}/fits", flatten(models.fits))
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
        # A posterior that was itself read from a file may know some columns only.
        return np.flatnonzero(~np.isnan(np.diag(problem.data.gram)))
    used = [model_columns(problem, members_of(words)) for models in kept.values() for words in models.words]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *used]))


# --- reading: compiled code trusts its indices, so every array is checked as it is taken -----------------------------


def _names(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise TypeError("no names")
    return tuple(given)


def _typed(value: Any, kind: str) -> Any:
    """A plain value of a type; TypeError for anything else."""
    if not isinstance(value, _PLAIN_TYPES[kind]):
        raise TypeError(f"{value!r} is no {kind}")
    return value


def _words(reader: Reader, terms: int) -> np.ndarray:
    """Models as bit sets, without a bit beyond the terms."""
    words = reader.array("words", U, (None, max(1, -(-terms // 64))))
    beyond = 64 * words.shape[1] - terms
    reader.need(not (beyond and words.size and int(words[:, -1].max()) >> (64 - beyond)), "words")
    return words


def _starts(reader: Reader, name: str, count: int, last: int) -> np.ndarray:
    """Where each of some stretches begins and ends, one after the other, from 0."""
    ends = reader.array(name, I, (count + 1,))
    reader.need(ends[0] == 0 and ends[-1] == last and (np.diff(ends) >= 0).all(), name)
    return ends


def _problem(about: Mapping[str, Any], reader: Reader) -> Problem:
    """The problem without its rows. Columns whose products were not stored have NaN on the diagonal."""
    names, always_in = _names(about["names"]), _names(about["always_in"])
    terms, scale = len(names), reader.array("scale", F, (None,), POSITIVE)
    p, base = len(scale), reader.whole("base", 0, 1 << 31)
    need_memory(16.0 * p * p, f"the products of the {p} columns of this model", "use a machine with more memory")
    coef_prior, model_prior = coef_prior_from_dict(about["coef_prior"]), model_prior_from_dict(about["model_prior"])
    index = reader.array("parent_index", I, (None,), (0, terms))
    start = _starts(reader, "parent_start", terms, len(index))
    parents = [index[start[j] : start[j + 1]].tolist() for j in range(terms)]
    compiled = model_prior.compile(terms, names=names, parents=parents, always_in=always_in)
    family = _family(about)
    stored = reader.array("gram_columns", I, (None,), (0, p))
    block = np.zeros((len(stored), len(stored)))
    block[np.tril_indices(len(stored))] = reader.array("gram_triangle", F, (len(stored) * (len(stored) + 1) // 2,))
    gram = np.zeros((p, p))
    np.fill_diagonal(gram, np.nan)
    gram[np.ix_(stored, stored)] = block + np.tril(block, -1).T
    # The triangular factor of the base stands in for its rows: the leverages are the same.
    columns = Columns(
        np.empty((0, p)),
        reader.array("base_factor", F, (base, base), FINITE),
        reader.array("loading", F, (base, p), FINITE),
        scale,
        np.ones(base),
        np.empty(0),
    )
    base_rss, noise_floor = _typed(about["base_rss"], "float"), _typed(about.get("noise_floor", 0.0), "float")
    data = problem_data(
        gram=gram,
        corr=reader.array("corr", F, (p,), FINITE),
        first=_starts(reader, "first", terms, p),
        coef_prior=coef_prior,
        model_prior=compiled,
        columns=columns,
        glm=family.without_rows(base),
        n=reader.number("n"),
        base=base,
        base_rss=base_rss,
        noise_floor=noise_floor,
        zobrist=reader.array("zobrist", U, (terms,)),
    )
    return Problem(
        names, always_in, _typed(about["intercept"], "bool"), coef_prior, model_prior, data, base_rss,
        reader.array("base_coef", F, (base,), FINITE), _typed(about["rows"], "int"), family,
        noise_floor=noise_floor,
    )  # fmt: skip


def _family(about: Mapping[str, Any]) -> Family:
    if about["likelihood"] is not None:
        return StoredLikelihood(about["likelihood"])
    return resolve_family(about["family"], about["link"])


def _result(about: Mapping[str, Any], reader: Reader, terms: int, laws: Laws | None) -> Result:
    models, arrays = reader.under("models"), reader.under("result")
    words = _words(models, terms)
    counts = {name: models.array(name, I, (len(words),)) for name in ("visits", "first_seen", "chains", "draws")}
    table = ModelTable(words=words, log_posterior=models.array("log_posterior", F, (len(words),)), **counts)
    shapes = {"renormalised": (terms,), "size_distribution": (None,), "batch_means": (None, None, terms)}
    fields: dict[str, Any] = {"models": table, "laws": laws, "notes": _names(about["notes"])}
    for field in dataclasses.fields(Result):
        name, kind = field.name, str(field.type)
        if "ndarray" in kind:
            fields[name] = arrays.array(name, F, shapes.get(name, (None,))) if name in arrays else None
        elif kind.startswith("dict"):
            fields[name] = {str(key): tuple(_typed(v, "int") for v in value) for key, value in about[name].items()}
        elif name not in fields:
            # JSON has no NaN.
            share = name == "library_share" and about[name] is None
            fields[name] = float("nan") if share else _typed(about[name], kind)
    reader.need(fields["renormalised"] is not None and fields["size_distribution"] is not None, "result")
    return Result(**fields)


def _kept(problem: Problem, reader: Reader) -> KeptModels:
    """The models behind a kind of prediction."""
    words = _words(reader, problem.n_terms)
    m, mass = len(words), reader.number("mass")
    weight = reader.array("weight", F, (m,), POSITIVE)
    reader.need(abs(weight.sum() - 1.0) < 1e-6, "weight")
    if problem.family.conjugate:
        return KeptModels(words, weight, reader.array("resid", F, (m,)), mass)
    fits = reader.under("fits")
    widths = np.diff(problem.data.first)
    columns = [problem.data.base + int(widths[members_of(row)].sum()) for row in words]
    size = fits.array("size", I, (m,))
    fits.need(size.tolist() == columns, "size")
    log_marginal, wald, shape = (fits.array(name, F, (m,)) for name in ("log_marginal", "wald", "shape"))
    coef = fits.array("coef", F, (sum(columns),), FINITE)
    factor = fits.array("factor", F, (sum(k * (k + 1) // 2 for k in columns),), FINITE)
    return KeptModels(words, weight, np.zeros(0), mass, LaplaceFits(log_marginal, wald, shape, size, coef, factor))


# --- problems without rows ----------------------------------------------------------------------------------------


def rowless_like(
    problem: Problem,
    names: tuple[str, ...],
    gram: np.ndarray,
    corr: np.ndarray,
    loading: np.ndarray,
    scale: np.ndarray,
    prior: ModelPrior,
) -> Problem:
    """A problem that holds no rows, of one column for each term, with the base and the response of another; products
    that nobody knows are NaN.
    """
    old, p, base = problem.data, len(names), problem.data.base
    compiled = prior.compile(p, names=names, parents=None, always_in=())
    data = problem_data(
        gram=gram,
        corr=corr,
        first=np.arange(p + 1, dtype=np.int64),
        coef_prior=problem.coef_prior,
        model_prior=compiled,
        columns=Columns(np.empty((0, p)), base_factor(problem), loading, scale, np.ones(base), np.empty(0)),
        glm=problem.family.without_rows(base),
        n=old.n,
        base=base,
        base_rss=problem.base_rss,
        noise_floor=problem.noise_floor,
    )
    return dataclasses.replace(
        problem, names=names, model_prior=prior, data=data, observed=None,
        digest=None,
    )  # fmt: skip
