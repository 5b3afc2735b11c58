"""Formulas: the terms of a formula are the units of selection, with the coding that formulaic gives them.

A formula may be stored where its coding is a plain function of a row: arithmetic, logarithms and the like,
and the levels of factors. Transforms that learn from the data (splines, centring) are fitted but not stored.
A formula is checked before anything is evaluated: see `formula_check`.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.data.coding import (
    ColumnSpec,
    holds_numbers,
    is_frame,
    levels_of,
    open_frame,
    refuse_missing,
    refuse_not_finite,
)
from modejump.data.formula_check import check_formula, parse_expression, short

if TYPE_CHECKING:
    from formulaic import ModelSpec


@dataclass(frozen=True)
class FormulaSpec:
    """How a formula turns rows into numeric columns and terms."""

    formula: str  # the formula as given
    available: tuple[str, ...]  # columns that a ``.`` in the formula stands for
    columns: tuple[ColumnSpec, ...]  # the columns it uses on its right side; levels where one enters as a factor
    # Columns that are factors by their own type (text or categorical), as against numbers inside ``C()``.
    texts: frozenset[str]
    model_spec: ModelSpec  # the coding

    @property
    def variables(self) -> list[str]:
        """Columns that new data must have."""
        return [column.name for column in self.columns]

    @property
    def intercept(self) -> bool:
        """Whether the formula has an intercept."""
        return "Intercept" in self.model_spec.column_names

    @property
    def design_names(self) -> list[str]:
        """Names of the numeric columns, the intercept apart."""
        return [name for name in self.model_spec.column_names if name != "Intercept"]

    @property
    def terms(self) -> dict[str, list[int]]:
        """The units of selection: name of the term to indices of numeric columns."""
        shift = 1 if self.intercept else 0
        slices = {str(term): part for term, part in self.model_spec.term_slices.items()}
        return {
            name: list(range(part.start - shift, part.stop - shift))
            for name, part in slices.items()
            if name != "1" and part.stop > part.start
        }

    def apply(self, table: Any) -> np.ndarray:
        """The design matrix of new rows of a frame with the formula's columns."""
        if not is_frame(table):
            raise InputError("a model fitted by a formula predicts from a data frame; give one with its columns.")
        frame = open_frame(table)
        rows = _variables_frame(frame, self.variables, "the new data")
        for column in self.columns:
            if column.levels is not None:
                column.encode(rows[column.name].tolist())
            elif not pd.api.types.is_numeric_dtype(rows[column.name]):
                raise InputError(f"column {column.name!r} held numbers in the data of the fit; give numbers here too.")
        return self._matrix(_evaluate(self.model_spec.get_model_matrix, rows))

    def _matrix(self, matrix: Any) -> np.ndarray:
        values = np.array(matrix[self.design_names], dtype=np.float64)
        refuse_not_finite(values, self.design_names)
        return values

    def to_dict(self) -> dict[str, Any]:
        """Plain form for storage; refused where the coding is not plain."""
        _parse(self.formula, self.available, stored=True)
        return {
            "kind": "formula",
            "formula": self.formula,
            "available": list(self.available),
            "columns": [{"name": c.name, "levels": None if c.levels is None else list(c.levels)} for c in self.columns],
            "texts": sorted(self.texts),
            "design": self.design_names,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> FormulaSpec:
        """Inverse of :meth:`to_dict`: the coding is learnt again from a table with the stored levels."""
        formula, available = stored["formula"], tuple(stored["available"])
        right = _parse(formula, available, stored=True)[1]
        columns = tuple(
            ColumnSpec(c["name"], None if c["levels"] is None else tuple(c["levels"])) for c in stored["columns"]
        )
        rows = max((len(c.levels) for c in columns if c.levels), default=1)
        texts = frozenset(stored["texts"])
        probe = {}
        for column in columns:
            levels = column.levels or (1.0,)
            values = [levels[i % len(levels)] for i in range(rows)]
            probe[column.name] = pd.Categorical(values, categories=column.levels) if column.name in texts else values
        spec = _evaluate(right.get_model_matrix, pd.DataFrame(probe)).model_spec
        loaded = cls(formula, available, columns, texts, spec)
        if loaded.design_names != list(stored["design"]):
            raise InputError(
                f"the formula {formula!r} gives other columns than when it was stored; fit the model again."
            )
        return loaded


def learn_formula(
    formula: str, data: Any, labels: bool = False, python: bool = False
) -> tuple[FormulaSpec, np.ndarray, Any]:
    """Evaluate a formula on a frame: its coding, the design matrix without intercept, and the response."""
    if not is_frame(data):
        raise InputError("a formula needs a data frame, whose columns it names; give pandas or polars.")
    frame = open_frame(data)
    names = [str(name) for name in frame.columns]
    left, right = _parse(formula, names, python=python)
    response = _variables(left, names)
    available = tuple(name for name in names if name not in response)
    left, right = _parse(formula, available, python=python)
    wanted = _variables(right, names)
    both = [name for name in wanted if name in response]
    if both:
        raise InputError(f"the formula has column {both[0]!r} on both sides of ~; take it off one side.")
    y = _labels(left, frame) if labels else _response(left, _variables_frame(frame, response, "the data"))
    rows = _variables_frame(frame, wanted, "the data")
    matrix = _evaluate(right.get_model_matrix, rows)
    spec = _learnt(formula, available, rows, frame, matrix.model_spec)
    if not spec.terms:
        raise InputError(f"the formula {formula!r} has no term to select; name at least one on its right side.")
    return spec, spec._matrix(matrix), y


def _learnt(
    formula: str, available: tuple[str, ...], rows: pd.DataFrame, frame: nw.DataFrame[Any], spec: ModelSpec
) -> FormulaSpec:
    factors = {
        name
        for expression, (kind, _) in spec.encoder_state.items()
        if kind.value == "categorical"
        for name in _names_in(expression)
    }
    given = {str(name): name for name in frame.columns}
    texts = frozenset(name for name in rows.columns if not pd.api.types.is_numeric_dtype(rows[name]))
    columns = tuple(
        ColumnSpec(name, levels_of(frame.get_column(given[name])) if name in factors | texts else None)
        for name in rows.columns
    )
    return FormulaSpec(formula, available, columns, texts, spec)


def columns_named(formula: str, names: Sequence[str]) -> list[str]:
    """Columns of a table that a formula names, a ``.`` apart."""
    used = [set(_variables(side, list(names))) for side in _parse(formula, ())]
    return [name for name in names if any(name in side for side in used)]


def _parse(formula: str, available: Sequence[str], *, stored: bool = False, python: bool = False) -> tuple[Any, Any]:
    """The two sides of a formula that may be evaluated."""
    from formulaic import Formula
    from formulaic.errors import FormulaicError

    if not isinstance(formula, str):
        raise InputError('the formula must be text such as "y ~ a + b".')
    try:
        check_formula(formula, len(available), stored=stored, python=python)
        parsed = Formula(formula, _context={"__formulaic_variables_available__": list(available)})
    except (FormulaicError, SyntaxError, RecursionError, MemoryError) as error:
        raise InputError(f"the formula {short(formula)} cannot be read: {_first_line(error)}.") from None
    left, right = getattr(parsed, "lhs", None), getattr(parsed, "rhs", None)
    if left is None or right is None or isinstance(left, tuple) or isinstance(right, tuple):
        raise InputError(f'the formula {formula!r} must have a response and terms, such as "y ~ a + b".')
    return left, right


def _variables(side: Any, names: list[str]) -> list[str]:
    """Columns that one side of a formula uses, in the order of the table; a plain name must be a column."""
    used: set[str] = set()
    for term in side:
        for factor in term.factors:
            if factor.eval_method.value == "lookup" and factor.expr not in names:
                raise InputError(
                    f"the formula names column {factor.expr!r}, which the data do not have; "
                    f"their columns are {', '.join(names[:8])}."
                )
            used |= _names_in(factor.expr)
    return [name for name in names if name in used]


def _names_in(expression: str) -> set[str]:
    """Every name an expression might look up: itself, the quoted names, and the names of Python."""
    quoted = set(re.findall(r"`([^`]*)`", expression))
    try:
        tree = parse_expression(expression)
    except SyntaxError:
        return {expression}
    return {expression} | quoted | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _evaluate(get_matrix: Any, rows: pd.DataFrame) -> Any:
    """A model matrix, with formulaic's errors as one sentence. NaN passes: the caller names its column."""
    from formulaic.errors import FormulaicError

    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)
            return get_matrix(rows, context={}, na_action="ignore", output="pandas")
    except (FormulaicError, ValueError, TypeError) as error:
        reason = _first_line(error)
        if "'offset' is not defined" in reason:
            raise InputError("an offset is no term of the formula; give its values as offset= instead.") from None
        raise InputError(f"the formula cannot be evaluated: {reason}.") from None


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(". ") if lines else type(error).__name__


def _response(left: Any, rows: pd.DataFrame) -> np.ndarray:
    matrix = _evaluate(left.get_model_matrix, rows)
    names = [name for name in matrix.model_spec.column_names if name != "Intercept"]
    texts = [name for name in rows.columns if not pd.api.types.is_numeric_dtype(rows[name])]
    if len(names) != 1 or texts:
        raise InputError(
            "the left side of the formula must be one numeric response; for labels use a classifier "
            "(--family binomial)."
        )
    y = np.array(matrix[names[0]], dtype=np.float64)
    refuse_not_finite(y[:, None], names)
    return y


def _labels(left: Any, frame: nw.DataFrame[Any]) -> Any:
    """The one column on the left side, in its own type."""
    factors = [factor for term in left for factor in term.factors if factor.eval_method.value != "literal"]
    if len(factors) != 1 or factors[0].eval_method.value != "lookup":
        raise InputError("the left side of the formula must be one column of labels, as it is.")
    given = {str(name): name for name in frame.columns}
    return frame.get_column(given[factors[0].expr]).to_native()


def _variables_frame(frame: nw.DataFrame[Any], names: list[str], where: str) -> pd.DataFrame:
    """The named columns as pandas, factors with the levels that occur; nothing may be missing."""
    given = {str(name): name for name in frame.columns}
    columns: dict[str, Any] = {}
    for name in names:
        if name not in given:
            raise InputError(f"{where} have no column {name!r}, which the formula uses; add it.")
        series = frame.get_column(given[name])
        refuse_missing(series, name)
        if series.dtype.is_temporal():
            raise InputError(f"column {name!r} holds dates or times; turn it into numbers before the formula.")
        if holds_numbers(series.dtype):
            columns[name] = series.to_numpy()
        else:
            columns[name] = pd.Categorical(series.to_list(), categories=list(levels_of(series)))
    return pd.DataFrame(columns, index=range(len(frame)))
