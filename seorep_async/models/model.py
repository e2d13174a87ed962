"""What every model has: `extra`, for fields that the reference does not name, a repr of one line, and `to_dict()`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NoReturn

import attrs

_WIDTH = 100
_LONGEST_STRING = 40


class Model:
    """The base of every model; it has no fields."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show the first fields, as many as fit into one line of a screen."""
        name, shown = type(self).__name__, ""
        for field in _shown_fields(self):
            one = f"{', ' * bool(shown)}{field.name}={_cut(getattr(self, field.name))!r}"
            if len(name) + len(shown) + len(one) > _WIDTH:
                return f"{name}({shown}{', ' * bool(shown)}…)"
            shown += one
        return f"{name}({shown})"

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as a dictionary, nested models too, but no password, token or address that logs in.

        Tuples become lists, and a `Feed` its value; dates stay dates.
        """
        return {field.name: _plain(getattr(self, field.name)) for field in _shown_fields(self)}


def _shown_fields(model: Any) -> list[Any]:
    return [field for field in attrs.fields(type(model)) if field.repr]


def _cut(value: object) -> object:
    is_long = isinstance(value, str) and len(value) > _LONGEST_STRING
    return f"{str(value)[: _LONGEST_STRING - 1]}…" if is_long else value


def _plain(value: Any) -> Any:
    if isinstance(value, Model):
        return value.to_dict()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple | list):
        return list(map(_plain, value))
    return (
        {name: _plain(one) for name, one in value.items()} if isinstance(value, Mapping) else value
    )


class _NoExtra(dict[str, Any]):
    """An immutable empty mapping, shared by all models without extra fields."""

    __slots__ = ()

    def _stays_empty(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the extra fields of a model cannot be changed")

    __setitem__ = __ior__ = setdefault = update = _stays_empty

    def __reduce__(self) -> str:
        return "NO_EXTRA"


NO_EXTRA: Mapping[str, Any] = _NoExtra()


def extra_field(*, repr: bool = True) -> Mapping[str, Any]:
    """Declare `extra`: unknown fields of the response, as the service sent them."""
    declared: Mapping[str, Any] = attrs.field(default=NO_EXTRA, hash=False, repr=repr)
    return declared
