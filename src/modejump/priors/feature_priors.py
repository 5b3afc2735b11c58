"""The priors of models of features, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modejump.core.registry import Registry
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.features import FeaturePrior
from modejump.priors.logic_prior import LogicPrior

FEATURE_PRIORS: Registry[type[FeaturePrior]] = Registry("prior of features", (ComplexityPrior, LogicPrior))


def feature_prior_from_dict(stored: Mapping[str, Any]) -> FeaturePrior:
    """Return the prior that `FeaturePrior.to_dict` described."""
    made: FeaturePrior = FEATURE_PRIORS.from_dict(stored)
    return made
