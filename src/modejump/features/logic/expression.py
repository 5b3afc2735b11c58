"""Logic features: boolean functions of binary covariates, each once, however it is spelled."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Self

from modejump.core.errors import InputError
from modejump.features.expression import Expression
from modejump.features.logic.functions import (
    AND,
    LEAF,
    MOST_LEAVES,
    NEGATED,
    Functions,
    Spelling,
    canonical,
    full,
    functions_of,
    permuted,
)
from modejump.features.tokens import quoted

# A text may name so many covariates, as long as few of them matter.
MOST_NAMED = 10
# Words that a text may use in the place of symbols: covariates of that name stand in backticks.
WORDS = {"not": "!", "and": "&", "or": "|"}


class LogicFeature(Expression):
    """A boolean function of binary covariates, of which it and its complement are one feature."""

    __slots__ = ("leaves", "truth")

    leaves: tuple[str, ...]  # the covariates that matter, in reading order
    truth: int  # bit ``r`` is its value where leaf ``i`` is bit ``i`` of ``r``

    @classmethod
    def of(cls, names: Sequence[str], truth: int) -> Self:
        """The feature of a truth table over distinct covariates, which need not all matter.

        Examples
        --------
        >>> LogicFeature.of(["b", "a"], 0b1000).text
        'a & b'
        """
        truth, kept = canonical(truth, len(names))
        named = [names[i] for i in kept]
        if not named:
            raise InputError("a logic expression that is always true or always false is no feature; leave it out.")
        order = tuple(sorted(range(len(named)), key=lambda i: _reading_key(named[i])))
        leaves, truth = tuple(named[i] for i in order), permuted(truth, order)
        known = functions_of(MOST_LEAVES)
        number = known.find(len(leaves), truth) if len(leaves) <= MOST_LEAVES else -1
        if number < 0:
            raise InputError(
                f"a logic expression of {', '.join(leaves)} needs more than {MOST_LEAVES} leaves; write a smaller one."
            )
        return cls._numbered(leaves, known, number)

    @classmethod
    def _numbered(cls, leaves: tuple[str, ...], known: Functions, number: int) -> Self:
        text = _written(known.spelling[number], leaves)
        size = int(known.leaves[number])
        return cls.known(text) or cls.interned(
            text,
            covariates=frozenset(leaves),
            complexity=size,
            depth=len(leaves) - 1,
            width=len(leaves),
            spellings=1,
            leaves=leaves,
            truth=int(known.truth[number]),
        )

    @property
    def spelling(self) -> Spelling:
        """The shortest spelling, in terms of the leaves' numbers."""
        known = functions_of(MOST_LEAVES)
        return known.spelling[known.find(len(self.leaves), self.truth)]

    def __reduce__(self) -> Any:
        return type(self).of, (self.leaves, self.truth)


def _reading_key(name: str) -> tuple[Any, ...]:
    """Names in the order that people expect: X2 before X10."""
    pieces = re.split(r"([0-9]+)", name)
    return tuple((int(piece), "") if i % 2 else (-1, piece) for i, piece in enumerate(pieces)), name


def _fold(
    spelling: Spelling, leaf: Callable[[int], Any], negate: Callable[[Any], Any], join: Callable[..., Any]
) -> Any:
    """Build something along a spelling: ``join`` takes the kind and the parts, each with whether it is a group."""
    if spelling.kind == LEAF:
        return leaf(spelling.variable)
    if spelling.kind == NEGATED:
        return negate(leaf(spelling.variable))
    parts = [(_fold(part, leaf, negate, join), bool(part.parts)) for part in spelling.parts]
    return join(spelling.kind, parts)


def _named(name: str) -> str:
    return f"`{name}`" if name in WORDS else quoted(name)


def _written(spelling: Spelling, leaves: Sequence[str]) -> str:
    def join(kind: str, parts: list[tuple[str, bool]]) -> str:
        return f" {kind} ".join(f"({part})" if group else part for part, group in parts)

    return str(_fold(spelling, lambda i: _named(leaves[i]), lambda text: "!" + text, join))


def in_brackets(text: str) -> str:
    """A feature as it stands in a sum.

    Examples
    --------
    >>> in_brackets("a & !b"), in_brackets("a")
    ('(a & !b)', 'a')
    """
    return f"({text})" if " & " in text or " | " in text else text


def to_latex(feature: LogicFeature, escape: Callable[[str], str]) -> str:
    r"""LaTeX of a feature, for math mode.

    Examples
    --------
    >>> print(to_latex(LogicFeature.of(["a", "b"], 0b0010), str))
    \mathrm{a} \wedge \neg \mathrm{b}
    """

    def join(kind: str, parts: list[tuple[str, bool]]) -> str:
        symbol = r" \wedge " if kind == AND else r" \vee "
        return symbol.join(rf"\left({part}\right)" if group else part for part, group in parts)

    leaves = [rf"\mathrm{{{escape(name)}}}" for name in feature.leaves]
    return str(_fold(feature.spelling, leaves.__getitem__, lambda text: r"\neg " + text, join))


def to_sympy(feature: LogicFeature, sympy: Any) -> Any:
    """A feature as a polynomial of symbols that are 0 or 1, so that it can be a term of a sum."""

    def join(kind: str, parts: list[tuple[Any, bool]]) -> Any:
        inner = [part for part, _ in parts]
        return sympy.Mul(*inner) if kind == AND else 1 - sympy.Mul(*(1 - part for part in inner))

    return _fold(feature.spelling, lambda i: sympy.Symbol(feature.leaves[i]), lambda value: 1 - value, join)


def joined(a: tuple[tuple[str, ...], int], b: tuple[tuple[str, ...], int], kind: str) -> tuple[tuple[str, ...], int]:
    """Names and truth table of two functions joined by AND or OR."""
    names = tuple(dict.fromkeys((*a[0], *b[0])))
    tables = [_spread(truth, [names.index(name) for name in own], len(names)) for own, truth in (a, b)]
    return names, tables[0] & tables[1] if kind == AND else tables[0] | tables[1]


def negated(a: tuple[tuple[str, ...], int]) -> tuple[tuple[str, ...], int]:
    """Names and truth table of the complement."""
    return a[0], a[1] ^ full(len(a[0]))


def _spread(truth: int, places: Sequence[int], variables: int) -> int:
    """The truth table over more variables, of which the function has those at some places."""
    made = 0
    for r in range(1 << variables):
        at = sum(((r >> place) & 1) << i for i, place in enumerate(places))
        made |= ((truth >> at) & 1) << r
    return made
