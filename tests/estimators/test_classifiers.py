"""Classifiers: scikit-learn's contract, labels of any type, probabilities, weights, offsets, storage and the shell."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

import modejump
from modejump import (
    BGLMClassifier,
    BGLMRegressor,
    BGNLMClassifier,
    Budget,
    GPrior,
    InputError,
    ModejumpWarning,
    Space,
)
from modejump.cli import main
from modejump.estimators.prepare import choose_algorithm

SHORT = Budget(warmup=1000, steps=5000)
SEARCH = Budget(warmup=400, steps=800)


@parametrize_with_checks(
    [
        BGLMClassifier(),
        BGLMClassifier(algorithm="mjmcmc", chains=2, budget=SHORT),
        BGNLMClassifier(chains=2, budget=SEARCH, space=Space(rules="paper")),
    ]
)
def test_scikit_learns_contract(estimator, check):
    if estimator.budget is None and check.func.__name__ == "check_sample_weight_equivalence_on_sparse_data":
        pytest.skip("sparse tables become dense at once: the two shorter runs show as much")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModejumpWarning)
        check(estimator)


def table(rows: int = 120, seed: int = 3) -> tuple[pd.DataFrame, np.ndarray]:
    """Covariates, a factor among them, and a response of zeros and ones."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(rows, 4)), columns=list("abcd"))
    X["f"] = pd.Categorical(rng.choice(["u", "v", "w"], rows), categories=["u", "v", "w"])
    X["b"] += 0.8 * X["a"]
    eta = 0.5 + X["a"] - X["c"] + 1.2 * (X["f"] == "w")
    return X, (eta + rng.logistic(size=rows) > 0).to_numpy().astype(int)


LABELS = {
    "whole numbers": (lambda y: y + 3, [3, 4]),
    "floats": (lambda y: y * 1.0, [0.0, 1.0]),
    "truth values": (lambda y: y == 1, [False, True]),
    "text": (lambda y: np.where(y == 1, "yes", "no"), ["no", "yes"]),
    "a list of text": (lambda y: np.where(y == 1, "yes", "no").tolist(), ["no", "yes"]),
    "objects": (lambda y: np.where(y == 1, "yes", "no").astype(object), ["no", "yes"]),
    "a series of text": (lambda y: pd.Series(np.where(y == 1, "yes", "no")), ["no", "yes"]),
    "a series of truth values": (lambda y: pd.Series(y == 1, dtype="boolean"), [False, True]),
    "a series of nullable numbers": (lambda y: pd.Series(y, dtype="Int64"), [0, 1]),
    "categories, one of them unused": (
        lambda y: pd.Series(pd.Categorical(np.where(y == 1, "yes", "no"), categories=["x", "yes", "no"])),
        ["no", "yes"],
    ),
    "a bare categorical": (lambda y: pd.Categorical(np.where(y == 1, "yes", "no")), ["no", "yes"]),
    "categories of numbers": (lambda y: pd.Series(pd.Categorical(y)), [0, 1]),
    "polars": (lambda y: pl.Series(np.where(y == 1, "yes", "no")), ["no", "yes"]),
    "an enum of polars": (
        lambda y: pl.Series(np.where(y == 1, "yes", "no"), dtype=pl.Enum(["yes", "no"])),
        ["no", "yes"],
    ),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_of_any_type_give_the_same_posterior_and_come_back(name, tmp_path):
    X, y = table()
    make, classes = LABELS[name]
    plain, model = BGLMClassifier().fit(X, y), BGLMClassifier().fit(X, make(y))
    assert model.classes_.tolist() == classes
    pd.testing.assert_frame_equal(model.inclusion_, plain.inclusion_, check_exact=True)
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert model.predict(X).tolist() == [classes[j] for j in plain.predict(X)]
    loaded = modejump.load(model.save(tmp_path / "run"))
    assert loaded.classes_.dtype == model.classes_.dtype and loaded.predict(X).tolist() == model.predict(X).tolist()


def test_probabilities_are_probabilities_in_the_order_of_the_classes():
    X, y = table()
    model = BGLMClassifier().fit(X, y)
    proba = model.predict_proba(X)
    assert proba.shape == (len(X), 2) and (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-15)
    np.testing.assert_array_equal(model.predict_log_proba(X), np.log(proba))
    np.testing.assert_array_equal(model.predict(X), (proba[:, 1] > 0.5).astype(int))
    # A model with a flat intercept is right on average; shrinkage of the other coefficients leaves a little.
    assert abs(proba[:, 1].mean() - y.mean()) < 0.01
    assert model.score(X, y) == np.mean(model.predict(X) == y)
    for kind in ("best", "median"):
        assert model.predict_proba(X, kind=kind).shape == (len(X), 2)
        assert model.predict(X, kind=kind).shape == (len(X),)


def test_intervals_of_the_probability_hold_it_and_grow_with_the_level():
    X, y = table()
    model = BGLMClassifier().fit(X, y)
    narrow, wide = (model.predict_proba(X, interval=level) for level in (0.5, 0.95))
    assert list(wide.columns) == ["mean", "lower", "upper"] and wide.index.equals(X.index)
    np.testing.assert_array_equal(wide["mean"], model.predict_proba(X)[:, 1])
    assert (wide["lower"] < narrow["lower"]).all() and (narrow["upper"] < wide["upper"]).all()
    assert (wide["lower"] > 0).all() and (wide["upper"] < 1).all()
    assert ((wide["lower"] < wide["mean"]) & (wide["mean"] < wide["upper"])).all()


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_the_classes_of_tumours_are_predicted(link):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:, :10]
    parts = train_test_split(X, y, test_size=0.5, random_state=1)
    model = BGLMClassifier(link=link).fit(parts[0], parts[2])
    # Half the rows; always guessing the larger class is right in 63 % of them.
    assert model.score(parts[1], parts[3]) > 0.9


def test_cross_validation_and_clones_work():
    X, y = table()
    names = np.where(y == 1, "yes", "no")
    scores = cross_val_score(clone(BGLMClassifier(coef_prior="bic")), X, names, cv=4)
    assert scores.mean() > 0.6
    auc = cross_val_score(BGLMClassifier(), X, names, cv=4, scoring="roc_auc")
    assert auc.mean() > 0.7
    model = BGLMClassifier().fit(X, names)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_case_weights_are_repetitions():
    X, y = table()
    weights = np.random.default_rng(8).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weights)
    weighted = BGLMClassifier(coef_prior="hyper-g-n").fit(X, y, sample_weight=weights)
    repeated = BGLMClassifier(coef_prior="hyper-g-n").fit(X.iloc[rows].reset_index(drop=True), y[rows])
    pd.testing.assert_frame_equal(weighted.inclusion_, repeated.inclusion_, atol=1e-9, check_exact=False)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-9)


def test_the_order_of_the_rows_does_not_matter_to_a_single_bit():
    X, y = table()
    order = np.random.default_rng(9).permutation(len(y))
    one, two = BGLMClassifier().fit(X, y), BGLMClassifier().fit(X.iloc[order].reset_index(drop=True), y[order])
    pd.testing.assert_frame_equal(one.inclusion_, two.inclusion_, check_exact=True)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


@pytest.mark.parametrize("link", ["logit", "cloglog"])
def test_sampling_agrees_with_enumeration_within_its_own_error(link):
    # Few rows, so that no term is in or out of nearly every model: one that never changes has no error to go by.
    X, y = table(rows=40)
    exact = BGLMClassifier(link=link).fit(X, y).inclusion_["probability"]
    sampled = BGLMClassifier(link=link, algorithm="mjmcmc", budget=Budget(steps=50_000), random_state=1).fit(X, y)
    inclusion = sampled.inclusion_.loc[exact.index]
    # Five errors for each of five features: a correct sampler fails here less than once in 10^5 runs.
    assert (np.abs(inclusion["probability"] - exact) < 5 * inclusion["mcse"] + 1e-12).all()
    np.testing.assert_allclose(inclusion["renormalised"], exact, atol=1e-7)


def test_exchanging_the_classes_turns_the_coefficients_round():
    X, y = table()
    model, turned = BGLMClassifier().fit(X, y), BGLMClassifier().fit(X, 1 - y)
    np.testing.assert_allclose(turned.coef_, -model.coef_, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(turned.predict_proba(X)[:, ::-1], model.predict_proba(X), rtol=1e-5)


def test_auto_enumerates_while_models_times_rows_are_few():
    assert choose_algorithm("auto", 16, None, 500) == "enumerate"
    assert choose_algorithm("auto", 16, None, 5000) == "mjmcmc"
    assert choose_algorithm("auto", 20, None, 0) == "enumerate"
    assert choose_algorithm("enumerate", 16, None, 5000) == "enumerate"


def test_an_offset_shifts_the_predictor_and_must_come_again():
    X, y = table()
    shift = np.random.default_rng(5).normal(size=len(y))
    model = BGLMClassifier().fit(X, y, offset=pd.Series(shift, name="known"))
    assert model.offset_ == "known"
    low, high = (model.predict_proba(X, offset=shift + d)[:, 1] for d in (-1.0, 1.0))
    assert (low < high).all()
    assert model.score(X, y, offset=shift) == np.mean(model.predict(X, offset=shift) == y)
    with pytest.raises(InputError, match="fitted with an offset, so new rows need one too"):
        model.predict(X)
    with pytest.raises(InputError, match=r"offset has shape \(3,\) but X has 120 rows"):
        model.predict(X, offset=[1.0, 2.0, 3.0])
    # A constant offset moves the intercept and nothing else.
    plain, moved = BGLMClassifier().fit(X, y), BGLMClassifier().fit(X, y, offset=np.full(len(y), 2.0))
    np.testing.assert_allclose(moved.intercept_, plain.intercept_ - 2.0, atol=1e-6)
    np.testing.assert_allclose(moved.coef_, plain.coef_, atol=1e-6)


def test_formulas_take_a_column_of_labels():
    X, y = table()
    data = X.assign(answer=np.where(y == 1, "yes", "no"))
    model = BGLMClassifier().fit_formula("answer ~ a + b + C(f)", data)
    by_table = BGLMClassifier().fit(X[["a", "b", "f"]], data["answer"])
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(model.predict_proba(data), by_table.predict_proba(X[["a", "b", "f"]]), rtol=1e-9)
    with pytest.raises(InputError, match="must be one column of labels"):
        BGLMClassifier().fit_formula("np.log(a) ~ b", data)


def test_the_page_names_family_link_and_event():
    X, y = table()
    page = BGLMClassifier(link="probit").fit(X, np.where(y == 1, "yes", "no")).page()
    assert dict(page.facts)["response"] == "binomial, probit link; the probability is that of 'yes', against 'no'"
    assert "response" not in dict(BGLMRegressor().fit(X, y).page().facts)


def test_equations_are_of_the_linear_predictor():
    X, y = table()
    model = BGLMClassifier().fit(X, y)
    assert model.to_latex().startswith(r"\operatorname{logit} \hat{y} = ")
    sympy = pytest.importorskip("sympy")
    expression = model.to_sympy("bma")
    values = {sympy.Symbol(name): 0.0 for name in model.table_.design_names}
    assert float(expression.subs(values)) == pytest.approx(model.intercept_)


def nonlinear(rows: int = 300) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(11)
    X = pd.DataFrame(rng.uniform(-2, 2, (rows, 3)), columns=["u", "v", "w"])
    y = 3.0 * X["u"] * X["v"] + rng.logistic(size=rows) > 0
    return X, pd.Series(np.where(y, "in", "out"), name="side")


def test_a_law_of_two_classes_is_found_and_predicts(tmp_path):
    X, y = nonlinear()
    model = BGNLMClassifier(
        transforms=("sin",),
        chains=4,
        budget=Budget(warmup=4000, steps=8000),
        random_state=1,
        space=Space(rules="paper"),
    ).fit(X, y)
    assert model.best_model() == ("u*v",) and model.classes_.tolist() == ["in", "out"]
    assert model.inclusion_.loc["u*v", "probability"] > 0.9
    assert model.score(X, y) > 0.8
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-15)
    assert "logit P(side = out) = " in model.summary() and model.to_latex().startswith(r"\operatorname{logit} ")
    assert model.log_marginal_likelihood("u*v") > model.log_marginal_likelihood("u") + 10
    loaded = modejump.load(model.save(tmp_path / "run"))
    np.testing.assert_allclose(loaded.predict_proba(X), proba, rtol=1e-12)
    assert loaded.summary() == model.summary()


def test_a_search_evaluates_models_as_selection_does():
    X, y = nonlinear()
    model = BGNLMClassifier(
        transforms=("sin",),
        algorithm="gmjmcmc",
        chains=2,
        budget=Budget(steps=3000),
        random_state=2,
        space=Space(rules="paper"),
    ).fit(X, y)
    column = (X["u"] * X["v"]).to_frame("uv")
    selection = BGLMClassifier().fit(column, y)
    # "u*sin(w)" need not be among the laws found: it is evaluated on the spot.
    assert model.log_marginal_likelihood("u*v") == pytest.approx(selection.log_marginal_likelihood("uv"), abs=1e-6)
    other = BGLMClassifier().fit((X["u"] * np.sin(X["w"])).to_frame("z"), y)
    assert model.log_marginal_likelihood("u*sin(w)") == pytest.approx(other.log_marginal_likelihood("z"), abs=1e-6)


ROWS = 30


def fit(y, **more):
    x = np.random.default_rng(5).normal(size=(ROWS, 2))
    options = {name: more.pop(name) for name in ("link", "coef_prior") if name in more}
    return BGLMClassifier(**options).fit(x, y, **more)


COIN = [0, 1] * (ROWS // 2)
REFUSED = {
    "one class": (lambda: fit(["u"] * ROWS), "y has one class only, 'u'"),
    "one class of positive weight": (lambda: fit(COIN, sample_weight=[1.0, 0.0] * 15), "y has one class only, 0"),
    "continuous": (lambda: fit(np.linspace(0.1, 1.0, ROWS)), "y is continuous, and a classifier needs labels"),
    "missing text": (lambda: fit(pd.Series([None, "u", "v"] * 10)), "y is missing (NaN) in row 0"),
    "missing number": (lambda: fit([np.nan, 1.0, 0.0] * 10), "y is NaN in row 0"),
    "mixed types": (lambda: fit(np.array([1, "u"] * 15, dtype=object)), "labels of the types number and text"),
    "dates": (lambda: fit(pd.date_range("2020-01-01", periods=ROWS)), "neither text nor numbers nor truth values"),
    "length": (lambda: fit([0, 1]), "X has 30 rows but y has 2"),
    "link": (lambda: fit(COIN, link="log"), "the binomial family has no link 'log'"),
    "link that is no text": (lambda: fit(COIN, link=3), "link must be a name"),
    "known variance": (lambda: fit(COIN, coef_prior=modejump.KnownVariance(1.0)), "is for gaussian responses"),
    "offset": (lambda: fit(COIN, offset=[0.0]), "offset has shape (1,) but X has 30 rows"),
    "offset of text": (lambda: fit(COIN, offset=["u"] * ROWS), "offset holds values that are not numbers"),
    "infinite offset": (lambda: fit(COIN, offset=[np.inf] * ROWS), "offset is NaN or infinite in row 0"),
    "no weight": (lambda: fit(COIN, sample_weight=np.zeros(ROWS)), "sample_weight is zero everywhere"),
    "interval": (
        lambda: fit(COIN).predict_proba(np.zeros((1, 2)), interval=1.5),
        "interval must lie between 0 and 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_in_one_sentence(name):
    call, words = REFUSED[name]
    with pytest.raises(InputError) as error:
        call()
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = table()
    rng = np.random.default_rng(4)
    frame = X.assign(
        answer=np.where(y == 1, "yes", "no"),
        one="yes",
        three=rng.choice(["p", "q", "r"], len(y)),
        shift=rng.normal(size=len(y)),
    )
    frame.to_csv("data.csv", index=False)
    return frame


def test_the_shell_fits_classes_and_predicts_probabilities(files, capsys):
    line = "fit data.csv --target answer --family binomial --factors f --drop one,three,shift --link probit"
    assert main([*line.split(), "--out", "run"]) == 0
    assert "binomial, probit link" in capsys.readouterr().out
    assert main("predict run data.csv".split()) == 0
    predicted = pd.read_csv(pd.io.common.StringIO(capsys.readouterr().out))
    assert list(predicted.columns) == ["class", "probability of no", "probability of yes"]
    X = files[list("abcdf")]
    model = BGLMClassifier(link="probit").fit(X, files["answer"])
    np.testing.assert_allclose(predicted.iloc[:, 1:], model.predict_proba(X), rtol=1e-9)
    assert predicted["class"].tolist() == model.predict(X).tolist()
    assert main("predict run data.csv --interval 0.9 -o out.csv".split()) == 0
    assert list(pd.read_csv("out.csv").columns[-2:]) == ["lower", "upper"]


def test_the_shell_knows_offsets(files, capsys):
    line = "fit data.csv --target answer --family binomial --drop f,one,three --offset shift --quiet --out run"
    assert main(line.split()) == 0
    assert main("predict run data.csv -o one.csv".split()) == 0
    assert main("predict run data.csv --offset shift -o two.csv".split()) == 0
    one, two = pd.read_csv("one.csv"), pd.read_csv("two.csv")
    pd.testing.assert_frame_equal(one, two)
    model = BGLMClassifier().fit(files[list("abcd")], files["answer"], offset=files["shift"])
    expected = model.predict_proba(files[list("abcd")], offset=files["shift"])
    np.testing.assert_allclose(one.iloc[:, 1:], expected, rtol=1e-9)


@pytest.mark.full
def test_the_shell_searches_for_laws_of_classes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = nonlinear()
    X.assign(side=y).to_csv("data.csv", index=False)
    line = "fit data.csv --target side --family binomial --transforms sin --chains 2 --steps 3000 --seed 1 --out run"
    assert main(line.split()) == 0
    assert "u*v" in capsys.readouterr().out
    assert main("predict run data.csv".split()) == 0
    assert capsys.readouterr().out.startswith("class,probability of in,probability of out")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fit data.csv --target one --family binomial --drop f,three,answer", "y has one class only, 'yes'"),
        ("fit data.csv --target three --family binomial --drop f,one,answer", "y has 3 classes"),
        ("fit data.csv --target answer --family binomial --drop f,one,three --link log", "has no link 'log'"),
        ("fit data.csv --target answer --family binomal --drop f,one,three", "unknown --family 'binomal'"),
        ("fit data.csv --target answer --family binomial --drop f,one,three --coef-prior known-variance=1", "gaussian"),
        ("fit data.csv --target answer --family binomial --offset nowhere", "--offset 'nowhere' is not a column"),
        ("fit data.csv --target a --family gaussian --drop f,one,three,answer --offset shift", "an offset is for"),
    ],
)
def test_bad_input_in_the_shell_exits_with_2_and_one_line(files, capsys, line, words):
    assert main(line.split()) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_priors_with_parameters_reach_the_kernels():
    X, y = table()
    one, two = (BGLMClassifier(coef_prior=GPrior(g=g)).fit(X, y) for g in (5.0, 500.0))
    assert one.inclusion_["probability"].sum() > two.inclusion_["probability"].sum()
