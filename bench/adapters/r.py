"""Programs in R, called through Rscript; their start and the reading of the data are not measured.

Each script takes the data as a CSV file (response first), the g of the g-prior and a task, and prints lines of a name
and numbers.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cached_property
from pathlib import Path

import numpy as np

from bench.adapters.base import Enumerated, Sampled
from bench.measure import Clock, Missing
from bench.problems import Case

_HERE = Path(__file__).resolve().parent
WARMUP_SHARE = 0.1
_TIMEOUT = 1800


def rscript() -> str | None:
    """Where Rscript is, None where there is no R."""
    return shutil.which("Rscript")


class RProgram:
    """A package of R behind a script of the same name beside this file.

    Parameters
    ----------
    name : str
        The package.
    most_steps : int
        Steps that are asked of it at most.
    slow : bool
        Whether it gets fewer seeds than the others.
    """

    def __init__(self, name: str, most_steps: int = 1_000_000_000, slow: bool = False) -> None:
        self.name = name
        self.most_steps = most_steps
        self.slow = slow
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @cached_property
    def _why_missing(self) -> str | None:
        program = rscript()
        if program is None:
            return f"R package {self.name} not found: there is no Rscript on the path."
        code = f'quit(status = !requireNamespace("{self.name}", quietly = TRUE))'
        status = subprocess.run([program, "-e", code], capture_output=True, timeout=60).returncode
        return f"R package {self.name} not found." if status else None

    def missing(self) -> str | None:
        return self._why_missing

    def _data(self, case: Case) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        path = Path(self._folder.name) / f"{case.name}.csv"
        if not path.exists():
            header = ",".join(["y", *(f"x{j + 1}" for j in range(case.terms))])
            table = np.column_stack([case.y, case.x])
            np.savetxt(path, table, delimiter=",", header=header, comments="", fmt="%.17g")
        return path

    def call(self, case: Case, task: str, *arguments: int) -> dict[str, np.ndarray]:
        """Run one task; what the script printed, by name."""
        program = rscript()
        if program is None:
            raise Missing(f"R package {self.name} not found.")
        script = _HERE / f"{self.name.lower()}.R"
        command = [program, str(script), str(self._data(case)), repr(case.g), task, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("Error")]
            reason = errors[0] if errors else "no message"
            raise Missing(f"R package {self.name} did not do the task {task} on {case.name}: {reason}")
        words = [line.split() for line in done.stdout.splitlines() if line.startswith("= ")]
        return {line[1]: np.array(line[2:], dtype=np.float64) for line in words}

    def enumerate(self, case: Case) -> Enumerated:
        out = self.call(case, "enumerate")
        return Enumerated(out["inclusion"], float(out["log_total"][0]), int(out["models"][0]), Clock(*out["clock"]))

    def sample(self, case: Case, steps: int, seed: int) -> Sampled:
        """Sampling after a tenth of warm-up; the package times both together, so each gets its share of steps."""
        warmup = int(WARMUP_SHARE * steps)
        out = self.call(case, "sample", steps, warmup, seed)
        cpu, wall = out["clock"]
        share = steps / (steps + warmup)
        return Sampled(
            out["inclusion"],
            steps,
            Clock(cpu * share, wall * share),
            Clock(cpu * (1 - share), wall * (1 - share)),
            int(out["models"][0]),
        )

    def capture(self, case: Case, count: int, seed: int) -> float:
        return float(self.call(case, "capture", count, seed)["log_total"][0])
