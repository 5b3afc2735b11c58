"""From the models of many chains to laws: one list of canonical features, functionally equal ones reported once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from modejump.features.expression import Expression
from modejump.features.language import Language
from modejump.problem.feature_problem import FeatureProblem
from modejump.problem.problem import Problem
from modejump.samplers.chains.genetic_chain import SPAN
from modejump.samplers.result import ModelTable
from modejump.samplers.warmup.library import Collected, best_first

MOST_MODELS = 5_000
MOST_FEATURES = 256
# Features of these and of models drawn from the posterior.
MOST_DRAWN_FEATURES = 1024
COLUMN_BYTES = 64 * 2**20
# Two features are one law where their columns differ by less than this share of their squared length, up to sign and
# scale.
SAME_LAW = 1e-9


@dataclass(frozen=True, eq=False)
class Laws:
    """The laws that a search found.

    Attributes
    ----------
    features : tuple of features
        One feature for each law: the simplest of its spellings.
    aliases : mapping of a feature to a tuple of features
        Other features met with the same column up to sign and scale.
    constants : mapping of a feature to ndarray
        Constants that are fitted inside features.
    problem : Problem
        Selection among the laws: their columns, with the prior weights of their features.
    language : Language
        The language of the features.
    spelled : mapping of a set of features to float
        Log posterior of each model with a law that was met in several spellings, by the features as they were met:
        the result's table of models has the sums over the spellings.
    """

    features: tuple[Expression, ...]
    aliases: Mapping[Expression, tuple[Expression, ...]]
    constants: Mapping[Expression, np.ndarray]
    problem: Problem
    language: Language
    spelled: Mapping[frozenset[Expression], float] = field(default_factory=dict)


# Models drawn from the posterior: log posterior, and how often.
Drawn = dict[frozenset[Expression], tuple[float, int]]


def leading(collected: Collected, rows: int, drawn: Drawn | None = None) -> list[tuple[frozenset[Expression], float]]:
    """The best models, and those drawn, as many as their features' columns leave room for."""
    room = max(16, COLUMN_BYTES // (8 * rows))
    most = int(min(MOST_FEATURES, room))
    chosen: list[tuple[frozenset[Expression], float]] = []
    used: set[Expression] = set()
    ordered = best_first(collected)
    for model, value in ordered[:MOST_MODELS]:
        if value < ordered[0][1] - SPAN:
            break
        if len(used | model) > most:
            continue
        used |= model
        chosen.append((model, value))
    have, most = {model for model, _ in chosen}, int(min(MOST_DRAWN_FEATURES, room))
    for model, (value, _) in (drawn or {}).items():
        if model not in have and len(used | model) <= most:
            used |= model
            chosen.append((model, value))
    return chosen


def same_laws(
    features: Sequence[Expression], columns: np.ndarray, intercept: bool = True, fixed: Sequence[np.ndarray] = ()
) -> dict[Expression, Expression]:
    """For each feature the simplest one with the same column up to sign and scale, and level beside an intercept.

    Columns that are ``fixed`` in every model are a level, too.
    """
    z = columns - columns.mean(axis=0) if intercept else columns
    if fixed:
        base = np.linalg.qr(np.hstack([np.ones((len(columns), int(intercept))), *fixed]))[0]
        z = z - base @ (base.T @ z)
    z = z / np.linalg.norm(z, axis=0)
    return same_by_products(features, z.T @ z)


def same_by_products(features: Sequence[Expression], gram: np.ndarray) -> dict[Expression, Expression]:
    """The same from the products of the columns, which have unit length."""
    representative: dict[Expression, Expression] = {}
    order = sorted(range(len(features)), key=lambda i: (features[i].complexity, features[i].text))
    heads: list[int] = []
    for i in order:
        for h in heads:
            if 1.0 - gram[i, h] ** 2 < SAME_LAW:
                representative[features[i]] = features[h]
                break
        else:
            heads.append(i)
            representative[features[i]] = features[i]
    return representative


def laws_of(
    problem: FeatureProblem, features: Sequence[Expression], constants: Mapping[Expression, np.ndarray]
) -> tuple[np.ndarray, dict[Expression, Expression]]:
    """Columns of features, and for each feature the one that stands for its law."""
    if not features:
        return np.empty((len(problem.y), 0)), {}
    table = problem.table
    columns = np.column_stack([problem.language.column(f, table, constants) for f in features])
    if not problem.language.merges_equal_columns:
        return columns, {f: f for f in features}
    return columns, same_laws(features, columns, problem.intercept, list(problem.always_in.values()))


def laws_from(
    problem: FeatureProblem,
    collected: Collected,
    constants: Mapping[Expression, np.ndarray],
    counts: Mapping[frozenset[Expression], tuple[int, int]] | None = None,
    drawn: Drawn | None = None,
) -> tuple[Laws, ModelTable]:
    """Laws, and models over them, from collected models.

    Parameters
    ----------
    problem : FeatureProblem
        What was searched.
    collected : dict
        Log posterior of each model.
    constants : mapping
        Constants that are fitted inside features.
    counts : mapping, optional
        Visits to each model, and the number of chains that visited it, where visits are counted.
    drawn : mapping, optional
        Models drawn from the posterior, where the best ones do not hold it.
    """
    chosen = leading(collected, len(problem.y), drawn)
    features = sorted({f for model, _ in chosen for f in model})
    columns, law_of = laws_of(problem, features, constants)
    laws = sorted(set(law_of.values()))
    merged: dict[frozenset[Expression], float] = {}
    visited: dict[frozenset[Expression], tuple[int, int, int]] = {}
    for model, value in chosen:
        key = frozenset(law_of[f] for f in model)
        merged[key] = np.logaddexp(merged[key], value) if key in merged else value
        visits, chains = (counts or {}).get(model, (0, 0))
        draws = (drawn or {}).get(model, (value, 0))[1]
        before = visited.get(key, (0, 0, 0))
        # Spellings of one law by different chains are one model; nobody knows which chains they were.
        visited[key] = (before[0] + visits, max(before[1], chains), before[2] + draws)
    place = {f: i for i, f in enumerate(features)}
    selection = problem.selection(laws, columns[:, [place[law] for law in laws]], problem.prior_among(laws))
    aliases = {law: tuple(f for f in features if law_of[f] is law and f is not law) for law in laws}
    spelled = {model: value for model, value in chosen if any(aliases[law_of[f]] for f in model)}
    found = Laws(tuple(laws), aliases, dict(constants), selection, problem.language, spelled)
    return found, _model_table(merged, visited, laws)


def _model_table(
    merged: Mapping[frozenset[Expression], float],
    visited: Mapping[frozenset[Expression], tuple[int, int, int]],
    laws: Sequence[Expression],
) -> ModelTable:
    position = {f: i for i, f in enumerate(laws)}
    words = np.zeros((len(merged), max(1, -(-len(laws) // 64))), np.uint64)
    values = np.array(list(merged.values()))
    for row, model in enumerate(merged):
        for f in model:
            words[row, position[f] >> 6] |= np.uint64(1) << np.uint64(position[f] & 63)
    order = np.argsort(-values, kind="stable")
    visits = np.array([visited[model] for model in merged], np.int64).reshape(-1, 3)[order]
    return ModelTable(
        words[order], values[order], visits[:, 0], np.arange(len(values)), visits[:, 1], visits[:, 2].copy()
    )
