"""A Gaussian problem from rows that are read in chunks: one pass for the products, a second where digits call for it.

Terms that are always in are projected out of the columns row by row in a second pass, as they are in memory: products
alone would cancel. Where a model may fit nearly perfectly, a second pass factorises the columns, and their triangular
factor stands in for the rows when such fits are refined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from modejump.core.errors import InputError
from modejump.data.moments import MakeColumns, Moments, moments_of, overview_of, take_lines, triangle_of
from modejump.data.response import check_digits
from modejump.data.sources import Rows
from modejump.problem.design import BASE_TOLERANCE, REFINE_BELOW, Columns, Layout
from modejump.problem.problem import Problem

# The products tell the residual share of the largest model to about 1e-12: this is near enough to the share at which
# fits are refined.
MAYBE_PERFECT = 2.0 * REFINE_BELOW
# Directions in which columns of unit length vary less than this are lost in rounding.
_NO_DIRECTION = 1e-12


def without_base(values: np.ndarray, columns: MakeColumns, slopes: np.ndarray) -> np.ndarray:
    """Columns less their part in the terms that are always in: the last ``len(slopes)`` columns before the response."""
    made = columns(values)
    candidates = len(made) - len(slopes) - 1
    return np.vstack([made[:candidates], made[-1:]]) - slopes.T @ made[candidates:-1]


class _Base(NamedTuple):
    """What the base makes of the columns: slopes on terms always in, and the factor of the base."""

    slopes: np.ndarray
    factor: np.ndarray


def problem_from_rows(
    rows: Rows,
    *,
    terms: Mapping[str, Sequence[int]],
    always_in: Sequence[str] = (),
    coef_prior: Any = "g",
    model_prior: Any = "uniform",
) -> Problem:
    """The problem of selection among the covariates."""
    layout = Layout.of(terms, always_in)
    order = np.concatenate([layout.order, np.array([*layout.fixed, len(rows.covariates)], np.int64)])
    found = rows.reduce(partial(overview_of, order=order))
    check_response(found.moments)
    return problem_of_products(
        rows, partial(take_lines, order=order), found.moments, layout, coef_prior=coef_prior, model_prior=model_prior,
        digest=found.digest.text,
    )  # fmt: skip


def check_response(moments: Moments) -> None:
    """Refuse a table of one row, and a response that is constant (the last column)."""
    if moments.rows < 2:
        raise InputError(
            f"the data have {moments.rows} row(s) of positive weight; selection needs at least 2 (n_samples = 1)."
        )
    if not lengths(moments)[-1] > 0.0:
        raise InputError("y is constant, so there is nothing to explain; check the target column.")


def lengths(moments: Moments) -> np.ndarray:
    """Length of each column without its mean; 0 where it is constant or not finite."""
    with np.errstate(all="ignore"):
        squares = np.diag(moments.cross)
        total = squares + moments.n * moments.mean**2
        varies = (total < np.inf) & (squares > BASE_TOLERANCE**2 * total)
        return np.where(varies, np.sqrt(np.where(varies, squares, 0.0)), 0.0)


def problem_of_products(
    rows: Rows,
    columns: MakeColumns,
    moments: Moments,
    layout: Layout,
    *,
    coef_prior: Any,
    model_prior: Any,
    digest: str,
    covariates: Sequence[str] | None = None,
) -> Problem:
    """The problem of selection among columns made from the rows: candidates, those always in, and the response."""
    base = _base(moments, len(layout.fixed))
    candidates = len(layout.order)
    outside = np.append(np.arange(candidates), len(moments.mean) - 1)
    whole = np.sqrt(np.diag(moments.cross) + moments.n * moments.mean**2)[outside]
    if len(base.slopes):
        # The columns of the second pass are the candidates and the response, less their part in the base.
        columns = partial(without_base, columns=columns, slopes=base.slopes)
        moments = rows.reduce(partial(moments_of, columns=columns), covariates)
    check_digits(np.sqrt(moments.cross[-1, -1] / moments.n), abs(moments.mean[-1]))
    length = np.sqrt(np.diag(moments.cross))
    scale = np.where(length > BASE_TOLERANCE * whole, length, 0.0)
    if length[-1] <= 1e-12 * whole[-1]:
        raise InputError("the terms that are always in fit y perfectly, so there is nothing left to select.")
    gram, corr = standardised(moments.cross, scale)
    loading = np.vstack([moments.mean, base.slopes])
    kept = _columns(base, loading[:, :-1], scale[:-1])
    if least_resid(gram, corr) < MAYBE_PERFECT:
        unit = np.where(scale > 0.0, scale, np.inf)
        found = rows.reduce(partial(triangle_of, columns=columns, mean=moments.mean, scale=unit), covariates)
        kept = _with_factor(kept, found.factor)
    return Problem.from_products(
        layout, kept, gram, corr, n=moments.n, rows=moments.rows, base_rss=float(length[-1] ** 2),
        base_coef=loading[:, -1].copy(), coef_prior=coef_prior, model_prior=model_prior, digest=digest,
    )  # fmt: skip


def standardised(cross: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gram matrix of the candidates and their products with the response (the last column), all of unit length."""
    with np.errstate(all="ignore"):
        unit = np.where(scale > 0.0, 1.0 / np.where(scale > 0.0, scale, 1.0), 0.0)
        gram = np.where(unit[:, None] * unit > 0.0, cross * unit[:, None] * unit, 0.0)
    np.fill_diagonal(gram, np.where(scale > 0.0, 1.0, 0.0))
    return np.ascontiguousarray(gram[:-1, :-1]), np.ascontiguousarray(gram[:-1, -1])


def least_resid(gram: np.ndarray, corr: np.ndarray) -> float:
    """Residual share of the model with all columns; no model has much less."""
    size, direction = np.linalg.eigh(gram)
    alive = size > _NO_DIRECTION
    return float(1.0 - np.sum((corr @ direction[:, alive]) ** 2 / size[alive]))


def _base(moments: Moments, fixed: int) -> _Base:
    """Slopes of candidates and response on the terms always in, and the factor of the base with the intercept."""
    k = len(moments.mean)
    at = np.arange(k - 1 - fixed, k - 1)
    others = np.append(np.arange(k - 1 - fixed), k - 1)
    mean, root = moments.mean[at], np.sqrt(moments.n)
    factor = np.zeros((fixed + 1, fixed + 1))
    factor[0] = np.append(root, root * mean)
    if not fixed:
        return _Base(np.zeros((0, k)), factor)
    cross, length = moments.cross, lengths(moments)[at]
    lower = _base_factor(cross[np.ix_(at, at)], length)
    factor[1:, 1:] = lower.T * length
    right = cross[np.ix_(at, others)] / length[:, None]
    slopes = solve_triangular(lower.T, solve_triangular(lower, right, lower=True)) / length[:, None]
    return _Base(slopes, factor)


def _base_factor(cross: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Cholesky factor of the terms always in, of unit length; refused where they are dependent."""
    if (length > 0.0).all():
        try:
            lower = np.linalg.cholesky(cross / length[:, None] / length)
            if (np.diag(lower) ** 2 >= BASE_TOLERANCE).all():
                return lower
        except np.linalg.LinAlgError:
            pass
    raise InputError("the terms that are always in are linearly dependent (with the intercept); remove one of them.")


def _columns(base: _Base, loading: np.ndarray, scale: np.ndarray) -> Columns:
    """Columns without rows: the factor of the base stands in for its own, because the leverages are the same."""
    return Columns(
        np.empty((0, len(scale))), base.factor, np.ascontiguousarray(loading), scale.copy(), np.ones(len(base.factor)),
        np.empty(0),
    )  # fmt: skip


def _with_factor(columns: Columns, factor: np.ndarray) -> Columns:
    """The same with the factor of the standardised columns, response last, in place of the rows."""
    base, b, m = columns.base, len(columns.base), len(factor)
    rows = np.zeros((b + m, b))
    rows[:b] = base
    x = np.vstack([base @ columns.loading, factor[:, :-1] * columns.scale])
    response = np.append(np.zeros(b), factor[:, -1])
    return columns._replace(x=x, base=rows, root_weight=np.ones(b + m), response=response)
