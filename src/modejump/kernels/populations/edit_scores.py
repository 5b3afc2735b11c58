"""What the edits of good models' features are worth, so that a library can be completed before it is frozen.

Kernels here take the handle on a `FeatureChain`, see `modejump.kernels.populations.feature_chain`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.random import draw_cumulative
from modejump.features.distribution import next_edit
from modejump.features.language import make_feature, product
from modejump.features.table import within_limits
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.neighbour import neighbour, set_model
from modejump.kernels.populations.population import column_at, weigh

# Features that the edits of one feature may make besides themselves.
_SPARE = 1024
# An edit does as well as the member in whose place it is where the log posterior loses less than this.
AS_GOOD = 1.0


class EditScores(NamedTuple):
    """What edits were found to be worth."""

    score: np.ndarray  # float64 (features,): log of the summed posterior of the models with a feature
    stamp: np.ndarray  # int64 (features,): scratch space
    best_value: np.ndarray  # float64 (models,): log posterior of each model's best neighbour
    best_edit: np.ndarray  # int64 (models, 3): two members that it lacks, and its new feature; -1 for none


@kernel
def place_beside(fc, place, f):
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
def _try(fc, model, old, also, g):
    """Evaluate the model without two members (-1 for none) and with the feature at the last place (-1 for none).

    Its log posterior counts for the feature's score, and perhaps it is the model's best neighbour.
    """
    ch, scores, m = fc.chain, fc.scores, np.int64(0)
    for place in (old, also, len(fc.population.feature) - 1 if g >= 0 else np.int64(-1)):
        if place >= 0:
            ch.flips[m] = place
            m += 1
    value, _ = neighbour(fc.data, ch.state, ch.work, ch.store, ch.flips, m)
    fc.done += 1
    if g >= 0:
        _add(scores.score, g, value)
    if value > scores.best_value[model]:
        scores.best_value[model] = value
        best = scores.best_edit[model]
        best[0], best[1], best[2] = old, also, g
    return value


@kernel
def _score_edit(fc, model, old, members, g):
    """The model with an edit of a member: in the member's place, beside it, and in the place of two members.

    A feature and its edit may explain the same beside a third: ``a`` and ``a & !b``, ``a`` and ``a & b``. Then the edit
    alone changes nothing, but the third may have become superfluous. So where the edit does as well as the member,
    each other member is left out besides.
    """
    none = np.int64(-1)
    value = _try(fc, model, old, none, g)
    _try(fc, model, none, none, g)
    if value > fc.chain.state.log_posterior - AS_GOOD:
        for also in range(len(members)):
            if members[also] and also != old:
                _try(fc, model, old, np.int64(also), g)


@kernel
def _score_pairs(fc, model, members):
    """The model with what the operators make of two members, so often as ``steps`` says: in their place, and beside."""
    pop, space, parents, rng = fc.population, fc.space, fc.table.parents, fc.chain.rng
    place, none = len(pop.feature) - 1, np.int64(-1)
    for old in range(place):
        for also in range(place):
            if old == also or not (members[old] and members[also]):
                continue
            for _ in range(fc.steps):
                operator = draw_cumulative(rng, space.cumulative)
                if space.edit_weight[operator] > 0.0 or fc.table.count + _SPARE > len(fc.table.kind):
                    continue
                parents[0], parents[1] = pop.feature[old], pop.feature[also]
                g = make_feature(space, fc.table, operator, np.int64(2), rng)
                if g >= 0 and within_limits(space, fc.table, g) and place_beside(fc, place, g):
                    fc.chain.work.perfect_count = fc.chain.work.perfect_next = 0
                    _try(fc, model, np.int64(old), np.int64(also), g)
                    _try(fc, model, np.int64(old), none, g)
                    _try(fc, model, none, none, g)


@kernel
def score_edits(fc, models):
    """For each model its neighbours: without a member, with an edit of a member, or with a pair made one.

    The last place of the population is for what is new. ``done`` tells how many models were evaluated, ``limit`` at
    most, neighbours by one member more or less. See `_score_edit` and `_score_pairs`.
    """
    ch, pop, stamp = fc.chain, fc.population, fc.scores.stamp
    place, none = len(pop.feature) - 1, np.int64(-1)
    fc.done = 0
    at = np.zeros(3, np.int64)
    for m in range(models.shape[0]):
        set_model(fc.data, ch.state, ch.work, ch.store, models[m])
        fc.scores.best_value[m] = NEG_INF
        for old in range(place):
            if models[m, old] == 0:
                continue
            _try(fc, m, np.int64(old), none, none)
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
                if not place_beside(fc, place, g):
                    continue
                # Models known to fit perfectly are remembered by place, and the place has another feature now.
                ch.work.perfect_count = ch.work.perfect_next = 0
                _score_edit(fc, m, np.int64(old), models[m], g)
            if fc.done >= fc.limit:
                return
        _score_pairs(fc, m, models[m])


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
