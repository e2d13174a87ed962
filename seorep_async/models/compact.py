"""Compact models: attrs models whose instances are no concern of the garbage collector."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import attrs
import msgspec

M = TypeVar("M")

_ABOUT_STORAGE = {"__init__", "__getstate__", "__setstate__", "__slots__", "__annotations__"}


def compact(model: type[M]) -> type[M]:
    """Store the instances of a frozen attrs model as msgspec structs, which the garbage collector does not trace.

    An ordinary instance costs the collector half a microsecond, and thousands of them pauses of many milliseconds. What
    attrs gave the class stays; a decoder can fill a struct of its own with the same fields, and make it a model by
    setting its class.
    """
    names = {field.name for field in attrs.fields(model)}  # type: ignore[arg-type]
    namespace = {name: held for name, held in vars(model).items() if name not in _ABOUT_STORAGE | names}
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        (field.name, field.type) if field.default is attrs.NOTHING else (field.name, field.type, field.default)
        for field in attrs.fields(model)  # type: ignore[arg-type]
    ]
    made = msgspec.defstruct(model.__name__, fields, namespace=namespace, module=model.__module__, gc=False)
    return cast("type[M]", made)
