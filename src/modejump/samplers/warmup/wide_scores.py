"""Scores of all columns of a wide table given some models: which are worth a place in the library, and inclusion
probabilities by Rao and Blackwell.

Given a model, the posterior odds of adding each column follow from products of the columns with those of the model and
with the response: one pass over the table in blocks, for many models at once. For Gaussian responses the odds are
exact; for others they are those of the score test at the model's fit, which is good enough to propose from, and the
samplers correct for what it misses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from modejump.core.threads import ThreadPool, one_blas_thread
from modejump.features.covariates.language import Screened
from modejump.kernels.column_scores import score_columns
from modejump.likelihoods.columns import fit_columns
from modejump.likelihoods.gaussian.marginal import log_marginal_fast
from modejump.likelihoods.gaussian.tables import tabulated
from modejump.likelihoods.glm.newton import new_glm_work
from modejump.problem.wide_problem import WideProblem

# Columns outside the library that are tried more often than others.
LISTED = 20_000
# Columns whose correlated columns are looked for, how many of each, and how correlated they are at least.
LEADING = 64
NEIGHBOURS = 8
LEAST_CORRELATION = 0.3

# Columns of a model.
Model = tuple[int, ...]


class _Gaussian(NamedTuple):
    """What `score_columns` needs of some models."""

    prior: Any
    directions: np.ndarray  # float64 (u + 1, n): the models' columns and the response, times the roots of the weights
    first: np.ndarray
    member: np.ndarray
    inverse: np.ndarray
    loading: np.ndarray
    resid: np.ndarray
    log_prior: np.ndarray

    @classmethod
    def of(cls, problem: WideProblem, models: Sequence[Model]) -> _Gaussian:
        union = np.array(sorted({j for model in models for j in model}), np.int64)
        z, y = problem.standardised(union), problem.response[0]
        most = max((len(model) for model in models), default=0)
        first = np.concatenate([[0], np.cumsum([len(model) for model in models])]).astype(np.int64)
        member = np.searchsorted(union, [j for model in models for j in model]).astype(np.int64)
        inverse, loading = np.zeros((len(models), most, most)), np.zeros((len(models), most))
        resid = np.ones(len(models))
        for d, model in enumerate(models):
            k = len(model)
            q, r = np.linalg.qr(z[:, member[first[d] : first[d + 1]]])
            inverse[d, :k, :k], loading[d, :k] = np.linalg.inv(r), q.T @ y
            left = y - q @ loading[d, :k]
            resid[d] = left @ left
        prior = tabulated(problem.coef_prior, problem.n, len(problem.basis), problem.base_rss, most + 1)
        directions = np.ascontiguousarray(np.column_stack([z, y]).T * problem.root_weight)
        return cls(prior, directions, first, member, inverse, loading, resid, _log_prior(problem, models))

    def scores(self, problem: WideProblem, some: slice) -> np.ndarray:
        """Log odds of a block of columns, one line for each model."""
        lengths = problem.lengths[some]
        products = self.directions @ np.asarray(problem.x[some], dtype=np.float64).T
        # A column of which the base leaves nothing adds nothing to any model.
        with np.errstate(divide="ignore", invalid="ignore"):
            products = np.where(lengths > 0.0, products / lengths, 0.0)
        odds = np.empty((len(self.resid), len(lengths)))
        score_columns(
            self.prior, problem.n, len(problem.basis), products, self.first, self.member, self.inverse, self.loading,
            self.resid, self.log_prior, odds,
        )  # fmt: skip
        odds[:, lengths == 0.0] = -np.inf
        return odds

    def members(self, problem: WideProblem, model: int) -> np.ndarray:
        """Log odds of each member of a model, given the others."""
        k, base = int(self.first[model + 1] - self.first[model]), len(problem.basis)
        inverse, resid = self.inverse[model, :k, :k], float(self.resid[model])
        # Without a column the residual grows by its squared coefficient over its part of the inverse Gram matrix.
        without = resid + (inverse @ self.loading[model, :k]) ** 2 / (inverse**2).sum(axis=1)
        value = [
            log_marginal_fast(self.prior, problem.n, base, m, s)
            for m, s in ((k, resid), *((k - 1, s) for s in without))
        ]
        return value[0] - np.array(value[1:]) + _log_prior_step(problem, k)


class _Generalised(NamedTuple):
    """The score test at the fits of some models of a generalised linear model."""

    score: np.ndarray  # float64 (D, n): derivative of the log likelihood by the linear predictor of each row
    information: np.ndarray  # float64 (D, n)
    basis: list[np.ndarray]  # (columns, n): what the model has, orthonormal in the metric of the information
    wald: list[np.ndarray]  # (k,): statistic of each member
    log_prior: np.ndarray

    @classmethod
    def of(cls, problem: WideProblem, models: Sequence[Model]) -> _Generalised:
        fits = [_fit(problem, model) for model in models]
        return cls(
            np.array([fit[0] for fit in fits]), np.array([fit[1] for fit in fits]), [fit[2] for fit in fits],
            [fit[3] for fit in fits], _log_prior(problem, models),
        )  # fmt: skip

    def scores(self, problem: WideProblem, some: slice) -> np.ndarray:
        """Log odds of a block of columns, one line for each model."""
        block = np.asarray(problem.x[some], dtype=np.float64).T
        score = self.score @ block
        left = self.information @ (block * block)
        total = left.copy()
        for d, basis in enumerate(self.basis):
            left[d] -= ((basis @ block) ** 2).sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = np.where(left > 1e-8 * total, score**2 / left, -np.inf)
        odds = _unit_information(statistic, problem.n) + self.log_prior[:, None]
        odds[:, problem.lengths[some] == 0.0] = -np.inf
        return np.asarray(odds)

    def members(self, problem: WideProblem, model: int) -> np.ndarray:
        """Log odds of each member of a model, given the others, by Wald's test."""
        wald = self.wald[model]
        return _unit_information(wald, problem.n) + _log_prior_step(problem, len(wald))


def _unit_information(statistic: np.ndarray, n: float) -> np.ndarray:
    """Log Bayes factor of a column from a test's statistic, under the unit information prior."""
    return np.asarray(0.5 * statistic * n / (1.0 + n) - 0.5 * np.log1p(n))


def _log_prior_step(problem: WideProblem, size: int) -> float:
    """Log prior ratio of a model of this size to one of a column less."""
    by_size = problem.log_sizes()
    return float(by_size[size] - by_size[size - 1]) if size else 0.0


def _fit(problem: WideProblem, model: Model) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Score and information of the rows at a model's fit, its columns in their metric, and Wald's statistics."""
    columns = np.ascontiguousarray(problem.standardised(list(model)).T)
    glm: Any = problem.glm(columns)
    work = new_glm_work(glm, max(len(model), 1))
    fit_columns(
        glm, work, np.arange(len(model), dtype=np.int64), problem.coef_prior.compile(problem.n, problem.base_rss),
        problem.n,
    )  # fmt: skip
    plain = columns if not len(glm.unroot) else columns * glm.unroot
    design = np.vstack([glm.base, plain])
    predictor = work.beta[: len(design)] @ design + glm.offset
    family: Any = problem.family
    step = 1e-5
    mean = family.mean(predictor)
    slope = (family.mean(predictor + step) - family.mean(predictor - step)) / (2.0 * step)
    shape = np.full(len(mean), float(work.scalars["shape"]))
    if family.response == "class":
        variance = mean * (1.0 - mean)
    else:
        variance = np.asarray(family.noise(mean, mean**2, shape))
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.nan_to_num(glm.weight * (problem.y - mean) * slope / variance)
        information = np.nan_to_num(glm.weight * slope**2 / variance)
    root = np.sqrt(information)
    q, r = np.linalg.qr((design * root).T)
    k = len(model)
    variance = (np.linalg.pinv(r)[len(design) - k :] ** 2).sum(axis=1)
    return score, information, q.T * root, work.beta[len(design) - k : len(design)] ** 2 / variance


def _log_prior(problem: WideProblem, models: Sequence[Model]) -> np.ndarray:
    """Log prior ratio of one more column; minus infinity where no model is so large."""
    by_size = np.append(problem.log_sizes(), -np.inf)
    return np.array([by_size[len(model) + 1] - by_size[len(model)] for model in models])


def _scorer(problem: WideProblem, models: Sequence[Model]) -> _Gaussian | _Generalised:
    return (_Gaussian if problem.family.conjugate else _Generalised).of(problem, models)


def sweep(
    problem: WideProblem,
    scorer: _Gaussian | _Generalised,
    pool: ThreadPool,
    summarise: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """One pass over the table: log odds of every column given each model, summarised block by block.

    Parameters
    ----------
    problem : WideProblem
        The target.
    scorer : object
        What is known of the models.
    pool : ThreadPool
        Threads that share the blocks.
    summarise : callable
        From log odds of shape (models, columns of a block) to an array whose last axis is that of the columns.
    """
    parts = pool.map(lambda some: summarise(scorer.scores(problem, some)), problem.blocks())
    return np.concatenate(parts, axis=-1)


def log_odds(problem: WideProblem, models: Sequence[Model], pool: ThreadPool) -> np.ndarray:
    """Log odds of every column given each model: shape (models, columns)."""
    with one_blas_thread():
        return sweep(problem, _scorer(problem, models), pool, lambda scores: scores)


def worth(problem: WideProblem, models: Sequence[Model], pool: ThreadPool) -> np.ndarray:
    """What each column is worth, between 0 and 1, by all that some models say.

    Given a model, a column outside of it is worth its conditional inclusion probability, or the probability that it
    takes the place of a member, where that is larger; a member its own conditional inclusion probability. The mean over
    the models.
    """
    lines = [line for model in models for line in (model, *(tuple(j for j in model if j != i) for i in model))]
    starts = np.concatenate([[0], np.cumsum([1 + len(model) for model in models])])
    # One thread of the linear algebra for each block: sums are the same for any number of workers.
    with one_blas_thread():
        scorer = _scorer(problem, lines)
        odds = [scorer.members(problem, int(start)) for start in starts[:-1]]

        def summarise(scores: np.ndarray) -> np.ndarray:
            total = np.zeros(scores.shape[1])
            for d, own in enumerate(odds):
                block = scores[starts[d] : starts[d + 1]]
                # Against nothing, and against the member whose place it would take.
                rivals = np.concatenate([[0.0], np.logaddexp(0.0, own)])
                total += expit((block - rivals[:, None]).max(axis=0))
            return total / len(odds)

        found = sweep(problem, scorer, pool, summarise)
    inside: dict[int, float] = {}
    for model, own in zip(models, odds, strict=True):
        for j, share in zip(model, expit(own), strict=True):
            inside[j] = inside.get(j, 0.0) + float(share) / len(models)
    for j, share in inside.items():
        # A member is scored as a column that takes its own place, which is worth less.
        found[j] = max(share, found[j])
    return found


def rao_blackwell(problem: WideProblem, drawn: Sequence[tuple[Model, float]], pool: ThreadPool) -> np.ndarray:
    """Inclusion probability of every column, as the mean of its conditional ones given the rest of models drawn.

    Parameters
    ----------
    problem : WideProblem
        The target, with a Gaussian response.
    drawn : sequence of pairs
        Models drawn from the posterior, by columns, and their weights, which sum to one.
    pool : ThreadPool
        Threads that share the work.
    """
    weight = np.array([w for _, w in drawn])
    with one_blas_thread():
        scorer = _scorer(problem, [model for model, _ in drawn])
        found = sweep(problem, scorer, pool, lambda scores: weight @ expit(scores))
        for d, (model, w) in enumerate(drawn):
            found[list(model)] += w * expit(scorer.members(problem, d))
    return found


def screened(problem: WideProblem, weight: np.ndarray, library: np.ndarray, pool: ThreadPool) -> Screened:
    """What is tried besides the library: columns by what they are worth, and columns correlated with leading ones."""
    rest = weight.copy()
    rest[library] = 0.0
    count = min(LISTED, int((rest > 0.0).sum()))
    listed = np.argpartition(-rest, count - 1)[:count] if count else np.zeros(0, np.int64)
    listed = np.sort(listed).astype(np.int64)
    leading = library[np.argsort(-weight[library], kind="stable")][:LEADING]
    return Screened(listed, rest[listed], _correlated(problem, leading, pool))


def _correlated(problem: WideProblem, leading: np.ndarray, pool: ThreadPool) -> np.ndarray:
    """Pairs of a leading column and one of those most correlated with it."""
    directions = problem.standardised(leading).T * problem.root_weight

    def best(some: slice) -> tuple[np.ndarray, np.ndarray]:
        lengths = problem.lengths[some]
        products = np.abs(directions @ np.asarray(problem.x[some], dtype=np.float64).T)
        with np.errstate(divide="ignore", invalid="ignore"):
            r = np.where(lengths > 0.0, products / lengths, 0.0)
        for i, j in enumerate(leading):
            if some.start <= j < some.stop:
                r[i, j - some.start] = 0.0
        few = min(NEIGHBOURS, r.shape[1])
        top = np.argpartition(-r, few - 1, axis=1)[:, :few]
        return np.take_along_axis(r, top, axis=1), top + some.start

    with one_blas_thread():
        parts = pool.map(best, problem.blocks())
    r, column = (np.concatenate([part[i] for part in parts], axis=1) for i in (0, 1))
    order = np.argsort(-r, axis=1, kind="stable")[:, :NEIGHBOURS]
    pairs = [
        (int(leading[i]), int(column[i, at]))
        for i in range(len(leading))
        for at in order[i]
        if r[i, at] >= LEAST_CORRELATION
    ]
    return np.array(pairs, np.int64).reshape(-1, 2)
