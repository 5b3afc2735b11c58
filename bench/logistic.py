"""Logistic regressions: fits a second, all models of twenty terms, and how soon sampling has met their mass."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.adapters.ours import PhaseClock, run
from bench.measure import Line, Missing, Note, Series, timed
from bench.problems import large
from modejump.priors.models import BernoulliPrior
from modejump.problem.problem import Problem
from modejump.samplers.budget import Budget
from modejump.samplers.result import Result
from modejump.samplers.settings import Sampler


@dataclass(frozen=True)
class Size:
    """How much: repetitions, seeds, models counted, terms enumerated, steps with and without surrogate, spam's rows."""

    repetitions: int = 3
    seeds: int = 10
    counted: int = 10_000
    terms: int = 20
    steps: int = 20_000
    rows: int = 1536


def fourteen() -> Problem:
    """223 rows, 14 columns, the g-prior."""
    rng = np.random.default_rng(14)
    x = rng.standard_normal((223, 14))
    chance = 1.0 / (1.0 + np.exp(-x[:, :4] @ np.array([0.8, 0.5, 0.3, 0.2])))
    return Problem.build(x, (rng.random(223) < chance).astype(float), family="binomial", coef_prior="g")


def from_file(name: str, inside: float, rows: int | None = None, terms: int | None = None) -> Problem:
    """A table of yes and no under BIC, from a table that is not part of the repository."""
    with large(name).open(encoding="utf-8", newline="") as file:
        header, *lines = csv.reader(file)
    at = header.index("y") if "y" in header else len(header) - 1
    values = np.array(lines, dtype=np.float64)
    y, x = values[:, at], np.delete(values, at, axis=1)
    if rows is not None:
        some = np.random.default_rng(0).choice(len(y), rows, replace=False)
        x, y = x[some], y[some]
    x = x[:, x.std(axis=0) > 0][:, :terms]
    return Problem.build(x, y, family="binomial", coef_prior="bic", model_prior=BernoulliPrior(inside))


def captured(problem: Problem, log_total: float, counted: int, seed: int, warmup: int | None) -> float:
    """Posterior mass of the first distinct models that a chain meets."""
    steps = counted
    while True:
        result = run("mjmcmc", problem, chains=1, budget=Budget(steps=steps, warmup=warmup), seed=seed)
        if result.n_models >= counted or steps > 100 * counted:
            break
        steps *= 2
    first = result.models.first_seen < counted
    return float(np.exp(result.models.log_posterior[first] - log_total).sum())


def draws_a_second(problem: Problem, steps: int, seed: int, surrogate: bool) -> tuple[float, float]:
    """Effective draws for each CPU second of sampling, and the share of local moves that were accepted."""
    clock, settings = PhaseClock(), Sampler(surrogate=surrogate)
    result = run("mjmcmc", problem, progress=clock, chains=2, budget=Budget(steps=steps), seed=seed, settings=settings)
    return _effective(result) / clock.sampling.cpu, _accepted(result)


def _effective(result: Result) -> float:
    """Median over the terms in doubt of the effective number of draws, from batch means."""
    means = np.asarray(result.batch_means)
    p = means.mean(axis=(0, 1))
    doubt = (p > 0.02) & (p < 0.98)
    spread = means.reshape(-1, means.shape[2]).var(axis=0, ddof=1)[doubt] * result.batch_length
    return float(np.median(result.steps * (p * (1.0 - p))[doubt] / spread))


def _accepted(result: Result) -> float:
    local = [counts for name, counts in result.acceptance.items() if not name.startswith("jump")]
    return sum(taken for _, taken in local) / sum(tried for tried, _ in local)


def lines(row: int, size: Size) -> Iterator[Line | Note]:
    """All of it."""
    small = fourteen()
    run("enumerate", small)
    runs = [timed(lambda: run("enumerate", small)) for _ in range(size.repetitions)]
    rate = Series.of([result.n_models / clock.cpu for result, clock in runs])
    yield Line(row, "n = 223, all 2^14 models, g-prior, one thread", "models/CPU s", rate)
    try:
        problem = from_file("logistic20", 0.057, terms=size.terms)
        spam = from_file("spam", 0.3, rows=size.rows)
    except Missing as reason:
        yield Note(row, str(reason))
        return
    result, clock = timed(lambda: run("enumerate", problem, 2))
    what = f"logistic20, all 2^{size.terms} models, two threads"
    yield Line(row, what, "wall s", Series.of([clock.wall]), less=True)
    yield Line(row, what, "CPU s", Series.of([clock.cpu]), less=True)
    counted = min(size.counted, result.n_models // 4)
    for name, warmup in (("", None), (", without warm-up", 0)):
        mass = [captured(problem, result.log_evidence, counted, seed, warmup) for seed in range(size.seeds)]
        best = Series.of([float(np.exp(result.models.log_posterior[:counted] - result.log_evidence).sum())])
        what = f"logistic20, mass of the first {counted} models{name}"
        yield Line(row, what, "mass", Series.of(mass), best, "best possible", centre="mean")
    for name, target in (("logistic20", problem), (f"spam, {size.rows} rows", spam)):
        found = {
            use: [draws_a_second(target, size.steps, seed, use) for seed in range(size.repetitions)]
            for use in (True, False)
        }
        speed = {use: Series.of([rate for rate, _ in values]) for use, values in found.items()}
        yield Line(row, f"{name}, with surrogate", "draws/CPU s", speed[True], speed[False], "without")
        shares = [Series.of([share for _, share in found[use]]).median for use in (True, False)]
        yield Note(row, f"{name}: {shares[0]:.3f} of the local moves accepted with surrogate, {shares[1]:.3f} without.")
