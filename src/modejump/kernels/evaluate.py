"""Canonical evaluation of one model: the definition of its residual share, rank and floor.

``resid(M) = RSS(M) / RSS(base)`` comes from a Cholesky factorisation of the standardised Gram matrix, and from the
columns themselves where that would lose too many digits. Fast paths elsewhere reuse factorisations; whenever they come
near a decision that rounding could tip (a small pivot, a near-perfect fit) they call this function, so the target is
one function of M.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import entry, kernel
from modejump.likelihoods.gaussian.marginal import sampler_marginal
from modejump.priors.compiled import log_model_prior
from modejump.problem.design import REFINE_BELOW

# A column whose part outside all other columns has less than this share of its squared length makes the design rank
# deficient, in whatever order they come: the model has posterior probability zero.
RANK_TOLERANCE = 1e-10
# Fast paths hand over to the canonical evaluation below this pivot.
GUARD = 1e-4
# Residual shares are floored here, the same for every model: sixteen times machine epsilon.
RESID_FLOOR = 16 * 2.220446049250313e-16
# A residual share that the Gram matrix gives with a larger relative error than this is refined.
RELATIVE_ERROR = 1e-9

NEG_INF = -np.inf


@kernel
def factorise(gram, corr, cols, k, chol, w):
    """Cholesky rows of the Gram matrix of ``cols`` and the forward-solved response; -1.0 if rank deficient.

    Returns the residual share ``1 - |w|^2``; ``chol`` holds the factor with reciprocal diagonal.
    """
    resid = volume = 1.0
    for i in range(k):
        ci = cols[i]
        pivot = gram[ci, ci]
        t = corr[ci]
        for j in range(i):
            v = gram[ci, cols[j]]
            for m in range(j):
                v -= chol[i, m] * chol[j, m]
            v *= chol[j, j]
            chol[i, j] = v
            pivot -= v * v
            t -= v * w[j]
        if pivot < RANK_TOLERANCE:
            return -1.0
        volume *= pivot
        chol[i, i] = 1.0 / np.sqrt(pivot)
        t *= chol[i, i]
        w[i] = t
        resid -= t * t
    # No column has a smaller share of its own than the product of the pivots.
    if volume < RANK_TOLERANCE and _least_share(chol, k) < RANK_TOLERANCE:
        return -1.0
    return resid


@kernel
def _least_share(chol, k):
    """The smallest share of a column's squared length that lies outside all others: 1 / diag(Gram^-1)."""
    column = np.empty(k)
    least = 1.0
    for j in range(k):
        total = 0.0
        for i in range(j, k):
            t = 1.0 if i == j else 0.0
            for m in range(j, i):
                t -= chol[i, m] * column[m]
            column[i] = t * chol[i, i]
            total += column[i] * column[i]
        least = min(least, 1.0 / total)
    return least


@kernel
def back_solve(chol, k, rhs, out):
    """Solve L' out = rhs for a factor with reciprocal diagonal."""
    for i in range(k - 1, -1, -1):
        t = rhs[i]
        for j in range(i + 1, k):
            t -= chol[j, i] * out[j]
        out[i] = t * chol[i, i]


@kernel
def forward_solve(chol, k, rhs, out):
    """Solve L out = rhs for a factor with reciprocal diagonal."""
    for i in range(k):
        t = rhs[i]
        for j in range(i):
            t -= chol[i, j] * out[j]
        out[i] = t * chol[i, i]


@kernel
def _subtract_column(columns, c, factor, e):
    """Take a multiple of a standardised column from e."""
    x, root, base, loading = columns.x, columns.root_weight, columns.base, columns.loading
    f = factor / columns.scale[c]
    if base.shape[1] == 0:
        for i in range(len(e)):
            e[i] -= f * root[i] * x[i, c]
        return
    for i in range(len(e)):
        z = x[i, c]
        for b in range(base.shape[1]):
            z -= base[i, b] * loading[b, c]
        e[i] -= f * root[i] * z


@kernel
def _column_product(columns, c, e):
    """Inner product of a standardised column with e; four partial sums, so that additions need not wait."""
    x, root, base, loading = columns.x, columns.root_weight, columns.base, columns.loading
    total = np.zeros(4)
    n = len(e)
    for i in range(n):
        z = x[i, c]
        for b in range(base.shape[1]):
            z -= base[i, b] * loading[b, c]
        total[i & 3] += z * root[i] * e[i]
    return (total[0] + total[1] + total[2] + total[3]) / columns.scale[c]


@kernel
def refine(columns, cols, k, chol, w):
    """Residual share from the columns themselves, for near-perfect fits and nearly dependent columns.

    The residual is formed with the coefficients of the Gram matrix, then corrected by one step of iterative
    refinement: its error is of the order of the squared rounding error instead of the rounding error.
    """
    e = columns.response.copy()
    beta, step, half = np.empty(k), np.empty(k), np.empty(k)
    back_solve(chol, k, w, beta)
    for j in range(k):
        _subtract_column(columns, cols[j], beta[j], e)
    for j in range(k):
        half[j] = _column_product(columns, cols[j], e)
    forward_solve(chol, k, half, step)
    back_solve(chol, k, step, half)
    for j in range(k):
        _subtract_column(columns, cols[j], half[j], e)
    resid = 0.0
    for i in range(len(e)):
        resid += e[i] * e[i]
    return resid


@kernel
def _loses_digits(chol, w, k, resid):
    """Whether rounding in the Gram matrix, e, may change the residual share by more than its error: beta' e beta."""
    volume = 1.0
    for i in range(k):
        volume /= chol[i, i] * chol[i, i]
    if volume >= GUARD:
        return False
    beta, total = np.empty(k), 0.0
    back_solve(chol, k, w, beta)
    for i in range(k):
        total += abs(beta[i])
    return RESID_FLOOR * total * total > RELATIVE_ERROR * resid


@kernel
def canonical_resid(data, cols, k, chol, w):
    """Residual share of the model with these columns (ascending), or -1.0 where it has probability zero."""
    if k > data.max_cols:
        return -1.0
    resid = factorise(data.gram, data.corr, cols, k, chol, w)
    if resid < -0.5:
        return -1.0
    if data.columns.x.shape[0] > 0 and (resid < REFINE_BELOW or _loses_digits(chol, w, k, resid)):
        resid = refine(data.columns, cols, k, chol, w)
    return max(resid, RESID_FLOOR)


@kernel
def log_likelihood(data, k, resid):
    """log p(y|M) - log p(y|base) from the number of columns and the residual share."""
    if resid < 0.0 or k > data.max_cols:
        return NEG_INF
    return sampler_marginal(data.coef_prior, data.n, data.base, k, resid)


@entry
def columns_resid(problem_data, cols):
    """Residual share of the model with these columns (ascending), -1.0 where it has probability zero."""
    k = len(cols)
    return canonical_resid(problem_data, cols, k, np.empty((k, k)), np.empty(k))


@entry
def evaluate_member(data, member):
    """Log posterior of a model given as a membership vector, from scratch; returns (log posterior, resid)."""
    size = 0
    k = 0
    for t in range(len(member)):
        if member[t]:
            size += 1
            k += data.first[t + 1] - data.first[t]
    prior = log_model_prior(member, size, data.prior)
    if prior == NEG_INF or k > data.max_cols:
        return NEG_INF, -1.0
    cols = np.empty(k, np.int64)
    k = 0
    for t in range(len(member)):
        if member[t]:
            for c in range(data.first[t], data.first[t + 1]):
                cols[k] = c
                k += 1
    resid = canonical_resid(data, cols, k, np.empty((k, k)), np.empty(k))
    return prior + log_likelihood(data, k, resid), resid
