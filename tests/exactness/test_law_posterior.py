"""Laws with fitted constants: every move leaves an enumerated posterior as it is, and runs find it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from feature_experiments import MIXTURE, Ends, Experiment
from language_checks import check_draws, check_resumed, check_stored
from running import gmjmcmc, rgmjmcmc
from test_moves_between import CAUGHT, LEVEL, REPLICATIONS, SETTINGS, check, code_of

from modejump.features.laws.language import Laws
from modejump.features.laws.nodes import LawSpace
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.kernels.populations.moves import POPULATION_MOVES
from modejump.posterior import Posterior
from modejump.priors.complexity import ComplexityPrior
from modejump.problem.feature_problem import FeatureProblem, problem_over
from modejump.samplers.budget import Budget
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.result import Result

LIBRARY = ("a", "exp(a^2)", "exp(a)*a^3", "exp(-b)", "exp(c0*a)")
LIMITS = Space(depth=2, width=2, complexity=4, size=2, population=8, constants=1)


def law_data(binomial: bool, rows: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose law has a constant that no other feature can quite stand in for."""
    rng = np.random.default_rng(3)
    # Of large powers inside exp, rows would differ too much for iterative fits.
    x = rng.uniform(0.8, 1.6 if binomial else 3.0, (rows, 2))
    signal = np.exp(3.0 * x[:, 0])
    signal = (signal - signal.mean()) / signal.std()
    chance = 1.0 / (1.0 + np.exp(-1.5 * signal))
    return x, (rng.random(rows) < chance).astype(float) if binomial else signal + 0.8 * rng.normal(size=rows)


def problem_of(language: type[Laws] = Laws, binomial: bool = False, a: float = 0.5) -> FeatureProblem:
    x, y = law_data(binomial)
    spoken = language(["a", "b"], [transforms[name] for name in ("inv", "exp")], LIMITS)
    family = "binomial" if binomial else "gaussian"
    return problem_over(x, y, spoken, model_prior=ComplexityPrior(a), family=family)


@cache
def experiment(case: str = "gaussian") -> Experiment:
    problem = problem_of(binomial=case == "binomial")
    if case == "refined":
        problem = dataclasses.replace(problem, refined={problem.language.parse("exp(c0*a)"): np.array([1.4])})
    return Experiment(problem, LIBRARY)


def test_laws_with_constants_have_a_share() -> None:
    exact = experiment().exact
    inclusion = exact.inclusion()
    fitted = [f for f in exact.features if f.constants]
    assert len(exact.features) > 100 and len(fitted) > 20
    assert sum(inclusion[f] for f in fitted) > 0.2


def test_draws_have_their_probabilities() -> None:
    check_draws(experiment().chain(1, SETTINGS), 400_000, LEVEL)


@pytest.mark.parametrize("move", [*POPULATION_MOVES, "mixture"])
def test_move_leaves_the_posterior(move: str) -> None:
    kind = MIXTURE if move == "mixture" else code_of(move)
    ends = experiment().ends(kind, SETTINGS, turns=3, replications=REPLICATIONS, seed=100 + kind)
    assert ends.moved > 0.002
    assert check(experiment(), ends) > LEVEL


def test_a_mixture_of_moves_leaves_the_posterior_of_classes() -> None:
    ends = experiment("binomial").ends(MIXTURE, SETTINGS, turns=3, replications=REPLICATIONS // 4, seed=9)
    # Iterative fits end a little apart.
    assert np.abs(ends.values - experiment("binomial").exact.log_posterior[ends.ends]).max() < 1e-6
    assert experiment("binomial").p_value(ends) > LEVEL


def test_constants_that_were_refined_are_those_of_the_feature_in_every_model() -> None:
    alone, refined = experiment().exact, experiment("refined").exact
    law = problem_of().language.parse("exp(c0*a)")
    assert refined.constants[law].tolist() == [1.4] and abs(alone.constants[law][0] - 1.4) > 0.5
    assert abs(refined.inclusion()[law] - alone.inclusion()[law]) > 0.05
    ends = experiment("refined").ends(MIXTURE, SETTINGS, turns=3, replications=REPLICATIONS // 2, seed=11)
    assert check(experiment("refined"), ends) > LEVEL

    def forget(chain: ReversibleChain) -> None:
        pool = chain.arrays.pool
        chain.replace(pool=pool._replace(refined_key=pool.refined_key[:0]))

    # Without a library: its features have their columns when a chain begins.
    fresh = Experiment(experiment("refined").problem, ())
    settings = dataclasses.replace(SETTINGS, population_steps=30, rate=16.0)
    ends = fresh.ends(MIXTURE, settings, turns=4, replications=20_000, seed=12, prepare=forget)
    assert np.abs(ends.values - fresh.exact.log_posterior[ends.ends]).max() > 0.1


def excess_of_constants(experiment: Experiment, ends: Ends) -> float:
    """How many standard errors more ends than the posterior says have a fitted constant."""
    exact = experiment.exact
    fitted = np.array([any(exact.features[i].constants for i in model) for model in exact.models])
    p = float(exact.probability[fitted].sum())
    return float((fitted[ends.ends].mean() - p) / np.sqrt(p * (1.0 - p) / len(ends.ends)))


class WrongCoefficients(Laws):
    """Fitted constants are drawn more often than is said."""

    def space(self) -> LawSpace:
        space = super().space()
        return space._replace(log_coefficients=space.log_coefficients - np.array([0.0, 0.0, 3.0]))


class WrongBases(Laws):
    """Functions are drawn more often than is said."""

    def space(self) -> LawSpace:
        space = super().space()
        return space._replace(log_bases=space.log_bases - np.array([0.0, 3.0, 0.0]))


@pytest.mark.parametrize("broken", [WrongCoefficients, WrongBases])
def test_a_wrong_probability_is_caught(broken: type[Laws]) -> None:
    # Neither a library nor a table of edits: they would hide most of the error.
    wrong = Experiment(problem_of(broken), ())
    settings = dataclasses.replace(SETTINGS, population_steps=30, rate=16.0, edits=0.0)
    ends = wrong.ends(code_of("none"), settings, turns=4, replications=40_000, seed=5)
    assert check(wrong, ends) < CAUGHT


def test_a_forgotten_constant_is_caught() -> None:
    def forget(chain: ReversibleChain) -> None:
        chain.replace(population=chain.arrays.population._replace(per_constant=0.0))

    settings = dataclasses.replace(SETTINGS, population_steps=30, rate=8.0)
    ends = experiment().ends(MIXTURE, settings, turns=4, replications=REPLICATIONS // 2, seed=6, prepare=forget)
    assert excess_of_constants(experiment(), ends) > 8.0
    sound = experiment().ends(MIXTURE, settings, turns=4, replications=REPLICATIONS // 2, seed=6)
    assert np.abs(excess_of_constants(experiment(), sound)) < 4.0


def test_samplers_agree_with_enumeration(tmp_path: Path) -> None:
    problem = problem_of()
    everything = Experiment(problem, ()).exact
    search = Posterior(problem, gmjmcmc(problem, chains=4, budget=Budget(steps=200_000), seed=2))
    sampled = Posterior(problem, rgmjmcmc(problem, chains=4, budget=Budget(warmup=200_000, steps=1_000_000), seed=3))
    table = search.models(limit=None)
    found = {frozenset(texts): value for texts, value in zip(table["features"], table["log_posterior"], strict=True)}
    best = [frozenset(everything.features[i].text for i in model) for model in everything.models[:200]]
    assert max(found.values()) > everything.log_posterior[0] - 0.2
    assert len(found.keys() & set(best)) > 10
    for model, value in zip(best, everything.log_posterior, strict=False):
        assert found.get(model, value) == pytest.approx(value, abs=1e-8)
    assert sampled.diagnostics is not None and sampled.laws is not None
    # The constants of its leading model may have been refined: then these define what was sampled.
    known = {f: c for f, c in sampled.laws.constants.items() if not np.allclose(c, everything.constants[f], rtol=1e-6)}
    given = Experiment(dataclasses.replace(problem, refined=known), ()).exact
    exact = {f.text: p for f, p in given.inclusion(laws=True).items()}
    for name, frequency, mcse in zip(
        sampled.problem.names, sampled.diagnostics.frequency, sampled.diagnostics.mcse, strict=True
    ):
        # Rare laws that the library lacks are hardly ever drawn in a run of this length: moves are tested above.
        if exact[name] > 0.01:
            assert abs(frequency - exact[name]) < 5 * mcse + 1e-3
    check_stored(sampled, problem.language, tmp_path)


@pytest.mark.parametrize(("run", "steps"), [(gmjmcmc, 4_000), (rgmjmcmc, 20_000)])
def test_a_run_that_dies_often_ends_as_one_that_lives(run: Callable[..., Result], steps: int, tmp_path: Path) -> None:
    work = partial(run, problem_of(), chains=2, budget=Budget(steps=steps), seed=4)
    check_resumed(work, tmp_path)
