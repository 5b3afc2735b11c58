"""A logic feature at random, with its probability, compiled.

The number of leaves is drawn first, then the columns one by one, where a draw that repeats one is void, then a function
of so many variables. So k distinct columns come with k! times the product of their probabilities.
"""

from __future__ import annotations

import math

import numpy as np

from modejump.core.compilation import implements, kernel
from modejump.core.random import draw_alias, draw_cumulative, uniform
from modejump.features.language import draw_feature, log_probability
from modejump.features.logic.operators import LogicRules, find_function, leaf_of, of_leaves, truth_of, width_of
from modejump.features.table import covariate


@kernel
def _draw_function(space, k, rng):
    """Number of a function of k variables."""
    u, low, high = uniform(rng), space.first[k], space.first[k + 1] - 1
    while low < high:
        middle = (low + high) >> 1
        if space.function_cumulative[middle] <= u:
            low = middle + 1
        else:
            high = middle
    return low


@implements(draw_feature, LogicRules)
def _draw_feature(space, table, rng):
    k = draw_cumulative(rng, space.width_cumulative) + 1
    for m in range(k):
        f = covariate(space, table, draw_alias(rng, space.threshold, space.alias))
        for i in range(m):
            if table.buffer[i] == f:
                return np.int64(-1)
        if f < 0:
            return f
        table.buffer[m] = f
    return of_leaves(space, table, space.truth[_draw_function(space, k, rng)], k)


@implements(log_probability, LogicRules)
def _log_probability(space, table, f):
    k = width_of(table, f)
    value = space.log_width[k] + math.lgamma(k + 1.0) + space.log_function[find_function(space, k, truth_of(table, f))]
    for i in range(k):
        value += space.log_column[table.code[leaf_of(table, f, i)]]
    return value
