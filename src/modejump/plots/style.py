"""What the plots have in common: one palette, axes without clutter, and Matplotlib itself.

The colours differ in lightness as well as in hue, so that they can be told apart by people who do not see red or green,
and on paper without colour.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.posterior.posterior import Posterior

# What a picture is about, what stands behind it, and what stands out; text and guide lines.
STRONG, WEAK, ACCENT, GREY = "#1f5f8b", "#a9c6da", "#d1603d", "#6b7280"
# Two more for pictures of several lines, and a background for boxes.
AMBER, DARK, PALE = "#e0b040", "#22333b", "#e8eef1"
# Colours of lines, in their order.
CYCLE = (STRONG, ACCENT, AMBER, DARK)


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


def colour_map() -> Any:
    """Colours of images: from almost white for small numbers to almost black for large ones."""
    import_pyplot()
    return import_module("matplotlib.colors").LinearSegmentedColormap.from_list(
        "modejump", ["#f4f8fa", WEAK, STRONG, DARK]
    )


def tidy(ax: Any) -> None:
    """Take the frame's upper and right side away."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(colors=GREY, labelcolor="black")


def shorten(name: Any, longest: int = 34) -> str:
    """A name that fits beside a picture."""
    text = str(name)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def posterior_of(model: Any, caller: str) -> Posterior:
    """The posterior of a fitted estimator, or the one given."""
    found = model if isinstance(model, Posterior) else getattr(model, "posterior_", None)
    if hasattr(model, "estimators_"):
        raise InputError(
            f"{caller} draws one posterior, and this model has one for each class; give model.estimators_[0]."
        )
    if not isinstance(found, Posterior):
        raise InputError(f"{caller} takes a fitted model or its posterior; call fit first.")
    return found


def read_count(value: Any, name: str) -> int:
    """A number of things to show."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1; got {value!r}.")
    return int(value)


def read_share(value: Any, name: str) -> float:
    """A number between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < 1.0:
        raise InputError(f"{name} must be a number from 0 to 1, such as 0.01; got {value!r}.")
    return float(value)
