"""Fresh features: the grammar, the table of edits and random edits against plain twins and their own frequencies."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reversible_twin as rt
import twin

from modejump.experiments.oracle import enumerate_features
from modejump.features import Feature
from modejump.features.fresh import spread_edits
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.features.table import CHILDREN, COUNT, FULL
from modejump.problem.feature_problem import FeatureTable
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.gmjmcmc import feature_problem
from modejump.samplers.populations import Populations

LEVEL = 1e-4
DRAWS = 200_000

# Limits, G, and whether there are projections.
SPACES = {
    "plain": {"columns": 2, "functions": ("sin",), "depth": 2, "width": 3, "complexity": 4},
    "two functions": {"columns": 3, "functions": ("sin", "troot"), "depth": 3, "width": 2, "complexity": 4},
    "projections": {"columns": 2, "functions": ("sin",), "depth": 3, "width": 3, "complexity": 6, "projections": True},
    "no functions": {"columns": 3, "functions": (), "mutation": 0.5, "crossover": 0.5, "modification": 0.0},
    "no products": {"columns": 2, "functions": ("sin", "troot"), "depth": 3, "width": 1, "complexity": 4},
}
LIBRARY = {"no functions": ("a", "a*b"), "no products": ("a", "sin(b)")}


def chain_of(case: str) -> tuple[ReversibleChain, list[Feature]]:
    """A chain over one of the spaces, and all features of the space."""
    problem = rt.small_problem(11, **SPACES[case])
    library = rt.library_of(LIBRARY.get(case, ("a", "b*sin(a)")))
    chain = ReversibleChain(problem, library, np.random.SeedSequence(1), Populations(table=0.4), 1 << 22)
    return chain, enumerate_features(problem.names, problem.transforms, problem.space)


def values_of(chain: ReversibleChain, features: list[Feature]) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of features under the grammar, and under q."""
    tree, total = np.empty(len(features)), np.empty(len(features))
    rt.fresh_values(chain.arena, chain.guests.fresh, chain.declared, chain.numbers(features), tree, total)
    return np.exp(tree), np.exp(total)


def counts_of(chain: ReversibleChain, features: list[Feature], drawn: np.ndarray) -> np.ndarray:
    """How often each feature was drawn."""
    place = {f: i for i, f in enumerate(features)}
    numbers, times = np.unique(drawn[drawn >= 0], return_counts=True)
    counts = np.zeros(len(features))
    for f, m in zip(numbers, times, strict=True):
        if chain.feature(int(f)) in place:
            counts[place[chain.feature(int(f))]] += m
    return counts


@pytest.mark.parametrize("case", SPACES)
def test_probabilities_equal_the_plain_twin(case: str) -> None:
    chain, features = chain_of(case)
    grammar = rt.Grammar.of(chain)
    tree, total = values_of(chain, features)
    plain = np.array([grammar.probability(f) for f in features])
    np.testing.assert_allclose(tree, plain, rtol=1e-12)
    assert (plain > 0).all(), "the grammar spells every feature"
    fresh = chain.guests.fresh
    table = {chain.feature(int(f)): float(fresh.probability[f]) for f in fresh.table}
    assert sum(table.values()) == pytest.approx(1.0, abs=1e-12)
    known = np.array([table.get(f, 0.0) for f in features])
    np.testing.assert_allclose(total, fresh.share * known + (1.0 - fresh.share) * plain, rtol=1e-12)
    # What is missing to one is void: too deep, too wide, too complex, or a parent twice.
    assert fresh.share < total.sum() <= 1.0


@pytest.mark.parametrize("case", SPACES)
def test_draws_have_their_probabilities(case: str) -> None:
    chain, features = chain_of(case)
    tree, total = values_of(chain, features)
    room = chain.declared.max_complexity
    drawn = np.empty(DRAWS, np.int64)
    rt.tree_draws(chain.arena, chain.guests.fresh, chain.declared, rt.stream_of(21), room, drawn)
    assert rt.chi_square(counts_of(chain, features, drawn), tree, DRAWS) > LEVEL
    rt.fresh_draws(chain.arena, chain.guests.fresh, chain.declared, rt.stream_of(22), drawn)
    counts = counts_of(chain, features, drawn)
    assert counts.sum() == (drawn >= 0).sum(), "q draws nothing outside the space"
    assert rt.chi_square(counts, total, DRAWS) > LEVEL


def test_a_wrong_probability_is_noticed() -> None:
    chain, features = chain_of("plain")
    tree, _ = values_of(chain, features)
    drawn = np.empty(DRAWS, np.int64)
    rt.tree_draws(chain.arena, chain.guests.fresh, chain.declared, rt.stream_of(23), 4, drawn)
    # As if the orders of unequal factors were not counted.
    wrong = np.array(
        [p / math.factorial(len(f.children)) if f.kind == "product" else p for f, p in zip(features, tree, strict=True)]
    )
    assert rt.chi_square(counts_of(chain, features, drawn), wrong, DRAWS) < 1e-8


@pytest.mark.parametrize("case", SPACES)
def test_draws_follow_the_plain_twin(case: str) -> None:
    chain, _ = chain_of(case)
    grammar, start = rt.Grammar.of(chain), rt.stream_of(24)
    stream, drawn = twin.Stream(start), np.empty(3000, np.int64)
    room = chain.declared.max_complexity
    rt.tree_draws(chain.arena, chain.guests.fresh, chain.declared, start.copy(), room, drawn)
    made = [grammar.draw(stream, room) for _ in drawn]
    assert [None if f < 0 else chain.feature(int(f)) for f in drawn] == made
    assert None in made


# --- edits ------------------------------------------------------------------------------------------------------


def edit_laws(chain: ReversibleChain, features: list[Feature], **options: bool) -> list[dict[Feature, float]]:
    functions = [t.name for t in chain.problem.transforms]
    return [rt.edit_law(f, chain.declared, chain.problem.names, functions, **options) for f in features]


@pytest.mark.parametrize("case", SPACES)
def test_edit_probabilities_equal_the_plain_twin(case: str) -> None:
    chain, features = chain_of(case)
    numbers = chain.numbers(features)
    before = chain.arena.num.copy()
    out = np.empty((len(features), len(features)))
    rt.edit_values(chain.arena, chain.declared, numbers, out)
    assert (chain.arena.num == before).all(), "what the count spells is forgotten"
    laws = edit_laws(chain, features)
    plain = np.array([[law.get(g, 0.0) for g in features] for law in laws])
    np.testing.assert_allclose(out, plain, rtol=1e-12)
    assert [sum(law.values()) for law in laws] == pytest.approx(plain.sum(axis=1)), "edits stay in the space"
    assert plain.sum(axis=1).max() <= 1.0
    # Insertions, wraps and swaps have inverses. Deletions and strips need not: a factor may be more than a covariate,
    # the argument of a stripped function may melt into a product, and parents of a projection may fall together.
    one_way = (plain > 0) & (plain.T == 0)
    lost = np.array([[f.complexity - g.complexity for g in features] for f in features])
    assert (lost[one_way] > 0).all()
    assert ((plain > 0) & (plain.T > 0)).sum() > 2 * len(features) - 4


@pytest.mark.parametrize("case", ["plain", "two functions", "projections"])
def test_edits_have_their_probabilities(case: str) -> None:
    chain, features = chain_of(case)
    numbers = chain.numbers(features)
    some = np.random.default_rng(25).choice(len(features), size=min(12, len(features)), replace=False)
    for i in some:
        drawn = np.empty(50_000, np.int64)
        rt.edit_draws(chain.arena, chain.declared, numbers[i], rt.stream_of(100 + int(i)), drawn)
        law = edit_laws(chain, [features[i]])[0]
        counts = counts_of(chain, list(law), drawn)
        assert counts.sum() == (drawn >= 0).sum()
        assert rt.chi_square(counts, np.array(list(law.values())), len(drawn)) > LEVEL / len(some)


@pytest.mark.parametrize("case", SPACES)
def test_the_table_of_edits_equals_brute_force(case: str) -> None:
    chain, _ = chain_of(case)
    parents = list(chain.library.features)
    weight = np.array([0.7, 0.3])
    table, probability = np.zeros(1000, np.int64), np.zeros(4000)
    bare = FeatureTable(chain.problem, 5000)
    found, used = spread_edits(bare.arena, chain.declared, bare.numbers(parents), weight, table, probability)
    assert used == len(parents)
    plain: dict[Feature, float] = {}
    for w, law in zip(weight, edit_laws(chain, parents, strict=False), strict=True):
        for f, p in law.items():
            plain[f] = plain.get(f, 0.0) + w * p
    made = {bare.feature(int(f)): float(probability[f]) for f in table[:found]}
    assert len(made) == found == len(plain)
    assert made == pytest.approx(plain, rel=1e-12)
    assert np.count_nonzero(probability) == found


def test_a_small_table_takes_the_parents_it_has_room_for() -> None:
    chain, features = chain_of("plain")
    parents = features[:6]
    functions = [t.name for t in chain.problem.transforms]
    taken = []
    for room in (0, 12, 24, 1000):
        bare = FeatureTable(chain.problem, 5000)
        table, probability = np.zeros(room, np.int64), np.zeros(4000)
        weight = np.full(len(parents), 1.0 / len(parents))
        found, used = spread_edits(bare.arena, chain.declared, bare.numbers(parents), weight, table, probability)
        laws = [rt.edit_law(f, chain.declared, chain.problem.names, functions, strict=False) for f in parents[:used]]
        assert {bare.feature(int(f)) for f in table[:found]} == {f for law in laws for f in law}
        taken.append(used)
    assert taken[0] == 0 < taken[1] < taken[2] < taken[3] == len(parents)


# --- the table of features --------------------------------------------------------------------------------------


def wide_problem() -> FeatureTable:
    x = np.random.default_rng(26).normal(size=(20, 3))
    chosen = [transforms["sin"], transforms["troot"]]
    space = Space(complexity=9, mutation=0.3, crossover=0.3, modification=0.2, projection=0.2)
    return FeatureTable(feature_problem(x, x[:, 0], ("x", "y", "a b"), transforms=chosen, space=space), 4000)


TEXTS = (
    "x", "`a b`", "x*x*y", "sin(x)", "troot(sin(x*y)*`a b`)", "sin(1 + x + x*y)*troot(1 + y)",
    "sin(1 + sin(1 + x) + y)",
)  # fmt: skip


def test_features_go_into_the_table_and_come_back() -> None:
    table = wide_problem()
    features = [Feature.parse(text) for text in TEXTS]
    numbers = table.numbers(features)
    assert [table.feature(int(f)) for f in numbers] == features
    assert (table.numbers(features[::-1])[::-1] == numbers).all(), "a feature has one number"
    known = {table.feature(f) for f in range(int(table.arena.scalars["count"]))}
    assert known >= {part for f in features for part in f.subfeatures()}
    assert len(known) == table.arena.scalars["count"]
    for f, number in zip(features, numbers, strict=True):
        assert table.arena.complexity[number] == f.complexity
        assert table.arena.depth[number] == f.depth
        assert table.arena.width[number] == f.width
        assert table.arena.log_spellings[number] == pytest.approx(f.log_spellings)
    assert len(table.numbers([])) == 0


def test_truncation_leaves_the_table_as_it_was() -> None:
    table = wide_problem()
    features = [Feature.parse(text) for text in TEXTS]
    first = table.numbers(features[:4])
    arena = table.arena
    count, children = int(arena.scalars["count"]), int(arena.scalars["children"])
    slots, keys = arena.slots.copy(), arena.key[:count].copy()
    rng = np.random.default_rng(27)
    for _ in range(20):
        later = [features[i] for i in rng.permutation(len(features))]
        table.numbers(later)
        assert arena.scalars["count"] > count
        rt.cut_back(arena, count, children)
        table._memo = {}
        assert (arena.slots == slots).all() and (arena.key[:count] == keys).all()
        assert (arena.scalars["count"], arena.scalars["children"], arena.scalars["full"]) == (count, children, 0)
        assert (table.numbers(features[:4]) == first).all()
        assert [table.feature(int(f)) for f in first] == features[:4]
