"""Settings of the samplers: what they refuse, and what the presets are."""

from __future__ import annotations

from typing import Any

import pytest

from modejump import Sampler
from modejump.core.errors import InputError

NAN, INFINITE = float("nan"), float("inf")
BAD: list[tuple[dict[str, Any], str]] = [
    ({"kernels": {"leap": 1.0}}, "'leap' is not a kernel"),
    *[({"kernels": {"flip": value}}, "weight of the kernel 'flip'") for value in (-1.0, NAN, INFINITE, "1")],
    *[({"kernels": value}, "all weights are zero") for value in ({}, {"flip": 0.0})],
    ({"moves": {"leap": 1.0}}, "'leap' is not a move"),
    *[({"moves": {"edit": value}}, "weight of the move 'edit'") for value in (-1, NAN, "1")],
    *[({"moves": value}, "all weights are zero") for value in ({}, {"edit": 0.0})],
    *[({name: value}, f"{name} of the sampler") for name in ("rho", "population_rho") for value in (0.0, 1.0, NAN)],
    *[({"temperature": value}, "temperature of the sampler") for value in (0.0, INFINITE)],
    *[({"jump_max": value}, "jump_max of the sampler") for value in (0, 1.5)],
    *[({name: value}, f"{name} of the sampler") for name in ("search", "generated") for value in (-1, 0.5, NAN)],
    *[({"population_steps": value}, "population_steps of the sampler") for value in (-1, 1.5, NAN, INFINITE, "100")],
    *[({"rate": value}, "rate of the sampler") for value in (-1.0, 17, NAN, "3", None)],
    *[({"edits": value}, "edits of the sampler") for value in (-0.1, 1.0, NAN, "0.7")],
    *[({"include": value}, "include of the sampler") for value in (0.0, 1.0, NAN)],
    ({"population_search": "clever"}, "population_search of the sampler"),
]


@pytest.mark.parametrize(("options", "words"), BAD, ids=[str(options) for options, _ in BAD])
def test_bad_settings_are_refused_in_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        Sampler(**options)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_presets() -> None:
    assert Sampler.resolve(None) == Sampler() and Sampler.resolve("paper") == Sampler.paper()
    own = Sampler(rate=1.0)
    assert Sampler.resolve(own) is own
    for value in ("pape", 3, {"rate": 1.0}):
        with pytest.raises(InputError, match="sampler must be None, 'paper' or"):
            Sampler.resolve(value)


def test_long_columns_have_longer_populations() -> None:
    assert Sampler().inside_population(192, 100) == 100 < Sampler().inside_population(192, 10_000)
    assert Sampler(population_steps=30).inside_population(192, 10_000) == 30
