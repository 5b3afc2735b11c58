"""From a table to numeric columns and terms, and the same coding for new rows.

A numeric or boolean column is one column and one term. A categorical column is a factor: treatment contrasts
with its first level as reference, one term of several columns that enter and leave together. Where features are made
of the columns, it is one indicator for each level instead, named ``sex[male]``: a feature may need any of them. Text is
a factor as well, unless it looks like numbers or like an identifier.

Missing values are refused, or on demand replaced: numbers by the median of their column at fit, with an indicator
``age[missing]`` where the data of the fit had any; a missing level is none of the levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.utils.validation import check_array

from modejump.core.errors import InputError
from modejump.data.names import NumberedNames, read_groups
from modejump.data.rows import frame_in_place

# What a level of a stored factor may be; anything else has no faithful JSON form.
_PLAIN = (str, int, float, bool)
# What can be done about missing values.
MISSING = ("refuse", "median")
# Text of more levels than the first of these is no factor where it tells most rows apart, nor beyond the second.
_FEW_LEVELS, _MOST_LEVELS = 10, 200


def is_frame(table: Any) -> bool:
    """Whether the table is a data frame (pandas, polars, or another that narwhals knows)."""
    return bool(nw.dependencies.is_into_dataframe(table))


def open_frame(table: Any) -> nw.DataFrame[Any]:
    """The frame behind one interface; duplicate column names are refused."""
    names = [str(name) for name in table.columns] if hasattr(table, "columns") else []
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"the table has two columns named {name!r}; rename or drop one of them.")
        seen.add(name)
    return nw.from_native(table, eager_only=True)


def holds_numbers(kind: nw.dtypes.DType) -> bool:
    """Whether columns of a type hold numbers or truth values."""
    return kind.is_numeric() or isinstance(kind, nw.Boolean)


def number_array(table: Any) -> np.ndarray:
    """An array of numbers with rows and columns, as it is."""
    array = np.asarray(table)
    if array.ndim != 2:
        raise InputError(f"X has {array.ndim} dimension(s), but a table has 2: Reshape your data.")
    if array.dtype.kind not in "biuf":
        raise InputError("X does not hold numbers; convert it to numbers first.")
    return array


def _nulls(column: nw.Series[Any]) -> np.ndarray:
    """Which entries of a column are missing."""
    return np.asarray(column.is_null().to_numpy(), dtype=bool)


def refuse_missing(column: nw.Series[Any], name: str) -> None:
    """Raise InputError where a column holds nulls, naming the first."""
    null = _nulls(column)
    if null.any():
        raise InputError(_not_finite(name, int(np.argmax(null)), "missing (NaN)"))


def refuse_not_finite(values: np.ndarray, names: Sequence[str]) -> None:
    """Raise InputError for the first NaN or infinite entry of a matrix, naming its column and row."""
    with np.errstate(over="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = ~np.isfinite(values)
    if bad.any():
        j = int(np.argmax(bad.any(axis=0)))
        i = int(np.argmax(bad[:, j]))
        raise InputError(_not_finite(names[j], i, "NaN" if np.isnan(values[i, j]) else "infinite (inf)"))


def _not_finite(name: str, row: int, what: str) -> str:
    return (
        f"column {name!r} is {what} in row {row} (counting from 0); drop or impute such rows first, or drop the column."
    )


@dataclass(frozen=True)
class ColumnSpec:
    """One column of the table."""

    name: str
    levels: tuple[Any, ...] | None = None  # levels of a factor, the reference first
    indicators: bool = False  # whether a factor is one indicator for each level instead of contrasts with the first
    fill: float | None = None  # what stands for missing numbers
    flagged: bool = False  # whether there is an indicator of missing values

    @property
    def coded(self) -> tuple[Any, ...]:
        """Levels that have a column."""
        levels = self.levels or ()
        return levels if self.indicators else levels[1:]

    @property
    def width(self) -> int:
        """Number of numeric columns it becomes; a factor of one level keeps one, all zero."""
        return (1 if self.levels is None else max(len(self.coded), 1)) + int(self.flagged)

    @property
    def design_names(self) -> list[str]:
        """Names of these numeric columns."""
        flag = [f"{self.name}[missing]"] if self.flagged else []
        if self.levels is None:
            return [self.name, *flag]
        names = [f"{self.name}[{level}]" if self.indicators else f"{self.name}[T.{level}]" for level in self.coded]
        return [*(names or [f"{self.name}[T.]"]), *flag]

    def encode(self, values: Sequence[Any]) -> np.ndarray:
        """Contrasts or indicators of a factor's values, None being none of the levels; unseen levels are refused."""
        assert self.levels is not None
        position = {level: i for i, level in enumerate(self.coded)}
        none = [None] if self.indicators or self.flagged else []
        position |= dict.fromkeys(none if self.indicators else [*none, self.levels[0]], -1)
        try:
            index = np.array([position[value] for value in values], dtype=np.int64)
        except KeyError as unseen:
            known = ", ".join(repr(level) for level in self.levels[:8])
            raise InputError(
                f"column {self.name!r} has the level {unseen.args[0]!r}, which the data of the fit did not "
                f"have; its levels are {known}."
            ) from None
        return (index[:, None] == np.arange(self.width - int(self.flagged))).astype(np.float64)

    def filled(self, values: np.ndarray) -> np.ndarray:
        """Columns of numbers, what stands for missing ones in their place."""
        gone = np.isnan(values)
        flag = [gone.astype(np.float64)] if self.flagged else []
        return np.column_stack([np.where(gone, np.nan if self.fill is None else self.fill, values), *flag])


@dataclass(frozen=True)
class TableSpec:
    """How a table becomes numeric columns and terms; learnt at fit, applied again at predict."""

    columns: tuple[ColumnSpec, ...]  # the columns of the table, in order
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)  # groups of columns that are one term
    named: bool = True  # whether the columns had names of their own; an array's columns have positions only
    missing: str = "refuse"  # "refuse" missing values, or replace them by the "median"

    intercept = True  # a table always goes with one

    @classmethod
    def of_numbers(
        cls, names: Sequence[str], groups: Mapping[str, Sequence[str | int]] | None = None, named: bool = True
    ) -> TableSpec:
        """The coding of columns that are all numbers."""
        return cls(tuple(ColumnSpec(name) for name in names), read_groups(groups, names), named)

    @property
    def names(self) -> list[str]:
        """Names of the table's columns."""
        return [column.name for column in self.columns]

    @property
    def design_names(self) -> list[str]:
        """Names of the numeric columns, in the order of the design matrix."""
        return [name for column in self.columns for name in column.design_names]

    @property
    def variables(self) -> list[str]:
        """Columns that new data must have."""
        return self.names

    @property
    def terms(self) -> dict[str, list[int]]:
        """The units of selection: name to indices of numeric columns.

        A group stands where its first column stood.
        """
        group_of = {name: group for group, members in self.groups.items() for name in members}
        terms: dict[str, list[int]] = {}
        start = 0
        for column in self.columns:
            term = group_of.get(column.name, column.name)
            terms.setdefault(term, []).extend(range(start, start + column.width))
            start += column.width
        return terms

    def split(self, always_in: Sequence[str]) -> tuple[list[int], list[int]]:
        """Numeric columns that features are made of, and those of the columns always in.

        A factor that is always in has no indicator of its first level, which the intercept stands for.
        """
        fixed = {
            j: column
            for column in self.columns
            if column.name in always_in
            for j in self.terms[column.name][int(column.indicators and column.levels is not None) :]
        }
        skipped = {j for name in always_in for j in self.terms[name]}
        return [j for j in range(len(self.design_names)) if j not in skipped], list(fixed)

    def apply(self, table: Any) -> np.ndarray:
        """The design matrix of new rows: frames by column name, arrays by position; after a fit on an array, all so."""
        if is_frame(table):
            return self._from_frame(open_frame(table))
        factors = [column.name for column in self.columns if column.levels is not None]
        if factors:
            raise InputError(
                f"column {factors[0]!r} is a factor, which an array cannot carry; give a data frame, as at the fit."
            )
        design = _numeric_array(table, self.names, missing=self.missing != "refuse")
        if self.missing == "refuse" or design.shape[1] != len(self.columns):
            return design
        return np.hstack([column.filled(design[:, j]) for j, column in enumerate(self.columns)])

    def _from_frame(self, frame: nw.DataFrame[Any]) -> np.ndarray:
        given = {str(name): name for name in frame.columns}
        if not self.named:
            if len(given) != len(self.columns):
                raise InputError(f"X has {len(given)} columns, but the fit had {len(self.columns)}; give as many.")
            given = dict(zip(self.names, given.values()))
        refused = self.missing == "refuse"
        if refused and (whole := frame_in_place(frame, [given.get(name) for name in self.names])) is not None:
            refuse_not_finite(whole, self.design_names)
            return whole
        design = np.empty((len(frame), sum(column.width for column in self.columns)), order="F")
        start = 0
        for column in self.columns:
            if column.name not in given:
                raise InputError(f"the new data have no column {column.name!r}, which the fit used; add it.")
            series = frame.get_column(given[column.name])
            if refused:
                refuse_missing(series, column.name)
            end = start + column.width
            if column.levels is not None:
                values = [None if gone else value for value, gone in zip(series.to_list(), _nulls(series))]
                coded = column.encode(values)
                design[:, start : start + coded.shape[1]] = coded
                if column.flagged:
                    design[:, end - 1] = _nulls(series)
            else:
                numbers = _numeric_column(series, column.name)
                design[:, start:end] = numbers[:, None] if refused else column.filled(numbers)
            start = end
        refuse_not_finite(design, self.design_names)
        return design

    def to_dict(self) -> dict[str, Any]:
        """Plain form for storage."""
        for column in self.columns:
            for level in column.levels or ():
                if not isinstance(level, _PLAIN):
                    raise InputError(
                        f"column {column.name!r} has levels of type {type(level).__name__}, which cannot be "
                        "stored; make them text or whole numbers and fit again."
                    )
        return {
            "kind": "table",
            "columns": [asdict(c) | {"levels": None if c.levels is None else list(c.levels)} for c in self.columns],
            "groups": {name: list(members) for name, members in self.groups.items()},
            "named": self.named,
            "missing": self.missing,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> TableSpec:
        """Inverse of :meth:`to_dict`."""
        columns = tuple(
            ColumnSpec(**c | {"levels": None if c["levels"] is None else tuple(c["levels"])}) for c in stored["columns"]
        )
        groups = {name: tuple(members) for name, members in stored["groups"].items()}
        return cls(columns, groups, stored["named"], stored["missing"])


def learn_table(
    table: Any,
    groups: Mapping[str, Sequence[str | int]] | None = None,
    *,
    estimator: Any = None,
    indicators: bool = False,
    missing: str = "refuse",
) -> tuple[TableSpec, np.ndarray]:
    """Read a table: which columns are numbers, which are factors, and the design matrix of its rows."""
    refused = missing == "refuse"
    if is_frame(table):
        frame = open_frame(table)
        columns = tuple(_column_spec(frame.get_column(name), str(name), indicators, refused) for name in frame.columns)
        if not columns:
            raise InputError("X has no columns, so there is nothing to select; give at least one covariate.")
        spec = TableSpec(columns, read_groups(groups, [column.name for column in columns]), missing=missing)
        return spec, spec._from_frame(frame)
    if isinstance(nw.from_native(table, pass_through=True), nw.LazyFrame):
        raise InputError("X is a lazy frame, which holds no rows yet; call .collect() on it first.")
    design = _numeric_array(table, None, estimator, missing=not refused)
    spec = TableSpec.of_numbers(NumberedNames(design.shape[1]), groups, named=False)
    if refused:
        return spec, design
    columns = tuple(_with_fill(column, design[:, j]) for j, column in enumerate(spec.columns))
    spec = replace(spec, columns=columns, missing=missing)
    return spec, spec.apply(design)


def _with_fill(column: ColumnSpec, values: np.ndarray) -> ColumnSpec:
    """A column of numbers with what stands for missing ones."""
    gone = np.isnan(values)
    if gone.all():
        raise InputError(f"column {column.name!r} is missing in every row; drop it.")
    return replace(column, fill=float(np.median(values[~gone])), flagged=bool(gone.any()))


def names_in(table: Any) -> dict[str, str]:
    """Names that features of a table may use, and the column behind each: a factor has one for each level.

    Columns that are neither numbers nor factors are named as well, and refused when they are read.
    """
    if not is_frame(table):
        return {name: name for name in learn_table(table)[0].design_names}
    frame = open_frame(table)
    owners: dict[str, str] = {}
    for name in frame.columns:
        series = frame.get_column(name)
        factor = isinstance(series.dtype, nw.Categorical | nw.Enum) or _is_text(series)
        column = ColumnSpec(str(name), levels_of(series) if factor else None, indicators=factor)
        owners |= dict.fromkeys(column.design_names, str(name))
    return owners


def _column_spec(series: nw.Series[Any], name: str, indicators: bool, refused: bool) -> ColumnSpec:
    """Number or factor; anything else is refused in one sentence."""
    dtype, text = series.dtype, _is_text(series)
    if isinstance(dtype, nw.Categorical | nw.Enum) or text:
        if refused:
            refuse_missing(series, name)
        levels = levels_of(series)
        if text:
            _refuse_numbers_and_labels(series, name, levels)
        return ColumnSpec(name, levels, indicators, flagged=bool(_nulls(series).any()))
    if dtype.is_numeric() or isinstance(dtype, nw.Boolean | nw.Object):
        column = ColumnSpec(name)
        return column if refused else _with_fill(column, _numeric_column(series, name))
    if dtype.is_temporal():
        raise InputError(
            f"column {name!r} holds dates or times; turn it into numbers, such as days since a start, or drop it."
        )
    raise InputError(f"column {name!r} holds neither numbers nor categories; convert it to numbers or drop it.")


def _is_text(series: nw.Series[Any]) -> bool:
    """Whether a column holds text, perhaps among numbers."""
    if not isinstance(series.dtype, nw.Object):
        return isinstance(series.dtype, nw.String)
    values = series.drop_nulls().to_list()
    return any(isinstance(value, str) for value in values) and all(isinstance(value, _PLAIN) for value in values)


def _refuse_numbers_and_labels(series: nw.Series[Any], name: str, levels: Sequence[Any]) -> None:
    """Raise InputError where text looks like numbers, with its first cell that is none, or like an identifier."""
    enter = "or make it a categorical to enter as a factor"
    numbers = {level for level in levels if _is_number(level)}
    if 2 * len(numbers) > len(levels):
        cells = list(enumerate(series.to_list()))
        bad = next(((row, cell) for row, cell in cells if cell in levels and cell not in numbers), None)
        if bad is None:
            row, cell = next((row, cell) for row, cell in cells if cell in numbers)
            raise InputError(
                f"column {name!r} holds numbers stored as text, such as {cell!r} in row {row} (counting from 0); "
                f"convert it to numbers, {enter}."
            )
        raise InputError(
            f"column {name!r} looks like numbers but is {bad[1]!r} in row {bad[0]} (counting from 0); mend such cells "
            f"and convert the column to numbers, {enter}."
        )
    if len(levels) > _MOST_LEVELS or _FEW_LEVELS < len(levels) > len(series) / 2:
        raise InputError(
            f"column {name!r} holds {len(levels)} different texts in {len(series)} rows, too many for a factor; "
            f"drop it where it only names the rows, {enter}."
        )


def _is_number(cell: Any) -> bool:
    """Whether a cell is a number or the text of one, with a point or a comma."""
    try:
        return bool(np.isfinite(float(cell.replace(",", ".") if isinstance(cell, str) else cell)))
    except ValueError:
        return False


def levels_of(series: nw.Series[Any]) -> tuple[Any, ...]:
    """Levels that occur, in the declared order where there is one, else sorted.

    A level that is declared but does not occur would be a column of zeros, which bars the whole factor.
    """
    present = set(series.drop_nulls().unique().to_list())
    native = series.to_native()
    if hasattr(native, "cat") and hasattr(native.cat, "categories"):
        declared = native.cat.categories.tolist()
    else:
        declared = list(getattr(series.dtype, "categories", None) or sorted(present, key=_sort_key))
    return tuple(level for level in declared if level in present)


def _sort_key(level: Any) -> tuple[str, Any]:
    return ("number" if isinstance(level, int | float) else type(level).__name__, level)


def _numeric_column(series: nw.Series[Any], name: str) -> np.ndarray:
    if isinstance(series.dtype, nw.String | nw.Categorical | nw.Enum) or series.dtype.is_temporal():
        raise InputError(f"column {name!r} held numbers in the data of the fit; give numbers here too.")
    try:
        if _nulls(series).any():
            series = series.cast(nw.Float64).fill_null(float("nan"))
        return np.asarray(series.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"column {name!r} holds values that are not numbers; convert it to numbers or drop it."
        ) from None


def _numeric_array(table: Any, names: Sequence[str] | None, estimator: Any = None, missing: bool = False) -> np.ndarray:
    """Numbers from an array-like, by scikit-learn's rules for arrays; text is refused by column, and so is NaN unless
    values may be missing."""
    try:
        given = np.asarray(table) if isinstance(table, list | tuple | np.ndarray) else np.empty((0, 0))
        if given.dtype.kind in "US":
            raise InputError("X holds text; give numbers, or a data frame, whose columns of text enter as factors.")
        if given.ndim != 2:
            raise InputError(
                f"X has {given.ndim} dimension(s), but a table has 2: Reshape your data with array.reshape(-1, 1) for "
                "one column, or array.reshape(1, -1) for one row."
            )
        design = check_array(table, dtype=np.float64, ensure_all_finite=False, input_name="X", estimator=estimator)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        if isinstance(error, TypeError) and not hasattr(table, "toarray"):  # of a sparse matrix alone it is a sentence
            raise
        raise InputError(_text_in(table) or " ".join(str(error).split())) from None
    given_names = names or NumberedNames(design.shape[1])
    refuse_not_finite(np.where(np.isnan(design), 0.0, design) if missing else design, given_names)
    return design


def _text_in(table: Any) -> str:
    """A sentence that names the first column of an object array with text in it; empty without one."""
    if (array := np.asarray(table, dtype=object)).ndim == 2:
        for name, column in zip(NumberedNames(array.shape[1]), array.T):
            if any(isinstance(value, str) for value in column):
                return (
                    f"column {name!r} holds text; give numbers, or a data frame, whose columns of text enter as "
                    "factors."
                )
    return ""
