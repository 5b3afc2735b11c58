"""Statistics of single columns: bits and numbers agree, and they are those of explicit regressions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from running import enumerate_models
from scipy.stats import spearmanr

from modejump.data.bits import BitColumns
from modejump.likelihoods import resolve_family
from modejump.posterior import Posterior
from modejump.priors.coefficients import GPrior, HyperG
from modejump.problem.problem import Problem
from modejump.problem.score_statistics import marginal_statistics, subgroup_statistics

N, M = 150, 30
RNG = np.random.default_rng(3)
X = (RNG.random((N, M)) < RNG.uniform(0.2, 0.8, M)).astype(float)
FIXED = np.column_stack([RNG.normal(size=N), RNG.exponential(size=N)])
SIGNAL = 0.8 * X[:, 0] - 0.5 * X[:, 4] + 0.3 * FIXED[:, 0]
WEIGHTS = RNG.integers(0, 4, N).astype(float)
RESPONSES = {
    "gaussian": SIGNAL + RNG.normal(size=N),
    "binomial": (RNG.random(N) < 1 / (1 + np.exp(-SIGNAL))).astype(float),
    "poisson": RNG.poisson(np.exp(SIGNAL)).astype(float),
    "gamma": RNG.gamma(2.0, np.exp(SIGNAL)),
}


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["no weights", "weights"])
@pytest.mark.parametrize("fixed", [None, FIXED], ids=["intercept", "columns always in"])
@pytest.mark.parametrize("family", RESPONSES)
def test_bits_and_numbers_agree(family: str, fixed: Any, weights: Any) -> None:
    offset = None if family == "gaussian" else 0.1 * FIXED[:, 1]
    plain = marginal_statistics(X.T, RESPONSES[family], resolve_family(family), fixed, weights, offset)
    bits = marginal_statistics(BitColumns.pack(X), RESPONSES[family], resolve_family(family), fixed, weights, offset)
    np.testing.assert_allclose(bits, plain, rtol=1e-9, atol=1e-9)
    assert plain.shape == (M,) and (plain >= 0).all() and plain.max() > 5


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["no weights", "weights"])
@pytest.mark.parametrize("fixed", [None, FIXED], ids=["intercept", "columns always in"])
def test_a_gaussian_statistic_is_the_share_that_the_column_explains(fixed: Any, weights: Any) -> None:
    w = np.ones(N) if weights is None else weights
    base = np.column_stack([np.ones(N)] + ([] if fixed is None else [fixed]))
    root, y = np.sqrt(w), RESPONSES["gaussian"]

    def left(design: np.ndarray) -> float:
        design, response = design * root[:, None], y * root
        return float(np.sum((response - design @ np.linalg.lstsq(design, response, rcond=None)[0]) ** 2))

    found = marginal_statistics(X.T, y, resolve_family("gaussian"), fixed, weights)
    before, degrees = left(base), w.sum() - base.shape[1]
    expected = [degrees * (1.0 - left(np.column_stack([base, x])) / before) for x in X.T]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def bayes_factors(family: str, **options: Any) -> np.ndarray:
    """Log marginal Bayes factor of each of the first ten columns, beside two that are always in."""
    names = [f"x{j}" for j in range(10)]
    terms = {name: [j] for j, name in enumerate([*names, "u", "v"])}
    problem = Problem.build(
        np.column_stack([X[:, :10], FIXED]), RESPONSES[family], terms=terms, always_in=("u", "v"), weights=WEIGHTS,
        family=resolve_family(family), **options,
    )  # fmt: skip
    posterior = Posterior(problem, enumerate_models(problem, chains=1))
    return np.array([posterior.log_marginal_likelihood([name]) for name in names])


@pytest.mark.parametrize("prior", [GPrior(), HyperG()], ids=["g", "hyper-g"])
def test_a_gaussian_marginal_bayes_factor_rises_with_the_statistic(prior: Any) -> None:
    factors = bayes_factors("gaussian", coef_prior=prior)
    found = marginal_statistics(X[:, :10].T, RESPONSES["gaussian"], resolve_family("gaussian"), FIXED, WEIGHTS)
    assert (np.diff(factors[np.argsort(found)]) > 0).all()


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_other_families_are_ordered_about_as_by_bayes_factors(family: str) -> None:
    factors = bayes_factors(family)
    found = marginal_statistics(X[:, :10].T, RESPONSES[family], resolve_family(family), FIXED, WEIGHTS)
    assert spearmanr(factors, found).statistic > 0.9 and factors.argmax() == found.argmax()


def test_weights_count_as_repeated_rows() -> None:
    w = WEIGHTS.astype(int)
    for family, y in RESPONSES.items():
        weighted = marginal_statistics(X.T, y, resolve_family(family), FIXED, WEIGHTS)
        rows = np.repeat(np.arange(N), w)
        repeated = marginal_statistics(X[rows].T, y[rows], resolve_family(family), FIXED[rows])
        np.testing.assert_allclose(weighted, repeated, rtol=1e-6)


def test_columns_that_the_base_explains_have_no_statistic() -> None:
    half = (np.arange(N) % 2).astype(float)
    columns = np.column_stack([np.ones(N), half, 1 - half, np.zeros(N), X[:, 0]])
    for table in (columns.T, BitColumns.pack(columns)):
        found = marginal_statistics(table, RESPONSES["gaussian"], resolve_family("gaussian"), half[:, None])
        assert (found[:4] == 0).all() and found[4] > 5


def test_subgroup_statistics_are_those_of_regressions_in_subgroups() -> None:
    """The largest squared t-like score of each column among the rows where a leader is 0, and where it is 1."""
    rng = np.random.default_rng(9)
    x = (rng.random((300, 6)) < 0.4).astype(float)
    y = 1.5 * x[:, 0] * x[:, 1] - 1.0 * x[:, 0] * (1 - x[:, 2]) + rng.normal(size=300)
    columns = BitColumns.of_ones(x == 1.0)
    family = resolve_family("gaussian", None)
    found = subgroup_statistics(columns, np.array([0, 3]), y, family)
    residual = y - y.mean()
    spread = residual @ residual / 299
    expected = np.zeros(6)
    for leader, value, j in itertools.product((0, 3), (0, 1), range(6)):
        rows = x[:, leader] == value
        if j != leader:
            z = x[rows, j] - x[rows, j].mean()
            expected[j] = max(expected[j], (z @ residual[rows]) ** 2 / (z @ z * spread))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    # Column 2 matters only where column 0 is 1.
    assert found[2] > 2.0 * marginal_statistics(columns, y, family)[2]
