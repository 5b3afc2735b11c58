"""Prediction equations as LaTeX and SymPy."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from modejump.errors import InputError

_SPECIAL = {
    "\\": r"\backslash ",
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
}
_SPECIAL |= {"^": r"\hat{\ }", "~": r"\tilde{\ }", " ": r"\ "}


def latex(intercept: float, coef: np.ndarray, names: Sequence[str], digits: int = 4) -> str:
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

    Examples
    --------
    >>> print(latex(1.5, np.array([0.25, 0.0, -3e-7]), ["a", "b", "x_1"]))
    \hat{y} = 1.5 + 0.25\,\mathrm{a} - 3 \times 10^{-7}\,\mathrm{x\_1}
    """
    parts = [] if intercept == 0.0 and np.any(coef) else [(intercept, "")]
    parts += [(float(c), rf"\,\mathrm{{{escape(n)}}}") for c, n in zip(coef, names, strict=True) if c != 0.0]
    text = ""
    for value, symbol in parts:
        sign = "-" if value < 0 else "+"
        lead = f" {sign} " if text else ("-" if value < 0 else "")
        text += f"{lead}{_number(abs(value), digits)}{symbol}"
    return rf"\hat{{y}} = {text}"


def escape(name: str) -> str:
    """A column's name as it stands inside math mode."""
    return "".join(_SPECIAL.get(letter, letter) for letter in name)


def _number(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    return rf"{mantissa} \times 10^{{{int(exponent)}}}"


def sympy_expression(intercept: float, coef: np.ndarray, names: Sequence[str]) -> Any:
    """The same equation as a SymPy expression, with one symbol for each column."""
    try:
        sympy = import_module("sympy")
    except ImportError:
        raise InputError("to_sympy needs SymPy, which is not installed; run: pip install 'modejump[sympy]'.") from None
    terms = [sympy.Float(c) * sympy.Symbol(n) for c, n in zip(coef.tolist(), names, strict=True) if c != 0.0]
    return sympy.Add(sympy.Float(intercept), *terms)
