"""Tables of binary covariates: columns of zeros and ones, or genotypes coded as such, beside others always in.

A marker is a covariate of zeros and ones. Tables are read some columns at a time and kept as bits, so that very many
markers fit into memory; the markers that look like the response least may be left out before any model is fitted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from modejump.core.errors import InputError, warn_user
from modejump.core.progress import Report
from modejump.data.bits import BitColumns, ColumnBlocks, first_entry, is_genotypes, open_columns, pack_block
from modejump.data.coding import is_frame, refuse_not_finite
from modejump.data.names import column_name

CODINGS, TREATMENTS = ("binary", "genotype"), ("refuse", "mode")
# How bed-reader writes a missing genotype into whole numbers.
MISSING = -127
# What is added to the name of a column of genotypes for its dominant and its recessive marker.
_SUFFIXES = ("_d", "_r")
# Names that a message lists.
_LISTED = 5
_NOT_BINARY = "code it as 0 and 1, choose coding='genotype' for genotypes 0, 1, 2, or name the column in always_in"


class Marker(NamedTuple):
    """One binary covariate: where it is 1, and what stands for a missing value."""

    name: str
    column: int  # of the table
    least: int  # copies of the allele from which on it is 1
    usual: int  # the most frequent genotype


@dataclass(frozen=True, eq=False)
class MarkerSpec:
    """How a table becomes markers and columns always in; learnt at fit, applied again at predict."""

    columns: tuple[str, ...]  # columns of the table
    markers: tuple[Marker, ...]  # the markers that features are made of
    fixed: tuple[str, ...]  # columns that are in every model
    coding: str  # "binary" or "genotype"
    missing: str  # "refuse" missing genotypes, or replace each by the "mode" of its column
    total: int  # markers before any were left out
    named: bool  # whether the columns had names of their own

    intercept = True  # a table always goes with one

    @property
    def names(self) -> list[str]:
        """Names of the markers."""
        return [marker.name for marker in self.markers]

    @property
    def variables(self) -> list[str]:
        """Columns of the table."""
        return list(self.columns)

    @property
    def terms(self) -> dict[str, list[int]]:
        """Columns of the design by name."""
        return {name: [j] for j, name in enumerate(self.design_names)}

    @property
    def design_names(self) -> list[str]:
        """Names of the columns of the design: markers first, then those always in."""
        return [*self.names, *self.fixed]

    def apply(self, table: Any) -> np.ndarray:
        """The design matrix of new rows: markers, then columns always in.

        Frames and files are read by name, arrays by position; after a fit on an array, so are frames.
        """
        blocks = open_columns(table)
        if not self.named or not (is_frame(table) or is_genotypes(table)):
            if len(blocks) != len(self.columns):
                raise InputError(f"X has {len(blocks)} columns, but the fit had {len(self.columns)}; give as many.")
            place = {name: j for j, name in enumerate(self.columns)}
        else:
            place = {name: j for j, name in enumerate(blocks.names)}
        needed = [*(self.columns[marker.column] for marker in self.markers), *self.fixed]
        lacking = [name for name in needed if name not in place]
        if lacking:
            raise InputError(f"the new data have no column {lacking[0]!r}, which the fit used; add it.")
        design = np.empty((blocks.rows, len(self.markers) + len(self.fixed)))
        for j, marker in enumerate(self.markers):
            name = self.columns[marker.column]
            design[:, j] = self._marker(blocks.read(place[name], place[name] + 1)[:, 0], name, marker)
        for j, name in enumerate(self.fixed, len(self.markers)):
            design[:, j] = _numbers(blocks, place[name])
        refuse_not_finite(design, self.design_names)
        return design

    def _marker(self, values: np.ndarray, name: str, marker: Marker) -> np.ndarray:
        gone = np.isnan(values) if values.dtype.kind == "f" else values == MISSING
        gone = gone if self.coding == "genotype" else np.zeros(len(values), bool)
        most = 2 if self.coding == "genotype" else 1
        bad = ~gone & (values != 0) & (values != 1) & (values != most)
        if bad.any() or (gone.any() and self.missing == "refuse"):
            row = int(np.argmax(bad | gone))
            raise InputError(
                f"column {name!r} is {values[row]} in row {row} (counting from 0), and not a "
                f"{'genotype 0, 1 or 2' if most == 2 else '0 or 1'}; code it as at the fit, or drop the row."
            )
        return np.where(gone, marker.usual, values) >= marker.least

    def to_dict(self) -> dict[str, Any]:
        """Plain form for storage."""
        return {"kind": "markers", **dataclasses.asdict(self)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> MarkerSpec:
        """Inverse of :meth:`to_dict`."""
        markers = tuple(Marker(str(name), *map(int, numbers)) for name, *numbers in stored["markers"])
        rest = (stored[name] for name in ("coding", "missing", "total", "named"))
        return cls(tuple(stored["columns"]), markers, tuple(stored["fixed"]), *rest)

    def some(self, kept: Sequence[int]) -> MarkerSpec:
        """The same table with some of the markers."""
        return dataclasses.replace(self, markers=tuple(self.markers[j] for j in kept))


def learn_markers(
    table: Any, always_in: Any = (), coding: str = "binary", missing: str = "refuse", report: Report | None = None
) -> tuple[MarkerSpec, BitColumns, np.ndarray]:
    """Read a table of markers and columns that are always in: how it was read, all markers that vary, and the others.

    With ``coding="genotype"`` the columns hold 0, 1 or 2 copies of an allele. Each becomes two markers: ``name_d`` is 1
    for genotypes 1 and 2, ``name_r`` for genotype 2; where no row has genotype 1 the two are the same, and only
    ``name_d`` is used. Missing genotypes (NaN, or -127 in whole numbers) are refused, or with ``missing="mode"``
    replaced by the most frequent one of their column: that draws estimates towards no effect, the more so the more is
    missing.
    """
    for name, value, known in (("coding", coding, CODINGS), ("missing", missing, TREATMENTS)):
        if value not in known:
            raise InputError(f"{name} must be {' or '.join(map(repr, known))}; got {value!r}.")
    if missing != "refuse" and coding != "genotype":
        raise InputError("missing is about genotypes; leave it out, or choose coding='genotype'.")
    blocks = open_columns(table)
    given = [] if always_in is None else np.atleast_1d(np.asarray(always_in, object)).tolist()
    fixed = tuple(dict.fromkeys(column_name(item, blocks.names, "always_in") for item in given))
    place = {name: j for j, name in enumerate(blocks.names)}
    out = {place[name] for name in fixed}
    inside = np.array([j for j in range(len(blocks)) if j not in out], np.int64)
    if not (len(inside) and blocks.rows):
        raise InputError("X has no binary covariate beside those always in; give at least one column and one row.")
    values = np.zeros((blocks.rows, len(fixed)))
    for j, name in enumerate(fixed):
        values[:, j] = _numbers(blocks, place[name])
    refuse_not_finite(values, fixed)
    named = is_frame(table) or is_genotypes(table)
    read = _read_genotypes if coding == "genotype" else _read_binary
    markers, bits = read(blocks.some(inside), inside, missing, report)
    spec = MarkerSpec(tuple(blocks.names), markers, fixed, coding, missing, len(markers), named)
    return spec, bits, values


def _numbers(blocks: ColumnBlocks, column: int) -> np.ndarray:
    """A column always in, NaN where a genotype is missing."""
    values = blocks.read(column, column + 1)[:, 0]
    return np.where(values == MISSING, np.nan, values) if values.dtype == np.int8 else values


def _read_binary(
    blocks: ColumnBlocks, column: np.ndarray, missing: str, report: Report | None
) -> tuple[tuple[Marker, ...], BitColumns]:
    """Markers of columns of zeros and ones."""
    bits = BitColumns.pack(blocks, advice=_NOT_BINARY)
    counts = bits.counts()
    varies = (counts > 0) & (counts < bits.n)
    constant = [blocks.names[j] for j in np.flatnonzero(~varies).tolist()]
    if not varies.any():
        raise InputError(f"every binary covariate is constant ({constant[0]!r} is the first); check the columns.")
    if constant:
        several = "columns" if len(constant) > 1 else "column"
        warn_user(f"{several} {_listed(list(map(repr, constant)))} {_ignored(constant)}.")
    kept = np.flatnonzero(varies)
    usual = (2 * counts > bits.n).astype(int)
    made = [Marker(blocks.names[j], int(column[j]), 1, int(usual[j])) for j in kept.tolist()]
    return tuple(made), BitColumns(bits.words[kept], bits.n)


def _read_genotypes(
    blocks: ColumnBlocks, column: np.ndarray, missing: str, report: Report | None
) -> tuple[tuple[Marker, ...], BitColumns]:
    """Dominant and recessive markers of columns of genotypes, which are read some at a time."""
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
        words = np.stack([pack_block(block >= 1), pack_block(block == 2)], axis=1)
        parts.append(words[kept[some]])
        if report is not None:
            report(some.stop, len(blocks), "reading genotypes")
    names = [blocks.names[j] + _SUFFIXES[r] for j, r in zip(*np.nonzero(constant))]
    if not kept.any():
        raise InputError(f"every marker is constant ({names[0]!r} is the first), so there is nothing to select.")
    if names:
        several = "markers" if len(names) > 1 else "marker"
        warn_user(f"{len(names)} {several} {_ignored(names)}: {_listed(names)}.")
    made = [
        Marker(blocks.names[j] + _SUFFIXES[r], int(column[j]), int(r) + 1, int(mode[j]))
        for j, r in zip(*np.nonzero(kept), strict=True)
    ]
    return tuple(made), BitColumns(np.concatenate(parts), blocks.rows)


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


def _ignored(names: Sequence[str]) -> str:
    return "are constant and are ignored" if len(names) > 1 else "is constant and is ignored"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
