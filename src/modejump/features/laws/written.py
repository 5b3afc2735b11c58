"""Laws as they are written: their terms, their columns, and their text with numbers in the place of constants."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from modejump.core.errors import InputError
from modejump.features.laws.expression import raised
from modejump.features.laws.powers import POWERS
from modejump.features.laws.printing import column_text
from modejump.features.laws.text import Node, exact
from modejump.features.nonlinear.transforms import transforms

_RANK = {"+": 1, "-": 1, "negative": 2, "*": 2, "/": 2, "^": 4}


class Term(NamedTuple):
    """A term of a law: a column with a fitted coefficient.

    Attributes
    ----------
    core : Node or None
        What the coefficient multiplies; None for the intercept.
    constant : str or None
        The constant that the user wrote for the coefficient.
    factor : float
        The number before it: the coefficient of the core is the factor times the constant.
    """

    core: Node | None
    constant: str | None
    factor: float


def terms_of(law: Node) -> list[Term]:
    """The terms of a law, each without the number and the constant in front of it.

    Examples
    --------
    >>> from modejump.features.laws.text import read
    >>> [(written(term.core), term.constant) for term in terms_of(read("2*c0*x - x/(y + c1)"))]
    [('x', 'c0'), ('x/(y + c1)', None)]
    """
    uses = Counter(node.value for node in law.walk() if node.kind == "constant")
    pieces: list[tuple[Node, float]] = []
    _split(law, 1.0, pieces)
    terms = [_without_coefficient(piece, sign, uses) for piece, sign in pieces]
    for term in terms:
        if term.core is not None and not any(node.kind == "column" for node in term.core.walk()):
            raise InputError(
                f"the term {written(term.core)!r} of the law has no column, and the intercept is fitted anyway; leave "
                "it out."
            )
    return terms


def _split(law: Node, sign: float, pieces: list[tuple[Node, float]]) -> None:
    if law.kind in ("+", "-"):
        _split(law.children[0], sign, pieces)
        _split(law.children[1], sign if law.kind == "+" else -sign, pieces)
    elif law.kind == "negative":
        _split(law.children[0], -sign, pieces)
    else:
        pieces.append((law, sign))


def _without_coefficient(piece: Node, factor: float, uses: Mapping[str, int]) -> Term:
    """Take numbers and constants that multiply a whole term out of it."""
    number = exact(piece)
    if number is not None:
        return Term(None, None, factor * float(number))
    if piece.kind == "constant" and uses[piece.value] == 1:
        return Term(None, piece.value, factor)
    if piece.kind == "negative":
        return _without_coefficient(piece.children[0], -factor, uses)
    if piece.kind == "/":
        top, divisor = piece.children
        over = _without_coefficient(top, factor, uses)
        number = exact(divisor)
        if number:
            return over._replace(factor=over.factor / float(number))
        one = Node("number", "1", top.start)
        return over._replace(core=Node("/", "", piece.start, (over.core or one, divisor)))
    if piece.kind == "*":
        left, right = (_without_coefficient(child, 1.0, uses) for child in piece.children)
        if left.constant is None or right.constant is None:
            cores = [side.core for side in (left, right) if side.core is not None]
            core = Node("*", "", piece.start, tuple(cores)) if len(cores) == 2 else next(iter(cores), None)
            return Term(core, left.constant or right.constant, factor * left.factor * right.factor)
    return Term(piece, None, factor)


def value_of(node: Node, columns: Mapping[str, Any], constants: Mapping[str, float]) -> Any:
    """Value of a piece of a law, a column or a number; fractional and fitted powers are of absolute values."""
    if node.kind == "number":
        return float(node.value)
    if node.kind == "pi":
        return math.pi
    if node.kind == "column":
        return columns[node.value]
    if node.kind == "constant":
        return constants[node.value]
    parts = [value_of(child, columns, constants) for child in node.children]
    if node.kind == "call":
        power = POWERS.get(node.value)
        return raised(parts[0], power) if power is not None else transforms[node.value](parts[0])
    if node.kind == "negative":
        return -parts[0]
    if node.kind == "^":
        exponent = exact(node.children[1])
        return raised(parts[0], exponent) if exponent else np.abs(parts[0]) ** parts[1]
    first, second = parts
    if node.kind == "/":
        return np.true_divide(first, second)
    return first * second if node.kind == "*" else first + second if node.kind == "+" else first - second


def written(node: Node, values: Mapping[str, float] | None = None, digits: int = 4) -> str:
    """Text of a piece of a law, with numbers for the constants where they are given.

    Parameters
    ----------
    node : Node
        The piece.
    values : mapping from str to float, optional
        Values of the constants.
    digits : int
        Significant digits of the values.

    Examples
    --------
    >>> from modejump.features.laws.text import read
    >>> written(read("V*S/(S + c)*exp(c1*t)"), {"c": -1.98, "c1": 0.3})
    'V*S/(S - 1.98)*exp(0.3*t)'
    """
    return _written(node, values or {}, digits)[0]


def _written(node: Node, values: Mapping[str, float], digits: int) -> tuple[str, int]:
    """Text, and how strongly it binds: 1 for a sum to 5 for an atom."""
    if node.kind == "constant" and node.value in values:
        value = values[node.value]
        return f"{value:.{digits}g}", 5 if value >= 0.0 else 2
    if not node.children:
        return (column_text(node.value) if node.kind == "column" else node.value), 5
    if node.kind == "call":
        return f"{node.value}({_written(node.children[0], values, digits)[0]})", 5
    rank = _RANK[node.kind]
    parts = [_written(child, values, digits) for child in node.children]
    if node.kind == "negative":
        return (parts[0][0][1:] if _leads(parts[0]) else f"-{_within(parts[0], 3)}"), rank
    left, right = parts
    if node.kind in ("+", "-"):
        minus = (node.kind == "-") != _leads(right)
        text = right[0][1:] if _leads(right) else _within(right, 2 if node.kind == "-" else 1)
        return f"{left[0]} {'-' if minus else '+'} {text}", rank
    if node.kind == "^":
        return f"{_within(left, 5)}^{_within(right, 5)}", rank
    # A factor with a sign of its own stands in brackets, unless it is the first.
    text = f"({right[0]})" if right[0].startswith("-") else _within(right, 3 if node.kind == "/" else 2)
    return f"{_within(left, 2)}{node.kind}{text}", rank


def _leads(part: tuple[str, int]) -> bool:
    """Whether a part is a product that starts with a minus sign."""
    return part[0].startswith("-") and part[1] > 1


def _within(part: tuple[str, int], rank: int) -> str:
    return part[0] if part[1] >= rank else f"({part[0]})"


class Scale(NamedTuple):
    """Where the search for a constant starts.

    Attributes
    ----------
    size : float
        Its order of magnitude, from what stands beside it.
    role : str
        "frequency" or "phase" of a sin or cos, "exponent", or "scale".
    cycles : float
        Of a frequency, the value at which the data see one cycle.
    """

    size: float
    role: str
    cycles: float = math.nan


def scales_of(law: Node, columns: Mapping[str, Any], constants: Mapping[str, float]) -> dict[str, Scale]:
    """Where the search for each constant of a law starts, with all others at these values."""
    found: dict[str, Scale] = {}

    def visit(node: Node, periodic: bool, product: Node | None) -> None:
        """Look at the constants below a node, which belongs to a product."""
        whole = (product or node) if node.kind in ("*", "/") else None
        for place, child in enumerate(node.children):
            if child.kind == "constant":
                beside = node.children[1 - place] if len(node.children) == 2 else None
                found.setdefault(child.value, scale(node, place, beside, periodic, whole, child.value))
            inside = node.value in ("sin", "cos") if node.kind == "call" else periodic and node.kind != "^"
            visit(child, inside, whole)

    def scale(node: Node, place: int, beside: Node | None, periodic: bool, product: Node | None, name: str) -> Scale:
        if node.kind == "^" and place == 1:
            return Scale(1.0, "exponent")
        if product is not None:
            # What the constant is multiplied by is the whole product, not the next factor alone.
            value = np.asarray(value_of(product, columns, {**constants, name: 1.0}), np.float64)
        else:
            value = np.asarray(1.0 if beside is None else value_of(beside, columns, constants), np.float64)
        finite = np.abs(value)[np.isfinite(value)] if np.ndim(value) else np.abs(np.atleast_1d(value))
        middle = float(np.median(finite)) if finite.size else 1.0
        middle = middle if middle > 0.0 else 1.0
        if node.kind in ("+", "-"):
            return Scale(math.pi, "phase") if periodic else Scale(middle, "scale")
        if node.kind == "*" and periodic and finite.size:
            spread = float(np.ptp(np.asarray(value)[np.isfinite(value)])) if np.ndim(value) else middle
            return Scale(1.0 / middle, "frequency", 2.0 * math.pi / (spread or middle))
        return Scale(1.0 / middle if node.kind == "*" or (node.kind == "/" and place == 0) else middle, "scale")

    with np.errstate(all="ignore"):
        visit(law, False, None)
    return found
