"""Features: canonical identity, measures against all spellings, printing and evaluation."""

from __future__ import annotations

import copy
import gc
import itertools
import math
import os
import pickle
import subprocess
import sys
import threading
import weakref
from collections import defaultdict

import numpy as np
import pytest
import sympy
from feature_cases import FUNCTIONS, covariates, depth_of, feature_of, features, functions, trees
from hypothesis import given
from hypothesis import strategies as st

from modejump.core.errors import InputError
from modejump.features.nonlinear.expression import MAX_COMPLEXITY, MAX_DEPTH, Feature, evaluate
from modejump.features.nonlinear.printing import to_latex, to_sympy
from modejump.features.nonlinear.transforms import transforms

X, Y, Z = (Feature.covariate(name) for name in "xyz")
LARGEST_TREE = 6


# Identity


@given(st.lists(features, min_size=1, max_size=5), st.data())
def test_products_ignore_order_and_association(factors: list[Feature], data: st.DataObject) -> None:
    shuffled = list(data.draw(st.permutations(factors)))
    while len(shuffled) > 1:
        at = data.draw(st.integers(0, len(shuffled) - 2))
        shuffled[at : at + 2] = [shuffled[at] * shuffled[at + 1]]
    assert shuffled[0] is Feature.product(*factors)


@given(functions, st.lists(features, min_size=1, max_size=4), st.data())
def test_projections_ignore_order_and_repetition(name: str, parents: list[Feature], data: st.DataObject) -> None:
    again = data.draw(st.lists(st.sampled_from(parents), max_size=3))
    shuffled = data.draw(st.permutations(parents + again))
    projection = Feature.projection(name, *parents)
    assert projection is Feature.projection(name, *shuffled)
    assert set(projection.children) == set(parents)
    assert projection is not Feature.modification(name, Feature.product(*parents))


def test_the_example_of_the_definition() -> None:
    assert X * (Y * X) is (X * X) * Y
    assert str(X * (Y * X)) == "x*x*y"
    assert Feature.product(X) is X


@given(features)
def test_structure(feature: Feature) -> None:
    children = feature.children
    assert list(children) == sorted(children)
    assert (feature.kind == "covariate") == (not children) == (feature.name is not None)
    assert (feature.transform is not None) == (feature.kind in ("modification", "projection"))
    if feature.kind == "modification":
        assert len(children) == 1
    elif feature.kind == "product":
        assert len(children) >= 2
        assert all(child.kind != "product" for child in children)
    elif feature.kind == "projection":
        assert len(set(children)) == len(children)


@given(features)
def test_measures(feature: Feature) -> None:
    children = feature.children
    inside = sum(child.complexity for child in children)
    added = {"covariate": 1, "modification": 1, "product": 0, "projection": 1 + len(children)}[feature.kind]
    assert feature.complexity == inside + added
    assert feature.width == max(1, len(children), *(child.width for child in children))
    assert feature.covariates == frozenset().union({feature.name} - {None}, *(c.covariates for c in children))
    deepest = max((child.depth for child in children), default=-1)
    if feature.kind == "product":
        room = sum(2**child.depth for child in children)
        assert 2 ** (feature.depth - 1) < room <= 2**feature.depth
    else:
        assert feature.depth == deepest + 1
    assert feature.depth < feature.complexity
    assert feature.log_spellings == pytest.approx(math.log(feature.spellings))


def test_measures_against_all_spellings() -> None:
    """Every ordered binary tree up to a complexity, put into canonical form: count and depth of the spellings."""
    for complexity in range(1, LARGEST_TREE + 1):
        spelled: dict[Feature, list[int]] = defaultdict(list)
        for tree in trees(complexity):
            spelled[feature_of(tree)].append(depth_of(tree))
        for feature, depths in spelled.items():
            assert feature.complexity == complexity
            assert feature.spellings == len(depths)
            assert feature.depth == min(depths)


def test_spellings_of_projections_multiply() -> None:
    two, six = X * Y, X * X * Y
    assert (two.spellings, six.spellings) == (2, 6)
    assert Feature.projection("sin", two, six).spellings == 12


@given(features)
def test_subfeatures_come_after_their_children(feature: Feature) -> None:
    order = feature.subfeatures()
    place = {node: at for at, node in enumerate(order)}
    assert len(place) == len(order)
    assert order[-1] is feature
    assert all(place[child] < place[node] for node in order for child in node.children)


@given(features, features)
def test_equality_hash_and_order_agree(a: Feature, b: Feature) -> None:
    assert (a == b) == (a is b) == (str(a) == str(b))
    assert (a < b) + (a == b) + (a > b) == 1
    assert (a < b) == ((a.complexity, str(a)) < (b.complexity, str(b)))
    assert (a <= b) == (not b < a)
    if a == b:
        assert hash(a) == hash(b)


def test_features_are_compared_with_features_only() -> None:
    assert X != "x"
    with pytest.raises(TypeError):
        X < "x"  # noqa: B015
    with pytest.raises(TypeError):
        X * 2  # type: ignore[operator]


def test_hashes_and_order_are_the_same_in_every_process() -> None:
    texts = ["x", "`a b`*x", "sin(1 + x + y*y)", "troot(P*P*M)", "sin(x)", "sin(1 + x)", "x*x", "square(x)"]
    script = (
        "import sys; from modejump.features.nonlinear.expression import Feature\n"
        "made = {text: Feature(text) for text in sys.argv[1:]}\n"
        "print([hash(made[text]) for text in sorted(made)], sorted(made.values()))"
    )
    here = f"{[hash(Feature(text)) for text in sorted(texts)]} {sorted(map(Feature, texts))}"
    for seed, order in (("0", texts), ("1", texts[::-1])):
        command = [sys.executable, "-c", script, *order]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == here


# Interning


@given(features)
def test_copies_and_pickles_are_the_same_object(feature: Feature) -> None:
    for twin in (copy.copy(feature), copy.deepcopy([feature])[0], pickle.loads(pickle.dumps(feature))):
        assert twin is feature


def test_a_pickle_needs_no_transform_of_the_user() -> None:
    transforms.add("halved", lambda x: x / 2.0)
    feature = Feature("halved(x*y)*halved(1 + x)")
    stored = pickle.dumps(feature)
    transforms.remove("halved")
    assert pickle.loads(stored) is feature
    script = "import pickle, sys; print(pickle.load(sys.stdin.buffer))"
    done = subprocess.run([sys.executable, "-c", script], input=stored, capture_output=True, check=True)
    assert done.stdout.decode().strip() == str(feature) == "halved(1 + x)*halved(x*y)"
    assert to_latex(feature).startswith(r"\operatorname{halved}")
    assert str(to_sympy(feature)) == "halved(x*y)*halved(alpha_0 + alpha_1*x)"
    with pytest.raises(InputError, match="'halved' is no transform"):
        evaluate(feature.children[1], {"x": [1.0], "y": [1.0]})


def test_unused_features_are_forgotten() -> None:
    reference = weakref.ref(Feature("sin(forgotten_name*x)"))
    gc.collect()
    assert reference() is None


def test_threads_share_features() -> None:
    threads, rounds = 8, 200
    barrier = threading.Barrier(threads)
    made: list[list[Feature]] = [[] for _ in range(threads)]

    def work(own: list[Feature]) -> None:
        for number in range(rounds):
            barrier.wait()
            own.append(Feature.modification("sin", Feature.covariate(f"thread_{number}") * X))

    workers = [threading.Thread(target=work, args=(own,)) for own in made]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(usual)
    for same in zip(*made, strict=True):
        assert len({id(feature) for feature in same}) == 1
    assert all(len(own) == rounds for own in made)


def test_features_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        X.name = "y"
    with pytest.raises(AttributeError):
        del X.name
    with pytest.raises(AttributeError):
        X.colour = "red"  # type: ignore[attr-defined]


# Bad input and limits


def test_complexity_is_limited() -> None:
    with pytest.raises(InputError, match="complexity 1001 is too large"):
        Feature.product(*[X] * (MAX_COMPLEXITY + 1))


def test_depth_is_limited() -> None:
    feature = X
    for _ in range(MAX_DEPTH):
        feature = Feature.modification("sin", feature)
    assert feature.depth == MAX_DEPTH
    assert Feature.parse(str(feature)) is feature
    assert pickle.loads(pickle.dumps(feature)) is feature
    assert evaluate(feature, {"x": [0.0]}).tolist() == [0.0]
    assert to_latex(feature).count(r"\sin") == MAX_DEPTH
    assert to_sympy(feature).count(sympy.sin) == MAX_DEPTH
    for build in (lambda: Feature.modification("sin", feature), lambda: feature * feature):
        with pytest.raises(InputError, match="depth 101 is too large"):
            build()


def test_sharing_cannot_make_huge_features() -> None:
    feature = X
    with pytest.raises(InputError, match="complexity .* is too large"):
        for _ in range(1000):
            feature = Feature.projection("sin", feature * feature)


# Evaluation and printing


def table_of(names: frozenset[str], rows: int = 7) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(8)
    return {name: rng.uniform(0.5, 1.5, rows) for name in sorted(names)}


def alphas_of(feature: Feature) -> dict[Feature, np.ndarray]:
    rng = np.random.default_rng(9)
    projections = [node for node in feature.subfeatures() if node.kind == "projection"]
    return {node: rng.uniform(0.1, 0.5, len(node.children) + 1) for node in projections}


def test_evaluation_follows_the_definitions() -> None:
    table = {"x": np.array([1.0, -2.0, 0.5]), "y": np.array([3.0, 0.25, -1.0])}
    x, y = table["x"], table["y"]
    projection = Feature("tanh(1 + y + x*y)")
    alphas = {projection: [0.5, 2.0, -1.0]}
    fitted = np.tanh(0.5 + 2.0 * y - 1.0 * (x * y))
    expected = {
        "x": x,
        "x*x*y": x * x * y,
        "troot(x*y)": np.abs(x * y) ** (1 / 3),
        "tanh(1 + y + x*y)": fitted,
        "tanh(y + x*y)*sin(tanh(y + x*y))": fitted * np.sin(fitted),
        "p0(x)": [0.0, np.nan, np.log(0.5)],
    }
    for text, column in expected.items():
        np.testing.assert_allclose(evaluate(Feature(text), table, alphas), column, rtol=1e-15)


def test_evaluation_gives_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    column = evaluate(Feature("to35(x)*to35(x)*p0(y)"), {"x": [1e80, 1e200], "y": [-1.0, 0.0]})
    assert np.isnan(column).all()
    assert not recwarn.list


@pytest.mark.parametrize(
    ("table", "alphas", "message"),
    [
        ({"x": [1.0], "y": [1.0]}, None, r"alphas lacks the projection 'sin\(1 \+ x\)'"),
        ({"x": [1.0], "y": [1.0]}, {Feature("sin(1 + x)"): [1.0]}, "must be 2 numbers"),
    ],
)
def test_evaluation_refuses(table: dict, alphas: dict | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(Feature("sin(1 + x)*y"), table, alphas)


@given(features)
def test_sympy_agrees_with_numpy(feature: Feature) -> None:
    table, alphas = table_of(feature.covariates), alphas_of(feature)
    expected = evaluate(feature, table, alphas)
    expression = to_sympy(feature, alphas)
    names = sorted(feature.covariates)
    assert {symbol.name for symbol in expression.free_symbols} <= set(names)
    for row in range(2):
        point = {sympy.Symbol(name): sympy.Float(table[name][row], 30) for name in names}
        # Outside a domain NumPy has NaN where SymPy goes on with complex numbers.
        if not np.isnan(expected[row]):
            # The roundings of NumPy are magnified by steep functions of functions.
            value = complex(expression.evalf(30, subs=point))
            assert value.imag == 0.0
            assert value.real == pytest.approx(expected[row], rel=1e-9, abs=1e-12)


def test_sympy_without_alphas_has_symbols() -> None:
    expression = to_sympy(Feature("sin(1 + tanh(1 + x) + x)"))
    x = sympy.Symbol("x")
    a = sympy.symbols("alpha_:5")
    assert expression == sympy.sin(a[2] + a[3] * x + a[4] * sympy.tanh(a[0] + a[1] * x))


def test_sympy_refuses_missing_alphas() -> None:
    with pytest.raises(InputError, match="alphas lacks"):
        to_sympy(Feature("sin(1 + x)"), {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", r"\mathrm{x}"),
        ("PeriodDays*PeriodDays*M_h", r"\mathrm{M\_h}\,\mathrm{PeriodDays}^{2}"),
        ("troot(x*x*x)", r"\left|\mathrm{x}^{3}\right|^{1/3}"),
        ("sin(x)*sin(x)*y", r"\mathrm{y}\,\left(\sin\left(\mathrm{x}\right)\right)^{2}"),
        ("to35(x)*y", r"\mathrm{y}\,\left|\mathrm{x}\right|^{3.5}"),
        ("`a b%`", r"\mathrm{a\ b\%}"),
        (
            "tanh(1 + sin(1 + x))",
            r"\tanh\left(\alpha_{2} + \alpha_{3}\,\sin\left(\alpha_{0} + \alpha_{1}\,\mathrm{x}\right)\right)",
        ),
    ],
)
def test_latex(text: str, expected: str) -> None:
    assert to_latex(Feature(text)) == expected


@given(features)
def test_latex_is_balanced(feature: Feature) -> None:
    text = to_latex(feature)
    assert text.count(r"\left") == text.count(r"\right")
    bare = text.replace(r"\{", "").replace(r"\}", "")
    levels = list(itertools.accumulate((letter == "{") - (letter == "}") for letter in bare))
    assert min(levels) >= 0
    assert levels[-1] == 0
    assert "#" not in bare.replace(r"\#", "")


@given(covariates, st.sampled_from(FUNCTIONS))
def test_repr_reads_back(covariate: Feature, name: str) -> None:
    feature = Feature.modification(name, covariate)
    assert eval(repr(feature), {"Feature": Feature}) is feature
