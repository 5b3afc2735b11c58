"""A search among models of features where fitting is expensive: score tests tell which feature to try.

A generalised linear model is fitted thousands of times per second, not millions, and a search that tries features at
random needs too many fits. At the fit of a model, what any one feature would add is known to first order from one
weighted product of its column with each member's: half of its squared score over its information given the model. So
all features of a pool are compared at the cost of a fit or two, and only the few that promise most are fitted. The pool
holds covariates, the members of good models, and all edits of both.

What is found joins the models that a search has met. It decides where chains begin and what they know; it is no sample.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from modejump.features.expression import Expression
from modejump.kernels.populations.feature_chain import EVALUATE, PLACE_EDITS
from modejump.likelihoods.columns import fit_columns
from modejump.likelihoods.glm.expansion import Rows, rows_of_last_fit
from modejump.likelihoods.glm.newton import Glm, new_glm_work
from modejump.problem.feature_problem import FeatureProblem
from modejump.samplers.chains.workspace import Workspace
from modejump.samplers.warmup.library import Collected, best_models, place_models

# Features of a pool at most, and numbers in its columns.
MOST_CANDIDATES = 4096
MOST_NUMBERS = 16_000_000
# Features that are fitted at each step of a search, and sweeps over the members of a model.
TRIES = 5
SWEEPS = 12
# Room for the features that edits make.
FEATURES = 1 << 17
# A feature whose information given the model is below this share of its own depends on the members.
DEPENDENT = 1e-6
# Models this far below the best one met are forgotten, and the best so many are handed on.
SPAN = 16.0
HANDED_ON = 500
# So often at most the best of all is where to begin.
CLIMBS = 4

Model = tuple[int, ...]


def can_score(problem: FeatureProblem) -> bool:
    """Whether score tests are known: for generalised linear models, but not for likelihoods of the user's own."""
    return isinstance(problem.base_model, Glm)


class _Pool:
    """Columns and prior weights of the features that a search may use, by their places."""

    def __init__(self, problem: FeatureProblem, members: Sequence[Expression], most: int = MOST_CANDIDATES) -> None:
        first = [*members, *(f for f in problem.covariates() if f not in set(members))]
        places = max(min(most, MOST_NUMBERS // problem.x.shape[1]), len(members) + 1)
        work = Workspace(problem, places, features=FEATURES, columns=16, models=1, most=2 * problem.size, scored=1)
        self.count, _ = work.work(PLACE_EDITS, work.numbers(first))
        data, population = work.arrays.data, work.arrays.population
        self.workspace, self.data, self.population, self.problem = work, data, population, problem
        self.place = {int(f): i for i, f in enumerate(population.feature[: self.count])}
        unroot = data.glm.unroot
        z = population.z[: self.count]
        self.columns = z * unroot if len(unroot) else z
        self.squares = self.columns**2
        self.weight = data.prior.log_weight[: self.count]
        self.work = new_glm_work(data.glm, 2 * problem.size)
        self.known: dict[Model, float] = {}

    def places(self, model: Iterable[Expression]) -> Model | None:
        """Places of a model's features; None where one has none."""
        numbers = [int(f) for f in self.workspace.numbers(sorted(model))]
        return tuple(sorted(self.place[f] for f in numbers)) if all(f in self.place for f in numbers) else None

    def _fit(self, model: Model) -> np.ndarray:
        """Fit a model, note its log posterior, and return its columns."""
        data, cols = self.data, np.array(model, np.int64)
        marginal = float(fit_columns(data.glm, self.work, cols, data.coef_prior, data.n))
        self.known[model] = marginal + float(self.weight[cols].sum())
        return cols

    def value(self, model: Model) -> float:
        """Log posterior of a model, but for the rule about dependent columns."""
        if model not in self.known:
            self._fit(model)
        return self.known[model]

    def promising(self, model: Model, most: int = TRIES) -> list[int]:
        """Places of the features that promise most beside a model, best first."""
        cols, glm = self._fit(model), self.data.glm
        if not np.isfinite(self.known[model]):
            return []
        rows = rows_of_last_fit(glm, self.work, cols)
        gain = score_gains(np.vstack([glm.base, self.columns[cols]]), self.columns, self.squares, rows)
        gain += self.weight
        gain[cols] = -np.inf
        best = np.argsort(-gain, kind="stable")[:most]
        return [int(place) for place in best if np.isfinite(gain[place])]


def score_gains(members: np.ndarray, columns: np.ndarray, squares: np.ndarray, rows: Rows) -> np.ndarray:
    """What each column would add to a model's log likelihood, to first order; minus infinity where it depends on it.

    Parameters
    ----------
    members : ndarray of shape (k, n)
        Columns of the model, the base's included.
    columns, squares : ndarray of shape (m, n)
        Columns to compare, and their squares.
    rows : Rows
        Score and information of the rows at the model's fit.
    """
    weighted = members * rows.info
    among, across = weighted @ members.T, weighted @ columns.T
    own = squares @ rows.info
    # Rows that have moved off leave some member without information.
    scale = np.sqrt(np.maximum(np.diag(among), np.finfo(float).tiny))
    half = np.linalg.solve(among / np.outer(scale, scale) + 1e-12 * np.eye(len(members)), across / scale[:, None])
    left = own - (across / scale[:, None] * half).sum(axis=0)
    apart = left > DEPENDENT * own
    return np.where(apart, 0.5 * (columns @ rows.score) ** 2 / np.where(apart, left, 1.0), -np.inf)


def compile_score_search(problem: FeatureProblem) -> None:
    """Compile, or load from the cache, before any clock runs."""
    pool = _Pool(problem, [], most=8)
    pool.promising(())
    _checked(pool, [()])


def climb_by_scores(
    problem: FeatureProblem, collected: Collected, starts: Sequence[frozenset[Expression]], until: float
) -> None:
    """Improve some models, then the best of all by its own edits; those met on the way are added to ``collected``.

    Parameters
    ----------
    problem : FeatureProblem
        The target, of a family other than gaussian.
    collected : dict
        Models with their log posterior.
    starts : sequence of set of features
        Where to begin.
    until : float
        When to end, by the clock.
    """
    for _ in range(CLIMBS):
        top = max(collected.values(), default=-np.inf)
        score_search(problem, collected, starts, lambda: time.perf_counter() < until)
        if not max(collected.values(), default=-np.inf) > top + 1e-6:
            return
        starts = best_models(collected, 1)


def score_search(
    problem: FeatureProblem,
    collected: Collected,
    starts: Sequence[frozenset[Expression]],
    go_on: Callable[[], bool] = lambda: True,
) -> None:
    """Improve some models; those met on the way are added to ``collected``.

    Parameters
    ----------
    problem : FeatureProblem
        The target, of a family other than gaussian.
    collected : dict
        Models with their log posterior.
    starts : sequence of set of features
        Where to begin.
    go_on : callable
        Asked between two steps whether there is time.
    """
    pool = _Pool(problem, sorted({f for model in starts for f in model}))
    for start in starts:
        model = pool.places(start)
        if model is not None and go_on():
            _improve(pool, model, go_on)
    top = max(pool.known.values(), default=-np.inf)
    good = sorted((m for m in pool.known if pool.known[m] > top - SPAN), key=lambda m: (-pool.known[m], m))
    collected |= _checked(pool, good[:HANDED_ON])


def _improve(pool: _Pool, model: Model, go_on: Callable[[], bool]) -> None:
    """Add, leave out and exchange features until no such step is better."""
    for _ in range(SWEEPS):
        before = pool.value(model)
        model = _grown(pool, model, go_on)
        for member in model:
            if not go_on():
                return
            model = _exchanged(pool, model, member)
        if not pool.value(model) > before + 1e-6:
            return


def _grown(pool: _Pool, model: Model, go_on: Callable[[], bool]) -> Model:
    """Add features while that is better."""
    while len(model) < pool.problem.size and go_on():
        more = [tuple(sorted((*model, place))) for place in pool.promising(model)]
        best = max(more, key=pool.value, default=model)
        if not pool.value(best) > pool.value(model):
            break
        model = best
    return model


def _exchanged(pool: _Pool, model: Model, member: int) -> Model:
    """The model, or a better one without one member, or with another feature in its place."""
    if member not in model:
        return model
    rest = tuple(place for place in model if place != member)
    others = [tuple(sorted((*rest, place))) for place in pool.promising(rest)]
    best = max((rest, *others), key=pool.value)
    return best if pool.value(best) > pool.value(model) else model


def _checked(pool: _Pool, models: Sequence[Model], at_once: int = 64) -> Collected:
    """Models with their log posterior by the rules of the chains; those without any are left out."""
    found: Collected = {}
    feature, held = pool.workspace.feature, pool.population.feature
    named = [frozenset(feature(int(held[place])) for place in model) for model in models]
    for start in range(0, len(named), at_once):
        part = named[start : start + at_once]
        work, _, rows = place_models(pool.problem, part)
        values = np.full(len(part), -np.inf)
        work.work(EVALUATE, models=rows, values=values)
        found |= {model: value for model, value in zip(part, values.tolist(), strict=True) if np.isfinite(value)}
    return found
