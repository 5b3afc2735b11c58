"""Selection among very many columns: a problem over features each of which is one column of a table.

The table stays where it is and as it is (float64, float32 or int8, in memory or mapped from a file); nothing here is as
large as the table, and nothing as large as the square of its columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from modejump.core.errors import InputError, warn_user
from modejump.core.threads import ThreadPool, one_blas_thread
from modejump.data.names import Names, names_of
from modejump.data.rows import as_if_writable
from modejump.features.covariates.language import Covariates, Limits
from modejump.likelihoods import Family, resolve_family
from modejump.priors.models import resolve_model_prior
from modejump.priors.sizes import SizePrior
from modejump.problem.checks import checked_rows
from modejump.problem.design import BASE_TOLERANCE
from modejump.problem.feature_problem import FeatureProblem, base_fields, checked_fixed

# Columns in a model at most, where the model prior sets no limit. Far more than a posterior over so many columns has
# use for; a run that comes near it says so.
MOST_COLUMNS = 64
# Kinds of numbers that columns are read in without a copy.
KINDS = (np.float64, np.float32, np.int8)
_BLOCK_BYTES = 2**20


class ColumnsByName(Mapping[str, np.ndarray]):
    """Columns of a table (columns, n) by name, as float64, made when they are asked for."""

    def __init__(self, names: Names, x: np.ndarray) -> None:
        self.names, self.x = names, x

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(self.x[self.names.index(name)], dtype=np.float64)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class WideProblem(FeatureProblem):
    """A problem over the columns of a table; ``x`` has one line for each, in the numbers that it came in."""

    # (columns,): lengths of the weighted columns without the base; zero where nothing is left, so that no model has
    # the column.
    lengths: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def table(self) -> Mapping[str, np.ndarray]:  # type: ignore[override]
        """The columns by name."""
        return ColumnsByName(self.language.names, self.x)  # type: ignore[arg-type]

    def standardised(self, columns: Sequence[int] | np.ndarray) -> np.ndarray:
        """Some columns weighted, without the base, of unit length: shape (n, columns)."""
        z = np.asarray(self.x[columns], dtype=np.float64).T * self.root_weight[:, None]
        # A second pass removes what rounding left of a large mean.
        for _ in range(2):
            z -= self.basis.T @ (self.basis @ z)
        return z / self.lengths[columns]

    def blocks(self) -> list[slice]:
        """Columns in blocks whose numbers stay in the processor's cache."""
        columns, n = self.x.shape
        return _blocks(columns, n)


def _blocks(columns: int, n: int) -> list[slice]:
    step = max(64, _BLOCK_BYTES // (8 * n))
    return [slice(start, min(columns, start + step)) for start in range(0, columns, step)]


def wide_problem(
    x: np.ndarray,
    y: np.ndarray,
    names: Sequence[str] | int | Names | None = None,
    *,
    coef_prior: Any = "g",
    model_prior: Any = "beta-binomial",
    weights: np.ndarray | None = None,
    intercept: bool = True,
    family: str | Family = "gaussian",
    link: str | None = None,
    offset: np.ndarray | None = None,
    always_in: Mapping[str, np.ndarray] | None = None,
    pool: ThreadPool | None = None,
) -> WideProblem:
    """Check the data and make a problem over the columns of a table.

    Columns are of float64, float32 or int8. Where they lie one after the other (Fortran's order, or the transpose of a
    mapped file with one line for each), no copy is made; otherwise one, of the same numbers.
    """
    family = resolve_family(family, link)
    if family.custom:
        raise InputError("a likelihood of your own needs all terms in one list; use algorithm='mjmcmc'.")
    family.check_rows(weights, offset)
    if x.ndim != 2 or x.shape[1] == 0:
        raise InputError(f"X must be a table with at least one column; got an array of shape {x.shape}.")
    prior = SizePrior(resolve_model_prior(model_prior))
    fixed = checked_fixed(always_in or {}, len(x), weights)
    # The checks of the rows, with a column that passes them in the place of the table.
    _, y, w, known = checked_rows(np.zeros((len(x), 1)), y, weights, offset)
    family.check(y)
    lines = _lines(x if len(w) == len(x) else x[np.asarray(weights) > 0])
    listed = names_of(lines.shape[0] if names is None else names)
    if len(listed) != len(lines):
        raise InputError(f"X has {len(lines)} columns and there are {len(listed)} names; give each column its own.")
    fields, _ = base_fields(
        np.zeros((len(y), 0)), y, w, known, fixed, intercept=intercept, family=family, coef_prior=coef_prior
    )
    lengths = _lengths(lines, fields["root_weight"], fields["basis"], listed, pool or ThreadPool())
    _tell_dead(lengths, listed, fixed)
    room = max(int(np.ceil(fields["n"])) - len(fields["basis"]) - 1, 1)
    size = min(prior.prior.max_size or MOST_COLUMNS, room, len(lines))
    return WideProblem(language=Covariates(listed, Limits(size)), x=lines, model_prior=prior, lengths=lengths, **fields)


def _lines(x: np.ndarray) -> np.ndarray:
    """The columns as lines, in their own numbers; without a copy where they lie one after the other."""
    if x.dtype not in KINDS:
        if x.dtype.kind not in "biuf":
            raise InputError(f"X holds values of type {x.dtype}; give numbers.")
        x = x.astype(np.int8 if x.dtype == np.bool_ else np.float64)
    # Arrays that may not be written to, or that are mapped from a file, would be other types to compiled code.
    return as_if_writable(np.asarray(np.ascontiguousarray(x.T)))


def _lengths(x: np.ndarray, root: np.ndarray, basis: np.ndarray, names: Names, pool: ThreadPool) -> np.ndarray:
    """Lengths of the weighted columns without the base; NaN is refused."""

    def measure(some: slice) -> np.ndarray:
        block = np.asarray(x[some], dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isfinite(block.sum()) and not (finite := np.isfinite(block)).all():
                line = int(np.argmax(~finite.all(axis=1)))
                row = int(np.argmax(~finite[line]))
                what = "NaN" if np.isnan(block[line, row]) else "infinite (inf)"
                raise InputError(
                    f"column {names[some.start + line]!r} is {what} in row {row} (counting from 0); drop or impute "
                    "such rows first, or drop the column."
                )
        block = block * root
        total = np.linalg.norm(block, axis=1)
        for _ in range(2):
            block -= (block @ basis.T) @ basis
        length = np.linalg.norm(block, axis=1)
        return np.where(length > BASE_TOLERANCE * total, length, 0.0)

    with one_blas_thread():
        return np.concatenate(pool.map(measure, _blocks(*x.shape)))


def _tell_dead(lengths: np.ndarray, names: Names, fixed: Mapping[str, np.ndarray]) -> None:
    """Name columns that no model can have, besides those that are always in."""
    dead = np.flatnonzero(lengths == 0.0)
    if len(dead) == len(lengths):
        raise InputError("every column is constant, so there is nothing to select; check the columns.")
    dead = np.array([j for j in dead if names[int(j)] not in fixed], np.int64) if fixed else dead
    if len(dead):
        some = ", ".join(repr(names[int(j)]) for j in dead[:5]) + (", ..." if len(dead) > 5 else "")
        warn_user(
            f"{len(dead)} of {len(lengths)} columns are constant, or linear combinations of what is always in, and are "
            f"ignored: {some}."
        )
