"""Logic features: any two spellings of one function meet, texts are read back, compiled columns are the plain ones."""

from __future__ import annotations

import itertools
import pickle

import feature_twin as ft
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modejump.core.compilation import entry
from modejump.core.errors import InputError
from modejump.features.logic.expression import LogicFeature, joined, negated
from modejump.features.logic.functions import MOST_LEAVES, canonical, cofactor, full, functions_of, permuted
from modejump.features.logic.language import Logic
from modejump.features.logic.operators import _join
from modejump.features.logic.space import LogicSpace
from modejump.features.logic.text import parse
from modejump.kernels.populations.feature_chain import PLACE_LIBRARY
from modejump.priors.logic_prior import LogicPrior
from modejump.problem.feature_problem import problem_over
from modejump.samplers.chains.workspace import Workspace

NAMES = ("X1", "X2", "X10", "and", "a b")

# A tree of texts with the Python function it stands for.
leaves = st.sampled_from(NAMES).map(lambda name: (f"`{name}`", lambda row: row[name]))


def _joined(parts):
    (a, f), (b, g), way = parts
    if way == "!":
        return f"!({a})", lambda row: not f(row)
    if way == "&":
        return f"({a}) & ({b})", lambda row: f(row) and g(row)
    return f"({a}) | ({b})", lambda row: f(row) or g(row)


trees = st.recursive(leaves, lambda t: st.tuples(t, t, st.sampled_from("!&|")).map(_joined), max_leaves=6)
ROWS = [dict(zip(NAMES, values, strict=True)) for values in itertools.product([False, True], repeat=len(NAMES))]


def column_of(function) -> tuple[bool, ...]:
    values = [bool(function(row)) for row in ROWS]
    # A function and its complement are one feature.
    return tuple(v != values[0] for v in values)


@settings(max_examples=300, deadline=None)
@given(st.tuples(trees, trees))
def test_two_spellings_are_one_feature_where_they_are_one_function(pair) -> None:
    made = []
    for text, function in pair:
        column = column_of(function)
        if not any(column):
            with pytest.raises(InputError, match="always true or always false"):
                parse(text)
            return
        try:
            feature = parse(text, NAMES)
        except InputError as error:
            assert "needs more than 5 leaves" in str(error)
            return
        assert parse(feature.text) is feature
        table = {name: np.array([row[name] for row in ROWS], float) for name in NAMES}
        found = Logic(NAMES, LogicSpace()).column(feature, table, {})
        assert tuple(found != found[0]) == column
        assert pickle.loads(pickle.dumps(feature)) is feature
        made.append((feature, column))
    (f, a), (g, b) = made
    assert (f is g) == (a == b)


def test_every_function_of_few_leaves_is_known_with_its_fewest_leaves() -> None:
    """By brute force over all trees of up to four leaves with three variables."""
    best: dict[int, int] = {}
    level = {1: {0b10101010, 0b11001100, 0b11110000, 0b01010101, 0b00110011, 0b00001111}}
    for size in range(2, 5):
        level[size] = set()
        for s in range(1, size):
            for a, b in itertools.product(level[s], level[size - s]):
                level[size] |= {a & b, a | b}
    for size, tables in level.items():
        for t in tables:
            best.setdefault(t, size)
    known = functions_of(4)
    expected = {}
    for t, size in best.items():
        made, kept = canonical(t, 3)
        if kept == tuple(range(len(kept))) and kept:
            expected[len(kept), made] = size
    for (k, t), size in expected.items():
        assert known.leaves[known.find(k, t)] == size
    assert len(expected) == known.first[4]


def test_numbers_of_functions_are_those_of_the_books() -> None:
    # Series-parallel networks of labelled edges (2, 8, 52, 472), each edge negated or not, up to complements.
    known = functions_of(MOST_LEAVES)
    for k, networks in zip((2, 3, 4, 5), (2, 8, 52, 472), strict=True):
        own = known.leaves[known.first[k] : known.first[k + 1]]
        assert (own == k).sum() == networks * 2**k // 2


def test_extensions_become_the_function_where_the_last_variable_is_known() -> None:
    known = functions_of(4)
    for k in (1, 2, 3):
        for i in range(known.first[k], known.first[k + 1]):
            found = known.extension[known.extension_first[i] : known.extension_first[i + 1]].tolist()
            for j in range(known.first[k + 1], known.first[k + 2]):
                values = [cofactor(int(known.truth[j]), k + 1, k, value) for value in (0, 1)]
                becomes = int(known.truth[i]) in [v ^ full(k) if v & 1 else v for v in values]
                assert (j in found) == becomes


def test_permuted_tables_are_the_same_function() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        order = tuple(int(i) for i in rng.permutation(4))
        truth = int(rng.integers(1 << 16))
        made = permuted(truth, order)
        back = tuple(order.index(i) for i in range(4))
        assert permuted(made, back) == truth


def workspace() -> Workspace:
    rng = np.random.default_rng(2)
    x = (rng.random((133, 7)) < 0.4).astype(float)
    language = Logic([f"X{j}" for j in range(7)], LogicSpace())
    return Workspace(problem_over(x, rng.normal(size=133), language), 8, features=1 << 14, columns=1, models=64)


def some_features(language: Logic, count: int) -> list[LogicFeature]:
    rng, known = np.random.default_rng(3), functions_of(MOST_LEAVES)
    made = []
    for _ in range(count):
        number = int(rng.integers(known.first[k := int(rng.integers(1, 6))], known.first[k + 1]))
        made.append(LogicFeature.of([language.names[j] for j in rng.permutation(7)[:k]], int(known.truth[number])))
    return made


def test_compiled_columns_are_the_plain_ones() -> None:
    work = workspace()
    features = some_features(work.language, 200)
    table, column = work.problem.table, np.empty(133)
    for number, feature in zip(work.numbers(features), features, strict=True):
        assert work.feature(int(number)) is feature
        assert work.table.complexity[number] == feature.complexity
        assert ft.column_of(work.arrays.space, work.table, work.arrays.pool, number, False, column)
        assert (column == work.language.column(feature, table, {})).all()


@pytest.mark.parametrize("case", ["plain", "always in", "weights"])
def test_products_are_counted(case: str) -> None:
    rng = np.random.default_rng(4)
    x = (rng.random((200, 7)) < 0.4).astype(float)
    more = {"always in": {"always_in": {"age": rng.normal(size=200)}}, "weights": {"weights": rng.random(200) + 0.5}}
    language = Logic([f"X{j}" for j in range(7)], LogicSpace())
    problem = problem_over(x, rng.normal(size=200), language, **more.get(case, {}))
    work = Workspace(problem, 40, features=1 << 12, columns=1, models=64)
    usable = np.zeros(40)
    work.work(PLACE_LIBRARY, work.numbers(some_features(language, 40)), values=usable)
    assert usable.all()
    z = work.arrays.population.z
    np.testing.assert_allclose(work.arrays.data.gram, z @ z.T, atol=1e-13)
    assert (work.arrays.population.shared[:, -1] > 0.0).all() == (case != "weights")


@entry
def join_two(space, table, f, g, way):
    """Two features joined."""
    return _join(space, table, f, g, way)


def test_compiled_crossover_is_the_plain_one() -> None:
    work = workspace()
    features = [f for f in some_features(work.language, 300) if len(f.leaves) <= 3]
    numbers = work.numbers(features)
    for i in range(0, len(features) - 1):
        (f, g), way = features[i : i + 2], i % 4
        a, b = (f.leaves, f.truth), (g.leaves, g.truth)
        parts = [(a, b), (a, negated(b)), (negated(a), b), (a, b)][way]
        found = join_two(work.arrays.space, work.table, numbers[i], numbers[i + 1], way)
        try:
            expected = LogicFeature.of(*joined(*parts, "|" if way == 3 else "&"))
        except InputError:
            assert found == -1
            continue
        # More than five covariates are not joined, even where few of them would matter in the end.
        if len(set(f.leaves) | set(g.leaves)) > MOST_LEAVES:
            assert found == -1
        else:
            assert work.feature(found) is expected


def test_the_prior_counts_trees() -> None:
    weights = np.exp(-LogicPrior().log_weights(100.0, 4, 50))
    assert weights[1:] == pytest.approx([50, 1225 * 4, 19600 * 16, 230300 * 64])
    assert LogicPrior(1000).log_weights(100.0, 2, 50)[1] == pytest.approx(-np.log(1000))


def test_more_leaves_than_covariates_are_refused_where_they_are_asked_for() -> None:
    assert Logic(NAMES[:3], LogicSpace()).limits.leaves == 3
    with pytest.raises(InputError, match="5 leaves, but there are only 3"):
        Logic(NAMES[:3], LogicSpace(leaves=5))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("X1 &", "expected a name, '!' or '\\(', found the end"),
        ("(X1", r"expected '&', '\|' or '\)', found the end"),
        ("X1 X2", r"expected '&', '\|' or the end"),
        ("X1 + X2", "has no meaning"),
        ("X1 & Y", "'Y' is no column"),
        ("X1 & !X1", "always true or always false"),
    ],
)
def test_texts_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse(text, NAMES)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"leaves": 6}, "at most 5"),
        ({"leaves": 0}, "at least 1"),
        ({"population": 3}, "population of at least that size"),
        ({"mutation": 0.5, "crossover": 0.6}, "sum to 1.1"),
        ({"edits": 2.0}, "give a probability"),
    ],
)
def test_spaces_that_cannot_be(given: dict[str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        LogicSpace(**given)  # type: ignore[arg-type]


def test_latex_and_sympy() -> None:
    sympy = pytest.importorskip("sympy")
    language = Logic(["X1", "X2", "X3"], LogicSpace(leaves=3))
    feature = language.parse("X1 & (X2 | !X3)")
    assert language.latex(feature, {}, 4) == r"\mathrm{X1} \wedge \left(\mathrm{X2} \vee \neg \mathrm{X3}\right)"
    made = sympy.lambdify(sympy.symbols("X1 X2 X3"), language.sympy(feature, {}))
    for row in itertools.product([0, 1], repeat=3):
        assert made(*row) == int(row[0] and (row[1] or not row[2]))
