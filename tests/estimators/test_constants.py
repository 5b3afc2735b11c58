"""Constants inside the best model: those of ``fit_law``, on every page, and kept where the rows are gone."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from modejump import BGNLMRegressor, Budget, InputError, fit_law, load, merge
from modejump.estimators.questions.law_terms import constants_of_best

X = pd.DataFrame({"S": np.linspace(0.1, 10.0, 100)})
LAW = 3.0 * X["S"] / (X["S"] + 2.0)
NOISE = {
    "gaussian": np.random.default_rng(1).normal(0.0, 0.01, 100),
    "student": 0.01 * np.random.default_rng(1).standard_t(2.0, 100),
}


def fitted(y: Any, seed: int = 1) -> BGNLMRegressor:
    return BGNLMRegressor(chains=4, budget=Budget(steps=2000), random_state=seed, progress=False).fit(X, y)


@pytest.fixture(scope="module")
def model() -> BGNLMRegressor:
    return fitted((LAW + NOISE["gaussian"]).rename("rate"))


@pytest.mark.parametrize("noise", NOISE)
def test_constants_are_those_of_fit_law(noise: str) -> None:
    y = (LAW + NOISE[noise]).rename("rate")
    model = fitted(y)
    family = model.posterior_.searched.family
    assert family.name == noise
    expected = fit_law(model.equation(numbers=False), X, y, family=family).constants
    pd.testing.assert_frame_equal(model.constants(level=0.95), expected, rtol=1e-6)
    assert model.constants().loc["c0", "lower"] < 2.05 and model.constants().loc["c0", "upper"] > 2.0


def test_a_higher_level_is_wider_and_a_simple_value_does_not_depend_on_it(model: BGNLMRegressor) -> None:
    narrow, wide = model.constants(level=0.5), model.constants(level=0.99)
    assert wide.loc["c0", "lower"] < narrow.loc["c0", "lower"] < narrow.loc["c0", "upper"] < wide.loc["c0", "upper"]
    assert narrow.loc["c0", "simple"] == wide.loc["c0", "simple"] == "2"
    for level in (0.0, 1.0, True, "a lot"):
        with pytest.raises(InputError, match="level must lie between 0 and 1"):
            model.constants(level)  # type: ignore[arg-type]


def test_every_page_has_them(model: BGNLMRegressor, tmp_path: Path) -> None:
    row = model.constants().loc["c0"]
    words = f"c0 = {row['value']:.4g}, from {row['lower']:.4g} to {row['upper']:.4g}, perhaps 2"
    assert "constants of 1/(S + c0), with 90 % intervals" in model.summary() and words in model.summary()
    assert words in model._repr_html_inner()
    stored = json.loads(model.to_json() or "")["constants"]
    assert stored["law"] == model.equation(numbers=False) and stored["level"] == 0.9
    assert stored["constants"] == [{"constant": "c0", **row.to_dict()}]
    assert "Constants of the best model" in model.report(tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_model_read_from_a_file_keeps_them(model: BGNLMRegressor, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    pd.testing.assert_frame_equal(again.constants(0.8), model.constants(0.8), check_exact=True)
    assert again.summary() == model.summary()
    # They are those of one law, and under another prior another may be the best.
    again._constants_read = ("exp(c0*S)", again._constants_read[1])
    with pytest.raises(InputError, match="holds no rows"):
        again.constants()
    assert "constants of" not in again.summary() and json.loads(again.to_json())["constants"] is None


def test_a_merged_model_holds_no_rows(model: BGNLMRegressor) -> None:
    both = merge(model, fitted((LAW + NOISE["gaussian"]).rename("rate"), seed=2))
    with pytest.raises(InputError, match="holds no rows"):
        both.constants()


def test_a_law_without_constants_has_none() -> None:
    model = fitted(2.0 * X["S"] + NOISE["gaussian"])
    assert model.best_model() == ("S",)
    assert model.constants().empty and list(model.constants()) == ["value", "lower", "upper", "simple"]
    assert "constants of" not in model.summary()
    assert json.loads(model.to_json() or "")["constants"]["constants"] == []


def test_an_offset_is_refused_in_a_sentence(model: BGNLMRegressor) -> None:
    searched = SimpleNamespace(family=model.problem_.family, offset=np.ones(100))
    face = SimpleNamespace(
        laws_=model.laws_, problem_=model.problem_, best_model=model.best_model,
        posterior_=SimpleNamespace(searched=searched),
    )  # fmt: skip
    with pytest.raises(InputError, match="with an offset have no intervals"):
        constants_of_best(face)
