"""Constants of several laws, refined together before they are frozen."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from language_checks import check_resumed
from running import rgmjmcmc
from support.law_constants import LawTable, laws_over

from modejump.core.errors import InputError
from modejump.features.laws.expression import Feature
from modejump.features.laws.language import Laws
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.posterior import Posterior
from modejump.problem.feature_problem import FeatureProblem, problem_over
from modejump.samplers.budget import Budget
from modejump.samplers.chains.workspace import fitted_constants
from modejump.samplers.warmup.joint_exchange import Sum
from modejump.samplers.warmup.refinement import reached_again, reached_by_all_rows, refine_leading, refine_together
from modejump.samplers.warmup.search import Finished

TEXTS = ("a*exp(c0*t)", "b/(t + c0)")
TRUTH = {"a*exp(c0*t)": -0.8, "b/(t + c0)": 1.5}


def problem_of(noise: float, n: int = 200, **more: object) -> tuple[FeatureProblem, dict[Feature, np.ndarray]]:
    """Two laws, each of which has other constants alone; and these."""
    rng = np.random.default_rng(1)
    columns = {"a": rng.uniform(0.5, 2, n), "b": rng.uniform(0.5, 2, n), "t": rng.uniform(0, 4, n)}
    y = 1.0 + 2.0 * columns["a"] * np.exp(-0.8 * columns["t"]) + 3.0 * columns["b"] / (columns["t"] + 1.5)
    y = y + noise * rng.normal(size=n)
    problem = problem_over(np.column_stack(list(columns.values())), y, laws_over(list(columns)), **more)
    table = LawTable(problem.language, columns, y)
    features = [Feature.parse(text) for text in TEXTS]
    return problem, {f: table.constants(f) for f in features}


def test_laws_that_mislead_each_other_alone_are_right_together() -> None:
    problem, alone = problem_of(0.0)
    assert max(abs(alone[f][0] - TRUTH[f.text]) for f in alone) > 0.1
    found, before, after = refine_together(problem, list(alone), alone)
    for f in alone:
        np.testing.assert_allclose(found[f], TRUTH[f.text], rtol=1e-6)
    assert before > 1e-4 and after < 1e-20


def test_with_weights_and_a_column_always_in() -> None:
    rng = np.random.default_rng(2)
    fixed, weights = rng.normal(size=200), rng.integers(1, 4, 200).astype(float)
    problem, alone = problem_of(0.1, always_in={"u": fixed}, weights=weights)
    found, _, after = refine_together(problem, list(alone), alone)

    def left(shift: float) -> float:
        columns = [problem.language.column(f, problem.table, {f: found[f] + shift}) for f in found]
        design = np.column_stack([np.ones(200), fixed, *columns]) * np.sqrt(weights)[:, None]
        target = problem.y * np.sqrt(weights)
        rest = target - design @ np.linalg.lstsq(design, target)[0]
        return float(rest @ rest) / problem.base_rss

    assert left(0.0) == pytest.approx(after, rel=1e-9)
    assert min(left(1e-3), left(-1e-3)) > after


def test_the_leading_model_is_refined_where_that_makes_it_best() -> None:
    problem, alone = problem_of(0.02)
    model = frozenset(alone)
    found = refine_leading(problem, {model: 100.0, frozenset(list(alone)[:1]): 50.0})
    assert found is not None and found[0] == model and set(found[1].refined) == model
    # Better ones stay the best, and single laws have the best constants already.
    assert refine_leading(problem, {model: 100.0, frozenset(list(alone)[:1]): 1e6}) is None
    assert refine_leading(problem, {frozenset(list(alone)[:1]): 50.0}) is None


def small_problem() -> FeatureProblem:
    """A law with a constant beside a covariate, in a space where little else stands in for it."""
    rng = np.random.default_rng(5)
    x = np.column_stack([rng.uniform(0, 3, 150), rng.uniform(0.5, 2, 150), rng.uniform(0, 4, 150)])
    y = 2.0 * x[:, 0] + 3.0 * x[:, 1] * np.exp(-0.8 * x[:, 2]) + 0.01 * rng.normal(size=150)
    space = Space(depth=2, width=3, complexity=4, size=2, population=10, constants=1)
    return problem_over(
        x, y, Laws(["u", "a", "t"], [transforms[name] for name in ("inv", "exp")], space), coef_prior="jzs"
    )


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    problem = small_problem()
    return Posterior(problem, rgmjmcmc(problem, chains=4, budget=Budget(warmup=20_000, steps=20_000), seed=3))


def test_a_run_freezes_refined_constants(posterior: Posterior) -> None:
    law = Feature.parse("a*exp(c0*t)")
    assert posterior.laws is not None and set(posterior.best_model()) == {"u", law.text}
    alone = fitted_constants(small_problem(), [law])[law]
    refined = posterior.laws.constants[law]
    assert abs(refined[0] + 0.8) < 0.01 and abs(alone[0] + 0.8) > 0.02


def test_runs_with_other_constants_are_not_merged(posterior: Posterior) -> None:
    laws = posterior.laws
    assert laws is not None
    moved = {f: values * 1.01 if f.constants else values for f, values in laws.constants.items()}
    result = dataclasses.replace(posterior.result, laws=dataclasses.replace(laws, constants=moved))
    with pytest.raises(InputError, match="refined the constants"):
        posterior.merge(dataclasses.replace(posterior, result=result))


def test_a_run_that_dies_often_ends_as_one_that_lives(tmp_path: Path) -> None:
    work = partial(rgmjmcmc, small_problem(), chains=2, budget=Budget(warmup=3_000, steps=6_000), seed=4)
    check_resumed(work, tmp_path)


def searched(*bests: float) -> Finished:
    return Finished({}, {}, 1, len(bests), 1, 1, np.array(bests))


def test_an_attempt_at_a_sum_that_missed_the_best_model_has_not_reached_it() -> None:
    best, other, unknown = (frozenset(map(Feature.parse, texts)) for texts in (["a*t"], ["b*t"], ["b/t"]))
    ends = [Sum(model, {}, 0.0) for model in (best, other, unknown)]
    before, last = reached_again([searched(7.0, 3.0), searched(7.0)], {}, ends, {best: 7.0, other: 5.0})
    assert before.bests.tolist() == [7.0, 3.0]
    assert last.bests.tolist() == [7.0, 7.0, 5.0, -np.inf]


def test_a_search_of_a_sample_has_reached_what_is_best_by_all_rows() -> None:
    """A sample may prefer a model that is worse by all rows; a search that met either has met one as good."""
    law, imitation = (frozenset(map(Feature.parse, texts)) for texts in (["a*t"], ["b*t"]))
    outcomes = [searched(10.0, 10.1, 4.0), searched(-np.inf)]
    made = reached_by_all_rows(outcomes, {law: 10.0, imitation: 10.1}, {law: 50.0, imitation: 20.0})
    assert [o.bests.tolist() for o in made] == [[50.0, 50.0, 44.0], [-np.inf]]
    # Where the best of all rows was met later, the best of the sample counts.
    made = reached_by_all_rows(outcomes, {imitation: 10.1}, {law: 50.0, imitation: 20.0})
    np.testing.assert_allclose(made[0].bests, [49.9, 50.0, 43.9])
    # Where all that the sample prefers is undefined in other rows, no search has reached more than the base model.
    made = reached_by_all_rows(outcomes, {imitation: 10.1}, {})
    assert made[0].bests.max() == 0.0
