"""Predictive distributions and coefficients against the conjugate formulas written out on the raw rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from brute import brute_force, lazy_chains, resid_share, small_problem
from hypothesis import given
from hypothesis import strategies as st
from plain import invert_root_plain, mixture_quantiles_plain
from running import coefficients
from scipy import stats
from scipy.optimize import brentq

from modejump.core.errors import InputError
from modejump.likelihoods.shrinkage import gauss_rule, posterior_g
from modejump.posterior import Posterior
from modejump.posterior.fits import invert_root, keep_models, single_model
from modejump.posterior.prediction import distribution
from modejump.posterior.prediction.distribution import NewRows, new_rows
from modejump.posterior.prediction.gaussian import reduce_nodes
from modejump.posterior.prediction.mixture import make_tails, mixture_quantiles, quantile, tail_and_density, upper_tail
from modejump.priors.coefficients import COEF_PRIORS
from modejump.problem.problem import Problem
from modejump.samplers.result import members_of


@dataclass(frozen=True)
class Case:
    """A small data set with a factor, a term always in and case weights, and rows to predict."""

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    new: np.ndarray

    fixed = (5,)
    candidates = (0, 1, 2, 3, 4)

    def problem(self, **options: Any) -> Problem:
        terms = {"a": [0], "b": [1], "f": [2, 3], "c": [4], "d": [5]}
        return Problem.build(self.x, self.y, terms=terms, always_in=["d"], weights=self.weights, **options)


@pytest.fixture(scope="module")
def case() -> Case:
    rng = np.random.default_rng(51)
    n = 26
    x = rng.normal(size=(n + 7, 6)) + 0.6 * rng.normal(size=(n + 7, 1)) + 3.0
    x[:, 2:4] = np.eye(3)[np.arange(n + 7) % 3][:, 1:]
    y = 1.0 + 0.6 * x[:n, 0] - 0.5 * x[:n, 4] + 0.8 * x[:n, 5] + rng.normal(size=n)
    return Case(x[:n], y, rng.integers(1, 4, size=n).astype(float), x[n:])


@dataclass
class Component:
    """One model with one g, on the raw scale: the posterior of all its coefficients."""

    weight: float
    columns: list[int]
    mean: np.ndarray
    unit_covariance: np.ndarray
    variance: float
    df: float


def twin(case: Case, problem: Problem, posterior: Posterior) -> list[Component]:
    """The mixture from penalised normal equations on raw rows: nothing is projected out or scaled."""
    data, w = problem.data, np.diag(case.weights)
    n, base = len(case.y), np.column_stack([np.ones(len(case.y)), case.x[:, case.fixed]])
    out = []
    table = posterior.models(limit=None)
    for features, weight in zip(table["features"], table["probability"], strict=True):
        members = problem.index_of(features)
        cols = [c for t in members for c in range(data.first[t], data.first[t + 1])]
        xm = case.x[:, [case.candidates[c] for c in cols]]
        k = len(cols)
        hat = base @ np.linalg.solve(base.T @ w @ base, base.T @ w)
        z, rest = xm - hat @ xm, case.y - hat @ case.y
        full = np.hstack([base, xm])
        left = case.y - full @ np.linalg.lstsq(np.sqrt(w) @ full, np.sqrt(w) @ case.y)[0]
        resid = float(left @ w @ left) / float(rest @ w @ rest)
        nodes, inner = posterior_g(problem.coef_prior, data.coef_prior.par, data.n, data.base, k, resid)
        # Empirical Bayes may choose g = 0; a minute g does the same without a division by zero.
        for g, share in zip(np.maximum(nodes, 1e-9), inner, strict=True):
            precision = full.T @ w @ full
            if np.isfinite(g):
                precision[2:, 2:] += z.T @ w @ z / g
            mean = np.linalg.solve(precision, full.T @ w @ case.y)
            penalty = mean[2:] @ (z.T @ w @ z) @ mean[2:] / g if np.isfinite(g) and k else 0.0
            error = case.y - full @ mean
            ss = float(error @ w @ error) + penalty
            df = case.weights.sum() - 2 - (k if np.isinf(g) else 0)
            variance = ss / df
            if problem.coef_prior.name == "known-variance":
                variance, df = problem.coef_prior.sigma2, np.inf  # type: ignore[attr-defined]
            out.append(Component(weight * share, cols, mean, np.linalg.inv(precision), variance, df))
    assert n == len(case.x)
    return out


def predictive_parts(case: Case, parts: list[Component]) -> tuple[np.ndarray, ...]:
    """Location, scale, weight and degrees of freedom of each component, by new row."""
    location, scale = [], []
    for part in parts:
        row = np.column_stack(
            [
                np.ones(len(case.new)),
                case.new[:, case.fixed],
                case.new[:, [case.candidates[c] for c in part.columns]],
            ]
        )
        location.append(row @ part.mean)
        scale.append(np.sqrt(part.variance * (1 + np.einsum("ij,jk,ik->i", row, part.unit_covariance, row))))
    weight = np.array([part.weight for part in parts])
    return np.array(location), np.array(scale), weight / weight.sum(), np.array([part.df for part in parts])


def arranged(case: Case, problem: Problem) -> NewRows:
    return new_rows(problem, case.new[:, case.candidates], case.new[:, case.fixed])


@pytest.mark.parametrize("name", sorted(COEF_PRIORS))
def test_prediction_is_the_conjugate_mixture(case: Case, name: str) -> None:
    problem = case.problem(coef_prior=name)
    posterior = Posterior(problem, brute_force(problem))
    # All models, none left out: the twin has them all.
    every = {"bma": keep_models(problem, posterior.result, mass=2.0)}
    assert len(every["bma"].weight) == posterior.n_models
    posterior = replace(posterior, kept=every)
    location, scale, weight, df = predictive_parts(case, twin(case, problem, posterior))
    new = arranged(case, problem)
    predictor = posterior.predictor()
    mean, std = predictor.mean(new), predictor.std(new)
    assert np.allclose(mean, weight @ location, rtol=0, atol=1e-7 * scale.max())
    spread = np.array([1.0 if np.isinf(v) else v / (v - 2) for v in df])[:, None] * scale**2
    assert np.allclose(std, np.sqrt(weight @ (spread + location**2) - (weight @ location) ** 2), rtol=1e-5)
    lower, upper = predictor.interval(new, 0.9)
    law = stats.t(df) if np.isfinite(df).all() else stats.norm()
    for i in range(len(case.new)):
        for end, p in ((lower[i], 0.05), (upper[i], 0.95)):

            def excess(x: float, i: int = i, p: float = p) -> float:
                return float(weight @ law.cdf((x - location[:, i]) / scale[:, i])) - p

            assert end == pytest.approx(brentq(excess, -1e3, 1e3, xtol=1e-12), abs=2e-6 * scale[:, i].min())


@pytest.mark.parametrize("name", ["g", "hyper-g", "bic", "known-variance"])
def test_coefficients_are_those_of_the_conjugate_mixture(case: Case, name: str) -> None:
    problem = case.problem(coef_prior=name)
    posterior = Posterior(problem, brute_force(problem))
    posterior = replace(posterior, kept={"bma": keep_models(problem, posterior.result, mass=2.0)})
    parts = twin(case, problem, posterior)
    table = coefficients(posterior)
    assert table.index.tolist() == ["(intercept)", "d", "a", "b", "f[1]", "f[2]", "c"]
    held, first, second = np.zeros(7), np.zeros(7), np.zeros(7)
    for part in parts:
        factor = 1.0 if np.isinf(part.df) else part.df / (part.df - 2)
        where = [0, 1, *(c + 2 for c in part.columns)]
        held[where] += part.weight
        first[where] += part.weight * part.mean
        second[where] += part.weight * (factor * part.variance * np.diag(part.unit_covariance) + part.mean**2)
    assert np.allclose(table["probability"], held)
    assert np.allclose(table["mean"], first, atol=1e-7)
    assert np.allclose(table["sd"], np.sqrt(second - first**2), atol=1e-6)
    assert np.allclose(table["conditional_mean"], first / held, atol=1e-7)
    assert np.allclose(table["conditional_sd"], np.sqrt(second / held - (first / held) ** 2), atol=1e-6)


def test_names_of_coefficients(case: Case) -> None:
    problem = case.problem()
    posterior = Posterior(problem, brute_force(problem))
    table = coefficients(posterior, columns=["a", "b", "f: red", "f: blue", "c"], base_columns=["dose"])
    assert table.index.tolist() == ["(intercept)", "dose", "a", "b", "f: red", "f: blue", "c"]


def test_best_and_median_use_one_model(case: Case) -> None:
    problem = case.problem(coef_prior="bic")
    posterior = Posterior(problem, brute_force(problem))
    new = arranged(case, problem)
    for kind, features in (("best", posterior.best_model()), ("median", posterior.median_model())):
        cols = [c for t in problem.index_of(features) for c in range(problem.data.first[t], problem.data.first[t + 1])]
        rows = np.column_stack([np.ones(len(case.y)), case.x[:, case.fixed], case.x[:, cols]])
        root = np.sqrt(case.weights)
        beta = np.linalg.lstsq(rows * root[:, None], case.y * root)[0]
        row = np.column_stack([np.ones(len(case.new)), case.new[:, case.fixed], case.new[:, cols]])
        assert np.allclose(posterior.predictor(kind).mean(new), row @ beta)
    with pytest.raises(InputError, match="kind must be one of"):
        posterior.predictor("mean")


def test_without_intercept_and_base() -> None:
    rng = np.random.default_rng(52)
    x = rng.normal(size=(20, 3))
    y = x[:, 0] + 0.5 * rng.normal(size=20)
    problem = Problem.build(x, y, intercept=False, coef_prior="g")
    posterior = Posterior(problem, brute_force(problem))
    new = new_rows(problem, rng.normal(size=(4, 3)))
    assert new.base.shape == (4, 0)
    lower, upper = posterior.predictor().interval(new)
    mean = posterior.predictor().mean(new)
    assert ((lower < mean) & (mean < upper)).all()
    assert coefficients(posterior).index.tolist() == ["x0", "x1", "x2"]


def test_no_term_to_choose() -> None:
    rng = np.random.default_rng(59)
    x = rng.normal(size=(20, 1))
    y = 1.0 + 2.0 * x[:, 0] + rng.normal(size=20)
    problem = Problem.build(x, y, always_in=["x0"])
    posterior = Posterior(problem, brute_force(problem))
    assert posterior.inclusion.empty
    assert posterior.best_model() == posterior.median_model() == ()
    assert posterior.verdict == "The only possible model was evaluated: the probabilities are exact."
    row = np.column_stack([np.ones(20), x[:, 0]])
    beta, (rss,), *_ = np.linalg.lstsq(row, y)
    new = new_rows(problem, np.zeros((20, 0)), x)
    leverage = np.einsum("ij,jk,ik->i", row, np.linalg.inv(row.T @ row), row)
    half = stats.t.ppf(0.95, 18) * np.sqrt(rss / 18 * (1 + leverage))
    lower, upper = posterior.predictor().interval(new)
    assert np.allclose(lower, row @ beta - half)
    assert np.allclose(upper, row @ beta + half)
    assert coefficients(posterior).index.tolist() == ["(intercept)", "x0"]


def test_more_terms_than_bits_in_a_word() -> None:
    rng = np.random.default_rng(60)
    problem = Problem.build(rng.normal(size=(30, 70)), rng.normal(size=30))
    kept = single_model(problem, [3, 64, 69])
    assert kept.words.shape == (1, 2)
    assert members_of(kept.words[0]) == [3, 64, 69]
    assert kept.resid[0] == pytest.approx(resid_share(problem, (3, 64, 69)), rel=1e-12)


def test_few_degrees_of_freedom_have_no_variance() -> None:
    rng = np.random.default_rng(53)
    problem = Problem.build(rng.normal(size=(3, 1)), rng.normal(size=3))
    posterior = Posterior(problem, brute_force(problem))
    new = new_rows(problem, np.zeros((2, 1)))
    assert np.isinf(posterior.predictor().std(new)).all()
    lower, upper = posterior.predictor().interval(new)
    assert np.isfinite(lower).all()
    assert np.isfinite(upper).all()
    assert np.isinf(coefficients(posterior)["sd"]).all()


def test_a_perfect_fit_predicts_almost_without_error() -> None:
    rng = np.random.default_rng(54)
    x = rng.normal(size=(40, 3))
    y = 1.0 + 2.0 * x[:, 0]
    for prior in ("g", "hyper-g", "jzs", "bic"):
        problem = Problem.build(x, y, coef_prior=prior)
        posterior = Posterior(problem, brute_force(problem))
        fresh = rng.normal(size=(5, 3))
        new = new_rows(problem, fresh)
        lower, upper = posterior.predictor().interval(new)
        truth = 1.0 + 2.0 * fresh[:, 0]
        assert np.isfinite(posterior.predictor().std(new)).all()
        assert ((lower <= truth + 0.2) & (truth - 0.2 <= upper)).all()
        if prior != "g":
            # With a free or infinite g nothing is shrunk: the floor of the residual share is all that is
            # left.
            assert (np.abs(posterior.predictor().mean(new) - truth) < 1e-6).all()
            assert (upper - lower < 1e-5).all()


def test_dependent_columns_never_predict_together() -> None:
    rng = np.random.default_rng(55)
    x = rng.normal(size=(25, 2))
    x = np.column_stack([x, x[:, 0]])
    problem = Problem.build(x, x[:, 0] + 0.2 * rng.normal(size=25))
    posterior = Posterior(problem, brute_force(problem))
    for words in posterior.kept_models("bma").words:
        assert not {0, 2} <= set(members_of(words))
    sure = replace(posterior.result, renormalised=np.array([0.5, 0.1, 0.5]))
    both = Posterior(problem, sure)
    assert both.median_model() == ("x0", "x2")
    with pytest.raises(InputError, match="the median model has linearly dependent columns"):
        both.predictor("median")


@pytest.mark.parametrize("size", [1, 2, 9])
def test_compiled_fit_agrees_with_its_plain_twin(size: int) -> None:
    rng = np.random.default_rng(58)
    z = rng.normal(size=(30, 12))
    gram, corr = z.T @ z, z.T @ rng.normal(size=30)
    cols = np.sort(rng.choice(12, size=size, replace=False))
    coef, root = np.ones(size), np.zeros((size, size))
    invert_root(gram, corr, cols, coef, root)
    plain_coef, plain_root = invert_root_plain(gram, corr, cols)
    assert np.allclose(coef, plain_coef, rtol=1e-10)
    assert np.allclose(root, plain_root, rtol=1e-10, atol=1e-12)
    assert np.allclose(coef, np.linalg.solve(gram[np.ix_(cols, cols)], corr[cols]))


def test_leading_models_hold_the_mass(case: Case) -> None:
    problem = case.problem()
    result = brute_force(problem)
    probability = np.exp(result.models.log_posterior - result.log_evidence)
    kept = keep_models(problem, replace(result, exact=False))
    assert kept.mass >= 0.999
    assert probability[: len(kept.weight) - 1].sum() < 0.999
    # Nearly all of a few models that were enumerated, so that averages agree with inclusion probabilities.
    assert keep_models(problem, replace(result, exact=True)).mass >= 1.0 - 1e-11
    assert kept.weight.sum() == pytest.approx(1.0)
    assert np.allclose(kept.weight / kept.weight[0], probability[: len(kept.weight)] / probability[0])


def test_a_spread_posterior_is_thinned_not_cut() -> None:
    problem = small_problem(np.random.default_rng(56), rows=25, terms=9, signal=0.3)
    result = brute_force(problem)
    kept = keep_models(problem, result, max_models=40)
    assert len(kept.weight) <= 40
    assert kept.mass == pytest.approx(1.0)
    inside = np.array([[j in members_of(words) for j in range(9)] for words in kept.words])
    thinned = np.abs(kept.weight @ inside - result.renormalised)
    probability = np.exp(result.models.log_posterior - result.log_evidence)
    cut = probability[:40] @ result.models.membership(9, 40) / probability[:40].sum()
    # Each of the 20 strata of the tail contributes at most its mass to the error of an inclusion probability.
    stratum = (1.0 - probability[:20].sum()) / 20
    assert thinned.max() < 20 * stratum
    assert thinned.max() < np.abs(cut - result.renormalised).max()


def test_weights_of_sampled_models_are_their_frequencies(case: Case) -> None:
    problem = case.problem()
    result = lazy_chains(problem, brute_force(problem), np.random.default_rng(57))
    kept = keep_models(problem, result)
    visits = np.sort(result.models.visits)[::-1][: len(kept.weight)]
    assert np.allclose(kept.weight, visits / visits.sum())


def test_blocks_of_rows_and_missing_factors_change_nothing(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = case.problem(coef_prior="jzs")
    posterior = Posterior(problem, brute_force(problem))
    new = arranged(case, problem)

    def parts(posterior: Posterior) -> list[np.ndarray]:
        predictor = posterior.predictor()
        return [predictor.mean(new), predictor.std(new), *predictor.interval(new)]

    whole = parts(posterior)
    monkeypatch.setattr(distribution, "_CHUNK", 1)
    monkeypatch.setattr(distribution, "_FACTORS", -1)
    again = Posterior(problem, posterior.result)
    pieces = parts(again)
    assert again.predictor()._kept_fits is None
    for a, b in zip(whole, pieces, strict=True):
        assert np.allclose(a, b, rtol=1e-12)


def test_new_rows_are_checked(case: Case) -> None:
    with pytest.raises(InputError, match="NaN or infinite"):
        new_rows(case.problem(), np.full((2, 5), np.nan), np.zeros((2, 1)))


@pytest.mark.parametrize("df", [1.0, 2.5, 7.0, 46.0, 1e5, np.inf])
def test_tail_table_is_exact(df: float) -> None:
    grid = make_tails(np.array([df]))[0]
    z = np.concatenate([np.linspace(-9, 9, 501), [-1e6, -100.0, 100.0, 1e6]])
    found = np.array([tail_and_density(grid, v) for v in z])
    law = stats.norm() if np.isinf(df) else stats.t(df)
    assert np.abs(found[:, 0] - upper_tail(df, z)).max() < 1e-11
    assert np.abs(found[:, 1] - law.pdf(z)).max() < 1e-9


@given(st.integers(0, 10_000), st.sampled_from([0.001, 0.05, 0.5, 0.95, 0.9999]))
def test_mixture_quantiles_agree_with_the_plain_twin(seed: int, probability: float) -> None:
    rng = np.random.default_rng(seed)
    df, table = np.array([3.0, 12.0, np.inf]), rng.integers(0, 3, 8)
    loc, scale = 10.0 ** rng.uniform(-2, 2) * rng.normal(size=(3, 8)), 10.0 ** rng.uniform(-3, 0.5, (3, 8))
    weight = rng.dirichlet(np.ones(8))[None]
    p, unit, out = np.array([probability]), quantile(df, probability)[:, None], np.empty((3, 1))
    mixture_quantiles(loc, scale, weight, table, make_tails(df), unit, p, out)
    # Compare probabilities and not places: between two well separated components a quantile may be anywhere.
    for found in (out, mixture_quantiles_plain(loc, scale, weight, df[table], p)):
        tail = upper_tail(df[table], (found - loc) / scale) @ weight[0]
        assert np.abs(tail - (1 - probability)).max() < 1e-9


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_gauss_rule_keeps_the_moments(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, weights = np.sort(rng.random(20)), rng.dirichlet(np.ones(20))
    x, w = gauss_rule(nodes, weights, size)
    assert len(x) <= size
    for degree in range(2 * size):
        assert w @ x**degree == pytest.approx(weights @ nodes**degree, rel=1e-9)


def test_gauss_rule_of_a_single_point() -> None:
    x, w = gauss_rule(np.full(5, 0.3), np.full(5, 0.2), 4)
    assert x == pytest.approx([0.3])
    assert w == pytest.approx([1.0])


def lower_end(s: np.ndarray, weight: np.ndarray, left: np.ndarray, n: int, k: int, resid: float) -> float:
    """Quantile 0.05 of a mixture over g, three deviations of the fit out, in units of the average scale."""
    fit, leverage = 3 * np.sqrt((1 - resid) / n), 9 * k / n
    scale = np.sqrt(left / (n - 1) * (1 + 1 / n + s * leverage))

    def excess(x: float) -> float:
        return float(weight @ stats.t.cdf((x - s * fit) / scale, n - 1)) - 0.05

    reach = 50 * scale.max()
    low, high = (s * fit).min() - reach, (s * fit).max() + reach
    return brentq(excess, low, high, xtol=1e-9 * scale.min()) / float(weight @ scale)


@pytest.mark.parametrize("name", ["hyper-g", "hyper-g-n", "jzs", "robust", "intrinsic", "beta-prime"])
@pytest.mark.parametrize("resid", [1 - 1e-9, 0.9, 0.3, 1e-4, 1e-12])
def test_few_values_of_g_stand_for_its_posterior(name: str, resid: float) -> None:
    prior = COEF_PRIORS[name]()
    for n, k in ((15, 1), (15, 4), (60, 8), (2000, 3)):
        g, weight = posterior_g(prior, prior.compile(n, 1.0).par, n, 1, k, resid)
        many = lower_end(g / (1 + g), weight, resid + (1 - resid) / (1 + g), n, k, resid)
        shrink, few, left = reduce_nodes(g, weight, resid)
        assert len(few) <= 8
        assert abs(lower_end(shrink, few, left, n, k, resid) - many) < 1e-5
