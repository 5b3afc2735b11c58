"""Workers elsewhere, reached through joblib: processes of this machine, or those of a Dask or Ray cluster.

Which workers those are is for ``joblib.parallel_config`` to say. A problem is packed once and brought to every worker
process once: as a file that the processes of one machine map into their memory, by a plugin that a Dask scheduler
hands to all workers, those that come later among them, or as an object in Ray's store. A piece of work carries the
name of its problem only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import mmap
import os
import pickle
import tempfile
import threading
import time
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import cloudpickle
import joblib
import numpy as np

from modejump.core.errors import InputError
from modejump.features.nonlinear.transforms import FIRST_USER_CODE, transforms
from modejump.likelihoods.family import Family, Table
from modejump.priors.models import UniformPrior
from modejump.problem.feature_problem import FeatureProblem
from modejump.runtime.executors import Crew, Remote, forget_idle_chains

# A piece is given up when workers died so many times in a row, and no other piece came back between.
MOST_DEATHS = 3
# Errors that say that a worker is gone, by name: most of them belong to libraries that need not be there.
DEATHS = {
    "TerminatedWorkerError", "BrokenProcessPool", "BrokenExecutor", "KilledWorker", "CancelledError",
    "FutureCancelledError", "RayActorError", "ActorDiedError", "ActorUnavailableError", "WorkerCrashedError",
    "NodeDiedError", "OutOfMemoryError",
}  # fmt: skip
# Seconds between two looks whether the process that a worker works for is still there.
PATIENCE = 2.0
_ALIGNED = 64
# Of this process, as a worker: problems used last, and parcels that were brought before they were asked for.
_known: OrderedDict[str, Any] = OrderedDict()
_MOST_KNOWN = 2
_lock = threading.Lock()
parcels: dict[str, bytes] = {}


def crew_for(workers: int) -> Crew:
    """The workers that joblib's active configuration asks for; threads where it says nothing."""
    backend, _ = joblib.parallel.get_active_backend(prefer="threads")
    if workers == 1 or getattr(backend, "supports_sharedmem", False):
        return Crew(workers)
    return JoblibCrew(workers, backend)


def threads_here(workers: int) -> int:
    """Threads for work that stays in this process, whatever the number of workers elsewhere."""
    return max(1, min(workers, os.cpu_count() or 1))


# --- parcels ------------------------------------------------------------------------------------------------------


class _Packer(cloudpickle.Pickler):
    """Packs likelihoods of the user's own as what makes them again: addresses of functions mean nothing elsewhere."""

    def reducer_override(self, obj: Any) -> Any:
        """How an object is made again."""
        if isinstance(obj, Family) and obj.custom:
            return type(obj), obj.arguments()  # type: ignore[attr-defined]
        return super().reducer_override(obj)


def pack(problem: Any) -> list[Any]:
    """A problem as pieces of bytes, to be written one after another; arrays are not copied."""
    buffers: list[pickle.PickleBuffer] = []
    content = io.BytesIO()
    try:
        _Packer(content, protocol=5, buffer_callback=buffers.append).dump(problem)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"the problem cannot be sent to other processes ({reason}); use threads, joblib's backend 'threading'."
        ) from error
    raws = [buffer.raw() for buffer in buffers]
    sizes = [raw.nbytes for raw in raws]
    index = pickle.dumps((content.getvalue(), sizes))
    chunks: list[Any] = [len(index).to_bytes(_ALIGNED, "little"), index]
    for before, raw in zip([len(index), *sizes], raws, strict=False):
        chunks += [bytes(-before % _ALIGNED), raw]
    return chunks


def unpack(parcel: Any) -> Any:
    """The problem in a parcel, a buffer that can be written to; its arrays are parts of the buffer."""
    view = memoryview(parcel)
    end = _ALIGNED + int.from_bytes(view[:_ALIGNED], "little")
    head, sizes = pickle.loads(view[_ALIGNED:end])
    parts = []
    for size in sizes:
        start = end + -end % _ALIGNED
        end = start + size
        parts.append(view[start:end])
    problem = _with_addresses(pickle.loads(head, buffers=parts))
    for transform in getattr(problem, "transforms", ()):
        if transform.code >= FIRST_USER_CODE:
            transforms.adopt(transform)
    return problem


def _with_addresses(problem: Any) -> Any:
    """A problem whose likelihood, where it is one of the user's own, has functions in this process."""
    family = problem.family
    if not family.custom:
        return problem
    if isinstance(problem, FeatureProblem):
        rows, p = problem.base_model, len(problem.names)
        table = Table(
            problem.names, (), np.arange(p + 1), problem.y, rows.weight, rows.base.T, problem.x.T, np.eye(p), p,
            UniformPrior().compile(p), projections=problem.space.projection > 0.0,
        )  # fmt: skip
    else:
        data = problem.data
        rows = data.glm
        table = Table(
            problem.names, problem.always_in, data.first, rows.y, rows.weight, rows.base.T, data.columns.x, data.gram,
            data.max_cols, data.prior,
        )  # fmt: skip
    bound, made = family.connect(table)
    rows = rows._replace(address=made.address, report=made.report)
    if isinstance(problem, FeatureProblem):
        return dataclasses.replace(problem, family=bound, base_model=rows)
    return dataclasses.replace(problem, family=bound, data=data._replace(glm=rows))


class Inside(NamedTuple):
    """A parcel that travels with every piece, for backends that nothing better is known of."""

    parcel: bytes

    def fetch(self) -> Any:
        """The parcel."""
        return bytearray(self.parcel)


class InFile(NamedTuple):
    """A parcel in a file of this machine, made by the process of this number."""

    path: str
    maker: int

    def fetch(self) -> Any:
        """The file in memory; pages are shared among processes until somebody writes to them."""
        if os.getppid() == self.maker:
            threading.Thread(target=_outlive_nobody, args=self, daemon=True).start()
        with open(self.path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def _outlive_nobody(path: str, maker: int) -> None:
    """End this process, as a worker, when the one that it works for is gone, and remove what that one cannot.

    Workers wait for work for ever where nobody is left to send any, and keep the memory that they have.
    """
    while os.getppid() == maker:
        if not os.path.exists(path):
            # The run is over.
            return
        time.sleep(PATIENCE)
    with contextlib.suppress(OSError):
        os.unlink(path)
    os._exit(1)


class Brought(NamedTuple):
    """A parcel that was brought to the worker when it began."""

    key: str

    def fetch(self) -> Any:
        """The parcel."""
        return bytearray(parcels[self.key])


class InStore(NamedTuple):
    """A parcel in Ray's store of objects."""

    reference: Any

    def fetch(self) -> Any:
        """The parcel, which can be written to, unlike what is in the store."""
        import ray

        return bytearray(ray.get(self.reference))


Where = Inside | InFile | Brought | InStore


@contextlib.contextmanager
def delivered(problem: Any, key: str, backend: Any) -> Iterator[Where]:
    """Bring a problem to where the workers of a backend find it."""
    chunks, kind = pack(problem), type(backend).__name__
    if kind == "DaskDistributedBackend":
        from modejump.runtime.dask_parcels import brought

        with brought(backend.client, key, b"".join(chunks)):
            yield Brought(key)
    elif kind == "RayBackend":
        import ray

        yield InStore(ray.put(b"".join(chunks)))
    elif kind in ("LokyBackend", "MultiprocessingBackend"):
        handle, path = tempfile.mkstemp(prefix="modejump-", suffix=".problem")
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(chunks)
            yield InFile(path, os.getpid())
        finally:
            # Where a file that is in somebody's memory cannot be removed, the system does it later.
            with contextlib.suppress(OSError):
                os.unlink(path)
    else:
        yield Inside(b"".join(chunks))


# --- workers ------------------------------------------------------------------------------------------------------


class Refusal(NamedTuple):
    """An error of the work itself, as a value: some backends wrap errors in their own."""

    error: Exception


def _unpacked_there(where: Where) -> Any:
    try:
        return unpack(where.fetch())
    except (ImportError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"a worker cannot make the problem again ({reason}); install there what your functions import."
        ) from error


def carry_out(number: int, key: str, where: Where, work: Callable[..., Any], args: tuple[Any, ...]) -> tuple[int, Any]:
    """Do one piece of work as a worker; its number and its result."""
    try:
        # Threads of one worker that need the same problem unpack it once.
        with _lock:
            problem = _known.get(key)
            if problem is None:
                problem = _known[key] = _unpacked_there(where)
                while len(_known) > _MOST_KNOWN:
                    _known.popitem(last=False)
        return number, work(problem, *args)
    except InputError as error:
        return number, Refusal(error)


def forget(key: str) -> None:
    """Forget a problem that is not asked for any more."""
    parcels.pop(key, None)
    _known.pop(key, None)
    forget_idle_chains()


class JoblibCrew(Remote):
    """Workers of joblib's active backend.

    A piece whose worker dies is done again from the snapshot that it began with.

    Parameters
    ----------
    workers : int
        Their number.
    backend : object
        The active backend.
    """

    def __init__(self, workers: int, backend: Any) -> None:
        super().__init__(workers)
        self.backend = backend
        self.key = uuid.uuid4().hex
        self._open = contextlib.ExitStack()
        self._where: Where | None = None
        self._parallel: Any = None

    def begin(self, problem: Any) -> None:
        """Bring the problem to where the workers find it."""
        # Where a run ends early joblib wonders at the pieces under way.
        self._open.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", ".* still being processed by the workers .*", UserWarning)
        self._where = self._open.enter_context(delivered(problem, self.key, self.backend))
        # With one worker left joblib works here.
        _known[self.key] = problem

    def close(self) -> None:
        """Let the workers go."""
        super().close()
        self._leave()
        self._open.close()
        forget(self.key)

    def _leave(self) -> None:
        if self._parallel is not None:
            parallel, self._parallel = self._parallel, None
            # What is left of a broken pool may complain while it is put away.
            with contextlib.suppress(Exception):
                parallel.__exit__(None, None, None)

    def send(self, work: Callable[..., Any], pieces: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Call a function of the problem and the arguments in each piece; their numbers and results as they come."""
        left, deaths = dict(enumerate(pieces)), 0
        while left:
            try:
                for number, result in self._round(work, left):
                    if isinstance(result, Refusal):
                        raise result.error
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
                        f"workers died {deaths} times in a row over the same piece of work "
                        f"({type(error).__name__}); check their memory and their logs."
                    ) from error

    def _round(self, work: Callable[..., Any], left: dict[int, tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Results of pieces as they come, in any order."""
        by_and_by = bool(getattr(self.backend, "supports_return_generator", False))
        if self._parallel is None:
            # The pool stays open between stages, for backends that would start their workers anew for each.
            self._parallel = joblib.Parallel(
                n_jobs=self.workers,
                return_as="generator_unordered" if by_and_by else "list",
                batch_size=1,
                pre_dispatch="all",
                max_nbytes=None,
            ).__enter__()
        calls = [joblib.delayed(carry_out)(i, self.key, self._where, work, args) for i, args in left.items()]
        results = self._parallel(calls)
        try:
            yield from results
        finally:
            if by_and_by:
                results.close()
