"""Spaces of nonlinear features that cannot be are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from modejump.core.errors import InputError
from modejump.features.laws.units import packed_units
from modejump.features.nonlinear.space import MOST, Space
from modejump.features.nonlinear.transforms import Transforms

BAD_SPACES: dict[str, tuple[dict[str, Any], str]] = {
    "depth": ({"depth": -1}, "depth of the space is -1"),
    "width": ({"width": 0}, "width of the space is 0"),
    "complexity": ({"complexity": 2.5}, "complexity of the space is 2.5"),
    "size": ({"size": True}, "size of the space is True"),
    "population": ({"population": 0}, "population of the space is 0"),
    "deep": ({"depth": MOST["depth"] + 1}, "it may be at most 64"),
    "wide": ({"width": MOST["width"] + 1}, "it may be at most 64"),
    "complex": ({"complexity": MOST["complexity"] + 1}, "it may be at most 1000"),
    "weight": ({"mutation": -0.3}, "mutation of the space is -0.3"),
    "no number": ({"crossover": "half"}, "crossover of the space is 'half'"),
    "no weight": ({"mutation": 0, "crossover": 0, "modification": 0}, "are all 0"),
    "rules": ({"rules": "mine"}, "choose 'laws' or 'paper'"),
    "constants": ({"constants": -1}, "constants of the space is -1"),
    "constants of the paper": ({"constants": True, "rules": "paper"}, "need rules='laws'"),
    "projections of laws": ({"projection": 0.1, "rules": "laws"}, "are the paper's"),
    "target": ({"target_unit": "s"}, "but units are not"),
    "edits": ({"edits": 1.0}, "edits of the space is 1.0"),
    "alphas": ({"alphas": "lasso"}, "choose one of ml, ones, random"),
}


@pytest.mark.parametrize(("options", "words"), BAD_SPACES.values(), ids=BAD_SPACES)
def test_bad_spaces_are_refused_in_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        Space(**options)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_space_that_needs_a_transform_is_refused_without_one() -> None:
    with pytest.raises(InputError, match="add a transform"):
        Space(mutation=0.0, crossover=0.0, modification=1.0, edits=0.0).operator_weights(any_transform=False)


def test_weights_count_by_their_share() -> None:
    doubled = Space(mutation=0.6, crossover=0.9, modification=0.5).operator_weights(any_transform=True)
    assert doubled == pytest.approx(Space().operator_weights(any_transform=True), rel=1e-14)


@pytest.mark.parametrize(
    ("space", "transforms", "rules", "limits"),
    [
        (Space(), ["sin", "inv"], "laws", (3, 6, 16)),
        (Space(), Transforms.SETS["G1"], "paper", (5, 6, 12)),
        (Space(projection=0.2), ["sin"], "paper", (5, 6, 12)),
        (Space(constants=2), Transforms.SETS["G1"], "laws", (3, 6, 16)),
        (Space(rules="paper", depth=2), ["sin"], "paper", (2, 6, 12)),
    ],
)
def test_open_rules_follow_what_is_asked_for(
    space: Space, transforms: list[str], rules: str, limits: tuple[int, ...]
) -> None:
    resolved = space.resolved(transforms)
    assert (resolved.rules, (resolved.depth, resolved.width, resolved.complexity)) == (rules, limits)


def test_constants_are_a_number() -> None:
    assert [Space(constants=c).max_constants for c in (None, True, False, 0, 2)] == [4, 4, 0, 0, 2]


def test_rules_of_another_search_are_refused() -> None:
    with pytest.raises(InputError, match="rules='laws'"):
        Space(rules="laws").by_rules("paper")


def test_units_multiply_by_adding() -> None:
    columns, response = packed_units(["L", "g", "k"], {"L": "m", "g": "m/s^2"}, "s")
    assert columns[2] == 0 and columns[0] - columns[1] == 2 * response and columns[0] != response
    assert packed_units(["L"], None) == (np.zeros(1), 0)


@pytest.mark.parametrize(
    ("units", "words"),
    [
        ({"a": "cm", "b": "m"}, "does not fit those before it"),
        ({"a": "km/h", "b": "m", "c": "s"}, "does not fit those before it"),
        ({"a": "degC"}, "has a zero of its own"),
        ({"a": "degree"}, "degrees to radian"),
        ({"a": "florp"}, "is unknown to pint"),
        ({"q": "m"}, "is no column"),
        ({"a": 3}, "must be text"),
        ("m", "must be a mapping"),
    ],
)
def test_units_that_do_not_fit_are_refused(units: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        packed_units(["a", "b", "c"], units)


def test_units_of_one_odd_system_fit() -> None:
    columns, _ = packed_units(["a", "b", "c"], {"a": "km/h", "b": "km", "c": "hour"})
    assert columns[0] == columns[1] - columns[2]
