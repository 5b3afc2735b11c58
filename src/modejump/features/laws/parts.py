"""Parts that products are made of, for a census: functions and sums of simple arguments, as columns.

A constant inside a part has a few values, chosen by the scale of what it stands beside. They only have to be near
enough for the part to be recognised: whoever takes a part into a law fits its constants.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from modejump.core.errors import InputError
from modejump.features.laws.expression import Feature, raised
from modejump.features.laws.language import Laws

# Exponents of an argument of one covariate, of two and of three; of the terms of a sum.
SINGLE = tuple(map(Fraction, ("1", "2", "-1", "1/2", "3")))
OTHER_SINGLE = tuple(map(Fraction, ("-2", "-3", "-1/2")))
PAIRS = ((1, 1), (1, -1), (-1, 1), (2, 1), (1, 2), (2, -1), (-1, 2), (1, -2), (-2, 1), (2, 2), (2, -2), (-2, 2))
TRIPLES = ((1, 1, 1), (1, 1, -1), (1, -1, -1), (2, 1, -1), (2, -1, -1), (1, 1, -2))
TERMS = tuple(map(Fraction, ("1", "2", "-1", "1/2")))
# Arguments at most, and those of them that waves are made of: the simplest.
MOST_ARGUMENTS, MOST_WAVES = 240, 80
# Complexity of what is inside the factors of simple products, and how many of them are monomials, at most.
MOST_SIMPLE, MOST_MONOMIALS = 4, 160
# Where the zero of a sum lies over the range of its first term; scales of an argument over its range; cycles of a wave.
ZEROS = (-4.0, -1.0, -0.4, -0.15, -0.05, 1.05, 1.15, 1.4, 2.0, 5.0)
RATES = tuple(np.geomspace(0.3, 50.0, 14))
POWERS = (0.15, 0.4, 0.7, 0.85, 1.2, 1.4, 1.7, 2.5, 3.5, 5.0, 6.0, 8.0, 12.0)
GROWTHS = (*RATES, *(-rate for rate in RATES))
CYCLES = tuple(np.arange(0.25, 4.1, 0.25))
SHARES = (0.1, 0.3, 1.0, 3.0, 10.0)


class Argument(NamedTuple):
    """What a function is applied to: a monomial or a sum, its column, and the constant that this was made with."""

    node: Feature
    column: np.ndarray
    constant: float | None = None


class Part(NamedTuple):
    """A factor of a law and its column: a node, or a function of it, and perhaps a number beside that.

    The constant is the one that the column was made with, where the factor has just one.
    """

    node: Feature
    function: str | None
    number: Feature | None
    column: np.ndarray
    constant: float | None = None

    def factor(self) -> Feature:
        """The node, which is made where somebody asks for it: most parts are looked at once."""
        made = self.node if self.function is None else Feature.call(self.function, self.node)
        return made if self.number is None else Feature.sum_(made, self.number)


def monomials(language: Laws, x: np.ndarray) -> list[Argument]:
    """Products of powers of up to three covariates, the simplest first; at most `MOST_ARGUMENTS`."""
    allowed = {Fraction(0), *language.exponents}
    leaves = [Feature.covariate(name) for name in language.names]
    found: list[Argument] = []
    shapes: Sequence[tuple[int, Sequence[Sequence[Fraction | int]]]] = (
        (1, [(e,) for e in SINGLE]),
        (2, PAIRS),
        (3, [p for shape in TRIPLES for p in sorted(set(itertools.permutations(shape)))]),
    )
    for many, exponents in shapes:
        for chosen in itertools.combinations(range(len(leaves)), many):
            for some in exponents:
                if len(found) < MOST_ARGUMENTS and allowed.issuperset(map(Fraction, some)):
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
    return found[: 8 * MOST_ARGUMENTS]


def _shifted(language: Laws, argument: Argument) -> Iterator[Argument]:
    """An argument and a number: 1, -1, or a constant."""
    node, u, _ = argument
    one = Feature.one()
    yield Argument(Feature.sum_(node, one), u + 1.0)
    yield Argument(Feature.sum_(node, Feature.minus(one)), u - 1.0)
    if language.fits_constants:
        low, high = u.min(), u.max()
        total = Feature.sum_(node, Feature.free(one))
        for zero in ZEROS:
            constant = -(low + zero * (high - low))
            yield Argument(total, u + constant, constant)


def _mirrored(argument: Argument) -> Argument:
    """A sum with the other sign."""
    constant = None if argument.constant is None else -argument.constant
    return Argument(Feature.sum_(*map(Feature.minus, argument.node.children)), -argument.column, constant)


def _bells(language: Laws, argument: Argument) -> Iterator[Argument]:
    """The squared distance of a covariate from a constant, and another constant."""
    node, u, _ = argument
    if language.joint_constants > 1 and 2 in language.exponents:
        low, span = u.min(), np.ptp(u)
        one = Feature.free(Feature.one())
        total = Feature.sum_(Feature.power(Feature.sum_(node, one), 2), one)
        for at, width in itertools.product(np.arange(0.05, 1.0, 0.05), (0.05, 0.1, 0.2, 0.4)):
            yield Argument(total, (u - low - at * span) ** 2 + (width * span) ** 2)


def _scaled(language: Laws, argument: Argument, scales: Sequence[float]) -> Iterator[Argument]:
    """An argument as it is, and times a constant."""
    yield argument
    if language.fits_constants:
        node, u, _ = argument
        free, span = Feature.free(node), np.ptp(u)
        for scale in scales:
            yield Argument(free, scale / span * u, scale / span)


def _functions(language: Laws, argument: Argument, waves: bool) -> Iterator[Part]:
    """Functions of a monomial, and sums of these and a number."""
    node, u, _ = argument
    one = Feature.one()
    for transform in language.functions:
        name = transform.name
        if name == "exp":
            for inside in _scaled(language, argument, GROWTHS if waves else ()):
                grown = np.exp(inside.column)
                for sign, number in ((1.0, one), (-1.0, Feature.minus(one))):
                    yield Part(inside.node, name, number, grown + sign, inside.constant)
            if language.fits_constants:
                for sign, inner in ((1.0, node), (-1.0, Feature.minus(node))):
                    grown = np.exp(sign * u)
                    for level in np.quantile(grown, (0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 1.0)):
                        yield Part(inner, name, Feature.free(one), grown + level, float(level))
        elif name == "log":
            yield Part(node, name, None, transform(u))
            for inside in _shifted(language, argument):
                # Logarithms are of what is positive.
                positive = inside if inside.column[0] > 0.0 else _mirrored(inside)
                yield Part(positive.node, name, None, transform(positive.column), positive.constant)
        elif waves or name not in ("sin", "cos"):
            cycles = [2.0 * np.pi * c for c in CYCLES] if name in ("sin", "cos") else RATES
            for inside in _scaled(language, argument, cycles):
                yield Part(inside.node, name, None, transform(inside.column), inside.constant)


def parts_of(language: Laws, x: np.ndarray) -> list[Part]:
    """Factors of laws that are no powers of covariates: sums, and functions.

    Parameters
    ----------
    language : Laws
        Covariates, functions and exponents.
    x : ndarray of shape (columns, n)
        The covariates.
    """
    found: list[Part] = []
    with np.errstate(all="ignore"):
        for number, argument in enumerate(monomials(language, x)):
            found += [Part(node, None, None, column, c) for node, column, c in _shifted(language, argument)]
            found += _functions(language, argument, waves=number < MOST_WAVES)
            if argument.node.kind == "covariate":
                found += [Part(node, None, None, column) for node, column, _ in _bells(language, argument)]
        for node, column, constant in sums(language, x):
            found.append(Part(node, None, None, column, constant))
            functions = language.functions if node.constants == 0 else ()
            found += [Part(node, t.name, None, t(column)) for t in functions if t.name != "exp"]
    return [part for part in found if np.isfinite(part.column).all() and (part.column != 0.0).all()]


def factors_of(language: Laws, x: np.ndarray, parts: Sequence[Part]) -> tuple[list[Argument], list[Argument]]:
    """Factors of simple products: powers of parts, and monomials.

    Parameters
    ----------
    language : Laws
        Covariates, functions and exponents.
    x : ndarray of shape (columns, n)
        The covariates.
    parts : sequence of Part
        Parts that the first factors are made of.
    """
    first: list[Argument] = []
    for part in parts:
        simple = len(part.node.covariates) == 1 or (part.node.is_monomial and part.number is None)
        if not simple or part.node.complexity > MOST_SIMPLE:
            continue
        for e in (1, 2) if part.function is not None else (1, -1, 2, -2):
            if e in language.exponents:
                try:
                    node = Feature.power(part.factor(), e)
                except InputError:
                    continue
                # 1/x + c is (x + 1/c)/x, up to a factor: another constant, of a product that is there as well.
                constant = None if node.kind == "product" else part.constant
                first.append(Argument(node, raised(part.column, Fraction(e)), constant))
    second = [m for m in monomials(language, x) if len(m.node.covariates) < 3]
    return first, second[:MOST_MONOMIALS]


def summands_of(language: Laws, x: np.ndarray) -> list[Argument]:
    """More factors of the terms of sums: other powers of a covariate, and sums and differences of two.

    Parameters
    ----------
    language : Laws
        Covariates and exponents.
    x : ndarray of shape (columns, n)
        The covariates.
    """
    leaves = list(zip(map(Feature.covariate, language.names), x, strict=True))
    with np.errstate(all="ignore"):
        powers = [
            Argument(Feature.power(u, e), raised(a, e))
            for u, a in leaves
            for e in OTHER_SINGLE
            if e in language.exponents
        ]
    pairs = [
        Argument(Feature.sum_(u, term), a + sign * b)
        for (u, a), (v, b) in itertools.combinations(leaves, 2)
        for term, sign in ((v, 1.0), (Feature.minus(v), -1.0))
    ]
    return [argument for argument in (*powers, *pairs) if np.isfinite(argument.column).all()]


def exponentials_of(language: Laws, x: np.ndarray) -> list[Argument]:
    """Exponentials of a constant times a simple monomial or, for powers with any exponent, times a logarithm.

    Parameters
    ----------
    language : Laws
        Covariates, functions and exponents.
    x : ndarray of shape (columns, n)
        The covariates.
    """
    functions = {t.name: t for t in language.functions}
    if "exp" not in functions or not language.fits_constants:
        return []
    simple = [m for m in monomials(language, x) if len(m.node.covariates) < 3 and m.node.complexity <= MOST_SIMPLE]
    with np.errstate(all="ignore"):
        found = [inside for argument in simple for inside in _scaled(language, argument, GROWTHS)]
        if "log" in functions:
            found += [
                Argument(Feature.free(Feature.call("log", node)), sign * power * np.log(np.abs(u)), sign * power)
                for node, u, _ in simple
                if node.kind == "covariate" or (len(node.covariates) == 2 and node.complexity == 3)
                for power in POWERS
                for sign in (1.0, -1.0)
            ]
        return [
            Argument(Feature.call("exp", node), np.exp(column), constant)
            for node, column, constant in found
            if constant is not None
        ]


def growths_of(language: Laws, x: np.ndarray) -> list[Argument]:
    """What may stand inside an exponential with a constant before it.

    Parameters
    ----------
    language : Laws
        Covariates, functions and exponents.
    x : ndarray of shape (columns, n)
        The covariates.
    """
    if "exp" not in {t.name for t in language.functions} or not language.fits_constants:
        return []
    arguments = monomials(language, x)
    found = list(arguments)
    with np.errstate(all="ignore"):
        for node, column, _ in arguments[: len(language.names)]:
            found += [
                Argument(Feature.power(total, -1), 1.0 / shifted)
                for total, shifted, _ in _shifted(language, Argument(node, column))
                if -1 in language.exponents
            ]
            found += [
                Argument(Feature.call("exp", inside), np.exp(rate))
                for inside, rate, _ in _scaled(language, Argument(node, column), GROWTHS)
            ]
    return [growth for growth in found if np.isfinite(growth.column).all() and np.ptp(growth.column) > 0.0]
