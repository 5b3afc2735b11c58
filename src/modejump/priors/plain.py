"""Plain twins of the compiled model priors: the definitions, spelled out over sets."""

import itertools
import math
from collections.abc import Collection, Sequence

from modejump.priors.compiled import ModelPriorArrays
from modejump.priors.heredity import NONE, STRONG


def allows(parents: Collection[int], model: Collection[int], heredity: int) -> bool:
    """Whether a term with these parents may be in the model."""
    if heredity == NONE or not parents:
        return True
    present = [parent in model for parent in parents]
    return all(present) if heredity == STRONG else any(present)


def log_model_prior(model: Collection[int], prior: ModelPriorArrays) -> float:
    """Twin of `modejump.priors.compiled.log_model_prior` for a model given as a set of terms."""
    for j in model:
        parents = prior.parent_index[prior.parent_start[j] : prior.parent_start[j + 1]]
        if not allows([int(parent) for parent in parents], model, prior.heredity):
            return -math.inf
    return float(prior.log_size[len(model)]) + math.fsum(float(prior.log_weight[j]) for j in model)


def log_normaliser(
    log_size: Sequence[float], log_weight: Sequence[float], parents: Sequence[Collection[int]], heredity: int
) -> float:
    """Twin of `modejump.priors.counting.log_normaliser`: the sum over all subsets of the terms."""
    terms = range(len(log_weight))
    models = itertools.chain.from_iterable(itertools.combinations(terms, size) for size in range(len(terms) + 1))
    return math.log(
        math.fsum(
            math.exp(log_size[len(model)] + math.fsum(log_weight[j] for j in model))
            for model in models
            if all(allows(parents[j], model, heredity) for j in model)
        )
    )
