"""Priors of the regression coefficients given a model, one module each.

To add one, write its module like those beside this file and add it to the list below; from outside the package, call
``COEF_PRIORS.register``.

May import: what `modejump.priors` may.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modejump.core.registry import Registry
from modejump.priors.coefficients.base import CoefPrior, CoefPriorData
from modejump.priors.coefficients.beta_prime import BetaPrime
from modejump.priors.coefficients.criteria import AIC, BIC
from modejump.priors.coefficients.empirical_bayes import EBLocal
from modejump.priors.coefficients.g import GPrior
from modejump.priors.coefficients.hyper_g import HyperG, HyperGN
from modejump.priors.coefficients.intrinsic import Intrinsic
from modejump.priors.coefficients.jeffreys import Jeffreys
from modejump.priors.coefficients.jzs import JZS
from modejump.priors.coefficients.known_variance import KnownVariance
from modejump.priors.coefficients.robust import Robust

__all__ = [
    "AIC", "BIC", "COEF_PRIORS", "JZS", "BetaPrime", "CoefPrior", "CoefPriorData", "EBLocal", "GPrior", "HyperG",
    "HyperGN", "Intrinsic", "Jeffreys", "KnownVariance", "Robust", "coef_prior_from_dict", "resolve_coef_prior",
]  # fmt: skip

COEF_PRIORS: Registry[type[CoefPrior]] = Registry(
    "coefficient prior",
    (Jeffreys, GPrior, HyperG, HyperGN, JZS, EBLocal, BIC, AIC, Robust, Intrinsic, BetaPrime, KnownVariance),
)


def resolve_coef_prior(spec: str | CoefPrior) -> CoefPrior:
    """Return the coefficient prior that a name or an object stands for."""
    return COEF_PRIORS.resolve(spec, CoefPrior)


def coef_prior_from_dict(stored: Mapping[str, Any]) -> CoefPrior:
    """Return the prior that `CoefPrior.to_dict` described."""
    return COEF_PRIORS.from_dict(stored)
