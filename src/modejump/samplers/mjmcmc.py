"""MJMCMC: adaptive warm-up, then frozen sampling on independent chains."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.core.random import fresh_sequence
from modejump.kernels.moves import KERNELS, Moves
from modejump.kernels.store import ModelStore
from modejump.problem.problem import Problem
from modejump.runtime.checkpoints import NoCheckpoint, Saved, resumed_seconds, resumed_target, whole_number
from modejump.runtime.executors import Crew
from modejump.runtime.snapshots import Reader, Snapshot, part_of, read_store, store_arrays, under
from modejump.samplers.budget import Budget
from modejump.samplers.chains.mjmcmc_chain import MOST_CAPACITY, Runner, align_batches
from modejump.samplers.merge import merged_stores, renormalised_inclusion
from modejump.samplers.mixture import Mixture
from modejump.samplers.result import SamplerResult
from modejump.samplers.schedule import FIRST_BATCH, Progress, Schedule, timed_pieces
from modejump.samplers.warmup.best_first import Scouting, prime_scout
from modejump.samplers.warmup.surrogate import adopt_surrogate, evaluated, worth_it

# Warm-up learns the flip weights in so many rounds.
WARMUP_ROUNDS = 8
# Share of a budget in seconds that goes to warm-up.
WARMUP_SHARE = 0.2
# What warm-up learns about the moves.
_LEARNT = ("cumulative", "threshold", "alias", "surrogate")
# Name of the scout that is under way in a checkpoint.
_SCOUT = "scout"


def mjmcmc(
    problem: Problem,
    *,
    chains: int = 4,
    budget: Budget | None = None,
    workers: int = 1,
    seed: int | np.random.SeedSequence = 0,
    mixture: Mixture | None = None,
    progress: Progress | None = None,
    checkpoint: NoCheckpoint | None = None,
    crew: Crew | None = None,
) -> SamplerResult:
    """Sample models by mode jumping MCMC.

    Parameters
    ----------
    problem : Problem
        The target.
    chains : int
        Independent chains.
    budget : Budget, optional
        How long to run.
    workers : int
        Threads. Budgets by size or precision give the same result for any number. Where there are more than chains,
        those to spare share the rows of long tables.
    seed : int or SeedSequence
        Each chain gets its own stream spawned from it.
    mixture : Mixture, optional
        Kernel weights and settings.
    progress : callable, optional
        Called with (done, total, note).
    checkpoint : Checkpoint, optional
        Keeps the state of the run, and goes on from what it finds.
    crew : Crew, optional
        Who works on the chains, instead of threads.
    """
    if problem.n_terms < 1:
        raise InputError("there is no term to select; give at least one candidate column.")
    if chains < 1:
        raise InputError(f"chains is {chains}; give at least 1.")
    if workers < 1:
        raise InputError(f"workers is {workers}; give at least 1.")
    budget = budget or Budget()
    root = fresh_sequence(seed)
    memory = budget.memory // (2 * chains)
    crew = crew or Crew(workers)
    runners = [Runner(problem, s, memory, FIRST_BATCH, crew.threads(chains)) for s in root.spawn(chains)]
    driver = _Driver(problem, runners, budget, mixture or Mixture(), crew, progress, checkpoint or NoCheckpoint())
    return driver.run()


def prime_runner(problem: Problem, moves: Moves) -> None:
    """Compile, or load from the cache, what a chain needs."""
    Runner(problem, np.random.SeedSequence(0), 0, FIRST_BATCH).prime(moves)


class _Driver:
    """Runs all chains through warm-up and sampling."""

    def __init__(
        self,
        problem: Problem,
        runners: list[Runner],
        budget: Budget,
        mixture: Mixture,
        crew: Crew,
        progress: Progress | None,
        checkpoint: NoCheckpoint,
    ) -> None:
        self.checkpoint = checkpoint
        self.problem = problem
        self.runners = runners
        self.budget = budget
        self.mixture = mixture
        self.crew = crew
        self.progress = progress
        self.notes: list[str] = []
        self.finished = True
        self.warmup_steps = 0
        self.fits = 0.0
        self.scouting: Scouting | None = None
        # What the scout of an earlier run had met.
        self.resumed: ModelStore | None = None

    def run(self) -> SamplerResult:
        begun = warmed = 0.0
        try:
            moves = self.mixture.compile(self.problem)
            prime_runner(self.problem, moves)
            prime_scout(self.problem)
            self.crew.begin(self.problem)
            self.crew.prime(prime_runner, moves)
            begun = warmed = time.perf_counter() - resumed_seconds(self.checkpoint.saved, "mjmcmc")
            moves, warmed = self._warm_up(moves, begun)
            self._sample(moves, begun, warmed)
        except KeyboardInterrupt:
            self.finished = False
        finally:
            self.crew.close()
            self.checkpoint.close()
        align_batches(self.runners)
        if not all(r.means for r in self.runners):
            raise KeyboardInterrupt
        ended = time.perf_counter()
        return self._result(warmed - begun, ended - warmed)

    def _warm_up(self, moves: Moves, begun: float) -> tuple[Moves, float]:
        """Scout, then learn the flip weights from all chains together, round by round, and freeze them."""
        saved = self.checkpoint.saved
        if saved is not None and saved.state.get("phase") != _SCOUT:
            moves, learnt, done = self._resume(moves, saved, begun)
            if done is None:
                return moves, begun + Reader(saved.arrays).number("warmed")
        elif self.budget.warmup == 0:
            return self._judged(moves, None), time.perf_counter()
        else:
            scouted = self._scout(begun, saved)
            moves = self._judged(moves, None)
            # The scout's estimate counts as one round.
            learnt, done = renormalised_inclusion(scouted, self.problem.n_terms, self.crew.hands), 0
        self._scout_first(partial(self._keep_round, moves, begun, done, learnt))
        seconds = self.budget.seconds
        per_round = max(1, self.budget.warmup_steps() // WARMUP_ROUNDS)
        for i in range(done, WARMUP_ROUNDS):
            moves = self._adapted(moves, learnt)
            before = evaluated(self.runners)
            if seconds is not None:
                until = begun + seconds * WARMUP_SHARE * (i + 1) / WARMUP_ROUNDS
                shares, steps = timed_pieces(partial(self._warm, moves), until, self.crew.pace.short)
            else:
                shares, steps = self._warm(moves, per_round), per_round
            self.warmup_steps += steps * len(self.runners)
            self.fits = (evaluated(self.runners) - before) / max(1, steps * len(self.runners))
            # Later rounds are nearer to the target: each counts as much as all before it.
            learnt = 0.5 * learnt + 0.5 * np.mean(shares, axis=0)
            if self.progress:
                self.progress((i + 1) * WARMUP_SHARE / WARMUP_ROUNDS, 1.0, "warm-up")
            self._keep_round(moves, begun, i + 1, learnt)
        moves = self._judged(self._adapted(moves, learnt), self.fits)
        for r in self.runners:
            r.forget_warmup()
        return moves, time.perf_counter()

    def _new_scout(self, begun: float) -> Scouting:
        return Scouting(self.problem, self.budget, len(self.runners), self.crew.hands.count, begun)

    def _scout(self, begun: float, saved: Saved | None) -> ModelStore:
        """Meet the models that warm-up learns from."""
        self.scouting = scouting = self._new_scout(begun)
        if saved is not None:
            scouting.restore(part_of(saved.arrays, _SCOUT))
        elif self._may_wait():
            scouting.begin()
            return scouting.store

        def keep() -> None:
            if self.checkpoint.due():
                state = {"algorithm": "mjmcmc", "phase": _SCOUT, "spent": time.perf_counter() - begun}
                self.checkpoint.save(state, under(_SCOUT, scouting.snapshot()))

        return scouting.finish(keep)

    def _scout_first(self, keep: Callable[[], None]) -> None:
        """Bring the scout to its end where nobody can go on with it while the chains run."""
        if self.scouting is not None and not self.crew.overlaps(len(self.runners)):
            self.scouting.finish(keep)

    def _may_wait(self) -> bool:
        """Whether the scout may go on while the chains sample: nobody asks for its best model, or for its time."""
        return self.problem.family.conjugate and not self.mixture.surrogate and self.budget.seconds is None

    @property
    def scouted(self) -> ModelStore | None:
        """What the scout has met so far."""
        return self.resumed if self.scouting is None else self.scouting.store

    def _judged(self, moves: Moves, fits: float | None) -> Moves:
        """The same moves, judged by a surrogate first where that is worth its time."""
        if moves.surrogate[0] > 0.0 or not worth_it(self.problem, self.mixture.surrogate, fits):
            return moves
        return adopt_surrogate(self.problem, self.scouted, self.runners, moves)

    def _keep(self, moves: Moves, begun: float, state: dict[str, Any], arrays: Snapshot) -> None:
        """A checkpoint, where it is time for one."""
        if not self.checkpoint.due():
            return
        flat = arrays | {name: getattr(moves, name) for name in _LEARNT}
        state |= {"scouting": self.scouting is not None and not self.scouting.done}
        if self.scouting is not None and not self.scouting.done:
            flat |= under(_SCOUT, self.scouting.snapshot())
        elif self.scouted is not None:
            flat |= under("scouted", store_arrays(self.scouted))
        for i, snapshot in enumerate(self.crew.snapshots(self.runners)):
            flat |= under(f"chain-{i}", snapshot)
        state |= {"algorithm": "mjmcmc", "spent": time.perf_counter() - begun, "warmup_steps": self.warmup_steps}
        self.checkpoint.save(state, flat)

    def _keep_round(self, moves: Moves, begun: float, done: int, learnt: np.ndarray) -> None:
        """A checkpoint after so many rounds of warm-up, where it is time for one."""
        self._keep(moves, begun, {"round": done}, {"learnt": learnt, "fits": np.array(self.fits)})

    def _resume(self, moves: Moves, saved: Saved, begun: float) -> tuple[Moves, np.ndarray, int | None]:
        """All chains as they were; what was learnt, and after how many rounds, None after all of them."""
        reader, terms = Reader(saved.arrays), self.problem.n_terms
        for i, runner in enumerate(self.runners):
            runner.restore(part_of(saved.arrays, f"chain-{i}"))
        reader.need(f"chain-{len(self.runners)}/rng" not in reader, "chains")
        if "scouted/num" in reader:
            self.resumed = read_store(reader.under("scouted"), terms, MOST_CAPACITY)
        elif saved.state.get("scouting") is True:
            self.scouting = self._new_scout(begun)
            self.scouting.restore(part_of(saved.arrays, _SCOUT))
        self.warmup_steps = whole_number(saved, "warmup_steps", 0, 1 << 62)
        alias = reader.like("alias", moves.alias, (0, terms))
        cumulative, threshold = (reader.like(name, getattr(moves, name)) for name in ("cumulative", "threshold"))
        moves = moves._replace(cumulative=cumulative, threshold=threshold, alias=alias)
        if reader.like("surrogate", moves.surrogate)[0] > 0.0:
            moves = adopt_surrogate(self.problem, self.scouted, self.runners, moves, fresh=False)
        if "round" not in saved.state:
            return moves, np.zeros(0), None
        self.fits = reader.number("fits")
        return moves, reader.array("learnt", np.float64, (terms,)), whole_number(saved, "round", 0, WARMUP_ROUNDS + 1)

    def _warm(self, moves: Moves, steps: int) -> list[np.ndarray]:
        return self.crew.each(self.runners, partial(Runner.warm_batch, moves=moves, steps=steps))

    def _adapted(self, moves: Moves, learnt: np.ndarray) -> Moves:
        tried = np.sum([r.chain.record.tried for r in self.runners], axis=0)
        return self.mixture.adapt(moves, learnt, tried)

    def _sample(self, moves: Moves, begun: float, warmed: float) -> None:
        def run(count: int) -> None:
            self.crew.repeat(self.runners, partial(Runner.run_batches, moves=moves), count, self.scouting)

        def keep() -> None:
            self._keep(moves, begun, {"target": schedule.target}, {"warmed": np.array(warmed - begun)})

        target = resumed_target(self.checkpoint.saved)
        schedule = Schedule(
            self.runners, run, self.progress, WARMUP_SHARE, keep=keep, best=self._best_model, target=target,
            pace=self.crew.pace,
        )  # fmt: skip
        self._scout_first(keep)
        self.notes += schedule.sample(self.budget, begun)
        if self.scouting is not None:
            self.scouting.finish(keep)

    def _best_model(self) -> str:
        """Terms of the best model so far."""
        stores = [r.chain.store for r in self.runners] + ([] if self.scouted is None else [self.scouted])
        best = max(stores, key=lambda store: store.log_posterior[: int(store.scalars["count"])].max(initial=-np.inf))
        words = best.words[int(np.argmax(best.log_posterior[: int(best.scalars["count"])]))]
        names = [n for j, n in enumerate(self.problem.names) if (int(words[j >> 6]) >> (j & 63)) & 1]
        return " + ".join(names) or "the base model"

    def _result(self, warmup_seconds: float, seconds: float) -> SamplerResult:
        runners = self.runners
        means = np.array([r.means for r in runners])
        scouted = [self.scouted] if self.scouted is not None else []
        with self.crew.hands as hands:
            merged = merged_stores(scouted + [r.chain.store for r in runners], hands)
        sizes = np.sum([r.chain.record.sizes for r in runners], axis=0)
        tried = np.sum([r.chain.record.tried for r in runners], axis=0)
        return SamplerResult(
            algorithm="mjmcmc",
            exact=False,
            models=merged.models,
            n_models=len(merged.models),
            log_evidence=merged.log_evidence,
            renormalised=merged.inclusion[: self.problem.n_terms],
            size_distribution=sizes / sizes.sum(),
            batch_means=means,
            batch_length=runners[0].batch,
            steps=int(sizes.sum()),
            warmup_steps=self.warmup_steps,
            acceptance={name: (int(tried[i, 0]), int(tried[i, 1])) for i, name in enumerate(KERNELS) if tried[i, 0]},
            seconds=seconds,
            warmup_seconds=warmup_seconds,
            finished=self.finished,
            forgotten_visits=merged.forgotten,
            notes=tuple(self.notes),
        )
