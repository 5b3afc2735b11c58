"""One chain of GMJMCMC from the outside: its arrays, and the translation of its table of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from modejump.features.arena import COVARIATE, MODIFICATION, PRODUCT, PROJECTION, Arena, new_arena
from modejump.features.callbacks import make_callbacks
from modejump.features.columns import ALPHA_ML, ALPHA_ONES, ALPHA_OPTIMISED, ALPHA_RANDOM, ColumnPool, new_pool
from modejump.features.edits import SpaceArrays
from modejump.features.expression import Feature
from modejump.features.space import Space
from modejump.features.transforms import Transform
from modejump.kernels.archive import KEPT, Archive, new_archive
from modejump.kernels.chain import Chain, new_record
from modejump.kernels.evolve import ARENA_FULL, POPULATIONS, STARTED, Genetic, evolve
from modejump.kernels.moves import KERNELS, MAX_FLIPS, Moves
from modejump.kernels.population import EMPTY_WEIGHT, Population
from modejump.kernels.rng import alias_table, new_stream
from modejump.kernels.state import new_state, new_work
from modejump.kernels.store import new_store
from modejump.likelihoods.gaussian import make_table
from modejump.priors import codes
from modejump.priors.coefficients import CoefPrior
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.kernels import ModelPriorArrays
from modejump.problem import Columns, ProblemData

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
_ALPHA_KINDS = {"ml": ALPHA_ML, "ones": ALPHA_ONES, "random": ALPHA_RANDOM, "optimised": ALPHA_OPTIMISED}


@dataclass(frozen=True, eq=False)
class FeatureProblem:
    """A Gaussian problem over a space of features.

    Attributes
    ----------
    names : tuple of str
        Columns, in the order of ``x``.
    x : ndarray of shape (columns, n)
        Covariates, one row each.
    y : ndarray of shape (n,)
        Response as given.
    response : ndarray of shape (1, n)
        Weighted response without the base, of unit length.
    basis : ndarray of shape (b, n)
        Orthonormal basis of the weighted base.
    root_weight : ndarray of shape (n,)
        Square roots of the case weights.
    n, base_rss : float
        Observations, and RSS of the base model.
    transforms : tuple of Transform
        G.
    space : Space
        Limits and operator weights.
    coef_prior, model_prior : CoefPrior, ComplexityPrior
        The priors.
    """

    names: tuple[str, ...]
    x: np.ndarray
    y: np.ndarray
    response: np.ndarray
    basis: np.ndarray
    root_weight: np.ndarray
    n: float
    base_rss: float
    transforms: tuple[Transform, ...]
    space: Space
    coef_prior: CoefPrior
    model_prior: ComplexityPrior

    def population_data(self, z: np.ndarray) -> ProblemData:
        """Arrays of a selection problem with one place for each row of ``z``."""
        s, n = z.shape
        base = self.basis.shape[0]
        log_size = np.full(s + 1, -np.inf)
        log_size[: min(self.space.size, s) + 1] = 0.0
        none = np.zeros(s + 1, np.int64)
        prior = ModelPriorArrays(
            log_size, np.full(s, EMPTY_WEIGHT), 0, none, np.zeros(0, np.int64), none, np.zeros(0, np.int64)
        )
        columns = Columns(
            z.T, np.zeros((n, 0)), np.zeros((0, s)), np.ones(s), np.ones(n), np.ascontiguousarray(self.response[0])
        )
        par = self.coef_prior.parameters(self.n, self.base_rss)
        max_cols = min(s, max(int(np.ceil(self.n)) - base - 1, 0))
        code = self.coef_prior.code
        return ProblemData(
            np.zeros((s, s)),
            np.zeros(s),
            np.arange(s + 1, dtype=np.int64),
            code,
            par,
            self.n,
            base,
            max_cols,
            make_table(code, par, self.n, base, max_cols),
            prior,
            columns,
            np.zeros(s, np.uint64),
            float(np.log1p(par[0])) if code == codes.G else 0.0,
        )


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
        np.zeros(4, np.int64),
        np.full(2, -np.inf),
        np.zeros((10, 2), np.int64),
        KEEP_AT,
        KEEP_LOW,
        patience,
        steps,
    )


def _population_chain(s: int, steps: int, stream: np.ndarray) -> Chain:
    """A chain over the places of a population; its store holds what one population evaluates."""
    room = s + MAX_FLIPS
    return Chain(
        new_state(s, s, room),
        new_state(s, s, room),
        new_state(s, s, room),
        new_work(room, MAX_FLIPS, s),
        new_store(4 * steps + 1024, max(1, -(-s // 64))),
        new_record(s),
        stream,
        np.zeros(s, np.uint8),
        np.zeros(s, np.int64),
        np.zeros(MAX_FLIPS, np.int64),
    )


class GeneticChain:
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
        self.problem = problem
        s, n = problem.space.population, problem.x.shape[1]
        slots = int(min(max(memory // (8 * n), s + 8), 4096))
        self.arena: Arena = new_arena(ARENA_FEATURES)
        # The C functions behind users' transforms live as long as the chain.
        callbacks, self._functions = make_callbacks(problem.transforms)
        self.pool: ColumnPool = new_pool(
            problem.x,
            problem.y,
            problem.root_weight,
            self.arena,
            slots,
            problem.space.depth + 4,
            _ALPHA_KINDS[problem.space.alphas],
            callbacks,
            problem.space.projection > 0.0,
        )
        z = np.zeros((s, n))
        self.data = problem.population_data(z)
        self.population = Population(
            np.full(s, -1, np.int64),
            z,
            problem.basis,
            problem.root_weight,
            problem.response,
            np.zeros((s, s)),
            np.zeros(s, np.int64),
            np.zeros(s),
            np.zeros(2, np.int64),
            problem.model_prior.log_a(problem.n),
            int(problem.model_prior.spelling == "trees"),
        )
        self.genetic = _new_genetic(s, steps, patience)
        self.chain = _population_chain(s, steps, new_stream(seed))
        self.moves = population_moves(s)
        self.declared: SpaceArrays = problem.space.compile([t.code for t in problem.transforms], len(problem.names))
        self.archive: Archive = new_archive(archive, problem.space.size, distinct)
        self._memo: dict[int, Feature] = {}
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
        while (left := populations - int(self.genetic.num[POPULATIONS])) > 0:
            if self.run(left) == ARENA_FULL:
                self._renew_arena()

    def _renew_arena(self) -> None:
        """Collect what the archive holds and begin with an empty table; the population starts again."""
        self.collect()
        size = self.problem.space.size
        self.arena = new_arena(len(self.arena.kind))
        self.pool.owner[:] = -1
        self.pool.slot[:] = 0
        self.archive = new_archive(len(self.archive.key), size, len(self.archive.seen) // 2)._replace(
            num=self.archive.num, val=self.archive.val, seen=self.archive.seen
        )
        self.archive.num[KEPT] = 0
        self.genetic.num[STARTED] = 0
        self._memo = {}

    def collect(self) -> None:
        """Add the leading models of the archive, and the alphas of their projections, to what was collected."""
        kept = int(self.archive.num[KEPT])
        values = self.archive.log_posterior[:kept]
        for m in np.argsort(-values, kind="stable")[:MOST_MODELS]:
            if values[m] < values.max() - SPAN:
                break
            ids = [int(f) for f in self.archive.features[m, : self.archive.size[m]]]
            self.collected[frozenset(self.feature(f) for f in ids)] = float(values[m])
            if self.problem.space.projection > 0:
                for f in ids:
                    self.collect_alphas(f, self.alphas)

    def collect_alphas(self, f: int, into: dict[Feature, np.ndarray]) -> None:
        """Add the coefficients of all projections inside a feature."""
        ar = self.arena
        children = ar.child[ar.start[f] : ar.start[f] + ar.arity[f]]
        for c in children:
            self.collect_alphas(int(c), into)
        if int(ar.kind[f]) == PROJECTION:
            made = self.feature(f)
            alpha = {self.feature(int(c)): float(ar.alpha[ar.start[f] + i]) for i, c in enumerate(children)}
            into[made] = np.array([float(ar.alpha0[f]), *(alpha[c] for c in made.children)])

    def feature(self, f: int) -> Feature:
        """The feature behind an index of this chain's table."""
        if f not in self._memo:
            ar = self.arena
            children: Sequence[Feature] = [
                self.feature(int(c)) for c in ar.child[ar.start[f] : ar.start[f] + ar.arity[f]]
            ]
            kind, code = int(ar.kind[f]), int(ar.code[f])
            if kind == COVARIATE:
                made = Feature.covariate(self.problem.names[code])
            elif kind == PRODUCT:
                made = Feature.product(*children)
            else:
                name = next(t.name for t in self.problem.transforms if t.code == code)
                make = Feature.modification if kind == MODIFICATION else Feature.projection
                made = make(name, *children)
            self._memo[f] = made
        return self._memo[f]
