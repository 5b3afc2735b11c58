"""Guests: features outside the library that a population holds, and the bookkeeping of their coming and going.

A chain of the reversible sampler works on places. The first ones belong to the library and never change; the others
take guests: members of the model that are not in the library, and fresh features that a population was given. Every
feature f of the space is in the next population independently with probability rho_f = 1 - exp(-rate q(f)), whatever
the model: draw a Poisson number of features from q and take the set. So ``log_weight`` of a guest's place holds its
prior weight plus ``boost`` = -log rho_f, which makes moves inside the population exact; the model's own log posterior
is the state's value less the boosts of its guests.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.random import uniform
from modejump.features.fresh import Fresh, draw_fresh, log_fresh
from modejump.features.nonlinear.columns import remember
from modejump.features.table import COVARIATE
from modejump.features.table import truncate as truncate_arena
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.neighbour import here
from modejump.kernels.populations.archive import keep, note_seen
from modejump.kernels.populations.population import EMPTY_WEIGHT, column_at, dot_rows, weigh
from modejump.kernels.store import first_slot, insert


class Guests(NamedTuple):
    """Places of guests, how they are drawn, and a log of how long they stayed."""

    fresh: Fresh
    place_of: np.ndarray  # int32 (features,): place + 1 of each library feature, 0 for others
    boost: np.ndarray  # float64 (K,): -log rho of the guest in each place
    log_feature: np.ndarray  # int64 (cap,), with log_steps (cap,): guests that left, and their steps in the model
    log_steps: np.ndarray
    # left: steps left in the population; mark: entries of the store before those with guests; table_mark, child_mark:
    # features and children that stay in the table; logged: stays in the log; populations; referred: whether something
    # refers to features made since; frozen: features that were there when sampling began
    scalars: np.ndarray
    first: int  # first place for guests, a multiple of 64
    rate: float  # expected number of fresh draws in a population


@kernel
def has_guest(guests, words):
    """Whether a model has a guest."""
    for w in range(guests.first >> 6, len(words)):
        if words[w] != 0:
            return True
    return False


@kernel
def boost_of(guests, st):
    """Sum of the boosts of the model's guests."""
    total = 0.0
    boost, order = guests.boost, st.order
    for i in range(st.size):
        if order[i] >= guests.first:
            total += boost[order[i]]
    return total


@kernel
def plain_value(guests, st):
    """Log posterior of the state's model."""
    return st.log_posterior - boost_of(guests, st)


@kernel
def log_rho(ar, guests, space, f):
    """Log of the probability that a population is given f."""
    log_rate = np.log(guests.rate) + log_fresh(ar, guests.fresh, space, f)
    # 1 - exp(-x) is x where x is small, even where x itself would underflow.
    return log_rate if log_rate < -30.0 else np.log(-np.expm1(-np.exp(log_rate)))


@kernel
def find_place(pop, guests, f):
    """Place of a feature, -1 where it has none."""
    if f < len(guests.place_of) and guests.place_of[f] > 0:
        return np.int64(guests.place_of[f] - 1)
    features = pop.feature
    for place in range(guests.first, len(features)):
        if features[place] == f:
            return np.int64(place)
    return np.int64(-1)


@kernel
def free_place(pop, guests):
    """The first free place for a guest, -1 where there is none."""
    features = pop.feature
    for place in range(guests.first, len(features)):
        if features[place] < 0:
            return np.int64(place)
    return np.int64(-1)


@kernel
def fill_place(data, ar, pool, pop, place, f):
    """Column, Gram row and key of f at a free place; False where its column is not finite or constant."""
    if not column_at(ar, pool, pop, place, f):
        return False
    z, gram, features = pop.z, data.gram, pop.feature
    for j in range(len(features)):
        dot = dot_rows(z, place, z, j) if features[j] >= 0 else 0.0
        gram[place, j] = dot
        gram[j, place] = dot
    weigh(data, ar, pop, place, f)
    features[place] = f
    return True


@kernel
def welcome(data, ar, pool, pop, guests, space, f):
    """Give f a place: its own where it has one, otherwise a free one; -1 where it cannot be in any model."""
    place = find_place(pop, guests, f)
    if place >= 0:
        return place
    place = free_place(pop, guests)
    if place < 0 or not fill_place(data, ar, pool, pop, place, f):
        return np.int64(-1)
    if f < guests.frozen and ar.kind[f] != COVARIATE:
        remember(pool, f)
    boost = -log_rho(ar, guests, space, f)
    guests.boost[place] = boost
    data.prior.log_weight[place] += boost
    return place


@kernel
def log_stay(pop, guests, rec, place):
    """Move the steps that a guest spent in the model to the log."""
    if rec.inside[place] > 0.0:
        at = guests.logged
        guests.log_feature[at] = pop.feature[place]
        guests.log_steps[at] = rec.inside[place]
        guests.logged = at + 1
        guests.referred = 1
        rec.inside[place] = 0.0


@kernel
def _dismiss(data, pop, guests, rec, place):
    """Empty a place; its guest is not in the model."""
    log_stay(pop, guests, rec, place)
    data.prior.log_weight[place] = EMPTY_WEIGHT
    pop.feature[place] = -1


@kernel
def _unwind(store, mark):
    """Take the entries from ``mark`` on out of the index, last come first gone, so that no search path is broken."""
    index, hashes = store.slots, store.hash
    mask = np.uint64(len(index) - 1)
    for e in range(store.count - 1, mark - 1, -1):
        at = first_slot(hashes[e], len(index))
        while index[at] != e + 1:
            at = (at + np.uint64(1)) & mask
        index[at] = 0


@kernel
def settle(data, ch, pop, guests, archive):
    """Move the models with guests from the store to the archive, where they are known by their features.

    Places are given to others next, so nothing may name a model by them.
    """
    st, store, mark = ch.state, ch.store, guests.mark
    last = store.count
    if last == mark:
        return
    _unwind(store, mark)
    store.count = mark
    evaluated = store.evaluated
    words, values, visits, hashes, boost = store.words, store.log_posterior, store.visits, store.hash, guests.boost
    for e in range(mark, last):
        if not has_guest(guests, words[e]):
            seen = visits[e]
            new = insert(store, hashes[e], words[e], values[e])
            visits[new] = seen
            continue
        if values[e] == NEG_INF:
            continue
        value = values[e]
        for place in range(guests.first, len(boost)):
            if (words[e, place >> 6] >> np.uint64(place & 63)) & np.uint64(1):
                value -= boost[place]
        note_seen(archive, hashes[e])
        if value > archive.bar:
            keep(archive, hashes[e], value, words, e, pop, visits[e])
            guests.referred = 1
        else:
            archive.forgotten += visits[e]
    store.evaluated = evaluated
    guests.mark = store.count
    st.log_posterior, st.entry = here(data, st, ch.work, store)


@kernel
def _forget_perfect(ch, guests):
    """Models known to fit perfectly are remembered by place: those with guests are forgotten."""
    perfect = ch.work.perfect
    kept = 0
    for i in range(ch.work.perfect_count):
        if not has_guest(guests, perfect[i]):
            for w in range(perfect.shape[1]):
                perfect[kept, w] = perfect[i, w]
            kept += 1
    ch.work.perfect_count = kept
    ch.work.perfect_next = kept % perfect.shape[0]


@kernel
def send_away(data, ch, pop, guests, archive, also):
    """Dismiss the guests that are neither in the model nor marked in ``also``."""
    settle(data, ch, pop, guests, archive)
    _forget_perfect(ch, guests)
    st, rec, features = ch.state, ch.record, pop.feature
    for place in range(guests.first, len(features)):
        if features[place] >= 0 and not st.member[place] and not also[place]:
            _dismiss(data, pop, guests, rec, place)


@kernel
def keep_features(ar, guests):
    """Features made so far stay in the table."""
    guests.table_mark = ar.count
    guests.child_mark = ar.children
    guests.referred = 0


@kernel
def tidy(ar, pop, guests):
    """Features that nothing refers to any more leave the table, or it would soon be full."""
    newest = np.int64(-1)
    for place in range(guests.first, len(pop.feature)):
        newest = max(newest, pop.feature[place])
    if guests.referred or newest >= guests.table_mark:
        keep_features(ar, guests)
    else:
        truncate_arena(ar, guests.table_mark, guests.child_mark)


@kernel
def _poisson(rng, rate):
    """A Poisson number."""
    limit, product, n = np.exp(-rate), uniform(rng), np.int64(0)
    while product > limit:
        product *= uniform(rng)
        n += 1
    return n


@kernel
def invite(data, ar, pool, pop, guests, space, rng, active):
    """Draw the population's fresh features, each in with its probability rho; marks them in ``active``.

    There is room for many times the expected number, so that no draw is ever turned away for want of a place.
    """
    for _ in range(_poisson(rng, guests.rate)):
        f = draw_fresh(ar, guests.fresh, space, rng)
        if f < 0:
            continue
        place = welcome(data, ar, pool, pop, guests, space, f)
        if place >= guests.first:
            active[place] = 1
