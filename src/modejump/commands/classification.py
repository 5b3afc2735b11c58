"""``modejump reproduce classification``: accuracy on new rows, beside scikit-learn's classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from modejump.commands.files import read_table
from modejump.core.errors import InputError
from modejump.core.progress import reporter
from modejump.experiments import classification


def run_classification(
    data: Path | None,
    algorithms: Sequence[str],
    runs: int,
    seconds: float,
    seed: int,
    jobs: int,
    json: Path | None,
    quiet: bool,
) -> None:
    """Compare, print the table, and store every run."""
    if data is None:
        raise InputError("classification needs tables: give --data a directory with asteroids.csv and the like.")
    tables = classification.read_classes(data, read_table)
    study = classification.Comparison(tables, list(dict.fromkeys(algorithms)), runs, seconds, seed, jobs)
    with reporter(not quiet) as report:
        rows = classification.compare(study, json, report)
    if not quiet:
        print_comparison(rows, study, Console())


def print_comparison(rows: Sequence[dict[str, Any]], study: classification.Comparison, console: Console) -> None:
    """The table of accuracies."""
    console.rule(Text("classification: accuracy on new rows", style="bold"), style="dim")
    say = (
        f"Median of {study.runs} {'run' if study.runs == 1 else 'runs'}, with the lowest and the highest; "
        f"{study.seconds:g} s for each of ours. Published figures are those of RGMJMCMC."
    )
    console.print(Padding(Text(say), (1, 1)))
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("table", no_wrap=True)
    table.add_column("method", no_wrap=True)
    for name in ("accuracy", "from", "to", "published"):
        table.add_column(name, justify="right", no_wrap=True)
    shown = ""
    for row in rows:
        published = "" if row["published"] is None else f"{row['published']:.4f}"
        table.add_row(
            "" if row["table"] == shown else row["table"],
            row["method"],
            f"{row['accuracy']:.4f}",
            f"{row['lowest']:.4f}",
            f"{row['highest']:.4f}",
            published,
        )
        shown = row["table"]
    console.print(Padding(table, (0, 1, 1, 1)))
