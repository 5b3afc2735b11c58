"""Fresh features: a fixed distribution q over the whole declared space, whose probabilities can be computed.

A draw is either an edit of a library feature, from a table that is frozen with the library, or a tree from a grammar
that can spell every feature. Since q depends on nothing that happens after warm-up and q(f) is known for each f, the
populations made from it are part of an exact sampler.

The grammar works on canonical features: the factors of a product are drawn one by one and are no products
themselves, so a multiset of k factors is drawn with k! / (multiplicities) times the product of their probabilities;
the parents of a projection are drawn one by one, and a draw that repeats a parent is void.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from modejump.core.compilation import entry, kernel
from modejump.core.random import below, draw_alias, uniform
from modejump.features.nonlinear.operators import (
    DELETE,
    INSERT,
    STRIP,
    SWAP_FUNCTION,
    SWAP_LEAF,
    WRAP,
    edit,
    edit_node,
    find_node,
    projection,
    replace_up,
    within_limits,
)
from modejump.features.table import COVARIATE, MODIFICATION, PRODUCT, covariate, modification, product
from modejump.features.table import truncate as truncate_arena
from modejump.kernels.evaluate import NEG_INF


class Fresh(NamedTuple):
    """The distribution q: grammar, table, and the share of the table."""

    kinds: np.ndarray  # float64 (4,): probability of each kind of feature in the grammar, by its code
    more: float  # probability of one more factor, or one more parent
    share: float  # share of draws from the table
    table: np.ndarray  # int64 (T,): features of the table
    threshold: np.ndarray  # float64 (T,), with alias (T,)
    alias: np.ndarray
    probability: np.ndarray  # float64 (frozen,): probability of each frozen feature in the table


@kernel
def _draw_kind(kinds, products, rng):
    """Kind of a feature; where products are not allowed, one of the others."""
    total = 1.0 if products else 1.0 - kinds[PRODUCT]
    u = uniform(rng) * total
    last = np.int64(COVARIATE)
    for kind in range(4):
        if kinds[kind] == 0.0 or (kind == PRODUCT and not products):
            continue
        last = np.int64(kind)
        if u < kinds[kind]:
            break
        u -= kinds[kind]
    return last


@kernel
def draw_tree(ar, fresh, space, rng, products, room):
    """A feature from the grammar, -1 where it is void or more complex than ``room``."""
    any_kind, no_product = np.int64(1), np.int64(0)  # not literals, which Numba would compile for
    if room < 1:
        return np.int64(-1)
    kind = _draw_kind(fresh.kinds, products, rng)
    if kind == COVARIATE:
        return covariate(ar, below(rng, space.n_columns))
    if kind == PRODUCT:
        f = draw_tree(ar, fresh, space, rng, no_product, room)
        again = True
        while again and f >= 0:
            g = draw_tree(ar, fresh, space, rng, no_product, room - ar.complexity[f])
            if g < 0:
                return g
            f = product(ar, f, g)
            again = uniform(rng) < fresh.more
        return f
    code = space.transforms[below(rng, len(space.transforms))]
    if kind == MODIFICATION:
        f = draw_tree(ar, fresh, space, rng, any_kind, room - 1)
        return modification(ar, code, f) if f >= 0 else f
    parents = np.empty(room, np.int64)
    m = np.int64(0)
    room -= 1
    again = True
    while again:
        f = draw_tree(ar, fresh, space, rng, any_kind, room - 1)
        if f < 0:
            return f
        for i in range(m):
            if parents[i] == f:
                return np.int64(-1)
        parents[m] = f
        m += 1
        room -= 1 + ar.complexity[f]
        again = uniform(rng) < fresh.more
    return projection(ar, code, parents, m)


@kernel
def log_tree(ar, fresh, space, f, products):
    """Log probability of a feature under the grammar."""
    kind, first, m = ar.kind[f], ar.start[f], ar.arity[f]
    if fresh.kinds[kind] == 0.0:
        return NEG_INF
    value = np.log(fresh.kinds[kind])
    if not products:
        value -= np.log(1.0 - fresh.kinds[PRODUCT])
    if kind == COVARIATE:
        return value - np.log(space.n_columns + 0.0)
    if kind == PRODUCT:
        value += (m - 2) * np.log(fresh.more) + np.log(1.0 - fresh.more) + math.lgamma(m + 1.0)
        run = 1
        for i in range(1, m + 1):
            if i < m and ar.child[first + i] == ar.child[first + i - 1]:
                run += 1
            else:
                value -= math.lgamma(run + 1.0)
                run = 1
    else:
        value -= np.log(len(space.transforms) + 0.0)
        if kind != MODIFICATION:
            value += (m - 1) * np.log(fresh.more) + np.log(1.0 - fresh.more) + math.lgamma(m + 1.0)
    for i in range(m):
        value += log_tree(ar, fresh, space, ar.child[first + i], np.int64(kind != PRODUCT))
    return value


@kernel
def draw_fresh(ar, fresh, space, rng):
    """A feature from q, -1 where the draw is void."""
    if uniform(rng) < fresh.share:
        return fresh.table[draw_alias(rng, fresh.threshold, fresh.alias)]
    f = draw_tree(ar, fresh, space, rng, np.int64(1), space.max_complexity)
    return f if f >= 0 and within_limits(ar, space, f) else np.int64(-1)


@kernel
def log_fresh(ar, fresh, space, f):
    """Log of q(f)."""
    tree = np.log(1.0 - fresh.share) + log_tree(ar, fresh, space, f, np.int64(1))
    if f >= len(fresh.probability) or fresh.share * fresh.probability[f] == 0.0:
        return tree
    known = np.log(fresh.share * fresh.probability[f])
    top = max(known, tree)
    return top + np.log(np.exp(known - top) + np.exp(tree - top))


@kernel
def _choices(ar, space, operator, node):
    """How many results one edit of one node can have, all of the same probability; 0 where it does not apply."""
    kind = ar.kind[node]
    if operator == INSERT or (operator == SWAP_LEAF and kind == COVARIATE):
        return space.n_columns
    if operator == DELETE and kind == PRODUCT:
        return ar.arity[node]
    if operator == STRIP and kind == MODIFICATION:
        return np.int64(1)
    if operator == WRAP or (operator == SWAP_FUNCTION and kind != COVARIATE and kind != PRODUCT):
        return len(space.transforms)
    return np.int64(0)


@kernel
def _edited(ar, space, operator, node, length, choice, choices):
    """Result of one edit at the end of the present path, -1 where it is void or outside the space."""
    u = (choice + 0.5) / choices
    new = edit_node(ar, space, operator, node, u, u)
    if new < 0 or new == node:
        return np.int64(-1)
    made = replace_up(ar, new, length)
    return made if made >= 0 and within_limits(ar, space, made) else np.int64(-1)


@kernel
def _expected(operator, gain):
    """Whether an edit of this kind changes complexity so; parents that fall together may do otherwise: void."""
    if operator == INSERT or operator == WRAP:
        return gain == 1
    if operator == DELETE or operator == STRIP:
        return gain < 0
    return gain == 0


@kernel
def draw_edit(ar, space, f, rng):
    """A random edit of f, -1 where the draw is void; its probability is ``edit_probability``."""
    u = uniform(rng)
    weight = space.edit_weight
    operator = INSERT
    while operator < WRAP and u >= weight[operator]:
        u -= weight[operator]
        operator += 1
    made = edit(ar, space, operator, f, uniform(rng), uniform(rng), uniform(rng))
    if made < 0 or made == f or not within_limits(ar, space, made):
        return np.int64(-1)
    return made if _expected(operator, ar.complexity[made] - ar.complexity[f]) else np.int64(-1)


@kernel
def edit_probability(ar, space, f, target):
    """Probability that one random edit turns f into ``target``: the sum over all edits of f that do.

    Whatever the count has to spell is forgotten at once: a feature may have thousands of edits.
    """
    count, children = ar.count, ar.children
    gain = ar.complexity[target] - ar.complexity[f]
    total = 0.0
    for number in range(ar.nodes[f]):
        node, length = find_node(ar, f, number)
        for operator in range(INSERT, WRAP + 1):
            if not _expected(operator, gain):
                continue
            choices = _choices(ar, space, operator, node)
            hits = 0
            for choice in range(choices):
                if _edited(ar, space, operator, node, length, choice, choices) == target:
                    hits += 1
                truncate_arena(ar, count, children)
            if hits > 0:
                total += space.edit_weight[operator] * hits / (choices * ar.nodes[f])
    return total


@kernel
def next_edit(ar, space, f, at):
    """Result of the next edit of f, -1 where it is void, -2 after the last.

    ``at`` holds node, operator and choice of the edit; it starts with zeros and is moved on.
    """
    while at[0] < ar.nodes[f]:
        node, length = find_node(ar, f, at[0])
        while at[1] <= WRAP:
            choices = _choices(ar, space, at[1], node) if at[1] >= INSERT else 0
            if at[2] < choices:
                at[2] += 1
                made = _edited(ar, space, at[1], node, length, at[2] - 1, choices)
                return made if made != f else np.int64(-1)
            at[1] += 1
            at[2] = 0
        at[0] += 1
        at[1] = 0
    return np.int64(-2)


@entry
def spread_edits(ar, space, parents, weight, table, probability):
    """The table of edits: for each parent all its edits, by ``weight`` of the parent times that of the edit.

    Fills ``table`` with distinct ar in order of first appearance and ``probability`` by feature; returns how
    many there are, and how many parents had room.
    """
    found = 0
    for at in range(len(parents)):
        f = parents[at]
        most = 0
        for number in range(ar.nodes[f]):
            node, _ = find_node(ar, f, number)
            for operator in range(INSERT, WRAP + 1):
                most += _choices(ar, space, operator, node)
        # Each edit makes a few ar, and each of them has at most as many children as f has nodes.
        made_most = most * (ar.depth[f] + 2)
        crowded = ar.children + made_most * (ar.nodes[f] + 1) > 3 * len(ar.child) // 4
        if found + most > len(table) or ar.count + made_most > len(probability) or crowded:
            return found, at
        for number in range(ar.nodes[f]):
            node, length = find_node(ar, f, number)
            for operator in range(INSERT, WRAP + 1):
                choices = _choices(ar, space, operator, node)
                for choice in range(choices):
                    made = _edited(ar, space, operator, node, length, choice, choices)
                    if made < 0 or made == f:
                        continue
                    if probability[made] == 0.0:
                        table[found] = made
                        found += 1
                    probability[made] += weight[at] * space.edit_weight[operator] / (choices * ar.nodes[f])
    return found, len(parents)


@entry
def plant(ar, kind, code, start, arity, child, planted):
    """Enter a list of ar, each after its children, into a table; ``planted`` gets their numbers."""
    for i in range(len(kind)):
        f = np.int64(-1)
        if kind[i] == COVARIATE:
            f = covariate(ar, code[i])
        elif kind[i] == MODIFICATION:
            f = modification(ar, code[i], planted[child[start[i]]])
        elif kind[i] == PRODUCT:
            f = planted[child[start[i]]]
            for j in range(1, arity[i]):
                f = product(ar, f, planted[child[start[i] + j]])
        else:
            parents = np.empty(arity[i], np.int64)
            for j in range(arity[i]):
                parents[j] = planted[child[start[i] + j]]
            f = projection(ar, code[i], parents, arity[i])
        planted[i] = f
