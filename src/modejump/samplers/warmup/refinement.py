"""Constants of the leading model, refined together before the library is frozen.

The constants of a feature are fitted so that it explains the response best by itself. Beside other terms others are
better, and a law of several terms is then worth less than it could be, so that terms which only mend the constants come
in. So the leading models' constants are fitted once more, all constants of a model together, with all coefficients
profiled out. Those of the best model are frozen: from then on its features have these constants in every model, so that
a model's posterior probability stays a function of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from modejump.features.expression import Expression
from modejump.kernels.evaluate import RESID_FLOOR
from modejump.problem.feature_problem import FeatureProblem
from modejump.samplers.chains.genetic_chain import ALIKE, SIMPLEST
from modejump.samplers.chains.workspace import fitted_constants
from modejump.samplers.warmup.joint_exchange import Sum, refine_together
from modejump.samplers.warmup.library import Collected, Model, best_first, best_models, climb, scored_by
from modejump.samplers.warmup.search import Finished

# Models whose constants are refined: the best of all, and the best of each complexity among the simplest, as chains
# collect them; so many at most, and fewer where there are more rows than this.
LEADING = 8
MOST, MANY_ROWS = 40, 10_000
# Of these so many are evaluated as the sampler does.
EVALUATED = 4
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
    refined += [(of.value, of.model, of.constants) for of in best_of.values() if of.constants]
    for _, model, made in refined:
        given = replace(problem, refined={**problem.refined, **made})
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


def reached_again(
    outcomes: Sequence[Finished], refined: Mapping[Model, float], sums: Sequence[Sum], collected: Collected
) -> list[Finished]:
    """What searches reached, where models are worth more with refined constants.

    Parameters
    ----------
    outcomes : sequence of Finished
        The chains of the search.
    refined : mapping of a model to float
        Models with refined constants, and their log posterior now.
    sums : sequence of Sum
        Where attempts at sums ended: each is a search of its own, whether it has reached the best model or not.
    collected : dict
        The log posterior of other models.
    """
    made = list(outcomes)
    for model, value in refined.items():
        # A search has reached the model where it met it, whatever that was worth then.
        made = [replace(o, bests=np.append(o.bests[:-1], value)) if model in o.collected else o for o in made]
    reached = [refined.get(end.model, collected.get(end.model, -math.inf)) for end in sums]
    return [*made[:-1], replace(made[-1], bests=np.append(made[-1].bests, reached))]


def reached_by_all_rows(outcomes: Sequence[Finished], sampled: Collected, scored: Collected) -> list[Finished]:
    """What searches of a sample of the rows reached, where models have been scored by all rows.

    A sample hardly tells some models from others, and may prefer one that is worse by all rows. So a search has reached
    the best model where it met one that is as good by the sample.

    Parameters
    ----------
    outcomes : sequence of Finished
        The chains of the search.
    sampled, scored : dict
        Models with their log posterior by the sample, and by all rows.
    """
    # All good models of a sample may be undefined in other rows: then the base model is left, which is worth nothing.
    best = max(scored, key=lambda model: scored[model], default=frozenset())
    as_good = sampled.get(best, max(sampled.values(), default=0.0))
    return [replace(o, bests=scored.get(best, 0.0) + np.minimum(o.bests - as_good, 0.0)) for o in outcomes]


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
