"""``modejump fit --logic`` and ``predict``: tables, PLINK files, pages of 80 columns, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bed_reader import to_bed

import modejump
from modejump.cli import main

SHORT = ["--leaves", "2", "--chains", "4", "--steps", "6000", "--seed", "1"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of markers with an age and a class, genotypes in PLINK's files, and new rows of each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    rng = np.random.default_rng(3)
    x = pd.DataFrame(rng.integers(0, 2, (300, 20)), columns=[f"m{j}" for j in range(20)])
    x["age"] = rng.normal(50.0, 10.0, 300).round(2)
    signal = 2.0 * (x["m0"] & x["m3"]) - 1.5 * (x["m4"] & (1 - x["m6"])) + 0.05 * x["age"]
    x["trait"] = (signal + rng.normal(size=300)).round(4)
    x["ill"] = np.where(2.0 * (signal - signal.mean()) + rng.logistic(size=300) > 0, "yes", "no")
    x["w"] = 1
    x.to_csv("data.csv", index=False)
    x.head(9).sample(frac=1.0, axis=1, random_state=1).to_csv("new.csv", index=False)
    g = rng.binomial(2, 0.5, (300, 12)).astype(np.int8)
    y = 2.0 * ((g[:, 2] == 2) & (g[:, 5] >= 1)) + 0.7 * rng.normal(size=300)
    g[4, 1] = -127
    write_bed("study.bed", g, [*map(str, y[:-2]), "NA", "-9"])
    write_bed("cases.bed", np.abs(g % 3), np.where(y > 1.0, "2", "1"))
    return tmp_path


def write_bed(name: str, g: np.ndarray, phenotype: object) -> None:
    to_bed(name, g, properties={"pheno": phenotype, "sid": [f"rs{j}" for j in range(g.shape[1])]})


def fit(line: str) -> int:
    return main(["fit", *line.split(), *SHORT])


def test_fit_prints_a_page_of_logic_features_and_its_run_predicts(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit("data.csv --target trait --logic --always-in age --drop ill,w --out run") == 0
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines())
    page = " ".join(out.split())
    for words in (
        "trait in data.csv", "20 binary covariates; always in: intercept, age", "logic (covariates = 20)", "m0 & m3",
        "*age", "*(m0 & m3)", "*(m4 & !m6)", "(m0 & m3) + (m4 & !m6)", "stored in run",
    ):  # fmt: skip
        assert words in page
    assert main("predict run new.csv --interval 0.9".split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mean,lower,upper" and len(lines) == 10
    table = pd.read_csv("data.csv").drop(columns=["ill", "w"])
    options = {"chains": 4, "budget": modejump.Budget(steps=6000), "random_state": 1}
    with pytest.warns(modejump.ModejumpWarning):
        model = modejump.LogicRegressor(always_in=["age"], space=modejump.LogicSpace(leaves=2), **options).fit(
            table.drop(columns="trait"), table["trait"]
        )
    expected = model.predict(table.drop(columns="trait")[:9])
    np.testing.assert_allclose([float(line.split(",")[0]) for line in lines[1:]], expected, rtol=1e-9)
    assert main("predict run new.csv --kind median".split()) == 0
    assert main("resume run --quiet".split()) == 0


def test_classes_and_weights(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "data.csv --target ill --family binomial --logic --always-in age --drop trait --weights w --out run"
    assert fit(line) == 0
    assert "logit P(ill = yes) =" in capsys.readouterr().out
    assert main("predict run new.csv".split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "class,probability of no,probability of yes" and len(lines) == 10


def test_preselection_and_priors_are_honoured(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "data.csv --target trait --logic --always-in age --drop ill,w --preselect 6"
    assert fit(line) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "20 binary covariates, features made of the 6 of largest effect, alone or in a subgroup" in page
    for prior, words in (("logic=500", "logic (covariates = 500)"), ("complexity=1/n", "complexity (a = 1/n")):
        assert fit(f"{line} --model-prior {prior} --algorithm gmjmcmc") == 0
        page = " ".join(capsys.readouterr().out.split())
        assert words in page and "GMJMCMC, 4 chains" in page


def test_plink_files_are_fitted_and_predicted(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fit("study.bed --logic --missing mode --drop rs9 --out run") == 0
    out, err = capsys.readouterr()
    page = " ".join(out.split())
    assert "modejump: warning: 2 of 300 individuals have no phenotype and are left out.\n" in err
    for words in ("phenotype in study.bed", "298 rows, 22 markers of 11 genotypes", "rs2_r & rs5_d"):
        assert words in page
    assert all(len(line) <= 80 for line in out.splitlines())
    assert main("predict run study.bed -o out.csv".split()) == 0
    got = pd.read_csv("out.csv")["mean"]
    assert len(got) == 300
    g = modejump.read_plink("study.bed").genotypes(0, 12).astype(float)
    frame = pd.DataFrame(g, columns=[f"rs{j}" for j in range(12)]).replace(-127.0, np.nan)
    frame.to_csv("table.csv", index=False)
    assert main("predict run table.csv -o again.csv".split()) == 0
    np.testing.assert_allclose(pd.read_csv("again.csv")["mean"], got, rtol=1e-9)
    # The same genotypes in a table.
    frame.assign(y=modejump.read_plink("study.bed").phenotypes)[:-2].to_csv("table.csv", index=False)
    assert fit("table.csv --target y --logic --genotypes --missing mode --drop rs9 --out second") == 0
    one, two = (pd.read_csv(Path(name, "inclusion.csv")) for name in ("run", "second"))
    assert one["feature"][0] == two["feature"][0] == "rs2_r & rs5_d"


def test_cases_and_controls_of_plink_files(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fit("cases.bed --logic --family binomial --target status --out run") == 0
    assert "logit P(status = 2) =" in capsys.readouterr().out
    assert main("predict run cases.bed".split()) == 0
    assert capsys.readouterr().out.startswith("class,probability of 1,probability of 2\n")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("data.csv --target trait --logic --transforms sin", "--transforms does not go with --logic"),
        ("data.csv --target trait --logic --factors ill", "--factors does not go with --logic"),
        ("data.csv --logic --formula trait~m0", "--formula does not go with --logic"),
        ("data.csv --target trait --logic --chunked", "--logic does not go with --chunked"),
        ("data.csv --target trait --logic --algorithm mjmcmc", "selects among given terms"),
        ("data.csv --target trait --logic --model-prior uniform", "must be a LogicPrior or a ComplexityPrior"),
        ("data.csv --target trait --logic --model-prior logic=few", "covariates of the logic prior is 'few'"),
        ("data.csv --target trait --logic --leaves 9", "may be at most 5"),
        ("data.csv --target trait --logic --missing mode", "missing is about genotypes"),
        ("data.csv --target trait --logic --genotypes --missing mean", "must be 'refuse' or 'mode'"),
        ("data.csv --target trait --logic --preselect 0", "preselect must be a whole number"),
        ("data.csv --target trait --logic --drop ill,w", "column 'age' is "),
        ("data.csv --target trait --logic --drop w --always-in age", "column 'ill' does not hold numbers"),
        ("data.csv --target trait --logic --drop ill,w --always-in old", "--always-in names column 'old'"),
        ("data.csv --logic", "give --target COLUMN"),
        ("data.csv --target trait --leaves 2", "--leaves goes with --logic; add --logic, or leave it out"),
        ("data.csv --target trait --genotypes", "--genotypes goes with --logic"),
        ("data.csv --target trait --missing mode", "--missing goes with --logic"),
        ("data.csv --target trait --preselect 9", "--preselect goes with --logic"),
        ("data.csv --target trait --model-prior logic", "--model-prior logic goes with --logic"),
        ("study.bed", "study.bed holds genotypes, which only --logic reads; add --logic"),
        ("study.bed --logic", "genotypes are missing, the first in column 'rs1', row 4"),
        ("study.bed --logic --missing mode --weights w", "--weights names a column of a table"),
        ("study.bed --logic --missing mode --drop rs77", "--drop 'rs77' is not a column"),
        ("none.bed --logic", "none.bed does not exist"),
        ("cut.bed --logic", "cut short"),
    ],
)
def test_what_does_not_go_together_is_refused(
    files: Path, capsys: pytest.CaptureFixture[str], line: str, words: str
) -> None:
    for kind in ("bed", "bim", "fam"):
        Path(f"cut.{kind}").write_bytes(Path(f"study.{kind}").read_bytes()[: -5 if kind == "bed" else None])
    assert main(["fit", *line.split(), "--out", "run"]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1
    assert not Path("run").exists()


def test_new_rows_that_do_not_fit_the_run_are_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("fit data.csv --target trait --drop ill,w --out columns --quiet".split()) == 0
    assert main("predict columns study.bed".split()) == 2
    assert "the run was not fitted by --logic" in capsys.readouterr().err
    assert fit("data.csv --target trait --logic --always-in age --drop ill,w --out run --quiet") == 0
    capsys.readouterr()
    assert main("predict run study.bed".split()) == 2
    assert "no column 'm0', which the fit used" in capsys.readouterr().err
    pd.read_csv("new.csv").assign(m3=2).to_csv("wrong.csv", index=False)
    assert main("predict run wrong.csv".split()) == 2
    assert "column 'm3' is 2 in line 2" in capsys.readouterr().err
    pd.read_csv("new.csv").drop(columns="m3").to_csv("wrong.csv", index=False)
    assert main("predict run wrong.csv".split()) == 2
    assert "'m3' is not a column of the table" in capsys.readouterr().err
