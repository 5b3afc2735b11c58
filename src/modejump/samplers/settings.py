"""Settings of the samplers: weights of kernels and moves, searches, and populations of features."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.kernels.moves import KERNELS
from modejump.kernels.populations.between import SEARCHES
from modejump.kernels.populations.moves import POPULATION_MOVES


@dataclass(frozen=True)
class Sampler:
    """Settings of the samplers; the defaults suit most problems.

    Parameters
    ----------
    kernels : mapping of str to float, optional
        Relative weights of the MJMCMC kernels: "flip", "multi", "swap", "partner", "birth-death", "jump-greedy",
        "jump-anneal", "jump-tempered"; kernels not named get none. Default: a mixture that suits the algorithm.
    rho : float, optional
        Probability that the randomisation after the search of a mode jump flips a term; default one over their number.
    jump_max : int, optional
        Largest number of terms that a mode jump changes before its search.
    search : int, optional
        Moves tried by one search.
    temperature : float
        First temperature of annealing, and that of tempered steps.
    delayed : bool
        Delayed acceptance of mode jumps.
    surrogate : bool, optional
        Delayed acceptance of local moves by a surrogate, for generalised linear models; default where warm-up finds
        that most of the time would go into fits.
    moves : mapping of str to float, optional
        Relative weights of the moves between populations of RGMJMCMC: "none", "literal" (Theorem 1 of the paper),
        "delayed" (Theorem 2), "small", "coupled", "edit", "recall".
    population_steps : int, optional
        MJMCMC steps inside one population; default 100, and more for long columns.
    rate : float
        Expected number of fresh features drawn for a population.
    edits : float, optional
        Share of fresh features that are edits of library features; the others are drawn from the whole space. Default
        0.7, and 0.1 where features are plain covariates.
    generated : int
        Features that the operators try to generate for the population of a literal, delayed or small move.
    population_search : {"greedy", "annealing", "mcmc"}
        How these moves search inside their population.
    population_rho : float, optional
        Probability of a flip in the randomisation after that search; default one over the size of the population.
    include : float
        Probability of each library feature to be in the population of a coupled move.
    library : bool
        Whether warm-up searches for features, and freezes what it finds as part of every population.

    Examples
    --------
    >>> Sampler(kernels={"flip": 0.9, "jump-greedy": 0.1}).kernels
    {'flip': 0.9, 'jump-greedy': 0.1}
    >>> Sampler.paper().moves
    {'delayed': 1.0}
    """

    kernels: Mapping[str, float] | None = None
    rho: float | None = None
    jump_max: int | None = None
    search: int | None = None
    temperature: float = 2.0
    delayed: bool = True
    surrogate: bool | None = None
    moves: Mapping[str, float] | None = None
    population_steps: int | None = None
    rate: float = 3.0
    edits: float | None = None
    generated: int = 8
    population_search: str = "greedy"
    population_rho: float | None = None
    include: float = 0.5
    library: bool = True

    def __post_init__(self) -> None:
        for kind, given, known in (("kernel", self.kernels, KERNELS), ("move", self.moves, POPULATION_MOVES)):
            _check_weights(kind, given, known)
        for name in ("rho", "population_rho", "include"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0 < value < 1):
                raise InputError(f"{name} of the sampler is {value!r}; give a probability strictly between 0 and 1.")
        if self.edits is not None and not (_is_number(self.edits) and 0 <= self.edits < 1):
            raise InputError(f"edits of the sampler is {self.edits!r}; give a share of at least 0 and below 1.")
        if not (_is_number(self.rate) and 0 <= self.rate <= 16):
            raise InputError(f"rate of the sampler is {self.rate!r}; give a number from 0 to 16.")
        if not (_is_number(self.temperature) and self.temperature > 0):
            raise InputError(f"temperature of the sampler is {self.temperature!r}; give a positive number.")
        if self.population_search not in SEARCHES:
            raise InputError(
                f"population_search of the sampler is {self.population_search!r}; choose one of {', '.join(SEARCHES)}."
            )
        for name, least in (("jump_max", 1), ("search", 0), ("population_steps", 0), ("generated", 0)):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and int(value) == value and value >= least):
                raise InputError(f"{name} of the sampler is {value!r}; give a whole number of at least {least}.")

    @classmethod
    def paper(cls) -> Sampler:
        """RGMJMCMC as the paper states it: Theorem 2, with the ratio put right.

        Every step draws a population from the present model by the operators, searches it by 250 steps of MCMC,
        randomises, and goes back the same way. There is no library, and no model is recalled.
        """
        return cls(
            moves={"delayed": 1.0},
            population_steps=0,
            rate=0.0,
            search=250,
            temperature=1.0,
            population_search="mcmc",
            generated=25,
            library=False,
        )

    @classmethod
    def resolve(cls, value: Any) -> Sampler:
        """The settings that None, "paper" or an object stands for."""
        if value is None:
            return cls()
        if isinstance(value, cls):
            return value
        if value == "paper":
            return cls.paper()
        raise InputError(f"sampler must be None, 'paper' or a modejump.Sampler; got {value!r}.")

    def inside_population(self, places: int, rows: int) -> int:
        """Steps inside a population of so many places, whose columns have so many rows.

        For long columns more, so that the fresh features of the next population cost no more than the steps.
        """
        if self.population_steps is not None:
            return int(self.population_steps)
        return max(100, int(self.rate * places * rows / 2000))


def weights_of(given: Mapping[str, float], names: Iterable[str]) -> np.ndarray:
    """Weights in the order of the names, which sum to one."""
    weights = np.array([float(given.get(name, 0.0)) for name in names])
    return np.asarray(weights / weights.sum())


def _check_weights(kind: str, given: Mapping[str, float] | None, known: Collection[str]) -> None:
    if given is None:
        return
    for name, weight in given.items():
        if name not in known:
            raise InputError(f"{name!r} is not a {kind} of the sampler; choose among {', '.join(known)}.")
        if not (_is_number(weight) and weight >= 0):
            raise InputError(f"the weight of the {kind} {name!r} is {weight!r}; give a number of at least 0.")
    if not sum(given.values()) > 0:
        raise InputError(f"all weights are zero; give at least one {kind} of the sampler a positive weight.")


def _is_number(value: object) -> bool:
    """Whether something is a finite number."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and math.isfinite(value)
