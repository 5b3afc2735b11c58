"""The shape of gamma responses: its estimate at the end of a fit, and its posterior given the model and g.

With the coefficients integrated out by Laplace's method and a flat prior of log v, the log posterior of the shape v is

    n (v log v - log gamma(v) - v (1 + gap)) - d/2 log v - v Q (1 - s) / (2 v_hat),

where ``gap = log v_hat - digamma(v_hat)`` at its maximum likelihood estimate, Q is Wald's statistic there, s = g/(1+g),
and d the number of coefficients under a flat prior. As v grows this becomes the posterior of a precision with n - d
degrees of freedom, which makes a Gaussian response Student-t.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from modejump.core.compilation import kernel
from modejump.likelihoods.shrinkage import gauss_rule

# From here on Stirling's series are exact to rounding, and their leading terms do not cancel.
_STIRLING = 30.0
_BISECTIONS = 80
# Nodes of the dense rule, in standard deviations at the mode; few degrees of freedom have a long tail on the left.
_DENSE = np.linspace(-14.0, 8.0, 89)
# How many values of v stand for its posterior: the fewer the narrower that is, in standard deviations of log v.
_NARROW = ((0.02, 1), (0.07, 2), (0.15, 3), (0.4, 5), (np.inf, 8))


@kernel
def _digamma(x):
    """Derivative of log gamma, for x > 0."""
    value = 0.0
    while x < 12.0:
        value -= 1.0 / x
        x += 1.0
    w = 1.0 / (x * x)
    series = w * (1.0 / 12.0 - w * (1.0 / 120.0 - w * (1.0 / 252.0 - w * (1.0 / 240.0 - w / 132.0))))
    return value + math.log(x) - 0.5 / x - series


@kernel
def settle_shape(glm, work):
    """Profile the gamma's shape out: its maximum likelihood estimate given the means, which do not depend on it.

    With T = sum of the weights and S the sum of -(y / mu + log mu), the shape solves
    ``log v + 1 - digamma(v) + (S + sum log y) / T = 0``. Solved in log v, where the equation is nearly linear.
    """
    total, logs = 0.0, 0.0
    for r in range(len(glm.y)):
        total += glm.weight[r]
        logs += glm.weight[r] * math.log(glm.y[r])
    gap = -(1.0 + (work.log_likelihood + logs) / total)
    if not gap > 1e-14:
        return False
    # log v - digamma(v) = gap; it is near 1 / (2 v) + 1 / (12 v^2).
    low, high = -40.0, 40.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if math.log(math.exp(middle)) - _digamma(math.exp(middle)) > gap:
            low = middle
        else:
            high = middle
        if high - low < 1e-13:
            break
    shape = math.exp(0.5 * (low + high))
    work.shape = shape
    work.log_likelihood = (
        total * (shape * math.log(shape) - math.lgamma(shape)) + (shape - 1.0) * logs + shape * work.log_likelihood
    )
    work.log_det_base += glm.base.shape[0] * math.log(shape)
    work.wald *= shape
    return True


def log_less_digamma(v: np.ndarray) -> np.ndarray:
    """``log v - digamma(v)``."""
    w = 1.0 / np.maximum(v, _STIRLING)
    series = w * (0.5 + w * (1.0 / 12.0 - w**2 * (1.0 / 120.0 - w**2 / 252.0)))
    return np.where(v < _STIRLING, np.log(v) - special.digamma(v), series)


def _log_peak(v: np.ndarray) -> np.ndarray:
    """``v log v - log gamma(v) - v``."""
    w = 1.0 / np.maximum(v, _STIRLING)
    series = -0.5 * np.log(2.0 * np.pi * w) - w * (1.0 / 12.0 - w**2 * (1.0 / 360.0 - w**2 / 1260.0))
    small = np.minimum(v, _STIRLING)
    return np.where(v < _STIRLING, small * np.log(small) - special.gammaln(small) - small, series)


def log_shape_posterior(u: np.ndarray, gap: np.ndarray, n: float, flat: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """Log posterior of u = log v, up to a constant; ``flat`` is d and ``pull`` is ``Q (1 - s) / v_hat``."""
    v = np.exp(u)
    return np.asarray(n * (_log_peak(v) - v * gap) - 0.5 * flat * u - 0.5 * pull * v)


def shape_rules(
    shape: np.ndarray, n: float, flat: np.ndarray, pull: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values of the shape that stand for its posterior in each of several components, given its estimates.

    Returns how many values each component has, then the values and their weights, one component after the other.
    """
    gap, log_shape = log_less_digamma(shape), np.log(shape)
    low, high = log_shape - 60.0, log_shape + 60.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        v = np.exp(middle)
        rises = v * (n * (log_less_digamma(v) - gap) - 0.5 * pull) > 0.5 * flat
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    mode = 0.5 * (low + high)
    v = np.exp(mode)
    # The second derivative by log v; where the first is zero it has no other terms.
    bend = n * (np.where(v < 1e6, v**2 * special.polygamma(1, v) - v, 0.5)) - 0.5 * flat
    u = mode[:, None] + _DENSE / np.sqrt(np.maximum(bend, 0.25))[:, None]
    value = log_shape_posterior(u, gap[:, None], n, flat[:, None], pull[:, None])
    dense = np.exp(value - value.max(axis=1, keepdims=True))
    dense /= dense.sum(axis=1, keepdims=True)
    mean = (dense * u).sum(axis=1, keepdims=True)
    width = np.sqrt((dense * (u - mean) ** 2).sum(axis=1))
    sizes = [next(nodes for limit, nodes in _NARROW if w <= limit) for w in width]
    rules = [gauss_rule(*rule) for rule in zip(u, dense, sizes, strict=True)]
    count = np.array([len(node) for node, _ in rules], dtype=np.int64)
    return count, np.exp(np.concatenate([r[0] for r in rules])), np.concatenate([r[1] for r in rules])
