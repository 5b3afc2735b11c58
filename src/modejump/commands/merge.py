"""``modejump merge``: stored runs of one problem as one."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from modejump.commands.render import print_summary
from modejump.errors import InputError, ModejumpWarning
from modejump.estimators.merged import merge
from modejump.estimators.stored import load


def run_merge(runs: Sequence[Path], out: Path, force: bool, quiet: bool) -> None:
    """Merge stored runs, store the outcome, and print it.

    Parameters
    ----------
    runs : sequence of path
        Directories of runs.
    out : path
        Directory to write.
    force : bool
        Whether to write into a directory that is not empty.
    quiet : bool
        Whether to print nothing but errors and warnings.
    """
    if len(runs) < 2:
        raise InputError("merge needs at least two runs; give two directories or more.")
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; give a directory.")
    if out.is_dir() and any(out.iterdir()) and not force:
        raise InputError(f"the directory {out} is not empty; choose another, or add --force to write into it.")
    merged = merge(*(load(run) for run in runs))
    merged.save(out)
    if quiet:
        for note in merged.posterior_.result.notes:
            warnings.warn(note, ModejumpWarning, stacklevel=2)
        return
    console = Console()
    print_summary(merged.page(), console, f"{len(runs)} runs merged")
    console.print(f"The merged run is stored in {out}.", highlight=False)
