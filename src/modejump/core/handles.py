"""Handles: a (nested) named tuple of arrays passed to compiled functions as one pointer.

Numba passes a tuple of arrays as hundreds of separate arguments and counts a reference for each array at each call,
with atomic instructions: many times the cost of a step's arithmetic. The entry of a kernel makes a handle instead:
the tuple, stripped of owners, lies on the entry's stack, and functions below take its address. The caller of the
entry keeps the arrays alive. A field is read where it is named, so loops bind the arrays they use to local names.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model


class HandleType(types.Type):
    """Address of a named tuple on the stack of the entry function."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        super().__init__(name=f"Handle({inner})")

    def field(self, name: str) -> tuple[int, types.Type]:
        """Position and type of a field."""
        index = self.inner.fields.index(name)
        return index, self.inner.types[index]


@register_model(HandleType)
class _HandleModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, manager.lookup(fe_type.inner).get_data_type().as_pointer())


def _strip(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The same value with the owner of every array removed, so that no reference is counted."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        for i, inner in enumerate(kind.types):  # type: ignore[attr-defined]
            part = builder.extract_value(value, i)
            value = builder.insert_value(value, _strip(context, builder, inner, part), i)
    return value


@intrinsic
def _handle(typing_context: Any, value: types.Type) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        stripped = _strip(context, builder, kind, args[0])
        packed = context.data_model_manager[kind].as_data(builder, stripped)
        return cgutils.alloca_once_value(builder, packed)

    return HandleType(value)(value), codegen


# A handle on a named tuple, valid until the calling function returns.
handle: Any = _handle


@infer_getattr
class _HandleAttributes(AttributeTemplate):
    key = HandleType

    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        if name not in kind.inner.fields:
            return None
        _, field = kind.field(name)
        return HandleType(field) if isinstance(field, types.BaseNamedTuple) else field


@lower_getattr_generic(HandleType)
def _lower_field(context, builder, kind, value, name):
    index, field = kind.field(name)
    address = cgutils.gep_inbounds(builder, value, 0, index)
    if isinstance(field, types.BaseNamedTuple):
        return address
    return context.data_model_manager[field].load_from_data_pointer(builder, address)
