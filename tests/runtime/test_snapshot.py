"""Snapshots: a chain made again from one continues as if nothing had happened, and a damaged one is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import feature_experiments as rt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modejump.core.errors import InputError
from modejump.features.nonlinear.expression import Feature
from modejump.problem.feature_problem import FeatureProblem, problem_over
from modejump.problem.problem import Problem
from modejump.runtime.snapshots import Snapshot
from modejump.samplers.chains.genetic_chain import GeneticChain
from modejump.samplers.chains.mjmcmc_chain import MJMCMCChain
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.settings import Sampler
from modejump.samplers.warmup.adaptation import first_moves
from modejump.samplers.warmup.library import best_first

LIBRARY = [Feature.parse(text) for text in ("a", "b", "sin(a)", "a*b")]


def same(one: Snapshot, other: Snapshot) -> None:
    """Two snapshots agree bit by bit."""
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype and array.shape == other[name].shape, name
        # Constants are found again from the data; a table that was emptied meanwhile does not know all of them.
        assert name in ("table/constant", "table/slope") or array.tobytes() == other[name].tobytes(), name


def linear_problem(family: str = "gaussian", terms: int = 12) -> Problem:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(80, terms))
    x[:, 3] = x[:, 0] + 0.2 * rng.normal(size=80)
    eta = x[:, 0] - 0.7 * x[:, 5]
    y = eta + rng.normal(size=80) if family == "gaussian" else (eta + rng.logistic(size=80) > 0).astype(float)
    return Problem.build(x, y, family=family)


def feature_problems(family: str, projections: bool) -> FeatureProblem:
    problem = rt.small_problem(51, depth=2, width=3, complexity=4, size=3, projections=projections)
    if family == "gaussian":
        return problem
    response = (problem.y > np.median(problem.y)).astype(float)
    return problem_over(problem.x.T, response, problem.language, model_prior=problem.model_prior, family=family)


class Walk:
    """A kind of chain: how it is made, and how it continues."""

    def __init__(self, make: Callable[[int], Any], advance: Callable[[Any, int], None]) -> None:
        self.make, self.advance = make, advance

    def check(self, seed: int, before: int, after: int) -> None:
        """A chain resumed from a snapshot continues as the chain does, which taking it does not disturb."""
        chain = self.make(seed)
        self.advance(chain, before)
        taken = chain.snapshot()
        assert all(isinstance(array, np.ndarray) and array.dtype.kind in "biuf" for array in taken.values())
        again = self.make(seed + 1)
        again.restore({name: array.copy() for name, array in taken.items()})
        same(again.snapshot(), taken)
        self.advance(chain, after)
        self.advance(again, after)
        same(again.snapshot(), chain.snapshot())


def linear_walk(family: str, memory: int = 1 << 20) -> Walk:
    problem = linear_problem(family)
    moves = first_moves(Sampler(), problem)

    def make(seed: int) -> MJMCMCChain:
        return MJMCMCChain(problem, np.random.SeedSequence(seed), memory, 50)

    def advance(runner: MJMCMCChain, count: int) -> None:
        runner.warm_up(moves, 10)
        runner.run_batches(moves, count)

    return Walk(make, advance)


def genetic_walk(family: str, projections: bool) -> Walk:
    problem = feature_problems(family, projections)

    def make(seed: int) -> GeneticChain:
        return GeneticChain(problem, np.random.SeedSequence(seed), steps=30, patience=4)

    def advance(chain: GeneticChain, count: int) -> None:
        chain.run_to(chain.populations + count)
        chain.collect()

    return Walk(make, advance)


def reversible_walk(family: str, projections: bool) -> Walk:
    problem = feature_problems(family, projections)

    def make(seed: int) -> ReversibleChain:
        chain = ReversibleChain(
            problem, LIBRARY, np.full(4, 0.3), np.random.SeedSequence(seed), Sampler(population_steps=7), 1 << 20
        )
        chain.batch = 60
        return chain

    def advance(chain: ReversibleChain, count: int) -> None:
        chain.learn(np.linspace(0.1, 0.9, 4))
        chain.warm_up(33)
        if count % 2:
            chain.close()
            chain.recall(best_first(chain.best_library_models(50)))
        chain.run_batches(count)
        if count % 3 == 0:
            chain._renew_features()

    return Walk(make, advance)


WALKS = {
    "linear": lambda: linear_walk("gaussian"),
    "linear, binomial": lambda: linear_walk("binomial"),
    "search": lambda: genetic_walk("gaussian", projections=False),
    "search, projections": lambda: genetic_walk("gaussian", projections=True),
    "search, binomial": lambda: genetic_walk("binomial", projections=False),
    "reversible": lambda: reversible_walk("gaussian", projections=False),
    "reversible, projections": lambda: reversible_walk("gaussian", projections=True),
    "reversible, binomial": lambda: reversible_walk("binomial", projections=False),
}
BRIEF = ("linear", "linear, binomial", "search", "reversible", "reversible, projections")


@pytest.mark.parametrize("kind", [k if k in BRIEF else pytest.param(k, marks=pytest.mark.full) for k in WALKS])
def test_a_chain_made_again_continues_as_the_first_would_have(kind: str) -> None:
    walk = WALKS[kind]()

    @settings(max_examples=8)
    @given(st.integers(0, 2**32), st.integers(0, 12), st.integers(1, 12))
    def check(seed: int, before: int, after: int) -> None:
        walk.check(seed, before, after)

    check()


def test_a_chain_that_grew_and_forgot_is_made_again() -> None:
    """Stores that grew, models that made way, and batches that were merged."""
    walk = linear_walk("gaussian", memory=1)
    walk.check(3, before=515, after=600)


def test_a_snapshot_of_another_problem_is_refused() -> None:
    small = MJMCMCChain(linear_problem(terms=6), np.random.SeedSequence(1), 1 << 20, 50)
    large = MJMCMCChain(linear_problem(), np.random.SeedSequence(1), 1 << 20, 50)
    with pytest.raises(InputError, match="damaged"):
        large.restore(small.snapshot())


@pytest.mark.parametrize("kind", ["linear", "search", "reversible"])
def test_no_index_of_a_damaged_snapshot_reaches_compiled_code(kind: str) -> None:
    """Whole numbers out of range, wrong types, wrong lengths, and missing arrays: one sentence, no crash."""
    walk = WALKS[kind]()
    chain = walk.make(1)
    walk.advance(chain, 5)
    taken = chain.snapshot()
    # What is refused in the middle leaves a chain that can still be put anywhere.
    again, refused = walk.make(2), 0
    for name, array in taken.items():
        for spoil in (_without, _as_objects, _too_long, _far_too_large, _negative):
            damaged = spoil(dict(taken), name, array)
            if damaged is None:
                continue
            try:
                again.restore(damaged)
            except InputError as error:
                assert "\n" not in str(error)
                refused += 1
                continue
            assert spoil in (_far_too_large, _negative), (name, spoil)
            assert not name.endswith(INDICES), (name, spoil)
    assert refused > 2 * len(taken)
    again.restore(taken)
    same(again.snapshot(), taken)


# Arrays that compiled code uses as indices without a look.
INDICES = (
    "order", "cols", "store/capacity", "room", "child", "start", "arity", "kind", "code", "at", "population/feature",
    "archive/features", "archive/size", "alias", "listed", "members", "ends", "active", "also", "nodes", "complexity",
    "width", "depth",
)  # fmt: skip


def _without(taken: Snapshot, name: str, array: np.ndarray) -> Snapshot:
    del taken[name]
    return taken


def _as_objects(taken: Snapshot, name: str, array: np.ndarray) -> Snapshot:
    return taken | {name: array.astype(np.complex128)}


def _too_long(taken: Snapshot, name: str, array: np.ndarray) -> Snapshot:
    return taken | {name: np.stack([array, array])}


def _far_too_large(taken: Snapshot, name: str, array: np.ndarray) -> Snapshot | None:
    if array.dtype.kind not in "iu" or not array.size:
        return None
    return taken | {name: np.full_like(array, np.iinfo(array.dtype).max // 2)}


def _negative(taken: Snapshot, name: str, array: np.ndarray) -> Snapshot | None:
    return taken | {name: np.full_like(array, -7)} if array.dtype.kind == "i" and array.size else None


def test_the_table_of_a_restored_chain_knows_its_features() -> None:
    walk = genetic_walk("gaussian", projections=False)
    chain, again = walk.make(4), walk.make(5)
    walk.advance(chain, 10)
    again.restore(chain.snapshot())
    count = int(chain.table.scalars["count"])
    assert [again.feature(f) for f in range(count)] == [chain.feature(f) for f in range(count)]
