"""Likelihoods of the user's own: the engine calls them with the right columns, and reports what goes wrong in them."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import pickle
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit
from running import enumerate_models, mjmcmc
from scipy.integrate import trapezoid
from scipy.stats import multivariate_normal, norm

from modejump.core.errors import InputError
from modejump.features.nonlinear.space import Space
from modejump.kernels.traverse_glm import traverse_glm
from modejump.likelihoods.columns import fit_columns
from modejump.likelihoods.custom.batch import BatchLikelihood
from modejump.likelihoods.custom.own import LikelihoodError, OwnLikelihood
from modejump.likelihoods.glm.newton import new_glm_work
from modejump.priors.models import BernoulliPrior, UniformPrior
from modejump.problem.feature_problem import feature_problem
from modejump.problem.problem import Problem
from modejump.samplers.budget import Budget
from modejump.samplers.diagnostics import diagnose

LEVEL = 1e-4
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plot_mixed_model.py"


@njit(error_model="numpy")
def logistic_bic(y, X, weights, params):
    """BIC of logistic regression by Newton's method from zero."""
    n, m = X.shape
    beta, score, info = np.zeros(m), np.empty(n), np.empty(n)
    for _ in range(50):
        eta = X @ beta
        value = 0.0
        for i in range(n):
            p = 1.0 / (1.0 + math.exp(-eta[i]))
            score[i], info[i] = weights[i] * (y[i] - p), weights[i] * p * (1.0 - p)
            value += weights[i] * (y[i] * eta[i] - max(eta[i], 0.0) - math.log1p(math.exp(-abs(eta[i]))))
        gradient = X.T @ score
        step = np.linalg.solve(X.T @ (X * info.reshape(n, 1)), gradient)
        beta += step
        decrement = step @ gradient
        if decrement < 1e-10:
            return value + 0.5 * decrement - 0.5 * m * params[0]
    return -np.inf


@njit
def digest(y, X, weights, params):
    """A number that depends on every entry of every argument, and on the order of the columns."""
    value = params[0]
    for j in range(X.shape[1]):
        for i in range(X.shape[0]):
            value += math.sin(X[i, j] * (1 + j) + y[i]) * weights[i] * params[1]
    return value


def least_squares(y, X, weights, params):
    """BIC of a linear model."""
    rest = y - X @ np.linalg.solve(X.T @ X, X.T @ y)
    return -0.5 * len(y) * np.log(rest @ rest) - 0.5 * X.shape[1] * np.log(len(y))


@pytest.fixture(scope="module")
def random_intercept() -> Any:
    """The likelihood of the example, as it is shipped."""
    text = EXAMPLE.read_text(encoding="utf-8")
    body = text.split("# [begin likelihood]\n")[1].split("# [end likelihood]")[0]
    space: dict[str, Any] = {"math": math, "np": np, "njit": njit}
    exec(body, space)
    return space["random_intercept"]


def table(seed: int = 1, n: int = 80, p: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p)) * np.arange(1, p + 1) + 3.0
    return x, 0.4 * x[:, 0] - 0.15 * x[:, 2] + rng.standard_normal(n)


def classes(seed: int = 2, n: int = 200, p: int = 6) -> tuple[np.ndarray, np.ndarray]:
    x, _ = table(seed, n, p)
    rng = np.random.default_rng(seed + 100)
    return x, (rng.random(n) < 1.0 / (1.0 + np.exp(2.0 - 0.5 * x[:, 0] - 0.15 * x[:, 2]))).astype(float)


def value_of(problem: Problem, cols: list[int]) -> float:
    work = new_glm_work(problem.data.glm, problem.n_columns)
    data = problem.data
    return fit_columns(data.glm, work, np.array(cols, np.int64), data.coef_prior, data.n)


def plain_scores(x: np.ndarray, y: np.ndarray) -> Callable[[list[tuple[str, ...]]], list[float]]:
    """The BIC of linear models by the names x0, x1, ..."""
    ones = np.ones((len(y), 1))

    def score(models: list[tuple[str, ...]]) -> list[float]:
        tables = [np.hstack([ones, x[:, [int(name[1:]) for name in model]]]) for model in models]
        return [least_squares(y, t, np.ones(len(y)), np.zeros(0)) for t in tables]

    return score


def check_within_error(result: Any, exact: np.ndarray) -> None:
    """Frequencies within Monte Carlo error of exact probabilities, all terms together at the level."""
    error = diagnose(result.batch_means, result.batch_length).mcse
    error = np.maximum(error, np.sqrt(exact * (1.0 - exact) / result.steps))
    bound = norm.isf(LEVEL / (2 * len(exact)))
    assert (np.abs(result.batch_means.mean(axis=(0, 1)) - exact) <= bound * error + 1e-12).all()


# What the function is given


def test_native_values_equal_those_of_the_plain_function():
    x, y = table(n=40, p=6)
    weights = np.random.default_rng(5).integers(1, 4, 40).astype(float)
    terms = {"a": [0], "age": [4], "factor": [2, 5], "b": [1], "c": [3]}
    likelihood = OwnLikelihood(digest, params=[1.5, 0.25])
    problem = Problem.build(x, y, terms=terms, always_in=["age"], weights=weights, family=likelihood)
    place = [0, 2, 5, 1, 3]  # the candidates' columns of x, in the order of the terms
    base = np.column_stack([np.ones(40), x[:, 4]])
    null = digest.py_func(y, base, weights, np.array([1.5, 0.25]))
    assert problem.data.glm.null == pytest.approx(null, abs=1e-12)
    for cols in ([], [0], [1, 2], [0, 3, 4], [0, 1, 2, 3, 4]):
        columns = np.hstack([base, x[:, [place[c] for c in cols]]])
        expected = digest.py_func(y, columns, weights, np.array([1.5, 0.25])) - null
        assert value_of(problem, cols) == pytest.approx(expected, abs=1e-10), "base first, raw columns, all arguments"


def test_without_an_intercept_the_base_is_empty():
    x, y = table(n=30, p=3)
    problem = Problem.build(x, y, intercept=False, family=OwnLikelihood(digest, params=[1.5, 0.25]))
    expected = digest.py_func(y, x[:, [1]], np.ones(30), np.array([1.5, 0.25])) - 1.5
    assert value_of(problem, [1]) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_logistic_bic_equals_the_built_in_family(weighted: bool):
    x, y = classes()
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(float) if weighted else None
    n = len(y) if weights is None else weights.sum()
    shared = {"terms": {"a": [0], "b": [1], "c": [2, 3], "d": [4], "e": [5]}, "always_in": ["b"], "weights": weights}
    own = enumerate_models(Problem.build(x, y, **shared, family=OwnLikelihood(logistic_bic, [math.log(n)])))
    built_in = enumerate_models(Problem.build(x, y, **shared, family="binomial", coef_prior="bic"))
    np.testing.assert_allclose(own.renormalised, built_in.renormalised, atol=1e-8, rtol=0)
    np.testing.assert_array_equal(own.models.words, built_in.models.words)
    np.testing.assert_allclose(own.models.log_posterior, built_in.models.log_posterior, atol=1e-8, rtol=0)


def test_another_function_needs_no_other_engine():
    x, y = classes()
    enumerate_models(Problem.build(x, y, family=OwnLikelihood(logistic_bic, [1.0])))
    compiled = len(traverse_glm.compiled.signatures)
    for likelihood in (
        OwnLikelihood(digest, [0.0, 0.01]),
        BatchLikelihood(lambda models: [-float(len(model)) for model in models]),
    ):
        enumerate_models(Problem.build(x, y, family=likelihood))
    assert len(traverse_glm.compiled.signatures) == compiled


def test_a_function_is_compiled_once_for_all_problems():
    x, y = classes()
    likelihood = OwnLikelihood(digest, [0.0, 0.01])
    first = Problem.build(x, y, family=likelihood)
    assert Problem.build(x[:50], y[:50], family=likelihood).data.glm.address == first.data.glm.address


# The worked example: a linear model with a random intercept


def dense_marginal(y: np.ndarray, columns: np.ndarray, group: np.ndarray, rho: float) -> float:
    """log p(y|M, rho) from the definitions, by numerical integration over the intercept and log sigma.

    The coefficients are integrated out as part of the covariance, so that y is multivariate normal given the two.
    """
    n = len(y)
    tau = rho / (1.0 - rho)
    v = np.eye(n) + tau * (group[:, None] == group[None, :])
    covariance = v
    if columns.shape[1]:
        inverse = np.linalg.inv(v)
        ones = np.ones((n, 1))
        centred = columns - ones @ np.linalg.solve(ones.T @ inverse @ ones, ones.T @ inverse @ columns)
        covariance = v + n * centred @ np.linalg.inv(centred.T @ inverse @ centred) @ centred.T
    log_sigma = np.linspace(-3.0, 6.0, 241)
    inner = np.empty(len(log_sigma))
    # Wide enough for every sigma, in units of it, around the generalised mean.
    solved = np.linalg.solve(covariance, np.column_stack([np.ones(n), y]))
    centre, spread = solved[:, 1].sum() / solved[:, 0].sum(), 1.0 / math.sqrt(solved[:, 0].sum())
    t = np.linspace(-12.0, 12.0, 121)
    standard = multivariate_normal(np.zeros(n), covariance)
    for i, s in enumerate(np.exp(log_sigma)):
        intercept = centre + s * spread * t
        log_density = standard.logpdf((y[None, :] - intercept[:, None]) / s) - n * math.log(s)
        inner[i] = np.log(trapezoid(np.exp(log_density - log_density.max()), intercept)) + log_density.max()
    # The prior d sigma^2 / sigma^2 is 2 d log sigma.
    return float(np.log(2.0 * trapezoid(np.exp(inner - inner.max()), log_sigma)) + inner.max())


@pytest.mark.parametrize("k", [0, 1, 2])
def test_the_mixed_model_against_dense_integration(random_intercept: Any, k: int):
    rng = np.random.default_rng(8)
    group = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])
    x = rng.standard_normal((10, 2))
    y = 1.0 + x[:, 0] + rng.standard_normal(4)[group] + 0.5 * rng.standard_normal(10)
    columns = x[:, :k]
    logs = np.array([dense_marginal(y, columns, group, (r + 0.5) / 20) for r in range(20)])
    expected = logs.max() + math.log(np.exp(logs - logs.max()).mean())
    whole = np.asfortranarray(np.hstack([np.ones((10, 1)), columns]))
    value = random_intercept(y, whole, np.ones(10), group.astype(float))
    assert value == pytest.approx(expected, abs=1e-6)
    problem = Problem.build(x, y, family=OwnLikelihood(random_intercept, group))
    null = random_intercept(y, np.ones((10, 1), order="F"), np.ones(10), group.astype(float))
    assert value_of(problem, list(range(k))) == pytest.approx(value - null, abs=1e-10)


def test_the_sampler_agrees_with_enumeration(random_intercept: Any):
    rng = np.random.default_rng(4)
    group = np.repeat(np.arange(12), 5)
    x = rng.standard_normal((60, 6))
    y = 0.35 * x[:, 0] + 0.25 * x[:, 1] + rng.standard_normal(12)[group] + rng.standard_normal(60)
    problem = Problem.build(x, y, family=OwnLikelihood(random_intercept, group))
    exact = enumerate_models(problem, workers=2)
    sampled = mjmcmc(problem, chains=4, workers=2, budget=Budget(steps=20_000), seed=1)
    check_within_error(sampled, exact.renormalised)
    top = {tuple(w): v for w, v in zip(exact.models.words.tolist(), exact.models.log_posterior)}
    for words, value in zip(sampled.models.words.tolist(), sampled.models.log_posterior):
        assert value == pytest.approx(top[tuple(words)], abs=1e-9)


# Values that are no probability, and exceptions


@pytest.mark.parametrize("nothing", [math.nan, math.inf, -math.inf])
def test_values_that_are_no_number_count_as_zero(nothing: float):
    x, y = table(p=4)

    def without_two(y, X, weights, params):
        return params[0] if X.shape[1] == 3 else -1.0 * X.shape[1]

    result = enumerate_models(Problem.build(x, y, family=OwnLikelihood(without_two, [nothing])))
    scored = BatchLikelihood(lambda models: [nothing if len(m) == 2 else -1.0 * len(m) for m in models])
    other = enumerate_models(Problem.build(x, y, family=scored))
    for outcome in (result, other):
        assert outcome.size_distribution[2] == 0.0
        assert outcome.n_models == 10
        assert np.isfinite(outcome.models.log_posterior).all()


def test_a_base_without_likelihood_is_refused():
    x, y = table()
    for family in (OwnLikelihood(lambda y, X, w, p: np.nan), BatchLikelihood(lambda models: [math.nan] * len(models))):
        with pytest.raises(InputError, match="intercept and the terms that are always in is zero or no number"):
            Problem.build(x, y, family=family)


@njit
def refuses_width(y, X, weights, params):
    if X.shape[1] > 3:
        raise ValueError("too wide")
    return -1.0 * X.shape[1]


def failing_score(models: list[tuple[str, ...]]) -> list[float]:
    if any(len(model) > 2 for model in models):
        raise ZeroDivisionError("too wide")
    return [-1.0 * len(model) for model in models]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("family", [OwnLikelihood(refuses_width), BatchLikelihood(failing_score)], ids=["own", "batch"])
def test_exceptions_come_out_of_the_samplers(family: Any, workers: int):
    x, y = table(p=6)
    problem = Problem.build(x, y, family=family)
    calls = (
        lambda: enumerate_models(problem, workers=workers),
        lambda: mjmcmc(problem, chains=2, workers=workers, budget=Budget(steps=2000)),
    )
    for call in calls:
        with pytest.raises(
            LikelihoodError, match=r"of (the model|one of the \d+ models).* failed with .*too wide"
        ) as caught:
            call()
        assert type(caught.value.__cause__) in (ValueError, ZeroDivisionError)
        assert isinstance(caught.value, InputError)


def test_exceptions_of_linear_algebra_come_out():
    x, y = table()

    def singular(y, X, weights, params):
        return np.linalg.inv(np.zeros((X.shape[1], X.shape[1]))).sum()

    with pytest.raises(LikelihoodError, match=r"model \(\) failed with LinAlgError"):
        Problem.build(x, y, family=OwnLikelihood(singular))


def test_an_interruption_stays_one():
    x, y = table(p=6)
    asked = itertools.count()

    def score(models: list[tuple[str, ...]]) -> list[float]:
        # The first call is for the base model, the next ones are an enumeration's batches.
        if next(asked) == 1:
            raise KeyboardInterrupt
        return [0.0] * len(models)

    with pytest.raises(KeyboardInterrupt):
        enumerate_models(Problem.build(x, y, family=BatchLikelihood(score)))


def test_the_wrong_number_of_scores():
    x, y = table()
    with pytest.raises(LikelihoodError, match="returned 2 scores for 1 models"):
        Problem.build(x, y, family=BatchLikelihood(lambda models: [0.0, 0.0]))
    with pytest.raises(LikelihoodError, match="failed with TypeError"):
        Problem.build(x, y, family=BatchLikelihood(lambda models: [None]))


# Scores of models by name


def test_batch_scores_agree_with_a_native_likelihood():
    x, y = table(p=6)
    scored = Problem.build(x, y, family=BatchLikelihood(plain_scores(x, y)))
    native = enumerate_models(Problem.build(x, y, family=OwnLikelihood(least_squares)))
    exact = enumerate_models(scored)
    np.testing.assert_allclose(exact.renormalised, native.renormalised, atol=1e-10, rtol=0)
    sampled = mjmcmc(scored, chains=4, workers=2, budget=Budget(steps=5000), seed=2)
    check_within_error(sampled, native.renormalised)


def test_a_model_is_scored_once():
    x, y = table(p=6)
    count: Counter[tuple[str, ...]] = Counter()
    lock = threading.Lock()
    score = plain_scores(x, y)

    def counted(models: list[tuple[str, ...]]) -> list[float]:
        with lock:
            count.update(models)
        return score(models)

    problem = Problem.build(x, y, family=BatchLikelihood(counted))
    mjmcmc(problem, chains=4, workers=4, budget=Budget(steps=2000))
    enumerate_models(problem, workers=2)
    assert set(count.values()) == {1}
    assert len(count) == problem.family.scored == 64


@pytest.mark.parametrize("workers", [1, 3])
def test_scoring_all_models_in_batches(workers: int):
    x, y = table(p=6)
    sizes: list[int] = []
    score = plain_scores(x, y)

    def counted(models: list[tuple[str, ...]]) -> list[float]:
        sizes.append(len(models))
        return score(models)

    problem = Problem.build(x, y, family=BatchLikelihood(counted))
    assert problem.family.score_all(batch=10, workers=workers) == 63, "the base model was scored with the problem"
    assert max(sizes) == 10 and sum(sizes) == 64
    result = enumerate_models(problem)
    assert sum(sizes) == 64, "the enumeration finds all scores there"
    fresh = enumerate_models(Problem.build(x, y, family=BatchLikelihood(score)))
    np.testing.assert_array_equal(result.renormalised, fresh.renormalised)


def test_scoring_all_models_leaves_out_what_nobody_asks_for():
    x, y = table(p=5)
    x[:, 4] = x[:, 0] + x[:, 1]
    asked: set[tuple[str, ...]] = set()

    def score(models: list[tuple[str, ...]]) -> list[float]:
        asked.update(models)
        return [0.0] * len(models)

    prior = UniformPrior(max_size=3, heredity=None)
    problem = Problem.build(x, y, model_prior=prior, family=BatchLikelihood(score))
    problem.family.score_all(batch=7)
    every = {c for size in range(4) for c in itertools.combinations(problem.names, size)}
    assert asked == every - {("x0", "x1", "x4")}
    before = len(asked)
    enumerate_models(problem)
    assert len(asked) == before


def test_names_of_terms_with_heredity_factors_and_terms_always_in():
    x, y = table(p=6)
    # The interaction comes before its parents, so that the enumeration works in another order.
    terms = {"a:b": [0], "a": [1], "age": [2], "b": [3], "f": [4, 5]}
    asked: set[tuple[str, ...]] = set()

    def score(models: list[tuple[str, ...]]) -> list[float]:
        asked.update(models)
        return [2.0 * ("a:b" in model) + 1.0 * ("f" in model) - 0.5 * ("a" in model) for model in models]

    prior = UniformPrior(heredity="strong")
    problem = Problem.build(x, y, terms=terms, always_in=["age"], model_prior=prior, family=BatchLikelihood(score))
    result = enumerate_models(problem)
    candidates = ("a:b", "a", "b", "f")
    models = [c for size in range(5) for c in itertools.combinations(candidates, size)]
    admitted = [m for m in models if "a:b" not in m or {"a", "b"} <= set(m)]
    assert asked == {("age", *m) for m in admitted}
    weight = np.exp([2.0 * ("a:b" in m) + 1.0 * ("f" in m) - 0.5 * ("a" in m) for m in admitted])
    exact = [weight[[name in m for m in admitted]].sum() / weight.sum() for name in candidates]
    np.testing.assert_allclose(result.renormalised, exact, atol=1e-12)


def test_the_model_prior_counts():
    x, y = table(p=5)
    flat = BatchLikelihood(lambda models: [0.0] * len(models))
    result = enumerate_models(Problem.build(x, y, model_prior=BernoulliPrior(0.2), family=flat))
    np.testing.assert_allclose(result.renormalised, 0.2, atol=1e-12)


# What is refused


@pytest.mark.parametrize("family", [OwnLikelihood(digest, [0.0, 0.1]), BatchLikelihood(failing_score)])
def test_options_that_a_likelihood_of_your_own_cannot_honour(family: Any):
    x, y = table()
    with pytest.raises(InputError, match="leave coef_prior at its default"):
        Problem.build(x, y, family=family, coef_prior="bic")
    with pytest.raises(InputError, match="takes no offset"):
        Problem.build(x, y, family=family, offset=np.zeros(len(y)))
    with pytest.raises(InputError, match="leave link out"):
        Problem.build(x, y, family=family, link="logit")
    with pytest.raises(InputError, match="weights"):
        Problem.build(x, y, family=family, weights=np.arange(len(y), dtype=float))
    names = [f"x{j}" for j in range(5)]
    with pytest.raises(InputError, match="weights"):
        weights = np.arange(len(y), dtype=float)
        feature_problem(x, y, names, transforms=[], space=Space(), weights=weights, family=family)
    with pytest.raises(InputError, match="leave coef_prior at its default"):
        feature_problem(x, y, names, transforms=[], space=Space(), coef_prior="bic", family=family)
    with pytest.raises(InputError, match="nothing can be predicted"):
        family.mean(np.zeros(1))


def test_functions_and_parameters_that_cannot_be_used():
    x, y = table()
    with pytest.raises(InputError, match="is a function f"):
        OwnLikelihood("logistic")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="must be numbers"):
        OwnLikelihood(digest, params=["a"])
    with pytest.raises(InputError, match="one dimension, not 2"):
        OwnLikelihood(digest, params=np.zeros((2, 2)))
    with pytest.raises(InputError, match="Numba cannot compile the likelihood"):
        Problem.build(x, y, family=OwnLikelihood(lambda y, X: 0.0))
    with pytest.raises(InputError, match="function from a list"):
        BatchLikelihood("score")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="function from a list of models"):
        BatchLikelihood(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"call problem.family.score_all\(\)"):
        BatchLikelihood(failing_score).score_all()
    problem = Problem.build(x, y, family=BatchLikelihood(failing_score))
    with pytest.raises(InputError, match="workers is 0"):
        problem.family.score_all(workers=0)


def importing(y, X, weights, params):
    from scipy import stats

    return stats.norm.logpdf(y).sum()


CANNOT_BE_COMPILED: dict[str, tuple[Any, str]] = {
    "too few arguments": (lambda y, X, weights: 0.0, "function takes 3 arguments"),
    "nothing": (lambda y, X, weights, params: None, "returns a value of Numba's type none"),
    "text": (lambda y, X, weights, params: "text", "returns a value of Numba's type"),
    "two values": (lambda y, X, weights, params: (1.0, 2.0), "returns a value of Numba's type"),
    "an array": (lambda y, X, weights, params: y, "returns a value of Numba's type array"),
    "a complex number": (lambda y, X, weights, params: 1j, "returns a value of Numba's type complex128"),
    "another package": (importing, "unsupported opcode"),
    "an unknown name": (lambda y, X, weights, params: unknown, "name 'unknown' is not defined"),  # noqa: F821
    "a partial function": (functools.partial(least_squares), "is not a function"),
    "other types": (
        njit("float64(float64[::1], float64[:, ::1], float64[::1], float64[::1])")(digest.py_func),
        "2d, F",
    ),
}


@pytest.mark.parametrize("name", CANNOT_BE_COMPILED)
def test_what_cannot_be_compiled_is_told_in_one_sentence(name: str):
    x, y = table()
    function, words = CANNOT_BE_COMPILED[name]
    with pytest.raises(InputError) as caught:
        Problem.build(x, y, family=OwnLikelihood(function, [1.0, 2.0]))
    text = str(caught.value)
    assert words in text and text.endswith((".", ";")) and "\n" not in text and len(text) < 500
    assert "own.py" not in text and "nopython mode pipeline" not in text


@pytest.mark.parametrize("layout", ["float64[:, :]", "float64[::1, :]"])
def test_functions_compiled_for_given_types_are_taken(layout: str):
    x, y = table()
    given = njit(f"float64(float64[:], {layout}, float64[:], float64[:])")(digest.py_func)
    ours, theirs = (Problem.build(x, y, family=OwnLikelihood(f, [1.5, 0.25])) for f in (given, digest))
    assert value_of(ours, [0, 2]) == value_of(theirs, [0, 2])


def test_indices_are_checked_where_the_function_asks_for_it():
    x, y = table()
    beyond = njit(boundscheck=True)(lambda y, X, weights, params: params[7])
    with pytest.raises(LikelihoodError, match="IndexError"):
        Problem.build(x, y, family=OwnLikelihood(beyond, [1.0]))


def test_weights_of_the_example_are_refused(random_intercept: Any):
    x, y = table()
    with pytest.raises(LikelihoodError, match="this likelihood takes no weights"):
        Problem.build(x, y, weights=np.full(len(y), 2.0), family=OwnLikelihood(random_intercept, np.zeros(len(y))))


@pytest.mark.parametrize("group", [np.zeros(79), np.zeros(0), np.arange(80.0) - 1.0])
def test_classes_that_the_example_cannot_use_are_refused(random_intercept: Any, group: np.ndarray):
    # Compiled code does not check indices: it would read what lies beyond the array.
    x, y = table()
    with pytest.raises(LikelihoodError, match="params has a class for each row, counted from 0"):
        Problem.build(x, y, family=OwnLikelihood(random_intercept, group))


def test_copies_and_pickles():
    x, y = table()
    for family in (OwnLikelihood(digest, [1.5, 0.25]), BatchLikelihood(failing_score)):
        assert copy.deepcopy(family) is family
        again = pickle.loads(pickle.dumps(family))
        assert type(again) is type(family) and repr(again) == repr(family) and again != family
    problem = Problem.build(x, y, family=OwnLikelihood(digest, [1.5, 0.25]))
    with pytest.raises(TypeError, match="build it again there"):
        pickle.dumps(problem)
