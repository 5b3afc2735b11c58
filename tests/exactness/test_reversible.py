"""RGMJMCMC: every kernel leaves the posterior over an enumerated space of features as it is, and long runs find it.

Gandy and Scott's unit test, as for the kernels on a fixed list of features: draw a model from the enumerated
posterior, make a few moves, and compare the law of the end with the posterior. Kernels that are broken on purpose must
fail it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import reversible_mutants
import reversible_twin as rt
from reversible_mutants import MUTANTS, UNBROKEN, Mutant
from scipy.stats import chi2, t

from modejump.experiments.spaces import feature_columns
from modejump.features import Feature
from modejump.kernels.populations.fresh_features import POPULATIONS
from modejump.kernels.populations.moves import MOVED, POPULATION_MOVES, PROPOSED, ZERO_REVERSE
from modejump.kernels.store import FORGOTTEN
from modejump.priors import COEF_PRIORS
from modejump.samplers.chains import reversible_chain as reversible
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.populations import DEFAULT_MOVES, Populations

LEVEL = 1e-4
CAUGHT = 1e-8
REPLICATIONS = 100_000
TURNS = 3

CASES: dict[str, tuple[dict[str, Any], Sequence[str]]] = {
    "canonical": ({"seed": 1}, ("a", "b", "a*b")),
    "collinear, trees": (
        {
            "seed": 5, "columns": 3, "complexity": 2, "size": 3, "a": 0.3, "collinear": "combination",
            "spelling": "trees",
        },
        ("a", "b"),
    ),
    "projections": ({"seed": 7, "projections": True, "a": 0.5}, ("a", "b")),
    "no library": ({"seed": 6}, ()),
    "three covariates": ({"seed": 2, "columns": 3, "complexity": 3}, ("a",)),
    "two functions": ({"seed": 3, "functions": ("sin", "troot"), "complexity": 3, "size": 3, "depth": 1}, ("a", "b")),
    "a copy": ({"seed": 4, "columns": 3, "complexity": 3, "size": 3, "collinear": "copy", "a": 0.3}, ("a", "sin(b)")),
    "a copy, projections": (
        {"seed": 8, "columns": 3, "complexity": 4, "collinear": "copy", "projections": True}, ("a", "b*c"),
    ),
    "trees": ({"seed": 9, "width": 3, "spelling": "trees", "a": 0.3}, ("a", "b*b")),
    "few rows": ({"seed": 10, "rows": 5, "size": 3, "complexity": 3, "a": 0.3}, ("b", "a*b")),
    "large library": ({"seed": 12, "complexity": 3}, ("a", "b", "a*b", "a*a", "b*b", "sin(a)", "sin(b)")),
}  # fmt: skip
ALWAYS = ("canonical", "collinear, trees", "projections")
SETTINGS = Populations(steps=5, generated=4, search=5, rho=0.2, moves=dict.fromkeys(POPULATION_MOVES, 1.0))
OTHER_SETTINGS = {
    "rho by size": {"rho": 0.0},
    "large rho": {"rho": 0.6, "generated": 12},
    "no search": {"search": 0},
    "nothing generated": {"generated": 0},
    "grammar alone": {"table": 0.0, "rate": 0.5},
    "many guests": {"rate": 16.0, "table": 0.9, "include": 0.1},
    "jumps": {"kernels": {"jump-greedy": 1, "jump-anneal": 1, "jump-tempered": 1, "birth-death": 1}},
}


@cache
def experiment_of(case: str, **options: Any) -> rt.Experiment:
    given, library = CASES[case]
    return rt.Experiment(rt.small_problem(**{**given, **options}), rt.library_of(library))


@cache
def replicate() -> Callable[..., None]:
    return rt.driver()


def code_of(move: str) -> int:
    return rt.MIXTURE if move == "mixture" else POPULATION_MOVES.index(move)


def tolerance(experiment: rt.Experiment, rows: np.ndarray) -> np.ndarray:
    """How far two computations of a log posterior may be apart: a Gram matrix squares the condition of the columns."""
    z = feature_columns(experiment.problem, experiment.exact.features).z
    models = [list(experiment.exact.models[row]) for row in rows]
    condition = np.array([np.linalg.cond(z[m]) if m else 1.0 for m in models])
    return 1e-9 + 100.0 * np.finfo(float).eps * condition**2


def check(experiment: rt.Experiment, ends: rt.Ends) -> float:
    """p-value of stationarity; the chain's own log posteriors are the exact ones."""
    rows = np.unique(ends.ends)
    assert np.isfinite(experiment.exact.log_posterior[rows]).all(), "the chain stays where the posterior is positive"
    worst = np.zeros(len(experiment.exact.models))
    np.maximum.at(worst, ends.ends, np.abs(ends.values - experiment.exact.log_posterior[ends.ends]))
    assert (worst[rows] <= tolerance(experiment, rows)).all()
    return experiment.p_value(ends)


@pytest.mark.parametrize("move", [*POPULATION_MOVES, "mixture"])
@pytest.mark.parametrize("case", [c if c in ALWAYS else pytest.param(c, marks=pytest.mark.full) for c in CASES])
def test_move_leaves_the_posterior(case: str, move: str) -> None:
    if move == "recall" and not CASES[case][1]:
        pytest.skip("without a library there is one model to recall")
    experiment = experiment_of(case)
    seed = 100 * list(CASES).index(case) + code_of(move)
    ends = experiment.ends(
        replicate(), code_of(move), SETTINGS, turns=TURNS, replications=REPLICATIONS, seed=1000 + seed
    )
    assert ends.moved > 0.02, "the chain moves"
    if move in ("literal", "delayed", "small"):
        assert ends.tried[code_of(move), ZERO_REVERSE] > 0
    assert check(experiment, ends) > LEVEL


@pytest.mark.parametrize("case", [c for c in CASES if c not in ALWAYS])
def test_mixture_leaves_the_posterior(case: str) -> None:
    experiment = experiment_of(case)
    seed = 2000 + list(CASES).index(case)
    ends = experiment.ends(replicate(), rt.MIXTURE, SETTINGS, turns=2, replications=REPLICATIONS // 2, seed=seed)
    moved = ends.tried[1:, MOVED] > 0
    assert moved[:-1].all() and moved[-1] == bool(CASES[case][1]), "each move finds another model"
    assert ends.moved > 0.1
    assert check(experiment, ends) > LEVEL


@pytest.mark.parametrize("options", OTHER_SETTINGS)
def test_other_settings_leave_the_posterior(options: str) -> None:
    experiment = experiment_of("canonical")
    settings = Populations(**{**vars(SETTINGS), **OTHER_SETTINGS[options]})
    seed = 3000 + list(OTHER_SETTINGS).index(options)
    ends = experiment.ends(replicate(), rt.MIXTURE, settings, turns=2, replications=REPLICATIONS // 2, seed=seed)
    assert ends.moved > 0.1
    assert check(experiment, ends) > LEVEL


@pytest.mark.full
@pytest.mark.parametrize("options", OTHER_SETTINGS)
@pytest.mark.parametrize("move", POPULATION_MOVES)
def test_each_move_leaves_the_posterior_at_any_setting(move: str, options: str) -> None:
    experiment = experiment_of("a copy, projections")
    settings = Populations(**{**vars(SETTINGS), **OTHER_SETTINGS[options]})
    seed = 4000 + 100 * list(OTHER_SETTINGS).index(options) + code_of(move)
    ends = experiment.ends(replicate(), code_of(move), settings, turns=2, replications=REPLICATIONS, seed=seed)
    assert check(experiment, ends) > LEVEL


@pytest.mark.parametrize(
    "prior",
    [p if p in ("hyper-g", "jeffreys", "bic") else pytest.param(p, marks=pytest.mark.full) for p in COEF_PRIORS],
)
@pytest.mark.parametrize("spelling", ["canonical", "trees"])
def test_mixture_leaves_the_posterior_of_each_coefficient_prior(prior: str, spelling: str) -> None:
    experiment = experiment_of("canonical", coef_prior=prior, spelling=spelling)
    seed = 5000 + list(COEF_PRIORS).index(prior)
    ends = experiment.ends(replicate(), rt.MIXTURE, SETTINGS, turns=2, replications=40_000, seed=seed)
    assert ends.moved > 0.05
    assert check(experiment, ends) > LEVEL


@pytest.mark.parametrize("move", POPULATION_MOVES)
def test_move_is_reversible(move: str) -> None:
    experiment = experiment_of("large library" if move == "recall" else "three covariates")
    ends = experiment.ends(
        replicate(), code_of(move), SETTINGS, turns=1, replications=REPLICATIONS, seed=6000 + code_of(move)
    )
    p_value, pairs = symmetry(ends, len(experiment.exact.models))
    assert pairs >= 10
    assert p_value > LEVEL


def symmetry(ends: rt.Ends, count: int) -> tuple[float, int]:
    """p-value of the test that (start, end) counts are symmetric, and how many pairs were frequent enough."""
    table = np.bincount(ends.starts * count + ends.ends, minlength=count * count).reshape(count, count).astype(float)
    upper = np.triu_indices(count, 1)
    there, back = table[upper], table.T[upper]
    frequent = there + back >= 2 * rt.LEAST_EXPECTED
    statistic = ((there - back)[frequent] ** 2 / (there + back)[frequent]).sum()
    return float(chi2.sf(statistic, int(frequent.sum()))), int(frequent.sum())


# --- mutants ----------------------------------------------------------------------------------------------------


@cache
def mutant_experiment() -> rt.Experiment:
    return rt.Experiment(rt.small_problem(1, a=0.5), rt.library_of(("a", "b")))


def mutant_p_value(mutant: Mutant, move: str) -> float:
    experiment = mutant_experiment()
    ends = experiment.ends(
        reversible_mutants.broken_driver(), code_of(move), reversible_mutants.settings_of(mutant), turns=TURNS,
        replications=REPLICATIONS, seed=7, prepare=reversible_mutants.switch(mutant),
    )  # fmt: skip
    return experiment.p_value(ends)


@pytest.mark.parametrize(
    ("mutant", "move"),
    [
        pytest.param(m, move, id=f"{m.what}, {move}", marks=[pytest.mark.full] if i else [])
        for m in MUTANTS
        for i, move in enumerate(m.moves)
    ],
)
def test_a_broken_move_is_caught(mutant: Mutant, move: str) -> None:
    assert mutant_p_value(mutant, move) < CAUGHT


@pytest.mark.parametrize("move", UNBROKEN.moves)
def test_the_same_moves_unbroken_pass(move: str) -> None:
    assert mutant_p_value(UNBROKEN, move) > LEVEL


# --- long runs --------------------------------------------------------------------------------------------------


def tally(experiment: rt.Experiment, chain: ReversibleChain) -> np.ndarray:
    """Visits of each model so far; the chain is closed for it, which it does not mind."""
    chain.close()
    counts = np.zeros(len(experiment.exact.models), np.int64)
    words, _, visits = chain.library_models()
    for row, m in zip(words, visits, strict=True):
        model = [f for i, f in enumerate(chain.library.features) if int(row[i >> 6]) >> (i & 63) & 1]
        counts[experiment.models[frozenset(model)]] += m
    for model, (_, m) in chain.guest_models.items():
        counts[experiment.models[model]] += m
    return counts


def started(experiment: rt.Experiment, seed: int, settings: Populations, batch: int, **options: Any) -> ReversibleChain:
    """A chain after warm-up."""
    chain = experiment.chain(seed, settings, **options)
    chain.warm_up(10_000)
    chain.forget_warmup()
    chain.batch = batch
    return chain


def batch_counts(experiment: rt.Experiment, chain: ReversibleChain, batches: int) -> np.ndarray:
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
    "default moves": Populations(steps=50, moves=DEFAULT_MOVES),
    "populations alone": Populations(steps=20, moves={"none": 1.0}),
}


# Guests that are rarely drawn stay long, so that rare models of two of them need long runs.
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


def check_inclusion(experiment: rt.Experiment, chain: ReversibleChain, counts: np.ndarray) -> None:
    """Means of library features and stays of guests are what the visits of models say."""
    visits = dict.fromkeys(experiment.exact.features, 0)
    for model, m in zip(experiment.exact.models, counts.sum(axis=0), strict=True):
        for i in model:
            visits[experiment.exact.features[i]] += int(m)
    inside = np.sum(chain.means, axis=0) * chain.batch
    for feature, steps in zip(chain.library.features, inside, strict=True):
        assert round(float(steps), 3) == visits.pop(feature)
    assert sum_of(chain.stays) == {feature: m for feature, m in visits.items() if m > 0}


def sum_of(stays: Sequence[Mapping[Feature, float]]) -> dict[Feature, float]:
    """Stays of guests in several batches together."""
    total: Counter[Feature] = Counter()
    for batch in stays:
        total.update(batch)
    return dict(total)


def check_values(experiment: rt.Experiment, chain: ReversibleChain) -> None:
    """The log posterior of every model kept is the exact one."""
    words, values, _ = chain.library_models()
    assert len(words) > 1
    found = dict(chain.guest_models)
    for row, value in zip(words, values, strict=True):
        model = [f for i, f in enumerate(chain.library.features) if int(row[i >> 6]) >> (i & 63) & 1]
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


def run_of(experiment: rt.Experiment, batches: int = 10, batch: int = 5000, **options: Any) -> ReversibleChain:
    chain = started(experiment, 8200, SETTINGS, batch, **options)
    chain.run_batches(batches)
    chain.close()
    return chain


def test_the_same_seed_gives_the_same_result() -> None:
    experiment = experiment_of("projections")
    first, second = run_of(experiment), run_of(experiment)
    assert same_path(first, second)
    assert first.guest_models == second.guest_models
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
    assert (whole.chain.record.inside[: whole.first] == pieces.chain.record.inside[: whole.first]).all()
    assert whole._pending == pieces._pending
    assert (whole.chain.rng == pieces.chain.rng).all()


def test_a_store_that_grows_or_forgets_does_not_change_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = experiment_of("large library")
    roomy = run_of(experiment)
    monkeypatch.setattr(reversible, "FIRST_CAPACITY", 16)
    grown = run_of(experiment)
    assert len(grown.chain.store.log_posterior) > 16 and grown.chain.store.scalars["forgotten"] == 0
    tight = run_of(experiment, memory=1)
    assert len(tight.chain.store.log_posterior) == 16 and tight.chain.store.scalars["forgotten"] > 0
    assert same_path(roomy, grown) and same_path(roomy, tight)
    for chain in (roomy, grown, tight):
        visits = chain.library_models()[2].sum() + sum(m for _, m in chain.guest_models.values())
        assert visits + chain.forgotten + chain.chain.store.scalars["forgotten"] == 50_000


def test_a_log_that_is_drained_often_does_not_change_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = experiment_of("canonical")
    roomy = run_of(experiment)
    places = len(roomy.population.feature)
    monkeypatch.setattr(reversible, "LOG", 3 * places + 5)
    assert same_path(roomy, run_of(experiment))


def test_an_archive_that_forgets_keeps_count(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = experiment_of("canonical")
    roomy = run_of(experiment)
    monkeypatch.setattr(reversible, "GUEST_MODELS", 20)
    tight = run_of(experiment)
    assert same_path(roomy, tight)
    assert len(tight.guest_models) < len(roomy.guest_models)
    visits = tight.library_models()[2].sum() + sum(m for _, m in tight.guest_models.values())
    assert tight.forgotten > 0 and visits + tight.forgotten == 50_000
    best = sorted(roomy.guest_models, key=lambda model: -roomy.guest_models[model][0])[:5]
    assert all(tight.guest_models[model][0] == pytest.approx(roomy.guest_models[model][0]) for model in best)


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
    roomy = len(experiment.chain(1, SETTINGS).guests.fresh.table)
    for room in (0, 12):
        monkeypatch.setattr(reversible, "TABLE", room)
        chain = started(experiment, 8400 + room, SETTINGS, batch)
        assert len(chain.guests.fresh.table) < roomy
        assert chain.guests.fresh.share == (0.0 if room == 0 else SETTINGS.table)
        counts = batch_counts(experiment, chain, batches)
        likely = np.flatnonzero(experiment.exact.probability > 0.001)
        distance = in_mcse(counts[:, likely] / batch, experiment.exact.probability[likely])
        assert np.abs(distance).max() < furthest(batches, len(likely))


def test_counts_of_moves_and_populations() -> None:
    experiment = experiment_of("canonical")
    chain = experiment.chain(8500, SETTINGS)
    chain.recall(experiment.recalled)
    chain.advance(60_000)
    tried, populations = chain.between.tried, int(chain.guests.scalars["populations"])
    between = int(tried[1:, PROPOSED].sum())
    assert chain.chain.record.tried[:, 0].sum() + between == 60_000
    # The last population may have begun without a step inside it.
    assert SETTINGS.steps * (populations - 1) <= 60_000 - between <= SETTINGS.steps * populations
    assert (tried[1:, PROPOSED] >= tried[1:, MOVED]).all() and (tried[1:, MOVED] > 0).all()
