"""Reading and writing tables: CSV, Excel and Parquet, whole or in chunks, and where a cell stands in its file."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from modejump.commands.delimited import Delimited, Reading
from modejump.core.errors import InputError, warn_user
from modejump.data.parquet import is_parquet, parquet_bytes, parquet_files, scan_parquet
from modejump.data.sources import Source
from modejump.likelihoods import resolve_family

# Parquet files with more numbers than this are read in chunks.
IN_MEMORY = 2**30
# Standard input, or standard output.
STANDARD = Path("-")

_EXCEL = (".xlsx", ".xlsm")
_NOT_READ = (".xls", ".xlsb", ".ods", ".sav", ".dta", ".rds", ".rdata", ".feather", ".json")
# How estimators say where a row stands.
_COUNTED = re.compile(r"in row (\d+)(?: of the new data)?(?: \(counting from 0\))?")
_DECIMAL_COMMA = re.compile(r"[-+]?[\d.]*,\d+(e[-+]?\d+)?", re.IGNORECASE)


def is_plink(path: Path) -> bool:
    """Whether a path is that of PLINK's genotypes."""
    return path.suffix.lower() == ".bed"


class PlacedError(InputError):
    """An error that says where in the file something is wrong."""


@dataclass(eq=False)
class TableFile:
    """A table from a file, which can say where a cell stands there.

    Attributes
    ----------
    frame : data frame
        Its rows.
    name : str
        What sentences call it.
    text : Delimited, optional
        The text that the rows come from.
    rows : str
        What a line of it is called.
    """

    frame: pd.DataFrame
    name: str
    text: Delimited | None = None
    rows: str = "line"

    def place(self, row: int, column: str | None = None) -> tuple[str, str]:
        """Where a row stands, in words, and the text of its cell in a column.

        Parameters
        ----------
        row : int
            Which row, counting from 0.
        column : str, optional
            Which column.
        """
        if self.text is not None:
            line, cell = self.text.cell(row, column)
            return f"{self.rows} {line}", cell
        return f"row {row + 1}", "" if column is None else str(self.frame[column].iloc[row])

    def refuse_text(self, names: Sequence[str], instead: str = "") -> None:
        """Raise InputError where a column of numbers holds text, and say what and where.

        Parameters
        ----------
        names : sequence of str
            Columns that should hold numbers.
        instead : str
            What to do about a column of text that cannot be a factor; empty where it can.
        """
        for name in self._texts(names):
            raise self._text_error(name, instead)

    def refuse_stray_text(self, names: Sequence[str]) -> None:
        """Raise InputError where most cells of a column are numbers and some are text.

        Parameters
        ----------
        names : sequence of str
            Columns that may hold either.
        """
        for name in self._texts(names):
            if _mostly_numbers(self._stray(name)):
                raise self._text_error(name, "")

    def _texts(self, names: Sequence[str]) -> Iterator[str]:
        """Columns that hold text; categories are factors, and truth values with gaps are no text."""
        wanted = set(names)
        for name, kind in zip(self.frame.columns, self.frame.dtypes):
            if name in wanted and (pd.api.types.is_object_dtype(kind) or isinstance(kind, pd.StringDtype)):
                if any(isinstance(value, str) for value in self.frame[name]):
                    yield name

    def _stray(self, name: str) -> np.ndarray:
        """Cells of a column that are there: whether each is text and not a number."""
        values = self.frame[name].dropna().astype(str)
        if self.text is not None and self.text.reading.decimal == ",":
            values = values.str.replace(".", "?", regex=False).str.replace(",", ".", regex=False)
        return pd.to_numeric(values, errors="coerce").isna().to_numpy()

    def _text_error(self, name: str, instead: str) -> PlacedError:
        stray = self._stray(name)
        there = np.flatnonzero(self.frame[name].notna())
        where, cell = self.place(int(there[np.argmax(stray)]), name)
        if all(_DECIMAL_COMMA.fullmatch(str(v)) for v in self.frame[name].dropna()[stray]) and stray.any():
            return PlacedError(
                f"column {name!r} has commas in its numbers, such as {cell!r} in {where}; {self._commas()}."
            )
        as_factor = f"--factors {shlex.quote(name)}"
        if _mostly_numbers(stray):
            ways = [f"--na {shlex.quote(cell)} if it means a missing value"] if "," not in cell else []
            ways += [f"{as_factor} if it is a level of a factor"] if not instead else []
            add = f", or add {', or '.join(ways)}" if ways else ""
            return PlacedError(f"column {name!r} holds numbers, but {cell!r} in {where}; correct it{add}.")
        way = instead or f"add {as_factor} to enter it as a factor, or --drop {shlex.quote(name)}"
        return PlacedError(f"column {name!r} holds text, such as {cell!r} in {where}; {way}.")

    def _commas(self) -> str:
        if self.text is None or self.text.separator == ",":
            return "write them without commas, as 1234.5"
        return "add --decimal , where they are decimal marks"

    def refuse_missing(self, names: Sequence[str], way: str = "") -> None:
        """Raise InputError where a cell is missing, and say where.

        Parameters
        ----------
        names : sequence of str
            Columns that should have no gaps.
        way : str
            What else may be done.
        """
        missing = self.frame[list(names)].isna().to_numpy()
        for j in np.flatnonzero(missing.any(axis=0)).tolist():
            name, gaps = names[j], missing[:, j]
            where, cell = self.place(int(np.argmax(gaps)), name)
            what = f"is {cell!r}, which means missing," if cell and self.text is not None else "is empty"
            more = f" and {gaps.sum() - 1} more" if gaps.sum() > 1 else ""
            raise PlacedError(f"column {name!r} {what} in {where}{more}; fill it in, or remove the row{way}.")

    @contextmanager
    def located(self) -> Iterator[None]:
        """Let errors that count rows from 0 say where the row stands in the file."""
        try:
            yield
        except PlacedError:
            raise
        except InputError as error:
            found = _COUNTED.search(str(error))
            if found is None:
                raise
            where, _ = self.place(int(found[1]))
            raise InputError(str(error).replace(found[0], f"in {where}")) from None


def _mostly_numbers(stray: np.ndarray) -> bool:
    return bool(stray.any() and 2 * stray.sum() <= len(stray))


def name_of(path: Path) -> str:
    """What sentences call a file."""
    return "standard input" if path == STANDARD else path.name


def read_table(path: Path) -> pd.DataFrame:
    """A table as a frame, by the ending of its file; see :func:`open_table`."""
    return open_table(path).frame


def open_table(path: Path, reading: Reading | None = None) -> TableFile:
    """A table by the ending of its file: Parquet, Excel, or else CSV (tabs for ``.tsv``), compressed or not.

    Parameters
    ----------
    path : path
        The file; ``-`` is CSV from standard input.
    reading : Reading, optional
        How text is to be read.
    """
    reading = Reading() if reading is None else reading
    if path == STANDARD:
        table = _standard_input(reading)
    elif not path.exists():
        raise InputError(f"the file {path} does not exist; check the path.")
    elif path.is_dir():
        raise InputError(f"{path} is a directory; give a CSV or Parquet file.")
    elif is_parquet(path):
        reading.refuse(f"the Parquet file {path}")
        table = TableFile(_read_parquet(path), f"the file {path}")
    elif path.suffix.lower() in _EXCEL:
        reading.refuse(f"the Excel file {path}", but=["na", "sheet"])
        table = _read_excel(path, reading)
    elif path.suffix.lower() in _NOT_READ:
        raise InputError(f"files such as {path} are not read; save it as .xlsx or CSV.")
    else:
        tabs = any(ending.lower() in (".tsv", ".tab") for ending in path.suffixes[-2:])
        table = _read_text(Delimited(f"the file {path}", lambda: path.open("rb"), reading, "\t" if tabs else ","))
    if not len(table.frame):
        raise InputError(f"{table.name} has a header but no rows; give at least one.")
    return table


def _read_text(text: Delimited) -> TableFile:
    text.reading.refuse_sheet(text.name)
    text.separator = text.reading.separator(text.separator)
    return TableFile(text.read(), text.name, text)


def _standard_input(reading: Reading) -> TableFile:
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError("'-' reads a table from standard input, and there is none; write: modejump ... - < DATA.csv.")
    content = sys.stdin.buffer.read()
    return _read_text(Delimited("standard input", partial(io.BytesIO, content), reading))


def _read_excel(path: Path, reading: Reading) -> TableFile:
    """A sheet of a workbook, by way of CSV, so that both are read alike; its lines are the sheet's rows."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise InputError(
            "reading Excel files needs openpyxl, which is not installed; run: pip install 'modejump[excel]'."
        ) from None
    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # of many kinds: archives, XML, keys
        raise InputError(
            f"the file {path} cannot be read as Excel: {str(error).splitlines()[0].rstrip('.')}."
        ) from None
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    name = next(iter(sheets)) if reading.sheet is None else reading.sheet
    listed = ", ".join(map(repr, sheets))
    if name not in sheets:
        raise InputError(f"the file {path} has no sheet {name!r}; its sheets are {listed}.")
    if reading.sheet is None and len(sheets) > 1:
        warn_user(f"the file {path} has {len(sheets)} sheets, {listed}; the first is read. Choose one by --sheet.")
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    for row in sheets[name].iter_rows(values_only=True):
        cells = [" ".join(cell.split()) if isinstance(cell, str) else cell for cell in row]
        writer.writerow(cells if any(cell is not None for cell in cells) else [])
    book.close()
    plain = dataclasses.replace(reading, sheet=None)
    table = _read_text(Delimited(f"the file {path}", partial(io.BytesIO, content.getvalue().encode()), plain))
    table.rows = "row"
    return table


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except ImportError:
        raise InputError("reading Parquet needs pyarrow, which is not installed; run: pip install pyarrow.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"the file {path} cannot be read as Parquet: {str(error).splitlines()[0]}.") from None


def need_columns(known: Sequence[str], names: Sequence[str], what: str) -> None:
    """Raise InputError where a column is not in the table."""
    for name in names:
        if name not in known:
            shown = ", ".join(map(str, known[:8])) + (", ..." if len(known) > 8 else "")
            raise InputError(f"{what} {name!r} is not a column of the table; its columns are {shown}.")


def is_large(path: Path) -> bool:
    """Whether a path is a directory of Parquet files, or one such file with too many numbers for memory."""
    if path.is_dir():
        return bool(parquet_files(path))
    return path.exists() and is_parquet(path) and parquet_bytes(path) > IN_MEMORY


def chunked_source(
    path: Path, drop: Sequence[str], chunked: bool, barred: Mapping[str, Any], family: str
) -> Source | None:
    """The table of a fit as a source of chunks; None where it is to be read whole.

    Parameters
    ----------
    path : path
        The table.
    drop : sequence of str
        Columns to leave out.
    chunked : bool
        Whether chunks are asked for.
    barred : mapping
        Options that do not go with chunks, by name.
    family : str
        Family of the response; only Gaussian ones go with chunks.
    """
    if not chunked and not is_large(path):
        return None
    given = [f"--{name}" for name, value in barred.items() if value]
    alone = given + ([] if resolve_family(family).conjugate else [f"--family {family}"])
    if not chunked and alone:
        if path.is_dir():
            raise InputError(f"{alone[0]} does not go with a directory of Parquet files; put the rows into one file.")
        return None
    if given:
        raise InputError(f"{given[0]} does not go with --chunked; leave one of them out.")
    if not path.is_dir() and path.exists() and not is_parquet(path):
        raise InputError(f"--chunked reads Parquet files, and {path} is none; convert it first.")
    source = scan_parquet(path)
    every = [*source.names, *source.unusable]
    need_columns(every, drop, "--drop")
    return scan_parquet(path, columns=[name for name in every if name not in drop]) if drop else source
