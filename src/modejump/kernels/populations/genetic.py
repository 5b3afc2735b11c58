"""GMJMCMC, compiled: populations of features, MJMCMC inside each, filtration and renewal between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.random import below, draw_cumulative, uniform
from modejump.features.language import make_feature
from modejump.features.table import covariate, within_limits
from modejump.kernels.chain import close_sojourns, count_step
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.neighbour import set_model
from modejump.kernels.populations.archive import archive_store
from modejump.kernels.populations.population import admit, vacate
from modejump.kernels.state import clear_model

# Why a task ended: it is done, or the table of features has to be renewed first.
DONE, TABLE_FULL, CENSUS_DUE = 0, 1, 2
# Tries to fill an empty place.
TRIES = 20


class Genetic(NamedTuple):
    """Settings and progress of one chain of populations."""

    inclusion: np.ndarray  # float64 (S,): estimated in the last population
    best_model: np.ndarray  # uint8 (S,): of the population
    tried: np.ndarray  # int64 (operators, 2): proposed and admitted
    # populations; stalled: populations without improvement; restarts; started: whether there was one; run_best: since
    # the last restart; best: highest log posterior of all
    scalars: np.ndarray
    keep_at: float  # features above this inclusion are kept
    keep_low: float  # others are kept with this probability
    patience: int  # populations without improvement before a restart
    steps: int  # MJMCMC steps in a population


@kernel
def _draw_place(fc):
    """A place of the population with a feature: half of the time by its inclusion, otherwise any."""
    features, inclusion, rng = fc.population.feature, fc.genetic.inclusion, fc.chain.rng
    s = len(features)
    for _ in range(4 * s):
        place = below(rng, s)
        if features[place] >= 0 and (uniform(rng) < 0.5 or uniform(rng) < inclusion[place]):
            return place
    for place in range(s):
        if features[place] >= 0:
            return np.int64(place)
    return np.int64(-1)


@kernel
def _propose_feature(fc, operator):
    """A candidate of one operator, made of features of the population; -1 where it does not apply."""
    count, place = np.int64(0), _draw_place(fc)
    if place >= 0:
        count = np.int64(max(2, min(fc.space.max_width, len(fc.population.feature))))
        # An operator takes as many of them as it needs.
        for i in range(count):
            fc.table.parents[i] = fc.population.feature[place]
            place = _draw_place(fc)
    return make_feature(fc.space, fc.table, operator, count, fc.chain.rng)


@kernel
def _present(pop, f):
    for place in range(len(pop.feature)):
        if pop.feature[place] == f:
            return True
    return False


@kernel
def _renew(fc):
    """Fill the empty places; a candidate that is present, or has the column of one that is, is drawn again."""
    pop, gen = fc.population, fc.genetic
    for place in range(len(pop.feature)):
        if pop.feature[place] >= 0:
            continue
        for _ in range(TRIES):
            operator = draw_cumulative(fc.chain.rng, fc.space.cumulative)
            f = _propose_feature(fc, operator)
            gen.tried[operator, 0] += 1
            if f < 0 or not within_limits(fc.space, fc.table, f) or _present(pop, f):
                continue
            if admit(fc, place, f):
                gen.inclusion[place] = 0.0
                gen.tried[operator, 1] += 1
                break


@kernel
def _restart(fc):
    """A new population that begins with covariates."""
    pop, gen, columns = fc.population, fc.genetic, fc.space.n_columns
    for place in range(len(pop.feature)):
        vacate(fc, place)
        gen.inclusion[place] = 0.0
        gen.best_model[place] = 0
    first = below(fc.chain.rng, columns)
    for i in range(min(columns, len(pop.feature))):
        f = covariate(fc.space, fc.table, (first + i) % columns)
        if f >= 0:
            admit(fc, i, f)
    _renew(fc)
    gen.run_best = NEG_INF
    gen.stalled = 0


@kernel
def _filter(fc):
    """Drop features of low inclusion, each with some probability; the best model's features stay."""
    pop, gen = fc.population, fc.genetic
    for place in range(len(pop.feature)):
        if pop.feature[place] < 0 or gen.best_model[place] or gen.inclusion[place] >= gen.keep_at:
            continue
        if uniform(fc.chain.rng) >= gen.keep_low:
            vacate(fc, place)


@kernel
def clear_record(ch):
    """Forget the models of the last population and the record of its steps."""
    store, rec = ch.store, ch.record
    index = store.slots
    for i in range(len(index)):
        index[i] = 0
    store.count = store.evaluated = store.forgotten = 0
    ch.work.perfect_count = ch.work.perfect_next = 0
    for t in range(len(rec.inside)):
        rec.inside[t] = 0.0
        rec.since[t] = 0
        rec.sizes[t] = 0.0
    rec.sizes[len(rec.inside)] = 0.0
    rec.clock = rec.entered = 0


@kernel
def _explore(fc):
    """MJMCMC inside the population, from the best model of the last; notes inclusion and the best model met."""
    ch, gen = fc.chain, fc.genetic
    clear_record(ch)
    clear_model(ch.state)
    set_model(fc.data, ch.state, ch.work, ch.store, gen.best_model)
    for _ in range(gen.steps):
        count_step(fc.data, ch, fc.moves)
    close_sojourns(ch)
    top, at = NEG_INF, np.int64(-1)
    values, words = ch.store.log_posterior, ch.store.words
    for e in range(ch.store.count):
        if values[e] > top:
            top, at = values[e], np.int64(e)
    for place in range(len(gen.best_model)):
        gen.inclusion[place] = ch.record.inside[place] / gen.steps
        inside = np.uint64(0)
        if at >= 0:
            inside = (words[at, place >> 6] >> np.uint64(place & 63)) & np.uint64(1)
        gen.best_model[place] = np.uint8(inside)
    return top


@kernel
def _next_population(fc):
    """Filtration and renewal, or a new population where the chain has not begun or has stalled."""
    gen = fc.genetic
    if gen.started == 0 or gen.stalled >= gen.patience:
        gen.restarts += gen.started
        gen.started = 1
        _restart(fc)
    else:
        _filter(fc)
        _renew(fc)


@kernel
def evolve(fc):
    """So many populations as ``steps`` says; stops early where the table of features has to be renewed first."""
    gen = fc.genetic
    for done in range(fc.steps):
        fc.done = done
        if fc.table.full:
            fc.reason = TABLE_FULL
            return
        _next_population(fc)
        top = _explore(fc)
        archive_store(fc.archive, fc.chain.store, fc.population)
        gen.populations += 1
        if top > gen.run_best + 1e-9:
            gen.run_best = top
            gen.stalled = 0
        else:
            gen.stalled += 1
        gen.best = max(gen.best, top)
    fc.done = fc.steps
    fc.reason = DONE
