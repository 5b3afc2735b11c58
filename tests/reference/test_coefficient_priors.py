"""Coefficient priors and the Gaussian marginal likelihoods that follow from them.

Reference values (crime data, 47 rows, 15 covariates) are those of an independent program; the README beside
them says how each was obtained. Mixtures are compared with adaptive quadrature in the papers' own variables,
and with closed forms in hypergeometric functions at high precision.
"""

from __future__ import annotations

import concurrent.futures
import json
import math
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
from conftest import Regression
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from plain import log_marginal_plain
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from modejump.core.compilation import entry
from modejump.core.errors import InputError
from modejump.core.handles import Handle
from modejump.likelihoods.gaussian import quadrature, tables
from modejump.likelihoods.gaussian.marginal import log_marginal, log_marginal_fast
from modejump.likelihoods.gaussian.tables import tabulated
from modejump.likelihoods.glm.laplace import log_laplace
from modejump.likelihoods.shrinkage import posterior_g, shrinkage_factor
from modejump.priors.coefficients import (
    AIC,
    BIC,
    COEF_PRIORS,
    JZS,
    BetaPrime,
    CoefPrior,
    EBLocal,
    GPrior,
    HyperG,
    HyperGN,
    Intrinsic,
    KnownVariance,
    Robust,
    coef_prior_from_dict,
    resolve_coef_prior,
)
from modejump.priors.coefficients.beta_prime import log_gamma_ratio

# What the code promises: 1e-10 in the log, or the rounding of the value itself where the value is large.
ACCURACY = 1e-10
TABLE_ACCURACY = 1e-9
ULPS = 16 * np.finfo(float).eps

ALL = [cls() for cls in COEF_PRIORS.values()]
MIXTURES = [
    HyperG(),
    HyperG(a=2.1),
    HyperG(a=8.0),
    HyperGN(),
    JZS(),
    JZS(scale=0.1),
    JZS(scale=5.0),
    Robust(),
    Intrinsic(),
]
RESIDS = [
    1e-15,
    1e-12,
    1e-8,
    1e-5,
    1e-3,
    0.01,
    0.1,
    0.3,
    0.5,
    0.7,
    0.9,
    0.99,
    0.999,
    1 - 1e-4,
    1 - 1e-6,
    1 - 1e-12,
]


def names(prior: CoefPrior) -> str:
    return repr(prior)


def log_bf(prior: CoefPrior, n: float, base: int, k: int, resid: float, tss: float = 10.0) -> float:
    return log_marginal(prior.compile(n, tss), float(n), base, k, resid)


def close(value: float, truth: float, accuracy: float = ACCURACY) -> bool:
    return abs(value - truth) <= accuracy + ULPS * abs(truth)


# ---------------------------------------------------------------------------------------------------------
# Reference values


REFERENCE = {
    "g-prior": GPrior(g=47),
    "hyper-g": HyperG(a=3),
    "JZS": JZS(),
    "EB-local": EBLocal(),
    "BIC": BIC(),
    "AIC": AIC(),
}


def residual_share(data: Regression, columns: list[int]) -> float:
    design = np.column_stack([np.ones(len(data.y)), data.X[:, columns]])
    coef = np.linalg.lstsq(design, data.y, rcond=None)[0]
    return float(np.sum((data.y - design @ coef) ** 2) / np.sum((data.y - data.y.mean()) ** 2))


@pytest.mark.parametrize("label", REFERENCE)
def test_reference_log_marginals(label: str, crime: Regression, crime_models: pd.DataFrame) -> None:
    rows = crime_models[crime_models["prior"] == label].set_index("model")["logmarg"]
    assert len(rows) == 17
    # The criteria are log marginals themselves, the others Bayes factors already.
    null = rows[""] if label in ("BIC", "AIC") else 0.0
    for model, value in rows.items():
        columns = [int(text) - 1 for text in str(model).split()]
        resid = residual_share(crime, columns)
        assert log_bf(REFERENCE[label], 47, 1, len(columns), resid) == pytest.approx(value - null, abs=1e-7)


@njit
def all_residual_shares(gram, resid, size):  # type: ignore[no-untyped-def]
    """RSS / TSS and size of all subsets by bit mask, by elimination from scratch; the response comes last."""
    p = gram.shape[0] - 1
    for mask in range(1 << p):
        cols = np.array([j for j in range(p) if mask >> j & 1] + [p])
        part = gram[cols][:, cols]
        m = cols.size - 1
        for j in range(m):
            for i in range(j + 1, m + 1):
                part[i] -= part[i, j] / part[j, j] * part[j]
        resid[mask] = part[m, m] / gram[p, p]
        size[mask] = m


@pytest.fixture(scope="module")
def crime_space(crime: Regression) -> tuple[np.ndarray, np.ndarray]:
    """Residual share and size of all 2^15 models of the crime data, by bit mask."""
    columns = np.column_stack([crime.X, crime.y])
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    resid, size = np.empty(1 << 15), np.empty(1 << 15, dtype=np.int64)
    all_residual_shares(columns.T @ columns, resid, size)
    return resid, size


def test_the_enumeration_of_the_test_is_right(crime: Regression, crime_space: tuple[np.ndarray, np.ndarray]) -> None:
    resid, size = crime_space
    for mask in (1, 0b101, 0b100_1010_0010_0110, (1 << 15) - 1):
        columns = [j for j in range(15) if mask >> j & 1]
        assert size[mask] == len(columns)
        assert resid[mask] == pytest.approx(residual_share(crime, columns), abs=1e-10)


@pytest.mark.parametrize("label", REFERENCE)
@pytest.mark.parametrize("fast", [False, True], ids=["quadrature", "table"])
def test_reference_inclusion_probabilities(
    label: str, fast: bool, crime_space: tuple[np.ndarray, np.ndarray], crime_pips: pd.DataFrame
) -> None:
    resid, size = crime_space
    prior = Handle(tabulated(REFERENCE[label], 47.0, 1, 1.0, 15))
    evaluate = log_marginal_fast if fast else log_marginal
    value = np.array([evaluate(prior, 47.0, 1, k, r) for k, r in zip(size, resid)])
    weight = np.exp(value - value.max())
    weight /= weight.sum()
    truth = crime_pips[crime_pips["prior"] == label].set_index("variable")["pip"]
    masks = np.arange(1 << 15)
    for j in range(15):
        assert weight[masks >> j & 1 == 1].sum() == pytest.approx(truth[f"x{j + 1}"], abs=1e-7)


# ---------------------------------------------------------------------------------------------------------
# Mixtures against independent integrals


def integral_over_unit(log_f: Any) -> float:
    """Log of the integral of exp(log_f) over (0, 1), adaptive, split at the maximum."""
    peak = minimize_scalar(lambda u: -log_f(u), bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10})
    top = log_f(peak.x)
    width = 1e-3
    points = sorted({min(max(peak.x + d, 1e-12), 1 - 1e-12) for d in (-30 * width, -width, 0.0, width, 30 * width)})
    total = 0.0
    for low, high in zip([0.0, *points], [*points, 1.0]):
        if high > low:
            total += quad(lambda u: math.exp(log_f(u) - top), low, high, epsabs=0, epsrel=1e-12, limit=500)[0]
    return top + math.log(total)


def log_density_of_g(prior: CoefPrior, g: float, n: float, base: int, k: int) -> float:
    """Density of g as the papers print it."""
    if isinstance(prior, HyperGN):
        return math.log((prior.a - 2) / (2 * n)) - prior.a / 2 * math.log1p(g / n)
    if isinstance(prior, HyperG):
        return math.log((prior.a - 2) / 2) - prior.a / 2 * math.log1p(g)
    if isinstance(prior, JZS):
        b = n * prior.scale**2 / 2
        return 0.5 * math.log(b) - math.lgamma(0.5) - 1.5 * math.log(g) - b / g
    if isinstance(prior, Robust):
        least = (1 + n) / (base + k)
        return -math.inf if g < least - 1 else 0.5 * math.log(least / 4) - 1.5 * math.log1p(g)
    if isinstance(prior, Intrinsic):
        w = n / ((k + base) * g)
        return -math.inf if w >= 1 else -math.log(math.pi) - 0.5 * math.log(w * (1 - w)) + math.log(w / g)
    assert isinstance(prior, BetaPrime)
    a, b = 0.25, (n - base - k - 0.5) / 2
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    return (b - 1) * math.log(g) - (a + b) * math.log1p(g) - log_beta


def by_adaptive_quadrature(prior: CoefPrior, n: float, base: int, k: int, resid: float) -> float:
    """The integral over u, where u is g/(1+g) stretched over the support of g."""
    nu = n - base
    low = 0.0
    if isinstance(prior, Robust):
        low = (1 + n) / (base + k) - 1
    if isinstance(prior, Intrinsic):
        low = n / (base + k)

    def log_f(u: float) -> float:
        if not 0.0 < u < 1.0:
            return -math.inf
        # u**2 in place of u removes the inverse square root of the intrinsic prior at the end of its support.
        g = low + u * u / (1 - u)
        log_jacobian = math.log(u * (2 - u)) - 2 * math.log1p(-u)
        likelihood = 0.5 * (nu - k) * math.log1p(g) - 0.5 * nu * math.log1p(g * resid)
        return likelihood + log_density_of_g(prior, g, n, base, k) + log_jacobian

    return integral_over_unit(log_f)


# Adaptive quadrature is asked for all the digits there are, and says that it stopped at rounding.
@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
@pytest.mark.parametrize("prior", [p for p in [*MIXTURES, BetaPrime()] if p != HyperG(a=2.1)], ids=names)
@pytest.mark.parametrize("base", [0, 1, 3])
def test_mixtures_against_adaptive_quadrature(prior: CoefPrior, base: int) -> None:
    for n, k in [(6, 1), (6, 2), (20, 1), (20, 3), (20, 15), (50, 5), (50.5, 20), (300, 2), (300, 40)]:
        for resid in (0.02, 0.2, 0.5, 0.8, 0.97, 1.0):
            truth = by_adaptive_quadrature(prior, n, base, k, resid)
            assert log_bf(prior, n, base, k, resid) == pytest.approx(truth, abs=1e-8), (n, k, resid)


def hyper_g_exact(a: float, nu: float, k: int, resid: float) -> mpmath.mpf:
    """Liang et al. (2008): (a-2)/(k+a-2) 2F1(nu/2, 1; (k+a)/2; R^2)."""
    value = mpmath.hyp2f1(mpmath.mpf(nu) / 2, 1, (mpmath.mpf(k) + a) / 2, 1 - mpmath.mpf(resid))
    return mpmath.log((a - 2) / (k + mpmath.mpf(a) - 2) * value)


def robust_exact(n: float, base: int, k: int, resid: float) -> mpmath.mpf:
    """Bayarri et al. (2012), equation for the Bayes factor with a = 1/2, b = 1, rho = 1/(base + k)."""
    q, nu = mpmath.mpf(resid), mpmath.mpf(n) - base
    cols = mpmath.mpf(base) + k
    half = mpmath.mpf(k + 1) / 2
    value = mpmath.hyp2f1(half, nu / 2, half + 1, (1 - 1 / q) * cols / (1 + mpmath.mpf(n)))
    return mpmath.log((cols / (n + 1)) ** (mpmath.mpf(k) / 2) * q ** (-nu / 2) / (k + 1) * value)


def exact_integrand(nu: float, k: int, resid: float, form: tuple[float, ...]) -> Any:
    """Log of likelihood of g times prior of t at high precision."""
    shift, scale, alpha, beta, delta = (mpmath.mpf(value) for value in form)
    r = mpmath.mpf(resid)

    def log_f(t: mpmath.mpf) -> mpmath.mpf:
        x = mpmath.exp(t)
        g = shift + scale * x
        fit = mpmath.mpf(nu - k) / 2 * mpmath.log(1 + g) - mpmath.mpf(nu) / 2 * mpmath.log(1 + g * r)
        return fit + alpha * t - beta * mpmath.log(1 + x) - delta / x

    return log_f


def mixture_exact(prior: CoefPrior, n: float, base: int, k: int, resid: float) -> mpmath.mpf:
    """High precision integral over log g, in pieces of one unit over all that matters."""
    form, constant = mixture_form(prior, float(n), base, k)
    log_f = exact_integrand(n - base, k, resid, form)
    grid = [mpmath.mpf(t) / 4 for t in range(-480, 561)]
    values = [log_f(t) for t in grid]
    top = max(values)
    inside = [t for t, value in zip(grid, values) if value > top - 60]
    edges = [inside[0] - 1, *inside[::4], inside[-1] + 1]
    total = mpmath.quad(lambda t: mpmath.exp(log_f(t) - top), edges, method="gauss-legendre")
    return top + mpmath.log(total) + mpmath.mpf(constant)


@entry
def compiled_form(prior, n, base, k):  # type: ignore[no-untyped-def]
    return quadrature.mixture_form(prior.code, prior.par, n, base, k)


def mixture_form(prior: CoefPrior, n: float, base: int, k: int) -> tuple[tuple[float, ...], float]:
    return compiled_form(prior.compile(n, 1.0), n, base, k)


SHAPES = [(3, 1, 1), (4, 1, 2), (5, 1, 2), (10, 0, 9), (50, 1, 5), (50, 3, 1), (1000, 3, 20), (1000, 3, 500)]


@pytest.mark.parametrize(("n", "base", "k"), SHAPES)
def test_hyper_g_against_its_hypergeometric_form(n: float, base: int, k: int) -> None:
    with mpmath.workdps(40):
        for a in (2.1, 3.0, 8.0):
            for resid in RESIDS:
                truth = float(hyper_g_exact(a, n - base, k, resid))
                assert close(log_bf(HyperG(a), n, base, k, resid), truth), resid


@pytest.mark.parametrize(("n", "base", "k"), SHAPES)
def test_robust_against_its_hypergeometric_form(n: float, base: int, k: int) -> None:
    with mpmath.workdps(40):
        for resid in RESIDS:
            truth = float(robust_exact(n, base, k, resid))
            assert close(log_bf(Robust(), n, base, k, resid), truth), resid


# Few rows of the hyper-g and the robust prior are among the shapes above.
EXTREMES = [(prior, n, 1, 1) for prior in (HyperGN(), JZS(), JZS(0.1), Intrinsic()) for n in (3, 1e6)]
EXTREMES += [(prior, 1e6, 0, 500) for prior in (HyperG(), HyperGN(), JZS(0.1), Robust(), Intrinsic())]


@pytest.mark.parametrize(("prior", "n", "base", "k"), EXTREMES, ids=names)
def test_extremes_of_mixtures_at_high_precision(prior: CoefPrior, n: float, base: int, k: int) -> None:
    with mpmath.workdps(30):
        for resid in (1e-15, 1e-3, 0.5, 1 - 1e-6):
            truth = float(mixture_exact(prior, n, base, k, resid))
            assert close(log_bf(prior, n, base, k, resid), truth), resid


def test_intrinsic_is_li_and_clydes_form_of_it() -> None:
    """With an intercept, 1/(1+g) has their truncated compound confluent hypergeometric distribution."""
    for n, k in [(20, 3), (50, 5), (200, 1)]:
        v, kappa = (n + k + 1) / (k + 1), (n + k + 1) / n

        def log_kernel(u: float, v: float = v, kappa: float = kappa) -> float:
            return -0.5 * math.log(u) - 0.5 * math.log1p(-v * u) - math.log(kappa + (1 - kappa) * v * u)

        # u = sin(t)^2 / v removes the singularities at both ends.
        def at(t: float, shift: float, v: float = v) -> float:
            s, c = math.sin(t), math.cos(t)
            return math.exp(log_kernel(s * s / v) + shift) * 2 * s * c / v

        mass = quad(lambda t: at(t, 0.0), 0, math.pi / 2, epsabs=0, epsrel=1e-12)[0]
        for resid in (0.1, 0.6, 0.95):

            def weighted(t: float, n: int = n, k: int = k, resid: float = resid, v: float = v) -> float:
                g = v / math.sin(t) ** 2 - 1
                return at(t, 0.5 * (n - 1 - k) * math.log1p(g) - 0.5 * (n - 1) * math.log1p(g * resid))

            truth = math.log(quad(weighted, 0, math.pi / 2, epsabs=0, epsrel=1e-11)[0] / mass)
            assert log_bf(Intrinsic(), n, 1, k, resid) == pytest.approx(truth, abs=1e-8)


def test_beta_prime_at_high_precision() -> None:
    with mpmath.workdps(40):
        for n, base, k in [(4, 1, 2), (50, 1, 5), (1000, 3, 500), (1e6, 1, 1), (1e6, 1, 500)]:
            a, b = mpmath.mpf("0.25"), (mpmath.mpf(n) - base - k - 0.5) / 2
            for resid in (1e-15, 0.3, 1 - 1e-6):
                exact = mpmath.log(mpmath.beta(a + mpmath.mpf(k) / 2, b) / mpmath.beta(a, b)) - b * mpmath.log(resid)
                assert close(log_bf(BetaPrime(), n, base, k, resid), float(exact))


def test_log_gamma_ratio_loses_no_digits() -> None:
    with mpmath.workdps(40):
        for x in (0.3, 5.0, 9.999, 10.0, 37.5, 1e3, 5e5):
            for d in (0.0, 0.5, 3.0, 250.0):
                exact = mpmath.loggamma(mpmath.mpf(x) + d) - mpmath.loggamma(x)
                assert close(log_gamma_ratio(x, d), float(exact), accuracy=1e-12)


# ---------------------------------------------------------------------------------------------------------
# Compiled code against its plain twin, and tables against the quadrature


@pytest.mark.parametrize("prior", [*ALL, *MIXTURES, KnownVariance(2.5), GPrior(g=3)], ids=names)
def test_compiled_agrees_with_its_plain_twin(prior: CoefPrior) -> None:
    rng = np.random.default_rng(20)
    for _ in range(60):
        n = float(rng.choice([3, 7, 20, 50.5, 400, 1e4]))
        base = int(rng.integers(0, 3))
        k = int(rng.integers(0, min(n, 60) + 2))
        resid = float(rng.choice([rng.uniform(), 10.0 ** rng.uniform(-15, 0), 1 - 10.0 ** rng.uniform(-12, 0)]))
        compiled = prior.compile(n, 7.0)
        truth = log_marginal_plain(prior, compiled.par, n, base, k, resid)
        value = log_marginal(compiled, n, base, k, resid)
        assert value == truth or close(value, truth), (n, base, k, resid)


def test_parts_of_the_quadrature_agree_with_their_plain_twins() -> None:
    rng = np.random.default_rng(21)
    for prior in [*MIXTURES, BetaPrime()]:
        for _ in range(10):
            n, k, resid = 40.0, int(rng.integers(1, 20)), float(rng.uniform())
            form, constant = mixture_form(prior, n, 1, k)
            twin, twin_constant = prior.mixture_form_plain(prior.compile(n, 1.0).par, n, 1, k)
            np.testing.assert_allclose([*form, constant], [*twin, twin_constant], rtol=1e-13)
            t = rng.normal(scale=3.0)
            here = quadrature.log_integrand_plain(np.array([t]), n - 1, k, resid, form)[0]
            assert close(quadrature.log_integrand(math.exp(t), t, n - 1, float(k), resid, form), here)
            slope, bend = quadrature.slope_and_curvature(math.exp(t), n - 1, k, resid, form)
            log_f = exact_integrand(n - 1, k, resid, form)
            assert slope == pytest.approx(float(mpmath.diff(log_f, t, 1)), rel=1e-9, abs=1e-9)
            assert bend == pytest.approx(-float(mpmath.diff(log_f, t, 2)), rel=1e-9, abs=1e-9)
            mode, _ = quadrature.find_mode(n - 1, k, resid, form)
            slope, bend = quadrature.slope_and_curvature(mode, n - 1, k, resid, form)
            assert slope**2 <= quadrature.MODE_TOLERANCE**2 * bend


@entry
def largest_difference(prior, n, base, k, resids):  # type: ignore[no-untyped-def]
    worst = 0.0
    for resid in resids:
        direct = log_marginal(prior, n, base, k, resid)
        fast = log_marginal_fast(prior, n, base, k, resid)
        again = log_marginal_fast(prior, n, base, k, resid)
        if fast != again:
            return np.inf
        worst = max(worst, abs(fast - direct) - 16 * 2.220446049250313e-16 * abs(direct))
    return worst


@pytest.mark.parametrize("prior", MIXTURES, ids=names)
@pytest.mark.parametrize("n", [3.0, 10.0, 50.5, 1000.0, 1e5, 1e6])
def test_tables_agree_with_the_quadrature(prior: CoefPrior, n: float) -> None:
    rng = np.random.default_rng(22)
    table = tabulated(prior, n, 1, 1.0, 300)
    assert table.coef[0].nbytes + table.status[0].nbytes <= 4096
    depth = np.concatenate([np.exp(rng.uniform(np.log(1e-3 / n), np.log(34), 400)), rng.uniform(0, 3, 200), [0.0]])
    for k in (1, 2, 3, 5, 10, 20, 50, 256, 260):
        if n - 1 - k > 0:
            assert largest_difference(table, n, 1, k, np.exp(-depth)) <= TABLE_ACCURACY
            if k <= 5:
                # The table has to be of use, not only right.
                row = table.status[k - 1]
                assert np.mean(row[row != tables.EMPTY] == tables.FILLED) > 0.9


def test_power_sums_are_chebyshev_sums() -> None:
    rng = np.random.default_rng(23)
    for size in (2, 3, 8, 11, 16):
        cheb = rng.normal(size=size) * 8.0 ** -np.arange(size)
        coef = np.empty((1, 1, size))
        tables.powers_from_chebyshev(cheb, coef[0, 0])
        for x in np.linspace(-1, 1, 21):
            truth = np.polynomial.chebyshev.chebval(x, cheb)
            assert tables.power_sum(coef, 0, 0, x) == pytest.approx(truth, abs=1e-14)


def test_pieces_of_the_table_are_located_and_inverted() -> None:
    nu = 49.0
    for depth in [0.0, 1e-12, 0.01, *np.linspace(0.0, 23.0, 50)]:
        piece, position = tables.locate(nu * depth / tables.DEPTH_UNIT)
        assert -1.0 <= position <= 1.0
        assert tables.depth_at(piece, position, nu) == pytest.approx(depth, rel=1e-12, abs=1e-15)


def test_closed_forms_have_no_table() -> None:
    for prior in ALL:
        made = tabulated(prior, 50.0, 1, 7.0, 20)
        assert isinstance(made, tables.MixturePrior) == (prior.log_bayes_factor is None)
        assert log_marginal_fast(made, 50.0, 1, 4, 0.4) == pytest.approx(
            log_marginal(made, 50.0, 1, 4, 0.4), abs=TABLE_ACCURACY
        )


@entry
def evaluate_all(prior, n, base, ks, resids, out):  # type: ignore[no-untyped-def]
    for i in range(resids.size):
        out[i] = log_marginal_fast(prior, n, base, ks[i], resids[i])


def test_threads_that_fill_one_table_get_the_same_values() -> None:
    rng = np.random.default_rng(24)
    ks, resids = rng.integers(1, 30, 4000), rng.uniform(size=4000)
    alone = np.empty(4000)
    evaluate_all(tabulated(JZS(), 80.0, 1, 1.0, 30), 80.0, 1, ks, resids, alone)
    for _ in range(20):
        table = tabulated(JZS(), 80.0, 1, 1.0, 30)
        outs = [np.empty(4000) for _ in range(4)]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda out, t=table: evaluate_all(t, 80.0, 1, ks, resids, out), outs))
        for out in outs:
            np.testing.assert_array_equal(out, alone)


# ---------------------------------------------------------------------------------------------------------
# Properties that hold for every prior in the registry

any_prior = st.sampled_from(ALL)
any_n = st.one_of(st.integers(3, 10**6).map(float), st.floats(3.0, 1e4))


@given(any_prior, any_n, st.integers(0, 3), st.floats(1e-15, 1.0))
def test_the_base_model_is_the_reference(prior: CoefPrior, n: float, base: int, resid: float) -> None:
    assert log_bf(prior, n, base, 0, resid) == 0.0


@given(any_prior, st.integers(3, 200), st.integers(0, 3), st.integers(0, 5), st.floats(1e-15, 1.0))
def test_no_degree_of_freedom_no_model(prior: CoefPrior, n: int, base: int, extra: int, resid: float) -> None:
    k = n - base + extra
    if k > 0:
        assert log_bf(prior, n, base, k, resid) == -math.inf
        assert log_marginal_fast(tabulated(prior, float(n), base, 1.0, k), float(n), base, k, resid) == -math.inf


@given(any_prior, any_n, st.integers(0, 3), st.data())
def test_better_fits_are_never_less_likely(prior: CoefPrior, n: float, base: int, data: st.DataObject) -> None:
    most = min(int(math.ceil(n)) - base - 1, 500)
    if most < 1:
        return
    k = data.draw(st.integers(1, most))
    low, high = sorted((data.draw(st.floats(1e-15, 1.0)), data.draw(st.floats(1e-15, 1.0))))
    better, worse = log_bf(prior, n, base, k, low), log_bf(prior, n, base, k, high)
    assert not math.isnan(better) and not math.isnan(worse)
    assert better >= worse or close(better, worse, 2 * ACCURACY)


@pytest.mark.parametrize("prior", ALL, ids=names)
@pytest.mark.parametrize("resid", [0.0, -1.0, math.nan])
def test_a_residual_share_that_is_no_number_has_no_likelihood(prior: CoefPrior, resid: float) -> None:
    assert log_bf(prior, 50, 1, 3, resid) == -math.inf
    assert log_marginal_fast(tabulated(prior, 50.0, 1, 1.0, 10), 50.0, 1, 3, resid) == -math.inf


@pytest.mark.parametrize("prior", ALL, ids=names)
def test_rounding_above_one_counts_as_one(prior: CoefPrior) -> None:
    assert log_bf(prior, 50, 1, 3, 1.0 + 1e-12) == log_bf(prior, 50, 1, 3, 1.0)


@pytest.mark.parametrize("prior", [p for p in [*ALL, *MIXTURES] if not p.known_variance], ids=names)
def test_laplace_forms_agree_with_their_plain_twins(prior: CoefPrior) -> None:
    rng = np.random.default_rng(26)
    for _ in range(40):
        n, base, k = float(rng.choice([12, 50.5, 4000])), int(rng.integers(0, 3)), int(rng.integers(0, 8))
        fit = rng.normal(scale=30.0), rng.normal(scale=4.0), float(rng.chisquare(3 * k)) if k else 0.0
        compiled = prior.compile(n, 1.0)
        if prior.log_laplace_plain is not None:
            truth = prior.log_laplace_plain(compiled.par, n, base, k, *fit)
        else:
            truth = fit[0] - fit[1] / 2
            if k:
                # The same integral over t as in Python, on a grid that is fine enough to be exact.
                (shift, scale, alpha, beta, delta), constant = prior.mixture_form_plain(compiled.par, n, base, k)
                t, h = np.linspace(-150, 150, 60_001, retstep=True)
                x = np.exp(t)
                g = shift + scale * x
                value = -k / 2 * np.log1p(g) - fit[2] / (2 * (1 + g)) + alpha * t - beta * np.log1p(x) - delta / x
                truth += constant + np.logaddexp.reduce(value) + np.log(h)
        assert log_laplace(compiled, n, base, k, *fit) == pytest.approx(truth, abs=1e-9)


# ---------------------------------------------------------------------------------------------------------
# The posterior of g


def posterior_mean(prior: CoefPrior, n: float, base: int, k: int, resid: float, f: Any) -> float:
    """Posterior mean of f(g) by a fine grid over log g, the density as the papers print it."""
    t = np.linspace(-60, 100, 80_001)
    form, _ = prior.mixture_form_plain(prior.compile(n, 1.0).par, n, base, k)
    value = quadrature.log_integrand_plain(t, n - base, k, resid, form)
    weight = np.exp(value - value.max())
    g = form[0] + form[1] * np.exp(t)
    return float(weight @ f(g) / weight.sum())


@pytest.mark.parametrize("prior", [*MIXTURES, BetaPrime()], ids=names)
@pytest.mark.parametrize(("n", "base", "k"), [(4, 1, 1), (4, 1, 2), (50, 1, 1), (50, 0, 5), (50, 3, 40), (1e5, 1, 20)])
def test_posterior_of_g(prior: CoefPrior, n: float, base: int, k: int) -> None:
    # With one degree of freedom and a perfect fit the posterior of log g is nearly flat over 28 units.
    for resid in (1e-6 if n - base - k <= 1 else 1e-12, 1e-3, 0.3, 0.8, 0.999, 1.0):
        g, weight = posterior_g(prior, prior.compile(n, 1.0).par, float(n), base, k, resid)
        assert np.all(np.diff(g) >= 0) and np.all(np.isfinite(g)) and np.all(weight >= 0)
        assert weight.sum() == pytest.approx(1.0, abs=1e-14)
        truth = posterior_mean(prior, float(n), base, k, resid, shrinkage_factor)
        assert weight @ shrinkage_factor(g) == pytest.approx(truth, abs=1e-6)
        # The log of the remaining variance, which prediction averages too.
        r = resid

        def left(g: np.ndarray, r: float = r) -> np.ndarray:
            return np.log(r + (1 - r) / (1 + g))

        assert weight @ left(g) == pytest.approx(posterior_mean(prior, float(n), base, k, r, left), abs=1e-5)


def test_posterior_of_g_by_adaptive_quadrature() -> None:
    """The same means from the densities as the papers print them, for the primary case."""
    n, base, k, resid = 50.0, 1, 5, 0.4
    for prior in (HyperG(), HyperGN(), JZS(), BetaPrime()):

        def density(t: float, power: int, prior: CoefPrior = prior) -> float:
            g = math.exp(t)
            fit = 0.5 * (n - base - k) * math.log1p(g) - 0.5 * (n - base) * math.log1p(g * resid)
            return math.exp(fit + log_density_of_g(prior, g, n, base, k) + t - 12.0) * (g / (1 + g)) ** power

        means = [quad(density, -20, 60, args=(power,), epsabs=0, epsrel=1e-10, limit=500)[0] for power in (0, 1)]
        g, weight = posterior_g(prior, prior.compile(n, 1.0).par, n, base, k, resid)
        assert weight @ shrinkage_factor(g) == pytest.approx(means[1] / means[0], abs=1e-6)


def test_posterior_of_a_g_that_is_known() -> None:
    def nodes(prior: CoefPrior, k: int = 5, resid: float = 0.4) -> tuple[np.ndarray, np.ndarray]:
        return posterior_g(prior, prior.compile(50.0, 7.0).par, 50.0, 1, k, resid)

    assert nodes(GPrior())[0] == [50.0]
    assert nodes(GPrior(g=7))[0] == [7.0]
    assert nodes(EBLocal())[0] == [pytest.approx(0.6 / 5 / (0.4 / 44) - 1.0)]
    assert nodes(EBLocal(), resid=0.99)[0] == [0.0]
    for name in ("jeffreys", "bic", "aic", "known-variance"):
        assert nodes(resolve_coef_prior(name))[0] == [np.inf]
    for prior in ALL:
        assert nodes(prior, k=0)[0] == [np.inf]
        assert nodes(prior)[1].sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(shrinkage_factor(np.array([0.0, 1.0, np.inf])), [0.0, 0.5, 1.0])


def test_a_model_without_likelihood_has_no_posterior_of_g() -> None:
    with pytest.raises(InputError, match="no posterior of g"):
        posterior_g(JZS(), np.ones(4), 10.0, 1, 9, 0.5)
    with pytest.raises(InputError, match="no posterior of g"):
        posterior_g(BetaPrime(), np.ones(4), 10.5, 1, 9, 0.5)


# ---------------------------------------------------------------------------------------------------------
# The objects


def test_registry_holds_every_name_of_the_contract_once() -> None:
    expected = "jeffreys g hyper-g hyper-g-n jzs eb-local bic aic robust intrinsic beta-prime known-variance"
    assert list(COEF_PRIORS) == expected.split()
    assert len({cls.code for cls in COEF_PRIORS.values()}) == len(COEF_PRIORS)


@pytest.mark.parametrize("name", COEF_PRIORS)
def test_names_resolve_and_objects_are_stored(name: str) -> None:
    prior = resolve_coef_prior(name)
    assert type(prior) is COEF_PRIORS[name]
    assert resolve_coef_prior(prior) is prior
    assert coef_prior_from_dict(json.loads(json.dumps(prior.to_dict()))) == prior
    par = prior.compile(47.0, 3.0).par
    assert par.shape == (5,) and par.dtype == np.float64 and np.all(np.isfinite(par))


def test_parameters() -> None:
    assert GPrior().compile(47.0, 1.0).par[0] == 47.0
    assert GPrior(g=np.float32(3)).compile(47.0, 1.0).par[0] == 3.0
    assert HyperGN(a=4).compile(47.0, 1.0).par[0] == 4.0
    assert JZS(scale=2).compile(47.0, 1.0).par[0] == 2.0
    np.testing.assert_array_equal(KnownVariance(2).compile(47.0, 3.0).par, [2, 3, 0, 0, 0])
    assert coef_prior_from_dict(KnownVariance(2).to_dict()) == KnownVariance(2)


@pytest.mark.parametrize(
    ("cls", "value"),
    [
        *[(GPrior, value) for value in (0, -1, math.inf, math.nan, "n", True)],
        *[(cls, value) for cls in (HyperG, HyperGN) for value in (2, 1.5, math.inf, math.nan, None, "3")],
        *[(cls, value) for cls in (JZS, KnownVariance) for value in (0, -1.0, math.inf, math.nan, None)],
    ],
)
def test_bad_parameters_are_refused(cls: Any, value: Any) -> None:
    with pytest.raises(InputError, match="must be a finite number above"):
        cls(value)


def test_unknown_names_are_refused_with_the_closest() -> None:
    with pytest.raises(InputError, match=r"did you mean 'robust'.*'jeffreys', 'g', 'hyper-g'"):
        resolve_coef_prior("Robst")
    with pytest.raises(InputError, match="choose one of 'jeffreys'"):
        resolve_coef_prior("zzzzzz")
    for spec in (GPrior, 3, None):
        with pytest.raises(InputError, match="is a name or an object"):
            resolve_coef_prior(spec)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown parameters: b"):
        coef_prior_from_dict({"name": "hyper-g", "b": 1})
    with pytest.raises(InputError, match="unknown coefficient prior None"):
        coef_prior_from_dict({"a": 3})
    with pytest.raises(InputError, match="unknown coefficient prior"):
        coef_prior_from_dict({"name": "hyper"})
