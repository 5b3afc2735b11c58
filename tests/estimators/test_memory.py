"""Memory is foreseen: what cannot fit is refused before work begins."""

from __future__ import annotations

import numpy as np
import pytest

from modejump import BGLMRegressor, InputError
from modejump.core import memory


def test_free_memory_is_a_plausible_number() -> None:
    free = memory.free_memory()
    assert 0 < free < 2**60 or free == float("inf")


def test_too_many_columns_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).normal(size=(20, 3000))
    monkeypatch.setattr(memory, "free_memory", lambda: 1e8)
    with pytest.raises(InputError, match=r"3000 columns .* 0\.1 GiB of memory, and 0\.1 GiB are free; screen"):
        BGLMRegressor().fit(x, x[:, 0])
