"""Large tables: fits read them where they lie, find what they find in a copy, and stay within twice their memory."""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import enumerate_models

import modejump
from modejump.core.errors import InputError
from modejump.data import rows
from modejump.data.rows import LARGE_BYTES, as_if_writable, in_place, table_in_place
from modejump.likelihoods.columns import fit_columns
from modejump.likelihoods.glm.expansion import expand
from modejump.likelihoods.glm.newton import BY_COLUMN, BY_ROW, STANDARDISED, new_glm_work
from modejump.likelihoods.glm.parts import fit_columns_by_parts
from modejump.posterior.posterior import Posterior
from modejump.problem import problem as problems
from modejump.problem.fingerprint import fingerprints, is_unchanged, sealed
from modejump.problem.problem import Problem

TERMS = {"a": [4], "b": [0], "fixed": [5], "dead": [3], "c": [2], "d": [1]}


def table(rows: int = 900) -> np.ndarray:
    """Columns of all lengths and far from zero, one of them constant."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((rows, 6)) * [1.0, 1e-3, 50.0, 0.0, 1.0, 2.0] + [0.0, 5.0, 1e5, 7.0, -3.0, 1.0]
    return np.ascontiguousarray(x)


def response(x: np.ndarray, family: str) -> np.ndarray:
    rng = np.random.default_rng(4)
    eta = 0.5 * (x[:, 4] + 3.0) + 300.0 * (x[:, 1] - 5.0)
    if family == "binomial":
        return (rng.random(len(x)) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    return rng.poisson(np.exp(eta)).astype(float) if family == "poisson" else rng.gamma(2.0, np.exp(eta) / 2.0)


@pytest.fixture
def all_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table counts as large."""
    for module in (problems, rows):
        monkeypatch.setattr(module, "LARGE_BYTES", 0)


def build(x: np.ndarray, family: str, prior: str, weighted: bool = False, **options: object) -> Problem:
    rng = np.random.default_rng(5)
    more = {"weights": rng.integers(1, 4, len(x)) / 2.0, "offset": rng.standard_normal(len(x)) / 9.0}
    return Problem.build(
        x, response(x, family), terms=TERMS, always_in=["fixed"],
        family=family, coef_prior=prior, **(more if weighted else {}), **options,
    )  # fmt: skip


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("family", "prior"), [("binomial", "g"), ("poisson", "hyper-g"), ("gamma", "bic")])
def test_fits_read_what_a_copy_holds(family, prior, weighted, monkeypatch):
    x = table()
    copy = build(x, family, prior, weighted)
    monkeypatch.setattr(problems, "LARGE_BYTES", 0)
    read_only = x.copy()
    read_only.flags.writeable = False
    lying = [build(given, family, prior, weighted) for given in (np.asfortranarray(x), x, read_only)]
    assert [p.data.glm.layout for p in (copy, *lying)] == [STANDARDISED, BY_COLUMN, BY_ROW, BY_ROW]
    assert np.shares_memory(lying[1].data.glm.x, x) and np.shares_memory(lying[2].data.glm.x, read_only)
    some = slice(100, 333)
    unit = copy.data.glm.x
    for problem in lying:
        data = problem.data
        np.testing.assert_allclose(data.glm.candidate_rows(some), unit[:, some], rtol=0, atol=1e-9 * unit.max())
        np.testing.assert_allclose(data.gram, copy.data.gram, rtol=0, atol=1e-12)
        assert problem.dead_terms() == ["dead"] and not len(data.columns.x) and not len(data.columns.response)
        for cols in (np.arange(2), np.array([1, 3, 4]), np.array([4])):
            works = [new_glm_work(glm, 5) for glm in (copy.data.glm, data.glm, data.glm)]
            arguments = (cols, data.coef_prior, data.n)
            expected = fit_columns(copy.data.glm, works[0], *arguments)
            np.testing.assert_allclose(fit_columns(data.glm, works[1], *arguments), expected, rtol=0, atol=1e-7)
            parts = fit_columns_by_parts(data.glm, works[2], *arguments, threads=2)
            np.testing.assert_allclose(parts, expected, rtol=0, atol=1e-7)
            np.testing.assert_allclose(works[1].beta[:3], works[0].beta[:3], rtol=1e-6, atol=1e-9)
        assert fingerprints(problem) == fingerprints(copy)
        mine, theirs = (expand(g, np.array([0, 4]), data.coef_prior, data.n) for g in (data.glm, copy.data.glm))
        np.testing.assert_allclose(mine.gram, theirs.gram, rtol=0, atol=1e-9)
        np.testing.assert_allclose(mine.corr, theirs.corr, rtol=0, atol=1e-9)


def test_both_ways_of_lying_give_the_same_bits(all_large):
    x = table()
    first, second = (build(given, "binomial", "hyper-g-n") for given in (np.asfortranarray(x), x))
    np.testing.assert_array_equal(first.data.gram, second.data.gram)
    np.testing.assert_array_equal(first.data.glm.centre, second.data.glm.centre)
    one, two = (enumerate_models(p) for p in (first, second))
    np.testing.assert_array_equal(one.models.log_posterior, two.models.log_posterior)


def test_enumeration_with_heredity_orders_columns_that_stay(monkeypatch):
    x = table()
    terms = {"b:c": [1], "b": [0], "d": [4], "c": [2]}
    prior = modejump.BernoulliPrior(0.4, heredity="strong")
    results = []
    for limit in (LARGE_BYTES, 0):
        monkeypatch.setattr(problems, "LARGE_BYTES", limit)
        problem = Problem.build(
            x, response(x, "binomial"), terms=terms, family="binomial", coef_prior="g", model_prior=prior
        )
        results.append(enumerate_models(problem))
    np.testing.assert_allclose(results[1].renormalised, results[0].renormalised, rtol=0, atol=1e-7)
    assert results[1].n_models == results[0].n_models


def test_short_tables_wide_ones_gaussian_ones_and_scattered_ones_are_copied(monkeypatch):
    rng = np.random.default_rng(8)
    x = table()
    y = response(x, "binomial")
    assert Problem.build(x, y, family="binomial").data.glm.layout == STANDARDISED
    monkeypatch.setattr(problems, "LARGE_BYTES", 0)
    assert Problem.build(x, y).data.glm.layout == STANDARDISED
    assert Problem.build(np.hstack([x, x])[:, ::2], y, family="binomial").data.glm.layout == STANDARDISED
    wide = rng.standard_normal((len(x), 40))
    assert Problem.build(wide, y, family="binomial").data.glm.layout == STANDARDISED
    assert Problem.build(np.asfortranarray(wide), y, family="binomial").data.glm.layout == BY_COLUMN


def fitted(x, y, **options) -> modejump.BGLMClassifier:
    options = {"algorithm": "enumerate", "progress": False} | options
    return modejump.BGLMClassifier(**options).fit(x, y)


@pytest.mark.parametrize("kind", ["rows", "columns", "frame", "frame of rows"])
def test_the_estimator_copies_nothing_and_finds_the_same(kind, monkeypatch):
    x = table()[:, [0, 1, 2, 4, 5]]
    y = response(table(), "binomial")
    expected = fitted(x, y)
    for module in (problems, rows):
        monkeypatch.setattr(module, "LARGE_BYTES", 0)
    names = list("abcde")
    given = {
        "rows": lambda: x,
        "columns": lambda: np.asfortranarray(x),
        "frame": lambda: pd.DataFrame({name: x[:, j] for j, name in enumerate(names)}),
        "frame of rows": lambda: pd.DataFrame(x, columns=names, copy=False),
    }[kind]()
    model = fitted(given, y)
    lying = given if isinstance(given, np.ndarray) else given.to_numpy()
    assert np.shares_memory(model.problem_.data.glm.x, lying)
    np.testing.assert_allclose(model.posterior_.probability, expected.posterior_.probability, rtol=0, atol=1e-6)
    mine, theirs = (m.predict_proba(g) for m, g in ((model, given), (expected, x)))
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-6)
    assert model.posterior_.fingerprints["data"] == expected.posterior_.fingerprints["data"]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(given), mine)


def test_frames_of_several_arrays_are_gathered(all_large):
    x = table()
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "k": np.arange(len(x)), "c": x[:, 2]})
    model = fitted(frame, response(x, "binomial"))
    assert model.problem_.data.glm.layout == BY_COLUMN
    assert not np.shares_memory(model.problem_.data.glm.x, frame["a"].to_numpy())
    assert model.table_.names == ["a", "b", "k", "c"]
    assert np.isfinite(model.predict_proba(frame)).all()
    some = pd.DataFrame({name: x[:, j] for j, name in enumerate("abc")})
    some.iloc[7, 1] = np.nan
    with pytest.raises(InputError, match="column 'b' is NaN in row 7"):
        fitted(some, response(x, "binomial"))


def test_a_table_that_changed_after_the_fit_is_noticed(all_large):
    x = table()[:, [0, 1, 4]]
    y = response(table(), "binomial")
    model = fitted(x, y)
    before = model.predict_proba(x)
    x[5, 1] += 1e-9
    # What was kept of the models needs no rows, and new models do.
    np.testing.assert_allclose(model.predict_proba(x), before, rtol=0, atol=1e-5)
    with pytest.raises(InputError, match="the table was changed after the fit"):
        model.log_marginal_likelihood(["x0"])
    late = fitted(x, y)
    x[0] = 0.0
    with pytest.raises(InputError, match="fit again"):
        late.predict_proba(x)
    x[0] = 1.0
    problem = sealed(Problem.build(x, y, family="binomial"))
    assert is_unchanged(problem) and is_unchanged(Problem.build(x, y))
    assert Posterior(problem, enumerate_models(problem)).fingerprints["data"] == problem.digest


def test_columns_in_one_array_are_found():
    x = table()
    names = range(x.shape[1])
    for lying in (x, np.asfortranarray(x)):
        found = table_in_place([lying[:, j] for j in names])
        assert np.shares_memory(found, lying)
        np.testing.assert_array_equal(found, x)
    assert table_in_place([x[:, j].copy() for j in names]) is None
    assert table_in_place([x[:, j] for j in (1, 0, 2)]) is None
    assert table_in_place([x[::2, j] for j in names]) is None
    assert table_in_place([x[:, j] for j in (0, 1)]) is None
    held = table_in_place([np.asfortranarray(x)[:, j] for j in names])
    gc.collect()
    np.testing.assert_array_equal(held if held is not None else x, x)
    x.flags.writeable = False
    same = as_if_writable(x)
    assert same.flags.writeable and np.shares_memory(same, x) and as_if_writable(same) is same
    assert in_place([2, 3, 4]) == slice(2, 5) and in_place([2, 4]) == [2, 4] and in_place([]) == []


def test_a_fit_and_predictions_allocate_less_than_the_table():
    x = np.random.default_rng(2).standard_normal((450_000, 20))
    assert x.nbytes > LARGE_BYTES
    y = (np.random.default_rng(3).random(len(x)) < 1.0 / (1.0 + np.exp(-x[:, 0]))).astype(float)
    budget = modejump.Budget(steps=2, warmup=0)
    model = modejump.BGLMClassifier(algorithm="mjmcmc", chains=1, budget=budget, random_state=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", modejump.ModejumpWarning)
        # Kernels are compiled before memory is counted.
        model.fit(x, y).predict(x[:9])
        tracemalloc.start()
        model.fit(x, y)
    try:
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        model.predict(x[:-1])
        after = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held < 0.4 * x.nbytes and max(peak, after) < 0.8 * x.nbytes


MEASURED = """
import ctypes, gc, json, sys, warnings
from pathlib import Path
import numpy as np, pandas as pd
import modejump

def resident(mark):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) * 1024 for line in lines if line.startswith(mark + ":"))

def table(rows):
    rng = np.random.default_rng(1)
    x = np.empty((rows, 20), order="C" if kind == "rows" else "F")
    for j in range(20):
        x[:, j] = rng.standard_normal(rows)
    eta = 0.5 * x[:, 0] + 0.3 * x[:, 1]
    if family == "binomial":
        y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    else:
        y = rng.poisson(np.exp(eta)) if family == "poisson" else rng.gamma(2.0, np.exp(eta) / 2.0)
    return pd.DataFrame(x, columns=[f"v{j}" for j in range(20)]) if kind == "frame" else x, y

def fit(x, y, steps):
    budget = modejump.Budget(steps=steps, warmup=0)
    options = dict(algorithm="mjmcmc", chains=1, budget=budget, random_state=1, progress=False)
    if family == "binomial":
        model = modejump.BGLMClassifier(**options).fit(x, y)
    else:
        model = modejump.BGLMRegressor(family=family, **options).fit(x, y)
    model.predict(x)
    return model

def settle():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)

warnings.simplefilter("ignore")
kind, family = sys.argv[1:]
fit(*table(2000), 200)
fit(*table(150_000), 20)
settle()
empty = resident("VmRSS")
x, y = table(1_000_000)
settle()
Path("/proc/self/clear_refs").write_text("5")
model = fit(x, y, 4)
print(json.dumps((resident("VmHWM") - empty) / (8 * 20 * 1_000_000)))
"""


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="this system has no /proc to read memory from")
@pytest.mark.parametrize(
    ("kind", "family"),
    [("rows", "binomial"), ("columns", "binomial"), ("frame", "binomial"), ("rows", "poisson"), ("frame", "gamma")],
)
def test_a_million_rows_take_at_most_twice_their_table(kind, family):
    source = Path(modejump.__file__).resolve().parents[1]
    command = [sys.executable, "-c", MEASURED, kind, family]
    env = os.environ | {"PYTHONPATH": str(source)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    # The table itself, and the response, are among them.
    assert json.loads(done.stdout) <= 2.0
