"""Scores of very many columns given some models, compiled: what each column would add to each of them."""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import entry
from modejump.kernels.evaluate import NEG_INF, RANK_TOLERANCE, RESID_FLOOR
from modejump.likelihoods.gaussian.marginal import sampler_marginal


@entry
def score_columns(prior, n, base, products, first, member, inverse, loading, resid, log_prior, odds):
    """Log posterior odds of each model with one more column against the model itself, for a Gaussian response.

    Parameters
    ----------
    prior : CoefPriorData or MixturePrior
        Prior of the coefficients.
    n, base : float, int
        Observations, and columns of the base.
    products : float64[u + 1, b]
        Products of the b columns, of unit length, with u columns of the models and, last, with the response.
    first : int64[D + 1]
        First entry of each model in ``member``.
    member : int64[]
        Columns of the models, as lines of ``products``.
    inverse : float64[D, k, k]
        Inverse of the triangular factor of each model's columns.
    loading : float64[D, k]
        Products of the response with the orthonormal basis that belongs to it.
    resid : float64[D]
        Residual share of each model.
    log_prior : float64[D]
        Log prior ratio of one more column.
    odds : float64[D, b]
        Receives the log odds; minus infinity where the column depends on the model's, and where no model is so large.
    """
    count = products.shape[1]
    along, left, rest = np.empty(count), np.empty(count), np.empty(count)
    for d in range(len(resid)):
        start, k = first[d], first[d + 1] - first[d]
        for j in range(count):
            left[j] = products[-1, j]
            rest[j] = 1.0
        for i in range(k):
            for j in range(count):
                along[j] = 0.0
            for m in range(i + 1):
                t, line = inverse[d, m, i], products[member[start + m]]
                for j in range(count):
                    along[j] += t * line[j]
            t = loading[d, i]
            for j in range(count):
                left[j] -= t * along[j]
                rest[j] -= along[j] * along[j]
        now = sampler_marginal(prior, n, base, k, resid[d]) - log_prior[d]
        for j in range(count):
            if rest[j] < RANK_TOLERANCE or log_prior[d] == NEG_INF:
                odds[d, j] = NEG_INF
            else:
                share = max(resid[d] - left[j] * left[j] / rest[j], RESID_FLOOR)
                odds[d, j] = sampler_marginal(prior, n, base, k + 1, share) - now
