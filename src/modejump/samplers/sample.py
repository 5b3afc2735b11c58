"""The one way to run a sampler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modejump.core.threads import one_blas_thread
from modejump.problem.wide_problem import WideProblem
from modejump.runtime.context import Context
from modejump.samplers.enumerate import enumerate_models
from modejump.samplers.gmjmcmc import gmjmcmc
from modejump.samplers.mjmcmc import mjmcmc
from modejump.samplers.plan import Plan
from modejump.samplers.result import Result
from modejump.samplers.rgmjmcmc import rgmjmcmc
from modejump.samplers.sample_search import SampledRows, sample_search
from modejump.samplers.wide_selection import wide_selection

SAMPLERS: dict[str, Callable[[Any, Plan, Context], Result]] = {
    "enumerate": enumerate_models,
    "mjmcmc": mjmcmc,
    "gmjmcmc": gmjmcmc,
    "rgmjmcmc": rgmjmcmc,
}


def sample(problem: Any, plan: Plan, context: Context | None = None) -> Result:
    """Run a sampler on a problem.

    Parameters
    ----------
    problem : Problem, FeatureProblem or SampledRows
        The target: a Problem for "enumerate" and "mjmcmc", a FeatureProblem for "gmjmcmc" and "rgmjmcmc". Of rows that
        are read in chunks, features are searched on a sample whatever the algorithm.
    plan : Plan
        What to do.
    context : Context, optional
        Progress, executor and checkpoint; by default one thread, and nothing is kept.

    Examples
    --------
    >>> import numpy as np
    >>> from modejump.problem.problem import Problem
    >>> x = np.random.default_rng(1).normal(size=(50, 3))
    >>> sample(Problem.build(x, x[:, 0] + x[:, 2]), Plan("enumerate")).n_models
    8
    """
    context = context or Context()
    sampler: Callable[[Any, Plan, Context], Result] = SAMPLERS[plan.algorithm]
    if isinstance(problem, SampledRows):
        sampler = sample_search
    elif isinstance(problem, WideProblem):
        sampler = wide_selection
    try:
        with one_blas_thread():
            return sampler(problem, plan, context)
    finally:
        context.executor.close()
        context.checkpoint.close()
