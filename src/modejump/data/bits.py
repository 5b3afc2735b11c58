"""Columns of zeros and ones, sixty-four rows to a machine word, and tables that are read some columns at a time.

Row r of a column is bit ``r & 63`` of its word ``r >> 6``; bits beyond the last row are zero. So columns are joined by
``&``, ``|`` and ``~``, their products are counts of set bits, and a table takes one bit for each entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from modejump.core.bits import and_count, pack_block
from modejump.core.compilation import entry, kernel
from modejump.core.errors import InputError
from modejump.data.coding import holds_numbers, is_frame, number_array, open_frame
from modejump.data.names import NumberedNames

# Bytes of the columns that are read at a time.
_CHUNK_BYTES = 8 * 2**20
# Words whose tables of partial sums are held at a time, 16 KiB each: they stay in the innermost cache, ...
_TABLE_WORDS = 2
# ... and the words of this many columns in the next one.
_TABLE_COLUMNS = 2048


@dataclass(frozen=True, eq=False)
class BitColumns:
    """Columns of zeros and ones as bits.

    Examples
    --------
    >>> columns = BitColumns.pack([[0, 1], [1, 1], [1, 0]])
    >>> columns.words.tolist()
    [[6], [3]]
    >>> columns.sums(np.array([1.0, 10.0, 100.0]))
    array([110.,  11.])
    """

    words: np.ndarray  # (m, W): one row for each column, with ``W = ceil(n / 64)``
    n: int  # rows of the table

    @classmethod
    def pack(cls, table: Any, advice: str = "code it as 0 and 1 first, or drop it") -> BitColumns:
        """From a table of zeros and ones; anything else in it is refused, and the advice says what to do about it."""
        blocks = open_columns(table)
        words = np.empty((len(blocks), -(-blocks.rows // 64)), np.uint64)
        for start, block in blocks:
            bad = (block != 0) & (block != 1)
            if bad.any():
                row, j = first_entry(bad)
                gone = np.isnan(block[row, j])
                raise InputError(
                    f"column {blocks.names[start + j]!r} is {block[row, j]} in row {row} (counting from 0), "
                    f"and not 0 or 1; {'drop or impute such rows first' if gone else advice}."
                )
            words[start : start + block.shape[1]] = pack_block(block == 1)
        return cls(words, blocks.rows)

    @classmethod
    def of_ones(cls, ones: np.ndarray) -> BitColumns:
        """From a boolean matrix (n, m)."""
        return cls(pack_block(ones), len(ones))

    def __len__(self) -> int:
        return len(self.words)

    def unpack(self, columns: Any = slice(None)) -> np.ndarray:
        """Some columns as numbers, or all of them."""
        octets = np.ascontiguousarray(self.words[columns]).astype("<u8", copy=False).view(np.uint8)
        return np.unpackbits(octets, axis=-1, count=self.n, bitorder="little").view(np.int8).T

    def counts(self) -> np.ndarray:
        """How many entries of each column are one."""
        return bit_counts(self.words)

    def sums(self, v: np.ndarray) -> np.ndarray:
        """Product of each column with a vector."""
        return bit_sums(self.words, np.ascontiguousarray(v, np.float64))


def first_entry(marked: np.ndarray) -> tuple[int, int]:
    """Row and column of the first marked entry of a matrix, by columns."""
    j = int(np.argmax(marked.any(axis=0)))
    return int(np.argmax(marked[:, j])), j


# --- compiled -----------------------------------------------------------------------------------------------------


@entry
def bit_counts(words):
    """Number of set bits of each row of words."""
    out = np.empty(words.shape[0], np.int64)
    for i in range(words.shape[0]):
        out[i] = and_count(words, i, words, i)
    return out


@kernel
def write_partial_sums(v, first, table):
    """For each of the table's bytes, from row ``first`` on, the sum of v over the set bits of each possible byte."""
    for b in range(table.shape[0]):
        table[b, 0] = 0.0
        for bit in range(8):
            row = first + 8 * b + bit
            value = v[row] if row < len(v) else 0.0
            for byte in range(1 << bit):
                table[b, byte + (1 << bit)] = table[b, byte] + value


@kernel
def partial_sum(table, b, word):
    """Sum of the table's entries for the eight bytes of a word; added in pairs, so that none waits for the last."""
    low = np.uint64(255)
    first = table[b, word & low] + table[b + 1, (word >> np.uint64(8)) & low]
    second = table[b + 2, (word >> np.uint64(16)) & low] + table[b + 3, (word >> np.uint64(24)) & low]
    third = table[b + 4, (word >> np.uint64(32)) & low] + table[b + 5, (word >> np.uint64(40)) & low]
    fourth = table[b + 6, (word >> np.uint64(48)) & low] + table[b + 7, word >> np.uint64(56)]
    return (first + second) + (third + fourth)


@entry
def bit_sums(words, v):
    """Sum of v over the set bits of each row of words: the product of the columns with a vector.

    Eight rows cost one addition, because the sums for all 256 values of a byte are tabled beforehand.
    """
    count, width = words.shape
    out = np.zeros(count)
    table = np.empty((8 * _TABLE_WORDS, 256))
    for begin in range(0, count, _TABLE_COLUMNS):
        for first in range(0, width, _TABLE_WORDS):
            write_partial_sums(v, 64 * first, table)
            last = min(first + _TABLE_WORDS, width)
            for i in range(begin, min(begin + _TABLE_COLUMNS, count)):
                for w in range(first, last):
                    out[i] += partial_sum(table, np.uint64(8 * (w - first)), words[i, w])
    return out


# --- tables by columns --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ColumnBlocks:
    """A table of numbers that is read some columns at a time."""

    names: Sequence[str]  # names of the columns
    rows: int  # rows of the table
    # Gives the columns from ``start`` to ``stop``, of shape (rows, stop - start).
    read: Callable[[int, int], np.ndarray]

    def __len__(self) -> int:
        return len(self.names)

    def some(self, columns: np.ndarray) -> ColumnBlocks:
        """Some of the columns, given in ascending order."""
        if len(columns) == len(self):
            return self

        def read(start: int, stop: int) -> np.ndarray:
            wanted = columns[start:stop]
            return self.read(int(wanted[0]), int(wanted[-1]) + 1)[:, wanted - wanted[0]]

        return ColumnBlocks([self.names[j] for j in columns], self.rows, read)

    def __iter__(self) -> Iterator[tuple[int, np.ndarray]]:
        """All columns in blocks, each with the number of its first column."""
        step = max(8, _CHUNK_BYTES // (8 * max(self.rows, 1)))
        for start in range(0, len(self), step):
            yield start, self.read(start, min(start + step, len(self)))


def is_genotypes(table: Any) -> bool:
    """Whether a table is genotypes in files, and not a frame with a column of that name."""
    return hasattr(table, "genotypes") and not is_frame(table)


def open_columns(table: Any) -> ColumnBlocks:
    """A table by columns; those of an array are called x0, x1, and so on."""
    if isinstance(table, ColumnBlocks):
        return table
    if is_genotypes(table):
        return ColumnBlocks(table.names, table.rows, table.genotypes)
    if is_frame(table):
        frame = open_frame(table)
        names = [str(name) for name in frame.columns]

        def read(start: int, stop: int) -> np.ndarray:
            return np.stack([_numbers(frame.get_column(frame.columns[j]), names[j]) for j in range(start, stop)], 1)

        return ColumnBlocks(names, len(frame), read)
    array = number_array(table)
    return ColumnBlocks(list(NumberedNames(array.shape[1])), len(array), lambda a, b: array[:, a:b])


def _numbers(series: nw.Series[Any], name: str) -> np.ndarray:
    """A column of a frame, NaN where it is missing."""
    if not holds_numbers(series.dtype):
        raise InputError(f"column {name!r} does not hold numbers; convert it to numbers or drop it.")
    values = series.to_numpy()
    return values if values.dtype.kind in "biuf" else np.asarray(series.cast(nw.Float64).to_numpy(), np.float64)
