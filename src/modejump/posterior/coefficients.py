"""Model-averaged coefficients on the original scale of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.posterior.prediction.gaussian import Predictor

if TYPE_CHECKING:
    from modejump.posterior.posterior import Posterior
    from modejump.problem.problem import Problem

INTERCEPT = "(intercept)"


def coefficients(
    posterior: Posterior,
    columns: Sequence[str] | None = None,
    base_columns: Sequence[str] | None = None,
    kind: str = "bma",
) -> pd.DataFrame:
    """Posterior mean and standard deviation of every coefficient, averaged over models.

    A coefficient is zero in the models that lack its column; ``mean`` and ``sd`` include these zeros, while
    ``conditional_mean`` and ``conditional_sd`` are over the models that have it. All are on the original
    scale of the columns. Averages are over the models that prediction uses (see
    :class:`modejump.posterior.Predictor`), and ``probability`` is the mass of those with the column. The
    standard deviation is infinite where the posterior has two degrees of freedom or less. Those of a generalised
    linear model are on the scale of its linear predictor.

    Parameters
    ----------
    posterior : Posterior
        The posterior.
    columns : sequence of str, optional
        Names of the candidate columns in the problem's order; default the name of the term, with ``[1]``,
        ``[2]``, ... behind it where a term has several columns.
    base_columns : sequence of str, optional
        Names of the columns of terms always in, without the intercept.
    kind : str
        "bma", or "best" or "median" for one model.

    Returns
    -------
    DataFrame
        Indexed by column: the intercept, columns always in, then the candidates in the problem's order.
    """
    problem, predictor = posterior.problem, posterior.predictor(kind)
    names = _base_names(problem, base_columns) + _candidate_names(problem, columns)
    if isinstance(predictor, Predictor):
        mean, given, held, variance, given_variance = _candidate_moments(predictor)
        base_mean, base_variance = _base_moments(predictor, mean)
    else:
        base_mean, base_variance, mean, variance, given, given_variance, held = predictor.coefficient_moments()
    return pd.DataFrame(
        {
            "mean": np.concatenate([base_mean, mean]),
            "sd": np.sqrt(np.concatenate([base_variance, variance])),
            "conditional_mean": np.concatenate([base_mean, given]),
            "conditional_sd": np.sqrt(np.concatenate([base_variance, given_variance])),
            "probability": np.concatenate([np.ones(len(base_mean)), held]),
        },
        index=pd.Index(names, name="column", dtype=object),
    )


def _candidate_moments(
    predictor: Predictor,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of each coefficient: mean, mean given inclusion, mass of inclusion, variance, variance given inclusion.

    Squares are summed about the means, in a second pass: coefficients known to many digits lose none.
    """
    problem, moments, weight = predictor.problem, predictor.moments, predictor.models.weight
    scale = problem.data.columns.scale
    held, mean = np.zeros(problem.n_columns), np.zeros(problem.n_columns)
    for i, fit in predictor.each_fit():
        held[fit.columns] += weight[i]
        mean[fit.columns] += weight[i] * moments.shrink[i] * fit.coef * predictor.unit / scale[fit.columns]
    with np.errstate(invalid="ignore"):
        given = mean / held
    variance = np.maximum(1.0 - held, 0.0) * mean**2
    given_variance = np.where(held > 0.0, 0.0, np.nan)
    for i, fit in predictor.each_fit():
        c = fit.columns
        beta = fit.coef * predictor.unit / scale[c]
        own = moments.shrink_variance[i] * np.square(fit.root / scale[c, None]).sum(axis=1)
        own += max(moments.shrink2[i] - moments.shrink[i] ** 2, 0.0) * beta**2
        centre = moments.shrink[i] * beta
        variance[c] += weight[i] * (own + (centre - mean[c]) ** 2)
        given_variance[c] += weight[i] * (own + (centre - given[c]) ** 2) / held[c]
    return mean, given, held, variance, given_variance


def _base_moments(predictor: Predictor, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the base's coefficients.

    A base coefficient is that of the base alone, less the candidates' loadings on it times their
    coefficients.
    """
    problem, moments, weight = predictor.problem, predictor.moments, predictor.models.weight
    loading, scale = problem.data.columns.loading, problem.data.columns.scale
    average_shift = loading @ mean
    variance = (weight @ moments.variance) * np.square(predictor.base_root).sum(axis=1)
    for i, fit in predictor.each_fit():
        part = loading[:, fit.columns] / scale[fit.columns]
        shift = part @ fit.coef * predictor.unit
        own = max(moments.shrink2[i] - moments.shrink[i] ** 2, 0.0) * shift**2
        if len(fit.columns):
            own = own + moments.shrink_variance[i] * np.square(part @ fit.root).sum(axis=1)
        variance += weight[i] * (own + (moments.shrink[i] * shift - average_shift) ** 2)
    return problem.base_coef - average_shift, variance


def _candidate_names(problem: Problem, columns: Sequence[str] | None) -> list[str]:
    if columns is not None:
        if len(columns) != problem.n_columns:
            raise InputError(f"columns has {len(columns)} names for {problem.n_columns} candidate columns.")
        return list(columns)
    names = []
    for name, count in zip(problem.names, np.diff(problem.data.first), strict=True):
        names += [name] if count == 1 else [f"{name}[{i + 1}]" for i in range(count)]
    return names


def _base_names(problem: Problem, base_columns: Sequence[str] | None) -> list[str]:
    wanted = problem.data.base - int(problem.intercept)
    if base_columns is None:
        plain = len(problem.always_in) == wanted
        base_columns = problem.always_in if plain else [f"(always in)[{i + 1}]" for i in range(wanted)]
    if len(base_columns) != wanted:
        raise InputError(f"base_columns has {len(base_columns)} names for {wanted} columns that are always in.")
    return ([INTERCEPT] if problem.intercept else []) + list(base_columns)
