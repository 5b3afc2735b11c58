"""Predicted against observed: how rows handed to a report compare with what the model says about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from modejump.core.errors import InputError

LEVELS = (0.5, 0.8, 0.9, 0.95)
# Rows that are predicted, and points that are drawn: evenly spaced ones of more.
MOST_ROWS, MOST_POINTS = 2000, 300
BINS = 10
# The level of the intervals that are drawn.
SHOWN_LEVEL = 0.9


def check_predictions(model: Any, X: Any, y: Any, offset: Any = None) -> dict[str, Any]:
    """What the page shows about these rows.

    Parameters
    ----------
    model : estimator
        The fitted model.
    X : data frame or array
        Covariates.
    y : array
        The response.
    offset : array, optional
        Offset of the rows; needed where the fit had one.

    Returns
    -------
    dict
        For numbers ``coverage``, pairs of the level of an interval and the share of rows inside it; for classes
        ``bins``, with the mean prediction, the share of the event, and the number of rows of each.
    """
    observed = np.asarray(y)
    if observed.ndim != 1 or len(observed) != len(X):
        raise InputError(f"y has shape {observed.shape} for {len(X)} rows; give one response for each row.")
    if not len(observed):
        raise InputError("there are no rows to predict; give at least one, or leave X and y out.")
    rows = _spread(len(observed), MOST_ROWS)
    X = X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]
    observed = observed[rows]
    classes = getattr(model, "classes_", None)
    more = {} if offset is None else {"offset": np.asarray(offset)[rows]}
    found = _numbers(model, X, observed, more) if classes is None else _classes(model, X, observed, classes, more)
    return {"rows": len(rows), **found}


def _spread(count: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _numbers(model: Any, X: Any, observed: np.ndarray, more: dict[str, Any]) -> dict[str, Any]:
    coverage, shown = [], None
    observed = observed.astype(np.float64)
    for level in LEVELS:
        table = model.predict(X, interval=level, **more)
        lower, upper = table["lower"].to_numpy(), table["upper"].to_numpy()
        coverage.append([level, float(((observed >= lower) & (observed <= upper)).mean())])
        shown = table if level == SHOWN_LEVEL else shown
    assert shown is not None
    error = observed - shown["mean"].to_numpy()
    points = _spread(len(observed), MOST_POINTS)
    columns = [shown["mean"], shown["lower"], shown["upper"], observed]
    return {
        "kind": "numbers",
        "coverage": coverage,
        "rmse": float(np.sqrt((error**2).mean())),
        "r2": float(1.0 - (error**2).sum() / np.maximum(((observed - observed.mean()) ** 2).sum(), 1e-300)),
        "points": [[float(f"{value:.5g}") for value in row] for row in np.transpose(columns)[points].tolist()],
    }


def _classes(model: Any, X: Any, observed: np.ndarray, classes: np.ndarray, more: dict[str, Any]) -> dict[str, Any]:
    unknown = set(observed.tolist()) - set(classes.tolist())
    if unknown:
        raise InputError(f"y holds {sorted(map(str, unknown))[0]!r}, and the classes are {classes.tolist()}.")
    event, predicted = observed == classes[1], np.asarray(model.predict_proba(X, **more))[:, 1]
    where = np.minimum((predicted * BINS).astype(np.int64), BINS - 1)
    inside = [where == k for k in range(BINS) if (where == k).any()]
    return {
        "kind": "classes",
        "event": str(classes[1]),
        "bins": [[float(predicted[k].mean()), float(event[k].mean()), int(k.sum())] for k in inside],
        "brier": float(((predicted - event) ** 2).mean()),
        "accuracy": float(((predicted > 0.5) == event).mean()),
    }
