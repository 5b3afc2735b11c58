"""Instructions instead of seconds: a count that other programs on the machine do not move.

Two runs that differ only in the amount of work are counted, and the difference is divided by the difference in work,
so that start, import and loading of kernels drop out. By ``perf stat`` where the machine has hardware counters, by
valgrind otherwise; valgrind does not know the newest instructions, so kernels are then compiled for a generic
processor, and its figures compare with one another only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.child import ROOT, run_child
from bench.measure import Missing

_TIMEOUT = 1800

Counter = Callable[[list[str], dict[str, str]], int]


def by_perf(command: list[str], env: dict[str, str]) -> int:
    """User instructions of a command by hardware counters."""
    counted = ["perf", "stat", "-x", ",", "-e", "instructions:u", "--", *command]
    done = subprocess.run(counted, capture_output=True, text=True, cwd=ROOT, env=env, timeout=_TIMEOUT, check=True)
    fields = [line.split(",") for line in done.stderr.splitlines() if "instructions" in line]
    return int(fields[0][0])


def by_valgrind(command: list[str], env: dict[str, str]) -> int:
    """Instructions of a command by simulation."""
    counted = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", *command]
    done = subprocess.run(counted, capture_output=True, text=True, cwd=ROOT, env=env, timeout=_TIMEOUT, check=True)
    found = re.search(r"I +refs: +([\d,]+)", done.stderr)
    if found is None:
        raise Missing("valgrind printed no count of instructions.")
    return int(found[1].replace(",", ""))


def choose_counter() -> tuple[str, Counter, dict[str, str]]:
    """The counter of this machine: its name, how to call it, and the environment it wants."""
    if shutil.which("perf"):
        try:
            by_perf([sys.executable, "-c", ""], dict(os.environ))
            return "perf", by_perf, {}
        except (subprocess.SubprocessError, ValueError, IndexError):
            pass  # a virtual machine without counters, or one that does not let users read them
    if shutil.which("valgrind"):
        return "valgrind", by_valgrind, {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    raise Missing("instructions are not counted: neither perf with hardware counters nor valgrind is here.")


def instructions_per_unit(kind: str, small: int, large: int) -> tuple[str, float]:
    """The counter's name and the instructions for each model or step.

    Parameters
    ----------
    kind : str
        "enumerate" (sizes are numbers of terms) or "sample" (sizes are numbers of steps).
    small, large : int
        Sizes of the two runs.
    """
    name, counter, extra = choose_counter()
    with tempfile.TemporaryDirectory(prefix="bench-") as cache:
        env = {**os.environ, **extra, "NUMBA_CACHE_DIR": str(Path(cache))}
        counts, units = [], []
        for size in (small, large):
            # The first run compiles, so that the counted one does not.
            units.append(run_child("work", kind, size, env=env)["count"])
            counts.append(counter([sys.executable, "-m", "bench.child", "work", kind, str(size)], env))
    return name, (counts[1] - counts[0]) / (units[1] - units[0])
