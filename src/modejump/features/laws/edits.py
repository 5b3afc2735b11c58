"""Genetic operators and edits of laws, compiled.

Mutation brings in a covariate or a law at random. Crossover multiplies or divides two laws, adds one as a term inside
the other, or puts a part of one into the other. Modification applies a function, projection a function to a combination
with fitted constants. The edits change one node and rebuild what is above it in canonical form: they come in pairs that
undo each other (insert and delete a factor, wrap and strip a function, add and drop a term) or undo themselves (another
exponent, leaf, function, coefficient). Where canonical forms fall together there may be no single edit back.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import implements, kernel
from modejump.core.random import below, uniform
from modejump.features.language import draw_feature, edit_choices, edited, functions_of, make_feature
from modejump.features.laws.nodes import (
    CALL,
    COVARIATE,
    EXP,
    FITTED,
    FREE,
    LOG,
    MINUS,
    ONE,
    PLUS,
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
    call_of,
    new_list,
    of_factors,
    of_terms,
    one,
    power,
    product,
    push_factors,
    push_term,
    push_terms,
    sum_of,
    term,
)
from modejump.features.table import covariate, find_node, within_limits

OPERATORS = (
    "mutation", "crossover", "modification", "projection",
    "insert", "delete", "exponent", "swap_leaf", "swap_function", "wrap", "strip",
    "add_term", "drop_term", "coefficient",
)  # fmt: skip
(
    MUTATION,
    CROSSOVER,
    MODIFY,
    PROJECT,
    INSERT,
    DELETE,
    EXPONENT,
    SWAP_LEAF,
    SWAP_FUNCTION,
    WRAP,
    STRIP,
    ADD,
    DROP,
    COEF,
) = range(14)
# The least and the largest change of complexity that an operator can make; an edit that makes another one is void.
EDIT_GAIN = np.array(
    [[0, 0]] * 4 + [[1, 4], [-1000, -1], [-1000, 1000], [0, 0], [0, 0], [1, 2], [-2, -1], [1, 4], [-1000, -1], [-1, 1]]
)
# One more parent in a projection that crosses laws of a population.
MORE_PARENTS = 0.6
# Share of projections that fit the exponent of a part instead.
RAISED = 0.5
# No node above.
TOP = -1


@kernel
def _above(table, length):
    """Kind of the node above the end of the path."""
    return np.int64(table.kind[table.path[length - 1, 0]]) if length > 0 else np.int64(TOP)


@kernel
def _rebuilt(space, table, above, position, new):
    """A node with another child, in canonical form; -1 where there is none."""
    kind, first = table.kind[above], table.start[above]
    if kind == CALL:
        return call(space, table, table.code[above], new)
    if kind == FREE or kind == MINUS:
        whole = table.kind[new] <= PRODUCT or table.kind[new] == ONE
        return term(space, table, new, coefficient_of(table, above)) if whole else np.int64(-1)
    rows, m = new_list(space), np.int64(0)
    for i in range(table.arity[above]):
        c = new if i == position else table.child[first + i]
        if kind == SUM:
            m = push_terms(table, rows, m, c)
            continue
        c, exponent = as_base(space, table, c), np.int64(space.denominator)
        if c < 0:
            return np.int64(-1)
        if kind == POWER:
            exponent = space.exponents[table.code[above]]
        m = push_factors(space, table, rows, m, c, exponent)
        if m < 0:
            return np.int64(-1)
    return of_terms(space, table, rows, m) if kind == SUM else of_factors(space, table, rows, m)


@kernel
def _replace_up(space, table, new, length):
    """Put a new node at the end of the path and rebuild every node above it; -1 where that fails."""
    for level in range(length - 1, -1, -1):
        if new < 0:
            return np.int64(-1)
        new = _rebuilt(space, table, table.path[level, 0], table.path[level, 1], new)
    return new


@kernel
def _coefficients(space):
    """How many coefficients there are to choose from."""
    return np.int64(3 if space.max_constants > 0 else 2)


@kernel
def _new_terms(space):
    """How many terms an edit can add: a power of a covariate, or the number 1, with a coefficient."""
    return _coefficients(space) * (space.n_columns * len(space.added) + 1)


@kernel
def _takes_term(table, node):
    """Whether an edit adds terms to a node itself: to a sum, or to the argument of a function that is no sum."""
    return table.kind[node] == SUM or (table.kind[node] == CALL and table.kind[table.child[table.start[node]]] != SUM)


@kernel
def _becomes_sum(space, table, node, above):
    """Whether a factor can become a sum of itself and a term; one below the bar stays there."""
    kind = table.kind[node]
    if kind == POWER:
        inside = table.kind[table.child[table.start[node]]]
        return inside != SUM and (above == PRODUCT or space.exponents[table.code[node]] < 0)
    return (above == PRODUCT or above == POWER) and (kind == COVARIATE or kind == CALL)


@implements(functions_of, LawSpace)
def _functions_of(space, table, f):
    found = np.int64(0)
    for number in range(table.nodes[f]):
        node, _ = find_node(table, f, np.int64(number))
        if table.kind[node] == CALL:
            found |= np.int64(1) << np.int64(table.code[node])
    return found


@implements(edit_choices, LawSpace)
def _edit_choices(space, table, f, number, operator):
    node, length = find_node(table, f, number)
    kind, above = table.kind[node], _above(table, length)
    alone = kind == CALL and table.kind[table.child[table.start[node]]] != SUM
    # A monomial that is no factor of another.
    whole = kind <= PRODUCT and above != PRODUCT and above != POWER
    if operator == INSERT and whole:
        return np.int64(space.n_columns * len(space.inserted))
    if operator == EXPONENT and (whole or kind == POWER or above == PRODUCT):
        return np.int64(len(space.exponents))
    if operator == SWAP_LEAF and kind == COVARIATE:
        return np.int64(space.n_columns)
    if operator == SWAP_FUNCTION and kind == CALL:
        return np.int64(space.functions)
    if operator == WRAP and kind <= PRODUCT:
        return space.functions * _coefficients(space)
    if operator == STRIP and alone:
        return np.int64(1)
    if operator == ADD:
        return _new_terms(space) * (
            np.int64(_takes_term(table, node)) + np.int64(_becomes_sum(space, table, node, above))
        )
    if (operator == DELETE and kind == PRODUCT) or (operator == DROP and kind == SUM):
        return table.arity[node]
    if operator == COEF and (kind == SUM or alone):
        return _coefficients(space) * (table.arity[node] if kind == SUM else np.int64(1))
    return np.int64(0)


@kernel
def _without(space, table, node, skip):
    """A product or a sum without one of its parts."""
    rows, m = new_list(space), np.int64(0)
    for i in range(table.arity[node]):
        c = table.child[table.start[node] + i]
        if i == skip:
            continue
        if table.kind[node] == SUM:
            m = push_terms(table, rows, m, c)
        else:
            m = push_factors(space, table, rows, m, c, np.int64(space.denominator))
    return of_terms(space, table, rows, m) if table.kind[node] == SUM else of_factors(space, table, rows, m)


@kernel
def _recoefficient(space, table, node, at, coefficient):
    """A sum, or a function of a single term, where a term has another coefficient."""
    terms = new_list(space)
    if table.kind[node] == CALL:
        inside = monomial_of(table, table.child[table.start[node]])
        return call_of(space, table, table.code[node], terms, push_term(terms, np.int64(0), inside, coefficient))
    m = push_terms(table, terms, np.int64(0), node)
    if m >= 0:
        terms[at, 1] = coefficient
    return of_terms(space, table, terms, m)


@kernel
def _with_term(space, table, node, inside, choice):
    """A node with one more term: inside where it is a sum or a function, otherwise beside it."""
    at, coefficient, many = choice // _coefficients(space), choice % _coefficients(space), len(space.added)
    f = covariate(space, table, at // many) if at < space.n_columns * many else one(space, table)
    if f >= 0 and at < space.n_columns * many:
        f = power(space, table, f, space.exponents[space.added[at % many]])
    return _plus(space, table, node, inside, term(space, table, f, coefficient)) if f >= 0 else np.int64(-1)


@kernel
def _plus(space, table, node, inside, added):
    """A node with a term: inside where it is a sum or a function, otherwise beside it; 1/x^2 becomes 1/(x^2 + t)."""
    if added < 0:
        return np.int64(-1)
    if table.kind[node] == POWER and space.exponents[table.code[node]] < 0:
        whole = power(space, table, node, -space.denominator)
        whole = sum_of(space, table, whole, added) if whole >= 0 else whole
        whole = as_base(space, table, whole) if whole >= 0 else whole
        return power(space, table, whole, -space.denominator) if whole >= 0 else np.int64(-1)
    if inside and table.kind[node] == CALL:
        argument = sum_of(space, table, table.child[table.start[node]], added)
        return call(space, table, table.code[node], argument) if argument >= 0 else np.int64(-1)
    return sum_of(space, table, node, added)


@kernel
def _edit_node(space, table, operator, node, choice):
    """The node after an edit that applies to it."""
    if operator == INSERT:
        many = len(space.inserted)
        column = covariate(space, table, choice // many)
        exponent = space.exponents[space.inserted[choice % many]]
        return product(space, table, node, column, exponent) if column >= 0 else np.int64(-1)
    if operator == DELETE or operator == DROP:
        return _without(space, table, node, choice)
    if operator == EXPONENT:
        if table.kind[node] == POWER:
            node = table.child[table.start[node]]
        # A sum with exponent 1 is no feature, but a factor of one.
        if table.kind[node] == SUM and space.exponents[choice] == space.denominator:
            return node
        return power(space, table, node, space.exponents[choice])
    if operator == SWAP_LEAF:
        return covariate(space, table, choice)
    if operator == SWAP_FUNCTION:
        return call(space, table, choice, table.child[table.start[node]])
    if operator == WRAP:
        inside = term(space, table, node, choice % _coefficients(space))
        return call(space, table, choice // _coefficients(space), inside) if inside >= 0 else np.int64(-1)
    if operator == STRIP:
        return monomial_of(table, table.child[table.start[node]])
    if operator == COEF:
        return _recoefficient(space, table, node, choice // _coefficients(space), choice % _coefficients(space))
    inside = _takes_term(table, node) and choice < _new_terms(space)
    return _with_term(space, table, node, inside, choice % _new_terms(space))


@implements(edited, LawSpace)
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


# --- new features of a population -------------------------------------------------------------------------------


@kernel
def _part(table, f, rng):
    """A random monomial in f, f itself among them."""
    node = f
    for _ in range(8):
        node, _ = find_node(table, f, below(rng, table.nodes[f]))
        if table.kind[node] <= PRODUCT:
            return node
    return f


@kernel
def _cross(space, table, f, g, rng):
    """Product, quotient, a part of g as a term inside f, or a part of g in the place of a part of f."""
    way = below(rng, 5)
    if way < 2:
        return product(space, table, f, g, np.int64(space.denominator if way == 0 else -space.denominator))
    part = g if uniform(rng) < 0.5 else _part(table, g, rng)
    node, length = find_node(table, f, below(rng, table.nodes[f]))
    if way == 2:
        return _replace_up(space, table, part, length) if table.kind[node] <= PRODUCT else np.int64(-1)
    inside, above = _takes_term(table, node), _above(table, length)
    if not inside and not _becomes_sum(space, table, node, above):
        # The sum of the two as a factor.
        node, length, above = f, np.int64(0), np.int64(PRODUCT)
    added = term(space, table, part, below(rng, _coefficients(space)))
    new = _plus(space, table, node, inside, added)
    if new >= 0 and length == 0 and table.kind[new] == SUM:
        new = as_base(space, table, new)
        exponent = space.exponents[below(rng, len(space.exponents))]
        return power(space, table, new, exponent) if new >= 0 else np.int64(-1)
    return _replace_up(space, table, new, length)


@kernel
def _project(space, table, count, rng):
    """A function of a combination of parents, with fitted constants where the space has any."""
    terms, m = new_list(space), np.int64(0)
    fitted = np.int64(FITTED) if space.max_constants > 0 else np.int64(PLUS)
    most = min(count, space.max_width - 1, max(space.max_constants, 1))
    parents = np.int64(1)
    while parents < most and uniform(rng) < MORE_PARENTS:
        parents += 1
    for i in range(parents):
        m = push_term(terms, m, table.parents[i], fitted)
    if uniform(rng) < 0.5:
        m = push_term(terms, m, one(space, table), fitted)
    if m > 1 and uniform(rng) < 0.5:
        terms[0, 1] = PLUS
    return call_of(space, table, below(rng, space.functions), terms, m)


@kernel
def _function(space, trait):
    """A function of a trait, -1 where the space has none."""
    for code in range(space.functions):
        if space.trait[code] == trait:
            return np.int64(code)
    return np.int64(-1)


@kernel
def _raised(space, table, f, rng):
    """The feature with a fitted exponent at one of its parts: exp(c*log(x)) in the place of x, or of a power of x."""
    exp, log = _function(space, EXP), _function(space, LOG)
    node, length = find_node(table, f, below(rng, table.nodes[f]))
    if exp < 0 or log < 0 or space.max_constants == 0 or table.kind[node] > PRODUCT:
        return np.int64(-1)
    if table.kind[node] == POWER:
        node = table.child[table.start[node]]
    elif _above(table, length) == POWER:
        length -= 1
    logarithm = call(space, table, log, node)
    exponent = term(space, table, logarithm, np.int64(FITTED)) if logarithm >= 0 else np.int64(-1)
    new = call(space, table, exp, exponent) if exponent >= 0 else np.int64(-1)
    return _replace_up(space, table, new, length)


@implements(make_feature, LawSpace)
def _make_feature(space, table, operator, count, rng):
    f = table.parents[0]
    if operator == MUTATION or count == 0:
        made = draw_feature(space, table, rng) if count > 0 and uniform(rng) < 0.5 else np.int64(-1)
        return made if made >= 0 else covariate(space, table, below(rng, space.n_columns))
    if operator == CROSSOVER:
        made = _cross(space, table, f, table.parents[1], rng)
        # Where terms fall together a constant may be left at the top.
        return made if made >= 0 and table.kind[made] <= PRODUCT else np.int64(-1)
    if operator == PROJECT and uniform(rng) < RAISED:
        made = _raised(space, table, f, rng)
        return made if made >= 0 and table.kind[made] <= PRODUCT else np.int64(-1)
    if operator == PROJECT:
        return _project(space, table, count, rng) if space.functions > 0 else np.int64(-1)
    node = below(rng, table.nodes[f]) if operator != MODIFY or uniform(rng) < 0.5 else np.int64(0)
    edit = np.int64(WRAP) if operator == MODIFY else np.int64(operator)
    choices = edit_choices(space, table, f, node, edit)
    return edited(space, table, f, node, edit, below(rng, choices)) if choices > 0 else np.int64(-1)
