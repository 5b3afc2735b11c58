"""This package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bench.adapters.base import Enumerated, Sampled
from bench.measure import Clock, now, timed
from bench.problems import Case
from modejump.problem.problem import Problem
from modejump.runtime.context import Context
from modejump.runtime.executors import Executor
from modejump.samplers.budget import Budget
from modejump.samplers.plan import Plan
from modejump.samplers.result import Result
from modejump.samplers.sample import sample
from modejump.samplers.settings import Sampler

# Steps that call every compiled function once; the time to compile or load them is row 7, not part of any other.
_FIRST_STEPS = 20_000


class PhaseClock:
    """A progress callback that reads the clocks at the end of warm-up and of sampling."""

    def __init__(self) -> None:
        self.begun = self.warm = self.ended = now()

    def __call__(self, done: float, total: float, note: str) -> None:
        if not note.startswith("sampling"):
            self.warm = now()
        self.ended = now()

    @property
    def warmup(self) -> Clock:
        """What warm-up took."""
        return self.warm - self.begun

    @property
    def sampling(self) -> Clock:
        """What sampling took, without warm-up before it and tables after it."""
        return self.ended - self.warm


def run(algorithm: str, problem: Any, workers: int = 1, progress: Any = None, **plan: Any) -> Result:
    """One run of a sampler on threads of this process."""
    return sample(problem, Plan(algorithm, **plan), Context(progress, Executor(workers)))


def log_null(problem: Problem) -> float:
    """Log posterior of the model without terms, on the scale of ``ModelTable.log_posterior``."""
    return float(problem.data.prior.log_size[0])


def frequency(result: Result) -> np.ndarray:
    """Share of the sampling steps during which each term was in."""
    if result.batch_means is None:
        raise ValueError("an enumeration has no frequencies")
    return result.batch_means.mean(axis=(0, 1))


def log_sum(values: np.ndarray) -> float:
    """Log of the sum of exponentials."""
    top = float(values.max())
    return top + float(np.log(np.exp(values - top).sum()))


class Ours:
    """modejump, through its samplers."""

    name = "modejump"
    most_steps = 1_000_000_000
    slow = False

    def missing(self) -> str | None:
        return None

    def prepare(self, case: Case) -> Clock:
        """Compile or load the kernels."""
        begun = now()
        self.sample(case, _FIRST_STEPS, 0)
        self.enumerate(case)
        return now() - begun

    def enumerate(self, case: Case, workers: int = 1) -> Enumerated:
        problem = case.problem
        result, clock = timed(lambda: run("enumerate", problem, workers))
        log_total = result.log_evidence - log_null(problem)
        return Enumerated(result.renormalised, log_total, result.n_models, clock)

    def sample(
        self,
        case: Case,
        steps: int,
        seed: int,
        weights: Mapping[str, float] | None = None,
        warmup: int | None = None,
    ) -> Sampled:
        clock = PhaseClock()
        budget, settings = Budget(steps=steps, warmup=warmup), Sampler(kernels=weights)
        result = run("mjmcmc", case.problem, progress=clock, chains=1, budget=budget, seed=seed, settings=settings)
        return Sampled(frequency(result), result.steps, clock.sampling, clock.warmup, result.n_models)

    def best(self, case: Case, count: int) -> float:
        """What the best ``count`` models hold, on the scale of ``capture``."""
        result = run("enumerate", case.problem, top=count)
        return log_sum(result.models.log_posterior) - log_null(case.problem)

    def capture(self, case: Case, count: int, seed: int, warm_up: bool = True) -> float:
        budget = Budget(steps=20 * count, warmup=None if warm_up else 0)
        result = run("mjmcmc", case.problem, chains=1, budget=budget, seed=seed)
        first = result.models.first_seen < count
        return log_sum(result.models.log_posterior[first]) - log_null(case.problem)
