"""Arrays of a saved run that somebody else may have made: shapes, kinds and ranges, before anything uses them.

Compiled code trusts its indices, so that a file whose numbers point elsewhere must not come so far.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from modejump.posterior.posterior import KINDS
from modejump.samplers.result import SamplerResult, members_of

# Kind of the numbers, then the axes: a number, something counted by the caller, something whose count is the first one
# met ("models"), or "*" for any. The kind "n" is any number.
_SHAPES = {
    "loading": "f base columns",
    "scale": "f columns",
    "base_coef": "f base",
    "base_factor": "f * base",
    "parent_start": "i ends",
    "parent_index": "i *",
    "gram_columns": "i stored",
    "gram_triangle": "f triangle",
    "models_words": "u models words",
    "models_log_posterior": "f models",
    **{f"models_{name}": "i models" for name in ("visits", "first_seen", "chains", "draws")},
    "result_renormalised": "f terms",
    "result_size_distribution": "f *",
    "result_batch_means": "f * * terms",
    "result_chain_best": "f *",
    "data_corr": "f columns",
    "data_first": "i ends",
    "data_zobrist": "u terms",
    **{f"data_{name}": "i" for name in ("base",)},
    "data_n": "n",
}
_KEPT = {
    "words": "u kept words",
    "weight": "f kept",
    "resid": "f *",
    "mass": "n",
    **{f"fits_{name}": "f kept" for name in ("log_marginal", "wald", "shape")},
    "fits_size": "i kept",
    "fits_coef": "f *",
    "fits_factor": "f *",
}
_KINDS = {"n": "fiu", "i": "i", "u": "u", "f": "f"}
_PLAIN: dict[str, Any] = {"int": int, "float": (int, float), "bool": bool, "str": str}


def check_arrays(arrays: Mapping[str, np.ndarray], names: Any) -> None:
    """Raise ValueError (or KeyError) where arrays are not those of a run over these terms.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        As they were read.
    names : sequence of str
        The terms.
    """
    terms, columns = _terms(names), arrays["scale"].size
    stored = arrays["gram_columns"].size
    counts = {
        "terms": terms,
        "ends": terms + 1,
        "columns": columns,
        "base": int(arrays["data_base"]),
        "words": max(1, -(-terms // 64)),
        "stored": stored,
        "triangle": stored * (stored + 1) // 2,
    }
    _check_shapes(arrays, "", _SHAPES, counts)
    first = _offsets(arrays["data_first"], columns)
    _offsets(arrays["parent_start"], arrays["parent_index"].size)
    _within(arrays["parent_index"], terms)
    _within(arrays["gram_columns"], columns)
    _check_words(arrays["models_words"], terms)
    for kind in KINDS:
        if f"{kind}_words" in arrays:
            _check_shapes(arrays, f"{kind}_", _KEPT, counts)
            _check_words(arrays[f"{kind}_words"], terms)
            _check_fits(arrays, kind, np.diff(first), counts["base"])


def check_about(problem: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Raise TypeError where a plain field of a problem or of a sampler's result is something else.

    Parameters
    ----------
    problem, result : mapping
        The fields as they were read.
    """
    _terms(problem["always_in"])
    _terms(result["notes"])
    fields = {"rows": "int", "base_rss": "float", "intercept": "bool"}
    _check_plain(problem, fields)
    for field in dataclasses.fields(SamplerResult):
        # Files of earlier versions lack some, and a share of nothing is none.
        if field.name in result and field.name != "library_share":
            _check_plain(result, {field.name: str(field.type)})


def _check_plain(record: Mapping[str, Any], fields: Mapping[str, str]) -> None:
    for name, kind in fields.items():
        # What is an array is in the other file.
        wrong = (
            record[name] is not None if "ndarray" in kind else not isinstance(record[name], _PLAIN.get(kind, object))
        )
        if wrong:
            raise TypeError(f"{name} is {record[name]!r}")


def _terms(names: Any) -> int:
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise TypeError("no names")
    return len(names)


def _check_shapes(
    arrays: Mapping[str, np.ndarray], prefix: str, shapes: Mapping[str, str], counts: Mapping[str, int]
) -> None:
    known = dict(counts)
    for name, words in shapes.items():
        array = arrays.get(prefix + name)
        if array is None:
            continue
        kind, *axes = words.split()
        if array.dtype.kind not in _KINDS[kind] or array.ndim != len(axes):
            raise ValueError(f"{prefix}{name} is of another kind")
        for axis, length in zip(axes, array.shape, strict=True):
            if axis != "*" and length != (int(axis) if axis.isdigit() else known.setdefault(axis, length)):
                raise ValueError(f"{prefix}{name} has another length")


def _offsets(ends: np.ndarray, last: int) -> np.ndarray:
    """Where each of some stretches begins and ends, one after the other, from 0."""
    if ends[0] != 0 or ends[-1] != last or (np.diff(ends) < 0).any():
        raise ValueError("stretches out of order")
    return ends


def _within(values: np.ndarray, high: int) -> None:
    if ((values < 0) | (values >= high)).any():
        raise ValueError("an index out of range")


def _check_words(words: np.ndarray, terms: int) -> None:
    """No bit beyond the terms."""
    beyond = 64 * words.shape[1] - terms
    if beyond and words.size and int(words[:, -1].max()) >> (64 - beyond):
        raise ValueError("a model of terms that are not there")


def _check_fits(arrays: Mapping[str, np.ndarray], kind: str, widths: np.ndarray, base: int) -> None:
    """Residuals of least squares, or fits whose sizes are those of their models."""
    words = arrays[f"{kind}_words"]
    size = arrays.get(f"{kind}_fits_size")
    if size is None:
        if len(arrays[f"{kind}_resid"]) != len(words):
            raise ValueError("residuals of other models")
        return
    columns = [base + int(widths[members_of(row)].sum()) for row in words]
    lengths = len(arrays[f"{kind}_fits_coef"]), len(arrays[f"{kind}_fits_factor"])
    if size.tolist() != columns or lengths != (sum(columns), sum(k * (k + 1) // 2 for k in columns)):
        raise ValueError("fits of other models")
