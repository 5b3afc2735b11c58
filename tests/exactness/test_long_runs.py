"""RGMJMCMC in long runs: frequencies are posterior probabilities, whatever grows, is forgotten or renewed meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from feature_experiments import Experiment
from scipy.stats import t
from test_moves_between import LEVEL, SETTINGS, experiment_of, tolerance

from modejump.features.expression import Expression
from modejump.kernels.populations.between import MOVED, PROPOSED
from modejump.samplers.chains import reversible_chain as reversible
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.settings import Sampler


def tally(experiment: Experiment, chain: ReversibleChain) -> np.ndarray:
    """Visits of each model so far; the chain is closed for it, which it does not mind."""
    chain.close()
    counts = np.zeros(len(experiment.exact.models), np.int64)
    words, _, visits = chain.library_models()
    for row, m in zip(words, visits, strict=True):
        model = [f for i, f in enumerate(chain.library) if int(row[i >> 6]) >> (i & 63) & 1]
        counts[experiment.models[frozenset(model)]] += m
    for model, (_, m) in chain.fresh_models.items():
        counts[experiment.models[model]] += m
    return counts


def started(experiment: Experiment, seed: int, settings: Sampler, batch: int, **options: Any) -> ReversibleChain:
    """A chain after warm-up."""
    chain = experiment.chain(seed, settings, **options)
    chain.warm_up(10_000)
    chain.forget_warmup()
    chain.batch = batch
    return chain


def batch_counts(experiment: Experiment, chain: ReversibleChain, batches: int) -> np.ndarray:
    """Visits of each model in each of so many batches."""
    before = tally(experiment, chain)
    rows = []
    for _ in range(batches):
        chain.run_batches(1)
        after = tally(experiment, chain)
        rows.append(after - before)
        before = after
    return np.array(rows)


def in_mcse(means: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance of the mean of batches from an exact value, in Monte Carlo standard errors."""
    return (means.mean(axis=0) - exact) / (means.std(axis=0, ddof=1) / np.sqrt(len(means)))


def furthest(batches: int, comparisons: int) -> float:
    """How many standard errors all comparisons together stay within, but for a share LEVEL of runs."""
    return float(t.isf(LEVEL / (2 * comparisons), batches - 1))


LONG = {
    "each move": SETTINGS,
    "default moves": Sampler(population_steps=50),
    "populations alone": Sampler(population_steps=20, moves={"none": 1.0}),
}


# Fresh features that are rarely drawn stay long, so that rare models of two of them need long runs.
LONG_RUNS = [
    *(("canonical", settings, 30_000) for settings in LONG),
    ("projections", "each move", 30_000),
    *(pytest.param("projections", settings, 400_000, marks=pytest.mark.full) for settings in list(LONG)[1:]),
    *(pytest.param("collinear, trees", settings, 200_000, marks=pytest.mark.full) for settings in LONG),
]


@pytest.mark.parametrize(("case", "settings", "batch"), LONG_RUNS)
def test_frequencies_of_a_long_run_are_posterior_probabilities(case: str, settings: str, batch: int) -> None:
    experiment, batches = experiment_of(case, a=0.3), 100
    chain = started(experiment, 8000 + list(LONG).index(settings), LONG[settings], batch)
    counts = batch_counts(experiment, chain, batches)
    assert (counts.sum(axis=1) == batch).all() and chain.forgotten == 0
    likely = np.flatnonzero(experiment.exact.probability > 0.001)
    distance = in_mcse(counts[:, likely] / batch, experiment.exact.probability[likely])
    assert len(likely) > 20
    assert np.abs(distance).max() < furthest(batches, len(likely))
    check_inclusion(experiment, chain, counts)
    check_values(experiment, chain)


def check_inclusion(experiment: Experiment, chain: ReversibleChain, counts: np.ndarray) -> None:
    """Means of library features and stays of fresh features are what the visits of models say."""
    visits = dict.fromkeys(experiment.exact.features, 0)
    for model, m in zip(experiment.exact.models, counts.sum(axis=0), strict=True):
        for i in model:
            visits[experiment.exact.features[i]] += int(m)
    inside = np.sum(chain.means, axis=0) * chain.batch
    for feature, steps in zip(chain.library, inside, strict=True):
        assert round(float(steps), 3) == visits.pop(feature)
    assert sum_of(chain.stays) == {feature: m for feature, m in visits.items() if m > 0}


def sum_of(stays: Sequence[Mapping[Expression, float]]) -> dict[Expression, float]:
    """Stays of fresh features in several batches together."""
    total: Counter[Expression] = Counter()
    for batch in stays:
        total.update(batch)
    return dict(total)


def check_values(experiment: Experiment, chain: ReversibleChain) -> None:
    """The log posterior of every model kept is the exact one."""
    words, values, _ = chain.library_models()
    assert len(words) > 1
    found = dict(chain.fresh_models)
    for row, value in zip(words, values, strict=True):
        model = [f for i, f in enumerate(chain.library) if int(row[i >> 6]) >> (i & 63) & 1]
        found[frozenset(model)] = (float(value), 0)
    rows = np.array([experiment.models[model] for model in found])
    values = np.array([value for value, _ in found.values()])
    assert (np.abs(values - experiment.exact.log_posterior[rows]) <= tolerance(experiment, rows)).all()
    assert len(rows) > 0.5 * len(experiment.alive)


def test_total_variation_falls_at_the_rate_of_monte_carlo() -> None:
    experiment, chains, batch = experiment_of("canonical"), 16, 300_000
    p, logs = experiment.exact.probability, []
    for c in range(chains):
        chain = started(experiment, 8100 + c, LONG["default moves"], batch)
        counts = batch_counts(experiment, chain, 5)
        # One batch, and four others, so that no step is used twice.
        short = np.abs(counts[0] / batch - p).sum()
        long = np.abs(counts[1:].sum(axis=0) / (4 * batch) - p).sum()
        logs.append(np.log(short / long))
    error = np.std(logs, ddof=1) / np.sqrt(chains)
    reach = float(t.isf(LEVEL / 2, chains - 1)) * error
    assert abs(np.mean(logs) - np.log(2.0)) < reach
    assert np.mean(logs) > reach, "the test can tell the rate from none"


# --- growth, renewal, and repetition ----------------------------------------------------------------------------


def same_path(a: ReversibleChain, b: ReversibleChain) -> bool:
    means, other = np.array(a.means), np.array(b.means)
    return bool((means == other).all()) and a.stays == b.stays


def run_of(experiment: Experiment, batches: int = 10, batch: int = 5000, **options: Any) -> ReversibleChain:
    chain = started(experiment, 8200, SETTINGS, batch, **options)
    chain.run_batches(batches)
    chain.close()
    return chain


def test_the_same_seed_gives_the_same_result() -> None:
    experiment = experiment_of("projections")
    first, second = run_of(experiment), run_of(experiment)
    assert same_path(first, second)
    assert first.fresh_models == second.fresh_models
    assert all((a == b).all() for a, b in zip(first.library_models(), second.library_models(), strict=True))
    other = experiment.chain(8201, SETTINGS)
    other.batch = 5000
    other.run_batches(10)
    assert not same_path(first, other)


def test_steps_in_pieces_are_the_same_steps() -> None:
    experiment = experiment_of("canonical")
    whole, pieces = experiment.chain(8202, SETTINGS), experiment.chain(8202, SETTINGS)
    whole.advance(3000)
    for steps in (1, 2, 3, 994, 7, 993, 1000):
        pieces.advance(steps)
    assert (whole.arrays.chain.record.inside[: whole.first] == pieces.arrays.chain.record.inside[: whole.first]).all()
    assert whole._pending == pieces._pending
    assert (whole.arrays.chain.rng == pieces.arrays.chain.rng).all()


def test_a_store_that_grows_or_forgets_does_not_change_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = experiment_of("large library")
    roomy = run_of(experiment)
    monkeypatch.setattr(reversible, "FIRST_CAPACITY", 16)
    grown = run_of(experiment)
    assert len(grown.arrays.chain.store.log_posterior) > 16 and grown.arrays.chain.store.scalars["forgotten"] == 0
    tight = run_of(experiment, memory=1)
    assert len(tight.arrays.chain.store.log_posterior) == 16 and tight.arrays.chain.store.scalars["forgotten"] > 0
    assert same_path(roomy, grown) and same_path(roomy, tight)
    for chain in (roomy, grown, tight):
        visits = chain.library_models()[2].sum() + sum(m for _, m in chain.fresh_models.values())
        assert visits + chain.forgotten + chain.arrays.chain.store.scalars["forgotten"] == 50_000


def test_a_log_that_is_drained_often_does_not_change_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = experiment_of("canonical")
    roomy = run_of(experiment)
    places = len(roomy.arrays.population.feature)
    monkeypatch.setattr(reversible, "LOG", 3 * places + 5)
    assert same_path(roomy, run_of(experiment))


def test_an_archive_that_forgets_keeps_count(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = experiment_of("canonical")
    roomy = run_of(experiment)
    monkeypatch.setattr(reversible, "FRESH_MODELS", 20)
    tight = run_of(experiment)
    assert same_path(roomy, tight)
    assert len(tight.fresh_models) < len(roomy.fresh_models)
    visits = tight.library_models()[2].sum() + sum(m for _, m in tight.fresh_models.values())
    assert tight.forgotten > 0 and visits + tight.forgotten == 50_000
    best = sorted(roomy.fresh_models, key=lambda model: -roomy.fresh_models[model][0])[:5]
    assert all(tight.fresh_models[model][0] == pytest.approx(roomy.fresh_models[model][0]) for model in best)


def test_merged_batches_hold_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = experiment_of("canonical")
    monkeypatch.setattr(reversible, "MAX_BATCHES", 8)
    merged = run_of(experiment, batches=13, batch=1000)
    assert len(merged.means) == len(merged.stays) == 5 and merged.batch == 4000
    monkeypatch.undo()
    apart = run_of(experiment, batches=20, batch=1000)
    for i in range(5):
        part = slice(4 * i, 4 * i + 4)
        assert merged.means[i] == pytest.approx(np.mean(apart.means[part], axis=0))
        assert merged.stays[i] == sum_of(apart.stays[part])


@pytest.mark.parametrize("case", ["canonical", "projections"])
def test_a_table_of_features_that_is_renewed_does_not_change_the_law(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment, batch, batches = experiment_of(case, a=0.3), 20_000, 100
    frozen = experiment.chain(1, SETTINGS).frozen[0]
    monkeypatch.setattr(reversible, "FEATURES", 4096 + frozen + 60)
    renewed = []
    real = ReversibleChain._renew_features
    monkeypatch.setattr(ReversibleChain, "_renew_features", lambda chain: (renewed.append(1), real(chain))[1])
    chain = started(experiment, 8300, SETTINGS, batch)
    counts = batch_counts(experiment, chain, batches)
    assert len(renewed) > 100
    assert (counts.sum(axis=1) == batch).all()
    likely = np.flatnonzero(experiment.exact.probability > 0.001)
    distance = in_mcse(counts[:, likely] / batch, experiment.exact.probability[likely])
    assert np.abs(distance).max() < furthest(batches, len(likely))
    check_inclusion(experiment, chain, counts)
    check_values(experiment, chain)


def test_a_small_table_of_edits_does_not_change_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment, batch, batches = experiment_of("canonical"), 10_000, 100
    roomy = len(experiment.chain(1, SETTINGS).arrays.fresh.q.listed)
    for room in (0, 12):
        monkeypatch.setattr(reversible, "LISTED_EDITS", room)
        chain = started(experiment, 8400 + room, SETTINGS, batch)
        assert len(chain.arrays.fresh.q.listed) < roomy
        assert chain.arrays.fresh.q.share == (0.0 if room == 0 else chain.language.edit_share)
        counts = batch_counts(experiment, chain, batches)
        likely = np.flatnonzero(experiment.exact.probability > 0.001)
        distance = in_mcse(counts[:, likely] / batch, experiment.exact.probability[likely])
        assert np.abs(distance).max() < furthest(batches, len(likely))


def test_counts_of_moves_and_populations() -> None:
    experiment = experiment_of("canonical")
    chain = experiment.chain(8500, SETTINGS)
    experiment.recall_some(chain)
    chain.advance(60_000)
    tried, populations = chain.arrays.between.tried, int(chain.arrays.fresh.scalars["populations"])
    between = int(tried[1:, PROPOSED].sum())
    assert chain.arrays.chain.record.tried[:, 0].sum() + between == 60_000
    # The last population may have begun without a step inside it.
    assert SETTINGS.population_steps * (populations - 1) <= 60_000 - between <= SETTINGS.population_steps * populations
    assert (tried[1:, PROPOSED] >= tried[1:, MOVED]).all() and (tried[1:, MOVED] > 0).all()
