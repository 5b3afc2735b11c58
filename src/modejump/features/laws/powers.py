"""Names of powers: what people and the paper call x^e."""

from __future__ import annotations

from collections.abc import Iterable
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
# What a law search has where the user chooses nothing.
LAW_TRANSFORMS: Final = ("inv", "sqrt", "cbrt", "square", "cube", "exp", "log", "sin", "cos", "tanh")
_WHOLE: Final = tuple(map(Fraction, (1, 2, 3, 4)))
_ROOTS: Final = {Fraction(1, 2): (Fraction(1, 2), Fraction(3, 2)), Fraction(1, 3): (Fraction(1, 3), Fraction(2, 3))}


def exponents_and_functions(transforms: Iterable[str]) -> tuple[tuple[Fraction, ...], tuple[str, ...]]:
    """The exponents, in order, and the functions that the names of transforms give a space of laws.

    The exponents 1 to 4 are always there. A square root adds 1/2 and 3/2, a cube root 1/3 and 2/3, any other power its
    own exponent; a reciprocal adds the negatives of all that there are.

    Parameters
    ----------
    transforms : iterable of str
        Names of the registry; all that are no powers are functions.

    Examples
    --------
    >>> exponents, functions = exponents_and_functions(["sqrt", "exp", "p0"])
    >>> [str(e) for e in exponents], functions
    (['1/2', '1', '3/2', '2', '3', '4'], ('exp', 'log'))
    """
    exponents = set(_WHOLE)
    functions: dict[str, None] = {}
    reciprocal = False
    for name in transforms:
        if name not in POWERS:
            functions[SAME.get(name, name)] = None
        elif POWERS[name] == -1:
            reciprocal = True
        else:
            exponents.update(_ROOTS.get(POWERS[name], (POWERS[name],)))
    if reciprocal:
        exponents |= {-e for e in exponents}
    return tuple(sorted(exponents)), tuple(functions)
