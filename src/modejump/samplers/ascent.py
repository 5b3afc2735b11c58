"""Climbs among models of features whose fits are dear: score tests tell which feature to try.

A generalised linear model is fitted thousands of times per second, not millions, and a search that tries features at
random needs too many fits. At the fit of a model, what any one feature would add is known to first order from one
weighted product of its column with each member's: half of its squared score over its information given the model. So
all features of a pool are compared at the cost of a fit or two, and only the few that promise most are fitted. The pool
holds covariates, the members of good models, and all edits of both.

What is found joins the models that a search has met. It decides where chains begin and what they know; it is no sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from modejump.features.expression import Feature
from modejump.kernels.complete import model_values, seat_edits
from modejump.kernels.reversible import furnish
from modejump.likelihoods.expansion import Rows, rows_at_fit
from modejump.likelihoods.glm import new_glm_work
from modejump.likelihoods.laplace import fit_columns
from modejump.likelihoods.own import Own
from modejump.samplers.feature_table import FeatureProblem, FeatureTable
from modejump.samplers.genetic import population_chain
from modejump.samplers.laws import Collected

# Features of a pool at most, and numbers in its columns.
MOST_CANDIDATES = 4096
MOST_NUMBERS = 16_000_000
# Features that are fitted at each step of a climb, and sweeps over the members of a model.
TRIES = 5
SWEEPS = 12
# Room for the features that edits make.
FEATURES = 1 << 17
# A feature whose information given the model is below this share of its own depends on the members.
DEPENDENT = 1e-6
# Models this far below the best one met are forgotten, and the best so many are handed on.
SPAN = 16.0
HANDED_ON = 500

Model = tuple[int, ...]


def can_ascend(problem: FeatureProblem) -> bool:
    """Whether score tests are known: for generalised linear models, but not for likelihoods of the user's own."""
    return problem.family.name != "gaussian" and not isinstance(problem.family, Own)


class _Pool:
    """Columns and prior weights of the features that a climb may use, by their places."""

    def __init__(self, problem: FeatureProblem, members: Sequence[Feature], most: int = MOST_CANDIDATES) -> None:
        n = problem.x.shape[1]
        table = FeatureTable(problem, FEATURES)
        covariates = [
            Feature.covariate(name)
            for name, column in zip(problem.names, problem.x, strict=True)
            if np.ptp(column) > 0.0
        ]
        first = [*members, *(f for f in covariates if f not in set(members))]
        places = max(min(most, MOST_NUMBERS // n), len(members) + 1)
        data, population = table.new_places(places, most=2 * problem.space.size)
        self.count = int(
            seat_edits(data, table.arena, table.new_pool(16), population, problem.declared(), table.numbers(first))
        )
        self.table, self.data, self.population, self.problem = table, data, population, problem
        self.place = {int(f): i for i, f in enumerate(population.feature[: self.count])}
        unroot = data.glm.unroot
        z = population.z[: self.count]
        self.columns = z * unroot if len(unroot) else z
        self.squares = self.columns**2
        self.weight = data.prior.log_weight[: self.count]
        self.work = new_glm_work(data.glm, 2 * problem.space.size)
        self.known: dict[Model, float] = {}

    def places(self, model: Iterable[Feature]) -> Model | None:
        """Places of a model's features; None where one has none."""
        numbers = [int(f) for f in self.table.numbers(sorted(model))]
        return tuple(sorted(self.place[f] for f in numbers)) if all(f in self.place for f in numbers) else None

    def value(self, model: Model) -> float:
        """Log posterior of a model, but for the rule about dependent columns."""
        if model not in self.known:
            data = self.data
            cols = np.array(model, np.int64)
            marginal = float(fit_columns(data.glm, self.work, cols, data.code, data.par, data.n))
            self.known[model] = marginal + float(self.weight[cols].sum())
        return self.known[model]

    def promising(self, model: Model, most: int = TRIES) -> list[int]:
        """Places of the features that promise most beside a model, best first."""
        data = self.data
        cols = np.array(model, np.int64)
        rows = rows_at_fit(data.glm, self.work, cols, data.code, data.par, data.n)
        if rows is None:
            return []
        gain = score_gains(np.vstack([data.glm.base, self.columns[cols]]), self.columns, self.squares, rows)
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


def prime_ascent(problem: FeatureProblem) -> None:
    """Compile, or load from the cache, before any clock runs."""
    pool = _Pool(problem, [], most=8)
    pool.promising(())
    _checked(pool, [()])


def ascend(
    problem: FeatureProblem,
    collected: Collected,
    starts: Sequence[frozenset[Feature]],
    go_on: Callable[[], bool] = lambda: True,
) -> None:
    """Climb from some models; those met on the way are added to ``collected``.

    Parameters
    ----------
    problem : FeatureProblem
        The target, of a family other than gaussian.
    collected : dict
        Models with their log posterior.
    starts : sequence of frozenset of Feature
        Where to begin.
    go_on : callable
        Asked between two steps whether there is time.
    """
    pool = _Pool(problem, sorted({f for model in starts for f in model}))
    for start in starts:
        model = pool.places(start)
        if model is not None and go_on():
            _climb(pool, model, go_on)
    top = max(pool.known.values(), default=-np.inf)
    good = sorted((m for m in pool.known if pool.known[m] > top - SPAN), key=lambda m: (-pool.known[m], m))
    collected |= _checked(pool, good[:HANDED_ON])


def _climb(pool: _Pool, model: Model, go_on: Callable[[], bool]) -> None:
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
    while len(model) < pool.problem.space.size and go_on():
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
    table, problem = pool.table, pool.problem
    feature = pool.population.feature
    for start in range(0, len(models), at_once):
        part = models[start : start + at_once]
        members = sorted({place for model in part for place in model})
        data, population = table.new_places(len(members) + 1, most=2 * problem.space.size)
        usable = np.zeros(len(members), np.bool_)
        furnish(data, table.arena, table.new_pool(16), population, feature[members].copy(), usable)
        rows = np.zeros((len(part), len(members) + 1), np.uint8)
        for i, model in enumerate(part):
            rows[i, np.searchsorted(members, model)] = 1
        values = np.full(len(part), -np.inf)
        chain = population_chain(len(members) + 1, 1 << 10, np.zeros(4, np.uint64), data.glm)
        model_values(data, chain, rows, values)
        for model, value in zip(part, values.tolist(), strict=True):
            if np.isfinite(value):
                found[frozenset(table.feature(int(feature[place])) for place in model)] = value
    return found
