"""A digest of the rows of a table that knows neither their order nor how they were cut into chunks.

Each row becomes one 64-bit number: the sum of the bits of its values times an odd number for each column. Two lanes sum
two scramblings of these numbers, a row of weight two as two rows. Integers wrap around, so that the sums are the same
in any order, on any machine.
"""

from __future__ import annotations

import numpy as np

from modejump.features.arena import mix
from modejump.jit import entry

_SIGN = 0x8000000000000000


@entry
def digest_rows(bits, times, lanes):
    """Add the rows of a block to the two lanes.

    Parameters
    ----------
    bits : uint64[k, m]
        The bits of the values, one row of the block for each column of the table.
    times : uint64[m]
        How often each row counts.
    lanes : uint64[2]
        Receives the sums.
    """
    k, m = bits.shape
    row = np.zeros(m, np.uint64)
    for j in range(k):
        factor = mix(np.uint64(j + 1)) | np.uint64(1)
        for r in range(m):
            # Minus zero is zero.
            value = bits[j, r] if bits[j, r] != np.uint64(_SIGN) else np.uint64(0)
            row[r] += value * factor
    for r in range(m):
        first = mix(row[r])
        lanes[0] += first * times[r]
        lanes[1] += mix(first + np.uint64(0x9E3779B97F4A7C15)) * times[r]


@entry
def _scramble(values, out):
    for r in range(len(values)):
        out[r] = mix(values[r])


def row_lanes(block: np.ndarray, weight: np.ndarray | None, lanes: np.ndarray) -> None:
    """Add the rows of a block of columns (one row for each column) to the two lanes of a digest.

    Parameters
    ----------
    block : ndarray of shape (k, m)
        Values.
    weight : ndarray of shape (m,), optional
        Case weights; whole numbers count rows.
    lanes : ndarray of uint64, shape (2,)
        Receives the sums.
    """
    m = block.shape[1]
    times = np.ones(m, np.uint64)
    if weight is not None:
        whole = (weight == np.floor(weight)) & (weight < 2.0**53)
        _scramble(np.ascontiguousarray(weight).view(np.uint64), times)
        times = np.where(whole, np.where(whole, weight, 0.0).astype(np.uint64), times)
    digest_rows(np.ascontiguousarray(block).view(np.uint64), times, lanes)
