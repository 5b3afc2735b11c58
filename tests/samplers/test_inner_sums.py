"""Powers of sums of simple terms are recognised by the terms that explain the inverse power."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from modejump import transforms
from modejump.features.laws.expression import Feature
from modejump.features.laws.language import Laws
from modejump.features.laws.powers import LAW_TRANSFORMS
from modejump.features.nonlinear.space import Space
from modejump.problem.feature_problem import problem_over
from modejump.samplers.warmup.inner_sums import BEST, _best_sums, terms_of
from modejump.samplers.warmup.product_census import ProductCensus

NAMES = ("a", "b", "k", "d")
DRAWS = 8


def census_of_law(law: Callable[..., np.ndarray]) -> tuple[ProductCensus, np.ndarray]:
    """The census of a law with a little noise, and the response."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0.5, 3.0, size=(4, 200))
    y = law(*x)
    y = y + 0.01 * y.std() * rng.normal(size=200)

    language = Laws(NAMES, [transforms[name] for name in LAW_TRANSFORMS], Space())
    return ProductCensus(problem_over(x.T, y, language, coef_prior="jeffreys")), y


def seen(census: ProductCensus, y: np.ndarray, draws: int = DRAWS) -> set[Any]:
    """What a few draws see of a response."""
    given = y, census.exponents_in(y)
    return {feature for seed in range(draws) for feature in census.sums(*given, np.random.default_rng(seed))}


@pytest.mark.parametrize(
    ("law", "text"),
    [
        (lambda a, b, k, d: np.sqrt(a**2 + b**2 - 2.0 * a * b * np.cos(k)), "sqrt(a^2 + b^2 + c0*a*b*cos(k))"),
        (lambda a, b, k, d: a * b / (b + 0.8 + 0.6 * b * k), "a*b/(b + c0 + c1*b*k)"),
        (lambda a, b, k, d: a * b / (k + b + b**2 / d), "a*b*d/(d*k + b*d + b^2)"),
        (lambda a, b, k, d: a / np.sqrt(1.0 + (b * k * d) ** 2), "a/sqrt(b^2*k^2*d^2 + 1)"),
        (lambda a, b, k, d: -3.0 * np.sqrt(a**2 + b**2), "sqrt(a^2 + b^2)"),
    ],
)
def test_powers_of_sums_are_seen(law: Callable[..., np.ndarray], text: str) -> None:
    assert Feature(text) in seen(*census_of_law(law))


def test_a_response_of_either_sign_is_no_power() -> None:
    census, y = census_of_law(lambda a, b, k, d: a - b)
    assert not seen(census, y, draws=3)
    assert not seen(census, 0.0 * y, draws=3)


def test_the_best_column_pair_and_three() -> None:
    rng = np.random.default_rng(1)
    rows, y = rng.normal(size=(9, 30)), rng.normal(size=30)
    rows[4] += rows[2]
    rows, y = rows / np.linalg.norm(rows, axis=1)[:, None], y / np.linalg.norm(y)
    weight, half = -rng.uniform(0.0, 2.0, size=9), 15.0

    def value(chosen: tuple[int, ...]) -> float:
        design = rows[list(chosen)].T
        left = np.sum((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2)
        return float(weight[list(chosen)].sum() - half * np.log(left))

    found = [tuple(sorted(chosen)) for chosen in _best_sums(rows @ rows.T, rows @ y, weight, half)]
    for size in (1, 2, 3):
        first = next(chosen for chosen in found if len(chosen) == size)
        assert first == max(itertools.combinations(range(9), size), key=value)
    assert len(found) <= 3 * BEST


def test_terms_are_products_once() -> None:
    """No factor is there twice, so that no term is a constant, and columns are those of the products."""
    language = Laws(NAMES[:2], [transforms[name] for name in LAW_TRANSFORMS], Space())
    x = np.random.default_rng(2).uniform(0.5, 3.0, size=(2, 20))
    terms = terms_of(language, x)
    assert Fraction(-1) in language.exponents
    for i, j in zip(*np.nonzero(terms.cost), strict=True):
        nodes = [f.node for f in (terms.first[i], terms.second[j]) if isinstance(f.node, Feature)]
        column = language.column(Feature.product(*nodes), dict(zip(NAMES, x, strict=False)), {})
        np.testing.assert_allclose(terms.left[i] * terms.right[j], column, rtol=1e-9)
