"""Coefficients inside projections: alphas as a function of the feature and the data.

A projection g(a0 + a1 F1 + ...) is identified by g and its parents, so its alphas must follow from these and the data
alone: by maximum likelihood of the linear model of y by the parents, all one, drawn at random from the feature's key,
or optimised so that the projection itself fits y best.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from modejump.core.compilation import implements, kernel
from modejump.core.errors import InputError
from modejump.features.nonlinear.calls import transform_row
from modejump.features.nonlinear.columns import column_into, settle_alphas
from modejump.features.nonlinear.expression import Feature, evaluate
from modejump.features.nonlinear.operators import PROJECTION
from modejump.features.table import mix

# In the order of ALPHAS.
ML, ONES, RANDOM, OPTIMISED = range(4)
# Damped Gauss-Newton steps of optimised alphas, and the relative step of their numerical derivative.
OPTIMISER_STEPS = 30
DERIVATIVE_STEP = 1e-6
# A projection whose parents' Gram matrix has a smaller pivot has no unique alphas, ...
ALPHA_TOLERANCE = 1e-9
# ... nor has one with a parent of which less than this share of its length is not constant.
CONSTANT_PARENT = 1e-7


class Alphas(NamedTuple):
    """A space with projections, and how their alphas are found."""

    kind: int  # place in ALPHAS


@kernel
def _random_alpha(key, parent):
    """A standard normal number that depends on two keys alone, so that a feature stays one feature in any table."""
    u = (np.float64(mix(mix(key) + parent + np.uint64(1)) >> np.uint64(11)) + 0.5) / 9007199254740992.0
    v = (np.float64(mix(mix(key) + parent + np.uint64(2)) >> np.uint64(11)) + 0.5) / 9007199254740992.0
    return np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v)


@kernel
def _centred(values, level, root, out, row):
    """Weighted deviations of a scratch row from its mean, scaled; (mean, length), length 0 where it is constant."""
    n = len(root)
    count, total, whole = 0.0, 0.0, 0.0
    for r in range(n):
        w = root[r] * root[r]
        count += w
        total += w * values[level, r]
        whole += w * values[level, r] ** 2
    mean = total / count
    squares = 0.0
    for r in range(n):
        out[row, r] = root[r] * (values[level, r] - mean)
        squares += out[row, r] ** 2
    # Written so that values that are not numbers fail.
    if not (whole < np.inf and squares > CONSTANT_PARENT**2 * whole):
        return mean, 0.0
    length = np.sqrt(squares)
    for r in range(n):
        out[row, r] /= length
    return mean, length


@kernel
def _fit_by_likelihood(table, pool, f):
    """Alphas by maximum likelihood: weighted least squares of the response on the parents, by Gram-Schmidt."""
    m, first, root = table.arity[f], table.start[f], pool.root_weight
    n = pool.scratch.shape[1]
    mean, scale, target = np.zeros(m), np.zeros(m), np.zeros(m)
    basis = np.empty((m + 1, n))
    upper = np.zeros((m, m))
    for r in range(n):
        pool.scratch[1, r] = pool.response[r]
    intercept, spread = _centred(pool.scratch, np.int64(1), root, basis, m)
    for i in range(m):
        column_into(table, pool, table.child[first + i], np.int64(1))
        mean[i], scale[i] = _centred(pool.scratch, np.int64(1), root, basis, i)
        if scale[i] == 0.0:
            return False
        for j in range(i):
            dot = 0.0
            for r in range(n):
                dot += basis[i, r] * basis[j, r]
            upper[j, i] = dot
            for r in range(n):
                basis[i, r] -= dot * basis[j, r]
        squares = 0.0
        for r in range(n):
            squares += basis[i, r] ** 2
        if squares < ALPHA_TOLERANCE:
            return False
        upper[i, i] = np.sqrt(squares)
        for r in range(n):
            basis[i, r] /= upper[i, i]
            target[i] += basis[i, r] * basis[m, r] * spread
    for i in range(m - 1, -1, -1):
        b = target[i]
        for j in range(i + 1, m):
            b -= upper[i, j] * target[j]
        target[i] = b / upper[i, i]
        table.slope[first + i] = target[i] / scale[i]
        intercept -= table.slope[first + i] * mean[i]
    table.constant[f] = intercept
    return True


@kernel
def _image(table, pool, f, parents, alpha, out):
    """Write g(a0 + a1 F1 + ...) into a scratch row, from the parents' columns."""
    m, n = table.arity[f], parents.shape[1]
    scratch = pool.scratch
    for r in range(n):
        u = alpha[0]
        for i in range(m):
            u += alpha[i + 1] * parents[i, r]
        scratch[out, r] = u
    transform_row(pool, table.code[f], out)


@kernel
def _linear_fit(pool, row, line):
    """Weighted least squares of the response on a scratch row: writes intercept and slope, returns the RSS."""
    y, root, z = pool.response, pool.root_weight, pool.scratch
    w, sz, sy, szz, szy = 0.0, 0.0, 0.0, 0.0, 0.0
    for r in range(len(y)):
        q = root[r] * root[r]
        w += q
        sz += q * z[row, r]
        sy += q * y[r]
    mean_z, mean_y = sz / w, sy / w
    for r in range(len(y)):
        q = root[r] * root[r]
        szz += q * (z[row, r] - mean_z) ** 2
        szy += q * (z[row, r] - mean_z) * (y[r] - mean_y)
    line[1] = szy / szz if szz > 0.0 else 0.0
    line[0] = mean_y - line[1] * mean_z
    rss = 0.0
    for r in range(len(y)):
        rss += (root[r] * (y[r] - line[0] - line[1] * z[row, r])) ** 2
    return rss


@kernel
def _gauss_newton_step(table, pool, f, parents, alpha, line, step):
    """Step of the alphas that least squares gives for the linearised g; False where it has none.

    Intercept and slope of the response on g move along: otherwise each alpha would wait for the other parameters.
    """
    m, n = table.arity[f], parents.shape[1]
    y, root, scratch = pool.response, pool.root_weight, pool.scratch
    shift = alpha.copy()
    size = DERIVATIVE_STEP * (1.0 + abs(alpha[0]))
    shift[0] += size
    _image(table, pool, f, parents, shift, np.int64(2))
    p = m + 3
    normal, right = np.zeros((p, p)), np.zeros(p)
    row = np.empty(p)
    for r in range(n):
        slope = root[r] * line[1] * (scratch[2, r] - scratch[1, r]) / size
        row[0] = root[r]
        row[1] = root[r] * scratch[1, r]
        row[2] = slope
        for i in range(m):
            row[i + 3] = slope * parents[i, r]
        e = root[r] * (y[r] - line[0] - line[1] * scratch[1, r])
        for i in range(p):
            right[i] += row[i] * e
            for j in range(i + 1):
                normal[i, j] += row[i] * row[j]
    for i in range(p):
        pivot = normal[i, i] * (1.0 + 1e-8)
        for j in range(i):
            v = normal[i, j]
            for q in range(j):
                v -= normal[i, q] * normal[j, q]
            normal[i, j] = v / normal[j, j]
            pivot -= normal[i, j] ** 2
        if not pivot > 0.0 or not pivot < np.inf:
            return False
        normal[i, i] = np.sqrt(pivot)
    for i in range(p):
        for j in range(i):
            right[i] -= normal[i, j] * right[j]
        right[i] /= normal[i, i]
    for i in range(p - 1, 1, -1):
        for j in range(i + 1, p):
            right[i] -= normal[j, i] * right[j]
        right[i] /= normal[i, i]
        step[i - 2] = right[i]
    return True


@kernel
def _optimise_alphas(table, pool, f):
    """From the alphas by likelihood, damped Gauss-Newton steps on the fit of y by b0 + b1 g(a0 + a1 F1 + ...)."""
    m, first, n = table.arity[f], table.start[f], pool.scratch.shape[1]
    parents = np.empty((m, n))
    for i in range(m):
        column_into(table, pool, table.child[first + i], np.int64(1))
        for r in range(n):
            parents[i, r] = pool.scratch[1, r]
    alpha, step, line, trial_line = np.empty(m + 1), np.empty(m + 1), np.zeros(2), np.zeros(2)
    alpha[0] = table.constant[f]
    for i in range(m):
        alpha[i + 1] = table.slope[first + i]
    _image(table, pool, f, parents, alpha, np.int64(1))
    best = _linear_fit(pool, np.int64(1), line)
    for _ in range(OPTIMISER_STEPS):
        if not best < np.inf or not _gauss_newton_step(table, pool, f, parents, alpha, line, step):
            break
        damping, improved = 1.0, False
        for _ in range(6):
            trial = alpha + damping * step
            _image(table, pool, f, parents, trial, np.int64(2))
            rss = _linear_fit(pool, np.int64(2), trial_line)
            if rss < best:
                improved = rss < best * (1.0 - 1e-10)
                best = rss
                line[0], line[1] = trial_line[0], trial_line[1]
                for i in range(m + 1):
                    alpha[i] = trial[i]
                break
            damping *= 0.3
        if not improved:
            break
        _image(table, pool, f, parents, alpha, np.int64(1))
    table.constant[f] = alpha[0]
    for i in range(m):
        table.slope[first + i] = alpha[i + 1]


@kernel
def _fit_alphas(alphas, table, pool, f):
    """Set the alphas of every projection in f that has none; False where its parents are dependent or not finite."""
    m, first = table.arity[f], table.start[f]
    if table.kind[f] == PROJECTION and not np.isnan(table.constant[f]):
        return True
    for i in range(m):
        if not _fit_alphas(alphas, table, pool, table.child[first + i]):
            return False
    if table.kind[f] != PROJECTION:
        return True
    if alphas.kind == ML or alphas.kind == OPTIMISED:
        if not _fit_by_likelihood(table, pool, f):
            return False
        if alphas.kind == OPTIMISED:
            _optimise_alphas(table, pool, f)
        return True
    ones = alphas.kind == ONES
    key = table.key[f]
    table.constant[f] = 0.0 if ones else _random_alpha(key, key)
    for i in range(m):
        table.slope[first + i] = 1.0 if ones else _random_alpha(key, table.key[table.child[first + i]])
    return True


@implements(settle_alphas, Alphas)
def _settle_alphas(alphas, table, pool, f):
    return _fit_alphas(alphas, table, pool, f)


def find_alphas(
    features: Iterable[Feature],
    table: Mapping[str, np.ndarray],
    y: np.ndarray,
    weights: np.ndarray,
    *,
    known: Mapping[Feature, np.ndarray],
    kind: str,
) -> dict[Feature, np.ndarray]:
    """Coefficients of all projections inside some features, in plain NumPy: those known, and those that there are."""
    alphas: dict[Feature, np.ndarray] = dict(known)
    without: set[Feature] = set()
    for feature in features:
        for node in feature.subfeatures():
            if not without.isdisjoint(node.children):
                without.add(node)
            elif node.kind == "projection" and node not in alphas:
                found = _find(node, table, y, weights, alphas, kind)
                if found is None:
                    without.add(node)
                else:
                    alphas[node] = found
    return alphas


def _find(
    node: Feature,
    table: Mapping[str, np.ndarray],
    y: np.ndarray,
    weights: np.ndarray,
    alphas: Mapping[Feature, np.ndarray],
    kind: str,
) -> np.ndarray | None:
    """Alphas of one projection; None where a parent is constant or not finite, or they depend on each other."""
    if kind in ("random", "optimised"):
        raise InputError(
            f"the projection {node.text!r} was not met by the search, which finds {kind} coefficients; ask for one "
            "that was."
        )
    if kind == "ones":
        return np.array([0.0, *np.ones(len(node.children))])
    parents, root = np.column_stack([evaluate(child, table, alphas) for child in node.children]), np.sqrt(weights)
    with np.errstate(all="ignore"):
        whole = np.sum((root[:, None] * parents) ** 2, axis=0)
        if not np.isfinite(whole).all():
            return None
    mean, centre = np.average(parents, axis=0, weights=weights), np.average(y, weights=weights)
    centred = root[:, None] * (parents - mean)
    scale = np.linalg.norm(centred, axis=0)
    if not (scale**2 > CONSTANT_PARENT**2 * whole).all():
        return None
    q, r = np.linalg.qr(centred / scale)
    if len(r) < len(scale) or (np.diag(r) ** 2 < ALPHA_TOLERANCE).any():
        return None
    slopes = np.linalg.solve(r, q.T @ (root * (y - centre))) / scale
    return np.array([centre - slopes @ mean, *slopes])
