"""``modejump fit`` and ``resume``: from a table in a file to a posterior on the terminal and in a directory."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from modejump.commands.backend import check_backend, jobs_for, working_on
from modejump.commands.delimited import Reading
from modejump.commands.files import STANDARD, TableFile, chunked_source, is_plink, name_of, need_columns, open_table
from modejump.commands.output import check_json, check_plot, draw, posterior_content, write_json
from modejump.commands.priors import parse_coef_prior, parse_model_prior
from modejump.commands.render import print_summary
from modejump.core.errors import InputError, InterruptedRun, ModejumpWarning, UnsavedWarning, warn_user
from modejump.data.formulas import columns_named
from modejump.data.plink import read_plink
from modejump.estimators.bglm import BGLMClassifier, BGLMRegressor
from modejump.estimators.bgnlm import BGNLMClassifier, BGNLMRegressor
from modejump.estimators.logic import LogicClassifier, LogicRegressor, LogicSearch
from modejump.estimators.runs import Run, resume
from modejump.features.logic.space import LogicSpace
from modejump.likelihoods import FAMILIES
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.logic_prior import LogicPrior
from modejump.runtime.checkpoints import EVERY
from modejump.runtime.directory import RunDirectory
from modejump.samplers.budget import Budget

# Options that only logic features have.
_LOGIC_ONLY = ("leaves", "genotypes", "preselect")


def run_fit(asked: Any) -> None:
    """Fit, print, and store; InterruptedRun where the sampler was interrupted, after partial results are shown.

    Parameters
    ----------
    asked : namespace
        The options of the command, by name.
    """
    check_backend(asked.backend, asked.scheduler)
    check_json(asked.json)
    check_plot(asked.plot)
    reading = Reading(asked.sep, asked.decimal, asked.encoding, asked.na, asked.sheet)
    if _family(asked) not in FAMILIES:
        raise InputError(f"unknown --family {asked.family!r}; choose one of {', '.join(FAMILIES)}.")
    _check_logic(asked)
    barred = {"logic": asked.logic, "formula": asked.formula, "factors": asked.factors, "offset": asked.offset}
    source = chunked_source(asked.data, asked.drop, asked.chunked, barred, _family(asked))
    run = _run(asked, chunks=source is not None)
    estimator = _estimator(asked)
    plink = is_plink(asked.data)
    if source is not None or plink:
        reading.refuse(str(asked.data))
    table = open_table(asked.data, reading) if source is None and not plink else None
    target = asked.target or "phenotype" if plink else _target(asked)
    title = f"{target} in {name_of(asked.data)}"
    with caught_warnings() as caught:
        if source is not None:
            if asked.backend != "threads":
                raise InputError("rows that are read in chunks need the threads of this process; leave --backend out.")
            estimator.fit(source, target, asked.weights)
            if run is not None:
                run.store(estimator)
        else:
            with resumable(asked.out), working_on(asked.backend, asked.scheduler, asked.jobs):
                if table is None:
                    _fit(estimator, "fit", _phenotype(asked, target), {}, title, run)
                else:
                    with table.located():
                        _fit_frame(estimator, table, target, asked, title, run)
    show(estimator, caught, title, asked.out, asked.quiet, asked.json, asked.plot)


def run_resume(asked: Any) -> None:
    """Resume, print, and store; InterruptedRun where it was interrupted again, after partial results are shown.

    Parameters
    ----------
    asked : namespace
        The options of the command, by name.
    """
    check_json(asked.json)
    check_plot(asked.plot)
    out, jobs = asked.run, asked.jobs
    directory = RunDirectory(out)
    title, finished = str(directory.about().get("title", out)), not directory.unfinished
    with caught_warnings() as caught, resumable(out), working_on(asked.backend, asked.scheduler, jobs):
        # Another kind of workers has its own number of them.
        count = jobs if asked.backend == "threads" else jobs_for(asked.backend, jobs)
        estimator = resume(out, n_jobs=count, every=asked.checkpoint, progress=progress_for(asked.quiet))
    if finished and not asked.quiet and asked.json != STANDARD:
        Console().print(f"The run in {out} was already finished.", highlight=False)
    show(estimator, caught, title, out, asked.quiet, asked.json, asked.plot)


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
    """Make an interrupt that leaves nothing to show say how to resume, where that is possible."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRun(f"interrupted{_how_to_resume(out)}") from None


def _how_to_resume(out: Path | None) -> str:
    return f"; resume with: modejump resume {out}" if out is not None and RunDirectory(out).unfinished else "."


def show(
    estimator: Any,
    caught: Iterable[warnings.WarningMessage],
    title: str,
    out: Path | None,
    quiet: bool,
    json: Path | None = None,
    plot: Path | None = None,
) -> None:
    """The warnings of a fit, what it found, and where it is stored; InterruptedRun where it is not finished.

    Parameters
    ----------
    estimator : estimator
        A fitted one.
    caught : iterable of warnings
        Those of the fit.
    title : str
        What the fit is about.
    out : path, optional
        Directory of the run.
    quiet : bool
        Whether there is no page.
    json, plot : path, optional
        Files to write.
    """
    result = estimator.posterior_.result
    # Verdict and notes stand in the summary; without one they are all the user will hear.
    shown = set() if quiet else {str(estimator.verdict_), *result.notes}
    for warning in caught:
        if str(warning.message) not in shown:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    what = "The run is stored" if result.finished else "Partial results are"
    publish(estimator, title, "" if out is None else f"{what} in {out}.", quiet, json, plot)
    if not result.finished:
        raise InterruptedRun(f"interrupted{_how_to_resume(out)}")


def publish(estimator: Any, title: str, stored: str, quiet: bool, json: Path | None, plot: Path | None) -> None:
    """Write the JSON and the picture of a posterior, and print its page; JSON on standard output stands there alone.

    Parameters
    ----------
    estimator : estimator
        A fitted one.
    title : str
        What the page is about.
    stored : str
        Where the run is, in words; empty where it is nowhere.
    quiet : bool
        Whether there is no page.
    json, plot : path, optional
        Files to write.
    """
    if json is not None:
        write_json(posterior_content(estimator, title), json)
    if plot is not None:
        draw(estimator, plot)
    if quiet or json == STANDARD:
        return
    console = Console(highlight=False, markup=False)
    print_summary(estimator.page(), console, title)
    for text in (json and f"The JSON is in {json}.", plot and f"The plot is in {plot}.", stored):
        if text:
            console.print(text)


def progress_for(quiet: bool) -> Any:
    """A bar on a terminal for work that takes time, a line now and then where there is none."""
    if quiet:
        return False
    return "auto" if sys.stderr.isatty() else True


def _run(asked: Any, chunks: bool) -> Run | None:
    """The directory that the fit works in; one to rows in chunks is stored there at its end."""
    if asked.checkpoint is not None and (chunks or asked.out is None):
        why = "does not go with rows that are read in chunks; leave it out" if chunks else "needs --out DIR"
        raise InputError(f"--checkpoint {why}.")
    if asked.out is None:
        return None
    run = Run(asked.out, EVERY if asked.checkpoint is None else asked.checkpoint, force=asked.force)
    run.command = shlex.join(["modejump", *asked.context.obj])
    run.directory.refuse_overwrite(asked.force)
    return run


def _check_logic(asked: Any) -> None:
    """Refuse options of logic features without --logic, and options that do not go with it."""
    plink = is_plink(asked.data)
    if not asked.logic:
        given = [f"--{name}" for name in _LOGIC_ONLY if getattr(asked, name) not in (None, False)]
        given += ["--model-prior logic"] if _prior_name(asked) == LogicPrior.name else []
        if given:
            raise InputError(f"{given[0]} goes with --logic; add --logic, or leave it out.")
        if plink:
            raise InputError(f"{asked.data} holds genotypes, which only --logic reads; add --logic.")
        return
    for name in ("transforms", "factors", "formula"):
        if getattr(asked, name) not in (None, ()):
            raise InputError(f"--{name} does not go with --logic; leave one of them out.")
    for name in ("weights", "offset"):
        if plink and getattr(asked, name) is not None:
            raise InputError(f"--{name} names a column of a table, and PLINK's files have none; leave it out.")


def _family(asked: Any) -> str:
    """Family of the response, for questions that all defaults answer alike."""
    return asked.family or "gaussian"


def _prior_name(asked: Any) -> str:
    return (asked.model_prior or "").partition("=")[0].strip()


def _estimator(asked: Any) -> Any:
    searches = asked.algorithm in ("gmjmcmc", "rgmjmcmc") or _prior_name(asked) == ComplexityPrior.name
    classes = FAMILIES[_family(asked)].response == "class"
    options: dict[str, Any] = {
        "algorithm": asked.algorithm,
        "n_jobs": jobs_for(asked.backend, asked.jobs),
        "random_state": asked.seed,
        "progress": progress_for(asked.quiet),
        "link": asked.link,
        "chains": asked.chains,
        "sampler": asked.sampler,
    }
    if (asked.steps, asked.seconds, asked.mcse) != (None, None, None):
        options["budget"] = Budget(steps=asked.steps, seconds=asked.seconds, mcse=asked.mcse)
    if asked.coef_prior is not None:
        options["coef_prior"] = parse_coef_prior(asked.coef_prior)
    if asked.family is not None and not classes:
        options["family"] = asked.family
    if asked.model_prior is not None:
        options["model_prior"] = parse_model_prior(asked.model_prior)
    if asked.logic:
        options |= {"always_in": asked.always_in, "preselect": asked.preselect, "space": LogicSpace(asked.leaves)}
        options |= {"coding": "genotype"} if asked.genotypes or is_plink(asked.data) else {}
        options |= {} if asked.missing is None else {"missing": asked.missing}
        return (LogicClassifier if classes else LogicRegressor)(**options)
    if asked.transforms is None and not searches:
        if asked.missing is not None:
            raise InputError("--missing goes with --logic or a search for laws; add --transforms, or leave it out.")
        return (BGLMClassifier if classes else BGLMRegressor)(always_in=asked.always_in, **options)
    if asked.formula is not None:
        raise InputError("--formula does not go with a search for laws; leave it out, or leave out --transforms.")
    options |= {"always_in": asked.always_in} | ({} if asked.missing is None else {"missing": asked.missing})
    if asked.transforms is not None:
        options["transforms"] = () if asked.transforms == ("none",) else asked.transforms
    return (BGNLMClassifier if classes else BGNLMRegressor)(**options)


def _target(asked: Any) -> str:
    """The name of the response."""
    if asked.formula is not None and "~" in asked.formula:
        left = asked.formula.partition("~")[0].strip().strip("`")
        if asked.target not in (None, left):
            raise InputError(f"--target {asked.target!r} and the left side of --formula differ; give one of them.")
        return str(left)
    if asked.target is None:
        raise InputError("the response is missing; give --target COLUMN.")
    return str(asked.target)


def _fit_frame(estimator: Any, table: TableFile, target: str, asked: Any, title: str, run: Run | None) -> None:
    """Fit on the table, by columns or by formula, in the directory of a run or without one."""
    frame, columns = table.frame, list(table.frame.columns)
    need_columns(columns, asked.drop, "--drop")
    need_columns(columns, asked.factors, "--factors")
    for name in asked.factors:
        frame[name] = frame[name].astype("category")
    more: dict[str, Any] = {}
    for word, option, column in (("sample_weight", "--weights", asked.weights), ("offset", "--offset", asked.offset)):
        if column is not None:
            need_columns(columns, [column], option)
            table.refuse_text([column], "give numbers")
            table.refuse_missing([column])
            more[word] = frame[column]
    unused = {*asked.drop, *(column for column in (asked.weights, asked.offset) if column is not None)}
    data: tuple[Any, ...]
    if asked.formula is not None:
        formula = asked.formula if "~" in asked.formula else f"`{target}` ~ {asked.formula}"
        named = [name for name in columns_named(formula, columns) if name in columns]
        both = sorted(unused.intersection(named))
        if both:
            raise InputError(
                f"column {both[0]!r} is in the formula and has another role too (--drop, --weights or --offset); give "
                "it one."
            )
        table.refuse_stray_text([name for name in named if name != target or not hasattr(estimator, "predict_proba")])
        table.refuse_missing(named)
        fit, data = "fit_formula", (formula, frame.drop(columns=list(unused)))
    else:
        fit, data = "fit", _columns(estimator, table, target, unused, asked)
    _fit(estimator, fit, data, more, title, run)


def _fit(estimator: Any, fit: str, data: tuple[Any, ...], more: dict[str, Any], title: str, run: Run | None) -> None:
    """Fit in the directory of a run, or without one."""
    if run is None:
        # One posterior for each of several classes has no page, so that they are refused here as a run does.
        read = estimator._read if fit == "fit" else estimator._read_formula
        estimator._fit_here(*read(*data, **more))
    else:
        run.title = title
        getattr(run, fit)(estimator, *data, **more)


def _phenotype(asked: Any, target: str) -> tuple[Any, pd.Series]:
    """Genotypes of PLINK's files and the phenotypes in them; individuals without one are left out."""
    every = read_plink(asked.data)
    need_columns(every.names, asked.drop, "--drop")
    kept = [name for name in every.names if name not in set(asked.drop)]
    genotypes = read_plink(asked.data, kept, drop_missing=True)
    if genotypes.rows < every.rows:
        left_out = every.rows - genotypes.rows
        warn_user(f"{left_out} of {every.rows} individuals have no phenotype and are left out.")
    y = pd.Series(genotypes.phenotype, name=target)
    # Classes are called as the file calls them: 1 and 2.
    whole = FAMILIES[_family(asked)].response == "class" and (y == y.round()).all()
    return genotypes, y.astype(int) if whole else y


def _columns(
    estimator: Any, table: TableFile, target: str, unused: set[str], asked: Any
) -> tuple[pd.DataFrame, pd.Series]:
    """Covariates and response."""
    columns = list(table.frame.columns)
    need_columns(columns, [target], "--target")
    if target in unused or target in asked.factors:
        raise InputError(f"--target {target!r} has another role too; a response has only one.")
    names = [name for name in columns if name != target and name not in unused]
    if not hasattr(estimator, "predict_proba"):
        table.refuse_text([target], "give numbers, or use a classifier (--family binomial)")
    table.refuse_missing([target])
    if not isinstance(estimator, LogicSearch):
        table.refuse_text(names)
    if asked.missing in (None, "refuse"):
        instead = ", or add --missing median" if hasattr(estimator, "law_table") else ""
        table.refuse_missing(names, f", or the column (--drop){instead}")
    return table.frame[names], table.frame[target]
