"""Priors of models of given covariates, where these are too many for one list: by the size of the model alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.priors.features import FeaturePrior
from modejump.priors.models import BernoulliPrior, ModelPrior, WeightedPrior


@lru_cache(maxsize=8)
def _log_sizes(prior: ModelPrior, most: int, covariates: int) -> np.ndarray:
    """The prior's weights of all sizes take long to compute where there are a million."""
    log_size, _ = prior._log_parts(covariates, None)
    return np.asarray(log_size[: most + 1] - log_size[0])


@dataclass(frozen=True)
class SizePrior(FeaturePrior):
    """A prior of models of given terms that depends on their number alone, for features that are plain covariates."""

    prior: ModelPrior

    counts_spellings = False

    def __post_init__(self) -> None:
        if self.prior.heredity is not None:
            raise InputError(
                "heredity needs all terms in one list; use algorithm='mjmcmc', or a model prior without heredity."
            )
        by_term = isinstance(self.prior, BernoulliPrior) and not isinstance(self.prior.q, float)
        if by_term or isinstance(self.prior, WeightedPrior):
            raise InputError(
                "a prior that differs between the terms needs all of them in one list; use algorithm='mjmcmc', or one "
                "probability for all."
            )

    @property
    def name(self) -> str:  # type: ignore[override]
        """What users call it."""
        return self.prior.name

    def log_weights(self, n: float, most_complexity: int, covariates: int) -> np.ndarray:
        """No covariate differs from others."""
        return np.zeros(most_complexity + 1)

    def log_sizes(self, most: int, covariates: int) -> np.ndarray:
        """Log prior of one model of each size, relative to the empty one."""
        return _log_sizes(self.prior, most, covariates).copy()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for storage."""
        return self.prior.to_dict()
