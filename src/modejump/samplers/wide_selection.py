"""RGMJMCMC over very many columns: warm-up by the scores of all columns, and estimates for all of them.

Warm-up goes in rounds. One pass over the table scores every column given the models that the chains are in; the best
ones become the library, in which the chains make some steps. While a column outside is worth a place, the library is
made anew. After the last round it is frozen with a distribution over all columns, and the chains sample as they do with
any features.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from modejump.core.errors import InputError
from modejump.core.threads import ThreadPool
from modejump.features.covariates.language import Screened
from modejump.problem.wide_problem import WideProblem
from modejump.runtime.context import Context
from modejump.runtime.snapshots import Reader, Snapshot, flatten, under
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.law_estimates import batch_means
from modejump.samplers.plan import Plan
from modejump.samplers.result import Result
from modejump.samplers.rgmjmcmc import (
    COLUMN_BYTES,
    LEAST_FEATURES,
    OTHER_COLUMNS,
    SEARCH_SHARE,
    WORTH_A_PLACE,
    Driver,
)
from modejump.samplers.settings import Sampler
from modejump.samplers.warmup.library import Library, best_first, best_models
from modejump.samplers.warmup.wide_scores import Model, rao_blackwell, screened, worth

# Columns of a library, at most, where memory does not ask for fewer.
MOST_COLUMNS = 256
# Models given which all columns are scored: where each chain is, and so many of the best.
BEST_MODELS = 2
# Models that warm-up hands on.
NOTED_MODELS = 5_000
# Draws from the chains behind the estimates for all columns.
DRAWS = 256
# Models of this share of the largest size or more are worth a note.
NEAR_LIMIT = 0.9


def wide_selection(problem: WideProblem, plan: Plan, context: Context) -> Result:
    """Sample models of very many columns; the share of steps in a model estimates its posterior probability.

    Parameters
    ----------
    problem : WideProblem
        The target.
    plan : Plan
        Chains; a budget as for RGMJMCMC among features; settings of the populations.
    context : Context
        Progress, executor and checkpoint.
    """
    if plan.algorithm != "rgmjmcmc":
        raise InputError(f"very many columns are sampled by algorithm='rgmjmcmc'; got {plan.algorithm!r}.")
    return _WideDriver(problem, plan, context).run()


def compile_wide(problem: WideProblem, settings: Sampler) -> None:
    """Compile everything that a run needs, so that no clock counts it."""
    alive = int(np.argmax(problem.lengths > 0.0))
    some = dataclasses.replace(problem, lengths=problem.lengths[: alive + 1], x=problem.x[: alive + 1])
    worth(some, [(), (alive,)] if problem.size > 1 else [()], ThreadPool())
    feature = problem.language.at(alive)  # type: ignore[attr-defined]
    none = Screened(np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 2), np.int64))
    trial = ReversibleChain(problem, (feature,), np.ones(1), np.random.SeedSequence(0), settings, 1 << 16, none)
    trial.advance(1)
    trial.close()


class _WideDriver(Driver):
    """Takes all chains through learning and sampling."""

    compile_run = staticmethod(compile_wide)  # type: ignore[assignment]
    rounds, learn_steps = 8, 4_000
    problem: WideProblem

    def run(self) -> Result:
        """The same, and estimates for all columns."""
        result = super().run()
        sizes = result.size_distribution
        near = int(np.ceil(NEAR_LIMIT * self.problem.size))
        notes = result.notes
        if len(sizes) > near and sizes[near:].sum() > 1e-3:
            notes += (
                f"models come near the largest size, {self.problem.size} columns; give the model prior a larger "
                "max_size.",
            )
        if not self.problem.family.conjugate:
            return dataclasses.replace(result, notes=notes)
        self._tell("estimates for all columns")
        found = rao_blackwell(self.problem, self._drawn(), self.executor.pool)
        return dataclasses.replace(result, notes=notes, rao_blackwell=found)

    def _sampled(self, problem: WideProblem) -> WideProblem:  # type: ignore[override]
        return problem

    def _tell(self, what: str, share: float = 1.0) -> None:
        if self.context.progress:
            self.context.progress(share, 1.0, f"{what} ({len(self.problem.names):,} columns)")

    def _columns(self, model: object) -> Model:
        """A model by the places of its columns."""
        place = self.problem.language.place  # type: ignore[attr-defined]
        return tuple(sorted(place(f) for f in model))  # type: ignore[attr-defined]

    def _drawn(self) -> list[tuple[Model, float]]:
        """Models at evenly spaced ends of batches, of all chains, with their weights."""
        draws = [model for chain in self.chains for model, _ in chain.draws]
        some = draws[:: -(-len(draws) // DRAWS)]
        count: dict[Model, int] = {}
        for model in some:
            columns = self._columns(model)
            count[columns] = count.get(columns, 0) + 1
        return [(model, times / len(some)) for model, times in count.items()]

    def _searched(self) -> int:
        return 0

    def _own_arrays(self) -> Snapshot:
        assert self.screened is not None
        return under("screened", flatten(self.screened)) | {"worth": self._worth}

    def _read_own_arrays(self, reader: Reader) -> None:
        q, part = len(self.problem.names), reader.under("screened")
        listed = part.array("listed", np.int64, (None,), (0, q))
        pairs = part.array("pairs", np.int64, (None, 2), (0, q))
        self.screened = Screened(listed, part.array("weight", np.float64, (len(listed),)), pairs)
        self._worth, self._conditional = reader.array("worth", np.float64, (q,)), True

    def _search(self) -> None:
        """What each column is worth alone."""
        self._tell("scores", 0.0)
        self._worth = worth(self.problem, [()], self.executor.pool)
        self._starts: list[Model] = []
        self._conditional = False

    def _freeze(self) -> Library:
        """The library of the best columns, and chains that begin where they were."""
        rows, chains = self.problem.x.shape[1], len(self.seeds)
        room = COLUMN_BYTES // (8 * rows * chains) - OTHER_COLUMNS
        most = min(int(np.clip(room, LEAST_FEATURES, MOST_COLUMNS)), len(self._worth))
        order = np.argsort(-self._worth, kind="stable")[:most]
        order = order[self.problem.lengths[order] > 0.0]
        self.screened = screened(self.problem, self._worth, order, self.executor.pool)
        language = self.problem.language
        library = Library(
            tuple(language.at(int(j)) for j in order),  # type: ignore[attr-defined]
            np.clip(self._worth[order], 0.0, 1.0),
        )
        self._make_chains(library)
        inside = set(order.tolist())
        for chain, start in zip(self.chains, self._starts, strict=False):
            chain.begin_at([language.at(j) for j in start if j in inside])  # type: ignore[attr-defined]
        return library

    def _met_features_worth_a_place(self, library: Library) -> bool:
        """Whether a column outside the library is worth a place, by the scores given the chains' models."""
        self._note_models()
        self.collected = dict(best_first(self.collected)[:NOTED_MODELS])
        self._tell("scores", SEARCH_SHARE)
        self._starts = [self._columns(chain.model()) for chain in self.chains]
        best = [self._columns(model) for model in best_models(self.collected, BEST_MODELS)]
        found = worth(self.problem, sorted({*self._starts, *best}), self.executor.pool)
        # Later rounds are nearer to the target: each counts as much as all before it, but for the scores alone.
        self._worth = 0.5 * self._worth + 0.5 * found if self._conditional else found
        self._conditional = True
        inside = self._columns(library.features)
        outside = np.delete(self._worth, inside)
        return bool(len(outside) and outside.max() > WORTH_A_PLACE)

    def _law_means(self) -> np.ndarray:
        """Batch means of the library's columns: others are in the model too seldom to be told apart."""
        features = self.chains[0].library
        return batch_means(self.chains, {f: j for j, f in enumerate(features)}, len(features))
