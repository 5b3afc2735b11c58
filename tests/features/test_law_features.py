"""Features of laws: all spellings of a law are one object, and text, values and order survive every change of form."""

from __future__ import annotations

import itertools
import pickle
from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from modejump.core.errors import InputError
from modejump.features.laws.expression import Feature, compose, evaluate
from modejump.features.laws.powers import LAW_TRANSFORMS, exponents_and_functions
from modejump.features.laws.printing import to_latex, to_sympy, to_text
from modejump.features.laws.text import parse, parse_node, read
from modejump.features.laws.written import value_of, written

ROWS = np.random.default_rng(5).uniform(0.6, 1.7, (7, 3))
TABLE = dict(zip("xyz", ROWS.T))

SPELLINGS = [
    ("q1*q2/r^2", ("inv(square(r))*q1*q2", "q1/(r*r)*q2", "pm2(r)*q1*q2", "(r/q1)^-1*q2/r", "q2*r**-2*q1")),
    ("sqrt(L/g)", ("L^0.5*g^(-1/2)", "sroot(L)/p05(g)", "sqrt(L)*pm05(g)", "(L*g^-1)^(1/2)")),
    ("cbrt(M*P^2)", ("troot(M*P*P)", "troot(M)*P^(2/3)", "cbrt(P)*cbrt(M*P)")),
    ("S*V/(S + c0)", ("V*S/(c0 + S)", "V*S/(1 + c0*S)", "V*S*inv(c1*S + c7)")),
    ("exp(x - y)", ("exp(x)*exp(-y)", "exp(x)/exp(y)", "exp(-(y - x))", "exp(y - x)^-1")),
    ("sin(x - y)", ("sin(y - x)", "-sin(-x + y)")),
    ("cos(x - y)", ("cos(y - x)",)),
    ("sin(c0*x + c1)", ("sin(c0*(x + c1))", "sin(c5 - c1*x)")),
    ("z/sqrt(1 - x^2)", ("z/sqrt(x^2 - 1)", "z*(1 - x*x)^(-1/2)")),
    ("z/(x^2 - 1)", ("z/(1 - x^2)",)),
    ("exp(c0*(x + c1)^2)", ("exp(-(x - c0)^2/c1)",)),
    ("log(x)", ("p0(x)", "-log(x)")),
    ("exp(sin(x))", ("exp(-sin(-x))",)),
    ("exp(-x/(y - z))", ("exp(x/(z - y))", "1/exp(x/(y - z))")),
    ("(x/y)^c0", ("exp(c0*log(x/y))", "1/(x/y)^c0")),
    ("z*x^c0*y^c1", ("z*exp(c0*log(x) + c1*log(y))", "z*x^c0/y^c1")),
    ("exp(c0*z)*(x + c2)^c1", ("exp(c0*z + c1*log(x + c2))",)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "others"), SPELLINGS, ids=[text for text, _ in SPELLINGS])
def test_spellings_of_one_law_are_one_object(text: str, others: tuple[str, ...]) -> None:
    feature = Feature(text)
    for other in others:
        assert Feature(other) is feature, other


def test_text_is_what_people_write() -> None:
    for text, _ in SPELLINGS:
        assert Feature(text).text == text


@pytest.mark.parametrize(
    ("text", "measures"),
    [
        ("x", (1, 0, 1, 0)),
        ("q1*q2/r^2", (5, 0, 3, 0)),
        ("sqrt(L/g)", (4, 0, 2, 0)),
        ("sqrt(m/(A*C*r))", (7, 0, 4, 0)),
        ("cbrt(M*P^2)", (4, 0, 2, 0)),
        ("1/(x*y*z)", (4, 0, 3, 0)),
        ("(x/y)^2", (4, 0, 2, 0)),
        ("sqrt(x)*cbrt(y)", (4, 0, 2, 0)),
        ("x^(3/2)", (3, 0, 1, 0)),
        ("1/x", (2, 0, 1, 0)),
        ("S*V/(S + c0)", (6, 1, 3, 1)),
        ("exp(c0*t)*cos(c1*t)", (6, 1, 2, 2)),
        ("x*log(1 + exp(c0*x/y))", (9, 2, 2, 1)),
    ],
)
def test_measures(text: str, measures: tuple[int, ...]) -> None:
    f = Feature(text)
    assert (f.complexity, f.depth, f.width, f.constants) == measures


VOID = [
    "x/x", "x - x", "sin(x + x)", "exp(x)^2", "exp(1 + x)", "exp(log(x))", "exp(-log(x)*1 + y)", "log(exp(x))",
    "log(c0*x)", "cos(x + c0)", "sin(1 + x)", "x^0", "exp(x)*exp(-x)", "sin(c0)", "y*log(1 + c0*x)", "2*x", "x^y",
    "c0*exp(c0*x)", "x + y", "1", "c0", "sin(3.5*x)", "foo(x)", "x*", "(x", "x)", "x y", "1e*x", "x^(1/0)",
    "sin(pi*x*2)",
]  # fmt: skip


@pytest.mark.parametrize("text", VOID)
def test_what_is_no_feature_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(InputError) as caught:
        Feature(text, names=["x", "y"])
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_errors_point_at_the_place() -> None:
    with pytest.raises(InputError, match="at position 5, 'yy' is no column: perhaps you mean 'y'"):
        Feature("x + yy", ["x", "y"])
    with pytest.raises(InputError, match=r"at position 7, expected an operator or '\)', found the end"):
        Feature("sin(x ")
    with pytest.raises(InputError, match="at position 3, 'y' is a column: write '\\*' before the brackets"):
        Feature("x*y(x)", ["x", "y"])


def test_names_like_constants_are_columns_where_they_are_asked_for() -> None:
    column = Feature.covariate("c0")
    assert column.text == "`c0`" and Feature("`c0`") is column and Feature("c0*x", ["c0", "x"]) is column * Feature("x")
    assert Feature("exp(c0*x)").constants == 1 and parse("exp(c0*x)", ["c0", "x"]).constants == 0
    assert parse("exp(c0*x)", ["c0", "x"], constants=True).constants == 1


# --- random features ------------------------------------------------------------------------------------------------

EXPONENTS = st.sampled_from([Fraction(p) for p in ("2", "3", "-1", "-2", "1/2", "-1/2", "1/3", "2/3", "-3/2", "4")])


def _or_void(build, *arguments):
    try:
        return build(*arguments)
    except InputError:
        return Feature.covariate("x")


def _monomials(inner: st.SearchStrategy[Feature]) -> st.SearchStrategy[Feature]:
    # No term has the number 1 twice, as sums would refuse it.
    term = st.one_of(
        inner,
        inner.map(Feature.free),
        inner.map(Feature.minus),
        st.sampled_from([Feature.one(), Feature.free(Feature.one())]),
    )
    total = st.lists(term, min_size=1, max_size=3).map(lambda terms: _or_void(Feature.sum_, *terms))
    total = total.map(lambda node: node if node.is_monomial or node.kind == "sum" else Feature.covariate("y"))
    argument = st.one_of(total, inner.map(Feature.free), inner.map(Feature.minus))
    return st.one_of(
        st.tuples(st.sampled_from(["exp", "log", "sin", "cos", "tanh", "gauss"]), argument).map(
            lambda pair: _or_void(Feature.call, *pair)
        ),
        st.tuples(total, EXPONENTS).map(lambda pair: _or_void(Feature.power, *pair)),
        st.lists(st.one_of(inner, total), min_size=2, max_size=3).map(lambda parts: _or_void(Feature.product, *parts)),
    ).filter(lambda node: node.is_monomial)


FEATURES = st.recursive(st.sampled_from("xyz").map(Feature.covariate), _monomials, max_leaves=6)


@settings(max_examples=400, deadline=None)
@given(FEATURES)
def test_text_gives_the_feature_back(feature: Feature) -> None:
    for node in feature.subfeatures():
        assert parse_node(node.text) is node
        assert pickle.loads(pickle.dumps(node)) is node
        assert compose(node.kind, node.label, node.children) is node
    assert Feature(feature.text) is feature


@settings(max_examples=400, deadline=None)
@given(FEATURES, st.integers(0, 2**32 - 1))
def test_values_are_those_of_the_text(feature: Feature, seed: int) -> None:
    constants = np.random.default_rng(seed).uniform(0.5, 2.0, feature.constants) * (-1) ** np.arange(feature.constants)
    column = evaluate(feature, TABLE, constants)
    with np.errstate(all="ignore"):
        named = value_of(read(feature.text), TABLE, {f"c{k}": c for k, c in enumerate(constants)})
        numbers = value_of(read(to_text(feature, constants, digits=17)), TABLE, {})
    for other in (named, numbers):
        both = np.isfinite(column) & np.isfinite(other) & (np.abs(column) < 1e8) & (np.abs(column) > 1e-8)
        np.testing.assert_allclose(column[both], np.broadcast_to(other, column.shape)[both], rtol=1e-6)


@settings(max_examples=200, deadline=None)
@given(st.lists(FEATURES, min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_the_order_is_total_and_the_same_however_nodes_come(features: list[Feature], random) -> None:
    nodes = list({node for feature in features for node in feature.subfeatures()})
    assert len({node.sort_key for node in nodes}) == len(nodes)
    first = sorted(nodes, key=lambda node: node.sort_key)
    random.shuffle(nodes)
    assert sorted(nodes, key=lambda node: node.sort_key) == first
    for node in nodes:
        if node.kind in ("product", "sum"):
            keys = [child.sort_key for child in node.children]
            assert keys == sorted(keys) and len(set(keys)) == len(keys)


@settings(max_examples=200, deadline=None)
@given(st.lists(FEATURES, min_size=3, max_size=3))
def test_products_have_no_order_and_no_brackets(features: list[Feature]) -> None:
    results = set()
    for a, b, c in itertools.permutations(features):
        try:
            results |= {Feature.product(a, b, c), Feature.product(Feature.product(a, b), c)}
        except InputError:
            # What cancels on the way is void on the way only.
            continue
    assert len(results) <= 1


# --- expressions as people write them -------------------------------------------------------------------------------


def positive(rng: np.random.Generator, size: int) -> str:
    """An expression that is positive on positive columns, so that no convention about signs matters."""
    if size <= 1:
        return str(rng.choice(list("xyz")))
    left = int(rng.integers(1, size))
    kind = rng.integers(7)
    if kind < 3:
        sign = ("*", "/", " + ")[kind]
        return f"({positive(rng, left)}){sign}({positive(rng, size - left)})"
    inside = positive(rng, size - 1)
    if kind == 3:
        return f"(1 + {inside})"
    if kind == 4:
        return f"({inside})^{rng.choice(['2', '3', '(-1)', '0.5', '(-1/3)', '(2/3)'])}"
    if kind == 5:
        return f"{rng.choice(['inv', 'sqrt', 'cbrt', 'square', 'pm2', 'troot'])}({inside})"
    return f"exp({signed(rng, size - 1)})"


def signed(rng: np.random.Generator, size: int) -> str:
    left = int(rng.integers(1, max(size, 2)))
    kind = rng.integers(5)
    if kind == 0:
        return f"{positive(rng, left)} - {positive(rng, max(size - left, 1))}"
    if kind == 1:
        return f"-({positive(rng, size)})"
    if kind == 2 and size > 1:
        return f"{rng.choice(['sin', 'cos'])}({signed(rng, size - 1)})"
    return f"log({positive(rng, size)})" if kind == 3 else positive(rng, size)


def test_the_canonical_form_has_the_values_of_what_was_written() -> None:
    rng, compared = np.random.default_rng(11), 0
    for _ in range(3000):
        text = f"({positive(rng, int(rng.integers(1, 9)))})*{rng.choice(['1', 'sin({})', 'cos({})'])}"
        text = text.format(signed(rng, int(rng.integers(1, 7))))
        try:
            feature = Feature(text)
        except InputError:
            continue
        with np.errstate(all="ignore"):
            before, after = value_of(read(text), TABLE, {}), evaluate(feature, TABLE)
            again = value_of(read(written(read(text))), TABLE, {})
        both = np.isfinite(before) & np.isfinite(after) & (np.abs(before) < 1e6) & (np.abs(before) > 1e-6)
        if both.any():
            compared += 1
            np.testing.assert_allclose(again[both], before[both], rtol=1e-9, err_msg=text)
            # A feature is what it is up to sign.
            sign = np.sign(before[both][0] * after[both][0])
            np.testing.assert_allclose(sign * after[both], before[both], rtol=1e-6, err_msg=text)
    assert compared > 1000


@settings(max_examples=100, deadline=None)
@given(FEATURES)
def test_sympy_has_the_same_values(feature: Feature) -> None:
    assume(feature.complexity < 12)
    constants = np.linspace(0.5, 1.5, feature.constants)
    column = evaluate(feature, TABLE, constants)
    expression = to_sympy(feature, constants)
    value = complex(expression.evalf(30, subs={sympy.Symbol(name): TABLE[name][0] for name in "xyz"}))
    assume(np.isfinite(column[0]) and 1e-6 < abs(column[0]) < 1e6 and abs(value.imag) < 1e-12)
    assert value.real == pytest.approx(column[0], rel=1e-7)


def test_latex() -> None:
    assert to_latex(Feature("q1*q2/r^2")) == r"\frac{\mathrm{q1}\,\mathrm{q2}}{\mathrm{r}^{2}}"
    assert to_latex(Feature("1/sqrt(x + c0)"), [-2.0]) == r"\frac{1}{\sqrt{\mathrm{x} - 2}}"
    assert to_latex(Feature("z*(x + y)^2")) == r"\mathrm{z}\,\left(\mathrm{x} + \mathrm{y}\right)^{2}"


def test_default_transforms_of_laws() -> None:
    exponents, functions = exponents_and_functions(LAW_TRANSFORMS)
    positive = [Fraction(e) for e in ("1/3", "1/2", "2/3", "1", "3/2", "2", "3", "4")]
    assert exponents == tuple([-e for e in reversed(positive)] + positive)
    assert functions == ("exp", "log", "sin", "cos", "tanh")


def test_a_feature_needs_all_its_constants() -> None:
    with pytest.raises(InputError, match="has 1 constants, but 0 values"):
        evaluate(Feature("exp(c0*x)"), TABLE)
    with pytest.raises(InputError, match="no column 'q'"):
        evaluate(Feature("q"), TABLE)
