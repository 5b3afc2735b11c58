"""MJMCMC from the outside: right frequencies, honoured budgets, one answer for one seed, interruptions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import twin
from clock import Clock
from conftest import Regression
from running import Interrupting, enumerate_models, mjmcmc
from scipy.stats import norm, t

from modejump.core.errors import InputError
from modejump.kernels.moves import KERNELS, Moves
from modejump.kernels.store import bytes_per_model
from modejump.priors.models import BernoulliPrior, UniformPrior
from modejump.problem.problem import Problem
from modejump.samplers.budget import Budget
from modejump.samplers.chains.mjmcmc_chain import FIRST_CAPACITY, MAX_BATCHES, MJMCMCChain
from modejump.samplers.diagnostics import diagnose
from modejump.samplers.mjmcmc import WARMUP_SHARE
from modejump.samplers.result import Result
from modejump.samplers.schedule import FIRST_PIECE
from modejump.samplers.settings import Sampler
from modejump.samplers.warmup import best_first
from modejump.samplers.warmup.adaptation import KERNEL_WEIGHTS, UNIFORM_SHARE, first_moves

LEVEL = 1e-4


def inclusion(result: Result) -> np.ndarray:
    assert result.batch_means is not None
    return result.batch_means.mean(axis=(0, 1))


def check_frequencies(result: Result, exact: np.ndarray) -> None:
    """Every frequency within Monte Carlo error of the exact probability, all terms together at the level."""
    assert result.batch_means is not None
    error = diagnose(result.batch_means, result.batch_length).mcse
    # A term that hardly ever moved shows no error. Its stays last until a flip tries it again, and flips try the
    # terms that look certain least: about every K / (share of flips * uniform share) steps.
    independent = result.steps * KERNEL_WEIGHTS["flip"] * UNIFORM_SHARE / (2.0 * len(exact))
    error = np.maximum(error, np.sqrt(exact * (1.0 - exact) / independent))
    bound = norm.isf(LEVEL / (2 * len(exact)))
    assert (np.abs(inclusion(result) - exact) <= bound * error + 1e-12).all()


def check_accounts(result: Result, n_terms: int) -> None:
    """Batches, visits, sizes and proposals all count the same steps."""
    assert result.batch_means is not None
    chains, batches, terms = result.batch_means.shape
    assert terms == n_terms
    assert chains * batches * result.batch_length == result.steps
    assert result.models.visits.sum() + result.forgotten_visits == result.steps
    assert sum(tried for tried, _ in result.acceptance.values()) == result.steps
    assert all(0 <= accepted <= tried for tried, accepted in result.acceptance.values())
    assert result.size_distribution.sum() == pytest.approx(1.0, abs=1e-12)
    assert inclusion(result).sum() == pytest.approx(result.size_distribution @ np.arange(n_terms + 1), abs=1e-9), (
        "the mean size counted twice"
    )
    if result.forgotten_visits == 0:
        by_model = result.models.visits / result.steps @ result.models.membership(n_terms)
        np.testing.assert_allclose(by_model, inclusion(result), rtol=0, atol=1e-9)
    assert (np.diff(result.models.log_posterior) <= 0).all()
    assert result.n_models == len(result.models)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "K = 1": lambda: twin.one_column_each(301, 1, signal=0.1),
    "K = 2": lambda: twin.one_column_each(302, 2, signal=0.2),
    "K = 12": lambda: twin.one_column_each(303, 12, signal=0.3),
    "jzs": lambda: twin.one_column_each(304, 8, signal=0.3, coef_prior="jzs"),
    "factors": lambda: twin.with_factors(305, coef_prior="aic"),
    "strong heredity": lambda: twin.with_interactions(306, model_prior=UniformPrior(heredity="strong")),
    "weak heredity": lambda: twin.with_interactions(306, model_prior=BernoulliPrior(0.3, heredity="weak")),
    "dependent columns": lambda: twin.with_duplicate(307),
    "more terms than rows": lambda: twin.one_column_each(308, 14, rows=12, signal=0.3),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_frequencies_agree_with_enumeration(case: str) -> None:
    problem = PROBLEMS[case]()
    exact = enumerate_models(problem)
    result = mjmcmc(problem, budget=Budget(steps=60_000), seed=1)
    check_accounts(result, problem.n_terms)
    check_frequencies(result, exact.renormalised)
    # These spaces are small enough to be evaluated as a whole: then renormalising over them is exact.
    if result.n_models == exact.n_models:
        np.testing.assert_allclose(result.renormalised, exact.renormalised, rtol=0, atol=1e-8)
        assert result.log_evidence == pytest.approx(exact.log_evidence, abs=1e-8)
    assert result.n_models == exact.n_models or problem.n_terms >= 12


def test_frequencies_of_the_crime_data(crime: Regression) -> None:
    problem = Problem.build(crime.X, crime.y, coef_prior="hyper-g")
    result = mjmcmc(problem, budget=Budget(steps=200_000), seed=2)
    exact = enumerate_models(problem)
    check_frequencies(result, exact.renormalised)
    np.testing.assert_allclose(result.renormalised, exact.renormalised, rtol=0, atol=1e-3)


@pytest.mark.parametrize("weights", [{"flip": 1.0}, {"jump-greedy": 1.0}, dict.fromkeys(KERNELS, 1.0)])
@pytest.mark.parametrize("delayed", [True, False])
def test_frequencies_under_other_mixtures(weights: dict[str, float], delayed: bool) -> None:
    problem = twin.one_column_each(303, 8, signal=0.3)
    settings = Sampler(kernels=weights, delayed=delayed, rho=0.15, jump_max=2, search=4)
    result = mjmcmc(problem, budget=Budget(steps=40_000), seed=3, settings=settings)
    assert set(result.acceptance) == set(weights)
    check_frequencies(result, enumerate_models(problem).renormalised)


def test_distance_to_the_posterior_falls_at_the_monte_carlo_rate() -> None:
    """Sixteen times the steps, a quarter of the total variation; the mean over chains has a known error."""
    problem = twin.one_column_each(310, 6, signal=0.3)
    exact = twin.traverse(twin.Target(problem))
    probability = dict(zip(exact.masks.tolist(), exact.probability.tolist(), strict=True))
    moves = first_moves(Sampler(), problem)

    def distance(runner: MJMCMCChain, steps: int) -> float:
        store = runner.chain.store
        count = int(store.scalars["count"])
        share = {int(w): v / steps for w, v in zip(store.words[:count, 0], store.visits[:count], strict=True)}
        return 0.5 * sum(abs(share.get(mask, 0.0) - p) for mask, p in probability.items())

    short, long, chains = 4_000, 64_000, 60
    distances = np.empty((chains, 2))
    for c, seed in enumerate(np.random.SeedSequence(4).spawn(chains)):
        runner = MJMCMCChain(problem, seed, 2**24, 100)
        runner.warm_up(moves, 2_000)
        runner.forget_warmup()
        runner.warm_up(moves, short)
        distances[c, 0] = distance(runner, short)
        runner.warm_up(moves, long - short)
        distances[c, 1] = distance(runner, long)
    ratio = np.log(distances[:, 0].mean() / distances[:, 1].mean())
    spread = distances.std(axis=0, ddof=1) / distances.mean(axis=0)
    error = np.sqrt((spread**2).sum() / chains)
    assert abs(ratio - 0.5 * np.log(long / short)) <= t.isf(LEVEL / 2, chains - 1) * error
    assert distances[:, 1].mean() < 0.05


# --- determinism ----------------------------------------------------------------------------------------------


def same(a: Result, b: Result) -> bool:
    """Bit for bit, the clocks apart."""
    numbers = ("n_models", "log_evidence", "batch_length", "steps", "warmup_steps", "acceptance", "forgotten_visits")
    arrays = ("renormalised", "size_distribution", "batch_means")
    return (
        all(getattr(a, name) == getattr(b, name) for name in numbers)
        and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in arrays)
        and all(
            np.array_equal(getattr(a.models, name), getattr(b.models, name))
            for name in ("words", "log_posterior", "visits", "first_seen")
        )
    )


@pytest.mark.parametrize("budget", [Budget(steps=30_000), Budget(mcse=0.01, cap=100_000)], ids=["steps", "mcse"])
def test_one_seed_gives_one_answer_for_any_number_of_workers(budget: Budget) -> None:
    def sampled(workers: int, seed: int = 5) -> Result:
        # A fresh problem each time: a table of marginal likelihoods that a run has filled must not matter.
        problem = twin.one_column_each(320, 20, rows=60, signal=0.3, coef_prior="hyper-g")
        return mjmcmc(problem, budget=budget, workers=workers, seed=seed)

    alone = sampled(1)
    assert same(alone, sampled(2))
    assert same(alone, sampled(4))
    assert not same(alone, sampled(1, seed=6))


def test_a_seed_may_be_a_sequence() -> None:
    problem = twin.one_column_each(321, 6)
    run = partial(mjmcmc, problem, budget=Budget(steps=2_000))
    assert same(run(seed=7), run(seed=np.random.SeedSequence(7)))


def test_chains_have_streams_of_their_own() -> None:
    result = mjmcmc(twin.one_column_each(322, 10, signal=0.2), budget=Budget(steps=5_000, warmup=0), seed=8)
    assert result.batch_means is not None
    for c in range(1, 4):
        assert not np.array_equal(result.batch_means[0], result.batch_means[c])


# --- budgets --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize("steps", [1, 10, 63, 100, 1_000, 31_999, 33_333, 260_000, 513_000])
def test_steps_are_made_as_asked_up_to_one_batch(steps: int, chains: int) -> None:
    result = mjmcmc(twin.one_column_each(330, 3), chains=chains, budget=Budget(steps=steps, warmup=80), seed=9)
    check_accounts(result, 3)
    assert steps <= result.steps / chains < steps + result.batch_length
    assert result.batch_means is not None
    assert result.batch_means.shape[1] < MAX_BATCHES
    assert result.warmup_steps == 80 * chains
    assert result.finished and result.notes == ()


def test_no_warm_up_where_none_is_asked() -> None:
    result = mjmcmc(twin.one_column_each(330, 3), budget=Budget(steps=1_000, warmup=0), seed=9)
    assert result.warmup_steps == 0
    check_accounts(result, 3)


def test_a_wanted_precision_is_reached() -> None:
    problem = twin.one_column_each(331, 10, signal=0.3)
    loose, tight = (mjmcmc(problem, budget=Budget(mcse=mcse), seed=10) for mcse in (0.02, 0.003))
    for result, wanted in ((loose, 0.02), (tight, 0.003)):
        assert result.batch_means is not None
        assert diagnose(result.batch_means, result.batch_length).mcse.max() <= wanted
        assert result.notes == ()
        check_accounts(result, 10)
    assert tight.steps > loose.steps
    check_frequencies(tight, enumerate_models(problem).renormalised)


def test_a_precision_out_of_reach_is_given_up_at_the_cap() -> None:
    budget = Budget(mcse=1e-6, cap=50_000)
    result = mjmcmc(twin.one_column_each(331, 10, signal=0.3), budget=budget, seed=10)
    assert result.steps == 4 * 50_000
    assert len(result.notes) == 1 and "1e-06" in result.notes[0] and "50000" in result.notes[0]
    assert result.finished


def test_a_budget_of_seconds_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, step, chains = Clock(monkeypatch), 1e-5, 4
    clock.charge(MJMCMCChain, "_run", lambda runner, *_: runner.chain.record.tried[:, 0].sum(), step)
    clock.charge(
        best_first, "expand", lambda data, chain, *_: getattr(chain, "value", chain).store.scalars["count"], step
    )
    problem = twin.one_column_each(332, 20, rows=60, signal=0.3)
    result = mjmcmc(problem, chains=chains, budget=Budget(seconds=1.0), seed=11)
    # No more than the last piece of warm-up and the last batch of each chain beyond what was asked.
    assert 0.0 <= result.warmup_seconds - WARMUP_SHARE < chains * FIRST_PIECE * step + 1e-9
    assert -1e-9 < result.warmup_seconds + result.seconds - 1.0 < chains * result.batch_length * step + 1e-9
    assert result.seconds == pytest.approx(result.steps * step)
    check_accounts(result, 20)


# --- memory ---------------------------------------------------------------------------------------------------


def flat(seed: int, terms: int = 18) -> Problem:
    """A posterior without favourites: a chain meets a new model at almost every step."""
    rng = np.random.default_rng(seed)
    return Problem.build(rng.normal(size=(60, terms)), rng.normal(size=60), coef_prior="aic")


def test_the_memory_bound_is_kept_and_does_not_touch_the_frequencies() -> None:
    problem = flat(340)
    tight, ample = (
        mjmcmc(problem, chains=2, budget=Budget(steps=60_000, warmup=0, memory=memory), seed=12)
        for memory in (1, 2**28)
    )
    assert ample.n_models > 2 * FIRST_CAPACITY
    assert tight.n_models <= 2 * FIRST_CAPACITY
    assert ample.forgotten_visits == 0
    assert 0 < tight.forgotten_visits < tight.steps
    for result in (tight, ample):
        check_accounts(result, problem.n_terms)
    # Without warm-up nothing depends on the cache, and the paths are the same.
    np.testing.assert_array_equal(tight.batch_means, ample.batch_means)
    check_frequencies(tight, enumerate_models(problem).renormalised)


def test_the_cache_never_exceeds_its_bound() -> None:
    problem = flat(341)
    bound = 6_000
    runner = MJMCMCChain(problem, np.random.SeedSequence(13), bound * bytes_per_model(1), 100)
    moves = first_moves(Sampler(), problem)
    capacities = set()
    for _ in range(60):
        runner.warm_up(moves, 500)
        capacities.add(len(runner.chain.store.log_posterior))
        assert int(runner.chain.store.scalars["count"]) <= bound
    assert capacities == {FIRST_CAPACITY, bound}
    best = runner.chain.store.log_posterior[: int(runner.chain.store.scalars["count"])].max()
    assert best == pytest.approx(enumerate_models(problem, top=1).models.log_posterior[0], abs=2.0)


# --- many terms -----------------------------------------------------------------------------------------------


def test_signals_among_many_terms_are_found() -> None:
    rng = np.random.default_rng(350)
    x = rng.normal(size=(250, 200)) + 0.5 * rng.normal(size=(250, 1))
    signals = [3, 64, 65, 127, 199]
    y = x[:, signals] @ np.array([1.0, -0.8, 0.7, 0.6, -0.9]) + rng.normal(size=250)
    problem = Problem.build(x, y, model_prior="beta-binomial")
    result = mjmcmc(problem, budget=Budget(steps=60_000), seed=14)
    check_accounts(result, 200)
    found = np.flatnonzero(inclusion(result) > 0.5)
    assert found.tolist() == signals
    assert result.models.members(0) == signals
    error = diagnose(result.batch_means, result.batch_length).mcse  # type: ignore[arg-type]
    difference = np.abs(inclusion(result) - result.renormalised)
    # Renormalised over what was met, against frequencies: what was missed may only be a small part.
    assert (difference <= norm.isf(LEVEL / 400) * np.maximum(error, 1e-3) + 0.01).all()


# --- progress and interruption --------------------------------------------------------------------------------


def test_progress_grows_to_the_whole() -> None:
    seen: list[tuple[float, float, str]] = []
    problem = twin.one_column_each(360, 6)
    mjmcmc(problem, budget=Budget(steps=120_000), seed=15, workers=2, progress=lambda *call: seen.append(call))
    shares = [done / total for done, total, _ in seen]
    assert shares == sorted(shares) and len(set(shares)) == len(shares)
    assert 0.0 < shares[0] and shares[-1] == 1.0
    assert {note.split(",")[0] for _, _, note in seen} == {"warm-up", "sampling"}


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_run_is_valid(workers: int) -> None:
    problem = twin.one_column_each(361, 8, signal=0.3)
    run = partial(mjmcmc, problem, seed=16, workers=workers)
    result = run(budget=Budget(steps=500_000), progress=Interrupting(2))
    assert not result.finished
    assert 0 < result.steps < 4 * 500_000
    check_accounts(result, 8)
    check_frequencies(result, enumerate_models(problem).renormalised)


def test_an_interrupt_before_sampling_is_passed_on() -> None:
    with pytest.raises(KeyboardInterrupt):
        mjmcmc(twin.one_column_each(361, 8), seed=16, progress=Interrupting(3, "warm-up"))


def interrupt_call(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The user's interrupt as the so-manieth chain is about to run its batches."""
    original = MJMCMCChain.run_batches
    calls = 0

    def interrupted(self: MJMCMCChain, moves: Moves, count: int) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            raise KeyboardInterrupt
        original(self, moves, count)

    monkeypatch.setattr(MJMCMCChain, "run_batches", interrupted)


# 500 steps a batch and 25 000 a call: batches double in the eleventh round of four chains.
@pytest.mark.parametrize("rounds", [1, 10])
def test_an_interrupt_between_chains_leaves_them_comparable(monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    """One chain is ahead of the others, in the second case by a doubling of its batches."""
    interrupt_call(monkeypatch, 4 * rounds + 2)
    problem = twin.one_column_each(362, 8, signal=0.3)
    result = mjmcmc(problem, budget=Budget(steps=600_000), seed=17)
    assert not result.finished
    assert result.batch_means is not None
    chains, batches, _ = result.batch_means.shape
    assert (chains, batches, result.batch_length) == ((4, 50, 500) if rounds == 1 else (4, 250, 1000))
    # The chain ahead has made steps that no full row of batches holds.
    assert chains * batches * result.batch_length < result.steps
    assert result.models.visits.sum() == result.steps
    check_frequencies(result, enumerate_models(problem).renormalised)


def test_an_interrupt_in_the_first_batches_of_a_later_chain_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to return where some chain has not a single batch."""
    interrupt_call(monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt):
        mjmcmc(twin.one_column_each(362, 8), budget=Budget(steps=100_000), seed=17)


# --- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"steps": 1.5}, "whole number"),
        ({"steps": True}, "finite number"),
        ({"seconds": -1.0}, "seconds is -1.0"),
        ({"mcse": float("nan")}, "finite number"),
        ({"warmup": -1}, "warmup is -1"),
        ({"memory": 0}, "memory is 0"),
        ({"steps": 10, "seconds": 1.0}, "both steps and seconds"),
        ({"steps": 10, "mcse": 0.1}, "both steps and mcse"),
        ({"cap": 100}, "cap without"),
        ({"seconds": 1.0, "warmup": 5}, "both seconds and warmup"),
    ],
)
def test_bad_budgets(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Budget(**settings)  # type: ignore[arg-type]
