"""Every kernel leaves the posterior as it is: exact-start stationarity, and reversibility, of the real kernels.

Gandy and Scott's unit test: draw a model from the enumerated posterior, make a few steps, and compare the law of the
end with the posterior by a chi-square test over many replications. Kernels that are broken on purpose must fail it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mutants
import numpy as np
import pytest
import twin
from scipy.stats import chi2

from modejump.core.compilation import entry
from modejump.core.random import alias_table, new_stream
from modejump.kernels import chain as chain_kernels
from modejump.kernels.chain import count_step
from modejump.kernels.moves import KERNELS, Moves
from modejump.kernels.neighbour import set_model
from modejump.likelihoods.gaussian.marginal import log_marginal
from modejump.priors.coefficients import COEF_PRIORS
from modejump.priors.models import BernoulliPrior, BetaBinomialPrior, UniformPrior
from modejump.problem.problem import Problem
from modejump.samplers.chains.mjmcmc_chain import chain_of
from modejump.samplers.settings import Sampler
from modejump.samplers.warmup.adaptation import first_moves

LEVEL = 1e-4
CAUGHT = 1e-8
REPLICATIONS = 200_000
STEPS = 3
LEAST_EXPECTED = 5.0


@entry
def replicate(data, ch, moves, steps, starts, models, ends):
    """From each start so many steps of the mixture, then the end."""
    for r in range(len(starts)):
        set_model(data, ch.state, ch.work, ch.store, models[starts[r]])
        for _ in range(steps):
            count_step(data, ch, moves)
        ends[r] = np.int64(ch.state.words[0])


@dataclass
class Experiment:
    """A problem with its exact posterior; starts are drawn from it."""

    problem: Problem
    exact: twin.Exact
    seed: int

    @classmethod
    def of(cls, problem: Problem, seed: int) -> Experiment:
        return cls(problem, twin.traverse(twin.Target(problem, marginal=log_marginal)), seed)

    def starts(self, replications: int) -> np.ndarray:
        p = self.exact.probability
        return np.random.default_rng(self.seed).choice(len(p), size=replications, p=p / p.sum())

    def ends(self, moves: Moves, steps: int, replications: int) -> tuple[np.ndarray, np.ndarray]:
        """Start and end of each replication, as rows of the exact posterior."""
        starts = self.starts(replications)
        chain = chain_of(self.problem, new_stream(np.random.SeedSequence(self.seed)), 4096)
        ends = np.empty(replications, np.int64)
        replicate(self.problem.data, chain, moves, steps, starts, self.exact.members, ends)
        return starts, self.rows(ends)

    def rows(self, ends: np.ndarray) -> np.ndarray:
        rows = np.minimum(np.searchsorted(self.exact.masks, ends), len(self.exact.masks) - 1)
        assert (self.exact.masks[rows] == ends).all(), "a chain left the models of positive probability"
        return rows


def stationarity(exact: twin.Exact, ends: np.ndarray) -> float:
    """p-value of the chi-square test of the ends against the posterior; rare models share one cell."""
    expected = exact.probability / exact.probability.sum() * len(ends)
    observed = np.bincount(ends, minlength=len(expected)).astype(float)
    rare = expected < LEAST_EXPECTED
    if rare.any():
        # The rare ones together, and with the least frequent of the others where that is still too few.
        order = np.argsort(expected)
        pooled = order[: max(int(rare.sum()), int(np.searchsorted(np.cumsum(expected[order]), LEAST_EXPECTED)) + 1)]
        expected = np.append(np.delete(expected, pooled), expected[pooled].sum())
        observed = np.append(np.delete(observed, pooled), observed[pooled].sum())
    if len(expected) < 2:
        return 1.0
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


def symmetry(starts: np.ndarray, ends: np.ndarray, count: int) -> tuple[float, int]:
    """p-value of the test that (start, end) counts are symmetric, and how many pairs were frequent enough."""
    table = np.bincount(starts * count + ends, minlength=count * count).reshape(count, count).astype(float)
    upper = np.triu_indices(count, 1)
    there, back = table[upper], table.T[upper]
    frequent = there + back >= 2 * LEAST_EXPECTED
    there = np.append(there[frequent], there[~frequent].sum())
    back = np.append(back[frequent], back[~frequent].sum())
    moved = there + back > 0
    statistic = ((there - back)[moved] ** 2 / (there + back)[moved]).sum()
    return float(chi2.sf(statistic, int(moved.sum()))), int(frequent.sum())


def moves_of(problem: Problem, weights: dict[str, float], **settings: object) -> Moves:
    """A mixture with uneven flip weights, as warm-up leaves them."""
    options = {"rho": 0.2, "search": 5, "jump_max": 3, **settings}
    moves = first_moves(Sampler(kernels=weights, **options), problem)  # type: ignore[arg-type]
    threshold, alias = alias_table(np.linspace(0.2, 1.0, problem.n_terms) ** 2)
    return moves._replace(threshold=threshold, alias=alias)


ALONE: dict[str, tuple[str, bool]] = {
    **{name: (name, True) for name in KERNELS},
    **{f"{name}, not delayed": (name, False) for name in KERNELS if name.startswith("jump")},
}
EVERYTHING = dict.fromkeys(KERNELS, 1.0)

KERNEL_PROBLEMS: dict[str, Callable[[], Problem]] = {
    "correlated": lambda: twin.one_column_each(101, 5, rows=30, signal=0.4),
    "factors": lambda: twin.with_factors(102, coef_prior="aic"),
    "heredity": lambda: twin.with_interactions(103, coef_prior="aic", model_prior=UniformPrior(heredity="strong")),
    "dependent": lambda: twin.with_duplicate(104),
}


def strong(**options: object) -> Problem:
    return twin.one_column_each(105, 5, rows=30, signal=0.4, **options)


MIXTURE_PROBLEMS: dict[str, Callable[[], Problem]] = {
    **{f"coefficients {name}": (lambda name=name: strong(coef_prior=name)) for name in COEF_PRIORS},
    "uniform": lambda: strong(model_prior=UniformPrior()),
    "bernoulli, unequal": lambda: strong(model_prior=BernoulliPrior((0.1, 0.25, 0.5, 0.6, 0.9))),
    "beta-binomial": lambda: strong(model_prior=BetaBinomialPrior(0.7, 2.0)),
    "truncated": lambda: strong(model_prior=UniformPrior(max_size=2)),
    "strong heredity": lambda: twin.with_interactions(
        106, coef_prior="aic", model_prior=UniformPrior(heredity="strong")
    ),
    "weak heredity": lambda: twin.with_interactions(
        106, coef_prior="aic", model_prior=BernoulliPrior(0.3, heredity="weak")
    ),
    "factors, truncated": lambda: twin.with_factors(107, coef_prior="aic", model_prior=UniformPrior(max_size=3)),
    "dependent columns": lambda: twin.with_duplicate(108),
    "weights": lambda: strong(weights=np.random.default_rng(109).choice([0.0, 0.5, 1.0, 3.0], size=30)),
    "always in": lambda: strong(always_in=("x1",)),
    "no intercept": lambda: strong(intercept=False),
    "few rows": lambda: twin.one_column_each(110, 6, rows=6, signal=0.4),
    "K = 1": lambda: twin.one_column_each(111, 1, signal=0.1),
    "K = 2": lambda: twin.one_column_each(112, 2, signal=0.2),
}  # fmt: skip


@pytest.mark.parametrize("kernel", ALONE)
@pytest.mark.parametrize("case", KERNEL_PROBLEMS)
def test_kernel_leaves_the_posterior(case: str, kernel: str) -> None:
    experiment = Experiment.of(KERNEL_PROBLEMS[case](), seed=len(case) + 100 * list(ALONE).index(kernel))
    name, delayed = ALONE[kernel]
    moves = moves_of(experiment.problem, {name: 1.0}, delayed=delayed)
    starts, ends = experiment.ends(moves, STEPS, REPLICATIONS)
    assert (starts != ends).mean() > 0.002, "the kernel moves"
    assert stationarity(experiment.exact, ends) > LEVEL


def one_sided_partners(moves: Moves) -> Moves:
    """Each term knows the two that follow it: some are partners of terms that are not theirs."""
    k = len(moves.threshold)
    partner = (np.arange(k)[:, None] + np.array([1, 2])) % k
    partner[1] = [0, 2]  # the one mutual pair
    prob = np.tile([0.3, 0.7], (k, 1))
    matrix = np.zeros((k, k))
    np.put_along_axis(matrix, partner, prob, axis=1)
    with np.errstate(divide="ignore"):
        ratio = np.log(matrix[partner, np.arange(k)[:, None]]) - np.log(prob)
    return moves._replace(partner=partner, partner_cdf=np.cumsum(prob, axis=1), partner_ratio=ratio)


def test_partners_that_do_not_know_each_other() -> None:
    experiment = Experiment.of(KERNEL_PROBLEMS["correlated"](), seed=150)
    moves = one_sided_partners(moves_of(experiment.problem, {"partner": 1.0}))
    assert np.isneginf(moves.partner_ratio).any() and np.isfinite(moves.partner_ratio).any()
    starts, ends = experiment.ends(moves, STEPS, REPLICATIONS)
    assert (starts != ends).mean() > 0.002
    assert stationarity(experiment.exact, ends) > LEVEL


@pytest.mark.parametrize("kernel", ALONE)
def test_kernel_is_reversible(kernel: str) -> None:
    experiment = Experiment.of(KERNEL_PROBLEMS["correlated"](), seed=200 + list(ALONE).index(kernel))
    name, delayed = ALONE[kernel]
    moves = moves_of(experiment.problem, {name: 1.0}, delayed=delayed)
    starts, ends = experiment.ends(moves, 1, REPLICATIONS)
    p_value, pairs = symmetry(starts, ends, len(experiment.exact.masks))
    assert pairs >= 10
    assert p_value > LEVEL


@pytest.mark.parametrize("case", MIXTURE_PROBLEMS)
def test_mixture_leaves_the_posterior(case: str) -> None:
    experiment = Experiment.of(MIXTURE_PROBLEMS[case](), seed=300 + list(MIXTURE_PROBLEMS).index(case))
    moves = moves_of(experiment.problem, EVERYTHING)
    starts, ends = experiment.ends(moves, STEPS, REPLICATIONS)
    assert (starts != ends).mean() > 0.002, "the mixture moves"
    assert stationarity(experiment.exact, ends) > LEVEL


@pytest.mark.full
@pytest.mark.parametrize("delayed", [True, False])
@pytest.mark.parametrize("rho", [0.05, 0.5, 0.8])
@pytest.mark.parametrize("kernel", [name for name in KERNELS if name.startswith("jump")])
@pytest.mark.parametrize("case", [*KERNEL_PROBLEMS, "few rows", "weak heredity"])
def test_jumps_leave_the_posterior_at_any_setting(case: str, kernel: str, rho: float, delayed: bool) -> None:
    make = {**MIXTURE_PROBLEMS, **KERNEL_PROBLEMS}[case]
    experiment = Experiment.of(make(), seed=400 + KERNELS.index(kernel) + int(100 * rho) + 1000 * delayed)
    moves = moves_of(
        experiment.problem, {kernel: 1.0}, rho=rho, delayed=delayed, search=12, jump_max=2, temperature=5.0
    )
    _, ends = experiment.ends(moves, 2, 2 * REPLICATIONS)
    assert stationarity(experiment.exact, ends) > LEVEL


@pytest.mark.full
@pytest.mark.parametrize("case", MIXTURE_PROBLEMS)
def test_default_mixture_leaves_the_posterior(case: str) -> None:
    experiment = Experiment.of(MIXTURE_PROBLEMS[case](), seed=500)
    _, ends = experiment.ends(first_moves(Sampler(), experiment.problem), 20, 1_000_000)
    assert stationarity(experiment.exact, ends) > LEVEL


# --- mutants --------------------------------------------------------------------------------------------------


def uneven_partners(moves: Moves) -> Moves:
    """Partner probabilities with large ratios, so that leaving them out shows."""
    k = len(moves.partner)
    strength = (1.0 + np.arange(k))[moves.partner] ** 2
    prob = strength / strength.sum(axis=1, keepdims=True)
    matrix = np.zeros((k, k))
    np.put_along_axis(matrix, moves.partner, prob, axis=1)
    ratio = np.log(matrix.T[np.arange(k)[:, None], moves.partner]) - np.log(prob)
    return moves._replace(partner_cdf=np.cumsum(prob, axis=1), partner_ratio=ratio)


def ends_of(one_replicator: Callable[..., None], experiment: Experiment, mutant: mutants.Mutant) -> np.ndarray:
    """Ends of all replications with the kernel that a mutant breaks, in this version of it."""
    problem = experiment.problem
    moves = uneven_partners(moves_of(problem, EVERYTHING, delayed=mutant.delayed, rho=0.3))
    chain = chain_of(problem, new_stream(np.random.SeedSequence(experiment.seed)), 4096)
    ends = np.empty(REPLICATIONS, np.int64)
    one_replicator(
        problem.data, chain, moves, KERNELS.index(mutant.kernel), STEPS,
        experiment.starts(REPLICATIONS), experiment.exact.members, ends,
    )  # fmt: skip
    return experiment.rows(ends)


def mutant_experiment() -> Experiment:
    return Experiment.of(twin.one_column_each(120, 5, rows=30, signal=0.4, coef_prior="aic"), seed=600)


def is_jump(mutant: mutants.Mutant) -> bool:
    return mutant.kernel.startswith("jump")


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.what)
def test_a_broken_kernel_is_caught(mutant: mutants.Mutant) -> None:
    experiment = mutant_experiment()
    broken = mutants.replicator(mutants.load(mutant)["kernels.chain"], is_jump(mutant))
    assert stationarity(experiment.exact, ends_of(broken, experiment, mutant)) < CAUGHT


@pytest.mark.parametrize("jumps", [False, True])
def test_the_same_kernels_unbroken_pass(jumps: bool) -> None:
    experiment = mutant_experiment()
    real = mutants.replicator(chain_kernels, jumps)
    for mutant in mutants.MUTANTS:
        if is_jump(mutant) == jumps:
            assert stationarity(experiment.exact, ends_of(real, experiment, mutant)) > LEVEL
