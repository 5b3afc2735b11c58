"""Runs in a directory where the disk is full, where a process dies while it writes, and where somebody was before."""

from __future__ import annotations

import errno
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import modejump
from modejump.cli import main
from modejump.commands.fit import caught_warnings
from modejump.core.errors import InputError, ModejumpWarning, UnsavedWarning
from modejump.core.progress import Log
from modejump.estimators import runs
from modejump.runtime.checkpoints import Checkpoint, write_arrays, write_checkpoint

ARRAYS = {"x": np.arange(1000.0)}
FILES = ("posterior.npz", "models.csv", "inclusion.csv")


class Death(BaseException):
    """The end of a process, as far as a test can play it."""


def table() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(rng.normal(size=(70, 6)), columns=list("abcdef"))
    return frame, (frame["a"] - 0.6 * frame["c"] + rng.normal(size=70)).rename("height")


def sampler() -> modejump.BGLMRegressor:
    return modejump.BGLMRegressor(algorithm="mjmcmc", budget=modejump.Budget(steps=60_000), random_state=3)


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch, *names: str) -> Iterator[None]:
    """Files whose names hold one of these words cannot be brought to the disk."""
    real = os.fsync

    def full(number: int) -> None:
        if any(name in os.readlink(f"/proc/self/fd/{number}") for name in names):
            # As the system says it, without the name of the file.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(number)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        yield


def inside(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# --- a full disk --------------------------------------------------------------------------------------------------

linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="tells files apart by /proc")


@linux
@pytest.mark.parametrize("name", ["checkpoint-4.npz", "checkpoint.json"])
def test_a_checkpoint_that_does_not_fit_takes_no_room(name: str, tmp_path: Path, monkeypatch) -> None:
    write_checkpoint(tmp_path, 3, "us", {"round": 1}, ARRAYS)
    with full_disk(monkeypatch, name), pytest.raises(OSError, match="No space left"):
        write_checkpoint(tmp_path, 4, "us", {"round": 2}, ARRAYS)
    assert inside(tmp_path) == ["checkpoint-3.npz", "checkpoint.json"]
    assert Checkpoint(tmp_path, fingerprint="us").saved.state == {"round": 1}


@linux
def test_errors_of_writing_name_the_file(tmp_path: Path, monkeypatch) -> None:
    with full_disk(monkeypatch, "rows.npz"), pytest.raises(OSError, match="No space left") as caught:
        write_arrays(tmp_path / "rows.npz", ARRAYS)
    assert caught.value.filename == str(tmp_path / "rows.npz")
    assert inside(tmp_path) == []


def test_one_trouble_is_told_once(tmp_path: Path, monkeypatch) -> None:
    troubles = iter(["no room", "no room", "", "no room", "no wires"])

    def write(*args: Any) -> None:
        if trouble := next(troubles):
            raise OSError(errno.ENOSPC, trouble)

    monkeypatch.setattr("modejump.runtime.checkpoints.write_checkpoint", write)
    keeper, told = Checkpoint(tmp_path, every=1e-9), []
    for _ in range(5):
        keeper.save({}, {})
        keeper.close()
        with caught_all() as caught:
            keeper.due()
        told.append([str(w.message) for w in caught])
    assert [bool(words) for words in told] == [True, False, False, True, True]
    assert "no wires" in told[-1][0]


@contextmanager
def caught_all() -> Iterator[list[Any]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def test_a_log_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    Log(tmp_path).write("a directory is no file")
    Log(tmp_path / "nowhere" / "log.txt").write("nor is this one")


@linux
def test_what_cannot_be_begun_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    for name in ("data.npz", "job.json"):
        with full_disk(monkeypatch, name), pytest.raises(OSError, match="No space left") as caught:
            modejump.Run(tmp_path / "run").fit(sampler(), *table())
        assert caught.value.filename == str(tmp_path / "run" / name)
        assert not (tmp_path / "run").exists()


@linux
@pytest.mark.parametrize("name", ["posterior.npz", "run.json"])
def test_an_outcome_that_does_not_fit_can_be_written_later(name: str, tmp_path: Path, monkeypatch) -> None:
    modejump.Run(tmp_path / "alone").fit(sampler(), *table())
    folder = tmp_path / "run"
    with full_disk(monkeypatch, name), pytest.raises(InputError, match=r"No space left.* modejump resume") as caught:
        modejump.Run(folder).fit(sampler(), *table())
    assert "\n" not in str(caught.value)
    assert inside(folder) == ["data.npz", "job.json", "log.txt"]
    modejump.resume(folder)
    for file in FILES:
        assert (folder / file).read_bytes() == (tmp_path / "alone" / file).read_bytes()


@linux
def test_a_full_disk_leaves_the_model_that_was_saved_before(tmp_path: Path, monkeypatch) -> None:
    frame, y = table()
    before = modejump.BGLMRegressor().fit(frame, y)
    before.save(tmp_path / "model")
    with full_disk(monkeypatch, "run.json"), pytest.raises(OSError, match="No space left"):
        sampler().fit(frame, y).save(tmp_path / "model")
    pd.testing.assert_frame_equal(modejump.load(tmp_path / "model").inclusion_, before.inclusion_)
    with full_disk(monkeypatch, "run.json"), pytest.raises(OSError, match="No space left"):
        modejump.Run(tmp_path / "model", force=True).store(sampler().fit(frame, y))
    pd.testing.assert_frame_equal(modejump.load(tmp_path / "model").inclusion_, before.inclusion_)


# --- death while something is written -----------------------------------------------------------------------------


def interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was interrupted when its chains had sampled, so that there is an outcome already."""
    save = Checkpoint.save

    def saving(self: Checkpoint, state: Any, arrays: Any) -> None:
        save(self, state, arrays)
        # One that is still being written would make the next one wait, perhaps until the chains are done.
        self.close()
        if "round" not in state:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("modejump.runtime.checkpoints.MOST_SHARE", 1e9)
        patch.setattr(Checkpoint, "save", saving)
        model = modejump.Run(folder, every=1e-6).fit(sampler(), *table())
    assert not model.posterior_.result.finished and runs.unfinished(folder)


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
        for file in FILES:
            assert (folder / file).read_bytes() == (tmp_path / "alone" / file).read_bytes()
        assert runs.unfinished(folder) is False


@pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")
def test_a_spoilt_outcome_keeps_no_run_from_going_on(tmp_path: Path, monkeypatch) -> None:
    interrupted(tmp_path / "run", monkeypatch)
    (tmp_path / "run" / "posterior.npz").write_bytes(b"spoilt")
    with pytest.raises(InputError, match="damaged"):
        modejump.load(tmp_path / "run")
    assert modejump.resume(tmp_path / "run").posterior_.result.finished
    (tmp_path / "run" / "posterior.npz").write_bytes(b"spoilt")
    with pytest.raises(InputError, match="damaged"):
        modejump.resume(tmp_path / "run")


LEFT = [".data.npz.partial", ".posterior.npz.4711.partial", ".checkpoint-3.npz.partial", ".checkpoint.json.partial"]


def test_files_that_a_death_left_are_removed(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(runs.Run, "_finish", lambda self, estimator: (_ for _ in ()).throw(Death))
        with pytest.raises(Death):
            modejump.Run(folder).fit(sampler(), *table())
    for name in [*LEFT, ".mine.partial"]:
        (folder / name).write_bytes(b"half")
    modejump.resume(folder)
    assert inside(folder) == sorted([".mine.partial", "job.json", "log.txt", "run.json", *FILES])


def test_a_run_that_was_killed_before_it_had_begun_is_in_nobodys_way(tmp_path: Path) -> None:
    frame, y = table()
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "data.npz").write_bytes(b"somebody's own")
    with pytest.raises(InputError, match="not empty"):
        modejump.Run(folder).fit(sampler(), frame, y)
    (folder / "lock").write_text("999999")
    (folder / ".job.json.partial").write_bytes(b"half")
    modejump.Run(folder).fit(sampler(), frame, y)
    assert inside(folder) == sorted(["job.json", "log.txt", "run.json", *FILES])


def test_a_process_that_was_quicker_is_not_overwritten(tmp_path: Path, monkeypatch) -> None:
    frame, y = table()
    folder = tmp_path / "run"
    lock = runs.locked_file

    def late(path: Path) -> Any:
        monkeypatch.setattr(runs, "locked_file", lock)
        modejump.Run(folder).fit(sampler(), frame, y)
        return lock(path)

    monkeypatch.setattr(runs, "locked_file", late)
    with pytest.raises(InputError, match="not empty"):
        modejump.Run(folder).fit(modejump.BGLMRegressor(), frame, y)
    assert modejump.load(folder).posterior_.result.algorithm == "mjmcmc"


# --- command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    frame, y = table()
    frame.assign(height=y).to_csv("data.csv", index=False)
    return tmp_path


LINE = "fit data.csv --target height --algorithm mjmcmc --seed 3 --steps 30000 --quiet".split()


def test_an_interrupt_says_how_to_go_on(here: Path, monkeypatch, capsys) -> None:
    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(modejump.BGLMRegressor, "_do", interrupt, raising=True)
        assert main(LINE) == 130
        assert capsys.readouterr().err == "modejump: interrupted before the work was done.\n"
        assert main([*LINE, "--out", "run"]) == 130
        assert capsys.readouterr().err == "modejump: interrupted before the work was done.\n"
    with monkeypatch.context() as patch:
        patch.setattr(runs.Run, "checkpoint", interrupt)
        assert main([*LINE, "--out", "run"]) == 130
        assert capsys.readouterr().err.endswith("; go on with: modejump resume run\n")
        assert main(["resume", "run", "--quiet"]) == 130
        assert capsys.readouterr().err.endswith("; go on with: modejump resume run\n")
    assert main(["resume", "run", "--quiet"]) == 0


@pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")
def test_predictions_of_a_run_that_is_not_finished_say_so(here: Path, monkeypatch, capsys) -> None:
    interrupted(here / "run", monkeypatch)
    assert main(["predict", "run", "data.csv"]) == 0
    assert "interrupted before its budget was spent" in capsys.readouterr().err
    assert main(["resume", "run", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["predict", "run", "data.csv"]) == 0
    assert capsys.readouterr().err == ""


def test_resuming_what_was_only_saved_says_what_it_is(here: Path, capsys) -> None:
    frame, y = table()
    modejump.BGLMRegressor().fit(frame, y).save("saved")
    assert main(["resume", "saved"]) == 2
    assert "no run to go on with" in capsys.readouterr().err


def test_what_cannot_be_saved_is_told_at_once() -> None:
    with caught_all() as now, caught_warnings() as kept:
        warnings.warn("a verdict", ModejumpWarning, stacklevel=1)
        warnings.warn("no room", UnsavedWarning, stacklevel=1)
        assert [str(w.message) for w in now] == ["no room"]
        assert [str(w.message) for w in kept] == ["a verdict"]


def test_a_full_disk_ends_the_command_with_one_sentence(here: Path, monkeypatch, capsys) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("tells files apart by /proc")
    with full_disk(monkeypatch, "posterior.npz"):
        assert main([*LINE, "--out", "run"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "No space left" in err and "modejump resume run" in err
    assert json.loads((here / "run" / "job.json").read_text())["seed"] == 3
