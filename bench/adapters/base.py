"""What the rows ask of a program, and what they get."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from bench.measure import Clock
from bench.problems import Case


class Enumerated(NamedTuple):
    """All models of a problem: exact inclusion probabilities and the log of the sum of Bayes factors over null."""

    inclusion: np.ndarray
    log_total: float
    models: int
    clock: Clock


class Sampled(NamedTuple):
    """A run of a sampler: inclusion probabilities by frequency. ``clock`` counts sampling, not warm-up.

    ``distinct`` is the number of distinct models evaluated, where the program says it.
    """

    inclusion: np.ndarray
    steps: int
    clock: Clock
    warmup: Clock
    distinct: int


class Adapter(Protocol):
    """A program that can be compared.

    Attributes
    ----------
    name : str
        Name in the table.
    most_steps : int
        Steps that are asked of it at most; a slow program gets fewer seeds as well.
    """

    name: str
    most_steps: int

    @property
    def slow(self) -> bool:
        """Whether it gets fewer seeds than the others."""

    def missing(self) -> str | None:
        """Why the program cannot be called here, in one sentence; None where it can."""

    def enumerate(self, case: Case) -> Enumerated:
        """Evaluate all models on one core."""

    def sample(self, case: Case, steps: int, seed: int) -> Sampled:
        """Make so many sampling steps on one core."""

    def capture(self, case: Case, count: int, seed: int) -> float:
        """Log of the sum of the Bayes factors over null of the first ``count`` distinct models evaluated."""
