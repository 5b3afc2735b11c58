"""The evolution of features beside a model: what it finds, that one seed gives one answer, and that it can resume."""

from __future__ import annotations

import numpy as np
import pytest
from law_twin import functions_in

from modejump import transforms
from modejump.features.laws.language import Laws
from modejump.features.nonlinear.space import Space
from modejump.problem.feature_problem import FeatureProblem, feature_problem, problem_over
from modejump.runtime.context import Context
from modejump.runtime.executors import Executor
from modejump.samplers.chains.evolution_chain import EvolutionChain
from modejump.samplers.warmup.library import scored_by
from modejump.samplers.warmup.search import Search, search_piece

NAMES = ("a", "b", "c", "d")
FUNCTIONS = ("sin", "pm1", "p05", "square", "log1p_abs")


def problem_of(law, noise: float = 0.01, family: str = "gaussian", **space: int) -> FeatureProblem:
    """A law of four columns with noise."""
    rng = np.random.default_rng(11)
    x = rng.uniform(0.5, 3.0, size=(150, 4))
    y = law(*x.T)
    if family == "binomial":
        y = (rng.uniform(size=150) < 1.0 / (1.0 + np.exp(-3.0 * (y - y.mean()) / y.std()))).astype(float)
        return feature_problem(
            x, y, NAMES, transforms=[transforms[t] for t in FUNCTIONS], space=Space(**space), family=family
        )
    y = y + noise * y.std() * rng.normal(size=150)
    given = [transforms[t] for t in FUNCTIONS]
    return feature_problem(x, y, NAMES, transforms=given, space=Space(**space), coef_prior="jeffreys")


def chain_of(problem: FeatureProblem, seed: int = 1, generations: int = 0) -> EvolutionChain:
    chain = EvolutionChain(problem, np.random.SeedSequence(seed), memory=1 << 22)
    chain.run_to(generations)
    return chain


@pytest.mark.parametrize(
    ("law", "found"),
    [
        (lambda a, b, c, d: a * b / c, ["a*b*pm1(c)"]),
        (lambda a, b, c, d: a * np.sin(b * c), ["a*sin(b*c)"]),
        (lambda a, b, c, d: a * b + c * d, ["a*b", "c*d"]),
    ],
)
def test_planted_laws_are_found_from_nothing(law, found) -> None:
    """The best model has the terms that were planted, and several searches end there."""
    chain = chain_of(problem_of(law), generations=8000)
    assert sorted(f.text for f in chain.best_model()) == found
    assert (chain.bests >= chain.best - 1e-3).sum() >= 2


def test_a_narrow_search_does_without_some_functions() -> None:
    rng = np.random.default_rng(5)
    x = rng.uniform(0.5, 3.0, size=(60, 2))
    language = Laws(["a", "b"], [transforms[t] for t in ("exp", "log", "sin", "cos", "inv")], Space())
    chain = EvolutionChain(problem_over(x, rng.normal(size=60), language), np.random.SeedSequence(3), memory=1 << 20)
    narrow = 0
    for generation in range(1, 300):
        chain.run_to(generation)
        evolution = chain.arrays.evolution
        without = int(evolution.scalars["without"]) & 0b1111
        features = [chain.feature(int(f)) for f in evolution.feature.ravel() if f >= 0]
        used = [functions_in(language, f) for f in features]
        assert all(bits & without == 0 for bits in used)
        narrow += without != 0 and any(used)
    assert narrow > 5


def test_values_are_those_of_the_problem() -> None:
    """Log posteriors that a search collects are those of the models by themselves."""
    problem = problem_of(lambda a, b, c, d: a * b + c * np.sqrt(d))
    chain = chain_of(problem, generations=60)
    chain.collect()
    models = sorted(chain.collected, key=lambda m: -chain.collected[m])[:20]
    alone, lost = scored_by(problem, models)
    assert not lost
    assert [alone[m] for m in models] == pytest.approx([chain.collected[m] for m in models], abs=1e-6)


def test_a_perfect_fit_ends_a_search() -> None:
    """Without noise the law is found, and nothing is added to it."""
    chain = chain_of(problem_of(lambda a, b, c, d: a * np.sqrt(b), noise=0.0), generations=200)
    assert [f.text for f in chain.best_model()] == ["a*p05(b)"]


def test_a_generalised_model_is_searched() -> None:
    """Binary responses are searched by the same chain."""
    chain = chain_of(problem_of(lambda a, b, c, d: a * b, family="binomial", complexity=4, size=3), generations=8)
    assert any("a" in f.text and "b" in f.text for f in chain.best_model())


def test_resumed_chains_go_on_as_if_never_stopped() -> None:
    """A snapshot holds all of a chain's future, also in the middle of a place's turn."""
    problem = problem_of(lambda a, b, c, d: a * b + c * np.sqrt(d))
    whole = chain_of(problem, 5, 90)
    for at in (0, 1, 7, 40):
        first = chain_of(problem, 5, at)
        second = EvolutionChain(problem, np.random.SeedSequence(99), memory=1 << 22)
        second.restore(first.snapshot())
        second.run_to(90)
        for name, value in whole.snapshot().items():
            np.testing.assert_array_equal(second.snapshot()[name], value, err_msg=f"{name} after {at}")


def test_a_full_table_is_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model and the best features outlive the table, and what was found is kept."""
    monkeypatch.setattr("modejump.samplers.chains.evolution_chain.FEATURES", 1 << 14)
    chain = chain_of(problem_of(lambda a, b, c, d: a * np.sin(b * c)), 3, 600)
    assert chain.collected  # made by a renewal
    assert [f.text for f in chain.best_model()] == ["a*sin(b*c)"]


def test_one_seed_gives_one_answer_for_any_number_of_workers() -> None:
    """Chains of both kinds, on one thread and on three, and in pieces."""
    problem = problem_of(lambda a, b, c, d: a * b + c * np.sqrt(d))
    found = []
    for workers in (1, 3):
        search = Search(
            problem, np.random.SeedSequence(2).spawn(5), populations=12, seconds=None, memory=1 << 24, evolutions=2,
            context=Context(executor=Executor(workers)),
        )  # fmt: skip
        found.append(search.run())
    for one, other in zip(*found, strict=True):
        assert one.collected == other.collected
        np.testing.assert_array_equal(one.bests, other.bests)
    seed = np.random.SeedSequence(2).spawn(5)[0]
    options = {"memory": (1 << 24) // 3}
    back = search_piece(problem, seed, options, None, 12, None, 0.0)
    while back.finished is None:
        back = search_piece(problem, seed, options, back.snapshot, 12, None, 0.0)
    np.testing.assert_array_equal(back.finished["bests"], found[1][0].bests)
