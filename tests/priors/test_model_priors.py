"""Model priors: every one is compared with the sum over all subsets of the terms."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import plain
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from modejump.core.errors import InputError
from modejump.priors.compiled import ModelPriorArrays, log_model_prior
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.counting import MAX_GATES, log_binomial, log_normaliser
from modejump.priors.feature_priors import feature_prior_from_dict
from modejump.priors.heredity import (
    ALWAYS_IN,
    HEREDITY_CODES,
    NONE,
    STRONG,
    WEAK,
    parents_from_names,
    topological_order,
)
from modejump.priors.models import (
    MODEL_PRIORS,
    BernoulliPrior,
    BetaBinomialPrior,
    ModelPrior,
    UniformPrior,
    WeightedPrior,
    model_prior_from_dict,
    resolve_model_prior,
)

K = 6
# "x0:x1:x2" has a parent that is itself a child, "x3" is nobody's parent.
NAMES = ["x0", "x1", "x2", "x0:x1", "x0:x1:x2", "x3"]
EXACT = 1e-12


def q_by_term(n_terms: int) -> tuple[float, ...]:
    return tuple(np.linspace(0.05, 0.9, n_terms))


def priors(n_terms: int, **limits: Any) -> list[ModelPrior]:
    return [
        UniformPrior(**limits),
        BernoulliPrior(**limits),
        BernoulliPrior(0.15, **limits),
        BernoulliPrior(q_by_term(n_terms), **limits),
        BetaBinomialPrior(**limits),
        BetaBinomialPrior(0.7, 3.5, **limits),
    ]


def models(n_terms: int) -> Iterator[tuple[int, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(range(n_terms), size) for size in range(n_terms + 1))


def log_prior(compiled: ModelPriorArrays, model: tuple[int, ...], n_terms: int) -> float:
    member = np.zeros(n_terms, dtype=np.uint8)
    member[list(model)] = 1
    return log_model_prior(member, len(model), compiled)


def admissible(model: tuple[int, ...], prior: ModelPrior, parents: list[tuple[int, ...]]) -> bool:
    """The definition, with always-in parents present in every model."""
    inside = {*model, ALWAYS_IN}
    if prior.max_size is not None and len(model) > prior.max_size:
        return False
    for j in model:
        present = [parent in inside for parent in parents[j]]
        if prior.heredity == "strong" and not all(present):
            return False
        if prior.heredity == "weak" and present and not any(present):
            return False
    return True


def log_unrestricted(prior: ModelPrior, model: tuple[int, ...], n_terms: int) -> float:
    """The prior before truncation and heredity, up to a constant, from its definition."""
    size = len(model)
    if isinstance(prior, UniformPrior):
        return 0.0
    if isinstance(prior, BetaBinomialPrior):
        a, b = prior.a, prior.b
        return math.lgamma(size + a) + math.lgamma(n_terms - size + b)
    assert isinstance(prior, BernoulliPrior)
    q = prior.q if isinstance(prior.q, tuple) else (prior.q,) * n_terms
    return math.fsum(math.log(value if j in model else 1 - value) for j, value in enumerate(q))  # type: ignore


def check_against_definition(prior: ModelPrior, n_terms: int, parents: list[tuple[int, ...]]) -> None:
    compiled = prior.compile(n_terms, parents=parents)
    allowed = [model for model in models(n_terms) if admissible(model, prior, parents)]
    weights = np.array([log_unrestricted(prior, model, n_terms) for model in allowed])
    total = weights.max() + math.log(math.fsum(np.exp(weights - weights.max())))
    truth = dict(zip(allowed, weights - total))
    for model in models(n_terms):
        value = log_prior(compiled, model, n_terms)
        assert value == plain.log_model_prior(set(model), compiled) or value == pytest.approx(
            plain.log_model_prior(set(model), compiled), abs=EXACT
        )
        if model in truth:
            assert value == pytest.approx(truth[model], abs=1e-10)
        else:
            assert value == -math.inf
    assert math.fsum(math.exp(log_prior(compiled, model, n_terms)) for model in models(n_terms)) == pytest.approx(
        1.0, abs=1e-12
    )


@pytest.mark.parametrize("max_size", [None, 0, 1, 3, 5, 20])
@pytest.mark.parametrize("heredity", [None, "strong", "weak"])
@pytest.mark.parametrize("which", range(6))
def test_prior_is_its_definition_normalised(max_size: int | None, heredity: str | None, which: int) -> None:
    prior = priors(K, max_size=max_size, heredity=heredity)[which]
    check_against_definition(prior, K, parents_from_names(NAMES))


@st.composite
def parent_graphs(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """Random parents without cycles, in an order that is not topological."""
    n_terms = draw(st.integers(2, 8))
    order = draw(st.permutations(range(n_terms)))
    parents: list[tuple[int, ...]] = [()] * n_terms
    for place, j in enumerate(order):
        earlier = [ALWAYS_IN, *order[:place]]
        parents[j] = tuple(draw(st.lists(st.sampled_from(earlier), unique=True, max_size=3)))
    return parents


@given(
    parent_graphs(),
    st.sampled_from(["strong", "weak"]),
    st.integers(0, 5),
    st.one_of(st.none(), st.integers(0, 5)),
)
def test_random_parent_graphs(parents: list[tuple[int, ...]], heredity: str, which: int, max_size: int | None) -> None:
    assume(any(parents))
    check_against_definition(priors(len(parents), max_size=max_size, heredity=heredity)[which], len(parents), parents)


@given(parent_graphs(), st.sampled_from([STRONG, WEAK]), st.booleans(), st.data())
def test_counting_agrees_with_its_plain_twin(
    parents: list[tuple[int, ...]], heredity: int, equal: bool, data: st.DataObject
) -> None:
    n_terms = len(parents)
    effective = [tuple(sorted(set(mine) - {ALWAYS_IN})) for mine in parents]
    max_size = data.draw(st.integers(0, n_terms))
    numbers = st.floats(-3, 3)
    if equal:
        log_size = np.array(data.draw(st.lists(numbers, min_size=n_terms + 1, max_size=n_terms + 1)))
        log_weight = np.zeros(n_terms)
    else:
        log_size = np.full(n_terms + 1, data.draw(numbers))
        log_weight = np.array(data.draw(st.lists(numbers, min_size=n_terms, max_size=n_terms)))
    log_size[max_size + 1 :] = -np.inf
    value = log_normaliser(log_size, log_weight, effective, heredity)
    truth = plain.log_normaliser(list(log_size), list(log_weight), effective, heredity)
    assert value == pytest.approx(truth, abs=1e-11)


def test_beta_binomial_with_unit_parameters_is_uniform_over_sizes() -> None:
    arrays = BetaBinomialPrior().compile(40)
    by_size = arrays.log_size + log_binomial(40, np.arange(41))
    np.testing.assert_allclose(by_size, -math.log(41), atol=1e-10)
    arrays = BetaBinomialPrior(max_size=4).compile(40)
    by_size = arrays.log_size[:5] + log_binomial(40, np.arange(5))
    np.testing.assert_allclose(by_size, -math.log(5), atol=1e-10)
    assert np.all(arrays.log_size[5:] == -np.inf)


def test_one_half_is_uniform() -> None:
    half, uniform = BernoulliPrior(0.5).compile(30), UniformPrior().compile(30)
    np.testing.assert_allclose(half.log_size, uniform.log_size, atol=EXACT)
    np.testing.assert_allclose(uniform.log_size, -30 * math.log(2), atol=EXACT)


def test_many_terms() -> None:
    """Nothing overflows, underflows or takes long with thousands of terms."""
    n_terms = 3000
    for prior in [
        UniformPrior(max_size=10),
        BernoulliPrior(0.01, max_size=10),
        BetaBinomialPrior(1, 50, max_size=10),
    ]:
        arrays = prior.compile(n_terms)
        by_size = arrays.log_size[:11] + log_binomial(n_terms, np.arange(11))
        assert math.fsum(np.exp(by_size)) == pytest.approx(1.0, abs=1e-9)
    # Equal probabilities given one by one, and a hard truncation, must give what a single number gives.
    one = BernoulliPrior(0.9, max_size=3).compile(n_terms)
    each = BernoulliPrior((0.9,) * n_terms, max_size=3).compile(n_terms)
    for size in range(4):
        assert each.log_size[size] + each.log_weight[:size].sum() == pytest.approx(one.log_size[size], rel=1e-9)


def test_no_terms() -> None:
    for prior in priors(0):
        assert log_prior(prior.compile(0), (), 0) == pytest.approx(0.0, abs=EXACT)


def two_way(n_main: int) -> list[tuple[int, ...]]:
    return [()] * n_main + list(itertools.combinations(range(n_main), 2))


@pytest.mark.parametrize("heredity", ["strong", "weak"])
def test_all_two_way_interactions_of_many_main_effects(heredity: str) -> None:
    """With i main effects in, (i choose 2) pairs are allowed, or all but those of two that are out."""
    n_main = MAX_GATES
    parents = two_way(n_main)
    truth = 0
    for i in range(n_main + 1):
        outside = math.comb(n_main - i, 2)
        pairs = math.comb(i, 2) if heredity == "strong" else math.comb(n_main, 2) - outside
        truth += math.comb(n_main, i) * 2**pairs
    compiled = UniformPrior(heredity=heredity).compile(len(parents), parents=parents)
    assert compiled.log_size[0] == pytest.approx(-math.log(truth), rel=1e-12)
    # The same models as independent fair coins, by the search that can take a probability for each term.
    coins = BernoulliPrior((0.5,) * (len(parents) - 1) + (0.5 + 1e-12,), heredity=heredity)
    arrays = coins.compile(len(parents), parents=parents)
    assert arrays.log_size[0] == pytest.approx(-math.log(truth), rel=1e-9)


def test_too_many_parents_leave_the_constant_open() -> None:
    parents = two_way(MAX_GATES + 1)
    compiled = BetaBinomialPrior(heredity="strong", max_size=4).compile(len(parents), parents=parents)
    # Ratios are right all the same.
    without = BetaBinomialPrior().compile(len(parents))
    for model in [(), (0,), (0, 1), (0, 1, MAX_GATES + 1)]:
        assert log_prior(compiled, model, len(parents)) == pytest.approx(without.log_size[len(model)])
    assert log_prior(compiled, (0, MAX_GATES + 1), len(parents)) == -math.inf
    assert log_prior(compiled, (0, 1, 2, 3, 4), len(parents)) == -math.inf


def test_hopeless_weights_leave_the_constant_open() -> None:
    n_terms = 120
    parents: list[tuple[int, ...]] = [(), *[(0,)] * (n_terms - 1)]
    q = (*(0.999,) * (n_terms - 1), 0.998)
    compiled = BernoulliPrior(q, max_size=1, heredity="strong").compile(n_terms, parents=parents)
    assert math.isfinite(log_prior(compiled, (0,), n_terms))


# ---------------------------------------------------------------------------------------------------------
# Heredity


def test_compressed_parents() -> None:
    arrays = UniformPrior(heredity="strong").compile(K, names=NAMES)

    def rows(start: np.ndarray, index: np.ndarray) -> list[list[int]]:
        return [list(index[start[j] : start[j + 1]]) for j in range(K)]

    assert rows(arrays.parent_start, arrays.parent_index) == [[], [], [], [0, 1], [0, 1, 2, 3], []]
    assert arrays.heredity == STRONG
    assert UniformPrior().compile(K, names=NAMES).heredity == NONE
    assert UniformPrior().compile(K, names=NAMES).parent_index.size == 0
    for array in arrays:
        if isinstance(array, np.ndarray):
            assert array.dtype in (np.float64, np.int64)


@pytest.mark.parametrize(
    ("names", "always_in", "expected"),
    [
        (["a", "b", "a:b"], (), [(), (), (0, 1)]),
        (["b:a", "b", "a"], (), [(1, 2), (), ()]),
        (["a", "a:b"], (), [(), (0,)]),
        (["a:b"], (), [()]),
        (["a", "b", "c", "a:b", "a:b:c"], (), [(), (), (), (0, 1), (0, 1, 2, 3)]),
        (["a", "a:b"], ("b",), [(), (-1, 0)]),
        (["a:b:c"], ("b:a",), [(-1,)]),
        (["x", "x^2", "x**2", "I(x**2)", "I(x ** 2)", "I(x^2)"], (), [(), (0,), (0,), (0,), (0,), (0,)]),
        (["x", "x^2", "x^3"], (), [(), (0,), (0, 1)]),
        (["x", "z", "x^2:z", "x:z"], (), [(), (), (0, 1, 3), (0, 1)]),
        (["C(s)[T.a:b]", "x", "C(s)[T.a:b]:x"], (), [(), (), (0, 1)]),
        (["log(x)", "x", "x^1", "x^0", "x^100000000"], (), [(), (), (), (), (1, 2)]),
        (["ab", "a", "b"], (), [(), (), ()]),
        ([":".join(f"a{i}" for i in range(60)), "a3", "a7:a5", "a60"], (), [(1, 2), (), (), ()]),
        ([], (), []),
    ],
)
def test_parents_from_names(names: list[str], always_in: tuple[str, ...], expected: list[tuple[int, ...]]) -> None:
    assert parents_from_names(names, always_in) == expected


def test_always_in_parents_are_satisfied() -> None:
    names, inside = ["b", "a:b"], ["a"]
    weak = UniformPrior(heredity="weak").compile(2, names=names, always_in=inside)
    assert math.exp(log_prior(weak, (1,), 2)) == pytest.approx(1 / 4)
    strong = UniformPrior(heredity="strong").compile(2, names=names, always_in=inside)
    assert log_prior(strong, (1,), 2) == -math.inf
    assert math.exp(log_prior(strong, (0, 1), 2)) == pytest.approx(1 / 3)
    both = UniformPrior(heredity="strong").compile(1, names=["a:b"], always_in=["a", "b"])
    assert math.exp(log_prior(both, (0,), 1)) == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([(), ()], "no term has a parent"),
        ([()], "one entry for each of the 2 terms"),
        ([(), (2,)], "has the parent 2"),
        ([(), (1,)], "has the parent 1"),
        ([(), (-2,)], "has the parent -2"),
        ([(1,), (0,)], "lead back to it"),
    ],
)
def test_bad_parents_are_refused(parents: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        UniformPrior(heredity="strong").compile(2, parents=parents)


def test_heredity_needs_something_to_inherit_from() -> None:
    with pytest.raises(InputError, match="no term has a parent"):
        UniformPrior(heredity="weak").compile(2, names=["a", "b"])


@given(parent_graphs())
def test_topological_order(parents: list[tuple[int, ...]]) -> None:
    own = [tuple(set(mine) - {ALWAYS_IN}) for mine in parents]
    order = topological_order(own)
    assert sorted(order) == list(range(len(parents)))
    place = {j: i for i, j in enumerate(order)}
    assert all(place[parent] < place[j] for j, mine in enumerate(own) for parent in mine)


# ---------------------------------------------------------------------------------------------------------
# The objects


@pytest.mark.parametrize("name", MODEL_PRIORS)
def test_names_resolve(name: str) -> None:
    prior = resolve_model_prior(name)
    assert prior == MODEL_PRIORS[name]()
    assert resolve_model_prior(prior) is prior


@pytest.mark.parametrize(
    "prior",
    [
        *priors(4),
        *priors(4, max_size=2, heredity="weak"),
        BernoulliPrior({"a": 0.2, "b": 0.7}),
        BernoulliPrior(np.array([0.2, 0.7])),
    ],
    ids=repr,
)
def test_priors_are_stored(prior: ModelPrior) -> None:
    assert model_prior_from_dict(json.loads(json.dumps(prior.to_dict()))) == prior


def test_probabilities_by_name() -> None:
    by_name = BernoulliPrior({"b": 0.7, "a": 0.2}).compile(2, names=["a", "b"])
    by_place = BernoulliPrior([0.2, 0.7]).compile(2)  # type: ignore[arg-type]
    np.testing.assert_array_equal(by_name.log_weight, by_place.log_weight)
    np.testing.assert_array_equal(by_name.log_size, by_place.log_size)
    with pytest.raises(InputError, match="lacks the term 'b'"):
        BernoulliPrior({"a": 0.2}).compile(2, names=["a", "b"])
    with pytest.raises(InputError, match="names 'c', which is no term"):
        BernoulliPrior({"a": 0.2, "c": 0.2}).compile(1, names=["a"])
    with pytest.raises(InputError, match="2 entries for 3 terms"):
        BernoulliPrior((0.2, 0.3)).compile(3)


@pytest.mark.parametrize("q", [0, 1, -0.1, 1.5, math.nan, "half", None, True, [0.5, 1.0], {"a": 0.0}])
def test_q_must_be_a_probability(q: Any) -> None:
    with pytest.raises(InputError, match="q of the bernoulli prior must be"):
        BernoulliPrior(q)


@pytest.mark.parametrize("bad", [0, -1, math.inf, math.nan, "1"])
def test_beta_parameters_must_be_positive(bad: Any) -> None:
    with pytest.raises(InputError, match="a of the beta-binomial prior"):
        BetaBinomialPrior(a=bad)
    with pytest.raises(InputError, match="b of the beta-binomial prior"):
        BetaBinomialPrior(b=bad)


@pytest.mark.parametrize("cls", MODEL_PRIORS.values())
def test_limits_are_checked(cls: Any) -> None:
    for bad in (-1, 2.5, "3", True):
        with pytest.raises(InputError, match="max_size"):
            cls(max_size=bad)
    if cls is not WeightedPrior:  # features found by a search have no heredity
        for bad in ("Strong", "none", 1, ""):
            with pytest.raises(InputError, match="heredity must be"):
                cls(heredity=bad)
    assert set(HEREDITY_CODES) == {None, "strong", "weak"}


def test_weights_of_terms_add_up_to_the_largest_size() -> None:
    prior = WeightedPrior((-1.0, -2.5, -4.0), max_size=2)
    compiled = prior.compile(3)
    member = np.array([1, 0, 1], np.uint8)
    assert log_model_prior(member, 2, compiled) == -5.0
    assert log_model_prior(np.ones(3, np.uint8), 3, compiled) == -np.inf
    assert model_prior_from_dict(prior.to_dict()) == prior
    with pytest.raises(InputError, match="3 weights for 4 terms"):
        prior.compile(4)


def test_unknown_model_priors_are_refused() -> None:
    with pytest.raises(InputError, match=r"did you mean 'uniform'.*'beta-binomial'"):
        resolve_model_prior("unifrom")
    with pytest.raises(InputError, match="is a name or an object"):
        resolve_model_prior(0.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown parameters"):
        model_prior_from_dict({"name": "uniform", "q": 0.5})


def test_free_complexity_costs_nothing():
    n, free = 100.0, ComplexityPrior("1/n", free=1)
    np.testing.assert_allclose(free.log_weights(n, 4, 7), -np.log(n) * np.array([0.0, 0.0, 1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(ComplexityPrior("1/n").log_weights(n, 4, 7), -np.log(n) * np.arange(5))
    assert feature_prior_from_dict(json.loads(json.dumps(free.to_dict()))) == free
    for wrong in (-1, 1.5, True):
        with pytest.raises(InputError, match="free of the complexity prior"):
            ComplexityPrior("1/n", free=wrong)
