"""The declared space of features: its limits, and the weights of the operators that move in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.features.nonlinear.expression import MAX_COMPLEXITY
from modejump.features.nonlinear.transforms import Transforms
from modejump.features.table import MAX_CHILDREN

ALPHAS = ("ml", "ones", "random", "optimised")
# What the compiled tables of features have room for, far above what a search can reach.
MOST = {"depth": 64, "width": MAX_CHILDREN, "complexity": MAX_COMPLEXITY}
MOST_CONSTANTS = 8
PUBLISHED = Transforms.SETS
# Tree edits by share; each kind stands beside its inverse.
EDIT_WEIGHTS = {"insert": 0.45, "delete": 0.10, "swap_leaf": 0.20, "swap_function": 0.05, "strip": 0.10, "wrap": 0.10}
NEED_TRANSFORM = ("modification", "projection", "swap_function", "strip", "wrap")


RULES = ("laws", "paper")
# What limits are where the user gives none.
LIMITS = {"laws": {"depth": 3, "width": 6, "complexity": 16}, "paper": {"depth": 5, "width": 6, "complexity": 12}}
CONSTANTS = 4
OPERATORS = ("mutation", "crossover", "modification", "projection")


@dataclass(frozen=True)
class Space:
    """Limits of the feature space, size of a population, and operator weights.

    Parameters
    ----------
    depth : int, optional
        D, the largest depth of a feature; 3 for laws, 5 by the paper's rules.
    width : int, optional
        L, the largest number of factors, terms or parents at one node; 6.
    complexity : int, optional
        C, the largest complexity of a feature; 16 for laws, 12 by the paper's rules.
    size : int
        Q, the largest number of features in a model.
    population : int
        Features in a population, at least Q: a model is chosen among them.
    mutation, crossover, modification, projection : float
        P_m, P_c, P_t, P_p: weights of what a new feature is made by. What counts is their share of the sum.
    edits : float
        Share of new features that are made by an edit of a tree instead.
    alphas : {"ml", "ones", "random", "optimised"}
        Coefficients inside projections: those of the linear model of y by the parents (maximum likelihood), all one,
        random (a function of the feature), or optimised so that the projection itself fits y best.
    rules : {"laws", "paper"}, optional
        Which features there are. "laws": products of powers, functions of sums, and constants fitted inside them.
        "paper": products, modifications and projections, as published. By default the paper's rules where the
        transforms are a published set or `projection` or `alphas` are given, and laws otherwise.
    constants : bool or int, optional
        Laws: the largest number of constants inside a feature; True for 4, which is the default, False for none.
    units : mapping from str to str, optional
        Laws: units of columns, such as {"L": "m", "g": "m/s^2"}; a column without one has dimension one. Features
        that add unlike quantities, or take a function of a quantity with a unit, are not in the space. Needs pint.
    target_unit : str, optional
        Unit of the response.
    strict_units : bool
        Whether features must have the unit of the response, if one is given, unless they have a constant: the
        coefficient of any other would carry a unit.

    Examples
    --------
    >>> Space(units={"L": "m", "g": "m/s^2"}, target_unit="s").resolved(["sqrt", "inv"]).rules
    'laws'
    >>> Space().resolved(["sigmoid", "sin", "tanh", "atan", "troot"]).depth
    5
    """

    # Open until the rules are known, see `resolved`; whoever reads them has a resolved space.
    depth: int = None  # type: ignore[assignment]
    width: int = None  # type: ignore[assignment]
    complexity: int = None  # type: ignore[assignment]
    size: int = 15
    population: int = 25
    mutation: float = 0.3
    crossover: float = 0.45
    modification: float = 0.25
    projection: float = 0.0
    edits: float = 0.5
    alphas: str = "ml"
    rules: str | None = None
    constants: bool | int | None = None
    units: Mapping[str, str] | None = None
    target_unit: str | None = None
    strict_units: bool = True

    def __post_init__(self) -> None:
        for name, least in (("depth", 0), ("width", 1), ("complexity", 1), ("size", 1), ("population", 1)):
            value = getattr(self, name)
            if value is None and name in LIMITS["laws"]:
                continue
            if not _is_whole(value) or value < least:
                raise InputError(f"{name} of the space is {value!r}; give a whole number of at least {least}.")
            if value > MOST.get(name, value):
                raise InputError(f"{name} of the space is {value!r}; it may be at most {MOST[name]}.")
        if self.population < self.size:
            raise InputError(
                f"population of the space is {self.population}, but models may have {self.size} features: give a "
                "population of at least that size, or a smaller size."
            )
        for name in OPERATORS:
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and 0.0 <= value < math.inf):
                raise InputError(f"{name} of the space is {value!r}; give a weight of at least 0.")
        if not sum(getattr(self, name) for name in OPERATORS) > 0.0:
            raise InputError(
                "mutation, crossover, modification and projection of the space are all 0; give one a weight."
            )
        if not (isinstance(self.edits, (int, float)) and 0.0 <= self.edits < 1.0):
            raise InputError(f"edits of the space is {self.edits!r}; give a share of at least 0 and below 1.")
        if self.alphas not in ALPHAS:
            raise InputError(f"alphas of the space is {self.alphas!r}; choose one of {', '.join(ALPHAS)}.")
        self._check_laws()

    def _check_laws(self) -> None:
        if self.rules not in (None, *RULES):
            raise InputError(f"rules of the space are {self.rules!r}; choose 'laws' or 'paper', or leave them out.")
        given = self.constants
        if (
            given is not None
            and not isinstance(given, bool)
            and not (_is_whole(given) and 0 <= given <= MOST_CONSTANTS)
        ):
            raise InputError(
                f"constants of the space is {given!r}; give True, False or a whole number from 0 to {MOST_CONSTANTS}."
            )
        if self.target_unit is not None and self.units is None:
            raise InputError("target_unit of the space is given, but units are not; give the units of the columns too.")
        paper, laws = self._asks_for_paper(), bool(self.constants) or self.units is not None
        if paper and (laws or self.rules == "laws"):
            raise InputError(
                "projection and alphas of the space are the paper's, and constants, units and rules='laws' are not; "
                "leave out one or the other."
            )
        if laws and self.rules == "paper":
            raise InputError("constants and units of the space need rules='laws'; leave them out, or change the rules.")

    def _asks_for_paper(self) -> bool:
        return self.projection > 0.0 or self.alphas != "ml"

    @property
    def max_constants(self) -> int:
        """The largest number of constants inside a feature."""
        given = True if self.constants is None else self.constants
        return CONSTANTS if given is True else int(given)

    def resolved(self, transforms: Iterable[str]) -> Space:
        """The space with its rules, chosen by the names of the transforms where they are open, and all limits."""
        if self.rules is None and not self.constants and self.units is None:
            published = any(set(transforms) == set(names) for names in PUBLISHED.values())
            return self.by_rules("paper" if published or self._asks_for_paper() else "laws")
        return self.by_rules(self.rules or "laws")

    def by_rules(self, rules: str) -> Space:
        """The space by these rules, with all limits; InputError where it asks for others."""
        if self.rules not in (None, rules):
            raise InputError(f"the space has rules={self.rules!r}, which are not those of this search: {rules!r}.")
        given: dict[str, Any] = {name: getattr(self, name) for name in LIMITS[rules]}
        limits: dict[str, Any] = {name: LIMITS[rules][name] if v is None else v for name, v in given.items()}
        return replace(self, rules=rules, **limits)

    def operator_weights(self, any_transform: bool) -> dict[str, float]:
        """Weights of all operators; those that need a transform give theirs away where there is none."""
        weights = {name: float(getattr(self, name)) for name in OPERATORS}
        given = sum(weights.values())
        if not math.isclose(given, 1.0, abs_tol=1e-9):
            weights = {name: w / given for name, w in weights.items()}
        weights = {name: (1.0 - self.edits) * w for name, w in weights.items()}
        weights |= {name: self.edits * w for name, w in EDIT_WEIGHTS.items()}
        if not any_transform:
            for name in NEED_TRANSFORM:
                weights[name] = 0.0
        total = sum(weights.values())
        if total <= 0:
            raise InputError("there is no transform, and only operators that need one have weight; add a transform.")
        return {name: w / total for name, w in weights.items()}


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
