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
    """Rows in memory, as numbers.

    Attributes
    ----------
    spec : TableSpec, FormulaSpec, MarkerSpec or WideSpec
        How tables become columns.
    design : ndarray of shape (n, columns)
        The columns.
    response : ndarray of shape (n,)
        The response; of labels 1 for the second class and 0 for the first.
    weights, offset : ndarray of shape (n,), optional
        Case weights, and the known part of the linear predictor.
    target, offset_name : str
        Names of the response and of the offset; ``offset_name`` is None without one.
    classes : ndarray, optional
        The two labels.
    """

    spec: Spec
    design: np.ndarray
    response: np.ndarray
    weights: np.ndarray | None
    offset: np.ndarray | None
    target: str = "y"
    offset_name: str | None = None
    classes: np.ndarray | None = None

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
    """Read what ``fit`` was given.

    Parameters
    ----------
    X : data frame or array of shape (n, columns)
        The covariates.
    y : array of shape (n,)
        The response.
    sample_weight, offset : array of shape (n,), optional
        Case weights, and the known part of the linear predictor.
    groups : mapping of str to sequence of columns, optional
        Columns that enter and leave together.
    indicators : bool
        Whether a factor is one indicator for each level instead of contrasts with the first.
    missing : {"refuse", "median"}
        What to do about missing values.
    labels : bool
        Whether the response is one of two classes.
    estimator : object, optional
        Named in the messages of scikit-learn's checks.
    """
    spec, design = learn_table(X, groups, estimator=estimator, indicators=indicators, missing=missing)
    # Sums depend on the order of the numbers in memory: one and the same whatever held them before.
    return read_rows(spec, in_rows(design), y, sample_weight, offset, labels)


def read_wide_table(X: Any, y: Any, sample_weight: Any = None, offset: Any = None, *, labels: bool = False) -> Table:
    """Read what ``fit`` was given, where X has very many columns: they stay as they are.

    Parameters
    ----------
    X : data frame or array of shape (n, columns)
        The covariates, all of them numbers.
    y : array of shape (n,)
        The response.
    sample_weight, offset : array of shape (n,), optional
        Case weights, and the known part of the linear predictor.
    labels : bool
        Whether the response is one of two classes.
    """
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
    """Read what ``fit_formula`` was given.

    Parameters
    ----------
    formula : str
        For instance ``"y ~ a + C(f) + a:b"``.
    data : data frame
        The table with its columns.
    sample_weight, offset : array of shape (n,), optional
        Case weights, and the known part of the linear predictor.
    labels : bool
        Whether the response is one of two classes.
    python : bool
        Whether any Python may stand in the formula.
    """
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
