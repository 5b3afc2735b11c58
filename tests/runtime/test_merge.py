"""Merged runs: united models, exact renormalised estimates, pooled chains, and what is refused."""

from __future__ import annotations

import shutil
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mortal import rewrite
from paper_rules import paper
from test_files import HOSTILE

import modejump
from modejump import (
    BatchLikelihood,
    BGLMClassifier,
    BGLMRegressor,
    BGNLMRegressor,
    Budget,
    InputError,
    load,
    merge,
)
from modejump.cli import main
from modejump.features.nonlinear.expression import Feature
from modejump.posterior.merge import _alike, united_models
from modejump.posterior.posterior import Posterior
from modejump.problem.fingerprint import fingerprints
from modejump.problem.problem import Problem
from modejump.runtime.files import MODEL
from modejump.samplers.diagnostics import diagnose
from modejump.samplers.result import ModelTable

pytestmark = pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")

NAMES = [f"c{j}" for j in range(16)]


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    x = pd.DataFrame(rng.normal(size=(60, 16)), columns=NAMES)
    return x.assign(y=0.5 * x["c0"] + 0.4 * x["c3"] + rng.normal(size=60))


def sampled(data: pd.DataFrame, seed: int, **options: Any) -> BGLMRegressor:
    options = {"algorithm": "mjmcmc", "budget": Budget(steps=1000, warmup=500), "chains": 2} | options
    return BGLMRegressor(random_state=seed, **options).fit(data[NAMES], data["y"])


@pytest.fixture(scope="module")
def runs(data: pd.DataFrame) -> list[BGLMRegressor]:
    return [sampled(data, seed) for seed in (1, 2, 3)]


@pytest.fixture(scope="module")
def laws() -> list[BGNLMRegressor]:
    """Searches that find the same laws in different spellings: |x| and its root are met as powers too."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0.5, 3.0, (120, 3))
    y = 2.0 + 2.0 * x[:, 0] * np.sin(x[:, 2]) + 0.4 * rng.normal(size=120)
    options = {"algorithm": "gmjmcmc", "chains": 2, "budget": Budget(steps=6000)} | paper(population=15, size=5)
    return [
        BGNLMRegressor(random_state=s, transforms=("sin", "square", "relu", "troot"), **options).fit(x, y)
        for s in (1, 2)
    ]


def as_dict(model: Any) -> dict[tuple[str, ...], float]:
    frame = model.posterior_.models(limit=None)
    return dict(zip(frame["features"], frame["log_posterior"]))


def test_renormalised_estimates_are_those_over_the_union(runs: list[BGLMRegressor]) -> None:
    merged = merge(*runs)
    union: dict[tuple[str, ...], float] = {}
    for run in runs:
        union |= as_dict(run)
    assert as_dict(merged).keys() == union.keys()
    values = np.array(list(union.values()))
    weight = np.exp(values - values.max())
    expected = {name: sum(w for w, m in zip(weight, union) if name in m) / weight.sum() for name in NAMES}
    found = merged.inclusion_["renormalised"]
    assert found.to_dict() == pytest.approx(expected, abs=1e-12)
    assert merged.posterior_.log_evidence == pytest.approx(values.max() + np.log(weight.sum()), abs=1e-12)
    assert merged.posterior_.n_models == len(union)


def test_frequencies_are_pooled_over_all_chains(runs: list[BGLMRegressor]) -> None:
    merged = merge(*runs).posterior_
    means = np.concatenate([run.posterior_.result.batch_means for run in runs])
    expected = diagnose(means, runs[0].posterior_.result.batch_length)
    for field in ("frequency", "mcse", "ess", "r_hat"):
        np.testing.assert_array_equal(getattr(merged.diagnostics, field), getattr(expected, field))
    steps = [run.posterior_.result.steps for run in runs]
    assert merged.result.steps == sum(steps)
    visits = sum(int(run.posterior_.result.models.visits.sum()) for run in runs)
    assert int(merged.result.models.visits.sum()) == visits
    best = merged.best_model()
    shares = [dict(zip(f["features"], f["probability"])) for f in (run.posterior_.models(None) for run in runs)]
    expected_share = sum(s.get(best, 0.0) * n for s, n in zip(shares, steps)) / sum(steps)
    assert merged.models(1)["probability"][0] == pytest.approx(expected_share, abs=1e-12)
    assert merged.size_distribution.sum() == pytest.approx(1.0, abs=1e-12)
    assert merged.result.unvisited <= max(run.posterior_.result.unvisited for run in runs)


def test_the_order_of_the_runs_does_not_matter(data: pd.DataFrame, runs: list[BGLMRegressor]) -> None:
    reference = merge(*runs)
    for order in permutations(runs):
        other = merge(*order)
        np.testing.assert_array_equal(other.posterior_.result.models.words, reference.posterior_.result.models.words)
        np.testing.assert_allclose(other.posterior_.probability, reference.posterior_.probability, atol=1e-15)
        np.testing.assert_allclose(other.predict(data[NAMES]), reference.predict(data[NAMES]), rtol=1e-12)
    both = merge(merge(runs[0], runs[1]), runs[2])
    np.testing.assert_allclose(both.posterior_.renormalised, reference.posterior_.renormalised, atol=1e-14)
    np.testing.assert_array_equal(both.posterior_.result.models.visits, reference.posterior_.result.models.visits)


def test_merging_files_is_merging_what_they_were_saved_from(
    data: pd.DataFrame, runs: list[BGLMRegressor], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for i, run in enumerate(runs):
        run.save(tmp_path / str(i))
    assert main(["merge", *(str(tmp_path / str(i)) for i in range(3)), "-o", str(tmp_path / "all")]) == 0
    assert "3 runs merged" in capsys.readouterr().out
    merged, stored = merge(*runs), load(tmp_path / "all")
    np.testing.assert_array_equal(stored.posterior_.result.models.words, merged.posterior_.result.models.words)
    np.testing.assert_allclose(stored.posterior_.probability, merged.posterior_.probability, atol=1e-15)
    for kind in ("bma", "best", "median"):
        np.testing.assert_allclose(stored.predict(data[NAMES], kind=kind), merged.predict(data[NAMES], kind=kind))
    # The average is over models that all runs visited, so it lies where theirs lie.
    apart = np.abs(merged.predict(data[NAMES]) - np.mean([run.predict(data[NAMES]) for run in runs], axis=0)).max()
    assert apart < max(np.ptp([run.predict(data[NAMES]) for run in runs], axis=0))
    assert stored.merged_seeds_ == (1, 2, 3)
    with pytest.raises(InputError, match="seed 2"):
        merge(stored, runs[1])
    assert main(["merge", str(tmp_path / "0"), str(tmp_path / "1"), "-o", str(tmp_path / "all")]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(["merge", str(tmp_path / "0"), "-o", str(tmp_path / "new")]) == 2
    assert "at least two" in capsys.readouterr().err
    quiet = [str(tmp_path / "0"), str(tmp_path / "1"), "-o", str(tmp_path / "all"), "--force", "--quiet"]
    assert main(["merge", *quiet]) == 0
    assert not capsys.readouterr().out


def test_run_directories_merge_when_they_are_finished(
    data: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data.to_csv(tmp_path / "data.csv", index=False)
    one, two, out = (tmp_path / name for name in ("one", "two", "out"))
    for seed, run in ((1, one), (2, two)):
        asked = ["fit", str(tmp_path / "data.csv"), "--target", "y", "--algorithm", "mjmcmc", "--seed", str(seed)]
        assert main([*asked, "--steps", "1000", "--chains", "2", "--quiet", "--out", str(run)]) == 0
    line = ["merge", str(one), str(two), "-o", str(out)]
    assert main(line) == 0
    assert load(out).posterior_.result.batch_means.shape[0] == 4
    capsys.readouterr()
    shutil.copytree(two, tmp_path / "copy")
    # A run that ended between its last words and the removal of its rows is finished.
    (two / "job-1.npz").write_bytes(b"")
    assert main([*line, "--force", "--quiet"]) == 0
    # One that was interrupted has an outcome, one that was killed has none.
    rewrite(two, record=MODEL, result=MODEL.about(two)["result"] | {"finished": False})
    for _ in range(2):
        assert main([*line, "--force"]) == 2
        assert f"the run in {two} is not finished; " in " ".join(capsys.readouterr().err.split())
        (two / "run.json").unlink(missing_ok=True)
    # Where a merged run is written, no earlier run can be resumed.
    assert main(["merge", str(one), str(out), "-o", str(two)]) == 2
    assert "holds an unfinished run" in " ".join(capsys.readouterr().err.split())
    assert main(["merge", str(one), str(tmp_path / "copy"), "-o", str(two), "--force", "--quiet"]) == 0
    assert not (two / "job.json").exists() and not (two / "job-1.npz").exists()


def test_functions_of_the_users_own_are_not_merged(data: pd.DataFrame, tmp_path: Path) -> None:
    def scores(models: list[tuple[str, ...]]) -> list[float]:
        return [-float(len(model)) for model in models]

    runs = [sampled(data, seed, family=BatchLikelihood(scores)) for seed in (1, 2)]
    runs[1].save(tmp_path / "run")
    for pair in (runs, [runs[0], load(tmp_path / "run")]):
        with pytest.raises(InputError, match="likelihood of your own cannot be merged"):
            merge(*pair)
    with pytest.raises(InputError, match="likelihood of your own cannot be merged"):
        runs[0].posterior_.merge(runs[1].posterior_)
    with pytest.raises(InputError, match="has no fingerprint"):
        fingerprints(runs[0].problem_)
    assert runs[0].posterior_.fingerprints is None


def test_enumerated_posteriors_merge_to_themselves(data: pd.DataFrame, runs: list[BGLMRegressor]) -> None:
    exact = BGLMRegressor(algorithm="enumerate").fit(data[NAMES], data["y"])
    assert merge(exact, exact).posterior_ is exact.posterior_
    assert merge(runs[0], exact, runs[1]).posterior_ is exact.posterior_
    assert exact.posterior_.merge() is exact.posterior_


def test_the_same_chains_twice_are_refused(
    runs: list[BGLMRegressor], laws: list[BGNLMRegressor], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="seed 1.*the same chains"):
        merge(runs[0], runs[0])
    laws[0].save(tmp_path / "laws")
    with pytest.raises(InputError, match="same chains"):
        laws[0].posterior_.merge(load(tmp_path / "laws").posterior_)
    runs[0].save(tmp_path / "run")
    for other in (runs[0].posterior_, load(tmp_path / "run").posterior_):
        with pytest.raises(InputError, match="same chains"):
            runs[0].posterior_.merge(other)


def test_runs_of_other_problems_are_refused_and_told_apart(data: pd.DataFrame, runs: list[BGLMRegressor]) -> None:
    shifted = data.assign(c0=data["c0"].where(data.index != 5, data["c0"] + 1e-12))
    for other, part in [
        (sampled(data, 9, coef_prior="bic"), "the priors differ"),
        (sampled(data, 9, model_prior="uniform"), "the priors differ"),
        (sampled(data, 9, always_in=("c1",)), "the terms"),
        (sampled(data, 9, groups={"g": ["c1", "c2"]}), "the terms"),
        (sampled(shifted, 9), "the data differ"),
        (sampled(data.iloc[1:], 9), "the data differ"),
    ]:
        with pytest.raises(InputError, match=part):
            merge(runs[0], other)
        with pytest.raises(InputError, match=part):
            runs[0].posterior_.merge(other.posterior_)
    same = sampled(data.sample(frac=1.0, random_state=1), 9)
    assert merge(runs[0], same).posterior_.n_models >= runs[0].posterior_.n_models
    with pytest.raises(InputError, match="BGLMRegressor and a BGNLM"):
        merge(runs[0], BGNLMRegressor(algorithm="gmjmcmc", budget=Budget(steps=300)).fit(data[NAMES], data["y"]))
    with pytest.raises(InputError, match="takes fitted estimators"):
        merge(runs[0], "runs")
    with pytest.raises(InputError, match="no estimator"):
        merge()


def test_values_that_disagree_are_refused(runs: list[BGLMRegressor]) -> None:
    table = runs[0].posterior_.result.models
    other = ModelTable(table.words, table.log_posterior + 1e-3, table.visits, table.first_seen, table.chains)
    with pytest.raises(InputError, match="differ by 0.001"):
        united_models([table, other])
    close = ModelTable(table.words, table.log_posterior + 1e-9, table.visits, table.first_seen, table.chains)
    assert len(united_models([table, close])) == len(table)


def test_runs_of_different_length_stand_side_by_side(data: pd.DataFrame, runs: list[BGLMRegressor]) -> None:
    longer = sampled(data, 8, budget=Budget(steps=5000, warmup=500), chains=1)
    merged = merge(runs[0], longer).posterior_.result
    assert merged.batch_means.shape[0] == 3
    assert merged.steps == runs[0].posterior_.result.steps + longer.posterior_.result.steps
    assert any("differ in length" in note for note in merged.notes)


@pytest.mark.parametrize(("one", "other"), [(20_000, 33_333), (20_000, 90_001), (7_777, 20_011)])
def test_any_two_budgets_merge(data: pd.DataFrame, one: int, other: int) -> None:
    """Batches whose lengths have nothing in common are put together where they are nearly of one length."""
    parts = [sampled(data, s, budget=Budget(steps=n), chains=2) for s, n in ((21, one), (22, other))]
    results = [part.posterior_.result for part in parts]
    merged = merge(*parts).posterior_.result
    means, length = merged.batch_means, merged.batch_length
    assert means.shape[1] >= 8 and len(means) == 4
    for rows, result in ((slice(0, 2), results[0]), (slice(2, 4), results[1])):
        # Each chain's share is that of its own first steps.
        times = round(length / result.batch_length)
        assert 1.0 <= times * result.batch_length / length <= 1.05
        first = result.batch_means[:, : times * means.shape[1]]
        np.testing.assert_allclose(means[rows].mean(axis=1), first.mean(axis=1), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("lengths", [(500, 312), (50, 50), (100, 150), (46, 500), (311, 313, 997), (1, 7919)])
def test_lengths_are_made_alike_by_short_multiples(lengths: tuple[int, ...]) -> None:
    made = _alike(lengths)
    assert all(m % length == 0 for m, length in zip(made, lengths, strict=True))
    assert max(made) <= 1.05 * min(made) and max(made) <= 40 * max(lengths)
    if lengths in ((50, 50), (100, 150)):
        assert len(set(made)) == 1


def test_generalised_linear_models_merge_from_files(data: pd.DataFrame, tmp_path: Path) -> None:
    few, labels = NAMES[:7], np.where(data["y"] > 0, "up", "down")
    options = {"algorithm": "mjmcmc", "budget": Budget(steps=300, warmup=100), "chains": 2}
    models = [BGLMClassifier(random_state=s, **options).fit(data[few], labels) for s in (1, 2)]
    for i, model in enumerate(models):
        model.save(tmp_path / str(i))
    merged = merge(*models)
    again = merge(load(tmp_path / "1"), load(tmp_path / "0"))
    again.save(tmp_path / "all")
    ours = merged.predict_proba(data[few])
    np.testing.assert_allclose(load(tmp_path / "all").predict_proba(data[few]), ours, rtol=1e-9)
    exact = BGLMClassifier(algorithm="enumerate").fit(data[few], labels)
    np.testing.assert_allclose(ours, exact.predict_proba(data[few]), atol=0.1)
    swapped = BGLMClassifier(random_state=5, **options).fit(data[few], np.where(data["y"] > 0, "yes", "no"))
    with pytest.raises(InputError, match="labels of the classes"):
        merge(models[0], swapped)


# Laws.


def spelled(model: BGNLMRegressor) -> dict[frozenset[Feature], float]:
    """Models by the features as they were met."""
    found, models = model.laws_, model.posterior_.result.models
    plain = {
        frozenset(found.features[j] for j in models.members(i)): float(models.log_posterior[i])
        for i in range(len(models))
    }
    return {m: v for m, v in plain.items() if not any(found.aliases[f] for f in m)} | dict(found.spelled)


def test_laws_are_united_and_their_spellings_summed(laws: list[BGNLMRegressor]) -> None:
    assert any(model.laws_.spelled for model in laws), "the case has no law in several spellings"
    merged = merge(*laws)
    union = spelled(laws[0]) | spelled(laws[1])
    law_of = {f: law for law in merged.laws_.features for f in (law, *merged.laws_.aliases[law])}
    values: dict[frozenset[Feature], float] = {}
    for model, value in union.items():
        key = frozenset(law_of[f] for f in model)
        values[key] = np.logaddexp(values.get(key, -np.inf), value)
    total = np.logaddexp.reduce(list(values.values()))
    assert merged.posterior_.log_evidence == pytest.approx(total, abs=1e-10)
    for law in merged.laws_.features:
        expected = sum(np.exp(v - total) for m, v in values.items() if law in m)
        assert merged.inclusion_["probability"][law.text] == pytest.approx(expected, abs=1e-12)
    assert merged.posterior_.result.populations == sum(m.posterior_.result.populations for m in laws)


def test_laws_merge_from_files_in_any_order(laws: list[BGNLMRegressor], tmp_path: Path) -> None:
    for i, model in enumerate(laws):
        model.save(tmp_path / str(i))
    merged, again = merge(*laws), merge(load(tmp_path / "1"), load(tmp_path / "0"))
    assert again.laws_.features == merged.laws_.features and again.laws_.aliases == merged.laws_.aliases
    np.testing.assert_allclose(again.posterior_.renormalised, merged.posterior_.renormalised, atol=1e-14)
    again.save(tmp_path / "all")
    stored = load(tmp_path / "all")
    new = np.random.default_rng(1).uniform(0.5, 3.0, (20, 3))
    np.testing.assert_allclose(stored.predict(new, interval=0.9), merged.predict(new, interval=0.9), rtol=1e-9)
    assert spelled(stored) == pytest.approx(spelled(merged))
    assert stored.summary() and stored.to_latex()
    pd.testing.assert_frame_equal(laws[0].posterior_.merge(laws[1].posterior_).inclusion, merged.inclusion_)
    with pytest.raises(InputError, match="seed 1"):
        merge(stored, laws[0])


def test_reversible_runs_pool_their_frequencies() -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(0.5, 3.0, (80, 2))
    y = x[:, 0] * x[:, 1] + 0.3 * rng.normal(size=80)
    options = {"chains": 2, "budget": Budget(steps=2000, warmup=1500), "transforms": ("sin",)} | paper()
    models = [BGNLMRegressor(random_state=s, **options).fit(x, y) for s in (1, 2)]
    merged = merge(*models)
    assert merged.posterior_.result.batch_means.shape[0] == 4
    steps = [m.posterior_.result.steps for m in models]
    for law in merged.inclusion_.index[:3]:
        shares = [m.inclusion_["probability"].get(law, 0.0) for m in models]
        assert merged.inclusion_["probability"][law] == pytest.approx(np.average(shares, weights=steps), abs=0.02)
    with pytest.raises(InputError, match="different algorithms"):
        search = BGNLMRegressor(random_state=7, **(options | {"algorithm": "gmjmcmc", "budget": Budget(steps=300)}))
        merge(models[0], search.fit(x, y))


# Fingerprints and files.


def test_fingerprints_tell_the_parts_apart(data: pd.DataFrame) -> None:
    x, y = data[NAMES[:4]].to_numpy(), data["y"].to_numpy()
    parts = fingerprints(Problem.build(x, y))
    assert set(parts) == {"likelihood", "prior", "terms", "data"}
    order = np.random.default_rng(1).permutation(len(y))
    assert fingerprints(Problem.build(x[order], y[order])) == parts
    twice = Problem.build(np.vstack([x, x]), np.concatenate([y, y]))
    assert fingerprints(twice)["data"] == fingerprints(Problem.build(x, y, weights=np.full(60, 2.0)))["data"]
    for other, changed in [
        (Problem.build(x, y, coef_prior="bic"), {"prior"}),
        (Problem.build(x, y, model_prior="beta-binomial"), {"prior"}),
        (Problem.build(x, -y), {"data"}),
        (Problem.build(x, y, weights=np.r_[2.0, np.ones(59)]), {"data"}),
        (Problem.build(x, y, terms={"a": [0], "b": [1], "c": [2], "d": [3]}), {"terms"}),
        (Problem.build(x, y, terms={"x1": [0, 1], "x2": [2], "x3": [3]}), {"terms"}),
        (Problem.build(x, y, intercept=False), {"terms"}),
    ]:
        found = fingerprints(other)
        assert {name for name in parts if found[name] != parts[name]} == changed
        assert fingerprints(other) != fingerprints(Problem.build(x, y))
    counts = np.random.default_rng(1).poisson(3.0, 60).astype(float)
    plain = fingerprints(Problem.build(x, counts, family="poisson", coef_prior="bic"))
    offset = fingerprints(Problem.build(x, counts, family="poisson", coef_prior="bic", offset=y))
    assert plain["data"] != offset["data"]
    assert plain["likelihood"] != parts["likelihood"]


def test_files_without_a_fingerprint_load_and_are_not_merged(runs: list[BGLMRegressor], tmp_path: Path) -> None:
    runs[0].save(tmp_path / "run")
    assert set(MODEL.about(tmp_path / "run")["fingerprint"]) == {"likelihood", "prior", "terms", "data"}
    rewrite(tmp_path / "run", record=MODEL, fingerprint=None)
    unknown = load(tmp_path / "run")
    with pytest.raises(InputError, match="no fingerprint of its problem"):
        merge(unknown, runs[1])
    unknown.save(tmp_path / "again")
    assert load(tmp_path / "again").posterior_.fingerprints is None


def test_hostile_files_are_refused_and_run_nothing(
    runs: list[BGLMRegressor], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, out = (tmp_path / name for name in ("one", "two", "out"))
    runs[0].save(one)
    wrong: list[dict[str, Any]] = [{"blob": HOSTILE[kind]} for kind in ("a pickle", "an array of objects")]
    for changes in [*wrong, {"fingerprint": 3}, {"fingerprint": ["data"]}]:
        runs[1].save(two)
        rewrite(two, record=MODEL, **changes)
        assert main(["merge", str(one), str(two), "-o", str(out)]) == 2
        said = capsys.readouterr()
        assert "damaged" in said.err and "executed" not in said.out
    assert not out.exists()


def test_merged_posteriors_are_posteriors(runs: list[BGLMRegressor]) -> None:
    merged = runs[0].posterior_.merge(runs[1].posterior_)
    assert isinstance(merged, Posterior)
    assert merged.fingerprints == runs[0].posterior_.fingerprints
    assert merged.verdict.level
    assert np.isfinite(merged.log_marginal_likelihood(["c0"]))
    assert modejump.merge is merge
