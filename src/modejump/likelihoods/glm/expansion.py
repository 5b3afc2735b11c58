"""The quadratic expansion of a generalised linear model's log likelihood at a fit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from modejump.core.compilation import entry
from modejump.likelihoods.columns import fit_columns
from modejump.likelihoods.glm.newton import BLOCK, Glm, GlmWork, has_estimate, load_with_predictor, new_glm_work
from modejump.likelihoods.glm.rows import score_rows

# Rows whose information is below this share of the largest say nothing about the scale.
_LEAST = 1e-12
# Columns whose weighted length is below this share of the longest are left out.
_SHORT = 1e-7
_ROWS = 16_384


class Expansion(NamedTuple):
    """Weighted Gram matrix of the columns, their products with the working response, and its squared length."""

    gram: np.ndarray  # float64 (p, p): of unit diagonal, the base projected out
    corr: np.ndarray  # float64 (p,)
    total: float


@entry
def _expand_rows(glm, work, cols, predictor, score, info):
    """Linear predictor without offset, score and information of all rows at the coefficients of the last fit."""
    n = len(glm.y)
    for first in range(0, n, BLOCK):
        m = min(BLOCK, n - first)
        load_with_predictor(glm, work, cols, len(cols), first, m)
        score_rows(glm, work, first, m)
        for r in range(m):
            predictor[first + r] = work.eta[r] - glm.offset[first + r]
            score[first + r] = work.score[r]
            info[first + r] = work.info[r]


class Rows(NamedTuple):
    """Linear predictor without offset, score and information of all rows."""

    predictor: np.ndarray
    score: np.ndarray
    info: np.ndarray


def rows_of_last_fit(glm: Glm, work: GlmWork, cols: np.ndarray) -> Rows:
    """The rows at the end of a fit."""
    rows = Rows(*(np.empty(len(glm.y)) for _ in range(3)))
    _expand_rows(glm, work, cols, *rows)
    return rows


def expand(glm: Glm, cols: np.ndarray, prior: Any, n: float) -> Expansion | None:
    """The expansion at the fit of the model with these columns; None where that has no fit."""
    work = new_glm_work(glm, max(1, len(cols)))
    if not (np.isfinite(fit_columns(glm, work, cols, prior, n)) and has_estimate(work)):
        return None
    predictor, score, info = rows_of_last_fit(glm, work, cols)
    target = info * predictor + score
    p, b = glm.candidates, len(glm.base)
    gram, corr = np.zeros((p + b, p + b)), np.zeros(p + b)
    for start in range(0, len(glm.y), _ROWS):
        part = slice(start, start + _ROWS)
        both = np.vstack([glm.base[:, part], glm.candidate_rows(part)])
        gram += (both * info[part]) @ both.T
        corr += both @ target[part]
    told = info > _LEAST * info.max()
    total = float((target[told] ** 2 / info[told]).sum())
    if b:
        away = np.linalg.solve(gram[:b, :b], np.column_stack([gram[:b, b:], corr[:b]]))
        total -= float(corr[:b] @ away[:, -1])
        corr = corr - gram[:, :b] @ away[:, -1]
        gram = gram[b:, b:] - gram[b:, :b] @ away[:, :-1]
        corr = corr[b:]
    return _standardised(gram, corr, total, float(work.scalars["shape"]))


def _standardised(gram: np.ndarray, corr: np.ndarray, total: float, shape: float) -> Expansion | None:
    """Columns and response of unit length."""
    length = np.sqrt(np.maximum(np.diag(gram), 0.0))
    alive = length > _SHORT * length.max(initial=0.0)
    if not (np.isfinite(gram).all() and total > 0.0 and alive.any()):
        return None
    scale = np.where(alive, length, np.inf)
    gram = gram / np.outer(scale, scale)
    gram = 0.5 * (gram + gram.T)
    np.fill_diagonal(gram, np.where(alive, 1.0, 0.0))
    return Expansion(np.ascontiguousarray(gram), corr / scale / np.sqrt(total), shape * total)
