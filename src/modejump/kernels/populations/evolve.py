"""The evolution of single features beside a model, compiled: independent searches for the best model.

A search has a model and looks for the one feature that makes it best: beside the model, or in the place of one of its
members, or of several that share covariates. It keeps the best features met, a few of each complexity, so that simple
ones do not crowd out those that become good only by one more step; edits and operators make new ones of them. Once
nothing better comes for a while the best one joins the model, and the next place has its turn. A search ends where no
place finds anything better, and another begins, from nothing or from what a census suggests.

The best single feature beside nothing is often a monster that imitates a sum of simple ones, and no step leads from it
to them. So most searches begin narrow: complexity costs more than the prior says, features are shallow and have few
constants and functions, models have few terms, by limits that are drawn for each search. Where nothing is better within
them, each place has one more turn without them.

Kernels here take the handle on a `FeatureChain`, see `modejump.kernels.populations.feature_chain`. The last place of
its population is for the feature that is tried.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.handles import scalars_of
from modejump.core.random import below, draw_cumulative, uniform
from modejump.features.distribution import draw_edit, next_edit
from modejump.features.language import draw_feature, functions_of, make_feature
from modejump.features.pool import remember
from modejump.features.table import COVARIATE, covariate, within_limits
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.neighbour import neighbour
from modejump.kernels.populations.archive import keep
from modejump.kernels.populations.edit_scores import place_beside
from modejump.kernels.populations.genetic import CENSUS_DUE, DONE, TABLE_FULL
from modejump.kernels.populations.population import vacate
from modejump.kernels.populations.turns import (
    BETTER,
    TOGETHER_FIRST,
    free_place,
    next_place,
    put_rest,
    settle,
    without_limits,
)
from modejump.kernels.store import first_slot

# Shares of what is tried: features drawn at random, and what operators make of several; edits otherwise.
DRAWN = 0.08
MADE = 0.22
# One more edit in a row.
ONE_MORE = 0.35
# Parents that are compared, and the share of them that are members of the model or covariates.
TOURNAMENT = 5
MEMBER = 0.1
LEAF = 0.05
# Features tried at the beginning of a search, and drawn at random for each place.
CENSUS = 800
FIRST_DRAWS = 50
# A census by suggestions takes about as long as so many generations.
CENSUS_WORTH = 16
# Most searches begin narrow: with few terms, with shallow features of few constants, without some of the functions (of
# the first so many), any number of them with the same probability, and with a cost of complexity, per unit and
# observation, that is drawn evenly on a log scale.
NARROW = 0.75
MOST_FUNCTIONS = 60
LEAST_COST, MOST_COST = 5e-3, 0.15
# A search goes on without these where its model is less than this below the best one met, for each observation.
PROMISING = 0.5
# Children and parts of features that a generation may make besides them.
SPARE = 8192
# Two features have one column where their fits differ by less than this share.
SAME_FIT = 1e-9
# Searches whose best models are noted.
MOST_RUNS = 4096


class Evolution(NamedTuple):
    """Settings and progress of searches, one after another."""

    feature: np.ndarray  # int64 (C + 1, W): the best features by complexity, -1 where there is none
    value: np.ndarray  # float64 (C + 1, W): log posterior of the model with each
    fit: np.ndarray  # float64 (C + 1, W): the same without the feature's own prior weight
    seen: np.ndarray  # uint64 (slots,): keys of what was tried beside the rest of the model, 0 where free
    member: np.ndarray  # uint8 (S,): the model
    out: np.ndarray  # uint8 (S,): members that make way in this turn
    run_best: np.ndarray  # float64 (MOST_RUNS,): log posterior of the best model of each search that ended
    # generations; runs: searches that ended; tried: features; place: whose turn it is, the last one where a feature is
    # added; stalled: generations without anything better; idle: places in a row that found nothing better; turns:
    # left, where that is bounded; counted: whether a census is taken where a place begins; together: whether members
    # that share covariates make way together; most: features of a model; depth, constants: of a feature at most;
    # without: the functions that it may not have, by bits; cost: of a unit of complexity; started: whether there is
    # a search; begun: whether its place has begun; best: log posterior of the model; top: of the model with the best
    # feature at this place, less its cost; met: the highest that this search met; known: keys in ``seen``
    scalars: np.ndarray
    tries: int  # features tried in a generation
    patience: int  # generations without anything better before a place gives way


def new_evolution(places: int, complexity: int, width: int, tries: int, patience: int) -> Evolution:
    """Searches that have not begun; for models of one feature less than there are places."""
    niches = (complexity + 1, width)
    return Evolution(
        feature=np.full(niches, -1, np.int64),
        value=np.full(niches, NEG_INF),
        fit=np.full(niches, NEG_INF),
        seen=np.zeros(1 << (17 if width else 0), np.uint64),
        member=np.zeros(places, np.uint8),
        out=np.zeros(places, np.uint8),
        run_best=np.zeros(MOST_RUNS if width else 0),
        scalars=scalars_of(
            generations=0, runs=0, tried=0, place=0, stalled=0, idle=0, turns=0, counted=0, together=0, most=0, depth=0,
            constants=0, without=0, cost=0.0, started=0, begun=0, best=NEG_INF, top=NEG_INF, met=NEG_INF, known=0,
        ),
        tries=tries,
        patience=patience,
    )  # fmt: skip


@kernel
def _is_new(evo, key):
    """Whether a feature was not tried yet beside the rest of the model; notes it."""
    seen = evo.seen
    if 4 * evo.known > 3 * len(seen):
        for i in range(len(seen)):
            seen[i] = 0
        evo.known = 0
    mark = key if key != 0 else np.uint64(1)
    at = first_slot(mark, len(seen))
    while seen[at] != 0:
        if seen[at] == mark:
            return False
        at = (at + np.uint64(1)) & np.uint64(len(seen) - 1)
    seen[at] = mark
    evo.known += 1
    return True


@kernel
def _forget_pool(evo):
    feature, value, fit = evo.feature, evo.value, evo.fit
    for c in range(feature.shape[0]):
        for i in range(feature.shape[1]):
            feature[c, i] = -1
            value[c, i] = fit[c, i] = NEG_INF
    for i in range(len(evo.seen)):
        evo.seen[i] = 0
    evo.known = 0


@kernel
def _note(evo, complexity, f, value, fit):
    """Give a feature its place among those of its complexity, where it is good enough and has a column of its own."""
    features, values, fits = evo.feature, evo.value, evo.fit
    width = features.shape[1]
    for c in range(features.shape[0]):
        for i in range(width):
            if features[c, i] >= 0 and abs(fits[c, i] - fit) <= SAME_FIT * (1.0 + abs(fit)):
                if c <= complexity:
                    return
                features[c, i] = -1
                values[c, i] = fits[c, i] = NEG_INF
    worst = 0
    for i in range(1, width):
        if values[complexity, i] < values[complexity, worst]:
            worst = i
    if value > values[complexity, worst]:
        features[complexity, worst] = f
        values[complexity, worst] = value
        fits[complexity, worst] = fit


@kernel
def _try(fc, f):
    """Evaluate the model with a feature in addition, unless it was tried; it is noted where it is good."""
    evo, ch, pop, table = fc.evolution, fc.chain, fc.population, fc.table
    if f < 0 or not within_limits(fc.space, table, f):
        return
    if table.depth[f] > evo.depth or table.constants[f] > evo.constants:
        return
    if functions_of(fc.space, table, f) & evo.without or not _is_new(evo, table.key[f]):
        return
    last = len(pop.feature) - 1
    evo.tried += 1
    if not place_beside(fc, last, f):
        return
    if table.kind[f] != COVARIATE:
        remember(fc.pool, f)
    # Models known to fit perfectly are remembered by place, and the place has another feature now.
    ch.work.perfect_count = ch.work.perfect_next = 0
    ch.flips[0] = last
    value, e = neighbour(fc.data, ch.state, ch.work, ch.store, ch.flips, np.int64(1))
    if value == NEG_INF:
        return
    evo.met = max(evo.met, value)
    _note(evo, table.complexity[f], f, value, value - fc.data.prior.log_weight[last])
    evo.top = max(evo.top, value - evo.cost * table.complexity[f])
    if e >= 0 and value > fc.archive.bar:
        pop.feature[last] = f
        keep(fc.archive, ch.store.hash[e], value, ch.store.words, e, pop, np.int64(0))
        pop.feature[last] = -1


@kernel
def _parent(fc):
    """A feature to make others of: the best of a few, or a member of the model, or a covariate."""
    evo, st, rng = fc.evolution, fc.chain.state, fc.chain.rng
    u = uniform(rng)
    if u < LEAF:
        return covariate(fc.space, fc.table, below(rng, fc.space.n_columns))
    if u < LEAF + MEMBER and st.size > 0:
        return fc.population.feature[st.order[below(rng, st.size)]]
    features, values = evo.feature, evo.value
    best, top, met = np.int64(-1), NEG_INF, 0
    for _ in range(32 * TOURNAMENT):
        c, i = 1 + below(rng, features.shape[0] - 1), below(rng, features.shape[1])
        if features[c, i] < 0:
            continue
        met += 1
        if values[c, i] - evo.cost * c > top:
            best, top = features[c, i], values[c, i] - evo.cost * c
        if met == TOURNAMENT:
            break
    return best if best >= 0 else covariate(fc.space, fc.table, below(rng, fc.space.n_columns))


@kernel
def _proposal(fc):
    """A feature to try, -1 where it is void."""
    space, table, rng = fc.space, fc.table, fc.chain.rng
    u = uniform(rng)
    if u < DRAWN:
        return draw_feature(space, table, rng)
    if u < DRAWN + MADE:
        count = np.int64(max(2, min(space.max_width, 4)))
        for i in range(count):
            parent = _parent(fc)
            table.parents[i] = parent
            if parent < 0:
                return np.int64(-1)
        return make_feature(space, table, draw_cumulative(rng, space.cumulative), count, rng)
    f = _parent(fc)
    more = True
    while more and f >= 0:
        g = np.int64(-1)
        for _ in range(8):
            if g < 0:
                g = draw_edit(space, table, f, rng)
        f = g
        more = uniform(rng) < ONE_MORE
    return f


@kernel
def _tight(fc):
    """Whether the table of features has no room for another generation."""
    table = fc.table
    room = fc.evolution.tries + SPARE
    return table.full or table.count + room > len(table.kind) or table.children + 4 * room > len(table.child)


@kernel
def _census(fc):
    """Try all edits of the covariates, their edits, and so on, breadth first, up to a number."""
    evo, space, table = fc.evolution, fc.space, fc.table
    first = table.count
    queue = np.empty(CENSUS, np.int64)
    count = 0
    for column in range(space.n_columns):
        f = covariate(space, table, np.int64(column))
        if f >= 0 and count < CENSUS:
            _try(fc, f)
            queue[count] = f
            count += 1
    done, until = 0, evo.tried + CENSUS
    at = np.zeros(3, np.int64)
    while done < count and evo.tried < until and table.count - first < SPARE // 2:
        at[0] = at[1] = at[2] = 0
        while evo.tried < until and table.count - first < SPARE // 2:
            g = next_edit(space, table, queue[done], at)
            if g == -2:
                break
            before = evo.tried
            _try(fc, g)
            if evo.tried > before and count < CENSUS:
                queue[count] = g
                count += 1
        done += 1


@kernel
def _begin_place(fc):
    """Turn to a place: what is known beside the rest of the model, and some features at random."""
    evo, ch, pool = fc.evolution, fc.chain, fc.pool
    _forget_pool(evo)
    evo.top, evo.stalled, evo.begun = NEG_INF, 0, 1
    last = len(evo.member) - 1
    place = evo.place
    put_rest(fc)
    if place == last:
        evo.best = ch.state.log_posterior
    for column in range(fc.space.n_columns):
        _try(fc, covariate(fc.space, fc.table, np.int64(column)))
    if place < last:
        _try(fc, fc.population.feature[place])
    owner = pool.owner
    for s in range(len(owner)):
        if owner[s] >= 0:
            _try(fc, owner[s])
            if ch.store.count + FIRST_DRAWS + 2 > len(ch.store.log_posterior):
                put_rest(fc)
    for _ in range(FIRST_DRAWS):
        _try(fc, draw_feature(fc.space, fc.table, ch.rng))


@kernel
def _begin_search(fc):
    """A model without members, and a cost of complexity."""
    evo, rng = fc.evolution, fc.chain.rng
    for place in range(len(evo.member)):
        vacate(fc, np.int64(place))
        evo.member[place] = 0
    owner, slot = fc.pool.owner, fc.pool.slot
    for s in range(len(owner)):
        if owner[s] >= 0:
            slot[owner[s]] = 0
            owner[s] = -1
    without_limits(fc)
    if uniform(rng) < NARROW:
        evo.most = min(evo.most, 1 + below(rng, 2))
    if uniform(rng) < NARROW:
        evo.depth = min(evo.depth, 1 + below(rng, fc.space.max_depth))
        evo.constants = 1 + below(rng, 3)
        share = uniform(rng)
        for code in range(MOST_FUNCTIONS):
            if uniform(rng) > share:
                evo.without |= np.int64(1) << np.int64(code)
        evo.cost = fc.data.n * LEAST_COST * (MOST_COST / LEAST_COST) ** uniform(rng)
    evo.started = 1
    evo.idle = evo.together = 0
    evo.turns = -1
    evo.best = evo.met = NEG_INF
    evo.place = len(evo.member) - 1
    evo.out[:] = 0
    _begin_place(fc)
    put_rest(fc)
    _census(fc)


@kernel
def _turn(fc):
    """End the turn of a place; then the next one, or another search."""
    evo = fc.evolution
    if settle(fc):
        evo.idle = evo.together = 0
    else:
        evo.idle += 1
    evo.begun = 0
    evo.turns -= 1
    if evo.turns != 0 and next_place(fc):
        return
    if evo.turns < 0 and evo.best > fc.archive.best - PROMISING * fc.data.n:
        without_limits(fc)
        evo.idle = evo.together = 0
        evo.turns = 2 + 2 * np.sum(evo.member)
        # The last place has had its turn within limits, and is the next one without them.
        evo.place = len(evo.member) - 1
        evo.out[:] = 0
    else:
        evo.run_best[evo.runs % len(evo.run_best)] = evo.met
        evo.runs += 1
        evo.started = 0


@kernel
def begin_with(fc, features):
    """Begin a search with a model of several features, so far as it may have them, and without limits."""
    evo, ch = fc.evolution, fc.chain
    without_limits(fc)
    evo.out[:] = 0
    for i in range(len(features)):
        put_rest(fc)
        place = free_place(evo)
        if place < 0 or not within_limits(fc.space, fc.table, features[i]) or not place_beside(fc, place, features[i]):
            continue
        fc.population.feature[place] = features[i]
        evo.member[place] = 1
        put_rest(fc)
        if ch.state.log_posterior == NEG_INF:
            evo.member[place] = 0
            vacate(fc, np.int64(place))
    put_rest(fc)
    evo.best = ch.state.log_posterior
    # First all of them make way together: a single feature may be better; then those that share covariates, since
    # simple terms imitate. There are no limits to go on without.
    evo.out[:] = evo.member
    evo.together = TOGETHER_FIRST
    evo.place = 0 if evo.member[0] else len(evo.member) - 1
    evo.begun, evo.turns = 0, 1 << 30


@kernel
def try_features(fc, features):
    """Try features at the place whose turn it is."""
    put_rest(fc)
    for i in range(len(features)):
        _try(fc, features[i])


@kernel
def evolve_features(fc):
    """So many generations as ``steps`` says; stops early where the table has to be renewed, or a census is due."""
    evo = fc.evolution
    for done in range(fc.steps):
        fc.done = done
        if _tight(fc):
            fc.reason = TABLE_FULL
            return
        if not evo.begun:
            if evo.started:
                _begin_place(fc)
            else:
                _begin_search(fc)
            if evo.counted:
                evo.generations += CENSUS_WORTH
                fc.done, fc.reason = done + 1, CENSUS_DUE
                return
        else:
            top = evo.top
            put_rest(fc)
            until = evo.tried + evo.tries
            for _ in range(4 * evo.tries):
                if evo.tried < until:
                    _try(fc, _proposal(fc))
            evo.stalled = 0 if evo.top > top + BETTER else evo.stalled + 1
            if evo.stalled >= evo.patience:
                _turn(fc)
        evo.generations += 1
    fc.done = fc.steps
    fc.reason = DONE
