"""One run of an experiment: so many chains under a budget, merged into one posterior over laws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from modejump.core.errors import InputError
from modejump.features.nonlinear.expression import Feature
from modejump.posterior import Posterior
from modejump.problem.feature_problem import FeatureProblem
from modejump.samplers.budget import Budget
from modejump.samplers.chains.genetic_chain import GeneticChain
from modejump.samplers.gmjmcmc import gmjmcmc, merged_discovery
from modejump.samplers.rgmjmcmc import rgmjmcmc
from modejump.samplers.warmup.library import EVALUATIONS
from modejump.samplers.warmup.search import Finished

ALGORITHMS = ("rgmjmcmc", "gmjmcmc")
# The papers' budget of one chain.
POPULATION = 15
POPULATIONS, POPULATION_STEPS = 40, 250
WARMUP, SAMPLING = 5_000, 5_000
# The last population is held at most for so many times the iterations before it: a posterior that is concentrated on
# few models makes the wanted number of distinct ones a matter of millions of iterations.
MOST_STRETCH = 10


@dataclass(frozen=True)
class Effort:
    """How long one run takes.

    Attributes
    ----------
    seconds : float or None
        Wall time of all chains of a run together; None for the papers' budget.
    distinct : int
        For the papers' budget: distinct models that each chain evaluates.
    """

    seconds: float | None
    distinct: int = 0

    @classmethod
    def parse(cls, text: str, distinct: int) -> Effort:
        """An effort from ``paper`` or ``seconds=S``."""
        name, _, value = text.partition("=")
        if text == "paper":
            return cls(None, distinct)
        try:
            seconds = float(value) if name == "seconds" else math.nan
        except ValueError:
            seconds = math.nan
        if not 0.0 < seconds < math.inf:
            raise InputError(f"--budget {text!r} is not known; write paper, or seconds=S with a positive number S.")
        return cls(seconds)

    @property
    def limits(self) -> dict[str, int]:
        """Settings of the space that belong to the budget."""
        return {"population": POPULATION} if self.seconds is None else {}


@dataclass(frozen=True, eq=False)
class Found:
    """The posterior of one run.

    Attributes
    ----------
    laws : tuple of Feature
        Laws found.
    probability : ndarray of shape (laws,)
        The valid estimate of their posterior probabilities.
    renormalised : ndarray of shape (laws,)
        The estimate renormalised over the models evaluated.
    alphas : mapping of Feature to ndarray
        Coefficients inside projections.
    """

    laws: tuple[Feature, ...]
    probability: np.ndarray
    renormalised: np.ndarray
    alphas: Mapping[Feature, np.ndarray]


def find_laws(
    problem: FeatureProblem, algorithm: str, threads: int, effort: Effort, seed: np.random.SeedSequence
) -> Found:
    """Run so many chains and merge them.

    Parameters
    ----------
    problem : FeatureProblem
        What to search.
    algorithm : {"rgmjmcmc", "gmjmcmc"}
        The sampler.
    threads : int
        Chains.
    effort : Effort
        How long.
    seed : SeedSequence
        Seed of the run.
    """
    if algorithm == "gmjmcmc" and effort.seconds is None:
        # One chain after the other: each is put away before the next one takes its memory.
        finished = [Finished.of(_paper_chain(problem, effort.distinct, s)) for s in seed.spawn(threads)]
        outcome = merged_discovery(problem, finished, 0.0)
    elif algorithm == "gmjmcmc":
        outcome = gmjmcmc(problem, chains=threads, budget=Budget(seconds=effort.seconds), workers=1, seed=seed)
    else:
        if effort.seconds is None:
            budget = Budget(warmup=WARMUP, steps=SAMPLING)
        else:
            budget = Budget(seconds=effort.seconds)
        # The models that complete the library count among the distinct ones that the budget allows.
        edits = EVALUATIONS if effort.seconds is not None else threads * effort.distinct // 2
        outcome = rgmjmcmc(
            problem,
            chains=threads,
            budget=budget,
            workers=1,
            seed=seed,
            search_steps=POPULATION_STEPS,
            distinct=effort.distinct,
            edits=edits,
        )
    posterior = Posterior(outcome.laws.problem, outcome.result)
    return Found(outcome.laws.features, posterior.probability, posterior.renormalised, outcome.laws.alphas)


def prime(problem: FeatureProblem, algorithm: str) -> None:
    """Compile what a run needs, so that no clock counts it and no two threads do it at once."""
    if algorithm == "gmjmcmc":
        merged_discovery(
            problem, [Finished.of(_paper_chain(problem, 0, np.random.SeedSequence(0), populations=1))], 0.0
        )
    else:
        rgmjmcmc(problem, chains=1, budget=Budget(warmup=POPULATION_STEPS, steps=100), workers=1, seed=0)


def _paper_chain(
    problem: FeatureProblem, distinct: int, seed: np.random.SeedSequence, populations: int = POPULATIONS
) -> GeneticChain:
    """A chain of populations, then the last population until so many distinct models were evaluated."""
    patience = (1 + MOST_STRETCH) * populations
    chain = GeneticChain(problem, seed, steps=POPULATION_STEPS, patience=patience, distinct=max(distinct, 1))
    chain.run_to(populations)
    # Every feature is kept, and no new one is admitted: none is as shallow as this.
    chain.genetic = chain.genetic._replace(keep_at=-1.0)
    chain.declared = chain.declared._replace(max_depth=-1)
    for _ in range(MOST_STRETCH * populations):
        if chain.archive.scalars["distinct"] >= distinct:
            break
        chain.run(1)
    return chain
