"""The models of many stores put together, in parts that threads share.

A model is a row: its words, its log posterior, its visits, its number, and its hash, whose place the number of its
visitors takes. First the rows of all stores are dealt to parts by their hash; in each part the rows of one model become
one. Then the rows are dealt to parts by their log posterior, best first, and each part is sorted and written out. What
comes out is one order of the models, the same however the parts were cut and whoever did which.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import entry, kernel

# Parts by hash, as a power of two, and parts by log posterior.
PART_BITS = 6
PARTS = 1 << PART_BITS
_SHIFT = np.uint64(64 - PART_BITS)
# The six leading bits of this number times 2^b are different for each b, so that they tell which bit a word has.
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_BIT_OF = np.zeros(64, np.int64)
_BIT_OF[[(0x03F79D71B4CB0A89 << b & 0xFFFFFFFFFFFFFFFF) >> 58 for b in range(64)]] = np.arange(64)
# Columns of a row after its words.
VALUE, VISITS, NUMBER, HASH = 0, 1, 2, 3
VISITORS = HASH
COLUMNS = 4


class Rows(NamedTuple):
    """Rows of models, seen as three types of numbers."""

    words: np.ndarray  # uint64 (rows, W + COLUMNS)
    real: np.ndarray  # float64, the same memory
    whole: np.ndarray  # int64, the same memory


class Listed(NamedTuple):
    """Models in their order, column by column."""

    words: np.ndarray
    log_posterior: np.ndarray
    visits: np.ndarray
    first_seen: np.ndarray
    chains: np.ndarray


def new_rows(count: int, n_words: int) -> Rows:
    """Room for so many rows."""
    words = np.empty((count, n_words + COLUMNS), np.uint64)
    return Rows(words, words.view(np.float64), words.view(np.int64))


def new_list(count: int, n_words: int) -> Listed:
    """Room for so many models."""
    return Listed(
        np.empty((count, n_words), np.uint64),
        np.empty(count),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
    )


@entry
def count_by_hash(hashes, counts):
    """Add to ``counts`` how many of these hashes belong to each part."""
    for e in range(len(hashes)):
        counts[np.int64(hashes[e] >> _SHIFT)] += 1


@entry
def deal_by_hash(r, words, value, visits, hashes, first, at):
    """Write the entries of a store, the first of which has the number ``first``, to where each part goes on."""
    to_words, real, whole = r.words, r.real, r.whole
    width = words.shape[1]
    for e in range(len(hashes)):
        part = np.int64(hashes[e] >> _SHIFT)
        row = at[part]
        at[part] = row + 1
        for i in range(width):
            to_words[row, i] = words[e, i]
        real[row, width + VALUE] = value[e]
        whole[row, width + VISITS] = visits[e]
        whole[row, width + NUMBER] = first + e
        to_words[row, width + HASH] = hashes[e]


@entry
def unite(r, start, stop, slots, kept):
    """Make one row of the r of each model, which are in order of evaluation; returns where the part ends now.

    Visits are added, and stores with visits counted. ``slots`` is all zeros, a power of two and at least twice the
    r. ``kept`` is marked at the numbers that stay.
    """
    words, whole = r.words, r.whole
    width = words.shape[1] - COLUMNS
    mask = np.uint64(len(slots) - 1)
    end = start
    for row in range(start, stop):
        key = words[row, width + HASH]
        at = ((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask
        visits = whole[row, width + VISITS]
        known = False
        while slots[at] != 0 and not known:
            other = start + slots[at] - 1
            known = True
            for i in range(width):
                known = known and words[other, i] == words[row, i]
            if known:
                whole[other, width + VISITS] += visits
                whole[other, width + VISITORS] += visits > 0
            else:
                at = (at + np.uint64(1)) & mask
        if known:
            continue
        for i in range(width + HASH):
            words[end, i] = words[row, i]
        whole[end, width + VISITORS] = visits > 0
        kept[whole[end, width + NUMBER]] = 1
        end += 1
        slots[at] = end - start
    return end


@kernel
def _part_of(value, ends):
    """Part of a log posterior: how many of the ends, which descend, are above it."""
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) >> 1
        if ends[middle] > value:
            low = middle + 1
        else:
            high = middle
    return low


@entry
def count_by_value(rows, start, stop, ends, counts, part):
    """Count how many rows belong to each part by value; those of probability zero belong to none.

    The part of each row is left in ``part``.
    """
    real = rows.real
    column = real.shape[1] - COLUMNS + VALUE
    for row in range(start, stop):
        value = real[row, column]
        part[row] = -1
        if np.isfinite(value):
            p = _part_of(value, ends)
            part[row] = p
            counts[p] += 1


@entry
def deal_by_value(rows, start, stop, part, at, where, value):
    """Write which rows they are, and their values, to where each part by value goes on."""
    real = rows.real
    column = real.shape[1] - COLUMNS + VALUE
    for row in range(start, stop):
        p = part[row]
        if p < 0:
            continue
        new = at[p]
        at[p] = new + 1
        where[new] = row
        value[new] = real[row, column]


@kernel
def add_terms(words, row, weight, out):
    """Add a weight for each term of a model."""
    one = np.uint64(1)
    for w in range(words.shape[1]):
        word = words[row, w]
        while word != 0:
            rest = word & (word - one)
            out[64 * w + _BIT_OF[((word ^ rest) * _DE_BRUIJN) >> np.uint64(58)]] += weight
            word = rest


@entry
def write_part(r, chosen, start, rank, top, out, inclusion, sums):
    """Write the r chosen, in their order, to the list from ``start`` on; add up posteriors relative to ``top``.

    ``rank`` has for each number one more than the rank among those that stayed. Terms' sums are added to
    ``inclusion``, and the sum of all to ``sums[0]``.
    """
    words, real, whole, to_words, to_value = r.words, r.real, r.whole, out.words, out.log_posterior
    visits, first_seen, chains = out.visits, out.first_seen, out.chains
    width = words.shape[1] - COLUMNS
    for i in range(len(chosen)):
        row, to = chosen[i], start + i
        for w in range(width):
            to_words[to, w] = words[row, w]
        to_value[to] = real[row, width + VALUE]
        visits[to] = whole[row, width + VISITS]
        first_seen[to] = rank[whole[row, width + NUMBER]] - 1
        chains[to] = whole[row, width + VISITORS]
    for to in range(start, start + len(chosen)):
        weight = np.exp(to_value[to] - top)
        sums[0] += weight
        add_terms(to_words, to, weight, inclusion)


@entry
def add_weights(words, value, top, inclusion, sums):
    """Add up the posteriors of models relative to ``top``, by terms and all together."""
    for row in range(len(value)):
        weight = np.exp(value[row] - top)
        sums[0] += weight
        add_terms(words, row, weight, inclusion)
