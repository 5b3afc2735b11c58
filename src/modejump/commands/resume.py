"""``modejump resume``: go on with a run that was ended."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from modejump.commands.backend import jobs_for, working_on
from modejump.commands.fit import caught_warnings, interrupted, progress_for, resumable, show
from modejump.estimators.runs import resume, title_of, unfinished


def run_resume(
    out: Path, jobs: int | None, backend: str, scheduler: str | None, checkpoint: float | None, quiet: bool
) -> None:
    """Go on, print, and store; InterruptedRun where it was interrupted again, after what there is is shown."""
    title, finished = title_of(out), not unfinished(out)
    with caught_warnings() as caught, resumable(out), working_on(backend, scheduler, jobs):
        # Another kind of workers has its own number of them.
        count = jobs if backend == "threads" else jobs_for(backend, jobs)
        estimator = resume(out, n_jobs=count, every=checkpoint, progress=progress_for(quiet))
    if finished and not quiet:
        Console().print(f"The run in {out} was finished before.", highlight=False)
    show(estimator, caught, title, out, quiet)
    if not estimator.posterior_.result.finished:
        raise interrupted(out)
