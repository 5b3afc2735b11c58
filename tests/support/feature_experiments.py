"""Small spaces of features with their exact posterior, for tests that the reversible sampler is exact.

Nothing here depends on the language of the features: an experiment asks it for all features of its space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import chi2

from modejump.core.compilation import Entry
from modejump.experiments.oracle import ExactPosterior, exact_posterior
from modejump.features.covariates.language import Screened
from modejump.features.expression import Expression
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.features.table import truncate
from modejump.kernels.chain import count_step
from modejump.kernels.neighbour import set_model
from modejump.kernels.populations import fresh_features, moves, reversible
from modejump.kernels.populations.moves import NONE
from modejump.priors.complexity import ComplexityPrior
from modejump.problem.feature_problem import FeatureProblem, feature_problem
from modejump.samplers.chains.recall import list_of
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.settings import Sampler

# Asks a driver for whole turns, whose move is drawn by its weight.
MIXTURE = -1
LEAST_EXPECTED = 5.0


def driver(reversible: Any = reversible, moves: Any = moves, fresh: Any = fresh_features, keep: bool = False) -> Entry:
    """A compiled loop: from each start so many turns of one kernel, then the end; from these modules' kernels."""
    clean, turn, move = reversible._clean, reversible._turn, moves.move_between
    give_place, draw_population = fresh.give_place, fresh.draw_population
    own_log_posterior = fresh.own_log_posterior

    def replicate(fc, kind, turns, starts, bounds, members, ends, values):
        ch, fresh, table = fc.chain, fc.fresh, fc.table
        st = ch.state
        count, children = fresh.table_mark, fresh.child_mark
        member = np.zeros(len(fc.population.feature), np.uint8)
        for r in range(len(starts)):
            for place in range(len(member)):
                member[place] = 0
                ch.record.inside[place] = 0.0
            set_model(fc.data, st, ch.work, ch.store, member)
            clean(fc)
            truncate(table, count, children)
            fresh.table_mark, fresh.child_mark = count, children
            fresh.logged = fresh.referred = 0
            for i in range(bounds[starts[r]], bounds[starts[r] + 1]):
                member[give_place(fc, members[i])] = 1
            set_model(fc.data, st, ch.work, ch.store, member)
            for _ in range(turns):
                if kind == MIXTURE:
                    turn(fc)
                elif kind == NONE:
                    draw_population(fc, fc.between.active)
                else:
                    move(kind, fc)
                if kind == MIXTURE or kind == NONE:
                    for _ in range(fc.population_steps):
                        count_step(fc.data, ch, fc.moves)
                clean(fc)
            ends[r] = st.hash
            values[r] = own_log_posterior(fresh, st)

    return Entry(replicate, keep=keep)


replicate = driver(keep=True)


def chi_square(observed: np.ndarray, probability: np.ndarray, drawn: int) -> float:
    """p-value of counts against probabilities; rare cells, and what no cell has, share one."""
    expected = np.append(probability * drawn, max(0.0, 1.0 - float(probability.sum())) * drawn)
    counts = np.append(observed, drawn - observed.sum()).astype(float)
    order = np.argsort(expected)
    rare = int((expected < LEAST_EXPECTED).sum())
    if rare:
        # The rare ones together, and with the least frequent of the others where that is still too few.
        pooled = order[: max(rare, int(np.searchsorted(np.cumsum(expected[order]), LEAST_EXPECTED)) + 1)]
        if expected[pooled].sum() < 1e-6:
            assert counts[pooled].sum() == 0, "something of probability zero was drawn"
            expected, counts = np.delete(expected, pooled), np.delete(counts, pooled)
        else:
            expected = np.append(np.delete(expected, pooled), expected[pooled].sum())
            counts = np.append(np.delete(counts, pooled), counts[pooled].sum())
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), len(expected) - 1))


def small_problem(
    seed: int, columns: int = 2, functions: Sequence[str] = ("sin",), *, rows: int = 30, a: float = 0.4,
    spelling: str = "canonical", coef_prior: object = "g", collinear: str = "", projections: bool = False,
    **space: Any,
) -> FeatureProblem:  # fmt: skip
    """A problem with a weak signal, so that many models have a share."""
    x, y = small_data(seed, columns, rows, collinear)
    if projections:
        space |= {"mutation": 0.3, "crossover": 0.3, "modification": 0.2, "projection": 0.2}
    limits = {"depth": 2, "width": 2, "complexity": 4, "size": 2, "population": 10, **space}
    return feature_problem(
        x, y, "abcd"[:columns], transforms=[transforms[name] for name in functions], space=Space(**limits),
        coef_prior=coef_prior, model_prior=ComplexityPrior(a, spelling),
    )  # fmt: skip


def small_data(seed: int, columns: int, rows: int, collinear: str = "") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    y = 0.4 * x[:, 0] * x[:, 1] + 0.3 * np.sin(x[:, 0]) + rng.normal(size=rows)
    if collinear == "combination":
        x[:, -1] = 2.0 * x[:, 0] + x[:, 1]
    elif collinear == "copy":
        x[:, -1] = x[:, 0]
    return x, y


def enter_for_good(chain: ReversibleChain, features: Sequence[Expression]) -> np.ndarray:
    """Enter features into a chain's table, for good; returns their numbers."""
    numbers = chain.numbers(features)
    fresh, table = chain.arrays.fresh.scalars, chain.table.scalars
    fresh["table_mark"] = fresh["frozen"] = table["count"]
    fresh["child_mark"] = table["children"]
    return numbers


@dataclass
class Ends:
    """Starts and ends of replications as rows of the exact posterior, and log posteriors as the chain had them."""

    starts: np.ndarray
    ends: np.ndarray
    values: np.ndarray
    tried: np.ndarray

    @property
    def moved(self) -> float:
        return float((self.starts != self.ends).mean())


@dataclass
class Experiment:
    """A small space with its exact posterior; starts are drawn from it."""

    problem: FeatureProblem
    texts: Sequence[str]
    screened: Screened | None = None

    @cached_property
    def library(self) -> tuple[Expression, ...]:
        return tuple(self.problem.language.parse(text) for text in self.texts)

    @cached_property
    def exact(self) -> ExactPosterior:
        return exact_posterior(self.problem, self.problem.language.enumerate(), size=self.problem.size)

    @cached_property
    def alive(self) -> np.ndarray:
        """Rows of the models of positive probability."""
        return np.flatnonzero(np.isfinite(self.exact.log_posterior))

    @cached_property
    def models(self) -> dict[frozenset[Expression], int]:
        """Row of each model."""
        of = self.exact.features
        return {frozenset(of[i] for i in model): row for row, model in enumerate(self.exact.models)}

    def chain(self, seed: int, settings: Sampler, memory: int = 1 << 22) -> ReversibleChain:
        importance, stream = np.full(len(self.library), 0.3), np.random.SeedSequence(seed)
        return ReversibleChain(self.problem, self.library, importance, stream, settings, memory, self.screened)

    def recall_some(self, chain: ReversibleChain) -> None:
        """Let a chain recall every other model of the library, with weights that owe nothing to the posterior."""
        known = set(self.library)
        inside = [m for m, row in self.models.items() if m <= known and np.isfinite(self.exact.log_posterior[row])]
        inside.sort(key=lambda m: (len(m), sorted(f.text for f in m)))
        some = [m for i, m in enumerate(inside) if i % 2 == 0 or len(inside) < 4]
        place = {f: i for i, f in enumerate(self.library)}
        words = np.zeros((len(some), chain.arrays.chain.store.words.shape[1]), np.uint64)
        hashes = np.zeros(len(some), np.uint64)
        for row, model in enumerate(some):
            for f in model:
                words[row, 0] |= np.uint64(1) << np.uint64(place[f])
                hashes[row] ^= chain.arrays.data.zobrist[place[f]]
        weight = np.exp(-((7 * np.arange(len(some))) % 5) / 2.0)
        chain.replace(between=chain.arrays.between._replace(recalled=list_of(words, hashes, weight / weight.sum())))

    def ends(
        self, kind: int, settings: Sampler, *, turns: int, replications: int, seed: int, run: Entry = replicate,
        prepare: Callable[[ReversibleChain], None] | None = None,
    ) -> Ends:  # fmt: skip
        """Replications of so many turns of one kernel, each from a model drawn from the posterior."""
        chain = self.chain(seed, settings)
        numbers = enter_for_good(chain, self.exact.features)
        self.recall_some(chain)
        if prepare is not None:
            prepare(chain)
        p = self.exact.probability
        starts = np.random.default_rng(seed).choice(len(p), size=replications, p=p / p.sum())
        bounds = np.concatenate([[0], np.cumsum([len(model) for model in self.exact.models])])
        members = np.array([numbers[i] for model in self.exact.models for i in model], np.int64)
        keys, values = np.empty(replications, np.uint64), np.empty(replications)
        chain.arrays.scalars["population_steps"] = chain.population_steps
        run(chain.arrays, kind, turns, starts, bounds, members, keys, values)
        feature_keys = chain.table.key[numbers]
        known = np.array(
            [np.bitwise_xor.reduce(feature_keys[list(m)], initial=np.uint64(0)) for m in self.exact.models]
        )
        order = np.argsort(known)
        at = order[np.minimum(np.searchsorted(known, keys, sorter=order), len(known) - 1)]
        assert (known[at] == keys).all(), "a chain left the models of the space"
        return Ends(starts, at, values, chain.arrays.between.tried.copy())

    def p_value(self, ends: Ends) -> float:
        """p-value of the chi-square test of the ends against the posterior."""
        p = self.exact.probability
        return chi_square(np.bincount(ends.ends, minlength=len(p)), p / p.sum(), len(ends.ends))
