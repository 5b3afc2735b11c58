"""Plain NumPy: what a careful user writes in an afternoon.

Enumeration solves the normal equations of all models of one size at once. The sampler is Metropolis with flips and
swaps, a Cholesky solve for each new model, and a dictionary of the models met before.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from bench.adapters.base import Enumerated, Sampled
from bench.adapters.ours import log_sum
from bench.measure import now
from bench.problems import Case

_MODELS_AT_ONCE = 1 << 14
_DRAWS_AT_ONCE = 1 << 14
WARMUP_SHARE = 0.1


def log_bayes_factor(case: Case, size: np.ndarray | int, resid: np.ndarray | float) -> np.ndarray | float:
    """Log Bayes factor over null of the g-prior, from the number of columns and the residual share."""
    nu = len(case.y) - 1
    return 0.5 * ((nu - size) * np.log1p(case.g) - nu * np.log1p(case.g * resid))


class TimedRun(NamedTuple):
    """Inclusion by frequency, and log Bayes factors over null of the distinct models in the order they were met."""

    inclusion: np.ndarray
    log_bayes_factors: np.ndarray


class Plain:
    """NumPy without compiled code of our own."""

    name = "NumPy"
    most_steps = 1_000_000
    slow = True

    def missing(self) -> str | None:
        return None

    def enumerate(self, case: Case) -> Enumerated:
        _ = case.correlations
        begun = now()
        values = [np.zeros(1)]
        models = [np.zeros((1, 0), np.int64)]
        for size in range(1, case.terms + 1):
            every = np.array(list(combinations(range(case.terms), size)), dtype=np.int64)
            for start in range(0, len(every), _MODELS_AT_ONCE):
                part = every[start : start + _MODELS_AT_ONCE]
                values.append(_values(case, part))
                models.append(part)
        log_total = log_sum(np.concatenate(values))
        inclusion = np.zeros(case.terms)
        for part, value in zip(models, values):
            weight = np.repeat(np.exp(value - log_total), part.shape[1])
            inclusion += np.bincount(part.ravel(), weight, case.terms)
        return Enumerated(inclusion, log_total, 1 << case.terms, now() - begun)

    def sample(self, case: Case, steps: int, seed: int) -> Sampled:
        chain = Metropolis(case, seed)
        begun = now()
        chain.advance(int(WARMUP_SHARE * steps))
        warm = now()
        inclusion = chain.advance(steps) / steps
        return Sampled(inclusion, steps, now() - warm, warm - begun, len(chain.known))

    def sample_for(self, case: Case, seconds: float, seed: int) -> TimedRun:
        """As many steps as fit into so many CPU seconds, a fifth of them warm-up."""
        chain = Metropolis(case, seed)
        until = now().cpu + 0.2 * seconds
        while now().cpu < until:
            chain.advance(1000)
        until += 0.8 * seconds
        inclusion, steps = np.zeros(case.terms), 0
        while now().cpu < until:
            inclusion += chain.advance(1000)
            steps += 1000
        return TimedRun(inclusion / steps, np.array(list(chain.known.values())))

    def capture(self, case: Case, count: int, seed: int) -> float:
        chain = Metropolis(case, seed)
        while len(chain.known) < count:
            chain.advance(100)
        return log_sum(np.array(list(chain.known.values())[:count]))


def _values(case: Case, models: np.ndarray) -> np.ndarray:
    """Log Bayes factors of models of one size, one a row."""
    gram, corr = case.correlations
    rhs = corr[models]
    coef = np.linalg.solve(gram[models[:, :, None], models[:, None, :]], rhs[:, :, None])[:, :, 0]
    resid = np.clip(1.0 - (rhs * coef).sum(axis=1), 0.0, 1.0)
    return np.asarray(log_bayes_factor(case, models.shape[1], resid))


class Metropolis:
    """Flips and swaps of uniformly chosen terms, from the model without terms."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case = case
        self.rng = np.random.default_rng(seed)
        self.member = np.zeros(case.terms, dtype=bool)
        self.known: dict[bytes, float] = {}
        self.value = self.evaluate(self.member)

    def evaluate(self, member: np.ndarray) -> float:
        """Log Bayes factor over null of a model, from the dictionary or by a Cholesky solve."""
        key = member.tobytes()
        value = self.known.get(key)
        if value is None:
            value = self.known[key] = self._solve(np.flatnonzero(member))
        return value

    def _solve(self, cols: np.ndarray) -> float:
        if len(cols) == 0:
            return 0.0
        if len(cols) > len(self.case.y) - 2:
            return -np.inf
        gram, corr = self.case.correlations
        try:
            chol = np.linalg.cholesky(gram[np.ix_(cols, cols)])
        except np.linalg.LinAlgError:
            return -np.inf
        solved = np.linalg.solve(chol, corr[cols])
        return float(log_bayes_factor(self.case, len(cols), max(1.0 - float(solved @ solved), 1e-14)))

    def advance(self, steps: int) -> np.ndarray:
        """Make so many steps; how many of them each term was in."""
        inside = np.zeros(self.case.terms)
        for start in range(0, steps, _DRAWS_AT_ONCE):
            count = min(_DRAWS_AT_ONCE, steps - start)
            swap = self.rng.random(count) < 0.5
            choice = self.rng.random((count, 2))
            log_u = np.log(self.rng.random(count))
            for i in range(count):
                self._step(swap[i], choice[i], log_u[i])
                inside += self.member
        return inside

    def _step(self, swap: bool, choice: np.ndarray, log_u: float) -> None:
        new = self.member.copy()
        if swap:
            cols, rest = np.flatnonzero(new), np.flatnonzero(~new)
            if len(cols) == 0 or len(rest) == 0:
                return
            new[cols[int(choice[0] * len(cols))]] = False
            new[rest[int(choice[1] * len(rest))]] = True
        else:
            j = int(choice[0] * len(new))
            new[j] = not new[j]
        value = self.evaluate(new)
        if log_u < value - self.value:
            self.member, self.value = new, value
