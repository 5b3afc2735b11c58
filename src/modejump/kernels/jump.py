"""The mode jump: a large jump, a local search, a randomisation, and the same way back.

Steps as in the paper: draw an index set I whatever the model; chi_0* = M xor I; search with the terms of I held
fixed, giving chi_k*; randomise to M* (each term flips with probability rho). Backward: chi_0 = M* xor I with the same
I and the same kind of search, giving chi_k. Accept with
``pi(M*) q_r(M|chi_k) / (pi(M) q_r(M*|chi_k*))``, ``q_r(a|b) = rho^d (1-rho)^(K-d)``.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.random import below, draw_alias, uniform
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.moves import JUMP_ANNEAL, JUMP_GREEDY, accept
from modejump.kernels.neighbour import here, neighbour
from modejump.kernels.state import copy_state, flip_all

# Annealing ends at this temperature.
COLD = 0.2


@kernel
def draw_index_set(moves, rng, locked, index_set):
    """Draw I, of uniform size up to the largest, by the frozen weights of the terms; marks it in ``locked``."""
    k = len(locked)
    m = 1 + below(rng, min(moves.jump_max, k))
    i = 0
    while i < m:
        t = draw_alias(rng, moves.threshold, moves.alias)
        if not locked[t]:
            locked[t] = 1
            index_set[i] = t
            i += 1
    return m


@kernel
def _draw_free(st, moves, rng, locked):
    """A term for the search to try, -1 where it is held fixed: by weight, or one of the model's own."""
    if uniform(rng) < 0.5 or st.size == 0:
        t = draw_alias(rng, moves.threshold, moves.alias)
    else:
        t = st.order[below(rng, st.size)]
    return -1 if locked[t] else t


@kernel
def search(kind, data, st, work, store, moves, rng, locked, flips):
    """Improve the state's model: greedily, by annealing, or by short tempered steps."""
    one = np.int64(1)  # not a literal, for which Numba would compile everything below once more
    cooling = np.exp(np.log(COLD / moves.temperature) / max(1, moves.search - 1))
    temperature = moves.temperature
    for _ in range(moves.search):
        t = _draw_free(st, moves, rng, locked)
        if t >= 0:
            flips[0] = t
            value, entry = neighbour(data, st, work, store, flips, one)
            gain = value - st.log_posterior
            if kind == JUMP_GREEDY:
                take = gain > 0.0
            else:
                take = value > NEG_INF and accept(rng, gain / temperature)
            if take:
                flip_all(data, st, work, flips, one)
                st.log_posterior = value
                st.entry = entry
        if kind == JUMP_ANNEAL:
            temperature *= cooling
        if st.overflow:
            return


@kernel
def jump_and_search(kind, data, st, work, store, moves, rng, locked, index_set, m, flips):
    """From M to chi_k: flip the index set, then search with it held fixed."""
    one = np.int64(1)
    for i in range(m):
        flips[0] = index_set[i]
        flip_all(data, st, work, flips, one)
    st.log_posterior, st.entry = here(data, st, work, store)
    search(kind, data, st, work, store, moves, rng, locked, flips)


@kernel
def randomise(data, st, work, store, moves, rng, flips):
    """Flip each term with probability rho; returns how many flipped."""
    one = np.int64(1)
    d = 0
    k = len(st.member)
    log_stay = np.log1p(-moves.rho)
    t = np.int64(min(np.log(1.0 - uniform(rng)) / log_stay, 1e15))
    while t < k:
        flips[0] = t
        flip_all(data, st, work, flips, one)
        d += 1
        t += 1 + np.int64(min(np.log(1.0 - uniform(rng)) / log_stay, 1e15))
    if d > 0:
        st.log_posterior, st.entry = here(data, st, work, store)
    return d


@kernel
def distance(a, b):
    """Hamming distance of two models."""
    d = 0
    for t in range(len(a.member)):
        if a.member[t] != b.member[t]:
            d += 1
    return d


@kernel
def mode_jump(kind, data, st, forward, backward, work, store, moves, rng, locked, index_set, flips):
    """One mode jump; True where ``forward`` holds the accepted model."""
    m = draw_index_set(moves, rng, locked, index_set)
    copy_state(st, forward)
    jump_and_search(kind, data, forward, work, store, moves, rng, locked, index_set, m, flips)
    d_forward = randomise(data, forward, work, store, moves, rng, flips)
    log_target = forward.log_posterior - st.log_posterior
    accepted = forward.log_posterior > NEG_INF and not forward.overflow
    if accepted and moves.delayed:
        accepted = accept(rng, log_target)
    if accepted:
        copy_state(forward, backward)
        jump_and_search(kind, data, backward, work, store, moves, rng, locked, index_set, m, flips)
        log_back = (distance(st, backward) - d_forward) * np.log(moves.rho / (1.0 - moves.rho))
        accepted = accept(rng, log_back if moves.delayed else log_target + log_back)
    for i in range(m):
        locked[index_set[i]] = 0
    return accepted
