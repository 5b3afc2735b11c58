"""Complexity of laws against their error and their log posterior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.plots.style import ACCENT, GREY, STRONG, WEAK, axes_or_new, shorten, tidy

_LONGEST = 44


def plot_law_table(model: Any, *, ax: Any = None) -> Any:
    """Draw the best law of each complexity: its error on rows left out, and its log posterior on an axis of its own.

    Filled points are laws whose error is as good as the smallest, within one standard error. The law of highest log
    posterior is named.

    Parameters
    ----------
    model : estimator, or data frame from its ``law_table``
        A fitted BGNLMRegressor or the like.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The axes of the error; those of the log posterior share their complexities.

    Examples
    --------
    >>> from modejump.plots import plot_law_table
    >>> laws = pd.DataFrame({"complexity": [1, 3], "law": ["m", "m/r^2"], "log_posterior": [2.0, 40.0],
    ...                      "error": [0.5, 0.01], "as_good": [False, True]})
    >>> plot_law_table(laws).get_title()
    'm/r^2'
    """
    table = model if isinstance(model, pd.DataFrame) else model.law_table()
    wanted = ["complexity", "law", "log_posterior", "error", "as_good"]
    missing = [name for name in wanted if name not in table]
    if missing or not len(table):
        raise InputError("plot_law_table takes a fitted model of features, or the table that its law_table returns.")
    ax = axes_or_new(ax, (7.0, 4.0))
    complexity, error = table["complexity"].to_numpy(), table["error"].to_numpy(np.float64)
    ax.plot(complexity, error, color=STRONG, linewidth=1.2, zorder=2)
    colours = [STRONG if good else "white" for good in table["as_good"]]
    ax.scatter(complexity, error, color=colours, edgecolor=STRONG, zorder=3)
    # Errors of laws differ by orders of magnitude; perfect ones have none to draw.
    if (error > 0.0).any() and not (error == 0.0).any():
        ax.set_yscale("log")
    ax.set_xlabel("complexity")
    ax.set_ylabel("error on rows left out", color=STRONG)
    other = ax.twinx()
    log_posterior = table["log_posterior"].to_numpy(np.float64)
    other.plot(complexity, log_posterior, color=WEAK, linewidth=1.2, marker="s", markersize=4, zorder=1)
    other.set_ylabel("log posterior", color=GREY)
    best = int(np.argmax(log_posterior))
    ax.axvline(complexity[best], color=ACCENT, linewidth=0.8, linestyle=":", zorder=0)
    ax.set_title(shorten(table["law"].iloc[best], _LONGEST), fontsize=10, color=ACCENT)
    ax.xaxis.get_major_locator().set_params(integer=True)
    tidy(ax)
    other.spines["top"].set_visible(False)
    return ax
