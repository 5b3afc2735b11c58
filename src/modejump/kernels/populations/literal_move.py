"""The moves of the paper's Theorems 1 and 2, and a smaller one.

Draw a population S' given M, search inside it, randomise to M'; draw a fresh population S given M', search inside it;
reject where M is not inside S. The ratio is that of the posteriors times ``q_r(M | S, M_k) / q_r(M' | S', M'_k)``.
Theorem 2 decides in two stages, the posteriors' ratio first. The small move does so, too, with a search that may drop
only a few members of the model.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.random import below, draw_cumulative, uniform
from modejump.features.language import make_feature
from modejump.features.table import within_limits
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.jump import distance
from modejump.kernels.moves import accept
from modejump.kernels.neighbour import here
from modejump.kernels.populations.between import ZERO_REVERSE, log_randomise, randomise, search_population, take_model
from modejump.kernels.populations.fresh_features import drop_fresh, give_place, own_log_posterior
from modejump.kernels.state import copy_state

# How a move decides and searches.
_LITERAL, _DELAYED, _SMALL = range(3)


@kernel
def _begin_population(fc, st):
    """The library and the model's members; returns how many features that is."""
    active, listed, features = fc.between.active, fc.between.listed, fc.population.feature
    m = 0
    for place in range(len(features)):
        active[place] = 1 if st.member[place] else 0
        if st.member[place]:
            listed[m] = place
            m += 1
    for place in range(fc.fresh.first):
        if features[place] >= 0 and not active[place]:
            active[place] = 1
            listed[m] = place
            m += 1
    return m


@kernel
def _generate(fc, st, m):
    """A feature made from those of the population by one of the operators, -1 where the draw is void.

    Each parent is a member of the model half of the time.
    """
    rng, listed = fc.chain.rng, fc.between.listed
    operator = draw_cumulative(rng, fc.space.cumulative)
    count = np.int64(2 if m > 0 else 0)
    for i in range(count):
        among = st.size if st.size > 0 and uniform(rng) < 0.5 else m
        fc.table.parents[i] = fc.population.feature[listed[below(rng, among)]]
    return make_feature(fc.space, fc.table, operator, count, rng)


@kernel
def _given_model(fc, st):
    """S given M: the library, the model, and features generated from them; returns its size.

    It depends on the model and on what is frozen, on nothing else; a fresh feature that happens to have a place already
    keeps it, but is in the population only where it was drawn.
    """
    active, listed = fc.between.active, fc.between.listed
    m = _begin_population(fc, st)
    for _ in range(fc.between.generated):
        f = _generate(fc, st, m)
        if f < 0 or not within_limits(fc.space, fc.table, f):
            continue
        place = give_place(fc, f)
        if place >= 0 and not active[place]:
            active[place] = 1
            listed[m] = place
            m += 1
    return m


@kernel
def _contains(between, st):
    """Whether the population contains the state's model."""
    for i in range(st.size):
        if not between.active[st.order[i]]:
            return False
    return True


@kernel
def _through_populations(fc, kind, zero_reverse):
    """One move; True where the model changed. ``zero_reverse`` counts ways back that did not contain the model."""
    ch, fresh, between = fc.chain, fc.fresh, fc.between
    st, forward, backward = ch.state, ch.forward, ch.backward
    small = np.int64(kind == _SMALL)
    size = _given_model(fc, st)
    copy_state(st, forward)
    search_population(fc, forward, small)
    d = randomise(fc, forward, size)
    log_target = own_log_posterior(fresh, forward) - own_log_posterior(fresh, st)
    if not forward.log_posterior > NEG_INF or (kind != _LITERAL and not accept(ch.rng, log_target)):
        return False
    log_forward = log_randomise(between, size, d)
    for place in range(fresh.first, len(between.also)):
        between.also[place] = forward.member[place]
    drop_fresh(fc, between.also)
    back = _given_model(fc, forward)
    if not _contains(between, st):
        zero_reverse[ZERO_REVERSE] += 1
        return False
    copy_state(forward, backward)
    search_population(fc, backward, small)
    log_ratio = log_randomise(between, back, distance(st, backward)) - log_forward
    if not accept(ch.rng, log_ratio + (log_target if kind == _LITERAL else 0.0)):
        return False
    forward.log_posterior, forward.entry = here(fc.data, forward, ch.work, ch.store)
    return take_model(ch, forward)


@kernel
def literal_move(fc, tried):
    """Theorem 1; True where the model changed."""
    return _through_populations(fc, np.int64(_LITERAL), tried)


@kernel
def delayed_move(fc, tried):
    """Theorem 2; True where the model changed."""
    return _through_populations(fc, np.int64(_DELAYED), tried)


@kernel
def small_move(fc, tried):
    """Theorem 2 with a small search; True where the model changed."""
    return _through_populations(fc, np.int64(_SMALL), tried)
