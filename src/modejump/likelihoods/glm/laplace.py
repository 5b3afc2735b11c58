"""Laplace approximations of the marginal likelihood of a generalised linear model, compiled.

After Li and Clyde (2018): with the base's coefficients under a flat prior and those of the other k columns under a
normal prior with precision J / g, J their observed information at the maximum with the base projected out,

    log p(y|M, g) = log L - 1/2 log |J_base| - k/2 log(1 + g) - Q / (2 (1 + g)) + constant,

where Q is Wald's statistic of the k columns. Mixtures integrate that over g. BIC and AIC take their penalty from the
likelihood, Jeffreys' prior ``|J|^(1/2)`` cancels the curvature and leaves ``log L + k/2 log 2 pi``.
"""

from __future__ import annotations

import math

from modejump.core.compilation import entry, kernel
from modejump.likelihoods.custom.own import own_marginal
from modejump.likelihoods.gaussian.formulas import LOG_2PI, log_gamma_ratio, mixture_form
from modejump.likelihoods.glm.fit import fit, fit_mode
from modejump.likelihoods.glm.newton import (
    FITTED,
    SEPARATED,
    TOLERANCE,
    TOLERANCE_INFORMATION,
)
from modejump.likelihoods.glm.rows import GAMMA, OWN
from modejump.priors.codes import AIC, BETA_PRIME, BIC, EB_LOCAL, JEFFREYS, G

# The trapezoidal rule over t = log x: step, and what the sum may neglect.
STEP = 0.1
CUT = 1e-14
FURTHEST = 400.0


@kernel
def _log_integrand(t, k, wald, form):
    """Log of the likelihood of g times its prior, at t = log x and g = shift + scale x."""
    shift, scale, alpha, beta, delta = form
    x = math.exp(t)
    g = shift + scale * x
    value = -0.5 * k * math.log1p(g) - 0.5 * wald / (1.0 + g) + alpha * t - beta * math.log1p(x)
    return value - delta / x if delta > 0.0 else value


@kernel
def _log_integral(k, wald, form):
    """Log of the integral over t; the integrand is analytic, so that the trapezoidal rule is exact to rounding."""
    shift, scale, alpha, beta, delta = form
    # Begin where the likelihood peaks, 1 + g = Q / k, or at the prior's own scale.
    t = math.log(max(wald / k - 1.0 - shift, scale) / scale)
    here = _log_integrand(t, k, wald, form)
    for direction in (STEP, -STEP):
        while abs(t) < FURTHEST:
            there = _log_integrand(t + direction, k, wald, form)
            if there <= here:
                break
            t, here = t + direction, there
    total = 1.0
    for direction in (STEP, -STEP):
        at = t + direction
        while abs(at) < FURTHEST:
            term = math.exp(_log_integrand(at, k, wald, form) - here)
            total += term
            if term < CUT * total:
                break
            at += direction
    return here + math.log(total * STEP)


@kernel
def _log_beta_prime(n, base, k, wald):
    """1/(1+g) has the beta prior with a = 1/4 and b = (n - base - k)/2 - a, as for Gaussian responses."""
    a = 0.25
    b = 0.5 * (n - base - k) - a
    if b <= 0.0:
        return -math.inf
    # In t with g = exp(t): g^b (1 + g)^-(a + b) up to the beta function.
    form = (0.0, 1.0, b, a + b, 0.0)
    log_beta = math.lgamma(a) - log_gamma_ratio(b, a)
    return _log_integral(k, wald, form) - log_beta


@entry
def log_laplace(code, par, n, base, k, log_likelihood, log_det_base, wald):
    """Log marginal likelihood up to a constant that all models share.

    Parameters
    ----------
    code, par : int, float64[4]
        The coefficient prior.
    n, base, k : float, int, int
        Observations, columns of the base, and columns beyond it.
    log_likelihood, log_det_base, wald : float
        At the maximum: log likelihood, log determinant of the base's information, and Wald's statistic.
    """
    if code == BIC:
        return log_likelihood - 0.5 * k * math.log(n)
    if code == AIC:
        return log_likelihood - k
    if code == JEFFREYS:
        return log_likelihood + 0.5 * k * LOG_2PI
    value = log_likelihood - 0.5 * log_det_base
    if k == 0:
        return value
    if code == G:
        return value - 0.5 * k * math.log1p(par[0]) - 0.5 * wald / (1.0 + par[0])
    if code == EB_LOCAL:
        g = max(wald / k - 1.0, 0.0)
        return value - 0.5 * k * math.log1p(g) - 0.5 * wald / (1.0 + g)
    if code == BETA_PRIME:
        return value + _log_beta_prime(n, base, k, wald)
    form, constant = mixture_form(code, par, n, base, k)
    return value + constant + _log_integral(k, wald, form)


@kernel
def tolerance_of(code):
    """The decrement at which a fit may end: some priors need the likelihood alone."""
    return TOLERANCE if code == BIC or code == AIC or code == JEFFREYS else TOLERANCE_INFORMATION


@kernel
def marginal_of_fit(glm, work, k, code, par, n, state):
    """log p(y|M) - log p(y|base) of a model whose fit ended so; minus infinity where it has no estimate."""
    # Jeffreys' prior keeps the coefficients of separated classes finite: the supremum of the likelihood counts.
    if state != FITTED and not (state == SEPARATED and code == JEFFREYS and glm.family != GAMMA):
        return -math.inf
    value = log_laplace(code, par, n, glm.base.shape[0], k, work.log_likelihood, work.log_det_base, work.wald)
    return value - glm.null[0]


@kernel
def glm_marginal(glm, work, cols, k, code, par, n):
    """log p(y|M) - log p(y|base) of the model with these columns; minus infinity where it has no estimate."""
    if glm.family == OWN:
        return own_marginal(glm, work, cols, k)
    state = fit(glm, work, cols, k, tolerance_of(code))
    return marginal_of_fit(glm, work, k, code, par, n, state)


@entry
def fit_columns(generalised, scratch, cols, code, par, n):
    """`glm_marginal` from Python: coefficients and what belongs to them are left in the scratch space."""
    return glm_marginal(generalised, scratch, cols, len(cols), code, par, n)


@entry
def fit_mode_columns(generalised, scratch, cols):
    """`fit_mode` from Python, for coefficients of a model that is separated."""
    return fit_mode(generalised, scratch, cols, len(cols))
