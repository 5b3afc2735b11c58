"""Log marginal likelihoods from the columns of a model: one implementation for each kind of likelihood.

What compiled code has of the rows is of one of three kinds. A conjugate family needs no rows: the Gram matrix says
all. A generalised linear model is fitted (`modejump.likelihoods.glm.newton.Glm`), and a likelihood of the user's own
is called (`modejump.likelihoods.custom.own.CustomRows`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from modejump.core.compilation import entry, generic

# Of one of these kinds.
LikelihoodRows = Any


class Conjugate(NamedTuple):
    """What a conjugate family has of the rows: nothing."""

    rows: int = 0
    # Nothing lies in a table that nobody has copied.
    layout: int = 0

    def with_order(self, cols: np.ndarray) -> Conjugate:
        """The same with its candidate columns in another order."""
        return self


@generic
def log_marginal_of_columns(rows, work, cols, k, prior, n):
    """log p(y|M) - log p(y|base) of the model with these k columns; minus infinity where it has no estimate."""


@entry
def fit_columns(rows, work, cols, prior, n):
    """`log_marginal_of_columns` from Python; what belongs to a fit is left in the scratch space."""
    return log_marginal_of_columns(rows, work, cols, len(cols), prior, n)
