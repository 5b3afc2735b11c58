"""Every sampler is exact under every family of the registry, and under likelihoods of the user's own.

What a model is worth comes from `family_twin`, which shares nothing with the package's fits. The tests of stationarity
are those of the Gaussian kernels: start at a model drawn from the exact posterior, make some steps, and compare the law
of the end with the posterior. Moves that are broken on purpose must fail them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import twin
from family_twin import CASES
from feature_experiments import MIXTURE, Ends
from feature_experiments import Experiment as FeatureExperiment
from reversible_mutants import MUTANTS, settings_of
from running import enumerate_models, gmjmcmc, mjmcmc, rgmjmcmc
from test_exactness import EVERYTHING, STEPS, Experiment, moves_of, stationarity, uneven_partners
from test_moves_between import SETTINGS

from modejump.features.nonlinear.expression import Feature, evaluate
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.kernels.populations.moves import NONE, POPULATION_MOVES
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.models import BernoulliPrior
from modejump.problem.feature_problem import FeatureProblem, feature_problem
from modejump.problem.problem import Problem
from modejump.samplers.budget import Budget
from modejump.samplers.chains import reversible_chain as reversible
from modejump.samplers.chains.genetic_chain import SPAN
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.result import Result

LEVEL = 1e-4
CAUGHT = 1e-8
# Two computations of one log posterior may be so far apart: the samplers' fits end at a decrement of 1e-14.
CLOSE = 1e-6
INSIDE = 0.4
A = 0.3
# The reversible sampler is compiled once for all of these; a sweep over the others is left for the full suite.
ALWAYS = ("binomial, logit", "poisson, log", "gamma, log", "own", "batch")
WIDE = [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.full) for name in CASES]

# --- given covariates -------------------------------------------------------------------------------------------


@cache
def selection(name: str, rows: int = 60, columns: int = 5) -> tuple[Problem, twin.Exact]:
    """A problem of correlated covariates with a weak signal, and its posterior by brute force."""
    case = CASES[name]
    rng = np.random.default_rng(1 + list(CASES).index(name))
    x = rng.normal(size=(rows, columns)) + 0.7 * rng.normal(size=(rows, 1))
    y = case.draw(0.5 * x[:, 0] - 0.4 * x[:, 3], rng)
    names = "abcdefgh"[:columns]
    options = case.options(dict(zip(names, x.T, strict=True)), y)
    terms = {letter: [j] for j, letter in enumerate(names)}
    problem = Problem.build(x, y, terms=terms, model_prior=BernoulliPrior(INSIDE), **options)
    base = case.log_marginal(x[:, :0], y)
    value = np.empty(1 << columns)
    for mask in range(1 << columns):
        members = list(twin.members_of(mask))
        prior = len(members) * np.log(INSIDE) + (columns - len(members)) * np.log(1.0 - INSIDE)
        value[mask] = prior + case.log_marginal(x[:, members], y) - base
    return problem, twin.Exact(columns, np.arange(1 << columns), value)


@pytest.mark.parametrize("name", CASES)
def test_enumeration_is_a_brute_force(name: str) -> None:
    problem, exact = selection(name)
    result = enumerate_models(problem)
    assert len(result.models) == len(exact.masks)
    np.testing.assert_allclose(
        result.models.log_posterior, exact.log_posterior[result.models.words[:, 0].astype(np.int64)], atol=CLOSE, rtol=0
    )
    np.testing.assert_allclose(result.renormalised, exact.inclusion, atol=CLOSE, rtol=0)
    np.testing.assert_allclose(result.size_distribution, exact.sizes, atol=CLOSE, rtol=0)
    assert ((exact.inclusion > 0.02) & (exact.inclusion < 0.98)).any(), "some terms are in doubt"


@pytest.mark.parametrize("name", CASES)
def test_mjmcmc_reports_what_a_brute_force_finds(name: str) -> None:
    problem, exact = selection(name)
    result = mjmcmc(problem, chains=2, budget=Budget(warmup=500, steps=2000), seed=3)
    rows = result.models.words[:, 0].astype(np.int64)
    assert len(rows) > 10
    np.testing.assert_allclose(result.models.log_posterior, exact.log_posterior[rows], atol=CLOSE, rtol=0)


@pytest.mark.parametrize("name", CASES)
def test_mjmcmc_leaves_the_posterior(name: str) -> None:
    problem, exact = selection(name)
    experiment = Experiment(problem, exact, seed=100 + list(CASES).index(name))
    starts, ends = experiment.ends(moves_of(problem, EVERYTHING), STEPS, 100_000)
    assert (starts != ends).mean() > 0.05, "the mixture moves"
    assert stationarity(exact, ends) > LEVEL


@pytest.mark.parametrize("name", CASES)
def test_partners_without_their_ratio_are_caught(name: str) -> None:
    problem, exact = selection(name)
    experiment = Experiment(problem, exact, seed=200 + list(CASES).index(name))
    whole = uneven_partners(moves_of(problem, {"partner": 1.0}))
    broken = whole._replace(partner_ratio=np.zeros_like(whole.partner_ratio))
    assert stationarity(exact, experiment.ends(whole, STEPS, 100_000)[1]) > LEVEL
    assert stationarity(exact, experiment.ends(broken, STEPS, 100_000)[1]) < CAUGHT


# --- features ---------------------------------------------------------------------------------------------------


@cache
def discovery(name: str, rows: int = 40, **limits: Any) -> FeatureProblem:
    """A problem over the features of two covariates with a weak signal."""
    case = CASES[name]
    rng = np.random.default_rng(50 + list(CASES).index(name))
    x = rng.normal(size=(rows, 2))
    y = case.draw(0.4 * x[:, 0] * x[:, 1] + 0.3 * np.sin(x[:, 0]), rng)
    given = {"depth": 1, "width": 2, "complexity": 2, "size": 2, "population": 8, **limits}
    return feature_problem(
        x, y, "ab", transforms=[transforms["sin"]], space=Space(**given), model_prior=ComplexityPrior(A),
        **case.options(dict(zip("ab", x.T, strict=True)), y),
    )  # fmt: skip


def by_brute_force(name: str, problem: FeatureProblem, model: Sequence[Feature]) -> float:
    """Log posterior of a model of features, relative to the empty one."""
    table, value = dict(zip(problem.names, problem.x, strict=True)), CASES[name].log_marginal
    columns = np.array([evaluate(f, table) for f in model]).reshape(len(model), len(problem.y)).T
    prior = sum(f.complexity for f in model) * np.log(A)
    return prior + value(columns, problem.y) - value(columns[:, :0], problem.y)


def check_reported(name: str, problem: FeatureProblem, found: Result) -> dict[frozenset[Feature], float]:
    """The log posterior of every model reported is that of a brute force."""
    features, table = found.laws.features, found.models
    assert not any(found.laws.aliases.values())
    models = [[features[j] for j in np.flatnonzero(row)] for row in table.membership(len(features))]
    exact = np.array([by_brute_force(name, problem, model) for model in models])
    np.testing.assert_allclose(table.log_posterior, exact, atol=CLOSE, rtol=0)
    return {frozenset(model): float(value) for model, value in zip(models, exact, strict=True)}


@pytest.mark.parametrize("name", CASES)
def test_gmjmcmc_finds_the_posterior_of_a_small_space(name: str) -> None:
    problem = discovery(name)
    found = gmjmcmc(problem, chains=3, budget=Budget(steps=6000), seed=5)
    reported = check_reported(name, problem, found)
    features = [Feature.parse(text) for text in ("a", "b", "a*a", "a*b", "b*b", "sin(a)", "sin(b)")]
    models = [m for size in range(3) for m in itertools.combinations(features, size)]
    value = np.array([by_brute_force(name, problem, m) for m in models])
    # Models too far below the best one are not collected.
    near = {frozenset(m) for m, v in zip(models, value, strict=True) if v > value.max() - SPAN + CLOSE}
    assert near <= reported.keys() <= {frozenset(m) for m in models} and len(near) > 25
    share = np.exp(value - np.logaddexp.reduce(value))
    lost = sum(p for m, p in zip(models, share, strict=True) if frozenset(m) not in reported)
    for f, p in zip(found.laws.features, found.renormalised, strict=True):
        expected = sum(q for m, q in zip(models, share, strict=True) if f in m)
        assert abs(p - expected) <= CLOSE + 2.0 * lost


@pytest.mark.parametrize("name", WIDE)
def test_rgmjmcmc_reports_what_a_brute_force_finds(name: str) -> None:
    problem = discovery(name, complexity=3, depth=2)
    found = rgmjmcmc(problem, chains=2, budget=Budget(warmup=600, steps=3000), seed=6, edits=500)
    assert len(check_reported(name, problem, found)) > 20
    assert found.counted


@cache
def space(name: str) -> FeatureExperiment:
    """A space that can be enumerated, with its exact posterior, part of it in the library."""
    return FeatureExperiment(discovery(name, complexity=3, depth=2), ("a", "b", "a*b"))


@pytest.mark.parametrize("name", WIDE)
def test_the_posterior_over_all_features_is_a_brute_force(name: str) -> None:
    experiment = space(name)
    of, exact = experiment.exact.features, experiment.exact
    value = [by_brute_force(name, experiment.problem, [of[i] for i in model]) for model in exact.models]
    alive = np.isfinite(exact.log_posterior)
    assert alive.sum() > 100
    np.testing.assert_allclose(exact.log_posterior[alive], np.array(value)[alive], atol=CLOSE, rtol=0)


def check_ends(experiment: FeatureExperiment, ends: Ends) -> float:
    """p-value of stationarity; the chain's own log posteriors are the exact ones."""
    assert np.abs(ends.values - experiment.exact.log_posterior[ends.ends]).max() < CLOSE
    assert ends.moved > 0.05, "the chain moves"
    return experiment.p_value(ends)


@pytest.mark.parametrize("name", WIDE)
def test_rgmjmcmc_leaves_the_posterior(name: str) -> None:
    experiment = space(name)
    seed = 300 + list(CASES).index(name)
    ends = experiment.ends(MIXTURE, SETTINGS, turns=2, replications=4000, seed=seed)
    assert check_ends(experiment, ends) > LEVEL


@pytest.mark.parametrize("name", ["own", "batch", "poisson, log"])
def test_a_chain_that_forgets_features_knows_what_it_evaluates(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of features are given away again and again, between populations and when the table is full."""
    experiment = FeatureExperiment(discovery(name, complexity=4, depth=2), ("a",))
    frozen = experiment.chain(1, SETTINGS).frozen[0]
    monkeypatch.setattr(reversible, "FEATURES", 4096 + frozen + 20)
    renewed = []
    real = ReversibleChain._renew_features
    monkeypatch.setattr(ReversibleChain, "_renew_features", lambda chain: (renewed.append(1), real(chain))[1])
    chain = experiment.chain(8, SETTINGS)
    experiment.recall_some(chain)
    chain.advance(40_000)
    chain.close()
    assert len(renewed) > 10 and len(chain.fresh_models) > 50
    rows = np.array([experiment.models[model] for model in chain.fresh_models])
    values = np.array([value for value, _ in chain.fresh_models.values()])
    np.testing.assert_allclose(values, experiment.exact.log_posterior[rows], atol=CLOSE, rtol=0)


@pytest.mark.full
@pytest.mark.parametrize("move", POPULATION_MOVES)
@pytest.mark.parametrize("name", [name for name in CASES if name != "batch"])
def test_each_move_leaves_the_posterior(name: str, move: str) -> None:
    experiment, kind = space(name), list(POPULATION_MOVES).index(move)
    seed = 1000 + 100 * list(CASES).index(name) + kind
    ends = experiment.ends(kind, SETTINGS, turns=3, replications=60_000, seed=seed)
    assert np.abs(ends.values - experiment.exact.log_posterior[ends.ends]).max() < CLOSE
    assert experiment.p_value(ends) > LEVEL


@pytest.mark.parametrize("name", ["poisson, log"])
def test_places_that_are_not_alike_are_caught(name: str) -> None:
    experiment = space(name)
    mutant = next(m for m in MUTANTS if m.what == "places that are not alike")

    def p_value(prepare: Callable[[Any], None] | None) -> float:
        ends = experiment.ends(NONE, settings_of(mutant), turns=3, replications=20_000, seed=7, prepare=prepare)
        return experiment.p_value(ends)

    assert mutant.prepare is not None and not mutant.changes
    assert p_value(None) > LEVEL
    assert p_value(mutant.prepare) < CAUGHT
