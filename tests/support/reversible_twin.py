"""Doors to the compiled kernels of the reversible sampler, their plain twins on `Feature` objects, and experiments.

A door calls one kernel many times. The twins work on canonical expressions and dictionaries; where they draw random
numbers they draw them in the order of the compiled kernels. An experiment is a space small enough to enumerate, with
the exact posterior over all of its models.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import twin
from genetic_twin import inside, remade, tree_size
from numba import njit
from scipy.stats import chi2

from modejump.core.handles import handle
from modejump.core.linking import EntryCompiler
from modejump.core.random import new_stream
from modejump.experiments.oracle import ExactPosterior, enumerate_features, exact_posterior
from modejump.features import Feature
from modejump.features.fresh import draw_edit, draw_fresh, draw_tree, edit_probability, log_fresh, log_tree
from modejump.features.nonlinear.operators import DELETE, INSERT, STRIP, SWAP_FUNCTION, SWAP_LEAF, WRAP, SpaceArrays
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.features.table import COVARIATE, MODIFICATION, PRODUCT, PROJECTION, truncate
from modejump.kernels.chain import draw_kernel, step
from modejump.kernels.neighbour import set_model
from modejump.kernels.populations import fresh_features as guests_kernels
from modejump.kernels.populations import moves as population_kernels
from modejump.kernels.populations import reversible as reversible_kernels
from modejump.kernels.populations.fresh_features import (
    ARENA_MARK,
    CHILD_MARK,
    FROZEN,
    LOGGED,
    REFERRED,
    invite,
    log_rho,
)
from modejump.kernels.populations.moves import NONE
from modejump.priors.complexity import ComplexityPrior
from modejump.problem.feature_problem import FeatureProblem, FeatureTable
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.gmjmcmc import feature_problem
from modejump.samplers.populations import Library, Populations

# Not cached: a cache knows the file of a function, and these hold the code of others.
compiled: Any = njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, pipeline_class=EntryCompiler)
KINDS = {"covariate": COVARIATE, "modification": MODIFICATION, "product": PRODUCT, "projection": PROJECTION}
# Asks a driver for whole turns, whose move is drawn by its weight.
MIXTURE = -1
LEAST_EXPECTED = 5.0

# --- doors to the kernels ---------------------------------------------------------------------------------------


@compiled
def tree_draws(features, fresh, declared, rng, room, out):
    """Features from the grammar, whatever their depth and width."""
    ar, law, space = handle(features), handle(fresh), handle(declared)
    for i in range(len(out)):
        out[i] = draw_tree(ar, law, space, rng, np.int64(1), room)


@compiled
def fresh_draws(features, fresh, declared, rng, out):
    """Features from q."""
    ar, law, space = handle(features), handle(fresh), handle(declared)
    for i in range(len(out)):
        out[i] = draw_fresh(ar, law, space, rng)


@compiled
def fresh_values(features, fresh, declared, numbers, tree, total):
    """Log probability of features under the grammar, and under q."""
    ar, law, space = handle(features), handle(fresh), handle(declared)
    for i in range(len(numbers)):
        tree[i] = log_tree(ar, law, space, numbers[i], np.int64(1))
        total[i] = log_fresh(ar, law, space, numbers[i])


@compiled
def edit_draws(features, declared, f, rng, out):
    """Random edits of one feature."""
    ar, space = handle(features), handle(declared)
    for i in range(len(out)):
        out[i] = draw_edit(ar, space, f, rng)


@compiled
def edit_values(features, declared, numbers, out):
    """Probability of an edit from each feature to each other."""
    ar, space = handle(features), handle(declared)
    for i in range(len(numbers)):
        for j in range(len(numbers)):
            out[i, j] = edit_probability(ar, space, numbers[i], numbers[j]) if i != j else 0.0


@compiled
def cut_back(features, count, children):
    """Forget the features from one number on."""
    truncate(handle(features), count, children)


@compiled
def log_rhos(features, visiting, declared, numbers, out):
    """Log probability of each feature to be in a population."""
    ar, guests, space = handle(features), handle(visiting), handle(declared)
    for i in range(len(numbers)):
        out[i] = log_rho(ar, guests, space, numbers[i])


def _invitations(problem_data, features, columns, population, visiting, declared, rng, active, present):
    """Populations of fresh features, one in each row of ``present``: the features' numbers, then -1."""
    data, ar, pool, pop = handle(problem_data), handle(features), handle(columns), handle(population)
    guests, space = handle(visiting), handle(declared)
    for r in range(len(present)):
        invite(data, ar, pool, pop, guests, space, rng, active)
        m = 0
        for place in range(guests.first, len(pop.feature)):
            if pop.feature[place] >= 0:
                present[r, m] = pop.feature[place]
                m += 1
                pop.feature[place] = -1
            active[place] = 0


invitations = compiled(_invitations)


def driver(
    reversible: Any = reversible_kernels, moves_between: Any = population_kernels, visitors: Any = guests_kernels
) -> Callable[..., None]:
    """A compiled loop: from each start so many turns of one kernel, then the end; from these modules' kernels."""
    clean, turn, move = reversible._clean, reversible._turn, moves_between.move_between
    give_place, draw_guests, value_of = visitors.welcome, visitors.invite, visitors.plain_value

    @compiled
    def replicate(
        problem_data, chain, settings, features, columns, population, visiting, crossing, declared, collected,
        kind, turns, steps, starts, bounds, members, ends, values,
    ):  # fmt: skip
        data, ch, moves = handle(problem_data), handle(chain), handle(settings)
        ar, pool, pop, guests = handle(features), handle(columns), handle(population), handle(visiting)
        between, space, archive = handle(crossing), handle(declared), handle(collected)
        st, num = ch.state, guests.num
        count, children = num[ARENA_MARK], num[CHILD_MARK]
        member = np.zeros(len(pop.feature), np.uint8)
        for r in range(len(starts)):
            for place in range(len(member)):
                member[place] = 0
                ch.record.inside[place] = 0.0
            set_model(data, st, ch.work, ch.store, member)
            clean(data, ch, ar, pop, guests, between, archive)
            truncate(ar, count, children)
            num[ARENA_MARK], num[CHILD_MARK], num[LOGGED], num[REFERRED] = count, children, 0, 0
            for i in range(bounds[starts[r]], bounds[starts[r] + 1]):
                member[give_place(data, ar, pool, pop, guests, space, members[i])] = 1
            set_model(data, st, ch.work, ch.store, member)
            for _ in range(turns):
                if kind == MIXTURE:
                    turn(data, ch, moves, ar, pool, pop, guests, between, space, archive)
                elif kind == NONE:
                    draw_guests(data, ar, pool, pop, guests, space, ch.rng, between.active)
                else:
                    move(kind, data, ch, moves, ar, pool, pop, guests, between, space, archive)
                if kind == MIXTURE or kind == NONE:
                    for _ in range(steps):
                        step(draw_kernel(moves, ch.rng), data, ch, moves)
                clean(data, ch, ar, pop, guests, between, archive)
            ends[r] = st.hash[0]
            values[r] = value_of(guests, st)

    return replicate


# --- plain twins ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grammar:
    """The grammar of fresh features."""

    kinds: Mapping[str, float]
    more: float
    names: tuple[str, ...]
    functions: tuple[str, ...]

    @classmethod
    def of(cls, chain: ReversibleChain) -> Grammar:
        fresh = chain.guests.fresh
        kinds = {name: float(fresh.kinds[code]) for name, code in KINDS.items()}
        return cls(kinds, fresh.more, chain.problem.names, tuple(t.name for t in chain.problem.transforms))

    def probability(self, feature: Feature, products: bool = True) -> float:
        """Probability of a feature: the sum over the orders in which its parts may come."""
        p = self.kinds[feature.kind] / (1.0 if products else 1.0 - self.kinds["product"])
        parts = feature.children
        if feature.kind == "covariate":
            return p / len(self.names)
        if feature.kind == "product":
            p *= self.more ** (len(parts) - 2) * (1.0 - self.more) * _orders(parts)
        else:
            p /= len(self.functions)
        if feature.kind == "projection":
            p *= self.more ** (len(parts) - 1) * (1.0 - self.more) * _orders(parts)
        return p * math.prod(self.probability(part, feature.kind != "product") for part in parts)

    def draw(self, stream: twin.Stream, room: int, products: bool = True) -> Feature | None:
        """A feature, None where the draw is void, from the numbers that the compiled grammar would take."""
        if room < 1:
            return None
        kind = self._kind(stream, products)
        if kind == "covariate":
            return Feature.covariate(self.names[stream.below(len(self.names))])
        if kind == "product":
            return self._product(stream, room)
        name = self.functions[stream.below(len(self.functions))]
        if kind == "modification":
            argument = self.draw(stream, room - 1)
            return None if argument is None else Feature.modification(name, argument)
        parents: list[Feature] = []
        room -= 1
        while not parents or stream.uniform() < self.more:
            parent = self.draw(stream, room - 1)
            if parent is None or parent in parents:
                return None
            parents.append(parent)
            room -= 1 + parent.complexity
        return Feature.projection(name, *parents)

    def _kind(self, stream: twin.Stream, products: bool) -> str:
        allowed = [k for k, p in self.kinds.items() if p > 0.0 and (products or k != "product")]
        u = stream.uniform() * (1.0 if products else 1.0 - self.kinds["product"])
        for kind in allowed:
            if u < self.kinds[kind]:
                return kind
            u -= self.kinds[kind]
        return allowed[-1]

    def _product(self, stream: twin.Stream, room: int) -> Feature | None:
        made = self.draw(stream, room, products=False)
        more = True
        while more and made is not None:
            factor = self.draw(stream, room - made.complexity, products=False)
            if factor is None:
                return None
            made = made * factor
            more = stream.uniform() < self.more
        return made


def _orders(parts: Sequence[Feature]) -> int:
    """Orders of a multiset."""
    return math.factorial(len(parts)) // math.prod(math.factorial(m) for m in Counter(parts).values())


def _edits_here(node: Feature, names: Sequence[str], functions: Sequence[str]) -> Iterator[tuple[int, list[Feature]]]:
    """For each operator that applies to a node all its results, of equal probability."""
    yield INSERT, [node * Feature.covariate(name) for name in names]
    if node.kind == "covariate":
        yield SWAP_LEAF, [Feature.covariate(name) for name in names]
    if node.kind == "product":
        parts = node.children
        yield DELETE, [Feature.product(*parts[:i], *parts[i + 1 :]) for i in range(len(parts))]
    if node.kind == "modification":
        yield STRIP, [node.children[0]]
    if functions:
        yield WRAP, [Feature.modification(name, node) for name in functions]
    if functions and node.transform is not None:
        make = Feature.modification if node.kind == "modification" else Feature.projection
        yield SWAP_FUNCTION, [make(name, *node.children) for name in functions]


def _all_edits(
    feature: Feature, names: Sequence[str], functions: Sequence[str]
) -> Iterator[tuple[int, float, Feature]]:
    """Operator, its share of the choices at the node, and what becomes of the feature; each node in turn."""
    for operator, results in _edits_here(feature, names, functions):
        for new in results:
            yield operator, 1.0 / len(results), new
    for i, child in enumerate(feature.children):
        for operator, share, new in _all_edits(child, names, functions):
            parts = [new if j == i else c for j, c in enumerate(feature.children)]
            # What is unchanged at its node is no edit, though the same change elsewhere may be one.
            yield operator, share, feature if new is child else remade(feature, parts)


def edit_law(
    feature: Feature, declared: SpaceArrays, names: Sequence[str], functions: Sequence[str], *, strict: bool = True
) -> dict[Feature, float]:
    """Probability of each result of one random edit; what is missing to one is void.

    ``strict`` leaves out edits that change complexity otherwise than their inverses do.
    """
    law: dict[Feature, float] = {}
    nodes = tree_size(feature)
    for operator, share, new in _all_edits(feature, names, functions):
        gain = new.complexity - feature.complexity
        wrong = {INSERT: gain != 1, WRAP: gain != 1, DELETE: gain >= 0, STRIP: gain >= 0}.get(operator, gain != 0)
        if new is feature or not inside(new, declared) or (strict and wrong):
            continue
        law[new] = law.get(new, 0.0) + float(declared.edit_weight[operator]) * share / nodes
    return law


# --- experiments ------------------------------------------------------------------------------------------------


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
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    y = 0.4 * x[:, 0] * x[:, 1] + 0.3 * np.sin(x[:, 0]) + rng.normal(size=rows)
    if collinear == "combination":
        x[:, -1] = 2.0 * x[:, 0] + x[:, 1]
    elif collinear == "copy":
        x[:, -1] = x[:, 0]
    if projections:
        space |= {"mutation": 0.3, "crossover": 0.3, "modification": 0.2, "projection": 0.2}
    limits = {"depth": 2, "width": 2, "complexity": 4, "size": 2, "population": 10, **space}
    return feature_problem(
        x, y, "abcd"[:columns], transforms=[transforms[name] for name in functions], space=Space(**limits),
        coef_prior=coef_prior, model_prior=ComplexityPrior(a, spelling),
    )  # fmt: skip


def library_of(texts: Sequence[str], importance: float = 0.3) -> Library:
    return Library(tuple(Feature.parse(text) for text in texts), np.full(len(texts), importance))


def plant_space(table: FeatureTable, features: Sequence[Feature]) -> np.ndarray:
    """Enter all features of a space into a chain's table, for good; returns their numbers."""
    numbers = table.numbers(features)
    if isinstance(table, ReversibleChain):
        num = table.guests.num
        num[ARENA_MARK] = num[FROZEN] = table.arena.scalars["count"]
        num[CHILD_MARK] = table.arena.scalars["children"]
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
    library: Library
    features: list[Feature] = field(init=False)
    exact: ExactPosterior = field(init=False)

    def __post_init__(self) -> None:
        self.features = enumerate_features(self.problem.names, self.problem.transforms, self.problem.space)
        self.exact = exact_posterior(self.problem, self.features, size=self.problem.space.size)

    @cached_property
    def alive(self) -> np.ndarray:
        """Rows of the models of positive probability."""
        return np.flatnonzero(np.isfinite(self.exact.log_posterior))

    @cached_property
    def models(self) -> dict[frozenset[Feature], int]:
        """Row of each model."""
        of = self.exact.features
        return {frozenset(of[i] for i in model): row for row, model in enumerate(self.exact.models)}

    @cached_property
    def recalled(self) -> dict[frozenset[Feature], float]:
        """Every other model inside the library, with weights that have nothing to do with its posterior."""
        known = set(self.library.features)
        inside = [m for m, row in self.models.items() if m <= known and np.isfinite(self.exact.log_posterior[row])]
        inside.sort(key=lambda m: (len(m), sorted(f.text for f in m)))
        return {m: -((7 * i) % 5) / 2.0 for i, m in enumerate(inside) if i % 2 == 0 or len(inside) < 4}

    def chain(self, seed: int, settings: Populations, memory: int = 1 << 22) -> ReversibleChain:
        return ReversibleChain(self.problem, self.library, np.random.SeedSequence(seed), settings, memory)

    def ends(
        self, replicate: Callable[..., None], kind: int, settings: Populations, *, turns: int, replications: int,
        seed: int, prepare: Callable[[ReversibleChain], None] | None = None,
    ) -> Ends:  # fmt: skip
        """Replications of so many turns of one kernel, each from a model drawn from the posterior."""
        chain = self.chain(seed, settings)
        numbers = plant_space(chain, self.exact.features)
        chain.recall(self.recalled)
        if prepare is not None:
            prepare(chain)
        p = self.exact.probability
        starts = np.random.default_rng(seed).choice(len(p), size=replications, p=p / p.sum())
        sizes = [len(model) for model in self.exact.models]
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        members = np.array([numbers[i] for model in self.exact.models for i in model], np.int64)
        keys, values = np.empty(replications, np.uint64), np.empty(replications)
        replicate(
            chain.data, chain.chain, chain.moves, chain.arena, chain.pool, chain.population, chain.guests,
            chain.between, chain.declared, chain.archive, kind, turns, settings.steps, starts, bounds, members, keys,
            values,
        )  # fmt: skip
        assert chain.archive.scalars["kept"] <= len(chain.archive.key)
        feature_keys = chain.arena.key[numbers]
        known = np.array(
            [np.bitwise_xor.reduce(feature_keys[list(m)], initial=np.uint64(0)) for m in self.exact.models]
        )
        order = np.argsort(known)
        at = order[np.minimum(np.searchsorted(known, keys, sorter=order), len(known) - 1)]
        assert (known[at] == keys).all(), "a chain left the models of the space"
        return Ends(starts, at, values, chain.between.tried.copy())

    def p_value(self, ends: Ends) -> float:
        """p-value of the chi-square test of the ends against the posterior."""
        p = self.exact.probability
        return chi_square(np.bincount(ends.ends, minlength=len(p)), p / p.sum(), len(ends.ends))


def stream_of(seed: int) -> np.ndarray:
    return new_stream(np.random.SeedSequence(seed))
