"""One chain of GMJMCMC from the outside: its arrays, its runs, and what it has collected."""

from __future__ import annotations

import numpy as np

from modejump.core.handles import scalars_of
from modejump.core.random import alias_table, new_stream
from modejump.features.nonlinear.columns import ColumnPool
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.operators import SpaceArrays
from modejump.kernels.chain import Chain, new_record
from modejump.kernels.moves import KERNELS, MAX_FLIPS, Moves
from modejump.kernels.populations.archive import Archive, new_archive
from modejump.kernels.populations.genetic import ARENA_FULL, Genetic, evolve
from modejump.kernels.state import new_state, new_work
from modejump.kernels.store import new_store
from modejump.likelihoods.glm.newton import Glm
from modejump.problem.feature_problem import FeatureProblem, FeatureTable
from modejump.runtime.snapshots import Reader, Snapshot, fill_stream, fill_work, flatten, under, work_arrays
from modejump.samplers.chains.feature_snapshots import (
    alpha_arrays,
    archive_arrays,
    arena_arrays,
    collected_arrays,
    fill_archive,
    fill_population,
    population_arrays,
    read_alphas,
    read_collected,
)

ARENA_FEATURES = 1 << 17
# At most so many models of a chain are collected, and none so far below its best one.
MOST_MODELS = 2_000
SPAN = 16.0
# Features above this inclusion stay in the population, others with this probability.
KEEP_AT = 0.2
KEEP_LOW = 0.05
# Bytes for the columns that one chain keeps.
COLUMN_BYTES = 256 * 2**20
KERNEL_WEIGHTS = {"flip": 0.68, "swap": 0.24, "multi": 0.04, "birth-death": 0.03, "jump-greedy": 0.01}


def population_moves(s: int) -> Moves:
    """Kernel mixture inside a population."""
    weights = np.array([KERNEL_WEIGHTS.get(name, 0.0) for name in KERNELS])
    threshold, alias = alias_table(np.ones(s))
    return Moves(
        np.cumsum(weights / weights.sum()),
        threshold,
        alias,
        np.zeros((s, 0), np.int64),
        np.zeros((s, 0)),
        np.zeros((s, 0)),
        min(0.1, 1.0 / s),
        min(3, s),
        min(2 * s, 20),
        2.0,
        1,
    )


def _new_genetic(s: int, steps: int, patience: int) -> Genetic:
    return Genetic(
        np.zeros(s),
        np.zeros(s, np.uint8),
        np.zeros(max(s, 64), np.int64),
        scalars_of(populations=0, stalled=0, restarts=0, started=0, run_best=-np.inf, best=-np.inf),
        np.zeros((10, 2), np.int64),
        KEEP_AT,
        KEEP_LOW,
        patience,
        steps,
    )


def population_chain(s: int, steps: int, stream: np.ndarray, glm: Glm) -> Chain:
    """A chain over the places of a population; its store holds what one population evaluates."""
    room = s + MAX_FLIPS
    return Chain(
        new_state(s, s, room),
        new_state(s, s, room),
        new_state(s, s, room),
        new_work(room, MAX_FLIPS, s, glm),
        new_store(4 * steps + 1024, max(1, -(-s // 64))),
        new_record(s),
        stream,
        np.zeros(s, np.uint8),
        np.zeros(s, np.int64),
        np.zeros(MAX_FLIPS, np.int64),
    )


class GeneticChain(FeatureTable):
    """A chain of populations with all its arrays."""

    def __init__(
        self,
        problem: FeatureProblem,
        seed: np.random.SeedSequence,
        *,
        steps: int,
        patience: int,
        archive: int = 20_000,
        memory: int = COLUMN_BYTES,
        distinct: int = 1 << 16,
    ) -> None:
        super().__init__(problem, ARENA_FEATURES)
        s, n = problem.space.population, problem.x.shape[1]
        slots = int(min(max(memory // (8 * n), s + 8), 4096))
        self.pool: ColumnPool = self.new_pool(slots)
        self.data, self.population = self.new_places(s)
        self.genetic = _new_genetic(s, steps, patience)
        self.chain = population_chain(s, steps, new_stream(seed), self.data.glm)
        self.moves = population_moves(s)
        self.declared: SpaceArrays = problem.declared()
        self.archive: Archive = new_archive(archive, problem.space.size, distinct)
        self.collected: dict[frozenset[Feature], float] = {}
        self.alphas: dict[Feature, np.ndarray] = {}

    def run(self, populations: int) -> int:
        """So many populations; returns why it stopped."""
        return int(
            evolve(
                self.data,
                self.chain,
                self.moves,
                self.arena,
                self.pool,
                self.population,
                self.genetic,
                self.declared,
                self.archive,
                populations,
            )
        )

    def run_to(self, populations: int) -> None:
        """Go on until so many populations in all; the table of features is renewed where it is full."""
        while (left := populations - int(self.genetic.scalars["populations"])) > 0:
            if self.run(left) == ARENA_FULL:
                self._renew_arena()

    def _renew_arena(self) -> None:
        """Collect what the archive holds and begin with an empty table; the population starts again."""
        self.collect()
        size = self.problem.space.size
        self.forget_features()
        self.population.feature[:] = -1
        self.pool.owner[:] = -1
        self.pool.slot[:] = 0
        self.archive = new_archive(len(self.archive.key), size, len(self.archive.seen) // 2)._replace(
            scalars=self.archive.scalars, seen=self.archive.seen
        )
        self.archive.scalars["kept"] = 0
        self.genetic.scalars["started"] = 0

    def best_model(self) -> list[Feature]:
        """The best model of the archive."""
        kept = int(self.archive.scalars["kept"])
        if not kept:
            return []
        m = int(np.argmax(self.archive.log_posterior[:kept]))
        return [self.feature(int(f)) for f in self.archive.features[m, : self.archive.size[m]]]

    def collect(self) -> None:
        """Add the leading models of the archive, and the alphas of their projections, to what was collected."""
        kept = int(self.archive.scalars["kept"])
        values = self.archive.log_posterior[:kept]
        for m in np.argsort(-values, kind="stable")[:MOST_MODELS]:
            if values[m] < values.max() - SPAN:
                break
            ids = [int(f) for f in self.archive.features[m, : self.archive.size[m]]]
            self.collected[frozenset(self.feature(f) for f in ids)] = float(values[m])
            if self.problem.space.projection > 0:
                for f in ids:
                    self.collect_alphas(f, self.alphas)

    def snapshot(self) -> Snapshot:
        """The chain between two populations.

        The next population begins with an empty store and a model set anew, so the last one's are left out.
        """
        return (
            under("arena", arena_arrays(self.arena))
            | under("population", population_arrays(self.data, self.population))
            | under("genetic", flatten(self.genetic))
            | under("archive", archive_arrays(self.archive))
            | under("work", work_arrays(self.chain.work))
            | under("collected", collected_arrays(self.collected))
            | under("alphas", alpha_arrays(self.alphas))
            | {"tried": self.chain.record.tried.copy(), "rng": self.chain.rng.copy()}
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from where a chain of the same problem was when the snapshot was taken."""
        reader = Reader(snapshot)
        self.fill_arena(reader.under("arena"))
        depth = self.problem.space.depth
        fill_population(reader.under("population"), self.data, self.population, self.arena, depth)
        genetic = reader.under("genetic")
        genetic.fill(self.genetic)
        genetic.need((self.genetic.best_model <= 1).all(), "best_model")
        settings = {name: genetic.number(name) for name in ("keep_at", "keep_low")}
        settings |= {name: genetic.whole(name, 0, 1 << 62) for name in ("patience", "steps")}
        genetic.need(settings.items() <= self.genetic._asdict().items(), "steps")
        fill_archive(reader.under("archive"), self.archive, int(self.arena.scalars["count"]))
        fill_work(reader.under("work"), self.chain.work, len(self.population.feature))
        self.collected = read_collected(reader.under("collected"), self.problem.names, self.problem.space)
        self.alphas = read_alphas(reader.under("alphas"), self.problem.names, self.problem.space)
        reader.into("tried", self.chain.record.tried)
        fill_stream(reader, self.chain.rng)
