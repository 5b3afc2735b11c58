"""What a page needs to show another prior of the models, for any position of a slider, without the models themselves.

The slider multiplies the prior of a model M by ``exp(delta * u(M))``, where u counts what the prior charges for: terms,
or the complexity of laws. Models of one u keep their shares among each other, so that a table by u says everything:

    p(term | delta)  =  sum over u of  w_u(delta) p(term | u),    w_u(delta) proportional to exp(log_mass_u + delta u).

It is exact over all models held, however many; the page lists only the leading ones.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from modejump.priors.complexity import ComplexityPrior
from modejump.priors.logic_prior import LogicPrior
from modejump.priors.models import BernoulliPrior, UniformPrior
from modejump.samplers.result import ModelTable, Result

# Models listed: the leading ones, and the leading ones of each u, which lead where the slider is elsewhere.
LISTED, LISTED_EACH = 200, 20
# Doublings of the prior odds of a term to either side of those of the fit.
DOUBLINGS = 10.0
STEP = 0.25
# Terms beyond which the prior of sizes is left out.
_MOST_SIZES = 200


def prior_slider(posterior: Any, prior: Any, terms: list[int]) -> dict[str, Any]:
    """Groups of models by what the prior charges for, and what the slider means.

    Parameters
    ----------
    posterior : Posterior
        The models held.
    prior : prior object
        Prior of the models as the user stated it.
    terms : list of int
        Terms whose probabilities the page shows.
    """
    result, problem = posterior.result, posterior.problem
    charges = term_charges(posterior, prior)
    models = possible_models(result.models)
    values, group = np.unique(model_units(models, charges), return_inverse=True)
    log_share = models.log_posterior - result.log_evidence
    top = np.full(len(values), -np.inf)
    np.maximum.at(top, group, log_share)
    inside = np.exp(log_share - top[group])  # relative to the best model of the group: no group underflows
    mass = np.bincount(group, inside, len(values))
    squared = np.bincount(group, inside**2, len(values))
    sizes = np.bitwise_count(models.words).sum(axis=1).astype(np.int64)
    by_size = np.zeros((len(values), int(sizes.max(initial=0)) + 1))
    np.add.at(by_size, (group, sizes), inside)
    inclusion = [np.bincount(group, inside * has_term(models, j), len(values)) / mass for j in terms]
    log_mass = top + np.log(mass)
    known = _enumerated(result, values, log_mass) if result.exact else _sampled(result, models, group, len(values))
    return {
        **_meaning(prior, problem, posterior.laws),
        "units": values.tolist(),
        "log_mass": log_mass.tolist(),
        "log_squared": (2.0 * top + np.log(squared)).tolist(),
        "inclusion": [_rounded(column) for column in np.transpose(inclusion)] if terms else [[] for _ in values],
        "sizes": [_rounded(row) for row in by_size / mass[:, None]],
        **known,
    }


def term_charges(posterior: Any, prior: Any) -> np.ndarray:
    """What the prior charges for each term: 1 for a given one, and the complexity of a law beyond what is free."""
    if posterior.laws is None or not isinstance(prior, ComplexityPrior | LogicPrior):
        return np.ones(posterior.problem.n_terms, np.int64)
    free = prior.free if isinstance(prior, ComplexityPrior) else 0
    return np.maximum([law.complexity - free for law in posterior.laws.features], 0).astype(np.int64)


def model_units(models: ModelTable, charges: np.ndarray) -> np.ndarray:
    """The sum of the charges for the terms of each model."""
    if (charges == 1).all():
        return np.bitwise_count(models.words).sum(axis=1).astype(np.int64)
    units = np.zeros(len(models), np.int64)
    for j in np.flatnonzero(charges):
        units += charges[j] * has_term(models, int(j))
    return units


def possible_models(models: ModelTable) -> ModelTable:
    """The models held whose posterior is not zero."""
    keep = np.isfinite(models.log_posterior)
    parts = (models.words, models.log_posterior, models.visits, models.first_seen, models.chains, models.draws)
    return models if keep.all() else ModelTable(*(part[keep] for part in parts))


def has_term(models: ModelTable, term: int) -> np.ndarray:
    """Which models have a term, as zeros and ones."""
    return ((models.words[:, term // 64] >> np.uint64(term % 64)) & np.uint64(1)).astype(np.int64)


def listed_models(posterior: Any, prior: Any) -> list[int]:
    """Rows of the models that a page lists, best first."""
    models = possible_models(posterior.result.models)
    units = model_units(models, term_charges(posterior, prior))
    order = np.argsort(units, kind="stable")  # within a group the best come first
    starts = np.searchsorted(units[order], units[order], side="left")
    leading = order[np.arange(len(order)) - starts < LISTED_EACH]
    return np.union1d(leading, np.arange(min(LISTED, len(models)))).tolist()


def _meaning(prior: Any, problem: Any, laws: Any) -> dict[str, Any]:
    """What the slider changes, and how far it goes: ``value`` is the prior's own parameter where the fit has it."""
    ends = {"least": -DOUBLINGS, "most": DOUBLINGS, "step": STEP}
    if laws is not None and isinstance(prior, ComplexityPrior):
        log_a = prior.log_a(problem.data.n)
        # a stays below 1, where complexity still costs something.
        most = math.floor(-log_a / math.log(2.0) / STEP - 1e-9) * STEP
        return {"kind": "complexity", "value": math.exp(log_a), "least": -most, "most": most, "step": STEP}
    if laws is not None and isinstance(prior, LogicPrior):
        return {"kind": "leaves", "value": None, **ends}
    plain = prior.max_size is None and prior.heredity is None
    if plain and isinstance(prior, UniformPrior):
        return {"kind": "inclusion", "value": 0.5, **ends}
    if plain and isinstance(prior, BernoulliPrior) and isinstance(prior.q, float):
        return {"kind": "inclusion", "value": prior.q, **ends}
    return {"kind": "odds", "value": None, **ends, "prior_sizes": _prior_sizes(problem, laws)}


def _prior_sizes(problem: Any, laws: Any) -> list[float] | None:
    """Log prior of each number of terms, where it follows from the number alone."""
    arrays, terms = problem.data.prior, problem.n_terms
    if laws is not None or terms > _MOST_SIZES or arrays.log_weight.any() or arrays.heredity:
        return None
    counts = [math.lgamma(terms + 1.0) - math.lgamma(s + 1.0) - math.lgamma(terms - s + 1.0) for s in range(terms + 1)]
    log_size = np.asarray(arrays.log_size[: terms + 1]) + np.array(counts)
    return np.where(np.isfinite(log_size), log_size, -1e300).tolist()


def _enumerated(result: Result, values: np.ndarray, log_mass: np.ndarray) -> dict[str, Any]:
    """Log mass of all models by their number of terms, where only the leading ones are held; None where all are."""
    if len(result.models) == result.n_models:
        return {"all": None}
    log_all = np.log(np.maximum(result.size_distribution, 1e-300))
    log_all[values] = np.maximum(log_all[values], log_mass)
    return {"all": [[size, value] for size, value in enumerate(log_all.tolist()) if value > -690.0 or size in values]}


def _sampled(result: Result, models: ModelTable, group: np.ndarray, groups: int) -> dict[str, Any]:
    """How many steps ended in models of each group, and how many of these in models that no second chain visited.

    Weighted by the change of the prior, their ratio is the estimate of `Result.unvisited` for another prior. Steps in
    models that were forgotten are spread like the others.
    """
    visits = np.bincount(group, models.visits, groups)
    if not result.counted or not visits.any():
        return {"visits": None, "alone": None}
    alone = np.bincount(group, np.where(models.chains < 2, models.visits, 0), groups)
    spread = visits / visits.sum()
    alone = alone + (result.forgotten_visits - result.forgotten_shared) * spread
    visits = visits + result.forgotten_visits * spread
    return {"visits": visits.tolist(), "alone": None if np.isnan(result.unvisited) else alone.tolist()}


def _rounded(values: np.ndarray) -> list[float]:
    """Numbers with seven decimals: a page shows four."""
    return (np.round(values, 7) + 0.0).tolist()
