"""Model-averaged prediction and coefficients of generalised linear models.

Given the model and g the coefficients are normal (see :mod:`modejump.posterior.prediction.laplace`), and so is the
linear predictor of a new row. Its distribution is the mixture of these normals over g given the model, and over the
models; the response has its family's distribution around the mean that belongs to the predictor.

Where responses have an unknown shape, as gamma responses do, its posterior given the model and g is one more mixture,
over which the variances of the coefficients go with the reciprocal of the shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
from scipy import special

from modejump.core.errors import InputError, warn_user
from modejump.likelihoods.glm.family import GlmFamily
from modejump.likelihoods.shrinkage import gauss_rule, posterior_g_laplace, shrinkage_factor
from modejump.posterior.fits import KeptModels
from modejump.posterior.prediction.distribution import AffineCoefficients, GNodes, NewRows, PredictiveDistribution
from modejump.posterior.prediction.grid import SMOOTH, Mixture, Rule, amount_quantile, count_quantile, grid_rule
from modejump.posterior.prediction.laplace import LaplaceFit, LaplaceFits, unpacked_fits
from modejump.posterior.prediction.mean_probability import mean_probabilities, table_of
from modejump.posterior.prediction.mixture import make_tails, mixture_quantiles
from modejump.priors.coefficients import CoefPrior
from modejump.problem.problem import Problem

# How many values of g stand for p(g|y,M): the fewer the narrower that posterior is.
_NARROW = ((0.05, 2), (0.25, 3), (np.inf, 5))
# A predictor without any uncertainty (no base, all else shrunk to nothing) has this standard deviation instead.
_LEAST_SCALE = 1e-9
# A mean that is so many times the typical value is made by values that nobody will see: for a log-normal distribution,
# from a standard deviation of 2.4 in the logarithm on.
_MOST_OF_MEDIAN = 20.0


def shrinkage_rule(
    prior: CoefPrior, par: np.ndarray, n: float, base: int, k: int, wald: float
) -> tuple[np.ndarray, np.ndarray]:
    """Values of s = g/(1+g) that stand for its posterior given a model, and their weights.

    A Gauss rule: moments of s up to the third at least are exact.
    """
    g, weight = posterior_g_laplace(prior, par, n, base, k, wald)
    shrink = shrinkage_factor(g)
    width = float(np.sqrt(weight @ (shrink - weight @ shrink) ** 2)) * (1.0 + np.sqrt(wald))
    if len(g) > 1:
        shrink, weight = gauss_rule(shrink, weight, next(nodes for limit, nodes in _NARROW if width <= limit))
    return np.clip(shrink, 0.0, 1.0), weight


def _is_useless(mean: np.ndarray, loc: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Whether a mean is far above the typical value, the geometric mean of the components' medians."""
    return np.asarray(~(mean <= _MOST_OF_MEDIAN * np.exp((weight * loc).sum(axis=1))))


class GlmPredictor(PredictiveDistribution):
    """The predictive distribution of a generalised linear model."""

    def __init__(self, problem: Problem, models: KeptModels, kind: str = "bma") -> None:
        super().__init__(problem, models, kind)
        self.family = family = cast(GlmFamily, problem.family)
        data, sizes = problem.data, np.array([len(c) for c in self.columns])
        self.nodes = GNodes.of([
            shrinkage_rule(problem.coef_prior, data.coef_prior.par, data.n, data.base, k, float(wald))
            for k, wald in zip(sizes.tolist(), self.fits.wald, strict=True)
        ])  # fmt: skip
        # At a shape other than its estimate the coefficients have their variance times ``wider``.
        self.shape = self.wider = np.ones(len(self.nodes.shrink))
        if family.shape_rules is not None:
            self._average_over_shapes(sizes)
        self.unit2, self.freedom = self.wider, np.full(len(self.wider), np.inf)
        self._variance = self.nodes.mean(self.wider)
        self._shrunk_variance = self.nodes.mean(self.nodes.shrink * self.wider)

    def _average_over_shapes(self, sizes: np.ndarray) -> None:
        """Let values of the shape stand for its posterior at each value of g."""
        data, nodes = self.problem.data, self.nodes
        estimate, wald, flat = (nodes.repeat(values) for values in (self.fits.shape, self.fits.wald, sizes))
        flat = data.base + flat * (not self.problem.coef_prior.shrinks)
        pull = wald * (1.0 - nodes.shrink) / estimate
        several, self.shape, weight = self.family.shape_rules(estimate, data.n, flat.astype(np.float64), pull)
        ends = np.concatenate([[0], np.cumsum(several)])
        self.nodes = GNodes(
            ends[nodes.start], np.repeat(nodes.shrink, several), np.repeat(nodes.weight, several) * weight
        )
        self.wider = np.repeat(estimate, several) / self.shape

    @property
    def fits(self) -> LaplaceFits:
        """The models' fits."""
        assert self.models.fits is not None
        return self.models.fits

    def _fits(self) -> Iterator[LaplaceFit]:
        return unpacked_fits(self.fits, self.columns)

    def mean(self, new: NewRows) -> np.ndarray:
        """Predictive mean of the response: for a binomial one the probability of 1."""
        out, link = np.empty(len(new.x)), self.family.link_function
        useless = np.zeros(len(out), bool)
        for rows, mixture in self._blocks(new):
            if link.positive:
                with np.errstate(over="ignore"):
                    out[rows] = (mixture.weight * np.exp(mixture.loc + 0.5 * mixture.scale**2)).sum(axis=1)
                useless[rows] = _is_useless(out[rows], mixture.loc, mixture.weight)
            elif link.close is not None:
                mean_probabilities(mixture.loc, mixture.scale, mixture.weight, table_of(link), out[rows])
            else:
                rule = grid_rule(mixture, np.full(len(mixture.loc), SMOOTH))
                out[rows] = rule.average(link.mean(rule.node)[:, None])
        return self._medians(new, out, useless)

    def _medians(self, new: NewRows, mean: np.ndarray, useless: np.ndarray) -> np.ndarray:
        """Predictive means, and medians in rows where hardly any of the distribution reaches up to the mean."""
        if not useless.any():
            return mean
        warn_user(
            f"the predictive mean of {useless.sum()} of {len(mean)} rows lies over {_MOST_OF_MEDIAN:g} times above the "
            "typical value, because little is known about their linear predictors, so the median is given; more data "
            "or a prior that shrinks more would help."
        )
        return np.where(useless, self.mean_quantiles(new, np.array([0.5]))[:, 0], mean)

    def std(self, new: NewRows) -> np.ndarray:
        """Predictive standard deviation of the response; of 0 and 1 for a binomial one."""
        if self.family.response == "class":
            mean = self.mean(new)
            return np.sqrt(mean * (1.0 - mean))
        out = np.empty(len(new.x))
        for rows, (loc, scale, weight, shape) in self._blocks(new):
            with np.errstate(over="ignore", invalid="ignore"):
                centre = np.exp(loc + 0.5 * scale**2)
                mean = (weight * centre).sum(axis=1)
                noise = self.family.noise(centre, centre**2 * np.exp(scale**2), shape)
                between = centre**2 * np.expm1(scale**2) + (centre - mean[:, None]) ** 2
                out[rows] = np.sqrt((weight * (noise + between)).sum(axis=1))
                out[rows] = np.where(_is_useless(mean, loc, weight), np.inf, out[rows])
        return np.where(np.isnan(out), np.inf, out)

    def cdf(self, new: NewRows, y: np.ndarray) -> np.ndarray:
        """Probability that each row's response is at most ``y``."""
        y = np.asarray(y, dtype=np.float64)
        if self.family.response == "class":
            return np.where(y < 0.0, 0.0, np.where(y < 1.0, 1.0 - self.mean(new), 1.0))
        out = np.empty(len(new.x))
        for rows, mixture in self._blocks(new):
            rule = self._rule(mixture)
            out[rows] = rule.average(self.family.cdf(rule.at_nodes(y[rows]), rule.node[:, None], rule.shapes))
        return out

    def quantiles(self, new: NewRows, probability: np.ndarray) -> np.ndarray:
        """Quantiles of new observations, shape (rows, len(probability)); of the probability of 1 for binomial ones.

        Those of counts are the smallest counts that hold the probability.
        """
        probability = np.asarray(probability, dtype=np.float64)
        if self.family.response == "class":
            return self.mean_quantiles(new, probability)
        out = np.empty((len(new.x), len(probability)))
        solve = count_quantile if self.family.response == "count" else amount_quantile
        for rows, mixture in self._blocks(new):
            rule = self._rule(mixture)
            for q, p in enumerate(probability):
                out[rows, q] = solve(self.family, rule, float(p))
        return out

    def mean_quantiles(self, new: NewRows, probability: np.ndarray) -> np.ndarray:
        """Quantiles of the posterior of the response's mean, without the noise of responses around it."""
        probability = np.asarray(probability, dtype=np.float64)
        out = np.empty((len(new.x), len(probability)))
        unit, grid = special.ndtri(probability)[None], make_tails(np.array([np.inf]))
        table = np.zeros(len(self.nodes.shrink), np.int64)
        for rows, (loc, scale, weight, _) in self._blocks(new):
            mixture_quantiles(loc, scale, weight, table, grid, unit, probability, out[rows])
        return np.exp(out) if self.family.link_function.positive else self.family.mean(out)

    def _rule(self, mixture: Mixture) -> Rule:
        """Nodes of the predictor close enough for its family's distribution function."""
        top = np.where(mixture.weight > 0.0, mixture.loc + 3.0 * mixture.scale, -np.inf).max(axis=1)
        return grid_rule(mixture, np.minimum(self.family.sharpness(top, self.shape), SMOOTH), self.family.flat)

    def _blocks(self, new: NewRows) -> Iterator[tuple[slice, Mixture]]:
        """The mixtures of some rows at a time."""
        b = self.problem.data.base
        for rows, z, base in self._row_blocks(new, len(self.nodes.shrink)):
            # Location and variance are linear in s: what the base gives, and what the candidates add.
            parts = np.empty((4, len(z), len(self.columns)))
            for i, (fit, place) in enumerate(zip(self.each_fit(), self._places, strict=True)):
                loads = np.hstack([base, z[:, place]]) @ fit.root
                parts[0, :, i] = loads[:, :b] @ fit.centre[:b]
                parts[1, :, i] = loads[:, b:] @ fit.centre[b:]
                parts[2, :, i] = np.square(loads[:, :b]).sum(axis=1)
                parts[3, :, i] = np.square(loads[:, b:]).sum(axis=1)
            yield rows, self._mixture(parts, new.offset[rows], rows.start)

    def _mixture(self, parts: np.ndarray, offset: np.ndarray, first: int) -> Mixture:
        """Components of some rows, on the scale of the log mean where means are positive.

        A model in which a row's predictor has no mean says nothing about the row, and the others share its weight.
        """
        s = self.nodes.shrink
        fixed, slope, fixed_variance, variance_slope = self.nodes.repeat(parts)
        loc = offset[:, None] + fixed + s * slope
        variance = (fixed_variance + s * variance_slope) * self.wider
        loc, variance = self.family.link_function.log_mean(loc, variance)
        known = ~np.isnan(loc)
        weight = np.where(known, self.nodes.repeat(self.models.weight) * self.nodes.weight, 0.0)
        if not known.all():
            total = weight.sum(axis=1, keepdims=True)
            if not total.all():
                raise InputError(
                    f"the linear predictor of new row {first + int(np.argmin(total))} has no mean under the "
                    f"{self.family.link} link in any model; predict within the range of the data, or fit with another "
                    "link."
                )
            loc, variance, weight = np.where(known, loc, 0.0), np.where(known, variance, 1.0), weight / total
        return Mixture(loc, np.sqrt(np.maximum(variance, _LEAST_SCALE**2)), weight, self.shape)

    def affine_coefficients(self) -> Iterator[AffineCoefficients]:
        """Coefficients of each model, given s."""
        c, b = self.problem.data.columns, self.problem.data.base
        for fit in self.each_fit():
            k = len(fit.columns)
            # Coefficients on the original scale, those of the base first, from the standardised ones.
            back = np.zeros((b + k, b + k))
            back[:b, :b] = self.base_root
            back[:b, b:] = -c.loading[:, fit.columns] / c.scale[fit.columns]
            back[b:, b:] = np.diag(1.0 / c.scale[fit.columns])
            loads = back @ fit.root
            yield AffineCoefficients(fit.columns, loads[:, :b] @ fit.centre[:b], loads[:, b:] @ fit.centre[b:], loads)
