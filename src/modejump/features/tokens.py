"""From the text of a feature to tokens: names, names in backticks, numbers, and the symbols of a language."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, NoReturn

from modejump.core.errors import InputError

# How much of a text an error message shows.
SHOWN_LETTERS = 60
# What a level of a factor adds to its name: sex[male].
_LEVEL = re.compile(r"\[[^\[\]`]+\]")


class Token(NamedTuple):
    """A piece of text: a symbol (kind and value are the symbol), a name, a quoted name, a number, or the end."""

    kind: str
    value: str
    start: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else _shown(self.value)


def tokens(text: str, symbols: Sequence[str]) -> Iterator[Token]:
    """Cut a text into tokens, the last of which is the end; a symbol that begins with another one comes first."""
    at = 0
    while at < len(text):
        symbol = next((symbol for symbol in symbols if text.startswith(symbol, at)), None)
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
            if is_plain_name(text[at:end]) and (level := _LEVEL.match(text, end)):
                end = level.end()
            word = text[at:end]
            yield Token("name" if is_plain_name(word) else "number", word, at)
            at = end
        else:
            refuse(text, at, f"{text[at]!r} has no meaning: put a name with such a letter in backticks")
    yield Token("end", "", at)


class TokenReader:
    """Reads a text token by token; ``token`` is the one to be read next."""

    def __init__(self, text: str, symbols: Sequence[str], names: Collection[str] | None) -> None:
        self.text, self.names, self.nesting = text, None if names is None else frozenset(names), 0
        self._tokens = tokens(text, symbols)
        self.token = self.following()

    def following(self) -> Token:
        """The token after the one to be read next."""
        return next(self._tokens)

    def advance(self) -> Token:
        """Read a token."""
        token, self.token = self.token, self.following()
        return token

    def accept(self, kind: str) -> bool:
        """Read a token where it is of a kind; whether it was."""
        found = self.token.kind == kind
        if found:
            self.advance()
        return found

    def need_column(self, token: Token) -> None:
        """Refuse a name that is no column."""
        if self.names is not None and token.value not in self.names:
            close = difflib.get_close_matches(token.value, sorted(self.names), n=1)
            advice = f"perhaps you mean {close[0]!r}" if close else "use the names of the columns"
            refuse(self.text, token.start, f"{token} is no column: {advice}")


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
            refuse(text, start, "a name in backticks is empty: write a name between them")
        else:
            return "".join(letters), at + 1
    refuse(text, start, "a backtick is not closed: end the name with another one")


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_LETTERS else text[: SHOWN_LETTERS - 3] + "...")


def refuse(text: str, start: int, problem: str) -> NoReturn:
    """Say what cannot be read, and where."""
    raise InputError(f"Cannot read the feature {_shown(text)}: at position {start + 1}, {problem}.")


def quoted(name: str) -> str:
    """A name as it stands in a text: in backticks where it needs them."""
    return name if is_plain_name(name) else "`" + name.replace("`", "``") + "`"


def is_plain_name(name: str) -> bool:
    """Whether a name can stand in a feature's text without backticks.

    Examples
    --------
    >>> is_plain_name("x.1"), is_plain_name("sex[male]"), is_plain_name("1x"), is_plain_name("a b")
    (True, True, False, False)
    """
    letters = len(name.partition("[")[0])
    start = name.lstrip(".")[:1]
    whole = letters == len(name) or _LEVEL.fullmatch(name, letters) is not None
    return whole and (start.isalpha() or start == "_") and all(map(is_name_letter, name[:letters]))


def is_name_letter(letter: str) -> bool:
    """Whether a letter may be in a name without backticks."""
    return letter.isalpha() or letter.isdecimal() or letter in "_."
