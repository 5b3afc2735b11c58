"""Inclusion probabilities as bars."""

from __future__ import annotations

from typing import Any

from modejump.core.errors import InputError
from modejump.plots.style import GREY, STRONG, WEAK, axes_or_new, tidy

_LONGEST = 34


def plot_inclusion(estimator: Any, *, most: int = 10, ax: Any = None) -> Any:
    """Draw the inclusion probabilities of the leading features as horizontal bars, best at the top.

    Parameters
    ----------
    estimator : BGLMRegressor or BGNLMRegressor
        A fitted one.
    most : int
        How many features to show.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    if not isinstance(most, int) or most < 1:
        raise InputError(f"most must be a whole number of at least 1; got {most!r}.")
    table = estimator.inclusion_.head(most).iloc[::-1]
    ax = axes_or_new(ax, (7.0, 0.6 + 0.35 * len(table)))
    probability = table["probability"].to_numpy()
    error = table["mcse"].fillna(0.0).to_numpy()
    places = range(len(table))
    colours = [STRONG if p >= 0.5 else WEAK for p in probability]
    ax.barh(places, probability, height=0.62, color=colours, xerr=error if error.any() else None)
    for place, p in zip(places, probability):
        ax.text(min(p, 1.0) + 0.015, place, f"{p:.2f}", va="center", fontsize=9, color=GREY)
    ax.set_yticks(places, [_shorten(str(name)) for name in table.index])
    ax.axvline(0.5, color=GREY, linewidth=0.8, linestyle=":", zorder=0)
    ax.set_xlim(0.0, 1.12)
    ax.set_xticks([0.0, 0.5, 1.0])
    ax.set_xlabel("inclusion probability")
    tidy(ax)
    ax.tick_params(axis="y", length=0)
    return ax


def _shorten(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
