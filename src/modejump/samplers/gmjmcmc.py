"""GMJMCMC: chains of populations, merged into renormalised estimates over all distinct models."""

from __future__ import annotations

import time
from collections.abc import Sequence

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
from modejump.runtime.context import Context
from modejump.samplers.budget import Budget
from modejump.samplers.laws import Collected, laws_from
from modejump.samplers.plan import Plan
from modejump.samplers.result import Result
from modejump.samplers.warmup.search import STEPS, Finished, Search, prime_search

DEFAULT_POPULATIONS = 250


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
        tuple(names), (), np.arange(p + 1), y, w, base, x, np.eye(p), p, UniformPrior().compile(p).arrays, known,
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
    prime_search(problem)
    context.executor.open(problem)
    context.executor.prime(prime_search)
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
    alphas: dict[Feature, np.ndarray] = {}
    for outcome in outcomes:
        collected |= outcome.collected
        alphas |= outcome.alphas
    laws, models = laws_from(problem, collected, alphas)
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
    )
