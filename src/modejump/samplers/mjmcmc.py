"""MJMCMC: adaptive warm-up, then frozen sampling on independent chains."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from modejump.errors import InputError
from modejump.kernels.moves import KERNELS, Moves
from modejump.kernels.rng import fresh_sequence
from modejump.kernels.store import COUNT, FORGOTTEN, ModelStore
from modejump.problem import Problem
from modejump.samplers.budget import Budget
from modejump.samplers.merge import merged_stores, renormalised_inclusion
from modejump.samplers.mixture import Mixture
from modejump.samplers.result import ModelTable, SamplerResult
from modejump.samplers.runner import Runner, align_batches
from modejump.samplers.schedule import FIRST_BATCH, Progress, Schedule, timed_pieces
from modejump.samplers.scout import prime_scout, scout

# Warm-up learns the flip weights in so many rounds.
WARMUP_ROUNDS = 8
# Share of a budget in seconds that goes to warm-up.
WARMUP_SHARE = 0.2


def mjmcmc(
    problem: Problem,
    *,
    chains: int = 4,
    budget: Budget | None = None,
    workers: int = 1,
    seed: int | np.random.SeedSequence = 0,
    mixture: Mixture | None = None,
    progress: Progress | None = None,
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
        Threads. Budgets by size or precision give the same result for any number.
    seed : int or SeedSequence
        Each chain gets its own stream spawned from it.
    mixture : Mixture, optional
        Kernel weights and settings.
    progress : callable, optional
        Called with (done, total, note).
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
    runners = [Runner(problem, s, memory, FIRST_BATCH) for s in root.spawn(chains)]
    driver = _Driver(problem, runners, budget, mixture or Mixture(), workers, progress)
    return driver.run()


class _Driver:
    """Runs all chains through warm-up and sampling."""

    def __init__(
        self,
        problem: Problem,
        runners: list[Runner],
        budget: Budget,
        mixture: Mixture,
        workers: int,
        progress: Progress | None,
    ) -> None:
        self.problem = problem
        self.runners = runners
        self.budget = budget
        self.mixture = mixture
        self.pool = ThreadPoolExecutor(workers) if workers > 1 and len(runners) > 1 else None
        self.progress = progress or (lambda done, total, note: None)
        self.notes: list[str] = []
        self.finished = True
        self.warmup_steps = 0
        self.scouted: ModelStore | None = None

    def run(self) -> SamplerResult:
        moves = self.mixture.compile(self.problem)
        self.runners[0].prime(moves)
        prime_scout(self.problem)
        begun = warmed = time.perf_counter()
        try:
            moves = self._warm_up(moves, begun)
            warmed = time.perf_counter()
            self._sample(moves, begun)
        except KeyboardInterrupt:
            self.finished = False
        finally:
            if self.pool:
                self.pool.shutdown()
        align_batches(self.runners)
        if not all(r.means for r in self.runners):
            raise KeyboardInterrupt
        ended = time.perf_counter()
        return self._result(warmed - begun, ended - warmed)

    def _each(self, work: Callable[[Runner], np.ndarray | None]) -> list:
        if self.pool:
            return list(self.pool.map(work, self.runners))
        return [work(r) for r in self.runners]

    def _warm_up(self, moves: Moves, begun: float) -> Moves:
        """Scout, then learn the flip weights from all chains together, round by round, and freeze them."""
        if self.budget.warmup == 0:
            return moves
        self.scouted = scout(self.problem, self.budget, len(self.runners))
        # The scout's estimate counts as one round.
        learnt = renormalised_inclusion(self.scouted, self.problem.n_terms)
        seconds = self.budget.seconds
        per_round = max(1, self.budget.warmup_steps() // WARMUP_ROUNDS)
        for i in range(WARMUP_ROUNDS):
            moves = self._adapted(moves, learnt)
            if seconds is not None:
                until = begun + seconds * WARMUP_SHARE * (i + 1) / WARMUP_ROUNDS
                shares, steps = timed_pieces(partial(self._warm, moves), until)
            else:
                shares, steps = self._warm(moves, per_round), per_round
            self.warmup_steps += steps * len(self.runners)
            # Later rounds are nearer to the target: each counts as much as all before it.
            learnt = 0.5 * learnt + 0.5 * np.mean(shares, axis=0)
            self.progress((i + 1) * WARMUP_SHARE / WARMUP_ROUNDS, 1.0, "warm-up")
        moves = self._adapted(moves, learnt)
        for r in self.runners:
            r.forget_warmup()
        return moves

    def _warm(self, moves: Moves, steps: int) -> list[np.ndarray]:
        return self._each(partial(Runner.warm_batch, moves=moves, steps=steps))

    def _adapted(self, moves: Moves, learnt: np.ndarray) -> Moves:
        tried = np.sum([r.chain.record.tried for r in self.runners], axis=0)
        return self.mixture.adapt(moves, learnt, tried)

    def _sample(self, moves: Moves, begun: float) -> None:
        def run(count: int) -> None:
            self._each(partial(Runner.run_batches, moves=moves, count=count))

        schedule = Schedule(self.runners, run, self.progress, WARMUP_SHARE)
        self.notes += schedule.sample(self.budget, begun)

    def _result(self, warmup_seconds: float, seconds: float) -> SamplerResult:
        runners = self.runners
        means = np.array([r.means for r in runners])
        scouted = [self.scouted] if self.scouted is not None else []
        store, chains = merged_stores(scouted + [r.chain.store for r in runners])
        sizes = np.sum([r.chain.record.sizes for r in runners], axis=0)
        tried = np.sum([r.chain.record.tried for r in runners], axis=0)
        table = _table(store, chains)
        top = table.log_posterior[0]
        return SamplerResult(
            algorithm="mjmcmc",
            exact=False,
            models=table,
            n_models=len(table),
            log_evidence=float(top + np.log(np.exp(table.log_posterior - top).sum())),
            renormalised=renormalised_inclusion(store, self.problem.n_terms),
            size_distribution=sizes / sizes.sum(),
            batch_means=means,
            batch_length=runners[0].batch,
            steps=int(sizes.sum()),
            warmup_steps=self.warmup_steps,
            acceptance={name: (int(tried[i, 0]), int(tried[i, 1])) for i, name in enumerate(KERNELS) if tried[i, 0]},
            seconds=seconds,
            warmup_seconds=warmup_seconds,
            finished=self.finished,
            forgotten_visits=int(store.num[FORGOTTEN]),
            notes=tuple(self.notes),
        )


def _table(store: ModelStore, chains: np.ndarray) -> ModelTable:
    """The stored models of positive probability, best first."""
    count = int(store.num[COUNT])
    alive = np.flatnonzero(np.isfinite(store.log_posterior[:count]))
    order = alive[np.argsort(-store.log_posterior[alive], kind="stable")]
    return ModelTable(store.words[order], store.log_posterior[order], store.visits[order], order, chains[order])
