"""Models that the garbage collector does not trace, and the raw rows that become these models.

Measured on pages of 500 rows (CPython 3.11, msgspec 0.22): the collector takes 0.5 µs for each tracked instance, and
pauses of many milliseconds for thousands. Setting a raw row's class takes 0.05 µs if it and the model share a base
class with all fields (0.16 if not, as Python compares all names), building the model from its values 0.21 µs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NoReturn, TypeVar, cast

import attrs
import msgspec
from msgspec.structs import astuple

M = TypeVar("M", bound=attrs.AttrsInstance)

_ABOUT_STORAGE = {"__init__", "__getstate__", "__setstate__", "__slots__", "__annotations__"}


def gc_untracked_struct(model: type[M]) -> type[M]:
    """Make a frozen attrs model a msgspec struct, which the garbage collector does not trace.

    It keeps everything from attrs, but can't be subclassed, and an instance in its own `extra` is never freed. A model
    with a feature that structs lack, such as converters, is a TypeError.
    """
    fields = attrs.fields(model)
    if hasattr(model, "__attrs_post_init__") or not all(map(_is_plain, fields)):
        raise TypeError(f"{model.__name__} does more than hold values, which a gc-untracked struct can't")
    names = {field.name for field in fields}
    namespace = {name: value for name, value in vars(model).items() if name not in _ABOUT_STORAGE | names}
    namespace["__reduce__"] = _reduced
    namespace["__init_subclass__"] = classmethod(_refuse_subclass)
    declared: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        (field.name, field.type) if field.default is attrs.NOTHING else (field.name, field.type, field.default)
        for field in fields
    ]
    module = model.__module__
    layout = msgspec.defstruct("Layout", [(field.name, field.type) for field in fields], module=module, gc=False)
    struct = msgspec.defstruct(model.__name__, declared, bases=(layout,), namespace=namespace, module=module, gc=False)
    return cast("type[M]", struct)


def raw_row_struct(
    model: type, wire_types: Mapping[str, Any], wire_names: Mapping[str, str], *, strict: bool
) -> type[msgspec.Struct]:
    """Return a struct of the same layout as a gc-untracked model, which msgspec decodes from the wire.

    Once each field holds a value that the model allows, `raw_row.__class__ = model` turns the raw row into the model.
    Unknown fields are refused if it is `strict`, else ignored.
    """
    declared: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    rename = {}
    for field in attrs.fields(model):
        if field.name not in wire_types:
            declared.append((field.name, msgspec.UnsetType, field.default))
            rename[field.name] = f" {field.name}"  # no wire name begins with a space
            continue
        kind = wire_types[field.name]
        absent = msgspec.Raw(b"null") if kind is msgspec.Raw else None
        declared.append((field.name, kind) if field.default is attrs.NOTHING else (field.name, kind, absent))
        rename[field.name] = wire_names[field.name]
    return msgspec.defstruct(
        "RawRow", declared, bases=model.__bases__, rename=rename, forbid_unknown_fields=strict, gc=False
    )


def _is_plain(field: attrs.Attribute[Any]) -> bool:
    made = isinstance(field.default, attrs.Factory)  # type: ignore[arg-type]  # a class that its stubs call a function
    return (
        not (made or field.converter or field.validator or field.kw_only) and field.init and field.alias == field.name
    )


@cache
def _names(model: Any) -> str:
    return " ".join(model.__struct_fields__)


def _reduced(model: Any) -> tuple[Any, ...]:
    # the names as one string, the same for all instances: a pickle of many holds it once
    kind: Any = type(model)
    return _restored, (kind, _names(kind), astuple(model))


def _restored(model: Any, names: str, values: tuple[Any, ...]) -> Any:
    # by name: an instance that another version pickled may have other fields, or another order of them
    is_current = names == _names(model)
    return model(*values) if is_current else model(**dict(zip(names.split(), values, strict=True)))


def _refuse_subclass(cls: type, /, **_: object) -> NoReturn:
    raise TypeError(
        f"{cls.__mro__[1].__name__} can't be subclassed; give a class of your own an attribute that holds it"
    )
