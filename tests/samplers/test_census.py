"""The census of products: laws that it points to at once, and that it leaves one answer to a seed."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections import Counter
from functools import cache

import numpy as np
import pytest
from support.census_cases import language_of, problem_of, share_left

from modejump.features.laws.arguments import MOST_ARGUMENTS, monomials
from modejump.features.laws.language import Laws
from modejump.features.laws.parts import Part, factors_of, growths_of, made_of, parts_of
from modejump.kernels.census import best_partners, cross_products, explained_shares
from modejump.problem.feature_problem import problem_over
from modejump.samplers.chains.evolution_chain import EvolutionChain
from modejump.samplers.warmup.census import can_count, census_of, share_census
from modejump.samplers.warmup.product_census import ProductCensus as Census
from modejump.samplers.warmup.product_census import least_squares
from modejump.samplers.warmup.simple_sums import SimpleSums


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 4), (5, 7), (6, 3)])
def test_cross_products_are_those_of_numpy(rows: int, columns: int) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(rows, 33)), rng.normal(size=(columns, 33))
    out = np.zeros((rows, columns))
    cross_products(a, b, out)
    np.testing.assert_allclose(out, a @ b.T, rtol=1e-12, atol=1e-12)


@cache
def all_products() -> tuple[Laws, Census]:
    """The census of one law, whose factors those of all other laws of these columns have."""
    language = language_of()
    return language, Census(problem_of(lambda a, b, k, d: a / b, language=language))


@pytest.mark.parametrize("rows", [1, 40])
def test_partners_are_those_that_explain_most(rows: int) -> None:
    rng = np.random.default_rng(2)
    a, b, target = (
        x / np.linalg.norm(x, axis=1)[:, None]
        for x in map(rng.normal, [0.0] * 3, [1.0] * 3, [(rows, 30), (9, 30), (1, 30)])
    )
    b[3] = a[0]
    target = target[0]
    share, partner = np.zeros(rows), np.zeros(rows, np.int64)
    best_partners(a, b, a @ target, b @ target, 1e-6, share, partner)
    for row, own, at in zip(a, share, partner, strict=True):
        explained = [1.0 - share_left([row, other], target) for other in b]
        assert at == int(np.argmax(explained))
        np.testing.assert_allclose(own, max(explained), rtol=1e-10)


def test_a_row_without_a_partner() -> None:
    row = np.array([[0.6, 0.8]])
    share, partner = np.zeros(1), np.zeros(1, np.int64)
    best_partners(row, row, np.array([0.6]), np.array([0.6]), 1e-6, share, partner)
    assert partner[0] == -1
    np.testing.assert_allclose(share, 0.36)


@pytest.mark.parametrize("there", [1, 3])
def test_explained_shares_are_those_of_least_squares(there: int) -> None:
    rng = np.random.default_rng(3)
    known, others, y = rng.normal(size=(there, 25)), rng.normal(size=(6, 25)), rng.normal(size=25)
    others[2] = 2.0 * known[0]
    basis, r = np.linalg.qr(known.T)
    left, share = share_left(list(known), y), np.zeros(6)
    inner = np.vstack([known, y]) @ others.T
    explained_shares(inner, r, basis.T @ y, np.sum(others**2, axis=1), left, 1e-6, share)
    wanted = [0.0 if i == 2 else 1.0 - share_left([*known, x], y) / left for i, x in enumerate(others)]
    np.testing.assert_allclose(share, wanted, rtol=1e-9, atol=1e-12)


def test_least_squares_of_many_designs() -> None:
    rng = np.random.default_rng(4)
    designs, rows = rng.normal(size=(5, 3, 20)), rng.normal(size=(5, 2, 20))
    found = least_squares(designs, rows)
    for design, right, coefficients in zip(designs, rows, found, strict=True):
        np.testing.assert_allclose(coefficients.T, np.linalg.lstsq(design.T, right.T, rcond=None)[0], rtol=1e-9)


@pytest.mark.parametrize(
    ("law", "text"),
    [
        (lambda a, b, k, d: a * np.exp(-0.8 * b**2 / k**2) / k**2, "a*exp(c0*b^2/k^2)/k^2"),
        (lambda a, b, k, d: (a / b) ** 1.5 * k**2 * np.exp(-0.5 * a * k**2 / b), "k^2*a^(3/2)*exp(c0*a*k^2/b)/b^(3/2)"),
        (lambda a, b, k, d: 1.0 / (1.0 / a + 1.0 / b + 1.0 / k), "a*b*k/(a*b + a*k + b*k)"),
        (lambda a, b, k, d: d * np.sqrt((a + 1.0) / (4.0 - a)), "d*sqrt((a + 1)/(a + c0))"),
        (lambda a, b, k, d: a * 0.2 / ((b - 1.6) ** 2 + 0.2), "a/((b + c0)^2 + c1)"),
        (lambda a, b, k, d: a * np.log(b + 1.0), "a*log(b + 1)"),
        (lambda a, b, k, d: np.sqrt((a - b) ** 2 + (k - d) ** 2), "sqrt((a - b)^2 + (k - d)^2)"),
        (lambda a, b, k, d: a / np.sqrt(k**2 + b**2 * d**2), "a/sqrt(k^2 + b^2*d^2)"),
        (lambda a, b, k, d: 1.0 / (np.exp(4.0 * (a - b) / d) + 1.0), "1/(exp(c0*(a - b)/d) + 1)"),
        (lambda a, b, k, d: a * np.log(1.0 + a * b / (k * d)), "a*log(a*b/(d*k) + 1)"),
        (lambda a, b, k, d: a * np.cos(a * b - k * d), "a*cos(a*b - d*k)"),
        (lambda a, b, k, d: a * (k / d) ** b, "a*exp(b*log(k/d))"),
        (lambda a, b, k, d: a / ((b / k) ** d + 1.0), "a/(exp(d*log(b/k)) + 1)"),
        (lambda a, b, k, d: a * np.exp(5.0 * (1.0 / b - 1.0 / k)), "a*exp(c0*(b - k)/(b*k))"),
        (lambda a, b, k, d: a / (1.0 + (b / 1.7) ** 2.7), "a/(b^c0 + c1)"),
        (lambda a, b, k, d: a / (1.0 + (b / k) ** 2.7), "a/(exp(c0*log(b/k)) + 1)"),
        (lambda a, b, k, d: a * (np.exp(-b * k) - np.exp(-b * d)), "a*(exp(-b*k) - exp(-b*d))"),
    ],
)
def test_products_are_pointed_to(law, text: str) -> None:
    """Of the fresh eyes of a few censuses one sees the law."""
    language, census = all_products()
    problem = problem_of(law, language=language)
    census = census.of(problem)
    wanted = language.parse(text)
    assert any(wanted in census.suggest(problem.y, np.random.default_rng(seed)) for seed in range(4))


@pytest.mark.parametrize("seed", range(3))
def test_any_powers_are_pointed_to(seed: int) -> None:
    """Where exponents are none of the space, they are constants; the others are as they are."""
    language, census = all_products()
    problem = problem_of(lambda a, b, k, d: a**0.425 * b**0.725 / k, noise=0.0, language=language)
    found = census.of(problem).suggest(problem.y, np.random.default_rng(seed))
    assert found[0] is language.parse("a^c0*b^c1/k")


def test_what_a_model_leaves_is_explained() -> None:
    problem = problem_of(lambda a, b, k, d: 5.0 * a * b + k / d)
    language = problem.language
    suggested = Census(problem).beside([language.parse("a*b")], {}, np.random.default_rng(1))
    assert language.parse("k/d") in suggested


def test_the_target_of_a_place_is_what_the_others_leave() -> None:
    problem = problem_of(lambda a, b, k, d: 5.0 * a * b + k / d, noise=0.0)
    census, language = Census(problem), problem.language
    target = census.target([language.parse("k/d")], [language.parse("a*b")], {})
    np.testing.assert_allclose(target, (problem.x[2] / problem.x[3])[census.rows], rtol=1e-9)


def test_columns_of_parts_are_those_of_their_features() -> None:
    language = language_of(names=("a", "b"))
    x = np.random.default_rng(3).uniform(0.5, 3.0, size=(2, 40))
    table = dict(zip(language.names, x, strict=True))
    parts = parts_of(language, x)
    assert len(parts) > 500
    plain = [part for part in parts if made_of(*part[:3]).constants == 0 and made_of(*part[:3]).is_monomial]
    assert plain
    for part in plain:
        # Up to sign, which is the coefficient's.
        np.testing.assert_allclose(
            np.abs(language.column(made_of(*part[:3]), table, {})), np.abs(part.column), rtol=1e-9
        )
    for growth in growths_of(language, x):
        if growth.node.constants == 0:
            # Up to sign, which is that of the constant before it.
            np.testing.assert_allclose(
                np.abs(language.column(growth.node, table, {})), np.abs(growth.column), rtol=1e-9
            )
    for some in factors_of(language, x, parts):
        for node, column, _ in some:
            if node.constants == 0 and node.is_monomial:
                np.testing.assert_allclose(np.abs(language.column(node, table, {})), np.abs(column), rtol=1e-9)


def test_the_order_of_columns_decides_nothing() -> None:
    """Where there are more monomials than are looked at, all pairs and triples of columns have the same ones."""
    names = tuple("abcdefgh")
    found = monomials(language_of(names=names), np.random.default_rng(3).uniform(0.5, 3.0, size=(8, 20)))
    assert len(found) == MOST_ARGUMENTS
    looked_at = Counter(m.node.covariates for m in found)
    for many in (1, 2):
        counts = [looked_at[frozenset(some)] for some in itertools.combinations(names, many)]
        assert 0 < min(counts) and max(counts) - min(counts) <= 1


def test_no_part_without_constants_is_left_out() -> None:
    problem = problem_of(lambda a, b, k, d: a / b)
    census = Census(problem)
    parts = parts_of(problem.language, np.array(list(census.table.values())))
    assert len(parts) > len(census.parts) - 1
    kept = {made_of(*census.forms[i]) for i in census.form}
    assert {made_of(*part[:3]) for part in parts if not part.constants} <= kept


def test_a_census_is_shared_with_other_weights_of_the_same_rows() -> None:
    problem = problem_of(lambda a, b, k, d: a / b)
    census = census_of(problem)
    weighted = problem.with_noise(problem.family, 1.0 / problem.y**2)
    share_census(problem, weighted)
    shared = census_of(weighted)
    assert shared is not census and shared.parts is census.parts
    alone = Census(weighted)
    for name in ("y", "root", "price", "whole"):
        np.testing.assert_array_equal(getattr(shared, name), getattr(alone, name))
    target, rng = weighted.y, np.random.default_rng
    assert shared.suggest(target, rng(1)) == alone.suggest(target, rng(1))
    assert SimpleSums(shared, rng(1)).best() == SimpleSums(alone, rng(1)).best()
    other = problem.with_noise(problem.family, None, np.arange(150))
    share_census(problem, other)
    assert census_of(other).parts is not census.parts


def test_only_what_the_space_has_is_suggested() -> None:
    """Functions, exponents and constants that the user left out stay out."""
    language = language_of(("log", "square"), constants=False)
    problem = problem_of(lambda a, b, k, d: a * np.exp(-b), language=language)
    census = Census(problem)
    rng = np.random.default_rng(1)
    suggested = [*census.suggest(problem.y, rng), *census.beside([], {}, rng), *SimpleSums(census, rng).best()]
    assert suggested
    assert all(language.contains(f) and f.constants == 0 for f in suggested)


def test_parts_without_constants_have_none() -> None:
    language = language_of(constants=False, names=("a", "b"))
    x = np.random.default_rng(3).uniform(0.5, 3.0, size=(2, 40))
    assert all(isinstance(part, Part) and made_of(*part[:3]).constants == 0 for part in parts_of(language, x))
    assert not growths_of(language, x)


def test_there_is_a_census_of_laws_with_gaussian_responses_alone() -> None:
    x = np.random.default_rng(1).uniform(size=(60, 2))
    counts = (x[:, 0] > 0.5).astype(float)
    assert can_count(problem_over(x, x[:, 0] + 0.0, language_of(names=("a", "b"))))
    assert not can_count(problem_over(x, counts, language_of(names=("a", "b")), family="binomial"))


def test_chains_share_a_census() -> None:
    problem = problem_of(lambda a, b, k, d: a / b)
    assert census_of(problem) is census_of(problem)


def test_a_census_is_forgotten_with_its_problem() -> None:
    problem = problem_of(lambda a, b, k, d: a / b)
    census_of(problem)
    known = weakref.ref(problem)
    del problem
    gc.collect()
    assert known() is None


def test_members_that_imitate_a_feature_give_way_to_it_together() -> None:
    """A search that begins with an imitation of one feature by several ends at the feature."""
    problem = problem_of(lambda a, b, k, d: a / (b + 1.0) + k, noise=0.001)
    chain = EvolutionChain(problem, np.random.SeedSequence(2), memory=1 << 22)
    chain.run_to(1500)
    best = {f.text for f in chain.best_model()}
    assert best == {"k", "a/(b + 1)"}
