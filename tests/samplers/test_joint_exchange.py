"""Sums of terms whose constants are wrong alone: found by exchange, with all constants fitted together."""

from __future__ import annotations

import numpy as np
import pytest
from support.law_constants import laws_over

from modejump.features.laws.expression import Feature
from modejump.features.laws.parts import exponentials_of, factors_of, parts_of, summands_of
from modejump.problem.feature_problem import FeatureProblem, problem_over
from modejump.runtime.executors import Executor
from modejump.samplers.warmup.census import census_of
from modejump.samplers.warmup.joint_exchange import SumSearch, find_sums
from modejump.samplers.warmup.library import scored_by
from modejump.samplers.warmup.refinement import refine_search, refine_together

FUNCTIONS = ("inv", "sqrt", "square", "cube", "exp", "log", "sin", "cos")


def gas(noise: float = 0.01, **more: object) -> FeatureProblem:
    """Van der Waals' gas: alone, the constant beside the volume is far from what it is beside the other term."""
    rng = np.random.default_rng(3)
    temperature, volume = rng.uniform(280.0, 400.0, 200), rng.uniform(0.1, 1.5, 200)
    y = 0.08314 * temperature / (volume - 0.0427) - 3.64 / volume**2
    y = y + noise * y.std() * rng.normal(size=200)
    return problem_over(np.column_stack([temperature, volume]), y, laws_over(["T", "V"], functions=FUNCTIONS), **more)


LAW = frozenset(map(Feature.parse, ("T/(V + c0)", "1/V^2")))


def test_sums_are_found_with_their_constants() -> None:
    problem = gas()
    collected: dict = {}
    found = find_sums(problem, collected, np.random.SeedSequence(1).spawn(8), Executor(2), None)
    assert {of.model for of in found} == set(collected)
    best = max(found, key=lambda of: of.value)
    assert best.model == LAW
    # The constants are those of least squares over all rows.
    together, _, _ = refine_together(problem, sorted(LAW), best.constants)
    for f, values in together.items():
        np.testing.assert_allclose(best.constants[f], values, rtol=1e-4)


def test_an_attempt_leaves_several_sums_the_best_last() -> None:
    sums = SumSearch(census_of(gas()), np.random.default_rng(2)).run(lambda: True)
    assert len(sums) == len({of.model for of in sums}) > 1
    values = [of.value for of in sums]
    assert values == sorted(values)


def test_the_law_becomes_the_best_model() -> None:
    problem = gas()
    imitations = [frozenset(map(Feature.parse, texts)) for texts in (("T/V", "1/V^2"), ("T/V", "T/V^2", "1/V^2"))]
    collected = scored_by(problem, imitations)[0]
    sums = find_sums(problem, collected, np.random.SeedSequence(1).spawn(8), Executor(), None)
    # By constants of its own the law is worse than what imitates it.
    assert collected[LAW] < collected[imitations[1]]
    given, after, refined = refine_search(problem, collected, 100, sums)
    assert LAW in refined
    np.testing.assert_allclose(after[LAW], scored_by(given, [LAW])[0][LAW])
    assert after[LAW] > collected[imitations[1]] + 10.0


def test_one_seed_gives_one_answer() -> None:
    problem, seeds = gas(), np.random.SeedSequence(5).spawn(3)
    one, two = (find_sums(problem, {}, seeds, Executor(workers), None) for workers in (1, 2))
    assert [(of.model, of.value) for of in one] == [(of.model, of.value) for of in two]


def test_no_attempt_begins_when_the_time_is_over() -> None:
    assert find_sums(gas(), {}, np.random.SeedSequence(1).spawn(2), Executor(), 0.0) == []


def test_values_are_those_of_least_squares() -> None:
    """What a product is worth beside others, from inner products, is what its column is worth."""
    problem = gas(weights=np.random.default_rng(4).integers(1, 4, 200).astype(float))
    search = SumSearch(census_of(problem), np.random.default_rng(1))
    columns = [problem.table["T"], 1.0 / problem.table["V"]]
    values = search._values(columns, [search._inner(column) for column in columns])
    root = problem.root_weight
    y = (problem.y - np.average(problem.y, weights=root**2)) * root
    for at in np.random.default_rng(2).choice(len(values), 40, replace=False):
        made = search._columns(np.array([at]))[0]
        design = np.column_stack([np.ones(200), *columns, made / np.abs(made).max()]) * root[:, None]
        own = np.linalg.lstsq(design[:, :3], design[:, 3], rcond=None)[1]
        # Inner products cannot tell what hardly differs from the others, and squares of tiny numbers are zero.
        if own.size and own[0] > 1e-6 * np.sum(design[:, 3] ** 2) and np.abs(made).max() > 1e-100:
            left = np.linalg.lstsq(design, problem.y * root, rcond=None)[1]
            wanted = search.weight[at] - 100.0 * np.log(left[0] / np.sum(y**2))
            np.testing.assert_allclose(values[at], wanted, rtol=1e-6)


@pytest.mark.parametrize("kind", ["first", "exponentials", "summands"])
def test_columns_are_those_of_features_with_their_constants(kind: str) -> None:
    language = laws_over(["a", "b"], functions=FUNCTIONS)
    x = np.random.default_rng(3).uniform(0.5, 3.0, size=(2, 40))
    table = dict(zip(language.names, x, strict=True))
    made = {
        "first": lambda: factors_of(language, x, parts_of(language, x))[0],
        "exponentials": lambda: exponentials_of(language, x),
        "summands": lambda: summands_of(language, x),
    }[kind]()
    checked = 0
    for node, column, constant in made:
        if node.constants == (constant is not None):
            given = {node: np.array([constant])} if node.constants else {}
            with np.errstate(all="ignore"):
                # Up to sign, which is the coefficient's.
                np.testing.assert_allclose(np.abs(language.column(node, table, given)), np.abs(column), rtol=1e-8)
            checked += node.constants if kind != "summands" else 1
    assert checked > 5
