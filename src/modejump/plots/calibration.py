"""Whether predictions are as sure as they should be: coverage of intervals, and reliability of probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import binom

from modejump.core.errors import InputError
from modejump.plots.style import GREY, STRONG, WEAK, axes_or_new, read_count, tidy

_LEVELS = tuple(np.round(np.arange(0.1, 1.0, 0.1), 1).tolist())
# Chance that a calibrated prediction leaves the band at one level.
_OUTSIDE = 0.05


def plot_calibration(model: Any, X: Any, y: Any, *, bins: int = 10, offset: Any = None, ax: Any = None) -> Any:
    """Draw what was promised against what was observed, on rows that the fit should not have seen.

    For a regressor: the level of prediction intervals against the share of rows inside them, at nine levels. For a
    classifier: predicted probabilities, in groups of equally many rows, against the share of rows of the class. Points
    of calibrated predictions lie near the diagonal. The band, or the whiskers, is where chance puts 95 % of them; under
    the diagonal, intervals are too narrow, or the class is promised too often.

    Intervals of counts hold at least their level, because a count is in or out as a whole: there the curve may lie
    above the diagonal.

    Parameters
    ----------
    model : estimator
        A fitted regressor or classifier.
    X, y : data frame or array, array
        Rows to predict, and what was observed there.
    bins : int
        Number of groups of a classifier's predictions.
    offset : array of shape (rows,), optional
        Offset of the rows; needed where the fit had one.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor
    >>> from modejump.plots import plot_calibration
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> ax = plot_calibration(BGLMRegressor().fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> levels, observed = ax.lines[-1].get_data()
    >>> bool(abs(observed - levels).max() < 0.05)
    True
    """
    if not hasattr(model, "predict"):
        raise InputError("plot_calibration takes a fitted estimator.")
    ax = axes_or_new(ax, (4.6, 4.4))
    ax.axline((0.0, 0.0), (1.0, 1.0), color=GREY, linewidth=0.8, zorder=1)
    if hasattr(model, "predict_proba"):
        _draw_reliability(ax, model, X, np.asarray(y), read_count(bins, "bins"), offset)
    else:
        _draw_coverage(ax, model, X, np.asarray(y, dtype=np.float64), offset)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_aspect("equal")
    tidy(ax)
    return ax


def _draw_coverage(ax: Any, model: Any, X: Any, y: np.ndarray, offset: Any) -> None:
    """Share of rows inside their intervals, with the band of chance."""
    shares = []
    for level in _LEVELS:
        predicted = model.predict(X, interval=level, offset=offset)
        shares.append(float(np.mean((y >= predicted["lower"].to_numpy()) & (y <= predicted["upper"].to_numpy()))))
    grid = np.linspace(0.0, 1.0, 101)
    low, high = (binom.ppf(q, len(y), grid) / len(y) for q in (0.5 * _OUTSIDE, 1.0 - 0.5 * _OUTSIDE))
    ax.fill_between(grid, np.nan_to_num(low), np.nan_to_num(high), color=WEAK, alpha=0.45, linewidth=0, zorder=0)
    ax.plot(_LEVELS, shares, "o-", color=STRONG, markersize=5, linewidth=1.2, zorder=2)
    ax.set_xlabel("level of the interval")
    ax.set_ylabel(f"share of {len(y)} rows inside")


def _draw_reliability(ax: Any, model: Any, X: Any, y: np.ndarray, bins: int, offset: Any) -> None:
    """Share of a class among rows of like probability; several classes are put together."""
    given = model.predict_proba(X) if offset is None else model.predict_proba(X, offset=offset)
    columns = range(1, 2) if given.shape[1] == 2 else range(given.shape[1])
    probability = np.concatenate([np.asarray(given)[:, c] for c in columns])
    hit = np.concatenate([y == model.classes_[c] for c in columns])
    unknown = ~np.isin(y, model.classes_)
    if unknown.any():
        raise InputError(f"y has the class {y[unknown][0].item()!r}, which the fit has not seen.")
    order = np.argsort(probability, kind="stable")
    groups = [group for group in np.array_split(order, min(bins, len(order))) if len(group)]
    mean, share = (np.array([values[group].mean() for group in groups]) for values in (probability, hit))
    sizes = np.array([len(group) for group in groups])
    # Where chance puts the share of a group whose probabilities are right.
    low, high = (binom.ppf(q, sizes, mean) / sizes for q in (0.5 * _OUTSIDE, 1.0 - 0.5 * _OUTSIDE))
    ax.vlines(mean, low, high, color=WEAK, linewidth=5.0, zorder=0)
    ax.plot(mean, share, "o-", color=STRONG, markersize=5, linewidth=1.2, zorder=2, clip_on=False)
    label = f" of {model.classes_[1]!s}" if given.shape[1] == 2 else ""
    ax.set_xlabel(f"predicted probability{label}")
    ax.set_ylabel(f"share{label} in groups of about {round(len(hit) / len(groups))} rows")
