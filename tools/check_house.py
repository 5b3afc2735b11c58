"""Check the rules of the house that ruff and mypy do not know.

``python tools/check_house.py [ROOT]`` prints one line for each breach and exits with status 1 if there is
any. Every rule is one function from a parsed file to its breaches; ``RULES`` says where each applies.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

PACKAGE = "modejump"

# Lower rooms never import upper ones; rooms on one floor do not import each other.
LAYERS = (
    ("errors",),
    ("linking",),
    ("jit", "handle"),
    ("priors", "features"),
    ("likelihoods", "design"),
    ("problem",),
    ("kernels",),
    ("samplers",),
    ("fingerprint",),
    ("posterior",),
    ("progress", "sources"),
    ("estimators",),
    ("plots", "experiments"),
    ("commands",),
    ("cli",),
)
# The package's own __init__ and __main__ stand above all rooms: they may import any, and none imports them.
ROOF = "the package itself"
VERSION = (PACKAGE, "__version__")  # the one thing of the roof that every room may read
FLOOR = {room: floor for floor, rooms in enumerate(LAYERS) for room in rooms} | {ROOF: len(LAYERS)}

NUMERIC_CORE = {
    "errors", "linking", "jit", "handle", "priors", "features", "likelihoods", "design", "problem", "kernels",
    "samplers",
}  # fmt: skip
CORE_LIBRARIES = {"numpy", "scipy", "numba"}

MODULE_LINES = 500
FUNCTION_LINES = 60

RANDOM_ALLOWED = {
    "default_rng", "Generator", "SeedSequence", "BitGenerator",
    "PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937",
}  # fmt: skip

# ``kernel`` and ``entry`` are the package's own, from its room jit.
NUMBA_DECORATORS = {
    "kernel", "entry", "summing", "fused", "njit", "jit", "vectorize", "guvectorize", "cfunc",
    "overload", "intrinsic", "lower_getattr_generic", "lower_builtin", "type_callable",
}  # fmt: skip

# The section ends at the next heading, which is a line above a rule of dashes, or with the docstring.
PARAMETER_SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?=^[^\n]+\n-{3,}$|\Z)", re.MULTILINE | re.DOTALL)
MARKER = re.compile(r"\b(TODO|FIXME)\b(?!\s*\([^)\s][^)]*\))")
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(work|root|home)/")

PYTHON_FOLDERS = ("src", "tests", "bench", "examples", "tools", "docs")
TEXT_SUFFIXES = {".py", ".md", ".rst", ".toml", ".cff", ".txt"}
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
    """One file, its path relative to the root, and its syntax tree where it is Python."""

    path: PurePosixPath
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree; an empty one for text that is not Python."""
        return ast.parse(self.text) if self.path.suffix == ".py" else ast.parse("")

    @property
    def module(self) -> tuple[str, ...]:
        """Dotted name of a file under src, as parts: ``("modejump", "priors", "models")``."""
        parts = self.path.with_suffix("").parts[1:]
        return parts[:-1] if parts[-1] == "__init__" else parts

    @property
    def package(self) -> tuple[str, ...]:
        """What relative imports of this file start from."""
        return self.module if self.path.name == "__init__.py" else self.module[:-1]

    def breach(self, line: int, message: str) -> Breach:
        """A breach in this file."""
        return Breach(str(self.path), line, message)


Check = Callable[[Source], Iterator[Breach]]


def room_of(module: tuple[str, ...]) -> str:
    """The room that a module of the package belongs to."""
    return module[1] if len(module) > 1 and module[1] != "__main__" else ROOF


def imported_modules(source: Source) -> Iterator[tuple[int, tuple[str, ...]]]:
    """All imports, function-level ones included, as (line, absolute dotted name in parts)."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            prefix: tuple[str, ...] = ()
            if node.level:
                prefix = source.package[: len(source.package) - node.level + 1]
            target = prefix + tuple(node.module.split(".") if node.module else ())
            # `from modejump import priors` names the room only in its second half.
            for alias in node.names:
                yield node.lineno, (*target, alias.name) if target == (PACKAGE,) else target


def check_layers(source: Source) -> Iterator[Breach]:
    """Lower rooms never import upper ones."""
    room = room_of(source.module)
    if room not in FLOOR:
        yield source.breach(1, f"{room!r} stands on no floor: place it in LAYERS of tools/check_house.py")
        return
    for line, target in imported_modules(source):
        if target[0] != PACKAGE or target == VERSION:
            continue
        other = room_of(target)
        if other not in FLOOR:
            other = ROOF
        if other != room and FLOOR[other] >= FLOOR[room]:
            yield source.breach(line, f"{room} may not import {other} ({'.'.join(target)}): only downwards")


def check_core_libraries(source: Source) -> Iterator[Breach]:
    """The numeric core needs numpy, scipy, numba and the standard library only."""
    room = room_of(source.module)
    if room not in NUMERIC_CORE:
        return
    allowed = CORE_LIBRARIES | set(sys.stdlib_module_names) | {PACKAGE}
    for line, target in imported_modules(source):
        if target[0] not in allowed:
            yield source.breach(line, f"the numeric core ({room}) may not import {target[0]}")


def check_module_length(source: Source) -> Iterator[Breach]:
    """A module has at most ``MODULE_LINES`` lines, all counted."""
    lines = len(source.text.splitlines())
    if lines > MODULE_LINES:
        yield source.breach(MODULE_LINES + 1, f"module has {lines} lines, at most {MODULE_LINES}: split it")


def functions(tree: ast.AST) -> Iterator[FunctionNode]:
    """All functions and methods, nested ones included."""
    for node in ast.walk(tree):
        if isinstance(node, FunctionNode):
            yield node


def docstring_lines(node: FunctionNode) -> int:
    """How many lines the docstring of a function takes."""
    if ast.get_docstring(node, clean=False) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or first.lineno) - first.lineno + 1


def check_function_length(source: Source) -> Iterator[Breach]:
    """A function has at most ``FUNCTION_LINES`` lines, decorators and docstring not counted."""
    for node in functions(source.tree):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1 - docstring_lines(node)
        if lines > FUNCTION_LINES:
            yield source.breach(
                node.lineno, f"function {node.name} has {lines} lines, at most {FUNCTION_LINES}: split it"
            )


def is_numba_kernel(node: FunctionNode) -> bool:
    """Whether a decorator hands the function to Numba, which reads no type hints."""
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if name in NUMBA_DECORATORS:
            return True
    return False


def check_type_hints(source: Source) -> Iterator[Breach]:
    """Functions have type hints, those compiled by Numba excepted."""
    kernels = filter(is_numba_kernel, functions(source.tree))
    exempt = {inner for kernel in kernels for inner in functions(kernel)}
    for node in functions(source.tree):
        if node in exempt:
            continue
        spec = node.args
        named = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
        starred = [argument for argument in (spec.vararg, spec.kwarg) if argument is not None]
        bare = [a.arg for a in named + starred if a.annotation is None and a.arg not in ("self", "cls")]
        if node.returns is None and node.name != "__init__":
            bare.append("return")
        if bare:
            yield source.breach(node.lineno, f"function {node.name} lacks type hints for {', '.join(bare)}")


def signature_names(node: FunctionNode | ast.ClassDef) -> set[str]:
    """Parameters of a function; of a class those of its ``__init__`` and its annotated fields."""
    if isinstance(node, ast.ClassDef):
        targets = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
        fields = {target.id for target in targets if isinstance(target, ast.Name)}
        inits = [item for item in node.body if isinstance(item, FunctionNode) and item.name == "__init__"]
        return fields.union(*(signature_names(init) for init in inits))
    spec = node.args
    named = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg]
    return {argument.arg for argument in named if argument is not None}


def documented_names(docstring: str) -> Iterator[str]:
    """Names in the parameter section of a numpydoc docstring."""
    match = PARAMETER_SECTION.search(docstring)
    for line in match[1].splitlines() if match else ():
        if line and not line[0].isspace():
            yield from (name.strip(" *") for name in line.split(" : ")[0].split(","))


def check_documented_parameters(source: Source) -> Iterator[Breach]:
    """A docstring names no parameter that the signature does not have; ruff checks that none is missing."""
    for node in ast.walk(source.tree):
        if isinstance(node, FunctionNode | ast.ClassDef):
            ghosts = set(documented_names(ast.get_docstring(node) or "")) - signature_names(node)
            # A class without fields and __init__ of its own documents those that it inherits.
            inherits = isinstance(node, ast.ClassDef) and bool(node.bases) and not signature_names(node)
            if ghosts and not inherits:
                names = ", ".join(sorted(ghosts))
                yield source.breach(node.lineno, f"docstring of {node.name} has unknown parameters: {names}")


def alias_table(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for, as a dotted name."""
    table: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                table[bound] = alias.name if alias.asname else bound
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                table[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return table


def dotted_name(node: ast.AST, aliases: dict[str, str]) -> str:
    """Absolute dotted name of an attribute chain, or "" where it does not start at an import."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id, "")
    if isinstance(node, ast.Attribute):
        head = dotted_name(node.value, aliases)
        return f"{head}.{node.attr}" if head else ""
    return ""


def is_global_random(name: str) -> bool:
    """Whether a dotted name is of numpy.random beyond its explicit generators, or of the stdlib random."""
    parts = name.split(".")
    if parts[:2] == ["numpy", "random"]:
        return len(parts) > 2 and parts[2] not in RANDOM_ALLOWED
    return parts[0] == "random"


def check_random_state(source: Source) -> Iterator[Breach]:
    """Random numbers come from explicit generators only."""
    advice = "use an explicit numpy.random.Generator"
    aliases = alias_table(source.tree)
    found: set[tuple[int, str]] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            found |= {(node.lineno, alias.name) for alias in node.names if is_global_random(alias.name)}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {(node.lineno, name) for name in names if is_global_random(name)}
        elif isinstance(node, ast.Attribute):
            # The innermost banned attribute is reported, not the chains that go on from it.
            name = dotted_name(node, aliases)
            if name and is_global_random(name) and not is_global_random(dotted_name(node.value, aliases)):
                found.add((node.lineno, name))
            elif not name and node.attr == "RandomState":
                found.add((node.lineno, node.attr))
    for line, name in sorted(found):
        yield source.breach(line, f"global random state ({name}): {advice}")


def check_fixed_seeds(source: Source) -> Iterator[Breach]:
    """Tests, benchmarks and examples repeat: their generators are seeded with a number."""
    aliases = alias_table(source.tree)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and dotted_name(node.func, aliases) == "numpy.random.default_rng":
            empty = not node.args and not node.keywords
            if empty or any(isinstance(arg, ast.Constant) and arg.value is None for arg in node.args):
                yield source.breach(node.lineno, "default_rng without a seed: give it a number")


def comments_and_docstrings(source: Source) -> Iterator[tuple[int, str]]:
    """The prose of a Python file, line by line."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(source.tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                for offset, line in enumerate(text.splitlines()):
                    yield node.lineno + offset, line


def check_markers(source: Source) -> Iterator[Breach]:
    """Work left for later says why, in parentheses behind the marker."""
    for line, text in comments_and_docstrings(source):
        match = MARKER.search(text)
        if match:
            yield source.breach(line, f"{match[1]} without a reason: write {match[1]}(why it waits)")


def check_machine_paths(source: Source) -> Iterator[Breach]:
    """No file names a folder of somebody's machine."""
    for number, line in enumerate(source.text.splitlines(), start=1):
        match = MACHINE_PATH.search(line)
        if match:
            yield source.breach(number, f"path of one machine ({match[0]}): make it relative")


def check_package_docstring(source: Source) -> Iterator[Breach]:
    """The docstring of a package says what it may import."""
    if source.path.name != "__init__.py":
        return
    docstring = ast.get_docstring(source.tree) or ""
    if not re.search(r"\bmay import\b", docstring, re.IGNORECASE):
        yield source.breach(1, 'package docstring does not say what it may import: add "May import: ..."')


def bound_names(module: ast.Module) -> set[str]:
    """Names that a module binds at its top level, also behind conditions."""
    names = set(alias_table(module))
    for node in ast.walk(module):
        if isinstance(node, FunctionNode | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
    return names


def check_imported_names(source: Source, known: dict[tuple[str, ...], set[str]]) -> Iterator[Breach]:
    """What a file takes from the package is there: a stale import in a test is seen before any test runs."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
            continue
        module = tuple(node.module.split("."))
        if module[0] != PACKAGE:
            continue
        if module not in known:
            yield source.breach(node.lineno, f"imports from {node.module}, which does not exist")
            continue
        for alias in node.names:
            if alias.name not in known[module] and (*module, alias.name) not in known:
                yield source.breach(node.lineno, f"imports {alias.name} from {node.module}, which has no such name")


@dataclass(frozen=True)
class Rule:
    """A check and the files it applies to: folders or file names under the root."""

    check: Check
    places: tuple[str, ...]
    python_only: bool = True

    def applies(self, source: Source) -> bool:
        """Whether the rule looks at this file."""
        if self.python_only and source.path.suffix != ".py":
            return False
        top = source.path.parts[0]
        return top in self.places or ("*.md" in self.places and top.endswith(".md"))


RULES = (
    Rule(check_layers, ("src",)),
    Rule(check_core_libraries, ("src",)),
    Rule(check_module_length, ("src",)),
    Rule(check_function_length, ("src",)),
    Rule(check_type_hints, ("src",)),
    Rule(check_documented_parameters, ("src",)),
    Rule(check_random_state, PYTHON_FOLDERS),
    Rule(check_fixed_seeds, ("tests", "bench", "examples")),
    Rule(check_markers, PYTHON_FOLDERS),
    Rule(check_machine_paths, (*PYTHON_FOLDERS, "*.md"), python_only=False),
    Rule(check_package_docstring, ("src",)),
)


def house_files(root: Path) -> Iterator[Path]:
    """The files that the rules look at: our own text, nothing generated."""
    yield from sorted(root.glob("*.md"))
    for folder in PYTHON_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            parts = path.relative_to(root).parts
            ours = not any(part in NOT_OURS or part.startswith(".") for part in parts)
            if ours and path.suffix in TEXT_SUFFIXES and path.is_file():
                yield path


def check_house(root: Path) -> list[Breach]:
    """All breaches under a root, in order of file and line."""
    breaches: set[Breach] = set()
    files = [(PurePosixPath(path.relative_to(root).as_posix()), path) for path in house_files(root)]
    sources = [Source(name, path.read_text(encoding="utf-8")) for name, path in files]
    known: dict[tuple[str, ...], set[str]] = {}
    for source in sources:
        if source.path.suffix == ".py" and source.path.parts[0] == "src":
            try:
                known[source.module] = bound_names(source.tree)
            except SyntaxError:  # said below, with its line
                known[source.module] = set()
    for source in sources:
        try:
            for rule in RULES:
                if rule.applies(source):
                    breaches.update(rule.check(source))
            if source.path.parts[0] != "src":  # mypy looks after the package itself
                breaches.update(check_imported_names(source, known))
        except SyntaxError as error:
            breaches.add(source.breach(error.lineno or 1, f"not valid Python: {error.msg}"))
    return sorted(breaches)


def main(arguments: list[str]) -> int:
    """Print the breaches under the given root (default: this repository) and return the exit status."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    breaches = check_house(root)
    for breach in breaches:
        print(breach)
    return 1 if breaches else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
