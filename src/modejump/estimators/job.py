"""What a fit has to do once its options and its table are read: the numbers, and how to work on them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from modejump.data.rows import in_rows
from modejump.samplers.budget import Budget

if TYPE_CHECKING:
    from modejump.runtime.checkpoints import Checkpoint


@dataclass(frozen=True, eq=False)
class Job:
    """The work of one fit.

    Attributes
    ----------
    spec : TableSpec or FormulaSpec
        How tables become columns.
    design : ndarray of shape (n, columns)
        The columns, equal rows merged.
    response : ndarray of shape (n,)
        The response as numbers.
    weights, offset : ndarray of shape (n,), optional
        Case weights, and the known part of the linear predictor.
    algorithm : str
        The sampler.
    budget : Budget, optional
        How long it runs.
    chains, workers, seed : int
        Chains, threads, and the entropy of the random streams.
    always_in : tuple of str
        Terms that are in every model.
    names : mapping of str to str
        Names that the page and new tables need: that of the response, that of the offset.
    """

    spec: Any
    design: np.ndarray
    response: np.ndarray
    weights: np.ndarray | None
    offset: np.ndarray | None
    algorithm: str
    budget: Budget | None
    chains: int
    workers: int
    seed: int
    always_in: tuple[str, ...] = ()
    names: dict[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def elsewhere(cls, spec: Any, algorithm: str, budget: Budget | None, chains: int, workers: int, seed: int) -> Job:
        """The work of a fit whose rows are read in chunks."""
        return cls(
            spec, np.empty((0, len(spec.names))), np.empty(0), None, None, algorithm, budget, chains, workers, seed
        )  # fmt: skip

    def __post_init__(self) -> None:
        # Sums depend on the order of the numbers in memory: one and the same whatever held them before.
        object.__setattr__(self, "design", in_rows(self.design))


class Desk:
    """Where a fit works: nowhere in particular, unless it belongs to a run in a directory."""

    log: Any = None

    def begin(self, estimator: Any, job: Job) -> Checkpoint | None:
        """Make ready for a job; what keeps its state, where something does."""
        return None
