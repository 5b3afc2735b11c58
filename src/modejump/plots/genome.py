"""Inclusion probabilities of markers along the genome."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.data.markers import MarkerSpec
from modejump.plots.style import ACCENT, GREY, STRONG, WEAK, axes_or_new, tidy
from modejump.posterior.credible_sets import covariate_inclusion
from modejump.posterior.posterior import Posterior

_SHADES = (STRONG, WEAK)
# Markers above the threshold that are named, leading ones first, where there is room.
_NAMED = 12
# Part of the genome's length between two chromosomes.
_GAP = 0.01
# Sizes of names and of ticks in points, width of a letter as part of the size, and space between two of them.
_NAME_SIZE, _TICK_SIZE, _LETTER, _SPACE = 8.0, 9.0, 0.64, 4.0
# Below this a marker is a point without a stem.
_STEM = 0.02
_CODED = re.compile(r"_[dr]$")


def plot_genome(
    model: Any, chromosome: Any = None, position: Any = None, *, threshold: float = 0.5, ax: Any = None
) -> Any:
    """Draw the inclusion probability of each marker at its place in the genome; leading markers are named.

    After a search among features, such as logic trees, the probability of a marker is that of all models in which some
    feature has it.

    Parameters
    ----------
    model : estimator, Posterior, Series, or data frame with a column "probability"
        A fitted estimator or its posterior, or a table of probabilities by marker.
    chromosome, position : Series or sequence, optional
        Where the markers are: by name, or in the order of the columns at fit (or of the table). Dominant and recessive
        markers ``name_d`` and ``name_r`` are also found under ``name``. Without positions markers stand side by side in
        their order.
    threshold : float
        Markers of this probability or more stand out.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.

    Examples
    --------
    >>> from modejump.plots import plot_genome
    >>> found = pd.Series([0.01, 0.9, 0.02, 0.6], index=["rs1", "rs2", "rs3", "rs4"])
    >>> ax = plot_genome(found, chromosome=[1, 1, 2, 2], position=[10, 20, 5, 40])
    >>> [text.get_text() for text in ax.texts]
    ['rs2', 'rs4']
    """
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0.0 <= threshold <= 1.0:
        raise InputError(f"threshold must be a number from 0 to 1; got {threshold!r}.")
    probability = _probabilities(model)
    if len(probability) == 0:
        raise InputError("there is no marker to draw.")
    names = [str(name) for name in probability.index]
    values = probability.to_numpy(np.float64)
    where = None if chromosome is None else _placed(chromosome, names, "chromosome")
    places, parts = _places(where, None if position is None else _placed(position, names, "position"), len(names))
    ax = axes_or_new(ax, (9.0, 3.2))
    high = values >= threshold
    for number, (_, members) in enumerate(parts):
        _draw(ax, places[members], values[members], _SHADES[number % 2], 5.0)
    _draw(ax, places[high], values[high], ACCENT, 18.0)
    ax.axhline(threshold, color=GREY, linewidth=0.8, linestyle=":", zorder=0)
    _frame(ax, places, parts, named=where is not None, positions=position is not None)
    leading = [i for i in np.argsort(-values, kind="stable").tolist() if high[i]][:_NAMED]
    _name(ax, [(float(places[i]), float(values[i]), names[i]) for i in leading])
    return ax


def _probabilities(model: Any) -> pd.Series:
    """Probability of each marker, in the order of the columns at fit."""
    if isinstance(model, pd.DataFrame):
        if "probability" not in model:
            raise InputError('the table of markers has no column "probability".')
        return model["probability"]
    if isinstance(model, pd.Series):
        return model
    posterior = model if isinstance(model, Posterior) else getattr(model, "posterior_", None)
    if not isinstance(posterior, Posterior):
        raise InputError("plot_genome takes a fitted model, its posterior, or a table of probabilities by marker.")
    found = covariate_inclusion(posterior)
    spec, fixed = getattr(model, "table_", None), set(posterior.problem.always_in)
    known_columns = spec.columns if isinstance(spec, MarkerSpec) else getattr(model, "feature_names_in_", found.index)
    columns = [name for name in map(str, known_columns) if name not in fixed]
    # Markers made of a column stand where it stood; columns that are in no model held have probability zero.
    made: dict[str, list[str]] = {}
    known = set(columns)
    for name in found.index:
        made.setdefault(name if name in known else _CODED.sub("", name), []).append(name)
    order = [name for column in columns for name in made.pop(column, [column])]
    return found.reindex(order + [name for rest in made.values() for name in rest], fill_value=0.0)


def _placed(given: Any, names: Sequence[str], what: str) -> np.ndarray:
    """Chromosome or position of each marker."""
    if not isinstance(given, pd.Series):
        values = np.asarray(given)
        if values.ndim != 1 or len(values) != len(names):
            raise InputError(
                f"{what} must have one value for each of the {len(names)} markers, or be a Series by name; got an "
                f"array of shape {values.shape}."
            )
    else:
        known = set(given.index)
        keys = [name if name in known else _CODED.sub("", name) for name in names]
        lacking = [name for name, key in zip(names, keys) if key not in known]
        if lacking:
            raise InputError(f"{what} has no entry for the marker {lacking[0]!r}; add it.")
        values = given.loc[~given.index.duplicated()].loc[keys].to_numpy()
    if what == "position":
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            values = np.full(len(names), np.nan)
        if not np.isfinite(values).all():
            raise InputError("position must hold numbers only; check the positions of the markers.")
        return values
    return values.astype(str)


def _places(
    chromosome: np.ndarray | None, position: np.ndarray | None, count: int
) -> tuple[np.ndarray, list[tuple[str, np.ndarray]]]:
    """Where each marker stands on the axis, and the markers of each chromosome, one after the other."""
    along = np.arange(count, dtype=np.float64) if position is None else position
    if chromosome is None:
        return along, [("", np.arange(count))]
    first = {name: i for i, name in reversed(list(enumerate(chromosome.tolist())))}
    # Numbered ones by number, then X, Y and others as they come.
    ordered = sorted(first, key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else first[name]))
    parts = [(name, np.flatnonzero(chromosome == name)) for name in ordered]
    if position is None:
        along = np.empty(count)
        for _, members in parts:
            along[members] = np.arange(len(members))
    lengths = [float(np.ptp(along[members])) for _, members in parts]
    gap, places, start = _GAP * sum(lengths) or 1.0, np.empty(count), 0.0
    for (_, members), length in zip(parts, lengths):
        places[members] = start + along[members] - along[members].min()
        start += length + gap
    return places, parts


def _draw(ax: Any, places: np.ndarray, values: np.ndarray, colour: str, size: float) -> None:
    """Points with stems; as an image inside vector graphics, because there may be a million."""
    stem = values >= _STEM
    ax.vlines(places[stem], 0.0, values[stem], color=colour, linewidth=1.0, rasterized=True)
    ax.scatter(places, values, s=size, color=colour, linewidths=0, rasterized=True)


def _frame(ax: Any, places: np.ndarray, parts: list[tuple[str, np.ndarray]], named: bool, positions: bool) -> None:
    """Axes and their labels; names of short chromosomes give way to those before them."""
    low, high = float(places.min()), float(places.max())
    margin = 0.02 * (high - low) or 1.0
    ax.set_xlim(low - margin, high + margin)
    ax.set_ylim(-0.02, 1.12)
    ax.set_yticks([0.0, 0.5, 1.0])
    ax.set_ylabel("inclusion probability")
    tidy(ax)
    if not named:
        ax.set_xlabel("position" if positions else "marker, in order")
        return
    points = _width_in_points(ax) / (high - low + 2.0 * margin)
    ticks: list[tuple[float, str]] = []
    for name, members in parts:
        middle = 0.5 * float(places[members].min() + places[members].max())
        before = len(name + ticks[-1][1]) if ticks else 0
        if not ticks or points * (middle - ticks[-1][0]) >= 0.5 * before * _LETTER * _TICK_SIZE + _SPACE:
            ticks.append((middle, name))
    ax.set_xticks([place for place, _ in ticks], [name for _, name in ticks], fontsize=_TICK_SIZE)
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel("chromosome")


def _width_in_points(ax: Any) -> float:
    """Width of the axes; before a figure is laid out it is not known better."""
    return float(72.0 * ax.figure.get_size_inches()[0] * ax.get_position().width)


def _name(ax: Any, markers: Sequence[tuple[float, float, str]]) -> None:
    """Names above the leading markers, but for those that would cover a name already there."""
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    width, height = _width_in_points(ax), 72.0 * ax.figure.get_size_inches()[1] * ax.get_position().height
    taken: list[tuple[float, float, float]] = []
    for place, value, name in markers:
        x, y = width * (place - left) / (right - left), height * (value - bottom) / (top - bottom)
        half = 0.5 * len(name) * _LETTER * _NAME_SIZE
        side, middle = "center", x
        if x < half:
            side, middle = "left", x + half
        elif x > width - half:
            side, middle = "right", x - half
        if any(abs(middle - m) < half + h + _SPACE and abs(y - v) < 1.5 * _NAME_SIZE for m, v, h in taken):
            continue
        taken.append((middle, y, half))
        ax.annotate(
            name, (place, value), xytext=(0, 4), textcoords="offset points", ha=side, va="bottom", color=GREY,
            fontsize=_NAME_SIZE,
        )  # fmt: skip
