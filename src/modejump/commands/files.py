"""Reading and writing tables: CSV and Parquet, whole or in chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from modejump.core.errors import InputError, warn_user
from modejump.data.parquet import is_parquet, parquet_bytes, parquet_files, scan_parquet
from modejump.data.sources import Source
from modejump.likelihoods import resolve_family

# Parquet files with more numbers than this are read in chunks.
IN_MEMORY = 2**30


def is_plink(path: Path) -> bool:
    """Whether a path is that of PLINK's genotypes."""
    return path.suffix.lower() == ".bed"


def read_table(path: Path) -> pd.DataFrame:
    """A CSV file (commas, or tabs for ``.tsv``) or a Parquet file as a frame."""
    if not path.exists():
        raise InputError(f"the file {path} does not exist; check the path.")
    if path.is_dir():
        raise InputError(f"{path} is a directory; give a CSV or Parquet file.")
    frame = _read_parquet(path) if is_parquet(path) else _read_csv(path)
    if not len(frame):
        raise InputError(f"the file {path} has a header but no rows.")
    return frame


def _read_csv(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_csv(path, sep="\t" if path.suffix.lower() == ".tsv" else ",", low_memory=False)
    except pd.errors.EmptyDataError:
        raise InputError(f"the file {path} is empty.") from None
    except (pd.errors.ParserError, UnicodeDecodeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"the file {path} cannot be read as CSV: {reason}.") from None
    frame.columns = [str(name).strip() for name in frame.columns]
    if frame.columns[0] == "Unnamed: 0":
        warn_user("the first column has no name and is taken as row labels, not as a covariate.")
        frame = frame.iloc[:, 1:]
    return frame


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


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame without its index."""
    try:
        frame.to_csv(path, index=False)
    except OSError as error:
        raise InputError(f"the file {path} cannot be written: {error.strerror or error}.") from None


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
