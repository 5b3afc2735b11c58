"""Tables of very many columns, all of them numbers, which stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.data.coding import holds_numbers, is_frame, number_array, open_frame
from modejump.data.names import GivenNames, Names, names_of, stored_names


@dataclass(frozen=True)
class WideSpec:
    """The columns of a table of very many, each a number and a term."""

    intercept = True  # a table always goes with one

    names: Names  # their names; only numbered where the table was an array

    @property
    def variables(self) -> Names:
        """Columns that new data must have."""
        return self.names

    def apply(self, table: Any) -> np.ndarray:
        """The columns of new rows, in the numbers that they came in.

        Frames are read by column name, arrays by position; after a fit on an array, so are frames.
        """
        design, names = read_columns(table)
        if is_frame(table) and isinstance(self.names, GivenNames) and names != self.names:
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
        return len(schema) if all(map(holds_numbers, schema.values())) else 0
    array = isinstance(table, np.ndarray) and table.ndim == 2 and table.dtype.kind in "biuf"
    return int(table.shape[1]) if array else 0


def read_columns(table: Any) -> tuple[np.ndarray, Names]:
    """The columns of a table as they are, and their names."""
    if is_frame(table):
        frame = open_frame(table)
        other = next((str(name) for name, kind in frame.schema.items() if not holds_numbers(kind)), "")
        if other:
            raise InputError(
                f"column {other!r} is not a number, and very many columns are selected among as numbers; code it as "
                "columns of 0 and 1, or use algorithm='mjmcmc'."
            )
        return np.asarray(frame.to_numpy()), names_of([str(name) for name in frame.columns])
    array = number_array(table)
    return array, names_of(int(array.shape[1]))
