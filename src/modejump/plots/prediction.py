"""Observed against predicted, with prediction intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.plots.style import ACCENT, GREY, STRONG, axes_or_new, tidy


def plot_prediction(
    estimator: Any, X: Any, y: Any, *, level: float = 0.9, log: bool = False, offset: Any = None, ax: Any = None
) -> Any:
    """Draw observations against their predictions, with prediction intervals; those outside stand out.

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
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    if hasattr(estimator, "predict_proba"):
        raise InputError(
            "classes are not observed on the scale of their probabilities; plot a regressor's predictions."
        )
    predicted = estimator.predict(X, interval=level, offset=offset)
    mean, lower, upper = (predicted[name].to_numpy() for name in ("mean", "lower", "upper"))
    observed = np.asarray(y, dtype=np.float64)
    inside = (observed >= lower) & (observed <= upper)
    ax = axes_or_new(ax, (5.0, 4.5))
    if log:
        shown = (mean > 0.0) & (observed > 0.0)
        mean, lower, upper, observed, inside = (v[shown] for v in (mean, lower, upper, observed, inside))
        lower = np.maximum(lower, 0.5 * min(mean.min(), observed.min()))
        ax.set_xscale("log")
        ax.set_yscale("log")
    ends = [min(mean.min(), observed.min()), max(mean.max(), observed.max())]
    ax.plot(ends, ends, color=GREY, linewidth=0.8, zorder=0)
    for which, colour, label in ((inside, STRONG, f"inside its {level:.0%} interval"), (~inside, ACCENT, "outside")):
        if which.any():
            # Not error bars: the mean of a skew distribution may lie outside of its interval.
            ax.hlines(observed[which], lower[which], upper[which], color=colour, linewidth=0.9, alpha=0.75)
            ax.plot(
                mean[which], observed[which], "o", markersize=3.5, color=colour, alpha=0.75, markeredgewidth=0,
                label=f"{label} ({which.sum()})",
            )  # fmt: skip
    ax.set_xlabel("predicted")
    ax.set_ylabel("observed")
    ax.legend(frameon=False, loc="upper left", fontsize=9)
    tidy(ax)
    return ax
