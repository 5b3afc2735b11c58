"""Dask frames: each partition is summarised where it is, and the summaries are added as a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from modejump.core.errors import InputError
from modejump.data.moments import Summary
from modejump.data.sources import ChunkSource, is_dask

S = TypeVar("S", bound=Summary)


class _Dask(ChunkSource):
    """A data frame of Dask's."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        if len(set(map(str, frame.columns))) < len(frame.columns):
            raise InputError("the Dask frame has two columns of the same name; rename one of them.")
        kinds = dict(zip(map(str, frame.columns), frame.dtypes))
        self.names = tuple(name for name, kind in kinds.items() if getattr(kind, "kind", "O") in "biuf")
        self.unusable = tuple(name for name in kinds if name not in self.names)

    def chunks(self, columns: Sequence[str]) -> Iterator[np.ndarray]:
        """The values of some columns, partition by partition."""
        for part in self.frame[list(columns)].to_delayed():
            yield _numbers(part.compute())

    def reduce(self, columns: Sequence[str], summarise: Callable[[np.ndarray, int], S], workers: int) -> S:
        """Summaries of all partitions, added as a tree; what travels is the summaries."""
        from dask import delayed

        self.need(columns)
        make, add = delayed(_summary, pure=False), delayed(_add, pure=False)
        level = [make(part, summarise, i) for i, part in enumerate(self.frame[list(columns)].to_delayed())]
        if not level:
            raise InputError("the source has no rows; give a table with at least two.")
        while len(level) > 1:
            pairs = [add(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
            level = pairs + level[2 * len(pairs) :]
        return level[0].compute()


def _numbers(part: Any) -> np.ndarray:
    return np.ascontiguousarray(part.to_numpy(dtype=np.float64, na_value=np.nan).T)


def _summary(part: Any, summarise: Callable[[np.ndarray, int], S], number: int) -> S:
    return summarise(_numbers(part), number)


def _add(a: S, b: S) -> S:
    return a.merged(b)


def scan_dask(frame: Any) -> ChunkSource:
    """A data frame of Dask's as a source of chunks: its partitions.

    Estimators take such frames as they are; this function is for other uses.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        The table, with the response among its columns.
    """
    if not is_dask(frame) or not hasattr(frame, "columns") or not hasattr(frame, "dtypes"):
        raise InputError(f"scan_dask needs a data frame of Dask's; got {type(frame).__name__}.")
    return _Dask(frame)
