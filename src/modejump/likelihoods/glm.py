"""Generalised linear models: maximum likelihood by Newton's method, compiled, and Laplace approximations from it.

The rows are worked through in blocks that stay in the cache, so that a fit needs no memory that grows with the number
of rows. A fit starts at the coefficients of the model before it: neighbouring models differ little, and two or three
steps are enough. With the Newton decrement d = grad' H^-1 grad, the log likelihood at the maximum is that at the last
point plus d/2 up to terms of order d^(3/2), so that a fit ends as soon as d is below ``TOLERANCE``.

A model has posterior probability zero where its maximum likelihood estimate does not exist: under (quasi-) complete
separation the information about some direction vanishes, which shows as a pivot of the information matrix, for columns
of unit length, below ``SEPARATED``; so it does where the likelihood overflows, and where Newton's method from the base
model's fit has not converged after ``MOST_STEPS`` steps. These are rules about the model, whatever model came before.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from modejump.jit import kernel, summing
from modejump.likelihoods.rows import GAMMA, OWN, score_rows

# Rows in one block: with a dozen columns they fill the first-level cache.
BLOCK = 256
# The decrement below which a fit has converged: for priors that need the likelihood alone, and for others, which need
# the information as well, whose error is of the order of the decrement's root.
TOLERANCE = 1e-9
TOLERANCE_INFORMATION = 1e-14
SEPARATED = 1e-8
MOST_STEPS = 50
# A warm start that has not converged after so many steps is given up for a cold one.
WARM_STEPS = 8
MOST_HALVINGS = 12
# Slots of GlmWork.val.
LOG_LIKELIHOOD, LOG_DET_BASE, WALD, SHAPE = 0, 1, 2, 3


class Glm(NamedTuple):
    """Response and columns of a generalised linear model."""

    y: np.ndarray  # float64 (n,); two dimensions for a Gaussian problem, which has none of this
    weight: np.ndarray  # float64 (n,)
    offset: np.ndarray  # float64 (n,)
    base: np.ndarray  # float64 (b, n): columns of every model, orthonormal
    x: np.ndarray  # float64 (p, n): candidate columns, of unit length, without their part in the base
    unroot: np.ndarray  # float64 (n,): what the columns are to be multiplied by, or (0,)
    start: np.ndarray  # float64 (b,): coefficients of the base model
    null: np.ndarray  # float64 (1,): log marginal likelihood of the base model
    family: int
    link: int
    unit: int  # 1 where all weights are one
    # For likelihoods of the user's own: parameters, and the addresses of the function and of what explains its errors.
    params: np.ndarray  # float64 (q,)
    address: int
    report: int


class GlmWork(NamedTuple):
    """Scratch space of one chain."""

    columns: np.ndarray  # float64 (m, BLOCK)
    weighted: np.ndarray  # float64 (BLOCK,)
    eta: np.ndarray  # float64 (BLOCK,)
    score: np.ndarray  # float64 (BLOCK,)
    info: np.ndarray  # float64 (BLOCK,)
    hessian: np.ndarray  # float64 (m, m)
    gradient: np.ndarray  # float64 (m,)
    beta: np.ndarray  # float64 (m,)
    step: np.ndarray  # float64 (m,)
    column: np.ndarray  # float64 (m,)
    warm: np.ndarray  # float64 (b + p,): coefficients of the model fitted last, by column
    last: np.ndarray  # int64 (m,): its columns
    num: np.ndarray  # int64 (2,): how many columns it had, and whether ``hessian`` still holds its factor
    val: np.ndarray  # float64 (4,)
    own: np.ndarray  # float64 (m, n): all columns, for likelihoods of the user's own only


def no_glm() -> Glm:
    """What a Gaussian problem has instead."""
    none = np.zeros(0)
    return Glm(np.zeros((0, 0)), none, none, np.zeros((0, 0)), np.zeros((0, 0)), none, none, none, 0, 0, 1, none, 0, 0)


def new_glm_work(glm: Glm, room: int) -> GlmWork:
    """Scratch space for models of up to ``room`` columns; empty for a Gaussian problem."""
    b, p = glm.base.shape[0], glm.x.shape[0]
    m, block = (b + room, BLOCK) if glm.y.ndim == 1 else (0, 0)
    warm = np.zeros(b + p)
    warm[:b] = glm.start
    return GlmWork(
        np.zeros((m, block)),
        np.zeros(block),
        np.zeros(block),
        np.zeros(block),
        np.zeros(block),
        np.zeros((m, m)),
        np.zeros(m),
        np.zeros(m),
        np.zeros(m),
        np.zeros(m),
        warm,
        np.zeros(m, np.int64),
        np.zeros(2, np.int64),
        np.zeros(4),
        np.zeros((m, len(glm.y)) if glm.family == OWN else (0, 0)),
    )


@kernel
def _load(glm, work, cols, k, first, m):
    """Columns of a block of rows: the base's, then the model's."""
    b = glm.base.shape[0]
    columns, x = work.columns, glm.x
    for i in range(b):
        for r in range(m):
            columns[i, r] = glm.base[i, first + r]
    for i in range(k):
        c = cols[i]
        for r in range(m):
            columns[b + i, r] = x[c, first + r]
    if len(glm.unroot) > 0:
        for i in range(k):
            for r in range(m):
                columns[b + i, r] *= glm.unroot[first + r]


@summing
def _dot(a, b, i, m):
    """Inner product of a vector with a row of a block."""
    total = 0.0
    for r in range(m):
        total += a[r] * b[i, r]
    return total


@kernel
def _pass(glm, work, cols, k):
    """Log likelihood, gradient and information at ``work.beta``, in one pass over the rows."""
    n, size = len(glm.y), glm.base.shape[0] + k
    columns, weighted, eta, info, score = work.columns, work.weighted, work.eta, work.info, work.score
    h, gradient, beta = work.hessian, work.gradient, work.beta
    for i in range(size):
        gradient[i] = 0.0
        for j in range(i + 1):
            h[i, j] = 0.0
    total = 0.0
    for first in range(0, n, BLOCK):
        m = min(BLOCK, n - first)
        _load(glm, work, cols, k, first, m)
        for r in range(m):
            eta[r] = glm.offset[first + r]
        for i in range(size):
            for r in range(m):
                eta[r] += beta[i] * columns[i, r]
        total += score_rows(glm, work, first, m)
        if not total > -np.inf:
            return total
        for i in range(size):
            gradient[i] += _dot(score, columns, i, m)
            for r in range(m):
                weighted[r] = info[r] * columns[i, r]
            for j in range(i + 1):
                h[i, j] += _dot(weighted, columns, j, m)
    return total


@kernel
def _newton_step(work, size):
    """Factorise the information and solve for the step; the decrement, or -1.0 where a direction has none."""
    h, gradient, step = work.hessian, work.gradient, work.step
    for i in range(size):
        for j in range(i + 1):
            v = h[i, j]
            for q in range(j):
                v -= h[i, q] * h[j, q]
            if j < i:
                h[i, j] = v * h[j, j]
            elif v < SEPARATED:
                return -1.0
            else:
                h[i, i] = 1.0 / math.sqrt(v)
    decrement = 0.0
    for i in range(size):
        t = gradient[i]
        for j in range(i):
            t -= h[i, j] * step[j]
        step[i] = t * h[i, i]
        decrement += step[i] * step[i]
    for i in range(size - 1, -1, -1):
        t = step[i]
        for j in range(i + 1, size):
            t -= h[j, i] * step[j]
        step[i] = t * h[i, i]
    return decrement


@kernel
def _newton(glm, work, cols, k, steps, tolerance):
    """Newton's method from ``work.beta``: 1 converged, 0 not yet, -1 where the estimate does not exist."""
    size = glm.base.shape[0] + k
    beta, step = work.beta, work.step
    before, halvings = -np.inf, 0
    for _ in range(steps):
        value = _pass(glm, work, cols, k)
        # Written so that a value that is not a number fails.
        if not value >= before - 1e-7 * (1.0 + abs(before)):
            if halvings == MOST_HALVINGS:
                return 0
            halvings += 1
            for i in range(size):
                step[i] *= 0.5
                beta[i] -= step[i]
            continue
        halvings = 0
        decrement = _newton_step(work, size)
        if decrement < 0.0:
            return -1
        for i in range(size):
            beta[i] += step[i]
        if decrement < tolerance:
            work.val[LOG_LIKELIHOOD] = value + 0.5 * decrement
            return 1
        before = value
    return 0


@kernel
def _drop_last(glm, work, cols, k):
    """Where this model is the last one without one column: move to the best point without it of the quadratic there.

    With v the column of the inverse information that belongs to the one that leaves, that is
    ``beta - v beta_j / v_j``: no pass over the rows.
    """
    b = glm.base.shape[0]
    last, h, v, warm = work.last, work.hessian, work.column, work.warm
    gone = k
    for i in range(k):
        if last[i] != cols[i]:
            gone = i
            break
    for i in range(gone, k):
        if last[i + 1] != cols[i]:
            return
    j, size = b + gone, b + k + 1
    for i in range(size):
        t = 1.0 if i == j else 0.0
        for q in range(i):
            t -= h[i, q] * v[q]
        v[i] = t * h[i, i]
    for i in range(size - 1, -1, -1):
        t = v[i]
        for q in range(i + 1, size):
            t -= h[q, i] * v[q]
        v[i] = t * h[i, i]
    share = warm[b + last[gone]] / v[j]
    for i in range(b):
        warm[i] -= share * v[i]
    for i in range(k + 1):
        warm[b + last[i]] -= share * v[b + i]


@kernel
def _warm_start(glm, work, cols, k):
    """Start at the coefficients of the model fitted last; columns it did not have start at zero."""
    b = glm.base.shape[0]
    if work.num[1] and work.num[0] == k + 1:
        _drop_last(glm, work, cols, k)
    for i in range(b):
        work.beta[i] = work.warm[i]
    for i in range(k):
        work.beta[b + i] = work.warm[b + cols[i]]


@kernel
def _cold_start(glm, work, k):
    """Start at the base model's fit."""
    b = glm.base.shape[0]
    for i in range(b):
        work.beta[i] = glm.start[i]
    for i in range(k):
        work.beta[b + i] = 0.0


@kernel
def _keep(glm, work, cols, k):
    """The next fit starts here."""
    b = glm.base.shape[0]
    for i in range(work.num[0]):
        work.warm[b + work.last[i]] = 0.0
    for i in range(b):
        work.warm[i] = work.beta[i]
    for i in range(k):
        work.warm[b + cols[i]] = work.beta[b + i]
        work.last[i] = cols[i]
    work.num[0] = k
    work.num[1] = 1


@kernel
def _measure(glm, work, k):
    """Information about the base, and Wald's statistic of the rest given the base, from the last factor.

    With the base's columns first, the factor's leading block belongs to the base alone, and the trailing one to the
    others once the base is projected out in the metric of the information, as centring does for the intercept.
    """
    b = glm.base.shape[0]
    h, beta = work.hessian, work.beta
    log_det = 0.0
    for i in range(b):
        log_det -= 2.0 * math.log(h[i, i])
    wald = 0.0
    for j in range(b, b + k):
        t = beta[j] / h[j, j]
        for i in range(j + 1, b + k):
            t += h[i, j] * beta[i]
        wald += t * t
    work.val[LOG_DET_BASE] = log_det
    work.val[WALD] = wald


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
def _settle_shape(glm, work):
    """Profile the gamma's shape out: its maximum likelihood estimate given the means, which do not depend on it.

    With T = sum of the weights and S the sum of -(y / mu + log mu), the shape solves
    ``log v + 1 - digamma(v) + (S + sum log y) / T = 0``. Solved in log v, where the equation is nearly linear.
    """
    total, logs = 0.0, 0.0
    for r in range(len(glm.y)):
        total += glm.weight[r]
        logs += glm.weight[r] * math.log(glm.y[r])
    gap = -(1.0 + (work.val[LOG_LIKELIHOOD] + logs) / total)
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
    work.val[SHAPE] = shape
    work.val[LOG_LIKELIHOOD] = (
        total * (shape * math.log(shape) - math.lgamma(shape)) + (shape - 1.0) * logs + shape * work.val[LOG_LIKELIHOOD]
    )
    work.val[LOG_DET_BASE] += glm.base.shape[0] * math.log(shape)
    work.val[WALD] *= shape
    return True


@kernel
def fit(glm, work, cols, k, tolerance):
    """Fit the model with these columns; False where its estimate does not exist. Results are in ``work.val``."""
    _warm_start(glm, work, cols, k)
    work.num[1] = 0
    state = _newton(glm, work, cols, k, WARM_STEPS, tolerance)
    if state != 1:
        # What a model is worth must not depend on where its fit began.
        _cold_start(glm, work, k)
        state = _newton(glm, work, cols, k, MOST_STEPS, tolerance)
    if state != 1:
        return False
    _measure(glm, work, k)
    _keep(glm, work, cols, k)
    if glm.family == GAMMA:
        return _settle_shape(glm, work)
    return True
