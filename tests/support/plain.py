"""Plain NumPy and SciPy twins of compiled functions of likelihoods and predictions: slow and simple on purpose."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence

import numpy as np
from scipy import special
from scipy.special import logsumexp

from modejump.likelihoods import Link
from modejump.likelihoods.gaussian.quadrature import log_integrand_plain
from modejump.posterior.prediction.grid import EDGE, REACH
from modejump.posterior.prediction.mixture import MAX_ITERATIONS, quantile, upper_tail
from modejump.priors.coefficients import CoefPrior
from modejump.priors.coefficients.base import FLOOR
from modejump.priors.compiled import ModelPriorArrays
from modejump.priors.heredity import NONE, STRONG


def log_mixture_plain(nu, k, resid, form):
    """Plain twin of `log_mixture`: a fine grid over the part that matters, found on a coarse one."""
    coarse = np.arange(-160.0, 160.0, 0.02)
    value = log_integrand_plain(coarse, nu, k, resid, form)
    inside = coarse[value > value.max() - 45.0]
    fine, h = np.linspace(inside[0] - 0.02, inside[-1] + 0.02, 40_001, retstep=True)
    return float(logsumexp(log_integrand_plain(fine, nu, k, resid, form)) + np.log(h))


def log_marginal_plain(prior: CoefPrior, par: np.ndarray, n: float, base: int, k: int, resid: float) -> float:
    """Plain twin of `log_marginal`."""
    if k == 0:
        return 0.0
    if n - base - k <= 0 or not resid > 0:
        return -np.inf
    resid = min(resid, 1.0)
    resid += (1.0 - resid) * par[FLOOR]
    if prior.log_bayes_factor_plain is not None:
        return float(prior.log_bayes_factor_plain(par, n, base, k, resid))
    form, constant = prior.mixture_form_plain(par, n, base, k)
    return log_mixture_plain(n - base, k, resid, form) + float(constant - (n - base) / 2 * np.log(resid))


def invert_root_plain(gram: np.ndarray, corr: np.ndarray, cols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Plain twin of :func:`invert_root`: coefficients and root."""
    root = np.linalg.inv(np.linalg.cholesky(gram[np.ix_(cols, cols)])).T
    return root @ (root.T @ corr[cols]), root


def unpack_fit_plain(triangle: np.ndarray, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Plain twin of :func:`unpack_fit`: centre and root."""
    lower = np.zeros((len(coef), len(coef)))
    lower[np.tril_indices(len(coef))] = triangle
    return lower.T @ coef, np.linalg.inv(lower).T


def mixture_quantiles_plain(
    loc: np.ndarray, scale: np.ndarray, weight: np.ndarray, df: np.ndarray, probability: np.ndarray
) -> np.ndarray:
    """Plain twin of :func:`mixture_quantiles`: bisection on exact special functions, given each component's df."""
    out = np.empty((len(loc), len(probability)))
    for q, p in enumerate(probability):
        ends = loc + scale * quantile(df, float(p))
        low = np.where(weight > 0.0, ends, np.inf).min(axis=1)
        high = np.where(weight > 0.0, ends, -np.inf).max(axis=1)
        for _ in range(MAX_ITERATIONS):
            middle = 0.5 * (low + high)
            above = (weight * upper_tail(df, (middle[:, None] - loc) / scale)).sum(axis=1) > 1.0 - p
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        out[:, q] = 0.5 * (low + high)
    return out


def sum_on_grid_plain(
    loc: np.ndarray,
    scale: np.ndarray,
    weight: np.ndarray,
    part: np.ndarray,
    low: np.ndarray,
    step: np.ndarray,
    start: np.ndarray,
) -> np.ndarray:
    """Plain twin of :func:`sum_on_grid`; returns what that leaves in ``out``."""
    out = np.zeros((int(start[-1]), part.shape[1]))
    for r in range(len(loc)):
        index = np.arange(start[r + 1] - start[r])
        at, width = (loc[r] - low[r]) / step[r], scale[r] / step[r]
        z = (index[:, None] - at) / width
        density = np.where(np.abs(z) <= REACH, np.exp(-0.5 * z * z), 0.0) / (width * np.sqrt(2.0 * np.pi))
        below, above = (special.ndtr(-edge / width) for edge in (at + 0.5, index[-1] + 0.5 - at))
        with np.errstate(invalid="ignore"):
            share = np.where(below + above > EDGE, below / (below + above), 0.0)
        beyond = np.where(below + above > EDGE, 1.0 - density.sum(axis=0), 0.0)
        density[0] += beyond * share
        density[-1] += beyond * (1.0 - share)
        point = np.maximum(1.0 - np.abs(index[:, None] - np.clip(at, 0.0, index[-1])), 0.0)
        out[start[r] : start[r + 1]] = (np.where(width < 0.999, point, density) * weight[r]) @ part
    return out


def mean_probabilities_plain(loc: np.ndarray, scale: np.ndarray, weight: np.ndarray, link: Link) -> np.ndarray:
    """Plain twin of :func:`mean_probabilities`: the trapezoidal rule on the inverse link, component by component.

    Parameters
    ----------
    loc, scale, weight : ndarray of shape (rows, components)
        The mixtures.
    link : Link
        The link.
    """
    # The function is 0 and 1 beyond: what a normal has above counts in closed form.
    low, high = -45.0, 45.0
    out = np.zeros(len(loc))
    for r, c in zip(*np.nonzero(weight > 0.0), strict=True):
        m, s = loc[r, c], scale[r, c]
        a, b = max(m - 12.0 * s, low), min(m + 12.0 * s, high)
        above = special.ndtr((m - high) / s)
        if a < b:
            t, h = np.linspace(a, b, 4001, retstep=True)
            density = np.exp(-0.5 * ((t - m) / s) ** 2) / (s * np.sqrt(2.0 * np.pi))
            value = link.mean(t) * density
            above += h * (value.sum() - 0.5 * (value[0] + value[-1]))
        out[r] += weight[r, c] * above
    return np.asarray(np.clip(out, 0.0, 1.0))


def allows(parents: Collection[int], model: Collection[int], heredity: int) -> bool:
    """Whether a term with these parents may be in the model."""
    if heredity == NONE or not parents:
        return True
    present = [parent in model for parent in parents]
    return all(present) if heredity == STRONG else any(present)


def log_model_prior(model: Collection[int], prior: ModelPriorArrays) -> float:
    """Twin of `modejump.priors.compiled.log_model_prior` for a model given as a set of terms."""
    for j in model:
        parents = prior.parent_index[prior.parent_start[j] : prior.parent_start[j + 1]]
        if not allows([int(parent) for parent in parents], model, prior.heredity):
            return -math.inf
    return float(prior.log_size[len(model)]) + math.fsum(float(prior.log_weight[j]) for j in model)


def log_normaliser(
    log_size: Sequence[float], log_weight: Sequence[float], parents: Sequence[Collection[int]], heredity: int
) -> float:
    """Twin of `modejump.priors.counting.log_normaliser`: the sum over all subsets of the terms."""
    terms = range(len(log_weight))
    models = itertools.chain.from_iterable(itertools.combinations(terms, size) for size in range(len(terms) + 1))
    return math.log(
        math.fsum(
            math.exp(log_size[len(model)] + math.fsum(log_weight[j] for j in model))
            for model in models
            if all(allows(parents[j], model, heredity) for j in model)
        )
    )
