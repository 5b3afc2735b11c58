"""The exact oracle: counts of features, agreement with enumeration and with the compiled search, known posteriors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import feature_twin as twin
import numpy as np
import pandas as pd
import pytest
from feature_cases import depth_of, feature_of, trees
from running import enumerate_models

from modejump.core.errors import InputError
from modejump.estimators.bglm import BGLMRegressor
from modejump.experiments import load_exoplanets, oracle
from modejump.experiments.oracle import ExactPosterior, exact_posterior, exact_singles_and_pairs
from modejump.experiments.spaces import feature_columns, law_of_each
from modejump.features.nonlinear import language
from modejump.features.nonlinear.expression import Feature, evaluate
from modejump.features.nonlinear.language import Nonlinear
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.kernels.evaluate import evaluate_member
from modejump.priors.coefficients import COEF_PRIORS, Jeffreys, KnownVariance
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.models import BernoulliPrior
from modejump.problem.feature_problem import FeatureProblem, feature_problem
from modejump.problem.problem import Problem
from modejump.samplers.chains.genetic_chain import GeneticChain
from modejump.samplers.laws import laws_from, same_laws

F = Feature.parse
PROJECTIONS = Space(complexity=5, width=3, size=2, mutation=0.2, projection=0.1)


def table(rows: int, columns: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 3.0, size=(rows, columns)), rng.normal(size=rows)


def problem_of(
    x: np.ndarray, y: np.ndarray, functions: tuple[str, ...], space: Space, **options: Any
) -> FeatureProblem:
    names = [f"x{j + 1}" for j in range(x.shape[1])]
    return feature_problem(x, y, names, transforms=twin.listed(functions), space=space, **options)


def features_of(problem: FeatureProblem, complexity: int | None = None) -> list[Feature]:
    return list(problem.language.enumerate(complexity))  # type: ignore[arg-type]


def enumerate_features(
    names: Sequence[str], functions: Sequence[str], space: Space, complexity: int | None = None
) -> list[Feature]:
    return Nonlinear(names, twin.listed(functions), space).enumerate(complexity)


def by_model(exact: ExactPosterior) -> dict[frozenset[Feature], float]:
    return {
        frozenset(exact.features[i] for i in model): value for model, value in zip(exact.models, exact.log_posterior)
    }


# --- the features of a space --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("depth", "width"), [(5, 6), (2, 6), (1, 6), (0, 6), (5, 2), (5, 1), (2, 3)])
def test_features_are_those_of_all_expression_trees(depth: int, width: int) -> None:
    # A feature is as deep as the shallowest tree that spells it.
    shallowest: dict[Feature, int] = {}
    for c in range(1, 6):
        for tree in trees(c):
            feature = feature_of(tree)
            shallowest[feature] = min(shallowest.get(feature, 99), depth_of(tree))
    expected = {f for f, d in shallowest.items() if d <= depth and widest(f.text) <= width}
    found = enumerate_features(["x", "y"], ["sin"], Space(depth=depth, width=width), complexity=5)
    assert len(found) == len(set(found)) and set(found) == expected
    assert [(f.complexity, f.text) for f in found] == sorted((f.complexity, f.text) for f in found)


def widest(text: str) -> int:
    """The largest number of factors side by side in a text without projections."""
    counts, most = [1], 1
    for letter in text:
        if letter == "(":
            counts.append(1)
        elif letter == ")":
            counts.pop()
        elif letter == "*":
            counts[-1] += 1
            most = max(most, counts[-1])
    return most


@cache
def count(c: int, covariates: int, functions: int) -> tuple[int, int]:
    """How many features there are of one complexity, and how many of them are not products, by arithmetic alone."""
    single = covariates if c == 1 else functions * count(c - 1, covariates, functions)[0]
    # Multisets by generating functions: factors of complexity j come in C(number + r - 1, r) multisets of r.
    ways = [1] + [0] * c
    for j in range(1, c):
        number = count(j, covariates, functions)[1]
        ways = [
            sum(math.comb(max(number + r - 1, 0), r) * ways[total - r * j] for r in range(total // j + 1))
            for total in range(c + 1)
        ]
    return single + (ways[c] if c > 1 else 0), single


@pytest.mark.parametrize(("covariates", "functions", "most"), [(10, 7, 4), (1, 1, 9), (3, 0, 6), (2, 3, 5)])
def test_numbers_of_features(covariates: int, functions: int, most: int) -> None:
    names = [f"x{j}" for j in range(covariates)]
    space = Space(depth=20, width=12)
    found = enumerate_features(names, transforms.set("G2")[:functions], space, complexity=most)
    counted = [sum(f.complexity == c for f in found) for c in range(1, most + 1)]
    assert counted == [count(c, covariates, functions)[0] for c in range(1, most + 1)]


def closure(names: list[str], functions: list[str], space: Space) -> set[Feature]:
    """All that the operators can make, applied until nothing is new."""
    known: set[Feature] = set()
    fresh = {Feature.covariate(name) for name in names}
    while fresh - known:
        known |= fresh
        fresh = {f for f in operated(sorted(known), functions, space) if within(f, space)}
    return known


def operated(known: list[Feature], functions: list[str], space: Space) -> Iterator[Feature]:
    yield from (a * b for a in known for b in known if a.complexity + b.complexity <= space.complexity)
    yield from (Feature.modification(g, f) for g in functions for f in known)
    # m parents make a projection of complexity 2 m + 1 at least.
    for m in range(1, min(space.width, (space.complexity - 1) // 2) + 1):
        for parents in itertools.combinations(known, m):
            if sum(f.complexity for f in parents) + m + 1 <= space.complexity:
                yield from (Feature.projection(g, *parents) for g in functions)


def within(f: Feature, space: Space) -> bool:
    return f.depth <= space.depth and f.width <= space.width and f.complexity <= space.complexity


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_features_with_projections_are_what_the_operators_make(depth: int, width: int) -> None:
    space = replace(PROJECTIONS, depth=depth, width=width)
    found = enumerate_features(["a", "b"], ["sin", "troot"], space)
    assert len(found) == len(set(found)) and set(found) == closure(["a", "b"], ["sin", "troot"], space)
    assert any(f.kind == "projection" for f in found)
    three = replace(PROJECTIONS, depth=1, width=width, complexity=7)
    assert set(enumerate_features(["a", "b", "c"], ["sin"], three)) == closure(["a", "b", "c"], ["sin"], three)
    without = enumerate_features(["a", "b"], ["sin", "troot"], Space(depth=depth, width=width, complexity=5))
    assert without == [f for f in found if all(part.kind != "projection" for part in f.subfeatures())]


def test_the_limit_of_complexity_is_the_tighter_one() -> None:
    space = Space(complexity=3)
    assert enumerate_features(["x"], ["sin"], space) == enumerate_features(["x"], ["sin"], space, complexity=9)


def test_spaces_out_of_reach_are_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "MOST_FEATURES", 100)
    with pytest.raises(InputError, match="more than 100 features of complexity up to 5"):
        enumerate_features(["x", "y"], ["sin"], Space())


# --- columns and laws ---------------------------------------------------------------------------------------------


def test_columns_are_those_of_the_expressions() -> None:
    x, noise = table(30, 2)
    problem = problem_of(x, x[:, 0] + noise, ("sin", "troot"), PROJECTIONS)
    columns = feature_columns(problem, features_of(problem))
    named = dict(zip(problem.names, x.T))
    for f, raw, z in zip(columns.features, columns.raw, columns.z):
        np.testing.assert_allclose(raw, evaluate(f, named, columns.constants), rtol=1e-13)
        expected = twin.standardised(raw, problem.basis, problem.root_weight)
        assert expected is not None
        np.testing.assert_allclose(z, expected, atol=1e-12)


def test_features_that_no_model_can_have_are_dropped() -> None:
    x, noise = table(30, 3)
    x[:, 1] = 4.0
    x[:, 2] = 10.0 ** np.linspace(-150, 150, 30)
    problem = problem_of(x, noise, ("to35", "p0", "hs"), Space(size=2))
    exact = exact_posterior(
        problem, map(F, ("x1", "x2", "x3", "to35(x3)", "p0(x1)", "x1*x2", "hs(x1)", "x3*x3")), size=2
    )
    # x2 and the step are constant, powers of x3 overflow or their squares do.
    assert [f.text for f in exact.features] == ["x1", "x3", "p0(x1)", "x1*x2"]
    assert len(exact.models) == 1 + 4 + 6
    assert [f.text for f in exact.law_of] == ["x1", "x3", "p0(x1)", "x1"]


def test_a_function_that_fails_leaves_its_features_out() -> None:
    def fails_on_large(x: np.ndarray) -> np.ndarray:
        if (x[np.isfinite(x)] > 2e4).any():
            raise FloatingPointError
        return np.sqrt(np.abs(x))

    mine = transforms.add("fails_on_large", fails_on_large)
    try:
        x, noise = table(20, 2)
        x[:, 1] *= 1e6
        problem = feature_problem(x, noise, ["a", "b"], transforms=[mine], space=Space())
        found = feature_columns(problem, features_of(problem, 2)).features
        assert F("fails_on_large(a)") in found and F("fails_on_large(b)") not in found
    finally:
        transforms.remove("fails_on_large")


@pytest.mark.parametrize("intercept", [True, False])
def test_laws_are_those_of_all_pairwise_comparisons(intercept: bool) -> None:
    x, noise = table(25, 2)
    x[:, 1] -= 1.5
    functions = ("troot", "square", "hs", "nhs", "sigmoid")
    problem = problem_of(x, noise, functions, Space(), intercept=intercept)
    columns = feature_columns(problem, features_of(problem, 4))
    law = law_of_each(columns.features, columns.raw, intercept)
    expected = same_laws(columns.features, columns.raw.T, intercept)
    assert {f: columns.features[i] for f, i in zip(columns.features, law)} == expected
    assert 0.2 * len(law) < len(set(law)) < 0.9 * len(law)
    assert law_of_each([], np.empty((0, 25)), intercept) == []


# --- the posterior ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COEF_PRIORS)
@pytest.mark.parametrize("intercept", [True, False])
def test_covariates_alone_have_the_posterior_of_enumeration(name: str, intercept: bool) -> None:
    x, noise = table(30, 6)
    x[:, 5] = x[:, 0] + x[:, 1]  # collinear: no model has all three
    y = 0.6 * x[:, 0] - 0.4 * x[:, 2] + noise
    weights = np.random.default_rng(2).integers(1, 4, 30).astype(float)
    coef_prior = KnownVariance(2.0) if name == KnownVariance.name else COEF_PRIORS[name]()
    a = 0.3
    problem = problem_of(
        x, y, (), Space(depth=0, size=6), coef_prior=coef_prior, model_prior=ComplexityPrior(a), weights=weights,
        intercept=intercept,
    )  # fmt: skip
    exact = exact_posterior(problem, features_of(problem), size=6)
    # A weight a for each feature is an inclusion with odds a.
    selection = Problem.build(
        x, y, weights=weights, coef_prior=coef_prior, model_prior=BernoulliPrior(a / (1.0 + a)), intercept=intercept
    )
    enumerated = enumerate_models(selection)
    assert exact.features == tuple(Feature.covariate(name) for name in problem.names)
    assert exact.probability.sum() == pytest.approx(1.0, abs=1e-12)
    inclusion = exact.inclusion()
    assert [inclusion[F(name)] for name in problem.names] == pytest.approx(enumerated.renormalised.tolist(), abs=1e-9)
    models = dict(zip(exact.models, exact.probability))
    assert len(models) == 64
    for row in range(len(enumerated.models)):
        expected = np.exp(enumerated.models.log_posterior[row] - enumerated.log_evidence)
        assert models[tuple(enumerated.models.members(row))] == pytest.approx(expected, abs=1e-9)
    assert all(value == 0.0 for model, value in models.items() if {0, 1, 5} <= set(model))
    assert (np.diff(exact.log_posterior[np.isfinite(exact.log_posterior)]) <= 0).all()


def test_covariates_alone_have_the_posterior_of_the_estimator() -> None:
    x, noise = table(40, 5)
    y = 0.6 * x[:, 0] - 0.4 * x[:, 2] + noise
    problem = problem_of(x, y, (), Space(depth=0, size=5, population=5), model_prior=ComplexityPrior("1/n"))
    exact = exact_posterior(problem, features_of(problem), size=5).inclusion()
    named = pd.DataFrame(x, columns=list(problem.names))
    fitted = BGLMRegressor(model_prior=BernoulliPrior(1.0 / 41.0), algorithm="enumerate").fit(named, y)
    expected = fitted.inclusion_["probability"]
    assert {f.text: p for f, p in exact.items()} == pytest.approx(expected.to_dict(), abs=1e-9)


@pytest.mark.parametrize("spelling", ["canonical", "trees"])
@pytest.mark.parametrize("coef_prior", ["jeffreys", "hyper-g"])
def test_every_model_has_the_value_of_least_squares_on_the_rows(spelling: str, coef_prior: str) -> None:
    x, noise = table(40, 2)
    y = x[:, 0] * x[:, 1] + 0.3 * noise
    weights = np.random.default_rng(3).integers(1, 3, 40).astype(float)
    problem = problem_of(
        x, y, ("sin",), Space(size=3), coef_prior=coef_prior, model_prior=ComplexityPrior("exp(-1)", spelling),
        weights=weights,
    )  # fmt: skip
    exact = exact_posterior(problem, features_of(problem, 3), size=3)
    models = by_model(exact)
    assert len(models) == 1 + 20 + 190 + 1140
    assert models[frozenset()] == 0.0
    for model in itertools.islice(models, 0, None, 7):
        expected = twin.evaluation(problem, y, sorted(model), weights=weights)
        assert abs(models[model] - expected.value) < 1e-8 + expected.rounding
    assert exact.log_evidence == pytest.approx(np.logaddexp.reduce(list(models.values())), abs=1e-12)
    inclusion = exact.inclusion()
    for f in exact.features[::5]:
        share = sum(math.exp(v - exact.log_evidence) for model, v in models.items() if f in model)
        assert inclusion[f] == pytest.approx(share, abs=1e-12)
    assert list(inclusion.values()) == sorted(inclusion.values(), reverse=True)


def compared_with_the_search(problem: FeatureProblem, exact: ExactPosterior, populations: int) -> GeneticChain:
    """All models that a chain kept have the oracle's value."""
    chain = GeneticChain(problem, np.random.SeedSequence(5), steps=100, patience=10)
    chain.run_to(populations)
    models, kept = by_model(exact), twin.kept_models(chain)
    assert len(kept) > 50
    weights = problem.root_weight**2
    for model, value in kept.items():
        expected = twin.evaluation(problem, problem.y, sorted(model), exact.constants, weights)
        assert abs(models[model] - value) < 1e-8 + 2.0 * expected.rounding
    chain.collect()
    return chain


@pytest.mark.parametrize("spelling", ["canonical", "trees"])
@pytest.mark.parametrize("coef_prior", [Jeffreys(), KnownVariance(1.0), "g", "jzs"])
def test_the_compiled_search_gives_models_the_same_value(spelling: str, coef_prior: Any) -> None:
    x, noise = table(40, 2)
    y = x[:, 0] * np.sin(x[:, 1]) + 0.2 * noise
    space = Space(complexity=3, size=2, population=8)
    prior = ComplexityPrior("exp(-1)", spelling)
    problem = problem_of(x, y, ("sin", "troot"), space, coef_prior=coef_prior, model_prior=prior)
    exact = exact_posterior(problem, features_of(problem), size=2)
    chain = compared_with_the_search(problem, exact, 60)
    # Laws and their selection problem, too.
    laws, _ = laws_from(problem, chain.collected, {})
    law_of = dict(zip(exact.features, exact.law_of))
    assert all(law_of[alias] is law for law, aliases in laws.aliases.items() for alias in aliases)
    values = by_model(exact)
    for j, law in enumerate(laws.features):
        member = np.zeros(laws.problem.n_terms, np.uint8)
        member[j] = 1
        assert evaluate_member(laws.problem.data, member)[0] == pytest.approx(values[frozenset([law])], abs=1e-8)


@pytest.mark.parametrize("alphas", ["ml", "ones"])
def test_projections_have_the_alphas_and_the_values_of_the_compiled_search(alphas: str) -> None:
    x, noise = table(50, 2)
    x[:, 1] -= 2.0
    y = 2.0 / (1.0 + np.exp(x[:, 0] - 2.0 * x[:, 1])) + 0.2 * noise
    weights = np.random.default_rng(4).integers(1, 3, 50).astype(float)
    space = replace(PROJECTIONS, alphas=alphas, population=10, projection=0.4, crossover=0.2, modification=0.2)
    problem = problem_of(x, y, ("sigmoid",), space, weights=weights, model_prior=ComplexityPrior("exp(-1)"))
    exact = exact_posterior(problem, features_of(problem), size=2)
    assert sum(f.kind == "projection" for f in exact.features) > 10
    chain = compared_with_the_search(problem, exact, 60)
    assert len(chain.constants) > 5
    for projection, alpha in chain.constants.items():
        np.testing.assert_allclose(exact.constants[projection], alpha, rtol=1e-8, atol=1e-8)


def test_projections_of_parents_that_do_not_determine_them_are_dropped() -> None:
    x, noise = table(30, 3)
    x[:, 1], x[:, 2] = 4.0, 10.0 ** np.linspace(-150, 150, 30)
    problem = problem_of(x, x[:, 0] + noise, ("sigmoid", "square"), replace(PROJECTIONS, complexity=8))
    texts = (
        "sigmoid(1 + x1)",
        "sigmoid(1 + x2)",
        "sigmoid(1 + x3*x3)",
        "sigmoid(1 + x1 + x1*x2)",
        "x1*sigmoid(1 + x2)",
    )
    assert [f.text for f in feature_columns(problem, map(F, texts)).features] == ["sigmoid(1 + x1)"]


@pytest.mark.parametrize("kind", ["random", "optimised"])
def test_alphas_that_only_the_search_finds_must_be_given(kind: str) -> None:
    x, noise = table(40, 2)
    y = 1.0 / (1.0 + np.exp(x[:, 0] - x[:, 1])) + 0.1 * noise
    space = replace(PROJECTIONS, alphas=kind, population=10, projection=0.4, crossover=0.2, modification=0.2)
    problem = problem_of(x, y, ("sigmoid",), space)
    with pytest.raises(InputError, match=f"{kind} coefficients"):
        exact_posterior(problem, features_of(problem), size=1)
    chain = GeneticChain(problem, np.random.SeedSequence(6), steps=100, patience=10)
    chain.run_to(40)
    chain.collect()
    features = {f for model in chain.collected for f in model}
    assert any(f.kind == "projection" for f in features)
    models = by_model(exact_posterior(problem, features, size=2, constants=chain.constants))
    for model, value in chain.collected.items():
        rounding = twin.evaluation(problem, y, sorted(model), chain.constants).rounding
        assert abs(models[model] - value) < 1e-8 + 2.0 * rounding


def test_near_perfect_fits_are_refined_and_floored_like_the_canonical_evaluation() -> None:
    x, noise = table(60, 3)
    y = x[:, 0] ** 2 * x[:, 1] * (1.0 + 1e-6 * noise)
    problem = problem_of(x, y, ("sin",), Space(size=2), coef_prior="jeffreys")
    exact = exact_posterior(problem, features_of(problem, 3), size=2)
    perfect = exact_posterior(replace_response(problem, x[:, 0] ** 2 * x[:, 1]), [F("x1*x1*x2"), F("x3")], size=2)
    law = F("x1*x1*x2")
    for model in [frozenset([law]), frozenset([law, F("x3")])]:
        expected = twin.evaluation(problem, y, sorted(model))
        assert by_model(exact)[model] == pytest.approx(expected.value, rel=1e-7)
    # Without noise there is nothing but rounding left: both models are at the floor.
    values = by_model(perfect)
    step = 0.5 * math.log(2.0 * math.pi) - math.log(60.0)
    assert values[frozenset([law, F("x3")])] - values[frozenset([law])] == pytest.approx(step, abs=1e-9)


def replace_response(problem: FeatureProblem, y: np.ndarray) -> FeatureProblem:
    return feature_problem(
        problem.x.T, y, problem.names, transforms=problem.language.transforms, space=problem.language.limits,
        coef_prior=problem.coef_prior, model_prior=problem.model_prior,
    )  # fmt: skip


def test_models_without_residual_degrees_of_freedom_have_probability_zero() -> None:
    x, noise = table(5, 5)
    problem = problem_of(x, noise, (), Space(depth=0, size=5), coef_prior="jeffreys")
    exact = exact_posterior(problem, features_of(problem), size=5)
    for model, value in zip(exact.models, exact.log_posterior):
        assert np.isfinite(value) == (len(model) <= 3)


def test_laws_gather_the_mass_of_their_spellings() -> None:
    x, noise = table(40, 2)
    y = np.cbrt(x[:, 0] ** 2) + 0.1 * noise
    problem = problem_of(x, y, ("troot",), Space(size=2), model_prior=ComplexityPrior("exp(-0.5)"))
    exact = exact_posterior(problem, features_of(problem, 4), size=2)
    law_of = dict(zip(exact.features, exact.law_of))
    law, alias = F("troot(x1*x1)"), F("troot(x1)*troot(x1)")
    assert law_of[alias] is law
    expected = sum(
        p
        for model, p in zip(exact.models, exact.probability)
        if any(law_of[exact.features[i]] is law for i in model)
    )  # fmt: skip
    by_feature, by_law = exact.inclusion(), exact.inclusion(laws=True)
    assert by_law[law] == pytest.approx(expected, abs=1e-12)
    assert by_law[law] >= by_feature[law] + by_feature[alias] - 1e-12
    # A model of a feature and its alias is rank deficient.
    assert by_model(exact)[frozenset([law, alias])] == -np.inf
    shown = exact.table()
    assert list(shown.columns) == ["probability", "complexity", "aliases"]
    assert alias.text in shown.loc[law.text, "aliases"]
    assert shown["probability"].is_monotonic_decreasing
    assert sum(1 + len(a) for a in shown["aliases"]) == len(exact.features)


def test_a_model_of_two_spellings_counts_once_for_their_law() -> None:
    # Columns may be alike enough for one law and different enough for a model of both.
    x, z = F("x"), F("z")
    exact = ExactPosterior((x, z), ((0, 1), (0,), ()), np.log([0.5, 0.3, 0.2]), (x, x), {})
    assert exact.inclusion() == pytest.approx({x: 0.8, z: 0.5})
    assert exact.inclusion(laws=True) == pytest.approx({x: 0.8})


def test_nothing_but_the_empty_model_is_a_posterior() -> None:
    x, noise = table(20, 2)
    problem = problem_of(x, noise, ("sin",), Space())
    for exact in (exact_posterior(problem, [], size=2), exact_posterior(problem, [F("x1")], size=0)):
        assert exact.models == ((),) and exact.probability.tolist() == [1.0]
    assert exact_posterior(problem, [], size=1).table().empty


def test_a_feature_given_twice_counts_once() -> None:
    x, noise = table(20, 2)
    problem = problem_of(x, noise, ("sin",), Space())
    assert exact_posterior(problem, [F("x1"), F("x2"), F("x1")], size=2).features == (F("x1"), F("x2"))


OUTSIDE = {"covariate": "x9", "function": "troot(x1)", "complexity": "x1*x1*x1*x1", "projection": "sin(1 + x1)"}


@pytest.mark.parametrize("text", OUTSIDE.values(), ids=OUTSIDE)
def test_features_outside_the_space_are_refused(text: str) -> None:
    x, noise = table(20, 2)
    problem = problem_of(x, noise, ("sin",), Space(complexity=3))
    with pytest.raises(InputError, match="is not in the space of the problem"):
        exact_posterior(problem, [F(text)], size=1)


def test_bad_sizes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x, noise = table(20, 2)
    problem = problem_of(x, noise, ("sin",), Space(size=2))
    for size in (-1, 3, True, 1.0):
        with pytest.raises(InputError, match="from 0 to 2 features"):
            exact_posterior(problem, [F("x1")], size=size)  # type: ignore[arg-type]
    for options in ({"top": -1}, {"top": 1.5}, {"beside": True}):
        with pytest.raises(InputError, match="a whole number of at least 0"):
            exact_singles_and_pairs(problem, complexity=2, **options)  # type: ignore[arg-type]
    monkeypatch.setattr(oracle, "MOST_MODELS", 3)
    with pytest.raises(InputError, match="2 features make 4 models"):
        exact_posterior(problem, [F("x1"), F("x2")], size=2)


# --- singles and pairs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("top", "beside"), [(0, 0), (5, 0), (0, 3), (5, 2), (2, 5), (99, 1), (5, 99)])
def test_singles_and_pairs_are_a_part_of_all_models(top: int, beside: int) -> None:
    x, noise = table(40, 2)
    y = x[:, 0] * x[:, 1] + noise
    problem = problem_of(x, y, ("sin",), Space(size=2))
    whole = by_model(exact_posterior(problem, features_of(problem, 3), size=2))
    part = exact_singles_and_pairs(problem, complexity=3, top=top, beside=beside)
    values = by_model(part)
    assert len(values) == len(part.models) and all(list(model) == sorted(model) for model in part.models)
    ranked = sorted((model for model in whole if len(model) == 1), key=lambda model: -whole[model])
    best = [next(iter(model)) for model in ranked]
    expected = {frozenset(pair) for pair in itertools.combinations(best[:top], 2)}
    expected |= {frozenset([a, b]) for a in best[:beside] for b in best if a is not b}
    assert values.keys() == {frozenset(), *ranked} | expected
    for model, value in values.items():
        assert value == pytest.approx(whole[model], abs=1e-9)


def test_a_space_of_single_features_has_no_pairs() -> None:
    x, noise = table(30, 2)
    exact = exact_singles_and_pairs(problem_of(x, noise, ("sin",), Space(size=1)), complexity=2)
    assert {len(model) for model in exact.models} == {0, 1}


# --- the exoplanets -----------------------------------------------------------------------------------------------

P, MASS, RADIUS, TEMPERATURE = "PeriodDays", "HostStarMassSlrMass", "HostStarRadiusSlrRad", "HostStarTempK"
R, DENSITY = "RadiusJpt", "PlanetaryDensJpt"
# Enumerated by an independent program: all models of one feature up to complexity 4, equal features merged.
ORBITS = {f"troot({P}*{P}*{MASS})": 0.564, f"troot({P}*{P}*{RADIUS})": 0.429, f"troot({P}*{P}*{TEMPERATURE})": 0.007}
MASSES = {
    "canonical": {f"{R}*{R}*{R}*{DENSITY}": 0.146, f"to35({R})*{DENSITY}": 0.765, f"to23({R})*{R}*{DENSITY}": 0.039,
                  f"to23({R})*{DENSITY}": 0.034},
    "trees": {f"{R}*{R}*{R}*{DENSITY}": 0.582, f"to35({R})*{DENSITY}": 0.305, f"to23({R})*{R}*{DENSITY}": 0.093,
              f"to23({R})*{DENSITY}": 0.014},
}  # fmt: skip


def exoplanets(target: str, coef_prior: Any, prior: ComplexityPrior) -> FeatureProblem:
    frame = load_exoplanets()
    x = frame.drop(columns=target)
    g = twin.listed(transforms.set("G2"))
    return feature_problem(
        x.to_numpy(float), frame[target].to_numpy(float), list(x.columns), transforms=g, space=Space(),
        coef_prior=coef_prior, model_prior=prior,
    )  # fmt: skip


@pytest.mark.parametrize("spelling", ["canonical", "trees"])
@pytest.mark.parametrize("target", ["SemiMajorAxisAU", "PlanetaryMassJpt"])
def test_laws_of_exoplanets_have_their_known_probabilities(target: str, spelling: str) -> None:
    problem = exoplanets(target, KnownVariance(1.0), ComplexityPrior("1/n", spelling))
    exact = exact_singles_and_pairs(problem, complexity=4, top=0, beside=0)
    assert len(features_of(problem, 4)) == 30_295 and 29_000 < len(exact.features)
    found = exact.inclusion(laws=True)
    known = ORBITS if target == "SemiMajorAxisAU" else MASSES[spelling]
    for text, probability in known.items():
        # The figures are given to three digits.
        assert abs(found[F(text)] - probability) < 0.001


def test_pairs_move_the_laws_of_exoplanets_little() -> None:
    problem = exoplanets("PlanetaryMassJpt", KnownVariance(1.0), ComplexityPrior("1/n", "trees"))
    found = exact_singles_and_pairs(problem).inclusion(laws=True)
    for text, probability in MASSES["trees"].items():
        # Larger models are known to shift these probabilities by about 0.02 at most.
        assert abs(found[F(text)] - probability) < 0.02


def test_known_best_models_of_orbits_with_unknown_variance() -> None:
    exact = exact_singles_and_pairs(exoplanets("SemiMajorAxisAU", Jeffreys(), ComplexityPrior("n^-2")))
    law = F(f"troot({P}*{P}*{MASS})")
    first, second = ({exact.features[i] for i in model} for model in exact.models[:2])
    assert first == {law, F(f"PlanetaryMassJpt*{P}")} and second == {law, F(f"troot({P}*{P})")}
    # Figures of these two models to one digit: 616.2 and 614.1.
    assert exact.log_posterior[0] - exact.log_posterior[1] == pytest.approx(2.1, abs=0.1)
    assert exact.inclusion(laws=True)[law] > 0.95


def test_the_mass_law_leads_with_unknown_variance() -> None:
    exact = exact_singles_and_pairs(exoplanets("PlanetaryMassJpt", Jeffreys(), ComplexityPrior("n^-2")))
    assert [exact.features[i] for i in exact.models[0]] == [F(f"{R}*{R}*{R}*{DENSITY}")]
    assert exact.log_posterior[0] - exact.log_posterior[1] == pytest.approx(9.9, abs=0.05)
