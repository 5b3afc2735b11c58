"""The best law of each complexity, with its error on rows that it was not fitted to."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.features.covariates.language import Covariates
from modejump.features.expression import Expression
from modejump.posterior.fits import model_columns, model_probabilities, single_model
from modejump.posterior.prediction.distribution import NewRows
from modejump.posterior.prediction.glm import GlmPredictor
from modejump.priors.compiled import log_prior_of
from modejump.problem.design import standardised_block
from modejump.samplers.result import members_of

if TYPE_CHECKING:
    from modejump.posterior.posterior import Posterior

# Parts of the best model that are listed where the table of models has nothing as simple: of so many features at most.
_PARTS = 8
# Step of a constant for the derivative of its feature, as a share of the constant.
_STEP = 1e-5
# Directions of a design shorter than this share of the longest one squared are rounding.
_RANK = 1e-12

Members = tuple[int, ...]


def law_table(posterior: Posterior) -> pd.DataFrame:
    """For each complexity the model of highest log posterior, simplest first.

    The complexity of a model is the sum of its features' complexities. Besides the models held, the parts of the best
    model and, for Gaussian responses, every law alone are looked at, so that the table begins with simple laws.

    ``error`` is the root mean square error of a row that is left out. For Gaussian responses it is exact least squares
    leave-one-out, ``e_i / (1 - h_i)``, with the derivatives by the constants inside features among the columns that the
    leverages ``h_i`` are of. For other families the residuals of the response are divided by ``1 - k/n``, with k
    coefficients and constants. Features are not searched for again, so errors of laws chosen from very many are
    optimistic. A law is ``as_good`` as the one of smallest error where its mean squared error is above that one's by
    at most one standard error.

    ``probability`` is 0 for a model that was not met; ``error`` is NaN for a likelihood of your own, and where a model
    read from a file does not know it.
    """
    if posterior.laws is None:
        raise InputError("a table of laws needs a search among features; this model selects among given terms.")
    best = _best_of_each(posterior)
    errors = law_errors(posterior, [members for *_, members in best])
    table = pd.DataFrame(
        {
            "complexity": np.array([complexity for complexity, *_ in best], np.int64),
            "law": pd.Series([law_text(posterior, members) for *_, members in best], dtype=object),
            "log_posterior": [value for _, value, _, _ in best],
            "probability": [probability for _, _, probability, _ in best],
            "error": [error for error, _ in errors],
        }
    )
    return table.assign(as_good=_as_good(np.array(errors)))


def law_text(posterior: Posterior, members: Sequence[int]) -> str:
    """A model as people write it."""
    assert posterior.laws is not None
    return posterior.laws.language.law([posterior.laws.features[j] for j in members])


def stored_errors(posterior: Posterior) -> dict[str, tuple[float, float]]:
    """Errors of the laws of the table, with the standard errors of their squares, for storage."""
    laws = posterior.laws
    if laws is None or posterior.problem.family.custom or isinstance(laws.language, Covariates):
        return {}
    models = [members for *_, members in _best_of_each(posterior)]
    found = zip(models, law_errors(posterior, models), strict=True)
    return {law_text(posterior, members): errors for members, errors in found if np.isfinite(errors[0])}


def _best_of_each(posterior: Posterior) -> list[tuple[int, float, float, Members]]:
    """Complexity, log posterior, probability and members of the best model of each complexity."""
    assert posterior.laws is not None
    best: dict[int, tuple[int, float, float, Members]] = {}
    for members, (value, probability) in _candidates(posterior).items():
        complexity = sum(posterior.laws.features[j].complexity for j in members)
        if complexity not in best or value > best[complexity][1]:
            best[complexity] = (complexity, value, probability, members)
    return [best[complexity] for complexity in sorted(best)]


def _candidates(posterior: Posterior) -> dict[Members, tuple[float, float]]:
    """Log posterior and probability of the models held, and of simpler ones."""
    table = posterior.result.models
    values = zip(table.log_posterior.tolist(), model_probabilities(posterior.result).tolist(), strict=True)
    found: dict[Members, tuple[float, float]] = {
        tuple(members_of(words)): value for words, value in zip(table.words, values, strict=True)
    }
    # Where models are fitted to the rows, fewer of them are.
    quick = posterior.problem.family.conjugate
    leading = members_of(table.words[0])[: _PARTS if quick else _PARTS // 2]
    parts = itertools.chain.from_iterable(itertools.combinations(leading, k) for k in range(len(leading)))
    alone = ((j,) for j in range(posterior.problem.n_terms if quick else 0))
    for members in (*parts, *alone):
        if members in found:
            continue
        try:
            marginal = posterior.marginal_of([posterior.problem.names[j] for j in members])
        except InputError:  # the rows that it needs are gone
            continue
        if np.isfinite(marginal):
            found[members] = (marginal + log_prior_of(list(members), posterior.problem.data.prior), 0.0)
    return found


def _as_good(errors: np.ndarray) -> np.ndarray:
    """Which mean squared errors are within one standard error of the smallest."""
    square, deviation = errors[:, 0] ** 2, errors[:, 1]
    if np.isnan(square).all():
        return np.zeros(len(square), bool)
    at = int(np.nanargmin(square))
    return np.asarray(square <= square[at] + deviation[at])


# --- errors -----------------------------------------------------------------------------------------------------------


def law_errors(posterior: Posterior, models: Sequence[Members]) -> list[tuple[float, float]]:
    """Error of each model, and the standard error of its square; NaN where nobody knows."""
    known, family = posterior.errors or {}, posterior.problem.family
    rows = len(posterior.problem.data.columns.x)
    if not rows or family.custom:
        unknown = (float("nan"), float("nan"))
        return [known.get(law_text(posterior, members), unknown) for members in models]
    one = _left_out if family.conjugate else _adjusted
    return [one(posterior, members) for members in models]


def _left_out(posterior: Posterior, members: Members) -> tuple[float, float]:
    """Least squares leave-one-out, of rows that may stand for several."""
    problem = posterior.problem
    columns = problem.data.columns
    chosen = model_columns(problem, members)
    part = columns._replace(x=columns.x[:, chosen], loading=columns.loading[:, chosen], scale=columns.scale[chosen])
    z, response = standardised_block(part, slice(None)), columns.response * np.sqrt(problem.base_rss)
    residual = response - z @ (_inverse_root(z) @ (_inverse_root(z).T @ (z.T @ response)))
    design = np.hstack([columns.base * columns.root_weight[:, None], z, _derivatives(posterior, members)])
    noise = posterior.result.noise_weight
    weight = columns.root_weight**2 / (1.0 if noise is None else noise)
    # Of rows that stand for several, one is left out.
    leverage = ((design @ _inverse_root(design)) ** 2).sum(axis=1) / weight
    return _mean_error(residual / columns.root_weight / np.maximum(1.0 - leverage, 1e-12), weight)


def _inverse_root(design: np.ndarray) -> np.ndarray:
    """A root of the inverse of a design's products, without directions that are rounding."""
    length = np.linalg.norm(design, axis=0)
    scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0.0)
    value, vector = np.linalg.eigh((design * scale).T @ (design * scale))
    keep = value > _RANK * value.max(initial=0.0)
    return np.asarray(scale[:, None] * vector[:, keep] / np.sqrt(value[keep]))


def _derivatives(posterior: Posterior, members: Members) -> np.ndarray:
    """Weighted columns of the derivatives of a model's features by the constants inside them."""
    laws, searched = posterior.laws, posterior.searched
    assert laws is not None
    found: list[np.ndarray] = []
    for feature in (laws.features[j] for j in members):
        if searched is not None and feature in laws.constants and feature.constants > 0:
            found += _slopes(laws.language, feature, searched.table, laws.constants[feature])
    root = posterior.problem.data.columns.root_weight
    slopes = np.array(found).reshape(len(found), len(root)).T * root[:, None]
    return np.asarray(slopes[:, np.isfinite(slopes).all(axis=0)])


def _slopes(
    language: Any, feature: Expression, table: Mapping[str, np.ndarray], constants: np.ndarray
) -> list[np.ndarray]:
    """Central differences of a feature's column by each of its constants."""
    slopes = []
    for k, constant in enumerate(constants):
        step = _STEP * (abs(constant) or 1.0)
        ends = [constants + sign * step * (np.arange(len(constants)) == k) for sign in (1.0, -1.0)]
        above, below = (language.column(feature, table, {feature: end}) for end in ends)
        slopes.append((above - below) / (2.0 * step))
    return slopes


def _adjusted(posterior: Posterior, members: Members) -> tuple[float, float]:
    """Residuals of the response of a generalised linear model, by the mean leverage."""
    problem, searched = posterior.problem, posterior.searched
    columns, laws = problem.data.columns, posterior.laws
    assert laws is not None
    if searched is None:
        return float("nan"), float("nan")
    models = single_model(problem, members)
    if not models.estimated.all():
        return float("nan"), float("nan")
    offset = np.zeros(len(columns.x)) if searched.offset is None else searched.offset
    mean = GlmPredictor(problem, models, "best").mean(NewRows(columns.x, columns.base, offset))
    fitted = problem.data.base + sum(1 + laws.features[j].constants for j in members)
    share = min(fitted / problem.data.n, 0.999)
    return _mean_error((searched.y - mean) / (1.0 - share), columns.root_weight**2)


def _mean_error(error: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Root of the mean square, and the standard error of the mean square."""
    mean = float(np.average(error**2, weights=weight))
    spread = float(np.average((error**2 - mean) ** 2, weights=weight))
    return float(np.sqrt(mean)), float(np.sqrt(spread / weight.sum()))
