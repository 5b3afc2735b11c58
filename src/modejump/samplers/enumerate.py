"""Enumeration of all models: exact posterior in constant memory, on any number of threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import closing
from typing import Any

import numpy as np

from modejump.core.threads import ThreadPool
from modejump.kernels.traverse import Tally, new_stack, new_tally, traverse
from modejump.kernels.traverse_glm import traverse_glm
from modejump.likelihoods.columns import Conjugate
from modejump.likelihoods.custom.batch import BatchLikelihood
from modejump.likelihoods.glm.newton import new_glm_work
from modejump.likelihoods.glm.parts import is_long
from modejump.problem.problem import Problem, ProblemData
from modejump.runtime.checkpoints import NoCheckpoint
from modejump.runtime.context import Context
from modejump.runtime.snapshots import Snapshot, under
from modejump.samplers.plan import Plan
from modejump.samplers.result import ModelTable, Result

MAX_TERMS = 30
# Subtrees of at most this many terms are one task.
_TASK_TERMS = 16
_FITTED_TERMS = 12
_LONG_TERMS = 4


def enumerate_models(problem: Problem, plan: Plan, context: Context) -> Result:
    """Evaluate all models of a problem of up to 30 terms.

    Parameters
    ----------
    problem : Problem
        What to enumerate.
    plan : Plan
        How many of the best models to keep.
    context : Context
        The pool of the executor's threads shares the work.
    """
    k, pool, checkpoint = problem.n_terms, context.executor.pool, context.checkpoint
    data, order = _parents_first(problem.data)
    split = max(0, min(k - _task_terms(data), 12))
    sums = _Sums(1 << split, k, min(plan.top, 2 ** min(k, 40)))
    if isinstance(problem.family, BatchLikelihood):
        problem.family.score_all(workers=pool.count)
    with context.compiling():
        # No model is as small as this.
        _visit(data, 0, 0, -1, new_tally(k, 1))
    begun = checkpoint.begin("enumerate")
    if checkpoint.state is not None:
        sums.restore(checkpoint)
    try:
        with closing(_tallies(data, split, sums, pool)) as tallies:
            for tally in tallies:
                sums.add(tally)
                if context.progress:
                    context.progress(sums.count, sums.tasks, "enumerating")
                if checkpoint.due():
                    checkpoint.save(*sums.snapshot())
    except KeyboardInterrupt:
        # No finished task has to be run again.
        checkpoint.close()
        if sums.count:
            checkpoint.save(*sums.snapshot())
        raise
    return _result(sums, order, time.perf_counter() - begun)


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


class _Sums:
    """What the first so many tasks have given: their sums one by one, and the best models of all.

    The sums are added up at the end, in the order of the tasks, so that no answer depends on who made them, or when.
    """

    def __init__(self, tasks: int, terms: int, keep: int) -> None:
        self.tasks, self.terms, self.keep = tasks, terms, keep
        self.inclusion = np.zeros((tasks, terms))
        self.sizes = np.zeros((tasks, terms + 1))
        self.total = np.zeros((tasks, 3))
        # How many tasks, and their best models, best first.
        self.state = (0, np.empty(0), np.empty(0, np.uint64))

    @property
    def count(self) -> int:
        """How many tasks are finished."""
        return self.state[0]

    def add(self, tally: Tally) -> None:
        """Add what the next task gave."""
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

    def snapshot(self) -> tuple[dict[str, Any], Snapshot]:
        """How many tasks are finished, and what they gave; none of it changes any more."""
        count, value, model = self.state
        sums = {name: getattr(self, name)[:count] for name in ("inclusion", "sizes", "total")}
        state = {"phase": "enumeration", "tasks": self.tasks, "finished": count}
        return state, under("tasks", sums) | under("best", {"value": value, "model": model})

    def restore(self, checkpoint: NoCheckpoint) -> None:
        """Take over what the tasks of an earlier run gave."""
        checkpoint.number("tasks", self.tasks, self.tasks + 1)
        count = checkpoint.number("finished", 0, self.tasks + 1)
        sums, best = (checkpoint.reader.under(name) for name in ("tasks", "best"))
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


def _tallies(data: ProblemData, split: int, sums: _Sums, pool: ThreadPool) -> Generator[Tally, None, None]:
    """What the missing tasks give, in their order."""
    k = len(data.first) - 1
    sizes = np.flatnonzero(np.isfinite(data.prior.log_size))
    max_size = int(sizes[-1]) if len(sizes) else 0

    tallies: dict[int, Tally] = {}
    ended = threading.Event()

    def task(pattern: int) -> Tally:
        tally = tallies[pattern] = new_tally(k, sums.keep)
        # The end stops the tallies that it finds; one that it came too early for stops by itself.
        if not ended.is_set():
            _visit(data, pattern, split, max_size, tally)
        return tallies.pop(pattern)

    # A few tasks at a time, or finished ones would wait in memory; one where nobody else has to be kept busy.
    some = 4 * pool.count if pool.count > 1 else 1
    try:
        for start in range(sums.count, sums.tasks, some):
            # Not in this thread, even where it is the only one: it would not hear an interrupt before the task's end.
            yield from pool.stream(task, range(start, min(sums.tasks, start + some)), aside=True)
    finally:
        ended.set()
        for tally in list(tallies.values()):
            tally.scalars["stop"] = 1


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


def _result(sums: _Sums, order: np.ndarray, seconds: float) -> Result:
    k = len(order)
    reference = float(sums.total[:, 2].max())
    scale = np.exp(sums.total[:, 2] - reference)[:, None]
    total = sum((scale[:, 0] * sums.total[:, 0]).tolist())
    inclusion = np.empty(k)
    inclusion[order] = (scale * sums.inclusion).sum(axis=0) / total
    _, value, model = sums.state
    model = _restore_bits(model, order)
    return Result(
        algorithm="enumerate",
        exact=True,
        models=ModelTable(model[:, None], value, np.zeros(len(value), np.int64), np.arange(len(value))),
        n_models=int(sums.total[:, 1].sum()),
        log_evidence=float(reference + np.log(total)),
        renormalised=np.minimum(inclusion, 1.0),
        size_distribution=(scale * sums.sizes).sum(axis=0) / total,
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
