"""One chain of RGMJMCMC from the outside: its arrays, its growth, its batches, and which fresh features it met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.core.handles import scalars_of
from modejump.core.random import alias_table, new_stream
from modejump.features.covariates.language import Screened, covariate_space
from modejump.features.distribution import FeatureDistribution, list_edits
from modejump.features.expression import Expression
from modejump.features.table import forget_from
from modejump.kernels.moves import Moves
from modejump.kernels.populations.between import SEARCHES, Between
from modejump.kernels.populations.feature_chain import FINISH, PLACE_LIBRARY, SAMPLE
from modejump.kernels.populations.fresh_features import FreshFeatures
from modejump.kernels.populations.moves import POPULATION_MOVES
from modejump.kernels.populations.reversible import DONE, WANT_FEATURES, WANT_STORE, has_room
from modejump.kernels.store import bytes_per_model
from modejump.problem.feature_problem import FeatureProblem
from modejump.runtime.snapshots import (
    Reader,
    Snapshot,
    batch_arrays,
    chain_arrays,
    flatten,
    read_batches,
    read_chain,
    scalar_arrays,
    under,
)
from modejump.samplers.chains import feature_snapshots as stored
from modejump.samplers.chains.genetic_chain import SPAN
from modejump.samplers.chains.mjmcmc_chain import (
    MAX_BATCHES,
    MOST_CAPACITY,
    forget_visits,
    halved,
    with_larger_store,
)
from modejump.samplers.chains.recall import read_list, recall_list
from modejump.samplers.chains.workspace import Workspace
from modejump.samplers.result import members_of
from modejump.samplers.settings import Sampler, weights_of
from modejump.samplers.warmup.adaptation import flip_weights, new_moves, partner_tables

FEATURES = 1 << 16
# Edits of library features in the table of edits, at most.
LISTED_EDITS = 12_000
# Stays of fresh features that the log has room for.
LOG = 1 << 15
FIRST_CAPACITY = 8192
# Models with fresh features that are kept in a chain's archive.
FRESH_MODELS = 20_000
# Share of flips that try the places of fresh features.
FRESH_SHARE = 0.15
MOST_COLUMNS = 4096
MOVES = {"none": 0.45, "recall": 0.35, "edit": 0.15, "small": 0.03, "coupled": 0.02}
KERNEL_WEIGHTS = {
    "flip": 0.50,
    "multi": 0.19,
    "partner": 0.15,
    "swap": 0.128,
    "birth-death": 0.03,
    "jump-greedy": 0.001,
    "jump-anneal": 0.0005,
    "jump-tempered": 0.0005,
}

Model = frozenset[Expression]


class ReversibleChain(Workspace):
    """A chain of the reversible sampler.

    Parameters
    ----------
    problem : FeatureProblem
        The target.
    library : sequence of features
        The frozen features, by place.
    importance : ndarray
        Estimated inclusion probability of each.
    seed : SeedSequence
        The chain's own stream.
    settings : Sampler
        Populations, and moves between them.
    memory : int
        Bytes for the chain's cache of models.
    screened : Screened, optional
        How covariates are drawn from very many, as warm-up found it.
    """

    def __init__(
        self,
        problem: FeatureProblem,
        library: Sequence[Expression],
        importance: np.ndarray,
        seed: np.random.SeedSequence,
        settings: Sampler,
        memory: int,
        screened: Screened | None = None,
    ) -> None:
        self.screened = screened
        self.library, self.importance, self.settings, self.memory = tuple(library), importance, settings, memory
        self.first = 64 * max(1, -(-len(self.library) // 64))
        size, rows = problem.size, problem.x.shape[1]
        # Twice the model for both ends of a literal move, and far more than a Poisson number of fresh features.
        places = self.first + 64 * -(-(2 * size + settings.generated + 40) // 64)
        super().__init__(
            problem,
            places,
            features=FEATURES,
            columns=int(np.clip(memory // (16 * rows), 16, MOST_COLUMNS)),
            models=FIRST_CAPACITY,
            most=2 * size,
            archive=(FRESH_MODELS, 1 << 16, SPAN),
            stream=new_stream(seed),
            space=None if screened is None else covariate_space(len(problem.names), screened),
        )
        self.population_steps = settings.inside_population(places, rows)
        self._place_library()
        self.replace(fresh=self._new_fresh(places), between=self._new_between(places))
        self.replace(moves=self._new_moves(places))
        self.start = np.zeros((1, places), np.uint8)
        words = self.arrays.chain.store.words.shape[1]
        self.max_models = max(FIRST_CAPACITY, memory // (2 * bytes_per_model(words)))
        self.batch = 0
        self.means: list[np.ndarray] = []
        # Of each batch: the steps that fresh features stayed in the model, and the model at its end.
        self.stays: list[dict[Expression, float]] = []
        self.draws: list[tuple[Model, float]] = []
        self._pending: dict[Expression, float] = {}
        self.fresh_models: dict[Model, tuple[float, int]] = {}
        self.forgotten = 0

    def _place_library(self) -> None:
        """Columns and Gram matrix of the library."""
        self.places = self.numbers(self.library)
        usable = np.zeros(len(self.places))
        self.work(PLACE_LIBRARY, self.places, values=usable)
        if not usable.all():
            bad = self.library[int(np.argmin(usable))]
            raise InputError(f"the library feature {bad.text!r} is constant or not finite; leave it out.")

    def _new_fresh(self, places: int) -> FreshFeatures:
        """Arrays of fresh features; the table of edits is made from the library, more from its important features."""
        p = np.clip(self.importance, 0.0, 1.0)
        parents = np.argsort(-p, kind="stable")
        weight = p[parents] + 0.2 * p.sum() / max(len(p), 1) + 1e-6
        listed = np.zeros(LISTED_EDITS, np.int64)
        probability = np.zeros(len(self.table.kind) * 3 // 4)
        found = 0
        if self.settings.rate > 0.0:
            found = list_edits(
                self.arrays.space, self.table, self.places[parents], weight / weight.sum(), listed, probability
            )
        frozen, children = int(self.table.scalars["count"]), int(self.table.scalars["children"])
        self.frozen = (frozen, children)
        total = probability.sum()
        probability = probability[:frozen] / (total if found else 1.0)
        listed = listed[:found] if found else np.zeros(1, np.int64)
        threshold, alias = alias_table(probability[listed] if found else np.ones(1))
        place_of = np.zeros(frozen, np.int32)
        place_of[self.places] = np.arange(1, len(self.places) + 1)
        share = self.language.edit_share if self.settings.edits is None else self.settings.edits
        return FreshFeatures(
            q=FeatureDistribution(share if found else 0.0, listed, threshold, alias, probability),
            place_of=place_of,
            boost=np.zeros(places),
            log_feature=np.zeros(LOG, np.int64),
            log_steps=np.zeros(LOG),
            scalars=scalars_of(
                left=0, mark=0, table_mark=frozen, child_mark=children, logged=0, populations=0, referred=0,
                frozen=frozen,
            ),
            first=self.first,
            rate=float(self.settings.rate),
        )  # fmt: skip

    def _new_between(self, places: int) -> Between:
        settings = self.settings
        return self.arrays.between._replace(
            cumulative=np.cumsum(weights_of(settings.moves or MOVES, POPULATION_MOVES)),
            generated=int(settings.generated),
            rho=float(settings.population_rho or 0.0),
            search=SEARCHES[settings.population_search],
            include=float(settings.include),
        )

    def flip_table(self, inclusion: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Alias table of flips: library features by what is known of them, all places of fresh features alike.

        A flip that falls on one of these takes any one that has a feature. Were they not alike, the kernel would depend
        on which came when, that is, on the past.
        """
        places, known = len(self.arrays.population.feature), len(self.library)
        weight = np.zeros(places)
        weight[:known] = flip_weights(inclusion) if known else 0.0
        weight[self.first :] = FRESH_SHARE / (places - self.first)
        return alias_table(weight)

    def _new_moves(self, places: int) -> Moves:
        """Kernel mixture inside a population."""
        known = len(self.library)
        gram = self.arrays.data.gram[:known, :known]
        partner, cdf, ratio = partner_tables(gram, np.arange(known + 1), self.importance)
        width = partner.shape[1]
        # A place without partners names itself, which a model that holds it refuses.
        all_partner = np.repeat(np.arange(places)[:, None], width, axis=1)
        all_cdf, all_ratio = np.ones((places, width)), np.full((places, width), -np.inf)
        all_partner[:known], all_cdf[:known], all_ratio[:known] = partner, cdf, ratio
        flips = self.flip_table(self.importance)
        moves = new_moves(self.settings, KERNEL_WEIGHTS, flips, (all_partner, all_cdf, all_ratio))
        return moves._replace(occupied=np.zeros(1 + places - self.first, np.int64))

    def advance(self, steps: int) -> None:
        """Exactly so many steps; arrays grow, and are emptied, between populations."""
        reserve = min(8 * self.population_steps + 2048, FIRST_CAPACITY // 2)
        while steps > 0:
            done, reason = self.work(
                SAMPLE, models=self.start, steps=steps, population_steps=self.population_steps, reserve=reserve
            )
            steps -= done
            if reason == WANT_STORE:
                self._grow_store(reserve)
            elif reason == WANT_FEATURES:
                self._renew_features()
            self._drain()
            if reason == DONE:
                break

    def _drain(self) -> None:
        """Take the log of fresh features' stays."""
        fresh = self.arrays.fresh
        logged = int(fresh.scalars["logged"])
        for f, steps in zip(fresh.log_feature[:logged], fresh.log_steps[:logged], strict=True):
            feature = self.feature(int(f))
            self._pending[feature] = self._pending.get(feature, 0.0) + float(steps)
        fresh.scalars["logged"] = 0

    def run_batches(self, count: int) -> None:
        """Sampling: full batches, with the means of library features and the stays of fresh ones kept."""
        inside = self.arrays.chain.record.inside
        for _ in range(count):
            self.advance(self.batch)
            self.means.append(inside[: len(self.library)] / self.batch)
            self.stays.append(self._pending)
            self.draws.append(self._draw())
            self._pending = {}
            inside[:] = 0.0
            if len(self.means) == MAX_BATCHES:
                self.merge_batches()

    def model(self) -> Model:
        """The model that the chain is in."""
        places = np.flatnonzero(self.arrays.chain.state.member)
        return frozenset(self.feature(int(f)) for f in self.arrays.population.feature[places])

    def _draw(self) -> tuple[Model, float]:
        """The model that the chain is in, with its log posterior."""
        state = self.arrays.chain.state
        places = np.flatnonzero(state.member)
        return self.model(), float(state.scalars["log_posterior"] - self.arrays.fresh.boost[places].sum())

    def merge_batches(self) -> None:
        """Make neighbouring batches one, two and two; an odd one at the end is left out."""
        self.means = halved(self.means)
        merged = []
        for i in range(len(self.means)):
            both = dict(self.stays[2 * i])
            for f, steps in self.stays[2 * i + 1].items():
                both[f] = both.get(f, 0.0) + steps
            merged.append(both)
        self.stays = merged
        self.draws = [self.draws[2 * i + 1] for i in range(len(merged))]
        self.batch *= 2

    def warm_up(self, steps: int) -> np.ndarray:
        """Steps that do not count; returns the library features' shares of them."""
        self.advance(steps)
        inside = self.arrays.chain.record.inside
        share = inside[: len(self.library)] / steps
        inside[:] = 0.0
        self._pending = {}
        return share

    def learn(self, inclusion: np.ndarray) -> None:
        """Flips try uncertain features more often."""
        threshold, alias = self.flip_table(inclusion)
        self.replace(moves=self.arrays.moves._replace(threshold=threshold, alias=alias))

    def recall(self, models: Sequence[tuple[Model, float]]) -> None:
        """Freeze the list of models that the chain may recall: the best of those inside the library."""
        arrays = self.arrays
        listed = recall_list(self.library, models, arrays.data.zobrist, arrays.chain.store.words.shape[1])
        self.replace(between=arrays.between._replace(recalled=listed))

    def forget_warmup(self) -> None:
        """Start to count: nothing of warm-up is kept but the cache and the place."""
        forget_visits(self.arrays.chain)
        self.arrays.between.tried[:] = 0
        self.arrays.archive.visits[:] = 0
        self.arrays.archive.scalars["forgotten"] = 0
        self.fresh_models = {m: (value, 0) for m, (value, _) in self.fresh_models.items()}
        self.forgotten = 0

    def _grow_store(self, reserve: int) -> None:
        """Called between two populations only: entries keep their order, and those of fresh features are gone."""
        chain, moved = with_larger_store(self.arrays.chain, self.max_models, reserve)
        self.replace(chain=chain)
        marks = self.arrays.fresh.scalars
        marks["mark"] = moved[: int(marks["mark"])].max(initial=-1) + 1

    def _renew_features(self) -> None:
        """Empty the table of features down to the frozen ones and the model's fresh ones."""
        self.collect()
        self._drain()
        population = self.arrays.population
        places = self.first + np.flatnonzero(population.feature[self.first :] >= 0)
        kept = [self.feature(int(f)) for f in population.feature[places]]
        forget_from(self.table, *self.frozen)
        self._memo = {}
        population.feature[places] = self.numbers(kept)
        if population.shown.shape[1] == 1:
            population.shown[places, 0] = population.feature[places]
        marks = self.arrays.fresh.scalars
        marks["table_mark"], marks["child_mark"] = self.table.scalars["count"], self.table.scalars["children"]
        if not has_room(self.table):
            raise InputError(
                "the features of the library are too wide for the sampler's table; give the space a smaller width or "
                "complexity."
            )

    def collect(self) -> None:
        """Take over the archive of models with fresh features."""
        archive = self.arrays.archive
        for m in range(int(archive.scalars["kept"])):
            if archive.log_posterior[m] < archive.scalars["bar"] and archive.visits[m] == 0:
                continue
            model = frozenset(self.feature(int(f)) for f in archive.features[m, : archive.size[m]])
            value, visits = self.fresh_models.get(model, (float(archive.log_posterior[m]), 0))
            self.fresh_models[model] = (value, visits + int(archive.visits[m]))
        self.forgotten += int(archive.scalars["forgotten"])
        archive.scalars["kept"] = archive.scalars["forgotten"] = 0
        archive.slots[:] = 0

    def close(self) -> None:
        """End the run: models with fresh features are known by their features."""
        self.work(FINISH)
        self._drain()
        self.collect()

    @property
    def best(self) -> float:
        """Highest log posterior met."""
        inside = self.library_models()[1].max(initial=-np.inf)
        return float(max([inside, *(value for value, _ in self.fresh_models.values())]))

    @property
    def distinct(self) -> int:
        """Distinct models met."""
        return int(self.arrays.chain.store.scalars["count"] + self.arrays.archive.scalars["distinct"])

    def best_library_models(self, count: int) -> dict[Model, float]:
        """The best models inside the library, with their log posterior."""
        words, values, _ = self.library_models()
        best = np.argsort(-values, kind="stable")[:count]
        return {self.model_of(words[m]): float(values[m]) for m in best}

    def best_library_model(self) -> dict[Model, float]:
        """The best model inside the library that was met before the present population; quickly."""
        store = self.arrays.chain.store
        values = store.log_posterior[: int(self.arrays.fresh.scalars["mark"])]
        if not len(values):
            return {}
        m = int(np.argmax(values))
        return {self.model_of(store.words[m, : self.first // 64]): float(values[m])}

    def model_of(self, words: np.ndarray) -> Model:
        """The features of a model inside the library."""
        return frozenset(self.library[j] for j in members_of(words))

    def library_models(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Words, log posterior and visits of the models inside the library."""
        store = self.arrays.chain.store
        count = int(store.scalars["count"])
        words = store.words[:count]
        plain = (words[:, self.first // 64 :] == 0).all(axis=1) & np.isfinite(store.log_posterior[:count])
        return words[plain, : self.first // 64], store.log_posterior[:count][plain], store.visits[:count][plain]

    def constants_of(self, features: Sequence[Expression]) -> dict[Expression, np.ndarray]:
        """Constants that are fitted inside these features."""
        found: dict[Expression, np.ndarray] = {}
        self.collect_constants(self.numbers(features).tolist(), found)
        return found

    def begin_at(self, features: Sequence[Expression]) -> None:
        """First model of the chain, of library features."""
        self.start[:] = 0
        self.start[0, [self.library.index(f) for f in features]] = 1

    def recipe(self) -> Mapping[str, Any]:
        """Arguments of the class, besides the problem and the random stream."""
        names = ("library", "importance", "settings", "memory", "screened")
        return {name: getattr(self, name) for name in names}

    def snapshot(self) -> Snapshot:
        """The chain between two batches; what its problem and its library give is left out."""
        arrays, numbers = self.arrays, stored.FeatureNumbers()
        # Named first, so that the numbers are given before the texts are written.
        models = stored.counted_arrays(self.fresh_models, numbers)
        stays = stored.stay_arrays([*self.stays, self._pending], numbers)
        draws = stored.model_arrays([model for model, _ in self.draws], numbers)
        return (
            under("chain", chain_arrays(arrays.chain))
            | under("table", stored.table_arrays(arrays.table, self.frozen[0]))
            | under("archive", stored.archive_arrays(arrays.archive))
            | under("recalled", flatten(arrays.between.recalled, ("slots",)))
            | under("fresh", scalar_arrays(arrays.fresh.scalars))
            | under("fresh_models", models)
            | under("stays", stays)
            | under("draws", draws | {"value": np.array([value for _, value in self.draws], np.float64)})
            | batch_arrays(self.batch, self.means, len(self.library))
            | {"places": arrays.population.feature[self.first :].copy(), "start": self.start.copy()}
            | {"tried": arrays.between.tried.copy(), "forgotten": np.array(self.forgotten)}
            | {"threshold": arrays.moves.threshold.copy(), "alias": arrays.moves.alias.copy()}
            | {"features": numbers.array()}
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Resume from where a chain of the same problem and library was when the snapshot was taken."""
        reader, arrays = Reader(snapshot), self.arrays
        stored.fill_table(reader.under("table"), self.language, arrays.space, arrays.table, *self.frozen)
        # Columns belong to numbers of features, which have come to mean others.
        self._memo = {}
        self.forget_columns()
        self.restore_places(reader, "places", self.first)
        most = max(self.max_models, MOST_CAPACITY)
        room = len(arrays.chain.state.cols)
        chain = read_chain(reader.under("chain"), arrays.chain, arrays.data.glm, most, room)
        outside = _words_outside(len(self.library), self.first)
        reader.need(not (chain.store.words[:, : len(outside)] & outside).any(), "chain/store/words")
        stored.fill_archive(reader.under("archive"), arrays.archive, int(arrays.table.scalars["count"]))
        self.batch, self.means = read_batches(reader, MAX_BATCHES, len(self.library))
        reader.into("start", self.start, (0, 2))
        reader.into("tried", arrays.between.tried)
        alias = reader.like("alias", arrays.moves.alias, (0, len(arrays.moves.alias)))
        moves = arrays.moves._replace(threshold=reader.like("threshold", arrays.moves.threshold), alias=alias)
        recalled = read_list(reader.under("recalled"), chain.store.words.shape[1])
        self.replace(chain=chain, moves=moves, between=arrays.between._replace(recalled=recalled))
        self._restore_fresh(reader)

    def _restore_fresh(self, reader: Reader) -> None:
        """What the chain knows of its fresh features: counts, models, stays."""
        now, table = self.arrays.fresh.scalars, self.table.scalars
        marks = reader.under("fresh").scalars(now)
        reader.need(min(marks.tolist()) >= 0 and marks["frozen"] == now["frozen"], "fresh")
        reader.need(marks["mark"] <= self.arrays.chain.store.scalars["count"] and marks["logged"] == 0, "fresh")
        reader.need(self.frozen[0] <= marks["table_mark"] <= table["count"], "fresh")
        reader.need(self.frozen[1] <= marks["child_mark"] <= table["children"], "fresh")
        now[...] = marks
        features = stored.read_features(reader, "features", self.language)
        self.fresh_models = stored.read_counted(reader.under("fresh_models"), features)
        *self.stays, self._pending = stored.read_stays(reader.under("stays"), features)
        draws = reader.under("draws")
        models = stored.read_models(draws, features)
        self.draws = list(zip(models, draws.array("value", np.float64, (len(models),)).tolist(), strict=True))
        reader.need(len(self.stays) == len(self.draws) == len(self.means), "stays")
        self.forgotten = reader.whole("forgotten", 0, 1 << 62)


def _words_outside(library: int, first: int) -> np.ndarray:
    """Bits of the places that a library of so many features leaves empty before the first place for fresh features."""
    words = np.zeros(first // 64, np.uint64)
    for place in range(library, first):
        words[place >> 6] |= np.uint64(1) << np.uint64(place & 63)
    return words
