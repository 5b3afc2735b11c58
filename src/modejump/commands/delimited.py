"""Tables as text: how cells are separated, spelt and encoded, and the line of each row as an editor shows it."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, BinaryIO

import pandas as pd

from modejump.core.errors import InputError, warn_user

# Words for separators that are hard to type.
_WORDS = {"tab": "\t", "\\t": "\t", "space": " "}
# Separators that a header without commas may have.
_OTHERS = ";\t|"
# How compressed files begin; no text begins like this.
_COMPRESSED: tuple[tuple[bytes, Callable[..., Any]], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"\xfd7zXZ\x00", lzma.open),
    (b"BZh91AY&SY", bz2.open),
)


@dataclass(frozen=True)
class Reading:
    """How a table of text, or a sheet of an Excel file, is to be read.

    Attributes
    ----------
    sep : str, optional
        What separates cells: a character, "tab", or "space" for any white space; by default a comma, in ``.tsv`` a tab.
    decimal : str
        Decimal mark.
    encoding : str, optional
        Encoding of the text; by default UTF-8, or UTF-16 where the file begins with its mark.
    na : tuple of str
        Texts that stand for missing values, beside the empty cell, NA, NaN and the like.
    sheet : str, optional
        Sheet of an Excel file; the first by default.
    """

    sep: str | None = None
    decimal: str = "."
    encoding: str | None = None
    na: tuple[str, ...] = ()
    sheet: str | None = None

    def __post_init__(self) -> None:
        separator = self.separator("\t")
        if len(separator) != 1 or separator in '"\n\r':
            raise InputError(f"--sep {self.sep!r} separates nothing; give one character, such as ';', or tab or space.")
        if self.decimal not in (".", ","):
            raise InputError(f"--decimal {self.decimal!r} is no decimal mark; give '.' or ','.")
        if separator == self.decimal:
            raise InputError(f"--sep and --decimal are both {self.decimal!r}; give each its own, such as --sep ';'.")
        if self.encoding is not None:
            try:
                b"".decode(self.encoding)
                codecs.lookup(self.encoding)
            except (LookupError, ValueError):
                raise InputError(
                    f"--encoding {self.encoding!r} is not known; give utf-8, latin-1, cp1252, utf-16 or the like."
                ) from None

    def separator(self, default: str) -> str:
        """The separator as a character."""
        return default if self.sep is None else _WORDS.get(self.sep, self.sep)

    def refuse(self, what: str, but: Sequence[str] = ()) -> None:
        """Raise InputError where an option is given that says nothing about a kind of file.

        Parameters
        ----------
        what : str
            The file, in words.
        but : sequence of str
            Options that do say something.
        """
        for name, empty in (("sep", None), ("decimal", "."), ("encoding", None), ("na", ())):
            if name not in but and getattr(self, name) != empty:
                raise InputError(f"--{name} is about text, and {what} holds none; leave it out.")
        if "sheet" not in but:
            self.refuse_sheet(what)

    def refuse_sheet(self, what: str) -> None:
        """Raise InputError where a sheet is named of a file that has none.

        Parameters
        ----------
        what : str
            The file, in words.
        """
        if self.sheet is not None:
            raise InputError(f"--sheet is about Excel files, and {what} is none; leave it out.")


@dataclass(eq=False)
class Delimited:
    """A table of text that can be read again, to find the line of a row.

    Attributes
    ----------
    name : str
        What sentences call it.
    raw : callable
        Opens its bytes, from the beginning.
    reading : Reading
        How it is to be read.
    separator : str
        What separates its cells.
    """

    name: str
    raw: Callable[[], BinaryIO]
    reading: Reading = field(default_factory=Reading)
    separator: str = ","
    encoding: str = field(default="utf-8-sig", init=False)
    names: list[str] = field(default_factory=list, init=False)
    # Cells of a row before those that the header names.
    labels: int = field(default=0, init=False)

    def open(self) -> BinaryIO:
        """Its bytes without compression."""
        file = self.raw()
        start = file.read(16)
        file.seek(0)
        for magic, unpack in _COMPRESSED:
            if start.startswith(magic):
                unpacked: BinaryIO = unpack(file)
                return unpacked
        return file

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Cells of the lines that are not blank, each with the number of the line; that of the first line is 1."""
        with self.open() as file, io.TextIOWrapper(file, encoding=self.encoding, newline="") as text:
            if self.separator == " ":
                yield from ((i, line.split()) for i, line in enumerate(text, start=1) if line.strip())
                return
            reader = csv.reader(text, delimiter=self.separator, skipinitialspace=True)
            begun = 1
            for cells in reader:
                if len(cells) > 1 or (cells and cells[0].strip()):
                    yield begun, cells
                begun = reader.line_num + 1

    def cell(self, row: int, column: str | None = None) -> tuple[int, str]:
        """Line of a row, and the text of its cell in a column; empty without one.

        Parameters
        ----------
        row : int
            Which row, counting from 0, without the header.
        column : str, optional
            Which column.
        """
        line, cells = next(islice(self.records(), row + 1, None))
        at = len(cells) if column is None else self.names.index(column) + self.labels
        return line, cells[at].strip() if at < len(cells) else ""

    def read(self) -> pd.DataFrame:
        """The table."""
        try:
            self.encoding = self._encoding()
            self.names = self._names(self._header())
            if self.separator == self.reading.decimal:
                raise InputError(
                    "--decimal ',' leaves no comma to separate cells; give --sep as well, such as --sep ';'."
                )
            frame = self._frame(len(self.names))
        except UnicodeDecodeError as error:
            raise self._not_decoded(error) from None
        except (EOFError, gzip.BadGzipFile, lzma.LZMAError) as error:
            raise InputError(f"{self.name} cannot be unpacked: {str(error).rstrip('.')}.") from None
        except csv.Error as error:
            raise InputError(f"{self.name} cannot be read as CSV: {error}.") from None
        frame.columns = self.names
        return self._without_unnamed(frame)

    def _encoding(self) -> str:
        """The encoding asked for, or UTF-8, or UTF-16 where the mark of its byte order says so."""
        with self.open() as file:
            start = file.read(4)
        if start == b"PK\x03\x04":
            raise InputError(f"{self.name} is a ZIP archive or an Excel file; unpack it, or give it the ending .xlsx.")
        if start == b"PAR1":
            raise InputError(f"{self.name} is a Parquet file; give it the ending .parquet.")
        if self.reading.encoding is not None:
            # The mark at the beginning of a file is not part of the first name.
            given = codecs.lookup(self.reading.encoding).name
            return "utf-8-sig" if given == "utf-8" else given
        if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        if b"\0" in start:
            raise InputError(f"{self.name} is no text in UTF-8; add --encoding utf-16 where it is text of Windows.")
        return "utf-8-sig"

    def _not_decoded(self, error: UnicodeDecodeError) -> InputError:
        if self.reading.encoding is not None:
            return InputError(f"{self.name} is not in the encoding {self.reading.encoding!r}; try another --encoding.")
        line = next(number for number, text in enumerate(self.open(), start=1) if not _decodes(text))
        return InputError(
            f"{self.name} is not in UTF-8, as its line {line} shows; add --encoding latin-1, or --encoding cp1252 for "
            "files of Windows."
        )

    def _header(self) -> list[str]:
        """Names of the columns as they stand in the first line; another separator is noticed where none was given."""
        first = next(self.records(), None)
        if first is None:
            raise InputError(f"{self.name} is empty; give a table with a line of names.")
        cells = first[1]
        if len(cells) == 1 and cells[0].startswith("#"):
            raise InputError(f"{self.name} begins with a comment; remove it, so that names of columns come first.")
        if len(cells) == 1 and self.reading.sep is None:
            found = max(_OTHERS, key=cells[0].count)
            if found in cells[0]:
                self.separator = found
                said = "tab" if found == "\t" else f"'{found}'"
                warn_user(f"{self.name} has no commas in its header, so it is read with --sep {said}.")
                cells = next(self.records())[1]
        return cells

    def _names(self, header: Sequence[str]) -> list[str]:
        """Names of the columns; those that occur twice are refused."""
        names = [cell.strip() for cell in header]
        places: dict[str, list[str]] = {}
        for place, name in enumerate(names, start=1):
            places.setdefault(name, []).append(str(place))
        twice = {name: found for name, found in places.items() if name and len(found) > 1}
        if twice:
            shown = ", ".join(f"{name!r} (columns {' and '.join(found)})" for name, found in twice.items())
            raise InputError(f"{self.name} has columns of the same name: {shown}; give each its own name.")
        return names

    def _frame(self, width: int) -> pd.DataFrame:
        first = next(islice(self.records(), 1, None), None)
        if first is None or len(first[1]) <= width:
            return self._parsed(width)
        # More cells than names: pandas would take the first ones as labels, whatever they are.
        rows = list(islice(self.records(), 1, None))
        if any(len(cells) != width + 1 for _, cells in rows):
            self._refuse_long(rows, width)
        if all(not cells[-1].strip() for _, cells in rows):
            return self._parsed(width, index_col=False)
        warn_user(
            "the rows have one cell more than the header has names; the first is taken as a row label, not as a "
            "covariate."
        )
        self.labels = 1
        return self._parsed(width).reset_index(drop=True)

    def _parsed(self, width: int, **more: Any) -> pd.DataFrame:
        separator = r"\s+" if self.separator == " " else self.separator
        try:
            with self.open() as file, warnings.catch_warnings():
                warnings.simplefilter("ignore", pd.errors.ParserWarning)
                return pd.read_csv(
                    file,
                    sep=separator,
                    decimal=self.reading.decimal,
                    encoding=self.encoding,
                    na_values=list(self.reading.na),
                    skipinitialspace=True,
                    low_memory=False,
                    **more,
                )
        except (pd.errors.ParserError, ValueError) as error:
            if isinstance(error, UnicodeDecodeError):
                raise
            self._refuse_long(islice(self.records(), 1, None), width)
            reason = " ".join(str(error).split()).removeprefix("Error tokenizing data. ").rstrip(".")
            raise InputError(
                f"{self.name} cannot be read as CSV: {reason}; look for a quotation mark too many."
            ) from None

    def _refuse_long(self, rows: Iterable[tuple[int, list[str]]], width: int) -> None:
        """Raise InputError for the first row with more cells than the header has names."""
        for line, cells in rows:
            if len(cells) > width:
                raise InputError(
                    f"line {line} of {self.name} has {len(cells)} cells, but the header names {width}; quote cells "
                    "that hold the separator, or say which one it is by --sep."
                )

    def _without_unnamed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Row labels and empty columns need no name; others do."""
        keep = []
        for j, name in enumerate(frame.columns):
            if name:
                keep.append(j)
            elif j == 0:
                warn_user("the first column has no name and is taken as row labels, not as a covariate.")
            elif frame.iloc[:, j].notna().any():
                raise InputError(f"column {j + 1} of {self.name} has no name; give it one in the first line.")
        return frame if len(keep) == frame.shape[1] else frame.iloc[:, keep]


def _decodes(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
