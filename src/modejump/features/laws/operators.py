"""Canonical constructors of laws, compiled: whatever way a law is spelled, it becomes one node of the table.

`product`, `power`, `call` and `sum_of` give -1 where there is no such node: factors that cancel, an exponent that the
space does not have, a constant that the data could not tell from another. The plain twins are the constructors of
`modejump.features.laws.expression.Feature`. Factors and terms in the making are rows of a list: (base, exponent) and
(monomial, coefficient).
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import kernel
from modejump.features.laws.nodes import (
    CALL,
    COS,
    EXP,
    FITTED,
    FREE,
    LOG,
    MINUS,
    NEGATIVE,
    ONE,
    PLUS,
    POWER,
    PRODUCT,
    SIN,
    SUM,
    coefficient_of,
    compare,
    monomial_of,
    sort_buffer,
)
from modejump.features.table import MAX_CHILDREN, intern


@kernel
def new_list(space):
    """Room for factors or terms in the making."""
    return np.empty((min(2 * space.max_width + 2, MAX_CHILDREN), 2), np.int64)


@kernel
def one(space, table):
    """The number 1."""
    return intern(space, table, np.int64(ONE), np.int64(0), np.int64(0))


@kernel
def term(space, table, monomial, coefficient):
    """A monomial or the number 1 with a coefficient."""
    if coefficient == PLUS:
        return monomial
    table.buffer[0] = monomial
    kind = np.int64(FREE) if coefficient == FITTED else np.int64(MINUS)
    return intern(space, table, kind, np.int64(0), np.int64(1))


# --- sums -------------------------------------------------------------------------------------------------------


@kernel
def push_term(terms, m, monomial, coefficient):
    """Add a term to a list of m; returns how many there are, -1 where that has no canonical form.

    A fitted constant takes in every other coefficient of its monomial; those of fixed ones would be 0, 2 or -2.
    """
    if m < 0:
        return np.int64(-1)
    for i in range(m):
        if terms[i, 0] == monomial:
            if terms[i, 1] != FITTED and coefficient != FITTED:
                return np.int64(-1)
            terms[i, 1] = FITTED
            return np.int64(m)
    if m == len(terms):
        return np.int64(-1)
    terms[m, 0] = monomial
    terms[m, 1] = coefficient
    return np.int64(m + 1)


@kernel
def push_terms(table, terms, m, f):
    """Add a term, or the terms of a sum, to a list of m."""
    if table.kind[f] != SUM:
        return push_term(terms, m, monomial_of(table, f), coefficient_of(table, f))
    for i in range(table.arity[f]):
        c = table.child[table.start[f] + i]
        m = push_term(terms, m, monomial_of(table, c), coefficient_of(table, c))
    return m


@kernel
def flip(terms, m):
    """Change the signs of the fixed terms."""
    for i in range(m):
        if terms[i, 1] != FITTED:
            terms[i, 1] = NEGATIVE if terms[i, 1] == PLUS else PLUS


@kernel
def _sort(space, table, terms, m):
    for i in range(1, m):
        a, b = terms[i, 0], terms[i, 1]
        j = i - 1
        while j >= 0 and compare(space, table, terms[j, 0], a) > 0:
            terms[j + 1, 0], terms[j + 1, 1] = terms[j, 0], terms[j, 1]
            j -= 1
        terms[j + 1, 0], terms[j + 1, 1] = a, b


@kernel
def _first_positive(terms, m):
    """Make the first fixed term positive."""
    for i in range(m):
        if terms[i, 1] != FITTED:
            if terms[i, 1] == NEGATIVE:
                flip(terms, m)
            return


@kernel
def _first_fixed(terms, m):
    """Where a single term is fixed, make it the first; False where none is."""
    fixed, at = 0, 0
    for i in range(m):
        if terms[i, 1] != FITTED:
            fixed += 1
            at = i
    if fixed == 1 and at > 0:
        terms[0, 1] = PLUS
        terms[at, 1] = FITTED
    return fixed > 0


@kernel
def of_terms(space, table, terms, m):
    """The sum of m terms, or the term where there is one; -1 where fixed terms differ in unit. The list is used up."""
    if m < 1:
        return np.int64(-1)
    unit, fixed = np.int64(0), False
    for i in range(m):
        if terms[i, 1] != FITTED:
            own = table.unit[terms[i, 0]]
            if fixed and own != unit:
                return np.int64(-1)
            unit, fixed = own, True
    _sort(space, table, terms, m)
    for i in range(m):
        terms[i, 0] = term(space, table, terms[i, 0], terms[i, 1])
        if terms[i, 0] < 0:
            return np.int64(-1)
    if m == 1:
        return terms[0, 0]
    for i in range(m):
        table.buffer[i] = terms[i, 0]
    return intern(space, table, np.int64(SUM), np.int64(0), np.int64(m))


@kernel
def sum_of(space, table, a, b):
    """a + b for terms or sums."""
    terms = new_list(space)
    return of_terms(space, table, terms, push_terms(table, terms, push_terms(table, terms, np.int64(0), a), b))


@kernel
def as_base(space, table, f):
    """A term or a sum as a factor, or as base of a power, where its sign and scale do not matter."""
    if table.kind[f] != SUM:
        inside = monomial_of(table, f)
        return inside if table.kind[inside] != ONE else np.int64(-1)
    terms = new_list(space)
    m = push_terms(table, terms, np.int64(0), f)
    if not _first_fixed(terms, m):
        return np.int64(-1)
    _first_positive(terms, m)
    return of_terms(space, table, terms, m)


# --- functions --------------------------------------------------------------------------------------------------


@kernel
def is_call(space, table, f, trait):
    """Whether a node is a function of a trait."""
    return table.kind[f] == CALL and space.trait[table.code[f]] == trait


@kernel
def _is_argument(space, table, trait, terms, m):
    """Whether a function can have these terms as its argument.

    Constants that something outside takes in are not there: the offset in exp, the scale in log, the phase in cos,
    which is a sin with another phase.
    """
    if m < 1:
        return False
    if m == 1 and (table.kind[terms[0, 0]] == ONE or (trait == LOG and terms[0, 1] == FITTED)):
        return False
    if trait == LOG and m == 1 and terms[0, 1] == PLUS and is_call(space, table, terms[0, 0], EXP):
        return False
    for i in range(m):
        f, fixed = terms[i, 0], terms[i, 1] != FITTED
        if fixed and table.unit[f] != 0:
            return False
        if trait == EXP and (table.kind[f] == ONE or (fixed and is_call(space, table, f, LOG))):
            return False
        if table.kind[f] == ONE and (trait == COS or (trait == SIN and fixed)):
            return False
    return True


@kernel
def call_of(space, table, code, terms, m):
    """A function of the sum of m terms; the list is used up."""
    trait = space.trait[code]
    if not _is_argument(space, table, trait, terms, m):
        return np.int64(-1)
    _sort(space, table, terms, m)
    if trait == LOG and not _first_fixed(terms, m):
        return np.int64(-1)
    if trait != LOG and space.parity[code] != 0:
        _first_positive(terms, m)
    argument = of_terms(space, table, terms, m)
    if argument < 0:
        return np.int64(-1)
    table.buffer[0] = argument
    return intern(space, table, np.int64(CALL), np.int64(code), np.int64(1))


@kernel
def call(space, table, code, argument):
    """A function of a term or a sum."""
    terms = new_list(space)
    return call_of(space, table, code, terms, push_terms(table, terms, np.int64(0), argument))


# --- products and powers ----------------------------------------------------------------------------------------


@kernel
def _push_exponential(space, table, factors, m, f, sign):
    """Add exp(S) or 1 / exp(S) to a list of m factors, of which one at most is an exponential."""
    terms = new_list(space)
    count = push_terms(table, terms, np.int64(0), table.child[table.start[f]])
    if sign < 0:
        flip(terms, count)
    at = np.int64(0)
    while at < m and not is_call(space, table, factors[at, 0], EXP):
        at += 1
    if at < m:
        count = push_terms(table, terms, count, table.child[table.start[factors[at, 0]]])
    if at == len(factors):
        return np.int64(-1)
    factors[at, 0] = call_of(space, table, table.code[f], terms, count)
    factors[at, 1] = space.denominator
    if factors[at, 0] < 0:
        return np.int64(-1)
    return max(np.int64(m), at + 1)


@kernel
def _push_factor(space, table, factors, m, base, exponent):
    if m < 0:
        return np.int64(-1)
    if is_call(space, table, base, EXP):
        if abs(exponent) != space.denominator:
            return np.int64(-1)
        return _push_exponential(space, table, factors, m, base, exponent)
    for i in range(m):
        if factors[i, 0] == base:
            factors[i, 1] += exponent
            return np.int64(m)
    if m == len(factors):
        return np.int64(-1)
    factors[m, 0] = base
    factors[m, 1] = exponent
    return np.int64(m + 1)


@kernel
def _count_factors(table, monomial):
    if table.kind[monomial] == ONE:
        return np.int64(0)
    return table.arity[monomial] if table.kind[monomial] == PRODUCT else np.int64(1)


@kernel
def _factor(space, table, monomial, i):
    """Base and exponent of a factor of a monomial."""
    c = table.child[table.start[monomial] + i] if table.kind[monomial] == PRODUCT else np.int64(monomial)
    if table.kind[c] == POWER:
        return np.int64(table.child[table.start[c]]), np.int64(space.exponents[table.code[c]])
    return np.int64(c), np.int64(space.denominator)


@kernel
def _push_monomial(space, table, factors, m, f, exponent):
    for i in range(_count_factors(table, f)):
        base, own = _factor(space, table, f, i)
        if own * exponent % space.denominator != 0:
            return np.int64(-1)
        m = _push_factor(space, table, factors, m, base, own * exponent // space.denominator)
    return np.int64(m)


@kernel
def _least_exponent(space, table, terms, m, base):
    """The least exponent of a base in m terms; it is 0 in those without the base."""
    least = np.int64(0)
    for i in range(m):
        own = np.int64(0)
        for j in range(_count_factors(table, terms[i, 0])):
            other, exponent = _factor(space, table, terms[i, 0], j)
            if other == base:
                own = exponent
        least = own if i == 0 else min(least, own)
    return least


@kernel
def _shared_factors(space, table, terms, m, shared):
    """Fill a list with the bases that m terms share, by their least exponents; how many, -1 where there is no room.

    1/x + c shares 1/x, since the exponent of x is 0 in c.
    """
    count = np.int64(0)
    for i in range(m):
        for j in range(_count_factors(table, terms[i, 0])):
            base, _ = _factor(space, table, terms[i, 0], j)
            known = is_call(space, table, base, EXP)
            for k in range(count):
                known = known or shared[k, 0] == base
            least = np.int64(0) if known else _least_exponent(space, table, terms, m, base)
            if least != 0:
                if count == len(shared):
                    return np.int64(-1)
                shared[count, 0], shared[count, 1] = base, least
                count += 1
    return count


@kernel
def shares_factors(space, table, f):
    """Whether the terms of a sum share a factor."""
    terms, shared = new_list(space), new_list(space)
    return _shared_factors(space, table, terms, push_terms(table, terms, np.int64(0), f), shared) != 0


@kernel
def _push_sum(space, table, factors, m, f, exponent):
    """Add a power of a sum; what its terms share become factors of their own."""
    terms, shared = new_list(space), new_list(space)
    count = push_terms(table, terms, np.int64(0), f)
    common = _shared_factors(space, table, terms, count, shared)
    if common == 0:
        return _push_factor(space, table, factors, m, f, exponent)
    for i in range(count):
        rest = new_list(space)
        k = _push_monomial(space, table, rest, np.int64(0), terms[i, 0], np.int64(space.denominator))
        left = False
        for j in range(common):
            k = _push_factor(space, table, rest, k, shared[j, 0], -shared[j, 1])
        for j in range(k):
            left = left or rest[j, 1] != 0
        inside = of_factors(space, table, rest, k) if left else one(space, table)
        if common < 0 or k < 0 or inside < 0:
            return np.int64(-1)
        terms[i, 0] = inside
    base = of_terms(space, table, terms, count)
    base = as_base(space, table, base) if base >= 0 else base
    if base < 0:
        return np.int64(-1)
    m = _push_factor(space, table, factors, m, base, exponent)
    for j in range(common):
        if shared[j, 1] * exponent % space.denominator != 0:
            return np.int64(-1)
        m = _push_factor(space, table, factors, m, shared[j, 0], shared[j, 1] * exponent // space.denominator)
    return np.int64(m)


@kernel
def push_factors(space, table, factors, m, f, exponent):
    """Add the factors of a monomial, or of a sum as `as_base` has it, to a list of m, raised to an exponent.

    The exponent is a multiple of 1 / denominator. Returns how many there are, -1 where that has no canonical form.
    """
    if table.kind[f] == SUM:
        return _push_sum(space, table, factors, m, f, exponent)
    return _push_monomial(space, table, factors, m, f, exponent)


@kernel
def exponent_code(space, exponent):
    """Place of an exponent in the space's list, -1 where it is not there."""
    for code in range(len(space.exponents)):
        if space.exponents[code] == exponent:
            return np.int64(code)
    return np.int64(-1)


@kernel
def of_factors(space, table, factors, m):
    """The product of m factors; -1 where nothing or only a sum is left. The list is used up."""
    kept = np.int64(0)
    for i in range(m):
        node, exponent = factors[i, 0], factors[i, 1]
        if exponent == 0:
            continue
        if exponent != space.denominator:
            code = exponent_code(space, exponent)
            if code < 0:
                return np.int64(-1)
            table.buffer[0] = node
            node = intern(space, table, np.int64(POWER), code, np.int64(1))
            if node < 0:
                return np.int64(-1)
        factors[kept, 0] = node
        kept += 1
    if kept == 0 or (kept == 1 and table.kind[factors[0, 0]] == SUM):
        return np.int64(-1)
    if kept == 1:
        return factors[0, 0]
    for i in range(kept):
        table.buffer[i] = factors[i, 0]
    sort_buffer(space, table, kept)
    return intern(space, table, np.int64(PRODUCT), np.int64(0), kept)


@kernel
def product(space, table, a, b, exponent):
    """a * b^exponent for monomials, or sums as `as_base` has them; the exponent in multiples of 1 / denominator."""
    factors = new_list(space)
    m = push_factors(space, table, factors, np.int64(0), a, np.int64(space.denominator))
    if m >= 0:
        m = push_factors(space, table, factors, m, b, np.int64(exponent))
    return of_factors(space, table, factors, m) if m >= 0 else np.int64(-1)


@kernel
def power(space, table, f, exponent):
    """A power of a monomial, or of a sum as `as_base` has it; the exponent in multiples of 1 / denominator."""
    factors = new_list(space)
    m = push_factors(space, table, factors, np.int64(0), f, np.int64(exponent))
    return of_factors(space, table, factors, m) if m >= 0 else np.int64(-1)
