"""Rows in memory: large tables where they lie, others in one order with equal rows merged.

A copy of a large table would take as much memory again, so fits read it in place. Of other tables the same data give
the same bits however they are listed: a sampler follows another path when a sum is rounded otherwise, so that without
it a permutation of the rows, or writing a weight of two as two rows, would move every estimate within its Monte Carlo
error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

# Tables above this are not copied where that can be helped.
LARGE_BYTES = 64 * 2**20


class _Lent:
    """Memory of some arrays, for another array to lie in."""

    def __init__(self, owners: Sequence[np.ndarray], shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.owners = owners
        self.__array_interface__ = {
            "version": 3,
            "typestr": owners[0].dtype.str,
            "shape": shape,
            "strides": strides,
            "data": (owners[0].__array_interface__["data"][0], False),
        }


def as_if_writable(x: np.ndarray) -> np.ndarray:
    """The same array in the same memory, of the type that kernels are compiled for; they only read it."""
    return x if x.flags.writeable else np.asarray(_Lent([x], x.shape, x.strides))


def table_in_place(columns: Sequence[np.ndarray]) -> np.ndarray | None:
    """The table of these columns of float64 where they lie, if it is the memory of one array, by column or row."""
    n, p = len(columns[0]), len(columns)
    starts = np.array([column.__array_interface__["data"][0] for column in columns])
    for step, stride in ((8 * n, 8), (8, 8 * p)):
        if all(column.strides == (stride,) for column in columns) and (np.diff(starts) == step).all():
            return np.asarray(_Lent(columns, (n, p), (stride, step)))
    return None


def frame_in_place(frame: nw.DataFrame[Any], names: Sequence[Any]) -> np.ndarray | None:
    """A large pandas frame of floats without a copy, where its columns lie in one array; None for other frames."""
    native = frame.to_native()
    large = 8 * len(frame) * len(names) > LARGE_BYTES
    if not (large and nw.dependencies.is_pandas_dataframe(native) and set(names) <= set(native.columns)):
        return None
    if not all(native.dtypes[name] == np.float64 for name in names):
        return None
    return table_in_place([native[name].to_numpy() for name in names])


def in_rows(design: np.ndarray) -> np.ndarray:
    """The columns row by row; a large table by columns stays as it is, for a fit that puts blocks of it in order."""
    if design.nbytes > LARGE_BYTES and design.flags.f_contiguous:
        return design
    return np.ascontiguousarray(design)


def in_place(columns: Sequence[int]) -> slice | Sequence[int]:
    """What picks these columns of a table: a slice, which copies nothing, where they are neighbours."""
    count = len(columns)
    if count and list(columns) == list(range(columns[0], columns[0] + count)):
        return slice(columns[0], columns[0] + count)
    return columns


def merge_rows(
    design: np.ndarray, y: np.ndarray, weights: np.ndarray | None, offset: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Distinct rows in ascending order of response, columns and offset, and their weights: None where each counts once.

    Large tables come back as they are: a second copy costs more there than the last digits are worth.
    """
    if design.nbytes > LARGE_BYTES:
        return design, y, weights, offset
    if offset is not None:
        both, y, weights, _ = merge_rows(np.column_stack([design, offset]), y, weights)
        return np.ascontiguousarray(both[:, :-1]), y, weights, np.ascontiguousarray(both[:, -1])
    if weights is not None and not (weights > 0).all():
        used = weights > 0
        design, y, weights = design[used], y[used], weights[used]
    order, group = _sort_rows(design, y)
    first = order[np.unique(group, return_index=True)[1]]
    if weights is None and len(first) == len(y):
        return design[first], y[first], None, None
    count = np.ones(len(y)) if weights is None else weights
    return design[first], y[first], np.bincount(group, weights=count[order]), None


def _sort_rows(design: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows in lexicographic order, and for each place the number of its group of equal rows.

    Columns are looked at one by one, and only where rows are still tied: a continuous response decides alone.
    """
    order = np.argsort(y, kind="stable")
    group = np.cumsum(np.r_[False, np.diff(y[order]) != 0.0])
    for j in range(design.shape[1]):
        size = np.bincount(group)
        tied = np.flatnonzero(size[group] > 1)
        if not len(tied):
            break
        inner = np.lexsort((design[order[tied], j], group[tied]))
        order[tied] = order[tied][inner]
        column = design[order, j]
        new = np.r_[True, (group[1:] != group[:-1]) | ((column[1:] != column[:-1]) & (size[group[1:]] > 1))]
        group = np.cumsum(new) - 1
    return order, group
