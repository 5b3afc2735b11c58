"""Fits of generalised linear models, one after the other: where they start, and what is read off at their end."""

from __future__ import annotations

import math

from modejump.core.compilation import kernel, switch
from modejump.likelihoods.family import LINKS
from modejump.likelihoods.glm.jeffreys import newton_mode
from modejump.likelihoods.glm.newton import FAILED, FITTED, FLAT, SEPARATED, factorise, newton, solve, sum_rows

MOST_STEPS = 50
# A warm start that has not converged after so many steps is given up for a cold one.
WARM_STEPS = 8
# Steps to the mode under Jeffreys' prior converge more slowly.
MODE_STEPS = 200
TOLERANCE_MODE = 1e-12


@kernel
def _drop_last(glm, work, cols, k):
    """Where this model is the last one without one column: move to the best point without it of the quadratic there.

    With v the column of the inverse information that belongs to the one that leaves, that is
    ``beta - v beta_j / v_j``: no pass over the rows.
    """
    b = glm.base.shape[0]
    last, h, v, warm = work.last, work.hessian, work.column, work.warm
    gone = k
    for i in range(k):
        if last[i] != cols[i]:
            gone = i
            break
    for i in range(gone, k):
        if last[i + 1] != cols[i]:
            return
    j, size = b + gone, b + k + 1
    for i in range(size):
        t = 1.0 if i == j else 0.0
        for q in range(i):
            t -= h[i, q] * v[q]
        v[i] = t * h[i, i]
    for i in range(size - 1, -1, -1):
        t = v[i]
        for q in range(i + 1, size):
            t -= h[q, i] * v[q]
        v[i] = t * h[i, i]
    share = warm[b + last[gone]] / v[j]
    for i in range(b):
        warm[i] -= share * v[i]
    for i in range(k + 1):
        warm[b + last[i]] -= share * v[b + i]


@kernel
def warm_start(glm, work, cols, k):
    """Start at the coefficients of the model fitted last; columns it did not have start at zero."""
    b = glm.base.shape[0]
    if work.has_factor and not work.moved_off and work.last_count == k + 1:
        _drop_last(glm, work, cols, k)
    for i in range(b):
        work.beta[i] = work.warm[i]
    for i in range(k):
        work.beta[b + i] = work.warm[b + cols[i]]
    work.has_factor = 0


@kernel
def cold_start(glm, work, k):
    """Start at the base model's fit."""
    b = glm.base.shape[0]
    for i in range(b):
        work.beta[i] = glm.start[i]
    for i in range(k):
        work.beta[b + i] = 0.0


@kernel
def _keep(glm, work, cols, k):
    """The next fit starts here, or where rows began to move off: too far out, information is lost for others."""
    b = glm.base.shape[0]
    for i in range(work.last_count):
        work.warm[b + work.last[i]] = 0.0
    end = work.onset if work.moved_off else work.beta
    for i in range(b):
        work.warm[i] = end[i]
    for i in range(k):
        work.warm[b + cols[i]] = end[b + i]
        work.last[i] = cols[i]
    work.last_count = k


@kernel
def _measure(glm, work, k):
    """Information about the base, and Wald's statistic of the rest given the base, from the last factor.

    With the base's columns first, the factor's leading block belongs to the base alone, and the trailing one to the
    others once the base is projected out in the metric of the information, as centring does for the intercept.
    """
    b = glm.base.shape[0]
    h, beta = work.hessian, work.beta
    log_det = 0.0
    for i in range(b):
        log_det -= 2.0 * math.log(h[i, i])
    wald = 0.0
    for j in range(b, b + k):
        t = beta[j] / h[j, j]
        for i in range(j + 1, b + k):
            t += h[i, j] * beta[i]
        wald += t * t
    work.log_det_base = log_det
    work.wald = wald


# Estimates what else the family has; False where that cannot be done.
_settle = switch("glm, work", LINKS.cases("settle"), True)


@kernel
def end_fit(glm, work, cols, k, state):
    """What is read off where Newton's method ended, and what `fit` says."""
    if state == FITTED or state == SEPARATED:
        _keep(glm, work, cols, k)
    if state == FLAT:
        state = SEPARATED
    if state != FITTED:
        return state if state == SEPARATED else FAILED
    _measure(glm, work, k)
    work.has_factor = 1
    return FITTED if _settle(glm.link, glm, work) else FAILED


@kernel
def fit(glm, work, cols, k, tolerance):
    """Fit the model with these columns: ``FITTED``, or ``SEPARATED`` or ``FAILED`` where no estimate exists.

    Results are in the scratch space; a model that is separated has the supremum of its log likelihood there.
    """
    warm_start(glm, work, cols, k)
    state = newton(glm, work, cols, k, WARM_STEPS, tolerance)
    if state != FITTED and state != SEPARATED:
        # What a model is worth must not depend on where its fit began.
        cold_start(glm, work, k)
        state = newton(glm, work, cols, k, MOST_STEPS, tolerance)
    return end_fit(glm, work, cols, k, state)


@kernel
def fit_mode(glm, work, cols, k):
    """The mode under Jeffreys' prior of a model that is separated; False where that was not reached."""
    cold_start(glm, work, k)
    if newton_mode(glm, work, cols, k, MODE_STEPS, TOLERANCE_MODE) != FITTED:
        return False
    _measure(glm, work, k)
    return True


@kernel
def fit_expansion(glm, work, cols, k):
    """What stands for the likelihood of a model that is separated: its expansion at the mode under Jeffreys' prior.

    The maximum of that quadratic takes the place of the estimate, in what is read off as well. False where the mode was
    not reached.
    """
    if not fit_mode(glm, work, cols, k):
        return False
    size = glm.base.shape[0] + k
    work.expected = 1
    value = sum_rows(glm, work, cols, k, 0, len(glm.y))
    work.expected = 0
    if factorise(work.hessian, size) < 0.0:
        return False
    work.log_likelihood = value + 0.5 * solve(work, work.hessian, size)
    for i in range(size):
        work.beta[i] += work.step[i]
    _measure(glm, work, k)
    return True
