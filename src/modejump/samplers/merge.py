"""The models of many chains put together, and estimates renormalised over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from modejump.core.compilation import entry
from modejump.core.threads import ThreadPool
from modejump.kernels.merge import (
    COLUMNS,
    NUMBER,
    PARTS,
    VALUE,
    Rows,
    add_terms,
    add_weights,
    count_by_hash,
    count_by_value,
    deal_by_hash,
    deal_by_value,
    new_list,
    new_rows,
    unite,
    write_part,
)
from modejump.kernels.store import ModelStore
from modejump.samplers.result import ModelTable

# Values that are looked at to cut the models into parts of about the same number.
_LOOKED_AT = 64 * PARTS
# Models that are dealt, or whose weights are added up, in one go.
_TOGETHER = 1 << 15


class Merged(NamedTuple):
    """The models of all stores.

    Attributes
    ----------
    models : ModelTable
        Those of positive probability, best first, with the number of stores in which each has visits.
    inclusion : ndarray of shape (64 W,)
        Inclusion probabilities renormalised over them.
    log_evidence : float
        Log of the sum of their posteriors; minus infinity where there is none.
    forgotten : int
        Visits to models that the stores forgot.
    """

    models: ModelTable
    inclusion: np.ndarray
    log_evidence: float
    forgotten: int


def merged_stores(stores: Sequence[ModelStore], pool: ThreadPool | None = None) -> Merged:
    """The models of some stores as one table.

    Parameters
    ----------
    stores : sequence of ModelStore
        The stores, in the order in which their models count as evaluated.
    pool : ThreadPool, optional
        Threads that share the work; the result is the same for any number.
    """
    pool = pool or ThreadPool()
    rows, starts, kept = _dealt(stores, pool)
    ends = np.array(pool.map(lambda i: _united(rows, starts[i], starts[i + 1], kept), range(PARTS)))
    rank = np.cumsum(kept, dtype=np.int32)
    forgotten = sum(int(store.scalars["forgotten"]) for store in stores)
    return _written(rows, _sorted_out(rows, starts, ends, pool), rank, pool, forgotten)


def _dealt(stores: Sequence[ModelStore], pool: ThreadPool) -> tuple[Rows, np.ndarray, np.ndarray]:
    """Rows of all entries by parts of the hash, the first row of each part, and a mark for each number."""
    sizes = [int(store.scalars["count"]) for store in stores]
    first = np.cumsum([0, *sizes])
    pieces = [(s, start) for s, size in enumerate(sizes) for start in range(0, size, _TOGETHER)]
    counts = np.zeros((len(pieces), PARTS), np.int64)
    rows = new_rows(int(first[-1]), stores[0].words.shape[1])

    def count(i: int) -> None:
        s, start = pieces[i]
        count_by_hash(stores[s].hash[start : min(start + _TOGETHER, sizes[s])], counts[i])

    pool.map(count, range(len(pieces)))
    at, starts = _places(counts)

    def deal(i: int) -> None:
        s, start = pieces[i]
        store, some = stores[s], slice(start, min(start + _TOGETHER, sizes[s]))
        columns = (store.words[some], store.log_posterior[some], store.visits[some], store.hash[some])
        deal_by_hash(rows, *columns, int(first[s]) + start, at[i])

    pool.map(deal, range(len(pieces)))
    return rows, starts, np.zeros(int(first[-1]), np.uint8)


def _places(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each source begins to write in each part, and where the parts begin, one after the other."""
    starts = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
    return starts[:-1] + np.cumsum(counts, axis=0) - counts, starts


def _united(rows: Rows, start: int, stop: int, kept: np.ndarray) -> int:
    slots = np.zeros(1 << int(max(2 * (stop - start), 2) - 1).bit_length(), np.int32)
    return unite(rows, int(start), int(stop), slots, kept)


class _Order(NamedTuple):
    """Rows by parts of the log posterior, best first: which they are, their values, and where each part begins."""

    where: np.ndarray
    value: np.ndarray
    begins: np.ndarray


def _sorted_out(rows: Rows, starts: np.ndarray, stops: np.ndarray, pool: ThreadPool) -> _Order:
    """The rows of positive probability, by parts of the log posterior."""
    column = rows.real.shape[1] - COLUMNS + VALUE
    every = max(1, int((stops - starts[:-1]).sum()) // _LOOKED_AT)
    looked_at = np.concatenate([rows.real[a:b:every, column] for a, b in zip(starts[:-1], stops, strict=True)])
    looked_at = np.sort(looked_at[np.isfinite(looked_at)])[::-1]
    ends = looked_at[[len(looked_at) * i // PARTS for i in range(1, PARTS)]] if len(looked_at) else np.zeros(0)
    counts, part = np.zeros((PARTS, PARTS), np.int64), np.empty(len(rows.words), np.int8)
    pool.map(lambda i: count_by_value(rows, int(starts[i]), int(stops[i]), ends, counts[i], part), range(PARTS))
    at, begins = _places(counts)
    where, value = np.empty(int(begins[-1]), np.int32), np.empty(int(begins[-1]))
    pool.map(lambda i: deal_by_value(rows, int(starts[i]), int(stops[i]), part, at[i], where, value), range(PARTS))
    return _Order(where, value, begins)


def _best_first(rows: Rows, where: np.ndarray, value: np.ndarray) -> np.ndarray:
    """These rows by value, and by number where values are equal."""
    order = np.argsort(-value)
    ranked = value[order]
    if (ranked[1:] == ranked[:-1]).any():
        # The quick way knows no order among equals, of which there are few, if any.
        order = np.lexsort((rows.whole[where, rows.whole.shape[1] - COLUMNS + NUMBER], -value))
    return where[order]


def _written(rows: Rows, order: _Order, rank: np.ndarray, pool: ThreadPool, forgotten: int) -> Merged:
    """The table, and the sums over it, part by part."""
    width = rows.words.shape[1] - COLUMNS
    where, value, begins = order
    listed = new_list(len(where), width)
    inclusion, sums = np.zeros((PARTS, 64 * width)), np.zeros((PARTS, 1))
    top = float(value.max(initial=-np.inf))

    def write(i: int) -> None:
        some = slice(int(begins[i]), int(begins[i + 1]))
        chosen = _best_first(rows, where[some], value[some])
        write_part(rows, chosen, some.start, rank, top, listed, inclusion[i], sums[i])

    pool.map(write, range(PARTS))
    total = float(sums.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        evidence = float(top + np.log(total)) if len(where) else -np.inf
        return Merged(ModelTable(*listed), inclusion.sum(axis=0) / total, evidence, forgotten)


def renormalised_inclusion(store: ModelStore, n_terms: int, pool: ThreadPool | None = None) -> np.ndarray:
    """Inclusion probabilities renormalised over the stored models; zeros where there is none.

    Parameters
    ----------
    store : ModelStore
        The models.
    n_terms : int
        Their terms.
    pool : ThreadPool, optional
        Threads that share the work; the result is the same for any number.
    """
    count = int(store.scalars["count"])
    if count == 0:
        return np.zeros(n_terms)
    parts = -(-count // _TOGETHER)
    inclusion, sums = np.zeros((parts, n_terms)), np.zeros((parts, 1))
    top = float(store.log_posterior[:count].max())

    def add(i: int) -> None:
        some = slice(i * _TOGETHER, min((i + 1) * _TOGETHER, count))
        add_weights(store.words[some], store.log_posterior[some], top, inclusion[i], sums[i])

    (pool or ThreadPool()).map(add, range(parts))
    return inclusion.sum(axis=0) / sums.sum()


@entry
def weighted_inclusion(words, weight, n_terms):
    """Sum of the weights of the models that have each term."""
    out = np.zeros(n_terms)
    for m in range(words.shape[0]):
        add_terms(words, m, weight[m], out)
    return out
