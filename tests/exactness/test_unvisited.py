"""Posterior mass of models that no chain visited: who visited what is counted right, and the estimate is unbiased."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import twin
from running import enumerate_models, mjmcmc

from modejump.core.threads import ThreadPool
from modejump.kernels.store import ModelStore, bytes_per_model
from modejump.problem.problem import Problem
from modejump.samplers import mjmcmc as mjmcmc_module
from modejump.samplers import result as result_module
from modejump.samplers.budget import Budget
from modejump.samplers.chains.mjmcmc_chain import FIRST_CAPACITY
from modejump.samplers.merge import Merged
from modejump.samplers.result import ModelTable, Result

# Statistical assertions are in standard errors of a mean over many runs: four fail by chance once in 16 000.
ERRORS = 4.0
TERMS = 12
RUNS = 100
# The fixture below puts a spy in its place.
MERGED = mjmcmc_module.merged_stores


def mutated(function: Callable[..., Any] | property, old: str, new: str) -> Any:
    """The function with a text of its source replaced, in a copy of its module."""
    plain = function.fget if isinstance(function, property) else function
    assert plain is not None
    text = textwrap.dedent(inspect.getsource(plain)).replace("@property\n", "")
    assert text.count(old) == 1, old
    names = dict(vars(inspect.getmodule(plain)))
    exec(compile(text.replace(old, new), f"<{plain.__name__} with {new!r}>", "exec"), names)
    return names[plain.__name__]


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> list[list[ModelStore]]:
    """The stores that each run puts together, those of the best-first search first."""
    caught: list[list[ModelStore]] = []

    def spy(parts: list[ModelStore], pool: ThreadPool) -> Merged:
        caught.append(parts)
        return MERGED(parts, pool)

    monkeypatch.setattr(mjmcmc_module, "merged_stores", spy)
    return caught


def visits_of(store: ModelStore) -> dict[int, int]:
    count = int(store.scalars["count"])
    return {twin.mask_of(w): int(v) for w, v in zip(store.words[:count], store.visits[:count])}


def recounted(stores: list[ModelStore]) -> dict[int, int]:
    """For each model in how many stores it has visits."""
    chains: dict[int, int] = {}
    for store in stores:
        for mask, visits in visits_of(store).items():
            chains[mask] = chains.get(mask, 0) + (visits > 0)
    return chains


@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize("warmup", [0, 800])
@pytest.mark.parametrize("terms", [6, 70])
def test_chains_of_each_model_are_those_that_sampled_it(
    stores: list[list[ModelStore]], chains: int, warmup: int, terms: int
) -> None:
    problem = twin.one_column_each(711, terms, rows=90, signal=0.2)
    result = mjmcmc(problem, chains=chains, budget=Budget(steps=400, warmup=warmup), seed=3)
    table = result.models
    expected = recounted(stores[0])
    assert table.chains.dtype == np.int64
    assert [expected[twin.mask_of(words)] for words in table.words] == table.chains.tolist()
    # What was met in warm-up or by the best-first search only was visited by nobody.
    assert ((table.chains > 0) == (table.visits > 0)).all()
    assert (table.chains <= np.minimum(table.visits, chains)).all()
    assert (table.visits == 0).any() or warmup == 0
    assert (chains == 1) == bool(np.isnan(result.unvisited))


def hand_made(**changes: Any) -> Result:
    """Four models and 100 steps of three chains."""
    table = ModelTable(
        words=np.arange(4, dtype=np.uint64)[:, None],
        log_posterior=-np.arange(4.0),
        visits=np.array([50, 30, 20, 0]),
        first_seen=np.arange(4),
        chains=np.array([2, 1, 3, 0]),
    )
    result = Result(
        algorithm="mjmcmc",
        exact=False,
        models=table,
        n_models=4,
        log_evidence=0.5,
        renormalised=np.array([0.5, 0.5]),
        size_distribution=np.array([0.25, 0.5, 0.25]),
        batch_means=np.full((3, 10, 2), 0.5),
        batch_length=10,
        steps=100,
    )
    return replace(result, **changes)


def test_the_share_of_steps_that_one_chain_has_for_itself() -> None:
    assert hand_made().unvisited == pytest.approx(0.3)
    assert hand_made(algorithm="rgmjmcmc").unvisited == pytest.approx(0.3)
    # Forgotten visits count as unvisited, but for those known to be shared.
    assert hand_made(steps=125, forgotten_visits=25).unvisited == pytest.approx(0.44)
    assert hand_made(steps=125, forgotten_visits=25, forgotten_shared=10).unvisited == pytest.approx(0.36)


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_means": np.full((1, 10, 2), 0.5)},
        {"batch_means": None},
        {"steps": 0},
        {"algorithm": "gmjmcmc"},
        {"algorithm": "enumerate", "exact": True, "steps": 0},
        {"models": ModelTable(np.zeros((1, 1), np.uint64), np.zeros(1), np.array([100]), np.zeros(1, np.int64))},
    ],
)
def test_nothing_to_estimate_it_from(changes: dict[str, Any]) -> None:
    assert np.isnan(hand_made(**changes).unvisited)


def test_tables_without_chains_have_zeros() -> None:
    table = enumerate_models(twin.one_column_each(713, 3)).models
    assert table.chains.tolist() == [0] * len(table)
    assert table.chains.dtype == np.int64


def test_what_the_memory_bound_forgot_counts_as_unvisited() -> None:
    problem = twin.one_column_each(714, 30, rows=40, signal=0.2)
    memory = 4 * FIRST_CAPACITY * bytes_per_model(1)
    result = mjmcmc(problem, chains=2, budget=Budget(steps=40_000, warmup=0, memory=memory), seed=1)
    assert result.forgotten_visits > 0
    alone = result.models.visits[result.models.chains == 1].sum()
    assert result.unvisited == pytest.approx((alone + result.forgotten_visits) / result.steps)


@pytest.fixture(scope="module")
def flat() -> tuple[Problem, np.ndarray]:
    """A problem with some hundreds of models in play, and the exact posterior by mask."""
    problem = twin.one_column_each(701, TERMS, rows=40, signal=0.2)
    exact = enumerate_models(problem)
    probability = np.zeros(2**TERMS)
    probability[exact.models.words[:, 0].astype(np.int64)] = np.exp(exact.models.log_posterior - exact.log_evidence)
    assert probability.sum() == pytest.approx(1.0)
    assert 1.0 / (probability**2).sum() > 200.0
    return problem, probability


def without_one(stores: list[ModelStore], probability: np.ndarray) -> tuple[float, float]:
    """True mass unvisited by all chains but one, averaged over which one is left out, and by all chains."""
    seen = np.zeros((len(stores), len(probability)), bool)
    for row, store in zip(seen, stores):
        row[[mask for mask, visits in visits_of(store).items() if visits]] = True
    others = [probability[~np.delete(seen, c, axis=0).any(axis=0)].sum() for c in range(len(stores))]
    return float(np.mean(others)), float(probability[~seen.any(axis=0)].sum())


def in_errors(difference: np.ndarray) -> float:
    return float(difference.mean() / (difference.std(ddof=1) / np.sqrt(len(difference))))


@pytest.mark.parametrize("chains", [2, 4])
def test_the_estimate_is_right_on_average(
    flat: tuple[Problem, np.ndarray], stores: list[list[ModelStore]], chains: int
) -> None:
    problem, probability = flat
    counts_pairs = mutated(Result.unvisited, "chains >= 2", "chains >= 3")
    estimate, pairs, evaluated, others, every = (np.empty(RUNS) for _ in range(5))
    for i in range(RUNS):
        stores.clear()
        result = mjmcmc(problem, chains=chains, budget=Budget(steps=300, warmup=500), seed=i)
        estimate[i], pairs[i] = result.unvisited, counts_pairs(result)
        others[i], every[i] = without_one(stores[0][-chains:], probability)
        held = [set(visits_of(store)) for store in stores[0]]
        loose = [sum(twin.mask_of(words) in models for models in held) for words in result.models.words]
        evaluated[i] = replace(result, models=replace(result.models, chains=np.array(loose))).unvisited
    # Each run is its own comparison: the truth is about the very chains that the estimate is from.
    assert abs(in_errors(estimate - others)) < ERRORS
    # It is cautious: all chains together leave less unvisited than all but one.
    assert in_errors(estimate - every) > ERRORS
    # Had models of two chains been counted as well, or models that a chain evaluated only, the test would notice.
    assert in_errors(pairs - others) > ERRORS
    assert in_errors(evaluated - others) < -ERRORS


def test_the_estimate_is_that_of_other_chains_too(flat: tuple[Problem, np.ndarray]) -> None:
    """Runs of all chains but one, with seeds of their own, leave the estimated mass unvisited."""
    problem, probability = flat
    estimate, truth = np.empty(RUNS // 2), np.empty(RUNS // 2)
    for i in range(RUNS // 2):
        budget = Budget(steps=300, warmup=500)
        estimate[i] = mjmcmc(problem, chains=4, budget=budget, seed=i).unvisited
        models = mjmcmc(problem, chains=3, budget=budget, seed=RUNS + i).models
        truth[i] = 1.0 - probability[models.words[models.chains > 0, 0].astype(np.int64)].sum()
    assert abs(in_errors(estimate - truth)) < ERRORS


def test_counted_samplers_are_the_invariant_ones() -> None:
    for algorithm, counted in (("mjmcmc", True), ("rgmjmcmc", True), ("gmjmcmc", False), ("enumerate", False)):
        assert hand_made(algorithm=algorithm).counted is counted
        assert not hand_made(algorithm=algorithm, steps=0).counted
    assert set(result_module.COUNTED) == {"mjmcmc", "rgmjmcmc"}
