"""Small problems for tests of a census, and least squares to compare it with."""

from __future__ import annotations

import numpy as np

from modejump import transforms
from modejump.features.laws.language import Laws
from modejump.features.laws.powers import LAW_TRANSFORMS
from modejump.features.nonlinear.space import Space
from modejump.problem.feature_problem import FeatureProblem, problem_over

NAMES = ("a", "b", "k", "d")


def language_of(functions=LAW_TRANSFORMS, names=NAMES, **limits) -> Laws:
    return Laws(names, [transforms[name] for name in functions], Space(**limits))


def problem_of(law, noise: float = 0.01, rows: int = 200, language: Laws | None = None) -> FeatureProblem:
    """A law of four columns with noise."""
    rng = np.random.default_rng(7)
    x = rng.uniform(0.5, 3.0, size=(rows, 4))
    y = law(*x.T)
    return problem_over(
        x, y + noise * y.std() * rng.normal(size=rows), language or language_of(), coef_prior="jeffreys"
    )


def share_left(columns: list[np.ndarray], target: np.ndarray) -> float:
    """Squared length of what columns leave of a target."""
    x = np.array(columns).T
    return float(np.sum((target - x @ np.linalg.lstsq(x, target, rcond=None)[0]) ** 2))
