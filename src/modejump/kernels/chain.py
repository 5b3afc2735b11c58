"""The chain: draw a kernel whatever the state, make its move, keep the record."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.core.compilation import entry, kernel
from modejump.core.handles import scalars_of
from modejump.core.random import draw_cumulative
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.jump import mode_jump
from modejump.kernels.moves import JUMP_GREEDY, JUMP_TEMPERED, KERNELS, MAX_FLIPS, accept, propose
from modejump.kernels.neighbour import neighbour, set_model
from modejump.kernels.state import State, Work, copy_state, flip_all, new_state, new_work, word_count
from modejump.kernels.store import ModelStore, new_store
from modejump.kernels.surrogate import surrogate_gain
from modejump.likelihoods.glm.newton import ASKED, Glm

# Why ``run`` returned: all steps done, the store wants to grow, the workspace wants to grow, a fit is asked for.
DONE, WANT_STORE, WANT_ROOM, WANT_FIT = 0, 1, 2, 3


class Record(NamedTuple):
    """What is kept of a batch of steps. Sojourns are added when they end, so that a step costs nothing."""

    inside: np.ndarray  # float64 (K,): steps of the batch during which each term was in
    since: np.ndarray  # int64 (K,): when a term that is in came in
    sizes: np.ndarray  # float64 (K + 1,): steps at each model size
    scalars: np.ndarray  # clock: steps so far; entered: when the chain came to its model
    tried: np.ndarray  # int64 (8, 2): proposed and accepted, by kernel


class Chain(NamedTuple):
    """All arrays of one chain."""

    state: State
    forward: State
    backward: State
    work: Work
    store: ModelStore
    record: Record
    rng: np.ndarray
    locked: np.ndarray
    index_set: np.ndarray
    flips: np.ndarray


def new_record(n_terms: int) -> Record:
    """An empty record."""
    return Record(
        np.zeros(n_terms),
        np.zeros(n_terms, np.int64),
        np.zeros(n_terms + 1),
        scalars_of(clock=0, entered=0),
        np.zeros((len(KERNELS), 2), np.int64),
    )


def new_chain(
    n_terms: int, n_columns: int, glm: Glm, stream: np.ndarray, *, widest: int, room: int, models: int
) -> Chain:
    """Arrays of a chain at no model yet.

    Parameters
    ----------
    n_terms, n_columns : int
        Terms of the problem, and their columns.
    glm : Glm
        The problem's rows, where models are fitted to them.
    stream : ndarray of four words
        The random stream.
    widest, room, models : int
        Columns that flip at most in one local move, columns of a model that there is room for, and models of the store.
    """
    states = [new_state(n_terms, n_columns, room) for _ in range(3)]
    return Chain(
        state=states[0],
        forward=states[1],
        backward=states[2],
        work=new_work(room, widest, n_terms, glm),
        store=new_store(models, word_count(n_terms)),
        record=new_record(n_terms),
        rng=stream,
        locked=np.zeros(n_terms, np.uint8),
        index_set=np.zeros(n_terms, np.int64),
        flips=np.zeros(MAX_FLIPS, np.int64),
    )


@kernel
def note_flip(rec, st, t):
    """Term t is about to flip: close or open its sojourn."""
    if st.member[t]:
        rec.inside[t] += rec.clock - rec.since[t]
    else:
        rec.since[t] = rec.clock


@kernel
def note_leave(rec, st, store):
    """The chain is about to leave its model: count the visits."""
    stay = rec.clock - rec.entered
    if st.entry >= 0:
        store.visits[st.entry] += stay
    else:
        store.forgotten += stay
    rec.sizes[st.size] += stay
    rec.entered = rec.clock


@kernel
def note_difference(rec, st, other):
    """Every term in which two models differ is about to flip."""
    for w in range(len(st.words)):
        diff = st.words[w] ^ other.words[w]
        t = 64 * w
        while diff != 0:
            if diff & np.uint64(1):
                note_flip(rec, st, t)
            diff >>= np.uint64(1)
            t += 1


@kernel
def local_step(which, data, ch, moves):
    """One local Metropolis-Hastings step; True where the model changed."""
    st = ch.state
    m, log_ratio = propose(which, st, moves, ch.rng, ch.flips)
    if m == 0:
        return False
    if moves.surrogate[0] > 0.0:
        # Delayed acceptance: what the first stage has counted, the second takes back.
        gain = surrogate_gain(data.glm, data, st, ch.work, ch.flips, m, moves.surrogate[0])
        if not accept(ch.rng, gain + log_ratio):
            return False
        log_ratio = -gain
    value, entry_of = neighbour(data, st, ch.work, ch.store, ch.flips, m)
    if not accept(ch.rng, value - st.log_posterior + log_ratio):
        return False
    note_leave(ch.record, st, ch.store)
    for i in range(m):
        note_flip(ch.record, st, ch.flips[i])
    flip_all(data, st, ch.work, ch.flips, m)
    st.log_posterior = value
    st.entry = entry_of
    return True


@kernel
def jump_step(which, data, ch, moves):
    """One mode jump; True where it was accepted."""
    st = ch.state
    if not mode_jump(which, data, ch, moves):
        return False
    if ch.forward.overflow or ch.backward.overflow:
        return False
    note_leave(ch.record, st, ch.store)
    note_difference(ch.record, st, ch.forward)
    copy_state(ch.forward, st)
    return True


@kernel
def step(which, data, ch, moves):
    """One step of one kernel; True where a proposal was accepted."""
    if JUMP_GREEDY <= which <= JUMP_TEMPERED:
        return jump_step(which, data, ch, moves)
    return local_step(which, data, ch, moves)


@kernel
def count_step(data, ch, moves):
    """One step of a kernel that is drawn whatever the state, and its record."""
    which = draw_cumulative(ch.rng, moves.cumulative)
    moved = step(which, data, ch, moves)
    tried = ch.record.tried
    tried[which, 0] += 1
    tried[which, 1] += moved
    ch.record.clock += 1


@kernel
def close_sojourns(ch):
    """Close the batch: add the sojourns that are still open."""
    st, rec = ch.state, ch.record
    note_leave(rec, st, ch.store)
    inside, since, order = rec.inside, rec.since, st.order
    now = rec.clock
    for i in range(st.size):
        t = order[i]
        inside[t] += now - since[t]
        since[t] = now


@kernel
def _wants_room(ch):
    """Whether some state overflowed its workspace; the marks are cleared."""
    wants = ch.state.overflow or ch.forward.overflow or ch.backward.overflow
    ch.state.overflow = ch.forward.overflow = ch.backward.overflow = 0
    return wants


@kernel
def want(ch):
    """What a step wants that could not be made: a fit, or else room."""
    return WANT_FIT if ch.work.glm.stage == ASKED else WANT_ROOM


@kernel
def _begin(data, ch, start):
    """Put the chain at its first model; False where that wants more room."""
    st = ch.state
    set_model(data, st, ch.work, ch.store, start)
    if st.log_posterior == NEG_INF and not st.overflow:
        set_model(data, st, ch.work, ch.store, np.zeros(len(start), np.uint8))
    if _wants_room(ch):
        return False
    st.placed = 1
    return True


@kernel
def _steps(data, ch, moves, steps, reserve, start):
    """Up to so many steps and the close of their batch; (steps done, reason)."""
    if ch.state.placed == 0 and not _begin(data, ch, start):
        return 0, want(ch)
    rng, st, store, rec = ch.rng, ch.state, ch.store, ch.record
    room, capacity, widest = len(st.cols), len(store.log_posterior), ch.work.products.shape[0]
    for done in range(steps):
        if store.count + reserve > capacity:
            return done, WANT_STORE
        if st.columns + widest > room:
            return done, WANT_ROOM
        s0, s1, s2, s3 = rng[0], rng[1], rng[2], rng[3]
        which = draw_cumulative(rng, moves.cumulative)
        moved = step(which, data, ch, moves)
        if _wants_room(ch):
            rng[0], rng[1], rng[2], rng[3] = s0, s1, s2, s3
            return done, want(ch)
        rec.tried[which, 0] += 1
        rec.tried[which, 1] += moved
        rec.clock += 1
    close_sojourns(ch)
    return steps, DONE


@entry
def run_batches(data, ch, moves, batch, means, at, reserve, start):
    """Batches of ``batch`` steps, one for each row of ``means``, which gets the terms' shares; returns the reason.

    A chain that is nowhere yet begins at the model ``start``, or at the empty one where that has probability zero.
    Nothing of a step that wants room or a fit is kept, but for the models that it evaluated before. ``at`` holds the
    batches done and the steps done in the next one, so that a later call resumes where this one stopped. The
    interpreter, for which chains have to queue, is asked once for many batches.
    """
    inside = ch.record.inside
    while at[0] < len(means):
        done, reason = _steps(data, ch, moves, batch - at[1], reserve, start)
        at[1] += done
        if reason != DONE:
            return reason
        for t in range(len(inside)):
            means[at[0], t] = inside[t] / batch
            inside[t] = 0.0
        at[0] += 1
        at[1] = 0
    return DONE
