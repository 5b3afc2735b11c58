"""A clock for budgets in seconds: time passes with the work that a test counts, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest


class Clock:
    """What ``time.perf_counter`` tells while a test runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self._monkeypatch = 0.0, monkeypatch
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def charge(self, owner: Any, name: str, units: Callable[..., Any], seconds: float) -> None:
        """Let a function take so many seconds for each unit of its work, which is counted before and after it."""
        work = getattr(owner, name)

        def charged(*args: Any, **options: Any) -> Any:
            # A number of its own: what counts may be a view of what the work changes.
            before = float(units(*args, **options))
            result = work(*args, **options)
            self.now += seconds * (float(units(*args, **options)) - before)
            return result

        self._monkeypatch.setattr(owner, name, charged)
