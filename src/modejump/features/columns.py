"""Columns of features: computed from the covariates, cached with a memory bound, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.features.arena import COVARIATE, MODIFICATION, PRODUCT, Arena, mix
from modejump.features.functions import apply
from modejump.jit import kernel

# How the alphas of a projection are found.
ALPHA_ML, ALPHA_ONES, ALPHA_RANDOM = range(3)
# A projection whose parents' Gram matrix has a smaller pivot has no unique alphas.
ALPHA_TOLERANCE = 1e-9


class ColumnPool(NamedTuple):
    """Raw columns of the features used last; scratch columns for what is being computed."""

    x: np.ndarray  # float64 (columns, n): the covariates
    response: np.ndarray  # float64 (n,): the response without the base, of unit length
    values: np.ndarray  # float64 (slots, n)
    owner: np.ndarray  # int64 (slots,): feature of each slot, -1 where free
    slot: np.ndarray  # int32 (features,): slot + 1 of each feature, 0 where it has none
    scratch: np.ndarray  # float64 (levels, n)
    num: np.ndarray  # int64 (2,): next slot to give away
    alpha_kind: int


def new_pool(
    x: np.ndarray, response: np.ndarray, arena: Arena, slots: int, levels: int, alpha_kind: int = ALPHA_ML
) -> ColumnPool:
    """An empty cache for ``slots`` columns, and scratch space for expressions of so many levels."""
    n = x.shape[1]
    return ColumnPool(
        x,
        response,
        np.zeros((slots, n)),
        np.full(slots, -1, np.int64),
        np.zeros(len(arena.kind), np.int32),
        np.zeros((levels, n)),
        np.zeros(2, np.int64),
        alpha_kind,
    )


@kernel
def _copy_row(source, i, target, j):
    for r in range(source.shape[1]):
        target[j, r] = source[i, r]


@kernel
def column_into(ar, pool, f, level):
    """Write the column of f into a scratch row; children use the rows after it."""
    scratch = pool.scratch
    if pool.slot[f] > 0:
        _copy_row(pool.values, pool.slot[f] - 1, scratch, level)
        return
    kind, first = ar.kind[f], ar.start[f]
    n = scratch.shape[1]
    if kind == COVARIATE:
        _copy_row(pool.x, ar.code[f], scratch, level)
        return
    if kind == MODIFICATION:
        column_into(ar, pool, ar.child[first], level)
        apply(ar.code[f], scratch[level], scratch[level])
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
    apply(ar.code[f], scratch[level], scratch[level])


@kernel
def remember(pool, f):
    """Keep the column in scratch row 0 for later use; the oldest one makes way."""
    if pool.slot[f] > 0:
        return
    s = pool.num[0]
    pool.num[0] = (s + 1) % len(pool.owner)
    if pool.owner[s] >= 0:
        pool.slot[pool.owner[s]] = 0
    pool.owner[s] = f
    pool.slot[f] = s + 1
    _copy_row(pool.scratch, 0, pool.values, s)


@kernel
def _random_alpha(key, i):
    """A standard normal number that depends on the feature alone, so that the feature stays one feature."""
    u = (np.float64(mix(key + np.uint64(2 * i + 1)) >> np.uint64(11)) + 0.5) / 9007199254740992.0
    v = (np.float64(mix(key + np.uint64(2 * i + 2)) >> np.uint64(11)) + 0.5) / 9007199254740992.0
    return np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v)


@kernel
def fit_alphas(ar, pool, f):
    """Set the alphas of a new projection; False where its parents are dependent or not finite.

    By maximum likelihood: the response regressed on the parents, by Gram-Schmidt on their centred columns.
    """
    m, first = ar.arity[f], ar.start[f]
    if pool.alpha_kind != ALPHA_ML:
        ar.alpha0[f] = 0.0 if pool.alpha_kind == ALPHA_ONES else _random_alpha(ar.key[f], np.int64(0))
        for i in range(m):
            ar.alpha[first + i] = 1.0 if pool.alpha_kind == ALPHA_ONES else _random_alpha(ar.key[f], i + 1)
        return True
    n = pool.scratch.shape[1]
    mean, scale = np.zeros(m), np.zeros(m)
    basis = np.empty((m, n))
    upper = np.zeros((m, m))
    for i in range(m):
        column_into(ar, pool, ar.child[first + i], np.int64(1))
        total = 0.0
        for r in range(n):
            total += pool.scratch[1, r]
        mean[i] = total / n
        squares = 0.0
        for r in range(n):
            basis[i, r] = pool.scratch[1, r] - mean[i]
            squares += basis[i, r] ** 2
        scale[i] = np.sqrt(squares)
        if not (scale[i] > 0.0 and scale[i] < np.inf):
            return False
        for r in range(n):
            basis[i, r] /= scale[i]
    target = np.zeros(m)
    for i in range(m):
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
            target[i] += basis[i, r] * pool.response[r]
    intercept = 0.0
    for i in range(m - 1, -1, -1):
        b = target[i]
        for j in range(i + 1, m):
            b -= upper[i, j] * target[j]
        target[i] = b / upper[i, i]
        ar.alpha[first + i] = target[i] / scale[i]
        intercept -= ar.alpha[first + i] * mean[i]
    ar.alpha0[f] = intercept
    return True
