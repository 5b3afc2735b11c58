"""The registry of transforms: every entry against its definition, its compiled twin and its SymPy form."""

from __future__ import annotations

import ctypes
import math
import pickle
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import sympy

from modejump.core.errors import InputError
from modejump.features.nonlinear.builtin import DOMAINS
from modejump.features.nonlinear.calls import addresses
from modejump.features.nonlinear.expression import Feature, evaluate
from modejump.features.nonlinear.printing import to_latex, to_sympy
from modejump.features.nonlinear.transforms import Domain, Transform, Transforms, transforms

INF, NAN = math.inf, math.nan
BUILT_IN = [name for name, transform in transforms.items() if transform.scalar is not None]
EPS = np.finfo(np.float64).eps


def phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


# One value at a time, inside the domain.
DEFINITIONS: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "log": math.log,
    "sqrt": lambda x: abs(x) ** 0.5,
    "cbrt": lambda x: abs(x) ** (1.0 / 3.0),
    "inv": lambda x: x**-1,
    "cube": lambda x: x**3,
    "sigmoid": lambda x: 1.0 / (1.0 + math.exp(-x)),
    "sin": math.sin,
    "cos": math.cos,
    "sin_deg": lambda x: math.sin(math.radians(x)),
    "cos_deg": lambda x: math.cos(math.radians(x)),
    "tanh": math.tanh,
    "atan": math.atan,
    "erf": math.erf,
    "gauss": lambda x: math.exp(-(x**2)),
    "exp_abs": lambda x: math.exp(-abs(x)),
    "log1p_abs": lambda x: math.log(abs(x) + 1.0),
    "arcsinh": math.asinh,
    "troot": lambda x: abs(x) ** (1.0 / 3.0),
    "sroot": lambda x: abs(x) ** 0.5,
    "to23": lambda x: abs(x) ** 2.3,
    "to25": lambda x: abs(x) ** 2.5,
    "to3": lambda x: x**3,
    "to35": lambda x: abs(x) ** 3.5,
    "square": lambda x: x**2,
    "relu": lambda x: max(x, 0.0),
    "nrelu": lambda x: max(-x, 0.0),
    "gelu": lambda x: x * phi(x),
    "ngelu": lambda x: -x * phi(-x),
    "hs": lambda x: 1.0 if x > 0.0 else 0.0,
    "nhs": lambda x: 1.0 if x < 0.0 else 0.0,
    "p0": math.log,
    "p2": lambda x: x**2,
    "p3": lambda x: x**3,
    "p05": lambda x: x**0.5,
    "pm05": lambda x: x**-0.5,
    "pm1": lambda x: x**-1,
    "pm2": lambda x: x**-2,
    "p0p0": lambda x: math.log(x) ** 2,
    "p0p05": lambda x: math.log(x) * x**0.5,
    "p0p1": lambda x: math.log(x) * x,
    "p0p2": lambda x: math.log(x) * x**2,
    "p0p3": lambda x: math.log(x) * x**3,
    "p0pm05": lambda x: math.log(x) * x**-0.5,
    "p0pm1": lambda x: math.log(x) * x**-1,
    "p0pm2": lambda x: math.log(x) * x**-2,
}
# Where each is defined, by sign of x.
NOT_NEGATIVE = {"p05"}
NOT_ZERO = {"inv", "pm1", "pm2"}
ONLY_POSITIVE = {"log", "pm05", *(name for name in BUILT_IN if name.startswith("p0"))} - NOT_NEGATIVE

PLAIN = np.array([-90.0, -3.7, -1.0, -0.4, 0.0, 0.3, 1.0, 2.6, 45.0])
EXTREME = np.array(
    [0.0, -0.0, 5e-324, -5e-324, 1e-300, -1e-300, 1e300, -1e300, 1.7e308, -1.7e308, INF, -INF, NAN]
    + [709.0, -709.0, 710.0, -710.0, 745.0, -745.0, 746.0, -746.0, 1e15, -1e15, 26.0, -26.0, 38.0, -38.0]
)  # fmt: skip


def defined(name: str, x: float) -> bool:
    if name in ONLY_POSITIVE:
        return x > 0.0
    if name in NOT_NEGATIVE:
        return x >= 0.0
    return x != 0.0 if name in NOT_ZERO else True


def columns() -> np.ndarray:
    """Extreme values, ordinary ones, and ones over forty orders of magnitude."""
    rng = np.random.default_rng(3)
    wide = 10.0 ** rng.uniform(-20.0, 20.0, 500) * rng.choice([-1.0, 1.0], 500)
    return np.concatenate([EXTREME, PLAIN, rng.normal(scale=10.0, size=500), wide])


def test_the_definitions_cover_the_built_in_ones() -> None:
    assert list(transforms)[: len(BUILT_IN)] == BUILT_IN
    assert set(DEFINITIONS) == set(BUILT_IN)


@pytest.mark.parametrize("name", BUILT_IN)
def test_values_are_the_definition(name: str) -> None:
    expected = [DEFINITIONS[name](x) if defined(name, x) else NAN for x in PLAIN.tolist()]
    # A few roundings of values and of the argument of sine and cosine.
    np.testing.assert_allclose(transforms[name](PLAIN), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", BUILT_IN)
def test_domain_is_where_values_are(name: str) -> None:
    transform = transforms[name]
    x = columns()
    x = x[np.isfinite(x)]
    inside = np.array([defined(name, value) for value in x.tolist()])
    assert transform.domain.text in DOMAINS
    np.testing.assert_array_equal(transform.domain.contains(x), inside)
    np.testing.assert_array_equal(np.isnan(transform(x)), ~inside)
    assert np.isnan(transform([NAN])).all()


def called(transform: Transform, x: np.ndarray) -> np.ndarray:
    """A column through the C function that compiled code calls."""
    (address,), _alive = addresses([transform])
    column = x.copy()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(int(address))(column.ctypes.data, len(column))
    return column


@pytest.mark.parametrize("name", BUILT_IN)
def test_compiled_twin(name: str) -> None:
    transform = transforms[name]
    x = columns()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled, plain = called(transform, x), transform(x)
    # Both are a few operations on functions with errors of about one unit in the last place.
    tolerance = np.full(x.size, 8.0 * EPS)
    floor = 0.0
    if name in ("gelu", "ngelu"):
        # In its lower tail a relative error of x is magnified x**2 times by Phi, which SciPy cuts off at 1e-308.
        tolerance *= 1.0 + np.where(np.abs(x) < 40.0, x, 0.0) ** 2
        floor = 1e-300
    with np.errstate(invalid="ignore"):
        close = np.abs(compiled - plain) <= tolerance * np.abs(plain) + floor
    same = (compiled == plain) | (np.isnan(compiled) & np.isnan(plain))
    assert (close | same).all(), x[~(close | same)]


@pytest.mark.parametrize(
    ("name", "below", "above"),
    [
        ("sigmoid", 0.0, 1.0), ("tanh", -1.0, 1.0), ("erf", -1.0, 1.0), ("gauss", 0.0, 0.0),
        ("exp_abs", 0.0, 0.0), ("log1p_abs", INF, INF), ("arcsinh", -INF, INF), ("sin", NAN, NAN),
        ("atan", -math.pi / 2, math.pi / 2), ("troot", INF, INF), ("to3", -INF, INF), ("relu", 0.0, INF),
        ("nrelu", INF, 0.0), ("gelu", 0.0, INF), ("ngelu", INF, 0.0), ("hs", 0.0, 1.0), ("nhs", 1.0, 0.0),
        ("p0", NAN, INF), ("pm05", NAN, 0.0), ("pm1", 0.0, 0.0), ("p0p2", NAN, INF), ("p0pm05", NAN, 0.0),
        ("p0pm1", NAN, 0.0), ("p0pm2", NAN, 0.0),
    ],
)  # fmt: skip
def test_limits_at_infinity(name: str, below: float, above: float) -> None:
    np.testing.assert_array_equal(transforms[name]([-INF, INF]), [below, above])


def test_sigmoid_keeps_its_tail() -> None:
    np.testing.assert_allclose(transforms["sigmoid"]([-700.0, 700.0]), [math.exp(-700.0), 1.0], rtol=1e-15)


@pytest.mark.parametrize("name", BUILT_IN)
def test_sympy_form(name: str) -> None:
    expression = to_sympy(Feature.modification(name, Feature("x")))
    for x in PLAIN.tolist():
        if defined(name, x):
            value = expression.subs(sympy.Symbol("x"), sympy.Float(x, 40)).evalf(40)
            assert float(value) == pytest.approx(float(transforms[name](x)), rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("name", BUILT_IN)
def test_entry(name: str) -> None:
    transform = transforms[name]
    assert transform.name == name
    assert pickle.loads(pickle.dumps(transform)) is transform
    assert transform(np.zeros((2, 3))).shape == (2, 3)
    assert transform(1).shape == ()
    assert f"``{name}``" in (Transforms.__doc__ or "")
    latex = to_latex(Feature.modification(name, Feature("x")))
    assert latex.count(r"\left") == latex.count(r"\right")
    assert r"\mathrm{x}" in latex


def test_published_sets() -> None:
    assert transforms.set("G1") == ("sigmoid", "sin", "tanh", "atan", "troot")
    assert transforms.set("G2") == ("sigmoid", "sin_deg", "exp_abs", "log1p_abs", "troot", "to23", "to35")
    assert all(name in transforms for names in Transforms.SETS.values() for name in names)
    with pytest.raises(InputError, match="'G3' is no set of transforms: choose one of G1, G2"):
        transforms.set("G3")


def test_mapping() -> None:
    assert "sin" in transforms
    assert "sinus" not in transforms
    assert 3 not in transforms
    assert transforms.get("sinus") is None
    assert transforms.get("sin") is transforms["sin"]
    assert len(transforms) == len(list(transforms)) == len(dict(transforms))
    assert "sigmoid" in repr(transforms)
    with pytest.raises(InputError, match="'sinus' is no transform: perhaps you mean 'sin'"):
        transforms["sinus"]


# Transforms of the user; each test has a registry of its own unless features must see it.


def cubed(x: np.ndarray) -> np.ndarray:
    return x**3


def test_added_transform() -> None:
    registry = Transforms()
    first = registry.add("cubed", cubed)
    assert registry["cubed"] is first
    np.testing.assert_array_equal(called(first, np.array([2.0, -1.0])), [8.0, -1.0])
    np.testing.assert_array_equal(first([2.0, -1.0]), [8.0, -1.0])
    assert pickle.loads(pickle.dumps(first)) == first
    registry.remove("cubed")
    assert "cubed" not in registry
    again = registry.add("cubed", cubed, domain="x > 0")
    np.testing.assert_array_equal(again([2.0, -1.0]), [8.0, NAN])
    assert "cubed" not in transforms


def test_added_transform_in_features() -> None:
    form = transforms.add("soft_plus", lambda x: np.logaddexp(0.0, x), sympy=lambda x: sympy.log(1 + sympy.exp(x)))
    try:
        feature = Feature("soft_plus(x)")
        np.testing.assert_allclose(evaluate(feature, {"x": [0.0, 1.0]}), np.log1p(np.exp([0.0, 1.0])))
        assert to_sympy(feature) == sympy.log(1 + sympy.exp(sympy.Symbol("x")))
        assert to_latex(feature) == r"\operatorname{soft\_plus}\left(\mathrm{x}\right)"
        assert form.domain.text == "all real x"
    finally:
        transforms.remove("soft_plus")


def test_added_transform_with_everything() -> None:
    registry = Transforms()
    inside = Domain("|x| < 1", lambda x: np.abs(x) < 1.0)
    transform = registry.add("logit2", np.arctanh, sympy=sympy.atanh, latex=r"\operatorname{artanh} #1", domain=inside)
    np.testing.assert_allclose(transform([0.5, 1.0, -3.0]), [math.atanh(0.5), NAN, NAN])
    assert transform.latex == r"\operatorname{artanh} #1"


@pytest.mark.parametrize(
    ("name", "function", "options", "message"),
    [
        ("sin", np.sin, {}, "'sin' is taken by another transform: choose another name."),
        ("a b", np.sin, {}, "must be of letters, digits and '_', got 'a b'"),
        ("2x", np.sin, {}, "must be of letters"),
        ("größe", np.sin, {}, "must be of letters"),
        (None, np.sin, {}, "must be of letters"),
        ("new", 3, {}, "function of the transform 'new' must be a function, got 3"),
        ("new", math.sin, {}, r"must accept an array of floats, but failed on one \(TypeError"),
        ("new", np.sum, {}, "array of floats of the shape"),
        ("new", lambda x: x[:1], {}, "array of floats of the shape"),
        ("new", lambda x: x > 0.0, {}, "array of floats of the shape"),
        ("new", lambda x: x.tolist(), {}, "array of floats of the shape"),
        ("new", lambda x: x - x.mean(), {}, "row by row"),
        ("new", lambda x: np.sort(x)[::-1], {}, "row by row"),
        ("new", np.sin, {"sympy": "sin"}, "sympy of the transform 'new' must be a function"),
        ("new", np.sin, {"latex": r"\sin"}, "must be text with #1"),
        ("new", np.sin, {"domain": "x > 7"}, "must be a Domain or one of 'all real x', 'x > 0'"),
        ("new", np.sin, {"domain": Domain("odd", lambda x: True)}, "booleans of the same shape"),
        ("new", np.sin, {"domain": Domain("odd", lambda x: 1 / 0)}, "ZeroDivisionError"),
    ],
)
def test_bad_additions_are_refused(name: str, function: Callable, options: dict, message: str) -> None:
    registry = Transforms()
    with pytest.raises(InputError, match=message) as caught:
        registry.add(name, function, **options)
    assert "\n" not in str(caught.value)
    assert list(registry) == BUILT_IN


def test_a_taken_name_says_how_to_free_it() -> None:
    registry = Transforms()
    registry.add("mine", cubed)
    with pytest.raises(InputError, match=r"call transforms.remove\('mine'\) first"):
        registry.add("mine", cubed)


def test_only_added_ones_can_be_removed() -> None:
    registry = Transforms()
    with pytest.raises(InputError, match="'sin' is built in and stays"):
        registry.remove("sin")
    with pytest.raises(InputError, match="'mine' is no transform"):
        registry.remove("mine")
