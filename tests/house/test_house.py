"""Each rule of the house catches a planted breach, lets the allowed pass, and holds for the real tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

import check_house

ROOT = Path(__file__).resolve().parents[2]
LONG_BODY = "    x = 1\n" * check_house.FUNCTION_LINES
HEADING = '    """Do.\n\n    Parameters\n    ----------\n'
BROKEN = "def f(:\n"
# Written in two halves, so that the rule does not find it here.
MACHINE_PATH = "/" + "home/somebody/data.csv"


def plant(root: Path, path: str, text: str) -> list[str]:
    """Write one file into an empty tree and return the breaches found there, as printed."""
    file = root / path
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    return [str(breach) for breach in check_house.check_house(root)]


BREACHES = {
    "absolute import upwards": (
        "src/modejump/priors/models.py",
        "from modejump.samplers.result import ModelTable\n",
        "src/modejump/priors/models.py:1: priors may not import samplers",
    ),
    "plain import upwards": (
        "src/modejump/problem.py",
        "import modejump.kernels.store\n",
        "src/modejump/problem.py:1: problem may not import kernels",
    ),
    "relative import upwards": (
        "src/modejump/likelihoods/gaussian.py",
        "from ..posterior import estimates\n",
        "gaussian.py:1: likelihoods may not import posterior",
    ),
    "relative import of a room": (
        "src/modejump/likelihoods/gaussian.py",
        "from .. import cli\n",
        "gaussian.py:1: likelihoods may not import cli",
    ),
    "relative import in a package": (
        "src/modejump/kernels/__init__.py",
        '"""Kernels. May import: problem."""\nfrom ..samplers import result\n',
        "__init__.py:2: kernels may not import samplers",
    ),
    "import inside a function": (
        "src/modejump/kernels/flip.py",
        "def late() -> None:\n    from modejump.estimators import regressor\n",
        "flip.py:2: kernels may not import estimators",
    ),
    "import of a neighbour on one floor": (
        "src/modejump/plots/bars.py",
        "import modejump.experiments\n",
        "bars.py:1: plots may not import experiments",
    ),
    "import of the package itself": (
        "src/modejump/cli.py",
        "from modejump import BGLMRegressor\n",
        "cli.py:1: cli may not import the package itself",
    ),
    "room without a floor": (
        "src/modejump/attic.py",
        "",
        "attic.py:1: 'attic' stands on no floor",
    ),
    "foreign library in the numeric core": (
        "src/modejump/samplers/chain.py",
        "def table() -> None:\n    import pandas as pd\n",
        "chain.py:2: the numeric core (samplers) may not import pandas",
    ),
    "long module": (
        "src/modejump/errors.py",
        "x = 1\n" * (check_house.MODULE_LINES + 1),
        "errors.py:501: module has 501 lines",
    ),
    "long function": (
        "src/modejump/errors.py",
        f"def f() -> None:\n{LONG_BODY}",
        "errors.py:1: function f has 61 lines",
    ),
    "long method": (
        "src/modejump/errors.py",
        "class A:\n    def f(self) -> None:\n" + LONG_BODY.replace("    ", "        "),
        "errors.py:2: function f has 61 lines",
    ),
    "missing type hints": (
        "src/modejump/errors.py",
        "def f(a, b: int = 1, *rest):\n    return a\n",
        "errors.py:1: function f lacks type hints for a, rest, return",
    ),
    "docstring with a parameter that is gone": (
        "src/modejump/errors.py",
        "def f(a: int) -> int:\n" + HEADING + "    a, gone : int\n        Two.\n\n"
        '    Returns\n    -------\n    int\n        One.\n    """\n    return a\n',
        "errors.py:1: docstring of f has unknown parameters: gone",
    ),
    "class docstring with a field that is gone": (
        "src/modejump/errors.py",
        "class A:\n" + HEADING + '    g : int\n        One.\n    h : int\n        Two.\n    """\n\n    g: int = 1\n',
        "errors.py:1: docstring of A has unknown parameters: h",
    ),
    "numpy's global state": (
        "tests/test_x.py",
        "import numpy as np\nnp.random.seed(1)\n",
        "test_x.py:2: global random state (numpy.random.seed)",
    ),
    "numpy.random under another name": (
        "bench/run.py",
        "from numpy import random as rnd\nx = rnd.normal(size=3)\n",
        "run.py:2: global random state (numpy.random.normal)",
    ),
    "numpy.random as a module alias": (
        "examples/plot_x.py",
        "import numpy.random as npr\nx = npr.rand()\n",
        "plot_x.py:2: global random state (numpy.random.rand)",
    ),
    "function of numpy.random": (
        "src/modejump/errors.py",
        "from numpy.random import default_rng, rand\n",
        "errors.py:1: global random state (numpy.random.rand)",
    ),
    "RandomState": (
        "src/modejump/errors.py",
        "import numpy as np\nx = np.random.RandomState(3)\n",
        "errors.py:2: global random state (numpy.random.RandomState)",
    ),
    "standard library's random": (
        "tools/x.py",
        "import random\n",
        "x.py:1: global random state (random)",
    ),
    "function of the standard library's random": (
        "tests/test_x.py",
        "def f():\n    from random import shuffle\n",
        "test_x.py:2: global random state (random.shuffle)",
    ),
    "generator without a seed in a test": (
        "tests/test_x.py",
        "import numpy as np\nrng = np.random.default_rng()\n",
        "test_x.py:2: default_rng without a seed",
    ),
    "marker in a comment": (
        "bench/run.py",
        "x = 1  # TODO make it two\n",
        "run.py:1: TODO without a reason",
    ),
    "marker in a docstring": (
        "tests/test_x.py",
        '"""Tests.\n\nFIXME: all of them.\n"""\n',
        "test_x.py:3: FIXME without a reason",
    ),
    "machine path in code": (
        "src/modejump/errors.py",
        f'DATA = "{MACHINE_PATH}"\n',
        "errors.py:1: path of one machine",
    ),
    "machine path in documentation": (
        "docs/guide/page.rst",
        f"Page\n====\n\nSee ``{MACHINE_PATH}``.\n",
        "docs/guide/page.rst:4: path of one machine",
    ),
    "package without a word on imports": (
        "src/modejump/priors/__init__.py",
        '"""Priors."""\n',
        "__init__.py:1: package docstring does not say what it may import",
    ),
    "package without a docstring": (
        "src/modejump/priors/__init__.py",
        "",
        "__init__.py:1: package docstring does not say what it may import",
    ),
    "broken syntax": (
        "src/modejump/errors.py",
        BROKEN,
        "errors.py:1: not valid Python",
    ),
}

ALLOWED = {
    "imports downwards": (
        "src/modejump/samplers/chain.py",
        "import math\nimport numba\nfrom scipy import special\nfrom ..errors import InputError\n"
        "from modejump.kernels import store\nfrom . import result\nfrom modejump import __version__\n",
    ),
    "anything in the package's own init": (
        "src/modejump/__init__.py",
        '"""Package. May import: everything."""\nfrom .estimators import regressor\n',
    ),
    "foreign libraries above the core": (
        "src/modejump/posterior/table.py",
        "import pandas as pd\n",
    ),
    "docstring and decorators of a long function": (
        "src/modejump/errors.py",
        'import functools\n\n@functools.cache\ndef f() -> None:\n    """One.\n'
        + "\n" * 9
        + '    """\n'
        + LONG_BODY[: -len("    x = 1\n")],
    ),
    "compiled kernels without hints": (
        "src/modejump/kernels/flip.py",
        "from numba import njit\n\n@njit(nogil=True, cache=True)\ndef f(a, b):\n    return a + b\n",
    ),
    "documented parameters of a constructor": (
        "src/modejump/errors.py",
        "class A(B):\n" + HEADING + "    g : int\n        One.\n    **rest : int\n        All.\n"
        '    """\n\n    def __init__(self, *, g: int = 1, **rest: int) -> None:\n        self.g = g\n',
    ),
    "explicit generators": (
        "tests/test_x.py",
        "import numpy as np\nrng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(1)))\n"
        "other = np.random.default_rng(2)\nx = rng.random(3)\n",
    ),
    "fresh entropy where the user asks for it": (
        "src/modejump/errors.py",
        "import numpy as np\nrng = np.random.default_rng(None)\n",
    ),
    "marker with a reason": (
        "bench/run.py",
        "x = 1  # TODO(needs a second machine) make it two\n",
    ),
    "folders of a web address": (
        "README.md",
        "See https://example.org/home/page and shared/work/notes.\n",
    ),
}


@pytest.mark.parametrize("name", BREACHES)
def test_planted_breach_is_caught(tmp_path: Path, name: str) -> None:
    path, text, expected = BREACHES[name]
    breaches = plant(tmp_path / "tree", path, text)
    assert len(breaches) == 1, breaches
    assert expected in breaches[0]


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed_passes(tmp_path: Path, name: str) -> None:
    path, text = ALLOWED[name]
    assert plant(tmp_path / "tree", path, text) == []


def test_every_rule_has_a_planted_breach() -> None:
    planted = [check_house.Source(PurePosixPath(path), text) for path, text, _ in BREACHES.values()]
    caught = {
        rule.check
        for source in planted
        for rule in check_house.RULES
        if source.text != BROKEN and rule.applies(source) and list(rule.check(source))
    }
    assert caught == {rule.check for rule in check_house.RULES}


def test_generated_files_are_left_alone(tmp_path: Path) -> None:
    for folder in ("docs/_build", "docs/auto_examples", "docs/api/generated", "src/modejump/.cache"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.py").write_text(f'import random\nDATA = "{MACHINE_PATH}"\n', encoding="utf-8")
    assert check_house.check_house(tmp_path) == []


def test_command_prints_one_line_for_each_breach(tmp_path: Path) -> None:
    plant(tmp_path / "tree", "tests/test_x.py", "import random  # TODO\n")
    command = [sys.executable, str(ROOT / "tools" / "check_house.py"), str(tmp_path / "tree")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == ""


def test_the_house_is_clean() -> None:
    breaches = check_house.check_house(ROOT)
    assert not breaches, "\n".join(map(str, breaches))


def test_an_import_of_what_is_gone_is_caught(tmp_path: Path) -> None:
    package = tmp_path / "src" / "modejump" / "samplers"
    package.mkdir(parents=True)
    (package / "scout.py").write_text("class Scouting: ...\n", encoding="utf-8")
    (package / "__init__.py").write_text('"""Samplers. May import: kernels."""\n', encoding="utf-8")
    text = "from modejump.samplers import scout\nfrom modejump.samplers.warmup.best_first import Scouting, scout\n"
    found = plant(tmp_path, "tests/test_scout.py", text + "from modejump.samplers.gone import anything\n")
    assert [line.split(": ", 1) for line in found if line.startswith("tests")] == [
        ["tests/test_scout.py:2", "imports scout from modejump.samplers.warmup.best_first, which has no such name"],
        ["tests/test_scout.py:3", "imports from modejump.samplers.gone, which does not exist"],
    ]
