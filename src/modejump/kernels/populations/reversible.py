"""RGMJMCMC, compiled: a chain over models of features whose visit frequencies are posterior probabilities.

The chain goes from population to population. Given its model it draws the next population (the library, the model's
own features, and fresh ones), makes MJMCMC steps inside it, and forgets it. Between two populations it may make a move
of `modejump.kernels.populations.moves`. Every step ends in a model that counts.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.random import draw_cumulative
from modejump.features.table import MAX_CHILDREN, FeatureTable
from modejump.kernels.chain import close_sojourns, count_step, note_leave
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.neighbour import set_model
from modejump.kernels.populations.fresh_features import (
    draw_population,
    drop_fresh,
    keep_features,
    log_stay,
    release_features,
)
from modejump.kernels.populations.moves import NONE, move_between

# Why sampling stopped: all steps are made, or something has to be renewed before the next population.
DONE, WANT_STORE, WANT_FEATURES, WANT_LOG = range(4)
# Features that one population with its moves may make.
FEATURE_RESERVE = 4096
CHILD_RESERVE = 4 * FEATURE_RESERVE + MAX_CHILDREN


def has_room(table: FeatureTable) -> bool:
    """Whether a table of features has room for the next population."""
    features = table.scalars["count"] + FEATURE_RESERVE <= len(table.kind)
    return bool(features and table.scalars["children"] + CHILD_RESERVE <= len(table.child))


@kernel
def _wants(fc):
    """What has to be renewed before the next population; DONE where nothing has."""
    store, table, fresh = fc.chain.store, fc.table, fc.fresh
    if store.count + fc.reserve > len(store.log_posterior):
        return WANT_STORE
    if table.count + FEATURE_RESERVE > len(table.kind) or table.children + CHILD_RESERVE > len(table.child):
        return WANT_FEATURES
    if fresh.logged + 3 * len(fc.population.feature) > len(fresh.log_feature):
        return WANT_LOG
    return DONE


@kernel
def _clean(fc):
    """Nothing is left of the last population but the model."""
    note_leave(fc.chain.record, fc.chain.state, fc.chain.store)
    also = fc.between.also
    for place in range(fc.fresh.first, len(also)):
        also[place] = 0
    drop_fresh(fc, also)
    release_features(fc)


@kernel
def _turn(fc):
    """From one population to the next; returns the number of steps that were made on the way."""
    # Whatever the model.
    kind = draw_cumulative(fc.chain.rng, fc.between.cumulative)
    made = 0
    if kind != NONE:
        move_between(kind, fc)
        fc.chain.record.clock += 1
        made = 1
        _clean(fc)
    draw_population(fc, fc.between.active)
    fc.fresh.populations += 1
    return made


@kernel
def _begin(fc, start):
    """Put the chain at its first model, or at the empty one where that has probability zero."""
    ch = fc.chain
    set_model(fc.data, ch.state, ch.work, ch.store, start)
    if ch.state.log_posterior == NEG_INF:
        set_model(fc.data, ch.state, ch.work, ch.store, np.zeros(len(start), np.uint8))
    ch.state.placed = 1


@kernel
def sample(fc, start):
    """Up to ``steps`` steps and the close of their batch; ``done`` and ``reason`` are the answer."""
    ch, fresh = fc.chain, fc.fresh
    if ch.state.placed == 0:
        _begin(fc, start)
    fc.done = 0
    while fc.done < fc.steps:
        if fresh.left == 0:
            _clean(fc)
            fc.reason = _wants(fc)
            if fc.reason != DONE:
                return
            fc.done += _turn(fc)
            fresh.left = fc.population_steps
            continue
        count_step(fc.data, ch, fc.moves)
        fresh.left -= 1
        fc.done += 1
    close_sojourns(ch)
    for place in range(fresh.first, len(fc.population.feature)):
        if fc.population.feature[place] >= 0:
            log_stay(fc, place)
    if fresh.referred:
        keep_features(fc)
    fc.reason = DONE


@kernel
def finish(fc):
    """Close a run: what the store knows of models with fresh features goes to the archive."""
    _clean(fc)
    fc.fresh.left = 0
