"""What is summed over rows that are read in chunks: moments, digest, random sample, triangular factor.

A summary has a method ``merged`` whose result does not depend, but for rounding, on how the rows were cut. So chunks
may be read one after the other, or summarised where they are and merged as a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

# Bytes of the columns held at a time while moments are summed: they stay in the processor's cache.
BLOCK_BYTES = 2**20
# Shorter columns would cost more in calls than in arithmetic.
LEAST_ROWS = 8192

# Rows at a time of which a digest is taken: what is computed from them stays in the processor's cache too.
_ROWS = 8192
_STEP = np.uint64(0x9E3779B97F4A7C15)

# From values of shape (covariates and response, m) to columns of shape (k, m).
MakeColumns = Callable[[np.ndarray], np.ndarray]


class Summary(Protocol):
    """Something that is summed over rows."""

    def merged(self, other: Any) -> Self:
        """The same for the rows of both."""


S = TypeVar("S", bound=Summary)


class Block(NamedTuple):
    """Checked rows of one chunk: covariates and below them the response, the weights, and the chunk's number."""

    values: np.ndarray
    weight: np.ndarray | None
    number: int


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and centred products of columns, summed so that they do not cancel."""

    n: float  # observations: rows, or the sum of their weights
    rows: int  # rows of positive weight
    mean: np.ndarray  # (k,): means of the columns
    # (k, k): sums of products of deviations from them; not finite where a value of a column is not, or is too large.
    cross: np.ndarray

    @classmethod
    def of(cls, columns: np.ndarray, weight: np.ndarray | None) -> Moments:
        """Moments of one block, by way of its own means."""
        m = columns.shape[1]
        n = float(m if weight is None else weight.sum())
        with np.errstate(all="ignore"):
            mean = (columns.sum(axis=1) if weight is None else columns @ weight) / n
            z = columns - mean[:, None]
            if weight is not None:
                z *= np.sqrt(weight)
            return cls(n, m, mean, np.asarray(z @ z.T))

    def merged(self, other: Moments) -> Moments:
        """Moments of the rows of both: what lies between the two means is added to what lies within."""
        n = self.n + other.n
        with np.errstate(all="ignore"):
            apart = other.mean - self.mean
            between = self.n * (other.n / n) * np.outer(apart, apart)
            mean = self.mean + apart * (other.n / n)
            return Moments(n, self.rows + other.rows, mean, self.cross + other.cross + between)

    def chosen(self, index: np.ndarray) -> Moments:
        """Moments of some of the columns."""
        return Moments(self.n, self.rows, self.mean[index], self.cross[np.ix_(index, index)])


def by_parts(block: Block, columns: MakeColumns, summary: Callable[[np.ndarray, np.ndarray | None], S]) -> S:
    """A summary of columns made from a block, a cacheful of rows at a time."""
    m, step = block.values.shape[1], LEAST_ROWS
    found: S | None = None
    start = 0
    while start < m:
        rows = slice(start, start + step)
        made = columns(block.values[:, rows])
        part = summary(made, None if block.weight is None else block.weight[rows])
        found = part if found is None else found.merged(part)
        start += step
        step = max(LEAST_ROWS, BLOCK_BYTES // (8 * len(made)))
    assert found is not None
    return found


def moments_of(block: Block, columns: MakeColumns) -> Moments:
    """Moments of the columns made from a block."""
    return by_parts(block, columns, Moments.of)


@dataclass(frozen=True, eq=False)
class Triangle:
    """Triangular factor R of columns: R'R is their Gram matrix, and R stands in for the rows in the nearest of fits."""

    factor: np.ndarray

    def merged(self, other: Triangle) -> Triangle:
        """The factor of the rows of both."""
        return Triangle(np.asarray(np.linalg.qr(np.vstack([self.factor, other.factor]), mode="r")))


def triangle_of(block: Block, columns: MakeColumns, mean: np.ndarray, scale: np.ndarray) -> Triangle:
    """Factor of the weighted, centred and scaled columns made from a block."""

    def factor(part: np.ndarray, weight: np.ndarray | None) -> Triangle:
        z = (part - mean[:, None]) / scale[:, None]
        if weight is not None:
            z *= np.sqrt(weight)
        return Triangle(np.asarray(np.linalg.qr(z.T, mode="r")))

    return by_parts(block, columns, factor)


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows drawn at random: those with the smallest of the numbers that all rows draw."""

    size: int  # most rows
    ticket: np.ndarray  # (m,): the numbers that these rows drew
    rows: np.ndarray  # (lines, m): their values, and in a last line their weights where they have any

    @classmethod
    def of(cls, block: Block, size: int, seed: int) -> Sample:
        """The sample of one block, by a stream of its own: it depends on the seed and the chunk alone."""
        ticket = np.asarray(np.random.default_rng([seed, block.number]).random(block.values.shape[1]))
        chosen = _smallest(ticket, size)
        rows = block.values.take(chosen, axis=1)
        if block.weight is not None:
            rows = np.vstack([rows, block.weight[chosen]])
        return cls(size, ticket[chosen], rows)

    def merged(self, other: Sample) -> Sample:
        """The sample of the rows of both."""
        ticket, rows = np.concatenate([self.ticket, other.ticket]), np.hstack([self.rows, other.rows])
        chosen = _smallest(ticket, self.size)
        return Sample(self.size, np.asarray(ticket[chosen]), rows.take(chosen, axis=1))


def _smallest(ticket: np.ndarray, size: int) -> np.ndarray:
    """Where the smallest numbers are."""
    if len(ticket) <= size:
        return np.arange(len(ticket))
    return np.flatnonzero(ticket <= np.partition(ticket, size - 1)[size - 1])[:size]


@dataclass(frozen=True, eq=False)
class Digest:
    """Digest of some rows, which knows neither their order nor how they were cut into chunks.

    Each row becomes one 64-bit number: the sum of the bits of its values times an odd number for each column. Two sums
    are taken over two scramblings of these numbers, a row of weight two as two rows. Integers wrap around, so the sums
    are the same in any order, on any machine.
    """

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


@dataclass(frozen=True, eq=False)
class Overview:
    """What the first pass over the rows finds out: moments, digest, and a sample where one is asked for."""

    moments: Moments
    digest: Digest
    sample: Sample | None

    def merged(self, other: Overview) -> Overview:
        """The same for the rows of both."""
        sample = None if self.sample is None or other.sample is None else self.sample.merged(other.sample)
        return Overview(self.moments.merged(other.moments), self.digest.merged(other.digest), sample)


def overview_of(block: Block, order: np.ndarray, sample: int = 0, seed: int = 0) -> Overview:
    """Moments and digest of some lines of a block, in order, and a sample of all lines where one is wanted."""
    lines = block._replace(values=take_lines(block.values, order))
    drawn = Sample.of(block, sample, seed) if sample else None
    return Overview(by_parts(lines, np.asarray, Moments.of), Digest.of(lines.values, block.weight), drawn)


def take_lines(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Some lines of the values, without a copy where they are all in place."""
    if len(order) == len(values) and (order == np.arange(len(values))).all():
        return values
    return values[order]
