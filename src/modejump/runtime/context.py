"""What a sampler is given besides the problem and the plan: progress, an executor, a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from modejump.core.compilation import compiling
from modejump.core.progress import Log, Report, reporter
from modejump.runtime.checkpoints import NoCheckpoint
from modejump.runtime.executors import Executor


@dataclass(frozen=True, eq=False)
class Context:
    """The surroundings of one run; no answer depends on them."""

    progress: Report | None = None  # called with (done, total, note)
    executor: Executor = field(default_factory=Executor)  # who works on the chains
    # Keeps the state of the run, and holds what an earlier run left.
    checkpoint: NoCheckpoint = field(default_factory=NoCheckpoint)

    def compiling(self) -> AbstractContextManager[None]:
        """Around the compilation of what a run needs, before any clock runs."""
        tell = self.progress
        return compiling(None if tell is None else lambda: tell(0.0, 1.0, "compiling, once for this machine"))


@contextmanager
def open_context(
    progress: Any, workers: int, checkpoint: NoCheckpoint | None = None, log: Log | None = None
) -> Iterator[Context]:
    """A context for one run, with the executor that joblib's active configuration asks for."""
    from modejump.runtime.remote import executor_for

    with reporter(progress, log=log) as report:
        yield Context(report, executor_for(workers), checkpoint or NoCheckpoint())
