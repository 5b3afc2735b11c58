"""Estimates from chains and from enumeration: frequencies, their errors, and the tables."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from arviz_stats.base import array_stats
from brute import brute_force, lazy_chains, small_problem

from modejump.core.errors import InputError
from modejump.estimators.summary import WIDTH, FeatureLine, Summary, summarise
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.language import Nonlinear
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.posterior import Posterior
from modejump.priors.complexity import ComplexityPrior
from modejump.problem.problem import Problem
from modejump.samplers.diagnostics import (
    MIN_BATCHES,
    diagnose,
    effective_size,
    monte_carlo_error,
    split_r_hat,
)
from modejump.samplers.laws import Laws

# Statistical assertions fail by chance with probability below 1e-4 (two-sided, 3.9 standard errors).
SIGMAS = 3.9


def two_state_chains(rng: np.random.Generator, p: float, correlation: float, shape: tuple[int, int]) -> np.ndarray:
    """Stationary 0/1 Markov chains with mean p and autocorrelation ``correlation ** lag``, one in a row."""
    fresh = rng.random(shape) >= correlation
    fresh[:, 0] = True
    drawn = rng.random(shape) < p
    last = np.maximum.accumulate(np.where(fresh, np.arange(shape[1]), 0), axis=1)
    return np.take_along_axis(drawn, last, axis=1).astype(float)


def batches_of(paths: np.ndarray, batch_length: int) -> np.ndarray:
    chains, steps = paths.shape
    return paths.reshape(chains, steps // batch_length, batch_length).mean(axis=2)[:, :, None]


@pytest.mark.parametrize(("p", "correlation"), [(0.5, 0.0), (0.3, 0.9), (0.05, 0.5)])
def test_monte_carlo_error_is_the_known_one_of_a_two_state_chain(p: float, correlation: float) -> None:
    rng = np.random.default_rng(31)
    chains, steps, length, runs = 4, 16_000, 200, 200
    exact = np.sqrt(p * (1 - p) * (1 + correlation) / (1 - correlation) / (chains * steps))
    found, error = np.empty(runs), np.empty(runs)
    for i in range(runs):
        d = diagnose(batches_of(two_state_chains(rng, p, correlation, (chains, steps)), length), length)
        found[i], error[i] = d.frequency[0], d.mcse[0]
    # The largest of several estimates is cautious: not below the truth, but for the share of the variance
    # that batches of finite length cannot see, 2 r / (1 - r^2) / length for autocorrelation r ^ lag ...
    lost = 2 * correlation / (1 - correlation**2) / length
    assert error.mean() / exact > np.sqrt(1 - lost) - SIGMAS * error.std() / exact / np.sqrt(runs)
    # ... and the interval it gives covers at least as often as it says.
    inside = np.abs(found - p) <= 1.96 * error
    assert inside.mean() >= 0.95 - SIGMAS * np.sqrt(0.95 * 0.05 / runs)
    # It is not so cautious as to be useless: each level has at least 20 batches a chain, so its relative
    # error is at most 1/sqrt(2 * 79), and two such errors bound the average of the largest of three levels.
    assert error.mean() / exact < 1 + 2 / np.sqrt(2 * (chains * MIN_BATCHES - 1))


def test_error_and_effective_size_agree_with_arviz() -> None:
    rng = np.random.default_rng(32)
    runs, chains, steps, length = 60, 4, 8_000, 200
    ours, theirs, ours_size, theirs_size = (np.empty(runs) for _ in range(4))
    for i in range(runs):
        paths = two_state_chains(rng, 0.3, 0.8, (chains, steps))
        d = diagnose(batches_of(paths, length), length)
        ours[i], ours_size[i] = d.mcse[0], d.ess[0]
        theirs[i] = array_stats.mcse(paths, chain_axis=0, draw_axis=1, method="mean")
        theirs_size[i] = array_stats.ess(paths, chain_axis=0, draw_axis=1, method="mean")
    for larger, smaller in ((ours, theirs), (theirs_size, ours_size)):
        # Ours is the cautious one: its error is the larger, its effective size the smaller.
        ratio = np.log(larger / smaller)
        assert ratio.mean() > -SIGMAS * ratio.std() / np.sqrt(runs)
    assert np.log(ours / theirs).mean() < 2 / np.sqrt(2 * (chains * MIN_BATCHES - 1))


@pytest.mark.parametrize("batches", [40, 41])
def test_split_r_hat_is_exactly_that_of_arviz(batches: int) -> None:
    rng = np.random.default_rng(33)
    length = 50
    paths = np.vstack([two_state_chains(rng, p, 0.9, (1, batches * length)) for p in (0.2, 0.3, 0.5)])
    ours = split_r_hat(batches_of(paths, length), length)[0]
    half = (batches // 2) * length
    kept = np.hstack([paths[:, :half], paths[:, -half:]])
    theirs = array_stats.rhat(kept, chain_axis=0, draw_axis=1, method="split")
    assert ours == pytest.approx(float(theirs), abs=1e-12)


def test_r_hat_of_terms_that_never_change() -> None:
    means = np.zeros((2, 40, 3))
    means[:, :, 1] = 1.0
    means[1, :, 2] = 1.0
    d = diagnose(means, 100)
    assert np.isnan(d.r_hat[:2]).all()
    assert np.isinf(d.r_hat[2])
    assert d.mcse[:2].tolist() == [0.0, 0.0]
    assert np.isnan(d.ess[:2]).all()
    # Two chains stuck apart are two observations, however many batches they have.
    assert d.mcse[2] == pytest.approx(np.sqrt(0.5 / 2))
    assert d.ess[2] == pytest.approx(1.0)


def test_few_batches_say_nothing() -> None:
    one = np.full((1, 1, 2), 0.5)
    assert np.isnan(monte_carlo_error(one)).all()
    assert np.isnan(split_r_hat(one, 10)).all()


def test_effective_size_is_at_most_the_number_of_steps() -> None:
    size = effective_size(np.array([0.5, 0.5, 1.0]), np.array([1e-9, 0.05, 0.0]), 1000)
    assert size[:2].tolist() == [1000.0, pytest.approx(100.0)]
    assert np.isnan(size[2])


@pytest.fixture(scope="module")
def problem() -> Problem:
    return small_problem(np.random.default_rng(34), terms=5)


@pytest.fixture(scope="module")
def exact(problem: Problem) -> Posterior:
    return Posterior(problem, brute_force(problem))


@pytest.fixture(scope="module")
def sampled(problem: Problem, exact: Posterior) -> Posterior:
    return Posterior(problem, lazy_chains(problem, exact.result, np.random.default_rng(35)))


COLUMNS = ["probability", "mcse", "ess", "r_hat", "renormalised", "complexity"]


def test_inclusion_of_an_exact_posterior(exact: Posterior) -> None:
    table = exact.inclusion
    assert list(table.columns) == COLUMNS
    assert table.index.name == "feature"
    assert sorted(table.index) == sorted(exact.problem.names)
    assert table["probability"].is_monotonic_decreasing
    assert (table["mcse"] == 0).all()
    assert np.isinf(table["ess"]).all()
    assert table["r_hat"].isna().all()
    assert (table["complexity"] == 1).all()
    assert pd.api.types.is_integer_dtype(table["complexity"])
    models = exact.models(limit=None)
    for name in exact.problem.names:
        mass = models.loc[[name in f for f in models["features"]], "probability"].sum()
        assert table.loc[name, "probability"] == pytest.approx(mass, abs=1e-12)
    assert exact.frequency is None


def test_inclusion_of_a_sampled_posterior(exact: Posterior, sampled: Posterior) -> None:
    table = sampled.inclusion
    assert list(table.columns) == COLUMNS
    truth = exact.inclusion["probability"].reindex(table.index)
    z = (table["probability"] - truth) / table["mcse"]
    assert (z.abs() < SIGMAS + 1).all()
    assert (table["ess"] <= sampled.result.steps).all()
    assert np.allclose(table["renormalised"], truth, atol=1e-12)
    assert sampled.frequency is not None


def test_ties_keep_the_order_of_the_terms() -> None:
    x = np.random.default_rng(36).normal(size=(20, 1))
    problem = Problem.build(np.hstack([x, x]), x[:, 0] + np.random.default_rng(37).normal(size=20))
    posterior = Posterior(problem, brute_force(problem))
    assert posterior.inclusion.index.tolist() == ["x0", "x1"]
    assert posterior.inclusion["probability"].nunique() == 1


def test_models_table(exact: Posterior, sampled: Posterior) -> None:
    models = exact.models(limit=None)
    assert list(models.columns) == ["features", "log_posterior", "probability", "renormalised", "size"]
    assert models["probability"].sum() == pytest.approx(1.0, abs=1e-12)
    assert models["log_posterior"].is_monotonic_decreasing
    assert models.loc[0, "features"] == exact.best_model()
    assert [len(f) for f in models["features"]] == models["size"].tolist()
    assert len(exact.models(limit=3)) == 3
    by_frequency = sampled.models(limit=None)
    assert by_frequency["probability"].sum() == pytest.approx(1.0)
    assert by_frequency["renormalised"].sum() == pytest.approx(1.0)
    sizes = models.groupby("size")["probability"].sum().reindex(exact.size_distribution.index, fill_value=0.0)
    assert np.allclose(exact.size_distribution, sizes)


@pytest.mark.parametrize("limit", [0, -1, 2.5, "all"])
def test_a_limit_that_makes_no_sense_is_refused(exact: Posterior, limit: Any) -> None:
    with pytest.raises(InputError, match="limit must be"):
        exact.models(limit=limit)


def test_median_model_holds_the_terms_of_at_least_one_half(exact: Posterior) -> None:
    likely = exact.inclusion.query("probability >= 0.5").index
    assert set(exact.median_model()) == set(likely)


def test_log_marginal_likelihood_is_that_of_the_models_table(exact: Posterior) -> None:
    prior = exact.problem.data.prior
    for _, row in exact.models().iterrows():
        log_prior = float(prior.log_size[row["size"]])
        assert exact.log_marginal_likelihood(row["features"]) == pytest.approx(row["log_posterior"] - log_prior)
    assert exact.log_marginal_likelihood([]) == 0.0
    with pytest.raises(InputError, match="not a term"):
        exact.log_marginal_likelihood(["nobody"])


def test_log_marginal_likelihood_of_a_rank_deficient_model() -> None:
    x = np.random.default_rng(38).normal(size=(20, 1))
    problem = Problem.build(np.hstack([x, 2 * x]), x[:, 0] + np.random.default_rng(39).normal(size=20))
    assert Posterior(problem, brute_force(problem)).log_marginal_likelihood(["x0", "x1"]) == -np.inf


def test_a_run_without_a_single_batch_falls_back_on_renormalised(problem: Problem, exact: Posterior) -> None:
    chains = lazy_chains(problem, exact.result, np.random.default_rng(40), batches=2)
    fields = {**vars(chains), "batch_means": np.empty((4, 0, 5)), "steps": 0, "finished": False}
    posterior = Posterior(problem, type(chains)(**fields))
    assert np.allclose(posterior.probability, posterior.renormalised)
    assert posterior.inclusion["mcse"].isna().all()
    assert posterior.models()["probability"].sum() == pytest.approx(1.0)


@pytest.fixture(scope="module")
def reversible(sampled: Posterior) -> Posterior:
    """The sampled chains as from reversible sampling of features."""
    result, problem = sampled.result, sampled.problem
    features = tuple(map(Feature.covariate, problem.names))
    language = Nonlinear(problem.names, [transforms["sin"]], Space())
    laws = Laws(features, {features[0]: (Feature("x0*x0"),)}, {}, problem, language)
    return Posterior(
        sampled.problem,
        replace(
            result,
            algorithm="rgmjmcmc",
            laws=laws,
            models=replace(result.models, chains=np.where(np.arange(len(result.models)) == 2, 1, 4)),
            warmup_steps=20_000,
            chain_best=np.array([5.0, 4.0, 3.0, 1.0]),
            acceptance={"flip": (300_000, 30_000), "jump-greedy": (20_000, 500)},
            population_moves={"population": (80_000, 2_000, 8_000), "population-large": (0, 0, 0)},
            library=17,
            library_share=0.953,
            notes=("The library was completed.",),
        ),
    )


def test_reversible_chains_are_counted(reversible: Posterior, sampled: Posterior) -> None:
    result = reversible.result
    models = reversible.models(limit=None)
    assert np.allclose(models["probability"], result.models.visits / result.steps)
    assert not np.allclose(models["probability"], models["renormalised"], atol=1e-6)
    pd.testing.assert_frame_equal(reversible.inclusion[COLUMNS], sampled.inclusion)
    assert reversible.inclusion.loc["x0", "aliases"] == ("x0*x0",)
    searched = Posterior(reversible.problem, replace(result, algorithm="gmjmcmc"))
    assert np.allclose(searched.models()["probability"], searched.models()["renormalised"])


def page_of(posterior: Posterior) -> Summary:
    return summarise(posterior, features=4, models=3, covariates=7, prior=ComplexityPrior(0.4), equation="y = x0")


def test_the_page_of_reversible_chains(reversible: Posterior) -> None:
    page = page_of(reversible)
    facts = dict(page.facts)
    assert facts["algorithm"].startswith("RGMJMCMC, 4 chains, 400\N{NO-BREAK SPACE}000 steps after 20")
    assert facts["algorithm"].endswith("32 models of 5 laws")
    assert facts["library"] == "17 features, which hold the whole model at 95.3% of the steps"
    assert facts["unvisited"].startswith(f"{reversible.result.unvisited:.2g} of the posterior mass")
    assert facts["acceptance"] == (
        "flip 0.1, jump-greedy 0.025, population 0.025 (0.1 without a way back), population-large untried"
    )
    assert facts["note"] == "The library was completed."
    table = reversible.inclusion
    for line in page.features:
        row = table.loc[line.name]
        assert (line.probability, line.mcse, line.r_hat) == (row["probability"], row["mcse"], row["r_hat"])
    text = page.text()
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    head = next(line for line in text.splitlines() if line.startswith("feature"))
    assert head.split() == ["feature", "probability", "R-hat"]
    shown = next(line for line in text.splitlines() if line.startswith("x0 "))
    assert shown.split()[1:5] == [*page_line(page, "x0").value.split(), f"{table.loc['x0', 'r_hat']:.3f}"]
    assert "also x0*x0" in text


def page_line(page: Summary, name: str) -> FeatureLine:
    return next(line for line in page.features if line.name == name)


def test_the_page_leaves_out_what_is_not_known(reversible: Posterior, sampled: Posterior) -> None:
    unknown = replace(reversible.result, models=sampled.result.models, library_share=float("nan"), library=1)
    facts = dict(page_of(Posterior(reversible.problem, unknown)).facts)
    assert facts["library"] == "1 feature"
    assert "unvisited" not in facts
    bare = replace(unknown, acceptance={}, population_moves={})
    assert "acceptance" not in dict(page_of(Posterior(reversible.problem, bare)).facts)
    # A search that does not sample has neither errors nor R-hat, and covariates have no library.
    searched = replace(unknown, algorithm="gmjmcmc", batch_means=None)
    page = page_of(Posterior(reversible.problem, searched))
    assert dict(page.facts)["algorithm"].startswith("GMJMCMC, 4 chains")
    assert all(line.mcse is None and line.r_hat is None for line in page.features)
    assert "R-hat" not in page.text()
    assert not {"library", "unvisited", "acceptance"} & dict(page.facts).keys()
    covariates = summarise(sampled)
    assert dict(covariates.facts)["algorithm"].startswith("MJMCMC, 4 chains, 400")
    assert all(line.r_hat is None for line in covariates.features)


def test_r_hat_in_words() -> None:
    for value, words in ((1.0, "1.000"), (float("nan"), "-"), (float("inf"), "inf"), (None, "")):
        assert FeatureLine("x", 0.5, 0.1, r_hat=value).mixing == words


def test_long_laws_leave_room_for_r_hat(reversible: Posterior) -> None:
    page = page_of(reversible)
    wide = tuple(replace(line, name=line.name + "*sin(x1)" * 12, probability=1.0) for line in page.features)
    lines = replace(page, features=wide).text().splitlines()
    assert max(len(line) for line in lines) <= WIDTH
    assert any("…" in line for line in lines)


class FakeArviz(ModuleType):
    """Stands for either line of ArviZ: records how it was called."""

    def __init__(self, version: str) -> None:
        super().__init__("arviz")
        self.__version__ = version

    def from_dict(self, *groups: Any, **options: Any) -> dict[str, Any]:
        given = groups[0] if groups else {name: options[name] for name in options if name not in ("coords", "dims")}
        self.called = (len(groups), options)
        return {name: SimpleNamespace(attrs={}, **values) for name, values in given.items()}


def test_to_arviz_speaks_to_both_lines(sampled: Posterior, monkeypatch: pytest.MonkeyPatch) -> None:
    for version, mappings in (("0.23.0", 0), ("1.0.0", 1)):
        fake = FakeArviz(version)
        monkeypatch.setitem(sys.modules, "arviz", fake)
        made = sampled.to_arviz(draws=50)
        assert fake.called[0] == mappings
        assert fake.called[1]["dims"] == {"coefficient": ["column"], "batch_share": ["feature"]}
        assert fake.called[1]["coords"]["feature"] == list(sampled.problem.names)
        assert fake.called[1]["coords"]["column"] == ["(intercept)", *sampled.problem.names]
        assert made["sample_stats"].batch_share.shape == (4, 200, 5)
        assert made["posterior"].coefficient.shape == (1, 50, 6)
        # Nothing there can be taken for draws of an inclusion probability.
        assert "no posterior of that probability" in made["sample_stats"].attrs["description"]
        assert "independent draws" in made["posterior"].attrs["description"]


def test_to_arviz_of_an_exact_posterior_has_coefficients_alone(
    exact: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "arviz", FakeArviz("1.0.0"))
    made = exact.to_arviz(draws=4000, random_state=3)
    assert list(made) == ["posterior"]
    draws = made["posterior"].coefficient[0]
    moments = exact.predictor().coefficient_moments()
    error = moments["sd"] / np.sqrt(4000)
    assert (np.abs(draws.mean(axis=0) - moments["mean"]) < SIGMAS * error).all()
    share = moments["probability"]
    binomial = np.sqrt(share * (1.0 - share) / 4000)
    assert (np.abs((draws != 0.0).mean(axis=0) - share) <= SIGMAS * binomial + 1e-9).all()


def test_to_arviz_with_the_installed_arviz(sampled: Posterior) -> None:
    pytest.importorskip("arviz", reason="ArviZ is an extra and is not installed")
    made = sampled.to_arviz(draws=50)
    share = made["sample_stats"]["batch_share"]
    assert share.dims == ("chain", "draw", "feature")
    assert np.allclose(share.mean(("chain", "draw")), sampled.frequency)
    assert made["posterior"]["coefficient"].dims == ("chain", "draw", "column")
    assert "independent draws" in made["posterior"].attrs["description"]


def test_to_arviz_says_what_is_missing(sampled: Posterior, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(InputError, match=r"modejump\[arviz\]"):
        sampled.to_arviz()
