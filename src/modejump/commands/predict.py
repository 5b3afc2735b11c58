"""``modejump predict``: predictions of a stored run for the rows of a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd

from modejump.commands.files import need_columns, read_table, write_csv
from modejump.estimators.stored import load


def run_predict(run: Path, data: Path, interval: float | None, kind: str, out: Path | None) -> None:
    """Predict the rows of a file and write them as CSV, to a file or to standard output."""
    estimator = load(run)
    frame = read_table(data)
    columns = estimator.table_.columns
    names = [column.name for column in columns]
    need_columns(frame, names, "the covariate")
    frame = frame[names].copy()
    for column in columns:
        if column.levels is not None:
            frame[column.name] = _as_levels(frame[column.name], column.levels)
    predicted = estimator.predict(frame, interval=interval, kind=kind)
    table = predicted if isinstance(predicted, pd.DataFrame) else pd.DataFrame({"mean": predicted})
    if out is None:
        sys.stdout.write(table.to_csv(index=False))
    else:
        write_csv(table, out)


def _as_levels(values: pd.Series, levels: tuple[Any, ...]) -> pd.Series:
    """A factor's values in the type of its levels: a file does not tell the text "1" from the number 1."""
    by_text = {str(level): level for level in levels}
    return pd.Series([by_text.get(str(value), value) for value in values], index=values.index, dtype=object)
