"""What a sampler is given besides the problem and the plan: progress, an executor, a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field

from modejump.core.progress import Report
from modejump.runtime.checkpoints import NoCheckpoint
from modejump.runtime.executors import Executor


@dataclass(frozen=True, eq=False)
class Context:
    """The surroundings of one run; no answer depends on them.

    Attributes
    ----------
    progress : callable, optional
        Called with (done, total, note).
    executor : Executor
        Who works on the chains.
    checkpoint : NoCheckpoint
        Keeps the state of the run, and holds what an earlier run left.
    """

    progress: Report | None = None
    executor: Executor = field(default_factory=Executor)
    checkpoint: NoCheckpoint = field(default_factory=NoCheckpoint)
