"""Which textbook laws were recovered, under which noise, by whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from modejump.plots.style import ACCENT, GREY, STRONG, import_pyplot

Rows = Sequence[Mapping[str, Any]]


def plot_recovery(rows: Rows, *, ax: Any) -> Any:
    """Draw one square for each law, program and noise, the darker the more of its runs recovered the law.

    Parameters
    ----------
    rows : sequence of mapping
        Rows of :class:`modejump.experiments.physics.physics_study.PhysicsStudy`, of one field or of several.
    ax : matplotlib Axes
        Where to draw.

    Returns
    -------
    matplotlib Axes
    """
    laws = list(dict.fromkeys(row["title"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    noises = sorted({row["noise"] for row in rows})
    gap = 0.5
    place = {(m, s): i * (len(noises) + gap) + j for i, m in enumerate(methods) for j, s in enumerate(noises)}
    shares: dict[tuple[str, str, float], list[bool]] = {}
    for row in rows:
        shares.setdefault((row["title"], row["method"], row["noise"]), []).append(row["recovered"])
    pyplot = import_pyplot()
    for (title, method, noise), found in shares.items():
        share = float(np.mean(found))
        colour = STRONG if method == methods[0] else ACCENT
        x, y = place[method, noise], laws.index(title)
        ax.add_patch(pyplot.Rectangle((x - 0.44, y - 0.44), 0.88, 0.88, color=colour, alpha=share, linewidth=0))
        ax.add_patch(
            pyplot.Rectangle((x - 0.44, y - 0.44), 0.88, 0.88, fill=False, color=GREY, alpha=0.5, linewidth=0.5)
        )
    ax.set_xlim(-0.6, max(place.values()) + 0.6)
    ax.set_ylim(len(laws) - 0.4, -0.6)
    ax.set_yticks(range(len(laws)), laws, fontsize=8)
    ax.set_xticks(list(place.values()), [f"{100 * s:g}" for _, s in place], fontsize=7)
    for i, method in enumerate(methods):
        middle = i * (len(noises) + gap) + (len(noises) - 1) / 2
        ax.text(middle, -0.65, method, ha="center", va="bottom", fontsize=8, color=GREY)
    ax.set_aspect("equal")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, colors=GREY, labelcolor="black")
    return ax


def draw_recovery(rows: Rows, path: Path) -> None:
    """Write a picture with one panel for each field.

    Parameters
    ----------
    rows : sequence of mapping
        Rows of :class:`modejump.experiments.physics.physics_study.PhysicsStudy`.
    path : path
        File of the picture.
    """
    pyplot = import_pyplot()
    fields = list(dict.fromkeys(row["field"] for row in rows))
    across = min(3, len(fields))
    down = -(-len(fields) // across)
    columns = len({(row["method"], row["noise"]) for row in rows})
    with pyplot.ioff():
        figure, axes = pyplot.subplots(
            down, across, figsize=((2.9 + 0.24 * columns) * across, 2.7 * down), squeeze=False, layout="constrained"
        )
    for ax in axes.flat[len(fields) :]:
        ax.set_visible(False)
    for ax, field in zip(axes.flat, fields):
        plot_recovery([row for row in rows if row["field"] == field], ax=ax)
        ax.set_title(field, fontsize=11, pad=16)
        ax.set_xlabel("noise, %", fontsize=8, color=GREY)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
