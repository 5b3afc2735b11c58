"""A move with the same population there and back.

Its features were each in it independently with probability rho_f, so the ratio gains the factor
``prod_{M \\ M'} rho_f / prod_{M' \\ M} rho_f``.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.random import uniform
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.jump import distance
from modejump.kernels.moves import accept
from modejump.kernels.populations.between import log_randomise, randomise, search_population, take_model
from modejump.kernels.populations.fresh_features import draw_population
from modejump.kernels.state import copy_state


@kernel
def _library_size(fresh, st):
    """How many members of the model are in the library."""
    m = 0
    for i in range(st.size):
        if st.order[i] < fresh.first:
            m += 1
    return m


@kernel
def coupled_move(fc, tried):
    """One move; True where the model changed."""
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
    search_population(fc, forward, np.int64(0))
    d = randomise(fc, forward, size)
    if not forward.log_posterior > NEG_INF:
        return False
    # The values hold the factors of fresh features; those of library features are all alike.
    log_factor = (_library_size(fresh, st) - _library_size(fresh, forward)) * np.log(between.include)
    if not accept(ch.rng, forward.log_posterior - st.log_posterior + log_factor):
        return False
    copy_state(forward, backward)
    search_population(fc, backward, np.int64(0))
    log_ratio = log_randomise(between, size, distance(st, backward)) - log_randomise(between, size, d)
    if not accept(ch.rng, log_ratio):
        return False
    return take_model(ch, forward)
