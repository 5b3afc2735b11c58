"""Quantiles of mixtures of Student-t and normal distributions, one mixture for each new row.

Distributions are evaluated from tables of their upper tails, so that a mixture of thousands of components costs no
special functions.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from modejump.core.compilation import entry, kernel

# Spacing of the tail table in t = asinh(z). Quintic Hermite pieces of this width are exact to about 1e-12.
STEP = 1.0 / 32.0
# The table ends at t = 40, z = 1.2e17, or sooner, where the tail is below rounding.
_LONGEST = 40.0
_NEGLIGIBLE = 1e-18
# A quantile is accepted when a Newton step, or the bracket, is this small against the smallest scale.
TOLERANCE = 1e-10
MAX_ITERATIONS = 200
# What is known without any error has this scale.
LEAST_SCALE = 1e-290


def make_tails(df: np.ndarray) -> np.ndarray:
    """Upper tails of Student-t distributions, of normal ones for infinite degrees of freedom, as tables.

    Value and two derivatives in t = asinh(z) on a grid from 0: shape (len(df), nodes, 3).
    """
    df = np.asarray(df, dtype=np.float64)
    t = np.arange(0.0, _LONGEST + STEP / 2, STEP)
    z, dz = np.sinh(t), np.cosh(t)
    grid = np.empty((len(df), len(t), 3))
    for i, nu in enumerate(df):
        tail = upper_tail(nu, z)
        if np.isinf(nu):
            density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
            slope = -z * density
        else:
            log_c = special.gammaln((nu + 1) / 2) - special.gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
            density = np.exp(log_c - (nu + 1) / 2 * np.log1p(z * z / nu))
            slope = -density * (nu + 1) * z / (nu + z * z)
        grid[i, :, 0] = tail
        # Scaled by powers of the step, as the Hermite polynomials on a unit interval want them.
        grid[i, :, 1] = -density * dz * STEP
        grid[i, :, 2] = -(slope * dz * dz + density * z) * STEP * STEP
    needed = int(np.argmax((grid[:, :, 0] < _NEGLIGIBLE).all(axis=0))) or len(t)
    return np.ascontiguousarray(grid[:, : max(needed, 2)])


def upper_tail(df: float | np.ndarray, z: np.ndarray) -> np.ndarray:
    """P(T > z) of Student-t, or of the normal for infinite degrees of freedom."""
    df = np.asarray(df, dtype=np.float64)
    finite = np.where(np.isinf(df), 1.0, df)
    return np.where(np.isinf(df), special.ndtr(-z), special.stdtr(finite, -z))


def quantile(df: np.ndarray, probability: float) -> np.ndarray:
    """Quantile of Student-t (normal for infinite degrees of freedom)."""
    finite = np.where(np.isinf(df), 1.0, df)
    return np.where(np.isinf(df), special.ndtri(probability), special.stdtrit(finite, probability))


@entry
def tail_and_density(grid, z):
    """P(T > z) and the density at z from one table, by quintic Hermite interpolation in asinh(z)."""
    a = abs(z)
    root = np.sqrt(1.0 + a * a)
    x = np.log(a + root) / STEP
    i = min(int(x), grid.shape[0] - 2)
    u = min(x - i, 1.0)
    f0, d0, s0 = grid[i, 0], grid[i, 1], 0.5 * grid[i, 2]
    f1, d1, s1 = grid[i + 1, 0], grid[i + 1, 1], 0.5 * grid[i + 1, 2]
    rise, d, s = f1 - f0 - d0 - s0, d1 - d0 - 2.0 * s0, s1 - s0
    c3 = 10.0 * rise - 4.0 * d + s
    c4 = -15.0 * rise + 7.0 * d - 2.0 * s
    c5 = 6.0 * rise - 3.0 * d + s
    tail = f0 + u * (d0 + u * (s0 + u * (c3 + u * (c4 + u * c5))))
    slope = d0 + u * (2.0 * s0 + u * (3.0 * c3 + u * (4.0 * c4 + u * 5.0 * c5)))
    density = max(-slope, 0.0) / (STEP * root)
    if z < 0.0:
        tail = 1.0 - tail
    return tail, density


@kernel
def _excess(x, loc, inverse_scale, weight, table, grid):
    """Mixture's P(T > x) and density."""
    tail = 0.0
    density = 0.0
    for c in range(len(loc)):
        q, f = tail_and_density(grid[table[c]], (x - loc[c]) * inverse_scale[c])
        tail += weight[c] * q
        density += weight[c] * f * inverse_scale[c]
    return tail, density


@kernel
def _search(upper, low, high, start, width, loc, inverse_scale, weight, table, grid):
    """Newton's method on the tail, kept inside a bracket that halves whenever a step disappoints."""
    x = start
    last = high - low
    for _ in range(MAX_ITERATIONS):
        tail, density = _excess(x, loc, inverse_scale, weight, table, grid)
        error = tail - upper
        if error > 0.0:
            low = x
        else:
            high = x
        limit = width + 4.0 * 2.220446049250313e-16 * abs(x)
        if high - low <= limit:
            break
        # A Newton step that leaves the bracket or shrinks too slowly gives way to the midpoint.
        if abs(error) * 2.0 < abs(last) * density and low < x + error / density < high:
            step = error / density
        else:
            step = 0.5 * (low + high) - x
        last = step
        x += step
        if abs(step) <= limit:
            break
    return x


@entry
def mixture_quantiles(loc, scale, weight, table, grid, unit, probability, out):
    """Quantiles of the mixture of every row.

    Location and scale are (rows, components), the weights too, or (1, components) where they are those of every row;
    components of weight zero are passed over. ``grid[table[c]]`` tabulates the upper tail of component c, and
    ``unit[table[c], q]`` is its quantile at ``probability[q]``. ``out`` (rows, q) receives the quantiles. They lie
    between the least and the largest quantile of a component.
    """
    inverse_scale = np.empty(loc.shape[1])
    for r in range(loc.shape[0]):
        share = weight[r if weight.shape[0] > 1 else 0]
        smallest = np.inf
        for c in range(loc.shape[1]):
            inverse_scale[c] = 1.0 / scale[r, c]
            if share[c] > 0.0:
                smallest = min(smallest, scale[r, c])
        for q in range(len(probability)):
            low, high, start = np.inf, -np.inf, 0.0
            for c in range(loc.shape[1]):
                if share[c] > 0.0:
                    x = loc[r, c] + unit[table[c], q] * scale[r, c]
                    low = min(low, x)
                    high = max(high, x)
                    start += share[c] * x
            out[r, q] = _search(
                1.0 - probability[q], low, high, min(max(start, low), high), TOLERANCE * smallest,
                loc[r], inverse_scale, share, table, grid,
            )  # fmt: skip
