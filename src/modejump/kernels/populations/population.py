"""A population of features as a selection problem: standardised columns, Gram matrix, prior weights.

The population lives in the arrays of a ``ProblemData`` with one term for each place, so the chain's kernels work on
it unchanged. A place without a feature has no column and a prior weight that rules it out.

Kernels here take the handle on a `FeatureChain`, see `modejump.kernels.populations.feature_chain`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import kernel
from modejump.features.language import keep_column, product, write_column
from modejump.features.pool import dot_rows, remember
from modejump.features.table import COVARIATE
from modejump.problem.design import BASE_TOLERANCE

# Prior weight of an empty place.
EMPTY_WEIGHT = -np.inf
# A candidate has the column of another feature, up to sign and scale, where less than this share of its squared length
# is its own. It may be a combination of several: a & !b can take the place of both a and a & b.
SAME_COLUMN = 1e-8


class Population(NamedTuple):
    """Features by place."""

    feature: np.ndarray  # int64 (S,), -1 where the place is empty
    z: np.ndarray  # float64 (S, n): standardised columns
    basis: np.ndarray  # float64 (b, n): orthonormal basis of the base (weighted)
    root_weight: np.ndarray  # float64 (n,)
    target: np.ndarray  # float64 (1, n): the response without the base, of unit length
    log_weight: np.ndarray  # float64 (C + 1,): prior weight of a feature by its complexity
    per_spelling: int  # 1: each spelling of a feature has its own prior mass
    per_constant: float  # log prior weight of each fitted constant that a feature counts
    # What a likelihood of the user's own is shown of the feature at a place: the column as it is (S, n), or the
    # feature's number (S, 1). Nothing, (S, 0), for the package's own families.
    shown: np.ndarray
    # Of a language of zeros and ones: the column at each place as words (S, W), and its products with the basis and its
    # scale (S, b + 1).
    bits: np.ndarray
    shared: np.ndarray


@kernel
def standardise(pop, column, place):
    """Weight, project the base out and scale; False where a value is not finite or nothing is left."""
    z, basis, root = pop.z, pop.basis, pop.root_weight
    n = z.shape[1]
    for r in range(n):
        z[place, r] = column[r] * root[r]
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
def column_at(fc, place, f):
    """Standardised column of f at a place; False where it is not finite or constant."""
    if not write_column(fc.space, fc.table, fc.pool, f):
        return False
    column, shown = fc.pool.scratch[0], fc.population.shown
    if shown.shape[1] == 1:
        shown[place, 0] = f
    else:
        for r in range(shown.shape[1]):
            shown[place, r] = column[r]
    if not standardise(fc.population, column, place):
        return False
    keep_column(fc.space, fc.pool, fc.population, place)
    return True


@kernel
def weigh(fc, place, f):
    """What the problem knows of the feature at a place besides its Gram row: response, prior weight, key."""
    data, pop, table = fc.data, fc.population, fc.table
    data.gram[place, place] = 1.0
    data.corr[place] = dot_rows(pop.z, place, pop.target, np.int64(0))
    weight = pop.log_weight[table.complexity[f]] + pop.per_constant * table.constants[f]
    data.prior.log_weight[place] = weight + table.log_spellings[f] if pop.per_spelling else weight
    data.zobrist[place] = table.key[f]


@kernel
def fill_place(fc, place, f):
    """Column, Gram row and key of f at a free place; False where its column is not finite or constant."""
    if not column_at(fc, place, f):
        return False
    gram, features = fc.data.gram, fc.population.feature
    for j in range(len(features)):
        dot = product(fc.space, fc.population, place, j) if features[j] >= 0 else 0.0
        gram[place, j] = dot
        gram[j, place] = dot
    weigh(fc, place, f)
    features[place] = f
    return True


@kernel
def admit(fc, place, f):
    """Put f into an empty place; False where its column is not finite, constant, or that of another feature."""
    if not fill_place(fc, place, f):
        return False
    for j in range(len(fc.population.feature)):
        if j != place and 1.0 - fc.data.gram[place, j] ** 2 < SAME_COLUMN:
            vacate(fc, place)
            return False
    if fc.table.kind[f] != COVARIATE:
        remember(fc.pool, f)
    return True


@kernel
def vacate(fc, place):
    """Empty a place."""
    gram = fc.data.gram
    for j in range(gram.shape[0]):
        gram[place, j] = 0.0
        gram[j, place] = 0.0
    fc.data.corr[place] = 0.0
    fc.data.prior.log_weight[place] = EMPTY_WEIGHT
    fc.population.feature[place] = -1
