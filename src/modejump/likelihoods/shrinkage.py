"""The posterior of g given a model, as prediction needs it, and rules that stand for a distribution."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from modejump.core.errors import InputError
from modejump.likelihoods.gaussian.quadrature import find_mode, log_integrand_plain, step_size
from modejump.priors.coefficients import CoefPrior

# The trapezoidal grid over t reaches as far as the density is above exp(-DROP) of its maximum.
DROP = 40.0
# The slowest tail falls like exp(-|t|/2), after a plateau of at most log(1/resid).
REACH = 130.0
# Generalised linear models: step of the grid, and the most of it in standard deviations of t, about sqrt(2 / k).
STEP = 0.1
STEP_PER_WIDTH = 0.5


def shrinkage_factor(g: np.ndarray) -> np.ndarray:
    """g / (1 + g), which is 1 at infinity: what the least squares coefficients are multiplied by."""
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / (1.0 + 1.0 / np.asarray(g)))


def posterior_g(
    prior: CoefPrior, par: np.ndarray, n: float, base: int, k: int, resid: float
) -> tuple[np.ndarray, np.ndarray]:
    """The posterior of g given a Gaussian model, as ascending values and weights that sum to one.

    One value where g is given or estimated; an infinite one where nothing is shrunk, and for the base model (k = 0),
    which has nothing to shrink. Arguments as for `modejump.likelihoods.gaussian.marginal.log_marginal`.
    """
    nu, resid = n - base, min(resid, 1.0)
    if k == 0 or not prior.shrinks:
        return np.array([np.inf]), np.ones(1)
    mixture = prior.mixture_form is not None
    form, constant = prior.mixture_form_plain(par, n, base, k) if mixture else ((), 0.0)
    if nu - k <= 0 or not resid > 0 or not np.isfinite(constant):
        raise InputError(f"a model of {k} columns beyond the base has no posterior of g with n = {n:g}; drop columns.")
    if not mixture:
        return np.array([prior.single_g(par, (1.0 - resid) * (nu - k) / (k * resid))]), np.ones(1)
    x, bend = find_mode(nu, k, resid, form)
    step = 0.5 * step_size(x, bend, nu, k, resid, form)
    return _on_grid(lambda t: log_integrand_plain(t, nu, k, resid, form), float(np.log(x)), step, form)


def posterior_g_laplace(
    prior: CoefPrior, par: np.ndarray, n: float, base: int, k: int, wald: float
) -> tuple[np.ndarray, np.ndarray]:
    """The same for a generalised linear model, given Wald's statistic of its k columns."""
    if k == 0 or not prior.shrinks:
        return np.array([np.inf]), np.ones(1)
    if prior.mixture_form is None:
        return np.array([prior.single_g(par, wald / k)]), np.ones(1)
    form, _ = prior.mixture_form_plain(par, n, base, k)
    shift, scale, alpha, beta, delta = form

    def log_density(t: np.ndarray) -> np.ndarray:
        x = np.exp(t)
        g = shift + scale * x
        prior_of_t = alpha * t - beta * np.log1p(x) - delta / x
        return np.asarray(-0.5 * k * np.log1p(g) - 0.5 * wald / (1.0 + g) + prior_of_t)

    centre = float(np.log(max(wald / k - 1.0 - shift, scale) / scale))
    return _on_grid(log_density, centre, min(STEP, STEP_PER_WIDTH * np.sqrt(2.0 / k)), form)


def _on_grid(
    log_density: Callable[[np.ndarray], np.ndarray], centre: float, step: float, form: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """The posterior of g on a grid of t, with g = shift + scale exp(t)."""
    t = centre + step * np.arange(-np.ceil(REACH / step), np.ceil(REACH / step) + 1)
    value = log_density(t)
    keep = value > value.max() - DROP
    weight = np.exp(value[keep] - value.max())
    return form[0] + form[1] * np.exp(t[keep]), weight / weight.sum()


def gauss_rule(nodes: np.ndarray, weights: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The Gauss rule of at most ``size`` nodes for a discrete measure, by Lanczos on its diagonal matrix.

    It integrates polynomials up to degree ``2 * size - 1`` as the measure itself does. Fewer nodes come back where the
    measure is concentrated.
    """
    weights = weights / weights.sum()
    reach = float(np.ptp(nodes))
    basis = np.sqrt(weights)[None]
    diagonal: list[float] = []
    off: list[float] = []
    while True:
        w = nodes * basis[-1]
        diagonal.append(float(basis[-1] @ w))
        for _ in range(2):  # twice is enough to keep the basis orthogonal to rounding
            w = w - (basis @ w) @ basis
        beta = float(np.linalg.norm(w))
        if len(diagonal) >= min(size, len(nodes)) or beta <= 1e-9 * reach or reach == 0.0:
            break
        off.append(beta)
        basis = np.vstack([basis, w / beta])
    value, vector = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
    return value, vector[0] ** 2
