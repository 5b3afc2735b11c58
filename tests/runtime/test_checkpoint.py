"""Runs in a directory: they go on after whatever ended them, and what is not theirs is refused."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import reversible_twin as rt
import twin
from modejump.samplers.mixture import Mixture
from running import gmjmcmc, mjmcmc, rgmjmcmc
from sklearn.base import clone

import modejump
from modejump.cli import main
from modejump.core.errors import InputError
from modejump.core.progress import Log, reporter
from modejump.estimators import runs
from modejump.problem.problem import Problem
from modejump.runtime import checkpoints as checkpoint
from modejump.runtime.checkpoints import Checkpoint, read_arrays, remove_checkpoints, write_arrays, write_checkpoint
from modejump.runtime.snapshots import Snapshot
from modejump.samplers.budget import Budget
from modejump.samplers.result import Result

HERE = Path(__file__).resolve().parents[1] / "support"
FILES = ("posterior.npz", "models.csv", "inclusion.csv")
LINEAR = twin.one_column_each(361, 9, signal=0.3)
FEATURES = rt.small_problem(51, depth=2, width=3, complexity=4, size=3)


@pytest.fixture(autouse=True)
def _write_at_every_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "MOST_SHARE", 1e9)


# --- drivers ------------------------------------------------------------------------------------------------------


class Death(BaseException):
    """The end of a process, as far as a test can play it."""


class Mortal(Checkpoint):
    """A checkpoint whose process dies as soon as so many states are written."""

    def __init__(self, directory: Path, lives: int) -> None:
        super().__init__(directory, every=1e-6)
        self.lives, self.last = lives, {}

    def save(self, state: Mapping[str, Any], arrays: Snapshot) -> None:
        super().save(state, arrays)
        self.close()
        self.lives, self.last = self.lives - 1, dict(state)
        if self.lives == 0:
            raise Death


def same(one: Result, other: Result) -> None:
    """Two results agree bit by bit, the clock apart."""
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name == "models":
            for part in dataclasses.fields(a):
                assert getattr(a, part.name).tobytes() == getattr(b, part.name).tobytes(), part.name
        elif isinstance(a, np.ndarray):
            assert a.tobytes() == b.tobytes(), field.name
        elif "seconds" not in field.name:
            assert a == b or (a != a and b != b), field.name


def _classes() -> Problem:
    """Yes and no by six covariates."""
    rng = np.random.default_rng(12)
    x = rng.normal(size=(90, 6))
    y = (rng.random(90) < 1.0 / (1.0 + np.exp(-0.6 * x[:, 0] + 0.4 * x[:, 1]))).astype(float)
    return Problem.build(x, y, family="binomial", coef_prior="bic")


DRIVERS: dict[str, tuple[Callable[..., Any], Any, dict[str, Any]]] = {
    "mjmcmc": (mjmcmc, LINEAR, {"budget": Budget(steps=120_000), "chains": 3}),
    "mjmcmc to a precision": (mjmcmc, LINEAR, {"budget": Budget(mcse=1e-3, cap=150_000), "chains": 3}),
    "mjmcmc without warm-up": (mjmcmc, LINEAR, {"budget": Budget(warmup=0, steps=60_000), "chains": 1}),
    "mjmcmc with a surrogate": (
        mjmcmc,
        _classes(),
        {"budget": Budget(steps=60_000), "chains": 2, "mixture": Mixture(surrogate=True)},
    ),
    "gmjmcmc": (gmjmcmc, FEATURES, {"budget": Budget(steps=9_000), "chains": 5}),
    "rgmjmcmc": (rgmjmcmc, FEATURES, {"budget": Budget(warmup=6_000, steps=40_000), "chains": 3}),
    "rgmjmcmc to a precision": (rgmjmcmc, FEATURES, {"budget": Budget(warmup=300, mcse=1e-3, cap=80_000), "chains": 2}),
    "rgmjmcmc to distinct models": (
        rgmjmcmc,
        FEATURES,
        {"budget": Budget(warmup=300, steps=9_000), "chains": 2, "distinct": 900},
    ),
}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", DRIVERS)
def test_a_run_that_died_often_ends_as_one_that_lived(name: str, workers: int, tmp_path: Path) -> None:
    driver, problem, options = DRIVERS[name]
    alone = driver(problem, seed=1, workers=3 - workers, **options)
    phases, deaths = set(), 0
    while True:
        keeper = Mortal(tmp_path, 1 + deaths % 3)
        try:
            found = driver(problem, seed=1, workers=workers, checkpoint=keeper, **options)
        except Death:
            deaths += 1
            phases.add(keeper.last.get("phase", "warm-up" if "round" in keeper.last else "sampling"))
            continue
        break
    same(getattr(found, "result", found), getattr(alone, "result", alone))
    assert deaths >= (1 if name == "gmjmcmc" else 2)
    if name == "rgmjmcmc":
        assert {"search", "learning", "sampling"} >= phases and len(phases) > 1


def test_seconds_spent_before_count(tmp_path: Path) -> None:
    began = time.perf_counter()
    with pytest.raises(Death):
        mjmcmc(LINEAR, budget=Budget(seconds=2.0), checkpoint=Mortal(tmp_path, 12))
    first = time.perf_counter() - began
    assert checkpoint.read_manifest(tmp_path)["state"]["spent"] > 0.1
    again = time.perf_counter()
    result = mjmcmc(LINEAR, budget=Budget(seconds=2.0), checkpoint=Checkpoint(tmp_path))
    # A machine that others use may be late, but not as late as a second whole budget.
    assert time.perf_counter() - again < 2.0 - 0.5 * first + 3.0
    assert result.warmup_seconds + result.seconds >= 2.0


def test_a_checkpoint_of_another_algorithm_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Death):
        mjmcmc(LINEAR, budget=Budget(steps=60_000), checkpoint=Mortal(tmp_path, 1))
    with pytest.raises(InputError, match="not one of rgmjmcmc"):
        rgmjmcmc(FEATURES, budget=Budget(steps=100), checkpoint=Checkpoint(tmp_path))
    with pytest.raises(InputError, match="damaged"):
        mjmcmc(LINEAR, chains=5, budget=Budget(steps=60_000), checkpoint=Checkpoint(tmp_path))
    with pytest.raises(InputError, match="damaged"):
        mjmcmc(LINEAR, chains=3, budget=Budget(steps=60_000), checkpoint=Checkpoint(tmp_path))


def test_an_interrupted_search_is_valid() -> None:
    def interrupt(done: float, total: float, note: str) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    found = gmjmcmc(FEATURES, chains=6, budget=Budget(steps=9_000), progress=interrupt)
    assert not found.result.finished and 0 < len(found.best) < 6
    assert 0 < found.populations < 6 * 30 and len(found.result.models) > 0


# --- kills --------------------------------------------------------------------------------------------------------


def kill_often(algorithm: str, runs_wanted: int, seed: int) -> None:
    command = [sys.executable, str(HERE / "killing.py"), algorithm, str(runs_wanted), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["identical"] == told["killed runs"] == runs_wanted and not told["different"], (told, done.stderr)


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are made by fork, which this system lacks")


@needs_fork
@pytest.mark.parametrize("algorithm", ["enumerate", "mjmcmc", "gmjmcmc", "rgmjmcmc"])
def test_a_killed_run_gives_the_same_answer(algorithm: str) -> None:
    kill_often(algorithm, 2, seed=3)


@needs_fork
@pytest.mark.full
@pytest.mark.parametrize("algorithm", ["enumerate", "mjmcmc", "gmjmcmc", "rgmjmcmc"])
def test_two_hundred_killed_runs_give_the_same_answer(algorithm: str) -> None:
    kill_often(algorithm, 67, seed=4)


# --- files --------------------------------------------------------------------------------------------------------

ARRAYS = {"a/b": np.arange(6.0).reshape(2, 3), "c": np.array(7), "d": np.zeros((0, 2), np.uint64)}


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    for generation in (1, 2):
        write_checkpoint(tmp_path, generation, "us", {"round": generation}, ARRAYS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-2.npz", "checkpoint.json"]
    found = Checkpoint(tmp_path, fingerprint="us")
    assert found.generation == 2 and found.saved.state == {"round": 2}
    assert found.saved.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found.saved.arrays[name], array)
        assert found.saved.arrays[name].dtype == array.dtype
    # Anything that reads NPZ reads it.
    with np.load(tmp_path / "checkpoint-2.npz", allow_pickle=False) as file:
        assert set(file.files) == set(ARRAYS)
    remove_checkpoints(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_state_before_stands_until_the_next_one_is_complete(tmp_path: Path, monkeypatch) -> None:
    write_checkpoint(tmp_path, 1, "", {"round": 1}, ARRAYS)
    replace = os.replace
    for fails in range(2):
        calls = []

        def failing(source: Any, target: Any, fails: int = fails, calls: list = calls) -> None:
            calls.append(target)
            if len(calls) > fails:
                raise OSError(28, "No space left on device")
            replace(source, target)

        monkeypatch.setattr(checkpoint.os, "replace", failing)
        with pytest.raises(OSError, match="No space"):
            write_checkpoint(tmp_path, 2, "", {"round": 2}, ARRAYS)
        assert Checkpoint(tmp_path).saved.state == {"round": 1}


def test_a_full_disk_is_a_warning_and_no_end(tmp_path: Path, monkeypatch) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_checkpoint", full)
    with pytest.warns(modejump.ModejumpWarning, match="No space left"):
        mjmcmc(LINEAR, budget=Budget(steps=100_000), checkpoint=Checkpoint(tmp_path, every=1e-6))


def spoilt(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path, 3, "us", {"round": 1}, ARRAYS)
    return tmp_path / "checkpoint-3.npz"


def rewrite(folder: Path, blob: bytes | None = None, **changes: Any) -> None:
    """Change the files as somebody would who knows the format."""
    manifest = json.loads((folder / "checkpoint.json").read_text())
    if blob is not None:
        (folder / manifest["arrays"]).write_bytes(blob)
        manifest |= {"size": len(blob), "digest": checkpoint.hashlib.sha256(blob).hexdigest()}
    (folder / "checkpoint.json").write_text(json.dumps(manifest | changes))


def refused(folder: Path, words: str = "damaged") -> None:
    with pytest.raises(InputError, match=words) as error:
        Checkpoint(folder, fingerprint="us")
    assert "\n" not in str(error.value)


def test_truncated_and_flipped_files_are_refused(tmp_path: Path) -> None:
    path = spoilt(tmp_path)
    blob, manifest = path.read_bytes(), (tmp_path / "checkpoint.json").read_bytes()
    for length in (0, 1, len(blob) // 2, len(blob) - 1):
        path.write_bytes(blob[:length])
        refused(tmp_path)
    for at in range(0, len(blob), 37):
        path.write_bytes(blob[:at] + bytes([blob[at] ^ 16]) + blob[at + 1 :])
        refused(tmp_path)
    path.unlink()
    refused(tmp_path)
    path.write_bytes(blob)
    for length in range(0, len(manifest) - 1, 11):
        (tmp_path / "checkpoint.json").write_bytes(manifest[:length])
        refused(tmp_path)


class Bomb:
    def __reduce__(self) -> Any:
        return (print, ("a stored file was executed",))


def as_npz(content: bytes, name: str = "a.npy", how: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def as_npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def lying(shape: str) -> bytes:
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head


HOSTILE = {
    "a pickle": pickle.dumps(Bomb()),
    "a pickle in an archive": as_npz(pickle.dumps(Bomb())),
    "an array of objects": as_npz(as_npy(np.array([Bomb()], dtype=object))),
    "a structure": as_npz(as_npy(np.zeros(2, [("a", "f8"), ("b", "i8")]))),
    "text": as_npz(as_npy(np.array(["text"]))),
    "more than there is": as_npz(lying("(1000000000000,)") + bytes(80)),
    "less than nothing": as_npz(lying("(-1,)") + bytes(80)),
    "a header that is code": as_npz(lying("(__import__('os').getpid(),)") + bytes(80)),
    "compressed zeros": as_npz(as_npy(np.zeros(1 << 20)), how=zipfile.ZIP_DEFLATED),
    "another kind of file": as_npz(b"text", "a.txt"),
    "no archive": b"no archive",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_an_error_and_no_execution(kind: str, tmp_path: Path, capsys) -> None:
    spoilt(tmp_path)
    rewrite(tmp_path, HOSTILE[kind])
    refused(tmp_path, "something else than plain arrays")
    assert capsys.readouterr().out == ""


def test_a_manifest_names_no_other_file(tmp_path: Path) -> None:
    spoilt(tmp_path)
    for name in ("../data.npz", "checkpoint-1.npz.exe", "/etc/passwd", 7, None):
        rewrite(tmp_path, arrays=name)
        refused(tmp_path)


def test_other_runs_and_later_formats_are_refused(tmp_path: Path) -> None:
    spoilt(tmp_path)
    rewrite(tmp_path, fingerprint="them")
    refused(tmp_path, "another run")
    rewrite(tmp_path, format_version=99)
    refused(tmp_path, "format 99")
    for wrong in ([], "text", {"format": "another"}):
        (tmp_path / "checkpoint.json").write_text(json.dumps(wrong))
        refused(tmp_path)


def test_nothing_that_reads_a_run_unpickles() -> None:
    for module in (checkpoint, runs):
        text = Path(module.__file__).read_text()
        assert "import pickle" not in text and "allow_pickle=True" not in text and "np.load" not in text


def test_arrays_of_a_file_are_copies_of_their_own(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.npz", {"x": np.asfortranarray(np.arange(6.0).reshape(2, 3))})
    array = read_arrays((tmp_path / "a.npz").read_bytes())["x"]
    array[0, 0] = 5.0
    np.testing.assert_array_equal(array, [[5.0, 1.0, 2.0], [3.0, 4.0, 5.0]])


# --- estimators ---------------------------------------------------------------------------------------------------


def table(classes: bool = False) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(rng.normal(size=(70, 6)), columns=list("abcdef"))
    frame["site"] = pd.Categorical(rng.choice(["north", "south", "east"], 70))
    y = frame["a"] - 0.6 * frame["c"] + rng.normal(size=70)
    return frame, (pd.Series(np.where(y > 0, "yes", "no"), name="won") if classes else y.rename("height"))


def die_once(monkeypatch: pytest.MonkeyPatch, lives: int = 2) -> None:
    """The first fit dies; what follows lives."""
    left = [lives]
    save = Checkpoint.save

    def saving(self: Checkpoint, state: Any, arrays: Any) -> None:
        save(self, state, arrays)
        left[0] -= 1
        if left[0] == 0:
            self.close()
            raise Death

    monkeypatch.setattr(Checkpoint, "save", saving)


SHORT = Budget(steps=60_000)
CASES: dict[str, Callable[[], tuple[Any, str, dict[str, Any]]]] = {
    "regression": lambda: (
        modejump.BGLMRegressor(
            algorithm="mjmcmc", budget=SHORT, random_state=3, always_in=("b",), groups={"pair": ["d", "e"]},
            coef_prior=modejump.HyperG(a=4), model_prior=modejump.BernoulliPrior(0.3), n_jobs=2,
        ),
        "",
        {"sample_weight": np.arange(70) % 3 + 1.0},
    ),
    "formula": lambda: (
        modejump.BGLMRegressor(algorithm="mjmcmc", budget=SHORT, random_state=np.random.default_rng(4)),
        "height ~ a + b + C(site) + a:c + np.exp(d)",
        {},
    ),
    "laws": lambda: (
        modejump.BGNLMRegressor(
            chains=2, budget=Budget(warmup=600, steps=30_000), transforms=("sin",), random_state=1,
            space=modejump.Space(depth=2, complexity=5, size=4, population=8),
        ),
        "",
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_estimator_goes_on_after_a_death(name: str, tmp_path: Path, monkeypatch) -> None:
    frame, y = table()
    estimator, formula, more = CASES[name]()
    if isinstance(estimator, modejump.BGNLMRegressor):
        frame = frame.drop(columns="site")
    alone = modejump.Run(tmp_path / "alone")
    fit = alone.fit_formula if formula else alone.fit
    seen = (formula, frame.assign(height=y)) if formula else (frame, y)
    fit(clone(estimator), *seen, **more)
    die_once(monkeypatch)
    run = modejump.Run(tmp_path / "run", every=1e-6)
    with pytest.raises(Death):
        (run.fit_formula if formula else run.fit)(clone(CASES[name]()[0]), *seen, **more)
    with pytest.raises(InputError, match="not finished"):
        modejump.load(tmp_path / "run")
    found = modejump.resume(tmp_path / "run", every=0)
    for file in FILES:
        assert (tmp_path / "run" / file).read_bytes() == (tmp_path / "alone" / file).read_bytes()
    assert not {"data.npz", "checkpoint.json"} & {path.name for path in (tmp_path / "run").iterdir()}
    again = modejump.load(tmp_path / "run")
    np.testing.assert_array_equal(found.predict(frame), again.predict(frame))
    lines = (tmp_path / "run" / "log.txt").read_text().splitlines()
    assert [line.split(" ", 2)[2].split(":")[0] for line in lines] == ["begun", "failed", "resumed", "finished"]


def test_a_classifier_with_offsets_goes_on(tmp_path: Path, monkeypatch) -> None:
    frame, y = table(classes=True)
    offset = pd.Series(np.linspace(-0.2, 0.2, 70), name="known")
    make = lambda: modejump.BGLMClassifier(algorithm="mjmcmc", budget=Budget(steps=20_000), random_state=3)  # noqa: E731
    alone = modejump.Run(tmp_path / "alone").fit(make(), frame, y, offset=offset)
    die_once(monkeypatch)
    with pytest.raises(Death):
        modejump.Run(tmp_path / "run", every=1e-6).fit(make(), frame, y, offset=offset)
    found = modejump.resume(tmp_path / "run")
    assert found.classes_.tolist() == ["no", "yes"] and found.offset_ == "known"
    np.testing.assert_array_equal(found.predict_proba(frame, offset=offset), alone.predict_proba(frame, offset=offset))


def test_a_run_without_checkpoints_begins_anew(tmp_path: Path, monkeypatch) -> None:
    frame, y = table()
    for number, options in enumerate(({}, {"algorithm": "mjmcmc", "budget": SHORT, "random_state": 1})):
        folder = tmp_path / str(number)
        alone = modejump.BGLMRegressor(**options).fit(frame, y)
        with monkeypatch.context() as patch:
            patch.setattr(runs.Run, "_finish", lambda self, estimator: (_ for _ in ()).throw(Death))
            with pytest.raises(Death):
                modejump.Run(folder, every=0).fit(modejump.BGLMRegressor(**options), frame, y)
        assert not (folder / "checkpoint.json").exists()
        found = modejump.resume(folder)
        pd.testing.assert_frame_equal(found.inclusion_, alone.inclusion_)
        assert "resumed from the beginning" in (folder / "log.txt").read_text()


def test_two_processes_do_not_share_a_directory(tmp_path: Path) -> None:
    frame, y = table()
    folder = tmp_path / "run"
    folder.mkdir()
    run = modejump.Run(folder)
    with run.locked():
        for work in (
            lambda: modejump.Run(folder, force=True).fit(modejump.BGLMRegressor(), frame, y),
            lambda: runs.Run(folder).locked().__enter__(),
        ):
            with pytest.raises(InputError, match=f"process {os.getpid()} is at work"):
                work()
    # What a process left that ended in the middle does not count.
    (folder / "lock").write_text("999999")
    modejump.Run(folder, force=True).fit(modejump.BGLMRegressor(), frame, y)


def test_a_directory_that_is_in_use_is_refused(tmp_path: Path, monkeypatch) -> None:
    frame, y = table()
    make = lambda: modejump.BGLMRegressor(algorithm="mjmcmc", budget=SHORT)  # noqa: E731
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        modejump.Run(tmp_path / "file").fit(make(), frame, y)
    with pytest.raises(InputError, match="not empty"):
        modejump.Run(tmp_path).fit(make(), frame, y)
    with pytest.raises(InputError, match="modejump's estimators"):
        modejump.Run(tmp_path / "x").fit(object(), frame, y)
    for every in (-1, np.nan, "often", True):
        with pytest.raises(InputError, match="every is"):
            modejump.Run(tmp_path / "x", every=every)
    die_once(monkeypatch)
    with pytest.raises(Death):
        modejump.Run(tmp_path / "run", every=1e-6).fit(make(), frame, y)
    with pytest.raises(InputError, match="not finished"):
        modejump.Run(tmp_path / "run").fit(make(), frame, y)
    fitted = modejump.Run(tmp_path / "run", force=True).fit(make(), frame, y)
    assert fitted.posterior_.result.finished and "_desk" not in vars(fitted)


def test_refused_data_leave_no_directory(tmp_path: Path) -> None:
    frame, y = table()
    with pytest.raises(InputError, match="chains must be"):
        modejump.Run(tmp_path / "run").fit(modejump.BGLMRegressor(chains=0), frame, y)
    assert not (tmp_path / "run").exists()


def test_another_version_goes_on_with_a_warning(tmp_path: Path, monkeypatch) -> None:
    frame, y = table()
    die_once(monkeypatch)
    make = lambda: modejump.BGLMRegressor(algorithm="mjmcmc", budget=SHORT)  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(runs.metadata, "version", lambda name: "0.0.1")
        with pytest.raises(Death):
            modejump.Run(tmp_path / "run", every=1e-6).fit(make(), frame, y)
    with pytest.warns(modejump.ModejumpWarning, match="begun by modejump 0.0.1"):
        modejump.resume(tmp_path / "run")


def test_a_changed_job_or_table_is_refused(tmp_path: Path, monkeypatch) -> None:
    frame, y = table()
    die_once(monkeypatch)
    folder = tmp_path / "run"
    with pytest.raises(Death):
        modejump.Run(folder, every=1e-6).fit(modejump.BGLMRegressor(algorithm="mjmcmc", budget=SHORT), frame, y)
    job = json.loads((folder / "job.json").read_text())
    for change in ({"seed": 7}, {"format": "other"}, {"params": None}, {"fingerprint": None}, {"every": "often"}):
        (folder / "job.json").write_text(json.dumps(job | change))
        with pytest.raises(InputError, match="damaged"):
            modejump.resume(folder)
    (folder / "job.json").write_text(json.dumps(job | {"format_version": 9}))
    with pytest.raises(InputError, match="format 9"):
        modejump.resume(folder)
    (folder / "job.json").write_text(json.dumps(job))
    blob = (folder / "data.npz").read_bytes()
    for wrong in (blob[:-9], HOSTILE["an array of objects"], b""):
        (folder / "data.npz").write_bytes(wrong)
        with pytest.raises(InputError, match="damaged"):
            modejump.resume(folder)
    with pytest.raises(InputError, match="holds no run"):
        modejump.resume(tmp_path)


# --- command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    frame, y = table()
    frame.assign(height=y).drop(columns="site").to_csv("data.csv", index=False)
    return tmp_path


LINE = "fit data.csv --target height --algorithm mjmcmc --seed 3 --steps"


def test_interrupt_resume_and_a_run_left_alone_agree(here: Path) -> None:
    """The real thing: a process that is interrupted, one that is killed, and one that ends."""
    command = [sys.executable, "-m", "modejump"]
    line = f"{LINE} 800000 --checkpoint 0.05".split()
    for number, (arguments, end) in enumerate(
        ((["--out", "run"], signal.SIGINT), (None, signal.SIGKILL), (None, None)),
    ):
        process = subprocess.Popen(
            [*command, *(line + arguments if arguments else ["resume", "run"])],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        if end is not None:
            before, until = _generation(here / "run"), time.monotonic() + 120
            # There is something to show as soon as all chains have sampled.
            while _generation(here / "run") < before + 1 and time.monotonic() < until and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(end)
        out, err = process.communicate(timeout=300)
        assert "Traceback" not in err
        if number == 0:
            assert process.returncode == 130, err
            assert "modejump resume run" in out and "interrupted" in err.splitlines()[-1]
            assert not modejump.load(here / "run").posterior_.result.finished
        elif number == 2:
            assert process.returncode == 0 and "stored in run" in out
    assert main([*line, "--out", "alone", "--quiet"]) == 0
    for file in FILES:
        assert (here / "run" / file).read_bytes() == (here / "alone" / file).read_bytes()
    words = [line.split(" ", 2)[2] for line in (here / "run" / "log.txt").read_text().splitlines()]
    assert sum(word == "resumed" for word in words) == 2 and words[-1] == "finished"


def _generation(folder: Path) -> int:
    """Checkpoints of a run that samples; none before."""
    try:
        manifest = json.loads((folder / "checkpoint.json").read_text())
    except FileNotFoundError:
        return 0
    return 0 if "round" in manifest["state"] else int(manifest["generation"])


def test_the_command_line_says_what_is_wrong(here: Path, capsys) -> None:
    assert main([*LINE.split(), "2000", "--checkpoint", "3"]) == 2
    assert "--out" in capsys.readouterr().err
    assert main(["resume", "nowhere"]) == 2
    assert "holds no run" in capsys.readouterr().err
    assert main([*LINE.split(), "2000", "--out", "run", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["resume", "run"]) == 0
    assert "finished before" in capsys.readouterr().out


# --- watching -----------------------------------------------------------------------------------------------------


def test_notes_tell_rate_agreement_and_best_model() -> None:
    for driver, problem, options in (DRIVERS["mjmcmc"], DRIVERS["rgmjmcmc"]):
        notes: list[str] = []
        driver(problem, seed=1, progress=lambda done, total, note, notes=notes: notes.append(note), **options)
        assert "million steps/s" in notes[-1] and "R-hat 1.0" in notes[-1] and "best: " in notes[-1]
        searched = [note for note in notes if note.startswith("search")]
        assert all("populations/s" in note and "best: " in note for note in searched)


def test_a_log_gets_lines_whatever_else_is_wanted(tmp_path: Path, monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr("modejump.core.progress.time.monotonic", lambda: now[0])
    told: list[tuple[float, float, str]] = []
    for wanted in (False, "auto", lambda *call: told.append(call)):
        with reporter(wanted, io.StringIO(), Log(tmp_path / "log.txt")) as report:
            for second in range(21):
                report(0.5 + second / 40, 1.0, "sampling")
                now[0] += 1.0
    lines = [line.split(" ", 2)[2] for line in (tmp_path / "log.txt").read_text().splitlines()]
    # Half of the work was there before, and says nothing about the time that the rest takes.
    assert lines == 3 * ["sampling, 75%, 0:00:10 left", "sampling, 100%, 0:00:00 left"]
    assert len(told) == 21
