"""What every language of features promises: draws and edits on a space that can be enumerated, files, resuming."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import feature_twin as ft
import numpy as np
from feature_experiments import chi_square
from mortal import die_often

from modejump.features.language import Language
from modejump.posterior import Posterior
from modejump.posterior.storage import load_run, save_run
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.result import Result


def check_draws(chain: ReversibleChain, count: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the language, and of q, have the probabilities that are said of them; returns both, by feature."""
    features = list(chain.language.enumerate())
    numbers, arrays = chain.numbers(features), chain.arrays
    assert len(set(numbers)) == len(features)
    own, total = np.empty(len(features)), np.empty(len(features))
    ft.log_probabilities(arrays.fresh.q, arrays.space, arrays.table, numbers, own, total)
    drawn = np.empty(count, np.int64)
    for draw, probability in (
        (lambda: ft.language_draws(arrays.space, arrays.table, ft.stream_of(2), drawn), own),
        (lambda: ft.q_draws(arrays.fresh.q, arrays.space, arrays.table, ft.stream_of(3), drawn), total),
    ):
        draw()
        counts = np.array([(drawn == f).sum() for f in numbers], float)
        assert counts.sum() == (drawn >= 0).sum()
        assert chi_square(counts, np.exp(probability), len(drawn)) > level
    return np.exp(own), np.exp(total)


def check_edits(chain: ReversibleChain, tried: tuple[int, ...], count: int, level: float) -> np.ndarray:
    """Edits have their probabilities, those of some features by draws, and can be undone; returns them all."""
    numbers = chain.numbers(list(chain.language.enumerate()))
    law = np.empty((len(numbers), len(numbers)))
    ft.edit_probabilities(chain.arrays.space, chain.table, numbers, law)
    assert ((law > 0) == (law.T > 0)).all() and (law.sum(axis=1) <= 1.0 + 1e-12).all()
    for i in tried:
        drawn = np.empty(count, np.int64)
        ft.edit_draws(chain.arrays.space, chain.table, numbers[i], ft.stream_of(i), drawn)
        counts = np.array([(drawn == f).sum() for f in numbers], float)
        assert chi_square(counts, law[i], len(drawn)) > level
    return law


def check_stored(sampled: Posterior, language: Language, folder: Path) -> None:
    """A run reads as it was saved, its language among the rest."""
    save_run(sampled, folder / "run")
    loaded, _ = load_run(folder / "run")
    assert loaded.problem.names == sampled.problem.names and loaded.laws is not None
    assert loaded.laws.language.to_dict() == language.to_dict()
    assert (loaded.result.renormalised == sampled.result.renormalised).all()


def check_resumed(work: Callable[..., Result], folder: Path) -> None:
    """A run that dies often ends as one that lives."""
    whole = work()
    resumed, deaths = die_often(work, folder)
    assert deaths
    assert (resumed.renormalised == whole.renormalised).all() and resumed.steps == whole.steps
