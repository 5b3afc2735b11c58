"""The scout: best-first expansion of the model space before the chains start.

It takes the best model not yet expanded, evaluates every model one flip away, and goes on. What it finds is no
sample; it serves the renormalised estimates, which want the models that hold most of the mass, and gives warm-up its
first idea of which terms are uncertain.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import entry, kernel
from modejump.kernels.chain import DONE, WANT_ROOM, want
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.neighbour import neighbour, set_model
from modejump.kernels.state import refresh, toggle_to


@kernel
def _push(heap, size, values, e):
    """Add an entry to a binary heap ordered by log posterior; returns the new size."""
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        if values[heap[parent]] >= values[e]:
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = e
    return size + 1


@kernel
def _pop(heap, size, values):
    """Remove the best entry; returns it."""
    best = heap[0]
    last = heap[size - 1]
    size -= 1
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and values[heap[child + 1]] > values[heap[child]]:
            child += 1
        if values[last] >= values[heap[child]]:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = last
    return best


@kernel
def _arrange(st):
    """The terms in, then the terms out, each in natural order: sums over terms then round alike."""
    member, order, place = st.member, st.order, st.place
    inside, outside = np.int64(0), st.size
    for t in range(len(member)):
        if member[t]:
            at = inside
            inside += 1
        else:
            at = outside
            outside += 1
        order[at] = t
        place[t] = at


@kernel
def _go_to(data, ch, e):
    """Move the state to a stored model."""
    st = ch.state
    toggle_to(data, st, ch.store.words, e)
    # An expansion that was cut short begins again, and must meet the same numbers.
    _arrange(st)
    refresh(data, st, ch.work)
    st.log_posterior = ch.store.log_posterior[e]
    st.entry = e


@entry
def expand(data, ch, heap, heap_size, start, wanted):
    """Expand until so many models are stored; returns DONE, WANT_ROOM or WANT_FIT.

    ``heap_size`` holds the size of the heap and one more than the entry whose expansion was cut short (0: none), so
    that a later call goes on where this one stopped.
    """
    st, store, flips = ch.state, ch.store, ch.flips
    values = store.log_posterior
    one = np.int64(1)
    if store.count == 0:
        set_model(data, st, ch.work, store, start)
        if store.count > 0 and values[0] > NEG_INF:
            heap_size[0] = _push(heap, heap_size[0], values, np.int64(0))
    while heap_size[0] + heap_size[1] > 0 and store.count < wanted:
        if heap_size[1] > 0:
            e = heap_size[1] - 1
            heap_size[1] = 0
        else:
            e = _pop(heap, heap_size[0], values)
            heap_size[0] -= 1
        _go_to(data, ch, e)
        if st.columns + ch.work.products.shape[0] > len(st.cols):
            heap_size[1] = e + 1
            return WANT_ROOM
        for t in range(len(st.member)):
            if store.count >= wanted:
                heap_size[1] = e + 1
                break
            new = store.count
            flips[0] = t
            neighbour(data, st, ch.work, store, flips, one)
            if st.overflow:
                st.overflow = 0
                heap_size[1] = e + 1
                return want(ch)
            if store.count > new and values[new] > NEG_INF:
                heap_size[0] = _push(heap, heap_size[0], values, new)
    return DONE
