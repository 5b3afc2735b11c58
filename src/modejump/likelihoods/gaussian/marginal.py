"""Gaussian marginal likelihoods p(y|M): what the rest of the library calls.

The base model holds the columns with a flat prior (the intercept and the always-in terms); a model M adds k
columns. With n observations (the sum of the case weights), base columns, nu = n - base and resid = RSS(M) /
RSS(base) = 1 - R^2, every Gaussian marginal likelihood depends on the data through (n, base, k, resid) alone,
known variance through RSS(base) in addition. All values are log Bayes factors against the base model.

A noise floor, which the measurement cannot resolve, adds the same to every residual sum of squares, so that data
without noise do not give infinite evidence: `floored` is the one place where it enters.
"""

import math

import numpy as np

from modejump.core.compilation import entry, generic, implements, kernel, switch
from modejump.likelihoods.gaussian.quadrature import log_mixture_part
from modejump.likelihoods.gaussian.tables import (
    DEPTH_UNIT,
    DIRECT,
    FILLED,
    LEAST_RESID,
    MixturePrior,
    fit_piece,
    locate,
    power_sum,
)
from modejump.priors.coefficients import COEF_PRIORS, CoefPriorData
from modejump.priors.coefficients.base import FLOOR


@entry
def floored(par, resid):
    """Residual share with the noise floor; the share itself, to the last bit, without one."""
    return resid + (1.0 - resid) * par[FLOOR]


@kernel
def _by_quadrature(code, par, n, base, k, resid):
    """Log Bayes factor of a mixture of g-priors."""
    return log_mixture_part(code, par, n, base, k, resid) - 0.5 * (n - base) * math.log(resid)


_closed_form = switch("par, n, base, k, resid", COEF_PRIORS.cases("log_bayes_factor"), math.nan)
_any_form = switch("par, n, base, k, resid", COEF_PRIORS.cases("log_bayes_factor"), _by_quadrature)


@entry
def log_marginal(prior, n, base, k, resid):
    """Log marginal likelihood of a Gaussian model minus that of the base model.

    Exactly 0 at k = 0; -inf where M is not defined: no residual degree of freedom (n - base - k <= 0), or a ``resid``
    that is not a positive number. The caller floors it above 0; values above 1 by rounding count as 1.
    """
    if k == 0:
        return 0.0
    if n - base - k <= 0.0 or not resid > 0.0:
        return -math.inf
    return _any_form(prior.code, prior.par, n, base, k, floored(prior.par, min(resid, 1.0)))


@generic
def sampler_marginal(prior, n, base, k, resid):
    """`log_marginal` for samplers: without quadrature, or from a table."""


@implements(sampler_marginal, CoefPriorData)
def _closed(prior, n, base, k, resid):
    if k == 0:
        return 0.0
    if n - base - k <= 0.0 or not resid > 0.0:
        return -math.inf
    return _closed_form(prior.code, prior.par, n, base, k, floored(prior.par, min(resid, 1.0)))


@implements(sampler_marginal, MixturePrior)
def _from_table(prior, n, base, k, resid):
    nu = n - base
    share = floored(prior.par, min(resid, 1.0))
    if k == 0 or k > prior.coef.shape[0] or nu - k <= 0.0 or not resid > 0.0 or not share > LEAST_RESID:
        return log_marginal(prior, n, base, k, resid)
    depth = -math.log(share)
    piece, position = locate(nu * depth / DEPTH_UNIT)
    value = power_sum(prior.coef, k - 1, piece, position)
    if math.isnan(value):
        return _fill_and_evaluate(prior, n, base, k, share, piece, position)
    return value + 0.5 * nu * depth


@kernel
def _fill_and_evaluate(prior, n, base, k, resid, piece, position):
    """Log marginal likelihood where the table has no number yet: fill the piece, or go to the quadrature."""
    coef, status, row = prior.coef, prior.status, k - 1
    if status[row, piece] != DIRECT:
        new = np.empty((1, 1, coef.shape[2]))
        if fit_piece(prior.code, prior.par, n, base, k, piece, new):
            for j in range(new.size):
                coef[row, piece, j] = new[0, 0, j]
            status[row, piece] = FILLED
            return power_sum(new, 0, 0, position) - 0.5 * (n - base) * math.log(resid)
        status[row, piece] = DIRECT
    return _by_quadrature(prior.code, prior.par, n, base, k, resid)


@entry
def log_marginal_fast(prior, n, base, k, resid):
    """`sampler_marginal` from Python.

    It agrees with `log_marginal` to 1e-9, or to the rounding of the value itself where that is larger.
    """
    return sampler_marginal(prior, n, base, k, resid)
