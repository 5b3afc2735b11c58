"""``modejump merge``: stored runs of one problem as one."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from modejump.commands.files import refuse_overwrite
from modejump.commands.render import print_summary
from modejump.core.errors import InputError, ModejumpWarning
from modejump.estimators.merge import merge
from modejump.estimators.runs import OUTCOME, Run, unfinished
from modejump.estimators.storage import load


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
    refuse_overwrite(out, force)
    merged = merge(*(_read(run) for run in runs))
    Run(out, force=force).store(merged)
    if quiet:
        for note in merged.posterior_.result.notes:
            warnings.warn(note, ModejumpWarning, stacklevel=2)
        return
    console = Console()
    print_summary(merged.page(), console, f"{len(runs)} runs merged")
    console.print(f"The merged run is stored in {out}.", highlight=False)


def _read(run: Path) -> Any:
    """The estimator of a run that is finished."""
    going_on = unfinished(run)
    found = load(run) if not going_on or (run / OUTCOME).exists() else None
    # A run that ended while it was tidied up is finished.
    if found is None or (going_on and not found.posterior_.result.finished):
        raise InputError(f"the run in {run} is not finished; end it with modejump resume {run}, and merge it then.")
    return found
