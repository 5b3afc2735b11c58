"""Rows that are read in chunks, and what is added up over them: moments, digests, samples, triangular factors.

What is added up has a method ``merged`` that does not care how the rows were cut, up to rounding; so chunks may be
read one after the other, or their summaries made where the rows are and added as a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from modejump.core.errors import InputError
from modejump.data.digest import row_lanes

# Bytes of the columns that are held at a time while moments are summed: they stay in the processor's cache.
BLOCK_BYTES = 2 * 2**20
# Shorter columns would cost more in calls than in arithmetic.
LEAST_ROWS = 4096


class Summary(Protocol):
    """Something that is added up over rows."""

    def merged(self, other: Any) -> Self:
        """The same for the rows of both."""


S = TypeVar("S", bound=Summary)


class Source(Protocol):
    """A table that is read in chunks, as often as one likes, always the same rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its columns that are numbers."""

    def reduce(self, columns: Sequence[str], summarise: Callable[[np.ndarray, int], S], workers: int) -> S:
        """Summaries of all chunks, merged in the order of the chunks.

        ``summarise`` takes the values of the columns, of shape (columns, rows), and the number of the chunk.
        """


class Block(NamedTuple):
    """Checked rows of one chunk: covariates and below them the response, the weights, and the chunk's number."""

    values: np.ndarray
    weight: np.ndarray | None
    number: int


@dataclass(frozen=True)
class _Summarise:
    """From the raw values of a chunk to a summary; travels to where the rows are."""

    what: Callable[[Block], Any]
    names: tuple[str, ...]
    weighted: bool
    check: bool

    def __call__(self, values: np.ndarray, number: int) -> Any:
        if self.check:
            self._check(values, number)
        if not self.weighted:
            return self.what(Block(values, None, number))
        weight, values = values[-1], values[:-1]
        used = weight > 0.0
        if not used.all():
            values, weight = np.ascontiguousarray(values[:, used]), weight[used]
        return self.what(Block(values, weight, number))

    def _check(self, values: np.ndarray, number: int) -> None:
        # A sum is finite where all values are, and costs a fraction of looking at each.
        for name, row in zip(self.names, values, strict=True):
            with np.errstate(all="ignore"):
                total = row.sum()
            if not np.isfinite(total) and not np.isfinite(row).all():
                at = int(np.argmax(~np.isfinite(row)))
                what = "NaN or missing" if np.isnan(row[at]) else "infinite"
                raise InputError(
                    f"column {name!r} is {what} in row {at} of chunk {number} (both counting from 0); drop or impute "
                    "such rows first, or drop the column."
                )
        if self.weighted and (values[-1] < 0.0).any():
            raise InputError(f"the weights {self.names[-1]!r} are negative in chunk {number}; weights count rows.")


@dataclass(eq=False)
class Rows:
    """The rows of a problem: covariates, response and weights of a source.

    Attributes
    ----------
    source : Source
        Where they come from.
    covariates : tuple of str
        Columns of the covariates.
    target : str
        Column of the response.
    weight : str, optional
        Column of case weights; rows of weight zero are left out.
    workers : int
        Threads that summarise chunks.
    passes : int
        How often the rows have been read.
    """

    source: Source
    covariates: tuple[str, ...]
    target: str
    weight: str | None = None
    workers: int = 1
    passes: int = field(default=0, init=False)

    def reduce(self, what: Callable[[Block], S], covariates: Sequence[str] | None = None) -> S:
        """One pass: a summary of each chunk, all merged.

        Parameters
        ----------
        what : callable
            From a block of rows to its summary; where rows are elsewhere, it travels there.
        covariates : sequence of str, optional
            Covariates that the summary needs, where not all are to be read.
        """
        needed = self.covariates if covariates is None else covariates
        columns = (*needed, self.target, *(() if self.weight is None else (self.weight,)))
        # Values are looked at in the first pass; a source gives the same ones later.
        call = _Summarise(what, columns, self.weight is not None, self.passes == 0)
        self.passes += 1
        return self.source.reduce(columns, call, self.workers)


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and centred products of columns, summed so that they do not cancel.

    Attributes
    ----------
    n : float
        Observations: rows, or the sum of their weights.
    rows : int
        Rows of positive weight.
    mean : ndarray of shape (k,)
        Means of the columns.
    squares : ndarray of shape (k,)
        Sums of squared deviations from them; not finite where a value of the column is not, or is too large.
    cross : tuple of ndarray
        For each group (left, right) of columns the sums of products of deviations.
    groups : tuple of pairs of ndarray
        The groups.
    """

    n: float
    rows: int
    mean: np.ndarray
    squares: np.ndarray
    cross: tuple[np.ndarray, ...]
    groups: tuple[tuple[np.ndarray, np.ndarray], ...]

    @classmethod
    def of(
        cls, columns: np.ndarray, weight: np.ndarray | None, groups: tuple[tuple[np.ndarray, np.ndarray], ...]
    ) -> Moments:
        """Moments of one block, by way of its own means."""
        m = columns.shape[1]
        n = float(m if weight is None else weight.sum())
        with np.errstate(all="ignore"):
            mean = (columns.sum(axis=1) if weight is None else columns @ weight) / n
            z = columns - mean[:, None]
            if weight is not None:
                z *= np.sqrt(weight)
            cross = tuple(_product(z, left, right) for left, right in groups)
            whole = len(groups) == 1 and len(groups[0][0]) == len(groups[0][1]) == len(z)
            squares = np.diag(cross[0]).copy() if whole else np.einsum("ij,ij->i", z, z)
        return cls(n, m, mean, squares, cross, groups)

    def merged(self, other: Moments) -> Moments:
        """Moments of the rows of both: what lies between the two means is added to what lies within."""
        if self.rows == 0 or other.rows == 0:
            return other if self.rows == 0 else self
        n = self.n + other.n
        with np.errstate(all="ignore"):
            apart = other.mean - self.mean
            share = self.n * (other.n / n)
            cross = tuple(
                a + b + share * np.outer(apart[left], apart[right])
                for a, b, (left, right) in zip(self.cross, other.cross, self.groups, strict=True)
            )
            mean = self.mean + apart * (other.n / n)
            squares = self.squares + other.squares + share * apart**2
        return Moments(n, self.rows + other.rows, mean, squares, cross, self.groups)


def _product(z: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Products of some rows with others, without copies where they are all."""
    a = z if len(left) == len(z) else z[left]
    b = a if left is right else (z if len(right) == len(z) else z[right])
    return np.asarray(a @ b.T)


def everything(k: int) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """The one group of all products of k columns."""
    every = np.arange(k)
    return ((every, every),)


def summed(block: Block, columns: Callable[[np.ndarray], np.ndarray], count: int, summary: Callable[..., S]) -> S:
    """A summary of columns made from a block, a cacheful of rows at a time.

    Parameters
    ----------
    block : Block
        Rows of a chunk.
    columns : callable
        From values of shape (k, m) to columns of shape (count, m).
    count : int
        How many columns it makes.
    summary : callable
        From columns and weights to a summary.
    """
    m = block.values.shape[1]
    step = max(LEAST_ROWS, BLOCK_BYTES // (8 * max(count, 1)))
    found: S | None = None
    for start in range(0, max(m, 1), step):
        rows = slice(start, min(m, start + step))
        weight = None if block.weight is None else block.weight[rows]
        part = summary(columns(block.values[:, rows]), weight)
        found = part if found is None else found.merged(part)
    assert found is not None
    return found


@dataclass(frozen=True, eq=False)
class MomentsOf:
    """Moments of columns made from the values of a block; travels to where the rows are."""

    columns: Callable[[np.ndarray], np.ndarray]
    count: int
    groups: tuple[tuple[np.ndarray, np.ndarray], ...]

    def __call__(self, block: Block) -> Moments:
        """Sum over a block."""
        if block.values.shape[1] == 0:
            none = np.zeros(self.count)
            cross = tuple(np.zeros((len(left), len(right))) for left, right in self.groups)
            return Moments(0.0, 0, none, none, cross, self.groups)
        return summed(block, self.columns, self.count, lambda part, weight: Moments.of(part, weight, self.groups))


@dataclass(frozen=True, eq=False)
class Triangles:
    """Triangular factors R of groups of columns.

    R'R is the Gram matrix of a group, and R stands in for its rows however small the residual of a fit.
    """

    factors: tuple[np.ndarray, ...]

    def merged(self, other: Triangles) -> Triangles:
        """The factors of the rows of both."""
        pairs = zip(self.factors, other.factors, strict=True)
        return Triangles(tuple(np.asarray(np.linalg.qr(np.vstack(pair), mode="r")) for pair in pairs))


@dataclass(frozen=True, eq=False)
class TrianglesOf:
    """The factors of weighted, centred and scaled columns; travels to where the rows are."""

    columns: Callable[[np.ndarray], np.ndarray]
    mean: np.ndarray
    scale: np.ndarray
    groups: tuple[np.ndarray, ...]

    def __call__(self, block: Block) -> Triangles:
        """Factorise a block."""

        def factor(part: np.ndarray, weight: np.ndarray | None) -> Triangles:
            z = (part - self.mean[:, None]) / self.scale[:, None]
            if weight is not None:
                z *= np.sqrt(weight)
            return Triangles(tuple(np.asarray(np.linalg.qr(z[index].T, mode="r")) for index in self.groups))

        return summed(block, self.columns, len(self.mean), factor)


@dataclass(frozen=True, eq=False)
class Lanes:
    """Digest of rows, see :mod:`modejump.data.digest`."""

    values: np.ndarray

    def merged(self, other: Lanes) -> Lanes:
        """The digest of the rows of both."""
        return Lanes(self.values + other.values)

    @property
    def text(self) -> str:
        """As hexadecimal digits."""
        return "".join(f"{int(v):016x}" for v in self.values)


def lanes_of(block: Block, order: np.ndarray | None = None) -> Lanes:
    """Digest of a block's rows, with their columns in an order."""
    lanes = np.zeros(2, np.uint64)
    values = block.values if order is None or (order == np.arange(len(order))).all() else block.values[order]
    row_lanes(values, block.weight, lanes)
    return Lanes(lanes)


@dataclass(frozen=True, eq=False)
class Overview:
    """What the first pass over the rows finds out: moments of the columns made of them, digest, and sample of rows.

    Attributes
    ----------
    moments : Moments
        Of the columns.
    lanes : Lanes
        Digest of the rows.
    sample : Sample or None
        Some of the rows.
    """

    moments: Moments
    lanes: Lanes
    sample: Sample | None

    def merged(self, other: Overview) -> Overview:
        """The same for the rows of both."""
        sample = None if self.sample is None or other.sample is None else self.sample.merged(other.sample)
        return Overview(self.moments.merged(other.moments), self.lanes.merged(other.lanes), sample)


@dataclass(frozen=True, eq=False)
class OverviewOf:
    """Overview of a block; travels to where the rows are."""

    moments: Callable[[Block], Moments]
    order: np.ndarray | None = None
    sample: int = 0

    def __call__(self, block: Block) -> Overview:
        """Look at a block."""
        sample = Sample.of(block, self.sample) if self.sample else None
        return Overview(self.moments(block), lanes_of(block, self.order), sample)


def _with_weights(block: Block, at: np.ndarray) -> np.ndarray:
    """Some rows of a block, with their weights in the last line."""
    weight = np.ones(len(at)) if block.weight is None else block.weight[at]
    return np.vstack([block.values[:, at], weight])


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows drawn at random, and for each column the rows of its smallest and its largest value.

    Each row draws a number from a stream of its chunk, and those with the smallest numbers are the sample: which they
    are depends on nothing else.
    """

    size: int
    ticket: np.ndarray
    rows: np.ndarray
    extremes: np.ndarray

    @classmethod
    def of(cls, block: Block, size: int) -> Sample:
        """The sample of one block; the last line of ``rows`` and ``extremes`` holds the weights."""
        m = block.values.shape[1]
        ticket = np.asarray(np.random.default_rng(np.random.SeedSequence([20211105, block.number])).random(m))
        chosen = np.arange(m)
        if m > size:
            # Nearly always enough have small numbers, and only these need be looked at.
            small = np.flatnonzero(ticket < 2.0 * size / m)
            pool = small if len(small) > size else chosen
            chosen = pool[np.argpartition(ticket[pool], size)[:size]]
        ends = [int(at(line)) for line in block.values for at in (np.argmin, np.argmax)] if m else []
        return cls(size, ticket[chosen], _with_weights(block, chosen), _with_weights(block, np.array(ends, np.int64)))

    def merged(self, other: Sample) -> Sample:
        """The sample of the rows of both."""
        ticket, rows = np.concatenate([self.ticket, other.ticket]), np.hstack([self.rows, other.rows])
        if len(ticket) > self.size:
            chosen = np.argsort(ticket, kind="stable")[: self.size]
            ticket, rows = np.asarray(ticket[chosen]), rows[:, chosen]
        if not self.extremes.shape[1] or not other.extremes.shape[1]:
            ends = self.extremes if self.extremes.shape[1] else other.extremes
            return Sample(self.size, ticket, rows, ends)
        ends = self.extremes.copy()
        for j in range(ends.shape[1] // 2):
            if other.extremes[j, 2 * j] < ends[j, 2 * j]:
                ends[:, 2 * j] = other.extremes[:, 2 * j]
            if other.extremes[j, 2 * j + 1] > ends[j, 2 * j + 1]:
                ends[:, 2 * j + 1] = other.extremes[:, 2 * j + 1]
        return Sample(self.size, ticket, rows, ends)

    @property
    def table(self) -> np.ndarray:
        """All distinct rows of both kinds, covariates, response and weight, in order of the tickets."""
        both = np.hstack([self.rows[:, np.argsort(self.ticket, kind="stable")], self.extremes])
        _, first = np.unique(both, axis=1, return_index=True)
        return np.ascontiguousarray(both[:, np.sort(first)])
