"""Which columns look like the response: the statistic of each alone beside the base model, for very many columns."""

from __future__ import annotations

import numpy as np

from modejump.core.progress import Report
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

    It is zero for columns that the base explains. An array has one column in each line.
    """
    w, residual, base, spread = _null(y, family, fixed, weights, offset)
    basis = np.linalg.qr(base * np.sqrt(w)[:, None])[0] * np.sqrt(w)[:, None]
    if isinstance(columns, BitColumns):
        score, own = columns.sums(residual), columns.sums(w)
        shared = [columns.sums(b) for b in basis.T]
    else:
        score, own = columns @ residual, (columns * columns) @ w
        shared = [columns @ b for b in basis.T]
    return _statistic(score, own - np.sum(np.square(shared), axis=0), own, spread)


def subgroup_statistics(
    columns: BitColumns,
    leaders: np.ndarray,
    y: np.ndarray,
    family: Family,
    fixed: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    offset: np.ndarray | None = None,
    *,
    report: Report | None = None,
) -> np.ndarray:
    """The largest score statistic of each column among the rows where a leading column is 1, and where it is 0.

    A leaf of an interaction may have hardly any effect of its own, but one in such a subgroup.
    """
    w, residual, _, spread = _null(y, family, fixed, weights, offset)
    every = columns.sums(residual), columns.sums(w)
    best = np.zeros(len(columns))
    for done, leader in enumerate(leaders.tolist(), start=1):
        inside = columns.unpack(leader).astype(np.float64)
        some = columns.sums(residual * inside), columns.sums(w * inside)
        for group, (score, own) in ((inside, some), (1.0 - inside, (every[0] - some[0], every[1] - some[1]))):
            total, size = float(residual @ group), float(w @ group)
            found = _statistic(score - total * own / size, own - own**2 / size, own, spread)
            found[leader] = 0.0
            best = np.maximum(best, found)
        if report is not None:
            report(done, len(leaders), "screening interactions")
    return best


def _null(
    y: np.ndarray, family: Family, fixed: np.ndarray | None, weights: np.ndarray | None, offset: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Weights, weighted residuals of the base model, its columns, and the residuals' variance."""
    w = np.ones(len(y)) if weights is None else weights
    base = np.hstack([np.ones((len(y), 1)), np.zeros((len(y), 0)) if fixed is None else fixed])
    residual = w * (y - _fitted(y, family, base, w, offset))
    spread = float((residual**2 / np.where(w > 0, w, 1.0)).sum() / max(w.sum() - base.shape[1], 1.0))
    return w, residual, base, spread


def _statistic(score: np.ndarray, left: np.ndarray, own: np.ndarray, spread: float) -> np.ndarray:
    """Squared scores over their variances; zero where nothing is left of a column."""
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
