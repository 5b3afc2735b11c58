"""The compiled table of features against features built symbolically; columns against plain evaluation."""

from __future__ import annotations

from collections.abc import Sequence

import genetic_twin as twin
import numpy as np
import pytest

from modejump.features import Feature, evaluate
from modejump.features.nonlinear.columns import ALPHA_ML, ALPHA_ONES, ALPHA_RANDOM, ColumnPool, new_pool
from modejump.features.nonlinear.transforms import transforms
from modejump.features.table import COUNT, FULL, PROJECTION, Arena, new_arena

NAMES = ("x", "y", "z", "host star")
FUNCTIONS = ("sin", "troot", "sigmoid", "p0")
# Functions that do not magnify a relative error of a positive argument.
TAME = ("troot", "sroot", "atan", "tanh", "log1p_abs", "arcsinh", "sigmoid")
EPSILON = np.finfo(float).eps


def made(count: int, seed: int, **options: float) -> tuple[Arena, np.ndarray, twin.Recipe]:
    recipe = twin.random_recipe(np.random.default_rng(seed), NAMES, FUNCTIONS, count, **options)
    arena = new_arena(2 * count)
    return arena, recipe.into(arena), recipe


def keys_of(arena: Arena, translated: Sequence[Feature]) -> dict[Feature, int]:
    return dict(zip(translated, arena.key.tolist()))


@pytest.fixture(scope="module")
def many() -> tuple[Arena, np.ndarray, twin.Recipe, list[Feature]]:
    arena, ids, recipe = made(8_000, 1)
    return arena, ids, recipe, twin.translation(arena, NAMES)


def test_constructions_give_the_features_they_stand_for(many) -> None:
    arena, ids, recipe, translated = many
    assert not arena.scalars["full"]
    assert all(translated[f] is feature for f, feature in zip(ids, recipe.features))


def test_equal_features_have_equal_indices_and_no_other(many) -> None:
    arena, ids, recipe, translated = many
    assert len(set(translated)) == len(translated) == arena.scalars["count"]
    assert len(set(zip(ids.tolist(), recipe.features))) == len(set(ids.tolist())) == len(set(recipe.features))


def test_keys_of_1e5_features_do_not_collide() -> None:
    # The table tells features apart by their children, not by their keys, so two with one key would both be in it.
    arena = new_arena(400_000)
    codes = np.array([transforms[name].code for name in FUNCTIONS])
    twin.grow(arena, np.random.default_rng(6).random((300_000, 4)), codes, 20, 40)
    count = int(arena.scalars["count"])
    assert count > 100_000
    assert len(np.unique(arena.key[:count])) == count


def test_measures_equal_the_plain_ones(many) -> None:
    arena, _, _, translated = many
    m = len(translated)
    for field, plain in (
        (arena.complexity, [f.complexity for f in translated]),
        (arena.depth, [f.depth for f in translated]),
        (arena.width, [f.width for f in translated]),
        (arena.nodes, [twin.tree_size(f) for f in translated]),
    ):
        np.testing.assert_array_equal(field[:m], plain)
    log_spellings = np.array([f.log_spellings for f in translated])
    np.testing.assert_allclose(arena.log_spellings[:m], log_spellings, rtol=1e-13, atol=1e-12)


def test_order_of_construction_does_not_enter_the_keys() -> None:
    arena, _, recipe = made(3_000, 2)
    first = keys_of(arena, twin.translation(arena, NAMES))
    for seed in (3, 4):
        other = new_arena(8_000)
        twin.shuffled(recipe, np.random.default_rng(seed)).into(other)
        second = keys_of(other, twin.translation(other, NAMES))
        shared = set(recipe.features)
        assert shared <= first.keys() & second.keys()
        assert all(first[f] == second[f] for f in shared)
        # The tables do differ: what agrees is not their order.
        assert [*first][:200] != [*second][:200]


def test_one_feature_built_in_many_ways_is_one_index() -> None:
    recipe = twin.Recipe(NAMES, FUNCTIONS)
    for j in range(3):
        recipe.add(twin.COVARIATE, j)
    code = transforms["sin"].code
    recipe.add(twin.PRODUCT, 0, (0, 1))
    recipe.add(twin.PRODUCT, 0, (3, 2))
    recipe.add(twin.PRODUCT, 0, (2, 1))
    recipe.add(twin.PRODUCT, 0, (5, 0))
    recipe.add(twin.PRODUCT, 0, (1, 0, 2))
    recipe.add(PROJECTION, code, (0, 4, 0))
    recipe.add(PROJECTION, code, (6, 0))
    recipe.add(twin.MODIFICATION, code, (0,))
    recipe.add(PROJECTION, code, (0,))
    arena = new_arena(64)
    ids = recipe.into(arena)
    assert len({ids[4], ids[6], ids[7]}) == 1
    assert ids[8] == ids[9]
    # A projection on one parent has coefficients of its own: it is no modification.
    assert ids[10] != ids[11]


def test_a_full_table_says_so_and_keeps_what_it_holds() -> None:
    recipe = twin.random_recipe(np.random.default_rng(5), NAMES, FUNCTIONS, 400)
    arena, large = new_arena(50), new_arena(2_000)
    whole = recipe.into(large)
    first_full = int(np.flatnonzero(whole == 50)[0])
    part = twin.Recipe(NAMES, FUNCTIONS)
    for i in range(first_full + 1):
        part.add(recipe.kinds[i], recipe.codes[i], recipe.parents[i])
    ids = part.into(arena)
    assert ids[-1] == -1 and arena.scalars["full"] == 1 and arena.scalars["count"] == 50
    np.testing.assert_array_equal(ids[:-1], whole[:first_full])


def test_too_many_factors_are_refused() -> None:
    recipe = twin.Recipe(NAMES, FUNCTIONS)
    recipe.add(twin.COVARIATE, 0)
    for i in range(6):
        recipe.add(twin.PRODUCT, 0, (i, i))
    recipe.add(twin.PRODUCT, 0, (6, 0))
    arena = new_arena(64)
    ids = recipe.into(arena)
    assert arena.arity[ids[6]] == 64 and ids[7] == -1 and not arena.scalars["full"]


# --- columns ----------------------------------------------------------------------------------------------------


def table(rng: np.random.Generator, rows: int = 40) -> np.ndarray:
    return rng.uniform(0.5, 3.0, size=(len(NAMES), rows))


def pool_for(arena: Arena, x: np.ndarray, slots: int, kind: int = ALPHA_ML, **given: np.ndarray) -> ColumnPool:
    y = given.get("y", np.linspace(-1.0, 2.0, x.shape[1]) ** 2)
    return new_pool(x, y, given.get("root", np.ones(x.shape[1])), arena, slots, 40, kind)


@pytest.mark.parametrize("slots", [3, 4096])
def test_columns_equal_plain_evaluation(slots: int) -> None:
    rng = np.random.default_rng(11)
    recipe = twin.random_recipe(rng, NAMES, TAME, 3_000)
    arena = new_arena(6_000)
    ids = recipe.into(arena)
    x = table(rng)
    pool = pool_for(arena, x, slots, ALPHA_ONES)
    columns = dict(zip(NAMES, x))
    translated = twin.translation(arena, NAMES)
    alphas = {f: np.r_[0.0, np.ones(len(f.children))] for f in translated if f.kind == "projection"}
    # Features come back while the pool has kept and forgotten others.
    for f in np.concatenate([ids, rng.permutation(ids)]):
        compiled = twin.raw_column(arena, pool, f, keep=True)
        plain = evaluate(translated[f], columns, alphas)
        # Every operation adds a rounding error, and none magnifies what it is given.
        assert compiled is not None
        assert (np.abs(compiled - plain) <= 8 * arena.nodes[f] * EPSILON * np.abs(plain)).all()
    owned = pool.owner[pool.owner >= 0]
    assert len(owned) == min(slots, len(set(ids.tolist())))
    np.testing.assert_array_equal(pool.slot[owned] - 1, np.flatnonzero(pool.owner >= 0))
    assert np.count_nonzero(pool.slot) == len(owned)


def test_columns_are_not_finite_where_plain_ones_are_not() -> None:
    rng = np.random.default_rng(12)
    functions = ("p0", "pm1", "p05", "to35")
    recipe = twin.random_recipe(rng, NAMES, functions, 600, projections=0.0)
    arena = new_arena(1_500)
    ids = recipe.into(arena)
    x = rng.normal(size=(len(NAMES), 30))
    x[:, 0] = 0.0
    pool = pool_for(arena, x, 8)
    for f, feature in zip(ids, recipe.features):
        compiled = twin.raw_column(arena, pool, f, keep=True)
        plain = evaluate(feature, dict(zip(NAMES, x)))
        np.testing.assert_array_equal(np.isnan(compiled), np.isnan(plain), err_msg=str(feature))


def projections(seed: int, kind: int, **given: np.ndarray) -> tuple[Arena, ColumnPool, np.ndarray]:
    """A table with projections over covariates and products, their alphas fitted."""
    rng = np.random.default_rng(seed)
    recipe = twin.random_recipe(rng, NAMES, ("sin", "atan"), 400, projections=0.4, most=12)
    arena = new_arena(1_000)
    recipe.into(arena)
    x = table(np.random.default_rng(13))
    pool = pool_for(arena, x, 16, kind, **given)
    return arena, pool, np.flatnonzero(arena.kind[: arena.scalars["count"]] == PROJECTION)


@pytest.mark.parametrize("weighted", [False, True])
def test_alphas_by_likelihood_are_least_squares_on_the_parents(weighted: bool) -> None:
    rng = np.random.default_rng(14)
    rows = 40
    y = rng.normal(size=rows) + 5.0
    w = rng.uniform(0.2, 3.0, size=rows) if weighted else np.ones(rows)
    arena, pool, found = projections(15, ALPHA_ML, y=y, root=np.sqrt(w))
    fitted = 0
    for f in found:
        parents = twin.children(arena, f)
        columns = [twin.raw_column(arena, pool, c) for c in parents]
        ready = twin.raw_column(arena, pool, f, keep=True) is not None
        if any(c is None for c in columns):
            assert not ready
            continue
        design = np.column_stack([np.ones(rows), *columns])
        if np.linalg.cond(design / np.linalg.norm(design, axis=0)) > 1e3:
            continue
        assert ready
        expected = np.linalg.lstsq(design * np.sqrt(w)[:, None], y * np.sqrt(w), rcond=None)[0]
        alphas = np.r_[arena.alpha0[f], arena.alpha[arena.start[f] : arena.start[f] + arena.arity[f]]]
        np.testing.assert_allclose(alphas, expected, rtol=1e-8, atol=1e-9)
        fitted += 1
    assert fitted > 50


def test_projections_inside_other_features_are_fitted_first() -> None:
    recipe = twin.Recipe(NAMES, ("sin",))
    code = transforms["sin"].code
    for j in range(3):
        recipe.add(twin.COVARIATE, j)
    recipe.add(PROJECTION, code, (0, 1))
    recipe.add(twin.PRODUCT, 0, (3, 2))
    recipe.add(PROJECTION, code, (4, 3))
    arena = new_arena(32)
    ids = recipe.into(arena)
    rng = np.random.default_rng(16)
    x, y = table(rng), rng.normal(size=40)
    pool = pool_for(arena, x, 4, y=y)
    column = twin.raw_column(arena, pool, ids[5])
    alphas = {}
    for i in (3, 5):
        inner = recipe.features[i].children
        design = np.column_stack([np.ones(40), *(evaluate(c, dict(zip(NAMES, x)), alphas) for c in inner)])
        alphas[recipe.features[i]] = np.linalg.lstsq(design, y, rcond=None)[0]
    np.testing.assert_allclose(column, evaluate(recipe.features[5], dict(zip(NAMES, x)), alphas), rtol=1e-9, atol=1e-9)


def test_projections_without_unique_alphas_are_refused() -> None:
    recipe = twin.Recipe(NAMES, ("sin",))
    code = transforms["sin"].code
    for j in range(4):
        recipe.add(twin.COVARIATE, j)
    recipe.add(PROJECTION, code, (0, 1, 2))
    recipe.add(PROJECTION, code, (0, 3))
    recipe.add(PROJECTION, code, (0, 1))
    arena = new_arena(32)
    ids = recipe.into(arena)
    x = table(np.random.default_rng(17))
    x[2] = 3.0 * x[0] - x[1]
    x[3] = 0.1
    pool = pool_for(arena, x, 4)
    assert [twin.raw_column(arena, pool, ids[i]) is None for i in (4, 5, 6)] == [True, True, False]


@pytest.mark.parametrize("kind", [ALPHA_ONES, ALPHA_RANDOM])
def test_other_alphas_depend_on_the_feature_alone(kind: int) -> None:
    known: dict[Feature, list[float]] = {}
    repeated = 0
    for seed in (18, 19, 20):
        arena, pool, found = projections(seed, kind)
        translated = twin.translation(arena, NAMES)
        for f in found:
            assert twin.raw_column(arena, pool, f) is not None
            start = arena.start[f]
            # By parent, whose order belongs to the table.
            order = np.argsort([translated[c] for c in twin.children(arena, f)])
            alphas = [float(arena.alpha0[f]), *arena.alpha[start + order].tolist()]
            if translated[f] in known:
                repeated += 1
                assert known[translated[f]] == alphas
            known[translated[f]] = alphas
    assert repeated > 20
    drawn = np.array([a for alphas in known.values() for a in alphas])
    if kind == ALPHA_ONES:
        assert set(drawn.tolist()) == {0.0, 1.0}
    else:
        # Standard normal: mean and variance within four standard errors.
        assert abs(drawn.mean()) < 4 / np.sqrt(len(drawn))
        assert abs(drawn.var() - 1.0) < 4 * np.sqrt(2 / len(drawn))
