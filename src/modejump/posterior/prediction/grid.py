"""The distribution of a linear predictor on a grid, and with it the distribution of a response.

A row's linear predictor t is a mixture of normals over models and g. The trapezoidal rule with a step h integrates a
normal density of standard deviation sigma times a distribution function that rises within delta to a relative error of
about ``exp(-2 pi^2 w^2 / h^2)``, ``1/w^2 = 1/sigma^2 + 1/delta^2``. So with h = w, equally spaced nodes are exact to
1e-8 for every component at once, whatever their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from modejump.core.compilation import entry

# How far a component reaches, in its standard deviations.
REACH = 7.0
# Nodes of a row at most. Where these are too few, components narrower than the step are points.
MOST_NODES = 2000
# A component with no more than this beyond the nodes is within them.
EDGE = 1e-11
# Inverse links, and distribution functions of responses as functions of t, are smooth on this scale at least.
SMOOTH = 0.5
# Quantiles on the scale of log y are accepted when the step or the bracket is this small.
TOLERANCE = 1e-11
MAX_ITERATIONS = 200
# The distribution of the gamma's shape over models is represented at points this close on the log scale.
SHAPE_STEP = 0.05
MOST_SHAPES = 32


class Mixture(NamedTuple):
    """Components of the predictors of some rows."""

    loc: np.ndarray  # (rows, components)
    scale: np.ndarray  # (rows, components)
    weight: np.ndarray  # (rows, components)
    shape: np.ndarray  # (components,): the gamma's shape; ones for other families


class Rule(NamedTuple):
    """Nodes of all rows, one row after the other: row r has ``start[r]`` to ``start[r + 1]``."""

    start: np.ndarray
    node: np.ndarray  # (nodes,)
    weight: np.ndarray  # (nodes, shapes)
    shapes: np.ndarray  # (shapes,)

    def average(self, values: np.ndarray) -> np.ndarray:
        """Mean over each row's nodes of values at nodes and shapes."""
        return np.asarray(np.add.reduceat((self.weight * values).sum(axis=1), self.start[:-1]))

    def at_nodes(self, values: np.ndarray) -> np.ndarray:
        """A row's value at each of its nodes, with room for the shapes."""
        return np.repeat(values, np.diff(self.start))[:, None]


@entry
def sum_on_grid(loc, scale, weight, part, low, step, start, out):
    """Add each component's density times the step to its row's nodes; one narrower than the step is a point.

    A point is shared between its two neighbours, so that its mean is right. What a component has beyond the nodes goes
    to the ends. ``part`` (components, shapes) says how a component's weight is shared between shapes, and ``out``
    (nodes, shapes) starts at zero.
    """
    for r in range(loc.shape[0]):
        h = step[r]
        last = start[r + 1] - start[r] - 1
        for c in range(loc.shape[1]):
            if not weight[r, c] > 0.0:
                continue
            at, width = (loc[r, c] - low[r]) / h, scale[r, c] / h
            if width < 0.999:
                j = int(math.floor(min(max(at, 0.0), last - 1.0)))
                share = min(max(at - j, 0.0), 1.0)
                for q in range(part.shape[1]):
                    out[start[r] + j, q] += weight[r, c] * part[c, q] * (1.0 - share)
                    out[start[r] + j + 1, q] += weight[r, c] * part[c, q] * share
                continue
            factor = weight[r, c] / (width * math.sqrt(2.0 * math.pi))
            first = int(math.ceil(max(at - REACH * width, 0.0)))
            final = int(math.floor(min(at + REACH * width, float(last))))
            beyond = weight[r, c]
            for j in range(first, final + 1):
                z = (j - at) / width
                density = factor * math.exp(-0.5 * z * z)
                beyond -= density
                for q in range(part.shape[1]):
                    out[start[r] + j, q] += part[c, q] * density
            below = 0.5 * math.erfc((at + 0.5) / (width * math.sqrt(2.0)))
            above = 0.5 * math.erfc((last + 0.5 - at) / (width * math.sqrt(2.0)))
            if below + above > EDGE:
                share = below / (below + above)
                for q in range(part.shape[1]):
                    out[start[r], q] += beyond * part[c, q] * share
                    out[start[r] + last, q] += beyond * part[c, q] * (1.0 - share)


def grid_rule(mixture: Mixture, sharp: np.ndarray, bounds: tuple[float, float] = (-np.inf, np.inf)) -> Rule:
    """Nodes and weights for the rows of a mixture.

    The function to be averaged is smooth on the scale ``sharp``, one number for each row. One very wide component would
    take all nodes apart, so there are none beyond the bounds, where that function is flat; what lies there counts at
    the ends.
    """
    loc, scale, weight, shape = mixture
    used = weight > 0.0
    low = np.where(used, loc - REACH * scale, np.inf).min(axis=1)
    high = np.where(used, loc + REACH * scale, -np.inf).max(axis=1)
    low, high = np.clip(low, bounds[0], bounds[1] - 1.0), np.clip(high, bounds[0] + 1.0, bounds[1])
    narrow = np.where(used, scale, np.inf).min(axis=1)
    step = np.maximum(1.0 / np.sqrt(narrow**-2.0 + sharp**-2.0), (high - low) / (MOST_NODES - 2))
    count = np.ceil((high - low) / step).astype(np.int64) + 1
    start = np.concatenate([[0], np.cumsum(count)])
    shapes, part = _shapes(shape)
    out = np.zeros((int(start[-1]), len(shapes)))
    sum_on_grid(loc, scale, weight, part, low, step, start, out)
    out /= np.repeat(np.add.reduceat(out.sum(axis=1), start[:-1]), count)[:, None]
    index = np.arange(start[-1]) - np.repeat(start[:-1], count)
    return Rule(start, np.repeat(low, count) + np.repeat(step, count) * index, out, shapes)


def _shapes(shape: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A few shapes, and how each component is shared between them.

    Where there are many, they lie on a grid of log shapes, and a component is shared between its two neighbours.
    """
    log_shape = np.log(shape)
    low, width = float(log_shape.min()), float(np.ptp(log_shape))
    if width == 0.0:
        return shape[:1].copy(), np.ones((len(shape), 1))
    cells = min(int(np.ceil(width / SHAPE_STEP)), MOST_SHAPES - 1)
    distinct, which = np.unique(shape, return_inverse=True)
    if len(distinct) <= cells + 1:
        return distinct, np.eye(len(distinct))[which]
    at = (log_shape - low) / width * cells
    part = np.maximum(1.0 - np.abs(at[:, None] - np.arange(cells + 1)), 0.0)
    return np.exp(low + width * np.arange(cells + 1) / cells), part


def count_quantile(family: Any, rule: Rule, probability: float) -> np.ndarray:
    """Smallest counts whose distribution function reaches the probability."""

    def cdf(count: np.ndarray) -> np.ndarray:
        return rule.average(family.cdf(rule.at_nodes(count), rule.node[:, None], rule.shapes))

    low = np.full(len(rule.start) - 1, -1.0)
    high = np.maximum(np.ceil(2.0 * np.exp(np.minimum(rule.average(rule.node[:, None]), 700.0))), 1.0)
    while (short := cdf(high) < probability).any():
        low = np.where(short, high, low)
        high = np.where(short, 2.0 * high, high)
    while (open_ := high - low > 1.0).any():
        middle = np.floor(low + 0.5 * (high - low))
        # Beyond 2^53 neighbouring numbers are further apart than one.
        if not (open_ & (middle > low) & (middle < high)).any():
            break
        reached = cdf(middle) >= probability
        low, high = np.where(open_ & ~reached, middle, low), np.where(open_ & reached, middle, high)
    return high


def amount_quantile(family: Any, rule: Rule, probability: float) -> np.ndarray:
    """Quantiles of amounts: Newton's method on the scale of log y, inside a bracket once there is one."""

    def log_response(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, density = family.log_response(rule.at_nodes(x), rule.node[:, None], rule.shapes)
        return rule.average(value), rule.average(density)

    shift, own = family.log_moments(rule.shapes)
    centre = rule.average(rule.node[:, None] + shift)
    variance = rule.average((rule.node[:, None] - rule.at_nodes(centre)) ** 2 + own)
    x = centre + special.ndtri(probability) * np.sqrt(variance)
    return np.exp(_newton(log_response, x, 2.0 * np.sqrt(variance), probability))


def _newton(
    function: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], x: np.ndarray, most: np.ndarray, probability: float
) -> np.ndarray:
    """Solve F(x) = probability for all rows; no step is longer than ``most``."""
    low, high = np.full(len(x), -np.inf), np.full(len(x), np.inf)
    for _ in range(MAX_ITERATIONS):
        value, density = function(x)
        below = value < probability
        low, high = np.where(below, x, low), np.where(below, high, x)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = (probability - value) / density
            middle = 0.5 * (low + high)
        step = np.clip(np.where(np.isnan(step), np.where(below, np.inf, -np.inf), step), -most, most)
        inside = (x + step > low) & (x + step < high)
        new = np.where(inside | ~np.isfinite(middle), x + step, middle)
        done = np.abs(new - x) <= TOLERANCE * (1.0 + np.abs(x))
        x = new
        if done.all():
            break
    return x
