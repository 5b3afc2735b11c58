"""What predictive distributions share: new rows, the models' fits, and the moments of coefficients.

Given a model and g, with s = g/(1+g), location and variance of a row's linear predictor are linear in s: what the base
gives, and what the model's columns add. The predictive distribution is a mixture over values of g given the model, and
over the models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from modejump.core.errors import InputError
from modejump.likelihoods.columns import Conjugate
from modejump.posterior.fits import KeptModels, model_columns
from modejump.problem.problem import Problem
from modejump.samplers.result import members_of

# Numbers held at once while predicting, and rows.
_CHUNK = 2**21
_ROWS = 2**11
# Above this many numbers the models' factors are computed when needed instead of kept.
_FACTORS = 2**25


class NewRows(NamedTuple):
    """Rows to predict: candidate columns in the problem's order, the base's columns (intercept first), and offsets."""

    x: np.ndarray
    base: np.ndarray
    offset: np.ndarray


def new_rows(
    problem: Problem, x: np.ndarray, always: np.ndarray | None = None, offset: np.ndarray | None = None
) -> NewRows:
    """Arrange new rows: candidate columns in the problem's order, columns always in, and offset."""
    x = np.asarray(x, dtype=np.float64)
    always = np.empty((len(x), 0)) if always is None else np.asarray(always, dtype=np.float64)
    if not (_finite(x) and _finite(always)):
        raise InputError("the new rows hold NaN or infinite values; drop or impute these rows first.")
    ones = [np.ones((len(x), 1))] if problem.intercept else []
    return NewRows(x, np.hstack([*ones, always]), np.zeros(len(x)) if offset is None else offset)


def _finite(values: np.ndarray) -> bool:
    """Whether all are finite; where their sum is, there is no need to look at each."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def base_factor(problem: Problem) -> np.ndarray:
    """The triangular factor R of the base's columns, which brings them to orthonormal ones."""
    columns, glm = problem.data.columns, problem.data.glm
    if not isinstance(glm, Conjugate):
        return np.asarray(glm.base @ columns.base)
    weighted = columns.base * columns.root_weight[:, None]
    return np.asarray(np.linalg.qr(weighted, mode="r")) if weighted.shape[1] else np.zeros((0, 0))


def row_slices(count: int, width: int) -> Iterator[slice]:
    """Slices of so many rows, each with about as many numbers, at ``width`` for a row, as are held at once."""
    step = max(1, min(_ROWS, _CHUNK // max(width, 1)))
    for first in range(0, count, step):
        yield slice(first, min(first + step, count))


class GNodes(NamedTuple):
    """Values of s = g/(1+g) that stand for its posterior; those of model i are ``start[i]`` to ``start[i + 1]``."""

    start: np.ndarray
    shrink: np.ndarray
    weight: np.ndarray  # given the model

    @classmethod
    def of(cls, rules: Sequence[tuple[np.ndarray, np.ndarray]]) -> GNodes:
        """From values and weights of each model."""
        start = np.concatenate([[0], np.cumsum([len(rule[0]) for rule in rules])]).astype(np.int64)
        return cls(start, *(np.concatenate([rule[i] for rule in rules]) for i in range(2)))

    def repeat(self, values: np.ndarray) -> np.ndarray:
        """A value of each model at each of its nodes."""
        return np.repeat(values, np.diff(self.start), axis=-1)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Mean for each model."""
        return np.asarray(np.add.reduceat(self.weight * values, self.start[:-1]))

    def variance(self) -> np.ndarray:
        """Variance of s for each model."""
        return self.mean((self.shrink - self.repeat(self.mean(self.shrink))) ** 2)


class AffineCoefficients(NamedTuple):
    """A model's coefficients on their original scale, those of the base first: ``fixed + s slope + loads @ u``.

    At a node, u is normal or Student-t about zero; its squared scale is the node's ``unit2`` for the base's part, and s
    times that for the part of the model's columns.
    """

    columns: np.ndarray
    fixed: np.ndarray
    slope: np.ndarray
    loads: np.ndarray


class Coefficients(NamedTuple):
    """Mean and variance of a model's coefficients on their original scale, and of the base's in it."""

    columns: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    base_mean: np.ndarray
    base_variance: np.ndarray


class PredictiveDistribution:
    """The predictive distribution of one posterior, prepared once for any number of rows.

    It averages over the leading models that hold 0.999 of the posterior mass, their weights renormalised; a
    posterior that would need more than 2000 is thinned (see :func:`modejump.posterior.fits.keep_models`).
    """

    nodes: GNodes
    # Of each node: squared scale of u in `AffineCoefficients`, and its degrees of freedom, infinite where it is normal.
    unit2: np.ndarray
    freedom: np.ndarray
    # Of each model: E Var u, and E s Var u.
    _variance: np.ndarray
    _shrunk_variance: np.ndarray

    def __init__(self, problem: Problem, models: KeptModels, kind: str = "bma") -> None:
        if not models.estimated.all():
            raise InputError(
                f"the {kind} model has linearly dependent columns, too many for the rows, or no maximum likelihood "
                "estimate, so it cannot predict; use kind='bma', the average over all models."
            )
        self.problem, self.models = problem, models
        self.columns = [model_columns(problem, members_of(words)) for words in models.words]

    def _fits(self) -> Iterator[Any]:
        """The fit of each model."""
        raise NotImplementedError

    @cached_property
    def _kept_fits(self) -> list[Any] | None:
        few = sum((self.problem.data.base + len(c)) ** 2 for c in self.columns) <= _FACTORS
        return list(self._fits()) if few else None

    def each_fit(self) -> Iterator[Any]:
        """The fit of each model."""
        yield from self._fits() if self._kept_fits is None else self._kept_fits

    @cached_property
    def used(self) -> np.ndarray:
        """Candidate columns that some model has, ascending."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *self.columns]))

    @cached_property
    def _places(self) -> list[np.ndarray]:
        """Places of each model's columns among those used."""
        return [np.searchsorted(self.used, columns) for columns in self.columns]

    @cached_property
    def base_root(self) -> np.ndarray:
        """What brings rows of the base to its orthonormal columns."""
        factor = base_factor(self.problem)
        return solve_triangular(factor, np.eye(len(factor))) if len(factor) else factor

    def _row_blocks(self, new: NewRows, width: int) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Some rows at a time: which, their standardised columns of those used, and orthonormal ones of the base.

        ``width`` numbers are made of each row.
        """
        c = self.problem.data.columns
        for rows in row_slices(len(new.x), width + len(self.used) + self.problem.data.base):
            z = (new.x[rows][:, self.used] - new.base[rows] @ c.loading[:, self.used]) / c.scale[self.used]
            yield rows, z, new.base[rows] @ self.base_root

    def mean(self, new: NewRows) -> np.ndarray:
        """Predictive mean of the response."""
        raise NotImplementedError

    def std(self, new: NewRows) -> np.ndarray:
        """Predictive standard deviation of the response."""
        raise NotImplementedError

    def quantiles(self, new: NewRows, probability: np.ndarray) -> np.ndarray:
        """Predictive quantiles, shape (rows, len(probability))."""
        raise NotImplementedError

    def interval(self, new: NewRows, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the central interval of new rows; for counts it holds with at least that probability."""
        ends = self.quantiles(new, np.array([0.5 - level / 2, 0.5 + level / 2]))
        return ends[:, 0], ends[:, 1]

    def mean_quantiles(self, new: NewRows, probability: np.ndarray) -> np.ndarray:
        """Quantiles of the posterior of the response's mean, without the noise of responses around it."""
        raise NotImplementedError

    def affine_coefficients(self) -> Iterator[AffineCoefficients]:
        """Coefficients of each model, given s."""
        raise NotImplementedError

    def _coefficients(self) -> Iterator[Coefficients]:
        """Coefficients of each model."""
        b, shrink, over_g = self.problem.data.base, self.nodes.mean(self.nodes.shrink), self.nodes.variance()
        for i, model in enumerate(self.affine_coefficients()):
            square = np.square(model.loads)
            parts = (
                (square[:, :b].sum(axis=1), self._variance[i]),
                (square[:, b:].sum(axis=1), self._shrunk_variance[i]),
            )
            own = over_g[i] * model.slope**2
            for load, variance in parts:
                # A variance may be infinite where its load is zero.
                own += np.multiply(load, variance, out=np.zeros_like(load), where=load > 0.0)
            mean = model.fixed + shrink[i] * model.slope
            yield Coefficients(model.columns, mean[b:], own[b:], mean[:b], own[:b])

    def coefficient_moments(self) -> dict[str, np.ndarray]:
        """Posterior mean and standard deviation of all coefficients, the base's first, averaged over models.

        A coefficient is zero in the models that lack its column; ``mean`` and ``sd`` include these zeros, while
        ``conditional_mean`` and ``conditional_sd`` are over the models that have it, and ``probability`` is their mass.
        All are on the original scale of the columns; those of a generalised linear model on that of its linear
        predictor. The standard deviation is infinite where the posterior has two degrees of freedom or less. Squares
        are summed about the means, in a second pass: coefficients known to many digits lose none.
        """
        weight, p, b = self.models.weight, self.problem.n_columns, self.problem.data.base
        held, mean = np.zeros(p), np.zeros(p)
        base_mean, base_variance = np.zeros(b), np.zeros(b)
        for w, model in zip(weight, self._coefficients(), strict=True):
            held[model.columns] += w
            mean[model.columns] += w * model.mean
            base_mean += w * model.base_mean
        with np.errstate(invalid="ignore"):
            given = mean / held
        variance = np.maximum(1.0 - held, 0.0) * mean**2
        given_variance = np.where(held > 0.0, 0.0, np.nan)
        for w, model in zip(weight, self._coefficients(), strict=True):
            c = model.columns
            variance[c] += w * (model.variance + (model.mean - mean[c]) ** 2)
            given_variance[c] += w * (model.variance + (model.mean - given[c]) ** 2) / held[c]
            base_variance += w * (model.base_variance + (model.base_mean - base_mean) ** 2)
        return {
            "mean": np.concatenate([base_mean, mean]),
            "sd": np.sqrt(np.concatenate([base_variance, variance])),
            "conditional_mean": np.concatenate([base_mean, given]),
            "conditional_sd": np.sqrt(np.concatenate([base_variance, given_variance])),
            "probability": np.concatenate([np.ones(b), held]),
        }
