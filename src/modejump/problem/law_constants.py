"""What the constants of laws are fitted to: the response by least squares, or a generalised model by its likelihood.

The likelihood is maximised in the coefficients of the base, the slope of the law and its constants together, by damped
scoring: a constant has the column slope times derivative. Starts are compared by least squares on the working response
of the base model, which is what the likelihood is like around it. Likelihoods of the user's own are asked about models,
not about laws in the making: there constants are those of least squares.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import entry, implements, kernel
from modejump.features.laws.fitting.constants import Fitting, advance
from modejump.features.laws.fitting.least_squares import ATTEMPTS, FIRST_DAMPING, PRECISION, fill_columns, solve_damped
from modejump.likelihoods.glm.newton import BLOCK, Glm, GlmWork, add_information, dot, new_glm_work
from modejump.likelihoods.glm.rows import score_rows
from modejump.problem.feature_problem import FeatureProblem

# Steps that the base and the slope make before the constants join them.
SLOPE_STEPS = 8
# A step that promises less is none: log likelihoods are sums of so many roundings.
LEAST_GAIN = 1e-13


class GlmConstants(NamedTuple):
    """Rows of a generalised model, for laws."""

    glm: Glm
    work: GlmWork
    one: np.ndarray  # float64 (n,): ones, in place of roots of weights

    def at(self, rows: np.ndarray) -> GlmConstants:
        """The same for some rows."""
        glm = self.glm
        some = glm._replace(
            y=glm.y[rows], weight=glm.weight[rows], offset=glm.offset[rows],
            base=np.ascontiguousarray(glm.base[:, rows]), x=np.zeros((0, len(rows))),
        )  # fmt: skip
        return GlmConstants(some, self.work, np.ones(len(rows)))


@entry
def _score(glm, work, eta, score, info):
    """Score and information of all rows at their linear predictors."""
    for first in range(0, len(eta), BLOCK):
        m = min(BLOCK, len(eta) - first)
        work.eta[:m] = eta[first : first + m]
        score_rows(glm, work, first, m)
        score[first : first + m] = work.score[:m]
        info[first : first + m] = work.info[:m]


def fitting_of(problem: FeatureProblem) -> Fitting:
    """What constants are fitted to in a problem over laws."""
    glm = problem.base_model
    if not isinstance(glm, Glm):
        return Fitting(problem.root_weight, problem.basis, problem.root_weight * problem.y)
    n = len(glm.y)
    work = new_glm_work(glm, problem.language.joint_constants + 1)
    score, info = np.zeros(n), np.zeros(n)
    _score(glm, work, glm.offset + glm.start @ glm.base, score, info)
    root = np.sqrt(np.maximum(info, 0.0))
    target = np.divide(score, root, out=np.zeros(n), where=root > 0.0)
    return Fitting(root, glm.base * root, target, GlmConstants(glm, work, np.ones(n)))


@kernel
def _pass(likelihood, program, rows, theta, size):
    """Log likelihood at coefficients and constants, and its gradient and information by the first ``size`` of them."""
    glm, work = likelihood.glm, likelihood.work
    base, b = glm.base, len(glm.base)
    for i in range(size):
        work.gradient[i] = 0.0
        work.hessian[i, : work.hessian.shape[1]] = 0.0
    total = 0.0
    for first in range(0, len(glm.y), BLOCK):
        m = min(BLOCK, len(glm.y) - first)
        work.eta[:m] = glm.offset[first : first + m]
        for i in range(max(size, b + 1)):
            column = work.columns[i]
            scale = 1.0 if i <= b else theta[b]
            source = base[i] if i < b else rows.column[i - b]
            for r in range(m):
                column[r] = scale * source[first + r]
            if i <= b:
                for r in range(m):
                    work.eta[r] += theta[i] * column[r]
        total += score_rows(glm, work, first, m)
        # Written so that values that are not numbers fail.
        if not total > -np.inf:
            return -np.inf
        for i in range(size):
            work.gradient[i] += dot(work.score, work.columns, i, m)
        add_information(work.hessian, work.columns, work.info, work.pair, size, m)
    return total


@kernel
def _log_likelihood(likelihood, program, pool, rows, theta, size):
    """`_pass` with the law's column at the constants of ``theta``."""
    b = len(likelihood.glm.base)
    fill_columns(program, pool, rows, likelihood.one, theta[b + 1 :], True)
    return _pass(likelihood, program, rows, theta, size)


@kernel
def _scoring(likelihood, program, pool, rows, theta, size, steps):
    """Damped scoring in the first ``size`` parameters; the log likelihood."""
    work, b = likelihood.work, len(likelihood.glm.base)
    h, g, factor = np.zeros((size, size)), np.zeros(size), np.zeros((size, size))
    step, trial = np.zeros(size), theta.copy()
    best = _log_likelihood(likelihood, program, pool, rows, theta, size)
    damping = FIRST_DAMPING
    for _ in range(steps):
        if not best > -np.inf:
            break
        h[:, :] = work.hessian[:size, :size]
        g[:] = work.gradient[:size]
        done = True
        for _ in range(ATTEMPTS):
            gain = solve_damped(h, g, size, damping, factor, step)
            if 0.0 <= gain <= LEAST_GAIN:
                break
            if gain > 0.0:
                trial[:size] = theta[:size] + step
                new = _log_likelihood(likelihood, program, pool, rows, trial, size)
                if new > best:
                    change = 0.0
                    for i in range(b + 1, size):
                        change = max(change, abs(step[i]) / (abs(trial[i]) + 1e-300))
                    done = size > b + 1 and change < PRECISION
                    best = new
                    theta[:] = trial
                    damping = max(0.01 * damping, 1e-15)
                    break
            # Far from a maximum likelihoods are no parabolas: steps get much shorter at once.
            damping = max(100.0 * damping, 1e-6)
        if done:
            break
    return best


@kernel
def maximise(likelihood, program, pool, rows, constants, steps):
    """Improve constants by so many steps, base and slope along with them; returns minus the log likelihood."""
    glm, k = likelihood.glm, program.constants
    b = len(glm.base)
    theta = np.zeros(b + 1 + k)
    theta[:b] = glm.start
    theta[b + 1 :] = constants[:k]
    _scoring(likelihood, program, pool, rows, theta, np.int64(b + 1), SLOPE_STEPS)
    best = _scoring(likelihood, program, pool, rows, theta, np.int64(b + 1 + k), steps)
    constants[:k] = theta[b + 1 :]
    return -best


@implements(advance, GlmConstants)
def _advance_by_likelihood(likelihood, program, pool, constants, steps, everything):
    if everything:
        return maximise(pool.likelihood, program, pool, pool.rows, constants, steps)
    return maximise(pool.sample_likelihood, program, pool, pool.sample, constants, steps)
