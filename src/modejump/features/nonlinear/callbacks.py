"""Transforms that users add, called from compiled code.

A user's transform is a Python function of a column. Compiled code holds the address of a C function that takes the
interpreter lock and calls it; the columns travel as addresses. A column of some hundred rows costs a few microseconds
more than a built-in transform.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from modejump.core.compilation import kernel
from modejump.features.nonlinear.transforms import FIRST_USER_CODE, Transform

_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


class Callbacks(NamedTuple):
    """Codes of user transforms and the addresses of their C functions."""

    code: np.ndarray  # int64 (m,)
    address: np.ndarray  # int64 (m,)


def make_callbacks(transforms: Sequence[Transform]) -> tuple[Callbacks, list[Any]]:
    """Callbacks for the user transforms among these, and the objects that must outlive every call."""
    alive = [_c_function(t) for t in transforms if t.code >= FIRST_USER_CODE]
    codes = [t.code for t in transforms if t.code >= FIRST_USER_CODE]
    addresses = [ctypes.cast(f, ctypes.c_void_p).value for f in alive]
    return Callbacks(np.array(codes, np.int64), np.array(addresses, np.int64)), alive


def _c_function(transform: Transform) -> Any:
    def call(address: int, n: int) -> None:
        column = np.ctypeslib.as_array((ctypes.c_double * n).from_address(address))
        try:
            column[:] = transform(column)
        except Exception:  # an exception cannot cross compiled code: the feature is left out, as where it is not finite
            column[:] = np.nan

    return _SIGNATURE(call)


@intrinsic
def _call_address(typing_context: Any, address: types.Type, column: types.Type, n: types.Type) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        ir = cgutils.ir
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [word, word])
        function = builder.inttoptr(args[0], kind.as_pointer())
        builder.call(function, [args[1], args[2]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


call_address: Any = _call_address


@kernel
def apply_user(callbacks, code, column):
    """Overwrite a contiguous column by its transform; by NaN where the code is not known."""
    for i in range(len(callbacks.code)):
        if callbacks.code[i] == code:
            call_address(callbacks.address[i], np.int64(column.ctypes.data), np.int64(len(column)))
            return
    for r in range(len(column)):
        column[r] = np.nan
