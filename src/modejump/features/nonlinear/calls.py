"""Transforms that compiled code calls by address, so that it holds no transform itself.

A built-in transform is a C function that Numba makes of its formula when it is first asked for. One that a user adds is
a Python function of a column behind a C function that takes the interpreter lock: some microseconds more for each
column.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from modejump.core.compilation import c_function, kernel
from modejump.features.nonlinear.transforms import Transform

_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


def addresses(transforms: Sequence[Transform]) -> tuple[np.ndarray, list[Any]]:
    """Addresses of the transforms' C functions, and the objects that must outlive every call."""
    made = [_by_callback(t) if t.scalar is None else _by_formula(t.name, t.scalar) for t in transforms]
    return np.array([address for address, _ in made], np.int64), [alive for _, alive in made]


def _apply(row, n):
    """Transform a row in place; ``scalar`` is given when this is compiled."""
    for i in range(n):
        row[i] = scalar(row[i])  # type: ignore[name-defined]  # noqa: F821


@cache
def _by_formula(name: str, scalar: Callable[[float], float]) -> tuple[int, Any]:
    made = c_function(_apply, f"apply_{name}", scalar=kernel(scalar))
    return made.address, made


def _by_callback(transform: Transform) -> tuple[int, Any]:
    def call(address: int, n: int) -> None:
        row = np.ctypeslib.as_array((ctypes.c_double * n).from_address(address))
        try:
            row[:] = transform(row)
        except Exception:  # an exception cannot cross compiled code: the feature is left out, as where it is not finite
            row[:] = np.nan

    made = _SIGNATURE(call)
    return ctypes.cast(made, ctypes.c_void_p).value or 0, made


@intrinsic
def _call(typing_context: Any, address: types.Type, row: types.Type, n: types.Type) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = cgutils.ir.IntType(64)
        kind = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [word, word])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [args[1], args[2]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


_call_address: Any = _call


@kernel
def transform_row(pool, code, level):
    """Apply a transform to a scratch row, in place."""
    row = pool.scratch[level]
    _call_address(pool.calls[code], np.int64(row.ctypes.data), np.int64(len(row)))
