"""The numbers behind a page: terms, models, chains and what the prior's slider needs, as JSON holds them."""

from __future__ import annotations

import math
from html import escape
from typing import Any

import numpy as np

from modejump.core.errors import InputError
from modejump.features.covariates.language import Covariates
from modejump.features.logic.language import Logic
from modejump.posterior.fits import model_probabilities
from modejump.report.mathml import formula, name_markup
from modejump.report.prior_slider import (
    listed_models,
    model_units,
    possible_models,
    prior_slider,
    term_charges,
)

# Terms on the page, besides those of the models that it lists.
TERMS = 100
# Terms whose running probabilities are drawn, chains, and points of each line.
TRACED, CHAINS, POINTS = 8, 16, 50
# Coefficients of columns below this probability are left out.
RARE = 0.001


def page_data(model: Any, prior: Any) -> dict[str, Any]:
    """What the page's script reads.

    Parameters
    ----------
    model : estimator
        The fitted model.
    prior : prior object
        Prior of the models as the user stated it.

    Returns
    -------
    dict
        ``terms`` (best first; their places are how the rest refers to them), ``models``, ``prior``, ``chains``.
    """
    posterior = model.posterior_
    order = np.argsort(-posterior.probability, kind="stable")
    models = possible_models(posterior.result.models)
    listed = listed_models(posterior, prior)
    used = {j for row in listed for j in models.members(row)}
    shown = [int(j) for place, j in enumerate(order) if place < TERMS or int(j) in used]
    place = {j: i for i, j in enumerate(shown)}
    units = model_units(models, term_charges(posterior, prior))
    probability = model_probabilities(posterior.result)[np.isfinite(posterior.result.models.log_posterior)]
    return {
        "noun": noun(posterior),
        "terms": terms(posterior, shown),
        "models": [
            {
                "members": sorted(place[j] for j in models.members(row)),
                "log_share": float(models.log_posterior[row] - posterior.log_evidence),
                "units": int(units[row]),
                "probability": number(probability[row]),
            }
            for row in listed
        ],
        "held": len(models),
        "evaluated": int(posterior.n_models),
        "exact": bool(posterior.exact),
        "prior": prior_slider(posterior, prior, shown),
        "chains": running(posterior, shown),
    }


def noun(posterior: Any) -> str:
    """What the terms of models are called."""
    if posterior.laws is None:
        return "term"
    return {Covariates.name: "column", Logic.name: "feature"}.get(posterior.laws.language.name, "law")


def is_formula(posterior: Any) -> bool:
    """Whether the terms are expressions, and not names of columns."""
    return posterior.laws is not None and not isinstance(posterior.laws.language, Covariates)


def markup(posterior: Any, name: str) -> str:
    """A term as the page typesets it."""
    return formula(name) if is_formula(posterior) else plain_name(name)


def plain_name(name: str) -> str:
    """A column or a term by its name, in the letters of the page.

    Examples
    --------
    >>> plain_name("<b>")
    '<span>&lt;b&gt;</span>'
    """
    return f"<span>{escape(name)}</span>"


def terms(posterior: Any, shown: list[int]) -> list[dict[str, Any]]:
    """Terms by their place on the page."""
    table = posterior.inclusion
    columns = ["probability", "mcse", "ess", "r_hat", "renormalised"]
    rank = {int(j): row for row, j in enumerate(np.argsort(-posterior.probability, kind="stable"))}
    found = []
    for j in shown:
        row = table.iloc[rank[j]]
        aliases = list(row["aliases"]) if "aliases" in table.columns else []
        found.append(
            {"name": posterior.problem.names[j], **{name: number(row[name]) for name in columns}}
            | {"complexity": int(row["complexity"]), "aliases": aliases}
        )
    return found


def number(value: Any) -> float | None:
    """A number as JSON holds it: None where there is none."""
    return float(value) if math.isfinite(value) else None


def running(posterior: Any, shown: list[int]) -> dict[str, Any] | None:
    """Running frequencies of the leading terms that were not always in or out; None without chains."""
    if posterior.diagnostics is None:
        return None
    means, length = posterior.result.batch_means, posterior.result.batch_length
    frequency = posterior.frequency
    chosen = [(i, j) for i, j in enumerate(shown) if 0.0 < frequency[j] < 1.0][:TRACED]
    chains = np.unique(np.linspace(0, len(means) - 1, min(len(means), CHAINS)).astype(np.int64))
    at = np.unique(np.linspace(0, means.shape[1] - 1, min(means.shape[1], POINTS)).round().astype(np.int64))
    count = np.arange(1, means.shape[1] + 1)
    return {
        "steps": ((at + 1) * length).tolist(),
        "total": len(means),
        "terms": [
            {
                "term": i,
                "lines": [np.round((np.cumsum(means[c, :, j]) / count)[at], 4).tolist() for c in chains],
            }
            for i, j in chosen
        ],
    }


def coefficient_rows(model: Any, level: float, most: int) -> tuple[list[str], list[tuple[str, list[float]]]]:
    """Headings and rows of the table of coefficients, those most likely in the model first.

    Parameters
    ----------
    model : estimator
        The fitted model.
    level : float
        Level of the intervals, where the model has some.
    most : int
        Rows at most.
    """
    try:
        if hasattr(model, "confint"):
            table, names = model.confint(level=level), ["mean", "sd", "lower", "upper", "probability"]
        else:
            table = model.coefficients()
            names = ["mean", "sd", "conditional_mean", "conditional_sd", "probability"]
        table = table[names]
    except (InputError, NotImplementedError, LookupError):
        return [], []
    fixed = len(table) - model.posterior_.problem.n_columns
    order = np.argsort(-table["probability"].to_numpy()[fixed:], kind="stable") + fixed
    likely = order[table["probability"].to_numpy()[order] >= RARE]
    rows = table.iloc[[*range(fixed), *likely.tolist()]].head(most)
    return names, [(str(name), row) for name, row in zip(rows.index, rows.to_numpy(np.float64).tolist(), strict=True)]


def best_equation(model: Any) -> tuple[float | None, list[tuple[float, str]]] | None:
    """Intercept and terms of the best model, with their markup; None where the likelihood has no coefficients."""
    posterior = model.posterior_
    try:
        means = model.coefficients("best")["mean"]
    except InputError:
        return None
    intercept = posterior.problem.intercept
    values = means.to_numpy(np.float64)[int(intercept) :]
    names = [str(name) for name in means.index[int(intercept) :]]
    shown = [name_markup(name) for name in names]
    if is_formula(posterior):
        laws, fixed = posterior.laws, len(names) - len(posterior.laws.features)
        texts = [laws.language.text(feature, laws.constants, 4) for feature in laws.features]
        shown = shown[:fixed] + [_grouped(formula(text), text) for text in texts]
    pairs = [(float(value), made) for value, made in zip(values, shown, strict=True) if value != 0.0]
    return (float(means.iloc[0]) if intercept else None), pairs


def _grouped(made: str, text: str) -> str:
    """A formula in brackets where it is a sum, or one of logic, so that a coefficient may stand before it."""
    if not made.startswith("<math>") or not formula(f"1*({text})").count("<mo>(</mo>") > made.count("<mo>(</mo>"):
        return made
    inside = made.removeprefix("<math>").removesuffix("</math>")
    return f"<math><mrow><mo>(</mo>{inside}<mo>)</mo></mrow></math>"
