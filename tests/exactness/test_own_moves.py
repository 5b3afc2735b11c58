"""Moves that the package does not know, added to their registries: the sampler uses them, and stays exact."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from feature_experiments import Experiment, small_problem
from running import enumerate_models, mjmcmc
from test_moves_between import LEVEL, REPLICATIONS, SETTINGS, check, code_of

from modejump.core import handles
from modejump.core.compilation import kernel
from modejump.core.random import below, uniform
from modejump.kernels.moves import KERNELS, LOCAL_MOVES, Moves, add_local_move
from modejump.kernels.populations.between import Between
from modejump.kernels.populations.edit_move import edit_move
from modejump.kernels.populations.literal_move import small_move
from modejump.kernels.populations.moves import POPULATION_MOVES, add_population_move
from modejump.posterior import Posterior
from modejump.problem.problem import Problem
from modejump.samplers.budget import Budget
from modejump.samplers.settings import Sampler


@kernel
def shift(st, moves, rng, flips):  # type: ignore[no-untyped-def]
    """Exchange a term of the model for its right neighbour or, with even odds, its left one: symmetric."""
    k = len(st.member)
    if st.size == 0:
        return 0, 0.0
    i = st.order[below(rng, st.size)]
    j = (i + (1 if uniform(rng) < 0.5 else k - 1)) % k
    if st.member[j]:
        return 0, 0.0
    flips[0], flips[1] = i, j
    return 2, 0.0


@kernel
def grow(st, moves, rng, flips):  # type: ignore[no-untyped-def]
    """Broken on purpose: adds terms twice as often as it drops them, and does not say so."""
    k = len(st.member)
    if uniform(rng) < 2.0 / 3.0:
        if st.size == k:
            return 0, 0.0
        flips[0] = st.order[st.size + below(rng, k - st.size)]
        return 1, np.log((k - st.size) / (st.size + 1.0))
    if st.size == 0:
        return 0, 0.0
    flips[0] = st.order[below(rng, st.size)]
    return 1, np.log(st.size / (k - st.size + 1.0))


@kernel
def edit_or_small(fc, tried):  # type: ignore[no-untyped-def]
    if uniform(fc.chain.rng) < 0.5:
        return edit_move(fc, tried)
    return small_move(fc, tried)


@pytest.fixture
def local_moves() -> Iterator[None]:
    for name, move in (("shift", shift), ("grow", grow)):
        add_local_move(name, move)
    yield
    for name in ("shift", "grow"):
        del LOCAL_MOVES[name], KERNELS[KERNELS.index(name)]
    del handles._OUTSIDE[Moves]
    handles._TYPES.clear()


@pytest.fixture
def population_move() -> Iterator[None]:
    add_population_move("edit or small", edit_or_small)
    yield
    del POPULATION_MOVES["edit or small"], handles._OUTSIDE[Between]
    handles._TYPES.clear()


def errors_of(move: str) -> np.ndarray:
    """Inclusion frequencies under a local move and swaps, less the exact ones, in Monte Carlo errors."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(50, 6))
    problem = Problem.build(x, 0.3 * x[:, 0] - 0.2 * x[:, 2] + rng.normal(size=50))
    settings = Sampler(kernels={move: 0.7, "birth-death": 0.3})
    result = mjmcmc(problem, chains=4, budget=Budget(warmup=500, steps=100_000), seed=5, settings=settings)
    assert result.acceptance[move][0] > 1_000
    diagnostics = Posterior(problem, result).diagnostics
    assert diagnostics is not None
    return (diagnostics.frequency - enumerate_models(problem).renormalised) / diagnostics.mcse


def test_a_local_move_from_outside(local_moves: None) -> None:
    assert np.abs(errors_of("shift")).max() < 4.5
    assert np.abs(errors_of("grow")).max() > 10.0


def test_a_population_move_from_outside(population_move: None) -> None:
    experiment = Experiment(small_problem(seed=1), ("a", "b", "a*b"))
    ends = experiment.ends(code_of("edit or small"), SETTINGS, turns=3, replications=REPLICATIONS, seed=77)
    assert ends.moved > 0.02
    assert check(experiment, ends) > LEVEL
