"""Units of columns as packed integers, read by pint."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib import import_module
from typing import Any, Final

import numpy as np

from modejump.core.errors import InputError

# Exponents of the base dimensions are counted in twelfths, so that roots of units are whole, and are the digits of one
# number: products of quantities add these numbers.
PARTS: Final = 12
BASE: Final = 4096
MOST_DIMENSIONS: Final = 5


def packed_units(
    names: Sequence[str], units: Mapping[str, str] | None, target: str | None = None
) -> tuple[np.ndarray, int]:
    """Units of the columns and of the response, each as one integer; 0 is dimension one.

    Parameters
    ----------
    names : sequence of str
        The columns.
    units : mapping from str to str, optional
        Units by column, as pint reads them.
    target : str, optional
        Unit of the response.

    Returns
    -------
    columns : ndarray of int64
        Unit of each column.
    response : int
        Unit of the response, 0 where none is given.

    Examples
    --------
    >>> columns, response = packed_units(["L", "g"], {"L": "m", "g": "m/s^2"}, "s")
    >>> bool((columns[0] - columns[1]) // 2 == response)
    True
    """
    if units is None:
        return np.zeros(len(names), np.int64), 0
    if not isinstance(units, Mapping):
        raise InputError(f"units of the space must be a mapping such as {{'L': 'm'}}; got {units!r}.")
    for name in units:
        if name not in names:
            raise InputError(f"units of the space name {name!r}, which is no column; use the names of the columns.")
    registry = _registry()
    given = {name: _dimensions(registry, f"the column {name!r}", unit) for name, unit in units.items()}
    response = {} if target is None else _dimensions(registry, "the response", target)[0]
    dimensions = sorted({d for exponents, _ in given.values() for d in exponents} | set(response))
    if len(dimensions) > MOST_DIMENSIONS:
        raise InputError(
            f"units of the space have {len(dimensions)} base dimensions ({', '.join(dimensions)}), and there may be "
            f"{MOST_DIMENSIONS}; leave out those of some columns."
        )
    _check_scales(given, dimensions)
    place = {dimension: BASE**k for k, dimension in enumerate(dimensions)}

    def pack(exponents: Mapping[str, int]) -> int:
        return sum(count * place[dimension] for dimension, count in exponents.items())

    packed = [pack(given[name][0]) if name in given else 0 for name in names]
    return np.array(packed, np.int64), pack(response)


def _registry() -> Any:
    try:
        return import_module("pint").UnitRegistry()
    except ImportError:
        raise InputError("units need pint, which is not installed; run: pip install 'modejump[units]'.") from None


def _dimensions(registry: Any, owner: str, unit: Any) -> tuple[dict[str, int], float]:
    """Exponents of the base dimensions of a unit, in twelfths, and its size in base units."""
    if not isinstance(unit, str):
        raise InputError(f"the unit of {owner} must be text such as 'm/s^2'; got {unit!r}.")
    try:
        quantity = registry.Quantity(1.0, unit)
        size = float(quantity.to_base_units().magnitude)
        found = {str(d).strip("[]"): Fraction(e).limit_denominator(1000) for d, e in quantity.dimensionality.items()}
    except Exception:  # pint has many ways to refuse
        raise InputError(f"the unit {unit!r} of {owner} is unknown to pint; write it as in 'kg*m/s^2'.") from None
    if registry.Quantity(0.0, unit).to_base_units().magnitude != 0.0:
        raise InputError(f"the unit {unit!r} of {owner} has a zero of its own; use one that starts at 0, as 'K' does.")
    exponents = {d: e * PARTS for d, e in found.items()}
    if any(e.denominator != 1 or abs(e) >= BASE // 2 for e in exponents.values()):
        raise InputError(
            f"the unit {unit!r} of {owner} has exponents that are too fine or too large; use simpler ones."
        )
    return {d: int(e) for d, e in exponents.items() if e}, size


def _check_scales(given: Mapping[str, tuple[Mapping[str, int], float]], dimensions: Sequence[str]) -> None:
    """Refuse units that do not fit together, such as m beside cm: sums would add unlike numbers."""
    rows = np.zeros((0, len(dimensions)))
    sizes = np.zeros(0)
    for name, (exponents, size) in given.items():
        row = np.array([[exponents.get(d, 0) / PARTS for d in dimensions]])
        rows, sizes = np.vstack([rows, row]), np.append(sizes, math.log(size))
        scales = np.linalg.lstsq(rows, sizes, rcond=None)[0]
        if np.abs(rows @ scales - sizes).max() > 1e-9 * max(1.0, np.abs(sizes).max()):
            if not exponents:
                raise InputError(
                    f"the unit of the column {name!r} has no dimension, but is not 1; convert it, as degrees to radian."
                )
            raise InputError(
                f"the unit of the column {name!r} does not fit those before it, as cm does not fit m; convert the "
                "column so that equal dimensions have equal units."
            )
