"""From text to features: a tokenizer and a recursive-descent parser.

The grammar, with blanks allowed between tokens::

    feature  =  product
    product  =  factor [power] { "*" factor [power] }
    power    =  ("**" | "^") integer
    factor   =  name  |  "(" product ")"  |  transform "(" addend { "+" addend } ")"
    addend   =  "1"  |  product
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from typing import NamedTuple, NoReturn

from modejump.core.errors import InputError
from modejump.features.nonlinear.expression import MAX_DEPTH, Feature, Kind, compose, is_name_letter, is_plain_name
from modejump.features.nonlinear.transforms import transforms

MAX_EXPONENT = 64
# How much of a text an error message shows.
SHOWN_LETTERS = 60

_EXPONENTS = frozenset(map(str, range(1, MAX_EXPONENT + 1)))
_SYMBOLS = ("**", "*", "^", "+", "(", ")")


class Token(NamedTuple):
    """A piece of text: a symbol (kind and value are the symbol), a name, a quoted name, a number, or the end."""

    kind: str
    value: str
    start: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else _shown(self.value)


def parse(text: str, names: Collection[str] | None = None, known_transforms: bool = True) -> Feature:
    """Return the feature that a text stands for.

    Parameters
    ----------
    text : str
        The expression.
    names : collection of str, optional
        The covariates there are; any other name is refused.
    known_transforms : bool
        Whether transforms that are not in the registry are refused.

    Returns
    -------
    Feature
    """
    if not isinstance(text, str):
        raise InputError(f"A feature is read from text, got {text!r}.")
    if names is not None and (isinstance(names, str) or not all(isinstance(name, str) for name in names)):
        raise InputError("names must be a list of column names, each of them text.")
    return _Parser(text, names, known_transforms).feature()


def tokens(text: str) -> Iterator[Token]:
    """Cut a text into tokens, the last of which is the end."""
    at = 0
    while at < len(text):
        rest = text[at : at + 2]
        symbol = next((symbol for symbol in _SYMBOLS if rest.startswith(symbol)), None)
        if text[at].isspace():
            at += 1
        elif symbol is not None:
            yield Token(symbol, symbol, at)
            at += len(symbol)
        elif text[at] == "`":
            name, end = _quoted_name(text, at)
            yield Token("quoted", name, at)
            at = end
        elif is_name_letter(text[at]):
            end = at
            while end < len(text) and is_name_letter(text[end]):
                end += 1
            word = text[at:end]
            yield Token("name" if is_plain_name(word) else "number", word, at)
            at = end
        else:
            _refuse(text, at, f"{text[at]!r} has no meaning: put a name with such a letter in backticks")
    yield Token("end", "", at)


def _quoted_name(text: str, start: int) -> tuple[str, int]:
    """The name in backticks that starts here, and where the text goes on; two backticks stand for one."""
    letters = []
    at = start + 1
    while at < len(text):
        if text[at] != "`":
            letters.append(text[at])
            at += 1
        elif text[at : at + 2] == "``":
            letters.append("`")
            at += 2
        elif not letters:
            _refuse(text, start, "a name in backticks is empty: write a name between them")
        else:
            return "".join(letters), at + 1
    _refuse(text, start, "a backtick is not closed: end the name with another one")


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_LETTERS else text[: SHOWN_LETTERS - 3] + "...")


def _refuse(text: str, start: int, problem: str) -> NoReturn:
    raise InputError(f"Cannot read the feature {_shown(text)}: at position {start + 1}, {problem}.")


class _Parser:
    """One method for each rule of the grammar; ``token`` is the one to be read next."""

    def __init__(self, text: str, names: Collection[str] | None, known_transforms: bool) -> None:
        self.text = text
        self.names = None if names is None else frozenset(names)
        self.known_transforms = known_transforms
        self.nesting = 0
        self._tokens = tokens(text)
        self.token = next(self._tokens)

    def feature(self) -> Feature:
        feature = self.product()
        if self.token.kind != "end":
            self.refuse_next("'*' or the end")
        return feature

    def product(self) -> Feature:
        factors: list[Feature] = []
        while True:
            factor = self.factor()
            factors += [factor] * self.exponent()
            if not self.accept("*"):
                return Feature.product(*factors)

    def exponent(self) -> int:
        if not (self.accept("**") or self.accept("^")):
            return 1
        if self.token.kind != "number" or self.token.value not in _EXPONENTS:
            problem = f"expected a whole number from 1 to {MAX_EXPONENT} as exponent, found {self.token}"
            _refuse(self.text, self.token.start, problem)
        exponent = int(self.token.value)
        self.advance()
        return exponent

    def factor(self) -> Feature:
        token = self.token
        if token.kind == "name":
            self.advance()
            return self.call(token) if self.token.kind == "(" else self.covariate(token)
        if token.kind == "quoted":
            self.advance()
            return self.covariate(token)
        if token.kind == "(":
            self.open()
            inside = self.product()
            self.close("'*' or ')'")
            return inside
        self.refuse_next("a name or '('")

    def covariate(self, token: Token) -> Feature:
        if self.names is not None and token.value not in self.names:
            close = difflib.get_close_matches(token.value, sorted(self.names), n=1)
            advice = f"perhaps you mean {close[0]!r}" if close else "use the names of the columns"
            _refuse(self.text, token.start, f"{token} is no column: {advice}")
        return Feature.covariate(token.value)

    def call(self, token: Token) -> Feature:
        if self.known_transforms and token.value not in transforms:
            _refuse(self.text, token.start, f"{token} is no transform: {transforms.advice(token.value)}")
        self.open()
        intercepts = 0
        parents = []
        while True:
            if self.token.kind == "number" and self.token.value == "1" and not intercepts:
                intercepts += 1
                self.advance()
            else:
                parents.append(self.product())
            if not self.accept("+"):
                break
        if not parents:
            self.refuse_next("'+' and a parent after the intercept 1")
        self.close("'*', '+' or ')'")
        kind: Kind = "projection" if intercepts or len(parents) > 1 else "modification"
        return compose(kind, token.value, parents)

    def open(self) -> None:
        if self.nesting == MAX_DEPTH:
            _refuse(self.text, self.token.start, f"parentheses are more than {MAX_DEPTH} deep: write a smaller feature")
        self.nesting += 1
        self.advance()

    def close(self, expected: str) -> None:
        if not self.accept(")"):
            self.refuse_next(expected)
        self.nesting -= 1

    def accept(self, kind: str) -> bool:
        if self.token.kind != kind:
            return False
        self.advance()
        return True

    def advance(self) -> None:
        self.token = next(self._tokens)

    def refuse_next(self, expected: str) -> NoReturn:
        """Say what was expected in place of the next token."""
        advice = ""
        if self.token.kind == "+":
            advice = ": a sum needs a transform around it, as in sin(1 + x + y)"
        elif self.token.kind == "number":
            advice = ": a number is the intercept 1 of a projection or an exponent, and a name like it needs backticks"
        _refuse(self.text, self.token.start, f"expected {expected}, found {self.token}{advice}")
