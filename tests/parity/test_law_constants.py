"""Constants of laws: compiled against plain, known laws, what is identified, and what they may not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize
from support.law_constants import LawTable, PlainFit, laws_over

from modejump.features.laws.expression import Feature, evaluate
from modejump.features.nonlinear.transforms import transforms
from modejump.problem.feature_problem import problem_over
from modejump.problem.law_constants import fitting_of
from modejump.samplers.chains.workspace import fitted_constants

# A law, the ranges of its columns, and the constants of the law that makes the data.
KNOWN = {
    "A*exp(c0*t)": ({"A": (1, 5), "t": (0, 5)}, [-0.31]),
    "V*S/(S + c0)": ({"V": (1, 5), "S": (0.1, 10)}, [1.98]),
    "m/sqrt(v^2 + c0)": ({"m": (1, 5), "v": (0, 0.9)}, [-1.0]),
    "exp(c0*t)*cos(c1*t)": ({"t": (0, 10)}, [2.0, -0.31]),
    "A*exp(c0*t)*sin(c1*t + c2)": ({"A": (1, 3), "t": (0, 20)}, [-0.1, 3.3, 1.1]),
    "exp(c0*(x + c1)^2)": ({"x": (-3, 5)}, [-0.7, -1.2]),
    "x^3/(exp(c0*x/T) - 1)": ({"x": (0.2, 5), "T": (1, 3)}, [2.2]),
    "1/(exp(c0*x) + c1)": ({"x": (0, 3)}, [2.0, 0.5]),
    "tanh(c0*x + c1)": ({"x": (0, 10)}, [1.7, -5.1]),
    "log(x + c0)": ({"x": (0, 10)}, [0.5]),
    "1/(x + c0*y + c1)": ({"x": (0, 10), "y": (0, 10)}, [2.5, 1.0]),
    "sqrt(y^2 + (x + c0)^2)": ({"x": (-3, 3), "y": (-3, 3)}, [-1.0]),
    "cos(u + c0*v)": ({"u": (0, 3), "v": (0, 3)}, [-1.7]),
}


def _case(text, noise, n=200, seed=1):
    ranges, constants = KNOWN[text]
    rng = np.random.default_rng(seed)
    columns = {name: rng.uniform(*ends, n) for name, ends in ranges.items()}
    feature = Feature.parse(text)
    law = 3.0 + 2.0 * evaluate(feature, columns, constants)
    y = law + noise * law.std() * rng.normal(size=n)
    return feature, columns, law, y, rng.uniform(0.5, 2.0, n)


def _left(y, column, weights):
    """Share of the response that intercept and slope leave."""
    root = np.sqrt(weights)
    design = root[:, None] * np.column_stack([np.ones(len(y)), column])
    residual = root * y - design @ np.linalg.lstsq(design, root * y, rcond=None)[0]
    centred = root * (y - np.average(y, weights=weights))
    return (residual @ residual) / (centred @ centred)


@pytest.mark.parametrize("text", KNOWN)
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_known_laws_are_recovered(text, noise):
    feature, columns, law, y, weights = _case(text, noise)
    table = LawTable(laws_over(list(columns)), columns, y, weights)
    column, constants = table.column(feature), table.constants(feature)
    assert column is not None and constants is not None
    np.testing.assert_allclose(column, evaluate(feature, columns, constants), rtol=1e-9, atol=1e-12)
    # No worse than the law that made the data, which intercept and slope fit as well.
    assert _left(y, column, weights) <= max(_left(y, law, weights), 1e-14)


@pytest.mark.parametrize("text", [*KNOWN, "x*(x + c0)", "y*exp(c0*x)/(x + c1)", "x*sin(c0*y)", "x/(y^2 + c0*x + c1)"])
@pytest.mark.parametrize("seed", [2, 3])
def test_the_plain_twin_finds_the_same_constants(text, seed):
    rng = np.random.default_rng(seed)
    if text in KNOWN:
        feature, columns, _, y, weights = _case(text, 0.3, seed=seed)
    else:
        feature, weights = Feature.parse(text), rng.uniform(0.5, 2.0, 150)
        columns = {"x": rng.uniform(0.2, 4, 150), "y": rng.uniform(0.2, 4, 150)}
        y = np.sin(2.0 * columns["y"]) * columns["x"] / (1 + columns["x"]) + 0.3 * rng.normal(size=150)
    table = LawTable(laws_over(list(columns)), columns, y, weights)
    compiled, plain = table.constants(feature), PlainFit(feature, columns, y, weights).fit()
    assert (compiled is None) == (plain is None)
    if plain is not None:
        np.testing.assert_allclose(compiled, plain, rtol=1e-6)
        np.testing.assert_allclose(table.column(feature), evaluate(feature, columns, plain), rtol=1e-6, atol=1e-6)


def test_columns_without_constants_are_those_of_the_expressions():
    rng = np.random.default_rng(4)
    columns = {name: rng.uniform(0.3, 3, 50) for name in "ab"}
    table = LawTable(laws_over(["a", "b"]), columns, rng.normal(size=50))
    texts = ("a", "a/b^2", "sqrt(a)*cbrt(b)", "a^(2/3)/(a - b^2 + 1)", "exp(-a)*log(a + b)", "sin(a*b - a)^3", "a^-4")
    for feature in map(Feature.parse, texts):
        np.testing.assert_allclose(table.column(feature), evaluate(feature, columns), rtol=1e-12)


@pytest.mark.parametrize("function", ["exp", "sin", "cos"])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 600.0, 5e4, 1e9])
def test_functions_of_rows_are_those_of_numpy(function, scale):
    x = np.append(scale * np.random.default_rng(5).uniform(-1, 1, 400), [0.0, np.nan])
    table = LawTable(laws_over(["x"]), {"x": x}, np.arange(402.0))
    feature = Feature.parse(f"{function}(x)")
    np.testing.assert_allclose(table.column(feature), evaluate(feature, {"x": x}), rtol=4e-16, atol=2e-16)


def test_constants_do_not_depend_on_what_the_table_holds():
    feature, columns, _, y, weights = _case("A*exp(c0*t)*sin(c1*t + c2)", 0.1)
    first = LawTable(laws_over(["A", "t"]), columns, y, weights)
    second = LawTable(laws_over(["t", "A"]), columns, y, weights)
    for other in ("t/(A + c0)", "sin(c0*t + c1)", "exp(c0*t)*A^2", "A*sin(c0*t)"):
        second.column(Feature.parse(other))
    np.testing.assert_array_equal(first.constants(feature), second.constants(feature))


def test_what_is_remembered_is_what_a_fit_gives():
    feature, columns, _, y, weights = _case("1/(exp(c0*x) + c1)", 0.05)
    table = LawTable(laws_over(["x"]), columns, y, weights)
    first, column = table.constants(feature), table.column(feature)
    np.testing.assert_array_equal(table.constants(feature), first)
    table.forget()
    np.testing.assert_array_equal(table.constants(feature), first)
    np.testing.assert_array_equal(table.column(feature), column)


@pytest.mark.parametrize("text", ["x/(x + c0)", "exp(c0*x)", "sin(c0*x)", "tanh(c0*x)", "log(x + c0)"])
def test_a_constant_that_only_makes_a_line_is_none(text):
    x = np.random.default_rng(5).uniform(0, 1, 200)
    table = LawTable(laws_over(["x"]), {"x": x}, 3.0 * x)
    assert table.constants(Feature.parse(text)) is None
    assert table.column(Feature.parse(text)) is None


def test_a_constant_that_another_one_can_replace_is_none():
    rng = np.random.default_rng(6)
    x = rng.uniform(0.1, 2, 200)
    # Two columns with one and the same values: only the sum of their rates is identified.
    table = LawTable(laws_over(["x", "z"]), {"x": x, "z": x}, np.exp(-x) + 0.1 * rng.normal(size=200))
    assert table.constants(Feature.parse("exp(c0*x + c1*z)")) is None
    assert table.constants(Feature.parse("exp(c0*x)")) is not None


def test_signs_and_phases_that_the_data_leave_open_follow_a_convention():
    rng = np.random.default_rng(9)
    x = rng.uniform(0, 4, 200)
    table = LawTable(laws_over(["x"]), {"x": x}, np.tanh(-0.6 * x + 1.2) + 0.01 * rng.normal(size=200))
    rate, shift = table.constants(Feature.parse("tanh(c0*x + c1)"))
    assert abs(rate - 0.6) < 0.05 and abs(shift + 1.2) < 0.1
    # Beside another term the sign of an odd function counts.
    table = LawTable(laws_over(["x"]), {"x": x}, 1.0 / (2.0 + np.tanh(-0.6 * x)))
    rate, shift = table.constants(Feature.parse("1/(tanh(c0*x) + c1)"))
    np.testing.assert_allclose([abs(rate), rate * shift], [0.6, -1.2], rtol=1e-6)
    table = LawTable(laws_over(["x"]), {"x": x}, np.sin(3.0 * x + 2.0))
    np.testing.assert_allclose(table.constants(Feature.parse("sin(c0*x + c1)")), [3.0, 2.0 - np.pi], rtol=1e-6)


def test_of_many_rows_all_count_in_the_end():
    feature, columns, _, y, weights = _case("V*S/(S + c0)", 0.3, n=5000)
    found = LawTable(laws_over(["V", "S"]), columns, y, weights).constants(feature)
    best = optimize.minimize_scalar(
        lambda c: _left(y, evaluate(feature, columns, [c]), weights), bracket=(1.0, 3.0), tol=1e-12
    )
    np.testing.assert_allclose(found, best.x, rtol=1e-6)


def test_a_transform_of_the_users_own_has_its_constants_too():
    def softplus(x):
        return np.logaddexp(0.0, x)

    own = transforms.add("softplus", softplus)
    try:
        rng = np.random.default_rng(7)
        columns = {"x": rng.uniform(0, 10, 200)}
        y = softplus(1.3 * columns["x"] - 5.0)
        table = LawTable(laws_over(["x"], ("exp", own.name)), columns, y)
        np.testing.assert_allclose(table.constants(Feature.parse("softplus(c0*x + c1)")), [1.3, -5.0], rtol=1e-6)
    finally:
        transforms.remove("softplus")


LIKELIHOODS = {
    ("binomial", "logit"): lambda y, e: y * e - np.logaddexp(0.0, e),
    ("binomial", "cloglog"): lambda y, e: y * np.log(-np.expm1(-np.exp(e))) - (1 - y) * np.exp(e),
    ("poisson", "log"): lambda y, e: y * e - np.exp(e),
    ("gamma", "log"): lambda y, e: -y * np.exp(-e) - e,
}


@pytest.mark.parametrize(("family", "link"), LIKELIHOODS)
@pytest.mark.parametrize("n", [300, 2500])
def test_generalised_models_have_the_constants_of_their_likelihood(family, link, n):
    rng = np.random.default_rng(8)
    columns = {"A": rng.uniform(0.5, 2, n), "t": rng.uniform(0, 5, n)}
    offset, weights = 0.3 * rng.normal(size=n), rng.uniform(0.5, 2.0, n)
    eta = offset - 1.0 + 2.5 * columns["A"] * np.exp(-0.8 * columns["t"])
    draws = {"binomial": lambda: rng.random(n) < 1 / (1 + np.exp(-eta)), "poisson": lambda: rng.poisson(np.exp(eta))}
    y = np.asarray(draws.get(family, lambda: rng.gamma(3.0, np.exp(eta) / 3.0))(), np.float64)
    language = laws_over(["A", "t"])
    problem = problem_over(
        np.column_stack(list(columns.values())), y, language, family=family, link=link, offset=offset, weights=weights
    )
    feature = Feature.parse("A*exp(c0*t)")
    table = LawTable(language, columns, y, weights, fitting_of(problem))
    found = table.constants(feature)
    log_likelihood = LIKELIHOODS[family, link]

    def misfit(theta):
        predictor = offset + theta[0] + theta[1] * evaluate(feature, columns, theta[2:])
        return -(weights * log_likelihood(y, predictor)).sum()

    best = optimize.minimize(misfit, [-1.0, 2.5, -0.8], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-11})
    np.testing.assert_allclose(found, best.x[2:], rtol=2e-6)


def test_a_chain_tells_the_constants_of_whole_features():
    feature, columns, _, y, weights = _case("A*exp(c0*t)*sin(c1*t + c2)", 0.1)
    language = laws_over(["A", "t"])
    problem = problem_over(np.column_stack(list(columns.values())), y, language, weights=weights)
    known = [feature, Feature.parse("A*t"), Feature.parse("t/(t + c0)")]
    found = fitted_constants(problem, known)
    table = LawTable(language, columns, y, weights, fitting_of(problem))
    for f in (known[0], known[2]):
        np.testing.assert_array_equal(found[f], table.constants(f))
    assert known[1] not in found
