"""Kill a run at a random moment, resume it, and compare the outcome with that of a run left alone.

A script of its own: it compiles once and then forks a process for each part of a run, so that hundreds of kills are
cheap, and nothing else is in the way of a fork. ``python killing.py ALGORITHM RUNS SEED`` prints a JSON object.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from faults import in_a_process
from mortal import outcome
from paper_rules import paper

import modejump
from modejump.runtime import checkpoints

EVERY = 0.002
RNG = np.random.default_rng(11)
X = RNG.uniform(0.5, 3.0, (60, 8))
Y = 2.0 + 5.0 * X[:, 0] * np.sin(X[:, 2]) + 0.5 * RNG.normal(size=60)
# Sixty-four tasks of an enumeration.
WIDE = RNG.normal(size=(60, 22))


def estimator(algorithm: str, jobs: int) -> Any:
    """A model that takes about half a second, so that a kill may find it anywhere."""
    common = {"n_jobs": jobs, "random_state": 5, "progress": False}
    if algorithm == "enumerate":
        return modejump.BGLMRegressor(algorithm=algorithm, **common)
    if algorithm == "mjmcmc":
        return modejump.BGLMRegressor(algorithm=algorithm, budget=modejump.Budget(steps=150_000), **common)
    warmup = None if algorithm == "gmjmcmc" else 3_000
    steps = 9_000 if algorithm == "gmjmcmc" else 30_000
    budget = modejump.Budget(warmup=warmup, steps=steps)
    return modejump.BGNLMRegressor(
        algorithm=algorithm, chains=4, budget=budget, transforms=("sin",), **paper(), **common
    )


def begin(folder: Path, algorithm: str, jobs: int) -> None:
    table = WIDE if algorithm == "enumerate" else X
    modejump.Run(folder, every=EVERY, force=True).fit(estimator(algorithm, jobs), table, Y)


def proceed(folder: Path, algorithm: str, jobs: int) -> None:
    """Resume; where the kill came before the job was written down, there is nothing to resume."""
    if (folder / "job.json").exists():
        modejump.resume(folder, n_jobs=jobs, progress=False)
    else:
        begin(folder, algorithm, jobs)


def main(algorithm: str, runs_wanted: int, seed: int) -> dict[str, Any]:
    """Kill so many runs, each up to three times, and let them end."""
    # Small states: write whenever there is something to write.
    checkpoints.MOST_SHARE = 1e9
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    told: dict[str, Any] = {"killed runs": 0, "identical": 0, "kills": 0, "phases": [], "different": []}
    with tempfile.TemporaryDirectory() as place:
        alone = Path(place) / "alone"
        begin(alone, algorithm, 1)
        began = time.perf_counter()
        begin(alone, algorithm, 1)
        whole = time.perf_counter() - began
        runs = 0
        while told["killed runs"] < runs_wanted:
            killed = 0
            folder = Path(place) / f"run-{runs}"
            jobs = 1 + runs % 2
            runs += 1
            work: Callable[..., None] = begin
            for _ in range(int(rng.integers(1, 4))):
                status = in_a_process(partial(work, folder, algorithm, jobs), rng.uniform(0.0, whole))
                killed += status == -signal.SIGKILL
                manifest = folder / "checkpoint.json"
                state = json.loads(manifest.read_text())["state"] if manifest.exists() else {"phase": "none"}
                told["phases"].append(state["phase"])
                work = proceed
            status = in_a_process(partial(proceed, folder, algorithm, jobs))
            told["kills"] += killed
            told["killed runs"] += killed > 0
            if status == 0 and outcome(folder) == outcome(alone):
                told["identical"] += killed > 0
            else:
                told["different"].append(f"{folder.name}: status {status}")
    return told | {"phases": {phase: told["phases"].count(phase) for phase in set(told["phases"])}}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
