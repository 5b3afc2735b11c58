"""Exact posteriors over small spaces of features, by evaluating every model: what estimates are measured against."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.core.handles import Handle
from modejump.core.numbers import whole_number
from modejump.experiments.spaces import FeatureColumns, feature_columns, law_of_each
from modejump.features.expression import Expression
from modejump.kernels.evaluate import GUARD, RANK_TOLERANCE, REFINE_BELOW, RESID_FLOOR
from modejump.likelihoods.gaussian.marginal import log_marginal
from modejump.posterior.prediction.laplace import log_marginal_of
from modejump.priors.coefficients.base import floor_share
from modejump.problem.feature_problem import FeatureProblem

MOST_MODELS = 2_000_000
# Models whose columns are gathered at once.
_CHUNK = 1024

Models = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class ExactPosterior:
    """Posterior over all models of some features.

    Attributes
    ----------
    features : tuple of features
        The features that a model can have: their columns are finite and not constant.
    models : tuple of tuples of int
        The models as places in ``features``, best first.
    log_posterior : ndarray of shape (models,)
        ``log p(M) + log p(y|M) - log p(y|base)`` with p(M) up to a constant, so that the empty model has 0; -inf
        for rank-deficient models, those without residual degrees of freedom, and those without an estimate.
    law_of : tuple of features
        For each feature the simplest one with the same column up to sign and scale, and level beside an intercept.
    constants : mapping of features to ndarray
        Constants inside features.

    Examples
    --------
    >>> from modejump.features.nonlinear.space import Space
    >>> from modejump.features.nonlinear.transforms import transforms
    >>> from modejump.problem.feature_problem import feature_problem
    >>> x = np.random.default_rng(1).uniform(0.5, 3.0, (60, 2))
    >>> y = x[:, 0] * np.sin(x[:, 1])
    >>> problem = feature_problem(x, y, ["a", "b"], transforms=[transforms["sin"]], space=Space())
    >>> exact = exact_posterior(problem, problem.language.enumerate(3), size=1)
    >>> [exact.features[j].text for j in exact.models[0]], round(float(exact.probability[0]), 3)
    (['a*sin(b)'], 1.0)
    """

    features: tuple[Expression, ...]
    models: Models
    log_posterior: np.ndarray
    law_of: tuple[Expression, ...]
    constants: Mapping[Expression, np.ndarray]

    @cached_property
    def log_evidence(self) -> float:
        """Log of the sum of exp(log_posterior) over the models."""
        return float(np.logaddexp.reduce(self.log_posterior))

    @cached_property
    def probability(self) -> np.ndarray:
        """Posterior probability of each model."""
        return np.exp(self.log_posterior - self.log_evidence)

    def inclusion(self, *, laws: bool = False) -> dict[Expression, float]:
        """Posterior probability that a model has a feature, most probable first.

        Parameters
        ----------
        laws : bool
            Whether features with the same column count as one: then the keys are laws, and the probability is that
            of a model with any feature of the law.
        """
        what = sorted(set(self.law_of)) if laws else list(self.features)
        place = {f: i for i, f in enumerate(what)}
        of = np.array([place[f] for f in (self.law_of if laws else self.features)], dtype=np.int64)
        sizes = np.array([len(model) for model in self.models])
        row = np.repeat(np.arange(len(sizes)), sizes)
        member = of[np.fromiter(itertools.chain.from_iterable(self.models), np.int64, count=int(sizes.sum()))]
        # A model counts once for a law, however many spellings of it there are in the model.
        once = np.unique(row * max(len(what), 1) + member)
        row, member = np.divmod(once, max(len(what), 1))
        value = np.minimum(np.bincount(member, weights=self.probability[row], minlength=len(what)), 1.0)
        return {what[i]: float(value[i]) for i in np.argsort(-value, kind="stable")}

    def table(self) -> pd.DataFrame:
        """Laws, most probable first: ``probability``, ``complexity``, and ``aliases``, their other spellings."""
        value = self.inclusion(laws=True)
        aliases: dict[Expression, list[str]] = {law: [] for law in value}
        for feature, law in sorted(zip(self.features, self.law_of, strict=True)):
            if feature is not law:
                aliases[law].append(feature.text)
        return pd.DataFrame(
            {
                "probability": list(value.values()),
                "complexity": np.array([law.complexity for law in value], dtype=np.int64),
                "aliases": pd.Series([tuple(a) for a in aliases.values()], dtype=object).to_numpy(),
            },
            index=pd.Index([law.text for law in value], name="law", dtype=object),
        )


def exact_posterior(
    problem: FeatureProblem,
    features: Iterable[Expression],
    *,
    size: int,
    constants: Mapping[Expression, np.ndarray] | None = None,
) -> ExactPosterior:
    """Evaluate every model of at most so many of the features.

    Parameters
    ----------
    problem : FeatureProblem
        Data, space and priors.
    features : iterable of features
        Features of the problem's space, such as its language enumerates; those whose column is constant or
        not finite are dropped.
    size : int
        Largest number of features in a model, at most that of the space.
    constants : mapping of features to ndarray, optional
        Constants inside features that a search has found, where the language cannot find them itself.

    Examples
    --------
    >>> from modejump.features.nonlinear.space import Space
    >>> from modejump.features.nonlinear.transforms import transforms
    >>> from modejump.problem.feature_problem import feature_problem
    >>> x = np.random.default_rng(1).uniform(0.5, 3.0, (60, 2))
    >>> problem = feature_problem(
    ...     x, x[:, 0] * np.sin(x[:, 1]), ["a", "b"], transforms=[transforms["sin"]], space=Space()
    ... )
    >>> exact = exact_posterior(problem, problem.language.enumerate(3), size=2)
    >>> len(exact.models)
    211
    >>> exact.table().round(3)["probability"].head(1)
    law
    a*sin(b)    1.0
    Name: probability, dtype: float64
    """
    most = problem.size
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 0 <= size <= most:
        raise InputError(f"size is {size!r}; models of the space have from 0 to {most} features.")
    columns = feature_columns(problem, features, constants)
    k = len(columns.features)
    count = sum(math.comb(k, s) for s in range(size + 1))
    if count > MOST_MODELS:
        raise InputError(
            f"{k} features make {count} models of size up to {size}; give fewer features or a smaller size (at most "
            f"{MOST_MODELS} models)."
        )
    return _posterior(problem, columns, [_subsets(np.arange(k), s) for s in range(min(size, k) + 1)])


def exact_singles_and_pairs(
    problem: FeatureProblem, *, complexity: int = 4, top: int = 60, beside: int = 5
) -> ExactPosterior:
    """Evaluate the empty model, all models of one feature, and the pairs that the leading features make.

    For data where one law explains nearly everything, such as the exoplanets: the posterior over these models is
    exact, and models left out are larger or have no leading feature.

    Parameters
    ----------
    problem : FeatureProblem
        Data, space and priors; a space of models of one feature has no pairs.
    complexity : int
        Largest complexity of a feature.
    top : int
        How many of the best single features make pairs with each other.
    beside : int
        How many of the best single features make pairs with every feature: what corrects a law explains little alone.

    Examples
    --------
    >>> from modejump.features.nonlinear.space import Space
    >>> from modejump.features.nonlinear.transforms import transforms
    >>> from modejump.problem.feature_problem import feature_problem
    >>> x = np.random.default_rng(1).uniform(0.5, 3.0, (60, 2))
    >>> y = x[:, 0] * np.sin(x[:, 1])
    >>> problem = feature_problem(x, y, ["a", "b"], transforms=[transforms["sin"]], space=Space())
    >>> exact = exact_singles_and_pairs(problem, complexity=3, top=5, beside=1)
    >>> exact.table().index[0], len(exact.models)
    ('a*sin(b)', 46)
    """
    top, beside = whole_number(top, "top"), whole_number(beside, "beside")
    columns = feature_columns(problem, problem.language.enumerate(complexity))
    places = np.arange(len(columns.features))
    groups = [_subsets(places, 0), _subsets(places, 1)]
    if problem.size > 1:
        best = np.argsort(-_log_posterior(problem, columns, groups[1]), kind="stable")
        groups += [_subsets(best[:top], 2), _beside(best, top, beside)]
    return _posterior(problem, columns, groups)


def _subsets(places: np.ndarray, size: int) -> np.ndarray:
    """All subsets of one size, one in each row."""
    members = itertools.chain.from_iterable(itertools.combinations(places.tolist(), size))
    count = math.comb(len(places), size)
    return np.fromiter(members, np.int64, count=count * size).reshape(count, size)


def _beside(best: np.ndarray, top: int, beside: int) -> np.ndarray:
    """Pairs of a leading feature and any one that it does not yet make a pair with."""
    pairs = []
    for rank, feature in enumerate(best[:beside]):
        others = best[max(rank + 1, top if rank < top else 0) :]
        pairs.append(np.column_stack([np.full(len(others), feature), others]))
    return np.concatenate([np.empty((0, 2), np.int64), *pairs])


def _posterior(problem: FeatureProblem, columns: FeatureColumns, groups: Sequence[np.ndarray]) -> ExactPosterior:
    """The posterior over models given in groups of one size."""
    value = np.concatenate([_log_posterior(problem, columns, models) for models in groups])
    models = [tuple(model) for group in groups for model in np.sort(group, axis=1).tolist()]
    order = np.argsort(-value, kind="stable")
    law = law_of_each(columns.features, columns.raw, intercept=problem.intercept)
    return ExactPosterior(
        columns.features,
        tuple(models[i] for i in order),
        value[order],
        tuple(columns.features[i] for i in law),
        columns.constants,
    )


def _log_posterior(problem: FeatureProblem, columns: FeatureColumns, models: np.ndarray) -> np.ndarray:
    """Log posterior of models of one size, relative to the empty model."""
    count, k = models.shape
    base = problem.basis.shape[0]
    if k == 0:
        return np.zeros(count)
    if k > math.ceil(problem.n) - base - 1:
        return np.full(count, -np.inf)
    weights = problem.log_weights(columns.features)[models].sum(axis=1) + problem.log_sizes()[k]
    if not problem.family.conjugate:
        return _fitted(problem, columns, models) + weights
    resid = residual_shares(columns.z, problem.response[0], models)
    floor = floor_share(problem.noise_floor, problem.n, problem.base_rss)
    prior = Handle(problem.coef_prior.compile(problem.n, problem.base_rss, floor))
    # A share below zero stands for a rank-deficient model, which log_marginal gives probability zero.
    likelihood = [log_marginal(prior, problem.n, base, k, share) for share in resid.tolist()]
    return np.array(likelihood) + weights


def _fitted(problem: FeatureProblem, columns: FeatureColumns, models: np.ndarray) -> np.ndarray:
    """log p(y|M) - log p(y|base) of models that are not Gaussian, each from a start of its own."""
    selection = problem.selection(columns.features, columns.raw.T)
    return np.array([log_marginal_of(selection, np.sort(model)) for model in models])


def residual_shares(z: np.ndarray, response: np.ndarray, models: np.ndarray) -> np.ndarray:
    """RSS(M)/RSS(base) of models of one size; -1.0 where the design is rank deficient.

    The canonical evaluation of :mod:`modejump.kernels.evaluate` for all models at once: Cholesky factors of their Gram
    matrices, refined from the columns where the fit is nearly perfect, and floored. Rows of ``z``, and the response,
    are without the base and of unit length; ``models`` has the rows of each model.
    """
    count, k = models.shape
    corr = z @ response
    # Products of the features at one position with those at another: few where few features lead all models.
    at = [np.unique(models[:, i], return_inverse=True) for i in range(k)]
    resid, full, volume = np.ones(count), np.ones(count, bool), np.ones(count)
    chol, w = np.zeros((count, k, k)), np.zeros((count, k))
    for i in range(k):
        pivot, t = np.ones(count), corr[models[:, i]]
        for j in range(i):
            gram = z[at[i][0]] @ z[at[j][0]].T
            shared = np.einsum("mr,mr->m", chol[:, i, :j], chol[:, j, :j])
            chol[:, i, j] = (gram[at[i][1], at[j][1]] - shared) / chol[:, j, j]
            pivot -= chol[:, i, j] ** 2
            t = t - chol[:, i, j] * w[:, j]
        full &= pivot >= RANK_TOLERANCE
        volume *= np.where(full, pivot, 1.0)
        chol[:, i, i] = np.sqrt(np.where(full, pivot, 1.0))
        w[:, i] = t / chol[:, i, i]
        resid -= w[:, i] ** 2
    near = np.flatnonzero(full & (volume < RANK_TOLERANCE))
    # The largest entry on the diagonal of the inverse Gram matrix.
    full[near] = np.sum(np.linalg.inv(chol[near]) ** 2, axis=1).max(axis=1, initial=0.0) <= 1.0 / RANK_TOLERANCE
    close = np.flatnonzero(full & ((resid < REFINE_BELOW) | (volume < GUARD)))
    for start in range(0, len(close), _CHUNK):
        rows = close[start : start + _CHUNK]
        q = np.linalg.qr(np.swapaxes(z[models[rows]], 1, 2))[0]
        left = np.broadcast_to(response, (len(rows), len(response)))[:, :, None]
        # A second pass removes what rounding left of the response.
        for _ in range(2):
            left = left - q @ (np.swapaxes(q, 1, 2) @ left)
        resid[rows] = np.sum(left[:, :, 0] ** 2, axis=1)
    return np.where(full, np.maximum(resid, RESID_FLOOR), -1.0)
