"""Every compiled kernel against its plain twin: values, paths, cache, growth, tables of the alias method, scout."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
import twin
from numba import njit

from modejump.core.random import alias_table, below, draw_alias, new_stream, next_word, uniform
from modejump.core.threads import Hands
from modejump.kernels.chain import DONE, WANT_STORE, Chain, run
from modejump.kernels.evaluate import GUARD, REFINE_BELOW, RESID_FLOOR, evaluate_member
from modejump.kernels.moves import KERNELS, Moves
from modejump.kernels.neighbour import neighbour, set_model
from modejump.kernels.state import COLS, ILL, LOG_POSTERIOR, flip_all
from modejump.kernels.store import (
    COUNT,
    EVALUATED,
    FORGOTTEN,
    ModelStore,
    better_half,
    forget,
    insert,
    new_store,
    probe,
    resize,
)
from modejump.likelihoods.gaussian.marginal import log_marginal
from modejump.priors import COEF_PRIORS, BernoulliPrior, BetaBinomialPrior, GPrior, UniformPrior
from modejump.problem.problem import Problem
from modejump.samplers.budget import Budget
from modejump.samplers.chains.mjmcmc_chain import FIRST_CAPACITY, Runner, new_chain, with_more_room
from modejump.samplers.merge import merged_stores, renormalised_inclusion, weighted_inclusion
from modejump.samplers.mixture import UNIFORM_SHARE, Mixture, flip_weights, partner_tables
from modejump.samplers.warmup import best_first as scout_module
from modejump.samplers.warmup.best_first import Scouting

# Two ways to one log posterior agree to this, or to the rounding of a large value.
ACCURACY = 1e-9

compiled = njit(nogil=True, error_model="numpy")


def close(a: np.ndarray | float, b: np.ndarray | float, accuracy: float = ACCURACY) -> np.ndarray:
    """Equal infinities, or values within the accuracy."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= accuracy * np.maximum(1.0, np.abs(b) * 1e-3)
    return (a == b) | near


# --- random numbers and alias tables --------------------------------------------------------------------------


@compiled
def draw_many(state, words, uniforms, integers, indices, m, threshold, alias):
    for i in range(len(words)):
        words[i] = next_word(state)
    for i in range(len(uniforms)):
        uniforms[i] = uniform(state)
        integers[i] = below(state, m)
        indices[i] = draw_alias(state, threshold, alias)


def test_stream_is_xoshiro256_plus_plus() -> None:
    # Seed 1, 2, 3, 4: the vector that implementations of the reference program publish.
    published = [
        41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205,
        9973669472204895162, 14011001112246962877, 12406186145184390807, 15849039046786891736,
        10450023813501588000,
    ]  # fmt: skip
    rng = twin.Stream([1, 2, 3, 4])
    assert [rng.word() for _ in published] == published


def test_draws_equal_the_twin() -> None:
    state = new_stream(np.random.SeedSequence(7))
    rng = twin.Stream(state)
    threshold, alias = alias_table(np.array([0.1, 3.0, 0.0, 1.0, 0.4]))
    words, uniforms = np.zeros(100, np.uint64), np.zeros(2000)
    integers, indices = np.zeros(2000, np.int64), np.zeros(2000, np.int64)
    draw_many(state, words, uniforms, integers, indices, 13, threshold, alias)
    assert words.tolist() == [rng.word() for _ in words]
    for i in range(len(uniforms)):
        assert uniforms[i] == rng.uniform()
        assert integers[i] == rng.below(13)
        assert indices[i] == rng.alias(threshold, alias)
    assert state.tolist() == rng.state
    assert set(integers) == set(range(13))
    assert set(indices) == {0, 1, 3, 4}, "an index of weight zero is never drawn"


@pytest.mark.parametrize("k", [1, 2, 3, 17, 400])
def test_alias_table_holds_the_distribution(k: int) -> None:
    rng = np.random.default_rng(k)
    for weights in (np.ones(k), rng.exponential(size=k), 10.0 ** rng.uniform(-12, 3, size=k)):
        threshold, alias = alias_table(weights)
        assert ((threshold >= 0.0) & (threshold <= 1.0)).all()
        held = threshold / k
        np.add.at(held, alias, (1.0 - threshold) / k)
        # Each of at most k exchanges rounds once.
        np.testing.assert_allclose(held, weights / weights.sum(), rtol=0, atol=k * np.finfo(float).eps)


def test_flip_weights_follow_the_uncertainty() -> None:
    p = np.array([0.5, 0.1, 0.9, 0.2])
    spread = np.sqrt(p * (1 - p))
    expected = (1 - UNIFORM_SHARE) * spread / spread.sum() + UNIFORM_SHARE / 4
    np.testing.assert_allclose(flip_weights(p), expected, rtol=1e-12)
    certain = flip_weights(np.array([0.0, 1.0, 0.5]))
    assert (certain >= UNIFORM_SHARE / 3).all(), "every term is tried, however certain it looks"


@pytest.mark.parametrize("terms", [2, 5, 40])
def test_partner_tables_hold_their_own_ratio(terms: int) -> None:
    problem = twin.one_column_each(terms, terms, rows=60)
    partner, cdf, ratio = partner_tables(problem.data.gram, problem.data.first)
    moves = Mixture().compile(problem)
    matrix = twin.transition_matrix(moves)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=1e-12)
    assert (np.diag(matrix) == 0.0).all()
    for i in range(terms):
        for at, j in enumerate(partner[i]):
            back = math.log(matrix[j, i]) if matrix[j, i] > 0 else -math.inf
            assert ratio[i, at] == pytest.approx(back - math.log(matrix[i, j]), abs=1e-9)
    np.testing.assert_allclose(cdf[:, -1], 1.0, rtol=1e-12)
    if terms > 13:
        assert np.isneginf(ratio).any(), "some term is a partner of one that is not its own"


# --- values ---------------------------------------------------------------------------------------------------


@compiled
def walk(data, ch, start, flips, counts, values):
    """Neighbour after neighbour with an empty cache, moving to each that has a positive probability."""
    st, store = ch.state, ch.store
    set_model(data, st, ch.work, store, start)
    ill = 0
    for r in range(len(counts)):
        store.scalars["count"] = 0
        store.slots[:] = 0
        value, _ = neighbour(data, st, ch.work, store, flips[r], counts[r])
        values[r] = value
        ill += st.scalars["ill"]
        if value > -np.inf:
            flip_all(data, st, ch.work, flips[r], counts[r])
            st.scalars["log_posterior"] = value
    return ill


def roomy_chain(problem: Problem, models: int = FIRST_CAPACITY) -> Chain:
    """A chain with room for the largest model."""
    chain = new_chain(problem, new_stream(np.random.SeedSequence(1)), models)
    while len(chain.state.cols) < problem.n_columns + chain.work.products.shape[0]:
        chain = with_more_room(chain, problem.data.glm)
    return chain


def random_walk(problem: Problem, rng: np.random.Generator, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Flip sets of one to four terms, in random order."""
    k = problem.n_terms
    counts = rng.integers(1, min(4, k) + 1, size=steps)
    flips = np.array([np.resize(rng.permutation(k), 4) for _ in range(steps)])
    return flips.astype(np.int64), counts


def check_walk(problem: Problem, steps: int = 400, canonical: float = ACCURACY, fast: float = ACCURACY) -> int:
    """Fast values equal canonical ones and least squares along a walk; returns how many had probability zero."""
    rng = np.random.default_rng(0)
    flips, counts = random_walk(problem, rng, steps)
    sets = [flips[r, : counts[r]].tolist() for r in range(steps)]
    values = np.zeros(steps)
    walk(problem.data, roomy_chain(problem), np.zeros(problem.n_terms, np.uint8), flips, counts, values)
    target = twin.Target(problem, marginal=log_marginal)
    mask, zeros = 0, 0
    for r in range(steps):
        other = mask
        for t in sets[r]:
            other ^= 1 << t
        value, _ = evaluate_member(problem.data, twin.member_vector(other, problem.n_terms))
        assert close(value, target.value(other), canonical), f"canonical evaluation, model {other:b}"
        assert close(values[r], value, fast), f"step {r}, model {other:b}"
        zeros += values[r] == -np.inf
        mask = other if values[r] > -np.inf else mask
    return zeros


WALKS: dict[str, Callable[[], Problem]] = {
    "one term": lambda: twin.one_column_each(1, 1),
    "few terms": lambda: twin.one_column_each(2, 7),
    "two words": lambda: twin.one_column_each(3, 70, rows=90),
    "more terms than rows": lambda: twin.one_column_each(4, 40, rows=25),
    "factors": lambda: twin.with_factors(5),
    "factors with few rows": lambda: twin.with_factors(5, rows=8),
    "strong heredity": lambda: twin.with_interactions(6, model_prior=UniformPrior(heredity="strong")),
    "weak heredity": lambda: twin.with_interactions(6, model_prior=BernoulliPrior(0.3, heredity="weak")),
    "size bound": lambda: twin.one_column_each(7, 9, model_prior=BetaBinomialPrior(max_size=4)),
    "unequal prior": lambda: twin.one_column_each(8, 9, model_prior=BernoulliPrior(tuple(np.linspace(0.01, 0.9, 9)))),
    "weights": lambda: twin.one_column_each(
        9, 8, weights=np.random.default_rng(9).choice([0.0, 0.5, 1.0, 3.0], size=40)
    ),
    "always in": lambda: twin.one_column_each(10, 8, always_in=("x2", "x5")),
    "no intercept": lambda: twin.one_column_each(11, 8, intercept=False),
    "duplicates": lambda: twin.with_duplicate(12),
    **{f"prior {name}": (lambda name=name: twin.one_column_each(13, 6, coef_prior=name)) for name in COEF_PRIORS},
}
ZEROS = {
    "more terms than rows",
    "factors with few rows",
    "strong heredity",
    "weak heredity",
    "size bound",
    "duplicates",
}


@pytest.mark.parametrize("case", WALKS)
def test_neighbour_equals_canonical_and_least_squares(case: str) -> None:
    zeros = check_walk(WALKS[case]())
    assert (zeros > 0) == (case in ZEROS)


def test_values_do_not_drift() -> None:
    """Thousands of rank-one updates, between them the refreshes."""
    check_walk(twin.one_column_each(21, 30, rows=80), steps=4000)


@pytest.mark.parametrize("gap", [3e-2, 1e-2, 1e-3, 1e-4])
def test_nearly_collinear_columns(gap: float) -> None:
    """From trusted pivots to pivots that are nearly zero.

    A pivot d is known to a few machine epsilons, so the residual share is known to about eps / d of itself and the
    log posterior to n times that. The fast path loses this factor twice, because the inverse has entries of 1 / d;
    where d is below the guard, it hands over to the canonical evaluation.
    """
    rng = np.random.default_rng(22)
    rows = 60
    x, y = twin.table(rng, rows, 8)
    for j in (1, 4, 6):
        x[:, j] = x[:, j - 1] + gap * x[:, j]
    problem = Problem.build(x, y)
    pivot = 1.0 - np.abs(np.triu(problem.data.gram, 1)).max() ** 2
    rounding = 16 * rows * np.finfo(float).eps
    fast = rounding / pivot**2 if pivot > GUARD else ACCURACY
    check_walk(problem, canonical=max(ACCURACY, rounding / pivot), fast=max(ACCURACY, fast))


def exact_share(x: np.ndarray, y: np.ndarray) -> float:
    """RSS / TSS of y on the columns and an intercept, with fifty digits."""
    with mpmath.workdps(50):
        design = mpmath.matrix(np.column_stack([np.ones(len(y)), x]).tolist())
        response = mpmath.matrix(y.tolist())
        centred = response - mpmath.fsum(response) / len(y) * mpmath.ones(len(y), 1)
        _, residual = mpmath.qr_solve(design, response)
        return float(residual**2 / (centred.T * centred)[0])


@pytest.mark.parametrize("offset", [0.0, 50.0])
@pytest.mark.parametrize("share", [1e-5, 1e-7, 1e-9, 1e-11, 1e-13, 1e-14])
def test_near_perfect_fits_are_refined(share: float, offset: float) -> None:
    rng = np.random.default_rng(23)
    x, _ = twin.table(rng, 24, 4)
    x += offset
    signal = x[:, 0] - 0.7 * x[:, 2]
    y = signal + math.sqrt(share) * np.std(signal) * rng.normal(size=24)
    problem = Problem.build(x, y)
    exact = exact_share(x[:, [0, 2]], y)
    assert exact == pytest.approx(share, rel=0.9)
    _, resid = evaluate_member(problem.data, np.array([1, 0, 1, 0], np.uint8))
    assert resid == pytest.approx(exact, rel=1e-4)
    # By way of a neighbour the value is the same one, whichever model the way leads from.
    for start in ([0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1]):
        flips = np.flatnonzero(np.array(start) != [1, 0, 1, 0]).astype(np.int64)
        values = np.zeros(1)
        walk(
            problem.data, roomy_chain(problem), np.array(start, np.uint8), np.resize(flips, (1, 4)),
            np.array([len(flips)]), values,
        )  # fmt: skip
        reference = log_marginal(problem.data.coef_prior, 24.0, 1, 2, exact) - 4 * math.log(2)
        assert values[0] == pytest.approx(reference, abs=12 * 1e-4)


def test_perfect_fits_share_one_floor() -> None:
    rng = np.random.default_rng(24)
    x, _ = twin.table(rng, 24, 4)
    problem = Problem.build(x, x[:, 0] - 0.7 * x[:, 2])
    for member in ([1, 0, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1]):
        _, resid = evaluate_member(problem.data, np.array(member, np.uint8))
        assert resid == RESID_FLOOR
    assert evaluate_member(problem.data, np.array([1, 1, 0, 1], np.uint8))[1] > REFINE_BELOW
    check_walk(problem)


# --- paths ----------------------------------------------------------------------------------------------------

PATHS: dict[str, Callable[[], Problem]] = {
    "K = 1": lambda: twin.one_column_each(30, 1, signal=0.1),
    "K = 2": lambda: twin.one_column_each(31, 2, signal=0.2),
    "K = 6": lambda: twin.one_column_each(32, 6, signal=0.3),
    "K = 70": lambda: twin.one_column_each(33, 70, rows=90, signal=0.1, coef_prior=GPrior(4.0)),
    "factors": lambda: twin.with_factors(34, coef_prior="aic"),
    "strong heredity": lambda: twin.with_interactions(
        35, coef_prior="aic", model_prior=UniformPrior(heredity="strong")
    ),
    "weak heredity": lambda: twin.with_interactions(35, coef_prior="aic", model_prior=UniformPrior(heredity="weak")),
    "hyper-g, unequal prior": lambda: twin.one_column_each(
        36, 5, coef_prior="hyper-g", model_prior=BernoulliPrior((0.1, 0.3, 0.5, 0.7, 0.8))
    ),
}  # fmt: skip
MIXTURES = {
    **{name: {"flip": 0.2, name: 0.8} for name in KERNELS},
    "all": dict.fromkeys(KERNELS, 1.0),
}
NEVER = {("K = 1", "multi"), ("K = 1", "swap"), ("K = 1", "partner")}


def uneven_moves(problem: Problem, weights: dict[str, float], **settings: object) -> Moves:
    """A compiled mixture whose flips prefer some terms."""
    threshold, alias = alias_table(np.linspace(0.3, 1.0, problem.n_terms))
    moves = Mixture(weights=weights, **settings).compile(problem)  # type: ignore[arg-type]
    return moves._replace(threshold=threshold, alias=alias)


def follow(runner: Runner, moves: Moves, steps: int) -> list[int]:
    """Models after each of so many steps."""
    masks = []
    for _ in range(steps):
        runner.advance(moves, 1)
        masks.append(twin.mask_of(runner.chain.state.words))
    return masks


def check_record(runner: Runner, path: twin.Path, target: twin.Target) -> None:
    """Counts, visits and cache of a compiled chain against the twin's path."""
    record, store = runner.chain.record, runner.chain.store
    k = target.n_terms
    np.testing.assert_array_equal(record.inside, path.inside(k))
    np.testing.assert_array_equal(record.sizes, path.sizes(k))
    np.testing.assert_array_equal(record.tried, path.tried())
    count = int(store.scalars["count"])
    masks = [twin.mask_of(words) for words in store.words[:count]]
    assert masks == list(target.known), "the same models are evaluated in the same order"
    assert close(store.log_posterior[:count], list(target.known.values())).all()
    visits = path.visits()
    assert store.visits[:count].tolist() == [visits.get(mask, 0) for mask in masks]


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("case", PATHS)
def test_chain_follows_the_twin(case: str, mixture: str) -> None:
    problem = PATHS[case]()
    jumps = mixture.startswith("jump")
    steps = 1000 if jumps else 2000 if mixture == "all" else 3000
    # Among many terms a jump comes back only if it is short.
    settings = {"search": 2, "rho": 0.02, "jump_max": 1} if problem.n_terms > 64 else {"rho": 0.15}
    moves = uneven_moves(problem, MIXTURES[mixture], delayed=mixture != "all", **settings)
    seed = np.random.SeedSequence(sum(map(ord, case + mixture)))
    stepwise = Runner(problem, seed, 2**26, 100)
    state, start = stepwise.chain.rng.copy(), stepwise.start
    target = twin.Target(problem)
    path = twin.run(target, moves, state, steps, start)
    assert follow(stepwise, moves, steps) == path.models
    check_record(stepwise, path, target)
    at_once = Runner(problem, np.random.SeedSequence(seed.entropy), 2**26, 100)
    at_once.advance(moves, steps)
    assert twin.mask_of(at_once.chain.state.words) == path.models[-1]
    check_record(at_once, path, target)
    if (case, mixture) not in NEVER and mixture != "all":
        assert path.tried()[KERNELS.index(mixture), 1] > 0, "the kernel moves, so that its acceptance is tested"


# --- growth ---------------------------------------------------------------------------------------------------


def large_models(seed: int, rows: int = 160) -> Problem:
    """Seventy terms, of which forty-five matter: models outgrow the first workspace."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 70))
    return Problem.build(x, x[:, :45].sum(axis=1) + rng.normal(size=rows), model_prior=UniformPrior())


def wide_factors(seed: int) -> Problem:
    """Factors of nine columns, so that a single jump can outgrow the workspace."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(260, 108))
    terms = {f"f{j}": list(range(9 * j, 9 * j + 9)) for j in range(12)}
    return Problem.build(x, 0.5 * x[:, :90].sum(axis=1) + rng.normal(size=260), terms=terms, coef_prior="aic")


def small_models(seed: int) -> Problem:
    """Seventy terms, of which few matter: only a large jump outgrows the workspace."""
    return twin.one_column_each(seed, 70, rows=160, signal=0.1)


@pytest.mark.parametrize(
    ("make", "jump_max", "why"),
    [
        (large_models, 4, "room in a step"),
        (wide_factors, 4, "room before a step"),
        (small_models, 60, "room in a step"),
    ],
)
def test_growing_in_the_middle_changes_nothing(
    make: Callable[[int], Problem], jump_max: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make(40)
    weights = {"flip": 0.6, "multi": 0.1, "swap": 0.1, "jump-anneal": 0.2}
    moves = Mixture(weights=weights, jump_max=jump_max, search=20).compile(problem)
    small = Runner(problem, np.random.SeedSequence(41), 2**26, 100)
    small.chain = small.chain._replace(store=new_store(2 * (2 * moves.search + 16), small.chain.store.words.shape[1]))
    large = Runner(problem, np.random.SeedSequence(41), 2**26, 100)
    large.chain = roomy_chain(problem, models=2**18)._replace(rng=large.chain.rng)
    reasons = {"store": 0, "room before a step": 0, "room in a step": 0}

    def watched(data: object, chain: Chain, *rest: object) -> tuple[int, int]:
        done, reason = run(data, chain, *rest)
        fits = chain.state.scalars["columns"] + chain.work.products.shape[0] <= len(chain.state.cols)
        if reason != DONE:
            reasons["store" if reason == WANT_STORE else f"room {'in' if fits else 'before'} a step"] += 1
        return done, reason

    monkeypatch.setattr("modejump.samplers.chains.mjmcmc_chain.run", watched)
    steps = 1500
    path = follow(small, moves, steps)
    assert reasons["store"] > 0 and reasons[why] > 0
    before = dict(reasons)
    assert follow(large, moves, steps) == path
    assert reasons == before, "the large one had no reason to grow"
    for name in ("inside", "sizes", "tried"):
        np.testing.assert_array_equal(getattr(small.chain.record, name), getattr(large.chain.record, name))
    stores = [_as_dict(runner.chain.store) for runner in (small, large)]
    assert stores[0].keys() >= stores[1].keys(), "a step that was taken back may have left models in the cache"
    for mask, (value, visits) in stores[1].items():
        assert close(value, stores[0][mask][0])
        assert visits == stores[0][mask][1]


def test_many_batches_at_once_are_those_one_by_one() -> None:
    problem = large_models(42)
    moves = Mixture(search=20).compile(problem)
    at_once, alone = (Runner(problem, np.random.SeedSequence(43), 2**26, 30) for _ in range(2))
    # Room and store have to grow in the middle of a batch.
    at_once.chain = at_once.chain._replace(store=new_store(2 * (2 * moves.search + 16), 2))
    at_once.run_batches(moves, 40)
    means = []
    for _ in range(40):
        alone.advance(moves, 30)
        means.append(alone.chain.record.inside / 30)
        alone.chain.record.inside[:] = 0.0
    np.testing.assert_array_equal(at_once.means, means)
    assert _as_dict(at_once.chain.store).items() >= _as_dict(alone.chain.store).items()
    np.testing.assert_array_equal(at_once.chain.rng, alone.chain.rng)


# --- the cache ------------------------------------------------------------------------------------------------


@compiled
def put(st, key, words, value, visits):
    at = probe(st, key, words)
    if at < 0:
        at = insert(st, key, words, value)
        if at < 0:
            return at
    st.visits[at] += visits
    return at


@compiled
def find(store, key, words):
    return probe(store, key, words)


def _as_dict(store: ModelStore) -> dict[int, tuple[float, int]]:
    return {
        twin.mask_of(store.words[e]): (float(store.log_posterior[e]), int(store.visits[e]))
        for e in range(int(store.scalars["count"]))
    }


def random_models(rng: np.random.Generator, count: int, words: int, distinct: int) -> list[np.ndarray]:
    pool = rng.integers(0, 2**64, size=(distinct, words), dtype=np.uint64)
    return list(pool[rng.integers(distinct, size=count)])


# One key for all models, few keys, and good keys.
KEYS: dict[str, Callable[[np.ndarray], int]] = {
    "all collide": lambda words: 5,
    "few keys": lambda words: int(words[0]) % 7,
    "good keys": lambda words: hash(words.tobytes()) % 2**64,
}


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("words", [1, 2, 3])
def test_cache_behaves_like_a_dictionary(words: int, keys: str) -> None:
    rng = np.random.default_rng(50 + words)
    key_of = KEYS[keys]
    store = new_store(8, words)
    expected: dict[int, list[float]] = {}
    for model in random_models(rng, 600, words, 150):
        value, visits = float(rng.normal()), int(rng.integers(5))
        if int(store.scalars["count"]) == len(store.log_posterior):
            store = resize(store, 2 * len(store.log_posterior))
        at = put(store, np.uint64(key_of(model)), model, value, visits)
        seen = expected.setdefault(twin.mask_of(model), [value, 0])
        seen[1] += visits
        assert at == list(expected).index(twin.mask_of(model))
    assert _as_dict(store) == {mask: (value, visits) for mask, (value, visits) in expected.items()}
    assert list(_as_dict(store)) == list(expected), "in order of first evaluation"
    assert int(store.scalars["evaluated"]) == len(expected)
    stranger = np.full(words, 1, np.uint64)
    assert find(store, np.uint64(key_of(stranger)), stranger) == -1


def test_full_cache_says_so() -> None:
    store = new_store(4, 1)
    entries = [put(store, np.uint64(m), np.array([m], np.uint64), 0.0, 0) for m in range(1, 7)]
    assert entries == [0, 1, 2, 3, -1, -1]
    assert find(store, np.uint64(6), np.array([6], np.uint64)) == -1


def filled(rng: np.random.Generator, masks: list[int]) -> ModelStore:
    store = new_store(len(masks) + 3, 1)
    for mask in masks:
        # The value is a function of the model, as in the chains.
        put(store, np.uint64(mask), np.array([mask], np.uint64), math.sin(mask), int(rng.integers(1, 9)))
    return store


def test_the_worse_half_is_forgotten_and_counted() -> None:
    rng = np.random.default_rng(55)
    store = filled(rng, list(range(1, 102)))
    before = _as_dict(store)
    worst = int(np.argmin(store.log_posterior[:101]))
    moved = forget(store, better_half(store, worst))
    after = _as_dict(store)
    ranked = sorted(before, key=lambda mask: -before[mask][0])
    assert set(after) == {*ranked[:50], ranked[-1]}, "the better half and the chain's own model"
    assert all(after[mask] == before[mask] for mask in after)
    assert int(store.scalars["forgotten"]) == sum(visits for mask, (_, visits) in before.items() if mask not in after)
    for e, mask in enumerate(before):
        assert moved[e] == (list(after).index(mask) if mask in after else -1)
        words = np.array([mask], np.uint64)
        assert find(store, np.uint64(mask), words) == moved[e]
    forget(store, better_half(store, 0))
    total = sum(visits for _, visits in _as_dict(store).values()) + int(store.scalars["forgotten"])
    assert total == sum(visits for _, visits in before.values()), "no visit is lost however often it forgets"


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_the_better_half_of_equals_is_the_older_one(count: int) -> None:
    rng = np.random.default_rng(57)
    store = filled(rng, list(range(1, count + 1)))
    for value in (rng.integers(3, size=count).astype(float), np.full(count, -np.inf), np.zeros(count)):
        store.log_posterior[:count] = value
        best = sorted(range(count), key=lambda e: (-value[e], e))[: count // 2]
        own = count - 1
        assert np.flatnonzero(better_half(store, own)).tolist() == sorted({*best, own})


# --- models of many caches ------------------------------------------------------------------------------------


def check_merged(stores: list[ModelStore]) -> None:
    expected = twin.merge([_as_dict(store) for store in stores])
    found = [merged_stores(stores, Hands(count)) for count in (1, 3)]
    for merged in found:
        table = merged.models
        columns = (table.log_posterior, table.visits, table.first_seen, table.chains)
        rows = zip([twin.mask_of(words) for words in table.words], *(column.tolist() for column in columns))
        assert list(rows) == expected
        assert merged.forgotten == sum(int(store.scalars["forgotten"]) for store in stores)
        weight = np.exp([value for _, value, *_ in expected]) if expected else np.zeros(0)
        inside = [[mask >> t & 1 for t in range(len(merged.inclusion))] for mask, *_ in expected]
        if expected:
            assert close(merged.inclusion, weight @ np.array(inside) / weight.sum()).all()
            assert close(merged.log_evidence, np.log(weight.sum()))
        else:
            assert merged.log_evidence == -np.inf
    assert np.array_equal(found[0].inclusion, found[1].inclusion, equal_nan=True)
    assert found[0].log_evidence == found[1].log_evidence


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("words", [1, 2, 3])
def test_caches_are_merged_as_the_twin_does(words: int, keys: str) -> None:
    rng = np.random.default_rng(56 + words)
    stores, models = [], iter(random_models(rng, 1401, words, 300))
    for count in (0, 1, 700, 700):
        store = new_store(max(count, 1), words)
        for model in itertools.islice(models, count):
            # The value is a function of the model, as in the chains; some are equal, and some minus infinity.
            value = -np.inf if model[0] % 11 == 3 else round(3 * math.sin(twin.mask_of(model) % 10_007), 2)
            put(store, np.uint64(KEYS[keys](model)), model, value, int(rng.integers(3)))
        stores.append(store)
    stores[2].num[FORGOTTEN] = 11
    check_merged(stores)


def test_merging_nothing_gives_nothing() -> None:
    check_merged([new_store(4, 1)])
    check_merged([filled(np.random.default_rng(58), [5])])


def test_renormalised_inclusion_is_the_same_for_any_number_of_threads() -> None:
    rng = np.random.default_rng(59)
    words = rng.integers(2**63, size=(100_000, 2), dtype=np.uint64) & rng.integers(2**63, size=(1, 2), dtype=np.uint64)
    value, num = rng.normal(size=100_000), np.zeros(4, np.int64)
    num[COUNT] = len(value)
    store = ModelStore(words, value, np.zeros(0, np.int64), words[:, 0].copy(), np.zeros(0, np.int32), num)
    found = [renormalised_inclusion(store, 128, Hands(count)) for count in (1, 3)]
    np.testing.assert_array_equal(found[0], found[1])
    weight = np.exp(value) / np.exp(value).sum()
    inside = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").reshape(-1, 128)
    np.testing.assert_allclose(found[0], weight @ inside, rtol=1e-10)
    np.testing.assert_allclose(weighted_inclusion(words, weight, 128), weight @ inside, rtol=1e-10)


# --- the scout ------------------------------------------------------------------------------------------------

SCOUTED: dict[str, Callable[[], Problem]] = {
    "K = 1": lambda: twin.one_column_each(60, 1),
    "all models": lambda: twin.one_column_each(61, 6),
    "two words": lambda: twin.one_column_each(62, 70, rows=90),
    "factors": lambda: twin.with_factors(63),
    "heredity": lambda: twin.with_interactions(64, model_prior=UniformPrior(heredity="strong")),
    "large models": lambda: large_models(66),
    "unequal prior": lambda: twin.one_column_each(69, 9, model_prior=BernoulliPrior(tuple(np.linspace(0.01, 0.9, 9)))),
}


def met_by(store: ModelStore) -> list[int]:
    return [twin.mask_of(words) for words in store.words[: int(store.scalars["count"])]]


@pytest.mark.parametrize("case", SCOUTED)
def test_scout_meets_models_in_the_twins_order(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = SCOUTED[case]()
    wanted = 5000 if case == "large models" else 700
    grown = []

    def spy(chain: Chain, glm: Any) -> Chain:
        grown.append(len(chain.state.cols))
        return with_more_room(chain, glm)

    monkeypatch.setattr(scout_module, "with_more_room", spy)
    store = Scouting(problem, Budget(steps=10 * wanted), chains=1).finish()
    target = twin.Target(problem)
    met = met_by(store)
    assert met == twin.scout(target, wanted)
    assert close(store.log_posterior[: len(met)], [target.known[mask] for mask in met]).all()
    assert bool(grown) == (case == "large models")
    # Pieces of another length: the cache grows elsewhere, and no neighbour is skipped or repeated.
    pieces = Scouting(problem, Budget(steps=10 * wanted), chains=1)
    while not pieces.done:
        pieces.expand(37)
    assert met_by(pieces.store) == met
    np.testing.assert_array_equal(pieces.store.log_posterior[: len(met)], store.log_posterior[: len(met)])


def test_scout_that_may_not_begin_meets_nothing() -> None:
    problem = twin.one_column_each(68, 4)
    data = problem.data
    excluded = data.prior._replace(log_size=np.full(5, -np.inf))
    store = Scouting(replace(problem, data=data._replace(prior=excluded)), Budget(steps=1000), chains=1).finish()
    assert int(store.scalars["count"]) == 0
    assert not renormalised_inclusion(store, 4).any()


def test_scout_passes_over_dependent_columns() -> None:
    """Copies of a column have equal values, so that only the set of models is determined: all of full rank."""
    problem = twin.with_duplicate(65)
    store = Scouting(problem, Budget(steps=10_000), chains=1).finish()
    count = int(store.scalars["count"])
    exact = twin.traverse(twin.Target(problem))
    met = {twin.mask_of(w): v for w, v in zip(store.words[:count], store.log_posterior[:count]) if v > -math.inf}
    assert sorted(met) == exact.masks.tolist()
    assert close([met[mask] for mask in sorted(met)], exact.log_posterior).all()


def test_scout_in_pieces_meets_the_same_models() -> None:
    """Growing the cache between pieces neither skips nor repeats a neighbour."""
    problem = twin.one_column_each(67, 70, rows=90)
    wanted = 20_000
    store = Scouting(problem, Budget(steps=wanted * 10), chains=1).finish()
    assert met_by(store) == twin.scout(twin.Target(problem), wanted)
