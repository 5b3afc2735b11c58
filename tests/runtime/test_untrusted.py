"""Directories from somebody else: links are not followed, and names of columns do not steer a terminal."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from modejump import BGLMRegressor, InputError, Run, load, resume
from modejump.cli import main
from modejump.core.progress import Log
from modejump.runtime.files import JOB, MODEL

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and permissions are those of POSIX systems")


def table(name: str = "a") -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(1)
    x = pd.DataFrame(rng.normal(size=(30, 3)), columns=[name, "b", "c"])
    return x, (x.iloc[:, 0] + rng.normal(size=30)).to_numpy()


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim.txt"
    path.write_text("precious")
    return path


@pytest.mark.parametrize("name", ["lock", "log.txt"])
@pytest.mark.parametrize("target", ["file", "pipe"])
def test_links_and_pipes_are_left_alone(name: str, target: str, tmp_path: Path, victim: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    if target == "file":
        (folder / name).symlink_to(victim)
    else:
        os.mkfifo(folder / name)
    with pytest.raises(InputError, match="is not a plain file"):
        Run(folder, force=True).fit(BGLMRegressor(), *table())
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("name", ["run.json", "run-1.npz"])
def test_a_saved_model_is_not_read_through_links(name: str, tmp_path: Path) -> None:
    BGLMRegressor().fit(*table()).save(tmp_path / "here")
    (tmp_path / "here" / name).rename(tmp_path / name)
    (tmp_path / "here" / name).symlink_to(tmp_path / name)
    with pytest.raises(InputError, match="is not a plain file"):
        load(tmp_path / "here")


def test_writing_replaces_a_link_and_not_what_it_names(tmp_path: Path, victim: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "inclusion.csv").symlink_to(victim)
    BGLMRegressor().fit(*table()).save(folder)
    assert victim.read_text() == "precious" and not (folder / "inclusion.csv").is_symlink()


def test_rows_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = {}
    write = JOB.__class__.write

    def watched(self, folder, *args, **more):  # type: ignore[no-untyped-def]
        write(self, folder, *args, **more)
        modes.update({path.name: stat.S_IMODE(path.stat().st_mode) for path in Path(folder).iterdir()})

    monkeypatch.setattr(JOB.__class__, "write", watched)
    Run(tmp_path / "run").fit(BGLMRegressor(), *table())
    assert modes["job-1.npz"] == 0o600 and modes["job.json"] == 0o600


@pytest.mark.parametrize("record", [MODEL, JOB])
def test_a_changed_json_file_is_noticed(record, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    record.write(tmp_path, {"kind": "g"}, {"a": np.ones(3)})
    path = tmp_path / record.file
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about | {"kind": "jeffreys"}))
    with pytest.raises(InputError, match="is not the file that was written"):
        record.read(tmp_path)


@pytest.mark.parametrize("estimator", [BGLMRegressor(), BGLMRegressor(family="poisson")])
def test_arrays_without_sense_are_refused(estimator, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    x, y = table()
    estimator.fit(x, np.floor(np.abs(y))).save(tmp_path)
    about, arrays = MODEL.read(tmp_path)
    plain = {name: about[name] for name in about.keys() - {"arrays", "format", "format_version", "modejump_version"}}
    tried = 0
    for name in arrays:
        if name.split("/")[-1] not in (
            "scale",
            "loading",
            "base_coef",
            "corr",
            "weight",
            "base_factor",
            "coef",
            "factor",
        ):
            continue
        for wrong in (np.full_like(arrays[name], np.nan), arrays[name][:0]):
            MODEL.write(tmp_path, plain, arrays | {name: wrong})
            with pytest.raises(InputError, match="is damaged"):
                load(tmp_path)
            tried += 1
    assert tried >= 12
    MODEL.write(tmp_path, plain, arrays)
    assert load(tmp_path).best_model() == estimator.best_model()


def test_names_do_not_steer_terminals_and_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = table("a\x1b[2Jb\x07")
    Log(tmp_path / "log.txt").write("column \x1b[2J\nfinished")
    text = (tmp_path / "log.txt").read_text()
    assert "\x1b" not in text and text.count("\n") == 1
    model = BGLMRegressor().fit(x, y)
    assert "\x1b" not in model.summary() and "\x07" not in model.summary()
    x.assign(y=y).to_csv(tmp_path / "table.csv", index=False)
    assert main(["fit", str(tmp_path / "table.csv"), "--target", "y", "--out", str(tmp_path / "out")]) == 0
    assert main(["fit", str(tmp_path / "table.csv"), "--target", "z\x1b[2J"]) == 2
    shown = capsys.readouterr()
    assert "\x1b[2J" not in shown.out + shown.err + (tmp_path / "out" / "log.txt").read_text()
    assert resume(tmp_path / "out").best_model() == model.best_model()
