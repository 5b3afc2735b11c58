"""Rows 10 and 11: moves between populations of the reversible sampler, and what its time goes to."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from bench.adapters.ours import PhaseClock, run
from bench.measure import Line, Note, Pace, Series, interleave, rate_lines
from bench.table import figure
from modejump.experiments.protocols import EXPERIMENTS, Planets, default_spelling
from modejump.features.expression import Expression
from modejump.kernels.populations.between import MOVED, PROPOSED, ZERO_REVERSE
from modejump.problem.feature_problem import FeatureProblem
from modejump.runtime.context import Context
from modejump.samplers.budget import Budget
from modejump.samplers.chains.mjmcmc_chain import align_batches
from modejump.samplers.chains.reversible_chain import MOVES, ReversibleChain
from modejump.samplers.diagnostics import APART, Diagnostics, diagnose
from modejump.samplers.law_estimates import batch_means
from modejump.samplers.rgmjmcmc import NOTED, compile_run
from modejump.samplers.schedule import FIRST_BATCH
from modejump.samplers.settings import Sampler
from modejump.samplers.warmup.library import Collected, Library, best_first, best_models, build_library
from modejump.samplers.warmup.search import Search

# Experiment and protocol of each case.
CASES = {"(II) script": ("kepler", "script"), "(II) text": ("kepler", "text"), "(I) script": ("mass", "script")}
QUIET = "no moves"
BARE = "literal (Theorem 1), library of covariates only"
# One move of the kind after every population; the mixture has none after many of them.
SETTINGS: Mapping[str, Mapping[str, float]] = {
    QUIET: {"none": 1.0},
    "recall": {"recall": 1.0},
    "edit": {"edit": 1.0},
    "small": {"small": 1.0},
    "coupled": {"coupled": 1.0},
    "delayed (Theorem 2)": {"delayed": 1.0},
    "literal (Theorem 1)": {"literal": 1.0},
    "default mixture": MOVES,
    BARE: {"literal": 1.0},
}
# Only these draw a second population, which may lack the model.
TWO_POPULATIONS = {"literal", "delayed", "small"}
# Inclusion probabilities that are neither nearly 0 nor nearly 1.
UNCERTAIN = (0.03, 0.97)
# Level of the test that a setting has the reference's frequencies, all features and settings of a case together.
LEVEL = 1e-4
MEMORY = 2**26
STARTS = 50
SEARCH_CHAINS = 8
SEED = 7
# Nothing that this benchmark measured: for a note, never for a ratio.
FBMS = (
    "FBMS is not run by this row. Measured elsewhere (FBMS 1.3 in R, GMJMCMC on the observed planets, experiment (II) "
    "script, 40 populations of 250 iterations, 12 seeds, one core): 19.8 s a run and 3 500 model visits/s, that is "
    "about 500 iterations/s and 7 visits an iteration, if there were no iterations but these. It was another run, "
    "perhaps on another machine, and an iteration there is not a step here: no ratio is given."
)


@dataclass(frozen=True)
class Size:
    """How much work the rows on the reversible sampler do."""

    repetitions: int = 3
    chains: int = 4
    seconds: float = 1.0  # CPU time of each chain of a repetition
    search: int = 200  # populations of each chain of the search
    reference: int = 1_000_000  # steps of each chain of the reference
    populations: int = 5000  # populations whose time is taken
    warm_up: int = 50_000  # steps of each chain that do not count


@dataclass(frozen=True, eq=False)
class Setup:
    """What all settings of a case have in common: the frozen library, flip weights, models and a reference."""

    problem: FeatureProblem
    library: Library
    learnt: np.ndarray
    known: Collected  # models that warm-up met; chains begin at, and recall, the best of them
    tracked: tuple[Expression, ...]  # features whose inclusion probability is uncertain
    reference: Diagnostics  # of the tracked features
    best: float  # highest log posterior known


class Crossing(NamedTuple):
    """Chains of one setting: moves between populations, steps, CPU seconds, and how well tracked features mix."""

    tried: np.ndarray
    steps: int
    seconds: float
    found: Diagnostics
    best: float


def case_problem(catalogue: Planets, name: str) -> FeatureProblem:
    """The problem of a case."""
    experiment, protocol = CASES[name]
    return catalogue.problem(EXPERIMENTS[experiment], protocol, default_spelling(experiment, protocol))


def covariates_only(problem: FeatureProblem) -> Library:
    """A library of the covariates, of which nothing is known."""
    features = problem.covariates()
    return Library(tuple(features), np.full(len(features), 0.5))


def started(
    problem: FeatureProblem,
    library: Library,
    moves: Mapping[str, float],
    known: Collected,
    seeds: Sequence[np.random.SeedSequence],
    steps: int | None = None,
) -> list[ReversibleChain]:
    """Chains at models drawn from the best ones, as far as the library has them."""
    inside = set(library.features)
    possible = [model for model in best_models(known, STARTS) if model <= inside] or [frozenset()]
    chains = []
    for seed in seeds:
        start_seed, stream = seed.spawn(2)
        chain = ReversibleChain(problem, *library, stream, Sampler(population_steps=steps, moves=moves), MEMORY)
        chain.begin_at(sorted(possible[int(np.random.default_rng(start_seed).integers(len(possible)))]))
        chain.batch = FIRST_BATCH
        chains.append(chain)
    return chains


def warmed(chains: Sequence[ReversibleChain], learnt: np.ndarray, known: Collected, size: Size) -> None:
    """Steps that do not count, with flip weights and models to recall that stay."""
    for chain in chains:
        inside = set(chain.library)
        chain.learn(learnt)
        chain.recall(best_first({model: value for model, value in known.items() if model <= inside}))
        chain.warm_up(size.warm_up)
        chain.forget_warmup()


def learn(problem: FeatureProblem, seed: np.random.SeedSequence, size: Size) -> tuple[Library, np.ndarray, Collected]:
    """One search, the library of what it and trial chains met, its flip weights, and the models."""
    search, first, second = seed.spawn(3)
    collected: Collected = {}
    seeds = search.spawn(SEARCH_CHAINS)
    for outcome in Search(
        problem, seeds, populations=size.search, seconds=None, memory=MEMORY, context=Context()
    ).run():
        collected |= outcome.collected
    _trial(problem, build_library(problem, collected), collected, first.spawn(size.chains), size)
    library = build_library(problem, collected)
    return library, _trial(problem, library, collected, second.spawn(size.chains), size), collected


def _trial(
    problem: FeatureProblem,
    library: Library,
    collected: Collected,
    seeds: Sequence[np.random.SeedSequence],
    size: Size,
) -> np.ndarray:
    """Run trial chains and note the models they met; returns the library features' shares of their steps."""
    shares = []
    for chain in started(problem, library, MOVES, collected, seeds):
        shares.append(chain.warm_up(size.warm_up))
        chain.close()
        collected |= {model: value for model, (value, _) in chain.fresh_models.items()}
        collected |= chain.best_library_models(NOTED)
    return np.mean(shares, axis=0)


def set_up(problem: FeatureProblem, size: Size) -> Setup:
    """Library and reference of a case; the same in every run, as everything is counted in steps."""
    compile_run(problem, Sampler())
    learning, checking = np.random.SeedSequence(SEED).spawn(2)
    library, learnt, collected = learn(problem, learning, size)
    chains = started(problem, library, MOVES, collected, checking.spawn(size.chains))
    warmed(chains, learnt, collected, size)
    for chain in chains:
        chain.run_batches(max(2, size.reference // FIRST_BATCH))
    all_of_them = diagnosed(chains, library.features)
    low, high = UNCERTAIN
    uncertain = np.flatnonzero((all_of_them.frequency > low) & (all_of_them.frequency < high))
    tracked = tuple(library.features[j] for j in uncertain)
    reference = Diagnostics(*(figures[uncertain] for figures in all_of_them))
    return Setup(problem, library, learnt, collected, tracked, reference, max(collected.values()))


def diagnosed(chains: Sequence[ReversibleChain], features: Sequence[Expression]) -> Diagnostics:
    """Diagnostics of some features, in the library or fresh."""
    align_batches(chains)
    return diagnose(batch_means(chains, {f: j for j, f in enumerate(features)}, len(features)), chains[0].batch)


def cross(setup: Setup, setting: str, size: Size, repetition: int) -> Crossing:
    """Run the chains of a setting, each for its CPU time."""
    library, learnt = setup.library, setup.learnt
    if setting == BARE:
        library = covariates_only(setup.problem)
        learnt = library.importance
    seeds = np.random.SeedSequence([SEED, 1 + repetition]).spawn(size.chains)
    chains = started(setup.problem, library, SETTINGS[setting], setup.known, seeds)
    warmed(chains, learnt, setup.known, size)
    seconds = 0.0
    steps = 0
    for chain in chains:
        begun = time.thread_time()
        while len(chain.means) < 2 or time.thread_time() - begun < size.seconds:
            chain.run_batches(4)
        seconds += time.thread_time() - begun
        steps += chain.batch * len(chain.means)
    found = diagnosed(chains, setup.tracked)
    tried = np.sum([chain.arrays.between.tried for chain in chains], axis=0)
    for chain in chains:
        chain.close()
    return Crossing(tried.sum(axis=0), steps, seconds, found, max(chain.best for chain in chains))


def worst_rate(crossing: Crossing) -> float:
    """Effective draws for each CPU second of the tracked feature that has fewest; one that never moved has none."""
    return float(np.nan_to_num(crossing.found.ess, nan=0.0).min()) / crossing.seconds


def away(setup: Setup, runs: Sequence[Crossing]) -> float | None:
    """Largest distance to the reference where it is more than Monte Carlo error explains, otherwise None."""
    distance = np.abs(np.mean([run.found.frequency for run in runs], axis=0) - setup.reference.frequency)
    variance = np.sum([run.found.mcse**2 for run in runs], axis=0) / len(runs) ** 2 + setup.reference.mcse**2
    quantile = norm.isf(0.5 * LEVEL / (len(setup.tracked) * len(SETTINGS)))
    off = distance > quantile * np.sqrt(variance)
    return float(distance[off].max()) if off.any() else None


def sits_apart(run: Crossing) -> bool:
    """Whether the chains of a run disagree about a tracked feature, or none of them moved it."""
    return bool((~(run.found.r_hat <= APART)).any())


def compare_moves(row: int, size: Size) -> Iterator[Line | Note]:
    """Every setting on every case, in turns."""
    catalogue = Planets.of()
    yield Note(
        row,
        "Effective draws are those of what the chains met: a fresh feature that is rarely drawn and then stays lowers "
        "them only where it came. Compare the lowest repetitions below, too; where they are far lower, the rest say "
        "too much.",
    )
    for name in CASES:
        setup = set_up(case_problem(catalogue, name), size)
        jobs = {setting: partial(cross, setup, setting, size) for setting in SETTINGS}
        found, _ = interleave(jobs, size.repetitions)
        yield from case_lines(row, name, setup, found)


def case_lines(row: int, name: str, setup: Setup, found: Mapping[str, list[Crossing]]) -> Iterator[Line | Note]:
    """Lines and notes of one case, from the runs of each setting."""
    count = len(setup.tracked)
    low, high = UNCERTAIN
    within = f"inclusion probabilities in ({low:g}, {high:g})"
    yield Note(row, f"{name}: a library of {len(setup.library.features)} features, {count} of them with {within}.")
    mixed: dict[str, Series] = {}
    for setting, runs in found.items():
        distance = away(setup, runs) if count else None
        if count and (distance is not None or all(map(sits_apart, runs))):
            yield Note(row, _unmixed(f"{name}, {setting}", distance, setup.best - max(run.best for run in runs)))
        elif count:
            mixed[setting] = Series.of(map(worst_rate, runs))
    for setting, runs in found.items():
        what, other = f"{name}, {setting}", QUIET if setting != QUIET else ""
        if setting in mixed:
            theirs = mixed.get(other)
            yield Line(row, what, "effective draws/CPU s", mixed[setting], theirs, other if theirs else "")
        theirs = Series.of([run.steps / run.seconds for run in found[QUIET]]) if other else None
        yield Line(row, what, "steps/CPU s", Series.of([run.steps / run.seconds for run in runs]), theirs, other)
        if setting == QUIET:
            continue
        shares = np.array([run.tried / max(run.tried[PROPOSED], 1) for run in runs])
        yield Line(row, what, "share changing the model", Series.of(shares[:, MOVED]))
        if TWO_POPULATIONS & set(SETTINGS[setting]):
            yield Line(row, what, "share with zero reverse", Series.of(shares[:, ZERO_REVERSE]), less=True)
    if mixed:
        yield Note(row, _lowest(name, mixed, found))


def _lowest(name: str, mixed: Mapping[str, Series], found: Mapping[str, list[Crossing]]) -> str:
    """The lowest repetition of each setting, and how often its chains sat apart."""
    parts = []
    for setting, series in mixed.items():
        often = sum(map(sits_apart, found[setting]))
        suffix = f" (chains apart in {often} of {len(found[setting])} repetitions)" if often else ""
        parts.append(f"{setting} {figure(series.best(less=True))}{suffix}")
    return f"{name}, effective draws/CPU s of the lowest repetition: {', '.join(parts)}."


def _unmixed(what: str, distance: float | None, below: float) -> str:
    met = "met the best model known" if below < 1e-6 else f"met no model within {below:.3g} of the best log posterior"
    why = "chains disagree about a feature, or never moved it, in every repetition"
    if distance is not None:
        why = (
            f"an inclusion probability is {distance:.2g} away from the reference, more than Monte Carlo error explains"
        )
    return (
        f"{what}: {why}; the chains {met}. They have not mixed, so no effective sample size is given, and the shares "
        "are those of chains on their way."
    )


def population_seconds(
    setup: Setup, settings: tuple[Mapping[str, float], int | None], size: Size, repetition: int
) -> float:
    """CPU seconds of one population with such moves after it and so many steps in it."""
    moves, steps = settings
    seed = np.random.SeedSequence([SEED, 100 + repetition])
    chains = started(setup.problem, setup.library, moves, setup.known, [seed], steps)
    warmed(chains, setup.learnt, setup.known, size)
    (chain,) = chains
    counts = chain.arrays.fresh.scalars
    before = int(counts["populations"])
    begun = time.thread_time()
    chain.advance(size.populations * chain.population_steps)
    return (time.thread_time() - begun) / (int(counts["populations"]) - before)


def fresh_features(setup: Setup, size: Size) -> float:
    """Fresh features that get a place in a population, on average."""
    (chain,) = started(setup.problem, setup.library, SETTINGS[QUIET], setup.known, [np.random.SeedSequence(SEED)])
    warmed([chain], setup.learnt, setup.known, size)
    total = 0
    for _ in range(size.populations):
        chain.advance(int(chain.arrays.fresh.scalars["left"]))
        # Without moves the next population has the model's fresh features and those drawn for it, no others.
        carried = int(chain.arrays.chain.state.member[chain.first :].sum())
        chain.advance(1)
        total += int((chain.arrays.population.feature[chain.first :] >= 0).sum()) - carried
    return total / size.populations


def measure_speed(row: int, size: Size) -> Iterator[Line | Note]:
    """Steps, populations and fresh features per second of the default sampler on (II) script."""
    catalogue = Planets.of()
    setup = set_up(case_problem(catalogue, "(II) script"), size)

    (chain,) = started(setup.problem, setup.library, MOVES, {}, [np.random.SeedSequence(SEED)])
    steps = chain.population_steps

    def sampled(repetition: int) -> Pace:
        clock = PhaseClock()
        budget = Budget(steps=size.populations * steps)
        found = run("rgmjmcmc", setup.problem, progress=clock, chains=1, budget=budget, seed=repetition)
        return Pace(found.steps, clock.sampling)

    paces = interleave({"ours": sampled}, size.repetitions)[0]["ours"]
    yield from rate_lines(row, "(II) script, sampling of rgmjmcmc, one chain", "steps", paces)
    yield Note(row, FBMS)
    kinds = {
        "whole": (MOVES, None),
        "quiet": (SETTINGS[QUIET], None),
        "renewal": (SETTINGS[QUIET], 1),
    }
    jobs = {kind: partial(population_seconds, setup, settings, size) for kind, settings in kinds.items()}
    took = interleave(jobs, size.repetitions)[0]
    rate = np.array([1.0 / seconds for seconds in took["whole"]])
    fresh = fresh_features(setup, size)
    what = f"populations of {steps} steps, default moves between them"
    yield Line(row, what, "populations/CPU s", Series.of(rate))
    yield Line(row, f"fresh features, {fresh:.2f} placed in a population", "features/CPU s", Series.of(fresh * rate))
    whole, quiet, renewal = (float(np.median(took[kind])) for kind in kinds)
    share = {"renewal and one step": renewal, "its other steps": quiet - renewal, "moves": whole - quiet}
    yield Note(
        row,
        f"a population takes {1e6 * whole:.0f} CPU microseconds: "
        + ", ".join(f"{100 * part / whole:.0f} % {name}" for name, part in share.items())
        + f" (differences of three runs). {Sampler.rate:g} fresh features are drawn for it on average; library "
        "features, repeats and void draws get no place.",
    )
