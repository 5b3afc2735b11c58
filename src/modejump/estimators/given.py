"""What people hand in, before it is read: columns by name, sparse matrices, frames in another order."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
from sklearn.utils.validation import validate_data

from modejump.core.errors import InputError
from modejump.core.memory import need_memory
from modejump.data.coding import is_frame, open_frame
from modejump.data.sources import is_source


class Given(NamedTuple):
    """Covariates, and what goes with each row; ``named`` says which of them were columns of the frame."""

    X: Any
    y: Any
    sample_weight: Any
    offset: Any
    named: dict[str, str]


def read_given(X: Any, y: Any = None, sample_weight: Any = None, offset: Any = None) -> Given:
    """Take out of a frame the columns that are given by name, so that they are no covariates.

    Parameters
    ----------
    X : data frame, array, sparse matrix, or source of chunks
        The covariates. A sparse matrix becomes a dense array; a source reads columns by name itself.
    y, sample_weight, offset : array of shape (n,), or str, optional
        What goes with each row, or the name of its column in X.

    Examples
    --------
    >>> table = pd.DataFrame({"a": [1, 2], "b": [3, 4], "yield": [5, 6]})
    >>> given = read_given(table, "yield")
    >>> list(given.X.columns), given.y.tolist(), given.named
    (['a', 'b'], [5, 6], {'y': 'yield'})
    """
    X = dense(X)
    values = {"y": y, "sample_weight": sample_weight, "offset": offset}
    named = {what: name for what, name in values.items() if isinstance(name, str)}
    if not named or is_source(X):
        return Given(X, **values, named={})
    if not is_frame(X):
        what, name = next(iter(named.items()))
        raise InputError(
            f"{what} is the name {name!r}, and X has no named columns; give a data frame, or the values of {what}."
        )
    frame = open_frame(X)
    known = {str(name): name for name in frame.columns}
    for what, name in named.items():
        if name not in known:
            raise InputError(f"{what} is {name!r}, which is not a column of X; {nearest(name, known)}")
        values[what] = frame.get_column(known[name]).to_native()
    rest = frame.drop([known[name] for name in dict.fromkeys(named.values())])
    return Given(rest.to_native(), **values, named=named)


def nearest(name: str, known: Iterable[str]) -> str:
    """The names most like one that is unknown, as the end of a sentence.

    Examples
    --------
    >>> nearest("yeild", ["a", "yield", "field"])
    "did you mean 'yield' or 'field'?"
    """
    names = list(known)
    close = difflib.get_close_matches(name, names, n=3)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"its columns are {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}."


def dense(X: Any) -> Any:
    """A sparse matrix as an array, where memory holds it; anything else as it is."""
    if not hasattr(X, "toarray") or is_frame(X):
        return X
    size = float(np.prod(X.shape)) * X.dtype.itemsize
    need_memory(size, f"the {X.shape[1]} columns of a sparse X as a dense array", "give fewer columns or rows")
    return X.toarray()


def arranged(X: Any, names: Sequence[str], beside: Collection[str]) -> Any:
    """The columns of a frame as they were at the fit, whatever their order; others are refused by name.

    Parameters
    ----------
    X : data frame
        New rows.
    names : sequence of str
        Columns of the fit, in order.
    beside : collection of str
        Columns that were no covariates at the fit, and may be there.
    """
    frame = open_frame(X)
    given = {str(name): name for name in frame.columns}
    wanted = set(names)
    missing = [name for name in names if name not in given]
    unknown = [name for name in given if name not in wanted and name not in beside]
    if missing or unknown:
        parts = [f"lack {_listed(missing)}, which the fit had"] if missing else []
        parts += [f"have {_listed(unknown)}, which the fit did not have"] if unknown else []
        raise InputError(f"the new data {' and '.join(parts)}; give the columns of the fit.")
    order = [given[name] for name in names]
    return X if order == list(given.values()) else frame.select(order).to_native()


def _listed(names: Sequence[str]) -> str:
    some = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
    return f"the column {some}" if len(names) == 1 else f"the columns {some}"


def frame_like(X: Any, columns: Mapping[str, np.ndarray]) -> Any:
    """Columns as a frame of the kind that was handed in: polars for polars, else pandas with the rows' index."""
    if nw.dependencies.is_polars_dataframe(X):
        return nw.from_dict(dict(columns), backend="polars").to_native()
    return pd.DataFrame(columns, index=X.index if isinstance(X, pd.DataFrame) else None)


def check_names(estimator: Any, X: Any, *, reset: bool) -> None:
    """scikit-learn's check of the names and the number of columns."""
    try:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    except (TypeError, ValueError) as error:  # a TypeError where some names are text and some are not
        raise InputError(str(error)) from None
