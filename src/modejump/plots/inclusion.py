"""Inclusion probabilities as bars, and how often terms are in together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.plots.style import (
    DARK,
    GREY,
    STRONG,
    WEAK,
    axes_or_new,
    colour_map,
    posterior_of,
    read_count,
    read_share,
    shorten,
    tidy,
)

# Half the width of a 95 % interval, in standard errors.
_REACH = 1.96


def plot_inclusion(model: Any, *, most: int = 10, least: float = 0.01, ax: Any = None) -> Any:
    """Draw the inclusion probabilities of the leading features as horizontal bars, best at the top.

    Whiskers are 95 % intervals from the Monte Carlo standard error; after enumeration there is none. Features of a
    smaller probability than ``least`` are not drawn but counted below the bars.

    Parameters
    ----------
    model : estimator or Posterior
        A fitted one.
    most : int
        How many features to show at most.
    least : float
        The smallest probability to show. The leading feature is always shown.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor
    >>> from modejump.plots import plot_inclusion
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> ax = plot_inclusion(BGLMRegressor().fit(X, y), most=3)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['bp', 's5', 'bmi']
    """
    most, least = read_count(most, "most"), read_share(least, "least")
    whole = posterior_of(model, "plot_inclusion").inclusion
    shown = whole.head(min(most, max(1, int((whole["probability"] >= least).sum())))).iloc[::-1]
    ax = axes_or_new(ax, (7.0, 0.9 + 0.35 * len(shown)))
    probability, error = shown["probability"].to_numpy(), shown["mcse"].fillna(0.0).to_numpy()
    places = np.arange(len(shown))
    ax.barh(places, probability, height=0.62, color=[STRONG if p >= 0.5 else WEAK for p in probability])
    ends = np.clip(probability[:, None] + _REACH * error[:, None] * [-1.0, 1.0], 0.0, 1.0)
    if error.any():
        ax.hlines(places, ends[:, 0], ends[:, 1], color=DARK, linewidth=1.6)
    for place, p, end in zip(places, probability, ends[:, 1]):
        ax.text(end + 0.015, place, f"{p:.2f}", va="center", fontsize=9, color=GREY)
    ax.set_yticks(places, [shorten(name) for name in shown.index])
    ax.axvline(0.5, color=GREY, linewidth=0.8, linestyle=":", zorder=0)
    ax.set_xlim(0.0, 1.12)
    # Few bars stay bars, in the middle of axes of any height.
    middle, half = 0.5 * (len(shown) - 1), 0.5 * max(len(shown), 4) + 0.1
    ax.set_ylim(middle - half, middle + half)
    ax.set_xticks([0.0, 0.5, 1.0])
    ax.set_xlabel(_axis_label(len(whole) - len(shown), float(whole["probability"].iloc[len(shown) :].max())))
    tidy(ax)
    ax.tick_params(axis="y", length=0)
    return ax


def _axis_label(left_out: int, largest: float) -> str:
    """What the axis shows, and how many features it does not."""
    if not left_out:
        return "inclusion probability"
    bound = f"below {0.01:.2f}" if largest < 0.01 else f"of {largest:.2f} or less"
    return f"inclusion probability ({left_out} more {bound})"


def plot_joint_inclusion(table: pd.DataFrame, *, most: int = 15, ax: Any = None) -> Any:
    """Draw how often terms are in the model together, as a square of colours with a number in each field.

    Terms that belong together are both dark where they meet; terms that replace each other have a light field between
    two dark ones.

    Parameters
    ----------
    table : data frame
        Square, with the same names for rows and columns: probabilities that both terms are in, and on the diagonal
        that one is.
    most : int
        How many terms to show at most, those of the largest probability first.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.

    Examples
    --------
    >>> import pandas as pd
    >>> from modejump.plots import plot_joint_inclusion
    >>> joint = pd.DataFrame([[0.6, 0.1], [0.1, 0.5]], index=["a", "b"], columns=["a", "b"])
    >>> ax = plot_joint_inclusion(joint)
    >>> [text.get_text() for text in ax.texts]
    ['0.60', '0.10', '0.10', '0.50']
    """
    most = read_count(most, "most")
    if not isinstance(table, pd.DataFrame) or not len(table) or list(table.index) != list(table.columns):
        raise InputError("plot_joint_inclusion takes a square data frame with the same names for rows and columns.")
    order = np.argsort(-np.diag(table.to_numpy(np.float64)), kind="stable")[:most]
    values = table.to_numpy(np.float64)[np.ix_(order, order)]
    names = [shorten(table.index[i], 24) for i in order]
    ax = axes_or_new(ax, (1.8 + 0.55 * len(names), 1.2 + 0.5 * len(names)))
    ax.imshow(values, cmap=colour_map(), vmin=0.0, vmax=1.0, aspect="auto")
    for i, row in enumerate(values):
        for j, p in enumerate(row):
            ax.text(j, i, f"{p:.2f}", ha="center", va="center", fontsize=8, color="white" if p > 0.5 else DARK)
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(names)), names)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.set_title("probability that both are in", fontsize=10)
    return ax
