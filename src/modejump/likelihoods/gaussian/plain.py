"""Plain NumPy and SciPy twins of the compiled marginal likelihoods.

Slow and simple on purpose: the formulas as the papers print them, and for the mixtures a fine grid over log g
that needs no search for the mode and no treatment of the tails.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, logsumexp

from modejump.priors import codes

Array = NDArray[np.float64]


def log_likelihood_of_g(g: Array | float, nu: float, k: int, resid: float) -> Array:
    """Log Bayes factor of Zellner's prior with this g against the base model."""
    return np.asarray(0.5 * (nu - k) * np.log1p(g) - 0.5 * nu * np.log1p(np.multiply(g, resid)))


def log_integrand(t: Array, nu: float, k: int, resid: float, form: tuple[float, ...]) -> Array:
    """Log of the relative likelihood of g times the prior of t, see `modejump.likelihoods.gaussian.quadrature`."""
    shift, scale, alpha, beta, delta = form
    x = np.exp(t)
    g = shift + scale * x
    loss = (1.0 - resid) / (1.0 + g * resid)
    near = np.log1p(-np.minimum(loss, 0.5))
    fit = np.where(loss < 0.5, near, np.log(resid * (1.0 + g) / (1.0 + g * resid)))
    return 0.5 * nu * fit - 0.5 * k * np.log1p(g) + alpha * t - beta * np.log1p(x) - delta / x


def mixture_form(code: int, par: Array, n: float, base: int, k: int) -> tuple[tuple[float, ...], float]:
    """Form of a mixing prior of g and its log constant, see `modejump.likelihoods.gaussian.quadrature`.

    The beta-prime prior is a mixture too; its closed form only makes the quadrature needless for p(y|M).
    """
    if code in (codes.HYPER_G, codes.HYPER_G_N):
        a = float(par[0])
        return (0.0, 1.0 if code == codes.HYPER_G else n, 1.0, a / 2, 0.0), float(np.log((a - 2) / 2))
    if code == codes.JZS:
        return (0.0, n * float(par[0]) ** 2 / 2, -0.5, 0.0, 1.0), -0.5 * float(np.log(np.pi))
    if code == codes.ROBUST:
        least = (1 + n) / (base + k)
        return (least - 1, least, 1.0, 1.5, 0.0), -float(np.log(2))
    if code == codes.INTRINSIC:
        least = n / (base + k)
        return (least, least, 0.5, 1.0, 0.0), -float(np.log(np.pi))
    if code == codes.BETA_PRIME:
        a, b = 0.25, (n - base - k - 0.5) / 2
        return (0.0, 1.0, b, a + b, 0.0), -float(betaln(a, b))
    raise ValueError(f"code {code} is no mixture of g-priors")


def log_mixture(nu: float, k: int, resid: float, form: tuple[float, ...]) -> float:
    """Log integral over t of `log_integrand`, on a uniform grid over the part that matters."""
    coarse = np.arange(-160.0, 160.0, 0.02)
    value = log_integrand(coarse, nu, k, resid, form)
    inside = coarse[value > value.max() - 45.0]
    fine, h = np.linspace(inside[0] - 0.02, inside[-1] + 0.02, 40_001, retstep=True)
    return float(logsumexp(log_integrand(fine, nu, k, resid, form)) + np.log(h))


def log_marginal(code: int, par: Array, n: float, base: int, k: int, resid: float) -> float:
    """Twin of `modejump.likelihoods.gaussian.marginal.log_marginal`."""
    nu = n - base
    if k == 0:
        return 0.0
    if nu - k <= 0 or not resid > 0:
        return -np.inf
    resid = min(resid, 1.0)
    if code == codes.G:
        return float(log_likelihood_of_g(par[0], nu, k, resid))
    if code == codes.EB_LOCAL:
        f_statistic = ((1 - resid) / k) / (resid / (nu - k))
        return float(log_likelihood_of_g(max(f_statistic - 1, 0), nu, k, resid))
    if code == codes.JEFFREYS:
        return float(-n / 2 * np.log(resid) + k / 2 * np.log(2 * np.pi))
    if code == codes.BIC:
        return float(-n / 2 * np.log(resid) - k / 2 * np.log(n))
    if code == codes.AIC:
        return float(-n / 2 * np.log(resid) - k)
    if code == codes.KNOWN_VARIANCE:
        return float((1 - resid) * par[1] / (2 * par[0]))
    if code == codes.BETA_PRIME:
        a, b = 0.25, (nu - k - 0.5) / 2
        return float(betaln(a + k / 2, b) - betaln(a, b) - b * np.log(resid)) if b > 0 else -np.inf
    form, constant = mixture_form(code, par, n, base, k)
    return log_mixture(nu, k, resid, form) + constant - nu / 2 * float(np.log(resid))
