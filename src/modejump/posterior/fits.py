"""The models that stand for the posterior in prediction, and the fit behind each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from modejump.core.compilation import entry
from modejump.core.errors import InputError
from modejump.kernels.evaluate import columns_resid
from modejump.likelihoods.gaussian.marginal import log_marginal
from modejump.posterior.prediction.laplace import LaplaceFits, has_rows, laplace_fits, log_marginal_of, picked_fits
from modejump.problem.fingerprint import is_unchanged
from modejump.problem.problem import Problem
from modejump.samplers.result import Result, members_of

# Prediction averages over the leading models that hold this share of the posterior ...
MASS = 0.999
# ... and over at most this many models.
MAX_MODELS = 2000


class KeptModels(NamedTuple):
    """Models that stand for the posterior."""

    words: np.ndarray  # (m, W): the models as bit sets
    weight: np.ndarray  # (m,): their weights; the sum is one
    # (m,): residual share RSS(M)/RSS(base) of each; -1 where the design is rank deficient. Empty for generalised
    # linear models.
    resid: np.ndarray
    mass: float  # posterior mass that these models stand for
    fits: LaplaceFits | None = None  # fits of generalised linear models

    @property
    def estimated(self) -> np.ndarray:
        """Which of the models can be estimated."""
        return self.resid >= 0.0 if self.fits is None else np.isfinite(self.fits.log_marginal)


class Fit(NamedTuple):
    """Least-squares fit of one model in standardised columns.

    ``root @ root.T`` is the inverse of the model's Gram matrix, so ``|z @ root|^2`` is a row's leverage.
    """

    columns: np.ndarray
    coef: np.ndarray
    root: np.ndarray


def model_probabilities(result: Result) -> np.ndarray:
    """Valid estimate of each kept model's probability: exact after enumeration, otherwise by frequency.

    After a search among features that does not sample, and without any sampling step (a run stopped in warm-up),
    the probabilities are renormalised over what was evaluated.
    """
    if result.counted:
        return result.models.visits / result.steps
    return renormalised_models(result)


def renormalised_models(result: Result) -> np.ndarray:
    """Probability of each kept model over the models evaluated."""
    value = result.models.log_posterior
    if len(value) < result.n_models:
        return np.exp(value - result.log_evidence)
    # The logarithm of their sum would lose the digits that large log posteriors have no room for.
    share = np.exp(value - value.max(initial=-np.inf))
    return share / share.sum()


def model_weights(result: Result) -> np.ndarray:
    """Weight of each kept model in averages over the posterior: its share of the draws where there are any, otherwise
    its probability; 0 where it cannot be estimated."""
    draws = result.models.draws
    probability = draws / draws.sum() if draws.any() else model_probabilities(result)
    if not probability.sum() > 0.0:
        # Every visit went to models that the table had no room for: those it has are compared by their posterior.
        probability = renormalised_models(result)
    return np.where(np.isfinite(result.models.log_posterior), probability, 0.0)


def keep_models(problem: Problem, result: Result, max_models: int = MAX_MODELS, mass: float = MASS) -> KeptModels:
    """Choose the models to average over: the leading ones that hold ``mass``, with weights renormalised.

    After an enumeration of up to ``max_models`` models, all but a trillionth of the mass is kept.

    Where more than ``max_models`` would be needed, half of the places go to the leading models, and the other
    half to a systematic sample of the rest, each carrying the same share of the rest's mass. So a posterior
    spread over very many models is thinned, not cut off: what is left out is represented by its neighbours in
    the list. So are draws from chains whose posterior is spread over more models than the table holds.
    """
    probability = model_weights(result)
    order = np.argsort(-probability, kind="stable")
    order = order[probability[order] > 0.0]
    if len(order) == 0:
        raise InputError("no model with positive probability was found, so there is nothing to predict from.")
    held = np.cumsum(probability[order])
    if result.exact and len(order) <= max_models:
        # Few enough to keep nearly all, so that averages agree with inclusion probabilities.
        mass = max(mass, 1.0 - 1e-12)
    needed = min(int(np.searchsorted(held, mass)) + 1, len(order))
    if needed <= max_models:
        rows, weight, share = order[:needed], probability[order[:needed]], held[needed - 1]
    else:
        lead = max_models // 2
        tail, count = _systematic(probability[order[lead:]], max_models - lead)
        rest = held[-1] - held[lead - 1] if lead else held[-1]
        rows = np.concatenate([order[:lead], order[lead:][tail]])
        weight = np.concatenate([probability[order[:lead]], rest * count / count.sum()])
        share = held[-1]
    kept = _measured(problem, np.ascontiguousarray(result.models.words[rows]), weight, float(min(share, 1.0)))
    return _with_estimates(kept)


def _measured(problem: Problem, words: np.ndarray, weight: np.ndarray, mass: float) -> KeptModels:
    """Models with what their fits leave of the response, or with the fits themselves."""
    members = [members_of(row) for row in words]
    if problem.family.conjugate:
        return KeptModels(words, weight, residual_shares(problem, members), mass)
    return KeptModels(words, weight, np.zeros(0), mass, generalised_fits(problem, members))


def _with_estimates(models: KeptModels) -> KeptModels:
    """The models that can be estimated; their weights sum to one again."""
    able = models.estimated
    if not able.any():
        raise InputError("no model with positive probability can be estimated, so there is nothing to predict from.")
    return chosen_models(models, np.flatnonzero(able), models.weight[able] / models.weight[able].sum(), models.mass)


def chosen_models(pool: KeptModels, rows: np.ndarray, weight: np.ndarray, mass: float) -> KeptModels:
    """Some of the models of a list, with other weights."""
    return KeptModels(
        np.ascontiguousarray(pool.words[rows]),
        weight,
        pool.resid[rows] if pool.fits is None else pool.resid,
        mass,
        None if pool.fits is None else picked_fits([pool.fits], rows),
    )


def _systematic(probability: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows drawn at equal steps of the cumulative probability, and how often each was hit."""
    held = np.cumsum(probability)
    marks = (np.arange(size) + 0.5) * (held[-1] / size)
    return np.unique(np.minimum(np.searchsorted(held, marks), len(held) - 1), return_counts=True)


def single_model(problem: Problem, members: Sequence[int]) -> KeptModels:
    """One model with all the weight, for predictions of the best or the median probability model."""
    words = np.zeros((1, max(1, -(-problem.n_terms // 64))), np.uint64)
    for j in members:
        words[0, j // 64] |= np.uint64(1) << np.uint64(j % 64)
    return _measured(problem, words, np.ones(1), float("nan"))


def model_columns(problem: Problem, members: Sequence[int]) -> np.ndarray:
    """Candidate columns of the terms of a model, ascending."""
    first = problem.data.first
    parts = [np.arange(first[t], first[t + 1]) for t in sorted(members)]
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)


def _check_known(problem: Problem, columns: np.ndarray) -> None:
    """Refuse models whose products nobody knows.

    A saved run of very many columns keeps the products of some of them only, and merged runs those within each; the
    others are NaN.
    """
    if np.isnan(problem.data.gram[np.ix_(columns, columns)]).any():
        terms = np.unique(np.searchsorted(problem.data.first, columns, side="right") - 1)
        names = ", ".join(problem.names[t] for t in terms)
        raise InputError(
            f"the saved run does not hold what the model {{{names}}} needs, because its leading models lack "
            "some of these terms; fit again to evaluate it."
        )


def residual_shares(problem: Problem, models: Sequence[Sequence[int]]) -> np.ndarray:
    """``RSS(M)/RSS(base)`` by the canonical evaluation, -1.0 where a design is rank deficient."""
    out = np.empty(len(models))
    for i, members in enumerate(models):
        columns = model_columns(problem, members)
        _check_known(problem, columns)
        out[i] = columns_resid(problem.data, columns)
    return out


def generalised_fits(problem: Problem, models: Sequence[Sequence[int]]) -> LaplaceFits:
    """Fits of generalised linear models."""
    if problem.family.custom:
        raise InputError(
            "a likelihood of your own says nothing about coefficients and new responses, so it cannot predict; for "
            "that choose a family by name."
        )
    _check_rows(problem, models[0])
    return laplace_fits(problem, [model_columns(problem, members) for members in models])


def marginal_of_members(problem: Problem, members: Sequence[int], known: float | None = None) -> float:
    """log p(y|M) - log p(y|base) of one model; its residual share, or the value itself, may be known already."""
    columns = model_columns(problem, members)
    if not problem.family.conjugate:
        if known is None and len(members):
            _check_rows(problem, members)
            known = log_marginal_of(problem, columns)
        return 0.0 if known is None else known
    resid = float(residual_shares(problem, [members])[0]) if known is None else known
    data = problem.data
    return float(log_marginal(data.coef_prior, data.n, data.base, len(columns), resid))


def _check_rows(problem: Problem, members: Sequence[int]) -> None:
    """A saved run has no rows to fit to."""
    names = ", ".join(problem.names[t] for t in members)
    if problem.family.custom and not has_rows(problem):
        raise InputError(
            f"the saved run holds no functions, and the model {{{names}}} is none of the models stored with it; fit "
            "again to evaluate it."
        )
    if not has_rows(problem):
        raise InputError(
            f"the saved run holds no rows, which the model {{{names}}} needs, because it is not one of those kept for "
            "prediction; fit again to evaluate it."
        )
    if not is_unchanged(problem):
        raise InputError(
            f"the table was changed after the fit, which did not copy it, and the model {{{names}}} needs its rows; "
            "fit again to evaluate it."
        )


@entry
def invert_root(gram, corr, cols, coef, root):
    """Inverse Cholesky factor, transposed, of the Gram matrix of ``cols``, and the coefficients.

    ``root`` starts at zero. Written out because calls of LAPACK on thousands of small matrices spend their
    time waking threads.
    """
    k = len(cols)
    lower = np.zeros((k, k))
    for i in range(k):
        for j in range(i + 1):
            t = gram[cols[i], cols[j]]
            for m in range(j):
                t -= lower[i, m] * lower[j, m]
            lower[i, j] = np.sqrt(t) if i == j else t / lower[j, j]
    for j in range(k):
        root[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, k):
            t = 0.0
            for m in range(j, i):
                t -= lower[i, m] * root[j, m]
            root[j, i] = t / lower[i, i]
    coef[:] = 0.0
    for i in range(k):
        t = 0.0
        for j in range(i + 1):
            t += root[j, i] * corr[cols[j]]
        for j in range(i + 1):
            coef[j] += root[j, i] * t


def fit_model(problem: Problem, columns: np.ndarray) -> Fit:
    """Standardised coefficients of a model of full rank, by its columns, and the root of its inverse Gram matrix."""
    _check_known(problem, columns)
    k = len(columns)
    fit = Fit(columns, np.zeros(k), np.zeros((k, k)))
    invert_root(problem.data.gram, problem.data.corr, columns, fit.coef, fit.root)
    return fit
