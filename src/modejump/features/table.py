"""The compiled half of features: a table in which every canonical feature is stored once.

A feature is an index into the table. Products are flattened and their factors sorted, projections hold a sorted set
of parents, and the same feature built twice gives the same index, so equality is equality of integers. The table
belongs to one chain; what chains exchange are keys, 64-bit hashes of the structure that no table order enters.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.handles import scalars_of

COVARIATE, MODIFICATION, PRODUCT, PROJECTION = range(4)
# No feature may have more factors or parents at one node than this.
MAX_CHILDREN = 64


class Arena(NamedTuple):
    """Features by index; children are slices of ``child``."""

    kind: np.ndarray  # uint8 (cap,)
    code: np.ndarray  # int64 (cap,): column of a covariate, code of a transform
    start: np.ndarray  # int64 (cap,)
    arity: np.ndarray  # int64 (cap,): number of children
    child: np.ndarray  # int64 (pool,)
    key: np.ndarray  # uint64 (cap,)
    depth: np.ndarray  # int64 (cap,)
    width: np.ndarray  # int64 (cap,)
    complexity: np.ndarray  # int64 (cap,)
    nodes: np.ndarray  # int64 (cap,): nodes of the expression tree
    log_spellings: np.ndarray  # float64 (cap,)
    alpha: np.ndarray  # float64 (pool,): coefficients of a projection's parents, beside ``child``
    alpha0: np.ndarray  # float64 (cap,): intercept of a projection, NaN until its alphas are fitted
    slots: np.ndarray  # int32 (slots,)
    scalars: np.ndarray  # count: features; children: of all of them; full: whether one found no room
    buffer: np.ndarray  # int64 (2 * MAX_CHILDREN,): children of a feature in the making
    path: np.ndarray  # int64 (64, 2): from the root to the node of an edit


def new_arena(capacity: int) -> Arena:
    """An empty table for ``capacity`` features."""
    slots = 1 << int(2 * capacity - 1).bit_length()
    pool = 4 * capacity
    return Arena(
        np.zeros(capacity, np.uint8),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(pool, np.int64),
        np.zeros(capacity, np.uint64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity),
        np.zeros(pool),
        np.zeros(capacity),
        np.zeros(slots, np.int32),
        scalars_of(count=0, children=0, full=0),
        np.zeros(2 * MAX_CHILDREN, np.int64),
        np.zeros((64, 2), np.int64),
    )


@kernel
def mix(x):
    """A bijective scrambling of 64 bits (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def _structural_key(ar, kind, code, m):
    """Hash of a feature from the keys of its children, whatever their order."""
    total = np.uint64(0)
    keys, buffer = ar.key, ar.buffer
    for i in range(m):
        total += mix(keys[buffer[i]] + np.uint64(0x632BE59BD9B4E019))
    head = np.uint64(kind + 1) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(code + 7) * np.uint64(0xD1342543DE82EF95)
    return mix(total ^ mix(head))


@kernel
def _sort_buffer(buffer, m, unique):
    """Sort the children; drop repetitions where they are a set. Returns how many are left."""
    for i in range(1, m):
        v = buffer[i]
        j = i - 1
        while j >= 0 and buffer[j] > v:
            buffer[j + 1] = buffer[j]
            j -= 1
        buffer[j + 1] = v
    if not unique or m == 0:
        return m
    left = 1
    for i in range(1, m):
        if buffer[i] != buffer[left - 1]:
            buffer[left] = buffer[i]
            left += 1
    return left


@kernel
def _same_children(ar, f, m):
    start, child, buffer = ar.start[f], ar.child, ar.buffer
    for i in range(m):
        if child[start + i] != buffer[i]:
            return False
    return True


@kernel
def _measure(ar, f, kind, m):
    """Depth, width, complexity, nodes and spellings of a new feature from its children."""
    buffer = ar.buffer
    depth, width, complexity, nodes, spell = 0, m, 0, 1, 0.0
    leaves = 0.0
    for i in range(m):
        c = buffer[i]
        depth = max(depth, ar.depth[c])
        width = max(width, ar.width[c])
        complexity += ar.complexity[c]
        nodes += ar.nodes[c]
        spell += ar.log_spellings[c]
        leaves += 2.0 ** ar.depth[c]
    if kind == COVARIATE:
        width, complexity = 1, 1
    elif kind == PRODUCT:
        # The shallowest binary spelling: a tree of depth D has room for leaves of weight 2^depth up to 2^D.
        depth = 0
        while 2.0**depth < leaves:
            depth += 1
        spell += _log_arrangements(buffer, m)
    else:
        depth += 1
        complexity += 1 + (m if kind == PROJECTION else 0)
    ar.depth[f], ar.width[f], ar.complexity[f], ar.nodes[f] = depth, width, complexity, nodes
    ar.log_spellings[f] = spell


@kernel
def _log_arrangements(buffer, m):
    """Log of multiset permutations times Catalan(m - 1) for sorted factors."""
    value = math.lgamma(m + 1.0)
    run = 1
    for i in range(1, m + 1):
        if i < m and buffer[i] == buffer[i - 1]:
            run += 1
        else:
            value -= math.lgamma(run + 1.0)
            run = 1
    return value + math.lgamma(2.0 * m - 1.0) - math.lgamma(m + 0.0) - math.lgamma(m + 1.0)


@kernel
def intern(ar, kind, code, m):
    """The feature with the m children in the buffer; -1 where the table is full (``full`` is set)."""
    buffer = ar.buffer
    m = _sort_buffer(buffer, m, kind == PROJECTION)
    key = _structural_key(ar, kind, code, m)
    index = ar.slots
    mask = np.uint64(len(index) - 1)
    at = key & mask
    while index[at] != 0:
        f = index[at] - 1
        if ar.key[f] == key and ar.kind[f] == kind and ar.code[f] == code and ar.arity[f] == m:
            if _same_children(ar, f, m):
                return np.int64(f)
        at = (at + np.uint64(1)) & mask
    f = ar.count
    first = ar.children
    if f == len(ar.kind) or first + m > len(ar.child):
        ar.full = 1
        return np.int64(-1)
    index[at] = f + 1
    ar.kind[f] = kind
    ar.code[f] = code
    ar.key[f] = key
    ar.start[f] = first
    ar.arity[f] = m
    for i in range(m):
        ar.child[first + i] = buffer[i]
    ar.alpha0[f] = np.nan
    _measure(ar, f, kind, m)
    ar.count = f + 1
    ar.children = first + m
    return np.int64(f)


@kernel
def truncate(ar, count, children):
    """Forget every feature from number ``count`` on, last come first gone, so that no search path is broken."""
    index, keys = ar.slots, ar.key
    mask = np.uint64(len(index) - 1)
    for f in range(ar.count - 1, count - 1, -1):
        at = keys[f] & mask
        while index[at] != f + 1:
            at = (at + np.uint64(1)) & mask
        index[at] = 0
    ar.count = count
    ar.children = children
    ar.full = 0


@kernel
def covariate(ar, column):
    """The feature of a column."""
    return intern(ar, np.int64(COVARIATE), column, np.int64(0))


@kernel
def modification(ar, code, f):
    """g(F)."""
    ar.buffer[0] = f
    return intern(ar, np.int64(MODIFICATION), code, np.int64(1))


@kernel
def push_factor(ar, f, m):
    """Append f, or its factors where it is a product, to the buffer; -1 where that is too many."""
    buffer = ar.buffer
    if ar.kind[f] != PRODUCT:
        if m >= MAX_CHILDREN:
            return np.int64(-1)
        buffer[m] = f
        return m + 1
    if m + ar.arity[f] > MAX_CHILDREN:
        return np.int64(-1)
    for i in range(ar.arity[f]):
        buffer[m + i] = ar.child[ar.start[f] + i]
    return m + ar.arity[f]


@kernel
def product(ar, a, b):
    """a * b, flattened; -1 where it has too many factors."""
    m = push_factor(ar, a, np.int64(0))
    if m >= 0:
        m = push_factor(ar, b, m)
    if m < 0:
        return np.int64(-1)
    return intern(ar, np.int64(PRODUCT), np.int64(0), m)
