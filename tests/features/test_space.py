"""Spaces of nonlinear features that cannot be are refused."""

from __future__ import annotations

from typing import Any

import pytest

from modejump.core.errors import InputError
from modejump.features.nonlinear.space import MOST, Space

BAD_SPACES: dict[str, tuple[dict[str, Any], str]] = {
    "depth": ({"depth": -1}, "depth of the space is -1"),
    "width": ({"width": 0}, "width of the space is 0"),
    "complexity": ({"complexity": 2.5}, "complexity of the space is 2.5"),
    "size": ({"size": True}, "size of the space is True"),
    "population": ({"population": 0}, "population of the space is 0"),
    "deep": ({"depth": MOST["depth"] + 1}, "it may be at most 64"),
    "wide": ({"width": MOST["width"] + 1}, "it may be at most 64"),
    "complex": ({"complexity": MOST["complexity"] + 1}, "it may be at most 1000"),
    "probability": ({"mutation": 1.3}, "mutation of the space is 1.3"),
    "no number": ({"crossover": "half"}, "crossover of the space is 'half'"),
    "sum": ({"mutation": 0.5}, "sum to 1.2"),
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
