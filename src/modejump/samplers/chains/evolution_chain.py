"""One chain of independent searches by the evolution of features, from the outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modejump.core.random import new_stream
from modejump.features.expression import Expression
from modejump.kernels.populations.evolve import CENSUS, FIRST_DRAWS, new_evolution
from modejump.kernels.populations.feature_chain import (
    BEGIN_WITH,
    EVOLVE_FEATURES,
    REMEMBER,
    RESTORE_PLACES,
    TRY_FEATURES,
)
from modejump.problem.feature_problem import FeatureProblem
from modejump.runtime.snapshots import Reader, Snapshot, flatten, under
from modejump.samplers.chains.genetic_chain import ARCHIVE, COLUMN_BYTES, FEATURES, SearchChain, span_of
from modejump.samplers.result import SAME_BEST
from modejump.samplers.warmup.census import can_count, census_of
from modejump.samplers.warmup.simple_sums import SimpleSums

# Features kept of each complexity; tried in a generation; generations without anything better before the next place,
# fewer where constants are fitted: there a generation takes long.
WIDTH = 8
TRIES = 128
PATIENCE, FITTING_PATIENCE = 24, 4
# How often products of functions are counted where the turn before has found nothing better.
AGAIN = 0.5
# Columns that a chain keeps to try them beside other models.
MOST_COLUMNS = 8192


class EvolutionChain(SearchChain):
    """Searches one after another, none of which knows of the others.

    Parameters
    ----------
    problem : FeatureProblem
        What to search.
    seed : SeedSequence
        The chain's own stream.
    tries : int
        Features tried in a generation.
    memory : int
        Bytes for the columns that are kept.
    start : sequence of features
        The model that all searches begin with, where there is a census; they begin with models of their own without.
    """

    task = EVOLVE_FEATURES

    def __init__(
        self,
        problem: FeatureProblem,
        seed: np.random.SeedSequence,
        *,
        tries: int = TRIES,
        memory: int = COLUMN_BYTES,
        start: Sequence[Expression] = (),
    ) -> None:
        columns, n = problem.x.shape
        super().__init__(
            problem,
            problem.size + 1,
            features=FEATURES,
            columns=int(min(max(memory // (8 * n), 64), MOST_COLUMNS)),
            models=CENSUS + FIRST_DRAWS + tries + 2 * columns + 64,
            archive=(ARCHIVE, 1 << 16, span_of(problem)),
            stream=new_stream(seed),
        )
        complexity = int(self.arrays.space.max_complexity)
        patience = FITTING_PATIENCE if problem.language.fits_constants else PATIENCE
        self.replace(evolution=new_evolution(problem.size + 1, complexity, WIDTH, tries, patience))
        self.arrays.evolution.scalars["counted"] = can_count(problem)
        self.number, self.start = seed.spawn_key[-1] if seed.spawn_key else 0, start

    def _begins_with_several(self, run: np.ndarray | int) -> Any:
        """Whether a search begins with several simple terms, where there is a census: two of three, or every other."""
        period = 3 if census_of(self.problem).varied else 2
        return (run + self.number) % period < period - 1

    @property
    def populations(self) -> int:
        """Generations so far."""
        return int(self.arrays.evolution.scalars["generations"])

    @property
    def restarts(self) -> int:
        """Searches that ended."""
        return int(self.arrays.evolution.scalars["runs"])

    @property
    def steps(self) -> int:
        """Features tried."""
        return int(self.arrays.evolution.scalars["tried"])

    @property
    def evaluated(self) -> int:
        """Models evaluated."""
        return self.steps

    @property
    def bests(self) -> np.ndarray:
        """Log posterior of the best model of each search; of searches that begin alike none."""
        evolution = self.arrays.evolution
        ended = evolution.run_best[: min(self.restarts, len(evolution.run_best))]
        met = float(evolution.scalars["met"])
        if evolution.scalars["counted"] and not census_of(self.problem).varied:
            ended = ended[~self._begins_with_several(np.arange(len(ended)))]
        # The search under way counts where it has met the best model already, and where there is no other.
        return np.append(ended, met) if met >= self.best - SAME_BEST or not len(ended) else ended.copy()

    def take_census(self) -> None:
        """Try products that explain the response, or what the rest of the model leaves of it, at a place."""
        evolution, members = self.arrays.evolution, self.arrays.population.feature
        inside = np.flatnonzero(evolution.member[:-1])
        constants: dict[Expression, np.ndarray] = {}
        self.collect_constants([int(members[i]) for i in inside], constants)
        others = [self.feature(int(members[i])) for i in inside if not evolution.out[i]]
        own = [self.feature(int(members[i])) for i in inside if evolution.out[i]]
        census = census_of(self.problem)
        # By the chain's own stream, so that a search that is resumed is the same.
        rng = np.random.default_rng(self.arrays.chain.rng.copy())
        # The first turn of a search is the one that counts from -1.
        if evolution.scalars["turns"] == -1 and (self.start or self._begins_with_several(self.restarts)):
            several = self.start or SimpleSums(census, rng).best()
            if several:
                self.work(BEGIN_WITH, self.numbers(several))
                return
        suggested = census.beside(others, constants, rng)
        if (own or not others) and (not evolution.scalars["idle"] or rng.random() < AGAIN):
            target = census.target(own, others, constants)
            suggested += census.suggest(target, rng)
            if len(own) == 1:
                suggested += census.suggest_factors(target, own[0], constants.get(own[0], np.empty(0)), rng)
        self.work(TRY_FEATURES, self.numbers(suggested))

    def begin_table(self) -> None:
        """Keep the model and the best features in a new table; columns of others are forgotten."""
        evolution, population = self.arrays.evolution, self.arrays.population
        members = population.feature.copy()
        pool = evolution.feature.copy()
        kept: dict[int, Expression] = {int(f): self.feature(int(f)) for f in [*members, *pool.ravel()] if f >= 0}
        self.renew_table()
        numbers = dict(zip(kept, self.numbers(list(kept.values())).tolist(), strict=True))
        moved = np.array([numbers.get(int(f), -1) for f in members], np.int64)
        self.work(RESTORE_PLACES, moved, values=np.ones(len(moved)), limit=0)
        evolution.feature[...] = np.array([numbers.get(int(f), -1) for f in pool.ravel()]).reshape(pool.shape)
        self.work(REMEMBER, evolution.feature[evolution.feature >= 0])

    def snapshot(self) -> Snapshot:
        """The chain between two generations."""
        arrays = self.arrays
        seen = np.flatnonzero(arrays.evolution.seen)
        evolution = flatten(arrays.evolution._replace(seen=arrays.evolution.seen[seen]))
        return self.shared_arrays() | (
            under("evolution", evolution | {"seen_at": seen})
            | {"owner": arrays.pool.owner.copy(), "next": np.array(arrays.pool.scalars["next"])}
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Resume from where a chain of the same problem was when the snapshot was taken."""
        reader, arrays = Reader(snapshot), self.arrays
        self.fill_shared(reader)
        count = int(arrays.table.scalars["count"])
        part, evolution = reader.under("evolution"), arrays.evolution
        at = part.array("seen_at", np.int64, (None,), (0, len(evolution.seen)))
        part.need(len(np.unique(at)) == len(at) < len(evolution.seen), "seen_at")
        evolution.seen[:] = 0
        evolution.seen[at] = part.array("seen", np.uint64, at.shape)
        shape = evolution.feature.shape
        evolution.feature[...] = part.array("feature", np.int64, shape, (-1, count))
        for name in ("value", "fit", "run_best"):
            getattr(evolution, name)[...] = part.array(name, np.float64, getattr(evolution, name).shape)
        for name in ("member", "out"):
            getattr(evolution, name)[:] = part.array(name, np.uint8, evolution.member.shape, (0, 2))
        evolution.scalars[...] = part.scalars(evolution.scalars)
        place = int(evolution.scalars["place"])
        part.need(0 <= place < len(evolution.member), "place")
        part.need(
            (arrays.population.feature[:-1] >= 0).tolist() == evolution.member[:-1].astype(bool).tolist(), "member"
        )
        owner = reader.array("owner", np.int64, arrays.pool.owner.shape, (-1, count))
        for s in np.flatnonzero(owner >= 0).tolist():
            arrays.pool.scalars["next"] = s
            self.work(REMEMBER, owner[s : s + 1])
        arrays.pool.scalars["next"] = reader.whole("next", 0, len(owner))
