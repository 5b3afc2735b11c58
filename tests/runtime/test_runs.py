"""Runs in a directory: resumed after whatever ended them, and in nobody's way."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mortal import Death, die_once, outcome
from sklearn.base import clone
from test_files import HOSTILE, full_disk, inside

import modejump
from modejump.cli import main
from modejump.commands.fit import caught_warnings
from modejump.core.errors import InputError, ModejumpWarning, UnsavedWarning
from modejump.core.progress import Log, reporter
from modejump.estimators.base import PosteriorEstimator
from modejump.runtime import checkpoints, directory
from modejump.runtime.checkpoints import Checkpoint
from modejump.runtime.directory import RunDirectory
from modejump.samplers.budget import Budget

SHORT = Budget(steps=60_000)
SAVED = ["inclusion.csv", "models.csv", "run-1.npz", "run.json"]


@pytest.fixture(autouse=True)
def _write_at_every_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "MOST_SHARE", 1e9)


def table(classes: bool = False) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(rng.normal(size=(70, 6)), columns=list("abcdef"))
    frame["site"] = pd.Categorical(rng.choice(["north", "south", "east"], 70))
    y = frame["a"] - 0.6 * frame["c"] + rng.normal(size=70)
    return frame, (pd.Series(np.where(y > 0, "yes", "no"), name="won") if classes else y.rename("height"))


def sampler(**options: Any) -> modejump.BGLMRegressor:
    return modejump.BGLMRegressor(algorithm="mjmcmc", budget=SHORT, random_state=3, **options)


def words_of(folder: Path) -> list[str]:
    """What the log of a run says, without the times."""
    return [line.split(" ", 2)[2] for line in (folder / "log.txt").read_text().splitlines()]


# --- one answer ---------------------------------------------------------------------------------------------------

CASES: dict[str, Callable[[], tuple[Any, str, dict[str, Any]]]] = {
    "regression": lambda: (
        sampler(
            always_in=("b",), groups={"pair": ["d", "e"]}, coef_prior=modejump.HyperG(a=4),
            model_prior=modejump.BernoulliPrior(0.3), n_jobs=2,
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
def test_an_estimator_continues_after_a_death(name: str, tmp_path: Path, monkeypatch) -> None:
    frame, y = table()
    estimator, formula, more = CASES[name]()
    if name == "laws":
        frame = frame.drop(columns="site")
    seen = (formula, frame.assign(height=y)) if formula else (frame, y)

    def fit(run: modejump.Run, estimator: Any) -> None:
        (run.fit_formula if formula else run.fit)(estimator, *seen, **more)

    fit(modejump.Run(tmp_path / "alone"), clone(estimator))
    die_once(monkeypatch)
    with pytest.raises(Death):
        fit(modejump.Run(tmp_path / "run", every=1e-6), clone(CASES[name]()[0]))
    with pytest.raises(InputError, match="not finished"):
        modejump.load(tmp_path / "run")
    found = modejump.resume(tmp_path / "run", every=0)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "alone")
    assert inside(tmp_path / "run") == sorted(["job.json", "log.txt", *SAVED])
    np.testing.assert_array_equal(found.predict(frame), modejump.load(tmp_path / "run").predict(frame))
    assert [words.split(":")[0] for words in words_of(tmp_path / "run")] == ["begun", "failed", "resumed", "finished"]


def test_a_classifier_with_offsets_continues(tmp_path: Path, monkeypatch) -> None:
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


def die_before_the_outcome(folder: Path, monkeypatch: pytest.MonkeyPatch, estimator: Any, every: float = 10.0) -> None:
    """A run whose process died when it was done and had written nothing of it."""

    def die(*args: Any) -> None:
        raise Death

    with monkeypatch.context() as patch:
        patch.setattr(PosteriorEstimator, "save", die)
        with pytest.raises(Death):
            modejump.Run(folder, every=every).fit(estimator, *table())


def test_a_run_without_checkpoints_starts_again(tmp_path: Path, monkeypatch) -> None:
    for number, make in enumerate((modejump.BGLMRegressor, sampler)):
        folder = tmp_path / str(number)
        die_before_the_outcome(folder, monkeypatch, make(), every=0)
        assert not (folder / "checkpoint.json").exists()
        pd.testing.assert_frame_equal(modejump.resume(folder).inclusion_, make().fit(*table()).inclusion_)
        assert "resumed from the beginning" in words_of(folder)


def test_another_version_continues_with_a_warning(tmp_path: Path, monkeypatch) -> None:
    die_once(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr("modejump.runtime.files.package_version", lambda: "0.0.1")
        with pytest.raises(Death):
            modejump.Run(tmp_path / "run", every=1e-6).fit(sampler(), *table())
    with pytest.warns(ModejumpWarning, match="begun by modejump 0.0.1"):
        modejump.resume(tmp_path / "run")


# --- a directory of one's own -------------------------------------------------------------------------------------


def test_two_processes_do_not_share_a_directory(tmp_path: Path) -> None:
    with RunDirectory(tmp_path).locked():
        for work in (
            lambda: modejump.Run(tmp_path, force=True).fit(modejump.BGLMRegressor(), *table()),
            lambda: RunDirectory(tmp_path).locked().__enter__(),
        ):
            with pytest.raises(InputError, match=f"process {os.getpid()} is using"):
                work()
    # What a process left that ended in the middle does not count.
    (tmp_path / "lock").write_text("999999")
    modejump.Run(tmp_path, force=True).fit(modejump.BGLMRegressor(), *table())


def test_a_process_that_was_quicker_is_not_overwritten(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "run"
    lock = directory._locked_file

    def late(path: Path) -> Any:
        monkeypatch.setattr(directory, "_locked_file", lock)
        modejump.Run(folder).fit(sampler(), *table())
        return lock(path)

    monkeypatch.setattr(directory, "_locked_file", late)
    with pytest.raises(InputError, match="not empty"):
        modejump.Run(folder).fit(modejump.BGLMRegressor(), *table())
    assert modejump.load(folder).posterior_.result.algorithm == "mjmcmc"


def test_a_directory_that_is_in_use_is_refused(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        modejump.Run(tmp_path / "file").fit(sampler(), *table())
    with pytest.raises(InputError, match="not empty"):
        modejump.Run(tmp_path).fit(sampler(), *table())
    with pytest.raises(InputError, match="modejump's estimators"):
        modejump.Run(tmp_path / "x").fit(object(), *table())
    for every in (-1, np.nan, "often", True):
        with pytest.raises(InputError, match="every is"):
            modejump.Run(tmp_path / "x", every=every)
    die_once(monkeypatch)
    with pytest.raises(Death):
        modejump.Run(tmp_path / "run", every=1e-6).fit(sampler(), *table())
    with pytest.raises(InputError, match="unfinished run"):
        modejump.Run(tmp_path / "run").fit(sampler(), *table())
    assert modejump.Run(tmp_path / "run", force=True).fit(sampler(), *table()).posterior_.result.finished


def test_refused_data_leave_no_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="chains must be"):
        modejump.Run(tmp_path / "run").fit(modejump.BGLMRegressor(chains=0), *table())
    assert not (tmp_path / "run").exists()


def test_a_changed_job_or_table_is_refused(tmp_path: Path, monkeypatch) -> None:
    die_once(monkeypatch)
    folder = tmp_path / "run"
    with pytest.raises(Death):
        modejump.Run(folder, every=1e-6).fit(sampler(), *table())
    job = json.loads((folder / "job.json").read_text())
    other = job | {"options": job["options"] | {"seed": 7}}
    for change in (other, {"format": "other"}, {"options": None}, {"fingerprint": None}, {"every": "often"}):
        (folder / "job.json").write_text(json.dumps(job | change))
        with pytest.raises(InputError, match="damaged"):
            modejump.resume(folder)
    (folder / "job.json").write_text(json.dumps(job | {"format_version": 9}))
    with pytest.raises(InputError, match="format 9"):
        modejump.resume(folder)
    (folder / "job.json").write_text(json.dumps(job))
    blob = (folder / "job-1.npz").read_bytes()
    for wrong in (blob[:-9], HOSTILE["an array of objects"], b""):
        (folder / "job-1.npz").write_bytes(wrong)
        with pytest.raises(InputError, match="damaged"):
            modejump.resume(folder)
    with pytest.raises(InputError, match="holds no run"):
        modejump.resume(tmp_path)


# --- a full disk, and death while something is written ------------------------------------------------------------


def test_what_cannot_be_begun_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    for name in ("job-1.npz", "job.json"):
        with full_disk(monkeypatch, name), pytest.raises(OSError, match="No space left") as caught:
            modejump.Run(tmp_path / "run").fit(sampler(), *table())
        assert caught.value.filename == str(tmp_path / "run" / name)
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["run-1.npz", "run.json"])
def test_an_outcome_that_does_not_fit_can_be_written_later(name: str, tmp_path: Path, monkeypatch) -> None:
    modejump.Run(tmp_path / "alone").fit(sampler(), *table())
    folder = tmp_path / "run"
    with full_disk(monkeypatch, name), pytest.raises(InputError, match=r"No space left.* modejump resume") as caught:
        modejump.Run(folder).fit(sampler(), *table())
    assert "\n" not in str(caught.value)
    assert not {"run.json", "run-1.npz"} & set(inside(folder)) and "job-1.npz" in inside(folder)
    modejump.resume(folder)
    assert outcome(folder) == outcome(tmp_path / "alone")


def test_a_full_disk_leaves_the_model_that_was_saved_before(tmp_path: Path, monkeypatch) -> None:
    before = modejump.BGLMRegressor().fit(*table())
    before.save(tmp_path / "model")
    other = sampler().fit(*table())
    for write in (
        lambda: other.save(tmp_path / "model"),
        lambda: modejump.Run(tmp_path / "model", force=True).store(other),
    ):
        with full_disk(monkeypatch, "run.json"), pytest.raises(OSError, match="No space left"):
            write()
        pd.testing.assert_frame_equal(modejump.load(tmp_path / "model").inclusion_, before.inclusion_)


def interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was interrupted when its chains had sampled, so that there is an outcome already."""
    save = Checkpoint.save

    def saving(self: Checkpoint, state: Any, arrays: Any) -> None:
        save(self, state, arrays)
        # One that is still being written would make the next one wait, perhaps until the chains are done.
        self.close()
        if state["phase"] == "sampling":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", saving)
        model = modejump.Run(folder, every=1e-6).fit(sampler(), *table())
    assert not model.posterior_.result.finished and RunDirectory(folder).unfinished


@pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")
def test_death_while_an_outcome_takes_the_place_of_another(tmp_path: Path, monkeypatch) -> None:
    modejump.Run(tmp_path / "alone").fit(sampler(), *table())
    for moves in range(1, 5):
        folder = tmp_path / str(moves)
        interrupted(folder, monkeypatch)
        real, left = os.replace, [moves]

        def replace(source: Any, target: Any, real: Any = real, left: Any = left) -> None:
            real(source, target)
            left[0] -= "checkpoint" not in str(target)
            if left[0] == 0:
                raise Death

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", replace)
            with pytest.raises(Death):
                modejump.resume(folder, every=0)
        modejump.resume(folder)
        assert outcome(folder) == outcome(tmp_path / "alone") and not RunDirectory(folder).unfinished


@pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")
def test_a_damaged_outcome_keeps_no_run_from_being_resumed(tmp_path: Path, monkeypatch) -> None:
    interrupted(tmp_path, monkeypatch)
    (tmp_path / "run-1.npz").write_bytes(b"spoilt")
    with pytest.raises(InputError, match="damaged"):
        modejump.load(tmp_path)
    assert modejump.resume(tmp_path).posterior_.result.finished
    (path,) = tmp_path.glob("run-*.npz")
    path.write_bytes(b"spoilt")
    with pytest.raises(InputError, match="damaged"):
        modejump.resume(tmp_path)


def test_files_that_a_death_left_are_removed(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "run"
    die_before_the_outcome(folder, monkeypatch, sampler())
    for name in ("job-1.npz", "run-7.npz", "checkpoint-3.npz", "checkpoint.json"):
        (folder / f".{name}.{'0a' * 8}.partial").write_bytes(b"half")
    (folder / ".mine.partial").write_bytes(b"half")
    modejump.resume(folder)
    assert inside(folder) == sorted([".mine.partial", "job.json", "log.txt", *SAVED])


def test_a_run_that_was_killed_before_it_had_begun_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "job-1.npz").write_bytes(b"somebody's own")
    with pytest.raises(InputError, match="not empty"):
        modejump.Run(tmp_path).fit(sampler(), *table())
    (tmp_path / "lock").write_text("999999")
    (tmp_path / f".job.json.{'0a' * 8}.partial").write_bytes(b"half")
    modejump.Run(tmp_path).fit(sampler(), *table())
    assert inside(tmp_path) == sorted(["job.json", "log.txt", *SAVED])


def test_a_log_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    Log(tmp_path).write("a directory is no file")
    Log(tmp_path / "nowhere" / "log.txt").write("nor is this one")


def test_a_log_gets_lines_whatever_else_is_wanted(tmp_path: Path, monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr("modejump.core.progress.time.monotonic", lambda: now[0])
    told: list[tuple[float, float, str]] = []
    for wanted in (False, "auto", lambda *call: told.append(call)):
        with reporter(wanted, io.StringIO(), Log(tmp_path / "log.txt")) as report:
            for second in range(21):
                report(0.5 + second / 40, 1.0, "sampling")
                now[0] += 1.0
    # Half of the work was there before, and says nothing about the time that the rest takes.
    assert words_of(tmp_path) == 3 * ["sampling, 75%, 0:00:10 left", "sampling, 100%, 0:00:00 left"]
    assert len(told) == 21


# --- command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    frame, y = table()
    frame.assign(height=y).drop(columns="site").to_csv("data.csv", index=False)
    return tmp_path


LINE = "fit data.csv --target height --algorithm mjmcmc --seed 3 --quiet --steps".split()


def test_interrupt_resume_and_a_run_left_alone_agree(here: Path) -> None:
    """The real thing: a process that is interrupted, one that is killed, and one that ends."""
    command = [sys.executable, "-m", "modejump"]
    line = [word for word in [*LINE, "4000000", "--checkpoint", "0.05"] if word != "--quiet"]
    for number, end in enumerate((signal.SIGINT, signal.SIGKILL, None)):
        process = subprocess.Popen(
            [*command, *(["resume", "run"] if number else [*line, "--out", "run"])],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        if end is not None:
            before, until = _states(here / "run"), time.monotonic() + 120
            # There is something to show as soon as all chains have sampled.
            while _states(here / "run") < before + 1 and time.monotonic() < until and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(end)
        out, err = process.communicate(timeout=300)
        assert "Traceback" not in err
        if number == 0:
            assert process.returncode == 130, err
            assert "Partial results are in run." in out
            assert err.splitlines()[-1] == "modejump: interrupted; resume with: modejump resume run"
            assert not modejump.load(here / "run").posterior_.result.finished
        elif number == 2:
            assert process.returncode == 0 and "in run" in out
    assert main([*line, "--out", "alone", "--quiet"]) == 0
    assert outcome(here / "run") == outcome(here / "alone")
    words = words_of(here / "run")
    assert words.count("resumed") == 2 and words[-1] == "finished"


def _states(folder: Path) -> int:
    """Checkpoints of a run that samples; none before."""
    try:
        about = json.loads((folder / "checkpoint.json").read_text())
    except FileNotFoundError:
        return 0
    number = int(about["arrays"]["file"].removeprefix("checkpoint-").removesuffix(".npz"))
    return number if about["state"]["phase"] == "sampling" else 0


def test_an_interrupt_says_how_to_resume(here: Path, monkeypatch, capsys) -> None:
    def interrupt(*args: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    line = [*LINE, "30000"]
    with monkeypatch.context() as patch:
        patch.setattr(PosteriorEstimator, "_fit", interrupt)
        assert main(line) == 130
        assert capsys.readouterr().err == "modejump: interrupted.\n"
    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "refuse_overwrite", interrupt)
        assert main([*line, "--out", "run"]) == 130
        assert capsys.readouterr().err == "modejump: interrupted.\n"
    with monkeypatch.context() as patch:
        patch.setattr(PosteriorEstimator, "_fit", interrupt)
        for words in ([*line, "--out", "run"], ["resume", "run", "--quiet"]):
            assert main(words) == 130
            assert capsys.readouterr().err == "modejump: interrupted; resume with: modejump resume run\n"
    assert main(["resume", "run", "--quiet"]) == 0


@pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")
def test_predictions_of_a_run_that_is_not_finished_say_so(here: Path, monkeypatch, capsys) -> None:
    interrupted(here / "run", monkeypatch)
    frame, _ = table()
    frame.to_csv("data.csv", index=False)
    assert main(["predict", "run", "data.csv"]) == 0
    assert "partial results" in capsys.readouterr().err
    assert main(["resume", "run", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["predict", "run", "data.csv"]) == 0
    assert capsys.readouterr().err == ""


def test_the_command_line_says_what_is_wrong(here: Path, monkeypatch, capsys) -> None:
    assert main([*LINE, "2000", "--checkpoint", "3"]) == 2
    assert "--out" in capsys.readouterr().err
    assert main(["resume", "nowhere"]) == 2
    assert "holds no run" in capsys.readouterr().err
    assert main([*LINE, "2000", "--out", "run"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["resume", "run"]) == 0
    assert "already finished" in capsys.readouterr().out
    modejump.BGLMRegressor().fit(*table()).save("saved")
    assert main(["resume", "saved"]) == 2
    assert "holds a saved model and no run" in capsys.readouterr().err
    with full_disk(monkeypatch, "run-1.npz"):
        assert main([*LINE, "2000", "--out", "full"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "No space left" in err and "modejump resume full" in err


def test_what_cannot_be_saved_is_told_at_once() -> None:
    with warnings.catch_warnings(record=True) as now, caught_warnings() as kept:
        warnings.simplefilter("always")
        warnings.warn("a verdict", ModejumpWarning, stacklevel=1)
        warnings.warn("no room", UnsavedWarning, stacklevel=1)
        assert [str(w.message) for w in now] == ["no room"]
        assert [str(w.message) for w in kept] == ["a verdict"]
