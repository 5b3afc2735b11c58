"""The scout: best-first expansion of the model space before the chains start.

It takes the best models not yet expanded, evaluates every model one flip away from them, and goes on. What it finds is
no sample; it serves the renormalised estimates, which want the models that hold most of the mass, and gives warm-up its
first idea of which terms are uncertain.

Threads share a round: first they evaluate some of the flips each, which changes nothing that another one reads, then
each enters what was found into the lanes that it cares for. A lane holds the models whose hash begins with its number,
in order of evaluation, with an index and a heap of its own. Flips and lanes are cut in the same way for any number of
threads, so that what is found does not depend on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from modejump.handle import handle
from modejump.jit import entry, kernel
from modejump.kernels.chain import DONE, WANT_ROOM, want
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.neighbour import neighbour_likelihood, prior_now, set_model
from modejump.kernels.state import COLS, OVERFLOW, leaving_first, refresh, toggle, toggle_to
from modejump.kernels.store import COUNT, first_slot

# Lanes, as a power of two.
LANE_BITS = 3
LANES = 1 << LANE_BITS
_SHIFT = np.uint64(64 - LANE_BITS)
# Slots of Frontier.num, in each lane: models, and those of them that are not yet expanded.
ENTRIES, WAITING = 0, 1


class Frontier(NamedTuple):
    """All models met so far, by lanes."""

    words: np.ndarray  # uint64 (lanes, room, W)
    value: np.ndarray  # float64 (lanes, room): log posterior
    hash: np.ndarray  # uint64 (lanes, room)
    rank: np.ndarray  # int64 (lanes, room): number of the flip that met it
    heap: np.ndarray  # int64 (lanes, room): entries not yet expanded, as a binary heap
    worth: np.ndarray  # float64 (lanes, room): their values, in the order of the heap
    slots: np.ndarray  # int32 (lanes, a power of two): entry + 1, zero where free
    num: np.ndarray  # int64 (lanes, 8): a cache line each


class Round(NamedTuple):
    """The models of a round, and what was found one flip away from each: flip r K + t is term t of model r."""

    words: np.ndarray  # uint64 (models, W)
    key: np.ndarray  # uint64 (flips,): hash
    value: np.ndarray  # float64 (flips,): log posterior
    new: np.ndarray  # uint8 (flips,): 1 where the model had not been met before the round


def new_frontier(room: int, n_words: int) -> Frontier:
    """No models, with room for so many in each lane (the index is at most half full)."""
    return Frontier(
        np.zeros((LANES, room, n_words), np.uint64),
        np.zeros((LANES, room)),
        np.zeros((LANES, room), np.uint64),
        np.zeros((LANES, room), np.int64),
        np.zeros((LANES, room), np.int64),
        np.zeros((LANES, room)),
        np.zeros((LANES, 1 << int(2 * room - 1).bit_length()), np.int32),
        np.zeros((LANES, 8), np.int64),
    )


def new_round(models: int, n_terms: int, n_words: int) -> Round:
    """Room for a round of so many models."""
    flips = models * n_terms
    return Round(
        np.zeros((models, n_words), np.uint64),
        np.zeros(flips, np.uint64),
        np.zeros(flips),
        np.zeros(flips, np.uint8),
    )


@kernel
def _push(frontier, lane, e):
    """An entry of a lane waits to be expanded."""
    heap, worth = frontier.heap[lane], frontier.worth[lane]
    value = frontier.value[lane, e]
    i = frontier.num[lane, WAITING]
    while i > 0:
        parent = (i - 1) >> 1
        # Entries come in order: one of the same value is older.
        if worth[parent] >= value:
            break
        heap[i], worth[i] = heap[parent], worth[parent]
        i = parent
    heap[i], worth[i] = e, value
    frontier.num[lane, WAITING] += 1


@kernel
def _better(heap, worth, i, value, e):
    """Whether a place of a heap goes before an entry of some value: by its value, then by its age."""
    return worth[i] > value or (worth[i] == value and heap[i] < e)


@kernel
def _pop(frontier, lane):
    """Remove the best entry of a lane; returns it."""
    heap, worth = frontier.heap[lane], frontier.worth[lane]
    size = frontier.num[lane, WAITING] - 1
    frontier.num[lane, WAITING] = size
    best, last, value = heap[0], heap[size], worth[size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and _better(heap, worth, child + 1, worth[child], heap[child]):
            child += 1
        if not _better(heap, worth, child, value, last):
            break
        heap[i], worth[i] = heap[child], worth[child]
        i = child
    heap[i], worth[i] = last, value
    return best


@kernel
def _find(frontier, lane, key, words):
    """Slot of a model in the index of its lane, or the free one where it belongs."""
    index, hashes, known = frontier.slots[lane], frontier.hash[lane], frontier.words[lane]
    mask = np.uint64(len(index) - 1)
    at = first_slot(key, len(index))
    while index[at] != 0:
        e = index[at] - 1
        if hashes[e] == key:
            same = True
            for i in range(len(words)):
                same = same and known[e, i] == words[i]
            if same:
                break
        at = (at + np.uint64(1)) & mask
    return at


@kernel
def _enter(frontier, lane, key, words, value, rank):
    """Add a model where it is new; False where the lane is full."""
    at = _find(frontier, lane, key, words)
    if frontier.slots[lane, at] != 0:
        return True
    e = frontier.num[lane, ENTRIES]
    if e == frontier.value.shape[1]:
        return False
    frontier.slots[lane, at] = e + 1
    frontier.hash[lane, e] = key
    for i in range(len(words)):
        frontier.words[lane, e, i] = words[i]
    frontier.value[lane, e] = value
    frontier.rank[lane, e] = rank
    frontier.num[lane, ENTRIES] = e + 1
    if value > NEG_INF:
        _push(frontier, lane, e)
    return True


@entry
def begin(problem_data, chain, met, start):
    """Evaluate the model that the expansion begins with; one that the prior excludes is not entered."""
    data, ch, frontier = handle(problem_data), handle(chain), handle(met)
    set_model(data, ch.state, ch.work, ch.store, start)
    if ch.store.num[COUNT] > 0:
        key = ch.state.hash[0]
        _enter(frontier, np.int64(key >> _SHIFT), key, ch.state.words, ch.store.log_posterior[0], np.int64(0))


@entry
def take(met, of_round, most):
    """Take up to so many of the best models not yet expanded for the next round; returns how many there were."""
    frontier, models = handle(met), handle(of_round)
    num, worth, rank, heap = frontier.num, frontier.worth, frontier.rank, frontier.heap
    for row in range(most):
        best = -1
        for lane in range(len(num)):
            if num[lane, WAITING] == 0:
                continue
            if best >= 0:
                if worth[lane, 0] < worth[best, 0]:
                    continue
                if worth[lane, 0] == worth[best, 0] and rank[lane, heap[lane, 0]] > rank[best, heap[best, 0]]:
                    continue
            best = lane
        if best < 0:
            return row
        e = _pop(frontier, best)
        for i in range(models.words.shape[1]):
            models.words[row, i] = frontier.words[best, e, i]
    return most


@kernel
def _evaluate(data, ch, frontier, models, flip, t):
    """Evaluate one flip of the state's model, unless it was met before or the prior excludes it."""
    st, flips = ch.state, ch.flips
    flips[0] = t
    leaving = leaving_first(st, flips, np.int64(1))
    toggle(data, st, t)
    key = st.hash[0]
    lane = np.int64(key >> _SHIFT)
    models.key[flip] = key
    models.new[flip] = 0
    if frontier.slots[lane, _find(frontier, lane, key, st.words)] == 0:
        value = prior_now(data, st)
        if value > NEG_INF:
            value += neighbour_likelihood(data, st, ch.work, flips, np.int64(1), leaving)
            models.value[flip] = value
            models.new[flip] = 1
    toggle(data, st, t)


@entry
def evaluate_flips(problem_data, chain, met, of_round, at, stop):
    """Evaluate the flips from ``at[0]`` up to, but not including, ``stop``; returns DONE, WANT_ROOM or WANT_FIT.

    ``at`` is moved on, so that a later call goes on where this one stopped.
    """
    data, ch, frontier, models = handle(problem_data), handle(chain), handle(met), handle(of_round)
    st, terms = ch.state, len(ch.state.member)
    here = -1
    while at[0] < stop:
        row = at[0] // terms
        if row != here:
            toggle_to(data, st, models.words, row)
            refresh(data, st, ch.work)
            if st.num[COLS] + ch.work.products.shape[0] > len(st.cols):
                return WANT_ROOM
            here = row
        _evaluate(data, ch, frontier, models, at[0], at[0] - row * terms)
        if st.num[OVERFLOW]:
            st.num[OVERFLOW] = 0
            return want(ch)
        at[0] += 1
    return DONE


@entry
def enter_found(met, of_round, flips, before, lane):
    """Enter what a round of so many flips found into one lane; False where it is full, and has to be done again.

    ``before`` is the number of flips of all rounds before.
    """
    frontier, models = handle(met), handle(of_round)
    key, new = models.key, models.new
    width = models.words.shape[1]
    terms = len(key) // len(models.words)
    words = np.empty(width, np.uint64)
    for flip in range(flips):
        if new[flip] == 0 or np.int64(key[flip] >> _SHIFT) != lane:
            continue
        row = flip // terms
        t = flip - row * terms
        for i in range(width):
            words[i] = models.words[row, i]
        words[t >> 6] ^= np.uint64(1) << np.uint64(t & 63)
        if not _enter(frontier, lane, key[flip], words, models.value[flip], before + flip):
            return False
    return True


@entry
def move_lane(old, new, lane):
    """Move a lane to where it has more room."""
    source, target = handle(old), handle(new)
    index, hashes = target.slots[lane], target.hash[lane]
    mask = np.uint64(len(index) - 1)
    for e in range(source.num[lane, ENTRIES]):
        key = source.hash[lane, e]
        hashes[e] = key
        for i in range(source.words.shape[2]):
            target.words[lane, e, i] = source.words[lane, e, i]
        target.value[lane, e] = source.value[lane, e]
        target.rank[lane, e] = source.rank[lane, e]
        at = first_slot(key, len(index))
        while index[at] != 0:
            at = (at + np.uint64(1)) & mask
        index[at] = e + 1
    for i in range(source.num[lane, WAITING]):
        target.heap[lane, i], target.worth[lane, i] = source.heap[lane, i], source.worth[lane, i]
    for i in range(source.num.shape[1]):
        target.num[lane, i] = source.num[lane, i]


@entry
def copy_lane(met, lane, place, words, value, hashes):
    """Copy a lane's models to where ``place``, by rank, puts them; those beyond the end are left out."""
    frontier = handle(met)
    for e in range(frontier.num[lane, ENTRIES]):
        to = place[frontier.rank[lane, e]]
        if to >= len(value):
            continue
        for i in range(words.shape[1]):
            words[to, i] = frontier.words[lane, e, i]
        value[to] = frontier.value[lane, e]
        hashes[to] = frontier.hash[lane, e]
