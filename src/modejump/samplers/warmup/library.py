"""The library: features that warm-up found, completed by their edits, and frozen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from modejump.features.nonlinear.columns import ColumnPool
from modejump.features.nonlinear.expression import Feature
from modejump.kernels.chain import Chain
from modejump.kernels.populations.edit_scores import score_edits
from modejump.kernels.populations.population import Population
from modejump.kernels.populations.reversible import furnish
from modejump.problem.feature_problem import FeatureProblem, FeatureTable
from modejump.problem.problem import ProblemData
from modejump.samplers.chains.genetic_chain import population_chain
from modejump.samplers.laws import Collected, best_first
from modejump.samplers.populations import Library

# Features of a library, at most, where memory does not ask for fewer.
MOST_FEATURES = 128
# Half of the library at most goes to covariates that no good model needs.
COVARIATE_SHARE = 0.5
# Edits are tried on so many of the best models ...
EDITED_MODELS = 60
# ... again and again while they find better ones, so often at most, with so many evaluations.
CLIMBS = 8
EVALUATIONS = 300_000
# An evaluation costs as much as its column is long: with so many numbers in all, long columns get fewer.
NUMBERS = 50_000_000
# Room for the features that edits make.
EDIT_FEATURES = 1 << 17
# Features whose models together have less than this share of the posterior are not worth a place.
NEGLIGIBLE = 1e-7


def log_importance(collected: Collected) -> dict[Feature, float]:
    """For each feature the log of the summed posterior of the models that have it."""
    top = max(collected.values(), default=0.0)
    total: dict[Feature, float] = {}
    for model, value in collected.items():
        share = math.exp(value - top)
        for f in model:
            total[f] = total.get(f, 0.0) + share
    return {f: top + math.log(share) if share > 0.0 else -math.inf for f, share in total.items()}


def best_models(collected: Collected, count: int) -> list[frozenset[Feature]]:
    """The best models, ties by their text."""
    values = np.fromiter(collected.values(), np.float64, len(collected))
    least = -np.inf if len(values) <= count else float(np.partition(values, -count)[-count])
    ordered = best_first({model: value for model, value in collected.items() if value >= least})
    return [model for model, _ in ordered[:count]]


class Seated(NamedTuple):
    """Models over the places of a population, one row each; the last place is empty."""

    data: ProblemData
    population: Population
    pool: ColumnPool
    chain: Chain
    rows: np.ndarray


def seat_models(table: FeatureTable, members: Sequence[Feature], models: Sequence[frozenset[Feature]]) -> Seated:
    """Put the members of models into the places of a population.

    Parameters
    ----------
    table : FeatureTable
        The features by number.
    members : sequence of Feature
        All members, each once.
    models : sequence of frozenset of Feature
        The models.
    """
    places = len(members) + 1
    data, population = table.new_places(places, most=2 * table.problem.space.size)
    pool = table.new_pool(16)
    furnish(data, table.arena, pool, population, table.numbers(members), np.zeros(len(members), np.bool_))
    position = {f: i for i, f in enumerate(members)}
    rows = np.zeros((len(models), places), np.uint8)
    for row, model in enumerate(models):
        rows[row, [position[f] for f in model]] = 1
    return Seated(data, population, pool, population_chain(places, 1 << 13, np.zeros(4, np.uint64), data.glm), rows)


def edit_scores(
    problem: FeatureProblem, models: Sequence[frozenset[Feature]], limit: int = EVALUATIONS
) -> tuple[dict[Feature, float], Collected, int]:
    """What the edits of these models' members are worth.

    Parameters
    ----------
    problem : FeatureProblem
        The target.
    models : sequence of frozenset of Feature
        Models, the best first.
    limit : int
        Models to evaluate, about.

    Returns
    -------
    dict
        By feature, the log of the summed posterior of the models with it that were evaluated.
    dict
        The best edit of each model, with its log posterior.
    int
        How many models were evaluated.
    """
    members = sorted({f for model in models for f in model})
    if not members:
        return {}, {}, 0
    table = FeatureTable(problem, EDIT_FEATURES)
    data, population, pool, chain, rows = seat_models(table, members, models)
    score, stamp = np.full(EDIT_FEATURES, -np.inf), np.zeros(EDIT_FEATURES, np.int64)
    best_value, best_edit = np.full(len(models), -np.inf), np.zeros((len(models), 2), np.int64)
    done = score_edits(
        data, chain, table.arena, pool, population, problem.declared(), rows, limit, score, stamp, best_value, best_edit
    )
    found = np.flatnonzero(np.isfinite(score[: int(table.arena.scalars["count"])]))
    best = found[np.argsort(-score[found], kind="stable")[: 4 * MOST_FEATURES]]
    better: Collected = {}
    for m in np.flatnonzero(np.isfinite(best_value)).tolist():
        old, new = int(best_edit[m, 0]), int(best_edit[m, 1])
        kept = models[m] - {members[old]} if old >= 0 else models[m]
        better[kept | {table.feature(new)}] = float(best_value[m])
    return {table.feature(int(f)): float(score[f]) for f in best}, better, int(done)


def complete(problem: FeatureProblem, collected: Collected, limit: int = EVALUATIONS) -> dict[Feature, float]:
    """Climb from the best models by edits until none is better; adds the models met on the way to ``collected``.

    Returns, by feature, the log of the summed posterior of the models with it that were evaluated.
    """
    known: dict[Feature, float] = {}
    for _ in range(CLIMBS):
        top = max(collected.values(), default=-np.inf)
        scores, better, done = edit_scores(problem, best_models(collected, EDITED_MODELS), limit)
        for f, value in scores.items():
            known[f] = max(value, known.get(f, -np.inf))
        collected |= better
        limit -= int(done)
        if limit <= 0 or max(collected.values(), default=-np.inf) <= top + 1e-6:
            break
    return known


def build_library(
    problem: FeatureProblem,
    collected: Collected,
    most: int = MOST_FEATURES,
    limit: int = EVALUATIONS,
    negligible: float = NEGLIGIBLE,
) -> Library:
    """The features worth a place, with their estimated inclusion probabilities.

    Parameters
    ----------
    problem : FeatureProblem
        The target.
    collected : dict
        Models that warm-up found, with their log posterior; takes in what edits of them find.
    most : int
        Features at most.
    limit : int
        Models that edits may evaluate, about.
    negligible : float
        Features whose models together have no larger share of the posterior get no place.
    """
    known = complete(problem, collected, min(limit, max(NUMBERS // problem.x.shape[1], 1)))
    total = float(np.logaddexp.reduce(list(collected.values()))) if collected else 0.0
    for f, value in log_importance(collected).items():
        known[f] = max(value, known.get(f, -np.inf))
    least = total + math.log(negligible) if negligible > 0.0 else -math.inf
    return _chosen(problem, known, total, most, least)


def _chosen(problem: FeatureProblem, known: Mapping[Feature, float], total: float, most: int, least: float) -> Library:
    order = sorted(known, key=lambda f: (-known[f], f.text))
    worth = [f for f in order if known[f] > least]
    columns = sorted(problem.covariates(), key=lambda f: (-known.get(f, -np.inf), f.text))
    columns = columns[: int(most * COVARIATE_SHARE)]
    features = [f for f in worth if f not in columns][: most - len(columns)] + columns
    share = np.exp(np.array([min(known.get(f, -np.inf) - total, 0.0) for f in features]))
    return Library(tuple(features), share)
