"""The logistic regression with all 2^20 models enumerated: a slice of them again, and what sampling finds of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import read_large, split
from running import enumerate_models, mjmcmc

from modejump.kernels.traverse import new_tally
from modejump.kernels.traverse_glm import traverse_glm
from modejump.likelihoods.glm.newton import new_glm_work
from modejump.priors.models import BernoulliPrior
from modejump.problem.problem import Problem
from modejump.samplers.budget import Budget
from modejump.samplers.warmup.best_first import STEPS_PER_FIT, BestFirstSearch

EXACT = json.loads((Path(__file__).parent / "logistic20_exact.json").read_text(encoding="utf-8"))
COUNTED = 10_000
# Fits end at a decrement of 1e-9, so that values may be half of that apart; sums of a million of them a little more.
CLOSE = 1e-8


@pytest.fixture(scope="module")
def problem() -> Problem:
    table = split(read_large("logistic20"))
    prior = BernoulliPrior(EXACT["inclusion_prior"])
    return Problem.build(table.X, table.y, family="binomial", coef_prior="bic", model_prior=prior)


def test_a_slice_of_4096_models_has_the_mass_that_it_had_among_all(problem: Problem) -> None:
    part = EXACT["slice"]
    tally = new_tally(20, 4096)
    traverse_glm(problem.data, new_glm_work(problem.data.glm, 20), part["pattern"], part["first_terms"], 20, tally)
    assert tally.scalars["models"] == 4096
    log_mass = tally.scalars["reference"] + np.log(tally.scalars["mass"])
    np.testing.assert_allclose(np.exp(log_mass - EXACT["log_evidence"]), part["mass"], rtol=CLOSE)
    value = dict(zip(tally.top_model[:4096].tolist(), tally.top_value[:4096].tolist(), strict=True))
    known = [row for row in EXACT["best"] if row["model"] in value]
    assert len(known) >= 5
    for row in known:
        np.testing.assert_allclose(value[row["model"]], row["log_posterior"], rtol=0, atol=CLOSE)


def test_the_first_models_of_a_run_hold_the_mass(problem: Problem) -> None:
    # A run of so many steps begins with a search that evaluates as many models as are counted, whatever the seed.
    store = BestFirstSearch(problem, Budget(steps=STEPS_PER_FIT * COUNTED), 1).finish()
    assert store.scalars["count"] == COUNTED
    mass = np.exp(store.log_posterior[:COUNTED] - EXACT["log_evidence"]).sum()
    assert 0.9 <= mass <= 1.0 + CLOSE


def test_frequencies_agree_with_the_enumeration_within_their_error(problem: Problem) -> None:
    result = mjmcmc(problem, chains=4, budget=Budget(steps=25_000), seed=11)
    means = result.batch_means.mean(axis=1)
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    # Student's t with three degrees of freedom exceeds 22.2 once in five thousand, for the terms once in two hundred;
    # terms that no chain had, or all had, say nothing about their error.
    moved = error > 0
    assert moved.sum() >= 4
    far = np.abs(means.mean(axis=0) - np.array(EXACT["inclusion"]))
    assert (far[moved] < 22.2 * error[moved]).all()
    np.testing.assert_allclose(result.renormalised, EXACT["inclusion"], rtol=0, atol=1e-3)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("warmup", [None, 0])
def test_ten_thousand_models_hold_the_mass_with_a_search_first_or_none(problem: Problem, seed: int, warmup) -> None:
    steps = COUNTED
    while True:
        result = mjmcmc(problem, chains=1, budget=Budget(steps=steps, warmup=warmup), seed=seed)
        if result.n_models >= COUNTED:
            break
        steps *= 2
    first = result.models.first_seen < COUNTED
    assert np.exp(result.models.log_posterior[first] - EXACT["log_evidence"]).sum() >= 0.9


@pytest.mark.full
def test_all_models_again(problem: Problem) -> None:
    result = enumerate_models(problem, workers=2)
    np.testing.assert_allclose(result.renormalised, EXACT["inclusion"], rtol=0, atol=CLOSE)
    np.testing.assert_allclose(result.size_distribution, EXACT["sizes"], rtol=0, atol=CLOSE)
    np.testing.assert_allclose(result.log_evidence, EXACT["log_evidence"], rtol=0, atol=CLOSE)
