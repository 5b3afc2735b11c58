"""Arguments of functions, for a census: monomials, and sums of few terms, as columns.

A constant inside an argument has a few values, chosen by the scale of what it stands beside.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from modejump.features.laws.expression import Feature, raised
from modejump.features.laws.language import Laws

# Exponents of a monomial of one covariate, of two, of three and of four.
SINGLE = tuple(map(Fraction, ("1", "2", "-1", "1/2", "3")))
HALF = Fraction("1/2")
PAIRS = (
    (1, 1), (1, -1), (-1, 1), (2, 1), (1, 2), (2, -1), (-1, 2), (1, -2), (-2, 1), (-1, -1), (2, 2), (2, -2), (-2, 2),
    (-2, -2), (HALF, HALF), (HALF, -HALF), (-HALF, HALF),
)  # fmt: skip
TRIPLES = ((1, 1, 1), (1, 1, -1), (1, -1, -1), (2, 1, -1), (2, -1, -1), (1, 1, -2))
FOURS = ((1, 1, -1, -1), (1, 1, 1, -1), (1, 1, 1, 1), (1, -1, -1, -1))
# Exponents of the terms of a sum, and more of them where both are alike.
TERMS = tuple(map(Fraction, ("1", "2", "-1", "1/2")))
ALIKE = tuple(map(Fraction, ("3", "4", "-2", "3/2")))
# Monomials at most, and those of them, the simplest, that have constants beside them; sums of a kind at most.
MOST_MONOMIALS, MOST_ARGUMENTS = 480, 240
# Of more covariates than this there are too many combinations of three and four.
MOST_COVARIATES = 6
# Range of a term with a constant over that of the other one.
SHARES = (0.1, 0.3, 1.0, 3.0, 10.0)
# Where the zero of a sum lies over its range, where there is another constant.
FEW_ZEROS = (-1.0, -0.3, -0.1, 1.05, 1.2, 1.6, 3.0)


class Argument(NamedTuple):
    """What a function is applied to: a monomial or a sum, its column, and the constant that this was made with."""

    node: Feature
    column: np.ndarray
    constant: float | None = None


def monomials(language: Laws, x: np.ndarray) -> list[Argument]:
    """Products of powers of up to four covariates, the simplest first; at most `MOST_MONOMIALS`, or half of these."""
    most = MOST_MONOMIALS if len(language.names) <= MOST_COVARIATES else MOST_ARGUMENTS
    allowed = {Fraction(0), *language.exponents}
    leaves = [Feature.covariate(name) for name in language.names]
    found: list[Argument] = []
    shapes: Sequence[tuple[int, Sequence[Sequence[Fraction | int]]]] = (
        (1, [(e,) for e in SINGLE]),
        (2, PAIRS),
        *(
            (len(some[0]), [p for shape in some for p in sorted(set(itertools.permutations(shape)))])
            for some in (TRIPLES, FOURS)
        ),
    )
    with np.errstate(all="ignore"):
        for chosen, some in (
            (chosen, some)
            for many, exponents in shapes
            for some in exponents
            for chosen in itertools.combinations(range(len(leaves)), many)
        ):
            if len(found) < most and allowed.issuperset(map(Fraction, some)):
                node = Feature.product(*(Feature.power(leaves[j], e) for j, e in zip(chosen, some, strict=True)))
                column = np.prod([raised(x[j], Fraction(e)) for j, e in zip(chosen, some, strict=True)], axis=0)
                found.append(Argument(node, column))
    return found


def sums(language: Laws, x: np.ndarray) -> list[Argument]:
    """Sums and differences of powers of two covariates, the second with a constant as well, and plain sums of three."""
    found: list[Argument] = []
    leaves = [Feature.covariate(name) for name in language.names]
    for e, f in itertools.product(TERMS, TERMS):
        if e not in language.exponents or f not in language.exponents:
            continue
        for i, j in itertools.combinations(range(len(leaves)), 2):
            u, v = Feature.power(leaves[i], e), Feature.power(leaves[j], f)
            a, b = raised(x[i], e), raised(x[j], f)
            found += [Argument(Feature.sum_(u, v), a + b), Argument(Feature.sum_(u, Feature.minus(v)), a - b)]
            if language.fits_constants:
                scale = np.ptp(a) / np.ptp(b)
                free = Feature.sum_(u, Feature.free(v))
                shares = [sign * k * scale for k in SHARES for sign in (1.0, -1.0)]
                found += [Argument(free, a + share * b, share) for share in shares]
        if e == f:
            for some in itertools.combinations(range(len(leaves)), 3):
                node = Feature.sum_(*(Feature.power(leaves[j], e) for j in some))
                found.append(Argument(node, np.sum([raised(x[j], e) for j in some], axis=0)))
    more: list[Argument] = []
    for e in ALIKE:
        powers = [(Feature.power(u, e), raised(a, e)) for u, a in zip(leaves, x, strict=True)]
        more += plus_and_minus(powers) if e in language.exponents else []
    products = _sums_of_products(language, x)
    return [*found[: 8 * MOST_ARGUMENTS], *more, *_squares(language, x), *products, *_planes(language, x)]


def plus_and_minus(terms: Sequence[tuple[Feature, np.ndarray]]) -> list[Argument]:
    """Sums and differences of two terms."""
    return [
        Argument(Feature.sum_(u, term), a + sign * b)
        for (u, a), (v, b) in itertools.combinations(terms, 2)
        for term, sign in ((v, 1.0), (Feature.minus(v), -1.0))
    ]


def _sums_of_products(language: Laws, x: np.ndarray) -> list[Argument]:
    """Sums and differences of a product or quotient of two covariates and another covariate, or two others.

    Their squares as well, and with a constant before the second where there are few.
    """
    leaves = list(zip(map(Feature.covariate, language.names), x, strict=True))

    def pairs(i: int, j: int) -> Iterator[tuple[Feature, np.ndarray]]:
        (u, a), (v, b) = leaves[i], leaves[j]
        for e, f in ((1, 1), (1, -1), (-1, 1)):
            if {e, f} <= {1, *language.exponents}:
                node = Feature.product(Feature.power(u, e), Feature.power(v, f))
                yield node, raised(a, Fraction(e)) * raised(b, Fraction(f))

    found: list[Argument] = []
    everyone = range(len(leaves)) if len(leaves) <= MOST_COVARIATES else range(0)
    for i, j in itertools.combinations(everyone, 2):
        others = [(leaves[k], 2) for k in everyone if k not in (i, j)]
        others += [
            (of, 1) for k, m in itertools.combinations(everyone[i + 1 :], 2) if j not in (k, m) for of in pairs(k, m)
        ]
        for one, (other, most) in itertools.product(pairs(i, j), others):
            for e in range(1, most + 1):
                terms = [(Feature.power(u, e), a**e) for u, a in (other, one)]
                found += plus_and_minus(terms)
                if language.fits_constants and len(leaves) < 5:
                    (u, a), (v, b) = terms
                    node, scale = Feature.sum_(u, Feature.free(v)), np.ptp(a) / np.ptp(b)
                    shares = [sign * k * scale for k in SHARES for sign in (1.0, -1.0)]
                    found += [Argument(node, a + share * b, share) for share in shares]
    return found[: 8 * MOST_ARGUMENTS]


def _planes(language: Laws, x: np.ndarray) -> list[Argument]:
    """A covariate, another one or its own square with a constant before it, and another constant."""
    found: list[Argument] = []
    leaves = list(zip(map(Feature.covariate, language.names), x, strict=True))
    squares = [(leaf, (Feature.power(leaf[0], 2), leaf[1] ** 2)) for leaf in leaves if 2 in language.exponents]
    for (u, a), (v, b) in (*squares, *itertools.combinations(leaves, 2)) if language.joint_constants > 1 else ():
        node, scale = Feature.sum_(u, Feature.free(v), Feature.free(Feature.one())), np.ptp(a) / np.ptp(b)
        for share, sign in itertools.product(SHARES, (1.0, -1.0)):
            column = a + sign * share * scale * b
            found += [Argument(node, column - column.min() - zero * np.ptp(column)) for zero in FEW_ZEROS]
    return found[: 4 * MOST_ARGUMENTS]


def _squares(language: Laws, x: np.ndarray) -> list[Argument]:
    """Sums of the squares of two terms without a covariate in common: covariates, their sums and their differences."""
    if 2 not in language.exponents:
        return []
    leaves = list(zip(map(Feature.covariate, language.names), x, strict=True))
    terms = [Argument(*leaf) for leaf in leaves] + plus_and_minus(leaves)
    return [
        Argument(Feature.sum_(Feature.power(u.node, 2), Feature.power(v.node, 2)), u.column**2 + v.column**2)
        for u, v in itertools.combinations(terms, 2)
        if not u.node.covariates & v.node.covariates and v.node.kind == "sum"
    ][:MOST_ARGUMENTS]


def ratios(language: Laws, x: np.ndarray) -> list[Argument]:
    """Reciprocals of sums and differences of two covariates, and parts of the whole."""
    if -1 not in language.exponents:
        return []
    found = []
    for (name, a), (other, b) in itertools.combinations(zip(language.names, x, strict=True), 2):
        u, v = Feature.covariate(name), Feature.covariate(other)
        for term, total in ((v, a + b), (Feature.minus(v), a - b)):
            if not 0.0 < np.abs(total).min():
                continue
            under = Feature.power(Feature.sum_(u, term), -1)
            found.append(Argument(under, 1.0 / total))
            over = ((u, a), (v, b), (Feature.product(u, v), a * b))
            found += [Argument(Feature.product(top, under), column / total) for top, column in over]
    return found


def distances(language: Laws, x: np.ndarray) -> list[Argument]:
    """Distances of two covariates or of their reciprocals, and squares, beside powers of another one; squared distances
    from a constant.
    """
    found: list[Argument] = []
    leaves = list(zip(map(Feature.covariate, language.names), x, strict=True))
    exponents = [e for e in (1, 2) if e in language.exponents]

    def far_of(u: Feature, v: Feature) -> Feature:
        return Feature.sum_(u, Feature.minus(v))

    for (u, a), (v, b) in itertools.combinations(leaves, 2):
        for e in exponents:
            far, column = Feature.power(far_of(u, v), e), (a - b) ** e
            found.append(Argument(far, column))
            for (w, c), k in itertools.product(leaves, (-1, -2, 1)):
                if w not in (u, v) and k in language.exponents:
                    found.append(Argument(Feature.product(far, Feature.power(w, k)), column * c**k))
        if -1 in language.exponents:
            # The distance of their reciprocals, such as of temperatures.
            far, column = Feature.product(far_of(u, v), Feature.power(Feature.product(u, v), -1)), 1.0 / a - 1.0 / b
            found.append(Argument(far, column))
            found += [Argument(Feature.product(far, w), column * c) for w, c in leaves if w not in (u, v)]
    if 2 in exponents:
        for u, a in leaves:
            far = Feature.power(Feature.sum_(u, Feature.free(Feature.one())), 2)
            found += [Argument(far, (a - a.min() - at * np.ptp(a)) ** 2) for at in np.arange(0.05, 1.0, 0.05)]
    return found[:MOST_ARGUMENTS]


def powers_by_covariates(language: Laws, x: np.ndarray) -> list[Argument]:
    """Exponents of powers with a covariate in them: u^w, (1 + u)^w and (u/v)^w are exponentials of these."""
    if "log" not in {t.name for t in language.functions} or len(language.names) > MOST_COVARIATES:
        return []
    leaves = list(zip(map(Feature.covariate, language.names), x, strict=True))
    bases = [*leaves, *((Feature.sum_(u, Feature.one()), a + 1.0) for u, a in leaves)]
    if -1 in language.exponents:
        pairs = itertools.combinations(leaves, 2)
        bases += [(Feature.product(u, Feature.power(v, -1)), a / b) for (u, a), (v, b) in pairs]
    return [
        Argument(Feature.product(w, Feature.call("log", base)), c * np.log(np.abs(column)))
        for (w, c), (base, column) in itertools.product(leaves, bases)
        if not w.covariates <= base.covariates
    ]
