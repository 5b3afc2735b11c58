"""GMJMCMC as a whole: one seed one answer, known laws, an enumerated space, restarts, budgets, bad input."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import feature_twin as twin
import numpy as np
import pytest
from feature_cases import feature_of, trees
from running import gmjmcmc
from scipy.optimize import least_squares

from modejump.core.errors import InputError
from modejump.experiments import load_exoplanets
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.kernels.populations.feature_chain import work
from modejump.priors.coefficients import Jeffreys, KnownVariance
from modejump.priors.complexity import ComplexityPrior
from modejump.problem.feature_problem import FeatureProblem, feature_problem
from modejump.samplers.budget import Budget
from modejump.samplers.chains import genetic_chain as genetic
from modejump.samplers.chains.genetic_chain import COLUMN_BYTES, GeneticChain
from modejump.samplers.gmjmcmc import STEPS
from modejump.samplers.result import Result

NAMES = ("x1", "x2", "x3", "x4")
F = Feature.parse


def table(rows: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 3.0, size=(rows, 4)), rng.normal(size=rows)


def problem_of(x: np.ndarray, y: np.ndarray, functions: tuple[str, ...], **options: Any) -> FeatureProblem:
    options = {"space": Space()} | options
    return feature_problem(x, y, NAMES[: x.shape[1]], transforms=twin.listed(functions), **options)


def search(problem: FeatureProblem, y: np.ndarray, populations: int, chains: int = 2, **options: Any) -> Result:
    return gmjmcmc(problem, chains=chains, budget=Budget(steps=populations * STEPS), **options)


def probabilities(found: Result) -> dict[Feature, float]:
    return dict(zip(found.laws.features, found.renormalised.tolist()))


@pytest.fixture(scope="module")
def small() -> tuple[FeatureProblem, np.ndarray]:
    x, noise = table(40)
    y = x[:, 0] + noise
    return problem_of(x, y, ("sin",)), y


# --- one seed, one answer ---------------------------------------------------------------------------------------


def test_one_seed_gives_one_answer_for_any_number_of_workers() -> None:
    x, noise = table(80)
    y = x[:, 0] * x[:, 1] + 0.5 * noise
    problem = problem_of(x, y, ("sin", "troot"), space=Space(projection=0.1, mutation=0.2))
    first, second, again = (search(problem, y, 15, 4, seed=7, workers=w) for w in (1, 2, 1))
    for other in (second, again):
        assert other.laws.features == first.laws.features
        np.testing.assert_array_equal(other.models.words, first.models.words)
        np.testing.assert_array_equal(other.models.log_posterior, first.models.log_posterior)
        np.testing.assert_array_equal(other.chain_best, first.chain_best)
        assert {f: a.tolist() for f, a in other.laws.constants.items()} == {
            f: a.tolist() for f, a in first.laws.constants.items()
        }
    different = search(problem, y, 15, 4, seed=8)
    assert not np.array_equal(different.models.log_posterior, first.models.log_posterior)
    assert first.populations == 60 and first.steps == 60 * STEPS


def test_a_chain_does_not_depend_on_how_its_populations_are_cut() -> None:
    x, noise = table(60)
    problem = problem_of(x, x[:, 0] * x[:, 2] + noise, ("sin",))
    whole, pieces = (GeneticChain(problem, np.random.SeedSequence(3), steps=100, patience=5) for _ in range(2))
    whole.run_to(40)
    for populations in (1, 2, 17, 40):
        pieces.run_to(populations)
    assert twin.kept_models(whole) == twin.kept_models(pieces)


def test_arrays_of_any_layout_run_the_same_compiled_code(small) -> None:
    x, noise = table(40)
    y = x[:, 0] + noise
    compiled = len(work.compiled.signatures)
    for layout in (np.asfortranarray(x), x[::-1][::-1], x.copy()):
        target = y.copy()
        layout.flags.writeable = target.flags.writeable = False
        found = search(problem_of(layout, target, ("sin",)), target, 5)
        np.testing.assert_array_equal(found.models.log_posterior, search(small[0], y, 5).models.log_posterior)
    assert len(work.compiled.signatures) == max(compiled, 1)


# --- known laws -------------------------------------------------------------------------------------------------

LAWS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "product": ("x1*x2", lambda x: x[:, 0] * x[:, 1]),
    "orbit": ("troot(x1*x1*x2)", lambda x: np.cbrt(x[:, 0] ** 2 * x[:, 1])),
    "modification": ("sin(x3)", lambda x: np.sin(x[:, 2])),
    "two at once": ("sin(x3)", lambda x: np.sin(x[:, 2]) + x[:, 0] * x[:, 1]),
}


@pytest.mark.parametrize(("text", "law"), LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("prior", ["g", "jeffreys"])
def test_simple_laws_are_found_with_few_populations(text: str, law: Callable, prior: str) -> None:
    x, noise = table(200)
    y = law(x) + 0.02 * noise
    found = search(problem_of(x, y, ("sin", "troot", "sigmoid"), coef_prior=prior), y, 100, 8)
    assert probabilities(found)[F(text)] > 0.9
    assert (np.diff(found.models.log_posterior) <= 0).all()
    assert np.exp(found.models.log_posterior - found.log_evidence).sum() == pytest.approx(1.0)


def test_case_weights_and_no_intercept() -> None:
    x, noise = table(120)
    y = 2.0 * x[:, 0] * x[:, 1] + 0.5 * noise
    weights = np.random.default_rng(2).integers(0, 4, 120).astype(float)
    # A row of weight three counts as three rows, and one of weight zero is none.
    rows = np.repeat(np.arange(120), weights.astype(int))
    for intercept in (True, False):
        options: dict[str, Any] = {"intercept": intercept, "coef_prior": "jeffreys"}
        weighted = search(problem_of(x, y, ("sin",), weights=weights, **options), y, 20)
        repeated = search(problem_of(x[rows], y[rows], ("sin",), **options), y[rows], 20)
        for found in (weighted, repeated):
            assert probabilities(found)[F("x1*x2")] > 0.9
        assert weighted.chain_best == pytest.approx(repeated.chain_best, abs=1e-7)
        assert weighted.laws.problem.intercept is intercept


def test_a_constant_covariate_is_left_alone() -> None:
    x, noise = table(60)
    x[:, 3] = 2.0
    y = x[:, 0] + 0.1 * noise
    found = search(problem_of(x, y, ("sin",)), y, 10)
    assert F("x4") not in found.laws.features and probabilities(found)[F("x1")] > 0.5


# --- an enumerated space ----------------------------------------------------------------------------------------


def every_feature(complexity: int) -> list[Feature]:
    """All canonical features over x, y and sin, from all expression trees."""
    return sorted({feature_of(tree) for c in range(1, complexity + 1) for tree in trees(c)})


@pytest.mark.parametrize("spelling", ["canonical", "trees"])
@pytest.mark.parametrize("signal", [0.3, 1.0])
def test_an_enumerated_space_is_searched_through(spelling: str, signal: float) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(40, 2))
    y = signal * (x[:, 0] * x[:, 1] + np.sin(x[:, 0])) + rng.normal(size=40)
    space = Space(complexity=3, size=2, population=10)
    problem = feature_problem(
        x,
        y,
        ("x", "y"),
        transforms=twin.listed(("sin",)),
        space=space,
        model_prior=ComplexityPrior("exp(-1)", spelling),
    )
    features = every_feature(3)
    assert len(features) == 20
    exact = {
        frozenset(model): twin.evaluation(problem, y, model).value
        for size in range(3)
        for model in itertools.combinations(features, size)
    }
    assert len(exact) == 1 + 20 + 190
    total = np.logaddexp.reduce(list(exact.values()))
    found = search(problem, y, 150, 4)
    laws = found.laws.features
    models = {
        frozenset(laws[i] for i in found.models.members(row)): found.models.log_posterior[row]
        for row in range(len(found.models))
    }
    assert not any(found.laws.aliases.values())
    assert all(abs(value - exact[model]) < 1e-8 for model, value in models.items())
    # With a long budget all models that matter are found.
    assert {model for model, value in exact.items() if value - total > np.log(0.001)} <= models.keys()
    # What is missing bounds the error of every renormalised probability.
    missing = 1.0 - sum(np.exp(exact[model] - total) for model in models)
    assert missing < 0.001
    inclusion = {f: sum(np.exp(v - total) for m, v in exact.items() if f in m) for f in features}
    renormalised = probabilities(found)
    for f in features:
        assert abs(renormalised.get(f, 0.0) - inclusion[f]) <= missing + 1e-8


# --- restarts, renewal of the table, size -----------------------------------------------------------------------


def test_stalled_chains_restart() -> None:
    x, noise = table(60)
    y = x[:, 0] + 0.1 * noise
    problem = problem_of(x, y, ("sin",))
    eager, patient = (
        GeneticChain(problem, np.random.SeedSequence(4), steps=60, patience=patience) for patience in (3, 1_000)
    )
    for chain in (eager, patient):
        chain.run_to(60)
    assert int(patient.arrays.genetic.scalars["restarts"]) == 0
    # A population that improves nothing counts towards a restart, so there are at most 60 / 4 of them.
    assert 5 <= int(eager.arrays.genetic.scalars["restarts"]) <= 15
    found = search(problem, y, 200, 2)
    assert found.restarts > 0


def test_a_small_table_of_features_is_renewed_and_the_result_stays_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    x, noise = table(100)
    y = np.cbrt(x[:, 0] ** 2 * x[:, 1]) + 0.02 * noise
    problem = problem_of(x, y, ("sin", "troot"), space=Space(projection=0.1, mutation=0.2))
    monkeypatch.setattr(genetic, "FEATURES", 400)
    found = search(problem, y, 60, 4)
    assert found.populations == 240
    assert probabilities(found)[F("troot(x1*x1*x2)")] > 0.9
    for row in range(min(40, len(found.models))):
        members = found.models.members(row)
        model = [found.laws.features[i] for i in members]
        if not any(found.laws.aliases[f] for f in model):
            expected = twin.evaluation(problem, y, model, found.laws.constants)
            difference = abs(found.models.log_posterior[row] - expected.value)
            assert difference < 1e-8 + expected.rounding
    # The best of each chain is the best of all its tables.
    assert found.chain_best.max() == pytest.approx(found.models.log_posterior[0], abs=0.5)


def test_many_rows_need_bounded_memory() -> None:
    x, noise = table(100_000)
    y = x[:, 0] * x[:, 1] + 0.5 * noise
    problem = problem_of(x, y, ("sin", "troot"))
    chain = GeneticChain(problem, np.random.SeedSequence(0), steps=STEPS, patience=30)
    assert chain.arrays.pool.values.nbytes <= COLUMN_BYTES
    chain.run_to(12)
    chain.collect()
    assert max(chain.collected, key=lambda model: chain.collected[model]) == frozenset([F("x1*x2")])


# --- budgets and bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "populations"), [(1, 1), (STEPS, 1), (STEPS + 1, 2), (10 * STEPS, 10)])
def test_steps_become_whole_populations(small, steps: int, populations: int) -> None:
    problem, y = small
    assert gmjmcmc(problem, chains=3, budget=Budget(steps=steps)).populations == 3 * populations


@pytest.mark.parametrize("workers", [1, 2])
def test_seconds_are_roughly_kept(small, workers: int) -> None:
    problem, y = small
    began = time.perf_counter()
    found = gmjmcmc(problem, chains=4, budget=Budget(seconds=1.0), workers=workers)
    elapsed = time.perf_counter() - began
    assert found.populations >= 40
    # Not less than what was asked for; how much more depends on how busy the machine is.
    assert elapsed >= 1.0


def test_progress_is_told(small) -> None:
    problem, y = small
    calls: list[tuple[float, float, str]] = []
    gmjmcmc(problem, chains=3, budget=Budget(steps=1), progress=lambda *told: calls.append(told))
    assert [(done, total) for done, total, _ in calls] == [(1, 3), (2, 3), (3, 3)]


BAD_SEARCHES: dict[str, tuple[dict[str, Any], str]] = {
    "precision": ({"budget": Budget(mcse=0.01)}, "no Monte Carlo error"),
    "warm-up": ({"budget": Budget(warmup=100, steps=1000)}, "without warmup"),
}


@pytest.mark.parametrize(("options", "words"), BAD_SEARCHES.values(), ids=BAD_SEARCHES)
def test_bad_searches_are_refused_in_one_sentence(small, options: dict[str, Any], words: str) -> None:
    problem, y = small
    with pytest.raises(InputError) as caught:
        gmjmcmc(problem, **options)
    assert words in str(caught.value) and "\n" not in str(caught.value)


X, Y = np.arange(12.0).reshape(6, 2) ** 2, np.arange(6.0)
BAD_PROBLEMS: dict[str, tuple[dict[str, Any], str]] = {
    "no covariate": ({"x": np.zeros((6, 0)), "names": ()}, "no covariate"),
    "constant covariates": ({"x": np.ones((6, 2))}, "every covariate is constant"),
    "constant response": ({"y": np.ones(6)}, "y is constant"),
    "not a number": ({"x": np.where(X == 9.0, np.nan, X)}, "X holds NaN"),
    "rows": ({"y": Y[:5]}, "6 rows but y has 5"),
    "weights": ({"weights": -np.ones(6)}, "sample_weight is negative"),
    "too few names": ({"names": ("a",)}, "give each column its own name"),
    "one name twice": ({"names": ("a", "a")}, "give each column its own name"),
    "unknown prior": ({"coef_prior": "lasso"}, "lasso"),
}


@pytest.mark.parametrize(("options", "words"), BAD_PROBLEMS.values(), ids=BAD_PROBLEMS)
def test_bad_problems_are_refused_in_one_sentence(options: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"x": X, "y": Y, "names": ("a", "b"), "transforms": twin.listed(("sin",)), "space": Space()}
    feature_problem(**given)
    with pytest.raises(InputError) as caught:
        feature_problem(**(given | options))
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_optimised_alphas_are_a_least_squares_optimum() -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(150, 2))
    y = 3.0 / (1.0 + np.exp(-(0.5 + x[:, 0] - 1.5 * x[:, 1]))) + 0.05 * rng.normal(size=150)
    space = Space(mutation=0.2, crossover=0.2, modification=0.2, projection=0.4, alphas="optimised")
    problem = feature_problem(x, y, ("a", "b"), transforms=twin.listed(("sigmoid",)), space=space)
    chain = GeneticChain(problem, np.random.SeedSequence(3), steps=STEPS, patience=30)
    chain.run_to(400)
    chain.collect()
    wanted = Feature.parse("sigmoid(1 + a + b)")
    assert wanted in chain.constants

    def misfit(alpha: np.ndarray) -> np.ndarray:
        z = 1.0 / (1.0 + np.exp(-(alpha[0] + x @ alpha[1:])))
        design = np.column_stack([np.ones(len(y)), z])
        return y - design @ np.linalg.lstsq(design, y, rcond=None)[0]

    found = chain.constants[wanted]
    best = least_squares(misfit, found, xtol=1e-12, ftol=1e-12)
    assert np.sum(misfit(found) ** 2) <= 2.0 * best.cost * (1.0 + 1e-4)
    # The alphas by likelihood, from which the optimiser starts, are far from that.
    linear = np.linalg.lstsq(np.column_stack([np.ones(len(y)), x]), y, rcond=None)[0]
    assert np.sum(misfit(linear) ** 2) > 1.5 * np.sum(misfit(found) ** 2)


def test_a_transform_of_a_user_takes_part_in_the_search() -> None:
    mine = transforms.add("bump_of_mine", lambda x: 1.0 / (1.0 + x**4))
    try:
        rng = np.random.default_rng(5)
        x = rng.normal(size=(120, 2))
        y = 2.0 / (1.0 + (x[:, 0] * x[:, 1]) ** 4) + 0.1 * rng.normal(size=120)
        problem = feature_problem(x, y, ("a", "b"), transforms=[mine], space=Space())
        found = gmjmcmc(problem, chains=4, budget=Budget(steps=30_000), seed=2)
        best = int(np.argmax(found.renormalised))
        assert found.laws.features[best] == Feature.parse("bump_of_mine(a*b)")
        assert found.renormalised[best] > 0.95
    finally:
        transforms.remove("bump_of_mine")


def test_a_transform_of_a_user_that_fails_leaves_its_features_out() -> None:
    def fails_on_negatives(x: np.ndarray) -> np.ndarray:
        if (x < 0).any():
            raise FloatingPointError
        return np.sqrt(x)

    mine = transforms.add("fails_of_mine", fails_on_negatives, domain="x >= 0")
    try:
        problem = feature_problem(X, Y, ("a", "b"), transforms=[mine], space=Space())
        found = gmjmcmc(problem, chains=1, budget=Budget(steps=3_000), seed=2)
        assert np.isfinite(found.models.log_posterior).all()
    finally:
        transforms.remove("fails_of_mine")


@pytest.mark.parametrize(
    ("a", "n", "value"),
    [
        ("1/n", 50.0, -np.log(50.0)),
        ("1/n^2", 50.0, -2 * np.log(50.0)),
        ("n^-2", 50.0, -2 * np.log(50.0)),
        ("1 / n**0.5", 50.0, -0.5 * np.log(50.0)),
        ("exp(-2)", 50.0, -2.0),
        ("e^-1.5", 50.0, -1.5),
        (0.25, 50.0, np.log(0.25)),
    ],
)
def test_complexity_prior_reads_numbers_and_texts(a: float | str, n: float, value: float) -> None:
    assert ComplexityPrior(a).log_a(n) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize("a", [0.0, 1.0, -0.5, 2, True, None, "n", "1/n^-1", "1/n^0", "exp(2)", "exp(-2", "e^-2)", ""])
def test_complexity_priors_outside_zero_and_one_are_refused(a: Any) -> None:
    with pytest.raises(InputError, match="a of the complexity prior is"):
        ComplexityPrior(a)


def test_complexity_prior_refuses_a_spelling_it_does_not_know_and_too_few_observations() -> None:
    with pytest.raises(InputError, match="choose 'canonical' or 'trees'"):
        ComplexityPrior(0.5, "latin")
    with pytest.raises(InputError, match="not below 1 for 0.5 observations"):
        ComplexityPrior("1/n").log_a(0.5)


# --- the exoplanets ---------------------------------------------------------------------------------------------

PERIOD, STAR_MASS, STAR_RADIUS = "PeriodDays", "HostStarMassSlrMass", "HostStarRadiusSlrRad"
RADIUS, DENSITY = "RadiusJpt", "PlanetaryDensJpt"


def exoplanets(target: str, coef_prior: Any, model_prior: ComplexityPrior) -> dict[Feature, float]:
    """Renormalised probabilities after sixteen chains of 400 populations."""
    frame = load_exoplanets()
    covariates, y = frame.drop(columns=target), frame[target].to_numpy(float)
    problem = feature_problem(
        covariates.to_numpy(float),
        y,
        list(covariates.columns),
        transforms=twin.listed(transforms.set("G2")),
        space=Space(),
        coef_prior=coef_prior,
        model_prior=model_prior,
    )
    return probabilities(search(problem, y, 400, 16, workers=2))


def test_orbits_of_exoplanets_have_their_known_probabilities() -> None:
    found = exoplanets("SemiMajorAxisAU", KnownVariance(1.0), ComplexityPrior("1/n"))
    assert found[F(f"troot({PERIOD}*{PERIOD}*{STAR_MASS})")] == pytest.approx(0.564, abs=0.02)
    assert found[F(f"troot({PERIOD}*{PERIOD}*{STAR_RADIUS})")] == pytest.approx(0.429, abs=0.02)


def test_masses_of_exoplanets_have_their_known_probabilities() -> None:
    found = exoplanets("PlanetaryMassJpt", KnownVariance(1.0), ComplexityPrior("1/n", "trees"))
    assert found[F(f"{RADIUS}*{RADIUS}*{RADIUS}*{DENSITY}")] == pytest.approx(0.582, abs=0.03)
    assert found[F(f"to35({RADIUS})*{DENSITY}")] == pytest.approx(0.305, abs=0.03)


def test_the_mass_law_is_found_with_unknown_variance() -> None:
    found = exoplanets("PlanetaryMassJpt", Jeffreys(), ComplexityPrior("n^-2"))
    assert found[F(f"{RADIUS}*{RADIUS}*{RADIUS}*{DENSITY}")] > 0.95
