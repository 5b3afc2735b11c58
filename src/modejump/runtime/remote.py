"""Workers in other processes, reached through joblib's active backend: loky, Dask, Ray and the like.

A problem is packed once into one array of bytes, and the array is an argument of the tasks that first need it: joblib
maps it into the memory of the processes of one machine, scatters it over a Dask cluster, or puts it into Ray's object
store. Each process unpacks it once. Later tasks carry its key only; a process that does not know the key, such as
one that took the place of another, says so and is sent the array.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import pickle
import threading
import time
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import cloudpickle
import joblib
import numpy as np

from modejump.core.errors import InputError
from modejump.core.threads import ThreadPool
from modejump.data.rows import as_if_writable
from modejump.likelihoods.family import Family, Table
from modejump.priors.models import UniformPrior
from modejump.problem.feature_problem import FeatureProblem
from modejump.runtime.executors import Aside, Executor, Movable, Pace
from modejump.runtime.snapshots import Snapshot

# A task is given up when workers died so many times in a row and no other task came back in between.
MOST_DEATHS = 3
# Errors that say that a worker is gone, by name: most of them belong to libraries that need not be there.
DEATHS = {
    "TerminatedWorkerError", "BrokenProcessPool", "BrokenExecutor", "KilledWorker", "CancelledError",
    "FutureCancelledError", "RayActorError", "ActorDiedError", "ActorUnavailableError", "WorkerCrashedError",
    "NodeDiedError", "OutOfMemoryError",
}  # fmt: skip
# joblib wonders at tasks under way when a run ends early; Dask at tasks that carry snapshots.
_HARMLESS = (".* still being processed by the workers .*", "Sending large graph .*")
# Seconds between two looks whether the main process is still there.
PATIENCE = 2.0
_ALIGNED = 64


def executor_for(workers: int) -> Executor:
    """The executor that joblib's active configuration asks for; threads where it says nothing."""
    backend, _ = joblib.parallel.get_active_backend(prefer="threads")
    if workers == 1 or getattr(backend, "supports_sharedmem", False):
        return Executor(workers)
    return RemoteExecutor(workers, backend)


# --- packed problems ----------------------------------------------------------------------------------------------


class _Pickler(cloudpickle.Pickler):
    """Pickles likelihoods of the user's own by what makes them again: addresses of functions mean nothing elsewhere."""

    def reducer_override(self, obj: Any) -> Any:
        """How an object is made again."""
        if isinstance(obj, Family) and obj.custom:
            return type(obj), obj.arguments()  # type: ignore[attr-defined]
        return super().reducer_override(obj)


def pack(problem: Any) -> np.ndarray:
    """A problem as one array of bytes: a pickle, then the contents of its arrays."""
    buffers: list[pickle.PickleBuffer] = []
    content = io.BytesIO()
    try:
        _Pickler(content, protocol=5, buffer_callback=buffers.append).dump(problem)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"the problem cannot be sent to other processes ({reason}); use joblib's backend 'threading'."
        ) from error
    raws = [buffer.raw() for buffer in buffers]
    index = pickle.dumps((content.getvalue(), [raw.nbytes for raw in raws]))
    chunks: list[Any] = [len(index).to_bytes(_ALIGNED, "little"), index]
    for raw in raws:
        chunks += [bytes(-len(chunks[-1]) % _ALIGNED), raw]
    return np.concatenate([np.frombuffer(chunk, np.uint8) for chunk in chunks])


def unpack(packed: np.ndarray) -> Any:
    """The problem in an array of bytes, whose arrays are parts of it."""
    view = memoryview(as_if_writable(np.asarray(packed)).data)
    end = _ALIGNED + int.from_bytes(view[:_ALIGNED], "little")
    head, sizes = pickle.loads(view[_ALIGNED:end])
    parts = []
    for size in sizes:
        start = end + -end % _ALIGNED
        end = start + size
        parts.append(view[start:end])
    return _with_addresses(pickle.loads(head, buffers=parts))


def _with_addresses(problem: Any) -> Any:
    """A problem whose likelihood, where it is one of the user's own, has functions in this process."""
    family = problem.family
    if not family.custom:
        return problem
    if isinstance(problem, FeatureProblem):
        rows: Any = problem.base_model
        p = len(problem.names)
        table = Table(
            problem.names, tuple(problem.always_in), np.arange(p + 1), problem.y, rows.weight, rows.base.T, problem.x.T,
            np.eye(p), p, UniformPrior().compile(p), fits_constants=problem.language.fits_constants,
        )  # fmt: skip
        bound, made = family.connect(table)
        rows = rows._replace(address=made.address, report=made.report)
        return dataclasses.replace(problem, family=bound, base_model=rows)
    data, rows = problem.data, problem.data.glm
    table = Table(
        problem.names, problem.always_in, data.first, rows.y, rows.weight, rows.base.T, data.columns.x, data.gram,
        data.max_cols, data.prior,
    )  # fmt: skip
    bound, made = family.connect(table)
    rows = rows._replace(address=made.address, report=made.report)
    return dataclasses.replace(problem, family=bound, data=data._replace(glm=rows))


# --- in a worker process ------------------------------------------------------------------------------------------

DONE, UNKNOWN, REFUSED = range(3)
# The problems used last, by key, each with the chains that nobody works on, by recipe.
_known: OrderedDict[str, tuple[Any, dict[bytes, Any]]] = OrderedDict()
_MOST_KNOWN = 2
_lock = threading.Lock()
_watching: set[int] = set()


def carry_out(
    number: int, key: str, packed: np.ndarray | None, main: int, work: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[int, int, Any]:
    """One task in a worker: its number, what became of it, and the result or the error.

    An error of the work itself is a value, because some backends wrap errors in their own.
    """
    try:
        # Threads of one worker that need the same problem unpack it once.
        with _lock:
            if key not in _known:
                if packed is None:
                    return number, UNKNOWN, None
                _end_with(main)
                _known[key] = _unpacked_here(packed), {}
                while len(_known) > _MOST_KNOWN:
                    _known.popitem(last=False)
            problem, idle = _known[key]
        return number, DONE, work(problem, *args, **({"idle": idle} if work is work_on else {}))
    except InputError as error:
        return number, REFUSED, error


def _unpacked_here(packed: np.ndarray) -> Any:
    try:
        return unpack(packed)
    except (ImportError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"a worker cannot unpack the problem ({reason}); install there what your functions import."
        ) from error


def _end_with(main: int) -> None:
    """End this process soon after its parent, the main process, is gone: loky's workers would wait for ever."""
    if os.getppid() != main or main in _watching:
        return

    def watch() -> None:
        while os.getppid() == main:
            time.sleep(PATIENCE)
        os._exit(1)

    _watching.add(main)
    threading.Thread(target=watch, daemon=True).start()


def work_on(
    problem: Any,
    kind: type,
    recipe: Mapping[str, Any],
    snapshot: Snapshot,
    work: Callable[[Any], object],
    idle: dict[bytes, Any],
) -> tuple[Snapshot, object]:
    """Do a piece of work on a chain, and return its snapshot and the result."""
    key = pickle.dumps((kind, dict(recipe)))
    with _lock:
        chain = idle.pop(key, None)
    if chain is None:
        # Its random stream is in the snapshot.
        chain = kind(problem, seed=np.random.SeedSequence(0), **recipe)
    chain.restore(snapshot)
    result = work(chain)
    with _lock:
        # A library that is replaced while chains learn makes another recipe.
        idle.clear()
        idle[key] = chain
    return chain.snapshot(), result


# --- in the main process ------------------------------------------------------------------------------------------


class RemoteExecutor(Executor):
    """Workers of joblib's active backend. A task whose worker dies is repeated from the snapshot that it began with."""

    remote = True
    # A piece of work costs two journeys of a snapshot.
    pace = Pace(1.0, 4.0, 1 << 62, 10.0)

    def __init__(self, workers: int, backend: Any) -> None:
        super().__init__(workers)
        self.pool = ThreadPool(min(workers, os.cpu_count() or 1))
        self.backend = backend
        self.key = ""
        self._open = contextlib.ExitStack()
        self._packed: np.ndarray | None = None
        self._parallel: Any = None

    def threads(self, chains: int) -> int:
        """One: a remote worker works on one chain."""
        return 1

    def overlaps(self, chains: int) -> bool:
        """No: this process only waits for the workers."""
        return False

    def open(self, problem: Any) -> None:
        """Pack the problem."""
        super().open(problem)
        self._open.enter_context(warnings.catch_warnings())
        for text in _HARMLESS:
            warnings.filterwarnings("ignore", text, UserWarning)
        self._packed, self.key = pack(problem), uuid.uuid4().hex
        # Where a single worker is left, joblib works in this process.
        _known[self.key] = problem, {}

    def compile(self, work: Callable[..., object], *args: Any) -> None:
        """Compile in every worker, before any clock runs, what ``work(problem, *args)`` has compiled here."""
        for _ in self.run(work, [args] * self.workers):
            pass

    def map(self, work: Callable[[Any], Any], chains: Sequence[Movable]) -> list[Any]:
        """Do a piece of work on every chain; what it returned for each."""
        tasks = [(type(chain), chain.recipe(), chain.snapshot(), work) for chain in chains]
        results: list[Any] = [None] * len(chains)
        # Another thread restores chains, so that an interrupt never finds one half restored.
        with ThreadPoolExecutor(1) as here:
            for i, (snapshot, result) in self.run(work_on, tasks):
                here.submit(chains[i].restore, snapshot).result()
                results[i] = result
        return results

    def repeat(
        self, work: Callable[..., object], chains: Sequence[Movable], count: int, aside: Aside | None = None
    ) -> None:
        """Do something ``count`` times on every chain, after what is to be done aside."""
        if aside is not None:
            aside.finish()
        self.map(partial(work, count=count), chains)

    def snapshots(self, chains: Sequence[Movable]) -> list[Snapshot]:
        """Where all chains are."""
        return [chain.snapshot() for chain in chains]

    def close(self) -> None:
        """End the workers."""
        super().close()
        self._leave()
        self._open.close()
        _known.pop(self.key, None)

    def run(self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Call ``work(problem, *task)`` for each task; numbers and results as they come."""
        left, deaths, packed = dict(enumerate(tasks)), 0, None if self._parallel else self._packed
        while left:
            try:
                for number, outcome, result in self._results(work, left, packed):
                    if outcome == REFUSED:
                        raise result
                    if outcome == DONE:
                        del left[number]
                        deaths = 0
                        yield number, result
            except Exception as error:
                if not any(kind.__name__ in DEATHS for kind in type(error).__mro__):
                    raise
                deaths += 1
                self._leave()
                if deaths == MOST_DEATHS:
                    raise InputError(
                        f"workers died {deaths} times in a row over the same task ({type(error).__name__}); check "
                        "their memory and their logs."
                    ) from error
            packed = self._packed

    def _results(
        self, work: Callable[..., Any], left: Mapping[int, tuple[Any, ...]], packed: np.ndarray | None
    ) -> Iterator[tuple[int, int, Any]]:
        """What the workers return, in any order."""
        lazy = bool(getattr(self.backend, "supports_return_generator", False))
        if self._parallel is None:
            # The pool stays open between stages, for backends that would start their workers anew for each.
            self._parallel = joblib.Parallel(
                n_jobs=self.workers,
                return_as="generator_unordered" if lazy else "list",
                batch_size=1,
                pre_dispatch="all",
                mmap_mode="c",
            ).__enter__()
        task = joblib.delayed(carry_out)
        results = self._parallel([task(i, self.key, packed, os.getpid(), work, args) for i, args in left.items()])
        try:
            yield from results
        finally:
            if lazy:
                results.close()

    def _leave(self) -> None:
        if self._parallel is not None:
            parallel, self._parallel = self._parallel, None
            # What is left of a broken pool may complain while it is put away.
            with contextlib.suppress(Exception):
                parallel.__exit__(None, None, None)
