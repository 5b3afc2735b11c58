"""Bayesian variable selection and model discovery by mode jumping MCMC.

Names are imported on first use, so that ``import modejump`` is fast. May import: everything.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "BGLMClassifier": "modejump.estimators.classifiers",
    "BGLMRegressor": "modejump.estimators.bglm",
    "BGNLMClassifier": "modejump.estimators.classifiers",
    "BGNLMRegressor": "modejump.estimators.bgnlm",
    "load": "modejump.estimators.stored",
    "merge": "modejump.estimators.merged",
    "scan_chunks": "modejump.sources.base",
    "scan_dask": "modejump.sources.dask",
    "scan_parquet": "modejump.sources.parquet",
    "Run": "modejump.estimators.runs",
    "resume": "modejump.estimators.runs",
    "Feature": "modejump.features.expression",
    "Space": "modejump.features.space",
    "transforms": "modejump.features.transforms",
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
    "OwnLikelihood": "modejump.likelihoods.own",
    "BatchLikelihood": "modejump.likelihoods.batch",
    "Problem": "modejump.problem",
    "Budget": "modejump.samplers.budget",
    "InputError": "modejump.errors",
    "ModejumpWarning": "modejump.errors",
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
    "ModejumpWarning",
    "OwnLikelihood",
    "Problem",
    "Robust",
    "Run",
    "Space",
    "UniformPrior",
    "__version__",
    "load",
    "merge",
    "scan_chunks",
    "scan_dask",
    "scan_parquet",
    "resume",
    "transforms",
]

if TYPE_CHECKING:
    from modejump.errors import InputError, ModejumpWarning
    from modejump.estimators.bglm import BGLMRegressor
    from modejump.estimators.bgnlm import BGNLMRegressor
    from modejump.estimators.classifiers import BGLMClassifier, BGNLMClassifier
    from modejump.estimators.merged import merge
    from modejump.estimators.runs import Run, resume
    from modejump.estimators.stored import load
    from modejump.features.expression import Feature
    from modejump.features.space import Space
    from modejump.features.transforms import transforms
    from modejump.likelihoods.batch import BatchLikelihood
    from modejump.likelihoods.own import OwnLikelihood
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
    from modejump.priors.models import BernoulliPrior, BetaBinomialPrior, UniformPrior
    from modejump.problem import Problem
    from modejump.samplers.budget import Budget
    from modejump.sources.base import scan_chunks
    from modejump.sources.dask import scan_dask
    from modejump.sources.parquet import scan_parquet


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'modejump' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
