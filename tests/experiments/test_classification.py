"""The comparison of classifiers on new rows: tables, runs, their file, and the command."""

import json

import numpy as np
import pandas as pd
import pytest

from modejump import InputError
from modejump.cli import main
from modejump.experiments.classification import OTHERS, Classes, Comparison
from modejump.experiments.ledger import run_study


def table(rows=120, seed=5):
    rng = np.random.default_rng(seed)
    x = pd.DataFrame(rng.normal(size=(rows, 3)) * [1.0, 50.0, 0.01], columns=["a", "b", "c"])
    x["neo"] = (x["a"] * x["b"] + 5 * rng.logistic(size=rows) > 0).astype(int)
    return x.assign(train=(np.arange(rows) < 60).astype(int))


def test_covariates_are_standardised_by_the_rows_to_learn_from():
    classes = Classes.of(table(), "t.csv")
    assert classes.name == "asteroids" and list(classes.x) == ["a", "b", "c"]
    np.testing.assert_allclose(classes.x[classes.train].mean(), 0.0, atol=1e-12)
    np.testing.assert_allclose(classes.x[classes.train].std(), 1.0)


def test_a_product_is_found_that_linear_classifiers_do_not_see(tmp_path):
    study = Comparison([Classes.of(table(), "t.csv")], ["rgmjmcmc"], 1, 2.0, 0, 1)
    rows = {row["method"]: row for row in run_study(study, tmp_path / "runs.json")}
    assert set(rows) == {"rgmjmcmc", *OTHERS}
    assert rows["rgmjmcmc"]["accuracy"] > rows["penalised logistic"]["accuracy"] + 0.1
    # What was run is not run again.
    held = json.loads((tmp_path / "runs.json").read_text())
    assert run_study(study, tmp_path / "runs.json") == held["rows"]
    with pytest.raises(InputError, match="seconds"):
        run_study(Comparison(study.tables, ["rgmjmcmc"], 1, 3.0, 0, 1), tmp_path / "runs.json")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.drop(columns="train"), "needs a column 'train'"),
        (lambda t: t.drop(columns="neo"), "as response one of"),
        (lambda t: t.assign(train=1), "marks all rows or none"),
    ],
)
def test_tables_that_say_too_little(change, says):
    with pytest.raises(InputError, match=says):
        Classes.of(change(table()), "t.csv")


@pytest.mark.full
def test_the_command(tmp_path, capsys):
    table().to_csv(tmp_path / "asteroids.csv", index=False)
    asked = ["reproduce", "classification", "--data", str(tmp_path), "--runs", "1", "--budget", "seconds=1"]
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("asteroids", "rgmjmcmc", "penalised logistic", "0.9998"))
    assert main(["reproduce", "classification"]) == 2
    assert main([*asked[:-1], "paper"]) == 2
    (tmp_path / "empty").mkdir()
    assert main(["reproduce", "classification", "--data", str(tmp_path / "empty")]) == 2
