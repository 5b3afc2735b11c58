"""Check the rules of the house that ruff, mypy and numpydoc do not know.

``python tools/check_house.py [ROOT]`` prints one line for each breach and exits with status 1 if there is any. Every
rule is one function from the house to its breaches; ``tests/house/test_house.py`` plants a breach of each.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

PACKAGE = "modejump"

# Lower rooms never import upper ones; rooms on one floor do not import each other.
LAYERS = (
    ("core",),
    ("data",),
    ("features",),
    ("priors",),
    ("likelihoods",),
    ("problem",),
    ("kernels",),
    ("runtime",),
    ("samplers",),
    ("posterior",),
    ("report",),
    ("estimators",),
    ("plots", "experiments"),
    ("commands",),
    ("cli",),
)
# The package's own __init__ and __main__ stand above all rooms: they may import any, and none imports them.
ROOF = "the package itself"
VERSION = (PACKAGE, "__version__")  # the one thing of the roof that every room may read
FLOOR = {room: floor for floor, rooms in enumerate(LAYERS) for room in rooms} | {ROOF: len(LAYERS)}

NUMERIC_CORE = {"features", "priors", "likelihoods", "problem", "kernels", "samplers"}
CORE_LIBRARIES = {"numpy", "scipy", "numba"}

MODULE_LINES = 500
FUNCTION_LINES = 60
FOLDER_FILES = 14

# What functions are handed to when they are compiled, or are plain twins of compiled ones: Numba reads no type hints.
NUMBA = {
    "kernel", "entry", "summing", "fused", "generic", "implements", "compiled", "plain", "c_function", "Builtin",
    "njit", "cfunc", "overload", "intrinsic", "lower_getattr_generic", "lower_setattr_generic", "lower_builtin",
    "type_callable",
}  # fmt: skip

FAMILIES = {"gaussian", "binomial", "poisson", "gamma"}
# Words of our own, and what a reader would search for instead.
PRIVATE_WORDS = {
    "guest": "fresh feature", "scout": "best-first search", "crew": "executor", "desk": "context",
    "ascent": "score search", "furnish": "place", "parcel": "chunk", "dear": "expensive", "going on": "resume",
}  # fmt: skip
# Plain English in a sentence, jargon in the name of a function, class, module or attribute.
PRIVATE_NAMES = {
    "hands": "thread pool", "seat": "place", "chances": "mean probability",
    "plant": "set",
}  # fmt: skip

# The section ends at the next heading, which is a line above a rule of dashes, or with the docstring.
PARAMETER_SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?=^[^\n]+\n-{3,}$|\Z)", re.MULTILINE | re.DOTALL)
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(work|root|home)/")
CITED_VERSION = re.compile(r"^version: (.*)$", re.MULTILINE)
OWN_VERSION = re.compile(r'^__version__ = "(.*)"$', re.MULTILINE)

FOLDERS = ("src", "tests", "bench", "examples", "tools", "docs")
TEXT_SUFFIXES = {".py", ".md", ".rst", ".toml", ".cff", ".txt", ".yml", ".yaml"}
NOT_OURS = {"__pycache__", "_build", "generated", "auto_examples"}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, order=True)
class Breach:
    """One broken rule: where, and what to do about it."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Source:
    """One file and its path relative to the root."""

    path: PurePosixPath
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the syntax tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[FunctionNode]:
        """All functions and methods, nested ones included."""
        return [node for node in self.nodes if isinstance(node, FunctionNode)]

    @property
    def module(self) -> tuple[str, ...]:
        """Dotted name of a file under src, as parts: ``("modejump", "priors", "models")``."""
        parts = self.path.with_suffix("").parts[1:]
        return parts[:-1] if parts[-1] == "__init__" else parts

    @property
    def room(self) -> str:
        """The room of the package that a file under src belongs to."""
        return room_of(self.module)

    def breach(self, line: int, message: str) -> Breach:
        """A breach in this file."""
        return Breach(str(self.path), line, message)


class House:
    """Our own files under a root, nothing generated.

    Parameters
    ----------
    root : Path
        Where the repository is.
    """

    def __init__(self, root: Path) -> None:
        paths = [p for p in root.iterdir() if p.is_file()]
        paths += [p for folder in FOLDERS for p in (root / folder).rglob("*") if p.is_file()]
        names = [(PurePosixPath(p.relative_to(root).as_posix()), p) for p in sorted(paths) if p.suffix in TEXT_SUFFIXES]
        ours = [(name, p) for name, p in names if not any(part in NOT_OURS or part[0] == "." for part in name.parts)]
        self.texts = [Source(name, p.read_text(encoding="utf-8")) for name, p in ours]
        self.broken = [breach for source in self.texts if (breach := _syntax_error(source))]
        unreadable = {breach.path for breach in self.broken}
        self._python = [s for s in self.texts if s.path.suffix == ".py" and str(s.path) not in unreadable]

    def python(self, *folders: str) -> Iterator[Source]:
        """Python files of some folders, or all of them."""
        return (source for source in self._python if not folders or source.path.parts[0] in folders)

    def text(self, name: str) -> Source | None:
        """One file, where it is there."""
        return next((source for source in self.texts if str(source.path) == name), None)


def _syntax_error(source: Source) -> Breach | None:
    if source.path.suffix == ".py":
        try:
            source.tree  # noqa: B018
        except SyntaxError as error:
            return source.breach(error.lineno or 1, f"not valid Python: {error.msg}")
    return None


def room_of(module: tuple[str, ...]) -> str:
    """The room that a module of the package belongs to."""
    return module[1] if len(module) > 1 and module[1] != "__main__" else ROOF


def imported_modules(source: Source) -> Iterator[tuple[int, tuple[str, ...]]]:
    """All imports, function-level ones included, as (line, absolute dotted name in parts)."""
    package = source.module if source.path.name == "__init__.py" else source.module[:-1]
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            prefix = package[: len(package) - node.level + 1] if node.level else ()
            target = prefix + tuple(node.module.split(".") if node.module else ())
            # `from modejump import priors` names the room only in its second half.
            for alias in node.names:
                yield node.lineno, (*target, alias.name) if target == (PACKAGE,) else target


def layers(house: House) -> Iterator[Breach]:
    """Lower rooms never import upper ones."""
    for source in house.python("src"):
        if source.room not in FLOOR:
            yield source.breach(1, f"{source.room!r} stands on no floor: place it in LAYERS of tools/check_house.py")
            continue
        for line, target in imported_modules(source):
            other = room_of(target) if room_of(target) in FLOOR else ROOF
            upwards = other != source.room and FLOOR[other] >= FLOOR[source.room]
            if upwards and target[0] == PACKAGE and target != VERSION:
                yield source.breach(line, f"{source.room} may not import {other} ({'.'.join(target)}): only downwards")


def layer_list(house: House) -> Iterator[Breach]:
    """CONTRIBUTING lists the layers as they are here, and README every room."""
    wanted = " < ".join(", ".join(rooms) for rooms in LAYERS)
    contributing, readme = house.text("CONTRIBUTING.md"), house.text("README.md")
    if contributing and wanted not in " ".join(contributing.text.split()):
        yield contributing.breach(1, f"the list of layers is not that of tools/check_house.py: {wanted}")
    missing = [room for rooms in LAYERS[:-1] for room in rooms if readme and f"    {room}/" not in readme.text]
    if readme and missing:
        yield readme.breach(1, f"the tree of the package lacks {', '.join(f'{room}/' for room in missing)}")


def core_libraries(house: House) -> Iterator[Breach]:
    """The numeric core needs numpy, scipy, numba and the standard library only."""
    allowed = CORE_LIBRARIES | set(sys.stdlib_module_names) | {PACKAGE}
    for source in house.python("src"):
        for line, target in imported_modules(source) if source.room in NUMERIC_CORE else ():
            if target[0] not in allowed:
                yield source.breach(line, f"the numeric core ({source.room}) may not import {target[0]}")


def module_length(house: House) -> Iterator[Breach]:
    """A module has at most ``MODULE_LINES`` lines, all counted."""
    for source in house.python("src", "tools"):
        lines = source.text.count("\n")
        if lines > MODULE_LINES:
            yield source.breach(MODULE_LINES + 1, f"module has {lines} lines, at most {MODULE_LINES}: split it")


def function_length(house: House) -> Iterator[Breach]:
    """A function has at most ``FUNCTION_LINES`` lines, decorators and docstring not counted."""
    for source in house.python("src", "tools"):
        for node in source.functions:
            first = node.body[0]
            documented = ast.get_docstring(node, clean=False) is not None
            begin = (first.end_lineno or first.lineno) if documented else node.lineno - 1
            lines = (node.end_lineno or node.lineno) - begin
            if lines > FUNCTION_LINES:
                message = f"function {node.name} has {lines} lines, at most {FUNCTION_LINES}: split it"
                yield source.breach(node.lineno, message)


def folder_size(house: House) -> Iterator[Breach]:
    """A folder of the package has at most ``FOLDER_FILES`` modules."""
    folders: dict[PurePosixPath, int] = defaultdict(int)
    for source in house.python("src"):
        folders[source.path.parent] += source.path.name != "__init__.py"
    for folder, files in folders.items():
        if files > FOLDER_FILES:
            yield Breach(str(folder), 1, f"{files} modules in one folder, at most {FOLDER_FILES}: split or join them")


def _called(node: ast.expr) -> str:
    """Name of what is called, also where its outcome is called again: ``implements(f, Kind)(g)``."""
    while isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def type_hints(house: House) -> Iterator[Breach]:
    """Functions have type hints, those compiled by Numba and their plain twins excepted."""
    for source in house.python("src", "tools"):
        calls = [node for node in source.nodes if isinstance(node, ast.Call) and _called(node) in NUMBA]
        handed = {name.id for call in calls for name in call.args if isinstance(name, ast.Name)}
        kernels = [f for f in source.functions if f.name in handed or NUMBA & set(map(_called, f.decorator_list))]
        exempt = {inner for outer in kernels for inner in ast.walk(outer)}
        for node in source.functions:
            bare = [a.arg for a in _arguments(node) if a.annotation is None and a.arg not in ("self", "cls")]
            if node.returns is None and node.name != "__init__":
                bare.append("return")
            if bare and node not in exempt and not node.name.endswith("_plain"):
                yield source.breach(node.lineno, f"function {node.name} lacks type hints for {', '.join(bare)}")


def _arguments(node: FunctionNode) -> list[ast.arg]:
    spec = node.args
    return [a for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg) if a is not None]


def _signature_names(node: FunctionNode | ast.ClassDef) -> set[str]:
    """Parameters of a function; of a class those of its constructor and its annotated fields."""
    if not isinstance(node, ast.ClassDef):
        return {argument.arg for argument in _arguments(node)}
    targets = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
    fields = {target.id for target in targets if isinstance(target, ast.Name)}
    inits = [item for item in node.body if isinstance(item, FunctionNode) and item.name in ("__init__", "__new__")]
    return fields.union(*map(_signature_names, inits))


def _documented_names(docstring: str) -> Iterator[str]:
    match = PARAMETER_SECTION.search(docstring)
    for line in match[1].splitlines() if match else ():
        if line and not line[0].isspace():
            yield from (name.strip(" *") for name in line.split(" : ")[0].split(","))


def documented_parameters(house: House) -> Iterator[Breach]:
    """A docstring names no parameter that the signature does not have; ruff checks that none is missing."""
    for source in house.python("src"):
        for node in source.nodes:
            if isinstance(node, FunctionNode | ast.ClassDef):
                known = _signature_names(node)
                unknown = set(_documented_names(ast.get_docstring(node) or "")) - known
                # A class without fields and __init__ of its own documents those that it inherits.
                inherits = isinstance(node, ast.ClassDef) and bool(node.bases) and not known
                if unknown and not inherits:
                    names = ", ".join(sorted(unknown))
                    yield source.breach(node.lineno, f"docstring of {node.name} has unknown parameters: {names}")


def package_docstring(house: House) -> Iterator[Breach]:
    """The docstring of a room says what it may import."""
    for source in house.python("src"):
        is_room = source.path.name == "__init__.py" and len(source.module) <= 2
        if is_room and "may import" not in (ast.get_docstring(source.tree) or "").lower():
            yield source.breach(1, 'package docstring does not say what it may import: add "May import: ..."')


def fixed_seeds(house: House) -> Iterator[Breach]:
    """Tests, benchmarks and examples repeat: their generators are seeded with a number."""
    for source in house.python("tests", "bench", "examples"):
        for node in source.nodes:
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="default_rng") | ast.Name(id="default_rng"),
                    args=[] | [ast.Constant(value=None)],
                    keywords=[],
                ):
                    yield source.breach(node.lineno, "default_rng without a seed: give it a number")


def machine_paths(house: House) -> Iterator[Breach]:
    """No file names a folder of somebody's machine."""
    for source in house.texts:
        for number, line in enumerate(source.text.splitlines(), start=1):
            if match := MACHINE_PATH.search(line):
                yield source.breach(number, f"path of one machine ({match[0]}): make it relative")


def _bound_names(source: Source) -> Iterator[str]:
    """Names that a module binds, also behind conditions."""
    for node in source.nodes:
        if isinstance(node, FunctionNode | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)


def imported_names(house: House) -> Iterator[Breach]:
    """What a test takes from the package is there, so that a stale import is seen before any test runs."""
    known = {source.module: set(_bound_names(source)) for source in house.python("src")}
    for source in house.python(*FOLDERS[1:]):  # mypy looks after the package itself
        for node in source.nodes:
            if not isinstance(node, ast.ImportFrom) or node.level or not (node.module or "").startswith(PACKAGE):
                continue
            module = tuple((node.module or "").split("."))
            if module not in known:
                yield source.breach(node.lineno, f"imports from {node.module}, which does not exist")
                continue
            for alias in node.names:
                if alias.name not in known[module] and (*module, alias.name) not in known:
                    yield source.breach(node.lineno, f"imports {alias.name} from {node.module}, which has no such name")


def one_version(house: House) -> Iterator[Breach]:
    """CITATION.cff has the version of the package."""
    own, cited = house.text(f"src/{PACKAGE}/__init__.py"), house.text("CITATION.cff")
    versions = [OWN_VERSION.findall(own.text), CITED_VERSION.findall(cited.text)] if own and cited else [[], []]
    if cited and versions[0] != versions[1]:
        yield cited.breach(1, f"version {versions[1]} is not that of the package, {versions[0]}")


def family_names(house: House) -> Iterator[Breach]:
    """Nobody but the likelihoods compares a family's name: a family answers for itself."""
    for source in house.python("src"):
        for node in source.nodes if source.room != "likelihoods" else ():
            if isinstance(node, ast.Compare):
                for name in sorted(FAMILIES & {str(getattr(part, "value", "")) for part in ast.walk(node)}):
                    yield source.breach(node.lineno, f"compares with {name!r}: ask the family")


def _words(name: str) -> str:
    """A name or a line with camel case and underscores taken apart."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name).lower()


def _names_given(source: Source) -> Iterator[tuple[int, str]]:
    """Names of functions, classes and attributes where they are defined."""
    for node in source.nodes:
        if isinstance(node, FunctionNode | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def private_words(house: House) -> Iterator[Breach]:
    """Names and sentences use words that a statistician or a Python programmer would search for."""
    pattern = re.compile(rf"\b({'|'.join(PRIVATE_WORDS)})(s|es|ed|ing)?\b")
    ours = [s for s in house.texts if s.path.name not in ("check_house.py", "test_house.py", "CHANGELOG.md")]
    for source in ours:
        for number, line in [(1, source.path.stem), *enumerate(source.text.splitlines(), start=1)]:
            for word in dict.fromkeys(match[1] for match in pattern.finditer(_words(line))):
                yield source.breach(number, f"{word!r} is a word of our own: say {PRIVATE_WORDS[word]!r}")
    for source in house.python():
        for number, name in [(1, source.path.stem), *_names_given(source)] if source in ours else ():
            for word in PRIVATE_NAMES.keys() & set(_words(name).split()):
                yield source.breach(number, f"{word!r} is a word of our own: say {PRIVATE_NAMES[word]!r}")


RULES: tuple[Callable[[House], Iterator[Breach]], ...] = (
    layers, layer_list, core_libraries, module_length, function_length, type_hints, documented_parameters,
    package_docstring, fixed_seeds, machine_paths, imported_names, one_version, family_names,
)  # fmt: skip
# Known to be broken: `--all` shows where. Each moves up as soon as the house is clean.
NOT_YET = (folder_size, private_words)


def check_house(root: Path, rules: tuple[Callable[[House], Iterator[Breach]], ...] = RULES) -> list[Breach]:
    """All breaches under a root, in order of file and line."""
    house = House(root)
    return sorted({*house.broken, *(breach for rule in rules for breach in rule(house))})


def main(arguments: list[str]) -> int:
    """Print the breaches under the given root (default: this repository) and return the exit status."""
    rules = RULES + NOT_YET if "--all" in arguments else RULES
    roots = [Path(argument) for argument in arguments if argument != "--all"]
    breaches = check_house(roots[0] if roots else Path(__file__).resolve().parent.parent, rules)
    for breach in breaches:
        print(breach)
    return 1 if breaches else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
