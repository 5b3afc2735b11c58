"""The compiled table of features against features built symbolically; columns against plain evaluation."""

from __future__ import annotations

from typing import Any

import feature_twin as twin
import numpy as np
import pytest
from feature_twin import COVARIATE, MODIFICATION, PRODUCT, PROJECTION, Recipe

from modejump.features.nonlinear.columns import NonlinearPool
from modejump.features.nonlinear.expression import Feature, evaluate
from modejump.features.nonlinear.language import Nonlinear
from modejump.features.nonlinear.space import Space
from modejump.features.table import FeatureTable, forget_from, new_table

NAMES = ("x", "y", "z", "host star")
# Functions that do not magnify a relative error of a positive argument.
TAME = ("troot", "sroot", "atan", "tanh", "log1p_abs", "arcsinh", "sigmoid")
EPSILON = np.finfo(float).eps


def language_of(*functions: str, alphas: str = "ml", **limits: int) -> Nonlinear:
    space = Space(mutation=0.1, projection=0.2, alphas=alphas, **limits)
    return Nonlinear(NAMES, twin.listed(functions), space)


FOUR = language_of("sin", "troot", "sigmoid", "p0")


def made(count: int, seed: int) -> tuple[FeatureTable, np.ndarray, Recipe]:
    recipe = twin.random_recipe(np.random.default_rng(seed), FOUR, count)
    return *twin.table_of(recipe, 2 * count), recipe


@pytest.fixture(scope="module")
def many() -> tuple[FeatureTable, np.ndarray, Recipe, list[Feature]]:
    table, ids, recipe = made(8_000, 1)
    return table, ids, recipe, twin.translation(FOUR, table)


def test_constructions_give_the_features_they_stand_for(many) -> None:
    table, ids, recipe, translated = many
    assert not table.scalars["full"]
    assert all(translated[f] is feature for f, feature in zip(ids, recipe.features))


def test_equal_features_have_equal_numbers_and_no_other(many) -> None:
    table, ids, recipe, translated = many
    assert len(set(translated)) == len(translated) == table.scalars["count"]
    assert len(set(zip(ids.tolist(), recipe.features))) == len(set(ids.tolist())) == len(set(recipe.features))


def test_keys_of_1e5_features_do_not_collide() -> None:
    # The table tells features apart by their children, not by their keys, so two with one key would both be in it.
    table = new_table(400_000)
    language = Nonlinear([f"x{j}" for j in range(20)], FOUR.transforms, FOUR.limits)
    twin.grow(language.space(), table, np.random.default_rng(6).random((300_000, 4)), 40)
    count = int(table.scalars["count"])
    assert count > 100_000
    assert len(np.unique(table.key[:count])) == count


def test_measures_equal_the_plain_ones(many) -> None:
    table, _, _, translated = many
    m = len(translated)
    for field, plain in (
        (table.complexity, [f.complexity for f in translated]),
        (table.depth, [f.depth for f in translated]),
        (table.width, [f.width for f in translated]),
        (table.nodes, [twin.tree_size(f) for f in translated]),
    ):
        np.testing.assert_array_equal(field[:m], plain)
    log_spellings = np.array([f.log_spellings for f in translated])
    np.testing.assert_allclose(table.log_spellings[:m], log_spellings, rtol=1e-13, atol=1e-12)


def test_keys_equal_the_plain_ones(many) -> None:
    table, _, _, translated = many
    some = range(0, len(translated), 20)
    assert [int(table.key[f]) for f in some] == [twin.key_of(FOUR, translated[f]) for f in some]


def test_order_of_construction_does_not_enter_the_keys() -> None:
    table, _, recipe = made(3_000, 2)
    first = dict(zip(twin.translation(FOUR, table), table.key.tolist()))
    for seed in (3, 4):
        other, _ = twin.table_of(twin.shuffled(recipe, np.random.default_rng(seed)), 8_000)
        second = dict(zip(twin.translation(FOUR, other), other.key.tolist()))
        shared = set(recipe.features)
        assert shared <= first.keys() & second.keys()
        assert all(first[f] == second[f] for f in shared)
        # The tables do differ: what agrees is not their order.
        assert [*first][:200] != [*second][:200]


def test_one_feature_built_in_many_ways_has_one_number() -> None:
    recipe = Recipe(FOUR)
    for j in range(3):
        recipe.add(COVARIATE, j)
    for factors in ((0, 1), (3, 2), (2, 1), (5, 0), (1, 0, 2)):
        recipe.add(PRODUCT, 0, factors)
    recipe.add(PROJECTION, 0, (0, 4, 0))
    recipe.add(PROJECTION, 0, (6, 0))
    recipe.add(MODIFICATION, 0, (0,))
    recipe.add(PROJECTION, 0, (0,))
    _, ids = twin.table_of(recipe, 64)
    assert len({ids[4], ids[6], ids[7]}) == 1
    assert ids[8] == ids[9]
    # A projection on one parent has coefficients of its own: it is no modification.
    assert ids[10] != ids[11]


def test_a_full_table_says_so_and_keeps_what_it_holds() -> None:
    recipe = twin.random_recipe(np.random.default_rng(5), FOUR, 400)
    _, whole = twin.table_of(recipe, 2_000)
    first_full = int(np.flatnonzero(whole == 50)[0])
    part = Recipe(FOUR)
    for step in recipe.steps[: first_full + 1]:
        part.add(*step)
    table, ids = twin.table_of(part, 50)
    assert ids[-1] == -1 and table.scalars["full"] == 1 and table.scalars["count"] == 50
    np.testing.assert_array_equal(ids[:-1], whole[:first_full])


def test_too_many_factors_are_refused() -> None:
    recipe = Recipe(FOUR)
    recipe.add(COVARIATE, 0)
    for i in range(6):
        recipe.add(PRODUCT, 0, (i, i))
    recipe.add(PRODUCT, 0, (6, 0))
    table, ids = twin.table_of(recipe, 64)
    assert table.arity[ids[6]] == 64 and ids[7] == -1 and not table.scalars["full"]


def test_what_is_forgotten_leaves_the_table_as_it_was() -> None:
    rng = np.random.default_rng(27)
    table, first = twin.table_of(twin.random_recipe(rng, FOUR, 60), 4000)
    count, children = int(table.scalars["count"]), int(table.scalars["children"])
    slots, keys = table.slots.copy(), table.key[:count].copy()
    for seed in range(20):
        later = twin.random_recipe(np.random.default_rng(seed), FOUR, 300)
        later.into(table)
        assert table.scalars["count"] > count
        forget_from(table, count, children)
        assert (table.slots == slots).all() and (table.key[:count] == keys).all()
        assert (table.scalars["count"], table.scalars["children"], table.scalars["full"]) == (count, children, 0)


# --- columns ----------------------------------------------------------------------------------------------------


class Columns:
    """Columns of the features of a table, compiled and plain."""

    def __init__(
        self, recipe: Recipe, x: np.ndarray, slots: int = 16, y: np.ndarray | None = None, weights: Any = None
    ) -> None:
        n = x.shape[1]
        self.language, self.x = recipe.language, dict(zip(NAMES, x))
        self.table, self.ids = twin.table_of(recipe, 2 * len(recipe.steps) + 8)
        self.y = np.linspace(-1.0, 2.0, n) ** 2 if y is None else y
        self.weights = np.ones(n) if weights is None else weights
        self.pool: NonlinearPool
        self.pool, self.alive = self.language.new_pool(x, self.y, np.sqrt(self.weights), len(self.table.kind), slots)
        self.features = twin.translation(self.language, self.table)

    def compiled(self, f: int, keep: bool = False) -> np.ndarray | None:
        out = np.empty(len(self.y))
        found = twin.column_of(self.language.space(), self.table, self.pool, f, keep, out)
        return out if found else None

    def projections(self) -> np.ndarray:
        return np.flatnonzero(self.table.kind[: self.table.scalars["count"]] == PROJECTION)

    def alphas(self, f: int) -> np.ndarray:
        """Coefficients that were found, by parent in the order of features."""
        table = self.table
        order = np.argsort([self.features[c] for c in twin.children(table, f)])
        return np.r_[table.constant[f], table.slope[table.start[f] + order]]


def rows(rng: np.random.Generator, count: int = 40) -> np.ndarray:
    return rng.uniform(0.5, 3.0, size=(len(NAMES), count))


@pytest.mark.parametrize("slots", [3, 4096])
def test_columns_equal_plain_evaluation(slots: int) -> None:
    rng = np.random.default_rng(11)
    recipe = twin.random_recipe(rng, language_of(*TAME, alphas="ones", depth=40), 3_000)
    columns = Columns(recipe, rows(rng), slots)
    ids, table = columns.ids, columns.table
    alphas = {f: np.r_[0.0, np.ones(len(f.children))] for f in columns.features if f.kind == "projection"}
    # Features come back while the pool has kept and forgotten others.
    for f in np.concatenate([ids, rng.permutation(ids)]):
        compiled = columns.compiled(f, keep=True)
        plain = evaluate(columns.features[f], columns.x, alphas)
        # Every operation adds a rounding error, and none magnifies what it is given.
        assert compiled is not None
        assert (np.abs(compiled - plain) <= 8 * table.nodes[f] * EPSILON * np.abs(plain)).all()
    pool = columns.pool
    owned = pool.owner[pool.owner >= 0]
    assert len(owned) == min(slots, len(set(ids.tolist())))
    np.testing.assert_array_equal(pool.slot[owned] - 1, np.flatnonzero(pool.owner >= 0))
    assert np.count_nonzero(pool.slot) == len(owned)


def test_columns_are_not_finite_where_plain_ones_are_not() -> None:
    rng = np.random.default_rng(12)
    recipe = twin.random_recipe(rng, language_of("p0", "pm1", "p05", "to35", depth=40), 600, projections=0.0)
    x = rng.normal(size=(len(NAMES), 30))
    x[:, 0] = 0.0
    columns = Columns(recipe, x, 8)
    for f, feature in zip(columns.ids, recipe.features):
        compiled, plain = columns.compiled(f, keep=True), evaluate(feature, columns.x)
        np.testing.assert_array_equal(np.isnan(compiled), np.isnan(plain), err_msg=str(feature))


def projections(seed: int, alphas: str, **given: np.ndarray) -> Columns:
    """A table with projections over covariates and products."""
    language = language_of("sin", "atan", alphas=alphas, depth=40)
    recipe = twin.random_recipe(np.random.default_rng(seed), language, 400, projections=0.4, most=12)
    return Columns(recipe, rows(np.random.default_rng(13)), **given)


@pytest.mark.parametrize("weighted", [False, True])
def test_alphas_by_likelihood_are_least_squares_on_the_parents(weighted: bool) -> None:
    rng = np.random.default_rng(14)
    y = rng.normal(size=40) + 5.0
    w = rng.uniform(0.2, 3.0, size=40) if weighted else np.ones(40)
    columns = projections(15, "ml", y=y, weights=w)
    plain = columns.language.constants(columns.features, columns.x, y, w, {})
    fitted = 0
    for f in columns.projections():
        parents = [columns.compiled(c) for c in twin.children(columns.table, f)]
        ready = columns.compiled(f, keep=True) is not None
        if any(c is None for c in parents):
            assert not ready and columns.features[f] not in plain
            continue
        design = np.column_stack([np.ones(40), *parents])
        if np.linalg.cond(design / np.linalg.norm(design, axis=0)) > 1e3:
            continue
        assert ready
        design = np.column_stack([np.ones(40), *(evaluate(c, columns.x, plain) for c in columns.features[f].children)])
        expected = np.linalg.lstsq(design * np.sqrt(w)[:, None], y * np.sqrt(w), rcond=None)[0]
        np.testing.assert_allclose(columns.alphas(f), expected, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(plain[columns.features[f]], expected, rtol=1e-8, atol=1e-9)
        fitted += 1
    assert fitted > 50


def test_projections_inside_other_features_are_fitted_first() -> None:
    recipe = Recipe(language_of("sin"))
    for j in range(3):
        recipe.add(COVARIATE, j)
    recipe.add(PROJECTION, 0, (0, 1))
    recipe.add(PRODUCT, 0, (3, 2))
    recipe.add(PROJECTION, 0, (4, 3))
    rng = np.random.default_rng(16)
    columns = Columns(recipe, rows(rng), y=rng.normal(size=40))
    alphas = {}
    for i in (3, 5):
        inner = recipe.features[i].children
        design = np.column_stack([np.ones(40), *(evaluate(c, columns.x, alphas) for c in inner)])
        alphas[recipe.features[i]] = np.linalg.lstsq(design, columns.y, rcond=None)[0]
    plain = evaluate(recipe.features[5], columns.x, alphas)
    np.testing.assert_allclose(columns.compiled(columns.ids[5]), plain, rtol=1e-9, atol=1e-9)


def test_projections_without_unique_alphas_have_no_column() -> None:
    recipe = Recipe(language_of("sin"))
    for j in range(4):
        recipe.add(COVARIATE, j)
    for parents in ((0, 1, 2), (0, 3), (0, 1)):
        recipe.add(PROJECTION, 0, parents)
    x = rows(np.random.default_rng(17))
    x[2] = 3.0 * x[0] - x[1]
    x[3] = 0.1
    columns = Columns(recipe, x)
    assert [columns.compiled(columns.ids[i]) is None for i in (4, 5, 6)] == [True, True, False]
    found = columns.language.constants(recipe.features, columns.x, columns.y, columns.weights, {})
    assert set(found) == {recipe.features[6]}


@pytest.mark.parametrize("alphas", ["ones", "random"])
def test_other_alphas_depend_on_the_feature_alone(alphas: str) -> None:
    known: dict[Feature, list[float]] = {}
    repeated = 0
    for seed in (18, 19, 20):
        columns = projections(seed, alphas)
        for f in columns.projections():
            assert columns.compiled(f) is not None
            found = columns.alphas(f).tolist()
            repeated += columns.features[f] in known
            assert known.setdefault(columns.features[f], found) == found
    assert repeated > 20
    drawn = np.array([a for found in known.values() for a in found])
    if alphas == "ones":
        assert set(drawn.tolist()) == {0.0, 1.0}
    else:
        # Standard normal: mean and variance within four standard errors.
        assert abs(drawn.mean()) < 4 / np.sqrt(len(drawn))
        assert abs(drawn.var() - 1.0) < 4 * np.sqrt(2 / len(drawn))
