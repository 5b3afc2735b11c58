"""A census of products: which functions and powers, multiplied, explain the response or what a model leaves of it.

Edits lead from a good feature to a better one, and where all that is near is worse, a law stays hidden. The logarithm
of a product is a sum, so that tens of thousands of products of a function, an exponential and powers of all covariates
are compared by least squares in a tenth of a second, each with its best exponents. These are rounded, and the best
products are handed to a search, which fits their constants and judges them. Beside other terms, and for sums, simpler
products of two factors are compared as they are.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from modejump.core.errors import InputError
from modejump.features.expression import Expression
from modejump.features.laws.expression import Feature
from modejump.features.laws.fitting.constants import spread_rows
from modejump.features.laws.language import Laws
from modejump.features.laws.parts import factors_of, growths_of, parts_of, product_of
from modejump.kernels.census import cross_products
from modejump.problem.feature_problem import FeatureProblem

# Rows that are looked at, covariates at most, and parts at most.
ROWS = 256
MOST_COVARIATES = 24
MOST_PARTS = 16_000
# Products of each kind whose exponents are rounded, and that are suggested then.
ROUNDED = 60
SUGGESTED = 16
# First factors of simple products that one census looks at, and products of each complexity that are suggested.
MOST_FACTORS = 2400
ALIKE = 3
# Complexities of the terms of a first model, at most, of which so many are tried; its terms, and how often each has its
# turn after another one.
SIMPLE, ATTEMPTS = (3, 4, 5, 6, 7), 3
MOST_TERMS, SWEEPS = 8, 2
# A row of which less than this share is left beside those taken out has nothing of its own.
OWN = 1e-6
# Share of the parts that one census looks at.
SHARE = 0.75


def can_count(problem: FeatureProblem) -> bool:
    """Whether there can be a census: of laws, with a Gaussian response."""
    few = len(problem.names) <= MOST_COVARIATES
    return isinstance(problem.language, Laws) and problem.family.conjugate and few


_KNOWN: WeakKeyDictionary[FeatureProblem, Census] = WeakKeyDictionary()
_LOCK = threading.Lock()


def census_of(problem: FeatureProblem) -> Census:
    """The census of a problem, which all of its chains share."""
    with _LOCK:
        if problem not in _KNOWN:
            _KNOWN[problem] = Census(problem)
        return _KNOWN[problem]


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


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Inner products of the rows of two matrices."""
    out = np.empty((len(a), len(b)))
    cross_products(np.ascontiguousarray(a), np.ascontiguousarray(b), out)
    return out


def _basis(rows: np.ndarray) -> np.ndarray:
    """Orthonormal rows with the same span."""
    return np.linalg.qr(rows.T)[0].T


def _without(rows: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Rows without their part in the span of a basis; zero where nothing of their own is left."""
    left = rows - np.einsum("ib,bn->in", _cross(rows, basis), basis)
    left[np.einsum("in,in->i", left, left) <= OWN**2 * np.einsum("in,in->i", rows, rows)] = 0.0
    return left


def _unit(rows: np.ndarray) -> np.ndarray:
    """Rows of unit length, or of zeros."""
    length = np.sqrt(np.einsum("in,in->i", rows, rows))
    return rows / np.where(length > 0.0, length, 1.0)[:, None]


class Census:
    """Products of parts and powers of covariates, over some rows of a problem.

    Parameters
    ----------
    problem : FeatureProblem
        A problem for which there can be a census.
    """

    def __init__(self, problem: FeatureProblem) -> None:
        assert isinstance(problem.language, Laws)
        self.problem, self.language = problem, problem.language
        self.rows = spread_rows(problem.x.shape[1], ROWS)
        x = np.ascontiguousarray(problem.x[:, self.rows])
        self.root = problem.root_weight[self.rows]
        parts = parts_of(problem.language, x)
        if len(parts) > MOST_PARTS:
            parts = [parts[i] for i in spread_rows(len(parts), MOST_PARTS)]
        growths = growths_of(problem.language, x)
        self.factor = [part.factor for part in parts]
        # Parts that differ by the value of a constant alone, and growths likewise, have one number.
        self.form = _numbered([part[:3] for part in parts])
        self.part_complexity = np.array(
            [p.node.complexity + (p.function is not None) + 2 * (p.number is not None) for p in parts], np.int64
        )
        self.inside = [growth.node for growth in growths]
        self.inside_form = _numbered(self.inside)
        with np.errstate(divide="ignore"):
            powers = np.log(np.abs(x))
            self.parts = np.log(np.abs(np.array([part.column for part in parts]).reshape(-1, x.shape[1])))
        with np.errstate(all="ignore"):
            self.first, self.second = factors_of(problem.language, x, parts)
        self.left, self.right = (np.array([f.column for f in some]) for some in (self.first, self.second))
        self.whole = _cross(self.left**2, self.right**2 * self.root**2)
        self.growths = np.array([growth.column for growth in growths]).reshape(-1, x.shape[1])
        self.complexity = tuple(
            np.array([0 if f.node.kind == "one" else f.node.complexity for f in some])
            for some in (self.first, self.second)
        )
        self.plain = np.array([i for i, f in enumerate(self.first) if i and not f.node.constants], np.int64)
        used = np.flatnonzero(np.isfinite(powers).all(axis=1))
        self.leaves = [Feature.covariate(problem.names[j]) for j in used]
        self.powers = powers[used]
        self.exponents = np.array([0.0, *map(float, self.language.exponents)])
        self.fractions = [Fraction(0), *self.language.exponents]

    def beside(
        self, others: Sequence[Expression], constants: Mapping[Expression, np.ndarray], rng: np.random.Generator
    ) -> list[Feature]:
        """Simple products that explain most of what a model leaves, some of each complexity.

        Parameters
        ----------
        others : sequence of features
            The terms of the model.
        constants : mapping of a feature to ndarray
            Constants inside them.
        rng : Generator
            Which factors are looked at.
        """
        chosen = self._some(rng)
        share = self._explained(chosen, self._columns(others, constants))
        cost = self._cost(chosen)
        found: dict[Feature, None] = {}
        for complexity in range(1, int(cost.max()) + 1):
            value = np.where(cost == complexity, share, 0.0).ravel()
            for at in np.argpartition(-value, ALIKE)[:ALIKE]:
                feature, _ = self._simple(chosen, int(at))
                if feature is not None and value[at] > 0.0:
                    found[feature] = None
        return list(found)

    def several(self, rng: np.random.Generator) -> list[Feature]:
        """Simple products without constants that explain the response together.

        The best of a few attempts, each with products up to another complexity: what is best alone often imitates a
        sum, and where products have to be simple it cannot.

        Parameters
        ----------
        rng : Generator
            Which factors are looked at, and how complex the products may be.
        """
        chosen = np.concatenate([[0], self.plain[rng.random(len(self.plain)) < SHARE]])
        prior, cost = self.problem.weights_by_complexity(), self._cost(chosen)
        weight = prior[np.minimum(cost, len(prior) - 1)]
        attempts = [
            self._attempt(chosen, np.where(cost <= most, weight, -np.inf))
            for most in rng.choice(SIMPLE, ATTEMPTS, replace=False)
        ]
        terms = max(attempts, key=lambda of: of[0])[1]
        return [f for f in (self._simple(chosen, at)[0] for at in terms) if f is not None]

    def _attempt(self, chosen: np.ndarray, weight: np.ndarray) -> tuple[float, list[int]]:
        """Products that come in one after the other, and about their log posterior.

        After each of them all have their turn to be replaced, or left out.
        """
        terms: list[int] = []

        def best_beside(others: Sequence[int]) -> int | None:
            share = self._explained(chosen, [self._simple(chosen, at)[1] for at in others])
            gain = weight - 0.5 * len(self.rows) * np.log1p(-np.minimum(share, 1.0 - 1e-12))
            gain.flat[list(others)] = -np.inf
            at = int(np.argmax(gain))
            return at if gain.flat[at] > 0.0 else None

        for _ in range(min(MOST_TERMS, self.problem.size)):
            added = best_beside(terms)
            if added is None:
                break
            terms.append(added)
            for _ in range(SWEEPS):
                before = list(terms)
                for term in before:
                    others = [other for other in terms if other != term]
                    now = best_beside(others) if others else term
                    terms = [*others, *([] if now is None else [now])]
                if set(terms) == set(before):
                    break
        columns = [self._simple(chosen, at)[1] for at in terms]
        basis = _basis(np.vstack([np.ones(len(self.rows)), *columns]) * self.root)
        y = self.problem.y[None, self.rows] * self.root
        left = np.sum(_without(y, basis) ** 2) / np.sum(_without(y, basis[:1]) ** 2)
        return float(weight.flat[terms].sum() - 0.5 * len(self.rows) * np.log(max(left, 1e-24))), terms

    def _some(self, rng: np.random.Generator) -> np.ndarray:
        """First factors that a census looks at, the number 1 among them."""
        return np.concatenate([[0], 1 + rng.permutation(len(self.left) - 1)[:MOST_FACTORS]])

    def _cost(self, chosen: np.ndarray) -> np.ndarray:
        """Complexities of simple products."""
        return np.add.outer(self.complexity[0][chosen], self.complexity[1])

    def _simple(self, chosen: np.ndarray, at: int) -> tuple[Feature | None, np.ndarray]:
        """A simple product, if it is a feature, and its column."""
        i, j = divmod(at, len(self.right))
        first, second = self.first[chosen[i]], self.second[j]
        factors = [f.node for f in (first, second) if f.node.kind != "one"]
        feature = product_of([(f, Fraction(1)) for f in factors]) if factors else None
        fits = feature is not None and self.language.contains(feature)
        return feature if fits else None, first.column * second.column

    def _explained(self, chosen: np.ndarray, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Share of what columns leave of the response that each simple product explains."""
        basis = _basis(np.vstack([np.ones(len(self.rows)), *columns]) * self.root)
        target = _unit(_without(self.problem.y[None, self.rows] * self.root, basis))[0]
        left = self.left[chosen]
        rest = self.whole[chosen].copy()
        for row in basis:
            rest -= _cross(left, self.right * (self.root * row)) ** 2
        along = _cross(left, self.right * (self.root * target))
        with np.errstate(all="ignore"):
            return np.where(rest > OWN * self.whole[chosen], along**2 / rest, 0.0)

    def _columns(self, features: Sequence[Expression], constants: Mapping[Expression, np.ndarray]) -> list[np.ndarray]:
        """Columns of features by the rows of the census, of about unit size."""
        table = {name: column[self.rows] for name, column in self.problem.table.items()}
        columns = [self.language.column(f, table, constants) for f in features]
        return [column / np.abs(column).max() for column in columns]

    def target(
        self, own: Sequence[Expression], others: Sequence[Expression], constants: Mapping[Expression, np.ndarray]
    ) -> np.ndarray:
        """The response by the rows of the census, less what the other terms of a model say.

        Parameters
        ----------
        own, others : sequence of features
            The terms that are to be replaced, if any, and the others.
        constants : mapping of a feature to ndarray
            Constants inside them.
        """
        y = self.problem.y[self.rows]
        if not others:
            return y
        design = np.column_stack([*self._columns([*others, *own], constants), np.ones(len(y))])
        fitted = np.linalg.lstsq(design * self.root[:, None], y * self.root, rcond=None)[0]
        return np.asarray(y - design[:, : len(others)] @ fitted[: len(others)])

    def suggest(self, target: np.ndarray, rng: np.random.Generator) -> list[Feature]:
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
        suggested: dict[Feature, None] = {}
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
        basis = _basis(np.vstack([np.ones(len(weight)), self.powers]) * weight)
        target = _unit(_without((weight * logs)[None], basis))
        parts = _unit(_without(self.parts[chosen] * weight, basis))
        growths = _unit(_without(self.growths * weight, basis))
        form = self.form[chosen]
        own, grown = _cross(parts, target), _cross(growths, target)
        leading = _leading(own[:, 0] ** 2, form, ROUNDED)
        growing = _leading(grown[:, 0] ** 2, self.inside_form, ROUNDED)
        yield [NONE, *(Product(int(chosen[i]), -1, -1) for i in leading)]
        yield [Product(-1, int(j), -1) for j in growing]
        for kind, partners, along in (("growth", growths, grown), ("other", parts[leading], own[leading])):
            if not len(partners):
                continue
            common = _cross(parts, partners)
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
        price = self.problem.weights_by_complexity()
        for exponents in itertools.product(*(self._near(e) for e in fitted[: len(own)])):
            left = logs - np.array(exponents, float) @ parts if own else logs
            fitted = np.linalg.lstsq(beside, weight * left, rcond=None)[0][len(free) :]
            at = np.argmin(np.abs(fitted[:, None] - self.exponents), axis=1)
            left = weight * (left - self.exponents[at] @ self.powers)
            rest = beside[:, : len(free)]
            left = left - rest @ np.linalg.lstsq(rest, left, rcond=None)[0]
            complexity = min(fixed + 2 * int((at > 0).sum()), len(price) - 1)
            loss = 0.5 * len(weight) * np.log(max(float(left @ left), 1e-24)) - price[complexity]
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
