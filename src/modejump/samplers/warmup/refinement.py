"""Constants of the leading model, refined together before the library is frozen.

The constants of a feature are fitted so that it explains the response best by itself. Beside other terms others are
better, and a law of several terms is then worth less than it could be, so that terms which only mend the constants come
in. So the leading models' constants are fitted once more, all constants of a model together, with all coefficients
profiled out. Those of the best model are frozen: from then on its features have these constants in every model, so that
a model's posterior probability stays a function of the model.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from modejump.features.expression import Expression
from modejump.kernels.evaluate import RESID_FLOOR
from modejump.problem.feature_problem import FeatureProblem
from modejump.samplers.chains.genetic_chain import ALIKE, SIMPLEST
from modejump.samplers.chains.workspace import fitted_constants
from modejump.samplers.warmup.census import unit
from modejump.samplers.warmup.joint_exchange import Sum, fit_together
from modejump.samplers.warmup.library import Collected, Model, best_first, best_models, climb, scored_by

# Models whose constants are refined: the best of all, and the best of each complexity among the simplest, as chains
# collect them; so many at most, and fewer where there are more rows than this.
LEADING = 8
MOST, MANY_ROWS = 40, 10_000
# Of these so many are evaluated as the sampler does.
EVALUATED = 4
# Evaluations of a fit for each constant.
EFFORT = 40
# Gain in log posterior that is worth it.
GAIN = 0.01
# How often, and models with refined constants that are evaluated again.
ROUNDS = 3
RESCORED = 200


def always() -> bool:
    """There is time."""
    return True


def can_refine(problem: FeatureProblem) -> bool:
    """Whether features have constants that are fitted jointly, by least squares."""
    return bool(problem.language.joint_constants) and problem.family.conjugate


def leading_models(collected: Collected, leading: int, simplest: int, alike: int) -> list[Model]:
    """The best models, and the best ones of each complexity among the simplest.

    Parameters
    ----------
    collected : dict
        Models with their log posterior.
    leading : int
        How many of the best.
    simplest, alike : int
        Complexities, and models of each.
    """
    of: dict[int, list[Model]] = {}
    for model, _ in best_first(collected):
        of.setdefault(sum(f.complexity for f in model), []).append(model)
    simple = [model for complexity in sorted(of)[:simplest] for model in of[complexity][:alike]]
    return list(dict.fromkeys([*best_models(collected, leading), *simple]))


def refine_together(
    problem: FeatureProblem, model: Sequence[Expression], constants: Mapping[Expression, np.ndarray]
) -> tuple[dict[Expression, np.ndarray], float, float]:
    """Constants of a model, fitted together, and the residual shares before and after.

    Parameters
    ----------
    problem : FeatureProblem
        The rows, with a Gaussian response.
    model : sequence of Feature
        The features.
    constants : mapping of a feature to ndarray
        Constants to begin with, of each feature that has some.
    """

    def column(feature: Expression, given: Mapping[Expression, np.ndarray]) -> np.ndarray:
        return problem.language.column(feature, problem.table, given)

    def beside(columns: np.ndarray) -> np.ndarray:
        z = columns * problem.root_weight
        return unit(z - (z @ problem.basis.T) @ problem.basis)

    return fit_together(model, constants, column, beside, problem.response[0], EFFORT)


def refine_leading(
    problem: FeatureProblem, collected: Collected, sums: Sequence[Sum] = (), has_time: Callable[[], bool] = always
) -> tuple[Model, FeatureProblem, float] | None:
    """The best of the leading models once its constants are refined, the problem with these, and the log posterior.

    None where nothing is gained, or another model stays the best.

    Parameters
    ----------
    problem : FeatureProblem
        The problem.
    collected : dict
        Models that the search found, with their log posterior.
    sums : sequence of Sum
        Models with constants to begin with.
    has_time : callable
        Whether there is time for another model.
    """
    most = max(min(MOST, MANY_ROWS // len(problem.y)), LEADING)
    leading = [
        model
        for model in leading_models(collected, LEADING, SIMPLEST, ALIKE)
        if len(model) > 1 and any(f.constants for f in model)
    ][:most]
    known = fitted_constants(problem, sorted({f for model in leading for f in model if f.constants}))
    floor = RESID_FLOOR + problem.n * problem.noise_floor**2 / problem.base_rss
    refined: list[tuple[float, Model, dict[Expression, np.ndarray]]] = []
    for model in leading:
        if has_time() and all(f in known for f in model if f.constants):
            made, before, after = refine_together(problem, sorted(model), known)
            gain = 0.5 * problem.n * math.log((before + floor) / (after + floor))
            refined.append((collected[model] + gain, model, made))
    best, value = None, max(collected.values(), default=-math.inf) + GAIN
    refined = sorted(refined, key=lambda of: -of[0])[:EVALUATED]
    best_of = {of.model: of for of in sorted(sums, key=lambda of: of.value)}
    for model, known, about in (of for of in best_of.values() if of.constants):
        refined.append((about, model, refine_together(problem, sorted(model), known)[0]))
    for _, model, made in refined:
        given = dataclasses.replace(problem, refined={**problem.refined, **made})
        scored = scored_by(given, [model])[0].get(model, -math.inf)
        if scored > max(value, collected.get(model, -math.inf) + GAIN):
            best, value = (model, given, scored), scored
    return best


def refine_search(
    problem: FeatureProblem,
    collected: Collected,
    edits: int,
    sums: Sequence[Sum] = (),
    has_time: Callable[[], bool] = always,
) -> tuple[FeatureProblem, Collected, dict[Model, float]]:
    """Refine the leading model, edit it, and again, as long as that makes it better.

    Parameters
    ----------
    problem : FeatureProblem
        The problem.
    collected : dict
        Models that the search found, with their log posterior.
    edits : int
        Models that the edits may evaluate each time, about.
    sums : sequence of Sum
        Models with constants to begin with.
    has_time : callable
        Whether there is time for another model.

    Returns
    -------
    problem, collected, refined
        The problem with frozen constants, the models as these have it, and the models refined with their log posterior.
    """
    refined: dict[Model, float] = {}
    for _ in range(ROUNDS):
        found = refine_leading(problem, collected, sums, has_time)
        if found is None:
            break
        model, problem, refined[model] = found
        collected = rescored(problem, collected) | {model: refined[model]}
        climb(problem, collected, [model], edits)
    return problem, collected, refined


def rescored(problem: FeatureProblem, collected: Collected) -> Collected:
    """The models as refined constants have it; of those with such constants the best alone.

    Parameters
    ----------
    problem : FeatureProblem
        The problem with refined constants.
    collected : dict
        Models with their log posterior before.
    """
    changed = set(problem.refined)
    stale = {model: value for model, value in collected.items() if not changed.isdisjoint(model)}
    kept = {model: value for model, value in collected.items() if model not in stale}
    return kept | scored_by(problem, best_models(stale, RESCORED))[0]
