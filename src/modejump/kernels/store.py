"""The cache of evaluated models: a hash table of bit sets with a memory bound.

Models are hashed incrementally (the xor of one fixed key for each term), stored in order of first evaluation, and
confirmed word by word. The store grows between batches of steps; at its memory bound the worse half is forgotten.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.handle import handle
from modejump.jit import entry, kernel

COUNT, FORGOTTEN, EVALUATED = 0, 1, 2


class ModelStore(NamedTuple):
    """Open addressing: ``slots`` holds entry + 1, zero where free; ``num`` counts entries and what was forgotten."""

    words: np.ndarray
    log_posterior: np.ndarray
    visits: np.ndarray
    hash: np.ndarray
    slots: np.ndarray
    num: np.ndarray


def new_store(capacity: int, n_words: int) -> ModelStore:
    """An empty store for ``capacity`` models (the index is at most half full)."""
    slots = 1 << int(2 * capacity - 1).bit_length()
    return ModelStore(
        np.zeros((capacity, n_words), np.uint64),
        np.zeros(capacity),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.uint64),
        np.zeros(slots, np.int32),
        np.zeros(4, np.int64),
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
    e = store.num[COUNT]
    store.num[EVALUATED] += 1
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
    store.num[COUNT] = e + 1
    return e


@entry
def copy_kept(old_store, new_store, keep, moved):
    """Copy the entries marked in ``keep``, in order; ``moved[e]`` becomes the new entry or -1."""
    source, target = handle(old_store), handle(new_store)
    for e in range(source.num[COUNT]):
        if keep[e]:
            new = insert(target, source.hash[e], source.words[e], source.log_posterior[e])
            target.visits[new] = source.visits[e]
            moved[e] = new
        else:
            target.num[FORGOTTEN] += source.visits[e]
            moved[e] = -1
    target.num[FORGOTTEN] += source.num[FORGOTTEN]
    target.num[EVALUATED] = source.num[EVALUATED]


@entry
def merge_into(target_store, source_store):
    """Add the entries of one store to another, summing visits of models that both hold; where each one went."""
    target, source = handle(target_store), handle(source_store)
    went = np.empty(source.num[COUNT], np.int64)
    for e in range(len(went)):
        at = probe(target, source.hash[e], source.words[e])
        if at < 0:
            at = insert(target, source.hash[e], source.words[e], source.log_posterior[e])
        target.visits[at] += source.visits[e]
        went[e] = at
    target.num[FORGOTTEN] += source.num[FORGOTTEN]
    return went


def resize(store: ModelStore, capacity: int, keep: np.ndarray | None = None) -> tuple[ModelStore, np.ndarray]:
    """A store of another capacity with the same models, or those marked in ``keep``; and where each one went."""
    count = int(store.num[COUNT])
    if keep is None:
        keep = np.ones(count, np.bool_)
    new = new_store(capacity, store.words.shape[1])
    moved = np.empty(count, np.int64)
    copy_kept(store, new, keep, moved)
    return new, moved


def better_half(store: ModelStore, always: int) -> np.ndarray:
    """Mask of the better half of the stored models; entry ``always`` (the chain's own model) is kept in any case."""
    count = int(store.num[COUNT])
    order = np.argsort(-store.log_posterior[:count], kind="stable")
    keep = np.zeros(count, np.bool_)
    keep[order[: count // 2]] = True
    keep[always] = True
    return keep
