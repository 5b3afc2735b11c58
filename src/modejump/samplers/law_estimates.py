"""From reversible chains to laws: frequencies by law, models with visits, renormalised estimates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from modejump.core.threads import ThreadPool
from modejump.features.expression import Expression
from modejump.kernels.moves import KERNELS
from modejump.kernels.populations.moves import POPULATION_MOVES
from modejump.problem.feature_problem import FeatureProblem
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.laws import MOST_MODELS, Drawn, Laws, laws_from, leading
from modejump.samplers.merge import merged_stores, weighted_inclusion
from modejump.samplers.result import ModelTable, Result, acceptance_of
from modejump.samplers.warmup.library import Collected
from modejump.samplers.warmup.search import Finished

# The best models stand for the posterior where they were visited in this share of the steps.
HELD = 0.95
Counted = dict[frozenset[Expression], tuple[float, int, int]]


class _Evaluated:
    """All models that the chains evaluated: those inside the library by bits, others by their features."""

    def __init__(self, chains: Sequence[ReversibleChain], collected: Collected, pool: ThreadPool) -> None:
        self.chain = chains[0]
        words = self.chain.first // 64
        # Best first.
        models = merged_stores([c.arrays.chain.store for c in chains], pool).models
        inside = (models.words[:, words:] == 0).all(axis=1)
        self.words = np.ascontiguousarray(models.words[inside, :words])
        self.values = models.log_posterior[inside]
        self.visits, self.visitors = models.visits[inside], models.chains[inside]
        self.outside = _models_outside(chains)
        library = set(self.chain.library)
        for model, value in collected.items():
            if model not in self.outside and not model <= library:
                self.outside[model] = (value, 0, 0)
        self.outside_values = np.array([value for value, _, _ in self.outside.values()])
        self.top = float(max(self.values.max(initial=-np.inf), self.outside_values.max(initial=-np.inf)))
        # Sum of the posteriors, relative to the best.
        self.total = float(np.exp(self.values - self.top).sum() + np.exp(self.outside_values - self.top).sum())

    def renormalised(self) -> dict[Expression, float]:
        """Inclusion probability of each feature, renormalised over all models."""
        features = self.chain.library
        share = weighted_inclusion(self.words, np.exp(self.values - self.top) / self.total, 64 * self.words.shape[1])
        found = {f: float(p) for f, p in zip(features, share, strict=False)}
        for model, (value, _, _) in self.outside.items():
            # The order of a set depends on how it was made, and sums on their order.
            for f in sorted(model):
                found[f] = found.get(f, 0.0) + float(np.exp(value - self.top)) / self.total
        return found

    def leading(self) -> Counted:
        """The best models, by features."""
        found: Counted = {
            self.chain.model_of(self.words[m]): (float(self.values[m]), int(self.visits[m]), int(self.visitors[m]))
            for m in range(min(len(self.values), MOST_MODELS))
        }
        return found | self.outside

    def counted(self, models: Iterable[frozenset[Expression]]) -> Counted:
        """Those of these models that were evaluated inside the library, by features."""
        position = {f: j for j, f in enumerate(self.chain.library)}
        row_of = {row.tobytes(): i for i, row in enumerate(self.words)}
        found: Counted = {}
        for model in models:
            words = np.zeros(self.words.shape[1], np.uint64)
            for j in [position.get(f, -1) for f in model]:
                words[j >> 6] |= np.uint64(1) << np.uint64(j & 63)
            m = row_of.get(words.tobytes(), -1)
            if m >= 0 and all(f in position for f in model):
                found[model] = (float(self.values[m]), int(self.visits[m]), int(self.visitors[m]))
        return found

    def shared_visits(self) -> int:
        """Visits to models that two chains or more visited."""
        outside = sum(visits for _, visits, chains in self.outside.values() if chains >= 2)
        return int(self.visits[self.visitors >= 2].sum()) + outside


def _models_outside(chains: Sequence[ReversibleChain]) -> Counted:
    """Models with fresh features: log posterior, visits, and chains that visited them."""
    found: Counted = {}
    for chain in chains:
        for model, (value, visits) in chain.fresh_models.items():
            _, before, visitors = found.get(model, (value, 0, 0))
            found[model] = (value, before + visits, visitors + (visits > 0))
    return found


def _counted_draws(chains: Sequence[ReversibleChain]) -> Drawn:
    """The models at the ends of batches, with their log posterior and how often each was met there."""
    drawn: Drawn = {}
    for chain in chains:
        for model, value in chain.draws:
            drawn[model] = (value, drawn.get(model, (value, 0))[1] + 1)
    return drawn


def _laws(problem: FeatureProblem, chains: Sequence[ReversibleChain], evaluated: _Evaluated) -> tuple[Laws, ModelTable]:
    """Laws of the best models, and these; draws stand for models that no table holds, where most steps were there."""
    counted = evaluated.leading()
    collected = {model: value for model, (value, _, _) in counted.items()}
    steps = float(np.sum([c.arrays.chain.record.sizes for c in chains]))
    held = sum(counted[model][1] for model, _ in leading(collected, problem.x.shape[1]))
    drawn = _counted_draws(chains) if held < HELD * steps else {}
    features = sorted({f for model in [*counted, *drawn] for f in model})
    if drawn:
        counted |= evaluated.counted(model for model in drawn if model not in counted)
    counts = {model: (visits, visitors) for model, (_, visits, visitors) in counted.items()}
    return laws_from(problem, collected, chains[0].constants_of(features), counts, drawn)


def _law_index(laws: Laws) -> dict[Expression, int]:
    """For each feature, its aliases included, the number of its law."""
    index = {f: i for i, f in enumerate(laws.features)}
    for law, aliases in laws.aliases.items():
        index |= dict.fromkeys(aliases, index[law])
    return index


def batch_means(chains: Sequence[ReversibleChain], index: Mapping[Expression, int], laws: int) -> np.ndarray:
    """Share of each batch during which each law was in, whichever its spelling: two at once have probability zero."""
    means = np.zeros((len(chains), len(chains[0].means), laws))
    features = chains[0].library
    known = [(j, index[f]) for j, f in enumerate(features) if f in index]
    for c, chain in enumerate(chains):
        inside = np.array(chain.means)
        for j, law in known:
            means[c, :, law] += inside[:, j]
        for b, stays in enumerate(chain.stays[: len(chain.means)]):
            for f, steps in stays.items():
                if f in index:
                    means[c, b, index[f]] += steps / chain.batch
    return np.minimum(means, 1.0)


def _sizes(chains: Sequence[ReversibleChain], laws: int) -> np.ndarray:
    """Posterior of the number of features in a model; a model has no more laws than were found."""
    sizes = np.zeros(laws + 1)
    for size, steps in enumerate(np.sum([c.arrays.chain.record.sizes for c in chains], axis=0)):
        sizes[min(size, laws)] += steps
    return sizes / sizes.sum()


def result_of_chains(
    problem: FeatureProblem,
    chains: Sequence[ReversibleChain],
    searched: Sequence[Finished],
    collected: Collected,
    pool: ThreadPool,
    **about: Any,
) -> Result:
    """Laws, frequencies and renormalised estimates of a run.

    Parameters
    ----------
    problem : FeatureProblem
        The target.
    chains : sequence of ReversibleChain
        Chains at their end, with the same number of batches.
    searched : sequence of Finished
        The chains of the search before them.
    collected : dict
        Models that warm-up met, with their log posterior.
    pool : ThreadPool
        Threads that share the work.
    **about
        Fields of the result that the chains do not know: seconds, warm-up, notes.
    """
    evaluated = _Evaluated(chains, collected, pool)
    laws, table = _laws(problem, chains, evaluated)
    records = [c.arrays.chain.record for c in chains]
    steps = int(np.sum([record.sizes for record in records]))
    index = _law_index(laws)
    renormalised = np.zeros(len(laws.features))
    for f, p in evaluated.renormalised().items():
        if f in index:
            renormalised[index[f]] += p
    shared = evaluated.shared_visits() - int(table.visits[table.chains >= 2].sum())
    return Result(
        algorithm="rgmjmcmc",
        exact=False,
        models=table,
        n_models=len(evaluated.values) + len(evaluated.outside),
        log_evidence=evaluated.top + float(np.log(evaluated.total)),
        renormalised=np.minimum(renormalised, 1.0),
        size_distribution=_sizes(chains, len(laws.features)),
        batch_means=batch_means(chains, index, len(laws.features)),
        batch_length=chains[0].batch,
        steps=steps,
        acceptance=acceptance_of(KERNELS, [record.tried for record in records]),
        forgotten_visits=steps - int(table.visits.sum()),
        forgotten_shared=max(shared, 0),
        chain_best=np.array([c.best for c in chains]),
        populations=sum(o.populations for o in searched),
        restarts=sum(o.restarts for o in searched),
        library=len(chains[0].library),
        population_moves=acceptance_of(list(POPULATION_MOVES), [c.arrays.between.tried for c in chains]),
        library_share=float(evaluated.visits.sum() / steps),
        laws=laws,
        # Without a search before them the chains are searches, which share no library.
        search_best=np.array([o.best for o in searched] or ([] if chains[0].library else [c.best for c in chains])),
        noise_weight=problem.noise_weight,
        **about,
    )
