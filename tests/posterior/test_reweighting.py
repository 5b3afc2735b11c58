"""Another prior without another run: after enumeration what a new fit gives, after sampling the models evaluated."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from modejump import BernoulliPrior, BetaBinomialPrior, BGLMClassifier, BGLMRegressor, Budget, UniformPrior, load
from modejump.core.errors import InputError


def data(rows: int = 70, terms: int = 6) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(11)
    X = pd.DataFrame(rng.normal(size=(rows, terms)), columns=[f"col{j}" for j in range(terms)])
    return X, 1.0 + 0.5 * X["col0"].to_numpy() - 0.3 * X["col2"].to_numpy() + rng.normal(size=rows)


def response(family: str, X: pd.DataFrame) -> np.ndarray:
    rng = np.random.default_rng(12)
    eta = 0.3 + 0.5 * X["col0"].to_numpy()
    if family == "binomial":
        return (eta + rng.logistic(size=len(eta)) > 0.0).astype(int)
    if family == "poisson":
        return rng.poisson(np.exp(eta)).astype(float)
    if family == "gamma":
        return rng.gamma(3.0, np.exp(eta) / 3.0)
    return eta + rng.normal(size=len(eta))


def estimator(family: str, **options: Any) -> Any:
    return BGLMClassifier(**options) if family == "binomial" else BGLMRegressor(family=family, **options)


def sampled(X: pd.DataFrame, y: np.ndarray) -> Any:
    return BGLMRegressor(algorithm="mjmcmc", budget=Budget(steps=20_000), random_state=1).fit(X, y)


OTHER = [
    {"model_prior": BernoulliPrior(0.1)},
    {"model_prior": UniformPrior(max_size=3)},
    {"coef_prior": "hyper-g"},
    {"model_prior": BetaBinomialPrior(1, 5), "coef_prior": "bic"},
]


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson", "gamma"])
@pytest.mark.parametrize("priors", OTHER, ids=["bernoulli", "max_size", "hyper-g", "both"])
def test_after_enumeration_it_is_a_new_fit(family: str, priors: dict[str, Any]) -> None:
    X, _ = data()
    y = response(family, X)
    model = estimator(family, model_prior="uniform").fit(X, y)
    before = model.inclusion_["probability"].copy()
    ours, fresh = model.reweight(**priors), estimator(family, **{"model_prior": "uniform"} | priors).fit(X, y)
    gap = ours.inclusion_["probability"] - fresh.inclusion_["probability"]
    assert np.abs(gap).max() < 1e-10
    one, other = ours.models_, fresh.models_
    assert one["features"].tolist() == other["features"].tolist()
    assert np.abs(one["probability"] - other["probability"]).max() < 1e-10
    assert np.abs(one["log_posterior"] - other["log_posterior"]).max() < 1e-8
    pd.testing.assert_frame_equal(ours.confint(), fresh.confint(), rtol=1e-6, atol=1e-8)
    assert ours.verdict_.level == "exact" and ours.verdict_.search == "complete"
    assert ours.get_params()["model_prior"] == priors.get("model_prior", "uniform")
    # The model itself stays as it is.
    pd.testing.assert_series_equal(model.inclusion_["probability"], before)


def test_a_prior_with_models_that_were_left_out(tmp_path: Any) -> None:
    X, _ = data()
    y = response("poisson", X)
    few = estimator("poisson", model_prior=UniformPrior(max_size=2)).fit(X, y)
    fresh = estimator("poisson", model_prior="uniform").fit(X, y)
    # With its rows the model enumerates again; read from a file it knows that something is missing.
    gap = few.reweight(model_prior="uniform").inclusion_["probability"] - fresh.inclusion_["probability"]
    assert np.abs(gap).max() < 1e-10
    few.save(tmp_path / "few")
    with pytest.warns(UserWarning, match="the prior of the run left models out that the new one has"):
        ours = load(tmp_path / "few").reweight(model_prior="uniform")
    assert ours.verdict_.level == "doubtful" and ours.verdict_.search == "uncertain"


def test_reweighting_twice_goes_back() -> None:
    X, y = data()
    model = sampled(X, y)
    other = model.reweight(model_prior=BernoulliPrior(0.3), coef_prior="bic")
    back = other.reweight(model_prior="beta-binomial", coef_prior="g")
    gap = back.inclusion_["probability"] - model.inclusion_["renormalised"]
    assert np.abs(gap).max() < 1e-10
    assert str(back.verdict_).count("The verdict of the run was: Over") == 1


def test_after_sampling_it_renormalises_and_says_so() -> None:
    X, y = data(terms=8)
    model = sampled(X, y)
    exact = BGLMRegressor(model_prior=BernoulliPrior(0.2)).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = model.reweight(model_prior=BernoulliPrior(0.2))
    gap = ours.inclusion_["probability"] - exact.inclusion_["probability"]
    assert np.abs(gap).max() < 0.01
    text = str(ours.verdict_)
    assert text.startswith("Reweighted to the model prior bernoulli (q = 0.2): probabilities are renormalised over ")
    assert "that mjmcmc evaluated" in text and "The verdict of the run was: Over" in text
    assert ours.verdict_.level == "good"
    assert "then reweighted to the model prior bernoulli" in ours.summary().replace("\n", " ")
    assert ours.confint().loc["col0", "probability"] == pytest.approx(
        exact.confint().loc["col0", "probability"], abs=0.02
    )


def test_a_prior_far_away_is_warned_of() -> None:
    rng = np.random.default_rng(13)
    X = pd.DataFrame(rng.normal(size=(100, 40)), columns=[f"col{j}" for j in range(40)])
    y = X["col0"].to_numpy() + rng.normal(size=100)
    options = {"algorithm": "mjmcmc", "budget": Budget(steps=2000), "random_state": 1, "chains": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BGLMRegressor(model_prior=BernoulliPrior(0.005), **options).fit(X, y)
    with pytest.warns(UserWarning, match="better models may be missing: fit again under the new priors"):
        ours = model.reweight(model_prior=BernoulliPrior(0.95), coef_prior="aic")
    assert ours.verdict_.level in ("doubtful", "bad") and ours.verdict_.search == "uncertain"


def test_a_posterior_that_no_table_holds_is_warned_of() -> None:
    rng = np.random.default_rng(14)
    X = pd.DataFrame(rng.normal(size=(100, 40)), columns=[f"col{j}" for j in range(40)])
    y = X.to_numpy()[:, :20] @ np.full(20, 0.15) + rng.normal(size=100)
    options = {"algorithm": "mjmcmc", "budget": Budget(steps=2000), "random_state": 1, "chains": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BGLMRegressor(model_prior="uniform", **options).fit(X, y)
    assert model.posterior_.result.unvisited > 0.5
    with pytest.warns(UserWarning, match="models that no chain visited held .* of that"):
        ours = model.reweight(model_prior=BernoulliPrior(0.45))
    assert ours.verdict_.search == "uncertain"


def test_what_cannot_be_reweighted_is_refused(tmp_path: Any) -> None:
    X, y = data()
    model = sampled(X, y)
    with pytest.raises(InputError, match="given no prior"):
        model.reweight()
    with pytest.raises(InputError, match="unknown coefficient prior 'flat'"):
        model.reweight(coef_prior="flat")
    ours = model.reweight(model_prior="uniform")
    with pytest.raises(InputError, match="a reweighted model is not saved"):
        ours.save(tmp_path / "run")
    counts = BGLMRegressor(family="poisson").fit(X, response("poisson", X))
    with pytest.raises(InputError, match="known-variance"):
        counts.reweight(coef_prior="known-variance")


def test_a_model_read_from_a_file_is_reweighted(tmp_path: Any) -> None:
    X, y = data()
    model = BGLMRegressor().fit(X, y)
    model.save(tmp_path / "run")
    fresh = BGLMRegressor(coef_prior="bic", model_prior="uniform").fit(X, y)
    ours = load(tmp_path / "run").reweight(coef_prior="bic", model_prior="uniform")
    gap = ours.inclusion_["probability"] - fresh.inclusion_["probability"]
    assert np.abs(gap).max() < 1e-10
    counts = BGLMRegressor(family="poisson").fit(X, response("poisson", X))
    counts.save(tmp_path / "counts")
    read = load(tmp_path / "counts")
    wanted = counts.reweight(model_prior="uniform").inclusion_["probability"]
    pd.testing.assert_series_equal(read.reweight(model_prior="uniform").inclusion_["probability"], wanted)
    with pytest.raises(InputError, match="needs the rows"):
        read.reweight(coef_prior="bic")
