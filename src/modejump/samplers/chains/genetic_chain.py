"""Chains that search among features from the outside: what they collect; and one chain of GMJMCMC."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from modejump.core.random import new_stream
from modejump.features.expression import Expression
from modejump.kernels.populations.archive import NEGLIGIBLE
from modejump.kernels.populations.feature_chain import EVOLVE
from modejump.kernels.populations.genetic import CENSUS_DUE, TABLE_FULL
from modejump.problem.feature_problem import FeatureProblem
from modejump.runtime.snapshots import Reader, Snapshot, fill_stream, fill_work, flatten, under, work_arrays
from modejump.samplers.chains import feature_snapshots as stored
from modejump.samplers.chains.workspace import Workspace, new_genetic, uniform_moves

FEATURES = 1 << 17
# Models that the archive of a chain has room for.
ARCHIVE = 20_000
# Where constants are fitted, the best models of the least complexities are collected as well, so many of each; they may
# be this far below the best, for each observation.
SIMPLEST, ALIKE = 16, 3
BELOW = 2.0
# At most so many models of a chain are collected, and none so far below its best one.
MOST_MODELS = 2_000
SPAN = 16.0
# Features above this inclusion stay in the population, others with this probability.
KEEP_AT = 0.2
KEEP_LOW = 0.05
# Bytes for the columns that one chain keeps.
COLUMN_BYTES = 256 * 2**20
KERNEL_WEIGHTS = {"flip": 0.68, "swap": 0.24, "multi": 0.04, "birth-death": 0.03, "jump-greedy": 0.01}


def span_of(problem: FeatureProblem) -> float:
    """How far below the best a model may be to be kept."""
    return max(NEGLIGIBLE, BELOW * problem.n) if problem.language.joint_constants else NEGLIGIBLE


class SearchChain(Workspace):
    """A chain whose archive takes in the models that it meets."""

    # The compiled work of a chain of this kind.
    task: ClassVar[int]

    def __init__(self, problem: FeatureProblem, places: int, **room: Any) -> None:
        super().__init__(problem, places, **room)
        self.collected: dict[frozenset[Expression], float] = {}
        self.constants: dict[Expression, np.ndarray] = {}

    @property
    @abstractmethod
    def populations(self) -> int:
        """Pieces of work so far: populations, or generations."""

    @property
    @abstractmethod
    def restarts(self) -> int:
        """How often the chain has begun anew."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """Steps so far: of MJMCMC, or features tried."""

    @property
    @abstractmethod
    def evaluated(self) -> int:
        """Models evaluated so far."""

    @property
    @abstractmethod
    def bests(self) -> np.ndarray:
        """The highest log posterior of each independent search of this chain."""

    @property
    def best(self) -> float:
        """The highest log posterior of all."""
        return float(self.arrays.archive.scalars["best"])

    @abstractmethod
    def begin_table(self) -> None:
        """Begin with an empty table of features, because the old one is full."""

    def take_census(self) -> None:
        """Try what a census suggests; by default nobody asks for one."""

    def compile(self) -> None:
        """Compile, so that no clock counts it."""
        self.work(self.task, steps=0)

    def run_to(self, populations: int) -> None:
        """Search until so many pieces of work in all; the table of features is renewed where it is full."""
        while (left := populations - self.populations) > 0:
            _, reason = self.work(self.task, steps=left)
            if reason == TABLE_FULL:
                self.begin_table()
            elif reason == CENSUS_DUE:
                self.take_census()

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The chain between two pieces of work."""

    @abstractmethod
    def restore(self, snapshot: Snapshot) -> None:
        """Resume from where a chain of the same problem was when the snapshot was taken."""

    def best_model(self) -> list[Expression]:
        """The best model so far."""
        archive = self.arrays.archive
        values = archive.log_posterior[: int(archive.scalars["kept"])]
        known = max(self.collected, key=lambda model: self.collected[model], default=frozenset())
        if not len(values) or self.collected.get(known, -np.inf) > values.max():
            return sorted(known)
        m = int(np.argmax(values))
        return [self.feature(int(f)) for f in archive.features[m, : archive.size[m]]]

    def collect(self) -> None:
        """Add the leading models of the archive, and the constants inside their features, to what was collected."""
        archive = self.arrays.archive
        values = archive.log_posterior[: int(archive.scalars["kept"])]
        inside: set[int] = set()
        order = np.argsort(-values, kind="stable")
        leading = order[:MOST_MODELS][values[order[:MOST_MODELS]] >= values.max(initial=-np.inf) - SPAN]
        for m in [*leading, *self._simplest(order)]:
            numbers = [int(f) for f in archive.features[m, : archive.size[m]]]
            self.collected[frozenset(self.feature(f) for f in numbers)] = float(values[m])
            inside.update(numbers)
        self.collect_constants(sorted(inside), self.constants)

    def _simplest(self, order: np.ndarray) -> list[int]:
        """The best archived models of each complexity, among the simplest of several features: beside each other their
        constants may turn out better than each has by itself."""
        if not self.language.joint_constants:
            return []
        archive = self.arrays.archive
        inside = np.arange(archive.features.shape[1]) < archive.size[order, None]
        complexity = np.where(inside, self.table.complexity[archive.features[order]], 0).sum(axis=1)
        several = order[archive.size[order] > 1]
        of = complexity[archive.size[order] > 1]
        return [int(m) for c in np.unique(of)[:SIMPLEST] for m in several[of == c][:ALIKE]]

    def renew_table(self) -> None:
        """Collect what was found, and begin with an empty table."""
        self.collect()
        self.forget_features()
        self.arrays.archive.scalars["kept"] = 0
        self.arrays.archive.slots[:] = 0

    def shared_arrays(self) -> Snapshot:
        """What every search has, for a snapshot; the store and the model are made anew by the next piece of work."""
        arrays = self.arrays
        return (
            under("table", stored.table_arrays(arrays.table))
            | under("archive", stored.archive_arrays(arrays.archive))
            | under("work", work_arrays(arrays.chain.work))
            | under("collected", stored.collected_arrays(self.collected))
            | under("constants", stored.constant_arrays(self.constants))
            | {"features": arrays.population.feature.copy()}
            | {"tried": arrays.chain.record.tried.copy(), "rng": arrays.chain.rng.copy()}
        )

    def fill_shared(self, reader: Reader) -> None:
        """Take it over from a snapshot."""
        arrays = self.arrays
        stored.fill_table(reader.under("table"), self.language, arrays.space, arrays.table, 0, 0)
        self._memo = {}
        self.forget_columns()
        self.restore_places(reader, "features", 0)
        stored.fill_archive(reader.under("archive"), arrays.archive, int(arrays.table.scalars["count"]))
        fill_work(reader.under("work"), arrays.chain.work, len(arrays.population.feature))
        self.collected = stored.read_collected(reader.under("collected"), self.language)
        self.constants = stored.read_constants(reader.under("constants"), self.language)
        reader.into("tried", arrays.chain.record.tried)
        fill_stream(reader, arrays.chain.rng)


class GeneticChain(SearchChain):
    """A chain of populations.

    Parameters
    ----------
    problem : FeatureProblem
        What to search.
    seed : SeedSequence
        The chain's own stream.
    steps : int
        MJMCMC steps in a population.
    patience : int
        Populations without improvement before the chain begins anew.
    archive : int
        Models that the archive has room for.
    memory : int
        Bytes for the columns that are kept.
    distinct : int
        Distinct models that can be counted.
    """

    task = EVOLVE

    def __init__(
        self,
        problem: FeatureProblem,
        seed: np.random.SeedSequence,
        *,
        steps: int,
        patience: int,
        archive: int = ARCHIVE,
        memory: int = COLUMN_BYTES,
        distinct: int = 1 << 16,
    ) -> None:
        s, n = int(problem.language.limits.population), problem.x.shape[1]
        super().__init__(
            problem,
            s,
            features=FEATURES,
            columns=int(min(max(memory // (8 * n), s + 8), 4096)),
            models=4 * steps + 1024,
            archive=(archive, distinct, span_of(problem)),
            stream=new_stream(seed),
        )
        operators = len(self.arrays.space.cumulative)
        self.replace(
            genetic=new_genetic(s, operators, steps, patience, KEEP_AT, KEEP_LOW),
            moves=uniform_moves(s, KERNEL_WEIGHTS),
        )

    @property
    def populations(self) -> int:
        """Populations so far."""
        return int(self.arrays.genetic.scalars["populations"])

    @property
    def restarts(self) -> int:
        """How often the chain has begun anew."""
        return int(self.arrays.genetic.scalars["restarts"])

    @property
    def steps(self) -> int:
        """Steps of MJMCMC so far."""
        return self.populations * self.arrays.genetic.steps

    @property
    def evaluated(self) -> int:
        """Models evaluated so far."""
        return int(self.arrays.archive.scalars["evaluated"])

    @property
    def bests(self) -> np.ndarray:
        """The chain is one search, however often it has begun anew."""
        return np.array([self.best])

    def begin_table(self) -> None:
        """Begin with an empty table; the population starts again."""
        self.renew_table()
        self.arrays.genetic.scalars["started"] = 0

    def snapshot(self) -> Snapshot:
        """The chain between two populations."""
        return self.shared_arrays() | under("genetic", flatten(self.arrays.genetic))

    def restore(self, snapshot: Snapshot) -> None:
        """Resume from where a chain of the same problem was when the snapshot was taken."""
        reader, arrays = Reader(snapshot), self.arrays
        self.fill_shared(reader)
        genetic = reader.under("genetic")
        genetic.fill(arrays.genetic)
        genetic.need((arrays.genetic.best_model <= 1).all(), "best_model")
        settings = {name: genetic.number(name) for name in ("keep_at", "keep_low")}
        settings |= {name: genetic.whole(name, 0, 1 << 62) for name in ("patience", "steps")}
        genetic.need(settings.items() <= arrays.genetic._asdict().items(), "steps")
