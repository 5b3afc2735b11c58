"""``modejump reproduce``: the papers' experiments again, with published figures and ceilings beside ours."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from modejump.commands.files import STANDARD, read_table
from modejump.commands.output import check_plot, write_json
from modejump.commands.render import fitted
from modejump.core.errors import InputError
from modejump.core.progress import reporter
from modejump.experiments import accuracy, classification, effort
from modejump.experiments.ledger import Rows, Study, run_study
from modejump.experiments.logic import KINDS, PROTOCOL, THREADS, logic_design
from modejump.experiments.physics import peers, physics_study
from modejump.experiments.physics_laws import PHYSICS_LAWS
from modejump.experiments.protocols import (
    COLUMNS,
    EXPERIMENTS,
    PROTOCOLS,
    SPELLINGS,
    Planets,
    default_spelling,
    planet_design,
)
from modejump.experiments.reproduce import Design, Trial
from modejump.samplers.settings import Sampler

NAMES = (*EXPERIMENTS, "logic", "physics", "accuracy", "classification")
RUNS = {"physics": 1, "accuracy": 5, "classification": 10}
MOST_RUNS = 100
# Names that a sentence lists.
MOST_NAMES = 12
CLASSIFICATION_SECONDS, PHYSICS_SECONDS = 30.0, 20.0
SECONDS = (0.5, 1.0, 2.0, 5.0)


def run_reproduce(asked: Any) -> None:
    """Repeat an experiment, print its table, and store every run.

    Parameters
    ----------
    asked : namespace
        The options of the command, by name; None or empty where nothing was said.
    """
    known = ", ".join(map(repr, NAMES))
    if asked.experiment not in NAMES:
        raise InputError(f"unknown experiment {asked.experiment!r}; choose one of {known}.")
    if asked.runs is None:
        asked.runs = RUNS.get(asked.experiment, MOST_RUNS)
    if asked.runs < 1:
        raise InputError(f"--runs is {asked.runs}; give at least 1.")
    if asked.seed < 0:
        raise InputError(f"--seed is {asked.seed}; give a whole number of at least 0.")
    if asked.jobs is None:
        asked.jobs = -1 if asked.experiment == "physics" else 1
    if asked.jobs < 1 and asked.jobs != -1:
        raise InputError(f"--jobs is {asked.jobs}; give at least 1, or -1 for all cores.")
    asked.jobs = os.cpu_count() or 1 if asked.jobs == -1 else asked.jobs
    Sampler.resolve(asked.sampler)
    if asked.experiment != "physics":
        _refuse(asked, "laws", "noise", "peers")
    others = {"logic": _logic, "physics": _physics, "accuracy": _accuracy, "classification": _classification}
    others.get(asked.experiment, _planets)(asked)


def _refuse(asked: Any, *names: str) -> None:
    """Refuse options that say nothing about this experiment."""
    for name in names:
        if getattr(asked, name):
            raise InputError(f"--{name} does not go with {asked.experiment}; leave it out.")


def _one_of(option: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        near = get_close_matches(value, known, n=1)
        shown = ", ".join(known[:MOST_NAMES]) + (", ..." if len(known) > MOST_NAMES else "")
        way = f"perhaps you mean {near[0]!r}" if near else f"choose one of {shown}"
        raise InputError(f"unknown --{option} {value!r}; {way}.")
    return value


def _algorithms(asked: Any, known: Sequence[str], default: Sequence[str] | None = None) -> list[str]:
    return list(dict.fromkeys(_one_of("algorithm", a, known) for a in asked.algorithm or default or known))


def _numbers(
    option: str, values: Sequence[str], read: Callable[[str], Any], what: str, zero: bool = False
) -> list[Any]:
    """Positive numbers, or zeros as well, each once, in the order given."""
    made = []
    for text in values:
        try:
            value = read(text)
        except ValueError:
            value = math.nan
        if not (0 < value < math.inf or zero and value == 0):
            raise InputError(f"--{option} has {text!r}; give {what}, separated by commas.")
        made.append(value)
    return list(dict.fromkeys(made))


def _run(study: Study, asked: Any, jobs: int) -> Rows:
    with reporter(not asked.quiet) as report:
        rows = run_study(study, None if asked.json == STANDARD else asked.json, jobs, report)
    if asked.json == STANDARD:
        # Standard output is for one reader.
        asked.quiet = True
        write_json({"settings": study.settings, "rows": rows}, STANDARD)
    return rows


def _table(*columns: str, left: int = 1) -> Table:
    """A table whose first columns are text and whose others are numbers."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i < left else "right", no_wrap=True)
    return table


def _heading(console: Console, title: str, text: str) -> None:
    console.rule(Text(title, style="bold"), style="dim")
    console.print(Padding(Text(text), (1, 1)))


def _several(runs: int) -> str:
    return f"{runs} {'run' if runs == 1 else 'runs'}"


# --- laws of planets, and logic expressions -----------------------------------------------------------------------


def _planets(asked: Any) -> None:
    _refuse(asked, "seconds", "plot", "features")
    design = EXPERIMENTS[asked.experiment]
    protocol = _one_of("protocol", asked.protocol or design.protocol, PROTOCOLS)
    if asked.experiment != "mass":
        _refuse(asked, "spelling")
    spelling = _one_of("spelling", asked.spelling or default_spelling(asked.experiment, protocol), SPELLINGS)
    planets = Planets.of(None if asked.data is None else read_table(asked.data), str(asked.data))
    _repeat(asked, planet_design(design, protocol, spelling, planets), design.threads)


def _logic(asked: Any) -> None:
    _refuse(asked, "seconds", "plot", "spelling", "data")
    _one_of("protocol", asked.protocol or PROTOCOL, [PROTOCOL])
    kinds = dict.fromkeys(_one_of("features", name, list(KINDS)) for name in asked.features or KINDS)
    _repeat(asked, logic_design(list(kinds)), THREADS)


def _repeat(asked: Any, design: Design, threads: Sequence[int]) -> None:
    """Repeat an experiment with the numbers of threads asked for, or those of the published table."""
    budget = asked.budget or "paper"
    effort.Effort.parse(budget, design.paper)
    trial = Trial(
        design,
        budget,
        _algorithms(asked, effort.ALGORITHMS),
        _numbers("threads", asked.threads, int, "whole numbers of at least 1") or list(threads),
        asked.runs,
        asked.seed,
        asked.sampler,
    )
    rows = _run(trial, asked, asked.jobs)
    if not asked.quiet:
        print_rows(rows, trial, Console())


def print_rows(rows: Rows, trial: Trial, console: Console) -> None:
    """Print the table of an experiment, and how often each law was found.

    Parameters
    ----------
    rows : sequence of dict
        Rows of the study.
    trial : Trial
        What was repeated.
    console : Console
        Where to print.
    """
    design, sampler = trial.design, f"sampler {trial.sampler}, " if trial.sampler else ""
    _heading(
        console,
        f"{design.name}: detections above {design.eta:g}",
        f"Protocol {design.protocol}, {design.priors}, budget {trial.budget}, {sampler}seed {trial.seed}; T threads "
        f"make up a run. Published figures stand in parentheses; the ceiling is what {design.perfect} detects.",
    )
    for kind, laws in design.laws.items():
        own = [row for row in rows if row.get("features", "") == kind]
        if len(design.laws) > 1:
            console.print(Padding(Text(f"features: {kind}", style="bold"), (0, 1)))
        ceiling = own[0]["ceiling"]
        console.print(Padding(fitted(_rates_table(own, ceiling), console), (0, 1)))
        if ceiling is None:
            note = "The exact posterior is not known: models of several features hold much of it."
            console.print(Padding(Text(note, style="dim"), (0, 1)))
        console.print(Padding(fitted(_law_table(own, ceiling, laws), console), (1, 0)))


def _rates_table(rows: Rows, ceiling: dict[str, Any] | None) -> Table:
    table = _table("algorithm", "T", "runs", "power", "95 %", "FP", "FDR", "s/run")
    for row in rows:
        there = row["published"] or {}
        power, fp, fdr = (_beside(row[name], there.get(name)) for name in ("power", "fp", "fdr"))
        interval = f"{row['power_low']:.2f}-{row['power_high']:.2f}"
        table.add_row(
            row["algorithm"], str(row["threads"]), str(row["runs"]), power, interval, fp, fdr,
            f"{row['seconds_per_run']:.2f}",
        )  # fmt: skip
    if ceiling is not None:
        power, fp, fdr = (_beside(ceiling[name], None) for name in ("power", "fp", "fdr"))
        table.add_row("ceiling", "", "", power, "", fp, fdr, "", style="dim")
    return table


def _beside(ours: float, theirs: float | None) -> str:
    return f"{ours:.2f}" if theirs is None else f"{ours:.2f} ({theirs:.2f})"


def _law_table(rows: Rows, ceiling: dict[str, Any] | None, laws: Mapping[str, str]) -> Table:
    """Share of the runs that detect each law, and its probability at the ceiling."""
    table = Table(box=SIMPLE_HEAD, show_edge=False)
    table.add_column("share of runs that detect", overflow="fold", ratio=1)
    initial = {"rgmjmcmc": "R", "gmjmcmc": "G"}
    names = [f"{initial[row['algorithm']]} {row['threads']}" for row in rows]
    for name in names + ["ceiling"] * (ceiling is not None):
        table.add_column(name, justify="right", no_wrap=True)
    published = [(row["published"] or {}).get("laws", {}) for row in rows]
    for law, text in laws.items():
        exact = [] if ceiling is None else [f"{ceiling['posterior'][law]:.3f}"]
        shares = (_beside(row["laws"][law], there.get(law)) for row, there in zip(rows, published, strict=True))
        table.add_row(Text(law if law == text else f"{law} {text}"), *shares, *exact)
    return table


# --- textbook laws ------------------------------------------------------------------------------------------------


def _physics(asked: Any) -> None:
    _refuse(asked, "protocol", "spelling", "features", "algorithm", "threads", "budget", "data", "sampler")
    laws = list(dict.fromkeys(_one_of("laws", name, list(PHYSICS_LAWS)) for name in asked.laws or PHYSICS_LAWS))
    seconds = _numbers("seconds", asked.seconds, float, "one positive number") or [PHYSICS_SECONDS]
    if len(seconds) > 1:
        raise InputError(f"--seconds has {len(seconds)} numbers; give one for physics.")
    noises = _numbers("noise", asked.noise, float, "numbers of at least 0", zero=True)
    check_plot(asked.plot)
    others = peers.installed() if asked.peers else ()
    if asked.peers and not others:
        raise InputError("--peers finds neither pyoperon nor gplearn; run: pip install pyoperon gplearn sympy.")
    study = physics_study.PhysicsStudy(
        laws,
        sorted(noises) or physics_study.NOISES,
        (physics_study.OURS, *others),
        asked.runs,
        seconds[0],
        asked.seed,
        asked.jobs,
    )
    # The workers are for the chains of one fit.
    rows = _run(study, asked, jobs=1)
    if asked.plot is not None:
        from modejump.plots.recovery import draw_recovery

        draw_recovery(rows, asked.plot)
    if not asked.quiet:
        print_recovery(rows, study, Console())
        if asked.plot is not None:
            Console().print(f" The plot is in {asked.plot}.", highlight=False)


def print_recovery(rows: Rows, study: physics_study.PhysicsStudy, console: Console) -> None:
    """Print the share of laws recovered in each field, what the verdicts were, and what was found instead of a law.

    Parameters
    ----------
    rows : sequence of dict
        Rows of the study.
    study : PhysicsStudy
        What was run.
    console : Console
        Where to print.
    """
    _heading(
        console,
        "physics: textbook laws recovered",
        f"{len(study.laws)} laws, {_several(study.runs)} of {study.seconds:g} s on {study.workers} "
        f"{'core' if study.workers == 1 else 'cores'} each. Recovered: the best model, its constants and coefficients "
        f"fitted again to rows without noise, leaves less than {physics_study.LEAST:g} of the variance, with no more "
        "terms than the law.",
    )
    console.print(Padding(fitted(_field_table(rows, study), console), (0, 1, 1, 1)))
    ours = [row for row in rows if row["method"] == physics_study.OURS]
    table = _table("search", "noise", "runs", "recovered", "probability of the law", "seconds")
    for search, noise in sorted({(row["search"], row["noise"]) for row in ours}):
        own = [row for row in ours if (row["search"], row["noise"]) == (search, noise)]
        means = [sum(row[key] for row in own) / len(own) for key in ("recovered", "probability", "seconds")]
        table.add_row(search, f"{noise:.0%}", str(len(own)), *(f"{m:.2f}" for m in means[:2]), f"{means[2]:.1f}")
    console.print(Padding(fitted(table, console), (0, 1, 1, 1)))
    missed = [row for row in ours if not row["recovered"]]
    if missed:
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for name, ratio in (("noise", None), ("law", 1), ("found instead", 2)):
            table.add_column(name, overflow="fold", ratio=ratio)
        for row in missed:
            table.add_row(f"{row['noise']:.0%}", Text(row["formula"]), Text(row["found"]))
        console.print(Padding(table, (0, 1, 1, 1)))


def _field_table(rows: Rows, study: physics_study.PhysicsStudy) -> Table:
    """Share of runs that recovered the law, by field, program and noise."""
    groups = [(method, noise) for method in study.methods for noise in study.noises]
    table = _table("field", *(f"{method} {noise:.0%}" for method, noise in groups))
    by_field = physics_study.recovery_rates(rows, "field", "method", "noise")
    overall = physics_study.recovery_rates(rows, "method", "noise")
    for field in dict.fromkeys(row["field"] for row in rows):
        table.add_row(field, *(_share(by_field.get((field, *group))) for group in groups))
    table.add_section()
    table.add_row("all", *(_share(overall.get(group)) for group in groups))
    return table


def _share(rate: tuple[float, int] | None) -> str:
    return "" if rate is None else f"{rate[0]:.0%} of {rate[1]}"


# --- errors against exact posteriors ------------------------------------------------------------------------------


def _accuracy(asked: Any) -> None:
    _refuse(asked, "protocol", "spelling", "features", "threads", "budget", "sampler")
    algorithms = _algorithms(asked, accuracy.ALGORITHMS)
    seconds = _numbers("seconds", asked.seconds, float, "positive numbers") or list(SECONDS)
    check_plot(asked.plot)
    selection, planets = _accuracy_data(asked.data)
    makers: list[tuple[tuple[str, ...], Callable[[], accuracy.Case]]] = [
        (("mjmcmc",), lambda: accuracy.selection_case(selection)),
        (("gmjmcmc", "rgmjmcmc"), accuracy.small_space_case),
        (("gmjmcmc", "rgmjmcmc"), lambda: accuracy.planets_case(planets)),
    ]
    cases = [make() for needs, make in makers if set(needs) & set(algorithms)]
    study = accuracy.Study(cases, algorithms, sorted(seconds), asked.runs, asked.seed)
    rows = _run(study, asked, asked.jobs)
    if asked.plot is not None:
        from modejump.plots.accuracy import draw_accuracy

        draw_accuracy(rows, {case.name: case.title for case in cases}, asked.plot)
    if not asked.quiet:
        _print_accuracy(rows, study, Console())
        if asked.plot is not None:
            Console().print(f" The plot is in {asked.plot}.", highlight=False)


def _accuracy_data(path: Path | None) -> tuple[pd.DataFrame | None, Planets]:
    """The tables of the accuracy study, from a directory or a file; selection among covariates may be simulated."""
    if path is None:
        return None, Planets.of()
    if path.is_dir():
        held = {name: path / f"{name}.csv" for name in ("crime", "exoplanets")}
        found = {name: read_table(file) for name, file in held.items() if file.exists()}
        if not found:
            raise InputError(f"--data {path} holds neither crime.csv nor exoplanets.csv; give one of them.")
        return found.get("crime"), Planets.of(found.get("exoplanets"), str(held["exoplanets"]))
    frame = read_table(path)
    if set(COLUMNS) & set(frame.columns):
        return None, Planets.of(frame, str(path))
    if "y" in frame.columns:
        return frame, Planets.of()
    raise InputError(f"--data {path} has neither a column 'y' nor those of the exoplanets; give one such table.")


def _print_accuracy(rows: Rows, study: accuracy.Study, console: Console) -> None:
    text = (
        f"Largest error of a probability above {accuracy.LEAST:g}, and below it the total variation over these; "
        f"median of {_several(study.runs)}."
    )
    if any(case.name == "selection" for case in study.cases):
        text += " The data of the selection are simulated."
    _heading(console, "accuracy: estimates against exact posteriors", text)
    for case in study.cases:
        console.print(Padding(Text(case.title, style="bold"), (0, 2)))
        table = _table("algorithm", "estimate", *(f"{s:g} s" for s in study.seconds), left=2)
        own = [row for row in rows if row["case"] == case.name]
        for algorithm, kind in dict.fromkeys((row["algorithm"], row["estimate"]) for row in own):
            line = [row for row in own if (row["algorithm"], row["estimate"]) == (algorithm, kind)]
            cells = [Text(f"{row['error']:.2g}").append(f"\n{row['total_variation']:.2g}", "dim") for row in line]
            table.add_row(algorithm, kind, *cells)
        console.print(Padding(fitted(table, console), (0, 1, 1, 1)))


# --- classes beside scikit-learn ----------------------------------------------------------------------------------


def _classification(asked: Any) -> None:
    _refuse(asked, "protocol", "spelling", "features", "threads", "seconds", "plot", "sampler")
    algorithms = _algorithms(asked, classification.ALGORITHMS, ("rgmjmcmc",))
    seconds = effort.Effort.parse(asked.budget, effort.Effort()).seconds if asked.budget else CLASSIFICATION_SECONDS
    if seconds is None:
        raise InputError("classification has no budget of the papers; write --budget seconds=S.")
    if asked.data is None:
        raise InputError("classification needs tables; give --data a directory with asteroids.csv and the like.")
    tables = classification.read_classes(asked.data, read_table)
    study = classification.Comparison(tables, algorithms, asked.runs, seconds, asked.seed, asked.jobs)
    # The workers are for the chains of one fit.
    rows = _run(study, asked, jobs=1)
    if not asked.quiet:
        print_comparison(rows, study, Console())


def print_comparison(rows: Rows, study: classification.Comparison, console: Console) -> None:
    """The table of accuracies."""
    _heading(
        console,
        "classification: accuracy on new rows",
        f"Median of {_several(study.runs)}, with the lowest and the highest; {study.seconds:g} s for each of ours. "
        "Published figures are those of RGMJMCMC.",
    )
    table = _table("table", "method", "accuracy", "from", "to", "published", left=2)
    shown = ""
    for row in rows:
        name = "" if row["table"] == shown else row["table"]
        published = "" if row["published"] is None else f"{row['published']:.4f}"
        numbers = (f"{row[kind]:.4f}" for kind in ("accuracy", "lowest", "highest"))
        table.add_row(name, row["method"], *numbers, published)
        shown = row["table"]
    console.print(Padding(fitted(table, console), (0, 1, 1, 1)))
