"""What workers do in the tests of backends; they import this module by its name."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np


def die(problem: Any, number: int, folder: str | None) -> tuple[int, int, int]:
    """Number, process and problem; piece 1 kills its process, with a folder only where none has done so before."""
    if number == 1 and (folder is None or _first(Path(folder))):
        os.kill(os.getpid(), signal.SIGKILL)
    return number, os.getpid(), id(problem)


def _first(folder: Path) -> bool:
    """Whether nobody has been here before."""
    try:
        (folder / "died").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class Deadly:
    """A function that kills, once and in the middle of the work, a process that is not the first one."""

    def __init__(self, folder: Path, calls: int) -> None:
        self.folder, self.calls, self.home = folder, calls, os.getpid()

    def count(self) -> None:
        """Note a call; the last of so many in one process kills it, where none has been killed before."""
        if os.getpid() != self.home:
            self.calls -= 1
            if self.calls == 0 and _first(self.folder):
                os.kill(os.getpid(), signal.SIGKILL)


class DeadlySine(Deadly):
    """A transform."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The sine."""
        self.count()
        return np.sin(x)


class DeadlyScore(Deadly):
    """A likelihood by the names of the terms."""

    def __call__(self, models: list[tuple[str, ...]]) -> list[float]:
        """Scores of models."""
        self.count()
        return [3.0 * ("x2" in model) - abs(len(model) - 2.0) for model in models]
