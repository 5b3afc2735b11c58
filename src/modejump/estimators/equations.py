"""Prediction equations as text, LaTeX and SymPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modejump.features.symbols import escape_latex, import_sympy, latex_number


def hat(name: str) -> str:
    """The predicted response in LaTeX."""
    return r"\hat{y}" if name == "y" else rf"\widehat{{\mathrm{{{escape_latex(name)}}}}}"


def latex_sum(intercept: float, coef: np.ndarray, symbols: Sequence[str], digits: int = 4) -> str:
    r"""A constant and multiples of symbols, those with coefficient zero left out.

    Examples
    --------
    >>> print(latex_sum(1.5, np.array([0.25, 0.0, -3e-7]), ["a", "b", "c"]))
    1.5 + 0.25\,a - 3 \times 10^{-7}\,c
    """
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


def sympy_sum(intercept: float, coef: np.ndarray, symbols: Sequence[Any]) -> Any:
    """The same as a SymPy expression."""
    sympy = import_sympy()
    terms = [sympy.Float(c) * s for c, s in zip(coef.tolist(), symbols, strict=True) if c != 0.0]
    return sympy.Add(sympy.Float(intercept), *terms)
