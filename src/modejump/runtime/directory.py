"""The directory of one run: what is to be done, the rows, checkpoints, a log, and a lock.

``job.json`` says what is to be done and vouches for the rows in ``job-N.npz``; ``checkpoint.json`` and its arrays say
how far the work has come; ``log.txt`` says what happened when. The outcome is written beside them as a saved model;
then the rows and the checkpoints are removed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from modejump.core.errors import InputError
from modejump.core.paths import check_plain, open_plain
from modejump.core.progress import Log
from modejump.runtime.checkpoints import Checkpoint, NoCheckpoint
from modejump.runtime.files import CHECKPOINT, JOB, MODEL, is_partial
from modejump.runtime.snapshots import Snapshot

LOG, LOCK = "log.txt", "lock"


class RunDirectory:
    """Files of one run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.log = Log(self.path / LOG)

    @property
    def unfinished(self) -> bool:
        """Whether there is a run that can be resumed."""
        return JOB.exists(self.path) and any(self.path.glob(f"{JOB.name}-*.npz"))

    @property
    def occupied(self) -> bool:
        """Whether there is more than what a run leaves that was killed before it had begun."""
        names = {path.name for path in self.path.iterdir()} if self.path.is_dir() else set()
        left = {name for name in names if name == LOCK or name.startswith(f"{JOB.name}-") or is_partial(name)}
        return bool(names - left) or (bool(names) and LOCK not in names)

    def refuse_overwrite(self, force: bool) -> None:
        """Raise InputError where the directory is in use."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file; give a directory.")
        if force or not self.occupied:
            return
        if self.unfinished:
            raise InputError(
                f"the directory {self.path} holds an unfinished run; resume it with modejump resume {self.path}, or "
                "use force to start again."
            )
        raise InputError(f"the directory {self.path} is not empty; choose another, or use force to write into it.")

    def begin(self, about: Mapping[str, Any], arrays: Snapshot) -> str:
        """Write down what is to be done, in the place of an earlier run; returns the fingerprint of the job."""
        self.clear()
        job = dict(about) | {"fingerprint": ""}
        job["fingerprint"] = _fingerprint(job, arrays)
        JOB.write(self.path, job, arrays)
        return job["fingerprint"]

    def read(self) -> tuple[dict[str, Any], Snapshot]:
        """What is to be done, as it was written down, and the rows."""
        job = self.about()
        if not self.unfinished:
            return job, {}
        job, arrays = JOB.read(self.path)
        if _fingerprint(job, arrays) != job.get("fingerprint"):
            raise JOB.damaged(self.path, f"{JOB.file} is not what was written")
        return job, arrays

    def about(self) -> dict[str, Any]:
        """What is to be done, without the rows."""
        try:
            return JOB.about(self.path)
        except OSError:
            if MODEL.exists(self.path):
                raise InputError(f"{self.path} holds a saved model and no run; read it with modejump.load.") from None
            raise InputError(f"{self.path} holds no run: it has no readable {JOB.file}.") from None

    def checkpoint(self, every: float, fingerprint: str) -> NoCheckpoint:
        """What keeps the state of the run; nothing does where checkpoints are every 0 seconds."""
        return Checkpoint(self.path, every, fingerprint) if every > 0 else NoCheckpoint()

    def clear(self) -> None:
        """Remove what an earlier run left."""
        MODEL.remove(self.path)
        JOB.remove(self.path)
        self.tidy()

    def tidy(self) -> None:
        """Remove rows and checkpoints of a finished run, and files whose writing something ended."""
        CHECKPOINT.remove(self.path)
        for path in [*self.path.glob(f"{JOB.name}-*.npz"), *self.path.glob(".*.partial")]:
            if not path.name.startswith(".") or is_partial(path.name):
                path.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out; the lock belongs to the open file, so that it ends with the process."""
        path = self.path / LOCK
        check_plain(self.log.path)
        with _locked_file(path) as file:
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            try:
                yield
            finally:
                # Some systems keep a file that is open.
                with suppress(PermissionError):
                    path.unlink(missing_ok=True)


def _fingerprint(job: Mapping[str, Any], arrays: Snapshot) -> str:
    """SHA-256 of everything that an answer depends on: rows, options, priors, space, budget, seed."""
    options = job.get("options")
    if isinstance(options, dict):
        options = {name: value for name, value in options.items() if name != "n_jobs"}
    kept = {"class": job.get("class"), "options": options, "table": job.get("table")}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True, allow_nan=False).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _locked_file(path: Path) -> TextIO:
    """The lock of a directory, open and held."""
    while True:
        file = os.fdopen(open_plain(path, os.O_RDWR | os.O_CREAT), "r+", encoding="utf-8")
        if not _try_lock(file):
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise InputError(f"process {holder} is using {path.parent}; wait for it, or end it first.")
        # The process before may have removed the file after it was opened here: then the lock is on nothing.
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
        file.close()


def _try_lock(file: Any) -> bool:
    """Lock an open file for this process; False where another one has."""
    try:
        import fcntl
    except ImportError:
        import msvcrt

        file.seek(1 << 20)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
