"""Samplers by keywords: each test says what it changes, and nothing else."""

from __future__ import annotations

from typing import Any

import pandas as pd

from modejump.posterior import Posterior
from modejump.posterior.coefficients import labelled
from modejump.runtime.checkpoints import NoCheckpoint
from modejump.runtime.context import Context
from modejump.runtime.executors import Executor
from modejump.samplers.plan import Plan
from modejump.samplers.result import Result
from modejump.samplers.sample import sample


def _run(
    algorithm: str,
    problem: Any,
    *,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Any = None,
    checkpoint: NoCheckpoint | None = None,
    **plan: Any,
) -> Result:
    context = Context(progress, executor or Executor(workers), checkpoint or NoCheckpoint())
    return sample(problem, Plan(algorithm, **plan), context)


def enumerate_models(problem: Any, **options: Any) -> Result:
    return _run("enumerate", problem, **options)


def mjmcmc(problem: Any, **options: Any) -> Result:
    return _run("mjmcmc", problem, **options)


def gmjmcmc(problem: Any, **options: Any) -> Result:
    return _run("gmjmcmc", problem, **{"chains": 16} | options)


def rgmjmcmc(problem: Any, **options: Any) -> Result:
    return _run("rgmjmcmc", problem, **{"chains": 8} | options)


def coefficients(posterior: Posterior, kind: str = "bma", **names: Any) -> pd.DataFrame:
    return labelled(posterior.problem, posterior.predictor(kind).coefficient_moments(), **names)


class Interrupting:
    """A progress callback that plays the user's interrupt at the n-th report of a phase."""

    def __init__(self, at: int, during: str = "sampling") -> None:
        self.at, self.during, self.seen = at, during, 0

    def __call__(self, done: float, total: float, note: str) -> None:
        if note.startswith(self.during):
            self.seen += 1
            if self.seen == self.at:
                raise KeyboardInterrupt
