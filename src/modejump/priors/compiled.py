"""Compiled model priors."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from modejump.core.compilation import entry, kernel
from modejump.priors.heredity import NONE, STRONG


class ModelPriorArrays(NamedTuple):
    """A model prior as compiled code reads it.

    The log prior of an admissible model is ``log_size[size]`` plus its terms' ``log_weight``. The parents of term j
    are ``parent_index[parent_start[j]:parent_start[j + 1]]``.
    """

    log_size: NDArray[np.float64]
    log_weight: NDArray[np.float64]
    heredity: int
    parent_start: NDArray[np.int64]
    parent_index: NDArray[np.int64]


def weights_only(
    log_weight: NDArray[np.float64], largest: int, by_size: Sequence[float] | NDArray[np.float64] = ()
) -> ModelPriorArrays:
    """The prior of models of at most so many terms that is a product of weights, up to a constant.

    Where the size of a model has weights, too, they are given by ``by_size``, from 0 to the largest size.
    """
    terms = len(log_weight)
    log_size = np.zeros(terms + 1)
    some = min(len(by_size), terms + 1)
    log_size[:some] = by_size[:some]
    log_size[largest + 1 :] = -np.inf
    return ModelPriorArrays(log_size, log_weight, NONE, np.zeros(terms + 1, np.int64), np.zeros(0, np.int64))


@kernel
def parents_satisfied(j, member, prior):
    """Whether the parents of term j in the model allow it: all of them (strong) or one of them (weak)."""
    first, last = prior.parent_start[j], prior.parent_start[j + 1]
    present = 0
    for i in range(first, last):
        present += member[prior.parent_index[i]]
    if prior.heredity == STRONG:
        return present == last - first
    return present > 0 or first == last


@kernel
def is_admissible(member, size, prior):
    """Whether the model is within the largest size and respects heredity."""
    if prior.log_size[size] == -math.inf:
        return False
    if prior.heredity == NONE:
        return True
    for j in range(member.size):
        if member[j] and not parents_satisfied(j, member, prior):
            return False
    return True


@entry
def log_model_prior(member, size, prior):
    """Log prior of a model of so many terms, 1 in ``member`` and 0 for the others; -inf where it is not admissible."""
    if not is_admissible(member, size, prior):
        return -math.inf
    total = prior.log_size[size]
    for j in range(member.size):
        if member[j]:
            total += prior.log_weight[j]
    return total


def log_prior_of(terms: Sequence[int], prior: ModelPriorArrays) -> float:
    """Log prior of a model given by its terms."""
    member = np.zeros(len(prior.log_weight), np.uint8)
    member[list(terms)] = 1
    return float(log_model_prior(member, len(terms), prior))
