"""Fits of long tables on several threads.

The rows are cut into parts of a fixed length; each thread sums some of them, and the parts are added in their order,
so that a fit has the same bits on any number of threads. What happens between two passes over the rows is the
compiled code of every other fit.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from modejump.core.compilation import entry
from modejump.likelihoods.glm.fit import MOST_STEPS, WARM_STEPS, cold_start, end_fit, warm_start
from modejump.likelihoods.glm.laplace import marginal_of_fit, tolerance_of
from modejump.likelihoods.glm.newton import (
    FITTED,
    GOING,
    SEPARATED,
    SLOW,
    Glm,
    GlmWork,
    after_pass,
    new_glm_work,
    sum_rows,
)

# Rows of one part.
PART = 32_768
# A table is long where rows times columns of a model reach this: a pass then takes milliseconds.
LONG = 2_000_000


def is_long(glm: Any) -> bool:
    """Whether some model of the table is worth several threads."""
    return isinstance(glm, Glm) and glm.rows * glm.candidates >= LONG


@entry
def _begin(glm, work, cols, cold):
    """Where a fit starts."""
    if cold:
        cold_start(glm, work, len(cols))
    else:
        warm_start(glm, work, cols, len(cols))


@entry
def _sum_part(glm, work, cols, start, stop):
    """Log likelihood of some rows; gradient and information are left in the scratch space."""
    return sum_rows(glm, work, cols, len(cols), start, stop)


@entry
def _turn(work, size, value, turn, before, halvings, prior):
    """What follows a pass."""
    return after_pass(work, size, value, turn, before, halvings, tolerance_of(prior))


@entry
def _end(glm, work, cols, prior, n, state):
    """Log marginal likelihood at the end of a fit."""
    k = len(cols)
    return marginal_of_fit(glm, work, cols, k, prior, n, end_fit(glm, work, cols, k, state))


class _Parts:
    """Sums over all rows, by parts, on some threads."""

    def __init__(
        self, glm: Glm, work: GlmWork, cols: np.ndarray, pool: ThreadPoolExecutor | None, threads: int
    ) -> None:
        self.glm, self.work, self.cols, self.pool = glm, work, cols, pool
        self.size = len(glm.base) + len(cols)
        self.starts = range(0, len(glm.y), PART)
        self.scratch = [new_glm_work(glm, len(cols)) for _ in range(threads)]
        self.hessian = np.zeros((len(self.starts), self.size, self.size))
        self.gradient = np.zeros((len(self.starts), self.size))
        self.total = np.zeros((len(self.starts), 2))

    def _sum(self, thread: int) -> None:
        own, size, n = self.scratch[thread], self.size, len(self.glm.y)
        own.beta[:size] = self.work.beta[:size]
        for i in range(thread, len(self.starts), len(self.scratch)):
            start = self.starts[i]
            self.total[i, 0] = _sum_part(self.glm, own, self.cols, start, min(n, start + PART))
            self.total[i, 1] = own.scalars["margin"]
            self.hessian[i] = own.hessian[:size, :size]
            self.gradient[i] = own.gradient[:size]

    def __call__(self) -> float:
        """The log likelihood; gradient and information go where one pass by one thread leaves them."""
        if self.pool is None:
            self._sum(0)
        else:
            list(self.pool.map(self._sum, range(len(self.scratch))))
        size = self.size
        self.work.hessian[:size, :size] = self.hessian.sum(axis=0)
        self.work.gradient[:size] = self.gradient.sum(axis=0)
        self.work.scalars["margin"] = self.total[:, 1].min()
        return float(self.total[:, 0].sum())


def _newton(work: GlmWork, parts: _Parts, prior: Any, steps: int) -> int:
    before, halvings = -np.inf, 0
    for turn in range(steps):
        state, before, halvings = _turn(work, parts.size, parts(), turn, before, halvings, prior)
        if state != GOING:
            return int(state)
    return SLOW


def fit_columns_by_parts(glm: Glm, work: GlmWork, cols: np.ndarray, prior: Any, n: float, threads: int = 1) -> float:
    """What `modejump.likelihoods.columns.fit_columns` returns, the rows shared by at most so many threads."""
    threads = max(1, min(threads, -(-len(glm.y) // PART)))
    pool = ThreadPoolExecutor(threads) if threads > 1 else None
    try:
        parts = _Parts(glm, work, cols, pool, threads)
        _begin(glm, work, cols, False)
        state = _newton(work, parts, prior, WARM_STEPS)
        if state not in (FITTED, SEPARATED):
            _begin(glm, work, cols, True)
            state = _newton(work, parts, prior, MOST_STEPS)
        return float(_end(glm, work, cols, prior, n, state))
    finally:
        if pool is not None:
            pool.shutdown()
