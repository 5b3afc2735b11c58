"""The end of a search: exchanges of members for pairs of features, and a search that begins at the best model."""

from __future__ import annotations

import numpy as np
import pytest

from modejump import transforms
from modejump.features.nonlinear.space import Space
from modejump.kernels.census import best_pairs
from modejump.problem.feature_problem import FeatureProblem, feature_problem
from modejump.runtime.executors import Executor
from modejump.samplers.chains.evolution_chain import EvolutionChain
from modejump.samplers.warmup.library import best_models, scored_by
from modejump.samplers.warmup.polish import exchange, polish


def test_pairs_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(5)
    x, y, weight = rng.normal(size=(7, 40)), rng.normal(size=40), rng.normal(size=7)
    x[4] = -2.0 * x[1]
    value, partner = np.zeros(7), np.zeros(7, np.int64)
    best_pairs(x @ x.T, x @ y, float(y @ y), weight, 20.0, 1e-9, value, partner)
    assert partner[0] == -1
    assert value[0] == -np.inf
    for i in range(1, 7):
        wanted = np.full(i, -np.inf)
        for j in range(i):
            design = x[[i, j]].T
            left, rank = np.linalg.lstsq(design, y, rcond=None)[1:3]
            if rank == 2:
                wanted[j] = weight[i] + weight[j] - 20.0 * np.log(left[0])
        assert partner[i] == int(np.argmax(wanted))
        np.testing.assert_allclose(value[i], wanted.max(), rtol=1e-10)


def problem_of(law) -> FeatureProblem:
    rng = np.random.default_rng(11)
    x = rng.uniform(0.5, 3.0, size=(150, 4))
    y = law(*x.T)
    functions = [transforms[name] for name in ("sin", "pm1", "p05")]
    return feature_problem(
        x, y + 0.01 * y.std() * rng.normal(size=150), "abcd", transforms=functions, space=Space(), coef_prior="jeffreys"
    )


@pytest.mark.parametrize("start", [["a"], ["sin(a)", "c*d"], ["a", "b", "pm1(c)"]])
def test_two_terms_come_in_at_once(start: list[str]) -> None:
    problem = problem_of(lambda a, b, c, d: a * b - c * np.sqrt(d))
    parse = problem.language.parse
    model = frozenset(map(parse, start))
    collected = dict(scored_by(problem, [model])[0])
    exchange(problem, collected, [model], [], lambda: True)
    wanted = frozenset(map(parse, ["a*b", "c*p05(d)"]))
    best = best_models(collected, 1)[0]
    assert wanted <= best
    np.testing.assert_allclose(collected[best], scored_by(problem, [best])[0][best])


def test_all_searches_of_a_chain_begin_with_the_model_that_is_given() -> None:
    problem = problem_of(lambda a, b, c, d: a * b - c * d)
    model = frozenset(map(problem.language.parse, ["a*b", "c*d"]))
    chain = EvolutionChain(problem, np.random.SeedSequence(3), memory=1 << 22, start=sorted(model))
    chain.run_to(400)
    assert chain.restarts > 1
    ended = chain.arrays.evolution.run_best[: chain.restarts]
    assert (ended >= scored_by(problem, [model])[0][model] - 1e-6).all()


def test_the_end_of_a_search_goes_beyond_exchanges() -> None:
    """A feature that no pool holds is evolved beside the terms that an exchange brings in."""
    problem = problem_of(lambda a, b, c, d: a * b - c * d + 0.3 * a * np.sin(b * c * d))
    parse = problem.language.parse
    model = frozenset([parse("a")])
    seeds = np.random.SeedSequence(5).spawn(2)
    found = []
    for workers in (1, 2):
        collected = dict(scored_by(problem, [model])[0])
        polish(problem, collected, [model], seeds, Executor(workers), 1 << 22, None)
        found.append(collected)
    assert {"a*b", "c*d", "a*sin(b*c*d)"} == {f.text for f in best_models(found[0], 1)[0]}
    # One seed gives one answer, for any number of workers.
    assert found[0] == found[1]


def test_without_time_nothing_is_exchanged() -> None:
    problem = problem_of(lambda a, b, c, d: a * b - c * d)
    model = frozenset([problem.language.parse("a")])
    collected = dict(scored_by(problem, [model])[0])
    exchange(problem, collected, [model], [], lambda: False)
    assert list(collected) == [model]
