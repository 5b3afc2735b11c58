"""Names of powers: what people and the paper call x^e."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

# Functions of the registry that are powers; fractional ones act on |x|.
POWERS: Final[dict[str, Fraction]] = {
    "inv": Fraction(-1),
    "sqrt": Fraction(1, 2),
    "cbrt": Fraction(1, 3),
    "square": Fraction(2),
    "cube": Fraction(3),
    "troot": Fraction(1, 3),
    "sroot": Fraction(1, 2),
    "to3": Fraction(3),
    "to23": Fraction(23, 10),
    "to25": Fraction(5, 2),
    "to35": Fraction(7, 2),
    "p2": Fraction(2),
    "p3": Fraction(3),
    "p05": Fraction(1, 2),
    "pm05": Fraction(-1, 2),
    "pm1": Fraction(-1),
    "pm2": Fraction(-2),
}
# Functions that have a name of their own in laws.
SAME: Final[dict[str, str]] = {"p0": "log"}
