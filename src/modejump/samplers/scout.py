"""The scout of MJMCMC: best-first expansion, in pieces that fit a budget."""

from __future__ import annotations

import time

import numpy as np

from modejump.kernels.chain import DONE, WANT_FIT
from modejump.kernels.scout import expand
from modejump.kernels.store import COUNT, ModelStore, bytes_per_model, resize
from modejump.problem import Problem
from modejump.samplers.budget import DEFAULT_STEPS, Budget
from modejump.samplers.runner import answer, may_ask, new_chain, with_more_room

# The scout evaluates at most so many models,
MOST_MODELS = 2**20
# one for so many sampling steps of all chains together,
STEPS_PER_MODEL = 10
# and takes at most this share of a budget in seconds.
TIME_SHARE = 0.1
_FIRST_PIECE = 4096


def prime_scout(problem: Problem) -> None:
    """Compile, so that no clock counts it."""
    chain = new_chain(problem, np.zeros(4, np.uint64), 1)
    start = np.zeros(problem.n_terms, np.uint8)
    expand(problem.data, chain, np.zeros(1, np.int64), np.zeros(2, np.int64), start, 0)


def scout(problem: Problem, budget: Budget, chains: int, threads: int = 1) -> ModelStore:
    """Expand the model space from the empty model, best first.

    Parameters
    ----------
    problem : Problem
        The target.
    budget : Budget
        Sets how many models are evaluated; the cache's memory bound counts too.
    chains : int
        How many chains will follow.
    threads : int
        Threads that share the rows of a long table; the result is the same for any number.
    """
    chain = new_chain(problem, np.zeros(4, np.uint64), _FIRST_PIECE)
    words = chain.store.words.shape[1]
    wanted = min(MOST_MODELS, budget.memory // (4 * bytes_per_model(words)))
    until = np.inf
    if budget.seconds is not None:
        until = time.perf_counter() + TIME_SHARE * budget.seconds
    else:
        # Most runs to a precision end long before their cap.
        planned = budget.sampling_steps() if budget.mcse is None else min(budget.sampling_steps(), DEFAULT_STEPS)
        wanted = min(wanted, planned * chains // STEPS_PER_MODEL)
    start = np.zeros(problem.n_terms, np.uint8)
    heap, heap_size = np.zeros(_FIRST_PIECE, np.int64), np.zeros(2, np.int64)
    piece = min(wanted, _FIRST_PIECE)
    while True:
        while True:
            may_ask(chain, problem.data)
            reason = expand(problem.data, chain, heap, heap_size, start, piece)
            if reason == DONE:
                break
            if reason == WANT_FIT:
                answer(chain, problem.data, threads)
            else:
                chain = with_more_room(chain, problem.data.glm)
        if int(chain.store.num[COUNT]) < piece or piece >= wanted or time.perf_counter() > until:
            return chain.store
        piece = min(wanted, 2 * piece)
        heap = np.concatenate([heap, np.zeros(piece - len(heap), np.int64)])
        chain = chain._replace(store=resize(chain.store, piece)[0])
