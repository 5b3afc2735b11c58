"""Columns that separate the classes: no estimate, but a supremum, and a mode under Jeffreys' prior."""

import itertools
import warnings

import numpy as np
import pytest
from scipy import optimize, special, stats

from modejump import BernoulliPrior, BGLMClassifier, BGLMRegressor, ModejumpWarning
from modejump.likelihoods.columns import fit_columns
from modejump.likelihoods.glm.newton import new_glm_work
from modejump.posterior.prediction.laplace import laplace_fits
from modejump.problem.problem import Problem

LINKS = ["logit", "probit", "cloglog"]


def log_terms(eta, y, family, link):
    """Log likelihood of each row, and its expected information."""
    if family == "poisson":
        mean = np.exp(eta)
        return y * eta - mean, mean
    if link == "logit":
        p = special.expit(eta)
        return y * eta - np.logaddexp(0.0, eta), p * (1 - p)
    if link == "probit":
        upper, lower = special.log_ndtr(eta), special.log_ndtr(-eta)
        density = -0.5 * eta**2 - 0.5 * np.log(2 * np.pi)
    else:
        hazard = np.exp(eta)
        upper, lower = np.log(-np.expm1(-hazard)), -hazard
        density = eta + lower
    return np.where(y > 0.5, upper, lower), np.exp(2 * density - upper - lower)


def penalised(theta, design, y, family, link):
    terms, info = log_terms(design @ theta, y, family, link)
    return -(terms.sum() + 0.5 * np.linalg.slogdet((design * info[:, None]).T @ design)[1])


def data(rows=60, seed=3):
    """One column that separates, one that does so in part of the rows, and noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    y = (x[:, 0] > 0.2).astype(float)
    # Quasi-complete: where this is one all are of the second class, elsewhere it says nothing.
    x[:, 1] = y * (rng.random(rows) < 0.4)
    return x, y


def values(problem, models, order):
    work = new_glm_work(problem.data.glm, problem.n_columns)
    found = np.zeros(len(models))
    for m in order:
        d = problem.data
        found[m] = fit_columns(d.glm, work, models[m], d.coef_prior, d.n)
    return found


@pytest.mark.parametrize("link", LINKS)
def test_a_separated_model_takes_the_supremum_of_its_likelihood_under_jeffreys(link):
    x, y = data()
    problem = Problem.build(x, y, family="binomial", link=link, coef_prior="jeffreys")
    models = [np.array(c, np.int64) for k in range(5) for c in itertools.combinations(range(4), k)]
    alone = values(problem, models, range(len(models)))
    null = problem.data.glm.null
    for m, columns in enumerate(models):
        if 0 in columns:
            assert alone[m] + null == pytest.approx(0.5 * len(columns) * np.log(2 * np.pi), abs=1e-9)
        elif 1 in columns:
            # In the limit the rows where the column is one are fitted perfectly, and the others as without it.
            rest = x[:, 1] == 0.0
            others = [int(c) for c in columns if c != 1]
            design = np.column_stack([np.ones(rest.sum()), x[rest][:, others]])
            best = optimize.minimize(
                lambda t, z, target: -log_terms(z @ t, target, "binomial", link)[0].sum(), np.zeros(design.shape[1]),
                args=(design, y[rest]), method="BFGS", options={"gtol": 1e-9},
            ).fun  # fmt: skip
            assert alone[m] + null == pytest.approx(0.5 * len(columns) * np.log(2 * np.pi) - best, abs=1e-5)
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(models))
        np.testing.assert_allclose(values(problem, models, order), alone, rtol=0, atol=1e-5)


def test_rows_that_move_off_leave_the_supremum_whatever_came_before():
    # Heavy tails: the column's length is that of a few rows, so that information is lost before the likelihood is up.
    rng = np.random.default_rng(8)
    x = rng.normal(size=(600, 5))
    y = (x[:, 0] + rng.logistic(size=600) > 0).astype(float)
    for j in (3, 4):
        x[:, j] = (1 - y) * (rng.random(600) < 0.1) * np.exp(2.5 * rng.normal(size=600))
    problem = Problem.build(x, y, family="binomial", coef_prior="jeffreys")
    models = [np.array(c, np.int64) for k in range(6) for c in itertools.combinations(range(5), k)]
    alone = np.array([values(problem, models, [m])[m] for m in range(len(models))])
    for m, columns in enumerate(models):
        rest = (x[:, [c for c in columns if c > 2]] == 0.0).all(axis=1)
        design = np.column_stack([np.ones(rest.sum()), x[rest][:, [c for c in columns if c < 3]]])
        best = optimize.minimize(
            lambda t, z, target: -log_terms(z @ t, target, "binomial", "logit")[0].sum(), np.zeros(design.shape[1]),
            args=(design, y[rest]), method="BFGS", options={"gtol": 1e-7},
        ).fun  # fmt: skip
        expected = 0.5 * len(columns) * np.log(2 * np.pi) - best - problem.data.glm.null
        assert alone[m] == pytest.approx(expected, abs=1e-5)
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(models))
        np.testing.assert_allclose(values(problem, models, order), alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("prior", ["g", "hyper-g-n", "eb-local", "bic", "aic"])
def test_under_other_priors_a_separated_model_has_a_marginal_likelihood_whatever_came_before(prior):
    x, y = data()
    problem = Problem.build(x, y, family="binomial", coef_prior=prior)
    models = [np.array(c, np.int64) for c in ([0], [1], [0, 2], [1, 3], [2], [2, 3])]
    alone = values(problem, models, range(6))
    assert np.isfinite(alone).all()
    # The column that separates is worth far more than noise, and noise beside it costs something.
    assert alone[0] > alone[4] + 15.0 and alone[0] > alone[2]
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(6)
        np.testing.assert_allclose(values(problem, models, order), alone, rtol=0, atol=1e-6)


def test_the_formula_of_a_separated_model_is_near_the_integral():
    """Under its own normal prior, by importance sampling; the formula errs on the side of caution."""
    x, y = data(40)
    problem = Problem.build(x, y, family="binomial", coef_prior="g")
    glm, n = problem.data.glm, problem.data.n
    work = new_glm_work(glm, 1)
    found = fit_columns(glm, work, np.array([0]), problem.data.coef_prior, n)
    lower = np.tril(work.hessian[:2, :2])
    np.fill_diagonal(lower, 1 / np.diag(lower))
    design, precision = np.vstack([glm.base, glm.x[[0]]]).T, lower[1, 1] ** 2 / n

    def log_density(theta):
        eta = theta @ design.T
        prior = 0.5 * np.log(precision / (2 * np.pi)) - 0.5 * precision * theta[..., 1] ** 2
        return (y * eta - np.logaddexp(0, eta)).sum(axis=-1) + prior

    mode = optimize.minimize(lambda t: -log_density(t), 0.8 * work.beta[:2])
    proposal = stats.multivariate_t(mode.x, 1.5 * mode.hess_inv, df=4, seed=1)
    theta = proposal.rvs(50_000)
    integral = special.logsumexp(log_density(theta) - proposal.logpdf(theta)) - np.log(len(theta))
    steps = np.linspace(-60, 60, 20_001)
    eta = steps[:, None] * glm.base[0]
    base = special.logsumexp((y * eta - np.logaddexp(0, eta)).sum(axis=1)) + np.log(steps[1] - steps[0])
    assert -5.0 < found - (integral - base) < 0.5


def test_a_separating_column_is_found_and_noise_is_not():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(100, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = BGLMClassifier().fit(x, x[:, 0] > 0)
    probability = model.inclusion_["probability"]
    assert probability["x0"] > 0.99 and probability.drop("x0").max() < 0.3
    assert (model.predict(x) == (x[:, 0] > 0)).all() and np.isfinite(model.coef_).all()


@pytest.mark.parametrize("estimator", [BGLMClassifier, BGLMRegressor])
def test_priors_that_do_not_penalise_size_do_not_meet_silently(estimator):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(100, 4))
    y = (x[:, 0] + rng.logistic(size=100) > 0).astype(float)
    with pytest.warns(ModejumpWarning, match="noise get large probabilities"):
        estimator(coef_prior="jeffreys").fit(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator(coef_prior="jeffreys", model_prior=BernoulliPrior(0.1)).fit(x, y)


@pytest.mark.parametrize(
    ("family", "link"), [("binomial", "logit"), ("binomial", "probit"), ("binomial", "cloglog"), ("poisson", "log")]
)
def test_the_mode_under_jeffreys_prior_stands_for_the_estimate(family, link):
    x, y = data()
    if family == "poisson":
        y = np.where(x[:, 1] > 0, 0.0, np.random.default_rng(1).poisson(2.0, len(y)).astype(float))
    problem = Problem.build(x, y, family=family, link=link, coef_prior="jeffreys")
    models = [np.array(c, np.int64) for c in ([1], [1, 2])] + ([np.array([0])] if family == "binomial" else [])
    fits = laplace_fits(problem, models)
    assert np.isfinite(fits.log_marginal).all()
    glm, at = problem.data.glm, 0
    for columns in models:
        design = np.vstack([glm.base, glm.x[columns]]).T
        mine = fits.coef[at : at + design.shape[1]]
        at += design.shape[1]
        best = optimize.minimize(
            penalised, mine, args=(design, y, family, link), method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
        )  # fmt: skip
        # The objective is flat at its maximum, and no neighbour is better.
        assert penalised(mine, design, y, family, link) <= best.fun + 1e-8
        np.testing.assert_allclose(mine, best.x, rtol=1e-3, atol=1e-3)


def test_prediction_from_separated_models_is_finite_and_right():
    x, y = data(120)
    model = BGLMClassifier(coef_prior="jeffreys", model_prior=BernoulliPrior(0.2)).fit(x, y)
    assert model.inclusion_.loc["x0", "probability"] > 0.99
    new = np.random.default_rng(9).normal(size=(400, 4))
    new[:, 1] = 0.0
    share = model.predict_proba(new)
    assert np.isfinite(share).all()
    assert ((share > 0) & (share < 1)).all()
    assert np.isfinite(model.coef_).all()
    assert ((new[:, 0] > 0.2) == model.predict(new)).mean() > 0.95
