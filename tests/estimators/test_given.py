"""What people hand in: columns by name, text, any order, polars, missing values, sparse; and what comes back."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import modejump
from modejump import BGLMClassifier, BGLMRegressor, Budget, InputError, ModejumpWarning
from modejump.core import memory
from modejump.estimators import prepare
from modejump.estimators.prepare import FITTED_BUDGET
from modejump.posterior.verdict import COARSE

ROWS = 80
rng = np.random.default_rng(1)
TABLE = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=["age", "dose", "noise"])
TABLE["site"] = rng.choice(["Bergen", "Oslo", "Tromsø"], ROWS)
TABLE["gain"] = 1.0 + TABLE["age"] - 2.0 * TABLE["dose"] + 2.0 * (TABLE["site"] == "Oslo") + rng.normal(size=ROWS)
TABLE["cases"] = rng.integers(1, 4, ROWS)
TABLE["events"] = rng.poisson(np.exp(0.5 * TABLE["age"]) * TABLE["cases"])
TABLE["exposure"] = np.log(TABLE["cases"])
X, Y = TABLE[["age", "dose", "noise", "site"]], TABLE["gain"]
NUMBERS = X.drop(columns="site")
FEW = modejump.BernoulliPrior(0.1)


@pytest.fixture(scope="module")
def model() -> BGLMRegressor:
    return BGLMRegressor(model_prior=FEW).fit(X, Y)


# --- columns by name ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_response_and_weights_may_be_names_of_columns(kind, tmp_path):
    table = TABLE.drop(columns=["events", "exposure"])
    table = pl.from_pandas(table) if kind == "polars" else table
    by_name = BGLMRegressor().fit(table, "gain", sample_weight="cases")
    by_value = BGLMRegressor().fit(X, Y, sample_weight=TABLE["cases"])
    assert by_name.inclusion_.equals(by_value.inclusion_)
    assert by_name.feature_names_in_.tolist() == list(X.columns)
    # What was no covariate at the fit may be there, and is none.
    np.testing.assert_array_equal(by_name.predict(table), by_value.predict(X))
    assert by_name.score(table, "gain", sample_weight="cases") == by_value.score(X, Y, TABLE["cases"])
    np.testing.assert_array_equal(modejump.load(by_name.save(tmp_path / "run")).predict(table), by_value.predict(X))


@pytest.mark.parametrize("made", [lambda t: t, lambda t: t.astype({"answer": "category"}), pl.from_pandas])
def test_labels_may_be_a_column(made):
    table = made(NUMBERS.assign(answer=np.where(Y > 1.0, "more", "less"), cases=TABLE["cases"]))
    by_name = BGLMClassifier().fit(table, "answer", "cases")
    by_value = BGLMClassifier().fit(NUMBERS, Y > 1.0, TABLE["cases"])
    assert by_name.classes_.tolist() == ["less", "more"]
    np.testing.assert_array_equal(by_name.predict_proba(table), by_value.predict_proba(NUMBERS))
    assert by_name.score(table, "answer", "cases") == by_value.score(NUMBERS, Y > 1.0, TABLE["cases"])


def test_an_offset_told_by_name_is_found_in_new_rows(tmp_path):
    table = TABLE[["age", "dose", "events", "exposure"]]
    by_name = BGLMRegressor(family="poisson").fit(table, "events", offset="exposure")
    by_value = BGLMRegressor(family="poisson").fit(table[["age", "dose"]], TABLE["events"], offset=TABLE["exposure"])
    expected = by_value.predict(table[["age", "dose"]], offset=TABLE["exposure"])
    for fitted in (by_name, modejump.load(by_name.save(tmp_path / "run"))):
        np.testing.assert_allclose(fitted.predict(table), expected, rtol=1e-9)
    np.testing.assert_array_equal(by_value.predict(table.drop(columns="events"), offset="exposure"), expected)
    with pytest.raises(InputError, match="new rows need one too"):
        by_name.predict(table[["age", "dose"]])


def test_a_formula_takes_weights_by_name():
    by_name = BGLMRegressor().fit_formula("gain ~ age + dose", TABLE, sample_weight="cases")
    by_value = BGLMRegressor().fit_formula("gain ~ age + dose", TABLE, sample_weight=TABLE["cases"])
    assert by_name.inclusion_.equals(by_value.inclusion_)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(InputError, match=r"^y is 'gian', which is not a column of X; did you mean 'gain'\?$"):
        BGLMRegressor().fit(TABLE, "gian")
    with pytest.raises(InputError, match=r"^offset is 'zzz', which is not a column of X; its columns are age, dose"):
        BGLMRegressor(family="poisson").fit(TABLE, "events", offset="zzz")


# --- text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [object, "str", "polars"])
def test_text_is_a_factor(kind, model):
    table = pl.from_pandas(X) if kind == "polars" else X.astype({"site": kind})
    factor = BGLMRegressor().fit(X.astype({"site": "category"}), Y)
    text = BGLMRegressor().fit(table, Y)
    assert text.inclusion_.equals(factor.inclusion_) and "site[T.Oslo]" in text.coefficients().index
    np.testing.assert_array_equal(text.predict(table), factor.predict(X))
    formula = BGLMRegressor().fit_formula("gain ~ age + dose + noise + site", TABLE)
    np.testing.assert_allclose(text.predict(X), formula.predict(X), rtol=1e-9)
    with pytest.raises(InputError, match="column 'site' has the level 'Bodø'"):
        model.predict(X.assign(site="Bodø"))


# --- order of columns, and the kind of frame ----------------------------------------------------------------------


def test_columns_may_be_in_any_order(model):
    shuffled = X[["site", "noise", "age", "dose"]]
    np.testing.assert_array_equal(model.predict(shuffled), model.predict(X))
    np.testing.assert_array_equal(model.predict(pl.from_pandas(shuffled)), model.predict(X))
    with pytest.raises(InputError, match=r"^the new data lack the column 'dose', .* and have the column 'doze', which"):
        model.predict(X.rename(columns={"dose": "doze"}))


def test_polars_in_polars_out(model):
    table = pl.from_pandas(X)
    ends, expected = model.predict(table, interval=0.9), model.predict(X, interval=0.9)
    assert isinstance(ends, pl.DataFrame) and isinstance(expected, pd.DataFrame)
    np.testing.assert_array_equal(ends.to_numpy(), expected.to_numpy())
    labels = np.where(Y > 1.0, "more", "less")
    both = BGLMClassifier().fit(table, labels).predict(table, interval=0.9)
    assert isinstance(both, pl.DataFrame) and both.columns == ["class", "mean", "lower", "upper"]


# --- selectors and makers of features -----------------------------------------------------------------------------


def test_transform_gives_the_columns_of_a_model(model):
    assert model.get_feature_names_out().tolist() == ["age", "dose", "site[T.Oslo]", "site[T.Tromsø]"]
    made = model.transform(X)
    np.testing.assert_array_equal(made[:, :2], X[["age", "dose"]])
    np.testing.assert_array_equal(made[:, 2:], np.column_stack([X["site"] == name for name in ("Oslo", "Tromsø")]))
    # With a flat prior of the coefficients, least squares on these columns is the mean under the median model.
    flat = BGLMRegressor(coef_prior="jeffreys", model_prior=modejump.BernoulliPrior(0.05)).fit(X, Y)
    columns = flat.transform(X)
    np.testing.assert_allclose(
        LinearRegression().fit(columns, Y).predict(columns), flat.predict(X, kind="median"), rtol=1e-6
    )
    fixed = BGLMRegressor(always_in=["noise"]).fit(X, Y)
    assert fixed.get_feature_names_out()[0] == "noise" and fixed.transform(X).shape == (ROWS, 5)


@pytest.mark.parametrize(("wanted", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_set_output_names_the_columns(wanted, frame, model):
    shown = BGLMRegressor(model_prior=FEW).set_output(transform=wanted).fit(X, Y)
    made = shown.transform(X)
    assert isinstance(made, frame) and list(made.columns) == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(made.to_numpy(), model.transform(X))
    with pytest.raises(InputError, match="set_output names the columns of the median model"):
        shown.transform(X, kind="best")


def test_estimators_select_in_pipelines():
    steps = make_pipeline(StandardScaler(), BGLMRegressor(model_prior=FEW), RandomForestRegressor(5, random_state=0))
    steps.fit(NUMBERS, Y)
    assert steps[:-1].get_feature_names_out().tolist() == ["age", "dose"]
    assert steps[-1].n_features_in_ == 2 and np.isfinite(steps.predict(NUMBERS)).all()


def test_transform_says_what_it_cannot_do(model):
    with pytest.raises(InputError, match="kind must be 'median' or 'best', a model whose"):
        model.transform(X, kind="bma")
    with pytest.raises(InputError, match="input_features are not the names of the fit"):
        model.get_feature_names_out(["a", "b", "c", "d"])
    nothing = BGLMRegressor(model_prior=modejump.BernoulliPrior(1e-9)).fit(NUMBERS, np.arange(ROWS) % 7)
    with pytest.warns(ModejumpWarning, match="the median model has no term"):
        assert nothing.transform(NUMBERS).shape == (ROWS, 0)


# --- predictions --------------------------------------------------------------------------------------------------


def test_the_standard_deviation_is_that_of_a_new_observation():
    known = BGLMRegressor(coef_prior=modejump.KnownVariance(1.0), model_prior=FEW).fit(NUMBERS, Y)
    mean, std = known.predict(NUMBERS, return_std=True)
    np.testing.assert_array_equal(mean, known.predict(NUMBERS))
    assert (std > 1.0).all()
    # New observations, simulated: as many within one standard deviation as a normal distribution has.
    draws = np.random.default_rng(2)
    x = pd.DataFrame(draws.normal(size=(4000, 3)), columns=NUMBERS.columns)
    y = 2.0 * x["age"] + draws.normal(size=4000)
    mean, std = BGLMRegressor().fit(x[:2000], y[:2000]).predict(x[2000:], return_std=True)
    inside = (np.abs(y[2000:] - mean) < std).mean()
    assert abs(inside - 0.6827) < 4.0 * np.sqrt(0.6827 * 0.3173 / 2000)
    with pytest.raises(InputError, match="an interval or return_std, not both"):
        known.predict(NUMBERS, interval=0.9, return_std=True)


def test_classifiers_give_classes_with_intervals():
    fitted = BGLMClassifier().fit(NUMBERS, np.where(Y > 1.0, "more", "less"))
    table = fitted.predict(NUMBERS, interval=0.8)
    assert (table["class"] == fitted.predict(NUMBERS)).all()
    assert table[["mean", "lower", "upper"]].equals(fitted.predict_proba(NUMBERS, interval=0.8))


# --- how long a fit takes ----------------------------------------------------------------------------------------


def test_fits_of_models_take_seconds_by_default_and_say_how_to_ask_for_more(monkeypatch):
    draws = np.random.default_rng(4)
    wide, y = draws.normal(size=(60, 22)), draws.normal(size=60)
    for estimator, given, expected in (
        (BGLMRegressor(), y, None),
        (BGLMClassifier(), y > 0, FITTED_BUDGET),
        (BGLMClassifier(budget=Budget(steps=70)), y > 0, Budget(steps=70)),
    ):
        assert prepare.prepare(*estimator._read(wide, given))[1].budget == expected
    assert FITTED_BUDGET.deterministic and FITTED_BUDGET.mcse == COARSE
    monkeypatch.setattr(prepare, "FITTED_BUDGET", Budget(warmup=200, mcse=1e-6, cap=300))
    with pytest.warns(ModejumpWarning) as caught:
        BGLMClassifier(random_state=1).fit(wide, y > 0)
    # One warning, the verdict; the precision that nobody asked for is no matter of another.
    assert len(caught) == 1 and "such as budget=Budget(steps=2000)." in str(caught[0].message)
    with pytest.warns(ModejumpWarning, match="The wanted precision 1e-06 was not reached"):
        BGLMClassifier(budget=Budget(warmup=200, mcse=1e-6, cap=300), random_state=1).fit(wide, y > 0)


# --- missing values, sparse matrices ------------------------------------------------------------------------------


def test_missing_values_are_medians_with_indicators(tmp_path):
    table = X.copy()
    table.loc[table["age"] > 1.0, "age"] = np.nan
    table.loc[3, "site"] = None
    with pytest.raises(InputError, match=r"column 'site' is missing \(NaN\) in row 3"):
        BGLMRegressor().fit(table, Y)
    fitted = BGLMRegressor(missing="median").fit(table, Y)
    filled = pd.DataFrame({
        "age": table["age"].fillna(table["age"].median()), "gone": table["age"].isna() * 1.0, "dose": table["dose"],
        "noise": table["noise"], "oslo": table["site"] == "Oslo", "north": table["site"] == "Tromsø",
        "nowhere": table["site"].isna() * 1.0,
    })  # fmt: skip
    groups = {"age": ["age", "gone"], "site": ["oslo", "north", "nowhere"]}
    by_hand = BGLMRegressor(groups=groups).fit(filled, Y)
    pd.testing.assert_frame_equal(fitted.inclusion_, by_hand.inclusion_, rtol=1e-9)
    np.testing.assert_allclose(fitted.predict(table), by_hand.predict(filled), rtol=1e-9)
    # The medians are those of the fit, whatever new rows are like.
    loaded = modejump.load(fitted.save(tmp_path / "run"))
    np.testing.assert_allclose(loaded.predict(table[:5]), by_hand.predict(filled[:5]), rtol=1e-9)
    assert loaded.get_params()["missing"] == "median"
    with pytest.raises(InputError, match="missing must be one of 'refuse', 'median'; got 'mean'"):
        BGLMRegressor(missing="mean").fit(table, Y)
    with pytest.raises(InputError, match="missing values are refused in a formula"):
        BGLMRegressor(missing="median").fit_formula("gain ~ age", TABLE)


def test_sparse_matrices_are_read_where_memory_holds_them(monkeypatch):
    thin = sparse.random(ROWS, 4, 0.3, "csr", random_state=3)
    y = thin.toarray()[:, 1] + 0.1 * Y.to_numpy()
    fitted = BGLMRegressor().fit(thin, y)
    same = BGLMRegressor().fit(thin.toarray(), y)
    assert fitted.inclusion_.equals(same.inclusion_)
    np.testing.assert_array_equal(fitted.predict(thin), same.predict(thin.toarray()))
    monkeypatch.setattr(memory, "free_memory", lambda: 1000.0)
    with pytest.raises(InputError, match=r"^the 4 columns of a sparse X as a dense array need .* GiB"):
        BGLMRegressor().fit(thin, y)
