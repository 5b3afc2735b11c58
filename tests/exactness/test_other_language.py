"""A language that the package does not know, given through the public seam alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from feature_experiments import MIXTURE, Experiment, small_data
from interactions import Interactions, Limits
from language_checks import check_draws, check_edits, check_resumed, check_stored
from running import gmjmcmc, rgmjmcmc
from test_moves_between import LEVEL, REPLICATIONS, SETTINGS, check, code_of

from modejump.kernels.populations.moves import POPULATION_MOVES
from modejump.posterior import Posterior
from modejump.priors.complexity import ComplexityPrior
from modejump.problem.feature_problem import FeatureProblem, problem_over
from modejump.samplers.budget import Budget
from modejump.samplers.chains.genetic_chain import GeneticChain
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.result import Result


def problem_of(size: int = 2) -> FeatureProblem:
    x, y = small_data(41, 4, 40)
    language = Interactions("abcd", Limits(complexity=3, size=size, population=8))
    return problem_over(x, y, language, model_prior=ComplexityPrior(0.4))


@cache
def experiment() -> Experiment:
    return Experiment(problem_of(), ("a", "b", "a:b"))


def test_draws_have_their_probabilities() -> None:
    check_draws(experiment().chain(1, SETTINGS), 200_000, LEVEL)


def test_edits_have_their_probabilities() -> None:
    check_edits(experiment().chain(1, SETTINGS), (0, 5, 12), 50_000, LEVEL)


@pytest.mark.parametrize("move", [*POPULATION_MOVES, "mixture"])
def test_move_leaves_the_posterior(move: str) -> None:
    kind = MIXTURE if move == "mixture" else code_of(move)
    ends = experiment().ends(kind, SETTINGS, turns=3, replications=REPLICATIONS, seed=100 + kind)
    assert ends.moved > 0.02
    assert check(experiment(), ends) > LEVEL


def test_a_search_finds_the_best_models_and_resumes() -> None:
    chain = GeneticChain(problem_of(3), np.random.SeedSequence(5), steps=100, patience=10)
    chain.run_to(40)
    other = GeneticChain(problem_of(3), np.random.SeedSequence(6), steps=100, patience=10)
    other.restore(chain.snapshot())
    for c in (chain, other):
        c.run_to(80)
        c.collect()
    assert chain.collected == other.collected
    exact = Experiment(problem_of(3), ()).exact
    best = [frozenset(exact.features[i] for i in model) for model in exact.models[:20]]
    assert set(best) <= chain.collected.keys()
    for model, value in zip(best, exact.log_posterior[:20], strict=True):
        assert chain.collected[model] == pytest.approx(value, abs=1e-8)


def test_a_reversible_chain_resumes() -> None:
    def new(seed: int) -> ReversibleChain:
        chain = experiment().chain(seed, SETTINGS)
        chain.batch = 500
        return chain

    chain, other = new(7), new(8)
    chain.run_batches(10)
    other.restore(chain.snapshot())
    for c in (chain, other):
        c.run_batches(10)
        c.close()
    assert (np.array(chain.means) == np.array(other.means)).all() and chain.stays == other.stays
    assert chain.fresh_models == other.fresh_models


def test_samplers_agree_with_enumeration(tmp_path: Path) -> None:
    problem = problem_of()
    exact = {f.text: p for f, p in Experiment(problem, ()).exact.inclusion(laws=True).items()}
    search = Posterior(problem, gmjmcmc(problem, chains=4, budget=Budget(steps=60), seed=2))
    sampled = Posterior(problem, rgmjmcmc(problem, chains=4, budget=Budget(warmup=2_000, steps=60_000), seed=3))
    for posterior, least in ((search, 0.05), (sampled, 0.0)):
        # A search knows the laws that matter; what it did not meet makes the others a little too probable.
        found = dict(zip(posterior.problem.names, posterior.result.renormalised, strict=True))
        for text, probability in exact.items():
            if probability > least:
                assert found.get(text, 0.0) == pytest.approx(probability, rel=0.1 if least else 1e-2, abs=1e-3)
    assert sampled.diagnostics is not None
    for name, frequency, mcse in zip(
        sampled.problem.names, sampled.diagnostics.frequency, sampled.diagnostics.mcse, strict=True
    ):
        assert abs(frequency - exact[name]) < 4.5 * mcse + 1e-4
    check_stored(sampled, problem.language, tmp_path)


@pytest.mark.parametrize(("run", "steps"), [(gmjmcmc, 40), (rgmjmcmc, 20_000)])
def test_a_run_that_dies_often_ends_as_one_that_lives(run: Callable[..., Result], steps: int, tmp_path: Path) -> None:
    work = partial(run, problem_of(), chains=2, budget=Budget(steps=steps), seed=4)
    check_resumed(work, tmp_path)
