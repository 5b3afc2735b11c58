"""Laws of the user's own: constants with intervals that cover, marginal likelihoods, and clear refusals."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from modejump import BGLMRegressor, BGNLMRegressor, Budget, InputError, ModejumpWarning, Space, fit_law
from modejump.features.laws.simple import simple_value

ROWS = 120


def frame(seed: int = 3, rows: int = ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({name: rng.uniform(0.5, 5.0, rows) for name in "SVtx"})
    table["group"] = "a"  # no number, and in no law
    return table


def noise(size: float, seed: int = 4, rows: int = ROWS) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, size, rows)


X = frame()
LAWS = [
    ("V*S/(S + c)", 3.0 * X.V * X.S / (X.S + 2.0), {"c": 2.0}),
    ("exp(c0*t)*cos(c1*t)", 5.0 * np.exp(-0.3 * X.t) * np.cos(9.0 * X.t), {"c0": -0.3, "c1": 9.0}),
    ("exp(c0*t)*sin(c1*t + c2)", 5.0 * np.exp(-0.3 * X.t) * np.sin(20.0 * X.t + 1.0), {"c0": -0.3, "c1": 20.0}),
    ("x^c0*t^c1", 2.0 * X.x**1.5 / X.t**2, {"c0": 1.5, "c1": -2.0}),
    ("exp(-(x - c0)^2/(2*c1^2))", np.exp(-((X.x - 2.0) ** 2) / (2.0 * 0.7**2)), {"c0": 2.0, "c1": 0.7}),
    ("x^3/(exp(c*x/t) - 1)", X.x**3 / (np.exp(0.5 * X.x / X.t) - 1.0), {"c": 0.5}),
    ("log(1 + exp(c*x))*V + log(S)", np.log1p(np.exp(-0.5 * X.x)) * X.V + 2.0 * np.log(X.S), {"c": -0.5}),
    ("c0*x - c1*V^2 + 2*c2", 5.0 * X.x + X.V**2 - 7.0, {"c0": 5.0, "c1": -1.0, "c2": -3.5}),
]


@pytest.mark.parametrize(("law", "y", "truth"), LAWS, ids=[law for law, _, _ in LAWS])
def test_constants_are_recovered_without_noise(law: str, y: np.ndarray, truth: dict[str, float]) -> None:
    fit = fit_law(law, X, y)
    assert fit.r2 > 1.0 - 1e-12
    for name, value in truth.items():
        assert fit.constants.value[name] == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(fit.predict(X[:7]), y[:7], rtol=1e-6, atol=1e-8)


def test_text_and_simple_values() -> None:
    fit = fit_law("V*S/(c + S)", X, 3.0 * X.V * X.S / (X.S + 2.0) + noise(0.01))
    assert fit.constants.simple["c"] == "2"
    again = fit_law(fit.text, X, 3.0 * X.V * X.S / (X.S + 2.0) + noise(0.01))
    assert len(again.constants) == 0 and again.r2 == pytest.approx(fit.r2, abs=1e-5)
    assert fit.text in repr(fit) and "log marginal likelihood" in repr(fit)


@pytest.mark.parametrize(
    ("value", "width", "words"),
    [
        (1.98, 0.1, "2"), (0.3334, 2e-3, "1/3"), (-1.5001, 1e-3, "-3/2"), (math.pi, 1e-6, "pi"), (6.2838, 3e-3, "2*pi"),
        (1.7343, 1e-3, ""), (0.001, 0.1, ""), (1203.4, 1.0, ""), (2.2, 9.0, ""), (math.nan, 1.0, ""),
        (-math.pi / 2, 1e-5, "-pi/2"),
    ],
)  # fmt: skip
def test_simple_values(value: float, width: float, words: str) -> None:
    assert simple_value(value, value - width / 2, value + width / 2) == words


def test_simple_values_are_seldom_chance() -> None:
    # Of numbers that are not simple few are called so.
    values = np.random.default_rng(8).uniform(0.0, 5.0, 2000)
    named = sum(simple_value(v, v - 0.005, v + 0.005) != "" for v in values)
    assert named < 0.25 * len(values)


def test_intervals_cover() -> None:
    runs, hits, law = 80, {"c0": 0, "c1": 0, "coefficient": 0}, "exp(c0*t)*cos(c1*t)"
    simple = 0
    for seed in range(runs):
        table = frame(seed, 60)
        y = 5.0 * np.exp(-0.3 * table.t) * np.cos(2.0 * table.t) + noise(0.3, 1000 + seed, 60)
        fit = fit_law(law, table, y)
        for name, truth in (("c0", -0.3), ("c1", 2.0)):
            hits[name] += fit.constants.lower[name] <= truth <= fit.constants.upper[name]
        row = fit.coefficients.iloc[1]
        hits["coefficient"] += row.lower <= 5.0 <= row.upper
        simple += fit.constants.simple["c1"] == "2"
    # A true simple value is shown where it is less than the root of two standard errors off: 84 %.
    for name, count, expected in (*((name, hit, 0.95) for name, hit in hits.items()), ("simple", simple, 0.843)):
        error = math.sqrt(expected * (1.0 - expected) / runs)
        assert abs(count / runs - expected) < 4.0 * error, (name, count / runs)


def test_the_marginal_of_a_linear_law_is_that_of_the_estimators() -> None:
    numbers = X[["S", "V", "x"]]
    y = numbers.S * numbers.V + numbers.x + noise(0.5)
    columns = pd.DataFrame({"a": numbers.S * numbers.V, "x": numbers.x})
    weight = np.random.default_rng(1).integers(1, 4, ROWS)
    fit = fit_law("S*V + 3*x - 1", numbers, y, sample_weight=weight)
    given = BGLMRegressor(coef_prior=BGNLMRegressor().coef_prior).fit(columns, y, sample_weight=weight)
    assert fit.log_marginal_likelihood == pytest.approx(given.log_marginal_likelihood(["a", "x"]), rel=1e-9)


def test_each_constant_inside_costs_half_of_log_n() -> None:
    y = 3.0 * X.V * X.S / (X.S + 2.0) + noise(0.3)
    fit = fit_law("V*S/(S + c)", X, y)
    fixed = fit_law(f"V*S/(S + {fit.constants.value['c']:.17g})", X, y)
    assert fixed.log_marginal_likelihood - fit.log_marginal_likelihood == pytest.approx(0.5 * math.log(ROWS), abs=1e-6)
    outer = fit_law("c0*x + c1", X, y)
    assert outer.log_marginal_likelihood == fit_law("x", X, y).log_marginal_likelihood


@pytest.mark.parametrize("family", ["gaussian", "student(3)"])
def test_bayes_factor_against_a_search(family: str) -> None:
    numbers = X[["S", "V"]]
    y = 3.0 * numbers.V * numbers.S / (numbers.S + 2.0) + noise(0.05)
    space = Space(rules="paper", size=3, population=8)
    model = BGNLMRegressor(
        family=family,
        transforms=["sin"],
        space=space,
        chains=2,
        budget=Budget(steps=2000),
        random_state=1,
        progress=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModejumpWarning)
        model.fit(numbers, y)
    fit = fit_law("V*S/(S + c)", numbers, y, family=family)
    factor = fit.bayes_factor(model, log=True)
    assert fit.bayes_factor(model) == pytest.approx(math.exp(min(factor, 700.0)), rel=1e-6)
    # A law that is the best model has the factor one.
    same = fit_law(" + ".join(model.best_model()), numbers, y, family=family)
    assert same.bayes_factor(model, log=True) == pytest.approx(0.0, abs=1e-6 * abs(factor) + 1e-6)
    if family == "gaussian":
        expected = fit.log_marginal_likelihood - model.log_marginal_likelihood(model.best_model())
        assert factor == pytest.approx(expected, rel=1e-9)
    with pytest.raises(InputError, match="another response"):
        fit_law("V*S/(S + c)", numbers, y + numbers.S).bayes_factor(model)
    with pytest.raises(InputError, match="without the column 'x'"):
        fit_law("x", X[["S", "x"]], y).bayes_factor(model)
    with pytest.raises(InputError, match="holds no rows"):
        fit.bayes_factor(BGLMRegressor().fit(numbers, y))


def test_heavy_tails() -> None:
    table, rng = frame(11, 300), np.random.default_rng(12)
    y = 3.0 * table.V * table.S / (table.S + 2.0) + 0.05 * rng.standard_t(1.5, 300)
    rows = [fit_law("V*S/(S + c)", table, y, family=family).constants.loc["c"] for family in ("student", "gaussian")]
    student, plain = ((row.upper - row.lower) / (2.0 * 1.96) for row in rows)
    assert abs(rows[0].value - 2.0) < 4.0 * student and student < 0.5 * plain


@pytest.mark.parametrize(("family", "dof"), [("student(3)", 3.0), ("student", 1.5)])
def test_intervals_under_heavy_tails_cover(family: str, dof: float) -> None:
    runs, hits = 400, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        table = pd.DataFrame({"x": rng.uniform(0.0, 1.0, 80)})
        row = fit_law("x", table, 2.0 * table.x + rng.standard_t(dof, 80), family=family).coefficients.loc["x"]
        hits += row.lower <= 2.0 <= row.upper
    assert abs(hits / runs - 0.95) < 4.0 * math.sqrt(0.95 * 0.05 / runs), hits / runs


def test_levels_of_factors_are_columns() -> None:
    table = X.assign(kind=pd.Categorical(np.where(X.x > 2.0, "a", "b")))
    y = 3.0 * X.S / (X.S + 2.0) * (table.kind == "a") + noise(0.02)
    fit = fit_law("`kind[a]`*S/(S + c)", table, y)
    assert fit.constants.lower["c"] < 2.0 < fit.constants.upper["c"]
    np.testing.assert_allclose(fit.predict(table[:3]), fit.predict(table)[:3])
    with pytest.raises(InputError, match="'kind' is no column"):
        fit_law("kind*S", table, y)


def test_other_families() -> None:
    rng, table = np.random.default_rng(5), frame(6, 800)
    inner = table.x / (table.t + 1.5)
    poisson = fit_law("x/(t + c)", table, rng.poisson(np.exp(1.0 + inner)), family="poisson")
    logit = fit_law(
        "sin(c*x)", table, rng.random(800) < 1.0 / (1.0 + np.exp(-4.0 * np.sin(2.2 * table.x))), family="binomial"
    )
    gamma = fit_law("exp(c*x)", table, rng.gamma(5.0, np.exp(2.0 * np.exp(-0.5 * table.x)) / 5.0), family="gamma")
    for fit, truth in ((poisson, 1.5), (logit, 2.2), (gamma, -0.5)):
        row = fit.constants.loc["c"]
        error = (row.upper - row.lower) / (2 * 1.96)
        assert abs(row.value - truth) < 4.0 * error and 0.0 < error < 0.4 and fit.log_marginal_likelihood > 50.0
    assert ((logit.predict(table) > 0.0) & (logit.predict(table) < 1.0)).all()


def test_maximum_likelihood_of_counts_is_that_of_statsmodels_kind() -> None:
    # Without constants the fit is an ordinary Poisson regression: the score equations hold.
    table = frame(7, 300)
    y = np.random.default_rng(2).poisson(np.exp(0.3 + 0.4 * table.x))
    fit = fit_law("x + sqrt(t)", table, y, family="poisson")
    left = y - fit.predict(table)
    for column in (np.ones(300), table.x, np.sqrt(table.t)):
        assert abs(left @ column) < 1e-4 * np.abs(left * column).sum()


def test_a_large_table_is_fitted_on_all_rows() -> None:
    table = frame(9, 20_000)
    y = 3.0 * table.V * table.S / (table.S + 2.0) + noise(0.5, 5, 20_000)
    few, many = (fit_law("V*S/(S + c)", table[:rows], y[:rows]).constants.loc["c"] for rows in (500, 20_000))
    assert (few.upper - few.lower) / (many.upper - many.lower) == pytest.approx(math.sqrt(40.0), rel=0.2)


def test_arrays_and_other_frames() -> None:
    y = 3.0 * X.V * X.S / (X.S + 2.0) + noise(0.05)
    fit = fit_law("V*S/(S + c)", X, y)
    array = X[["S", "V"]].to_numpy()
    by_place = fit_law("x1*x0/(x0 + c)", array, y)
    by_polars = fit_law("V*S/(S + c)", pl.from_pandas(X), y)
    for other, rows in ((by_place, array), (by_polars, pl.from_pandas(X))):
        assert other.constants.value["c"] == pytest.approx(fit.constants.value["c"], rel=1e-9)
        np.testing.assert_allclose(other.predict(rows), fit.predict(X), rtol=1e-9)


def test_a_column_may_be_called_c() -> None:
    table = X.rename(columns={"S": "c"})
    y = 3.0 * table.V * table.c / (table.c + 2.0)
    assert fit_law("V*c/(c + c0)", table, y).constants.value["c0"] == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize(
    ("law", "words"),
    [
        ("x*q", "'q' is no column"),
        ("x/(c1 + c0*S)", "cannot be told"),
        ("exp(x + c)", "constant c cannot be told"),
        ("c0*c1*x", "cannot be told"),
        ("x + 2*x", "twice"),
        ("c0 + c1 + x", "cannot be told apart"),
        ("c0*sin(c1)", "has no column"),
        ("3", "has no column"),
        ("log(-x)", "not finite"),
        ("x + x*group", "group"),
        ("x +", "expected a name"),
        (7, "read from text"),
    ],
)
def test_laws_that_cannot_be_fitted_are_refused_in_one_sentence(law: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        fit_law(law, X, X.x + noise(0.1))
    assert "\n" not in str(caught.value)


def test_new_rows_outside_the_law_are_refused() -> None:
    fit = fit_law("1/x", X, 1.0 / X.x + noise(0.01))
    with pytest.raises(InputError, match="row 1 of the new data"):
        fit.predict(pd.DataFrame({"x": [1.0, 0.0]}))
