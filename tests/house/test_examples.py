"""Whatever a user may call has an example in its docstring; doctest runs it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import modejump
from modejump import experiments, plots
from modejump.posterior import Posterior
from modejump.posterior.questions.coefficient_posteriors import CoefficientDensity

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "api" / "index.rst"
# What users hold after a fit, whose methods they call.
HELD = (
    modejump.BGLMRegressor, modejump.BGLMClassifier, modejump.BGNLMRegressor, modejump.BGNLMClassifier,
    modejump.LogicRegressor, modejump.LogicClassifier, modejump.LawFit, modejump.Run, Posterior, CoefficientDensity,
)  # fmt: skip
# The guide's page on architecture has an example of the first five; the last two are for the package's own rooms.
ELSEWHERE = {
    "Problem", "problem.feature_problem.feature_problem", "samplers.plan.Plan", "samplers.result.Result",
    "samplers.result.ModelTable", "Posterior.kept_models", "Posterior.marginal_of",
}  # fmt: skip


def found(name: str) -> Any:
    """A name of the reference, which is relative to the package."""
    module, _, last = name.rpartition(".")
    return getattr(import_module(f"modejump.{module}") if module else modejump, last)


def public_names() -> Iterator[tuple[str, Any]]:
    """Names of the package, of plots and experiments, and of the reference."""
    names = {*modejump.__all__} - {"__version__", "transforms"}
    names |= {f"plots.{name}" for name in plots.__all__} | {f"experiments.{name}" for name in experiments.__all__}
    names |= set(re.findall(r"^   ([A-Za-z][\w.]*)$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE))
    yield from ((name, found(name)) for name in sorted(names))


def public_methods() -> Iterator[tuple[str, Any]]:
    """Methods of ours of what users hold."""
    for kind in HELD:
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_") and method.__module__.startswith("modejump."):
                yield f"{kind.__name__}.{name}", method


def without_example(things: Iterator[tuple[str, Any]]) -> set[str]:
    return {name for name, thing in things if ">>> " not in (thing.__doc__ or "")}


def test_every_public_name_has_an_example() -> None:
    assert without_example(public_names()) - ELSEWHERE == set()


def test_every_public_method_has_an_example() -> None:
    assert without_example(public_methods()) - ELSEWHERE == set()


def test_a_name_without_an_example_is_found() -> None:
    def bare() -> None:
        """Do nothing."""

    assert without_example(iter([("bare", bare), ("fit_law", modejump.fit_law)])) == {"bare"}
