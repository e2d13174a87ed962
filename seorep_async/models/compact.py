"""Compact models: attrs models whose instances are no concern of the garbage collector."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar, cast

import attrs
import msgspec

M = TypeVar("M")

_ABOUT_STORAGE = {"__init__", "__getstate__", "__setstate__", "__slots__", "__annotations__"}


def compact(model: type[M]) -> type[M]:
    """Store the instances of a frozen attrs model as msgspec structs, which the garbage collector does not trace.

    An ordinary instance costs the collector half a microsecond, and thousands of them pauses of many milliseconds. What
    attrs told and gave the class stays, but it can't be subclassed, and an instance that somebody puts into its own
    `extra` is never freed. A decoder can fill a struct of its own with the same fields, and make it a model by setting
    its class.

    Raises:
        TypeError: the model has what a struct can't do, such as converters.
    """
    fields = attrs.fields(model)  # type: ignore[arg-type]
    if hasattr(model, "__attrs_post_init__") or not all(map(_is_plain, fields)):
        raise TypeError(f"{model.__name__} does more than hold values, which a compact model can't")
    names = {field.name for field in fields}
    namespace = {name: held for name, held in vars(model).items() if name not in _ABOUT_STORAGE | names}
    namespace["__reduce__"] = _reduced
    namespace["__init_subclass__"] = classmethod(_refuse_subclass)
    declared: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        (field.name, field.type) if field.default is attrs.NOTHING else (field.name, field.type, field.default)
        for field in fields
    ]
    made = msgspec.defstruct(model.__name__, declared, namespace=namespace, module=model.__module__, gc=False)
    return cast("type[M]", made)


def _is_plain(field: attrs.Attribute[Any]) -> bool:
    made = isinstance(field.default, attrs.Factory)  # type: ignore[arg-type]
    return (
        not (made or field.converter or field.validator or field.kw_only) and field.init and field.alias == field.name
    )


def _reduced(model: Any) -> tuple[Any, ...]:
    # by name: what was pickled by another version may have other fields, or another order of them
    return _restored, (type(model), {field.name: getattr(model, field.name) for field in attrs.fields(type(model))})


def _restored(model: type[M], values: dict[str, Any]) -> M:
    return model(**values)


def _refuse_subclass(cls: type, /, **_: object) -> NoReturn:
    raise TypeError(
        f"{cls.__mro__[1].__name__} can't be subclassed; give a class of your own an attribute that holds it"
    )
