"""Discovery of laws: scikit-learn's contract, laws recovered, prediction, equations, storage, and bad input."""

import copy
import dataclasses
import json
import pickle
import re
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from paper_rules import paper
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import modejump
from modejump import (
    BernoulliPrior,
    BGNLMRegressor,
    Budget,
    ComplexityPrior,
    InputError,
    ModejumpWarning,
    Space,
)
from modejump.experiments import simulate_planets
from modejump.features.nonlinear.expression import Feature, evaluate
from modejump.samplers.result import members_of

SHORT = Budget(steps=3000)
KEPLER = "troot(Period*Period*StarMass)"
PAPER = paper() | {"transforms": ("sigmoid", "sin", "exp_abs", "log1p_abs", "troot", "to23", "to35")}


@parametrize_with_checks(
    [
        BGNLMRegressor(
            chains=2,
            budget=Budget(warmup=400, steps=800),
            space=Space(complexity=5, size=3, population=8),
            transforms=("square", "exp"),
        )
    ]
)
@pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")
def test_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def planets() -> tuple[pd.DataFrame, pd.Series]:
    table = simulate_planets(120, seed=3)
    return table.drop(columns="SemiMajorAxis"), table["SemiMajorAxis"]


@pytest.fixture(scope="module")
def kepler(planets) -> BGNLMRegressor:
    options = {"coef_prior": "jeffreys", "chains": 8, "budget": Budget(steps=30_000), "random_state": 2}
    return BGNLMRegressor(**PAPER | options).fit(*planets)


@pytest.fixture(scope="module")
def searched(planets) -> BGNLMRegressor:
    options = {"coef_prior": "jeffreys", "chains": 8, "budget": Budget(steps=30_000), "random_state": 2}
    return BGNLMRegressor(**PAPER | options | {"algorithm": "gmjmcmc"}).fit(*planets)


def small(rows: int = 60, seed: int = 5) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(0.5, 3.0, (rows, 3)), columns=["a", "b", "c"])
    return X, 1.0 + 2.0 * X["a"].to_numpy() * np.sin(X["b"].to_numpy()) + 0.1 * rng.standard_normal(rows)


def array_name(text: str) -> str:
    """The text of a feature of a, b and c where the columns have no names of their own."""
    return re.sub(r"\b[abc]\b", lambda found: "x" + str("abc".index(found[0])), text)


def level(comparisons: int) -> float:
    """Standard errors that so many comparisons exceed by chance once in 10 000 runs."""
    return float(norm.isf(0.5e-4 / comparisons))


def quick(**options) -> BGNLMRegressor:
    given = {"chains": 4, "budget": Budget(steps=6000), "random_state": 1} | options
    if isinstance(space := given.get("space"), Space):
        given["space"] = dataclasses.replace(space, rules="paper")
    return BGNLMRegressor(**PAPER | given)


@pytest.mark.parametrize("algorithm", ["kepler", "searched"])
def test_keplers_law_is_found_with_its_constant(algorithm, request):
    model = request.getfixturevalue(algorithm)
    assert model.best_model() == model.median_model() == (KEPLER,)
    table = model.inclusion_
    assert table.index[0] == KEPLER and table["probability"].iloc[0] > 0.99
    assert table.loc[KEPLER, "complexity"] == 4
    assert (model.verdict_.level, model.verdict_.search) == ("good", "well searched")
    assert re.search(r"of \d+ independent searches met the best model\.", model.verdict_)
    row = model.coefficients("best").loc[KEPLER]
    # The year in days to the power -2/3, within four posterior standard deviations (once in 16 000 runs outside).
    assert abs(row["mean"] - 365.25 ** (-2 / 3)) < 4 * row["sd"]


COLUMNS = ["probability", "mcse", "ess", "r_hat", "renormalised", "complexity", "aliases"]


def test_tables_have_the_documented_columns(kepler):
    table = kepler.inclusion_
    assert list(table.columns) == COLUMNS and table.index.name == "feature"
    assert table["probability"].is_monotonic_decreasing and table["probability"].between(0.0, 1.0).all()
    varied = table[table["probability"].between(0.0, 1.0, inclusive="neither")]
    assert len(varied) > 5 and (varied["mcse"] > 0.0).all()
    assert varied["ess"].between(1.0, kepler.posterior_.result.steps).all()
    # A law that was in during the middle batch alone varies in neither half.
    in_halves = varied["r_hat"].dropna()
    assert len(in_halves) > 5 and (in_halves > 1.0 - 1e-4).all()
    assert (table["mcse"].drop(varied.index) < 1e-15).all()
    assert table.loc[table.index.difference(varied.index), ["ess", "r_hat"]].isna().all().all()
    assert all(isinstance(a, tuple) for a in table["aliases"])
    models = kepler.models_
    assert list(models.columns) == ["features", "log_posterior", "probability", "renormalised", "size"]
    assert models["log_posterior"].is_monotonic_decreasing
    assert kepler.posterior_.steps_per_second > 0.0


def test_tables_of_a_search_hold_renormalised_probabilities_without_an_error(searched):
    table = searched.inclusion_
    assert list(table.columns) == COLUMNS
    assert table[["mcse", "ess", "r_hat"]].isna().all().all()
    assert (table["probability"] == table["renormalised"]).all()
    models = searched.models_
    np.testing.assert_array_equal(models["probability"], models["renormalised"])
    assert models["probability"].is_monotonic_decreasing


def test_aliases_are_the_same_column(kepler, planets):
    X, _ = planets
    columns = {name: X[name].to_numpy() for name in X}
    for law, aliases in kepler.laws_.aliases.items():
        for alias in aliases:
            one, two = (evaluate(f, columns, kepler.laws_.constants) for f in (law, alias))
            assert abs(np.corrcoef(one, two)[0, 1]) > 1 - 1e-8


def test_frequencies_are_those_of_the_models_listed_and_of_those_that_are_not(kepler):
    models, result = kepler.posterior_.models(None), kepler.posterior_.result
    mass = models["probability"].to_numpy()
    missing = result.forgotten_visits / result.steps
    assert np.isclose(mass.sum(), 1.0 - missing) and missing < 0.05
    for text, probability in kepler.inclusion_["probability"].head(10).items():
        listed = mass[[text in features for features in models["features"]]].sum()
        assert -1e-9 <= probability - listed <= missing + 1e-9


def test_probabilities_of_a_search_are_those_of_the_models_listed(searched):
    models = searched.posterior_.models(None)
    mass = models["probability"].to_numpy()
    assert np.isclose(mass.sum(), 1.0)
    for text, probability in searched.inclusion_["probability"].head(10).items():
        assert np.isclose(mass[[text in features for features in models["features"]]].sum(), probability)


def test_frequencies_and_the_search_agree(kepler, searched):
    """Two estimates of one posterior: the frequency of the law, and its mass among the models that were found."""
    row = kepler.inclusion_.loc[KEPLER]
    found = searched.inclusion_.loc[KEPLER, "probability"]
    assert abs(row["probability"] - row["renormalised"]) <= 4 * row["mcse"] + 1e-3
    assert abs(row["probability"] - found) <= 4 * row["mcse"] + 1e-3


def test_the_log_posterior_of_a_model_is_prior_plus_likelihood(kepler):
    """The compiled search and the plain evaluation of a model by its features' columns agree."""
    n = 120
    for _, model in kepler.models_.head(20).iterrows():
        prior = -np.log(n) * sum(Feature.parse(text).complexity for text in model["features"])
        aliases = [len(kepler.inclusion_.loc[text, "aliases"]) for text in model["features"]]
        if not any(aliases):
            value = kepler.log_marginal_likelihood(model["features"])
            assert np.isclose(value + prior, model["log_posterior"], atol=1e-5)


def test_laws_are_columns_for_other_models(kepler, planets):
    X, y = planets
    made = kepler.transform(X[X.columns[::-1]])
    assert kepler.get_feature_names_out().tolist() == [KEPLER]
    # The prior of the coefficients is flat, so least squares on this column is the prediction.
    np.testing.assert_allclose(
        LinearRegression().fit(made, y).predict(made), kepler.predict(X, kind="median"), rtol=1e-6
    )


def test_features_the_search_did_not_meet_are_evaluated(kepler, planets):
    X, y = planets
    value = kepler.log_marginal_likelihood(["sin(Eccentricity)*Density", Feature("StarTemp")])
    columns = np.column_stack([np.sin(X["Eccentricity"]) * X["Density"], X["StarTemp"]])
    plain = modejump.BGLMRegressor(coef_prior="jeffreys").fit(columns, y)
    assert np.isclose(value, plain.log_marginal_likelihood(["x0", "x1"]))
    assert kepler.log_marginal_likelihood("StarMass*troot(Period)") > kepler.log_marginal_likelihood(())
    reordered = kepler.log_marginal_likelihood("troot(StarMass*Period^2)")
    assert reordered == kepler.log_marginal_likelihood(KEPLER)
    with pytest.raises(InputError, match="Masss"):
        kepler.log_marginal_likelihood("sin(Masss)")


def test_prediction_intervals_hold_new_planets(kepler):
    new = simulate_planets(400, seed=99)
    predicted = kepler.predict(new.drop(columns="SemiMajorAxis"), interval=0.9)
    inside = new["SemiMajorAxis"].between(predicted["lower"], predicted["upper"]).mean()
    # Four standard errors of a share of 0.9 among 400.
    assert abs(inside - 0.9) < 4 * np.sqrt(0.9 * 0.1 / 400)
    best = kepler.predict(new.drop(columns="SemiMajorAxis"), kind="best")
    law = np.cbrt(new["StarMass"] * new["Period"] ** 2)
    row = kepler.coefficients("best")["mean"]
    np.testing.assert_allclose(best, row["(intercept)"] + row[KEPLER] * law)


def test_sympy_and_latex_tell_what_predict_computes(kepler, planets):
    sympy = pytest.importorskip("sympy")
    X, _ = planets
    expression = kepler.to_sympy()
    names = [str(symbol) for symbol in sorted(expression.free_symbols, key=str)]
    values = sympy.lambdify(names, expression, "numpy")(*(X[name].to_numpy() for name in names))
    np.testing.assert_allclose(values, kepler.predict(X, kind="best"))
    law = r"\left|\mathrm{Period}^{2}\,\mathrm{StarMass}\right|^{1/3}"
    left, right = kepler.to_latex().split(" = ")
    assert left == r"\widehat{\mathrm{SemiMajorAxis}}" and right.endswith(r"\," + law)


WORDS = {
    "kepler": ("RGMJMCMC, 8 chains", "steps after", "of warm-up", "library", "unvisited", "acceptance flip", "R-hat"),
    "searched": ("GMJMCMC, 8 chains", "populations", "restart"),
}


@pytest.mark.parametrize("algorithm", WORDS)
def test_the_summary_is_a_page_a_scientist_can_read(algorithm, request):
    page = request.getfixturevalue(algorithm).summary(features=5)
    assert all(len(line) <= 88 for line in page.splitlines())
    for words in ("search for laws", KEPLER, "1/n", *WORDS[algorithm]):
        assert words in " ".join(page.split())
    assert "SemiMajorAxis = " in page and "0.0195" in page


@pytest.mark.parametrize("algorithm", ["rgmjmcmc", "gmjmcmc"])
def test_one_seed_gives_one_answer_for_any_number_of_workers(algorithm):
    X, y = small()
    one, two = (quick(n_jobs=jobs, algorithm=algorithm).fit(X, y) for jobs in (1, 2))
    pd.testing.assert_frame_equal(one.inclusion_, two.inclusion_, check_exact=True)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_rows_in_any_order_and_weights_as_repetitions_change_no_bit():
    X, y = small()
    order = np.random.default_rng(9).permutation(len(y))
    counts = np.random.default_rng(8).integers(0, 3, len(y))
    repeated = np.repeat(np.arange(len(y)), counts)
    pairs = [
        (quick().fit(X, y), quick().fit(X.iloc[order], y[order])),
        (quick().fit(X, y, sample_weight=counts), quick().fit(X.iloc[repeated], y[repeated])),
    ]
    for one, two in pairs:
        pd.testing.assert_frame_equal(one.inclusion_, two.inclusion_, check_exact=True)
        np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_automatic_is_reversible_sampling():
    X, y = small()
    model, same = quick().fit(X, y), quick(algorithm="rgmjmcmc").fit(X, y)
    assert model.posterior_.result.algorithm == "rgmjmcmc" and BGNLMRegressor().algorithm == "auto"
    pd.testing.assert_frame_equal(model.inclusion_, same.inclusion_, check_exact=True)


def test_any_table_will_do():
    X, y = small()
    reference = quick().fit(X, y)
    by_polars = quick().fit(pl.from_pandas(X), pl.Series("yield", y))
    assert by_polars.target_ == "yield"
    pd.testing.assert_frame_equal(by_polars.inclusion_, reference.inclusion_, check_exact=True)
    np.testing.assert_array_equal(by_polars.predict(pl.from_pandas(X)), reference.predict(X))
    by_array = quick().fit(X.to_numpy(), y)
    assert by_array.target_ == "y" and by_array.best_model() == ("x0*sin(x1)",)
    assert reference.best_model() == ("a*sin(b)",)


def test_other_names_are_another_run_of_the_same_sampler():
    """Ties among features are ordered by their text, so names decide which random numbers fall where."""
    X, y = small()
    y = y + 2.0 * np.random.default_rng(6).standard_normal(len(y))
    options = {"transforms": ("sin",), "space": Space(depth=2, width=2, complexity=3), "budget": Budget(steps=60_000)}
    named, plain = quick(**options).fit(X, y).inclusion_, quick(**options).fit(X.to_numpy(), y).inclusion_
    both = named.rename(index=array_name).join(plain.add_suffix("_plain"), how="inner")
    both = both[(both["ess"] > 100) & (both["ess_plain"] > 100)]
    assert len(both) > 5
    error = np.hypot(both["mcse"], both["mcse_plain"])
    assert (both["probability"] - both["probability_plain"]).abs().le(level(len(both)) * error).all()


def test_odd_column_names_stand_in_backticks():
    X, y = small()
    names = ["a*b + 1", "host star", "`c"]
    model = quick().fit(X.set_axis(names, axis=1), y)
    assert model.best_model() == ("`a*b + 1`*sin(`host star`)",)
    assert np.isclose(
        model.log_marginal_likelihood(model.best_model()), quick().fit(X, y).log_marginal_likelihood(["a*sin(b)"])
    )
    assert r"\sin" in model.to_latex()


def test_projections_are_found_kept_and_evaluated(tmp_path):
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.normal(size=(120, 3)), columns=list("abc"))
    y = np.tanh(0.5 + X["a"] - 1.5 * X["b"]) + 0.02 * rng.standard_normal(120)
    space = Space(mutation=0.2, crossover=0.2, modification=0.2, projection=0.4)
    model = quick(transforms=("tanh",), space=space, coef_prior="jeffreys", budget=Budget(steps=15_000)).fit(X, y)
    projections = [f for f in model.laws_.features if f.kind == "projection"]
    assert projections
    found = projections[0].text
    assert np.isfinite(model.log_marginal_likelihood([found]))
    # Forgetting what the search kept, the plain fit of the coefficients inside gives the same column.
    forgetful, posterior = copy.copy(model), model.posterior_
    laws = dataclasses.replace(model.laws_, features=(), aliases={}, constants={})
    forgetful.posterior_ = dataclasses.replace(posterior, result=dataclasses.replace(posterior.result, laws=laws))
    assert np.isclose(forgetful.log_marginal_likelihood([found]), model.log_marginal_likelihood([found]), rtol=1e-6)
    loaded = modejump.load(model.save(tmp_path / "run"))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    sympy = pytest.importorskip("sympy")
    for kind in ("best", "bma"):
        expression = model.to_sympy(kind)
        values = sympy.lambdify(list("abc"), expression, "numpy")(*(X[name].to_numpy() for name in "abc"))
        np.testing.assert_allclose(values, model.predict(X, kind=kind), rtol=1e-6, atol=1e-8)
    assert r"\alpha" not in model.to_latex()


def test_a_stored_run_tells_the_same(kepler, planets, tmp_path):
    X, _ = planets
    loaded = modejump.load(kepler.save(tmp_path / "run"))
    assert loaded.summary() == kepler.summary() and loaded.to_latex() == kepler.to_latex()
    pd.testing.assert_frame_equal(loaded.inclusion_, kepler.inclusion_)
    pd.testing.assert_frame_equal(loaded.models_, kepler.models_)
    pd.testing.assert_frame_equal(loaded.predict(X, interval=0.8), kepler.predict(X, interval=0.8))
    for kind in ("bma", "best", "median"):
        np.testing.assert_array_equal(loaded.predict(X, kind=kind), kepler.predict(X, kind=kind))
    assert loaded.verdict_ == kepler.verdict_ and loaded.verdict_.level == kepler.verdict_.level
    one, two = loaded.posterior_.result, kepler.posterior_.result
    np.testing.assert_array_equal(one.batch_means, two.batch_means)
    assert one.population_moves == two.population_moves and one.acceptance == two.acceptance
    for name in ("algorithm", "steps", "library", "library_share", "unvisited", "forgotten_visits", "finished"):
        assert getattr(one, name) == getattr(two, name)
    assert loaded.model_prior == ComplexityPrior("1/n") and loaded.space == PAPER["space"].by_rules("paper")
    assert loaded.transforms == PAPER["transforms"] and loaded.family == "gaussian"
    assert loaded.log_marginal_likelihood([KEPLER]) == kepler.log_marginal_likelihood([KEPLER])
    with pytest.raises(InputError, match="holds no rows to evaluate it on"):
        loaded.log_marginal_likelihood(["sin(Density)*Radius*troot(StarTemp)*StarRadius"])
    stored = pd.read_csv(tmp_path / "run" / "inclusion.csv", index_col="feature")
    assert stored.loc[KEPLER, "complexity"] == 4
    assert not list((tmp_path / "run").glob("*.pkl"))


def test_copies_predict_as_the_original(kepler, planets, tmp_path):
    X, _ = planets
    joblib.dump(kepler, tmp_path / "model.joblib")
    for again in (
        pickle.loads(pickle.dumps(kepler)),
        copy.deepcopy(kepler),
        joblib.load(tmp_path / "model.joblib", mmap_mode="r"),
    ):
        np.testing.assert_array_equal(again.predict(X), kepler.predict(X))
        assert again.log_marginal_likelihood("Density") == kepler.log_marginal_likelihood("Density")
    with pytest.raises(NotFittedError):
        clone(kepler).predict(X)


def test_noise_without_a_law_is_said_to_have_none():
    X, _ = small()
    y = np.random.default_rng(3).standard_normal(len(X))
    model = quick(model_prior=ComplexityPrior(1e-9)).fit(X, y)
    assert model.best_model() == () and "none of them" in model.summary()
    np.testing.assert_allclose(model.predict(X, kind="best"), y.mean())
    assert model.to_latex(kind="best").startswith(r"\hat{y} = ")


@pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")
@pytest.mark.parametrize("rows, columns", [(9, 30), (30, 30), (60, 60)])
def test_a_posterior_spread_over_models_that_no_table_holds_predicts_all_the_same(rows, columns):
    """Features beyond number, no signal and a weak prior: hardly a model is visited twice."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(rows, columns)), rng.normal(size=rows)
    model = quick(chains=2, budget=SHORT, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all() and np.isfinite(model.predict(X, interval=0.9)).all().all()
    assert 0.0 <= model.posterior_.result.unvisited <= 1.0
    assert model.summary() and model.verdict_.search == "uncertain"


def test_chains_of_a_search_that_disagree_leave_doubt(planets):
    with pytest.warns(ModejumpWarning, match="one search, so nothing tells"):
        model = quick(chains=1, algorithm="gmjmcmc").fit(*planets)
    assert model.verdict_.level == "doubtful"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = quick(chains=3, budget=Budget(steps=300), algorithm="gmjmcmc").fit(*planets)
    # Three searches are too few, whatever they found.
    assert model.verdict_.search == "uncertain" and any("better ones may be" in str(w.message) for w in caught)


def test_chains_that_sit_apart_leave_doubt(planets):
    with pytest.warns(ModejumpWarning, match="run longer"):
        model = quick(chains=3, budget=Budget(warmup=1, steps=64), coef_prior="jeffreys").fit(*planets)
    assert model.verdict_.level in ("doubtful", "bad")


def test_products_only_and_published_sets():
    X, y = small()
    model = quick(transforms=(), coef_prior="jeffreys").fit(X, X["a"] * X["b"] ** 2 + 1.0)
    assert model.best_model() == ("a*b*b",)
    sets = [("G1", modejump.transforms.set("G1")), (["sin", modejump.transforms["cos"], "sin"], ("sin", "cos"))]
    for given, names in sets:
        language = quick(transforms=given).fit(X, y).laws_.language
        assert tuple(transform.name for transform in language.transforms) == names


def test_a_transform_of_the_user_is_searched_stored_and_asked_for(tmp_path):
    X, _ = small()
    modejump.transforms.add("bump", lambda x: 1.0 / (1.0 + x * x))
    try:
        model = quick(transforms=("bump",), coef_prior="jeffreys").fit(X, 1.0 / (1.0 + X["b"] ** 2) + 1.0)
        assert model.best_model() == ("bump(b)",)
        path = model.save(tmp_path / "run")
        np.testing.assert_array_equal(modejump.load(path).predict(X), model.predict(X))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    finally:
        modejump.transforms.remove("bump")
    with pytest.raises(InputError, match="'bump'.*add it before loading"):
        modejump.load(path)


def test_a_transform_that_is_not_defined_everywhere_is_told():
    X, y = small()
    X = X.assign(c=X["c"] - 1.5)
    with pytest.warns(ModejumpWarning, match=r"transform 'p0' \(x > 0\) is not finite on 'c'"):
        quick(transforms=("p0", "sin")).fit(X, y)
    with pytest.warns(ModejumpWarning, match="'p0'.*not finite on any column"):
        quick(transforms=("p0",)).fit(-X.abs(), y)


def test_new_rows_where_a_law_is_undefined_are_refused_by_name():
    X, _ = small()
    model = quick(transforms=("p0",), coef_prior="jeffreys").fit(X, np.log(X["a"]) + 1.0)
    assert model.best_model() == ("p0(a)",)
    with pytest.raises(InputError, match=r"'p0\(a\)' is not finite in row 2 "):
        model.predict(X.assign(a=np.where(np.arange(len(X)) == 2, -1.0, X["a"])))


def test_constant_columns_are_told():
    X, y = small()
    with pytest.warns(ModejumpWarning, match="'c'"):
        model = quick().fit(X.assign(c=1.0), y)
    assert model.best_model() == ("a*sin(b)",)
    with pytest.raises(InputError, match="every covariate is constant"):
        quick().fit(X * 0.0, y)


BAD = {
    "family": ({"family": "weibull"}, "'weibull'"),
    "exact algorithms": ({"algorithm": "enumerate"}, "selects among given terms; use BGLMRegressor"),
    "mjmcmc": ({"algorithm": "mjmcmc"}, "selects among given terms; use BGLMRegressor"),
    "unknown algorithm": ({"algorithm": "magic"}, "unknown algorithm 'magic'"),
    "unknown transform": ({"transforms": ("sinn",)}, "perhaps you mean 'sin'"),
    "no transforms at all": ({"transforms": None}, "transforms must be names"),
    "number as transform": ({"transforms": (3,)}, "is no transform"),
    "space": ({"space": {"depth": 3}}, "must be a modejump.Space"),
    "model prior by name": ({"model_prior": "uniform"}, "must be a ComplexityPrior"),
    "model prior of terms": ({"model_prior": BernoulliPrior(0.1)}, "must be a ComplexityPrior"),
    "no chains": ({"chains": 0}, "chains"),
    "precision": ({"budget": Budget(mcse=0.01), "algorithm": "gmjmcmc"}, "no Monte Carlo error"),
    "warm-up": ({"budget": Budget(warmup=10, steps=300), "algorithm": "gmjmcmc"}, "no warm-up of its own"),
    "not a budget": ({"budget": 7}, "must be a modejump.Budget"),
    "only transforms, and none": (
        {"transforms": (), "space": Space(mutation=0, crossover=0, modification=1, edits=0)},
        "add a transform",
    ),
    "no workers": ({"n_jobs": 0}, "n_jobs is 0"),
    "coefficients": ({"coef_prior": "normal"}, "normal"),
    "missing": ({"missing": "mean"}, "missing must be one of 'refuse', 'median'; got 'mean'"),
    "always in": ({"always_in": ["d"]}, "always_in names 'd', which is not a term"),
    "all always in": ({"always_in": ["a", "b", "c"]}, "every term is always in"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_are_refused_in_one_sentence(case):
    options, words = BAD[case]
    with pytest.raises(InputError, match=words) as caught:
        quick(**options).fit(*small())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda X: X.assign(f=["1", "2", "-"] * 20), "column 'f' looks like numbers but is '-' in row 2"),
        (lambda X: X.assign(b=X["b"].where(X["b"] > 1.0)), "column 'b'"),
        (lambda X: X.iloc[:, :0], "no columns"),
        (lambda X: X.iloc[:5], "5 rows but y has 60"),
    ],
)
def test_bad_tables_are_refused_in_one_sentence(change, words):
    X, y = small()
    with pytest.raises(InputError, match=words):
        quick().fit(change(X), y)


def test_questions_about_laws(kepler, planets):
    X, _ = planets
    law = kepler.best_model()[0]
    row = kepler.confint().loc[law]
    assert row["lower"] < row["mean"] < row["upper"] and row["probability"] > 0.5
    for kind in ("best", "bma"):
        space = {}
        exec(kepler.to_python(kind), space)
        np.testing.assert_allclose(space["predict"](X), kepler.predict(X, kind=kind), rtol=1e-9)
    name = kepler.feature_names_in_[0]
    curve = kepler.effect(name)
    assert (curve["lower"] <= curve["mean"]).all() and (curve["mean"] <= curve["upper"]).all()
    assert f"laws, by {kepler.posterior_.result.algorithm}" in str(kepler.posterior_)
    content = json.loads(kepler.to_json())
    assert content["equation"] == kepler.equation() and content["inclusion"][0]["aliases"] is not None


def test_laws_under_the_same_prior_have_the_same_posterior(kepler):
    prior = kepler._options.model_prior
    before = kepler.posterior_.result.models
    same = kepler.reweight(model_prior=prior, coef_prior="jeffreys").posterior_
    np.testing.assert_allclose(same.result.models.log_posterior, before.log_posterior, rtol=0, atol=1e-10)
    # Laws of several spellings have the sum over these, each under its own prior.
    dearer = ComplexityPrior(1e-4)
    other = kepler.reweight(model_prior=dearer).posterior_
    laws, searched, new = kepler.laws_, kepler.posterior_.searched, {}
    for words, value in zip(before.words, before.log_posterior, strict=True):
        model = frozenset(laws.features[j] for j in members_of(words))
        new[model] = [(model, value)]
    place = {alias: law for law, more in laws.aliases.items() for alias in more} | {f: f for f in laws.features}
    spelled = {}
    for features, value in laws.spelled.items():
        spelled.setdefault(frozenset(place[f] for f in features), []).append((features, value))
    new |= spelled
    for words, value in zip(other.result.models.words, other.result.models.log_posterior, strict=True):
        model = frozenset(laws.features[j] for j in members_of(words))
        terms = []
        for features, old in new[model]:
            change = dearer.log_weights_of(sorted(features), searched.n, len(searched.names)).sum()
            terms.append(old + change - searched.log_weights(sorted(features)).sum())
        assert value == pytest.approx(np.logaddexp.reduce(terms), abs=1e-8)


def test_batches_for_arviz_are_no_posterior(kepler):
    pytest.importorskip("arviz", reason="ArviZ is an extra and is not installed")
    share = kepler.to_arviz()["sample_stats"]["batch_share"]
    assert share.dims == ("chain", "draw", "feature") and share.shape[0] == 8
    mean = share.mean(("chain", "draw")).to_series()
    table = kepler.inclusion_["probability"]
    np.testing.assert_allclose(mean[table.index.to_list()], table, rtol=0, atol=1e-12)
