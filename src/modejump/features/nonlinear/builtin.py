"""The built-in transforms, one entry each: in NumPy, as compiled code has it, in SymPy and in LaTeX."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from modejump.core.compilation import kernel
from modejump.features.symbols import import_sympy

Array = NDArray[np.float64]
Function = Callable[[Array], Array]
Builder = Callable[[Any], Any]

RADIANS = math.pi / 180.0
ROOT_HALF = math.sqrt(0.5)

# Domains by their text. Infinite values belong to them: a transform of one is its limit where it has one, and NaN
# otherwise.
REAL, POSITIVE, NOT_NEGATIVE, NOT_ZERO = "all real x", "x > 0", "x >= 0", "x != 0"
DOMAINS: dict[str, Callable[[Array], NDArray[np.bool_]]] = {
    REAL: lambda x: ~np.isnan(x),
    POSITIVE: lambda x: x > 0.0,
    NOT_NEGATIVE: lambda x: x >= 0.0,
    NOT_ZERO: lambda x: ~np.isnan(x) & (x != 0.0),
}


# Odd and even functions among them.
PARITY = {
    "sin": -1, "sin_deg": -1, "tanh": -1, "atan": -1, "erf": -1, "arcsinh": -1, "inv": -1, "cube": -1, "to3": -1,
    "p3": -1, "pm1": -1,
    "cos": 1, "cos_deg": 1, "gauss": 1, "exp_abs": 1, "log1p_abs": 1, "troot": 1, "sroot": 1, "sqrt": 1, "cbrt": 1,
    "square": 1, "p2": 1, "pm2": 1, "to23": 1, "to25": 1, "to35": 1,
}  # fmt: skip


class Builtin(NamedTuple):
    """One built-in transform; fields as in `Transform`, the domain by its text."""

    name: str
    formula: str
    function: Function
    scalar: Callable[[float], float]
    sympy: Builder
    latex: str
    domain: str = REAL
    parity: int = 0


def builtins() -> Iterator[Builtin]:
    """All built-in transforms."""
    groups = (_named_by_people, _smooth, _powers, _rectifiers, _fractional_polynomials)
    for row in itertools.chain.from_iterable(group() for group in groups):
        yield row._replace(parity=PARITY.get(row.name, 0))


def _named(function: str, scale: int | None = None) -> Builder:
    """Builder of the SymPy function of this name, of degrees if they are scaled by pi/180."""

    def build(x: Any) -> Any:
        sp = import_sympy()
        return getattr(sp, function)(x if scale is None else sp.pi * x / scale)

    return build


def _call(name: str) -> str:
    return rf"\operatorname{{{name}}}\left(#1\right)"


def _smooth() -> Iterator[Builtin]:
    exp, log = _named("exp"), _named("log")
    degrees = r"\left(\frac{\pi}{180}\left(#1\right)\right)"
    yield Builtin("sigmoid", "1/(1 + exp(-x))", _sigmoid_array, _sigmoid, lambda x: 1 / (1 + exp(-x)), _call("sigmoid"))
    yield Builtin("sin", "sin(x)", np.sin, lambda x: math.sin(x), _named("sin"), r"\sin\left(#1\right)")
    yield Builtin("cos", "cos(x)", np.cos, lambda x: math.cos(x), _named("cos"), r"\cos\left(#1\right)")
    yield Builtin(
        "sin_deg", "sin(pi x/180)", lambda x: np.sin(RADIANS * x), lambda x: math.sin(RADIANS * x), _named("sin", 180),
        r"\sin" + degrees,
    )  # fmt: skip
    yield Builtin(
        "cos_deg", "cos(pi x/180)", lambda x: np.cos(RADIANS * x), lambda x: math.cos(RADIANS * x), _named("cos", 180),
        r"\cos" + degrees,
    )  # fmt: skip
    yield Builtin("tanh", "tanh(x)", np.tanh, lambda x: math.tanh(x), _named("tanh"), r"\tanh\left(#1\right)")
    yield Builtin("atan", "atan(x)", np.arctan, lambda x: math.atan(x), _named("atan"), r"\arctan\left(#1\right)")
    yield Builtin("erf", "erf(x)", special.erf, lambda x: math.erf(x), _named("erf"), _call("erf"))
    yield Builtin(
        "gauss", "exp(-x^2)", lambda x: np.exp(-x * x), lambda x: math.exp(-x * x), lambda x: exp(-(x**2)),
        r"\exp\left(-\left(#1\right)^{2}\right)",
    )  # fmt: skip
    yield Builtin(
        "exp_abs", "exp(-|x|)", lambda x: np.exp(-np.abs(x)), lambda x: math.exp(-abs(x)), lambda x: exp(-abs(x)),
        r"\exp\left(-\left|#1\right|\right)",
    )  # fmt: skip
    yield Builtin(
        "log1p_abs", "log(|x| + 1)", lambda x: np.log1p(np.abs(x)), lambda x: math.log1p(abs(x)),
        lambda x: log(abs(x) + 1), r"\log\left(\left|#1\right| + 1\right)",
    )  # fmt: skip
    yield Builtin("arcsinh", "arcsinh(x)", np.arcsinh, lambda x: math.asinh(x), _named("asinh"), _call("arsinh"))


def _named_by_people() -> Iterator[Builtin]:
    yield Builtin("exp", "exp(x)", np.exp, lambda x: math.exp(x), _named("exp"), r"\exp\left(#1\right)")
    yield Builtin(
        "log", "log(x)", np.log, lambda x: math.log(x) if x > 0.0 else math.nan, _named("log"),
        r"\log\left(#1\right)", POSITIVE,
    )  # fmt: skip
    yield _absolute_power("sqrt", "1/2")._replace(scalar=lambda x: math.sqrt(abs(x)))
    yield _absolute_power("cbrt", "1/3")
    yield _power("inv", "-1", lambda x: 1.0 / x, lambda x: 1.0 / x if x != 0.0 else math.nan, NOT_ZERO)
    yield _whole_power("cube", 3)


def _sigmoid(x):
    # The exponential of a negative number cannot overflow.
    small = math.exp(-abs(x))
    return (1.0 if x >= 0.0 else small) / (1.0 + small)


def _sigmoid_array(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0.0, 1.0, small) / (1.0 + small)


def _powers() -> Iterator[Builtin]:
    yield _absolute_power("troot", "1/3")
    yield _absolute_power("sroot", "1/2")._replace(scalar=lambda x: math.sqrt(abs(x)))
    yield _absolute_power("to23", "2.3")
    yield _absolute_power("to25", "2.5")
    yield _whole_power("to3", 3)
    yield _absolute_power("to35", "3.5")
    yield _whole_power("square", 2)


def _absolute_power(name: str, power: str) -> Builtin:
    exact = Fraction(power)
    p = float(exact)

    def build(x: Any) -> Any:
        return abs(x) ** import_sympy().Rational(exact.numerator, exact.denominator)

    formula = f"|x|^({power})" if "/" in power else f"|x|^{power}"
    latex = rf"\left|#1\right|^{{{power}}}"
    return Builtin(name, formula, lambda x: np.abs(x) ** p, lambda x: abs(x) ** p, build, latex)


def _whole_power(name: str, power: int) -> Builtin:
    square, cube = (lambda x: x * x), (lambda x: x * x * x)
    made = square if power == 2 else cube
    return Builtin(name, f"x^{power}", made, made, lambda x: x**power, rf"\left(#1\right)^{{{power}}}")


def _rectifiers() -> Iterator[Builtin]:
    def relu(x: Any) -> Any:
        return import_sympy().Max(x, 0)

    def step(x: Any) -> Any:
        return import_sympy().Heaviside(x, 0)

    def gelu(x: Any) -> Any:
        sp = import_sympy()
        return x * (1 + sp.erf(x / sp.sqrt(2))) / 2

    minus = r"\left(-\left(#1\right)\right)"
    # A comparison with NaN is false, so NaN goes the way of its own.
    yield Builtin(
        "relu", "max(x, 0)", lambda x: np.maximum(x, 0.0), lambda x: x if x > 0.0 else (0.0 if x <= 0.0 else math.nan),
        relu, r"\max\left(#1, 0\right)",
    )  # fmt: skip
    yield Builtin(
        "nrelu", "max(-x, 0)", lambda x: np.maximum(-x, 0.0),
        lambda x: -x if x < 0.0 else (0.0 if x >= 0.0 else math.nan), lambda x: relu(-x),
        r"\max\left(-\left(#1\right), 0\right)",
    )  # fmt: skip
    # At minus infinity the product is infinity times zero; erfc keeps the digits of Phi in the lower tail.
    yield Builtin(
        "gelu", "x Phi(x)", _gelu_array,
        lambda x: 0.0 if x == -math.inf else 0.5 * x * math.erfc(-x * ROOT_HALF), gelu,
        r"\left(#1\right)\,\Phi\left(#1\right)",
    )  # fmt: skip
    yield Builtin(
        "ngelu", "-x Phi(-x)", lambda x: _gelu_array(-x),
        lambda x: 0.0 if x == math.inf else -0.5 * x * math.erfc(x * ROOT_HALF), lambda x: gelu(-x),
        rf"{minus}\,\Phi{minus}",
    )  # fmt: skip
    yield Builtin(
        "hs", "1 if x > 0 else 0", lambda x: np.where(x > 0.0, 1.0, 0.0),
        lambda x: 1.0 if x > 0.0 else (0.0 if x <= 0.0 else math.nan), step, r"\mathbf{1}\left[#1 > 0\right]",
    )  # fmt: skip
    yield Builtin(
        "nhs", "1 if x < 0 else 0", lambda x: np.where(x < 0.0, 1.0, 0.0),
        lambda x: 1.0 if x < 0.0 else (0.0 if x >= 0.0 else math.nan), lambda x: step(-x),
        r"\mathbf{1}\left[#1 < 0\right]",
    )  # fmt: skip


def _gelu_array(x: Array) -> Array:
    return np.where(np.isneginf(x), 0.0, 0.5 * x * special.erfc(-x / np.sqrt(2.0)))


def _fractional_polynomials() -> Iterator[Builtin]:
    log = _named("log")
    yield Builtin(
        "p0", "log(x)", np.log, lambda x: math.log(x) if x > 0.0 else math.nan, log, r"\log\left(#1\right)", POSITIVE
    )
    yield _power("p2", "2", lambda x: x * x, lambda x: x * x, REAL)
    yield _power("p3", "3", lambda x: x * x * x, lambda x: x * x * x, REAL)
    yield _power("p05", "1/2", np.sqrt, lambda x: math.sqrt(x), NOT_NEGATIVE)
    yield _power(
        "pm05", "-1/2", lambda x: 1.0 / np.sqrt(x), lambda x: 1.0 / math.sqrt(x) if x > 0.0 else math.nan, POSITIVE
    )
    yield _power("pm1", "-1", lambda x: 1.0 / x, lambda x: 1.0 / x if x != 0.0 else math.nan, NOT_ZERO)
    yield _power("pm2", "-2", lambda x: 1.0 / (x * x), lambda x: 1.0 / (x * x) if x != 0.0 else math.nan, NOT_ZERO)
    yield Builtin(
        "p0p0", "log(x)^2", lambda x: np.log(x) ** 2, lambda x: math.log(x) ** 2 if x > 0.0 else math.nan,
        lambda x: log(x) ** 2, r"\left(\log\left(#1\right)\right)^{2}", POSITIVE,
    )  # fmt: skip
    yield _log_product("p0p05", "1/2", np.sqrt, lambda x: math.sqrt(x) * math.log(x) if x > 0.0 else math.nan)
    yield _log_product("p0p1", "1", lambda x: x, lambda x: x * math.log(x) if x > 0.0 else math.nan)
    yield _log_product("p0p2", "2", lambda x: x * x, lambda x: x * x * math.log(x) if x > 0.0 else math.nan)
    yield _log_product("p0p3", "3", lambda x: x * x * x, lambda x: x * x * x * math.log(x) if x > 0.0 else math.nan)
    # At infinity these quotients have the limit zero, but infinity over infinity is NaN.
    yield _log_quotient("p0pm05", "-1/2", np.sqrt, lambda x: _over(x, math.sqrt(x)))
    yield _log_quotient("p0pm1", "-1", lambda x: x, lambda x: _over(x, x))
    yield _log_quotient("p0pm2", "-2", lambda x: x * x, lambda x: _over(x, x * x))


@kernel
def _over(x, power):
    """log(x) / power of x."""
    return 0.0 if x == math.inf else (math.log(x) / power if x > 0.0 else math.nan)


def _power(name: str, power: str, function: Function, scalar: Callable[[float], float], domain: str) -> Builtin:
    formula = f"x^({power})" if not power.isdecimal() else f"x^{power}"
    return Builtin(name, formula, function, scalar, _sympy_power(power), rf"\left(#1\right)^{{{power}}}", domain)


def _log_product(name: str, power: str, factor: Function, scalar: Callable[[float], float]) -> Builtin:
    log, raised = _named("log"), _sympy_power(power)
    plain = power == "1"
    formula = "x log(x)" if plain else f"x^({power}) log(x)" if not power.isdecimal() else f"x^{power} log(x)"
    latex = rf"\left(#1\right){'' if plain else f'^{{{power}}}'}\,\log\left(#1\right)"
    return Builtin(
        name, formula, lambda x: factor(x) * np.log(x), scalar, lambda x: raised(x) * log(x), latex, POSITIVE
    )


def _log_quotient(name: str, power: str, divisor: Function, scalar: Callable[[float], float]) -> Builtin:
    def function(x: Array) -> Array:
        return np.where(np.isposinf(x), 0.0, np.log(x) / divisor(x))

    return _log_product(name, power, divisor, scalar)._replace(function=function)


def _sympy_power(power: str) -> Builder:
    exact = Fraction(power)
    return lambda x: x ** import_sympy().Rational(exact.numerator, exact.denominator)
