"""Prediction and coefficients of generalised linear models against formulas written out on the raw rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plain import mixture_quantiles_plain, sum_on_grid_plain, unpack_fit_plain
from running import coefficients, enumerate_models, mjmcmc
from scipy import integrate, optimize, special, stats
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from modejump.core.errors import InputError
from modejump.likelihoods import Gamma, Poisson
from modejump.likelihoods.glm.family import GlmFamily
from modejump.likelihoods.glm.gamma_shape import shape_rules
from modejump.posterior import Posterior
from modejump.posterior.fits import keep_models, single_model
from modejump.posterior.prediction.distribution import GNodes, NewRows, new_rows
from modejump.posterior.prediction.glm import GlmPredictor, shrinkage_rule
from modejump.posterior.prediction.grid import (
    MOST_NODES,
    Mixture,
    Rule,
    amount_quantile,
    count_quantile,
    grid_rule,
    sum_on_grid,
)
from modejump.posterior.prediction.laplace import unpack_fit
from modejump.posterior.prediction.mixture import make_tails, mixture_quantiles
from modejump.posterior.storage import load_run, save_run
from modejump.priors.coefficients import COEF_PRIORS, GPrior
from modejump.problem.problem import Problem

FAMILIES = [
    ("binomial", "logit"),
    ("binomial", "probit"),
    ("binomial", "cloglog"),
    ("poisson", "log"),
    ("gamma", "log"),
    ("gamma", "inverse"),
]
PRIORS = sorted(set(COEF_PRIORS) - {"known-variance"})
SHAPE = 4.0


@dataclass(frozen=True)
class Case:
    """Data with a factor, a term always in, case weights and an offset, and rows to predict."""

    family: str
    link: str
    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    offset: np.ndarray
    new: np.ndarray
    new_offset: np.ndarray

    fixed = (5,)
    candidates = (0, 1, 2, 3, 4)

    def problem(self, **options: Any) -> Problem:
        terms = {"a": [0], "b": [1], "f": [2, 3], "c": [4], "d": [5]}
        return Problem.build(
            self.x, self.y, terms=terms, always_in=["d"], weights=self.weights, family=self.family, link=self.link,
            offset=self.offset, **options,
        )  # fmt: skip

    def arranged(self, problem: Problem) -> NewRows:
        return new_rows(problem, self.new[:, self.candidates], self.new[:, self.fixed], self.new_offset)

    def design(self, problem: Problem, members: list[int], x: np.ndarray) -> np.ndarray:
        """Intercept, columns always in, and columns of the model, as they are in the table."""
        first = problem.data.first
        columns = [self.candidates[c] for t in members for c in range(first[t], first[t + 1])]
        return np.column_stack([np.ones(len(x)), x[:, self.fixed], x[:, columns]])


def respond(family: str, link: str, eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    mean = inverse_link(link)(eta)
    if family == "binomial":
        return (rng.random(len(eta)) < mean).astype(float)
    return rng.poisson(mean).astype(float) if family == "poisson" else rng.gamma(SHAPE, mean / SHAPE)


def inverse_link(link: str) -> Callable[[Any], Any]:
    return {
        "logit": special.expit,
        "probit": special.ndtr,
        "cloglog": lambda eta: -np.expm1(-np.exp(eta)),
        "log": np.exp,
        "inverse": lambda eta: 1.0 / eta,
    }[link]


def make_case(family: str, link: str) -> Case:
    rng = np.random.default_rng(510)
    n, fresh = 90, 5
    x = rng.normal(size=(n + fresh, 6)) + 0.4 * rng.normal(size=(n + fresh, 1)) + 3.0
    x[:, 2:4] = np.eye(3)[np.arange(n + fresh) % 3][:, 1:]
    offset = 0.2 * rng.random(n + fresh)
    eta = 0.2 + offset + 0.5 * (x[:, 0] - 3) - 0.4 * (x[:, 4] - 3) + 0.3 * (x[:, 5] - 3)
    if link == "inverse":
        eta = 3.0 + 0.4 * eta
    y = respond(family, link, eta, rng)
    weights = rng.integers(1, 4, size=n).astype(float)
    return Case(family, link, x[:n], y[:n], weights, offset[:n], x[n:], offset[n:])


@pytest.fixture(scope="module", params=FAMILIES, ids="-".join)
def case(request: pytest.FixtureRequest) -> Case:
    return make_case(*request.param)


def log_likelihood(case: Case, design: np.ndarray, theta: np.ndarray, shape: float = 1.0) -> float:
    """The weighted log likelihood by SciPy's distributions, without what does not depend on the parameters."""
    eta = case.offset + design @ theta
    if case.link == "inverse" and (eta <= 0.0).any():
        return -np.inf
    mean = inverse_link(case.link)(eta)
    if case.family == "binomial":
        value = stats.bernoulli.logpmf(case.y, mean)
    elif case.family == "poisson":
        value = stats.poisson.logpmf(case.y, mean) + special.gammaln(case.y + 1)
    else:
        value = stats.gamma.logpdf(case.y, shape, scale=mean / shape)
    return float(case.weights @ value)


@dataclass
class Estimate:
    """Maximum likelihood estimate with its information."""

    theta: np.ndarray
    information: np.ndarray
    value: float
    shape: float


def slope_and_information(case: Case, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Score and observed information of each row for its predictor."""
    y = case.y
    if case.link == "logit":
        p = special.expit(eta)
        return y - p, p * (1 - p)
    if case.family == "poisson":
        return y - np.exp(eta), np.exp(eta)
    if case.link == "log":
        return y * np.exp(-eta) - 1.0, y * np.exp(-eta)
    if case.link == "inverse":
        return 1.0 / eta - y, eta**-2.0
    p = inverse_link(case.link)(eta)
    density = stats.norm.pdf(eta) if case.link == "probit" else np.exp(eta - np.exp(eta))
    # Minus the derivative of log density: Phi'' = -eta Phi', and likewise for the other link.
    bend = eta if case.link == "probit" else np.exp(eta) - 1.0
    above, below = density / p, density / (1 - p)
    return y * above - (1 - y) * below, y * above * (above + bend) + (1 - y) * below * (below - bend)


def estimate(case: Case, design: np.ndarray, mode: bool = False) -> Estimate:
    """Scoring on the raw columns, until nothing changes: the maximum, or for logit the mode under Jeffreys' prior."""
    theta = np.zeros(design.shape[1])
    theta[0] = 3.0 if case.link == "inverse" else 0.0
    for _ in range(200):
        score, info = slope_and_information(case, case.offset + design @ theta)
        information = design.T @ (design * (case.weights * info)[:, None])
        pull = case.weights * score
        if mode:
            hat = case.weights * info * np.einsum("ij,ji->i", design, np.linalg.solve(information, design.T))
            pull = pull + hat * (0.5 - special.expit(case.offset + design @ theta))
        step = np.linalg.solve(information, design.T @ pull)
        theta = theta + step
    shape = 1.0
    if case.family == "gamma":
        found = optimize.minimize_scalar(
            lambda t: -log_likelihood(case, design, theta, np.exp(t)), bounds=(-3, 6), method="bounded",
            options={"xatol": 1e-10},
        )  # fmt: skip
        shape = float(np.exp(found.x))
    return Estimate(theta, information * shape, log_likelihood(case, design, theta, shape), shape)


def all_models(problem: Problem) -> Posterior:
    """The exact posterior with every model kept."""
    posterior = Posterior(problem, enumerate_models(problem))
    return replace(posterior, kept={"bma": keep_models(problem, posterior.result, mass=2.0)})


@dataclass
class Component:
    """One model with one g and one shape: the normal posterior of its coefficients on the raw scale."""

    weight: float
    members: list[int]
    mean: np.ndarray
    covariance: np.ndarray
    shape: float


def twin(case: Case, problem: Problem, posterior: Posterior) -> list[Component]:
    """The mixture from normal equations on raw columns: nothing is projected out or scaled.

    The prior precision is the information about the candidates, the base projected out, divided by g.
    """
    data, base = problem.data, 2
    out = []
    table = posterior.models(limit=None)
    for features, weight in zip(table["features"], table["probability"], strict=True):
        members = problem.index_of(features)
        mode = case.link == "logit" and problem.coef_prior.name == "jeffreys"
        fit = estimate(case, case.design(problem, members, case.x), mode)
        info, k = fit.information, len(fit.theta) - base
        schur = info[base:, base:] - info[base:, :base] @ np.linalg.solve(info[:base, :base], info[:base, base:])
        wald = float(fit.theta[base:] @ schur @ fit.theta[base:])
        shrink, inner = shrinkage_rule(problem.coef_prior, data.coef_prior.par, data.n, data.base, k, wald)
        for s, share in zip(shrink, inner, strict=True):
            precision = info.copy()
            precision[base:, base:] += schur * (1.0 / s - 1.0) if s > 0.0 else schur * 1e12
            mean, covariance = np.linalg.solve(precision, info @ fit.theta), np.linalg.inv(precision)
            for v, part in shapes_of(case, problem, fit, wald * (1.0 - s)):
                out.append(Component(weight * share * part, members, mean, covariance * fit.shape / v, v))
    return out


def shapes_of(case: Case, problem: Problem, fit: Estimate, lost: float) -> Iterator[tuple[float, float]]:
    """Values of the shape and their weights; one where the family has none."""
    if case.family != "gamma":
        return iter([(1.0, 1.0)])
    data = problem.data
    flat = data.base if problem.coef_prior.shrinks else len(fit.theta)
    _, v, part = shape_rules(np.array([fit.shape]), data.n, np.array([float(flat)]), np.array([lost / fit.shape]))
    return zip(v.tolist(), part.tolist(), strict=True)


def dense_shape(case: Case, design: np.ndarray, fit: Estimate, flat: int) -> tuple[np.ndarray, np.ndarray]:
    """The shape's posterior from the likelihood itself, on a grid of log shapes."""
    v = fit.shape * np.exp(np.linspace(-3.0, 2.5, 1601))
    value = np.array([log_likelihood(case, design, fit.theta, shape) for shape in v]) - 0.5 * flat * np.log(v)
    weight = np.exp(value - value.max())
    return v, weight / weight.sum()


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("link", ["logit", "inverse"])
def test_coefficients_are_those_of_the_normal_mixture(link: str, name: str) -> None:
    check_coefficients(make_case("binomial" if link == "logit" else "gamma", link), name)


def test_coefficients_of_every_family(case: Case) -> None:
    check_coefficients(case, "hyper-g")


def check_coefficients(case: Case, name: str) -> None:
    problem = case.problem(coef_prior=name)
    posterior = all_models(problem)
    table = coefficients(posterior)
    assert table.index.tolist() == ["(intercept)", "d", "a", "b", "f[1]", "f[2]", "c"]
    held, first, second = np.zeros(7), np.zeros(7), np.zeros(7)
    for part in twin(case, problem, posterior):
        columns = [c for t in part.members for c in range(problem.data.first[t], problem.data.first[t + 1])]
        where = [0, 1, *(c + 2 for c in columns)]
        held[where] += part.weight
        first[where] += part.weight * part.mean
        second[where] += part.weight * (np.diag(part.covariance) + part.mean**2)
    assert np.allclose(table["probability"], held, atol=1e-8)
    assert np.allclose(table["mean"], first, atol=2e-6)
    assert np.allclose(table["sd"], np.sqrt(second - first**2), atol=2e-6)
    assert np.allclose(table["conditional_mean"], first / held, atol=2e-6)
    assert np.allclose(table["conditional_sd"], np.sqrt(second / held - (first / held) ** 2), atol=2e-6)


def prior_density(name: str, g: np.ndarray, n: float, base: int, k: int) -> np.ndarray:
    """Textbook densities of g, up to a constant."""
    if name == "hyper-g":
        return (1 + g) ** -1.5
    if name == "hyper-g-n":
        return (1 + g / n) ** -1.5
    if name == "jzs":
        return g**-1.5 * np.exp(-n / (2 * g))
    if name == "robust":
        return np.where(g > (1 + n) / (base + k) - 1, (g + 1) ** -1.5, 0.0)
    if name == "intrinsic":
        least = n / (base + k)
        return np.where(g > least, 1.0 / (g * np.sqrt(np.maximum(g / least - 1, 1e-300))), 0.0)
    b = (n - base - k) / 2 - 0.25
    return np.exp((b - 1) * np.log(g) - (b + 0.25) * np.log1p(g))


@pytest.mark.parametrize("name", ["hyper-g", "hyper-g-n", "jzs", "robust", "intrinsic", "beta-prime"])
@pytest.mark.parametrize(("k", "wald"), [(1, 0.1), (1, 30.0), (4, 6.0), (6, 900.0)])
def test_the_posterior_of_the_shrinkage(name: str, k: int, wald: float) -> None:
    problem = make_case("poisson", "log").problem(coef_prior=name)
    data = problem.data
    shrink, weight = shrinkage_rule(problem.coef_prior, data.coef_prior.par, data.n, data.base, k, wald)
    # By brute force in u = log g; the intrinsic prior has an integrable singularity at its least value.
    least = {"robust": (1 + data.n) / (data.base + k) - 1, "intrinsic": data.n / (data.base + k)}.get(name, 0.0)
    x = np.linspace(-40, 60, 2_000_001)
    g = least + np.exp(x)
    density = prior_density(name, g, data.n, data.base, k) * np.exp(x)
    density *= np.exp(-0.5 * k * np.log1p(g) - 0.5 * wald / (1 + g))
    density /= density.sum()
    s = g / (1 + g)
    assert weight.sum() == pytest.approx(1.0, abs=1e-12)
    for power in (1, 2, 3):
        assert weight @ shrink**power == pytest.approx(density @ s**power, abs=1e-7)


@pytest.mark.parametrize("rows", [8, 30, 90])
@pytest.mark.parametrize("shape", [0.3, 4.0, 60.0])
def test_shapes_stand_for_their_posterior(rows: int, shape: float) -> None:
    rng = np.random.default_rng(523)
    whole = make_case("gamma", "log")
    case = replace(
        whole, x=whole.x[:rows], y=rng.gamma(shape, 1.0 / shape, rows), weights=whole.weights[:rows],
        offset=np.zeros(rows),
    )  # fmt: skip
    design = np.column_stack([np.ones(rows), case.x[:, 0]])
    fit = estimate(case, design)
    n = float(case.weights.sum())
    v, weight = dense_shape(case, design, fit, 2)
    count, value, part = shape_rules(np.array([fit.shape]), n, np.array([2.0]), np.zeros(1))
    assert count == len(value) == len(part) and part.sum() == pytest.approx(1.0, abs=1e-12)
    for power in (-1.0, 1.0, 2.0):
        assert part @ value**power == pytest.approx(weight @ v**power, rel=2e-4)
    # What the g-prior loses of the fit speaks for a smaller shape, like a larger sum of squares.
    _, pulled, other = shape_rules(np.array([fit.shape]), n, np.array([2.0]), np.array([0.5 * n / fit.shape]))
    expected_weight = weight * np.exp(-0.25 * n * v / fit.shape - np.max(np.log(weight[weight > 0])))
    assert other @ pulled == pytest.approx(expected_weight @ v / expected_weight.sum(), rel=2e-4)


def test_a_large_shape_makes_student_t() -> None:
    # With little noise log y is normal, and its precision has n - 3 degrees of freedom.
    rng = np.random.default_rng(524)
    x = rng.normal(size=(12, 2))
    y = np.exp(0.4 * x[:, 0] + 1e-4 * rng.normal(size=12))
    problem = Problem.build(x, y, always_in=["x0", "x1"], family="gamma")
    predictor = Posterior(problem, enumerate_models(problem)).predictor()
    new = rng.normal(size=(5, 2))
    lower, upper = predictor.interval(new_rows(problem, np.zeros((5, 0)), new), 0.9)
    design, wanted = (np.column_stack([np.ones(len(a)), a]) for a in (x, new))
    theta, rss, *_ = np.linalg.lstsq(design, np.log(y), rcond=None)
    leverage = np.einsum("ij,ji->i", wanted, np.linalg.solve(design.T @ design, wanted.T))
    half = stats.t.ppf(0.95, 9) * np.sqrt(rss[0] / 9 * (1.0 + leverage))
    assert np.allclose(np.log(upper), wanted @ theta + half, atol=2e-3 * half.min())
    assert np.allclose(np.log(lower), wanted @ theta - half, atol=2e-3 * half.min())


def mixture_of(case: Case, parts: list[Component], problem: Problem, row: int) -> tuple[np.ndarray, ...]:
    """Location, standard deviation, weight and shape of a row's predictor in each component."""
    loc, sd = [], []
    for part in parts:
        r = case.design(problem, part.members, case.new)[row]
        loc.append(case.new_offset[row] + r @ part.mean)
        sd.append(np.sqrt(r @ part.covariance @ r))
    return np.array(loc), np.array(sd), np.array([p.weight for p in parts]), np.array([p.shape for p in parts])


def expected(function: Callable[..., Any], parts: tuple[np.ndarray, ...]) -> float:
    """Mean of a function of the predictor and the shape: Gauss-Hermite in pieces too narrow to miss anything."""
    x = np.linspace(-9.0, 9.0, 721)
    weight = stats.norm.pdf(x) * (x[1] - x[0])
    return float(sum(w * (weight @ function(m + s * x, v)) for m, s, w, v in zip(*parts, strict=True)))


def on_log_mean(case: Case, parts: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Under the inverse link the predictor is lognormal with the same two moments."""
    loc, sd, weight, shape = parts
    if case.link != "inverse":
        return parts
    variance = np.log1p((sd / loc) ** 2)
    return 0.5 * variance - np.log(loc), np.sqrt(variance), weight, shape


@pytest.mark.parametrize("name", ["g", "hyper-g", "bic"])
def test_prediction_is_the_mixture_over_models_and_predictors(case: Case, name: str) -> None:
    problem = case.problem(coef_prior=name)
    posterior = all_models(problem)
    parts = twin(case, problem, posterior)
    predictor, new = posterior.predictor(), case.arranged(problem)
    assert isinstance(predictor, GlmPredictor)
    mean, std, (lower, upper) = predictor.mean(new), predictor.std(new), predictor.interval(new, 0.8)
    back = np.exp if case.link == "inverse" else inverse_link(case.link)
    for row in range(len(case.new)):
        mix = on_log_mean(case, mixture_of(case, parts, problem, row))
        first = expected(lambda t, v: back(t), mix)
        assert mean[row] == pytest.approx(first, rel=2e-6)
        if case.family == "binomial":
            assert std[row] == pytest.approx(np.sqrt(first * (1 - first)), rel=2e-6)
            ends = special.logit([lower[row], upper[row]]) if case.link == "logit" else None
            if ends is not None:
                below = [float(mix[2] @ stats.norm.cdf((end - mix[0]) / mix[1])) for end in ends]
                assert np.allclose(below, [0.1, 0.9], atol=2e-6)
            continue
        second = expected(lambda t, v: back(t) ** 2 + back(t) ** (2 if case.family == "gamma" else 1) / v, mix)
        assert std[row] == pytest.approx(np.sqrt(second - first**2), rel=1e-5)
        if case.family == "gamma":
            for end, p in ((lower[row], 0.1), (upper[row], 0.9)):
                value = expected(lambda t, v, end=end: stats.gamma.cdf(end, v, scale=np.exp(t) / v), mix)
                # Shapes of models are interpolated on a grid of steps of 0.05 in the logarithm.
                assert value == pytest.approx(p, abs=5e-5)
        else:
            for end, p in ((lower[row], 0.1), (upper[row], 0.9)):
                at, before = (expected(lambda t, v, y=y: stats.poisson.cdf(y, np.exp(t)), mix) for y in (end, end - 1))
                assert at >= p > before


def test_a_single_model_agrees_with_maximum_likelihood(case: Case) -> None:
    problem = case.problem(coef_prior="bic")
    members = [0, 2]
    posterior = Posterior(problem, enumerate_models(problem))
    posterior = replace(posterior, kept={"best": single_model(problem, members)})
    fit = estimate(case, case.design(problem, members, case.x))
    table = coefficients(posterior, kind="best").loc[["(intercept)", "d", "a", "f[1]", "f[2]"]]
    assert np.allclose(table["mean"], fit.theta, atol=1e-6)
    covariance = np.linalg.inv(fit.information)
    if case.family == "gamma":
        v, weight = dense_shape(case, case.design(problem, members, case.x), fit, len(fit.theta))
        covariance *= weight @ (fit.shape / v)
    assert np.allclose(table["sd"], np.sqrt(np.diag(covariance)), rtol=1e-5)
    base = estimate(case, case.design(problem, [], case.x))
    bic = fit.value - base.value - 0.5 * 3 * np.log(case.weights.sum())
    assert posterior.log_marginal_likelihood(["a", "f"]) == pytest.approx(bic, abs=1e-6)
    assert posterior.log_marginal_likelihood([]) == 0.0


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_a_single_model_agrees_with_scikit_learn(family: str) -> None:
    case = replace(make_case(family, "logit" if family == "binomial" else "log"), offset=np.zeros(90))
    problem = case.problem(coef_prior="aic")
    posterior = Posterior(problem, enumerate_models(problem))
    posterior = replace(posterior, kept={"best": single_model(problem, [0, 1, 2, 3])})
    order = [5, 0, 1, 2, 3, 4]
    if family == "binomial":
        other = LogisticRegression(C=np.inf, tol=1e-10, solver="newton-cholesky")
    else:
        other = PoissonRegressor(alpha=0.0, tol=1e-10, solver="newton-cholesky")
    other.fit(case.x[:, order], case.y, sample_weight=case.weights)
    table = coefficients(posterior, kind="best")
    assert np.allclose(table["mean"].to_numpy()[1:], other.coef_.ravel(), atol=1e-6)
    assert table["mean"].iloc[0] == pytest.approx(np.ravel(other.intercept_)[0], abs=1e-6)
    reference = np.concatenate([np.ravel(other.intercept_), other.coef_.ravel()])
    columns = np.column_stack([np.ones(90), case.x[:, order]])
    assert log_likelihood(case, columns, table["mean"].to_numpy()) == pytest.approx(
        log_likelihood(case, columns, reference), abs=1e-6
    )


def test_weights_are_repetitions() -> None:
    case = make_case("poisson", "log")
    problem = case.problem(coef_prior="hyper-g")
    times = case.weights.astype(int)
    again = replace(
        case,
        x=np.repeat(case.x, times, axis=0),
        y=np.repeat(case.y, times),
        offset=np.repeat(case.offset, times),
        weights=np.ones(times.sum()),
    )
    repeated = again.problem(coef_prior="hyper-g")
    one, two = Posterior(problem, enumerate_models(problem)), Posterior(repeated, enumerate_models(repeated))
    pd.testing.assert_frame_equal(coefficients(one), coefficients(two), rtol=1e-5)
    for a, b in zip(one.predictor().interval(case.arranged(problem)), two.predictor().interval(case.arranged(repeated)), strict=True):  # fmt: skip  # noqa: E501
        assert np.array_equal(a, b)


def test_an_offset_is_part_of_the_predictor() -> None:
    case = make_case("poisson", "log")
    problem = case.problem()
    predictor = Posterior(problem, enumerate_models(problem)).predictor()
    new = case.arranged(problem)
    doubled = new._replace(offset=new.offset + np.log(2.0))
    assert np.allclose(predictor.mean(doubled), 2.0 * predictor.mean(new))
    none = new_rows(problem, case.new[:, case.candidates], case.new[:, case.fixed])
    assert np.allclose(predictor.mean(none), predictor.mean(new) / np.exp(case.new_offset))
    # A constant offset at fit is taken up by the intercept.
    shifted = replace(case, offset=case.offset + 1.5).problem()
    table = coefficients(Posterior(shifted, enumerate_models(shifted)))
    before = coefficients(Posterior(problem, enumerate_models(problem)))
    before.loc["(intercept)", ["mean", "conditional_mean"]] -= 1.5
    pd.testing.assert_frame_equal(table, before, rtol=1e-5)


def test_best_and_median_use_one_model() -> None:
    case = make_case("binomial", "logit")
    problem = case.problem()
    posterior = Posterior(problem, enumerate_models(problem))
    new = case.arranged(problem)
    for kind, features in (("best", posterior.best_model()), ("median", posterior.median_model())):
        only = replace(posterior, kept={"bma": single_model(problem, problem.index_of(features))})
        assert np.array_equal(posterior.predictor(kind).mean(new), only.predictor("bma").mean(new))


def test_a_sampled_posterior_predicts_within_its_error() -> None:
    case = make_case("binomial", "logit")
    problem = case.problem()
    exact, sampled = all_models(problem), Posterior(problem, mjmcmc(problem, chains=4, seed=3))
    new = case.arranged(problem)
    assert sampled.kept_models().weight.sum() == pytest.approx(1.0)
    each = np.array(
        [
            replace(exact, kept={"bma": single_model(problem, problem.index_of(features))}).predictor().mean(new)
            for features in exact.models()["features"]
        ]
    )
    weight = exact.models()["probability"].to_numpy()
    mean = exact.predictor().mean(new)
    assert np.allclose(mean, weight @ each, atol=1e-9)
    # The error of an average over models, with the effective sample size of the term that mixes worst.
    assert sampled.diagnostics is not None
    error = np.sqrt(weight @ (each - mean) ** 2 / np.nanmin(sampled.diagnostics.ess))
    # Models without which 0.999 of the posterior is held are left out of the sampled average.
    left_out = 1e-3 * np.ptp(each, axis=0)
    assert (np.abs(sampled.predictor().mean(new) - mean) < 4 * error + left_out).all()


@pytest.mark.parametrize("prior", ["g", "hyper-g", "jeffreys"])
def test_a_run_comes_back_without_its_rows(case: Case, prior: str, tmp_path: Path) -> None:
    problem = case.problem(coef_prior=prior)
    posterior = Posterior(problem, enumerate_models(problem))
    save_run(posterior, tmp_path / "run")
    loaded, _ = load_run(tmp_path / "run")
    # Once more, from what was read.
    save_run(loaded, tmp_path / "again")
    for other in (loaded, load_run(tmp_path / "again")[0]):
        assert other.problem.family == problem.family
        new, same = case.arranged(problem), case.arranged(other.problem)
        for kind in ("bma", "best", "median"):
            mine, theirs = posterior.predictor(kind), other.predictor(kind)
            assert np.array_equal(mine.mean(new), theirs.mean(same))
            assert np.array_equal(mine.std(new), theirs.std(same))
            for a, b in zip(mine.interval(new), theirs.interval(same), strict=True):
                assert np.array_equal(a, b)
        pd.testing.assert_frame_equal(coefficients(posterior), coefficients(other), rtol=0, atol=0)
        assert other.log_marginal_likelihood(posterior.best_model()) == pytest.approx(
            posterior.log_marginal_likelihood(posterior.best_model()), abs=1e-6
        )
    about = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert (about["problem"]["family"], about["problem"]["link"]) == (case.family, case.link)
    (arrays,) = (tmp_path / "run").glob("*.npz")
    with np.load(arrays, allow_pickle=False) as file:
        for name in file.files:
            assert file[name].dtype != object
            # Nothing has a row for each observation; fits of all models one after the other may have any length.
            assert "/fits/" in name or len(case.y) not in file[name].shape, name


def test_a_saved_run_evaluates_the_models_it_keeps_only(tmp_path: Path) -> None:
    rng = np.random.default_rng(511)
    x = rng.normal(size=(200, 3))
    y = rng.poisson(np.exp(1.0 + 0.8 * x[:, 0])).astype(float)
    problem = Problem.build(x, y, family="poisson")
    save_run(Posterior(problem, enumerate_models(problem)), tmp_path)
    loaded, _ = load_run(tmp_path)
    assert np.isfinite(loaded.log_marginal_likelihood(["x0"]))
    assert loaded.log_marginal_likelihood([]) == pytest.approx(0.0, abs=1e-11)
    with pytest.raises(InputError, match=r"holds no rows, which the model \{x1\} needs"):
        loaded.log_marginal_likelihood(["x1"])


def test_models_that_separate_and_models_that_depend() -> None:
    rng = np.random.default_rng(512)
    x = rng.normal(size=(60, 3))
    x[:, 2] = x[:, 0]
    y = (x[:, 1] > 0).astype(float)
    y[:25] = (rng.random(25) < 0.5).astype(float)
    x = np.column_stack([x, y + 0.01 * rng.normal(size=60)])
    problem = Problem.build(x, y, family="binomial")
    posterior = Posterior(problem, enumerate_models(problem))
    new = new_rows(problem, x)
    # The last column separates the classes, which no other does.
    value = posterior.log_marginal_likelihood(["x3"])
    assert np.isfinite(value) and value > posterior.log_marginal_likelihood(["x1"]) + 10.0
    assert posterior.inclusion["probability"]["x3"] > 0.99
    assert posterior.log_marginal_likelihood(["x0", "x2"]) == -np.inf
    sure = replace(posterior.result, renormalised=np.array([0.1, 0.1, 0.1, 0.9]))
    for predictor in (posterior.predictor(), Posterior(problem, sure).predictor("median")):
        mean = predictor.mean(new)
        assert np.isfinite(mean).all() and np.array_equal(mean > 0.5, y == 1.0)
    both = replace(posterior.result, renormalised=np.array([0.9, 0.1, 0.9, 0.1]))
    with pytest.raises(InputError, match="the median model has linearly dependent columns"):
        Posterior(problem, both).predictor("median")


def test_without_intercept_and_base() -> None:
    rng = np.random.default_rng(513)
    x = rng.normal(size=(80, 3))
    y = rng.poisson(np.exp(0.7 * x[:, 0])).astype(float)
    problem = Problem.build(x, y, family="poisson", intercept=False)
    # The model of nothing is certain of its mean of one.
    everything = all_models(problem)
    new = new_rows(problem, x[:4])
    assert coefficients(everything).index.tolist() == ["x0", "x1", "x2"]
    empty = replace(everything, kept={"bma": single_model(problem, [])})
    assert np.allclose(empty.predictor().mean(new), 1.0)
    assert np.allclose(empty.predictor().std(new), 1.0)
    lower, upper = empty.predictor().interval(new, 0.9)
    assert np.array_equal(lower, stats.poisson.ppf(0.05, np.ones(4)))
    assert np.array_equal(upper, stats.poisson.ppf(0.95, np.ones(4)))
    lower, upper = everything.predictor().interval(new)
    assert (lower <= upper).all()


def test_no_term_to_choose() -> None:
    rng = np.random.default_rng(514)
    y = rng.gamma(3.0, 1.0, size=50)
    x = rng.normal(size=(50, 1))
    problem = Problem.build(x, y, always_in=["x0"], family="gamma")
    posterior = Posterior(problem, enumerate_models(problem))
    assert coefficients(posterior).index.tolist() == ["(intercept)", "x0"]
    lower, upper = posterior.predictor().interval(new_rows(problem, np.zeros((50, 0)), x))
    assert ((lower > 0.0) & (lower < upper)).all()


def test_rows_far_away_stay_finite(case: Case) -> None:
    problem = case.problem()
    predictor = Posterior(problem, enumerate_models(problem)).predictor()
    far = case.new.copy()
    # Upwards along each column; the inverse link's predictor stays positive along one that raises it.
    far[:, 0] += 40.0
    new = new_rows(problem, far[:, case.candidates], far[:, case.fixed])
    lower, upper = predictor.interval(new)
    assert (lower <= upper).all()
    assert not np.isnan(predictor.mean(new)).any()
    assert not np.isnan(predictor.std(new)).any()
    if case.family == "binomial":
        assert ((predictor.mean(new) >= 0.0) & (predictor.mean(new) <= 1.0)).all()


def test_the_inverse_link_needs_a_positive_predictor() -> None:
    case = make_case("gamma", "inverse")
    problem = case.problem()
    predictor = Posterior(problem, enumerate_models(problem)).predictor("best")
    new = case.arranged(problem)
    low = new._replace(offset=np.array([0.0, 0.0, -50.0, 0.0, 0.0]))
    with pytest.raises(InputError, match="linear predictor of new row 2 has no mean under the inverse link"):
        predictor.mean(low)


@pytest.mark.parametrize("size", [0, 1, 2, 7])
def test_compiled_unpacking_agrees_with_its_plain_twin(size: int) -> None:
    rng = np.random.default_rng(520)
    triangle, coef = 1.0 + rng.random(size * (size + 1) // 2), rng.normal(size=size)
    centre, root = np.ones(size), np.zeros((size, size))
    unpack_fit(triangle, coef, centre, root)
    plain_centre, plain_root = unpack_fit_plain(triangle, coef)
    assert np.allclose(centre, plain_centre, rtol=1e-12)
    assert np.allclose(root, plain_root, rtol=1e-10, atol=1e-12)


def random_mixture(rng: np.random.Generator, rows: int = 6, components: int = 9, spread: float = 1.0) -> Mixture:
    weight = rng.dirichlet(np.ones(components), size=rows)
    weight[0, :3] = 0.0
    weight /= weight.sum(axis=1, keepdims=True)
    loc = 1.0 + 0.3 * spread * rng.normal(size=(rows, components))
    scale = np.exp(rng.uniform(-2.5, 0.5, size=(rows, components)))
    return Mixture(loc, scale, weight, np.exp(rng.uniform(0.5, 0.9, size=components)))


@pytest.mark.parametrize("step", [0.02, 0.1, 0.5])
def test_compiled_sums_agree_with_their_plain_twin(step: float) -> None:
    rng = np.random.default_rng(515)
    mix = random_mixture(rng)
    low = mix.loc.min(axis=1) - 8.0
    start = np.arange(7) * int(20 / step)
    part = rng.random((9, 2))
    out = np.zeros((start[-1], 2))
    steps = np.full(6, step)
    sum_on_grid(mix.loc, mix.scale, mix.weight, part, low, steps, start, out)
    plain = sum_on_grid_plain(mix.loc, mix.scale, mix.weight, part, low, steps, start)
    assert np.allclose(out, plain, rtol=1e-10, atol=1e-15)


def test_compiled_sums_agree_beyond_the_nodes() -> None:
    rng = np.random.default_rng(520)
    mix = random_mixture(rng)
    mix = mix._replace(loc=mix.loc * 10.0 ** rng.uniform(-1, 3, mix.loc.shape), scale=mix.scale * 30.0)
    low, start, part = np.full(6, -1.0), np.arange(7) * 50, np.ones((9, 1))
    out = np.zeros((300, 1))
    sum_on_grid(mix.loc, mix.scale, mix.weight, part, low, np.full(6, 0.1), start, out)
    plain = sum_on_grid_plain(mix.loc, mix.scale, mix.weight, part, low, np.full(6, 0.1), start)
    assert np.allclose(out, plain, rtol=1e-9, atol=1e-13)
    # Nothing is lost.
    assert np.allclose(out.reshape(6, 50).sum(axis=1), 1.0)


def test_compiled_quantiles_agree_with_their_plain_twin() -> None:
    mix = random_mixture(np.random.default_rng(516), spread=5.0)
    probability = np.array([0.001, 0.05, 0.5, 0.95])
    out = np.empty((6, 4))
    grid, df = make_tails(np.array([np.inf])), np.full(9, np.inf)
    table, unit = np.zeros(9, np.int64), special.ndtri(probability)[None]
    mixture_quantiles(mix.loc, mix.scale, mix.weight, table, grid, unit, probability, out)
    assert np.allclose(out, mixture_quantiles_plain(mix.loc, mix.scale, mix.weight, df, probability), atol=1e-8)


def cdf(family: GlmFamily, rule: Rule, y: np.ndarray) -> np.ndarray:
    return rule.average(family.cdf(rule.at_nodes(y), rule.node[:, None], rule.shapes))


def test_the_grid_integrates_smooth_functions() -> None:
    mix = random_mixture(np.random.default_rng(517))
    rule = grid_rule(mix, np.full(6, 0.5))
    parts = [(mix.loc[r], mix.scale[r], mix.weight[r], mix.shape) for r in range(6)]
    assert np.allclose(rule.average(np.ones((1, 1))), 1.0, atol=1e-14)
    value = rule.average(special.expit(rule.node)[:, None])
    assert np.allclose(value, [expected(lambda t, v: special.expit(t), p) for p in parts], atol=1e-7)
    y = np.array([0.0, 1.0, 3.0, 8.0, 2.0, 5.0])
    sharp = grid_rule(mix, np.full(6, 0.05))
    exact = [expected(lambda t, v, a=a: stats.poisson.cdf(a, np.exp(t)), p) for a, p in zip(y, parts, strict=True)]
    assert np.allclose(cdf(Poisson(), sharp, y), exact, atol=1e-7)
    exact = [
        expected(lambda t, v, a=a: stats.gamma.cdf(a, v, scale=np.exp(t) / v), p) for a, p in zip(y, parts, strict=True)
    ]
    assert np.allclose(cdf(Gamma(), sharp, y), exact, atol=5e-5)


@pytest.mark.parametrize("probability", [0.001, 0.05, 0.5, 0.95, 0.9999])
def test_quantiles_invert_the_distribution_function(probability: float) -> None:
    mix = random_mixture(np.random.default_rng(518), spread=4.0)
    rule = grid_rule(mix, np.full(6, 0.1))
    assert np.allclose(cdf(Gamma(), rule, amount_quantile(Gamma(), rule, probability)), probability, atol=1e-9)
    count = count_quantile(Poisson(), rule, probability)
    assert (count == np.floor(count)).all()
    assert (cdf(Poisson(), rule, count) >= probability).all()
    assert (cdf(Poisson(), rule, count - 1.0) < probability).all()


def test_a_grid_with_too_few_nodes_keeps_means_and_order() -> None:
    mix = random_mixture(np.random.default_rng(519))
    wide = mix._replace(loc=mix.loc + np.linspace(0, 4000, 9), scale=np.where(mix.scale < 0.5, 1e-6, mix.scale))
    rule = grid_rule(wide, np.full(6, 1e-9))
    assert np.diff(rule.start).max() <= MOST_NODES
    assert (rule.weight >= 0.0).all()
    assert np.allclose(rule.average(rule.node[:, None]), (wide.weight * wide.loc).sum(axis=1), rtol=1e-3)


def test_probabilities_of_a_predictor_known_badly() -> None:
    # A standard deviation of ten: most of the distribution is at the ends, and few nodes would miss the middle.
    loc, scale = np.array([[2.0]]), np.array([[10.0]])
    rule = grid_rule(Mixture(loc, scale, np.ones((1, 1)), np.ones(1)), np.array([0.5]))
    exact, _ = integrate.quad(lambda t: special.expit(t) * stats.norm.pdf(t, 2.0, 10.0), -100, 100, limit=500)
    assert rule.average(special.expit(rule.node)[:, None])[0] == pytest.approx(exact, abs=1e-8)


# Data from the prior: the predictive distribution is then calibrated, up to the error of Laplace's approximation, which
# at this many rows is well below the Monte Carlo error.
G, ROWS, TERMS, NEW, RUNS = 20.0, 300, 4, 20, 200
# A correct method exceeds this many standard errors with probability 6e-5.
SIGMAS = 4.0


def from_the_prior(family: str, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Model from the uniform prior, coefficients from the g-prior, then training and new observations."""
    x = rng.normal(size=(ROWS + NEW, TERMS)) @ (np.eye(TERMS) + 0.3)
    x -= x[:ROWS].mean(axis=0)
    inside = np.flatnonzero(rng.random(TERMS) < 0.5)
    level = {"binomial": -0.5, "poisson": 0.7, "gamma": 1.0}[family]
    chance = special.expit(level)
    information = {"binomial": chance * (1 - chance), "poisson": np.exp(level), "gamma": SHAPE}[family]
    beta = np.zeros(TERMS)
    if len(inside):
        factor = np.linalg.qr(np.sqrt(information) * x[:ROWS, inside], mode="r")
        beta[inside] = np.sqrt(G) * np.linalg.solve(factor, rng.normal(size=len(inside)))
    y = respond(family, "logit" if family == "binomial" else "log", level + x @ beta, rng)
    return x[:ROWS], y[:ROWS], x[ROWS:], y[ROWS:]


def replicates(family: str, seed: int) -> Iterator[tuple[GlmPredictor, NewRows, np.ndarray]]:
    rng = np.random.default_rng(seed)
    for _ in range(RUNS):
        x, y, new_x, new_y = from_the_prior(family, rng)
        problem = Problem.build(x, y, family=family, coef_prior=GPrior(g=G))
        predictor = Posterior(problem, enumerate_models(problem)).predictor()
        assert isinstance(predictor, GlmPredictor)
        yield predictor, new_rows(problem, new_x), new_y


def test_probabilities_are_frequencies() -> None:
    bins = 8
    excess = np.zeros((RUNS, bins))
    for i, (predictor, new, y) in enumerate(replicates("binomial", 521)):
        p = predictor.mean(new)
        excess[i] = np.bincount(np.minimum((p * bins).astype(int), bins - 1), weights=y - p, minlength=bins)
    # Rows of one data set depend on each other, so errors are over data sets.
    z = excess.mean(axis=0) / (excess.std(axis=0, ddof=1) / np.sqrt(RUNS))
    assert stats.chi2.sf(z @ z, bins) > 1e-4


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_intervals_cover_what_they_say(family: str) -> None:
    gap = np.zeros(RUNS)
    for i, (predictor, new, y) in enumerate(replicates(family, 522)):
        lower, upper = predictor.interval(new, 0.9)
        # What the interval holds: 0.9, and more for counts, which cannot be cut anywhere.
        held = predictor.cdf(new, upper) - predictor.cdf(new, lower - 1.0 if family == "poisson" else lower)
        if family == "gamma":
            assert np.allclose(held, 0.9, atol=1e-8)
        assert (held >= 0.9 - 1e-8).all()
        gap[i] = (((lower <= y) & (y <= upper)) - held).mean()
    error = gap.std(ddof=1) / np.sqrt(RUNS)
    assert error < 0.006
    assert abs(gap.mean()) < SIGMAS * error


def gaps_of_few_rows(runs: int, seed: int) -> np.ndarray:
    """How much 90 % intervals from 20 rows cover beyond 0.9, as they are and with the shape taken at its estimate."""
    rng, rows, new = np.random.default_rng(seed), 20, 20
    gaps = np.zeros((2, runs))
    for i in range(runs):
        x = rng.normal(size=(rows + new, 2))
        y = respond("gamma", "log", 1.0 + x @ [0.5, 0.0], rng)
        problem = Problem.build(x[:rows], y[:rows], always_in=["x0", "x1"], family="gamma")
        predictor = Posterior(problem, enumerate_models(problem)).predictor()
        assert isinstance(predictor, GlmPredictor)
        arranged = new_rows(problem, np.zeros((new, 0)), x[rows:])
        for gap in gaps:
            lower, upper = predictor.interval(arranged, 0.9)
            gap[i] = ((lower <= y[rows:]) & (y[rows:] <= upper)).mean() - 0.9
            one, estimate = np.ones(1), predictor.fits.shape
            predictor.nodes, predictor.wider, predictor.shape = GNodes(np.arange(2), one, one), one, estimate
    return gaps


def test_intervals_from_few_rows_know_that_the_shape_is_uncertain() -> None:
    gaps = gaps_of_few_rows(200, 525)
    (gap, plugged_in), error = gaps.mean(axis=1), gaps.std(axis=1, ddof=1) / np.sqrt(gaps.shape[1])
    assert error[0] < 0.008
    assert abs(gap) < SIGMAS * error[0]
    # With the shape at its estimate the test can tell.
    assert plugged_in < -SIGMAS * error[1]
