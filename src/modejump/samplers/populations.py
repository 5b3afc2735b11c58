"""Settings of the populations of RGMJMCMC, the library, and the list of models to recall."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from modejump.core.errors import InputError
from modejump.core.random import alias_table
from modejump.features.nonlinear.expression import Feature
from modejump.kernels.moves import KERNELS
from modejump.kernels.populations.moves import POPULATION_MOVES, Recalled, index_models
from modejump.runtime.snapshots import Reader
from modejump.samplers.laws import best_first

# Models that a chain may recall: so many of the best at most, and none so far below the best.
RECALLED = 1000
RECALL_SPAN = 10.0
# They are drawn by this power of their posterior: a little flatter, so that none is hard to leave.
RECALL_POWER = 0.9


def _is_number(value: object) -> bool:
    """Whether something is a finite number."""
    return (
        isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool) and np.isfinite(value)
    )


@dataclass(frozen=True)
class Populations:
    """Settings of the populations of RGMJMCMC and of the moves between them.

    Parameters
    ----------
    steps : int, optional
        MJMCMC steps inside one population; default 100, and more for long columns, so that the fresh features of
        the next population cost no more than the steps.
    rate : float
        Expected number of fresh features drawn for a population.
    table : float
        Share of fresh features that are edits of library features; the others come from the grammar.
    moves : mapping of str to float, optional
        Weights of the moves between populations: "none", "literal", "delayed", "small", "coupled",
        "edit", "recall".
    kernels : mapping of str to float, optional
        Weights of the MJMCMC kernels inside a population.
    generated : int
        Features that a population of a literal move tries to generate.
    rho : float
        Probability of a flip in the randomisation; 0 for one over the size of the population.
    include : float
        Probability of each library feature to be in the population of a coupled move.
    search : int
        Moves tried by one search.
    """

    steps: int | None = None
    rate: float = 3.0
    table: float = 0.7
    moves: Mapping[str, float] | None = None
    kernels: Mapping[str, float] | None = None
    generated: int = 8
    rho: float = 0.0
    include: float = 0.5
    search: int = 40

    def __post_init__(self) -> None:
        for kind, given, known in (
            ("move between populations", self.moves, POPULATION_MOVES),
            ("kernel", self.kernels, KERNELS),
        ):
            for name, weight in (given or {}).items():
                if name not in known:
                    raise InputError(f"{name!r} is not a {kind}; choose among {', '.join(known)}.")
                if not (_is_number(weight) and weight >= 0):
                    raise InputError(f"the weight of the {kind} {name!r} is {weight!r}; give a number of at least 0.")
            if given is not None and not sum(given.values()) > 0:
                raise InputError(f"all weights are zero; give at least one {kind} a positive weight.")
        for name in ("table", "rho", "include"):
            value = getattr(self, name)
            if not (_is_number(value) and 0 <= value < 1) or (name == "include" and value == 0):
                raise InputError(f"{name} of the populations is {value!r}; give a probability below 1.")
        if not (_is_number(self.rate) and 0 < self.rate <= 16):
            raise InputError(f"rate of the populations is {self.rate!r}; give a number above 0 and at most 16.")
        for name, least in (("steps", 1), ("generated", 0), ("search", 0)):
            value = getattr(self, name)
            if name == "steps" and value is None:
                continue
            if not _is_number(value) or int(value) != value or value < least:
                raise InputError(f"{name} of the populations is {value!r}; give a whole number of at least {least}.")

    def length(self, places: int, rows: int) -> int:
        """Steps inside a population of so many places and columns of so many rows."""
        return int(self.steps) if self.steps is not None else max(100, int(self.rate * places * rows / 2000))

    def cumulative(self) -> np.ndarray:
        """Cumulative weights of the moves between populations."""
        given = self.moves or DEFAULT_MOVES
        weights = np.array([float(given.get(name, 0.0)) for name in POPULATION_MOVES])
        return np.cumsum(weights / weights.sum())


DEFAULT_MOVES = {"none": 0.45, "recall": 0.35, "edit": 0.15, "small": 0.03, "coupled": 0.02}


def no_list(words: int) -> Recalled:
    """Nothing to recall."""
    none = np.zeros(0)
    return Recalled(
        np.zeros((0, words), np.uint64),
        np.zeros(0, np.uint64),
        none,
        none,
        np.zeros(0, np.int64),
        np.zeros(1, np.int32),
    )


def list_of(words: np.ndarray, hashes: np.ndarray, probability: np.ndarray) -> Recalled:
    """A list of models to recall, indexed by their hashes as the cache of models is."""
    return Recalled(words, hashes, np.log(probability), *alias_table(probability), _index_of(hashes))


def read_list(reader: Reader, words: int) -> Recalled:
    """A list of models to recall from the snapshot of a chain."""
    listed = reader.array("words", np.uint64, (None, words))
    m = len(listed)
    if m == 0:
        return no_list(words)
    hashes = reader.array("hash", np.uint64, (m,))
    log_weight, threshold = (reader.array(name, np.float64, (m,)) for name in ("log_weight", "threshold"))
    return Recalled(
        listed, hashes, log_weight, threshold, reader.array("alias", np.int64, (m,), (0, m)), _index_of(hashes)
    )


def _index_of(hashes: np.ndarray) -> np.ndarray:
    slots = np.zeros(1 << int(4 * len(hashes) - 1).bit_length(), np.int32)
    index_models(hashes, slots)
    return slots


@dataclass(frozen=True, eq=False)
class Library:
    """The frozen features, with what warm-up thinks of them.

    Attributes
    ----------
    features : tuple of Feature
        Library features, by place.
    importance : ndarray
        Estimated inclusion probability of each.
    """

    features: tuple[Feature, ...]
    importance: np.ndarray


def recall_list(
    library: Library, models: Mapping[frozenset[Feature], float], zobrist: np.ndarray, width: int
) -> Recalled | None:
    """The list of models to recall: the best of those inside the library; None where there is none.

    Parameters
    ----------
    library : Library
        The frozen features.
    models : mapping
        Models with their log posterior.
    zobrist : ndarray of uint64
        Keys of the places.
    width : int
        Words of a model.
    """
    position = {f: i for i, f in enumerate(library.features)}
    inside = best_first({m: v for m, v in models.items() if all(f in position for f in m)})
    if not inside:
        return None
    top = inside[0][1]
    inside = [(m, v) for m, v in inside[:RECALLED] if v > top - RECALL_SPAN]
    words, hashes = np.zeros((len(inside), width), np.uint64), np.zeros(len(inside), np.uint64)
    for row, (model, _) in enumerate(inside):
        for f in model:
            words[row, position[f] >> 6] |= np.uint64(1) << np.uint64(position[f] & 63)
            hashes[row] ^= zobrist[position[f]]
    weight = np.exp(RECALL_POWER * (np.array([v for _, v in inside]) - top))
    return list_of(words, hashes, weight / weight.sum())
