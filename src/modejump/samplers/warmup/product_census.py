"""A census of products: which functions and powers, multiplied, explain the response or what a model leaves of it.

The logarithm of a product is a sum, so that tens of thousands of products of a function, an exponential and powers of
all covariates are compared by least squares in a tenth of a second, each with its best exponents. These are rounded,
and the best products are handed to a search, which fits their constants and judges them.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from modejump.core.errors import InputError
from modejump.features.expression import Expression
from modejump.features.laws.expression import Feature
from modejump.features.laws.fitting.constants import spread_rows
from modejump.features.laws.language import Laws
from modejump.features.laws.parts import factors_of, growths_of, parts_of, product_of
from modejump.problem.feature_problem import FeatureProblem
from modejump.samplers.warmup.census import OWN, SHARE, Census, Factor, basis_of, cross, unit, without

# Parts at most; products of each kind whose exponents are rounded, and that are suggested then.
MOST_PARTS = 16_000
ROUNDED = 60
SUGGESTED = 16


class Product(NamedTuple):
    """A product by its parts: -1 where it has none; a growth is inside an exponential."""

    part: int
    growth: int
    other: int


NONE = Product(-1, -1, -1)


def _numbered(forms: Sequence[Hashable]) -> np.ndarray:
    """Equal forms by one number."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(form, len(numbers)) for form in forms], np.int64)


def _leading(value: np.ndarray, form: np.ndarray, count: int) -> np.ndarray:
    """Where the largest values are, one of each form, the largest first."""
    order = np.argsort(-value, kind="stable")
    first = np.sort(np.unique(form[order], return_index=True)[1])
    return order[first[:count]]


class ProductCensus(Census):
    """Products of parts and powers of covariates, over some rows of a problem.

    Parameters
    ----------
    problem : FeatureProblem
        A problem over laws for which there can be a census.
    """

    languages: ClassVar[tuple[type, ...]] = (Laws,)
    varied = True
    language: Laws

    def __init__(self, problem: FeatureProblem) -> None:
        super().__init__(problem)
        with np.errstate(divide="ignore"):
            powers = np.log(np.abs(np.array(list(self.table.values()))))
        used = np.flatnonzero(np.isfinite(powers).all(axis=1))
        self.leaves = [Feature.covariate(problem.names[j]) for j in used]
        self.powers = powers[used]
        self.exponents = np.array([0.0, *map(float, self.language.exponents)])
        self.fractions = [Fraction(0), *self.language.exponents]

    def factors(self, x: np.ndarray) -> tuple[list[Factor], list[Factor]]:
        """First and second factors; the parts of products are made with them."""
        language = self.language
        parts = parts_of(language, x)
        if len(parts) > MOST_PARTS:
            parts = [parts[i] for i in spread_rows(len(parts), MOST_PARTS)]
        growths = growths_of(language, x)
        self.factor = [part.factor for part in parts]
        # Parts that differ by the value of a constant alone, and growths likewise, have one number.
        self.form = _numbered([part[:3] for part in parts])
        self.part_complexity = np.array(
            [p.node.complexity + (p.function is not None) + 2 * (p.number is not None) for p in parts], np.int64
        )
        self.inside = [growth.node for growth in growths]
        self.inside_form = _numbered(self.inside)
        self.parts = np.log(np.abs(np.array([part.column for part in parts]).reshape(-1, x.shape[1])))
        self.growths = np.array([growth.column for growth in growths]).reshape(-1, x.shape[1])
        first, second = factors_of(language, x, parts)
        return [Factor(*f) for f in first], [Factor(*f) for f in second]

    def joined(self, factors: Sequence[Expression]) -> Expression | None:
        """The product of factors, None where there is none."""
        return product_of([(f, Fraction(1)) for f in factors])  # type: ignore[misc]

    def suggest(self, target: np.ndarray, rng: np.random.Generator) -> list[Expression]:
        """Products that explain a target: the most promising of each kind.

        Parameters
        ----------
        target : ndarray
            What the product should explain, by the rows of the census.
        rng : Generator
            Which of the parts are looked at.
        """
        weight = np.abs(target) * self.root
        if not 0.0 < np.linalg.norm(weight) < np.inf:
            return []
        weight /= np.linalg.norm(weight)
        logs = np.log(np.maximum(np.abs(target), np.finfo(float).tiny))
        chosen = np.flatnonzero(rng.random(len(self.parts)) < SHARE)
        suggested: dict[Expression, None] = {}
        for products in self._promising(chosen, weight, logs):
            rounded = sorted(of for product in products for of in self._rounded(product, weight, logs))
            room = len(suggested) + SUGGESTED
            for _, product, exponents in rounded:
                feature = self._feature(product, exponents)
                if feature is not None and self.language.contains(feature):
                    suggested[feature] = None
                if len(suggested) == room:
                    break
        return list(suggested)

    def _promising(self, chosen: np.ndarray, weight: np.ndarray, logs: np.ndarray) -> Iterator[list[Product]]:
        """Products by how well they do with the best exponents that there could be, for each kind of product."""
        basis = basis_of(np.vstack([np.ones(len(weight)), self.powers]) * weight)
        target = unit(without((weight * logs)[None], basis))
        parts = unit(without(self.parts[chosen] * weight, basis))
        growths = unit(without(self.growths * weight, basis))
        form = self.form[chosen]
        own, grown = cross(parts, target), cross(growths, target)
        leading = _leading(own[:, 0] ** 2, form, ROUNDED)
        growing = _leading(grown[:, 0] ** 2, self.inside_form, ROUNDED)
        yield [NONE, *(Product(int(chosen[i]), -1, -1) for i in leading)]
        yield [Product(-1, int(j), -1) for j in growing]
        for kind, partners, along in (("growth", growths, grown), ("other", parts[leading], own[leading])):
            if not len(partners):
                continue
            common = cross(parts, partners)
            with np.errstate(all="ignore"):
                more = (along.T - common * own) ** 2 / (1.0 - common**2)
            more[common**2 > 1.0 - OWN] = 0.0
            partner = np.argmax(more, axis=1)
            share = own[:, 0] ** 2 + more[np.arange(len(parts)), partner]
            for_growth = kind == "growth"
            yield [
                Product(int(chosen[i]), int(partner[i]), -1)
                if for_growth
                else Product(int(chosen[i]), -1, int(chosen[leading[partner[i]]]))
                for i in _leading(share, form, ROUNDED)
            ]

    def _rounded(
        self, product: Product, weight: np.ndarray, logs: np.ndarray
    ) -> Iterator[tuple[float, Product, tuple[Fraction, ...]]]:
        """The product with exponents of the space, after about how much it loses and costs.

        Constants on a grid are not quite right, and exponents of their parts mend that: so 1 and -1 are tried as well.
        The exponents of the parts are rounded first, and then those of the covariates, given these.
        """
        own = [i for i in (product.part, product.other) if i >= 0]
        parts = self.parts[own]
        free = [np.ones(len(weight))] + ([self.growths[product.growth]] if product.growth >= 0 else [])
        beside = (np.array([*free, *self.powers]) * weight).T
        fitted = np.linalg.lstsq(np.column_stack([(parts * weight).T, beside]), weight * logs, rcond=None)[0]
        fixed = int(self.part_complexity[own].sum()) + (product.growth >= 0) * 4
        for exponents in itertools.product(*(self._near(e) for e in fitted[: len(own)])):
            left = logs - np.array(exponents, float) @ parts if own else logs
            fitted = np.linalg.lstsq(beside, weight * left, rcond=None)[0][len(free) :]
            at = np.argmin(np.abs(fitted[:, None] - self.exponents), axis=1)
            left = weight * (left - self.exponents[at] @ self.powers)
            rest = beside[:, : len(free)]
            left = left - rest @ np.linalg.lstsq(rest, left, rcond=None)[0]
            complexity = min(fixed + 2 * int((at > 0).sum()), len(self.price) - 1)
            loss = 0.5 * len(weight) * np.log(max(float(left @ left), 1e-24)) - self.price[complexity]
            yield float(loss), product, (*(self.fractions[i] for i in at), *exponents)

    def _near(self, exponent: float) -> list[Fraction]:
        """Exponents of the space near a number: the nearest, and 1 or -1."""
        nearest = self.fractions[int(np.argmin(np.abs(exponent - self.exponents)))]
        unit = Fraction(1 if exponent > 0.0 else -1)
        return list(dict.fromkeys([nearest, unit if unit in self.fractions else nearest]))

    def _feature(self, product: Product, exponents: Sequence[Fraction]) -> Feature | None:
        bases: list[Any] = [*self.leaves]
        try:
            bases += [self.factor[i]() for i in (product.part, product.other) if i >= 0]
            powers = [(base, e) for base, e in zip(bases, exponents, strict=True) if e != 0]
            if product.growth >= 0:
                powers.append((Feature.call("exp", Feature.free(self.inside[product.growth])), Fraction(1)))
            return product_of(powers) if powers else None
        except InputError:
            return None
