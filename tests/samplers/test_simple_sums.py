"""First models of a search: their exchanges are those of least squares, and sums are found that others imitate."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.census_cases import language_of, problem_of, share_left

from modejump.kernels.census import OWN, choose_together, leading_products
from modejump.problem.feature_problem import problem_over
from modejump.samplers.warmup.census import pairs_beside, ways_out
from modejump.samplers.warmup.product_census import ProductCensus
from modejump.samplers.warmup.simple_sums import SimpleSums


def chosen_together(columns, price, one, y, most_out, room, terms):
    """The same exchange, each sum by least squares of its own: its terms, and about its log posterior."""
    half, alone = 0.5 * len(y), share_left([one], y)

    def value(members: list[int]) -> float:
        design = np.array([one, *columns[members]])
        lengths = np.linalg.norm(design, axis=1)
        if np.linalg.svd(design / lengths[:, None], compute_uv=False)[-1] < OWN:
            return -np.inf
        return price[members].sum() - half * np.log(share_left(list(design), y) / alone)

    best = value(terms)
    while True:
        outs = [set(out) for k in range(most_out + 1) for out in itertools.combinations(terms, k)]
        rests = [[t for t in terms if t not in out] for out in outs]
        ways = rests + [[*rest, p] for rest in rests for p in range(len(columns)) if len(rest) < room]
        leading = max(ways, key=value)
        if value(leading) <= best + 1e-6:
            return best, terms
        best, terms = value(leading), leading


def simple_products():
    """Factors of products, weighted, as kernels take them; the products' columns, and a response."""
    rng = np.random.default_rng(5)
    left, right = np.abs(rng.normal(size=(6, 40))), np.abs(rng.normal(size=(4, 40)))
    root, weight = rng.uniform(0.5, 2.0, size=40), np.array([0.0, -2.0, -4.0, -6.0])
    first, second = (index.ravel() for index in np.indices((6, 4)))
    columns, cost = left[first] * right[second] * root, rng.integers(1, 4, size=24)
    y = root * (columns[7] / root + 0.7 * columns[12] / root + 0.5 * rng.normal(size=40)) + 3.0 * root
    return (left * root, right, first, second, cost, np.sum(columns**2, axis=1), weight, root, y), columns


@pytest.mark.parametrize(("most_out", "part", "begin"), [(1, 1.0, []), (2, 0.25, [3, 5, 6]), (2, 1.0, [0])])
def test_terms_that_are_chosen_together(most_out: int, part: float, begin: list[int]) -> None:
    products, columns = simple_products()
    cost, weight, root, y = (products[i] for i in (4, 6, 7, 8))
    terms = np.array([*begin, *[0] * (4 - len(begin))])
    value, count = choose_together(*products, part, most_out, terms, len(begin))
    wanted, there = chosen_together(columns, part * weight[cost], root, y, most_out, 4, begin)
    assert terms[:count].tolist() == there
    np.testing.assert_allclose(value, wanted, rtol=1e-9)


def test_terms_that_are_almost_dependent_are_not_exchanged_for_ever() -> None:
    """What inner products promise is wrong then, so that each of two sums can seem better than the other."""
    rng = np.random.default_rng(0)
    x = rng.uniform(1.0, 1.0 + 10.0 ** rng.uniform(-4.0, -1.0), size=60)
    left = np.array([x**power for power in rng.uniform(-3.0, 3.0, 8)])
    right = np.array([np.ones(60), x, x**2, 1.0 / x])
    first, second = (index.ravel() for index in np.indices((8, 4)))
    columns, weight = left[first] * right[second], np.array([0.0, -2.0, -4.0, -6.0])
    y = np.exp(x) + 10.0 ** rng.uniform(-9.0, -3.0) * rng.normal(size=60)
    cost, terms = rng.integers(1, 4, size=32), np.zeros(4, np.int64)
    products = left, right, first, second, cost, np.sum(columns**2, axis=1), weight
    value, count = choose_together(*products, np.ones(60), y, 1.0, 2, terms, 0)
    chosen = [np.ones(60), *columns[terms[:count]]]
    wanted = weight[cost[terms[:count]]].sum() - 30.0 * np.log(share_left(chosen, y) / share_left(chosen[:1], y))
    np.testing.assert_allclose(value, wanted, rtol=1e-6)


@pytest.mark.parametrize("terms", [[], [3, 12, 20]])
def test_leading_products_gain_most(terms: list[int]) -> None:
    products, columns = simple_products()
    cost, weight, one, y = (products[i] for i in (4, 6, 7, 8))
    ways = ways_out(len(terms), 2)
    masks = np.array([np.isin(np.arange(len(terms)), out) for out in ways], np.uint8).reshape(len(ways), len(terms))
    chosen = np.empty((len(ways), 5), np.int64)
    leading_products(*products, np.array(terms, np.int64), masks, chosen)
    for out, found in zip(ways, chosen, strict=True):
        rest = [columns[t] for i, t in enumerate(terms) if i not in out]
        free = [p for p in range(len(columns)) if p not in [t for i, t in enumerate(terms) if i not in out]]
        gain = {p: weight[cost[p]] - 20.0 * np.log(share_left([one, *rest, columns[p]], y)) for p in free}
        assert found.tolist() == sorted(free, key=lambda p: -gain[p])[:5]


def test_fewer_products_than_are_asked_for() -> None:
    products, _ = simple_products()
    left, right, first, second, cost, whole, weight, one, y = products
    few = left, right, first[:3], second[:3], cost[:3], whole[:3], weight, one, y
    chosen = np.empty((1, 5), np.int64)
    leading_products(*few, np.array([1]), np.zeros((1, 1), np.uint8), chosen)
    assert sorted(chosen[0].tolist()) == [-1, -1, -1, 0, 2]


def test_pairs_in_the_place_of_members_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(3)
    rows, there, y = rng.normal(size=(7, 30)), rng.normal(size=(3, 30)), rng.normal(size=(1, 30))
    rows, there, y = (x / np.linalg.norm(x, axis=1)[:, None] for x in (rows, there, y))
    weight, ways = rng.normal(size=7), ways_out(3, 2)
    for out, (value, partner) in zip(ways, pairs_beside(rows, there, y[0], weight, ways, 15.0), strict=True):
        rest = [there[i] for i in range(3) if i not in out]
        for i in range(1, 7):
            pairs = [
                weight[i] + weight[j] - 15.0 * np.log(share_left([*rest, rows[i], rows[j]], y[0])) for j in range(i)
            ]
            assert partner[i] == int(np.argmax(pairs))
            np.testing.assert_allclose(value[i], max(pairs), rtol=1e-9)


def test_sums_are_not_imitated() -> None:
    """Several simple terms together are found, though single products explain more than each of them."""
    problem = problem_of(lambda a, b, k, d: np.sin(a * b) + k * np.log(1.0 + d) + 0.3 * a**2, noise=0.05, rows=256)
    census = ProductCensus(problem)
    found = [{f.text for f in SimpleSums(census, np.random.default_rng(seed)).best()} for seed in range(4)]
    assert {"sin(a*b)", "k*log(d + 1)", "a^2"} in found


def test_a_term_pays_for_its_coefficient() -> None:
    """Otherwise c*d and c*d^2, which are no more complex, are always a little better than what they imitate."""
    rng = np.random.default_rng(4)
    x = rng.uniform(0.5, 3.0, (1000, 8))
    a, b, c, d, e = x.T[:5]
    y = np.sin(a * b) + c * np.log(1.0 + d) + 0.3 * e**2 + 0.1 * rng.standard_normal(1000)
    census = ProductCensus(problem_over(x, y, language_of(names=tuple("abkdefgh")), coef_prior="jzs"))
    for seed in range(3):
        found = {f.text for f in SimpleSums(census, np.random.default_rng(seed)).best()}
        assert found == {"sin(a*b)", "k*log(d + 1)", "e^2"}


def test_imitators_give_way_to_two_terms_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several terms imitate two others, and no single one of these is better in the place of any of them."""
    rng = np.random.default_rng(50)
    x = rng.uniform(0.5, 3.0, (1000, 8))
    a, b, c, d, e = x.T[:5]
    y = np.sin(a * b) + c * np.log(1.0 + d) + 0.3 * e**2 + 0.1 * rng.normal(size=1000)
    census = ProductCensus(problem_over(x, y, language_of(names=tuple("abkdefgh")), coef_prior="jeffreys"))

    def hits() -> int:
        found = ({f.text for f in SimpleSums(census, np.random.default_rng(seed)).best()} for seed in range(6))
        return sum(terms == {"sin(a*b)", "k*log(d + 1)", "e^2"} for terms in found)

    with_pairs = hits()
    monkeypatch.setattr(SimpleSums, "_with_a_pair", lambda self, value, terms: terms)
    assert with_pairs > hits()


def test_columns_too_large_for_any_product() -> None:
    rng = np.random.default_rng(1)
    language = language_of(("square",), ("a", "b"), constants=False)
    census = ProductCensus(problem_over(1e70 * rng.normal(size=(50, 2)), rng.normal(size=50), language))
    assert SimpleSums(census, rng).best() == []


@pytest.mark.parametrize("size", [1, 2])
def test_models_of_few_terms(size: int) -> None:
    language = language_of(size=size)
    census = ProductCensus(problem_of(lambda a, b, k, d: a * b + k / d + d, language=language))
    assert 0 < len(SimpleSums(census, np.random.default_rng(1)).best()) <= size
