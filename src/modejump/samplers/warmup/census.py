"""A census: very many simple products compared at once, beside a model or as terms of a sum.

Edits lead from a good feature to a better one, and where all that is near is worse, a law stays hidden. So a search is
handed products of two factors that explain most of what its model leaves, and models of several simple products that
were chosen together. It judges them as anything else. For laws there is more, see
`modejump.samplers.warmup.product_census`.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from modejump.core.errors import InputError
from modejump.features.expression import Expression
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.language import Nonlinear
from modejump.kernels.census import OWN, best_pairs, cross_products, explained_shares, own_parts
from modejump.problem.feature_problem import FeatureProblem

# Rows that are looked at, what they are drawn by, and covariates at most.
ROWS = 256
SEED = 20_090_923
MOST_COVARIATES = 24
# Complexities of the two factors by the paper's rules, and how many of each there are, at most.
FACTORS, MOST_FIRST, MOST_SECOND = (3, 2), 4000, 160
# First factors that one census looks at, and products of each complexity that are suggested.
MOST_FACTORS = 2400
ALIKE = 3
# Share of the parts that one census looks at.
SHARE = 0.75
# Squares of larger numbers are of no use.
LARGEST = 1e60


def rows_of_census(n: int) -> np.ndarray:
    """Which of n rows a census looks at: drawn, since rows of a designed experiment repeat themselves."""
    return np.arange(n) if n <= ROWS else np.sort(np.random.default_rng(SEED).choice(n, ROWS, replace=False))


def draw_rows(n: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """Some of very many rows, such that a census looks at the same ones in every draw and in all rows.

    Parameters
    ----------
    n, most : int
        How many rows there are, and how many are drawn.
    rng : Generator
        What they are drawn by.
    """
    drawn, there = np.empty(most, np.int64), np.zeros(most, bool)
    there[rows_of_census(most)] = True
    drawn[there] = rows_of_census(n)
    drawn[~there] = rng.choice(np.delete(np.arange(n), drawn[there]), most - ROWS, replace=False)
    return drawn


class Factor(NamedTuple):
    """A factor of simple products, None for the number 1, its column, and the constant that this was made with."""

    node: Expression | None
    column: np.ndarray
    constant: float | None = None


def usable(factors: Sequence[Factor]) -> tuple[list[Factor], np.ndarray]:
    """Factors whose columns are finite and of a size whose square is of use, and these columns."""
    columns = np.array([f.column for f in factors])
    good = (np.abs(columns) < LARGEST).all(axis=1)
    return list(itertools.compress(factors, good)), columns[good]


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Inner products of the rows of two matrices."""
    out = np.empty((len(a), len(b)))
    cross_products(np.ascontiguousarray(a), np.ascontiguousarray(b), out)
    return out


def basis_of(rows: np.ndarray) -> np.ndarray:
    """Orthonormal rows with the same span."""
    return np.linalg.qr(rows.T)[0].T


def without(rows: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Rows without their part in the span of a basis; zero where nothing of their own is left."""
    left = rows - np.einsum("ib,bn->in", cross(rows, basis), basis)
    left[np.einsum("in,in->i", left, left) <= OWN**2 * np.einsum("in,in->i", rows, rows)] = 0.0
    return left


def unit_without(rows: np.ndarray, weight: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Weighted rows without their part in the span of a basis, of unit length; zero where nothing is left."""
    out = np.empty(rows.shape)
    own_parts(np.ascontiguousarray(rows), weight, np.ascontiguousarray(basis), OWN, out)
    return out


def ways_out(members: int, most: int) -> list[tuple[int, ...]]:
    """Which members of a model may make way: up to so many of them, and none."""
    return [out for k in range(min(most, members) + 1) for out in itertools.combinations(range(members), k)]


def pairs_beside(
    rows: np.ndarray, there: np.ndarray, y: np.ndarray, weight: np.ndarray, ways: Sequence[tuple[int, ...]], half: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each way, how good each column is with another one in the place of members that make way, and which one.

    Parameters
    ----------
    rows, there, y : ndarray
        Columns that may come, the members, and the response, as rows of unit length without what is in every model.
    weight : ndarray
        Log prior weights of the columns.
    ways : sequence of tuple of int
        Members that make way.
    half : float
        Half the number of observations.

    Yields
    ------
    value, partner : ndarray
        Log posterior of the pair, up to a constant and without that of the members; the other column, -1 for none.
    """
    gram, along = cross(rows, rows), cross(rows, y[None])[:, 0]
    for out in ways:
        rest = [i for i in range(len(there)) if i not in out]
        shared = cross(basis_of(there[rest]), np.vstack([rows, y])) if rest else np.zeros((0, len(rows) + 1))
        own = gram - np.einsum("ki,kj->ij", shared[:, :-1], shared[:, :-1])
        target, left = along - shared[:, -1] @ shared[:, :-1], 1.0 - float(np.sum(shared[:, -1] ** 2))
        value, partner = np.empty(len(rows)), np.empty(len(rows), np.int64)
        best_pairs(own, target, left, weight, half, OWN, value, partner)
        yield value, partner


class Census:
    """Simple products over some rows of a problem with a Gaussian response.

    Parameters
    ----------
    problem : FeatureProblem
        A problem for which there can be a census.
    """

    languages: ClassVar[tuple[type, ...]] = (Nonlinear,)
    # Whether there are so many factors that searches which begin with several terms begin differently.
    varied: ClassVar[bool] = False
    product: ClassVar[Callable[..., Expression]] = staticmethod(Feature.product)

    def __init__(self, problem: FeatureProblem) -> None:
        self.language, self.rows = problem.language, rows_of_census(problem.x.shape[1])
        self.table = {name: column[self.rows] for name, column in problem.table.items()}
        one = Factor(None, np.ones(len(self.rows)))
        with np.errstate(all="ignore"):
            first, second = self.factors(np.array(list(self.table.values())))
            (self.first, self.left), (self.second, self.right) = usable([one, *first]), usable([one, *second])
        self.complexity = tuple(
            np.array([f.node.complexity if f.node is not None else 0 for f in some])
            for some in (self.first, self.second)
        )
        # Simple products that somebody has asked for, None where they are no features.
        self._products: dict[tuple[int, int], Expression | None] = {}
        self.plain = np.array([i for i, f in enumerate(self.first) if f.node is not None and not f.node.constants], int)
        rational = {node: node is None or self.is_rational(node) for node in {f.node for f in self.first}}
        self.rational = np.array([rational[f.node] for f in self.first], bool)
        self._ask(problem)

    @staticmethod
    def is_rational(feature: Expression) -> bool:
        """Whether a first factor has no functions in it."""
        return False

    def _ask(self, problem: FeatureProblem) -> None:
        # Not the problem itself: a census is kept for as long as nobody else has forgotten that.
        self.size, self.price = problem.size, problem.weights_by_complexity()
        self.y, self.root = problem.y[self.rows], problem.root_weight[self.rows]
        self.whole = cross(self.left**2, self.right**2 * self.root**2)

    def of(self, problem: FeatureProblem) -> Census | None:
        """The census of another problem with the same factors, None where its rows are others."""
        rows = rows_of_census(problem.x.shape[1])
        if problem.language is not self.language or not np.array_equal(problem.x[:, rows], list(self.table.values())):
            return None
        census = copy.copy(self)
        census.rows = rows
        census._ask(problem)
        return census

    def factors(self, x: np.ndarray) -> tuple[list[Factor], list[Factor]]:
        """First and second factors, and their columns by the rows of the census."""
        sets = [list(self.language.enumerate(complexity)) for complexity in FACTORS]
        first, second = (
            [Factor(f, self.language.column(f, self.table, {})) for f in some[:most]]
            for some, most in zip(sets, (MOST_FIRST, MOST_SECOND), strict=True)
        )
        return first, second

    def beside(
        self, others: Sequence[Expression], constants: Mapping[Expression, np.ndarray], rng: np.random.Generator
    ) -> list[Expression]:
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
        columns = [self.column(f, constants) for f in others]
        inner = [self._inner(chosen, column) for column in (np.ones(len(self.rows)), *columns, self.y)]
        share = self.explained(self.whole[chosen], columns, inner)
        cost = self.cost(chosen)
        found: dict[Expression, None] = {}
        for complexity in range(1, int(cost.max()) + 1):
            value = np.where(cost == complexity, share, 0.0).ravel()
            for at in np.argpartition(-value, ALIKE)[:ALIKE]:
                feature = self.simple_product(chosen, int(at))
                if feature is not None and value[at] > 0.0:
                    found[feature] = None
        return list(found)

    def _some(self, rng: np.random.Generator) -> np.ndarray:
        """First factors that a census looks at, the number 1 among them."""
        return np.concatenate([[0], 1 + rng.permutation(len(self.left) - 1)[:MOST_FACTORS]])

    def cost(self, chosen: np.ndarray) -> np.ndarray:
        """Complexities of simple products."""
        return np.add.outer(self.complexity[0][chosen], self.complexity[1])

    def simple_product(self, chosen: np.ndarray, at: int) -> Expression | None:
        """A product of one of some first factors and a second one, by its number, None where it is no feature."""
        i, j = divmod(at, len(self.right))
        i = int(chosen[i])
        if (i, j) not in self._products:
            factors = [f.node for f in (self.first[i], self.second[j]) if f.node is not None]
            self._products[i, j] = self.made(self.product, *factors) if factors else None
        return self._products[i, j]

    def made(self, make: Callable[..., Expression], *given: Any) -> Expression | None:
        """What a function makes, where that is a feature of the space."""
        try:
            feature = make(*given)
        except InputError:
            return None
        return feature if self.language.contains(feature) else None

    def _inner(self, chosen: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Inner products of a column with all simple products of some first factors."""
        return cross(self.left[chosen], self.right * (self.root**2 * column))

    def explained(self, whole: np.ndarray, columns: Sequence[np.ndarray], inner: Sequence[np.ndarray]) -> np.ndarray:
        """Share of what columns leave of the response that each of very many products explains.

        Parameters
        ----------
        whole : ndarray
            Squared lengths of the products.
        columns : sequence of ndarray
            The columns; that of the intercept is added.
        inner : sequence of ndarray
            Inner products of the products with the intercept, the columns and the response.
        """
        basis, r = np.linalg.qr((np.vstack([np.ones(len(self.rows)), *columns]) * self.root).T)
        y = self.y * self.root
        share = np.zeros(whole.shape)
        left = float(np.sum(without(y[None], basis.T) ** 2))
        if left > 0.0 and np.abs(np.diag(r)).min() > OWN * np.abs(np.diag(r)).max():
            flat = np.array(inner).reshape(len(inner), -1)
            explained_shares(flat, r, basis.T @ y, whole.ravel(), left, OWN, share.ravel())
        return share

    def column(self, feature: Expression, constants: Mapping[Expression, np.ndarray]) -> np.ndarray:
        """Column of a feature by the rows of the census, of about unit size."""
        column = self.language.column(feature, self.table, constants)
        return np.asarray(column / np.abs(column).max())

    def simple(self) -> list[Expression]:
        """Factors without constants that are features themselves, the simplest first."""
        alone = [f.node for f in (*self.first, *self.second) if f.node is not None and not f.node.constants]
        return sorted({f for f in alone if self.language.contains(f)})

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
        y = self.y
        if not others:
            return y
        design = np.column_stack([*(self.column(f, constants) for f in (*others, *own)), np.ones(len(y))])
        fitted = np.linalg.lstsq(design * self.root[:, None], y * self.root, rcond=None)[0]
        return np.asarray(y - design[:, : len(others)] @ fitted[: len(others)])

    def suggest(self, target: np.ndarray, rng: np.random.Generator) -> list[Expression]:
        """Products that explain a target, where there are more than simple ones.

        Parameters
        ----------
        target : ndarray
            What the product should explain, by the rows of the census.
        rng : Generator
            Which of them are looked at.
        """
        return []

    def suggest_factors(
        self, target: np.ndarray, own: Expression, constants: np.ndarray, rng: np.random.Generator
    ) -> list[Expression]:
        """Products with other factors of some covariates, where there are more than simple ones.

        Parameters
        ----------
        target : ndarray
            What the product should explain, by the rows of the census.
        own : Feature
            The product.
        constants : ndarray
            The constants inside it.
        rng : Generator
            Which of them are looked at.
        """
        return []


_KNOWN: WeakKeyDictionary[FeatureProblem, Census] = WeakKeyDictionary()
_LOCK = threading.Lock()


def can_count(problem: FeatureProblem) -> bool:
    """Whether there can be a census: with a Gaussian response, and not too many covariates."""
    return _kind_of(problem) is not None and problem.family.conjugate and len(problem.names) <= MOST_COVARIATES


def _kind_of(problem: FeatureProblem) -> type[Census] | None:
    from modejump.samplers.warmup.product_census import ProductCensus

    return next((kind for kind in (Census, ProductCensus) if isinstance(problem.language, kind.languages)), None)


def census_of(problem: FeatureProblem) -> Census:
    """The census of a problem, which all of its chains share."""
    kind = _kind_of(problem)
    assert kind is not None
    with _LOCK:
        if problem not in _KNOWN:
            _KNOWN[problem] = kind(problem)
        return _KNOWN[problem]


def share_census(known: FeatureProblem, problem: FeatureProblem) -> None:
    """Take the factors of a problem's census for another problem that has the same rows.

    Parameters
    ----------
    known, problem : FeatureProblem
        A problem, and one that asks for other weights of its rows.
    """
    with _LOCK:
        made = _KNOWN[known].of(problem) if known in _KNOWN else None
        if made is not None:
            _KNOWN[problem] = made
