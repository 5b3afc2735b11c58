"""Enumerations and the scout go on after whatever ended them: nothing that was finished is done again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import twin
from running import enumerate_models, mjmcmc
from test_checkpoint import FILES, Death, Mortal, die_once, rewrite, same

import modejump
from modejump.cli import main
from modejump.core.errors import InputError
from modejump.kernels.store import COUNT
from modejump.priors import BernoulliPrior, UniformPrior
from modejump.problem.problem import Problem
from modejump.runtime import checkpoints as checkpoint
from modejump.runtime.checkpoints import Checkpoint, write_arrays
from modejump.samplers.budget import Budget
from modejump.samplers.warmup import best_first as scout_module
from modejump.samplers.warmup.best_first import Scouting

ENUMERATION = sys.modules["modejump.samplers.enumerate"]


@pytest.fixture(autouse=True)
def _write_at_every_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "MOST_SHARE", 1e9)


def classes(terms: int, rows: int = 90) -> tuple[np.ndarray, np.ndarray]:
    """Yes and no by some covariates."""
    rng = np.random.default_rng(12)
    x = rng.normal(size=(rows, terms))
    return x, (rng.random(rows) < 1.0 / (1.0 + np.exp(-0.6 * x[:, 0] + 0.4 * x[:, 1]))).astype(float)


def logistic(terms: int, rows: int = 90, **options: Any) -> Problem:
    return Problem.build(*classes(terms, rows), family="binomial", coef_prior="bic", **options)


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
    "mixture of g": (lambda: twin.one_column_each(231, 19, rows=60, coef_prior="hyper-g"), 300, 8),
    "heredity": (interactions, 300, 4),
    "logistic": (lambda: logistic(15), 300, 8),
}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", ENUMERATED)
def test_an_enumeration_that_died_often_ends_as_one_that_lived(
    name: str, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, top, tasks = ENUMERATED[name]
    problem = build()
    alone = enumerate_models(problem, top=top, workers=3 - workers)
    counted, deaths, finished = Tasks(monkeypatch), 0, 0
    while True:
        keeper = Mortal(tmp_path, 1 + deaths % 3)
        counted.run.clear()
        try:
            # Another number of threads after each death.
            found = enumerate_models(problem, top=top, workers=1 + (workers + deaths) % 3, checkpoint=keeper)
        except Death:
            assert min(counted.run) == finished
            finished, deaths = keeper.last["finished"], deaths + 1
            assert keeper.last["tasks"] == tasks
            continue
        break
    assert sorted(counted.run) == list(range(finished, tasks))
    assert deaths >= min(tasks // 2, 3)
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
    state = checkpoint.read_manifest(tmp_path)["state"]
    assert state["finished"] == 3 and state["tasks"] == 8 and state["spent"] > 0
    seen: list[float] = []
    found = enumerate_models(
        problem, workers=3 - workers, checkpoint=Checkpoint(tmp_path), progress=lambda done, *_: seen.append(done)
    )
    assert seen == [4, 5, 6, 7, 8]
    assert found.seconds > state["spent"]
    same(found, enumerate_models(problem))


def test_an_interrupt_before_the_first_task_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(pattern: int) -> None:
        raise KeyboardInterrupt

    Tasks(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        enumerate_models(twin.one_column_each(231, 18), checkpoint=Checkpoint(tmp_path))
    assert not list(tmp_path.iterdir())


# --- what is not an enumeration's ---------------------------------------------------------------------------------


def refill(folder: Path, **changes: Any) -> None:
    """Write other arrays, as somebody would who knows the format; ``a__b`` is the array a/b, None removes it."""
    arrays = dict(Checkpoint(folder).saved.arrays)
    arrays |= {name.replace("__", "/"): array for name, array in changes.items()}
    write_arrays(folder / "other.npz", {name: array for name, array in arrays.items() if array is not None})
    rewrite(folder, (folder / "other.npz").read_bytes())


def left_by(work: Callable[..., Any], folder: Path, lives: int = 2) -> None:
    with pytest.raises(Death):
        work(checkpoint=Mortal(folder, lives))


def refused(work: Callable[..., Any], folder: Path, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        work(checkpoint=Checkpoint(folder))
    assert "\n" not in str(error.value) and str(error.value).endswith("begin the run anew.")


def test_what_is_no_state_of_the_enumeration_is_refused(tmp_path: Path) -> None:
    problem = twin.one_column_each(231, 19, rows=60)

    def work(problem: Problem = problem, **more: Any) -> Any:
        return enumerate_models(problem, top=50, **more)

    left_by(work, tmp_path, lives=3)
    manifest = (tmp_path / "checkpoint.json").read_text()
    name = json.loads(manifest)["arrays"]
    blob, arrays = (tmp_path / name).read_bytes(), Checkpoint(tmp_path).saved.arrays
    shapes = {key: array.shape for key, array in arrays.items()}
    assert shapes == {
        "tasks/inclusion": (3, 19),
        "tasks/sizes": (3, 20),
        "tasks/total": (3, 3),
        "best/value": (50,),
        "best/model": (50,),
    }
    nan = arrays["tasks/total"].copy()
    nan[1, 2] = np.nan
    many = arrays["tasks/total"].copy()
    many[0, 1] = 1e12
    for key, wrong in {
        "tasks__inclusion": [None, arrays["tasks/inclusion"][:2], arrays["tasks/inclusion"] - 1e300],
        "tasks__sizes": [arrays["tasks/inclusion"], arrays["tasks/sizes"].astype(np.float32)],
        "tasks__total": [nan, many, -arrays["tasks/total"]],
        "best__value": [arrays["best/value"][::-1], arrays["best/value"][:49], arrays["best/value"] * np.nan],
        "best__model": [arrays["best/model"] + np.uint64(1 << 19), arrays["best/model"].astype(np.int64), None],
    }.items():
        for array in wrong:
            refill(tmp_path, **{key: array})
            refused(work, tmp_path, f"damaged: {key.replace('__', '/')}|damaged: (tasks|best)/")
            (tmp_path / name).write_bytes(blob)
            (tmp_path / "checkpoint.json").write_text(manifest)
    state = json.loads(manifest)["state"]
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
    refused(lambda **more: work(twin.one_column_each(231, 18, rows=60), **more), tmp_path, "tasks is 8")
    refused(lambda **more: mjmcmc(problem, **more), tmp_path, "not one of mjmcmc")
    (tmp_path / name).write_bytes(blob[:-7])
    with pytest.raises(InputError, match="is not the file that was written; begin the run anew"):
        Checkpoint(tmp_path)
    (tmp_path / name).write_bytes(blob)
    same(work(checkpoint=Checkpoint(tmp_path)), work())


# --- estimators and the command line ------------------------------------------------------------------------------


def test_an_estimator_goes_on_with_its_enumeration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = classes(15)
    make = lambda jobs: modejump.BGLMClassifier(algorithm="enumerate", coef_prior="bic", n_jobs=jobs)  # noqa: E731
    modejump.Run(tmp_path / "alone").fit(make(1), x, y)
    die_once(monkeypatch, lives=2)
    with pytest.raises(Death):
        modejump.Run(tmp_path / "run", every=1e-6).fit(make(2), x, y)
    counted = Tasks(monkeypatch)
    modejump.resume(tmp_path / "run", n_jobs=1)
    assert 0 < counted.run[0] and counted.run == list(range(counted.run[0], 8))
    for file in FILES:
        assert (tmp_path / "run" / file).read_bytes() == (tmp_path / "alone" / file).read_bytes()
    lines = (tmp_path / "run" / "log.txt").read_text().splitlines()
    assert [line.split(" ", 2)[2].split(":")[0] for line in lines] == ["begun", "failed", "resumed", "finished"]


def test_ctrl_c_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = classes(15)
    pd.DataFrame(x, columns=[f"c{j}" for j in range(15)]).assign(won=y.astype(int)).to_csv("data.csv", index=False)
    line = "fit data.csv --target won --family binomial --coef-prior bic --algorithm enumerate --quiet".split()

    def interrupt(pattern: int) -> None:
        if pattern == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        Tasks(patch, interrupt)
        assert main([*line, "--out", "run"]) == 130
        said = capsys.readouterr()
        assert said.err == "modejump: interrupted before the work was done; go on with: modejump resume run\n"
        assert said.out == "" and not (tmp_path / "run" / "run.json").exists()
        # Interrupted again, and without a directory.
        assert main(["resume", "run", "--quiet"]) == 130
        assert capsys.readouterr().err.endswith("go on with: modejump resume run\n")
        assert main(line) == 130
        assert capsys.readouterr().err == "modejump: interrupted before the work was done.\n"
    counted = Tasks(monkeypatch)
    assert main(["resume", "run", "--quiet", "--jobs", "2"]) == 0
    assert sorted(counted.run) == [5, 6, 7]
    assert main([*line, "--out", "alone"]) == 0
    for file in FILES:
        assert (tmp_path / "run" / file).read_bytes() == (tmp_path / "alone" / file).read_bytes()


# --- the scout ----------------------------------------------------------------------------------------------------

UNEQUAL = BernoulliPrior(tuple(np.linspace(0.05, 0.5, 20)))
SCOUTED: dict[str, Callable[[], Problem]] = {
    "gaussian": lambda: twin.one_column_each(62, 70, rows=90),
    "unequal weights": lambda: twin.one_column_each(62, 20, rows=90, model_prior=UNEQUAL),
    "factors": lambda: twin.with_factors(63),
    "logistic": lambda: logistic(20, rows=200, model_prior=UNEQUAL),
}


@pytest.mark.parametrize("name", SCOUTED)
def test_a_scout_made_again_goes_on_as_it_would_have(name: str) -> None:
    problem, budget = SCOUTED[name](), Budget(steps=60_000)
    alone = Scouting(problem, budget, 1).finish()
    scouting, lives = Scouting(problem, budget, 1), 0
    while not scouting.done:
        scouting.expand(1 + 613 * (lives % 3))
        lives, before = lives + 1, scouting.snapshot()
        scouting = Scouting(problem, budget, 1)
        scouting.restore(before)
    count = int(alone.scalars["count"])
    assert lives > 2 or count < 100
    for part in ("words", "log_posterior", "hash"):
        np.testing.assert_array_equal(getattr(scouting.store, part)[:count], getattr(alone, part)[:count])
    np.testing.assert_array_equal(scouting.store.num, alone.num)


def test_seconds_before_a_scout_went_on_count() -> None:
    problem, now = twin.one_column_each(62, 40, rows=90), time.perf_counter()
    fresh, resumed = (Scouting(problem, Budget(seconds=100.0), 1, begun=begun) for begun in (now, now - 50.0))
    for scouting in (fresh, resumed):
        scouting.go_on()
    # A tenth of the budget is the scout's.
    assert resumed.done and not fresh.done


class Places(Scouting):
    """A scout that notes how many models it had met where it went on."""

    met: list[int] = []

    def restore(self, snapshot: Any) -> None:
        super().restore(snapshot)
        Places.met.append(int(self.store.scalars["count"]))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", ["before the chains", "beside the chains"])
def test_a_run_that_died_with_its_scout_under_way(
    name: str, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["modejump.samplers.mjmcmc"], "Scouting", Places)
    monkeypatch.setattr(Places, "met", [])
    # Short pieces, so that many of them are needed.
    monkeypatch.setattr(scout_module, "LONG_PIECE_SECONDS", 0.002)
    monkeypatch.setattr(scout_module, "PIECE_SECONDS", 0.0002)
    before = name == "before the chains"
    problem = logistic(14) if before else twin.one_column_each(62, 40, rows=90)
    options: dict[str, Any] = {"chains": 2, "seed": 3, "budget": Budget(steps=30_000 if before else 120_000)}
    alone = mjmcmc(problem, workers=3 - workers, **options)
    deaths, states = 0, []
    while True:
        keeper = Mortal(tmp_path, 1 + deaths % 3)
        try:
            found = mjmcmc(problem, workers=1 + (workers + deaths) % 2, checkpoint=keeper, **options)
        except Death:
            deaths += 1
            states.append(keeper.last)
            continue
        break
    same(found, alone)
    under_way = [state.get("phase") == "scout" or state["scouting"] is True for state in states]
    # It went on as often as it was under way, each time with more models than before.
    assert sum(under_way) == len(Places.met) > 1
    assert Places.met[0] > 0 and Places.met == sorted(Places.met)
    assert any(state.get("phase") == "scout" for state in states) == before


def test_what_is_no_state_of_the_scout_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scout_module, "LONG_PIECE_SECONDS", 0.002)
    problem = logistic(14)

    def work(**more: Any) -> Any:
        return mjmcmc(problem, chains=2, budget=Budget(steps=30_000), **more)

    left_by(work, tmp_path, lives=3)
    assert checkpoint.read_manifest(tmp_path)["state"]["phase"] == "scout"
    manifest = (tmp_path / "checkpoint.json").read_text()
    name = json.loads(manifest)["arrays"]
    blob, arrays = (tmp_path / name).read_bytes(), Checkpoint(tmp_path).saved.arrays
    heap, size, count = arrays["scout/heap"], arrays["scout/heap_size"], int(arrays["scout/store/num"][COUNT])
    assert len(heap) == size[0] > 0
    for key, wrong in {
        "scout__heap": [None, heap[1:], heap + count, heap - count, heap.astype(np.int32)],
        "scout__heap_size": [size + count + 1, size - count - 1, size[:1]],
        "scout__done": [None, np.array(1.0)],
        "scout__store__words": [arrays["scout/store/words"] | np.uint64(1 << 60), arrays["scout/store/words"][1:]],
        "scout__store__capacity": [np.array(1 << 40), np.array(count - 1)],
        "scout__state__order": [arrays["scout/state/order"] * 0],
    }.items():
        for array in wrong:
            refill(tmp_path, **{key: array})
            refused(work, tmp_path, "damaged")
            (tmp_path / name).write_bytes(blob)
            (tmp_path / "checkpoint.json").write_text(manifest)
    refused(lambda **more: enumerate_models(problem, **more), tmp_path, "not one of enumerate")
    same(work(checkpoint=Checkpoint(tmp_path)), work())
