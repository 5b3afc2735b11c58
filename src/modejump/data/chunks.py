"""Rows beyond memory behind scikit-learn's interface: what ``fit`` and ``predict`` need of a source of chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.data.dask_source import scan_dask
from modejump.data.moments import Rows
from modejump.data.sources import ChunkSource, is_dask
from modejump.data.tables import ColumnSpec, TableSpec, read_groups
from modejump.estimators.job import Job
from modejump.likelihoods import Family
from modejump.samplers.budget import Budget


def open_source(table: Any) -> ChunkSource:
    """A source of chunks, from one or from a Dask frame."""
    return scan_dask(table) if is_dask(table) else table


def open_rows(
    source: Any, y: Any, sample_weight: Any, groups: Mapping[str, Sequence[str | int]] | None, workers: int
) -> tuple[TableSpec, Rows]:
    """The coding of a source's columns, and its rows.

    Parameters
    ----------
    source : ChunkSource or Dask frame
        As given to ``fit``.
    y, sample_weight : str
        Columns of the response and of the case weights.
    groups : mapping, optional
        Columns that enter and leave together.
    workers : int
        Threads.
    """
    opened = open_source(source)
    for what, name in (("y", y), ("sample_weight", sample_weight)):
        if name is not None and not isinstance(name, str):
            raise InputError(f"rows are read in chunks, so {what} must be the name of a column; got {type(name)}.")
    if y is None:
        raise InputError("rows are read in chunks, so y must be the name of the response's column; it is missing.")
    opened.need([y] if sample_weight is None else [y, sample_weight])
    if opened.unusable:
        raise InputError(
            f"column {opened.unusable[0]!r} does not hold numbers, and a table that is read in chunks can have no "
            "factors; leave it out (columns=, or --drop), or code it as numbers."
        )
    names = [name for name in opened.names if name not in (y, sample_weight)]
    if not names:
        raise InputError("the source has no columns besides the response; give at least one covariate.")
    spec = TableSpec(tuple(ColumnSpec(name) for name in names), read_groups(groups, names))
    return spec, Rows(opened, tuple(names), y, sample_weight, workers)


def refuse_family(family: Family) -> None:
    """Only Gaussian responses are summed up by products of columns."""
    if not family.conjugate:
        raise InputError(
            "rows that are read in chunks need family 'gaussian', whose models are fitted from sums; for "
            f"{family.name!r} read the table into memory, or a sample of its rows."
        )


def job_elsewhere(spec: TableSpec, algorithm: str, budget: Budget | None, chains: int, workers: int, seed: int) -> Job:
    """The work of a fit whose rows are not in memory."""
    return Job(
        spec, np.empty((0, len(spec.names))), np.empty(0), None, None, algorithm, budget, chains, workers, seed
    )  # fmt: skip


def refuse_offset(offset: Any) -> None:
    """An array has no place beside rows that are read in chunks."""
    if offset is not None:
        raise InputError("an offset does not go with rows that are read in chunks; predict tables in memory instead.")


def remember_names(estimator: Any, spec: TableSpec) -> None:
    """What scikit-learn asks of a fitted estimator."""
    estimator.feature_names_in_ = np.array(spec.names, dtype=object)
    estimator.n_features_in_ = len(spec.names)


def frames(source: Any, names: Sequence[str]) -> Iterator[pd.DataFrame]:
    """Chunks of a source as frames of the columns that prediction needs.

    Parameters
    ----------
    source : ChunkSource or Dask frame
        The new rows.
    names : sequence of str
        Columns.
    """
    opened = open_source(source)
    opened.need(names)
    some = False
    for values in opened.chunks(names):
        some = True
        yield pd.DataFrame(values.T, columns=list(names), copy=False)
    if not some:
        raise InputError("the source has no rows; give a table with at least one.")


def column(source: Any, name: Any) -> np.ndarray:
    """One column of a source, whole."""
    if not isinstance(name, str):
        raise InputError(f"rows are read in chunks, so give the name of a column; got {type(name)}.")
    opened = open_source(source)
    opened.need([name])
    parts = [values[0] for values in opened.chunks([name])]
    if not parts:
        raise InputError("the source has no rows; give a table with at least one.")
    return np.concatenate(parts)
