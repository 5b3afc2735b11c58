"""Bad input gives one clear sentence: an InputError in Python, exit status 2 and one line in the shell."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import modejump
from modejump import BGLMRegressor, Budget, InputError, ModejumpWarning
from modejump.cli import main

ROWS = 30


def covariates() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.normal(size=(ROWS, 4)), columns=list("abcd"))
    return table.assign(f=pd.Categorical(["u", "v", "w"] * 10))


def response(table: pd.DataFrame) -> np.ndarray:
    return table["a"].to_numpy() + np.random.default_rng(6).normal(size=len(table))


def fit(change=None, y=None, weights=None, **options):
    table = covariates()
    y = response(table) if y is None else y
    return BGLMRegressor(**options).fit(table if change is None else change(table), y, sample_weight=weights)


def poke(value):
    def change(table):
        table.loc[7, "c"] = value
        return table

    return change


REFUSED = {
    "NaN": (lambda: fit(poke(np.nan)), "column 'c' is missing (NaN) in row 7 (counting from 0)"),
    "infinite": (lambda: fit(poke(np.inf)), "column 'c' is infinite (inf) in row 7"),
    "NaN in an array": (
        lambda: fit(lambda t: poke(np.nan)(t)[list("abcd")].to_numpy()),
        "column 'x2' is NaN in row 7",
    ),
    "NaN in y": (lambda: fit(y=np.r_[np.nan, np.ones(ROWS - 1)]), "y is NaN in row 0"),
    "y constant": (lambda: fit(y=np.ones(ROWS)), "y is constant"),
    "y text": (lambda: fit(y=["u"] * ROWS), "y holds text"),
    "y missing": (lambda: fit(y=[None] * ROWS), "y is NaN in row 0"),
    "one row": (lambda: BGLMRegressor().fit(np.ones((1, 2)), [1.0]), "1 row(s)"),
    "no columns in a frame": (lambda: fit(lambda t: t[[]]), "X has no columns"),
    "no columns in an array": (lambda: fit(lambda t: np.ones((ROWS, 0))), "0 feature(s)"),
    "numbers as text": (lambda: fit(lambda t: t.assign(c=t.c.astype(str))), "column 'c' holds numbers stored as text"),
    "identifiers": (lambda: fit(lambda t: t.assign(c=[f"r{i}" for i in range(ROWS)])), "too many for a factor"),
    "one dimension": (lambda: fit(lambda t: t["a"].to_numpy()), "X has 1 dimension(s)"),
    "ragged rows": (lambda: fit(lambda t: [[1.0, 2.0], [1.0]]), "inhomogeneous"),
    "text in an array": (lambda: fit(lambda t: t.astype(object).to_numpy()), "column 'x4' holds text"),
    "dates": (lambda: fit(lambda t: t.assign(c=pd.Timestamp("2020-01-01"))), "column 'c' holds dates"),
    "lengths": (lambda: fit(lambda t: t.iloc[:-3]), "X has 27 rows but y has 30"),
    "coefficient prior": (lambda: fit(coef_prior="hyperg"), "hyper-g"),
    "model prior": (lambda: fit(model_prior="unifrom"), "uniform"),
    "negative weight": (
        lambda: fit(weights=[-1.0] + [1.0] * (ROWS - 1)),
        "sample_weight is negative in row 0",
    ),
    "NaN weight": (lambda: fit(weights=[1.0, np.nan] * 15), "sample_weight is NaN or infinite in row 1"),
    "y constant on equal rows": (lambda: BGLMRegressor().fit(np.ones((3, 1)), np.ones(3)), "y is constant"),
    "zero weights": (lambda: fit(weights=np.zeros(ROWS)), "sample_weight is zero everywhere"),
    "length of weights": (lambda: fit(weights=[1.0, 2.0]), "sample_weight has shape (2,) but X has 30 rows"),
    "text weights": (lambda: fit(weights=["u"] * ROWS), "sample_weight holds values that are not numbers"),
    "algorithm": (lambda: fit(algorithm="mjmcmcm"), "did you mean 'mjmcmc'?"),
    "algorithm of nonlinear features": (lambda: fit(algorithm="gmjmcmc"), "searches among features"),
    "enumeration of many": (
        lambda: fit(lambda t: np.random.default_rng(1).normal(size=(ROWS, 31)), algorithm="enumerate"),
        "up to 30 terms",
    ),
    "budget of enumeration": (
        lambda: fit(algorithm="enumerate", budget=Budget(steps=10)),
        "leave the budget out",
    ),
    "budget": (lambda: fit(budget=1000), "budget must be a modejump.Budget"),
    "chains": (lambda: fit(chains=0), "chains must be a whole number of at least 1"),
    "n_jobs": (lambda: fit(n_jobs=0), "n_jobs is 0"),
    "random_state": (lambda: fit(random_state="seed"), "random_state must be"),
    "negative seed": (lambda: fit(random_state=-1), "random_state is -1"),
    "sampler": (lambda: fit(sampler="pape"), "sampler must be None, 'paper' or a modejump.Sampler"),
    "progress": (lambda: fit(progress="sometimes"), "progress must be"),
    "always_in": (lambda: fit(always_in=["zzz"]), "always_in names 'zzz', which is not a term"),
    "always_in position": (lambda: fit(always_in=[12]), "always_in names column 12"),
    "always_in in a group": (lambda: fit(always_in=["a"], groups={"g": ["a", "b"]}), "name the group"),
    "all always in": (lambda: fit(always_in=list("abcdf")), "nothing to select"),
    "family": (lambda: fit(family="weibull"), "unknown family 'weibull'"),
    "group": (lambda: fit(groups={"g": ["a", "zzz"]}), "group 'g' names column 'zzz'"),
    "group and formula": (
        lambda: BGLMRegressor(groups={"g": ["a"]}).fit_formula("y ~ a", covariates().assign(y=1.0)),
        "groups do not go with a formula",
    ),
    "interval of one": (
        lambda: fit().predict(covariates(), interval=1.0),
        "interval must lie between 0 and 1",
    ),
    "interval of ninety": (
        lambda: fit().predict(covariates(), interval=90),
        "interval must lie between 0 and 1",
    ),
    "interval of text": (
        lambda: fit().predict(covariates(), interval="wide"),
        "interval must lie between 0 and 1",
    ),
    "kind": (lambda: fit().predict(covariates(), kind="mean"), "kind must be one of"),
    "unseen level": (lambda: fit().predict(covariates().assign(f="x")), "column 'f' has the level 'x'"),
    "missing column": (lambda: fit().predict(covariates().drop(columns="b")), "lack the column 'b', which the fit had"),
    "unknown columns": (
        lambda: fit().predict(covariates().assign(p=1, q=2)),
        "have the columns 'p', 'q', which the fit did not have",
    ),
    "unknown name of y": (lambda: fit(y="aa"), "y is 'aa', which is not a column of X; did you mean 'a'?"),
    "name without a frame": (lambda: fit(lambda t: t[["a"]].to_numpy(), y="a"), "X has no named columns"),
    "array for a frame": (lambda: fit().predict(np.ones((2, 5))), "column 'f' is a factor"),
    "number of columns": (
        lambda: fit(lambda t: t[list("abcd")].to_numpy()).predict(np.ones((2, 3))),
        "X has 3 features, but BGLMRegressor is expecting 4 features",
    ),
    "unknown feature": (lambda: fit().log_marginal_likelihood(["zzz"]), "'zzz' is not a term"),
    "not a run": (lambda: modejump.load("nowhere"), "nowhere is not a saved model"),
    "no draws for ArviZ": (lambda: fit().to_arviz(draws=0), "draws must be a whole number"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_one_sentence(case):
    call, words = REFUSED[case]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        with pytest.raises(InputError) as caught:
            call()
    text = str(caught.value)
    assert words in text
    assert "\n" not in text and len(text) < 300
    assert text.endswith((".", "?"))


@pytest.mark.parametrize(
    "call",
    [
        lambda e: e.predict(covariates()),
        lambda e: e.inclusion_,
        lambda e: e.models_,
        lambda e: e.coef_,
        lambda e: e.summary(),
        lambda e: e.best_model(),
        lambda e: e.save("nowhere"),
        lambda e: e.to_latex(),
    ],
)
def test_what_is_not_fitted_says_so(call):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        call(BGLMRegressor())


@pytest.mark.parametrize("change", [{"c": 3.0}, {"f": pd.Categorical(["u"] * ROWS)}])
def test_a_constant_column_is_told_of_and_never_enters(change):
    with pytest.warns(ModejumpWarning, match="'[cf]': constant, .* so the inclusion probability is 0") as caught:
        model = fit(lambda t: t.assign(**change))
    assert len(caught) == 1 and "\n" not in str(caught[0].message)
    (name,) = change
    assert model.inclusion_.loc[name, "probability"] == 0.0


def test_duplicate_columns_are_legal_and_share_the_mass():
    model = fit(lambda t: t.assign(again=t["a"]))
    probability = model.inclusion_["probability"]
    assert probability["a"] == pytest.approx(probability["again"], abs=1e-12)
    held = [bool({"a", "again"} & set(features)) for features in model.models_["features"]]
    either = model.models_["probability"][held].sum()
    assert probability["a"] + probability["again"] == pytest.approx(either, abs=1e-9)
    assert not any({"a", "again"} <= set(features) for features in model.models_["features"])


def test_fewer_rows_than_columns_work_and_models_stay_small():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(8, 12))
    model = BGLMRegressor().fit(x, 3.0 * x[:, 4] + 0.1 * rng.normal(size=8))
    assert model.best_model() == ("x4",)
    assert model.models_["size"].max() <= 6
    assert np.isfinite(model.predict(x)).all()


def test_weights_that_are_not_counts_are_told_of():
    with pytest.warns(ModejumpWarning, match="amount to 15 observations in 30 rows"):
        fit(weights=np.full(ROWS, 0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(weights=np.r_[np.full(ROWS // 2, 0.5), np.full(ROWS // 2, 1.5)])
        fit(weights=np.arange(ROWS))


@pytest.fixture
def files(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    table = covariates()
    table.assign(y=response(table)).to_csv("good.csv", index=False)
    numeric = table.drop(columns="f").assign(y=response(table))
    numeric.to_csv("numeric.csv", index=False)
    numeric.assign(c=["1"] * 29 + [""]).to_csv("hole.csv", index=False)
    numeric.assign(y=1.0).to_csv("flat.csv", index=False)
    numeric.assign(w=-1.0).to_csv("weights.csv", index=False)
    numeric[["y"]].to_csv("alone.csv", index=False)
    numeric.head(0).to_csv("header.csv", index=False)
    Path("empty.csv").write_text("")
    Path("ragged.csv").write_text("a,b\n1,2\n1,2,3,4\n")
    Path("bytes.csv").write_bytes(b"a,b\n\xff\xfe\x00,1\n")
    Path("full").mkdir()
    Path("full/something").write_text("here")
    return tmp_path


COMMANDS = {
    "missing file": ("fit nothere.csv --target y", "the file nothere.csv does not exist"),
    "directory": ("fit full --target y", "is a directory"),
    "empty file": ("fit empty.csv --target y", "is empty"),
    "no rows": ("fit header.csv --target y", "no rows"),
    "ragged file": ("fit ragged.csv --target b", "line 3 of the file ragged.csv has 4 cells"),
    "undecodable file": ("fit bytes.csv --target b", "add --encoding latin-1"),
    "missing target": ("fit numeric.csv --target z", "--target 'z' is not a column"),
    "no target": ("fit numeric.csv", "give --target"),
    "missing value": ("fit hole.csv --target y", "column 'c' is empty in line 31"),
    "constant target": ("fit flat.csv --target y", "y is constant"),
    "no covariates": ("fit alone.csv --target y", "X has no columns"),
    "text": ("fit good.csv --target y", "column 'f' holds text, such as"),
    "factor": ("fit good.csv --target y --factors z", "--factors 'z' is not a column"),
    "always in": ("fit numeric.csv --target y --always-in z", "--always-in names 'z'"),
    "weights": ("fit numeric.csv --target y --weights z", "--weights 'z' is not a column"),
    "negative weights": ("fit weights.csv --target y --weights w", "--weights is negative in line 2"),
    "algorithm": ("fit numeric.csv --target y --algorithm mcmc", "unknown algorithm 'mcmc'"),
    "family": ("fit numeric.csv --target y --family weibull", "unknown --family 'weibull'"),
    "coefficient prior": ("fit numeric.csv --target y --coef-prior jsz", "jzs"),
    "parameter": ("fit numeric.csv --target y --coef-prior g=-1", "g"),
    "parameter too many": ("fit numeric.csv --target y --coef-prior bic=2", "takes no parameter"),
    "parameter as text": ("fit numeric.csv --target y --coef-prior g=x", "numbers with commas"),
    "model prior": ("fit numeric.csv --target y --model-prior bern", "bernoulli"),
    "two budgets": ("fit numeric.csv --target y --steps 10 --seconds 1", "both steps and seconds"),
    "formula": ("fit numeric.csv --formula y~zzz", "names column 'zzz'"),
    "two targets": ("fit numeric.csv --target a --formula y~b", "differ"),
    "full directory": ("fit numeric.csv --target y --out full", "is not empty"),
    "option": ("fit numeric.csv --target y --speed 9", "no such option"),
    "number": ("fit numeric.csv --target y --chains many", "--chains"),
    "argument": ("fit", "missing argument"),
    "command": ("fti", "no such command"),
    "run": ("predict nowhere numeric.csv", "nowhere is not a saved model"),
    "demo": ("demo crime", "the demo 'crime' is not part of this version"),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_the_command_line_refuses_in_one_line(case, files, capsys):
    line, words = COMMANDS[case]
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and words.lower() in err.lower()
    assert err.startswith("modejump: ") and err.count("\n") == 1


def test_a_stored_run_refuses_other_tables(files, capsys):
    assert main("fit good.csv --target y --factors f --out run --quiet".split()) == 0
    pd.read_csv("good.csv").drop(columns="b").to_csv("short.csv", index=False)
    pd.read_csv("good.csv").assign(f="x").to_csv("level.csv", index=False)
    for line, words in [
        ("predict run short.csv", "the covariate 'b' is not a column"),
        ("predict run level.csv", "column 'f' has the level 'x'"),
        ("predict run good.csv --interval 2", "interval must lie between 0 and 1"),
        ("predict run good.csv --kind mode", "kind must be one of"),
        ("predict run good.csv -o no/where.csv", "cannot be written"),
    ]:
        assert main(line.split()) == 2
        out, err = capsys.readouterr()
        assert out == "" and words in err and err.count("\n") == 1


def test_a_process_exits_with_status_two_and_no_traceback(files):
    done = subprocess.run(
        [sys.executable, "-m", "modejump", "fit", "nothere.csv", "--target", "y"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stdout == "" and "Traceback" not in done.stderr
    assert done.stderr == "modejump: the file nothere.csv does not exist; check the path.\n"
