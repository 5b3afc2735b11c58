"""Columns that are in every model of features: the same posterior as selection among all features beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from feature_experiments import small_data
from interactions import Interactions, Limits
from running import enumerate_models, rgmjmcmc

from modejump.core.errors import InputError
from modejump.posterior import Posterior
from modejump.posterior.prediction.distribution import new_rows
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.models import WeightedPrior
from modejump.problem.feature_problem import FeatureProblem, problem_over
from modejump.problem.fingerprint import fingerprints
from modejump.problem.problem import Problem
from modejump.samplers.budget import Budget

X, Y = small_data(43, 3, 60)
RNG = np.random.default_rng(44)
AGE, SITE = X[:, 0] + RNG.normal(size=60), (RNG.integers(0, 3, 60)[:, None] == [1, 2]).astype(float)
WEIGHTS = RNG.integers(0, 3, 60).astype(float)
FIXED = {"age": AGE, "site": SITE}
CASES: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
    "gaussian, weights": (Y + 0.7 * AGE, {"weights": WEIGHTS}),
    "binomial": ((Y + 0.7 * AGE + RNG.normal(size=60) > np.median(Y)).astype(float), {"family": "binomial"}),
}


def problem_of(y: np.ndarray, **more: Any) -> FeatureProblem:
    language = Interactions("abc", Limits(complexity=2, size=2, population=6))
    return problem_over(X, y, language, model_prior=ComplexityPrior(0.3), **{"always_in": FIXED} | more)


@pytest.mark.parametrize("case", ["gaussian, weights", pytest.param("binomial", marks=pytest.mark.full)])
def test_samples_as_enumeration_beside_the_same_columns(case: str) -> None:
    y, more = CASES[case]
    problem = problem_of(y, **more)
    features = list(problem.language.enumerate())
    columns = np.column_stack([problem.language.column(f, dict(zip("abc", X.T, strict=True)), {}) for f in features])
    terms = {f.text: [j] for j, f in enumerate(features)} | {"age": [6], "site": [7, 8]}
    prior = WeightedPrior(tuple(np.log(0.3) * f.complexity for f in features), 2)
    chosen = Problem.build(
        np.column_stack([columns, AGE, SITE]), y, terms=terms, always_in=("age", "site"), model_prior=prior, **more
    )
    exact = Posterior(chosen, enumerate_models(chosen, chains=1))
    sampled = Posterior(problem, rgmjmcmc(problem, chains=4, budget=Budget(warmup=2_000, steps=40_000), seed=3))
    assert sampled.problem.always_in == ("age", "site") and sampled.diagnostics is not None
    truth = dict(zip(chosen.names, exact.probability, strict=True))
    for name, found, error in zip(sampled.problem.names, sampled.probability, sampled.diagnostics.mcse, strict=True):
        assert abs(found - truth[name]) < 4.5 * error + 1e-3
    for model in (["a"], ["b", "a:c"]):
        assert sampled.log_marginal_likelihood(model) == pytest.approx(exact.log_marginal_likelihood(model), abs=1e-6)
    best = [sampled.problem.names.index(name) for name in terms if name in sampled.problem.names]
    own = np.zeros((60, len(sampled.problem.names)))
    own[:, best] = columns[:, [j for j, f in enumerate(features) if f.text in sampled.problem.names]]
    fixed = np.column_stack([AGE, SITE])
    mean = sampled.predictor("bma").mean(new_rows(sampled.problem, own, fixed))
    expected = exact.predictor("bma").mean(new_rows(chosen, columns, fixed))
    assert np.abs(mean - expected).max() < 0.05 * np.ptp(expected)


def test_are_part_of_the_identity() -> None:
    y = CASES["gaussian, weights"][0]
    one, other, none = problem_of(y), problem_of(y, always_in={"age": -AGE}), problem_of(y, always_in=None)
    prints = [fingerprints(problem) for problem in (one, other, none)]
    assert len({p["space"] for p in prints}) == len({p["data"] for p in prints}) == 3


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ({"a": AGE}, "'a', of which features are made"),
        ({"age": AGE[1:]}, "shape"),
        ({"age": np.where(np.arange(60) == 7, np.nan, AGE)}, "row 7"),
        ({"one": np.ones(60)}, "linearly dependent"),
    ],
)
def test_refuses_what_cannot_be_always_in(fixed: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(InputError, match=words):
        problem_of(Y, always_in=fixed)
