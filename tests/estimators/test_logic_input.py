"""Logic regression refuses what it cannot use in one sentence: what is wrong, where, and what to do."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from bed_reader import to_bed

import modejump
from modejump import (
    BernoulliPrior,
    Budget,
    InputError,
    LogicClassifier,
    LogicPrior,
    LogicRegressor,
    LogicSpace,
    ModejumpWarning,
    Space,
)

RNG = np.random.default_rng(4)
X = pd.DataFrame(RNG.integers(0, 2, (80, 5)), columns=list("abcde")).assign(age=RNG.normal(50.0, 9.0, 80))
Y = X["a"] * X["b"] + RNG.normal(size=80)


def fit(x: Any = X, y: Any = Y, kind: Any = LogicRegressor, **options: Any) -> Any:
    options = {"always_in": ["age"], "chains": 1, "budget": Budget(warmup=200, steps=200), "random_state": 1} | options
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Over |No sampling", ModejumpWarning)
        return kind(**options).fit(x, y)


def changed(row: int = 7, column: str = "c", value: Any = 2) -> pd.DataFrame:
    x = X.astype({column: object})
    x.loc[row, column] = value
    return x.infer_objects()


NOT_BINARY = (
    r"^column 'c' is 2 in row 7 \(counting from 0\), and not 0 or 1; code it as 0 and 1, choose coding='genotype' for "
    r"genotypes 0, 1, 2, or name the column in always_in\.$"
)
TABLES: dict[str, tuple[Any, str]] = {
    "not binary": (changed(), NOT_BINARY),
    "a fraction": (changed(value=0.5), r"^column 'c' is 0.5 in row 7 .*and not 0 or 1; code it as 0 and 1"),
    "a covariate that is not always in": (X.rename(columns={"age": "old"}).assign(age=1.0 * np.arange(80)), "'old' is"),
    "missing": (changed(value=np.nan), r"^column 'c' is nan in row 7 .*drop or impute such rows first\.$"),
    "missing in a nullable column": (changed(value=pd.NA).astype({"c": "Int64"}), "^column 'c' is nan in row 7"),
    "infinite": (changed(value=np.inf), "^column 'c' is inf in row 7"),
    "text": (X.assign(c="x"), "^column 'c' does not hold numbers; convert it to numbers or drop it"),
    "text in polars": (pl.DataFrame(X.assign(c="x")), "^column 'c' does not hold numbers"),
    "categories": (X.assign(c=pd.Categorical(X["c"])), "^column 'c' does not hold numbers"),
    "missing in a column always in": (changed(column="age", value=np.nan), "^column 'age' is NaN in row 7"),
    "text in a column always in": (X.assign(age="old"), "^column 'age' does not hold numbers"),
    "two columns of one name": (X.rename(columns={"b": "a"}), "^the table has two columns named 'a'"),
    "all constant": (
        X.assign(**dict.fromkeys("abcde", 1)),
        r"^every binary covariate is constant \('a' is the first\)",
    ),
    "nothing else": (X[["age"]], "^X has no binary covariate beside those always in"),
    "no rows": (X[:0], "^X has no binary covariate beside those always in; give at least one column and one row"),
    "another length": (X[:-1], "79"),
}


@pytest.mark.parametrize("case", TABLES)
def test_tables_that_cannot_be_used_are_refused(case: str) -> None:
    table, words = TABLES[case]
    with pytest.raises(InputError, match=words) as caught:
        fit(table)
    assert "\n" not in str(caught.value) and str(caught.value).count(". ") == 0


ARRAYS: dict[str, tuple[Any, str]] = {
    "one dimension": (X["a"].to_numpy(), r"^X has 1 dimension\(s\), but a table has 2"),
    "objects": (X[list("abcde")].to_numpy(object), "^X does not hold numbers"),
    "complex": (X[list("abcde")].to_numpy(complex), "^X does not hold numbers"),
    "not binary": (X[list("abcde")].to_numpy() * 3, "^column 'x0' is 3 in row"),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_that_cannot_be_used_are_refused(case: str) -> None:
    with pytest.raises(InputError, match=ARRAYS[case][1]):
        fit(ARRAYS[case][0], always_in=())


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "leaves": ({"space": LogicSpace(leaves=5), "always_in": ["age", "a"]}, "^features may have 5 leaves, but there are "
               r"only 4 binary covariates; give a space of fewer leaves, such as LogicSpace\(leaves=4\)"),
    "always in": ({"always_in": ["ag"]}, "^always_in names column 'ag', which X does not have; its columns are a, b"),
    "position": ({"always_in": [9]}, r"^always_in names column 9, but X has 6 columns \(counting from 0\)"),
    "everything": ({"always_in": list(X.columns)}, "^X has no binary covariate beside those always in"),
    "coding": ({"coding": "additive"}, "^coding must be 'binary' or 'genotype'; got 'additive'"),
    "missing": ({"missing": "mean", "coding": "genotype"}, "^missing must be 'refuse' or 'mode'; got 'mean'"),
    "missing alone": ({"missing": "mode"}, "^missing is about genotypes; leave it out, or choose coding='genotype'"),
    "preselect": ({"preselect": 0}, "^preselect must be a whole number of at least 1, or None for our default; got 0"),
    "preselect text": ({"preselect": "all"}, "^preselect must be a whole number"),
    "another space": ({"space": Space()}, r"^space must be a modejump.LogicSpace, such as LogicSpace\(size=10\); got"),
    "another prior": ({"model_prior": BernoulliPrior(0.1)}, "^model_prior of logic features must be a LogicPrior or a"),
    "a prior's name": ({"model_prior": "uniform"}, "^model_prior of logic features must be a LogicPrior"),
    "algorithm": ({"algorithm": "mjmcmc"}, "^algorithm 'mjmcmc' selects among given terms"),
    "family": ({"family": "binomial"}, "^family 'binomial' is for classes; use a classifier"),
}  # fmt: skip


@pytest.mark.parametrize("case", OPTIONS)
def test_options_that_cannot_be_used_are_refused(case: str) -> None:
    options, words = OPTIONS[case]
    with pytest.raises(InputError, match=words) as caught:
        fit(**options)
    assert "\n" not in str(caught.value)


def test_limits_of_the_space_and_the_prior_are_checked() -> None:
    for made, words in (
        (lambda: LogicSpace(leaves=6), "leaves of the logic space is 6; it may be at most 5"),
        (lambda: LogicSpace(leaves=0), "leaves of the logic space is 0; give a whole number of at least 1"),
        (lambda: LogicSpace(size=9, population=5), "population of the logic space is 5, but models may have 9"),
        (lambda: LogicSpace(mutation=0.9), "mutation and crossover of the logic space sum to 1.5"),
        (lambda: LogicPrior(0), "covariates of the logic prior is 0"),
    ):
        with pytest.raises(InputError, match=words):
            made()


def test_constant_markers_are_ignored_with_a_warning() -> None:
    with pytest.warns(ModejumpWarning, match="^column 'c' is constant and is ignored.$"):
        model = fit(X.assign(c=1))
    assert model.table_.names == ["a", "b", "d", "e"] and model.table_.total == 4
    assert np.isfinite(model.predict(X)).all()
    with pytest.warns(ModejumpWarning, match="^columns 'c', 'd' are constant and are ignored.$"):
        fit(X.assign(c=0, d=True))
    with pytest.warns(ModejumpWarning, match="^5 markers are constant and are ignored: a_d, b_r, c_r, d_r, e_r.$"):
        fit(X.assign(a=X["a"] + 1), coding="genotype")


def test_classes_are_at_least_two() -> None:
    with pytest.raises(InputError, match="^y has one class only, 1"):
        fit(y=np.ones(80, int), kind=LogicClassifier)
    assert len(fit(y=np.arange(80) % 3, kind=LogicClassifier).estimators_) == 3


def test_new_data_must_be_like_those_of_the_fit() -> None:
    model = fit()
    for new, words in (
        (X.drop(columns="b"), "b"),
        (changed(), r"^column 'c' is 2 in row 7 \(counting from 0\), and not a 0 or 1; code it as at the fit, or drop"),
        (changed(value=np.nan), "^column 'c' is nan in row 7"),
        (changed(column="age", value=np.nan), "^column 'age' is NaN in row 7"),
        (X.assign(a="x"), "^column 'a' does not hold numbers"),
        (X.to_numpy()[:, :5], "^X has 5 columns, but the fit had 6; give as many"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            model.predict(new)
        assert "\n" not in str(caught.value).strip() or "feature names" in str(caught.value)
    genotypes = fit(X[list("abcde")] * 2, coding="genotype", always_in=())
    with pytest.raises(InputError, match="column 'a' is 3 in row .* not a genotype 0, 1 or 2"):
        genotypes.predict(X[list("abcde")] * 3)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    g = X[list("abcde")].to_numpy().astype(np.int8)
    bed = tmp_path / "study.bed"
    to_bed(bed, g, properties={"pheno": [str(v) for v in Y]})
    whole = bed.read_bytes()
    genotypes = modejump.read_plink(bed)
    bed.write_bytes(whole[:-3])
    with pytest.raises(InputError, match="the .bed file is cut short, or the files do not belong together"):
        modejump.read_plink(bed)
    # A file that is cut short after it was opened is told of as well.
    with pytest.raises(InputError, match="study.bed cannot be read"):
        fit(genotypes, genotypes.phenotype, coding="genotype", always_in=())
    bed.write_bytes(b"no genotypes")
    with pytest.raises(InputError, match="is not a PLINK .bed file"):
        modejump.read_plink(bed)
    bed.unlink()
    with pytest.raises(InputError, match="study.bed does not exist"):
        modejump.read_plink(bed)
