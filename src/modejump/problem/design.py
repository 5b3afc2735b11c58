"""The columns of a problem: which are candidates, what the base leaves of them, and their Gram matrix.

May import: errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from modejump.core.errors import InputError
from modejump.data.rows import as_if_writable

# A column whose part outside the base is smaller than this share of its length is taken as dependent on the base.
BASE_TOLERANCE = 1e-7
# Below this residual share a fit is refined from the columns.
REFINE_BELOW = 1e-6
# Bytes of one block of columns while the base is projected out, and of one block of rows while they are standardised.
_CHUNK_BYTES = 8 * 2**20
_ROWS_BYTES = 8 * 2**20


class Columns(NamedTuple):
    """The raw columns behind the Gram matrix, for refining near-perfect fits.

    The standardised candidate column j is ``root_weight * (x[:, j] - base @ loading[:, j]) / scale[j]``.
    """

    x: np.ndarray
    base: np.ndarray
    loading: np.ndarray
    scale: np.ndarray
    root_weight: np.ndarray
    response: np.ndarray


class Layout(NamedTuple):
    """Which columns are candidates, in the order of their terms, and which are always in."""

    names: tuple[str, ...]
    always_in: tuple[str, ...]
    first: np.ndarray
    order: np.ndarray
    fixed: list[int]

    @classmethod
    def of(cls, terms: Mapping[str, Sequence[int]], always_in: Sequence[str]) -> Layout:
        """From the terms' columns and the names of those always in."""
        unknown = [name for name in always_in if name not in terms]
        if unknown:
            raise InputError(
                f"always_in names {unknown[0]!r}, which is not a term; the terms are {', '.join(list(terms)[:8])}."
            )
        fixed = [j for name in always_in for j in terms[name]]
        names = tuple(name for name in terms if name not in set(always_in))
        first = np.concatenate([[0], np.cumsum([len(terms[name]) for name in names])]).astype(np.int64)
        order = np.array([j for name in names for j in terms[name]], dtype=np.int64)
        return cls(names, tuple(always_in), first, order, fixed)


def take_columns(x: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The candidate columns, without a copy where they are all columns in place."""
    if len(order) == x.shape[1] and (order == np.arange(x.shape[1])).all():
        return as_if_writable(np.ascontiguousarray(x))
    return np.ascontiguousarray(x[:, order])


def base_matrix(x: np.ndarray, fixed: list[int], intercept: bool) -> np.ndarray:
    """Columns of the base: the intercept, and those always in."""
    parts = [np.ones((x.shape[0], 1))] if intercept else []
    if fixed:
        parts.append(x[:, fixed])
    return np.ascontiguousarray(np.hstack(parts)) if parts else np.empty((x.shape[0], 0))


def project_base(
    x: np.ndarray, y: np.ndarray, w: np.ndarray, base: np.ndarray, order: np.ndarray | None = None, linear: bool = True
) -> tuple[Columns, float, np.ndarray]:
    """Loadings of each column on the base and the length of what is left; the response likewise.

    Where an order is given, the candidates are these columns of x, which need not lie in rows. Where models are not
    ``linear``, a response that is a combination of the base may leave something to explain.
    """
    root = w if (w == 1.0).all() else np.sqrt(w)
    q, r = np.linalg.qr(base * root[:, None])
    diagonal = np.abs(np.diag(r))
    lengths = np.sqrt(np.einsum("i,ij,ij->j", w, base, base))
    if base.shape[1] and (diagonal <= BASE_TOLERANCE * lengths).any():
        raise InputError(
            "the terms that are always in are linearly dependent (with the intercept); remove one of them."
        )

    def project(block: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rest = np.multiply(block, root[:, None], order="C")
        total = np.linalg.norm(rest, axis=0)
        coef = np.linalg.solve(r, q.T @ rest) if base.shape[1] else np.zeros((0, block.shape[1]))
        rest -= (base * root[:, None]) @ coef
        # A second pass removes what rounding left of a large mean.
        again = np.linalg.solve(r, q.T @ rest) if base.shape[1] else coef
        rest -= (base * root[:, None]) @ again
        return coef + again, rest, total

    p = x.shape[1] if order is None else len(order)
    loading = np.zeros((base.shape[1], p))
    scale = np.zeros(p)
    step = max(1, _CHUNK_BYTES // (8 * x.shape[0]))
    for start in range(0, p, step):
        stop = min(p, start + step)
        block = x[:, start:stop] if order is None else x[:, order[start:stop]]
        loading[:, start:stop], rest, total = project(block)
        length = np.linalg.norm(rest, axis=0)
        scale[start:stop] = np.where(length > BASE_TOLERANCE * total, length, 0.0)
    coef, rest_y, total = project(y[:, None])
    length_y = float(np.linalg.norm(rest_y))
    if length_y <= 1e-12 * total[0]:
        if linear:
            raise InputError("the terms that are always in fit y perfectly, so there is nothing left to select.")
        rest_y, length_y = np.zeros_like(rest_y), 1.0
    columns = Columns(x, base, loading, scale, root, np.ascontiguousarray(rest_y[:, 0] / length_y))
    return columns, length_y**2, coef[:, 0]


def standardised_block(columns: Columns, rows: slice, order: np.ndarray | None = None) -> np.ndarray:
    """Standardised candidate columns of some rows; dependent columns are zero."""
    scale = np.where(columns.scale > 0, columns.scale, np.inf)
    x = columns.x[rows] if order is None else columns.x[rows][:, order]
    # In one order whatever that of the table: sums of products depend on it.
    z = np.ascontiguousarray(columns.base[rows] @ columns.loading)
    np.subtract(x, z, out=z)
    z *= columns.root_weight[rows, None]
    z /= scale
    return z


def rows_at_a_time(p: int) -> int:
    """Rows of p columns that fit the scratch space."""
    return max(64, _ROWS_BYTES // (8 * max(p, 1)))


def gram_matrix(columns: Columns, order: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Gram matrix of the standardised columns and their products with the response, summed over blocks of rows."""
    n, p = len(columns.x), len(columns.scale)
    gram = np.zeros((p, p))
    corr = np.zeros(p)
    step = rows_at_a_time(p)
    for start in range(0, n, step):
        rows = slice(start, min(n, start + step))
        z = standardised_block(columns, rows, order)
        gram += z.T @ z
        corr += columns.response[rows] @ z
    alive = np.flatnonzero(columns.scale > 0)
    gram[alive, alive] = 1.0
    return gram, corr
