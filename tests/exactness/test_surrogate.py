"""Delayed acceptance of local moves by a surrogate: against a plain twin, exact, and broken on purpose."""

from __future__ import annotations

import dataclasses

import mutants
import numpy as np
import pytest
import twin
from running import enumerate_models, mjmcmc
from test_exactness import EVERYTHING, Experiment, moves_of, stationarity
from test_family_exactness import CAUGHT, LEVEL, selection

from modejump import InputError
from modejump.core.compilation import entry
from modejump.core.random import new_stream
from modejump.kernels.moves import KERNELS, Moves
from modejump.kernels.neighbour import set_model
from modejump.kernels.surrogate import CAUTION, surrogate_gain
from modejump.likelihoods.glm.expansion import expand
from modejump.likelihoods.glm.parts import LONG
from modejump.priors.models import BernoulliPrior
from modejump.problem.problem import Problem
from modejump.samplers.budget import Budget
from modejump.samplers.chains.mjmcmc_chain import chain_of
from modejump.samplers.settings import Sampler
from modejump.samplers.warmup.surrogate import worth_it

FAMILIES = ("binomial, logit", "poisson, log", "gamma, log")


def judged(problem: Problem, reference: list[int], stretch: float = 1.0) -> tuple[Problem, np.ndarray]:
    """The problem with the surrogate expanded at a model's fit, and what it has to explain, stretched on purpose."""
    data = problem.data
    expansion = expand(data.glm, np.array(reference, np.int64), data.coef_prior, data.n)
    assert expansion is not None
    changed = data._replace(gram=expansion.gram, corr=expansion.corr)
    return dataclasses.replace(problem, data=changed), np.array([stretch * expansion.total])


@entry
def gains(data, ch, member, flips, total, out):
    set_model(data, ch.state, ch.work, ch.store, member)
    for i in range(len(flips)):
        m = np.int64(0)
        for j in range(flips.shape[1]):
            if flips[i, j] >= 0:
                ch.flips[m] = flips[i, j]
                m += 1
        out[i] = surrogate_gain(data.glm, data, ch.state, ch.work, ch.flips, m, total)


def plain_surrogate(x: np.ndarray, y: np.ndarray, reference: list[int], members: list[int], inside: float) -> float:
    """Log posterior of a model in the quadratic expansion of a logistic likelihood, by weighted least squares."""
    design = np.column_stack([np.ones(len(y)), x])
    beta = np.zeros(1 + len(reference))
    chosen = design[:, [0, *[j + 1 for j in reference]]]
    for _ in range(30):
        mu = 1.0 / (1.0 + np.exp(-chosen @ beta))
        beta += np.linalg.solve((chosen * (mu * (1.0 - mu))[:, None]).T @ chosen, chosen.T @ (y - mu))
    mu = 1.0 / (1.0 + np.exp(-chosen @ beta))
    weight = mu * (1.0 - mu)
    working = np.sqrt(weight) * (chosen @ beta + (y - mu) / weight)
    weighted = design * np.sqrt(weight)[:, None]

    def explained(columns: list[int]) -> float:
        part = weighted[:, columns]
        return float(working @ part @ np.linalg.solve(part.T @ part, part.T @ working))

    k = len(members)
    gain = 0.5 * (explained([0, *[j + 1 for j in members]]) - explained([0]))
    prior = k * np.log(inside) + (x.shape[1] - k) * np.log(1.0 - inside)
    return prior + gain - 0.5 * k * np.log(len(y))


def test_gains_are_those_of_weighted_least_squares() -> None:
    rng = np.random.default_rng(17)
    x = rng.normal(size=(80, 6)) + 0.6 * rng.normal(size=(80, 1))
    y = (rng.random(80) < 1.0 / (1.0 + np.exp(-x[:, 0] + 0.7 * x[:, 2]))).astype(float)
    problem = Problem.build(x, y, family="binomial", coef_prior="bic", model_prior=BernoulliPrior(0.3))
    reference = [0, 2, 5]
    changed, total = judged(problem, reference)
    flips = np.array([[0, -1], [1, -1], [4, -1], [2, 3], [0, 1], [5, 4]])
    for members in ([], [0, 2], [0, 2, 5], [0, 1, 3, 4]):
        member = np.zeros(6, np.uint8)
        member[members] = 1
        out = np.empty(len(flips))
        chain = chain_of(changed, new_stream(np.random.SeedSequence(1)), 64)
        gains(changed.data, chain, member, flips, total[0], out)
        here = plain_surrogate(x, y, reference, members, 0.3)
        for i, row in enumerate(flips):
            other = sorted(set(members) ^ {int(t) for t in row if t >= 0})
            expected = CAUTION * (plain_surrogate(x, y, reference, other, 0.3) - here)
            np.testing.assert_allclose(out[i], expected, rtol=1e-6, atol=1e-8)


def moves_with(problem: Problem, total: np.ndarray) -> Moves:
    return moves_of(problem, EVERYTHING)._replace(surrogate=total)


# A surrogate that is good, and one that misleads: from the base's fit, and with three times the effects.
@pytest.mark.parametrize("stretch", [1.0, 3.0])
@pytest.mark.parametrize("name", FAMILIES)
def test_moves_with_a_surrogate_leave_the_posterior(name: str, stretch: float) -> None:
    problem, exact = selection(name)
    changed, total = judged(problem, [0, 3] if stretch == 1.0 else [], stretch)
    experiment = Experiment(changed, exact, seed=300 + FAMILIES.index(name) + int(stretch))
    starts, ends = experiment.ends(moves_with(problem, total), 3, 100_000)
    assert (starts != ends).mean() > 0.02, "the mixture moves"
    assert stationarity(exact, ends) > LEVEL


BROKEN = (
    mutants.Mutant(
        "no first stage",
        "kernels.chain",
        (("if not accept(ch.rng, gain + log_ratio):", "if not gain > -np.inf:"),),
        "flip",
    ),
    mutants.Mutant(
        "a second stage without the first's ratio", "kernels.chain", (("log_ratio = -gain", "pass"),), "flip"
    ),
    mutants.Mutant(
        "a surrogate of the neighbour alone",
        "kernels.surrogate",
        (("return CAUTION * (there - here)", "return CAUTION * there if there > here else CAUTION * (there - here)"),),
        "flip",
    ),
)


def ends_of_one_kernel(one_replicator, experiment: Experiment, moves: Moves, which: int) -> np.ndarray:
    chain = chain_of(experiment.problem, new_stream(np.random.SeedSequence(experiment.seed)), 4096)
    ends = np.empty(100_000, np.int64)
    one_replicator(
        experiment.problem.data, chain, moves, which, 3, experiment.starts(len(ends)), experiment.exact.members, ends
    )
    return experiment.rows(ends)


@pytest.mark.parametrize("mutant", BROKEN, ids=lambda mutant: mutant.what)
def test_broken_stages_are_caught(mutant: mutants.Mutant) -> None:
    problem, exact = selection("binomial, logit")
    changed, total = judged(problem, [], 3.0)
    experiment = Experiment(changed, exact, seed=400 + BROKEN.index(mutant))
    one_replicator = mutants.replicator(mutants.load(mutant)["kernels.chain"], jumps=False)
    ends = ends_of_one_kernel(one_replicator, experiment, moves_with(problem, total), KERNELS.index(mutant.kernel))
    assert stationarity(exact, ends) < CAUGHT


def larger(rows: int = 150, terms: int = 9) -> Problem:
    rng = np.random.default_rng(23)
    x = rng.normal(size=(rows, terms)) + 0.7 * rng.normal(size=(rows, 1))
    y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-0.6 * x[:, 0] + 0.5 * x[:, 2]))).astype(float)
    return Problem.build(x, y, family="binomial", coef_prior="hyper-g", model_prior=BernoulliPrior(0.4))


def test_runs_with_a_surrogate_agree_with_enumeration_within_their_error() -> None:
    problem = larger()
    exact = enumerate_models(problem).renormalised
    settings = Sampler(surrogate=True)
    one = mjmcmc(problem, chains=4, budget=Budget(steps=20_000), seed=5, settings=settings)
    means = one.batch_means.mean(axis=1)
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    # Student's t with three degrees of freedom exceeds 22.2 once in five thousand, for nine terms once in five hundred.
    assert (np.abs(means.mean(axis=0) - exact) < 22.2 * np.maximum(error, 1e-4)).all()
    two = mjmcmc(problem, chains=4, workers=2, budget=Budget(steps=20_000), seed=5, settings=settings)
    np.testing.assert_array_equal(one.batch_means, two.batch_means)
    off = mjmcmc(problem, chains=4, budget=Budget(steps=20_000), seed=5, settings=Sampler(surrogate=False))
    assert off.n_models != one.n_models or (off.batch_means != one.batch_means).any()


def test_a_surrogate_without_warm_up_is_expanded_at_the_base() -> None:
    result = mjmcmc(larger(), chains=1, budget=Budget(steps=2000, warmup=0), seed=5, settings=Sampler(surrogate=True))
    assert result.warmup_steps == 0 and result.steps >= 2000


def test_it_is_used_where_it_pays_or_where_it_is_asked_for() -> None:
    problem = larger()
    assert worth_it(problem, True, 0.0) and not worth_it(problem, False, 1.0)
    assert not worth_it(problem, None, 0.01) and worth_it(problem, None, 0.9)
    assert not worth_it(problem, None, None)
    gaussian = twin.one_column_each(101, 5, rows=30)
    assert not worth_it(gaussian, None, 1.0)
    rows = LONG // 2
    rng = np.random.default_rng(2)
    x = rng.normal(size=(rows, 2))
    long = Problem.build(x, (rng.random(rows) < 0.5).astype(float), family="binomial", coef_prior="bic")
    assert worth_it(long, None, None)


def test_gaussian_responses_have_none() -> None:
    with pytest.raises(InputError, match="surrogate=True is for binomial"):
        mjmcmc(twin.one_column_each(101, 5, rows=30), settings=Sampler(surrogate=True))
