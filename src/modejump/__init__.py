"""Bayesian variable selection and model discovery by mode jumping MCMC.

Names are imported on first use, so that ``import modejump`` is fast. May import: everything.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

_NAMES = {
    "estimators.bglm": "BGLMClassifier BGLMRegressor",
    "estimators.bgnlm": "BGNLMClassifier BGNLMRegressor",
    "estimators.logic": "LogicClassifier LogicRegressor",
    "estimators.fit_law": "LawFit fit_law",
    "estimators.storage": "load",
    "estimators.merge": "merge",
    "data.sources": "scan_chunks scan_dask",
    "data.parquet": "scan_parquet",
    "data.plink": "read_plink",
    "estimators.runs": "Run resume",
    "features.laws.expression": "Feature",
    "features.logic.space": "LogicSpace",
    "features.nonlinear.space": "Space",
    "features.nonlinear.transforms": "transforms",
    "priors.coefficients": (
        "GPrior HyperG HyperGN JZS EBLocal BIC AIC Jeffreys Robust Intrinsic BetaPrime KnownVariance"
    ),
    "priors.models": "UniformPrior BernoulliPrior BetaBinomialPrior",
    "priors.complexity": "ComplexityPrior",
    "priors.logic_prior": "LogicPrior",
    "likelihoods.custom.own": "OwnLikelihood",
    "likelihoods.custom.batch": "BatchLikelihood",
    "likelihoods.gaussian.student": "Student",
    "problem.problem": "Problem",
    "samplers.budget": "Budget",
    "samplers.settings": "Sampler",
    "core.errors": "InputError ModejumpWarning",
}
_HOME = {name: f"modejump.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "AIC", "BGLMClassifier", "BGLMRegressor", "BGNLMClassifier", "BGNLMRegressor", "BIC", "BatchLikelihood",
    "BernoulliPrior", "BetaBinomialPrior", "BetaPrime", "Budget", "ComplexityPrior", "EBLocal", "Feature", "GPrior",
    "HyperG", "HyperGN", "InputError", "Intrinsic", "JZS", "Jeffreys", "KnownVariance", "LawFit", "LogicClassifier",
    "LogicPrior", "LogicRegressor", "LogicSpace", "ModejumpWarning", "OwnLikelihood", "Problem", "Robust", "Run",
    "Sampler", "Space", "Student", "UniformPrior", "__version__", "fit_law", "load", "merge", "read_plink", "resume",
    "scan_chunks", "scan_dask", "scan_parquet", "transforms",
]  # fmt: skip

if TYPE_CHECKING:
    from modejump.core.errors import InputError, ModejumpWarning
    from modejump.data.parquet import scan_parquet
    from modejump.data.plink import read_plink
    from modejump.data.sources import scan_chunks, scan_dask
    from modejump.estimators.bglm import BGLMClassifier, BGLMRegressor
    from modejump.estimators.bgnlm import BGNLMClassifier, BGNLMRegressor
    from modejump.estimators.fit_law import LawFit, fit_law
    from modejump.estimators.logic import LogicClassifier, LogicRegressor
    from modejump.estimators.merge import merge
    from modejump.estimators.runs import Run, resume
    from modejump.estimators.storage import load
    from modejump.features.laws.expression import Feature
    from modejump.features.logic.space import LogicSpace
    from modejump.features.nonlinear.space import Space
    from modejump.features.nonlinear.transforms import transforms
    from modejump.likelihoods.custom.batch import BatchLikelihood
    from modejump.likelihoods.custom.own import OwnLikelihood
    from modejump.likelihoods.gaussian.student import Student
    from modejump.priors.coefficients import (
        AIC,
        BIC,
        JZS,
        BetaPrime,
        EBLocal,
        GPrior,
        HyperG,
        HyperGN,
        Intrinsic,
        Jeffreys,
        KnownVariance,
        Robust,
    )
    from modejump.priors.complexity import ComplexityPrior
    from modejump.priors.logic_prior import LogicPrior
    from modejump.priors.models import BernoulliPrior, BetaBinomialPrior, UniformPrior
    from modejump.problem.problem import Problem
    from modejump.samplers.budget import Budget
    from modejump.samplers.settings import Sampler


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'modejump' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
