"""A likelihood given by a Python function that scores models by the names of their terms.

The function may call whatever it likes, another package for instance. Compiled code asks for one model at a time, by a
C function that takes the interpreter lock; what was asked before is remembered.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.likelihoods.custom.own import (
    FAILED,
    SIGNATURE,
    CustomRows,
    LikelihoodError,
    Model,
    Own,
    address_of,
    array_at,
    keep_error,
    kept,
)
from modejump.likelihoods.family import Table
from modejump.priors.compiled import log_prior_of

# A smallest eigenvalue of the Gram matrix of standardised columns below this is left for the engine to judge.
NEARLY_SINGULAR = 1e-6


class BatchLikelihood(Own):
    """A likelihood given by any Python function that scores models by the names of their terms.

    Give it as ``family`` of an estimator or a problem. A model is scored once for a problem and remembered. The
    samplers ask for one model at a time; `score_all` scores all models in batches before an enumeration. A score that
    is NaN or infinite counts as probability zero; an exception ends the run.

    Parameters
    ----------
    score : callable
        From a list of models, each a tuple of names of terms (those always in first, then the others in the order of
        the problem) or of texts of features, to as many log marginal likelihoods. With several workers it is called by
        several threads.

    Examples
    --------
    >>> BatchLikelihood(lambda models: [1.0 - len(model) for model in models])([("x1", "x3"), ()])
    [-1.0, 1.0]
    """

    name = "batch likelihood"

    def __init__(self, score: Callable[[list[Model]], Sequence[float]]) -> None:
        super().__init__()
        if not callable(score):
            raise InputError(f"a batch likelihood is a function from a list of models to their scores; got {score!r}.")
        self.score = score
        # By the names of the terms: scores, and what some thread is scoring now.
        self._scored: dict[Model, float] = {}
        self._under_way: dict[Model, Future[float]] = {}
        self._lock = threading.Lock()
        self._table: Table | None = None  # of a problem with a list of terms

    def __repr__(self) -> str:
        return f"BatchLikelihood({getattr(self.score, '__name__', 'score')})"

    def arguments(self) -> tuple[Any, ...]:
        """What makes the same likelihood again."""
        return (self.score,)

    def __call__(self, models: list[Model]) -> list[float]:
        """Scores of models, checked."""
        try:
            values = [float(v) for v in self.score(models)]
        except Exception as error:
            keep_error(_named_together(models), error)
            raise LikelihoodError from error
        if len(values) != len(models):
            raise LikelihoodError(
                f"the function that scores models returned {len(values)} scores for {len(models)} models; return one "
                "for each."
            )
        return [v if v < math.inf else -math.inf for v in values]

    @property
    def scored(self) -> int:
        """How many models have been scored for this problem."""
        return len(self._scored)

    def connect(self, table: Table) -> tuple[Own, CustomRows]:
        """This likelihood with C functions of this process, which are shown the numbers of terms in one row."""
        bound = BatchLikelihood(self.score)
        if table.fits_constants:
            raise InputError(
                "a batch likelihood is told features by their text, which has no coefficients inside projections; "
                "give a Space without projections, or an OwnLikelihood."
            )
        if table.fits_constants is None:
            bound._table = table
            term = np.repeat(np.arange(len(table.names), dtype=np.float64), np.diff(table.first))[:, None]
            callback, address = bound.asked(bound._named)
        else:
            # The model of no features needs no names.
            term = np.zeros((0, 1))
            callback, address = bound.asked(lambda features: ())
        bound.alive = (callback,)
        one = np.ones(1)
        return bound, CustomRows(one, one, np.zeros((0, 1)), term, np.zeros(0), address, address)

    def asked(self, named: Callable[[tuple[int, ...]], Model]) -> tuple[Any, int]:
        """A C function that scores the model of the terms whose numbers it is shown, and its address."""

        def ask(y: int, x: int, n: int, m: int, w: int, params: int, q: int) -> float:
            try:
                return self._one(named(tuple(sorted({int(t) for t in array_at(x, m)}))))
            except BaseException as error:
                kept.error, kept.text = getattr(error, "__cause__", None) or error, str(error)
                return FAILED

        callback = SIGNATURE(ask)
        return callback, address_of(callback)

    def for_features(
        self, rows: CustomRows, shape: tuple[int, int], texts: Callable[[Any], Model]
    ) -> tuple[CustomRows, Any]:
        """The same, shown the number of each feature."""
        callback, address = self.asked(texts)
        return rows._replace(x=np.zeros((shape[0], 1)), address=address, report=address), callback

    def check_rows(self, weights: Any, offset: Any) -> None:
        """Refuse what the function would not see."""
        super().check_rows(None, offset)
        if weights is not None:
            raise InputError(
                "a batch likelihood is not told the weights; let the function that scores models use them."
            )

    def _named(self, terms: tuple[int, ...]) -> Model:
        assert self._table is not None
        return (*self._table.always_in, *(self._table.names[t] for t in terms))

    def _one(self, model: Model) -> float:
        """Score of one model; threads that ask for the same one wait for the first."""
        with self._lock:
            value = self._scored.get(model)
            if value is not None:
                return value
            future = self._under_way.get(model)
            mine = future is None
            if future is None:
                future = self._under_way[model] = Future()
        if not mine:
            return future.result()
        try:
            value = self([model])[0]
        except BaseException as error:
            with self._lock:
                del self._under_way[model]
            future.set_exception(error)
            raise
        with self._lock:
            self._scored[model] = value
            del self._under_way[model]
        future.set_result(value)
        return value

    def score_all(self, *, batch: int = 64, workers: int = 1) -> int:
        """Score all models of the problem that have no score yet, in batches, as an enumeration will ask for them.

        Parameters
        ----------
        batch : int
            Models in one call.
        workers : int
            Threads that call.

        Returns
        -------
        int
            How many models were scored.
        """
        if self._table is None:
            raise InputError(
                "a batch likelihood without a list of terms has no models to score; call problem.family.score_all()."
            )
        for name, value in (("batch", batch), ("workers", workers)):
            if value < 1:
                raise InputError(f"{name} is {value}; give at least 1.")
        before = self.scored
        missing = self._missing(self._table)
        pieces = iter(lambda: list(itertools.islice(missing, batch)), [])

        def score(piece: list[Model]) -> None:
            values = self(piece)
            with self._lock:
                self._scored.update(zip(piece, values))

        with ThreadPoolExecutor(workers) as pool:
            # A few pieces at a time, or all models would wait in memory.
            while ahead := list(itertools.islice(pieces, 4 * workers)):
                list(pool.map(score, ahead))
        return self.scored - before

    def _missing(self, table: Table) -> Iterator[Model]:
        """Models without a score, smallest first; such as the engine will not ask for are left out."""
        names, first, gram, prior = table.names, table.first, table.gram, table.prior
        for size in range(len(names) + 1):
            if not prior.log_size[size] > -math.inf:
                continue
            for terms in itertools.combinations(range(len(names)), size):
                model = self._named(terms)
                if model in self._scored or not log_prior_of(terms, prior) > -math.inf:
                    continue
                cols = [c for t in terms for c in range(first[t], first[t + 1])]
                if len(cols) > table.max_cols:
                    continue
                # One that is nearly singular waits until the engine has judged it.
                if not cols or np.linalg.eigvalsh(gram[np.ix_(cols, cols)])[0] > NEARLY_SINGULAR:
                    yield model


def _named_together(models: list[Model]) -> str:
    first, last = (f"({', '.join(model)})" for model in (models[0], models[-1]))
    return f"the model {first}" if len(models) == 1 else f"one of the {len(models)} models from {first} to {last}"
