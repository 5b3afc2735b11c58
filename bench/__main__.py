"""``python -m bench [--quick] [--rows 1,3] [--json FILE] [--instructions]``: print the benchmark table."""

from __future__ import annotations

import os

# One core for each program: the threads of linear algebra libraries would blur what is compared.
if __name__ == "__main__":
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(_name, "1")

import argparse
import sys
from pathlib import Path

from rich.console import Console

from bench import table
from bench.adapters.base import Adapter
from bench.adapters.r import RProgram
from bench.measure import Line, Missing, Note, load, machine, now
from bench.problems import gauss
from bench.rows import FULL, QUICK, ROWS, Bench

# Columns where the output is not a terminal.
WIDTH = 130


def read_rows(text: str) -> list[int]:
    """Numbers of rows, from text such as "1,3"."""
    try:
        wanted = [int(part) for part in text.split(",")]
    except ValueError:
        wanted = [0]
    if not set(wanted) <= set(ROWS):
        raise argparse.ArgumentTypeError(f"{text!r} does not name rows; give numbers of {min(ROWS)} to {max(ROWS)}.")
    return wanted


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Print the benchmark table.")
    parser.add_argument("--quick", action="store_true", help="shortened versions of all rows, a minute or two")
    parser.add_argument("--rows", type=read_rows, default=list(ROWS), help="rows to run, such as 1,3")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all figures in this file")
    parser.add_argument("--instructions", action="store_true", help="count instructions in rows 1 and 2 (slow)")
    return parser.parse_args(arguments)


def run_row(bench: Bench, number: int) -> tuple[str, list[Line | Note]]:
    """Title and outcome of one row; what is missing becomes a note."""
    row = ROWS[number]
    title = (row.__doc__ or "").strip()
    outcome: list[Line | Note] = []
    try:
        outcome.extend(row(bench))
    except Missing as reason:
        outcome.append(Note(number, str(reason)))
    return title, outcome


def main(arguments: list[str]) -> int:
    """Run the rows and print them as they finish."""
    options = read_arguments(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    about = machine()
    console.print(
        f"{about['processor']}, {about['cores']} cores, {about['system']}; Python {about['python']}, ", end=""
    )
    console.print(", ".join(f"{name} {about[name]}" for name in ("modejump", "numpy", "numba")), highlight=False)
    others: list[Adapter] = []
    for program in (RProgram("BAS"), RProgram("FBMS", most_steps=5000, slow=True)):
        reason = program.missing()
        if reason is None:
            others.append(program)
        else:
            console.print(reason, highlight=False)
    bench = Bench(QUICK if options.quick else FULL, others, options.instructions)
    if set(options.rows) & set(range(1, 7)):
        took = bench.ours.prepare(gauss(8))
        console.print(f"kernels compiled or loaded in {took.cpu:.1f} CPU s, {took.wall:.1f} s of wall time")
    console.print("Figures are medians (best in brackets); a ratio above 1 means that ours is better.\n")
    kept: list[dict[str, object]] = []
    for number in options.rows:
        before, begun = load(), now()
        title, outcome = run_row(bench, number)
        spent = (now() - begun).wall
        table.show(console, f"{title} (load {before} to {load()}, {spent:.0f} s)", outcome)
        lines = [entry.record() for entry in outcome if isinstance(entry, Line)]
        notes = [entry.text for entry in outcome if isinstance(entry, Note)]
        kept.append({"row": number, "load": [before, load()], "seconds": spent, "lines": lines, "notes": notes})
        if options.json:
            table.write(options.json, about, kept)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
