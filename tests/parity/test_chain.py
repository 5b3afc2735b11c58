"""The compiled chain against its plain twin: random numbers, values, paths, growth."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import twin
from twin import ACCURACY, close

from modejump.core.compilation import entry
from modejump.core.random import alias_table, below, draw_alias, new_stream, next_word, uniform
from modejump.kernels.chain import DONE, WANT_STORE, Chain, run_batches
from modejump.kernels.evaluate import GUARD, RANK_TOLERANCE, REFINE_BELOW, RESID_FLOOR, evaluate_member
from modejump.kernels.moves import KERNELS, Moves
from modejump.kernels.neighbour import neighbour, set_model
from modejump.kernels.state import flip_all
from modejump.kernels.store import new_store
from modejump.likelihoods.gaussian.marginal import log_marginal
from modejump.priors.coefficients import COEF_PRIORS, GPrior
from modejump.priors.models import BernoulliPrior, BetaBinomialPrior, UniformPrior
from modejump.problem.problem import Problem, standardised_block
from modejump.samplers.chains.mjmcmc_chain import FIRST_CAPACITY, MJMCMCChain, chain_of, with_more_room
from modejump.samplers.settings import Sampler
from modejump.samplers.warmup.adaptation import UNIFORM_SHARE, first_moves, flip_weights, partner_tables

# --- random numbers and alias tables --------------------------------------------------------------------------


@entry
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
    moves = first_moves(Sampler(), problem)
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


@entry
def walk(data, ch, start, flips, counts, values):
    """Neighbour after neighbour with an empty cache, moving to each that has a positive probability."""
    st, store = ch.state, ch.store
    set_model(data, st, ch.work, store, start)
    ill = 0
    for r in range(len(counts)):
        store.count = 0
        store.slots[:] = 0
        value, _ = neighbour(data, st, ch.work, store, flips[r], counts[r])
        values[r] = value
        ill += st.ill
        if value > -np.inf:
            flip_all(data, st, ch.work, flips[r], counts[r])
            st.log_posterior = value
    return ill


def roomy_chain(problem: Problem, models: int = FIRST_CAPACITY) -> Chain:
    """A chain with room for the largest model."""
    chain = chain_of(problem, new_stream(np.random.SeedSequence(1)), models)
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
    "always in": lambda: twin.one_column_each(10, 8, always_in=("x1", "x4")),
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


def test_columns_that_are_dependent_but_for_rounding_have_one_value_in_any_order() -> None:
    """Functions of one covariate whose small pivots add up, though each of them is above the tolerance."""
    rng = np.random.default_rng(27)
    p = np.linspace(2.0, 110.0, 120)
    functions = [p, 1 / p, np.sqrt(p), p**4, p**-1.5, 1 / np.sin(1 / p), p * np.sin(1 / p), np.cos(p), p**-3.0]
    x, y = np.column_stack(functions), 1 / (1 + (26.6 / p) ** 2.7) + rng.normal(0.0, 0.01, 120)
    deficient = 0
    for _ in range(60):
        chosen = rng.choice(len(functions), rng.integers(2, len(functions) + 1), replace=False)
        values = []
        for order in (np.sort(chosen), chosen, rng.permutation(chosen)):
            problem = Problem.build(x[:, order], y)
            values.append(evaluate_member(problem.data, np.ones(len(order), np.uint8))[1])
        z = standardised_block(problem.data.columns, slice(None))
        share = 1.0 / np.max(np.sum(np.linalg.pinv(z, rcond=1e-15) ** 2, axis=1))
        if share < RANK_TOLERANCE / 3:
            assert values == [-1.0, -1.0, -1.0]
            deficient += 1
        elif share > 3 * RANK_TOLERANCE:
            np.testing.assert_allclose(values, exact_share(x[:, chosen], y), rtol=1e-6)
    assert 10 < deficient < 50


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
    moves = first_moves(Sampler(kernels=weights, **settings), problem)  # type: ignore[arg-type]
    return moves._replace(threshold=threshold, alias=alias)


def follow(runner: MJMCMCChain, moves: Moves, steps: int) -> np.ndarray:
    """Models after each of so many steps: the means of batches of one."""
    means = np.empty((steps, len(runner.start)))
    runner._run(moves, 1, means, np.zeros(2, np.int64))
    return means


def masks_of(models: np.ndarray) -> list[int]:
    return [int("".join("01"[int(v)] for v in reversed(row)), 2) for row in models]


def check_record(runner: MJMCMCChain, path: twin.Path, target: twin.Target) -> None:
    """Counts, visits and cache of a compiled chain against the twin's path."""
    record, store = runner.chain.record, runner.chain.store
    np.testing.assert_array_equal(record.sizes, path.sizes(target.n_terms))
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
    stepwise = MJMCMCChain(problem, seed, 2**26, 100)
    state, start = stepwise.chain.rng.copy(), stepwise.start
    target = twin.Target(problem)
    path = twin.run(target, moves, state, steps, start)
    assert masks_of(follow(stepwise, moves, steps)) == path.models
    check_record(stepwise, path, target)
    at_once = MJMCMCChain(problem, np.random.SeedSequence(seed.entropy), 2**26, 100)
    np.testing.assert_array_equal(at_once.warm_up(moves, steps), path.inside(problem.n_terms) / steps)
    assert twin.mask_of(at_once.chain.state.words) == path.models[-1]
    check_record(at_once, path, target)
    if (case, mixture) not in NEVER and mixture != "all":
        assert path.tried()[KERNELS.index(mixture), 1] > 0, "the kernel moves, so that its acceptance is tested"


# --- growth ---------------------------------------------------------------------------------------------------


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
        (twin.large_models, 4, "room in a step"),
        (wide_factors, 4, "room before a step"),
        (small_models, 60, "room in a step"),
    ],
)
def test_growing_in_the_middle_changes_nothing(
    make: Callable[[int], Problem], jump_max: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make(40)
    weights = {"flip": 0.6, "multi": 0.1, "swap": 0.1, "jump-anneal": 0.2}
    moves = first_moves(Sampler(kernels=weights, jump_max=jump_max, search=20), problem)
    small = MJMCMCChain(problem, np.random.SeedSequence(41), 2**26, 100)
    small.chain = small.chain._replace(store=new_store(2 * (2 * moves.search + 16), small.chain.store.words.shape[1]))
    large = MJMCMCChain(problem, np.random.SeedSequence(41), 2**26, 100)
    large.chain = roomy_chain(problem, models=2**18)._replace(rng=large.chain.rng)
    reasons = {"store": 0, "room before a step": 0, "room in a step": 0}

    def watched(data: object, chain: Chain, *rest: Any) -> int:
        reason = run_batches(data, chain, *rest)
        fits = chain.state.scalars["columns"] + chain.work.products.shape[0] <= len(chain.state.cols)
        if reason != DONE:
            reasons["store" if reason == WANT_STORE else f"room {'in' if fits else 'before'} a step"] += 1
        return int(reason)

    monkeypatch.setattr("modejump.samplers.chains.mjmcmc_chain.run_batches", watched)
    steps = 1500
    path = follow(small, moves, steps)
    assert reasons["store"] > 0 and reasons[why] > 0
    before = dict(reasons)
    np.testing.assert_array_equal(follow(large, moves, steps), path)
    assert reasons == before, "the large one had no reason to grow"
    for name in ("sizes", "tried"):
        np.testing.assert_array_equal(getattr(small.chain.record, name), getattr(large.chain.record, name))
    stores = [twin.as_dict(runner.chain.store) for runner in (small, large)]
    assert stores[0].keys() >= stores[1].keys(), "a step that was taken back may have left models in the cache"
    for mask, (value, visits) in stores[1].items():
        assert close(value, stores[0][mask][0])
        assert visits == stores[0][mask][1]


def test_many_batches_at_once_are_those_one_by_one() -> None:
    problem = twin.large_models(42)
    moves = first_moves(Sampler(search=20), problem)
    at_once, alone = (MJMCMCChain(problem, np.random.SeedSequence(43), 2**26, 30) for _ in range(2))
    # Room and store have to grow in the middle of a batch.
    at_once.chain = at_once.chain._replace(store=new_store(2 * (2 * moves.search + 16), 2))
    at_once.run_batches(moves, 40)
    means = [alone.warm_up(moves, 30) for _ in range(40)]
    np.testing.assert_array_equal(at_once.means, means)
    assert twin.as_dict(at_once.chain.store).items() >= twin.as_dict(alone.chain.store).items()
    np.testing.assert_array_equal(at_once.chain.rng, alone.chain.rng)
