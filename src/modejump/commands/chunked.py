"""Tables that the command line reads in chunks: large Parquet files, directories of them, and where asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modejump.core.errors import InputError
from modejump.data.parquet import is_parquet, parquet_bytes, parquet_files, scan_parquet
from modejump.data.sources import Source
from modejump.likelihoods import resolve_family

# Parquet files with more numbers than this are read in chunks.
IN_MEMORY = 2**30


def is_large(path: Path) -> bool:
    """Whether a path is a directory of Parquet files, or one such file with too many numbers for memory."""
    if path.is_dir():
        return bool(parquet_files(path))
    return is_parquet(path) and parquet_bytes(path) > IN_MEMORY


def chunked_source(
    path: Path, drop: Sequence[str], *, asked: bool, barred: dict[str, Any], family: str
) -> Source | None:
    """The table of a fit as a source of chunks; None where it is to be read whole.

    Parameters
    ----------
    path : path
        The table.
    drop : sequence of str
        Columns to leave out.
    asked : bool
        Whether chunks are asked for.
    barred : dict
        Options that do not go with chunks, by name.
    family : str
        Family of the response; only Gaussian ones go with chunks.
    """
    given = [name for name, value in barred.items() if value]
    if not asked and (not path.exists() or not is_large(path)):
        return None
    alone = [f"--{name}" for name in given] + ([] if resolve_family(family).conjugate else [f"--family {family}"])
    if not asked and alone:
        if path.is_dir():
            raise InputError(
                f"{alone[0]} does not go with a directory of Parquet files, which is read in chunks; put the rows into "
                "one file."
            )
        return None
    if given:
        raise InputError(f"--{given[0]} does not go with --chunked; leave one of them out.")
    if not path.is_dir() and path.exists() and not is_parquet(path):
        raise InputError(f"--chunked reads Parquet files, and {path} is none; convert it first.")
    source = scan_parquet(path)
    every = [*source.names, *source.unusable]
    missing = [name for name in drop if name not in every]
    if missing:
        raise InputError(f"--drop {missing[0]!r} is not a column of the table; its columns are {', '.join(every[:8])}.")
    return scan_parquet(path, columns=[name for name in every if name not in drop]) if drop else source


def fit_chunks(estimator: Any, source: Source, target: str | None, weights: str | None) -> str:
    """Fit to a source of chunks; returns the name of the response.

    Parameters
    ----------
    estimator : BGLMRegressor or BGNLMRegressor
        What to fit.
    source : Source
        The table.
    target, weights : str, optional
        Columns of the response and of case weights.
    """
    if target is None:
        raise InputError("the response is missing; give --target COLUMN.")
    estimator.fit(source, target, weights)
    return target
