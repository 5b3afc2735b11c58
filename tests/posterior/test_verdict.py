"""The verdict in words: one sentence for each thing worth saying, and a level."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from brute import brute_force, lazy_chains, small_problem

from modejump.posterior import Posterior
from modejump.posterior.verdict import Verdict, verdict
from modejump.problem.problem import Problem
from modejump.samplers.result import ModelTable, Result, SearchCounts


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
    assert (text.level, text.search) == ("exact", "complete")
    many = verdict(Posterior(problem, replace(exact, n_models=32768)))
    assert many.startswith("All 32 768 models")


def test_a_verdict_survives_copy_and_pickle(problem: Problem, exact: Result) -> None:
    posterior = Posterior(problem, exact)
    assert posterior.verdict.level == "exact"
    for again in (copy.deepcopy(posterior), pickle.loads(pickle.dumps(posterior))):
        assert again.verdict == posterior.verdict
        assert (again.verdict.level, again.verdict.search) == ("exact", "complete")


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
    assert "x0 was always included." in text
    assert "nan" not in text.lower()


def test_no_term_varies(problem: Problem, chains: Result) -> None:
    means = np.zeros_like(np.array(chains.batch_means))
    means[:, :, 1:3] = 1.0
    renormalised = means[0, 0].copy()
    text = verdict(Posterior(problem, with_means(chains, means, renormalised=renormalised)))
    assert text.level == "good"
    assert "x1 and x2 were always included" in text
    assert "R-hat" not in text


def test_stuck_chains_are_not_to_be_trusted(problem: Problem, chains: Result) -> None:
    means = np.array(chains.batch_means)
    means[:2, :, 3] = 0.0
    means[2:, :, 3] = 1.0
    text = verdict(Posterior(problem, with_means(chains, means)))
    assert text.level == "bad"
    assert "The chains sit apart on x3 (chains that never left where they were)" in text
    assert "do not trust these frequencies; run longer" in text
    assert "inf" not in text


def test_chains_apart_but_moving(problem: Problem, chains: Result) -> None:
    means = np.array(chains.batch_means)
    means[:2, :, 3], means[2:, :, 3] = 0.2, 0.8
    text = verdict(Posterior(problem, with_means(chains, means)))
    assert text.level == "bad"
    assert "sit apart on x3 (R-hat up to " in text


def test_disagreement_with_renormalised_is_doubtful(problem: Problem, chains: Result) -> None:
    renormalised = chains.renormalised.copy()
    renormalised[2] = abs(renormalised[2] - 0.3)
    text = verdict(Posterior(problem, replace(chains, renormalised=renormalised)))
    assert text.level == "doubtful"
    assert "frequencies disagree" in text
    assert "(x2, " in text
    assert "may have missed part of the posterior" in text


def test_coarse_errors_give_a_hint(problem: Problem, exact: Result) -> None:
    short = lazy_chains(problem, exact, np.random.default_rng(43), stay=0.0, batches=40, batch_length=10)
    text = verdict(Posterior(problem, short))
    assert text.level == "doubtful"
    assert "the second decimal is not settled; run longer" in text or "the second decimal is not settled and" in text


def one_term(chains: Result, by_chain: list[float]) -> Result:
    """The chains where term 5 was in for another share of the steps in each, as is its renormalised estimate."""
    means = np.array(chains.batch_means)
    means[:, :, 4] = np.array(by_chain)[:, None]
    renormalised = chains.renormalised.copy()
    renormalised[4] = means[:, :, 4].mean()
    return with_means(chains, means, renormalised=renormalised)


def test_terms_that_change_no_answer_do_not_decide(problem: Problem, chains: Result) -> None:
    # One chain of four stayed for a while with a term of probability .0036: R-hat is large, the error .0036.
    rare = Posterior(problem, one_term(chains, [0.0, 0.0, 0.0, 0.0144]))
    assert rare.diagnostics is not None and rare.diagnostics.r_hat[4] > 1.001
    assert verdict(rare).level == "good"
    # A share that moves the second decimal does decide, rare as it is.
    moved = Posterior(problem, one_term(chains, [0.0, 0.0, 0.0, 0.16]))
    assert moved.diagnostics is not None and moved.diagnostics.mcse[4] > 0.01
    text = verdict(moved)
    assert text.level == "bad" and "sit apart on x4" in text


@pytest.mark.parametrize(
    ("spread", "batches", "renormalised", "words", "level"),
    [
        # A difference of 0.47, of less than two Monte Carlo errors: nothing can be told.
        (0.47, 4, 0.03, "the errors are too large to tell whether frequencies agree", "doubtful"),
        # The same difference with small errors is one.
        (0.005, 400, 0.03, "frequencies disagree with estimates", "doubtful"),
        (0.005, 400, 0.499, "frequencies agree with estimates", "good"),
    ],
)
def test_agreement_disagreement_and_too_short_to_tell(
    problem: Problem, chains: Result, spread: float, batches: int, renormalised: float, words: str, level: str
) -> None:
    # Batches in turn above and below one half: their spread is the error's, R-hat sees none of it.
    turn = 0.5 + spread * np.where(np.arange(batches) % 2, 1.0, -1.0)
    means = np.tile(turn[None, :, None], (1, 1, 5))
    other = np.full(5, 0.5)
    other[2] = renormalised
    text = verdict(Posterior(problem, with_means(chains, means, renormalised=other)))
    assert words in text and text.level == level
    assert ("largest difference is 0.47" in text) == (renormalised == 0.03)


def test_without_an_error_nothing_agrees(problem: Problem, chains: Result) -> None:
    one_batch = with_means(chains, np.full((1, 1, 5), 0.5), renormalised=np.full(5, 0.03))
    text = verdict(Posterior(problem, one_batch))
    assert "too large to tell" in text and "nan" not in text.lower()


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


@pytest.mark.parametrize(("reached", "search"), [(4, "well searched"), (2, "well searched"), (1, "uncertain")])
def test_selection_is_searched_by_the_chains_that_visit_the_best_model(
    problem: Problem, chains: Result, reached: int, search: str
) -> None:
    visited = replace(with_alone(chains, 0.01), chains=np.where(np.arange(len(chains.models)) == 0, reached, 1))
    text = verdict(Posterior(problem, replace(chains, models=visited)))
    assert text.search == search and text.level == "good"
    assert ("Only 1 of 4 chains visited the best model, so a better one may exist." in text) == (reached == 1)


def test_one_chain_cannot_judge_its_search(problem: Problem, chains: Result) -> None:
    alone = replace(chains.models, chains=np.ones(len(chains.models), np.int64))
    one = with_means(chains, np.array(chains.batch_means)[:1], models=alone)
    assert verdict(Posterior(problem, one)).search == "uncertain"


@pytest.mark.parametrize(("share", "search"), [(0.0, "well searched"), (0.04, "well searched"), (0.06, "uncertain")])
def test_searches_among_features_are_judged_by_what_chains_did_not_visit(
    problem: Problem, chains: Result, share: float, search: str
) -> None:
    top = chains.models.log_posterior[0]
    found = replace(chains, algorithm="rgmjmcmc", models=with_alone(chains, share), search_best=np.full(8, top))
    text = verdict(Posterior(problem, found))
    # What nobody met is a matter of the search; what was met has mixed.
    assert (text.level, text.search) == ("good", search)
    assert "8 of 8 independent searches met the best model." in text and sentences(text) == 4
    assert ("perhaps with features that were not met; run longer" in text) == (search == "uncertain")


@pytest.mark.parametrize(
    ("below", "search", "words"),
    [
        ([0.0] * 8, "well searched", "8 of 8 independent searches met the best model."),
        ([0.0] * 4 + [1.0] * 4, "well searched", "4 of 8 independent searches met the best model."),
        ([0.0] * 3 + [1.0] * 5, "uncertain", "3 of 8 independent searches met the best model, so better ones may be"),
        ([0.0] * 4 + [1.0] * 12, "well searched", "4 of 16 independent searches met the best model."),
        ([0.0] * 4 + [1.0] * 37, "uncertain", "4 of 41 independent searches met the best model, so better ones may"),
        ([0.0] * 3, "uncertain", "3 of 3 independent searches met the best model, so better ones may be left to find"),
        ([2.0] * 8, "uncertain", "None of 8 independent searches met the best model, which was found later, so"),
        ([0.0], "uncertain", "There was one search, so nothing tells whether it found the best model"),
    ],
)
def test_laws_are_well_searched_where_independent_searches_meet(
    problem: Problem, chains: Result, below: list[float], search: str, words: str
) -> None:
    bests = chains.models.log_posterior[0] - np.array(below)
    found = replace(chains, algorithm="rgmjmcmc", models=with_alone(chains, 0.0), search_best=bests)
    text = verdict(Posterior(problem, found))
    assert (text.level, text.search) == ("good", search) and words in text


def test_searches_that_find_nothing_show_nothing(problem: Problem, chains: Result) -> None:
    top = chains.models.log_posterior[0]
    empty = replace(with_alone(chains, 0.0), words=np.zeros_like(chains.models.words))
    found = replace(chains, algorithm="rgmjmcmc", models=empty, search_best=np.full(16, top))
    text = verdict(Posterior(problem, found))
    assert text.search == "uncertain" and "16 of 16 independent searches found nothing worth a feature" in text


def test_search_counts() -> None:
    bests = np.array([5.0, 5.0 + 1e-6, 4.0, 3.0, 3.0, 1.0])
    assert SearchCounts.of(bests, 5.0) == (6, 2, 2)
    assert SearchCounts.of(bests, 5.5) == (6, 0, 2)
    assert SearchCounts.of(bests[:1], 5.0) == (1, 1, 1)


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
    ("below", "level", "search"),
    [([0.0, 0.0, 1e-6, 0.0, 3.0], "good", "well searched"), ([0.0, 1.0, 4.0, 1.0], "doubtful", "uncertain")],
)
def test_a_search_without_frequencies_is_judged_by_itself(
    problem: Problem, exact: Result, below: list[float], level: str, search: str
) -> None:
    bests = exact.models.log_posterior[0] - np.array(below)
    found = replace(exact, algorithm="gmjmcmc", exact=False, steps=300, chain_best=bests, search_best=bests)
    text = verdict(Posterior(problem, found))
    assert text.startswith("Renormalised over 32 models found.")
    assert (text.level, text.search) == (level, search)
    stopped = verdict(Posterior(problem, replace(found, finished=False)))
    assert stopped.level == "doubtful" and "interrupted" in stopped
