"""The genetic operators and tree edits of nonlinear features, compiled.

Mutation brings a covariate in, crossover multiplies two features, modification applies a function, projection applies
one to a combination. The edits change one node anywhere in the tree. They come in pairs that undo each other: insert
and delete a covariate as a factor, wrap and strip a function, swap a leaf or a function for another. What a deletion
takes away is undone in one step only where it was a covariate.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from modejump.core.compilation import implements, kernel
from modejump.core.random import below, uniform
from modejump.features.language import assemble, edit_choices, edited, make_feature, measure
from modejump.features.table import COVARIATE, MAX_CHILDREN, covariate, find_node, intern, sort_children, within_limits

# Kinds of features besides covariates.
MODIFICATION, PRODUCT, PROJECTION = 1, 2, 3
OPERATORS = (
    "mutation", "crossover", "modification", "projection",
    "insert", "delete", "swap_leaf", "swap_function", "strip", "wrap",
)  # fmt: skip
MUTATION, CROSSOVER, MODIFY, PROJECT, INSERT, DELETE, SWAP_LEAF, SWAP_FUNCTION, STRIP, WRAP = range(10)
# The least and the largest change of complexity that an operator can make; only those of edits are asked for.
# Parents of a projection that fall together may change it otherwise: such an edit is void.
EDIT_GAIN = np.array([[0, 0]] * 4 + [[1, 1], [-1000, -1], [0, 0], [0, 0], [-1000, -1], [1, 1]])
# One more parent in a projection that crosses features of a population.
MORE_PARENTS = 0.6


class NonlinearSpace(NamedTuple):
    """The declared space of nonlinear features as compiled code reads it."""

    transforms: int  # how many functions there are
    cumulative: np.ndarray  # float64 (10,): cumulative weights of the operators
    edit_weight: np.ndarray  # float64 (10,): weights of the edits among themselves
    edit_gain: np.ndarray  # int64 (10, 2)
    max_depth: int
    max_width: int
    max_complexity: int
    n_columns: int
    kinds: np.ndarray  # float64 (4,): probability of each kind of feature in the grammar
    more: float  # probability of one more factor, or one more parent, in the grammar
    alphas: Any  # how coefficients inside projections are found, see `modejump.features.nonlinear.projections`


@implements(measure, NonlinearSpace)
def _measure(space, table, f):
    buffer, m, kind = table.buffer, table.arity[f], table.kind[f]
    depth, width, complexity, nodes, spell = 0, m, 0, 1, 0.0
    leaves = 0.0
    for i in range(m):
        c = buffer[i]
        depth = max(depth, table.depth[c])
        width = max(width, table.width[c])
        complexity += table.complexity[c]
        nodes += table.nodes[c]
        spell += table.log_spellings[c]
        leaves += 2.0 ** table.depth[c]
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
    table.depth[f], table.width[f], table.complexity[f], table.nodes[f] = depth, width, complexity, nodes
    table.log_spellings[f] = spell


@kernel
def log_repetitions(children, first, m):
    """Log of the product of the factorials of multiplicities, for m sorted children from ``first`` on."""
    value, run = 0.0, 1
    for i in range(1, m + 1):
        if i < m and children[first + i] == children[first + i - 1]:
            run += 1
        else:
            value += math.lgamma(run + 1.0)
            run = 1
    return value


@kernel
def _log_arrangements(buffer, m):
    """Log of multiset permutations times Catalan(m - 1) for sorted factors."""
    orders = math.lgamma(m + 1.0) - log_repetitions(buffer, np.int64(0), m)
    return orders + math.lgamma(2.0 * m - 1.0) - math.lgamma(m + 0.0) - math.lgamma(m + 1.0)


@implements(assemble, NonlinearSpace)
def _assemble(space, table, kind, code, m):
    return intern(space, table, kind, code, sort_children(table, m, kind == PROJECTION))


@kernel
def modification(space, table, code, f):
    """g(F)."""
    table.buffer[0] = f
    return intern(space, table, np.int64(MODIFICATION), code, np.int64(1))


@kernel
def _push_factor(table, f, m):
    """Append f, or its factors where it is a product, to the buffer; -1 where that is too many."""
    count = table.arity[f] if table.kind[f] == PRODUCT else 1
    if m < 0 or m + count > MAX_CHILDREN:
        return np.int64(-1)
    if table.kind[f] != PRODUCT:
        table.buffer[m] = f
        return m + 1
    for i in range(count):
        table.buffer[m + i] = table.child[table.start[f] + i]
    return m + count


@kernel
def product(space, table, a, b):
    """a * b, flattened; -1 where it has too many factors."""
    m = _push_factor(table, b, _push_factor(table, a, np.int64(0)))
    return assemble(space, table, np.int64(PRODUCT), np.int64(0), m) if m >= 0 else np.int64(-1)


@kernel
def projection(space, table, code, m):
    """g(a0 + a1 F1 + ...) of the m features in ``table.parents``; its alphas are found when its column is made."""
    if m > MAX_CHILDREN:
        return np.int64(-1)
    for i in range(m):
        table.buffer[i] = table.parents[i]
    return assemble(space, table, np.int64(PROJECTION), code, m)


@implements(make_feature, NonlinearSpace)
def _make_feature(space, table, operator, count, rng):
    parents = table.parents
    if operator == MUTATION or count == 0:
        return covariate(space, table, below(rng, space.n_columns))
    f = parents[0]
    if operator == CROSSOVER:
        return product(space, table, f, parents[1])
    if operator == MODIFY or operator == PROJECT:
        if space.transforms == 0:
            return np.int64(-1)
        code = below(rng, space.transforms)
        if operator == MODIFY:
            return modification(space, table, code, f)
        m = np.int64(1)
        while m < min(count, space.max_width) and uniform(rng) < MORE_PARENTS:
            m += 1
        return projection(space, table, code, m)
    node = below(rng, table.nodes[f])
    choices = edit_choices(space, table, f, node, operator)
    return edited(space, table, f, node, operator, below(rng, choices)) if choices > 0 else np.int64(-1)


@kernel
def _replace_up(space, table, new, length):
    """Put a new node at the end of the path and rebuild every feature above it; -1 where that fails."""
    for level in range(length - 1, -1, -1):
        if new < 0:
            return np.int64(-1)
        above, position = table.path[level, 0], table.path[level, 1]
        kind, first = table.kind[above], table.start[above]
        m = np.int64(0)
        for i in range(table.arity[above]):
            c = new if i == position else table.child[first + i]
            if kind == PRODUCT:
                m = _push_factor(table, c, m)
            else:
                table.buffer[m] = c
                m += 1
        if m < 0:
            return np.int64(-1)
        new = assemble(space, table, np.int64(kind), table.code[above], m)
    return new


@kernel
def _without_factor(space, table, f, skip):
    """A product without one of its factors."""
    if table.arity[f] == 2:
        return table.child[table.start[f] + 1 - skip]
    m = np.int64(0)
    for i in range(table.arity[f]):
        if i != skip:
            table.buffer[m] = table.child[table.start[f] + i]
            m += 1
    return intern(space, table, np.int64(PRODUCT), np.int64(0), m)


@implements(edit_choices, NonlinearSpace)
def _edit_choices(space, table, f, number, operator):
    node, _ = find_node(table, f, number)
    kind = table.kind[node]
    if operator == INSERT or (operator == SWAP_LEAF and kind == COVARIATE):
        return np.int64(space.n_columns)
    if operator == DELETE and kind == PRODUCT:
        return table.arity[node]
    if operator == STRIP and kind == MODIFICATION:
        return np.int64(1)
    if operator == WRAP or (operator == SWAP_FUNCTION and kind != COVARIATE and kind != PRODUCT):
        return np.int64(space.transforms)
    return np.int64(0)


@kernel
def _edit_node(space, table, operator, node, choice):
    """The node after an edit that applies to it."""
    if operator == INSERT:
        return product(space, table, node, covariate(space, table, choice))
    if operator == DELETE:
        return _without_factor(space, table, node, choice)
    if operator == SWAP_LEAF:
        return covariate(space, table, choice)
    if operator == STRIP:
        return table.child[table.start[node]]
    if operator == WRAP:
        return modification(space, table, choice, node)
    for i in range(table.arity[node]):
        table.buffer[i] = table.child[table.start[node] + i]
    return intern(space, table, np.int64(table.kind[node]), choice, table.arity[node])


@implements(edited, NonlinearSpace)
def _edited(space, table, f, number, operator, choice):
    node, length = find_node(table, f, number)
    new = _edit_node(space, table, operator, node, choice)
    if new < 0 or new == node:
        return np.int64(-1)
    made = _replace_up(space, table, new, length)
    if made < 0 or made == f or not within_limits(space, table, made):
        return np.int64(-1)
    gain = table.complexity[made] - table.complexity[f]
    low, high = space.edit_gain[operator, 0], space.edit_gain[operator, 1]
    return made if low <= gain <= high else np.int64(-1)
