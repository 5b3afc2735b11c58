"""All models of a generalised linear model in the order of a Gray code: each differs from the last in one term.

A fit then starts at the coefficients of a neighbour, which is what makes it cheap.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import entry, kernel
from modejump.kernels.evaluate import NEG_INF, factorise
from modejump.kernels.traverse import RESCALE_AT, admissible_model, keep_best, rescale
from modejump.likelihoods.columns import log_marginal_of_columns


@kernel
def _count(tally, value, model, size):
    """Add a model to the sums and to the best models."""
    if value > tally.bar:
        keep_best(tally, value, model)
    if value - tally.reference > RESCALE_AT:
        rescale(tally, value)
    weight = np.exp(value - tally.reference)
    inclusion = tally.inclusion
    for t in range(len(inclusion)):
        if (model >> np.uint64(t)) & np.uint64(1):
            inclusion[t] += weight
    tally.sizes[size] += weight
    tally.mass += weight
    tally.models += 1


@kernel
def _value(data, work, model, cols, chol, solved, max_size):
    """Log posterior of a model given by its bits, and its size."""
    size, k = 0, np.int64(0)
    prior = 0.0
    first, log_weight = data.first, data.prior.log_weight
    for t in range(len(first) - 1):
        if (model >> np.uint64(t)) & np.uint64(1):
            size += 1
            prior += log_weight[t]
            for c in range(first[t], first[t + 1]):
                cols[k] = c
                k += 1
    if size > max_size or k > data.max_cols or not admissible_model(data.prior, model):
        return NEG_INF, size
    prior += data.prior.log_size[size]
    if prior == NEG_INF or factorise(data.gram, data.corr, cols, k, chol, solved) < -0.5:
        return NEG_INF, size
    return prior + log_marginal_of_columns(data.glm, work, cols, k, data.coef_prior, data.n), size


@entry
def traverse_glm(data, work, pattern, split, max_size, tally):
    """All models whose first ``split`` terms are as in ``pattern``."""
    free = len(data.first) - 1 - split
    p = data.gram.shape[0]
    cols, chol, solved = np.empty(p, np.int64), np.empty((p, p)), np.empty(p)
    for i in range(np.int64(1) << free):
        if tally.stop != 0:
            return
        code = np.uint64(i ^ (i >> 1))
        model = (code << np.uint64(split)) | np.uint64(pattern)
        value, size = _value(data, work, model, cols, chol, solved, max_size)
        if value > NEG_INF:
            _count(tally, value, model, size)
