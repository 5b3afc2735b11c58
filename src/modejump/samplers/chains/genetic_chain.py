"""One chain of GMJMCMC from the outside: its arrays, its runs, and what it has collected."""

from __future__ import annotations

import numpy as np

from modejump.core.random import new_stream
from modejump.features.expression import Expression
from modejump.kernels.populations.archive import NEGLIGIBLE
from modejump.kernels.populations.feature_chain import EVOLVE
from modejump.kernels.populations.genetic import TABLE_FULL
from modejump.problem.feature_problem import FeatureProblem
from modejump.runtime.snapshots import Reader, Snapshot, fill_stream, fill_work, flatten, under, work_arrays
from modejump.samplers.chains import feature_snapshots as stored
from modejump.samplers.chains.workspace import Workspace, new_genetic, uniform_moves

FEATURES = 1 << 17
# At most so many models of a chain are collected, and none so far below its best one.
MOST_MODELS = 2_000
SPAN = 16.0
# Features above this inclusion stay in the population, others with this probability.
KEEP_AT = 0.2
KEEP_LOW = 0.05
# Bytes for the columns that one chain keeps.
COLUMN_BYTES = 256 * 2**20
KERNEL_WEIGHTS = {"flip": 0.68, "swap": 0.24, "multi": 0.04, "birth-death": 0.03, "jump-greedy": 0.01}


class GeneticChain(Workspace):
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
        s, n = int(problem.language.limits.population), problem.x.shape[1]
        super().__init__(
            problem,
            s,
            features=FEATURES,
            columns=int(min(max(memory // (8 * n), s + 8), 4096)),
            models=4 * steps + 1024,
            archive=(archive, distinct, NEGLIGIBLE),
            stream=new_stream(seed),
        )
        operators = len(self.arrays.space.cumulative)
        self.replace(
            genetic=new_genetic(s, operators, steps, patience, KEEP_AT, KEEP_LOW),
            moves=uniform_moves(s, KERNEL_WEIGHTS),
        )
        self.collected: dict[frozenset[Expression], float] = {}
        self.constants: dict[Expression, np.ndarray] = {}

    @property
    def populations(self) -> int:
        """Populations so far."""
        return int(self.arrays.genetic.scalars["populations"])

    def compile(self) -> None:
        """Compile, so that no clock counts it."""
        self.work(EVOLVE, steps=0)

    def run_to(self, populations: int) -> None:
        """Search until so many populations in all; the table of features is renewed where it is full."""
        while (left := populations - self.populations) > 0:
            _, reason = self.work(EVOLVE, steps=left)
            if reason == TABLE_FULL:
                # The population starts again.
                self.collect()
                self.forget_features()
                self.arrays.archive.scalars["kept"] = 0
                self.arrays.archive.slots[:] = 0
                self.arrays.genetic.scalars["started"] = 0

    def best_model(self) -> list[Expression]:
        """The best model of the archive."""
        archive = self.arrays.archive
        kept = int(archive.scalars["kept"])
        if not kept:
            return []
        m = int(np.argmax(archive.log_posterior[:kept]))
        return [self.feature(int(f)) for f in archive.features[m, : archive.size[m]]]

    def collect(self) -> None:
        """Add the leading models of the archive, and the constants inside their features, to what was collected."""
        archive = self.arrays.archive
        values = archive.log_posterior[: int(archive.scalars["kept"])]
        inside: set[int] = set()
        for m in np.argsort(-values, kind="stable")[:MOST_MODELS]:
            if values[m] < values.max() - SPAN:
                break
            numbers = [int(f) for f in archive.features[m, : archive.size[m]]]
            self.collected[frozenset(self.feature(f) for f in numbers)] = float(values[m])
            inside.update(numbers)
        self.collect_constants(sorted(inside), self.constants)

    def snapshot(self) -> Snapshot:
        """The chain between two populations.

        The next population begins with an empty store and a model set anew, so the last one's are left out.
        """
        arrays = self.arrays
        return (
            under("table", stored.table_arrays(arrays.table))
            | under("genetic", flatten(arrays.genetic))
            | under("archive", stored.archive_arrays(arrays.archive))
            | under("work", work_arrays(arrays.chain.work))
            | under("collected", stored.collected_arrays(self.collected))
            | under("constants", stored.constant_arrays(self.constants))
            | {"features": arrays.population.feature.copy()}
            | {"tried": arrays.chain.record.tried.copy(), "rng": arrays.chain.rng.copy()}
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Resume from where a chain of the same problem was when the snapshot was taken."""
        reader, arrays = Reader(snapshot), self.arrays
        stored.fill_table(reader.under("table"), self.language, arrays.space, arrays.table, 0, 0)
        self._memo = {}
        self.forget_columns()
        self.restore_places(reader, "features", 0)
        genetic = reader.under("genetic")
        genetic.fill(arrays.genetic)
        genetic.need((arrays.genetic.best_model <= 1).all(), "best_model")
        settings = {name: genetic.number(name) for name in ("keep_at", "keep_low")}
        settings |= {name: genetic.whole(name, 0, 1 << 62) for name in ("patience", "steps")}
        genetic.need(settings.items() <= arrays.genetic._asdict().items(), "steps")
        stored.fill_archive(reader.under("archive"), arrays.archive, int(arrays.table.scalars["count"]))
        fill_work(reader.under("work"), arrays.chain.work, len(arrays.population.feature))
        self.collected = stored.read_collected(reader.under("collected"), self.language)
        self.constants = stored.read_constants(reader.under("constants"), self.language)
        reader.into("tried", arrays.chain.record.tried)
        fill_stream(reader, arrays.chain.rng)
