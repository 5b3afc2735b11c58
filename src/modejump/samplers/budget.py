"""How long a sampler runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from modejump.core.errors import InputError

DEFAULT_STEPS = 500_000
DEFAULT_CAP = 20_000_000


@dataclass(frozen=True)
class Budget:
    """Effort of a sampler: by size, by time, or by precision.

    Sizes and precision are deterministic: one seed gives one answer for any number of workers. Seconds are not.

    Parameters
    ----------
    warmup : int, optional
        Warm-up steps of each chain; default a tenth of the sampling steps, at least 5 000 and at most 200 000. For
        RGMJMCMC: steps of each chain's search, default 45 000.
    steps : int, optional
        Sampling steps of each chain (default 500 000 where nothing else is asked).
    seconds : float, optional
        Wall time of warm-up and sampling together.
    mcse : float, optional
        Sample until the largest Monte Carlo standard error of an inclusion probability is below this.
    cap : int, optional
        Sampling steps of each chain at which a wanted precision is given up (default 20 000 000).
    memory : int
        Bytes for the cache of evaluated models, all chains together; the worse half is forgotten at the bound. For
        GMJMCMC: bytes for the cache of columns.

    Examples
    --------
    >>> Budget(steps=100_000)
    Budget(warmup=None, steps=100000, seconds=None, mcse=None, cap=None, memory=268435456)
    """

    warmup: int | None = None
    steps: int | None = None
    seconds: float | None = None
    mcse: float | None = None
    cap: int | None = None
    memory: int = 256 * 2**20

    def __post_init__(self) -> None:
        given = [name for name in ("steps", "seconds", "mcse") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InputError(f"the budget gives both {given[0]} and {given[1]}; choose one of steps, seconds, mcse.")
        for name in ("warmup", "steps", "seconds", "mcse", "cap", "memory"):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
                raise InputError(f"the budget's {name} is {value!r}; give a finite number.")
            if value <= 0 and not (name == "warmup" and value == 0):
                raise InputError(f"the budget's {name} is {value!r}; give a positive number.")
            if name in ("warmup", "steps", "cap", "memory") and int(value) != value:
                raise InputError(f"the budget's {name} is {value!r}; give a whole number.")
        if self.cap is not None and self.mcse is None:
            raise InputError("the budget gives a cap without a wanted precision; give mcse as well, or steps alone.")
        if self.seconds is not None and self.warmup is not None:
            raise InputError("the budget gives both seconds and warmup; by time, warm-up takes its share of it.")

    @property
    def deterministic(self) -> bool:
        """Whether one seed gives one answer."""
        return self.seconds is None

    def warmup_steps(self) -> int:
        """Warm-up steps of each chain, for budgets by size or precision."""
        if self.warmup is not None:
            return int(self.warmup)
        planned = self.steps if self.steps is not None else DEFAULT_STEPS
        return int(min(max(planned // 10, 5_000), 200_000))

    def sampling_steps(self) -> int:
        """Sampling steps of each chain: the size wanted, or the cap of a budget by precision."""
        if self.mcse is not None:
            return int(self.cap if self.cap is not None else DEFAULT_CAP)
        return int(self.steps if self.steps is not None else DEFAULT_STEPS)
