"""Search by score tests among models where fitting is expensive."""

import itertools

import numpy as np
import pytest
from running import gmjmcmc
from scipy import special

from modejump import ComplexityPrior, Space
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.transforms import transforms
from modejump.likelihoods.glm.expansion import Rows, rows_of_last_fit
from modejump.problem.feature_problem import feature_problem
from modejump.samplers.budget import Budget
from modejump.samplers.warmup.score_search import _checked, _Pool, can_score, score_gains, score_search


def simulated(family="binomial", rows=200, weights=False, size=3, seed=4, **options):
    """A law of a bent covariate and a product, among five covariates."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 5))
    eta = 2.5 * np.tanh(x[:, 0]) - 1.5 * x[:, 1] * x[:, 2]
    if family == "binomial":
        y = (eta + rng.logistic(size=rows) > 0).astype(float)
    else:
        y = rng.poisson(np.exp(0.4 * eta)).astype(float)
    return feature_problem(
        x, y, ["a", "b", "c", "d", "e"], transforms=[transforms["tanh"], transforms["gauss"]],
        space=Space(size=size, complexity=2, depth=1, projection=0.0), coef_prior=options.pop("coef_prior", "bic"),
        model_prior=ComplexityPrior(0.2), family=family,
        weights=rng.integers(1, 4, size=rows).astype(float) if weights else None,
    )  # fmt: skip


def names_of(pool):
    return [pool.workspace.feature(int(f)).text for f in pool.population.feature[: pool.count]]


def test_the_pool_holds_every_small_feature_once():
    pool = _Pool(simulated(), [])
    covariates = [Feature.covariate(name) for name in "abcde"]
    expected = [f.text for f in covariates]
    expected += [Feature.modification(g, f).text for g in ("tanh", "gauss") for f in covariates]
    expected += [Feature.product(f, g).text for f, g in itertools.combinations_with_replacement(covariates, 2)]
    assert sorted(names_of(pool)) == sorted(expected)


def test_members_have_places_in_a_pool_that_is_too_small_for_all():
    member = Feature("tanh(e)")
    pool = _Pool(simulated(), [member], most=4)
    assert pool.count == 4
    assert names_of(pool)[0] == "tanh(e)"
    assert pool.places([member]) == (0,)
    assert pool.places([Feature("gauss(e)")]) is None


@pytest.mark.parametrize("family", ["binomial", "poisson"])
@pytest.mark.parametrize("weights", [False, True])
def test_gains_are_those_of_one_newton_step_with_the_column(family, weights):
    pool = _Pool(simulated(family, weights=weights), [])
    data, cols = pool.data, np.array([0, 3], np.int64)
    assert np.isfinite(pool.value(tuple(cols.tolist())))
    rows = rows_of_last_fit(data.glm, pool.work, cols)
    members = np.vstack([data.glm.base, pool.columns[cols]])
    gains = score_gains(members, pool.columns, pool.squares, rows)
    for j in range(pool.count):
        design = np.vstack([members, pool.columns[j]])
        score, info = design @ rows.score, (design * rows.info) @ design.T
        if j in cols:
            assert gains[j] == -np.inf
        else:
            assert gains[j] == pytest.approx(0.5 * score @ np.linalg.solve(info, score), rel=1e-5, abs=1e-8)


def test_the_rows_at_a_fit_are_those_of_the_likelihood():
    pool = _Pool(simulated(), [])
    data, cols = pool.data, np.array([1, 2], np.int64)
    assert np.isfinite(pool.value(tuple(cols.tolist())))
    rows = rows_of_last_fit(data.glm, pool.work, cols)
    mean = special.expit(rows.predictor)
    np.testing.assert_allclose(rows.score, pool.problem.y - mean, atol=1e-10)
    np.testing.assert_allclose(rows.info, mean * (1 - mean), atol=1e-10)
    # At the maximum no member has a score.
    assert np.abs(np.vstack([data.glm.base, pool.columns[cols]]) @ rows.score).max() < 1e-4


def test_a_column_that_says_nothing_new_is_left_out():
    rng = np.random.default_rng(1)
    members = rng.normal(size=(2, 50))
    columns = np.vstack([members[0] * 3.0 - members[1], rng.normal(size=50)])
    gains = score_gains(members, columns, columns**2, Rows(np.zeros(50), rng.normal(size=50), np.ones(50)))
    assert gains[0] == -np.inf
    assert np.isfinite(gains[1])


@pytest.mark.parametrize("family", ["binomial", "poisson"])
@pytest.mark.parametrize("prior", ["bic", "g", "jeffreys"])
def test_a_search_from_nothing_finds_the_best_model(family, prior):
    problem = simulated(family, coef_prior=prior)
    found = {}
    score_search(problem, found, [frozenset()])
    pool = _Pool(problem, [])
    every = [m for k in range(3) for m in itertools.combinations(range(pool.count), k)]
    exact = _checked(pool, every)
    best = max(exact, key=lambda model: exact[model])
    assert max(found.values()) >= exact[best] - 1e-6
    # Both ways to evaluate a model agree.
    for model, value in found.items():
        if model in exact:
            assert value == pytest.approx(exact[model], abs=1e-6)


@pytest.mark.parametrize("weights", [False, True])
def test_values_are_those_of_the_chains(weights):
    problem = simulated(weights=weights)
    found = {}
    score_search(problem, found, [frozenset()])
    found_by_chains = gmjmcmc(problem, chains=2, budget=Budget(steps=6_000), seed=1)
    texts = [f.text for f in found_by_chains.laws.features]
    table = found_by_chains.models
    met = dict(zip(
        [frozenset(texts[j] for j in np.flatnonzero(row)) for row in table.membership(len(texts))],
        table.log_posterior, strict=True,
    ))  # fmt: skip
    shared = {frozenset(f.text for f in model): value for model, value in found.items()}.keys() & met.keys()
    assert len(shared) > 5
    values = {frozenset(f.text for f in model): value for model, value in found.items()}
    for model in shared:
        assert values[model] == pytest.approx(met[model], abs=1e-6)


def test_a_search_stops_when_asked_and_keeps_what_it_has():
    problem, asked = simulated(), []

    def go_on():
        asked.append(1)
        return len(asked) < 3

    found = {}
    score_search(problem, found, [frozenset()], go_on)
    assert found
    assert max(len(model) for model in found) <= 2


def test_which_families_have_score_tests():
    assert can_score(simulated())
    x = np.random.default_rng(0).normal(size=(30, 1))
    assert not can_score(
        feature_problem(x, x[:, 0], ["a"], transforms=[transforms["tanh"]], space=Space(), family="gaussian")
    )
