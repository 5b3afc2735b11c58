"""What sources of chunks share: in-order reduction with a few chunks in flight, and chunks of the user's own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from modejump.core.errors import InputError
from modejump.data.moments import Summary

S = TypeVar("S", bound=Summary)

# Rows of a chunk where the reader may choose: enough to make calls cheap, few enough to stay in the last cache.
CHUNK_ROWS = 65_536


class ChunkSource:
    """A table that is read in chunks; see :func:`scan_parquet`, :func:`scan_dask` and :func:`scan_chunks`.

    A subclass has ``names`` and says how its chunks are read (:meth:`chunks`).
    """

    names: tuple[str, ...]
    # Columns that hold no numbers.
    unusable: tuple[str, ...] = ()

    def chunks(self, columns: Sequence[str]) -> Iterator[np.ndarray]:
        """The values of some columns, chunk by chunk, of shape (columns, rows).

        Parameters
        ----------
        columns : sequence of str
            Names.
        """
        raise NotImplementedError

    def reduce(self, columns: Sequence[str], summarise: Callable[[np.ndarray, int], S], workers: int) -> S:
        """Summaries of all chunks, merged in their order; one chunk is read while others are summarised.

        Parameters
        ----------
        columns : sequence of str
            Names.
        summarise : callable
            From the values of a chunk and its number to a summary.
        workers : int
            Threads that summarise.
        """
        self.need(columns)
        found: S | None = None
        waiting: deque[Future[S]] = deque()
        with ThreadPoolExecutor(workers) as pool:
            for number, values in enumerate(self.chunks(columns)):
                waiting.append(pool.submit(summarise, values, number))
                if len(waiting) > workers:
                    found = _merged(found, waiting.popleft())
            while waiting:
                found = _merged(found, waiting.popleft())
        if found is None:
            raise InputError("the source has no rows; give a table with at least two.")
        return found

    def need(self, columns: Sequence[str]) -> None:
        """Raise InputError where a column is missing.

        Parameters
        ----------
        columns : sequence of str
            Names.
        """
        for name in columns:
            if name not in self.names:
                known = ", ".join(self.names[:8]) + (", ..." if len(self.names) > 8 else "")
                raise InputError(f"{name!r} is not a column of numbers of the source; these are {known}.")


def _merged(found: S | None, new: Future[S]) -> S:
    return new.result() if found is None else found.merged(new.result())


def is_source(table: Any) -> bool:
    """Whether rows are to be read in chunks: a source, or a Dask frame."""
    return isinstance(table, ChunkSource) or is_dask(table)


def is_dask(table: Any) -> bool:
    """Whether something is a data frame of Dask's, told without importing it."""
    kind = type(table)
    return kind.__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(table, "to_delayed")


class _OwnChunks(ChunkSource):
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


def scan_chunks(factory: Callable[[], Iterable[Any]], names: Sequence[str]) -> ChunkSource:
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
