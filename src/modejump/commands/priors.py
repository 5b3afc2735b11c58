"""Priors on the command line: a name, perhaps with parameters, as in ``g=47`` or ``beta-binomial=1,4``."""

from __future__ import annotations

import dataclasses
from typing import Any

from modejump.core.errors import InputError
from modejump.priors.coefficients import resolve_coef_prior
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.logic_prior import LogicPrior
from modejump.priors.models import resolve_model_prior


def parse_coef_prior(text: str) -> Any:
    """A coefficient prior from its text."""
    return _parse(text, resolve_coef_prior, "coefficient prior")


def parse_model_prior(text: str) -> Any:
    """A model prior from its text; those of features, as in ``complexity=1/n``, are read here."""
    name, _, a = text.partition("=")
    if name.strip() == LogicPrior.name:
        count = _number_or_text(a.strip()) if a.strip() else None
        return LogicPrior(int(count) if isinstance(count, float) and count.is_integer() else count)  # type: ignore[arg-type]
    if name.strip() == ComplexityPrior.name:
        return ComplexityPrior(_number_or_text(a.strip())) if a.strip() else ComplexityPrior()
    return _parse(text, resolve_model_prior, "model prior")


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _parse(text: str, resolve: Any, what: str) -> Any:
    name, _, values = text.partition("=")
    prior = resolve(name.strip())
    if not values.strip():
        return prior
    try:
        numbers = [float(value) for value in values.split(",")]
    except ValueError:
        raise InputError(f"the {what} {text!r} must be a name, '=', and numbers with commas between.") from None
    # Limits such as the largest size or heredity are not numbers of the formula, so they stay as they are.
    fields = [f.name for f in dataclasses.fields(prior) if f.name not in ("max_size", "heredity")]
    if len(numbers) > len(fields):
        takes = f"takes {', '.join(fields)}" if fields else "takes no parameter"
        raise InputError(f"the {what} {prior.name!r} {takes}; got {len(numbers)} number(s) in {text!r}.")
    return dataclasses.replace(prior, **dict(zip(fields, numbers)))
