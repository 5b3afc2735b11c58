"""Local proposals: each fills in the terms that flip and returns the log of its true proposal ratio.

Every proposal is small and knows nothing of acceptance, which is written once in ``accept``. A move that cannot be
made from the present model returns no flips: the chain stays, which keeps the kernel exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from modejump.core.compilation import kernel, switch
from modejump.core.handles import note_outside
from modejump.core.random import below, draw_alias, uniform

# At most so many terms flip in one local move.
MAX_FLIPS = 4


# No surrogate decides first.
NO_SURROGATE = np.zeros(1)
# All places hold what they always hold.
NO_FRESH = np.zeros(1, np.int64)


class Moves(NamedTuple):
    """Settings of the kernel mixture; frozen after warm-up."""

    cumulative: np.ndarray  # float64 (kernels,): cumulative weights of the kernels
    threshold: np.ndarray  # float64 (K,), with alias (K,): which term a flip chooses
    alias: np.ndarray
    partner: np.ndarray  # int64 (K, P): terms correlated with each term
    partner_cdf: np.ndarray  # float64 (K, P)
    partner_ratio: np.ndarray  # float64 (K, P): log T(j, i) - log T(i, j), -inf where T(j, i) = 0
    rho: float  # probability that the randomisation after a search flips a term
    jump_max: int  # largest size of the index set of a mode jump
    search: int  # moves tried by one search
    temperature: float  # first temperature of annealing, and that of tempered steps
    delayed: int  # 1: delayed acceptance of mode jumps
    # float64 (1,): twice the log likelihood that the surrogate of local moves has to explain, zero where there is none
    surrogate: np.ndarray = NO_SURROGATE
    # int64 (1 + P,): where the last P of the K places come and go, how many are taken in this population, and which
    occupied: np.ndarray = NO_FRESH


@kernel
def accept(rng, log_ratio):
    """Accept with probability min(1, exp(log_ratio)); a ratio that is not a number is never accepted."""
    return log_ratio >= 0.0 or uniform(rng) < np.exp(log_ratio)


@kernel
def _draw_distinct(moves, rng, m, out):
    """m distinct terms by the frozen weights of the terms, whatever the model."""
    i = 0
    while i < m:
        t = draw_alias(rng, moves.threshold, moves.alias)
        fresh = True
        for j in range(i):
            if out[j] == t:
                fresh = False
        if fresh:
            out[i] = t
            i += 1


@kernel
def _propose_multi(st, moves, rng, flips):
    """Flip two to four terms drawn from a fixed distribution: symmetric.

    By their weights, because two modes differ in terms that are uncertain.
    """
    k = len(st.member)
    most = min(MAX_FLIPS, k)
    if most < 2:
        return 0, 0.0
    m = 2 + below(rng, most - 1)
    _draw_distinct(moves, rng, m, flips)
    return m, 0.0


@kernel
def _propose_swap(st, moves, rng, flips):
    """Exchange a term in the model for one outside, both uniformly: symmetric, since the size stays."""
    k = len(st.member)
    size = st.size
    if size == 0 or size == k:
        return 0, 0.0
    flips[0] = st.order[below(rng, size)]
    flips[1] = st.order[size + below(rng, k - size)]
    return 2, 0.0


@kernel
def _propose_partner(st, moves, rng, flips):
    """Exchange a term i of the model for a correlated one j with probability T(i, j); the way back has T(j, i)."""
    size = st.size
    if size == 0 or moves.partner.shape[1] == 0:
        return 0, 0.0
    i = st.order[below(rng, size)]
    u = uniform(rng)
    at = 0
    while at < moves.partner.shape[1] - 1 and u >= moves.partner_cdf[i, at]:
        at += 1
    j = moves.partner[i, at]
    if st.member[j]:
        return 0, 0.0
    flips[0] = i
    flips[1] = j
    return 2, moves.partner_ratio[i, at]


@kernel
def _propose_birth_death(st, moves, rng, flips):
    """Add a term from outside or drop one from inside, with even odds; the counts on either side differ."""
    k = len(st.member)
    size = st.size
    if uniform(rng) < 0.5:
        if size == k:
            return 0, 0.0
        flips[0] = st.order[size + below(rng, k - size)]
        return 1, np.log((k - size) / (size + 1.0))
    if size == 0:
        return 0, 0.0
    flips[0] = st.order[below(rng, size)]
    return 1, np.log(size / (k - size + 1.0))


@kernel
def _propose_flip(st, moves, rng, flips):
    """Flip a term drawn from a distribution that is fixed in a population, whatever the model: symmetric.

    Of the places that come and go, one that is taken: all of them alike.
    """
    t, places = draw_alias(rng, moves.threshold, moves.alias), len(moves.occupied) - 1
    if places > 0 and t >= len(st.member) - places:
        if moves.occupied[0] == 0:
            return 0, 0.0
        t = moves.occupied[1 + below(rng, moves.occupied[0])]
    flips[0] = t
    return 1, 0.0


@kernel
def _propose_nothing(which, st, moves, rng, flips):
    return 0, 0.0


LOCAL_MOVES: dict[str, Any] = {
    "flip": _propose_flip,
    "multi": _propose_multi,
    "swap": _propose_swap,
    "partner": _propose_partner,
    "birth-death": _propose_birth_death,
}
JUMPS = ("jump-greedy", "jump-anneal", "jump-tempered")
# All kernels of MJMCMC; their places are their numbers.
KERNELS: list[str] = [*LOCAL_MOVES, *JUMPS]
JUMP_GREEDY, JUMP_ANNEAL, JUMP_TEMPERED = (KERNELS.index(name) for name in JUMPS)


def add_local_move(name: str, proposal: Any) -> None:
    """Add a local move, for `Sampler` to give a weight.

    Parameters
    ----------
    name : str
        What it is called.
    proposal : kernel
        Takes the state, the settings, the random stream and room for the terms that flip; returns how many flip, at
        most four, and the log of the proposal ratio.
    """
    LOCAL_MOVES[name] = proposal
    if name not in KERNELS:
        KERNELS.append(name)
    note_outside(Moves, proposal.py_func)


propose = switch(
    "st, moves, rng, flips", lambda: {KERNELS.index(name): move for name, move in LOCAL_MOVES.items()}, _propose_nothing
)
