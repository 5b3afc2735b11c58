"""Progress of long work: a bar on a terminal, plain lines in a log, or nothing.

May import: errors; Rich only when a bar is drawn.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from modejump.core.errors import InputError, printable
from modejump.core.paths import open_plain

Report = Callable[[float, float, str], None]

# Work shorter than this shows no bar.
PATIENCE = 2.0
# Seconds between two lines where there is no terminal, and before the first one where nobody asked for any.
LINE_EVERY = 10.0
FIRST_LINE = 10.0


class Log:
    """A file that lines are added to, each with the time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, text: str) -> None:
        """Add a line; work goes on where none can be added, on a full disk for instance."""
        moment = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
        with suppress(OSError, InputError):
            descriptor = open_plain(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            with os.fdopen(descriptor, "a", encoding="utf-8") as file:
                file.write(f"{moment} {printable(text)}\n")


@contextmanager
def reporter(progress: Any, stream: TextIO | None = None, log: Log | None = None) -> Iterator[Report | None]:
    """What a sampler calls with (done, total, note) while it works; None where nobody wants to know.

    "auto" draws a bar on a terminal once the work has taken two seconds; True draws it at once. Where there is no
    terminal, both write a line every ten seconds of work, True the first one at once. A callable is called as it is. A
    log gets a line every ten seconds, whatever else is wanted.
    """
    out = sys.stderr if stream is None else stream
    reports: list[Report] = [] if log is None else [_Lines(log.write)]
    bar: _Bar | None = None
    if callable(progress):
        reports.append(progress)
    elif progress is not None and progress != "auto" and not isinstance(progress, bool):
        raise InputError(f"progress must be True, False, 'auto' or a function; got {progress!r}.")
    elif progress and bool(getattr(out, "isatty", lambda: False)()):
        bar = _Bar(out, 0.0 if progress is True else PATIENCE)
        reports.append(bar)
    elif progress:
        after = 0.0 if progress is True else FIRST_LINE
        reports.append(_Lines(lambda text: print(f"modejump: {text}", file=out, flush=True), after))
    try:
        yield _together(reports)
    finally:
        if bar is not None:
            bar.close()


def _together(reports: list[Report]) -> Report | None:
    """One report that makes all of these."""
    if not reports:
        return None

    def report(done: float, total: float, note: str) -> None:
        for part in reports:
            part(done, total, printable(note))

    return report


class _Lines:
    """A line every ten seconds, for logs; with ``after``, only where the work has taken so many seconds."""

    def __init__(self, write: Callable[[str], None], after: float = 0.0) -> None:
        self._write, self._last = write, time.monotonic()
        self._from, self._unasked = self._last + after, after > 0.0
        self._first: tuple[float, float] | None = None
        self._lock = threading.Lock()

    def __call__(self, done: float, total: float, note: str) -> None:
        with self._lock:
            now = time.monotonic()
            if done == 0.0 and self._first is None:
                # Something that takes its time before any work is done.
                if now >= self._from:
                    self._write(note)
                return
            # What an earlier run had done says nothing about the speed of this one.
            began, before = self._first = self._first or (now, done)
            if now - self._last < LINE_EVERY or now < self._from or (self._unasked and done >= total):
                return
            self._last = now
            spent, made = now - began, done - before
            left = spent * (total - done) / made if made > 0 else float("nan")
            share = done / total if total > 0 else 0.0
            self._write(f"{note}, {share:.0%}, {_rate(made, total, spent, ', ')}{_clock(left)} left")


class _Bar:
    """A Rich progress bar that appears only if the work takes long enough to be worth one."""

    def __init__(self, stream: TextIO, patience: float) -> None:
        self._stream = stream
        self._patience = patience
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._bar: Any = None
        self._task: Any = None

    def __call__(self, done: float, total: float, note: str) -> None:
        with self._lock:
            spent = time.monotonic() - self._started
            if self._bar is None:
                if spent < self._patience:
                    return
                self._open(total)
            rate = _rate(done, total, spent)
            self._bar.update(self._task, completed=done, total=total, description=note, rate=rate)

    def _open(self, total: float) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            # Names of columns may hold brackets, which Rich would take for its own.
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}", style="dim"),
            TimeRemainingColumn(),
            TextColumn("left", style="dim"),
            console=Console(file=self._stream),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task("", total=total, rate="")

    def close(self) -> None:
        """Take the bar off the terminal."""
        if self._bar is not None:
            self._bar.stop()


def rate_text(per_second: float) -> str:
    """A rate a person can read.

    Examples
    --------
    >>> rate_text(2_345_678.0)
    '2.3 M/s'
    """
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if per_second >= size:
            return f"{per_second / size:.1f} {unit}/s"
    return f"{per_second:.1f} /s"


def _rate(done: float, total: float, spent: float, behind: str = "") -> str:
    """The rate of work that is counted; work measured as a share of one has none worth telling."""
    return rate_text(done / spent) + behind if total > 1 and spent > 0 else ""


def _clock(seconds: float) -> str:
    if not seconds < 360_000:
        return "?"
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
