"""Logic regression: planted features found, exact answers on small spaces, genotypes, preselection, storage."""

from __future__ import annotations

import itertools
import math
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from bed_reader import to_bed
from mortal import Death, die_once
from scipy.stats import norm
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data

import modejump
from modejump import Budget, ComplexityPrior, LogicClassifier, LogicPrior, LogicRegressor, LogicSpace, ModejumpWarning
from modejump.data.response import read_weights
from modejump.estimators.given import dense
from modejump.plots import plot_genome
from modejump.runtime import checkpoints

PAIRS = LogicSpace(leaves=2, size=6, population=14)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Short runs leave doubts, which are not what is tested here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Over .* steps|.* chains? of the search", ModejumpWarning)
        yield


def quick(kind: Any = LogicRegressor, **options: Any) -> Any:
    return kind(**{"chains": 4, "budget": Budget(steps=6_000), "random_state": 1, "space": PAIRS} | options)


def markers(n: int = 240, m: int = 30, seed: int = 5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.integers(0, 2, (n, m)), columns=[f"m{j}" for j in range(m)])


def planted(x: pd.DataFrame, seed: int = 6) -> pd.Series:
    """A response of m0 & m3 and m4 | !m6."""
    noise = np.random.default_rng(seed).normal(size=len(x))
    return (1.0 + 2.0 * (x["m0"] & x["m3"]) - 1.5 * (x["m4"] | (1 - x["m6"])) + 0.7 * noise).rename("trait")


FOUND = {"m0 & m3", "!m4 & m6"}


@pytest.fixture(scope="module")
def fitted() -> LogicRegressor:
    x = markers().assign(age=np.random.default_rng(9).normal(50.0, 10.0, 240))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModejumpWarning)
        return quick(always_in=["age"]).fit(x, planted(x) + 0.05 * x["age"])


@pytest.fixture(scope="module")
def plain() -> LogicRegressor:
    """A fit to a frame of whole numbers, which other kinds of tables have to give too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModejumpWarning)
        return quick().fit(markers(), planted(markers()))


@pytest.fixture
def table(fitted: LogicRegressor) -> pd.DataFrame:
    return markers().assign(age=np.random.default_rng(9).normal(50.0, 10.0, 240))


class Binarised:
    """Columns become 1 above their medians at fit, so that scikit-learn's checks can give any numbers."""

    def _read_table(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Any:
        X = dense(X)
        values = validate_data(self, X, ensure_min_samples=2, dtype=np.float64)
        # Repeated rows and rows of weight zero must not change them.
        weights = read_weights(sample_weight, len(values))
        counted = values if weights is None else values[weights > 0]
        self.medians_ = np.array([np.median(np.unique(column)) for column in counted.T])
        read = super()._read_table(self._binary(values), y, sample_weight, offset)  # type: ignore[misc]
        validate_data(self, X, skip_check_array=True)
        return read

    def _binary(self, values: np.ndarray) -> Any:
        names = getattr(self, "feature_names_in_", None)
        return pd.DataFrame(values > self.medians_, columns=names if names is not None else None)

    def _design(self, X: Any) -> Any:
        values = validate_data(self, dense(X), reset=False, dtype=np.float64)
        names = getattr(self, "feature_names_in_", None)
        made = self._binary(values) if names is not None else (values > self.medians_)
        return super()._design(made)  # type: ignore[misc]


class BinarisedRegressor(Binarised, LogicRegressor):
    """For numbers."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # One bit of the only column that matters explains 46% of the checks' response.
        tags.regressor_tags.poor_score = True
        return tags


class BinarisedClassifier(Binarised, LogicClassifier):
    """For classes."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Single bits tell two of the checks' three classes apart, not all three.
        tags.classifier_tags.poor_score = True
        return tags


TINY = {
    "space": LogicSpace(leaves=1, size=2, population=4),
    "chains": 1,
    "budget": Budget(warmup=300, steps=300),
    "progress": False,
}


@parametrize_with_checks([BinarisedRegressor(**TINY)])
def test_scikit_learns_contract(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModejumpWarning)
        check(estimator)


@pytest.mark.full
@parametrize_with_checks([BinarisedClassifier(**TINY)])
def test_scikit_learns_contract_for_classifiers(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModejumpWarning)
        check(estimator)


# --- what is found ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [
    lambda x: x.astype(bool), lambda x: x.astype(float), lambda x: x.astype("Int64"),
    lambda x: x.astype("boolean"), pl.DataFrame, lambda x: pl.DataFrame(x.astype(bool)),
])  # fmt: skip
def test_planted_features_are_found_in_any_frame(made: Any, plain: LogicRegressor) -> None:
    x = markers()
    model = quick().fit(made(x), planted(x))
    assert set(model.median_model()) == FOUND == set(model.discoveries(0.1).index)
    pd.testing.assert_frame_equal(model.inclusion_, plain.inclusion_)
    np.testing.assert_array_equal(model.predict(made(x)), plain.predict(x))


@pytest.mark.parametrize("dtype", [np.int8, bool, np.float32, np.uint8])
def test_an_array_gives_what_a_frame_gives(dtype: Any, plain: LogicRegressor) -> None:
    x = markers()
    array = np.asfortranarray(x.to_numpy().astype(dtype))
    model = quick().fit(array, planted(x).to_numpy())
    assert set(model.median_model()) == {"x0 & x3", "!x4 & x6"}
    np.testing.assert_allclose(model.predict(array[:7]), plain.predict(x[:7]), rtol=1e-12)


def test_features_are_columns_for_other_models(fitted: LogicRegressor, table: pd.DataFrame) -> None:
    names, made = fitted.get_feature_names_out().tolist(), fitted.transform(table[table.columns[::-1]])
    assert names[0] == "age" and set(names[1:]) == FOUND
    truth = {"age": table["age"], "m0 & m3": table["m0"] & table["m3"], "!m4 & m6": (1 - table["m4"]) & table["m6"]}
    for name, column in zip(names, made.T, strict=True):
        np.testing.assert_array_equal(column, truth[name])


def test_a_classifier_finds_what_makes_cases() -> None:
    x = markers(600)
    odds = -1.5 + 3.0 * (x["m0"] & x["m3"]) - 2.0 * (x["m4"] & (1 - x["m6"]))
    y = pd.Series(np.where(np.random.default_rng(2).random(600) < 1 / (1 + np.exp(-odds)), "yes", "no"), name="ill")
    model = quick(LogicClassifier).fit(x, y)
    assert set(model.median_model()) == {"m0 & m3", "m4 & !m6"}
    assert model.classes_.tolist() == ["no", "yes"]
    proba = model.predict_proba(x)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    # Rows of one value of both features have one probability, about that of the truth.
    kinds = pd.DataFrame({"p": model.predict_proba(x, kind="best")[:, 1], "odds": odds}).groupby("odds")["p"]
    assert (kinds.nunique() == 1).all()
    np.testing.assert_allclose(kinds.first(), 1 / (1 + np.exp(-kinds.first().index)), atol=0.12)
    assert model.score(x, y) > 0.75
    text = model.summary()
    assert "logit P(ill = yes) = " in text and "600 rows, 30 binary covariates" in text


def test_marker_inclusion_is_that_of_features_with_the_marker(fitted: LogicRegressor) -> None:
    found = fitted.marker_inclusion()
    assert set(found.index[:4]) == {"m0", "m3", "m4", "m6"} and (found[:4] > 0.99).all()
    assert found.is_monotonic_decreasing and set(found.index) <= {f"m{j}" for j in range(30)}
    held = fitted.posterior_.models(limit=None)
    weight = held["probability"] / held["probability"].sum()
    for name in ("m0", "m6", "m20"):
        has = [any(name in text.replace("!", "").split() for text in texts) for texts in held["features"]]
        assert found[name] == pytest.approx(weight[has].sum(), abs=0.01)


# --- exact answers on a small space -------------------------------------------------------------------------------

NAMES = ["a", "b", "c", "d"]
SMALL = LogicSpace(leaves=2, size=2, population=8)


def small_data(n: int = 120) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(12)
    x = pd.DataFrame((rng.random((n, 4)) < [0.5, 0.4, 0.6, 0.5]).astype(int), columns=NAMES)
    x["age"], x["dose"] = rng.normal(50.0, 10.0, n), rng.exponential(size=n)
    y = 0.6 * (x["a"] & x["b"]) - 0.4 * x["c"] + 0.03 * x["age"] + rng.normal(size=n)
    return x, y.to_numpy()


def every_feature(x: pd.DataFrame) -> dict[str, np.ndarray]:
    """Columns of all 28 features of one or two leaves."""
    made = {name: x[name].to_numpy(float) for name in NAMES}
    for a, b in itertools.combinations(NAMES, 2):
        u, v = made[a], made[b]
        joined = {f"{a} & {b}": u * v, f"{a} & !{b}": u * (1 - v), f"!{a} & {b}": (1 - u) * v}
        made |= joined | {f"{a} | {b}": np.maximum(u, v)}
    return made


def exact_answer(x: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> dict[str, Any]:
    """Inclusion, coefficients and predictive means by the formulas of Zellner's g-prior with g = n."""
    n, g = len(y), float(len(y))
    columns, news = every_feature(x), every_feature(new)
    base = np.column_stack([np.ones(n), x["age"], x["dose"]])
    log_prior = {name: -math.log(4) if name in NAMES else -math.log(6 * 4) for name in columns}
    apart = {name: column - base @ np.linalg.lstsq(base, column, rcond=None)[0] for name, column in columns.items()}
    rest = y - base @ np.linalg.lstsq(base, y, rcond=None)[0]
    models, log_posterior, means, predictions = [], [], [], []
    for size in range(3):
        for model in itertools.combinations(columns, size):
            own = np.column_stack([apart[name] for name in model]) if model else np.zeros((n, 0))
            slope = np.linalg.lstsq(own, rest, rcond=None)[0]
            r2 = 1.0 - np.sum((rest - own @ slope) ** 2) / np.sum(rest**2)
            log_bf = 0.5 * (n - 3 - size) * math.log1p(g) - 0.5 * (n - 3) * math.log1p(g * (1.0 - r2))
            beta = dict(zip(model, slope * g / (1.0 + g), strict=True))
            left = y - sum((b * columns[name] for name, b in beta.items()), np.zeros(n))
            fixed = np.linalg.lstsq(base, left, rcond=None)[0]
            models.append(model)
            log_posterior.append(log_bf + sum(log_prior[name] for name in model))
            means.append({"(intercept)": fixed[0], "age": fixed[1], "dose": fixed[2]} | beta)
            start = np.column_stack([np.ones(len(new)), new["age"], new["dose"]]) @ fixed
            predictions.append(start + sum((b * news[name] for name, b in beta.items()), np.zeros(len(new))))
    p = np.exp(np.array(log_posterior) - max(log_posterior))
    p /= p.sum()
    return {
        "inclusion": {name: float(sum(q for q, m in zip(p, models, strict=True) if name in m)) for name in columns},
        "coefficients": pd.DataFrame(means).fillna(0.0).mul(p, axis=0).sum(),
        "prediction": p @ np.array(predictions),
        "best coefficients": means[int(p.argmax())],
        "best prediction": predictions[int(p.argmax())],
        "log posterior": dict(zip(map(frozenset, models), log_posterior, strict=True)),
    }


def test_a_small_space_is_answered_exactly_beside_columns_always_in() -> None:
    x, y = small_data()
    new = small_data(150)[0][120:]
    exact = exact_answer(x, y, new)
    searched = quick(space=SMALL, always_in=("dose", "age"), algorithm="gmjmcmc", budget=Budget(steps=120_000)).fit(
        x, y
    )
    # The search met every model, so that renormalised estimates are exact.
    held = searched.posterior_.models(limit=None)
    assert len(held) == 1 + 28 + 28 * 27 // 2
    shift = exact["log posterior"][frozenset()]
    for texts, value in zip(held["features"], held["log_posterior"], strict=True):
        assert value == pytest.approx(exact["log posterior"][frozenset(texts)] - shift, abs=1e-8)
    got = searched.inclusion_["probability"]
    for name, value in exact["inclusion"].items():
        assert got[name] == pytest.approx(value, abs=1e-8)
    table = searched.coefficients()["mean"]
    assert table.index[:3].tolist() == ["(intercept)", "dose", "age"]
    # Averages leave out models that hold a thousandth of the posterior.
    for name, value in exact["coefficients"].items():
        assert table[name] == pytest.approx(value, abs=2e-3)
    np.testing.assert_allclose(searched.predict(new), exact["prediction"], atol=2e-3)
    best = searched.coefficients("best")["mean"]
    for name, value in exact["best coefficients"].items():
        assert best[name] == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(searched.predict(new, kind="best"), exact["best prediction"], atol=1e-8)
    sampled = quick(space=SMALL, always_in=["age", "dose"], budget=Budget(steps=100_000)).fit(x, y)
    errors = sampled.inclusion_["mcse"]
    bound = norm.isf(0.5e-4 / 28)
    for name, value in exact["inclusion"].items():
        assert abs(sampled.inclusion_["probability"].get(name, 0.0) - value) < bound * errors.get(name, 0.0) + 1e-3
    assert sampled.predict(new) == pytest.approx(exact["prediction"], abs=0.02 * np.ptp(exact["prediction"]))


def test_a_weight_counts_as_repeated_rows() -> None:
    x, y = small_data()
    w = np.random.default_rng(3).integers(0, 4, len(y))
    options = {"space": SMALL, "always_in": ["age", "dose"]}
    weighted = quick(**options).fit(x, y, sample_weight=w)
    repeated = quick(**options).fit(x.loc[x.index.repeat(w)], np.repeat(y, w))
    got, expected = weighted.inclusion_, repeated.inclusion_.loc[weighted.inclusion_.index]
    np.testing.assert_allclose(got["probability"], expected["probability"], atol=1e-9)
    np.testing.assert_allclose(weighted.predict(x), repeated.predict(x), atol=1e-9)


def test_an_offset_is_a_known_part_of_the_rate() -> None:
    x = markers(400)
    rng = np.random.default_rng(4)
    exposure = pd.Series(np.log(rng.uniform(0.5, 20.0, 400)), name="exposure")
    y = rng.poisson(np.exp(exposure - 0.5 + 0.8 * (x["m1"] & x["m2"])))
    model = quick(family="poisson").fit(x, y, offset=exposure)
    assert model.median_model() == ("m1 & m2",)
    table = model.coefficients("best")
    for name, truth in (("(intercept)", -0.5), ("m1 & m2", 0.8)):
        assert abs(table.loc[name, "mean"] - truth) < 4 * table.loc[name, "sd"]
    twice = model.predict(x, offset=exposure + np.log(2.0))
    np.testing.assert_allclose(twice, 2.0 * model.predict(x, offset=exposure), rtol=1e-8)
    with pytest.raises(modejump.InputError, match="new rows need one too"):
        model.predict(x)


# --- genotypes and files ------------------------------------------------------------------------------------------


def genotypes(n: int = 240, m: int = 10, seed: int = 8) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.binomial(2, rng.uniform(0.4, 0.6, m), (n, m)).astype(np.int8)


def response_of(g: np.ndarray) -> np.ndarray:
    """A response of the recessive marker of column 2 and the dominant one of column 5."""
    noise = np.random.default_rng(1).normal(size=len(g))
    return 2.5 * ((g[:, 2] == 2) & (g[:, 5] >= 1)) + 0.7 * noise


def write_bed(path: Path, g: np.ndarray, y: Any) -> Path:
    n, m = g.shape
    to_bed(path, g, properties={
        "iid": [f"id{i}" for i in range(n)], "sid": [f"rs{j}" for j in range(m)], "pheno": [str(v) for v in y],
        "chromosome": ["1"] * 6 + ["2"] * (m - 6), "bp_position": [100 * j for j in range(m)],
    })  # fmt: skip
    return path


def test_genotypes_become_dominant_and_recessive_markers() -> None:
    g = genotypes()
    frame = pd.DataFrame(g, columns=[f"rs{j}" for j in range(10)])
    model = quick(coding="genotype").fit(frame, response_of(g))
    assert model.median_model() == ("rs2_r & rs5_d",)
    assert "20 markers of 10 genotypes" in model.summary() and "logic (covariates = 20)" in model.summary()
    best = model.predict(frame, kind="best")
    assert len(np.unique(best.round(9))) == 2
    np.testing.assert_array_equal(best > best.mean(), (g[:, 2] == 2) & (g[:, 5] >= 1))


def test_missing_genotypes_are_refused_or_replaced_at_fit_and_at_prediction() -> None:
    g = genotypes().astype(float)
    y = response_of(g)
    g[3, 2] = g[5, 7] = np.nan
    with pytest.raises(modejump.InputError, match="^2 of 2400 genotypes are missing, the first in column 'x2', row 3"):
        quick(coding="genotype").fit(g, y)
    model = quick(coding="genotype", missing="mode").fit(g, y)
    usual = genotypes()
    usual[3, 2], usual[5, 7] = (np.bincount(np.delete(usual[:, j], i)).argmax() for i, j in ((3, 2), (5, 7)))
    same = quick(coding="genotype").fit(usual, y)
    pd.testing.assert_frame_equal(model.inclusion_, same.inclusion_)
    np.testing.assert_array_equal(model.predict(g), same.predict(usual))
    with pytest.raises(modejump.InputError, match="column 'x2' is nan in row 3 .* not a genotype 0, 1 or 2"):
        same.predict(g)


def test_plink_files_are_covariates_and_new_rows(tmp_path: Path) -> None:
    g = genotypes()
    g[4, 1] = -127
    y = response_of(g)
    bed = modejump.read_plink(write_bed(tmp_path / "study.bed", g, y))
    model = quick(coding="genotype", missing="mode").fit(bed, bed.phenotype)
    assert model.median_model() == ("rs2_r & rs5_d",)
    assert model.n_features_in_ == 10 and model.feature_names_in_[2] == "rs2"
    frame = pd.DataFrame(g.astype(float), columns=[f"rs{j}" for j in range(10)]).replace(-127.0, np.nan)
    expected = quick(coding="genotype", missing="mode").fit(frame, y).predict(frame)
    np.testing.assert_allclose(model.predict(bed), expected, rtol=1e-12)
    np.testing.assert_allclose(model.predict(frame), expected, rtol=1e-12)
    with pytest.warns(UserWarning, match="valid feature names"):
        np.testing.assert_allclose(model.predict(g), expected, rtol=1e-12)
    # Files are read by name: other variants, or another order, do not matter.
    turned = np.column_stack([g[:, ::-1], genotypes(seed=99)[:, 0]])
    other = write_bed(tmp_path / "other.bed", turned, y)
    names = [f"rs{j}" for j in range(9, -1, -1)] + ["rs10"]
    lines = [line.split() for line in other.with_suffix(".bim").read_text().splitlines()]
    renamed = ["\t".join([line[0], name, *line[2:]]) for name, line in zip(names, lines, strict=True)]
    other.with_suffix(".bim").write_text("\n".join(renamed) + "\n")
    np.testing.assert_allclose(model.predict(modejump.read_plink(other)), expected, rtol=1e-12)
    with pytest.raises(modejump.InputError, match="no column 'rs9', which the fit used"):
        model.predict(modejump.read_plink(bed.path, [f"rs{j}" for j in range(9)]))


def test_a_variant_always_in_must_not_be_missing(tmp_path: Path) -> None:
    g = genotypes()
    g[4, 1] = -127
    bed = modejump.read_plink(write_bed(tmp_path / "study.bed", g, response_of(g)))
    with pytest.raises(modejump.InputError, match="column 'rs1' is NaN in row 4"):
        quick(coding="genotype", missing="mode", always_in=["rs1"]).fit(bed, bed.phenotype)


def test_a_column_called_genotypes_is_a_column(plain: LogicRegressor) -> None:
    x = markers().rename(columns={"m9": "genotypes"})
    model = quick().fit(x, planted(x))
    assert set(model.median_model()) == FOUND
    np.testing.assert_allclose(model.predict(x), plain.predict(markers()), rtol=1e-12)


def test_the_genome_is_drawn_without_columns_always_in(fitted: LogicRegressor) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    position = pd.Series({f"m{j}": 10 * j for j in range(30)})
    ax = plot_genome(fitted, position=position)
    assert {text.get_text() for text in ax.texts} == {"m0", "m3", "m4", "m6"}
    x = markers()
    ax = plot_genome(quick().fit(x.to_numpy(), planted(x)))
    points = [tuple(p) for c in ax.collections if hasattr(c, "get_sizes") for p in np.asarray(c.get_offsets())]
    assert {int(at) for at, value in points if value > 0.5} == {0, 3, 4, 6}
    pyplot.close("all")


# --- very many markers --------------------------------------------------------------------------------------------


def test_preselection_keeps_what_matters_and_the_prior_counts_all() -> None:
    rng = np.random.default_rng(7)
    x = pd.DataFrame(rng.integers(0, 2, (400, 3000)), columns=[f"m{j}" for j in range(3000)])
    x["age"] = rng.normal(size=400)
    y = planted(x) + x["age"]
    model = quick(preselect=40, always_in="age").fit(x, y)
    assert set(model.median_model()) == FOUND
    spec = model.table_
    assert len(spec.markers) == 40 and spec.total == 3000 and {"m0", "m3", "m4", "m6"} <= set(spec.names)
    text = " ".join(model.summary().replace("\N{NO-BREAK SPACE}", " ").split())
    assert "3 000 binary covariates, features made of the 40 of largest effect, alone or in a subgroup" in text
    assert "logic (covariates = 3000)" in text
    top = model.models_.iloc[0]
    weights = LogicPrior(3000).log_weights(400, 2, 0)
    expected = (
        model.log_marginal_likelihood(top["features"])
        + weights[model.inclusion_["complexity"][[*top["features"]]]].sum()
    )
    assert top["log_posterior"] == pytest.approx(expected, abs=1e-8)
    loaded = modejump.LogicRegressor(**model.get_params())
    assert loaded.preselect == 40
    # New rows need the columns of the fit, as scikit-learn wants it, and are read by those that were kept.
    assert len(model.predict(x[:5])) == 5
    own = quick(preselect=40, always_in="age", model_prior=ComplexityPrior("1/n")).fit(x, y)
    assert "complexity (a = 1/n" in own.summary()


# --- the rest of the contract -------------------------------------------------------------------------------------


def test_equations_and_predictions_agree(fitted: LogicRegressor, table: pd.DataFrame) -> None:
    sympy = pytest.importorskip("sympy")
    expression = fitted.to_sympy()
    names = sorted(str(symbol) for symbol in expression.free_symbols)
    assert names == ["age", "m0", "m3", "m4", "m6"]
    got = sympy.lambdify(names, expression)(*(table[name].to_numpy(float) for name in names))
    np.testing.assert_allclose(got, fitted.predict(table, kind="best"), rtol=1e-9)
    latex = fitted.to_latex()
    assert latex.startswith(r"\hat{y} = ") or latex.startswith(r"\widehat{\mathrm{trait}} = ")
    assert r"\,\left(\mathrm{m0} \wedge \mathrm{m3}\right)" in latex and r"\,\mathrm{age}" in latex
    equation = fitted.page().equation
    assert "*(m0 & m3)" in equation and "*(!m4 & m6)" in equation and "*age" in equation
    frame = fitted.predict(table, interval=0.9)
    assert (frame["lower"] < frame["mean"]).all() and (frame["mean"] < frame["upper"]).all()


def test_the_page_speaks_of_logic(fitted: LogicRegressor) -> None:
    text = fitted.summary()
    facts = dict(fitted.page().facts)
    assert text.startswith("Bayesian logic regression\n")
    assert facts["data"] == "240 rows, 30 binary covariates; always in: intercept, age"
    assert facts["models"] == "logic (covariates = 30)" and "law" not in text
    assert "(!m4 & m6) + (m0 & m3)" in text
    assert all(len(line) <= 88 for line in text.splitlines())


def test_a_model_comes_back_from_files_and_pickles(fitted: LogicRegressor, table: pd.DataFrame, tmp_path: Path) -> None:
    loaded = modejump.load(fitted.save(tmp_path / "saved"))
    assert isinstance(loaded, LogicRegressor) and loaded.get_params()["always_in"] == ("age",)
    for other in (loaded, pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_allclose(other.predict(table), fitted.predict(table), rtol=1e-12)
        assert other.summary() == fitted.summary()
        pd.testing.assert_series_equal(other.marker_inclusion(), fitted.marker_inclusion())
        pd.testing.assert_frame_equal(other.discoveries(), fitted.discoveries())
    new = clone(fitted)
    assert new.get_params() == fitted.get_params() and not hasattr(new, "posterior_")
    assert fitted.log_marginal_likelihood("m0 & m3") == pytest.approx(fitted.log_marginal_likelihood("!(!m3 | !m0)"))


def test_runs_are_merged(fitted: LogicRegressor, table: pd.DataFrame) -> None:
    other = quick(always_in=["age"], random_state=2).fit(table, planted(table) + 0.05 * table["age"])
    both = modejump.merge(fitted, other)
    assert both.posterior_.result.batch_means.shape[0] == 8
    assert set(both.median_model()) == FOUND
    assert both.inclusion_["mcse"].iloc[:2].max() < 0.05
    assert len(both.predict(table)) == len(table)


def test_a_run_is_kept_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = markers().assign(age=1.0 * np.arange(240))
    expected = quick(always_in=["age"], preselect=6).fit(x, planted(x))
    monkeypatch.setattr(checkpoints, "MOST_SHARE", 1e9)
    die_once(monkeypatch)
    with pytest.raises(Death):
        modejump.Run(tmp_path / "run", every=1e-6).fit(quick(always_in=["age"], preselect=6), x, planted(x))
    model = modejump.resume(tmp_path / "run")
    pd.testing.assert_frame_equal(model.inclusion_, expected.inclusion_)
    np.testing.assert_array_equal(model.predict(x), expected.predict(x))
    assert modejump.resume(tmp_path / "run").summary() == model.summary()


def test_one_seed_gives_one_answer_for_any_number_of_workers() -> None:
    x = markers()
    one, two = (quick(n_jobs=jobs).fit(x, planted(x)) for jobs in (1, 2))
    pd.testing.assert_frame_equal(one.inclusion_, two.inclusion_)


def test_age_stands_beside_genotypes_in_files(tmp_path: Path) -> None:
    g = genotypes()
    rng = np.random.default_rng(8)
    age = pd.DataFrame({"age": rng.normal(size=len(g)), "sex": rng.integers(0, 2, len(g))})
    y = response_of(g) + 2.0 * age["age"].to_numpy()
    files = modejump.read_plink(write_bed(tmp_path / "study.bed", g, y))
    model = quick(coding="genotype", missing="mode", always_in=["age", "sex"]).fit(files.beside(age), y)
    assert model.coefficients().loc["age", "mean"] == pytest.approx(2.0, abs=0.15)
    frame = pd.DataFrame(g, columns=list(files.names)).join(age)
    same = quick(coding="genotype", missing="mode", always_in=["age", "sex"]).fit(frame, y)
    pd.testing.assert_frame_equal(model.inclusion_, same.inclusion_)
    np.testing.assert_allclose(model.predict(files.beside(age)), same.predict(frame), rtol=1e-12)
    by_sample = age.set_axis(list(files.samples)).sample(frac=1.0, random_state=1)
    np.testing.assert_allclose(model.predict(files.beside(by_sample)), same.predict(frame), rtol=1e-12)
    for table, said in (
        (age[:3], "has 3 rows for"),
        (age.rename(columns={"age": "rs1"}), "name of a variant"),
        (age.astype(str).replace("0", "f"), "holds text"),
        ({"age": 1}, "is a pandas DataFrame"),
    ):
        with pytest.raises(modejump.InputError, match=said):
            files.beside(table)
