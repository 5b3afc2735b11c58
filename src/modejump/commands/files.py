"""Reading and writing tables, and directories to store runs in."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from modejump.core.errors import InputError, ModejumpWarning
from modejump.estimators.runs import occupied, unfinished

_PARQUET = {".parquet", ".pq"}


def read_table(path: Path) -> pd.DataFrame:
    """A CSV file (commas, or tabs for ``.tsv``) or a Parquet file as a frame."""
    if not path.exists():
        raise InputError(f"the file {path} does not exist; check the path.")
    if path.is_dir():
        raise InputError(f"{path} is a directory; give a CSV or Parquet file.")
    frame = _read_parquet(path) if path.suffix.lower() in _PARQUET else _read_csv(path)
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
        warnings.warn(
            "the first column has no name and is taken as row labels, not as a covariate.",
            ModejumpWarning,
            stacklevel=2,
        )
        frame = frame.iloc[:, 1:]
    return frame


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except ImportError:
        raise InputError("reading Parquet needs pyarrow, which is not installed; run: pip install pyarrow.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"the file {path} cannot be read as Parquet: {str(error).splitlines()[0]}.") from None


def need_columns(frame: pd.DataFrame, names: Sequence[str], what: str) -> None:
    """Raise InputError where a column is not in the table."""
    for name in names:
        if name not in frame.columns:
            known = ", ".join(map(str, frame.columns[:8])) + (", ..." if frame.shape[1] > 8 else "")
            raise InputError(f"{what} {name!r} is not a column of the table; its columns are {known}.")


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame without its index."""
    try:
        frame.to_csv(path, index=False)
    except OSError as error:
        raise InputError(f"the file {path} cannot be written: {error.strerror or error}.") from None


def refuse_overwrite(out: Path, force: bool) -> None:
    """Raise InputError where a directory to store a run in is in use."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; give a directory.")
    if unfinished(out) and not force:
        raise InputError(
            f"the directory {out} holds a run that is not finished; go on with modejump resume {out}, or begin anew "
            "with --force."
        )
    if occupied(out) and not force:
        raise InputError(f"the directory {out} is not empty; choose another, or add --force to write into it.")
