"""The mode of the coefficients' posterior under Jeffreys' prior |J|^(1/2), J the expected information, compiled.

For responses whose information depends on the coefficients, the mode of ``log L + 1/2 log |J|`` (Firth, 1993) exists
where the maximum of the likelihood does not: under separation the prior keeps the coefficients finite. It stands for
the estimate in predictions from such a model. Other modes may exist; this one is reached from the base's fit.

With hat values ``h_i = w_i x_i' J^-1 x_i`` the gradient of the penalty is ``1/2 sum h_i (d log w_i / d eta_i) x_i``.
Steps are taken as if the hat values were fixed. They converge linearly, so two neighbouring ones are combined by the
secant through them (Anderson's acceleration of depth one).
"""

from __future__ import annotations

import math

import numpy as np

from modejump.core.compilation import kernel
from modejump.likelihoods.glm.newton import (
    BLOCK,
    FAILED,
    FITTED,
    MOST_HALVINGS,
    SLOW,
    add_information,
    dot,
    factorise,
    load_with_predictor,
    solve,
    sum_rows,
)
from modejump.likelihoods.glm.rows import information_slope, score_rows

# Steps are combined where decrements shrink by this factor at least from below this value.
NEAR = 0.1
SHRINKS = 0.6
# Rows of GlmWork.before: half of the solution, the step and the move at the point before.
HALF, STEP, MOVE = 0, 1, 2


@kernel
def _add_penalty(glm, work, cols, k):
    """Add the gradient of ``1/2 log |J|`` to the gradient, given the factor of J at ``work.beta``.

    J plus the penalty's curvature with the hat values held fixed is left in ``work.curved``.
    """
    n, size = len(glm.y), glm.base.shape[0] + k
    columns, solved, eta, info, score = work.columns, work.solved, work.eta, work.info, work.score
    hat, h, curved = work.weighted, work.hessian, work.curved
    for i in range(size):
        for j in range(size):
            curved[i, j] = 0.0
    for first in range(0, n, BLOCK):
        m = min(BLOCK, n - first)
        load_with_predictor(glm, work, cols, k, first, m)
        score_rows(glm, work, first, m)
        for r in range(m):
            hat[r] = 0.0
        for i in range(size):
            for r in range(m):
                solved[i, r] = columns[i, r]
            for q in range(i):
                for r in range(m):
                    solved[i, r] -= h[i, q] * solved[q, r]
            for r in range(m):
                solved[i, r] *= h[i, i]
                hat[r] += solved[i, r] * solved[i, r]
        for r in range(m):
            slope, curve = information_slope(glm, eta[r])
            hat[r] *= 0.5 * info[r]
            score[r] = hat[r] * slope
            info[r] -= hat[r] * curve
        for i in range(size):
            work.gradient[i] += dot(score, columns, i, m)
        add_information(curved, columns, info, work.pair, size, m)


@kernel
def _move(work, size, near):
    """Move by the step, combined with the one before where both are ``near`` the mode."""
    before, half, step = work.before, work.column, work.step
    share = 0.0
    if near:
        along, length = 0.0, 0.0
        for i in range(size):
            change = half[i] - before[HALF, i]
            along += change * half[i]
            length += change * change
        share = along / length
    for i in range(size):
        move = step[i] - share * (before[MOVE, i] + step[i] - before[STEP, i])
        before[HALF, i] = half[i]
        before[STEP, i] = step[i]
        before[MOVE, i] = move
        work.beta[i] += move


@kernel
def _objective(work, size, value):
    """``log L + 1/2 log |J|``, with the information factorised; minus infinity where that cannot be."""
    if not (value > -np.inf and factorise(work.hessian, size) > 0.0):
        return -np.inf
    for i in range(size):
        value -= math.log(work.hessian[i, i])
    return value


@kernel
def _steps_to_mode(glm, work, cols, k, steps, tolerance):
    """`newton_mode` once rows are told to give the expected information."""
    size = glm.base.shape[0] + k
    beta, before = work.beta, work.before
    best, halvings, last = -np.inf, 0, np.inf
    for _ in range(steps):
        value = sum_rows(glm, work, cols, k, 0, len(glm.y))
        objective = _objective(work, size, value)
        # Written so that a value that is not a number fails.
        if not objective > best - 1e-7 * (1.0 + abs(best)):
            if best == -np.inf:
                return FAILED
            if halvings == MOST_HALVINGS:
                return SLOW
            halvings += 1
            last = np.inf
            for i in range(size):
                before[MOVE, i] *= 0.5
                beta[i] -= before[MOVE, i]
            continue
        halvings = 0
        best = objective
        _add_penalty(glm, work, cols, k)
        if factorise(work.curved, size) < 0.0:
            return FAILED
        decrement = solve(work, work.curved, size)
        if decrement < tolerance:
            return FITTED
        _move(work, size, last < NEAR and decrement < SHRINKS * last)
        last = decrement
    return SLOW


@kernel
def newton_mode(glm, work, cols, k, steps, tolerance):
    """Steps to the mode from ``work.beta``; says how they ended. J is the expected information here."""
    work.expected = 1
    state = _steps_to_mode(glm, work, cols, k, steps, tolerance)
    work.expected = 0
    return state
