"""Generalised linear models: maximum likelihood by Newton's method, compiled, and Laplace approximations from it.

The rows are worked through in blocks that stay in the cache, so that a fit needs no memory that grows with the number
of rows. A fit starts at the coefficients of the model before it: neighbouring models differ little, and two or three
steps are enough. With the Newton decrement d = grad' H^-1 grad, the log likelihood at the maximum is that at the last
point plus d/2 up to terms of order d^(3/2), so that a fit ends as soon as d is below ``TOLERANCE``.

A maximum likelihood estimate does not exist where the columns separate the classes: a fit whose rows all lie on their
right side of zero proves it. Under quasi-complete separation some rows move off at a steady pace: each step divides
what is left to gain by e, and the decrement is what is left, not twice that. Steps are longer then, until nearly
nothing is left and a pivot of the information matrix, for columns of unit length, is below ``LEAST_PIVOT``. Nor does
it exist where the likelihood overflows, and it is taken not to where Newton's method from the base model's fit has not
converged after so many steps. These are rules about the model, whatever model came before. A model without an
estimate has posterior probability zero, but for separation: see `laplace`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from modejump.core.compilation import kernel, summing
from modejump.core.handles import scalars_of
from modejump.likelihoods.columns import Conjugate
from modejump.likelihoods.glm.rows import lowest_margin, score_rows

# Rows in one block: with a dozen columns they fill the first-level cache.
BLOCK = 256
# The decrement below which a fit has converged: for priors that need the likelihood alone, and for others, which need
# the information as well, whose error is of the order of the decrement's root.
TOLERANCE = 1e-9
TOLERANCE_INFORMATION = 1e-14
LEAST_PIVOT = 1e-8
# A column whose pivot is less than this share of its own information, or than this, depends on those before it.
DEPENDENT = 1e-12
SMALLEST = 1e-200
# How Newton's method ended: at a maximum; without one yet; in a direction without information; at a proof that the
# columns separate the classes; at no number.
FITTED, SLOW, FLAT, SEPARATED, FAILED = 1, 0, -1, -2, -3
# It has not ended.
GOING = 2
# Steps are so much longer where decrements from below NEAR fall as they do when rows move off: by exp(-1) at each
# plain step, within these factors. Newton's method falls faster near a maximum.
LONG_STEP = 4.0
NEAR = 0.1
FALL_LOW, FALL_HIGH = 0.5, 1.5
# Where rows move off, little information is left in some direction, and no more than this to gain, there is no maximum:
# the information there would be nearly the same. Where none is left, so much to gain is little enough.
CLOSE = 1e-6
NEARLY = 1e-4
MOST_HALVINGS = 12
# State of a fit that is asked for, see ``GlmWork.asked``.
NOTHING, ASKED, ANSWERED = 0, 1, 2
# What Glm.x is: the candidates of unit length, (p, n), or a table as it was given, (columns, n) or (n, columns).
STANDARDISED, BY_COLUMN, BY_ROW = 0, 1, 2


class Glm(NamedTuple):
    """Response and columns of a generalised linear model."""

    y: np.ndarray  # float64 (n,)
    weight: np.ndarray  # float64 (n,)
    offset: np.ndarray  # float64 (n,)
    base: np.ndarray  # float64 (b, n): columns of every model, orthonormal
    x: np.ndarray  # float64 (p, n): candidate columns, of unit length, without their part in the base; or a table
    start: np.ndarray  # float64 (b,): coefficients of the base model
    null: float  # log marginal likelihood of the base model
    link: int  # place among the links of all families
    separable: int  # 1 where rows on their right side of zero, all of them, prove that there is no estimate
    bounded: int  # 1 where the likelihood has a maximum whatever the columns
    unit: int  # 1 where all weights are one
    unroot: np.ndarray = np.zeros(0)  # float64 (n,): what the columns are to be multiplied by, or (0,)
    # Where ``x`` is a table that nobody has copied: how it lies, and what makes a candidate of one of its columns.
    layout: int = STANDARDISED  # or BY_COLUMN or BY_ROW
    place: np.ndarray = np.zeros(0, np.int64)  # int64 (p,): the candidate's column of the table
    centre: np.ndarray = np.zeros((0, 0))  # float64 (b, p): its loadings on the columns of every model
    factor: np.ndarray = np.zeros(0)  # float64 (p,): one over the length of what is left; zero where nothing is

    @property
    def candidates(self) -> int:
        """Number of candidate columns."""
        return len(self.place) if self.layout else len(self.x)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    def with_order(self, cols: np.ndarray) -> Glm:
        """The same with its candidate columns in another order; a table that was not copied stays as it is."""
        if self.layout == STANDARDISED:
            return self._replace(x=np.ascontiguousarray(self.x[cols]))
        centre = np.ascontiguousarray(self.centre[:, cols])
        return self._replace(place=self.place[cols], centre=centre, factor=self.factor[cols])

    def table_rows(self, rows: slice) -> np.ndarray:
        """The candidates' columns of a table that was not copied, of some rows: shape (p, rows)."""
        return np.asarray(self.x[:, rows][self.place] if self.layout == BY_COLUMN else self.x[rows].T[self.place])

    def candidate_rows(self, rows: slice) -> np.ndarray:
        """Candidate columns, of unit length and without their part in the base, of some rows: shape (p, rows)."""
        if self.layout == STANDARDISED:
            return self.x[:, rows]
        raw = self.table_rows(rows)
        raw -= self.centre.T @ self.base[:, rows]
        raw *= self.factor[:, None]
        return raw


class GlmWork(NamedTuple):
    """Scratch space of one chain."""

    columns: np.ndarray  # float64 (m, BLOCK)
    weighted: np.ndarray  # float64 (BLOCK,)
    pair: np.ndarray  # float64 (2, BLOCK): two columns times the information
    eta: np.ndarray  # float64 (BLOCK,)
    score: np.ndarray  # float64 (BLOCK,)
    info: np.ndarray  # float64 (BLOCK,)
    hessian: np.ndarray  # float64 (m, m)
    gradient: np.ndarray  # float64 (m,)
    beta: np.ndarray  # float64 (m,)
    step: np.ndarray  # float64 (m,)
    column: np.ndarray  # float64 (m,): half of the solution, L^-1 gradient
    before: np.ndarray  # float64 (3, m): of the point before, for the mode under Jeffreys' prior
    solved: np.ndarray  # float64 (m, BLOCK): L^-1 times the columns, likewise
    curved: np.ndarray  # float64 (m, m): information and the penalty's curvature, likewise
    warm: np.ndarray  # float64 (b + p,): coefficients of the model fitted last, by column
    last: np.ndarray  # int64 (m,): its columns
    onset: np.ndarray  # float64 (m,): coefficients where rows began to move off
    # Of the last fit: last_count: columns of its model; has_factor: whether ``hessian`` still holds its factor;
    # moved_off: whether rows moved off; then log_likelihood, log_det_base, wald, shape; of the last pass the lowest
    # margin, decrement, and stretch, the length of the step in Newton's. expected: whether the information that
    # Jeffreys' prior is made of is wanted, the expected one; bounded: as in `Glm`. Of a fit that is asked for: may_ask,
    # stage, asked_columns and answer.
    scalars: np.ndarray
    own: np.ndarray  # float64 (m, n): all columns, for likelihoods of the user's own only
    # Fits of long tables are asked for, so that threads can share their rows (see ``kernels.neighbour``).
    asked: np.ndarray  # int64 (m,): columns of the model


def new_glm_work(glm: Any, room: int) -> GlmWork:
    """Scratch space for models of up to ``room`` columns; empty for a conjugate family."""
    if isinstance(glm, Conjugate):
        b = p = m = block = own = bounded = 0
    else:
        b, p, block = len(glm.base), glm.candidates, BLOCK
        m = b + room
        own, bounded = (0, glm.bounded) if isinstance(glm, Glm) else (glm.rows, 0)
    warm = np.zeros(b + p)
    if isinstance(glm, Glm):
        warm[:b] = glm.start
    return GlmWork(
        columns=np.zeros((m, block)), weighted=np.zeros(block), pair=np.zeros((2, block)), eta=np.zeros(block),
        score=np.zeros(block), info=np.zeros(block), hessian=np.zeros((m, m)), gradient=np.zeros(m), beta=np.zeros(m),
        step=np.zeros(m), column=np.zeros(m), before=np.zeros((3, m)), solved=np.zeros((m, block)),
        curved=np.zeros((m, m)), warm=warm, last=np.zeros(m, np.int64), onset=np.zeros(m),
        scalars=scalars_of(
            last_count=0, has_factor=0, moved_off=0, expected=0, bounded=bounded, log_likelihood=0.0, log_det_base=0.0,
            wald=0.0, shape=1.0, margin=0.0, decrement=0.0, stretch=0.0, may_ask=0, stage=NOTHING, asked_columns=0,
            answer=0.0,
        ),
        own=np.zeros((m if own else 0, own)), asked=np.zeros(m, np.int64),
    )  # fmt: skip


def has_estimate(work: GlmWork) -> bool:
    """Whether the model fitted last has a maximum likelihood estimate."""
    return bool(work.scalars["has_factor"])


@kernel
def _load_table(glm, columns, cols, k, first, m):
    """Candidates of a block from a table that was not copied: the base, which is loaded, is taken out here."""
    x, place, centre, factor = glm.x, glm.place, glm.centre, glm.factor
    b = glm.base.shape[0]
    for i in range(k):
        c = cols[i]
        at, target, scale = place[c], columns[b + i], factor[c]
        if glm.layout == BY_COLUMN:
            source = x[at]
            for r in range(m):
                target[r] = source[first + r]
        else:
            for r in range(m):
                target[r] = x[first + r, at]
        for q in range(b):
            held, share = columns[q], centre[q, c]
            for r in range(m):
                target[r] -= share * held[r]
        for r in range(m):
            target[r] *= scale


@kernel
def load(glm, work, cols, k, first, m):
    """Columns of a block of rows: the base's, then the model's."""
    b = glm.base.shape[0]
    columns, x, base = work.columns, glm.x, glm.base
    # By whole rows: with one index the copies become vector instructions.
    for i in range(b):
        source, target = base[i], columns[i]
        for r in range(m):
            target[r] = source[first + r]
    if glm.layout != STANDARDISED:
        _load_table(glm, columns, cols, k, first, m)
        return
    for i in range(k):
        source, target = x[cols[i]], columns[b + i]
        for r in range(m):
            target[r] = source[first + r]
    if len(glm.unroot) > 0:
        for i in range(k):
            for r in range(m):
                columns[b + i, r] *= glm.unroot[first + r]


@kernel
def load_with_predictor(glm, work, cols, k, first, m):
    """Columns of a block of rows, and the linear predictors of the rows at ``work.beta``."""
    load(glm, work, cols, k, first, m)
    columns, eta, beta = work.columns, work.eta, work.beta
    for r in range(m):
        eta[r] = glm.offset[first + r]
    for i in range(glm.base.shape[0] + k):
        for r in range(m):
            eta[r] += beta[i] * columns[i, r]


@summing
def dot(a, b, i, m):
    """Inner product of a vector with a row of a block."""
    total = 0.0
    for r in range(m):
        total += a[r] * b[i, r]
    return total


@summing
def _dots_two(pair, b, j, m):
    """Inner products of two vectors with two rows of a block, in one pass over them."""
    a0 = a1 = c0 = c1 = 0.0
    for r in range(m):
        u, v, s, t = pair[0, r], pair[1, r], b[j, r], b[j + 1, r]
        a0 += u * s
        a1 += u * t
        c0 += v * s
        c1 += v * t
    return a0, a1, c0, c1


@summing
def _dots_four(pair, b, j, m):
    """Inner products of two vectors with four rows of a block, in one pass over them."""
    a0 = a1 = a2 = a3 = c0 = c1 = c2 = c3 = 0.0
    for r in range(m):
        u, v = pair[0, r], pair[1, r]
        s, t, w, z = b[j, r], b[j + 1, r], b[j + 2, r], b[j + 3, r]
        a0 += u * s
        a1 += u * t
        a2 += u * w
        a3 += u * z
        c0 += v * s
        c1 += v * t
        c2 += v * w
        c3 += v * z
    return a0, a1, a2, a3, c0, c1, c2, c3


@kernel
def add_information(h, columns, info, pair, size, m):
    """Add the columns' products, weighted by the information of a block's rows, to the lower triangle of ``h``.

    Eight sums are kept in registers for each pass: fewer numbers are read for each product than by one sum at a time.
    Entries just above the diagonal are filled in passing.
    """
    if size & 1:
        for r in range(m):
            pair[0, r] = info[r] * columns[0, r]
        h[0, 0] += dot(pair[0], columns, 0, m)
    for i in range(size & 1, size, 2):
        for r in range(m):
            pair[0, r] = info[r] * columns[i, r]
            pair[1, r] = info[r] * columns[i + 1, r]
        j = 0
        while j + 4 <= i + 2:
            a0, a1, a2, a3, c0, c1, c2, c3 = _dots_four(pair, columns, j, m)
            h[i, j] += a0
            h[i, j + 1] += a1
            h[i, j + 2] += a2
            h[i, j + 3] += a3
            h[i + 1, j] += c0
            h[i + 1, j + 1] += c1
            h[i + 1, j + 2] += c2
            h[i + 1, j + 3] += c3
            j += 4
        if j + 2 <= i + 2:
            a0, a1, c0, c1 = _dots_two(pair, columns, j, m)
            h[i, j] += a0
            h[i, j + 1] += a1
            h[i + 1, j] += c0
            h[i + 1, j + 1] += c1
            j += 2
        if j == i + 1:
            h[j, j] += dot(pair[1], columns, j, m)


@kernel
def sum_rows(glm, work, cols, k, start, stop):
    """Log likelihood, gradient and information at ``work.beta``, in one pass over some rows."""
    size = glm.base.shape[0] + k
    columns, eta, info, score = work.columns, work.eta, work.info, work.score
    h, gradient = work.hessian, work.gradient
    for i in range(size):
        gradient[i] = 0.0
        for j in range(size):
            h[i, j] = 0.0
    # Rows on the right side of zero, all of them, prove that the columns separate the classes.
    separable = glm.separable
    total, margin = 0.0, np.inf if separable else -np.inf
    for first in range(start, stop, BLOCK):
        m = min(BLOCK, stop - first)
        load_with_predictor(glm, work, cols, k, first, m)
        total += score_rows(glm, work, first, m)
        if separable:
            margin = min(margin, lowest_margin(glm.y, eta, first, m))
        if not total > -np.inf:
            return total
        for i in range(size):
            gradient[i] += dot(score, columns, i, m)
        add_information(h, columns, info, work.pair, size, m)
    work.margin = margin
    return total


@kernel
def factorise(h, size):
    """Factorise the information in place; the least pivot, or minus one where a column depends on those before it."""
    least = np.inf
    for i in range(size):
        own = h[i, i]
        for j in range(i + 1):
            v = h[i, j]
            for q in range(j):
                v -= h[i, q] * h[j, q]
            if j < i:
                h[i, j] = v * h[j, j]
            elif not (v > DEPENDENT * own and v > SMALLEST):
                return -1.0
            else:
                h[i, i] = 1.0 / math.sqrt(v)
                least = min(least, v)
    return least


@kernel
def solve(work, h, size):
    """Solve for the step, which is left in ``work.step``, given a factor; the decrement."""
    gradient, half, step = work.gradient, work.column, work.step
    decrement = 0.0
    for i in range(size):
        t = gradient[i]
        for j in range(i):
            t -= h[i, j] * half[j]
        half[i] = t * h[i, i]
        decrement += half[i] * half[i]
    for i in range(size - 1, -1, -1):
        t = half[i]
        for j in range(i + 1, size):
            t -= h[j, i] * step[j]
        step[i] = t * h[i, i]
    return decrement


@kernel
def _stretch(work, size, decrement):
    """How long the next step is: longer where rows move off; where that begins is kept in ``work.onset``."""
    fall = decrement / work.decrement * math.exp(work.stretch)
    work.decrement = decrement
    work.stretch = 1.0
    if decrement < NEAR and FALL_LOW < fall < FALL_HIGH:
        work.stretch = LONG_STEP
        if not work.moved_off:
            work.moved_off = 1
            for i in range(size):
                work.onset[i] = work.beta[i]


@kernel
def after_pass(work, size, value, turn, before, halvings, tolerance):
    """What follows a pass over the rows: a step, the end, or half a step back.

    Returns (how it ended or ``GOING``, log likelihood of the last good point, halvings since).
    """
    beta, step = work.beta, work.step
    if turn == 0:
        work.decrement, work.stretch = np.inf, 1.0
        work.moved_off = 0
    # Written so that a value that is not a number fails.
    if not value >= before - 1e-7 * (1.0 + abs(before)):
        if halvings == MOST_HALVINGS:
            return SLOW, before, halvings
        for i in range(size):
            step[i] *= 0.5
            beta[i] -= step[i]
        work.decrement = np.inf
        return GOING, before, halvings + 1
    if work.margin > 0.0:
        work.log_likelihood = 0.0
        return SEPARATED, value, 0
    work.log_likelihood = value
    pivot = factorise(work.hessian, size)
    if pivot < 0.0:
        if work.stretch > 1.0 and work.decrement < NEARLY:
            work.log_likelihood = max(value, before + work.decrement)
            return SEPARATED, value, 0
        return FLAT if turn > 0 else FAILED, value, 0
    decrement = solve(work, work.hessian, size)
    _stretch(work, size, decrement)
    for i in range(size):
        step[i] *= work.stretch
        beta[i] += step[i]
    flat = pivot < LEAST_PIVOT and not work.bounded
    if decrement < tolerance or (flat and decrement < CLOSE and work.stretch > 1.0):
        work.log_likelihood = value + (1.0 if work.stretch > 1.0 else 0.5) * decrement
        return SEPARATED if flat else FITTED, value, 0
    return GOING, value, 0


@kernel
def newton(glm, work, cols, k, steps, tolerance):
    """Newton's method from ``work.beta``; says how it ended.

    Where it ends for want of information before rows are seen to move off, the likelihood is that of the last point.
    """
    size = glm.base.shape[0] + k
    before, halvings = -np.inf, 0
    for turn in range(steps):
        value = sum_rows(glm, work, cols, k, 0, len(glm.y))
        state, before, halvings = after_pass(work, size, value, turn, before, halvings, tolerance)
        if state != GOING:
            return state
    return SLOW
