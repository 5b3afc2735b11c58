"""Rows in one order, equal rows merged: the same data give the same bits however they are listed.

A sampler follows another path when a sum is rounded otherwise, so without this a permutation of the rows, or
writing a weight of two as two rows, would move every estimate within its Monte Carlo error.
"""

from __future__ import annotations

import numpy as np

from modejump.problem.design import LARGE_BYTES


def merge_rows(
    design: np.ndarray, y: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Distinct rows in ascending order of response and columns, and their total weights.

    Parameters
    ----------
    design : ndarray of shape (n, p)
        Columns.
    y : ndarray of shape (n,)
        Response.
    weights : ndarray of shape (n,), optional
        Case weights; rows of weight zero are dropped.

    Returns
    -------
    design, y, weights : ndarray
        The distinct rows; weights are None where each counts once. Tables above 64 MiB come back as they are:
        there a second copy costs more than the last digits are worth.
    """
    if design.nbytes > LARGE_BYTES:
        return design, y, weights
    if weights is not None and not (weights > 0).all():
        used = weights > 0
        design, y, weights = design[used], y[used], weights[used]
    order, group = _sort_rows(design, y)
    first = order[np.unique(group, return_index=True)[1]]
    if weights is None and len(first) == len(y):
        return design[first], y[first], None
    count = np.ones(len(y)) if weights is None else weights
    return design[first], y[first], np.bincount(group, weights=count[order])


def merge_rows_with_offset(
    design: np.ndarray, y: np.ndarray, weights: np.ndarray | None, offset: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """The same for rows that may have an offset, which makes otherwise equal rows distinct.

    Parameters
    ----------
    design, y, weights
        As for `merge_rows`.
    offset : ndarray of shape (n,), optional
        Known part of the linear predictor.
    """
    if offset is None:
        return (*merge_rows(design, y, weights), None)
    if design.nbytes > LARGE_BYTES:
        return design, y, weights, offset
    both, y, weights = merge_rows(np.column_stack([design, offset]), y, weights)
    return np.ascontiguousarray(both[:, :-1]), y, weights, np.ascontiguousarray(both[:, -1])


def _sort_rows(design: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows in lexicographic order, and for each place the number of its group of equal rows.

    Columns are looked at one by one, and only where rows are still tied: a continuous response decides alone.
    """
    order = np.argsort(y, kind="stable")
    group = _groups(y[order])
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


def _groups(values: np.ndarray) -> np.ndarray:
    return np.cumsum(np.r_[False, values[1:] != values[:-1]])
