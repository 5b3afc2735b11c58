"""Row 9: populations of GMJMCMC, and what limits them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from bench.measure import Line, Note, Series
from modejump.experiments import simulate_planets
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.problem.feature_problem import FeatureProblem, feature_problem
from modejump.samplers.chains.genetic_chain import GeneticChain
from modejump.samplers.warmup.search import PATIENCE, STEPS


def planets_problem(rows: int) -> FeatureProblem:
    """Simulated planets with the functions G2 and 25 features in a population."""
    planets = simulate_planets(rows)
    x = planets.drop(columns="SemiMajorAxis")
    return feature_problem(
        x.to_numpy(),
        planets["SemiMajorAxis"].to_numpy(),
        list(x.columns),
        transforms=[transforms[name] for name in transforms.set("G2")],
        space=Space(population=25),
        coef_prior="g",
    )


def population_seconds(problem: FeatureProblem, populations: int, steps: int, seed: int) -> tuple[float, float]:
    """CPU seconds of one population with so many steps, and the distinct models it evaluates."""
    chain = GeneticChain(problem, np.random.SeedSequence(seed), steps=steps, patience=PATIENCE)
    chain.compile()
    begun = time.thread_time()
    chain.run_to(populations)
    spent = time.thread_time() - begun
    return spent / populations, float(chain.arrays.archive.scalars["evaluated"]) / populations


def lines(row: int, populations: int, repetitions: int) -> Iterator[Line | Note]:
    """Populations and distinct models per second; the time of a population without its steps says what limits it."""
    problem = planets_problem(223)
    whole = [population_seconds(problem, populations, STEPS, seed) for seed in range(repetitions)]
    bare = [population_seconds(problem, populations, 1, seed) for seed in range(repetitions)]
    rate = Series.of([1.0 / seconds for seconds, _ in whole])
    yield Line(row, f"populations of 25 features, {STEPS} steps each", "populations/CPU s", rate, None, "", less=False)
    inside = [
        (models - few) / (seconds - without) for (seconds, models), (without, few) in zip(whole, bare, strict=True)
    ]
    what = "distinct models evaluated inside a population"
    yield Line(row, what, "models/CPU s", Series.of(inside), None, "", less=False)
    share = float(np.median([without / seconds for (seconds, _), (without, _) in zip(whole, bare, strict=True)]))
    yield Note(
        row,
        f"{100 * share:.0f} % of a population's time goes to new features (columns, Gram matrix, dependence check), "
        "the rest to its steps.",
    )
