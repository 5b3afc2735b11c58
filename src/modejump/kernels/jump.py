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
def _draw_index_set(ch, moves):
    """Draw I, of uniform size up to the largest, by the frozen weights of the terms; marks it as held fixed."""
    m = 1 + below(ch.rng, min(moves.jump_max, len(ch.locked)))
    i = 0
    while i < m:
        t = draw_alias(ch.rng, moves.threshold, moves.alias)
        if not ch.locked[t]:
            ch.locked[t] = 1
            ch.index_set[i] = t
            i += 1
    return m


@kernel
def _draw_free(st, ch, moves):
    """A term for the search to try, -1 where it is held fixed: by weight, or one of the model's own."""
    if uniform(ch.rng) < 0.5 or st.size == 0:
        t = draw_alias(ch.rng, moves.threshold, moves.alias)
    else:
        t = st.order[below(ch.rng, st.size)]
    return -1 if ch.locked[t] else t


@kernel
def flip_one(data, st, ch, t):
    """Flip a term, whatever the value of the model."""
    ch.flips[0] = t
    flip_all(data, st, ch.work, ch.flips, np.int64(1))


@kernel
def search(kind, data, st, ch, moves):
    """Improve the state's model by terms that are not held fixed: greedily, by annealing, or by tempered steps."""
    one = np.int64(1)  # not a literal, for which Numba would compile everything below once more
    cooling = np.exp(np.log(COLD / moves.temperature) / max(1, moves.search - 1))
    temperature = moves.temperature
    for _ in range(moves.search):
        t = _draw_free(st, ch, moves)
        if t >= 0:
            ch.flips[0] = t
            value, entry = neighbour(data, st, ch.work, ch.store, ch.flips, one)
            gain = value - st.log_posterior
            if kind == JUMP_GREEDY:
                take = gain > 0.0
            else:
                take = value > NEG_INF and accept(ch.rng, gain / temperature)
            if take:
                flip_one(data, st, ch, t)
                st.log_posterior = value
                st.entry = entry
        if kind == JUMP_ANNEAL:
            temperature *= cooling
        if st.overflow:
            return


@kernel
def _jump_and_search(kind, data, st, ch, moves, m):
    """From M to chi_k: flip the index set, then search with it held fixed."""
    for i in range(m):
        flip_one(data, st, ch, ch.index_set[i])
    st.log_posterior, st.entry = here(data, st, ch.work, ch.store)
    search(kind, data, st, ch, moves)


@kernel
def _randomise(data, st, ch, moves):
    """Flip each term with probability rho; returns how many flipped."""
    d = 0
    log_stay = np.log1p(-moves.rho)
    t = np.int64(min(np.log(1.0 - uniform(ch.rng)) / log_stay, 1e15))
    while t < len(st.member):
        flip_one(data, st, ch, t)
        d += 1
        t += 1 + np.int64(min(np.log(1.0 - uniform(ch.rng)) / log_stay, 1e15))
    if d > 0:
        st.log_posterior, st.entry = here(data, st, ch.work, ch.store)
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
def mode_jump(kind, data, ch, moves):
    """One mode jump; True where ``ch.forward`` holds the accepted model."""
    st, forward, backward = ch.state, ch.forward, ch.backward
    m = _draw_index_set(ch, moves)
    copy_state(st, forward)
    _jump_and_search(kind, data, forward, ch, moves, m)
    d_forward = _randomise(data, forward, ch, moves)
    log_target = forward.log_posterior - st.log_posterior
    accepted = forward.log_posterior > NEG_INF and not forward.overflow
    if accepted and moves.delayed:
        accepted = accept(ch.rng, log_target)
    if accepted:
        copy_state(forward, backward)
        _jump_and_search(kind, data, backward, ch, moves, m)
        log_back = (distance(st, backward) - d_forward) * np.log(moves.rho / (1.0 - moves.rho))
        accepted = accept(ch.rng, log_back if moves.delayed else log_target + log_back)
    for i in range(m):
        ch.locked[ch.index_set[i]] = 0
    return accepted
