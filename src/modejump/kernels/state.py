"""The state of a chain: a model and the inverse of its Gram matrix, updated by rank-one sweeps.

Write H for the inverse Gram matrix of the model's columns and b = H r for their coefficients. In the language of
sweeps, the tableau of a set B of columns that flip has entries -H (both in), H g (one in, one out), Gram - g'Hg
(both out), and the response's entries b (in) and r - g'b (out); eliminating B gives the residual share of the
neighbour. One column costs O(k^2) to add and O(1) to drop, whatever the number of terms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.handles import copy_scalars, scalars_of
from modejump.kernels.evaluate import (
    GUARD,
    NEG_INF,
    factorise,
)
from modejump.likelihoods.glm.newton import Glm, GlmWork, new_glm_work

# The inverse is computed afresh after this many rank-one updates, so rounding errors do not pile up.
REFRESH = 400


class State(NamedTuple):
    """A model and what its neighbours' evaluation needs; mutable."""

    member: np.ndarray  # uint8 (K,): 1 where the term is in
    order: np.ndarray  # int64 (K,): the terms in, then the terms out
    place: np.ndarray  # int64 (K,): inverse of order
    words: np.ndarray  # uint64 (W,): the model as a bit set
    cols: np.ndarray  # int64 (cap,): column of each slot
    slot: np.ndarray  # int64 (p,): slot of each column, -1 where out
    inverse: np.ndarray  # float64 (cap, cap)
    beta: np.ndarray  # float64 (cap,)
    # size: terms in; columns: their columns; entry: of the model in the store, -1 where it has none; sweeps: rank-one
    # updates since the inverse was computed; ready: whether there is an inverse; overflow: whether a model was too
    # large for the arrays; ill: whether a column nearly depends on the others; placed: whether the chain has begun;
    # hash; resid: residual share; log_posterior
    scalars: np.ndarray


class Work(NamedTuple):
    """Scratch arrays of one chain."""

    sorted_cols: np.ndarray  # int64 (cap,)
    chol: np.ndarray  # float64 (cap, cap)
    solved: np.ndarray  # float64 (cap,)
    flip_cols: np.ndarray  # int64 (b,)
    products: np.ndarray  # float64 (b, cap): H g of the columns that enter
    tableau: np.ndarray  # float64 (b, b)
    rhs: np.ndarray  # float64 (b,)
    perfect: np.ndarray  # uint64 (16, W): models known to fit perfectly; so do all that contain one
    scalars: np.ndarray  # perfect_count: how many of them; perfect_next: which makes way next
    glm: GlmWork  # empty for a Gaussian problem


def new_state(n_terms: int, n_columns: int, capacity: int) -> State:
    """The empty model, with room for ``capacity`` columns."""
    return State(
        np.zeros(n_terms, np.uint8),
        np.arange(n_terms, dtype=np.int64),
        np.arange(n_terms, dtype=np.int64),
        np.zeros(word_count(n_terms), np.uint64),
        np.zeros(capacity, np.int64),
        np.full(n_columns, -1, np.int64),
        np.zeros((capacity, capacity)),
        np.zeros(capacity),
        scalars_of(
            size=0, columns=0, entry=-1, sweeps=0, ready=1, overflow=0, ill=0, placed=0, hash=np.uint64(0), resid=1.0,
            log_posterior=NEG_INF,
        ),
    )  # fmt: skip


def word_count(n_terms: int) -> int:
    """Words of a bit set of so many terms."""
    return max(1, -(-n_terms // 64))


def with_room(state: State, capacity: int) -> State:
    """The same state with room for more columns."""
    k, old = int(state.scalars["columns"]), state
    new = new_state(len(old.member), len(old.slot), capacity)
    for name in ("member", "order", "place", "words", "slot", "scalars"):
        getattr(new, name)[...] = getattr(old, name)
    new.cols[:k], new.beta[:k], new.inverse[:k, :k] = old.cols[:k], old.beta[:k], old.inverse[:k, :k]
    return new


def new_work(capacity: int, flip_columns: int, n_terms: int, glm: Glm) -> Work:
    """Scratch arrays for models of up to ``capacity`` columns and flips of up to ``flip_columns`` columns."""
    return Work(
        np.zeros(capacity, np.int64),
        np.zeros((capacity, capacity)),
        np.zeros(capacity),
        np.zeros(flip_columns, np.int64),
        np.zeros((flip_columns, capacity)),
        np.zeros((flip_columns, flip_columns)),
        np.zeros(flip_columns),
        np.zeros((16, word_count(n_terms)), np.uint64),
        scalars_of(perfect_count=0, perfect_next=0),
        new_glm_work(glm, capacity),
    )


@kernel
def toggle(data, st, t):
    """Flip a term in the model's set representations only."""
    member, order, place = st.member, st.order, st.place
    st.words[t >> 6] ^= np.uint64(1) << np.uint64(t & 63)
    st.hash ^= data.zobrist[t]
    size = st.size
    at = place[t]
    if member[t]:
        edge = size - 1
        st.size = edge
        member[t] = 0
    else:
        edge = size
        st.size = size + 1
        member[t] = 1
    other = order[edge]
    order[edge] = t
    order[at] = other
    place[t] = edge
    place[other] = at


@kernel
def toggle_to(data, st, words, row):
    """Flip the terms in which the model differs from the one in a row of ``words``; the inverse is the caller's."""
    for w in range(words.shape[1]):
        diff = words[row, w] ^ st.words[w]
        t = 64 * w
        while diff != 0:
            if diff & np.uint64(1):
                toggle(data, st, t)
            diff >>= np.uint64(1)
            t += 1


@kernel
def gather(data, st, work):
    """Columns of the model in natural order; returns their number, or -1 beyond capacity."""
    k = 0
    for t in range(len(st.member)):
        if st.member[t]:
            for c in range(data.first[t], data.first[t + 1]):
                if k == len(work.sorted_cols):
                    return -1
                work.sorted_cols[k] = c
                k += 1
    return k


@kernel
def column_count(data, st):
    """Columns of the model's terms."""
    if len(data.first) == len(st.slot) + 1:
        return st.size
    k = 0
    for i in range(st.size):
        t = st.order[i]
        k += data.first[t + 1] - data.first[t]
    return k


@kernel
def rebuild(data, st, work):
    """Inverse and coefficients from scratch; clears READY where the design is rank deficient or too large."""
    for i in range(st.columns):
        st.slot[st.cols[i]] = -1
    st.columns = 0
    st.sweeps = 0
    st.ready = 0
    if column_count(data, st) > data.max_cols:
        return
    k = gather(data, st, work)
    if k < 0:
        st.overflow = 1
        return
    resid = factorise(data.gram, data.corr, work.sorted_cols, k, work.chol, work.solved)
    if resid < -0.5:
        return
    chol = work.chol
    # Invert the factor in place of the lower triangle, then H = L^-T L^-1 and b = L^-T w.
    for j in range(k):
        for i in range(j + 1, k):
            t = 0.0
            for m in range(j, i):
                t -= chol[i, m] * (chol[m, j] if m > j else chol[j, j])
            chol[i, j] = t * chol[i, i]
    for i in range(k):
        for j in range(i + 1):
            t = 0.0
            for m in range(i, k):
                t += chol[m, i] * chol[m, j]
            st.inverse[i, j] = t
            st.inverse[j, i] = t
        b = 0.0
        for m in range(i, k):
            b += chol[m, i] * work.solved[m]
        st.beta[i] = b
        st.cols[i] = work.sorted_cols[i]
        st.slot[work.sorted_cols[i]] = i
    st.columns = k
    st.resid = resid
    st.ready = 1


@kernel
def _note_condition(st):
    """Note whether some column of the model is nearly dependent on the others."""
    st.ill = 0
    for i in range(st.columns):
        if st.inverse[i, i] * GUARD > 1.0:
            st.ill = 1


@kernel
def refresh(data, st, work):
    """Bring the inverse up to date from scratch after the set representations changed."""
    rebuild(data, st, work)
    _note_condition(st)


@kernel
def _drop_column(st, c):
    """Remove one column from the inverse; the last slot moves into its place."""
    h, beta, cols, slot = st.inverse, st.beta, st.cols, st.slot
    k = st.columns
    s = slot[c]
    pivot = 1.0 / h[s, s]
    b = beta[s] * pivot
    st.resid += beta[s] * b
    for i in range(k):
        if i != s:
            f = h[i, s] * pivot
            for j in range(k):
                h[i, j] -= f * h[s, j]
            beta[i] -= h[s, i] * b
    last = k - 1
    if s != last:
        for i in range(k):
            h[s, i] = h[last, i]
        for i in range(k):
            h[i, s] = h[i, last]
        beta[s] = beta[last]
        moved = cols[last]
        cols[s] = moved
        slot[moved] = s
    slot[c] = -1
    st.columns = last


@kernel
def column_product(data, st, c, products, row):
    """H g into a row of ``products`` for a column outside the model; its pivot 1 - g'Hg and response entry."""
    gram, h, beta, cols = data.gram, st.inverse, st.beta, st.cols
    k = st.columns
    for j in range(k):
        products[row, j] = 0.0
    entry = data.corr[c]
    for i in range(k):
        g = gram[c, cols[i]]
        entry -= g * beta[i]
        for j in range(k):
            products[row, j] += g * h[i, j]
    pivot = gram[c, c]
    for i in range(k):
        pivot -= gram[c, cols[i]] * products[row, i]
    return pivot, entry


@kernel
def _add_column(data, st, work, c):
    """Border the inverse by one column; False where the pivot is too small to trust."""
    v = work.products
    pivot, entry = column_product(data, st, c, v, np.int64(0))
    if pivot < GUARD:
        return False
    h, beta = st.inverse, st.beta
    k = st.columns
    d = 1.0 / pivot
    b = entry * d
    for i in range(k):
        f = v[0, i] * d
        for j in range(k):
            h[i, j] += f * v[0, j]
        h[i, k] = -f
        h[k, i] = -f
        beta[i] -= v[0, i] * b
    h[k, k] = d
    beta[k] = b
    st.cols[k] = c
    st.slot[c] = k
    st.columns = k + 1
    st.resid -= entry * b
    return True


@kernel
def _sweep_term(data, st, work, t):
    """Bring the inverse up to date after term t was toggled; False where it has to be rebuilt."""
    if not st.ready:
        return False
    a, z = data.first[t], data.first[t + 1]
    if st.member[t]:
        if st.columns + z - a > data.max_cols:
            return False
        if st.columns + z - a > len(st.cols):
            st.overflow = 1
            return False
        for c in range(a, z):
            if not _add_column(data, st, work, c):
                return False
    else:
        for c in range(a, z):
            if st.inverse[st.slot[c], st.slot[c]] * GUARD > 1.0:
                return False
            _drop_column(st, c)
    st.sweeps += z - a
    return st.sweeps < REFRESH


@kernel
def leaving_first(st, flips, m):
    """Put the terms that leave before those that enter, so that pivots stay large; returns how many leave."""
    leaving = 0
    for i in range(m):
        if st.member[flips[i]]:
            flips[i], flips[leaving] = flips[leaving], flips[i]
            leaving += 1
    return leaving


@kernel
def flip_all(data, st, work, flips, m):
    """Move the state to the model that differs in these terms (its log posterior and entry are the caller's)."""
    leaving_first(st, flips, m)
    for i in range(m):
        toggle(data, st, flips[i])
        if not _sweep_term(data, st, work, flips[i]):
            rebuild(data, st, work)
    _note_condition(st)


@kernel
def _copy(source, target):
    """Copy a vector; Numba's own slice assignment takes seconds to compile."""
    for i in range(len(source)):
        target[i] = source[i]


@kernel
def copy_state(source, target):
    """Make ``target`` equal to ``source``."""
    cols, slot, beta, h = target.cols, target.slot, target.beta, target.inverse
    for i in range(target.columns):
        slot[cols[i]] = -1
    _copy(source.member, target.member)
    _copy(source.order, target.order)
    _copy(source.place, target.place)
    _copy(source.words, target.words)
    copy_scalars(source, target)
    from_cols, from_beta, from_h = source.cols, source.beta, source.inverse
    k = source.columns
    for i in range(k):
        cols[i] = from_cols[i]
        slot[from_cols[i]] = i
        beta[i] = from_beta[i]
        for j in range(k):
            h[i, j] = from_h[i, j]


@kernel
def clear_model(st):
    """Back to the empty model, whatever the terms' keys have become since."""
    member, order, place, words = st.member, st.order, st.place, st.words
    for t in range(len(member)):
        member[t] = 0
        order[t] = t
        place[t] = t
    for w in range(len(words)):
        words[w] = 0
    st.hash = np.uint64(0)
    st.size = 0
