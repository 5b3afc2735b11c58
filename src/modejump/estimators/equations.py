"""Prediction equations as LaTeX and SymPy."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.features.nonlinear.printing import escape_latex, latex_number


def latex(intercept: float, coef: np.ndarray, names: Sequence[str], digits: int = 4, left: str = r"\hat{y}") -> str:
    r"""The equation of a linear prediction, columns with coefficient zero left out.

    Parameters
    ----------
    intercept : float
        Constant term.
    coef : ndarray
        Coefficient of each column.
    names : sequence of str
        Names of the columns.
    digits : int
        Significant digits.
    left : str
        What the equation is for.

    Examples
    --------
    >>> print(latex(1.5, np.array([0.25, 0.0, -3e-7]), ["a", "b", "x_1"]))
    \hat{y} = 1.5 + 0.25\,\mathrm{a} - 3 \times 10^{-7}\,\mathrm{x\_1}
    """
    symbols = [rf"\mathrm{{{escape_latex(n)}}}" for n in names]
    return rf"{left} = {latex_sum(intercept, coef, symbols, digits)}"


def latex_sum(intercept: float, coef: np.ndarray, symbols: Sequence[str], digits: int = 4) -> str:
    """A constant and multiples of symbols, those with coefficient zero left out."""
    products = [(c, rf"{latex_number(abs(c), digits)}\,{s}") for c, s in zip(coef.tolist(), symbols, strict=True)]
    return _signed(intercept, latex_number(abs(intercept), digits), products)


def plain_sum(intercept: float, coef: np.ndarray, symbols: Sequence[str], digits: int = 4) -> str:
    """The same as plain text.

    Examples
    --------
    >>> plain_sum(1.5, np.array([0.25, -3e-7]), ["a*b", "sin(x)"])
    '1.5 + 0.25*a*b - 3e-07*sin(x)'
    """
    products = [(c, f"{abs(c):.{digits}g}*{s}") for c, s in zip(coef.tolist(), symbols, strict=True)]
    return _signed(intercept, f"{abs(intercept):.{digits}g}", products)


def _signed(intercept: float, constant: str, products: Sequence[tuple[float, str]]) -> str:
    parts = [] if intercept == 0.0 and any(c != 0.0 for c, _ in products) else [(intercept, constant)]
    text = ""
    for value, size in [*parts, *((c, product) for c, product in products if c != 0.0)]:
        sign = "-" if value < 0 else "+"
        text += (f" {sign} " if text else ("-" if value < 0 else "")) + size
    return text


def sympy_expression(intercept: float, coef: np.ndarray, names: Sequence[str]) -> Any:
    """The same equation as a SymPy expression, with one symbol for each column."""
    try:
        sympy = import_module("sympy")
    except ImportError:
        raise InputError("to_sympy needs SymPy, which is not installed; run: pip install 'modejump[sympy]'.") from None
    terms = [sympy.Float(c) * sympy.Symbol(n) for c, n in zip(coef.tolist(), names, strict=True) if c != 0.0]
    return sympy.Add(sympy.Float(intercept), *terms)
