"""Enumeration of all models: exact posterior in constant memory, on any number of threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np

from modejump.core.errors import InputError
from modejump.kernels.traverse import Tally, new_stack, new_tally, traverse
from modejump.kernels.traverse_glm import traverse_glm
from modejump.likelihoods.columns import Conjugate
from modejump.likelihoods.custom.batch import BatchLikelihood
from modejump.likelihoods.glm.newton import new_glm_work
from modejump.likelihoods.glm.parts import is_long
from modejump.problem.problem import Problem, ProblemData
from modejump.runtime.checkpoints import NoCheckpoint, Saved, resumed_seconds, whole_number
from modejump.runtime.snapshots import Reader, Snapshot, under
from modejump.samplers.result import ModelTable, SamplerResult

MAX_TERMS = 30
# Subtrees of at most this many terms are one task.
_TASK_TERMS = 16
_FITTED_TERMS = 12
_LONG_TERMS = 4

Progress = Callable[[float, float, str], None]


def enumerate_models(
    problem: Problem,
    *,
    top: int = 10_000,
    workers: int = 1,
    progress: Progress | None = None,
    checkpoint: NoCheckpoint | None = None,
) -> SamplerResult:
    """Evaluate all models of a problem of up to 30 terms.

    Parameters
    ----------
    problem : Problem
        What to enumerate.
    top : int
        How many of the best models to keep.
    workers : int
        Threads; the result is the same for any number.
    progress : callable, optional
        Called with (done, total, note) as tasks finish.
    checkpoint : Checkpoint, optional
        Keeps what finished tasks gave, and goes on from what it finds.
    """
    k = problem.n_terms
    if k > MAX_TERMS:
        raise InputError(
            f"{k} terms make 2^{k} models; enumeration is offered up to {MAX_TERMS} terms: use algorithm='mjmcmc'."
        )
    for name, value in (("top", top), ("workers", workers)):
        if value < 1:
            raise InputError(f"{name} is {value}; give at least 1.")
    checkpoint = checkpoint or NoCheckpoint()
    data, order = _parents_first(problem.data)
    split = max(0, min(k - _task_terms(data), 12))
    finished = _Finished(1 << split, k, min(top, 2 ** min(k, 40)))
    before = resumed_seconds(checkpoint.saved, "enumerate")
    if checkpoint.saved is not None:
        finished.restore(checkpoint.saved)
    if isinstance(problem.family, BatchLikelihood):
        problem.family.score_all(workers=workers)
    # Compile first, so that no clock counts it: no model is as small as this.
    _visit(data, 0, 0, -1, new_tally(k, 1))
    started = time.perf_counter() - before
    _run_tasks(data, split, finished, workers, progress, _Keeper(checkpoint, finished, started))
    return _result(finished, order, time.perf_counter() - started)


def _task_terms(data: ProblemData) -> int:
    """Terms of one task. Fits take longer, those of long tables much longer: small tasks keep all threads busy."""
    if isinstance(data.glm, Conjugate):
        return _TASK_TERMS
    return _LONG_TERMS if is_long(data.glm) else _FITTED_TERMS


def _visit(data: ProblemData, pattern: int, split: int, max_size: int, tally: Tally) -> None:
    """All models of one task: by fits where the response is not Gaussian, otherwise from the Gram matrix."""
    k, p = len(data.first) - 1, data.gram.shape[0]
    if not isinstance(data.glm, Conjugate):
        # A task without a model compiles and fits nothing.
        whole = split if max_size >= 0 else k
        traverse_glm(data, new_glm_work(data.glm, p), pattern, whole, max_size, tally)
    else:
        traverse(data, pattern, split, max_size, new_stack(k, p), tally)


class _Finished:
    """What the tasks have given that are finished, the first so many: their sums one by one, the best models of all.

    The sums are added up at the end, in the order of the tasks, so that no answer depends on who made them, or when.
    """

    def __init__(self, tasks: int, terms: int, keep: int) -> None:
        self.tasks, self.terms, self.keep = tasks, terms, keep
        self.inclusion = np.zeros((tasks, terms))
        self.sizes = np.zeros((tasks, terms + 1))
        self.total = np.zeros((tasks, 3))
        # How many, and their best models, best first, so that thousands of tasks stay small.
        self.state = (0, np.empty(0), np.empty(0, np.uint64))

    @property
    def count(self) -> int:
        """How many tasks are finished."""
        return self.state[0]

    def take(self, tally: Tally) -> None:
        """Take over what the next task gave."""
        count, best, models = self.state
        self.inclusion[count], self.sizes[count] = tally.inclusion, tally.sizes
        self.total[count] = [tally.scalars[name] for name in ("mass", "models", "reference")]
        kept = int(tally.scalars["kept"])
        value, model = tally.top_value[:kept], tally.top_model[:kept]
        if len(best) == self.keep:
            chosen = value >= best[-1]
            value, model = value[chosen], model[chosen]
        value, model = np.concatenate([best, value]), np.concatenate([models, model])
        order = np.lexsort((model, -value))[: self.keep]
        # At once: an interrupt finds the task counted as a whole, or not at all.
        self.state = (count + 1, value[order], model[order])

    def snapshot(self) -> tuple[int, Snapshot]:
        """How many tasks are finished, and what they gave; nothing of it changes any more."""
        count, value, model = self.state
        sums = {name: getattr(self, name)[:count] for name in ("inclusion", "sizes", "total")}
        return count, under("tasks", sums) | under("best", {"value": value, "model": model})

    def restore(self, saved: Saved) -> None:
        """Take over what the tasks of an earlier run gave."""
        whole_number(saved, "tasks", self.tasks, self.tasks + 1)
        count = whole_number(saved, "finished", 0, self.tasks + 1)
        sums, best = (Reader(saved.arrays).under(name) for name in ("tasks", "best"))
        positive, numbers = (0.0, np.inf), (-np.inf, np.inf)
        self.inclusion[:count] = sums.array("inclusion", np.float64, (count, self.terms), positive)
        self.sizes[:count] = sums.array("sizes", np.float64, (count, self.terms + 1), positive)
        self.total[:count] = sums.array("total", np.float64, (count, 3), numbers)
        met = float(self.total[:count, 1].sum())
        sums.need(0.0 <= met <= 2.0**self.terms, "total")
        kept = int(min(self.keep, met))
        value = best.array("value", np.float64, (kept,), numbers)
        best.need((np.diff(value) <= 0.0).all(), "value")
        self.state = (count, value, best.array("model", np.uint64, (kept,), (0, 1 << self.terms)))


class _Keeper:
    """Writes down what finished tasks gave, now and then."""

    def __init__(self, checkpoint: NoCheckpoint, finished: _Finished, started: float) -> None:
        self.checkpoint, self.finished, self.started = checkpoint, finished, started

    def keep(self) -> None:
        """A checkpoint, where it is time for one."""
        if self.checkpoint.due():
            self.save()

    def save(self) -> None:
        """A checkpoint."""
        count, arrays = self.finished.snapshot()
        state = {"algorithm": "enumerate", "phase": "enumeration", "tasks": self.finished.tasks, "finished": count}
        self.checkpoint.save(state | {"spent": time.perf_counter() - self.started}, arrays)


def _run_tasks(
    data: ProblemData, split: int, finished: _Finished, workers: int, progress: Progress | None, keeper: _Keeper
) -> None:
    """Run the tasks that are missing."""
    k, n_tasks = len(data.first) - 1, finished.tasks
    sizes = np.flatnonzero(np.isfinite(data.prior.log_size))
    max_size = int(sizes[-1]) if len(sizes) else 0

    def task(pattern: int) -> Tally:
        tally = new_tally(k, finished.keep)
        _visit(data, pattern, split, max_size, tally)
        return tally

    def results() -> Generator[Tally, None, None]:
        if workers <= 1 or n_tasks == 1:
            yield from map(task, range(finished.count, n_tasks))
            return
        with ThreadPoolExecutor(workers) as pool:
            # A few tasks at a time, or finished ones would wait in memory.
            for start in range(finished.count, n_tasks, 4 * workers):
                yield from pool.map(task, range(start, min(n_tasks, start + 4 * workers)))

    try:
        with closing(results()) as tallies:
            for tally in tallies:
                finished.take(tally)
                if progress:
                    progress(finished.count, n_tasks, "enumerating")
                keeper.keep()
    except KeyboardInterrupt:
        # No task that is finished has to be run again.
        keeper.checkpoint.close()
        if finished.count:
            keeper.save()
        raise
    finally:
        keeper.checkpoint.close()


def _parents_first(data: ProblemData) -> tuple[ProblemData, np.ndarray]:
    """The problem with its terms in an order in which parents precede children, and that order."""
    k = len(data.first) - 1
    prior = data.prior
    order = np.arange(k)
    if prior.heredity == 0:
        return data, order
    rank: dict[int, int] = {}

    def depth(t: int) -> int:
        if t not in rank:
            own = prior.parent_index[prior.parent_start[t] : prior.parent_start[t + 1]]
            rank[t] = 1 + max((depth(int(s)) for s in own), default=-1)
        return rank[t]

    order = np.array(sorted(range(k), key=lambda t: (depth(t), t)), dtype=np.int64)
    if (order == np.arange(k)).all():
        return data, order
    where = np.empty(k, np.int64)
    where[order] = np.arange(k)
    widths = np.diff(data.first)
    cols = np.concatenate([np.arange(data.first[t], data.first[t + 1]) for t in order]).astype(np.int64)
    parents = [where[prior.parent_index[prior.parent_start[t] : prior.parent_start[t + 1]]] for t in order]
    start = np.concatenate([[0], np.cumsum([len(s) for s in parents])]).astype(np.int64)
    c = data.columns
    gram = np.ascontiguousarray(data.gram[np.ix_(cols, cols)])
    return data._replace(
        gram=gram,
        rank=gram,
        corr=data.corr[cols],
        first=np.concatenate([[0], np.cumsum(widths[order])]).astype(np.int64),
        prior=prior._replace(
            log_weight=prior.log_weight[order],
            parent_start=start,
            parent_index=np.concatenate([np.asarray(s, np.int64) for s in parents]).astype(np.int64),
        ),
        columns=c._replace(
            x=np.ascontiguousarray(c.x[:, cols]),
            loading=np.ascontiguousarray(c.loading[:, cols]),
            scale=c.scale[cols],
        ),
        glm=data.glm.with_order(cols),
    ), order


def _result(finished: _Finished, order: np.ndarray, seconds: float) -> SamplerResult:
    k = len(order)
    reference = float(finished.total[:, 2].max())
    scale = np.exp(finished.total[:, 2] - reference)[:, None]
    total = sum((scale[:, 0] * finished.total[:, 0]).tolist())
    inclusion = np.empty(k)
    inclusion[order] = (scale * finished.inclusion).sum(axis=0) / total
    _, value, model = finished.state
    model = _restore_bits(model, order)
    return SamplerResult(
        algorithm="enumerate",
        exact=True,
        models=ModelTable(model[:, None], value, np.zeros(len(value), np.int64), np.arange(len(value))),
        n_models=int(finished.total[:, 1].sum()),
        log_evidence=float(reference + np.log(total)),
        renormalised=np.minimum(inclusion, 1.0),
        size_distribution=(scale * finished.sizes).sum(axis=0) / total,
        seconds=seconds,
    )


def _restore_bits(model: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Bits back in the problem's own order of terms."""
    if (order == np.arange(len(order))).all():
        return model
    restored = np.zeros_like(model)
    for i, t in enumerate(order):
        restored |= ((model >> np.uint64(i)) & np.uint64(1)) << np.uint64(t)
    return restored
