"""Each rule of the house catches a planted breach, lets the allowed pass, and holds for the real tree."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import check_house
from modejump.core.compilation import PACKAGE, ROOMS

ROOT = Path(__file__).resolve().parents[2]
LONG_BODY = "    x = 1\n" * check_house.FUNCTION_LINES
HEADING = '    """Do.\n\n    Parameters\n    ----------\n'
# Written in two halves, so that the rule does not find it here.
MACHINE_PATH = "/" + "home/somebody/data.csv"
SRC = "src/modejump"
ERRORS = f"{SRC}/core/errors.py"
ROOM = f"{SRC}/priors/__init__.py"
LINK = re.compile(r"""\]\(([^)\s]+)|\bsrc=["']([^"']+)""")
DOCSTRING = '"""Room. May import: core."""\n'

# Rule: planted files and the breach that is expected, each time the only one.
BREACHES: list[tuple[str, dict[str, str], str]] = [
    (
        "layers",
        {f"{SRC}/priors/a.py": "from modejump.samplers.result import X\n"},
        "a.py:1: priors may not import samplers",
    ),
    ("layers", {f"{SRC}/problem/a.py": "import modejump.kernels.store\n"}, "a.py:1: problem may not import kernels"),
    (
        "layers",
        {f"{SRC}/likelihoods/a.py": "from ..posterior import b\n"},
        "a.py:1: likelihoods may not import posterior",
    ),
    ("layers", {f"{SRC}/likelihoods/a.py": "from .. import cli\n"}, "a.py:1: likelihoods may not import cli"),
    ("layers", {ROOM: DOCSTRING + "from ..samplers import b\n"}, "__init__.py:2: priors may not import samplers"),
    (
        "layers",
        {f"{SRC}/kernels/a.py": "def f() -> None:\n    from modejump.estimators import b\n"},
        "a.py:2: kernels may not import estimators",
    ),
    ("layers", {f"{SRC}/plots/a.py": "import modejump.experiments\n"}, "a.py:1: plots may not import experiments"),
    ("layers", {f"{SRC}/cli.py": "from modejump import BGLMRegressor\n"}, "cli may not import the package itself"),
    ("layers", {f"{SRC}/attic.py": ""}, "attic.py:1: 'attic' stands on no floor"),
    ("layer_list", {"CONTRIBUTING.md": "Layers: core < cli.\n"}, "CONTRIBUTING.md:1: the list of layers is not that"),
    ("layer_list", {"README.md": "    core/\n"}, "README.md:1: the tree of the package lacks data/, features/"),
    (
        "core_libraries",
        {f"{SRC}/samplers/a.py": "def f() -> None:\n    import pandas as pd\n"},
        "a.py:2: the numeric core (samplers) may not import pandas",
    ),
    ("module_length", {ERRORS: "x = 1\n" * 501}, "errors.py:501: module has 501 lines"),
    ("function_length", {ERRORS: f"def f() -> None:\n{LONG_BODY}"}, "errors.py:1: function f has 61 lines"),
    (
        "function_length",
        {ERRORS: "class A:\n    def f(self) -> None:\n" + LONG_BODY.replace("    ", "        ")},
        "errors.py:2: function f has 61 lines",
    ),
    (
        "folder_size",
        {f"{SRC}/kernels/a{i}.py": "" for i in range(15)},
        f"{SRC}/kernels:1: 15 modules in one folder, at most 14",
    ),
    (
        "type_hints",
        {ERRORS: "def f(a, b: int = 1, *rest):\n    return a\n"},
        "errors.py:1: function f lacks type hints for a, rest, return",
    ),
    (
        "documented_parameters",
        {
            ERRORS: "def f(a: int) -> int:\n" + HEADING + "    a, gone : int\n        Two.\n\n"
            '    Returns\n    -------\n    int\n        One.\n    """\n    return a\n'
        },
        "errors.py:1: docstring of f has unknown parameters: gone",
    ),
    (
        "documented_parameters",
        {
            ERRORS: "class A:\n"
            + HEADING
            + '    g : int\n        One.\n    h : int\n        Two.\n    """\n\n    g: int = 1\n'
        },
        "errors.py:1: docstring of A has unknown parameters: h",
    ),
    (
        "package_docstring",
        {ROOM: '"""Priors."""\n'},
        "__init__.py:1: package docstring does not say what it may import",
    ),
    ("package_docstring", {ROOM: ""}, "__init__.py:1: package docstring does not say what it may import"),
    (
        "fixed_seeds",
        {"tests/test_x.py": "import numpy as np\nrng = np.random.default_rng()\n"},
        "test_x.py:2: default_rng without a seed",
    ),
    ("fixed_seeds", {"bench/x.py": "rng = default_rng(None)\n"}, "x.py:1: default_rng without a seed"),
    ("machine_paths", {ERRORS: f'DATA = "{MACHINE_PATH}"\n'}, "errors.py:1: path of one machine"),
    ("machine_paths", {"docs/a.rst": f"Page\n====\n\nSee ``{MACHINE_PATH}``.\n"}, "docs/a.rst:4: path of one machine"),
    (
        "imported_names",
        {f"{SRC}/samplers/chain.py": "X = 1\n", "tests/test_x.py": "from modejump.samplers.gone import X\n"},
        "test_x.py:1: imports from modejump.samplers.gone, which does not exist",
    ),
    (
        "imported_names",
        {
            f"{SRC}/samplers/chain.py": "X = 1\n",
            "bench/x.py": "def f():\n    from modejump.samplers.chain import X, Y\n",
        },
        "x.py:2: imports Y from modejump.samplers.chain, which has no such name",
    ),
    (
        "one_version",
        {f"{SRC}/__init__.py": '"""May import: all."""\n__version__ = "2.0"\n', "CITATION.cff": "version: 1.0\n"},
        "CITATION.cff:1: version ['1.0'] is not that of the package, ['2.0']",
    ),
    ("family_names", {f"{SRC}/problem/a.py": 'x = f.family == "gaussian"\n'}, "a.py:1: compares with 'gaussian'"),
    ("family_names", {f"{SRC}/problem/a.py": 'x = f in ("gamma", "tweedie")\n'}, "a.py:1: compares with 'gamma'"),
    ("private_words", {"docs/a.rst": "The scouts went on.\n"}, "docs/a.rst:1: 'scout' is a word of our own"),
    ("private_words", {f"{SRC}/core/a.py": "class CrewOfThreads: ...\n"}, "a.py:1: 'crew' is a word of our own"),
    ("private_words", {"tests/test_seat.py": ""}, "test_seat.py:1: 'seat' is a word of our own: say 'place'"),
    ("private_words", {ERRORS: "self.hands = 2\n"}, "errors.py:1: 'hands' is a word of our own"),
    ("", {ERRORS: "def f(:\n"}, "errors.py:1: not valid Python"),
]

ALLOWED: dict[str, dict[str, str]] = {
    "imports downwards": {
        f"{SRC}/samplers/chain.py": "import math\nimport numba\nfrom scipy import special\n"
        "from ..core.errors import X\nfrom modejump.kernels import store\nfrom . import result\n"
        "from modejump import __version__\n"
    },
    "anything in the package's own init": {
        f"{SRC}/__init__.py": '"""Package. May import: everything."""\nfrom .estimators import regressor\n'
    },
    "foreign libraries above the core": {f"{SRC}/posterior/table.py": "import pandas as pd\n"},
    "docstring and decorators of a long function": {
        ERRORS: 'import functools\n\n@functools.cache\ndef f() -> None:\n    """One.\n'
        + "\n" * 9
        + '    """\n'
        + LONG_BODY
    },
    "compiled kernels without hints": {
        f"{SRC}/kernels/flip.py": "from numba import njit\n\n@njit(nogil=True)\ndef f(a, b):\n    return a + b\n"
    },
    "documented parameters of a constructor": {
        ERRORS: "class A(B):\n" + HEADING + "    g : int\n        One.\n    **rest : int\n        All.\n"
        '    """\n\n    def __init__(self, *, g: int = 1, **rest: int) -> None:\n        self.g = g\n'
    },
    "explicit generators": {"tests/test_x.py": "import numpy as np\nrng = np.random.default_rng(2)\n"},
    "fresh entropy where the user asks for it": {ERRORS: "import numpy as np\nrng = np.random.default_rng(None)\n"},
    "folders of a web address": {"docs/a.rst": "See https://example.org/home/page and shared/work/notes.\n"},
    "families among likelihoods": {f"{SRC}/likelihoods/a.py": 'x = f.family == "gaussian"\n'},
    "words that only contain one of ours": {ERRORS: "x = 'endear the handset'\n"},
}


def plant(root: Path, files: dict[str, str], *rules: str) -> list[str]:
    """Write files into an empty tree and return the breaches found there, as printed."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    chosen = tuple(getattr(check_house, rule) for rule in rules) or check_house.RULES + check_house.NOT_YET
    return [str(breach) for breach in check_house.check_house(root, chosen)]


@pytest.mark.parametrize("rule, files, expected", BREACHES)
def test_a_planted_breach_is_caught(tmp_path: Path, rule: str, files: dict[str, str], expected: str) -> None:
    (breach,) = plant(tmp_path, files, *filter(None, [rule]))
    assert expected in breach


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_allowed_passes(tmp_path: Path, name: str) -> None:
    assert plant(tmp_path, ALLOWED[name]) == []


def test_every_rule_has_a_planted_breach() -> None:
    planted = {rule for rule, _, _ in BREACHES if rule}
    assert planted == {rule.__name__ for rule in check_house.RULES + check_house.NOT_YET}


def test_generated_files_are_left_alone(tmp_path: Path) -> None:
    folders = ("docs/_build", "docs/auto_examples", "docs/api/generated", f"{SRC}/.cache")
    assert plant(tmp_path, {f"{folder}/x.py": f'DATA = "{MACHINE_PATH}"\n' for folder in folders}) == []


def test_the_command_prints_one_line_for_each_breach(tmp_path: Path) -> None:
    plant(tmp_path, {"tests/test_x.py": f"default_rng()\n# {MACHINE_PATH}\n"})
    command = [sys.executable, str(ROOT / "tools" / "check_house.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == ""


def test_the_house_is_clean() -> None:
    breaches = check_house.check_house(ROOT)
    assert not breaches, "\n".join(map(str, breaches))


def relative_links(text: str) -> set[str]:
    """Files that links and images of a page lead to."""
    found = {inline or image for inline, image in LINK.findall(text)}
    return {link.partition("#")[0] for link in found if not re.match(r"[a-z]+:|#", link)}


def tracked_files() -> set[str]:
    """What a reader gets: all that Git tracks, or what is there where this is no clone."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return set(listed.stdout.splitlines())
    return {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*")}


def test_links_and_images_are_found_in_a_page() -> None:
    text = "See [a](a.md#part), ![b](docs/b.png) and <img src='c.svg'>.\n[web](https://example.org) [here](#part)\n"
    assert relative_links(text) == {"a.md", "docs/b.png", "c.svg"}


def test_links_and_images_of_the_first_pages_lead_to_tracked_files() -> None:
    tracked = tracked_files()
    linked = {page.name: relative_links(page.read_text(encoding="utf-8")) for page in sorted(ROOT.glob("*.md"))}
    assert linked["README.md"] and linked["CONTRIBUTING.md"]
    assert {page: links - tracked for page, links in linked.items() if links - tracked} == {}


def test_compiled_code_is_stamped_by_the_floors_that_may_shape_it() -> None:
    floors = [room for floor in check_house.LAYERS for room in floor]
    assert tuple(floors[: len(ROOMS)]) == ROOMS
    above = [path for room in floors[len(ROOMS) :] for path in (PACKAGE / room).rglob("*.py")]
    compiled = re.compile(r"^@(entry|kernel|summing|implements)", re.MULTILINE)
    assert above and not [path for path in above if compiled.search(path.read_text(encoding="utf-8"))]
