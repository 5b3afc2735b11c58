"""Registries: classes by name, each with a number for compiled code."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import inspect
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from modejump.core.compilation import OutsideCode
from modejump.core.errors import InputError

T = TypeVar("T")


class Registry(dict[str, type[T]]):
    """Classes by their ``name``; each gets its place as its ``code``.

    Parameters
    ----------
    kind : str
        What they are, in a sentence.
    members : iterable of type
        The package's own, in order.
    """

    def __init__(self, kind: str, members: Iterable[type[T]] = ()) -> None:
        super().__init__()
        self.kind = kind
        for member in members:
            self.register(member)

    def register(self, member: type[T], name: str | None = None) -> type[T]:
        """Add a class, the user's own too; can be used as a decorator.

        Parameters
        ----------
        member : type
            The class; one of the same name gives way to it.
        name : str, optional
            Its name, where it is not its attribute ``name``.
        """
        name, inside = name or str(member.name), member.__module__.startswith("modejump.")  # type: ignore[attr-defined]
        place = max([int(other.code) for other in self.values()], default=-1) + 1  # type: ignore[attr-defined]
        member.code = place if inside else OutsideCode(place, name, source_digest(member))  # type: ignore[attr-defined]
        self[name] = member
        return member

    def cases(self, attribute: str) -> Callable[[], dict[int, Any]]:
        """For `modejump.core.compilation.switch`: the kernel that each class has as this attribute, if it has one."""
        return lambda: {
            member.code: getattr(member, attribute)  # type: ignore[attr-defined]
            for member in self.values()
            if getattr(member, attribute, None) is not None
        }

    def find(self, name: object) -> type[T]:
        """The class of this name; one sentence where there is none."""
        if isinstance(name, str) and name in self:
            return self[name]
        close = difflib.get_close_matches(str(name).lower(), self, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise InputError(f"unknown {self.kind} {name!r}{hint}; choose one of {', '.join(map(repr, self))}.")

    def resolve(self, spec: object, base: type[T]) -> T:
        """The object that a name or an object stands for.

        Parameters
        ----------
        spec : str or object
            Name of a class, or an object of one.
        base : type
            What objects are instances of.
        """
        if isinstance(spec, base):
            return spec
        if isinstance(spec, str):
            return self.find(spec)()
        example = next(iter(self.values())).__name__
        raise InputError(f"a {self.kind} is a name or an object such as {example}(); got {spec!r}.")

    def from_dict(self, stored: Mapping[str, Any]) -> T:
        """The object that `to_dict` described."""
        values = dict(stored)
        member = self.find(values.pop("name", None))
        known = {field.name for field in dataclasses.fields(member)}  # type: ignore[arg-type]
        if not set(values) <= known:
            extra = ", ".join(sorted(set(values) - known))
            raise InputError(f"the stored {self.kind} {stored['name']!r} has unknown parameters: {extra}.")
        return member(**values)


def to_dict(thing: Any) -> dict[str, Any]:
    """Name and parameters of a registered object as plain values that JSON can hold."""
    fields = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}
    return {"name": thing.name, **plain}


def source_digest(member: type) -> str:
    """Digest of the file that a class is written in, or of what else is known of its source."""
    for read in (lambda: inspect.getsource(sys.modules[member.__module__]), lambda: inspect.getsource(member)):
        try:
            return hashlib.sha256(read().encode()).hexdigest()[:16]
        except (OSError, TypeError, KeyError):
            continue
    # Nothing can be found out: never take it for another.
    return uuid.uuid4().hex
