"""Plain twins of the compiled half of GMJMCMC, and the doors through which tests reach its kernels.

The symbolic twin of the table of features is `modejump.features.Feature`; columns are evaluated in NumPy, models by
least squares on the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import brute
import numpy as np
from numba import njit

from modejump.core.handles import handle
from modejump.features import Feature, Transform, evaluate
from modejump.features.nonlinear.columns import ColumnPool, column_into, fit_alphas, remember
from modejump.features.nonlinear.operators import (
    DELETE,
    INSERT,
    STRIP,
    SWAP_FUNCTION,
    SWAP_LEAF,
    WRAP,
    SpaceArrays,
    edit_node,
    find_node,
    projection,
    replace_up,
    within_limits,
)
from modejump.features.nonlinear.transforms import transforms
from modejump.features.table import (
    COUNT,
    COVARIATE,
    MODIFICATION,
    PRODUCT,
    PROJECTION,
    Arena,
    covariate,
    modification,
    product,
)
from modejump.kernels.populations.population import admit, relist, vacate
from modejump.priors.models import WeightedPrior
from modejump.problem.feature_problem import FeatureProblem
from modejump.problem.problem import Problem
from modejump.samplers.chains.genetic_chain import GeneticChain

compiled = njit(nogil=True, error_model="numpy")

# --- doors to the kernels ---------------------------------------------------------------------------------------


@compiled
def build(arena, kinds, codes, parents, sizes, ids):
    """Build features one after another; row i of ``parents`` holds positions of earlier ones."""
    ar = handle(arena)
    chosen = np.zeros(parents.shape[1], np.int64)
    for i in range(len(kinds)):
        for j in range(sizes[i]):
            chosen[j] = ids[parents[i, j]]
        if kinds[i] == COVARIATE:
            ids[i] = covariate(ar, codes[i])
        elif kinds[i] == MODIFICATION:
            ids[i] = modification(ar, codes[i], chosen[0])
        elif kinds[i] == PRODUCT:
            ids[i] = chosen[0]
            for j in range(1, sizes[i]):
                ids[i] = product(ar, ids[i], chosen[j])
        else:
            ids[i] = projection(ar, codes[i], chosen, sizes[i])


@compiled
def grow(arena, uniforms, codes, n_columns, most):
    """Random features of complexity up to ``most``, four numbers in [0, 1) for each."""
    ar = handle(arena)
    parents = np.zeros(2, np.int64)
    for j in range(n_columns):
        covariate(ar, np.int64(j))
    for i in range(len(uniforms)):
        u, v, w, g = uniforms[i]
        count = ar.scalars["count"]
        parents[0], parents[1] = np.int64(u * count), np.int64(v * count)
        load = ar.complexity[parents[0]] + ar.complexity[parents[1]]
        code = codes[np.int64(g * len(codes))]
        if w < 0.3 and load + 3 <= most:
            projection(ar, code, parents, np.int64(2))
        elif w < 0.6 and ar.complexity[parents[0]] < most:
            modification(ar, code, parents[0])
        elif load <= most:
            product(ar, parents[0], parents[1])


@compiled
def locate(arena, f, number):
    """Node of this number in preorder, and the length of the path to it, which the table holds."""
    return find_node(handle(arena), f, number)


@compiled
def edit_at(arena, declared, operator, f, number, pick, choice):
    """The edit of one node; -1 where it does not apply."""
    ar, space = handle(arena), handle(declared)
    node, length = find_node(ar, f, number)
    new = edit_node(ar, space, operator, node, pick, choice)
    if new < 0 or new == node:
        return np.int64(-1)
    return replace_up(ar, new, length)


@compiled
def allowed(arena, declared, f):
    """Whether the compiled limits let a feature pass."""
    return within_limits(handle(arena), handle(declared), f)


@compiled
def column_of(arena, columns, f, keep, out):
    """Column of a feature, kept in the pool if asked; False where a projection cannot be fitted."""
    ar, pool = handle(arena), handle(columns)
    if not fit_alphas(ar, pool, f):
        return False
    column_into(ar, pool, f, np.int64(0))
    for r in range(len(out)):
        out[r] = pool.scratch[0, r]
    if keep:
        remember(pool, f)
    return True


@compiled
def admit_one(problem_data, arena, columns, population, place, f):
    """Put a feature into a place; False where it is refused."""
    return admit(handle(problem_data), handle(arena), handle(columns), handle(population), place, f)


@compiled
def vacate_some(problem_data, population, places):
    """Empty places and factorise anew."""
    data, pop = handle(problem_data), handle(population)
    for i in range(len(places)):
        vacate(data, pop, places[i])
    relist(data, pop)


# --- the symbolic twin ------------------------------------------------------------------------------------------


class Recipe:
    """A sequence of constructions, as arrays for the compiled table and as features."""

    def __init__(self, names: Sequence[str], functions: Sequence[str]) -> None:
        self.names, self.functions = names, functions
        self.kinds: list[int] = []
        self.codes: list[int] = []
        self.parents: list[tuple[int, ...]] = []
        self.features: list[Feature] = []

    def add(self, kind: int, code: int, parents: Sequence[int] = ()) -> None:
        self.kinds.append(kind)
        self.codes.append(code)
        self.parents.append(tuple(parents))
        self.features.append(self._made(kind, code, [self.features[p] for p in parents]))

    def _made(self, kind: int, code: int, parts: list[Feature]) -> Feature:
        if kind == COVARIATE:
            return Feature.covariate(self.names[code])
        if kind == PRODUCT:
            return Feature.product(*parts)
        name = transforms.by_code(code).name
        return Feature.modification(name, *parts) if kind == MODIFICATION else Feature.projection(name, *parts)

    def into(self, arena: Arena) -> np.ndarray:
        """Build all of it in a table; the index of each."""
        width = max(len(p) for p in self.parents) + 1
        parents = np.zeros((len(self.kinds), width), np.int64)
        for i, row in enumerate(self.parents):
            parents[i, : len(row)] = row
        ids = np.full(len(self.kinds), -1, np.int64)
        sizes = np.array([len(p) for p in self.parents])
        build(arena, np.array(self.kinds), np.array(self.codes), parents, sizes, ids)
        return ids


def random_recipe(
    rng: np.random.Generator,
    names: Sequence[str],
    functions: Sequence[str],
    count: int,
    *,
    projections: float = 0.15,
    most: int = 16,
) -> Recipe:
    """Random constructions of complexity up to ``most``, all covariates first."""
    recipe = Recipe(names, functions)
    for j in range(len(names)):
        recipe.add(COVARIATE, j)
    codes = [transforms[name].code for name in functions]
    while len(recipe.kinds) < count:
        u = rng.random()
        size = int(rng.integers(1, 5))
        picked = [int(i) for i in rng.integers(len(recipe.features), size=size)]
        load = sum(recipe.features[p].complexity for p in picked)
        code = int(rng.choice(codes))
        if u < 0.05:
            recipe.add(COVARIATE, int(rng.integers(len(names))))
        elif u < 0.05 + projections:
            if load + size + 1 <= most:
                recipe.add(PROJECTION, code, picked)
        elif u < 0.5:
            if recipe.features[picked[0]].complexity < most:
                recipe.add(MODIFICATION, code, picked[:1])
        elif load <= most and size > 1:
            recipe.add(PRODUCT, 0, picked)
    return recipe


def shuffled(recipe: Recipe, rng: np.random.Generator) -> Recipe:
    """The same features from their smallest parts, in another order."""
    fresh = Recipe(recipe.names, recipe.functions)
    where: dict[Feature, int] = {}
    for i in rng.permutation(len(recipe.features)):
        for part in recipe.features[i].subfeatures():
            if part in where:
                continue
            if part.name is not None:
                fresh.add(COVARIATE, recipe.names.index(part.name))
            elif part.kind == "product":
                fresh.add(PRODUCT, 0, [where[c] for c in rng.permutation(np.array(part.children, object))])
            else:
                kind = MODIFICATION if part.kind == "modification" else PROJECTION
                children = [where[c] for c in part.children]
                fresh.add(kind, transforms[part.transform].code, children)  # type: ignore[index]
            where[part] = len(fresh.features) - 1
    return fresh


def translation(arena: Arena, names: Sequence[str]) -> list[Feature]:
    """All features of a table; children come before what is made of them."""
    made: list[Feature] = []
    for f in range(int(arena.scalars["count"])):
        parts = [made[c] for c in children(arena, f)]
        kind, code = int(arena.kind[f]), int(arena.code[f])
        if kind == COVARIATE:
            made.append(Feature.covariate(names[code]))
        elif kind == PRODUCT:
            made.append(Feature.product(*parts))
        else:
            name = transforms.by_code(code).name
            make = Feature.modification if kind == MODIFICATION else Feature.projection
            made.append(make(name, *parts))
    return made


def children(arena: Arena, f: int) -> list[int]:
    return [int(c) for c in arena.child[arena.start[f] : arena.start[f] + arena.arity[f]]]


def preorder(arena: Arena, f: int, path: tuple[tuple[int, int], ...] = ()) -> Iterator[tuple[int, tuple]]:
    """Nodes of a feature's tree, each with the path of (node, position) from the root."""
    yield f, path
    for i, c in enumerate(children(arena, f)):
        yield from preorder(arena, c, (*path, (f, i)))


def tree_size(feature: Feature) -> int:
    return 1 + sum(tree_size(child) for child in feature.children)


def remade(feature: Feature, parts: Sequence[Feature]) -> Feature:
    """The feature with other children."""
    if feature.kind == "product":
        return Feature.product(*parts)
    assert feature.transform is not None
    make = Feature.modification if feature.kind == "modification" else Feature.projection
    return make(feature.transform, *parts)


def replaced(arena: Arena, made: Sequence[Feature], path: Sequence[tuple[int, int]], new: Feature) -> Feature:
    """A new node at the end of a path, and all that is above it."""
    for above, position in reversed(path):
        parts = [new if i == position else made[c] for i, c in enumerate(children(arena, above))]
        new = remade(made[above], parts)
    return new


def node_edits(
    arena: Arena, made: Sequence[Feature], node: int, names: Sequence[str], functions: Sequence[str]
) -> Iterator[tuple[int, float, float, Feature]]:
    """All edits of one node: operator, the two numbers in [0, 1) that choose it, and the new node."""
    feature = made[node]
    k, g = len(names), len(functions)
    for j, name in enumerate(names):
        pick = (j + 0.5) / k
        yield INSERT, pick, 0.5, Feature.product(feature, Feature.covariate(name))
        if feature.kind == "covariate" and feature.name != name:
            yield SWAP_LEAF, pick, 0.5, Feature.covariate(name)
    parts = [made[c] for c in children(arena, node)]
    if feature.kind == "product":
        for i in range(len(parts)):
            left = parts[:i] + parts[i + 1 :]
            yield DELETE, (i + 0.5) / len(parts), 0.5, Feature.product(*left)
    if feature.kind == "modification":
        yield STRIP, 0.5, 0.5, parts[0]
    for i, name in enumerate(functions):
        choice = (i + 0.5) / g
        yield WRAP, 0.5, choice, Feature.modification(name, feature)
        if feature.transform is not None and feature.transform != name:
            make = Feature.modification if feature.kind == "modification" else Feature.projection
            yield SWAP_FUNCTION, 0.5, choice, make(name, *parts)


def inside(feature: Feature, declared: SpaceArrays) -> bool:
    return (
        feature.depth <= declared.max_depth
        and feature.width <= declared.max_width
        and feature.complexity <= declared.max_complexity
    )


# --- columns, populations and models ----------------------------------------------------------------------------


def raw_column(arena: Arena, pool: ColumnPool, f: int, keep: bool = False) -> np.ndarray | None:
    out = np.empty(pool.x.shape[1])
    return out if column_of(arena, pool, f, keep, out) else None


def standardised(column: np.ndarray, basis: np.ndarray, root: np.ndarray) -> np.ndarray | None:
    """Weighted, without the base, of unit length; None where a value is not finite or nothing is left."""
    z = column * root
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.sum(z * z)
    if not np.isfinite(total) or total == 0.0:
        return None
    for _ in range(2):
        z = z - basis.T @ (basis @ z)
    length = np.linalg.norm(z)
    return None if length <= 1e-7 * math.sqrt(total) else z / length


def own_share(z: np.ndarray, others: Sequence[np.ndarray]) -> float:
    """Share of a unit vector's squared length that is outside the span of the others."""
    if not others:
        return 1.0
    q = np.linalg.qr(np.column_stack(others))[0]
    rest = z - q @ (q.T @ z)
    rest -= q @ (q.T @ rest)
    return float(rest @ rest)


def log_weight(problem: FeatureProblem, feature: Feature) -> float:
    """Log prior weight of a feature."""
    value = problem.model_prior.log_a(problem.n) * feature.complexity
    return value + math.log(feature.spellings) if problem.model_prior.spelling == "trees" else value


class Evaluation(NamedTuple):
    """Log posterior of a model, and how far the rounding of a Gram matrix may move it."""

    value: float
    rounding: float


def evaluation(
    problem: FeatureProblem,
    y: np.ndarray,
    model: Sequence[Feature],
    alphas: Mapping[Feature, np.ndarray] | None = None,
    weights: np.ndarray | None = None,
) -> Evaluation:
    """A model by least squares on the rows; -inf where it is too large or its design is rank deficient."""
    if len(model) > problem.space.size:
        return Evaluation(-math.inf, 0.0)
    if not model:
        return Evaluation(0.0, 0.0)
    table = dict(zip(problem.names, problem.x))
    selection = Problem.build(
        np.column_stack([evaluate(f, table, alphas) for f in model]),
        y,
        weights=weights,
        coef_prior=problem.coef_prior,
        model_prior=WeightedPrior(tuple(log_weight(problem, f) for f in model)),
        intercept=problem.basis.shape[0] > 0,
    )
    data, members = selection.data, tuple(range(len(model)))
    resid = -1.0 if (data.columns.scale == 0.0).any() else brute.resid_share(selection, members)
    if resid < 0.0:
        return Evaluation(-math.inf, 0.0)

    def likelihood(share: float) -> float:
        return float(brute.log_marginal(data.coef_prior, data.n, data.base, len(model), share))

    # Inner products of n terms are rounded by up to n epsilon, and the condition number magnifies that.
    slope = abs(likelihood(resid * 0.999) - likelihood(resid)) / (0.001 * resid)
    moved = len(model) * len(y) * np.finfo(float).eps * float(np.linalg.cond(data.gram))
    return Evaluation(likelihood(resid) + brute.log_prior(selection, members), slope * moved)


def kept_models(chain: GeneticChain) -> dict[frozenset[Feature], float]:
    """What a chain's archive holds."""
    archive = chain.archive
    models = {}
    for m in range(int(archive.num[0])):
        members = archive.features[m, : archive.size[m]]
        models[frozenset(chain.feature(int(f)) for f in members)] = float(archive.log_posterior[m])
    return models


def stored_models(chain: GeneticChain) -> dict[frozenset[Feature], float]:
    """What the last population evaluated."""
    store, features = chain.chain.store, chain.population.feature
    models = {}
    for e in range(int(store.num[0])):
        places = [p for p in range(len(features)) if int(store.words[e, p >> 6]) >> (p & 63) & 1]
        models[frozenset(chain.feature(int(features[p])) for p in places)] = float(store.log_posterior[e])
    return models


def listed(names: Sequence[str]) -> tuple[Transform, ...]:
    return tuple(transforms[name] for name in names)
