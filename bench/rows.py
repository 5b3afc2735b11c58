"""The rows of the benchmark. Each yields lines (figures) and notes (sentences)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from bench import chunked, genetic, large, logistic, parallel, reversible
from bench.adapters.base import Adapter, Enumerated, Sampled
from bench.adapters.ours import Ours, PhaseClock, frequency, log_null, log_sum, run
from bench.adapters.plain import Plain
from bench.child import ROOT, run_child
from bench.instructions import instructions_per_unit
from bench.measure import Line, Missing, Note, Pace, Series, interleave, now, rate_lines
from bench.problems import Case, crime, gauss, protein, twins
from modejump.kernels.moves import KERNELS
from modejump.samplers.budget import Budget

T = TypeVar("T")
Outcome = Iterator[Line | Note]

# Programs that enumerate the same models agree to rounding; a larger difference means that one of them is wrong.
AGREEMENT = 1e-6
# Kernels that keep the number of terms.
SAME_SIZE = ("swap", "partner")
# Cache of row 6: room for all models of a run, so that the order of first evaluation stays whole.
MOST_MEMORY = 4 * 2**30


@dataclass(frozen=True)
class Scale:
    """How much work the rows do."""

    repetitions: int = 5
    terms: int = 20
    steps: int = 1_000_000
    kernel_steps: int = 200_000
    seconds: tuple[float, ...] = (1.0, 6.0)
    seeds: int = 10
    slow_seeds: int = 3
    first_models: int = 3276
    protein_seconds: float = 30.0
    protein_models: int = 2**20
    fresh: tuple[str, ...] = ("enumerate", "mjmcmc")
    wide: tuple[int, int] = (5000, 10_000)
    populations: int = 1500
    chunk_rows: int = 20_000_000
    reversible: reversible.Size = reversible.Size()
    parallel: parallel.Size = parallel.Size()
    long: int = 1_000_000
    logistic: logistic.Size = logistic.Size()


FULL = Scale()
QUICK = Scale(
    repetitions=3,
    terms=16,
    steps=100_000,
    kernel_steps=20_000,
    seconds=(0.05, 0.2),
    seeds=3,
    slow_seeds=1,
    protein_seconds=2.0,
    protein_models=2**17,
    fresh=("enumerate",),
    wide=(1000, 2000),
    populations=200,
    chunk_rows=500_000,
    reversible=reversible.Size(2, chains=2, seconds=0.1, search=100, reference=100_000, populations=500),
    parallel=parallel.Size(1, 8, 20, 200_000, 50_000, seconds=4.0, every=1.0),
    long=50_000,
    logistic=logistic.Size(1, 1, 1000, 12, 2000),
)


@dataclass
class Bench:
    """What the rows work with: how much work, whom to compare with, and whether to count instructions."""

    scale: Scale = FULL
    others: list[Adapter] = field(default_factory=list)
    instructions: bool = False
    ours: Ours = field(default_factory=Ours)
    plain: Plain = field(default_factory=Plain)

    @property
    def rivals(self) -> dict[str, Adapter]:
        """Everyone else, by name."""
        return {rival.name: rival for rival in (self.plain, *self.others)}

    @property
    def few(self) -> dict[str, int]:
        """Programs that get fewer seeds, and how many."""
        return {name: self.scale.slow_seeds for name, rival in self.rivals.items() if rival.slow}


def _again(work: Callable[[], T]) -> Callable[[int], T]:
    """Work that is the same in every repetition."""
    return lambda repetition: work()


def largest_error(run: Sampled, exact: Enumerated) -> float:
    """Largest error of an inclusion probability."""
    return float(np.abs(run.inclusion - exact.inclusion).max())


def row_enumeration(bench: Bench) -> Outcome:
    """1. All models: n = 223, g-prior with g = n, uniform prior; one thread and two"""
    case = gauss(bench.scale.terms)
    what = f"{case.name}, all 2^{case.terms} models"
    jobs = {
        "modejump": _again(partial(bench.ours.enumerate, case)),
        "two": _again(partial(bench.ours.enumerate, case, workers=2)),
        **{name: _again(partial(rival.enumerate, case)) for name, rival in bench.rivals.items()},
    }
    found, reasons = interleave(jobs, bench.scale.repetitions)
    pace = {name: [Pace(run.models, run.clock) for run in runs] for name, runs in found.items()}
    exact = found["modejump"][0].inclusion
    for name in bench.rivals.keys() & found.keys():
        apart = float(np.abs(found[name][0].inclusion - exact).max())
        if apart > AGREEMENT:
            yield Note(1, f"{name} and modejump disagree by {apart:.2g} in an inclusion probability.")
    for name in bench.rivals:
        if name in found:
            yield from rate_lines(1, f"{what}, one thread", "models", pace["modejump"], pace[name], name)
    yield from rate_lines(1, f"{what}, two threads", "models", pace["two"], pace["modejump"], "one thread")
    yield from (Note(1, reason) for reason in reasons)
    if bench.instructions:
        yield _instructions(1, "enumerate", 14, 18, "one model of an enumeration")


def row_steps(bench: Bench) -> Outcome:
    """2. Steps of a chain, warm-up not counted: default mixture against others, and each kernel alone"""
    case = gauss(bench.scale.terms)
    steps = bench.scale.steps
    # A repetition's number is its seed.
    jobs = {"modejump": partial(bench.ours.sample, case, steps)}
    for name, rival in bench.rivals.items():
        jobs[name] = partial(rival.sample, case, min(steps, rival.most_steps // (20 if rival.slow else 1)))
    for kernel in KERNELS:
        count = bench.scale.kernel_steps // (20 if kernel.startswith("jump") else 1)
        jobs[kernel] = partial(bench.ours.sample, case, count, weights=_mostly(kernel))
    found, reasons = interleave(jobs, bench.scale.repetitions)
    pace = {name: [Pace(run.steps, run.clock) for run in runs] for name, runs in found.items()}
    what = case.name
    for name in bench.rivals:
        if name in found:
            yield from rate_lines(2, f"{what}, default mixture", "steps", pace["modejump"], pace[name], name)
    for kernel in KERNELS:
        name = f"{kernel} alone" if kernel not in SAME_SIZE else f"{kernel} and a tenth of flips"
        yield rate_lines(2, f"{what}, {name}", "steps", pace[kernel])[0]
    distinct = Series.of([run.distinct for run in found["modejump"]]).median
    size = bench.ours.enumerate(case).inclusion.sum()
    yield Note(
        2,
        f"a model has {size:.1f} terms on average; the default mixture evaluated {distinct:.0f} distinct models "
        f"in {steps} steps, warm-up included.",
    )
    yield from (Note(2, reason) for reason in reasons)
    if bench.instructions:
        yield _instructions(2, "sample", 100_000, 300_000, "one step of the default mixture")


def _mostly(kernel: str) -> dict[str, float]:
    """One kernel alone, or with enough flips that the model gets to a size that is typical."""
    return {kernel: 0.9, "flip": 0.1} if kernel in SAME_SIZE else {kernel: 1.0}


def _instructions(row: int, kind: str, small: int, large: int, what: str) -> Line | Note:
    try:
        name, count = instructions_per_unit(kind, small, large)
    except Missing as reason:
        return Note(row, str(reason))
    return Line(row, f"{what}, by {name}", "instructions", Series.of([count]), less=True)


def calibrated(sampler: Adapter, case: Case, seconds: float) -> int:
    """Sampling steps that fit into so many CPU seconds, from trial runs.

    Programs get faster as they meet fewer new models, so the last trial is as long as what it stands for.
    """
    steps = min(20_000, sampler.most_steps // 5)
    for target in (0.1 * seconds, seconds, seconds):
        run = sampler.sample(case, steps, seed=999)
        rate = run.steps / max(run.clock.cpu, 1e-3)
        steps = max(1000, int(rate * target))
    return steps


def row_crime_error(bench: Bench) -> Outcome:
    """3. Crime (g = 47, uniform): largest error of an inclusion frequency after CPU seconds of sampling, one chain"""
    case = crime()
    exact = bench.ours.enumerate(case)
    for seconds in bench.scale.seconds:
        jobs = {}
        for name, sampler in {"modejump": bench.ours, **bench.rivals}.items():
            try:
                jobs[name] = partial(sampler.sample, case, calibrated(sampler, case, seconds))
            except Missing as reason:
                yield Note(3, str(reason))
        found, reasons = interleave(jobs, bench.scale.seeds, bench.few)
        what = f"crime, largest error after {seconds:g} s"
        yield from _error_lines(3, what, found, exact)
        for name, runs in found.items():
            took = Series.of([run.clock.cpu for run in runs]).median
            warmup = Series.of([run.warmup.cpu for run in runs]).median
            yield Note(
                3,
                f"{name} at {seconds:g} s: {runs[0].steps} steps in {took:.2f} CPU s, "
                f"after warm-up of {warmup:.2f} CPU s that is not counted; {len(runs)} seeds.",
            )
        yield from (Note(3, reason) for reason in reasons)


def _error_lines(row: int, what: str, found: dict[str, list[Sampled]], exact: Enumerated) -> Iterator[Line]:
    errors = {name: Series.of([largest_error(run, exact) for run in runs]) for name, runs in found.items()}
    for name, series in errors.items():
        if name != "modejump":
            yield Line(row, what, "error", errors["modejump"], series, name, less=True)


def row_twins(bench: Bench) -> Outcome:
    """4. Two columns correlated 0.995: largest error of an inclusion frequency after a number of steps, one chain"""
    case = twins(bench.scale.terms)
    exact = bench.ours.enumerate(case)
    steps = bench.scale.steps
    samplers = {"modejump": bench.ours, **bench.rivals}
    jobs = {name: partial(s.sample, case, min(steps, s.most_steps)) for name, s in samplers.items()}
    found, reasons = interleave(jobs, bench.scale.seeds, bench.few)
    what = f"{case.name}, largest error after {steps} steps"
    yield from _error_lines(4, what, found, exact)
    for name, runs in found.items():
        took = Series.of([run.clock.cpu for run in runs]).median
        yield Note(4, f"{name}: {runs[0].steps} steps in {took:.2f} CPU s; {len(runs)} seeds.")
    yield from (Note(4, reason) for reason in reasons)


def row_captured(bench: Bench) -> Outcome:
    """5. Crime: posterior mass of the first distinct models evaluated, one chain, mean over seeds"""
    case = crime()
    count = bench.scale.first_models
    log_total = bench.ours.enumerate(case).log_total
    jobs = {
        "modejump": partial(bench.ours.capture, case, count),
        "chain": partial(bench.ours.capture, case, count, warm_up=False),
        **{name: partial(rival.capture, case, count) for name, rival in bench.rivals.items()},
    }
    found, reasons = interleave(jobs, bench.scale.seeds, bench.few)
    mass = {name: Series.of(np.exp(np.array(values) - log_total)) for name, values in found.items()}
    best = Series.of([float(np.exp(bench.ours.best(case, count) - log_total))])
    what = f"crime, mass of the first {count} models"
    for who, other in (("best possible", best), *((name, mass[name]) for name in bench.rivals if name in mass)):
        yield Line(5, what, "mass", mass["modejump"], other, who, centre="mean")
    yield Line(5, f"{what}, without warm-up", "mass", mass["chain"], best, "best possible", centre="mean")
    yield from (Note(5, reason) for reason in reasons)


def row_protein(bench: Bench) -> Outcome:
    """6. Protein (g = 96, uniform): disagreement of two runs, and mass of their models relative to the null model"""
    case = protein()
    seconds, count = bench.scale.protein_seconds, bench.scale.protein_models
    inclusion, first, best = [], [], []
    for seed in (1, 2):
        clock = PhaseClock()
        budget = Budget(seconds=seconds, memory=_room())
        begun = now()
        result = run("mjmcmc", case.problem, progress=clock, chains=1, budget=budget, seed=seed)
        took = now() - begun
        value = result.models.log_posterior - log_null(case.problem)
        inclusion.append(frequency(result))
        first.append(float(np.exp(log_sum(value[result.models.first_seen < count]))))
        best.append(float(np.exp(log_sum(value[:count]))))
        whole = (
            "" if result.forgotten_visits == 0 else " Models were forgotten, so the order of the first ones has gaps."
        )
        yield Note(
            6,
            f"run {seed}: {seconds:g} s of wall time with warm-up; {clock.warmup.cpu:.1f} CPU s of these, "
            f"then {clock.sampling.cpu:.1f} CPU s of sampling, {result.steps} steps, {result.n_models} distinct "
            f"models; {took.wall:.1f} s until the result was there.{whole}",
        )
    ours = Series.of([np.abs(inclusion[0] - inclusion[1]).max()])
    plain = [bench.plain.sample_for(case, seconds, seed) for seed in (1, 2)]
    theirs = Series.of([np.abs(plain[0].inclusion - plain[1].inclusion).max()])
    what = f"protein, largest disagreement after {seconds:g} s"
    yield Line(6, what, "probability", ours, theirs, bench.plain.name, less=True)
    what = f"protein, mass of the {{}} {count} models"
    met = [run.log_bayes_factors for run in plain]
    mass = Series.of([np.exp(log_sum(values[:count])) for values in met])
    yield Line(6, what.format("first"), "times null", Series.of(first), mass, bench.plain.name)
    mass = Series.of([np.exp(log_sum(np.sort(values)[::-1][:count])) for values in met])
    yield Line(6, what.format("best"), "times null", Series.of(best), mass, bench.plain.name)


def _room() -> int:
    """Bytes for a large cache: what the machine can spare, up to a bound."""
    try:
        return min(MOST_MEMORY, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    except (AttributeError, ValueError, OSError):
        return MOST_MEMORY // 4


def row_first_fit(bench: Bench) -> Outcome:
    """7. First fit of a process: seconds to import, compile and load, the fit itself taken off"""
    for algorithm in ("enumerate", "mjmcmc"):
        if algorithm not in bench.scale.fresh:
            yield Note(7, f"the first fits with {algorithm} are left out here: they compile for a while.")
            continue
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            package = Path(folder) / "modejump"
            shutil.copytree(ROOT / "src" / "modejump", package, ignore=shutil.ignore_patterns("__pycache__"))
            env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | {"PYTHONPATH": folder}
            fresh = run_child("first-fit", algorithm, folder, env=env)
            later = [run_child("first-fit", algorithm, folder, env=env) for _ in range(bench.scale.repetitions)]
        for when, figures in (("after a fresh install", [fresh]), ("in a later process", later)):
            what = f"{algorithm}, first fit {when}"
            for clock, unit in (("cpu", "CPU s"), ("wall", "wall s")):
                over = [f[f"import_{clock}"] + f[f"first_{clock}"] - f[f"again_{clock}"] for f in figures]
                yield Line(7, what, unit, Series.of(over), less=True)
        imports = Series.of([f["import_cpu"] for f in later]).median
        yield Note(7, f"{algorithm}: of a later process {imports:.2f} CPU s are imports.")


def row_memory(bench: Bench) -> Outcome:
    """8. Largest memory of a fit"""
    terms, rows = bench.scale.wide
    try:
        import resource  # noqa: F401
    except ImportError:
        yield Note(8, "memory is not measured: this system has no getrusage.")
        return
    figures = run_child("memory", terms, rows)
    what = f"fit with K = {terms}, n = {rows}"
    table = Series.of([figures["table"] / 2**20])
    grown = figures["after"] - figures["before"]
    yield Line(8, f"{what}, all memory", "MiB", Series.of([figures["after"] / 2**20]), table, "X itself", less=True)
    yield Line(8, f"{what}, beyond data and imports", "MiB", Series.of([grown / 2**20]), table, "X itself", less=True)
    yield Note(8, f"the fit took {figures['cpu']:.1f} CPU s, {figures['wall']:.1f} s of wall time.")


def row_populations(bench: Bench) -> Outcome:
    """9. GMJMCMC: populations per second on simulated planets, n = 223"""
    yield from genetic.lines(9, bench.scale.populations, bench.scale.repetitions)


def row_moves(bench: Bench) -> Outcome:
    """10. RGMJMCMC: moves between populations on one frozen library"""
    yield from reversible.compare_moves(10, bench.scale.reversible)


def row_reversible(bench: Bench) -> Outcome:
    """11. RGMJMCMC: steps, populations and fresh features per second"""
    yield from reversible.measure_speed(11, bench.scale.reversible)


def row_parallel(bench: Bench) -> Outcome:
    """12. Chains side by side: two workers against one, and the share of the time that checkpoints take"""
    yield from parallel.lines(12, bench.scale.parallel)


def row_chunks(bench: Bench) -> Outcome:
    """13. Rows in chunks: fits to a Parquet file of 10 covariates, against reading it as often"""
    yield from chunked.lines(13, bench.scale.chunk_rows, min(bench.scale.repetitions, 3))


def row_long(bench: Bench) -> Outcome:
    """14. A long table of yes and no, 20 columns: one fit against a plain compiled loop, and memory"""
    yield from large.lines(14, bench.scale.long, bench.scale.repetitions)


def row_logistic(bench: Bench) -> Outcome:
    """15. Logistic regressions: all models, mass of the first models met, and what the surrogate of fits is worth"""
    yield from logistic.lines(15, bench.scale.logistic)


ROWS: dict[int, Callable[[Bench], Outcome]] = {
    1: row_enumeration,
    2: row_steps,
    3: row_crime_error,
    4: row_twins,
    5: row_captured,
    6: row_protein,
    7: row_first_fit,
    8: row_memory,
    9: row_populations,
    10: row_moves,
    11: row_reversible,
    12: row_parallel,
    13: row_chunks,
    14: row_long,
    15: row_logistic,
}
