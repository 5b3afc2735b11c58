"""What somebody new to the generalised models tries: an answer where there is one, one sentence where there is none."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from modejump import (
    BernoulliPrior,
    BGLMClassifier,
    BGLMRegressor,
    Budget,
    InputError,
    ModejumpWarning,
    OwnLikelihood,
)
from modejump.cli import main

ROWS = 60
rng = np.random.default_rng(7)
X = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=["a", "b", "c"])
EXPOSURE = np.log(rng.uniform(0.5, 4.0, ROWS))
COUNTS = rng.poisson(np.exp(EXPOSURE + 0.5 * X["a"])).astype(float)
LABELS = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-X["a"])), "sick", "well")


def counts(**options: Any) -> BGLMRegressor:
    return BGLMRegressor(family="poisson", **options)


@pytest.mark.parametrize("odd", ["nan", "NaT", "None", "<NA>"])
def test_labels_may_be_any_text(odd):
    plain = BGLMClassifier().fit(X, pd.Series(LABELS))
    named = BGLMClassifier().fit(X, pd.Series(np.where(LABELS == "sick", odd, "well")))
    assert named.classes_.tolist() == sorted([odd, "well"])
    np.testing.assert_allclose(
        named.inclusion_["probability"].sort_index(), plain.inclusion_["probability"].sort_index(), atol=1e-9
    )


MISTAKES: dict[str, tuple[Any, str]] = {
    "complex offset": (lambda: counts().fit(X, COUNTS, offset=EXPOSURE * 1j), "offset holds values that are not"),
    "complex weights": (
        lambda: counts().fit(X, COUNTS, sample_weight=np.ones(ROWS) * 1j), "sample_weight holds values that are not",
    ),
    "names of several types": (lambda: counts().fit(X.rename(columns={"a": 1}), COUNTS), "all input features have"),
    "an offset in the formula": (
        lambda: counts().fit_formula("y ~ a + offset(b)", X.assign(y=COUNTS)), "give its values as offset= instead",
    ),
    "labels for a regressor's formula": (
        lambda: counts().fit_formula("y ~ a", X.assign(y=LABELS)), "use a classifier (--family binomial)",
    ),
    "a link for an own likelihood": (
        lambda: BGLMRegressor(family=OwnLikelihood(lambda y, X, w, p: 0.0), link="log").fit(X, COUNTS),
        "a likelihood of your own has no link; leave link out",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_one_sentence(name):
    call, words = MISTAKES[name]
    with pytest.raises(InputError) as caught:
        call()
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--target y --family binom", "unknown --family 'binom'; choose one of gaussian, binomial, poisson, gamma"),
        ("--target label --family poisson --drop f", "use a classifier (--family binomial)"),
        ("--target y --family poisson --formula a+b --weights y", "column 'y' is in the formula and has another role"),
        ("--formula y~a+b --family poisson --offset b", "column 'b' is in the formula and has another role"),
        ("--formula y~a+nope --family poisson --offset b", "the formula names column 'nope'"),
    ],
)
def test_one_line_in_the_shell(options, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X.assign(y=COUNTS, label=LABELS, f="text").to_csv("data.csv", index=False)
    assert main(["fit", "data.csv", *options.split()]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


def test_the_page_of_a_formula_names_the_response_as_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X.assign(y=COUNTS).to_csv("data.csv", index=False)
    assert main("fit data.csv --target y --family poisson --formula a+b".split()) == 0
    assert " y in data.csv " in capsys.readouterr().out


def test_plots_of_counts_know_offsets_and_draw_the_intervals_themselves():
    pytest.importorskip("matplotlib")
    from modejump.plots import plot_prediction

    # Rare counts: intervals end at zero, below the mean.
    rare = np.where(np.arange(ROWS) < 4, 1.0, 0.0)
    model = counts().fit(X, rare, offset=EXPOSURE)
    predicted = model.predict(X, interval=0.5, offset=EXPOSURE)
    assert (predicted["upper"] < predicted["mean"]).any()
    with pytest.raises(InputError, match="give offset="):
        plot_prediction(model, X, rare)
    ax = plot_prediction(model, X, rare, level=0.5, offset=EXPOSURE)
    drawn = np.vstack([path[:, 0] for lines in ax.collections for path in lines.get_segments()])
    expected = predicted[["lower", "upper"]].to_numpy()
    np.testing.assert_allclose(drawn[np.lexsort(drawn.T)], expected[np.lexsort(expected.T)])
    with pytest.raises(InputError, match="plot a regressor's predictions"):
        plot_prediction(BGLMClassifier().fit(X, LABELS), X, LABELS)


def test_a_term_that_separates_is_found_without_a_warning(tmp_path, monkeypatch, capsys):
    sharp = X.assign(sharp=np.where(LABELS == "sick", 1.0, 0.0) + 0.1 * X["b"])
    never = X.assign(never=(COUNTS == 0) * X["c"] ** 2)
    sampled = {"algorithm": "mjmcmc", "budget": Budget(steps=2000), "random_state": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ModejumpWarning)
        for options in ({}, sampled, {"coef_prior": "jeffreys", "model_prior": BernoulliPrior(0.1)}):
            model = BGLMClassifier(**options).fit(sharp, LABELS)
            assert model.inclusion_.loc["sharp", "probability"] > 0.99
            assert (model.predict(sharp) == LABELS).all()
        model = counts().fit(never, COUNTS)
        counts().fit(X, COUNTS)
    assert model.inclusion_.loc["never", "probability"] > 0.99
    assert np.isfinite(model.log_marginal_likelihood("never"))
    with pytest.warns(ModejumpWarning, match="little is known about their linear predictors"):
        mean = model.predict(never)
    assert np.isfinite(mean).all() and mean[COUNTS == 0].max() < mean[COUNTS > 0].min()
    monkeypatch.chdir(tmp_path)
    sharp.assign(y=LABELS).to_csv("data.csv", index=False)
    assert main("fit data.csv --target y --family binomial --quiet".split()) == 0
    assert capsys.readouterr().err == ""


def test_a_term_that_fits_perfectly_says_why_it_has_probability_zero(tmp_path, monkeypatch, capsys):
    words = "models with 'a' have no maximum likelihood estimate, because they fit y perfectly"
    for options in ({}, {"algorithm": "mjmcmc", "budget": Budget(steps=2000), "random_state": 1}):
        with pytest.warns(ModejumpWarning, match=words):
            model = BGLMRegressor(family="gamma", **options).fit(X, np.exp(X["a"]))
        assert model.inclusion_.loc["a", "probability"] == 0.0
        assert model.log_marginal_likelihood("a") == -np.inf
    monkeypatch.chdir(tmp_path)
    X.assign(y=np.exp(X["a"])).to_csv("data.csv", index=False)
    assert main("fit data.csv --target y --family gamma --quiet".split()) == 0
    assert words in capsys.readouterr().err
