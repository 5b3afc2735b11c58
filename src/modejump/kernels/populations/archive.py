"""The archive of a chain of populations: the distinct models worth keeping, by canonical features.

A model's key is the xor of its features' structural keys, the same in every population and every chain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.handles import scalars_of
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.store import first_slot
from modejump.kernels.traverse import select

# A model so far below the best has no weight in any estimate.
NEGLIGIBLE = 40.0


class Archive(NamedTuple):
    """Models kept, with their features; and the keys of all distinct models met, as far as there is room."""

    key: np.ndarray  # uint64 (cap,)
    log_posterior: np.ndarray  # float64 (cap,)
    visits: np.ndarray  # int64 (cap,): sampling steps that ended in the model
    size: np.ndarray  # int64 (cap,)
    features: np.ndarray  # int32 (cap, Q)
    slots: np.ndarray  # int32 (slots,)
    seen: np.ndarray  # uint64 (slots,): keys of distinct models, 0 where free
    # kept; distinct: met; evaluated; forgotten: visits to models that were not kept; best; bar: log posterior that a
    # model must exceed to be kept; span: how far below the best that is at least
    scalars: np.ndarray


def new_archive(capacity: int, max_size: int, seen: int, span: float = NEGLIGIBLE) -> Archive:
    """An empty archive for ``capacity`` models of up to ``max_size`` features; counts up to ``seen`` distinct ones.

    Models further than ``span`` below the best one are not kept.
    """
    return Archive(
        np.zeros(capacity, np.uint64),
        np.zeros(capacity),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros((capacity, max_size), np.int32),
        np.zeros(1 << int(2 * capacity - 1).bit_length(), np.int32),
        np.zeros(1 << int(2 * max(seen, 1) - 1).bit_length(), np.uint64),
        scalars_of(kept=0, distinct=0, evaluated=0, forgotten=0, best=NEG_INF, bar=NEG_INF, span=float(span)),
    )


@kernel
def note_seen(archive, key):
    """Count a model among the distinct ones; once the table is three quarters full, no longer."""
    seen = archive.seen
    if 4 * archive.distinct > 3 * len(seen):
        return
    mark = key if key != 0 else np.uint64(1)
    at = first_slot(mark, len(seen))
    while seen[at] != 0:
        if seen[at] == mark:
            return
        at = (at + np.uint64(1)) & np.uint64(len(seen) - 1)
    seen[at] = mark
    archive.distinct += 1


@kernel
def _reindex(archive):
    index, key = archive.slots, archive.key
    for i in range(len(index)):
        index[i] = 0
    for e in range(archive.kept):
        at = first_slot(key[e], len(index))
        while index[at] != 0:
            at = (at + np.uint64(1)) & np.uint64(len(index) - 1)
        index[at] = e + 1


@kernel
def _thin(archive):
    """Keep what is above the median of a full archive; where too many are level with it, the first of them."""
    values, key, size, features = archive.log_posterior, archive.key, archive.size, archive.features
    visits = archive.visits
    n = archive.kept
    half = n // 2
    bar = select(values[:n].copy(), n - half)
    above = 0
    for e in range(n):
        if values[e] > bar:
            above += 1
    level = half if above == 0 else 0
    kept = 0
    for e in range(n):
        if values[e] == bar:
            level -= 1
        if values[e] > bar or (values[e] == bar and level >= 0):
            values[kept], key[kept], size[kept], visits[kept] = values[e], key[e], size[e], visits[e]
            for i in range(size[e]):
                features[kept, i] = features[e, i]
            kept += 1
        else:
            archive.forgotten += visits[e]
    archive.bar = max(archive.bar, bar)
    archive.kept = kept
    _reindex(archive)


@kernel
def keep(archive, key, value, words, e, pop, visits):
    """Add a model with its visits, or the visits to a model that is there."""
    index, keys = archive.slots, archive.key
    at = first_slot(key, len(index))
    while index[at] != 0:
        if keys[index[at] - 1] == key:
            archive.visits[index[at] - 1] += visits
            return
        at = (at + np.uint64(1)) & np.uint64(len(index) - 1)
    new = archive.kept
    index[at] = new + 1
    keys[new] = key
    archive.log_posterior[new] = value
    archive.visits[new] = visits
    m = 0
    for place in range(len(pop.feature)):
        if (words[e, place >> 6] >> np.uint64(place & 63)) & np.uint64(1):
            archive.features[new, m] = pop.feature[place]
            m += 1
    archive.size[new] = m
    archive.kept = new + 1
    archive.best = max(archive.best, value)
    archive.bar = max(archive.bar, archive.best - archive.span)
    if new + 1 == len(keys):
        _thin(archive)


@kernel
def archive_store(archive, store, pop):
    """Take over what a population's store holds."""
    values, words, keys = store.log_posterior, store.words, store.hash
    archive.evaluated += store.count
    for e in range(store.count):
        if values[e] > NEG_INF:
            note_seen(archive, keys[e])
            if values[e] > archive.bar:
                keep(archive, keys[e], values[e], words, e, pop, np.int64(0))
