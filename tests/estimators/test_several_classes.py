"""More than two classes: each against the rest, and a sentence where one posterior is asked for."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.multiclass import OneVsRestClassifier

from modejump import BGLMClassifier, BGNLMClassifier, Budget, InputError, LogicClassifier, ModejumpWarning, Run, merge
from modejump.cli import main
from modejump.plots import plot_inclusion

iris = load_iris(as_frame=True)
X, KINDS = iris.data, iris.target_names
Y = pd.Series(KINDS[iris.target], name="species")


@pytest.fixture(scope="module")
def model() -> BGLMClassifier:
    return BGLMClassifier().fit(X, Y)


def test_it_is_what_one_against_the_rest_gives(model: BGLMClassifier) -> None:
    assert model.classes_.tolist() == KINDS.tolist() and len(model.estimators_) == 3
    expected = OneVsRestClassifier(BGLMClassifier()).fit(X, Y)
    probability = model.predict_proba(X)
    np.testing.assert_allclose(probability, expected.predict_proba(X), rtol=1e-12)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert (model.predict(X) == KINDS[probability.argmax(axis=1)]).all() and model.score(X, Y) > 0.9
    np.testing.assert_array_equal(model.predict_log_proba(X), np.log(probability))


def test_tables_have_a_column_for_each_class(model: BGLMClassifier) -> None:
    assert list(model.inclusion_) == KINDS.tolist() and set(model.inclusion_.index) == set(X.columns)
    for kind, one in zip(KINDS, model.estimators_, strict=True):
        expected = one.inclusion_["probability"].loc[model.inclusion_.index]
        pd.testing.assert_series_equal(model.inclusion_[kind], expected, check_names=False)
        assert one.target_ == kind and f"{kind}, against the rest" in model.summary()


def test_questions_about_one_posterior_go_to_one_of_them(model: BGLMClassifier, tmp_path: Path) -> None:
    asked: list[Any] = [
        model.confint, model.best_model, model.equation, model.to_json, lambda: model.models_, lambda: model.verdict_,
        lambda: model.save(tmp_path / "a"), lambda: model.report(tmp_path / "a.html"), lambda: merge(model),
        lambda: model.predict_proba(X, interval=0.9), lambda: model.coef_,
    ]  # fmt: skip
    for question in asked:
        with pytest.raises(InputError, match=r"call this on one of model\.estimators_"):
            question()
    with pytest.raises(InputError, match=r"give model\.estimators_\[0\]"):
        plot_inclusion(model)
    assert len(model.estimators_[2].confint()) == 5


def test_columns_of_all_classes_come_out_once(model: BGLMClassifier) -> None:
    names = model.get_feature_names_out().tolist()
    every = {name for one in model.estimators_ for name in one.get_feature_names_out()}
    assert len(names) == len(set(names)) and set(names) == every
    np.testing.assert_array_equal(model.transform(X), X[names].to_numpy())
    framed = BGLMClassifier().set_output(transform="pandas").fit(X, Y).transform(X)
    assert list(framed.columns) == names


def test_columns_by_name_weights_and_pickle(model: BGLMClassifier) -> None:
    table = X.assign(species=Y, weight=1.0)
    named = BGLMClassifier().fit(table, "species", sample_weight="weight")
    np.testing.assert_allclose(named.predict_proba(table), model.predict_proba(X))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_second_fit_forgets_the_first() -> None:
    model = BGLMClassifier().fit(X, Y)
    two = Y != "setosa"
    model.fit(X[two], Y[two])
    assert not hasattr(model, "estimators_") and model.classes_.tolist() == ["versicolor", "virginica"]
    assert model.best_model()
    model.fit(X, iris.target)
    assert not hasattr(model, "posterior_") and model.estimators_[1].target_ == "class_1"


@pytest.mark.parametrize("kind", [BGNLMClassifier, LogicClassifier])
def test_searches_take_several_classes(kind: Any) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2, (120, 4))
    y = x[:, 0] + x[:, 1]
    model = kind(chains=2, budget=Budget(warmup=400, steps=500), random_state=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModejumpWarning)
        model.fit(x, y)
    assert model.predict_proba(x).shape == (120, 3) and model.score(x, y) > 0.9
    assert list(model.inclusion_) == [0, 1, 2] and not model.inclusion_.isna().any().any()


def test_runs_and_commands_take_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="3 classes: 'setosa', .*choose two of them"):
        Run(tmp_path / "run").fit(BGLMClassifier(), X, Y)
    with pytest.raises(InputError, match="choose two of them"):
        BGLMClassifier().fit_formula("species ~ .", X.set_axis(list("abcd"), axis=1).assign(species=Y))
    X.assign(species=Y).to_csv(tmp_path / "iris.csv", index=False)
    assert main(["fit", str(tmp_path / "iris.csv"), "--target", "species", "--family", "binomial"]) == 2
    assert "3 classes" in capsys.readouterr().err
