"""One chain of RGMJMCMC from the outside: its arrays, its growth, its batches, and what its guests were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.core.handles import scalars_of
from modejump.core.random import alias_table, new_stream
from modejump.features.fresh import Fresh, spread_edits
from modejump.features.nonlinear.expression import Feature
from modejump.features.table import COVARIATE, MODIFICATION, PRODUCT, PROJECTION
from modejump.kernels.chain import Chain, new_record
from modejump.kernels.moves import KERNELS, MAX_FLIPS, Moves
from modejump.kernels.populations.archive import Archive, new_archive
from modejump.kernels.populations.fresh_features import Guests
from modejump.kernels.populations.moves import POPULATION_MOVES, Between
from modejump.kernels.populations.reversible import (
    DONE,
    WANT_FEATURES,
    WANT_STORE,
    cut,
    finish,
    furnish,
    has_room,
    sample,
    settle_numbers,
)
from modejump.kernels.state import new_state, new_work
from modejump.kernels.store import bytes_per_model, new_store
from modejump.problem.feature_problem import FeatureProblem, FeatureTable
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
from modejump.samplers.chains import feature_snapshots as kept
from modejump.samplers.chains.draws import Draw, draw_arrays, draw_of, halved_draws, read_draws
from modejump.samplers.chains.genetic_chain import SPAN
from modejump.samplers.chains.mjmcmc_chain import MAX_BATCHES, MOST_CAPACITY, forget_visits, halved, with_larger_store
from modejump.samplers.laws import Collected
from modejump.samplers.mixture import flip_weights, partner_tables
from modejump.samplers.populations import Library, Populations, no_list, read_list, recall_list
from modejump.samplers.result import members_of

FEATURES = 1 << 16
# Edits of library features in the table of fresh features, at most.
TABLE = 12_000
# Stays of guests that the log has room for.
LOG = 1 << 15
FIRST_CAPACITY = 8192
# Guest models kept in a chain's archive.
GUEST_MODELS = 20_000
# Share of flips that try the places of guests.
GUEST_SHARE = 0.15
MOST_COLUMNS = 4096
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


class ReversibleChain(FeatureTable):
    """A chain of the reversible sampler with all its arrays.

    Parameters
    ----------
    problem : FeatureProblem
        The target.
    library : Library
        The frozen features.
    seed : SeedSequence
        The chain's own stream.
    settings : Populations
        Populations and moves between them.
    memory : int
        Bytes for the chain's cache of models.
    """

    def __init__(
        self,
        problem: FeatureProblem,
        library: Library,
        seed: np.random.SeedSequence,
        settings: Populations,
        memory: int,
    ) -> None:
        super().__init__(problem, FEATURES)
        self.settings, self.library, self.memory = settings, library, memory
        self.first = 64 * max(1, -(-len(library.features) // 64))
        size = problem.space.size
        # Twice the model for both ends of a literal move, and far more than a Poisson number of guests.
        places = self.first + 64 * -(-(2 * size + settings.generated + 40) // 64)
        rows = problem.x.shape[1]
        self.population_steps = settings.length(places, rows)
        self.data, self.population = self.new_places(places, most=2 * size)
        self.pool = self.new_pool(int(np.clip(memory // (16 * rows), 16, MOST_COLUMNS)))
        self.declared = problem.declared()
        self._furnish()
        self.guests = self._new_guests(places)
        self.between = self._new_between(places)
        self.moves = self._new_moves(places, library.importance)
        self.start = np.zeros(places, np.uint8)
        self.chain = self._new_chain(places, new_stream(seed))
        self.archive: Archive = new_archive(GUEST_MODELS, size, 1 << 16, SPAN)
        words = self.chain.store.words.shape[1]
        self.max_models = max(FIRST_CAPACITY, memory // (2 * bytes_per_model(words)))
        self.batch = 0
        self.means: list[np.ndarray] = []
        self.stays: list[dict[Feature, float]] = []
        self.draws: list[Draw] = []
        self._pending: dict[Feature, float] = {}
        self.guest_models: dict[frozenset[Feature], tuple[float, int]] = {}
        self.forgotten = 0

    def _furnish(self) -> None:
        """Columns and Gram matrix of the library."""
        numbers = self.numbers(self.library.features)
        usable = np.zeros(len(numbers), np.bool_)
        furnish(self.data, self.arena, self.pool, self.population, numbers, usable)
        if not usable.all():
            bad = self.library.features[int(np.argmin(usable))]
            raise InputError(f"the library feature {bad.text!r} is constant or not finite; leave it out.")
        self.places = numbers

    def _new_guests(self, places: int) -> Guests:
        """Guests' arrays; the table of edits is made from the library, more from its important features."""
        p = np.clip(self.library.importance, 0.0, 1.0)
        parents = np.argsort(-p, kind="stable")
        weight = p[parents] + 0.2 * p.sum() / max(len(p), 1) + 1e-6
        table = np.zeros(TABLE, np.int64)
        probability = np.zeros(len(self.arena.kind) * 3 // 4)
        found, used = spread_edits(
            self.arena, self.declared, self.places[parents], weight / weight.sum(), table, probability
        )
        frozen = int(self.arena.scalars["count"])
        total = probability.sum()
        share = self.settings.table if total > 0 else 0.0
        probability = probability[:frozen] / (total if total > 0 else 1.0)
        table = table[:found] if found else np.zeros(1, np.int64)
        threshold, alias = alias_table(probability[table] if found else np.ones(1))
        place_of = np.zeros(frozen, np.int32)
        place_of[self.places] = np.arange(1, len(self.places) + 1)
        children = int(self.arena.scalars["children"])
        self.frozen = (frozen, children)
        fresh = Fresh(self._grammar(), 0.35, share, table, threshold, alias, probability)
        return Guests(
            fresh,
            place_of,
            np.zeros(places),
            np.zeros(LOG, np.int64),
            np.zeros(LOG),
            scalars_of(
                left=0, mark=0, table_mark=frozen, child_mark=children, logged=0, populations=0, referred=0,
                frozen=frozen,
            ),
            self.first,
            float(self.settings.rate),
        )  # fmt: skip

    def _grammar(self) -> np.ndarray:
        """Probabilities of the kinds of features."""
        space, kinds = self.problem.space, np.zeros(4)
        kinds[COVARIATE] = 0.45
        kinds[PRODUCT] = 0.3 if space.width > 1 else 0.0
        if self.problem.transforms:
            kinds[MODIFICATION] = 0.25
            kinds[PROJECTION] = 0.15 if space.projection > 0 else 0.0
        return kinds / kinds.sum()

    def _new_between(self, places: int) -> Between:
        return Between(
            self.settings.cumulative(),
            np.zeros(places, np.uint8),
            np.zeros(places, np.uint8),
            np.zeros(places, np.int64),
            np.zeros((len(POPULATION_MOVES), 3), np.int64),
            int(self.settings.generated),
            float(self.settings.rho),
            float(self.settings.include),
            no_list(places // 64),
        )

    def flip_table(self, inclusion: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Alias table of flips: library features by what is known of them, all places of guests alike.

        Were the places of guests not alike, the kernel would depend on who came when, that is, on the past.
        """
        places, known = len(self.population.feature), len(self.library.features)
        weight = np.zeros(places)
        weight[:known] = flip_weights(inclusion) if known else 0.0
        weight[self.first :] = GUEST_SHARE / (places - self.first)
        return alias_table(weight)

    def _new_moves(self, places: int, inclusion: np.ndarray) -> Moves:
        """Kernel mixture inside a population."""
        given = self.settings.kernels or KERNEL_WEIGHTS
        weights = np.array([float(given.get(name, 0.0)) for name in KERNELS])
        known = len(self.library.features)
        partner, cdf, ratio = partner_tables(self.data.gram[:known, :known], np.arange(known + 1), inclusion)
        width = partner.shape[1]
        # A place without partners names itself, which a model that holds it refuses.
        all_partner = np.repeat(np.arange(places)[:, None], width, axis=1)
        all_cdf, all_ratio = np.ones((places, width)), np.full((places, width), -np.inf)
        all_partner[:known], all_cdf[:known], all_ratio[:known] = partner, cdf, ratio
        threshold, alias = self.flip_table(inclusion)
        return Moves(
            np.cumsum(weights / weights.sum()),
            threshold,
            alias,
            all_partner,
            all_cdf,
            all_ratio,
            1.0 / places,
            min(4, places),
            int(self.settings.search),
            2.0,
            1,
        )

    def _new_chain(self, places: int, stream: np.ndarray) -> Chain:
        room = places + MAX_FLIPS
        return Chain(
            new_state(places, places, room),
            new_state(places, places, room),
            new_state(places, places, room),
            new_work(room, MAX_FLIPS, places, self.data.glm),
            new_store(FIRST_CAPACITY, places // 64),
            new_record(places),
            stream,
            np.zeros(places, np.uint8),
            np.zeros(places, np.int64),
            np.zeros(MAX_FLIPS, np.int64),
        )

    def advance(self, steps: int) -> None:
        """Exactly so many steps; arrays grow, and are emptied, between populations."""
        while steps > 0:
            reserve = min(8 * self.population_steps + 2048, FIRST_CAPACITY // 2)
            done, reason = sample(
                self.data, self.chain, self.moves, self.arena, self.pool, self.population, self.guests, self.between,
                self.declared, self.archive, self.start, steps, self.population_steps, reserve,
            )  # fmt: skip
            steps -= done
            if reason == WANT_STORE:
                self._grow_store(reserve)
            elif reason == WANT_FEATURES:
                self._renew_features()
            self._drain()
            if reason == DONE:
                break

    def _drain(self) -> None:
        """Take the log of guests' stays."""
        logged = int(self.guests.scalars["logged"])
        for f, steps in zip(self.guests.log_feature[:logged], self.guests.log_steps[:logged], strict=True):
            feature = self.feature(int(f))
            self._pending[feature] = self._pending.get(feature, 0.0) + float(steps)
        self.guests.scalars["logged"] = 0

    def run_batches(self, count: int) -> None:
        """Sampling: full batches, with the means of library features and the stays of guests kept."""
        for _ in range(count):
            self.advance(self.batch)
            inside = self.chain.record.inside
            self.means.append(inside[: len(self.library.features)] / self.batch)
            self.stays.append(self._pending)
            self.draws.append(draw_of(self))
            self._pending = {}
            inside[:] = 0.0
            if len(self.means) == MAX_BATCHES:
                self.merge_batches()

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
        self.draws = halved_draws(self.draws, len(merged))
        self.batch *= 2

    def warm_up(self, steps: int) -> np.ndarray:
        """Steps that do not count; returns the library features' shares of them."""
        self.advance(steps)
        inside = self.chain.record.inside
        share = inside[: len(self.library.features)] / steps
        inside[:] = 0.0
        self._pending = {}
        return share

    def learn(self, inclusion: np.ndarray) -> None:
        """Flips try uncertain features more often."""
        threshold, alias = self.flip_table(inclusion)
        self.moves = self.moves._replace(threshold=threshold, alias=alias)

    def recall(self, models: Collected) -> None:
        """Freeze the list of models that the chain may recall: the best of those inside the library."""
        listed = recall_list(self.library, models, self.data.zobrist, self.chain.store.words.shape[1])
        if listed is not None:
            self.between = self.between._replace(recalled=listed)

    def forget_warmup(self) -> None:
        """Start to count: nothing of warm-up is kept but the cache and the place."""
        forget_visits(self.chain)
        self.between.tried[:] = 0
        self.archive.visits[:] = 0
        self.archive.scalars["forgotten"] = 0
        self.guest_models = {m: (value, 0) for m, (value, _) in self.guest_models.items()}
        self.forgotten = 0

    def _grow_store(self, reserve: int) -> None:
        """Called between two populations only: entries keep their order, and those of guests are gone."""
        self.chain, moved = with_larger_store(self.chain, self.max_models, reserve)
        self.guests.scalars["mark"] = moved[: int(self.guests.scalars["mark"])].max(initial=-1) + 1

    def _renew_features(self) -> None:
        """Empty the table of features down to the frozen ones and the model's guests."""
        self.collect()
        self._drain()
        places = [p for p in range(self.first, len(self.population.feature)) if self.population.feature[p] >= 0]
        kept = [self.feature(int(self.population.feature[p])) for p in places]
        cut(self.arena, *self.frozen)
        self._memo = {}
        self.population.feature[places] = self.numbers(kept)
        if self.population.shown.shape[1] == 1:
            self.population.shown[places, 0] = self.population.feature[places]
        marks = self.guests.scalars
        marks["table_mark"], marks["child_mark"] = self.arena.scalars["count"], self.arena.scalars["children"]
        if not has_room(self.arena):
            raise InputError(
                "the features of the library are too wide for the sampler's table; give the space a smaller width or "
                "complexity."
            )

    def collect(self) -> None:
        """Take over the archive of models with guests."""
        archive = self.archive
        for m in range(int(archive.scalars["kept"])):
            if archive.log_posterior[m] < archive.scalars["bar"] and archive.visits[m] == 0:
                continue
            model = frozenset(self.feature(int(f)) for f in archive.features[m, : archive.size[m]])
            value, visits = self.guest_models.get(model, (float(archive.log_posterior[m]), 0))
            self.guest_models[model] = (value, visits + int(archive.visits[m]))
        self.forgotten += int(archive.scalars["forgotten"])
        archive.scalars["kept"] = archive.scalars["forgotten"] = 0
        archive.slots[:] = 0

    def close(self) -> None:
        """End the run: models with guests are known by their features."""
        finish(self.data, self.chain, self.arena, self.population, self.guests, self.between, self.archive)
        self._drain()
        self.collect()

    @property
    def best(self) -> float:
        """Highest log posterior met."""
        inside = self.library_models()[1].max(initial=-np.inf)
        return float(max([inside, *(value for value, _ in self.guest_models.values())]))

    @property
    def distinct(self) -> int:
        """Distinct models met."""
        return int(self.chain.store.scalars["count"] + self.archive.scalars["distinct"])

    def best_library_models(self, count: int) -> Collected:
        """The best models inside the library, with their log posterior."""
        words, values, _ = self.library_models()
        best = np.argsort(-values, kind="stable")[:count]
        return {self.model_of(words[m]): float(values[m]) for m in best}

    def best_library_model(self) -> Collected:
        """The best model inside the library that was met before the present population; quickly."""
        values = self.chain.store.log_posterior[: int(self.guests.scalars["mark"])]
        if not len(values):
            return {}
        m = int(np.argmax(values))
        return {self.model_of(self.chain.store.words[m, : self.first // 64]): float(values[m])}

    def model_of(self, words: np.ndarray) -> frozenset[Feature]:
        """The features of a model inside the library."""
        return frozenset(self.library.features[j] for j in members_of(words))

    def library_models(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Words, log posterior and visits of the models inside the library."""
        store = self.chain.store
        count = int(store.scalars["count"])
        words = store.words[:count]
        plain = (words[:, self.first // 64 :] == 0).all(axis=1) & np.isfinite(store.log_posterior[:count])
        return words[plain, : self.first // 64], store.log_posterior[:count][plain], store.visits[:count][plain]

    def alphas_of(self, features: Sequence[Feature]) -> dict[Feature, np.ndarray]:
        """Coefficients of all projections inside these features."""
        found: dict[Feature, np.ndarray] = {}
        if self.problem.space.projection > 0.0:
            numbers = self.numbers(features)
            settle_numbers(self.arena, self.pool, numbers)
            for f in numbers:
                self.collect_alphas(int(f), found)
        return found

    def begin_at(self, features: Sequence[Feature]) -> None:
        """First model of the chain, of library features."""
        position = {f: i for i, f in enumerate(self.library.features)}
        self.start[:] = 0
        for f in features:
            self.start[position[f]] = 1

    def recipe(self) -> Mapping[str, Any]:
        """Arguments of the class, besides the problem and the random stream."""
        return {"library": self.library, "settings": self.settings, "memory": self.memory}

    def snapshot(self) -> Snapshot:
        """The chain between two batches; what its problem and its library give is left out."""
        numbers = kept.FeatureNumbers()
        # Named first, so that the numbers are given before the texts are written.
        models = kept.counted_arrays(self.guest_models, numbers)
        stays = kept.stay_arrays([*self.stays, self._pending], numbers)
        draws = draw_arrays(self.draws, numbers)
        return (
            under("chain", chain_arrays(self.chain))
            | under("arena", kept.arena_arrays(self.arena, *self.frozen))
            | under("population", kept.population_arrays(self.data, self.population, self.first))
            | under("archive", kept.archive_arrays(self.archive))
            | under("between", flatten(self.between, ("cumulative", "generated", "rho", "include", "slots")))
            | under("guest_models", models)
            | under("stays", stays)
            | under("draws", draws)
            | batch_arrays(self.batch, self.means, len(self.library.features))
            | {"boost": self.guests.boost.copy(), "start": self.start.copy()}
            | under("guests", scalar_arrays(self.guests.scalars))
            | {"threshold": self.moves.threshold.copy(), "alias": self.moves.alias.copy()}
            | {"features": numbers.array(), "forgotten": np.array(self.forgotten)}
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from where a chain of the same problem and library was when the snapshot was taken."""
        reader = Reader(snapshot)
        # Columns belong to numbers of features, which may come to mean others.
        cut(self.arena, *self.frozen)
        self.pool.owner[:] = self.population.feature[self.first :] = -1
        self.pool.slot[:] = self.archive.slots[:] = self.archive.seen[:] = 0
        self.fill_arena(reader.under("arena"), *self.frozen)
        kept.fill_population(
            reader.under("population"), self.data, self.population, self.arena, self.problem.space.depth, self.first
        )
        most = max(self.max_models, MOST_CAPACITY)
        self.chain = read_chain(reader.under("chain"), self.chain, self.data.glm, most, len(self.chain.state.cols))
        outside = kept.places_outside(len(self.library.features), self.first)
        reader.need(not (self.chain.store.words[:, : len(outside)] & outside).any(), "chain/store/words")
        kept.fill_archive(reader.under("archive"), self.archive, int(self.arena.scalars["count"]))
        self.batch, self.means = read_batches(reader, MAX_BATCHES, len(self.library.features))
        reader.into("start", self.start, (0, 2))
        self._restore_moves(reader)
        self._restore_guests(reader)

    def _restore_moves(self, reader: Reader) -> None:
        """Flip weights, and the moves between populations with their list of models to recall."""
        moves, between = self.moves, reader.under("between")
        alias = reader.like("alias", moves.alias, (0, len(moves.alias)))
        self.moves = moves._replace(threshold=reader.like("threshold", moves.threshold), alias=alias)
        for name, high in (("active", 2), ("also", 2), ("listed", len(moves.alias))):
            between.into(name, getattr(self.between, name), (0, high))
        between.into("tried", self.between.tried)
        self.between = self.between._replace(recalled=read_list(between.under("recalled"), len(moves.alias) // 64))

    def _restore_guests(self, reader: Reader) -> None:
        """What the chain knows of its guests: counts, boosts, models, stays."""
        marks, before = reader.under("guests").scalars(self.guests.scalars), int(self.guests.scalars["frozen"])
        reader.need(all(marks[name] >= 0 for name in marks.dtype.names) and marks["frozen"] == before, "guests")
        reader.need(marks["mark"] <= self.chain.store.scalars["count"] and marks["logged"] == 0, "guests")
        reader.need(before <= marks["table_mark"] <= self.arena.scalars["count"], "guests")
        reader.need(self.frozen[1] <= marks["child_mark"] <= self.arena.scalars["children"], "guests")
        self.guests.scalars[...] = marks
        reader.into("boost", self.guests.boost)
        features = kept.read_features(reader, "features", self.problem.names, self.problem.space)
        self.guest_models = kept.read_counted(reader.under("guest_models"), features)
        stays = kept.read_stays(reader.under("stays"), features)
        reader.need(len(stays) == len(self.means) + 1, "stays")
        *self.stays, self._pending = stays
        self.draws = read_draws(reader.under("draws"), features)
        reader.need(len(self.draws) == len(self.means), "draws")
        self.forgotten = reader.whole("forgotten", 0, 1 << 62)
