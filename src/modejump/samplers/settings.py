"""Settings of the samplers: our default, the algorithm as the paper prints it, or one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from modejump.core.errors import InputError
from modejump.samplers.mixture import Mixture
from modejump.samplers.populations import Populations


@dataclass(frozen=True)
class Sampler:
    """Weights of moves and kernels.

    Parameters
    ----------
    mixture : Mixture, optional
        Kernels of MJMCMC.
    populations : Populations, optional
        Populations of RGMJMCMC, and moves between them.
    """

    mixture: Mixture | None = None
    populations: Populations | None = None

    @classmethod
    def resolve(cls, value: Any) -> Sampler:
        """Settings from what an estimator was given: None for our default, "paper", or settings themselves."""
        if value is None:
            return cls()
        if value == "paper":
            return cls(populations=Populations(moves={"literal": 1.0}))
        if not isinstance(value, cls):
            raise InputError(f"sampler must be None, 'paper' or a modejump.Sampler; got {value!r}.")
        return value

    def __post_init__(self) -> None:
        # As a file holds them.
        if isinstance(self.mixture, dict):
            object.__setattr__(self, "mixture", Mixture(**self.mixture))
        if isinstance(self.populations, dict):
            object.__setattr__(self, "populations", Populations(**self.populations))
