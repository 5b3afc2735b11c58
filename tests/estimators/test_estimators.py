"""The estimator: scikit-learn's contract, exact posteriors, weights, prediction, export and storage."""

import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from brute import brute_force
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import modejump
from modejump import BGLMRegressor, Budget, GPrior, InputError, ModejumpWarning, UniformPrior
from modejump.posterior import Posterior

SHORT = Budget(warmup=1000, steps=5000)


@parametrize_with_checks([BGLMRegressor(), BGLMRegressor(algorithm="mjmcmc", chains=2, budget=SHORT)])
def test_scikit_learns_contract(estimator, check):
    check(estimator)


def table(rows: int = 60, seed: int = 3) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(rows, 4)), columns=list("abcd"))
    X["f"] = pd.Categorical(rng.choice(["u", "v", "w"], rows), categories=["u", "v", "w"])
    X["b"] += 0.8 * X["a"]
    y = 2.0 + X["a"] - X["c"] + 1.5 * (X["f"] == "w") + rng.normal(size=rows)
    return X, y.to_numpy()


def test_probabilities_are_those_of_a_brute_force_enumeration():
    X, y = table()
    model = BGLMRegressor(coef_prior="hyper-g").fit(X, y)
    brute = Posterior(model.problem_, brute_force(model.problem_))
    pd.testing.assert_frame_equal(model.inclusion_, brute.inclusion, atol=1e-9, check_exact=False)
    assert model.best_model() == brute.best_model() and model.median_model() == brute.median_model()
    assert list(model.inclusion_.columns) == [
        "probability",
        "mcse",
        "ess",
        "r_hat",
        "renormalised",
        "complexity",
    ]
    assert list(model.models_.columns) == ["features", "log_posterior", "probability", "renormalised", "size"]
    assert model.verdict_.level == "exact" and model.verdict_ in model.summary().replace("\n", " ").replace("  ", "")


def test_crime_agrees_with_the_reference(crime, crime_pips):
    model = BGLMRegressor(coef_prior=GPrior(g=47), model_prior=UniformPrior()).fit(crime.X, crime.y)
    reference = crime_pips[crime_pips["prior"] == "g-prior"].set_index("variable")["pip"].drop("Intercept")
    # The reference counts columns from 1.
    got = model.inclusion_["probability"].reindex([f"x{int(name[1:]) - 1}" for name in reference.index])
    np.testing.assert_allclose(got, reference, atol=1e-7)


def test_sampling_agrees_with_enumeration_within_its_own_error():
    X, y = table(rows=25)
    exact = BGLMRegressor().fit(X, y).inclusion_["probability"]
    sampled = BGLMRegressor(algorithm="mjmcmc", budget=Budget(steps=100_000), random_state=1).fit(X, y)
    inclusion = sampled.inclusion_.loc[exact.index]
    # Five errors for each of five features: a correct sampler fails here less than once in 10^5 runs.
    assert (np.abs(inclusion["probability"] - exact) < 5 * inclusion["mcse"] + 1e-12).all()
    np.testing.assert_allclose(inclusion["renormalised"], exact, atol=1e-9)
    assert sampled.verdict_.level == "good"


@pytest.mark.parametrize("make", [lambda: 7, lambda: np.random.default_rng(7)])
def test_one_seed_gives_one_answer_for_any_number_of_workers(make):
    X, y = table()
    fits = [
        BGLMRegressor(algorithm="mjmcmc", budget=SHORT, random_state=make(), n_jobs=jobs).fit(X, y) for jobs in (1, 2)
    ]
    pd.testing.assert_frame_equal(fits[0].inclusion_, fits[1].inclusion_, check_exact=True)
    pd.testing.assert_frame_equal(fits[0].models_, fits[1].models_, check_exact=True)
    other = BGLMRegressor(algorithm="mjmcmc", budget=SHORT, random_state=8).fit(X, y)
    assert not other.inclusion_["probability"].equals(fits[0].inclusion_["probability"])


def test_the_order_of_the_rows_does_not_matter_to_a_single_bit():
    X, y = table()
    order = np.random.default_rng(9).permutation(len(y))
    shuffled = X.iloc[order].reset_index(drop=True)
    for options in ({}, {"algorithm": "mjmcmc", "budget": SHORT, "random_state": 1}):
        one, two = (BGLMRegressor(**options).fit(*data) for data in ((X, y), (shuffled, y[order])))
        pd.testing.assert_frame_equal(one.inclusion_, two.inclusion_, check_exact=True)
        np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_many_terms_are_sampled_and_few_are_enumerated():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 21))
    y = x[:, 0] + rng.normal(size=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModejumpWarning)
        sampled = BGLMRegressor(budget=SHORT, random_state=0).fit(x, y)
    assert sampled.posterior_.result.algorithm == "mjmcmc"
    assert BGLMRegressor().fit(x[:, :20], y).posterior_.exact


def test_a_doubtful_run_warns_with_its_verdict():
    x = np.random.default_rng(4).normal(size=(30, 8))
    y = x @ np.linspace(0.0, 0.6, 8) + np.random.default_rng(5).normal(size=30)
    with pytest.warns(ModejumpWarning) as caught:
        model = BGLMRegressor(algorithm="mjmcmc", chains=2, budget=Budget(warmup=0, steps=200), random_state=1).fit(
            x, y
        )
    assert model.verdict_.level in ("doubtful", "bad")
    more = " To run longer, ask for more steps of each chain, such as budget=Budget(steps=804)."
    assert str(model.verdict_) + more in [str(w.message) for w in caught]


def test_case_weights_are_repetitions():
    X, y = table()
    weights = np.random.default_rng(8).integers(0, 4, len(y))
    weighted = BGLMRegressor(coef_prior="jzs").fit(X, y, sample_weight=weights)
    rows = np.repeat(np.arange(len(y)), weights)
    repeated = BGLMRegressor(coef_prior="jzs").fit(X.iloc[rows].reset_index(drop=True), y[rows])
    pd.testing.assert_frame_equal(weighted.inclusion_, repeated.inclusion_, atol=1e-9, check_exact=False)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-9)
    pd.testing.assert_frame_equal(weighted.predict(X, interval=0.8), repeated.predict(X, interval=0.8), rtol=1e-6)


def test_frames_of_both_kinds_and_arrays_agree():
    X, y = table()
    numeric = X.drop(columns="f")
    by_pandas = BGLMRegressor().fit(numeric, y)
    by_polars = BGLMRegressor().fit(pl.DataFrame({c: X[c].to_numpy() for c in numeric}), pl.Series(y))
    by_array = BGLMRegressor().fit(numeric.to_numpy(), y)
    assert by_pandas.inclusion_.equals(by_polars.inclusion_)
    names = {f"x{j}": name for j, name in enumerate(numeric.columns)}
    assert by_array.inclusion_.rename(index=names).equals(by_pandas.inclusion_)
    np.testing.assert_array_equal(by_array.predict(numeric.to_numpy()), by_pandas.predict(numeric))


@pytest.mark.parametrize("always_in", [["c", "f"], [2, 4], "c"])
def test_terms_always_in_are_part_of_every_model(always_in):
    X, y = table()
    model = BGLMRegressor(always_in=always_in).fit(X, y)
    inside = {"c"} if always_in == "c" else {"c", "f"}
    assert set(model.inclusion_.index) == set(X.columns) - inside
    assert set(model.problem_.always_in) == inside
    design = np.column_stack([np.ones(len(X)), X[list("abcd")], X["f"] == "v", X["f"] == "w"])
    np.testing.assert_allclose(model.predict(X), design @ np.r_[model.intercept_, model.coef_], rtol=1e-9)
    assert model.log_marginal_likelihood(["a", "c"]) == model.log_marginal_likelihood(["a"])


def test_groups_enter_and_leave_together():
    X, y = table()
    model = BGLMRegressor(groups={"ab": ["a", "b"], "rest": [3, "f"]}).fit(X, y)
    assert set(model.inclusion_.index) == {"ab", "c", "rest"}
    assert model.posterior_.n_models == 8
    assert model.problem_.n_columns == 6


def test_a_formula_is_a_table_written_otherwise():
    X, y = table()
    by_table = BGLMRegressor().fit(X[["a", "b", "f"]], y)
    data = X.assign(y=y)
    by_formula = BGLMRegressor().fit_formula("y ~ a + b + f", data)
    pd.testing.assert_frame_equal(by_formula.inclusion_, by_table.inclusion_, atol=1e-12, check_exact=False)
    np.testing.assert_allclose(by_formula.predict(data), by_table.predict(X[["a", "b", "f"]]), rtol=1e-12)
    shuffled = data[list(data.columns[::-1])]
    np.testing.assert_array_equal(by_formula.predict(shuffled), by_formula.predict(data))
    assert list(by_formula.feature_names_in_) == ["a", "b", "f"]


def test_a_formula_without_intercept_has_none():
    X, y = table()
    model = BGLMRegressor().fit_formula("y ~ 0 + a + c", X.assign(y=y))
    assert model.intercept_ == 0.0
    np.testing.assert_allclose(model.predict(X.assign(y=y)), X[["a", "c"]] @ model.coef_, rtol=1e-9)
    zero = X.assign(y=y, a=0.0, c=0.0)
    np.testing.assert_allclose(model.predict(zero), 0.0, atol=1e-12)


def test_heredity_works_through_formulas():
    X, y = table()
    prior = modejump.BetaBinomialPrior(heredity="strong")
    model = BGLMRegressor(model_prior=prior).fit_formula("y ~ a * c + b", X.assign(y=y))
    features = model.posterior_.models(None)["features"]
    assert any("a:c" in f for f in features)
    assert all({"a", "c"} <= set(f) for f in features if "a:c" in f)


@pytest.mark.parametrize("kind", ["bma", "best", "median"])
def test_prediction_is_the_equation_and_intervals_enclose_it(kind):
    X, y = table()
    model = BGLMRegressor().fit(X, y)
    mean = model.predict(X, kind=kind)
    coef = model.coefficients(kind)
    design = np.column_stack([np.ones(len(X)), X[list("abcd")], X["f"] == "v", X["f"] == "w"])
    assert list(coef.index) == ["(intercept)", "a", "b", "c", "d", "f[T.v]", "f[T.w]"]
    np.testing.assert_allclose(mean, design @ coef["mean"], rtol=1e-9)
    new = X.set_index(pd.Index(range(100, 100 + len(X))))
    interval = model.predict(new, interval=0.9, kind=kind)
    assert list(interval.columns) == ["mean", "lower", "upper"] and interval.index.equals(new.index)
    np.testing.assert_allclose(interval["mean"], mean)
    assert (interval["lower"] < mean).all() and (mean < interval["upper"]).all()
    wider = model.predict(X, interval=0.99, kind=kind)
    assert (wider["upper"].to_numpy() > interval["upper"].to_numpy()).all()


def test_bayes_factors_are_relative_to_the_base_model():
    X, y = table()
    model = BGLMRegressor(model_prior="uniform").fit(X, y)
    assert model.log_marginal_likelihood([]) == 0.0
    assert model.log_marginal_likelihood("a") == model.log_marginal_likelihood(["a"])
    best, second = model.models_.iloc[0], model.models_.iloc[1]
    gap = model.log_marginal_likelihood(best["features"]) - model.log_marginal_likelihood(second["features"])
    assert gap == pytest.approx(best["log_posterior"] - second["log_posterior"], abs=1e-9)


def test_it_works_inside_pipelines_and_searches():
    X, y = load_diabetes(return_X_y=True)
    scores = cross_val_score(make_pipeline(StandardScaler(), BGLMRegressor()), X, y, cv=3)
    assert (scores > 0).all()
    search = GridSearchCV(BGLMRegressor(), {"coef_prior": ["g", "jzs", GPrior(g=10)]}, cv=2).fit(X, y)
    assert search.best_estimator_.n_features_in_ == 10
    assert clone(search.best_estimator_).get_params()["coef_prior"] == search.best_params_["coef_prior"]


def test_the_summary_is_a_page_one_can_read():
    X, y = table()
    text = BGLMRegressor(always_in=["b"], coef_prior="hyper-g").fit(X, y).summary(features=3, models=2)
    assert all(len(line) <= 88 for line in text.splitlines())
    for words in (
        "60 rows, 4 terms to select (5 columns)",
        "intercept, b",
        "hyper-g (a = 3)",
        "beta-binomial",
        "exact",
    ):
        assert words in text.replace("\N{NO-BREAK SPACE}", " ")
    assert "... and 1 more" in text
    sampled = BGLMRegressor(algorithm="mjmcmc", budget=Budget(steps=50_000), random_state=1).fit(X, y).summary()
    assert "±" in sampled and "MJMCMC, 4 chains" in sampled


@pytest.mark.parametrize("make", ["table", "formula", "sampled"])
def test_a_saved_model_answers_as_before(make, tmp_path):
    X, y = table()
    data = X.assign(y=y)
    if make == "formula":
        model = BGLMRegressor(coef_prior="jzs").fit_formula("y ~ a + f + np.exp(a):b", data)
    elif make == "sampled":
        model = BGLMRegressor(algorithm="mjmcmc", budget=SHORT, random_state=1).fit(X, y)
    else:
        model = BGLMRegressor(coef_prior=GPrior(g=9.0), groups={"g": ["a", "b"]}, always_in=["d"]).fit(X, y)
    model.save(tmp_path / "run")
    again = modejump.load(tmp_path / "run")
    new = data if make == "formula" else X
    pd.testing.assert_frame_equal(again.inclusion_, model.inclusion_)
    assert again.models_.equals(model.models_) and again.best_model() == model.best_model()
    assert again.verdict_ == model.verdict_ and again.seed_ == model.seed_
    for kind in ("bma", "best", "median"):
        pd.testing.assert_frame_equal(
            again.predict(new, interval=0.9, kind=kind),
            model.predict(new, interval=0.9, kind=kind),
            rtol=1e-9,
        )
    np.testing.assert_allclose(again.coef_, model.coef_, rtol=1e-9)
    assert again.log_marginal_likelihood(["f"]) == pytest.approx(model.log_marginal_likelihood(["f"]), rel=1e-9)
    for name, value in clone(again).get_params().items():
        if name not in ("random_state", "always_in", "groups", "coef_prior", "model_prior"):
            assert value == getattr(model, name)
    refitted = clone(again).fit_formula(model.table_.formula, data) if make == "formula" else clone(again).fit(X, y)
    assert refitted.inclusion_.equals(model.inclusion_)


def test_what_has_no_plain_form_is_not_saved(tmp_path):
    X, y = table()
    model = BGLMRegressor().fit_formula("y ~ bs(a, df=4) + b", X.assign(y=y))
    assert np.isfinite(model.predict(X.assign(y=y))).all()
    with pytest.raises(InputError, match="cannot be stored"):
        model.save(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_fitted_model_pickles():
    X, y = table()
    model = BGLMRegressor().fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.verdict_.level == "exact"


def test_a_model_mapped_from_a_file_predicts(tmp_path):
    X, y = table()
    model = BGLMRegressor().fit(X, y)
    joblib.dump(model, tmp_path / "model")
    again = joblib.load(tmp_path / "model", mmap_mode="r")
    np.testing.assert_array_equal(again.predict(X, interval=0.9), model.predict(X, interval=0.9))
    assert again.log_marginal_likelihood(["a"]) == model.log_marginal_likelihood(["a"])


def test_equations_as_latex():
    X, y = table()
    model = BGLMRegressor().fit(X.rename(columns={"a": "a_1"}), y)
    text = model.to_latex()
    assert text.startswith(r"\hat{y} = ") and r"\,\mathrm{a\_1}" in text and r"\mathrm{d}" not in text
    assert r"\mathrm{d}" in model.to_latex(kind="bma")


def test_equations_as_sympy_or_a_sentence(monkeypatch):
    X, y = table()
    model = BGLMRegressor().fit(X, y)
    monkeypatch.setitem(__import__("sys").modules, "sympy", None)
    with pytest.raises(InputError, match="pip install"):
        model.to_sympy()
    monkeypatch.undo()
    sympy = pytest.importorskip("sympy", reason="SymPy is an extra and not installed here")
    for kind in ("best", "bma"):
        row = X.iloc[[5]]
        values = dict(zip(model.table_.design_names, model.table_.apply(row)[0].tolist(), strict=True))
        value = model.to_sympy(kind).subs({sympy.Symbol(n): v for n, v in values.items()})
        assert float(value) == pytest.approx(float(model.predict(row, kind=kind)[0]), rel=1e-9)


def test_public_names_are_there_and_lazy():
    for name in modejump.__all__:
        assert getattr(modejump, name) is not None and name in dir(modejump)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        modejump.Nothing  # noqa: B018


def test_progress_is_told_to_a_callable():
    X, y = table()
    seen = []
    BGLMRegressor(
        algorithm="mjmcmc",
        budget=SHORT,
        random_state=0,
        progress=lambda done, total, note: seen.append((done, total, note)),
    ).fit(X, y)
    assert seen and all(done <= total for done, total, _ in seen)
    assert any(note.startswith("sampling") for *_, note in seen)
