"""A move to a model drawn from a frozen list of good ones, with the ratio of an independence sampler.

From a model outside the list there is no such move.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import entry, kernel
from modejump.core.random import draw_alias
from modejump.kernels.moves import accept
from modejump.kernels.neighbour import here
from modejump.kernels.populations.between import take_model
from modejump.kernels.state import copy_state, refresh, toggle_to
from modejump.kernels.store import first_slot, probe


@entry
def index_models(hashes, slots):
    """Fill the index of a list of models."""
    for m in range(len(hashes)):
        at = first_slot(hashes[m], len(slots))
        while slots[at] != 0:
            at = (at + np.uint64(1)) & np.uint64(len(slots) - 1)
        slots[at] = m + 1


@kernel
def recall_move(fc, tried):
    """One move; True where the model changed."""
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
    return take_model(ch, forward)
