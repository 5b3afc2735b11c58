"""Checks of the rows that are handed in, by estimators and by `Problem.build` alike: one sentence each."""

from __future__ import annotations

import numpy as np

from modejump.core.errors import InputError
from modejump.data.response import checked_offset, checked_weights


def checked_rows(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray | None, offset: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Columns, response, weights (ones by default) and offset (zeros) of the rows of positive weight. A constant
    response says something only where an offset varies: one event for each row, say, and how long it took.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.ndim != 2 or y.ndim != 1:
        raise InputError(f"X must be a table and y one column; got arrays of {x.ndim} and {y.ndim} dimensions.")
    rows = len(x)
    if rows != len(y):
        raise InputError(f"X has {rows} rows but y has {len(y)}; give one response for each row.")
    for name, values in (("X", x), ("y", y)):
        if not np.isfinite(values.sum()) and not np.isfinite(values).all():
            raise InputError(f"{name} holds NaN or infinite values; drop or impute these rows first.")
    w = np.ones(rows) if weights is None else checked_weights(weights, rows)
    known = np.zeros(rows) if offset is None else checked_offset(offset, rows)
    if not w.all():
        keep = w > 0
        x, y, w, known = x[keep], y[keep], w[keep], known[keep]
    if len(x) < 2:
        raise InputError(
            f"the data have {len(x)} row(s) of positive weight; selection needs at least 2 (n_samples = 1)."
        )
    if np.ptp(y) == 0.0 and np.ptp(known) == 0.0:
        raise InputError("y is constant, so there is nothing to explain; check the target column.")
    return x, y, w, known


def check_observations(n: float, base: int) -> None:
    """At least one observation more than columns that are always in."""
    if n - base < 1:
        raise InputError(
            f"the data have {n:g} observations for {base} columns that are always in "
            "(intercept included); give more rows or fewer such terms."
        )
