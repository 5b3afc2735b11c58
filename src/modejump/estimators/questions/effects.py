"""Effect curves: the mean response as one column moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import narwhals as nw
import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.data.coding import is_frame
from modejump.data.formulas import FormulaSpec
from modejump.estimators.questions.typical import Covariate, describe_frame, typical_rows
from modejump.posterior.prediction.distribution import NewRows, PredictiveDistribution
from modejump.posterior.questions.coefficient_posteriors import CoefficientPosteriors, check_level

# Points of a curve, rows that it is averaged over at most, and draws behind a band that is averaged over rows.
_POINTS, _ROWS, _DRAWS = 41, 1000, 1000


def effect_curve(
    model: Any, column: str | int, grid: Any, level: float, X: Any, average: bool, kind: str, offset: float | None
) -> pd.DataFrame:
    """See :meth:`Questions.effect`."""
    level = check_level(level)
    rows = None if X is None else _frame(model, X)
    covariates = model._covariates_seen if rows is None else describe_frame(rows)
    if covariates is None:
        raise InputError(
            "the fit did not keep the columns of its table (a formula, rows read in chunks, or very many columns), so "
            "there is no typical row; give rows of the table as X=."
        )
    if average and rows is None:
        raise InputError("an effect averaged over rows needs the rows; give them as X=.")
    name = _name(column, [c.name for c in covariates])
    values = _grid(grid, next(c for c in covariates if c.name == name))
    predictor = model._fitted.predictor(kind)
    if average:
        assert rows is not None
        curves = _averaged(model, rows, name, values, predictor, level, kind, offset)
    else:
        new = _new_rows(model, typical_rows(covariates, name, values), kind, offset)
        ends = predictor.mean_quantiles(new, _ends(level))
        curves = np.column_stack([predictor.mean(new), ends])
    return pd.DataFrame({"value": values} | dict(zip(("mean", "lower", "upper"), curves.T, strict=True)))


def _ends(level: float) -> np.ndarray:
    return np.array([0.5 - level / 2, 0.5 + level / 2])


def _frame(model: Any, X: Any) -> pd.DataFrame:
    """Rows as a pandas frame with the names of the fit."""
    if is_frame(X):
        frame = cast(pd.DataFrame, X if isinstance(X, pd.DataFrame) else nw.from_native(X).to_pandas())
        frame = frame.rename(columns=str)
        missing = [name for name in model.table_.variables if name not in frame.columns]
        if missing and getattr(model.table_, "named", True):
            raise InputError(f"the rows have no column {missing[0]!r}, which the fit used; add it.")
        if not missing:
            return frame[list(model.table_.variables)]
    values = np.asarray(X)
    names = list(model.table_.variables)
    if values.ndim != 2 or values.shape[1] != len(names):
        raise InputError(f"X has shape {values.shape}, but the fit had {len(names)} columns; give as many.")
    return pd.DataFrame(values, columns=names)


def _name(column: Any, names: Sequence[str]) -> str:
    if isinstance(column, int | np.integer) and not isinstance(column, bool) and 0 <= column < len(names):
        return names[int(column)]
    if column not in names:
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise InputError(f"the table has no column {column!r}; its columns are {shown}.")
    return str(column)


def _grid(grid: Any, covariate: Covariate) -> list[Any]:
    if grid is None:
        return covariate.grid(_POINTS)
    whole = isinstance(grid, int | np.integer) and not isinstance(grid, bool)
    if whole and grid >= 2:
        return covariate.grid(int(grid))
    try:
        values = list(grid)
    except TypeError:
        values = []
    if not values or isinstance(grid, str):
        raise InputError(
            f"grid must be a sequence of values of {covariate.name!r}, or a number of points; got {grid!r}."
        )
    return values


def _new_rows(model: Any, rows: pd.DataFrame, kind: str, offset: float | None) -> NewRows:
    """Rows as the model's columns."""
    named = isinstance(model.table_, FormulaSpec) or getattr(model, "feature_names_in_", None) is not None
    table = rows if named else rows.to_numpy(np.float64)
    known = None if offset is None else np.full(len(rows), float(offset))
    return cast(NewRows, model._new_rows(table, kind, known))


def _averaged(
    model: Any, rows: pd.DataFrame, name: str, values: Sequence[Any], predictor: PredictiveDistribution, level: float,
    kind: str, offset: float | None,
) -> np.ndarray:  # fmt: skip
    """Mean and ends of a band at each value, averaged over rows that keep their other columns."""
    rows = rows.iloc[:: max(1, -(-len(rows) // _ROWS))]
    family = predictor.problem.family
    parts = [_new_rows(model, rows.assign(**{name: [value] * len(rows)}), kind, offset) for value in values]
    if family.conjugate:
        # The mean is linear in the columns, so that its average is the mean at their averages.
        mean = NewRows(*(np.array([part[i].mean(axis=0) for part in parts]) for i in range(3)))
        return np.column_stack([predictor.mean(mean), predictor.mean_quantiles(mean, _ends(level))])
    if family.link == "inverse":
        raise InputError("an effect averaged over rows is not there for the inverse link; leave average out.")
    coef = CoefficientPosteriors(predictor).draw(_DRAWS, np.random.default_rng(0))
    base, used = predictor.problem.data.base, predictor.used
    curves = []
    for part in parts:
        eta = part.base @ coef[:, :base].T + part.x[:, used] @ coef[:, base + used].T + part.offset[:, None]
        mean_of_draw = np.asarray(family.mean(eta)).mean(axis=0)
        curves.append([mean_of_draw.mean(), *np.quantile(mean_of_draw, _ends(level))])
    return np.array(curves)
