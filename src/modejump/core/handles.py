"""Handles: a (nested) named tuple of arrays that compiled functions take as one pointer.

Numba passes a tuple of arrays as hundreds of separate arguments, unpacks each of them at every call from Python, and
counts a reference for each array at each call from compiled code: many times the cost of a step's arithmetic, and most
of the time that a compiler needs. A handle is the tuple laid out in memory as Numba's own structures, without owners;
compiled functions take its address. The handle keeps the arrays alive.

In compiled code a field is read by its name, an inner tuple is a handle in turn, and the fields of a structured array
named ``scalars`` are numbers that can be read and set: ``state.size += 1``.
"""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path
from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

SCALARS = "scalars"
# Digests of code from outside the package that is compiled together with the package's own, by the kind of named tuple
# that it belongs to. They are part of the types, and so of what compiled code is kept under.
_OUTSIDE: dict[type, str] = {}
# Types of handles by the kinds of all that is in them: to find a type takes longer than a short compiled call.
_TYPES: dict[tuple[Any, ...], HandleType] = {}


def note_outside(kind: type, function: Any) -> None:
    """Note that a function, which may be from outside the package, is compiled for named tuples of a kind."""
    if not function.__module__.startswith("modejump."):
        source = Path(inspect.getfile(function)).read_bytes() if Path(inspect.getfile(function)).exists() else b""
        _OUTSIDE[kind] = hashlib.sha256(_OUTSIDE.get(kind, "").encode() + source).hexdigest()[:16]
        _TYPES.clear()


def _outside(inner: Any) -> str:
    """Digests that belong to a named tuple and to those inside it."""
    parts = [_OUTSIDE.get(inner.instance_class, "")]
    parts += [_outside(part) for part in inner.types if isinstance(part, types.BaseNamedTuple)]
    return "".join(parts)


class HandleType(types.Type):
    """Address of a named tuple."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        super().__init__(name=f"Handle({inner}){_outside(inner) if _OUTSIDE else ''}")

    @property
    def kind(self) -> type:
        """Class of the named tuple."""
        return self.inner.instance_class

    def scalar(self, name: str) -> types.Type | None:
        """Type of one of the scalars; None where there is none of this name."""
        if SCALARS not in self.inner.fields:
            return None
        record = self.inner.types[self.inner.fields.index(SCALARS)].dtype
        return record.typeof(name) if name in record.fields else None


class Handle:
    """A named tuple for compiled functions; its numbers are fixed from now on, but for those that are ``scalars``."""

    __slots__ = ("_numba_type_", "address", "value", "words")

    def __init__(self, value: Any) -> None:
        self.value = value
        words: list[int] = []
        kinds: list[Any] = []
        _lay_out(value, words, kinds)
        key = tuple(kinds)
        if key not in _TYPES:
            _TYPES[key] = HandleType(typeof_impl(value, None))
        self._numba_type_ = _TYPES[key]
        self.words = np.array(words, np.int64)
        self.address = self.words.ctypes.data


def _lay_out(value: Any, words: list[int], kinds: list[Any]) -> None:
    """Append the words of Numba's structures, whose fields have eight bytes each, and what their types depend on."""
    if isinstance(value, np.ndarray):
        words += (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)
        kinds += (value.dtype, value.ndim, value.flags.num)
    elif isinstance(value, tuple):
        kinds += (type(value), len(value))
        for part in value:
            _lay_out(part, words, kinds)
    else:
        whole = isinstance(value, int | np.integer)
        words.append(int(value) if whole else int(np.float64(value).view(np.int64)))
        kinds.append(type(value) if type(value) in (int, float) else typeof_impl(value, None))


@typeof_impl.register(Handle)
def _type_of_handle(value: Handle, context: Any) -> HandleType:
    return value._numba_type_


@register_model(HandleType)
class _HandleModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, manager.lookup(fe_type.inner).get_data_type().as_pointer())


@unbox(HandleType)
def _unbox_handle(kind: Any, value: Any, context: Any) -> NativeValue:
    number = context.pyapi.object_getattr_string(value, "address")
    address = context.pyapi.long_as_longlong(number)
    context.pyapi.decref(number)
    pointer = context.builder.inttoptr(address, context.context.get_value_type(kind))
    return NativeValue(pointer, is_error=cgutils.is_not_null(context.builder, context.pyapi.err_occurred()))


@infer_getattr
class _HandleAttributes(AttributeTemplate):
    key = HandleType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        if name not in kind.inner.fields:
            return kind.scalar(name)
        field = kind.inner.types[kind.inner.fields.index(name)]
        return HandleType(field) if isinstance(field, types.BaseNamedTuple) else field


def _address_of_scalar(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    """Where one of the scalars lies."""
    at = kind.inner.fields.index(SCALARS)
    array_type = kind.inner.types[at]
    place = context.data_model_manager[array_type].get_field_position("data")
    data = builder.load(cgutils.gep_inbounds(builder, value, 0, at, place))
    offset = array_type.dtype.offset(name)
    field = context.get_data_type(array_type.dtype.typeof(name)).as_pointer()
    return builder.bitcast(cgutils.pointer_add(builder, data, offset), field)


@lower_getattr_generic(HandleType)
def _lower_field(context, builder, kind, value, name):
    if name not in kind.inner.fields:
        pointer = _address_of_scalar(context, builder, kind, value, name)
        return context.unpack_value(builder, kind.scalar(name), pointer)
    index = kind.inner.fields.index(name)
    field = kind.inner.types[index]
    address = cgutils.gep_inbounds(builder, value, 0, index)
    if isinstance(field, types.BaseNamedTuple):
        return address
    if isinstance(field, types.Array) and field.layout == "C" and field.ndim > 0:
        return _load_array(context, builder, field, address)
    return context.data_model_manager[field].load_from_data_pointer(builder, address)


def _load_array(context: Any, builder: Any, field: Any, address: Any) -> Any:
    """An array in rows from its data and its shape: what follows from these need not be loaded.

    Every instruction that is not there is one that the compiler need not remove.
    """
    array = context.make_array(field)(context, builder)
    model = context.data_model_manager[field]

    def load(name: str, *inner: int) -> Any:
        return builder.load(cgutils.gep_inbounds(builder, address, 0, model.get_field_position(name), *inner))

    shape = [load("shape", i) for i in range(field.ndim)]
    step = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(field.dtype)))
    array.data, array.itemsize = load("data"), step
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    count, strides = shape[-1], [step]
    for length in reversed(shape[:-1]):
        strides.insert(0, builder.mul(strides[0], shape[len(shape) - len(strides)]))
        count = builder.mul(count, length)
    array.nitems = count
    array.shape, array.strides = cgutils.pack_array(builder, shape), cgutils.pack_array(builder, strides)
    return array._getvalue()


@lower_setattr_generic(HandleType)
def _lower_set_scalar(context, builder, signature, args, name):
    kind, given = signature.args
    value = context.cast(builder, args[1], given, kind.scalar(name))
    context.pack_value(builder, kind.scalar(name), value, _address_of_scalar(context, builder, kind, args[0], name))


@intrinsic
def _copy_scalars(typing_context: Any, source: HandleType, target: HandleType) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = next(iter(source.inner.types[source.inner.fields.index(SCALARS)].dtype.fields))
        size = source.inner.types[source.inner.fields.index(SCALARS)].dtype.size
        byte = cgutils.voidptr_t
        places = [
            builder.bitcast(_address_of_scalar(context, builder, kind, value, first), byte)
            for kind, value in zip(signature.args, args, strict=True)
        ]
        cgutils.raw_memcpy(builder, places[1], places[0], cgutils.intp_t(size), 1)
        return context.get_dummy_value()

    return types.void(source, target), codegen


# Copy all scalars of one handle to another of the same kind.
copy_scalars: Any = _copy_scalars


def scalars_of(**fields: Any) -> np.ndarray:
    """A structured array of numbers by name, whole ones as int64 and others as float64, for a field ``scalars``.

    Examples
    --------
    >>> counts = scalars_of(models=3, mass=0.5)
    >>> counts["models"] += 1
    >>> counts
    array((4, 0.5), dtype=[('models', '<i8'), ('mass', '<f8')])
    """
    kinds = {name: np.asarray(value).dtype for name, value in fields.items()}
    return np.array(tuple(fields.values()), dtype=list(kinds.items()))
