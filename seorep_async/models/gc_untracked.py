"""Models that the garbage collector does not trace, and the raw rows that become these models.

Measured on pages of 500 rows (CPython 3.11, msgspec 0.22): the collector takes 0.5 µs for each
tracked instance. With thousands of them, it stops the program for many milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

import attrs
import msgspec
from msgspec.structs import astuple

from seorep_async.models.model import Model

M = TypeVar("M", bound=attrs.AttrsInstance)
T = TypeVar("T")

_ABOUT_STORAGE = {"__init__", "__getstate__", "__setstate__", "__slots__", "__annotations__"}
"""Attributes that attrs makes for its own way of storing fields. A struct stores them otherwise."""


def gc_untracked_struct(model: type[M]) -> type[M]:
    """Turn a frozen attrs model into a msgspec struct, which the garbage collector does not trace.

    It keeps everything from attrs except converters, validators and factories. An instance that is
    in its own `extra` is never freed.
    """
    fields = attrs.fields(model)
    left_out = _ABOUT_STORAGE | {field.name for field in fields}
    namespace = {name: value for name, value in vars(model).items() if name not in left_out}
    # A pickle contains the names of the fields, so that another version can read it.
    namespace["__reduce__"] = _reduced
    make = partial(msgspec.defstruct, module=model.__module__, gc=False)
    # Raw rows have the same base class. Without it, Python compares all names when a class is set,
    # which takes four times as long.
    types = [(field.name, field.type) for field in fields]
    layout = make("Layout", types, bases=(Model, msgspec.Struct))
    # The fields are declared again, because `layout` has no defaults.
    declared = [(field.name, field.type, _default(field)) for field in fields]
    # Type checkers and `attrs.fields` still see the attrs class.
    struct = make(model.__name__, declared, bases=(layout,), namespace=namespace)
    return cast("type[M]", struct)


def raw_row_struct(
    model: type,
    wire_types: Mapping[str, Any],
    wire_names: Mapping[str, str],
    unknown_names: Sequence[str] | None = (),
) -> type[msgspec.Struct]:
    """Return a struct with the fields of a gc-untracked model and the types of the wire.

    Once each field has a value that the model allows, `turn_into_models` makes models of the raw
    rows. Raw rows with fields for `unknown_names` are larger, so they can't become models. Other
    unknown fields are refused, or ignored if `unknown_names` is None.
    """
    declared = []
    rename = {}
    for field in attrs.fields(model):
        # A field that only the model has, such as `date_precision`, is computed later.
        wire_type = wire_types.get(field.name, msgspec.UnsetType)
        # Raw JSON is read later, and an absent field must then be read like a null.
        default = msgspec.Raw(b"null") if wire_type is msgspec.Raw else _default(field)
        declared.append((field.name, wire_type, default))
        # No name on the wire begins with a space, so such a field is never filled from JSON.
        rename[field.name] = wire_names.get(field.name, f" {field.name}")
    # An unknown name may not be valid in Python, so these fields are numbered.
    for index, unknown_name in enumerate(unknown_names or ()):
        declared.append((f"unknown_{index}", Any, msgspec.UNSET))
        rename[f"unknown_{index}"] = unknown_name
    return msgspec.defstruct(
        "RawRow",
        declared,
        bases=model.__bases__,
        rename=rename,
        forbid_unknown_fields=unknown_names is not None,
        gc=False,
    )


def _default(field: attrs.Attribute[Any]) -> object:
    return msgspec.NODEFAULT if field.default is attrs.NOTHING else field.default


def turn_into_models(raw_rows: list[Any], model: type[T]) -> list[T]:
    """Turn raw rows into models in place. Each value must be one that the model allows.

    Python lets an object change its class if both classes have the same base class with all fields.
    This takes 0.03 to 0.08 µs per row. Making a model, `model(*astuple(row))`, takes 0.14 to 0.3 µs
    and would prolong decoding by 10 % (rankings of keywords) or 20 % (rows by date). Nothing else
    in the package sets a class.
    """
    for row in raw_rows:
        row.__class__ = model
    return raw_rows


def _reduced(model: Any) -> tuple[Any, ...]:
    # All instances share the tuple of names, so a pickle of many instances contains it once.
    return _restored, (type(model), type(model).__struct_fields__, astuple(model))


def _restored(model: Any, names: Sequence[str], values: tuple[Any, ...]) -> Any:
    # Usually the same version reads the pickle, and positional arguments are three times as fast.
    if names == model.__struct_fields__:
        return model(*values)
    # Another version pickled it, perhaps with the fields in another order. Fields that are new
    # since then get their defaults. A field that is gone since then is a TypeError.
    return model(**dict(zip(names, values, strict=True)))
