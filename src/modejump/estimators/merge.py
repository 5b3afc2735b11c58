"""Fitted estimators of one problem as one."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from modejump.core.errors import InputError
from modejump.estimators.base import PosteriorClassifier, PosteriorEstimator
from modejump.estimators.bgnlm import Discovery
from modejump.features.nonlinear.expression import Feature
from modejump.posterior.fits import KeptModels, members_of
from modejump.posterior.merge import AGREEMENT, check_same_problem, chosen_models, merge_posteriors
from modejump.posterior.posterior import Posterior
from modejump.posterior.storage import rowless_like
from modejump.priors.models import WeightedPrior
from modejump.problem.problem import Problem
from modejump.samplers.laws import Laws
from modejump.samplers.result import SamplerResult


def merge(*estimators: Any) -> Any:
    """One estimator from several that were fitted to the same problem, in memory or read from files.

    Models are united, and renormalised estimates are those over the union; visits are added and chains stand side by
    side, so that frequencies, their errors and R-hat are over all chains. After a search, laws are united first: a
    feature that one run knows as another spelling of a law is that law.

    Parameters
    ----------
    *estimators : BGLMRegressor, BGLMClassifier, BGNLMRegressor or BGNLMClassifier
        Fitted ones, of one class, with the same data, priors, and space or terms, and with different seeds.

    Returns
    -------
    BGLMRegressor, BGLMClassifier, BGNLMRegressor or BGNLMClassifier
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
        check_is_fitted(estimator, "posterior_")
    first = estimators[0]
    for other in estimators[1:]:
        _check_alike(first, other)
    seeds = _seeds(estimators)
    merged = copy.copy(first)
    if isinstance(first, Discovery):
        merged.laws_, merged.posterior_ = _merged_laws(estimators)
        merged._training = None
    else:
        merged.posterior_ = merge_posteriors([estimator.posterior_ for estimator in estimators])
    merged.merged_seeds_ = seeds
    return merged


def _check_alike(first: Any, other: Any) -> None:
    if type(first) is not type(other):
        raise InputError(f"a {type(first).__name__} and a {type(other).__name__} cannot be merged; give one kind.")
    if isinstance(first, Discovery) and "mjmcmc" in (e.posterior_.result.algorithm for e in (first, other)):
        raise InputError(
            "laws of rows that are read in chunks are models of a library that each run finds for itself, so such runs "
            "are not merged; run one with more chains."
        )
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
                f"two of the runs have the seed {twice[0]}, so they hold the same chains, which would count twice; "
                "merge runs with different seeds."
            )
        seeds += own
    return tuple(dict.fromkeys(seeds))


def _merged_laws(estimators: Sequence[Any]) -> tuple[Laws, Posterior]:
    """United laws, and the posterior over them."""
    law_of = _united_laws([estimator.laws_ for estimator in estimators])
    laws = sorted(set(law_of.values()))
    problem = _united_problem(estimators, laws)
    spelled = _united_spellings([estimator.laws_ for estimator in estimators])
    values = _united_values(spelled, law_of)
    lifted = [_lifted(estimator, problem, laws, law_of, values) for estimator in estimators]
    posterior = merge_posteriors(lifted)
    spellings: dict[Feature, set[Feature]] = {law: set() for law in laws}
    for feature, law in law_of.items():
        if feature is not law:
            spellings[law].add(feature)
    alphas: dict[Feature, np.ndarray] = {}
    for estimator in reversed(estimators):
        alphas |= estimator.laws_.alphas
    aliases = {law: tuple(sorted(others)) for law, others in spellings.items()}
    known = {model: value for model, value in spelled.items() if any(aliases[law_of[f]] for f in model)}
    return Laws(tuple(laws), aliases, alphas, posterior.problem, posterior.result.models, known), posterior


def _united_laws(parts: Sequence[Laws]) -> dict[Feature, Feature]:
    """For each feature that some run knows the one that stands for its law: the simplest of all its spellings."""
    group: dict[Feature, set[Feature]] = {}
    for laws in parts:
        for law in laws.features:
            joined = {law, *laws.aliases.get(law, ())}
            for feature in tuple(joined):
                joined |= group.get(feature, set())
            for feature in joined:
                group[feature] = joined
    heads = {law for laws in parts for law in laws.features}
    return {f: min(heads & some, key=lambda g: (g.complexity, g.text)) for f, some in group.items()}


def _united_spellings(parts: Sequence[Laws]) -> dict[frozenset[Feature], float]:
    """Log posterior of each model, by the features as some run met them."""
    spelled: dict[frozenset[Feature], float] = {}
    for laws in parts:
        plain = {
            frozenset(laws.features[j] for j in laws.models.members(row)): float(laws.models.log_posterior[row])
            for row in range(len(laws.models))
        }
        own = {model: v for model, v in plain.items() if not any(laws.aliases.get(f) for f in model)} | dict(
            laws.spelled
        )
        for model, value in own.items():
            if abs(spelled.setdefault(model, value) - value) > AGREEMENT:
                raise InputError(
                    f"the runs give the model {{{', '.join(sorted(f.text for f in model))}}} log posteriors that "
                    f"differ by {abs(spelled[model] - value):.2g}, so they are not of the same problem; fit again."
                )
    return spelled


def _united_values(
    spelled: Mapping[frozenset[Feature], float], law_of: Mapping[Feature, Feature]
) -> dict[frozenset[Feature], float]:
    """Log posterior of each model over the united laws: the sum over all its spellings."""
    values: dict[frozenset[Feature], float] = {}
    for model, value in spelled.items():
        key = frozenset(law_of[f] for f in model)
        values[key] = float(np.logaddexp(values[key], value)) if key in values else value
    return values


def _united_problem(estimators: Sequence[Any], laws: Sequence[Feature]) -> Problem:
    """Selection among the united laws; products of laws that no run knows together are NaN."""
    p = len(laws)
    where = {law: i for i, law in enumerate(laws)}
    first = estimators[0].problem_
    gram, corr, scale = np.full((p, p), np.nan), np.zeros(p), np.zeros(p)
    loading = np.zeros((first.data.base, p))
    weights = np.zeros(p)
    for estimator in estimators:
        problem = estimator.problem_
        own = [j for j, law in enumerate(estimator.laws_.features) if law in where]
        at = np.array([where[estimator.laws_.features[j]] for j in own], np.int64)
        block = problem.data.gram[np.ix_(own, own)]
        known = np.isnan(gram[np.ix_(at, at)])
        gram[np.ix_(at, at)] = np.where(known, block, gram[np.ix_(at, at)])
        corr[at], scale[at] = problem.data.corr[own], problem.data.columns.scale[own]
        loading[:, at] = problem.data.columns.loading[:, own]
        weights[at] = np.array(problem.model_prior.log_weights)[own]
    prior = WeightedPrior(tuple(weights.tolist()), first.model_prior.max_size)
    return rowless_like(first, tuple(law.text for law in laws), gram, corr, loading, scale, prior)


def _lifted(
    estimator: Any,
    problem: Problem,
    laws: Sequence[Feature],
    law_of: Mapping[Feature, Feature],
    values: Mapping[frozenset[Feature], float],
) -> Posterior:
    """The posterior of one run over the united laws."""
    where = {law: i for i, law in enumerate(laws)}
    own = estimator.laws_.features
    target = np.array([where[law_of[law]] for law in own], np.int64)
    same = np.array([law_of[law] is law for law in own], bool)
    result, posterior = estimator.posterior_.result, estimator.posterior_
    table = result.models
    keys = (frozenset(law_of[own[j]] for j in table.members(row)) for row in range(len(table)))
    united = np.array([values[key] for key in keys])
    models = dataclasses.replace(table, words=_moved(table.words, target, len(laws)), log_posterior=united)
    means = result.batch_means
    sizes = np.zeros(len(laws) + 1)
    count = min(len(sizes), len(result.size_distribution))
    sizes[:count] = result.size_distribution[:count]
    sizes[-1] += result.size_distribution[count:].sum()
    lifted: SamplerResult = dataclasses.replace(
        result,
        models=models,
        renormalised=_spread(result.renormalised, target, len(laws)),
        batch_means=None if means is None else _spread(means, target, len(laws)),
        size_distribution=sizes,
    )
    kept = {kind: _moved_kept(posterior.kept_models(kind), target, same, len(laws)) for kind in ("bma", "best")}
    return Posterior(problem, lifted, kept, posterior.fingerprints)


def _spread(values: np.ndarray, target: np.ndarray, count: int) -> np.ndarray:
    """Values by law, moved to the places of the united laws."""
    out = np.zeros((*values.shape[:-1], count))
    for j, t in enumerate(target):
        out[..., t] += values[..., j]
    return np.minimum(out, 1.0)


def _moved(words: np.ndarray, target: np.ndarray, count: int) -> np.ndarray:
    """Bit sets over the united laws."""
    out = np.zeros((len(words), max(1, -(-count // 64))), np.uint64)
    for j, t in enumerate(target):
        bit = (words[:, j >> 6] >> np.uint64(j & 63)) & np.uint64(1)
        out[:, t >> 6] |= bit << np.uint64(t & 63)
    return out


def _moved_kept(kept: KeptModels, target: np.ndarray, same: np.ndarray, count: int) -> KeptModels:
    """Models behind predictions over the united laws; fits by another spelling's column are of no use there."""
    rows = np.flatnonzero([same[members_of(words)].all() for words in kept.words])
    some = chosen_models(kept, rows, kept.weight[rows], kept.mass)
    return some._replace(words=_moved(some.words, target, count))
