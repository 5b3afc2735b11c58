"""Columns of logic features, from covariates that are packed into bits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.bits import and_count, pack_block
from modejump.core.compilation import implements, kernel
from modejump.core.handles import scalars_of
from modejump.features.language import keep_column, product, write_column
from modejump.features.logic.operators import LogicRules, leaf_of, truth_of, width_of
from modejump.features.pool import dot_rows


class LogicPool(NamedTuple):
    """Covariates as bits, and a scratch row. A column is made anew faster than it could be kept: nothing is."""

    words: np.ndarray  # uint64 (columns, W): row r of a column is bit r % 64 of word r // 64
    made: np.ndarray  # uint64 (W,): those of the feature written last
    scratch: np.ndarray  # float64 (1, n)
    values: np.ndarray  # float64 (1, 0)
    owner: np.ndarray  # int64 (1,)
    slot: np.ndarray  # int32 (features,)
    scalars: np.ndarray  # next
    unit: int  # whether all rows have weight one, so that products can be counted


def new_pool(x: np.ndarray, root_weight: np.ndarray, features: int) -> LogicPool:
    """The pool of these covariates, for a table with room for so many features."""
    return LogicPool(
        words=pack_block(x.T != 0.0),
        made=np.zeros(-(-x.shape[1] // 64), np.uint64),
        scratch=np.zeros((1, x.shape[1])),
        values=np.zeros((1, 0)),
        owner=np.full(1, -1, np.int64),
        slot=np.zeros(features, np.int32),
        scalars=scalars_of(next=0),
        unit=int((root_weight == 1.0).all()),
    )


@kernel
def feature_word(table, pool, f, w):
    """Word w of a feature's column: the rows of all combinations of its leaves at which it is true."""
    truth, k, words = truth_of(table, f), width_of(table, f), pool.words
    made = np.uint64(0)
    for r in range(1 << k):
        if (truth >> r) & 1:
            rows = ~np.uint64(0)
            for i in range(k):
                word = words[table.code[leaf_of(table, f, i)], w]
                rows &= word if (r >> i) & 1 else ~word
            made |= rows
    return made


@implements(write_column, LogicRules)
def _write_column(space, table, pool, f):
    scratch = pool.scratch
    n = scratch.shape[1]
    for w in range(pool.words.shape[1]):
        word = feature_word(table, pool, f, w)
        pool.made[w] = word
        for r in range(64 * w, min(64 * w + 64, n)):
            scratch[0, r] = np.float64((word >> np.uint64(r & 63)) & np.uint64(1))
    return True


@implements(keep_column, LogicRules)
def _keep_column(space, pool, population, place):
    bits, shared, basis = population.bits, population.shared, population.basis
    last = shared.shape[1] - 1
    shared[place, last] = 0.0
    if not pool.unit:
        return
    # Bits beyond the last row are zero: there all covariates are, and with them every canonical function.
    for w in range(bits.shape[1]):
        bits[place, w] = pool.made[w]
    length = float(and_count(bits, place, bits, place))
    for b in range(last):
        shared[place, b] = dot_rows(basis, b, pool.scratch, np.int64(0))
        length -= shared[place, b] ** 2
    shared[place, last] = 1.0 / np.sqrt(length)


@implements(product, LogicRules)
def _product(space, population, i, j):
    shared = population.shared
    last = shared.shape[1] - 1
    scale = shared[i, last] * shared[j, last]
    if scale == 0.0:
        return dot_rows(population.z, i, population.z, j)
    total = float(and_count(population.bits, i, population.bits, j))
    for b in range(last):
        total -= shared[i, b] * shared[j, b]
    return total * scale
