"""Registries: things by name, each with a number for compiled code."""

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


class Registry(dict[str, T]):
    """Things by their ``name``; each gets its place as its ``code``."""

    def __init__(self, kind: str, members: Iterable[T] = ()) -> None:
        super().__init__()
        self.kind = kind
        for member in members:
            self.register(member)

    def register(self, member: T, name: str | None = None) -> T:
        """Add something, the user's own too; a decorator of classes."""
        thing: Any = member
        others: Iterable[Any] = self.values()
        name, place = name or str(thing.name), max((int(other.code) for other in others), default=-1) + 1
        where = _module_of(thing)
        thing.code = place if where.startswith("modejump.") else OutsideCode(place, name, source_digest(thing, where))
        self[name] = member
        return member

    def cases(self, attribute: str) -> Callable[[], dict[int, Any]]:
        """For `modejump.core.compilation.switch`: the kernels that members have as this attribute, by their codes."""

        def found() -> dict[int, Any]:
            members: Iterable[Any] = self.values()
            return {m.code: getattr(m, attribute) for m in members if getattr(m, attribute) is not None}

        return found

    def find(self, name: object) -> T:
        """The member of this name; one sentence where there is none."""
        if isinstance(name, str) and name in self:
            return self[name]
        close = difflib.get_close_matches(str(name).lower(), self, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise InputError(f"unknown {self.kind} {name!r}{hint}; choose one of {', '.join(map(repr, self))}.")

    def resolve(self, spec: object, base: type) -> Any:
        """The object that a name of a class, or an object, stands for."""
        if isinstance(spec, base):
            return spec
        if isinstance(spec, str):
            made: Any = self.find(spec)
            return made()
        example = getattr(next(iter(self.values())), "__name__", "")
        raise InputError(f"a {self.kind} is a name or an object such as {example}(); got {spec!r}.")

    def from_dict(self, stored: Mapping[str, Any]) -> Any:
        """The object that `to_dict` described."""
        values = dict(stored)
        made: Any = self.find(values.pop("name", None))
        extra = sorted(set(values) - {field.name for field in dataclasses.fields(made)})
        if extra:
            raise InputError(f"the stored {self.kind} {stored['name']!r} has unknown parameters: {', '.join(extra)}.")
        return made(**values)


def to_dict(thing: Any) -> dict[str, Any]:
    """Name and parameters of a registered object as plain values that JSON can hold."""
    fields = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}
    return {"name": thing.name, **plain}


def _module_of(thing: Any) -> str:
    """Where a class was written, or the first function that an object holds."""
    if isinstance(thing, type):
        return thing.__module__
    functions = [value for value in vars(thing).values() if hasattr(value, "py_func")]
    return str(functions[0].py_func.__module__) if functions else type(thing).__module__


def source_digest(thing: Any, module: str) -> str:
    """Digest of the file that something was written in, or of what else is known of its source."""
    for read in (lambda: inspect.getsource(sys.modules[module]), lambda: inspect.getsource(thing)):
        try:
            return hashlib.sha256(read().encode()).hexdigest()[:16]
        except (OSError, TypeError, KeyError):
            continue
    # Nothing can be found out: never take it for another.
    return uuid.uuid4().hex
