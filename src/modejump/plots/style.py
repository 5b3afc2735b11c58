"""What the plots have in common: colours, axes without clutter, and Matplotlib itself."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from modejump.core.errors import InputError

STRONG, WEAK, ACCENT, GREY = "#1f5f8b", "#a9c6da", "#d1603d", "#6b7280"


def import_pyplot() -> Any:
    """Matplotlib's pyplot, or one sentence that says how to get it."""
    try:
        return import_module("matplotlib.pyplot")
    except ImportError:
        raise InputError("plots need Matplotlib, which is not installed; run: pip install 'modejump[plots]'.") from None


def axes_or_new(ax: Any, figsize: tuple[float, float]) -> Any:
    """The axes given, or those of a new figure."""
    if ax is not None:
        return ax
    return import_pyplot().subplots(figsize=figsize, layout="constrained")[1]


def tidy(ax: Any) -> None:
    """Take the frame's upper and right side away."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(colors=GREY, labelcolor="black")
