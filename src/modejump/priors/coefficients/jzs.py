"""The Jeffreys-Zellner-Siow prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from modejump.core.compilation import kernel
from modejump.priors.base import real_number
from modejump.priors.coefficients.base import CoefPrior

LOG_PI = math.log(math.pi)


@dataclass(frozen=True)
class JZS(CoefPrior):
    """Jeffreys-Zellner-Siow prior, a multivariate Cauchy: g ~ InverseGamma(1/2, n scale^2 / 2).

    Parameters
    ----------
    scale : float
        Scale of the Cauchy distribution.
    """

    scale: float = 1.0

    name: ClassVar[str] = "jzs"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", real_number(self.scale, "scale of the jzs prior", above=0.0))

    def values(self, n, tss):
        """Parameters: the scale."""
        return (self.scale,)

    @staticmethod
    @kernel
    def mixture_form(par, n, base, k):
        """Prior of g."""
        return (0.0, 0.5 * n * par[0] * par[0], -0.5, 0.0, 1.0), -0.5 * LOG_PI

    @staticmethod
    def mixture_form_plain(par, n, base, k):
        """Plain twin."""
        return (0.0, n * par[0] ** 2 / 2, -0.5, 0.0, 1.0), -np.log(np.pi) / 2
