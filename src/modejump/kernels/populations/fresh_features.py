"""Fresh features: features outside the library that a population is given, and how they come and go.

A chain of the reversible sampler works on places. The first ones belong to the library and never change; the others
take fresh features: members of the model that are not in the library, and features that a population was given. Every
feature f of the space is in the next population independently with probability rho_f = 1 - exp(-rate q(f)), whatever
the model: draw a Poisson number of features from q and take the set. So ``log_weight`` of a fresh feature's place holds
its prior weight plus ``boost`` = -log rho_f, which makes moves inside the population exact; the model's own log
posterior is the state's value less the boosts of its fresh features.

Kernels here take the handle on a `FeatureChain`, see `modejump.kernels.populations.feature_chain`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.random import uniform
from modejump.features.distribution import FeatureDistribution, draw_from, log_q
from modejump.features.pool import remember
from modejump.features.table import COVARIATE, truncate
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.neighbour import here
from modejump.kernels.populations.archive import keep, note_seen
from modejump.kernels.populations.population import EMPTY_WEIGHT, fill_place, vacate
from modejump.kernels.store import first_slot, insert


class FreshFeatures(NamedTuple):
    """Places of fresh features, how they are drawn, and a log of how long they stayed in the model."""

    q: FeatureDistribution
    place_of: np.ndarray  # int32 (features,): place + 1 of each library feature, 0 for others
    boost: np.ndarray  # float64 (K,): -log rho of the fresh feature in each place
    log_feature: np.ndarray  # int64 (cap,), with log_steps (cap,): features that left, and their steps in the model
    log_steps: np.ndarray
    # left: steps left in the population; mark: models of the store without fresh features; table_mark, child_mark:
    # features and children that stay in the table; logged: stays in the log; populations; referred: whether something
    # refers to features made since; frozen: features that were there when sampling began
    scalars: np.ndarray
    first: int  # first place for fresh features, a multiple of 64
    rate: float  # expected number of draws for a population


@kernel
def has_fresh(fresh, words):
    """Whether a model has a fresh feature."""
    for w in range(fresh.first >> 6, len(words)):
        if words[w] != 0:
            return True
    return False


@kernel
def own_log_posterior(fresh, st):
    """Log posterior of the state's model, without the boosts of its fresh features."""
    value = st.log_posterior
    boost, order = fresh.boost, st.order
    for i in range(st.size):
        if order[i] >= fresh.first:
            value -= boost[order[i]]
    return value


@kernel
def log_rho(fc, f):
    """Log of the probability that a population is given f; 0 where none is given any, and moves draw their own."""
    if fc.fresh.rate == 0.0:
        return 0.0
    log_rate = np.log(fc.fresh.rate) + log_q(fc.fresh.q, fc.space, fc.table, f)
    # 1 - exp(-x) is x where x is small, even where x itself would underflow.
    return log_rate if log_rate < -30.0 else np.log(-np.expm1(-np.exp(log_rate)))


@kernel
def _find_place(fc, f):
    """Place of a feature, -1 where it has none; and the first free place for a fresh feature, -1 likewise."""
    fresh, features = fc.fresh, fc.population.feature
    if f < len(fresh.place_of) and fresh.place_of[f] > 0:
        return np.int64(fresh.place_of[f] - 1), np.int64(-1)
    free = np.int64(-1)
    for place in range(fresh.first, len(features)):
        if features[place] == f:
            return np.int64(place), free
        if features[place] < 0 and free < 0:
            free = np.int64(place)
    return np.int64(-1), free


@kernel
def give_place(fc, f):
    """Give f a place: its own where it has one, otherwise a free one; -1 where it cannot be in any model."""
    place, free = _find_place(fc, f)
    if place >= 0:
        return place
    if free < 0 or not _fill_fresh(fc, free, f):
        return np.int64(-1)
    if f < fc.fresh.frozen and fc.table.kind[f] != COVARIATE:
        remember(fc.pool, f)
    return free


@kernel
def _fill_fresh(fc, place, f):
    """Put a fresh feature into a free place; False where it has no column."""
    if not fill_place(fc, place, f):
        return False
    fc.fresh.boost[place] = -log_rho(fc, f)
    fc.data.prior.log_weight[place] += fc.fresh.boost[place]
    return True


@kernel
def restore_place(fc, place, f):
    """Empty a place, or put a feature into it as it was there before; False where that has no column."""
    vacate(fc, place)
    if f < 0:
        return True
    return _fill_fresh(fc, place, f) if place >= fc.fresh.first else fill_place(fc, place, f)


@kernel
def log_stay(fc, place):
    """Move the steps that a fresh feature spent in the model to the log."""
    fresh, inside = fc.fresh, fc.chain.record.inside
    if inside[place] > 0.0:
        at = fresh.logged
        fresh.log_feature[at] = fc.population.feature[place]
        fresh.log_steps[at] = inside[place]
        fresh.logged = at + 1
        fresh.referred = 1
        inside[place] = 0.0


@kernel
def _unindex(store, mark):
    """Take the entries from ``mark`` on out of the index, last come first gone, so that no search path is broken."""
    index, hashes = store.slots, store.hash
    mask = np.uint64(len(index) - 1)
    for e in range(store.count - 1, mark - 1, -1):
        at = first_slot(hashes[e], len(index))
        while index[at] != e + 1:
            at = (at + np.uint64(1)) & mask
        index[at] = 0


@kernel
def _archive_models(fc):
    """Move the models with fresh features from the store to the archive, where they are known by their features.

    Places are given to others next, so nothing may name a model by them.
    """
    ch, fresh, archive = fc.chain, fc.fresh, fc.archive
    st, store, mark = ch.state, ch.store, fresh.mark
    last = store.count
    if last == mark:
        return
    _unindex(store, mark)
    store.count = mark
    evaluated = store.evaluated
    words, values, visits, hashes, boost = store.words, store.log_posterior, store.visits, store.hash, fresh.boost
    for e in range(mark, last):
        if not has_fresh(fresh, words[e]):
            seen = visits[e]
            new = insert(store, hashes[e], words[e], values[e])
            visits[new] = seen
            continue
        if values[e] == NEG_INF:
            continue
        value = values[e]
        for place in range(fresh.first, len(boost)):
            if (words[e, place >> 6] >> np.uint64(place & 63)) & np.uint64(1):
                value -= boost[place]
        note_seen(archive, hashes[e])
        if value > archive.bar:
            keep(archive, hashes[e], value, words, e, fc.population, visits[e])
            fresh.referred = 1
        else:
            archive.forgotten += visits[e]
    store.evaluated = evaluated
    fresh.mark = store.count
    st.log_posterior, st.entry = here(fc.data, st, ch.work, store)


@kernel
def _forget_perfect(fc):
    """Models known to fit perfectly are remembered by place: those with fresh features are forgotten."""
    work = fc.chain.work
    perfect = work.perfect
    kept = 0
    for i in range(work.perfect_count):
        if not has_fresh(fc.fresh, perfect[i]):
            for w in range(perfect.shape[1]):
                perfect[kept, w] = perfect[i, w]
            kept += 1
    work.perfect_count = kept
    work.perfect_next = kept % perfect.shape[0]


@kernel
def drop_fresh(fc, also):
    """Empty the places of fresh features that are neither in the model nor marked in ``also``."""
    _archive_models(fc)
    _forget_perfect(fc)
    features, member = fc.population.feature, fc.chain.state.member
    for place in range(fc.fresh.first, len(features)):
        if features[place] >= 0 and not member[place] and not also[place]:
            log_stay(fc, place)
            fc.data.prior.log_weight[place] = EMPTY_WEIGHT
            features[place] = -1


@kernel
def keep_features(fc):
    """Features made so far stay in the table."""
    fc.fresh.table_mark = fc.table.count
    fc.fresh.child_mark = fc.table.children
    fc.fresh.referred = 0


@kernel
def release_features(fc):
    """Features that nothing refers to any more leave the table, or it would soon be full."""
    fresh, features = fc.fresh, fc.population.feature
    newest = np.int64(-1)
    for place in range(fresh.first, len(features)):
        newest = max(newest, features[place])
    if fresh.referred or newest >= fresh.table_mark:
        keep_features(fc)
    else:
        truncate(fc.table, fresh.table_mark, fresh.child_mark)


@kernel
def _poisson(rng, rate):
    """A Poisson number."""
    limit, product, n = np.exp(-rate), uniform(rng), np.int64(0)
    while product > limit:
        product *= uniform(rng)
        n += 1
    return n


@kernel
def list_occupied(fc):
    """List the places that have a fresh feature, for flips to choose among."""
    features, occupied = fc.population.feature, fc.moves.occupied
    if len(occupied) == 1:
        return
    count = 0
    for place in range(fc.fresh.first, len(features)):
        if features[place] >= 0:
            count += 1
            occupied[count] = place
    occupied[0] = count


@kernel
def draw_population(fc, active):
    """Draw the population's fresh features, each in with its probability rho; marks them in ``active``.

    There is room for many times the expected number, so that no draw is ever turned away for want of a place.
    """
    rng = fc.chain.rng
    for _ in range(_poisson(rng, fc.fresh.rate)):
        f = draw_from(fc.fresh.q, fc.space, fc.table, rng)
        if f < 0:
            continue
        place = give_place(fc, f)
        if place >= fc.fresh.first:
            active[place] = 1
    list_occupied(fc)
