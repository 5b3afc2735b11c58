"""A digest of the rows of a table that knows neither their order nor how they were cut into chunks.

Each row becomes one 64-bit number: the sum of the bits of its values times an odd number for each column. Two lanes sum
two scramblings of these numbers, a row of weight two as two rows. Integers wrap around, so that the sums are the same
in any order, on any machine.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import entry
from modejump.features.table import mix

_SIGN = np.uint64(0x8000000000000000)
_STEP = np.uint64(0x9E3779B97F4A7C15)


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
            value = bits[j, r] if bits[j, r] != _SIGN else np.uint64(0)
            row[r] += value * factor
    for r in range(m):
        first = mix(row[r])
        lanes[0] += first * times[r]
        lanes[1] += mix(first + _STEP) * times[r]


def digest_rows_plain(bits: np.ndarray, times: np.ndarray, lanes: np.ndarray) -> None:
    """Plain twin of :func:`digest_rows`; it needs no compilation, and serves tables in memory."""
    row = np.zeros(bits.shape[1], np.uint64)
    for j, values in enumerate(bits):
        factor = mix_plain(np.full(1, j + 1, np.uint64)) | np.uint64(1)
        row += np.where(values != _SIGN, values, np.uint64(0)) * factor
    first = mix_plain(row)
    # As an array: NumPy warns where single numbers wrap around.
    second = mix_plain(first + _STEP)
    lanes += np.array([(part * times).sum(dtype=np.uint64) for part in (first, second)])


def mix_plain(x: np.ndarray) -> np.ndarray:
    """Plain twin of :func:`modejump.features.table.mix`, for arrays."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def row_lanes(block: np.ndarray, weight: np.ndarray | None, lanes: np.ndarray, compiled: bool = True) -> None:
    """Add the rows of a block of columns (one row for each column) to the two lanes of a digest.

    Parameters
    ----------
    block : ndarray of shape (k, m)
        Values.
    weight : ndarray of shape (m,), optional
        Case weights; whole numbers count rows.
    lanes : ndarray of uint64, shape (2,)
        Receives the sums.
    compiled : bool
        Whether to use the compiled function.
    """
    times = np.ones(block.shape[1], np.uint64)
    if weight is not None:
        whole = (weight == np.floor(weight)) & (weight < 2.0**53)
        other = mix_plain(np.ascontiguousarray(weight).view(np.uint64))
        times = np.where(whole, np.where(whole, weight, 0.0).astype(np.uint64), other)
    add = digest_rows if compiled else digest_rows_plain
    add(np.ascontiguousarray(block).view(np.uint64), times, lanes)
