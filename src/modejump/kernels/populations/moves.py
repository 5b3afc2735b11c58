"""Moves between populations: from a model through a population, a search and a randomisation to another model.

All of them start from the model alone. What a move draws (populations, searches) enters its ratio only as the theory
says; see "Why the frequencies are right" in the documentation.

- ``literal``: Theorem 1. Draw a population S' given M, search inside it, randomise to M'; draw a fresh population S
  given M', search inside it; reject where M is not inside S. The ratio is that of the posteriors times
  ``q_r(M | S, M_k) / q_r(M' | S', M'_k)``.
- ``delayed``: Theorem 2. The same in two stages, the posteriors' ratio first.
- ``small``: the delayed form with a search that may drop only a few members of the model.
- ``coupled``: the way back uses the same population S = S', whose features were each in it independently with
  probability rho_f; the ratio gains the factor ``prod_{M \\ M'} rho_f / prod_{M' \\ M} rho_f``.
- ``edit``: one member is exchanged for an edit of it, with the probabilities of all edits that lead there and back.
- ``recall``: a model drawn from a frozen list of good ones, with the ratio of an independence sampler; from a model
  outside the list there is no such move.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import entry, kernel
from modejump.core.random import below, draw_alias, draw_cumulative, uniform
from modejump.features.distribution import draw_edit, edit_probability
from modejump.features.language import make_feature
from modejump.features.table import within_limits
from modejump.kernels.chain import note_difference, note_flip, note_leave
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.jump import distance, flip_one, search
from modejump.kernels.moves import JUMP_ANNEAL, JUMP_GREEDY, JUMP_TEMPERED, accept
from modejump.kernels.neighbour import here, neighbour
from modejump.kernels.populations.fresh_features import draw_population, drop_fresh, give_place, own_log_posterior
from modejump.kernels.state import copy_state, flip_all, refresh, toggle_to
from modejump.kernels.store import first_slot, probe

NONE, LITERAL, DELAYED, SMALL, COUPLED, EDIT, RECALL = range(7)
POPULATION_MOVES = ("none", "literal", "delayed", "small", "coupled", "edit", "recall")
# Columns of Between.tried: proposals, moves to another model, and ways back that did not contain the model.
PROPOSED, MOVED, ZERO_REVERSE = 0, 1, 2
# Searches inside a population, by name.
SEARCHES = {"greedy": JUMP_GREEDY, "annealing": JUMP_ANNEAL, "mcmc": JUMP_TEMPERED}
# A small move leaves at most so many members of the model free.
FREE_MEMBERS = 2


class Recalled(NamedTuple):
    """The frozen list of models that a chain may recall, all inside the library; indexed as a ``ModelStore`` is."""

    words: np.ndarray  # uint64 (R, W)
    hash: np.ndarray  # uint64 (R,)
    log_weight: np.ndarray  # float64 (R,): log probability to be drawn
    threshold: np.ndarray  # float64 (R,), with alias (R,)
    alias: np.ndarray
    slots: np.ndarray  # int32 (slots,): index of the list by hash, number + 1


class Between(NamedTuple):
    """Settings and scratch space of the moves between populations."""

    cumulative: np.ndarray  # float64 (7,): cumulative weights of the moves, the first of which does nothing
    active: np.ndarray  # uint8 (K,): 1 for places in the present population
    also: np.ndarray  # uint8 (K,): fresh features to keep besides the model's
    listed: np.ndarray  # int64 (K,): places in the population, the model's members first
    tried: np.ndarray  # int64 (7, 3)
    generated: int  # features that a literal population tries to generate
    rho: float  # probability of a flip in the randomisation; 0: one over the size of the population
    search: int  # kind of search, one of SEARCHES
    include: float  # probability of each library feature to be in a coupled population
    recalled: Recalled


@kernel
def _flip_probability(between, size):
    return between.rho if between.rho > 0.0 else 1.0 / (size + 1.0)


@kernel
def _log_randomise(between, size, d):
    """Log of q_r: d of the population's features flipped, the others not."""
    rho = _flip_probability(between, size)
    return d * np.log(rho) + (size - d) * np.log(1.0 - rho)


@kernel
def _randomise(fc, st, size):
    """Flip each feature of the population with probability rho; returns how many flipped."""
    ch, active, rho = fc.chain, fc.between.active, _flip_probability(fc.between, size)
    d = 0
    for place in range(len(active)):
        if active[place] and uniform(ch.rng) < rho:
            flip_one(fc.data, st, ch, place)
            d += 1
    if d > 0:
        st.log_posterior, st.entry = here(fc.data, st, ch.work, ch.store)
    return d


@kernel
def _search(fc, st, small):
    """Search inside the population; where it is small, only a few members of the model may leave."""
    ch = fc.chain
    locked, active = ch.locked, fc.between.active
    for place in range(len(active)):
        locked[place] = 0 if active[place] else 1
    if small:
        size = st.size
        for i in range(size):
            locked[st.order[i]] = 1
        for _ in range(min(FREE_MEMBERS, size)):
            locked[st.order[below(ch.rng, size)]] = 0
    search(fc.between.search, fc.data, st, ch, fc.moves)
    for place in range(len(active)):
        locked[place] = 0


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
def _take(ch, source):
    """The chain moves to the model of another state; True where that is not its own."""
    if distance(ch.state, source) == 0:
        return False
    note_leave(ch.record, ch.state, ch.store)
    note_difference(ch.record, ch.state, source)
    copy_state(source, ch.state)
    return True


@kernel
def _contains(between, st):
    """Whether the population contains the state's model."""
    for i in range(st.size):
        if not between.active[st.order[i]]:
            return False
    return True


@kernel
def literal_move(kind, fc):
    """Theorems 1 and 2; True where the model changed."""
    ch, fresh, between = fc.chain, fc.fresh, fc.between
    st, forward, backward = ch.state, ch.forward, ch.backward
    small = np.int64(kind == SMALL)
    size = _given_model(fc, st)
    copy_state(st, forward)
    _search(fc, forward, small)
    d = _randomise(fc, forward, size)
    log_target = own_log_posterior(fresh, forward) - own_log_posterior(fresh, st)
    if not forward.log_posterior > NEG_INF or (kind != LITERAL and not accept(ch.rng, log_target)):
        return False
    log_forward = _log_randomise(between, size, d)
    for place in range(fresh.first, len(between.also)):
        between.also[place] = forward.member[place]
    drop_fresh(fc, between.also)
    back = _given_model(fc, forward)
    if not _contains(between, st):
        between.tried[kind, ZERO_REVERSE] += 1
        return False
    copy_state(forward, backward)
    _search(fc, backward, small)
    log_ratio = _log_randomise(between, back, distance(st, backward)) - log_forward
    if not accept(ch.rng, log_ratio + (log_target if kind == LITERAL else 0.0)):
        return False
    forward.log_posterior, forward.entry = here(fc.data, forward, ch.work, ch.store)
    return _take(ch, forward)


@kernel
def _library_size(fresh, st):
    """How many members of the model are in the library."""
    m = 0
    for i in range(st.size):
        if st.order[i] < fresh.first:
            m += 1
    return m


@kernel
def coupled_move(fc):
    """The move with the same population on the way back; True where the model changed."""
    ch, fresh, between = fc.chain, fc.fresh, fc.between
    st, forward, backward = ch.state, ch.forward, ch.backward
    active, features = between.active, fc.population.feature
    for place in range(len(features)):
        inside = st.member[place] or (
            place < fresh.first and features[place] >= 0 and uniform(ch.rng) < between.include
        )
        active[place] = 1 if inside else 0
    draw_population(fc, active)
    size = 0
    for place in range(len(features)):
        size += active[place]
    copy_state(st, forward)
    _search(fc, forward, np.int64(0))
    d = _randomise(fc, forward, size)
    if not forward.log_posterior > NEG_INF:
        return False
    # The values hold the factors of fresh features; those of library features are all alike.
    log_factor = (_library_size(fresh, st) - _library_size(fresh, forward)) * np.log(between.include)
    if not accept(ch.rng, forward.log_posterior - st.log_posterior + log_factor):
        return False
    copy_state(forward, backward)
    _search(fc, backward, np.int64(0))
    log_ratio = _log_randomise(between, size, distance(st, backward)) - _log_randomise(between, size, d)
    if not accept(ch.rng, log_ratio):
        return False
    return _take(ch, forward)


@kernel
def edit_move(fc):
    """Exchange a member for an edit of it; True where the model changed."""
    ch, fresh = fc.chain, fc.fresh
    st = ch.state
    if st.size == 0:
        return False
    old = st.order[below(ch.rng, st.size)]
    f = fc.population.feature[old]
    g = draw_edit(fc.space, fc.table, f, ch.rng)
    if g < 0:
        return False
    new = give_place(fc, g)
    if new < 0 or st.member[new]:
        return False
    ch.flips[0] = old
    ch.flips[1] = new
    two = np.int64(2)
    value, entry_of = neighbour(fc.data, st, ch.work, ch.store, ch.flips, two)
    if value == NEG_INF:
        return False
    boosts = (fresh.boost[new] if new >= fresh.first else 0.0) - (fresh.boost[old] if old >= fresh.first else 0.0)
    log_target = value - st.log_posterior - boosts
    # The count of edits is the expensive part: first see whether the posterior would let the move pass.
    if not accept(ch.rng, log_target):
        return False
    back = edit_probability(fc.space, fc.table, g, f)
    if back == 0.0 or not accept(ch.rng, np.log(back / edit_probability(fc.space, fc.table, f, g))):
        return False
    note_leave(ch.record, st, ch.store)
    note_flip(ch.record, st, old)
    note_flip(ch.record, st, new)
    ch.flips[0] = old
    ch.flips[1] = new
    flip_all(fc.data, st, ch.work, ch.flips, two)
    st.log_posterior = value
    st.entry = entry_of
    return True


@entry
def index_models(hashes, slots):
    """Fill the index of a list of models."""
    for m in range(len(hashes)):
        at = first_slot(hashes[m], len(slots))
        while slots[at] != 0:
            at = (at + np.uint64(1)) & np.uint64(len(slots) - 1)
        slots[at] = m + 1


@kernel
def recall_move(fc):
    """Go to a model of the list; True where the model changed."""
    ch, recalled = fc.chain, fc.between.recalled
    st, forward = ch.state, ch.forward
    old = probe(recalled, st.hash, st.words)
    if old < 0:
        return False
    new = draw_alias(ch.rng, recalled.threshold, recalled.alias)
    if new == old:
        return False
    copy_state(st, forward)
    toggle_to(fc.data, forward, recalled.words, new)
    refresh(fc.data, forward, ch.work)
    forward.log_posterior, forward.entry = here(fc.data, forward, ch.work, ch.store)
    log_target = forward.log_posterior - st.log_posterior
    if not accept(ch.rng, log_target + recalled.log_weight[old] - recalled.log_weight[new]):
        return False
    return _take(ch, forward)


@kernel
def move_between(kind, fc):
    """One move between populations; True where the model changed."""
    tried = fc.between.tried
    tried[kind, PROPOSED] += 1
    if kind == COUPLED:
        moved = coupled_move(fc)
    elif kind == EDIT:
        moved = edit_move(fc)
    elif kind == RECALL:
        moved = recall_move(fc)
    else:
        moved = literal_move(kind, fc)
    tried[kind, MOVED] += moved
    return moved
