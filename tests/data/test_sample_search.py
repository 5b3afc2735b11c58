"""Laws from rows that are read in chunks: found on a sample, judged by all rows."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from paper_rules import paper

import modejump
from modejump import BGLMRegressor, BGNLMRegressor, Budget, InputError, Space
from modejump.data.rows import merge_rows
from modejump.data.sources import Source, open_rows
from modejump.features.nonlinear.expression import Feature, evaluate
from modejump.features.nonlinear.language import Nonlinear
from modejump.features.nonlinear.transforms import transforms
from modejump.posterior.posterior import Posterior
from modejump.priors.models import WeightedPrior
from modejump.problem.feature_problem import feature_problem
from modejump.samplers import sample_search
from modejump.samplers.sample_search import SampledRows, draw_sample

pytestmark = pytest.mark.filterwarnings("ignore::modejump.ModejumpWarning")
NAMES = ["a", "b", "c", "d"]
G = ("sin", "exp_abs", "troot")


class Chunks:
    """A table in chunks; some passes may be interrupted."""

    def __init__(self, frame: pd.DataFrame, rows: int, interrupted: Sequence[int] = ()) -> None:
        self.frame, self.rows, self.passes, self.interrupted = frame, rows, 0, interrupted

    def __call__(self) -> Iterator[np.ndarray]:
        self.passes += 1
        table = self.frame.to_numpy(np.float64)
        for i in range(0, len(table), self.rows):
            if i and self.passes in self.interrupted:
                signal.raise_signal(signal.SIGINT)
            yield table[i : i + self.rows]

    @property
    def source(self) -> Source:
        return modejump.scan_chunks(self, list(self.frame.columns))


def planets(noise: float, n: int = 500, seed: int = 5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.2, 3.0, (n, 4))
    y = 2.0 + 3.0 * x[:, 0] * np.sin(x[:, 2]) + noise * rng.normal(size=n)
    return pd.DataFrame(x, columns=NAMES).assign(y=y, w=rng.integers(0, 3, n).astype(float))


@pytest.fixture
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples that are not the table."""
    monkeypatch.setitem(draw_sample.__kwdefaults__, "sample", 300)


def fit(chunks: Chunks, weight: str | None = None, **more: object) -> BGNLMRegressor:
    options = {"chains": 2, "budget": Budget(warmup=20 * 300, steps=3000), "random_state": 3, "transforms": G}
    return BGNLMRegressor(**paper() | options | more).fit(chunks.source, "y", weight)


def sampled(
    frame: pd.DataFrame,
    rows: int = 97,
    weight: str | None = None,
    *,
    functions: Sequence[str] = G,
    space: Space | None = None,
    **more: object,
) -> SampledRows:
    found = open_rows(Chunks(frame, rows).source, "y", weight, 1)
    language = Nonlinear(found.covariates, [transforms[name] for name in functions], space or Space())
    return draw_sample(found, language, **more)


# The sample.


@pytest.mark.parametrize("weight", [None, "w"])
def test_a_table_that_fits_the_sample_is_searched_as_in_memory(weight: str | None) -> None:
    data = planets(0.3)
    data = data if weight else data.drop(columns="w")
    x, y, weights, _ = merge_rows(
        data[NAMES].to_numpy(), data["y"].to_numpy(), None if weight is None else data[weight].to_numpy()
    )
    whole = feature_problem(x, y, NAMES, transforms=[transforms[name] for name in G], space=Space(), weights=weights)
    for rows, seed in ((500, 1), (97, 2)):
        found = sampled(data.sample(frac=1.0, random_state=rows), rows, weight, seed=seed).problem
        for name in ("x", "y", "response", "root_weight"):
            np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
        assert (found.n, found.base_rss) == (whole.n, whole.base_rss)


def test_the_seed_draws_the_sample() -> None:
    data = planets(0.3).drop(columns="w")
    one, same, other = (sampled(data, sample=100, seed=seed).problem.y for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert len(one) == len(other) == 100 and len(np.intersect1d(one, other)) < 60
    assert set(one) <= set(data["y"])


def test_the_first_pass_knows_all_rows(small_sample: None) -> None:
    data = planets(0.3, 2000)
    found = sampled(data, weight="w")
    used = data[data["w"] > 0]
    assert found.moments.rows == len(used) and found.moments.n == data["w"].sum()
    assert len(found.problem.y) == 300 < len(used)
    np.testing.assert_allclose(
        found.moments.mean, np.average(used[[*NAMES, "y"]], axis=0, weights=used["w"]), rtol=1e-13
    )
    assert found.digest == sampled(data.iloc[::-1], 311, "w").digest


# Selection among the library's features.


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("noise", [0.3, 0.0])
def test_the_problem_is_that_in_memory_however_the_rows_are_cut(weight: str | None, noise: float) -> None:
    data = planets(noise)
    data = data if weight else data.drop(columns="w")
    features = [Feature(text) for text in ("a", "c", "a*sin(c)", "sin(c)", "troot(b*d)", "a*a", "exp_abs(a*sin(c))")]
    for rows in (1000, 37):
        found = sampled(data, rows, weight, sample=100)
        laws = sample_search._selection(found, features)
        assert laws.features == tuple(sorted(features)) and laws.problem.digest == found.digest
        table = {name: data[name].to_numpy() for name in NAMES}
        weights = found.problem.model_prior.log_weights_of(laws.features, found.moments.n, len(NAMES))
        prior = WeightedPrior(tuple(weights.tolist()), found.problem.size)
        whole = BGLMRegressor(algorithm="enumerate", model_prior=prior).fit(
            pd.DataFrame({f.text: evaluate(f, table) for f in laws.features}), data["y"], weight and data[weight]
        )
        ours, theirs = laws.problem, whole.problem_
        np.testing.assert_allclose(ours.data.gram, theirs.data.gram, rtol=0, atol=1e-13)
        np.testing.assert_allclose(ours.data.corr, theirs.data.corr, rtol=0, atol=1e-13)
        assert ours.model_prior == prior
        models = whole.models_.iloc[:50]
        posterior = Posterior(ours, whole.posterior_.result)
        values = [posterior.log_marginal_likelihood(features) for features in models["features"]]
        expected = [whole.log_marginal_likelihood(features) for features in models["features"]]
        # Residuals of perfect fits have few digits, and so have their logarithms.
        np.testing.assert_allclose(values, expected, rtol=1e-11 if noise else 1e-3)


def test_probabilities_are_those_of_the_library_in_memory(small_sample: None) -> None:
    """Frequencies against exact probabilities of the same features and an in-memory chain, in Monte Carlo errors."""
    rng = np.random.default_rng(8)
    n = 3000
    x = rng.normal(size=(n, 4))
    x[:, 3] += 0.9 * x[:, 2]
    y = 0.08 * x[:, 0] + 0.07 * x[:, 2] * x[:, 1] + 0.05 * x[:, 3] + rng.normal(size=n)
    data = pd.DataFrame(x, columns=NAMES).assign(y=y)
    model = fit(
        Chunks(data, 211), budget=Budget(warmup=10 * 300, steps=60_000), chains=4, transforms=(),
        space=Space(rules="paper", depth=1, width=2, complexity=2), model_prior=modejump.ComplexityPrior(0.9),
    )  # fmt: skip
    laws, table = model.laws_.features, {name: data[name].to_numpy() for name in NAMES}
    # All columns and all their products of two.
    assert len(laws) == 14
    columns = pd.DataFrame({f.text: evaluate(f, table) for f in laws})
    prior = WeightedPrior(tuple(np.log(0.9) * f.complexity for f in laws), model.problem_.model_prior.max_size)
    exact = BGLMRegressor(algorithm="enumerate", model_prior=prior).fit(columns, y).inclusion_["probability"]
    spread = exact.index[(exact > 0.005) & (exact < 0.995)]
    assert len(spread) >= 10
    found = model.inclusion_.loc[spread]
    assert (np.abs(found["probability"] - exact[spread]) < 4.5 * found["mcse"]).all()
    np.testing.assert_allclose(found["renormalised"], exact[spread], atol=5e-3)
    chain = BGLMRegressor(algorithm="mjmcmc", budget=Budget(steps=60_000), model_prior=prior, random_state=9)
    other = chain.fit(columns, y).inclusion_.loc[spread]
    both = np.hypot(other["mcse"], found["mcse"])
    assert (np.abs(other["probability"] - found["probability"]) < 4.5 * both).all()


def test_spellings_of_one_law_share_its_prior_mass() -> None:
    data = planets(0.3)
    found = sampled(data.drop(columns="w"), functions=("square", "sin"))
    laws = sample_search._selection(found, [Feature(text) for text in ("a*a", "b", "square(a)")])
    law = Feature("a*a")
    assert laws.features == (Feature("b"), law) and laws.aliases == {law: (Feature("square(a)"),), Feature("b"): ()}
    log_a = -np.log(500.0)
    weights = dict(zip(laws.features, laws.problem.model_prior.log_weights, strict=True))
    both = np.logaddexp(log_a * law.complexity, log_a * Feature("square(a)").complexity)
    assert weights[law] == pytest.approx(both) and weights[Feature("b")] == pytest.approx(log_a)


def test_features_that_are_undefined_beyond_the_sample_are_left_out() -> None:
    data = planets(0.3).drop(columns="w")
    data.loc[123, "b"] = -1.0
    found = sampled(data, sample=60, functions=("p0", "sin"))
    assert (found.problem.x[1] > 0).all()
    laws = sample_search._selection(found, [Feature(text) for text in ("a", "p0(b)", "sin(b)")])
    assert laws.features == (Feature("a"), Feature("sin(b)"))


def test_a_covariate_that_varies_beyond_the_sample_alone_stays(small_sample: None) -> None:
    data = planets(0.3, 3000).drop(columns="w").assign(rare=0.0, k=2.0)
    seed, y = 3, data["y"]
    drawn = set(sampled(data, sample=300, seed=seed).problem.y)
    outside = np.flatnonzero(~y.isin(drawn))[:4]
    data.loc[outside, "rare"] = 1.0
    data.loc[outside, "y"] += 40.0
    with pytest.warns(modejump.ModejumpWarning, match="'k' is constant"):
        model = fit(Chunks(data, 97), random_state=seed)
    assert model.inclusion_["probability"]["rare"] > 0.99
    assert "k" not in model.inclusion_.index


# The search.


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_laws_are_found_and_rows_are_read_twice(seed: int, small_sample: None) -> None:
    data = planets(0.3, 20_000, seed).drop(columns="w")
    chunks = Chunks(data, 1500)
    model = fit(chunks, random_state=seed)
    assert chunks.passes == 2
    assert model.best_model() == ("a*sin(c)",) and model.inclusion_["probability"]["a*sin(c)"] > 0.99
    result = model.posterior_.result
    assert (result.algorithm, result.counted, result.finished) == ("mjmcmc", True, True)
    assert result.library == sample_search.MOST_FEATURES and result.populations == 2 * 20
    assert "A search on a sample of the rows chose the 64 features of these models." in model.verdict_
    assert "found by GMJMCMC on a sample of the rows" in " ".join(model.summary().split())
    assert model.problem_.rows == 20_000
    np.testing.assert_allclose(model.predict(chunks.source), model.predict(data[NAMES]), rtol=1e-13)
    assert model.score(chunks.source, "y") > 0.9


def test_weak_laws_are_found_by_all_rows(small_sample: None) -> None:
    """A law that the sample does not tell from noise gets its place in the library, and all rows find it."""
    rng = np.random.default_rng(4)
    x = rng.uniform(0.2, 3.0, (60_000, 4))
    y = x[:, 0] * x[:, 1] + 0.2 * np.sin(x[:, 2]) + rng.normal(size=60_000)
    data = pd.DataFrame(x, columns=NAMES).assign(y=y)
    model = fit(Chunks(data, 10_000))
    assert set(model.best_model()) == {"a*b", "sin(c)"}
    whole = BGNLMRegressor(
        transforms=G, chains=2, budget=Budget(warmup=6000, steps=3000), random_state=3, **paper()
    ).fit(data[NAMES].iloc[:300], data["y"].iloc[:300])  # fmt: skip
    assert "sin(c)" not in whole.best_model()


def test_nothing_depends_on_workers_and_the_same_seed_gives_the_same(small_sample: None) -> None:
    data = planets(1.0, 2000).drop(columns="w")
    one, two, other = (fit(Chunks(data, 300), n_jobs=jobs, random_state=s) for jobs, s in ((1, 3), (2, 3), (1, 4)))
    assert one.laws_.features == two.laws_.features != other.laws_.features
    np.testing.assert_array_equal(one.posterior_.result.batch_means, two.posterior_.result.batch_means)


OPERATORS = {"mutation": 0.2, "crossover": 0.3, "modification": 0.2, "projection": 0.3}
SPACES = {kind: Space(population=12, size=6, alphas=kind, **OPERATORS) for kind in ("ml", "random", "optimised")}


@pytest.mark.parametrize("kind", list(SPACES))
def test_projections_keep_the_coefficients_of_the_sample(kind: str, small_sample: None) -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(3000, 4))
    y = np.tanh(1.0 + 2.0 * x[:, 0] - x[:, 1]) + 0.1 * rng.normal(size=3000)
    data = pd.DataFrame(x, columns=NAMES).assign(y=y)
    model = fit(Chunks(data, 400), space=SPACES[kind], transforms=("tanh", "sin"))
    projections = {node for f in model.laws_.features for node in f.subfeatures() if node.kind == "projection"}
    assert projections and projections <= set(model.laws_.constants)
    table = {name: data[name].to_numpy() for name in NAMES}
    columns = np.column_stack([evaluate(f, table, model.laws_.constants) for f in model.laws_.features])
    z = columns - columns.mean(axis=0)
    z /= np.linalg.norm(z, axis=0)
    np.testing.assert_allclose(model.problem_.data.gram, z.T @ z, rtol=0, atol=1e-10)
    again = sampled(data, 400, space=SPACES[kind], seed=3, functions=("tanh", "sin"))
    # Sums over parents go by the order in which these were met, and optima are flat; all rows would give other digits.
    for node, alpha in sample_search.fitted_constants(again.problem, sorted(projections)).items():
        np.testing.assert_allclose(model.laws_.constants[node], alpha, rtol=1e-4)


def test_transforms_of_the_user_are_searched(small_sample: None) -> None:
    data = planets(0.3).drop(columns="w")
    data["y"] = 3.0 * np.exp(-((data["b"] - 1.0) ** 2)) + 0.1 * data["y"]
    modejump.transforms.add("hat_here", lambda x: np.exp(-((x - 1.0) ** 2)))
    try:
        assert "hat_here(b)" in fit(Chunks(data, 97), transforms=("sin", "hat_here")).best_model()
    finally:
        modejump.transforms.remove("hat_here")


def test_a_transform_that_is_defined_nowhere_is_told() -> None:
    data = planets(0.3)[["a", "y"]].assign(a=lambda t: -t["a"])
    with pytest.warns(modejump.ModejumpWarning, match="not finite on any column"):
        fit(Chunks(data, 100), transforms=("p0",))


def test_the_second_pass_reads_the_columns_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_search, "MOST_FEATURES", 2)
    data = planets(0.05).drop(columns="w")
    asked: list[tuple[str, ...]] = []

    class Watched(Source):
        names = tuple(data.columns)

        def chunks(self, columns: Sequence[str]) -> Iterator[np.ndarray]:
            asked.append(tuple(columns))
            yield np.ascontiguousarray(data[list(columns)].to_numpy().T)

    model = BGNLMRegressor(
        chains=1, budget=Budget(warmup=3000, steps=500), random_state=3, transforms=("sin",), **paper()
    ).fit(Watched(), "y")  # fmt: skip
    used = {name for law in model.laws_.features for name in law.covariates}
    assert asked == [(*NAMES, "y"), (*sorted(used), "y")] and used < set(NAMES)


@pytest.mark.parametrize("budget", [Budget(seconds=0.5), Budget(mcse=0.02, cap=200_000), Budget(warmup=300, steps=600)])
def test_every_kind_of_budget_is_kept(budget: Budget, small_sample: None) -> None:
    result = fit(Chunks(planets(1.0).drop(columns="w"), 97), budget=budget).posterior_.result
    assert result.finished and result.steps > 0
    if budget.warmup is not None:
        assert result.populations == 2 and result.batch_means.shape[1] * result.batch_length >= 600


def test_interrupts_before_sampling_are_passed_on(small_sample: None) -> None:
    data = planets(0.3).drop(columns="w")
    for at in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            fit(Chunks(data, 97, [at]))


def test_an_interrupted_sampler_gives_what_it_has(small_sample: None) -> None:
    told: list[float] = []

    def interrupt(done: float, total: float, note: str) -> None:
        assert done >= (told[-1] if told else 0.0) and total == 1.0
        told.append(done)
        if done > 0.6:
            signal.raise_signal(signal.SIGINT)

    data = planets(0.3).drop(columns="w")
    chunks = Chunks(data, 97)
    with pytest.warns(modejump.ModejumpWarning, match="interrupted before its budget was spent"):
        model = fit(chunks, budget=Budget(warmup=3000, steps=2_000_000), progress=interrupt)
    result = model.posterior_.result
    assert not result.finished and 0 < result.steps < 4_000_000
    assert np.isfinite(model.predict(data[NAMES])).all()


def test_a_stored_fit_predicts_and_runs_are_not_merged(tmp_path: Path, small_sample: None) -> None:
    data = planets(0.3).drop(columns="w")
    one, two = (fit(Chunks(data, 97), random_state=seed) for seed in (3, 4))
    again = modejump.load(one.save(tmp_path / "run"))
    np.testing.assert_array_equal(again.predict(data[NAMES]), one.predict(data[NAMES]))
    assert str(again.verdict_) == str(one.verdict_) and again.chains == 2
    with pytest.raises(InputError, match="holds no rows to evaluate it on"):
        one.log_marginal_likelihood(["a*a*b*c*d"])
    assert np.isfinite(one.log_marginal_likelihood(["a*sin(c)"]))
    with pytest.raises(InputError, match="cannot be merged"):
        modejump.merge(one, two)
