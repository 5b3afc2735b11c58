"""Poisson responses: counts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import gammaincc, logsumexp, xlogy

from modejump.core.compilation import kernel
from modejump.core.errors import InputError
from modejump.likelihoods.family import Link
from modejump.likelihoods.glm.family import GlmFamily
from modejump.likelihoods.glm.rows import fast_exp


@kernel
def _rows(glm, work, first, m):
    """Score and information of a block; returns its log likelihood."""
    y, weight, eta, score, info = glm.y, glm.weight, work.eta, work.score, work.info
    total = 0.0
    for r in range(m):
        mu = fast_exp(eta[r])
        score[r] = weight[first + r] * (y[first + r] - mu)
        info[r] = weight[first + r] * mu
    for r in range(m):
        total += weight[first + r] * (y[first + r] * eta[r]) - info[r]
    return total


LOG = Link(
    "log", np.log, np.exp, latex=r"\log {}", text="log {}", positive=True, rows=_rows,
    information_slope=kernel(lambda t: (1.0, 0.0)),
)  # fmt: skip


class Poisson(GlmFamily):
    """Counts with a Poisson distribution."""

    name = "poisson"
    links = (LOG,)
    response = "count"
    # Counts are none below, and without number above.
    flat = (-40.0, 80.0)

    def check(self, y: np.ndarray) -> None:
        """Refuse what is no count, and counts that are all 0."""
        bad = (y < 0.0) | (y != np.floor(y))
        if bad.any():
            row = int(np.argmax(bad))
            raise InputError(
                f"a Poisson response is a count, and y is {y[row]:g} in row {row}; give whole numbers of at least 0."
            )
        if not y.any():
            raise InputError("every count is 0, so that their rate has no estimate; give rows with other counts too.")

    def first_guesses(self, y: np.ndarray, w: np.ndarray, offset: np.ndarray) -> Iterator[np.ndarray]:
        """The mean of the counts; then, where an offset varies too much for that, the estimate of an intercept."""
        yield from super().first_guesses(y, w, offset)
        yield np.full(len(y), np.log((w * y).sum()) - logsumexp(offset, b=w))

    def deviance(self, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Deviance of each row."""
        return 2.0 * (xlogy(y, y / mean) - y + mean)

    def noise(self, mean: np.ndarray, second: np.ndarray, shape: np.ndarray) -> np.ndarray:
        """Expected variance of a count: its mean."""
        return mean

    def cdf(self, y: np.ndarray, log_mean: np.ndarray, shape: np.ndarray) -> np.ndarray:
        """Probability of a count of at most y."""
        count = np.floor(y)
        with np.errstate(over="ignore"):
            value = gammaincc(np.maximum(count, 0.0) + 1.0, np.exp(log_mean))
        return np.where(count >= 0.0, value, 0.0)

    def sharpness(self, log_mean: np.ndarray, shape: np.ndarray) -> np.ndarray:
        """The standard deviation of a count over its mean."""
        return np.exp(-0.5 * np.minimum(log_mean, 700.0))
