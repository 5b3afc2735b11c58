"""Fits of long tables, whose rows threads share."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from running import enumerate_models, mjmcmc

from modejump.likelihoods.columns import fit_columns
from modejump.likelihoods.glm import parts as threads
from modejump.likelihoods.glm.newton import has_estimate, new_glm_work
from modejump.likelihoods.glm.parts import PART, fit_columns_by_parts, is_long
from modejump.problem.problem import Problem
from modejump.samplers.budget import Budget
from modejump.samplers.chains import mjmcmc_chain
from modejump.samplers.settings import Sampler
from modejump.samplers.warmup.adaptation import first_moves
from modejump.samplers.warmup.best_first import STEPS_PER_FIT, BestFirstSearch


def build(rows: int, terms: int, family: str = "binomial", prior: str = "bic") -> Problem:
    rng = np.random.default_rng(31)
    x = rng.standard_normal((rows, terms))
    eta = x[:, :3] @ np.array([0.06, 0.03, 0.015])
    if family == "binomial":
        y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    elif family == "poisson":
        y = rng.poisson(np.exp(eta)).astype(float)
    else:
        y = rng.gamma(2.0, np.exp(eta) / 2.0) + 1e-6
    return Problem.build(x, y, family=family, coef_prior=prior)


@pytest.mark.parametrize(("family", "prior"), [("binomial", "g"), ("poisson", "bic"), ("gamma", "hyper-g")])
def test_parts_add_up_to_the_fit_of_all_rows_whatever_the_threads(family, prior):
    data = build(PART + 777, 4, family, prior).data
    for cols in (np.arange(4), np.array([0, 2]), np.array([1, 2, 3])):
        one, two, whole = (new_glm_work(data.glm, 4) for _ in range(3))
        arguments = (cols, data.coef_prior, data.n)
        by_one = fit_columns_by_parts(data.glm, one, *arguments, threads=1)
        by_two = fit_columns_by_parts(data.glm, two, *arguments, threads=2)
        assert by_one == by_two
        np.testing.assert_array_equal(one.beta, two.beta)
        expected = fit_columns(data.glm, whole, *arguments)
        np.testing.assert_allclose(by_one, expected, rtol=0, atol=1e-7)
        np.testing.assert_allclose(one.beta, whole.beta, rtol=1e-6, atol=1e-9)
        assert has_estimate(one)


def test_parts_prove_separation():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2 * PART, 2))
    problem = Problem.build(x, (x[:, 0] > 0).astype(float), family="binomial", coef_prior="bic")
    data = problem.data
    work, whole = new_glm_work(data.glm, 2), new_glm_work(data.glm, 2)
    arguments = (np.array([0]), data.coef_prior, data.n)
    by_parts = fit_columns_by_parts(data.glm, work, *arguments, threads=2)
    assert not has_estimate(work)
    # What stands for the estimate is the same as by the fit of all rows.
    assert by_parts == pytest.approx(fit_columns(data.glm, whole, *arguments), abs=1e-7)
    assert not has_estimate(whole)
    np.testing.assert_allclose(work.beta, whole.beta, rtol=1e-6, atol=1e-9)
    # Nearly all that the base model's fit leaves is gained.
    assert 0.999 < by_parts / -data.glm.null < 1.0
    noise = fit_columns_by_parts(data.glm, work, np.array([1]), data.coef_prior, data.n, threads=2)
    assert has_estimate(work)
    assert noise < 10.0


@pytest.fixture
def long_table():
    """A table whose larger models are asked for."""
    rows = threads.LONG // 40
    problem = build(rows, 45)
    assert is_long(problem.data.glm)
    return problem


def test_a_chain_is_the_same_on_any_number_of_threads(long_table, monkeypatch):
    asked = []

    def spy(glm, work, cols, prior, n, threads):
        asked.append(threads)
        return fit_columns_by_parts(glm, work, cols, prior, n, threads)

    monkeypatch.setattr(mjmcmc_chain, "fit_columns_by_parts", spy)
    start = np.zeros(45, np.uint8)
    start[:41] = 1
    results = []
    for count in (1, 2):
        chain = mjmcmc_chain.MJMCMCChain(long_table, np.random.SeedSequence(8), 2**24, 10, threads=count)
        chain.start = start
        moves = first_moves(Sampler(kernels={"flip": 0.9, "jump-greedy": 0.1}, search=3), long_table)
        chain.run_batches(moves, 2)
        store = chain.chain.store
        results.append((chain.means, store.log_posterior[: store.scalars["count"]].copy(), asked.copy()))
        asked.clear()
    assert results[0][2] and set(results[0][2]) == {1} and set(results[1][2]) == {2}
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
    # What was answered is what a fit without questions finds.
    data, store = long_table.data, chain.chain.store
    e = int(np.argmax([bin(int(w)).count("1") for w in store.words[: store.scalars["count"], 0]]))
    member = np.array([(int(store.words[e, 0]) >> t) & 1 for t in range(45)], bool)
    cols = np.flatnonzero(member)
    expected = fit_columns(data.glm, new_glm_work(data.glm, 45), cols, data.coef_prior, data.n)
    expected += long_table.data.prior.log_size[len(cols)]
    np.testing.assert_allclose(store.log_posterior[e], expected, rtol=0, atol=1e-6)


def test_a_run_spares_threads_for_the_rows(monkeypatch):
    given = []

    class Spy(mjmcmc_chain.MJMCMCChain):
        def __init__(self, *arguments):
            # The chain that compiles asks for no threads.
            given.extend(arguments[4:])
            super().__init__(*arguments)

    monkeypatch.setattr(sys.modules["modejump.samplers.mjmcmc"], "MJMCMCChain", Spy)
    problem = build(400, 3)
    results = [mjmcmc(problem, chains=2, workers=w, budget=Budget(steps=2000), seed=3) for w in (1, 5)]
    assert given == [1, 1, 2, 2]
    np.testing.assert_array_equal(results[0].batch_means, results[1].batch_means)
    np.testing.assert_array_equal(results[0].renormalised, results[1].renormalised)


def test_a_long_table_is_enumerated_in_small_tasks():
    problem = build(threads.LONG // 6 + 1, 6)
    done = []
    result = enumerate_models(problem, workers=2, progress=lambda at, total, note: done.append(total))
    # Where it has to be compiled first, that is told too.
    assert result.n_models == 64 and 4 in done
    store = BestFirstSearch(problem, Budget(steps=64 * STEPS_PER_FIT), 1, threads=2).finish()
    found = np.sort(store.log_posterior[: store.scalars["count"]])[::-1]
    np.testing.assert_allclose(found, result.models.log_posterior[: len(found)], rtol=0, atol=1e-6)
