"""Settings of the samplers: our default, the algorithm as the paper prints it, or one's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
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

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON holds them."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Sampler:
        """Settings from what ``to_dict`` returned."""
        mixture, populations = stored["mixture"], stored["populations"]
        return cls(
            None if mixture is None else Mixture(**mixture),
            None if populations is None else Populations(**populations),
        )
