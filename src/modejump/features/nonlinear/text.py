"""From text to features: a recursive-descent parser.

The grammar, with blanks allowed between tokens::

    feature  =  product
    product  =  factor [power] { "*" factor [power] }
    power    =  ("**" | "^") integer
    factor   =  name  |  "(" product ")"  |  transform "(" addend { "+" addend } ")"
    addend   =  "1"  |  product
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from modejump.core.errors import InputError
from modejump.features.nonlinear.expression import MAX_DEPTH, Feature, Kind, compose
from modejump.features.nonlinear.transforms import transforms
from modejump.features.tokens import Token, TokenReader, refuse

MAX_EXPONENT = 64

_EXPONENTS = frozenset(map(str, range(1, MAX_EXPONENT + 1)))
_SYMBOLS = ("**", "*", "^", "+", "(", ")")


def parse(text: str, names: Collection[str] | None = None, known_transforms: bool = True) -> Feature:
    """The feature that a text stands for; names that are no covariates are refused, and so are unknown transforms."""
    if not isinstance(text, str):
        raise InputError(f"A feature is read from text, got {text!r}.")
    return _Parser(text, names, known_transforms).feature()


class _Parser(TokenReader):
    """One method for each rule of the grammar."""

    def __init__(self, text: str, names: Collection[str] | None, known_transforms: bool) -> None:
        super().__init__(text, _SYMBOLS, names)
        self.known_transforms = known_transforms

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
            refuse(self.text, self.token.start, problem)
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
        self.need_column(token)
        return Feature.covariate(token.value)

    def call(self, token: Token) -> Feature:
        if self.known_transforms and token.value not in transforms:
            refuse(self.text, token.start, f"{token} is no transform: {transforms.advice(token.value)}")
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
            refuse(self.text, self.token.start, f"parentheses are more than {MAX_DEPTH} deep: write a smaller feature")
        self.nesting += 1
        self.advance()

    def close(self, expected: str) -> None:
        if not self.accept(")"):
            self.refuse_next(expected)
        self.nesting -= 1

    def refuse_next(self, expected: str) -> NoReturn:
        """Say what was expected in place of the next token."""
        advice = ""
        if self.token.kind == "+":
            advice = ": a sum needs a transform around it, as in sin(1 + x + y)"
        elif self.token.kind == "number":
            advice = ": a number is the intercept 1 of a projection or an exponent, and a name like it needs backticks"
        refuse(self.text, self.token.start, f"expected {expected}, found {self.token}{advice}")
