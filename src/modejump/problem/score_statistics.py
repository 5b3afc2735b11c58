"""Which columns look like the response: the statistic of each alone beside the base model, for very many columns."""

from __future__ import annotations

import numpy as np

from modejump.data.bits import BitColumns
from modejump.likelihoods import Family
from modejump.likelihoods.family import Table
from modejump.likelihoods.glm.newton import Glm
from modejump.priors.coefficients import BIC
from modejump.priors.models import UniformPrior

# Columns of which less than this share of their squared length is their own are copies of the base.
_OWN_SHARE = 1e-10


def marginal_statistics(
    columns: np.ndarray | BitColumns,
    y: np.ndarray,
    family: Family,
    fixed: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    offset: np.ndarray | None = None,
) -> np.ndarray:
    """Score statistic of each column alone, beside an intercept and the columns always in.

    It is chi-squared with one degree of freedom where the column has no effect, and the marginal Bayes factor of a
    column rises with it whatever the coefficient prior. Residuals are those of the base model's fit; their variance is
    taken to be the same in all rows, up to the weights, which does for an order of the columns.

    Parameters
    ----------
    columns : ndarray of shape (m, n), or BitColumns
        The columns.
    y : ndarray of shape (n,)
        Response.
    family : Family
        Its family.
    fixed : ndarray of shape (n, k), optional
        Columns always in.
    weights, offset : ndarray of shape (n,), optional
        Case weights, and the known part of the linear predictor.

    Returns
    -------
    ndarray of shape (m,)
        Zero for columns that the base explains.
    """
    w = np.ones(len(y)) if weights is None else weights
    base = np.hstack([np.ones((len(y), 1)), np.zeros((len(y), 0)) if fixed is None else fixed])
    residual = w * (y - _fitted(y, family, base, w, offset))
    basis = np.linalg.qr(base * np.sqrt(w)[:, None])[0] * np.sqrt(w)[:, None]
    if isinstance(columns, BitColumns):
        score, own = columns.sums(residual), columns.sums(w)
        shared = [columns.sums(b) for b in basis.T]
    else:
        score, own = columns @ residual, (columns * columns) @ w
        shared = [columns @ b for b in basis.T]
    left = own - np.sum(np.square(shared), axis=0)
    spread = float((residual**2 / np.where(w > 0, w, 1.0)).sum() / max(w.sum() - base.shape[1], 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = score**2 / (left * spread)
    return np.where((left > _OWN_SHARE * np.maximum(own, 1e-300)) & np.isfinite(found), found, 0.0)


def _fitted(y: np.ndarray, family: Family, base: np.ndarray, w: np.ndarray, offset: np.ndarray | None) -> np.ndarray:
    """Means of the base model."""
    if family.custom or family.conjugate:
        root = np.sqrt(w)
        return np.asarray(base @ np.linalg.lstsq(base * root[:, None], y * root, rcond=None)[0])
    known = np.zeros(len(y)) if offset is None else offset
    none = np.zeros((len(y), 0))
    table = Table((), (), np.zeros(1, np.int64), y, w, base, none, np.eye(0), 0, UniformPrior().compile(0), known)
    n = float(w.sum())
    _, model = family.bind(table, BIC().compile(n, 1.0), n)
    assert isinstance(model, Glm)
    return family.mean(model.base.T @ model.start + known)
