"""Names of columns: of very many without a million objects, of groups, and of those that a user points to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np

from modejump.core.errors import InputError


class NumberedNames(Sequence[str]):
    """The names x0, x1, ... of an array's columns, as scikit-learn has them.

    Examples
    --------
    >>> names = NumberedNames(1_000_000)
    >>> names[0], names[-1], names.index("x999999")
    ('x0', 'x999999', 999999)
    >>> "x0" in names, "x00" in names, "x1000000" in names
    (True, False, False)
    """

    def __init__(self, count: int) -> None:
        self.total = int(count)

    def __len__(self) -> int:
        return self.total

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        if isinstance(at, slice):
            return tuple(f"x{j}" for j in range(*at.indices(self.total)))
        if not -self.total <= at < self.total:
            raise IndexError(at)
        return f"x{at % self.total}"

    def index(self, name: Any, *bounds: int) -> int:
        """Place of a name; ValueError where it is none of them."""
        text = str(name)
        if text[:1] == "x" and text[1:].isascii() and text[1:].isdigit() and (text == "x0" or text[1] != "0"):
            if (number := int(text[1:])) < self.total:
                return number
        raise ValueError(f"{name!r} is not one of x0, ..., x{self.total - 1}")

    def __contains__(self, name: object) -> bool:
        try:
            self.index(name)
        except ValueError:
            return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumberedNames) and other.total == self.total

    def __hash__(self) -> int:
        return hash(("x", self.total))


class GivenNames(Sequence[str]):
    """Names that columns have of their own, with their places."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        if len(self._place) < len(self.names):
            seen: set[str] = set()
            twice = next(name for name in self.names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise InputError(f"two columns are named {twice!r}; give each column its own name.")

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        return self.names[at]

    def index(self, name: Any, *bounds: int) -> int:
        """Place of a name; ValueError where it is none of them."""
        try:
            return self._place[name]
        except KeyError:
            raise ValueError(f"{name!r} is not a column") from None

    def __contains__(self, name: object) -> bool:
        return name in self._place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GivenNames) and other.names == self.names

    def __hash__(self) -> int:
        return hash(self.names)


# Names of either kind.
Names = NumberedNames | GivenNames


def names_of(given: Sequence[str] | int | Names) -> Names:
    """Names from a list of them, or from the number of columns that are only numbered."""
    if isinstance(given, NumberedNames | GivenNames):
        return given
    return NumberedNames(given) if isinstance(given, int) else GivenNames(given)


def stored_names(names: Names) -> int | list[str]:
    """Names as JSON holds them, for `names_of`."""
    return names.total if isinstance(names, NumberedNames) else list(names.names)


def read_groups(groups: Mapping[str, Sequence[str | int]] | None, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Groups of columns by name, each column in one of them at most."""
    if groups is None:
        return {}
    if not isinstance(groups, Mapping):
        raise InputError('groups must be a mapping of a name to columns, such as {"size": ["height", "weight"]}.')
    taken: dict[str, str] = {}
    read: dict[str, tuple[str, ...]] = {}
    for group, members in groups.items():
        if isinstance(members, str) or not len(members):
            raise InputError(f"group {group!r} must be a list of at least one column.")
        read[str(group)] = tuple(column_name(member, names, f"group {group!r}") for member in members)
        for member in read[str(group)]:
            if member in taken:
                raise InputError(
                    f"column {member!r} is listed twice in groups, in {taken[member]!r} and {group!r}; keep one."
                )
            taken[member] = str(group)
    for group in read:
        if group in names and taken.get(group) != group:
            raise InputError(f"group {group!r} has the name of a column outside it; give the group another name.")
    return read


def column_name(column: str | int, names: Sequence[str], where: str) -> str:
    """A column's name, from its name or its position."""
    if isinstance(column, int | np.integer) and not isinstance(column, bool):
        if not 0 <= column < len(names):
            raise InputError(f"{where} names column {column}, but X has {len(names)} columns (counting from 0).")
        return names[int(column)]
    if column not in names:
        raise InputError(
            f"{where} names column {column!r}, which X does not have; its columns are {', '.join(names[:8])}."
        )
    return str(column)
