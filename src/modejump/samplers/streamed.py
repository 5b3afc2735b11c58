"""GMJMCMC on rows that are read in chunks: all chains make a population together, in one pass over the rows.

Which candidates a population admits depends on their columns, and what is drawn next depends on that. So a chain first
rehearses the renewal of its population on a sample of the rows that is held in memory: there it is nearly always right
about which columns are finite, vary, and are independent. One pass then sums the products of all columns that the
chains have tried, and each chain goes through its tries again with these. Where the sample was wrong, the chain goes
back, rehearses with the verdicts that are now known, and asks for another pass. So the populations are those of a
chain that has all rows in memory.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from modejump.core.errors import InputError
from modejump.core.random import fresh_sequence
from modejump.data.moments import Moments, Overview, OverviewOf, Rows, TrianglesOf, everything
from modejump.features.nonlinear.expression import Feature
from modejump.kernels.populations.genetic import forget_from, live, rehearse
from modejump.kernels.populations.population import DEPENDENCE_TOLERANCE, KNOWN, TRIED, TRIES, VERDICT
from modejump.priors.models import WeightedPrior
from modejump.problem.feature_problem import FeatureProblem
from modejump.problem.problem import Layout, Problem
from modejump.problem.streamed import (
    MAYBE_PERFECT,
    Factor,
    check_response,
    least_resid,
    lengths,
    line_moments,
    problem_over,
)
from modejump.samplers.budget import Budget
from modejump.samplers.chains.genetic_chain import GeneticChain
from modejump.samplers.gmjmcmc import DEFAULT_POPULATIONS, feature_problem, result_of_search
from modejump.samplers.laws import Collected, Laws, laws_from, same_by_products
from modejump.samplers.result import ModelTable, Result
from modejump.samplers.schedule import Progress
from modejump.samplers.streamed_features import Alphas, FeatureColumns, feature_moments, fit_alphas
from modejump.samplers.warmup.search import PATIENCE, STEPS, Finished

# Rows of the sample on which populations are rehearsed, besides the extreme rows of each column.
SAMPLE_ROWS = 2048
# Bytes for the columns of one chain on the sample.
SAMPLE_BYTES = 8 * 2**20


def streamed_features(
    rows: Rows, *, space: Any, sample: int = SAMPLE_ROWS, **more: Any
) -> tuple[FeatureProblem, Moments]:
    """A problem over a space of features that holds a sample of the rows, and the moments of the covariates.

    Parameters
    ----------
    rows : Rows
        Where the rows come from.
    space : Space
        Limits and operator weights.
    sample : int
        Rows of the sample.
    **more
        Transforms and priors, as for :func:`modejump.samplers.gmjmcmc.feature_problem`.
    """
    if space.projection > 0.0 and space.alphas == "optimised":
        raise InputError(
            "alphas='optimised' reads all rows dozens of times for each projection, so it does not go with rows that "
            "are read in chunks; use alphas='ml'."
        )
    k = len(rows.covariates)
    found = rows.reduce(OverviewOf(line_moments(np.arange(k + 1)), None, sample))
    assert isinstance(found, Overview) and found.sample is not None
    check_response(found.moments)
    table = found.sample.table
    weights = None if rows.weight is None else table[-1]
    problem = feature_problem(
        np.ascontiguousarray(table[:k].T), table[k].copy(), rows.covariates, space=space, weights=weights, **more
    )
    whole = dataclasses.replace(
        problem, n=found.moments.n, base_rss=float(found.moments.squares[-1]), digest=found.lanes.text
    )
    return whole, found.moments


class _Memory(NamedTuple):
    """What a chain goes back to when a rehearsal went wrong."""

    arrays: list[tuple[np.ndarray, np.ndarray]]
    features: int
    children: int


class StreamedChain(GeneticChain):
    """A chain of populations whose columns are elsewhere."""

    def __init__(self, problem: FeatureProblem, seed: np.random.SeedSequence, *, steps: int, patience: int) -> None:
        super().__init__(problem, seed, steps=steps, patience=patience, memory=SAMPLE_BYTES)
        s = problem.space.population
        # At most one try for each place of a fresh population, and twenty for each empty one.
        self.population = self.population._replace(rehearsal=np.zeros((21 * s + 2, 3), np.int64))
        self.rehearsed = self.data
        self.data = problem.population_data(np.zeros((s, 0)))
        self._no_rows = self.data.columns._replace(x=np.zeros((0, s)), response=np.zeros(0))
        self.data = self.data._replace(columns=self._no_rows)
        self._before: _Memory | None = None
        self._renewing = False
        # Restarts up to the last population that was lived in.
        self.restarts = 0

    @property
    def tries(self) -> np.ndarray:
        """Place, feature and verdict of each try of the last rehearsal."""
        notes = self.population.rehearsal
        return notes[1 : 1 + notes[0, TRIES]]

    def begin(self) -> None:
        """Remember where the chain stands before its next population."""
        if self.arena.scalars["full"]:
            # An interrupt may come at any line, and what is collected before the table is emptied is not lost.
            self.collect()
            self._renewing = True
            self._renew_arena()
            self._renewing = False
        gen, data, pop = self.genetic, self.rehearsed, self.population
        arrays = [
            self.chain.rng, gen.inclusion, gen.best, gen.parents, gen.num, gen.val, gen.tried, data.gram, data.corr,
            data.prior.log_weight, data.zobrist, pop.feature, pop.num,
        ]  # fmt: skip
        self._before = _Memory(
            [(a, a.copy()) for a in arrays], int(self.arena.scalars["count"]), int(self.arena.scalars["children"])
        )
        pop.rehearsal[0, KNOWN] = 0

    def collect(self) -> None:
        """Add the leading models of the archive to what was collected, unless their features are being forgotten."""
        if not self._renewing:
            super().collect()

    def go_back(self) -> None:
        """To where :meth:`begin` was called."""
        assert self._before is not None
        for array, copy in self._before.arrays:
            array[:] = copy
        count = self._before.features
        self._memo = {f: made for f, made in self._memo.items() if f < count}
        for slot in np.flatnonzero(self.pool.owner >= count):
            self.pool.slot[self.pool.owner[slot]] = 0
            self.pool.owner[slot] = -1
        forget_from(self.arena, count, self._before.children)

    def rehearse(self) -> None:
        """The next population, by the columns of the sample and the verdicts that are known."""
        rehearse(
            self.rehearsed, self.chain, self.arena, self.pool, self.population, self.genetic, self.declared
        )  # fmt: skip

    def kept(self) -> list[int]:
        """Places whose feature stayed."""
        renewed = {int(place) for place, _, verdict in self.tries if verdict}
        return [p for p, f in enumerate(self.population.feature) if f >= 0 and p not in renewed]

    def wanted(self) -> tuple[list[Feature], list[Feature]]:
        """Features tried, and features that stayed."""
        tried = [self.feature(int(f)) for f in self.tries[:, TRIED]]
        return tried, [self.feature(int(self.population.feature[p])) for p in self.kept()]

    def settle(self, products: _Products) -> bool:
        """Go through the tries with products over all rows; False where the sample was wrong about one."""
        kept, features = self.kept(), self.population.feature
        factor = Factor(len(features), DEPENDENCE_TOLERANCE)
        holder: dict[int, Feature] = {}
        for place in kept:
            factor.extend(place, self.data.gram[place, factor.listed])
            holder[place] = self.feature(int(features[place]))
        for t, (place, f, verdict) in enumerate(self.tries.tolist()):
            tried = self.feature(f)
            listed = products.between(tried, [holder[p] for p in factor.listed])
            right = bool(products.usable(tried)) and factor.extend(place, listed)
            if right:
                holder[place] = tried
            if right != bool(verdict):
                notes = self.population.rehearsal
                notes[t + 1, VERDICT] = int(right)
                notes[0, KNOWN] = t + 1
                return False
        self._adopt(holder, set(kept), products)
        return True

    def _adopt(self, holder: dict[int, Feature], kept: set[int], products: _Products) -> None:
        """The Gram matrix of the population over all rows."""
        data, guess = self.data, self.rehearsed
        old_gram, old_corr = data.gram.copy(), data.corr.copy()
        data.gram[:], data.corr[:] = 0.0, 0.0
        places = sorted(holder)
        for p in places:
            data.gram[p, p] = 1.0
            if p in kept:
                others = [q for q in places if q in kept]
                data.gram[p, others], data.corr[p] = old_gram[p, others], old_corr[p]
                continue
            others = [q for q in places if q != p]
            row = products.between(holder[p], [holder[q] for q in others])
            data.gram[p, others] = row
            data.gram[others, p] = row
            data.corr[p] = products.with_response(holder[p])
        data.prior.log_weight[:] = guess.prior.log_weight
        data.zobrist[:] = guess.zobrist
        self.data = data._replace(columns=self._no_rows)

    def maybe_perfect(self) -> bool:
        """Whether some model of the population may fit so well that the products cannot tell how well."""
        return least_resid(self.data.gram, self.data.corr) < MAYBE_PERFECT

    def members(self) -> tuple[list[int], list[Feature]]:
        """Places that hold a feature, and these."""
        places = [p for p, f in enumerate(self.population.feature) if f >= 0]
        return places, [self.feature(int(self.population.feature[p])) for p in places]

    def stand_in(self, factor: np.ndarray) -> None:
        """Rows that stand in for all: the factor of the population's standardised columns, response last."""
        places, _ = self.members()
        m, s = len(factor), len(self.population.feature)
        x = np.zeros((m, s))
        x[:, places] = factor[:, :-1]
        columns = self._no_rows._replace(
            x=x, base=np.zeros((m, 0)), root_weight=np.ones(m), response=np.ascontiguousarray(factor[:, -1])
        )
        self.data = self.data._replace(columns=columns)

    def live(self) -> None:
        """MJMCMC inside the population."""
        live(self.data, self.chain, self.moves, self.population, self.genetic, self.archive)
        self.restarts = int(self.genetic.scalars["restarts"])


class _Products:
    """Products of the columns of one chain, from the moments of one pass."""

    def __init__(self, moments: Moments, where: dict[Feature, int], length: np.ndarray, group: int) -> None:
        self.where, self.length = where, length
        left, right = moments.groups[group]
        self.rows = {int(j): i for i, j in enumerate(left)}
        self.columns = {int(j): i for i, j in enumerate(right)}
        self.cross = moments.cross[group]

    def usable(self, f: Feature) -> bool:
        """Whether a column is finite and varies."""
        return bool(self.length[self.where[f]] > 0.0)

    def between(self, f: Feature, others: Sequence[Feature]) -> np.ndarray:
        """Products of a column that was tried with others, all of unit length."""
        i, at = self.where[f], [self.where[g] for g in others]
        values = self.cross[self.rows[i], [self.columns[j] for j in at]]
        with np.errstate(all="ignore"):
            return np.asarray(values / self.length[i] / self.length[at])

    def with_response(self, f: Feature) -> float:
        """Product of a column with the response, both of unit length."""
        i, y = self.where[f], len(self.length) - 1
        return float(self.cross[self.rows[i], self.columns[y]] / self.length[i] / self.length[y])


class _Driver:
    """All chains in step, one population at a time."""

    def __init__(self, problem: FeatureProblem, rows: Rows, chains: list[StreamedChain]) -> None:
        self.problem, self.rows, self.chains = problem, rows, chains
        self.alphas: Alphas = {}
        # Length and mean of the columns met in the present population.
        self.seen: dict[Feature, tuple[float, float]] = {}

    def population(self) -> None:
        """One population of every chain."""
        self.seen = {}
        waiting = self.chains
        for chain in waiting:
            chain.begin()
            chain.rehearse()
        while waiting:
            products = self._products(waiting)
            wrong = [chain for chain, found in zip(waiting, products, strict=True) if not chain.settle(found)]
            for chain in wrong:
                chain.go_back()
                chain.rehearse()
            waiting = wrong
        self._refine([chain for chain in self.chains if chain.maybe_perfect()])
        for chain in self.chains:
            chain.live()

    def _settle_alphas(self, chains: Sequence[StreamedChain], features: Sequence[Feature]) -> None:
        """Coefficients of all projections in features."""
        if self.problem.space.projection == 0.0:
            return
        if self.problem.space.alphas == "ml":
            fit_alphas(self.rows, features, self.alphas)
            return
        for chain in chains:
            # They do not depend on the rows.
            found: dict[Feature, np.ndarray] = {}
            for f in (*chain.tries[:, TRIED], *chain.population.feature[chain.population.feature >= 0]):
                chain.collect_alphas(int(f), found)
            self.alphas |= found

    def _products(self, chains: Sequence[StreamedChain]) -> list[_Products]:
        """One pass: products of what each chain tried with all that it may meet."""
        wanted = [chain.wanted() for chain in chains]
        features = sorted({f for tried, kept in wanted for f in (*tried, *kept)})
        self._settle_alphas(chains, features)
        where = {f: i for i, f in enumerate(features)}
        groups = []
        for tried, kept in wanted:
            left = np.unique(np.array([where[f] for f in tried], np.int64))
            right = np.unique(np.array([*(where[f] for f in kept), *left, len(features)], np.int64))
            groups.append((left, right))
        moments = feature_moments(self.rows, features, self.alphas, tuple(groups))
        length = lengths(moments)
        self.seen |= {f: (float(length[i]), float(moments.mean[i])) for f, i in where.items()}
        self.response = (float(length[-1]), float(moments.mean[-1]))
        return [_Products(moments, where, length, g) for g in range(len(chains))]

    def _refine(self, chains: Sequence[StreamedChain]) -> None:
        """One more pass for populations in which a model may fit perfectly."""
        if not chains:
            return
        members = [chain.members()[1] for chain in chains]
        features = sorted({f for some in members for f in some})
        where = {f: i for i, f in enumerate(features)}
        measures = [*(self.seen[f] for f in features), self.response]
        groups = tuple(np.array([*(where[f] for f in some), len(features)], np.int64) for some in members)
        columns = FeatureColumns(tuple(features), self.rows.covariates, dict(self.alphas))
        length, mean = np.array(measures).T
        found = self.rows.reduce(TrianglesOf(columns, mean, length, groups))
        for chain, factor in zip(chains, found.factors, strict=True):
            chain.stand_in(factor)

    def outcomes(self) -> list[Finished]:
        """What the chains leave behind that have lived in a population."""
        return [_finished(chain, self.alphas) for chain in self.chains if chain.genetic.scalars["populations"] > 0]

    def discovery(self, began: float, finished: bool) -> Result:
        """What all chains found, after one more pass for the laws."""

        def make_laws(target: FeatureProblem, collected: Collected, alphas: Alphas) -> tuple[Laws, ModelTable]:
            return laws_from(target, collected, alphas, columns=_Elsewhere(self.rows, target, dict(self.alphas)))

        seconds = time.perf_counter() - began
        return result_of_search(self.problem, self.outcomes(), seconds, finished, make_laws)


class _Elsewhere:
    """Columns of laws whose rows are read in chunks."""

    def __init__(self, rows: Rows, problem: FeatureProblem, alphas: Alphas) -> None:
        self.source, self.problem, self.alphas, self.rows = rows, problem, alphas, 1
        self.features: list[Feature] = []
        self.moments: Moments | None = None

    def representatives(self, features: Sequence[Feature]) -> dict[Feature, Feature]:
        if not features:
            return {}
        self.features = list(features)
        self.moments = self._moments_of(self.features)
        length = lengths(self.moments)[:-1]
        gram = self.moments.cross[0][:-1, :-1] / length[:, None] / length
        return same_by_products(self.features, gram)

    def _moments_of(self, features: Sequence[Feature]) -> Moments:
        return feature_moments(self.source, features, self.alphas, everything(len(features) + 1))

    def _columns(self, features: Sequence[Feature]) -> FeatureColumns:
        return FeatureColumns(tuple(features), self.source.covariates, dict(self.alphas))

    def selection(self, laws: Sequence[Feature], prior: WeightedPrior) -> Problem:
        if self.moments is None:
            moments = self._moments_of(laws)
        else:
            where = {f: i for i, f in enumerate(self.features)}
            at = np.array([*(where[f] for f in laws), len(self.features)], np.int64)
            m = self.moments
            cross = (m.cross[0][np.ix_(at, at)],)
            moments = Moments(m.n, m.rows, m.mean[at], m.squares[at], cross, everything(len(at)))
        return problem_over(
            self.source, self._columns(laws), moments, Layout.of({f.text: [i] for i, f in enumerate(laws)}, ()),
            coef_prior=self.problem.coef_prior, model_prior=prior, digest=self.problem.digest,
        )  # fmt: skip


def streamed_gmjmcmc(
    problem: FeatureProblem,
    rows: Rows,
    *,
    chains: int = 16,
    budget: Budget | None = None,
    seed: int | np.random.SeedSequence = 0,
    progress: Progress | None = None,
) -> Result:
    """Search the feature space by chains of populations, on rows that are read in chunks.

    Parameters
    ----------
    problem : FeatureProblem
        What to search, from :func:`streamed_features`.
    rows : Rows
        Where the rows come from.
    chains : int
        Independent chains, which share the passes over the rows.
    budget : Budget, optional
        ``steps`` of each chain (300 in a population), or ``seconds`` for all chains together.
    seed : int or SeedSequence
        Each chain gets its own stream spawned from it.
    progress : callable, optional
        Called with (done, total, note).
    """
    budget = budget or Budget(steps=DEFAULT_POPULATIONS * STEPS)
    if budget.mcse is not None:
        raise InputError("GMJMCMC has no Monte Carlo error: give steps or seconds instead of mcse.")
    if budget.warmup is not None:
        raise InputError("GMJMCMC has no warm-up of its own: give steps or seconds without warmup.")
    seeds = fresh_sequence(seed).spawn(chains)
    driver = _Driver(problem, rows, [StreamedChain(problem, s, steps=STEPS, patience=PATIENCE) for s in seeds])
    began, finished = time.perf_counter(), True
    populations, done, share = max(1, -(-budget.sampling_steps() // STEPS)), 0, 0.0
    try:
        while share < 1.0:
            driver.population()
            done += 1
            share = done / populations
            if budget.seconds is not None:
                share = (time.perf_counter() - began) / budget.seconds
            if progress:
                progress(min(share, 1.0), 1.0, f"{done} populations of each of {chains} chains, {rows.passes} passes")
    except KeyboardInterrupt:
        if not driver.outcomes():
            raise
        finished = share >= 1.0
    try:
        return driver.discovery(began, finished)
    except KeyboardInterrupt:
        # The laws take a pass over the rows. An interrupt of a search that was at its end would lose all of it.
        if not finished:
            raise
        return driver.discovery(began, finished)


def _finished(chain: StreamedChain, alphas: Alphas) -> Finished:
    """What a chain leaves behind, with the coefficients of its projections over all rows."""
    outcome = Finished.of(chain)
    inside = {f: a for f in outcome.alphas if (a := alphas.get(f)) is not None}
    return dataclasses.replace(outcome, alphas=inside, restarts=chain.restarts)
