"""Large tables that are used where they lie, because a copy would take as much memory again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

from modejump.problem.design import LARGE_BYTES, table_in_place


def frame_in_place(frame: nw.DataFrame[Any], names: Sequence[Any]) -> np.ndarray | None:
    """A large pandas frame of floats without a copy, where its columns lie in one array; None for other frames.

    Parameters
    ----------
    frame : narwhals DataFrame
        The frame.
    names : sequence
        Names of the columns wanted, in order.
    """
    native = frame.to_native()
    large = 8 * len(frame) * len(names) > LARGE_BYTES
    if not (large and nw.dependencies.is_pandas_dataframe(native) and set(names) <= set(native.columns)):
        return None
    if not all(native.dtypes[name] == np.float64 for name in names):
        return None
    return table_in_place([native[name].to_numpy() for name in names])


def in_rows(design: np.ndarray) -> np.ndarray:
    """The columns row by row; a large table by columns stays as it is, for a fit that puts blocks of it in order.

    Parameters
    ----------
    design : ndarray of shape (n, columns)
        Columns.
    """
    if design.nbytes > LARGE_BYTES and design.flags.f_contiguous:
        return design
    return np.ascontiguousarray(design)
