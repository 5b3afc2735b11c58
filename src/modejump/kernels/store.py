"""The cache of evaluated models: a hash table of bit sets with a memory bound.

Models are hashed incrementally (the xor of one fixed key for each term), stored in order of first evaluation, and
confirmed word by word. The store grows between batches of steps; at its memory bound the worse half is forgotten.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import entry, kernel
from modejump.core.handles import scalars_of


class ModelStore(NamedTuple):
    """Open addressing: ``slots`` holds entry + 1, zero where free."""

    words: np.ndarray
    log_posterior: np.ndarray
    visits: np.ndarray
    hash: np.ndarray
    slots: np.ndarray
    scalars: np.ndarray  # count; forgotten: visits to models that were dropped; evaluated


def new_store(capacity: int, n_words: int) -> ModelStore:
    """An empty store for ``capacity`` models (the index is at most half full)."""
    slots = 1 << int(2 * capacity - 1).bit_length()
    return ModelStore(
        np.zeros((capacity, n_words), np.uint64),
        np.zeros(capacity),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.uint64),
        np.zeros(slots, np.int32),
        scalars_of(count=0, forgotten=0, evaluated=0),
    )


def bytes_per_model(n_words: int) -> int:
    """Memory of one stored model, its share of the index included."""
    return 8 * n_words + 24 + 16


@kernel
def first_slot(key, slots):
    """Where the search for a key begins in a table of so many slots, a power of two."""
    return ((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & np.uint64(slots - 1)


@kernel
def probe(store, key, words):
    """Entry of a model, or -1 where it is not stored."""
    index, hashes, known = store.slots, store.hash, store.words
    mask = np.uint64(len(index) - 1)
    at = first_slot(key, len(index))
    while True:
        e = index[at] - 1
        if e < 0:
            return -1
        if hashes[e] == key:
            same = True
            for i in range(len(words)):
                if known[e, i] != words[i]:
                    same = False
                    break
            if same:
                return e
        at = (at + np.uint64(1)) & mask


@kernel
def insert(store, key, words, log_posterior):
    """Add a model that is not stored; its entry, or -1 where the store is full."""
    e = store.count
    store.evaluated += 1
    if e == len(store.log_posterior):
        return -1
    index, known = store.slots, store.words
    mask = np.uint64(len(index) - 1)
    at = first_slot(key, len(index))
    while index[at] != 0:
        at = (at + np.uint64(1)) & mask
    index[at] = e + 1
    store.hash[e] = key
    for i in range(len(words)):
        known[e, i] = words[i]
    store.log_posterior[e] = log_posterior
    store.visits[e] = 0
    store.count = e + 1
    return e


@entry
def copy_entries(source, target):
    """Copy all entries, in order, to an empty store with room for them."""
    for e in range(source.count):
        new = insert(target, source.hash[e], source.words[e], source.log_posterior[e])
        target.visits[new] = source.visits[e]
    target.forgotten = source.forgotten
    target.evaluated = source.evaluated


@entry
def drop_others(store, keep, moved):
    """Close the gaps between the entries marked in ``keep``; ``moved[e]`` becomes the new entry or -1."""
    index, hashes, words = store.slots, store.hash, store.words
    index[:] = 0
    mask = np.uint64(len(index) - 1)
    new = 0
    for e in range(len(keep)):
        moved[e] = -1
        if not keep[e]:
            store.forgotten += store.visits[e]
            continue
        moved[e] = new
        hashes[new] = hashes[e]
        for i in range(words.shape[1]):
            words[new, i] = words[e, i]
        store.log_posterior[new] = store.log_posterior[e]
        store.visits[new] = store.visits[e]
        at = first_slot(hashes[new], len(index))
        while index[at] != 0:
            at = (at + np.uint64(1)) & mask
        new += 1
        index[at] = new
    store.count = new


def resize(store: ModelStore, capacity: int) -> ModelStore:
    """A store of another capacity with the same models."""
    new = new_store(capacity, store.words.shape[1])
    copy_entries(store, new)
    return new


def better_half(store: ModelStore, always: int) -> np.ndarray:
    """Mask of the better half of the stored models; entry ``always`` (the chain's own model) is kept in any case.

    Of models with the value at which the half ends, the first are kept.
    """
    value = store.log_posterior[: int(store.scalars["count"])]
    half = len(value) // 2
    if half == 0:
        keep = np.zeros(len(value), np.bool_)
    else:
        end = np.partition(value, len(value) - half)[len(value) - half]
        keep = value > end
        keep[np.flatnonzero(value == end)[: half - np.count_nonzero(keep)]] = True
    keep[always] = True
    return keep


def forget(store: ModelStore, keep: np.ndarray) -> np.ndarray:
    """Leave the entries marked in ``keep`` only, in the same arrays; where each one went."""
    moved = np.empty(len(keep), np.int64)
    drop_others(store, keep, moved)
    return moved
