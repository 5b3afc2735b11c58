"""Families other than the Gaussian: reference values, likelihoods by SciPy, quadrature, separation, and regressors."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import REFERENCE as FOLDER
from conftest import read_models
from running import enumerate_models
from scipy import optimize, stats
from scipy.special import gammaln, ndtr
from sklearn.metrics import d2_tweedie_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import modejump
from modejump import (
    BGLMClassifier,
    BGLMRegressor,
    BGNLMRegressor,
    Budget,
    GPrior,
    HyperG,
    InputError,
    ModejumpWarning,
    Space,
)
from modejump.cli import main
from modejump.likelihoods.columns import fit_columns
from modejump.likelihoods.glm.newton import new_glm_work
from modejump.posterior import Posterior
from modejump.problem.problem import Problem

FAMILIES = [
    ("binomial", "logit"),
    ("binomial", "probit"),
    ("binomial", "cloglog"),
    ("poisson", "log"),
    ("gamma", "log"),
    ("gamma", "inverse"),
]


def simulate(family: str, link: str, rows: int = 120, columns: int = 5, seed: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Covariates, two of them correlated, and a response of the family."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    x[:, 1] += 0.8 * x[:, 0]
    if family == "binomial":
        return x, (0.3 + 0.8 * x[:, 0] - 0.6 * x[:, 2] + rng.logistic(size=rows) > 0).astype(float)
    if family == "poisson":
        return x, rng.poisson(np.exp(0.4 + 0.4 * x[:, 0] - 0.3 * x[:, 2])).astype(float)
    mean = 1.0 / (3.0 + 0.4 * np.tanh(x[:, 0])) if link == "inverse" else np.exp(0.4 + 0.4 * x[:, 0])
    return x, rng.gamma(3.0, mean / 3.0)


def subsets(columns: int) -> list[np.ndarray]:
    return [
        np.array(chosen, np.int64) for k in range(columns + 1) for chosen in itertools.combinations(range(columns), k)
    ]


def evaluate(problem: Problem, columns: np.ndarray) -> float:
    """Log marginal likelihood of one model against the base model, without any model before it."""
    data = problem.data
    return fit_columns(data.glm, new_glm_work(data.glm, len(columns)), columns, data.coef_prior, data.n)


def scipy_fit(x: np.ndarray, y: np.ndarray, family: str, link: str) -> tuple[np.ndarray, float, float]:
    """Coefficients (intercept first), shape (gamma only) and log likelihood at the maximum, by a general optimiser."""
    design = np.column_stack([np.ones(len(y)), x])

    def log_likelihood(theta: np.ndarray) -> float:
        eta = design @ theta[: design.shape[1]]
        with np.errstate(all="ignore"):
            if family == "gamma":
                if link == "inverse" and (eta <= 0).any():
                    return -np.inf
                mean, shape = (1.0 / eta if link == "inverse" else np.exp(eta)), np.exp(theta[-1])
                return float(stats.gamma.logpdf(y, a=shape, scale=mean / shape).sum())
            if family == "poisson":
                return float(stats.poisson.logpmf(y, np.exp(eta)).sum())
            if link == "logit":
                return float((y * eta - np.logaddexp(0.0, eta)).sum())
            upper, lower = (
                (ndtr(eta), ndtr(-eta)) if link == "probit" else (-np.expm1(-np.exp(eta)), np.exp(-np.exp(eta)))
            )
            return float((y * np.log(upper) + (1.0 - y) * np.log(lower)).sum())

    start = np.zeros(design.shape[1] + (family == "gamma"))
    start[0] = {"log": np.log(y.mean()), "inverse": 1.0 / y.mean()}.get(link, 0.0)
    best = start
    for _ in range(4):
        best = optimize.minimize(
            lambda t: -log_likelihood(t), best, method="Nelder-Mead",
            options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 20_000, "maxfev": 20_000, "adaptive": True},
        ).x  # fmt: skip
    return best[: design.shape[1]], float(np.exp(best[-1])) if family == "gamma" else 1.0, log_likelihood(best)


# The reference program's names of our priors. Its intrinsic prior has another constant, and its "Jeffreys" and "TG"
# are other priors than ours.
REFERENCE = {
    "g.prior": lambda n: GPrior(g=n),
    "bic.prior": lambda n: "bic",
    "aic.prior": lambda n: "aic",
    "CCH(1,2,0)": lambda n: HyperG(a=3.0),
    "hyper.g.n": lambda n: "hyper-g-n",
    "robust": lambda n: "robust",
    "beta.prime": lambda n: "beta-prime",
    "EB.local": lambda n: "eb-local",
}


@pytest.mark.parametrize("prior", REFERENCE)
@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_the_reference_program_agrees(family, prior):
    data = pd.read_csv(FOLDER / ("breast_cancer_8.csv" if family == "binomial" else "poisson_8.csv"))
    tables = read_models("glm_models.csv"), pd.read_csv(FOLDER / "glm_pips.csv")
    models, pips = (t[(t["family"] == family) & (t["prior"] == prior)] for t in tables)
    assert len(models) and len(pips)
    X, y = data.drop(columns="y"), data["y"].to_numpy(float)
    problem = Problem.build(
        X.to_numpy(float), y, terms={name: [j] for j, name in enumerate(X.columns)}, family=family,
        coef_prior=REFERENCE[prior](len(y)),
    )  # fmt: skip
    ours = [evaluate(problem, np.array([int(j) - 1 for j in model.split()], np.int64)) for model in models["model"]]
    theirs = models["logmarg"].to_numpy()
    np.testing.assert_allclose(np.array(ours) - ours[0], theirs - theirs[0], atol=1e-4)
    inclusion = Posterior(problem, enumerate_models(problem)).inclusion["probability"]
    expected = pips.set_index("variable")["pip"].drop("Intercept")
    np.testing.assert_allclose(inclusion.reindex(expected.index), expected, atol=1e-4)


@pytest.mark.parametrize(("family", "link"), FAMILIES)
def test_likelihoods_are_those_of_scipy_at_the_maximum(family, link):
    x, y = simulate(family, link)
    problem = Problem.build(x[:, :2], y, family=family, link=link, coef_prior="bic")
    base = scipy_fit(x[:, :0], y, family, link)[2]
    for columns in ([0], [1], [0, 1]):
        gain = scipy_fit(x[:, columns], y, family, link)[2] - base
        expected = gain - 0.5 * len(columns) * np.log(len(y))
        assert evaluate(problem, np.array(columns, np.int64)) == pytest.approx(expected, abs=1e-6)


def information(x: np.ndarray, y: np.ndarray, coef: np.ndarray, shape: float, link: str) -> np.ndarray:
    """Observed information about intercept and slope of a gamma model with its shape given."""
    design = np.column_stack([np.ones(len(y)), x])
    eta = design @ coef
    weight = y * np.exp(-eta) if link == "log" else 1.0 / eta**2
    return shape * design.T @ (weight[:, None] * design)


@pytest.mark.parametrize("link", ["log", "inverse"])
@pytest.mark.parametrize("prior", ["g", "hyper-g", "hyper-g-n", "jzs", "robust", "intrinsic", "beta-prime"])
def test_marginal_likelihoods_of_gamma_models_are_integrals_over_slope_and_g(link, prior):
    """The normal approximation of the likelihood times the prior, integrated on a grid over slope and g."""
    x, y = simulate("gamma", link, rows=60)
    x = x[:, :1]
    n = float(len(y))
    problem = Problem.build(x, y, family="gamma", link=link, coef_prior=prior)
    coef, shape, value = scipy_fit(x, y, "gamma", link)
    base_coef, base_shape, base_value = scipy_fit(x[:, :0], y, "gamma", link)
    info, base_info = information(x, y, coef, shape, link), information(x[:, :0], y, base_coef, base_shape, link)
    # What is left about the slope when the intercept is integrated out.
    precision = info[1, 1] - info[0, 1] ** 2 / info[0, 0]
    t, step = np.linspace(-60.0, 60.0, 2401, retstep=True)
    g, density = prior_of_g(prior, t, n)
    u, width = np.linspace(-12.0, 12.0, 481, retstep=True)
    total = 0.0
    for one_g, mass in zip(g, density * step, strict=True) if prior != "g" else [(n, 1.0)]:
        # The grid follows the product, which for small g is far narrower than the likelihood.
        shrink = one_g / (1.0 + one_g)
        scale = np.sqrt(shrink / precision)
        slope = shrink * coef[1] + scale * u
        normal = stats.norm.pdf(slope, 0.0, np.sqrt(one_g / precision))
        total += mass * (np.exp(-0.5 * precision * (slope - coef[1]) ** 2) * normal).sum() * width * scale
    expected = value - base_value - 0.5 * np.log(info[0, 0] / base_info[0, 0]) + np.log(total)
    assert evaluate(problem, np.array([0], np.int64)) == pytest.approx(expected, abs=1e-5)


def prior_of_g(name: str, t: np.ndarray, n: float) -> tuple[np.ndarray, np.ndarray]:
    """Values of g on a grid of t, and the density of t: the priors as the papers print them."""
    x = np.exp(t)
    if name == "hyper-g":
        return x, 0.5 * (1.0 + x) ** -1.5 * x
    if name == "hyper-g-n":
        return n * x, 0.5 * (1.0 + x) ** -1.5 * x
    if name == "jzs":
        return x, stats.invgamma.pdf(x, 0.5, scale=n / 2.0) * x
    if name == "robust":
        # g > (1 + n)/2 - 1, and (1 + g)^-3/2 above, for an intercept and one column.
        least = (1.0 + n) / 2.0
        return least * (1.0 + x) - 1.0, 0.5 * (1.0 + x) ** -1.5 * x
    if name == "intrinsic":
        # g = n / (2 w) with w from Beta(1/2, 1/2), for an intercept and one column; w = x / (1 + x).
        return 0.5 * n * (1.0 + 1.0 / x), np.sqrt(x) / (np.pi * (1.0 + x))
    if name == "beta-prime":
        return x, stats.betaprime.pdf(x, (n - 2.5) / 2.0, 0.25) * x
    return np.array([n]), np.ones(1)


@pytest.mark.parametrize("link", ["log", "inverse"])
def test_laplace_approaches_the_integral_of_the_likelihood(link):
    """Brute force over intercept and slope of the gamma likelihood; the error falls as one over the observations."""
    x, y = simulate("gamma", link, rows=40)
    x = x[:, :1]
    errors = []
    for copies in (1.0, 16.0):
        n = copies * len(y)
        problem = Problem.build(
            x, y, family="gamma", link=link, coef_prior=GPrior(g=n), weights=np.full(len(y), copies)
        )
        coef, shape, _ = scipy_fit(x, y, "gamma", link)
        base_coef, base_shape, _ = scipy_fit(x[:, :0], y, "gamma", link)
        info = copies * information(x, y, coef, shape, link)
        precision = info[1, 1] - info[0, 1] ** 2 / info[0, 0]
        root = np.linalg.cholesky(np.linalg.inv(info))
        u = np.linspace(-8.0, 8.0, 321)
        mesh = np.stack(np.meshgrid(u, u, indexing="ij"), axis=-1).reshape(-1, 2)
        points = coef + mesh @ root.T
        full = copies * gamma_log_likelihood(points, x, y, shape, link)
        full += stats.norm.logpdf(points[:, 1], 0.0, np.sqrt(n / precision))
        base_info = copies * information(x[:, :0], y, base_coef, base_shape, link)
        base = copies * gamma_log_likelihood(
            base_coef + u[:, None] / np.sqrt(base_info[0, 0]), x[:, :0], y, base_shape, link
        )
        cell = u[1] - u[0]
        exact = np.logaddexp.reduce(full) + np.log(cell**2 * np.linalg.det(root))
        exact -= np.logaddexp.reduce(base) + np.log(cell / np.sqrt(base_info[0, 0]))
        errors.append(evaluate(problem, np.array([0], np.int64)) - exact)
    # The error of Laplace's method is c/n + O(1/n^2), so that 16 times the observations leave a sixteenth of it.
    assert abs(errors[0]) < 0.5
    assert abs(errors[1]) < abs(errors[0]) / 8.0


def gamma_log_likelihood(points: np.ndarray, x: np.ndarray, y: np.ndarray, shape: float, link: str) -> np.ndarray:
    eta = points @ np.column_stack([np.ones(len(y)), x]).T
    with np.errstate(all="ignore"):
        log_mean = -np.log(eta) if link == "inverse" else eta
        terms = shape * (np.log(shape) - log_mean - y * np.exp(-log_mean)) + (shape - 1.0) * np.log(y) - gammaln(shape)
    return np.where(np.isfinite(terms).all(axis=1), np.nan_to_num(terms).sum(axis=1), -np.inf)


@pytest.mark.parametrize("prior", ["g", "hyper-g-n", "bic"])
@pytest.mark.parametrize(("family", "link"), FAMILIES)
def test_a_model_has_one_value_whatever_models_came_before(family, link, prior):
    x, y = simulate(family, link)
    problem = Problem.build(x, y, family=family, link=link, coef_prior=prior)
    models, data = subsets(5), problem.data
    alone = np.array([evaluate(problem, columns) for columns in models])
    for seed in range(5):
        work = new_glm_work(data.glm, 5)
        for m in np.random.default_rng(seed).permutation(len(models)):
            value = fit_columns(data.glm, work, models[m], data.coef_prior, data.n)
            assert value == pytest.approx(alone[m], abs=1e-7)


def separated(rows: int = 40) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(6)
    X = pd.DataFrame(rng.normal(size=(rows, 3)), columns=["sharp", "plain", "blunt"])
    return X, (X["sharp"] > 0).to_numpy().astype(int)


@pytest.mark.parametrize(
    ("algorithm", "link", "prior"),
    [
        *(("enumerate", "logit", prior) for prior in ("g", "hyper-g-n", "eb-local", "bic", "aic")),
        ("enumerate", "probit", "g"),
        ("enumerate", "cloglog", "hyper-g-n"),
        ("mjmcmc", "logit", "eb-local"),
        ("mjmcmc", "probit", "hyper-g-n"),
        ("mjmcmc", "cloglog", "bic"),
    ],
)
def test_a_column_that_separates_is_found_and_nothing_is_nan(algorithm, link, prior):
    X, y = separated()
    budget = Budget(warmup=500, steps=2000) if algorithm == "mjmcmc" else None
    model = BGLMClassifier(link=link, algorithm=algorithm, coef_prior=prior, budget=budget, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ModejumpWarning)
        model.fit(X, y)
    assert model.inclusion_.loc["sharp", "probability"] > 0.99
    assert model.inclusion_["probability"].notna().all() and model.models_["probability"].notna().all()
    assert np.isfinite(model.log_marginal_likelihood("sharp"))
    assert model.log_marginal_likelihood("sharp") > model.log_marginal_likelihood("plain") + 10.0
    share = model.predict_proba(X)
    assert np.isfinite(share).all() and np.isfinite(model.coef_).all()
    assert (model.predict(X) == y).all()
    assert "nan" not in model.summary().lower()


@pytest.mark.parametrize(("family", "link"), [pair for pair in FAMILIES if pair[0] != "binomial"])
def test_regressors_predict_on_the_scale_of_the_response(family, link, tmp_path):
    x, y = simulate(family, link)
    model = BGLMRegressor(family=family, link=link).fit(x, y)
    mean = model.predict(x)
    assert mean.shape == y.shape and (mean > 0).all()
    assert abs(mean.mean() / y.mean() - 1.0) < 0.05
    wide, narrow = model.predict(x, interval=0.9), model.predict(x, interval=0.5)
    np.testing.assert_array_equal(wide["mean"], mean)
    assert (wide["lower"] <= narrow["lower"]).all() and (narrow["upper"] <= wide["upper"]).all()
    assert (wide["lower"] >= 0).all()
    if family == "poisson":
        assert (wide[["lower", "upper"]] % 1 == 0).all(axis=None)
    power = 1 if family == "poisson" else 2
    assert model.score(x, y) == pytest.approx(d2_tweedie_score(y, mean, power=power))
    assert dict(model.page().facts)["response"] == f"{family}, {link} link"
    loaded = modejump.load(model.save(tmp_path / "run"))
    assert (loaded.family, loaded.link, loaded.offset_) == (family, link, None)
    pd.testing.assert_frame_equal(loaded.predict(x, interval=0.9), wide, rtol=1e-9)
    assert loaded.summary() == model.summary()


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_sampling_agrees_with_enumeration_within_its_own_error(family):
    x, y = simulate(family, "log", rows=30)
    exact = BGLMRegressor(family=family).fit(x, y).inclusion_["probability"]
    sampled = BGLMRegressor(family=family, algorithm="mjmcmc", budget=Budget(steps=50_000), random_state=1).fit(x, y)
    inclusion = sampled.inclusion_.loc[exact.index]
    # Five errors for each of five features: a correct sampler fails here less than once in 10^5 runs.
    assert (np.abs(inclusion["probability"] - exact) < 5 * inclusion["mcse"] + 1e-12).all()


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_case_weights_are_repetitions(family):
    x, y = simulate(family, "log")
    weights = np.random.default_rng(8).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weights)
    weighted = BGLMRegressor(family=family).fit(x, y, sample_weight=weights)
    repeated = BGLMRegressor(family=family).fit(x[rows], y[rows])
    pd.testing.assert_frame_equal(weighted.inclusion_, repeated.inclusion_, atol=1e-9, check_exact=False)
    np.testing.assert_allclose(weighted.predict(x), repeated.predict(x), rtol=1e-9)


def test_the_logarithm_of_an_exposure_is_an_offset():
    rng = np.random.default_rng(12)
    x = rng.normal(size=(200, 3))
    exposure = rng.integers(1, 9, 200).astype(float)
    y = rng.poisson(exposure * np.exp(0.3 + 0.5 * x[:, 1]))
    model = BGLMRegressor(family="poisson").fit(x, y, offset=np.log(exposure))
    assert model.best_model() == ("x1",) and model.offset_ == "offset"
    one, two = (model.predict(x, offset=np.log(c * exposure)) for c in (1.0, 2.0))
    np.testing.assert_allclose(two, 2.0 * one, rtol=1e-9)
    assert model.score(x, y, offset=np.log(exposure)) > 0.5
    # Rows of the same covariates and other exposures are other rows.
    doubled = BGLMRegressor(family="poisson").fit(
        np.vstack([x, x]), np.r_[y, y], offset=np.log(np.r_[exposure, 2.0 * exposure])
    )
    assert doubled.problem_.rows == 400
    with pytest.raises(InputError, match="fitted with an offset, so new rows need one too"):
        model.predict(x)
    with pytest.raises(InputError, match="an offset is for families other than gaussian"):
        BGLMRegressor().fit(x, y, offset=exposure)


def test_formulas_take_counts_and_offsets():
    rng = np.random.default_rng(13)
    data = pd.DataFrame({"a": rng.normal(size=150), "f": rng.choice(["u", "v"], 150), "time": rng.uniform(1, 3, 150)})
    data["n"] = rng.poisson(data["time"] * np.exp(0.5 * data["a"]))
    model = BGLMRegressor(family="poisson").fit_formula("n ~ a + f", data, offset=np.log(data["time"]))
    assert model.offset_ == "time" and model.best_model() == ("a",)
    assert model.predict(data, offset=np.log(data["time"])).shape == (150,)


def test_a_law_of_counts_is_found_and_predicts(tmp_path):
    rng = np.random.default_rng(14)
    X = pd.DataFrame(rng.uniform(-2, 2, (200, 3)), columns=["u", "v", "w"])
    y = pd.Series(rng.poisson(np.exp(1.0 + 0.5 * X["u"] * X["w"])), name="hits")
    model = BGNLMRegressor(
        family="poisson",
        transforms=("sin",),
        chains=2,
        budget=Budget(warmup=2000, steps=4000),
        random_state=1,
        space=Space(rules="paper"),
    ).fit(X, y)
    assert model.best_model() == ("u*w",)
    assert model.score(X, y) > 0.3 and model.summary().count("log E(hits) = ") == 1
    assert dict(model.page().facts)["response"] == "poisson, log link"
    assert model.to_latex().startswith(r"\log \widehat{\mathrm{hits}} = ")
    loaded = modejump.load(model.save(tmp_path / "run"))
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-12)


def zeros_for_amounts(estimator):
    """scikit-learn's checks of transformers hand in responses of 0, whatever the tags of the target say."""
    names = ("data_not_an_array", "general", "preserve_dtypes")
    return {f"check_transformer_{name}": "its responses are 0, and amounts are positive" for name in names}


@parametrize_with_checks(
    [BGLMRegressor(family="gamma", chains=2, budget=Budget(warmup=1000, steps=5000))],
    expected_failed_checks=zeros_for_amounts,
)
def test_scikit_learns_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModejumpWarning)
        check(estimator)


# Searches among few features, because the contract asks for dozens of fits.
TINY = {
    "transforms": ("sin",),
    "space": Space(rules="paper", depth=1, complexity=2, size=2, population=6),
    "chains": 1,
    "budget": Budget(warmup=300, steps=300),
}


@parametrize_with_checks([BGNLMRegressor(family="gamma", **TINY)], expected_failed_checks=zeros_for_amounts)
def test_scikit_learns_contract_of_searches(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModejumpWarning)
        check(estimator)


ROWS = 30


def fit(family, y, **more):
    x = np.random.default_rng(5).normal(size=(ROWS, 2))
    options = {name: more.pop(name) for name in ("link", "coef_prior") if name in more}
    return BGLMRegressor(family=family, **options).fit(x, y, **more)


COUNTS = np.arange(ROWS)
REFUSED = {
    "negative counts": (lambda: fit("poisson", COUNTS - 1), "a Poisson response is a count, and y is -1 in row 0"),
    "fractional counts": (lambda: fit("poisson", COUNTS + (COUNTS == 7) / 2), "y is 7.5 in row 7"),
    "zeros under gamma": (lambda: fit("gamma", COUNTS[::-1]), "a gamma response is positive, and y is 0 in row 29"),
    "constant": (lambda: fit("poisson", np.ones(ROWS)), "y is constant"),
    "text": (lambda: fit("poisson", ["u", "v"] * 15), "y holds text"),
    "family": (lambda: fit("posson", COUNTS), "unknown family 'posson'; choose 'gaussian', 'poisson'"),
    "family that is no text": (lambda: fit(3, COUNTS), "unknown family 3; choose"),
    "classes": (lambda: fit("binomial", COUNTS % 2), "such as BGLMClassifier"),
    "link": (lambda: fit("poisson", COUNTS, link="logit"), "the poisson family has no link 'logit'"),
    "link of numbers": (lambda: fit("gaussian", COUNTS, link="log"), "the gaussian family has no link 'log'"),
    "offset": (lambda: fit("poisson", COUNTS, offset=np.ones(3)), "offset has shape (3,) but X has 30 rows"),
    "no weight": (lambda: fit("gamma", COUNTS + 1, sample_weight=np.zeros(ROWS)), "sample_weight is zero everywhere"),
    "known variance": (lambda: fit("poisson", COUNTS, coef_prior="known-variance"), "is for gaussian responses"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_in_one_sentence(name):
    call, words = REFUSED[name]
    with pytest.raises(InputError) as error:
        call()
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, counts = simulate("poisson", "log")
    frame = pd.DataFrame(x, columns=list("abcde")).assign(
        n=counts.astype(int), amount=simulate("gamma", "log")[1], half=counts + 0.5, log_time=0.1 * x[:, 4] ** 2
    )
    frame.to_csv("data.csv", index=False)
    return frame


def test_the_shell_fits_counts_with_an_offset_and_predicts(files, capsys):
    line = "fit data.csv --target n --family poisson --drop amount,half --offset log_time --out run"
    assert main(line.split()) == 0
    assert "poisson, log link" in capsys.readouterr().out
    assert main("predict run data.csv --interval 0.9".split()) == 0
    predicted = pd.read_csv(pd.io.common.StringIO(capsys.readouterr().out))
    X = files[list("abcde")]
    model = BGLMRegressor(family="poisson").fit(X, files["n"], offset=files["log_time"])
    expected = model.predict(X, interval=0.9, offset=files["log_time"])
    pd.testing.assert_frame_equal(predicted, expected, rtol=1e-9, check_dtype=False)


def test_the_shell_fits_amounts_under_another_link(files, capsys):
    line = "fit data.csv --target amount --family gamma --link inverse --drop n,half,log_time --out run"
    assert main(line.split()) == 0
    assert "gamma, inverse link" in capsys.readouterr().out
    assert modejump.load("run").problem_.family.link == "inverse"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fit data.csv --target half --family poisson", "a Poisson response is a count"),
        ("fit data.csv --target a --family gamma", "a gamma response is positive"),
        ("fit data.csv --target n --family poison", "unknown --family 'poison'; choose one of gaussian"),
        ("fit data.csv --target n --family poisson --link probit", "has no link 'probit'"),
        ("fit data.csv --target n --family poisson --offset nowhere", "--offset 'nowhere' is not a column"),
        ("fit data.csv --target n --family poisson --coef-prior known-variance=1", "is for gaussian responses"),
    ],
)
def test_bad_input_in_the_shell_exits_with_2_and_one_line(files, capsys, line, words):
    assert main(line.split()) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_an_offset_that_the_run_does_not_know_is_refused(files, capsys):
    assert main("fit data.csv --target n --family poisson --drop amount,half --quiet --out run".split()) == 0
    assert main("predict run data.csv --offset log_time".split()) == 2
    assert "fitted without an offset" in capsys.readouterr().err
