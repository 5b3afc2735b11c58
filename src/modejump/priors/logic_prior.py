"""The prior of logic regression: a feature of s leaves has weight 1 / N(s)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from modejump.core.errors import InputError
from modejump.priors.features import FeaturePrior


@dataclass(frozen=True)
class LogicPrior(FeaturePrior):
    """A feature of s leaves has weight 1 / N(s), and a model the product over its features.

    N(s) = C(m, s) 2^(2s - 2) counts which of m covariates the leaves are, which of them are negated, and by which of
    "and" and "or" each is joined to the next, up to complements. It does not count brackets: of three, four and five
    leaves there are about 2, 6.5 and 30 times as many features. So all features together have weight 4 where they have
    up to three leaves and 40 where they have up to five: about how many a model has a priori, up to its limit.

    Parameters
    ----------
    covariates : int, optional
        m; by default those that the model is fitted to, before any are left out.

    Examples
    --------
    >>> np.exp(-LogicPrior().log_weights(100.0, 3, covariates=10))[1:].round().tolist()  # N(1), N(2), N(3)
    [10.0, 180.0, 1920.0]
    """

    covariates: int | None = None

    name: ClassVar[str] = "logic"
    counts_spellings: ClassVar[bool] = False  # type: ignore[misc]

    def __post_init__(self) -> None:
        m = self.covariates
        if m is not None and (not isinstance(m, (int, np.integer)) or isinstance(m, bool) or m < 1):
            raise InputError(f"covariates of the logic prior is {m!r}; give a whole number of at least 1.")

    def log_weights(self, n: float, most_complexity: int, covariates: int) -> np.ndarray:
        """Log weight by the number of leaves: -log N(s)."""
        m = covariates if self.covariates is None else self.covariates
        made = np.zeros(most_complexity + 1)
        for s in range(1, min(most_complexity, m) + 1):
            choices = math.lgamma(m + 1.0) - math.lgamma(s + 1.0) - math.lgamma(m - s + 1.0)
            made[s] = -choices - (2 * s - 2) * math.log(2.0)
        return made
