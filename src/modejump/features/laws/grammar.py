"""A random law from a grammar that can spell every one, and its probability, compiled.

The grammar works on canonical forms: factors of a product and terms of a sum are drawn one by one, independently, and
a draw that is not canonical is void. So k distinct factors or terms have k! times the product of their probabilities.
"""

from __future__ import annotations

import math

import numpy as np

from modejump.core.compilation import implements, kernel
from modejump.core.random import below, uniform
from modejump.features.language import draw_feature, log_probability
from modejump.features.laws.nodes import (
    CALL,
    COVARIATE,
    EXP,
    ONE,
    POWER,
    PRODUCT,
    SUM,
    LawSpace,
    coefficient_of,
    monomial_of,
)
from modejump.features.laws.operators import (
    as_base,
    call,
    exponent_code,
    is_call,
    of_factors,
    of_terms,
    one,
    shares_factors,
)
from modejump.features.table import covariate, within_limits

# What is drawn: a monomial, a sum as a factor, the argument of a function.
MONOMIAL, FACTOR, ARGUMENT = range(3)


@kernel
def _draw_weighted(rng, weight):
    """An index by its weight; the weights sum to one."""
    u, last = uniform(rng), np.int64(0)
    for i in range(len(weight)):
        if weight[i] == 0.0:
            continue
        last = np.int64(i)
        if u < weight[i]:
            break
        u -= weight[i]
    return last


@kernel
def _repeats(space, table, items, m, f, what):
    """Whether f is among m factors or terms, or a second exponential among factors."""
    exponential = what == MONOMIAL and is_call(space, table, f, EXP)
    for i in range(m):
        if items[i, 0] == f or (exponential and is_call(space, table, items[i, 0], EXP)):
            return True
    return False


@kernel
def _draw_tree(space, table, rng, what, room):
    """A monomial, a sum or an argument from the grammar, -1 where it is void or more complex than ``room``.

    (Functions of their own for factors and terms could not be kept on disk: they would call this one, which calls
    them.)
    """
    monomial, factor, argument = np.int64(MONOMIAL), np.int64(FACTOR), np.int64(ARGUMENT)  # not literals
    items = np.empty((space.max_width, 2), np.int64)
    more, least = space.more_factors if what == MONOMIAL else space.more_terms, 2 if what == FACTOR else 1
    m = np.int64(0)
    while m < least or uniform(rng) < more:
        if m == space.max_width or room < 1:
            return np.int64(-1)
        if what == MONOMIAL:
            kind = _draw_weighted(rng, space.bases)
            exponent = space.exponents[_draw_weighted(rng, space.exponent_weight)]
            f = np.int64(-1)
            if kind == 0:
                f = covariate(space, table, below(rng, space.n_columns))
            elif kind == 1:
                code = below(rng, space.functions)
                inside = _draw_tree(space, table, rng, argument, room - 1)
                if inside >= 0:
                    f = call(space, table, code, inside)
                if f < 0 or table.child[table.start[f]] != inside:
                    return np.int64(-1)
                if space.trait[code] == EXP and exponent != space.denominator:
                    return np.int64(-1)
            else:
                inside = _draw_tree(space, table, rng, factor, room)
                if inside >= 0:
                    f = as_base(space, table, inside)
                if f != inside or (f >= 0 and shares_factors(space, table, f)):
                    return np.int64(-1)
            items[m, 1] = exponent
        else:
            f = one(space, table) if uniform(rng) < space.one else _draw_tree(space, table, rng, monomial, room)
            items[m, 1] = _draw_weighted(rng, space.coefficients)
            room -= 1
        if f < 0 or _repeats(space, table, items, m, f, what):
            return np.int64(-1)
        room -= table.complexity[f]
        items[m, 0] = f
        m += 1
    return of_factors(space, table, items, m) if what == MONOMIAL else of_terms(space, table, items, m)


@implements(draw_feature, LawSpace)
def _draw_feature(space, table, rng):
    f = _draw_tree(space, table, rng, np.int64(MONOMIAL), np.int64(space.max_complexity))
    return f if f >= 0 and within_limits(space, table, f) else np.int64(-1)


@kernel
def _log_count(m, least, more):
    """Log probability of m items, where there are ``least`` at least, times the number of their orders."""
    value = math.log(1.0 - more) + math.lgamma(m + 1.0)
    return value + (m - least) * math.log(more) if m > least else value


@kernel
def _log_tree(space, table, f, what):
    """Log probability of a monomial, a sum or an argument under the grammar."""
    monomial, factor, argument = np.int64(MONOMIAL), np.int64(FACTOR), np.int64(ARGUMENT)  # not literals
    several = table.kind[f] == (PRODUCT if what == MONOMIAL else SUM)
    m = table.arity[f] if several else np.int64(1)
    if what == MONOMIAL:
        value = _log_count(m, 1, space.more_factors)
    else:
        value = _log_count(m, 2 if what == FACTOR else 1, space.more_terms)
    for i in range(m):
        c = table.child[table.start[f] + i] if several else f
        if what != MONOMIAL:
            inside = monomial_of(table, c)
            value += space.log_coefficients[coefficient_of(table, c)]
            if table.kind[inside] == ONE:
                value += math.log(space.one)
            else:
                value += math.log(1.0 - space.one) + _log_tree(space, table, inside, monomial)
            continue
        base, code = c, exponent_code(space, np.int64(space.denominator))
        if table.kind[c] == POWER:
            base, code = table.child[table.start[c]], table.code[c]
        value += space.log_exponent_weight[code]
        if table.kind[base] == COVARIATE:
            value += space.log_bases[0] - math.log(space.n_columns)
        elif table.kind[base] == CALL:
            value += space.log_bases[1] - math.log(space.functions)
            value += _log_tree(space, table, table.child[table.start[base]], argument)
        else:
            value += space.log_bases[2] + _log_tree(space, table, base, factor)
    return value


@implements(log_probability, LawSpace)
def _log_probability(space, table, f):
    return _log_tree(space, table, f, np.int64(MONOMIAL))
