"""Snapshots: the state of a chain as a flat dict of plain arrays, from which the same chain can be made again.

A snapshot holds everything that influences the future of a chain and cannot be made again from its problem. Left out
are scratch arrays, the columns that a cache holds (a column computed again has the same bits), and the parts of
tables that nothing uses. Names are paths such as ``store/words``. There are no Python objects inside, so a snapshot
can be written to a file or sent to another process; what comes back from there is checked before compiled code, which
checks nothing, is given an index out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.core.handles import SCALARS
from modejump.kernels.chain import Chain
from modejump.kernels.state import State, Work, new_state, new_work, word_count
from modejump.kernels.store import ModelStore, new_store, resize

Snapshot = dict[str, np.ndarray]

# Scratch rows of a fit, as long as the data are.
_SCRATCH = ("columns", "own", "pair", "asked")


def under(prefix: str, part: Mapping[str, np.ndarray]) -> Snapshot:
    """The same arrays with a path before their names."""
    return {f"{prefix}/{name}": array for name, array in part.items()}


def part_of(snapshot: Mapping[str, np.ndarray], prefix: str) -> Snapshot:
    """The arrays under a path, without it."""
    path = f"{prefix}/"
    return {name.removeprefix(path): array for name, array in snapshot.items() if name.startswith(path)}


def flatten(value: Any, leave_out: Iterable[str] = ()) -> Snapshot:
    """Arrays and numbers of a (nested) named tuple, copied."""
    flat: Snapshot = {}
    for name in value._fields:
        part = getattr(value, name)
        if name in leave_out:
            continue
        if isinstance(part, tuple):
            flat |= under(name, flatten(part, leave_out))
        elif name == SCALARS:
            flat |= scalar_arrays(part)
        else:
            flat[name] = np.array(part)
    return flat


def scalar_arrays(scalars: np.ndarray) -> Snapshot:
    """Numbers by name as arrays without dimensions."""
    return {name: scalars[name].copy() for name in scalars.dtype.names or ()}


def _damaged(why: str) -> InputError:
    return InputError(f"the stored state of the run is damaged: {why}; start the run again.")


class Reader:
    """Arrays that a file or another process gave, checked as they are taken."""

    def __init__(
        self, arrays: Mapping[str, np.ndarray], prefix: str = "", damaged: Callable[[str], InputError] = _damaged
    ) -> None:
        self.arrays, self.prefix, self.damaged = arrays, prefix, damaged

    def under(self, name: str) -> Reader:
        """The arrays below a name."""
        return Reader(self.arrays, f"{self.prefix}{name}/", self.damaged)

    def __contains__(self, name: str) -> bool:
        return f"{self.prefix}{name}" in self.arrays

    def refuse(self, name: str) -> InputError:
        """The error for an array that is not what it should be."""
        return self.damaged(f"{self.prefix}{name} does not fit its problem")

    def need(self, truth: Any, name: str) -> None:
        """Raise InputError where something does not hold."""
        if not truth:
            raise self.refuse(name)

    def array(
        self, name: str, dtype: Any, shape: Sequence[int | None], within: tuple[float, float] | None = None
    ) -> np.ndarray:
        """A copy of an array of this type and shape (None for any length), its entries from the first up to, but
        not including, the second number of ``within``.
        """
        found = self.arrays.get(f"{self.prefix}{name}")
        if found is None or found.dtype != np.dtype(dtype) or found.ndim != len(shape):
            raise self.refuse(name)
        if any(wanted is not None and have != wanted for have, wanted in zip(found.shape, shape, strict=True)):
            raise self.refuse(name)
        if within is not None and found.size and not (found.min() >= within[0] and found.max() < within[1]):
            raise self.refuse(name)
        return np.array(found, order="C")

    def like(self, name: str, other: np.ndarray, within: tuple[float, float] | None = None) -> np.ndarray:
        """A copy of an array of the type and shape of another."""
        return self.array(name, other.dtype, other.shape, within)

    def into(self, name: str, target: np.ndarray, within: tuple[float, float] | None = None) -> None:
        """Fill an array, which others may hold too."""
        target[...] = self.like(name, target, within)

    def whole(self, name: str, low: int, high: int) -> int:
        """A whole number from ``low`` up to, but not including, ``high``."""
        return int(self.array(name, np.int64, (), (low, high)))

    def number(self, name: str) -> float:
        """A number."""
        return float(self.array(name, np.float64, ()))

    def scalars(self, other: np.ndarray) -> np.ndarray:
        """Numbers by name, of the names and types of others."""
        found = other.copy()
        for name in other.dtype.names or ():
            found[name] = self.like(name, other[name])
        return found

    def fill(self, target: Any, leave_out: Iterable[str] = ()) -> None:
        """Fill all arrays of a (nested) named tuple."""
        for name in target._fields:
            part = getattr(target, name)
            if name in leave_out:
                continue
            if isinstance(part, tuple):
                self.under(name).fill(part, leave_out)
            elif name == SCALARS:
                part[...] = self.scalars(part)
            elif isinstance(part, np.ndarray):
                self.into(name, part)


def store_arrays(store: ModelStore) -> Snapshot:
    """The models of a store, in order."""
    count = int(store.scalars["count"])
    flat = {name: getattr(store, name)[:count].copy() for name in ("words", "log_posterior", "visits", "hash")}
    return flat | scalar_arrays(store.scalars) | {"capacity": np.array(len(store.log_posterior))}


def read_store(reader: Reader, terms: int, most: int) -> ModelStore:
    """A store of models of so many terms, with room for ``most`` models at the utmost; its index is made again."""
    scalars = reader.scalars(new_store(1, 1).scalars)
    count, width = int(scalars["count"]), word_count(terms)
    reader.need(count >= 0, "count")
    capacity = reader.whole("capacity", max(count, 1), most + 1)
    words = reader.array("words", np.uint64, (count, width))
    if terms % 64:
        reader.need((words[:, -1] >> np.uint64(terms % 64) == 0).all(), "words")
    values, visits = reader.array("log_posterior", np.float64, (count,)), reader.array("visits", np.int64, (count,))
    hashes = reader.array("hash", np.uint64, (count,))
    store = resize(ModelStore(words, values, visits, hashes, np.zeros(0, np.int32), scalars), capacity)
    store.scalars[...] = scalars
    return store


def state_arrays(state: State) -> Snapshot:
    """A model and its inverse, without what follows from them."""
    k = int(state.scalars["columns"])
    return {
        "order": state.order.copy(),
        "cols": state.cols[:k].copy(),
        "inverse": state.inverse[:k, :k].copy(),
        "beta": state.beta[:k].copy(),
        "room": np.array(len(state.cols)),
    } | scalar_arrays(state.scalars)


def read_state(reader: Reader, terms: int, columns: int, most_room: int, stored: int) -> State:
    """A state for a problem of so many terms and columns; its entry is one of those stored."""
    state = new_state(terms, columns, reader.whole("room", 0, most_room + 1))
    state.scalars[...] = reader.scalars(state.scalars)
    k, size, entry = (int(state.scalars[name]) for name in ("columns", "size", "entry"))
    reader.need(0 <= k <= len(state.cols) and 0 <= size <= terms and -1 <= entry < stored, "entry")
    reader.into("order", state.order)
    reader.need((np.sort(state.order) == np.arange(terms)).all(), "order")
    state.place[state.order] = np.arange(terms)
    inside = state.order[:size]
    state.member[inside] = 1
    np.bitwise_or.at(state.words, inside >> 6, np.uint64(1) << (inside & 63).astype(np.uint64))
    cols = reader.array("cols", np.int64, (k,), (0, columns))
    reader.need(len(np.unique(cols)) == k, "cols")
    state.cols[:k], state.slot[cols] = cols, np.arange(k)
    state.inverse[:k, :k] = reader.array("inverse", np.float64, (k, k))
    state.beta[:k] = reader.array("beta", np.float64, (k,))
    return state


def work_arrays(work: Work) -> Snapshot:
    """What one evaluation leaves for the next: models that fit perfectly, and the fit made last."""
    flat = {"perfect": work.perfect.copy()} | scalar_arrays(work.scalars)
    return flat | under("glm", flatten(work.glm, _SCRATCH))


def fill_work(reader: Reader, work: Work, columns: int) -> None:
    """Fill the workspace of a chain, which has the right room."""
    reader.into("perfect", work.perfect)
    work.scalars[...] = reader.scalars(work.scalars)
    count, following = int(work.scalars["perfect_count"]), int(work.scalars["perfect_next"])
    reader.need(0 <= count <= len(work.perfect) and 0 <= following < len(work.perfect), "perfect_count")
    reader.under("glm").fill(work.glm, _SCRATCH)
    fitted = reader.under("glm")
    fitted.need(not len(work.glm.last) or ((work.glm.last >= 0) & (work.glm.last < columns)).all(), "last")
    fitted.need(0 <= work.glm.scalars["last_count"] <= len(work.glm.last), "last_count")


def place_arrays(chain: Chain) -> Snapshot:
    """Where a chain is, and what it has met."""
    return (
        under("state", state_arrays(chain.state))
        | under("work", work_arrays(chain.work))
        | under("store", store_arrays(chain.store))
    )


def chain_arrays(chain: Chain) -> Snapshot:
    """A chain without its scratch arrays."""
    return place_arrays(chain) | under("record", flatten(chain.record)) | {"rng": chain.rng.copy()}


def read_chain(reader: Reader, chain: Chain, glm: Any, most_models: int, most_room: int) -> Chain:
    """A chain made again from a new one of the same problem, whose arrays are used where they have the right room."""
    chain = read_place(reader, chain, glm, most_models, most_room)
    reader.under("record").fill(chain.record)
    fill_stream(reader, chain.rng)
    return chain


def read_place(reader: Reader, chain: Chain, glm: Any, most_models: int, most_room: int) -> Chain:
    """The same of what ``place_arrays`` made; record and random stream are left as they are."""
    terms, columns = len(chain.state.member), len(chain.state.slot)
    store = read_store(reader.under("store"), terms, most_models)
    state = read_state(reader.under("state"), terms, columns, most_room, int(store.scalars["count"]))
    room = len(state.cols)
    if room != len(chain.state.cols):
        chain = chain._replace(
            forward=new_state(terms, columns, room),
            backward=new_state(terms, columns, room),
            work=new_work(room, chain.work.products.shape[0], terms, glm),
        )
    fill_work(reader.under("work"), chain.work, columns)
    return chain._replace(state=state, store=store)


def fill_stream(reader: Reader, stream: np.ndarray) -> None:
    """Put a random stream where it was; one of zeros would never leave them."""
    reader.into("rng", stream)
    reader.need(stream.any(), "rng")


def batch_arrays(batch: int, means: Sequence[np.ndarray], terms: int) -> Snapshot:
    """Length and means of the batches of a chain."""
    return {"batch": np.array(batch), "means": np.array(means, np.float64).reshape(len(means), terms)}


def read_batches(reader: Reader, most: int, terms: int) -> tuple[int, list[np.ndarray]]:
    """Length and means of the batches of a chain."""
    means = reader.array("means", np.float64, (None, terms))
    reader.need(len(means) < most, "means")
    return reader.whole("batch", 0, 1 << 62), list(means)
