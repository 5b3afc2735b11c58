"""All products of rich factors in the place of one member of the best model, and all powers of such products.

By the paper's rules features are modified, and their products modified again. What a model of a law and a correction
lacks is often such a product, one among millions, which no chain of edits leads to: each search would find another one.
A power of a product is the product of the powers, so that all of them can be compared at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from modejump.features.expression import Expression
from modejump.features.laws.powers import POWERS
from modejump.features.nonlinear.expression import Feature, compose
from modejump.features.nonlinear.language import Nonlinear
from modejump.features.nonlinear.transforms import Transform
from modejump.kernels.census import best_products
from modejump.problem.feature_problem import FeatureProblem
from modejump.runtime.executors import Executor
from modejump.samplers.warmup.census import LARGEST, Census, basis_of, census_of, unit_without
from modejump.samplers.warmup.library import Collected, Model, best_models, scored_by

# Complexities of a product's two factors and of both together, at most, and how many of each factor there may be.
RICH, PLAIN, BOTH = 4, 3, 6
MOST_RICH, MOST_PLAIN = 40_000, 2_000
# Products of each kind that are tried, and members in whose place.
TRIED, PLACES = 60, 3
# A product of which less than this share is its own is known too badly in single precision; numbers so small, where the
# largest is 1, are 0, since arithmetic with the smallest ones of all takes very long.
OWN, SMALL = 1e-4, 1e-9

Kind = tuple[Transform | None, np.ndarray]


def can_be_rich(problem: FeatureProblem) -> bool:
    """Whether there are such products: by the paper's rules, without constants to be fitted."""
    return isinstance(problem.language, Nonlinear) and not problem.language.fits_constants


def try_products(
    problem: FeatureProblem, collected: Collected, executor: Executor, has_time: Callable[[], bool]
) -> None:
    """Try products in the places of members of the best model, the most complex first; adds what is met.

    Parameters
    ----------
    problem : FeatureProblem
        The target, for which there can be a census.
    collected : dict
        Models with their log posterior.
    executor : Executor
        Who works on it.
    has_time : callable
        Whether there is time for another place.
    """
    model = best_models(collected, 1)[0]
    places = sorted(model, reverse=True)[:PLACES]
    if not places or not has_time():
        return
    products = RichProducts(problem)
    for f in places:
        if has_time():
            rest = model - {f}
            found = itertools.chain.from_iterable(executor.pool.map(products.beside(rest), products.kinds))
            models = dict.fromkeys(rest | {made} for made in found if made not in rest)
            collected |= scored_by(problem, list(models))[0] if models else {}


class RichProducts:
    """Factors of products by the rows of a census, and the powers of products.

    Parameters
    ----------
    problem : FeatureProblem
        The target.
    """

    def __init__(self, problem: FeatureProblem) -> None:
        assert isinstance(problem.language, Nonlinear)
        self.census: Census = census_of(problem)
        self.half = 0.5 * problem.n
        language = problem.language
        self.features, columns = _distinct(*_factors(language, self.census))
        # Powers that a product may have, None for the first, and the columns of the factors to that power.
        powers = [t for t in language.transforms if t.name in POWERS]
        self.kinds: list[Kind] = [(None, _single(columns)), *((t, _single(t(columns))) for t in powers)]
        self.complexity = np.array([f.complexity for f in self.features])
        ends = np.searchsorted(self.complexity, np.arange(1, PLAIN + 1), side="right")
        self.plain = int(ends[ends <= MOST_PLAIN].max())

    def beside(self, rest: Model) -> Callable[[Kind], list[Expression]]:
        """What explains most of what other members leave, for each kind of power."""
        census = self.census
        columns = [np.ones(len(census.rows)), *(census.column(f, {}) for f in sorted(rest))]
        basis = basis_of(np.array(columns) * census.root)
        target = unit_without(census.y[None], census.root, basis)
        return partial(self._best, np.vstack([basis, target]) * census.root)

    def _best(self, directions: np.ndarray, kind: Kind) -> list[Expression]:
        """The best products, each of another first factor, to some power."""
        power, columns = kind
        root, more = self.census.root, self.complexity[: self.plain]
        last = np.searchsorted(self.complexity, BOTH - more, side="right")
        price = np.append(self.census.price[int(power is not None) :], np.full(BOTH + 2, -np.inf))
        value, partner = np.empty(len(columns)), np.empty(len(columns), np.int64)
        best_products(
            columns, columns[: self.plain], self.complexity, more, last, directions.astype(np.float32),
            (root**2).astype(np.float32), price, self.half, OWN, value, partner,
        )  # fmt: skip
        leading = [int(i) for i in np.argsort(-value, kind="stable")[:TRIED] if partner[i] >= 0]
        made = (self._product(self.features[i], self.features[int(partner[i])], power) for i in leading)
        return [f for f in made if f is not None]

    def _product(self, one: Feature, other: Feature, power: Transform | None) -> Expression | None:
        def make() -> Feature:
            product = Feature.product(one, other)
            return product if power is None else compose("modification", power.name, [product])

        return self.census.made(make)


def _single(columns: np.ndarray) -> np.ndarray:
    """Columns in single precision, zeros in the place of those that are not finite."""
    good = np.isfinite(columns).all(axis=1, keepdims=True)
    return np.where(good & (np.abs(columns) > SMALL), columns, 0.0).astype(np.float32)


def _factors(language: Nonlinear, census: Census) -> tuple[list[Feature], np.ndarray]:
    """Features up to some complexity, the simplest first, and their columns."""
    rich, before = language.enumerate(1), 1
    for complexity in range(2, RICH + 1):
        # There are about as many times more of the next complexity.
        if len(rich) ** 2 > MOST_RICH * before:
            break
        rich, before = language.enumerate(complexity), len(rich)
    columns: dict[Feature, np.ndarray] = {}
    for f in rich:
        if f.kind == "product":
            columns[f] = np.prod([columns[child] for child in f.children], axis=0)
        else:
            columns[f] = language.column(f, census.table, {})
    return rich, np.array(list(columns.values()))


def _distinct(features: Sequence[Feature], columns: np.ndarray) -> tuple[list[Feature], np.ndarray]:
    """Features whose columns are of use, scaled to the size one; of those that are multiples of each other one."""
    size = np.abs(columns).max(axis=1)
    good = np.flatnonzero((size > 0.0) & (size < LARGEST))
    scaled = columns[good] / size[good, None]
    key = np.abs(scaled @ np.random.default_rng(0).normal(size=columns.shape[1]))
    once = np.sort(np.unique(np.round(key, 9), return_index=True)[1])
    return [features[i] for i in good[once]], scaled[once]
