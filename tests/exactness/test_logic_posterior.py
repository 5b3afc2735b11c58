"""Logic regression is exact: every move leaves an enumerated posterior of logic features as it is, and runs find it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from feature_experiments import MIXTURE, Experiment
from language_checks import check_draws, check_edits, check_resumed, check_stored
from running import gmjmcmc, rgmjmcmc
from test_moves_between import CAUGHT, LEVEL, REPLICATIONS, SETTINGS, check, code_of

from modejump.features.logic.language import Logic
from modejump.features.logic.operators import LogicRules
from modejump.features.logic.space import LogicSpace
from modejump.kernels.populations.moves import POPULATION_MOVES
from modejump.posterior import Posterior
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.features import FeaturePrior
from modejump.priors.logic_prior import LogicPrior
from modejump.problem.feature_problem import FeatureProblem, problem_over
from modejump.samplers.budget import Budget
from modejump.samplers.result import Result

NAMES = ("a", "b", "c", "d")
LIBRARY = ("b", "a & b", "b & (a | !c)", "c & !(a & b)")


def binary_data(seed: int, rows: int = 160) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = (rng.random((rows, 4)) < [0.5, 0.4, 0.6, 0.5]).astype(float)
    signal = 0.6 * (x[:, 0] * x[:, 1]) - 0.5 * np.maximum(x[:, 2], 1 - x[:, 3])
    return x, signal + rng.normal(size=rows), (rng.random(rows) < 1 / (1 + np.exp(-2 * signal))).astype(float)


def problem_of(
    language: Logic | None = None, prior: FeaturePrior | None = None, binomial: bool = False
) -> FeatureProblem:
    x, y, classes = binary_data(3)
    language = language or Logic(NAMES, LogicSpace(leaves=3, size=2, population=8), np.array([4.0, 3.0, 2.0, 1.0]))
    family = "binomial" if binomial else "gaussian"
    return problem_over(x, classes if binomial else y, language, model_prior=prior or LogicPrior(), family=family)


@cache
def experiment(case: str = "logic prior") -> Experiment:
    problem = {
        "logic prior": problem_of,
        "complexity prior": lambda: problem_of(prior=ComplexityPrior(0.3)),
        "binomial": lambda: problem_of(binomial=True),
    }[case]()
    return Experiment(problem, LIBRARY)


def test_draws_have_their_probabilities() -> None:
    chain = experiment().chain(1, SETTINGS)
    assert len(list(chain.language.enumerate())) == 4 + 6 * 4 + 4 * 32
    check_draws(chain, 400_000, LEVEL)


def test_edits_have_their_probabilities_and_can_be_undone() -> None:
    law = check_edits(experiment().chain(1, SETTINGS), (0, 10, 30, 100), 50_000, LEVEL)
    # From every feature to every other, in some steps.
    reached = np.linalg.matrix_power((law > 0).astype(float) + np.eye(len(law)), 8)
    assert (reached > 0).all()


@pytest.mark.parametrize("move", [*POPULATION_MOVES, "mixture"])
def test_move_leaves_the_posterior(move: str) -> None:
    kind = MIXTURE if move == "mixture" else code_of(move)
    ends = experiment().ends(kind, SETTINGS, turns=3, replications=REPLICATIONS, seed=100 + kind)
    assert ends.moved > 0.002
    assert check(experiment(), ends) > LEVEL


@pytest.mark.parametrize("case", ["complexity prior", "binomial"])
def test_a_mixture_of_moves_leaves_other_posteriors(case: str) -> None:
    ends = experiment(case).ends(MIXTURE, SETTINGS, turns=3, replications=REPLICATIONS // 2, seed=9)
    # Iterative fits end a little apart.
    assert np.abs(ends.values - experiment(case).exact.log_posterior[ends.ends]).max() < 1e-6
    assert experiment(case).p_value(ends) > LEVEL


class WrongColumns(Logic):
    """Draws of columns do not have the probabilities that are said of them."""

    def space(self) -> LogicRules:
        space = super().space()
        return space._replace(log_column=np.log(np.full(4, 0.25)))


class WrongWidths(Logic):
    """Features of three leaves are drawn less often than is said."""

    def space(self) -> LogicRules:
        space = super().space()
        return space._replace(log_width=space.log_width + np.array([0.0, 0.0, 0.0, 1.5]))


@pytest.mark.parametrize("broken", [WrongColumns, WrongWidths])
def test_a_wrong_probability_is_caught(broken: type[Logic]) -> None:
    language = broken(NAMES, LogicSpace(leaves=3, size=2, population=8), np.array([8.0, 3.0, 1.0, 0.1]))
    wrong = Experiment(problem_of(language), LIBRARY)
    # No table of edits: it would hide most of the error.
    settings = dataclasses.replace(SETTINGS, population_steps=30, rate=8.0, edits=0.0)
    ends = wrong.ends(code_of("none"), settings, turns=4, replications=REPLICATIONS, seed=5)
    assert check(wrong, ends) < CAUGHT


def test_samplers_agree_with_enumeration(tmp_path: Path) -> None:
    problem = problem_of()
    everything = Experiment(problem, ()).exact
    exact = {f.text: p for f, p in everything.inclusion(laws=True).items()}
    search = Posterior(problem, gmjmcmc(problem, chains=4, budget=Budget(steps=60_000), seed=2))
    sampled = Posterior(problem, rgmjmcmc(problem, chains=4, budget=Budget(warmup=2_000, steps=2_000_000), seed=3))
    table = search.models(limit=None)
    found = {frozenset(texts): value for texts, value in zip(table["features"], table["log_posterior"], strict=True)}
    best = [frozenset(everything.features[i].text for i in model) for model in everything.models[:200]]
    assert set(best[:5]) <= found.keys()
    for model, value in zip(best, everything.log_posterior, strict=False):
        assert found.get(model, value) == pytest.approx(value, abs=1e-8)
    assert sampled.diagnostics is not None
    for name, frequency, mcse in zip(
        sampled.problem.names, sampled.diagnostics.frequency, sampled.diagnostics.mcse, strict=True
    ):
        assert abs(frequency - exact[name]) < 5 * mcse + 1e-3
    check_stored(sampled, problem.language, tmp_path)


@pytest.mark.parametrize(("run", "steps"), [(gmjmcmc, 4_000), (rgmjmcmc, 20_000)])
def test_a_run_that_dies_often_ends_as_one_that_lives(run: Callable[..., Result], steps: int, tmp_path: Path) -> None:
    work = partial(run, problem_of(), chains=2, budget=Budget(steps=steps), seed=4)
    check_resumed(work, tmp_path)
