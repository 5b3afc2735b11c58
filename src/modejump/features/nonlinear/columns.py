"""Columns of nonlinear features from the covariates, compiled; the plain twin is `evaluate` of the expressions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import generic, implements, kernel
from modejump.core.handles import scalars_of
from modejump.features.language import write_column
from modejump.features.nonlinear.calls import transform_row
from modejump.features.nonlinear.operators import MODIFICATION, PRODUCT, NonlinearSpace
from modejump.features.table import COVARIATE


class NonlinearPool(NamedTuple):
    """Covariates, columns of the features used last, and scratch rows for what is being computed."""

    x: np.ndarray  # float64 (columns, n): the covariates
    response: np.ndarray  # float64 (n,)
    root_weight: np.ndarray  # float64 (n,): square roots of the case weights
    values: np.ndarray  # float64 (slots, n)
    owner: np.ndarray  # int64 (slots,)
    slot: np.ndarray  # int32 (features,)
    scratch: np.ndarray  # float64 (levels, n)
    scalars: np.ndarray  # next
    calls: np.ndarray  # int64 (transforms,): addresses of C functions that transform a row


class NoProjections(NamedTuple):
    """A space without projections: no coefficients have to be found, and no code for that is compiled."""

    unused: int = 0


@generic
def settle_alphas(alphas, table, pool, f):
    """Make sure that every projection in f has its alphas; False where it cannot have any."""


@implements(settle_alphas, NoProjections)
def _nothing_to_settle(alphas, table, pool, f):
    return True


def new_pool(
    x: np.ndarray,
    response: np.ndarray,
    root_weight: np.ndarray,
    features: int,
    slots: int,
    levels: int,
    calls: np.ndarray,
) -> NonlinearPool:
    """An empty cache for ``slots`` columns, and scratch rows for expressions of so many levels."""
    n = x.shape[1]
    return NonlinearPool(
        x=x,
        response=response,
        root_weight=root_weight,
        values=np.zeros((slots, n)),
        owner=np.full(slots, -1, np.int64),
        slot=np.zeros(features, np.int32),
        scratch=np.zeros((levels, n)),
        scalars=scalars_of(next=0),
        calls=calls,
    )


@kernel
def _copy_row(source, i, target, j):
    for r in range(source.shape[1]):
        target[j, r] = source[i, r]


@kernel
def column_into(table, pool, f, level):
    """Write the column of f into a scratch row; children use the rows after it."""
    scratch = pool.scratch
    if pool.slot[f] > 0:
        _copy_row(pool.values, np.int64(pool.slot[f] - 1), scratch, level)
        return
    kind, first = table.kind[f], table.start[f]
    n = scratch.shape[1]
    if kind == COVARIATE:
        _copy_row(pool.x, table.code[f], scratch, level)
    elif kind == MODIFICATION:
        column_into(table, pool, table.child[first], level)
        transform_row(pool, table.code[f], level)
    elif kind == PRODUCT:
        column_into(table, pool, table.child[first], level)
        for i in range(1, table.arity[f]):
            column_into(table, pool, table.child[first + i], level + 1)
            for r in range(n):
                scratch[level, r] *= scratch[level + 1, r]
    else:
        for r in range(n):
            scratch[level, r] = table.constant[f]
        for i in range(table.arity[f]):
            column_into(table, pool, table.child[first + i], level + 1)
            a = table.slope[first + i]
            for r in range(n):
                scratch[level, r] += a * scratch[level + 1, r]
        transform_row(pool, table.code[f], level)


@implements(write_column, NonlinearSpace)
def _write_column(space, table, pool, f):
    if not settle_alphas(space.alphas, table, pool, f):
        return False
    column_into(table, pool, f, np.int64(0))
    return True
