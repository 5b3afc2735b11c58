"""Enumeration of all models: exact posterior in constant memory, on any number of threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from modejump.errors import InputError
from modejump.kernels.gray import traverse_glm
from modejump.kernels.traverse import Tally, new_stack, new_tally, traverse
from modejump.likelihoods.batch import BatchLikelihood
from modejump.likelihoods.glm import new_glm_work, with_order
from modejump.likelihoods.threads import is_long
from modejump.problem import Problem, ProblemData
from modejump.samplers.result import ModelTable, SamplerResult

MAX_TERMS = 30
# Subtrees of at most this many terms are one task.
_TASK_TERMS = 16
_FITTED_TERMS = 12
_LONG_TERMS = 4

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
    split = max(0, min(k - _task_terms(data), 12))
    keep = min(top, 2 ** min(k, 40))
    if isinstance(problem.family, BatchLikelihood):
        problem.family.score_all(workers=workers)
    # Compile first, so that no clock counts it: no model is as small as this.
    _visit(data, 0, 0, -1, new_tally(k, 1))
    started = time.perf_counter()
    tallies, best = _run_tasks(data, split, keep, workers, progress)
    seconds = time.perf_counter() - started
    return _result(tallies, best, order, seconds)


def _task_terms(data: ProblemData) -> int:
    """Terms of one task. Fits take longer, those of long tables much longer: small tasks keep all threads busy."""
    if data.glm.family == 0:
        return _TASK_TERMS
    return _LONG_TERMS if is_long(data.glm) else _FITTED_TERMS


def _visit(data: ProblemData, pattern: int, split: int, max_size: int, tally: Tally) -> None:
    """All models of one task: by fits where the response is not Gaussian, otherwise from the Gram matrix."""
    k, p = len(data.first) - 1, data.gram.shape[0]
    if data.glm.family:
        # A task without a model compiles and fits nothing.
        whole = split if max_size >= 0 else k
        traverse_glm(data, new_glm_work(data.glm, p), pattern, whole, max_size, tally)
    else:
        traverse(data, pattern, split, max_size, new_stack(k, p), tally)


class _Best:
    """The best models of the tasks so far, best first, so that thousands of tasks stay small."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.value = np.empty(0)
        self.model = np.empty(0, np.uint64)

    def take(self, tally: Tally) -> Tally:
        """Take a task's best models over; the task without them."""
        value, model = tally.top_value[: tally.top_num[0]], tally.top_model[: tally.top_num[0]]
        if len(self.value) == self.keep:
            chosen = value >= self.value[-1]
            value, model = value[chosen], model[chosen]
        value, model = np.concatenate([self.value, value]), np.concatenate([self.model, model])
        order = np.lexsort((model, -value))[: self.keep]
        self.value, self.model = value[order], model[order]
        return tally._replace(top_value=np.empty(0), top_model=np.empty(0, np.uint64))


def _run_tasks(
    data: ProblemData, split: int, keep: int, workers: int, progress: Progress | None
) -> tuple[list[Tally], _Best]:
    k = len(data.first) - 1
    finite = np.flatnonzero(np.isfinite(data.prior.log_size))
    max_size = int(finite[-1]) if len(finite) else 0
    n_tasks = 1 << split

    def task(pattern: int) -> Tally:
        tally = new_tally(k, keep)
        _visit(data, pattern, split, max_size, tally)
        return tally

    tallies: list[Tally] = []
    best = _Best(keep)

    def collect(results: Iterable[Tally]) -> None:
        for tally in results:
            tallies.append(best.take(tally))
            if progress:
                progress(len(tallies), n_tasks, "enumerating")

    if workers <= 1 or n_tasks == 1:
        collect(map(task, range(n_tasks)))
    else:
        with ThreadPoolExecutor(workers) as pool:
            # A few tasks at a time, or finished ones would wait in memory.
            for start in range(0, n_tasks, 4 * workers):
                collect(pool.map(task, range(start, min(n_tasks, start + 4 * workers))))
    return tallies, best


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
        glm=with_order(data.glm, cols) if data.glm.family else data.glm,
    ), order


def _result(tallies: list[Tally], best: _Best, order: np.ndarray, seconds: float) -> SamplerResult:
    k = len(order)
    reference = max(float(t.total[2]) for t in tallies)
    scale = [float(np.exp(t.total[2] - reference)) for t in tallies]
    total = sum(s * float(t.total[0]) for s, t in zip(scale, tallies, strict=True))
    inclusion = np.empty(k)
    inclusion[order] = np.sum([s * t.inclusion for s, t in zip(scale, tallies, strict=True)], axis=0) / total
    value, model = best.value, _restore_bits(best.model, order)
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
