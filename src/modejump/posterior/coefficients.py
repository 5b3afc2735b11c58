"""Model-averaged coefficients on the original scale of the columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from modejump.problem.problem import Problem

INTERCEPT = "(intercept)"


def labelled(
    problem: Problem,
    values: Mapping[str, np.ndarray],
    columns: Sequence[str] | None = None,
    base_columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Values of every coefficient as a frame: the intercept, columns always in, then the candidates.

    Columns of a term of several are called by its name with ``[1]``, ``[2]``, ... behind it, unless names are given.
    """
    names = _base_names(problem, base_columns) + _candidate_names(problem, columns)
    return pd.DataFrame(values, index=pd.Index(names, name="column", dtype=object))


def _candidate_names(problem: Problem, columns: Sequence[str] | None) -> list[str]:
    if columns is not None:
        return list(columns)
    names = []
    for name, count in zip(problem.names, np.diff(problem.data.first), strict=True):
        names += [name] if count == 1 else [f"{name}[{i + 1}]" for i in range(count)]
    return names


def _base_names(problem: Problem, base_columns: Sequence[str] | None) -> list[str]:
    wanted = problem.data.base - int(problem.intercept)
    if base_columns is None:
        plain = len(problem.always_in) == wanted
        base_columns = problem.always_in if plain else [f"(always in)[{i + 1}]" for i in range(wanted)]
    return ([INTERCEPT] if problem.intercept else []) + list(base_columns)
