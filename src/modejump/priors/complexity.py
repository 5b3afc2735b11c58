"""The complexity prior of models of features: p(M) proportional to the product of a^c(F)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from modejump.core.errors import InputError
from modejump.core.numbers import whole_number
from modejump.priors.features import FeaturePrior

_POWER = re.compile(r"^(?:1/n(?:(?:\^|\*\*)(?P<inverse>\d+(?:\.\d+)?))?|n(?:\^|\*\*)-(?P<power>\d+(?:\.\d+)?))$")
_EXPONENTIAL = re.compile(r"^(?P<call>exp\()?(?(call)|e(?:\^|\*\*))-(?P<rate>\d+(?:\.\d+)?)(?(call)\))$")


@dataclass(frozen=True)
class ComplexityPrior(FeaturePrior):
    """Features are penalised by their complexity: p(M) is proportional to the product of a^c(F), 0 < a < 1.

    Parameters
    ----------
    a : float or str
        A number, or a text in the number of observations: "1/n", "1/n^2", "n^-2", "exp(-2)".
    spelling : {"canonical", "trees"}
        "canonical": one prior mass for each feature. "trees": a^c(F) times the number of ordered binary trees that
        spell F, as in programs that take each spelling for a feature of its own.
    free : int
        Complexity that costs nothing: c(F) - free counts in place of c(F), and 0 where that is negative. With 1 each
        operation costs a factor of a, and covariates have none.

    Examples
    --------
    >>> ComplexityPrior("1/n", free=1).log_weights(1000, 3, 50).round(3) + 0.0
    array([  0.   ,   0.   ,  -6.908, -13.816])
    """

    a: float | str = "1/n"
    spelling: str = "canonical"
    free: int = 0

    name: ClassVar[str] = "complexity"

    def __post_init__(self) -> None:
        if self.spelling not in ("canonical", "trees"):
            raise InputError(f"spelling of the complexity prior is {self.spelling!r}; choose 'canonical' or 'trees'.")
        whole_number(self.free, "free of the complexity prior")
        self.log_a(1e6)

    @property
    def counts_spellings(self) -> bool:  # type: ignore[override]
        """Whether each spelling of a feature has its own prior mass."""
        return self.spelling == "trees"

    def log_weights(self, n: float, most_complexity: int, covariates: int) -> np.ndarray:
        """Log weight by complexity: (c - free) log a."""
        return self.log_a(n) * np.maximum(np.arange(most_complexity + 1) - self.free, 0)

    def log_a(self, n: float) -> float:
        """Log of a for n observations."""
        if isinstance(self.a, str):
            text = self.a.replace(" ", "")
            power, rate = _POWER.match(text), _EXPONENTIAL.match(text)
            if not (power or rate):
                raise InputError(
                    f"a of the complexity prior is {self.a!r}; give a number below 1, or a text such as '1/n', "
                    "'n^-2' or 'exp(-2)'."
                )
            if power:
                value = -float(power["inverse"] or power["power"] or 1.0) * math.log(n)
            else:
                value = -float(rate["rate"])  # type: ignore[index]
            if not value < 0.0:
                raise InputError(f"a of the complexity prior is {self.a!r}, not below 1 for {n:g} observations.")
            return value
        if isinstance(self.a, bool) or not isinstance(self.a, (int, float)) or not 0.0 < self.a < 1.0:
            raise InputError(f"a of the complexity prior is {self.a!r}; it lies strictly between 0 and 1.")
        return math.log(self.a)
