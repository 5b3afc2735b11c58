"""The table that is printed, and the file with all figures."""

from __future__ import annotations

import json
import math
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.measure import Line, Note, Series


def figure(value: float) -> str:
    """A number with three digits.

    Examples
    --------
    >>> figure(6_621_000.0), figure(0.00312), figure(21.0), figure(6.1e21)
    ('6.62 M', '0.0031', '21.0', '6.10e+21')
    """
    size = abs(value)
    if not math.isfinite(value) or value == 0.0:
        return f"{value:g}"
    if size >= 1e9 or size < 1e-5:
        return f"{value:.2e}"
    if size >= 1e6:
        return f"{value / 1e6:.3g} M"
    if size >= 1e4:
        return f"{value / 1e3:.3g} k"
    if size >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if size < 10 and size >= 1 else (f"{value:.1f}" if size >= 10 else f"{value:.2g}")


def cell(line: Line, series: Series | None) -> str:
    """The typical figure of a series and, where there are several, the best one."""
    if series is None:
        return "-"
    text = figure(line.typical(series))
    return text if len(series.values) == 1 else f"{text} ({figure(series.best(line.less))})"


def show(console: Console, title: str, outcome: list[Line | Note]) -> None:
    """Print one row of the benchmark."""
    table = Table(title=title, title_justify="left", show_edge=False, pad_edge=False)
    table.add_column("what", overflow="fold")
    table.add_column("unit")
    for name in ("ours", "theirs"):
        table.add_column(name, justify="right")
    table.add_column("who")
    table.add_column("ratio", justify="right")
    lines = [entry for entry in outcome if isinstance(entry, Line)]
    for line in lines:
        ratio = "-" if line.ratio is None else figure(line.ratio)
        table.add_row(line.what, line.unit, cell(line, line.ours), cell(line, line.theirs), line.who or "-", ratio)
    if lines:
        console.print(table)
    else:
        console.print(title)
    for entry in outcome:
        if isinstance(entry, Note):
            console.print(f"  {entry.text}", highlight=False)
    console.print()


def write(path: Path, machine: dict[str, str], rows: list[dict[str, object]]) -> None:
    """Keep everything that was measured as JSON."""
    path.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n", encoding="utf-8")
