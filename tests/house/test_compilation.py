"""What rests on Numba's insides: compilation, its fallback, and one fit of each sampler.

``make test-numba`` runs this file with the oldest and the newest Numba that pyproject.toml allows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

import modejump

# What another Numba might look like: how it comes about, and what is expected of it.
OTHER_NUMBAS = {
    "none": ("", "assert linking.links()"),
    "a class is gone": (
        "import numba.core.codegen as c; del c.JITCodeLibrary",
        "assert not linking.KERNEL_OPTIONS and not linking.ENTRY_OPTIONS",
    ),
    "a class works in another way": (
        "from modejump.core import linking as c; c._EntryLibrary._optimize_final_module = lambda self: 1 / 0",
        "assert linking.KERNEL_OPTIONS and not linking.links()",
    ),
}
PROGRAM = """
{before}
from typing import NamedTuple
import numpy as np
from modejump.core import linking
from modejump.core.compilation import entry, generic, implements, kernel

class Numbers(NamedTuple):
    values: np.ndarray

@generic
def middle(numbers):
    "One of the values."

@implements(middle, Numbers)
def _of_numbers(numbers):
    return numbers.values[numbers.values.shape[0] // 2]

@kernel
def twice(numbers):
    return 2.0 * middle(numbers)

@entry
def one_more(numbers):
    return twice(numbers) + 1.0

assert one_more(Numbers(np.arange(5.0))) == 5.0
{after}
"""


@pytest.mark.parametrize("name", OTHER_NUMBAS)
def test_kernels_compile_with_other_insides_of_numba(name: str, tmp_path: Path) -> None:
    before, after = OTHER_NUMBAS[name]
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(PROGRAM).format(before=before, after=after), encoding="utf-8")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def compiled_in_a_process(cache: Path, before: str = "") -> str:
    """Standard error of a process that calls one compiled function."""
    lines = ["import numba.core.caching as caching", before, "from modejump.likelihoods.gaussian.tables import locate"]
    lines += ["piece, position = locate(3.0)", "assert piece == 4 and -1.0 <= position <= 1.0"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-W", "always", "-c", "\n".join(lines)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_where_nothing_can_be_written_code_is_compiled_anew_and_that_is_said_once(tmp_path: Path) -> None:
    # An administrator can write everywhere, so that permissions would prove nothing.
    before = "def refuse(self): raise PermissionError\ncaching._CacheLocator.ensure_cache_path = refuse"
    told = compiled_in_a_process(tmp_path / "cache", before)
    assert told.count("compiled code cannot be kept on disk") == 1 and "NUMBA_CACHE_DIR" in told
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_files_of_the_cache_that_are_cut_short_are_made_anew(suffix: str, tmp_path: Path) -> None:
    assert compiled_in_a_process(tmp_path) == ""
    for path in tmp_path.rglob(f"*.{suffix}"):
        os.truncate(path, path.stat().st_size // 2)
    compiled_in_a_process(tmp_path)
    whole = {path: path.stat().st_size for path in tmp_path.rglob(f"*.{suffix}")}
    assert whole and min(whole.values()) > 0
    assert compiled_in_a_process(tmp_path) == ""


@pytest.mark.parametrize("algorithm", ["enumerate", "mjmcmc", "gmjmcmc", "rgmjmcmc"])
@pytest.mark.parametrize("kind", ["Regressor", "Classifier"])
def test_every_sampler_finds_the_only_effect(algorithm: str, kind: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((120, 4))
    y = 2.0 * x[:, 1] + rng.standard_normal(120)
    laws = algorithm in ("gmjmcmc", "rgmjmcmc")
    estimator = getattr(modejump, f"{'BGNLM' if laws else 'BGLM'}{kind}")
    budget = None if algorithm == "enumerate" else modejump.Budget(steps=1200)
    # Generalised models of laws would compile for long.
    rules = (
        {"space": modejump.Space(rules="paper"), "transforms": ("exp", "log", "sin", "cos")}
        if laws and kind == "Classifier"
        else {}
    )
    model = estimator(algorithm=algorithm, chains=2, budget=budget, random_state=1, progress=False, **rules)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", modejump.ModejumpWarning)  # short runs are not precise, and say so
        model.fit(x, y if kind == "Regressor" else y > 0.0)
    assert model.inclusion_.index[0] == "x1"
    assert model.inclusion_["probability"].iloc[0] > 0.9
