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


@pytest.mark.parametrize("algorithm", ["enumerate", "mjmcmc", "gmjmcmc", "rgmjmcmc"])
@pytest.mark.parametrize("kind", ["Regressor", "Classifier"])
def test_every_sampler_finds_the_only_effect(algorithm: str, kind: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((120, 4))
    y = 2.0 * x[:, 1] + rng.standard_normal(120)
    laws = algorithm in ("gmjmcmc", "rgmjmcmc")
    estimator = getattr(modejump, f"{'BGNLM' if laws else 'BGLM'}{kind}")
    budget = None if algorithm == "enumerate" else modejump.Budget(steps=1200)
    model = estimator(algorithm=algorithm, chains=2, budget=budget, random_state=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", modejump.ModejumpWarning)  # short runs are not precise, and say so
        model.fit(x, y if kind == "Regressor" else y > 0.0)
    assert model.inclusion_.index[0] == "x2"
    assert model.inclusion_["probability"].iloc[0] > 0.9
