"""The declared space of features: its limits, and the weights of the operators that move in it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from modejump.core.errors import InputError
from modejump.features.nonlinear.expression import MAX_COMPLEXITY
from modejump.features.table import MAX_CHILDREN

ALPHAS = ("ml", "ones", "random", "optimised")
# What the compiled tables of features have room for, far above what a search can reach.
MOST = {"depth": 64, "width": MAX_CHILDREN, "complexity": MAX_COMPLEXITY}
# Tree edits by share; each kind stands beside its inverse.
EDIT_WEIGHTS = {
    "insert": 0.45,
    "delete": 0.10,
    "swap_leaf": 0.20,
    "swap_function": 0.05,
    "strip": 0.10,
    "wrap": 0.10,
}
NEED_TRANSFORM = ("modification", "projection", "swap_function", "strip", "wrap")


@dataclass(frozen=True)
class Space:
    """Limits of the feature space, size of a population, and operator weights.

    Parameters
    ----------
    depth : int
        D, the largest depth of a feature.
    width : int
        L, the largest number of factors or parents at one node.
    complexity : int
        C, the largest complexity of a feature.
    size : int
        Q, the largest number of features in a model.
    population : int
        Features in a population, at least Q: a model is chosen among them.
    mutation, crossover, modification, projection : float
        P_m, P_c, P_t, P_p: what a new feature is made by. They sum to one.
    edits : float
        Share of new features that are made by an edit of a tree instead.
    alphas : {"ml", "ones", "random", "optimised"}
        Coefficients inside projections: those of the linear model of y by the parents (maximum likelihood), all one,
        random (a function of the feature), or optimised so that the projection itself fits y best.
    """

    depth: int = 5
    width: int = 6
    complexity: int = 12
    size: int = 15
    population: int = 25
    mutation: float = 0.3
    crossover: float = 0.45
    modification: float = 0.25
    projection: float = 0.0
    edits: float = 0.5
    alphas: str = "ml"

    def __post_init__(self) -> None:
        for name, least in (("depth", 0), ("width", 1), ("complexity", 1), ("size", 1), ("population", 1)):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
                raise InputError(f"{name} of the space is {value!r}; give a whole number of at least {least}.")
            if value > MOST.get(name, value):
                raise InputError(f"{name} of the space is {value!r}; it may be at most {MOST[name]}.")
        if self.population < self.size:
            raise InputError(
                f"population of the space is {self.population}, but models may have {self.size} features: give a "
                "population of at least that size, or a smaller size."
            )
        weights = [self.mutation, self.crossover, self.modification, self.projection]
        for name, value in zip(("mutation", "crossover", "modification", "projection"), weights, strict=True):
            if not (isinstance(value, (int, float)) and 0.0 <= value <= 1.0):
                raise InputError(f"{name} of the space is {value!r}; give a probability.")
        if not math.isclose(sum(weights), 1.0, abs_tol=1e-9):
            raise InputError(
                "mutation, crossover, modification and projection of the space sum to "
                f"{sum(weights):g}; they are probabilities of the four operators and sum to 1."
            )
        if not (isinstance(self.edits, (int, float)) and 0.0 <= self.edits < 1.0):
            raise InputError(f"edits of the space is {self.edits!r}; give a share of at least 0 and below 1.")
        if self.alphas not in ALPHAS:
            raise InputError(f"alphas of the space is {self.alphas!r}; choose one of {', '.join(ALPHAS)}.")

    def operator_weights(self, any_transform: bool) -> dict[str, float]:
        """Weights of all operators; those that need a transform give theirs away where there is none."""
        weights = {
            "mutation": self.mutation,
            "crossover": self.crossover,
            "modification": self.modification,
            "projection": self.projection,
        }
        weights = {name: (1.0 - self.edits) * w for name, w in weights.items()}
        weights |= {name: self.edits * w for name, w in EDIT_WEIGHTS.items()}
        if not any_transform:
            for name in NEED_TRANSFORM:
                weights[name] = 0.0
        total = sum(weights.values())
        if total <= 0:
            raise InputError("there is no transform, and only operators that need one have weight; add a transform.")
        return {name: w / total for name, w in weights.items()}
