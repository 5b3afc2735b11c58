"""What a prior of features is: a weight by complexity, for compiled code to look up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from modejump.core.registry import to_dict


class FeaturePrior:
    """Base of all feature priors: p(M) is proportional to the product of the weights of its features."""

    name: ClassVar[str]  # what users call it
    counts_spellings: bool  # whether a feature's weight is multiplied by the number of its spellings

    def log_weights(self, n: float, most_complexity: int, covariates: int) -> np.ndarray:
        """Log weight of a feature by its complexity, from 0 to the largest."""
        raise NotImplementedError

    def log_weights_of(self, features: Sequence[Any], n: float, covariates: int) -> np.ndarray:
        """Log weight of each of some features."""
        by_complexity = self.log_weights(n, max((f.complexity for f in features), default=0), covariates)
        spellings = [f.log_spellings if self.counts_spellings else 0.0 for f in features]
        constants = self.log_weight_of_constant(n) * np.array([f.constants for f in features])
        return by_complexity[[f.complexity for f in features]] + constants + np.array(spellings)

    def log_weight_of_constant(self, n: float) -> float:
        """Log weight of each fitted constant inside a feature, as Laplace's method has it: that of 1 / sqrt(n)."""
        return -0.5 * math.log(n)

    def log_sizes(self, most: int, covariates: int) -> np.ndarray:
        """Log weight of a model by its number of features, from 0 to the largest, besides that of its features."""
        return np.zeros(most + 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for storage."""
        return to_dict(self)
