"""The kernel mixture of MJMCMC: default weights, partner lists, and what warm-up learns about them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from modejump.core.errors import InputError
from modejump.core.random import alias_table
from modejump.kernels.moves import KERNELS, Moves
from modejump.likelihoods.glm.newton import Glm
from modejump.problem.problem import Problem
from modejump.samplers.settings import Sampler, weights_of

# Each term may be exchanged for at most so many correlated ones.
PARTNERS = 12
KERNEL_WEIGHTS = {
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


def first_moves(settings: Sampler, problem: Problem) -> Moves:
    """The kernel mixture before anything is learnt.

    Parameters
    ----------
    settings : Sampler
        Weights and settings.
    problem : Problem
        The target.
    """
    if settings.surrogate and not isinstance(problem.data.glm, Glm):
        raise InputError(
            "surrogate=True is for binomial, Poisson and gamma responses, whose fits take time; leave it out."
        )
    flips = alias_table(np.ones(problem.n_terms))
    return new_moves(settings, KERNEL_WEIGHTS, flips, partner_tables(problem.data.gram, problem.data.first))


def new_moves(
    settings: Sampler,
    weights: Mapping[str, float],
    flips: tuple[np.ndarray, np.ndarray],
    partners: tuple[np.ndarray, np.ndarray, np.ndarray],
    jump_max: int = 4,
    search: int = 40,
) -> Moves:
    """The kernel mixture by its alias table of flips and its tables of partners.

    Weights, largest mode jump and moves of a search count where the settings leave them open.
    """
    k = len(flips[0])
    return Moves(
        cumulative=np.cumsum(weights_of(settings.kernels or weights, KERNELS)),
        threshold=flips[0],
        alias=flips[1],
        partner=partners[0],
        partner_cdf=partners[1],
        partner_ratio=partners[2],
        rho=float(min(0.1, 1.0 / k) if settings.rho is None else settings.rho),
        jump_max=int(min(jump_max, k) if settings.jump_max is None else settings.jump_max),
        search=int(min(search, 2 * k) if settings.search is None else settings.search),
        temperature=float(settings.temperature),
        delayed=int(settings.delayed),
    )


def adapted(settings: Sampler, moves: Moves, inclusion: np.ndarray, tried: np.ndarray) -> Moves:
    """The same mixture with what warm-up has learnt.

    Parameters
    ----------
    settings : Sampler
        Weights asked for are kept as they are.
    moves : Moves
        The mixture so far.
    inclusion : ndarray of shape (K,)
        Inclusion probabilities as warm-up knows them: flips try uncertain terms more often.
    tried : ndarray of shape (kernels, 2)
        Proposals and acceptances of warm-up: kinds of mode jump that succeed get more of the jumps' weight.
    """
    threshold, alias = alias_table(flip_weights(inclusion))
    moves = moves._replace(threshold=threshold, alias=alias)
    if settings.kernels is not None:
        return moves
    weights = weights_of(KERNEL_WEIGHTS, KERNELS)
    jumps = np.array([name.startswith("jump") for name in KERNELS])
    rate = (tried[jumps, 1] + 0.5) / (tried[jumps, 0] + 100.0)
    # A jump costs about as much as a hundred flips: where none succeeds, it is worth little time.
    weights[jumps] *= np.clip(rate / GOOD_JUMP_RATE, 0.1, 2.0)
    return moves._replace(cumulative=np.cumsum(weights / weights.sum()))


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
