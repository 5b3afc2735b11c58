"""The user's rows in memory, read once: numeric columns and how they were made, response, weights, and offset."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modejump.data.coding import TableSpec, learn_table
from modejump.data.formulas import FormulaSpec, learn_formula
from modejump.data.markers import MarkerSpec
from modejump.data.response import check_varies, name_of, read_labels, read_offset, read_response, read_weights
from modejump.data.rows import in_rows, merge_rows
from modejump.data.wide_table import WideSpec, read_columns

# How tables become columns, learnt at fit and applied again at predict.
Spec = TableSpec | FormulaSpec | MarkerSpec | WideSpec


@dataclass(frozen=True, eq=False)
class Table:
    """Rows in memory, as numbers."""

    spec: Spec  # how tables become columns
    design: np.ndarray  # (n, columns): the columns
    response: np.ndarray  # (n,): the response; of labels 1 for the second class and 0 for the first
    weights: np.ndarray | None  # (n,): case weights
    offset: np.ndarray | None  # (n,): the known part of the linear predictor
    target: str = "y"  # name of the response
    offset_name: str | None = None
    classes: np.ndarray | None = None  # the two labels

    @property
    def used(self) -> np.ndarray:
        """The response where rows of weight zero, which do not count, have one that others have too."""
        if self.weights is None:
            return self.response
        return np.where(self.weights > 0, self.response, self.response[np.argmax(self.weights)])

    def merged(self) -> Table:
        """Equal rows as one, in one order; large tables come back as they are."""
        design, response, weights, offset = merge_rows(self.design, self.response, self.weights, self.offset)
        return dataclasses.replace(self, design=design, response=response, weights=weights, offset=offset)


def read_table(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    offset: Any = None,
    *,
    groups: Mapping[str, Sequence[str | int]] | None = None,
    indicators: bool = False,
    missing: str = "refuse",
    labels: bool = False,
    estimator: Any = None,
) -> Table:
    """Read what ``fit`` was given."""
    spec, design = learn_table(X, groups, estimator=estimator, indicators=indicators, missing=missing)
    # Sums depend on the order of the numbers in memory: one and the same whatever held them before.
    return read_rows(spec, in_rows(design), y, sample_weight, offset, labels)


def read_wide_table(X: Any, y: Any, sample_weight: Any = None, offset: Any = None, *, labels: bool = False) -> Table:
    """Read what ``fit`` was given, where X has very many columns: they stay as they are."""
    design, names = read_columns(X)
    return read_rows(WideSpec(names), design, y, sample_weight, offset, labels)


def read_formula(
    formula: str,
    data: Any,
    sample_weight: Any = None,
    offset: Any = None,
    *,
    labels: bool = False,
    python: bool = False,
) -> Table:
    """Read what ``fit_formula`` was given."""
    spec, design, y = learn_formula(formula, data, labels, python)
    return read_rows(spec, in_rows(design), y, sample_weight, offset, labels)


def read_rows(spec: Spec, design: np.ndarray, y: Any, sample_weight: Any, offset: Any, labels: bool) -> Table:
    """A table from its columns, as numbers, and what ``fit`` was given beside them."""
    rows, classes = len(design), None
    weights, known = read_weights(sample_weight, rows), read_offset(offset, rows)
    if labels:
        classes, response = read_labels(y, weights, rows)
    else:
        response = read_response(y, rows)
        # Beside an offset that varies, a constant response says something: one event for each row, say.
        if known is None or np.ptp(known) == 0.0:
            check_varies(response, weights)
    name = None if offset is None else name_of(offset, "offset")
    return Table(spec, design, response, weights, known, name_of(y, "y"), name, classes)
