"""``modejump merge``: stored runs of one problem as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modejump.commands.fit import publish
from modejump.commands.output import check_json, check_plot
from modejump.core.errors import InputError, warn_user
from modejump.estimators.merge import merge
from modejump.estimators.runs import Run
from modejump.estimators.storage import load
from modejump.runtime.directory import RunDirectory


def run_merge(
    runs: Sequence[Path],
    out: Path,
    force: bool,
    quiet: bool,
    json: Path | None = None,
    plot: Path | None = None,
) -> None:
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
    json, plot : path, optional
        Files to write: what is said about the posterior, and its picture.
    """
    check_json(json)
    check_plot(plot)
    if len(runs) < 2:
        raise InputError("merge needs at least two runs; give two directories or more.")
    RunDirectory(out).refuse_overwrite(force)
    merged = merge(*(_read(run) for run in runs))
    Run(out, force=force).store(merged)
    if quiet:
        for note in merged.posterior_.result.notes:
            warn_user(note)
    publish(merged, f"{len(runs)} runs merged", f"The merged run is stored in {out}.", quiet, json, plot)


def _read(run: Path) -> Any:
    """The estimator of a finished run."""
    found = load(run)
    # A run that ended while it was tidied up is finished.
    if RunDirectory(run).unfinished and not found.posterior_.result.finished:
        raise InputError(f"the run in {run} is not finished; finish it with modejump resume {run}, then merge it.")
    return found
