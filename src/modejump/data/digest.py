"""A digest of the rows of a table that knows neither their order nor how they were cut into chunks.

Each row becomes one 64-bit number: the sum of the bits of its values times an odd number for each column. Two sums are
taken over two scramblings of these numbers, a row of weight two as two rows. Integers wrap around, so the sums are the
same in any order, on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)
# Rows at a time: what is computed from them stays in the processor's cache.
_ROWS = 8192


@dataclass(frozen=True, eq=False)
class Digest:
    """Digest of some rows."""

    sums: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, weight: np.ndarray | None) -> Digest:
        """Digest of rows: of values with one line for each column, and weights, where whole numbers count rows."""
        sums = np.zeros(2, np.uint64)
        for start in range(0, values.shape[1], _ROWS):
            some = slice(start, start + _ROWS)
            numbers = _numbers_of_rows(values[:, some], 0)
            sums += _sums(numbers, None if weight is None else weight[some])
        return cls(sums)

    @classmethod
    def of_blocks(cls, blocks: Iterable[np.ndarray], weight: np.ndarray | None) -> Digest:
        """The same of columns that come in blocks, one after the other."""
        numbers, before = np.zeros(1, np.uint64), 0
        for values in blocks:
            numbers = numbers + _numbers_of_rows(values, before)
            before += len(values)
        return cls(_sums(numbers, weight))

    def merged(self, other: Digest) -> Digest:
        """Digest of the rows of both."""
        return Digest(self.sums + other.sums)

    @property
    def text(self) -> str:
        """Hexadecimal digits."""
        return "".join(f"{int(v):016x}" for v in self.sums)


def _numbers_of_rows(values: np.ndarray, before: int) -> np.ndarray:
    """For each row the sum of the bits of its values, times an odd number for each column; of columns after others."""
    factors = _scrambled(np.arange(before + 1, before + len(values) + 1, dtype=np.uint64)) | np.uint64(1)
    # Minus zero becomes zero.
    return np.asarray(np.einsum("i,ij->j", factors, (values + 0.0).view(np.uint64)))


def _sums(numbers: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    first = _scrambled(numbers)
    second = _scrambled(first + _STEP)
    if weight is not None:
        times = _times(weight)
        first, second = first * times, second * times
    return np.array([first.sum(dtype=np.uint64), second.sum(dtype=np.uint64)])


def _times(weight: np.ndarray) -> np.ndarray:
    """How often rows count: as often as a whole weight says, otherwise a number that stands for the weight."""
    whole = (weight == np.floor(weight)) & (weight < 2.0**53)
    other = _scrambled(np.ascontiguousarray(weight).view(np.uint64))
    return np.where(whole, np.where(whole, weight, 0.0).astype(np.uint64), other)


def _scrambled(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
