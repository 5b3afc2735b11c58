"""Constants and coefficients of a model of several laws, refined together."""

from __future__ import annotations

import numpy as np
import pytest
from support.law_constants import LawTable, laws_over

from modejump.core.errors import InputError
from modejump.features.laws.expression import Feature
from modejump.posterior.law_fit import refine
from modejump.problem.feature_problem import problem_over

TEXTS = ("a*exp(c0*t)", "b/(t + c0)")
TRUTH = np.array([-0.8, 1.5])


def _problem(rng, noise, n=300, **more):
    columns = {"a": rng.uniform(0.5, 2, n), "b": rng.uniform(0.5, 2, n), "t": rng.uniform(0, 4, n)}
    y = 1.0 + 2.0 * columns["a"] * np.exp(-0.8 * columns["t"]) + 3.0 * columns["b"] / (columns["t"] + 1.5)
    y = y + noise * rng.normal(size=n)
    problem = problem_over(np.column_stack(list(columns.values())), y, laws_over(list(columns)), **more)
    table = LawTable(problem.language, columns, y)
    features = [Feature.parse(text) for text in TEXTS]
    return problem, features, {f: table.constants(f) for f in features}


def test_laws_that_mislead_each_other_alone_are_right_together():
    problem, features, alone = _problem(np.random.default_rng(1), 0.0)
    assert np.abs(np.concatenate(list(alone.values())) - TRUTH).max() > 0.1
    found = refine(problem, features, alone)
    np.testing.assert_allclose(found.constants, TRUTH, rtol=1e-6)
    np.testing.assert_allclose(found.coef, [1.0, 2.0, 3.0], rtol=1e-6)


def test_intervals_cover():
    rng, inside = np.random.default_rng(2), []
    for _ in range(40):
        problem, features, alone = _problem(rng, 0.1)
        found = refine(problem, features, alone)
        error = np.sqrt(np.diag(found.covariance))[3:]
        inside += (np.abs(found.constants - TRUTH) < 1.96 * error).tolist()
    # Both constants of one fit count as one, to be on the safe side.
    assert abs(np.mean(inside) - 0.95) < 4.0 * np.sqrt(0.95 * 0.05 / 40)


def test_what_is_not_refined_is_refused():
    problem, features, alone = _problem(np.random.default_rng(3), 0.1, intercept=False)
    with pytest.raises(InputError, match="intercept"):
        refine(problem, features, alone)
