"""A fitted estimator for other programs: JSON, and a table in LaTeX."""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from modejump import __version__
from modejump.core.errors import InputError
from modejump.estimators.summary import describe_prior
from modejump.features.symbols import escape_latex, latex_number
from modejump.posterior.coefficients import INTERCEPT


def plain(value: Any) -> Any:
    """A value as JSON holds it: a frame is a list of its rows, and NaN and infinity are null."""
    if isinstance(value, pd.DataFrame):
        columns = [plain(value[name].tolist()) for name in value.columns]
        return [dict(zip(map(str, value.columns), row)) for row in zip(*columns)]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def records(frame: pd.DataFrame, index: str | None = None) -> list[dict[str, Any]]:
    """Rows of a frame as dictionaries, its index among them where it has a name for it."""
    rows: list[dict[str, Any]] = plain(frame if index is None else frame.rename_axis(index).reset_index())
    return rows


def json_of(model: Any, level: float, models: int) -> dict[str, Any]:
    """What :meth:`Questions.to_json` writes."""
    posterior, problem, result = model._fitted, model.problem_, model._fitted.result
    out: dict[str, Any] = {
        "modejump": __version__,
        "estimator": type(model).__name__,
        "algorithm": result.algorithm,
        "family": problem.family.name,
        "observations": float(problem.data.n),
        "priors": {
            "coefficients": None if problem.family.custom else describe_prior(problem.coef_prior),
            "models": describe_prior(model._options.model_prior),
        },
        "seconds": result.warmup_seconds + result.seconds,
        "finished": result.finished,
        "verdict": str(posterior.verdict),
        "level": posterior.verdict.level,
        "search": posterior.verdict.search,
        "notes": list(result.notes),
        "inclusion": records(posterior.inclusion, "feature"),
        "models": records(posterior.models(models)),
        "equation": None,
        "constants": None,
        "confint": None,
    }
    if hasattr(model, "constants"):
        with suppress(InputError):
            found = records(model.constants(level), "constant")
            out["constants"] = {"level": float(level), "law": model.equation(numbers=False), "constants": found}
    if not problem.family.custom:
        out["equation"] = model.equation()
        out["confint"] = {"level": float(level), "coefficients": records(model.confint(level), "column")}
    return out


def write_json(content: dict[str, Any], path: str | os.PathLike[str] | None) -> str | None:
    """JSON as text, or in a file."""
    text = json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False)
    if path is None:
        return text
    try:
        Path(path).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None
    return None


def latex_table(model: Any, level: float, digits: int, limit: int, kind: str) -> str:
    """What :meth:`Questions.to_latex_table` returns."""
    if isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 1:
        raise InputError(f"limit must be a whole number of at least 1; got {limit!r}.")
    table = model.confint(level, kind=kind)
    symbols = [f"${symbol}$" for symbol in model._symbols("latex", digits)]
    names = [escape_latex(INTERCEPT), *symbols] if model.problem_.intercept else symbols
    # The order of the equations is that of the coefficients.
    order = np.argsort(-table["probability"].to_numpy(), kind="stable")[:limit]
    percent = rf"{100 * float(level):g}\,\%"
    lines = [
        r"\begin{tabular}{lrrc}",
        r"\hline",
        rf"Term & Probability & Mean & {percent} interval \\",
        r"\hline",
    ]
    for row in order:
        probability, mean, lower, upper = table.iloc[row][["probability", "mean", "lower", "upper"]]
        interval = rf"$[{_number(lower, digits)},\ {_number(upper, digits)}]$"
        lines.append(rf"{names[row]} & {probability:.3f} & ${_number(mean, digits)}$ & {interval} \\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}"])


def _number(value: float, digits: int) -> str:
    if value == 0.0:
        return "0"
    return f"{'-' if value < 0 else ''}{latex_number(abs(float(value)), digits)}"
