"""Rows beyond memory: sources that are read in chunks, as often as one likes, always the same rows.

Chunks come from Parquet files (:mod:`modejump.data.parquet`), from Dask, or from a function of the user's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.core.threads import one_blas_thread
from modejump.data.moments import Block, Summary

S = TypeVar("S", bound=Summary)
# From the values of a chunk, of shape (columns, rows), and its number to a summary; None where no row counts.
Summarise = Callable[[np.ndarray, int], S | None]

# Rows of a chunk where the reader may choose: enough to make calls cheap, few enough to stay in the last cache.
CHUNK_ROWS = 65_536


class Source:
    """A table that is read in chunks; see :func:`scan_parquet`, :func:`scan_dask` and :func:`scan_chunks`.

    A subclass has ``names`` and says how its chunks are read (:meth:`chunks`).
    """

    names: tuple[str, ...]
    # Columns that hold no numbers.
    unusable: tuple[str, ...] = ()

    def chunks(self, columns: Sequence[str]) -> Iterator[np.ndarray]:
        """The values of some columns, chunk by chunk, of shape (columns, rows)."""
        raise NotImplementedError

    def reduce(self, columns: Sequence[str], summarise: Summarise[S], workers: int) -> S | None:
        """Summaries of all chunks, merged in their order; one chunk is read while others are summarised."""
        found: S | None = None
        waiting: deque[Future[S | None]] = deque()
        # One thread of BLAS in each of ours: more would wait for each other.
        with ThreadPoolExecutor(workers) as pool, one_blas_thread():
            for number, values in enumerate(self.chunks(columns)):
                waiting.append(pool.submit(summarise, values, number))
                if len(waiting) > workers:
                    found = _merged(found, waiting.popleft().result())
            while waiting:
                found = _merged(found, waiting.popleft().result())
        return found

    def need(self, columns: Sequence[str]) -> None:
        """Raise InputError where a column is missing."""
        for name in columns:
            if name not in self.names:
                known = ", ".join(self.names[:8]) + (", ..." if len(self.names) > 8 else "")
                raise InputError(f"{name!r} is not a column of numbers of the source; these are {known}.")

    def frames(self, names: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Chunks as data frames, at least one."""
        self.need(names)
        some = False
        for values in self.chunks(names):
            some = True
            yield pd.DataFrame(values.T, columns=list(names), copy=False)
        if not some:
            raise InputError("the source has no rows; give a table with at least one.")

    def column(self, name: Any) -> np.ndarray:
        """One column, whole."""
        if not isinstance(name, str):
            raise InputError(f"rows are read in chunks, so give the name of a column; got {type(name)}.")
        return np.concatenate([frame[name].to_numpy() for frame in self.frames([name])])


def _merged(a: S | None, b: S | None) -> S | None:
    if a is None or b is None:
        return b if a is None else a
    return a.merged(b)


def is_source(table: Any) -> bool:
    """Whether rows are to be read in chunks: a source, or a Dask frame."""
    return isinstance(table, Source) or _is_dask(table)


def open_source(table: Any) -> Source:
    """A source, from one or from a Dask frame."""
    return table if isinstance(table, Source) else scan_dask(table)


# --- the rows of a problem ----------------------------------------------------------------------------------------


@dataclass(eq=False)
class Rows:
    """The rows of a problem: covariates, response and weights of a source."""

    source: Source  # where they come from
    covariates: tuple[str, ...]  # columns of the covariates
    target: str  # column of the response
    weight: str | None = None  # column of case weights; rows of weight zero are left out
    workers: int = 1  # threads that summarise chunks
    passes: int = field(default=0, init=False)  # how often the rows have been read

    def reduce(self, what: Callable[[Block], S], covariates: Sequence[str] | None = None) -> S:
        """One pass: a summary of each chunk, made where its rows are, all merged."""
        needed = self.covariates if covariates is None else covariates
        columns = (*needed, self.target, *(() if self.weight is None else (self.weight,)))
        # Values are looked at in the first pass; a source gives the same ones later.
        call = partial(_summary_of, what=what, names=columns, weighted=self.weight is not None, check=self.passes == 0)
        self.passes += 1
        found = self.source.reduce(columns, call, self.workers)
        if found is None:
            raise InputError("the source has no rows of positive weight; give a table with at least two.")
        return found


def open_rows(table: Any, y: Any, sample_weight: Any, workers: int) -> Rows:
    """The rows of a source by the names of their columns."""
    source = open_source(table)
    for what, name in (("y", y), ("sample_weight", sample_weight)):
        if name is not None and not isinstance(name, str):
            raise InputError(f"rows are read in chunks, so {what} must be the name of a column; got {type(name)}.")
    if y is None:
        raise InputError("rows are read in chunks, so y must be the name of the response's column; it is missing.")
    source.need([y] if sample_weight is None else [y, sample_weight])
    if source.unusable:
        raise InputError(
            f"column {source.unusable[0]!r} does not hold numbers, and a table that is read in chunks can have no "
            "factors; leave it out (columns=, or --drop), or code it as numbers."
        )
    names = tuple(name for name in source.names if name not in (y, sample_weight))
    if not names:
        raise InputError("the source has no columns besides the response; give at least one covariate.")
    return Rows(source, names, y, sample_weight, workers)


def _summary_of(
    values: np.ndarray, number: int, what: Callable[[Block], S], names: Sequence[str], weighted: bool, check: bool
) -> S | None:
    """A summary of the rows of positive weight in a chunk, from its raw values; travels to where the rows are."""
    if check:
        _check_values(values, number, names)
    weight = None
    if weighted:
        weight, values = values[-1], values[:-1]
        if (weight < 0.0).any():
            raise InputError(f"the weights {names[-1]!r} are negative in chunk {number}; weights count rows.")
        if not (used := weight > 0.0).all():
            values, weight = np.ascontiguousarray(values[:, used]), weight[used]
    return what(Block(values, weight, number)) if values.shape[1] else None


def _check_values(values: np.ndarray, number: int, names: Sequence[str]) -> None:
    """Refuse a value that is missing or infinite, and say where."""
    # A sum is finite where all values are, and costs a fraction of looking at each.
    with np.errstate(all="ignore"):
        totals = values.sum(axis=1)
    for j in np.flatnonzero(~np.isfinite(totals)).tolist():
        bad = ~np.isfinite(values[j])
        if bad.any():
            at = int(np.argmax(bad))
            what = "NaN or missing" if np.isnan(values[j, at]) else "infinite"
            raise InputError(
                f"column {names[j]!r} is {what} in row {at} of chunk {number} (both counting from 0); drop or impute "
                "such rows first, or drop the column."
            )


# --- chunks of the user's own -------------------------------------------------------------------------------------


class _OwnChunks(Source):
    """Chunks that a function of the user's gives."""

    def __init__(self, factory: Callable[[], Iterable[Any]], names: Sequence[str]) -> None:
        self.factory = factory
        self.names = tuple(str(name) for name in names)

    def chunks(self, columns: Sequence[str]) -> Iterator[np.ndarray]:
        """The values of some columns, chunk by chunk."""
        index = [self.names.index(name) for name in columns]
        for number, chunk in enumerate(self.factory()):
            yield np.ascontiguousarray(self._table(chunk, number)[:, index].T)

    def _table(self, chunk: Any, number: int) -> np.ndarray:
        if sorted(map(str, getattr(chunk, "columns", ()))) == sorted(self.names):
            # A frame knows which column is which.
            chunk = chunk[list(self.names)]
        parts = chunk if isinstance(chunk, tuple) else (chunk,)
        try:
            table = np.column_stack([np.asarray(part, dtype=np.float64) for part in parts])
        except (TypeError, ValueError) as error:
            raise InputError(f"chunk {number} of the source is no table of numbers: {error}.") from None
        if table.shape[1] != len(self.names):
            raise InputError(
                f"chunk {number} of the source has {table.shape[1]} columns, but {len(self.names)} names were given."
            )
        return table


def scan_chunks(factory: Callable[[], Iterable[Any]], names: Sequence[str]) -> Source:
    """A table that a function gives in chunks, as often as it is called.

    Parameters
    ----------
    factory : callable
        Without arguments; gives an iterable of chunks, the same ones at each call. A chunk is an array of shape
        (rows, columns), or a tuple of arrays that are put side by side, such as ``(X, y)``; or a frame, whose columns
        may be in any order where they have the same names.
    names : sequence of str
        Names of the columns, those of all arrays of a chunk.

    Examples
    --------
    >>> import numpy as np
    >>> import modejump
    >>> def chunks():
    ...     for seed in range(3):
    ...         x = np.random.default_rng(seed).normal(size=(100, 2))
    ...         yield x, 2.0 * x[:, 1] + 1.0 + 0.1 * x[:, 0] ** 2
    >>> model = modejump.BGLMRegressor().fit(modejump.scan_chunks(chunks, ["a", "b", "y"]), "y")
    >>> model.best_model()
    ('b',)
    """
    if not callable(factory):
        raise InputError("scan_chunks needs a function that gives the chunks anew at each call; give one, not chunks.")
    if len(set(names)) < len(names):
        raise InputError("scan_chunks has two columns of the same name; give each its own.")
    return _OwnChunks(factory, names)


# --- Dask ---------------------------------------------------------------------------------------------------------


def _is_dask(table: Any) -> bool:
    """Whether something is a data frame of Dask's, told without importing it."""
    kind = type(table)
    return kind.__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(table, "to_delayed")


class _Dask(Source):
    """A data frame of Dask's: partitions are summarised where they are, and only summaries travel."""

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

    def reduce(self, columns: Sequence[str], summarise: Summarise[S], workers: int) -> S | None:
        """Summaries of all partitions, merged as a tree."""
        from dask import delayed

        make, merge = delayed(_summary, pure=False), delayed(_merged, pure=False)
        level = [make(part, summarise, i) for i, part in enumerate(self.frame[list(columns)].to_delayed())]
        while len(level) > 1:
            pairs = [merge(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
            level = pairs + level[2 * len(pairs) :]
        return level[0].compute() if level else None


def _numbers(part: Any) -> np.ndarray:
    return np.ascontiguousarray(part.to_numpy(dtype=np.float64, na_value=np.nan).T)


def _summary(part: Any, summarise: Summarise[S], number: int) -> S | None:
    return summarise(_numbers(part), number)


def scan_dask(frame: Any) -> Source:
    """A data frame of Dask's as a source of chunks: its partitions.

    Estimators take such frames as they are; this function is for other uses.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        The table, with the response among its columns.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> table = dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": [1.0, 0.0, 1.0]}), npartitions=2)
    >>> scan_dask(table).names
    ('a', 'y')
    """
    if not _is_dask(frame) or not hasattr(frame, "columns") or not hasattr(frame, "dtypes"):
        raise InputError(f"scan_dask needs a data frame of Dask's; got {type(frame).__name__}.")
    return _Dask(frame)
