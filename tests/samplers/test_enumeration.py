"""Enumeration against brute force, and against reference values of an independent program."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import twin
from conftest import Regression
from running import enumerate_models

from modejump.likelihoods.gaussian.marginal import log_marginal
from modejump.priors.coefficients import AIC, BIC, COEF_PRIORS, JZS, CoefPrior, EBLocal, GPrior, HyperG
from modejump.priors.coefficients.g import bayes_factor_given_g_plain
from modejump.priors.models import BernoulliPrior, BetaBinomialPrior, ModelPrior, UniformPrior
from modejump.problem.problem import Problem
from modejump.samplers.result import Result

# Two ways to one log posterior agree to this; a probability then agrees to about as much of itself.
ACCURACY = 1e-9
# A near-perfect fit is known to fewer digits: the residual is a small difference of large numbers.
NEARLY_PERFECT = 1e-6


def constant_column(seed: int, **options: object) -> Problem:
    """A column without variation can be in no model."""
    x, y = twin.table(np.random.default_rng(seed), 30, 5)
    x[:, 2] = 7.0
    return Problem.build(x, y, **options)  # type: ignore[arg-type]


def nearly_perfect(seed: int, share: float, **options: object) -> Problem:
    """Two columns explain all but this share of the variation."""
    rng = np.random.default_rng(seed)
    x, _ = twin.table(rng, 24, 6)
    signal = x[:, 1] - 0.7 * x[:, 4]
    noise = math.sqrt(share) * np.std(signal) * rng.normal(size=24)
    return Problem.build(x, signal + noise, **options)  # type: ignore[arg-type]


def weighted(seed: int, **options: object) -> Problem:
    weights = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 3.0], size=40)
    return twin.one_column_each(seed, 6, weights=weights, **options)


STRUCTURES: dict[str, Callable[..., Problem]] = {
    "K = 1": lambda **o: twin.one_column_each(201, 1, **o),
    "K = 2": lambda **o: twin.one_column_each(202, 2, **o),
    "K = 8": lambda **o: twin.one_column_each(203, 8, **o),
    "factors": lambda **o: twin.with_factors(204, **o),
    "factors with few rows": lambda **o: twin.with_factors(204, rows=8, **o),
    "interactions": lambda **o: twin.with_interactions(205, **o),
    "weights": lambda **o: weighted(206, **o),
    "always in": lambda **o: twin.one_column_each(207, 7, always_in=("x1", "x4"), **o),
    "factors, one always in": lambda **o: twin.with_factors(208, always_in=("g",), **o),
    "no intercept": lambda **o: twin.one_column_each(209, 6, intercept=False, **o),
    "more terms than rows": lambda **o: twin.one_column_each(210, 8, rows=6, **o),
    "dependent columns": lambda **o: twin.with_duplicate(211, **o),
    "constant column": lambda **o: constant_column(212, **o),
    "share 1e-5": lambda **o: nearly_perfect(213, 1e-5, **o),
    "share 1e-8": lambda **o: nearly_perfect(214, 1e-8, **o),
    "share 1e-12": lambda **o: nearly_perfect(215, 1e-12, **o),
    "perfect": lambda **o: nearly_perfect(216, 0.0, **o),
}


def model_priors(terms: int) -> dict[str, ModelPrior]:
    unequal = tuple(np.linspace(0.05, 0.9, terms))
    return {
        "uniform": UniformPrior(),
        "bernoulli": BernoulliPrior(0.2),
        "unequal": BernoulliPrior(unequal),
        "beta-binomial": BetaBinomialPrior(0.7, 2.5),
        "uniform, truncated": UniformPrior(max_size=2),
        "unequal, truncated": BernoulliPrior(unequal, max_size=3),
        "empty": UniformPrior(max_size=0),
    }


def check(problem: Problem, accuracy: float = ACCURACY) -> Result:
    """Everything that enumeration returns, against all models one by one."""
    exact = twin.traverse(twin.Target(problem, marginal=log_marginal))
    result = enumerate_models(problem)
    assert result.exact and result.algorithm == "enumerate"
    assert result.n_models == len(exact.masks) == len(result.models)
    found = result.models.words[:, 0].astype(np.int64)
    order = np.argsort(found)
    np.testing.assert_array_equal(found[order], exact.masks)
    scale = np.maximum(1.0, np.abs(exact.log_posterior) * 1e-3)
    assert (np.abs(result.models.log_posterior[order] - exact.log_posterior) <= accuracy * scale).all()
    assert (np.diff(result.models.log_posterior) <= 0.0).all(), "best first"
    assert result.log_evidence == pytest.approx(exact.log_evidence, abs=accuracy * max(1.0, abs(exact.log_evidence)))
    np.testing.assert_allclose(result.renormalised, exact.inclusion, rtol=0, atol=2 * accuracy)
    np.testing.assert_allclose(result.size_distribution, exact.sizes, rtol=0, atol=2 * accuracy)
    return result


def accuracy_of(structure: str) -> float:
    return NEARLY_PERFECT if structure.startswith("share") else ACCURACY


@pytest.mark.parametrize("prior", COEF_PRIORS)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_every_coefficient_prior(structure: str, prior: str) -> None:
    check(STRUCTURES[structure](coef_prior=prior), accuracy_of(structure))


@pytest.mark.parametrize("prior", model_priors(1))
@pytest.mark.parametrize("structure", STRUCTURES)
def test_every_model_prior(structure: str, prior: str) -> None:
    terms = STRUCTURES[structure]().n_terms
    check(STRUCTURES[structure](model_prior=model_priors(terms)[prior]), accuracy_of(structure))


@pytest.mark.parametrize("max_size", [None, 3])
@pytest.mark.parametrize("heredity", ["strong", "weak"])
@pytest.mark.parametrize("prior", [UniformPrior, BernoulliPrior, BetaBinomialPrior])
def test_heredity_with_children_listed_first(prior: type[ModelPrior], heredity: str, max_size: int | None) -> None:
    problem = twin.with_interactions(220, model_prior=prior(heredity=heredity, max_size=max_size))
    result = check(problem)
    assert result.n_models < 2**6


def test_heredity_among_factors() -> None:
    """Parents and children of several columns each, so that the reordering moves whole blocks."""
    rng = np.random.default_rng(221)
    x, y = twin.table(rng, 40, 4)
    a, b = x[:, :2], x[:, 2:3]
    design = np.column_stack([a * b, x[:, 3], b, a])
    problem = Problem.build(
        design, y, terms={"a:b": [0, 1], "c": [2], "b": [3], "a": [4, 5]},
        model_prior=BernoulliPrior((0.3, 0.6, 0.2, 0.7), heredity="strong"),
    )  # fmt: skip
    assert check(problem).n_models == 2 * (4 + 1)


def test_no_candidates_at_all() -> None:
    x, y = twin.table(np.random.default_rng(222), 20, 1)
    result = enumerate_models(Problem.build(x, y, always_in=("x0",)))
    assert result.n_models == 1
    assert result.log_evidence == pytest.approx(0.0, abs=1e-12)
    assert result.renormalised.shape == (0,)
    np.testing.assert_array_equal(result.size_distribution, [1.0])


@pytest.mark.parametrize("top", [1, 2, 7, 100, 255, 256, 5000])
def test_the_best_models_are_kept(top: int) -> None:
    problem = twin.one_column_each(223, 8)
    everything = enumerate_models(problem)
    best = enumerate_models(problem, top=top)
    assert len(best.models) == min(top, 256)
    np.testing.assert_array_equal(best.models.words, everything.models.words[:top])
    np.testing.assert_array_equal(best.models.log_posterior, everything.models.log_posterior[:top])
    for name in ("n_models", "log_evidence"):
        assert getattr(best, name) == getattr(everything, name)
    np.testing.assert_array_equal(best.renormalised, everything.renormalised)


def test_ties_among_the_best_are_kept_in_full_number() -> None:
    """Copies of columns give models of exactly equal value; the number kept is honoured all the same."""
    x, y = twin.table(np.random.default_rng(224), 30, 4)
    problem = Problem.build(np.column_stack([x, x]), y)
    values = np.sort(twin.traverse(twin.Target(problem, marginal=log_marginal)).log_posterior)[::-1]
    for top in (3, 10, 41):
        kept = enumerate_models(problem, top=top).models
        np.testing.assert_allclose(kept.log_posterior, values[:top], rtol=0, atol=ACCURACY)


# --- several tasks --------------------------------------------------------------------------------------------


def brute_force_g(problem: Problem) -> twin.Exact:
    """All models under the g-prior by solving the normal equations of each, all of one size at a time."""
    data = problem.data
    masks, values = [], []
    for size in range(problem.n_terms + 1):
        count = math.comb(problem.n_terms, size)
        subsets = np.array(list(itertools.combinations(range(problem.n_terms), size)), int).reshape(count, size)
        gram = data.gram[subsets[:, :, None], subsets[:, None, :]]
        corr = data.corr[subsets]
        resid = 1.0 - (np.linalg.solve(gram, corr[:, :, None])[:, :, 0] * corr).sum(axis=1)
        likelihood = bayes_factor_given_g_plain(data.coef_prior.par[0], data.n - data.base, size, resid)
        values.append(likelihood + data.prior.log_size[size] + data.prior.log_weight[subsets].sum(axis=1))
        masks.append((1 << subsets).sum(axis=1))
    order = np.argsort(np.concatenate(masks))
    return twin.Exact(problem.n_terms, np.concatenate(masks)[order], np.concatenate(values)[order])


def test_several_tasks_equal_brute_force() -> None:
    q = tuple(np.linspace(0.1, 0.7, 17))
    problem = twin.one_column_each(230, 17, rows=60, signal=0.3, model_prior=BernoulliPrior(q))
    exact = brute_force_g(problem)
    result = enumerate_models(problem, top=1000)
    assert result.n_models == 2**17
    np.testing.assert_allclose(result.renormalised, exact.inclusion, rtol=0, atol=ACCURACY)
    np.testing.assert_allclose(result.size_distribution, exact.sizes, rtol=0, atol=ACCURACY)
    assert result.log_evidence == pytest.approx(exact.log_evidence, abs=ACCURACY)
    best = np.argsort(-exact.log_posterior)[:1000]
    np.testing.assert_array_equal(result.models.words[:, 0], exact.masks[best])
    np.testing.assert_allclose(result.models.log_posterior, exact.log_posterior[best], rtol=0, atol=ACCURACY)


def same(a: Result, b: Result) -> None:
    """Bit for bit, the clock apart."""
    assert (a.n_models, a.log_evidence) == (b.n_models, b.log_evidence)
    for name in ("renormalised", "size_distribution"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("words", "log_posterior", "visits", "first_seen"):
        np.testing.assert_array_equal(getattr(a.models, name), getattr(b.models, name))


@pytest.mark.parametrize("prior", ["g", "hyper-g"])
def test_any_number_of_workers_gives_the_same_bits(prior: str) -> None:
    """Mixtures share a table that is filled while the threads run."""

    def enumerated(workers: int) -> Result:
        return enumerate_models(twin.one_column_each(231, 19, rows=60, coef_prior=prior), top=500, workers=workers)

    alone = enumerated(1)
    same(alone, enumerated(2))
    same(alone, enumerated(3))


def test_progress_counts_the_tasks() -> None:
    seen: list[tuple[float, float, str]] = []
    enumerate_models(twin.one_column_each(232, 18, rows=60), workers=2, progress=lambda *call: seen.append(call))
    assert [done / total for done, total, _ in seen] == [0.25, 0.5, 0.75, 1.0]


def test_memory_does_not_grow_with_the_number_of_tasks() -> None:
    def peak(terms: int) -> int:
        problem = twin.one_column_each(234, terms, rows=60)
        tracemalloc.start()
        enumerate_models(problem, workers=2)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(18)  # compiles
    few, many = peak(18), peak(22)
    assert many < 4 * few, "four tasks against sixty-four"


def test_tasks_of_problems_with_heredity_and_dependent_columns() -> None:
    """The first terms, which split the tasks, include a pair that no model may hold and a child with its parents."""
    rng = np.random.default_rng(233)
    x, y = twin.table(rng, 60, 14)
    columns = {"a:b": x[:, 0] * x[:, 1], "a": x[:, 0], "b": x[:, 1], "copy": x[:, 0]}
    columns |= {f"x{j}": x[:, j] for j in range(2, 14)}
    columns |= {"x2:x3": x[:, 2] * x[:, 3], "x2^2": x[:, 2] ** 2}
    assert len(columns) == 18
    problem = Problem.build(
        np.column_stack(list(columns.values())), y, terms={name: [j] for j, name in enumerate(columns)},
        model_prior=UniformPrior(max_size=3, heredity="strong"),
    )  # fmt: skip
    target = twin.Target(problem, marginal=log_marginal)
    subsets = itertools.chain.from_iterable(itertools.combinations(range(18), size) for size in range(4))
    values = {sum(1 << t for t in subset): target.value(sum(1 << t for t in subset)) for subset in subsets}
    alive = np.array(sorted(mask for mask, value in values.items() if value > -math.inf))
    exact = twin.Exact(18, alive, np.array([values[int(mask)] for mask in alive]))
    result = enumerate_models(problem, workers=2)
    assert result.n_models == len(alive)
    np.testing.assert_allclose(result.renormalised, exact.inclusion, rtol=0, atol=ACCURACY)
    np.testing.assert_array_equal(np.sort(result.models.words[:, 0].astype(np.int64)), alive)


# --- large differences ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [200, 5000])
@pytest.mark.parametrize("reverse", [False, True])
def test_sums_survive_log_posteriors_thousands_apart(rows: int, reverse: bool) -> None:
    """The reference of the running sums moves upwards many times, or once, as the best terms come last or first."""
    rng = np.random.default_rng(240)
    x = rng.normal(size=(rows, 9))
    effect = np.geomspace(1e-3, 10.0, 9)[:: -1 if reverse else 1]
    problem = Problem.build(x, x @ effect + 0.02 * rng.normal(size=rows))
    result = check(problem, accuracy=1e-7)
    spread = np.ptp(result.models.log_posterior)
    assert spread > 500
    assert spread > 10_000 or rows < 1000
    assert np.isfinite(result.renormalised).all()


def test_sums_survive_log_posteriors_far_below_zero() -> None:
    """A prior that wants every term against a g that punishes each: even the best model is far below exp(-745)."""
    rng = np.random.default_rng(241)
    x = rng.normal(size=(40, 21))
    q = 1.0 - 2.0**-53
    problem = Problem.build(x, rng.normal(size=40), coef_prior=GPrior(1e300), model_prior=BernoulliPrior(q))
    result = enumerate_models(problem, top=100)
    assert result.models.log_posterior[0] < -745
    # The empty model leads by hundreds of orders of magnitude.
    assert result.log_evidence == pytest.approx(21 * math.log1p(-q), rel=1e-12)
    assert result.size_distribution[0] == pytest.approx(1.0, abs=1e-12)


# --- reference values -----------------------------------------------------------------------------------------

REFERENCE: dict[str, CoefPrior] = {
    "g-prior": GPrior(47),
    "hyper-g": HyperG(3),
    "JZS": JZS(),
    "EB-local": EBLocal(),
    "BIC": BIC(),
    "AIC": AIC(),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_reference_inclusion_and_models(
    name: str, crime: Regression, crime_pips: pd.DataFrame, crime_models: pd.DataFrame
) -> None:
    result = enumerate_models(Problem.build(crime.X, crime.y, coef_prior=REFERENCE[name]), top=2**15)
    pips = crime_pips[(crime_pips["prior"] == name) & (crime_pips["variable"] != "Intercept")]
    assert pips["variable"].tolist() == [f"x{j + 1}" for j in range(15)]
    np.testing.assert_allclose(result.renormalised, pips["pip"].to_numpy(float), rtol=0, atol=1e-7)
    values = dict(zip(result.models.words[:, 0].tolist(), result.models.log_posterior.tolist(), strict=True))
    rows = crime_models[crime_models["prior"] == name]
    masks = [sum(1 << (int(j) - 1) for j in text.split()) for text in rows["model"]]
    ours = np.array([values[mask] for mask in masks]) + 15 * math.log(2)
    theirs = rows["logmarg"].to_numpy(float)
    if name in ("BIC", "AIC"):
        # The criterion's own constant is in both.
        ours, theirs = ours - ours[0], theirs - theirs[0]
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-7)
    probability = np.exp([values[mask] for mask in masks] - np.float64(result.log_evidence))
    np.testing.assert_allclose(probability, rows["postprob"].to_numpy(float), rtol=1e-6, atol=1e-10)
