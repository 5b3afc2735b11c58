"""Bayesian variable selection and model discovery by mode jumping MCMC.

Names are imported on first use, so that ``import modejump`` is fast. May import: everything.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

_HOME = {
    "BGLMClassifier": "modejump.estimators.bglm",
    "BGLMRegressor": "modejump.estimators.bglm",
    "BGNLMClassifier": "modejump.estimators.bgnlm",
    "BGNLMRegressor": "modejump.estimators.bgnlm",
    "LogicClassifier": "modejump.estimators.logic",
    "LogicRegressor": "modejump.estimators.logic",
    "LawFit": "modejump.estimators.fit_law",
    "fit_law": "modejump.estimators.fit_law",
    "load": "modejump.estimators.storage",
    "merge": "modejump.estimators.merge",
    "scan_chunks": "modejump.data.sources",
    "scan_dask": "modejump.data.sources",
    "scan_parquet": "modejump.data.parquet",
    "read_plink": "modejump.data.plink",
    "Run": "modejump.estimators.runs",
    "resume": "modejump.estimators.runs",
    "Feature": "modejump.features.laws.expression",
    "LogicSpace": "modejump.features.logic.space",
    "Space": "modejump.features.nonlinear.space",
    "transforms": "modejump.features.nonlinear.transforms",
    "GPrior": "modejump.priors.coefficients",
    "HyperG": "modejump.priors.coefficients",
    "HyperGN": "modejump.priors.coefficients",
    "JZS": "modejump.priors.coefficients",
    "EBLocal": "modejump.priors.coefficients",
    "BIC": "modejump.priors.coefficients",
    "AIC": "modejump.priors.coefficients",
    "Jeffreys": "modejump.priors.coefficients",
    "Robust": "modejump.priors.coefficients",
    "Intrinsic": "modejump.priors.coefficients",
    "BetaPrime": "modejump.priors.coefficients",
    "KnownVariance": "modejump.priors.coefficients",
    "UniformPrior": "modejump.priors.models",
    "BernoulliPrior": "modejump.priors.models",
    "BetaBinomialPrior": "modejump.priors.models",
    "ComplexityPrior": "modejump.priors.complexity",
    "LogicPrior": "modejump.priors.logic_prior",
    "OwnLikelihood": "modejump.likelihoods.custom.own",
    "BatchLikelihood": "modejump.likelihoods.custom.batch",
    "Student": "modejump.likelihoods.gaussian.student",
    "Problem": "modejump.problem.problem",
    "Budget": "modejump.samplers.budget",
    "Sampler": "modejump.samplers.settings",
    "InputError": "modejump.core.errors",
    "ModejumpWarning": "modejump.core.errors",
}

__all__ = [
    "AIC",
    "BGLMClassifier",
    "BGLMRegressor",
    "BGNLMClassifier",
    "BGNLMRegressor",
    "BIC",
    "BatchLikelihood",
    "BernoulliPrior",
    "BetaBinomialPrior",
    "BetaPrime",
    "Budget",
    "ComplexityPrior",
    "EBLocal",
    "Feature",
    "GPrior",
    "HyperG",
    "HyperGN",
    "InputError",
    "Intrinsic",
    "JZS",
    "Jeffreys",
    "KnownVariance",
    "LawFit",
    "LogicClassifier",
    "LogicPrior",
    "LogicRegressor",
    "LogicSpace",
    "ModejumpWarning",
    "OwnLikelihood",
    "Problem",
    "Robust",
    "Run",
    "Sampler",
    "Space",
    "Student",
    "UniformPrior",
    "__version__",
    "fit_law",
    "load",
    "merge",
    "read_plink",
    "scan_chunks",
    "scan_dask",
    "scan_parquet",
    "resume",
    "transforms",
]

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
