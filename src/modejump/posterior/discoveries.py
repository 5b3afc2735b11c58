"""Which terms to report: the largest set whose expected false discovery rate is low enough."""

from __future__ import annotations

import numpy as np
import pandas as pd

from modejump.core.errors import InputError

# Rates that differ by rounding are the same.
_ROUNDING = 1e-12


def discoveries(probability: pd.Series, fdr: float = 0.1) -> pd.DataFrame:
    """The largest set of features whose expected false discovery rate is at most ``fdr``.

    Given the data, the expected share of false features in a set is the mean of ``1 - probability`` over it, so that
    among sets of one size the features of highest probability have the lowest. The rate holds on average over data from
    the model and its priors.

    Parameters
    ----------
    probability : Series
        Inclusion probability of each feature, by name.
    fdr : float
        The rate, at least 0 and below 1.

    Returns
    -------
    DataFrame
        One row for each feature of the set, highest ``probability`` first; ``fdr`` is the rate of the features up to
        this one.

    Examples
    --------
    >>> discoveries(pd.Series({"a": 0.7, "b": 1.0, "c": 0.9}), fdr=0.1)
       probability   fdr
    b          1.0  0.00
    c          0.9  0.05
    """
    if isinstance(fdr, bool) or not isinstance(fdr, int | float | np.number) or not 0.0 <= fdr < 1.0:
        raise InputError(f"fdr must be a number from 0 up to 1, such as 0.1; got {fdr!r}.")
    values = probability.to_numpy(np.float64)
    order = np.argsort(-values, kind="stable")
    rate = np.cumsum(1.0 - values[order]) / np.arange(1, len(order) + 1)
    table = pd.DataFrame({"probability": values[order], "fdr": rate}, index=probability.index[order])
    # The rate never falls from one row to the next.
    return table[: int(np.searchsorted(rate, fdr + _ROUNDING, side="right"))]
