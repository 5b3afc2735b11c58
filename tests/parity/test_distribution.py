"""Fresh features: the grammar, the table of edits and random edits against plain twins and their own frequencies."""

from __future__ import annotations

import math

import feature_twin as ft
import numpy as np
import pytest
import twin
from feature_experiments import chi_square, small_problem

from modejump.features.distribution import list_edits
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.problem.feature_problem import feature_problem
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.chains.workspace import Workspace
from modejump.samplers.settings import Sampler

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
    problem = small_problem(11, **SPACES[case])
    library = [Feature.parse(text) for text in LIBRARY.get(case, ("a", "b*sin(a)"))]
    seed, importance = np.random.SeedSequence(1), np.full(2, 0.3)
    chain = ReversibleChain(problem, library, importance, seed, Sampler(edits=0.4), 1 << 22)
    return chain, problem.language.enumerate()


def values_of(chain: ReversibleChain, features: list[Feature]) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of features under the grammar, and under q."""
    tree, total = np.empty(len(features)), np.empty(len(features))
    arrays = chain.arrays
    ft.log_probabilities(arrays.fresh.q, arrays.space, arrays.table, chain.numbers(features), tree, total)
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
    grammar = ft.Grammar.of(chain.language)
    tree, total = values_of(chain, features)
    plain = np.array([grammar.probability(f) for f in features])
    np.testing.assert_allclose(tree, plain, rtol=1e-12)
    assert (plain > 0).all(), "the grammar spells every feature"
    q = chain.arrays.fresh.q
    table = {chain.feature(int(f)): float(q.probability[f]) for f in q.listed}
    assert sum(table.values()) == pytest.approx(1.0, abs=1e-12)
    known = np.array([table.get(f, 0.0) for f in features])
    np.testing.assert_allclose(total, q.share * known + (1.0 - q.share) * plain, rtol=1e-12)
    # What is missing to one is void: too deep, too wide, too complex, or a parent twice.
    assert q.share < total.sum() <= 1.0


@pytest.mark.parametrize("case", SPACES)
def test_draws_have_their_probabilities(case: str) -> None:
    chain, features = chain_of(case)
    tree, total = values_of(chain, features)
    arrays, drawn = chain.arrays, np.empty(DRAWS, np.int64)
    ft.language_draws(arrays.space, arrays.table, ft.stream_of(21), drawn)
    assert chi_square(counts_of(chain, features, drawn), tree, DRAWS) > LEVEL
    ft.q_draws(arrays.fresh.q, arrays.space, arrays.table, ft.stream_of(22), drawn)
    counts = counts_of(chain, features, drawn)
    assert counts.sum() == (drawn >= 0).sum(), "q draws nothing outside the space"
    assert chi_square(counts, total, DRAWS) > LEVEL


def test_a_wrong_probability_is_noticed() -> None:
    chain, features = chain_of("plain")
    tree, _ = values_of(chain, features)
    drawn = np.empty(DRAWS, np.int64)
    ft.tree_draws(chain.arrays.space, chain.table, ft.stream_of(23), 4, drawn)
    # As if the orders of unequal factors were not counted.
    wrong = np.array(
        [p / math.factorial(len(f.children)) if f.kind == "product" else p for f, p in zip(features, tree, strict=True)]
    )
    assert chi_square(counts_of(chain, features, drawn), wrong, DRAWS) < 1e-8


@pytest.mark.parametrize("case", SPACES)
def test_draws_follow_the_plain_twin(case: str) -> None:
    chain, _ = chain_of(case)
    grammar, start = ft.Grammar.of(chain.language), ft.stream_of(24)
    stream, drawn = twin.Stream(start), np.empty(3000, np.int64)
    room = int(chain.language.limits.complexity)
    ft.tree_draws(chain.arrays.space, chain.table, start.copy(), room, drawn)
    made = [grammar.draw(stream, room) for _ in drawn]
    assert [None if f < 0 else chain.feature(int(f)) for f in drawn] == made
    assert None in made


# --- edits ------------------------------------------------------------------------------------------------------


def edit_laws(chain: ReversibleChain, features: list[Feature]) -> list[dict[Feature, float]]:
    return [ft.edit_law(f, chain.language) for f in features]  # type: ignore[arg-type]


@pytest.mark.parametrize("case", SPACES)
def test_edit_probabilities_equal_the_plain_twin(case: str) -> None:
    chain, features = chain_of(case)
    numbers = chain.numbers(features)
    before = chain.table.scalars.copy()
    out = np.empty((len(features), len(features)))
    ft.edit_probabilities(chain.arrays.space, chain.table, numbers, out)
    assert chain.table.scalars == before, "what the count spells is forgotten"
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
        ft.edit_draws(chain.arrays.space, chain.table, numbers[i], ft.stream_of(100 + int(i)), drawn)
        law = edit_laws(chain, [features[i]])[0]
        counts = counts_of(chain, list(law), drawn)
        assert counts.sum() == (drawn >= 0).sum()
        assert chi_square(counts, np.array(list(law.values())), len(drawn)) > LEVEL / len(some)


def bare_table(chain: ReversibleChain) -> Workspace:
    """A workspace whose table is empty."""
    return Workspace(chain.problem, 1, features=5000, columns=1, models=1)


@pytest.mark.parametrize("case", SPACES)
def test_listed_edits_equal_brute_force(case: str) -> None:
    chain, _ = chain_of(case)
    parents, weight = list(chain.library), np.array([0.7, 0.3])
    listed, probability = np.zeros(1000, np.int64), np.zeros(4000)
    bare = bare_table(chain)
    found = list_edits(bare.arrays.space, bare.table, bare.numbers(parents), weight, listed, probability)
    plain: dict[Feature, float] = {}
    for w, law in zip(weight, edit_laws(chain, parents), strict=True):
        for f, p in law.items():
            plain[f] = plain.get(f, 0.0) + w * p
    made = {bare.feature(int(f)): float(probability[f]) for f in listed[:found]}
    assert len(made) == found == len(plain)
    assert made == pytest.approx(plain, rel=1e-12)
    assert np.count_nonzero(probability) == found


def test_a_short_list_takes_the_parents_it_has_room_for() -> None:
    chain, features = chain_of("plain")
    parents = features[:6]
    laws = edit_laws(chain, parents)
    edits_of = [{f for law in laws[:used] for f in law} for used in range(len(parents) + 1)]
    taken = []
    for room in (0, 12, 24, 1000):
        bare = bare_table(chain)
        listed, probability = np.zeros(room, np.int64), np.zeros(4000)
        weight = np.full(len(parents), 1.0 / len(parents))
        found = list_edits(bare.arrays.space, bare.table, bare.numbers(parents), weight, listed, probability)
        taken.append(edits_of.index({bare.feature(int(f)) for f in listed[:found]}))  # type: ignore[arg-type]
    assert taken[0] == 0 < taken[1] < taken[2] < taken[3] == len(parents)


# --- the table of features --------------------------------------------------------------------------------------


def wide_workspace() -> Workspace:
    x = np.random.default_rng(26).normal(size=(20, 3))
    chosen = [transforms["sin"], transforms["troot"]]
    space = Space(complexity=9, mutation=0.3, crossover=0.3, modification=0.2, projection=0.2)
    problem = feature_problem(x, x[:, 0], ("x", "y", "a b"), transforms=chosen, space=space)
    return Workspace(problem, 1, features=4000, columns=1, models=1)


TEXTS = (
    "x", "`a b`", "x*x*y", "sin(x)", "troot(sin(x*y)*`a b`)", "sin(1 + x + x*y)*troot(1 + y)",
    "sin(1 + sin(1 + x) + y)",
)  # fmt: skip


def test_features_go_into_the_table_and_come_back() -> None:
    work = wide_workspace()
    features = [Feature.parse(text) for text in TEXTS]
    numbers = work.numbers(features)
    assert [work.feature(int(f)) for f in numbers] == features
    assert (work.numbers(features[::-1])[::-1] == numbers).all(), "a feature has one number"
    known = {work.feature(f) for f in range(int(work.table.scalars["count"]))}
    assert known >= {part for f in features for part in f.subfeatures()}
    assert len(known) == work.table.scalars["count"]
    for f, number in zip(features, numbers, strict=True):
        assert work.table.complexity[number] == f.complexity
        assert work.table.depth[number] == f.depth
        assert work.table.width[number] == f.width
        assert work.table.log_spellings[number] == pytest.approx(f.log_spellings)
    assert len(work.numbers([])) == 0
