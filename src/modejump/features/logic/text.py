"""From text to logic features.

The grammar, with blanks allowed between tokens::

    feature  =  both { "|" both }
    both     =  leaf { "&" leaf }
    leaf     =  name  |  "!" leaf  |  "(" feature ")"

``~`` and ``not`` stand for ``!``, ``and`` for ``&``, ``or`` for ``|``.
"""

from __future__ import annotations

from collections.abc import Collection

from modejump.core.errors import InputError
from modejump.features.logic.expression import MOST_NAMED, WORDS, LogicFeature, joined, negated
from modejump.features.tokens import Token, TokenReader, refuse

_SYMBOLS = ("!", "~", "&", "|", "(", ")")
_MOST_NESTED = 50

Function = tuple[tuple[str, ...], int]


def parse(text: str, names: Collection[str] | None = None) -> LogicFeature:
    """The feature that a text stands for.

    Parameters
    ----------
    text : str
        The expression, such as ``X1 & (X3 | !X27)``.
    names : collection of str, optional
        The covariates there are; any other name is refused.

    Examples
    --------
    >>> parse("!(b & a) & a").text
    'a & !b'
    """
    if not isinstance(text, str):
        raise InputError(f"A feature is read from text, got {text!r}.")
    return LogicFeature.of(*_Parser(text, names).feature())


class _Parser(TokenReader):
    """One method for each rule of the grammar."""

    def __init__(self, text: str, names: Collection[str] | None) -> None:
        super().__init__(text, _SYMBOLS, names)
        self.seen: set[str] = set()

    def following(self) -> Token:
        """The next token; words and other signs stand for the operators."""
        token = super().following()
        word = "!" if token.kind == "~" else WORDS.get(token.value) if token.kind == "name" else None
        return token if word is None else Token(word, word, token.start)

    def feature(self) -> Function:
        made = self.either()
        if self.token.kind != "end":
            refuse(self.text, self.token.start, f"expected '&', '|' or the end, found {self.token}")
        return made

    def either(self) -> Function:
        made = self.both()
        while self.token.kind == "|":
            self.advance()
            made = joined(made, self.both(), "|")
        return made

    def both(self) -> Function:
        made = self.leaf()
        while self.token.kind == "&":
            self.advance()
            made = joined(made, self.leaf(), "&")
        return made

    def leaf(self) -> Function:
        token = self.token
        if self.nesting > _MOST_NESTED:
            refuse(self.text, token.start, f"it is more than {_MOST_NESTED} deep: write a smaller expression")
        if token.kind == "!":
            self.advance()
            self.nesting += 1
            made = negated(self.leaf())
            self.nesting -= 1
            return made
        if token.kind == "(":
            self.advance()
            self.nesting += 1
            made = self.either()
            self.nesting -= 1
            if self.token.kind != ")":
                refuse(self.text, self.token.start, f"expected '&', '|' or ')', found {self.token}")
            self.advance()
            return made
        if token.kind not in ("name", "quoted"):
            refuse(self.text, token.start, f"expected a name, '!' or '(', found {token}")
        self.advance()
        return self.covariate(token)

    def covariate(self, token: Token) -> Function:
        self.need_column(token)
        self.seen.add(token.value)
        if len(self.seen) > MOST_NAMED:
            refuse(self.text, token.start, f"it names more than {MOST_NAMED} columns: write a smaller expression")
        return (token.value,), 0b10
