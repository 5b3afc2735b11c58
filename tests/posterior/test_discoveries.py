"""Bayesian false discovery rates: the set is the largest, and the rate holds for data from the prior."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from brute import brute_force

from modejump.core.errors import InputError
from modejump.posterior import Posterior
from modejump.posterior.discoveries import discoveries
from modejump.priors.coefficients import GPrior
from modejump.priors.models import BernoulliPrior
from modejump.problem.problem import Problem

# Statistical assertions fail by chance with probability below 1e-4 (two-sided, 3.9 standard errors).
SIGMAS = 3.9
G, SHARE, ROWS, TERMS = 12.0, 0.35, 30, 7


class Simulated(NamedTuple):
    """Data sets drawn from the prior: the terms of their models, and exact inclusion probabilities."""

    true: np.ndarray
    probability: np.ndarray
    x: np.ndarray
    y: np.ndarray


@pytest.fixture(scope="module")
def simulated() -> Simulated:
    """Model, coefficients and noise from the prior, then all 128 models by the closed form of the g-prior.

    The prior of intercept and variance is improper, but nothing depends on the values that these have.
    """
    rng, runs = np.random.default_rng(71), 4000
    x = rng.normal(size=(ROWS, TERMS)) + 0.8 * rng.normal(size=(ROWS, 1))
    centred = x - x.mean(axis=0)
    true = rng.random((runs, TERMS)) < SHARE
    y = 3.0 + 2.0 * rng.normal(size=(runs, ROWS))
    members = np.array(list(itertools.product([False, True], repeat=TERMS)))
    for model in members[1:]:
        chosen = (true == model).all(axis=1)
        # Coefficients N(0, g s^2 (Z'Z)^-1) make the mean N(0, g s^2 P), P the projection on the columns.
        basis = np.linalg.qr(centred[:, model])[0]
        y[chosen] += 2.0 * np.sqrt(G) * rng.normal(size=(chosen.sum(), model.sum())) @ basis.T
    rest = y - y.mean(axis=1, keepdims=True)
    total = (rest**2).sum(axis=1)
    log_posterior = np.empty((runs, len(members)))
    for i, model in enumerate(members):
        k = int(model.sum())
        r2 = ((rest @ np.linalg.qr(centred[:, model])[0]) ** 2).sum(axis=1) / total if k else np.zeros(runs)
        factor = 0.5 * (ROWS - 1 - k) * np.log1p(G) - 0.5 * (ROWS - 1) * np.log1p(G * (1 - r2))
        log_posterior[:, i] = factor + k * np.log(SHARE) + (TERMS - k) * np.log1p(-SHARE)
    weight = np.exp(log_posterior - log_posterior.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    return Simulated(true, weight @ members, x, y)


def false_share(true: np.ndarray, reported: np.ndarray) -> float:
    return float(np.mean(~true[reported])) if len(reported) else 0.0


def test_the_simulation_has_the_posterior_of_the_package(simulated: Simulated) -> None:
    for run in range(3):
        problem = Problem.build(
            simulated.x, simulated.y[run], coef_prior=GPrior(g=G), model_prior=BernoulliPrior(SHARE)
        )
        posterior = Posterior(problem, brute_force(problem))
        np.testing.assert_allclose(posterior.probability, simulated.probability[run], rtol=1e-9)
        table = posterior.discoveries(0.1)
        assert table.index.name == "feature" and list(table.columns) == ["probability", "fdr"]
        assert table["probability"].equals(posterior.inclusion["probability"].head(len(table)))


def exceeds(shares: np.ndarray, fdr: float) -> bool:
    """Whether the mean share of false ones is above a rate by more than its Monte Carlo error."""
    return bool(np.mean(shares) > fdr + SIGMAS * np.std(shares) / np.sqrt(len(shares)))


@pytest.mark.parametrize("fdr", [0.05, 0.1, 0.25])
def test_the_rate_holds_for_data_from_the_prior(simulated: Simulated, fdr: float) -> None:
    tables = [discoveries(pd.Series(probability), fdr) for probability in simulated.probability]
    shares = np.array([false_share(true, t.index.to_numpy()) for true, t in zip(simulated.true, tables)])
    rates = np.array([t["fdr"].iloc[-1] if len(t) else 0.0 for t in tables])
    # Given each data set the stated rate is the expected share of false ones; both vary over data sets.
    difference = shares - rates
    assert abs(difference.mean()) < SIGMAS * difference.std() / np.sqrt(len(difference))
    assert not exceeds(shares, fdr) and max(rates) <= fdr
    # Something is reported, and some of it is false: a rule that reports nothing would hold every rate.
    assert np.mean([len(t) > 0 for t in tables]) > 0.3 and np.count_nonzero(shares) > 20


def test_a_threshold_on_the_probabilities_does_not_hold_the_rate(simulated: Simulated) -> None:
    reported = [np.flatnonzero(probability >= 0.5) for probability in simulated.probability]
    assert exceeds(np.array([false_share(true, some) for true, some in zip(simulated.true, reported)]), 0.1)


@pytest.mark.parametrize("fdr", [0.0, 0.05, 0.1, 0.3, 0.9])
def test_no_larger_set_has_a_rate_as_low(fdr: float) -> None:
    rng = np.random.default_rng(72)
    for _ in range(40):
        probability = pd.Series(np.round(rng.beta(0.5, 0.5, 8), 2), index=list("abcdefgh"))
        found = discoveries(probability, fdr)
        fitting = [
            size for size in range(1, 9) for some in itertools.combinations(probability, size)
            if np.mean(1.0 - np.array(some)) <= fdr + 1e-12
        ]  # fmt: skip
        assert len(found) == max(fitting, default=0)
        assert found["probability"].is_monotonic_decreasing
        for i, (name, row) in enumerate(found.iterrows()):
            assert row["probability"] == probability[name]
            assert row["fdr"] == pytest.approx(1.0 - found["probability"].iloc[: i + 1].mean(), abs=1e-12)


def test_rounding_loses_no_feature_and_ties_keep_their_order() -> None:
    assert discoveries(pd.Series([0.9] * 3, index=list("xyz")), 0.1).index.tolist() == ["x", "y", "z"]
    assert len(discoveries(pd.Series([], dtype=float))) == 0


@pytest.mark.parametrize("fdr", [-0.1, 1.0, float("nan"), "0.1", True, None])
def test_a_rate_that_is_none_is_refused(fdr: object) -> None:
    with pytest.raises(InputError, match="fdr must be a number from 0 up to 1"):
        discoveries(pd.Series([0.5]), fdr)  # type: ignore[arg-type]
