"""Plain twins of the compiled features and populations, and the doors through which tests reach their kernels.

The twin of the table of features is `modejump.features.Feature`; columns are evaluated in NumPy, models by least
squares on the rows. Where twins draw random numbers, they draw them in the order of the compiled kernels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import brute
import numpy as np
import twin

from modejump.core.compilation import entry
from modejump.core.random import new_stream
from modejump.features.distribution import draw_edit, draw_from, edit_probability, log_q, next_edit
from modejump.features.language import draw_feature, log_probability, write_column
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.grammar import _draw_tree
from modejump.features.nonlinear.language import Nonlinear
from modejump.features.nonlinear.operators import (
    DELETE,
    INSERT,
    MODIFICATION,
    PRODUCT,
    PROJECTION,
    STRIP,
    SWAP_FUNCTION,
    SWAP_LEAF,
    WRAP,
    modification,
    product,
    projection,
)
from modejump.features.nonlinear.transforms import Transform, transforms
from modejump.features.pool import remember
from modejump.features.table import COVARIATE, FeatureTable, covariate, new_table, within_limits
from modejump.kernels.populations.population import admit, vacate
from modejump.priors.models import WeightedPrior
from modejump.problem.feature_problem import FeatureProblem
from modejump.problem.problem import Problem
from modejump.samplers.chains.genetic_chain import GeneticChain

KINDS = {"covariate": COVARIATE, "modification": MODIFICATION, "product": PRODUCT, "projection": PROJECTION}

# --- doors to the kernels ---------------------------------------------------------------------------------------


@entry
def build(space, table, kinds, codes, parents, sizes, ids):
    """Build features one after another; row i of ``parents`` holds positions of earlier ones."""
    for i in range(len(kinds)):
        if kinds[i] == COVARIATE:
            ids[i] = covariate(space, table, codes[i])
        elif kinds[i] == MODIFICATION:
            ids[i] = modification(space, table, codes[i], ids[parents[i, 0]])
        elif kinds[i] == PRODUCT:
            ids[i] = ids[parents[i, 0]]
            for j in range(1, sizes[i]):
                ids[i] = product(space, table, ids[i], ids[parents[i, j]])
        else:
            for j in range(sizes[i]):
                table.parents[j] = ids[parents[i, j]]
            ids[i] = projection(space, table, codes[i], sizes[i])


@entry
def grow(space, table, uniforms, most):
    """Random features of complexity up to ``most``, four numbers in [0, 1) for each."""
    for j in range(space.n_columns):
        covariate(space, table, np.int64(j))
    for i in range(len(uniforms)):
        u, v, w, g = uniforms[i]
        a, b = np.int64(u * table.count), np.int64(v * table.count)
        load = table.complexity[a] + table.complexity[b]
        code = np.int64(g * space.transforms)
        if w < 0.3 and load + 3 <= most:
            table.parents[0], table.parents[1] = a, b
            projection(space, table, code, np.int64(2))
        elif w < 0.6 and table.complexity[a] < most:
            modification(space, table, code, a)
        elif load <= most:
            product(space, table, a, b)


@entry
def edits_of(space, table, f, operators, made):
    """All edits of a feature: the operator and the result of each, -1 where it is void; returns how many."""
    at = np.zeros(3, np.int64)
    count = 0
    while True:
        g = next_edit(space, table, f, at)
        if g == -2:
            return count
        operators[count] = at[1]
        made[count] = g
        count += 1


@entry
def allowed(space, table, f):
    """Whether the compiled limits let a feature pass."""
    return within_limits(space, table, f)


@entry
def column_of(space, table, pool, f, keep, out):
    """Column of a feature, kept in the pool if asked; False where it has none."""
    if not write_column(space, table, pool, f):
        return False
    for r in range(len(out)):
        out[r] = pool.scratch[0, r]
    if keep:
        remember(pool, f)
    return True


@entry
def admit_one(fc, place, f):
    """Put a feature into a place; False where it is refused."""
    return admit(fc, place, f)


@entry
def vacate_some(fc, places):
    """Empty places."""
    for i in range(len(places)):
        vacate(fc, places[i])


@entry
def tree_draws(space, table, rng, room, out):
    """Features from the grammar, whatever their depth and width."""
    for i in range(len(out)):
        out[i] = _draw_tree(space, table, rng, np.int64(1), room)


@entry
def language_draws(space, table, rng, out):
    """Features from the language's own distribution."""
    for i in range(len(out)):
        out[i] = draw_feature(space, table, rng)


@entry
def q_draws(q, space, table, rng, out):
    """Features from q."""
    for i in range(len(out)):
        out[i] = draw_from(q, space, table, rng)


@entry
def log_probabilities(q, space, table, numbers, own, total):
    """Log probability of features under the language's own distribution, and under q."""
    for i in range(len(numbers)):
        own[i] = log_probability(space, table, numbers[i])
        total[i] = log_q(q, space, table, numbers[i])


@entry
def edit_draws(space, table, f, rng, out):
    """Random edits of one feature."""
    for i in range(len(out)):
        out[i] = draw_edit(space, table, f, rng)


@entry
def edit_probabilities(space, table, numbers, out):
    """Probability of an edit from each feature to each other."""
    for i in range(len(numbers)):
        for j in range(len(numbers)):
            out[i, j] = edit_probability(space, table, numbers[i], numbers[j]) if i != j else 0.0


# --- constructions ----------------------------------------------------------------------------------------------


class Recipe:
    """A sequence of constructions, as arrays for the compiled table and as features."""

    def __init__(self, language: Nonlinear) -> None:
        self.language = language
        self.steps: list[tuple[int, int, tuple[int, ...]]] = []
        self.features: list[Feature] = []

    def add(self, kind: int, code: int, parents: Sequence[int] = ()) -> None:
        self.steps.append((kind, code, tuple(parents)))
        parts = [self.features[p] for p in parents]
        self.features.append(
            Feature.product(*parts) if kind == PRODUCT else self.language.compose(kind, code, sorted(set(parts)))
        )

    def into(self, table: FeatureTable) -> np.ndarray:
        """Build all of it in a table; the number of each."""
        kinds, codes, rows = zip(*self.steps, strict=True)
        parents = np.zeros((len(rows), max(map(len, rows)) + 1), np.int64)
        for i, row in enumerate(rows):
            parents[i, : len(row)] = row
        ids = np.full(len(rows), -1, np.int64)
        sizes = np.array([len(row) for row in rows])
        build(self.language.space(), table, np.array(kinds), np.array(codes), parents, sizes, ids)
        return ids


def random_recipe(
    rng: np.random.Generator, language: Nonlinear, count: int, *, projections: float = 0.15, most: int = 16
) -> Recipe:
    """Random constructions of complexity up to ``most``, all covariates first."""
    recipe, names = Recipe(language), language.names
    for j in range(len(names)):
        recipe.add(COVARIATE, j)
    while len(recipe.steps) < count:
        u = rng.random()
        size = int(rng.integers(1, 5))
        picked = [int(i) for i in rng.integers(len(recipe.features), size=size)]
        load = sum(recipe.features[p].complexity for p in picked)
        code = int(rng.integers(len(language.transforms)))
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
    fresh = Recipe(recipe.language)
    where: dict[Feature, int] = {}
    for i in rng.permutation(len(recipe.features)):
        for part in recipe.features[i].subfeatures():
            if part not in where:
                kind, code, children = recipe.language.decompose(part)
                fresh.add(kind, code, [where[children[j]] for j in rng.permutation(len(children))])
                where[part] = len(fresh.features) - 1
    return fresh


def translation(language: Nonlinear, table: FeatureTable) -> list[Feature]:
    """All features of a table; children come before what is made of them."""
    made: list[Feature] = []
    for f in range(int(table.scalars["count"])):
        parts = sorted(made[c] for c in children(table, f))
        made.append(language.compose(int(table.kind[f]), int(table.code[f]), parts))
    return made


def children(table: FeatureTable, f: int) -> list[int]:
    return [int(c) for c in table.child[table.start[f] : table.start[f] + table.arity[f]]]


def key_of(language: Nonlinear, feature: Feature) -> int:
    """The hash of a feature's structure, by the definition."""
    word = 2**64

    def mix(z: int) -> int:
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % word
        z = (z ^ z >> 27) * 0x94D049BB133111EB % word
        return z ^ z >> 31

    kind, code, parts = language.decompose(feature)
    total = sum(mix((key_of(language, part) + 0x632BE59BD9B4E019) % word) for part in parts) % word
    return mix(total ^ mix(((kind + 1) * 0x9E3779B97F4A7C15 + (code + 7) * 0xD1342543DE82EF95) % word))


def table_of(recipe: Recipe, room: int) -> tuple[FeatureTable, np.ndarray]:
    table = new_table(room)
    return table, recipe.into(table)


def tree_size(feature: Feature) -> int:
    return 1 + sum(tree_size(child) for child in feature.children)


# --- edits ------------------------------------------------------------------------------------------------------


def remade(feature: Feature, parts: Sequence[Feature]) -> Feature:
    """The feature with other children."""
    if feature.kind == "product":
        return Feature.product(*parts)
    assert feature.transform is not None
    make = Feature.modification if feature.kind == "modification" else Feature.projection
    return make(feature.transform, *parts)


def _edits_here(node: Feature, names: Sequence[str], functions: Sequence[str]) -> Iterator[tuple[int, list[Feature]]]:
    """For each operator that applies to a node all its results, of equal probability."""
    yield INSERT, [node * Feature.covariate(name) for name in names]
    if node.kind == "covariate":
        yield SWAP_LEAF, [Feature.covariate(name) for name in names]
    if node.kind == "product":
        parts = node.children
        yield DELETE, [Feature.product(*parts[:i], *parts[i + 1 :]) for i in range(len(parts))]
    if node.kind == "modification":
        yield STRIP, [node.children[0]]
    if functions:
        yield WRAP, [Feature.modification(name, node) for name in functions]
    if functions and node.transform is not None:
        make = Feature.modification if node.kind == "modification" else Feature.projection
        yield SWAP_FUNCTION, [make(name, *node.children) for name in functions]


def _all_edits(
    feature: Feature, names: Sequence[str], functions: Sequence[str]
) -> Iterator[tuple[int, float, Feature]]:
    """Operator, its share of the choices at the node, and what becomes of the feature; each node in turn."""
    for operator, results in _edits_here(feature, names, functions):
        for new in results:
            yield operator, 1.0 / len(results), new
    for i, child in enumerate(feature.children):
        for operator, share, new in _all_edits(child, names, functions):
            parts = [new if j == i else c for j, c in enumerate(feature.children)]
            # What is unchanged at its node is no edit, though the same change elsewhere may be one.
            yield operator, share, feature if new is child else remade(feature, parts)


def sound_edits(feature: Feature, language: Nonlinear) -> Iterator[tuple[int, float, Feature]]:
    """Edits that change the feature, stay in the space, and change complexity as their inverses do."""
    functions, weight = [t.name for t in language.transforms], language.space().edit_weight
    for operator, share, new in _all_edits(feature, language.names, functions):
        if weight[operator] == 0.0:
            continue
        gain = new.complexity - feature.complexity
        wrong = {INSERT: gain != 1, WRAP: gain != 1, DELETE: gain >= 0, STRIP: gain >= 0}.get(operator, gain != 0)
        if new is not feature and not wrong and inside(new, language):
            yield operator, share, new


def edit_law(feature: Feature, language: Nonlinear) -> dict[Feature, float]:
    """Probability of each result of one random edit; what is missing to one is void."""
    law: dict[Feature, float] = {}
    nodes, weight = tree_size(feature), language.space().edit_weight
    for operator, share, new in sound_edits(feature, language):
        law[new] = law.get(new, 0.0) + float(weight[operator]) * share / nodes
    return law


def inside(feature: Feature, language: Nonlinear) -> bool:
    limits = language.limits
    return bool(
        feature.depth <= limits.depth and feature.width <= limits.width and feature.complexity <= limits.complexity
    )


# --- the grammar ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grammar:
    """The grammar of nonlinear features."""

    kinds: Mapping[str, float]
    more: float
    names: tuple[str, ...]
    functions: tuple[str, ...]

    @classmethod
    def of(cls, language: Nonlinear) -> Grammar:
        space = language.space()
        kinds = {name: float(space.kinds[code]) for name, code in KINDS.items()}
        return cls(kinds, space.more, language.names, tuple(t.name for t in language.transforms))

    def probability(self, feature: Feature, products: bool = True) -> float:
        """Probability of a feature: the sum over the orders in which its parts may come."""
        p = self.kinds[feature.kind] / (1.0 if products else 1.0 - self.kinds["product"])
        parts = feature.children
        if feature.kind == "covariate":
            return p / len(self.names)
        if feature.kind == "product":
            p *= self.more ** (len(parts) - 2) * (1.0 - self.more) * _orders(parts)
        else:
            p /= len(self.functions)
        if feature.kind == "projection":
            p *= self.more ** (len(parts) - 1) * (1.0 - self.more) * _orders(parts)
        return p * math.prod(self.probability(part, feature.kind != "product") for part in parts)

    def draw(self, stream: twin.Stream, room: int, products: bool = True) -> Feature | None:
        """A feature, None where the draw is void, from the numbers that the compiled grammar would take."""
        if room < 1:
            return None
        kind = self._kind(stream, products)
        if kind == "covariate":
            return Feature.covariate(self.names[stream.below(len(self.names))])
        if kind == "product":
            return self._product(stream, room)
        name = self.functions[stream.below(len(self.functions))]
        if kind == "modification":
            argument = self.draw(stream, room - 1)
            return None if argument is None else Feature.modification(name, argument)
        parents: list[Feature] = []
        room -= 1
        while not parents or stream.uniform() < self.more:
            parent = self.draw(stream, room - 1)
            if parent is None or parent in parents:
                return None
            parents.append(parent)
            room -= 1 + parent.complexity
        return Feature.projection(name, *parents)

    def _kind(self, stream: twin.Stream, products: bool) -> str:
        allowed_kinds = [k for k, p in self.kinds.items() if p > 0.0 and (products or k != "product")]
        u = stream.uniform() * (1.0 if products else 1.0 - self.kinds["product"])
        for kind in allowed_kinds:
            if u < self.kinds[kind]:
                return kind
            u -= self.kinds[kind]
        return allowed_kinds[-1]

    def _product(self, stream: twin.Stream, room: int) -> Feature | None:
        made = self.draw(stream, room, products=False)
        more = True
        while more and made is not None:
            factor = self.draw(stream, room - made.complexity, products=False)
            if factor is None:
                return None
            made = made * factor
            more = stream.uniform() < self.more
        return made


def _orders(parts: Sequence[Feature]) -> int:
    """Orders of a multiset."""
    return math.factorial(len(parts)) // math.prod(math.factorial(m) for m in Counter(parts).values())


# --- columns, populations and models ----------------------------------------------------------------------------


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


def log_weight(problem: FeatureProblem, feature: Any) -> float:
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
    model: Sequence[Any],
    constants: Mapping[Any, np.ndarray] | None = None,
    weights: np.ndarray | None = None,
) -> Evaluation:
    """A model by least squares on the rows; -inf where it is too large or its design is rank deficient."""
    if len(model) > problem.size:
        return Evaluation(-math.inf, 0.0)
    if not model:
        return Evaluation(0.0, 0.0)
    selection = Problem.build(
        np.column_stack([problem.language.column(f, problem.table, constants or {}) for f in model]),
        y,
        weights=weights,
        coef_prior=problem.coef_prior,
        model_prior=WeightedPrior(tuple(log_weight(problem, f) for f in model)),
        intercept=problem.intercept,
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


def kept_models(chain: GeneticChain) -> dict[frozenset[Any], float]:
    """What a chain's archive holds."""
    archive = chain.arrays.archive
    models = {}
    for m in range(int(archive.scalars["kept"])):
        members = archive.features[m, : archive.size[m]]
        models[frozenset(chain.feature(int(f)) for f in members)] = float(archive.log_posterior[m])
    return models


def stored_models(chain: GeneticChain) -> dict[frozenset[Any], float]:
    """What the last population evaluated."""
    store, features = chain.arrays.chain.store, chain.arrays.population.feature
    models = {}
    for e in range(int(store.scalars["count"])):
        places = [p for p in range(len(features)) if int(store.words[e, p >> 6]) >> (p & 63) & 1]
        models[frozenset(chain.feature(int(features[p])) for p in places)] = float(store.log_posterior[e])
    return models


def listed(names: Sequence[str]) -> tuple[Transform, ...]:
    return tuple(transforms[name] for name in names)


def stream_of(seed: int) -> np.ndarray:
    return new_stream(np.random.SeedSequence(seed))
