"""Columns of zeros and ones, sixty-four rows to a machine word: packing, and products by counts of set bits.

Row r of a column is bit ``r & 63`` of its word ``r >> 6``; bits beyond the last row are zero.
"""

from __future__ import annotations

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from modejump.core.compilation import kernel


def pack_block(ones: np.ndarray) -> np.ndarray:
    """Words of the columns of a boolean matrix."""
    n, m = ones.shape
    octets = np.zeros((m, 8 * -(-n // 64)), np.uint8)
    octets[:, : -(-n // 8)] = np.packbits(np.ascontiguousarray(ones.T), axis=1, bitorder="little")
    return octets.view("<u8").astype(np.uint64, copy=False)


@intrinsic
def popcount(context, word):
    """Number of set bits of a word; one instruction on most processors."""
    return types.int64(types.uint64), lambda context, builder, signature, given: builder.ctpop(given[0])


@kernel
def and_count(words, i, others, j):
    """Product of two columns: how many rows are one in both."""
    count = 0
    for w in range(words.shape[1]):
        count += popcount(words[i, w] & others[j, w])
    return count
