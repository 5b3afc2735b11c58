"""Response, labels, case weights and offset of a table in memory, from whatever holds them; each is read once."""

from __future__ import annotations

import warnings
from typing import Any

import narwhals as nw
import numpy as np

from modejump.core.errors import InputError, ModejumpWarning
from modejump.data.coding import holds_numbers

# Where the user's call is, seen from the functions that read what it was given.
_USERS_LINE = 5


def read_response(y: Any, rows: int) -> np.ndarray:
    """The response as numbers, one for each row of X."""
    values = _one_column(None if y is None else response_values(y), rows)
    if values.dtype.kind in "USO" and any(isinstance(value, str) for value in values):
        raise InputError("y holds text, and a regressor predicts numbers; use a classifier (--family binomial).")
    if values.dtype.kind == "c":
        raise InputError("Complex data not supported: y must be real numbers.")
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError("y holds values that are not numbers, and a regressor predicts numbers; convert it.") from None
    _refuse_gaps(numbers)
    return numbers


def _one_column(values: np.ndarray | None, rows: int) -> np.ndarray:
    """A response of one dimension with one value for each row."""
    if values is None:
        raise InputError("this estimator requires y to be passed, but the target y is None.")
    if values.ndim == 2 and values.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning

        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; its one column is used.",
            DataConversionWarning,
            stacklevel=_USERS_LINE + 1,
        )
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(f"y should be a 1d array, got an array of shape {values.shape} instead.")
    if len(values) != rows:
        raise InputError(f"X has {rows} rows but y has {len(values)}; give one response for each row.")
    return values


def _refuse_gaps(numbers: np.ndarray) -> None:
    if (bad := ~np.isfinite(numbers)).any():
        row = int(np.argmax(bad))
        what = "NaN" if np.isnan(numbers[row]) else "infinite (inf)"
        raise InputError(f"y is {what} in row {row} (counting from 0); drop or impute such rows first.")


class ManyClasses(InputError):
    """The labels of a response are more than two; ``labels`` are those of the rows, ``classes`` each once."""

    def __init__(self, labels: np.ndarray, classes: np.ndarray) -> None:
        super().__init__(
            f"y has {len(classes)} classes: {_some_labels(classes)}; choose two of them, or call fit(X, y) of a "
            "classifier in Python, which fits each class against the rest."
        )
        self.labels, self.classes = labels, classes


def _some_labels(classes: np.ndarray) -> str:
    return ", ".join(repr(label) for label in classes[:5].tolist()) + (", ..." if len(classes) > 5 else "")


def read_labels(y: Any, weights: np.ndarray | None, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The two classes of a response, sorted, and for each row 1 where it has the second one and 0 elsewhere."""
    values = _plain_labels(_one_column(None if y is None else _label_values(y), rows))
    used = values if weights is None else values[weights > 0]
    if used.dtype.kind == "f" and (used != np.floor(used)).any():
        raise InputError(
            "y is continuous, and a classifier needs labels (Unknown label type: continuous); use a regressor, or "
            "make classes of it first."
        )
    classes = np.unique(used)
    if len(classes) == 1:
        raise InputError(
            f"y has one class only, {_some_labels(classes)}, so there is nothing to tell apart; give rows of another "
            "too."
        )
    if len(classes) > 2:
        raise ManyClasses(values, classes)
    return classes, (values == classes[1]).astype(np.float64)


def _label_values(y: Any) -> np.ndarray:
    opened = nw.from_native(y, allow_series=True, pass_through=True)
    if isinstance(opened, nw.Series):
        labels = np.empty(len(opened), dtype=object)
        labels[:] = opened.to_list()
        return labels
    return np.asarray(opened.to_numpy() if isinstance(opened, nw.DataFrame) else y)


def _plain_labels(values: np.ndarray) -> np.ndarray:
    """Labels as an array of one plain type, none of them missing; text stays an array of objects."""
    if values.dtype.kind == "O":
        missing = np.array([not isinstance(v, str) and str(v) in ("None", "nan", "<NA>", "NaT") for v in values], bool)
        if missing.any():
            raise InputError(
                f"y is missing (NaN) in row {int(np.argmax(missing))} (counting from 0); drop such rows first."
            )
        kinds = {_kind_of(value) for value in values}
        if len(kinds) > 1:
            raise InputError(f"y mixes labels of the types {' and '.join(sorted(kinds))}; make them one type.")
        if kinds <= {"text"}:
            return values
        values = np.array(values.tolist())
    if values.dtype.kind not in "biufU":
        raise InputError("y holds labels that are neither text nor numbers nor truth values; recode it first.")
    if values.dtype.kind == "f":
        _refuse_gaps(values)
    return values


def _kind_of(label: Any) -> str:
    if isinstance(label, str):
        return "text"
    if isinstance(label, bool | np.bool_):
        return "truth value"
    return "number" if isinstance(label, int | float | np.number) else type(label).__name__


def name_of(values: Any, default: str) -> str:
    """The name of a series, where it has one that is text."""
    name = getattr(nw.from_native(values, allow_series=True, pass_through=True), "name", None)
    return name if isinstance(name, str) and name else default


def response_values(y: Any) -> np.ndarray:
    """A response or weights as an array, from whatever holds them; missing values become NaN."""
    opened = nw.from_native(y, allow_series=True, pass_through=True)
    if isinstance(opened, nw.Series):
        return np.asarray((opened.cast(nw.Float64()) if holds_numbers(opened.dtype) else opened).to_numpy())
    return np.asarray(opened.to_numpy() if isinstance(opened, nw.DataFrame) else y)


def read_weights(sample_weight: Any, rows: int) -> np.ndarray | None:
    """Case weights as numbers, with a warning where they look like something else."""
    if sample_weight is None:
        return None
    weights = checked_weights(sample_weight, rows)
    total = weights.sum()
    if (weights % 1 != 0).any() and abs(total - rows) > 0.01 * rows:
        warnings.warn(
            f"sample_weight counts cases, so these weights amount to {total:g} observations in {rows} rows; "
            "where they only express relative precision, scale them to sum to the number of rows.",
            ModejumpWarning,
            stacklevel=_USERS_LINE,
        )
    return weights


def checked_weights(weights: Any, rows: int) -> np.ndarray:
    """Case weights as numbers, one for each row of X; none is negative, and some count."""
    numbers = _one_for_each_row(weights, rows, "sample_weight", "weight")
    if (numbers < 0).any():
        row = int(np.argmax(numbers < 0))
        raise InputError(f"sample_weight is negative in row {row} (counting from 0); weights count observations.")
    if not numbers.any():
        raise InputError("sample_weight is zero everywhere, so no observation is left; give positive weights.")
    return numbers


def read_offset(offset: Any, rows: int) -> np.ndarray | None:
    """The known part of the linear predictor, where there is one."""
    return None if offset is None else checked_offset(offset, rows)


def checked_offset(offset: Any, rows: int) -> np.ndarray:
    """The known part of the linear predictor as numbers, one for each row of X."""
    return _one_for_each_row(offset, rows, "offset", "number")


def _one_for_each_row(given: Any, rows: int, what: str, one: str) -> np.ndarray:
    """Finite numbers, one for each row."""
    values = response_values(given)
    if values.shape != (rows,):
        raise InputError(f"{what} has shape {values.shape} but X has {rows} rows; give one {one} for each row.")
    try:
        if values.dtype.kind == "c":
            raise TypeError
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} holds values that are not numbers; give one real number for each row.") from None
    if not np.isfinite(numbers).all():
        row = int(np.argmax(~np.isfinite(numbers)))
        raise InputError(f"{what} is NaN or infinite in row {row} (counting from 0); give finite {one}s.")
    return numbers


def check_varies(y: np.ndarray, weights: np.ndarray | None) -> None:
    """A response of one value has nothing to explain."""
    used = y if weights is None else y[weights > 0]
    if len(used) > 1 and np.ptp(used) == 0.0:
        raise InputError("y is constant, so there is nothing to explain; check the target column.")
    largest = float(np.abs(used).max(initial=0.0))
    if len(used) < 2 or largest == 0.0:
        return
    # Squares and their sums have to be numbers, and not zero.
    if not 1e-140 < float(np.ptp(used / largest)) * largest <= 2.0 * largest < 1e150:
        raise InputError(
            f"y has values of size {largest:.0e}, whose squares leave the range of the computer's numbers; "
            "multiply it by a power of ten."
        )
    check_digits(float(np.std(used / largest)) * largest, largest)


def check_digits(spread: float, largest: float) -> None:
    """A response with a large constant part has hardly any digits for the rest."""
    if spread <= 1e-12 * largest:
        raise InputError(
            f"y varies by {spread:.1g} around values of size {largest:.1g}, which leaves too few of the 16 digits of a "
            "number; subtract a constant from y."
        )
