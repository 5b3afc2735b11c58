"""The verdict in words: one sentence for each thing worth saying, and a level."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from brute import brute_force, lazy_chains, small_problem

from modejump.posterior import Posterior, Verdict, verdict
from modejump.problem.problem import Problem
from modejump.samplers.result import ModelTable, Result


@pytest.fixture(scope="module")
def problem() -> Problem:
    return small_problem(np.random.default_rng(41), terms=5)


@pytest.fixture(scope="module")
def exact(problem: Problem) -> Result:
    return brute_force(problem)


@pytest.fixture(scope="module")
def chains(problem: Problem, exact: Result) -> Result:
    return lazy_chains(problem, exact, np.random.default_rng(42), stay=0.5)


def sentences(text: str) -> int:
    """Full stops that end a sentence (those of numbers are followed by a digit)."""
    return text.count(". ") + text.endswith(".")


def with_means(chains: Result, means: np.ndarray, **changes: object) -> Result:
    return replace(chains, batch_means=means, **changes)  # type: ignore[arg-type]


def test_enumeration_is_exact(problem: Problem, exact: Result) -> None:
    text = verdict(Posterior(problem, exact))
    assert text == "All 32 models were evaluated: the probabilities are exact."
    assert isinstance(text, Verdict)
    assert text.level == "exact"
    many = verdict(Posterior(problem, replace(exact, n_models=32768)))
    assert many.startswith("All 32 768 models")


def test_a_verdict_survives_copy_and_pickle(problem: Problem, exact: Result) -> None:
    posterior = Posterior(problem, exact)
    assert posterior.verdict.level == "exact"
    for again in (copy.deepcopy(posterior), pickle.loads(pickle.dumps(posterior))):
        assert again.verdict == posterior.verdict
        assert again.verdict.level == "exact"


def test_good_chains(problem: Problem, chains: Result) -> None:
    text = verdict(Posterior(problem, chains))
    assert text.level == "good"
    assert "Over 400 000 steps of 4 chains, frequencies agree" in text
    assert "Monte Carlo errors" in text
    assert "R-hat is at most 1.00" in text
    assert "nan" not in text.lower()
    assert sentences(text) == 2


def test_a_term_always_in_is_put_into_words(problem: Problem, chains: Result) -> None:
    means = np.array(chains.batch_means)
    means[:, :, 0] = 1.0
    renormalised = chains.renormalised.copy()
    renormalised[0] = 1.0
    text = verdict(Posterior(problem, with_means(chains, means, renormalised=renormalised)))
    assert text.level == "good"
    assert "x1 was always included." in text
    assert "nan" not in text.lower()


def test_no_term_varies(problem: Problem, chains: Result) -> None:
    means = np.zeros_like(np.array(chains.batch_means))
    means[:, :, 1:3] = 1.0
    renormalised = means[0, 0].copy()
    text = verdict(Posterior(problem, with_means(chains, means, renormalised=renormalised)))
    assert text.level == "good"
    assert "x2 and x3 were always included" in text
    assert "R-hat" not in text


def test_stuck_chains_are_not_to_be_trusted(problem: Problem, chains: Result) -> None:
    means = np.array(chains.batch_means)
    means[:2, :, 3] = 0.0
    means[2:, :, 3] = 1.0
    text = verdict(Posterior(problem, with_means(chains, means)))
    assert text.level == "bad"
    assert "The chains sit apart on x4 (chains that never left where they were)" in text
    assert "do not trust these frequencies; run longer" in text
    assert "inf" not in text


def test_chains_apart_but_moving(problem: Problem, chains: Result) -> None:
    means = np.array(chains.batch_means)
    means[:2, :, 3], means[2:, :, 3] = 0.2, 0.8
    text = verdict(Posterior(problem, with_means(chains, means)))
    assert text.level == "bad"
    assert "sit apart on x4 (R-hat up to " in text


def test_disagreement_with_renormalised_is_doubtful(problem: Problem, chains: Result) -> None:
    renormalised = chains.renormalised.copy()
    renormalised[2] = abs(renormalised[2] - 0.3)
    text = verdict(Posterior(problem, replace(chains, renormalised=renormalised)))
    assert text.level == "doubtful"
    assert "frequencies disagree" in text
    assert "(x3, " in text
    assert "may have missed part of the posterior" in text


def test_coarse_errors_give_a_hint(problem: Problem, exact: Result) -> None:
    short = lazy_chains(problem, exact, np.random.default_rng(43), stay=0.0, batches=40, batch_length=10)
    text = verdict(Posterior(problem, short))
    assert text.level == "doubtful"
    assert "the second decimal is not settled; run longer" in text or "the second decimal is not settled and" in text


def test_a_rare_unmixed_term_does_not_condemn_the_run(problem: Problem, chains: Result) -> None:
    means = np.array(chains.batch_means)
    means[:, :, 4] = 0.0
    means[0, :2, 4] = 0.5
    renormalised = chains.renormalised.copy()
    renormalised[4] = means[:, :, 4].mean()
    posterior = Posterior(problem, with_means(chains, means, renormalised=renormalised))
    assert verdict(posterior).level == "good"


def test_interrupted_runs_are_marked(problem: Problem, chains: Result) -> None:
    text = verdict(Posterior(problem, replace(chains, finished=False)))
    assert text.level == "doubtful"
    assert "interrupted" in text


def test_no_sampling_at_all(problem: Problem, chains: Result) -> None:
    nothing = with_means(chains, np.empty((4, 0, 5)), steps=0, finished=False)
    text = verdict(Posterior(problem, nothing))
    assert text.level == "bad"
    assert text.startswith("No sampling step was recorded")


def test_one_batch_cannot_be_judged(problem: Problem, chains: Result) -> None:
    text = verdict(Posterior(problem, with_means(chains, np.full((1, 1, 5), 0.5), renormalised=np.full(5, 0.5))))
    assert text.level == "bad"
    assert "too few batches" in text


def test_everything_at_once_is_at_most_four_sentences(problem: Problem, chains: Result) -> None:
    means = np.array(chains.batch_means)
    means[:, :, 0] = 1.0
    means[:2, :, 3] = 0.0
    means[2:, :, 3] = 1.0
    text = verdict(Posterior(problem, with_means(chains, means, finished=False)))
    assert text.level == "bad"
    assert sentences(text) == 4
    # And five where the mass outside of the visited models is known.
    counted = replace(with_means(chains, means, finished=False), models=with_alone(chains, 0.3))
    assert sentences(verdict(Posterior(problem, counted))) == 5


def with_alone(chains: Result, share: float) -> ModelTable:
    """The table of models with so large a share of the steps in models of one chain, those of all chains apart."""
    visits = np.zeros_like(chains.models.visits)
    visits[1] = round(share * chains.steps)
    visits[0] = chains.steps - visits[1]
    return replace(chains.models, visits=visits, chains=np.where(np.arange(len(visits)) == 1, 1, 4))


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "to hold less than 0.1% of the posterior."),
        (0.032, "to hold 3.2% of the posterior."),
        (0.2, "to hold 20% of the posterior: probabilities of single models suffer from that, frequencies of terms do"),
        (0.999, "to hold more than 99% of the posterior: probabilities of single models suffer"),
    ],
)
def test_unvisited_mass_is_told_and_frequencies_stand(
    problem: Problem, chains: Result, share: float, words: str
) -> None:
    text = verdict(Posterior(problem, replace(chains, models=with_alone(chains, share))))
    assert text.level == "good"
    assert f"Models that no chain visited are estimated {words}" in text
    assert sentences(text) == 3


def test_flat_posteriors_are_doubtful_for_their_renormalised_estimates_only(problem: Problem, chains: Result) -> None:
    renormalised = chains.renormalised.copy()
    renormalised[2] = abs(renormalised[2] - 0.3)
    found = replace(chains, models=with_alone(chains, 0.97), renormalised=renormalised)
    text = verdict(Posterior(problem, found))
    assert text.level == "doubtful"
    assert "frequencies disagree" in text and "97%" in text


@pytest.mark.parametrize(("share", "level"), [(0.0, "good"), (0.04, "good"), (0.06, "doubtful"), (1.0, "doubtful")])
def test_reversible_chains_are_judged_by_what_they_did_not_visit(
    problem: Problem, chains: Result, share: float, level: str
) -> None:
    found = replace(
        chains, algorithm="rgmjmcmc", models=with_alone(chains, share), chain_best=np.array([5.0, 4.0, 3.0, 1.0])
    )
    text = verdict(Posterior(problem, found))
    assert text.level == level
    # The best model of each chain is not what frequencies are judged by.
    assert "reached the best model" not in text
    assert "frequencies agree" in text and "R-hat is at most" in text and sentences(text) == 3
    assert ("perhaps with features that were not met; run longer" in text) == (level == "doubtful")


def test_reversible_chains_that_sit_apart_are_bad(problem: Problem, chains: Result) -> None:
    means = np.array(chains.batch_means)
    means[:2, :, 3], means[2:, :, 3] = 0.2, 0.8
    found = with_means(chains, means, algorithm="rgmjmcmc", chain_best=np.full(4, 5.0))
    assert verdict(Posterior(problem, found)).level == "bad"


def test_reversible_chains_without_a_step_have_nothing_to_judge(problem: Problem, chains: Result) -> None:
    nothing = with_means(chains, np.empty((4, 0, 5)), steps=0, algorithm="rgmjmcmc", chain_best=np.full(4, 5.0))
    text = verdict(Posterior(problem, nothing))
    assert text.level == "bad" and text.startswith("No sampling step was recorded")


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
    problem: Problem, exact: Result, best: list[float], level: str, words: str
) -> None:
    found = replace(exact, algorithm="gmjmcmc", exact=False, steps=300, chain_best=np.array(best))
    text = verdict(Posterior(problem, found))
    assert text.level == level and words in text and sentences(text) == 1
    stopped = verdict(Posterior(problem, replace(found, finished=False)))
    assert stopped.level == "doubtful" and "interrupted" in stopped
