"""Formulas as MathML, which browsers typeset without a library: from the text of features and equations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?(?:e[+-]?\d+)?)(?![\w.])"
    r"|`(?P<quoted>(?:[^`]|``)+)`"
    r"|(?P<name>\.*[^\W\d][\w.]*(?:\[[^\[\]`]+\])?)"
    r"|(?P<symbol>[-+*/^()&|!]))"
)
_CONSTANT = re.compile(r"c(\d+)")
# Operators between two parts, with how tightly they bind.
_BINDS = {"|": 1, "&": 2, "+": 3, "-": 3, "*": 4, "/": 4, "^": 6}
_PREFIX, _ATOM = 5, 9
_SIGNS = {"|": "∨", "&": "∧", "+": "+", "-": "−"}
_ROOTS = {"cbrt": "3", "troot": "3"}
# Nesting beyond this is shown as text, whatever wrote it.
_DEEPEST = 60


class _Node(NamedTuple):
    """A part of a formula: "number", "name", "call", "prefix", or the sign of an operator."""

    kind: str
    label: str
    parts: tuple[_Node, ...] = ()

    @property
    def binds(self) -> int:
        return _PREFIX if self.kind == "prefix" else _BINDS.get(self.kind, _ATOM)


def formula(text: str) -> str:
    """MathML of a feature or an equation's right side, with the text itself where it cannot be read.

    Parameters
    ----------
    text : str
        Names, numbers, calls, ``+ - * / ^`` and ``& | !``, as features are written.

    Returns
    -------
    str
        An element ``math``, or ``code``; everything in it is escaped.

    Examples
    --------
    >>> formula("a/b")
    '<math><mfrac><mi>a</mi><mi>b</mi></mfrac></math>'
    >>> formula("no formula <b>")
    '<code>no formula &lt;b&gt;</code>'
    """
    try:
        return f"<math>{_render(_Parser(text).whole())}</math>"
    except (ValueError, RecursionError):
        return f"<code>{escape(text)}</code>"


def name_markup(name: str) -> str:
    """MathML of a column or a term by its name, whatever letters it has.

    Examples
    --------
    >>> name_markup("age:sex")
    '<math><mi>age:sex</mi></math>'
    """
    return f"<math>{_identifier(name)}</math>"


def equation(left: str, intercept: float | None, terms: Sequence[tuple[float, str]], digits: int = 4) -> str:
    """MathML of a prediction equation: one element for each term, so that lines break between them.

    Parameters
    ----------
    left : str
        What it predicts, in words.
    intercept : float, optional
        The constant; None without one.
    terms : sequence of (float, str)
        Coefficients, and what they belong to, as `formula` and `name_markup` return it.
    digits : int
        Significant digits of the coefficients.

    Examples
    --------
    >>> equation("y", None, [(-2.0, name_markup("a"))])
    '<math><mtext>y</mtext><mo>=</mo></math> <math><mo>−</mo><mn>2</mn><mo>·</mo><mi>a</mi></math>'
    """
    constant: list[tuple[float, str]] = [] if intercept is None and terms else [(intercept or 0.0, "")]
    parts = [f"<math><mtext>{escape(left)}</mtext><mo>=</mo></math>"]
    for value, markup in [*constant, *terms]:
        # Operators that begin an element stand close to what follows, unless they say that they join two things.
        joins = ' form="infix"' if len(parts) > 1 else ""
        sign = f"<mo{joins}>−</mo>" if value < 0 else f"<mo{joins}>+</mo>" if joins else ""
        number = _number(f"{abs(value):.{digits}g}")
        # A name that is no formula stays text, and goes on outside of the formula.
        inside = markup.removeprefix("<math>").removesuffix("</math>") if markup.startswith("<math>") else ""
        times = "<mo>·</mo>" if markup else ""
        parts.append(f"<math>{sign}{number}{times}{inside}</math>" + ("" if inside else markup))
    return " ".join(parts)


class _Parser:
    """Precedence climbing over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.at = 0

    @property
    def next(self) -> tuple[str, str]:
        return self.tokens[self.at]

    def advance(self) -> tuple[str, str]:
        self.at += 1
        return self.tokens[self.at - 1]

    def whole(self) -> _Node:
        node = self.expression(0, 0)
        if self.next[0] != "end":
            raise ValueError("something follows the formula")
        return node

    def expression(self, least: int, depth: int) -> _Node:
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        left = self.operand(depth)
        while self.next[0] == "symbol" and _BINDS.get(self.next[1], -1) > least:
            sign = self.advance()[1]
            # Powers of powers bind to the right.
            left = _Node(sign, sign, (left, self.expression(_BINDS[sign] - (sign == "^"), depth + 1)))
        return left

    def operand(self, depth: int) -> _Node:
        kind, value = self.advance()
        if kind == "symbol" and value in "-!":
            return _Node("prefix", value, (self.expression(_PREFIX - 1, depth + 1),))
        if kind == "symbol" and value == "(":
            node = self.expression(0, depth + 1)
            self.close()
            return node
        if kind == "name" and self.next == ("symbol", "("):
            self.advance()
            node = _Node("call", value, (self.expression(0, depth + 1),))
            self.close()
            return node
        if kind not in ("name", "quoted", "number"):
            raise ValueError("a name or a number is missing")
        return _Node(kind, value)

    def close(self) -> None:
        if self.advance() != ("symbol", ")"):
            raise ValueError("a bracket is not closed")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, text = 0, text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError("a letter has no meaning")
        kind = match.lastgroup or ""
        yield kind, match[kind].replace("``", "`") if kind == "quoted" else match[kind]
        at = match.end()
    yield "end", ""


def _render(node: _Node) -> str:
    return _FORMS.get(node.kind, _joined)(node)


def _bracketed(node: _Node, least: int) -> str:
    """A part, in brackets where it binds less tightly than what is around it."""
    inside = _render(node)
    return inside if node.binds >= least else f"<mrow><mo>(</mo>{inside}<mo>)</mo></mrow>"


def _joined(node: _Node) -> str:
    left, right = node.parts
    around = _BINDS[node.kind]
    # Of "a - (b + c)" the brackets matter; those of "a | (b & c)" need not be known, and are kept.
    sides = [(left, around), (right, around + (node.kind == "-"))]
    made = [_bracketed(part, _PREFIX if node.kind == "|" and part.kind == "&" else least) for part, least in sides]
    return f"<mrow>{made[0]}<mo>{_SIGNS[node.kind]}</mo>{made[1]}</mrow>"


def _product(node: _Node) -> str:
    left, right = node.parts
    return f"<mrow>{_bracketed(left, 4)}<mo>·</mo>{_bracketed(right, 4)}</mrow>"


def _quotient(node: _Node) -> str:
    over, under = node.parts
    return f"<mfrac>{_render(over)}{_render(under)}</mfrac>"


def _power(node: _Node) -> str:
    base, exponent = node.parts
    if exponent.kind == "/" and all(part.kind == "number" for part in exponent.parts):
        raised = f"<mn>{'/'.join(escape(part.label) for part in exponent.parts)}</mn>"
    else:
        raised = _render(exponent)
    inside = _bracketed(base, _ATOM) if base.kind != "call" else f"<mrow><mo>(</mo>{_render(base)}<mo>)</mo></mrow>"
    return f"<msup>{inside}{raised}</msup>"


def _prefix(node: _Node) -> str:
    sign = {"-": "−", "!": "¬"}[node.label]
    return f"<mrow><mo>{sign}</mo>{_bracketed(node.parts[0], _PREFIX)}</mrow>"


def _call(node: _Node) -> str:
    inside = _render(node.parts[0])
    if node.label == "sqrt":
        return f"<msqrt>{inside}</msqrt>"
    if node.label in _ROOTS:
        return f"<mroot><mrow>{inside}</mrow><mn>{_ROOTS[node.label]}</mn></mroot>"
    if node.label == "abs":
        return f"<mrow><mo>|</mo>{inside}<mo>|</mo></mrow>"
    return f"<mrow><mi>{escape(node.label)}</mi><mo>&#x2061;</mo><mrow><mo>(</mo>{inside}<mo>)</mo></mrow></mrow>"


def _name(node: _Node) -> str:
    constant = _CONSTANT.fullmatch(node.label) if node.kind == "name" else None
    return f"<msub><mi>c</mi><mn>{constant[1]}</mn></msub>" if constant else _identifier(node.label)


def _number(text: str) -> str:
    mantissa, e, exponent = text.partition("e")
    if not e:
        return f"<mn>{escape(text)}</mn>"
    power = f"{'−' if int(exponent) < 0 else ''}{abs(int(exponent))}"
    return f"<mrow><mn>{escape(mantissa)}</mn><mo>×</mo><msup><mn>10</mn><mn>{power}</mn></msup></mrow>"


def _identifier(name: str) -> str:
    return f"<mi>{escape(name)}</mi>"


_FORMS: dict[str, Callable[[Any], str]] = {
    "number": lambda node: _number(node.label),
    "name": _name,
    "quoted": _name,
    "call": _call,
    "prefix": _prefix,
    "*": _product,
    "/": _quotient,
    "^": _power,
}
