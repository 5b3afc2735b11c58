"""Laplace approximations of the marginal likelihood of a generalised linear model, compiled.

After Li and Clyde (2018): with the base's coefficients under a flat prior and those of the other k columns under a
normal prior with precision J / g, J their observed information at the maximum with the base projected out,

    log p(y|M, g) = log L - 1/2 log |J_base| - k/2 log(1 + g) - Q / (2 (1 + g)) + constant,

where Q is Wald's statistic of the k columns. Mixtures integrate that over g. BIC and AIC take their penalty from the
likelihood, Jeffreys' prior ``|J|^(1/2)`` cancels the curvature and leaves ``log L + k/2 log 2 pi``.

Where the columns separate the classes there is no maximum. The normal priors are proper all the same once J is taken at
another point: the mode under Jeffreys' prior. The likelihood is expanded there, and the maximum of that quadratic takes
the place of its own.
"""

from __future__ import annotations

import math

from modejump.core.compilation import entry, implements, kernel, switch
from modejump.likelihoods.columns import log_marginal_of_columns
from modejump.likelihoods.gaussian.quadrature import mixture_form
from modejump.likelihoods.glm.fit import fit, fit_expansion, fit_mode
from modejump.likelihoods.glm.newton import FITTED, SEPARATED, TOLERANCE, TOLERANCE_INFORMATION, Glm
from modejump.priors.coefficients import COEF_PRIORS

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
def _by_integral(code, par, n, base, k, log_likelihood, log_det_base, wald):
    """Log marginal likelihood under a mixture of g-priors."""
    value = log_likelihood - 0.5 * log_det_base
    if k == 0:
        return value
    form, constant = mixture_form(code, par, n, base, k)
    return value + constant + _log_integral(k, wald, form)


_ARGUMENTS = "par, n, base, k, log_likelihood, log_det_base, wald"
_laplace = switch(_ARGUMENTS, COEF_PRIORS.cases("log_laplace"), _by_integral)


@entry
def log_laplace(prior, n, base, k, log_likelihood, log_det_base, wald):
    """Log marginal likelihood up to a constant that all models share."""
    return _laplace(prior.code, prior.par, n, base, k, log_likelihood, log_det_base, wald)


@kernel
def tolerance_of(prior):
    """The decrement at which a fit may end: some priors need the likelihood alone."""
    return TOLERANCE_INFORMATION if prior.needs_information else TOLERANCE


@kernel
def marginal_of_fit(glm, work, cols, k, prior, n, state):
    """log p(y|M) - log p(y|base) of a model whose fit ended so; minus infinity where it has no estimate."""
    if state != FITTED:
        if state != SEPARATED or glm.bounded:
            return -math.inf
        # Under Jeffreys' prior the supremum of the likelihood counts. Other priors are made of the information, which
        # vanishes on the way there.
        if not prior.survives_separation and not fit_expansion(glm, work, cols, k):
            return -math.inf
    value = log_laplace(prior, n, glm.base.shape[0], k, work.log_likelihood, work.log_det_base, work.wald)
    return value - glm.null


@implements(log_marginal_of_columns, Glm)
def _fitted_marginal(rows, work, cols, k, prior, n):
    state = fit(rows, work, cols, k, tolerance_of(prior))
    return marginal_of_fit(rows, work, cols, k, prior, n, state)


@entry
def fit_mode_columns(glm, work, cols):
    """`fit_mode` from Python, for coefficients of a model that is separated."""
    return fit_mode(glm, work, cols, len(cols))
