"""The library: features that warm-up found, completed by their edits, and frozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from modejump.features.arena import COUNT
from modejump.features.expression import Feature
from modejump.kernels.complete import score_edits
from modejump.kernels.reversible import furnish
from modejump.samplers.feature_table import FeatureProblem, FeatureTable
from modejump.samplers.genetic import population_chain
from modejump.samplers.laws import Collected
from modejump.samplers.reversible import Library

# Features of a library, at most, where memory does not ask for fewer.
MOST_FEATURES = 128
# Half of the library at most goes to covariates that no good model needs.
COVARIATE_SHARE = 0.5
# Edits are tried on so many of the best models ...
EDITED_MODELS = 60
# ... and made from features that are in the library already or fit in this table.
EDIT_FEATURES = 1 << 17
# Features whose models together have less than this share of the posterior are not worth a place.
NEGLIGIBLE = 1e-7


def log_importance(collected: Collected) -> dict[Feature, float]:
    """For each feature the log of the summed posterior of the models that have it."""
    total: dict[Feature, float] = {}
    for model, value in collected.items():
        for f in model:
            total[f] = float(np.logaddexp(total[f], value)) if f in total else value
    return total


def best_models(collected: Collected, count: int) -> list[frozenset[Feature]]:
    """The best models, ties by their text."""
    ordered = sorted(collected.items(), key=lambda item: (-item[1], sorted(f.text for f in item[0])))
    return [model for model, _ in ordered[:count]]


def edit_scores(problem: FeatureProblem, models: Sequence[frozenset[Feature]]) -> dict[Feature, float]:
    """Log of the summed posterior of the models that edits of one member, or beside it, make of these models."""
    members = sorted({f for model in models for f in model})
    if not members:
        return {}
    table = FeatureTable(problem, EDIT_FEATURES)
    places = len(members) + 1
    z = np.zeros((places, problem.x.shape[1]))
    data, population = problem.population_data(z, most=2 * problem.space.size), problem.new_population(z)
    pool = table.new_pool(16)
    usable = np.zeros(len(members), np.bool_)
    furnish(data, table.arena, pool, population, table.numbers(members), usable)
    position = {f: i for i, f in enumerate(members)}
    rows = np.zeros((len(models), places), np.uint8)
    for m, model in enumerate(models):
        rows[m, [position[f] for f in model]] = 1
    score = np.full(EDIT_FEATURES, -np.inf)
    chain = population_chain(places, 1 << 13, np.zeros(4, np.uint64))
    stamp = np.zeros(EDIT_FEATURES, np.int64)
    score_edits(data, chain, table.arena, pool, population, problem.declared(), rows, score, stamp)
    found = np.flatnonzero(np.isfinite(score[: int(table.arena.num[COUNT])]))
    best = found[np.argsort(-score[found], kind="stable")[: 4 * MOST_FEATURES]]
    return {table.feature(int(f)): float(score[f]) for f in best}


def build_library(problem: FeatureProblem, collected: Collected, most: int = MOST_FEATURES) -> Library:
    """The features worth a place, with their estimated inclusion probabilities.

    Parameters
    ----------
    problem : FeatureProblem
        The target.
    collected : dict
        Models that warm-up found, with their log posterior.
    most : int
        Features at most.
    """
    importance = log_importance(collected)
    total = float(np.logaddexp.reduce(list(collected.values()))) if collected else 0.0
    edits = edit_scores(problem, best_models(collected, EDITED_MODELS))
    known = dict(importance)
    for f, value in edits.items():
        known[f] = max(value, known.get(f, -np.inf))
    return _chosen(problem, known, total, most)


def _chosen(problem: FeatureProblem, known: Mapping[Feature, float], total: float, most: int) -> Library:
    order = sorted(known, key=lambda f: (-known[f], f.text))
    worth = [f for f in order if known[f] > total + np.log(NEGLIGIBLE)]
    columns = [
        Feature.covariate(name) for name, column in zip(problem.names, problem.x, strict=True) if np.ptp(column) > 0.0
    ]
    columns = [f for f in columns if f not in worth[:most]][: int(most * COVARIATE_SHARE)]
    features = worth[: most - len(columns)] + columns
    share = np.exp(np.array([min(known.get(f, -np.inf) - total, 0.0) for f in features]))
    return Library(tuple(features), share)
