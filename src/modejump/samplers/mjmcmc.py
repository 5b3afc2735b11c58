"""MJMCMC: adaptive warm-up, then frozen sampling on independent chains."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from modejump.core.random import fresh_sequence
from modejump.kernels.moves import KERNELS, Moves
from modejump.kernels.store import ModelStore
from modejump.problem.problem import Problem
from modejump.runtime.context import Context
from modejump.runtime.snapshots import Snapshot, part_of, read_store, store_arrays, under
from modejump.samplers.budget import Budget
from modejump.samplers.chains.mjmcmc_chain import MOST_CAPACITY, MJMCMCChain, align_batches
from modejump.samplers.merge import merged_stores, renormalised_inclusion
from modejump.samplers.plan import Plan
from modejump.samplers.result import Result, acceptance_of
from modejump.samplers.schedule import FIRST_BATCH, Schedule, timed_pieces
from modejump.samplers.warmup.adaptation import adapted, first_moves
from modejump.samplers.warmup.best_first import BestFirstSearch, compile_best_first
from modejump.samplers.warmup.surrogate import adopt_surrogate, evaluated, worth_it

# Warm-up learns the flip weights in so many rounds.
WARMUP_ROUNDS = 8
# Share of a budget in seconds that goes to warm-up.
WARMUP_SHARE = 0.2
# What warm-up learns about the moves.
_LEARNT = ("cumulative", "threshold", "alias", "surrogate")
# Paths in a checkpoint: the best-first search under way, and the models of one that is finished.
_SEARCH, _FOUND = "best-first", "found"


def mjmcmc(problem: Problem, plan: Plan, context: Context) -> Result:
    """Sample models by mode jumping MCMC.

    Parameters
    ----------
    problem : Problem
        The target.
    plan : Plan
        Chains, budget, seed, and weights of the kernels.
    context : Context
        Progress, executor and checkpoint. Where there are more threads than chains, those to spare share the rows of
        long tables.
    """
    return _Driver(problem, plan, context).run()


def compile_chain(problem: Problem, moves: Moves) -> None:
    """Compile what a chain needs, so that no clock counts it."""
    MJMCMCChain(problem, np.random.SeedSequence(0), 0, FIRST_BATCH).compile(moves)


class _Driver:
    """Takes all chains through warm-up and sampling."""

    def __init__(self, problem: Problem, plan: Plan, context: Context) -> None:
        self.problem, self.context = problem, context
        self.executor, self.checkpoint = context.executor, context.checkpoint
        self.budget = plan.budget or Budget()
        self.settings = plan.settings
        memory, threads = self.budget.memory // (2 * plan.chains), self.executor.threads(plan.chains)
        seeds = fresh_sequence(plan.seed).spawn(plan.chains)
        self.chains = [MJMCMCChain(problem, seed, memory, FIRST_BATCH, threads) for seed in seeds]
        self.begun = self.warmed = 0.0
        self.warmup_steps = 0
        self.fits = 0.0
        # The best-first search, or the models of one that an earlier run had finished.
        self.search: BestFirstSearch | None = None
        self.resumed: ModelStore | None = None

    def run(self) -> Result:
        moves, notes, finished = first_moves(self.settings, self.problem), [], True
        with self.context.compiling():
            compile_chain(self.problem, moves)
            compile_best_first(self.problem)
        try:
            self.executor.open(self.problem)
            self.executor.compile(compile_chain, moves)
            self.begun = self.warmed = self.checkpoint.begin("mjmcmc")
            moves = self._warm_up(moves)
            notes = self._sample(moves)
        except KeyboardInterrupt:
            finished = False
            self.executor.close()
        align_batches(self.chains)
        if not all(chain.means for chain in self.chains):
            raise KeyboardInterrupt
        return self._result(time.perf_counter() - self.warmed, finished, tuple(notes))

    @property
    def found(self) -> ModelStore | None:
        """The models of the best-first search so far."""
        return self.resumed if self.search is None else self.search.store

    # --- warm-up ------------------------------------------------------------------------------------------------

    def _warm_up(self, moves: Moves) -> Moves:
        """Search best first, then learn the flip weights from all chains together, round by round, and freeze them."""
        if self.checkpoint.phase not in (None, _SEARCH):
            moves, learnt, done = self._resume(moves)
            if done is None:
                return moves
        elif self.budget.warmup == 0:
            self.warmed = time.perf_counter()
            return self._judged(moves, None)
        else:
            store = self._search()
            moves = self._judged(moves, None)
            # The estimate of the best-first search counts as one round.
            learnt, done = renormalised_inclusion(store, self.problem.n_terms, self.executor.pool), 0
        self._search_first(partial(self._keep_round, moves, done, learnt))
        for i in range(done, WARMUP_ROUNDS):
            moves = self._adapted(moves, learnt)
            before = evaluated(self.chains)
            shares, steps = self._round(moves, i)
            self.warmup_steps += steps * len(self.chains)
            self.fits = (evaluated(self.chains) - before) / max(1, steps * len(self.chains))
            # Later rounds are nearer to the target: each counts as much as all before it.
            learnt = 0.5 * learnt + 0.5 * np.mean(shares, axis=0)
            if self.context.progress:
                self.context.progress((i + 1) * WARMUP_SHARE / WARMUP_ROUNDS, 1.0, "warm-up")
            self._keep_round(moves, i + 1, learnt)
        moves = self._judged(self._adapted(moves, learnt), self.fits)
        for chain in self.chains:
            chain.forget_warmup()
        self.warmed = time.perf_counter()
        return moves

    def _round(self, moves: Moves, number: int) -> tuple[list[np.ndarray], int]:
        """The terms' shares of the steps of one round, for each chain, and the number of steps."""

        def warm(steps: int) -> list[np.ndarray]:
            return self.executor.map(partial(MJMCMCChain.warm_up, moves=moves, steps=steps), self.chains)

        if self.budget.seconds is None:
            steps = max(1, self.budget.warmup_steps() // WARMUP_ROUNDS)
            return warm(steps), steps
        until = self.begun + self.budget.seconds * WARMUP_SHARE * (number + 1) / WARMUP_ROUNDS
        return timed_pieces(warm, until, self.executor.pace.short)

    def _adapted(self, moves: Moves, learnt: np.ndarray) -> Moves:
        tried = np.sum([c.chain.record.tried for c in self.chains], axis=0)
        return adapted(self.settings, moves, learnt, tried)

    def _judged(self, moves: Moves, fits: float | None) -> Moves:
        """The same moves, judged by a surrogate first where that is worth its time."""
        if moves.surrogate[0] > 0.0 or not worth_it(self.problem, self.settings.surrogate, fits):
            return moves
        return adopt_surrogate(self.problem, self.found, self.chains, moves)

    # --- best-first search --------------------------------------------------------------------------------------

    def _new_search(self) -> BestFirstSearch:
        return BestFirstSearch(self.problem, self.budget, len(self.chains), self.executor.pool.count, self.begun)

    def _search(self) -> ModelStore:
        """The models that warm-up learns from."""
        self.search = search = self._new_search()
        # It may continue while the chains sample where nobody asks for its best model, or for its time.
        may_wait = self.problem.family.conjugate and not self.settings.surrogate and self.budget.seconds is None
        if self.checkpoint.phase == _SEARCH:
            search.restore(part_of(self.checkpoint.arrays, _SEARCH))
        elif may_wait:
            search.begin()
            return search.store

        def keep() -> None:
            if self.checkpoint.due():
                self.checkpoint.save({"phase": _SEARCH}, under(_SEARCH, search.snapshot()))

        return search.finish(keep)

    def _search_first(self, keep: Callable[[], None]) -> None:
        """Finish the search where no thread can continue with it while the chains run."""
        if self.search is not None and not self.executor.overlaps(len(self.chains)):
            self.search.finish(keep)

    # --- sampling -----------------------------------------------------------------------------------------------

    def _sample(self, moves: Moves) -> list[str]:
        def run(count: int) -> None:
            self.executor.repeat(partial(MJMCMCChain.run_batches, moves=moves), self.chains, count, self.search)

        def keep(target: int | None) -> None:
            state = {"phase": "sampling", "target": target}
            self._keep(moves, state, {"warmed": np.array(self.warmed - self.begun)})

        schedule = Schedule(self.chains, run, self.context, WARMUP_SHARE, keep=keep, best=self._best_model)
        self._search_first(lambda: keep(schedule.target))
        notes = schedule.sample(self.budget, self.begun)
        if self.search is not None:
            self.search.finish(lambda: keep(schedule.target))
        return notes

    def _best_model(self) -> str:
        """Terms of the best model so far."""
        stores = [c.chain.store for c in self.chains] + ([] if self.found is None else [self.found])
        best = max(stores, key=lambda store: store.log_posterior[: int(store.scalars["count"])].max(initial=-np.inf))
        words = best.words[int(np.argmax(best.log_posterior[: int(best.scalars["count"])]))]
        names = [n for j, n in enumerate(self.problem.names) if (int(words[j >> 6]) >> (j & 63)) & 1]
        return " + ".join(names) or "the base model"

    def _result(self, seconds: float, finished: bool, notes: tuple[str, ...]) -> Result:
        records = [c.chain.record for c in self.chains]
        stores = [] if self.found is None else [self.found]
        merged = merged_stores(stores + [c.chain.store for c in self.chains], self.executor.pool)
        sizes = np.sum([record.sizes for record in records], axis=0)
        return Result(
            algorithm="mjmcmc",
            exact=False,
            models=merged.models,
            n_models=len(merged.models),
            log_evidence=merged.log_evidence,
            renormalised=merged.inclusion[: self.problem.n_terms],
            size_distribution=sizes / sizes.sum(),
            batch_means=np.array([chain.means for chain in self.chains]),
            batch_length=self.chains[0].batch,
            steps=int(sizes.sum()),
            warmup_steps=self.warmup_steps,
            acceptance=acceptance_of(KERNELS, [record.tried for record in records]),
            seconds=seconds,
            warmup_seconds=self.warmed - self.begun,
            finished=finished,
            forgotten_visits=merged.forgotten,
            notes=notes,
        )

    # --- checkpoints --------------------------------------------------------------------------------------------

    def _keep(self, moves: Moves, state: dict[str, Any], arrays: Snapshot) -> None:
        """A checkpoint, where it is time for one."""
        if not self.checkpoint.due():
            return
        flat = arrays | {name: getattr(moves, name) for name in _LEARNT}
        searching = self.search is not None and not self.search.done
        if self.search is not None and searching:
            flat |= under(_SEARCH, self.search.snapshot())
        elif self.found is not None:
            flat |= under(_FOUND, store_arrays(self.found))
        for i, snapshot in enumerate(self.executor.snapshots(self.chains)):
            flat |= under(f"chain-{i}", snapshot)
        self.checkpoint.save(state | {"searching": searching, "warmup_steps": self.warmup_steps}, flat)

    def _keep_round(self, moves: Moves, done: int, learnt: np.ndarray) -> None:
        """A checkpoint after so many rounds of warm-up, where it is time for one."""
        state = {"phase": "warm-up", "round": done}
        self._keep(moves, state, {"learnt": learnt, "fits": np.array(self.fits)})

    def _resume(self, moves: Moves) -> tuple[Moves, np.ndarray, int | None]:
        """All chains as they were; what was learnt, and after how many rounds, None after all of them."""
        checkpoint, reader, terms = self.checkpoint, self.checkpoint.reader, self.problem.n_terms
        for i, chain in enumerate(self.chains):
            chain.restore(part_of(checkpoint.arrays, f"chain-{i}"))
        reader.need(f"chain-{len(self.chains)}/rng" not in reader, "chains")
        if f"{_FOUND}/words" in reader:
            self.resumed = read_store(reader.under(_FOUND), terms, MOST_CAPACITY)
        elif (checkpoint.state or {}).get("searching") is True:
            self.search = self._new_search()
            self.search.restore(part_of(checkpoint.arrays, _SEARCH))
        self.warmup_steps = checkpoint.number("warmup_steps", 0)
        alias = reader.like("alias", moves.alias, (0, terms))
        cumulative, threshold = (reader.like(name, getattr(moves, name)) for name in ("cumulative", "threshold"))
        moves = moves._replace(cumulative=cumulative, threshold=threshold, alias=alias)
        if reader.like("surrogate", moves.surrogate)[0] > 0.0:
            moves = adopt_surrogate(self.problem, self.found, self.chains, moves, fresh=False)
        if checkpoint.phase == "sampling":
            self.warmed = self.begun + reader.number("warmed")
            return moves, np.zeros(0), None
        self.fits = reader.number("fits")
        return moves, reader.array("learnt", np.float64, (terms,)), checkpoint.number("round", 0, WARMUP_ROUNDS + 1)
