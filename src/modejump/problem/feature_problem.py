"""A problem over a space of features, and the table of features that a chain works with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modejump.core.handles import scalars_of
from modejump.features.fresh import plant
from modejump.features.nonlinear.callbacks import make_callbacks
from modejump.features.nonlinear.columns import (
    ALPHA_ML,
    ALPHA_ONES,
    ALPHA_OPTIMISED,
    ALPHA_RANDOM,
    ColumnPool,
    new_pool,
)
from modejump.features.nonlinear.expression import MAX_COMPLEXITY, Feature
from modejump.features.nonlinear.operators import SpaceArrays
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import Transform
from modejump.features.table import COVARIATE, MODIFICATION, PRODUCT, PROJECTION, Arena, new_arena
from modejump.kernels.populations.population import EMPTY_WEIGHT, Population
from modejump.likelihoods import Family
from modejump.likelihoods.columns import Conjugate, LikelihoodRows
from modejump.likelihoods.glm.newton import Glm
from modejump.priors.coefficients import CoefPrior
from modejump.priors.compiled import weights_only
from modejump.priors.features import FeaturePrior
from modejump.problem.problem import Columns, ProblemData, problem_data
from modejump.runtime.snapshots import Reader
from modejump.samplers.chains.feature_snapshots import fill_arena

_ALPHA_KINDS = {"ml": ALPHA_ML, "ones": ALPHA_ONES, "random": ALPHA_RANDOM, "optimised": ALPHA_OPTIMISED}


@dataclass(frozen=True, eq=False)
class FeatureProblem:
    """A problem over a space of features.

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
    coef_prior, model_prior : CoefPrior, FeaturePrior
        The priors.
    family : Family
        Family of the response.
    base_model : Conjugate, Glm or CustomRows
        What the likelihood needs of the rows, without the columns of features.
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
    model_prior: FeaturePrior
    family: Family
    base_model: LikelihoodRows = Conjugate()

    def glm(self, z: np.ndarray) -> LikelihoodRows:
        """What the likelihood needs of the rows over the columns of a population."""
        if not isinstance(self.base_model, Glm):
            return self.base_model
        unroot = np.zeros(0) if self.base_model.unit else 1.0 / self.root_weight
        return self.base_model._replace(x=z, unroot=unroot)

    @property
    def weights(self) -> np.ndarray | None:
        """Case weights; None where all are one."""
        if (self.root_weight == 1.0).all():
            return None
        # A square of a root is not the number itself, and a function of the user's own is told that.
        return self.root_weight**2 if isinstance(self.base_model, Conjugate) else self.base_model.weight

    @property
    def offset(self) -> np.ndarray | None:
        """The known part of the linear predictor; None where there is none."""
        return self.base_model.offset if isinstance(self.base_model, Glm) and self.base_model.offset.any() else None

    def covariates(self) -> list[Feature]:
        """The columns that vary, as features."""
        varies = np.ptp(self.x, axis=1) > 0.0
        return [Feature.covariate(name) for name, some in zip(self.names, varies, strict=True) if some]

    def log_weights(self, features: Sequence[Feature]) -> np.ndarray:
        """Log prior weight of each of some features."""
        return self.model_prior.log_weights_of(features, self.n, len(self.names))

    def declared(self) -> SpaceArrays:
        """The space as compiled code reads it."""
        return self.space.compile([t.code for t in self.transforms], len(self.names))

    def new_population(self, z: np.ndarray, shown: np.ndarray | None = None) -> Population:
        """An empty population with one place for each row of ``z``.

        ``shown`` has a row for each place, too: what a likelihood of the user's own is shown of the features.
        """
        s = len(z)
        return Population(
            np.full(s, -1, np.int64),
            z,
            self.basis,
            self.root_weight,
            self.response,
            np.zeros((s, s)),
            np.zeros(s, np.int64),
            np.zeros(s),
            scalars_of(factored=0),
            self.model_prior.log_weights(self.n, MAX_COMPLEXITY, len(self.names)),
            int(self.model_prior.counts_spellings),
            np.zeros((s, 0)) if shown is None else shown,
        )

    def population_data(self, z: np.ndarray, most: int | None = None, glm: LikelihoodRows | None = None) -> ProblemData:
        """Arrays of a selection problem with one place for each row of ``z``.

        ``most`` bounds the columns of a model that can be evaluated, where that is less than the places. ``glm`` is
        the model of the columns where it is not one of ``z``.
        """
        s, n = z.shape
        return problem_data(
            gram=np.zeros((s, s)),
            corr=np.zeros(s),
            first=np.arange(s + 1, dtype=np.int64),
            coef_prior=self.coef_prior,
            model_prior=weights_only(np.full(s, EMPTY_WEIGHT), min(self.space.size, s)),
            columns=Columns(
                z.T, np.zeros((n, 0)), np.zeros((0, s)), np.ones(s), np.ones(n), np.ascontiguousarray(self.response[0])
            ),
            glm=self.glm(z) if glm is None else glm,
            n=self.n,
            base=self.basis.shape[0],
            base_rss=self.base_rss,
            most=most,
            zobrist=np.zeros(s, np.uint64),
        )


class FeatureTable:
    """The features that one chain knows, by number, and what they are to the world outside.

    Parameters
    ----------
    problem : FeatureProblem
        Names of the columns, and G.
    capacity : int
        Room for so many features.
    """

    def __init__(self, problem: FeatureProblem, capacity: int) -> None:
        self.problem = problem
        self.arena: Arena = new_arena(capacity)
        # The C functions behind users' transforms live as long as the chain.
        self.callbacks, self._functions = make_callbacks(problem.transforms)
        self._names = {t.code: t.name for t in problem.transforms}
        self._codes: dict[str | None, int] = {t.name: t.code for t in problem.transforms}
        self._columns: dict[str | None, int] = {name: j for j, name in enumerate(problem.names)}
        self._memo: dict[int, Feature] = {}
        # So do those that score models by the names of their features.
        self._asked: list[Any] = []

    def new_pool(self, slots: int) -> ColumnPool:
        """An empty cache for so many columns of this table's features."""
        problem = self.problem
        return new_pool(
            problem.x,
            problem.y,
            problem.root_weight,
            self.arena,
            slots,
            problem.space.depth + 4,
            _ALPHA_KINDS[problem.space.alphas],
            self.callbacks,
            problem.space.projection > 0.0,
        )

    def new_places(self, places: int, most: int | None = None) -> tuple[ProblemData, Population]:
        """Room for a population: its arrays as a selection problem, and as features.

        Parameters
        ----------
        places : int
            Features that it has room for.
        most : int, optional
            Columns of a model that can be evaluated, where that is less than the places.
        """
        problem = self.problem
        z = np.zeros((places, problem.x.shape[1]))
        if not problem.family.custom:
            return problem.population_data(z, most), problem.new_population(z)
        family: Any = problem.family
        glm, ask = family.for_features(problem.base_model, z.shape, self.texts)
        self._asked.append(ask)
        return problem.population_data(z, most, glm), problem.new_population(z, glm.x)

    def forget_features(self) -> None:
        """Begin with an empty table."""
        self.arena = new_arena(len(self.arena.kind))
        self._memo = {}

    def feature(self, f: int) -> Feature:
        """The feature of this number."""
        ar = self.arena
        # By its key: a chain gives the numbers of features that it has forgotten to others.
        key = int(ar.key[f])
        if key not in self._memo:
            children: Sequence[Feature] = [
                self.feature(int(c)) for c in ar.child[ar.start[f] : ar.start[f] + ar.arity[f]]
            ]
            kind, code = int(ar.kind[f]), int(ar.code[f])
            if kind == COVARIATE:
                made = Feature.covariate(self.problem.names[code])
            elif kind == PRODUCT:
                made = Feature.product(*children)
            else:
                make = Feature.modification if kind == MODIFICATION else Feature.projection
                made = make(self._names[code], *children)
            self._memo[key] = made
        return self._memo[key]

    def texts(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """Texts of the features of these numbers, in the order of the features."""
        return tuple(feature.text for feature in sorted(self.feature(f) for f in numbers))

    def numbers(self, features: Sequence[Feature]) -> np.ndarray:
        """Numbers of features, which are entered into the table where they are new."""
        where: dict[Feature, int] = {}
        nodes: list[tuple[int, int, list[int]]] = []

        def visit(f: Feature) -> int:
            if f not in where:
                below = [visit(c) for c in f.children]
                nodes.append((*self._head(f), below))
                where[f] = len(nodes) - 1
            return where[f]

        rows = [visit(f) for f in features]
        arity = np.array([len(below) for _, _, below in nodes], np.int64)
        planted = np.full(len(nodes), -1, np.int64)
        plant(
            self.arena,
            np.array([kind for kind, _, _ in nodes], np.int64),
            np.array([code for _, code, _ in nodes], np.int64),
            np.cumsum(arity) - arity,
            arity,
            np.array([c for _, _, below in nodes for c in below], np.int64),
            planted,
        )
        return planted[rows]

    def _head(self, f: Feature) -> tuple[int, int]:
        """Kind and code of a feature's root."""
        if f.kind == "covariate":
            return COVARIATE, self._columns[f.name]
        if f.kind == "product":
            return PRODUCT, 0
        return (MODIFICATION if f.kind == "modification" else PROJECTION), self._codes[f.transform]

    def fill_arena(self, reader: Reader, first: int = 0, first_child: int = 0) -> None:
        """Put the features of a snapshot into the table, which holds those before ``first``."""
        codes = [t.code for t in self.problem.transforms]
        fill_arena(reader, self.arena, len(self.problem.names), codes, first, first_child)
        self._memo = {f: made for f, made in self._memo.items() if f < first}

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
