"""What a model looks like: its repr, one line of a screen, and its `to_dict()`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, TypeVar

import attrs

M = TypeVar("M", bound=attrs.AttrsInstance)

_WIDTH = 100
_LONGEST_STRING = 40


def one_line_repr(model: type[M]) -> type[M]:
    """Give a model a repr of its first fields, as many as fit into one line of a screen."""
    names = [field.name for field in attrs.fields(model) if field.repr]

    def __repr__(self: M) -> str:
        shown = ""
        for name in names:
            field = f"{', ' * bool(shown)}{name}={_cut(getattr(self, name))!r}"
            if len(model.__name__) + len(shown) + len(field) > _WIDTH:
                shown += f"{', ' * bool(shown)}…"
                break
            shown += field
        return f"{model.__name__}({shown})"

    model.__repr__ = __repr__  # type: ignore[assignment]
    return model


def _cut(value: object) -> object:
    is_long = isinstance(value, str) and len(value) > _LONGEST_STRING
    return f"{str(value)[: _LONGEST_STRING - 1]}…" if is_long else value


def plain_dict(self: attrs.AttrsInstance) -> dict[str, Any]:
    """Return the attributes as a dictionary, nested models too, but no password, token or address that logs in.

    Tuples become lists, and a `Feed` its value; dates stay dates.
    """
    return {field.name: _plain(getattr(self, field.name)) for field in attrs.fields(type(self)) if field.repr}


def _plain(value: Any) -> Any:
    if attrs.has(type(value)):
        return plain_dict(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple | list):
        return list(map(_plain, value))
    return {name: _plain(one) for name, one in value.items()} if isinstance(value, Mapping) else value
