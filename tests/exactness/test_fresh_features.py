"""Fresh features: how populations are drawn, and the bookkeeping of features that come and go."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import feature_twin as ft
import numpy as np
import pytest
import twin
from feature_experiments import Experiment, enter_for_good, small_problem
from scipy.stats import chi2

from modejump.core.compilation import entry
from modejump.core.errors import InputError
from modejump.experiments.spaces import feature_columns
from modejump.features.nonlinear.expression import Feature
from modejump.kernels.populations.fresh_features import draw_population, log_rho
from modejump.kernels.populations.population import EMPTY_WEIGHT
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.settings import Sampler

LEVEL = 1e-4
POPULATIONS = 100_000
CASES: dict[str, dict[str, Any]] = {
    "plain": {"complexity": 3},
    "trees": {"complexity": 3, "spelling": "trees", "columns": 3, "collinear": "copy"},
    "projections": {"projections": True},
}
SETTINGS = Sampler(population_steps=5, rate=3.0, edits=0.5, moves={"none": 1, "literal": 1, "coupled": 1, "edit": 1})


@entry
def log_rhos(fc, numbers, out):
    """Log probability of each feature to be in a population."""
    for i in range(len(numbers)):
        out[i] = log_rho(fc, numbers[i])


@entry
def draw_many(fc, present):
    """Sampler of fresh features, one in each row of ``present``: the features' numbers, then -1."""
    features, active = fc.population.feature, fc.between.active
    for r in range(len(present)):
        draw_population(fc, active)
        m = 0
        for place in range(fc.fresh.first, len(features)):
            if features[place] >= 0:
                present[r, m] = features[place]
                m += 1
                features[place] = -1
            active[place] = 0


def experiment_of(case: str) -> Experiment:
    return Experiment(small_problem(31, **CASES[case]), ("a", "a*b"))


def chain_of(case: str, seed: int = 32, settings: Sampler = SETTINGS) -> tuple[Experiment, ReversibleChain]:
    experiment = experiment_of(case)
    return experiment, experiment.chain(seed, settings)


# --- the law of populations -------------------------------------------------------------------------------------


def q_of(chain: ReversibleChain, feature: Feature) -> float:
    """q(f) by the plain twin of the grammar."""
    q = chain.arrays.fresh.q
    known = {chain.feature(int(f)): float(q.probability[f]) for f in q.listed if q.share}
    return q.share * known.get(feature, 0.0) + (1.0 - q.share) * ft.Grammar.of(chain.language).probability(feature)


@pytest.mark.parametrize("case", CASES)
def test_populations_hold_each_feature_independently(case: str) -> None:
    experiment, chain = chain_of(case)
    fresh = [f for f in experiment.exact.features if f not in chain.library]
    numbers = enter_for_good(chain, fresh)
    present = np.full((POPULATIONS, 64), -1, np.int64)
    draw_many(chain.arrays, present)
    inside = np.zeros((POPULATIONS, len(fresh)), bool)
    for i, f in enumerate(numbers):
        inside[:, i] = (present == f).any(axis=1)
    assert inside.sum() == (present >= 0).sum(), "fresh are features of the space outside the library, each once"
    rho = np.array([-np.expm1(-chain.arrays.fresh.rate * q_of(chain, f)) for f in fresh])
    # One binomial for each feature and one for each pair, all nearly independent.
    frequent = np.flatnonzero(rho * POPULATIONS > 50)
    single = (inside.sum(axis=0) - POPULATIONS * rho) / np.sqrt(POPULATIONS * rho * (1.0 - rho))
    pairs = [(i, j) for i, j in itertools.combinations(frequent, 2) if rho[i] * rho[j] * POPULATIONS > 50]
    both = np.array([(inside[:, i] & inside[:, j]).mean() for i, j in pairs])
    # Given how often each of the two was there, together they have the covariance's own error.
    share = inside.mean(axis=0)
    covariance = both - np.array([share[i] * share[j] for i, j in pairs])
    spread = np.sqrt(np.array([rho[i] * (1 - rho[i]) * rho[j] * (1 - rho[j]) for i, j in pairs]) / POPULATIONS)
    assert len(frequent) >= 8 and len(pairs) >= 20
    assert chi2.sf((single[frequent] ** 2).sum(), len(frequent)) > LEVEL
    assert chi2.sf(((covariance / spread) ** 2).sum(), len(pairs)) > LEVEL


def poisson(stream: twin.Stream, rate: float) -> int:
    """How many uniform numbers it takes until their product falls to exp(-rate), less one."""
    count, product = 0, stream.uniform()
    while product > np.exp(-rate):
        product *= stream.uniform()
        count += 1
    return count


@pytest.mark.parametrize("case", CASES)
def test_populations_follow_the_plain_twin(case: str) -> None:
    experiment, chain = chain_of(case)
    enter_for_good(chain, experiment.exact.features)
    usable = set(experiment.exact.features) - set(chain.library)
    start = chain.arrays.chain.rng.copy()
    present = np.full((500, 64), -1, np.int64)
    draw_many(chain.arrays, present)
    stream, grammar, q = twin.Stream(start), ft.Grammar.of(chain.language), chain.arrays.fresh.q
    for row in present:
        drawn: set[Feature | None] = set()
        for _ in range(poisson(stream, chain.arrays.fresh.rate)):
            if stream.uniform() < q.share:
                drawn.add(chain.feature(int(q.listed[stream.alias(q.threshold, q.alias)])))
            else:
                drawn.add(grammar.draw(stream, int(chain.language.limits.complexity)))
        assert {chain.feature(int(f)) for f in row[row >= 0]} == drawn & usable
    assert twin.Stream(chain.arrays.chain.rng).state == stream.state


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rate", [1e-3, 3.0, 16.0])
def test_probabilities_of_fresh_features(case: str, rate: float) -> None:
    experiment, chain = chain_of(case, settings=Sampler(rate=rate, edits=0.3))
    features = list(experiment.exact.features)
    out = np.empty(len(features))
    log_rhos(chain.arrays, enter_for_good(chain, features), out)
    plain = [np.log(-np.expm1(-rate * q_of(chain, f))) for f in features]
    np.testing.assert_allclose(out, plain, rtol=1e-12, atol=1e-12)


def test_probabilities_too_small_for_the_exponential() -> None:
    problem = small_problem(33, 4, ("sin", "troot"), depth=8, width=12, complexity=40)
    chain = Experiment(problem, ("a",)).chain(1, Sampler(rate=1.0))
    feature = Feature.parse("sin(troot(sin(a*b*c)*b*b)*troot(c*d*d*sin(d)))*a*b*c*d*a*b*c*d*sin(sin(a*a*b*b*c*c))")
    out = np.empty(1)
    log_rhos(chain.arrays, enter_for_good(chain, [feature]), out)
    q = q_of(chain, feature)
    assert 0 < q < 1e-20
    assert out[0] == pytest.approx(np.log(q), rel=1e-12)


# --- places -----------------------------------------------------------------------------------------------------


@contextmanager
def looking_at(chain: ReversibleChain) -> Iterator[None]:
    """For a look at features that the chain may forget next: it must not remember what was seen."""
    known = dict(chain._memo)
    yield
    chain._memo = known


def check_places(experiment: Experiment, chain: ReversibleChain) -> int:
    """Arrays of all places against the features in them; returns how many fresh there are."""
    data, features = chain.arrays.data, chain.arrays.population.feature
    filled = np.flatnonzero(features >= 0)
    made = [chain.feature(int(features[p])) for p in filled]
    assert len(set(made)) == len(made), "no feature has two places"
    assert made[: len(chain.library)] == list(chain.library)
    columns = feature_columns(experiment.problem, made)
    assert list(columns.features) == made
    gram = columns.z @ columns.z.T
    # A linear image in a projection is only as sharp as the fit of its alphas.
    np.testing.assert_allclose(data.gram[np.ix_(filled, filled)], gram, atol=1e-9)
    np.testing.assert_allclose(data.corr[filled], columns.z @ experiment.problem.response[0], atol=1e-9)
    rho = np.array([-np.expm1(-chain.arrays.fresh.rate * q_of(chain, f)) for f in made])
    boost = np.where(filled >= chain.first, -np.log(rho), 0.0)
    weight = [ft.log_weight(experiment.problem, f) for f in made]
    np.testing.assert_allclose(data.prior.log_weight[filled], weight + boost, rtol=1e-12)
    np.testing.assert_allclose(
        chain.arrays.fresh.boost[filled[filled >= chain.first]], boost[filled >= chain.first], rtol=1e-12
    )
    assert (data.zobrist[filled] == chain.table.key[features[filled]]).all()
    assert (data.prior.log_weight[features < 0] == EMPTY_WEIGHT).all()
    return int((filled >= chain.first).sum())


def check_state(experiment: Experiment, chain: ReversibleChain) -> None:
    """The chain's model, its log posterior with the boosts of its fresh, and its key."""
    st = chain.arrays.chain.state
    members = st.order[: st.scalars["size"]]
    features = chain.arrays.population.feature[members]
    assert (features >= 0).all()
    row = experiment.models[frozenset(chain.feature(int(f)) for f in features)]
    boost = chain.arrays.fresh.boost[members[members >= chain.first]].sum()
    assert st.scalars["log_posterior"] - boost == pytest.approx(experiment.exact.log_posterior[row], abs=1e-8)
    assert st.scalars["hash"] == np.bitwise_xor.reduce(chain.table.key[features], initial=np.uint64(0))
    entry = st.scalars["entry"]
    assert (chain.arrays.chain.store.words[entry] == st.words).all()


@pytest.mark.parametrize("case", CASES)
def test_places_hold_what_they_say_at_any_time(case: str) -> None:
    experiment, chain = chain_of(case)
    met = 0
    # Steps that end in the middle of a population, at its end, and after a move between two.
    for steps in (1, 2, 3, 5, 6, 7, 11, 4, 1, 1, 1, 50, 1, 3) * 8:
        chain.advance(steps)
        with looking_at(chain):
            met += check_places(experiment, chain)
            check_state(experiment, chain)
    assert met > 150


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_left_of_a_population_but_the_model(case: str) -> None:
    experiment, chain = chain_of(case)
    for _ in range(60):
        chain.advance(13)
        chain.close()
        st, store = chain.arrays.chain.state, chain.arrays.chain.store
        fresh = np.flatnonzero(chain.arrays.population.feature[chain.first :] >= 0) + chain.first
        assert all(st.member[p] for p in fresh)
        check_places(experiment, chain)
        check_state(experiment, chain)
        # Models in the store are of the library, but for the chain's own where that has fresh.
        mark = int(chain.arrays.fresh.scalars["mark"])
        assert (store.words[:mark, chain.first // 64 :] == 0).all()
        assert store.scalars["count"] == mark + bool(len(fresh))
        assert chain.arrays.fresh.scalars["left"] == 0
        # Every model of the store is found by its key: its index was unwound and wound up again.
        known = {tuple(row) for row in store.words[: store.scalars["count"]]}
        assert len(known) == store.scalars["count"]
        assert (store.slots > 0).sum() == store.scalars["count"]


def test_archived_models_have_no_boost_and_are_kept_once() -> None:
    experiment, chain = chain_of("plain")
    for _ in range(30):
        chain.advance(997)
        archive = chain.arrays.archive
        kept = int(archive.scalars["kept"])
        models = [frozenset(chain.feature(int(f)) for f in archive.features[m, : archive.size[m]]) for m in range(kept)]
        assert len(set(models)) == kept
        exact = experiment.exact.log_posterior[[experiment.models[model] for model in models]]
        np.testing.assert_allclose(archive.log_posterior[:kept], exact, atol=1e-9)
        assert archive.scalars["bar"] <= archive.log_posterior[:kept].min(initial=np.inf)
    assert archive.scalars["distinct"] >= kept > 50


def test_library_features_that_no_model_can_have_are_refused() -> None:
    problem = small_problem(34, 2, ("p0",))
    with pytest.raises(InputError, match=r"the library feature 'p0\(a\)' is constant or not finite"):
        Experiment(problem, ("a", "p0(a)")).chain(1, SETTINGS)


def test_a_chain_without_a_library() -> None:
    experiment = Experiment(small_problem(31, complexity=3), ())
    chain = experiment.chain(35, SETTINGS)
    chain.advance(2000)
    assert check_places(experiment, chain) >= 0
    check_state(experiment, chain)
