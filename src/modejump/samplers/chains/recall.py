"""The list of good models that a reversible chain may recall."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from modejump.core.random import alias_table
from modejump.features.expression import Expression
from modejump.kernels.populations.between import Recalled
from modejump.kernels.populations.recall_move import index_models
from modejump.runtime.snapshots import Reader

# Models that a chain may recall: so many of the best at most, and none so far below the best.
RECALLED = 1000
RECALL_SPAN = 10.0
# They are drawn by this power of their posterior: a little flatter, so that none is hard to leave.
RECALL_POWER = 0.9


def no_list(words: int) -> Recalled:
    """Nothing to recall."""
    none = np.zeros(0)
    return Recalled(
        np.zeros((0, words), np.uint64),
        np.zeros(0, np.uint64),
        none,
        none,
        np.zeros(0, np.int64),
        np.zeros(1, np.int32),
    )


def list_of(words: np.ndarray, hashes: np.ndarray, probability: np.ndarray) -> Recalled:
    """A list of models to recall, indexed by their hashes as the cache of models is."""
    return Recalled(words, hashes, np.log(probability), *alias_table(probability), _index_of(hashes))


def read_list(reader: Reader, words: int) -> Recalled:
    """A list of models to recall from the snapshot of a chain."""
    listed = reader.array("words", np.uint64, (None, words))
    m = len(listed)
    if m == 0:
        return no_list(words)
    hashes = reader.array("hash", np.uint64, (m,))
    log_weight, threshold = (reader.array(name, np.float64, (m,)) for name in ("log_weight", "threshold"))
    return Recalled(
        listed, hashes, log_weight, threshold, reader.array("alias", np.int64, (m,), (0, m)), _index_of(hashes)
    )


def _index_of(hashes: np.ndarray) -> np.ndarray:
    slots = np.zeros(1 << int(4 * len(hashes) - 1).bit_length(), np.int32)
    index_models(hashes, slots)
    return slots


def recall_list(
    features: Sequence[Expression],
    models: Sequence[tuple[frozenset[Expression], float]],
    keys: np.ndarray,
    width: int,
) -> Recalled:
    """The list of models to recall: the best of those inside the library.

    Parameters
    ----------
    features : sequence of features
        The library, by place.
    models : sequence of (model, log posterior)
        Models, best first.
    keys : ndarray of uint64
        Keys of the places.
    width : int
        Words of a model.
    """
    position = {f: i for i, f in enumerate(features)}
    inside = [(m, v) for m, v in models if all(f in position for f in m)][:RECALLED]
    if not inside:
        return no_list(width)
    top = inside[0][1]
    inside = [(m, v) for m, v in inside if v > top - RECALL_SPAN]
    words, hashes = np.zeros((len(inside), width), np.uint64), np.zeros(len(inside), np.uint64)
    row = np.repeat(np.arange(len(inside)), [len(m) for m, _ in inside])
    place = np.array([position[f] for m, _ in inside for f in m], np.int64)
    np.bitwise_or.at(words, (row, place >> 6), np.uint64(1) << (place & 63).astype(np.uint64))
    np.bitwise_xor.at(hashes, row, keys[place])
    weight = np.exp(RECALL_POWER * (np.array([v for _, v in inside]) - top))
    return list_of(words, hashes, weight / weight.sum())
