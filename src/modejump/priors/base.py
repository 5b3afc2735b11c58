"""What all priors share: checked numbers, storage as dictionaries, look-up by name."""

import dataclasses
import difflib
import math
import numbers
from collections.abc import Mapping
from typing import Any, TypeVar

from modejump.core.errors import InputError

T = TypeVar("T")


def real_number(value: Any, what: str, above: float = -math.inf, below: float = math.inf) -> float:
    """Return value as a float strictly between the limits, or raise `InputError` naming what it is."""
    if not isinstance(value, bool) and isinstance(value, numbers.Real):
        number = float(value)
        if math.isfinite(number) and above < number < below:
            return number
    limits = [f"above {above:g}"] if above > -math.inf else []
    limits += [f"below {below:g}"] if below < math.inf else []
    raise InputError(f"{what} must be a finite number {' and '.join(limits)}, got {value!r}.")


def whole_number(value: Any, what: str, least: int = 0) -> int:
    """Return value as an int that is at least `least`, or raise `InputError` naming what it is."""
    if not isinstance(value, bool) and isinstance(value, numbers.Integral) and int(value) >= least:
        return int(value)
    raise InputError(f"{what} must be a whole number that is at least {least}, got {value!r}.")


def unknown_name(kind: str, name: str, known: Mapping[str, object]) -> InputError:
    """The error for a name outside a registry: what is known, and the closest of it."""
    close = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return InputError(f"Unknown {kind} {name!r}{hint}: choose one of {', '.join(map(repr, known))}.")


def resolve(spec: object, kind: str, registry: Mapping[str, type[T]], base: type[T]) -> T:
    """Return the prior that a name or an object stands for."""
    if isinstance(spec, base):
        return spec
    if isinstance(spec, str):
        if spec not in registry:
            raise unknown_name(kind, spec, registry)
        return registry[spec]()
    example = next(iter(registry.values())).__name__
    raise InputError(f"A {kind} must be a name or an object such as {example}(), got {spec!r}.")


def to_dict(prior: Any) -> dict[str, Any]:
    """Name and parameters of a prior as plain values that JSON can hold."""
    fields = {field.name: getattr(prior, field.name) for field in dataclasses.fields(prior)}
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}
    return {"name": prior.name, **plain}


def from_dict(stored: Mapping[str, Any], kind: str, registry: Mapping[str, type[T]]) -> T:
    """Inverse of `to_dict`."""
    values = dict(stored)
    name = values.pop("name", None)
    if not isinstance(name, str):
        raise InputError(f"A stored {kind} must have a 'name', got {stored!r}.")
    if name not in registry:
        raise unknown_name(kind, name, registry)
    known = {field.name for field in dataclasses.fields(registry[name])}  # type: ignore[arg-type]
    if not set(values) <= known:
        extra = ", ".join(sorted(set(values) - known))
        raise InputError(f"The stored {kind} {name!r} has unknown parameters: {extra}.")
    return registry[name](**values)
