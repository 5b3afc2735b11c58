"""Plain twins of the compiled constructors, grammar and edits of laws, and the doors through which tests reach them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from modejump.core.compilation import entry
from modejump.core.errors import InputError
from modejump.core.random import below
from modejump.features.language import functions_of, make_feature
from modejump.features.laws.edits import OPERATORS
from modejump.features.laws.expression import Feature
from modejump.features.laws.language import Laws
from modejump.features.laws.nodes import CALL, ONE, PRODUCT
from modejump.features.laws.operators import as_base, call, one, power, product, sum_of, term
from modejump.features.table import FeatureTable, covariate, enter_nodes

COEFFICIENTS = ("plus", "minus", "free")

# --- doors to the kernels ---------------------------------------------------------------------------------------

STEPS = ("covariate", "one", "call", "power", "product", "sum", "minus", "free")


@entry
def build(space, table, steps, most, made):
    """Nodes one after another: each row of ``steps`` has a construction, a code, and two nodes made before.

    -1 where a node is void or more complex than ``most``, or where one that it is made of is.
    """
    for i in range(len(steps)):
        what, code = steps[i, 0], steps[i, 1]
        a, b = made[steps[i, 2]], made[steps[i, 3]]
        made[i] = -1
        if what == 0:
            made[i] = covariate(space, table, code)
        elif what == 1:
            made[i] = one(space, table)
        elif a < 0 or (b < 0 and (what == 4 or what == 5)):
            continue
        elif what == 2:
            made[i] = call(space, table, code, a)
        elif what == 3 or what == 4:
            # Only a sum is brought into another form.
            a, b = as_base(space, table, a), as_base(space, table, b) if what == 4 else np.int64(0)
            if a >= 0 and b >= 0:
                exponent = space.exponents[code]
                made[i] = (
                    power(space, table, a, exponent) if what == 3 else product(space, table, a, b, space.denominator)
                )
        elif what == 5:
            made[i] = sum_of(space, table, a, b)
        elif table.kind[a] <= PRODUCT or table.kind[a] == ONE:
            made[i] = term(space, table, a, what - 5)
        if made[i] >= 0 and table.complexity[made[i]] > most:
            made[i] = -1


@entry
def make_features(space, table, operator, members, rng, out):
    """What an operator makes of random features."""
    for i in range(len(out)):
        for j in range(6):
            table.parents[j] = members[below(rng, len(members))]
        out[i] = make_feature(space, table, operator, np.int64(6), rng)


@entry
def list_functions(space, table, numbers, out):
    """The functions of features, by bits."""
    for i in range(len(numbers)):
        out[i] = functions_of(space, table, numbers[i])


def functions_in(language: Laws, feature: Feature) -> int:
    """The same of one feature from its parts."""
    found = 0
    for part in feature.subfeatures():
        kind, code, _ = language.decompose(part)
        found |= 1 << code if kind == CALL else 0
    return found


def enter(language: Laws, table: FeatureTable, features: Sequence[Feature]) -> np.ndarray:
    """Numbers of features in a table, which they enter where they are new."""
    nodes = list(dict.fromkeys(part for f in features for part in f.subfeatures()))
    place = {node: i for i, node in enumerate(nodes)}
    parts = [language.decompose(node) for node in nodes]
    numbers = np.full(len(nodes), -1, np.int64)
    enter_nodes(
        language.space(),
        table,
        np.array([kind for kind, _, _ in parts], np.int64),
        np.array([code for _, code, _ in parts], np.int64),
        np.array([len(children) for _, _, children in parts], np.int64),
        np.array([place[c] for _, _, children in parts for c in children], np.int64),  # type: ignore[index]
        numbers,
    )
    return numbers[[place[f] for f in features]]


def feature_of(language: Laws, table: FeatureTable, f: int) -> Feature:
    """The feature, or the part of one, with a number."""
    first = int(table.start[f])
    children = [feature_of(language, table, int(c)) for c in table.child[first : first + int(table.arity[f])]]
    return language.compose(int(table.kind[f]), int(table.code[f]), children)


# --- constructions ----------------------------------------------------------------------------------------------


def random_steps(
    rng: np.random.Generator, language: Laws, count: int, most: int
) -> tuple[np.ndarray, list[Feature | None]]:
    """Random constructions, covariates and the number 1 first, and what the plain constructors make of them.

    None stands for what is void or more complex than ``most``; nothing is made of it.
    """
    steps = [(0, j, 0, 0) for j in range(len(language.names))] + [(1, 0, 0, 0)]
    made: list[Feature | None] = [*map(Feature.covariate, language.names), Feature.one()]
    while len(steps) < count:
        what = int(rng.choice([2, 3, 4, 5, 6, 7], p=[0.2, 0.15, 0.25, 0.2, 0.1, 0.1]))
        code = int(rng.integers(len(language.functions) if what == 2 else len(language.exponents)))
        alive = [i for i, f in enumerate(made) if f is not None]
        # Recent ones more often, so that nodes become deep.
        i, j = (alive[int(len(alive) * rng.random() ** 0.5)] for _ in range(2))
        new = _attempt(language, what, code, made[i], made[j])
        steps.append((what, code, i, j))
        made.append(new if new is not None and new.complexity <= most else None)
    return np.array(steps, np.int64), made


def _attempt(language: Laws, what: int, code: int, a: Any, b: Any) -> Feature | None:
    try:
        if what == 2:
            made = Feature.call(language.functions[code].name, a)
        elif what == 3:
            made = Feature.power(bare(a), language.exponents[code])
        elif what == 4:
            made = Feature.product(bare(a), bare(b))
        elif what == 5:
            made = Feature.sum_(a, b)
        elif a.is_monomial or a.kind == "one":
            made = Feature.minus(a) if what == 6 else Feature.free(a)
        else:
            return None
    except InputError:
        return None
    lone = what in (3, 4) and made.kind == "sum"
    return None if lone or not all(map(language._knows, made.subfeatures())) else made


def bare(node: Feature) -> Feature:
    """A term without its coefficient."""
    node = node.children[0] if node.kind in ("free", "minus") else node
    if node.kind == "one":
        raise InputError("1 is no factor.")
    return node


# --- the grammar ------------------------------------------------------------------------------------------------


def probability(language: Laws, feature: Feature) -> float:
    """Probability of a feature under the grammar: the sum over the orders in which its parts may come."""
    space = language.space()
    weight = dict(zip(language.exponents, space.exponent_weight.tolist(), strict=True))

    def monomial(f: Feature) -> float:
        factors = f.children if f.kind == "product" else (f,)
        p = _times(len(factors), 1, space.more_factors)
        for factor in factors:
            base, e = (factor.children[0], factor.exponent) if factor.kind == "power" else (factor, Fraction(1))
            p *= weight[e]  # type: ignore[index]
            if base.kind == "covariate":
                p *= space.bases[0] / len(language.names)
            elif base.kind == "call":
                p *= space.bases[1] / len(language.functions) * terms(base.children[0], 1)
            else:
                p *= space.bases[2] * terms(base, 2)
        return p

    def terms(node: Feature, least: int) -> float:
        parts = node.children if node.kind == "sum" else (node,)
        p = _times(len(parts), least, space.more_terms)
        for part in parts:
            signed = part.kind in ("free", "minus")
            inside = part.children[0] if signed else part
            p *= space.coefficients[COEFFICIENTS.index(part.kind if signed else "plus")]
            p *= space.one if inside.kind == "one" else (1.0 - space.one) * monomial(inside)
        return p

    return float(monomial(feature))


def _times(m: int, least: int, more: float) -> float:
    return float(more ** (m - least) * (1.0 - more) * math.factorial(m))


# --- edits ------------------------------------------------------------------------------------------------------

Edit = Callable[[], Feature]


def edit_law(language: Laws, feature: Feature) -> dict[Feature, float]:
    """Probability of each result of one random edit; what is missing to one is void."""
    space, law = language.space(), {}
    places = list(_nodes(feature, None, lambda new: new))
    for node, above, put in places:
        for operator, edits in _edits_of(language, node, above).items():
            at = OPERATORS.index(operator)
            for edit in edits:
                try:
                    new = edit()
                    if new is node:
                        continue
                    made = put(new)
                except InputError:
                    continue
                gain = made.complexity - feature.complexity
                if (
                    made is not feature
                    and language.contains(made)
                    and space.edit_gain[at, 0] <= gain <= space.edit_gain[at, 1]
                ):
                    share = space.edit_weight[at] / (len(edits) * len(places))
                    law[made] = law.get(made, 0.0) + float(share)
    return law


def _nodes(
    node: Feature, above: Feature | None, put: Callable[[Feature], Feature]
) -> Iterator[tuple[Feature, Feature | None, Callable[[Feature], Feature]]]:
    """Every node in preorder, with what is above it and the way to put another in its place."""
    yield node, above, put
    for i, child in enumerate(node.children):

        def place(new: Feature, i: int = i) -> Feature:
            return put(_remade(node, [new if j == i else c for j, c in enumerate(node.children)]))

        yield from _nodes(child, node, place)


def _remade(node: Feature, children: Sequence[Feature]) -> Feature:
    """A node with other children, in canonical form."""
    if node.function is not None:
        return Feature.call(node.function, children[0])
    if node.exponent is not None:
        return Feature.power(bare(children[0]), node.exponent)
    if node.kind == "product":
        return Feature.product(*map(bare, children))
    if node.kind == "sum":
        return Feature.sum_(*children)
    if children[0].kind in ("sum", "free", "minus"):
        raise InputError("a term has one coefficient.")
    return with_coefficient(children[0], node.kind)


def with_coefficient(monomial: Feature, kind: str) -> Feature:
    return monomial if kind == "plus" else Feature.minus(monomial) if kind == "minus" else Feature.free(monomial)


def _edits_of(language: Laws, node: Feature, above: Feature | None) -> dict[str, list[Edit]]:
    """For each operator that applies to a node all its edits, of equal probability."""
    space, children = language.space(), node.children
    kinds = COEFFICIENTS[: 3 if language.fits_constants else 2]
    columns = [Feature.covariate(name) for name in language.names]
    functions = [t.name for t in language.functions]
    inside_product = above is not None and above.kind in ("product", "power")
    edits: dict[str, list[Edit]] = {}
    powers = [Feature.power(c, language.exponents[j]) for c in columns for j in space.added]
    terms = [with_coefficient(f, kind) for f in [*powers, Feature.one()] for kind in kinds]
    if node.is_monomial:
        edits["wrap"] = [
            lambda g=g, k=k: Feature.call(g, with_coefficient(node, k))
            for g in functions
            for k in kinds  # type: ignore[misc]
        ]
        if not inside_product:
            some = [language.exponents[j] for j in space.inserted]
            edits["insert"] = [
                lambda c=c, e=e: Feature.product(node, Feature.power(c, e))
                for c in columns
                for e in some  # type: ignore[misc]
            ]
    if node.kind == "power" or (node.is_monomial and not inside_product) or (above and above.kind == "product"):
        base = children[0] if node.kind == "power" else node
        edits["exponent"] = [lambda e=e: Feature.power(base, e) for e in language.exponents]  # type: ignore[misc]
    if node.kind == "covariate":
        edits["swap_leaf"] = [lambda c=c: c for c in columns]  # type: ignore[misc]
    added: list[Edit] = []
    if node.kind == "call":
        edits["swap_function"] = [lambda g=g: Feature.call(g, children[0]) for g in functions]  # type: ignore[misc]
        if children[0].kind != "sum":
            inside = children[0].children[0] if children[0].kind in ("free", "minus") else children[0]
            edits["strip"] = [lambda: inside]
            name = node.function or ""
            added += [lambda t=t: Feature.call(name, Feature.sum_(children[0], t)) for t in terms]  # type: ignore[misc]
            edits["coefficient"] = [lambda k=k: Feature.call(name, with_coefficient(inside, k)) for k in kinds]  # type: ignore[misc]
    if node.kind == "sum":
        added += [lambda t=t: Feature.sum_(node, t) for t in terms]  # type: ignore[misc]
        edits["drop_term"] = [lambda i=i: Feature.sum_(*children[:i], *children[i + 1 :]) for i in range(len(children))]  # type: ignore[misc]
        edits["coefficient"] = [
            lambda i=i, k=k: _recoefficient(node, i, k) for i in range(len(children)) for k in kinds
        ]  # type: ignore[misc]
    if inside_product and node.kind in ("covariate", "call"):
        added += [lambda t=t: Feature.sum_(node, t) for t in terms]  # type: ignore[misc]
    if node.exponent is not None and children[0].kind != "sum":
        if node.exponent < 0:
            added += [lambda t=t: Feature.power(bare(Feature.sum_(Feature.power(node, -1), t)), -1) for t in terms]  # type: ignore[misc]
        elif above is not None and above.kind == "product":
            added += [lambda t=t: Feature.sum_(node, t) for t in terms]  # type: ignore[misc]
    if added:
        edits["add_term"] = added
    if node.kind == "product":
        edits["delete"] = [lambda i=i: _product(*children[:i], *children[i + 1 :]) for i in range(len(children))]  # type: ignore[misc]
    return edits


def _product(*factors: Feature) -> Feature:
    made = Feature.product(*factors)
    if made.kind == "sum":
        raise InputError("a sum alone is no feature.")
    return made


def _recoefficient(node: Feature, i: int, kind: str) -> Feature:
    parts = list(node.children)
    inside = parts[i].children[0] if parts[i].kind in ("free", "minus") else parts[i]
    parts[i] = with_coefficient(inside, kind)
    return Feature.sum_(*parts)
