"""Observed against predicted, with prediction intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.plots.style import ACCENT, GREY, STRONG, WEAK, axes_or_new, colour_map, import_pyplot, tidy

# Up to so many rows each has a point and its interval; beyond, rows are counted in hexagons.
_SINGLE = 1000


def plot_prediction(
    estimator: Any, X: Any, y: Any, *, level: float = 0.9, log: bool = False, offset: Any = None, ax: Any = None
) -> Any:
    """Draw observations against their predictions, with prediction intervals; those outside stand out.

    Up to a thousand rows are points with their intervals as thin lines. More rows are counted in hexagons, the darker
    the more; the title says how many of a thousand evenly spaced rows are inside their intervals.

    Parameters
    ----------
    estimator : BGLMRegressor or BGNLMRegressor
        A fitted one.
    X, y : data frame or array, array
        Rows to predict, and what was observed there.
    level : float
        Level of the intervals.
    log : bool
        Whether both axes are logarithmic. Rows whose prediction or observation is not positive are left out, and
        intervals that reach below zero are cut at the edge.
    offset : array of shape (rows,), optional
        Offset of the rows; needed where the fit had one.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor
    >>> from modejump.plots import plot_prediction
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> ax = plot_prediction(BGLMRegressor().fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['inside its 90% interval (204)', 'outside (17)']
    """
    if hasattr(estimator, "predict_proba"):
        raise InputError(
            "classes are not observed on the scale of their probabilities; plot a regressor's predictions."
        )
    observed = np.asarray(y, dtype=np.float64)
    many = len(observed) > _SINGLE
    # Intervals take far longer than means: of many rows some are enough to know how many lie inside.
    some = np.linspace(0, len(observed) - 1, _SINGLE, dtype=np.int64) if many else np.arange(len(observed))
    at = X.iloc[some] if hasattr(X, "iloc") else np.asarray(X)[some]
    predicted = estimator.predict(at, interval=level, offset=None if offset is None else np.asarray(offset)[some])
    mean, lower, upper = (predicted[name].to_numpy() for name in ("mean", "lower", "upper"))
    inside = (observed[some] >= lower) & (observed[some] <= upper)
    if many:
        mean = np.asarray(estimator.predict(X, offset=offset))
    shown = (mean > 0.0) & (observed > 0.0) if log else np.ones(len(observed), bool)
    if not shown.any():
        raise InputError("no prediction and observation are both positive, so log=True has nothing to draw.")
    mean, observed = mean[shown], observed[shown]
    ax = axes_or_new(ax, (5.0, 4.5))
    scale = "log" if log else "linear"
    ax.set_xscale(scale)
    ax.set_yscale(scale)
    ends = [min(mean.min(), observed.min()), max(mean.max(), observed.max())]
    ax.plot(ends, ends, color=GREY, linewidth=0.8, zorder=3 if many else 0)
    if not many:
        lower, upper, inside = lower[shown], upper[shown], inside[shown]
        lowest = 0.5 * ends[0] if log else -np.inf
        _draw_rows(ax, mean, np.maximum(lower, lowest), upper, observed, inside, level)
    else:
        hexagons = ax.hexbin(mean, observed, gridsize=45, bins="log", mincnt=1, cmap=colour_map(), xscale=scale,
                             yscale=scale, linewidths=0.1)  # fmt: skip
        import_pyplot().colorbar(hexagons, ax=ax, pad=0.02, label="rows")
        ax.set_title(f"{inside.mean():.1%} of {_SINGLE} rows are inside their {level:.0%} intervals", fontsize=10)
    ax.set_xlabel("predicted")
    ax.set_ylabel("observed")
    tidy(ax)
    return ax


def _draw_rows(
    ax: Any, mean: np.ndarray, lower: np.ndarray, upper: np.ndarray, observed: np.ndarray, inside: np.ndarray,
    level: float,
) -> None:  # fmt: skip
    """One point for each row, and its interval as a thin line below all points."""
    few = len(mean) <= 100
    sorts = ((inside, WEAK, STRONG, f"inside its {level:.0%} interval"), (~inside, ACCENT, ACCENT, "outside"))
    for which, light, colour, label in sorts:
        if which.any():
            # Not error bars: the mean of a skew distribution may lie outside of its interval.
            ax.hlines(observed[which], lower[which], upper[which], color=light, linewidth=1.0 if few else 0.5,
                      alpha=0.9 if few else 0.6, zorder=1)  # fmt: skip
            ax.plot(mean[which], observed[which], "o", markersize=4.0 if few else 3.0, color=colour, alpha=0.8,
                    markeredgewidth=0, label=f"{label} ({which.sum()})", zorder=2)  # fmt: skip
    ax.legend(frameon=False, loc="upper left", fontsize=9)
