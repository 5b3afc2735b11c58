"""Fitted estimators of one problem as one."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from modejump.core.errors import InputError
from modejump.estimators.base import PosteriorEstimator
from modejump.estimators.classifier import PosteriorClassifier
from modejump.posterior.merge import check_same_problem, merge_posteriors


def merge(*estimators: Any) -> Any:
    """One estimator from several that were fitted to the same problem, in memory or read from files.

    Models are united, and renormalised estimates are those over the union; visits are added and chains stand side by
    side, so that frequencies, their errors and R-hat are over all chains. After a search, laws are united first: a
    feature that one run knows as another spelling of a law is that law.

    Parameters
    ----------
    *estimators : estimators
        Fitted ones, of one class, with the same data, priors, and space or terms, and with different seeds.

    Returns
    -------
    estimator
        It holds no training data; its options are those of the first.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, Budget, merge
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> runs = [BGLMRegressor(algorithm="mjmcmc", budget=Budget(steps=2000), random_state=s).fit(X, y) for s in (1, 2)]
    >>> merge(*runs).posterior_.result.batch_means.shape[0]
    8
    """
    if not estimators:
        raise InputError("merge was given no estimator; give at least one.")
    for estimator in estimators:
        if not isinstance(estimator, PosteriorEstimator):
            raise InputError(f"merge takes fitted estimators; got {type(estimator).__name__}.")
        estimator._fitted  # noqa: B018  not fitted, or of several classes: a sentence
    first = estimators[0]
    for other in estimators[1:]:
        _check_alike(first, other)
    seeds = _seeds(estimators)
    merged = copy.copy(first)
    merged.posterior_ = merge_posteriors([estimator.posterior_ for estimator in estimators])
    merged.merged_seeds_ = seeds
    return merged


def _check_alike(first: Any, other: Any) -> None:
    if type(first) is not type(other):
        raise InputError(f"a {type(first).__name__} and a {type(other).__name__} cannot be merged; give one kind.")
    check_same_problem(first.posterior_, other.posterior_)
    if first.table_.to_dict() != other.table_.to_dict():
        raise InputError("the runs are not of the same problem: the columns of the tables differ.")
    if isinstance(first, PosteriorClassifier) and first.classes_.tolist() != other.classes_.tolist():
        raise InputError("the runs are not of the same problem: the labels of the classes differ.")


def _seeds(estimators: Sequence[Any]) -> tuple[int, ...]:
    """The seeds of all runs, each once; enumeration has none to speak of."""
    seeds: list[int] = []
    for estimator in estimators:
        own = getattr(estimator, "merged_seeds_", (estimator.seed_,))
        twice = [seed for seed in own if seed in seeds]
        if twice and not any(e.posterior_.exact for e in estimators):
            raise InputError(
                f"two of the runs have the seed {twice[0]}, so they hold the same chains; merge runs with different "
                "seeds."
            )
        seeds += own
    return tuple(dict.fromkeys(seeds))
