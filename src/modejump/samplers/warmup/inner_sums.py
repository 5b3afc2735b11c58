"""Powers of sums: where a response is a root or a reciprocal of a sum, its square or its own reciprocal is that sum.

The terms of the sum are chosen together, as those of a first model are, so that it need not be built one term after the
other. They are simple products, with a function or without: among richer ones too many imitate each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from modejump.features.expression import Expression
from modejump.features.laws.arguments import monomials
from modejump.features.laws.expression import Feature
from modejump.features.laws.language import Laws
from modejump.features.laws.parts import powers_of
from modejump.kernels.census import OWN, best_pairs
from modejump.samplers.warmup.census import Factor, basis_of, cross, unit_without, usable

# Exponents of the sums.
POWERS = tuple(map(Fraction, ("-1", "1/2", "-1/2")))
# A response this small, relative to the largest, is too near to zero for a power; share of rows of another sign.
SMALLEST, OTHER_SIGN = 0.02, 0.05
# Complexity of what functions are applied to, and of terms with functions and without, at most; terms that are looked
# at, and that sums are made of. The first are in sums of three; sums that are kept for each of them, and of all.
ARGUMENT, MOST_COMPLEX, LOOKED_AT, MOST_PRODUCTS = 3, (5, 7), 3000, 160
SIMPLEST, EACH, BEST = 80, 2, 12
# Coefficients as near to each other as this may be equal.
NEAR = 0.1


class Terms(NamedTuple):
    """Factors of the terms of sums, their columns and complexities; of those that are no terms it is 0.

    Beside these which of the first factors are functions.
    """

    first: list[Factor]
    left: np.ndarray
    second: list[Factor]
    right: np.ndarray
    cost: np.ndarray
    calls: np.ndarray


def terms_of(language: Laws, x: np.ndarray) -> Terms:
    """Simple products that sums are made of.

    Parameters
    ----------
    language : Laws
        Covariates, functions and exponents.
    x : ndarray of shape (columns, n)
        The covariates.
    """
    one = Factor(None, np.ones(x.shape[1]))
    simple = [m for m in monomials(language, x) if len(m.node.covariates) < 3]
    first = [one, *(Factor(*p) for p in powers_of(language, x))]
    with np.errstate(all="ignore"):
        for transform in language.functions:
            for node, u, _ in simple:
                if node.complexity <= ARGUMENT:
                    first.append(Factor(Feature.call(transform.name, node), transform(u)))
                    if transform.name == "exp":
                        first.append(Factor(Feature.call("exp", Feature.minus(node)), transform(-u)))
    first, left = usable(first)
    second, right = usable([one, *(Factor(*m) for m in simple)])
    cost = [np.array([f.node.complexity if f.node is not None else 0 for f in some]) for some in (first, second)]
    calls = np.array([isinstance(f.node, Feature) and f.node.kind == "call" for f in first])
    complexity = np.add.outer(*cost)
    # Each product once, by its simplest factors: equal ones have equal columns, and constant ones that of the number 1.
    by = np.random.default_rng(0).normal(size=x.shape[1])
    tiny = np.finfo(float).tiny
    key = np.add.outer(*(np.log(np.abs(columns) + tiny) @ by for columns in (left, right))).ravel()
    order = np.argsort(complexity.ravel(), kind="stable")
    once = order[np.unique(np.round(key[order], 6), return_index=True)[1]]
    alone = np.zeros(complexity.shape, np.int64)
    alone.ravel()[once] = complexity.ravel()[once]
    return Terms(first, left, second, right, alone, calls)


def powers_of_sums(
    terms: Terms,
    target: np.ndarray,
    root: np.ndarray,
    price: np.ndarray,
    made: Callable[..., Expression | None],
    rng: np.random.Generator,
    outside: Sequence[tuple[Feature, int]],
    apart: np.ndarray,
) -> list[Expression]:
    """Powers of sums that explain a target of one sign, beside powers of covariates.

    Parameters
    ----------
    terms : Terms
        What the sums are made of.
    target, root : ndarray
        What is to be explained, and the roots of the weights of the rows.
    price : ndarray
        Log prior weight by complexity.
    made : callable
        What a function makes of some nodes, None where it is no feature of the space.
    rng : Generator
        Which factors are looked at.
    outside : sequence of (covariate, exponent)
        Powers of covariates that each of them is multiplied with.
    apart : ndarray
        The product of these powers.
    """
    negative = float(np.mean(target < 0.0))
    if min(negative, 1.0 - negative) > OTHER_SIGN or not np.abs(target).max() > 0.0:
        return []
    size = np.maximum(np.abs(target) / np.abs(target).max(), SMALLEST)
    found: dict[Expression, None] = {}
    for power in POWERS:
        # How much an error of the response is of that of the sum.
        inside = (size / apart) ** float(1 / power)
        weight = root * size / inside
        for summands in _chosen(terms, inside, weight / np.linalg.norm(weight), price, rng):
            for total in _sums(summands, inside, weight):
                feature = made(Feature.monomial, (total, power), *outside)
                if feature is not None:
                    found[feature] = None
    return list(found)


def _chosen(
    terms: Terms, target: np.ndarray, root: np.ndarray, price: np.ndarray, rng: np.random.Generator
) -> Iterator[list[tuple[Feature, np.ndarray]]]:
    """One, two or three terms that explain a target best, and their columns."""
    cost, width, few = terms.cost.ravel(), len(terms.right), len(root) // 3
    most = np.repeat(np.where(terms.calls, *MOST_COMPLEX), width)
    at = np.flatnonzero((cost > 0) & (cost <= most))
    at = at[np.lexsort((rng.random(len(at)), np.where(terms.calls[at // width], np.inf, cost[at])))]
    at = np.concatenate([at[:few], rng.permutation(at[few:])[:LOOKED_AT]])
    columns, alone = terms.left[at // width] * terms.right[at % width], basis_of(root[None])
    # What the simplest terms leave is explained by the others of a sum, if they are simple but for one.
    simple = unit_without(columns[:few], root, alone)
    beside = basis_of(np.vstack([alone, simple[simple.any(axis=1)]]))
    rows = columns[few:] * root
    along = cross(rows, unit_without(target[None], root, beside))[:, 0]
    whole, inside = np.einsum("in,in->i", rows, rows), cross(rows, beside)
    own = whole - np.einsum("ib,ib->i", inside, inside)
    share = along**2 / np.where(own > OWN * whole, own, np.inf)
    chosen = np.concatenate([np.arange(few), few + np.argsort(-share, kind="stable")[:MOST_PRODUCTS]])
    chosen = chosen[: len(at)]
    at, columns = at[chosen], columns[chosen]
    first, second = np.divmod(at, width)
    rows, y = unit_without(columns, root, alone), unit_without(target[None], root, alone)[0]
    weight = price[np.minimum(cost[at], len(price) - 1)]
    for together in _best_sums(cross(rows, rows), rows @ y, weight, 0.5 * len(y)):
        yield [(_product(terms.first[first[i]], terms.second[second[i]]), columns[i]) for i in together]


def _best_sums(gram: np.ndarray, along: np.ndarray, weight: np.ndarray, half: float) -> Iterator[tuple[int, ...]]:
    """Columns and pairs of them that explain most of a target, and threes with one of the first columns."""

    def leading(own: np.ndarray, target: np.ndarray, left: float, price: np.ndarray, most: int) -> list[Any]:
        """The best pairs, by about what they gain."""
        value, partner = np.empty(len(target)), np.empty(len(target), np.int64)
        best_pairs(own, target, left, price, half, OWN, value, partner)
        order = np.argsort(-value)[:most]
        return [(float(value[i]), (int(partner[i]), int(i))) for i in order if partner[i] >= 0]

    threes = []
    for i in range(min(SIMPLEST, len(along) - 2)):
        shared, behind = gram[i, i + 1 :], slice(i + 1, None)
        own, target = gram[behind, behind] - np.outer(shared, shared), along[behind] - along[i] * shared
        beside = leading(own, target, 1.0 - along[i] ** 2, weight[behind], EACH)
        threes += [(weight[i] + gain, (i, *(i + 1 + j for j in pair))) for gain, pair in beside]
    threes.sort(key=lambda of: -of[0])
    alone = np.argsort(half * np.log1p(-np.minimum(along**2, 1.0 - 1e-12)) - weight, kind="stable")
    yield from ((int(i),) for i in alone[:BEST])
    for _, pair_or_three in (*leading(gram, along, 1.0, weight, BEST), *threes[:BEST]):
        yield pair_or_three


def _product(one: Factor, other: Factor) -> Feature:
    return Feature.product(*(f.node for f in (one, other) if isinstance(f.node, Feature)))


def _sums(summands: Sequence[tuple[Feature, np.ndarray]], target: np.ndarray, root: np.ndarray) -> Iterator[Feature]:
    """Sums of some terms, and of these and a number; coefficients are equal or constants."""
    for some in (summands, [*summands, (Feature.one(), np.ones(len(target)))]):
        if len(some) < 2:
            continue
        nodes, design = [node for node, _ in some], np.array([column for _, column in some]) * root
        fitted = np.linalg.lstsq(design.T, target * root, rcond=None)[0]
        if not fitted.all():
            continue
        ratios = fitted / fitted[:, None]
        alike = np.abs(np.abs(ratios) - 1.0) <= NEAR
        # Beside the term that most others are like; constants where they only seem so.
        i = int(np.argmax(alike.sum(axis=1)))
        for equal in np.unique([alike[i], np.arange(len(nodes)) == i], axis=0):
            yield Feature.sum_(*map(_beside, nodes, ratios[i], equal))


def _beside(node: Feature, ratio: float, equal: bool) -> Feature:
    """A term by its coefficient relative to that of another one."""
    return Feature.free(node) if not equal else node if ratio > 0.0 else Feature.minus(node)
