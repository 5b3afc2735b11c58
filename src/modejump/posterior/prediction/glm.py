"""Model-averaged prediction and coefficients of generalised linear models.

Given the model and g the coefficients are normal (see :mod:`modejump.posterior.prediction.laplace`), and so is the linear
predictor of a new row. Its distribution is the mixture of these normals over g given the model, and over the models;
the response has its family's distribution around the mean that belongs to the predictor.

A gamma response's shape is unknown too: its posterior given the model and g (see :mod:`modejump.posterior.prediction.shape`) is
one more mixture, over which the variances of the coefficients go with the reciprocal of the shape. Under the inverse
link a normal predictor may be negative, which no mean allows, and its reciprocal has no expectation: there the
lognormal with the same mean and variance takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special
from scipy.linalg import solve_triangular

from modejump.core.errors import InputError
from modejump.likelihoods.gaussian.shrinkage import UNSHRUNK
from modejump.posterior.fits import KeptModels, members_of, model_columns
from modejump.posterior.prediction.gaussian import NewRows, checked_level
from modejump.posterior.prediction.grid import (
    SMOOTH,
    Mixture,
    Rule,
    gamma_cdf,
    gamma_quantile,
    grid_rule,
    poisson_cdf,
    poisson_quantile,
)
from modejump.posterior.prediction.laplace import LaplaceFit, LaplaceFits, shrinkage_rule, unpacked_fits
from modejump.posterior.prediction.mean_probability import mean_chances, table_of
from modejump.posterior.prediction.mixture import make_tails, normal_quantiles
from modejump.posterior.prediction.shape import shape_rules
from modejump.problem.problem import Problem

if TYPE_CHECKING:
    from modejump.posterior.posterior import Posterior

# Numbers (rows times components) held at once while predicting, and rows.
_CHUNK = 2**21
_ROWS = 2**11
# Above this many numbers the models' factors are unpacked when needed instead of kept.
_FACTORS = 2**25
# A predictor without any uncertainty (no base, all else shrunk to nothing) has this standard deviation instead.
_LEAST_SCALE = 1e-9
# Counts are none below this predictor, and without number above.
_FLAT = {"poisson": (-40.0, 80.0)}


class Shrinkage(NamedTuple):
    """Values of s = g/(1+g), and of a gamma response's shape, that stand for their posterior.

    Those of model i are ``start[i]`` to ``start[i + 1]``. At a shape other than its estimate the coefficients have
    their variance times ``wider``, the estimate over the shape.
    """

    start: np.ndarray
    value: np.ndarray
    weight: np.ndarray
    shape: np.ndarray
    wider: np.ndarray

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Mean for each model."""
        return np.asarray(np.add.reduceat(self.weight * values, self.start[:-1]))

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of s for each model."""
        mean = self.mean(self.value)
        return mean, self.mean((self.value - np.repeat(mean, np.diff(self.start))) ** 2)

    def with_shapes(self, problem: Problem, fits: LaplaceFits, sizes: Sequence[int]) -> Shrinkage:
        """The same with the shape's posterior instead of its estimates; ``sizes`` are the models' candidate columns."""
        counts, data = np.diff(self.start), problem.data
        estimate, wald = (np.repeat(values, counts) for values in (fits.shape, fits.wald))
        flat = data.base + np.repeat(sizes, counts) * (data.code in UNSHRUNK)
        pull = wald * (1.0 - self.value) / estimate
        several, shape, weight = shape_rules(estimate, data.n, flat.astype(np.float64), pull)
        ends = np.concatenate([[0], np.cumsum(several)])
        return Shrinkage(
            ends[self.start], np.repeat(self.value, several), np.repeat(self.weight, several) * weight, shape,
            np.repeat(estimate, several) / shape,
        )  # fmt: skip


class CoefficientMoments(NamedTuple):
    """Moments of the coefficients, averaged over models; see :func:`modejump.posterior.coefficients`."""

    base_mean: np.ndarray
    base_variance: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    given_mean: np.ndarray
    given_variance: np.ndarray
    held: np.ndarray


@dataclass(frozen=True, eq=False)
class GlmPredictor:
    """The predictive distribution of one posterior of a generalised linear model, prepared for any number of rows.

    It averages over the models that :class:`modejump.posterior.Predictor` would average over.

    Attributes
    ----------
    problem : Problem
        Priors, and the data where it has them.
    models : KeptModels
        Models and weights.
    shrinkage : Shrinkage
        What stands for the posterior of g in each model.
    columns : tuple of ndarray
        Candidate columns of each model.
    """

    problem: Problem
    models: KeptModels
    shrinkage: Shrinkage
    columns: tuple[np.ndarray, ...]

    @classmethod
    def build(cls, posterior: Posterior, kind: str = "bma") -> GlmPredictor:
        """Prepare the models of one kind of prediction: "bma", "best", or "median"."""
        problem, models = posterior.problem, posterior.kept_models(kind)
        assert models.fits is not None
        if not np.isfinite(models.fits.log_marginal).all():
            raise InputError(
                f"the {kind} model has no maximum likelihood estimate, or linearly dependent columns, so it cannot "
                "predict; use kind='bma' or kind='best'."
            )
        columns = tuple(model_columns(problem, members_of(words)) for words in models.words)
        data = problem.data
        rules = [
            shrinkage_rule(data.code, data.par, data.n, data.base, len(c), float(wald))
            for c, wald in zip(columns, models.fits.wald, strict=True)
        ]
        start = np.concatenate([[0], np.cumsum([len(value) for value, _ in rules])]).astype(np.int64)
        value, weight = (np.concatenate([rule[i] for rule in rules]) for i in range(2))
        shrinkage = Shrinkage(start, value, weight, np.ones(len(value)), np.ones(len(value)))
        if problem.family.name == "gamma":
            shrinkage = shrinkage.with_shapes(problem, models.fits, [len(c) for c in columns])
        return cls(problem, models, shrinkage, columns)

    @property
    def fits(self) -> LaplaceFits:
        """The models' fits."""
        assert self.models.fits is not None
        return self.models.fits

    @cached_property
    def _unpacked(self) -> tuple[LaplaceFit, ...] | None:
        few = int((self.fits.size**2).sum()) <= _FACTORS
        return tuple(unpacked_fits(self.fits, self.columns)) if few else None

    def each_fit(self) -> Iterator[tuple[int, LaplaceFit]]:
        """The fit of each model with its position."""
        yield from enumerate(self._unpacked or unpacked_fits(self.fits, self.columns))

    @cached_property
    def used(self) -> np.ndarray:
        """Candidate columns that some model has, ascending."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *self.columns]))

    @cached_property
    def base_root(self) -> np.ndarray:
        """What brings rows of the base to its orthonormal columns."""
        factor = generalised_base_factor(self.problem)
        return solve_triangular(factor, np.eye(len(factor))) if len(factor) else factor

    @property
    def _log_scale(self) -> bool:
        """Whether mixtures are of the log mean: under the log link, and the inverse one by matching moments."""
        return self.problem.family.link in ("log", "inverse")

    def mean(self, new: NewRows) -> np.ndarray:
        """Predictive mean of the response: for a binomial one the probability of 1."""
        out = np.empty(len(new.x))
        for rows, mixture in self._blocks(new):
            if self._log_scale:
                with np.errstate(over="ignore"):
                    out[rows] = (mixture.weight * np.exp(mixture.loc + 0.5 * mixture.scale**2)).sum(axis=1)
            else:
                mean_chances(mixture.loc, mixture.scale, mixture.weight, table_of(self.problem.family), out[rows])
        return out

    def std(self, new: NewRows) -> np.ndarray:
        """Predictive standard deviation of the response; of 0 and 1 for a binomial one."""
        if not self._log_scale:
            mean = self.mean(new)
            return np.sqrt(mean * (1.0 - mean))
        out = np.empty(len(new.x))
        for rows, (loc, scale, weight, shape) in self._blocks(new):
            with np.errstate(over="ignore", invalid="ignore"):
                centre = np.exp(loc + 0.5 * scale**2)
                mean = (weight * centre).sum(axis=1)
                second = centre**2 * np.exp(scale**2)
                noise = centre if self.problem.family.name == "poisson" else second / shape
                spread = centre**2 * np.expm1(scale**2) + (centre - mean[:, None]) ** 2
                out[rows] = np.sqrt((weight * (noise + spread)).sum(axis=1))
        return np.where(np.isnan(out), np.inf, out)

    def cdf(self, new: NewRows, y: np.ndarray) -> np.ndarray:
        """Probability that each row's response is at most ``y``.

        Parameters
        ----------
        new : NewRows
            The rows.
        y : ndarray of shape (rows,)
            One value for each row.
        """
        y = np.asarray(y, dtype=np.float64)
        name = self.problem.family.name
        if name == "binomial":
            return np.where(y < 0.0, 0.0, np.where(y < 1.0, 1.0 - self.mean(new), 1.0))
        out = np.empty(len(new.x))
        for rows, mixture in self._blocks(new):
            out[rows] = (poisson_cdf if name == "poisson" else gamma_cdf)(self._rule(mixture), y[rows])
        return out

    def quantiles(self, new: NewRows, probability: np.ndarray) -> np.ndarray:
        """Quantiles of new observations, shape (rows, len(probability)); of the probability of 1 for binomial ones.

        Those of counts are the smallest counts that hold the probability.
        """
        probability = np.asarray(probability, dtype=np.float64)
        name = self.problem.family.name
        if name == "binomial":
            return self.mean_quantiles(new, probability)
        out = np.empty((len(new.x), len(probability)))
        solve = poisson_quantile if name == "poisson" else gamma_quantile
        for rows, mixture in self._blocks(new):
            rule = self._rule(mixture)
            for q, p in enumerate(probability):
                out[rows, q] = solve(rule, float(p))
        return out

    def mean_quantiles(self, new: NewRows, probability: np.ndarray) -> np.ndarray:
        """Quantiles of the posterior of the response's mean, without the spread of responses around it."""
        probability = np.asarray(probability, dtype=np.float64)
        out = np.empty((len(new.x), len(probability)))
        unit, grid = special.ndtri(probability), make_tails(np.array([np.inf])).grid
        for rows, mixture in self._blocks(new):
            normal_quantiles(mixture.loc, mixture.scale, mixture.weight, grid, unit, probability, out[rows])
        return np.exp(out) if self._log_scale else self.problem.family.mean(out)

    def interval(self, new: NewRows, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the central interval of ``level``: of a new observation; of the probability of 1 for a binomial one.

        An interval of counts holds the level at least.
        """
        level = checked_level(level)
        ends = self.quantiles(new, np.array([0.5 - level / 2, 0.5 + level / 2]))
        return ends[:, 0], ends[:, 1]

    def _rule(self, mixture: Mixture) -> Rule:
        """Nodes of the predictor close enough for its family's distribution function."""
        sharp = np.full(len(mixture.loc), SMOOTH)
        if self.problem.family.name == "gamma":
            sharp = np.minimum(sharp, float(self.shrinkage.shape.max()) ** -0.5)
        elif self.problem.family.name == "poisson":
            top = np.where(mixture.weight > 0.0, mixture.loc + 3.0 * mixture.scale, -np.inf).max(axis=1)
            sharp = np.minimum(sharp, np.exp(-0.5 * np.minimum(top, 700.0)))
        return grid_rule(mixture, sharp, _FLAT.get(self.problem.family.name, (-np.inf, np.inf)))

    def _blocks(self, new: NewRows) -> Iterator[tuple[slice, Mixture]]:
        """The mixtures of some rows at a time."""
        position = np.zeros(self.problem.n_columns, np.int64)
        position[self.used] = np.arange(len(self.used))
        c, b = self.problem.data.columns, self.problem.data.base
        count = len(self.columns)
        step = max(1, min(_ROWS, _CHUNK // (len(self.shrinkage.value) + len(self.used) + b + 1)))
        for first in range(0, len(new.x), step):
            rows = slice(first, min(first + step, len(new.x)))
            base, chosen = new.base[rows], self.used
            z = (new.x[rows][:, chosen] - base @ c.loading[:, chosen]) / c.scale[chosen]
            unit_base = base @ self.base_root
            # Location and variance are linear in s: what the base gives, and what the candidates add.
            parts = np.empty((4, len(z), count))
            for i, fit in self.each_fit():
                loads = np.hstack([unit_base, z[:, position[fit.columns]]]) @ fit.root
                parts[0, :, i] = loads[:, :b] @ fit.centre[:b]
                parts[1, :, i] = loads[:, b:] @ fit.centre[b:]
                parts[2, :, i] = np.square(loads[:, :b]).sum(axis=1)
                parts[3, :, i] = np.square(loads[:, b:]).sum(axis=1)
            yield rows, self._mixture(parts, new.offset[rows], first)

    def _mixture(self, parts: np.ndarray, offset: np.ndarray, first: int) -> Mixture:
        """Components of some rows from what base and candidates give to the predictor in each model."""
        counts = np.diff(self.shrinkage.start)
        s = self.shrinkage.value
        fixed, slope, fixed_variance, variance_slope = np.repeat(parts, counts, axis=2)
        loc = offset[:, None] + fixed + s * slope
        variance = (fixed_variance + s * variance_slope) * self.shrinkage.wider
        weight = np.repeat(self.models.weight, counts) * self.shrinkage.weight
        shares = np.ascontiguousarray(np.broadcast_to(weight, loc.shape))
        if self.problem.family.link == "inverse":
            loc, variance, shares = _reciprocal(loc, variance, shares, first)
        return Mixture(loc, np.sqrt(np.maximum(variance, _LEAST_SCALE**2)), shares, self.shrinkage.shape)

    def coefficient_moments(self) -> CoefficientMoments:
        """Means and variances of the coefficients of the base and of the candidates, on their original scale."""
        parts = list(self._each_coefficients())
        weight, p = self.models.weight, self.problem.n_columns
        held, mean = np.zeros(p), np.zeros(p)
        base_mean = np.zeros(self.problem.data.base)
        for w, (columns, centre, _, base_centre, _) in zip(weight, parts, strict=True):
            held[columns] += w
            mean[columns] += w * centre
            base_mean += w * base_centre
        with np.errstate(invalid="ignore"):
            given = mean / held
        # About the means, in a second pass: coefficients known to many digits lose none.
        variance = np.maximum(1.0 - held, 0.0) * mean**2
        given_variance = np.where(held > 0.0, 0.0, np.nan)
        base_variance = np.zeros_like(base_mean)
        for w, (columns, centre, own, base_centre, base_own) in zip(weight, parts, strict=True):
            variance[columns] += w * (own + (centre - mean[columns]) ** 2)
            given_variance[columns] += w * (own + (centre - given[columns]) ** 2) / held[columns]
            base_variance += w * (base_own + (base_centre - base_mean) ** 2)
        return CoefficientMoments(base_mean, base_variance, mean, variance, given, given_variance, held)

    def _each_coefficients(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Of each model: its columns, mean and variance of their coefficients, and of the base's coefficients."""
        c, b = self.problem.data.columns, self.problem.data.base
        shrink, shrink_variance = self.shrinkage.moments()
        wider, shrunk = (self.shrinkage.mean(v * self.shrinkage.wider) for v in (1.0, self.shrinkage.value))
        for i, fit in self.each_fit():
            k = len(fit.columns)
            # Coefficients on the original scale, those of the base first, from the standardised ones.
            back = np.zeros((b + k, b + k))
            back[:b, :b] = self.base_root
            back[:b, b:] = -c.loading[:, fit.columns] / c.scale[fit.columns]
            back[b:, b:] = np.diag(1.0 / c.scale[fit.columns])
            loads = back @ fit.root
            slope = loads[:, b:] @ fit.centre[b:]
            mean = loads[:, :b] @ fit.centre[:b] + shrink[i] * slope
            own = wider[i] * np.square(loads[:, :b]).sum(axis=1) + shrunk[i] * np.square(loads[:, b:]).sum(axis=1)
            own += shrink_variance[i] * slope**2
            yield fit.columns, mean[b:], own[b:], mean[:b], own[:b]


def _reciprocal(
    loc: np.ndarray, variance: np.ndarray, weight: np.ndarray, first: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log means under the inverse link: minus the log of a lognormal predictor with these means and variances.

    A model whose predictor is not positive at a row has nothing to say about it, and the others share its weight.
    """
    positive = loc > 0.0
    weight = np.where(positive, weight, 0.0)
    total = weight.sum(axis=1)
    if (total <= 0.0).any():
        row = first + int(np.argmax(total <= 0.0))
        raise InputError(
            f"the linear predictor of new row {row} is not positive in any model, so that the inverse link has no mean "
            "there; predict within the range of the data, or fit with the log link."
        )
    safe = np.where(positive, loc, 1.0)
    log_variance = np.log1p(variance / safe**2)
    return 0.5 * log_variance - np.log(safe), log_variance, weight / total[:, None]


def generalised_base_factor(problem: Problem) -> np.ndarray:
    """The triangular factor R of the base, ``B = Q R``, Q the orthonormal columns of the generalised linear model."""
    return np.asarray(problem.data.glm.base @ problem.data.columns.base)
