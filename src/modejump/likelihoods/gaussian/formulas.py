"""Formulas of the Gaussian marginal likelihoods, compiled; notation as in `modejump.likelihoods.gaussian.marginal`."""

import math

from modejump.core.compilation import entry, kernel
from modejump.likelihoods.gaussian.quadrature import log_mixture
from modejump.priors.codes import (
    AIC,
    BETA_PRIME,
    BIC,
    EB_LOCAL,
    HYPER_G,
    HYPER_G_N,
    INTRINSIC,
    JEFFREYS,
    JZS,
    KNOWN_VARIANCE,
    ROBUST,
    G,
)

LOG_2PI = math.log(2.0 * math.pi)
LOG_PI = math.log(math.pi)
LOG_2 = math.log(2.0)
# First parameter of Maruyama and George's beta prior on 1 / (1 + g).
BETA_PRIME_A = 0.25


@entry
def is_mixture(code):
    """Whether the marginal likelihood of this prior is an integral over g without closed form."""
    return code == HYPER_G or code == HYPER_G_N or code == JZS or code == ROBUST or code == INTRINSIC


@entry
def log_likelihood_of_g(g, nu, k, resid):
    """Log Bayes factor against the base model under Zellner's prior with this g."""
    return 0.5 * (nu * math.log1p(g * (1.0 - resid) / (1.0 + g * resid)) - k * math.log1p(g))


@entry
def empirical_bayes_g(nu, k, resid):
    """The g that maximises its likelihood: max(F - 1, 0) with the F statistic of M against the base model."""
    return max((1.0 - resid) * (nu - k) / (k * resid) - 1.0, 0.0)


@kernel
def stirling_series(x):
    """Log gamma of x minus its leading Stirling terms, for x >= 10."""
    w = 1.0 / (x * x)
    return (1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w * (1.0 / 1680.0 - w / 1188.0)))) / x


@entry
def log_gamma_ratio(x, d):
    """log Gamma(x + d) - log Gamma(x) for d >= 0, without the cancellation of two large log gammas."""
    if x < 10.0:
        return math.lgamma(x + d) - math.lgamma(x)
    leading = (x - 0.5) * math.log1p(d / x) + d * (math.log(x + d) - 1.0)
    return leading + stirling_series(x + d) - stirling_series(x)


@kernel
def log_beta_prime(nu, k, resid):
    """Log Bayes factor when 1 / (1 + g) has the beta prior of Maruyama and George.

    With v = 1 / (1 + g) the integrand is v**(a + k/2 - 1) (1 - v)**(b - 1) / (v + resid (1 - v))**(a + k/2 +
    b), because a + b + k/2 = nu/2 for their choice of b; that is Euler's integral B(a + k/2, b) resid**(-b).
    """
    a = BETA_PRIME_A
    b = 0.5 * (nu - k) - a
    if b <= 0.0:
        return -math.inf
    half = 0.5 * k
    return log_gamma_ratio(a, half) - log_gamma_ratio(a + b, half) - b * math.log(resid)


@entry
def mixture_form(code, par, n, base, k):
    """A mixing prior of g as (shift, scale, alpha, beta, delta), see the quadrature, and its log constant."""
    if code == HYPER_G:
        return (0.0, 1.0, 1.0, 0.5 * par[0], 0.0), math.log(0.5 * par[0] - 1.0)
    if code == HYPER_G_N:
        return (0.0, n, 1.0, 0.5 * par[0], 0.0), math.log(0.5 * par[0] - 1.0)
    if code == JZS:
        return (0.0, 0.5 * n * par[0] * par[0], -0.5, 0.0, 1.0), -0.5 * LOG_PI
    if code == ROBUST:
        least = (1.0 + n) / (base + k)  # the least value of 1 + g
        return (least - 1.0, least, 1.0, 1.5, 0.0), -LOG_2
    least = n / (base + k)  # intrinsic: the least value of g
    return (least, least, 0.5, 1.0, 0.0), -LOG_PI


@kernel
def log_mixture_part(code, par, n, base, k, resid):
    """Log marginal likelihood of a mixture of g-priors plus (nu/2) log resid, a slowly varying function."""
    form, constant = mixture_form(code, par, n, base, k)
    return log_mixture(n - base, k, resid, form) + constant


@kernel
def log_closed_form(code, par, n, base, k, resid):
    """Log marginal likelihood of the priors that need no quadrature."""
    nu = n - base
    if code == G:
        return log_likelihood_of_g(par[0], nu, k, resid)
    if code == EB_LOCAL:
        return log_likelihood_of_g(empirical_bayes_g(nu, k, resid), nu, k, resid)
    if code == BETA_PRIME:
        return log_beta_prime(nu, k, resid)
    if code == KNOWN_VARIANCE:
        return 0.5 * (1.0 - resid) * par[1] / par[0]
    fit = -0.5 * n * math.log(resid)
    if code == JEFFREYS:
        return fit + 0.5 * k * LOG_2PI
    if code == BIC:
        return fit - 0.5 * k * math.log(n)
    if code == AIC:
        return fit - k
    raise ValueError("unknown code of a coefficient prior")
