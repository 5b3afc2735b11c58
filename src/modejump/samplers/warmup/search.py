"""The search among features: independent chains, each run to its end before the next one of its worker begins.

Some chains evolve single features beside a model, others are chains of populations (GMJMCMC). Neither is always better:
the first find features of many parts, the second models of many terms.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from modejump.core.errors import InputError
from modejump.core.random import fresh_sequence
from modejump.features.expression import Expression
from modejump.problem.feature_problem import FeatureProblem
from modejump.runtime.context import Context
from modejump.runtime.snapshots import Reader, Snapshot, part_of, under
from modejump.samplers.chains.evolution_chain import EvolutionChain
from modejump.samplers.chains.feature_snapshots import collected_arrays, constant_arrays, read_collected, read_constants
from modejump.samplers.chains.genetic_chain import GeneticChain, SearchChain
from modejump.samplers.schedule import brief
from modejump.samplers.warmup.census import can_count, draw_rows, share_census
from modejump.samplers.warmup.library import Collected

STEPS = 300
# Chains that evolve features, before the others, and their share of the search: more where constants are fitted, since
# features of many parts are what they are for.
EVOLUTIONS = 4
EVOLUTION_SHARE, FITTING_SHARE = 0.7, 0.8
PATIENCE = 30
# More rows than this, or than the second where constants are fitted, are searched by a sample of so many.
SEARCH_ROWS, FITTED_ROWS = 3_000, 1_000
# Populations between two looks at the clock, at first; more or fewer where they take much less or more than this.
_ROUND = 10
_ROUND_SECONDS = 0.1
# Seconds between two reports of progress.
_REPORT_EVERY = 0.2


@dataclass(frozen=True, eq=False)
class Finished:
    """What is left of a chain when its arrays are gone."""

    collected: Collected
    constants: dict[Expression, np.ndarray]
    populations: int
    restarts: int
    steps: int
    evaluated: int
    # The highest log posterior of each of its searches.
    bests: np.ndarray

    @classmethod
    def of(cls, chain: SearchChain) -> Finished:
        """What a chain at its end leaves behind."""
        chain.collect()
        return cls(
            chain.collected,
            chain.constants,
            chain.populations,
            chain.restarts,
            chain.steps,
            chain.evaluated,
            chain.bests,
        )

    @property
    def best(self) -> float:
        """The highest log posterior of all."""
        return float(self.bests.max())

    def counts(self) -> np.ndarray:
        """The numbers of a chain that is at its end."""
        return np.array([self.populations, self.restarts, self.steps, self.evaluated], np.int64)

    def snapshot(self) -> Snapshot:
        """All of it as plain arrays."""
        return (
            under("collected", collected_arrays(self.collected))
            | under("constants", constant_arrays(self.constants))
            | {"counts": self.counts(), "bests": self.bests}
        )

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, problem: FeatureProblem) -> Finished:
        """What a snapshot was taken of."""
        reader = Reader(snapshot)
        collected = read_collected(reader.under("collected"), problem.language)
        constants = read_constants(reader.under("constants"), problem.language)
        counts = reader.array("counts", np.int64, (4,), (0, 1 << 62))
        return cls.from_counts(counts, reader.array("bests", np.float64, (None,)), collected, constants)

    @classmethod
    def from_counts(
        cls,
        counts: np.ndarray,
        bests: np.ndarray,
        collected: Collected | None = None,
        constants: dict[Expression, np.ndarray] | None = None,
    ) -> Finished:
        """A chain at its end by its numbers, and its models where somebody still asks for them."""
        populations, restarts, steps, evaluated = counts.tolist()
        return cls(collected or {}, constants or {}, populations, restarts, steps, evaluated, bests)


def kinds_of_chains(problem: FeatureProblem, chains: int, evolutions: int = EVOLUTIONS) -> tuple[int, int]:
    """How many chains of a search evolve features, and how many are chains of populations.

    Where constants are fitted a population takes long, and where there is a census, searches begin with several terms:
    then chains of populations have nothing to add. Where a function of the user's own scores models, they need fewer
    of them.

    Parameters
    ----------
    problem : FeatureProblem
        What to search.
    chains : int
        Chains that there may be.
    evolutions : int
        How many of them evolve features at most.
    """
    few = min(evolutions, chains)
    if problem.family.custom:
        return 0, chains
    return few, 0 if problem.language.fits_constants and can_count(problem) else chains


def in_words(model: Iterable[Expression]) -> str:
    """A model for a line of progress."""
    return " + ".join(f.text for f in sorted(model)) or "the base model"


def search_sample(problem: FeatureProblem, seed: Any) -> FeatureProblem:
    """The problem for a search: a sample of the rows where there are many.

    Parameters
    ----------
    problem : FeatureProblem
        The problem.
    seed : int or SeedSequence
        What the rows are drawn by.
    """
    rows = len(problem.y)
    most = FITTED_ROWS if problem.language.fits_constants else SEARCH_ROWS
    if rows <= most or problem.family.custom:
        return problem
    rng = np.random.default_rng(fresh_sequence(seed).spawn(4)[3])
    try:
        sample = problem.of_rows(draw_rows(rows, most, rng))
    except InputError:
        # Columns or responses that hardly vary may not vary at all in a sample.
        return problem
    share_census(problem, sample)
    return sample


def compile_search(problem: FeatureProblem) -> None:
    """Compile, so that no clock counts it."""
    GeneticChain(problem, np.random.SeedSequence(0), steps=STEPS, patience=PATIENCE).compile()
    EvolutionChain(problem, np.random.SeedSequence(0), memory=1 << 16).compile()


def rounds(chain: SearchChain, populations: int, share: float | None, began: float) -> Iterator[int]:
    """Run a chain to its end; the number of its populations after each round.

    Parameters
    ----------
    chain : SearchChain
        The chain.
    populations : int
        Populations that it makes, where it has no share of a time.
    share : float, optional
        Seconds that it has.
    began : float
        When it began, by the clock that counts them.
    """
    # Against the clock, the first rounds are short: a population may take seconds where each model is fitted.
    done, count = chain.populations, _ROUND if share is None else 1
    while done < populations if share is None else done == 0 or time.perf_counter() - began < share:
        now = time.perf_counter()
        done += count if share is not None else min(count, populations - done)
        chain.run_to(done)
        # A census counts for several.
        done = max(done, chain.populations)
        took = time.perf_counter() - now
        if took < _ROUND_SECONDS / 2 and (share is None or count < _ROUND):
            count *= 2
        elif took > 10 * _ROUND_SECONDS:
            count = max(1, count // 2)
        yield done


def chain_at(
    problem: FeatureProblem, seed: np.random.SeedSequence, options: Mapping[str, int], snapshot: Snapshot | None
) -> tuple[SearchChain, float]:
    """A chain at its beginning or where a snapshot was taken, and the seconds that it has spent.

    One of populations where the options say how many steps each has, otherwise one that evolves features.
    """
    chain = (
        GeneticChain(problem, seed, patience=PATIENCE, **options)
        if "steps" in options
        else EvolutionChain(problem, seed, memory=options["memory"])
    )
    if snapshot is None:
        return chain, 0.0
    chain.restore(part_of(snapshot, "chain"))
    return chain, Reader(snapshot).number("spent")


class Back(NamedTuple):
    """What comes back from a worker elsewhere: where the chain is, or what it left behind at its end."""

    snapshot: Snapshot
    finished: Snapshot | None
    populations: int
    spent: float
    best: float
    words: str


def search_piece(
    problem: FeatureProblem,
    seed: np.random.SeedSequence,
    options: Mapping[str, int],
    snapshot: Snapshot | None,
    populations: int,
    share: float | None,
    seconds: float,
) -> Back:
    """Run one chain on for some seconds, or to its end.

    Parameters
    ----------
    problem : FeatureProblem
        What to search.
    seed : SeedSequence
        The chain's stream.
    options : mapping of str to int
        Steps of a population, and bytes for columns.
    snapshot : mapping of str to ndarray, optional
        Where the chain is, and the seconds that it has spent.
    populations, share : int, float
        Where its end is, see `rounds`.
    seconds : float
        How long this piece may be.
    """
    chain, before = chain_at(problem, seed, options, snapshot)
    begun = time.perf_counter()
    ended, spent = True, before
    for _ in rounds(chain, populations, share, begun - before):
        spent = before + time.perf_counter() - begun
        if spent - before >= seconds:
            ended = False
            break
    best, words = chain.best, in_words(chain.best_model())
    done = chain.populations
    if ended:
        return Back({}, Finished.of(chain).snapshot(), done, spent, best, words)
    return Back(under("chain", chain.snapshot()) | {"spent": np.array(spent)}, None, done, spent, best, words)


class Search:
    """One chain for each seed.

    The chains are independent, so a state to continue from is made of what each of them had at some moment: what the
    finished ones left, and snapshots of those that run.

    Parameters
    ----------
    problem : FeatureProblem
        What to search.
    seeds : sequence of SeedSequence
        One stream for each chain.
    populations : int
        Populations of each chain, where no ``seconds`` are given for all chains together.
    seconds : float, optional
        Wall time.
    memory : int
        Bytes for the columns of the chains that run at the same time.
    context : Context
        Progress, executor and checkpoint; a search that an earlier run left there is resumed.
    steps : int
        MJMCMC steps in a population.
    evolutions : int
        How many of the chains evolve features, the first ones; the others are chains of populations.
    state : mapping, optional
        What checkpoints of the search say besides.
    """

    def __init__(
        self,
        problem: FeatureProblem,
        seeds: Sequence[np.random.SeedSequence],
        *,
        populations: int,
        seconds: float | None,
        memory: int,
        context: Context,
        steps: int = STEPS,
        evolutions: int = 0,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        chains = len(seeds)
        self.problem, self.seeds, self.steps, self.evolutions = problem, seeds, steps, evolutions
        self.executor, self.workers = context.executor, min(context.executor.workers, chains)
        self.memory = memory // self.workers
        self.populations, self.seconds = populations, seconds
        self.progress, self.checkpoint, self.state = context.progress, context.checkpoint, dict(state or {})
        self.finished: dict[int, Finished] = {}
        # Chains that were under way when the state was kept, and for how many seconds.
        self.waiting: dict[int, Snapshot] = {}
        self._active: dict[int, float] = {}
        self._posted: dict[int, Snapshot] = {}
        self._made: dict[int, int] = {}
        self._best: tuple[float, str] = (-np.inf, "")
        self._began = self._told = time.perf_counter()
        self._stopped = False
        self._lock = threading.Lock()
        if self.checkpoint.state is not None:
            self._resume(self.checkpoint.state, self.checkpoint.arrays)

    def run(self) -> list[Finished]:
        """Run all chains; after an interrupt those under way stop soon, and are found in ``finished``."""
        left = [index for index in range(len(self.seeds)) if index not in self.finished]
        if self.executor.remote:
            self._run_far(left)
            return self.outcomes()
        # The main thread only waits, so that an interrupt never finds a chain in the middle of something.
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                list(pool.map(self._one, left))
            except BaseException:
                self._stopped = True
                raise
        return self.outcomes()

    def outcomes(self) -> list[Finished]:
        """What the chains left, in their order."""
        return [self.finished[index] for index in sorted(self.finished)]

    def _one(self, index: int) -> None:
        chain, spent = self._chain(index)
        began = time.perf_counter() - spent
        with self._lock:
            if self._stopped:
                return
            self._active[index] = 0.0
        for done in rounds(chain, *self._end(index), began):
            if self._between_rounds(index, chain, done, began):
                break
        outcome = Finished.of(chain)
        with self._lock:
            del self._active[index]
            self._posted.pop(index, None)
            self.waiting.pop(index, None)
            self.finished[index] = outcome
            if not self._stopped:
                self._report()

    def _chain(self, index: int) -> tuple[SearchChain, float]:
        """A chain where it was, and the seconds that it has spent."""
        return chain_at(self.problem, self.seeds[index], self._options(index), self.waiting.get(index))

    def _options(self, index: int) -> dict[str, int]:
        """What chain this is, see `chain_at`."""
        steps = {} if index < self.evolutions else {"steps": self.steps}
        return {"memory": self.memory, **steps}

    def _end(self, index: int) -> tuple[int, float | None]:
        """Where the end of a chain is: its populations, or seconds."""
        first, chains = self.evolutions, len(self.seeds)
        share = FITTING_SHARE if self.problem.language.fits_constants else EVOLUTION_SHARE
        part = 1.0 if first == chains else share if first else 0.0
        alike, part = (first, part) if index < first else (chains - first, 1.0 - part)
        if self.seconds is not None:
            return self.populations, min(self.seconds * part * self.workers / alike, self.seconds)
        return self.populations, None

    def _done(self, index: int, populations: int, spent: float) -> float:
        """Share of a chain's work that is done."""
        most, share = self._end(index)
        return min(populations / most if share is None else spent / share, 1.0)

    def _run_far(self, left: list[int]) -> None:
        """The same by workers elsewhere: pieces of all chains that are not at their end, until all are."""
        try:
            while left := [index for index in left if index not in self.finished]:
                pieces = [
                    (self.seeds[i], self._options(i), self.waiting.get(i), *self._end(i), self.executor.pace.seconds)
                    for i in left
                ]
                for i, back in self.executor.run(search_piece, pieces):
                    self._take(left[i], back)
                if self.waiting and self.checkpoint.due():
                    self._save()
        except KeyboardInterrupt:
            for index in sorted(self.waiting):
                self.finished[index] = Finished.of(self._chain(index)[0])
            raise

    def _take(self, index: int, back: Back) -> None:
        """What a worker elsewhere made of a chain."""
        self._made[index] = back.populations
        if back.best > self._best[0]:
            self._best = (back.best, back.words)
        if back.finished is None:
            self.waiting[index] = back.snapshot
            self._active[index] = self._done(index, back.populations, back.spent)
        else:
            self.finished[index] = Finished.from_snapshot(back.finished, self.problem)
            self.waiting.pop(index, None)
            self._active.pop(index, None)
        self._report()

    def _between_rounds(self, index: int, chain: SearchChain, done: int, began: float) -> bool:
        """Progress, and a snapshot of this chain where it is time for one; whether it has to stop."""
        spent = time.perf_counter() - began
        if chain.best > self._best[0]:
            self._best = (chain.best, in_words(chain.best_model()))
        with self._lock:
            if self._stopped:
                return True
            self._made[index] = done
            self._active[index] = self._done(index, done, spent)
            if time.perf_counter() - self._told > _REPORT_EVERY and self._active[index] < 1.0:
                self._report()
            if index in self._posted or not self.checkpoint.due():
                return False
        posted = under("chain", chain.snapshot()) | {"spent": np.array(spent)}
        with self._lock:
            self._posted[index] = self.waiting[index] = posted
            if not self._stopped and self._active.keys() <= self._posted.keys():
                self._posted = {}
                self._save()
        return False

    def _report(self) -> None:
        """Progress with the number of chains at their end, the rate, and the best model so far."""
        self._told = time.perf_counter()
        if self.progress is None:
            return
        rate = sum(self._made.values()) / max(self._told - self._began, 1e-9)
        note = f"{len(self.finished)} of {len(self.seeds)} chains, {rate:.0f} populations/s"
        done = len(self.finished) + sum(self._active.values())
        self.progress(done, len(self.seeds), f"{note}, best: {brief(self._best[1])}" if self._best[1] else note)

    def _save(self) -> None:
        """Hand the state of the search to the checkpoint."""
        flat: Snapshot = {}
        for index, outcome in self.finished.items():
            flat |= under(f"finished-{index}", outcome.snapshot())
        for index, snapshot in self.waiting.items():
            flat |= under(f"running-{index}", snapshot)
        state = {"finished": sorted(self.finished), "running": sorted(self.waiting)}
        self.checkpoint.save(self.state | state, flat)

    def _resume(self, state: Mapping[str, Any], arrays: Snapshot) -> None:
        """Continue from a state that ``_save`` wrote."""
        reader = Reader(arrays)
        for name in ("finished", "running"):
            numbers = state.get(name)
            reader.need(isinstance(numbers, list) and all(n in range(len(self.seeds)) for n in numbers), name)
        for index in state["finished"]:
            self.finished[index] = Finished.from_snapshot(part_of(arrays, f"finished-{index}"), self.problem)
        self.waiting = {index: part_of(arrays, f"running-{index}") for index in state["running"]}
