"""``modejump predict``: predictions of a stored run for the rows of a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from modejump.commands.delimited import Reading
from modejump.commands.files import STANDARD, TableFile, is_large, is_plink, need_columns, open_table
from modejump.commands.output import check_json, output_file, write_json, write_text
from modejump.core.errors import InputError, warn_user
from modejump.data.coding import ColumnSpec
from modejump.data.markers import MarkerSpec
from modejump.data.parquet import scan_parquet
from modejump.data.plink import PlinkGenotypes, read_plink
from modejump.data.sources import Source
from modejump.estimators.classifier import PosteriorClassifier
from modejump.estimators.storage import load


def run_predict(asked: Any) -> None:
    """Predict the rows of a file and write them as CSV, to a file or to standard output, or as JSON.

    Parameters
    ----------
    asked : namespace
        The options of the command, by name.
    """
    reading = Reading(asked.sep, asked.decimal, asked.encoding, asked.na, asked.sheet)
    check_json(asked.json)
    if asked.json == STANDARD and asked.out == STANDARD:
        raise InputError("--json and --out both name standard output; give one of them a file.")
    estimator = load(asked.run)
    if not estimator.posterior_.result.finished:
        warn_user(f"the run in {asked.run} was interrupted; these predictions are from partial results.")
    if is_plink(asked.data):
        reading.refuse(str(asked.data))
        genotypes = _genotypes(estimator, asked.data, asked.offset)
        _write(_table(estimator, genotypes, asked.interval, asked.kind, {}), asked)
        return
    if is_large(asked.data):
        reading.refuse(str(asked.data))
        _predict_chunks(estimator, scan_parquet(asked.data), asked)
        return
    table = open_table(asked.data, reading)
    with table.located():
        more = offset_column(estimator, table, asked.offset)
        _write(_table(estimator, covariates(estimator, table), asked.interval, asked.kind, more), asked)


def covariates(estimator: Any, table: TableFile) -> pd.DataFrame:
    """The columns of a table that a model needs, factors in the type of their levels."""
    levels = {str(column.name): column.levels for column in _columns(estimator)}
    need_columns(list(table.frame.columns), list(levels), "the covariate")
    table.refuse_text([name for name, known in levels.items() if known is None], "give numbers, as at the fit")
    if getattr(estimator.table_, "missing", "refuse") == "refuse":
        table.refuse_missing(list(levels))
    frame = table.frame[list(levels)].copy()
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


def _write(table: pd.DataFrame, asked: Any) -> None:
    """As JSON where that is asked for, and as CSV where it is not, or where it has a file of its own."""
    if asked.json is not None:
        write_json(table, asked.json)
    if asked.json is None or asked.out is not None:
        write_text(table.to_csv(index=False, lineterminator="\n"), asked.out)


def _predict_chunks(estimator: Any, source: Source, asked: Any) -> None:
    """Predict a large table chunk by chunk; what is written appears under its name when it is whole."""
    if asked.offset is not None or estimator.offset_ is not None:
        raise InputError("an offset does not go with tables that are read in chunks; split the table first.")
    if asked.json is not None:
        raise InputError("--json does not go with tables that are read in chunks; write CSV, or split the table first.")
    frames = source.frames(estimator.table_.variables)
    parts = (_table(estimator, frame, asked.interval, asked.kind, {}) for frame in frames)
    texts = (part.to_csv(index=False, header=i == 0, lineterminator="\n") for i, part in enumerate(parts))
    if asked.out is None or asked.out == STANDARD:
        for text in texts:
            write_text(text, None)
        return
    with output_file(asked.out) as file:
        for text in texts:
            file.write(text.encode())


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


def offset_column(estimator: Any, table: TableFile, name: str | None) -> dict[str, Any]:
    """The offset of the new rows, where the run needs one."""
    known = estimator.offset_
    if name is not None and known is None:
        raise InputError(f"--offset {name!r} is given, but the run was fitted without an offset; leave it out.")
    if known is None:
        return {}
    column = name or known
    need_columns(list(table.frame.columns), [column], "the offset")
    table.refuse_text([column], "give numbers")
    table.refuse_missing([column])
    return {"offset": table.frame[column]}


def as_levels(values: pd.Series, levels: tuple[Any, ...]) -> pd.Series:
    """A factor's values in the type of its levels: a file does not tell the text "1" from the number 1."""
    by_text = {str(level): level for level in levels}
    return pd.Series([by_text.get(str(value), value) for value in values], index=values.index, dtype=object)
