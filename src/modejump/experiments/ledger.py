"""Long experiments: many single runs, kept in a file as they finish, so that a later call continues from there."""

from __future__ import annotations

import hashlib
import json
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.core.progress import Report
from modejump.runtime.files import write_file

Outcome = dict[str, Any]
Rows = list[dict[str, Any]]
# What one run is: names and numbers, the number of the run last; an empty name says nothing, and is left out of keys.
Cell = tuple[str | int | float, ...]


class Study(Protocol):
    """An experiment made of single runs."""

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the outcome of a run, its cell apart."""

    def cells(self) -> list[Cell]:
        """All runs wanted, in order."""

    def prime(self, missing: Sequence[Cell]) -> None:
        """Compile what these runs need, so that no clock counts it and no two threads do it at once."""

    def run(self, cell: Cell) -> Outcome:
        """One run."""

    def rows(self, outcomes: Mapping[str, Outcome]) -> Rows:
        """The table of the experiment from the runs so far."""


def run_study(study: Study, path: Path | None = None, jobs: int = 1, progress: Report | None = None) -> Rows:
    """Run what is not yet in the JSON file, which is written after every run, and return the rows."""
    ledger = Ledger(path, study.settings, study.rows)
    missing = [cell for cell in study.cells() if run_key(*cell) not in ledger.outcomes]
    study.prime(missing)

    def work(cell: Cell) -> Cell:
        ledger.add(run_key(*cell), study.run(cell))
        return cell

    with ThreadPoolExecutor(jobs) as pool:
        try:
            waiting = [pool.submit(work, cell) for cell in missing]
            for done, future in enumerate(as_completed(waiting), 1):
                cell = future.result()
                if progress:
                    progress(done, len(missing), ", ".join(str(part) for part in cell if part != ""))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    ledger.write()
    return study.rows(ledger.outcomes)


def run_key(*parts: str | int | float) -> str:
    """Name of a run in the file."""
    return "/".join(f"{part:g}" if isinstance(part, float) else str(part) for part in parts if part != "")


def finished(outcomes: Mapping[str, Outcome], runs: int, *parts: str | int | float) -> list[Outcome]:
    """Outcomes, so far, of runs that differ in their number alone."""
    keys = (run_key(*parts, i) for i in range(runs))
    return [outcomes[key] for key in keys if key in outcomes]


def run_seed(seed: int, *parts: str | int | float) -> np.random.SeedSequence:
    """The seed of one run, spawned from the user's by what the run is, whatever else is run."""
    texts = [f"{part:g}" if isinstance(part, float) else part for part in parts if part != ""]
    return np.random.SeedSequence(
        seed, spawn_key=tuple(zlib.crc32(part.encode()) if isinstance(part, str) else int(part) for part in texts)
    )


def digest(frame: pd.DataFrame) -> str:
    """A fingerprint of the numbers and names of a table."""
    text = ",".join(map(str, frame.columns)).encode()
    return hashlib.sha256(text + np.ascontiguousarray(frame.to_numpy(np.float64)).tobytes()).hexdigest()[:16]


class Ledger:
    """Outcomes of single runs by key, in memory and, where there is a path, in a JSON file of the same settings."""

    def __init__(
        self, path: Path | None, settings: Mapping[str, Any], summarise: Callable[[Mapping[str, Outcome]], Rows]
    ) -> None:
        self.path = path
        # As the file gives it back: tuples are lists there.
        self.settings = json.loads(json.dumps(settings))
        self.outcomes: dict[str, Outcome] = {}
        self._summarise = summarise
        self._lock = threading.Lock()
        if path is not None:
            self._open(path)

    def _open(self, path: Path) -> None:
        if path.is_dir():
            raise InputError(f"--json {path} is a directory; give a file.")
        if not path.absolute().parent.is_dir():
            raise InputError(f"--json {path} lies in a directory that does not exist; make it first.")
        if not path.exists():
            return
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            settings, outcomes = dict(held["settings"]), dict(held["outcomes"])
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"--json {path} exists and is not a file of this experiment; choose another name or remove it."
            ) from None
        for name in sorted(set(settings) | set(self.settings)):
            was, now = settings.get(name), self.settings.get(name)
            if was != now:
                raise InputError(
                    f"--json {path} holds runs with {name} {_short(was)}, and {_short(now)} is asked for; choose "
                    "another file, or the same settings to continue."
                )
        self.outcomes = outcomes

    def add(self, key: str, outcome: Outcome) -> None:
        """Keep the outcome of a run, and write the file."""
        with self._lock:
            self.outcomes[key] = outcome
            self._write()

    def write(self) -> None:
        """Write the file with the rows so far."""
        with self._lock:
            self._write()

    def _write(self) -> None:
        if self.path is not None:
            held = {"settings": self.settings, "rows": self._summarise(self.outcomes), "outcomes": self.outcomes}
            write_file(self.path, (json.dumps(held, indent=1) + "\n").encode())


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
