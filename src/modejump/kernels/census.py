"""Inner products of very many columns, compiled: what a census of products is made of.

NumPy's own products depend on the number of threads in their last digits, and so would the answers of a seed.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import entry, summing


@summing
def _four(a, i, b, j, out):
    """Inner products of two rows with four: each number that is read takes part in several."""
    s00, s01, s02, s03, s10, s11, s12, s13 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for r in range(a.shape[1]):
        x, y = a[i, r], a[i + 1, r]
        b0, b1, b2, b3 = b[j, r], b[j + 1, r], b[j + 2, r], b[j + 3, r]
        s00 += x * b0
        s01 += x * b1
        s02 += x * b2
        s03 += x * b3
        s10 += y * b0
        s11 += y * b1
        s12 += y * b2
        s13 += y * b3
    out[i, j], out[i, j + 1], out[i, j + 2], out[i, j + 3] = s00, s01, s02, s03
    out[i + 1, j], out[i + 1, j + 1], out[i + 1, j + 2], out[i + 1, j + 3] = s10, s11, s12, s13


@summing
def _one(a, i, b, j):
    total = 0.0
    for r in range(a.shape[1]):
        total += a[i, r] * b[j, r]
    return total


@entry
def cross_products(a, b, out):
    """Inner products of the rows of two matrices.

    Parameters
    ----------
    a, b : float64[m, n], float64[p, n]
        The rows.
    out : float64[m, p]
        Receives the products.
    """
    m, p = len(a) - len(a) % 2, len(b) - len(b) % 4
    for i in range(0, m, 2):
        for j in range(0, p, 4):
            _four(a, i, b, j, out)
        for j in range(p, len(b)):
            out[i, j] = _one(a, i, b, j)
            out[i + 1, j] = _one(a, np.int64(i + 1), b, j)
    if m < len(a):
        for j in range(len(b)):
            out[m, j] = _one(a, m, b, j)
