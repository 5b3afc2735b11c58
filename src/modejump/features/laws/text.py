"""From text to laws: a recursive-descent parser, and features from what it reads.

The grammar, with blanks allowed between tokens::

    sum      =  ["+" | "-"] product { ("+" | "-") product }
    product  =  factor { ("*" | "/") factor }
    factor   =  ["-"] power
    power    =  atom [ ("^" | "**") factor ]
    atom     =  number  |  name  |  function "(" sum ")"  |  "(" sum ")"
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, NoReturn

from modejump.core.errors import InputError
from modejump.features.laws.expression import MAX_DEPTH, Feature, first_fixed
from modejump.features.laws.powers import POWERS, SAME
from modejump.features.laws.printing import CONSTANT
from modejump.features.nonlinear.transforms import transforms
from modejump.features.tokens import Token, TokenReader, refuse

_SYMBOLS: Final = ("**", "*", "^", "/", "+", "-", "(", ")")
_MOST_DIGITS: Final = 40


@dataclass(frozen=True)
class Node:
    """A piece of a law as it is written.

    Attributes
    ----------
    kind : str
        "number", "pi", "column", "constant", "call", or the operator: "+", "-" (of two), "negative", "*", "/", "^".
    value : str
        The number, the name of the column or constant, or the function; empty for operators.
    start : int
        Where it stands in the text.
    children : tuple of Node
        What it is made of.
    """

    kind: Literal["number", "pi", "column", "constant", "call", "+", "-", "negative", "*", "/", "^"]
    value: str
    start: int
    children: tuple[Node, ...] = ()

    def walk(self) -> list[Node]:
        """All nodes, this one first, in the order of the text."""
        return [self, *(node for child in self.children for node in child.walk())]


def parse(text: str, names: Collection[str] | None = None, *, constants: bool | None = None) -> Feature:
    """Return the feature that a text stands for; a coefficient before it is left out.

    Parameters
    ----------
    text : str
        The expression.
    names : collection of str, optional
        The covariates there are; any other name is refused.
    constants : bool, optional
        Whether names such as c0 are constants (as in the text of features) or columns; by default they are
        constants where they are no covariates.

    Returns
    -------
    Feature
    """
    return monomial(parse_node(text, names, constants=constants))


def monomial(node: Feature) -> Feature:
    """The feature in a node, without its coefficient, which is fitted anyway; InputError where there is none."""
    node = node.children[0] if node.kind in ("free", "minus") else node
    if not node.is_monomial:
        what = "a number" if node.kind == "one" else "a sum of terms"
        raise InputError(f"{node.text!r} is {what} and no feature; terms are features, and fit_law takes their sum.")
    return node


def parse_node(
    text: str,
    names: Collection[str] | None = None,
    *,
    constants: bool | None = None,
    known_transforms: bool = True,
) -> Feature:
    """Return the feature, or the term or sum inside features, that a text stands for.

    Parameters
    ----------
    text : str
        The expression.
    names : collection of str, optional
        The covariates there are; any other name is refused.
    constants : bool, optional
        Whether names such as c0 are constants (as in the text of features) or columns; by default they are
        constants where they are no covariates.
    known_transforms : bool
        Whether functions that are not in the registry are refused.

    Returns
    -------
    Feature
    """
    law = read(text, names, constants=constants, known_transforms=known_transforms)
    return term_of(_Reader(text, law).read(law))


def read(
    text: str,
    names: Collection[str] | None = None,
    *,
    constants: bool | None = None,
    known_transforms: bool = True,
) -> Node:
    """Return a law as it is written; parameters as in `parse_node`."""
    if not isinstance(text, str):
        raise InputError(f"A law is read from text, got {text!r}.")
    if names is not None and (isinstance(names, str) or not all(isinstance(name, str) for name in names)):
        raise InputError("names must be a list of column names, each of them text.")
    return _Parser(text, names, constants, known_transforms).law()


class _Parser(TokenReader):
    """One method for each rule of the grammar."""

    def __init__(
        self, text: str, names: Collection[str] | None, constants: bool | None, known_transforms: bool
    ) -> None:
        super().__init__(text, _SYMBOLS, names)
        self.constants, self.known_transforms = constants, known_transforms

    def law(self) -> Node:
        law = self.sum()
        if self.token.kind != "end":
            self.refuse_next("an operator or the end")
        return law

    def sum(self) -> Node:
        self.accept("+")
        total = self.product()
        while self.token.kind in ("+", "-"):
            sign = self.advance()
            total = Node("+" if sign.kind == "+" else "-", "", sign.start, (total, self.product()))
        return total

    def product(self) -> Node:
        product = self.factor()
        while self.token.kind in ("*", "/"):
            sign = self.advance()
            product = Node("*" if sign.kind == "*" else "/", "", sign.start, (product, self.factor()))
        return product

    def factor(self) -> Node:
        if self.token.kind == "-":
            sign = self.deeper()
            inside = Node("negative", "", sign.start, (self.factor(),))
            self.nesting -= 1
            return inside
        base = self.atom()
        if self.token.kind not in ("^", "**"):
            return base
        sign = self.deeper()
        raised = Node("^", "", sign.start, (base, self.factor()))
        self.nesting -= 1
        return raised

    def atom(self) -> Node:
        token = self.token
        if token.kind == "number":
            return self.number()
        if token.kind in ("name", "quoted"):
            self.advance()
            return self.call(token) if self.token.kind == "(" and token.kind == "name" else self.name(token)
        if token.kind == "(":
            return self.brackets()
        self.refuse_next("a name, a number or '('")

    def number(self) -> Node:
        token = self.advance()
        value = token.value
        # The tokens of 1e-5 are 1e, - and 5.
        if value[-1] in "eE" and self.token.kind in ("+", "-") and self.token.start == token.start + len(value):
            value += self.advance().value
            if self.token.kind == "number" and self.token.start == token.start + len(value):
                value += self.advance().value
        try:
            finite = abs(float(value)) < float("inf") and len(value) <= _MOST_DIGITS
        except ValueError:
            finite = False
        if not finite:
            refuse(self.text, token.start, f"{value!r} is no number, and a name like it needs backticks")
        return Node("number", value, token.start)

    def name(self, token: Token) -> Node:
        known = self.names is None or token.value in self.names
        if token.kind == "name" and CONSTANT.fullmatch(token.value):
            if self.constants or (self.constants is None and (self.names is None or not known)):
                return Node("constant", token.value, token.start)
        if not known and token.value == "pi" and token.kind == "name":
            return Node("pi", token.value, token.start)
        self.need_column(token)
        return Node("column", token.value, token.start)

    def call(self, token: Token) -> Node:
        if self.known_transforms and token.value not in transforms:
            problem = f"{token} is no function: {transforms.advice(token.value)}"
            if self.names is not None and token.value in self.names:
                problem = f"{token} is a column: write '*' before the brackets"
            refuse(self.text, token.start, problem)
        return Node("call", token.value, token.start, (self.brackets(),))

    def brackets(self) -> Node:
        self.deeper()
        inside = self.sum()
        if self.token.kind != ")":
            self.refuse_next("an operator or ')'")
        self.advance()
        self.nesting -= 1
        return inside

    def deeper(self) -> Token:
        if self.nesting == MAX_DEPTH:
            refuse(self.text, self.token.start, f"the law is more than {MAX_DEPTH} brackets deep: write a smaller one")
        self.nesting += 1
        return self.advance()

    def refuse_next(self, expected: str) -> NoReturn:
        """Say what was expected in place of the next token."""
        refuse(self.text, self.token.start, f"expected {expected}, found {self.token}")


def exact(node: Node) -> Fraction | None:
    """Value of a piece without columns and constants, None where it has some or is no rational number."""
    if node.kind == "number":
        return Fraction(node.value)
    parts = [exact(child) for child in node.children]
    if node.kind in ("pi", "column", "constant", "call") or any(part is None for part in parts):
        return None
    values: list[Any] = parts
    if node.kind == "negative":
        return -values[0]
    first, second = values
    if node.kind == "+":
        return first + second
    if node.kind == "-":
        return first - second
    if node.kind == "*":
        return first * second
    if node.kind == "/":
        return None if second == 0 else first / second
    whole = second.denominator == 1 and abs(second) <= 64 and (first != 0 or second > 0)
    return first ** int(second) if whole else None


# The coefficient of a piece: plus or minus one, or a constant that is fitted.
PLUS, MINUS, FREE = 1, -1, 0
Term = tuple[int, Feature]


class _Reader:
    """Makes a feature of what was written; each piece is a coefficient and a monomial, a sum or the number 1."""

    def __init__(self, text: str, law: Node) -> None:
        self.text, self.law = text, law
        self.constants: set[str] = set()

    def read(self, piece: Node) -> Term:
        try:
            return self.meaning(piece)
        except _RefusedError:
            raise
        except InputError as error:
            self.refuse(piece, str(error).removeprefix("This is no feature: ").removesuffix("."))

    def refuse(self, piece: Node, problem: str) -> NoReturn:
        try:
            refuse(self.text, piece.start, problem)
        except InputError as error:
            raise _RefusedError(str(error)) from None

    def meaning(self, piece: Node) -> Term:
        kind, children = piece.kind, piece.children
        if kind == "column":
            return PLUS, Feature.covariate(piece.value)
        if kind == "constant":
            if piece.value in self.constants:
                problem = f"the constant {piece.value} is used twice: give each its own name, or use modejump.fit_law"
                self.refuse(piece, problem)
            self.constants.add(piece.value)
            return FREE, Feature.one()
        number = exact(piece)
        if number is not None or kind == "pi":
            if number is None or abs(number) != 1:
                advice = "write a constant such as c0, which is fitted, or use modejump.fit_law"
                self.refuse(piece, f"the number {number or 'pi'} has no place in a feature: {advice}")
            return int(number), Feature.one()
        if kind == "call":
            return self.call(piece)
        if kind == "negative":
            sign, node = self.read(children[0])
            return -sign, node
        if kind == "^":
            exponent = exact(children[1])
            return self.fitted_power(piece) if exponent is None else _power(self.read(children[0]), exponent)
        left, right = self.read(children[0]), self.read(children[1])
        if kind in ("*", "/"):
            return _product(left, right if kind == "*" else _power(right, Fraction(-1)))
        return _sum(left, right if kind == "+" else (-right[0], right[1]))

    def fitted_power(self, piece: Node) -> Term:
        """A power whose exponent is a constant: x^c is exp(c*log(x))."""
        base, exponent = piece.children
        if exponent.kind != "constant":
            known = "a rational number such as 2 or -1/3, or a constant such as c0"
            self.refuse(exponent, f"an exponent is {known}; others are for modejump.fit_law")
        logarithm = Node("call", "log", piece.start, (base,))
        product = Node("*", "", piece.start, (exponent, logarithm))
        return self.read(Node("call", "exp", piece.start, (product,)))

    def call(self, piece: Node) -> Term:
        function, argument = SAME.get(piece.value, piece.value), self.read(piece.children[0])
        if function in POWERS:
            return _power(argument, POWERS[function])
        sign = PLUS
        node = term_of(argument)
        if function == "log" and node.kind == "sum":
            fixed = _first_is_fixed(node)
            if fixed is not node and piece is not self.law:
                advice = f"only the whole feature may be one, as log({fixed.text})"
                self.refuse(piece, f"the scale inside of log({node.text}) is a constant that is added to it: {advice}")
            node = fixed
        if function == "exp" and node.kind == "sum" and node.children[-1] is Feature.free(Feature.one()):
            # A number in the exponent is a factor.
            sign, node = FREE, Feature.sum_(*node.children[:-1])
        made = Feature.call(function, node)
        transform = transforms.get(function)
        odd = transform is not None and transform.parity == -1
        return (-sign if odd and _is_negative(node) else sign), made


class _RefusedError(InputError):
    """Input that was refused at the place where it stands."""


def term_of(piece: Term) -> Feature:
    """The node of a coefficient and what it multiplies; a constant spreads over a sum with one fixed term."""
    sign, node = piece
    if sign == PLUS:
        return node
    if sign == MINUS:
        return Feature.minus(node)
    if node.kind == "sum" and sum(term.kind != "free" for term in node.children) <= 1:
        return Feature.sum_(*map(Feature.free, node.children))
    return Feature.free(node)


def _sum(left: Term, right: Term) -> Term:
    total = Feature.sum_(term_of(left), term_of(right))
    if total.kind in ("free", "minus"):
        return (FREE if total.kind == "free" else MINUS), total.children[0]
    return PLUS, total


def _product(left: Term, right: Term) -> Term:
    left, right = _as_factor(left, Fraction(1)), _as_factor(right, Fraction(1))
    nodes = [node for _, node in (left, right) if node.kind != "one"]
    return left[0] * right[0], (Feature.product(*nodes) if nodes else Feature.one())


def _power(piece: Term, exponent: Fraction) -> Term:
    if exponent == 0:
        raise InputError("a power with the exponent 0 is constant.")
    sign, node = _as_factor(piece, exponent)
    odd = exponent.denominator == 1 and exponent.numerator % 2 == 1
    return (sign if odd else abs(sign)), (node if node.kind == "one" else Feature.power(node, exponent))


def _as_factor(piece: Term, exponent: Fraction) -> Term:
    """A sum as factors and bases have it, the rest as it is; what the sum loses goes to the coefficient."""
    sign, node = piece
    if node.kind != "sum":
        return piece
    fixed = _first_is_fixed(node)
    if fixed is not node:
        return FREE, fixed
    return (-sign, Feature.minus(node)) if _is_negative(node) else piece


def _first_is_fixed(total: Feature) -> Feature:
    if all(term.kind == "free" for term in total.children):
        total = Feature.sum_(total.children[0].children[0], *total.children[1:])
    return first_fixed(total)


def _is_negative(node: Feature) -> bool:
    """Whether the first fixed term has a minus sign."""
    terms = node.children if node.kind == "sum" else (node,)
    return next((term.kind == "minus" for term in terms if term.kind != "free"), False)
