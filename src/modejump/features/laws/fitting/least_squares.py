"""Constants of a law by variable projection: intercept and slope are always the best ones, compiled.

For constants c with column z(c), u is z without its part in the base, weighted, and t the response likewise, of unit
length. The best slope is u't / u'u, and the share of t that is left, the *loss*, is a function of c alone. Its minimum
is found by Levenberg and Marquardt's method with Kaufman's approximation of the derivatives: those of u without their
part in u.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import kernel
from modejump.features.laws.fitting.program import BLOCK, operand, run
from modejump.features.pool import dot_rows

# A column of which less than this share of its length is not in the base is constant.
CONSTANT_COLUMN = 1e-9
# A constant is not identified where less than this share of its derivative's length is its own.
IDENTIFIED = 1e-7
# Steps end where no constant changes by more than this share of it, ...
PRECISION = 1e-10
# ... where so small a share of the loss is left to gain, or after so many attempts to make it smaller.
GAIN = 1e-19
ATTEMPTS = 8
# Constants run away where they change by more than one share while the loss falls by less than the other, twice in
# turn: then the data hardly tell them, and steps end as well.
FAR, FLAT = 1e-3, 1e-8
FIRST_DAMPING = 1e-3


class LawRows(NamedTuple):
    """Some rows of the data: what constants are fitted to."""

    leaf: np.ndarray  # float64 (L, m): columns without constants
    root: np.ndarray  # float64 (m,): square roots of the weights
    basis: np.ndarray  # float64 (b, m): orthonormal basis of the weighted base
    target: np.ndarray  # float64 (1, m): the weighted response without the base, of unit length
    column: np.ndarray  # float64 (K + 1, m): the weighted column without the base, and its derivatives
    residual: np.ndarray  # float64 (1, m)
    raw: np.ndarray  # float64 (K + 1,): squared lengths of these columns before the base was taken out


def new_rows(root: np.ndarray, base: np.ndarray, target: np.ndarray, leaves: int, constants: int) -> LawRows:
    """Rows without leaves, from a base (b, m) and a response (m,) that are weighted already."""
    m = len(root)
    basis = np.linalg.qr(base.T)[0].T if len(base) else np.zeros((0, m))
    left = target - basis.T @ (basis @ target)
    length = np.linalg.norm(left)
    return LawRows(
        leaf=np.zeros((leaves, m)),
        root=np.ascontiguousarray(root),
        basis=np.ascontiguousarray(basis),
        target=(left / length if length > 0.0 else left)[None].copy(),
        column=np.zeros((constants + 1, m)),
        residual=np.zeros((1, m)),
        raw=np.zeros(constants + 1),
    )


@kernel
def _without_base(rows, i):
    """Take the base out of one of the columns."""
    column, basis = rows.column, rows.basis
    rows.raw[i] = dot_rows(column, i, column, i)
    row = column[i]
    for b in range(len(basis)):
        dot, held = dot_rows(column, i, basis, b), basis[b]
        for r in range(len(row)):
            row[r] -= dot * held[r]


@kernel
def fill_columns(program, pool, rows, root, constants, derivatives):
    """Write the column times the roots of weights, and its derivatives where they are wanted, for all rows."""
    n, last = len(root), program.last
    for first in range(0, n, BLOCK):
        m = min(BLOCK, n - first)
        run(program, pool, constants, rows.leaf, first, m, derivatives)
        held, out = operand(program, rows.leaf, last, first, m), rows.column[0]
        for r in range(m):
            out[first + r] = root[first + r] * held[r]
        if derivatives:
            for k in range(program.constants):
                slope, out = program.slope[k, last], rows.column[k + 1]
                for r in range(m):
                    out[first + r] = root[first + r] * slope[r]


@kernel
def loss(program, pool, rows, constants, derivatives):
    """Share of the response that the law leaves, and its slope; infinity where the column is constant or not finite."""
    fill_columns(program, pool, rows, rows.root, constants, derivatives)
    column, target = rows.column, rows.target
    _without_base(rows, np.int64(0))
    if derivatives:
        for k in range(program.constants):
            _without_base(rows, np.int64(k + 1))
    length = dot_rows(column, np.int64(0), column, np.int64(0))
    # Written so that values that are not numbers fail.
    if not (rows.raw[0] < np.inf and length > CONSTANT_COLUMN**2 * rows.raw[0]):
        return np.inf, 0.0
    slope = dot_rows(column, np.int64(0), target, np.int64(0)) / length
    u, t, left = column[0], target[0], rows.residual[0]
    for r in range(len(u)):
        left[r] = t[r] - slope * u[r]
    return dot_rows(rows.residual, np.int64(0), rows.residual, np.int64(0)), slope


@kernel
def _normal_equations(program, rows, slope, h, g):
    """Information and gradient of the constants at the point evaluated last."""
    column, zero = rows.column, np.int64(0)
    length = dot_rows(column, zero, column, zero)
    for i in range(program.constants):
        along = dot_rows(column, zero, column, i + 1)
        g[i] = slope * dot_rows(column, i + 1, rows.residual, zero)
        # The last row holds the products with the column itself.
        h[program.constants, i] = along
        for j in range(i + 1):
            h[i, j] = slope**2 * (dot_rows(column, i + 1, column, j + 1) - along * h[program.constants, j] / length)


@kernel
def solve_damped(h, g, k, damping, factor, step):
    """Step of k parameters from their information and gradient; what it promises to gain, -1 where it has none."""
    for i in range(k):
        for j in range(i + 1):
            v = h[i, j]
            if i == j:
                v = v * (1.0 + damping)
            for q in range(j):
                v -= factor[i, q] * factor[j, q]
            if j < i:
                factor[i, j] = v / factor[j, j]
            elif not (v > 1e-15 * h[i, i] and v < np.inf):
                return -1.0
            else:
                factor[i, i] = np.sqrt(v)
    for i in range(k):
        v = g[i]
        for j in range(i):
            v -= factor[i, j] * step[j]
        step[i] = v / factor[i, i]
    for i in range(k - 1, -1, -1):
        v = step[i]
        for j in range(i + 1, k):
            v -= factor[j, i] * step[j]
        step[i] = v / factor[i, i]
    gain = 0.0
    for i in range(k):
        gain += g[i] * step[i]
    return gain


@kernel
def minimise(program, pool, rows, constants, steps):
    """Improve constants by so many steps; returns the loss."""
    k = program.constants
    h, factor = np.zeros((k + 1, k)), np.zeros((k, k))
    g, step, trial = np.zeros(k), np.zeros(k), np.zeros(k)
    best, slope = loss(program, pool, rows, constants, True)
    damping, away = FIRST_DAMPING, 0
    for _ in range(steps):
        if not best < np.inf or away == 2:
            break
        _normal_equations(program, rows, slope, h, g)
        done = True
        for _ in range(ATTEMPTS):
            gain = solve_damped(h, g, k, damping, factor, step)
            if 0.0 <= gain <= GAIN * best:
                break
            change = np.inf
            if gain > 0.0:
                change = 0.0
                for i in range(k):
                    trial[i] = constants[i] + step[i]
                    change = max(change, abs(step[i]) / (abs(trial[i]) + 1e-300))
                new, new_slope = loss(program, pool, rows, trial, True)
                if new < best:
                    away = away + 1 if change > FAR and new > (1.0 - FLAT) * best else 0
                    best, slope = new, new_slope
                    constants[:k] = trial
                    damping = max(0.1 * damping, 1e-15)
                    done = change < PRECISION
                    break
            if change < PRECISION:
                break
            damping = max(10.0 * damping, 1e-6)
        if done:
            break
    return best


@kernel
def identified(program, rows):
    """Whether no derivative, of those evaluated last, depends on the base, the column and the other derivatives."""
    column = rows.column
    for i in range(program.constants + 1):
        # A second pass removes what rounding left of the first.
        for _ in range(2):
            for j in range(i):
                dot, held, row = dot_rows(column, i, column, j), column[j], column[i]
                for r in range(len(row)):
                    row[r] -= dot * held[r]
        squares = dot_rows(column, i, column, i)
        if not squares > IDENTIFIED**2 * rows.raw[i]:
            return False
        scale, row = 1.0 / np.sqrt(squares), column[i]
        for r in range(len(row)):
            row[r] *= scale
    return True
