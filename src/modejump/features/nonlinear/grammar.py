"""A random nonlinear feature from a grammar that can spell every one, and its probability, compiled.

The grammar works on canonical features: the factors of a product are drawn one by one and are no products themselves,
so a multiset of k factors is drawn with k! / (multiplicities) times the product of their probabilities; the parents of
a projection are drawn one by one, and a draw that repeats a parent is void.
"""

from __future__ import annotations

import math

import numpy as np

from modejump.core.compilation import implements, kernel
from modejump.core.random import below, uniform
from modejump.features.language import draw_feature, log_probability
from modejump.features.nonlinear.operators import (
    MODIFICATION,
    PRODUCT,
    NonlinearSpace,
    log_repetitions,
    modification,
    product,
    projection,
)
from modejump.features.table import COVARIATE, MAX_CHILDREN, covariate, within_limits


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
def _among(drawn, m, f):
    for i in range(m):
        if drawn[i] == f:
            return True
    return False


@kernel
def _draw_tree(space, table, rng, products, room):
    """A feature from the grammar, -1 where it is void or more complex than ``room``."""
    any_kind, no_product = np.int64(1), np.int64(0)  # not literals, which Numba would compile for
    if room < 1:
        return np.int64(-1)
    kind = _draw_kind(space.kinds, products, rng)
    if kind == COVARIATE:
        return covariate(space, table, below(rng, space.n_columns))
    if kind == PRODUCT:
        f = _draw_tree(space, table, rng, no_product, room)
        again = True
        while again and f >= 0:
            g = _draw_tree(space, table, rng, no_product, room - table.complexity[f])
            if g < 0:
                return g
            f = product(space, table, f, g)
            again = uniform(rng) < space.more
        return f
    code = below(rng, space.transforms)
    if kind == MODIFICATION:
        f = _draw_tree(space, table, rng, any_kind, room - 1)
        return modification(space, table, code, f) if f >= 0 else f
    # The parents of a projection leave room for each other. (A function of its own for them could not be kept on disk:
    # it would call this one, which calls it.)
    drawn = np.empty(MAX_CHILDREN, np.int64)
    m, room, again = np.int64(0), room - 1, True
    while again:
        f = _draw_tree(space, table, rng, any_kind, room - 1)
        if f < 0 or m == MAX_CHILDREN or _among(drawn, m, f):
            return np.int64(-1)
        drawn[m] = f
        m += 1
        room -= 1 + table.complexity[f]
        again = uniform(rng) < space.more
    for i in range(m):
        table.parents[i] = drawn[i]
    return projection(space, table, code, m)


@implements(draw_feature, NonlinearSpace)
def _draw_feature(space, table, rng):
    f = _draw_tree(space, table, rng, np.int64(1), np.int64(space.max_complexity))
    return f if f >= 0 and within_limits(space, table, f) else np.int64(-1)


@kernel
def _log_tree(space, table, f, products):
    """Log probability of a feature under the grammar."""
    kind, first, m = table.kind[f], table.start[f], table.arity[f]
    if space.kinds[kind] == 0.0:
        return -np.inf
    value = math.log(space.kinds[kind])
    if not products:
        value -= math.log(1.0 - space.kinds[PRODUCT])
    if kind == COVARIATE:
        return value - math.log(space.n_columns)
    if kind == PRODUCT:
        value += (m - 2) * math.log(space.more) + math.log(1.0 - space.more)
        value += math.lgamma(m + 1.0) - log_repetitions(table.child, first, m)
    else:
        value -= math.log(space.transforms)
        if kind != MODIFICATION:
            value += (m - 1) * math.log(space.more) + math.log(1.0 - space.more) + math.lgamma(m + 1.0)
    for i in range(m):
        value += _log_tree(space, table, table.child[first + i], np.int64(kind != PRODUCT))
    return value


@implements(log_probability, NonlinearSpace)
def _log_probability(space, table, f):
    return _log_tree(space, table, f, np.int64(1))
