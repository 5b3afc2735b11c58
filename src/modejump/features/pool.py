"""Columns that compiled code keeps for later use, of features of any language.

A language's pool of columns is a named tuple with the fields ``scratch`` (rows that are being computed, the first of
which gets a feature's column), ``values`` (rows that are kept), ``owner`` (the feature of each, -1 where it is free),
``slot`` (for each feature its row + 1, 0 where it has none) and ``scalars`` with ``next``, the row to give away.
"""

from __future__ import annotations

from modejump.core.compilation import kernel


@kernel
def remember(pool, f):
    """Keep the column in the first scratch row for later use; the oldest one makes way."""
    if pool.slot[f] > 0:
        return
    s = pool.next
    pool.next = (s + 1) % len(pool.owner)
    if pool.owner[s] >= 0:
        pool.slot[pool.owner[s]] = 0
    pool.owner[s] = f
    pool.slot[f] = s + 1
    for r in range(pool.values.shape[1]):
        pool.values[s, r] = pool.scratch[0, r]
