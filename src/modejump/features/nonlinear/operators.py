"""The genetic operators and tree edits, compiled.

Mutation brings a covariate in, crossover multiplies two features, modification applies a function, projection
applies one to a combination; the edits change one node anywhere in the tree. They come in pairs that undo each other:
insert and delete a covariate as a factor, wrap and strip a function, swap a leaf or a function for another. What a
deletion takes away is undone in one step only where it was a covariate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import kernel
from modejump.features.table import (
    COVARIATE,
    MAX_CHILDREN,
    MODIFICATION,
    PRODUCT,
    PROJECTION,
    covariate,
    intern,
    modification,
    product,
    push_factor,
)

MUTATION, CROSSOVER, MODIFY, PROJECT, INSERT, DELETE, SWAP_LEAF, SWAP_FUNCTION, STRIP, WRAP = range(10)
OPERATORS = (
    "mutation",
    "crossover",
    "modification",
    "projection",
    "insert",
    "delete",
    "swap_leaf",
    "swap_function",
    "strip",
    "wrap",
)


class SpaceArrays(NamedTuple):
    """The declared feature space as compiled code reads it."""

    transforms: np.ndarray  # int64: codes of G
    cumulative: np.ndarray  # float64 (10,): cumulative weights of the operators
    edit_weight: np.ndarray  # float64 (10,): weights of the edits among themselves
    max_depth: int
    max_width: int
    max_complexity: int
    n_columns: int


@kernel
def within_limits(ar, space, f):
    """Whether a feature lies in the declared space."""
    return (
        ar.depth[f] <= space.max_depth and ar.width[f] <= space.max_width and ar.complexity[f] <= space.max_complexity
    )


@kernel
def find_node(ar, f, target):
    """Walk to the node of this number, in preorder; returns (node, length of the path)."""
    path = ar.path
    length = np.int64(0)
    node = f
    left = target
    while left > 0:
        left -= 1
        first = ar.start[node]
        i = np.int64(0)
        while left >= ar.nodes[ar.child[first + i]]:
            left -= ar.nodes[ar.child[first + i]]
            i += 1
        path[length, 0] = node
        path[length, 1] = i
        length += 1
        node = ar.child[first + i]
    return node, length


@kernel
def replace_up(ar, new, length):
    """Put a new node at the end of the path and rebuild every feature above it; -1 where that fails."""
    path, buffer = ar.path, ar.buffer
    for level in range(length - 1, -1, -1):
        if new < 0:
            return np.int64(-1)
        above, position = path[level, 0], path[level, 1]
        kind, first = ar.kind[above], ar.start[above]
        m = np.int64(0)
        for i in range(ar.arity[above]):
            c = new if i == position else ar.child[first + i]
            if kind == PRODUCT:
                m = push_factor(ar, c, m)
                if m < 0:
                    return np.int64(-1)
            else:
                buffer[m] = c
                m += 1
        new = intern(ar, np.int64(kind), ar.code[above], m)
    return new


@kernel
def without_factor(ar, f, skip):
    """A product without one of its factors."""
    if ar.arity[f] == 2:
        return ar.child[ar.start[f] + 1 - skip]
    m = np.int64(0)
    for i in range(ar.arity[f]):
        if i != skip:
            ar.buffer[m] = ar.child[ar.start[f] + i]
            m += 1
    return intern(ar, np.int64(PRODUCT), np.int64(0), m)


@kernel
def edit_node(ar, space, operator, node, pick, choice):
    """The node after an edit, -1 where it does not apply; ``pick`` in [0, 1) and ``choice`` in [0, 1) decide."""
    kind = ar.kind[node]
    transforms = space.transforms
    if operator == INSERT:
        return product(ar, node, covariate(ar, np.int64(pick * space.n_columns)))
    if operator == DELETE and kind == PRODUCT:
        return without_factor(ar, node, np.int64(pick * ar.arity[node]))
    if operator == SWAP_LEAF and kind == COVARIATE:
        return covariate(ar, np.int64(pick * space.n_columns))
    if operator == STRIP and kind == MODIFICATION:
        return ar.child[ar.start[node]]
    if len(transforms) == 0:
        return np.int64(-1)
    code = transforms[np.int64(choice * len(transforms))]
    if operator == SWAP_FUNCTION and (kind == MODIFICATION or kind == PROJECTION):
        for i in range(ar.arity[node]):
            ar.buffer[i] = ar.child[ar.start[node] + i]
        return intern(ar, np.int64(kind), code, ar.arity[node])
    if operator == WRAP:
        return modification(ar, code, node)
    return np.int64(-1)


@kernel
def edit(ar, space, operator, f, where, pick, choice):
    """One edit at a random node of f; -1 where it does not apply there."""
    node, length = find_node(ar, f, np.int64(where * ar.nodes[f]))
    new = edit_node(ar, space, operator, node, pick, choice)
    if new < 0 or new == node:
        return np.int64(-1)
    return replace_up(ar, new, length)


@kernel
def projection(ar, code, parents, m):
    """g(a0 + a1 F1 + ...) of the first m of ``parents``; its alphas are fitted when its column is first made."""
    if m > MAX_CHILDREN:
        return np.int64(-1)
    for i in range(m):
        ar.buffer[i] = parents[i]
    return intern(ar, np.int64(PROJECTION), code, m)
