"""What a run leaves behind is freed at once: no chain is part of a cycle that waits for the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from running import enumerate_models, gmjmcmc, mjmcmc, rgmjmcmc

from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.problem.feature_problem import feature_problem
from modejump.problem.problem import Problem
from modejump.samplers.budget import Budget

RNG = np.random.default_rng(4)
X = RNG.uniform(0.5, 2.0, (40, 3))
Y = X[:, 0] * X[:, 1] + 0.1 * RNG.normal(size=40)
SELECTION = Problem.build(X, Y)
SEARCH = feature_problem(X, Y, "abc", transforms=[transforms["sin"]], space=Space(complexity=3, size=3))


@pytest.mark.parametrize(
    ("run", "problem", "options"),
    [
        (enumerate_models, SELECTION, {}),
        (mjmcmc, SELECTION, {"budget": Budget(steps=2_000)}),
        (gmjmcmc, SEARCH, {"chains": 2, "budget": Budget(steps=1_000)}),
        (rgmjmcmc, SEARCH, {"chains": 2, "budget": Budget(warmup=600, steps=2_000)}),
    ],
)
def test_nothing_of_ours_is_left_in_cycles(run: Callable[..., Any], problem: Any, options: dict[str, Any]) -> None:
    # The first run compiles.
    run(problem, **options)
    gc.collect()
    gc.disable()
    try:
        run(problem, **options)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = {type(thing).__name__ for thing in gc.garbage if type(thing).__module__.startswith("modejump")}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left
