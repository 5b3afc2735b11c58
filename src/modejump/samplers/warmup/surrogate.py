"""The surrogate of MJMCMC's local moves for responses that are not Gaussian: where it is expanded, when it is used."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from modejump.core.compilation import entry
from modejump.kernels.moves import Moves
from modejump.kernels.state import refresh
from modejump.kernels.store import ModelStore
from modejump.likelihoods.glm.expansion import expand
from modejump.likelihoods.glm.newton import Glm
from modejump.likelihoods.glm.parts import is_long
from modejump.problem.problem import Problem
from modejump.samplers.chains.mjmcmc_chain import MJMCMCChain

# A surrogate is worth its time where the fits of a step go over so many rows on average.
ROWS_A_STEP = 100.0


@entry
def _renew(data, ch):
    """Bring the state's inverse up to date with another Gram matrix."""
    refresh(data, ch.state, ch.work)


def evaluated(runners: Sequence[MJMCMCChain]) -> int:
    """Models fitted so far by all chains."""
    return sum(int(r.chain.store.scalars["evaluated"]) for r in runners)


def worth_it(problem: Problem, wanted: bool | None, fits: float | None) -> bool:
    """Whether a surrogate should judge first.

    Parameters
    ----------
    problem : Problem
        The target.
    wanted : bool, optional
        What the user asked for.
    fits : float, optional
        Fits for each step of warm-up at its end, where that is known: a model met before costs a look-up.
    """
    if wanted is not None:
        return wanted
    if not isinstance(problem.data.glm, Glm):
        return False
    if fits is None:
        return is_long(problem.data.glm)
    return fits * problem.rows >= ROWS_A_STEP


def adopt_surrogate(
    problem: Problem, scouted: ModelStore | None, runners: Sequence[MJMCMCChain], moves: Moves, fresh: bool = True
) -> Moves:
    """Moves that a surrogate judges first, expanded at the fit of the best model found, or the base model's.

    Parameters
    ----------
    problem : Problem
        The target; not Gaussian.
    scouted : ModelStore, optional
        What that search found.
    runners : sequence of MJMCMCChain
        The chains, which get the surrogate's Gram matrix.
    moves : Moves
        Settings so far.
    fresh : bool
        Whether the chains have not seen this surrogate before.
    """
    data = problem.data
    expansion = expand(data.glm, _best_columns(problem, scouted), data.coef_prior, data.n)
    if expansion is None:
        return moves
    for r in runners:
        r.data = data._replace(gram=expansion.gram, corr=expansion.corr)
        if fresh:
            _renew(r.data, r.chain)
    return moves._replace(surrogate=np.array([expansion.total]))


def _best_columns(problem: Problem, scouted: ModelStore | None) -> np.ndarray:
    """Columns of the best model that was found."""
    if scouted is None or scouted.scalars["count"] == 0:
        return np.zeros(0, np.int64)
    words = scouted.words[int(np.argmax(scouted.log_posterior[: int(scouted.scalars["count"])]))]
    first = problem.data.first
    inside = [t for t in range(problem.n_terms) if (int(words[t >> 6]) >> (t & 63)) & 1]
    return np.array([c for t in inside for c in range(first[t], first[t + 1])], dtype=np.int64)
