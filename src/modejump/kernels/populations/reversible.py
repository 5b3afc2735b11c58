"""RGMJMCMC, compiled: a chain over models of features whose visit frequencies are posterior probabilities.

The chain goes from population to population. Given its model it draws the next population (the library, the model's
guests, and fresh features), makes MJMCMC steps inside it, and forgets it. Between two populations it may make a move
of ``kernels.population_moves``. Every step ends in a model that counts.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import entry, kernel
from modejump.core.handles import handle
from modejump.core.random import draw_cumulative
from modejump.features.nonlinear.columns import settle_alphas
from modejump.features.table import CHILDREN, MAX_CHILDREN, Arena, truncate
from modejump.features.table import COUNT as FEATURES
from modejump.kernels.chain import CLOCK, close_sojourns, draw_kernel, note_leave, step
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.neighbour import set_model
from modejump.kernels.populations.fresh_features import (
    LEFT,
    LOGGED,
    POPULATIONS,
    REFERRED,
    fill_place,
    invite,
    keep_features,
    log_stay,
    send_away,
    tidy,
)
from modejump.kernels.populations.moves import NONE, move_between
from modejump.kernels.state import LOG_POSTERIOR, PLACED
from modejump.kernels.store import COUNT as STORED

# Why ``sample`` returned.
DONE, WANT_STORE, WANT_FEATURES, WANT_LOG = range(4)
# Features that one population with its moves may make.
FEATURE_RESERVE = 4096
CHILD_RESERVE = 4 * FEATURE_RESERVE + MAX_CHILDREN


def has_room(arena: Arena) -> bool:
    """Whether a table of features has room for the next population."""
    features = arena.num[FEATURES] + FEATURE_RESERVE <= len(arena.kind)
    return bool(features and arena.num[CHILDREN] + CHILD_RESERVE <= len(arena.child))


@kernel
def _wants(ch, ar, pop, guests, reserve):
    """What has to be renewed before the next population; DONE where nothing has."""
    if ch.store.num[STORED] + reserve > len(ch.store.log_posterior):
        return WANT_STORE
    if ar.num[FEATURES] + FEATURE_RESERVE > len(ar.kind) or ar.num[CHILDREN] + CHILD_RESERVE > len(ar.child):
        return WANT_FEATURES
    if guests.num[LOGGED] + 3 * len(pop.feature) > len(guests.log_feature):
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
        ch.record.clock[CLOCK] += 1
        made = 1
        _clean(data, ch, ar, pop, guests, between, archive)
    invite(data, ar, pool, pop, guests, space, ch.rng, between.active)
    guests.num[POPULATIONS] += 1
    return made


@kernel
def _begin(data, ch, start):
    """Put the chain at its first model, or at the empty one where that has probability zero."""
    st = ch.state
    set_model(data, st, ch.work, ch.store, start)
    if st.val[LOG_POSTERIOR] == NEG_INF:
        set_model(data, st, ch.work, ch.store, np.zeros(len(start), np.uint8))
    st.num[PLACED] = 1


@entry
def sample(
    problem_data,
    chain,
    settings,
    features,
    columns,
    population,
    visiting,
    crossing,
    declared,
    collected,
    start,
    steps,
    population_steps,
    reserve,
):
    """Up to ``steps`` steps and the close of their batch; returns (steps done, reason)."""
    data, ch, moves = handle(problem_data), handle(chain), handle(settings)
    ar, pool, pop, guests = handle(features), handle(columns), handle(population), handle(visiting)
    between, space, archive = handle(crossing), handle(declared), handle(collected)
    if ch.state.num[PLACED] == 0:
        _begin(data, ch, start)
    tried, clock, num, rng = ch.record.tried, ch.record.clock, guests.num, ch.rng
    done = 0
    while done < steps:
        if num[LEFT] == 0:
            _clean(data, ch, ar, pop, guests, between, archive)
            reason = _wants(ch, ar, pop, guests, reserve)
            if reason != DONE:
                return done, reason
            done += _turn(data, ch, moves, ar, pool, pop, guests, between, space, archive)
            num[LEFT] = population_steps
            continue
        which = draw_kernel(moves, rng)
        moved = step(which, data, ch, moves)
        tried[which, 0] += 1
        tried[which, 1] += moved
        clock[CLOCK] += 1
        num[LEFT] -= 1
        done += 1
    close_sojourns(ch)
    for place in range(guests.first, len(pop.feature)):
        if pop.feature[place] >= 0:
            log_stay(pop, guests, ch.record, place)
    if num[REFERRED]:
        keep_features(ar, guests)
    return done, DONE


@entry
def finish(problem_data, chain, features, population, visiting, crossing, collected):
    """Close a run: what the store knows of models with guests goes to the archive."""
    data, ch = handle(problem_data), handle(chain)
    ar, pop, guests = handle(features), handle(population), handle(visiting)
    _clean(data, ch, ar, pop, guests, handle(crossing), handle(collected))
    guests.num[LEFT] = 0


@entry
def furnish(problem_data, features, columns, population, library, usable):
    """Put the library's features into the first places; ``usable`` tells which have a column."""
    data, ar, pool, pop = handle(problem_data), handle(features), handle(columns), handle(population)
    for place in range(len(library)):
        usable[place] = fill_place(data, ar, pool, pop, place, library[place])


@entry
def cut(features, count, children):
    """Forget every feature from number ``count`` on."""
    truncate(handle(features), count, children)


@entry
def settle_numbers(features, columns, numbers):
    """Make sure that the projections in these features have their alphas."""
    ar, pool = handle(features), handle(columns)
    for i in range(len(numbers)):
        settle_alphas(ar, pool, numbers[i], pool.projections)
