"""The same models under another prior.

After enumeration all models are weighed again, and the answer is that of a new fit. After sampling the models that were
evaluated are: their marginal likelihoods stay, or are computed again under another prior of the coefficients, and their
probabilities are renormalised. That is as good as the models evaluated hold the new posterior, which nobody knows for
sure; how far the two posteriors overlap, and whether the neighbours of the new best model were met, tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from modejump.core.errors import InputError
from modejump.features.covariates.language import Covariates
from modejump.features.expression import Expression
from modejump.likelihoods.columns import Conjugate, fit_columns
from modejump.likelihoods.gaussian.marginal import log_marginal
from modejump.likelihoods.gaussian.tables import tabulated
from modejump.likelihoods.glm.newton import Glm, has_estimate, new_glm_work
from modejump.posterior.fits import model_columns, renormalised_models, residual_shares
from modejump.posterior.prediction.laplace import has_rows, log_marginal_of
from modejump.posterior.verdict import COMPLETE, LEVELS, UNCERTAIN, UNVISITED, Verdict, count
from modejump.priors.coefficients import CoefPrior, CoefPriorData
from modejump.priors.coefficients.base import FLOOR
from modejump.priors.compiled import ModelPriorArrays, log_prior_of
from modejump.priors.features import FeaturePrior
from modejump.priors.models import ModelPrior, WeightedPrior
from modejump.problem.fingerprint import is_unchanged
from modejump.problem.problem import Problem
from modejump.runtime.context import open_context
from modejump.samplers.plan import Plan
from modejump.samplers.result import ModelTable, Result, members_of
from modejump.samplers.sample import sample

if TYPE_CHECKING:
    from modejump.posterior.posterior import Posterior

REWEIGHTED = "reweighted"
# Models that are fitted to the rows again at most, the best ones first, where not all were enumerated.
MOST_FITS = 20_000
# Overlap of the two posteriors below which the models evaluated may not hold the new one, and below which they do not.
LITTLE, HARDLY = 0.1, 0.001
# Share of the best model's neighbours that should have been evaluated.
NEIGHBOURS = 0.5


class Reweighting(NamedTuple):
    """How a posterior came about that is another one under other priors."""

    origin: Verdict  # what the run said about itself
    algorithm: str  # that of the run
    what: str  # the new priors in words
    # ``1 / sum(new^2 / old)`` over the models: 1 where nothing changes, and nearly 0 where the new posterior sits on
    # models that hardly counted.
    overlap: float
    neighbours: float  # share of the new best model's neighbours, by one term, that were evaluated
    wider: bool  # whether the new prior has models that the prior of the run left out
    # Estimate of the mass that models which no chain visited held in the run; NaN where nobody knows.
    unvisited: float


def reweight(
    posterior: Posterior, model_prior: Any = None, coef_prior: CoefPrior | None = None, what: str = "other priors"
) -> Posterior:
    """The posterior of the models evaluated under other priors.

    Parameters
    ----------
    posterior : Posterior
        The posterior.
    model_prior : ModelPrior or FeaturePrior, optional
        Prior of the models; after a search among features, that of features. The same by default.
    coef_prior : CoefPrior, optional
        Prior of the coefficients; the same by default.
    what : str
        The new priors in words, for the verdict.

    Returns
    -------
    Posterior
        After enumeration that of a new fit; otherwise probabilities are renormalised over the models evaluated.

    Examples
    --------
    >>> from modejump import BernoulliPrior, BGLMRegressor
    >>> x = np.random.default_rng(1).normal(size=(40, 3))
    >>> posterior = BGLMRegressor().fit(x, x[:, 0]).posterior_
    >>> reweight(posterior, BernoulliPrior(0.01)).best_model()
    ('x0',)
    """
    if coef_prior is not None and posterior.problem.family.custom:
        raise InputError("a likelihood of your own has no coefficient prior; change model_prior alone.")
    old = posterior.problem
    new = _with_priors(posterior, model_prior, coef_prior)
    wider = not _admits(old.data.prior, new.data.prior)
    if posterior.exact and _enumerable(posterior, wider or coef_prior is not None):
        with open_context(False, 1) as context:
            result = sample(new, Plan("enumerate"), context)
        return type(posterior)(new, result)
    table = posterior.result.models
    members = [members_of(words) for words in table.words]
    if coef_prior is not None and not old.family.conjugate and not posterior.exact:
        members = members[:MOST_FITS]
    values = _log_posteriors(posterior, new, members, model_prior, coef_prior is not None)
    if not np.isfinite(values).any():
        raise InputError("no model that was evaluated has a probability under the new priors; fit anew.")
    before = renormalised_models(posterior.result)[: len(values)]
    result = _renormalised(posterior.result, new, values)
    told = _told(posterior, what, _overlap(before, values), _met(result, new), wider)
    exact = posterior.exact and len(values) == posterior.n_models and not wider
    laws = posterior.laws
    if laws is not None:
        spelled = _respelled(posterior, new, model_prior, coef_prior is not None)
        laws = replace(laws, problem=new, spelled=spelled)
    result = replace(result, laws=laws, exact=exact, algorithm="enumerate" if exact else REWEIGHTED)
    return replace(
        posterior, problem=new, result=result, kept=None, identity=None, reweighting=None if exact else told,
        searched=_searched_with(posterior, model_prior, coef_prior), errors=None,
    )  # fmt: skip


def _told(posterior: Posterior, what: str, overlap: float, neighbours: float, wider: bool) -> Reweighting:
    """What is known; where the posterior was reweighted before, of the way from the run."""
    first = posterior.reweighting
    if first is None:
        unvisited = posterior.result.unvisited
        return Reweighting(posterior.verdict, posterior.result.algorithm, what, overlap, neighbours, wider, unvisited)
    return first._replace(
        what=what, overlap=min(overlap, first.overlap), neighbours=neighbours, wider=wider or first.wider
    )


def _enumerable(posterior: Posterior, needs_rows: bool) -> bool:
    """Whether to enumerate again: it costs little, or there is no other way, and the rows are there."""
    problem, table = posterior.problem, posterior.result.models
    if problem.family.conjugate:
        return not np.isnan(problem.data.gram).any()
    if problem.family.custom or not has_rows(problem):
        return False
    return needs_rows or len(table) < posterior.n_models


# --- the problem ------------------------------------------------------------------------------------------------------


def _with_priors(posterior: Posterior, model_prior: Any, coef_prior: CoefPrior | None) -> Problem:
    """The problem with other priors."""
    problem: Problem = posterior.problem
    data = problem.data
    if coef_prior is not None:
        problem.family.check_prior(coef_prior)
        if isinstance(data.glm, Conjugate):
            floor = float(data.coef_prior.par[FLOOR])
            compiled: Any = tabulated(coef_prior, data.n, data.base, problem.base_rss, data.max_cols, floor)
        else:
            compiled = coef_prior.compile(data.n, problem.base_rss)
            data = data._replace(glm=_with_null(problem.family, data.glm, compiled, data.n))
        problem, data = replace(problem, coef_prior=coef_prior), data._replace(coef_prior=compiled)
    if model_prior is not None:
        prior = _among(posterior, model_prior)
        arrays = prior.compile(problem.n_terms, names=problem.names, always_in=problem.always_in)
        problem, data = replace(problem, model_prior=prior), data._replace(prior=arrays)
    return replace(problem, data=data)


def _with_null(family: Any, rows: Any, prior: CoefPriorData, n: float) -> Any:
    """Rows of a generalised linear model with the marginal likelihood of the base model under another prior."""
    if not isinstance(rows, Glm) or rows.rows == 0:
        return rows
    for guess in family.first_guesses(rows.y, rows.weight, rows.offset):
        rows = rows._replace(start=rows.base @ guess, null=0.0)
        work = new_glm_work(rows, 1)
        value = float(fit_columns(rows, work, np.zeros(0, np.int64), prior, n))
        if np.isfinite(value) and has_estimate(work):
            break
    return rows._replace(start=work.beta[: len(rows.base)].copy(), null=value)


def _searched_with(posterior: Posterior, model_prior: Any, coef_prior: CoefPrior | None) -> Any:
    """The problem that was searched, with other priors."""
    searched = posterior.searched
    if searched is None:
        return None
    if coef_prior is not None:
        compiled = coef_prior.compile(searched.n, searched.base_rss)
        rows = _with_null(searched.family, searched.base_model, compiled, searched.n)
        searched = replace(searched, coef_prior=coef_prior, base_model=rows)
    return searched if model_prior is None else replace(searched, model_prior=model_prior)


def _among(posterior: Posterior, prior: ModelPrior | FeaturePrior) -> ModelPrior:
    """A prior of models of the terms, or of the laws."""
    laws = posterior.laws
    if laws is None:
        assert isinstance(prior, ModelPrior)
        return prior
    assert isinstance(prior, FeaturePrior)
    size = _largest(posterior, prior)
    by_size = prior.log_sizes(size, len(laws.language.names))
    sizes = tuple(by_size.tolist()) if by_size.any() else ()
    return WeightedPrior(tuple(_weights(posterior, prior, laws.features).tolist()), size, sizes)


def _largest(posterior: Posterior, prior: FeaturePrior) -> int:
    """The largest number of features in a model."""
    assert posterior.laws is not None
    limits = int(posterior.laws.language.limits.size)
    own = getattr(getattr(prior, "prior", None), "max_size", None)
    return limits if own is None else min(int(own), limits)


def _weights(posterior: Posterior, prior: FeaturePrior, features: Sequence[Expression]) -> np.ndarray:
    """Log prior weight of each of some features."""
    assert posterior.laws is not None
    n = posterior.problem.data.n if posterior.searched is None else posterior.searched.n
    return prior.log_weights_of(features, n, len(posterior.laws.language.names))


def _admits(old: ModelPriorArrays, new: ModelPriorArrays) -> bool:
    """Whether the old prior has no model out of reach that the new one has."""
    if old.heredity and old.heredity != new.heredity:
        return False
    return bool((np.isfinite(old.log_size) | ~np.isfinite(new.log_size)).all())


# --- log posteriors ---------------------------------------------------------------------------------------------------


def _log_posteriors(
    posterior: Posterior, new: Problem, members: Sequence[list[int]], model_prior: Any, refit: bool
) -> np.ndarray:
    """New log posterior of each model."""
    old = posterior.problem
    values = posterior.result.models.log_posterior[: len(members)].copy()
    if model_prior is not None:
        change = np.array([log_prior_of(m, new.data.prior) - log_prior_of(m, old.data.prior) for m in members])
        for row, spelled in _spelled(posterior, members).items():
            if np.isfinite(change[row]):
                won = [value + _won(posterior, features, model_prior) for features, value in spelled]
                change[row] = np.logaddexp.reduce(won) - np.logaddexp.reduce([value for _, value in spelled])
        values += change
    if refit:
        values += _gains(posterior, new, members)
    return np.where(np.isnan(values), -np.inf, values)


def _gains(posterior: Posterior, new: Problem, members: Sequence[list[int]]) -> np.ndarray:
    """What another prior of the coefficients adds to the log marginal likelihood of each model."""
    old, data = posterior.problem, new.data
    if old.family.conjugate:
        resid = residual_shares(old, members)
        sizes = [len(model_columns(old, m)) for m in members]
        fits = [(k, r) for k, r in zip(sizes, resid.tolist(), strict=True)]
        return np.array([
            0.0 if r < 0.0 else log_marginal(data.coef_prior, data.n, data.base, k, r)
            - log_marginal(old.data.coef_prior, data.n, data.base, k, r)
            for k, r in fits
        ])  # fmt: skip
    if not has_rows(old):
        raise InputError("another coef_prior needs the rows, which a model read from a file does not hold; fit anew.")
    if not is_unchanged(old):
        raise InputError("another coef_prior needs the rows, and the table was changed after the fit; fit anew.")
    with np.errstate(invalid="ignore"):
        return np.array([
            log_marginal_of(new, model_columns(new, m)) - log_marginal_of(old, model_columns(old, m)) for m in members
        ])  # fmt: skip


Spelled = list[tuple[frozenset[Expression], float]]


def _law_sets(posterior: Posterior) -> dict[frozenset[Expression], frozenset[int]]:
    """For each model that was met in several spellings, the laws that it is of."""
    laws = posterior.laws
    if laws is None:
        return {}
    place = {f: i for i, f in enumerate(laws.features)}
    place |= {f: place[law] for law, more in laws.aliases.items() for f in more}
    return {features: frozenset(place[f] for f in features) for features in laws.spelled}


def _spelled(posterior: Posterior, members: Sequence[list[int]]) -> dict[int, Spelled]:
    """Models of laws that were met in several spellings: the log posterior of each spelling, by the model's row."""
    found: dict[frozenset[int], Spelled] = {}
    for features, laws in _law_sets(posterior).items():
        assert posterior.laws is not None
        found.setdefault(laws, []).append((features, posterior.laws.spelled[features]))
    return {row: found[key] for row, m in enumerate(members) if (key := frozenset(m)) in found}


def _won(posterior: Posterior, features: frozenset[Expression], prior: FeaturePrior) -> float:
    """What another prior of the models adds to the log prior of a model in this spelling."""
    laws, searched = posterior.laws, posterior.searched
    assert laws is not None
    if searched is None:
        raise InputError(
            "some laws were met in several spellings, and a model read from a file does not hold their weights; "
            "reweight before saving, or fit anew."
        )
    ordered, size = sorted(features), len(features)
    if size > _largest(posterior, prior):
        return -np.inf
    new = _weights(posterior, prior, ordered).sum() + prior.log_sizes(size, len(laws.language.names))[size]
    return float(new - searched.log_weights(ordered).sum() - searched.log_sizes()[size])


def _respelled(posterior: Posterior, new: Problem, model_prior: Any, refit: bool) -> dict[frozenset[Expression], float]:
    """New log posteriors of models in their spellings."""
    sets = _law_sets(posterior)
    if not sets:
        return {}
    assert posterior.laws is not None
    keys = [sorted(key) for key in dict.fromkeys(sets.values())]
    gains = _gains(posterior, new, keys) if refit else np.zeros(len(keys))
    gain = dict(zip(map(frozenset, keys), gains.tolist(), strict=True))
    return {
        f: value + gain[sets[f]] + (0.0 if model_prior is None else _won(posterior, f, model_prior))
        for f, value in posterior.laws.spelled.items()
    }


# --- what is known about it -------------------------------------------------------------------------------------------


def _renormalised(result: Result, problem: Problem, values: np.ndarray) -> Result:
    """A result whose probabilities are renormalised over models with these log posteriors."""
    alive = np.flatnonzero(np.isfinite(values))
    order = alive[np.argsort(-values[alive], kind="stable")]
    old = result.models
    zeros = np.zeros(len(order), np.int64)
    table = ModelTable(np.ascontiguousarray(old.words[order]), values[order], zeros, old.first_seen[order])
    share = np.exp(table.log_posterior - table.log_posterior[0])
    evidence = float(table.log_posterior[0] + np.log(share.sum()))
    share /= share.sum()
    inside = table.membership(problem.n_terms)
    sizes = np.bincount(inside.sum(axis=1), weights=share, minlength=problem.n_terms + 1)
    return Result(
        algorithm=result.algorithm, exact=False, models=table, n_models=len(order), log_evidence=evidence,
        renormalised=np.minimum(share @ inside, 1.0), size_distribution=sizes, seconds=result.seconds,
        warmup_seconds=result.warmup_seconds, finished=result.finished, library=result.library,
        noise_weight=result.noise_weight,
    )  # fmt: skip


def _overlap(before: np.ndarray, values: np.ndarray) -> float:
    """``1 / sum(new^2 / old)``, both renormalised over the models."""
    new = np.exp(values - values.max())
    new, old = new / new.sum(), before / before.sum()
    there = new > 0.0
    with np.errstate(divide="ignore", over="ignore"):
        return float(1.0 / (new[there] ** 2 / old[there]).sum())


def _met(result: Result, problem: Problem) -> float:
    """Share of the best model's neighbours, by one term, that were evaluated and that the prior allows."""
    best = result.models.words[0]
    known = {words.tobytes() for words in result.models.words}
    allowed, met = 0, 0
    dead = set(problem.dead_terms())
    for j, name in enumerate(problem.names):
        other = best.copy()
        other[j // 64] ^= np.uint64(1) << np.uint64(j % 64)
        if name in dead or not np.isfinite(log_prior_of(members_of(other), problem.data.prior)):
            continue
        allowed += 1
        met += other.tobytes() in known
    return met / allowed if allowed else 1.0


def reweighted_verdict(posterior: Posterior) -> Verdict:
    """What was done, and how far the models evaluated hold the new posterior."""
    told: Reweighting = posterior.reweighting  # type: ignore[assignment]
    overlap = "less than 0.1%" if told.overlap < HARDLY else f"{told.overlap:.0%}"
    parts = [
        f"Reweighted to {told.what}: probabilities are renormalised over {count(posterior.n_models)} models that "
        f"{told.algorithm} evaluated.",
        f"The overlap with the posterior of the run is {overlap}",
    ]
    level, search = told.origin.level, told.origin.search
    level, search = "good" if level == "exact" else level, UNCERTAIN if search == COMPLETE else search
    doubts = ["the prior of the run left models out that the new one has"] if told.wider else []
    if told.unvisited > UNVISITED:
        doubts.append(f"models that no chain visited held {told.unvisited:.0%} of that")
    if told.overlap < LITTLE:
        doubts.append("hardly any of its models count now" if told.overlap < HARDLY else "few of its models count now")
    among_laws = posterior.laws is not None and not isinstance(posterior.laws.language, Covariates)
    if told.neighbours < NEIGHBOURS and not (among_laws and told.overlap >= LITTLE):
        doubts.append(f"only {told.neighbours:.0%} of the neighbours of the best model were evaluated")
    if doubts:
        parts[1] += f", and {' and '.join(doubts)}, so better models may be missing: fit again under the new priors."
        least = "bad" if told.overlap < HARDLY else "doubtful"
        level, search = max(level, least, key=LEVELS.index), UNCERTAIN
    else:
        parts[1] += "."
    parts.append(f"The verdict of the run was: {told.origin}")
    return Verdict(" ".join(parts), level, search)
