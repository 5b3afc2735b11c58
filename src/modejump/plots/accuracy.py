"""Errors of estimates against the time they took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modejump.plots.style import ACCENT, AMBER, GREY, STRONG, import_pyplot, tidy

_COLOURS = {"mjmcmc": AMBER, "gmjmcmc": ACCENT, "rgmjmcmc": STRONG}
_LINES = {"frequency": "-", "renormalised": "--"}
# Errors below this are drawn at it: they are rounding, or no error at all.
FLOOR = 1e-5


def plot_accuracy(rows: Sequence[Mapping[str, Any]], *, ax: Any) -> Any:
    """Draw the errors of one case against time, both axes logarithmic.

    Parameters
    ----------
    rows : sequence of mapping
        Rows of one case of :class:`modejump.experiments.accuracy.Study`.
    ax : matplotlib Axes
        Where to draw.

    Returns
    -------
    matplotlib Axes
    """
    lines = dict.fromkeys((row["algorithm"], row["estimate"]) for row in rows)
    for algorithm, kind in lines:
        points = sorted(
            (row["seconds"], row["error"]) for row in rows if (row["algorithm"], row["estimate"]) == (algorithm, kind)
        )
        seconds, error = zip(*points)
        colour = _COLOURS[algorithm]
        ax.plot(
            seconds,
            [max(e, FLOOR) for e in error],
            linestyle=_LINES[kind],
            color=colour,
            marker="o",
            markersize=4,
            label=f"{algorithm}, {kind}",
        )
        low = [s for s, e in points if e < FLOOR]
        ax.plot(low, [FLOOR] * len(low), linestyle="", marker="v", markersize=8, color=colour)
    times = sorted({row["seconds"] for row in rows})
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(times, [f"{s:g}" for s in times])
    ax.minorticks_off()
    ax.set_xlabel("seconds")
    ax.grid(axis="y", color=GREY, alpha=0.2, linewidth=0.6)
    tidy(ax)
    return ax


def draw_accuracy(rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str], path: Path) -> None:
    """Write a picture with one panel for each case.

    Parameters
    ----------
    rows : sequence of mapping
        Rows of :class:`modejump.experiments.accuracy.Study`.
    titles : mapping of str to str
        Title of each case.
    path : path
        File of the picture.
    """
    pyplot = import_pyplot()
    with pyplot.ioff():
        figure, axes = pyplot.subplots(
            1, len(titles), figsize=(0.6 + 4.0 * len(titles), 4.0), sharey=True, squeeze=False, layout="constrained"
        )
    for ax, (name, title) in zip(axes[0], titles.items()):
        plot_accuracy([row for row in rows if row["case"] == name], ax=ax)
        head, _, rest = title.partition(": ")
        ax.set_title(head, fontsize=11, pad=16)
        ax.text(0.5, 1.0, rest, transform=ax.transAxes, ha="center", va="bottom", fontsize=8, color=GREY)
        ax.legend(frameon=False, fontsize=8, handlelength=2.8)
    # Room for the legends above the lines.
    axes[0][0].set_ylim(top=4.0 * axes[0][0].get_ylim()[1])
    below = " (▼: below 0.00001)" if any(row["error"] < FLOOR for row in rows) else ""
    axes[0][0].set_ylabel(f"largest error of a probability{below}")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
