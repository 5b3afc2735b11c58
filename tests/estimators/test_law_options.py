"""Searches for laws with factors, columns that are always in, missing values; laws as text."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot

import modejump
from modejump import BGLMRegressor, BGNLMClassifier, BGNLMRegressor, Budget, LogicRegressor, Space
from modejump.core.errors import InputError
from modejump.features.expression import Expression
from modejump.features.nonlinear.expression import Feature
from modejump.plots import plot_law_table

SHORT = Budget(warmup=3_000, steps=2_000)


def quick(**options: Any) -> BGNLMRegressor:
    given = {"chains": 4, "budget": SHORT, "random_state": 1, "transforms": ("sin", "square")}
    model = BGNLMRegressor(**given | options)
    return model


def fitted(model: Any, X: Any, y: Any, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", modejump.ModejumpWarning)
        return model.fit(X, y, **more)


def people(n: int = 90, seed: int = 4) -> tuple[pd.DataFrame, np.ndarray]:
    """A law that holds for one sex only, and a linear effect of age."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"x": rng.uniform(0.5, 3.0, n), "age": rng.normal(size=n)})
    table["sex"] = pd.Categorical(rng.choice(["female", "male", "other"], n))
    y = 2.0 * table["age"] + 3.0 * table["x"] ** 2 * (table["sex"] == "female") + 0.05 * rng.normal(size=n)
    return table, y.to_numpy()


@pytest.fixture(scope="module")
def by_sex() -> BGNLMRegressor:
    return fitted(quick(always_in=["age"]), *people())


def test_levels_of_a_factor_multiply_features(by_sex) -> None:
    X, y = people()
    (law,) = by_sex.best_model()
    assert Feature(law) in {Feature("sex[female]*x*x"), Feature("sex[female]*square(x)")}
    assert by_sex.score(X, y) > 0.999
    # New rows are coded as those of the fit, whatever levels they have and in whichever frame they come.
    some = X.iloc[:3].assign(sex=X["sex"].iloc[:3].cat.remove_unused_categories())
    np.testing.assert_allclose(by_sex.predict(some), by_sex.predict(X)[:3])
    np.testing.assert_allclose(by_sex.predict(pl.from_pandas(X)), by_sex.predict(X))
    with pytest.raises(InputError, match="'sex' has the level 'none'"):
        by_sex.predict(X.assign(sex=pd.Categorical(["none"] * len(X))))


def test_columns_always_in_are_in_every_model(by_sex) -> None:
    X, y = people()
    table = by_sex.coefficients("best")
    assert list(table.index[:2]) == ["(intercept)", "age"]
    assert table.loc["age", "mean"] == pytest.approx(2.0, abs=5 * table.loc["age", "sd"])
    assert "always in: intercept, age" in by_sex.summary().replace("\n              ", " ")
    assert not any("age" in feature.covariates for feature in by_sex.laws_.features)
    # Profiled out: the same as the residuals of a regression on it, up to the one degree of freedom.
    assert by_sex.log_marginal_likelihood([]) == 0.0


def test_a_factor_that_is_always_in_has_no_indicator_of_its_first_level() -> None:
    X, y = people()
    model = fitted(quick(always_in="sex"), X, y)
    assert model.problem_.always_in == ("sex[male]", "sex[other]")
    assert model.predict(X.iloc[:5]).shape == (5,)
    assert model.equation(numbers=False).startswith("sex[male] + sex[other] + ")


def test_always_in_and_factors_survive_storage(by_sex, tmp_path) -> None:
    X, _ = people()
    by_sex.save(tmp_path / "run")
    loaded = modejump.load(tmp_path / "run")
    np.testing.assert_allclose(loaded.predict(X), by_sex.predict(X))
    assert loaded.equation() == by_sex.equation() and loaded.get_params()["always_in"] == ("age",)
    assert loaded.verdict_.search == by_sex.verdict_.search
    pd.testing.assert_frame_equal(loaded.law_table(), by_sex.law_table())


def test_medians_and_indicators_stand_for_missing_values(tmp_path) -> None:
    X, y = people()
    X = X.drop(columns="sex")
    X.loc[::10, "x"] = np.nan
    with pytest.raises(InputError, match="column 'x' is missing"):
        quick().fit(X, y)
    model = fitted(quick(missing="median"), X, y)
    assert "x[missing]" in model.laws_.language.names
    filled = X.fillna(X["x"].median())
    plain = fitted(
        quick(), filled.assign(gone=X["x"].isna()).rename(columns={"gone": "x[missing]"})[["x", "x[missing]", "age"]], y
    )
    assert plain.best_model() == model.best_model()
    np.testing.assert_allclose(
        model.predict(X), plain.predict(filled.assign(**{"x[missing]": X["x"].isna()})[["x", "x[missing]", "age"]])
    )
    # A value that was never missing at fit may be missing later.
    assert np.isfinite(model.predict(X.assign(age=np.nan))).all()
    model.save(tmp_path / "run")
    np.testing.assert_allclose(modejump.load(tmp_path / "run").predict(X), model.predict(X))
    assert model.__sklearn_tags__().input_tags.allow_nan and not quick().__sklearn_tags__().input_tags.allow_nan


def test_arrays_with_missing_values() -> None:
    X, y = people()
    x = X[["x", "age"]].to_numpy().copy()
    x[3, 0] = np.nan
    model = fitted(quick(missing="median"), x, y)
    assert np.isfinite(model.predict(x)).all() and model.n_features_in_ == 2


def test_what_chunks_do_not_have_is_refused(tmp_path) -> None:
    X, y = people()
    path = tmp_path / "rows.parquet"
    X.drop(columns="sex").assign(y=y).to_parquet(path)
    for options, words in ({"missing": "median"}, "read in chunks are refused"), ({"always_in": ["age"]}, "in memory"):
        with pytest.raises(InputError, match=words):
            quick(**options).fit(modejump.scan_parquet(path), "y")


def test_classes_by_a_factor() -> None:
    X, y = people(160)
    model = fitted(BGNLMClassifier(chains=2, budget=SHORT, random_state=1, always_in=["age"]), X, y > np.median(y))
    assert model.predict(X).shape == (160,) and list(model.law_table()["complexity"])[0] == 0


# --- equations ------------------------------------------------------------------------------------------------------


def test_the_equation_of_the_best_law(by_sex) -> None:
    X, _ = people()
    (law,) = by_sex.best_model()
    assert by_sex.equation(numbers=False) == f"age + {law}"
    text = by_sex.equation()
    assert text in by_sex.summary() and f"*{law}" in text and "*age + " in text
    row = X.iloc[0]
    names = {
        "x": row["x"],
        "age": row["age"],
        "square": np.square,
        "sin": np.sin,
        "sex": {"female": row["sex"] == "female"},
    }
    value = eval(by_sex.equation(digits=12).replace("[female]", "['female']").replace("^", "**"), names)
    assert value == pytest.approx(by_sex.predict(X.iloc[:1], kind="best")[0], rel=1e-9)
    assert by_sex.equation("median", numbers=False) == f"age + {' + '.join(by_sex.median_model())}"
    with pytest.raises(InputError, match="kind must be one of"):
        by_sex.equation("mean", numbers=False)


def test_numbers_inside_projections_are_shown() -> None:
    X, y = people()
    space = Space(mutation=0.2, crossover=0.2, modification=0.2, projection=0.4)
    response = np.tanh(2.0 * X["x"] - 3.0) + X["age"] + 0.05 * np.random.default_rng(6).normal(size=len(X))
    model = quick(space=space, transforms=("sigmoid",), family="gaussian", coef_prior="g")
    fitted(model, X[["x", "age"]], response)
    shown = model.equation()
    for feature in map(Feature, model.best_model()):
        if feature.kind == "projection":
            first = model.laws_.constants[feature][0]
            assert f"{first:.4g}" in shown


def test_constants_of_several_terms_are_numbered_through(by_sex) -> None:
    class WithConstants(Expression):
        __slots__ = ("constants",)

    def make(text: str, constants: int) -> WithConstants:
        about = {"covariates": frozenset(), "complexity": 1, "depth": 1, "width": 1, "spellings": 1}
        return WithConstants.interned(text, constants=constants, **about)

    language = by_sex.laws_.language
    terms = [make("exp(c0*t)*`c0`", 1), make("c1*x", 0), make("g[c0]*x/(x + c0)/(y + c1)", 2)]
    assert language.law(terms) == "exp(c0*t)*`c0` + c1*x + g[c0]*x/(x + c1)/(y + c2)"
    assert language.law([]) == "1"


def test_equations_of_selection_and_logic() -> None:
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "two words", "c"])
    model = fitted(BGLMRegressor(always_in=["a"]), X, 3.0 * X["two words"] + X["a"])
    assert model.equation(numbers=False) == "a + `two words`"
    assert model.equation().count(" + ") + model.equation().count(" - ") >= 1
    bits = pd.DataFrame(rng.integers(0, 2, (200, 4)), columns=list("abcd"))
    logic = fitted(LogicRegressor(chains=2, budget=SHORT, random_state=1), bits, 3.0 * (bits["a"] & bits["b"]))
    assert logic.equation(numbers=False) == "(a & b)" and "*(a & b)" in logic.equation()
    assert logic.law_table()["law"].iloc[0] == "1"


# --- the picture ----------------------------------------------------------------------------------------------------


def test_the_plot_of_the_table(by_sex) -> None:
    table = by_sex.law_table()
    _, given = pyplot.subplots()
    for ax in plot_law_table(by_sex, ax=given), plot_law_table(table):
        np.testing.assert_allclose(ax.lines[0].get_ydata(), table["error"])
        assert ax.get_title() == table["law"][table["log_posterior"].idxmax()]
    assert plot_law_table(by_sex, ax=given) is given
    with pytest.raises(InputError, match="plot_law_table takes"):
        plot_law_table(table.drop(columns="error"))
    pyplot.close("all")
