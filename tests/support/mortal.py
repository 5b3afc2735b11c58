"""Runs that die: a checkpoint that ends its process, what two runs have in common, and files that somebody changed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modejump.core.errors import InputError
from modejump.runtime.checkpoints import Checkpoint
from modejump.runtime.files import CHECKPOINT, Record, digest_of
from modejump.runtime.snapshots import Snapshot
from modejump.samplers.result import Result


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


def die_often(work: Callable[..., Result], folder: Path) -> tuple[Result, list[dict[str, Any]]]:
    """The result of a run that dies after one, two or three states, again and again; and the states it died at."""
    deaths: list[dict[str, Any]] = []
    while True:
        keeper = Mortal(folder, 1 + len(deaths) % 3)
        try:
            return work(checkpoint=keeper), deaths
        except Death:
            deaths.append(keeper.last)


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


def same(one: Result, other: Result) -> None:
    """Two results agree bit by bit, the clock apart."""
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name == "models":
            for part in dataclasses.fields(a):
                assert getattr(a, part.name).tobytes() == getattr(b, part.name).tobytes(), part.name
        elif field.name == "laws":
            assert a is b is None or (a.features, a.aliases) == (b.features, b.aliases)
        elif isinstance(a, np.ndarray):
            assert a.tobytes() == b.tobytes(), field.name
        elif "seconds" not in field.name:
            assert a == b or (a != a and b != b), field.name


def outcome(folder: Path) -> list[Any]:
    """What a run gave, as it is on disk."""
    digest = json.loads((folder / "run.json").read_text())["arrays"]["digest"]
    return [digest, *((folder / name).read_bytes() for name in ("models.csv", "inclusion.csv"))]


def rewrite(folder: Path, blob: bytes | None = None, record: Record = CHECKPOINT, **changes: Any) -> None:
    """Change the files of a record as somebody would who knows the format."""
    about = json.loads((folder / record.file).read_text())
    if blob is not None:
        (folder / about["arrays"]["file"]).write_bytes(blob)
        about["arrays"] |= {"size": len(blob), "digest": hashlib.sha256(blob).hexdigest()}
    about |= changes
    about.pop("digest")
    (folder / record.file).write_text(json.dumps(about | {"digest": digest_of(about)}))


def refused(work: Callable[..., Any], folder: Path, words: str) -> None:
    """A run refuses the checkpoint in a directory in one sentence that says what to do."""
    with pytest.raises(InputError, match=words) as error:
        work(checkpoint=Checkpoint(folder))
    assert "\n" not in str(error.value) and str(error.value).endswith("start the run again.")


def refused_arrays(work: Callable[..., Any], folder: Path, wrong: Mapping[str, list[np.ndarray | None]]) -> None:
    """A run refuses a checkpoint with other arrays under these names, one after another; None for a missing one."""
    about, arrays = CHECKPOINT.read(folder)
    for name, others in wrong.items():
        for other in others:
            changed = {key: array for key, array in (arrays | {name: other}).items() if array is not None}
            CHECKPOINT.write(folder, _plain(about), changed)
            refused(work, folder, "damaged")
    CHECKPOINT.write(folder, _plain(about), arrays)


def _plain(about: Mapping[str, Any]) -> dict[str, Any]:
    """What a sampler wrote, without what vouches for the arrays."""
    return {name: about[name] for name in ("fingerprint", "state")}
