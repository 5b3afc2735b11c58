"""Every sampler continues after whatever ended it: its answer is that of a run that lived."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import feature_experiments
import numpy as np
import pandas as pd
import pytest
import twin
from mortal import Death, Mortal, die_often, outcome, refused, refused_arrays, rewrite, same
from running import enumerate_models, gmjmcmc, mjmcmc, rgmjmcmc

from modejump.cli import main
from modejump.core.errors import InputError, ModejumpWarning
from modejump.priors.models import BernoulliPrior, UniformPrior
from modejump.problem.problem import Problem
from modejump.runtime import checkpoints
from modejump.runtime.checkpoints import Checkpoint
from modejump.runtime.files import CHECKPOINT, Record
from modejump.samplers.budget import Budget
from modejump.samplers.settings import Sampler
from modejump.samplers.warmup import best_first
from modejump.samplers.warmup.best_first import BestFirstSearch

HERE = Path(__file__).resolve().parents[1] / "support"
ENUMERATION = sys.modules["modejump.samplers.enumerate"]
LINEAR = twin.one_column_each(361, 9, signal=0.3)
FEATURES = feature_experiments.small_problem(51, depth=2, width=3, complexity=4, size=3)


@pytest.fixture(autouse=True)
def _write_at_every_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "MOST_SHARE", 1e9)


def logistic(terms: int, rows: int = 90, **options: Any) -> Problem:
    """Yes and no by some covariates."""
    rng = np.random.default_rng(12)
    x = rng.normal(size=(rows, terms))
    y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-0.6 * x[:, 0] + 0.4 * x[:, 1]))).astype(float)
    return Problem.build(x, y, family="binomial", coef_prior="bic", **options)


# --- chains -------------------------------------------------------------------------------------------------------

SAMPLERS: dict[str, Callable[..., Any]] = {
    "mjmcmc": partial(mjmcmc, LINEAR, budget=Budget(steps=120_000), chains=3),
    "mjmcmc to a precision": partial(mjmcmc, LINEAR, budget=Budget(mcse=1e-3, cap=150_000), chains=3),
    "mjmcmc without warm-up": partial(mjmcmc, LINEAR, budget=Budget(warmup=0, steps=60_000), chains=1),
    "mjmcmc with a surrogate": partial(
        mjmcmc, logistic(6), budget=Budget(steps=60_000), chains=2, settings=Sampler(surrogate=True)
    ),
    "gmjmcmc": partial(gmjmcmc, FEATURES, budget=Budget(steps=9_000), chains=5),
    # Sampling in four pieces: a run that dies after three states at most dies in it.
    "rgmjmcmc": partial(rgmjmcmc, FEATURES, budget=Budget(warmup=6_000, steps=100_000), chains=3),
    "rgmjmcmc to a precision": partial(rgmjmcmc, FEATURES, budget=Budget(warmup=300, mcse=1e-3, cap=80_000), chains=2),
    "rgmjmcmc to distinct models": partial(
        rgmjmcmc, FEATURES, budget=Budget(warmup=300, steps=9_000), chains=2, distinct=900
    ),
    "rgmjmcmc of the paper": partial(
        rgmjmcmc, FEATURES, budget=Budget(steps=3_000), chains=2, settings=Sampler.paper()
    ),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_run_that_died_often_ends_as_one_that_lived(name: str, tmp_path: Path) -> None:
    run = partial(SAMPLERS[name], seed=1)
    found, deaths = die_often(partial(run, workers=2), tmp_path)
    same(found, run(workers=1))
    assert len(deaths) >= (1 if name in ("gmjmcmc", "rgmjmcmc of the paper") else 2)
    if name == "rgmjmcmc":
        assert {"search", "sampling"} <= {state["phase"] for state in deaths}


def test_seconds_spent_before_count(tmp_path: Path) -> None:
    budget = Budget(seconds=2.0)
    with pytest.raises(Death):
        mjmcmc(LINEAR, budget=budget, checkpoint=Mortal(tmp_path, 12))
    spent = CHECKPOINT.about(tmp_path)["state"]["spent"]
    assert spent > 0.1
    rewrite(tmp_path, state=CHECKPOINT.about(tmp_path)["state"] | {"spent": 1e6})
    result = mjmcmc(LINEAR, budget=budget, checkpoint=Checkpoint(tmp_path))
    assert result.warmup_seconds + result.seconds >= 1e6


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Death):
        mjmcmc(LINEAR, budget=Budget(steps=60_000), checkpoint=Mortal(tmp_path, 1))
    refused(partial(rgmjmcmc, FEATURES, budget=Budget(steps=100)), tmp_path, "not one of rgmjmcmc")
    for chains in (3, 5):
        refused(partial(mjmcmc, LINEAR, chains=chains, budget=Budget(steps=60_000)), tmp_path, "damaged")


def test_an_interrupted_search_is_valid() -> None:
    def interrupt(done: float, total: float, note: str) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    found = gmjmcmc(FEATURES, chains=6, budget=Budget(steps=9_000), progress=interrupt)
    assert not found.finished and 0 < len(found.chain_best) < 6 and len(found.models) > 0


def test_a_full_disk_is_a_warning_and_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Record, "write", full)
    with pytest.warns(ModejumpWarning, match="No space left"):
        mjmcmc(LINEAR, budget=Budget(steps=100_000), checkpoint=Checkpoint(tmp_path, every=1e-6))


def test_notes_tell_rate_agreement_and_best_model() -> None:
    for name in ("mjmcmc", "rgmjmcmc"):
        notes: list[str] = []
        SAMPLERS[name](seed=1, progress=lambda done, total, note, notes=notes: notes.append(note))
        assert "million steps/s" in notes[-1] and "R-hat 1.0" in notes[-1] and "best: " in notes[-1]
        searched = [note for note in notes if note.startswith("search")]
        assert all("populations/s" in note and "best: " in note for note in searched)


# --- kills --------------------------------------------------------------------------------------------------------


def kill_often(algorithm: str, runs_wanted: int, seed: int) -> None:
    command = [sys.executable, str(HERE / "killing.py"), algorithm, str(runs_wanted), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["identical"] == told["killed runs"] == runs_wanted and not told["different"], (told, done.stderr)


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are made by fork, which this system lacks")
ALGORITHMS = ["enumerate", "mjmcmc", "gmjmcmc", "rgmjmcmc"]


@needs_fork
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_killed_run_gives_the_same_answer(algorithm: str) -> None:
    kill_often(algorithm, 2, seed=3)


@needs_fork
@pytest.mark.full
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_two_hundred_killed_runs_give_the_same_answer(algorithm: str) -> None:
    kill_often(algorithm, 67, seed=4)


# --- enumerations -------------------------------------------------------------------------------------------------


def interactions() -> Problem:
    """Children before their parents, so that the enumeration has another order of terms than the problem."""
    rng = np.random.default_rng(233)
    x, y = twin.table(rng, 60, 16)
    columns = {"a:b": x[:, 0] * x[:, 1], "b:c": x[:, 1] * x[:, 2], "a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}
    columns |= {f"x{j}": x[:, j] for j in range(3, 16)}
    return Problem.build(
        np.column_stack(list(columns.values())), y, terms={name: [j] for j, name in enumerate(columns)},
        model_prior=UniformPrior(max_size=4, heredity="strong"),
    )  # fmt: skip


class Tasks:
    """The tasks of enumerations, as they are run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, end: Callable[[int], None] = lambda pattern: None) -> None:
        self.run: list[int] = []
        visit = ENUMERATION._visit

        def counted(data: Any, pattern: int, split: int, max_size: int, tally: Any) -> None:
            if max_size >= 0:
                self.run.append(pattern)
                end(pattern)
            visit(data, pattern, split, max_size, tally)

        monkeypatch.setattr(ENUMERATION, "_visit", counted)


ENUMERATED: dict[str, tuple[Callable[[], Problem], int, int]] = {
    "gaussian": (lambda: twin.one_column_each(231, 20, rows=60), 300, 16),
    "every model kept": (lambda: twin.one_column_each(231, 17, rows=60), 1 << 17, 2),
    "heredity": (interactions, 300, 4),
    "logistic": (lambda: logistic(15), 300, 8),
}


@pytest.mark.parametrize("name", ENUMERATED)
def test_an_enumeration_that_died_often_ends_as_one_that_lived(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, top, tasks = ENUMERATED[name]
    problem = build()
    alone = enumerate_models(problem, top=top)
    counted, lives = Tasks(monkeypatch), 0

    def work(checkpoint: Mortal) -> Any:
        # Another number of threads after each death; it begins where the one before ended.
        nonlocal lives
        lives += 1
        finished = 0 if checkpoint.state is None else checkpoint.state["finished"]
        assert checkpoint.state is None or checkpoint.state["tasks"] == tasks
        counted.run.clear()
        try:
            return enumerate_models(problem, top=top, workers=1 + lives % 3, checkpoint=checkpoint)
        finally:
            assert not counted.run or min(counted.run) == finished

    found, deaths = die_often(work, tmp_path)
    assert sorted(counted.run) == list(range(deaths[-1]["finished"], tasks)) and len(deaths) >= min(tasks // 2, 3)
    same(found, alone)


def test_one_thread_runs_every_task_once_however_often_it_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = twin.one_column_each(231, 20, rows=60)
    counted = Tasks(monkeypatch)
    for _ in range(16):
        with pytest.raises(Death):
            enumerate_models(problem, checkpoint=Mortal(tmp_path, 1))
    enumerate_models(problem, checkpoint=Checkpoint(tmp_path))
    assert counted.run == list(range(16))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_loses_no_task_that_is_finished(workers: int, tmp_path: Path) -> None:
    problem = logistic(15)

    def interrupt(done: float, total: float, note: str) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        enumerate_models(problem, workers=workers, progress=interrupt, checkpoint=Checkpoint(tmp_path, every=1e6))
    state = CHECKPOINT.about(tmp_path)["state"]
    assert state["finished"] == 3 and state["tasks"] == 8 and state["spent"] > 0
    seen: list[float] = []
    found = enumerate_models(
        problem, workers=3 - workers, checkpoint=Checkpoint(tmp_path), progress=lambda done, *_: seen.append(done)
    )
    assert seen == [4, 5, 6, 7, 8] and found.seconds > state["spent"]
    same(found, enumerate_models(problem))


class LatePool:
    """A pool of two threads, one of which begins its task when everybody else has gone."""

    count = 2

    def stream(self, work: Callable[[int], Any], items: Sequence[int], aside: bool) -> Iterator[Any]:
        self.begin_late = partial(work, items[1])
        yield work(items[0])


def test_a_task_that_begins_after_the_end_visits_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, pool = Tasks(monkeypatch), LatePool()
    problem = twin.one_column_each(231, 20, rows=60)
    tallies = ENUMERATION._tallies(problem.data, 4, ENUMERATION._Sums(16, 20, 10), pool)
    assert next(tallies).scalars["models"] == 1 << 16
    tallies.close()
    pool.begin_late()
    assert counted.run == [0]


def test_an_interrupt_before_the_first_task_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(pattern: int) -> None:
        raise KeyboardInterrupt

    Tasks(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        enumerate_models(twin.one_column_each(231, 18), checkpoint=Checkpoint(tmp_path))
    assert not list(tmp_path.iterdir())


def test_an_interrupted_command_enumerates_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(231)
    x = rng.normal(size=(60, 19))
    names = [f"c{j}" for j in range(19)]
    pd.DataFrame(x, columns=names).assign(y=x[:, 0] + rng.normal(size=60)).to_csv("data.csv", index=False)
    line = "fit data.csv --target y --algorithm enumerate --quiet".split()

    def interrupt(pattern: int) -> None:
        if pattern == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        Tasks(patch, interrupt)
        assert main([*line, "--out", "run"]) == 130
        assert not (tmp_path / "run" / "run.json").exists()
        assert main(["resume", "run", "--quiet"]) == 130
    counted = Tasks(monkeypatch)
    assert main(["resume", "run", "--quiet", "--jobs", "2"]) == 0
    assert sorted(counted.run) == [5, 6, 7]
    assert main([*line, "--out", "alone"]) == 0
    assert outcome(tmp_path / "run") == outcome(tmp_path / "alone")


def test_what_is_no_state_of_the_enumeration_is_refused(tmp_path: Path) -> None:
    problem = twin.one_column_each(231, 19, rows=60)
    work = partial(enumerate_models, problem, top=50)
    with pytest.raises(Death):
        work(checkpoint=Mortal(tmp_path, 3))
    arrays = Checkpoint(tmp_path).arrays
    assert {name: array.shape for name, array in arrays.items()} == {
        "tasks/inclusion": (3, 19),
        "tasks/sizes": (3, 20),
        "tasks/total": (3, 3),
        "best/value": (50,),
        "best/model": (50,),
    }
    nan, many = arrays["tasks/total"].copy(), arrays["tasks/total"].copy()
    nan[1, 2], many[0, 1] = np.nan, 1e12
    wrong: dict[str, list[np.ndarray | None]] = {
        "tasks/inclusion": [None, arrays["tasks/inclusion"][:2], arrays["tasks/inclusion"] - 1e300],
        "tasks/sizes": [arrays["tasks/inclusion"], arrays["tasks/sizes"].astype(np.float32)],
        "tasks/total": [nan, many, -arrays["tasks/total"]],
        "best/value": [arrays["best/value"][::-1], arrays["best/value"][:49], arrays["best/value"] * np.nan],
        "best/model": [arrays["best/model"] + np.uint64(1 << 19), arrays["best/model"].astype(np.int64), None],
    }
    refused_arrays(work, tmp_path, wrong)
    state = CHECKPOINT.about(tmp_path)["state"]
    for changes, words in (
        ({"tasks": 16}, "tasks is 16"),
        ({"finished": 9}, "finished is 9"),
        ({"finished": -1}, "finished is -1"),
        ({"finished": None}, "finished is None"),
        ({"algorithm": "mjmcmc"}, "not one of enumerate"),
        ({"spent": -1.0}, "not one of enumerate"),
    ):
        rewrite(tmp_path, state=state | changes)
        refused(work, tmp_path, words)
    rewrite(tmp_path, state=state)
    refused(partial(enumerate_models, twin.one_column_each(231, 18, rows=60), top=50), tmp_path, "tasks is 8")
    refused(partial(mjmcmc, problem), tmp_path, "not one of mjmcmc")
    same(work(checkpoint=Checkpoint(tmp_path)), work())


# --- the best-first search ----------------------------------------------------------------------------------------

UNEQUAL = BernoulliPrior(tuple(np.linspace(0.05, 0.5, 20)))
SEARCHED: dict[str, Callable[[], Problem]] = {
    "gaussian": lambda: twin.one_column_each(62, 70, rows=90),
    "unequal weights": lambda: twin.one_column_each(62, 20, rows=90, model_prior=UNEQUAL),
    "factors": lambda: twin.with_factors(63),
    "logistic": lambda: logistic(20, rows=200, model_prior=UNEQUAL),
}


@pytest.mark.parametrize("name", SEARCHED)
def test_a_search_made_again_continues_as_it_would_have(name: str) -> None:
    problem, budget = SEARCHED[name](), Budget(steps=60_000)
    alone = BestFirstSearch(problem, budget, 1).finish()
    search, lives = BestFirstSearch(problem, budget, 1), 0
    while not search.done:
        search.expand(1 + 613 * (lives % 3))
        lives, before = lives + 1, search.snapshot()
        search = BestFirstSearch(problem, budget, 1)
        search.restore(before)
    count = int(alone.scalars["count"])
    assert lives > 2 or count < 100
    for part in ("words", "log_posterior", "hash"):
        np.testing.assert_array_equal(getattr(search.store, part)[:count], getattr(alone, part)[:count])
    assert search.store.scalars == alone.scalars


def test_seconds_before_a_search_was_resumed_count() -> None:
    problem, now = twin.one_column_each(62, 40, rows=90), time.perf_counter()
    fresh, resumed = (BestFirstSearch(problem, Budget(seconds=100.0), 1, begun=begun) for begun in (now, now - 50.0))
    for search in (fresh, resumed):
        search.continue_()
    # A tenth of the budget is the search's.
    assert resumed.done and not fresh.done


class Places(BestFirstSearch):
    """A search that notes how many models it had met where it was resumed."""

    met: list[int] = []

    def restore(self, snapshot: Any) -> None:
        super().restore(snapshot)
        Places.met.append(int(self.store.scalars["count"]))


@pytest.mark.parametrize("name", ["before the chains", "beside the chains"])
def test_a_run_that_died_while_it_searched(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["modejump.samplers.mjmcmc"], "BestFirstSearch", Places)
    monkeypatch.setattr(Places, "met", [])
    # Short pieces, so that many of them are needed.
    monkeypatch.setattr(best_first, "LONG_PIECE_SECONDS", 0.002)
    monkeypatch.setattr(best_first, "PIECE_SECONDS", 0.0002)
    before = name == "before the chains"
    problem = logistic(14) if before else twin.one_column_each(62, 40, rows=90)
    run = partial(mjmcmc, problem, chains=2, seed=3, budget=Budget(steps=30_000 if before else 120_000))
    lives = 0

    def work(checkpoint: Mortal) -> Any:
        nonlocal lives
        lives += 1
        return run(workers=1 + lives % 2, checkpoint=checkpoint)

    found, states = die_often(work, tmp_path)
    same(found, run())
    searching = [state["phase"] == "best-first" or state["searching"] is True for state in states]
    # It was resumed as often as it was under way, each time with more models than before.
    assert sum(searching) == len(Places.met) > 1
    assert Places.met[0] > 0 and Places.met == sorted(Places.met)
    assert any(state["phase"] == "best-first" for state in states) == before


def test_what_is_no_state_of_the_search_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(best_first, "LONG_PIECE_SECONDS", 0.002)
    problem = logistic(14)
    work = partial(mjmcmc, problem, chains=2, budget=Budget(steps=30_000))
    with pytest.raises(Death):
        work(checkpoint=Mortal(tmp_path, 3))
    found = Checkpoint(tmp_path)
    assert found.phase == "best-first"
    arrays = {name.removeprefix("best-first/"): array for name, array in found.arrays.items()}
    heap, size, count = arrays["heap"], arrays["heap_size"], int(arrays["store/count"])
    assert len(heap) == size[0] > 0
    wrong: dict[str, list[np.ndarray | None]] = {
        "heap": [None, heap[1:], heap + count, heap - count, heap.astype(np.int32)],
        "heap_size": [size + count + 1, size - count - 1, size[:1]],
        "done": [None, np.array(1.0)],
        "store/words": [arrays["store/words"] | np.uint64(1 << 60), arrays["store/words"][1:]],
        "store/capacity": [np.array(1 << 40), np.array(count - 1)],
        "state/order": [arrays["state/order"] * 0],
    }
    refused_arrays(work, tmp_path, {f"best-first/{name}": others for name, others in wrong.items()})
    refused(partial(enumerate_models, problem), tmp_path, "not one of enumerate")
    with pytest.raises(InputError, match="belongs to another run"):
        Checkpoint(tmp_path, fingerprint="another")
    same(work(checkpoint=Checkpoint(tmp_path)), work())
