"""Columns of features: computed from the covariates, cached with a memory bound, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.handles import scalars_of
from modejump.features.nonlinear.callbacks import Callbacks, apply_user, make_callbacks
from modejump.features.nonlinear.functions import apply
from modejump.features.nonlinear.transforms import FIRST_USER_CODE
from modejump.features.table import COVARIATE, MODIFICATION, PRODUCT, PROJECTION, Arena, mix

# How the alphas of a projection are found.
ALPHA_ML, ALPHA_ONES, ALPHA_RANDOM, ALPHA_OPTIMISED = range(4)
# Damped Gauss-Newton steps of optimised alphas, and the relative step of their numerical derivative.
OPTIMISER_STEPS = 30
DERIVATIVE_STEP = 1e-6
# A projection whose parents' Gram matrix has a smaller pivot has no unique alphas, ...
ALPHA_TOLERANCE = 1e-9
# ... nor has one with a parent of which less than this share of its length is not constant.
CONSTANT_PARENT = 1e-7


class ColumnPool(NamedTuple):
    """Raw columns of the features used last; scratch columns for what is being computed."""

    x: np.ndarray  # float64 (columns, n): the covariates
    response: np.ndarray  # float64 (n,)
    root_weight: np.ndarray  # float64 (n,): square roots of the case weights
    values: np.ndarray  # float64 (slots, n)
    owner: np.ndarray  # int64 (slots,): feature of each slot, -1 where free
    slot: np.ndarray  # int32 (features,): slot + 1 of each feature, 0 where it has none
    scratch: np.ndarray  # float64 (levels, n)
    scalars: np.ndarray  # next: slot to give away
    alpha_kind: int
    projections: np.ndarray  # one dimension where the space has no projections, two where it has
    callbacks: Callbacks


def new_pool(
    x: np.ndarray,
    response: np.ndarray,
    root_weight: np.ndarray,
    arena: Arena,
    slots: int,
    levels: int,
    alpha_kind: int = ALPHA_ML,
    callbacks: Callbacks | None = None,
    projections: bool = True,
) -> ColumnPool:
    """An empty cache for ``slots`` columns, and scratch space for expressions of so many levels."""
    n = x.shape[1]
    return ColumnPool(
        x,
        response,
        root_weight,
        np.zeros((slots, n)),
        np.full(slots, -1, np.int64),
        np.zeros(len(arena.kind), np.int32),
        np.zeros((levels, n)),
        scalars_of(next=0),
        alpha_kind,
        np.empty((0, 0)) if projections else np.empty(0),
        make_callbacks([])[0] if callbacks is None else callbacks,
    )


@kernel
def _copy_row(source, i, target, j):
    for r in range(source.shape[1]):
        target[j, r] = source[i, r]


@kernel
def _transform(pool, code, level):
    """Apply a transform to a scratch row, in place."""
    row = pool.scratch[level]
    if code < FIRST_USER_CODE:
        apply(code, row, row)
    else:
        apply_user(pool.callbacks, code, row)


@kernel
def column_into(ar, pool, f, level):
    """Write the column of f into a scratch row; children use the rows after it."""
    scratch = pool.scratch
    if pool.slot[f] > 0:
        _copy_row(pool.values, np.int64(pool.slot[f] - 1), scratch, level)
        return
    kind, first = ar.kind[f], ar.start[f]
    n = scratch.shape[1]
    if kind == COVARIATE:
        _copy_row(pool.x, ar.code[f], scratch, level)
        return
    if kind == MODIFICATION:
        column_into(ar, pool, ar.child[first], level)
        _transform(pool, ar.code[f], level)
        return
    if kind == PRODUCT:
        column_into(ar, pool, ar.child[first], level)
        for i in range(1, ar.arity[f]):
            column_into(ar, pool, ar.child[first + i], level + 1)
            for r in range(n):
                scratch[level, r] *= scratch[level + 1, r]
        return
    for r in range(n):
        scratch[level, r] = ar.alpha0[f]
    for i in range(ar.arity[f]):
        column_into(ar, pool, ar.child[first + i], level + 1)
        a = ar.alpha[first + i]
        for r in range(n):
            scratch[level, r] += a * scratch[level + 1, r]
    _transform(pool, ar.code[f], level)


@kernel
def remember(pool, f):
    """Keep the column in scratch row 0 for later use; the oldest one makes way."""
    if pool.slot[f] > 0:
        return
    s = pool.next
    pool.next = (s + 1) % len(pool.owner)
    if pool.owner[s] >= 0:
        pool.slot[pool.owner[s]] = 0
    pool.owner[s] = f
    pool.slot[f] = s + 1
    _copy_row(pool.scratch, np.int64(0), pool.values, s)


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
def _fit_by_likelihood(ar, pool, f):
    """Alphas by maximum likelihood: weighted least squares of the response on the parents, by Gram-Schmidt."""
    m, first, root = ar.arity[f], ar.start[f], pool.root_weight
    n = pool.scratch.shape[1]
    mean, scale, target = np.zeros(m), np.zeros(m), np.zeros(m)
    basis = np.empty((m + 1, n))
    upper = np.zeros((m, m))
    for r in range(n):
        pool.scratch[1, r] = pool.response[r]
    intercept, spread = _centred(pool.scratch, np.int64(1), root, basis, m)
    for i in range(m):
        column_into(ar, pool, ar.child[first + i], np.int64(1))
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
        ar.alpha[first + i] = target[i] / scale[i]
        intercept -= ar.alpha[first + i] * mean[i]
    ar.alpha0[f] = intercept
    return True


@kernel
def _image(ar, pool, f, parents, alpha, out):
    """Write g(a0 + a1 F1 + ...) into a scratch row, from the parents' columns."""
    m, n = ar.arity[f], parents.shape[1]
    scratch = pool.scratch
    for r in range(n):
        u = alpha[0]
        for i in range(m):
            u += alpha[i + 1] * parents[i, r]
        scratch[out, r] = u
    _transform(pool, ar.code[f], out)


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
def _gauss_newton_step(ar, pool, f, parents, alpha, line, step):
    """Step of the alphas that least squares gives for the linearised g; False where it has none.

    Intercept and slope of the response on g move along: otherwise each alpha would wait for the other parameters.
    """
    m, n = ar.arity[f], parents.shape[1]
    y, root, scratch = pool.response, pool.root_weight, pool.scratch
    shift = alpha.copy()
    size = DERIVATIVE_STEP * (1.0 + abs(alpha[0]))
    shift[0] += size
    _image(ar, pool, f, parents, shift, np.int64(2))
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
def _optimise_alphas(ar, pool, f):
    """From the alphas by likelihood, damped Gauss-Newton steps on the fit of y by b0 + b1 g(a0 + a1 F1 + ...)."""
    m, first, n = ar.arity[f], ar.start[f], pool.scratch.shape[1]
    parents = np.empty((m, n))
    for i in range(m):
        column_into(ar, pool, ar.child[first + i], np.int64(1))
        for r in range(n):
            parents[i, r] = pool.scratch[1, r]
    alpha, step, line, trial_line = np.empty(m + 1), np.empty(m + 1), np.zeros(2), np.zeros(2)
    alpha[0] = ar.alpha0[f]
    for i in range(m):
        alpha[i + 1] = ar.alpha[first + i]
    _image(ar, pool, f, parents, alpha, np.int64(1))
    best = _linear_fit(pool, np.int64(1), line)
    for _ in range(OPTIMISER_STEPS):
        if not best < np.inf or not _gauss_newton_step(ar, pool, f, parents, alpha, line, step):
            break
        damping, improved = 1.0, False
        for _ in range(6):
            trial = alpha + damping * step
            _image(ar, pool, f, parents, trial, np.int64(2))
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
        _image(ar, pool, f, parents, alpha, np.int64(1))
    ar.alpha0[f] = alpha[0]
    for i in range(m):
        ar.alpha[first + i] = alpha[i + 1]


@kernel
def fit_alphas(ar, pool, f):
    """Set the alphas of every projection in f that has none; False where its parents are dependent or not finite."""
    m, first = ar.arity[f], ar.start[f]
    if ar.kind[f] == PROJECTION and not np.isnan(ar.alpha0[f]):
        return True
    for i in range(m):
        if not fit_alphas(ar, pool, ar.child[first + i]):
            return False
    if ar.kind[f] != PROJECTION:
        return True
    if pool.alpha_kind == ALPHA_ML or pool.alpha_kind == ALPHA_OPTIMISED:
        if not _fit_by_likelihood(ar, pool, f):
            return False
        if pool.alpha_kind == ALPHA_OPTIMISED:
            _optimise_alphas(ar, pool, f)
        return True
    ones = pool.alpha_kind == ALPHA_ONES
    key = ar.key[f]
    ar.alpha0[f] = 0.0 if ones else _random_alpha(key, key)
    for i in range(m):
        ar.alpha[first + i] = 1.0 if ones else _random_alpha(key, ar.key[ar.child[first + i]])
    return True


@kernel
def settle_alphas(ar, pool, f, projections):
    """Make sure that every projection in f has its alphas; False where it cannot have any.

    Numba decides by the dimensions of ``projections`` when it compiles, so that a search without projections has none
    of their code.
    """
    if projections.ndim == 1:
        return True
    else:
        return fit_alphas(ar, pool, f)
