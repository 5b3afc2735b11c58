"""What is left to do at the end of a search: exchanges in the best models, and a search that begins at the best one.

In an exchange, up to two members of a model give way to two other features. Replacing one member after another gets
stuck where a law and a correction beside it together are better than a third feature that imitates both, but each alone
is worse. So all pairs of simple features, and of features that good models have, are compared in the place of every
member of the best models, and of every two. By the paper's rules, products of rich factors follow, where a budget in
seconds has time for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from modejump.problem.feature_problem import FeatureProblem
from modejump.runtime.executors import Executor
from modejump.samplers.chains.evolution_chain import EvolutionChain
from modejump.samplers.chains.workspace import fitted_constants
from modejump.samplers.warmup.census import (
    Census,
    basis_of,
    can_count,
    census_of,
    pairs_beside,
    unit_without,
    ways_out,
)
from modejump.samplers.warmup.library import Collected, Model, best_models, log_importance, scored_by
from modejump.samplers.warmup.rich_products import can_be_rich, try_products
from modejump.samplers.warmup.search import Finished, rounds

# Features of good models that are looked at, and of all, simple ones among them; members that make way at most.
KNOWN, MOST = 250, 2500
MOST_OUT = 2
# Models that are evaluated of each one that is left, and how often there is a next one.
EVALUATED = 30
ROUNDS = 4
# Models in which members are exchanged. Chains that begin at the best one, and generations of each; where there is a
# budget in seconds, this share of the search's, or the second one where constants are fitted.
EXCHANGED = 3
POLISHES, GENERATIONS = 2, 400
SHARE, FITTING_SHARE = 0.4, 0.15
# Share of the time left for these chains, where products of rich factors are tried after them.
EVOLVED = 0.5


def polish_share_of(problem: FeatureProblem) -> float:
    """Share of the time of a search that is left for its end."""
    if not can_count(problem):
        return 0.0
    return FITTING_SHARE if problem.language.fits_constants else SHARE


def polish(
    problem: FeatureProblem,
    collected: Collected,
    bests: Sequence[Model],
    seeds: Sequence[np.random.SeedSequence],
    executor: Executor,
    memory: int,
    until: float | None,
) -> None:
    """Exchange members of the best models, evolve the best one on, and exchange its members; adds what is met.

    Parameters
    ----------
    problem : FeatureProblem
        The target, for which there can be a census.
    collected : dict
        Models with their log posterior.
    bests : sequence of sets of features
        The best model of each chain of the search.
    seeds : sequence of SeedSequence
        Streams of the chains that evolve the best model.
    executor : Executor
        Who works on them.
    memory : int
        Bytes for the columns that they keep.
    until : float, optional
        When to end, by the clock.
    """

    def has_time() -> bool:
        return until is None or time.perf_counter() < until

    exchange(problem, collected, best_models(collected, EXCHANGED), bests, has_time)
    best = sorted(best_models(collected, 1)[0])
    if not best:
        return
    parts = min(executor.workers, len(seeds)) / len(seeds)
    # They take seconds, which a budget in steps does not grant.
    rich = until is not None and can_be_rich(problem)
    share = None if until is None else max(until - time.perf_counter(), 0.0) * parts * (EVOLVED if rich else 1.0)

    def evolved(seed: np.random.SeedSequence) -> Finished:
        chain = EvolutionChain(problem, seed, memory=memory // len(seeds), start=best)
        for _ in rounds(chain, GENERATIONS, share, time.perf_counter()):
            pass
        return Finished.of(chain)

    for outcome in executor.pool.map(evolved, seeds):
        collected |= outcome.collected
    if rich:
        try_products(problem, collected, executor, has_time)
    exchange(problem, collected, best_models(collected, 1), bests, has_time)


def exchange(
    problem: FeatureProblem,
    collected: Collected,
    starts: Sequence[Model],
    others: Sequence[Model],
    has_time: Callable[[], bool],
) -> None:
    """Exchange members of models for two other features as long as that makes them better; adds what is met.

    Parameters
    ----------
    problem : FeatureProblem
        The target, for which there can be a census.
    collected : dict
        Models with their log posterior, the first ones among them.
    starts : sequence of sets of features
        Where to begin.
    others : sequence of sets of features
        Models whose features are to be looked at in any case.
    has_time : callable
        Whether there is time for another model.
    """
    census = census_of(problem)
    for model in starts:
        for _ in range(ROUNDS):
            if not has_time():
                return
            tried = _exchanged(problem, census, collected, model, others)
            found = scored_by(problem, tried)[0] if tried else {}
            collected |= found
            best = max(found, key=lambda made: found[made], default=model)
            if not collected[best] > collected[model] + 1e-6:
                break
            model = best


def _exchanged(
    problem: FeatureProblem, census: Census, collected: Collected, model: Model, others: Sequence[Model]
) -> list[Model]:
    """Models with two features in the place of up to two members, the most promising ones."""
    importance = log_importance(collected)
    known = sorted(importance, key=lambda f: (-importance[f], f.text))[:KNOWN]
    first = sorted(model.union(*others))
    pool = list(dict.fromkeys([*first, *known, *census.simple()]))[:MOST]
    constants = fitted_constants(problem, [f for f in pool if f.constants])
    with np.errstate(all="ignore"):
        rows = np.array([census.column(f, constants) for f in pool])
    defined = np.isfinite(rows).all(axis=1)
    pool, rows = [f for f, good in zip(pool, defined, strict=True) if good], rows[defined]
    constant = basis_of(census.root[None])
    rows, y = unit_without(rows, census.root, constant), unit_without(census.y[None], census.root, constant)
    weight = census.price[[f.complexity for f in pool]]
    inside = np.flatnonzero([f in model for f in pool])
    ways = [out for out in ways_out(len(inside), MOST_OUT) if len(inside) - len(out) + 2 <= problem.size]
    tried: list[tuple[float, Model]] = []
    found = pairs_beside(rows, rows[inside], y[0], weight, ways, 0.5 * problem.n)
    for out, (value, partner) in zip(ways, found, strict=True):
        rest = np.delete(inside, out)
        kept = frozenset(pool[i] for i in rest)
        for i in np.argsort(-value, kind="stable")[:EVALUATED]:
            if partner[i] >= 0:
                tried.append((float(value[i] + weight[rest].sum()), kept | {pool[i], pool[partner[i]]}))
    tried.sort(key=lambda of: -of[0])
    return list(dict.fromkeys(made for _, made in tried if made not in collected))[:EVALUATED]
