"""A move that exchanges one member of the model for an edit of it.

Its ratio has the probabilities of all edits that lead there and back.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.random import below
from modejump.features.distribution import draw_edit, edit_probability
from modejump.kernels.chain import note_flip, note_leave
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.moves import accept
from modejump.kernels.neighbour import neighbour
from modejump.kernels.populations.fresh_features import give_place
from modejump.kernels.state import flip_all


@kernel
def edit_move(fc, tried):
    """One move; True where the model changed."""
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
