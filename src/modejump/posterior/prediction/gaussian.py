"""Model-averaged prediction of new observations.

Given a model and g, with s = g/(1+g), the base's flat prior and the reference prior on the variance, a new
observation is Student-t with ``nu = n - base`` degrees of freedom, location ``base part + s z'b`` and squared
scale ``SS/nu (1 + h0 + s h)``, where ``SS = RSS(base) (1 - s R^2)``, b is the least-squares fit in
standardised columns z, h the leverage of z, and h0 the row's leverage in the base. Where the prior of the
coefficients is flat (g infinite: Jeffreys, BIC, AIC) ``nu = n - base - k``: the classical prediction
interval, given the model. With known variance it is normal. The predictive distribution is the mixture of
these over g given the model, and over the models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from modejump.core.errors import InputError
from modejump.likelihoods.gaussian.shrinkage import posterior_g_nodes
from modejump.posterior.fits import Fit, KeptModels, fit_model, members_of
from modejump.posterior.prediction.mixture import (
    Components,
    Tails,
    gauss_rule,
    make_tails,
    mixture_quantiles,
    quantile,
)
from modejump.priors import codes
from modejump.problem.problem import Problem

if TYPE_CHECKING:
    from modejump.posterior.posterior import Posterior

# How many values of g stand for p(g|y,M): a Gauss rule needs the fewer the narrower that posterior is.
_NARROW = ((0.05, 3), (0.25, 5), (np.inf, 8))
# Numbers (rows times models) held at once while predicting.
_CHUNK = 2**21
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
    """Check and arrange new rows.

    Parameters
    ----------
    problem : Problem
        The problem they belong to.
    x : ndarray of shape (rows, p)
        Candidate columns in the problem's order.
    always : ndarray of shape (rows, b), optional
        Columns of the terms that are always in, without the intercept.
    offset : ndarray of shape (rows,), optional
        Known part of the linear predictor; zero where it is not given. Not for Gaussian responses.
    """
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] != problem.n_columns:
        raise InputError(f"new rows have shape {x.shape}, but the problem has {problem.n_columns} candidate columns.")
    wanted = problem.data.base - int(problem.intercept)
    always = np.empty((len(x), 0)) if always is None else np.asarray(always, dtype=np.float64)
    if always.shape != (len(x), wanted):
        raise InputError(f"the columns of terms always in have shape {always.shape}, but {(len(x), wanted)} is needed.")
    if not (_finite(x) and _finite(always)):
        raise InputError("the new rows hold NaN or infinite values; drop or impute these rows first.")
    ones = [np.ones((len(x), 1))] if problem.intercept else []
    return NewRows(x, np.hstack([*ones, always]), _new_offset(problem, offset, len(x)))


def _finite(values: np.ndarray) -> bool:
    """Whether all are finite; where their sum is, there is no need to look at each."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def _new_offset(problem: Problem, offset: np.ndarray | None, rows: int) -> np.ndarray:
    """The offset of new rows as numbers."""
    if offset is None:
        return np.zeros(rows)
    if problem.family.name == "gaussian":
        raise InputError("an offset is for families other than gaussian; add it to the predictions instead.")
    values = np.asarray(offset, dtype=np.float64)
    if values.shape != (rows,):
        raise InputError(f"offset has shape {values.shape} for {rows} new rows; give one number for each row.")
    if not np.isfinite(values).all():
        raise InputError("the offset of the new rows holds NaN or infinite values; give finite numbers.")
    return values


def checked_level(level: float) -> float:
    """The level of an interval, refused outside of (0, 1)."""
    if not 0.0 < level < 1.0:
        raise InputError(f"the level of an interval must lie between 0 and 1, for instance 0.9; got {level!r}.")
    return level


class Moments(NamedTuple):
    """For each model, moments over g: of the shrinkage s, and of the variance of an observation."""

    shrink: np.ndarray  # E s
    shrink2: np.ndarray  # E s^2
    variance: np.ndarray  # E Var
    shrink_variance: np.ndarray  # E s Var


@dataclass(frozen=True, eq=False)
class Predictor:
    """The predictive distribution of one posterior, prepared once for any number of rows.

    It averages over the leading models that hold 0.999 of the posterior mass, their weights renormalised; a
    posterior that would need more than 2000 is thinned (see :func:`modejump.posterior.fits.keep_models`).

    Attributes
    ----------
    problem : Problem
        Data and priors.
    models : KeptModels
        Models and weights.
    components, tails : Components, Tails
        The mixture, and the tables of its Student-t distributions.
    moments : Moments
        What means and variances need of the mixture over g.
    members : tuple of tuples of int
        The terms of each model.
    fits : tuple of Fit or None
        The models' fits; None where they take too much memory, so that each is computed when it is needed.
    """

    problem: Problem
    models: KeptModels
    components: Components
    tails: Tails
    moments: Moments
    members: tuple[tuple[int, ...], ...]
    fits: tuple[Fit, ...] | None

    @classmethod
    def build(cls, posterior: Posterior, kind: str = "bma") -> Predictor:
        """Prepare the models of one kind of prediction: "bma", "best", or "median"."""
        problem, models = posterior.problem, posterior.kept_models(kind)
        if (models.resid < 0.0).any():
            raise InputError(
                f"the {kind} model has linearly dependent columns or too many for the rows, so it cannot "
                "predict; use kind='bma' or kind='best'."
            )
        members = tuple(tuple(members_of(words)) for words in models.words)
        first = problem.data.first
        sizes = [sum(int(first[t + 1] - first[t]) for t in m) for m in members]
        components, tails, moments = _components(problem, models, sizes)
        few = sum(k * k for k in sizes) <= _FACTORS
        fits = tuple(fit_model(problem, m) for m in members) if few else None
        return cls(problem, models, components, tails, moments, members, fits)

    def each_fit(self) -> Iterator[tuple[int, Fit]]:
        """The fit of each model with its position."""
        for i, members in enumerate(self.members):
            yield i, self.fits[i] if self.fits is not None else fit_model(self.problem, members)

    @cached_property
    def used(self) -> np.ndarray:
        """Candidate columns that some model has, ascending."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(fit.columns for _, fit in self.each_fit())]))

    @cached_property
    def base_root(self) -> np.ndarray:
        """A matrix S with ``S S' = (B'WB)^-1``: ``|b S|^2`` is the leverage of a row b of the base."""
        factor = base_factor(self.problem)
        return solve_triangular(factor, np.eye(len(factor))) if len(factor) else factor

    @cached_property
    def mean_coef(self) -> np.ndarray:
        """Averaged coefficients of all standardised candidate columns, on the response's scale."""
        coef = np.zeros(self.problem.n_columns)
        for i, fit in self.each_fit():
            coef[fit.columns] += self.models.weight[i] * self.moments.shrink[i] * fit.coef
        return coef * self.unit

    def mean(self, new: NewRows) -> np.ndarray:
        """Predictive mean (the location, where one degree of freedom or less leaves no mean)."""
        out = new.base @ self.problem.base_coef
        for rows in self._row_blocks(len(new.x)):
            out[rows] += self._standardise(new, rows) @ self.mean_coef[self.used]
        return out

    def std(self, new: NewRows) -> np.ndarray:
        """Predictive standard deviation; infinite where the degrees of freedom are two or less."""
        out = np.full(len(new.x), np.inf)
        if (self.tails.df <= 2.0).any():
            return out
        w, m = self.models.weight, self.moments
        over_g = np.maximum(m.shrink2 - m.shrink**2, 0.0)
        for rows, fitted, leverage, base_leverage in self._blocks(new):
            centre = fitted * m.shrink
            between = (centre - (centre @ w)[:, None]) ** 2 @ w + fitted**2 @ (w * over_g)
            within = (1.0 + base_leverage) * (w @ m.variance) + leverage @ (w * m.shrink_variance)
            out[rows] = np.sqrt(between + within)
        return out

    def quantiles(self, new: NewRows, probability: np.ndarray) -> np.ndarray:
        """Quantiles of the predictive mixture, shape (rows, len(probability)), exact to 1e-6 of the scale."""
        probability = np.asarray(probability, dtype=np.float64)
        unit = np.column_stack([quantile(self.tails.df, p) for p in probability])
        out = np.empty((len(new.x), len(probability)))
        for rows, fitted, leverage, base_leverage in self._blocks(new):
            mixture_quantiles(
                fitted,
                leverage,
                base_leverage,
                self.components,
                self.tails.grid,
                unit,
                probability,
                out[rows],
            )
        return (new.base @ self.problem.base_coef)[:, None] + out

    def interval(self, new: NewRows, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the central interval that holds a new observation with probability ``level``."""
        level = checked_level(level)
        ends = self.quantiles(new, np.array([0.5 - level / 2, 0.5 + level / 2]))
        return ends[:, 0], ends[:, 1]

    @property
    def unit(self) -> float:
        """Length of the response outside the base: brings standardised fits to the response's scale."""
        return float(np.sqrt(self.problem.base_rss))

    def _row_blocks(self, count: int) -> Iterator[slice]:
        step = max(1, _CHUNK // (len(self.members) + len(self.used) + 1))
        for start in range(0, count, step):
            yield slice(start, min(start + step, count))

    def _standardise(self, new: NewRows, rows: slice) -> np.ndarray:
        """Standardised columns of some new rows, for the candidate columns in use."""
        c = self.problem.data.columns
        return (new.x[rows][:, self.used] - new.base[rows] @ c.loading[:, self.used]) / c.scale[self.used]

    def _blocks(self, new: NewRows) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
        """Fit and leverage of some rows at a time in every model, and the rows' leverage in the base."""
        position = np.zeros(self.problem.n_columns, np.int64)
        position[self.used] = np.arange(len(self.used))
        for rows in self._row_blocks(len(new.x)):
            z = self._standardise(new, rows)
            fitted = np.zeros((len(z), len(self.members)))
            leverage = np.zeros_like(fitted)
            for i, fit in self.each_fit():
                part = z[:, position[fit.columns]]
                fitted[:, i] = part @ fit.coef
                leverage[:, i] = np.square(part @ fit.root).sum(axis=1)
            yield rows, fitted * self.unit, leverage, np.square(new.base[rows] @ self.base_root).sum(axis=1)


def base_factor(problem: Problem) -> np.ndarray:
    """The triangular factor R of the weighted base: ``R'R = B'WB``."""
    columns = problem.data.columns
    weighted = columns.base * columns.root_weight[:, None]
    return np.asarray(np.linalg.qr(weighted, mode="r")) if weighted.shape[1] else np.zeros((0, 0))


class _Part(NamedTuple):
    """Components of one model."""

    shrink: np.ndarray
    weight: np.ndarray
    variance: np.ndarray
    df: float


def _part(problem: Problem, k: int, resid: float) -> _Part:
    """A model's values of s that stand for p(g|y,M), with weights, variances, and degrees of freedom."""
    data = problem.data
    nu = data.n - data.base
    if data.code == codes.KNOWN_VARIANCE:
        return _Part(np.ones(1), np.ones(1), np.array([data.par[0]]), np.inf)
    if k == 0:
        return _Part(np.ones(1), np.ones(1), np.array([problem.base_rss / nu]), nu)
    g, weight = posterior_g_nodes(data.code, data.par, data.n, data.base, k, resid)
    if np.isinf(g).all():
        return _Part(np.ones(1), np.ones(1), np.array([problem.base_rss * resid / (nu - k)]), nu - k)
    shrink, weight, left = reduce_nodes(np.asarray(g), np.asarray(weight), resid)
    return _Part(shrink, weight, problem.base_rss * left / nu, nu)


def reduce_nodes(g: np.ndarray, weight: np.ndarray, resid: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A few values of s = g/(1+g), their weights, and 1 - s R^2 at each, for a fine quadrature over g.

    The Gauss rule is taken in x = log(1 - s R^2) / log(1 - R^2): the same as s for weak fits, and the
    logarithm of the variance for strong ones, where a minute change of s matters. Nothing cancels, however
    close R^2 is to one.
    """
    shrink = g / (1.0 + g)
    depth = np.log(resid)
    weak = resid > 1.0 - 1e-8
    x = shrink if weak else np.log(resid + (1.0 - resid) / (1.0 + g)) / depth

    def deviation(values: np.ndarray) -> float:
        return float(np.sqrt(weight @ (values - weight @ values) ** 2))

    # How far g moves an interval: the log variance, the part of a leverage of one in it, and the centre (in
    # scales) three deviations of the fit out.
    width = -depth * deviation(x) + deviation(shrink) * (1.0 + 3.0 * np.sqrt((1.0 - resid) / resid))
    size = next(nodes for limit, nodes in _NARROW if width <= limit)
    x, weight = gauss_rule(x, weight, size)
    x = np.clip(x, 0.0, 1.0)
    if weak:
        return x, weight, 1.0 - x * (1.0 - resid)
    return np.expm1(x * depth) / np.expm1(depth), weight, np.exp(x * depth)


def _components(problem: Problem, models: KeptModels, sizes: list[int]) -> tuple[Components, Tails, Moments]:
    """The mixture over models and g, the tables it needs, and each model's moments over g."""
    parts = [_part(problem, k, float(resid)) for k, resid in zip(sizes, models.resid, strict=True)]
    counts = [len(part.shrink) for part in parts]
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    df, table = np.unique([part.df for part in parts], return_inverse=True)
    shrink = np.concatenate([part.shrink for part in parts])
    inner = np.concatenate([part.weight for part in parts])
    variance = np.concatenate([part.variance for part in parts])
    which = np.repeat(table, counts).astype(np.int64)

    def average(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(inner * values, start[:-1])

    # The variance of Student-t is nu/(nu - 2) times its squared scale, and infinite for nu <= 2.
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(np.isinf(df), 1.0, np.where(df > 2.0, df / (df - 2.0), np.inf))
        spread = variance * factor[which]
        shrunk = np.where(shrink > 0.0, shrink * spread, 0.0)
    moments = Moments(average(shrink), average(shrink**2), average(spread), average(shrunk))
    weight = inner * np.repeat(models.weight, counts)
    return Components(start, shrink, weight, variance, which), make_tails(df), moments


def predictive_mean(posterior: Posterior, new: NewRows, kind: str = "bma") -> np.ndarray:
    """Predictive mean of each new row; see :class:`Predictor`."""
    return posterior.predictor(kind).mean(new)


def predictive_interval(
    posterior: Posterior, new: NewRows, level: float = 0.9, kind: str = "bma"
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper end of the central predictive interval of each new row; see :class:`Predictor`."""
    return posterior.predictor(kind).interval(new, level)


def predictive_std(posterior: Posterior, new: NewRows, kind: str = "bma") -> np.ndarray:
    """Predictive standard deviation of each new row; see :class:`Predictor`."""
    return posterior.predictor(kind).std(new)
