"""Columns of laws for compiled code: the covariates, those used last, and what constants are fitted with."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from modejump.core.compilation import implements
from modejump.core.handles import scalars_of
from modejump.features.language import settle_constants, write_column
from modejump.features.laws.fitting.constants import SAMPLE, SCREENED, Fitting, settle, spread_rows
from modejump.features.laws.fitting.fixed_columns import column_into
from modejump.features.laws.fitting.least_squares import LawRows, new_rows
from modejump.features.laws.fitting.program import BLOCK, Program, new_program, operand, run
from modejump.features.laws.fitting.row_functions import inline_codes
from modejump.features.laws.nodes import LawSpace
from modejump.features.nonlinear.calls import addresses
from modejump.features.nonlinear.transforms import Transform

# Laws whose constants are remembered; a later one takes the place of an earlier one.
REMEMBERED = 1 << 15


class Memo(NamedTuple):
    """Constants of laws by key. Each law has one place, so what a search finds there is what a fit would give."""

    key: np.ndarray  # uint64 (M,)
    state: np.ndarray  # uint8 (M,)
    constants: np.ndarray  # float64 (M, K)


class LawPool(NamedTuple):
    """Covariates, columns of the features used last, and room for what is being computed."""

    x: np.ndarray  # float64 (columns, n): the covariates
    values: np.ndarray  # float64 (slots, n)
    owner: np.ndarray  # int64 (slots,)
    slot: np.ndarray  # int32 (features,)
    scratch: np.ndarray  # float64 (levels, n)
    calls: np.ndarray  # int64 (functions,): addresses of C functions that transform a row
    inline: np.ndarray  # int64 (functions,): see `row_functions`
    parity: np.ndarray  # int64 (functions,): 1 even, -1 odd, 0 neither
    numerator: np.ndarray  # int64 (exponents,)
    denominator: np.ndarray  # int64 (exponents,)
    program: Program
    rows: LawRows  # all rows
    sample: LawRows  # those that constants are fitted to first: all, where they are few
    screen: LawRows  # those on which starts are compared
    sampled: np.ndarray  # int64: numbers of these rows
    screened: np.ndarray  # int64
    found: np.ndarray  # float64 (K,): constants of the law whose column was written last
    memo: Memo
    refined_key: np.ndarray  # uint64 (R,): laws whose constants are given, by key, ...
    refined: np.ndarray  # float64 (R, K): ... and these
    likelihood: Any  # what constants are fitted by: LeastSquares, or a likelihood of all rows, ...
    sample_likelihood: Any  # ... and of the sample
    scalars: np.ndarray  # next


def new_pool(
    x: np.ndarray,
    y: np.ndarray,
    root_weight: np.ndarray,
    features: int,
    slots: int,
    *,
    functions: Sequence[Transform],
    exponents: Sequence[Fraction],
    constants: int,
    depth: int,
    complexity: int,
    fitting: Fitting | None = None,
) -> tuple[LawPool, Any]:
    """An empty cache, and the C functions that must outlive every use of it.

    Parameters
    ----------
    x : ndarray of shape (columns, n)
        The covariates.
    y, root_weight : ndarray of shape (n,)
        Response, and square roots of the case weights.
    features, slots : int
        Features that the table has room for, and columns that are kept.
    functions, exponents : sequence
        Those of the space, by code.
    constants, depth, complexity : int
        Limits of the space.
    fitting : Fitting, optional
        What constants are fitted to; by default the response by least squares, with an intercept.
    """
    n = x.shape[1]
    if fitting is None:
        fitting = Fitting(root_weight, root_weight[None], root_weight * y)
    calls, alive = addresses(functions)
    # Each constant has a path of instructions to the root; those of a sum or product are joined by one more each.
    instructions = min(3 * complexity, 8 * constants * (depth + 1)) if constants else 0
    leaves = complexity if constants else 0
    work = n if constants else 0

    def some(rows: np.ndarray) -> LawRows:
        return new_rows(fitting.root[rows], fitting.base[:, rows], fitting.target[rows], leaves, constants)

    sampled = spread_rows(work, work if work <= 2 * SAMPLE else SAMPLE)
    screened = spread_rows(work, SCREENED)
    rows = some(np.arange(work))
    remembered = REMEMBERED if constants else 1
    pool = LawPool(
        x=x,
        values=np.zeros((slots, n)),
        owner=np.full(slots, -1, np.int64),
        slot=np.zeros(features, np.int32),
        scratch=np.zeros((2 * depth + 6, n)),
        calls=calls,
        inline=inline_codes([t.name for t in functions]),
        parity=np.array([t.parity for t in functions], np.int64),
        numerator=np.array([e.numerator for e in exponents], np.int64),
        denominator=np.array([e.denominator for e in exponents], np.int64),
        program=new_program(instructions, constants, min(work, BLOCK)),
        rows=rows,
        sample=rows if len(sampled) == work else some(sampled),
        screen=some(screened),
        sampled=sampled,
        screened=screened,
        found=np.zeros(constants),
        memo=Memo(np.zeros(remembered, np.uint64), np.zeros(remembered, np.uint8), np.zeros((remembered, constants))),
        refined_key=np.zeros(0, np.uint64),
        refined=np.zeros((0, constants)),
        likelihood=fitting.likelihood,
        sample_likelihood=fitting.likelihood.at(sampled),
        scalars=scalars_of(next=0),
    )
    return pool, alive


@implements(write_column, LawSpace)
def _write_column(space, table, pool, f):
    out = pool.scratch[0]
    if pool.slot[f] > 0 or table.constants[f] == 0:
        column_into(table, pool, f, np.int64(0))
        return True
    if not settle(table, pool, f):
        return False
    leaf, program = pool.rows.leaf, pool.program
    for first in range(0, len(out), BLOCK):
        m = min(BLOCK, len(out) - first)
        run(program, pool, pool.found, leaf, first, m, False)
        out[first : first + m] = operand(program, leaf, program.last, first, m)
    return True


@implements(settle_constants, LawSpace)
def _settle_constants(space, table, pool, f, out):
    if table.constants[f] > 0 and settle(table, pool, f):
        out[: table.constants[f]] = pool.found[: table.constants[f]]
