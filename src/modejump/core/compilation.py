"""The one way functions are compiled: without the interpreter lock, division as in NumPy, kept on disk.

*Kernels* are called by compiled code alone. *Entries* are called from Python and hold the code of all kernels below
them; their machine code is kept on disk, under a stamp of every file that may shape it: those of their own room and of
the rooms below. A *generic* function has one implementation for each kind of its first argument, chosen when it is
compiled; a *switch* has one case for each number, chosen when it runs.
"""

from __future__ import annotations

import gc
import hashlib
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, update_wrapper
from pathlib import Path
from types import FunctionType
from typing import Any

from numba import njit
from numba.core import event, types
from numba.core.caching import FunctionCache, NullCache
from numba.core.ccallback import CFunc
from numba.extending import models, overload, register_model, typeof_impl

from modejump.core.errors import ModejumpWarning
from modejump.core.handles import Handle, note_outside
from modejump.core.linking import ENTRY_OPTIONS, KERNEL_OPTIONS

PACKAGE = Path(__file__).parent.parent
# Rooms that hold compiled code, from the ground up: none imports one above it.
ROOMS = (
    "core", "data", "features", "priors", "likelihoods", "problem", "kernels", "runtime", "samplers", "posterior",
)  # fmt: skip
# Compilation that takes longer than this is worth a word.
PATIENCE = 2.0

_compiled: Any = njit  # Numba's stubs do not know all of its options
_PLAIN: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_INNER: dict[str, Any] = {**_PLAIN, "no_cpython_wrapper": True, **KERNEL_OPTIONS}

kernel = _compiled(**_INNER)
# For sums over rows alone: the order of additions is the compiler's, which may then use vector instructions. The result
# is one and the same on one machine; it stays within rounding between machines.
summing = _compiled(**_INNER, fastmath={"reassoc", "contract"})


class Entry:
    """A compiled function that is called from Python, kept on disk, and that kernels may call as well.

    Named tuples are given to it as handles; whoever calls it often makes a `Handle` once.
    """

    def __init__(self, function: Callable[..., Any], *, keep: bool = True) -> None:
        self.compiled: Any = _compiled(**_PLAIN, **ENTRY_OPTIONS)(function)
        self.compiled._cache = _cache_of(function) if keep else NullCache()
        self.py_func = function
        # For kernels that call it.
        self._numba_type_ = self.compiled._numba_type_
        update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        """Call the compiled function."""
        return self.compiled(*[Handle(a) if hasattr(a, "_fields") else a for a in args])


entry = Entry


def c_function(function: Callable[..., Any], name: str, **names: Any) -> Any:
    """A C function ``void f(double *, int64)`` for compiled code to call by its ``address``, kept on disk.

    ``name`` is its place on disk, and ``names`` are global names of its body, such as the kernels that it calls.
    """
    body = FunctionType(function.__code__, function.__globals__ | names, name)
    body.__module__, body.__qualname__ = function.__module__, name
    column: Any = types.CPointer(types.float64)
    made = CFunc(body, ((column, types.int64), types.void), {}, {"nopython": True, "error_model": "numpy"})
    with suppress(RuntimeError):
        made._cache = _PackageCache(body)
    made.compile()
    return made


def _cache_of(function: Callable[..., Any]) -> Any:
    try:
        return _PackageCache(function)
    except RuntimeError:
        _say_uncached()
        return NullCache()


@cache
def _say_uncached() -> None:
    warnings.warn(
        "compiled code cannot be kept on disk, because neither the package's folder nor the user's cache folder can be "
        "written to, so every process compiles anew; set NUMBA_CACHE_DIR to a folder that can.",
        ModejumpWarning,
        stacklevel=5,
    )


@cache
def stamp_up_to(room: str) -> str:
    """A digest of the files of a room and those below it, by their times and sizes; of all for any other name."""
    below = ROOMS[: ROOMS.index(room) + 1] if room in ROOMS else ROOMS
    digest = hashlib.sha256()
    for path in sorted(path for name in below for path in (PACKAGE / name).rglob("*.py")):
        about = path.stat()
        digest.update(f"{path.relative_to(PACKAGE).as_posix()}:{about.st_mtime_ns}:{about.st_size};".encode())
    return digest.hexdigest()


class _Stamped:
    """Where compiled code is kept, with the stamp of all files that may shape it instead of that of one."""

    _py_file: str

    def get_source_stamp(self) -> str:
        file = Path(self._py_file)
        return stamp_up_to(file.relative_to(PACKAGE).parts[0] if file.is_relative_to(PACKAGE) else "")


class _StampedCode(FunctionCache._impl_class):
    _locator_classes = [
        type(f"_Stamped{found.__name__}", (_Stamped, found), {}) for found in FunctionCache._impl_class._locator_classes
    ]


class _PackageCache(FunctionCache):
    """Numba's cache of one function, under the stamp of its rooms; what cannot be read is thrown away."""

    _impl_class = _StampedCode

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a file that was cut short or damaged can fail in any way
            self.flush()
            return None


class _Compiling(event.Listener):
    """Whether some function is being compiled now."""

    depth = 0

    def on_start(self, _: Any) -> None:
        self.depth += 1

    def on_end(self, _: Any) -> None:
        self.depth -= 1


@contextmanager
def compiling(say: Callable[[], None] | None) -> Iterator[None]:
    """While functions are compiled, before any clock runs: call ``say`` where that takes more than two seconds.

    The garbage collector rests meanwhile: it would go through all objects of the compiler again and again.
    """
    listener, collects = _Compiling(), gc.isenabled()

    def speak() -> None:
        if listener.depth and say is not None:
            say()

    timer = threading.Timer(PATIENCE, speak)
    timer.daemon = True
    timer.start()
    gc.disable()
    try:
        with event.install_listener("numba:compile", listener):
            yield
    finally:
        timer.cancel()
        if collects:
            gc.enable()


def generic(function: Callable[..., Any]) -> Any:
    """A function for compiled code with one implementation for each kind of its first argument, a handle; it has no
    body.
    """
    implementations: dict[type | None, Callable[..., Any]] = {}

    def choose(*args: Any) -> Callable[..., Any] | None:
        return implementations.get(args[0].kind, implementations.get(None))

    overload(function, jit_options=_INNER, strict=False)(choose)
    function.implementations = implementations  # type: ignore[attr-defined]
    return function


def implements(function: Any, kind: type | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a generic function an implementation for a class of named tuples, or for all that have none of their own."""

    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        function.implementations[kind] = implementation
        if kind is not None:
            note_outside(kind, implementation)
        return implementation

    return register


class OutsideCode(int):
    """Number of something that was registered from outside the package, for a `switch`.

    To compiled code each is a type of its own, with a digest of the source in it. So the package's functions are
    compiled anew for it, whenever it is registered, and their code is kept on disk apart from that of other sources.

    Made of its place in the registry, its name there, and a digest of its source.
    """

    name: str
    digest: str

    def __new__(cls, number: int, name: str, digest: str) -> OutsideCode:  # noqa: D102
        made = super().__new__(cls, number)
        made.name, made.digest = name, digest
        return made

    def __getnewargs__(self) -> Any:
        return int(self), self.name, self.digest


class _OutsideType(types.Type):
    def __init__(self, code: OutsideCode) -> None:
        self.code = code
        super().__init__(name=f"OutsideCode({int(code)}, {code.name}, {code.digest})")


typeof_impl.register(OutsideCode)(lambda code, context: _OutsideType(code))
register_model(_OutsideType)(models.OpaqueModel)


def switch(arguments: str, cases: Callable[[], Mapping[int, Any]], otherwise: Any) -> Any:
    """A function for compiled code, of a number and some arguments, that calls what belongs to the number.

    The number is known when the function runs, so that one compiled function serves all cases; that of an
    `OutsideCode` is known when it is compiled.

    ``cases`` gives the kernel that belongs to each number when something is compiled. Where there is none,
    ``otherwise`` is the value, or a kernel that is called with the number and the arguments.
    """

    def function(code: int, *args: Any) -> Any:
        raise TypeError("a switch is for compiled code")

    def choose(code: Any, *_: Any) -> Any:
        known = cases()
        if isinstance(code, _OutsideType):
            # With a single case the compiler drops the question.
            known = {code.code: known[code.code]} if code.code in known else {}
            asked = "if True"
        else:
            known = {number: case for number, case in known.items() if not isinstance(number, OutsideCode)}
            asked = "if code == {}"
        lines = [f"    {asked.format(int(i))}: return case_{int(i)}({arguments})" for i in known]
        names: dict[str, Any] = {f"case_{int(number)}": case for number, case in known.items()}
        names["otherwise"] = otherwise
        default = f"otherwise(code, {arguments})" if callable(otherwise) else "otherwise"
        text = [f"def implementation(code, {arguments}):", *lines, f"    return {default}"]
        exec("\n".join(text), names)
        return names["implementation"]

    overload(function, jit_options=_INNER, strict=False)(choose)
    return function
