"""How complex and how deep a law is, from its parts."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from modejump.features.laws.expression import Feature

_ONE: Final = Fraction(1)
_CHEAP_EXPONENTS: Final = frozenset(map(Fraction, ("2", "3", "1/2", "1/3")))
# Exponents that the factors of a product may have in common, which counts once: sqrt(a*b), 1/(a*b), (a/b)^2; or 1.
COMMON_EXPONENTS: Final = tuple(map(Fraction, ("1", "-1", "2", "-2", "3", "-3", "1/2", "-1/2", "1/3", "-1/3")))


def complexity_of(kind: str, label: Any, children: Sequence[Feature]) -> int:
    """About the number of symbols that a person would write.

    Parameters
    ----------
    kind : str
        What the node is.
    label : str, Fraction or None
        Name of the covariate or the function, or the exponent.
    children : sequence of Feature
        Argument, base, factors, terms or monomial.
    """
    inside = sum(child.complexity for child in children)
    if kind == "power":
        return inside + exponent_complexity(label)
    if kind == "product":
        return inside - _saved_by_a_common_one(tuple(child.exponent or _ONE for child in children))
    if kind == "call":
        return 1 + inside
    if kind == "sum":
        return inside + len(children) - 1
    if kind == "free":
        return 1 if children[0].kind == "one" else 1 + inside
    return inside if kind == "minus" else 1


@cache
def _saved_by_a_common_one(exponents: tuple[Fraction, ...]) -> int:
    """By how much the exponents of factors are simpler where all have one in common."""
    alone, *common = (
        exponent_complexity(e) + sum(exponent_complexity(own / e) for own in exponents) for e in COMMON_EXPONENTS
    )
    return alone - min(alone, *common)


@cache
def exponent_complexity(exponent: Fraction) -> int:
    """What an exponent adds to the complexity of its base.

    Parameters
    ----------
    exponent : Fraction
        The exponent.
    """
    size = abs(exponent)
    return (exponent < 0) + (0 if size == 1 else 1 if size in _CHEAP_EXPONENTS else 2)


def depth_of(kind: str, children: Sequence[Feature]) -> int:
    """Functions inside each other, sums that are factors among them.

    Parameters
    ----------
    kind : str
        What the node is.
    children : sequence of Feature
        Argument, base, factors, terms or monomial.
    """
    if kind == "call":
        return 1 + children[0].depth
    factor = kind in ("power", "product")
    return max((child.depth + (factor and child.kind == "sum") for child in children), default=0)
