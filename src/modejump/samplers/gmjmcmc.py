"""GMJMCMC: chains of populations, merged into renormalised estimates over all distinct models."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from modejump.core.errors import InputError
from modejump.core.random import fresh_sequence
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import Transform
from modejump.likelihoods import Family, resolve_family
from modejump.likelihoods.family import Table
from modejump.priors.coefficients import resolve_coef_prior
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.models import UniformPrior
from modejump.problem.checks import checked_rows
from modejump.problem.design import project_base
from modejump.problem.feature_problem import FeatureProblem
from modejump.runtime.checkpoints import NoCheckpoint, resumed_seconds
from modejump.runtime.executors import Crew
from modejump.samplers.budget import Budget
from modejump.samplers.laws import Collected, Laws, laws_from
from modejump.samplers.result import SamplerResult
from modejump.samplers.schedule import Progress
from modejump.samplers.warmup.search import STEPS, Finished, Search, prime_search

DEFAULT_POPULATIONS = 250


@dataclass(frozen=True, eq=False)
class Discovery:
    """Outcome of GMJMCMC.

    Attributes
    ----------
    laws : Laws
        Laws, their aliases, and models over them.
    result : SamplerResult
        Renormalised estimates over the laws.
    populations, restarts, evaluated : int
        Totals over all chains; ``evaluated`` counts models within populations.
    best : ndarray
        Highest log posterior of each chain.
    """

    laws: Laws
    result: SamplerResult
    populations: int
    restarts: int
    evaluated: int
    best: np.ndarray


def feature_problem(
    x: np.ndarray,
    y: np.ndarray,
    names: Sequence[str],
    *,
    transforms: Sequence[Transform],
    space: Space,
    coef_prior: object = "g",
    model_prior: ComplexityPrior | None = None,
    weights: np.ndarray | None = None,
    intercept: bool = True,
    family: str | Family = "gaussian",
    link: str | None = None,
    offset: np.ndarray | None = None,
) -> FeatureProblem:
    """Check the data and make a problem over a space of features.

    Parameters
    ----------
    x : ndarray of shape (n, columns)
        Covariates.
    y : ndarray of shape (n,)
        Response.
    names : sequence of str
        Names of the columns.
    transforms : sequence of Transform
        G.
    space : Space
        Limits and operator weights.
    coef_prior, model_prior : prior objects
        Prior of the coefficients, and complexity prior of the models.
    weights : ndarray of shape (n,), optional
        Case weights.
    intercept : bool
        Whether every model has an intercept.
    family : str, Family, OwnLikelihood or BatchLikelihood
        Family of the response, or a likelihood of your own. One that scores models by name is told the texts of the
        features, and takes no projections.
    link : str, optional
        Link function; default the family's first.
    offset : ndarray of shape (n,), optional
        Part of the linear predictor that is known; not for Gaussian responses, where it is taken from y.
    """
    family = resolve_family(family, link)
    family.check_rows(weights, offset)
    x, y, w, known = checked_rows(x, y, weights, offset)
    family.check(y)
    if x.shape[1] == 0:
        raise InputError("there is no covariate to build features from; give at least one column.")
    if len(names) != x.shape[1] or len(set(names)) < len(names):
        raise InputError(f"X has {x.shape[1]} columns and names are {', '.join(names)}; give each column its own name.")
    base = np.ones((len(y), 1)) if intercept else np.zeros((len(y), 0))
    root = np.sqrt(w)
    columns, base_rss, _ = project_base(np.ascontiguousarray(x), y, w, base, linear=family.conjugate)
    if not (columns.scale > 0).any():
        raise InputError("every covariate is constant, so there is no feature to build; check the columns.")
    basis = np.linalg.qr(base * root[:, None])[0].T if intercept else np.zeros((0, len(y)))
    prior = resolve_coef_prior(coef_prior)  # type: ignore[arg-type]
    family.check_prior(prior)
    n = float(w.sum())
    p = len(names)
    # The covariates are terms only by name, for sentences about models that fail.
    table = Table(
        tuple(names), (), np.arange(p + 1), y, w, base, x, np.eye(p), p, UniformPrior().compile(p), known,
        projections=space.projection > 0.0,
    )  # fmt: skip
    family, base_model = family.bind(table, prior.compile(n, base_rss), n)
    return FeatureProblem(
        tuple(names),
        # Arrays that may not be written to would be another type to compiled code.
        np.require(x.T, requirements=("C", "W")),
        np.require(y, requirements=("C", "W")),
        columns.response[None].copy(),
        np.ascontiguousarray(basis),
        root,
        n,
        base_rss,
        tuple(transforms),
        space,
        prior,
        model_prior or ComplexityPrior(),
        family,
        base_model,
    )


def gmjmcmc(
    problem: FeatureProblem,
    *,
    chains: int = 16,
    budget: Budget | None = None,
    workers: int = 1,
    seed: int | np.random.SeedSequence = 0,
    progress: Progress | None = None,
    checkpoint: NoCheckpoint | None = None,
    crew: Crew | None = None,
) -> Discovery:
    """Search the feature space by chains of populations.

    Parameters
    ----------
    problem : FeatureProblem
        What to search.
    chains : int
        Independent chains; each is run to its end before the next one of its worker begins.
    budget : Budget, optional
        ``steps`` of each chain (300 in a population), or ``seconds`` for all chains together.
    workers : int
        Threads; budgets by size give the same result for any number.
    seed : int or SeedSequence
        Each chain gets its own stream spawned from it.
    progress : callable, optional
        Called with (done, total, note).
    checkpoint : Checkpoint, optional
        Keeps the state of the run, and goes on from what it finds.
    crew : Crew, optional
        Who works on the chains, instead of threads.
    """
    for name, value in (("chains", chains), ("workers", workers)):
        if value < 1:
            raise InputError(f"{name} is {value}; give at least 1.")
    budget = budget or Budget(steps=DEFAULT_POPULATIONS * STEPS)
    if budget.mcse is not None:
        raise InputError("GMJMCMC has no Monte Carlo error: give steps or seconds instead of mcse.")
    if budget.warmup is not None:
        raise InputError("GMJMCMC has no warm-up of its own: give steps or seconds without warmup.")
    prime_search(problem)
    crew = crew or Crew(workers)
    crew.begin(problem)
    crew.prime(prime_search)
    keeper = checkpoint or NoCheckpoint()
    spent = resumed_seconds(keeper.saved, "gmjmcmc")
    began = time.perf_counter() - spent
    search = Search(
        problem,
        fresh_sequence(seed).spawn(chains),
        populations=max(1, -(-budget.sampling_steps() // STEPS)),
        seconds=budget.seconds,
        memory=budget.memory,
        crew=crew,
        progress=progress,
        checkpoint=keeper,
        save=lambda state, arrays: keeper.save(
            {"algorithm": "gmjmcmc", "spent": time.perf_counter() - began, **state}, arrays
        ),
    )
    if keeper.saved is not None:
        search.resume(keeper.saved.state, keeper.saved.arrays)
    finished = True
    try:
        search.run()
    except KeyboardInterrupt:
        if not any(outcome.collected for outcome in search.outcomes()):
            raise
        finished = False
    finally:
        crew.close()
        keeper.close()
    return merged_discovery(problem, search.outcomes(), time.perf_counter() - began, finished)


def merged_discovery(
    problem: FeatureProblem,
    outcomes: Sequence[Finished],
    seconds: float,
    finished: bool = True,
    make_laws: Callable[[FeatureProblem, Collected, dict[Feature, np.ndarray]], Laws] = laws_from,
) -> Discovery:
    """Renormalised estimates over the distinct models of all chains."""
    collected: Collected = {}
    alphas: dict[Feature, np.ndarray] = {}
    for outcome in outcomes:
        collected |= outcome.collected
        alphas |= outcome.alphas
    laws = make_laws(problem, collected, alphas)
    values = laws.models.log_posterior
    weight = np.exp(values - values[0])
    probability = weight / weight.sum()
    members = laws.models.membership(len(laws.features))
    populations, restarts = sum(o.populations for o in outcomes), sum(o.restarts for o in outcomes)
    best = np.array([o.best for o in outcomes])
    result = SamplerResult(
        algorithm="gmjmcmc",
        exact=False,
        models=laws.models,
        n_models=len(values),
        log_evidence=float(values[0] + np.log(weight.sum())),
        renormalised=np.minimum(probability @ members, 1.0),
        size_distribution=np.bincount(members.sum(axis=1), weights=probability, minlength=len(laws.features) + 1),
        steps=sum(o.steps for o in outcomes),
        seconds=seconds,
        finished=finished,
        chain_best=best,
        populations=populations,
        restarts=restarts,
    )
    return Discovery(laws, result, populations, restarts, sum(o.evaluated for o in outcomes), best)
