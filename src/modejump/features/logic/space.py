"""The declared space of logic features: its limits, and the weights of the operators that move in it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from modejump.core.errors import InputError
from modejump.features.logic.functions import MOST_LEAVES

# Edits by share; each kind stands beside its inverse.
EDIT_WEIGHTS = {"grow": 0.35, "drop": 0.15, "swap": 0.3, "reshape": 0.2}


@dataclass(frozen=True)
class LogicSpace:
    """Limits of the space of logic features, size of a population, and operator weights.

    Parameters
    ----------
    leaves : int, optional
        C, the largest number of leaves of a feature, counted in its shortest spelling; at most 5, which is also the
        default where there are as many covariates.
    size : int
        Q, the largest number of features in a model.
    population : int
        Features in a population, at least Q: a model is chosen among them.
    mutation, crossover : float
        What a new feature is made by: a covariate, or two features joined by "and" or "or". They sum to one.
    edits : float
        Share of new features that are made by an edit instead: one more leaf, one less, another leaf in the place of
        one, another way to join them.

    Examples
    --------
    >>> LogicSpace(leaves=3, size=5, population=12).complexity
    3
    """

    leaves: int | None = None
    size: int = 20
    population: int = 40
    mutation: float = 0.4
    crossover: float = 0.6
    edits: float = 0.5

    def __post_init__(self) -> None:
        for name in ("leaves", "size", "population"):
            value = getattr(self, name)
            if name == "leaves" and value is None:
                continue
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
                raise InputError(f"{name} of the logic space is {value!r}; give a whole number of at least 1.")
        if self.leaves is not None and self.leaves > MOST_LEAVES:
            raise InputError(f"leaves of the logic space is {self.leaves}; it may be at most {MOST_LEAVES}.")
        if self.population < self.size:
            raise InputError(
                f"population of the logic space is {self.population}, but models may have {self.size} features: give a "
                "population of at least that size, or a smaller size."
            )
        for name in ("mutation", "crossover", "edits"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and 0.0 <= value <= 1.0):
                raise InputError(f"{name} of the logic space is {value!r}; give a probability.")
        if not math.isclose(self.mutation + self.crossover, 1.0, abs_tol=1e-9):
            raise InputError(
                f"mutation and crossover of the logic space sum to {self.mutation + self.crossover:g}; they are "
                "probabilities of the two operators and sum to 1."
            )

    @property
    def complexity(self) -> int:
        """The largest complexity, which is the number of leaves."""
        return MOST_LEAVES if self.leaves is None else int(self.leaves)

    def among(self, covariates: int) -> LogicSpace:
        """The space of so many covariates, with a number of leaves."""
        if self.leaves is not None and self.leaves > covariates:
            raise InputError(
                f"features may have {self.leaves} leaves, but there are only {covariates} binary covariates; give a "
                f"space of fewer leaves, such as LogicSpace(leaves={covariates})."
            )
        return dataclasses.replace(self, leaves=min(self.complexity, covariates))

    def operator_weights(self) -> dict[str, float]:
        """Weights of all operators."""
        made = {"mutation": self.mutation, "crossover": self.crossover}
        made = {name: (1.0 - self.edits) * weight for name, weight in made.items()}
        return made | {name: self.edits * weight for name, weight in EDIT_WEIGHTS.items()}
