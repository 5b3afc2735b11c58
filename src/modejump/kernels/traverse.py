"""Depth-first traversal of all models, reusing factorisations, in constant memory.

A node is a model; its children add one later term. Each node holds the Schur complement of the columns that may
still enter, so a child's residual share costs one division, and only a child with children of its own updates the
complement: on average a few multiplications a model. A subtree returns its posterior mass, and the mass of the
subtrees that begin with a term is that term's inclusion probability.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import entry, kernel
from modejump.core.handles import scalars_of
from modejump.kernels.evaluate import (
    GUARD,
    NEG_INF,
    RANK_TOLERANCE,
    REFINE_BELOW,
    canonical_resid,
    log_likelihood,
)

# The running sums are rescaled when a log posterior is met that is so far above their reference.
RESCALE_AT = 300.0


class Tally(NamedTuple):
    """Running sums of one task, all relative to exp(reference)."""

    inclusion: np.ndarray  # float64 (K,)
    sizes: np.ndarray  # float64 (K + 1,)
    top_value: np.ndarray  # float64 (2 * top,)
    top_model: np.ndarray  # uint64 (2 * top,)
    # mass; models: of positive probability; reference: -inf where none was met; kept: of the best; bar: a model must
    # beat this to be kept; stop: set from outside, ends the traversal
    scalars: np.ndarray


class Stack(NamedTuple):
    """One level for each term in the model beyond the task's pattern; level 0 is the pattern itself."""

    schur: np.ndarray  # float64 (K + 1, p, p), upper triangle
    rhs: np.ndarray  # float64 (K + 1, p)
    resid: np.ndarray  # float64 (K + 1,)
    pivot: np.ndarray  # float64 (K + 1,): the smallest so far
    weight: np.ndarray  # float64 (K + 1,): sum of the prior's weights
    mass: np.ndarray  # float64 (K + 1,)
    upcoming: np.ndarray  # int64 (K + 1,): next term to try
    added: np.ndarray  # int64 (K + 1,): the term that made the level
    cols: np.ndarray  # int64 (K + 1,)
    model: np.ndarray  # uint64 (K + 1,)


def new_tally(n_terms: int, top: int) -> Tally:
    """Empty sums."""
    return Tally(
        np.zeros(n_terms),
        np.zeros(n_terms + 1),
        np.zeros(2 * top),
        np.zeros(2 * top, np.uint64),
        scalars_of(mass=0.0, models=0, reference=NEG_INF, kept=0, bar=NEG_INF, stop=0),
    )


def new_stack(n_terms: int, n_columns: int) -> Stack:
    """Room for one traversal."""
    levels = n_terms + 1
    return Stack(
        np.zeros((levels, n_columns, n_columns)),
        np.zeros((levels, n_columns)),
        np.zeros(levels),
        np.ones(levels),
        np.zeros(levels),
        np.zeros(levels),
        np.zeros(levels, np.int64),
        np.zeros(levels, np.int64),
        np.zeros(levels, np.int64),
        np.zeros(levels, np.uint64),
    )


@kernel
def _pivot_into(schur, rhs, source, target, c, start):
    """Schur complement of column c over the columns from ``start`` on, from one level into another or itself."""
    p = schur.shape[1]
    d = 1.0 / schur[source, c, c]
    f_rhs = rhs[source, c] * d
    for i in range(start, p):
        a = schur[source, c, i]
        f = a * d
        rhs[target, i] = rhs[source, i] - a * f_rhs
        for j in range(i, p):
            schur[target, i, j] = schur[source, i, j] - f * schur[source, c, j]


@kernel
def _enter_block(data, st, level, t):
    """Add a term of several columns to a copy of the level; the new residual share, -1.0 if rank deficient."""
    a, z = data.first[t], data.first[t + 1]
    schur, rhs = st.schur, st.rhs
    p = schur.shape[1]
    for i in range(a, p):
        rhs[level + 1, i] = rhs[level, i]
        for j in range(i, p):
            schur[level + 1, i, j] = schur[level, i, j]
    resid, least = st.resid[level], st.pivot[level]
    for c in range(a, z):
        d = schur[level + 1, c, c]
        if d < RANK_TOLERANCE:
            return -1.0
        least = min(least, d)
        resid -= rhs[level + 1, c] ** 2 / d
        _pivot_into(schur, rhs, level + 1, level + 1, c, c + 1)
    st.pivot[level + 1] = least
    return max(resid, 0.0)


@kernel
def _enter(data, st, level, t):
    """Residual share of the level's model with term t, -1.0 if rank deficient; fills the next level if it is used."""
    c = data.first[t]
    if data.first[t + 1] - c > 1:
        return _enter_block(data, st, level, t)
    schur, rhs = st.schur, st.rhs
    d = schur[level, c, c]
    if d < RANK_TOLERANCE:
        return -1.0
    st.pivot[level + 1] = min(st.pivot[level], d)
    if c + 1 < schur.shape[1]:
        _pivot_into(schur, rhs, level, level + 1, c, c + 1)
    return max(st.resid[level] - rhs[level, c] ** 2 / d, 0.0)


@kernel
def _refined(data, model, k):
    """Canonical residual share of a model given as bits."""
    cols = np.empty(k, np.int64)
    i = 0
    for t in range(len(data.first) - 1):
        if (model >> np.uint64(t)) & np.uint64(1):
            for c in range(data.first[t], data.first[t + 1]):
                cols[i] = c
                i += 1
    return canonical_resid(data, cols, k, np.empty((k, k)), np.empty(k))


@kernel
def _admissible(prior, model, t):
    """Whether heredity lets term t join; parents are visited before children."""
    a, z = prior.parent_start[t], prior.parent_start[t + 1]
    if a == z or prior.heredity == 0:
        return True
    found = 0
    for i in range(a, z):
        if (model >> np.uint64(prior.parent_index[i])) & np.uint64(1):
            found += 1
    return found == z - a if prior.heredity == 1 else found > 0


@kernel
def admissible_model(prior, model):
    """Whether heredity admits all terms of a model."""
    if prior.heredity == 0:
        return True
    for t in range(len(prior.log_weight)):
        if (model >> np.uint64(t)) & np.uint64(1) and not _admissible(prior, model, t):
            return False
    return True


@kernel
def select(values, rank):
    """The value of this rank, from 0, in ascending order (Hoare's selection); ``values`` is rearranged."""
    low, high = 0, len(values) - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            break
    return values[rank]


@kernel
def keep_best(tally, value, model):
    """Keep a model among the best; the buffer is halved by selection when it is full."""
    n = tally.kept
    tally.top_value[n] = value
    tally.top_model[n] = model
    n += 1
    if n == len(tally.top_value):
        half = n // 2
        bar = select(tally.top_value.copy(), half)
        n = 0
        for above in range(2):
            for i in range(2 * half):
                v = tally.top_value[i]
                if n < half and (v > bar if above == 0 else v == bar):
                    tally.top_value[i], tally.top_value[n] = tally.top_value[n], v
                    model, tally.top_model[i] = tally.top_model[i], tally.top_model[n]
                    tally.top_model[n] = model
                    n += 1
            # Models level with the bar fill the places that are left, in the order they were met.
        tally.bar = bar
    tally.kept = n


@kernel
def rescale(tally, reference):
    """Move the reference of the running sums; returns the factor."""
    factor = np.exp(tally.reference - reference)
    inclusion, sizes = tally.inclusion, tally.sizes
    for t in range(len(inclusion)):
        inclusion[t] *= factor
    for t in range(len(sizes)):
        sizes[t] *= factor
    tally.mass *= factor
    tally.reference = reference
    return factor


@kernel
def _count(data, tally, st, level, model, size, k, resid, pivot, log_weight):
    """Weight of one model met from an open level; adds it to the sums over sizes and to the best models."""
    prior = data.prior.log_size[size] + log_weight
    if prior == NEG_INF:
        return 0.0
    if resid < REFINE_BELOW or pivot < GUARD:
        resid = _refined(data, model, k)
    value = prior + log_likelihood(data, k, resid)
    if value == NEG_INF:
        return 0.0
    if value > tally.bar:
        keep_best(tally, value, model)
    if value - tally.reference > RESCALE_AT:
        factor = rescale(tally, value)
        for i in range(level + 1):
            # The open subtrees' sums move along.
            st.mass[i] *= factor
    weight = np.exp(value - tally.reference)
    tally.sizes[size] += weight
    tally.models += 1
    return weight


@kernel
def _plant(data, st, pattern, split):
    """Level 0: the columns of the pattern's terms are in. Returns the size, or -1 where it is inadmissible."""
    p = data.gram.shape[0]
    for i in range(p):
        st.rhs[0, i] = data.corr[i]
        for j in range(p):
            st.schur[0, i, j] = data.gram[i, j]
    st.resid[0] = st.pivot[0] = 1.0
    st.weight[0] = 0.0
    st.cols[0] = 0
    model = np.uint64(0)
    size = 0
    for t in range(split):
        if not (pattern >> t) & 1:
            continue
        if not _admissible(data.prior, model, t):
            return -1
        resid = _enter_block(data, st, 0, t)
        if resid < 0.0:
            return -1
        for i in range(p):
            st.rhs[0, i] = st.rhs[1, i]
            for j in range(i, p):
                st.schur[0, i, j] = st.schur[1, i, j]
        st.resid[0], st.pivot[0] = resid, st.pivot[1]
        st.weight[0] += data.prior.log_weight[t]
        st.cols[0] += data.first[t + 1] - data.first[t]
        model |= np.uint64(1) << np.uint64(t)
        size += 1
    st.model[0] = model
    st.upcoming[0] = split
    return size


@entry
def traverse(data, pattern, split, max_size, st, tally):
    """All models whose first ``split`` terms are as in ``pattern``. Terms come in an order with parents first."""
    n_terms = len(data.first) - 1
    size0 = _plant(data, st, pattern, split)
    if size0 < 0 or size0 > max_size or st.cols[0] > data.max_cols:
        return
    st.mass[0] = 0.0
    level = np.int64(0)
    first_resid, first_pivot = st.resid[0], st.pivot[0]
    st.mass[0] = _count(data, tally, st, level, st.model[0], size0, st.cols[0], first_resid, first_pivot, st.weight[0])
    mass, resids, weights, upcoming = st.mass, st.resid, st.weight, st.upcoming
    added, cols, models = st.added, st.cols, st.model
    inclusion, first, log_weight = tally.inclusion, data.first, data.prior.log_weight
    while level >= 0 and tally.stop == 0:
        t = upcoming[level]
        size = size0 + level + 1
        if t == n_terms or size > max_size:
            if level > 0:
                inclusion[added[level]] += mass[level]
                mass[level - 1] += mass[level]
            level -= 1
            continue
        upcoming[level] = t + 1
        k = cols[level] + first[t + 1] - first[t]
        if k > data.max_cols or not _admissible(data.prior, models[level], t):
            continue
        resid = _enter(data, st, level, t)
        if resid < 0.0:
            continue
        model = models[level] | (np.uint64(1) << np.uint64(t))
        weight = weights[level] + log_weight[t]
        own = _count(data, tally, st, level, model, size, k, resid, st.pivot[level + 1], weight)
        if t + 1 == n_terms:
            inclusion[t] += own
            mass[level] += own
            continue
        level += 1
        mass[level] = own
        resids[level] = resid
        weights[level] = weight
        upcoming[level] = t + 1
        added[level] = t
        cols[level] = k
        models[level] = model
    for t in range(split):
        if (pattern >> t) & 1:
            tally.inclusion[t] += st.mass[0]
    tally.mass += st.mass[0]
