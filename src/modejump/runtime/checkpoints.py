"""Checkpoints: the state of a run on disk, from which it is resumed after whatever ended it."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modejump.core.errors import InputError, UnsavedWarning
from modejump.runtime.files import CHECKPOINT
from modejump.runtime.snapshots import Reader, Snapshot

EVERY = 10.0
# Checkpoints take at most this share of the time: where one takes long, the next one waits longer.
MOST_SHARE = 0.01


class NoCheckpoint:
    """A run that leaves nothing behind."""

    # What an earlier run left, made of what JSON holds: its algorithm, its phase, its position in the schedule, and
    # the seconds spent. None at the beginning of a run.
    state: Mapping[str, Any] | None = None
    arrays: Snapshot = {}  # snapshots of its chains, and what they know together
    also: Snapshot = {}  # what was settled before the chains began, and belongs to every checkpoint
    _algorithm, _began = "", 0.0

    def begin(self, algorithm: str) -> float:
        """When the run began, by the clock of ``time.perf_counter``, as if an earlier run had ended just now."""
        spent: Any = 0.0
        if self.state is not None:
            spent = self.state.get("spent")
            if self.state.get("algorithm") != algorithm or not isinstance(spent, float) or not 0 <= spent < 1e300:
                raise InputError(f"the checkpoint is not one of {algorithm}; start the run again.")
        self._algorithm, self._began = algorithm, time.perf_counter() - spent
        return self._began

    @property
    def reader(self) -> Reader:
        """The arrays, checked as they are taken."""
        return Reader(self.arrays)

    @property
    def phase(self) -> str | None:
        """How far an earlier run came; None at the beginning."""
        return None if self.state is None else str(self.state.get("phase"))

    def number(self, name: str, low: int, high: int = 1 << 62) -> int:
        """A whole number of the state, from ``low`` up to, but not including, ``high``."""
        value = (self.state or {}).get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value < high:
            raise InputError(f"the checkpoint is damaged: {name} is {value!r}; start the run again.")
        return value

    def number_or_none(self, name: str) -> int | None:
        """A positive number of the state, or None where it has none."""
        return None if (self.state or {}).get(name) is None else self.number(name, 1)

    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return False

    def save(self, state: Mapping[str, Any], arrays: Snapshot) -> None:
        """Write a checkpoint."""

    def close(self) -> None:
        """Wait until what was begun is written."""


class Checkpoint(NoCheckpoint):
    """Checkpoints of one run in a directory.

    A sampler asks ``due()`` between two pieces of work and hands over its state by ``save``; a thread writes it while
    the chains continue. A checkpoint with another fingerprint is refused.
    """

    def __init__(self, directory: str | os.PathLike[str], every: float = EVERY, fingerprint: str = "") -> None:
        self.directory, self.every, self.fingerprint = Path(directory), float(every), fingerprint
        if CHECKPOINT.exists(self.directory):
            about, self.arrays = CHECKPOINT.read(self.directory)
            if about.get("fingerprint") != fingerprint:
                raise InputError(
                    f"the checkpoint in {self.directory} belongs to another run; remove it, or give another directory."
                )
            self.state = about.get("state")
            if not isinstance(self.state, dict):
                raise CHECKPOINT.damaged(self.directory, "it has no state")
        self._writer: threading.Thread | None = None
        self._failure = self._told = ""
        self._asked = self._cost = 0.0
        self._next = time.monotonic() + self.every

    def due(self) -> bool:
        """Whether it is time for a checkpoint: long enough since the last one, which is written."""
        if self._writer is not None:
            if self._writer.is_alive():
                return False
            self._writer = None
            self._next = max(self._next, time.monotonic() + self._cost / MOST_SHARE - self.every)
            if self._failure and self._failure != self._told:
                warnings.warn(
                    f"a checkpoint could not be written: {self._failure}; the run continues, and tries again.",
                    UnsavedWarning,
                    stacklevel=2,
                )
            # Once for each trouble: nobody wants to hear of it every ten seconds.
            self._told, self._failure = self._failure, ""
        now = time.monotonic()
        if now < self._next:
            return False
        self._asked = now
        return True

    def save(self, state: Mapping[str, Any], arrays: Snapshot) -> None:
        """Hand over a state, whose arrays nobody changes any more; a thread writes it."""
        about = {"algorithm": self._algorithm, "spent": time.perf_counter() - self._began} | dict(state)
        self._cost = time.monotonic() - self._asked
        self._next = time.monotonic() + self.every
        self._writer = threading.Thread(target=self._write, args=(about, arrays))
        self._writer.start()

    def close(self) -> None:
        """Wait until what was begun is written."""
        # An interrupt may have come before the thread was started.
        if self._writer is not None and self._writer.ident is not None:
            self._writer.join()

    def _write(self, state: Mapping[str, Any], arrays: Snapshot) -> None:
        began = time.thread_time()
        try:
            CHECKPOINT.write(self.directory, {"fingerprint": self.fingerprint, "state": state}, arrays | self.also)
        except OSError as error:
            self._failure = error.strerror or str(error)
        self._cost += time.thread_time() - began
