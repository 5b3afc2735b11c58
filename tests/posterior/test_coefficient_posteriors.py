"""Posteriors of coefficients against brute-force mixtures, and intervals that cover as often as they say."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from running import enumerate_models
from scipy import optimize, stats

from modejump import BGLMClassifier, BGLMRegressor
from modejump.core.errors import InputError
from modejump.posterior import Posterior
from modejump.posterior.questions.coefficient_posteriors import CoefficientPosteriors, coefficient_intervals
from modejump.priors.coefficients import KnownVariance
from modejump.problem.problem import Problem

LEVEL = 0.9
ENDS = (0.05, 0.95)


def subsets(count: int) -> Iterator[tuple[int, ...]]:
    for size in range(count + 1):
        yield from combinations(range(count), size)


class BruteForce:
    """A mixture of distributions of SciPy and a mass at zero, for each coefficient."""

    def __init__(self, coefficients: int) -> None:
        self.parts: list[list[tuple[float, Any]]] = [[] for _ in range(coefficients)]

    def add(self, j: int, weight: float, distribution: Any) -> None:
        self.parts[j].append((weight, distribution))

    def held(self, j: int) -> float:
        return sum(weight for weight, _ in self.parts[j])

    def cdf(self, j: int, x: float, conditional: bool = False) -> float:
        inside = sum(weight * d.cdf(x) for weight, d in self.parts[j])
        if conditional:
            return inside / self.held(j)
        return inside + (1.0 - self.held(j)) * (x >= 0.0)

    def quantile(self, j: int, p: float, conditional: bool = False) -> float:
        if not conditional and self.cdf(j, -1e-300) < p <= self.cdf(j, 0.0):
            return 0.0
        low = min(d.ppf(1e-9) for _, d in self.parts[j])
        high = max(d.ppf(1.0 - 1e-9) for _, d in self.parts[j])
        return float(optimize.brentq(lambda x: self.cdf(j, x, conditional) - p, low, high, xtol=1e-13, rtol=1e-13))

    def check(self, posterior: Posterior, tolerance: float) -> None:
        for conditional in (False, True):
            ours = coefficient_intervals(posterior, LEVEL, conditional)
            for j in range(len(self.parts)):
                for end, p in zip(("lower", "upper"), ENDS, strict=True):
                    wanted = self.quantile(j, p, conditional)
                    assert ours[end][j] == pytest.approx(wanted, rel=tolerance, abs=tolerance)
            assert ours["probability"] == pytest.approx([self.held(j) for j in range(len(self.parts))], abs=1e-9)


def linear_data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(18, 3)) @ (np.eye(3) + 0.5)
    return x, 1.0 + 0.8 * x[:, 0] - 0.5 * x[:, 1] + rng.normal(size=18)


def brute_gaussian(x: np.ndarray, y: np.ndarray, prior: str) -> BruteForce:
    """g-prior with g = n, BIC with a flat prior, or known variance with a flat prior, from textbook formulas."""
    n, p = x.shape
    models, log_ml = list(subsets(p)), []
    fits = []
    tss = ((y - y.mean()) ** 2).sum()
    for model in models:
        z = x[:, model] - x[:, model].mean(axis=0)
        design = np.column_stack([np.ones(n), x[:, model]])
        coef = np.linalg.lstsq(design, y, rcond=None)[0]
        rss = ((y - design @ coef) ** 2).sum()
        k = len(model)
        if prior == "g":
            log_ml.append(0.5 * (n - 1 - k) * np.log1p(n) - 0.5 * (n - 1) * np.log1p(n * rss / tss))
        elif prior == "bic":
            log_ml.append(-0.5 * n * np.log(rss / tss) - 0.5 * k * np.log(n))
        fits.append((z, design, coef, rss))
    weight = np.exp(np.array(log_ml) - max(log_ml))
    weight /= weight.sum()
    out = BruteForce(p + 1)
    for model, w, (z, design, coef, rss) in zip(models, weight, fits, strict=True):
        k = len(model)
        if prior == "g":
            s, df = n / (1.0 + n), n - 1
            scale2 = (tss - s * (tss - rss)) / df
            slope, cov = s * coef[1:], s * scale2 * np.linalg.inv(z.T @ z)
            centre = x[:, model].mean(axis=0)
            out.add(0, w, stats.t(df, y.mean() - centre @ slope, np.sqrt(scale2 / n + centre @ cov @ centre)))
        else:
            df = n - 1 - k
            cov = rss / df * np.linalg.inv(design.T @ design)
            out.add(0, w, stats.t(df, coef[0], np.sqrt(cov[0, 0])))
            slope, cov = coef[1:], cov[1:, 1:]
        for i, j in enumerate(model):
            out.add(j + 1, w, stats.t(df, slope[i], np.sqrt(cov[i, i])))
    return out


@pytest.mark.parametrize("prior", ["g", "bic"])
def test_gaussian_coefficients_are_mixtures_of_student_t(prior: str) -> None:
    x, y = linear_data()
    problem = Problem.build(x, y, coef_prior=prior, model_prior="uniform")
    brute_gaussian(x, y, prior).check(Posterior(problem, enumerate_models(problem)), 1e-8)


def test_known_variance_makes_them_normal() -> None:
    x, y = linear_data()
    problem = Problem.build(x[:, :1], y, coef_prior=KnownVariance(1.0), model_prior="uniform")
    posterior = Posterior(problem, enumerate_models(problem))
    found = coefficient_intervals(posterior, LEVEL, conditional=True)
    z = x[:, 0] - x[:, 0].mean()
    wanted = stats.norm((z @ y) / (z @ z), 1.0 / np.sqrt(z @ z)).ppf(ENDS)
    assert [found["lower"][1], found["upper"][1]] == pytest.approx(wanted, rel=1e-8)


def test_poisson_coefficients_are_normal_by_laplace() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(60, 2))
    y = rng.poisson(np.exp(0.3 + 0.35 * x[:, 0])).astype(float)
    # Of the BIC the coefficients are normal about the maximum likelihood estimate, with the inverse information.
    fits, models = [], list(subsets(2))
    for model in models:
        design, beta = np.column_stack([np.ones(60), x[:, model]]), np.zeros(1 + len(model))
        for _ in range(50):
            mean = np.exp(design @ beta)
            information = design.T @ (mean[:, None] * design)
            beta = beta + np.linalg.solve(information, design.T @ (y - mean))
        fits.append(
            (beta, np.linalg.inv(information), (y * (design @ beta) - mean).sum() - 0.5 * len(model) * np.log(60))
        )
    score = np.array([value for *_, value in fits])
    weight = np.exp(score - score.max()) / np.exp(score - score.max()).sum()
    out = BruteForce(3)
    for model, w, (beta, cov, _) in zip(models, weight, fits, strict=True):
        for i, j in enumerate([0, *(j + 1 for j in model)]):
            out.add(j, w, stats.norm(beta[i], np.sqrt(cov[i, i])))
    problem = Problem.build(x, y, coef_prior="bic", model_prior="uniform", family="poisson")
    out.check(Posterior(problem, enumerate_models(problem)), 1e-5)


def frame(rows: int = 60) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(8)
    X = pd.DataFrame(rng.normal(size=(rows, 3)), columns=["dose", "age", "noise"])
    X["arm"] = pd.Categorical(rng.choice(["a", "b", "c"], rows))
    y = 1.0 + X["dose"] + 0.3 * X["age"] + (X["arm"] == "b") + rng.normal(size=rows)
    return X, pd.Series(y, name="y")


def test_confint_of_an_estimator_has_the_rows_of_its_coefficients() -> None:
    X, y = frame()
    model = BGLMRegressor(always_in=["age"]).fit(X, y)
    table, known = model.confint(), model.coefficients()
    assert list(table.columns) == ["mean", "sd", "lower", "upper", "probability"]
    assert list(table.index) == list(known.index) == ["(intercept)", "dose", "age", "noise", "arm[T.b]", "arm[T.c]"]
    pd.testing.assert_frame_equal(table[["mean", "sd", "probability"]], known[["mean", "sd", "probability"]])
    given = model.confint(conditional=True)
    assert given["mean"].to_numpy() == pytest.approx(known["conditional_mean"].to_numpy())
    assert (given["lower"] < given["upper"]).all()
    wide, narrow = model.confint(0.99), model.confint(0.5)
    assert ((wide["lower"] <= narrow["lower"]) & (narrow["upper"] <= wide["upper"])).all()


def test_density_integrates_to_one_and_agrees_with_its_quantiles() -> None:
    X, y = frame()
    model = BGLMRegressor(coef_prior="hyper-g").fit(X, y)
    found = model.coefficient_density("age", points=2001)
    assert np.trapezoid(found.density, found.value) == pytest.approx(0.998, abs=1e-4)
    assert found.zero == pytest.approx(1.0 - model.confint().loc["age", "probability"], abs=1e-12)
    for p in (0.05, 0.3, 0.9):
        given = found.quantile(p, conditional=True)
        assert np.interp(given, found.value, np.cumsum(found.density) * np.diff(found.value)[0]) == pytest.approx(
            p - 0.001, abs=2e-3
        )
        whole = found.quantile(p)
        if whole != 0.0:
            assert found.cdf(whole) == pytest.approx(p, abs=1e-8)
    # The distribution function jumps at zero by the mass there.
    assert found.cdf(0.0) - found.cdf(-1e-12) == pytest.approx(found.zero, abs=1e-8)
    assert list(found.frame().columns) == ["value", "density", "averaged"]


def test_draws_have_the_quantiles_of_the_mixture() -> None:
    X, y = frame()
    model = BGLMRegressor().fit(X, y)
    size = 20_000
    draws = CoefficientPosteriors(model.posterior_.predictor()).draw(size, np.random.default_rng(2))
    table = coefficient_intervals(model.posterior_, LEVEL)
    for j in range(draws.shape[1]):
        for end, p in zip(("lower", "upper"), ENDS, strict=True):
            at = table[end][j]
            below, upto = (draws[:, j] < at).mean(), (draws[:, j] <= at).mean()
            error = 4.0 * np.sqrt(p * (1.0 - p) / size)
            assert below - error <= p <= upto + error
    # Coefficients of one model are drawn together: those of a factor are in or out at once.
    arms = [j for j, name in enumerate(model.posterior_.problem.names) if name == "arm"][0] + 1
    assert ((draws[:, arms] != 0.0) == (draws[:, arms + 1] != 0.0)).all()


@pytest.mark.parametrize("level", [0.0, 1.0, "much", float("nan")])
def test_bad_levels_are_refused(level: Any) -> None:
    X, y = frame()
    with pytest.raises(InputError, match="level must lie between 0 and 1"):
        BGLMRegressor().fit(X, y).confint(level)


def test_unknown_coefficients_are_refused() -> None:
    X, y = frame()
    model = BGLMRegressor().fit(X, y)
    with pytest.raises(InputError, match=r"'arm' has no coefficient; those there are belong to \(intercept\), dose"):
        model.coefficient_density("arm")
    with pytest.raises(InputError, match="points must be a whole number"):
        model.coefficient_density("age", points=1)


def test_a_term_that_no_model_has_is_zero() -> None:
    X, y = frame()
    X["constant"] = 1.0
    with pytest.warns(UserWarning, match="constant"):
        model = BGLMRegressor().fit(X, y)
    assert model.confint().loc["constant", ["mean", "lower", "upper", "probability"]].tolist() == [0.0] * 4
    assert model.confint(conditional=True).loc["constant", ["lower", "upper"]].isna().all()
    with pytest.raises(InputError, match="its coefficient is zero"):
        model.coefficient_density("constant")


def test_intervals_of_classes_are_on_the_scale_of_the_linear_predictor() -> None:
    X, _ = frame(200)
    y = np.where(X["dose"] + np.random.default_rng(3).logistic(size=200) > 0.0, "yes", "no")
    table = BGLMClassifier().fit(X, y).confint()
    assert 0.0 < table.loc["dose", "lower"] < 1.0 < table.loc["dose", "upper"] < 2.0
