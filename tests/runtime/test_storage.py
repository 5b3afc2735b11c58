"""Runs on disk: what is read back is what was written, and broken files say so in one sentence."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from brute import brute_force, lazy_chains, small_problem
from mortal import outcome, rewrite
from running import coefficients

from modejump import BGLMClassifier
from modejump.core.errors import InputError
from modejump.posterior import Posterior, storage
from modejump.posterior.prediction.distribution import new_rows
from modejump.posterior.storage import load_run, save_run
from modejump.priors.coefficients import COEF_PRIORS
from modejump.priors.models import BernoulliPrior, BetaBinomialPrior, UniformPrior
from modejump.problem.problem import Problem
from modejump.runtime.files import MODEL


@pytest.fixture(scope="module")
def exact() -> Posterior:
    problem = small_problem(np.random.default_rng(61), terms=5, coef_prior="hyper-g", model_prior="beta-binomial")
    return Posterior(problem, brute_force(problem))


@pytest.fixture(scope="module")
def reversible(exact: Posterior) -> Posterior:
    """As from reversible chains over features."""
    result = lazy_chains(exact.problem, exact.result, np.random.default_rng(70))
    visits = result.models.visits
    chains = np.minimum(visits, np.arange(len(visits)) % 3)
    return Posterior(
        exact.problem,
        replace(
            result,
            algorithm="rgmjmcmc",
            models=replace(result.models, chains=chains),
            chain_best=np.array([3.0, 2.0, 3.0, 1.0]),
            library=17,
            library_share=0.75,
            population_moves={"population": (1000, 20, 300), "population-small": (0, 0, 0)},
        ),
    )


@pytest.fixture(scope="module")
def sampled(exact: Posterior) -> Posterior:
    return Posterior(exact.problem, lazy_chains(exact.problem, exact.result, np.random.default_rng(62)))


def same_answers(a: Posterior, b: Posterior) -> None:
    """Every answer of two posteriors is the same."""
    pd.testing.assert_frame_equal(a.inclusion, b.inclusion)
    pd.testing.assert_frame_equal(a.models(limit=50), b.models(limit=50))
    pd.testing.assert_series_equal(a.size_distribution, b.size_distribution)
    assert a.verdict == b.verdict
    assert a.verdict.level == b.verdict.level
    assert (a.best_model(), a.median_model()) == (b.best_model(), b.median_model())
    assert (a.problem.names, a.problem.always_in) == (b.problem.names, b.problem.always_in)
    assert a.steps_per_second == b.steps_per_second
    for name in ("algorithm", "acceptance", "population_moves", "library", "restarts"):
        assert getattr(a.result, name) == getattr(b.result, name), name
    for name in ("unvisited", "library_share"):
        assert np.array_equal(getattr(a.result, name), getattr(b.result, name), equal_nan=True), name
    rng = np.random.default_rng(63)
    wanted = a.problem.data.base - int(a.problem.intercept)
    rows = rng.normal(size=(6, a.problem.n_columns)), rng.normal(size=(6, wanted))
    one, two = new_rows(a.problem, *rows), new_rows(b.problem, *rows)
    for kind in ("bma", "best", "median"):
        assert np.allclose(a.predictor(kind).mean(one), b.predictor(kind).mean(two), rtol=1e-12)
        assert np.allclose(a.predictor(kind).std(one), b.predictor(kind).std(two), rtol=1e-12)
        for x, y in zip(a.predictor(kind).interval(one, 0.8), b.predictor(kind).interval(two, 0.8), strict=True):
            assert np.allclose(x, y, rtol=1e-9)
    pd.testing.assert_frame_equal(coefficients(a), coefficients(b), rtol=1e-10)
    for features in (a.best_model(), a.problem.names[:2], ()):
        assert a.log_marginal_likelihood(features) == pytest.approx(b.log_marginal_likelihood(features), rel=1e-12)


@pytest.mark.parametrize("which", ["exact", "sampled", "reversible"])
def test_a_run_comes_back(which: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    posterior: Posterior = request.getfixturevalue(which)
    extra = {"table": {"columns": ["x1", "x2"], "levels": [1.5, None, "ü"]}}
    save_run(posterior, tmp_path / "new" / "run", extra)
    loaded, kept = load_run(tmp_path / "new" / "run")
    assert kept == extra
    same_answers(posterior, loaded)
    # Again from what was loaded: nothing is lost on the way.
    save_run(loaded, tmp_path / "again")
    same_answers(posterior, load_run(tmp_path / "again")[0])
    assert np.array_equal(loaded.result.models.chains, posterior.result.models.chains)


@pytest.mark.parametrize("name", sorted(COEF_PRIORS))
def test_every_coefficient_prior_comes_back(name: str, tmp_path: Path) -> None:
    problem = small_problem(np.random.default_rng(64), terms=3, coef_prior=name)
    posterior = Posterior(problem, brute_force(problem))
    save_run(posterior, tmp_path)
    loaded, _ = load_run(tmp_path)
    assert loaded.problem.coef_prior == problem.coef_prior
    same_answers(posterior, loaded)


@pytest.mark.parametrize(
    "prior",
    [
        UniformPrior(max_size=2),
        BernoulliPrior(q=[0.1, 0.2, 0.3, 0.4]),
        BetaBinomialPrior(a=1.0, b=3.0, heredity="weak"),
    ],
)
def test_every_model_prior_comes_back(prior: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(65)
    x = rng.normal(size=(30, 4))
    x[:, 3] = x[:, 0] * x[:, 1]
    terms = {"u": [0], "v": [1], "w": [2], "product": [3]}
    # These parents cannot be read off the names, so the file has to know them.
    problem = Problem.build(
        x, x[:, 0] + rng.normal(size=30), terms=terms, model_prior=prior, parents=[[], [], [], [0, 1]]
    )
    posterior = Posterior(problem, brute_force(problem))
    save_run(posterior, tmp_path)
    loaded, _ = load_run(tmp_path)
    for a, b in zip(problem.data.prior, loaded.problem.data.prior, strict=True):
        assert np.array_equal(a, b)
    same_answers(posterior, loaded)


def test_weights_factors_and_terms_always_in(tmp_path: Path) -> None:
    rng = np.random.default_rng(66)
    x = rng.normal(size=(30, 5)) + 100.0
    problem = Problem.build(
        x,
        x[:, 0] - x[:, 4] + rng.normal(size=30),
        terms={"a": [0], "f": [1, 2], "b": [3], "z": [4]},
        always_in=["z"],
        weights=rng.integers(1, 4, size=30).astype(float),
        coef_prior="jzs",
    )
    posterior = Posterior(problem, brute_force(problem))
    save_run(posterior, tmp_path)
    same_answers(posterior, load_run(tmp_path)[0])


def test_near_perfect_fits_need_no_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(67)
    x = rng.normal(size=(40, 3))
    problem = Problem.build(x, 1.0 + x[:, 0] + 1e-7 * rng.normal(size=40), coef_prior="bic")
    posterior = Posterior(problem, brute_force(problem))
    save_run(posterior, tmp_path)
    loaded, _ = load_run(tmp_path)
    assert loaded.log_marginal_likelihood(["x0"]) == pytest.approx(posterior.log_marginal_likelihood(["x0"]), abs=1e-9)
    same_answers(posterior, loaded)


def test_training_rows_are_not_in_the_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(68)
    rows = 37
    problem = small_problem(rng, rows=rows, terms=4)
    save_run(Posterior(problem, brute_force(problem)), tmp_path)
    secrets = {*problem.data.columns.x.ravel().tolist(), *problem.data.columns.response.tolist()}
    for name, array in MODEL.read(tmp_path)[1].items():
        assert rows not in array.shape, name
        if array.dtype.kind == "f":
            assert not secrets & set(array.ravel().tolist()), name
    loaded, _ = load_run(tmp_path)
    assert loaded.problem.data.columns.x.shape == (0, 4)
    assert loaded.problem.rows == rows


def test_many_columns_store_what_prediction_needs(
    exact: Posterior, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "WHOLE_GRAM", 2)
    rng = np.random.default_rng(69)
    x = rng.normal(size=(60, 6))
    y = 3.0 * x[:, 0] + 3.0 * x[:, 1] + 0.01 * rng.normal(size=60)
    problem = Problem.build(x, y, coef_prior="g", model_prior=BernoulliPrior(q=1e-4))
    posterior = Posterior(problem, dataclasses.replace(brute_force(problem), exact=False))
    assert len(posterior.kept_models("bma").weight) < 6
    save_run(posterior, tmp_path)
    loaded, _ = load_run(tmp_path)
    same_answers(posterior, loaded)
    unknown = np.flatnonzero(np.isnan(np.diag(loaded.problem.data.gram)))
    assert len(unknown)
    with pytest.raises(InputError, match="does not hold what the model"):
        loaded.log_marginal_likelihood([problem.names[unknown[0]]])


def test_long_tables_are_cut(sampled: Posterior, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "STORED_MODELS", 3)
    save_run(sampled, tmp_path)
    loaded, _ = load_run(tmp_path)
    assert len(loaded.result.models) == 3
    assert loaded.n_models == sampled.n_models
    assert loaded.result.forgotten_visits + loaded.result.models.visits.sum() == sampled.result.steps
    new = np.random.default_rng(70).normal(size=(4, 5))
    mine, theirs = (p.predictor().mean(new_rows(p.problem, new)) for p in (sampled, loaded))
    assert np.allclose(mine, theirs)


def test_files_for_people(sampled: Posterior, tmp_path: Path) -> None:
    save_run(sampled, tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["inclusion.csv", "models.csv", "run-1.npz", "run.json"]
    inclusion = pd.read_csv(tmp_path / "inclusion.csv", index_col="feature")
    assert np.allclose(inclusion["probability"], sampled.inclusion["probability"])
    models = pd.read_csv(tmp_path / "models.csv", keep_default_na=False)
    assert models["features"][0] == " + ".join(sampled.best_model())
    about = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert about["verdict"]["level"] == sampled.verdict.level


def test_cut_tables_leave_the_unvisited_mass_as_it_was(
    reversible: Posterior, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = reversible.result
    assert 0.0 < result.unvisited < 1.0
    for step, stored in enumerate((5, 2)):
        monkeypatch.setattr(storage, "STORED_MODELS", stored)
        save_run(reversible, tmp_path / str(step))
        loaded, _ = load_run(tmp_path / str(step))
        assert len(loaded.result.models) == len(loaded.result.models.chains) == stored
        assert loaded.result.forgotten_shared > 0
        # The second is cut from what the first one kept.
        assert loaded.result.unvisited == pytest.approx(result.unvisited, abs=1e-12)
        assert loaded.verdict == reversible.verdict
        reversible = loaded


def test_writing_twice_gives_the_same_bytes(exact: Posterior, tmp_path: Path) -> None:
    save_run(exact, tmp_path)
    before, about = outcome(tmp_path), MODEL.about(tmp_path)
    save_run(exact, tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["inclusion.csv", "models.csv", "run-2.npz", "run.json"]
    assert outcome(tmp_path) == before
    assert MODEL.about(tmp_path) == about | {"arrays": about["arrays"] | {"file": "run-2.npz"}}


def told(path: Path, says: str) -> None:
    """A saved model is refused in one sentence."""
    with pytest.raises(InputError, match=says) as caught:
        load_run(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_broken_files_say_so_in_one_sentence(exact: Posterior, tmp_path: Path) -> None:
    save_run(exact, tmp_path)
    about, arrays = tmp_path / "run.json", tmp_path / "run-1.npz"
    text, blob = about.read_text(encoding="utf-8"), arrays.read_bytes()
    for other, says in (
        (text.replace('"format_version": 4', '"format_version": 99'), "has format 99.* use the version that wrote it"),
        (text.replace("modejump run", "modejump job"), "not written by modejump"),
        ("[1, 2]", "not written by modejump"),
        (text[: len(text) // 2], "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"a":' * 100_000, "not valid JSON"),
        (text.replace('"names"', '"nobody"'), "run.json is not the file that was written"),
    ):
        assert other != text
        about.write_text(other, encoding="utf-8")
        told(tmp_path, says)
    # Somebody who knows the format vouches for what he changed.
    for changes, says in (
        ({"names": 3}, "does not describe a posterior"),
        ({"coef_prior": {"name": "nobody's"}}, "damaged"),
    ):
        about.write_text(text, encoding="utf-8")
        rewrite(tmp_path, record=MODEL, problem=MODEL.about(tmp_path)["problem"] | changes)
        told(tmp_path, says)
    about.write_text(text, encoding="utf-8")
    arrays.write_bytes(blob[: len(blob) // 2])
    told(tmp_path, "run-1.npz is not the file that was written; save it again")
    arrays.unlink()
    told(tmp_path, "run-1.npz cannot be read; save it again")
    about.unlink()
    told(tmp_path, "no readable run.json")


def forged(folder: Path, changes: dict[str, np.ndarray]) -> None:
    """Change arrays as somebody would who knows the format."""
    about, arrays = MODEL.read(folder)
    del about["arrays"]
    MODEL.write(folder, about, arrays | changes)


FORGERIES: dict[str, Any] = {
    "values of another type": lambda a: {"models/log_posterior": a["models/log_posterior"].astype(np.float32)},
    "models of terms beyond the last": lambda a: {"models/words": a["models/words"] | np.uint64(1 << 40)},
    "models of too many words": lambda a: {"models/words": np.repeat(a["models/words"], 3, axis=1)},
    "kept models of terms beyond the last": lambda a: {"bma/words": a["bma/words"] | np.uint64(1 << 63)},
    "fewer kept models": lambda a: {"bma/words": a["bma/words"][:-1]},
    "residuals of other models": lambda a: {"bma/resid": a["bma/resid"][:-1]},
    "visits of other models": lambda a: {"models/visits": a["models/visits"][:-1]},
    "columns beyond the last": lambda a: {"problem/first": a["problem/first"] * 1000},
    "columns before the first": lambda a: {"problem/first": a["problem/first"] - 3},
    "stretches of parents beyond the last": lambda a: {"problem/parent_start": a["problem/parent_start"] + 7},
    "products of columns beyond the last": lambda a: {"problem/gram_columns": a["problem/gram_columns"] + 1},
    "products of columns before the first": lambda a: {"problem/gram_columns": a["problem/gram_columns"] - 1},
    "a longer base": lambda a: {"problem/base": np.array(1 << 40)},
    "a shorter response": lambda a: {"problem/corr": a["problem/corr"][:-1]},
    "another number of terms": lambda a: {"result/renormalised": a["result/renormalised"][:-1]},
    "a scalar": lambda a: {"problem/scale": np.array(1.0)},
}


def test_forged_arrays_are_refused_before_anything_uses_them(exact: Posterior, tmp_path: Path) -> None:
    save_run(exact, tmp_path)
    _, arrays = MODEL.read(tmp_path)
    forged(tmp_path, {})
    same_answers(load_run(tmp_path)[0], exact)
    for which, forge in FORGERIES.items():
        changes = forge(arrays)
        assert changes.keys() <= arrays.keys(), which
        forged(tmp_path, arrays | changes)
        told(tmp_path, "damaged: .* does not fit its problem")


def test_forged_fits_of_classes_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 3))
    BGLMClassifier().fit(x, x[:, 0] + rng.normal(size=60) > 0).save(tmp_path)
    _, arrays = MODEL.read(tmp_path)
    for name, change in (("bma/fits/size", 1), ("bma/fits/size", 1 << 40), ("best/fits/size", -1)):
        forged(tmp_path, arrays | {name: arrays[name] + change})
        told(tmp_path, f"{name} does not fit its problem")


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("result", {"steps": "many"}),
        ("result", {"algorithm": 3}),
        ("result", {"finished": "no"}),
        ("result", {"log_evidence": None}),
        ("result", {"population_moves": {"swap": ["many"]}}),
        ("result", {"notes": [[1]]}),
        ("problem", {"names": "abcde"}),
        ("problem", {"always_in": [3]}),
        ("problem", {"rows": None}),
        ("problem", {"intercept": "yes"}),
    ],
)
def test_forged_fields_are_refused(exact: Posterior, tmp_path: Path, part: str, change: dict[str, Any]) -> None:
    save_run(exact, tmp_path)
    about = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    about[part] |= change
    (tmp_path / "run.json").write_text(json.dumps(about))
    told(tmp_path, "damaged")


def test_a_file_in_the_way_is_refused(exact: Posterior, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("here first")
    with pytest.raises(InputError, match="is a file"):
        save_run(exact, tmp_path / "run")
    with pytest.raises(InputError, match="not a saved model"):
        load_run(tmp_path / "run")
