"""What the edits of good models' features are worth, so that a library can be completed before it is frozen."""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import entry, kernel
from modejump.features.fresh import next_edit
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.neighbour import neighbour, set_model
from modejump.kernels.populations.population import column_at, dot_rows, weigh

# Features that the edits of one feature may make besides themselves.
_SPARE = 1024


@kernel
def _seat(data, ar, pool, pop, st, place, f):
    """Column of f at a place, and its Gram row beside the model's members; False where it has no column."""
    if not column_at(ar, pool, pop, place, f):
        return False
    z, gram = pop.z, data.gram
    for i in range(st.size):
        j = st.order[i]
        gram[place, j] = dot_rows(z, place, z, j)
        gram[j, place] = gram[place, j]
    weigh(data, ar, pop, place, f)
    return True


@kernel
def _seat_once(data, ar, pool, pop, seated, place, f):
    """Column of f at a place, unless f has a place already or no column; how many places are taken."""
    if seated[f] or place == len(pop.feature):
        return place
    seated[f] = 1
    if not column_at(ar, pool, pop, place, f):
        return place
    weigh(data, ar, pop, place, f)
    pop.feature[place] = f
    return place + 1


@kernel
def _add(score, f, value):
    """Add a model's posterior to the score of a feature, both by their logs."""
    if value > NEG_INF:
        top = max(score[f], value)
        score[f] = top + np.log(np.exp(score[f] - top) + np.exp(value - top))


@kernel
def _try(data, ch, m_flips, model, old, g, score, best_value, best_edit):
    """Evaluate the model with these flips; note it for the feature's score and as the model's best edit."""
    value, _ = neighbour(data, ch.state, ch.work, ch.store, ch.flips, m_flips)
    _add(score, g, value)
    if value > best_value[model]:
        best_value[model] = value
        best_edit[model, 0] = old
        best_edit[model, 1] = g


@entry
def score_edits(data, ch, ar, pool, pop, space, models, limit, score, stamp, best_value, best_edit):
    """For each model all edits of its members: log posterior with the edit in the member's place, and beside it.

    ``score`` gets, by feature, the log of the sum of the posteriors of the models looked at; ``best_value`` and
    ``best_edit`` get, by model, its best edit: the member that it replaces (-1: none) and the new feature. ``stamp``
    is scratch space. The last place of the pop is for the edit. Returns how many models were evaluated,
    ``limit`` at most, edits of one member more or less.
    """
    st, flips, place = ch.state, ch.flips, len(pop.feature) - 1
    one, two, none = np.int64(1), np.int64(2), np.int64(-1)
    done = 0
    for m in range(models.shape[0]):
        set_model(data, st, ch.work, ch.store, models[m])
        best_value[m] = NEG_INF
        for old in range(place):
            if models[m, old] == 0:
                continue
            at = np.zeros(3, np.int64)
            while True:
                if ar.count + _SPARE > len(ar.kind):
                    return done
                g = next_edit(ar, space, pop.feature[old], at)
                if g == -2:
                    break
                if g < 0 or stamp[g] == m * len(pop.feature) + old + 1:
                    continue
                stamp[g] = m * len(pop.feature) + old + 1
                if not _seat(data, ar, pool, pop, st, place, g):
                    continue
                # Models known to fit perfectly are remembered by place, and the place has another feature now.
                ch.work.perfect_count = 0
                ch.work.perfect_next = 0
                flips[0], flips[1] = old, place
                _try(data, ch, two, m, old, g, score, best_value, best_edit)
                flips[0] = place
                _try(data, ch, one, m, none, g, score, best_value, best_edit)
                done += 2
            if done >= limit:
                return done
    return done


@entry
def model_values(data, ch, models, values):
    """Log posteriors of models of the places of a population."""
    for m in range(models.shape[0]):
        set_model(data, ch.state, ch.work, ch.store, models[m])
        values[m] = ch.state.log_posterior


@entry
def seat_edits(data, ar, pool, pop, space, parents):
    """Put ar and then their edits, each once, into the first places, as many as there are; returns how many.

    A feature without a column has none. Gram rows are left alone.
    """
    seated = np.zeros(len(ar.kind), np.uint8)
    count = 0
    for i in range(len(parents)):
        count = _seat_once(data, ar, pool, pop, seated, count, parents[i])
    for i in range(len(parents)):
        at = np.zeros(3, np.int64)
        while count < len(pop.feature) and ar.count + _SPARE <= len(ar.kind):
            g = next_edit(ar, space, parents[i], at)
            if g == -2:
                break
            if g >= 0:
                count = _seat_once(data, ar, pool, pop, seated, count, g)
    return count
