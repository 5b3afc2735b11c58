"""What the columns of a table look like: a typical value and a range of each, from which effect curves start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from modejump.data.coding import TableSpec
from modejump.data.markers import MarkerSpec

# Numbers looked at in all, so that a look at a long table costs little; rows at least.
_CELLS, _ROWS = 4_000_000, 200
# Columns of at most so many different numbers are listed by these.
_FEW = 12
# A range reaches from one of these quantiles to the other.
_RANGE = (0.05, 0.95)


class Covariate(NamedTuple):
    """One column of a table.

    Attributes
    ----------
    name : str
        Its name.
    typical : object
        The median of numbers; of factors and of numbers with few values the most frequent one.
    values : tuple
        The levels, or all values where there are few, or the two ends of the range.
    few : bool
        Whether ``values`` are all that there are.
    """

    name: str
    typical: Any
    values: tuple[Any, ...]
    few: bool

    def grid(self, points: int) -> list[Any]:
        """Values for a curve."""
        return list(self.values) if self.few else np.linspace(self.values[0], self.values[1], points).tolist()


def describe_covariates(table: Any) -> tuple[Covariate, ...] | None:
    """Typical values and ranges of the columns of the table of a fit; None where its columns are not at hand.

    Parameters
    ----------
    table : Table or Chunks
        What was fitted. Of a formula only the design is there, and of chunks nothing.
    """
    spec = table.spec
    if not hasattr(table, "design") or not isinstance(spec, TableSpec | MarkerSpec):
        return None
    width = table.design.shape[1]
    step = max(1, -(-len(table.design) // max(_ROWS, _CELLS // max(width, 1))))
    design = np.asarray(table.design[::step])
    weight = np.ones(len(design)) if table.weights is None else table.weights[::step]
    if not weight.sum() > 0.0:
        weight = np.ones(len(design))
    if isinstance(spec, MarkerSpec):
        return _markers(spec, design, weight)
    found, start = [], 0
    for column in spec.columns:
        part = design[:, start : start + column.width]
        start += column.width
        if column.levels is None:
            found.append(_numbers(column.name, part[:, 0], weight))
        else:
            share = weight @ part[:, : max(len(column.coded), 1)]
            rest = [] if column.indicators else [weight.sum() - share.sum()]
            likely = int(np.argmax([*rest, *share]))
            found.append(Covariate(column.name, column.levels[likely], tuple(column.levels), True))
    return tuple(found)


def _numbers(name: str, values: np.ndarray, weight: np.ndarray) -> Covariate:
    order = np.argsort(values, kind="stable")
    ordered, held = values[order], np.cumsum(weight[order])
    low, middle, high = (
        float(ordered[min(int(np.searchsorted(held, q * held[-1])), len(ordered) - 1)])
        for q in (_RANGE[0], 0.5, _RANGE[1])
    )
    different = np.unique(values)
    if len(different) > _FEW:
        return Covariate(name, middle, (low, high), False)
    share = [float(weight[values == value].sum()) for value in different]
    whole = len(different) <= 2
    return Covariate(
        name, float(different[int(np.argmax(share))]) if whole else middle, tuple(different.tolist()), True
    )


def _markers(spec: MarkerSpec, design: np.ndarray, weight: np.ndarray) -> tuple[Covariate, ...]:
    """Columns of markers: the most frequent genotype, or 0 or 1."""
    usual = {marker.column: float(marker.usual) for marker in spec.markers}
    values = (0.0, 1.0, 2.0) if spec.coding == "genotype" else (0.0, 1.0)
    fixed = {name: design[:, len(spec.markers) + j] for j, name in enumerate(spec.fixed)}
    return tuple(
        _numbers(name, fixed[name], weight) if name in fixed else Covariate(name, usual.get(j, 0.0), values, True)
        for j, name in enumerate(spec.columns)
    )


def describe_frame(frame: pd.DataFrame) -> tuple[Covariate, ...]:
    """The same of rows that the user gives."""
    found = []
    for name in frame.columns:
        column = frame[name].dropna()
        if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
            values = column.to_numpy(np.float64)
            found.append(_numbers(str(name), values, np.ones(len(values))))
        else:
            counts = column.value_counts().sort_index()
            levels = tuple(counts.index)
            found.append(Covariate(str(name), levels[int(np.argmax(counts.to_numpy()))], levels, True))
    return tuple(found)


def typical_rows(covariates: Sequence[Covariate], column: str, values: Sequence[Any]) -> pd.DataFrame:
    """Rows in which one column has these values, and all others are typical."""
    made = {c.name: [c.typical] * len(values) if c.name != column else list(values) for c in covariates}
    return pd.DataFrame(made)


def covariates_to_list(covariates: Sequence[Covariate] | None) -> list[list[Any]] | None:
    """Plain form for storage."""
    return None if covariates is None else [[c.name, c.typical, list(c.values), c.few] for c in covariates]


def covariates_from_list(stored: Mapping[str, Any]) -> tuple[Covariate, ...] | None:
    """Inverse of `covariates_to_list`, from what was stored with an estimator."""
    rows = stored.get("covariates")
    if rows is None:
        return None
    return tuple(Covariate(str(name), typical, tuple(values), bool(few)) for name, typical, values, few in rows)
