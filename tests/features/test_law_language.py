"""The language of laws: which features a space has, how they are drawn, and what is stored of it."""

from __future__ import annotations

import json
from fractions import Fraction

import law_twin as lt
import numpy as np
import pytest
from feature_experiments import chi_square
from feature_twin import language_draws, log_probabilities, stream_of

from modejump.features.distribution import FeatureDistribution
from modejump.features.language import language_from_dict, stored_language
from modejump.features.laws.expression import Feature
from modejump.features.laws.language import Laws
from modejump.features.laws.nodes import LawSpace
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.features.table import new_table

LEVEL = 1e-4


def language_of(names: str, functions: tuple[str, ...], **limits: object) -> Laws:
    return Laws(list(names), [transforms[name] for name in functions], Space(**limits))  # type: ignore[arg-type]


def draws_p_value(language: Laws, said: LawSpace | None = None, count: int = 200_000) -> float:
    """p-value of draws against the probabilities that are said of all features, by another space where one is given."""
    none = np.zeros(0)
    q = FeatureDistribution(0.0, none.astype(np.int64), none, none.astype(np.int64), none)
    table, features = new_table(1 << 17), language.enumerate()
    numbers = lt.enter(language, table, features)
    assert len(set(numbers)) == len(features) > 50
    own, total, out = np.empty(len(numbers)), np.empty(len(numbers)), np.empty(count, np.int64)
    log_probabilities(q, said or language.space(), table, numbers, own, total)
    language_draws(language.space(), table, stream_of(4), out)
    assert set(out[out >= 0]) <= set(numbers), "something outside of the space was drawn"
    return chi_square(np.array([(out == f).sum() for f in numbers], float), np.exp(own), count)


SPACES = {
    "constants": (("ba", ("inv", "exp")), {"constants": 2, "complexity": 5, "depth": 2, "width": 3}),
    "no constants": (("bac", ("sqrt", "sin", "log")), {"constants": False, "complexity": 4}),
    "odd and even": (("ba", ("inv", "tanh", "cos", "sin")), {"constants": 1, "complexity": 4, "depth": 1}),
    "powers only": (("abc", ("inv", "cbrt")), {"constants": True, "complexity": 5, "depth": 1, "width": 3}),
    "narrow": (("abc", ("inv", "exp", "log")), {"constants": True, "complexity": 4, "width": 1}),
}


@pytest.mark.parametrize("name", SPACES)
def test_draws_have_their_probabilities(name: str) -> None:
    (names, functions), limits = SPACES[name]
    assert draws_p_value(language_of(names, functions, **limits)) > LEVEL


def test_a_wrong_probability_is_caught() -> None:
    (names, functions), limits = SPACES["constants"]
    language = language_of(names, functions, **limits)
    space = language.space()
    assert draws_p_value(language, space._replace(log_coefficients=space.log_coefficients[[0, 2, 1]])) < 1e-8


def test_enumeration_has_every_canonical_form_once() -> None:
    language = language_of("xy", ("inv", "exp"), constants=1, complexity=5, depth=2, width=3)
    features = language.enumerate()
    assert len(set(features)) == len(features) and all(map(language.contains, features))
    texts = {f.text for f in features}
    for text in ("x*y", "x/y^2", "exp(c0*x)", "1/(x + c0)", "exp(-x - y)", "1/(x - y)", "exp(exp(-x))", "x/(y + 1)"):
        assert Feature.parse(text).text in texts, text
    assert not texts & {"sqrt(x)", "sin(x)", "exp(x + c0)", "exp(x)*exp(y)", "x*x"}


def test_the_space_has_what_it_says() -> None:
    language = language_of("xy", ("inv", "exp"), constants=1, depth=1)
    has = {
        "x/y": True,
        "sqrt(x)": False,
        "exp(c0*x)": True,
        "exp(c0*x + c1*y)": False,
        "exp(exp(x))": False,
        "z": False,
    }
    for text, inside in has.items():
        assert language.contains(Feature.parse(text)) == inside, text
    assert not language.contains(Feature.one())
    assert not language.contains(Feature.sum_(Feature.covariate("x"), Feature.one()))
    assert language.exponents == tuple(map(Fraction, (-4, -3, -2, -1, 1, 2, 3, 4)))


def test_units_bound_the_space() -> None:
    pytest.importorskip("pint")
    limits = {
        "units": {"L": "m", "g": "m/s^2", "t": "s"}, "target_unit": "s", "complexity": 5, "depth": 1, "width": 3,
        "constants": 1,
    }  # fmt: skip
    language = Laws(["L", "g", "t", "u"], [transforms[n] for n in ("inv", "sqrt", "exp")], Space(**limits))  # type: ignore[arg-type]
    has = {
        "t": True, "sqrt(L/g)": True, "L/g": False, "exp(t)": False, "exp(c0*t)": True, "t*exp(u)": True,
        "L/(g*t)": True, "t*(u + 1)": True, "L": False, "u": False, "t/(L + c0)": True, "t*(L + g)": False,
        "t*(t + 1)": False,
    }  # fmt: skip
    for text, inside in has.items():
        assert language.contains(language.parse(text)) == inside, text
    # Draws that are outside would be caught, as would features inside that are never drawn.
    assert draws_p_value(language) > LEVEL
    free = Laws(language.names, language.transforms, Space(**{**limits, "strict_units": False}))  # type: ignore[arg-type]
    assert free.contains(Feature.parse("L/g")) and not free.contains(Feature.parse("exp(t)"))


def test_a_language_is_stored() -> None:
    language = language_of("xy", ("inv", "exp", "cos"), constants=2)
    stored = json.loads(json.dumps(stored_language(language)))
    back = language_from_dict(stored)
    assert isinstance(back, Laws) and back.to_dict() == language.to_dict()
    assert [t.name for t in back.functions] == ["cos", "exp"]
    space, other = language.space(), back.space()
    for name, value in space._asdict().items():
        np.testing.assert_array_equal(value, getattr(other, name))


def test_entries_that_cannot_be() -> None:
    language = language_of("xy", ("exp",))
    kind, code, arity = (
        np.array(a) for a in ([0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 0, 0, 0, 0, 0, 0], [0, 1, 1, 2, 2, 1, 1, 0])
    )
    assert language.are_nodes(kind, code, arity)
    for place, values in ((0, (2, 0)), (1, (1, 1)), (2, (9, 1)), (3, (0, 1)), (4, (0, 65)), (7, (0, 1))):
        other_code, other_arity = code.copy(), arity.copy()
        other_code[place], other_arity[place] = values
        assert not language.are_nodes(kind, other_code, other_arity)
    assert not language.are_nodes(kind + 1, code, arity)
