"""``modejump report``: one page of HTML about a stored run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from modejump.commands.delimited import Reading
from modejump.commands.files import is_plink, need_columns, open_table
from modejump.commands.predict import as_levels, covariates, offset_column
from modejump.core.errors import InputError, warn_user
from modejump.estimators.reports import python_call
from modejump.estimators.storage import load
from modejump.report import write_report
from modejump.runtime.directory import RunDirectory


def run_report(run: Path, out: Path, data: Path | None, title: str | None) -> None:
    """Write the page of a run, with a comparison of its predictions with the rows of a table where one is given."""
    if not run.is_dir():
        raise InputError(f"{run} is not a directory; give one that modejump fit --out wrote.")
    estimator = load(run)
    if not estimator.posterior_.result.finished:
        warn_user(f"the run in {run} was interrupted; the report is about partial results.")
    job = _job(run)
    heading = title if title is not None else str(job.get("title") or "")
    file = write_report(
        estimator,
        out,
        prior=estimator._options.model_prior,
        call=python_call(estimator),
        title=heading,
        command=str(job.get("command") or ""),
        **({} if data is None else _rows(estimator, data)),
    )
    print(f"The report is in {file} ({file.stat().st_size / 1000:.0f} kB); open it in a browser.")


def _job(run: Path) -> dict[str, Any]:
    """What the run was asked for; nothing where a model was saved without a run."""
    try:
        return RunDirectory(run).about()
    except InputError:
        return {}


def _rows(estimator: Any, data: Path) -> dict[str, Any]:
    """Rows of a table, with their responses."""
    if is_plink(data):
        raise InputError(f"{data} holds genotypes; a report compares predictions with the rows of a table.")
    table, target = open_table(data, Reading()), estimator.target_
    with table.located():
        need_columns(list(table.frame.columns), [target], "the response")
        table.refuse_missing([target])
        y, classes = table.frame[target], getattr(estimator, "classes_", None)
        if classes is None:
            table.refuse_text([target], "give numbers")
        else:
            y = as_levels(y, tuple(classes.tolist()))
        return {"X": covariates(estimator, table), "y": y, **offset_column(estimator, table, None)}
