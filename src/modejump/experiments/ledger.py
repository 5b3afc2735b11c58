"""The file of a long experiment: every finished run at once, so that a later call goes on from there."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from modejump.core.errors import InputError

Outcome = dict[str, Any]
Rows = list[dict[str, Any]]
Summarise = Callable[[Mapping[str, Outcome]], Rows]


class Ledger:
    """Outcomes of single runs by key, in memory and, where there is a path, in a JSON file.

    Parameters
    ----------
    path : path or None
        The file; None for none.
    settings : mapping
        What decides the outcome of a run with a given key. A file made under other settings is refused.
    summarise : callable
        Rows of the file from the outcomes so far.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, Any], summarise: Summarise) -> None:
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
                    "another file, or the same settings to go on."
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
        if self.path is None:
            return
        held = {"settings": self.settings, "rows": self._summarise(self.outcomes), "outcomes": self.outcomes}
        # Written beside and moved over, so that the file is whole at any moment.
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        try:
            beside.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
            os.replace(beside, self.path)
        finally:
            beside.unlink(missing_ok=True)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
