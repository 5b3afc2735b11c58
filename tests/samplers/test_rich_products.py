"""Products of rich factors, and their powers, in the place of a member of the best model."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from modejump import transforms
from modejump.features.nonlinear.language import Nonlinear
from modejump.features.nonlinear.space import Space
from modejump.kernels.census import best_products
from modejump.problem.feature_problem import FeatureProblem, feature_problem
from modejump.runtime.executors import Executor
from modejump.samplers.warmup.library import best_models, scored_by
from modejump.samplers.warmup.rich_products import RichProducts, can_be_rich, try_products


def problem_of(noise: float = 0.01, **space: object) -> FeatureProblem:
    rng = np.random.default_rng(3)
    a, b, c = x = rng.uniform(0.5, 3.0, size=(3, 150))
    y = a * b + 0.2 * np.abs(np.sin(a * b) * np.sin(a * c)) ** 2.5
    functions = [transforms[name] for name in ("sin", "to25")]
    return feature_problem(
        x.T, y + noise * rng.normal(size=150), "abc", transforms=functions, space=Space(rules="paper", **space),
        coef_prior="jeffreys",
    )  # fmt: skip


def test_products_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(5)
    left, right, weight = rng.normal(size=(300, 40)), rng.normal(size=(9, 40)), rng.uniform(0.5, 2.0, 40)
    left[7] = left[0]
    base, y = np.vstack([np.ones(40), rng.normal(size=(2, 40))]), rng.normal(size=40)
    cost, more, last = rng.integers(1, 6, 300), rng.integers(1, 4, 9), rng.integers(0, 301, 9)
    price = np.log(rng.uniform(size=9))
    root = np.sqrt(weight)
    basis = np.linalg.qr((base * root).T)[0].T
    target = root * y - (root * y) @ basis.T @ basis
    directions = np.vstack([basis, target / np.linalg.norm(target)]) * root
    value, partner = np.zeros(300), np.zeros(300, np.int64)
    single = [some.astype(np.float32) for some in (left, right, directions, weight)]
    best_products(*single[:2], cost, more, last, *single[2:], price, 20.0, 1e-4, value, partner)
    for i in range(300):
        gains = np.full(9, -np.inf)
        for j in np.flatnonzero(i < last):
            design = np.vstack([base, left[i] * right[j]]) * root
            kept = np.linalg.lstsq(design.T, root * y, rcond=None)[1][0]
            gains[j] = price[cost[i] + more[j]] - 20.0 * np.log(kept / (target @ target))
        if (i < last).any():
            assert partner[i] == np.argmax(gains)
            assert value[i] == pytest.approx(gains.max(), abs=1e-3)
        else:
            assert partner[i] == -1


@pytest.mark.parametrize("other", ["c", "sin(c)"])
def test_a_power_of_a_product_takes_the_place_of_what_imitates_it(other: str) -> None:
    problem = problem_of()
    parse = problem.language.parse
    model = frozenset(map(parse, ["a*b", other]))
    wanted = frozenset(map(parse, ["a*b", "to25(sin(a*b)*sin(a*c))"]))
    found = []
    for workers in (1, 2):
        collected = dict(scored_by(problem, [model])[0])
        try_products(problem, collected, Executor(workers), lambda: True)
        found.append(collected)
    assert best_models(found[0], 1) == [wanted]
    assert found[0][wanted] == pytest.approx(scored_by(problem, [wanted])[0][wanted])
    # One seed gives one answer, for any number of workers.
    assert found[0] == found[1]


def test_no_product_is_outside_of_the_space() -> None:
    made = {}
    for complexity in (5, 6):
        problem = problem_of(depth=3, width=2, complexity=complexity)
        products = RichProducts(problem)
        beside = products.beside(frozenset([problem.language.parse("a*b")]))
        made[complexity] = {f for kind in products.kinds for f in beside(kind)}
        assert all(problem.language.contains(f) for f in made[complexity])
        assert len(made[complexity]) > 10
    # Where the space has richer ones, some of them lead.
    assert not made[6] <= made[5]


def test_without_time_or_with_constants_there_are_no_products() -> None:
    problem = problem_of()
    collected = dict(scored_by(problem, [frozenset([problem.language.parse("a")])])[0])
    before = dict(collected)
    try_products(problem, collected, Executor(1), lambda: False)
    assert collected == before and can_be_rich(problem)
    language = Nonlinear("abc", [transforms["sin"]], Space(rules="paper", projection=0.25))
    assert not can_be_rich(dataclasses.replace(problem, language=language))
