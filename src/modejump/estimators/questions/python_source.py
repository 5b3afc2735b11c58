"""The prediction equation as a Python function that needs NumPy alone."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from modejump import __version__
from modejump.core.errors import InputError, printable
from modejump.data.coding import TableSpec
from modejump.data.markers import MarkerSpec
from modejump.data.names import stored_names
from modejump.data.wide_table import WideSpec
from modejump.features.covariates.language import Covariates
from modejump.features.symbols import import_sympy
from modejump.posterior.posterior import KINDS

_ERF = "_erf"
# Inverse links of the linear predictor ``eta``.
_MEANS = {
    "identity": "eta",
    "log": "np.exp(eta)",
    "inverse": "1.0 / eta",
    "logit": "1.0 / (1.0 + np.exp(-eta))",
    "probit": f"0.5 * (1.0 + {_ERF}(eta / np.sqrt(2.0)))",
    "cloglog": "-np.expm1(-np.exp(eta))",
}
_TAKEN = {"X", "np", "numpy", "eta", "offset", "rows", _ERF, "predict", "math"}


def python_source(model: Any, kind: str, name: str) -> str:
    """See :meth:`Questions.to_python`."""
    if kind not in KINDS:
        raise InputError(f"kind must be one of 'bma', 'best' and 'median'; got {kind!r}.")
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise InputError(f"name must be that of a Python function, such as 'predict'; got {name!r}.")
    family = model.problem_.family
    intercept, coef = model._equation(kind)
    if family.link not in _MEANS:
        raise InputError(f"the link {family.link!r} has no formula in Python; use to_sympy for the linear predictor.")
    columns = _column_sources(model)
    identifier = _identifiers(list(columns), name)
    terms, used = _terms(model, coef, identifier)
    known = "" if model.offset_ is None else " + offset"
    sums = [f"{intercept!r}", *(f"{c!r} * {term}" for c, term in terms)]
    body = [f"{identifier[column]} = {columns[column]}" for column in columns if column in used]
    named = _is_named(model.table_)
    if not named:
        body.insert(0, "X = np.asarray(X, dtype=float)")
    if not used:
        # No column tells the number of rows.
        rows = f"X[{next(iter(model.table_.variables))!r}]" if named else "X"
        sums.append(f"np.zeros(len({rows}))")
    body += ["eta = (", *(f"    {'' if i == 0 else '+ '}{part}" for i, part in enumerate(sums)), f"){known}"]
    body.append(f"return {_MEANS[family.link]}")
    text = "\n".join(body)
    lines = [_docstring(model, kind), "", "import numpy as np", ""]
    if _ERF in text:
        lines[2:3] = ["import math", "", "import numpy as np"]
        lines += [f"{_ERF} = np.vectorize(math.erf, otypes=[float])", ""]
    lines += ["", f"def {name}(X{', offset' if known else ''}):", *_what(model)]
    return "\n".join([*lines, *(f"    {line}" for line in body), ""])


def _is_named(spec: Any) -> bool:
    """Whether the columns had names of their own."""
    if isinstance(spec, WideSpec):
        return not isinstance(stored_names(spec.names), int)
    return bool(getattr(spec, "named", True))


def _docstring(model: Any, kind: str) -> str:
    words = {"bma": "the average over the models", "best": "the best model", "median": "the median probability model"}
    return f'"""Prediction by {words[kind]} of a {type(model).__name__}, written by modejump {__version__}."""'


def _what(model: Any) -> list[str]:
    """Docstring of the function; names in it can end neither the docstring nor the line."""
    family = model.problem_.family
    event = f" that the class is {model.classes_[1]!r}" if family.response == "class" else " of the response"
    first = f"{'Probability' if family.response == 'class' else 'Mean'}{event}."
    rows = "X maps names of columns to arrays, as a data frame or a dict does."
    if not _is_named(model.table_):
        rows = "X is an array of shape (rows, columns), with the columns of the fit."
    notes = [rows]
    if not family.conjugate:
        notes.append("It is the inverse link of the mean linear predictor; predict also averages over its uncertainty.")
    safe = [printable(line).replace("\\", "\\\\").replace('"', "'") for line in (first, *notes)]
    return [f'    """{safe[0]}', "", *(f"    {line}" for line in safe[1:]), '    """']


def _identifiers(names: Sequence[str], function: str) -> dict[str, str]:
    """A Python name for each column, unlike all others."""
    found: dict[str, str] = {}
    taken = _TAKEN | {function}
    for name in names:
        made = unicodedata.normalize("NFKC", re.sub(r"\W", "_", unicodedata.normalize("NFKC", name))).strip("_")
        if not made.isidentifier() or keyword.iskeyword(made):
            made = f"x_{made}" if f"x_{made}".isidentifier() else "x"
        first, number = made, 2
        while made in taken:
            made, number = f"{first}_{number}", number + 1
        taken.add(made)
        found[name] = made
    return found


# --- columns ----------------------------------------------------------------------------------------------------------


def _column_sources(model: Any) -> dict[str, str]:
    """Python of each design column, from ``X``."""
    spec = model.table_
    if isinstance(spec, TableSpec):
        return _table_columns(spec)
    if isinstance(spec, MarkerSpec):
        return _marker_columns(spec)
    if isinstance(spec, WideSpec):
        named = _is_named(spec)
        places = {name: None if named else spec.names.index(name) for name in model._symbols("text")}
        return {name: _floats(_take(name, place)) for name, place in places.items()}
    names = list(spec.design_names)
    odd = [name for name in names if name not in spec.variables]
    if odd:
        raise InputError(
            f"{odd[0]!r} is made by a formula, which a standalone function cannot evaluate; make its columns first, "
            "and call fit on the table."
        )
    return {name: _floats(_take(name, None)) for name in names}


def _take(name: str, place: int | None) -> str:
    return f"X[{name!r}]" if place is None else f"X[:, {place}]"


def _floats(source: str) -> str:
    return f"np.asarray({source}, dtype=float)"


def _table_columns(spec: TableSpec) -> dict[str, str]:
    found: dict[str, str] = {}
    for place, column in enumerate(spec.columns):
        taken = _take(column.name, None if spec.named else place)
        values = _floats(taken)
        if column.levels is None:
            sources = [values] if column.fill is None else [f"np.where(np.isnan({values}), {column.fill!r}, {values})"]
            flag = f"np.isnan({values}).astype(float)"
        else:
            odd = [level for level in column.levels if not isinstance(level, str | int | float | bool)]
            if odd:
                raise InputError(f"column {column.name!r} has levels of type {type(odd[0]).__name__}; make them text.")
            labels = f"np.asarray({taken}, dtype=object)"
            sources = [f"({labels} == {level!r}).astype(float)" for level in column.coded] or [f"0.0 * ({labels} == 0)"]
            flag = f"np.array([v is None or v != v for v in {labels}], dtype=float)"
        flags = [flag] if column.flagged else []
        found |= dict(zip(column.design_names, [*sources, *flags], strict=True))
    return found


def _marker_columns(spec: MarkerSpec) -> dict[str, str]:
    found: dict[str, str] = {}
    for marker in spec.markers:
        values = _floats(_take(spec.columns[marker.column], None if spec.named else marker.column))
        if spec.missing != "refuse":
            values = f"np.where(np.isnan({values}), {float(marker.usual)!r}, {values})"
        found[marker.name] = f"({values} >= {float(marker.least)!r}).astype(float)"
    for name in spec.fixed:
        found[name] = _floats(_take(name, None if spec.named else spec.columns.index(name)))
    return found


# --- terms ------------------------------------------------------------------------------------------------------------


def _terms(model: Any, coef: np.ndarray, identifier: dict[str, str]) -> tuple[list[tuple[float, str]], set[str]]:
    """Coefficients and Python of the terms that have one, and the columns that they are made of."""
    laws = model._fitted.laws
    places = np.flatnonzero(coef != 0.0)
    if laws is None or isinstance(laws.language, Covariates):
        names = model._symbols("text")
        used = {names[j] for j in places}
        return [(float(coef[j]), identifier[names[j]]) for j in places], used
    symbols, terms, used = model._symbols("sympy"), [], set()
    for j in places:
        inside = {symbol: symbol.name for symbol in symbols[j].free_symbols}
        used |= set(inside.values())
        terms.append((float(coef[j]), _numpy_of(symbols[j], {s: identifier[name] for s, name in inside.items()})))
    return terms, used


def _numpy_of(expression: Any, names: dict[Any, str]) -> str:
    """An expression of SymPy as Python on NumPy arrays."""
    sympy = import_sympy()
    printer = sympy.printing.numpy.NumPyPrinter({"user_functions": {"erf": _ERF}, "strict": False})
    renamed = expression.xreplace({symbol: sympy.Symbol(name) for symbol, name in names.items()})
    text = str(printer.doprint(renamed))
    if "Not supported" in text:
        raise InputError(f"the term {expression} has no form in NumPy; use to_sympy.")
    text = re.sub(r"\bnumpy\.", "np.", text)
    return f"({text})"
