"""The best-first search against its plain twin."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import twin
from twin import close

from modejump.kernels.chain import Chain
from modejump.kernels.store import ModelStore
from modejump.priors.models import BernoulliPrior, UniformPrior
from modejump.problem.problem import Problem
from modejump.samplers.budget import Budget
from modejump.samplers.chains.mjmcmc_chain import with_more_room
from modejump.samplers.merge import renormalised_inclusion
from modejump.samplers.warmup import best_first
from modejump.samplers.warmup.best_first import BestFirstSearch

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "K = 1": lambda: twin.one_column_each(60, 1),
    "all models": lambda: twin.one_column_each(61, 6),
    "two words": lambda: twin.one_column_each(62, 70, rows=90),
    "factors": lambda: twin.with_factors(63),
    "heredity": lambda: twin.with_interactions(64, model_prior=UniformPrior(heredity="strong")),
    "large models": lambda: twin.large_models(66),
    "unequal prior": lambda: twin.one_column_each(69, 9, model_prior=BernoulliPrior(tuple(np.linspace(0.01, 0.9, 9)))),
}


def met_by(store: ModelStore) -> list[int]:
    return [twin.mask_of(words) for words in store.words[: int(store.scalars["count"])]]


@pytest.mark.parametrize("case", PROBLEMS)
def test_search_meets_models_in_the_twins_order(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = PROBLEMS[case]()
    wanted = 5000 if case == "large models" else 700
    grown = []

    def spy(chain: Chain, glm: Any) -> Chain:
        grown.append(len(chain.state.cols))
        return with_more_room(chain, glm)

    monkeypatch.setattr(best_first, "with_more_room", spy)
    store = BestFirstSearch(problem, Budget(steps=10 * wanted), chains=1).finish()
    target = twin.Target(problem)
    met = met_by(store)
    assert met == twin.best_first(target, wanted)
    assert close(store.log_posterior[: len(met)], [target.known[mask] for mask in met]).all()
    assert bool(grown) == (case == "large models")
    # Pieces of another length: the cache grows elsewhere, and no neighbour is skipped or repeated.
    pieces = BestFirstSearch(problem, Budget(steps=10 * wanted), chains=1)
    while not pieces.done:
        pieces.expand(37)
    assert met_by(pieces.store) == met
    np.testing.assert_array_equal(pieces.store.log_posterior[: len(met)], store.log_posterior[: len(met)])


def test_search_that_may_not_begin_meets_nothing() -> None:
    problem = twin.one_column_each(68, 4)
    data = problem.data
    excluded = data.prior._replace(log_size=np.full(5, -np.inf))
    store = BestFirstSearch(replace(problem, data=data._replace(prior=excluded)), Budget(steps=1000), chains=1).finish()
    assert int(store.scalars["count"]) == 0
    assert not renormalised_inclusion(store, 4).any()


def test_search_passes_over_dependent_columns() -> None:
    """Copies of a column have equal values, so that only the set of models is determined: all of full rank."""
    problem = twin.with_duplicate(65)
    store = BestFirstSearch(problem, Budget(steps=10_000), chains=1).finish()
    count = int(store.scalars["count"])
    exact = twin.traverse(twin.Target(problem))
    met = {twin.mask_of(w): v for w, v in zip(store.words[:count], store.log_posterior[:count]) if v > -math.inf}
    assert sorted(met) == exact.masks.tolist()
    assert close([met[mask] for mask in sorted(met)], exact.log_posterior).all()


def test_search_in_pieces_meets_the_same_models() -> None:
    """Growing the cache between pieces neither skips nor repeats a neighbour."""
    problem = twin.one_column_each(67, 70, rows=90)
    wanted = 20_000
    store = BestFirstSearch(problem, Budget(steps=wanted * 10), chains=1).finish()
    assert met_by(store) == twin.best_first(twin.Target(problem), wanted)
