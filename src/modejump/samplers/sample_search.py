"""Laws from rows that are read in chunks: features found on a sample of the rows, models judged by all of them.

One pass draws a sample of the rows. The ordinary search runs on it in memory, under the posterior given the sample, and
freezes a library of features: all that the sample leaves in play. A second pass makes their columns chunk by chunk and
sums products; then MJMCMC samples models of these features by the products, and needs no rows any more. So the
posterior is that given all rows, over models of the library's features.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from modejump.core.random import fresh_sequence
from modejump.data.moments import Moments, moments_of, overview_of
from modejump.data.rows import merge_rows
from modejump.data.sources import Rows
from modejump.features.nonlinear.expression import Feature, evaluate_all
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import Transform
from modejump.kernels.populations.reversible import settle_numbers
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.models import WeightedPrior
from modejump.problem.design import Layout
from modejump.problem.feature_problem import FeatureProblem, FeatureTable
from modejump.problem.products import check_response, lengths, problem_over
from modejump.runtime.executors import Crew
from modejump.samplers.budget import Budget
from modejump.samplers.gmjmcmc import Discovery, feature_problem
from modejump.samplers.laws import Collected, Laws, log_weights, same_by_products
from modejump.samplers.mjmcmc import mjmcmc
from modejump.samplers.result import ModelTable
from modejump.samplers.rgmjmcmc import DEFAULT_POPULATIONS, SEARCH_SHARE
from modejump.samplers.schedule import Progress
from modejump.samplers.warmup.library import EDIT_FEATURES, build_library
from modejump.samplers.warmup.search import STEPS, Finished, prime_search, search_features

# Rows of the sample.
SAMPLE_ROWS = 8192
# Features of a library. Each costs a column of all rows, and those that the sample hardly supports cost no more.
MOST_FEATURES = 64
# Of a budget in seconds at least this share is left for sampling, however long the rows take to read.
LEAST_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class SampledRows:
    """What the first pass over the rows leaves.

    Attributes
    ----------
    rows : Rows
        Where the rows come from.
    problem : FeatureProblem
        The search problem given the sample.
    moments : Moments
        Of the covariates and the response, over all rows.
    digest : str
        Digest of all rows.
    """

    rows: Rows
    problem: FeatureProblem
    moments: Moments
    digest: str

    @property
    def varying(self) -> list[Feature]:
        """The covariates that vary, as features."""
        length = lengths(self.moments)[:-1]
        return [Feature.covariate(name) for name, some in zip(self.rows.covariates, length, strict=True) if some > 0.0]


def draw_sample(
    rows: Rows,
    *,
    transforms: Sequence[Transform],
    space: Space,
    coef_prior: object = "g",
    model_prior: ComplexityPrior | None = None,
    seed: int = 0,
    sample: int = SAMPLE_ROWS,
) -> SampledRows:
    """The first pass: a sample of the rows, moments of the covariates, and the digest.

    Parameters
    ----------
    rows : Rows
        Where the rows come from.
    transforms : sequence of Transform
        G.
    space : Space
        Limits and operator weights.
    coef_prior, model_prior : prior objects
        Prior of the coefficients, and complexity prior of the models.
    seed : int
        Decides which rows are drawn.
    sample : int
        Rows to draw.
    """
    k = len(rows.covariates)
    found = rows.reduce(partial(overview_of, order=np.arange(k + 1), sample=sample, seed=seed))
    check_response(found.moments)
    assert found.sample is not None
    drawn = found.sample.rows
    weights = None if rows.weight is None else drawn[-1]
    x, y, weights, _ = merge_rows(np.ascontiguousarray(drawn[:k].T), drawn[k], weights)
    problem = feature_problem(
        x, y, rows.covariates, transforms=transforms, space=space, coef_prior=coef_prior, model_prior=model_prior,
        weights=weights,
    )  # fmt: skip
    return SampledRows(rows, problem, found.moments, found.digest.text)


def sample_search(
    sampled: SampledRows,
    *,
    chains: int = 16,
    budget: Budget | None = None,
    seed: int | np.random.SeedSequence = 0,
    progress: Progress | None = None,
    new_crew: Callable[[], Crew] = Crew,
) -> Discovery:
    """Search for features on the sample, then sample models of them by all rows.

    Parameters
    ----------
    sampled : SampledRows
        What the first pass left.
    chains : int
        Independent chains, of the search and of sampling.
    budget : Budget, optional
        ``warmup`` and ``steps`` are steps of each chain in the search and in sampling; ``seconds`` are for all of it,
        the second pass over the rows among them.
    seed : int or SeedSequence
        Each chain gets its own streams spawned from it.
    progress : callable, optional
        Called with (done, total, note).
    new_crew : callable
        Gives those who work on the chains, first of the search, then of sampling.
    """
    budget = budget or Budget()
    search_seed, sampling_seed = fresh_sequence(seed).spawn(2)
    _prime(sampled.problem)
    begun = time.perf_counter()
    outcomes = _searched(sampled.problem, search_seed.spawn(chains), budget, new_crew(), progress)
    collected: Collected = {}
    for outcome in outcomes:
        collected |= outcome.collected
    # A covariate may be constant in the sample, and vary among all rows.
    met = set(sampled.problem.covariates())
    rare = [f for f in sampled.varying if f not in met][: MOST_FEATURES // 4]
    library = build_library(sampled.problem, collected, most=MOST_FEATURES - len(rare), negligible=0.0)
    laws = _selection(sampled, [*library.features, *rare])
    spent = time.perf_counter() - begun
    result = mjmcmc(
        laws.problem, chains=chains, budget=_rest(budget, spent), seed=sampling_seed,
        progress=_later(progress, SEARCH_SHARE, 1.0), crew=new_crew(),
    )  # fmt: skip
    result = dataclasses.replace(
        result,
        warmup_steps=result.warmup_steps + sum(o.steps for o in outcomes),
        warmup_seconds=result.warmup_seconds + spent,
        populations=sum(o.populations for o in outcomes),
        restarts=sum(o.restarts for o in outcomes),
        library=sum(1 + len(laws.aliases[law]) for law in laws.features),
    )
    best = np.array([o.best for o in outcomes])
    evaluated = sum(o.evaluated for o in outcomes)
    laws = dataclasses.replace(laws, models=result.models)
    return Discovery(laws, result, result.populations, result.restarts, evaluated, best)


def _prime(problem: FeatureProblem) -> None:
    """Compile, or load from the cache, before any clock runs."""
    prime_search(problem)
    build_library(problem, {frozenset(problem.covariates()[:1]): 0.0}, most=4, limit=1)


def _searched(
    problem: FeatureProblem,
    seeds: Sequence[np.random.SeedSequence],
    budget: Budget,
    crew: Crew,
    progress: Progress | None,
) -> list[Finished]:
    """Chains of GMJMCMC on the sample."""
    steps = DEFAULT_POPULATIONS * STEPS if budget.warmup is None else int(budget.warmup)
    try:
        crew.begin(problem)
        crew.prime(prime_search)
        return search_features(
            problem,
            seeds,
            populations=max(1, -(-steps // STEPS)),
            seconds=None if budget.seconds is None else SEARCH_SHARE * budget.seconds,
            memory=budget.memory,
            crew=crew,
            progress=_later(progress, 0.0, SEARCH_SHARE),
        )
    finally:
        crew.close()


def _rest(budget: Budget, spent: float) -> Budget:
    """What is left for sampling; the search has had the warm-up."""
    if budget.seconds is None:
        return dataclasses.replace(budget, warmup=None)
    return dataclasses.replace(budget, seconds=max(budget.seconds - spent, LEAST_SHARE * budget.seconds))


def _later(progress: Progress | None, first: float, last: float) -> Progress | None:
    """Progress of a part of the work as progress of all of it."""
    if progress is None:
        return None
    return lambda done, total, note: progress(first + (last - first) * done / total, 1.0, note)


def feature_columns(
    values: np.ndarray, features: Sequence[Feature], names: Sequence[str], alphas: Mapping[Feature, np.ndarray]
) -> np.ndarray:
    """Columns of features and, last, the response; from the covariates of these names, and the response."""
    table = dict(zip(names, values[:-1], strict=True))
    return np.vstack([*evaluate_all(features, table, alphas), values[-1]])


def _selection(sampled: SampledRows, features: Sequence[Feature]) -> Laws:
    """The second pass: selection among the laws that the features spell, and no models yet."""
    rows, problem = sampled.rows, sampled.problem
    alphas = _alphas(problem, features)
    used = {name for f in features for name in f.covariates}
    names = tuple(name for name in rows.covariates if name in used)
    make = partial(feature_columns, names=names, alphas=alphas)
    moments = rows.reduce(partial(moments_of, columns=partial(make, features=features)), names)
    length = lengths(moments)[:-1]
    # A feature may be undefined, or constant, in rows beyond the sample.
    alive = np.flatnonzero(length > 0.0).tolist()
    gram = moments.cross[np.ix_(alive, alive)] / np.outer(length[alive], length[alive])
    law_of = same_by_products([features[i] for i in alive], gram)
    laws = sorted(set(law_of.values()))
    spellings = {law: tuple(f for f in law_of if law_of[f] is law) for law in laws}
    index = np.array([*(features.index(law) for law in laws), len(features)], np.int64)
    selection = problem_over(
        rows,
        partial(make, features=laws),
        moments.chosen(index),
        Layout.of({law.text: [i] for i, law in enumerate(laws)}, ()),
        coef_prior=problem.coef_prior,
        model_prior=_law_prior(problem, moments.n, spellings),
        digest=sampled.digest,
        covariates=names,
    )
    aliases = {law: tuple(f for f in some if f is not law) for law, some in spellings.items()}
    none = np.zeros(0)
    no_models = ModelTable(np.zeros((0, 1), np.uint64), none, none.astype(np.int64), none.astype(np.int64))
    return Laws(tuple(laws), aliases, alphas, selection, no_models)


def _law_prior(problem: FeatureProblem, n: float, spellings: Mapping[Feature, Sequence[Feature]]) -> WeightedPrior:
    """Each law with the prior mass of all its spellings, given the number of all observations."""
    weights = [np.logaddexp.reduce(log_weights(problem, some, n)) for some in spellings.values()]
    return WeightedPrior(tuple(float(w) for w in weights), problem.space.size)


def _alphas(problem: FeatureProblem, features: Sequence[Feature]) -> dict[Feature, np.ndarray]:
    """Coefficients of the projections inside features, as the sample gives them."""
    found: dict[Feature, np.ndarray] = {}
    if problem.space.projection > 0.0:
        table = FeatureTable(problem, EDIT_FEATURES)
        pool, numbers = table.new_pool(16), table.numbers(features)
        settle_numbers(table.arena, pool, numbers)
        for f in numbers:
            table.collect_alphas(int(f), found)
    return found
