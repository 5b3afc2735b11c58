"""The kernel mixture of MJMCMC: default weights, partner lists, and their adaptation in warm-up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from modejump.core.errors import InputError
from modejump.core.random import alias_table
from modejump.kernels.moves import KERNELS, Moves
from modejump.likelihoods.glm.newton import Glm
from modejump.problem.problem import Problem

# Each term may be exchanged for at most so many correlated ones.
PARTNERS = 12
DEFAULT_WEIGHTS = {
    "flip": 0.80,
    "partner": 0.09,
    "swap": 0.06,
    "multi": 0.02,
    "birth-death": 0.02,
    "jump-greedy": 0.004,
    "jump-anneal": 0.003,
    "jump-tempered": 0.003,
}
# Mode jumps accepted at this rate keep their default weight.
GOOD_JUMP_RATE = 0.02
# Share of flips that choose any term alike, however certain it looks.
UNIFORM_SHARE = 0.25
# Estimated inclusion probabilities are kept so far from 0 and 1.
CERTAIN = 1e-6
# What a partner that is never in counts beside one that always is.
UNLIKELY = 0.02


@dataclass(frozen=True)
class Mixture:
    """Weights and settings of the kernels.

    Parameters
    ----------
    weights : mapping of kernel name to weight, optional
        Relative weights; kernels not named get none. Default: a mixture that suits the number of terms.
    rho : float, optional
        Probability that the randomisation after a search flips a term; default 1/K, at most 0.1.
    jump_max : int, optional
        Largest index set of a mode jump.
    search : int, optional
        Moves tried by one search.
    temperature : float
        First temperature of annealing, and that of tempered steps.
    delayed : bool
        Delayed acceptance of mode jumps.
    surrogate : bool, optional
        Delayed acceptance of local moves by a surrogate, for responses that are not Gaussian; default where warm-up
        finds that most of the time would go into fits.
    """

    weights: Mapping[str, float] | None = None
    rho: float | None = None
    jump_max: int | None = None
    search: int | None = None
    temperature: float = 2.0
    delayed: bool = True
    surrogate: bool | None = None

    def __post_init__(self) -> None:
        for name, weight in (self.weights or {}).items():
            if name not in KERNELS:
                raise InputError(f"{name!r} is not a kernel; the kernels are {', '.join(KERNELS)}.")
            if not 0 <= weight < math.inf:
                raise InputError(f"the weight of kernel {name!r} is {weight!r}; give a number of at least 0.")
        if self.weights is not None and not sum(self.weights.values()) > 0:
            raise InputError("all kernel weights are zero; give at least one a positive weight.")
        if self.rho is not None and not 0 < self.rho < 1:
            raise InputError(f"rho is {self.rho!r}; it is a probability strictly between 0 and 1.")
        if not 0 < self.temperature < math.inf:
            raise InputError(f"temperature is {self.temperature!r}; give a positive number.")
        for name, value, least in (("jump_max", self.jump_max, 1), ("search", self.search, 0)):
            if value is not None and (int(value) != value or value < least):
                raise InputError(f"{name} is {value!r}; give a whole number of at least {least}.")

    def compile(self, problem: Problem) -> Moves:
        """Settings for the compiled kernels before anything is learnt."""
        k = problem.n_terms
        if self.surrogate and not isinstance(problem.data.glm, Glm):
            raise InputError(
                "surrogate=True is for binomial, Poisson and gamma responses, whose fits take time; leave it out."
            )
        weights = self._weights(None)
        threshold, alias = alias_table(np.ones(k))
        partner, cdf, ratio = partner_tables(problem.data.gram, problem.data.first)
        return Moves(
            np.cumsum(weights / weights.sum()),
            threshold,
            alias,
            partner,
            cdf,
            ratio,
            float(self.rho if self.rho is not None else min(0.1, 1.0 / k)),
            int(self.jump_max if self.jump_max is not None else min(4, k)),
            int(self.search if self.search is not None else min(2 * k, 40)),
            float(self.temperature),
            int(self.delayed),
        )

    def adapt(self, moves: Moves, inclusion: np.ndarray, tried: np.ndarray) -> Moves:
        """The same settings with what warm-up has learnt.

        Parameters
        ----------
        moves : Moves
            Settings so far.
        inclusion : ndarray of shape (K,)
            Inclusion probabilities as warm-up knows them: flips try uncertain terms more often.
        tried : ndarray of shape (kernels, 2)
            Proposals and acceptances of warm-up: kinds of mode jump that succeed get more of the jumps' weight.
        """
        weights = self._weights(tried)
        threshold, alias = alias_table(flip_weights(inclusion))
        return moves._replace(cumulative=np.cumsum(weights / weights.sum()), threshold=threshold, alias=alias)

    def _weights(self, tried: np.ndarray | None) -> np.ndarray:
        """Weights asked for are kept as they are; the default ones move weight to jumps that succeed."""
        if self.weights is not None:
            return np.array([float(self.weights.get(name, 0.0)) for name in KERNELS])
        weights = np.array([DEFAULT_WEIGHTS[name] for name in KERNELS])
        if tried is not None:
            jumps = np.array([name.startswith("jump") for name in KERNELS])
            rate = (tried[jumps, 1] + 0.5) / (tried[jumps, 0] + 100.0)
            # A jump costs about as much as a hundred flips: where none succeeds, it is worth little time.
            weights[jumps] *= np.clip(rate / GOOD_JUMP_RATE, 0.1, 2.0)
        return weights


def flip_weights(inclusion: np.ndarray) -> np.ndarray:
    """How often a flip tries each term: in proportion to its indicator's standard deviation, with a floor."""
    p = np.clip(inclusion, CERTAIN, 1.0 - CERTAIN)
    spread = np.sqrt(p * (1.0 - p))
    return (1.0 - UNIFORM_SHARE) * spread / spread.sum() + UNIFORM_SHARE / len(p)


def partner_tables(
    gram: np.ndarray, first: np.ndarray, inclusion: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each term the terms most correlated with it, the probabilities T, and log T(j, i) - log T(i, j).

    Parameters
    ----------
    gram : ndarray of shape (p, p)
        Correlations of the columns.
    first : ndarray of shape (K + 1,)
        First column of each term.
    inclusion : ndarray of shape (K,), optional
        Estimated inclusion probabilities: partners that are likely to be in come first.
    """
    k = len(first) - 1
    count = min(PARTNERS, k - 1)
    if count <= 0:
        return np.zeros((k, 0), np.int64), np.zeros((k, 0)), np.zeros((k, 0))
    likely = np.ones(k) if inclusion is None else inclusion + UNLIKELY
    partner = np.empty((k, count), np.int64)
    strength = np.empty((k, count))
    for t in range(k):
        rows = gram[first[t] : first[t + 1]] ** 2
        squared = np.maximum.reduceat(rows.max(axis=0), first[:-1]) * likely
        squared[t] = -1.0
        best = np.argsort(-squared, kind="stable")[:count]
        partner[t], strength[t] = best, squared[best] + 1e-3 * likely[best]
    prob = strength / strength.sum(axis=1, keepdims=True)
    keys = (np.arange(k)[:, None] * k + partner).ravel()
    back = (partner * k + np.arange(k)[:, None]).ravel()
    order = np.argsort(keys)
    at = np.minimum(np.searchsorted(keys[order], back), len(keys) - 1)
    found = keys[order][at] == back
    with np.errstate(divide="ignore"):
        back_log = np.where(found, np.log(prob.ravel()[order][at]), -np.inf)
    ratio = back_log.reshape(k, count) - np.log(prob)
    return partner, np.cumsum(prob, axis=1), ratio
