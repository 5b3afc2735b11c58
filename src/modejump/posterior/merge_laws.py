"""Searches of one problem: their laws united, and the posterior of each over all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from modejump.core.errors import InputError
from modejump.features.expression import Expression
from modejump.posterior.best_laws import stored_errors
from modejump.posterior.fits import KeptModels, chosen_models
from modejump.posterior.merge import AGREEMENT
from modejump.posterior.posterior import Posterior
from modejump.posterior.storage import rowless_like
from modejump.problem.problem import Problem
from modejump.samplers.laws import Laws
from modejump.samplers.result import Result, members_of

# Constants that differ by a smaller share are the same: searches for them end a little apart.
SAME_CONSTANTS = 1e-5


def over_united_laws(posteriors: Sequence[Posterior]) -> list[Posterior]:
    """Each of several posteriors over the laws of all of them.

    A feature that one run knows as another spelling of a law is that law.
    """
    parts = [_laws_of(posterior) for posterior in posteriors]
    law_of = _united_laws(parts)
    features = sorted(set(law_of.values()))
    problem = _united_problem(posteriors, features)
    spelled = _united_spellings(posteriors)
    spellings: dict[Expression, set[Expression]] = {law: set() for law in features}
    for feature, law in law_of.items():
        if feature is not law:
            spellings[law].add(feature)
    constants: dict[Expression, np.ndarray] = {}
    for part in reversed(parts):
        _check_constants(constants, part.constants)
        constants |= part.constants
    aliases = {law: tuple(sorted(others)) for law, others in spellings.items()}
    known = {model: value for model, value in spelled.items() if any(aliases[law_of[f]] for f in model)}
    laws = Laws(tuple(features), aliases, constants, problem, parts[0].language, known)
    values = _united_values(spelled, law_of)
    return [_lifted(posterior, laws, law_of, values) for posterior in posteriors]


def _check_constants(ours: Mapping[Expression, np.ndarray], theirs: Mapping[Expression, np.ndarray]) -> None:
    """Refuse runs that froze different constants inside one feature: they sampled different posteriors."""
    for f in ours.keys() & theirs.keys():
        if not np.allclose(ours[f], theirs[f], rtol=SAME_CONSTANTS, atol=0.0):
            raise InputError(
                "the runs cannot be merged: each refined the constants of its leading model before sampling, and those "
                f"of {f.text!r} differ; make one longer run instead."
            )


def _laws_of(posterior: Posterior) -> Laws:
    assert posterior.result.laws is not None
    return posterior.result.laws


def _united_laws(parts: Sequence[Laws]) -> dict[Expression, Expression]:
    """For each feature that some run knows the one that stands for its law: the simplest of all its spellings."""
    group: dict[Expression, set[Expression]] = {}
    for laws in parts:
        for law in laws.features:
            joined = {law, *laws.aliases.get(law, ())}
            for feature in tuple(joined):
                joined |= group.get(feature, set())
            for feature in joined:
                group[feature] = joined
    heads = {law for laws in parts for law in laws.features}
    return {f: min(heads & some, key=lambda g: (g.complexity, g.text)) for f, some in group.items()}


def _united_spellings(posteriors: Sequence[Posterior]) -> dict[frozenset[Expression], float]:
    """Log posterior of each model, by the features as some run met them."""
    spelled: dict[frozenset[Expression], float] = {}
    for posterior in posteriors:
        laws, models = _laws_of(posterior), posterior.result.models
        plain = {
            frozenset(laws.features[j] for j in models.members(row)): float(models.log_posterior[row])
            for row in range(len(models))
        }
        own = {model: v for model, v in plain.items() if not any(laws.aliases.get(f) for f in model)} | dict(
            laws.spelled
        )
        for model, value in own.items():
            if abs(spelled.setdefault(model, value) - value) > AGREEMENT:
                raise InputError(
                    f"the runs give the model {{{', '.join(sorted(f.text for f in model))}}} log posteriors that "
                    f"differ by {abs(spelled[model] - value):.2g}, so they are not of the same problem; fit again."
                )
    return spelled


def _united_values(
    spelled: Mapping[frozenset[Expression], float], law_of: Mapping[Expression, Expression]
) -> dict[frozenset[Expression], float]:
    """Log posterior of each model over the united laws: the sum over all its spellings."""
    values: dict[frozenset[Expression], float] = {}
    for model, value in spelled.items():
        key = frozenset(law_of[f] for f in model)
        values[key] = float(np.logaddexp(values[key], value)) if key in values else value
    return values


def _united_problem(posteriors: Sequence[Posterior], laws: Sequence[Expression]) -> Problem:
    """Selection among the united laws; products of laws that no run knows together are NaN."""
    p = len(laws)
    where = {law: i for i, law in enumerate(laws)}
    first = posteriors[0].problem
    gram, corr, scale = np.full((p, p), np.nan), np.zeros(p), np.zeros(p)
    loading = np.zeros((first.data.base, p))
    weights = np.zeros(p)
    for posterior in posteriors:
        problem, features = posterior.problem, _laws_of(posterior).features
        own = [j for j, law in enumerate(features) if law in where]
        at = np.array([where[features[j]] for j in own], np.int64)
        block = problem.data.gram[np.ix_(own, own)]
        known = np.isnan(gram[np.ix_(at, at)])
        gram[np.ix_(at, at)] = np.where(known, block, gram[np.ix_(at, at)])
        corr[at], scale[at] = problem.data.corr[own], problem.data.columns.scale[own]
        loading[:, at] = problem.data.columns.loading[:, own]
        weights[at] = np.array(problem.model_prior.log_weights)[own]
    prior = dataclasses.replace(first.model_prior, log_weights=tuple(weights.tolist()))
    return rowless_like(first, tuple(law.text for law in laws), gram, corr, loading, scale, prior)


def _lifted(
    posterior: Posterior,
    laws: Laws,
    law_of: Mapping[Expression, Expression],
    values: Mapping[frozenset[Expression], float],
) -> Posterior:
    """The posterior of one run over the united laws."""
    where = {law: i for i, law in enumerate(laws.features)}
    count, own = len(where), _laws_of(posterior).features
    target = np.array([where[law_of[law]] for law in own], np.int64)
    same = np.array([law_of[law] is law for law in own], bool)
    result, table = posterior.result, posterior.result.models
    keys = (frozenset(law_of[own[j]] for j in table.members(row)) for row in range(len(table)))
    united = np.array([values[key] for key in keys])
    means, sizes = result.batch_means, np.zeros(count + 1)
    both = min(len(sizes), len(result.size_distribution))
    sizes[:both] = result.size_distribution[:both]
    sizes[-1] += result.size_distribution[both:].sum()
    lifted: Result = dataclasses.replace(
        result,
        models=dataclasses.replace(table, words=_moved(table.words, target, count), log_posterior=united),
        renormalised=_summed(result.renormalised, target, count),
        batch_means=None if means is None else _summed(means, target, count),
        size_distribution=sizes,
        laws=laws,
    )
    kept = {kind: _moved_kept(posterior.kept_models(kind), target, same, count) for kind in ("bma", "best")}
    return Posterior(
        laws.problem, lifted, kept, posterior.fingerprints, errors=posterior.errors or stored_errors(posterior)
    )


def _summed(values: np.ndarray, target: np.ndarray, count: int) -> np.ndarray:
    """Values by law, added up in the places of the united laws."""
    out = np.zeros((*values.shape[:-1], count))
    for j, t in enumerate(target):
        out[..., t] += values[..., j]
    return np.minimum(out, 1.0)


def _moved(words: np.ndarray, target: np.ndarray, count: int) -> np.ndarray:
    """Bit sets over the united laws."""
    out = np.zeros((len(words), max(1, -(-count // 64))), np.uint64)
    for j, t in enumerate(target):
        bit = (words[:, j >> 6] >> np.uint64(j & 63)) & np.uint64(1)
        out[:, t >> 6] |= bit << np.uint64(t & 63)
    return out


def _moved_kept(kept: KeptModels, target: np.ndarray, same: np.ndarray, count: int) -> KeptModels:
    """Models behind predictions over the united laws; fits by another spelling's column are of no use there."""
    rows = np.flatnonzero([same[members_of(words)].all() for words in kept.words])
    some = chosen_models(kept, rows, kept.weight[rows], kept.mass)
    return some._replace(words=_moved(some.words, target, count))
