"""Priors: p(M) over models and the priors of the coefficients given M.

May import: numpy, scipy, numba, the standard library and `modejump.core`. Nothing else of the package.
"""

from modejump.priors.coefficients import (
    AIC,
    BIC,
    COEF_PRIORS,
    JZS,
    BetaPrime,
    CoefPrior,
    CoefPriorData,
    EBLocal,
    GPrior,
    HyperG,
    HyperGN,
    Intrinsic,
    Jeffreys,
    KnownVariance,
    Robust,
    coef_prior_from_dict,
    resolve_coef_prior,
)
from modejump.priors.compiled import ModelPriorArrays, log_model_prior
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.features import FeaturePrior
from modejump.priors.heredity import parents_from_names
from modejump.priors.models import (
    MODEL_PRIORS,
    BernoulliPrior,
    BetaBinomialPrior,
    ModelPrior,
    UniformPrior,
    model_prior_from_dict,
    resolve_model_prior,
)

__all__ = [
    "AIC", "BIC", "COEF_PRIORS", "JZS", "MODEL_PRIORS", "BernoulliPrior", "BetaBinomialPrior", "BetaPrime",
    "CoefPrior", "CoefPriorData", "ComplexityPrior", "EBLocal", "FeaturePrior", "GPrior", "HyperG", "HyperGN",
    "Intrinsic", "Jeffreys", "KnownVariance", "ModelPrior", "ModelPriorArrays", "Robust", "UniformPrior",
    "coef_prior_from_dict", "log_model_prior", "model_prior_from_dict", "parents_from_names", "resolve_coef_prior",
    "resolve_model_prior",
]  # fmt: skip
