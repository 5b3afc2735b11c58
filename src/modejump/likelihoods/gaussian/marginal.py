"""Gaussian marginal likelihoods p(y|M): what the rest of the library calls.

The base model holds the columns with a flat prior (the intercept and the always-in terms); a model M adds k
columns. With n observations (the sum of the case weights), base columns, nu = n - base and resid = RSS(M) /
RSS(base) = 1 - R^2, every Gaussian marginal likelihood depends on the data through (n, base, k, resid) alone,
known variance through RSS(base) in addition. All values are log Bayes factors against the base model.
"""

import math

import numpy as np

from modejump.core.compilation import entry, kernel
from modejump.likelihoods.gaussian.formulas import is_mixture, log_closed_form, log_mixture_part
from modejump.likelihoods.gaussian.tables import (
    DEPTH_UNIT,
    DIRECT,
    FILLED,
    LEAST_RESID,
    MarginalTable,
    fit_piece,
    locate,
    make_table,
    power_sum,
)

__all__ = ["MarginalTable", "log_marginal", "log_marginal_fast", "make_table"]


@entry
def log_marginal(code, par, n, base, k, resid):
    """Log marginal likelihood of a Gaussian model minus that of the base model.

    Parameters
    ----------
    code : int
        Which coefficient prior, see `modejump.priors.codes`.
    par : float64[4]
        Its parameters, from ``prior.parameters(n, tss)``.
    n : float
        Number of observations, the sum of the case weights.
    base : int
        Columns of the base model.
    k : int
        Columns beyond the base model.
    resid : float
        RSS(M) / RSS(base). The caller floors it above 0; values above 1 by rounding count as 1.

    Returns
    -------
    float
        Exactly 0 at k = 0; -inf where M is not defined: no residual degree of freedom (n - base - k <= 0), or
        a `resid` that is not a positive number.
    """
    if k == 0:
        return 0.0
    if n - base - k <= 0.0 or not resid > 0.0:
        return -math.inf
    resid = min(resid, 1.0)
    if is_mixture(code):
        return log_mixture_part(code, par, n, base, k, resid) - 0.5 * (n - base) * math.log(resid)
    return log_closed_form(code, par, n, base, k, resid)


@kernel
def fill_and_evaluate(code, par, n, base, k, resid, piece, position, coef, status):
    """Log marginal likelihood where the table has no number yet: fill the piece, or go to the quadrature."""
    row = k - 1
    if status[row, piece] != DIRECT:
        new = np.empty((1, 1, coef.shape[2]))
        if fit_piece(code, par, n, base, k, piece, new):
            for j in range(new.size):
                coef[row, piece, j] = new[0, 0, j]
            status[row, piece] = FILLED
            return power_sum(new, 0, 0, position) - 0.5 * (n - base) * math.log(resid)
        status[row, piece] = DIRECT
    return log_marginal(code, par, n, base, k, resid)


@kernel
def log_marginal_by(code, par, n, base, k, resid, coef, status):
    """`log_marginal` by way of the arrays of a table.

    The table of a closed form has one dimension. Numba decides that branch when it compiles, so that a sampler under a
    prior with a closed form has no quadrature in it and compiles in two thirds of the time.
    """
    if coef.ndim == 1:
        if k == 0:
            return 0.0
        if n - base - k <= 0.0 or not resid > 0.0:
            return -math.inf
        return log_closed_form(code, par, n, base, k, min(resid, 1.0))
    else:
        nu = n - base
        if k == 0 or k > coef.shape[0] or nu - k <= 0.0 or not resid > LEAST_RESID:
            return log_marginal(code, par, n, base, k, resid)
        resid = min(resid, 1.0)
        depth = -math.log(resid)
        piece, position = locate(nu * depth / DEPTH_UNIT)
        value = power_sum(coef, k - 1, piece, position)
        if math.isnan(value):
            return fill_and_evaluate(code, par, n, base, k, resid, piece, position, coef, status)
        return value + 0.5 * nu * depth


@entry
def log_marginal_fast(code, par, n, base, k, resid, table):
    """`log_marginal` by way of a table made with the same code, par, n and base.

    The two agree to 1e-9, or to the rounding of the value itself where that is larger.
    """
    return log_marginal_by(code, par, n, base, k, resid, table.coef, table.status)
