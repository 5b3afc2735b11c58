"""Tree edits against symbolic replacement, their inverses, and the limits of the declared space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import genetic_twin as twin
import numpy as np
import pytest

from modejump.core.errors import InputError
from modejump.features import Feature
from modejump.features.nonlinear.operators import DELETE, INSERT, OPERATORS, STRIP, SWAP_FUNCTION, SWAP_LEAF, WRAP
from modejump.features.nonlinear.space import EDIT_WEIGHTS, MOST, Space
from modejump.features.nonlinear.transforms import transforms
from modejump.features.table import Arena, new_arena
from modejump.samplers.chains.genetic_chain import GeneticChain
from modejump.samplers.gmjmcmc import feature_problem

NAMES = ("x", "y", "z")
FUNCTIONS = ("sin", "troot")
CODES = [transforms[name].code for name in FUNCTIONS]


def grown(seed: int, count: int, **options: float) -> tuple[Arena, list[int], list[Feature]]:
    recipe = twin.random_recipe(np.random.default_rng(seed), NAMES, FUNCTIONS, count, **options)
    arena = new_arena(50_000)
    ids = recipe.into(arena)
    return arena, sorted(set(ids.tolist())), twin.translation(arena, NAMES)


def test_nodes_are_found_in_preorder() -> None:
    arena, ids, _ = grown(1, 400)
    for f in ids:
        nodes = list(twin.preorder(arena, f))
        assert len(nodes) == arena.nodes[f]
        for number, (node, path) in enumerate(nodes):
            found, length = twin.locate(arena, f, number)
            assert found == node
            assert [tuple(row) for row in arena.path[:length].tolist()] == list(path)


def all_edits(arena: Arena, made: list[Feature], f: int) -> Iterator[tuple[int, int, float, float, Feature]]:
    """Operator, node, the two choices, and what becomes of f."""
    for number, (node, path) in enumerate(twin.preorder(arena, f)):
        for operator, pick, choice, new in twin.node_edits(arena, made, node, NAMES, FUNCTIONS):
            yield operator, number, pick, choice, twin.replaced(arena, made, path, new)


def test_every_edit_gives_the_feature_rebuilt_symbolically() -> None:
    arena, ids, made = grown(2, 150)
    declared = Space().compile(CODES, len(NAMES))
    tried = dict.fromkeys((INSERT, DELETE, SWAP_LEAF, SWAP_FUNCTION, STRIP, WRAP), 0)
    expected = []
    for f in ids:
        for operator, number, pick, choice, feature in all_edits(arena, made, f):
            tried[operator] += 1
            expected.append((twin.edit_at(arena, declared, operator, f, number, pick, choice), feature))
    after = twin.translation(arena, NAMES)
    assert all(new >= 0 and after[new] is feature for new, feature in expected)
    assert min(tried.values()) > 50


def test_edits_that_do_not_apply_give_nothing() -> None:
    arena, ids, made = grown(3, 150)
    declared = Space().compile(CODES, len(NAMES))
    bare = Space().compile([], len(NAMES))
    for f in ids:
        kind = made[f].kind
        for operator, kinds in (
            (DELETE, {"product"}),
            (SWAP_LEAF, {"covariate"}),
            (STRIP, {"modification"}),
            (SWAP_FUNCTION, {"modification", "projection"}),
        ):
            if kind not in kinds:
                assert twin.edit_at(arena, declared, operator, f, 0, 0.0, 0.0) == -1
        for operator in (SWAP_FUNCTION, WRAP):
            assert twin.edit_at(arena, bare, operator, f, 0, 0.0, 0.0) == -1


def test_an_edit_that_changes_nothing_is_none() -> None:
    arena, _, _ = grown(4, 10)
    declared = Space().compile(CODES, len(NAMES))
    for j in range(len(NAMES)):
        assert twin.edit_at(arena, declared, SWAP_LEAF, j, 0, (j + 0.5) / len(NAMES), 0.0) == -1


def _at_every_node(feature: Feature, change: Any) -> Iterator[Feature]:
    yield from change(feature)
    for i, child in enumerate(feature.children):
        for new in _at_every_node(child, change):
            parts = [new if j == i else c for j, c in enumerate(feature.children)]
            yield twin.remade(feature, parts)


def _insert(node: Feature) -> Iterator[Feature]:
    yield from (node * Feature.covariate(name) for name in NAMES)


def _delete(node: Feature, covariates_only: bool = False) -> Iterator[Feature]:
    if node.kind == "product":
        for i, factor in enumerate(node.children):
            if factor.kind == "covariate" or not covariates_only:
                yield Feature.product(*node.children[:i], *node.children[i + 1 :])


def _swap_leaf(node: Feature) -> Iterator[Feature]:
    if node.kind == "covariate":
        yield from (Feature.covariate(name) for name in NAMES)


def _swap_function(node: Feature) -> Iterator[Feature]:
    if node.kind == "modification":
        yield from (Feature.modification(g, *node.children) for g in FUNCTIONS)


def _strip(node: Feature) -> Iterator[Feature]:
    if node.kind == "modification":
        yield node.children[0]


def _wrap(node: Feature) -> Iterator[Feature]:
    yield from (Feature.modification(g, node) for g in FUNCTIONS)


NEIGHBOURS = {
    operator: (lambda feature, change=change: set(_at_every_node(feature, change)))
    for operator, change in (
        (INSERT, _insert),
        (DELETE, _delete),
        (SWAP_LEAF, _swap_leaf),
        (SWAP_FUNCTION, _swap_function),
        (STRIP, _strip),
        (WRAP, _wrap),
    )
}


@pytest.mark.parametrize(
    ("operator", "inverse"),
    [(INSERT, DELETE), (WRAP, STRIP), (SWAP_LEAF, SWAP_LEAF), (SWAP_FUNCTION, SWAP_FUNCTION)],
    ids=lambda operator: OPERATORS[operator],
)
def test_edits_are_taken_back_by_their_inverse(operator: int, inverse: int) -> None:
    arena, ids, made = grown(5, 120, projections=0.0, most=10)
    declared = Space().compile(CODES, len(NAMES))
    results = [
        (f, twin.edit_at(arena, declared, kind, f, number, pick, choice))
        for f in ids
        for kind, number, pick, choice, _ in all_edits(arena, made, f)
        if kind == operator
    ]
    after = twin.translation(arena, NAMES)
    assert len(results) > 100
    assert all(made[f] in NEIGHBOURS[inverse](after[new]) for f, new in results)


def test_deleting_a_covariate_and_stripping_are_taken_back() -> None:
    # A factor that is itself a function, and a function around a product inside a product, need more than one edit.
    _, ids, made = grown(6, 150, projections=0.0, most=10)
    for f in ids:
        for new in _at_every_node(made[f], lambda node: _delete(node, covariates_only=True)):
            assert made[f] in NEIGHBOURS[INSERT](new)
        for new in set(_at_every_node(made[f], _strip)):
            if "product" not in {c.kind for part in made[f].subfeatures() for c in part.children}:
                assert made[f] in NEIGHBOURS[WRAP](new)


# --- the declared space -------------------------------------------------------------------------------------------


def random_problem(space: Space, seed: int = 0, rows: int = 60) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 2.0, size=(rows, 3))
    y = x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + 0.1 * rng.normal(size=rows)
    return feature_problem(x, y, NAMES, transforms=twin.listed(FUNCTIONS), space=space)


def test_compiled_limits_equal_the_plain_ones() -> None:
    arena, ids, made = grown(7, 2_000)
    for space in (Space(depth=2), Space(width=2), Space(complexity=5), Space(depth=3, width=3, complexity=7)):
        declared = space.compile(CODES, len(NAMES))
        outcomes = [bool(twin.allowed(arena, declared, f)) for f in ids]
        assert outcomes == [twin.inside(made[f], declared) for f in ids]
        assert 0 < sum(outcomes) < len(outcomes)


LIMITS = {
    "depth": Space(depth=1, projection=0.2, mutation=0.1),
    "no depth": Space(depth=0),
    "width": Space(width=2, projection=0.2, mutation=0.1),
    "complexity": Space(complexity=3, size=2, projection=0.2, mutation=0.1),
    "size": Space(size=1),
    "all": Space(depth=2, width=3, complexity=6, size=3, population=8, projection=0.2, mutation=0.1),
}


@pytest.mark.parametrize("space", LIMITS.values(), ids=LIMITS)
def test_no_feature_or_model_outside_the_space_is_met(space: Space) -> None:
    chain = GeneticChain(random_problem(space), np.random.SeedSequence(8), steps=50, patience=10)
    declared = chain.declared
    met: set[Feature] = set()
    for populations in range(1, 40):
        chain.run_to(populations)
        present = [chain.feature(int(f)) for f in chain.population.feature if f >= 0]
        assert len(set(present)) == len(present)
        met |= set(present)
        assert max(len(model) for model in twin.stored_models(chain)) <= space.size
    archived = twin.kept_models(chain)
    met |= {f for model in archived for f in model}
    assert all(twin.inside(f, declared) for f in met)
    assert chain.archive.size[: chain.archive.num[0]].max() <= space.size


def test_every_operator_is_tried_and_admits_features() -> None:
    chain = GeneticChain(
        random_problem(Space(projection=0.2, mutation=0.1)), np.random.SeedSequence(9), steps=50, patience=10
    )
    chain.run_to(150)
    translated = twin.translation(chain.arena, NAMES)
    assert all(chain.feature(f) is feature for f, feature in enumerate(translated))
    tried = dict(zip(OPERATORS, chain.genetic.tried.tolist()))
    assert all(admitted > 0 for _, admitted in tried.values()), tried
    # The operators are drawn with their weights: each count within four standard errors.
    total = sum(proposed for proposed, _ in tried.values())
    for name, weight in chain.problem.space.operator_weights(True).items():
        assert abs(tried[name][0] - weight * total) < 4 * np.sqrt(total * weight * (1 - weight)) + 1e-9


def test_operators_without_a_transform_give_their_weight_away() -> None:
    weights = Space().operator_weights(any_transform=False)
    assert weights["modification"] == weights["wrap"] == weights["swap_function"] == weights["strip"] == 0.0
    assert sum(weights.values()) == pytest.approx(1.0, abs=1e-12)
    assert sum(EDIT_WEIGHTS.values()) == pytest.approx(1.0, abs=1e-12)
    rng = np.random.default_rng(10)
    x = rng.normal(size=(40, 3))
    problem = feature_problem(x, x[:, 0] * x[:, 1], NAMES, transforms=(), space=Space())
    chain = GeneticChain(problem, np.random.SeedSequence(1), steps=50, patience=10)
    chain.run_to(30)
    assert {f.kind for model in twin.kept_models(chain) for f in model} == {"covariate", "product"}


BAD_SPACES: dict[str, tuple[dict[str, Any], str]] = {
    "depth": ({"depth": -1}, "depth of the space is -1"),
    "width": ({"width": 0}, "width of the space is 0"),
    "complexity": ({"complexity": 2.5}, "complexity of the space is 2.5"),
    "size": ({"size": True}, "size of the space is True"),
    "population": ({"population": 0}, "population of the space is 0"),
    "deep": ({"depth": MOST["depth"] + 1}, "it may be at most 64"),
    "wide": ({"width": MOST["width"] + 1}, "it may be at most 64"),
    "complex": ({"complexity": MOST["complexity"] + 1}, "it may be at most 1000"),
    "probability": ({"mutation": 1.3}, "mutation of the space is 1.3"),
    "no number": ({"crossover": "half"}, "crossover of the space is 'half'"),
    "sum": ({"mutation": 0.5}, "sum to 1.2"),
    "edits": ({"edits": 1.0}, "edits of the space is 1.0"),
    "alphas": ({"alphas": "lasso"}, "choose one of ml, ones, random"),
}


@pytest.mark.parametrize(("options", "words"), BAD_SPACES.values(), ids=BAD_SPACES)
def test_bad_spaces_are_refused_in_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        Space(**options)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_space_that_needs_a_transform_is_refused_without_one() -> None:
    with pytest.raises(InputError, match="add a transform"):
        Space(mutation=0.0, crossover=0.0, modification=1.0, edits=0.0).operator_weights(any_transform=False)
