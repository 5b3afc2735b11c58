"""The intrinsic prior of Womack et al. (2014)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from modejump.core.compilation import kernel
from modejump.priors.coefficients.base import CoefPrior

LOG_PI = math.log(math.pi)


@dataclass(frozen=True)
class Intrinsic(CoefPrior):
    """Intrinsic prior of Womack et al. (2014): g = n / ((base + k) w), w ~ Beta(1/2, 1/2)."""

    name: ClassVar[str] = "intrinsic"

    @staticmethod
    @kernel
    def mixture_form(par, n, base, k):
        """Prior of g."""
        least = n / (base + k)  # the least value of g
        return (least, least, 0.5, 1.0, 0.0), -LOG_PI

    @staticmethod
    def mixture_form_plain(par, n, base, k):
        """Plain twin."""
        least = n / (base + k)
        return (least, least, 0.5, 1.0, 0.0), -np.log(np.pi)
