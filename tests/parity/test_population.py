"""Populations as selection problems, and the archive of their models, against plain evaluation."""

from __future__ import annotations

from typing import Any

import feature_twin as twin
import numpy as np
import pytest

from modejump.features.nonlinear.expression import Feature, evaluate
from modejump.features.nonlinear.space import Space
from modejump.kernels.populations.population import SAME_COLUMN
from modejump.priors.coefficients import COEF_PRIORS, KnownVariance
from modejump.priors.complexity import ComplexityPrior
from modejump.problem.feature_problem import FeatureProblem, feature_problem
from modejump.samplers.chains import genetic_chain
from modejump.samplers.chains.genetic_chain import GeneticChain

NAMES = ("x", "y", "z", "w")
FUNCTIONS = ("sin", "troot", "p0", "hs")
ROWS = 60

CASES: dict[str, dict[str, Any]] = {
    "intercept": {},
    "case weights": {"weights": np.random.default_rng(1).uniform(0.1, 3.0, ROWS)},
    "no intercept": {"intercept": False},
    "trees": {"model_prior": ComplexityPrior("exp(-1)", "trees")},
    "weights without intercept": {"weights": np.random.default_rng(2).integers(1, 4, ROWS), "intercept": False},
}


def data(rng: np.random.Generator, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=(rows, 4)) + np.array([0.0, 1.0, 10.0, 0.0])
    x[:, 3] = 3.0
    y = 4.0 + x[:, 0] * x[:, 1] + np.abs(x[:, 2]) ** (1 / 3) + 0.3 * rng.normal(size=rows)
    return x, y


def problem_of(x: np.ndarray, y: np.ndarray, space: Space, **options: Any) -> FeatureProblem:
    return feature_problem(x, y, NAMES, transforms=twin.listed(FUNCTIONS), space=space, **options)


def chain_of(problem: FeatureProblem, seed: int = 0, **options: Any) -> GeneticChain:
    return GeneticChain(problem, np.random.SeedSequence(seed), **({"steps": 60, "patience": 12} | options))


def scratch(chain: GeneticChain, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[int, np.ndarray]]:
    """Gram matrix, correlations and prior weights of a population from its features' texts."""
    problem, places = chain.problem, chain.arrays.population.feature
    s = len(places)
    table = dict(zip(NAMES, problem.x))
    base = np.ones((len(y), 1)) if problem.basis.shape[0] else np.zeros((len(y), 0))
    basis = np.linalg.qr(base * problem.root_weight[:, None])[0].T
    target = y * problem.root_weight
    target = target - basis.T @ (basis @ target)
    target /= np.linalg.norm(target)
    gram, corr, weight, z = np.zeros((s, s)), np.zeros(s), np.full(s, -np.inf), {}
    for place, f in enumerate(places):
        if f >= 0:
            feature = chain.feature(int(f))
            column = twin.standardised(evaluate(feature, table), basis, problem.root_weight)
            assert column is not None
            z[place] = column
            corr[place] = column @ target
            weight[place] = twin.log_weight(problem, feature)
    for i in z:
        for j in z:
            gram[i, j] = z[i] @ z[j]
    return gram, corr, weight, z


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_population_equals_its_arrays_from_scratch(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    x, y = data(rng)
    chain = chain_of(problem_of(x, y, Space(size=10, population=10), **options))
    ids = twin.random_recipe(rng, chain.language, 400, projections=0.0, most=6).into(chain.table)  # type: ignore[arg-type]
    problem, pop, given = chain.problem, chain.arrays.population, chain.arrays.data
    table = dict(zip(NAMES, problem.x))
    reasons = dict.fromkeys(("admitted", "unfit", "copy"), 0)
    for round_ in range(60):
        full = [p for p in range(10) if pop.feature[p] >= 0]
        leave = [p for p in full if rng.random() < 0.4]
        twin.vacate_some(chain.arrays, np.array(leave, np.int64))
        for place in range(10):
            if pop.feature[place] >= 0:
                continue
            f = int(rng.choice(ids))
            if f in pop.feature:
                continue
            column = twin.standardised(evaluate(chain.feature(f), table), problem.basis, problem.root_weight)
            others = list(scratch(chain, y)[3].values())
            share = None if column is None else min((twin.own_share(column, [z]) for z in others), default=1.0)
            admitted = twin.admit_one(chain.arrays, place, f)
            if share is None:
                reasons["unfit"] += 1
                assert not admitted
            elif share < 1e-10:
                reasons["copy"] += 1
                assert not admitted
            elif share > 1e-6:
                reasons["admitted"] += 1
                assert admitted and pop.feature[place] == f
        if round_ % 6 == 0:
            gram, corr, weight, _ = scratch(chain, y)
            # Inner products of unit vectors of n rows.
            np.testing.assert_allclose(given.gram, gram, atol=1e-12)
            np.testing.assert_allclose(given.corr, corr, atol=1e-12)
            np.testing.assert_allclose(given.prior.log_weight, weight, rtol=1e-13)
            present = pop.feature >= 0
            np.testing.assert_array_equal(given.zobrist[present], chain.table.key[pop.feature[present]])
    assert reasons["admitted"] > 100 and reasons["unfit"] > 3, reasons


def admits(x: np.ndarray, y: np.ndarray, texts: list[str], **options: Any) -> list[bool]:
    """Which of the features are admitted, one after another."""
    chain = chain_of(problem_of(x, y, Space(), **options))
    numbers = chain.numbers([Feature.parse(text) for text in texts])
    return [bool(twin.admit_one(chain.arrays, place, f)) for place, f in enumerate(numbers)]


def test_copies_are_refused_and_combinations_admitted() -> None:
    rng = np.random.default_rng(5)
    x, y = data(rng)
    x[:, 2] = 5.0 - 2.0 * x[:, 0]
    assert admits(x, y, ["x", "y", "z", "x*x"]) == [True, True, False, True]
    # Without an intercept the constant is no part of the span.
    assert admits(x, y, ["x", "y", "z", "x*x"], intercept=False) == [True, True, True, True]
    # hs(x) and hs(x*x*x) are one column.
    assert admits(x, y, ["hs(x)", "hs(x*x*x)"]) == [True, False]
    # A combination may take the place of what it combines.
    x[:, 2] = 2.0 * x[:, 0] - x[:, 1]
    assert admits(x, y, ["x", "y", "z"]) == [True, True, True]
    # A copy is judged by the share of the squared length that is the candidate's own.
    for share, expected in ((100 * SAME_COLUMN, True), (SAME_COLUMN / 100, False)):
        q = np.linalg.qr(np.column_stack([np.ones(ROWS), x[:, :2], rng.normal(size=ROWS)]))[0]
        x[:, 2] = np.sqrt(1 - share) * q[:, 1] + np.sqrt(share) * q[:, 3]
        assert admits(x, y, ["x", "y", "z"]) == [True, True, expected]


def test_columns_without_finite_variation_are_refused() -> None:
    rng = np.random.default_rng(6)
    x, y = data(rng)
    x[:, 2] *= 1e150
    # A constant covariate, a logarithm of negative numbers, an overflow, and a constant step.
    assert admits(x, y, ["w", "p0(x)", "z*z", "hs(w)", "x"]) == [False, False, False, False, True]
    assert admits(x, y, ["w", "x"], intercept=False) == [True, True]
    # Variation in the rounding errors of a large level is none.
    x[:, 2] = 1e9 + rng.normal(size=ROWS)
    assert admits(x, y, ["z", "x"]) == [False, True]


# --- the archive --------------------------------------------------------------------------------------------------

PRIORS = {
    "g": COEF_PRIORS["g"](),
    "jeffreys": COEF_PRIORS["jeffreys"](),
    "known variance": KnownVariance(0.5),
    "hyper-g": COEF_PRIORS["hyper-g"](),
}


def agreeing(problem: FeatureProblem, y: np.ndarray, models: dict[frozenset[Feature], float], **given: Any) -> int:
    """Every value equals least squares on the rows; how many of them to 1e-8, whatever their condition."""
    strict = 0
    for model, value in models.items():
        expected = twin.evaluation(problem, y, sorted(model), **given)
        difference = abs(value - expected.value)
        assert difference <= 1e-8 + expected.rounding, sorted(model)
        strict += difference <= 1e-8
    return strict


@pytest.mark.parametrize("spelling", ["canonical", "trees"])
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_archived_log_posteriors_equal_least_squares(prior: Any, spelling: str) -> None:
    rng = np.random.default_rng(7)
    x, y = data(rng)
    problem = problem_of(
        x, y, Space(size=6, population=12), coef_prior=prior, model_prior=ComplexityPrior("exp(-1)", spelling)
    )
    chain = chain_of(problem)
    chain.run_to(40)
    archived = sorted(twin.kept_models(chain).items(), key=lambda item: -item[1])
    assert len(archived) >= 300
    checked = archived[:100] + [archived[i] for i in rng.choice(range(100, len(archived)), 150, replace=False)]
    assert agreeing(problem, y, dict(checked)) > 150


@pytest.mark.parametrize("options", [CASES["case weights"], CASES["no intercept"]], ids=["weights", "no intercept"])
@pytest.mark.parametrize("alphas", ["ml", "ones", "random"])
def test_archived_models_with_projections_equal_least_squares(options: dict[str, Any], alphas: str) -> None:
    rng = np.random.default_rng(8)
    x, y = data(rng)
    space = Space(size=4, population=12, mutation=0.1, projection=0.2, alphas=alphas)
    problem = problem_of(x, y, space, model_prior=ComplexityPrior(0.5), **options)
    chain = chain_of(problem)
    chain.run_to(60)
    chain.collect()
    models = {m: v for m, v in chain.collected.items() if any(map(_holds_projection, m))}
    models = dict([*models.items()][:200])
    assert any(f.kind != "projection" and _holds_projection(f) for model in models for f in model)
    assert agreeing(problem, y, models, constants=chain.constants, weights=options.get("weights")) > 50


def _holds_projection(feature: Feature) -> bool:
    return any(part.kind == "projection" for part in feature.subfeatures())


def test_distinct_models_are_counted_and_kept_once() -> None:
    rng = np.random.default_rng(9)
    x, y = data(rng)
    chain = chain_of(problem_of(x, y, Space(size=5, population=10)), distinct=1 << 15)
    met: dict[frozenset[Feature], float] = {}
    again = evaluated = 0
    for populations in range(1, 60):
        chain.run_to(populations)
        stored = {model: value for model, value in twin.stored_models(chain).items() if value > -np.inf}
        evaluated += int(chain.arrays.chain.store.scalars["count"])
        again += len(stored.keys() & met.keys())
        for model, value in stored.items():
            # One model has one value, whichever population and place its features are in.
            assert abs(met.setdefault(model, value) - value) < 1e-8
        assert chain.arrays.archive.scalars["distinct"] == len(met)
    assert again > 500
    assert chain.arrays.archive.scalars["evaluated"] == evaluated
    kept = twin.kept_models(chain)
    assert len(kept) == chain.arrays.archive.scalars["kept"]
    best = max(met.values())
    assert chain.arrays.archive.scalars["best"] == best
    # All models that are not negligible are kept: the bar lies 40 below the best.
    assert chain.arrays.archive.scalars["bar"] == best - 40.0
    assert {m for m, v in met.items() if v > best - 39.9} <= kept.keys()
    assert all(abs(kept[m] - met[m]) < 1e-12 for m in kept)


def test_distinct_counting_stops_quietly_where_its_table_is_full() -> None:
    x, y = data(np.random.default_rng(10))
    chain = chain_of(problem_of(x, y, Space(size=5, population=10)), distinct=64)
    chain.run_to(40)
    room = len(chain.arrays.archive.seen)
    assert chain.arrays.archive.scalars["distinct"] == 3 * room // 4 + 1
    assert chain.arrays.archive.scalars["kept"] > room


@pytest.mark.parametrize("capacity", [16, 100])
def test_thinning_keeps_the_best(capacity: int) -> None:
    x, y = data(np.random.default_rng(11))
    problem = problem_of(x, y, Space(size=5, population=10))
    large, small = chain_of(problem), chain_of(problem, archive=capacity)
    for chain in (large, small):
        chain.run_to(60)
    everything = sorted(twin.kept_models(large).items(), key=lambda item: -item[1])
    kept = twin.kept_models(small)
    assert 0 < len(kept) < capacity < len(everything)
    bar = small.arrays.archive.scalars["bar"]
    # Models that are level with the bar but for rounding may be on either side.
    surely, perhaps = ({model for model, value in everything if value > bar + by} for by in (1e-9, -1e-9))
    assert surely <= kept.keys() <= perhaps
    assert everything[0][0] in kept


def test_a_renewed_table_keeps_count_best_and_results(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = data(np.random.default_rng(12))
    problem = problem_of(x, y, Space(size=4, population=10))
    monkeypatch.setattr(genetic_chain, "FEATURES", 150)
    chain = chain_of(problem)
    met: dict[frozenset[Feature], float] = {}
    tables = 1
    table = chain.table
    for populations in range(1, 80):
        chain.run_to(populations)
        tables += chain.table is not table
        table = chain.table
        met |= {model: value for model, value in twin.stored_models(chain).items() if value > -np.inf}
    chain.collect()
    assert tables >= 3
    assert chain.arrays.archive.scalars["distinct"] == len(met)
    best = max(met.values())
    assert abs(chain.arrays.archive.scalars["best"] - best) < 1e-9
    assert abs(max(chain.collected.values()) - best) < 1e-9
    assert agreeing(problem, y, chain.collected) > 10
    assert {m for m, v in met.items() if v > best - 8.0} <= chain.collected.keys()
