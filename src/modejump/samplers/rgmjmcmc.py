"""RGMJMCMC: warm-up by GMJMCMC, a frozen library, and reversible sampling by chains with one common target."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from modejump.core.random import fresh_sequence
from modejump.features.covariates.language import Screened
from modejump.features.expression import Expression
from modejump.likelihoods.custom.batch import BatchLikelihood
from modejump.problem.feature_problem import FeatureProblem
from modejump.runtime.context import Context
from modejump.runtime.snapshots import Reader, Snapshot, part_of, under
from modejump.samplers.budget import Budget
from modejump.samplers.chains.feature_snapshots import (
    collected_arrays,
    constant_arrays,
    read_collected,
    read_constants,
    read_features,
    text_array,
)
from modejump.samplers.chains.mjmcmc_chain import align_batches
from modejump.samplers.chains.recall import RECALLED
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.law_estimates import batch_means, result_of_chains
from modejump.samplers.laws import laws_of
from modejump.samplers.plan import Plan
from modejump.samplers.result import Result
from modejump.samplers.schedule import FIRST_BATCH, Schedule, timed_pieces
from modejump.samplers.settings import Sampler
from modejump.samplers.warmup.census import can_count
from modejump.samplers.warmup.joint_exchange import ATTEMPTS, POPULATIONS, SHARE, find_sums, refine_together
from modejump.samplers.warmup.library import (
    EVALUATIONS,
    MOST_FEATURES,
    SAMPLED_FEATURES,
    Collected,
    Library,
    Model,
    best_first,
    best_models,
    build_library,
    climb,
    library_of_sample,
    log_importance,
)
from modejump.samplers.warmup.noise import settle_again
from modejump.samplers.warmup.polish import POLISHES, polish, polish_share_of
from modejump.samplers.warmup.refinement import can_refine, reached_again, reached_by_all_rows, refine_search
from modejump.samplers.warmup.score_search import can_score, climb_by_scores, compile_score_search
from modejump.samplers.warmup.search import Finished, Search, compile_search, in_words, kinds_of_chains, search_sample

# Warm-up of each chain where nothing else is asked: populations of the search.
DEFAULT_POPULATIONS = 150
# Sampling steps of each chain where nothing else is asked and every step is a move between populations.
MOVES = 2_000
# Shares of a budget in seconds: the search, more of it where constants have to be fitted, and the rounds in which the
# chains learn.
SEARCH_SHARE = 0.5
FITTING_SHARE = 0.8
LEARN_SHARE = 0.1
# Share of such a budget that the edits which complete a library may take, by the pace of the search.
EDIT_SHARE = 0.05
# Models that a Python function scores to complete the library: nobody knows how long it takes.
SCORED_EDITS = 5_000
# In the end the best models of so many chains are climbed from. Where fitting is expensive, models are climbed to from
# nothing as well, at first, for this share of the search's time at most.
CLIMBING_CHAINS = 3
CLIMB_SHARE = 0.5
# Rounds of learning; after each but the last the library may still take in what they met.
ROUNDS = 4
LEARN_STEPS = 2_000
# A library has room for so many features, however long their columns.
LEAST_FEATURES = 16
# Chains begin at models drawn from so many of the best.
STARTS = 50
# Of each chain so many of the best models are noted while it learns.
NOTED = 500
# A fresh feature whose models hold this share of the posterior gets a place in the library while there is time.
WORTH_A_PLACE = 1e-3
# Bytes for the columns of the library and of fresh features, all chains together.
COLUMN_BYTES = 2**29
# Columns of a chain besides its library: fresh features, scratch rows, cache.
OTHER_COLUMNS = 40


def rgmjmcmc(problem: FeatureProblem, plan: Plan, context: Context) -> Result:
    """Sample models of features; the share of steps in a model estimates its posterior probability.

    Parameters
    ----------
    problem : FeatureProblem
        The target.
    plan : Plan
        Chains of warm-up and of sampling; a budget whose ``warmup`` and ``steps`` are steps of each chain in the search
        and in sampling, and whose ``seconds`` are for all of it; settings of the populations.
    context : Context
        Progress, executor and checkpoint.
    """
    return Driver(problem, plan, context).run()


def compile_run(problem: FeatureProblem, settings: Sampler) -> None:
    """Compile everything that a run needs, so that no clock counts it."""
    compile_search(problem)
    if can_score(problem) and settings.library:
        compile_score_search(problem)
    # With hardly any edits: the compiler asks for no more, and where models are fitted they take seconds.
    library = build_library(problem, {frozenset(problem.covariates()[:1]): 0.0}, most=4, limit=1)
    trial = ReversibleChain(problem, *library, np.random.SeedSequence(0), settings, 1 << 16)
    trial.advance(1)
    trial.close()


class Driver:
    """Takes all chains through search, learning and sampling."""

    compile_run = staticmethod(compile_run)
    # Rounds of learning, and steps of each chain in one.
    rounds, learn_steps = ROUNDS, LEARN_STEPS
    # How covariates are drawn from very many, where warm-up finds that out.
    screened: Screened | None = None

    def __init__(self, problem: FeatureProblem, plan: Plan, context: Context) -> None:
        self.problem, self.plan, self.context = problem, plan, context
        self.executor, self.checkpoint = context.executor, context.checkpoint
        self.settings = plan.settings
        only_moves = self.settings.population_steps == 0
        self.budget = plan.budget or (Budget(steps=MOVES) if only_moves else Budget())
        search_root, sampling_root, self.start_seed = fresh_sequence(plan.seed).spawn(3)
        self.evolutions, populations = kinds_of_chains(problem, plan.chains)
        self.search_seeds = search_root.spawn(self.evolutions + populations)
        self.polish_seeds = search_root.spawn(POLISHES)
        self.sum_seeds = search_root.spawn(ATTEMPTS)
        self.search_share = FITTING_SHARE if problem.language.fits_constants else SEARCH_SHARE
        self.searched = self._sampled(problem)
        fit = COLUMN_BYTES // (8 * problem.x.shape[1] * (OTHER_COLUMNS + LEAST_FEATURES))
        self.seeds = sampling_root.spawn(int(np.clip(fit, min(plan.chains, 2), plan.chains)))
        self.chains: list[ReversibleChain] = []
        self.collected: Collected = {}
        self.outcomes: list[Finished] = []
        self.notes: list[str] = []
        self.warmup_steps = 0
        self.begun = self.warmed = 0.0
        # Steps after which distinct models are counted.
        self.counted_from: int | None = None

    def _sampled(self, problem: FeatureProblem) -> FeatureProblem:
        """The problem for the search."""
        return search_sample(problem, self.plan.seed)

    def run(self) -> Result:
        """From the beginning, or from a checkpoint, to the result."""
        with self.context.compiling():
            self.compile_run(self.problem, self.settings)
        if len(self.seeds) < self.plan.chains:
            self.notes.append(
                f"{self.plan.chains} chains searched, but only {len(self.seeds)} sampled: the columns of more "
                f"would take over {COLUMN_BYTES >> 20} MiB."
            )
        self.executor.open(self.problem)
        self.executor.compile(self.compile_run, self.settings)
        self.begun = self.checkpoint.begin("rgmjmcmc")
        if self.checkpoint.phase not in (None, "search"):
            self._resume()
        elif self.settings.library:
            self._search()
            self._learn(self._freeze(), 0)
        else:
            self._make_chains(Library((), np.zeros(0)))
            self._begin_to_count()
        schedule, finished = self._schedule(), True
        try:
            if self.counted_from is None:
                self.notes += schedule.sample(self.budget, self.begun)
            self._until_distinct(schedule)
        except KeyboardInterrupt:
            self.executor.close()
            if not all(chain.means for chain in self.chains):
                raise
            finished = False
        align_batches(self.chains)
        ended = time.perf_counter()
        self.executor.pool.map(lambda chain: chain.close(), self.chains)
        return result_of_chains(
            self.problem,
            self.chains,
            self.outcomes,
            self.collected,
            self.executor.pool,
            seconds=ended - self.warmed,
            warmup_seconds=self.warmed - self.begun,
            warmup_steps=self.warmup_steps,
            finished=finished,
            notes=tuple(self.notes),
        )

    def _law_means(self) -> np.ndarray:
        """Batch means of the laws: spellings with one column are put together, fresh features among them."""
        fresh = {f for chain in self.chains for stays in chain.stays for f in stays}
        features = sorted(fresh.union(self.chains[0].library))
        _, law_of = laws_of(self.problem, features, self.chains[0].constants_of(features))
        number = {law: j for j, law in enumerate(sorted(set(law_of.values())))}
        return batch_means(self.chains, {f: number[law] for f, law in law_of.items()}, len(number))

    def _schedule(self) -> Schedule:
        """Sampling; a checkpoint after each piece of it, where it is time for one."""

        @cache
        def known() -> Snapshot:
            # Once: nothing is added to what is known while the chains sample.
            return under("collected", collected_arrays(self.collected))

        def run(count: int) -> None:
            self.executor.repeat(ReversibleChain.run_batches, self.chains, count)

        def keep(target: int | None) -> None:
            if not self.checkpoint.due():
                return
            state: dict[str, Any] = {"phase": "sampling", "target": target, "notes": list(self.notes)}
            state |= {"counted_from": self.counted_from}
            self._keep(state, known() | {"warmed": np.array(self.warmed - self.begun)})

        share = self.search_share + LEARN_SHARE
        return Schedule(self.chains, run, self.context, share, self._law_means, keep, self._best_model)

    def _keep(self, state: dict[str, Any], arrays: Snapshot) -> None:
        """A checkpoint."""
        first = self.chains[0]
        flat = arrays | {
            "library": text_array([f.text for f in first.library]),
            "importance": first.importance,
            "searched": np.array([outcome.counts() for outcome in self.outcomes], np.int64).reshape(-1, 4),
            "search_best": np.concatenate([np.zeros(0), *(outcome.bests for outcome in self.outcomes)]),
            "searches": np.array([len(outcome.bests) for outcome in self.outcomes], np.int64),
        }
        flat |= under("refined", constant_arrays(self.problem.refined)) | self._own_arrays()
        for i, snapshot in enumerate(self.executor.snapshots(self.chains)):
            flat |= under(f"chain-{i}", snapshot)
        self.checkpoint.save(state | {"warmup_steps": self.warmup_steps}, flat)

    def _resume(self) -> None:
        """Take over what an earlier run knew, and continue to learn or to sample."""
        checkpoint, reader = self.checkpoint, self.checkpoint.reader
        counts = reader.array("searched", np.int64, (self._searched(), 4), (0, 1 << 62))
        searches = reader.array("searches", np.int64, (len(counts),), (1, 1 << 31))
        bests = reader.array("search_best", np.float64, (int(searches.sum()),))
        each = np.split(bests, np.cumsum(searches)[:-1]) if len(counts) else []
        self.outcomes = [Finished.from_counts(*of) for of in zip(counts, each, strict=True)]
        self.collected = read_collected(reader.under("collected"), self.problem.language)
        self.warmup_steps = checkpoint.number("warmup_steps", 0)
        self._give_constants(read_constants(reader.under("refined"), self.problem.language))
        features = read_features(reader, "library", self.problem.language)
        library = Library(tuple(features), reader.array("importance", np.float64, (len(features),)))
        self._read_own_arrays(reader)
        self._make_chains(library)
        for i, chain in enumerate(self.chains):
            chain.restore(part_of(checkpoint.arrays, f"chain-{i}"))
        if checkpoint.phase == "learning":
            learnt = reader.array("learnt", np.float64, (len(features),))
            self._learn(library, checkpoint.number("round", 1, self.rounds + 1), learnt)
            return
        self.warmed = self.begun + reader.number("warmed")
        self.counted_from = checkpoint.number_or_none("counted_from")
        if self.counted_from is not None:
            self.notes = [str(note) for note in (checkpoint.state or {}).get("notes", ())]

    def _searched(self) -> int:
        """Chains of the search, of which a checkpoint has counts."""
        return len(self.search_seeds) if self.settings.library else 0

    def _own_arrays(self) -> Snapshot:
        """What else warm-up knows, for a checkpoint."""
        return {}

    def _read_own_arrays(self, reader: Reader) -> None:
        """Take it over from a checkpoint."""

    def _best_model(self) -> str:
        """The best model so far, in words."""
        found = dict(self._known_best)
        for chain in self.chains:
            found |= chain.best_library_model()
        best: Model = max(found, key=lambda model: found[model], default=frozenset())
        return in_words(best)

    @cached_property
    def _known_best(self) -> Collected:
        """The best of the models that warm-up met."""
        return {model: self.collected[model] for model in best_models(self.collected, 1)}

    def _search(self) -> None:
        """Warm-up: independent searches, and edits of the best models that they found."""
        steps, each = self.budget.warmup, self.plan.search_steps
        populations = DEFAULT_POPULATIONS if steps is None else max(1, -(-int(steps) // each))
        seconds = None if self.budget.seconds is None else self.budget.seconds * self.search_share
        sum_share = SHARE if can_refine(self.searched) and can_count(self.searched) else 0.0
        if can_score(self.problem):
            self._climb([frozenset()], CLIMB_SHARE)
        if self.searched is not self.problem:
            self.executor.open(self.searched)
        search = Search(
            self.searched,
            self.search_seeds,
            populations=populations,
            evolutions=self.evolutions,
            seconds=None if seconds is None else seconds * (1.0 - polish_share_of(self.searched) - sum_share),
            memory=self.budget.memory,
            steps=each,
            context=dataclasses.replace(self.context, progress=self._tell_search if self.context.progress else None),
            state={"phase": "search"},
        )
        self.outcomes = search.run()
        for outcome in self.outcomes:
            self.collected |= outcome.collected
            self.warmup_steps += outcome.steps
        bests = {m: o.collected[m] for o in self.outcomes for m in best_models(o.collected, 1)}
        starts = best_models(bests, CLIMBING_CHAINS)
        if can_score(self.problem):
            self._climb(starts, 1.0)
        elif self.problem.family.conjugate:
            climb(self.searched, self.collected, starts, self._affordable_edits())
            if can_count(self.searched):
                until = None if seconds is None else self.begun + seconds * (1.0 - sum_share)
                given = self.searched, self.collected, list(bests), self.polish_seeds
                polish(*given, self.executor, self.budget.memory, until)
        if self.searched is not self.problem:
            self.executor.close()
            self.executor.open(self.problem)
        if self.plan.unsettled is not None:
            # What a short search has missed looked like heavy tails.
            found = self.searched, self.collected, self.outcomes
            made = settle_again(self.plan.unsettled, self.problem, *found, self._sampled, self.context)
            if made is not None:
                self._aim_at(made[0])
                self.searched, self.collected, self.outcomes = made[1:]
        if can_refine(self.searched):
            attempts = populations // POPULATIONS if seconds is None else ATTEMPTS
            self._refine(attempts if sum_share else 0, None if seconds is None else self.begun + seconds)

    def _aim_at(self, problem: FeatureProblem) -> None:
        """Take another problem as the target."""
        self.problem = problem
        self.executor.close()
        self.executor.open(problem)

    def _refine(self, attempts: int, until: float | None) -> None:
        """Constants of the leading model, fitted together and frozen; sums that need this are looked for first."""
        found = find_sums(self.searched, self.collected, self.sum_seeds[:attempts], self.executor, until)
        edits = self._affordable_edits()
        problem, self.collected, refined = refine_search(self.searched, self.collected, edits, found, self._has_time)
        self.outcomes = reached_again(self.outcomes, refined, found, self.collected)
        for model in refined if self.searched is not self.problem else ():
            made = refine_together(self.problem, sorted(model), problem.refined)[0]
            self._give_constants({**self.problem.refined, **made})
        if self.searched is self.problem:
            self._give_constants(problem.refined)
            problem = self.problem
        self.searched = problem

    def _give_constants(self, refined: Mapping[Expression, np.ndarray]) -> None:
        """Freeze the constants of some features."""
        if refined:
            self._aim_at(dataclasses.replace(self.problem, refined=refined))

    def _climb(self, starts: Sequence[Model], share: float) -> None:
        """Climb from some models, until a share of the search's time."""
        seconds = np.inf if self.budget.seconds is None else self.budget.seconds
        climb_by_scores(self.searched, self.collected, starts, self.begun + share * self.search_share * seconds)

    def _tell_search(self, done: float, total: float, note: str) -> None:
        if self.context.progress:
            self.context.progress(self.search_share * done / total, 1.0, f"search, {note}")

    def _freeze(self) -> Library:
        """The library of what is known so far, and chains that begin at good models inside it."""
        rows, chains = self.problem.x.shape[1], len(self.seeds)
        room = COLUMN_BYTES // (8 * rows * chains) - OTHER_COLUMNS
        most = int(np.clip(room, LEAST_FEATURES, MOST_FEATURES))
        if self.searched is self.problem:
            library = build_library(self.problem, self.collected, most, self._affordable_edits())
        elif not self.chains:
            sampled, edits = self.collected, self._affordable_edits()
            library, self.collected = library_of_sample(self.problem, self.searched, sampled, most, edits)
            self.outcomes = reached_by_all_rows(self.outcomes, sampled, self.collected)
        else:
            library = build_library(self.problem, self.collected, min(most, SAMPLED_FEATURES), limit=0)
        inside = set(library.features)
        starts = [m for m in best_models(self.collected, STARTS) if m <= inside] or [frozenset()]
        rng = np.random.default_rng(self.start_seed)
        self._make_chains(library)
        for chain in self.chains:
            chain.begin_at(sorted(starts[int(rng.integers(len(starts)))]))
        return library

    def _has_time(self) -> bool:
        """Whether a budget in seconds has time left for another library."""
        share = self.search_share + LEARN_SHARE
        return self.budget.seconds is None or time.perf_counter() < self.begun + share * self.budget.seconds

    def _affordable_edits(self) -> int:
        """Models that edits may evaluate: no more than the search did in its time, and a share of it in seconds."""
        edits = self.plan.edits
        if edits is None:
            edits = SCORED_EDITS if isinstance(self.problem.family, BatchLikelihood) else EVALUATIONS
        if self.budget.seconds is None:
            return edits
        evaluated = sum(outcome.evaluated for outcome in self.outcomes)
        return min(edits, max(int(EDIT_SHARE / self.search_share * evaluated / self.executor.workers), 1))

    def _make_chains(self, library: Library) -> None:
        memory = self.budget.memory // len(self.seeds)

        def make(seed: np.random.SeedSequence) -> ReversibleChain:
            return ReversibleChain(self.problem, *library, seed, self.settings, memory, self.screened)

        self.chains = self.executor.pool.map(make, self.seeds)

    def _learn(self, library: Library, done: int, learnt: np.ndarray | None = None) -> None:
        """Rounds that do not count: flip weights are learnt, and features that were missing get a place."""
        learnt = library.importance if learnt is None else learnt
        for i in range(done, self.rounds):
            shares = self._round(i)
            # Later rounds are nearer to the target: each counts as much as all before it.
            learnt = 0.5 * learnt + 0.5 * np.mean(shares, axis=0)
            for chain in self.chains:
                chain.learn(learnt)
            if i < self.rounds - 1 and self._has_time() and self._met_features_worth_a_place(library):
                library = self._freeze()
                learnt = library.importance
            if self.context.progress:
                self.context.progress(self.search_share + LEARN_SHARE * (i + 1) / self.rounds, 1.0, "learning")
            if self.checkpoint.due():
                known = under("collected", collected_arrays(self.collected))
                self._keep({"phase": "learning", "round": i + 1}, known | {"learnt": learnt})
        self._note_models()
        inside = set(library.features)
        recalled = best_first({model: value for model, value in self.collected.items() if model <= inside})[:RECALLED]
        for chain in self.chains:
            chain.recall(recalled)
        self._begin_to_count()

    def _begin_to_count(self) -> None:
        for chain in self.chains:
            chain.forget_warmup()
            chain.batch = FIRST_BATCH
        self.warmed = time.perf_counter()

    def _note_models(self) -> None:
        """Add what the chains met to what is known."""
        for chain in self.chains:
            chain.close()
            self.collected |= {model: value for model, (value, _) in chain.fresh_models.items()}
            self.collected |= chain.best_library_models(NOTED)

    def _round(self, i: int) -> list[np.ndarray]:
        if self.budget.seconds is None:
            warmup = self.budget.warmup
            steps = self.learn_steps if warmup is None else max(1, int(warmup) // (10 * self.rounds))
            self.warmup_steps += steps * len(self.chains)
            return self._warm_up(steps)
        until = self.begun + self.budget.seconds * (self.search_share + LEARN_SHARE * (i + 1) / self.rounds)
        shares, steps = timed_pieces(self._warm_up, until, self.executor.pace.short)
        self.warmup_steps += steps * len(self.chains)
        return shares

    def _warm_up(self, steps: int) -> list[np.ndarray]:
        return self.executor.map(partial(ReversibleChain.warm_up, steps=steps), self.chains)

    def _met_features_worth_a_place(self, library: Library) -> bool:
        """Whether a feature outside the library is worth a place, by all that the chains met."""
        self._note_models()
        total = float(np.logaddexp.reduce(list(self.collected.values())))
        inside = set(library.features)
        worth = total + math.log(WORTH_A_PLACE)
        return any(value > worth for f, value in log_importance(self.collected).items() if f not in inside)

    def _until_distinct(self, schedule: Schedule) -> None:
        """Continue until the chains have met the wanted number of distinct models on average."""
        if self.plan.distinct == 0:
            return
        if self.counted_from is None:
            self.counted_from = schedule.target = schedule.steps_done()
        steps = self.counted_from
        while True:
            schedule.sample_steps(schedule.target or 0, 10 * steps)
            met = np.mean([chain.distinct for chain in self.chains])
            if met >= self.plan.distinct or schedule.steps_done() >= 10 * steps:
                return
            schedule.target = schedule.steps_done() + max(steps // 4, 1)
