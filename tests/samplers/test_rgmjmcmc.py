"""RGMJMCMC as a whole: one seed one answer, accounts, budgets, interruption, exact posteriors, edges, bad input."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import feature_experiments as rt
import numpy as np
import pytest
from clock import Clock
from running import Interrupting, rgmjmcmc
from scipy.stats import norm, ttest_1samp

from modejump.experiments.oracle import ExactPosterior, exact_posterior
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.kernels.populations.evolve import CENSUS_WORTH
from modejump.kernels.populations.feature_chain import SCORE_EDITS
from modejump.kernels.populations.moves import POPULATION_MOVES
from modejump.posterior.fits import keep_models
from modejump.posterior.posterior import Posterior
from modejump.priors.complexity import ComplexityPrior
from modejump.problem.feature_problem import FeatureProblem, feature_problem
from modejump.samplers import rgmjmcmc as module
from modejump.samplers.budget import Budget
from modejump.samplers.chains.genetic_chain import SearchChain
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.chains.workspace import Workspace
from modejump.samplers.diagnostics import diagnose, monte_carlo_error
from modejump.samplers.gmjmcmc import STEPS
from modejump.samplers.result import Result
from modejump.samplers.settings import Sampler
from modejump.samplers.warmup.library import Library
from modejump.samplers.warmup.search import EVOLUTIONS

F = Feature.parse
# A statistical test fails by chance once in so many runs.
LEVEL = 1e-4
# Far too short a search, on purpose: what it misses has to come from fresh features.
SHORT = Budget(warmup=300, steps=20_000)


def sample(problem: FeatureProblem, **options: Any) -> Result:
    given: dict[str, Any] = {"chains": 4, "budget": SHORT} | options
    return rgmjmcmc(problem, **given)


@pytest.fixture(scope="module")
def small() -> FeatureProblem:
    return rt.small_problem(51, depth=2, width=3, complexity=4, size=3)


@pytest.fixture(scope="module")
def found(small: FeatureProblem) -> Result:
    return sample(small, seed=3)


def exact_of(problem: FeatureProblem, size: int | None = None) -> ExactPosterior:
    return exact_posterior(problem, problem.language.enumerate(), size=problem.size if size is None else size)


# --- what holds of any result -----------------------------------------------------------------------------------


def batches_of(result: Result) -> np.ndarray:
    assert result.batch_means is not None
    return result.batch_means


def check_accounts(found: Result) -> None:
    """Every step is counted once: in batches, visits, sizes and kernels."""
    result, laws = found, found.laws.features
    means = batches_of(result)
    chains, batches, terms = means.shape
    assert result.algorithm == "rgmjmcmc" and result.counted and terms == len(laws) == len(result.renormalised)
    assert ((means >= 0.0) & (means <= 1.0)).all()
    if result.finished:
        assert chains * batches * result.batch_length == result.steps
    assert result.forgotten_visits >= 0 and 0 <= result.forgotten_shared <= result.forgotten_visits
    assert result.models.visits.sum() + result.forgotten_visits == result.steps
    assert (result.models.chains <= chains).all()
    # Spellings of one law may have been visited by different chains.
    assert ((result.models.chains > 0) == (result.models.visits > 0)).all()
    assert len(result.size_distribution) == terms + 1
    assert result.size_distribution.sum() == pytest.approx(1.0) and (result.size_distribution >= 0.0).all()
    assert ((result.renormalised >= 0.0) & (result.renormalised <= 1.0)).all()
    assert (np.diff(result.models.log_posterior) <= 0.0).all()
    assert result.n_models >= len(result.models) > 0
    assert result.log_evidence >= np.logaddexp.reduce(result.models.log_posterior) - 1e-9
    between = result.population_moves.values()
    assert all(0 <= moved <= tried and 0 <= lost <= tried for tried, moved, lost in between)
    assert all(0 <= accepted <= tried for tried, accepted in result.acceptance.values())
    # A step is one kernel inside a population or one move to another.
    assert sum(v[0] for v in [*result.acceptance.values(), *between]) == result.steps
    assert result.library > 0 and 0.0 <= result.library_share <= 1.0
    assert np.isnan(result.unvisited) if chains == 1 else 0.0 <= result.unvisited <= 1.0
    assert result.populations >= chains and result.warmup_steps > 0
    assert found.chain_best.shape == (chains,) and np.isfinite(found.chain_best).all()
    assert found.chain_best.max() <= result.models.log_posterior[0] + 1e-6


def check_frequencies(found: Result, exact: ExactPosterior) -> None:
    """Frequencies within the Monte Carlo error of the exact probabilities, at a level that all laws share."""
    result = found
    means = batches_of(result)
    d = diagnose(means, result.batch_length)
    wanted = exact.inclusion(laws=True)
    assert max((v for f, v in wanted.items() if f not in laws_of(found, exact)), default=0.0) < 0.02
    p = np.array([wanted[law_in(exact, f)] for f in found.laws.features])
    # Laws that matter, and rare ones that came and went often enough for their frequency to be normal.
    rare = np.minimum(p, 1.0 - p) < 0.02
    varied = d.mcse > 0.0
    assert (varied | rare).all()
    judged = varied & (~rare | ((means > 0.0).sum(axis=(0, 1)) >= 100))
    assert judged.sum() >= 2
    errors = np.abs(d.frequency - p)[judged] / d.mcse[judged]
    assert errors.max() < norm.isf(0.5 * LEVEL / judged.sum())


def laws_of(found: Result, exact: ExactPosterior) -> set[Feature]:
    return {law_in(exact, f) for f in found.laws.features}


def law_in(exact: ExactPosterior, feature: Feature) -> Feature:
    """The law of the whole space that a feature belongs to."""
    return exact.law_of[exact.features.index(feature)]


def check_renormalised(found: Result, exact: ExactPosterior) -> None:
    """Each model counts once: what was not evaluated bounds the error of every renormalised probability."""
    missing = 1.0 - np.exp(found.log_evidence - exact.log_evidence)
    assert -1e-9 <= missing < 0.2
    wanted = exact.inclusion(laws=True)
    for f, p in zip(found.laws.features, found.renormalised, strict=True):
        assert abs(p - wanted[law_in(exact, f)]) <= missing + 1e-6
    values = {
        frozenset(exact.features[i] for i in m): v for m, v in zip(exact.models, exact.log_posterior, strict=True)
    }
    laws, table = found.laws, found.models
    for row in range(len(table)):
        model = [laws.features[i] for i in table.members(row)]
        if not any(laws.aliases[f] for f in model):
            assert table.log_posterior[row] == pytest.approx(values[frozenset(model)], abs=1e-6)


def _listed(constants: Any) -> dict[Any, list[float]]:
    return {f: values.tolist() for f, values in constants.items()}


def same(one: Result, two: Result) -> bool:
    a, b = one, two
    arrays = ("renormalised", "size_distribution", "batch_means")
    return (
        one.laws.features == two.laws.features
        and _listed(one.laws.constants) == _listed(two.laws.constants)
        and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in arrays)
        and all(
            np.array_equal(getattr(a.models, name), getattr(b.models, name))
            for name in ("words", "log_posterior", "visits", "chains")
        )
        and (a.steps, a.warmup_steps, a.acceptance, a.population_moves, a.library, a.library_share, a.n_models)
        == (b.steps, b.warmup_steps, b.acceptance, b.population_moves, b.library, b.library_share, b.n_models)
        and np.array_equal(one.chain_best, two.chain_best)
    )


# --- one seed, one answer ---------------------------------------------------------------------------------------

SPACES: dict[str, Callable[[], FeatureProblem]] = {
    "plain": partial(rt.small_problem, 51, depth=2, width=3, complexity=4, size=3),
    "projections": partial(rt.small_problem, 52, depth=3, width=2, complexity=5, projections=True),
}
PRECISE = Budget(warmup=300, mcse=0.01)


@pytest.mark.parametrize(
    ("space", "budget"), [("plain", SHORT), ("plain", PRECISE), ("projections", SHORT)], ids=["steps", "mcse", "alphas"]
)
def test_one_seed_gives_one_answer_for_any_number_of_workers(space: str, budget: Budget) -> None:
    problem = SPACES[space]()
    first, two, again = (sample(problem, seed=7, workers=workers, budget=budget) for workers in (1, 2, 1))
    assert same(first, two) and same(first, again)
    assert not same(first, sample(problem, seed=8, budget=budget))
    check_accounts(first)


def test_a_seed_sequence_is_as_good_as_its_number(small: FeatureProblem) -> None:
    """A seed may be a sequence that has spawned children before."""
    used = np.random.SeedSequence(7)
    used.spawn(5)
    assert same(sample(small, seed=7), sample(small, seed=used))


# --- accounts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize("steps", [1, 100, 1000, 33_000])
def test_batches_visits_and_sizes_count_every_step(small: FeatureProblem, chains: int, steps: int) -> None:
    found = sample(small, chains=chains, budget=Budget(warmup=300, steps=steps))
    check_accounts(found)
    length = found.batch_length
    assert length == max(1, min(500, steps // 64))
    assert batches_of(found).shape[:2] == (chains, -(-steps // length))


def test_many_batches_are_merged(small: FeatureProblem) -> None:
    found = sample(small, chains=2, budget=Budget(warmup=300, steps=300_000))
    check_accounts(found)
    assert found.batch_length == 1000 and found.steps == 600_000


def test_frequencies_are_those_of_the_models_visited(found: Result) -> None:
    result, table = found, found.models
    check_accounts(found)
    assert result.forgotten_visits == 0
    members = table.membership(len(found.laws.features))
    visits = table.visits.astype(float)
    np.testing.assert_allclose(batches_of(result).mean(axis=(0, 1)), visits @ members / result.steps, atol=1e-12)
    # No law has two spellings here, so the sizes of the models are those of the steps.
    assert not any(found.laws.aliases.values())
    sizes = np.bincount(members.sum(axis=1), weights=visits, minlength=len(result.size_distribution))
    np.testing.assert_allclose(result.size_distribution, sizes / result.steps, atol=1e-12)


def test_models_beyond_the_table_are_counted_as_forgotten(
    small: FeatureProblem, found: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modejump.samplers.law_estimates.MOST_MODELS", 20)
    monkeypatch.setattr("modejump.samplers.laws.MOST_MODELS", 20)
    monkeypatch.setattr("modejump.samplers.law_estimates.HELD", 0.0)
    cut = sample(small, seed=3)
    check_accounts(cut)
    assert cut.forgotten_visits > 0 and len(cut.models) <= 20
    # Laws keep their frequencies, whatever happens to the models.
    whole = dict(zip(found.laws.features, batches_of(found).mean(axis=(0, 1)), strict=True))
    kept = dict(zip(cut.laws.features, batches_of(cut).mean(axis=(0, 1)), strict=True))
    assert kept == pytest.approx({f: whole[f] for f in kept}, abs=1e-12)
    renormalised = dict(zip(found.laws.features, found.renormalised, strict=True))
    assert dict(zip(cut.laws.features, cut.renormalised, strict=True)) == pytest.approx(
        {f: renormalised[f] for f in kept}, abs=1e-9
    )
    assert cut.unvisited == pytest.approx(found.unvisited, abs=1e-12)


def test_draws_stand_for_models_that_the_table_has_no_room_for(
    small: FeatureProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modejump.samplers.law_estimates.MOST_MODELS", 20)
    monkeypatch.setattr("modejump.samplers.laws.MOST_MODELS", 20)
    cut = sample(small, seed=3, budget=Budget(warmup=300, steps=100_000))
    check_accounts(cut)
    draws = cut.models.draws
    assert draws.sum() > 200 and len(draws) > 20
    # Every model that was drawn was visited.
    assert (cut.models.visits[draws > 0] > 0).all()
    inside = cut.models.membership(len(cut.laws.features))
    drawn = draws @ inside / draws.sum()
    frequency = batches_of(cut).mean(axis=(0, 1))
    # Draws are batches apart; a quarter of their number is a cautious guess of independent ones.
    error = np.sqrt(frequency * (1 - frequency) / (draws.sum() / 4)) + 1e-3
    assert (np.abs(drawn - frequency) < 4.5 * error).all()
    kept = keep_models(cut.laws.problem, cut)
    assert kept.weight.sum() == pytest.approx(1.0)
    assert np.abs(kept.weight @ _bits(kept.words, len(frequency)) - drawn).max() < 0.01


def _bits(words: np.ndarray, terms: int) -> np.ndarray:
    return np.unpackbits(words.view(np.uint8).reshape(len(words), -1), axis=1, bitorder="little")[:, :terms]


def test_longer_runs_leave_less_unvisited(small: FeatureProblem) -> None:
    short, long = (sample(small, budget=Budget(warmup=300, steps=steps)) for steps in (500, 200_000))
    assert long.unvisited < 0.02 < short.unvisited


def test_distinct_models_may_ask_for_more_steps(small: FeatureProblem) -> None:
    plain, more, most = (sample(small, distinct=d, budget=Budget(warmup=300, steps=1000)) for d in (0, 800, 10**9))
    assert plain.steps < more.steps < most.steps
    # Ten times the steps at most, and a piece of a quarter.
    assert most.steps <= 10.5 * plain.steps
    for each in (plain, more, most):
        check_accounts(each)


# --- budgets ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [0.02, 0.004])
def test_a_wanted_precision_is_reached(small: FeatureProblem, wanted: float) -> None:
    found = sample(small, budget=Budget(warmup=300, mcse=wanted))
    check_accounts(found)
    assert found.notes == ()
    assert monte_carlo_error(batches_of(found)).max() <= wanted


def test_a_precision_out_of_reach_is_told(small: FeatureProblem) -> None:
    found = sample(small, budget=Budget(warmup=300, mcse=1e-5, cap=2000))
    check_accounts(found)
    (note,) = found.notes
    assert "wanted precision 1e-05 was not reached within 2000 steps a chain" in note
    assert found.steps == 4 * 2000 and found.finished


@pytest.mark.parametrize("workers", [1, 2])
def test_seconds_are_roughly_kept(small: FeatureProblem, workers: int) -> None:
    began = time.perf_counter()
    found = sample(small, budget=Budget(seconds=1.0), workers=workers)
    elapsed = time.perf_counter() - began
    check_accounts(found)
    result = found
    assert result.finished and 1.0 <= result.seconds + result.warmup_seconds <= elapsed


def test_the_edits_that_complete_a_library_take_their_share_of_the_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(59)
    x = rng.uniform(0.5, 3.0, (1000, 6))
    y = x[:, 0] * np.sin(x[:, 1]) + x[:, 2] + rng.normal(size=1000)
    names = ("sin", "troot", "sigmoid")
    problem = feature_problem(
        x, y, "abcdef", transforms=[transforms[name] for name in names], space=Space(rules="paper")
    )

    def edited(work: Workspace, task: int, *_: Any, **__: Any) -> float:
        return float(work.arrays.scalars["done"]) if task == SCORE_EDITS else 0.0

    # A model takes as long to evaluate among edits as in the search.
    clock, seconds = Clock(monkeypatch), 10.0
    clock.charge(SearchChain, "run_to", lambda chain, *_: chain.evaluated, 2e-4)
    clock.charge(Workspace, "work", edited, 2e-4)
    clock.charge(ReversibleChain, "advance", lambda chain, *_: chain.arrays.chain.record.tried[:, 0].sum(), 1e-4)
    found = sample(problem, chains=2, budget=Budget(seconds=seconds))
    check_accounts(found)
    shares = module.SEARCH_SHARE + module.LEARN_SHARE + module.EDIT_SHARE
    assert found.warmup_seconds <= shares * seconds
    # No more than the last batch of each chain beyond what was asked.
    assert 0.0 <= found.warmup_seconds + found.seconds - seconds <= 2 * found.batch_length * 1e-4


def test_a_warm_up_of_nothing_is_one_population(small: FeatureProblem) -> None:
    found = sample(small, budget=Budget(warmup=0, steps=5000))
    check_accounts(found)
    assert found.populations == 4 + EVOLUTIONS * CENSUS_WORTH


@pytest.mark.parametrize(("warmup", "populations"), [(1, 1), (STEPS, 1), (STEPS + 1, 2), (10 * STEPS, 10)])
def test_warm_up_becomes_whole_populations(small: FeatureProblem, warmup: int, populations: int) -> None:
    found = sample(small, budget=Budget(warmup=warmup, steps=64))
    # Each evolution begins with a census.
    assert found.populations == 4 * populations + EVOLUTIONS * max(populations, CENSUS_WORTH)


def test_progress_is_told(small: FeatureProblem) -> None:
    seen: list[tuple[float, float, str]] = []
    sample(small, progress=lambda *told: seen.append(told))
    shares = [done / total for done, total, _ in seen]
    assert shares == sorted(shares) and shares[-1] == pytest.approx(1.0)
    assert {note.split(",")[0] for _, _, note in seen} == {"search", "learning", "sampling"}


# --- interruption -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_run_is_valid(small: FeatureProblem, workers: int) -> None:
    found = sample(small, workers=workers, budget=Budget(warmup=300, steps=500_000), progress=Interrupting(4))
    assert not found.finished and found.steps == 4 * 100_000
    check_accounts(found)
    check_frequencies(found, exact_of(small))
    verdict = Posterior(found.laws.problem, found).verdict
    assert "interrupted" in verdict and verdict.level in ("doubtful", "bad")


@pytest.mark.parametrize("during", ["search", "learning"])
def test_an_interrupt_before_sampling_is_passed_on(small: FeatureProblem, during: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        sample(small, progress=Interrupting(2, during))


def interrupt_call(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The user's interrupt as the so-manieth chain is about to run its batches."""
    original = ReversibleChain.run_batches
    calls = 0

    def interrupted(self: ReversibleChain, count: int) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            raise KeyboardInterrupt
        original(self, count)

    monkeypatch.setattr(ReversibleChain, "run_batches", interrupted)


# 500 steps a batch and 25 000 a call: batches double in the eleventh round of four chains.
@pytest.mark.parametrize("library", ["own", "idle"])
@pytest.mark.parametrize("rounds", [1, 10])
def test_an_interrupt_between_chains_leaves_them_comparable(
    small: FeatureProblem, monkeypatch: pytest.MonkeyPatch, rounds: int, library: str
) -> None:
    """One chain is ahead of the others, in the second case by a doubling of its batches."""
    if library == "idle":
        use_library(monkeypatch, ("b*b*b",))
    interrupt_call(monkeypatch, 4 * rounds + 2)
    found = sample(small, budget=Budget(warmup=300, steps=600_000), seed=2)
    chains, batches, _ = batches_of(found).shape
    assert not found.finished
    assert (chains, batches, found.batch_length) == ((4, 50, 500) if rounds == 1 else (4, 250, 1000))
    check_accounts(found)
    if library == "own":
        check_frequencies(found, exact_of(small))


def test_an_interrupt_in_the_first_batches_of_a_later_chain_is_passed_on(
    small: FeatureProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing to return where some chain has not a single batch."""
    interrupt_call(monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt):
        sample(small)


# --- exact posteriors -------------------------------------------------------------------------------------------

WEIGHTS = np.random.default_rng(60).integers(0, 4, 40).astype(float)


def weighted_problem() -> FeatureProblem:
    rng = np.random.default_rng(61)
    x = rng.normal(size=(40, 2))
    return feature_problem(
        x, 0.4 * x[:, 0] * x[:, 1] + rng.normal(size=40), "ab", transforms=[transforms["sin"]],
        space=Space(depth=2, width=2, complexity=4, size=2, population=10), model_prior=ComplexityPrior(0.4),
        weights=WEIGHTS,
    )  # fmt: skip


PROBLEMS: dict[str, Callable[[], FeatureProblem]] = {
    "two covariates": partial(rt.small_problem, 62, width=3, size=3),
    "three covariates": partial(rt.small_problem, 63, columns=3, functions=("sin", "troot"), complexity=3),
    "trees": partial(rt.small_problem, 64, spelling="trees"),
    "copies": partial(rt.small_problem, 65, columns=3, complexity=3, collinear="copy"),
    "unknown variance": partial(rt.small_problem, 66, coef_prior="jeffreys"),
    "weights": weighted_problem,
    "projections": partial(rt.small_problem, 67, depth=3, width=2, complexity=5, size=1, projections=True),
    "products only": partial(rt.small_problem, 68, columns=3, functions=(), complexity=3, size=3),
    "one feature at a time": partial(rt.small_problem, 69, size=1),
    "no products": partial(rt.small_problem, 70, functions=("sin", "troot"), width=1, size=2),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_frequencies_are_exact_posterior_probabilities_after_too_short_a_warm_up(case: str) -> None:
    problem = PROBLEMS[case]()
    found = sample(problem, budget=Budget(warmup=300, steps=100_000), seed=4)
    check_accounts(found)
    exact = exact_of(problem)
    check_frequencies(found, exact)
    check_renormalised(found, exact)
    for f in found.laws.features:
        assert {part for part in f.subfeatures() if part.kind == "projection"} <= found.laws.constants.keys()


def use_library(monkeypatch: pytest.MonkeyPatch, texts: tuple[str, ...]) -> None:
    """Freeze this library, whatever warm-up finds."""
    library = Library(tuple(F(text) for text in texts), np.full(len(texts), 0.1))
    monkeypatch.setattr(module, "build_library", lambda *args, **options: library)


def test_a_useless_library_changes_nothing_but_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the posterior but a fifth is with models of fresh features, of which many come, and often."""
    use_library(monkeypatch, ("b*b*b", "sin(b*b)"))
    problem = rt.small_problem(63, depth=2, width=3, complexity=3, size=2)
    settings = Sampler(population_steps=20, rate=16.0, moves={"none": 0.4, "edit": 0.6})
    found = sample(problem, budget=Budget(warmup=300, steps=300_000), settings=settings, seed=5)
    check_accounts(found)
    exact = exact_of(problem)
    check_frequencies(found, exact)
    check_renormalised(found, exact)
    assert found.library == 2 and found.library_share < 0.3


def test_the_share_of_the_library_is_the_mass_of_its_models(
    small: FeatureProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ("a", "a*b", "sin(a)")
    use_library(monkeypatch, texts)
    exact = exact_of(small)
    inside = {F(text) for text in texts}
    mass = sum(
        p
        for model, p in zip(exact.models, exact.probability, strict=True)
        if {exact.features[i] for i in model} <= inside
    )
    assert 0.2 < mass < 0.95
    runs = [sample(small, chains=2, budget=Budget(warmup=300, steps=30_000), seed=s) for s in range(12)]
    assert {run.library for run in runs} == {3}
    assert ttest_1samp([run.library_share for run in runs], mass).pvalue > LEVEL


# --- edges ------------------------------------------------------------------------------------------------------


def test_pure_noise_has_no_law() -> None:
    rng = np.random.default_rng(71)
    x = rng.normal(size=(100, 3))
    problem = feature_problem(
        x, rng.normal(size=100), "abc", transforms=[transforms["sin"], transforms["troot"]], space=Space()
    )
    found = sample(problem)
    check_accounts(found)
    assert batches_of(found).mean(axis=(0, 1)).max() < 0.5
    assert found.models.members(0) == []


def test_the_empty_model_alone_is_a_result() -> None:
    """A prior that no feature survives."""
    problem = rt.small_problem(72, a=1e-12)
    found = sample(problem)
    check_accounts(found)
    assert found.models.members(0) == [] and found.size_distribution[0] > 0.99


@pytest.mark.parametrize("functions", [("sin",), ()])
def test_one_covariate_is_enough(functions: tuple[str, ...]) -> None:
    rng = np.random.default_rng(73)
    x = rng.normal(size=(40, 1))
    problem = feature_problem(
        x, x[:, 0] ** 2 + rng.normal(size=40), "a", transforms=[transforms[name] for name in functions],
        space=Space(depth=2, width=3, complexity=3, size=2, population=5), model_prior=ComplexityPrior(0.4),
    )  # fmt: skip
    found = sample(problem, budget=Budget(warmup=300, steps=60_000))
    check_accounts(found)
    exact = exact_of(problem)
    check_frequencies(found, exact)
    check_renormalised(found, exact)


def test_large_models_have_more_places_for_fresh_features() -> None:
    rng = np.random.default_rng(74)
    x = rng.normal(size=(120, 12))
    y = x @ np.linspace(0.5, 2.0, 12) + rng.normal(size=120)
    space = Space(size=40, population=40, complexity=3)
    problem = feature_problem(x, y, [f"x{i}" for i in range(12)], transforms=[transforms["sin"]], space=space)
    found = sample(problem)
    check_accounts(found)
    sizes = found.size_distribution
    assert sizes @ np.arange(len(sizes)) > 5


def test_a_law_is_found_and_sure() -> None:
    rng = np.random.default_rng(75)
    x = rng.uniform(0.5, 3.0, (100, 3))
    y = x[:, 0] * np.sin(x[:, 2]) + 0.02 * rng.normal(size=100)
    problem = feature_problem(x, y, "abc", transforms=[transforms["sin"], transforms["troot"]], space=Space())
    found = sample(problem, budget=Budget(steps=10_000))
    check_accounts(found)
    at = found.laws.features.index(F("a*sin(c)"))
    assert batches_of(found)[:, :, at].mean() > 0.99 and found.renormalised[at] > 0.99
    assert [found.laws.features[i] for i in found.models.members(0)] == [F("a*sin(c)")]


def test_a_law_without_noise_has_its_own_log_posterior() -> None:
    """Near-perfect fits are evaluated one by one: none inherits the fit of another."""
    rng = np.random.default_rng(76)
    x = rng.uniform(0.5, 2.0, (30, 2))
    problem = feature_problem(
        x, x[:, 0] * x[:, 1], "ab", transforms=[transforms["sin"], transforms["troot"]], coef_prior="jeffreys",
        space=Space(depth=2, width=3, complexity=3, size=2, population=10), model_prior=ComplexityPrior(0.4),
    )  # fmt: skip
    found = sample(problem)
    check_accounts(found)
    check_renormalised(found, exact_of(problem))


def test_transforms_of_users_take_part() -> None:
    mine = transforms.add("hill_of_mine", lambda x: 1.0 / (1.0 + x**4))
    try:
        rng = np.random.default_rng(77)
        x = rng.normal(size=(60, 2))
        y = 2.0 / (1.0 + (x[:, 0] * x[:, 1]) ** 4) + 0.3 * rng.normal(size=60)
        space = Space(depth=2, width=2, complexity=4, size=2, population=10)
        problem = feature_problem(
            x, y, "ab", transforms=[mine, transforms["sin"]], space=space, model_prior=ComplexityPrior(0.4)
        )
        found, again = (sample(problem, workers=workers, seed=6) for workers in (1, 2))
        assert same(found, again)
        check_accounts(found)
        exact = exact_of(problem)
        check_frequencies(found, exact)
        check_renormalised(found, exact)
        assert batches_of(found)[:, :, found.laws.features.index(F("hill_of_mine(a*b)"))].mean() > 0.5
    finally:
        transforms.remove("hill_of_mine")


def test_constant_covariates_are_left_alone() -> None:
    rng = np.random.default_rng(78)
    x = rng.normal(size=(50, 3))
    x[:, 0] = 4.0
    problem = feature_problem(x, x[:, 1] + rng.normal(size=50), "abc", transforms=[transforms["sin"]], space=Space())
    found = sample(problem)
    check_accounts(found)
    assert F("a") not in found.laws.features


@pytest.mark.parametrize(("fit", "chains"), [(3, 3), (1, 2), (100, 6)])
def test_columns_that_would_take_too_much_memory_leave_fewer_chains(
    small: FeatureProblem, monkeypatch: pytest.MonkeyPatch, fit: int, chains: int
) -> None:
    a_chain = 8 * small.x.shape[1] * (module.OTHER_COLUMNS + module.LEAST_FEATURES)
    monkeypatch.setattr(module, "COLUMN_BYTES", fit * a_chain)
    found = sample(small, chains=6)
    check_accounts(found)
    assert batches_of(found).shape[0] == chains and found.populations == 6 + EVOLUTIONS * CENSUS_WORTH
    if chains < 6:
        (note,) = found.notes
        assert f"6 chains searched, but only {chains} sampled" in note
        assert found.library <= module.LEAST_FEATURES
    else:
        assert found.notes == ()


# --- settings and bad input -------------------------------------------------------------------------------------

SETTINGS = {
    "short populations": Sampler(population_steps=7),
    "many fresh features": Sampler(rate=16.0),
    "no edits of the library": Sampler(edits=0.0),
    "all moves": Sampler(moves=dict.fromkeys(POPULATION_MOVES, 1.0)),
    "flips alone": Sampler(kernels={"flip": 1.0}, moves={"none": 1.0}),
    "no search": Sampler(search=0, generated=0, population_rho=0.2, include=0.9),
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_settings_are_honoured(small: FeatureProblem, settings: Sampler) -> None:
    found = sample(small, settings=settings)
    check_accounts(found)
    wanted = {name for name, weight in (settings.moves or {}).items() if weight > 0 and name != "none"}
    if settings.moves is not None:
        assert set(found.population_moves) == wanted
    if settings.kernels is not None:
        assert set(found.acceptance) == set(settings.kernels)
    if settings.population_steps is not None:
        assert sum(v[0] for v in found.population_moves.values()) > 4 * 20_000 / 7 * 0.15


def test_the_algorithm_as_the_paper_states_it() -> None:
    """No search, no library, no recall: every step is a move between populations, and the answer is the same."""
    problem = rt.small_problem(63, complexity=3, size=2)
    options = {"budget": Budget(steps=15_000), "seed": 5}
    found = sample(problem, settings=Sampler.paper(), **options)
    exact = exact_of(problem)
    check_frequencies(found, exact)
    assert found.library == found.populations == 0 and set(found.population_moves) == {"delayed"}
    assert found.acceptance == {} and found.library_share < 1.0
    assert same(found, sample(problem, settings=Sampler.resolve("paper"), workers=2, **options))
