"""Signals end a command as Ctrl-C does: partial results are stored, and the run can be resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from modejump.kernels.traverse import new_stack, new_tally, traverse
from modejump.kernels.traverse_glm import traverse_glm
from modejump.likelihoods.glm.newton import new_glm_work
from modejump.problem.problem import Problem


def table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x = pd.DataFrame(rng.normal(size=(60, 8)), columns=list("abcdefgh"))
    return x.assign(y=x["a"] + rng.normal(size=60))


def sampling(folder: Path) -> bool:
    """Whether a run has sampled, so that there is something to show."""
    path = folder / "checkpoint.json"
    return path.exists() and json.loads(path.read_text())["state"]["phase"] == "sampling"


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_what_is_there_is_stored(number: int, tmp_path: Path) -> None:
    table().to_csv(tmp_path / "table.csv", index=False)
    out = tmp_path / "run"
    command = [sys.executable, "-m", "modejump", "fit", str(tmp_path / "table.csv"), "--target", "y"]
    command += ["--algorithm", "mjmcmc", "--steps", "900000000", "--checkpoint", "0.1", "--out", str(out)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Tests that run in the background may have the signal ignored, and so would their processes.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )  # fmt: skip
    until = time.monotonic() + 300.0
    while not sampling(out) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(number)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 128 + number, told
    assert (out / "run.json").exists() and "interrupted" in (out / "log.txt").read_text()
    assert "modejump resume" in told and "Traceback" not in told


def test_an_enumeration_stops_in_the_middle_of_a_task() -> None:
    data = table()
    x, y = data.drop(columns="y").to_numpy(), data["y"].to_numpy()
    gaussian, classes = Problem.build(x, y).data, Problem.build(x, (y > 0).astype(float), family="binomial").data
    for stop, models in ((0, 256), (1, 1)):
        tally = new_tally(8, 10)
        tally.scalars["stop"] = stop
        traverse(gaussian, 0, 0, 8, new_stack(8, 8), tally)
        assert tally.scalars["models"] == models
        tally = new_tally(8, 10)
        tally.scalars["stop"] = stop
        traverse_glm(classes, new_glm_work(classes.glm, 8), 0, 0, 8, tally)
        assert tally.scalars["models"] == (0 if stop else 256)
