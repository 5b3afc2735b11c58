"""Parts that products are made of, for a census: functions and sums of simple arguments, as columns.

A constant inside a part has a few values, chosen by the scale of what it stands beside. They only have to be near
enough for the part to be recognised: whoever takes a part into a law fits its constants.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np

from modejump.core.errors import InputError
from modejump.features.laws.arguments import (
    FEW_ZEROS,
    HALF,
    MOST_ARGUMENTS,
    MOST_COVARIATES,
    Argument,
    distances,
    monomials,
    plus_and_minus,
    powers_by_covariates,
    ratios,
    sums,
)
from modejump.features.laws.expression import Feature, raised
from modejump.features.laws.language import Laws

# Exponents of a covariate in the terms of sums, as a first factor and as a second.
FIRST_SINGLE = tuple(map(Fraction, ("1", "-1", "2", "-2")))
OTHER_SINGLE = tuple(map(Fraction, ("-2", "-3", "-1/2")))
# Arguments that waves are made of, and those of functions beside a number, at most: the simplest.
MOST_WAVES, MOST_BESIDE = 80, 12
# Complexity of what is inside the factors of simple products, and how many of them are monomials, at most.
MOST_SIMPLE, MOST_SECOND = 4, 180
# Where the zero of a sum lies over the range of its first term; scales of an argument over its range; cycles of a wave.
ZEROS = (-4.0, -1.0, -0.4, -0.15, -0.05, 1.05, 1.15, 1.4, 2.0, 5.0)
RATES = tuple(np.geomspace(0.3, 50.0, 14))
POWERS = (0.15, 0.4, 0.7, 0.85, 1.2, 1.4, 1.7, 2.5, 3.5, 5.0, 6.0, 8.0, 12.0)
GROWTHS = (*RATES, *(-rate for rate in RATES))
CYCLES = tuple(np.arange(0.25, 4.1, 0.25))
# The same where there is another constant.
INSIDE = tuple(np.arange(0.1, 1.0, 0.1))
FEW_RATES = (2.0, 4.0, 8.0, 16.0, 32.0)
# What stands beside an exponential: nothing, 1 or -1.
NUMBERS = ((0.0, None), (1.0, Feature.one()), (-1.0, Feature.minus(Feature.one())))


class Part(NamedTuple):
    """A factor of a law and its column: a node, or a function of it, and perhaps a number beside that.

    The constant is the one that the column was made with, where the factor has just one.
    """

    node: Feature
    function: str | None
    number: Feature | None
    column: np.ndarray
    constant: float | None = None

    @property
    def constants(self) -> int:
        """How many constants it has."""
        return self.node.constants + (0 if self.number is None else self.number.constants)


def made_of(node: Feature, function: str | None, number: Feature | None) -> Feature:
    """What a part is, made where somebody asks for it: most parts are looked at once."""
    made = node if function is None else Feature.call(function, node)
    return made if number is None else Feature.sum_(made, number)


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


def _beside_numbers(language: Laws, argument: Argument) -> Iterator[Argument]:
    """Functions of an argument and a number, squares of waves among them; exponentials with two constants."""
    node, u, _ = argument
    for transform in language.functions:
        call = Feature.call(transform.name, node)
        if transform.name != "exp":
            yield from _shifted(language, Argument(call, transform(u)))
        if transform.name in ("sin", "cos") and 2 in language.exponents:
            yield from _shifted(language, Argument(Feature.power(call, 2), transform(u) ** 2))
        if transform.name == "exp" and language.joint_constants > 1:
            total = Feature.sum_(Feature.call("exp", Feature.free(node)), Feature.free(Feature.one()))
            for inside in itertools.islice(_scaled(language, argument, GROWTHS), 1, None, 2):
                grown = np.exp(inside.column)
                for zero in FEW_ZEROS:
                    yield Argument(total, grown - grown.min() - zero * np.ptp(grown))


def _thresholds(language: Laws, x: np.ndarray) -> Iterator[Argument]:
    """One and the exponential of how far a covariate is from a constant or another covariate, relative to one more."""
    names = {t.name for t in language.functions}
    if language.joint_constants < 2 or -1 not in language.exponents or "exp" not in names or len(x) > MOST_COVARIATES:
        return
    one = Feature.one()
    for (name, a), (other, b) in itertools.permutations(zip(language.names, x, strict=True), 2):
        distance = Feature.sum_(Feature.covariate(name), Feature.free(one))
        inside = Feature.product(distance, Feature.power(Feature.covariate(other), -1))
        total = Feature.sum_(Feature.call("exp", Feature.free(inside)), one)
        for at, rate, sign in itertools.product(INSIDE, FEW_RATES, (1.0, -1.0)):
            column = (a - a.min() - at * np.ptp(a)) / b
            yield Argument(total, np.exp(sign * rate * column / np.ptp(column)) + 1.0)
        for third, c in zip(language.names, x, strict=True):
            if third > name and third != other:
                distance = Feature.sum_(Feature.covariate(name), Feature.minus(Feature.covariate(third)))
                inside = Feature.product(distance, Feature.power(Feature.covariate(other), -1))
                total = Feature.sum_(Feature.call("exp", Feature.free(inside)), one)
                column = (a - c) / b
                for rate, sign in itertools.product(FEW_RATES, (1.0, -1.0)):
                    yield Argument(
                        total, np.exp(sign * rate * column / np.ptp(column)) + 1.0, sign * rate / np.ptp(column)
                    )


def _decays(language: Laws, x: np.ndarray) -> Iterator[Argument]:
    """Differences of two exponentials, of products or quotients that have a covariate in common."""
    leaves = list(zip(map(Feature.covariate, language.names), x, strict=True))
    if "exp" not in {t.name for t in language.functions} or len(leaves) > MOST_COVARIATES:
        return
    for (u, a), e in itertools.product(leaves, (1, -1)):
        some = [(Feature.product(u, Feature.power(v, e)), a * raised(b, Fraction(e))) for v, b in leaves if v != u]
        for (one, c), (other, d) in itertools.combinations(some if e in {1, *language.exponents} else (), 2):
            first, second = (Feature.call("exp", Feature.minus(node)) for node in (one, other))
            yield Argument(Feature.sum_(first, Feature.minus(second)), np.exp(-c) - np.exp(-d))


def _saturations(language: Laws, x: np.ndarray) -> Iterator[Argument]:
    """Any power of a covariate and a constant, and any power of the ratio of two and 1."""
    if not {"exp", "log"} <= {t.name for t in language.functions} or language.joint_constants < 2:
        return
    leaves = list(zip(map(Feature.covariate, language.names), x, strict=True))
    one, exponents = Feature.one(), [sign * power for power in POWERS for sign in (1.0, -1.0)]
    for u, a in leaves:
        total = Feature.sum_(Feature.call("exp", Feature.free(Feature.call("log", u))), Feature.free(one))
        for exponent in exponents:
            grown = np.abs(a) ** exponent
            for zero in FEW_ZEROS:
                yield Argument(total, grown - grown.min() - zero * np.ptp(grown))
    for (u, a), (v, b) in itertools.combinations(leaves if -1 in language.exponents else (), 2):
        ratio = Feature.product(u, Feature.power(v, -1))
        total = Feature.sum_(Feature.call("exp", Feature.free(Feature.call("log", ratio))), one)
        for exponent in exponents:
            yield Argument(total, np.abs(a / b) ** exponent + 1.0, exponent)


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
        plain = language.without_constants()
        for number, argument in enumerate(monomials(language, x)):
            if number >= MOST_ARGUMENTS:
                found += [Part(node, None, None, column) for node, column, _ in _shifted(plain, argument)]
                found += _functions(plain, argument, waves=False)
                continue
            found += [Part(node, None, None, column, c) for node, column, c in _shifted(language, argument)]
            found += _functions(language, argument, waves=number < MOST_WAVES)
            more = list(_bells(language, argument)) if argument.node.kind == "covariate" else []
            more += _beside_numbers(language, argument) if number < MOST_BESIDE else ()
            found += [Part(node, None, None, column, c) for node, column, c in more]
        for kind in (_thresholds, _decays, _saturations):
            found += [Part(node, None, None, column, c) for node, column, c in kind(language, x)]
        for node, u, _ in powers_by_covariates(language, x) if "exp" in {t.name for t in language.functions} else ():
            for sign, inner in ((1.0, node), (-1.0, Feature.minus(node))):
                found += [Part(inner, "exp", number, np.exp(sign * u) + k) for k, number in NUMBERS]
        for node, column, constant in sums(language, x):
            found.append(Part(node, None, None, column, constant))
            functions = language.functions if node.constants == 0 else ()
            found += [Part(node, t.name, None, t(column)) for t in functions if t.name != "exp"]
    columns = np.array([part.column for part in found]).reshape(-1, x.shape[1])
    usable = (np.isfinite(columns) & (columns != 0.0)).all(axis=1)
    return list(itertools.compress(found, usable))


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

    @cache
    def power(node: Feature, function: str | None, number: Feature | None, e: Fraction | int) -> Feature | None:
        try:
            return Feature.power(made_of(node, function, number), e)
        except InputError:
            return None

    for part in parts:
        simple = len(part.node.covariates) == 1 or (part.node.is_monomial and part.number is None)
        # Sums of two covariates are in denominators, with a constant or without.
        total = part.function is None and part.number is None and part.node.kind == "sum" and not simple
        if not (simple or total) or part.node.complexity > MOST_SIMPLE:
            continue
        # Where no constant is told from an exponent, roots as well.
        roots = (HALF, -HALF) if part.constant is None else ()
        for e in (-1,) if total else (1, 2) if part.function is not None else (1, -1, 2, -2, *roots):
            node = power(*part[:3], e) if e in language.exponents else None
            if node is not None:
                # 1/x + c is (x + 1/c)/x, up to a factor: another constant, of a product that is there as well.
                constant = None if node.kind == "product" else part.constant
                first.append(Argument(node, raised(part.column, Fraction(e)), constant))
    first += ratios(language, x)
    found = monomials(language, x)
    second = [m for m in found if len(m.node.covariates) < 3][:MOST_SECOND]
    # A function beside three covariates, as in q*v*B*sin(angle).
    if len(language.names) <= MOST_COVARIATES:
        three = (m for m in found if len(m.node.covariates) == 3)
        second += [m for m in three if all(abs(u.exponent or 1) == 1 for u in m.node.children)]
    return first, second


def summands_of(language: Laws, x: np.ndarray) -> list[Argument]:
    """More second factors of the terms of sums: other powers of a covariate, and sums and differences of two.

    Parameters
    ----------
    language : Laws
        Covariates and exponents.
    x : ndarray of shape (columns, n)
        The covariates.
    """
    leaves = list(zip(map(Feature.covariate, language.names), x, strict=True))
    totals = [argument for argument in plus_and_minus(leaves) if np.isfinite(argument.column).all()]
    return [*powers_of(language, x, OTHER_SINGLE), *totals]


def powers_of(language: Laws, x: np.ndarray, exponents: Sequence[Fraction] = FIRST_SINGLE) -> list[Argument]:
    """Powers of a covariate; by default more first factors of the terms of sums, for monomials of three covariates.

    Parameters
    ----------
    language : Laws
        Covariates and exponents.
    x : ndarray of shape (columns, n)
        The covariates.
    exponents : sequence of Fraction
        The exponents, of which the language's are taken.
    """
    leaves = list(zip(map(Feature.covariate, language.names), x, strict=True))
    some = [e for e in exponents if e in language.exponents]
    with np.errstate(all="ignore"):
        powers = [Argument(Feature.power(u, e), raised(a, e)) for (u, a), e in itertools.product(leaves, some)]
    return [argument for argument in powers if np.isfinite(argument.column).all()]


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
    with np.errstate(all="ignore"):
        arguments = monomials(language, x)
        found = arguments[:MOST_ARGUMENTS]
        found += [*distances(language, x), *powers_by_covariates(language, x)]
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
    found += arguments[MOST_ARGUMENTS:]
    return [growth for growth in found if np.isfinite(growth.column).all() and np.ptp(growth.column) > 0.0]
