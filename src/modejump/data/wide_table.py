"""Tables of very many columns, all of them numbers, which stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.data.coding import is_frame, open_frame
from modejump.data.names import Names, names_of, stored_names


@dataclass(frozen=True)
class WideSpec:
    """The columns of a table of very many, each a number and a term."""

    names: Names  # their names; only numbered where the table was an array

    @property
    def variables(self) -> Names:
        """Columns that new data must have."""
        return self.names

    @property
    def intercept(self) -> bool:
        """A table always goes with an intercept."""
        return True

    def apply(self, table: Any) -> np.ndarray:
        """The columns of new rows, in the numbers that they came in.

        Frames are read by column name, arrays by position; after a fit on an array, so are frames.
        """
        design, names = read_columns(table)
        if (
            is_frame(table)
            and stored_names(names) != stored_names(self.names)
            and not isinstance(stored_names(self.names), int)
        ):
            missing = next((name for name in self.names if name not in names), None)
            if missing is not None:
                raise InputError(f"the new data have no column {missing!r}, which the fit used; add it.")
            design = design[:, [names.index(name) for name in self.names]]
        if design.shape[1] != len(self.names):
            raise InputError(f"X has {design.shape[1]} columns, but the fit had {len(self.names)}; give as many.")
        return design

    def to_dict(self) -> dict[str, Any]:
        """Plain form for storage."""
        return {"kind": "wide", "names": stored_names(self.names)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> WideSpec:
        """Inverse of :meth:`to_dict`."""
        return cls(names_of(stored["names"]))


def count_columns(table: Any) -> int:
    """How many columns a table has whose columns are all numbers; 0 for others, and for what is no table."""
    if is_frame(table):
        schema = open_frame(table).schema
        plain = all(kind.is_numeric() or str(kind) == "Boolean" for kind in schema.values())
        return len(schema) if plain else 0
    array = isinstance(table, np.ndarray) and table.ndim == 2 and table.dtype.kind in "biuf"
    return int(table.shape[1]) if array else 0


def read_columns(table: Any) -> tuple[np.ndarray, Names]:
    """The columns of a table as they are, and their names."""
    if is_frame(table):
        frame = open_frame(table)
        other = next(
            (str(n) for n, kind in frame.schema.items() if not (kind.is_numeric() or str(kind) == "Boolean")), ""
        )
        if other:
            raise InputError(
                f"column {other!r} is not a number, and very many columns are selected among as numbers; code it as "
                "columns of 0 and 1, or use algorithm='mjmcmc'."
            )
        return np.asarray(frame.to_numpy()), names_of([str(name) for name in frame.columns])
    if hasattr(table, "toarray"):
        raise InputError("X is a sparse matrix; give a dense array, of int8 where its numbers are small counts.")
    array = np.asarray(table)
    if array.ndim != 2:
        raise InputError(f"X has {array.ndim} dimension(s), but a table has 2: Reshape your data.")
    if array.dtype.kind not in "biuf":
        raise InputError(f"X holds values of type {array.dtype}; give numbers.")
    return array, names_of(int(array.shape[1]))
