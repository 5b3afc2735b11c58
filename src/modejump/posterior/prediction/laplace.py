"""The posterior of the coefficients of a generalised linear model, given the model: normal at the maximum.

With J the information at the maximum likelihood estimate and ``J = L L'``, the base's columns first, the coefficients
are ``theta = L'^-1 u``. The trailing block of L belongs to the candidates with the base projected out in the metric of
the information, so the g-prior is ``N(0, g I)`` for the candidates' part of u and flat for the base's. Given the model
and g, with s = g/(1+g), the base's part of u is then ``N(u_hat, I)`` and the candidates' part is ``N(s u_hat, s I)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from modejump.core.compilation import entry
from modejump.kernels.evaluate import columns_resid
from modejump.likelihoods.columns import fit_columns
from modejump.likelihoods.glm.laplace import fit_mode_columns
from modejump.likelihoods.glm.newton import GlmWork, new_glm_work
from modejump.problem.problem import Problem

# A fit is repeated until its estimate moves by less than this many standard errors, at most so often.
_SETTLED = 1e-8
_MOST_FITS = 20


class LaplaceFits(NamedTuple):
    """Fits of several models as plain arrays, which can be stored."""

    log_marginal: np.ndarray  # (m,): log p(y|M) - log p(y|base); minus infinity for a model without an estimate
    wald: np.ndarray  # (m,): wald's statistic of the candidate columns
    shape: np.ndarray  # (m,): estimate of the gamma's shape; one for other families
    size: np.ndarray  # (m,): columns of each model, the base's included
    # Estimates of one model after the other: of the base's orthonormal columns, then of its standardised ones.
    coef: np.ndarray
    factor: np.ndarray  # lower triangles, row by row, of the Cholesky factors L of the models' information


class LaplaceFit(NamedTuple):
    """Fit of one model: for a row r of the base's and the model's columns, ``r @ root`` are its loadings on u."""

    columns: np.ndarray
    centre: np.ndarray
    root: np.ndarray


def has_rows(problem: Problem) -> bool:
    """Whether the problem has its data: one read from a file has none."""
    return problem.data.glm.rows > 0


def _fitted(problem: Problem, work: GlmWork, columns: np.ndarray) -> float:
    """Log marginal likelihood of the model with these columns, by the rules of the samplers; the fit is in ``work``.

    A fit ends as soon as the likelihood is good enough for the samplers. Fits that start at the last one's end bring
    the estimate to more digits, and the information to the estimate.
    Under a prior that survives separation the mode of the posterior stands for the estimate, which need not exist.
    """
    data = problem.data
    if len(columns) and columns_resid(data, columns) < 0.0:
        return -np.inf
    size = data.base + len(columns)
    value = float(fit_columns(data.glm, work, columns, data.coef_prior, data.n))
    if not np.isfinite(value) or problem.family.custom:
        return value
    if problem.coef_prior.survives_separation and not problem.family.bounded:
        return value if fit_mode_columns(data.glm, work, columns) else -np.inf
    for _ in range(_MOST_FITS):
        before = work.beta[:size].copy()
        value = float(fit_columns(data.glm, work, columns, data.coef_prior, data.n))
        if not np.isfinite(value):
            break
        move = _lower(work, size).T @ (work.beta[:size] - before)
        if move @ move < _SETTLED**2:
            break
    return value


def _lower(work: GlmWork, size: int) -> np.ndarray:
    """Cholesky factor of the information of the last fit."""
    lower = np.tril(work.hessian[:size, :size])
    np.fill_diagonal(lower, 1.0 / np.diag(lower))
    return np.asarray(lower)


def log_marginal_of(problem: Problem, columns: np.ndarray) -> float:
    """log p(y|M) - log p(y|base) of the model with these candidate columns; minus infinity without an estimate."""
    return _fitted(problem, new_glm_work(problem.data.glm, len(columns)), columns)


def laplace_fits(problem: Problem, models: Sequence[np.ndarray]) -> LaplaceFits:
    """Fit the models with these candidate columns."""
    data, base = problem.data, problem.data.base
    work = new_glm_work(data.glm, max((len(columns) for columns in models), default=0))
    count = len(models)
    log_marginal, wald, shape = np.full(count, -np.inf), np.zeros(count), np.ones(count)
    coef, factor = [np.zeros(0)], [np.zeros(0)]
    for i, columns in enumerate(models):
        size = base + len(columns)
        log_marginal[i] = _fitted(problem, work, columns)
        if not np.isfinite(log_marginal[i]):
            coef.append(np.zeros(size))
            factor.append(np.zeros(size * (size + 1) // 2))
            continue
        wald[i], shape[i] = work.scalars["wald"], work.scalars["shape"]
        coef.append(work.beta[:size].copy())
        factor.append(np.sqrt(shape[i]) * _lower(work, size)[np.tril_indices(size)])
    sizes = np.array([base + len(columns) for columns in models], dtype=np.int64)
    return LaplaceFits(log_marginal, wald, shape, sizes, np.concatenate(coef), np.concatenate(factor))


def picked_fits(parts: Sequence[LaplaceFits], rows: np.ndarray) -> LaplaceFits:
    """The fits of the models of these numbers, in this order, of several lists taken as one."""
    whole = LaplaceFits(*(np.concatenate(field) for field in zip(*parts, strict=True)))
    triangle = whole.size * (whole.size + 1) // 2
    return LaplaceFits(
        whole.log_marginal[rows],
        whole.wald[rows],
        whole.shape[rows],
        whole.size[rows],
        _pieces(whole.coef, whole.size, rows),
        _pieces(whole.factor, triangle, rows),
    )


def _pieces(values: np.ndarray, sizes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Pieces of these sizes, some of them in an order."""
    ends = np.cumsum(sizes)
    parts = [values[ends[i] - sizes[i] : ends[i]] for i in rows]
    return np.concatenate([values[:0], *parts])


@entry
def unpack_fit(triangle, coef, centre, root):
    """Centre ``L' coef`` and root ``L'^-1`` from the lower triangle of L; ``root`` starts at zero.

    Written out because calls of LAPACK on thousands of small matrices spend their time waking threads.
    """
    size = len(coef)
    for j in range(size):
        t = 0.0
        for i in range(j, size):
            t += triangle[i * (i + 1) // 2 + j] * coef[i]
        centre[j] = t
        root[j, j] = 1.0 / triangle[j * (j + 1) // 2 + j]
        for i in range(j + 1, size):
            row = i * (i + 1) // 2
            t = 0.0
            for m in range(j, i):
                t -= triangle[row + m] * root[j, m]
            root[j, i] = t / triangle[row + i]


def unpacked_fits(fits: LaplaceFits, models: Sequence[np.ndarray]) -> Iterator[LaplaceFit]:
    """The fits one by one, given the candidate columns of each model."""
    at = corner = 0
    for size, columns in zip(fits.size.tolist(), models, strict=True):
        triangle = size * (size + 1) // 2
        fit = LaplaceFit(columns, np.zeros(size), np.zeros((size, size)))
        unpack_fit(fits.factor[corner : corner + triangle], fits.coef[at : at + size], fit.centre, fit.root)
        yield fit
        at, corner = at + size, corner + triangle
