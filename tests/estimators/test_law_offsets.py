"""Offsets in a search for laws, and responses that are constant but for their offset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from family_twin import fit as plain_fit
from paper_rules import paper

import modejump
from modejump import BGLMRegressor, BGNLMClassifier, BGNLMRegressor, Budget, InputError, Problem, Run
from modejump.cli import main
from modejump.posterior.posterior import Posterior
from modejump.priors.compiled import log_prior_of
from modejump.problem.feature_problem import feature_problem
from modejump.problem.fingerprint import fingerprints

ROWS = 120
BUDGET = Budget(warmup=600, steps=600)
SEARCH: dict[str, Any] = {"chains": 2, "budget": BUDGET, "transforms": ("sin",), "random_state": 1} | {
    name: value for name, value in paper().items() if name != "family"
}


def data(family: str) -> tuple[pd.DataFrame, np.ndarray, pd.Series]:
    """Exposures vary far more than the rate does."""
    rng = np.random.default_rng(2)
    x = pd.DataFrame(rng.uniform(0.5, 2.5, (ROWS, 3)), columns=["a", "b", "c"])
    offset = pd.Series(rng.normal(0.0, 1.5, ROWS), name="exposure")
    eta = offset + 0.8 * x["a"] * x["b"] - 1.0
    if family == "binomial":
        return x, (rng.random(ROWS) < 1 / (1 + np.exp(-eta))).astype(int), offset
    y = rng.poisson(np.exp(eta)) if family == "poisson" else rng.gamma(4.0, np.exp(eta) / 4.0)
    return x, np.asarray(y, dtype=float), offset


def searcher(family: str, **more: Any) -> Any:
    if family == "binomial":
        return BGNLMClassifier(**SEARCH | more)
    return BGNLMRegressor(family=family, **SEARCH | more)


@pytest.mark.parametrize("algorithm", ["rgmjmcmc", "gmjmcmc"])
@pytest.mark.parametrize("family", ["binomial", "poisson", "gamma"])
@pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")
def test_models_of_laws_are_worth_what_selection_says(family, algorithm):
    x, y, offset = data(family)
    budget = BUDGET if algorithm == "rgmjmcmc" else Budget(steps=600)
    model = searcher(family, algorithm=algorithm, budget=budget).fit(x, y, offset=offset)
    assert model.offset_ == "exposure"
    texts = ["a*b", "c"]
    problem = Problem.build(
        np.column_stack([x["a"] * x["b"], x["c"]]), y, terms={t: [j] for j, t in enumerate(texts)}, family=family,
        offset=offset.to_numpy(), coef_prior="g",
    )  # fmt: skip
    alike = Posterior(problem, model.posterior_.result)
    for features in ([], ["a*b"], ["a*b", "c"]):
        expected = alike.log_marginal_likelihood(features)
        assert model.log_marginal_likelihood(features) == pytest.approx(expected, abs=1e-6)
    # The chains weigh models by the same numbers; of a law with several spellings they know the sum.
    aliases, laws = model.inclusion_["aliases"], model.problem_
    plain = [row for row in model.models_.itertuples() if not any(aliases[text] for text in row.features)][:10]
    prior = [log_prior_of(laws.index_of(row.features), laws.data.prior) for row in plain]
    worth = [model.log_marginal_likelihood(row.features) for row in plain]
    gaps = np.array([row.log_posterior for row in plain]) - np.array(prior) - np.array(worth)
    assert len(plain) > 2 and np.ptp(gaps) < 1e-6


@pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")
def test_exposures_are_told_from_laws_and_scale_predictions(tmp_path):
    x, y, offset = data("poisson")
    model = searcher("poisson").fit(x, y, offset=offset)
    assert model.best_model() == ("a*b",)
    mean = model.predict(x, offset=offset)
    np.testing.assert_allclose(model.predict(x, offset=offset + np.log(3.0)), 3.0 * mean, rtol=1e-9)
    assert model.score(x, y, offset=offset) > 0.5
    for call in (model.predict, lambda table: model.score(table, y)):
        with pytest.raises(InputError, match="new rows need one too; give offset="):
            call(x)
    loaded = modejump.load(model.save(tmp_path / "stored"))
    assert loaded.offset_ == "exposure"
    np.testing.assert_allclose(loaded.predict(x, offset=offset), mean, rtol=1e-9)
    run = Run(tmp_path / "run")
    run.fit(searcher("poisson"), x, y, offset=offset)
    resumed = modejump.resume(tmp_path / "run")
    np.testing.assert_allclose(resumed.predict(x, offset=offset), mean, rtol=1e-9)
    other = searcher("poisson", random_state=2).fit(x, y, offset=offset)
    assert modejump.merge(model, other).predict(x, offset=offset).shape == mean.shape
    with pytest.raises(InputError, match="the data differ"):
        modejump.merge(model, searcher("poisson", random_state=2).fit(x, y, offset=offset + x["a"]))


def test_an_offset_is_part_of_the_data_and_of_no_gaussian_search():
    x, y, offset = data("poisson")
    names = list(x.columns)
    how: dict[str, Any] = {"transforms": (), "space": modejump.Space(), "family": "poisson"}
    digests = [
        fingerprints(feature_problem(x.to_numpy(), y, names, offset=part, **how))["data"]
        for part in (None, np.zeros(ROWS), offset.to_numpy(), -offset.to_numpy())
    ]
    assert digests[0] == digests[1] and len(set(digests)) == 3
    with pytest.raises(InputError, match="take it from y instead"):
        BGNLMRegressor(**SEARCH).fit(x, y, offset=offset)


@pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")
def test_the_shell_searches_with_an_offset(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    x, y, offset = data("poisson")
    x.assign(y=y, exposure=offset).to_csv("data.csv", index=False)
    line = (
        "fit data.csv --target y --family poisson --transforms sin --offset exposure --chains 2 --steps 600 --out run"
    )
    assert main(line.split()) == 0
    assert "exposure" not in capsys.readouterr().out.split("feature")[-1]
    assert main("predict run data.csv".split()) == 0
    x.to_csv("new.csv", index=False)
    capsys.readouterr()
    assert main("predict run new.csv".split()) == 2
    assert "the offset 'exposure' is not a column" in capsys.readouterr().err


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_a_constant_response_with_an_offset_that_varies(family):
    # One event in each row, after times that depend on a covariate.
    rng = np.random.default_rng(4)
    x = rng.normal(size=(80, 3))
    offset = np.log(rng.exponential(np.exp(-0.8 * x[:, 0])))
    model = BGLMRegressor(family=family).fit(x, np.ones(80), offset=offset)
    assert np.isfinite(model.predict(x, offset=offset)).all()
    if family == "gamma":
        # Under the log link an offset is a factor of the response.
        moved = BGLMRegressor(family=family).fit(x, np.exp(-offset))
        pd.testing.assert_frame_equal(model.inclusion_, moved.inclusion_, atol=1e-8)
    else:
        assert model.best_model() == ("x0",)
        # The offset moves into the response of a gamma model with shape one: the estimates are the same.
        times = np.exp(offset)
        design = np.column_stack([np.ones(80), x[:, 0]])
        beta = plain_fit("gamma", "log", design, times)[0]
        exact = BGLMRegressor(family=family, coef_prior="bic").fit(x[:, :1], np.ones(80), offset=offset)
        np.testing.assert_allclose(exact.coefficients("best")["mean"], -beta, atol=1e-6)
    with pytest.raises(InputError, match="y is constant"):
        BGLMRegressor(family=family).fit(x, np.ones(80), offset=np.full(80, 0.3))
    with pytest.raises(InputError, match="y is constant"):
        BGLMRegressor(family=family).fit(x, np.ones(80))


def test_counts_of_zero_alone_have_no_estimate():
    x = np.random.default_rng(4).normal(size=(30, 2))
    with pytest.raises(InputError, match="every count is 0"):
        BGLMRegressor(family="poisson").fit(x, np.zeros(30), offset=x[:, 0])


@pytest.mark.parametrize(("family", "link"), [("gamma", "log"), ("gamma", "inverse")])
def test_offsets_over_many_orders_of_magnitude(family, link):
    rng = np.random.default_rng(11)
    x = rng.uniform(size=(80, 2))
    known = rng.normal(0.0, 10.0, 80)
    known = np.abs(known) if link == "inverse" else known
    eta = 0.3 + x[:, 0] + known
    y = rng.gamma(3.0, (1.0 / eta if link == "inverse" else np.exp(eta)) / 3.0)
    problem = Problem.build(x, y, family=family, link=link, offset=known, coef_prior="bic")
    fitted = known + problem.data.glm.start @ problem.data.glm.base
    # The score of the intercept vanishes at its estimate.
    score = y * np.exp(-fitted) - 1.0 if link == "log" else 1.0 / fitted - y
    assert abs(score.sum()) < 1e-6 * np.abs(score).sum()
