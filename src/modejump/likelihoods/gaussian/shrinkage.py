"""The posterior of g given a model, as prediction needs it."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.special import expit, logit

from modejump.core.errors import InputError
from modejump.likelihoods.gaussian import plain
from modejump.likelihoods.gaussian.formulas import empirical_bayes_g
from modejump.likelihoods.gaussian.quadrature import find_mode, step_size
from modejump.priors import codes

Array = NDArray[np.float64]

# Priors under which the coefficients are not shrunk: g is infinite.
UNSHRUNK = (codes.JEFFREYS, codes.BIC, codes.AIC, codes.KNOWN_VARIANCE)
# The trapezoidal grid reaches as far as the density is above exp(-DROP) of its maximum.
DROP = 40.0
# The slowest tail falls like exp(-|t|/2), after a plateau of at most log(1/resid).
REACH = 130.0
# Nodes on the logistic scale stay this far below 1, where g is infinite.
LARGEST_NODE = 1.0 - 1e-12


def shrinkage_factor(g: Array) -> Array:
    """g / (1 + g), which is 1 at infinity: what the least squares coefficients are multiplied by."""
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / (1.0 + 1.0 / g))


def posterior_g_nodes(
    code: int, par: Array, n: float, base: int, k: int, resid: float, size: int = 32
) -> tuple[Array, Array]:
    """Quadrature of the posterior of g given the data and a model.

    Parameters
    ----------
    code, par, n, base, k, resid
        As for `modejump.likelihoods.log_marginal`.
    size : int
        Number of nodes for the mixtures of g-priors.

    Returns
    -------
    g, weight : float64 arrays
        Increasing nodes, and weights that sum to one. One node for a fixed g and for empirical Bayes; one
        infinite node where nothing is shrunk, and for the base model (k = 0), which has nothing to shrink.
    """
    nu = n - base
    if k == 0 or code in UNSHRUNK:
        return np.array([np.inf]), np.ones(1)
    if nu - k <= 0 or not resid > 0 or (code == codes.BETA_PRIME and nu - k <= 0.5):
        raise InputError(f"A model of {k} columns beyond the base has no posterior of g with n = {n:g}: drop columns.")
    resid = min(resid, 1.0)
    if code == codes.G:
        return np.array([par[0]]), np.ones(1)
    if code == codes.EB_LOCAL:
        return np.array([empirical_bayes_g(nu, k, resid)]), np.ones(1)
    form, _ = plain.mixture_form(code, par, n, base, k)
    t, weight = _trapezoid(nu, k, resid, form)
    # What prediction averages is smooth in t = log x, but t is unbounded: a logistic curve wider than the
    # posterior squeezes the tails and hardly bends the rest.
    centre = float(weight @ t)
    width = max(2.0 * float(np.sqrt(weight @ (t - centre) ** 2)), 1.0)
    node, weight = _gauss_rule(expit((t - centre) / width), weight, size)
    return form[0] + form[1] * np.exp(centre + width * logit(node)), weight


def _trapezoid(nu: float, k: int, resid: float, form: tuple[float, ...]) -> tuple[Array, Array]:
    """Dense discrete version of the posterior of t."""
    x, bend = find_mode(nu, k, resid, form)
    h = 0.5 * step_size(x, bend, nu, k, resid, form)
    t = np.log(x) + h * np.arange(-np.ceil(REACH / h), np.ceil(REACH / h) + 1)
    value = plain.log_integrand(t, nu, k, resid, form)
    keep = value > value.max() - DROP
    weight = np.exp(value[keep] - value.max())
    return t[keep], weight / weight.sum()


def _gauss_rule(y: Array, weight: Array, size: int) -> tuple[Array, Array]:
    """Gauss rule of a discrete measure: Lanczos with full orthogonalisation, then Golub and Welsch."""
    size = min(size, y.size)
    mean = weight @ y
    spread = np.sqrt(weight @ (y - mean) ** 2)
    operator = (y - mean) / spread
    basis = np.zeros((size, y.size))
    basis[0] = np.sqrt(weight)
    diagonal, below = np.zeros(size), np.zeros(size)
    for j in range(size):
        following = operator * basis[j]
        diagonal[j] = basis[j] @ following
        for _ in range(2):  # twice is enough to keep the basis orthogonal to rounding
            following = following - basis[: j + 1].T @ (basis[: j + 1] @ following)
        below[j] = np.linalg.norm(following)
        if j + 1 < size:
            basis[j + 1] = following / below[j]
    node, vector = eigh_tridiagonal(diagonal, below[:-1])
    rule = vector[0] ** 2
    return np.clip(mean + spread * node, y[0], min(y[-1], LARGEST_NODE)), rule / rule.sum()
