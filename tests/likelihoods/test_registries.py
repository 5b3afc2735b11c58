"""What every prior, family and link in a registry promises, and that one added from outside is as good as those inside.

A prior, family or link that joins its registry is tested here by being there.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from running import enumerate_models, mjmcmc
from scipy import optimize, special, stats

from modejump import BGLMClassifier, BGLMRegressor, Budget
from modejump.core.compilation import OutsideCode, entry, kernel
from modejump.likelihoods import FAMILIES, Family, Link, register_link, resolve_family
from modejump.likelihoods.family import LINKS
from modejump.likelihoods.glm.family import GlmFamily
from modejump.likelihoods.glm.newton import BLOCK, new_glm_work
from modejump.likelihoods.glm.rows import fast_exp, information_slope, score_rows
from modejump.priors.coefficients import COEF_PRIORS, CoefPrior, HyperG
from modejump.priors.coefficients.base import compiled, plain
from modejump.problem.problem import Problem


def pairs() -> list[Family]:
    return [resolve_family(name, link.name) for name, family in FAMILIES.items() for link in family.links]


def glms() -> list[GlmFamily]:
    return [family for family in pairs() if isinstance(family, GlmFamily)]


# Contracts


@pytest.mark.parametrize("prior", COEF_PRIORS.values(), ids=list(COEF_PRIORS))
def test_a_prior_has_formulas_with_twins(prior: type[CoefPrior]) -> None:
    for name in ("log_bayes_factor", "log_laplace", "mixture_form"):
        assert (getattr(prior, name) is None) == (getattr(prior, f"{name}_plain") is None)
    assert prior.log_bayes_factor is not None or prior.mixture_form is not None
    # For generalised linear models there is a formula, too, unless the variance is known.
    assert prior.known_variance == (prior.log_laplace is None and prior.mixture_form is None)
    assert COEF_PRIORS[prior.name] is prior and [*COEF_PRIORS.values()][prior.code] is prior
    assert prior.shrinks or prior.mixture_form is None
    if prior.shrinks and prior.mixture_form is None:
        assert prior().single_g(prior().compile(50.0, 1.0).par, 3.0) >= 0.0


@pytest.mark.parametrize("family", pairs(), ids=repr)
def test_a_family_answers_for_itself(family: Family) -> None:
    assert pickle.loads(pickle.dumps(family)) == family
    assert family.response in ("number", "class", "count", "amount")
    eta = np.linspace(0.1, 2.0, 7)
    np.testing.assert_allclose(family.predictor(family.mean(eta)), eta, rtol=1e-9)
    assert "{}" not in family.latex("m") + family.text("y") and "m" in family.latex("m") and "y" in family.text("y")
    mean = family.mean(eta)
    y = np.where(np.arange(7) % 2, mean, mean * 0.5)
    deviance = family.deviance(y, mean)
    np.testing.assert_allclose(deviance[1::2], 0.0, atol=1e-12)
    assert (deviance[::2] > 0.0).all()
    assert family.explained(y, y) == pytest.approx(1.0)
    assert family.explained(y, np.full(7, y.mean())) == pytest.approx(0.0)
    assert family.bounded == (family.perfect is not None)
    assert family.without_rows(2).rows == 0


def responses(family: Family, mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if family.response == "class":
        return (rng.random(len(mean)) < mean).astype(float)
    return rng.poisson(mean).astype(float) if family.response == "count" else rng.gamma(3.0, mean / 3.0)


def glm_of(family: Family, seed: int = 3) -> tuple[Problem, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (60, 4))
    eta = 1.5 + 0.8 * x[:, 0] if family.link == "inverse" else 0.3 + 0.8 * x[:, 0]
    weights = rng.integers(1, 3, 60).astype(float)
    y = responses(family, family.mean(eta), rng)
    return Problem.build(x, y, weights=weights, family=family.name, link=family.link), eta


@entry
def rows_at(glm, work, eta):  # type: ignore[no-untyped-def]
    """Log likelihood of the first rows, given their predictors."""
    for r in range(len(eta)):
        work.eta[r] = eta[r]
    return score_rows(glm, work, 0, len(eta))


@entry
def slope_at(glm, t):  # type: ignore[no-untyped-def]
    return information_slope(glm, t)


@pytest.mark.parametrize("family", glms(), ids=repr)
def test_score_and_information_are_derivatives(family: GlmFamily) -> None:
    problem, eta = glm_of(family)
    work, h = new_glm_work(problem.data.glm, 1), 1e-5
    assert len(eta) < BLOCK
    rows_at(problem.data.glm, work, eta)
    score, info = work.score[:60].copy(), work.info[:60].copy()
    for r in range(0, 60, 7):
        step = np.zeros(60)
        step[r] = h
        low, here, high = (rows_at(problem.data.glm, work, eta + s * step) for s in (-1, 0, 1))
        assert score[r] == pytest.approx((high - low) / (2 * h), rel=1e-5, abs=1e-6)
        assert info[r] == pytest.approx(-(high - 2 * here + low) / h**2, rel=2e-3, abs=2e-3)
    if family.link_function.information_slope is None:
        assert family.bounded
        return
    # The expected information, as a function of the predictor.
    work.scalars["expected"] = 1

    def log_information(t: float) -> float:
        rows_at(problem.data.glm, work, np.full(60, t))
        return float(np.log(work.info[0]))

    for t in (-1.0, 0.2, 1.3):
        slope, curve = slope_at(problem.data.glm, t)
        low, here, high = (log_information(t + s * 1e-4) for s in (-1, 0, 1))
        assert slope == pytest.approx((high - low) / 2e-4, rel=1e-5, abs=1e-6)
        assert curve == pytest.approx((high - 2 * here + low) / 1e-8, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("family", glms(), ids=repr)
def test_a_response_has_a_distribution(family: GlmFamily) -> None:
    if family.response == "class":
        return
    assert family.link_function.positive
    log_mean, shape = np.array([0.3]), np.array([2.5])
    y = np.concatenate([[-1.0], np.arange(0.0, 400.0, 1.0 if family.response == "count" else 0.02)])
    value = family.cdf(y, log_mean, shape)
    assert value[0] == 0.0 and (np.diff(value) >= 0.0).all() and value[-1] == pytest.approx(1.0)
    mass, middle = np.diff(value), y[1:] if family.response == "count" else 0.5 * (y[1:] + y[:-1])
    mean = np.exp(log_mean)
    assert mass @ middle == pytest.approx(mean[0], rel=1e-4)
    assert mass @ (middle - mean) ** 2 == pytest.approx(family.noise(mean, mean**2, shape)[0], rel=1e-3)
    assert (family.sharpness(np.array([0.0, 3.0]), shape) > 0.0).all()


# From outside


@dataclass(frozen=True)
class Charge(CoefPrior):
    """A criterion that charges so much for each column."""

    charge: float = 2.0

    name = "charge"
    shrinks = False
    needs_information = False
    log_bayes_factor = compiled(lambda par, n, base, k, resid: -0.5 * n * np.log(resid) - k * par[0])
    log_bayes_factor_plain = plain(lambda par, n, base, k, resid: -0.5 * n * np.log(resid) - k * par[0])
    log_laplace = compiled(lambda par, n, base, k, log_likelihood, log_det_base, wald: log_likelihood - k * par[0])
    log_laplace_plain = plain(lambda par, n, base, k, log_likelihood, log_det_base, wald: log_likelihood - k * par[0])

    def parameters(self, n: float, tss: float) -> tuple[float, ...]:
        return (self.charge,)


@dataclass(frozen=True)
class HyperFour(CoefPrior):
    """The hyper-g prior with a = 4, known by its mixing prior alone."""

    name = "hyper-four"
    mixture_form = compiled(lambda par, n, base, k: ((0.0, 1.0, 1.0, 2.0, 0.0), 0.0))
    mixture_form_plain = plain(lambda par, n, base, k: ((0.0, 1.0, 1.0, 2.0, 0.0), 0.0))


@kernel
def loglog_rows(glm, work, first, m):  # type: ignore[no-untyped-def]
    total = 0.0
    for r in range(m):
        y, w, h = glm.y[first + r], glm.weight[first + r], np.exp(-work.eta[r])
        share = h / np.expm1(h)
        work.score[r] = w * (y * h - (1.0 - y) * share)
        work.info[r] = w * (y * h + (1.0 - y) * share * (share + h - 1.0))
        total += w * ((1.0 - y) * np.log(-np.expm1(-h)) - y * h)
    return total


LOGLOG = Link(
    "loglog", lambda p: -np.log(-np.log(p)), lambda t: np.exp(-np.exp(-t)), text="loglog {}", rows=loglog_rows
)  # fmt: skip


@kernel
def geometric_rows(glm, work, first, m):  # type: ignore[no-untyped-def]
    total = 0.0
    for r in range(m):
        mu, y, w = fast_exp(work.eta[r]), glm.y[first + r], glm.weight[first + r]
        work.score[r] = w * (y - mu) / (1.0 + mu)
        work.info[r] = w * mu * (1.0 + y) / ((1.0 + mu) * (1.0 + mu))
        total += w * (y * work.eta[r] - (y + 1.0) * np.log1p(mu))
    return total


class Geometric(GlmFamily):
    """Counts with a geometric distribution."""

    name = "geometric"
    links = (Link("log", np.log, np.exp, text="log {}", positive=True, rows=geometric_rows),)
    response = "count"
    flat = (-40.0, 80.0)

    def deviance(self, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return 2.0 * (special.xlogy(y, y / mean) - (y + 1.0) * np.log((y + 1.0) / (mean + 1.0)))

    def noise(self, mean: np.ndarray, second: np.ndarray, shape: np.ndarray) -> np.ndarray:
        return mean + second

    def cdf(self, y: np.ndarray, log_mean: np.ndarray, shape: np.ndarray) -> np.ndarray:
        return stats.geom.cdf(np.floor(y) + 1.0, 1.0 / (1.0 + np.exp(log_mean)))

    def sharpness(self, log_mean: np.ndarray, shape: np.ndarray) -> np.ndarray:
        return np.full(len(log_mean), 0.5)


@pytest.fixture
def outside() -> Iterator[None]:
    links = FAMILIES["binomial"].links
    COEF_PRIORS.register(Charge)
    COEF_PRIORS.register(HyperFour)
    FAMILIES.register(Geometric)
    register_link("binomial", LOGLOG)
    yield
    FAMILIES["binomial"].links = links
    for registry, name in (
        (COEF_PRIORS, "charge"), (COEF_PRIORS, "hyper-four"), (FAMILIES, "geometric"), (LINKS, "geometric log"),
        (LINKS, "binomial loglog"),
    ):  # fmt: skip
        del registry[name]


def table(seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(80, 5))
    return x, 0.7 * x[:, 0] - 0.4 * x[:, 3]


BUDGET = Budget(warmup=500, steps=20_000)


def check_samples(problem: Problem) -> None:
    """MJMCMC finds what enumeration says: exactly, where models are renormalised."""
    exact, sampled = enumerate_models(problem), mjmcmc(problem, chains=2, budget=BUDGET, seed=4)
    np.testing.assert_allclose(sampled.renormalised, exact.renormalised, rtol=0, atol=1e-6)
    assert sampled.batch_means is not None
    np.testing.assert_allclose(sampled.batch_means.mean(axis=(0, 1)), exact.renormalised, rtol=0, atol=0.05)


def test_a_closed_form_from_outside(outside: None) -> None:
    x, eta = table()
    y = eta + np.random.default_rng(6).normal(size=80)
    # A problem of a prior inside comes first: what was compiled for it is no use for the other.
    inside = enumerate_models(Problem.build(x, y, coef_prior="bic"))
    problem = Problem.build(x, y, coef_prior=Charge(0.5 * np.log(80.0)))
    assert isinstance(problem.data.coef_prior.code, OutsideCode)
    np.testing.assert_allclose(enumerate_models(problem).renormalised, inside.renormalised, rtol=1e-12)
    one, other = (BGLMRegressor(coef_prior=p).fit(x, y) for p in ("bic", Charge(0.5 * np.log(80.0))))
    np.testing.assert_allclose(other.predict(x, interval=0.9), one.predict(x, interval=0.9), rtol=1e-9)


def test_a_mixture_from_outside(outside: None) -> None:
    x, eta = table()
    rng = np.random.default_rng(7)
    for family, y in (("gaussian", eta + rng.normal(size=80)), ("poisson", rng.poisson(np.exp(eta)).astype(float))):
        problems = [Problem.build(x, y, family=family, coef_prior=prior) for prior in (HyperG(4.0), "hyper-four")]
        one, other = (enumerate_models(problem) for problem in problems)
        np.testing.assert_allclose(other.renormalised, one.renormalised, rtol=1e-9)
        if family == "gaussian":
            check_samples(problems[1])
        models = [BGLMRegressor(family=family, coef_prior=prior).fit(x, y) for prior in (HyperG(4.0), "hyper-four")]
        np.testing.assert_allclose(models[1].predict(x, interval=0.9), models[0].predict(x, interval=0.9), rtol=1e-9)


def log_marginals(problem: Problem, x: np.ndarray, y: np.ndarray, log_likelihood: Any) -> dict[tuple[str, ...], float]:
    """BIC of all models by an optimiser."""
    found = {}
    for mask in range(32):
        cols = [j for j in range(5) if mask >> j & 1]
        design = np.column_stack([np.ones(len(y)), x[:, cols]])
        best = optimize.minimize(
            lambda b, z: -log_likelihood(z @ b), np.zeros(design.shape[1]), args=(design,), tol=1e-10
        )
        found[tuple(problem.names[j] for j in cols)] = -best.fun - 0.5 * len(cols) * np.log(len(y))
    return found


def test_a_link_from_outside(outside: None) -> None:
    x, eta = table()
    y = (np.random.default_rng(8).random(80) < LOGLOG.mean(eta)).astype(float)
    model = BGLMClassifier(link="loglog", coef_prior="bic", algorithm="enumerate").fit(x, y)

    def log_likelihood(t: np.ndarray) -> float:
        p = LOGLOG.mean(t)
        return float(np.log(np.maximum(np.where(y > 0, p, 1.0 - p), 1e-300)).sum())

    truth = log_marginals(model.problem_, x, y, log_likelihood)
    for features, value in truth.items():
        assert model.log_marginal_likelihood(features) == pytest.approx(value - truth[()], abs=1e-6)
    chance = model.predict_proba(x)[:, 1]
    assert ((chance > 0.0) & (chance < 1.0)).all() and np.corrcoef(chance, LOGLOG.mean(eta))[0, 1] > 0.8
    assert "loglog P" in model.problem_.family.text("y")


def test_a_family_from_outside(outside: None) -> None:
    x, eta = table()
    rng = np.random.default_rng(9)
    y = rng.geometric(1.0 / (1.0 + np.exp(1.0 + eta)), 80) - 1.0
    model = BGLMRegressor(family="geometric", coef_prior="bic", algorithm="enumerate").fit(x, y)
    truth = log_marginals(
        model.problem_, x, y, lambda t: float((y * t - (y + 1.0) * np.log1p(np.exp(t))).sum())
    )  # fmt: skip
    for features, value in truth.items():
        assert model.log_marginal_likelihood(features) == pytest.approx(value - truth[()], abs=1e-6)
    check_samples(model.problem_)
    frame = model.predict(x, interval=0.9)
    assert (frame["lower"] <= frame["mean"]).all() and (frame["mean"] <= frame["upper"]).all()
    assert ((frame["lower"] <= y) & (y <= frame["upper"])).mean() > 0.85
    assert 0.0 < model.score(x, y) < 1.0
    assert "geometric, log link" in model.summary()
