"""Inner products of very many columns, compiled: what a census of products is made of.

NumPy's own products depend on the number of threads in their last digits, and so would the answers of a seed.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import entry, kernel, summing

# Rows whose inner products are at hand at a time.
BLOCK = 32
# Columns that are taken out of others at a time.
CHUNK = 256


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


@kernel
def _cross(a, b, out):
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
    _cross(a, b, out)


@entry
def own_parts(rows, weight, basis, least, out):
    """Weighted rows without their part in the span of a basis, of unit length.

    Parameters
    ----------
    rows : float64[m, n]
        The rows.
    weight : float64[n]
        What each number of a row is multiplied by.
    basis : float64[k, n]
        Orthonormal rows.
    least : float64
        A row of which no more than this share is its own gets zeros.
    out : float64[m, n]
        Receives them.
    """
    for i in range(len(rows)):
        for r in range(len(weight)):
            out[i, r] = rows[i, r] * weight[r]
        whole = _one(out, i, out, i)
        for b in range(len(basis)):
            along = _one(out, i, basis, b)
            for r in range(len(weight)):
                out[i, r] -= along * basis[b, r]
        own = _one(out, i, out, i)
        by = 0.0 if own <= least * least * whole else 1.0 / np.sqrt(own)
        for r in range(len(weight)):
            out[i, r] *= by


@entry
def best_partners(a, b, own, along, least, share, partner):
    """For each row of a matrix the row of another one beside which it explains most of a target.

    Rows and target have unit length.

    Parameters
    ----------
    a, b : float64[m, n], float64[p, n]
        The rows, and their partners.
    own, along : float64[m], float64[p]
        Their inner products with the target.
    least : float64
        A partner of which no more than this share is outside of the row has nothing to add.
    share : float64[m]
        Receives the share of the target that a row and its partner explain together.
    partner : int64[m]
        Receives the partner, -1 where none adds anything.
    """
    common = np.empty((BLOCK, len(b)))
    for i in range(len(a)):
        if i % BLOCK == 0:
            _cross(a[i : i + BLOCK], b, common)
        share[i], partner[i] = own[i] ** 2, -1
        most = 0.0
        for j in range(len(b)):
            c = common[i % BLOCK, j]
            rest, more = 1.0 - c * c, along[j] - c * own[i]
            if rest > least and more * more > most * rest:
                most, partner[i] = more * more / rest, j
        share[i] += most


@entry
def explained_shares(inner, r, along, whole, left, least, share):
    """Share of what columns leave of a target that each of very many other columns explains.

    Parameters
    ----------
    inner : float64[k + 1, m]
        Inner products of the m columns with the k columns that are there, and with the target.
    r : float64[k, k]
        Upper triangle whose transpose times an orthonormal basis gives the k columns.
    along : float64[k]
        Inner products of that basis with the target.
    whole : float64[m]
        Squared lengths of the m columns.
    left : float64
        Squared length of what the k columns leave of the target.
    least : float64
        A column of which no more than this share is its own explains nothing.
    share : float64[m]
        Receives the shares.
    """
    # Some columns at a time, row by row, so that the compiler takes vector instructions.
    z, rest, own = np.empty((len(r), CHUNK)), np.empty(CHUNK), np.empty(CHUNK)
    for first in range(0, len(whole), CHUNK):
        m = min(CHUNK, len(whole) - first)
        for i in range(m):
            rest[i], own[i] = whole[first + i], inner[len(r), first + i]
        for b in range(len(r)):
            for i in range(m):
                z[b, i] = inner[b, first + i]
            for a in range(b):
                by = r[a, b]
                for i in range(m):
                    z[b, i] -= by * z[a, i]
            by, part = 1.0 / r[b, b], along[b]
            for i in range(m):
                z[b, i] *= by
                rest[i] -= z[b, i] ** 2
                own[i] -= part * z[b, i]
        for i in range(m):
            share[first + i] = own[i] ** 2 / (rest[i] * left) if rest[i] > least * whole[first + i] else 0.0


@entry
def best_pairs(gram, along, left, weight, half, least, value, partner):
    """For each column the one before it beside which it explains most of a target, at the price of both.

    Parameters
    ----------
    gram : float64[m, m]
        Inner products of the columns, without what others explain of them.
    along : float64[m]
        Their inner products with the target.
    left : float64
        Squared length of the target.
    weight : float64[m]
        Log prior weights of the columns.
    half : float64
        Half the number of observations.
    least : float64
        Columns of no larger squared length have nothing of their own; nor has a pair, in proportion to its lengths.
    value : float64[m]
        Receives the log posterior of the pair, up to a constant; minus infinity where there is none.
    partner : int64[m]
        Receives the other column.
    """
    # The largest w - half log(rest) is that of the largest exp(w / half) / rest, without a logarithm for each pair.
    worth = np.exp(weight / half)
    for i in range(len(along)):
        most, partner[i] = 0.0, -1
        a, x = gram[i, i], along[i]
        for j in range(i):
            b, y, c = gram[j, j], along[j], gram[i, j]
            own = a * b - c * c
            if a > least and b > least and own > least * a * b:
                rest = left - (x * x * b - 2.0 * x * y * c + y * y * a) / own
                made = worth[j] / max(rest, 1e-24)
                if made > most:
                    most, partner[i] = made, j
        value[i] = weight[i] + half * np.log(most) if most > 0.0 else -np.inf
