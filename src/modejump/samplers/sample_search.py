"""Laws from rows that are read in chunks: features found on a sample of the rows, models judged by all of them.

One pass draws a sample of the rows. The ordinary search runs on it in memory, under the posterior given the sample, and
freezes a library of features: all that the sample leaves in play. A second pass makes their columns chunk by chunk and
sums products; then MJMCMC samples models of these features by the products, and needs no rows any more. So the
posterior is that given all rows, over models of the library's features.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from modejump.core.random import fresh_sequence
from modejump.data.moments import Moments, moments_of, overview_of
from modejump.data.rows import merge_rows
from modejump.data.sources import Rows
from modejump.features.expression import Expression
from modejump.features.language import Language
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.models import WeightedPrior
from modejump.problem.design import Layout
from modejump.problem.feature_problem import FeatureProblem, problem_over
from modejump.problem.products import check_response, lengths, problem_of_products
from modejump.runtime.context import Context
from modejump.samplers.budget import Budget
from modejump.samplers.chains.workspace import fitted_constants
from modejump.samplers.laws import Laws, same_by_products
from modejump.samplers.mjmcmc import mjmcmc
from modejump.samplers.plan import Plan
from modejump.samplers.result import Result
from modejump.samplers.rgmjmcmc import DEFAULT_POPULATIONS, SEARCH_SHARE
from modejump.samplers.warmup.library import Collected, build_library
from modejump.samplers.warmup.search import STEPS, Finished, Search, compile_search

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
    def varying(self) -> list[Expression]:
        """The covariates that vary, as features."""
        length = lengths(self.moments)[:-1]
        return [
            self.problem.language.covariate(name)
            for name, some in zip(self.rows.covariates, length, strict=True)
            if some > 0.0
        ]


def draw_sample(
    rows: Rows,
    language: Language,
    *,
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
    language : Language
        Which features there are.
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
    problem = problem_over(x, y, language, coef_prior=coef_prior, model_prior=model_prior, weights=weights)
    return SampledRows(rows, problem, found.moments, found.digest.text)


def sample_search(sampled: SampledRows, plan: Plan, context: Context) -> Result:
    """Search for features on the sample, then sample models of them by all rows.

    Parameters
    ----------
    sampled : SampledRows
        What the first pass left.
    plan : Plan
        Chains of the search and of sampling; a budget whose ``warmup`` and ``steps`` are steps of each chain in the
        search and in sampling, and whose ``seconds`` are for all of it, the second pass over the rows among them.
    context : Context
        Progress and executor.
    """
    budget = plan.budget or Budget()
    search_seed, sampling_seed = fresh_sequence(plan.seed).spawn(2)
    with context.compiling():
        _compile(sampled.problem)
    begun = time.perf_counter()
    outcomes = _searched(sampled.problem, search_seed.spawn(plan.chains), budget, _later(context, 0.0, SEARCH_SHARE))
    collected: Collected = {}
    for outcome in outcomes:
        collected |= outcome.collected
    # A covariate may be constant in the sample, and vary among all rows.
    met = set(sampled.problem.covariates())
    rare = [f for f in sampled.varying if f not in met][: MOST_FEATURES // 4]
    library = build_library(sampled.problem, collected, most=MOST_FEATURES - len(rare), negligible=0.0)
    laws = _selection(sampled, [*library.features, *rare])
    spent = time.perf_counter() - begun
    rest = dataclasses.replace(plan, algorithm="mjmcmc", budget=_rest(budget, spent), seed=sampling_seed)
    result = mjmcmc(laws.problem, rest, _later(context, SEARCH_SHARE, 1.0))
    return dataclasses.replace(
        result,
        warmup_steps=result.warmup_steps + sum(o.steps for o in outcomes),
        warmup_seconds=result.warmup_seconds + spent,
        populations=sum(o.populations for o in outcomes),
        restarts=sum(o.restarts for o in outcomes),
        library=sum(1 + len(laws.aliases[law]) for law in laws.features),
        laws=laws,
    )


def _compile(problem: FeatureProblem) -> None:
    """Compile, so that no clock counts it."""
    compile_search(problem)
    build_library(problem, {frozenset(problem.covariates()[:1]): 0.0}, most=4, limit=1)


def _searched(
    problem: FeatureProblem, seeds: Sequence[np.random.SeedSequence], budget: Budget, context: Context
) -> list[Finished]:
    """Chains of GMJMCMC on the sample."""
    steps = DEFAULT_POPULATIONS * STEPS if budget.warmup is None else int(budget.warmup)
    context.executor.open(problem)
    context.executor.compile(compile_search)
    outcomes = Search(
        problem,
        seeds,
        populations=max(1, -(-steps // STEPS)),
        seconds=None if budget.seconds is None else SEARCH_SHARE * budget.seconds,
        memory=budget.memory,
        context=context,
    ).run()
    context.executor.close()
    return outcomes


def _rest(budget: Budget, spent: float) -> Budget:
    """What is left for sampling; the search has had the warm-up."""
    if budget.seconds is None:
        return dataclasses.replace(budget, warmup=None)
    return dataclasses.replace(budget, seconds=max(budget.seconds - spent, LEAST_SHARE * budget.seconds))


def _later(context: Context, first: float, last: float) -> Context:
    """Progress of a part of the work as progress of all of it."""
    progress = context.progress
    if progress is None:
        return context
    return dataclasses.replace(
        context, progress=lambda done, total, note: progress(first + (last - first) * done / total, 1.0, note)
    )


def feature_columns(
    values: np.ndarray,
    language: Language,
    features: Sequence[Expression],
    names: Sequence[str],
    constants: Mapping[Expression, np.ndarray],
) -> np.ndarray:
    """Columns of features and, last, the response; from the covariates of these names, and the response."""
    table = dict(zip(names, values[:-1], strict=True))
    return np.vstack([*language.columns(features, table, constants), values[-1]])


def _selection(sampled: SampledRows, features: Sequence[Expression]) -> Laws:
    """The second pass: selection among the laws that the features spell."""
    rows, problem = sampled.rows, sampled.problem
    constants = fitted_constants(problem, features)
    used = {name for f in features for name in f.covariates}
    names = tuple(name for name in rows.covariates if name in used)
    make = partial(feature_columns, language=problem.language, names=names, constants=constants)
    moments = rows.reduce(partial(moments_of, columns=partial(make, features=features)), names)
    length = lengths(moments)[:-1]
    # A feature may be undefined, or constant, in rows beyond the sample.
    alive = np.flatnonzero(length > 0.0).tolist()
    gram = moments.cross[np.ix_(alive, alive)] / np.outer(length[alive], length[alive])
    law_of = same_by_products([features[i] for i in alive], gram)
    laws = sorted(set(law_of.values()))
    spellings = {law: tuple(f for f in law_of if law_of[f] is law) for law in laws}
    index = np.array([*(features.index(law) for law in laws), len(features)], np.int64)
    selection = problem_of_products(
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
    return Laws(tuple(laws), aliases, constants, selection, problem.language)


def _law_prior(
    problem: FeatureProblem, n: float, spellings: Mapping[Expression, Sequence[Expression]]
) -> WeightedPrior:
    """Each law with the prior mass of all its spellings, given the number of all observations."""
    weigh, names = problem.model_prior.log_weights_of, len(problem.names)
    weights = [np.logaddexp.reduce(weigh(some, n, names)) for some in spellings.values()]
    return WeightedPrior(tuple(float(w) for w in weights), problem.size)
