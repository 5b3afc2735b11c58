"""Enumeration of all models: exact posterior in constant memory, on any number of threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from modejump.errors import InputError
from modejump.kernels.traverse import Tally, new_stack, new_tally, traverse
from modejump.problem import Problem, ProblemData
from modejump.samplers.result import ModelTable, SamplerResult

MAX_TERMS = 30
# Subtrees of at most this many terms are one task.
_TASK_TERMS = 16

Progress = Callable[[float, float, str], None]


def enumerate_models(
    problem: Problem, *, top: int = 10_000, workers: int = 1, progress: Progress | None = None
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
    """
    k = problem.n_terms
    if k > MAX_TERMS:
        raise InputError(
            f"{k} terms make 2^{k} models; enumeration is offered up to {MAX_TERMS} terms: use algorithm='mjmcmc'."
        )
    for name, value in (("top", top), ("workers", workers)):
        if value < 1:
            raise InputError(f"{name} is {value}; give at least 1.")
    data, order = _parents_first(problem.data)
    split = max(0, min(k - _TASK_TERMS, 12))
    keep = min(top, 2 ** min(k, 40))
    # Compile first, so that no clock counts it: no model is as small as this.
    traverse(data, 0, 0, -1, new_stack(k, problem.n_columns), new_tally(k, 1))
    started = time.perf_counter()
    tallies = _run_tasks(data, split, keep, workers, progress)
    seconds = time.perf_counter() - started
    return _result(tallies, order, keep, seconds)


def _run_tasks(data: ProblemData, split: int, keep: int, workers: int, progress: Progress | None) -> list[Tally]:
    k, p = len(data.first) - 1, data.gram.shape[0]
    finite = np.flatnonzero(np.isfinite(data.prior.log_size))
    max_size = int(finite[-1]) if len(finite) else 0
    n_tasks = 1 << split

    def task(pattern: int) -> Tally:
        tally = new_tally(k, keep)
        traverse(data, pattern, split, max_size, new_stack(k, p), tally)
        return _trimmed(tally)

    tallies = []
    if workers <= 1 or n_tasks == 1:
        results = map(task, range(n_tasks))
        for done, tally in enumerate(results):
            tallies.append(tally)
            if progress:
                progress(done + 1, n_tasks, "enumerating")
        return tallies
    with ThreadPoolExecutor(workers) as pool:
        for done, tally in enumerate(pool.map(task, range(n_tasks))):
            tallies.append(tally)
            if progress:
                progress(done + 1, n_tasks, "enumerating")
    return tallies


def _trimmed(tally: Tally) -> Tally:
    """Only what the task found, so that thousands of tasks stay small."""
    n = int(tally.top_num[0])
    return tally._replace(top_value=tally.top_value[:n].copy(), top_model=tally.top_model[:n].copy())


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
    return data._replace(
        gram=np.ascontiguousarray(data.gram[np.ix_(cols, cols)]),
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
    ), order


def _result(tallies: list[Tally], order: np.ndarray, keep: int, seconds: float) -> SamplerResult:
    k = len(order)
    reference = max(float(t.total[2]) for t in tallies)
    scale = [float(np.exp(t.total[2] - reference)) for t in tallies]
    total = sum(s * float(t.total[0]) for s, t in zip(scale, tallies, strict=True))
    inclusion = np.empty(k)
    inclusion[order] = np.sum([s * t.inclusion for s, t in zip(scale, tallies, strict=True)], axis=0) / total
    value = np.concatenate([t.top_value for t in tallies])
    model = np.concatenate([t.top_model for t in tallies])
    best = np.lexsort((model, -value))[:keep]
    value, model = value[best], _restore_bits(model[best], order)
    return SamplerResult(
        algorithm="enumerate",
        exact=True,
        models=ModelTable(model[:, None], value, np.zeros(len(value), np.int64), np.arange(len(value))),
        n_models=int(np.sum([t.total[1] for t in tallies])),
        log_evidence=float(reference + np.log(total)),
        renormalised=np.minimum(inclusion, 1.0),
        size_distribution=np.sum([s * t.sizes for s, t in zip(scale, tallies, strict=True)], axis=0) / total,
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
