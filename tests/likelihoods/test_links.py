"""Links without a variance that cancels, probit and cloglog: fits by the observed information, with Laplace's own."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pandas as pd
import pytest
from family_twin import fit as plain_fit
from family_twin import laplace, log_likelihood, mean_of
from scipy.optimize import linprog

from modejump import BGLMClassifier, BGLMRegressor, GPrior
from modejump.likelihoods.columns import fit_columns
from modejump.likelihoods.glm.binomial import _cloglog_bend, _probit_bend
from modejump.likelihoods.glm.newton import has_estimate, new_glm_work
from modejump.problem.problem import Problem

LINKS = ["probit", "cloglog"]


def simulate(link: str, seed: int, rows: int = 100, columns: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    mean = mean_of(link, 0.2 + x @ np.array([0.8, -0.5, 0.0])[:columns])[0]
    return x, (rng.random(rows) < mean).astype(float)


@pytest.mark.parametrize("link", LINKS)
def test_every_model_with_an_estimate_is_worth_what_scoring_says(link):
    # Scoring by the expected information converges linearly for these links, at times as slowly as rows move off.
    for seed in range(12):
        x, y = simulate(link, seed)
        problem = Problem.build(x, y, family="binomial", link=link, coef_prior=GPrior(g=len(y)))
        data, worth = problem.data, laplace("binomial", link)
        work = new_glm_work(data.glm, 3)
        for k in range(1, 4):
            for columns in itertools.combinations(range(3), k):
                found = fit_columns(data.glm, work, np.array(columns, np.int64), data.coef_prior, data.n)
                assert found == pytest.approx(worth(x[:, columns], y) - worth(x[:, :0], y), abs=1e-6)


@pytest.mark.parametrize("link", LINKS)
def test_laplace_approaches_the_integral_of_the_likelihood(link):
    """Brute force over intercept and slope; the error falls as one over the observations."""
    x, y = simulate(link, 5, rows=40, columns=1)
    errors = []
    for copies in (1.0, 16.0):
        n = copies * len(y)
        problem = Problem.build(
            x, y, family="binomial", link=link, coef_prior=GPrior(g=n), weights=np.full(len(y), copies)
        )
        logs = []
        for columns in (1, 0):
            design = np.column_stack([np.ones(len(y)), x[:, :columns]])
            coef, info, _, _ = plain_fit("binomial", link, design, y)
            root = np.linalg.cholesky(np.linalg.inv(copies * info))
            u, cell = np.linspace(-8.0, 8.0, 161, retstep=True)
            mesh = np.stack(np.meshgrid(*[u] * len(coef), indexing="ij"), axis=-1).reshape(-1, len(coef))
            points = coef + mesh @ root.T
            value = copies * np.array([log_likelihood("binomial", link, design @ p, y, 1.0) for p in points])
            if columns:
                precision = copies * (info[1, 1] - info[0, 1] ** 2 / info[0, 0])
                value += 0.5 * np.log(precision / n / (2.0 * np.pi)) - 0.5 * precision / n * points[:, 1] ** 2
            logs.append(np.logaddexp.reduce(value) + np.log(cell ** len(coef) * np.linalg.det(root)))
        data = problem.data
        found = fit_columns(data.glm, new_glm_work(data.glm, 1), np.array([0]), data.coef_prior, data.n)
        errors.append(found - (logs[0] - logs[1]))
    # As for the gamma family: c/n + O(1/n^2), so that 16 times the observations leave a sixteenth of it.
    assert abs(errors[0]) < 0.5
    assert abs(errors[1]) < abs(errors[0]) / 8.0


def test_second_derivatives_by_many_digits():
    with mpmath.workdps(400):
        for t in (-37.0, -30.5, -29.5, -8.0, -1.0, 0.0, 0.3, 5.0, 30.0):
            mills = mpmath.npdf(t) / mpmath.ncdf(t)
            # Beyond -30 the formula keeps two terms of a series in 1/t^2.
            tolerance = 1e-12 if t > -30.0 else 1e-5
            assert _probit_bend.py_func(t, float(mills)) == pytest.approx(float(mills * (mills + t)), rel=tolerance)
        for log_hazard in (-600.0, -30.0, -4.7, -4.5, -1.0, 0.0, 2.0, 6.0):
            h = mpmath.exp(log_hazard)
            slope = h / mpmath.expm1(h)
            exact = float(slope * (slope + h - 1))
            assert _cloglog_bend.py_func(float(h), float(slope)) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("link", LINKS)
def test_an_offset_far_from_the_fit_does_not_stop_it(link):
    # Rows begin on the far side of what they are, where the information underflows on the other.
    x, y = simulate(link, 1)
    shift = {"probit": 6.0, "cloglog": 4.0}[link]
    plain = BGLMClassifier(link=link).fit(x, y)
    moved = BGLMClassifier(link=link).fit(x, y, offset=np.full(len(y), -shift))
    np.testing.assert_allclose(moved.inclusion_["probability"], plain.inclusion_["probability"], rtol=0, atol=1e-7)


def separates(design: np.ndarray, y: np.ndarray, counts: bool) -> bool:
    """Whether coefficients may grow for ever: by a linear programme for the rows that would move off."""
    if counts:
        side, fixed = -design[y == 0.0], design[y > 0.0]
    else:
        side, fixed = np.where(y > 0.0, 1.0, -1.0)[:, None] * design, design[:0]
    if not len(side):
        return False
    best = linprog(
        -side.sum(axis=0), A_ub=np.vstack([-side, side]), b_ub=np.repeat([0.0, 1.0], len(side)),
        A_eq=fixed if len(fixed) else None, b_eq=np.zeros(len(fixed)) if len(fixed) else None, bounds=(None, None),
    )  # fmt: skip
    return bool(-best.fun > 1e-7)


@pytest.mark.parametrize(
    ("family", "link"), [("binomial", "logit"), ("binomial", "probit"), ("binomial", "cloglog"), ("poisson", "log")]
)
def test_a_model_has_no_estimate_exactly_where_rows_may_move_off(family, link):
    """Few rows, long tails, columns of zeros and ones; no overlap is so narrow that information is lost in it."""
    told = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        rows = int(rng.integers(12, 40))
        x = rng.normal(size=(rows, 3))
        if seed % 3 == 0:
            x = np.sign(x) * np.exp(1.5 * np.abs(x))
        elif seed % 3 == 1:
            x[:, 1] = x[:, 1] > 0.8
        eta = rng.normal() + x @ (rng.normal(size=3) / (1.0 + x.std(axis=0)))
        y = rng.poisson(np.exp(eta - 1.0)) if family == "poisson" else rng.random(rows) < mean_of("logit", 2.0 * eta)[0]
        y = y.astype(float)
        if np.ptp(y) == 0.0 or np.ptp(x[:, 1]) == 0.0:
            continue
        data = Problem.build(x, y, family=family, link=link, coef_prior="g").data
        for k in range(1, 4):
            for columns in itertools.combinations(range(3), k):
                work, cols = new_glm_work(data.glm, 3), np.array(columns, np.int64)
                found = fit_columns(data.glm, work, cols, data.coef_prior, data.n)
                design = np.column_stack([np.ones(rows), x[:, columns]])
                assert np.isfinite(found)
                told.append((has_estimate(work), separates(design, y, family == "poisson")))
    estimated, off = np.array(told).T
    np.testing.assert_array_equal(estimated, ~off)
    assert 5 < off.sum() < len(off) - 5


@pytest.mark.parametrize("prior", ["g", "hyper-g-n", "bic"])
@pytest.mark.parametrize("link", ["log", "inverse"])
@pytest.mark.parametrize("unit", [1e-12, 1e-5, 1e6, 1e12])
def test_amounts_may_be_in_any_unit(link, prior, unit):
    rng = np.random.default_rng(3)
    x = rng.uniform(size=(70, 3))
    eta = 1.0 + 2.0 * x[:, 0]
    y = rng.gamma(4.0, (np.exp(eta) if link == "log" else 1.0 / eta) / 4.0)
    one, other = (BGLMRegressor(family="gamma", link=link, coef_prior=prior).fit(x, u * y) for u in (1.0, unit))
    pd.testing.assert_frame_equal(other.inclusion_, one.inclusion_, atol=1e-9)
    np.testing.assert_allclose(other.predict(x, interval=0.9) / unit, one.predict(x, interval=0.9), rtol=1e-6)
