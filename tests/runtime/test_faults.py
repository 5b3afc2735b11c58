"""A slice of `make faults`: runs that are killed, interrupted or damaged at random moments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is forked for each part of a run")
def test_no_fault_does_harm() -> None:
    ran = subprocess.run(
        [sys.executable, str(SUPPORT / "faults.py"), "18", "3", "3"], capture_output=True, text=True, timeout=600
    )
    told = json.loads(ran.stdout)
    assert told["harm"] == [], ran.stderr
    assert told["faults"] >= 6 and set(told["ended with"]) <= {"the same answer", "one sentence"}
    assert told["ended with"]["the same answer"] > 0
