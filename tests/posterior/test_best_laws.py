"""The best law of each complexity: which it is, and its error on rows left out."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import curve_fit

from modejump.core.errors import InputError
from modejump.features.laws.expression import Feature as LawFeature
from modejump.features.laws.language import Laws
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.language import Nonlinear
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.posterior import Posterior
from modejump.posterior.best_laws import law_errors, law_table
from modejump.posterior.storage import load_run, save_run
from modejump.problem.feature_problem import FeatureProblem, problem_over
from modejump.samplers.laws import Laws as FoundLaws
from modejump.samplers.laws import laws_from
from modejump.samplers.result import ModelTable, Result

TEXTS = ("a", "b", "a*b", "sin(a)", "a*sin(b)")


def rows(n: int = 40, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 3.0, (n, 2))
    return x, 1.0 + 2.0 * x[:, 0] * x[:, 1] + 0.3 * rng.normal(size=n)


def searched(x: np.ndarray, y: np.ndarray, **more: object) -> FeatureProblem:
    return problem_over(x, y, Nonlinear(("a", "b"), (transforms["sin"],), Space()), **more)  # type: ignore[arg-type]


def posterior_of(problem: FeatureProblem, most: int = 2) -> Posterior:
    """The posterior over all models of up to so many of a few features, as a search that met them all leaves it."""
    features = [Feature(text) for text in TEXTS]
    models = [set(some) for k in range(1, most + 1) for some in itertools.combinations(features, k)]
    columns = np.column_stack([problem.language.column(f, problem.table, {}) for f in features])
    among = Posterior(problem.selection(features, columns, problem.prior_among(features)), _nothing())
    values = {}
    for model in models:
        prior = float(sum(problem.log_weights(sorted(model))))
        values[frozenset(model)] = prior + among.marginal_of([f.text for f in model])
    laws, table = laws_from(problem, values, {})
    return Posterior(problem, result_of(table, laws))


def result_of(table: ModelTable, laws: FoundLaws) -> Result:
    """What a search that met these models leaves."""
    share = np.exp(table.log_posterior - table.log_posterior[0])
    return Result(
        algorithm="gmjmcmc", exact=False, models=table, n_models=len(table), steps=1, laws=laws,
        log_evidence=float(table.log_posterior[0] + np.log(share.sum())),
        renormalised=share @ table.membership(len(laws.features)) / share.sum(),
        size_distribution=np.array([0.0, 1.0]), search_best=np.full(4, table.log_posterior[0]),
    )  # fmt: skip


def _nothing() -> Result:
    return Result("gmjmcmc", False, None, 0, 0.0, np.zeros(0), np.zeros(1))  # type: ignore[arg-type]


def left_out(design: np.ndarray, y: np.ndarray) -> float:
    """Root mean square error of rows left out, by fits without them."""
    errors = []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        coef = np.linalg.lstsq(design[rest], y[rest], rcond=None)[0]
        errors.append(y[i] - design[i] @ coef)
    return float(np.sqrt(np.mean(np.square(errors))))


def test_the_table_has_the_best_model_of_each_complexity() -> None:
    problem = searched(*rows())
    posterior = posterior_of(problem)
    table = law_table(posterior)
    assert list(table.columns) == ["complexity", "law", "log_posterior", "probability", "error", "as_good"]
    assert table["complexity"].is_monotonic_increasing and table["complexity"].is_unique
    # The intercept alone, which no search met, and the best law.
    assert table["law"].iloc[0] == "1" and table["log_posterior"].iloc[0] == 0.0
    assert table["law"][table["complexity"] == 2].item() == "a*b"
    models = posterior.models(None)
    complexity = [sum(Feature(text).complexity for text in features) for features in models["features"]]
    best = models.groupby(np.array(complexity))["log_posterior"].max()
    held = table.set_index("complexity")["log_posterior"]
    assert all(held[c] >= best[c] - 1e-9 for c in best.index)
    assert (table["probability"] <= 1.0).all() and table["probability"].max() > 0.5


def test_errors_are_those_of_rows_left_out() -> None:
    x, y = rows()
    posterior = posterior_of(searched(x, y))
    table = law_table(posterior).set_index("law")
    ones = np.ones(len(y))
    columns = {"a*b": x[:, 0] * x[:, 1], "a": x[:, 0], "b": x[:, 1]}
    assert table["error"]["1"] == pytest.approx(left_out(ones[:, None], y), rel=1e-9)
    assert table["error"]["a*b"] == pytest.approx(left_out(np.column_stack([ones, columns["a*b"]]), y), rel=1e-9)
    names = posterior.problem.names
    both = (names.index("a"), names.index("b"))
    error = law_errors(posterior, [both])[0][0]
    assert error == pytest.approx(left_out(np.column_stack([ones, columns["a"], columns["b"]]), y), rel=1e-9)


def test_a_row_of_weight_two_is_two_rows() -> None:
    x, y = rows(24)
    weights = np.where(np.arange(24) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(24), weights.astype(int))
    weighted = law_table(posterior_of(searched(x, y, weights=weights)))
    repeated = law_table(posterior_of(searched(x[twice], y[twice])))
    pd.testing.assert_frame_equal(weighted, repeated, rtol=1e-7)


def test_constants_inside_a_law_count_as_fitted() -> None:
    rng = np.random.default_rng(5)
    t = rng.uniform(0.0, 3.0, 25)
    y = 1.0 + 4.0 * np.exp(-1.3 * t) + 0.1 * rng.normal(size=25)
    language = Laws(("t",), (transforms["exp"],), Space(rules="laws"))
    problem = problem_over(t[:, None], y, language)
    law = LawFeature("exp(c0*t)")

    def fit(rest: np.ndarray) -> np.ndarray:
        found, _ = curve_fit(lambda t, a, b, c: a + b * np.exp(c * t), t[rest], y[rest], p0=(1.0, 4.0, -1.3))
        return np.asarray(found)

    constants = {law: fit(np.ones(25, bool))[2:]}
    laws, table = laws_from(problem, {frozenset({law}): 1.0}, constants)
    posterior = Posterior(problem, result_of(table, laws))
    errors = []
    for i in range(25):
        a, b, c = fit(np.arange(25) != i)
        errors.append(y[i] - a - b * np.exp(c * t[i]))
    exact = float(np.sqrt(np.mean(np.square(errors))))
    # Linear in the constant, which a row more or less hardly moves; with the constant held it would be too small.
    assert law_errors(posterior, [(0,)])[0][0] == pytest.approx(exact, rel=0.01)
    design = np.column_stack([np.ones(25), np.exp(constants[law][0] * t)])
    assert left_out(design, y) < 0.98 * exact


def test_laws_as_good_as_the_best_are_marked() -> None:
    table = law_table(posterior_of(searched(*rows(200)))).set_index("law")
    assert table["as_good"]["a*b"] and not table["as_good"]["1"]
    assert table["as_good"][table["error"].idxmin()]


@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_other_families_have_errors_of_the_response(family: str) -> None:
    x, y = rows(150)
    rng = np.random.default_rng(8)
    mean = np.exp(0.2 * x[:, 0] * x[:, 1])
    count = rng.poisson(mean).astype(float)
    response = count if family == "poisson" else (count > 2).astype(float)
    posterior = posterior_of(searched(x, response, family=family))
    table = law_table(posterior).set_index("law")
    assert table["error"]["1"] == pytest.approx(left_out(np.ones((150, 1)), response), rel=0.01)
    assert table["error"]["a*b"] < table["error"]["1"]


def test_a_saved_posterior_has_the_same_table(tmp_path) -> None:
    for family in ("gaussian", "poisson"):
        x, y = rows(60)
        posterior = posterior_of(searched(x, np.round(y), family=family))
        save_run(posterior, tmp_path / family)
        loaded, _ = load_run(tmp_path / family)
        mine, theirs = law_table(posterior), law_table(loaded)
        pd.testing.assert_frame_equal(mine[mine["law"].isin(theirs["law"])].reset_index(drop=True), theirs)
        assert theirs["error"].notna().all()


def test_selection_has_no_table_of_laws() -> None:
    posterior = posterior_of(searched(*rows()))
    plain = Posterior(posterior.problem, replace(posterior.result, laws=None))
    with pytest.raises(InputError, match="needs a search among features"):
        law_table(plain)
