"""``modejump fit``: from a table in a file to a posterior on the terminal and in a directory."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from modejump.commands.backend import check_backend, jobs_for, working_on
from modejump.commands.chunked import chunked_source, fit_chunks
from modejump.commands.files import need_columns, read_table, refuse_overwrite
from modejump.commands.priors import parse_coef_prior, parse_model_prior
from modejump.commands.render import print_summary
from modejump.core.errors import InputError, InterruptedRun, ModejumpWarning, UnsavedWarning
from modejump.data.formulas import columns_named
from modejump.data.sources import Source
from modejump.estimators.bglm import BGLMRegressor, Selection
from modejump.estimators.bgnlm import BGNLMRegressor
from modejump.estimators.classifiers import BGLMClassifier, BGNLMClassifier
from modejump.estimators.runs import Run, unfinished
from modejump.likelihoods import FAMILIES
from modejump.runtime.checkpoints import EVERY
from modejump.samplers.budget import Budget


@dataclass(frozen=True)
class FitOptions:
    """What the user asked for."""

    data: Path
    target: str | None
    family: str
    link: str | None
    algorithm: str
    coef_prior: str
    model_prior: str | None
    transforms: tuple[str, ...] | None
    always_in: tuple[str, ...]
    factors: tuple[str, ...]
    drop: tuple[str, ...]
    weights: str | None
    offset: str | None
    formula: str | None
    chains: int | None
    steps: int | None
    seconds: float | None
    mcse: float | None
    jobs: int | None
    backend: str
    scheduler: str | None
    seed: int
    out: Path | None
    checkpoint: float | None
    force: bool
    quiet: bool
    chunked: bool = False


def run_fit(asked: FitOptions) -> None:
    """Fit, print, and store; InterruptedRun where the sampler was interrupted, after what it had is shown."""
    check_backend(asked.backend, asked.scheduler)
    source = _source(asked)
    if source is not None and asked.backend != "threads":
        raise InputError("rows that are read in chunks are worked on by threads of this process; leave --backend out.")
    run = _run(asked, chunks=source is not None)
    estimator = _estimator(asked)
    frame = read_table(asked.data) if source is None else None
    with caught_warnings() as caught:
        if source is not None:
            target = fit_chunks(estimator, source, asked.target, asked.weights)
            if run is not None:
                run.store(estimator)
        else:
            with resumable(asked.out), working_on(asked.backend, asked.scheduler, asked.jobs):
                target = _fit_frame(estimator, frame, asked, run)
    show(estimator, caught, f"{target} in {asked.data.name}", asked.out, asked.quiet)
    if not estimator.posterior_.result.finished:
        raise interrupted(asked.out)


@contextmanager
def caught_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Warnings of a fit, kept until its page is shown; what cannot be saved is told at once, while that helps."""
    show_now = warnings.showwarning
    kept: list[warnings.WarningMessage] = []

    def keep(message: Any, category: Any, *where: Any, **more: Any) -> None:
        if issubclass(category, UnsavedWarning):
            show_now(message, category, *where, **more)
        else:
            kept.append(warnings.WarningMessage(message, category, *where, **more))

    with warnings.catch_warnings():
        warnings.simplefilter("always", ModejumpWarning)
        warnings.showwarning = keep
        yield kept


@contextmanager
def resumable(out: Path | None) -> Iterator[None]:
    """An interrupt that leaves nothing to show says how to go on, where that is possible."""
    try:
        yield
    except KeyboardInterrupt:
        raise interrupted(out) from None


def interrupted(out: Path | None) -> InterruptedRun:
    """What ends a command whose work was interrupted; a run in a directory can go on, but for fits to chunks."""
    more = f"; go on with: modejump resume {out}" if out is not None and unfinished(out) else "."
    return InterruptedRun(f"interrupted before the work was done{more}")


def show(estimator: Any, caught: Iterable[warnings.WarningMessage], title: str, out: Path | None, quiet: bool) -> None:
    """The warnings and the page of a fit, and where it is stored."""
    result = estimator.posterior_.result
    # Verdict and notes stand in the summary; without one they are all the user will hear.
    shown = set() if quiet else {str(estimator.verdict_), *result.notes}
    for warning in caught:
        if str(warning.message) not in shown:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if quiet:
        return
    console = Console()
    print_summary(estimator.page(), console, title)
    if out is not None and result.finished:
        console.print(f"The run is stored in {out}.", highlight=False)
    elif out is not None:
        more = f"; go on with: modejump resume {out}" if unfinished(out) else "."
        console.print(f"What there is is stored in {out}{more}", highlight=False)


def progress_for(quiet: bool) -> Any:
    """A bar on a terminal for work that takes time, a line now and then where there is none."""
    if quiet:
        return False
    return "auto" if sys.stderr.isatty() else True


def _run(asked: FitOptions, chunks: bool) -> Run | None:
    """The directory that the fit works in; one to rows in chunks is stored there at its end."""
    if chunks and asked.checkpoint is not None:
        raise InputError(
            "--checkpoint does not go with rows that are read in chunks, whose fit is stored at its end; leave it out."
        )
    if asked.out is None:
        if asked.checkpoint is not None:
            raise InputError("--checkpoint is about a run that is stored; give --out DIR as well.")
        return None
    refuse_overwrite(asked.out, asked.force)
    return Run(asked.out, EVERY if asked.checkpoint is None else asked.checkpoint, force=asked.force)


def _source(asked: FitOptions) -> Source | None:
    """The table as a source of chunks, where it is large or chunks are asked for."""
    barred = {"formula": asked.formula, "factors": asked.factors, "offset": asked.offset}
    return chunked_source(asked.data, asked.drop, asked=asked.chunked, barred=barred, family=asked.family)


def _searches(asked: FitOptions) -> bool:
    """Whether laws are to be found, and not columns chosen."""
    prior = (asked.model_prior or "").partition("=")[0].strip()
    return asked.transforms is not None or asked.algorithm in ("gmjmcmc", "rgmjmcmc") or prior == "complexity"


def _estimator(asked: FitOptions) -> Any:
    common: dict[str, Any] = {
        "coef_prior": parse_coef_prior(asked.coef_prior),
        "algorithm": asked.algorithm,
        "budget": _budget(asked),
        "n_jobs": jobs_for(asked.backend, asked.jobs),
        "random_state": asked.seed,
        "progress": progress_for(asked.quiet),
    }
    if asked.family not in FAMILIES:
        raise InputError(f"--family {asked.family!r} does not exist; choose one of {', '.join(FAMILIES)}.")
    classes = FAMILIES[asked.family].response == "class"
    if not classes:
        common["family"] = asked.family
    if asked.link is not None:
        common["link"] = asked.link
    if asked.chains is not None:
        common["chains"] = asked.chains
    if asked.model_prior is not None:
        common["model_prior"] = parse_model_prior(asked.model_prior)
    if not _searches(asked):
        return (BGLMClassifier if classes else BGLMRegressor)(always_in=asked.always_in, **common)
    barred = {
        "always-in": asked.always_in,
        "factors": asked.factors,
        "formula": asked.formula,
    }
    for option, value in barred.items():
        if value:
            raise InputError(f"--{option} does not go with a search for laws; leave it out, or leave out --transforms.")
    if asked.transforms is not None:
        common["transforms"] = () if asked.transforms == ("none",) else asked.transforms
    return (BGNLMClassifier if classes else BGNLMRegressor)(**common)


def _budget(asked: FitOptions) -> Budget | None:
    if asked.steps is None and asked.seconds is None and asked.mcse is None:
        return None
    return Budget(steps=asked.steps, seconds=asked.seconds, mcse=asked.mcse)


def _fit_frame(estimator: Any, frame: pd.DataFrame, asked: FitOptions, run: Run | None) -> str:
    """Fit on the table, by columns or by formula; returns the name of the response."""
    need_columns(frame, asked.drop, "--drop")
    need_columns(frame, asked.factors, "--factors")
    for name in asked.factors:
        frame[name] = frame[name].astype("category")
    more: dict[str, Any] = {}
    for word, option, column in (("sample_weight", "--weights", asked.weights), ("offset", "--offset", asked.offset)):
        if column is not None:
            need_columns(frame, [column], option)
            more[word] = frame[column]
    unused = {*asked.drop, *(column for column in (asked.weights, asked.offset) if column is not None)}
    if asked.formula is not None:
        formula = _whole_formula(asked.formula, asked.target)
        target = formula.partition("~")[0].strip().strip("`")
        both = sorted(unused.intersection(columns_named(formula, list(frame.columns))))
        if both:
            raise InputError(
                f"column {both[0]!r} is in the formula and has another role too (--drop, --weights or --offset); give "
                "it one."
            )
        frame = frame.drop(columns=list(unused))
        if run is None:
            estimator.fit_formula(formula, frame, **more)
        else:
            run.about = {"title": f"{target} in {asked.data.name}"}
            run.fit_formula(estimator, formula, frame, **more)
        return target
    if asked.target is None:
        raise InputError("the response is missing; give --target COLUMN (or --formula).")
    need_columns(frame, [asked.target], "--target")
    if asked.target in unused or asked.target in asked.factors:
        raise InputError(f"--target {asked.target!r} has another role too; a response is only that.")
    columns = [name for name in frame.columns if name != asked.target and name not in unused]
    if isinstance(estimator, Selection):
        _refuse_text(frame, columns)
    if run is None:
        estimator.fit(frame[columns], frame[asked.target], **more)
    else:
        run.about = {"title": f"{asked.target} in {asked.data.name}"}
        run.fit(estimator, frame[columns], frame[asked.target], **more)
    return asked.target


def _whole_formula(formula: str, target: str | None) -> str:
    if "~" not in formula:
        if target is None:
            raise InputError("the formula has no left side; write 'y ~ a + b', or give --target.")
        return f"`{target}` ~ {formula}"
    if target is not None and formula.partition("~")[0].strip().strip("`") != target:
        raise InputError(f"--target {target!r} and the left side of --formula differ; give one of them.")
    return formula


def _refuse_text(frame: pd.DataFrame, columns: list[str]) -> None:
    for name in columns:
        column = frame[name]
        if pd.api.types.is_object_dtype(column) or pd.api.types.is_string_dtype(column.dtype):
            raise InputError(
                f"column {name!r} holds text; add --factors {name} to enter it as a factor, or --drop {name}."
            )
