"""The library: features that warm-up found, completed by their edits, and frozen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from modejump.core.random import new_stream
from modejump.features.expression import Expression
from modejump.kernels.populations.feature_chain import EVALUATE, PLACE_LIBRARY, SCORE_EDITS
from modejump.problem.feature_problem import FeatureProblem
from modejump.samplers.chains.workspace import Workspace

# Features of a library, at most, where memory does not ask for fewer.
MOST_FEATURES = 128
# Half of the library at most goes to covariates that no good model needs.
COVARIATE_SHARE = 0.5
# Edits are tried on so many of the best models ...
EDITED_MODELS = 60
# ... again and again while they find better ones, so often at most, with so many evaluations.
ROUNDS = 8
EVALUATIONS = 300_000
# Operators are tried so often on each pair of members of a model that is climbed from.
PAIRS = 8
# An evaluation costs as much as its column is long: with so many numbers in all, long columns get fewer.
NUMBERS = 300_000_000
# The same where constants are fitted inside features.
FITTED_NUMBERS = 1_500_000
# Room for the features that edits make, and models that are evaluated before their store is full.
EDIT_FEATURES = 1 << 17
EDIT_MODELS = (1 << 15) + 1024
# A library from a sample has fewer features: each costs a column of all rows; and so many of the sample's best models
# are scored by all of them.
SAMPLED_FEATURES = 48
RESCORED = 200
# Features whose models together have less than this share of the posterior are not worth a place.
NEGLIGIBLE = 1e-7

Model = frozenset[Expression]
# Models with their log posterior.
Collected = dict[Model, float]


class Library(NamedTuple):
    """The frozen features, by place, and the estimated inclusion probability of each."""

    features: tuple[Expression, ...]
    importance: np.ndarray


def log_importance(collected: Collected) -> dict[Expression, float]:
    """For each feature the log of the summed posterior of the models that have it."""
    top = max(collected.values(), default=0.0)
    total: dict[Expression, float] = {}
    for model, value in collected.items():
        share = math.exp(value - top)
        for f in model:
            total[f] = total.get(f, 0.0) + share
    return {f: top + math.log(share) if share > 0.0 else -math.inf for f, share in total.items()}


def best_first(collected: Collected) -> list[tuple[Model, float]]:
    """Models with their log posterior, best first; equals by the texts of their features."""
    ordered: list[tuple[Model, float]] = []
    # Few are equal: the texts of the others need not be sorted.
    for _, equals in itertools.groupby(sorted(collected.items(), key=lambda item: -item[1]), lambda item: item[1]):
        some = list(equals)
        if len(some) > 1:
            some.sort(key=lambda item: sorted(f.text for f in item[0]))
        ordered += some
    return ordered


def best_models(collected: Collected, count: int) -> list[Model]:
    """The best models, ties by their text."""
    values = np.fromiter(collected.values(), np.float64, len(collected))
    least = -np.inf if len(values) <= count else float(np.partition(values, -count)[-count])
    ordered = best_first({model: value for model, value in collected.items() if value >= least})
    return [model for model, _ in ordered[:count]]


def place_models(
    problem: FeatureProblem, models: Sequence[Model], scored: int = 0
) -> tuple[Workspace, list[Expression], np.ndarray]:
    """Put the members of models into the places of a population, whose last place stays empty.

    Parameters
    ----------
    problem : FeatureProblem
        The target.
    models : sequence of sets of features
        The models.
    scored : int
        Models whose edits are to be scored.

    Returns
    -------
    workspace, members, rows
        The population, the members by place, and the models as rows over the places.
    """
    members = sorted({f for model in models for f in model})
    work = Workspace(
        problem,
        len(members) + 1,
        features=EDIT_FEATURES,
        columns=16,
        models=EDIT_MODELS,
        most=2 * problem.size,
        # The same for all: what operators are tried on is part of the answer.
        stream=new_stream(np.random.SeedSequence(0)),
        scored=scored,
    )
    work.work(PLACE_LIBRARY, work.numbers(members), values=np.zeros(len(members)))
    position = {f: i for i, f in enumerate(members)}
    rows = np.zeros((len(models), len(members) + 1), np.uint8)
    for row, model in enumerate(models):
        rows[row, [position[f] for f in model]] = 1
    return work, members, rows


def scored_by(problem: FeatureProblem, models: Sequence[Model]) -> tuple[Collected, set[Expression]]:
    """Log posterior of models given the rows of a problem, and the features among them that have no column there."""
    work, members, rows = place_models(problem, models)
    values = np.full(len(models), -np.inf)
    work.work(EVALUATE, models=rows, values=values)
    lost = {f for f, number in zip(members, work.arrays.population.feature, strict=False) if number < 0}
    return {m: v for m, v in zip(models, values.tolist(), strict=True) if np.isfinite(v)}, lost


def edit_scores(
    problem: FeatureProblem, models: Sequence[Model], limit: int = EVALUATIONS, pairs: int = 0
) -> tuple[dict[Expression, float], Collected, int]:
    """What the edits of these models' members are worth.

    Parameters
    ----------
    problem : FeatureProblem
        The target.
    models : sequence of sets of features
        Models, the best first.
    limit : int
        Models to evaluate, about.
    pairs : int
        How often the operators are tried on each pair of members.

    Returns
    -------
    dict
        By feature, the log of the summed posterior of the models with it that were evaluated.
    dict
        The best neighbour of each model, with its log posterior: one that lacks a member or two, or has an edit.
    int
        How many models were evaluated.
    """
    if not any(models):
        return {}, {}, 0
    work, better, done = _scored(problem, models, limit, pairs)
    score = work.arrays.scores.score
    found = np.flatnonzero(np.isfinite(score[: int(work.table.scalars["count"])]))
    best = found[np.argsort(-score[found], kind="stable")[: 4 * MOST_FEATURES]]
    return {work.feature(int(f)): float(score[f]) for f in best}, better, done


def _scored(
    problem: FeatureProblem, models: Sequence[Model], limit: int, pairs: int
) -> tuple[Workspace, Collected, int]:
    """Arrays with the scores, the best neighbour of each model, and how many models were evaluated."""
    work, members, rows = place_models(problem, models, scored=len(models))
    done, _ = work.work(SCORE_EDITS, models=rows, limit=limit, steps=pairs)
    scores = work.arrays.scores
    better: Collected = {}
    for m in np.flatnonzero(np.isfinite(scores.best_value)).tolist():
        *left, new = scores.best_edit[m].tolist()
        kept = models[m] - {members[place] for place in left if place >= 0}
        better[kept | {work.feature(new)} if new >= 0 else kept] = float(scores.best_value[m])
    return work, better, done


def climb(problem: FeatureProblem, collected: Collected, starts: Sequence[Model], limit: int = EVALUATIONS) -> None:
    """Go from some models to their best neighbours, and on, until none is better; adds them to ``collected``.

    Parameters
    ----------
    problem : FeatureProblem
        The target.
    collected : dict
        Models with their log posterior, the first ones among them.
    starts : sequence of sets of features
        Where to begin.
    limit : int
        Models to evaluate, about.
    """
    limit = _affordable(problem, limit)
    for model in starts:
        while model and limit > 0:
            _, better, done = _scored(problem, [model], limit, PAIRS)
            limit -= done
            best = max(better, key=lambda made: better[made], default=model)
            if not better.get(best, -np.inf) > collected[model] + 1e-6:
                break
            model = best
            collected[model] = better[model]


def _affordable(problem: FeatureProblem, limit: int) -> int:
    """Models to evaluate, or fewer where columns are long."""
    numbers = FITTED_NUMBERS if problem.language.fits_constants else NUMBERS
    return min(limit, max(numbers // problem.x.shape[1], 1))


def complete(problem: FeatureProblem, collected: Collected, limit: int = EVALUATIONS) -> dict[Expression, float]:
    """Improve the best models by edits until none is better; adds the models met on the way to ``collected``.

    Returns, by feature, the log of the summed posterior of the models with it that were evaluated.
    """
    known: dict[Expression, float] = {}
    for _ in range(ROUNDS):
        top = max(collected.values(), default=-np.inf)
        scores, better, done = edit_scores(problem, best_models(collected, EDITED_MODELS), limit)
        for f, value in scores.items():
            known[f] = max(value, known.get(f, -np.inf))
        collected |= better
        limit -= done
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
        Models that edits may evaluate, about; 0 where the models are to be taken as they are.
    negligible : float
        Features whose models together have no larger share of the posterior get no place.
    """
    known = complete(problem, collected, _affordable(problem, limit)) if limit > 0 else {}
    total = float(np.logaddexp.reduce(list(collected.values()))) if collected else 0.0
    for f, value in log_importance(collected).items():
        known[f] = max(value, known.get(f, -np.inf))
    least = total + math.log(negligible) if negligible > 0.0 else -math.inf
    return _chosen(problem, known, total, most, least)


def _chosen(
    problem: FeatureProblem, known: Mapping[Expression, float], total: float, most: int, least: float
) -> Library:
    order = sorted(known, key=lambda f: (-known[f], f.text))
    worth = [f for f in order if known[f] > least]
    columns = sorted(problem.covariates(), key=lambda f: (-known.get(f, -np.inf), f.text))
    columns = columns[: int(most * COVARIATE_SHARE)]
    features = [f for f in worth if f not in columns][: most - len(columns)] + columns
    share = np.exp(np.array([min(known.get(f, -np.inf) - total, 0.0) for f in features]))
    return Library(tuple(features), share)


def library_of_sample(
    problem: FeatureProblem, searched: FeatureProblem, found: Collected, most: int, edits: int
) -> tuple[Library, Collected]:
    """The library that a sample of the rows asks for, and its best models scored by all rows.

    Parameters
    ----------
    problem, searched : FeatureProblem
        The target, and the one for the sample.
    found : dict
        Models with their log posterior by the sample.
    most : int
        Features of the library.
    edits : int
        Models that edits may evaluate, about.
    """
    library = build_library(searched, found, min(most, SAMPLED_FEATURES), edits)
    inside = frozenset(library.features)
    good = [model for model in best_models(found, 10 * RESCORED) if model <= inside][:RESCORED]
    scored, lost = scored_by(problem, [*good, inside])
    kept = [j for j, f in enumerate(library.features) if f not in lost]
    return Library(tuple(library.features[j] for j in kept), library.importance[kept]), scored
