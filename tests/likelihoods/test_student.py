"""Student-t errors and the noise floor: estimates, the frozen target against enumeration, predictions, storage."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plain import log_marginal_plain
from scipy import stats
from scipy.optimize import minimize
from sklearn.base import clone

import modejump
from modejump import (
    BGLMRegressor,
    BGNLMClassifier,
    BGNLMRegressor,
    Budget,
    InputError,
    LogicRegressor,
    Problem,
    Space,
    Student,
    scan_chunks,
)
from modejump.experiments.oracle import exact_posterior
from modejump.likelihoods import resolve_family
from modejump.likelihoods.gaussian.marginal import floored, log_marginal, log_marginal_fast
from modejump.likelihoods.gaussian.student import DEGREES, SPREADS, TAILS, estimate_noise, estimate_tail
from modejump.likelihoods.gaussian.tables import tabulated
from modejump.priors.coefficients import COEF_PRIORS
from modejump.priors.coefficients.base import FLOOR, floor_share
from modejump.samplers.warmup import noise

SMALL = Space(depth=1, width=2, complexity=2, size=2, projection=0.0)
BUDGET = Budget(warmup=1_500, steps=20_000)


def heavy(rows: int = 120, dof: float = 1.5, seed: int = 3, weak: float = 0.0) -> tuple[pd.DataFrame, np.ndarray]:
    """A law of two columns out of three, measured with outliers, and a weak effect of the third."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(0.5, 3.0, (rows, 3)), columns=["a", "b", "c"])
    return X, (1.0 + 2.0 * X["a"] * X["b"] + weak * X["c"] + 0.1 * rng.standard_t(dof, rows)).to_numpy()


def student(**options: Any) -> BGNLMRegressor:
    given = {"family": "student", "coef_prior": "jeffreys", "transforms": ("sin",), "space": SMALL, "chains": 4}
    return BGNLMRegressor(**given | {"budget": BUDGET, "random_state": 1} | options)


@pytest.fixture(scope="module")
def fitted() -> BGNLMRegressor:
    return student().fit(*heavy())


# --- the noise floor --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COEF_PRIORS)
def test_a_floor_adds_the_same_to_every_residual_sum_of_squares(name: str) -> None:
    n, base, tss, sigma = 60.0, 1, 7.0, 0.05
    prior, share = COEF_PRIORS[name](), floor_share(sigma, n, tss)
    compiled, table = prior.compile(n, tss, share), tabulated(prior, n, base, tss, 5, share)
    added = n * sigma**2
    for k, resid in ((1, 0.7), (2, 0.03), (3, 1e-6), (3, 1e-14)):
        plainly = (resid * tss + added) / (tss + added)
        # As the papers have it, for data whose base model leaves so much.
        truth = log_marginal_plain(prior, prior.compile(n, tss + added).par, n, base, k, plainly)
        assert log_marginal(compiled, n, base, k, resid) == pytest.approx(truth, rel=1e-9, abs=1e-9)
        assert log_marginal_fast(table, n, base, k, resid) == pytest.approx(truth, rel=1e-8, abs=1e-8)
        assert log_marginal_plain(prior, compiled.par, n, base, k, resid) == pytest.approx(truth, rel=1e-9, abs=1e-9)


def test_without_a_floor_no_bit_changes() -> None:
    par = COEF_PRIORS["g"]().compile(60.0, 7.0).par
    shares = np.random.default_rng(1).random(1000) ** 8
    assert par[FLOOR] == 0.0 and all(floored(par, share) == share for share in shares.tolist())


def test_a_floor_bounds_the_evidence_of_exact_data() -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(1.0, 2.0, (80, 2))
    y = 3.0 * x[:, 0]
    free, bounded = (
        Problem.build(x, y, coef_prior="jeffreys", noise_floor=floor) for floor in (0.0, 0.01 * float(y.std()))
    )
    values = [modejump.samplers.sample.sample(p, modejump.samplers.plan.Plan("enumerate")) for p in (free, bounded)]
    top = [v.models.log_posterior[0] for v in values]
    # The floor is 1e-4 of the variance; rounding errors 3.6e-15.
    assert top[0] == pytest.approx(40.0 * math.log(1.0 / 3.55e-15), rel=0.02)
    assert top[1] == pytest.approx(40.0 * math.log(1e4), rel=0.02)


def test_predictions_know_the_floor() -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(1.0, 2.0, (400, 2))
    model = student(family="gaussian", noise_floor=0.25).fit(X, 3.0 * X[:, 0])
    frame = model.predict(X, interval=0.9)
    width = (frame["upper"] - frame["lower"]).median()
    assert width == pytest.approx(2 * 0.25 * stats.norm.isf(0.05), rel=0.02)
    std = model.predict(X, return_std=True)[1]
    assert np.median(std) == pytest.approx(0.25, rel=0.02)


def test_a_floor_is_one_more_part_of_the_variance_of_each_row() -> None:
    rng = np.random.default_rng(21)
    X = pd.DataFrame({"a": np.exp(rng.normal(0.0, 2.0, 300)), "b": rng.uniform(1.0, 2.0, 300)})
    mean, floor = X["a"] * X["b"], 0.05
    # Errors of a percent, which are below the floor where means are below five.
    y = mean * (1.0 + 0.01 * rng.normal(size=300))
    model = student(noise_floor=floor).fit(X, y)
    assert model.best_model() == ("a*b",) and model.problem_.family.spread == 1.0
    order = np.lexsort((model.posterior_.searched.x[1], model.posterior_.searched.x[0]))
    precision = (
        model.posterior_.result.noise_weight[order]
        * ((0.01 * mean) ** 2 + floor**2).to_numpy()[np.lexsort((X["b"], X["a"]))]
    )
    # The scale is known to 4 %.
    np.testing.assert_allclose(precision / precision.mean(), 1.0, atol=0.15)
    frame = model.predict(X, interval=0.9)
    wanted = 2.0 * stats.norm.isf(0.05) * np.sqrt((0.01 * mean) ** 2 + floor**2)
    np.testing.assert_allclose(frame["upper"] - frame["lower"], wanted, rtol=0.15)


# --- errors of one model ----------------------------------------------------------------------------------------


def test_the_likelihood_is_at_its_maximum() -> None:
    rng = np.random.default_rng(4)
    x = np.column_stack([np.ones(150), rng.normal(size=150)])
    y = x @ [1.0, 2.0] + 0.3 * rng.standard_t(2.0, 150)

    def minus(theta: np.ndarray) -> float:
        return -float(stats.t.logpdf(y - x @ theta[:2], 2.0, scale=math.exp(theta[2])).sum())

    best = minimize(minus, [1.0, 2.0, -1.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-10})
    found = estimate_noise(x, y, np.ones(150), (2.0,))
    assert found.log_likelihood == pytest.approx(-best.fun, abs=1e-5)
    # The scale has the degrees of freedom of the model in it.
    assert found.scale == pytest.approx(math.exp(best.x[2]) * math.sqrt(150 / 148), rel=1e-3)
    residual = (y - x @ best.x[:2]) / found.scale
    np.testing.assert_allclose(found.weight, 3.0 / (2.0 + residual**2), rtol=1e-3)


def test_a_row_of_weight_two_is_two_rows() -> None:
    X, y = heavy(40)
    x = np.column_stack([np.ones(40), X["a"] * X["b"]])
    twice = np.where(np.arange(40) % 3, 1, 2)
    one = estimate_noise(x, y, twice.astype(float))
    other = estimate_noise(np.repeat(x, twice, axis=0), np.repeat(y, twice), np.ones(twice.sum()))
    assert one.dof == other.dof and one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-8)
    np.testing.assert_allclose(np.repeat(one.weight, twice), other.weight, rtol=1e-5)


@pytest.mark.parametrize("dof", [0.5, 2.0, math.inf])
def test_degrees_of_freedom_are_found(dof: float) -> None:
    rng = np.random.default_rng(6)
    y = rng.normal(size=4000) if math.isinf(dof) else rng.standard_t(dof, 4000)
    found = estimate_noise(np.ones((4000, 1)), y, np.ones(4000), TAILS)
    assert found.dof == dof
    # New observations have the next heavier tails, at most.
    tail, scale = estimate_tail(found, np.ones(4000))
    assert TAILS.index(dof) - TAILS.index(tail) in (0, 1) and 0.9 < scale < 1.01
    assert found.weight.mean() == pytest.approx(1.0, rel=1e-3)


def test_exact_data_have_no_heavy_tails() -> None:
    rng = np.random.default_rng(7)
    x = np.column_stack([np.ones(50), rng.normal(size=50)])
    assert math.isinf(estimate_noise(x, x @ [1.0, 1e5], np.ones(50), DEGREES, rounding=1e-3).dof)


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("dof", [3.0, math.inf])
def test_errors_that_grow_with_the_mean_are_found(spread: float, dof: float) -> None:
    rng = np.random.default_rng(11)
    x = np.column_stack([np.ones(600), np.exp(rng.normal(size=600))])
    mean, error = x @ [0.5, 2.0], rng.normal(size=600) if math.isinf(dof) else rng.standard_t(dof, 600)
    y = mean + 0.02 * mean**spread * error
    found = estimate_noise(x, y, np.ones(600), DEGREES, spreads=(0.0, 0.5, 1.0))
    assert found.spread == spread and math.isinf(found.dof) == math.isinf(dof)
    # The likelihood is that of the errors as they are, with no unit in between.
    scale = 0.02 if spread == 0.0 else found.scale / found.unit
    assert scale == pytest.approx(0.02, rel=0.2)
    known = estimate_noise(x, y, np.ones(600), (found.dof,), spreads=(spread,))
    errors = stats.t(found.dof) if math.isfinite(dof) else stats.norm
    value = errors.logpdf(found.residual / (found.scale * found.size)) - np.log(found.scale * found.size)
    assert found.log_likelihood == pytest.approx(value.sum(), abs=0.01)
    assert known.log_likelihood == pytest.approx(found.log_likelihood, abs=0.05)
    # New observations, for a mean of size one.
    tail, relative = estimate_tail(found, np.ones(600))
    weighted = math.sqrt(float(found.weight @ found.residual**2 / found.weight.sum()))
    wanted = stats.t(tail).ppf(0.95) / errors.ppf(0.95) if math.isfinite(tail) else 1.0
    assert relative * weighted * wanted == pytest.approx(0.02, rel=0.25)


def test_responses_of_both_signs_have_errors_that_are_alike() -> None:
    x = np.column_stack([np.ones(100), np.linspace(-1.0, 1.0, 100)])
    y = x[:, 1] * (1.0 + 0.1 * np.random.default_rng(12).normal(size=100))
    assert estimate_noise(x, y, np.ones(100), spreads=SPREADS).spread == 0.0


# --- the target -------------------------------------------------------------------------------------------------


def test_given_the_weights_the_posterior_is_that_of_enumeration() -> None:
    model = student().fit(*heavy(weak=0.06))
    problem = model.posterior_.searched
    assert problem.family.dof == 2.0 and problem.noise_weight.min() < 0.1
    assert problem.n == pytest.approx(120.0) and problem.noise_weight.mean() == pytest.approx(1.0)
    exact = exact_posterior(problem, problem.language.enumerate(), size=2).inclusion(laws=True)
    plain = problem.with_noise(resolve_family("gaussian"), None)
    other = exact_posterior(plain, plain.language.enumerate(), size=2).inclusion(laws=True)
    table = model.inclusion_

    def apart(target: dict[Any, float]) -> float:
        found = [(table["probability"].get(f.text, 0.0), table["mcse"].get(f.text, 0.0), p) for f, p in target.items()]
        return max(abs(value - p) / (mcse + 1e-3) for value, mcse, p in found)

    assert apart(exact) < 4.5
    # The posterior without the weights is another one: the comparison would notice.
    assert apart(other) > 10.0


def test_weights_are_those_of_the_best_model(fitted: BGNLMRegressor) -> None:
    X, y = heavy()
    assert fitted.best_model() == ("a*b",)
    truth = estimate_noise(np.column_stack([np.ones(120), X["a"] * X["b"]]), y, np.ones(120))
    assert fitted.problem_.family.dof == truth.dof == 2.0
    assert fitted.problem_.family.tail == pytest.approx(estimate_tail(truth, np.ones(120)), rel=1e-4)
    order = np.lexsort((X["c"], X["b"], X["a"]))
    searched = fitted.posterior_.searched
    mine = np.lexsort((searched.x[2], searched.x[1], searched.x[0]))
    np.testing.assert_allclose(
        fitted.posterior_.result.noise_weight[mine], (truth.weight / truth.weight.mean())[order], rtol=1e-5
    )


def test_gaussian_errors_have_no_weights() -> None:
    X, _ = heavy()
    y = 1.0 + 2.0 * X["a"] * X["b"] + 0.1 * np.random.default_rng(8).normal(size=len(X))
    model, plain = student().fit(X, y), student(family="gaussian").fit(X, y)
    assert model.posterior_.result.noise_weight is None and model.problem_.family == resolve_family("gaussian")
    pd.testing.assert_frame_equal(model.inclusion_, plain.inclusion_)


def test_case_weights_multiply_and_a_law_survives_outliers() -> None:
    X, y = heavy()
    model = student(family=Student(2.0)).fit(X, y, sample_weight=np.full(120, 2.0))
    searched = model.posterior_.searched
    assert searched.n == pytest.approx(240.0) and model.problem_.family.dof == 2.0
    np.testing.assert_allclose(searched.weights, 2.0 * searched.noise_weight, rtol=1e-12)


def test_many_rows_are_judged_by_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "ROWS", 300)
    X, y = heavy(900, dof=2.0)
    model = student().fit(X, y)
    assert model.best_model() == ("a*b",) and len(model.posterior_.result.noise_weight) == 900
    truth = estimate_noise(np.column_stack([np.ones(900), X["a"] * X["b"]]), y, np.ones(900))
    assert DEGREES.index(model.problem_.family.dof) == pytest.approx(DEGREES.index(truth.dof), abs=1)


# --- predictions ------------------------------------------------------------------------------------------------


def test_intervals_cover_what_they_say(fitted: BGNLMRegressor) -> None:
    X, y = heavy(20_000, seed=99)
    frame = fitted.predict(X, interval=0.9)
    assert 0.88 < np.mean((frame["lower"] < y) & (y < frame["upper"])) < 0.95
    gaussian = student(family="gaussian").fit(*heavy()).predict(X, interval=0.9)
    assert (frame["upper"] - frame["lower"]).median() < 0.9 * (gaussian["upper"] - gaussian["lower"]).median()
    std = fitted.predict(X.to_numpy()[:5], return_std=True)[1]
    # Two degrees of freedom and fewer have no variance.
    assert np.isinf(std).all()


def test_coefficients_keep_their_errors(fitted: BGNLMRegressor) -> None:
    row = fitted.coefficients().loc["a*b"]
    assert abs(row["mean"] - 2.0) < 4.0 * row["sd"] and 0.001 < row["sd"] < 0.05


def test_intervals_grow_with_the_mean() -> None:
    def relative(rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(np.exp(rng.normal(size=(rows, 3))), columns=list("abc"))
        return X, (2.0 * X["a"] * X["b"] * (1.0 + 0.05 * rng.normal(size=rows))).to_numpy()

    model = student().fit(*relative(150, 1))
    errors = model.problem_.family
    assert model.best_model() == ("a*b",) and errors.dof == math.inf and errors.spread == 1.0
    assert "Gaussian errors, in proportion to the mean" in model.summary()
    X, y = relative(20_000, 2)
    frame = model.predict(X, interval=0.9)
    covered = (frame["lower"] < y) & (y < frame["upper"])
    for some in (y < np.quantile(y, 0.2), y > np.quantile(y, 0.8)):
        assert covered[some].mean() == pytest.approx(0.9, abs=0.04)
    std = model.predict(X.to_numpy()[:200], return_std=True)[1]
    assert np.median(std / frame["mean"][:200]) == pytest.approx(0.05, rel=0.2)
    # Where all rows are alike, intervals of small responses are far too wide, and those of large ones too short.
    other = student(family=Student(spread=0)).fit(*relative(150, 1)).predict(X, interval=0.9)
    assert ((other["lower"] < y) & (y < other["upper"]))[y > np.quantile(y, 0.8)].mean() < 0.8


# --- storage ----------------------------------------------------------------------------------------------------


def test_one_seed_gives_one_answer_for_any_number_of_workers(fitted: BGNLMRegressor) -> None:
    again = student(n_jobs=2).fit(*heavy())
    pd.testing.assert_frame_equal(fitted.inclusion_, again.inclusion_)
    np.testing.assert_array_equal(fitted.posterior_.result.noise_weight, again.posterior_.result.noise_weight)


def test_saved_and_merged_runs_keep_errors_and_floor(fitted: BGNLMRegressor, tmp_path: Path) -> None:
    X, y = heavy()
    other = student(random_state=2).fit(X, y)
    for name, model in (("one", fitted), ("two", other)):
        model.save(tmp_path / name)
    loaded = [modejump.load(tmp_path / name) for name in ("one", "two")]
    pd.testing.assert_frame_equal(loaded[0].predict(X, interval=0.9), fitted.predict(X, interval=0.9))
    np.testing.assert_array_equal(loaded[0].posterior_.result.noise_weight, fitted.posterior_.result.noise_weight)
    assert loaded[0].summary() == fitted.summary() and "Student-t errors" in fitted.summary()
    merged = modejump.merge(*loaded)
    assert merged.problem_.family == fitted.problem_.family
    np.testing.assert_array_equal(merged.posterior_.result.noise_weight, fitted.posterior_.result.noise_weight)
    with pytest.raises(InputError, match="noise floor of the response differ"):
        modejump.merge(fitted, student(random_state=3, noise_floor=0.01).fit(X, y))


def test_a_resumed_run_has_the_weights_it_had(fitted: BGNLMRegressor, tmp_path: Path, monkeypatch: Any) -> None:
    X, y = heavy()
    begin = modejump.runtime.checkpoints.Checkpoint.save

    def die(self: Any, *args: Any) -> None:
        begin(self, *args)
        self.close()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(modejump.runtime.checkpoints.Checkpoint, "due", lambda self: True)
        patch.setattr(modejump.runtime.checkpoints.Checkpoint, "save", die)
        with pytest.raises(KeyboardInterrupt):
            modejump.Run(tmp_path / "run").fit(student(), X, y)
    with monkeypatch.context() as patch:
        # They are read: nobody looks for them again.
        patch.setattr(noise, "quick_search", None)
        resumed = modejump.resume(tmp_path / "run")
    pd.testing.assert_frame_equal(resumed.inclusion_, fitted.inclusion_)
    np.testing.assert_array_equal(resumed.posterior_.result.noise_weight, fitted.posterior_.result.noise_weight)


def test_families_have_a_text_and_copies() -> None:
    for family in (
        Student(),
        Student(3),
        Student(0.5),
        Student(2, tail=(0.7, 0.3)),
        Student(spread=1),
        Student(math.inf, spread=0.5),
    ):
        assert resolve_family(family.spec) == family == pickle.loads(pickle.dumps(family)) == copy.deepcopy(family)
    assert Student(3) != Student(4) != Student() and Student(3) != resolve_family("gaussian")
    assert clone(student(family=Student(3))).family == Student(3)


# --- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dof", [0.0, -1.0, math.nan, "3", True])
def test_bad_degrees_of_freedom_are_refused(dof: Any) -> None:
    with pytest.raises(InputError, match="dof of Student-t errors"):
        Student(dof)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: student(noise_floor=-1.0), "noise_floor must be a number of at least 0"),
        (lambda: student(noise_floor="small"), "noise_floor must be a number of at least 0"),
        (lambda: student(family="student(x)"), "dof of Student-t errors must be a number"),
        (lambda: student(family="student(3,2)"), "spread of Student-t errors must be a number from 0 to 1"),
        (lambda: student(family="gaussian(3)"), "takes no parameter"),
        (lambda: student(family="poisson", noise_floor=0.1), "noise_floor does not go with family 'poisson'"),
        (lambda: student(link="log"), "the student family has no link 'log'"),
        (lambda: BGLMRegressor(family="student"), "Student-t errors are for searches of laws"),
    ],
)
def test_options_that_cannot_be_honoured_are_refused(make: Any, sentence: str) -> None:
    X, y = heavy(30)
    with pytest.raises(InputError, match=sentence):
        make().fit(X, np.round(np.abs(y)))


def test_other_searches_refuse_student_errors() -> None:
    X, y = heavy(30)
    with pytest.raises(InputError, match="Student-t errors are for searches of laws"):
        LogicRegressor(family="student").fit((X > 1.5).astype(int), y)
    with pytest.raises(InputError, match="need the rows in memory"):
        student().fit(scan_chunks(lambda: [X.assign(y=y)], [*X, "y"]), "y")
    with pytest.raises(TypeError):
        BGNLMClassifier(noise_floor=0.1)
