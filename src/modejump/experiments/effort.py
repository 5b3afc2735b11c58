"""One run of an experiment: so many chains under a budget, merged into one posterior over laws."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from modejump.core.errors import InputError
from modejump.posterior import Posterior
from modejump.problem.feature_problem import FeatureProblem
from modejump.samplers.budget import Budget
from modejump.samplers.chains.genetic_chain import GeneticChain
from modejump.samplers.gmjmcmc import result_of_search
from modejump.samplers.plan import Plan
from modejump.samplers.sample import sample
from modejump.samplers.settings import Sampler
from modejump.samplers.warmup.search import Finished

ALGORITHMS = ("rgmjmcmc", "gmjmcmc")
# MJMCMC steps in one population of the papers' budget.
POPULATION_STEPS = 250
# The last population is held at most for so many times the iterations before it: a posterior that is concentrated on
# few models makes the wanted number of distinct ones a matter of millions of iterations.
MOST_STRETCH = 10


@dataclass(frozen=True)
class Effort:
    """How long one run takes."""

    seconds: float | None = None  # wall time of all chains of a run together; None for the papers' budget
    population: int = 15  # the papers' budget: features in a population
    populations: int = 40  # the papers' budget: populations of each chain, of 250 iterations each
    distinct: int = 0  # the papers' budget: distinct models that each chain evaluates

    @classmethod
    def parse(cls, text: str, paper: Effort) -> Effort:
        """An effort from ``paper``, which is that of the paper's experiment, or ``seconds=S``."""
        name, _, value = text.partition("=")
        if text == "paper":
            return paper
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
        return {"population": self.population} if self.seconds is None else {}

    @property
    def budget(self) -> Budget:
        """That of RGMJMCMC: of the papers' iterations one half searches, the other half samples."""
        if self.seconds is not None:
            return Budget(seconds=self.seconds)
        half = self.populations * POPULATION_STEPS // 2
        return Budget(warmup=half, steps=half)


def find_laws(
    problem: FeatureProblem,
    algorithm: str,
    threads: int,
    effort: Effort,
    seed: np.random.SeedSequence,
    settings: Sampler | None = None,
) -> Posterior:
    """The posterior of one run: as many chains as threads, merged."""
    if algorithm == "gmjmcmc" and effort.seconds is None:
        # One chain after the other: each is put away before the next one takes its memory.
        finished = [Finished.of(_paper_chain(problem, effort, s)) for s in seed.spawn(threads)]
        return Posterior(problem, result_of_search(problem, finished, 0.0))
    plan = Plan(algorithm, threads, effort.budget, seed)
    if algorithm == "rgmjmcmc":
        # The models that complete the library count among the distinct ones that the budget allows.
        edits = None if effort.seconds else threads * effort.distinct // 2
        plan = dataclasses.replace(
            plan, settings=settings or Sampler(), search_steps=POPULATION_STEPS, distinct=effort.distinct, edits=edits
        )
    return Posterior(problem, sample(problem, plan))


def prime(problem: FeatureProblem, algorithm: str, settings: Sampler | None = None) -> None:
    """Compile what a run needs, so that no clock counts it and no two threads do it at once."""
    if algorithm == "gmjmcmc":
        chain = _paper_chain(problem, Effort(populations=1), np.random.SeedSequence(0))
        result_of_search(problem, [Finished.of(chain)], 0.0)
    else:
        budget = Budget(warmup=POPULATION_STEPS, steps=100)
        sample(problem, Plan("rgmjmcmc", 1, budget, settings=settings or Sampler()))


def _paper_chain(problem: FeatureProblem, effort: Effort, seed: np.random.SeedSequence) -> GeneticChain:
    """A chain of populations, then the last population until so many distinct models were evaluated."""
    populations, distinct = effort.populations, effort.distinct
    patience = (1 + MOST_STRETCH) * populations
    chain = GeneticChain(problem, seed, steps=POPULATION_STEPS, patience=patience, distinct=max(distinct, 1))
    chain.run_to(populations)
    # Every feature is kept, and no new one is admitted: none is as shallow as this.
    chain.replace(genetic=chain.arrays.genetic._replace(keep_at=-1.0), space=chain.arrays.space._replace(max_depth=-1))
    for _ in range(MOST_STRETCH * populations):
        if chain.arrays.archive.scalars["distinct"] >= distinct:
            break
        chain.run_to(chain.populations + 1)
    return chain
