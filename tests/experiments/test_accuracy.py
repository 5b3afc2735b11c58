"""Errors against exact posteriors: the cases, the study, its table and its picture."""

import json

import numpy as np
import pandas as pd
import pytest
from conftest import REFERENCE

from modejump.cli import main
from modejump.core import progress
from modejump.experiments import accuracy
from modejump.experiments.accuracy import Case, Estimate, Study, errors, laws_case, selection_case
from modejump.experiments.ceiling import exact_laws
from modejump.experiments.ledger import run_study
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.priors.complexity import ComplexityPrior
from modejump.problem.feature_problem import feature_problem

SECONDS = 0.1


@pytest.fixture
def quiet_log(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(progress, "LINE_EVERY", 1e9)


def made_up(name: str = "one", off: float = 0.0) -> Case:
    """A case whose estimates are off by a known amount that grows with the run."""
    exact = np.array([0.5, 0.2])

    def estimate(algorithm, seconds, seed):
        number = seed.spawn_key[-1]
        return Estimate(exact + off * np.array([1.0, -number]), exact + off)

    return Case(name, f"{name}: a title", ("mjmcmc",), exact, estimate, lambda algorithm: None, "made up")


def test_errors_by_hand():
    assert errors(np.array([0.5, 0.1]), np.array([0.4, 0.3])) == {
        "largest": pytest.approx(0.2),
        "total_variation": pytest.approx(0.15),
    }


def test_rows_are_medians_over_the_runs(tmp_path):
    study = Study([made_up(off=0.1)], ["mjmcmc", "gmjmcmc"], [1.0, 2.0], 3, 0)
    rows = run_study(study, tmp_path / "a.json", jobs=2)
    assert [(row["estimate"], row["seconds"]) for row in rows] == [
        ("frequency", 1.0), ("renormalised", 1.0), ("frequency", 2.0), ("renormalised", 2.0)
    ]  # fmt: skip
    # Over runs 0, 1, 2 the largest errors of the frequencies are 0.1, 0.1, 0.2.
    assert [row["error"] for row in rows] == [pytest.approx(0.1)] * 4
    assert rows[0]["total_variation"] == pytest.approx(0.1) and rows[0]["runs"] == 3
    held = json.loads((tmp_path / "a.json").read_text())
    assert held["rows"] == rows and len(held["outcomes"]) == 6
    assert run_study(study, tmp_path / "a.json") == rows


def test_selection_estimates_come_near_the_enumeration():
    case = selection_case(None)
    assert case.algorithms == ("mjmcmc",) and (case.exact > accuracy.LEAST).all()
    case.prime("mjmcmc")
    frequency, renormalised = case.estimate("mjmcmc", SECONDS, np.random.SeedSequence(1))
    assert frequency.shape == renormalised.shape == case.exact.shape
    assert errors(renormalised, case.exact)["largest"] < errors(np.full_like(case.exact, 0.5), case.exact)["largest"]


def test_laws_are_matched_by_their_columns():
    """A space whose every model a chain evaluates: the renormalised estimate is exact."""
    rng = np.random.default_rng(8)
    x = rng.uniform(0.5, 2.0, (40, 2))
    problem = feature_problem(
        x,
        x[:, 0] * x[:, 1] + 0.3 * rng.standard_normal(40),
        ["a", "b"],
        transforms=[transforms["sin"]],
        space=Space(depth=1, width=2, complexity=2, size=1, population=8),
        model_prior=ComplexityPrior("exp(-1)"),
    )
    laws, exact = exact_laws(problem, everything=True)
    assert exact[0] == exact.max() and laws[0].text == "a*b"
    case = laws_case("tiny", "tiny: two covariates", problem, laws, exact, "simulated")
    case.prime("gmjmcmc")
    frequency, renormalised = case.estimate("gmjmcmc", SECONDS, np.random.SeedSequence(1))
    assert frequency is None
    # The collected models reach down to exp(-16) of the best one's probability.
    np.testing.assert_allclose(renormalised, case.exact, atol=len(laws) * np.exp(-16.0))


def test_command_prints_draws_and_stores(tmp_path, quiet_log, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(accuracy, "small_space_case", lambda: made_up("small-space", 0.01))
    monkeypatch.setattr(accuracy, "planets_case", lambda planets: made_up("planets", 1e-9))
    monkeypatch.setattr(accuracy, "selection_case", lambda frame: made_up("selection", 0.1))
    line = "reproduce accuracy --runs 2 --seconds 0.5,0.1 --plot a.png --json a.json".split()
    assert main(line) == 0
    out, err = capsys.readouterr()
    assert err == "" and all(len(text) <= 80 for text in out.splitlines())
    for part in ("small-space: a title", "0.1 s", "frequency", "renormalised", "median of 2 runs", "are simulated"):
        assert part in " ".join(out.split())
    assert (tmp_path / "a.png").stat().st_size > 10_000
    rows = json.loads((tmp_path / "a.json").read_text())["rows"]
    assert {row["case"] for row in rows} == {"selection", "small-space", "planets"}
    assert main([*line, "--quiet", "--jobs", "2"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main([*line, "--seed", "2"]) == 2
    assert "seed 0, and 2 is asked for" in capsys.readouterr().err


def test_command_on_the_crime_data(tmp_path, quiet_log, monkeypatch, capsys):
    path = tmp_path / "a.json"
    line = ["reproduce", "accuracy", "--algorithm", "mjmcmc", "--runs", "1", "--seconds", str(SECONDS)]
    assert main([*line, "--data", str(REFERENCE / "crime.csv"), "--json", str(path)]) == 0
    assert "crime: 15 covariates, 47 rows" in capsys.readouterr().out
    rows = json.loads(path.read_text())["rows"]
    assert [(row["case"], row["estimate"]) for row in rows] == [("crime", "frequency"), ("crime", "renormalised")]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--seconds", "0"], "--seconds has '0'"),
        (["--seconds", "1,soon"], "--seconds has 'soon'"),
        (["--threads", "4"], "--threads does not go with accuracy"),
        (["--budget", "paper"], "--budget does not go with accuracy"),
        (["--protocol", "text"], "--protocol does not go with accuracy"),
        (["--algorithm", "enumerate"], "unknown --algorithm 'enumerate'"),
        (["--plot", "a.doc"], "has no picture format"),
        (["--data", "."], "holds neither crime.csv nor exoplanets.csv"),
        (["--data", "odd.csv"], "has neither a column 'y'"),
        (["--data", "wide.csv"], "has 30 covariates"),
        (["--data", "words.csv"], "holds text"),
    ],
)
def test_wrong_arguments(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 1.0]}).to_csv("odd.csv", index=False)
    rng = np.random.default_rng(1)
    wide = pd.DataFrame(rng.normal(size=(40, 30)), columns=[f"x{j}" for j in range(30)])
    wide.assign(y=rng.normal(size=40)).to_csv("wide.csv", index=False)
    pd.DataFrame({"a": ["p", "q"], "y": [2.0, 1.0]}).to_csv("words.csv", index=False)
    assert main(["reproduce", "accuracy", *words]) == 2
    err = capsys.readouterr().err
    assert sentence in err and err.count("\n") == 1
