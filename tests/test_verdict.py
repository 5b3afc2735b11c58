"""The verdict in words: one sentence for each thing worth saying, and a level."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from brute import brute_force, lazy_chains, small_problem

from modejump.posterior import Posterior, Verdict, verdict
from modejump.problem import Problem
from modejump.samplers.result import SamplerResult


@pytest.fixture(scope="module")
def problem() -> Problem:
    return small_problem(np.random.default_rng(41), terms=5)


@pytest.fixture(scope="module")
def exact(problem: Problem) -> SamplerResult:
    return brute_force(problem)


@pytest.fixture(scope="module")
def chains(problem: Problem, exact: SamplerResult) -> SamplerResult:
    return lazy_chains(problem, exact, np.random.default_rng(42), stay=0.5)


def sentences(text: str) -> int:
    """Full stops that end a sentence (those of numbers are followed by a digit)."""
    return text.count(". ") + text.endswith(".")


def with_means(chains: SamplerResult, means: np.ndarray, **changes: object) -> SamplerResult:
    return replace(chains, batch_means=means, **changes)  # type: ignore[arg-type]


def test_enumeration_is_exact(problem: Problem, exact: SamplerResult) -> None:
    text = verdict(Posterior(problem, exact))
    assert text == "All 32 models were evaluated: the probabilities are exact."
    assert isinstance(text, Verdict)
    assert text.level == "exact"
    many = verdict(Posterior(problem, replace(exact, n_models=32768)))
    assert many.startswith("All 32 768 models")


def test_a_verdict_survives_copy_and_pickle(problem: Problem, exact: SamplerResult) -> None:
    posterior = Posterior(problem, exact)
    assert posterior.verdict.level == "exact"
    for again in (copy.deepcopy(posterior), pickle.loads(pickle.dumps(posterior))):
        assert again.verdict == posterior.verdict
        assert again.verdict.level == "exact"


def test_good_chains(problem: Problem, chains: SamplerResult) -> None:
    text = verdict(Posterior(problem, chains))
    assert text.level == "good"
    assert "Over 400 000 steps of 4 chains, frequencies agree" in text
    assert "Monte Carlo errors" in text
    assert "R-hat is at most 1.00" in text
    assert "nan" not in text.lower()
    assert sentences(text) == 2


def test_a_term_always_in_is_put_into_words(problem: Problem, chains: SamplerResult) -> None:
    means = np.array(chains.batch_means)
    means[:, :, 0] = 1.0
    renormalised = chains.renormalised.copy()
    renormalised[0] = 1.0
    text = verdict(Posterior(problem, with_means(chains, means, renormalised=renormalised)))
    assert text.level == "good"
    assert "x1 was in the model at every step: probability 1, without variation." in text
    assert "nan" not in text.lower()


def test_no_term_varies(problem: Problem, chains: SamplerResult) -> None:
    means = np.zeros_like(np.array(chains.batch_means))
    means[:, :, 1:3] = 1.0
    renormalised = means[0, 0].copy()
    text = verdict(Posterior(problem, with_means(chains, means, renormalised=renormalised)))
    assert text.level == "good"
    assert "x2 and x3 were in the model at every step" in text
    assert "R-hat" not in text


def test_stuck_chains_are_not_to_be_trusted(problem: Problem, chains: SamplerResult) -> None:
    means = np.array(chains.batch_means)
    means[:2, :, 3] = 0.0
    means[2:, :, 3] = 1.0
    text = verdict(Posterior(problem, with_means(chains, means)))
    assert text.level == "bad"
    assert "The chains sit apart on x4 (chains that never left where they were)" in text
    assert "not to be trusted; run longer" in text
    assert "inf" not in text


def test_chains_apart_but_moving(problem: Problem, chains: SamplerResult) -> None:
    means = np.array(chains.batch_means)
    means[:2, :, 3], means[2:, :, 3] = 0.2, 0.8
    text = verdict(Posterior(problem, with_means(chains, means)))
    assert text.level == "bad"
    assert "sit apart on x4 (R-hat up to " in text


def test_disagreement_with_renormalised_is_doubtful(problem: Problem, chains: SamplerResult) -> None:
    renormalised = chains.renormalised.copy()
    renormalised[2] = abs(renormalised[2] - 0.3)
    text = verdict(Posterior(problem, replace(chains, renormalised=renormalised)))
    assert text.level == "doubtful"
    assert "frequencies disagree" in text
    assert "(x3, " in text
    assert "may not have been found" in text


def test_coarse_errors_give_a_hint(problem: Problem, exact: SamplerResult) -> None:
    short = lazy_chains(problem, exact, np.random.default_rng(43), stay=0.0, batches=40, batch_length=10)
    text = verdict(Posterior(problem, short))
    assert text.level == "doubtful"
    assert "the second decimal is not settled; run longer" in text or "the second decimal is not settled and" in text


def test_a_rare_unmixed_term_does_not_condemn_the_run(problem: Problem, chains: SamplerResult) -> None:
    means = np.array(chains.batch_means)
    means[:, :, 4] = 0.0
    means[0, :2, 4] = 0.5
    renormalised = chains.renormalised.copy()
    renormalised[4] = means[:, :, 4].mean()
    posterior = Posterior(problem, with_means(chains, means, renormalised=renormalised))
    assert verdict(posterior).level == "good"


def test_interrupted_runs_are_marked(problem: Problem, chains: SamplerResult) -> None:
    text = verdict(Posterior(problem, replace(chains, finished=False)))
    assert text.level == "doubtful"
    assert "interrupted" in text


def test_no_sampling_at_all(problem: Problem, chains: SamplerResult) -> None:
    nothing = with_means(chains, np.empty((4, 0, 5)), steps=0, finished=False)
    text = verdict(Posterior(problem, nothing))
    assert text.level == "bad"
    assert text.startswith("No sampling step was recorded")


def test_one_batch_cannot_be_judged(problem: Problem, chains: SamplerResult) -> None:
    text = verdict(Posterior(problem, with_means(chains, np.full((1, 1, 5), 0.5), renormalised=np.full(5, 0.5))))
    assert text.level == "bad"
    assert "too few batches" in text


def test_everything_at_once_is_at_most_four_sentences(problem: Problem, chains: SamplerResult) -> None:
    means = np.array(chains.batch_means)
    means[:, :, 0] = 1.0
    means[:2, :, 3] = 0.0
    means[2:, :, 3] = 1.0
    text = verdict(Posterior(problem, with_means(chains, means, finished=False)))
    assert text.level == "bad"
    assert sentences(text) == 4


@pytest.mark.parametrize(
    "best, level, words",
    [
        (
            [5.0, 5.0 + 1e-6, 1.0],
            "good",
            "Renormalised over 32 models found by 3 chains; 2 of them reached the best model.",
        ),
        ([5.0, 4.0, 1.0], "doubtful", "only one of them reached the best model"),
        ([5.0], "doubtful", "one chain, so nothing tells"),
    ],
)
def test_a_search_is_judged_by_the_chains_that_meet(
    problem: Problem, exact: SamplerResult, best: list[float], level: str, words: str
) -> None:
    found = replace(exact, algorithm="gmjmcmc", exact=False, steps=300, chain_best=np.array(best))
    text = verdict(Posterior(problem, found))
    assert text.level == level and words in text and sentences(text) == 1
    stopped = verdict(Posterior(problem, replace(found, finished=False)))
    assert stopped.level == "doubtful" and "interrupted" in stopped
