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
# A row of which less than this share is left beside those taken out has nothing of its own.
OWN = 1e-6


@summing
def _four(a, i, b, j, out):
    """Inner products of two rows with four: each number that is read takes part in several."""
    zero = a.dtype.type(0.0)
    s00, s01, s02, s03, s10, s11, s12, s13 = zero, zero, zero, zero, zero, zero, zero, zero
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
    total = a.dtype.type(0.0)
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
    a, b : float32[m, n], float32[p, n]
        The rows, and their partners; single precision is enough to tell which are promising.
    own, along : float64[m], float64[p]
        Their inner products with the target.
    least : float64
        A partner of which no more than this share is outside of the row has nothing to add.
    share : float64[m]
        Receives the share of the target that a row and its partner explain together.
    partner : int64[m]
        Receives the partner, -1 where none adds anything.
    """
    common = np.empty((BLOCK, len(b)), a.dtype)
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
    _shares(inner, np.arange(len(r)), len(r), r, along, whole, left, least, share)


@kernel
def _shares(inner, there, k, r, along, whole, left, least, share):
    """The same for k of the rows that are there; the last row of inner products is that with the target."""
    # Some columns at a time, row by row, so that the compiler takes vector instructions.
    z, rest, own = np.empty((k, CHUNK)), np.empty(CHUNK), np.empty(CHUNK)
    for first in range(0, len(whole), CHUNK):
        m = min(CHUNK, len(whole) - first)
        for i in range(m):
            rest[i], own[i] = whole[first + i], inner[len(inner) - 1, first + i]
        for b in range(k):
            for i in range(m):
                z[b, i] = inner[there[b], first + i]
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


@kernel
def _triangle(columns, there, k, basis, r):
    """An orthonormal basis of k rows, one after the other; whether each of them has something of its own."""
    for b in range(k):
        basis[b] = columns[there[b]]
        whole = _one(basis, b, basis, b)
        r[: b + 1, b] = 0.0
        for _ in range(2):
            for a in range(b):
                along = _one(basis, b, basis, a)
                r[a, b] += along
                for i in range(basis.shape[1]):
                    basis[b, i] -= along * basis[a, i]
        own = _one(basis, b, basis, b)
        if not own > OWN * OWN * whole:
            return False
        r[b, b] = np.sqrt(own)
        for i in range(basis.shape[1]):
            basis[b, i] /= r[b, b]
    return True


@kernel
def _outside(rest, basis, k, along):
    """Take the span of k rows out of one; the squared length of what is left."""
    for b in range(k):
        along[b] = _one(rest, 0, basis, b)
        for i in range(rest.shape[1]):
            rest[0, i] -= along[b] * basis[b, i]
    return _one(rest, 0, rest, 0)


@kernel
def _product(left, right, first, second, at, out):
    """Column of a simple product."""
    for i in range(left.shape[1]):
        out[i] = left[first[at], i] * right[second[at], i]


@kernel
def _inner_products(left, right, first, second, column, out):
    """Inner products of a column with all simple products; those of one first factor stand together."""
    part, at = np.empty((1, left.shape[1])), -1
    for p in range(len(first)):
        if first[p] != at:
            at = first[p]
            for i in range(left.shape[1]):
                part[0, i] = left[at, i] * column[i]
        out[p] = _one(part, 0, right, second[p])


@kernel
def _most_gained(share, cost, price, half):
    """What a sum gains by the best further product at its price, and which one that is."""
    share_of, at_of = np.zeros(len(price)), np.empty(len(price), np.int64)
    for p in range(len(share)):
        if share[p] > share_of[cost[p]]:
            share_of[cost[p]], at_of[cost[p]] = share[p], p
    gain, at = -np.inf, -1
    for c in range(len(price)):
        if share_of[c] > 0.0:
            made = price[c] - half * np.log1p(-min(share_of[c], 1.0 - 1e-12))
            if made > gain:
                gain, at = made, at_of[c]
    return gain, at


@kernel
def _columns_of_sum(left, right, first, second, one, y, terms, count):
    """The intercept and the terms of a sum, with room for more; inner products of all products with these and y."""
    columns, inner = np.empty((len(terms) + 1, len(y))), np.empty((len(terms) + 2, len(first)))
    columns[0] = one
    _inner_products(left, right, first, second, one, inner[0])
    _inner_products(left, right, first, second, y, inner[len(terms) + 1])
    for t in range(count):
        _product(left, right, first, second, terms[t], columns[t + 1])
        _inner_products(left, right, first, second, columns[t + 1], inner[t + 1])
    return columns, inner


@entry
def choose_together(left, right, first, second, cost, whole, weight, one, y, part, most_out, terms, count):
    """Exchange terms of a sum, up to some of them for another product, as long as that makes the sum better.

    Parameters
    ----------
    left, right : float64[f, n], float64[g, n]
        Factors of simple products; the first ones times the roots of the weights of the rows.
    first, second : int64[m]
        Factors of the products.
    cost : int64[m]
        Complexity of each product.
    whole : float64[m]
        Squared lengths of the products.
    weight : float64[c]
        Log prior weight by complexity.
    one, y : float64[n]
        The roots of the weights of the rows, and the response times these.
    part : float64
        What share of their price terms pay.
    most_out : int64
        Terms that may make way for one.
    terms : int64[k]
        The terms, as many as there may be.
    count : int64
        How many there are; others are written behind them.

    Returns
    -------
    value, count : float64, int64
        About the log posterior of the sum, and how many terms it has.
    """
    half, room = 0.5 * len(y), len(terms)
    columns, inner = _columns_of_sum(left, right, first, second, one, y, terms, count)
    basis, r, along = np.empty(columns.shape), np.zeros((room + 1, room + 1)), np.empty(room + 1)
    rest, share, there = np.empty((1, len(y))), np.empty(len(first)), np.zeros(room + 1, np.int64)
    _triangle(columns, there, 1, basis, r)
    rest[0] = y
    alone = _outside(rest, basis, 1, along)
    value, better, had = -np.inf, terms.copy(), count
    while True:
        best, keeps, comes = value + 1e-6, -1, -1
        for out in range(1 << count):
            k, price, outs = 1, 0.0, 0
            for t in range(count):
                if out >> t & 1:
                    outs += 1
                else:
                    there[k], price = t + 1, price + part * weight[cost[terms[t]]]
                    k += 1
            if outs > most_out or not _triangle(columns, there, k, basis, r):
                if out == 0:
                    break
                continue
            rest[0] = y
            own = _outside(rest, basis, k, along)
            now = price - half * np.log(max(own / alone, 1e-24))
            if out == 0:
                # Inner products promise too much where terms are almost dependent: no sum comes twice.
                if not now > value + 1e-6:
                    break
                value, best, had = now, now + 1e-6, count
                better[:] = terms
            elif now > best:
                best, keeps, comes = now, out, -1
            if k > room or not own > 0.0:
                continue
            _shares(inner, there, k, r, along, whole, own, OWN, share)
            gain, at = _most_gained(share, cost, part * weight, half)
            if now + gain > best:
                best, keeps, comes = now + gain, out, at
        if keeps < 0:
            terms[:] = better
            return value, had
        kept = 0
        for t in range(count):
            if not keeps >> t & 1:
                terms[kept], columns[kept + 1], inner[kept + 1] = terms[t], columns[t + 1], inner[t + 1]
                kept += 1
        if comes >= 0:
            terms[kept] = comes
            _product(left, right, first, second, comes, columns[kept + 1])
            _inner_products(left, right, first, second, columns[kept + 1], inner[kept + 1])
            kept += 1
        count = kept


@entry
def leading_products(left, right, first, second, cost, whole, weight, one, y, terms, ways, chosen):
    """Products that a sum gains most by, beside some of its terms; the best for each way to leave others out.

    Parameters
    ----------
    left, right, first, second, cost, whole, weight, one, y
        As `choose_together` has them.
    terms : int64[k]
        The terms of the sum.
    ways : uint8[w, k]
        Which of them make way.
    chosen : int64[w, m]
        Receives the products, the best first, -1 where there are no more.
    """
    half, count, most = 0.5 * len(y), len(terms), chosen.shape[1]
    columns, inner = _columns_of_sum(left, right, first, second, one, y, terms, count)
    basis, r, along = np.empty(columns.shape), np.zeros((count + 1, count + 1)), np.empty(count + 1)
    rest, share, there = np.empty((1, len(y))), np.empty(len(first)), np.zeros(count + 1, np.int64)
    gains = np.empty(most)
    for w in range(len(ways)):
        chosen[w], gains[:] = -1, -np.inf
        k = 1
        for t in range(count):
            if not ways[w, t]:
                there[k] = t + 1
                k += 1
        if not _triangle(columns, there, k, basis, r):
            continue
        rest[0] = y
        own = _outside(rest, basis, k, along)
        if not own > 0.0:
            continue
        _shares(inner, there, k, r, along, whole, own, OWN, share)
        for p in range(len(first)):
            gain = weight[cost[p]] - half * np.log1p(-min(share[p], 1.0 - 1e-12))
            at = most
            while at > 0 and gain > gains[at - 1]:
                at -= 1
            if share[p] > 0.0 and at < most:
                gains[at + 1 :] = gains[at:-1].copy()
                chosen[w, at + 1 :] = chosen[w, at:-1].copy()
                gains[at], chosen[w, at] = gain, p


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


@entry
def best_products(left, right, cost, more, last, directions, squares, price, half, least, value, partner):
    """For each row of a matrix the row of another one whose product with it explains most of a target at its price.

    Parameters
    ----------
    left, right : float32[m, n], float32[p, n]
        The rows; single precision is enough to tell which products are promising.
    cost, more : int64[m], int64[p]
        Complexities of the rows.
    last : int64[p]
        Of each second row the number of first rows that it is multiplied with.
    directions : float32[k + 1, n]
        Orthonormal columns that are there, and the target, at right angles to them and of unit length, by rows; all
        times the roots of the weights.
    squares : float32[n]
        The weights.
    price : float64[c]
        Log prior weight of a product by its complexity, the sum of two.
    half : float64
        Half the number of observations.
    least : float64
        A product of which no more than this share is its own explains nothing.
    value : float64[m]
        Receives the gain in log posterior of the best product.
    partner : int64[m]
        Receives the second row, -1 where there is none.
    """
    k, n = len(directions) - 1, left.shape[1]
    value[:], partner[:] = -np.inf, -1
    inner, whole = np.empty((CHUNK, k + 1), left.dtype), np.empty((CHUNK, 1), left.dtype)
    along, own = np.empty((k + 1, n), left.dtype), np.empty((1, n), left.dtype)
    power = np.empty((CHUNK, n), left.dtype)
    for first in range(0, len(left), CHUNK):
        m = min(CHUNK, len(left) - first)
        power[:m] = left[first : first + m] ** 2
        for j in range(len(right)):
            many = min(m, last[j] - first)
            if many <= 0:
                continue
            along[:] = directions * right[j]
            own[0] = squares * right[j] ** 2
            _cross(left[first : first + many], along, inner)
            _cross(power[:many], own, whole)
            for i in range(many):
                rest = whole[i, 0]
                for b in range(k):
                    rest -= inner[i, b] ** 2
                if rest > least * whole[i, 0]:
                    share = min(np.float64(inner[i, k] ** 2 / rest), 1.0 - OWN)
                    gain = price[cost[first + i] + more[j]] - half * np.log1p(-share)
                    if gain > value[first + i]:
                        value[first + i], partner[first + i] = gain, j
