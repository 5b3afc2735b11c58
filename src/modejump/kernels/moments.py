"""Means and products of the columns of features, summed over rows a cacheful at a time.

Columns that are made of a chunk of rows are many times its size, and writing them to memory would cost more than
making them. So a few hundred rows of all columns are made, centred and multiplied while they are in the processor's
cache, and the sums are joined with those of the rows before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import entry, fused, kernel, summing
from modejump.features.nonlinear.transforms import transforms
from modejump.features.nonlinear.vectors import apply_vector

# What an instruction does, and its fields.
LOAD, MODIFY, MULTIPLY, COMBINE = range(4)
KIND, CODE, TARGET, FIRST, NUMBER = range(5)
# Columns whose products with as many others are summed at once: that many sums fit into vector registers.
TILE = 4


class Program(NamedTuple):
    """How columns are made of the values of a row.

    A LOAD copies the line CODE of the values. The others read the columns ``argument[FIRST : FIRST + NUMBER]``: a
    MODIFY applies the transform CODE, a MULTIPLY multiplies them, and a COMBINE adds them, times ``factor``, to
    ``constant``.
    """

    instruction: np.ndarray  # int64 (instructions, 5)
    constant: np.ndarray  # float64 (instructions,)
    argument: np.ndarray  # int64 (arguments,)
    factor: np.ndarray  # float64 (arguments,)
    columns: int  # the first ones are summed, the others are on the way to them
    width: int  # all columns


class Groups(NamedTuple):
    """Which products are summed: in each group those of the first ``left`` members with all of it."""

    member: np.ndarray  # int64 (members of all groups,)
    start: np.ndarray  # int64 (groups + 1,): first member of each group
    left: np.ndarray  # int64 (groups,)
    place: np.ndarray  # int64 (groups + 1,): where the products of each group begin


class Sums(NamedTuple):
    """What has been summed so far."""

    n: np.ndarray  # float64 (1,): sum of the weights
    mean: np.ndarray  # float64 (columns,)
    squares: np.ndarray  # float64 (columns,): of deviations from the mean
    cross: np.ndarray  # float64: products of deviations; of pairs that a group has twice, the upper one


def new_sums(program: Program, groups: Groups) -> Sums:
    """Sums of no rows."""
    k = program.columns
    return Sums(np.zeros(1), np.zeros(k), np.zeros(k), np.zeros(int(groups.place[-1])))


@fused
def _multiply(x, out):
    for r in range(x.size):
        out[r] *= x[r]


@fused
def _add(a, x, out):
    for r in range(x.size):
        out[r] += a * x[r]


@fused
def _copy(x, out):
    for r in range(x.size):
        out[r] = x[r]


@kernel
def _make(values, begin, m, program, work):
    """Make the columns of m rows."""
    for i in range(len(program.instruction)):
        kind, code, target, first, number = program.instruction[i]
        out = work[target, :m]
        if kind == LOAD:
            _copy(values[code, begin : begin + m], out)
        elif kind == MODIFY:
            apply_vector(code, work[program.argument[first], :m], out)
        elif kind == MULTIPLY:
            _copy(work[program.argument[first], :m], out)
            for j in range(first + 1, first + number):
                _multiply(work[program.argument[j], :m], out)
        else:
            for r in range(m):
                out[r] = program.constant[i]
            for j in range(first, first + number):
                _add(program.factor[j], work[program.argument[j], :m], out)


@summing
def _total(x):
    total = 0.0
    for r in range(x.size):
        total += x[r]
    return total


@summing
def _weighted_total(x, root):
    total = 0.0
    for r in range(x.size):
        total += root[r] * root[r] * x[r]
    return total


@summing
def _centre(x, mean):
    """Subtract the mean; the sum of squares."""
    squares = 0.0
    for r in range(x.size):
        d = x[r] - mean
        x[r] = d
        squares += d * d
    return squares


@summing
def _centre_weighted(x, mean, root):
    squares = 0.0
    for r in range(x.size):
        d = root[r] * (x[r] - mean)
        x[r] = d
        squares += d * d
    return squares


@summing
def _products(a0, a1, a2, a3, b0, b1, b2, b3, out):
    """Products of four columns with four others."""
    s00, s01, s02, s03 = 0.0, 0.0, 0.0, 0.0
    s10, s11, s12, s13 = 0.0, 0.0, 0.0, 0.0
    s20, s21, s22, s23 = 0.0, 0.0, 0.0, 0.0
    s30, s31, s32, s33 = 0.0, 0.0, 0.0, 0.0
    for r in range(a0.size):
        x0, x1, x2, x3 = a0[r], a1[r], a2[r], a3[r]
        y = b0[r]
        s00 += x0 * y
        s10 += x1 * y
        s20 += x2 * y
        s30 += x3 * y
        y = b1[r]
        s01 += x0 * y
        s11 += x1 * y
        s21 += x2 * y
        s31 += x3 * y
        y = b2[r]
        s02 += x0 * y
        s12 += x1 * y
        s22 += x2 * y
        s32 += x3 * y
        y = b3[r]
        s03 += x0 * y
        s13 += x1 * y
        s23 += x2 * y
        s33 += x3 * y
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = s00, s01, s02, s03
    out[1, 0], out[1, 1], out[1, 2], out[1, 3] = s10, s11, s12, s13
    out[2, 0], out[2, 1], out[2, 2], out[2, 3] = s20, s21, s22, s23
    out[3, 0], out[3, 1], out[3, 2], out[3, 3] = s30, s31, s32, s33


@kernel
def _tile(work, m, member, i, j, end, tile):
    """Products of the members i to i + 3 with j to j + 3; the last one stands in for those after the end."""
    _products(
        work[member[min(i, end)], :m], work[member[min(i + 1, end)], :m],
        work[member[min(i + 2, end)], :m], work[member[min(i + 3, end)], :m],
        work[member[min(j, end)], :m], work[member[min(j + 1, end)], :m],
        work[member[min(j + 2, end)], :m], work[member[min(j + 3, end)], :m],
        tile,
    )  # fmt: skip


@kernel
def _join_products(work, m, groups, apart, share, cross, tile):
    """Add the products of deviations from the block's means, and what lies between these and the means before."""
    for g in range(len(groups.left)):
        start, end = groups.start[g], groups.start[g + 1]
        size, left = end - start, groups.left[g]
        for i in range(0, left, TILE):
            for j in range(i, size, TILE):
                _tile(work, m, groups.member, start + i, start + j, end - 1, tile)
                for p in range(i, min(i + TILE, left)):
                    for q in range(max(j, p), min(j + TILE, size)):
                        between = share * apart[groups.member[start + p]] * apart[groups.member[start + q]]
                        cross[groups.place[g] + p * size + q] += tile[p - i, q - j] + between


@entry
def sum_moments(values, root, step, program, groups, sums):
    """Add the rows of a chunk to the sums.

    Parameters
    ----------
    values : float64[lines, m]
        The values that the program loads.
    root : float64[m] or float64[0]
        Square roots of the weights; none where all are one.
    step : int
        Rows that are worked on at a time.
    program : Program
        What columns to make.
    groups : Groups
        Which products to sum.
    sums : Sums
        Receives the sums.
    """
    total, k, weighted = values.shape[1], program.columns, len(root) > 0
    work = np.empty((program.width, step))
    apart, tile = np.empty(k), np.empty((TILE, TILE))
    for begin in range(0, total, step):
        m = min(step, total - begin)
        _make(values, begin, m, program, work)
        weight = root[begin : begin + m] if weighted else root
        count = 0.0
        for r in range(len(weight)):
            count += weight[r] * weight[r]
        if not weighted:
            count = float(m)
        n = sums.n[0] + count
        share = sums.n[0] * (count / n)
        for c in range(k):
            column = work[c, :m]
            if weighted:
                mean = _weighted_total(column, weight) / count
                squares = _centre_weighted(column, mean, weight)
            else:
                mean = _total(column) / count
                squares = _centre(column, mean)
            apart[c] = mean - sums.mean[c]
            sums.mean[c] += apart[c] * (count / n)
            sums.squares[c] += squares + share * apart[c] * apart[c]
        _join_products(work, m, groups, apart, share, sums.cross, tile)
        sums.n[0] = n


def columns_plain(values: np.ndarray, program: Program) -> np.ndarray:
    """Plain twin of what makes the columns."""
    work = np.empty((program.width, values.shape[1]))
    with np.errstate(all="ignore"):
        for (kind, code, target, first, number), constant in zip(program.instruction.tolist(), program.constant):
            at = program.argument[first : first + number]
            if kind == LOAD:
                work[target] = values[code]
            elif kind == MODIFY:
                work[target] = transforms.by_code(code)(work[at[0]])
            elif kind == MULTIPLY:
                work[target] = np.prod(work[at], axis=0)
            else:
                work[target] = constant + program.factor[first : first + number] @ work[at]
    return work[: program.columns]


def sum_moments_plain(values: np.ndarray, root: np.ndarray, program: Program, groups: Groups) -> Sums:
    """Plain twin of :func:`sum_moments` for rows before which there were none, all at once."""
    columns, sums = columns_plain(values, program), new_sums(program, groups)
    root = root if len(root) else np.ones(values.shape[1])
    sums.n[0] = root @ root
    with np.errstate(all="ignore"):
        sums.mean[:] = columns @ root**2 / sums.n[0]
        z = (columns - sums.mean[:, None]) * root
        sums.squares[:] = (z**2).sum(axis=1)
        for g, left in enumerate(groups.left):
            member = z[groups.member[groups.start[g] : groups.start[g + 1]]]
            sums.cross[groups.place[g] : groups.place[g + 1]] = np.triu(member[:left] @ member.T).ravel()
    return sums
