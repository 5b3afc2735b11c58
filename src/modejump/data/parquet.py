"""Parquet files, read in batches of rows by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.core.numbers import whole_number
from modejump.data.sources import CHUNK_ROWS, Source

_ENDINGS = (".parquet", ".pq")
# Bytes of each column that are read at a time.
_BUFFER = 256 * 2**10
# What stands for a missing value in the name of a folder.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def is_parquet(path: Path) -> bool:
    """Whether a file is a Parquet file by its name."""
    return path.suffix.lower() in _ENDINGS


def parquet_files(folder: Path) -> list[Path]:
    """Parquet files of a directory in the order of their names; those of hidden and temporary folders are left out."""

    def shown(path: Path) -> bool:
        return not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)

    return sorted(path for path in folder.rglob("*") if is_parquet(path) and shown(path))


class _Parquet(Source):
    """One or more Parquet files with the same columns, one after the other."""

    def __init__(self, paths: Sequence[Path], roots: Sequence[Path], columns: Sequence[str] | None, rows: int) -> None:
        self.paths = tuple(paths)
        self.rows = rows
        schema = _open(self.paths[0]).schema_arrow
        self.folders = _partitions(self.paths, roots, schema.names)
        usable = _numbers(schema) | {name for name, values in self.folders.items() if values is not None}
        every = [*schema.names, *self.folders]
        labels = _labels(schema)
        wanted = [name for name in every if name not in labels] if columns is None else [str(name) for name in columns]
        for name in wanted:
            if name not in every:
                raise InputError(f"{name!r} is not a column of {self.paths[0]}.")
            if columns is not None and name not in usable:
                raise InputError(f"column {name!r} of {self.paths[0]} does not hold numbers; leave it out.")
        self.names = tuple(name for name in wanted if name in usable)
        self.unusable = tuple(name for name in wanted if name not in usable)
        if len(set(self.names)) < len(self.names):
            raise InputError(f"{self.paths[0]} has two columns of the same name; rename one of them.")

    def chunks(self, columns: Sequence[str]) -> Iterator[np.ndarray]:
        """The values of some columns, batch by batch."""
        from pyarrow import ArrowException

        inside = [name for name in columns if name not in self.folders]
        for number, path in enumerate(self.paths):
            file = _open(path)
            missing = [name for name in inside if name not in _numbers(file.schema_arrow)]
            if missing:
                raise InputError(f"{path} has no column {missing[0]!r} of numbers, which {self.paths[0]} has.")
            given = {name: values[number] for name, values in self.folders.items() if values is not None}
            try:
                for batch in file.iter_batches(batch_size=self.rows, columns=inside):
                    if batch.num_rows:
                        yield _values(batch, columns, given)
            except (OSError, ValueError, ArrowException) as error:
                reason = str(error).splitlines()[0].rstrip(".")
                raise InputError(f"the file {path} is damaged: {reason}.") from None


def _open(path: Path) -> Any:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise InputError(
            "reading Parquet needs pyarrow, which is not installed; run: pip install 'modejump[parquet]'."
        ) from None
    try:
        # Buffered beforehand, the whole file would be in memory before the first batch; without a buffer of some size,
        # a whole row group, and that may be the file.
        return ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER)
    except (OSError, ValueError, ArrowException) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"the file {path} cannot be read as Parquet: {reason}.") from None


def parquet_bytes(path: Path) -> int:
    """Bytes of the numbers of a Parquet file in memory."""
    about = _open(path).metadata
    return int(8 * about.num_rows * about.num_columns)


def _numbers(schema: Any) -> set[str]:
    """Names of the columns that hold numbers or truth values."""
    from pyarrow import types

    def able(kind: Any) -> bool:
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))

    return {field.name for field in schema if able(field.type)}


def _partitions(paths: Sequence[Path], roots: Sequence[Path], inside: Sequence[str]) -> dict[str, list[float] | None]:
    """Columns that folders named ``column=value`` stand for, with the value of each file; None where some is no number.

    Programs that write a table by parts leave such columns out of the files.
    """
    pairs = [
        dict(part.split("=", 1) for part in path.relative_to(root).parts[:-1] if "=" in part)
        for path, root in zip(paths, roots, strict=True)
    ]
    names = [name for name in dict.fromkeys(name for found in pairs for name in found) if name not in inside]
    return {name: _as_numbers([found.get(name, _NO_VALUE) for found in pairs]) for name in names}


def _as_numbers(texts: Sequence[str]) -> list[float] | None:
    try:
        return [float("nan") if text == _NO_VALUE else float(text) for text in texts]
    except ValueError:
        return None


def _labels(schema: Any) -> set[str]:
    """Columns that hold the index of a pandas frame: labels of the rows, which are no covariates in memory either."""
    try:
        index = (schema.pandas_metadata or {}).get("index_columns", ())
        return {name for name in index if isinstance(name, str)}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return set()


def _values(batch: Any, columns: Sequence[str], given: Mapping[str, float]) -> np.ndarray:
    """The numbers of a batch, one row for each column; missing values become NaN."""
    out = np.empty((len(columns), batch.num_rows))
    for j, name in enumerate(columns):
        out[j] = given[name] if name in given else batch.column(name).to_numpy(zero_copy_only=False)
    return out


def scan_parquet(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    columns: Sequence[str] | None = None,
    rows: int = CHUNK_ROWS,
) -> Source:
    """Parquet files to be read in batches of rows, for tables that do not fit into memory.

    Parameters
    ----------
    path : path, or sequence of paths
        A file, a directory of files (in the order of their names), or several files. Folders that are named
        ``column=value`` give their files that column.
    columns : sequence of str, optional
        Columns to use, response and weights among them; all by default, but for the index of a pandas frame.
    rows : int
        Rows of a batch.

    Returns
    -------
    Source
        To be given to ``fit`` in place of a table, with the name of the response.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from modejump import BGLMRegressor
    >>> x = np.random.default_rng(1).normal(size=(60, 3))
    >>> table = pd.DataFrame(x, columns=["a", "b", "c"]).assign(y=x[:, 0] + np.sin(x[:, 1]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table.to_parquet(f"{folder}/table.parquet")
    ...     BGLMRegressor().fit(scan_parquet(f"{folder}/table.parquet"), "y").best_model()
    ('a', 'b')
    """
    rows = whole_number(rows, "rows", least=1)
    given = [path] if isinstance(path, str | os.PathLike) else list(path)
    paths: list[Path] = []
    roots: list[Path] = []
    for item in map(Path, given):
        if not item.exists():
            raise InputError(f"the file {item} does not exist; check the path.")
        inside = parquet_files(item) if item.is_dir() else [item]
        if not inside:
            raise InputError(f"the directory {item} holds no Parquet file; check the path.")
        paths += inside
        roots += [item if item.is_dir() else item.parent] * len(inside)
    if not paths:
        raise InputError("scan_parquet was given no file; give at least one path.")
    return _Parquet(paths, roots, columns, rows)
