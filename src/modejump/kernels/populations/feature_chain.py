"""All arrays of a chain over features, and the one door to the kernels that work on them.

Searches, reversible sampling and the completion of a library share nearly all of their kernels. Each task with an entry
of its own would have the compiler work on all of these once more; so there is one entry, which is told the task.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from modejump.core.compilation import entry
from modejump.features.language import settle_constants, write_column
from modejump.features.pool import remember
from modejump.kernels.chain import Chain
from modejump.kernels.moves import Moves
from modejump.kernels.populations.archive import Archive
from modejump.kernels.populations.between import Between
from modejump.kernels.populations.edit_scores import EditScores, evaluate_models, place_edits, score_edits
from modejump.kernels.populations.evolve import Evolution, begin_with, evolve_features, try_features
from modejump.kernels.populations.fresh_features import FreshFeatures, list_occupied, restore_place
from modejump.kernels.populations.genetic import Genetic, evolve
from modejump.kernels.populations.population import Population, fill_place
from modejump.kernels.populations.reversible import finish, sample

EVOLVE, SAMPLE, FINISH, PLACE_LIBRARY, RESTORE_PLACES, SCORE_EDITS, PLACE_EDITS, EVALUATE, SETTLE = range(9)
EVOLVE_FEATURES, REMEMBER, TRY_FEATURES, BEGIN_WITH = 9, 10, 11, 12


class FeatureChain(NamedTuple):
    """A chain over features: what it works on, and what it is asked for."""

    data: Any  # ProblemData with one term for each place of the population
    chain: Chain
    moves: Moves
    space: Any  # of the language
    table: Any
    pool: Any
    population: Population
    archive: Archive
    genetic: Genetic
    evolution: Evolution
    fresh: FreshFeatures
    between: Between
    scores: EditScores
    # Of a task: steps, or populations, to make; population_steps: inside a population; reserve: models that a
    # population may add to the store; limit: models to evaluate. Answers: done, and the reason why it stopped.
    scalars: np.ndarray


@entry
def work(task, fc, numbers, models, values):
    """Do a task.

    Parameters
    ----------
    task : int
        Which one.
    fc : FeatureChain
        The chain.
    numbers : int64[m]
        Features, where the task is about some.
    models : uint8[m, S]
        Models over the places of the population, where the task is about some; the first model for SAMPLE.
    values : float64[m]
        Receives what the task finds out about features or models.
    """
    if task == EVOLVE:
        evolve(fc)
    elif task == SAMPLE:
        sample(fc, models[0])
    elif task == FINISH:
        finish(fc)
    elif task == PLACE_LIBRARY:
        for place in range(len(numbers)):
            values[place] = fill_place(fc, place, numbers[place])
    elif task == RESTORE_PLACES:
        for i in range(len(numbers)):
            values[i] = restore_place(fc, fc.limit + i, numbers[i])
        list_occupied(fc)
    elif task == SETTLE:
        room = len(values) // max(len(numbers), 1)
        for i in range(len(numbers)):
            settle_constants(fc.space, fc.table, fc.pool, numbers[i], values[i * room : (i + 1) * room])
    elif task == SCORE_EDITS:
        score_edits(fc, models)
    elif task == EVOLVE_FEATURES:
        evolve_features(fc)
    elif task == REMEMBER:
        for i in range(len(numbers)):
            if write_column(fc.space, fc.table, fc.pool, numbers[i]):
                remember(fc.pool, numbers[i])
    elif task == TRY_FEATURES:
        try_features(fc, numbers)
    elif task == BEGIN_WITH:
        begin_with(fc, numbers)
    elif task == PLACE_EDITS:
        place_edits(fc, numbers)
    else:
        evaluate_models(fc, models, values)
