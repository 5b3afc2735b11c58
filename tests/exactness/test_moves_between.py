"""RGMJMCMC: every kernel leaves the posterior over an enumerated space of features as it is, and long runs find it.

Gandy and Scott's unit test, as for the kernels on a fixed list of features: draw a model from the enumerated
posterior, make a few moves, and compare the law of the end with the posterior. Kernels that are broken on purpose must
fail it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import reversible_mutants
from feature_experiments import LEAST_EXPECTED, MIXTURE, Ends, Experiment, small_problem
from reversible_mutants import MUTANTS, UNBROKEN, Mutant
from scipy.stats import chi2

from modejump.experiments.spaces import feature_columns
from modejump.kernels.populations.between import MOVED, ZERO_REVERSE
from modejump.kernels.populations.moves import POPULATION_MOVES
from modejump.priors.coefficients import COEF_PRIORS
from modejump.samplers.settings import Sampler

LEVEL = 1e-4
CAUGHT = 1e-8
REPLICATIONS = 100_000
TURNS = 3

CASES: dict[str, tuple[dict[str, Any], Sequence[str]]] = {
    "canonical": ({"seed": 1}, ("a", "b", "a*b")),
    "collinear, trees": (
        {
            "seed": 5, "columns": 3, "complexity": 2, "size": 3, "a": 0.3, "collinear": "combination",
            "spelling": "trees",
        },
        ("a", "b"),
    ),
    "projections": ({"seed": 7, "projections": True, "a": 0.5}, ("a", "b")),
    "no library": ({"seed": 6}, ()),
    "three covariates": ({"seed": 2, "columns": 3, "complexity": 3}, ("a",)),
    "two functions": ({"seed": 3, "functions": ("sin", "troot"), "complexity": 3, "size": 3, "depth": 1}, ("a", "b")),
    "a copy": ({"seed": 4, "columns": 3, "complexity": 3, "size": 3, "collinear": "copy", "a": 0.3}, ("a", "sin(b)")),
    "a copy, projections": (
        {"seed": 8, "columns": 3, "complexity": 4, "collinear": "copy", "projections": True}, ("a", "b*c"),
    ),
    "trees": ({"seed": 9, "width": 3, "spelling": "trees", "a": 0.3}, ("a", "b*b")),
    "few rows": ({"seed": 10, "rows": 5, "size": 3, "complexity": 3, "a": 0.3}, ("b", "a*b")),
    "large library": ({"seed": 12, "complexity": 3}, ("a", "b", "a*b", "a*a", "b*b", "sin(a)", "sin(b)")),
}  # fmt: skip
ALWAYS = ("canonical", "collinear, trees", "projections")
SETTINGS = Sampler(
    population_steps=5, generated=4, search=5, population_rho=0.2, moves=dict.fromkeys(POPULATION_MOVES, 1.0)
)
OTHER_SETTINGS = {
    "rho by size": {"population_rho": None},
    "large rho": {"population_rho": 0.6, "generated": 12},
    "no search": {"search": 0},
    "nothing generated": {"generated": 0},
    "no edits": {"edits": 0.0, "rate": 0.5},
    "many fresh features": {"rate": 16.0, "edits": 0.9, "include": 0.1},
    "search by annealing": {"population_search": "annealing"},
    "search by mcmc": {"population_search": "mcmc", "temperature": 1.0},
    "jumps": {"kernels": {"jump-greedy": 1, "jump-anneal": 1, "jump-tempered": 1, "birth-death": 1}},
}


@cache
def experiment_of(case: str, **options: Any) -> Experiment:
    given, library = CASES[case]
    return Experiment(small_problem(**{**given, **options}), library)


def code_of(move: str) -> int:
    return MIXTURE if move == "mixture" else list(POPULATION_MOVES).index(move)


def tolerance(experiment: Experiment, rows: np.ndarray) -> np.ndarray:
    """How far two computations of a log posterior may be apart: a Gram matrix squares the condition of the columns."""
    z = feature_columns(experiment.problem, experiment.exact.features).z
    models = [list(experiment.exact.models[row]) for row in rows]
    condition = np.array([np.linalg.cond(z[m]) if m else 1.0 for m in models])
    return 1e-9 + 100.0 * np.finfo(float).eps * condition**2


def check(experiment: Experiment, ends: Ends) -> float:
    """p-value of stationarity; the chain's own log posteriors are the exact ones."""
    rows = np.unique(ends.ends)
    assert np.isfinite(experiment.exact.log_posterior[rows]).all(), "the chain stays where the posterior is positive"
    worst = np.zeros(len(experiment.exact.models))
    np.maximum.at(worst, ends.ends, np.abs(ends.values - experiment.exact.log_posterior[ends.ends]))
    assert (worst[rows] <= tolerance(experiment, rows)).all()
    return experiment.p_value(ends)


@pytest.mark.parametrize("move", [*POPULATION_MOVES, "mixture"])
@pytest.mark.parametrize("case", [c if c in ALWAYS else pytest.param(c, marks=pytest.mark.full) for c in CASES])
def test_move_leaves_the_posterior(case: str, move: str) -> None:
    if move == "recall" and not CASES[case][1]:
        pytest.skip("without a library there is one model to recall")
    experiment = experiment_of(case)
    seed = 100 * list(CASES).index(case) + code_of(move)
    ends = experiment.ends(code_of(move), SETTINGS, turns=TURNS, replications=REPLICATIONS, seed=1000 + seed)
    assert ends.moved > 0.02, "the chain moves"
    if move in ("literal", "delayed", "small"):
        assert ends.tried[code_of(move), ZERO_REVERSE] > 0
    assert check(experiment, ends) > LEVEL


@pytest.mark.parametrize("case", [c for c in CASES if c not in ALWAYS])
def test_mixture_leaves_the_posterior(case: str) -> None:
    experiment = experiment_of(case)
    seed = 2000 + list(CASES).index(case)
    ends = experiment.ends(MIXTURE, SETTINGS, turns=2, replications=REPLICATIONS // 2, seed=seed)
    moved = ends.tried[1:, MOVED] > 0
    assert moved[:-1].all() and moved[-1] == bool(CASES[case][1]), "each move finds another model"
    assert ends.moved > 0.1
    assert check(experiment, ends) > LEVEL


@pytest.mark.parametrize("options", OTHER_SETTINGS)
def test_other_settings_leave_the_posterior(options: str) -> None:
    experiment = experiment_of("canonical")
    settings = Sampler(**{**vars(SETTINGS), **OTHER_SETTINGS[options]})
    seed = 3000 + list(OTHER_SETTINGS).index(options)
    ends = experiment.ends(MIXTURE, settings, turns=2, replications=REPLICATIONS // 2, seed=seed)
    assert ends.moved > 0.1
    assert check(experiment, ends) > LEVEL


@pytest.mark.parametrize("case", ["canonical", "no library"])
def test_the_algorithm_as_printed_leaves_the_posterior(case: str) -> None:
    experiment = experiment_of(case)
    settings = dataclasses.replace(Sampler.paper(), search=20, generated=6)
    ends = experiment.ends(code_of("delayed"), settings, turns=3, replications=REPLICATIONS, seed=3500)
    assert ends.moved > 0.02
    assert check(experiment, ends) > LEVEL


@pytest.mark.full
@pytest.mark.parametrize("options", OTHER_SETTINGS)
@pytest.mark.parametrize("move", POPULATION_MOVES)
def test_each_move_leaves_the_posterior_at_any_setting(move: str, options: str) -> None:
    experiment = experiment_of("a copy, projections")
    settings = Sampler(**{**vars(SETTINGS), **OTHER_SETTINGS[options]})
    seed = 4000 + 100 * list(OTHER_SETTINGS).index(options) + code_of(move)
    ends = experiment.ends(code_of(move), settings, turns=2, replications=REPLICATIONS, seed=seed)
    assert check(experiment, ends) > LEVEL


@pytest.mark.parametrize(
    "prior",
    [p if p in ("jeffreys", "bic") else pytest.param(p, marks=pytest.mark.full) for p in COEF_PRIORS],
)
@pytest.mark.parametrize("spelling", ["canonical", "trees"])
def test_mixture_leaves_the_posterior_of_each_coefficient_prior(prior: str, spelling: str) -> None:
    experiment = experiment_of("canonical", coef_prior=prior, spelling=spelling)
    seed = 5000 + list(COEF_PRIORS).index(prior)
    ends = experiment.ends(MIXTURE, SETTINGS, turns=2, replications=40_000, seed=seed)
    assert ends.moved > 0.05
    assert check(experiment, ends) > LEVEL


@pytest.mark.parametrize("move", POPULATION_MOVES)
def test_move_is_reversible(move: str) -> None:
    experiment = experiment_of("large library" if move == "recall" else "three covariates")
    ends = experiment.ends(code_of(move), SETTINGS, turns=1, replications=REPLICATIONS, seed=6000 + code_of(move))
    p_value, pairs = symmetry(ends, len(experiment.exact.models))
    assert pairs >= 10
    assert p_value > LEVEL


def symmetry(ends: Ends, count: int) -> tuple[float, int]:
    """p-value of the test that (start, end) counts are symmetric, and how many pairs were frequent enough."""
    table = np.bincount(ends.starts * count + ends.ends, minlength=count * count).reshape(count, count).astype(float)
    upper = np.triu_indices(count, 1)
    there, back = table[upper], table.T[upper]
    frequent = there + back >= 2 * LEAST_EXPECTED
    statistic = ((there - back)[frequent] ** 2 / (there + back)[frequent]).sum()
    return float(chi2.sf(statistic, int(frequent.sum()))), int(frequent.sum())


# --- mutants ----------------------------------------------------------------------------------------------------


@cache
def mutant_experiment() -> Experiment:
    return Experiment(small_problem(1, a=0.5), ("a", "b"))


def mutant_p_value(mutant: Mutant, move: str) -> float:
    experiment = mutant_experiment()
    ends = experiment.ends(
        code_of(move), reversible_mutants.settings_of(mutant), turns=TURNS, replications=REPLICATIONS, seed=7,
        run=reversible_mutants.broken_driver(), prepare=reversible_mutants.switch(mutant),
    )  # fmt: skip
    return experiment.p_value(ends)


@pytest.mark.parametrize(
    ("mutant", "move"),
    [
        pytest.param(m, move, id=f"{m.what}, {move}", marks=[pytest.mark.full] if i else [])
        for m in MUTANTS
        for i, move in enumerate(m.moves)
    ],
)
def test_a_broken_move_is_caught(mutant: Mutant, move: str) -> None:
    assert mutant_p_value(mutant, move) < CAUGHT


@pytest.mark.parametrize("move", UNBROKEN.moves)
def test_the_same_moves_unbroken_pass(move: str) -> None:
    assert mutant_p_value(UNBROKEN, move) > LEVEL
