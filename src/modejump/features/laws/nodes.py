"""Nodes of laws in the table of features: what there is, in which order, and how large, compiled.

A feature is a *monomial*: a covariate, a function of an argument, a power, or a product of such factors. Sums are
arguments of functions or bases of powers; their terms are monomials or the number 1, with the coefficient +1, -1 or a
fitted constant. Factors and terms stand in an order that owes nothing to the table: see `compare`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import implements, kernel
from modejump.features.language import assemble, is_feature, measure
from modejump.features.laws.measures import COMMON_EXPONENTS
from modejump.features.table import COVARIATE, intern

# Kinds of nodes besides covariates. Those up to PRODUCT are monomials, and so features.
CALL, POWER, PRODUCT, SUM, FREE, MINUS, ONE = range(1, 8)
# Coefficients of terms.
PLUS, NEGATIVE, FITTED = range(3)
# Functions with rules of their own.
PLAIN, EXP, LOG, SIN, COS = range(5)
# Unit of a power whose exponents have no place in the packed numbers: that of nothing else.
NO_UNIT = (1 << 62) + 1
_COMMON = np.array([(e.numerator, e.denominator) for e in COMMON_EXPONENTS])


class LawSpace(NamedTuple):
    """The space of laws as compiled code reads it."""

    cumulative: np.ndarray  # float64 (operators,): cumulative weights of the operators
    edit_weight: np.ndarray  # float64 (operators,): weights of the edits among themselves
    edit_gain: np.ndarray  # int64 (operators, 2)
    max_depth: int
    max_width: int
    max_complexity: int
    max_constants: int
    n_columns: int
    rank: np.ndarray  # int64 (columns,): place of each column's name among the sorted names
    functions: int  # how many functions there are, sorted by name
    trait: np.ndarray  # int64 (functions,): PLAIN, EXP, LOG, SIN or COS
    parity: np.ndarray  # int64 (functions,): 1 even, -1 odd, 0 neither
    exponents: np.ndarray  # int64 (exponents,): sorted, as multiples of 1 / denominator; 1 is among them
    denominator: int
    inserted: np.ndarray  # int64: exponents of a covariate that an edit brings in as a factor, by their place
    added: np.ndarray  # int64: the same for terms
    units: np.ndarray  # int64 (columns,): packed so that the unit of a product is the sum; all 0 without units
    target_unit: int
    strict: int  # 1: a feature without constants has the unit of the response
    # A feature at random, see `modejump.features.laws.grammar`.
    bases: np.ndarray  # float64 (3,): probability that a factor is of a covariate, a function, a sum
    exponent_weight: np.ndarray  # float64 (exponents,): probability of each exponent
    coefficients: np.ndarray  # float64 (3,): probability of each coefficient
    log_bases: np.ndarray  # float64 (3,): the logs of these
    log_exponent_weight: np.ndarray  # float64 (exponents,)
    log_coefficients: np.ndarray  # float64 (3,)
    one: float  # probability that a term is the number 1
    more_factors: float  # probability of one more factor, and of one more term
    more_terms: float


@kernel
def monomial_of(table, f):
    """A term without its coefficient: a monomial, or the number 1."""
    return table.child[table.start[f]] if table.kind[f] == FREE or table.kind[f] == MINUS else f


@kernel
def coefficient_of(table, f):
    """Coefficient of a term."""
    kind = table.kind[f]
    return np.int64(FITTED) if kind == FREE else np.int64(NEGATIVE) if kind == MINUS else np.int64(PLUS)


@kernel
def _label(space, table, f):
    return space.rank[table.code[f]] if table.kind[f] == COVARIATE else table.code[f]


@kernel
def compare(space, table, a, b):
    """Below zero where a comes before b, 0 where they are one node, above zero where it comes after.

    Terms compare by their monomials, the number 1 behind all others. Then come complexity, kind, label, number of
    children and the children. `Feature.sort_key` is the same order.
    """
    if a == b:
        return np.int64(0)
    p, q = monomial_of(table, a), monomial_of(table, b)
    if p == q:
        return np.int64(table.kind[a] if a != p else 0) - np.int64(table.kind[b] if b != q else 0)
    by = np.int64(table.kind[p] == ONE) - np.int64(table.kind[q] == ONE)
    if by == 0:
        by = table.complexity[p] - table.complexity[q]
    if by == 0:
        by = np.int64(table.kind[p]) - np.int64(table.kind[q])
    if by == 0:
        by = _label(space, table, p) - _label(space, table, q)
    if by == 0:
        by = table.arity[p] - table.arity[q]
    i = np.int64(0)
    while by == 0 and i < table.arity[p]:
        by = compare(space, table, table.child[table.start[p] + i], table.child[table.start[q] + i])
        i += 1
    return by


@kernel
def sort_buffer(space, table, m):
    """Put the m children in the buffer into canonical order."""
    buffer = table.buffer
    for i in range(1, m):
        v = buffer[i]
        j = i - 1
        while j >= 0 and compare(space, table, buffer[j], v) > 0:
            buffer[j + 1] = buffer[j]
            j -= 1
        buffer[j + 1] = v


@implements(assemble, LawSpace)
def _assemble(space, table, kind, code, m):
    sort_buffer(space, table, m)
    return intern(space, table, kind, code, m)


@kernel
def _unit_of(space, table, f):
    """Unit of a new node: that of a sum is the one of its fixed terms, that of a function is none."""
    kind, m, buffer = table.kind[f], table.arity[f], table.buffer
    if kind == COVARIATE:
        return space.units[table.code[f]]
    if kind == CALL or kind == ONE:
        return np.int64(0)
    if kind == POWER:
        raised = table.unit[buffer[0]] * space.exponents[table.code[f]]
        return raised // space.denominator if raised % space.denominator == 0 else np.int64(NO_UNIT)
    unit = np.int64(0)
    for i in range(m):
        if kind != SUM:
            unit += table.unit[buffer[i]]
        elif table.kind[buffer[i]] != FREE:
            return table.unit[buffer[i]]
    return unit


@kernel
def _of_exponent(above, below):
    """What the exponent above / below adds to the complexity of its base."""
    negative = np.int64((above < 0) != (below < 0))
    above, below = abs(above), abs(below)
    if above == below:
        return negative
    cheap = above == 2 * below or above == 3 * below or 2 * above == below or 3 * above == below
    return negative + (1 if cheap else 2)


@kernel
def _saved(space, table, m):
    """What it saves to write an exponent that the m factors in the buffer have in common once."""
    alone = 0
    for i in range(m):
        alone += _of_exponent(_exponent_of(space, table, table.buffer[i]), space.denominator)
    least = alone
    # An exponent in common costs one at least.
    for j in range(len(_COMMON) if alone > 1 else 0):
        above, below = _COMMON[j, 0], _COMMON[j, 1]
        common = _of_exponent(above, below)
        for i in range(m):
            common += _of_exponent(_exponent_of(space, table, table.buffer[i]) * below, space.denominator * above)
        least = min(least, common)
    return alone - least


@kernel
def _exponent_of(space, table, f):
    """Exponent of a factor, in multiples of 1 / denominator."""
    return space.exponents[table.code[f]] if table.kind[f] == POWER else np.int64(space.denominator)


@implements(measure, LawSpace)
def _measure(space, table, f):
    kind, m, buffer = table.kind[f], table.arity[f], table.buffer
    depth, width, complexity, nodes, constants = 0, max(m, 1), 0, 1, 0
    factors = kind == POWER or kind == PRODUCT
    for i in range(m):
        c = buffer[i]
        depth = max(depth, table.depth[c] + (1 if factors and table.kind[c] == SUM else 0))
        width = max(width, table.width[c])
        complexity += table.complexity[c]
        nodes += table.nodes[c]
        constants += table.constants[c]
    if kind == COVARIATE or kind == ONE:
        complexity = 1
    elif kind == CALL:
        depth += 1
        complexity += 1
    elif kind == POWER:
        complexity += _of_exponent(space.exponents[table.code[f]], space.denominator)
    elif kind == PRODUCT:
        complexity -= _saved(space, table, m)
    elif kind == SUM:
        complexity += m - 1
    elif kind == FREE:
        constants += 1
        complexity += 0 if table.kind[buffer[0]] == ONE else 1
    table.depth[f], table.width[f], table.complexity[f], table.nodes[f] = depth, width, complexity, nodes
    table.constants[f] = constants
    table.unit[f] = _unit_of(space, table, f)
    table.log_spellings[f] = 0.0


@implements(is_feature, LawSpace)
def _is_feature(space, table, f):
    if table.kind[f] > PRODUCT or table.constants[f] > space.max_constants:
        return False
    return space.strict == 0 or table.constants[f] > 0 or table.unit[f] == space.target_unit
