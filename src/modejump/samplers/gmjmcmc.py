"""GMJMCMC: chains of populations, merged into renormalised estimates over all distinct models."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from modejump.core.random import fresh_sequence
from modejump.features.expression import Expression
from modejump.problem.feature_problem import FeatureProblem
from modejump.runtime.context import Context
from modejump.samplers.budget import Budget
from modejump.samplers.laws import laws_from
from modejump.samplers.plan import Plan
from modejump.samplers.result import Result
from modejump.samplers.warmup.library import Collected
from modejump.samplers.warmup.search import STEPS, Finished, Search, compile_search

DEFAULT_POPULATIONS = 250


def gmjmcmc(problem: FeatureProblem, plan: Plan, context: Context) -> Result:
    """Search the feature space by chains of populations.

    Parameters
    ----------
    problem : FeatureProblem
        What to search.
    plan : Plan
        Chains, each of which is run to its end before the next one of its worker begins; a budget of ``steps`` of each
        chain, or of ``seconds`` for all chains together.
    context : Context
        Progress, executor and checkpoint.
    """
    budget = plan.budget or Budget(steps=DEFAULT_POPULATIONS * STEPS)
    with context.compiling():
        compile_search(problem)
    context.executor.open(problem)
    context.executor.compile(compile_search)
    began = context.checkpoint.begin("gmjmcmc")
    search = Search(
        problem,
        fresh_sequence(plan.seed).spawn(plan.chains),
        populations=max(1, -(-budget.sampling_steps() // plan.search_steps)),
        seconds=budget.seconds,
        memory=budget.memory,
        steps=plan.search_steps,
        context=context,
        state={"phase": "search"},
    )
    finished = True
    try:
        search.run()
    except KeyboardInterrupt:
        if not any(outcome.collected for outcome in search.outcomes()):
            raise
        finished = False
    return result_of_search(problem, search.outcomes(), time.perf_counter() - began, finished)


def result_of_search(
    problem: FeatureProblem,
    outcomes: Sequence[Finished],
    seconds: float,
    finished: bool = True,
) -> Result:
    """Renormalised estimates over the distinct models of all chains."""
    collected: Collected = {}
    constants: dict[Expression, np.ndarray] = {}
    for outcome in outcomes:
        collected |= outcome.collected
        constants |= outcome.constants
    laws, models = laws_from(problem, collected, constants)
    values = models.log_posterior
    weight = np.exp(values - values[0])
    probability = weight / weight.sum()
    members = models.membership(len(laws.features))
    return Result(
        algorithm="gmjmcmc",
        exact=False,
        models=models,
        n_models=len(values),
        log_evidence=float(values[0] + np.log(weight.sum())),
        renormalised=np.minimum(probability @ members, 1.0),
        size_distribution=np.bincount(members.sum(axis=1), weights=probability, minlength=len(laws.features) + 1),
        steps=sum(o.steps for o in outcomes),
        seconds=seconds,
        finished=finished,
        chain_best=np.array([o.best for o in outcomes]),
        populations=sum(o.populations for o in outcomes),
        restarts=sum(o.restarts for o in outcomes),
        laws=laws,
        search_best=np.array([o.best for o in outcomes]),
        noise_weight=problem.noise_weight,
    )
