"""A census of products: which functions and powers, multiplied, explain the response or what a model leaves of it.

The logarithm of a product is a sum, so that tens of thousands of products of a function, an exponential and powers of
all covariates are compared by least squares in a tenth of a second, each with its best exponents. These are rounded,
and the best products are handed to a search, which fits their constants and judges them.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from modejump.features.expression import Expression
from modejump.features.laws.expression import Feature, evaluate
from modejump.features.laws.fitting.constants import spread_rows
from modejump.features.laws.language import Laws
from modejump.features.laws.measures import COMMON_EXPONENTS, exponent_complexity
from modejump.features.laws.parts import Part, factors_of, growths_of, made_of, parts_of
from modejump.kernels.census import best_partners
from modejump.problem.feature_problem import FeatureProblem
from modejump.samplers.warmup.census import OWN, SHARE, Census, Factor, basis_of, cross, unit_without
from modejump.samplers.warmup.inner_sums import powers_of_sums, terms_of

# Parts at most, and growths that each of them is compared with; products of each kind whose exponents are rounded, and
# that are suggested then.
MOST_PARTS, MOST_GROWTHS = 20_000, 560
ROUNDED = 60
SUGGESTED, SUGGESTED_RICH = 24, 64
# Exponents that are further than this from those of the space are fitted; those as near to 1 as this may be 1.
FITTED, IN_PROPORTION = 0.01, 0.05


class Product(NamedTuple):
    """A product by its parts: -1 where it has none; a growth is inside an exponential."""

    part: int
    growth: int
    other: int


NONE = Product(-1, -1, -1)
# About what a product loses, the product, and the exponents of covariates and of its parts.
Rounded = tuple[float, Product, tuple[Fraction, ...]]


class Question(NamedTuple):
    """What products are asked to explain, and which of the parts, growths and covariates they may be made of."""

    weight: np.ndarray
    logs: np.ndarray
    parts: np.ndarray
    growths: np.ndarray
    leaves: np.ndarray


def _numbered(forms: Iterable[Hashable]) -> tuple[np.ndarray, list[Any]]:
    """Equal forms by one number, and the forms by their numbers."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(form, len(numbers)) for form in forms], np.int64), list(numbers)


def _spread(parts: Sequence[Part], most: int) -> list[Part]:
    """So many parts, spread evenly."""
    return [parts[i] for i in spread_rows(len(parts), most)]


def _leading(value: np.ndarray, form: np.ndarray, count: int) -> np.ndarray:
    """Where the largest values are, one of each form, the largest first."""
    order = np.argsort(-value, kind="stable")
    first = np.sort(np.unique(form[order], return_index=True)[1])
    return order[first[:count]]


def _apart(factors: Sequence[Feature]) -> list[frozenset[str]]:
    """Covariates of functions in a product that have none in common with the rest of it."""
    groups: list[frozenset[str]] = []
    for f in factors:
        touched = [group for group in groups if group & f.covariates]
        groups = [group for group in groups if group not in touched] + [f.covariates.union(*touched)]
    plain = [f.covariates for f in factors if (f.children[0] if f.kind == "power" else f).kind == "covariate"]
    return [group for group in groups if plain.count(group) < sum(f.covariates <= group for f in factors)]


def least_squares(designs: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Coefficients of least squares, for each design and each of its right-hand sides.

    Parameters
    ----------
    designs : ndarray of shape (m, p, n)
        Columns of each design, as rows.
    rows : ndarray of shape (m, k, n)
        Right-hand sides.
    """
    q, r = np.linalg.qr(designs.swapaxes(1, 2))
    # Columns that depend on each other have coefficients of any size, and what is made of them is no good.
    r = r + np.finfo(float).eps * np.abs(r).max(axis=(1, 2), keepdims=True) * np.eye(r.shape[1])
    return np.linalg.solve(r, (rows @ q).swapaxes(1, 2)).swapaxes(1, 2)


class ProductCensus(Census):
    """Products of parts and powers of covariates, over some rows of a problem.

    Parameters
    ----------
    problem : FeatureProblem
        A problem over laws for which there can be a census.
    """

    languages: ClassVar[tuple[type, ...]] = (Laws,)
    varied = True
    product = staticmethod(Feature.product)
    language: Laws

    def __init__(self, problem: FeatureProblem) -> None:
        super().__init__(problem)
        with np.errstate(divide="ignore"):
            powers = np.log(np.abs(np.array(list(self.table.values()))))
        used = np.flatnonzero(np.isfinite(powers).all(axis=1))
        self.leaves = [Feature.covariate(problem.names[j]) for j in used]
        self.powers = powers[used]
        self.leaf_bits = 1 << used.astype(np.int64)
        self.exponents = np.array([0.0, *map(float, self.language.exponents)])
        self.fractions = [Fraction(0), *self.language.exponents]
        # Complexity of exponents beyond that of their bases, as they are, and where all factors have one in common.
        beyond = [[0, *(exponent_complexity(e / q) for e in self.language.exponents)] for q in COMMON_EXPONENTS]
        self.beyond, self.common = np.array(beyond), np.array([exponent_complexity(q) for q in COMMON_EXPONENTS])
        # Products that somebody has asked for by their forms and exponents, None where they are no features.
        self._features: dict[tuple[Any, ...], Expression | None] = {}

    @staticmethod
    def is_rational(feature: Expression) -> bool:
        """Whether a first factor has no functions in it."""
        assert isinstance(feature, Feature)
        return all(inside.function is None for inside in feature.subfeatures())

    def factors(self, x: np.ndarray) -> tuple[list[Factor], list[Factor]]:
        """First and second factors; the parts of products are made with them."""
        language = self.language
        self.terms = terms_of(language, x)
        parts = parts_of(language, x)
        # Parts with several constants imitate much: they are compared among themselves, and have no partners.
        rich = [part for part in parts if part.constants > 1]
        # Of parts that differ by a constant alone, some will do where there are very many.
        alone = [part for part in parts if not part.constants][:MOST_PARTS]
        with_one = [part for part in parts if part.constants == 1]
        parts = [*alone, *_spread(with_one, MOST_PARTS - len(alone)), *_spread(rich, MOST_PARTS)]
        self.rich = np.array([part.constants > 1 for part in parts], bool)
        growths = growths_of(language, x)
        # Parts that differ by the value of a constant alone, and growths likewise, have one number.
        self.form, self.forms = _numbered(part[:3] for part in parts)
        complexity = [
            node.complexity + (function is not None) + 2 * (number is not None) for node, function, number in self.forms
        ]
        self.part_complexity = np.array(complexity, np.int64)[self.form]
        self.part_bits = np.array([self._bits(form[0].covariates) for form in self.forms], np.int64)[self.form]
        self.inside_form, self.insides = _numbered(growth.node for growth in growths)
        of = [(2 + node.complexity, self._bits(node.covariates)) for node in self.insides]
        self.growth_complexity, self.growth_bits = np.array(of, np.int64).reshape(-1, 2)[self.inside_form].T
        self.parts = np.log(np.abs(np.array([part.column for part in parts]).reshape(-1, x.shape[1])))
        self.growths = np.array([growth.column for growth in growths]).reshape(-1, x.shape[1])
        first, second = factors_of(language, x, parts)
        return [Factor(*f) for f in first], [Factor(*f) for f in second]

    def suggest(self, target: np.ndarray, rng: np.random.Generator) -> list[Expression]:
        """Products that explain a target: the most promising of each kind.

        Parameters
        ----------
        target : ndarray
            What the product should explain, by the rows of the census.
        rng : Generator
            Which of the parts are looked at.
        """
        exponents = self.exponents_in(target)
        found = [*self._power_law(exponents), *self._suggested(target, rng, np.zeros(len(target)), -1)]
        return found + self.sums(target, exponents, rng)

    def sums(self, target: np.ndarray, exponents: np.ndarray, rng: np.random.Generator) -> list[Expression]:
        """Powers of sums that explain a target; now and then beside covariates that it seems to be in proportion to.

        Parameters
        ----------
        target : ndarray
            What is to be explained.
        exponents : ndarray
            Those of the covariates in the product of powers that fits it best.
        rng : Generator
            Which terms are looked at.
        """
        one = (np.abs(np.abs(exponents) - 1.0) < IN_PROPORTION) & (rng.random() < 0.5)
        powers = np.where(one, np.sign(exponents), 0.0)
        outside = [(self.leaves[j], int(powers[j])) for j in np.flatnonzero(powers)]
        apart = np.exp(powers @ self.powers)
        return powers_of_sums(self.terms, target, self.root, self.price, self.made, rng, outside, apart)

    def exponents_in(self, target: np.ndarray) -> np.ndarray:
        """Exponents of the covariates in the product of powers that fits a target best.

        Parameters
        ----------
        target : ndarray
            What is to be explained.
        """
        weight = np.abs(target) * self.root
        if not 0.0 < np.linalg.norm(weight) < np.inf:
            return np.zeros(len(self.powers))
        logs = np.log(np.maximum(np.abs(target), np.finfo(float).tiny))
        design = np.vstack([np.ones(len(weight)), self.powers]) * weight
        return np.linalg.lstsq(design.T, logs * weight, rcond=None)[0][1:]

    def _power_law(self, exponents: np.ndarray) -> list[Expression]:
        """The product of these powers; exponents far from those of the space are constants."""
        nearest = self._nearest(exponents)
        fitted = np.abs(exponents - self.exponents[nearest]) > FITTED
        powers = [(self.leaves[j], self.fractions[nearest[j]]) for j in np.flatnonzero(~fitted & (nearest > 0))]
        if fitted.any():
            inside = [Feature.free(Feature.call("log", self.leaves[j])) for j in np.flatnonzero(fitted)]
            powers.append((Feature.call("exp", Feature.sum_(*inside)), Fraction(1)))
        made = self.made(Feature.monomial, *powers) if powers else None
        return [] if made is None else [made]

    def suggest_factors(
        self, target: np.ndarray, own: Expression, constants: np.ndarray, rng: np.random.Generator
    ) -> list[Expression]:
        """Products with other factors of some covariates, the others as they are.

        Where a law is a product of functions of different covariates, each can be looked for by itself: fewer things
        imitate it then.

        Parameters
        ----------
        target : ndarray
            What the product should explain, by the rows of the census.
        own : Feature
            The product.
        constants : ndarray
            The constants inside it.
        rng : Generator
            Which of the parts are looked at.
        """
        assert isinstance(own, Feature)
        factors = own.children if own.kind == "product" else (own,)
        ends = np.cumsum([f.constants for f in factors])[:-1]
        with np.errstate(all="ignore"):
            logs = [
                np.log(np.abs(evaluate(f, self.table, some)))
                for f, some in zip(factors, np.split(constants, ends), strict=True)
            ]
        found: list[Expression] = []
        for inside in _apart(factors):
            rest = [i for i, f in enumerate(factors) if not f.covariates & inside]
            if rest and np.isfinite(beside := np.sum([logs[i] for i in rest], axis=0)).all():
                suggested = self._suggested(target, rng, beside, self._bits(inside))
                made = [self.made(self.product, f, *(factors[i] for i in rest)) for f in suggested]
                found += [f for f in made if f is not None]
        return found

    def _bits(self, covariates: Iterable[str]) -> int:
        """Covariates by bits."""
        return sum(1 << self.language.names.index(name) for name in covariates)

    def _suggested(
        self, target: np.ndarray, rng: np.random.Generator, beside: np.ndarray, inside: int
    ) -> list[Expression]:
        """Products of some covariates, by bits, that explain a target beside a factor, whose logarithm is given."""
        weight = np.abs(target) * self.root
        if not 0.0 < np.linalg.norm(weight) < np.inf:
            return []
        chosen = (rng.random(len(self.parts)) < SHARE) & (self.part_bits & ~inside == 0)
        asked = Question(
            weight / np.linalg.norm(weight),
            np.log(np.maximum(np.abs(target), np.finfo(float).tiny)) - beside,
            np.flatnonzero(chosen),
            np.flatnonzero(self.growth_bits & ~inside == 0),
            np.flatnonzero(self.leaf_bits & ~inside == 0),
        )
        suggested: dict[Expression, None] = {}
        for products in self._promising(asked):
            rich = self._are_rich(products)
            room = len(suggested) + (SUGGESTED_RICH if rich else SUGGESTED)
            for _, product, exponents in self._in_order(products, asked):
                feature = self._feature(product, exponents)
                if feature is not None:
                    suggested[feature] = None
                if len(suggested) == room:
                    break
        return list(suggested)

    def _unclear(self, product: Product) -> int:
        """Covariates, by bits, whose exponents cannot be told from what is inside a product."""
        if product.part < 0:
            return int(self.growth_bits[product.growth]) if product.growth >= 0 else 0
        return int(self.part_bits[product.part]) if self.rich[product.part] else 0

    def _are_rich(self, products: Sequence[Product]) -> bool:
        """Whether products of one kind have a part with several constants."""
        return bool(products) and products[0].part >= 0 and bool(self.rich[products[0].part])

    def _in_order(self, products: Sequence[Product], asked: Question) -> list[Rounded]:
        """Products of one kind with exponents of the space, the most promising first.

        The grid of several constants is coarse, and powers of the covariates inside a part would mend that; inside an
        exponential alone they hardly differ from its argument. So these are looked at with simple powers as well.
        """
        found = self._rounded(products, asked, asked.leaves) if products else []
        groups: dict[int, list[Product]] = {}
        for product in products:
            groups.setdefault(self._unclear(product), []).append(product)
        groups.pop(0, None)
        for inside, some in groups.items():
            own, others = (asked.leaves[(self.leaf_bits[asked.leaves] & inside > 0) == k] for k in (True, False))
            for e in (0, 1, -1) if len(own) == 1 else (0,):
                given = np.zeros(len(self.powers), np.int64)
                given[own] = self._nearest(np.array(e))
                if self.exponents[given[own]].sum() == e * len(own):
                    found += self._rounded(some, asked, others, given)
        return sorted(found, key=lambda of: of[0])

    def _promising(self, asked: Question) -> Iterator[list[Product]]:
        """Products by how well they do with the best exponents that there could be, for each kind of product."""
        weight, chosen, insides = asked.weight, asked.parts, asked.growths
        basis = basis_of(np.vstack([np.ones(len(weight)), self.powers[asked.leaves]]) * weight)
        target = unit_without(asked.logs[None], weight, basis)
        parts = unit_without(self.parts[chosen], weight, basis)
        growths = unit_without(self.growths[insides], weight, basis)
        form = self.form[chosen]
        own, grown = cross(parts, target), cross(growths, target)
        many = int(np.searchsorted(self.rich[chosen], True))
        rich = many + _leading(own[many:, 0] ** 2, form[many:], ROUNDED)
        yield [NONE]
        yield [Product(int(chosen[i]), -1, -1) for i in rich]
        chosen, parts, form, own = chosen[:many], parts[:many], form[:many], own[:many]
        leading = _leading(own[:, 0] ** 2, form, ROUNDED)
        growing = _leading(grown[:, 0] ** 2, self.inside_form[insides], ROUNDED)
        yield [Product(int(chosen[i]), -1, -1) for i in leading]
        yield [Product(-1, int(insides[j]), -1) for j in growing]
        few, parts = growths[:MOST_GROWTHS].astype(np.float32), parts.astype(np.float32)
        for grows, partners, along in ((True, few, grown[: len(few), 0]), (False, parts[leading], own[leading, 0])):
            share, partner = np.empty(len(parts)), np.empty(len(parts), np.int64)
            best_partners(parts, partners, own[:, 0], along, OWN, share, partner)
            best = [i for i in _leading(share, form, ROUNDED) if partner[i] >= 0]
            pairs = [(int(chosen[i]), int(partner[i])) for i in best]
            yield [
                Product(i, int(insides[j]), -1) if grows else Product(i, -1, int(chosen[leading[j]])) for i, j in pairs
            ]

    def _rounded(
        self, products: Sequence[Product], asked: Question, leaves: np.ndarray, given: np.ndarray | None = None
    ) -> list[Rounded]:
        """Products of one kind with exponents of the space, and about how much they lose and cost.

        Constants on a grid are not quite right, and exponents of their parts mend that: so 1 and -1 are tried as well.
        The exponents of the parts are rounded first, and then those of some covariates, given these and those of the
        others.
        """
        given = np.zeros(len(self.powers), np.int64) if given is None else given
        weight, logs = asked.weight, asked.logs - self.exponents[given] @ self.powers
        own = np.array([[i for i in (p.part, p.other) if i >= 0] for p in products], int).reshape(len(products), -1)
        grown = [p.growth for p in products if p.growth >= 0]
        parts = self.parts[own]
        free = np.ones((len(products), 1, len(weight)))
        if grown:
            free = np.concatenate([free, self.growths[grown][:, None]], axis=1)
        powers = np.broadcast_to(self.powers[leaves], (len(products), len(leaves), len(weight)))
        beside = np.concatenate([free, powers], axis=1) * weight
        alone = np.broadcast_to(weight * logs, (len(products), 1, len(weight)))
        fitted = least_squares(np.concatenate([parts * weight, beside], axis=1), alone)[:, 0, : own.shape[1]]
        chosen = self._near(fitted)
        left = logs - self.exponents[chosen] @ parts
        near = self._nearest(least_squares(beside, weight * left)[..., free.shape[1] :])
        left = weight * (left - self.exponents[near] @ self.powers[leaves])
        left -= least_squares(free * weight, left) @ (free * weight)
        at = np.broadcast_to(given, (*near.shape[:2], len(given))).copy()
        at[..., leaves] = near
        fixed = self.part_complexity[own].sum(axis=1) + (self.growth_complexity[grown] if grown else 0)
        common = self.common + self.beyond[:, self.fractions.index(Fraction(1))] * len(grown[:1])
        beyond = np.min(self.beyond[:, np.dstack([at, chosen])].sum(axis=3).T + common, axis=2).T
        complexity = fixed[:, None] + (at > 0).sum(axis=2) + beyond
        loss = 0.5 * len(weight) * np.log(np.maximum(np.sum(left**2, axis=2), 1e-24))
        loss -= self.price[np.minimum(complexity, len(self.price) - 1)]
        return [
            (float(loss[i, j]), products[i], tuple(self.fractions[e] for e in (*at[i, j], *chosen[i, j])))
            for i, j in np.ndindex(*loss.shape)
            if complexity[i, j] < len(self.price)
        ]

    def _nearest(self, exponents: np.ndarray) -> np.ndarray:
        """The exponents of the space that are nearest, by their places."""
        return np.argmin(np.abs(exponents[..., None] - self.exponents), axis=-1)

    def _near(self, exponents: np.ndarray) -> np.ndarray:
        """Exponents of the parts of products that are tried, by their places: the nearest, and 1 or -1."""
        nearest, unit = self._nearest(exponents), self._nearest(np.where(exponents > 0.0, 1.0, -1.0))
        which = np.array(list(itertools.product((False, True), repeat=exponents.shape[1])), bool)
        return np.where(which, unit[:, None], nearest[:, None])

    def _feature(self, product: Product, exponents: tuple[Fraction, ...]) -> Expression | None:
        """The feature that a product is, None where it is none of the space."""
        forms = zip((self.form, self.inside_form, self.form), product, strict=True)
        key = (*(int(form[i]) if i >= 0 else -1 for form, i in forms), exponents)
        if key not in self._features:
            self._features[key] = self.made(self._monomial, product, exponents)
        return self._features[key]

    def _monomial(self, product: Product, exponents: Sequence[Fraction]) -> Feature:
        bases = [*self.leaves, *(made_of(*self.forms[self.form[i]]) for i in (product.part, product.other) if i >= 0)]
        powers = [(base, e) for base, e in zip(bases, exponents, strict=True) if e != 0]
        if product.growth >= 0:
            inside = self.insides[self.inside_form[product.growth]]
            powers.append((Feature.call("exp", Feature.free(inside)), Fraction(1)))
        return Feature.monomial(*powers)
