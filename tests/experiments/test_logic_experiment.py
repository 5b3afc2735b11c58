"""The experiment on logic expressions: its data and priors, what it detects, and the command."""

import json
from dataclasses import replace

import numpy as np
import pytest

from modejump import InputError
from modejump.cli import main
from modejump.core import progress
from modejump.experiments import simulate_logic
from modejump.experiments.ceiling import selection_ceiling
from modejump.experiments.ledger import run_key, run_study
from modejump.experiments.logic import KINDS, TERMS, logic_design
from modejump.experiments.published import published_figures
from modejump.experiments.reproduce import CEILING, Trial

LABELS = [f"L{j}" for j in range(1, 9)]
STRONG = {"L4", "L5", "L6"}


@pytest.fixture
def trial() -> Trial:
    return Trial(logic_design(["bgnlm"]), "seconds=0.5", ["gmjmcmc"], [1], 2, 3)


def test_covariates_are_fair_and_independent_and_the_terms_have_the_published_coefficients():
    n = 20_000
    table = simulate_logic(n, 5)
    x, y = table.drop(columns="Y").to_numpy(), table["Y"].to_numpy()
    assert list(table.columns) == [*(f"X{j}" for j in range(1, 51)), "Y"] and set(np.unique(x)) == {0.0, 1.0}
    # Fifty means and 1225 correlations: five standard errors are exceeded once in a thousand such tests.
    assert np.abs(x.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(n)
    assert np.abs(np.corrcoef(x.T) - np.eye(50)).max() < 5 / np.sqrt(n)
    design = np.column_stack([np.ones(n), *(x[:, [j - 1 for j in members]].prod(axis=1) for _, _, members in TERMS)])
    fitted, rss = np.linalg.lstsq(design, y, rcond=None)[:2]
    error = np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    wanted = [1.0, 1.5, 1.5, 3.5, 6.6, 7.0, 9.0, 7.0, 7.0]
    assert (np.abs(fitted - wanted) < 5 * error).all()
    assert abs(rss[0] / n - 1.0) < 5 * np.sqrt(2 / n)
    assert simulate_logic(10, 5).equals(simulate_logic(10, 5)) and not simulate_logic(10, 5).equals(simulate_logic(10))
    with pytest.raises(InputError, match="n must be"):
        simulate_logic(0)


def test_priors_and_limits_are_those_of_the_paper(trial):
    problem = trial.problem("bgnlm", 0)
    assert problem.coef_prior.name == "bic" and problem.x.shape == (50, 1000)
    parse = problem.language.parse
    # Each operation costs log n, and a covariate nothing.
    weights = problem.log_weights([parse(text) for text in ("X1", "X1*X2", "sin(X1)", "X1*X2*X3*X4", "cos(X1*X2)*X3")])
    np.testing.assert_allclose(weights, -np.log(1000) * np.array([0, 1, 1, 3, 3]))
    limits = problem.language.limits
    assert (limits.size, limits.population) == (40, 40)
    assert problem.language.contains(parse("X1*X2*X3*X4")) and not problem.language.contains(parse("X1*X2*X3*X4*X5"))
    assert {t.name for t in problem.language.transforms} == {"cos", "sigmoid", "tanh", "atan", "sin", "erf"}
    paper = replace(trial, budget="paper").effort
    assert (paper.populations * 250, paper.distinct, paper.limits) == (15_000, 20_000, {"population": 40})
    assert (paper.budget.warmup, paper.budget.steps) == (7_500, 7_500)


def test_logic_features_have_the_logic_prior(trial):
    problem = trial.problem("logic", 0)
    parse = problem.language.parse
    assert problem.coef_prior.name == "bic" and problem.language.limits.size == 40
    # 1 / N(s), N(s) = C(50, s) 2^(2s - 2).
    weights = problem.log_weights([parse(text) for text in ("X1", "X1 & !X2", "X1 & (X2 | X3)", "X1 & X2 & X3 & X4")])
    np.testing.assert_allclose(weights, -np.log([50, 1225 * 4, 19_600 * 16, 230_300 * 64]))
    assert not problem.language.contains(parse("X1 & X2 & X3 & X4 & X5"))
    # Both kinds of features have the same data, and the same columns for the true terms.
    other = trial.problem("bgnlm", 0)
    np.testing.assert_array_equal(problem.y, other.y)
    design = logic_design()
    for label in LABELS:
        columns = [
            one.language.column(one.language.parse(design.laws[kind][label]), one.table, {})
            for kind, one in (("logic", problem), ("bgnlm", other))
        ]
        np.testing.assert_array_equal(*columns)


def test_every_run_has_data_of_its_own_that_all_algorithms_share(trial):
    first, second = trial.problem("bgnlm", 0).y, trial.problem("bgnlm", 1).y
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, replace(trial, algorithms=["rgmjmcmc"], threads=[4]).problem("bgnlm", 0).y)
    assert not np.array_equal(first, replace(trial, seed=4).problem("bgnlm", 0).y)


def test_ceiling_has_the_truth_and_the_covariates_that_the_prior_lets_in(trial):
    """Beside the true terms a covariate is let in where its own Bayes factor exceeds one, or nearly."""
    for number in range(3):
        problem = trial.problem("bgnlm", number)
        truth = [problem.language.parse(text) for text in trial.design.laws["bgnlm"].values()]
        seen = selection_ceiling(problem, truth, 0.5)
        assert len(seen.true) == 8
        columns = np.column_stack(problem.language.columns(truth, problem.table, {}))
        base, n = np.column_stack([np.ones(1000), columns]), 1000
        rss = float(np.linalg.lstsq(base, problem.y, rcond=None)[1][0])
        for name, column in problem.table.items():
            if name in ("X7", "X8"):
                continue
            more = float(np.linalg.lstsq(np.column_stack([base, column]), problem.y, rcond=None)[1][0])
            log_factor = -0.5 * n * np.log(more / rss) - 0.5 * np.log(n)
            if abs(log_factor) > 0.5:
                assert (name in seen.false) == (log_factor > 0.0), name


@pytest.mark.parametrize(
    ("features", "algorithm"), [("bgnlm", "gmjmcmc"), ("bgnlm", "rgmjmcmc"), ("logic", "rgmjmcmc")]
)
def test_a_short_run_detects_the_strong_terms(features, algorithm):
    trial = Trial(logic_design(), "seconds=3", [algorithm], [1], 1, 3)
    trial.prime([(features, algorithm, 1, 0)])
    seen = trial.run((features, algorithm, 1, 0))
    assert set(seen["true"]) >= STRONG and seen["seconds"] >= 3.0
    assert set(seen["posterior"]) == {*LABELS, *seen["false"]}


def test_rows_resume(trial, tmp_path, monkeypatch):
    path = tmp_path / "rows.json"
    (row,) = run_study(trial, path)
    assert (row["experiment"], row["protocol"], row["features"], row["runs"]) == ("logic", "text", "bgnlm", 2)
    assert list(row["laws"]) == LABELS and row["power"] == pytest.approx(np.mean(list(row["laws"].values())))
    assert row["published"] is None and row["ceiling"]["power"] == 1.0
    held = json.loads(path.read_text())
    ceilings = {run_key("bgnlm", CEILING, 0, i) for i in range(2)}
    assert set(held["outcomes"]) == ceilings | {run_key("bgnlm", "gmjmcmc", 1, i) for i in range(2)}
    calls = []
    monkeypatch.setattr(Trial, "run", lambda self, cell: calls.append(cell))
    assert run_study(trial, path) == [row] and calls == []
    with pytest.raises(InputError, match="seed 3, and 4 is asked for"):
        run_study(replace(trial, seed=4), path)


def test_published_figures_stand_beside_32_threads():
    for features in KINDS:
        for algorithm in ("rgmjmcmc", "gmjmcmc"):
            figures = published_figures("logic", algorithm, 32, features)
            assert figures is not None and len(figures.laws) == 8
            assert np.mean(figures.laws) == pytest.approx(figures.power, abs=0.006)
            assert published_figures("logic", algorithm, 1, features) is None


def test_command_prints_tables_of_80_columns(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(progress, "LINE_EVERY", 1e9)
    path = tmp_path / "rows.json"
    line = ["reproduce", "logic", "--threads", "1,32", "--runs", "1", "--budget", "seconds=0.3"]
    assert main([*line, "--algorithm", "gmjmcmc", "--json", str(path)]) == 0
    out, err = capsys.readouterr()
    assert err == "" and all(len(text) <= 80 for text in out.splitlines())
    words = " ".join(out.split())
    for part in (
        "detections above 0.5", "fresh data for each run", "features: bgnlm", "features: logic", "L7 X4*X10*X17*X30",
        "L7 X4 & X10 & X17 & X30", "(0.99)", "(0.51)", "(0.38)", "ceiling",
    ):  # fmt: skip
        assert part in words
    rows = json.loads(path.read_text())["rows"]
    assert [row["features"] for row in rows] == ["bgnlm", "bgnlm", "logic", "logic"]
    assert [row["published"] is None for row in rows] == [True, False] * 2
    assert [rows[i]["published"]["laws"]["L8"] for i in (1, 3)] == [0.98, 0.38]
