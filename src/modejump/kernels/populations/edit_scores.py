"""What the edits of good models' features are worth, so that a library can be completed before it is frozen.

Kernels here take the handle on a `FeatureChain`, see `modejump.kernels.populations.feature_chain`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import kernel
from modejump.features.distribution import next_edit
from modejump.features.language import product
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.neighbour import neighbour, set_model
from modejump.kernels.populations.population import column_at, weigh

# Features that the edits of one feature may make besides themselves.
_SPARE = 1024


class EditScores(NamedTuple):
    """What edits were found to be worth."""

    score: np.ndarray  # float64 (features,): log of the summed posterior of the models with a feature
    stamp: np.ndarray  # int64 (features,): scratch space
    best_value: np.ndarray  # float64 (models,): log posterior of each model's best edit
    best_edit: np.ndarray  # int64 (models, 2): the member that it replaces (-1: none), and the new feature


@kernel
def _place_beside(fc, place, f):
    """Column of f at a place, and its Gram row beside the model's members; False where it has no column."""
    if not column_at(fc, place, f):
        return False
    st, gram = fc.chain.state, fc.data.gram
    for i in range(st.size):
        j = st.order[i]
        gram[place, j] = product(fc.space, fc.population, place, j)
        gram[j, place] = gram[place, j]
    weigh(fc, place, f)
    return True


@kernel
def _add(score, f, value):
    """Add a model's posterior to the score of a feature, both by their logs."""
    if value > NEG_INF:
        top = max(score[f], value)
        score[f] = top + np.log(np.exp(score[f] - top) + np.exp(value - top))


@kernel
def _try(fc, m_flips, model, old, g):
    """Evaluate the model with these flips; note it for the feature's score and as the model's best edit."""
    ch, scores = fc.chain, fc.scores
    value, _ = neighbour(fc.data, ch.state, ch.work, ch.store, ch.flips, m_flips)
    _add(scores.score, g, value)
    if value > scores.best_value[model]:
        scores.best_value[model] = value
        scores.best_edit[model, 0] = old
        scores.best_edit[model, 1] = g


@kernel
def score_edits(fc, models):
    """For each model all edits of its members: log posterior with the edit in the member's place, and beside it.

    The last place of the population is for the edit. ``done`` tells how many models were evaluated, ``limit`` at most,
    edits of one member more or less.
    """
    ch, pop, stamp = fc.chain, fc.population, fc.scores.stamp
    flips, place = ch.flips, len(pop.feature) - 1
    one, two, none = np.int64(1), np.int64(2), np.int64(-1)
    fc.done = 0
    at = np.zeros(3, np.int64)
    for m in range(models.shape[0]):
        set_model(fc.data, ch.state, ch.work, ch.store, models[m])
        fc.scores.best_value[m] = NEG_INF
        for old in range(place):
            if models[m, old] == 0:
                continue
            at[0] = at[1] = at[2] = 0
            while True:
                if fc.table.count + _SPARE > len(fc.table.kind):
                    return
                g = next_edit(fc.space, fc.table, pop.feature[old], at)
                if g == -2:
                    break
                if g < 0 or stamp[g] == m * len(pop.feature) + old + 1:
                    continue
                stamp[g] = m * len(pop.feature) + old + 1
                if not _place_beside(fc, place, g):
                    continue
                # Models known to fit perfectly are remembered by place, and the place has another feature now.
                ch.work.perfect_count = ch.work.perfect_next = 0
                flips[0], flips[1] = old, place
                _try(fc, two, m, old, g)
                flips[0] = place
                _try(fc, one, m, none, g)
                fc.done += 2
            if fc.done >= fc.limit:
                return


@kernel
def evaluate_models(fc, models, values):
    """Log posteriors of models of the places of a population."""
    ch = fc.chain
    for m in range(models.shape[0]):
        set_model(fc.data, ch.state, ch.work, ch.store, models[m])
        values[m] = ch.state.log_posterior


@kernel
def _place_once(fc, f):
    """Column of f at the next free place, unless f has a place already or no column; ``done`` counts the places."""
    if fc.scores.stamp[f] or fc.done == len(fc.population.feature):
        return
    fc.scores.stamp[f] = 1
    if column_at(fc, fc.done, f):
        weigh(fc, fc.done, f)
        fc.population.feature[fc.done] = f
        fc.done += 1


@kernel
def place_edits(fc, parents):
    """Put features and then their edits, each once, into the first places, as many as there are.

    ``done`` tells how many. A feature without a column has no place. Gram rows are left alone.
    """
    table, places = fc.table, len(fc.population.feature)
    fc.done = 0
    for i in range(len(parents)):
        _place_once(fc, parents[i])
    at = np.zeros(3, np.int64)
    for i in range(len(parents)):
        at[0] = at[1] = at[2] = 0
        while fc.done < places and table.count + _SPARE <= len(table.kind):
            g = next_edit(fc.space, table, parents[i], at)
            if g == -2:
                break
            if g >= 0:
                _place_once(fc, g)
