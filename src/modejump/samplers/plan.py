"""What a sampler is to do: the algorithm, how many chains, how long, and from which seed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from modejump.core.errors import InputError
from modejump.problem.feature_problem import FeatureProblem
from modejump.samplers.budget import Budget
from modejump.samplers.settings import Sampler


@dataclass(frozen=True)
class Plan:
    """The work of one run. Together with the problem it decides the answer, unless the budget is in seconds.

    Attributes
    ----------
    algorithm : str
        "enumerate", "mjmcmc", "gmjmcmc" or "rgmjmcmc".
    chains : int
        Independent chains.
    budget : Budget, optional
        How long to run; the algorithm's own default without one.
    seed : int or SeedSequence
        Each chain gets its own streams spawned from it.
    settings : Sampler
        Weights of moves and kernels.
    top : int
        Enumeration: how many of the best models to keep.
    search_steps : int
        Searches among features: MJMCMC steps in one population.
    distinct : int
        RGMJMCMC: sampling by steps continues until each chain has met so many distinct models on average, up to ten
        times the steps.
    edits : int, optional
        RGMJMCMC: models that may be evaluated, about, to complete the library by edits of the best ones.
    unsettled : FeatureProblem, optional
        RGMJMCMC: the problem without weights of the rows, where a short search has found them: the best model of the
        whole search judges them again.
    """

    algorithm: str
    chains: int = 4
    budget: Budget | None = None
    seed: int | np.random.SeedSequence = 0
    settings: Sampler = field(default_factory=Sampler)
    top: int = 10_000
    search_steps: int = 300
    distinct: int = 0
    edits: int | None = None
    unsettled: FeatureProblem | None = None

    def __post_init__(self) -> None:
        if self.algorithm == "gmjmcmc" and self.budget is not None:
            if self.budget.mcse is not None:
                raise InputError("GMJMCMC has no Monte Carlo error; give the budget steps or seconds instead of mcse.")
            if self.budget.warmup is not None:
                raise InputError("GMJMCMC has no warm-up of its own; give the budget steps or seconds without warmup.")
