"""Student-t errors: how heavy their tails are and the weights of the rows, found before the search proper and frozen.

A short search finds good models under the weights so far, which are all one at first. The best of them, judged by its
Student-t likelihood, gives new weights; and so on, while that finds better models. All of it works on a sample of the
rows, and from one seed for all runs, so that the weights are a function of the data, the space and the priors, unless
the budget is in seconds.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any, NamedTuple

import numpy as np

from modejump.features.expression import Expression
from modejump.kernels.evaluate import RESID_FLOOR
from modejump.likelihoods import resolve_family
from modejump.likelihoods.gaussian.student import (
    DEGREES,
    Noise,
    Student,
    bounded_log_likelihood,
    estimate_noise,
    estimate_tail,
)
from modejump.problem.feature_problem import FeatureProblem
from modejump.runtime.checkpoints import NoCheckpoint
from modejump.runtime.context import Context
from modejump.runtime.snapshots import under
from modejump.samplers.budget import Budget
from modejump.samplers.plan import Plan
from modejump.samplers.warmup.library import Collected, Model, best_models, climb
from modejump.samplers.warmup.search import Search, compile_search

# Rows of the sample, chains of a search, and its populations of each chain; or its share of a budget in seconds.
ROWS = 2048
CHAINS = 8
POPULATIONS = 40
SHARE = 0.04
# Searches at most, and models of each whose likelihood is maximised.
ROUNDS = 4
LEADING = 4
# No round begins after this share of a budget in seconds.
LAST_ROUND = 0.12
# The best models of so many chains are climbed from, by so many models in all.
CLIMBING_CHAINS = 2
EDITS = 20_000
SEED = 20_090_923
# Least gain of the log posterior that is worth another round.
GAIN = 0.01


class _Candidate(NamedTuple):
    """A model with its errors, and its log posterior, about and up to a constant."""

    model: Model
    noise: Noise
    value: float


def settle_noise(problem: Any, plan: Plan, context: Context) -> tuple[Any, Plan]:
    """The problem with weights of the rows, where its errors are Student-t, and the plan for what is left to do.

    Parameters
    ----------
    problem : FeatureProblem
        The problem; others stay as they are.
    plan : Plan
        What the sampler is to do; a budget in seconds is shortened by those spent here.
    context : Context
        Progress, executor and checkpoint.
    """
    if not isinstance(problem, FeatureProblem) or not isinstance(problem.family, Student):
        return problem, plan
    kept = context.checkpoint.reader.under("noise")
    if "dof" in kept:
        dof, spent = kept.number("dof"), kept.number("seconds")
        tail = kept.array("tail", np.float64, (2,))
        weight = kept.array("weight", np.float64, (None,), (0.0, np.inf))
        kept.need(math.isinf(dof) or len(weight) == len(problem.y), "weight")
    else:
        with context.compiling():
            compile_search(problem)
        begun = time.perf_counter()
        noise, own = _found(problem, plan, context)
        dof, weight, tail = noise.dof, noise.weight, np.array(own)
        spent = time.perf_counter() - begun
    state = {"dof": np.array(dof), "weight": weight, "tail": tail, "seconds": np.array(spent, np.float64)}
    context.checkpoint.also = under("noise", state)
    if plan.budget is not None and plan.budget.seconds is not None:
        left = max(plan.budget.seconds - spent, 0.5 * plan.budget.seconds)
        plan = dataclasses.replace(plan, budget=dataclasses.replace(plan.budget, seconds=left))
    return _frozen(problem, dof, weight, (float(tail[0]), float(tail[1]))), plan


def _frozen(
    problem: FeatureProblem, dof: float, weight: np.ndarray, tail: tuple[float, float] | None = None
) -> FeatureProblem:
    """The problem given the errors: a Gaussian one where their tails are light."""
    if math.isinf(dof):
        return dataclasses.replace(problem, family=resolve_family("gaussian"))
    return problem.with_noise(Student(dof, tail=tail), weight)


def _found(problem: FeatureProblem, plan: Plan, context: Context) -> tuple[Noise, tuple[float, float]]:
    """Errors, and those of new observations, by rounds of a search and of a better judgement of what it found."""
    rows = None
    if len(problem.y) > ROWS:
        rows = np.sort(np.random.default_rng(SEED).choice(len(problem.y), ROWS, replace=False))
    sample = current = problem.with_noise(resolve_family("gaussian"), None, rows)
    assert isinstance(problem.family, Student)
    degrees = DEGREES if problem.family.dof is None else (problem.family.dof,)
    best: _Candidate | None = None
    seconds = math.inf if plan.budget is None or plan.budget.seconds is None else plan.budget.seconds
    until = time.perf_counter() + LAST_ROUND * seconds
    for i in range(ROUNDS):
        if context.progress is not None:
            context.progress(0.01 * (i + 1), 1.0, f"weights of the rows, round {i + 1}")
        found = _judged(sample, quick_search(current, plan, context, np.random.SeedSequence([SEED, i])), degrees)
        if best is not None and found.value < best.value + GAIN:
            break
        best = found
        if math.isinf(best.noise.dof) or time.perf_counter() > until:
            break
        current = _frozen(sample, best.noise.dof, best.noise.weight)
    assert best is not None
    noise = best.noise
    if math.isinf(noise.dof):
        return noise, (noise.dof, 1.0)
    judge = _Judge(problem, best.model)
    if rows is not None:
        noise = judge.noise(best.model, _near(noise.dof, degrees))
    if problem.family.dof is not None:
        return noise, (noise.dof, 1.0)
    return noise, estimate_tail(noise, judge.case, judge.floor)


def quick_search(problem: FeatureProblem, plan: Plan, context: Context, seed: np.random.SeedSequence) -> Collected:
    """Good models of a problem, with their log posterior, by a short search.

    Parameters
    ----------
    problem : FeatureProblem
        The problem.
    plan : Plan
        What the sampler is to do: a search takes a small share of it.
    context : Context
        Progress and executor.
    seed : SeedSequence
        Where the random streams of its chains come from.
    """
    budget, steps = plan.budget or Budget(), plan.search_steps
    planned = budget.warmup if plan.algorithm == "rgmjmcmc" else budget.steps
    most = POPULATIONS if planned is None else max(1, -(-int(planned) // steps))
    context.executor.open(problem)
    context.executor.compile(compile_search)
    outcomes = Search(
        problem,
        seed.spawn(min(plan.chains, CHAINS)),
        populations=min(POPULATIONS, most),
        seconds=None if budget.seconds is None else SHARE * budget.seconds,
        memory=budget.memory,
        steps=steps,
        context=dataclasses.replace(context, progress=None, checkpoint=NoCheckpoint()),
    ).run()
    context.executor.close()
    collected: Collected = {}
    for outcome in outcomes:
        collected |= outcome.collected
    bests = {m: o.collected[m] for o in outcomes for m in best_models(o.collected, 1)}
    climb(problem, collected, best_models(bests, CLIMBING_CHAINS), EDITS)
    return collected


def _near(dof: float, degrees: tuple[float, ...]) -> tuple[float, ...]:
    """Degrees of freedom beside some."""
    at = degrees.index(dof)
    return degrees[max(at - 1, 0) : at + 2]


class _Judge:
    """Student-t likelihoods of models of some features."""

    def __init__(self, problem: FeatureProblem, features: Model) -> None:
        self.problem, self.case = problem, problem.case_weight
        table, language = problem.table, problem.language
        ordered = sorted(features)
        known = language.constants(ordered, table, problem.y, problem.root_weight**2, {})
        self.column: dict[Expression, np.ndarray] = {}
        for f in ordered:
            column = language.column(f, table, known)
            # A feature that is defined on a sample may not be so on all rows.
            if np.isfinite(column).all():
                self.column[f] = column
        self.base = [np.ones((len(problem.y), int(problem.intercept))), *problem.always_in.values()]
        # What rounding leaves is no noise.
        self.floor = math.sqrt(problem.noise_floor**2 + RESID_FLOOR * problem.base_rss / problem.n)
        self.sizes = problem.log_sizes()

    def noise(self, model: Model, degrees: tuple[float, ...]) -> Noise:
        """Errors of a model."""
        columns = [self.column[f][:, None] for f in sorted(model) if f in self.column]
        return estimate_noise(np.hstack([*self.base, *columns]), self.problem.y, self.case, degrees, self.floor)

    def candidate(self, model: Model, degrees: tuple[float, ...], estimated: bool) -> _Candidate:
        """A model with its errors and its log posterior.

        A column costs half the logarithm of the g that its model asks for, which is at least that of unit information:
        small terms beside a law have to earn their place. Gross errors are not worth a term.
        """
        noise, features, n = self.noise(model, degrees), sorted(model), self.problem.n
        prior = float(self.problem.log_weights(features).sum()) + float(self.sizes[len(features)])
        cost = 0.5 * math.log(n) if estimated and math.isfinite(noise.dof) else 0.0
        if features:
            weight = self.case * noise.weight
            left, k = float(weight @ noise.residual**2) + weight.sum() * self.floor**2, len(features)
            total = float(weight @ (self.problem.y - weight @ self.problem.y / weight.sum()) ** 2)
            cost += 0.5 * k * math.log(max(n, n * (total / left - 1.0) / k))
        return _Candidate(model, noise, bounded_log_likelihood(noise, self.case, self.floor) - cost + prior)


def _judged(problem: FeatureProblem, collected: Collected, degrees: tuple[float, ...]) -> _Candidate:
    """The best of the leading models, and of those that lack some of their features, by the Student-t likelihood."""
    leading, estimated = best_models(collected, LEADING), len(degrees) > 1
    judge = _Judge(problem, frozenset(f for model in leading for f in model))
    usable = [model for model in leading if all(f in judge.column for f in model)] or [frozenset()]
    best = judge.candidate(usable[0], degrees, estimated)
    known: dict[Model, _Candidate] = {usable[0]: best}
    for start in usable:
        some = _near(best.noise.dof, degrees)
        if start not in known:
            known[start] = judge.candidate(start, some, estimated)
        model = start
        while model:
            for f in sorted(model):
                if model - {f} not in known:
                    known[model - {f}] = judge.candidate(model - {f}, (known[model].noise.dof,), estimated)
            less = max((model - {f} for f in sorted(model)), key=lambda made: known[made].value)
            if known[less].value <= known[model].value:
                break
            model = less
        best = max(best, known[model], key=lambda made: made.value)
    return max(best, judge.candidate(best.model, degrees, estimated), key=lambda made: made.value)
