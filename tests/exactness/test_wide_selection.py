"""Selection among very many columns, on a few of them: every move is exact, and so are the estimates of a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feature_experiments import MIXTURE, Experiment
from language_checks import check_draws, check_edits
from mortal import Death, Mortal
from running import enumerate_models, gmjmcmc, rgmjmcmc
from test_moves_between import CAUGHT, LEVEL, REPLICATIONS, SETTINGS, check, code_of

from modejump.core.errors import InputError
from modejump.core.threads import ThreadPool
from modejump.features.covariates.language import Screened
from modejump.kernels.populations.moves import POPULATION_MOVES
from modejump.posterior import Posterior
from modejump.posterior.storage import load_run, save_run
from modejump.priors.models import BernoulliPrior, BetaBinomialPrior, UniformPrior
from modejump.problem.problem import Problem
from modejump.problem.wide_problem import WideProblem, wide_problem
from modejump.samplers.budget import Budget
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.warmup.wide_scores import log_odds, rao_blackwell, worth

SCREENED = Screened(np.array([3, 5, 6]), np.array([0.2, 0.5, 0.3]), np.array([[0, 3], [0, 4], [1, 5], [3, 6], [5, 6]]))
PRIORS = {
    "beta-binomial": BetaBinomialPrior(1.0, 2.0, max_size=3),
    "bernoulli": BernoulliPrior(0.2, max_size=3),
    "uniform": UniformPrior(max_size=2),
}
ONE = ThreadPool()


def data(seed: int = 51, columns: int = 8, rows: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Correlated neighbours, and a weak signal, so that many models have a share."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    x[:, 1:] += 0.7 * x[:, :-1]
    return x, 0.45 * x[:, 0] - 0.35 * x[:, 4] + 0.2 * x[:, 5] + rng.normal(size=rows)


def problem_of(prior: str = "beta-binomial", **more: Any) -> WideProblem:
    x, y = data()
    return wide_problem(x, y, model_prior=PRIORS[prior], **more)


@cache
def experiment() -> Experiment:
    return Experiment(problem_of(), ("x0", "x1", "x4"), SCREENED)


def test_draws_have_their_probabilities() -> None:
    for probability in check_draws(experiment().chain(1, SETTINGS), 200_000, LEVEL):
        assert probability.sum() == pytest.approx(1.0)


def test_edits_have_their_probabilities() -> None:
    law = check_edits(experiment().chain(1, SETTINGS), (0, 5, 6), 20_000, LEVEL)
    neighbours = {tuple(sorted(pair)) for pair in SCREENED.pairs.tolist()}
    assert {(i, j) for i in range(8) for j in range(i, 8) if law[i, j] > 0} == neighbours


@pytest.mark.parametrize("move", [*POPULATION_MOVES, "mixture"])
def test_move_leaves_the_posterior(move: str) -> None:
    kind = MIXTURE if move == "mixture" else code_of(move)
    ends = experiment().ends(kind, SETTINGS, turns=3, replications=REPLICATIONS, seed=100 + kind)
    assert ends.moved > 0.02
    assert check(experiment(), ends) > LEVEL


@pytest.mark.parametrize("prior", ["bernoulli", "uniform"])
def test_mixture_leaves_the_posterior_of_each_model_prior(prior: str) -> None:
    other = Experiment(problem_of(prior), ("x0", "x1", "x4"), SCREENED)
    ends = other.ends(MIXTURE, SETTINGS, turns=2, replications=REPLICATIONS // 2, seed=7)
    assert ends.moved > 0.1 and check(other, ends) > LEVEL


def _wrong_weight(chain: ReversibleChain) -> None:
    """Columns are drawn as before, but their probability is taken for that of an even draw."""
    q = chain.arrays.space.n_columns
    chain.replace(space=chain.arrays.space._replace(probability=np.full(q, 1.0 / q)))


def _no_size(chain: ReversibleChain) -> None:
    """The prior's weight of the size is left out."""
    prior = chain.arrays.data.prior
    log_size = np.where(np.isfinite(prior.log_size), 0.0, prior.log_size)
    chain.replace(data=chain.arrays.data._replace(prior=prior._replace(log_size=log_size)))


@pytest.mark.parametrize("mutant", [_wrong_weight, _no_size])
def test_a_broken_sampler_is_caught(mutant: Callable[[ReversibleChain], None]) -> None:
    ends = experiment().ends(code_of("none"), SETTINGS, turns=3, replications=REPLICATIONS, seed=9, prepare=mutant)
    assert experiment().p_value(ends) < CAUGHT


def exact_inclusion(problem: WideProblem, **more: Any) -> np.ndarray:
    """Inclusion probabilities by enumeration of the same columns, in one list."""
    x, y = problem.x.T.astype(float), problem.y
    whole = Problem.build(x, y, model_prior=problem.model_prior.prior, **more)  # type: ignore[attr-defined]
    return enumerate_models(whole, chains=1).renormalised


@pytest.mark.parametrize("coef_prior", ["g", "jzs", "bic"])
def test_scores_are_the_odds_of_one_more_column(coef_prior: str) -> None:
    problem = problem_of(coef_prior=coef_prior)
    exact = Experiment(problem, ()).exact
    value = {frozenset(m): v for m, v in zip(exact.models, exact.log_posterior, strict=True)}
    models = [m for k in range(3) for m in combinations(range(8), k)]
    odds = log_odds(problem, models, ONE)
    for d, model in enumerate(models):
        for j in range(8):
            expected = -np.inf if j in model else value[frozenset((*model, j))] - value[frozenset(model)]
            assert odds[d, j] == pytest.approx(expected, abs=1e-8)


def test_conditional_means_over_all_models_are_the_inclusion_probabilities() -> None:
    problem, exact = problem_of(), experiment().exact
    drawn = list(zip(exact.models, exact.probability, strict=True))
    assert rao_blackwell(problem, drawn, ONE) == pytest.approx(exact_inclusion(problem), abs=1e-9)


def test_worth_finds_members_additions_and_replacements() -> None:
    rng = np.random.default_rng(52)
    x = rng.normal(size=(200, 40))
    x[:, 20] = x[:, 4] + 0.05 * rng.normal(size=200)
    problem = wide_problem(x, x[:, 0] + x[:, 4] + rng.normal(size=200))
    found = worth(problem, [(4,), (0, 20)], ONE)
    assert set(np.argsort(-found)[:3]) == {0, 4, 20} and (found >= 0).all() and (found <= 1).all()


@pytest.mark.parametrize("prior", PRIORS)
def test_a_run_agrees_with_enumeration(prior: str, tmp_path: Path) -> None:
    problem = problem_of(prior)
    truth = exact_inclusion(problem)
    result = rgmjmcmc(problem, chains=4, budget=Budget(warmup=8_000, steps=60_000), seed=3)
    posterior = Posterior(problem, result)
    assert posterior.diagnostics is not None and result.rao_blackwell is not None
    assert posterior.problem.n_terms == 8
    order = [problem.names.index(name) for name in posterior.problem.names]
    error = np.abs(posterior.probability - truth[order])
    assert (error < 4.5 * posterior.diagnostics.mcse + 1e-4).all()
    assert posterior.result.renormalised == pytest.approx(truth[order], abs=1e-6)
    # The estimates of all columns from a few models at the ends of batches.
    assert np.abs(result.rao_blackwell - truth).max() < 0.05
    table = posterior.inclusion
    assert table["rao_blackwell"].to_numpy() == pytest.approx(
        result.rao_blackwell[[problem.names.index(name) for name in table.index]]
    )
    save_run(posterior, tmp_path / "run")
    loaded, _ = load_run(tmp_path / "run")
    assert loaded.laws is not None and loaded.laws.language.to_dict() == problem.language.to_dict()
    assert (loaded.result.rao_blackwell == result.rao_blackwell).all()
    assert loaded.log_marginal_likelihood(["x0"]) == pytest.approx(posterior.log_marginal_likelihood(["x0"]))


def test_conditional_means_are_closer_than_frequencies_of_the_same_draws() -> None:
    """Estimates of rare columns from so many models, many times: the error of either, against the truth."""
    problem, exact = problem_of(), experiment().exact
    truth, rng = exact_inclusion(problem), np.random.default_rng(5)
    plain, conditional = [], []
    for _ in range(60):
        rows = rng.choice(len(exact.models), size=50, p=exact.probability / exact.probability.sum())
        drawn = [(exact.models[row], 1 / 50) for row in rows]
        share = np.zeros(8)
        for model, weight in drawn:
            share[list(model)] += weight
        plain.append((share - truth) ** 2)
        conditional.append((rao_blackwell(problem, drawn, ONE) - truth) ** 2)
    assert (np.mean(conditional, axis=0) < 0.6 * np.mean(plain, axis=0)).all()


@pytest.mark.parametrize("kind", [np.float32, np.int8])
def test_numbers_of_any_kind_give_one_answer(kind: type) -> None:
    rng = np.random.default_rng(8)
    x = rng.integers(0, 3, (60, 300)).astype(kind)
    y = x[:, 3] - x[:, 77] + rng.normal(size=60)
    run = partial(rgmjmcmc, chains=2, budget=Budget(warmup=4_000, steps=4_000), seed=1)
    one, other = run(wide_problem(x, y)), run(wide_problem(np.asfortranarray(x, dtype=float), y))
    assert (one.rao_blackwell == other.rao_blackwell).all() and (one.renormalised == other.renormalised).all()


@cache
def wider() -> WideProblem:
    x, y = data(60, 600, 80)
    return wide_problem(
        x, y + x[:, 300], always_in={"z": x[:, 10] + x[:, 400]}, model_prior=BetaBinomialPrior(max_size=6)
    )


def test_a_run_that_dies_often_ends_as_one_that_lives(tmp_path: Path) -> None:
    work = partial(rgmjmcmc, wider(), chains=2, budget=Budget(warmup=8_000, steps=200_000), seed=4)
    whole = work()
    deaths: list[str] = []
    while True:
        keeper = Mortal(tmp_path, 1)
        try:
            resumed = work(checkpoint=keeper)
            break
        except Death:
            deaths.append(str(keeper.last["phase"]))
    assert set(deaths) == {"learning", "sampling"}
    assert (resumed.renormalised == whole.renormalised).all() and (resumed.batch_means == whole.batch_means).all()
    assert (resumed.rao_blackwell == whole.rao_blackwell).all()


def test_one_seed_gives_one_answer_for_any_number_of_workers() -> None:
    one, two = (
        rgmjmcmc(wider(), chains=2, budget=Budget(warmup=8_000, steps=10_000), seed=4, workers=workers)
        for workers in (1, 2)
    )
    assert (one.batch_means == two.batch_means).all() and (one.rao_blackwell == two.rao_blackwell).all()


def test_classes_agree_with_enumeration() -> None:
    x, y = data(rows=80)
    labels = (y > np.median(y)).astype(float)
    problem = wide_problem(x, labels, family="binomial", model_prior=PRIORS["beta-binomial"])
    truth = exact_inclusion(problem, family="binomial")
    posterior = Posterior(problem, rgmjmcmc(problem, chains=4, budget=Budget(warmup=8_000, steps=40_000), seed=3))
    assert posterior.diagnostics is not None and posterior.result.rao_blackwell is None
    order = [problem.names.index(name) for name in posterior.problem.names]
    assert (np.abs(posterior.probability - truth[order]) < 4.5 * posterior.diagnostics.mcse + 1e-3).all()


def test_what_cannot_be_done_is_said() -> None:
    x, y = data()
    with pytest.raises(InputError, match="algorithm='rgmjmcmc'"):
        gmjmcmc(problem_of(), seed=1)
    with pytest.raises(InputError, match="heredity"):
        wide_problem(x, y, model_prior=BetaBinomialPrior(heredity="strong"))
    with pytest.raises(InputError, match="differs between the terms"):
        wide_problem(x, y, model_prior=BernoulliPrior((0.1,) * 8))
    with pytest.raises(InputError, match=r"column 'x2' is NaN in row 5"):
        wide_problem(np.where((np.arange(40) == 5)[:, None] & (np.arange(8) == 2), np.nan, x), y)
    with pytest.raises(InputError, match="y has 39"):
        wide_problem(x, y[1:])
    with pytest.warns(UserWarning, match=r"1 of 8 columns are constant.*'x3'"):
        assert wide_problem(np.where(np.arange(8) == 3, 1.0, x), y).lengths[3] == 0.0
