"""One model of a long table: what a fit costs against a plain loop over the rows, and in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numba import njit

from bench.child import run_child
from bench.measure import Clock, Line, Note, Series, timed
from modejump.likelihoods.columns import fit_columns
from modejump.likelihoods.glm.newton import TOLERANCE, new_glm_work
from modejump.problem.problem import Problem

EFFECTS = (0.5, 0.3, 0.2, 0.1, 0.05)


def table(rows: int, terms: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Independent columns and a response of yes and no, of which five columns tell something."""
    rng = np.random.default_rng(1_000_000)
    x = rng.standard_normal((rows, terms))
    chance = 1.0 / (1.0 + np.exp(-x[:, : len(EFFECTS)] @ np.array(EFFECTS)))
    return x, (rng.random(rows) < chance).astype(np.float64)


@njit(error_model="numpy", nogil=True, fastmath={"reassoc", "contract"})
def plain_pass(x, y, beta, gradient, information):
    """Log likelihood, gradient and information of a logistic regression, row by row as one would write it down."""
    n, k = x.shape
    total = 0.0
    gradient[:] = 0.0
    information[:] = 0.0
    for r in range(n):
        eta = 0.0
        for i in range(k):
            eta += x[r, i] * beta[i]
        e = math.exp(-abs(eta))
        p = 1.0 / (1.0 + e)
        mu = p if eta >= 0.0 else 1.0 - p
        total += y[r] * eta - max(eta, 0.0) - math.log1p(e)
        weight = p * e * p
        for i in range(k):
            gradient[i] += (y[r] - mu) * x[r, i]
            w = weight * x[r, i]
            for j in range(i + 1):
                information[i, j] += w * x[r, j]
    return total


def plain_fit(x: np.ndarray, y: np.ndarray, beta: np.ndarray) -> tuple[float, int]:
    """Newton's method by plain passes, with the rule that ends this package's: log likelihood and number of passes."""
    k = x.shape[1]
    gradient, information = np.zeros(k), np.zeros((k, k))
    for turn in range(1, 50):
        value = plain_pass(x, y, beta, gradient, information)
        whole = np.tril(information) + np.tril(information, -1).T
        step = np.linalg.solve(whole, gradient)
        beta += step
        decrement = float(gradient @ step)
        if decrement < TOLERANCE:
            return value + 0.5 * decrement, turn
    raise RuntimeError("the plain fit has not converged")


class Duel:
    """The same two fits by both: all columns from the base's fit, then one column less from there."""

    def __init__(self, rows: int) -> None:
        x, self.y = table(rows)
        self.problem = Problem.build(x, self.y, family="binomial", coef_prior="aic")
        self.x = np.column_stack([np.ones(rows), x])
        self.terms = x.shape[1]

    def ours(self, repetition: int) -> tuple[list[float], list[Clock]]:
        """Log likelihoods against the base model's, and clocks, of both fits."""
        data = self.problem.data
        work = new_glm_work(data.glm, self.terms)
        values, clocks = [], []
        for k in (self.terms, self.terms - 1):
            value, clock = timed(lambda k=k: fit_columns(data.glm, work, np.arange(k), data.coef_prior, data.n))
            values.append(value + k)
            clocks.append(clock)
        return values, clocks

    def plain(self, repetition: int) -> tuple[list[float], list[Clock], list[int]]:
        """The same by plain passes, and how many these were; the second fit starts where the first ended."""
        beta = np.zeros(self.terms + 1)
        share = self.y.mean()
        beta[0] = math.log(share / (1.0 - share))
        null = len(self.y) * (share * math.log(share) + (1.0 - share) * math.log(1.0 - share))
        values, clocks, passes = [], [], []
        for k in (self.terms, self.terms - 1):
            x = np.ascontiguousarray(self.x[:, : k + 1])
            start = beta[: k + 1].copy()
            (value, turns), clock = timed(lambda x=x, start=start: plain_fit(x, self.y, start))
            beta = start
            values.append(value - null)
            clocks.append(clock)
            passes.append(turns)
        return values, clocks, passes


def lines(row: int, rows: int, repetitions: int) -> Iterator[Line | Note]:
    """CPU seconds of a fit against the plain loop's, and memory beyond the table."""
    small = Duel(1000)
    small.ours(0), small.plain(0)
    duel = Duel(rows)
    ours, plain = [], []
    for i in range(repetitions):
        ours.append(duel.ours(i))
        plain.append(duel.plain(i))
    apart = float(np.abs(np.subtract(ours[0][0], plain[0][0])).max())
    for at, what in enumerate(("all 20 columns, from the base's fit", "19 columns, from the fit of all")):
        yield Line(
            row,
            f"n = {rows}, {what}",
            "CPU s",
            Series.of([clocks[at].cpu for _, clocks in ours]),
            Series.of([clocks[at].cpu for _, clocks, _ in plain]),
            f"{plain[0][2][at]} passes of a plain loop",
            less=True,
        )
    yield Note(row, f"both find the same log likelihoods, to {apart:.1g}.")
    figures = run_child("long", rows)
    size = Series.of([figures["table"] / 2**20])
    grown = (figures["after"] - figures["before"]) / 2**20
    yield Line(row, f"n = {rows}, beyond data and imports", "MiB", Series.of([grown]), size, "X itself", less=True)
