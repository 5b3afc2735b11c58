"""Genotypes 0, 1, 2 as markers of zeros and ones: dominant (at least one copy of the allele) and recessive (two)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from modejump.core.errors import InputError, warn_user
from modejump.core.progress import Report
from modejump.data.bits import BitColumns, ColumnBlocks, first_entry, open_columns, pack_block

# How bed-reader writes a missing genotype into whole numbers.
MISSING = -127
TREATMENTS = ("refuse", "mode")
# What is added to the name of a column of genotypes for its dominant and its recessive marker.
SUFFIXES = ("_d", "_r")
# Names that a message lists.
_LISTED = 5


@dataclass(frozen=True, eq=False)
class GenotypeCoding:
    """How genotypes become markers; learnt at fit, applied again at predict.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns of genotypes.
    kept : ndarray of bool, shape (columns, 2)
        Whether the dominant and the recessive marker of each column are used.
    mode : ndarray of int8, shape (columns,)
        The most frequent genotype of each column; of equally frequent ones the lowest.
    missing : str
        "refuse", or "mode" where missing genotypes are replaced by ``mode``.
    """

    columns: tuple[str, ...]
    kept: np.ndarray
    mode: np.ndarray
    missing: str

    @property
    def names(self) -> list[str]:
        """Names of the markers: that of the genotypes with ``_d`` (dominant) or ``_r`` (recessive)."""
        return [self.columns[j] + SUFFIXES[r] for j, r in zip(*np.nonzero(self.kept))]

    @property
    def source(self) -> np.ndarray:
        """For each marker, the number of its column of genotypes."""
        return np.nonzero(self.kept)[0]

    def apply(self, table: Any) -> BitColumns:
        """Markers of new rows, in the order of ``names``.

        Parameters
        ----------
        table : data frame, array, or genotypes read by ``read_plink``
            Genotypes with the columns of the fit. Frames and files are read by name, arrays by position.
        """
        blocks = self._aligned(open_columns(table), named=not isinstance(table, np.ndarray | list | tuple))
        parts = []
        for start, block in _checked(blocks, self.missing):
            some = slice(start, start + block.shape[1])
            parts.append(_marker_words(np.where(block < 0, self.mode[some], block))[self.kept[some]])
        return BitColumns(np.concatenate(parts), blocks.rows)

    def _aligned(self, blocks: ColumnBlocks, named: bool) -> ColumnBlocks:
        """The same columns in the order of the fit."""
        if not named:
            if len(blocks) != len(self.columns):
                raise InputError(f"X has {len(blocks)} columns, but the fit had {len(self.columns)}; give as many.")
            return ColumnBlocks(self.columns, blocks.rows, blocks.read)
        if tuple(blocks.names) == self.columns:
            return blocks
        place = {name: j for j, name in enumerate(blocks.names)}
        lacking = [name for name in self.columns if name not in place]
        if lacking:
            raise InputError(f"the new data have no column {lacking[0]!r}, which the fit used; add it.")

        def read(start: int, stop: int) -> np.ndarray:
            parts = [blocks.read(place[name], place[name] + 1) for name in self.columns[start:stop]]
            return np.concatenate(parts, axis=1)

        return ColumnBlocks(self.columns, blocks.rows, read)


def learn_genotypes(
    table: Any, missing: str = "refuse", report: Report | None = None
) -> tuple[GenotypeCoding, BitColumns]:
    """Code genotypes 0, 1, 2 as binary markers: ``name_d`` is 1 for genotypes 1 and 2, ``name_r`` for genotype 2.

    Markers that are constant are dropped, with a warning. Where no row has genotype 1 the two markers of a column are
    the same, and only ``name_d`` is used. The table is read some columns at a time.

    Parameters
    ----------
    table : data frame, array of shape (n, columns), or genotypes read by ``read_plink``
        Genotypes: 0, 1 or 2 copies of an allele; NaN, or -127 in whole numbers, where the genotype is missing.
    missing : {"refuse", "mode"}
        What to do about missing genotypes: refuse them, or replace each by the most frequent genotype of its column.
        Replacing draws estimates towards no effect, the more so the more is missing; impute by haplotypes beforehand
        where more than a few percent are.
    report : callable, optional
        Called with the columns read, all columns, and a note.

    Returns
    -------
    coding : GenotypeCoding
        How the markers were made.
    markers : BitColumns
        The markers, in the order of ``coding.names``.
    """
    if missing not in TREATMENTS:
        raise InputError(f"missing must be 'refuse' or 'mode'; got {missing!r}.")
    blocks = open_columns(table)
    if not (len(blocks) and blocks.rows):
        raise InputError("X has no genotypes; give at least one column and one row.")
    kept, constant = np.zeros((len(blocks), 2), bool), np.zeros((len(blocks), 2), bool)
    mode, parts = np.zeros(len(blocks), np.int8), []
    for start, block in _checked(blocks, missing):
        some = slice(start, start + block.shape[1])
        mode[some] = np.argmax(_counts(block), axis=0)
        block = np.where(block < 0, mode[some], block)
        none, one, two = _counts(block)
        constant[some, 0] = (none == 0) | (none == blocks.rows)
        constant[some, 1] = (two == 0) | (two == blocks.rows)
        kept[some] = ~constant[some]
        kept[some, 1] &= one > 0
        parts.append(_marker_words(block)[kept[some]])
        if report is not None:
            report(some.stop, len(blocks), "reading genotypes")
    coding = GenotypeCoding(tuple(blocks.names), kept, mode, missing)
    _tell_constant(coding, constant)
    return coding, BitColumns(np.concatenate(parts), blocks.rows)


def _checked(blocks: ColumnBlocks, missing: str) -> Iterator[tuple[int, np.ndarray]]:
    """Blocks of genotypes as small numbers, -1 where they are missing; the last one is followed by what is refused."""
    count, where = 0, ""
    for start, block in blocks:
        gone = np.isnan(block) if block.dtype.kind == "f" else block == MISSING
        bad = ~gone & (block != 0) & (block != 1) & (block != 2)
        if bad.any():
            row, j = first_entry(bad)
            raise InputError(
                f"column {blocks.names[start + j]!r} is {block[row, j]} in row {row} (counting from 0), but genotypes "
                "are 0, 1 or 2, or missing (NaN, or -127 in whole numbers); code it so first, or drop it."
            )
        if gone.any() and not count:
            row, j = first_entry(gone)
            where = f"column {blocks.names[start + j]!r}, row {row} (counting from 0)"
        count += int(gone.sum())
        yield start, np.where(gone, -1, block).astype(np.int8)
    if count and missing == "refuse":
        raise InputError(
            f"{count} of {blocks.rows * len(blocks)} genotypes are missing, the first in {where}; impute them first, "
            "or choose missing='mode' to replace each by the most frequent genotype of its column."
        )


def _counts(block: np.ndarray) -> np.ndarray:
    """How often each column has the genotypes 0, 1 and 2."""
    return np.stack([np.count_nonzero(block == genotype, axis=0) for genotype in range(3)])


def _marker_words(block: np.ndarray) -> np.ndarray:
    """Bits of the dominant and the recessive marker of each column, of shape (columns, 2, words)."""
    return np.stack([pack_block(block >= 1), pack_block(block == 2)], axis=1)


def _tell_constant(coding: GenotypeCoding, constant: np.ndarray) -> None:
    """Warn of markers that are dropped; refuse a table that leaves none."""
    names = [coding.columns[j] + SUFFIXES[r] for j, r in zip(*np.nonzero(constant))]
    if not coding.kept.any():
        raise InputError(f"every marker is constant ({names[0]!r} is the first), so there is nothing to select.")
    if names:
        what = "1 marker is constant and is" if len(names) == 1 else f"{len(names)} markers are constant and are"
        more = ", ..." if len(names) > _LISTED else ""
        warn_user(f"{what} ignored: {', '.join(names[:_LISTED])}{more}.")
