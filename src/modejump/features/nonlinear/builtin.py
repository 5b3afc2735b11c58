"""The built-in transforms: what each is in NumPy, in SymPy and in LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from fractions import Fraction
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from modejump.core.errors import InputError

Array = NDArray[np.float64]
Function = Callable[[Array], Array]
Builder = Callable[[Any], Any]

RADIANS = np.pi / 180.0


def _is_real(x: Array) -> NDArray[np.bool_]:
    return ~np.isnan(x)


def _is_positive(x: Array) -> NDArray[np.bool_]:
    return x > 0.0


def _is_not_negative(x: Array) -> NDArray[np.bool_]:
    return x >= 0.0


def _is_not_zero(x: Array) -> NDArray[np.bool_]:
    return ~np.isnan(x) & (x != 0.0)


# Domains by their text. Infinite values belong to them: a transform of one is its limit where it has one, and NaN
# otherwise.
REAL, POSITIVE, NOT_NEGATIVE, NOT_ZERO = "all real x", "x > 0", "x >= 0", "x != 0"
DOMAINS = {REAL: _is_real, POSITIVE: _is_positive, NOT_NEGATIVE: _is_not_negative, NOT_ZERO: _is_not_zero}


class Code(IntEnum):
    """Numbers of the built-in transforms; each has the transform's name in capitals."""

    SIGMOID = 0
    SIN = 1
    COS = 2
    SIN_DEG = 3
    COS_DEG = 4
    TANH = 5
    ATAN = 6
    ERF = 7
    GAUSS = 8
    EXP_ABS = 9
    LOG1P_ABS = 10
    ARCSINH = 11
    TROOT = 12
    SROOT = 13
    TO23 = 14
    TO25 = 15
    TO3 = 16
    TO35 = 17
    SQUARE = 18
    RELU = 19
    NRELU = 20
    GELU = 21
    NGELU = 22
    HS = 23
    NHS = 24
    P0 = 25
    P2 = 26
    P3 = 27
    P05 = 28
    PM05 = 29
    PM1 = 30
    PM2 = 31
    P0P0 = 32
    P0P05 = 33
    P0P1 = 34
    P0P2 = 35
    P0P3 = 36
    P0PM05 = 37
    P0PM1 = 38
    P0PM2 = 39


class Builtin(NamedTuple):
    """One built-in transform; fields as in `modejump.features.nonlinear.transforms.Transform`, the domain by its text."""

    code: Code
    formula: str
    function: Function
    sympy: Builder
    latex: str
    domain: str = REAL


def import_sympy() -> Any:
    """The optional library SymPy, or one sentence that says how to get it."""
    try:
        return import_module("sympy")
    except ImportError:
        raise InputError("This needs SymPy, which is not installed; run: pip install 'modejump[sympy]'.") from None


def builtins() -> Iterator[Builtin]:
    """All built-in transforms, by code."""
    yield from _smooth()
    yield from _powers()
    yield from _rectifiers()
    yield from _fractional_polynomials()


def _named(function: str, scale: int | None = None) -> Builder:
    """Builder of the SymPy function of this name, of degrees if they are scaled by pi/180."""

    def build(x: Any) -> Any:
        sp = import_sympy()
        return getattr(sp, function)(x if scale is None else sp.pi * x / scale)

    return build


def _smooth() -> Iterator[Builtin]:
    exp = _named("exp")
    sigmoid, erf, arsinh = (rf"\operatorname{{{name}}}\left(#1\right)" for name in ("sigmoid", "erf", "arsinh"))
    yield Builtin(Code.SIGMOID, "1/(1 + exp(-x))", _sigmoid, lambda x: 1 / (1 + exp(-x)), sigmoid)
    yield Builtin(Code.SIN, "sin(x)", np.sin, _named("sin"), r"\sin\left(#1\right)")
    yield Builtin(Code.COS, "cos(x)", np.cos, _named("cos"), r"\cos\left(#1\right)")
    degrees = r"\left(\frac{\pi}{180}\left(#1\right)\right)"
    yield Builtin(Code.SIN_DEG, "sin(pi x/180)", lambda x: np.sin(RADIANS * x), _named("sin", 180), r"\sin" + degrees)
    yield Builtin(Code.COS_DEG, "cos(pi x/180)", lambda x: np.cos(RADIANS * x), _named("cos", 180), r"\cos" + degrees)
    yield Builtin(Code.TANH, "tanh(x)", np.tanh, _named("tanh"), r"\tanh\left(#1\right)")
    yield Builtin(Code.ATAN, "atan(x)", np.arctan, _named("atan"), r"\arctan\left(#1\right)")
    yield Builtin(Code.ERF, "erf(x)", special.erf, _named("erf"), erf)
    gauss = r"\exp\left(-\left(#1\right)^{2}\right)"
    yield Builtin(Code.GAUSS, "exp(-x^2)", lambda x: np.exp(-x * x), lambda x: exp(-(x**2)), gauss)
    exp_abs = r"\exp\left(-\left|#1\right|\right)"
    yield Builtin(Code.EXP_ABS, "exp(-|x|)", lambda x: np.exp(-np.abs(x)), lambda x: exp(-abs(x)), exp_abs)
    log = _named("log")
    log1p_abs = r"\log\left(\left|#1\right| + 1\right)"
    yield Builtin(Code.LOG1P_ABS, "log(|x| + 1)", lambda x: np.log1p(np.abs(x)), lambda x: log(abs(x) + 1), log1p_abs)
    yield Builtin(Code.ARCSINH, "arcsinh(x)", np.arcsinh, _named("asinh"), arsinh)


def _sigmoid(x: Array) -> Array:
    # The exponential of a negative number cannot overflow.
    small = np.exp(-np.abs(x))
    return np.where(x >= 0.0, 1.0, small) / (1.0 + small)


def _powers() -> Iterator[Builtin]:
    yield _absolute_power(Code.TROOT, "1/3")
    yield _absolute_power(Code.SROOT, "1/2")
    yield _absolute_power(Code.TO23, "2.3")
    yield _absolute_power(Code.TO25, "2.5")
    yield Builtin(Code.TO3, "x^3", lambda x: x * x * x, lambda x: x**3, r"\left(#1\right)^{3}")
    yield _absolute_power(Code.TO35, "3.5")
    yield Builtin(Code.SQUARE, "x^2", lambda x: x * x, lambda x: x**2, r"\left(#1\right)^{2}")


def _absolute_power(code: Code, power: str) -> Builtin:
    exact = Fraction(power)
    p = float(exact)

    def build(x: Any) -> Any:
        return abs(x) ** import_sympy().Rational(exact.numerator, exact.denominator)

    formula = f"|x|^({power})" if "/" in power else f"|x|^{power}"
    return Builtin(code, formula, lambda x: np.abs(x) ** p, build, rf"\left|#1\right|^{{{power}}}")


def _rectifiers() -> Iterator[Builtin]:
    def relu(x: Any) -> Any:
        return import_sympy().Max(x, 0)

    def step(x: Any) -> Any:
        return import_sympy().Heaviside(x, 0)

    def gelu(x: Any) -> Any:
        sp = import_sympy()
        return x * (1 + sp.erf(x / sp.sqrt(2))) / 2

    minus = r"\left(-\left(#1\right)\right)"
    relu_latex, minus_relu = r"\max\left(#1, 0\right)", r"\max\left(-\left(#1\right), 0\right)"
    yield Builtin(Code.RELU, "max(x, 0)", lambda x: np.maximum(x, 0.0), relu, relu_latex)
    yield Builtin(Code.NRELU, "max(-x, 0)", lambda x: np.maximum(-x, 0.0), lambda x: relu(-x), minus_relu)
    yield Builtin(Code.GELU, "x Phi(x)", _gelu, gelu, r"\left(#1\right)\,\Phi\left(#1\right)")
    yield Builtin(Code.NGELU, "-x Phi(-x)", lambda x: _gelu(-x), lambda x: gelu(-x), rf"{minus}\,\Phi{minus}")
    yield Builtin(
        Code.HS, "1 if x > 0 else 0", lambda x: np.where(x > 0.0, 1.0, 0.0), step, r"\mathbf{1}\left[#1 > 0\right]"
    )
    minus_step = r"\mathbf{1}\left[#1 < 0\right]"
    yield Builtin(Code.NHS, "1 if x < 0 else 0", lambda x: np.where(x < 0.0, 1.0, 0.0), lambda x: step(-x), minus_step)


def _gelu(x: Array) -> Array:
    # erfc keeps the digits of Phi in the lower tail; at minus infinity the product is infinity times zero.
    return np.where(np.isneginf(x), 0.0, 0.5 * x * special.erfc(-x / np.sqrt(2.0)))


def _fractional_polynomials() -> Iterator[Builtin]:
    yield Builtin(Code.P0, "log(x)", np.log, _named("log"), r"\log\left(#1\right)", POSITIVE)
    yield _power(Code.P2, "2", lambda x: x * x, REAL)
    yield _power(Code.P3, "3", lambda x: x * x * x, REAL)
    yield _power(Code.P05, "1/2", np.sqrt, NOT_NEGATIVE)
    yield _power(Code.PM05, "-1/2", lambda x: 1.0 / np.sqrt(x), POSITIVE)
    yield _power(Code.PM1, "-1", lambda x: 1.0 / x, NOT_ZERO)
    yield _power(Code.PM2, "-2", lambda x: 1.0 / (x * x), NOT_ZERO)
    squared = r"\left(\log\left(#1\right)\right)^{2}"
    log = _named("log")
    yield Builtin(Code.P0P0, "log(x)^2", lambda x: np.log(x) ** 2, lambda x: log(x) ** 2, squared, POSITIVE)
    yield _log_product(Code.P0P05, "1/2", lambda x: np.sqrt(x) * np.log(x))
    yield _log_product(Code.P0P1, "1", lambda x: x * np.log(x))
    yield _log_product(Code.P0P2, "2", lambda x: x * x * np.log(x))
    yield _log_product(Code.P0P3, "3", lambda x: x * x * x * np.log(x))
    yield _log_product(Code.P0PM05, "-1/2", lambda x: _log_over(x, np.sqrt(x)))
    yield _log_product(Code.P0PM1, "-1", lambda x: _log_over(x, x))
    yield _log_product(Code.P0PM2, "-2", lambda x: _log_over(x, x * x))


def _log_over(x: Array, power: Array) -> Array:
    # At infinity the quotient has the limit zero, but infinity over infinity is NaN.
    return np.where(np.isposinf(x), 0.0, np.log(x) / power)


def _power(code: Code, power: str, function: Function, domain: str) -> Builtin:
    formula = f"x^({power})" if not power.isdecimal() else f"x^{power}"
    return Builtin(code, formula, function, _sympy_power(power), rf"\left(#1\right)^{{{power}}}", domain)


def _log_product(code: Code, power: str, function: Function) -> Builtin:
    log, raised = _named("log"), _sympy_power(power)
    plain = power == "1"
    formula = "x log(x)" if plain else f"x^({power}) log(x)" if not power.isdecimal() else f"x^{power} log(x)"
    latex = rf"\left(#1\right){'' if plain else f'^{{{power}}}'}\,\log\left(#1\right)"
    return Builtin(code, formula, function, lambda x: raised(x) * log(x), latex, POSITIVE)


def _sympy_power(power: str) -> Builder:
    exact = Fraction(power)
    return lambda x: x ** import_sympy().Rational(exact.numerator, exact.denominator)
