"""Genetic operators and edits of logic features, compiled.

A feature is a boolean function of the covariates that matter to it: a truth table over its leaves in the order of their
columns. Mutation brings a covariate in, crossover joins two features by "and" or "or". The edits come in pairs that
undo each other: grow by one more leaf and drop a leaf, where the feature becomes what it is for one value of that leaf;
swap a leaf for another covariate; reshape, which drops a leaf and brings it back in another way, a negation among them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import implements, kernel
from modejump.core.random import below, draw_alias
from modejump.features.language import assemble, edit_choices, edited, make_feature, measure
from modejump.features.logic.functions import MOST_LEAVES
from modejump.features.table import COVARIATE, covariate, intern

# Kind of a feature with two leaves or more; its code is its truth table.
LOGIC = 1
OPERATORS = ("mutation", "crossover", "grow", "drop", "swap", "reshape")
MUTATION, CROSSOVER, GROW, DROP, SWAP, RESHAPE = range(6)
# The least and the largest change of complexity that an edit can make.
EDIT_GAIN = np.array([[0, 0], [0, 0], [1, 4], [-4, -1], [0, 0], [-4, 4]])


class LogicRules(NamedTuple):
    """The space of logic features as compiled code reads it."""

    cumulative: np.ndarray  # float64 (6,): cumulative weights of the operators
    edit_weight: np.ndarray  # float64 (6,)
    edit_gain: np.ndarray  # int64 (6, 2)
    max_depth: int
    max_width: int
    max_complexity: int
    n_columns: int
    # The functions there are, see `modejump.features.logic.functions`.
    first: np.ndarray  # int64 (C + 2,)
    truth: np.ndarray  # int64 (functions,)
    leaves: np.ndarray  # int64 (functions,)
    extension_first: np.ndarray  # int64 (functions + 1,)
    extension: np.ndarray  # int64
    candidates: np.ndarray  # int64: columns that edits bring in
    # A feature at random: how many leaves, which function of them, which columns.
    width_cumulative: np.ndarray  # float64 (C,): cumulative probabilities of 1, 2, ... leaves
    log_width: np.ndarray  # float64 (C + 1,)
    function_cumulative: np.ndarray  # float64 (functions,): cumulative among those of equally many leaves
    log_function: np.ndarray  # float64 (functions,)
    threshold: np.ndarray  # float64 (columns,), with alias: columns by their weights
    alias: np.ndarray
    log_column: np.ndarray  # float64 (columns,)


@kernel
def find_function(space, k, truth):
    """Number of a function of k variables, -1 where it is not in the space."""
    if k + 1 >= len(space.first):
        return np.int64(-1)
    low, high = space.first[k], space.first[k + 1]
    while low < high:
        middle = (low + high) >> 1
        if space.truth[middle] < truth:
            low = middle + 1
        else:
            high = middle
    return low if low < space.first[k + 1] and space.truth[low] == truth else np.int64(-1)


@kernel
def full_table(k):
    """The truth table of the constant true."""
    return (np.int64(1) << (np.int64(1) << k)) - np.int64(1)


@kernel
def cofactor(truth, k, i, value):
    """The function of the other k - 1 variables where variable i has this value."""
    made = np.int64(0)
    for r in range(np.int64(1) << (k - 1)):
        low = r & ((np.int64(1) << i) - 1)
        at = low | (value << i) | ((r >> i) << (i + 1))
        made |= ((truth >> at) & 1) << r
    return made


@kernel
def normal(truth, k):
    """The truth table that stands for a function and its complement."""
    return truth ^ full_table(k) if truth & 1 else truth


@kernel
def swap_neighbours(truth, k, i):
    """The same function with variables i and i + 1 called each other's name."""
    made = np.int64(0)
    for r in range(np.int64(1) << k):
        a, b = (r >> i) & 1, (r >> (i + 1)) & 1
        at = r ^ ((a ^ b) << i) ^ ((a ^ b) << (i + 1))
        made |= ((truth >> at) & 1) << r
    return made


@kernel
def of_leaves(space, table, truth, k):
    """The feature of a normal truth table over k distinct leaves in the buffer, all of which matter.

    -1 where the function is not in the space, or the table is full.
    """
    buffer, code = table.buffer, table.code
    if k == 1:
        return buffer[0]
    for end in range(k - 1, 0, -1):
        for i in range(end):
            if code[buffer[i]] > code[buffer[i + 1]]:
                buffer[i], buffer[i + 1] = buffer[i + 1], buffer[i]
                truth = swap_neighbours(truth, k, i)
    if find_function(space, k, truth) < 0:
        return np.int64(-1)
    return intern(space, table, np.int64(LOGIC), truth, k)


@kernel
def leaf_of(table, f, i):
    """Leaf i of a feature."""
    return table.child[table.start[f] + i] if table.kind[f] == LOGIC else f


@kernel
def width_of(table, f):
    """How many leaves matter to a feature."""
    return table.arity[f] if table.kind[f] == LOGIC else np.int64(1)


@kernel
def truth_of(table, f):
    """Truth table of a feature over its leaves."""
    return table.code[f] if table.kind[f] == LOGIC else np.int64(2)


@implements(measure, LogicRules)
def _measure(space, table, f):
    k = width_of(table, f)
    number = find_function(space, k, truth_of(table, f))
    table.depth[f], table.width[f], table.complexity[f], table.nodes[f] = k - 1, k, space.leaves[number], 2 * k
    table.log_spellings[f] = 0.0


@implements(assemble, LogicRules)
def _assemble(space, table, kind, code, m):
    if kind == COVARIATE:
        return intern(space, table, kind, code, m)
    return of_leaves(space, table, code, m)


@kernel
def _gather(table, f, m):
    """Put the leaves of f that are not there yet behind the m in the buffer."""
    for i in range(width_of(table, f)):
        leaf, there = leaf_of(table, f, i), False
        for j in range(m):
            there = there or table.buffer[j] == leaf
        if not there:
            if m == MOST_LEAVES:
                return np.int64(-1)
            table.buffer[m] = leaf
            m += 1
    return m


@kernel
def _spread(table, f, m):
    """Truth table of f over the m leaves in the buffer."""
    made = np.int64(0)
    truth, k = truth_of(table, f), width_of(table, f)
    for r in range(np.int64(1) << m):
        at = np.int64(0)
        for i in range(k):
            leaf = leaf_of(table, f, i)
            for j in range(m):
                if table.buffer[j] == leaf:
                    at |= ((r >> j) & 1) << i
        made |= ((truth >> at) & 1) << r
    return made


@kernel
def _join(space, table, f, g, way):
    """Two features joined: f and g, f and not g, g and not f, f or g; the other four are their complements."""
    m = _gather(table, g, _gather(table, f, np.int64(0)))
    if m < 0:
        return np.int64(-1)
    a, b = _spread(table, f, m), _spread(table, g, m)
    truth = a & b if way == 0 else a & ~b if way == 1 else b & ~a if way == 2 else a | b
    i = m - 1
    while i >= 0:
        known = cofactor(truth, m, i, np.int64(0))
        if known == cofactor(truth, m, i, np.int64(1)):
            truth = known
            m -= 1
            for j in range(i, m):
                table.buffer[j] = table.buffer[j + 1]
        i -= 1
    return of_leaves(space, table, truth, m) if m > 0 else np.int64(-1)


@implements(make_feature, LogicRules)
def _make_feature(space, table, operator, count, rng):
    if operator == MUTATION or count == 0:
        return covariate(space, table, draw_alias(rng, space.threshold, space.alias))
    f = table.parents[0]
    if operator == CROSSOVER:
        return _join(space, table, f, table.parents[1], below(rng, 4))
    node = below(rng, table.nodes[f])
    choices = edit_choices(space, table, f, node, operator)
    return edited(space, table, f, node, operator, below(rng, choices)) if choices > 0 else np.int64(-1)


@kernel
def _known_leaf(space, table, f, node):
    """Number of the function that f becomes where leaf ``node // 2`` is ``node % 2``, -1 where others do not matter."""
    k = width_of(table, f)
    if k == 1:
        return np.int64(-1)
    return find_function(space, k - 1, normal(cofactor(truth_of(table, f), k, node >> 1, node & 1), k - 1))


@implements(edit_choices, LogicRules)
def _edit_choices(space, table, f, node, operator):
    if operator == SWAP:
        return np.int64(len(space.candidates))
    if operator == DROP:
        return np.int64(table.kind[f] == LOGIC)
    number = np.int64(-1)
    if operator == GROW:
        number = find_function(space, width_of(table, f), truth_of(table, f))
    elif operator == RESHAPE:
        number = _known_leaf(space, table, f, node)
    if number < 0:
        return np.int64(0)
    extensions = space.extension_first[number + 1] - space.extension_first[number]
    return extensions * len(space.candidates) if operator == GROW else extensions


@kernel
def _leaves_without(table, f, out):
    """Put the leaves of f but one into the buffer; returns how many."""
    m = np.int64(0)
    for i in range(width_of(table, f)):
        if i != out:
            table.buffer[m] = leaf_of(table, f, i)
            m += 1
    return m


@kernel
def _has_leaf(table, f, leaf):
    for i in range(width_of(table, f)):
        if leaf_of(table, f, i) == leaf:
            return True
    return False


@kernel
def _swap_leaf(space, table, f, i, column):
    new = covariate(space, table, column)
    if new < 0 or _has_leaf(table, f, new):
        return np.int64(-1)
    k = _leaves_without(table, f, np.int64(-1))
    table.buffer[i] = new
    return of_leaves(space, table, truth_of(table, f), k)


@implements(edited, LogicRules)
def _edited(space, table, f, node, operator, choice):
    i = node >> 1
    if operator == SWAP:
        return _swap_leaf(space, table, f, i, space.candidates[choice])
    if operator == GROW:
        many = len(space.candidates)
        new = covariate(space, table, space.candidates[choice % many])
        if new < 0 or _has_leaf(table, f, new):
            return np.int64(-1)
        number, choice = find_function(space, width_of(table, f), truth_of(table, f)), choice // many
        k = _leaves_without(table, f, np.int64(-1))
    else:
        number = _known_leaf(space, table, f, node)
        if number < 0:
            return np.int64(-1)
        new = leaf_of(table, f, i)
        k = _leaves_without(table, f, i)
    if operator == DROP:
        return of_leaves(space, table, space.truth[number], k)
    table.buffer[k] = new
    made = of_leaves(space, table, space.truth[space.extension[space.extension_first[number] + choice]], k + 1)
    return made if made != f else np.int64(-1)
