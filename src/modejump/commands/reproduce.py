"""``modejump reproduce``: the papers' experiments again, with published figures and exact ceilings beside ours."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from modejump.commands.classification import run_classification
from modejump.commands.demo import check_plot
from modejump.commands.files import read_table
from modejump.core.errors import InputError
from modejump.core.progress import reporter
from modejump.experiments import accuracy, classification, effort, load_exoplanets
from modejump.experiments.protocols import COLUMNS, EXPERIMENTS, PROTOCOLS, SPELLINGS, Planets, default_spelling
from modejump.experiments.reproduce import Trial, reproduce

NAMES = (*EXPERIMENTS, "accuracy", "classification")
_RESERVED = ("logic",)
RUNS = {"accuracy": 5, "classification": 10}
MOST_RUNS = 100
CLASSIFICATION_SECONDS = 30.0
SECONDS = (0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class ReproduceOptions:
    """What the user asked for; None or empty where nothing was said."""

    experiment: str
    protocol: str | None
    spelling: str | None
    algorithm: tuple[str, ...]
    threads: tuple[str, ...]
    runs: int | None
    budget: str | None
    seconds: tuple[str, ...]
    data: Path | None
    jobs: int
    seed: int
    json: Path | None
    plot: Path | None
    quiet: bool


def run_reproduce(asked: ReproduceOptions) -> None:
    """Repeat an experiment, print its table, and store every run."""
    known = ", ".join(map(repr, NAMES))
    if asked.experiment in _RESERVED:
        raise InputError(f"the experiment {asked.experiment!r} is not part of this version; there are {known}.")
    if asked.experiment not in NAMES:
        raise InputError(f"there is no experiment {asked.experiment!r}; there are {known}.")
    runs = RUNS.get(asked.experiment, MOST_RUNS) if asked.runs is None else asked.runs
    if runs < 1:
        raise InputError(f"--runs is {runs}; give at least 1.")
    if asked.seed < 0:
        raise InputError(f"--seed is {asked.seed}; give a whole number of at least 0.")
    if asked.jobs < 1 and asked.jobs != -1:
        raise InputError(f"--jobs is {asked.jobs}; give at least 1, or -1 for all cores.")
    jobs = os.cpu_count() or 1 if asked.jobs == -1 else asked.jobs
    if asked.experiment == "accuracy":
        _accuracy(asked, runs, jobs)
    elif asked.experiment == "classification":
        _classification(asked, runs, jobs)
    else:
        _planets(asked, runs, jobs)


def _refuse(asked: ReproduceOptions, *names: str) -> None:
    """Refuse options that say nothing about this experiment."""
    for name in names:
        if getattr(asked, name):
            raise InputError(f"--{name} does not go with {asked.experiment}; leave it out.")


def _one_of(option: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise InputError(f"--{option} {value!r} is not known; choose one of {', '.join(known)}.")
    return value


def _numbers(option: str, values: Sequence[str], read: Callable[[str], Any], what: str) -> list[Any]:
    """Positive numbers, each once, in the order given."""
    made = []
    for text in values:
        try:
            value = read(text)
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            raise InputError(f"--{option} has {text!r}; give {what}, separated by commas.")
        made.append(value)
    return list(dict.fromkeys(made))


def _planets(asked: ReproduceOptions, runs: int, jobs: int) -> None:
    _refuse(asked, "seconds", "plot")
    design = EXPERIMENTS[asked.experiment]
    protocol = _one_of("protocol", asked.protocol or design.protocol, PROTOCOLS)
    if asked.experiment != "mass":
        _refuse(asked, "spelling")
    spelling = _one_of("spelling", asked.spelling or default_spelling(asked.experiment, protocol), SPELLINGS)
    algorithms = [_one_of("algorithm", a, effort.ALGORITHMS) for a in asked.algorithm or effort.ALGORITHMS]
    threads = _numbers("threads", asked.threads, int, "whole numbers of at least 1") or list(design.threads)
    budget = asked.budget or "paper"
    effort.Effort.parse(budget, design.distinct)
    frame = load_exoplanets() if asked.data is None else read_table(asked.data)
    planets = Planets.observed(frame, str(asked.data))
    trial = Trial(
        asked.experiment,
        protocol,
        spelling,
        planets,
        budget,
        list(dict.fromkeys(algorithms)),
        threads,
        runs,
        asked.seed,
    )
    with reporter(not asked.quiet) as report:
        rows = reproduce(trial, asked.json, jobs, report)
    if not asked.quiet:
        print_rows(rows, trial, Console())


def print_rows(rows: Sequence[dict[str, Any]], trial: Trial, console: Console) -> None:
    """Print the table of an experiment on planets, and how often each law was found.

    Parameters
    ----------
    rows : sequence of dict
        Rows of :func:`modejump.experiments.reproduce.reproduce`.
    trial : Trial
        What was repeated.
    console : Console
        Where to print.
    """
    console.rule(Text(f"{trial.experiment}: detections above {trial.design.eta:g}", style="bold"), style="dim")
    say = (
        f"Protocol {trial.protocol}, {trial.spelling} prior, budget {trial.budget}, seed {trial.seed}; T threads make "
        "up a run."
    )
    say += " Published figures stand in parentheses; the last row is what the exact posterior detects."
    console.print(Padding(Text(say), (1, 1)))
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("algorithm", no_wrap=True)
    for heading in ("T", "runs", "power", "95 %", "FP", "FDR", "s/run"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        there = row["published"] or {}
        power, fp, fdr = (_beside(row[name], there.get(name)) for name in ("power", "fp", "fdr"))
        interval = f"{row['power_low']:.2f}-{row['power_high']:.2f}"
        table.add_row(
            row["algorithm"], str(row["threads"]), str(row["runs"]), power, interval, fp, fdr,
            f"{row['seconds_per_run']:.2f}",
        )  # fmt: skip
    ceiling = rows[0]["ceiling"]
    if ceiling is not None:
        power, fp, fdr = (_beside(ceiling[name], None) for name in ("power", "fp", "fdr"))
        table.add_row("exact", "", "", power, "", fp, fdr, "", style="dim")
    console.print(Padding(table, (0, 1)))
    if ceiling is None:
        note = "The exact posterior is not known: models of several features hold much of it."
        console.print(Padding(Text(note, style="dim"), (0, 1)))
    console.print(Padding(_law_table(rows, ceiling), (1, 0)))


def _beside(ours: float, theirs: float | None) -> str:
    return f"{ours:.2f}" if theirs is None else f"{ours:.2f} ({theirs:.2f})"


def _law_table(rows: Sequence[dict[str, Any]], ceiling: dict[str, Any] | None) -> Table:
    """Share of the runs that detect each law, and its exact probability."""
    table = Table(box=SIMPLE_HEAD, show_edge=False)
    table.add_column("share of runs that detect", overflow="fold", ratio=1)
    initial = {"rgmjmcmc": "R", "gmjmcmc": "G"}
    for row in rows:
        table.add_column(f"{initial[row['algorithm']]} {row['threads']}", justify="right", no_wrap=True)
    if ceiling is not None:
        table.add_column("exact", justify="right", no_wrap=True)
    for law in rows[0]["laws"]:
        exact = [] if ceiling is None else [f"{ceiling['posterior'][law]:.3f}"]
        table.add_row(Text(law), *(f"{row['laws'][law]:.2f}" for row in rows), *exact)
    return table


def _accuracy(asked: ReproduceOptions, runs: int, jobs: int) -> None:
    _refuse(asked, "protocol", "spelling", "threads", "budget")
    algorithms = [_one_of("algorithm", a, accuracy.ALGORITHMS) for a in asked.algorithm or accuracy.ALGORITHMS]
    seconds = _numbers("seconds", asked.seconds, float, "positive numbers") or list(SECONDS)
    if asked.plot is not None:
        check_plot(asked.plot)
    selection, planets = _accuracy_data(asked.data)
    makers: list[tuple[tuple[str, ...], Callable[[], accuracy.Case]]] = [
        (("mjmcmc",), lambda: accuracy.selection_case(selection)),
        (("gmjmcmc", "rgmjmcmc"), accuracy.small_space_case),
        (("gmjmcmc", "rgmjmcmc"), lambda: accuracy.planets_case(planets)),
    ]
    cases = [make() for needs, make in makers if set(needs) & set(algorithms)]
    study = accuracy.Study(cases, list(dict.fromkeys(algorithms)), sorted(seconds), runs, asked.seed)
    with reporter(not asked.quiet) as report:
        rows = accuracy.study_accuracy(study, asked.json, jobs, report)
    if asked.plot is not None:
        from modejump.plots.accuracy import draw_accuracy

        draw_accuracy(rows, {case.name: case.title for case in cases}, asked.plot)
    if not asked.quiet:
        _print_accuracy(rows, study, Console())
        if asked.plot is not None:
            Console().print(f" The plot is in {asked.plot}.", highlight=False)


def _classification(asked: ReproduceOptions, runs: int, jobs: int) -> None:
    _refuse(asked, "protocol", "spelling", "threads", "seconds", "plot")
    algorithms = [_one_of("algorithm", a, classification.ALGORITHMS) for a in asked.algorithm or ("rgmjmcmc",)]
    seconds = effort.Effort.parse(asked.budget, 0).seconds if asked.budget else CLASSIFICATION_SECONDS
    if seconds is None:
        raise InputError("classification has no budget of the papers; write --budget seconds=S.")
    run_classification(asked.data, algorithms, runs, seconds, asked.seed, jobs, asked.json, asked.quiet)


def _accuracy_data(path: Path | None) -> tuple[pd.DataFrame | None, Planets]:
    """The tables of the accuracy study: from a directory, or the one that a file holds; the other is simulated."""
    if path is None:
        return None, Planets.simulate()
    if path.is_dir():
        held = {name: path / f"{name}.csv" for name in ("crime", "exoplanets")}
        if not any(file.exists() for file in held.values()):
            raise InputError(f"--data {path} holds neither crime.csv nor exoplanets.csv; give one of them.")
        selection = read_table(held["crime"]) if held["crime"].exists() else None
        catalogue = held["exoplanets"]
        if not catalogue.exists():
            return selection, Planets.simulate()
        return selection, Planets.observed(read_table(catalogue), str(catalogue))
    frame = read_table(path)
    if set(COLUMNS) & set(frame.columns):
        return None, Planets.observed(frame, str(path))
    if "y" in frame.columns:
        return frame, Planets.simulate()
    raise InputError(f"--data {path} has neither a column 'y' nor those of the exoplanets; give one such table.")


def _print_accuracy(rows: Sequence[dict[str, Any]], study: accuracy.Study, console: Console) -> None:
    console.rule(Text("accuracy: estimates against exact posteriors", style="bold"), style="dim")
    say = (
        f"Largest error of a probability above {accuracy.LEAST:g}, and below it the total variation over these; "
        f"median of {study.runs} {'run' if study.runs == 1 else 'runs'}."
    )
    if any(case.name in ("selection", "simulated-planets") for case in study.cases):
        say += " Data that were not given with --data are simulated."
    console.print(Padding(Text(say), (1, 1)))
    for case in study.cases:
        console.print(Padding(Text(case.title, style="bold"), (0, 2)))
        table = Table(box=SIMPLE_HEAD, show_edge=False)
        table.add_column("algorithm")
        table.add_column("estimate")
        for s in study.seconds:
            table.add_column(f"{s:g} s", justify="right", no_wrap=True)
        own = [row for row in rows if row["case"] == case.name]
        for algorithm, kind in dict.fromkeys((row["algorithm"], row["estimate"]) for row in own):
            line = [row for row in own if (row["algorithm"], row["estimate"]) == (algorithm, kind)]
            cells = [Text(f"{row['error']:.2g}").append(f"\n{row['total_variation']:.2g}", "dim") for row in line]
            table.add_row(algorithm, kind, *cells)
        console.print(Padding(table, (0, 1, 1, 1)))
