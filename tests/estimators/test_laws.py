"""Laws: functionally equal features are one, with aliases, and their masses add."""

from __future__ import annotations

from typing import Any

import feature_twin as twin
import numpy as np
import pytest

import modejump
from modejump.features.nonlinear.expression import Feature, evaluate
from modejump.features.nonlinear.space import Space
from modejump.kernels.evaluate import evaluate_member
from modejump.priors.complexity import ComplexityPrior
from modejump.problem.feature_problem import FeatureProblem, feature_problem
from modejump.samplers import laws as laws_module
from modejump.samplers.chains.genetic_chain import SPAN
from modejump.samplers.laws import laws_from, leading, same_laws

NAMES = ("P", "M", "R")
F = Feature.parse


@pytest.fixture(scope="module")
def planets() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.uniform(0.5, 4.0, size=(50, 3))
    y = np.cbrt(x[:, 0] ** 2 * x[:, 1]) + 0.05 * rng.normal(size=50)
    return x, y


def problem_of(x: np.ndarray, y: np.ndarray, **options: Any) -> FeatureProblem:
    functions = twin.listed(("troot", "square", "p2", "hs", "nhs"))
    return feature_problem(x, y, NAMES, transforms=functions, space=Space(), **options)


def columns_of(x: np.ndarray, features: list[Feature]) -> np.ndarray:
    return np.column_stack([evaluate(f, dict(zip(NAMES, x.T))) for f in features])


def test_functionally_equal_features_have_one_simplest_law(planets) -> None:
    features = [F(text) for text in ("troot(P)*troot(P)", "troot(P*P)", "P", "square(P)", "p2(P)", "P*P", "M")]
    law = same_laws(features, columns_of(planets[0], features))
    assert law[F("troot(P)*troot(P)")] is law[F("troot(P*P)")] is F("troot(P*P)")
    # Among the equally complex the first in order of text.
    assert law[F("square(P)")] is law[F("p2(P)")] is law[F("P*P")] is F("P*P")
    assert law[F("P")] is F("P") and law[F("M")] is F("M")
    # Whatever the order in which they come.
    backwards = same_laws(features[::-1], columns_of(planets[0], features[::-1]))
    assert backwards == law


def test_laws_are_equal_up_to_sign_scale_and_level_beside_an_intercept(planets) -> None:
    x = planets[0] - 2.0
    features = [F("hs(P)"), F("nhs(P)"), F("P")]
    columns = columns_of(x, features)
    # A step and its mirror image differ by a constant and the sign.
    assert same_laws(features, columns)[F("nhs(P)")] is F("hs(P)")
    assert same_laws(features, columns, intercept=False)[F("nhs(P)")] is F("nhs(P)")
    pair = [F("P"), F("M")]
    for intercept in (True, False):
        merged = same_laws(pair, np.column_stack([x[:, 0], -1e12 * x[:, 0]]), intercept)
        assert set(merged.values()) == {F("M")}


COLLECTED = {
    "troot(P*P*M)": 10.0,
    "troot(P*P)*troot(M)": 7.0,
    "troot(M)*troot(P)*troot(P)": 6.0,
    "troot(P*P)": 1.0,
    "troot(P)*troot(P)": 0.5,
    "": 0.0,
}


def collected() -> dict[frozenset[Feature], float]:
    singles = {frozenset([F(text)] if text else []): value for text, value in COLLECTED.items()}
    pairs = {
        frozenset([F("R"), F("troot(P*P*M)")]): 5.0,
        frozenset([F("R"), F("troot(P*P)*troot(M)")]): 4.0,
    }
    return singles | pairs


def test_masses_of_equal_models_add_and_aliases_are_told(planets) -> None:
    x, y = planets
    problem = problem_of(x, y)
    found, table = laws_from(problem, collected(), {})
    orbit, root = F("troot(P*P*M)"), F("troot(P*P)")
    assert set(found.features) == {orbit, root, F("R")}
    assert set(found.aliases[orbit]) == {F("troot(P*P)*troot(M)"), F("troot(M)*troot(P)*troot(P)")}
    assert found.aliases[root] == (F("troot(P)*troot(P)"),)
    assert found.aliases[F("R")] == ()
    models = {
        frozenset(found.features[i] for i in table.members(row)): table.log_posterior[row] for row in range(len(table))
    }
    assert models == pytest.approx(
        {
            frozenset([orbit]): np.logaddexp.reduce([10.0, 7.0, 6.0]),
            frozenset([root]): np.logaddexp(1.0, 0.5),
            frozenset(): 0.0,
            frozenset([F("R"), orbit]): np.logaddexp(5.0, 4.0),
        },
        abs=1e-12,
    )
    assert (np.diff(table.log_posterior) <= 0).all()


@pytest.mark.parametrize("spelling", ["canonical", "trees"])
def test_the_selection_problem_has_the_prior_and_columns_of_its_laws(planets, spelling: str) -> None:
    x, y = planets
    problem = problem_of(x, y, model_prior=ComplexityPrior("1/n", spelling), coef_prior="jeffreys")
    found, _ = laws_from(problem, collected(), {})
    assert found.problem.names == tuple(f.text for f in found.features)
    for model in ([], [0], [0, 1], [1, 2], [0, 1, 2]):
        member = np.zeros(found.problem.n_terms, np.uint8)
        member[model] = 1
        expected = twin.evaluation(problem, y, [found.features[i] for i in model])
        assert abs(evaluate_member(found.problem.data, member)[0] - expected.value) < 1e-8


def test_leading_models_are_the_best_within_span_and_room(monkeypatch: pytest.MonkeyPatch) -> None:
    models = {frozenset([Feature.covariate(f"x{j}")]): -float(j) for j in range(40)}
    chosen = leading(models, rows=100)
    assert [value for _, value in chosen] == [-float(j) for j in range(int(SPAN) + 1)]
    # Columns of very long tables leave room for sixteen features.
    close = {model: value / 100.0 for model, value in models.items()}
    assert len(leading(close, rows=10**9)) == 16
    assert len(leading(close, rows=100)) == 40
    monkeypatch.setattr(laws_module, "MOST_MODELS", 7)
    assert len(leading(close, rows=100)) == 7


def test_nothing_but_the_empty_model_is_a_result(planets) -> None:
    x, y = planets
    found, table = laws_from(problem_of(x, y), {frozenset(): 0.0}, {})
    assert found.features == () and len(table) == 1 and table.members(0) == []


def test_a_law_that_other_rows_than_those_searched_do_not_have() -> None:
    """All that a sample of the rows prefers may be undefined in others: the fit goes on with what is defined."""
    rng = np.random.default_rng(1)
    x = rng.uniform(0.5, 3.0, (5000, 1))
    y = 1.0 / x[:, 0] + 0.05 * rng.normal(size=5000)
    x[rng.choice(5000, 3, replace=False)] = 0.0
    budget = modejump.Budget(warmup=3000, steps=2000)
    model = modejump.BGNLMRegressor(transforms=["inv"], chains=4, budget=budget, random_state=1, progress=False)
    with pytest.warns(modejump.ModejumpWarning, match="met the best model"):
        model.fit(x, y)
    assert model.verdict_.search == "uncertain"
    assert np.isfinite(model.predict(x)).all()
