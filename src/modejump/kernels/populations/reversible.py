"""RGMJMCMC, compiled: a chain over models of features whose visit frequencies are posterior probabilities.

The chain goes from population to population. Given its model it draws the next population (the library, the model's
guests, and fresh features), makes MJMCMC steps inside it, and forgets it. Between two populations it may make a move
of ``kernels.population_moves``. Every step ends in a model that counts.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import entry, kernel
from modejump.core.random import draw_cumulative
from modejump.features.nonlinear.columns import settle_alphas
from modejump.features.table import MAX_CHILDREN, Arena, truncate
from modejump.kernels.chain import close_sojourns, draw_kernel, note_leave, step
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.neighbour import set_model
from modejump.kernels.populations.fresh_features import (
    fill_place,
    invite,
    keep_features,
    log_stay,
    send_away,
    tidy,
)
from modejump.kernels.populations.moves import NONE, move_between

# Why ``sample`` returned.
DONE, WANT_STORE, WANT_FEATURES, WANT_LOG = range(4)
# Features that one population with its moves may make.
FEATURE_RESERVE = 4096
CHILD_RESERVE = 4 * FEATURE_RESERVE + MAX_CHILDREN


def has_room(arena: Arena) -> bool:
    """Whether a table of features has room for the next population."""
    features = arena.scalars["count"] + FEATURE_RESERVE <= len(arena.kind)
    return bool(features and arena.scalars["children"] + CHILD_RESERVE <= len(arena.child))


@kernel
def _wants(ch, ar, pop, guests, reserve):
    """What has to be renewed before the next population; DONE where nothing has."""
    if ch.store.count + reserve > len(ch.store.log_posterior):
        return WANT_STORE
    if ar.count + FEATURE_RESERVE > len(ar.kind) or ar.children + CHILD_RESERVE > len(ar.child):
        return WANT_FEATURES
    if guests.logged + 3 * len(pop.feature) > len(guests.log_feature):
        return WANT_LOG
    return DONE


@kernel
def _clean(data, ch, ar, pop, guests, between, archive):
    """Nothing is left of the last population but the model."""
    note_leave(ch.record, ch.state, ch.store)
    for place in range(guests.first, len(between.also)):
        between.also[place] = 0
    send_away(data, ch, pop, guests, archive, between.also)
    tidy(ar, pop, guests)


@kernel
def _turn(data, ch, moves, ar, pool, pop, guests, between, space, archive):
    """From one population to the next; returns the number of steps that were made on the way."""
    # Whatever the model.
    kind = draw_cumulative(ch.rng, between.cumulative)
    made = 0
    if kind != NONE:
        move_between(kind, data, ch, moves, ar, pool, pop, guests, between, space, archive)
        ch.record.clock += 1
        made = 1
        _clean(data, ch, ar, pop, guests, between, archive)
    invite(data, ar, pool, pop, guests, space, ch.rng, between.active)
    guests.populations += 1
    return made


@kernel
def _begin(data, ch, start):
    """Put the chain at its first model, or at the empty one where that has probability zero."""
    st = ch.state
    set_model(data, st, ch.work, ch.store, start)
    if st.log_posterior == NEG_INF:
        set_model(data, st, ch.work, ch.store, np.zeros(len(start), np.uint8))
    st.placed = 1


@entry
def sample(
    data,
    ch,
    moves,
    ar,
    pool,
    pop,
    guests,
    between,
    space,
    archive,
    start,
    steps,
    population_steps,
    reserve,
):
    """Up to ``steps`` steps and the close of their batch; returns (steps done, reason)."""
    if ch.state.placed == 0:
        _begin(data, ch, start)
    tried, rng = ch.record.tried, ch.rng
    done = 0
    while done < steps:
        if guests.left == 0:
            _clean(data, ch, ar, pop, guests, between, archive)
            reason = _wants(ch, ar, pop, guests, reserve)
            if reason != DONE:
                return done, reason
            done += _turn(data, ch, moves, ar, pool, pop, guests, between, space, archive)
            guests.left = population_steps
            continue
        which = draw_kernel(moves, rng)
        moved = step(which, data, ch, moves)
        tried[which, 0] += 1
        tried[which, 1] += moved
        ch.record.clock += 1
        guests.left -= 1
        done += 1
    close_sojourns(ch)
    for place in range(guests.first, len(pop.feature)):
        if pop.feature[place] >= 0:
            log_stay(pop, guests, ch.record, place)
    if guests.referred:
        keep_features(ar, guests)
    return done, DONE


@entry
def finish(data, ch, ar, pop, guests, crossing, collected):
    """Close a run: what the store knows of models with guests goes to the archive."""
    _clean(data, ch, ar, pop, guests, crossing, collected)
    guests.left = 0


@entry
def furnish(data, ar, pool, pop, library, usable):
    """Put the library's ar into the first places; ``usable`` tells which have a column."""
    for place in range(len(library)):
        usable[place] = fill_place(data, ar, pool, pop, place, library[place])


@entry
def cut(features, count, children):
    """Forget every feature from number ``count`` on."""
    truncate(features, count, children)


@entry
def settle_numbers(ar, pool, numbers):
    """Make sure that the projections in these ar have their alphas."""
    for i in range(len(numbers)):
        settle_alphas(ar, pool, numbers[i], pool.projections)
