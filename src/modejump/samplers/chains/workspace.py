"""The arrays of a chain over features, and what its numbers stand for outside of compiled code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from modejump.core.handles import Handle, scalars_of
from modejump.core.random import alias_table
from modejump.features.distribution import FeatureDistribution
from modejump.features.expression import Expression
from modejump.features.table import FeatureTable, enter_nodes, new_table
from modejump.kernels.chain import new_chain
from modejump.kernels.moves import JUMP_GREEDY, MAX_FLIPS, Moves
from modejump.kernels.populations.archive import new_archive
from modejump.kernels.populations.between import Between
from modejump.kernels.populations.edit_scores import EditScores
from modejump.kernels.populations.evolve import new_evolution
from modejump.kernels.populations.feature_chain import RESTORE_PLACES, SETTLE, FeatureChain, work
from modejump.kernels.populations.fresh_features import FreshFeatures
from modejump.kernels.populations.genetic import Genetic
from modejump.kernels.populations.moves import POPULATION_MOVES
from modejump.kernels.populations.population import Population
from modejump.kernels.state import word_count
from modejump.problem.feature_problem import FeatureProblem
from modejump.problem.law_constants import fitting_of
from modejump.problem.problem import ProblemData
from modejump.runtime.snapshots import Reader
from modejump.samplers.chains.recall import no_list
from modejump.samplers.settings import Sampler
from modejump.samplers.warmup.adaptation import new_moves

_NONE = np.zeros(0, np.int64)
_NO_MODELS, _NO_VALUES = np.zeros((1, 0), np.uint8), np.zeros(0)


class Workspace:
    """Arrays of a chain over features with room for so much.

    Parameters
    ----------
    problem : FeatureProblem
        The target.
    places : int
        Features of a population.
    features : int
        Features that the table has room for.
    columns : int
        Columns that are kept for later use.
    models : int
        Models that the store has room for.
    most : int, optional
        Columns of a model that can be evaluated, where that is less than the places.
    archive : tuple of (int, int, float)
        Models that the archive has room for, distinct models that it can count, and how far below the best one a model
        may be to be kept.
    stream : ndarray of four words, optional
        The chain's random stream.
    scored : int
        Models whose edits are scored.
    space : named tuple, optional
        The language's space, where warm-up has said how features are drawn from it.
    """

    def __init__(
        self,
        problem: FeatureProblem,
        places: int,
        *,
        features: int,
        columns: int,
        models: int,
        most: int | None = None,
        archive: tuple[int, int, float] = (1, 1, np.inf),
        stream: np.ndarray | None = None,
        scored: int = 0,
        space: Any = None,
    ) -> None:
        self.problem, self.language = problem, problem.language
        # C functions that compiled code calls live as long as the chain.
        self._alive: list[Any] = []
        self._memo: dict[int, Expression] = {}
        table = new_table(features)
        fitting = fitting_of(problem) if self.language.joint_constants else None
        pool, alive = self.language.new_pool(problem.x, problem.y, problem.root_weight, features, columns, fitting)
        self._alive.append(alive)
        space = self.language.space() if space is None else space
        data, population = self._new_places(places, most)
        capacity, seen, span = archive
        stamps = features if scored else 0
        self.arrays = FeatureChain(
            data=data,
            chain=new_chain(
                places,
                places,
                data.glm,
                np.zeros(4, np.uint64) if stream is None else stream,
                widest=MAX_FLIPS,
                room=places + MAX_FLIPS,
                models=models,
            ),
            moves=uniform_moves(places),
            space=space,
            table=table,
            pool=pool,
            population=population,
            archive=new_archive(capacity, problem.size, seen, span),
            genetic=new_genetic(places, len(space.cumulative)),
            evolution=new_evolution(places, 0, 0, 0, 0),
            fresh=_no_fresh(places),
            between=_no_moves(places),
            scores=EditScores(
                score=np.full(stamps, -np.inf),
                stamp=np.zeros(stamps, np.int64),
                best_value=np.full(scored, -np.inf),
                best_edit=np.zeros((scored, 3), np.int64),
            ),
            scalars=scalars_of(steps=0, population_steps=0, reserve=0, limit=0, done=0, reason=0),
        )
        self._handle: Handle | None = None
        if problem.refined:
            self._give_constants(problem.refined)

    def _give_constants(self, refined: Mapping[Expression, np.ndarray]) -> None:
        """Tell compiled code the constants of some features, by their keys."""
        features, given = sorted(refined), np.zeros((len(refined), self.language.joint_constants))
        for i, f in enumerate(features):
            given[i, : f.constants] = refined[f]
        pool: Any = self.arrays.pool
        keys = self.table.key[self.numbers(features)]
        self.replace(pool=pool._replace(refined_key=keys, refined=given), table=new_table(len(self.table.kind)))

    def replace(self, **parts: Any) -> None:
        """Put other arrays in the place of some."""
        self.arrays = self.arrays._replace(**parts)
        self._handle = None

    def work(
        self,
        task: int,
        numbers: np.ndarray = _NONE,
        models: np.ndarray = _NO_MODELS,
        values: np.ndarray = _NO_VALUES,
        **asked: int,
    ) -> tuple[int, int]:
        """Do a task of `modejump.kernels.populations.feature_chain`; how much was done, and why it stopped."""
        if self._handle is None:
            self._handle = Handle(self.arrays)
        scalars = self.arrays.scalars
        for name, value in asked.items():
            scalars[name] = value
        work(task, self._handle, numbers, models, values)
        return int(scalars["done"]), int(scalars["reason"])

    def _new_places(self, places: int, most: int | None) -> tuple[ProblemData, Population]:
        """Room for a population: its arrays as a selection problem, and as features."""
        problem = self.problem
        z, glm, shown = np.zeros((places, problem.x.shape[1])), None, np.zeros((places, 0))
        if problem.family.custom:
            # A likelihood of the user's own: it is shown columns, or told the texts of this table's features.
            glm, ask = problem.family.for_features(problem.base_model, z.shape, self.texts)  # type: ignore[attr-defined]
            self._alive.append(ask)
            shown = glm.x
        words = self.language.bit_words(problem.x.shape[1])
        population = Population(
            feature=np.full(places, -1, np.int64),
            z=z,
            basis=problem.basis,
            root_weight=problem.root_weight,
            target=problem.response,
            log_weight=problem.weights_by_complexity(),
            per_spelling=int(problem.model_prior.counts_spellings),
            per_constant=problem.model_prior.log_weight_of_constant(problem.n),
            shown=shown,
            bits=np.zeros((places, words), np.uint64),
            shared=np.zeros((places, len(problem.basis) + 1 if words else 0)),
        )
        return problem.population_data(z, most, glm), population

    @property
    def table(self) -> FeatureTable:
        """The features by number."""
        return self.arrays.table

    def forget_features(self) -> None:
        """Begin with an empty table."""
        self.replace(table=new_table(len(self.table.kind)))
        self._memo = {}
        self.arrays.population.feature[:] = -1
        self.forget_columns()

    def forget_columns(self) -> None:
        """Forget the columns that are kept for later use."""
        self.arrays.pool.owner[:] = -1
        self.arrays.pool.slot[:] = 0

    def restore_places(self, reader: Reader, name: str, first: int) -> None:
        """Put features back into the places of a population from one on, by their numbers; -1 for an empty place."""
        places = len(self.arrays.population.feature)
        numbers = reader.array(name, np.int64, (places - first,), (-1, int(self.table.scalars["count"])))
        present = numbers[numbers >= 0]
        limits = self.arrays.space
        inside = (self.table.depth[present] <= limits.max_depth) & (self.table.width[present] <= limits.max_width)
        reader.need((inside & (self.table.complexity[present] <= limits.max_complexity)).all(), name)
        reader.need(len(np.unique(present)) == len(present), name)
        usable = np.ones(places - first)
        self.work(RESTORE_PLACES, numbers, values=usable, limit=first)
        reader.need(usable.all(), name)

    def feature(self, f: int) -> Expression:
        """The feature of this number."""
        table = self.table
        # By its key: a chain gives the numbers of features that it has forgotten to others.
        key = int(table.key[f])
        if key not in self._memo:
            children = [self.feature(int(c)) for c in table.child[table.start[f] : table.start[f] + table.arity[f]]]
            self._memo[key] = self.language.compose(int(table.kind[f]), int(table.code[f]), children)
        return self._memo[key]

    def texts(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """Texts of the features of these numbers, in the order of the features."""
        return tuple(feature.text for feature in sorted(self.feature(f) for f in numbers))

    def numbers(self, features: Sequence[Expression]) -> np.ndarray:
        """Numbers of features, which are entered into the table where they are new."""
        where: dict[Expression, int] = {}
        nodes: list[tuple[int, int, list[int]]] = []
        rows = [self._add_nodes(f, where, nodes) for f in features]
        numbers = np.full(len(nodes), -1, np.int64)
        enter_nodes(
            self.arrays.space,
            self.table,
            np.array([kind for kind, _, _ in nodes], np.int64),
            np.array([code for _, code, _ in nodes], np.int64),
            np.array([len(below) for _, _, below in nodes], np.int64),
            np.array([c for _, _, below in nodes for c in below], np.int64),
            numbers,
        )
        return numbers[rows]

    def _add_nodes(self, f: Expression, where: dict[Expression, int], nodes: list[tuple[int, int, list[int]]]) -> int:
        """Place of a feature in a list of nodes, to which it is added behind its parts where it is new."""
        if f not in where:
            kind, code, children = self.language.decompose(f)
            nodes.append((kind, code, [self._add_nodes(c, where, nodes) for c in children]))
            where[f] = len(nodes) - 1
        return where[f]

    def collect_constants(self, numbers: Sequence[int], into: dict[Expression, np.ndarray]) -> None:
        """Add the constants that are fitted inside some features, or inside their parts."""
        if not self.language.fits_constants:
            return
        room = self.language.joint_constants
        found = np.full((len(numbers), room), np.nan)
        self.work(SETTLE, np.array(numbers, np.int64), values=found.reshape(-1))
        for f, values in zip(numbers, found, strict=True):
            if not room:
                self._collect_parts(int(f), into)
            elif not np.isnan(values).all():
                feature = self.feature(int(f))
                into[feature] = values[: feature.constants].copy()

    def _collect_parts(self, f: int, into: dict[Expression, np.ndarray]) -> None:
        """Add the constants that the table keeps of a feature and of its parts."""
        table = self.table
        first, arity = int(table.start[f]), int(table.arity[f])
        children = table.child[first : first + arity]
        for c in children:
            self._collect_parts(int(c), into)
        if not np.isnan(table.constant[f]):
            made = self.feature(f)
            slope = {self.feature(int(c)): float(table.slope[first + i]) for i, c in enumerate(children)}
            order = self.language.decompose(made)[2]
            into[made] = np.array([float(table.constant[f]), *(slope[c] for c in order)])


def fitted_constants(problem: FeatureProblem, features: Sequence[Expression]) -> dict[Expression, np.ndarray]:
    """Constants inside features, as the rows of a problem give them."""
    found: dict[Expression, np.ndarray] = {}
    if problem.language.fits_constants:
        nodes = sum(4 * f.complexity for f in features)
        # One place alone would be an array of another layout, for which everything is compiled anew.
        work = Workspace(problem, 2, features=nodes + 1, columns=1, models=1)
        work.collect_constants(work.numbers(features).tolist(), found)
    return found


def all_constants(
    problem: FeatureProblem, features: Sequence[Expression], known: Mapping[Expression, np.ndarray]
) -> dict[Expression, np.ndarray]:
    """Constants inside features: those known, and others from the rows of a problem, in plain NumPy where that is."""
    if problem.language.joint_constants:
        return fitted_constants(problem, features) | dict(known)
    return problem.language.constants(features, problem.table, problem.y, problem.root_weight**2, known)


def uniform_moves(places: int, weights: dict[str, float] | None = None) -> Moves:
    """Kernels inside a population whose places are all alike, by their weights; flips alone by default."""
    partners = np.zeros((places, 0), np.int64), np.zeros((places, 0)), np.zeros((places, 0))
    flips = alias_table(np.ones(places))
    return new_moves(Sampler(), weights or {"flip": 1.0}, flips, partners, jump_max=3, search=20)


def new_genetic(
    places: int, operators: int, steps: int = 0, patience: int = 0, keep_at: float = 0.0, keep_low: float = 0.0
) -> Genetic:
    """Settings of a chain of populations that has not begun."""
    return Genetic(
        inclusion=np.zeros(places),
        best_model=np.zeros(places, np.uint8),
        tried=np.zeros((operators, 2), np.int64),
        scalars=scalars_of(populations=0, stalled=0, restarts=0, started=0, run_best=-np.inf, best=-np.inf),
        keep_at=keep_at,
        keep_low=keep_low,
        patience=patience,
        steps=steps,
    )


def _no_fresh(places: int) -> FreshFeatures:
    """No place for fresh features."""
    none = np.zeros(0)
    q = FeatureDistribution(share=0.0, listed=_NONE, threshold=none, alias=_NONE, probability=none)
    return FreshFeatures(
        q=q,
        place_of=np.zeros(0, np.int32),
        boost=np.zeros(places),
        log_feature=_NONE,
        log_steps=none,
        scalars=scalars_of(left=0, mark=0, table_mark=0, child_mark=0, logged=0, populations=0, referred=0, frozen=0),
        first=places,
        rate=0.0,
    )


def _no_moves(places: int) -> Between:
    """No move between populations."""
    return Between(
        cumulative=np.ones(len(POPULATION_MOVES)),
        active=np.zeros(places, np.uint8),
        also=np.zeros(places, np.uint8),
        listed=np.zeros(places, np.int64),
        tried=np.zeros((len(POPULATION_MOVES), 3), np.int64),
        generated=0,
        rho=0.0,
        search=JUMP_GREEDY,
        include=0.5,
        recalled=no_list(word_count(places)),
    )
