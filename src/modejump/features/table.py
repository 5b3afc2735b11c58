"""The table of features that a chain knows: every canonical feature once, compiled.

A feature is a number. Its children are features of the table, in the order that its language makes canonical, and the
same feature built twice has the same number, so equality is equality of integers. The table belongs to one chain; what
chains exchange are keys, 64-bit hashes of the structure that no order of entries has a part in, and texts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import entry, kernel
from modejump.core.handles import scalars_of
from modejump.features.language import assemble, is_feature, measure

# A covariate is a feature without children in every language; its code is its column.
COVARIATE = 0
# No feature may have more children than this.
MAX_CHILDREN = 64


class FeatureTable(NamedTuple):
    """Features by number; children are slices of ``child``."""

    kind: np.ndarray  # uint8 (cap,): what the feature is, by its language's codes
    code: np.ndarray  # int64 (cap,): column of a covariate, function of others
    start: np.ndarray  # int64 (cap,)
    arity: np.ndarray  # int64 (cap,): number of children
    child: np.ndarray  # int64 (pool,)
    key: np.ndarray  # uint64 (cap,)
    depth: np.ndarray  # int64 (cap,)
    width: np.ndarray  # int64 (cap,)
    complexity: np.ndarray  # int64 (cap,)
    nodes: np.ndarray  # int64 (cap,): places at which the feature can be edited
    log_spellings: np.ndarray  # float64 (cap,)
    constants: np.ndarray  # int64 (cap,): fitted constants that the prior counts
    unit: np.ndarray  # int64 (cap,): physical unit, packed; 0 in languages without units
    constant: np.ndarray  # float64 (cap,): a constant inside the feature, NaN until it is known
    slope: np.ndarray  # float64 (pool,): constants beside ``child``
    slots: np.ndarray  # int32 (slots,)
    scalars: np.ndarray  # count: features; children: of all of them; full: whether one found no room
    buffer: np.ndarray  # int64 (2 * MAX_CHILDREN,): children of a feature in the making
    path: np.ndarray  # int64 (64, 2): from the root to the node of an edit
    parents: np.ndarray  # int64 (MAX_CHILDREN,): what an operator makes a feature of


def new_table(capacity: int) -> FeatureTable:
    """An empty table for ``capacity`` features."""
    pool = 4 * capacity
    whole = {
        name: np.zeros(capacity, np.int64)
        for name in ("code", "start", "arity", "depth", "width", "nodes", "constants", "unit")
    }
    return FeatureTable(
        kind=np.zeros(capacity, np.uint8),
        **whole,
        child=np.zeros(pool, np.int64),
        key=np.zeros(capacity, np.uint64),
        complexity=np.zeros(capacity, np.int64),
        log_spellings=np.zeros(capacity),
        constant=np.zeros(capacity),
        slope=np.zeros(pool),
        slots=np.zeros(1 << int(2 * capacity - 1).bit_length(), np.int32),
        scalars=scalars_of(count=0, children=0, full=0),
        buffer=np.zeros(2 * MAX_CHILDREN, np.int64),
        path=np.zeros((64, 2), np.int64),
        parents=np.zeros(MAX_CHILDREN, np.int64),
    )


@kernel
def mix(x):
    """A bijective scrambling of 64 bits (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def _structural_key(table, kind, code, m):
    """Hash of a feature from the keys of its children, whatever their order."""
    total = np.uint64(0)
    keys, buffer = table.key, table.buffer
    for i in range(m):
        total += mix(keys[buffer[i]] + np.uint64(0x632BE59BD9B4E019))
    head = np.uint64(kind + 1) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(code + 7) * np.uint64(0xD1342543DE82EF95)
    return mix(total ^ mix(head))


@kernel
def sort_children(table, m, unique):
    """Sort the children in the buffer; drop repetitions where they are a set. Returns how many are left."""
    buffer = table.buffer
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
def _same_children(table, f, m):
    start, child, buffer = table.start[f], table.child, table.buffer
    for i in range(m):
        if child[start + i] != buffer[i]:
            return False
    return True


@kernel
def intern(space, table, kind, code, m):
    """The feature with the m children in the buffer, which are in canonical order; -1 where the table is full."""
    key = _structural_key(table, kind, code, m)
    index = table.slots
    mask = np.uint64(len(index) - 1)
    at = key & mask
    while index[at] != 0:
        f = index[at] - 1
        if table.key[f] == key and table.kind[f] == kind and table.code[f] == code and table.arity[f] == m:
            if _same_children(table, f, m):
                return np.int64(f)
        at = (at + np.uint64(1)) & mask
    f, first = table.count, table.children
    if f == len(table.kind) or first + m > len(table.child):
        table.full = 1
        return np.int64(-1)
    index[at] = f + 1
    table.kind[f] = kind
    table.code[f] = code
    table.key[f] = key
    table.start[f] = first
    table.arity[f] = m
    for i in range(m):
        table.child[first + i] = table.buffer[i]
    table.constant[f] = np.nan
    measure(space, table, f)
    table.count = f + 1
    table.children = first + m
    return np.int64(f)


@kernel
def covariate(space, table, column):
    """The feature of a column."""
    return intern(space, table, np.int64(COVARIATE), column, np.int64(0))


@kernel
def find_node(table, f, target):
    """Walk to the node of this number, in preorder; returns (node, length of the path)."""
    path, length, node, left = table.path, np.int64(0), f, target
    while left > 0:
        left -= 1
        first = table.start[node]
        i = np.int64(0)
        while left >= table.nodes[table.child[first + i]]:
            left -= table.nodes[table.child[first + i]]
            i += 1
        path[length, 0] = node
        path[length, 1] = i
        length += 1
        node = table.child[first + i]
    return node, length


@kernel
def truncate(table, count, children):
    """Forget every feature from number ``count`` on, last come first gone, so that no search path is broken."""
    index, keys = table.slots, table.key
    mask = np.uint64(len(index) - 1)
    for f in range(table.count - 1, count - 1, -1):
        at = keys[f] & mask
        while index[at] != f + 1:
            at = (at + np.uint64(1)) & mask
        index[at] = 0
    table.count = count
    table.children = children
    table.full = 0


@kernel
def within_limits(space, table, f):
    """Whether a feature lies in the declared space."""
    return (
        table.depth[f] <= space.max_depth
        and table.width[f] <= space.max_width
        and table.complexity[f] <= space.max_complexity
        and is_feature(space, table, f)
    )


@entry
def enter_nodes(space, table, kind, code, arity, child, numbers):
    """Enter features, each after its children, which are given by their places in the list.

    ``numbers`` gets their numbers in the table; those that stand for features which are there already are given with
    kind -1 and keep the number that they have.
    """
    first = 0
    for i in range(len(kind)):
        m = arity[i]
        if kind[i] >= 0:
            for j in range(m):
                table.buffer[j] = numbers[child[first + j]]
            numbers[i] = assemble(space, table, np.int64(kind[i]), code[i], m)
        first += arity[i]


@entry
def forget_from(table, count, children):
    """Forget every feature from a number on, and the children they have."""
    truncate(table, count, children)
