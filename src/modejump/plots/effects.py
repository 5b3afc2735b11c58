"""Pictures of effects: curves with bands, densities of coefficients, and a law against the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.plots.style import ACCENT, GREY, STRONG, WEAK, axes_or_new, shorten, tidy

_POINTS = 200


def plot_effect(table: pd.DataFrame, *, name: str | None = None, ax: Any = None) -> Any:
    """Draw an effect curve with its band.

    Parameters
    ----------
    table : data frame
        ``value`` of the covariate, and ``mean``, ``lower`` and ``upper`` of the effect there. Values that are not
        numbers are levels of a factor: they are drawn as points with whiskers.
    name : str, optional
        Name of the covariate, for the axis; that of the table's index by default.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.

    Examples
    --------
    >>> import pandas as pd
    >>> from modejump.plots import plot_effect
    >>> curve = pd.DataFrame({"value": [0, 1], "mean": [2.0, 3.0], "lower": [1.5, 2.0], "upper": [2.5, 4.0]})
    >>> ax = plot_effect(curve, name="dose")
    >>> ax.get_xlabel(), ax.lines[0].get_ydata().tolist()
    ('dose', [2.0, 3.0])
    """
    wanted = ["value", "mean", "lower", "upper"]
    if not isinstance(table, pd.DataFrame) or not set(wanted) <= set(table.columns) or not len(table):
        raise InputError("plot_effect takes a data frame with the columns value, mean, lower and upper.")
    ax = axes_or_new(ax, (5.6, 3.6))
    value, mean, lower, upper = (table[column].to_numpy() for column in wanted)
    if np.issubdtype(value.dtype, np.number) and not np.issubdtype(value.dtype, np.bool_):
        order = np.argsort(value, kind="stable")
        ax.fill_between(value[order], lower[order], upper[order], color=WEAK, alpha=0.5, linewidth=0)
        ax.plot(value[order], mean[order], color=STRONG, linewidth=1.6)
    else:
        places = np.arange(len(value))
        ax.vlines(places, lower, upper, color=WEAK, linewidth=4.0)
        ax.plot(places, mean, "o", color=STRONG, markersize=6)
        ax.set_xticks(places, [shorten(level, 16) for level in value])
        ax.set_xlim(-0.6, len(value) - 0.4)
    ax.set_xlabel(name if name is not None else str(table.index.name or "value"))
    ax.set_ylabel("effect")
    tidy(ax)
    return ax


def plot_coefficient(grid: Any, density: Any, zero: float = 0.0, *, name: str = "coefficient", ax: Any = None) -> Any:
    """Draw the posterior of a coefficient: a density where its term is in, and a spike at zero where it is not.

    The area below the curve and the height of the spike add up to one; the spike has an axis of its own, on the right.

    Parameters
    ----------
    grid, density : array of shape (points,)
        Values of the coefficient in rising order, and its density there.
    zero : float
        Probability that the coefficient is zero, because its term is not in the model.
    name : str
        Name of the term.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The axes of the density; those of the spike share its values.

    Examples
    --------
    >>> import numpy as np
    >>> from modejump.plots import plot_coefficient
    >>> grid = np.linspace(-3, 3, 101)
    >>> ax = plot_coefficient(grid, 0.8 * np.exp(-grid**2 / 2) / np.sqrt(2 * np.pi), zero=0.2, name="bmi")
    >>> ax.get_title()
    'bmi: zero with probability 0.20'
    """
    x, height = np.asarray(grid, dtype=np.float64), np.asarray(density, dtype=np.float64)
    if x.ndim != 1 or x.shape != height.shape or len(x) < 2 or not (np.diff(x) > 0.0).all() or (height < 0.0).any():
        raise InputError("plot_coefficient takes a rising grid of values and a density of at least 0 at each of them.")
    if not 0.0 <= zero <= 1.0:
        raise InputError(f"zero is the probability of no effect, from 0 to 1; got {zero!r}.")
    ax = axes_or_new(ax, (5.6, 3.4))
    ax.fill_between(x, 0.0, height, color=WEAK, alpha=0.5, linewidth=0)
    ax.plot(x, height, color=STRONG, linewidth=1.6)
    ax.set_ylim(0.0, None)
    ax.set_xlabel(f"coefficient of {shorten(name)}" if name != "coefficient" else name)
    ax.set_ylabel("density, where the term is in", color=STRONG)
    ax.set_title(f"{shorten(name)}: zero with probability {zero:.2f}", fontsize=10)
    tidy(ax)
    spike = ax.twinx()
    if zero > 0.0:
        spike.vlines(0.0, 0.0, zero, color=ACCENT, linewidth=3.0)
        spike.plot([0.0], [zero], "o", color=ACCENT, markersize=6)
    spike.set_ylim(0.0, 1.05)
    spike.set_ylabel("probability of zero", color=ACCENT)
    spike.spines["top"].set_visible(False)
    return ax


def plot_law(
    law: Any, X: pd.DataFrame, y: Any, over: str, *, at: Mapping[str, Any] | None = None, level: float = 0.9,
    ax: Any = None,
) -> Any:  # fmt: skip
    """Draw a law over one covariate, with the data; other covariates stay at their median.

    Points are all rows, also those whose other covariates are far from the medians: they scatter about the curve for
    that reason, too.

    Parameters
    ----------
    law : estimator or LawFit
        A fitted regressor, whose prediction intervals are a band about the curve, or what ``modejump.fit_law`` returns.
    X, y : data frame, array
        The rows.
    over : str
        Name of the covariate to follow.
    at : mapping of str to value, optional
        Values of other covariates, instead of their median (or most frequent level).
    level : float
        Level of the band.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from modejump import fit_law
    >>> from modejump.plots import plot_law
    >>> X = pd.DataFrame({"S": np.linspace(0.1, 5, 40)})
    >>> y = 2 * X["S"] / (X["S"] + 0.7) + 0.01 * np.random.default_rng(1).normal(size=40)
    >>> ax = plot_law(fit_law("S/(S + c0)", X, y), X, y, "S")
    >>> ax.get_xlabel(), len(ax.lines[0].get_xdata())
    ('S', 40)
    """
    if not isinstance(X, pd.DataFrame) or over not in X.columns:
        raise InputError(f"plot_law takes a data frame with the column {over!r} to draw over.")
    if not pd.api.types.is_numeric_dtype(X[over]):
        raise InputError(f"column {over!r} holds no numbers, so there is no curve over it.")
    unknown = [name for name in at or {} if name not in X.columns]
    if unknown:
        raise InputError(f"at names {unknown[0]!r}, which is no column of the table.")
    values = np.linspace(float(X[over].min()), float(X[over].max()), _POINTS)
    rows = pd.concat([X.iloc[[0]]] * _POINTS, ignore_index=True)
    for column in X.columns:
        numeric = pd.api.types.is_numeric_dtype(X[column]) and not pd.api.types.is_bool_dtype(X[column])
        typical = X[column].median() if numeric else X[column].mode().iloc[0]
        given = (at or {}).get(column, typical)
        rows[column] = (
            values if column == over else pd.Series([given] * _POINTS, dtype=None if numeric else X[column].dtype)
        )
    ax = axes_or_new(ax, (5.6, 3.8))
    ax.plot(X[over], np.asarray(y, dtype=np.float64), "o", color=STRONG, markersize=3.5, alpha=0.5, markeredgewidth=0)
    if hasattr(law, "posterior_"):
        predicted = law.predict(rows, interval=level)
        ax.fill_between(values, predicted["lower"], predicted["upper"], color=ACCENT, alpha=0.18, linewidth=0)
        curve = predicted["mean"].to_numpy()
    else:
        curve = np.asarray(law.predict(rows))
    ax.plot(values, curve, color=ACCENT, linewidth=1.6)
    others = [name for name in X.columns if name != over]
    if others:
        told = ", ".join(f"{name} = {rows[name].iloc[0]:.3g}" if pd.api.types.is_numeric_dtype(rows[name]) else
                         f"{name} = {rows[name].iloc[0]}" for name in others[:4])  # fmt: skip
        ax.set_title(f"at {told}" + (", …" if len(others) > 4 else ""), fontsize=9, color=GREY)
    ax.set_xlabel(over)
    ax.set_ylabel(str(getattr(y, "name", None) or "response"))
    tidy(ax)
    return ax
