"""A population of features as a selection problem: standardised columns, Gram matrix, prior weights.

The population lives in the arrays of a ``ProblemData`` with one term for each place, so the chain's kernels work on
it unchanged. A place without a feature has no column and a prior weight that rules it out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import kernel
from modejump.features.nonlinear.columns import column_into, remember, settle_alphas
from modejump.features.table import COVARIATE
from modejump.problem.design import BASE_TOLERANCE

# Prior weight of an empty place.
EMPTY_WEIGHT = -np.inf
# A candidate is linearly dependent on the population where less than this share of its squared length is its own.
DEPENDENCE_TOLERANCE = 1e-8


class Population(NamedTuple):
    """Features by place, and the factor of their Gram matrix for the dependence check."""

    feature: np.ndarray  # int64 (S,), -1 where the place is empty
    z: np.ndarray  # float64 (S, n): standardised columns
    basis: np.ndarray  # float64 (b, n): orthonormal basis of the base (weighted)
    root_weight: np.ndarray  # float64 (n,)
    target: np.ndarray  # float64 (1, n): the response without the base, of unit length
    chol: np.ndarray  # float64 (S, S)
    listed: np.ndarray  # int64 (S,): places in the order of the factor
    row: np.ndarray  # float64 (S,)
    scalars: np.ndarray  # factored: places listed in the factor
    log_weight: np.ndarray  # float64 (C + 1,): log prior weight of a feature by its complexity
    per_spelling: int  # 1: each spelling of a feature has its own prior mass
    # What a likelihood of the user's own is shown of the feature at a place: the column as it is (S, n), or the
    # feature's number (S, 1). Nothing, (S, 0), for the library's own families.
    shown: np.ndarray


@kernel
def dot_rows(a, i, b, j):
    """Inner product of two rows. Eight partial sums: strict arithmetic would otherwise wait for each addition."""
    n = a.shape[1]
    s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = n - n % 8
    for r in range(0, whole, 8):
        s0 += a[i, r] * b[j, r]
        s1 += a[i, r + 1] * b[j, r + 1]
        s2 += a[i, r + 2] * b[j, r + 2]
        s3 += a[i, r + 3] * b[j, r + 3]
        s4 += a[i, r + 4] * b[j, r + 4]
        s5 += a[i, r + 5] * b[j, r + 5]
        s6 += a[i, r + 6] * b[j, r + 6]
        s7 += a[i, r + 7] * b[j, r + 7]
    for r in range(whole, n):
        s0 += a[i, r] * b[j, r]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@kernel
def standardise(pop, scratch, place):
    """Weight, project the base out and scale; False where a value is not finite or nothing is left."""
    z, basis, root = pop.z, pop.basis, pop.root_weight
    n = z.shape[1]
    for r in range(n):
        z[place, r] = scratch[0, r] * root[r]
    total = dot_rows(z, place, z, place)
    if not total < np.inf or total == 0.0:
        return False
    # A second pass removes what rounding left of a large mean.
    for _ in range(2):
        for b in range(basis.shape[0]):
            dot = dot_rows(basis, b, z, place)
            for r in range(n):
                z[place, r] -= dot * basis[b, r]
    length = dot_rows(z, place, z, place)
    if not length > BASE_TOLERANCE**2 * total:
        return False
    scale = 1.0 / np.sqrt(length)
    for r in range(n):
        z[place, r] *= scale
    return True


@kernel
def _extend_factor(pop, place):
    """Add a place to the Cholesky factor from its Gram row; False where it depends on the places listed."""
    chol, listed, row = pop.chol, pop.listed, pop.row
    m = pop.factored
    pivot = 1.0
    for i in range(m):
        v = row[listed[i]]
        for j in range(i):
            v -= chol[m, j] * chol[i, j]
        v *= chol[i, i]
        chol[m, i] = v
        pivot -= v * v
    if pivot < DEPENDENCE_TOLERANCE:
        return False
    chol[m, m] = 1.0 / np.sqrt(pivot)
    listed[m] = place
    pop.factored = m + 1
    return True


@kernel
def relist(data, pop):
    """Factorise the Gram matrix of the features present."""
    pop.factored = 0
    gram, row = data.gram, pop.row
    for place in range(len(pop.feature)):
        if pop.feature[place] >= 0:
            for j in range(len(pop.feature)):
                row[j] = gram[place, j]
            _extend_factor(pop, place)


@kernel
def feature_weight(ar, pop, f):
    """Log prior weight of a feature."""
    w = pop.log_weight[ar.complexity[f]]
    return w + ar.log_spellings[f] if pop.per_spelling else w


@kernel
def _show(pop, scratch, place, f):
    """Write down what a likelihood of the user's own is shown of f, whose column is in the scratch row."""
    shown = pop.shown
    if shown.shape[1] == 1:
        shown[place, 0] = f
    else:
        for r in range(shown.shape[1]):
            shown[place, r] = scratch[0, r]


@kernel
def column_at(ar, pool, pop, place, f):
    """Standardised column of f at a place; False where it is not finite or constant."""
    if not settle_alphas(ar, pool, f, pool.projections):
        return False
    column_into(ar, pool, f, np.int64(0))
    _show(pop, pool.scratch, place, f)
    return standardise(pop, pool.scratch, place)


@kernel
def weigh(data, ar, pop, place, f):
    """What the problem knows of the feature at a place besides its Gram row: response, prior weight, key."""
    data.gram[place, place] = 1.0
    data.corr[place] = dot_rows(pop.z, place, pop.target, np.int64(0))
    data.prior.log_weight[place] = feature_weight(ar, pop, f)
    data.zobrist[place] = ar.key[f]


@kernel
def admit(data, ar, pool, pop, place, f):
    """Put f into an empty place; False where its column is not finite, constant, or dependent on the population."""
    if not column_at(ar, pool, pop, place, f):
        return False
    z, row, features = pop.z, pop.row, pop.feature
    for j in range(len(features)):
        row[j] = dot_rows(z, place, z, j) if features[j] >= 0 else 0.0
    if not _extend_factor(pop, place):
        return False
    gram = data.gram
    for j in range(len(features)):
        gram[place, j] = row[j]
        gram[j, place] = row[j]
    weigh(data, ar, pop, place, f)
    features[place] = f
    if ar.kind[f] != COVARIATE:
        remember(pool, f)
    return True


@kernel
def vacate(data, pop, place):
    """Empty a place."""
    gram = data.gram
    for j in range(gram.shape[0]):
        gram[place, j] = 0.0
        gram[j, place] = 0.0
    data.corr[place] = 0.0
    data.prior.log_weight[place] = EMPTY_WEIGHT
    pop.feature[place] = -1
