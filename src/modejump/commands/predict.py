"""``modejump predict``: predictions of a stored run for the rows of a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from modejump.commands.files import is_large, is_plink, need_columns, read_table, write_csv
from modejump.core.errors import InputError, warn_user
from modejump.data.coding import ColumnSpec
from modejump.data.markers import MarkerSpec
from modejump.data.parquet import scan_parquet
from modejump.data.plink import PlinkGenotypes, read_plink
from modejump.data.sources import Source
from modejump.estimators.base import PosteriorClassifier
from modejump.estimators.storage import load
from modejump.runtime.files import whole_file


def run_predict(run: Path, data: Path, interval: float | None, kind: str, offset: str | None, out: Path | None) -> None:
    """Predict the rows of a file and write them as CSV, to a file or to standard output."""
    estimator = load(run)
    if not estimator.posterior_.result.finished:
        warn_user(f"the run in {run} was interrupted; these predictions are from partial results.")
    if is_plink(data):
        _write(_table(estimator, _genotypes(estimator, data, offset), interval, kind, {}), out)
        return
    if is_large(data):
        _predict_chunks(estimator, scan_parquet(data), interval, kind, offset, out)
        return
    frame = read_table(data)
    rows, more = covariates(estimator, frame), offset_column(estimator, frame, offset)
    _write(_table(estimator, rows, interval, kind, more), out)


def covariates(estimator: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """The columns of a table that a model needs, factors in the type of their levels."""
    levels = {str(column.name): column.levels for column in _columns(estimator)}
    need_columns(list(frame.columns), list(levels), "the covariate")
    frame = frame[list(levels)].copy()
    for name, known in levels.items():
        if known is not None:
            frame[name] = as_levels(frame[name], known)
    return frame


def _columns(estimator: Any) -> Sequence[ColumnSpec]:
    spec = estimator.table_
    return [ColumnSpec(name) for name in spec.columns] if isinstance(spec, MarkerSpec) else spec.columns


def _genotypes(estimator: Any, data: Path, offset: str | None) -> PlinkGenotypes:
    if not isinstance(estimator.table_, MarkerSpec):
        raise InputError(f"{data} holds genotypes, but the run was not fitted by --logic; give a table of its columns.")
    if offset is not None or estimator.offset_ is not None:
        raise InputError("an offset is a column of a table, and PLINK's files have none; give a table.")
    return read_plink(data)


def _write(table: pd.DataFrame, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(table.to_csv(index=False))
    else:
        write_csv(table, out)


def _predict_chunks(
    estimator: Any, source: Source, interval: float | None, kind: str, offset: str | None, out: Path | None
) -> None:
    """Predict a large table chunk by chunk; what is written appears under its name when it is whole."""
    if offset is not None or estimator.offset_ is not None:
        raise InputError("an offset does not go with tables that are read in chunks; split the table first.")
    parts = (_table(estimator, frame, interval, kind, {}) for frame in source.frames(estimator.table_.variables))
    if out is None:
        for i, part in enumerate(parts):
            sys.stdout.write(part.to_csv(index=False, header=i == 0))
        return
    with whole_file(out) as file:
        for i, part in enumerate(parts):
            file.write(part.to_csv(index=False, header=i == 0).encode())


def _table(estimator: Any, frame: Any, interval: float | None, kind: str, more: dict[str, Any]) -> pd.DataFrame:
    """Means, or for classes a column with the likelier one and a column of probabilities for each."""
    if not isinstance(estimator, PosteriorClassifier):
        predicted = estimator.predict(frame, interval=interval, kind=kind, **more)
        return predicted if isinstance(predicted, pd.DataFrame) else pd.DataFrame({"mean": predicted})
    table = pd.DataFrame({"class": estimator.predict(frame, kind=kind, **more)})
    probabilities: Any = estimator.predict_proba(frame, kind=kind, **more)
    for j, label in enumerate(estimator.classes_):
        table[f"probability of {label}"] = probabilities[:, j]
    if interval is not None:
        ends: Any = estimator.predict_proba(frame, interval=interval, kind=kind, **more)
        table["lower"], table["upper"] = ends["lower"].to_numpy(), ends["upper"].to_numpy()
    return table


def offset_column(estimator: Any, frame: pd.DataFrame, name: str | None) -> dict[str, Any]:
    """The offset of the new rows, where the run needs one."""
    known = estimator.offset_
    if name is not None and known is None:
        raise InputError(f"--offset {name!r} is given, but the run was fitted without an offset; leave it out.")
    if known is None:
        return {}
    need_columns(list(frame.columns), [name or known], "the offset")
    return {"offset": frame[name or known]}


def as_levels(values: pd.Series, levels: tuple[Any, ...]) -> pd.Series:
    """A factor's values in the type of its levels: a file does not tell the text "1" from the number 1."""
    by_text = {str(level): level for level in levels}
    return pd.Series([by_text.get(str(value), value) for value in values], index=values.index, dtype=object)
