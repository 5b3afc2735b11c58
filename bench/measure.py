"""Clocks, repeated measurements, and the lines of the table.

Machines are noisy and shared, so CPU time stands next to wall time, repetitions of the programs that are compared
alternate, and what is printed is a median with the best repetition beside it.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Missing(Exception):
    """A problem, a program or a tool is not there or failed; the message is one sentence for the table."""


class Clock(NamedTuple):
    """Seconds of CPU (all threads of the process, user and system) and of wall time."""

    cpu: float
    wall: float

    def __sub__(self, other: object) -> Clock:
        if not isinstance(other, Clock):
            return NotImplemented
        return Clock(self.cpu - other.cpu, self.wall - other.wall)


class Pace(NamedTuple):
    """Some work, in models or steps, and what it took."""

    work: float
    clock: Clock

    def rate(self, clock: str) -> float:
        """Work for each second of one of the clocks, "cpu" or "wall"."""
        return self.work / getattr(self.clock, clock)


def now() -> Clock:
    """Both clocks, read together."""
    return Clock(time.process_time(), time.perf_counter())


def timed(work: Callable[[], T]) -> tuple[T, Clock]:
    """The outcome of some work and what it took."""
    begun = now()
    outcome = work()
    return outcome, now() - begun


def interleave(
    jobs: Mapping[str, Callable[[int], T]], repetitions: int, at_most: Mapping[str, int] | None = None
) -> tuple[dict[str, list[T]], list[str]]:
    """Each job as often as asked, in turns, so that a slow minute of the machine hits all alike.

    A job that says that something is missing is left out; returns the outcomes by name, and these reasons.

    Parameters
    ----------
    jobs : mapping of name to callable
        Called with the number of the repetition.
    repetitions : int
        Rounds.
    at_most : mapping of name to int, optional
        Jobs that take part in the first rounds only.
    """
    outcomes: dict[str, list[T]] = {name: [] for name in jobs}
    reasons: list[str] = []
    for i in range(repetitions):
        for name, job in jobs.items():
            if name not in outcomes or i >= (at_most or {}).get(name, repetitions):
                continue
            try:
                outcomes[name].append(job(i))
            except Missing as reason:
                del outcomes[name]
                reasons.append(str(reason))
    return outcomes, reasons


@dataclass(frozen=True)
class Series:
    """One figure over repetitions or seeds."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> Series:
        """A series of plain numbers."""
        return cls(tuple(float(v) for v in values))

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    @property
    def mean(self) -> float:
        """The average value."""
        return statistics.fmean(self.values)

    def best(self, less: bool) -> float:
        """The smallest value where less is better, otherwise the largest."""
        return min(self.values) if less else max(self.values)


@dataclass(frozen=True)
class Line:
    """One line of the table: a figure of ours against the same figure of one other program.

    Attributes
    ----------
    row : int
        Row of the benchmark.
    what : str
        What was measured, with everything a reader needs to repeat it.
    unit : str
        Unit of the figures.
    ours : Series
        Our figures.
    theirs : Series, optional
        The other program's figures.
    who : str
        The other program.
    less : bool
        Whether less is better (seconds, errors, bytes) or more (rates, captured mass).
    centre : str
        "median" or "mean": which of the two stands for the series.
    """

    row: int
    what: str
    unit: str
    ours: Series
    theirs: Series | None = None
    who: str = ""
    less: bool = False
    centre: str = "median"

    def typical(self, series: Series) -> float:
        """The figure that stands for a series."""
        return series.mean if self.centre == "mean" else series.median

    @property
    def ratio(self) -> float | None:
        """How many times better ours is, so that above 1 is good in every line; None without a comparison."""
        if self.theirs is None:
            return None
        ours, theirs = self.typical(self.ours), self.typical(self.theirs)
        top, bottom = (theirs, ours) if self.less else (ours, theirs)
        return top / bottom if bottom else float("inf")

    def record(self) -> dict[str, object]:
        """The line as plain values."""
        return {
            "row": self.row,
            "what": self.what,
            "unit": self.unit,
            "less_is_better": self.less,
            "centre": self.centre,
            "ours": list(self.ours.values),
            "who": self.who,
            "theirs": list(self.theirs.values) if self.theirs else None,
            "ratio": self.ratio,
        }


@dataclass(frozen=True)
class Note:
    """A sentence in place of a figure: what was left out, and why; or what a figure counts."""

    row: int
    text: str


def rate_lines(
    row: int, what: str, unit: str, ours: list[Pace], theirs: list[Pace] | None = None, who: str = ""
) -> list[Line]:
    """The same rate by CPU time and by wall time."""
    lines = []
    for clock, per in (("cpu", "CPU s"), ("wall", "wall s")):
        mine = Series.of([p.rate(clock) for p in ours])
        other = Series.of([p.rate(clock) for p in theirs]) if theirs else None
        lines.append(Line(row, what, f"{unit}/{per}", mine, other, who))
    return lines


def load() -> str:
    """The machine's load average over one minute, or "unknown"."""
    try:
        return f"{os.getloadavg()[0]:.2f}"
    except (AttributeError, OSError):
        return "unknown"


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in ("modejump", "numpy", "numba", "llvmlite")},
    }


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"
