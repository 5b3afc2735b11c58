"""GMJMCMC, compiled: populations of features, MJMCMC inside each, filtration and renewal between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import entry, kernel
from modejump.core.random import below, draw_cumulative, uniform
from modejump.features.nonlinear.operators import (
    CROSSOVER,
    MODIFY,
    MUTATION,
    PROJECT,
    edit,
    projection,
    within_limits,
)
from modejump.features.table import covariate, modification, product
from modejump.kernels.chain import close_sojourns, draw_kernel, step
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.neighbour import set_model
from modejump.kernels.populations.archive import archive_store
from modejump.kernels.populations.population import admit, relist, vacate
from modejump.kernels.state import clear_model

# Why ``evolve`` returned.
DONE, ARENA_FULL = 0, 1


class Genetic(NamedTuple):
    """Settings and progress of one chain of populations."""

    inclusion: np.ndarray  # float64 (S,): estimated in the last population
    best_model: np.ndarray  # uint8 (S,): of the population
    parents: np.ndarray  # int64 (S,)
    # populations; stalled: populations without improvement; restarts; started: whether there was one; run_best: since
    # the last restart; best: highest log posterior of all
    scalars: np.ndarray
    tried: np.ndarray  # int64 (10, 2): proposed and admitted, by operator
    keep_at: float  # features above this inclusion are kept
    keep_low: float  # others are kept with this probability
    patience: int  # populations without improvement before a restart
    steps: int  # MJMCMC steps in a population


@kernel
def _draw_place(pop, gen, rng):
    """A feature of the population: half of the time by its inclusion, otherwise any."""
    features, inclusion = pop.feature, gen.inclusion
    s = len(features)
    for _ in range(4 * s):
        place = below(rng, s)
        if features[place] >= 0 and (uniform(rng) < 0.5 or uniform(rng) < inclusion[place]):
            return place
    for place in range(s):
        if features[place] >= 0:
            return place
    return np.int64(-1)


@kernel
def _draw_projection(ar, pop, gen, space, rng, code):
    """A projection of a few features of the population."""
    most = min(space.max_width, len(pop.feature))
    m = np.int64(1)
    while m < most and uniform(rng) < 0.6:
        m += 1
    for i in range(m):
        gen.parents[i] = pop.feature[_draw_place(pop, gen, rng)]
    return projection(ar, code, gen.parents, m)


@kernel
def _propose_feature(ar, pop, gen, space, rng, operator):
    """A candidate of one operator, -1 where it does not apply."""
    if operator == MUTATION or pop.factored == 0:
        return covariate(ar, below(rng, space.n_columns))
    f = pop.feature[_draw_place(pop, gen, rng)]
    if operator == CROSSOVER:
        return product(ar, f, pop.feature[_draw_place(pop, gen, rng)])
    if operator == MODIFY or operator == PROJECT:
        if len(space.transforms) == 0:
            return np.int64(-1)
        code = space.transforms[below(rng, len(space.transforms))]
        if operator == MODIFY:
            return modification(ar, code, f)
        return _draw_projection(ar, pop, gen, space, rng, code)
    return edit(ar, space, operator, f, uniform(rng), uniform(rng), uniform(rng))


@kernel
def _present(pop, f):
    for place in range(len(pop.feature)):
        if pop.feature[place] == f:
            return True
    return False


@kernel
def _renew(data, ar, pool, pop, gen, space, rng):
    """Fill the empty places; a candidate that is present or dependent is drawn again."""
    for place in range(len(pop.feature)):
        if pop.feature[place] >= 0:
            continue
        for _ in range(20):
            operator = draw_cumulative(rng, space.cumulative)
            f = _propose_feature(ar, pop, gen, space, rng, operator)
            gen.tried[operator, 0] += 1
            if f < 0 or not within_limits(ar, space, f) or _present(pop, f):
                continue
            if admit(data, ar, pool, pop, place, f):
                gen.inclusion[place] = 0.0
                gen.tried[operator, 1] += 1
                break


@kernel
def _restart(data, ar, pool, pop, gen, space, rng):
    """A fresh population that begins with covariates."""
    for place in range(len(pop.feature)):
        vacate(data, pop, place)
        gen.inclusion[place] = 0.0
        gen.best_model[place] = 0
    pop.factored = 0
    half = min(space.n_columns, len(pop.feature))
    first = below(rng, space.n_columns)
    for i in range(half):
        f = covariate(ar, (first + i) % space.n_columns)
        if f >= 0:
            admit(data, ar, pool, pop, i, f)
    _renew(data, ar, pool, pop, gen, space, rng)
    gen.run_best = NEG_INF
    gen.stalled = 0


@kernel
def _filter(data, pop, gen, rng):
    """Drop features of low inclusion, each with some probability; the best model's features stay."""
    for place in range(len(pop.feature)):
        if pop.feature[place] < 0 or gen.best_model[place] or gen.inclusion[place] >= gen.keep_at:
            continue
        if uniform(rng) >= gen.keep_low:
            vacate(data, pop, place)
    relist(data, pop)


@kernel
def _clear(ch):
    """Forget the models of the last population and the record of its steps."""
    store, rec = ch.store, ch.record
    index = store.slots
    for i in range(len(index)):
        index[i] = 0
    store.count = 0
    store.evaluated = 0
    store.forgotten = 0
    ch.work.perfect_count = 0
    ch.work.perfect_next = 0
    for t in range(len(rec.inside)):
        rec.inside[t] = 0.0
        rec.since[t] = 0
        rec.sizes[t] = 0.0
    rec.sizes[len(rec.inside)] = 0.0
    rec.clock = 0
    rec.entered = 0


@kernel
def _explore(data, ch, moves, gen, steps):
    """MJMCMC inside the population, from the model in ``best``; notes inclusion and the best model met."""
    _clear(ch)
    clear_model(ch.state)
    set_model(data, ch.state, ch.work, ch.store, gen.best_model)
    for _ in range(steps):
        which = draw_kernel(moves, ch.rng)
        moved = step(which, data, ch, moves)
        ch.record.tried[which, 0] += 1
        ch.record.tried[which, 1] += moved
        ch.record.clock += 1
    close_sojourns(ch)
    top, at = NEG_INF, np.int64(-1)
    values, words = ch.store.log_posterior, ch.store.words
    for e in range(ch.store.count):
        if values[e] > top:
            top, at = values[e], np.int64(e)
    for place in range(len(gen.best_model)):
        gen.inclusion[place] = ch.record.inside[place] / steps
        inside = np.uint64(0)
        if at >= 0:
            inside = (words[at, place >> 6] >> np.uint64(place & 63)) & np.uint64(1)
        gen.best_model[place] = np.uint8(inside)
    return top


@kernel
def _next_population(data, ar, pool, pop, gen, space, rng):
    """Filtration and renewal, or a fresh population where the chain has not begun or has stalled."""
    if gen.started == 0 or gen.stalled >= gen.patience:
        gen.restarts += gen.started
        gen.started = 1
        _restart(data, ar, pool, pop, gen, space, rng)
    else:
        _filter(data, pop, gen, rng)
        _renew(data, ar, pool, pop, gen, space, rng)


@kernel
def _live(data, ch, moves, pop, gen, archive):
    """MJMCMC inside a population, and what it leaves behind."""
    top = _explore(data, ch, moves, gen, gen.steps)
    archive_store(archive, ch.store, pop)
    gen.populations += 1
    if top > gen.run_best + 1e-9:
        gen.run_best = top
        gen.stalled = 0
    else:
        gen.stalled += 1
    gen.best = max(gen.best, top)


@entry
def evolve(data, ch, moves, ar, pool, pop, gen, space, archive, count):
    """So many populations; returns ARENA_FULL where the table of ar has to be renewed first."""
    rng = ch.rng
    for _ in range(count):
        if ar.full:
            return ARENA_FULL
        _next_population(data, ar, pool, pop, gen, space, rng)
        _live(data, ch, moves, pop, gen, archive)
    return DONE
