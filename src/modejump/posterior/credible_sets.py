"""What the joint posterior says about several terms: the probability that at least one is in, and credible sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.data.bits import bit_sums, pack_block
from modejump.posterior.fits import model_weights
from modejump.samplers.merge import weighted_inclusion

if TYPE_CHECKING:
    from modejump.posterior.posterior import Posterior

# Terms below this inclusion probability belong to no credible set.
LEAST_INCLUSION = 0.001
# A term is an alternative to others where it is in at least this many times as often without them as with one of them.
ALTERNATIVE = 2.0

# Absolute correlations of a term with some others, by their numbers.
Correlation = Callable[[int, np.ndarray], np.ndarray]


class Joint(NamedTuple):
    """Which models have which term, and the weights of the models."""

    weight: np.ndarray  # (models,): weights; the sum is one
    words: np.ndarray  # (terms, W): for each term the models that have it, as bits

    @classmethod
    def of(cls, models: np.ndarray, weight: np.ndarray, terms: np.ndarray) -> Joint:
        """From models as bit sets (rows of words, a bit for each term), their weights, and the terms wanted."""
        used = weight > 0.0
        models, weight = models[used], np.ascontiguousarray(weight[used] / weight[used].sum())
        words = np.empty((len(terms), -(-len(weight) // 64)), np.uint64)
        for i, t in enumerate(terms):
            inside = (models[:, t >> 6] >> np.uint64(t & 63)) & np.uint64(1)
            words[i] = pack_block(inside.astype(bool)[:, None])[0]
        return cls(weight, words)

    def any_of(self, terms: Sequence[int]) -> float:
        """Probability that at least one of some terms is in."""
        return float(bit_sums(np.bitwise_or.reduce(self.words[terms], axis=0, keepdims=True), self.weight)[0])


def credible_sets(
    models: np.ndarray,
    weight: np.ndarray,
    correlation: Correlation,
    names: Sequence[str],
    level: float = 0.95,
    purity: float = 0.5,
    min_probability: float = 0.1,
) -> pd.DataFrame:
    """Groups of correlated covariates that stand in for each other, and the probability that at least one is in.

    The data often say that one of several correlated covariates is in the model, but not which: each has a low
    inclusion probability, and their group a high one. Sets are built one after the other.

    1. The covariate of highest inclusion probability that is in no set yet leads a new group.
    2. The group takes in, one at a time, the covariate that adds most to the probability that at least one of the group
       is in. It must be in no set yet, correlated with every one of the group (absolute correlation of at least
       ``purity``), and an alternative to them: at least twice as probable where none of the group is in as where one
       is. So two effects side by side, each with a covariate of its own, are not one group.
    3. The set is the shortest beginning of the group, in this order, that has ``level`` times the probability of the
       whole. What is cut off may lead groups, or be in sets, that come later.

    All probabilities are sums over models, so they hold however the covariates depend on each other. Covariates with an
    inclusion probability below 0.001 are left out. The credible sets of SuSiE have a probability of ``level`` each;
    here a set says its own, which is low where the data doubt that there is an effect.

    Parameters
    ----------
    models : ndarray of uint64, shape (m, W)
        Models as bit sets: covariate j is bit ``j % 64`` of word ``j // 64``.
    weight : ndarray of shape (m,)
        Their probabilities, or how often each was drawn.
    correlation : callable
        Gives the absolute correlations of covariate j with others, from j and an array of their numbers.
    names : sequence of str
        Names of the covariates.
    level : float
        Share of its group's probability that a set must have.
    purity : float
        Least absolute correlation between any two covariates of a set.
    min_probability : float
        Sets of a lower probability are not reported.

    Returns
    -------
    DataFrame
        Highest probability first: ``covariates`` (tuple of names, in the order in which they joined), ``probability``
        that at least one of them is in, ``leading`` (the first, which has the highest inclusion probability), ``size``,
        and ``min_abs_correlation`` between any two (1 for a single one).

    Examples
    --------
    >>> models = np.array([[0b01], [0b10]], np.uint64)  # one or the other of two terms
    >>> credible_sets(models, np.array([0.6, 0.4]), lambda i, others: np.ones(len(others)), ["a", "twin"])
      covariates  probability leading  size  min_abs_correlation
    0  (a, twin)          1.0       a     2                  1.0
    """
    _check_options(level, purity, min_probability)
    inclusion = weighted_inclusion(models, weight / weight.sum(), len(names))
    terms = np.flatnonzero(inclusion >= LEAST_INCLUSION)
    terms = terms[np.argsort(-inclusion[terms], kind="stable")]
    joint, inclusion = Joint.of(models, weight, terms), inclusion[terms]

    def related(i: int, others: np.ndarray) -> np.ndarray:
        return others[correlation(int(terms[i]), terms[others]) >= purity]

    free = np.ones(len(terms), bool)
    rows = []
    for lead in range(len(terms)):
        if not free[lead]:
            continue
        free[lead] = False
        near = related(lead, np.flatnonzero(free))
        if inclusion[lead] + inclusion[near].sum() < min_probability:
            continue
        group, reached = _group(joint, inclusion, lead, near, related)
        size = int(np.argmax(np.array(reached) >= level * reached[-1])) + 1
        if reached[size - 1] >= min_probability:
            free[group[:size]] = False
            rows.append((group[:size], reached[size - 1]))
    rows.sort(key=lambda row: -row[1])
    members = [tuple(names[terms[i]] for i in group) for group, _ in rows]
    return pd.DataFrame(
        {
            "covariates": pd.Series(members, dtype=object),
            "probability": np.array([probability for _, probability in rows], np.float64),
            "leading": pd.Series([names_of[0] for names_of in members], dtype=object),
            "size": np.array([len(names_of) for names_of in members], np.int64),
            "min_abs_correlation": [_least_correlation(correlation, terms[group]) for group, _ in rows],
        }
    ).astype({"min_abs_correlation": np.float64})


def _check_options(level: float, purity: float, min_probability: float) -> None:
    for name, value in (("level", level), ("purity", purity), ("min_probability", min_probability)):
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0.0 < value <= 1.0:
            raise InputError(f"{name} must be a number above 0 and at most 1; got {value!r}.")


def _group(
    joint: Joint, inclusion: np.ndarray, lead: int, near: np.ndarray, related: Callable[[int, np.ndarray], np.ndarray]
) -> tuple[list[int], list[float]]:
    """A whole group in the order of joining, and the probability that one of those up to each is in."""
    group, reached = [lead], [float(inclusion[lead])]
    covered = joint.words[lead].copy()
    while len(near) and reached[-1] < 1.0:
        gain = bit_sums(joint.words[near] & ~covered, joint.weight)
        without, beside = gain / (1.0 - reached[-1]), (inclusion[near] - gain) / reached[-1]
        gain[without < ALTERNATIVE * beside] = 0.0
        best = int(np.argmax(gain))
        if gain[best] <= 0.0:
            break
        joined = int(near[best])
        group.append(joined)
        reached.append(reached[-1] + float(gain[best]))
        covered |= joint.words[joined]
        near = related(joined, np.delete(near, best))
    return group, reached


def _least_correlation(correlation: Correlation, terms: np.ndarray) -> float:
    """Least absolute correlation between any two of some terms."""
    return min((float(correlation(int(t), terms[:i]).min()) for i, t in enumerate(terms) if i), default=1.0)


def posterior_sets(posterior: Posterior, level: float, purity: float, min_probability: float) -> pd.DataFrame:
    """Credible sets of the terms of a posterior."""
    problem, result = posterior.problem, posterior.result
    gram, first = problem.data.gram, problem.data.first

    def correlation(j: int, others: np.ndarray) -> np.ndarray:
        largest = np.abs(gram[first[j] : first[j + 1]]).max(axis=0)
        # The diagonal tells which products a saved run holds.
        found = np.maximum.reduceat(np.where(np.isnan(np.diag(gram)), np.nan, largest), first[:-1])[others]
        if np.isnan(found).any():
            other = problem.names[int(others[int(np.argmax(np.isnan(found)))])]
            raise InputError(
                f"the saved run does not hold the correlation of {problem.names[j]!r} and {other!r}; fit again, or "
                "ask for credible sets before the model is saved."
            )
        return found

    return credible_sets(
        result.models.words, model_weights(result), correlation, problem.names, level, purity, min_probability
    )


def covariate_inclusion(posterior: Posterior) -> pd.Series:
    """Probability that each covariate is in the model, or in some feature of it after a search among features."""
    if posterior.laws is None:
        return pd.Series(posterior.probability, index=pd.Index(posterior.problem.names), dtype=np.float64)
    found: dict[str, list[int]] = {}
    for number, feature in enumerate(posterior.laws.features):
        for name in sorted(feature.covariates):
            found.setdefault(name, []).append(number)
    every = np.arange(len(posterior.laws.features))
    joint = Joint.of(posterior.result.models.words, model_weights(posterior.result), every)
    single = posterior.probability
    values = [single[numbers[0]] if len(numbers) == 1 else joint.any_of(numbers) for numbers in found.values()]
    return pd.Series(values, index=pd.Index(found, dtype=object), dtype=np.float64)
