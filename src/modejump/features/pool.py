"""Columns that compiled code keeps for later use, of features of any language.

A language's pool of columns is a named tuple with the fields ``scratch`` (rows that are being computed, the first of
which gets a feature's column), ``values`` (rows that are kept), ``owner`` (the feature of each, -1 where it is free),
``slot`` (for each feature its row + 1, 0 where it has none) and ``scalars`` with ``next``, the row to give away.
"""

from __future__ import annotations

from modejump.core.compilation import kernel


@kernel
def dot_rows(a, i, b, j):
    """Inner product of two rows. Eight partial sums: strict arithmetic would otherwise wait for each addition."""
    n = a.shape[1]
    s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = n - n % 8
    for r in range(0, whole, 8):
        s0 += a[i, r] * b[j, r]
        s1 += a[i, r + 1] * b[j, r + 1]
        s2 += a[i, r + 2] * b[j, r + 2]
        s3 += a[i, r + 3] * b[j, r + 3]
        s4 += a[i, r + 4] * b[j, r + 4]
        s5 += a[i, r + 5] * b[j, r + 5]
        s6 += a[i, r + 6] * b[j, r + 6]
        s7 += a[i, r + 7] * b[j, r + 7]
    for r in range(whole, n):
        s0 += a[i, r] * b[j, r]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


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
