"""Records on disk: whole or not at all, and whatever somebody put in their place is refused."""

from __future__ import annotations

import errno
import io
import json
import os
import pickle
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mortal import rewrite

from modejump.core.errors import InputError
from modejump.estimators import runs, storage
from modejump.posterior import storage as posterior_storage
from modejump.runtime import checkpoints, directory, files
from modejump.runtime.checkpoints import Checkpoint
from modejump.runtime.files import CHECKPOINT, MODEL

ARRAYS = {"a/b": np.arange(6.0).reshape(2, 3), "c": np.array(7), "d": np.zeros((0, 2), np.uint64)}


def about(round: int = 1) -> dict[str, Any]:
    return {"fingerprint": "us", "state": {"round": round}}


def inside(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    for round in (1, 2):
        CHECKPOINT.write(tmp_path, about(round), ARRAYS)
    assert inside(tmp_path) == ["checkpoint-2.npz", "checkpoint.json"]
    found = Checkpoint(tmp_path, fingerprint="us")
    assert found.state == {"round": 2} and found.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found.arrays[name], array, strict=True)
    # Anything that reads NPZ reads it.
    with np.load(tmp_path / "checkpoint-2.npz", allow_pickle=False) as file:
        assert set(file.files) == set(ARRAYS)
    CHECKPOINT.remove(tmp_path)
    assert inside(tmp_path) == []


def test_arrays_of_a_file_are_copies_of_their_own(tmp_path: Path) -> None:
    MODEL.write(tmp_path, {}, {"x": np.asfortranarray(np.arange(6.0).reshape(2, 3))})
    array = MODEL.read(tmp_path)[1]["x"]
    array[0, 0] = 5.0
    np.testing.assert_array_equal(array, [[5.0, 1.0, 2.0], [3.0, 4.0, 5.0]])


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch, *names: str) -> Iterator[None]:
    """Files whose names hold one of these words cannot be renamed into place."""
    real = os.replace

    def full(source: Any, target: Any) -> None:
        if any(name in str(target) for name in names):
            # As the system says it where a file is written, without its name.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        yield


@pytest.mark.parametrize("name", ["checkpoint-2.npz", "checkpoint.json"])
def test_a_record_that_does_not_fit_leaves_the_one_before_and_takes_no_room(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CHECKPOINT.write(tmp_path, about(), ARRAYS)
    with full_disk(monkeypatch, name), pytest.raises(OSError, match="No space left") as caught:
        CHECKPOINT.write(tmp_path, about(2), ARRAYS)
    assert caught.value.filename == str(tmp_path / name)
    assert inside(tmp_path) == ["checkpoint-1.npz", "checkpoint.json"]
    assert Checkpoint(tmp_path, fingerprint="us").state == {"round": 1}


def test_one_trouble_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    troubles = iter(["no room", "no room", "", "no room", "no wires"])

    def write(*args: Any) -> None:
        if trouble := next(troubles):
            raise OSError(errno.ENOSPC, trouble)

    monkeypatch.setattr(files.Record, "write", write)
    keeper, told = Checkpoint(tmp_path, every=1e-9), []
    for _ in range(5):
        keeper.save({}, {})
        keeper.close()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            keeper.due()
        told.append([str(w.message) for w in caught])
    assert [bool(words) for words in told] == [True, False, False, True, True]
    assert "no wires" in told[-1][0]


# --- what somebody put there --------------------------------------------------------------------------------------


def refused(folder: Path, words: str = "damaged") -> None:
    with pytest.raises(InputError, match=words) as error:
        Checkpoint(folder, fingerprint="us")
    assert "\n" not in str(error.value)


def test_truncated_and_flipped_files_are_refused(tmp_path: Path) -> None:
    CHECKPOINT.write(tmp_path, about(), ARRAYS)
    path, head = tmp_path / "checkpoint-1.npz", tmp_path / "checkpoint.json"
    blob, text = path.read_bytes(), head.read_bytes()
    for length in (0, 1, len(blob) // 2, len(blob) - 1):
        path.write_bytes(blob[:length])
        refused(tmp_path)
    for at in range(0, len(blob), 37):
        path.write_bytes(blob[:at] + bytes([blob[at] ^ 16]) + blob[at + 1 :])
        refused(tmp_path)
    path.unlink()
    refused(tmp_path)
    path.write_bytes(blob)
    for length in range(0, len(text) - 1, 11):
        head.write_bytes(text[:length])
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
    CHECKPOINT.write(tmp_path, about(), ARRAYS)
    rewrite(tmp_path, HOSTILE[kind])
    refused(tmp_path, "something else than plain arrays")
    assert capsys.readouterr().out == ""


def test_a_record_names_no_other_file(tmp_path: Path) -> None:
    CHECKPOINT.write(tmp_path, about(), ARRAYS)
    held = json.loads((tmp_path / "checkpoint.json").read_text())["arrays"]
    for name in ("../job-1.npz", "checkpoint-1.npz.exe", "/etc/passwd", 7, None):
        rewrite(tmp_path, arrays=held | {"file": name})
        refused(tmp_path)
    rewrite(tmp_path, arrays=None)
    refused(tmp_path)


def test_other_runs_and_other_formats_are_refused(tmp_path: Path) -> None:
    CHECKPOINT.write(tmp_path, about(), ARRAYS)
    rewrite(tmp_path, fingerprint="them")
    refused(tmp_path, "another run")
    for version in (1, 99):
        rewrite(tmp_path, format_version=version)
        refused(tmp_path, f"has format {version}")
    for wrong in ([], "text", {"format": "another"}):
        (tmp_path / "checkpoint.json").write_text(json.dumps(wrong))
        refused(tmp_path)


def test_nothing_that_reads_files_unpickles() -> None:
    for module in (files, checkpoints, directory, runs, storage, posterior_storage):
        text = Path(module.__file__).read_text()
        assert "import pickle" not in text and "allow_pickle=True" not in text and "np.load" not in text
