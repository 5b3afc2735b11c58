"""Questions that estimators answer: effects, pairs of terms and models, pages for notebooks, and exports."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn import config_context

from modejump import BGLMClassifier, BGLMRegressor, Budget, LogicRegressor, load
from modejump.core.errors import InputError


def table(rows: int = 80) -> pd.DataFrame:
    rng = np.random.default_rng(21)
    frame = pd.DataFrame(rng.normal(size=(rows, 2)), columns=["age", "dose"])
    frame["height"] = frame["age"] + 0.3 * rng.normal(size=rows)
    frame["arm"] = pd.Categorical(rng.choice(["a", "b", "c"], rows, p=[0.2, 0.5, 0.3]))
    frame["smokes"] = rng.random(rows) < 0.3
    return frame


def response(frame: pd.DataFrame, family: str = "gaussian") -> np.ndarray:
    rng = np.random.default_rng(22)
    eta = (0.3 + 0.5 * frame["age"] + 0.6 * (frame["arm"] == "b")).to_numpy(dtype=float)
    if family == "binomial":
        return np.where(eta + rng.logistic(size=len(eta)) > 0.0, "ill", "well")
    if family == "poisson":
        return rng.poisson(np.exp(eta)).astype(float)
    if family == "gamma":
        return rng.gamma(3.0, np.exp(eta) / 3.0)
    return eta + 0.5 * rng.normal(size=len(eta))


def fitted(family: str = "gaussian", **options: Any) -> Any:
    X = table()
    kind = BGLMClassifier(**options) if family == "binomial" else BGLMRegressor(family=family, **options)
    return kind.fit(X, response(X, family))


# --- effects ----------------------------------------------------------------------------------------------------------


def typical(**changed: Any) -> pd.DataFrame:
    X = table()
    row: dict[str, Any] = {name: float(np.sort(X[name])[39]) for name in ("age", "dose", "height")}
    return pd.DataFrame([row | {"arm": "b", "smokes": False} | changed])


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson", "gamma"])
def test_an_effect_is_the_mean_response_at_typical_values(family: str) -> None:
    model = fitted(family)
    curve = model.effect("age", grid=[-1.0, 0.5])
    assert list(curve.columns) == ["value", "mean", "lower", "upper"] and curve["value"].tolist() == [-1.0, 0.5]
    for row, value in enumerate([-1.0, 0.5]):
        new = typical(age=value)
        mean = model.predict_proba(new)[0, 1] if family == "binomial" else model.predict(new)[0]
        assert curve.loc[row, "mean"] == pytest.approx(mean, rel=1e-10)
        assert curve.loc[row, "lower"] < mean < curve.loc[row, "upper"]
    if family != "binomial":
        # The band is that of the mean, which is known better than a new observation.
        around = model.predict(typical(age=0.5), interval=0.9).iloc[0]
        assert curve.loc[1, "upper"] - curve.loc[1, "lower"] < 0.6 * (around["upper"] - around["lower"])


def test_the_band_of_one_gaussian_model_is_the_textbooks() -> None:
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"x": rng.normal(size=25)})
    y = 1.0 + 2.0 * X["x"] + rng.normal(size=25)
    model = BGLMRegressor(coef_prior="bic").fit(X, y)
    curve = model.effect("x", grid=[-1.0, 0.0, 2.0], kind="best", level=0.8)
    design = np.column_stack([np.ones(25), X["x"]])
    at = np.column_stack([np.ones(3), [-1.0, 0.0, 2.0]])
    coef, rss = np.linalg.lstsq(design, y, rcond=None)[:2]
    half = stats.t(23).ppf(0.9) * np.sqrt(
        rss[0] / 23 * np.square(at @ np.linalg.inv(np.linalg.qr(design)[1])).sum(axis=1)
    )
    np.testing.assert_allclose(curve["mean"], at @ coef, rtol=1e-8)
    np.testing.assert_allclose(curve["upper"] - curve["mean"], half, rtol=1e-6)
    np.testing.assert_allclose(curve["mean"] - curve["lower"], half, rtol=1e-6)


def test_grids_of_factors_and_of_few_values_are_all_their_values() -> None:
    model = fitted()
    assert model.effect("arm")["value"].tolist() == ["a", "b", "c"]
    assert model.effect("smokes")["value"].tolist() == [0.0, 1.0]
    X, whole = table(), model.effect("age")
    assert len(whole) == 41
    assert whole["value"].iloc[0] == pytest.approx(np.quantile(X["age"], 0.05), abs=0.2)
    assert len(model.effect("age", grid=7)) == 7
    by_position = model.effect(0, grid=7)
    pd.testing.assert_frame_equal(by_position, model.effect("age", grid=7))


@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial"])
def test_an_effect_averaged_over_rows(family: str) -> None:
    model, X = fitted(family), table()
    curve = model.effect("age", grid=[0.0, 1.0], X=X, average=True)
    for row, value in enumerate([0.0, 1.0]):
        moved = X.assign(age=value)
        mean = model.predict_proba(moved)[:, 1] if family == "binomial" else model.predict(moved)
        exact = family == "gaussian"
        assert curve.loc[row, "mean"] == pytest.approx(mean.mean(), rel=1e-10 if exact else 0.02)
        assert curve.loc[row, "lower"] < curve.loc[row, "mean"] < curve.loc[row, "upper"]


def test_effects_after_arrays_formulas_offsets_and_files(tmp_path: Any) -> None:
    X = table()
    numbers = X[["age", "dose", "height"]].to_numpy()
    arrays = BGLMRegressor().fit(numbers, response(X))
    assert len(arrays.effect(0)) == 41
    formula = BGLMRegressor().fit_formula("y ~ age + arm", X.assign(y=response(X)))
    with pytest.raises(InputError, match="give rows of the table as X="):
        formula.effect("age")
    assert formula.effect("arm", X=X)["value"].tolist() == ["a", "b", "c"]
    exposed = BGLMRegressor(family="poisson").fit(X, response(X, "poisson"), offset=np.log(np.full(80, 2.0)))
    with pytest.raises(InputError, match="new rows need one too"):
        exposed.effect("age")
    low, high = (exposed.effect("age", grid=[0.0], offset=value)["mean"][0] for value in (0.0, 1.0))
    assert high / low == pytest.approx(math.e, rel=1e-6)
    model = fitted()
    model.save(tmp_path / "run")
    pd.testing.assert_frame_equal(load(tmp_path / "run").effect("age"), model.effect("age"))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.effect("weight"), "the table has no column 'weight'; its columns are age, dose"),
        (lambda m: m.effect("age", grid="wide"), "grid must be a sequence"),
        (lambda m: m.effect("age", grid=1), "grid must be a sequence"),
        (lambda m: m.effect("age", level=90), "level must lie between 0 and 1"),
        (lambda m: m.effect("age", average=True), "needs the rows; give them as X="),
        (lambda m: m.effect("arm", grid=["z"]), "has the level 'z'"),
        (lambda m: m.effect("age", X=np.zeros((3, 2))), "but the fit had 5 columns"),
        (lambda m: m.substitutes(min_probability="much"), "min_probability must be a number"),
        (lambda m: m.bayes_factor("weight"), "'weight' is not a term"),
        (lambda m: m.to_python("mean"), "kind must be one of"),
        (lambda m: m.to_python(name="my function"), "name must be that of a Python function"),
        (lambda m: m.to_latex_table(limit=0), "limit must be a whole number"),
        (lambda m: m.to_json("/no/such/folder/file.json"), "cannot be written"),
    ],
)
def test_bad_questions_are_answered_in_one_sentence(call: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call(fitted())


# --- pairs ------------------------------------------------------------------------------------------------------------


def test_joint_inclusion_and_substitutes_from_the_models() -> None:
    model = fitted()
    joint, models = model.joint_inclusion(), model.posterior_.models(None)
    np.testing.assert_allclose(np.diag(joint), model.inclusion_["probability"][joint.index], atol=1e-12)
    for a in joint.index:
        for b in joint.index:
            both = models.loc[[{a, b} <= set(f) for f in models["features"]], "probability"].sum()
            assert joint.loc[a, b] == pytest.approx(both, abs=1e-12)
    found = model.substitutes()
    assert {found.loc[0, "first"], found.loc[0, "second"]} == {"age", "height"}
    row = found.iloc[0]
    a, b = row["first"], row["second"]
    either = models.loc[[bool({a, b} & set(f)) for f in models["features"]], "probability"].sum()
    neither = 1.0 - either
    assert row["either"] == pytest.approx(either, abs=1e-12)
    odds = row["both"] * neither / (row["first_alone"] * row["second_alone"])
    assert row["log_odds_ratio"] == pytest.approx(math.log(odds), rel=1e-6)
    assert (found["log_odds_ratio"] <= -1.0).all()


def test_bayes_factors_are_ratios_of_marginal_likelihoods() -> None:
    model = fitted()
    one, other = model.log_marginal_likelihood(["age", "arm"]), model.log_marginal_likelihood("dose")
    assert model.bayes_factor(["arm", "age"], "dose", log=True) == pytest.approx(one - other, abs=1e-12)
    assert model.bayes_factor(["arm", "age"], "dose") == pytest.approx(math.exp(one - other))
    assert model.bayes_factor("dose") * model.bayes_factor([], "dose") == pytest.approx(1.0)


# --- pages ------------------------------------------------------------------------------------------------------------


def test_a_posterior_prints_in_a_few_lines() -> None:
    text = str(fitted().posterior_)
    assert len(text.splitlines()) == 4 and "array" not in text
    assert text.startswith("Posterior over 32 models of 5 terms, all enumerated\nterms: ")
    assert "verdict (exact): All 32 models were evaluated" in text


def test_notebooks_show_the_summary_with_names_escaped() -> None:
    X = table()[["age", "dose"]].rename(columns={"dose": "<script>alert(1)</script>"})
    model = BGLMRegressor()
    before = model._repr_html_()
    assert "sk-" in before and "Verdict" not in before
    model.fit(X, response(table()))
    for page in (model._repr_html_(), model._repr_mimebundle_()["text/html"], model.posterior_._repr_html_()):
        assert "<script>" not in page and "&lt;script&gt;" in page
        assert "All 4 models were evaluated" in page and "<table>" in page and "age" in page
        # Colours of the page stay: it reads on light and on dark.
        assert "background: transparent" in page and "color: inherit" in page
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_") and "text/html" not in model._repr_mimebundle_()


# --- exports ----------------------------------------------------------------------------------------------------------


def run_source(source: str, name: str = "predict") -> Any:
    space: dict[str, Any] = {}
    exec(compile(source, "exported", "exec"), space)
    return space[name]


@pytest.mark.parametrize("kind", ["best", "median", "bma"])
def test_exported_python_predicts_as_the_model_does(kind: str) -> None:
    model, X = fitted(), table(30)
    source = model.to_python(kind)
    assert "modejump" not in source.replace("written by modejump", "") and source.count("import") == 1
    function = run_source(source)
    np.testing.assert_allclose(function(X), model.predict(X, kind=kind), rtol=1e-12)
    np.testing.assert_allclose(function({name: X[name].tolist() for name in X}), function(X), rtol=1e-14)


@pytest.mark.parametrize(
    ("family", "link"), [("binomial", None), ("binomial", "probit"), ("poisson", None), ("gamma", None)]
)
def test_exported_python_of_other_families_is_close(family: str, link: str | None) -> None:
    model, X = fitted(family, link=link), table(30)
    function = run_source(model.to_python("best"))
    mean = model.predict_proba(X, kind="best")[:, 1] if family == "binomial" else model.predict(X, kind="best")
    eta = model.problem_.family.predictor(np.asarray(function(X)))
    coef = model.coefficients("best")["mean"].to_numpy()
    design = np.column_stack([np.ones(30), model.table_.apply(X)])
    # Exactly the mean linear predictor, and close to what predict averages over its uncertainty.
    np.testing.assert_allclose(eta, design @ coef, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(function(X), mean, rtol=0.08, atol=0.02)


def test_exported_python_is_safe_whatever_columns_are_called() -> None:
    names = ['a"""\nimport os', "class", "X", "1st", "x y", "x_y"]
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.normal(size=(60, 6)), columns=names)
    y = X.to_numpy() @ np.arange(1.0, 7.0) + 0.1 * rng.normal(size=60)
    model = BGLMRegressor().fit(X, y)
    function = run_source(model.to_python(name="law"), "law")
    np.testing.assert_allclose(function(X), model.predict(X, kind="best"), rtol=1e-12)


def test_exported_python_of_arrays_offsets_and_formulas() -> None:
    X = table()
    numbers = X[["age", "dose", "height"]].to_numpy()
    model = BGLMRegressor().fit(numbers, response(X))
    np.testing.assert_allclose(run_source(model.to_python())(numbers), model.predict(numbers, kind="best"), rtol=1e-12)
    none = BGLMRegressor().fit(X[["dose"]], response(X))
    assert none.best_model() == ()
    assert run_source(none.to_python())(X[["dose"]]).shape == (80,)
    exposed = BGLMRegressor(family="poisson").fit(X, response(X, "poisson"), offset=np.full(80, 0.5) + X["dose"] * 0.1)
    function = run_source(exposed.to_python())
    np.testing.assert_allclose(function(X, 1.0), math.e * function(X, 0.0), rtol=1e-12)
    formula = BGLMRegressor().fit_formula("y ~ age + np.exp(dose)", X.assign(y=response(X)))
    with pytest.raises(InputError, match="made by a formula"):
        formula.to_python()


def test_latex_table_has_terms_and_intervals() -> None:
    text = fitted().to_latex_table(level=0.8, limit=4)
    lines = text.splitlines()
    assert lines[0] == r"\begin{tabular}{lrrc}" and lines[-1] == r"\end{tabular}"
    assert r"80\,\% interval" in text and len(lines) == 4 + 4 + 2
    assert any(line.startswith(r"$\mathrm{arm[T.b]}$ & ") for line in lines)


def test_json_holds_what_the_tables_do(tmp_path: Any) -> None:
    model = fitted()
    text = model.to_json()
    content = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert content["verdict"] == str(model.verdict_) and (content["level"], content["search"]) == ("exact", "complete")
    assert content["equation"] == model.equation()
    assert [row["feature"] for row in content["inclusion"]] == list(model.inclusion_.index)
    assert [tuple(row["features"]) for row in content["models"]] == model.models_["features"].tolist()
    assert content["inclusion"][0]["r_hat"] is None
    first = content["confint"]["coefficients"][1]
    assert first["column"] == "age" and first["upper"] == pytest.approx(model.confint().loc["age", "upper"])
    assert model.to_json(tmp_path / "model.json") is None
    assert json.loads((tmp_path / "model.json").read_text(encoding="utf-8")) == content


# --- logic regression -----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_logic_regression_answers_too() -> None:
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.integers(0, 2, (200, 6)), columns=[f"snp{j}" for j in range(6)])
    y = 1.0 + 2.0 * (X["snp0"] & X["snp3"]) + 0.5 * rng.normal(size=200)
    model = LogicRegressor(chains=2, budget=Budget(steps=3000), random_state=1).fit(X, y)
    assert model.best_model() == ("snp0 & snp3",)
    assert model.confint(conditional=True).loc["snp0 & snp3", ["lower", "upper"]].between(1.5, 2.5).all()
    ones = model.effect("snp3", X=X.assign(snp0=1), kind="best")["mean"]
    assert ones[1] - ones[0] == pytest.approx(2.0, abs=0.3)
    assert model.effect("snp0")["value"].tolist() == [0.0, 1.0]
    np.testing.assert_allclose(run_source(model.to_python())(X), model.predict(X, kind="best"), rtol=1e-10)
    assert "snp0 & snp3" in str(model.posterior_) and "snp0 &amp; snp3" in model._repr_html_()
    other = model.reweight(coef_prior="bic")
    assert other.inclusion_.loc["snp0 & snp3", "probability"] > 0.5 and "Reweighted to" in other.verdict_
