"""The library of RGMJMCMC: edits of good models scored against brute force, and which features get a place."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import feature_experiments as rt
import numpy as np
import pytest
from feature_twin import sound_edits

from modejump.experiments.oracle import ExactPosterior, exact_posterior
from modejump.features.logic.language import Logic
from modejump.features.logic.space import LogicSpace
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.kernels.populations.edit_scores import AS_GOOD
from modejump.kernels.populations.feature_chain import EVALUATE
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.logic_prior import LogicPrior
from modejump.problem.feature_problem import FeatureProblem, feature_problem, problem_over
from modejump.samplers.warmup.library import (
    NEGLIGIBLE,
    PAIRS,
    Collected,
    best_models,
    build_library,
    climb,
    edit_scores,
    log_importance,
    place_models,
)

F = Feature.parse
SEVERAL = "plain", "two functions", "projections", "no functions", "no products"


def models_of(*texts: str) -> list[frozenset[Feature]]:
    """Models from texts with commas between the features."""
    return [frozenset(F(part) for part in text.split(",") if part) for text in texts]


def problem_of(case: str) -> FeatureProblem:
    """A small problem; the response of two of them is a law without noise."""
    limits = {"depth": 2, "width": 3, "complexity": 4, "size": 3}
    if case == "projections":
        return rt.small_problem(31, depth=3, width=2, complexity=5, size=2, projections=True)
    if case == "two functions":
        return rt.small_problem(32, columns=3, functions=("sin", "troot"), depth=2, width=2, complexity=3, size=3)
    if case == "no functions":
        return rt.small_problem(33, columns=3, functions=(), **limits)
    if case == "no products":
        return rt.small_problem(34, functions=("sin", "troot"), **limits | {"width": 1})
    if case == "trees":
        return rt.small_problem(35, spelling="trees", **limits)
    if case == "copies":
        return rt.small_problem(36, columns=3, collinear="copy", **limits | {"complexity": 3})
    if case == "plain":
        return rt.small_problem(37, **limits)
    rng = np.random.default_rng(38)
    x = rng.uniform(0.5, 2.0, (30, 2))
    if case == "no noise, small variation":
        x = x * np.array([1.0, 1e-3]) + np.array([0.0, 5.0])
    weights = rng.integers(0, 4, 30).astype(float) if case == "weights" else None
    y = x[:, 0] * x[:, 1] + (rng.normal(size=30) if case == "weights" else 0.0)
    return feature_problem(
        x, y, "ab", transforms=[transforms[name] for name in ("sin", "troot", "sigmoid")],
        space=Space(depth=2, width=3, complexity=3, size=3, population=10), coef_prior="jeffreys",
        model_prior=ComplexityPrior(0.4), weights=weights,
    )  # fmt: skip


CASES = (*SEVERAL, "trees", "copies", "weights", "no noise", "no noise, small variation")


def exact_of(problem: FeatureProblem) -> ExactPosterior:
    return exact_posterior(problem, problem.language.enumerate(), size=problem.size)


def evaluate(problem: FeatureProblem, model: frozenset[Any]) -> float:
    """Log posterior of one model by the rules of the chains."""
    work, _, rows = place_models(problem, [model])
    values = np.zeros(1)
    work.work(EVALUATE, models=rows, values=values)
    return float(values[0])


def values_of(exact: ExactPosterior) -> Collected:
    """Log posterior of each model of positive probability."""
    return {
        frozenset(exact.features[i] for i in model): float(value)
        for model, value in zip(exact.models, exact.log_posterior, strict=True)
        if value > -np.inf
    }


def edits_of(problem: FeatureProblem, feature: Feature) -> list[Feature]:
    """Results of all edits of a feature that lie in the space, each as often as there are ways to it."""
    return [new for _, _, new in sound_edits(feature, problem.language) if new is not feature]


Neighbours = list[tuple[Feature | None, frozenset[Feature], float]]


def neighbours_of(problem: FeatureProblem, model: frozenset[Feature], exact: ExactPosterior) -> Neighbours:
    """All neighbours of a model: what is new in each, the neighbour, its value.

    Without a member; with an edit in the member's place, or beside it; and where the edit does as well as the member,
    also without any one of the others.
    """
    known, values = set(exact.features), values_of(exact)
    found: Neighbours = []
    for old in model:
        found.append((None, model - {old}, values[model - {old}]))
        for new in dict.fromkeys(edits_of(problem, old)):
            if new in known:
                made = [(model - {old}) | {new}, model | {new}]
                # A member twice is no model.
                if new not in model and values.get(made[0], -np.inf) > values[model] - AS_GOOD:
                    made += [(model - {old, also}) | {new} for also in model - {old}]
                found += [(new, one, -np.inf if new in model else values.get(one, -np.inf)) for one in made]
    return found


def some_models(exact: ExactPosterior, problem: FeatureProblem) -> list[frozenset[Feature]]:
    """The best models, one of each size, and the largest."""
    known = sorted(values_of(exact).items(), key=lambda item: -item[1])
    chosen = [model for model, _ in known[:4]]
    for size in range(problem.size + 1):
        chosen += [model for model, _ in known if len(model) == size][:2]
    return list(dict.fromkeys(chosen))


@pytest.mark.parametrize("case", CASES)
def test_scores_of_edits_equal_brute_force(case: str) -> None:
    problem = problem_of(case)
    exact = exact_of(problem)
    models = some_models(exact, problem)
    scores, better, done = edit_scores(problem, models)
    plain: dict[Feature, float] = {}
    evaluated, best = 0, []
    for model in models:
        found = neighbours_of(problem, model, exact)
        evaluated += len(found)
        for new, _, value in found:
            if new is not None and value > -np.inf:
                plain[new] = float(np.logaddexp(plain.get(new, -np.inf), value))
        best.append(max((value for _, _, value in found), default=-np.inf))
    assert done == evaluated
    assert scores == pytest.approx(plain, abs=1e-6)
    # The best neighbour of each model has its own value.
    values = values_of(exact)
    assert better == pytest.approx({model: values[model] for model in better}, abs=1e-6)
    for model, value in zip(models, best, strict=True):
        if value > -np.inf:
            near = {made for _, made, v in neighbours_of(problem, model, exact) if v > value - 1e-6}
            assert near & better.keys()


def test_an_empty_model_has_no_edits() -> None:
    problem = problem_of("plain")
    assert edit_scores(problem, []) == edit_scores(problem, models_of("")) == ({}, {}, 0)


def test_evaluations_of_edits_are_limited() -> None:
    problem = problem_of("plain")
    models = models_of("a,b,a*b", "a,sin(b)")
    full, _, all_of_them = edit_scores(problem, models)
    done = [edit_scores(problem, models, limit)[2] for limit in (1, 20, all_of_them, 10**6)]
    assert 1 <= done[0] <= done[1] < done[2] == done[3] == all_of_them
    # What was evaluated counts, and nothing else does.
    part, _, _ = edit_scores(problem, models, 1)
    assert part.keys() < full.keys() and all(part[f] <= full[f] + 1e-9 for f in part)


def test_a_pair_gives_way_to_the_one_feature_that_it_stands_for() -> None:
    """``a`` and ``a & !(b & c)`` explain what ``a & b & c`` explains: no change of one feature is better."""
    rng = np.random.default_rng(39)
    x = rng.integers(0, 2, (200, 6)).astype(float)
    y = 3.0 * x[:, 0] * x[:, 1] * x[:, 2] + rng.normal(size=200)
    language = Logic(list("abcdef"), LogicSpace(leaves=3, size=4, population=10))
    problem = problem_over(x, y, language, coef_prior="bic", model_prior=LogicPrior())
    pair = frozenset(map(language.parse, ("a", "a & (!b | !c)")))
    single, reshaped = (frozenset(map(language.parse, texts)) for texts in (["a & b & c"], ["a", "a & b & c"]))
    exact = exact_posterior(problem, language.enumerate(), size=1)
    truth = values_of(exact)[single]
    assert truth == exact.log_posterior.max()
    _, better, _ = edit_scores(problem, [pair])
    assert better == {single: pytest.approx(truth)}
    collected = {pair: evaluate(problem, pair)}
    assert evaluate(problem, reshaped) == pytest.approx(collected[pair]) and collected[pair] < truth - 1.0
    climb(problem, collected, [pair])
    assert max(collected, key=lambda model: collected[model]) == single


def test_operators_make_one_feature_of_a_pair_that_no_edit_makes() -> None:
    """``a & b`` without ``a & b & !(c & d)`` is ``a & b & c & d``, which is no edit of either."""
    rng = np.random.default_rng(40)
    x = rng.integers(0, 2, (300, 6)).astype(float)
    y = 4.0 * x[:, :4].prod(axis=1) + rng.normal(size=300)
    language = Logic(list("abcdef"), LogicSpace(leaves=4, size=4, population=10))
    problem = problem_over(x, y, language, coef_prior="bic", model_prior=LogicPrior())
    pair = frozenset(map(language.parse, ("a & b", "a & b & (!c | !d)")))
    single = frozenset([language.parse("a & b & c & d")])
    without, _, few = edit_scores(problem, [pair])
    scores, better, done = edit_scores(problem, [pair], pairs=PAIRS)
    assert not single & without.keys() and single <= scores.keys()
    assert better == {single: pytest.approx(evaluate(problem, single))} and few < done
    # No chance is in it: the same again.
    assert (scores, better, done) == edit_scores(problem, [pair], pairs=PAIRS)


def test_climbing_ends_where_no_neighbour_is_better_and_is_limited() -> None:
    for case in SEVERAL:
        problem = problem_of(case)
        exact = exact_of(problem)
        values = values_of(exact)
        start = min((model for model in values if model), key=lambda model: values[model])
        collected = {start: values[start]}
        climb(problem, collected, [start])
        assert collected == pytest.approx({model: values[model] for model in collected}, abs=1e-6)
        # Each step is better than the one before, and the last model has no better neighbour.
        path = list(collected)
        assert all(values[there] > values[here] for here, there in itertools.pairwise(path))
        top = max((value for _, _, value in neighbours_of(problem, path[-1], exact)), default=-np.inf)
        assert len(path) > 1 and top <= values[path[-1]] + 1e-6
    short = {start: values[start]}
    climb(problem, short, [start], limit=0)
    assert short == {start: values[start]}


def collected_of(problem: FeatureProblem, models: Iterable[frozenset[Feature]]) -> Collected:
    values = values_of(exact_of(problem))
    return {model: values[model] for model in models}


def test_importance_is_the_posterior_of_the_models_with_a_feature() -> None:
    exact = exact_of(problem_of("plain"))
    total = log_importance(values_of(exact))
    plain = exact.inclusion()
    assert {f: np.exp(v - exact.log_evidence) for f, v in total.items()} == pytest.approx(
        {f: p for f, p in plain.items() if f in total}, rel=1e-9
    )


def test_best_models_come_first_and_ties_go_by_text() -> None:
    models = models_of("a", "b", "a*b", "")
    collected = dict(zip(models, (1.0, 2.0, 1.0, 3.0), strict=True))
    assert best_models(collected, 3) == models_of("", "b", "a")
    assert best_models(dict(reversed(collected.items())), 4) == models_of("", "b", "a", "a*b")


def check_library(
    problem: FeatureProblem, collected: Collected, **options: Any
) -> tuple[Sequence[Feature], np.ndarray]:
    """A library twice, which is the same twice; what holds of any."""
    one, two = (build_library(problem, dict(collected), **options) for _ in range(2))
    assert one.features == two.features
    np.testing.assert_array_equal(one.importance, two.importance)
    assert len(one.features) == len(one.importance) <= options.get("most", 128)
    assert len(set(one.features)) == len(one.features)
    assert ((one.importance >= 0.0) & (one.importance <= 1.0)).all()
    return one.features, one.importance


@pytest.mark.parametrize("case", CASES)
def test_a_library_holds_covariates_good_models_and_what_lies_beside_them(case: str) -> None:
    problem = problem_of(case)
    exact = exact_of(problem)
    collected = collected_of(problem, some_models(exact, problem)[:3])
    features, _ = check_library(problem, collected)
    held = set(features)
    assert {F(name) for name in problem.names} <= held
    assert {f for model in collected for f in model} <= held
    total = np.logaddexp.reduce(list(values_of(exact).values()))
    for model in collected:
        for new, _, value in neighbours_of(problem, model, exact):
            # Against the whole posterior, which is more than warm-up knows of.
            assert new is None or new in held or value < total + np.log(NEGLIGIBLE)


def test_all_models_give_their_features_at_least_their_inclusion_probability() -> None:
    problem = problem_of("plain")
    exact = exact_of(problem)
    features, importance = check_library(problem, values_of(exact))
    inclusion = exact.inclusion()
    assert set(features) == set(exact.features)
    # A model counts again where it is an edit of another.
    assert all(p >= inclusion[f] - 1e-9 for f, p in zip(features, importance, strict=True))


def law_problem(law: str) -> FeatureProblem:
    rng = np.random.default_rng(41)
    x = rng.uniform(0.5, 3.0, (80, 3))
    column = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "sin": np.sin, "troot": np.cbrt}
    y = eval(law, column) + 0.05 * rng.normal(size=80)
    return feature_problem(x, y, "abc", transforms=[transforms["sin"], transforms["troot"]], space=Space())


# The second and the third are two edits away, by a better model on the way.
@pytest.mark.parametrize(
    ("law", "start"), [("sin(a*b)", "a*b"), ("a*b*c", "a"), ("a*b*c", "b"), ("troot(a)*b", "a*b"), ("b*sin(c)", "b*c")]
)
def test_edits_climb_to_a_law_that_warm_up_did_not_meet(law: str, start: str) -> None:
    problem = law_problem(law)
    collected: Collected = {frozenset([F(start)]): 0.0, frozenset(): 0.0}
    library = build_library(problem, collected)
    best = max(collected, key=lambda model: collected[model])
    assert F(law) in best and F(law) in library.features
    assert library.importance[library.features.index(F(law))] > 0.9


def test_a_library_has_room_for_so_many_and_half_of_it_for_idle_covariates() -> None:
    problem = problem_of("two functions")
    exact = exact_of(problem)
    covariates = {F(name) for name in problem.names}
    for most in (2, 6, 40):
        features, _ = check_library(problem, values_of(exact), most=most)
        assert len(features) == min(most, len(exact.features))
        # Where half of the library has room for all covariates, all have a place.
        if most >= 2 * len(covariates):
            assert covariates <= set(features)


def test_a_covariate_that_good_models_need_is_not_left_out_for_an_idle_one() -> None:
    problem = problem_of("two functions")
    a, b, c = (F(name) for name in "abc")
    others = [f for f in exact_of(problem).features if f not in (a, b, c)][:5]
    # Five features of great worth, one covariate of some, two of none.
    collected = {frozenset([f]): 100.0 for f in others} | {frozenset([a, F("sin(c)")]): 95.0}
    library = build_library(problem, collected, most=6, limit=1)
    assert {a, b, c} <= set(library.features)


def test_constant_covariates_have_no_place() -> None:
    rng = np.random.default_rng(42)
    x = rng.normal(size=(30, 3))
    x[:, 1] = 2.0
    problem = feature_problem(x, x[:, 0] + rng.normal(size=30), "abc", transforms=[transforms["sin"]], space=Space())
    cases: list[Collected] = [{}, {frozenset(): 0.0}, {frozenset([F("a")]): 1.0}]
    for collected in cases:
        features, _ = check_library(problem, collected)
        assert {F("a"), F("c")} <= set(features) and F("b") not in features


def test_what_edits_find_is_added_to_what_is_known() -> None:
    problem = problem_of("plain")
    values = values_of(exact_of(problem))
    collected = collected_of(problem, models_of("a*b*b"))
    before = dict(collected)
    build_library(problem, collected)
    assert before.items() <= collected.items() and len(collected) > len(before)
    assert collected == pytest.approx({model: values[model] for model in collected}, abs=1e-6)
