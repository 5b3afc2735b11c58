"""Estimators on tables of very many columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import modejump
from modejump import BetaBinomialPrior, BGLMClassifier, BGLMRegressor, Budget
from modejump.core.errors import InputError
from modejump.data.wide_table import WideSpec
from modejump.estimators.prepare import WIDE_COLUMNS

SMALL = {"budget": Budget(warmup=8_000, steps=20_000), "random_state": 1, "chains": 2}


def genotypes(columns: int = 400, rows: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """Neighbours in linkage, and three effects."""
    rng = np.random.default_rng(7)
    x = rng.integers(0, 3, (rows, columns)).astype(np.int8)
    same = rng.random((rows, columns)) < 0.6
    for j in range(1, columns):
        x[same[:, j], j] = x[same[:, j], j - 1]
    return x, 1.2 * x[:, 30] - 1.0 * x[:, 200] + 0.9 * x[:, 333] + rng.normal(size=rows)


X, Y = genotypes()


@pytest.fixture(scope="module")
def fitted() -> BGLMRegressor:
    return BGLMRegressor(algorithm="rgmjmcmc", **SMALL).fit(X, Y)


def test_finds_the_effects(fitted: BGLMRegressor) -> None:
    assert isinstance(fitted.table_, WideSpec) and fitted.n_features_in_ == 400
    assert {"x30", "x200", "x333"} <= set(fitted.median_model()) & set(fitted.best_model())
    table = fitted.inclusion_
    assert {"probability", "mcse", "ess", "r_hat", "renormalised", "complexity", "rao_blackwell"} <= set(table.columns)
    everywhere = fitted.posterior_.result.rao_blackwell
    assert everywhere.shape == (400,) and set(np.argsort(-everywhere)[:3]) == {30, 200, 333}
    assert np.abs(table["rao_blackwell"] - table["probability"]).max() < 0.1
    assert (table["r_hat"].dropna() < 1.1).all()


def test_agrees_with_one_list_of_all_terms(fitted: BGLMRegressor) -> None:
    other = BGLMRegressor(algorithm="mjmcmc", random_state=2, budget=Budget(steps=100_000)).fit(X, Y)
    ours, theirs = fitted.inclusion_, other.inclusion_
    for name in theirs.index[theirs["probability"] > 0.02]:
        error = np.hypot(ours["mcse"].get(name, 0.0), theirs["mcse"][name])
        assert abs(ours["probability"].get(name, 0.0) - theirs["probability"][name]) < 4.5 * error + 2e-3
    assert np.abs(fitted.predict(X) - other.predict(X)).max() < 0.15
    assert fitted.log_marginal_likelihood(["x30", "x4"]) == pytest.approx(other.log_marginal_likelihood(["x30", "x4"]))
    assert np.abs(fitted.coef_ - other.coef_).max() < 0.05 and fitted.coef_.shape == (400,)


def test_predicts_and_reports(fitted: BGLMRegressor, tmp_path: Path) -> None:
    mean = fitted.predict(X)
    assert fitted.score(X, Y) > 0.5 and (fitted.predict(X.astype(float)) == mean).all()
    interval = fitted.predict(X, interval=0.9)
    assert 0.8 < ((interval["lower"] < Y) & (interval["upper"] > Y)).mean() <= 1.0
    assert "Bayesian variable selection" in fitted.summary() and "400 covariates" in fitted.summary()
    assert "x30" in fitted.to_latex() and list(fitted.coefficients().index[:1]) == ["(intercept)"]
    fitted.save(tmp_path / "model")
    loaded = modejump.load(tmp_path / "model")
    assert (loaded.predict(X) == mean).all() and loaded.inclusion_.equals(fitted.inclusion_)
    with pytest.raises(InputError, match="the fit had 400"):
        loaded.predict(X[:, 1:])
    bad = X.astype(float)
    bad[4, 30] = np.nan
    with pytest.raises(InputError, match="'x30' is NaN in row 4"):
        fitted.predict(bad)


@pytest.mark.parametrize("kind", ["float32 in rows", "mapped from a file", "frame"])
def test_one_answer_whatever_holds_the_numbers(kind: str, fitted: BGLMRegressor, tmp_path: Path) -> None:
    given: Any = np.ascontiguousarray(X, dtype=np.float32)
    if kind == "mapped from a file":
        # One line for each column, as a converter of genotypes writes them.
        np.save(tmp_path / "x.npy", X.T)
        given = np.load(tmp_path / "x.npy", mmap_mode="r").T
    elif kind == "frame":
        given = pd.DataFrame(X, columns=[f"x{j}" for j in range(400)])
    model = BGLMRegressor(algorithm="rgmjmcmc", **SMALL).fit(given, Y)
    assert model.inclusion_.equals(fitted.inclusion_)
    assert (model.predict(given) == fitted.predict(X)).all()


def test_terms_always_in_and_weights() -> None:
    rng = np.random.default_rng(3)
    weights = rng.integers(0, 3, len(Y)).astype(float)
    prior = BetaBinomialPrior(max_size=4)
    model = BGLMRegressor(algorithm="rgmjmcmc", always_in=["x4", 9], model_prior=prior, **SMALL)
    model.fit(X, Y, sample_weight=weights)
    assert model.problem_.always_in == ("x4", "x9") and not {"x4", "x9"} & set(model.inclusion_.index)
    table = model.coefficients()
    assert list(table.index[:3]) == ["(intercept)", "x4", "x9"] and table["probability"].iloc[1] == 1.0
    assert model.coef_[4] == table["mean"]["x4"]
    counted = np.repeat(np.arange(len(Y)), weights.astype(int))
    again = BGLMRegressor(algorithm="mjmcmc", always_in=["x4", 9], model_prior=prior, random_state=1)
    again.fit(X[counted], Y[counted])
    ours, theirs = model.inclusion_, again.inclusion_
    for name in theirs.index[theirs["probability"] > 0.02]:
        error = np.hypot(ours["mcse"].get(name, 0.0), theirs["mcse"][name])
        assert abs(ours["probability"].get(name, 0.0) - theirs["probability"][name]) < 4.5 * error + 2e-3


def test_classes() -> None:
    labels = np.where(Y > np.median(Y), "case", "control")
    model = BGLMClassifier(algorithm="rgmjmcmc", **SMALL).fit(X, labels)
    assert model.classes_.tolist() == ["case", "control"] and "x30" in model.inclusion_.index[:6]
    assert model.score(X, labels) > 0.7 and "rao_blackwell" not in model.inclusion_


def test_auto_takes_very_many_columns_out_of_the_list() -> None:
    rng = np.random.default_rng(4)
    x = np.asfortranarray(rng.normal(size=(60, WIDE_COLUMNS + 1)), dtype=np.float32)
    y = x[:, 7] * 2.0 + rng.normal(size=60)
    model = BGLMRegressor(**SMALL).fit(x, y)
    assert model.posterior_.result.algorithm == "rgmjmcmc" and model.best_model() == ("x7",)
    # What needs one list has it.
    other = BGLMRegressor(**SMALL | {"budget": Budget(warmup=500, steps=500)}, groups={"both": [1, 2]})
    assert not other._is_wide(x) and not BGLMRegressor(algorithm="mjmcmc")._is_wide(x)
    assert not BGLMRegressor(model_prior=BetaBinomialPrior(heredity="strong"))._is_wide(x)
    assert not BGLMRegressor()._is_wide(x[:, 1:]) and BGLMRegressor()._is_wide(x)
    frame = pd.DataFrame(x)
    frame[3] = pd.Categorical(["a", "b"] * 30)
    assert not BGLMRegressor()._is_wide(frame)


@pytest.mark.parametrize(
    ("options", "x", "words"),
    [
        ({"groups": {"g": [0, 1]}}, X, "groups need all terms"),
        ({"model_prior": BetaBinomialPrior(heredity="weak")}, X, "heredity"),
        ({}, pd.DataFrame(X).assign(sex=["f", "m"] * 75), "column 'sex' is not a number"),
        ({"always_in": ["x400"]}, X, "'x400', which is not a term"),
        ({}, X[:-1], "149 rows"),
        ({}, np.where(np.arange(400) == 3, np.nan, X), "column 'x3' is NaN in row 0"),
        ({}, np.ones((150, 20)), "every column is constant"),
    ],
)
def test_refuses_what_cannot_be_done(options: dict[str, Any], x: Any, words: str) -> None:
    model = BGLMRegressor(algorithm="rgmjmcmc", **SMALL | options)
    with pytest.raises(InputError, match=words):
        model.fit(x, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_a_constant_column_is_named() -> None:
    x = X.copy()
    x[:, [3, 8]] = 1
    with pytest.warns(UserWarning, match=r"2 of 400 columns are constant.*'x3', 'x8'"):
        model = BGLMRegressor(algorithm="rgmjmcmc", **SMALL).fit(x, Y)
    assert not {"x3", "x8"} & set(model.inclusion_.index)


def test_runs_in_a_directory_resume(fitted: BGLMRegressor, tmp_path: Path) -> None:
    model = modejump.Run(tmp_path / "run", every=1e-3).fit(BGLMRegressor(algorithm="rgmjmcmc", **SMALL), X, Y)
    assert model.inclusion_.equals(fitted.inclusion_)
    assert modejump.resume(tmp_path / "run").inclusion_.equals(fitted.inclusion_)


def test_questions_about_some_of_very_many_columns(fitted: BGLMRegressor) -> None:
    same = fitted.reweight(model_prior=fitted.model_prior).posterior_.result.models
    before = fitted.posterior_.result.models
    np.testing.assert_allclose(same.log_posterior, before.log_posterior, rtol=0, atol=1e-9)
    space: dict = {}
    exec(fitted.to_python(), space)
    np.testing.assert_allclose(space["predict"](X), fitted.predict(X, kind="best"), rtol=1e-9)
    with pytest.raises(InputError, match="give rows of the table as X="):
        fitted.effect(30)
    curve = fitted.effect(30, X=X, grid=3)
    assert (curve["lower"] < curve["mean"]).all() and (curve["mean"] < curve["upper"]).all()
    table = fitted.confint()
    assert (table.loc[list(fitted.best_model()), "probability"] > 0.1).all()
