"""Errors of laws: how heavy their tails are, whether they grow with the mean, and so the weights of the rows.

They are found before the search proper, and frozen.

A short search finds good models under the weights so far, which are all one at first. The best of them, judged by its
Student-t likelihood, gives new weights; and so on, while that finds better models. All of it works on a sample of the
rows, and from one seed for all runs, so that the weights are a function of the data, the space and the priors, unless
the budget is in seconds.

The noise floor has no part in this: what errors are shows in residuals of any size. It bounds the weights at the end.

What a model misses looks like heavy tails, and a short search may miss the law. So the best model that the search
proper found judges the errors again, and where its weights are others, they take the place of the first ones before the
library is frozen.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from modejump.core.threads import one_blas_thread
from modejump.features.expression import Expression
from modejump.kernels.evaluate import RESID_FLOOR
from modejump.likelihoods import resolve_family
from modejump.likelihoods.gaussian.student import (
    DEGREES,
    SPREADS,
    Noise,
    Student,
    bounded_log_likelihood,
    estimate_noise,
    estimate_tail,
    floored_weight,
    price_of_noise,
    sizes_of,
)
from modejump.problem.feature_problem import FeatureProblem
from modejump.runtime.checkpoints import NoCheckpoint
from modejump.runtime.context import Context
from modejump.runtime.snapshots import part_of, under
from modejump.samplers.budget import Budget
from modejump.samplers.chains.workspace import all_constants
from modejump.samplers.plan import Plan
from modejump.samplers.result import SAME_BEST
from modejump.samplers.warmup.census import can_count, census_of, draw_rows, share_census
from modejump.samplers.warmup.library import Collected, Model, best_models, climb, scored_by
from modejump.samplers.warmup.refinement import RESCORED, leading_models
from modejump.samplers.warmup.search import Finished, Search, compile_search, kinds_of_chains

# Rows of the sample, chains of a search, and its populations of each chain; or its share of a budget in seconds.
ROWS = 1024
CHAINS = 8
POPULATIONS = 40
SHARE = 0.04
# Chains that evolve features, where constants are fitted inside them.
EVOLUTIONS = 2
# Searches at most, and models of each whose likelihood is maximised: the best ones of all, and those among models of
# the least complexities; of more complexities where weights have changed and models are scored again.
ROUNDS = 4
LEADING = 4
SIMPLEST, MANY_SIMPLE, ALIKE = 12, 16, 3
# No round begins after this share of a budget in seconds.
LAST_ROUND = 0.12
# The best models of so many chains are climbed from, by so many models in all.
CLIMBING_CHAINS = 2
EDITS = 20_000
SEED = 20_090_923
# Least gain of the log posterior that is worth another round.
GAIN = 0.01
# Weights of which none changes by more than this share are the same.
SAME_WEIGHTS = 0.02


class _Choice(NamedTuple):
    """Degrees of freedom and spreads that errors may have."""

    degrees: tuple[float, ...]
    spreads: tuple[float, ...]

    @classmethod
    def of(cls, family: Student) -> _Choice:
        """What a family leaves open."""
        return cls(
            DEGREES if family.dof is None else (family.dof,), SPREADS if family.spread is None else (family.spread,)
        )

    def near(self, noise: Noise) -> _Choice:
        """What is beside some errors."""
        at = self.degrees.index(noise.dof)
        return _Choice(self.degrees[max(at - 1, 0) : at + 2], (noise.spread,))


class _Candidate(NamedTuple):
    """A model with its errors, and its log posterior, about and up to a constant."""

    model: Model
    constants: Mapping[Expression, np.ndarray]
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
    if "family" in kept:
        dof, spread, *tail = kept.array("family", np.float64, (4,)).tolist()
        weight, spent = kept.array("weight", np.float64, (None,), (0.0, np.inf)), kept.number("seconds")
        kept.need(len(weight) == len(problem.y), "weight")
        settled = _frozen(problem, Student(dof, spread=spread, tail=tuple(tail)), weight)
        context.checkpoint.also = under("noise", part_of(kept.arrays, "noise"))
    else:
        with context.compiling():
            compile_search(problem)
        begun = time.perf_counter()
        sample = _sample_of(problem)
        with one_blas_thread():
            noise, judge = _found(problem, sample, plan, context)
        settled = _settled(problem, noise, judge, context)
        share_census(sample, settled)
        spent = time.perf_counter() - begun
        context.checkpoint.also["noise/seconds"] = np.array(spent)
    if plan.budget is not None and plan.budget.seconds is not None:
        left = max(plan.budget.seconds - spent, 0.5 * plan.budget.seconds)
        plan = dataclasses.replace(plan, budget=dataclasses.replace(plan.budget, seconds=left))
    return settled, dataclasses.replace(plan, unsettled=problem)


def settle_again(
    problem: FeatureProblem,
    settled: FeatureProblem,
    searched: FeatureProblem,
    collected: Collected,
    outcomes: Sequence[Finished],
    sampled: Callable[[FeatureProblem], FeatureProblem],
    context: Context,
) -> tuple[FeatureProblem, FeatureProblem, Collected, list[Finished]] | None:
    """What a search found, given the weights that its best model asks for; None where rows have these already.

    Parameters
    ----------
    problem : FeatureProblem
        The problem without weights of its rows.
    settled, searched : FeatureProblem
        The problem as it was searched, and the rows of it that were searched.
    collected : dict
        Models that the search found, with their log posterior.
    outcomes : sequence of Finished
        Its chains.
    sampled : callable
        Returns the rows of a problem that are searched.
    context : Context
        Where the weights are kept for a run that is resumed.

    Returns
    -------
    settled, searched, collected, outcomes
        The same given the new weights; of the models the leading ones.
    """
    assert isinstance(problem.family, Student)
    choice = _Choice.of(problem.family)
    best = _judged(searched, searched, collected, choice)
    noise, judge = best.noise, _Judge(problem, best.constants, best.model)
    if len(searched.y) < len(problem.y):
        noise = judge.noise(best.model, choice.near(noise))
    before, after = (1.0 if weight is None else weight for weight in (settled.noise_weight, _scaled(noise, judge)))
    if np.all(np.abs(after / before - 1.0) <= SAME_WEIGHTS):
        return None
    made = _settled(problem, noise, judge, context)
    again = sampled(made)
    share_census(searched, again)
    scores = scored_by(again, leading_models(collected, RESCORED, MANY_SIMPLE, ALIKE))[0]
    top = best_models(scores, 1)[0]
    moved = [dataclasses.replace(o, bests=_moved(o, top, collected[top], scores[top])) for o in outcomes]
    return made, again, scores, moved


def _moved(outcome: Finished, top: Model, before: float, after: float) -> np.ndarray:
    """The best log posteriors of searches, where the best model has another one now, and may be another one."""
    reached = np.abs(outcome.bests - before) <= SAME_BEST
    reached[-1] |= top in outcome.collected
    return np.where(reached, after, np.minimum(outcome.bests - before, -1.0) + after)


def _scaled(noise: Noise, judge: _Judge) -> np.ndarray | None:
    """Weights of the rows, one on average, None where all are one."""
    weight = floored_weight(noise, judge.problem.noise_floor)
    return None if noise.gaussian else weight * (judge.case.sum() / (judge.case @ weight))


def _settled(problem: FeatureProblem, noise: Noise, judge: _Judge, context: Context) -> FeatureProblem:
    """The problem given some errors, which are kept for a run that is resumed."""
    assert isinstance(problem.family, Student)
    tail, floor = (noise.dof, 1.0), problem.noise_floor
    if not noise.gaussian:
        tail = estimate_tail(noise, judge.case, judge.rounding, problem.family.dof, floor)
    weight = floored_weight(noise, floor)
    state = {"family": np.array([noise.dof, noise.spread, *tail]), "weight": weight}
    context.checkpoint.also = context.checkpoint.also | under("noise", state)
    return _frozen(problem, Student(noise.dof, spread=noise.spread, tail=tail), weight)


def _frozen(problem: FeatureProblem, errors: Student, weight: np.ndarray) -> FeatureProblem:
    """The problem given the errors: a Gaussian one where their tails are light and all rows are alike."""
    if errors.dof == math.inf and not errors.spread:
        return dataclasses.replace(problem, family=resolve_family("gaussian"))
    return problem.with_noise(errors, weight)


def _sample_of(problem: FeatureProblem) -> FeatureProblem:
    """The rows that the errors are found by, all alike and without a noise floor."""
    rows = None
    if len(problem.y) > ROWS:
        rows = draw_rows(len(problem.y), ROWS, np.random.default_rng(SEED))
    return dataclasses.replace(problem, noise_floor=0.0).with_noise(resolve_family("gaussian"), None, rows)


def _found(problem: FeatureProblem, sample: FeatureProblem, plan: Plan, context: Context) -> tuple[Noise, _Judge]:
    """Errors, and who judged them, by rounds of a search and of a better judgement of what it found."""
    if can_count(sample):
        census_of(sample)
    assert isinstance(problem.family, Student)
    choice = _Choice.of(problem.family)
    seconds = math.inf if plan.budget is None or plan.budget.seconds is None else plan.budget.seconds
    until = time.perf_counter() + LAST_ROUND * seconds

    def searched(i: int, errors: Student, weight: np.ndarray) -> _Candidate:
        if context.progress is not None:
            context.progress(0.01 * (i + 1), 1.0, f"weights of the rows, round {i + 1}")
        current, seed = _frozen(sample, errors, weight), np.random.SeedSequence([SEED, i])
        share_census(sample, current)
        return _judged(sample, current, quick_search(current, plan, context, seed), choice)

    starts = list(_starts(sample, choice))
    best = max((searched(i, *start) for i, start in enumerate(starts)), key=lambda made: made.value)
    for i in range(len(starts), ROUNDS):
        if best.noise.gaussian or time.perf_counter() > until:
            break
        found = searched(i, Student(best.noise.dof, spread=best.noise.spread), best.noise.weight)
        if found.value < best.value + GAIN:
            break
        best = found
    noise, judge = best.noise, _Judge(problem, best.constants, best.model)
    if len(sample.y) < len(problem.y):
        noise = judge.noise(best.model, choice.near(noise))
    return noise, judge


def _starts(problem: FeatureProblem, choice: _Choice) -> Iterator[tuple[Student, np.ndarray]]:
    """Errors to begin with: rows that are alike, and errors in proportion to the response where that is possible.

    Where responses differ a thousandfold, the largest alone would decide what the first of these searches finds.
    """
    y = problem.y
    yield Student(math.inf, spread=0.0), np.ones(len(y))
    if max(choice.spreads) > 0.0 and not y.min() < 0.0 < y.max():
        size, _ = sizes_of(y, max(choice.spreads), problem.case_weight)
        yield Student(math.inf, spread=max(choice.spreads)), size**-2.0


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
    evolve, populations = kinds_of_chains(problem, min(plan.chains, CHAINS), EVOLUTIONS)
    outcomes = Search(
        problem,
        seed.spawn(populations or evolve),
        populations=min(POPULATIONS, most),
        seconds=None if budget.seconds is None else SHARE * budget.seconds,
        memory=budget.memory,
        steps=steps,
        evolutions=evolve if problem.language.fits_constants else 0,
        context=dataclasses.replace(context, progress=None, checkpoint=NoCheckpoint()),
    ).run()
    context.executor.close()
    collected: Collected = {}
    for outcome in outcomes:
        collected |= outcome.collected
    bests = {m: o.collected[m] for o in outcomes for m in best_models(o.collected, 1)}
    if populations:
        climb(problem, collected, best_models(bests, CLIMBING_CHAINS), EDITS)
    return collected


class _Judge:
    """Student-t likelihoods of models of some features, with these constants inside them."""

    def __init__(self, problem: FeatureProblem, constants: Mapping[Expression, np.ndarray], features: Model) -> None:
        self.problem, self.case, self.constants = problem, problem.case_weight, constants
        self.column: dict[Expression, np.ndarray] = {}
        for f in features:
            column = problem.language.column(f, problem.table, constants)
            # A feature that is defined on a sample may not be so on all rows.
            if np.isfinite(column).all():
                self.column[f] = column
        self.base = [np.ones((len(problem.y), int(problem.intercept))), *problem.always_in.values()]
        # What rounding leaves is no noise.
        self.rounding = math.sqrt(RESID_FLOOR * problem.base_rss / problem.n)
        self.sizes = problem.log_sizes()

    def noise(self, model: Model, choice: _Choice) -> Noise:
        """Errors of a model."""
        columns = [self.column[f][:, None] for f in sorted(model) if f in self.column]
        design = np.hstack([*self.base, *columns])
        return estimate_noise(design, self.problem.y, self.case, choice.degrees, self.rounding, choice.spreads)

    def candidate(self, model: Model, choice: _Choice, of: _Choice) -> _Candidate:
        """A model with its errors, chosen from some of those that there are, and its log posterior.

        A column, or a constant inside it, costs half the logarithm of the g that its model asks for, which is at least
        that of unit information: small terms beside a law have to earn their place. Gross errors are not worth a term,
        nor do they decide whether errors grow with the mean.
        """
        spreads = (_Choice(choice.degrees, (spread,)) for spread in choice.spreads)
        return max((self._valued(model, self.noise(model, some), of) for some in spreads), key=lambda made: made.value)

    def _valued(self, model: Model, noise: Noise, of: _Choice) -> _Candidate:
        """A model with some errors, and its log posterior."""
        features, n = sorted(model), self.problem.n
        prior = float(self.problem.log_weights(features).sum()) + float(self.sizes[len(features)])
        cost = price_of_noise(noise, self.case, of.degrees, of.spreads)
        if features:
            weight = self.case * noise.weight
            left, k = float(weight @ noise.residual**2) + weight.sum() * self.rounding**2, len(features)
            total = float(weight @ (self.problem.y - weight @ self.problem.y / weight.sum()) ** 2)
            k += sum(f.constants for f in features)
            cost += 0.5 * k * math.log(max(n, n * (total / left - 1.0) / k))
        return _Candidate(
            model, self.constants, noise, bounded_log_likelihood(noise, self.case, self.rounding) - cost + prior
        )


def _judged(problem: FeatureProblem, current: FeatureProblem, collected: Collected, choice: _Choice) -> _Candidate:
    """The best of the leading models, and of those that lack some of their features, by their likelihood.

    They were found, and their constants fitted, under the weights of the current problem.
    """
    # Under heavy tails a simpler one may lead.
    leading = leading_models(collected, LEADING, SIMPLEST, ALIKE)
    features = frozenset(f for model in leading for f in model)
    judge = _Judge(problem, all_constants(current, sorted(features), {}), features)
    usable = [model for model in leading if all(f in judge.column for f in model)] or [frozenset()]
    best = judge.candidate(usable[0], choice, choice)
    known: dict[Model, _Candidate] = {usable[0]: best}
    for start in usable:
        if start not in known:
            known[start] = judge.candidate(start, choice.near(best.noise), choice)
        model = start
        while model:
            same = _Choice((known[model].noise.dof,), (known[model].noise.spread,))
            for f in sorted(model):
                if model - {f} not in known:
                    known[model - {f}] = judge.candidate(model - {f}, same, choice)
            less = max((model - {f} for f in sorted(model)), key=lambda made: known[made].value)
            if known[less].value <= known[model].value:
                break
            model = less
        best = max(best, known[model], key=lambda made: made.value)
    return max(best, judge.candidate(best.model, choice, choice), key=lambda made: made.value)
