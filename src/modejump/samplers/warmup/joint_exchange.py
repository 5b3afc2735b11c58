"""Sums of terms with constants: terms are exchanged in pairs, and all constants of a sum are fitted together.

While a search is under way, the constants of a feature are those that explain the response best by themselves. Beside
other terms they are wrong, and a sum such as T/(V - b) - a/V^2 looks worse than many that imitate it. So before the
library is frozen, sums of a few simple products are looked for in another way. Each product is a column for some values
of its constant; all pairs of very many such columns are compared beside a sum, and the constants of the best are fitted
together. What comes out is handed to the refinement of leading models, which judges it.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares

from modejump.features.expression import Expression
from modejump.features.laws.parts import exponentials_of, powers_of, summands_of
from modejump.problem.feature_problem import FeatureProblem
from modejump.runtime.executors import Executor
from modejump.samplers.warmup.census import (
    LARGEST,
    Factor,
    basis_of,
    census_of,
    cross,
    pairs_beside,
    unit_without,
    ways_out,
    without,
)
from modejump.samplers.warmup.library import Collected, Model, scored_by
from modejump.samplers.warmup.product_census import ProductCensus

# Products that one attempt looks at, about; first factors up to this complexity are in every one.
PRODUCTS, PLAIN = 300_000, 6
# Share of the other first factors that an attempt looks at.
LOOKED_AT = 0.6
# Columns whose pairs are compared; half of them because they are promising, the others drawn, simple ones first.
COLUMNS = 1800
# How much chance there is in the draw, in units of log prior weight.
CHANCE = 6.0
# Simple products beside which a first sum has any other one.
SIMPLE = 60
# Terms of a sum, members that make way at most, and how often.
MOST_TERMS, MOST_OUT, ROUNDS = 5, 2, 8
# Sums whose constants are fitted in a round; evaluations of such a fit for each constant, and of the best one's.
FITTED = 40
EFFORT, BEST_EFFORT = 4, 20
# Attempts at most, and populations of a search for each; where there is a budget in seconds, its share of the search's.
ATTEMPTS, POPULATIONS = 12, 40
SHARE = 0.25
# Sums that an attempt leaves to be judged by all rows: the rows of a census may prefer one that imitates the law.
LEFT = 12
# Evaluations of the fit of all constants of a model, for each constant.
REFINING = 40
# Residual shares below this are rounding.
EXACT = 1e-22


class Sum(NamedTuple):
    """A sum of terms: its features, their constants, and about its log posterior."""

    model: Model
    constants: dict[Expression, np.ndarray]
    value: float


def find_sums(
    problem: FeatureProblem,
    collected: Collected,
    seeds: Sequence[np.random.SeedSequence],
    executor: Executor,
    until: float | None,
) -> list[Sum]:
    """The best sum that each of some attempts came by; adds them to the models.

    Parameters
    ----------
    problem : FeatureProblem
        A problem over laws for which there can be a census.
    collected : dict
        Models with their log posterior, where the constants of each feature are fitted by themselves.
    seeds : sequence of SeedSequence
        One stream for each attempt.
    executor : Executor
        Who works on them.
    until : float, optional
        When to end, by the clock; attempts that have not begun by then are not made.
    """

    def has_time() -> bool:
        return until is None or time.perf_counter() < until

    def attempt(seed: np.random.SeedSequence) -> list[Sum]:
        census = census_of(problem)
        assert isinstance(census, ProductCensus)
        left = SumSearch(census, np.random.default_rng(seed)).run(has_time) if has_time() else []
        return [max((by_all_rows(problem, made) for made in left), key=lambda of: of.value)] if left else []

    found = list(itertools.chain.from_iterable(executor.pool.map(attempt, seeds)))
    if found:
        collected |= scored_by(problem, list(dict.fromkeys(of.model for of in found)))[0]
    return found


def by_all_rows(problem: FeatureProblem, made: Sum) -> Sum:
    """A sum with the constants that all rows ask for.

    Parameters
    ----------
    problem : FeatureProblem
        The rows.
    made : Sum
        The sum, with constants to begin with.
    """
    members = sorted(made.model)
    constants, _, left = refine_together(problem, members, made.constants)
    price = float(problem.log_weights(members).sum())
    price -= 0.5 * math.log(problem.n) * (len(members) + sum(f.constants for f in members))
    return Sum(made.model, constants, price - 0.5 * problem.n * math.log(max(left, EXACT)))


def refine_together(
    problem: FeatureProblem, model: Sequence[Expression], constants: Mapping[Expression, np.ndarray]
) -> tuple[dict[Expression, np.ndarray], float, float]:
    """Constants of a model, fitted together, and the residual shares before and after.

    Parameters
    ----------
    problem : FeatureProblem
        The rows, with a Gaussian response.
    model : sequence of Feature
        The features.
    constants : mapping of a feature to ndarray
        Constants to begin with, of each feature that has some.
    """

    def column(feature: Expression, given: Mapping[Expression, np.ndarray]) -> np.ndarray:
        return problem.language.column(feature, problem.table, given)

    def beside(columns: np.ndarray) -> np.ndarray:
        return unit_without(columns, problem.root_weight, problem.basis)

    return fit_together(model, constants, column, beside, problem.response[0], REFINING)


def fit_together(
    model: Sequence[Expression],
    constants: Mapping[Expression, np.ndarray],
    column: Callable[[Expression, Mapping[Expression, np.ndarray]], np.ndarray],
    beside: Callable[[np.ndarray], np.ndarray],
    y: np.ndarray,
    effort: int,
) -> tuple[dict[Expression, np.ndarray], float, float]:
    """Constants of a model, fitted together by least squares, and the residual shares before and after.

    Parameters
    ----------
    model : sequence of Feature
        The features.
    constants : mapping of a feature to ndarray
        Constants to begin with, of each feature that has some.
    column : callable
        The column of a feature, given constants.
    beside : callable
        Columns without what is in every model, of unit length, or zero where nothing is left.
    y : ndarray
        The response without what is in every model, of unit length.
    effort : int
        Evaluations for each constant.
    """
    own = [f for f in model if f.constants]
    fixed = [column(f, {}) for f in model if not f.constants]
    ends = np.cumsum([f.constants for f in own])[:-1]

    def parts(values: np.ndarray) -> dict[Expression, np.ndarray]:
        return dict(zip(own, np.split(values, ends), strict=False))

    def left(values: np.ndarray) -> np.ndarray:
        given = parts(values)
        with np.errstate(all="ignore"):
            z = np.array([*fixed, *(column(f, given) for f in own)])
            z = beside(z)
        if not (np.isfinite(z).all() and z.any(axis=1).all()):
            return y.copy()
        q = basis_of(z)
        rest = y - (q @ y) @ q
        return np.asarray(rest - (q @ rest) @ q)

    start = np.concatenate([np.zeros(0), *(constants[f] for f in own)])
    before = float(np.sum(left(start) ** 2))
    if not own:
        return {}, before, before
    least = 1e-14
    fit = least_squares(
        left, start, method="lm", x_scale="jac", xtol=least, ftol=least, gtol=least, max_nfev=effort * (len(start) + 1)
    )
    return parts(fit.x), before, 2.0 * float(fit.cost)


def _first_factors(census: ProductCensus, x: np.ndarray) -> list[Factor]:
    """Those of the census with one constant at most, exponentials, and powers of covariates."""
    more = [Factor(*f) for f in (*powers_of(census.language, x), *exponentials_of(census.language, x))]
    with_one = [f for f in census.first if f.node is None or f.node.constants == (f.constant is not None)]
    return [*with_one, *(f for f in more if np.abs(f.column).max() < LARGEST and np.ptp(f.column) > 0.0)]


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """Where the largest values are, the largest first."""
    some = np.argpartition(-values, count)[:count] if count < len(values) else np.arange(len(values))
    return np.asarray(some[np.argsort(-values[some], kind="stable")])


class SumSearch:
    """Searches for sums of simple products over the rows of a census.

    Parameters
    ----------
    census : ProductCensus
        Simple products.
    rng : Generator
        Which of them are looked at.
    """

    def __init__(self, census: ProductCensus, rng: np.random.Generator) -> None:
        self.census, self.rng = census, rng
        x = np.array(list(census.table.values()))
        first = _first_factors(census, x)
        self.second = [
            *census.second,
            *(Factor(*f) for f in summands_of(census.language, x) if np.abs(f.column).max() < LARGEST),
        ]
        # Simple ones without constants are always among them; without some of the others, attempts end differently.
        plain = np.array([f.node is None or (f.node.complexity <= PLAIN and not f.node.constants) for f in first])
        others = np.flatnonzero(~plain)
        room = max(PRODUCTS // len(self.second) - plain.sum(), 0)
        others = rng.permutation(others)[: min(room, int(LOOKED_AT * len(others)))]
        self.first = [first[i] for i in np.sort(np.append(np.flatnonzero(plain), others))]
        self.left, self.right = (np.array([f.column for f in factors]) for factors in (self.first, self.second))
        self.half_log = 0.5 * np.log(len(census.rows))
        own, other = ([0 if f.node is None else f.node.complexity for f in some] for some in (self.first, self.second))
        complexity = np.add.outer(own, other)
        constants = np.array([f.constant is not None for f in self.first])
        price = census.price[np.minimum(complexity, len(census.price) - 1)] - self.half_log * constants[:, None]
        self.weight = np.where(complexity > 0, price, -np.inf).ravel()
        self.whole = cross(self.left**2, self.right**2 * census.root**2).ravel()
        self.intercept = basis_of(census.root[None])
        self.y = unit_without(census.y[None], census.root, self.intercept)[0]
        # Inner products of all products with the intercept, and with the response.
        self.inner = [self._inner(column) for column in (np.ones(len(self.y)), census.y)]

    def run(self, has_time: Callable[[], bool]) -> list[Sum]:
        """The best sums that it came by, the best last.

        Parameters
        ----------
        has_time : callable
            Whether there is time for another round.
        """
        best = Sum(frozenset(), {}, 0.0)
        found: dict[Model, Sum] = {}
        for _ in range(ROUNDS):
            if not has_time():
                break
            tried = list(self._exchanged(best))
            found |= {of.model: of for of in tried if of.model not in found or of.value > found[of.model].value}
            leading = max(tried, key=lambda of: of.value, default=best)
            if leading.value <= best.value + 1e-6:
                break
            best = found[leading.model] = self._fitted(leading.model, leading.constants, BEST_EFFORT)
        return sorted(found.values(), key=lambda of: of.value)[-LEFT:]

    def _exchanged(self, now: Sum) -> Iterator[Sum]:
        """Sums with one or two products in the place of some terms, the most promising ones, with fitted constants."""
        members = sorted(now.model)
        columns = [self.census.column(f, now.constants) for f in members]
        promising: list[tuple[float, tuple[int, ...], tuple[int, ...]]] = []
        ways = [out for out in ways_out(len(members), MOST_OUT) if len(members) - len(out) < MOST_TERMS]
        each = COLUMNS // (2 * len(ways))
        leading = []
        inner = [self._inner(column) for column in columns]
        price = [sum(self._price(f) for i, f in enumerate(members) if i not in out) for out in ways]
        for out, paid in zip(ways, price, strict=True):
            rest = [i for i in range(len(members)) if i not in out]
            value = self._values([columns[i] for i in rest], [inner[i] for i in rest])
            leading.append(_largest(value, each))
            promising += [(float(value[i]) + paid, out, (int(i),)) for i in leading[-1][: 2 * FITTED]]
        if not members:
            beside = list(self._beside_simple())
            promising += [(value, (), pair) for value, pair in beside]
            leading.append(np.unique([pair for _, pair in beside]))
        drawn = self.weight + CHANCE * self.rng.gumbel(size=len(self.weight))
        at = np.unique(np.concatenate([*leading, _largest(drawn, COLUMNS // 2)]))
        at = at[np.isfinite(self.weight[at])]
        rows = self._own(self._columns(at))
        there = self._own(np.array(columns)) if columns else np.zeros((0, len(self.y)))
        fits = [(out, paid) for out, paid in zip(ways, price, strict=True) if len(members) - len(out) + 2 <= MOST_TERMS]
        found = pairs_beside(rows, there, self.y, self.weight[at], [out for out, _ in fits], 0.5 * len(self.y))
        for (out, paid), (value, partner) in zip(fits, found, strict=True):
            good = [i for i in np.argsort(-value, kind="stable")[: 2 * FITTED] if partner[i] >= 0]
            promising += [(float(value[i]) + paid, out, (int(at[i]), int(at[partner[i]]))) for i in good]
        promising.sort(key=lambda of: -of[0])
        tried: set[Model] = set()
        for _, out, products in promising:
            rest_of = [f for i, f in enumerate(members) if i not in out]
            made = self._with_products(rest_of, now, products)
            if made is not None and made[0] not in tried:
                tried.add(made[0])
                yield self._fitted(*made, EFFORT)
                if len(tried) == FITTED:
                    return

    def _beside_simple(self) -> Iterator[tuple[float, tuple[int, int]]]:
        """For each of the simplest products the best one beside it, and about the log posterior of both."""
        for at in _largest(self.weight, SIMPLE):
            column = self._columns(at[None])[0]
            value = self._values([column], [self._inner(column)])
            value[at] = -np.inf
            best = int(np.argmax(value))
            yield float(value[best] + self.weight[at]), (int(at), best)

    def _values(self, columns: Sequence[np.ndarray], inner: Sequence[np.ndarray]) -> np.ndarray:
        """About the log posterior with each product beside some columns, less the price of these."""
        intercept, response = self.inner
        share = self.census.explained(self.whole, columns, [intercept, *inner, response])
        left = float(np.sum(without(self.y[None], basis_of(self._own(np.array(columns)))) ** 2)) if columns else 1.0
        return np.asarray(self.weight - 0.5 * len(self.y) * np.log(np.maximum(left * (1.0 - share), EXACT)))

    def _inner(self, column: np.ndarray) -> np.ndarray:
        """Inner products of a column with all products."""
        return cross(self.left, self.right * (self.census.root**2 * column)).ravel()

    def _columns(self, at: np.ndarray) -> np.ndarray:
        """Columns of products."""
        i, j = np.divmod(at, len(self.right))
        return np.asarray(self.left[i] * self.right[j])

    def _own(self, columns: np.ndarray) -> np.ndarray:
        """Weighted columns beside the intercept, of unit length."""
        scale = np.abs(columns).max(axis=1, keepdims=True)
        return unit_without(columns / np.where(scale > 0.0, scale, 1.0), self.census.root, self.intercept)

    def _price(self, feature: Expression) -> float:
        return float(self.census.price[feature.complexity]) - self.half_log * feature.constants

    def _with_products(
        self, rest: Sequence[Expression], now: Sum, products: Sequence[int]
    ) -> tuple[Model, dict[Expression, np.ndarray]] | None:
        """Terms and constants to begin with, None where a product is no feature of the space or is there twice."""
        constants = {f: now.constants[f] for f in rest if f.constants}
        model = set(rest)
        for at in products:
            i, j = divmod(at, len(self.right))
            factors = [f.node for f in (self.first[i], self.second[j]) if f.node is not None]
            feature = self.census.made(self.census.product, *factors)
            if feature is None or feature in model:
                return None
            model.add(feature)
            if feature.constants:
                constants[feature] = np.array([self.first[i].constant])
        return frozenset(model), constants

    def _fitted(self, model: Model, constants: Mapping[Expression, np.ndarray], effort: int) -> Sum:
        """A sum whose constants were fitted together, with the coefficients of its terms."""
        made, _, left = fit_together(sorted(model), constants, self.census.column, self._own, self.y, effort)
        value = sum(map(self._price, model)) - 0.5 * len(self.y) * np.log(max(left, EXACT))
        return Sum(model, made, float(value))
