"""What moves between populations share: settings, a search inside a population, a randomisation, the step itself.

Kernels here take the handle on a `FeatureChain`, see `modejump.kernels.populations.feature_chain`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.random import below, uniform
from modejump.kernels.chain import note_difference, note_leave
from modejump.kernels.jump import distance, flip_one, search
from modejump.kernels.moves import JUMP_ANNEAL, JUMP_GREEDY, JUMP_TEMPERED
from modejump.kernels.neighbour import here
from modejump.kernels.state import copy_state

# Columns of Between.tried: proposals, moves to another model, and ways back that did not contain the model.
PROPOSED, MOVED, ZERO_REVERSE = 0, 1, 2
# Searches inside a population, by name.
SEARCHES = {"greedy": JUMP_GREEDY, "annealing": JUMP_ANNEAL, "mcmc": JUMP_TEMPERED}
# A search that may drop only a few members of the model leaves at most so many of them free.
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

    cumulative: np.ndarray  # float64 (moves,): cumulative weights of the moves, the first of which does nothing
    active: np.ndarray  # uint8 (K,): 1 for places in the present population
    also: np.ndarray  # uint8 (K,): fresh features to keep besides the model's
    listed: np.ndarray  # int64 (K,): places in the population, the model's members first
    tried: np.ndarray  # int64 (moves, 3)
    generated: int  # features that a literal population tries to generate
    rho: float  # probability of a flip in the randomisation; 0: one over the size of the population
    search: int  # kind of search, one of SEARCHES
    include: float  # probability of each library feature to be in a coupled population
    recalled: Recalled


@kernel
def _flip_probability(between, size):
    return between.rho if between.rho > 0.0 else 1.0 / (size + 1.0)


@kernel
def log_randomise(between, size, d):
    """Log of q_r: d of the population's features flipped, the others not."""
    rho = _flip_probability(between, size)
    return d * np.log(rho) + (size - d) * np.log(1.0 - rho)


@kernel
def randomise(fc, st, size):
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
def search_population(fc, st, small):
    """Search inside the population; a small search lets only a few members of the model leave."""
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
def take_model(ch, source):
    """The chain moves to the model of another state; True where that is not its own."""
    if distance(ch.state, source) == 0:
        return False
    note_leave(ch.record, ch.state, ch.store)
    note_difference(ch.record, ch.state, source)
    copy_state(source, ch.state)
    return True
