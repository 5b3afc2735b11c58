"""Names and numbers as LaTeX writes them, and SymPy where it is installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from modejump.core.errors import InputError

_ESCAPES = {
    "\\": r"\backslash ",
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "^": r"\hat{\ }",
    "~": r"\tilde{\ }",
}


def import_sympy() -> Any:
    """The optional library SymPy, or one sentence that says how to get it."""
    try:
        return import_module("sympy")
    except ImportError:
        raise InputError("this needs SymPy, which is not installed; run: pip install 'modejump[sympy]'.") from None


def escape_latex(name: str) -> str:
    """Return a column's name as it stands inside math mode."""
    return "".join(r"\ " if letter.isspace() else _ESCAPES.get(letter, letter) for letter in name)


def latex_number(value: float, digits: int) -> str:
    """Return a number in LaTeX, with a power of ten where it has one."""
    text = f"{value:.{digits}g}"
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    return rf"{mantissa} \times 10^{{{int(exponent)}}}"
