"""Terms in pairs: how often two are in the model together, and which replace each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.posterior.fits import model_weights

if TYPE_CHECKING:
    from modejump.posterior.posterior import Posterior

# Models whose terms are counted at once.
_BLOCK = 4096
# Terms replace each other where each of them is at times in without the other: with this probability at least.
_ALONE = 0.01


def joint_inclusion(posterior: Posterior) -> pd.DataFrame:
    """Probability that two terms are in the model together; on the diagonal, that of each.

    It is over the models held, by their share of the steps or, after enumeration, their probability. Where these are
    not all models, the diagonal may differ a little from the inclusion probabilities.

    The order is that of ``posterior.inclusion``.
    """
    table, terms = posterior.result.models, posterior.problem.n_terms
    weight = model_weights(posterior.result)
    kept = np.flatnonzero(weight > 0.0)
    if not len(kept):
        raise InputError("no model with positive probability was found, so there is nothing to count.")
    both = np.zeros((terms, terms))
    for start in range(0, len(kept), _BLOCK):
        rows = kept[start : start + _BLOCK]
        words = np.ascontiguousarray(table.words[rows])
        bits = np.unpackbits(words.view(np.uint8).reshape(len(rows), -1), axis=1, bitorder="little")
        inside = bits[:, :terms].astype(np.float64)
        both += inside.T @ (weight[rows, None] * inside)
    both = np.minimum(both / weight[kept].sum(), 1.0)
    names = pd.Index(posterior.problem.names, name="feature", dtype=object)
    order = list(posterior.inclusion.index)
    return pd.DataFrame(both, index=names, columns=names.rename(None)).loc[order, order]


def substitutes(joint: pd.DataFrame, min_probability: float = 0.1, max_log_odds: float = -1.0) -> pd.DataFrame:
    """Pairs of terms of which the model has one or the other, rather than both.

    Each of the two is in without the other with a probability of at least 0.01.

    The strongest come first, by how far ``both`` is below what it were for independent terms; pairs of less than
    ``min_probability`` or of log odds ratios above ``max_log_odds`` are not listed.

    Examples
    --------
    >>> names = ["a", "b", "c"]
    >>> joint = pd.DataFrame([[0.5, 0.1, 0.3], [0.1, 0.5, 0.3], [0.3, 0.3, 0.6]], index=names, columns=names)
    >>> substitutes(joint)[["first", "second", "both", "either"]]
      first second  both  either
    0     a      b   0.1     0.9
    """
    for name, value in (("min_probability", min_probability), ("max_log_odds", max_log_odds)):
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or np.isnan(value):
            raise InputError(f"{name} must be a number; got {value!r}.")
    p, names = joint.to_numpy(), list(joint.index)
    i, j = np.triu_indices(len(names), 1)
    both = p[i, j]
    first, second = np.maximum(p[i, i] - both, 0.0), np.maximum(p[j, j] - both, 0.0)
    neither = np.maximum(1.0 - first - second - both, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.log(both) + np.log(neither) - np.log(first) - np.log(second)
    table = pd.DataFrame(
        {
            "first": pd.Series([names[a] for a in i], dtype=object),
            "second": pd.Series([names[b] for b in j], dtype=object),
            "log_odds_ratio": odds,
            "either": both + first + second,
            "both": both,
            "first_alone": first,
            "second_alone": second,
        }
    )
    # A term that is nearly always in, or never, is no substitute for any other.
    apart = (first >= _ALONE) & (second >= _ALONE)
    chosen = apart & (odds <= max_log_odds) & (table["either"].to_numpy() >= min_probability)
    surplus = both - p[i, i] * p[j, j]
    order = [row for row in np.argsort(surplus, kind="stable") if chosen[row]]
    return table.iloc[order].reset_index(drop=True)


def log_bayes_factor(posterior: Posterior, first: object, second: object) -> float:
    """``log p(y|first) - log p(y|second)`` of two models, each given by its terms."""
    a, b = (posterior.log_marginal_likelihood(model) for model in (first, second))  # type: ignore[arg-type]
    if np.isneginf(a) and np.isneginf(b):
        raise InputError(
            "neither of the two models can be estimated (dependent columns, too many terms, or separated classes), so "
            "they cannot be compared."
        )
    return float(a - b)
