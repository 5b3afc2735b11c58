"""Model-averaged prediction of Gaussian responses.

Given a model and g, with s = g/(1+g), the base's flat prior and the reference prior on the variance, a new
observation is Student-t with ``nu = n - base`` degrees of freedom, location ``base part + s z'b`` and squared
scale ``SS/nu (1 + h0 + s h)``, where ``SS = RSS(base) (1 - s R^2)``, b is the least-squares fit in
standardised columns z, h the leverage of z, and h0 the row's leverage in the base. Where the prior of the
coefficients is flat (g infinite: Jeffreys, BIC, AIC) ``nu = n - base - k``: the classical prediction
interval, given the model. With known variance it is normal. Student-t errors have their own degrees of freedom in
place of these, where they are fewer, and their own scale: it is known better than single errors are. The predictive
distribution is the mixture of these over g given the model, and over the models.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from modejump.likelihoods.gaussian.family import Gaussian
from modejump.likelihoods.gaussian.marginal import floored
from modejump.likelihoods.gaussian.student import Student
from modejump.likelihoods.shrinkage import gauss_rule, posterior_g
from modejump.posterior.fits import Fit, KeptModels, fit_model
from modejump.posterior.prediction.distribution import (
    AffineCoefficients,
    GNodes,
    NewRows,
    PredictiveDistribution,
    row_slices,
)
from modejump.posterior.prediction.mixture import LEAST_SCALE, make_tails, mixture_quantiles, quantile
from modejump.priors.coefficients.base import FLOOR
from modejump.problem.problem import Problem

# How many values of g stand for p(g|y,M): a Gauss rule needs the fewer the narrower that posterior is.
_NARROW = ((0.05, 3), (0.25, 5), (np.inf, 8))


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


def _nodes(problem: Problem, k: int, resid: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """A model's values of s that stand for p(g|y,M), with weights, squared scales, and degrees of freedom."""
    data, prior, one = problem.data, problem.coef_prior, np.ones(1)
    nu = data.n - data.base
    if prior.known_variance:
        return one, one, data.coef_prior.par[:1], np.inf
    # What the measurement cannot resolve is part of the error.
    total = problem.base_rss / (1.0 - data.coef_prior.par[FLOOR])
    resid = floored(data.coef_prior.par, min(resid, 1.0))
    g, weight = posterior_g(prior, data.coef_prior.par, data.n, data.base, k, resid)
    if np.isinf(g[0]):
        return one, one, np.array([total * resid / (nu - k)]), nu - k
    shrink, weight, left = reduce_nodes(g, weight, resid)
    return shrink, weight, total * left / nu, nu


def _variance(df: np.ndarray) -> np.ndarray:
    """Variance of Student-t over its squared scale: nu/(nu - 2), infinite for nu <= 2."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isinf(df), 1.0, np.where(df > 2.0, df / (df - 2.0), np.inf))


class Predictor(PredictiveDistribution):
    """The predictive distribution of a Gaussian response."""

    def __init__(self, problem: Problem, models: KeptModels, kind: str = "bma") -> None:
        super().__init__(problem, models, kind)
        assert isinstance(problem.family, Gaussian)
        rules = [_nodes(problem, len(c), float(r)) for c, r in zip(self.columns, models.resid, strict=True)]
        self.nodes = GNodes.of([rule[:2] for rule in rules])
        # Errors with heavy tails have them whatever is known of their scale.
        free, (tails, scale) = np.array([rule[3] for rule in rules]), problem.family.tail
        self.df, table = np.unique(np.minimum(free, tails), return_inverse=True)
        self._table = self.nodes.repeat(table).astype(np.int64)
        # Weight and squared scale of each component.
        self.weight = self.nodes.weight * self.nodes.repeat(models.weight)
        self.scale2 = self.unit2 = np.concatenate([rule[2] for rule in rules])
        self.freedom = self.nodes.repeat(free)
        with np.errstate(invalid="ignore"):
            variance = self.scale2 * self.nodes.repeat(_variance(free))
            shrunk = np.where(self.nodes.shrink > 0.0, self.nodes.shrink * variance, 0.0)
        # Of each model: E s, and E Var and E s Var of an observation.
        self._shrink = self.nodes.mean(self.nodes.shrink)
        self._variance, self._shrunk_variance = self.nodes.mean(variance), self.nodes.mean(shrunk)
        # Length of the response outside the base: brings standardised fits to the response's scale.
        self._unit = float(np.sqrt(problem.base_rss))
        # Squared scale of a new observation's error, for a mean of size one, in units of the residuals' squared scale;
        # its variance over that.
        self._error, self._spread = scale * scale, problem.family.spread
        self._heavy = float(_variance(np.array(tails)))
        # Where rows have weights, what the measurement cannot resolve is no part of these errors.
        self._floor2 = problem.noise_floor**2 if isinstance(problem.family, Student) else 0.0

    def _fits(self) -> Iterator[Fit]:
        for columns in self.columns:
            yield fit_model(self.problem, columns)

    @cached_property
    def _mean_coef(self) -> np.ndarray:
        """Averaged coefficients of all standardised candidate columns, on the response's scale."""
        coef = np.zeros(self.problem.n_columns)
        for w, shrink, fit in zip(self.models.weight, self._shrink, self.each_fit(), strict=True):
            coef[fit.columns] += w * shrink * fit.coef
        return coef * self._unit

    def mean(self, new: NewRows) -> np.ndarray:
        """Predictive mean (the location, where one degree of freedom or less leaves no mean)."""
        out = new.base @ self.problem.base_coef
        for rows, z, _ in self._row_blocks(new, 1):
            out[rows] += z @ self._mean_coef[self.used]
        return out

    def std(self, new: NewRows) -> np.ndarray:
        """Predictive standard deviation; infinite where the degrees of freedom are two or less."""
        out = np.full(len(new.x), np.inf)
        if (self.df <= 2.0).any():
            return out
        w, over_g = self.models.weight, self.nodes.variance()
        offset = new.base @ self.problem.base_coef
        for rows, fitted, leverage, base_leverage in self._blocks(new):
            centre = fitted * self._shrink
            between = (centre - (centre @ w)[:, None]) ** 2 @ w + fitted**2 @ (w * over_g)
            error = self._heavy * self._errors(offset[rows, None] + centre)
            own = (error + base_leverage[:, None]) @ (w * self._variance) + leverage @ (w * self._shrunk_variance)
            out[rows] = np.sqrt(between + own + self._floor2)
        return out

    def quantiles(self, new: NewRows, probability: np.ndarray) -> np.ndarray:
        """Quantiles of the predictive mixture, shape (rows, len(probability)), exact to 1e-6 of the scale."""
        return self._quantiles(new, probability, self.df, self._table, errors=True)

    def mean_quantiles(self, new: NewRows, probability: np.ndarray) -> np.ndarray:
        """Quantiles of the posterior of the response's mean, without the noise of responses around it."""
        df, table = np.unique(self.freedom, return_inverse=True)
        return self._quantiles(new, probability, df, table.astype(np.int64), errors=False)

    def _quantiles(
        self, new: NewRows, probability: np.ndarray, df: np.ndarray, table: np.ndarray, errors: bool
    ) -> np.ndarray:
        """Quantiles of mixtures whose component c has ``df[table[c]]`` degrees of freedom."""
        probability = np.asarray(probability, dtype=np.float64)
        unit = np.column_stack([quantile(df, p) for p in probability])
        grid, shrink = make_tails(df), self.nodes.shrink
        offset, out = new.base @ self.problem.base_coef, np.empty((len(new.x), len(probability)))
        for rows, fitted, leverage, base_leverage in self._blocks(new):
            for some in row_slices(len(fitted), len(shrink)):
                loc = shrink * self.nodes.repeat(fitted[some])
                error = self._errors(offset[rows][some, None] + loc) if errors else 0.0
                part = error + base_leverage[some, None] + shrink * self.nodes.repeat(leverage[some])
                floor2 = self._floor2 if errors else 0.0
                at = np.maximum(np.sqrt(self.scale2 * part + floor2), LEAST_SCALE)
                mixture_quantiles(loc, at, self.weight[None], table, grid, unit, probability, out[rows][some])
        return offset[:, None] + out

    def _errors(self, mean: np.ndarray) -> np.ndarray:
        """Squared scale of errors of new observations with these means, in units of the residuals' squared scale."""
        spread = self._spread
        return self._error * (np.abs(mean) ** (2.0 * spread) if spread else np.ones_like(mean))

    def _blocks(self, new: NewRows) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
        """Fit and leverage of some rows at a time in every model, and the rows' leverage in the base."""
        for rows, z, base in self._row_blocks(new, len(self.columns)):
            fitted, leverage = np.zeros((2, len(z), len(self.columns)))
            for i, (fit, place) in enumerate(zip(self.each_fit(), self._places, strict=True)):
                part = z[:, place]
                fitted[:, i] = part @ fit.coef
                leverage[:, i] = np.square(part @ fit.root).sum(axis=1)
            yield rows, fitted * self._unit, leverage, np.square(base).sum(axis=1)

    def affine_coefficients(self) -> Iterator[AffineCoefficients]:
        """Coefficients of each model, given s.

        A base coefficient is that of the base alone, less the candidates' loadings on it times their coefficients.
        """
        columns, base = self.problem.data.columns, self.problem.data.base
        for fit in self.each_fit():
            back = np.vstack([-columns.loading[:, fit.columns], np.eye(len(fit.columns))]) / columns.scale[fit.columns]
            loads = np.zeros((len(back), len(back)))
            loads[:base, :base], loads[:, base:] = self.base_root, back @ fit.root
            fixed = np.concatenate([self.problem.base_coef, np.zeros(len(fit.columns))])
            yield AffineCoefficients(fit.columns, fixed, back @ fit.coef * self._unit, loads)
