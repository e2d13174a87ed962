"""The base of all models: `extra` for unknown fields, a repr of one line, and `to_dict()`."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NoReturn

import attrs

_IN_EACH_REPR = re.compile(r"date_precision|engine_\w+_ranking")
"""Names of fields that every repr shows."""
_LONGEST_REPR = 100
_LONGEST_STRING = 40
_ITEMS_IN_REPR = 3


class Model:
    """The base of every model; it has no fields."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show the identifying fields and the ranks, then further fields while there is room."""
        model: Any = type(self)
        name = model.__name__
        always, further = _fields_in_repr(model)
        parts = [self._part_of_repr(field) for field in always]
        # Notebooks and failed tests show hundreds of rows, so one row is one short line.
        length = len(name) + sum(map(len, parts))
        for field in further:
            part = self._part_of_repr(field)
            length += len(part) + 2
            if length > _LONGEST_REPR:
                parts.append("…")
                break
            parts.append(part)
        return f"{name}({', '.join(parts)})"

    def _part_of_repr(self, name: str) -> str:
        value = getattr(self, name)
        # A long address would leave no room for the ranks.
        if isinstance(value, str) and len(value) > _LONGEST_STRING:
            value = f"{value[: _LONGEST_STRING - 1]}…"
        return f"{name}={value!r}"

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as a dictionary, and nested models as dictionaries in it.

        A password, a token and a login address are secrets, and are left out. Tuples become lists,
        a `Feed` becomes its value, and dates stay dates.
        """
        fields = _public_fields(type(self))
        return {field.name: _plain(getattr(self, field.name)) for field in fields}


def _public_fields(model: Any) -> list[Any]:
    # A field that a repr hides is a secret, so a dictionary hides it as well.
    return [field for field in attrs.fields(model) if field.repr]


def first_items(items: Sequence[object]) -> str:
    """Return the repr of a tuple. After three items, only the number of the others is shown."""
    if len(items) <= _ITEMS_IN_REPR:
        return repr(items)
    first = ", ".join(map(repr, items[:_ITEMS_IN_REPR]))
    return f"({first}, … {len(items) - _ITEMS_IN_REPR:,} more)"


@cache
def _fields_in_repr(model: Any) -> tuple[list[str], list[str]]:
    """Return the names of fields that each repr shows, and of those that may be left out."""
    always = []
    further = []
    for field in _public_fields(model):
        # A field without a default identifies the model.
        if field.default is attrs.NOTHING or _IN_EACH_REPR.fullmatch(field.name):
            always.append(field.name)
        else:
            further.append(field.name)
    return always, further


def _plain(value: Any) -> Any:
    """Convert models, mappings, tuples and enums to dictionaries, lists and plain values."""
    if isinstance(value, Model):
        return value.to_dict()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return value


class _NoExtra(dict[str, Any]):
    """An immutable empty mapping, shared by all models without extra fields."""

    __slots__ = ()

    def _stays_empty(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the extra fields of a model cannot be changed")

    # An empty dictionary has nothing to delete, so only these methods could change it.
    __setitem__ = __ior__ = setdefault = update = _stays_empty

    # Unpickling and copying return this same mapping.
    def __reduce__(self) -> str:
        return "NO_EXTRA"


NO_EXTRA: Mapping[str, Any] = _NoExtra()


def extra_field(*, repr: bool = True) -> Mapping[str, Any]:
    """Declare `extra`, which holds the unknown fields of the response unchanged."""
    # A dictionary can't be hashed, so the hash of a model leaves it out.
    declared: Mapping[str, Any] = attrs.field(default=NO_EXTRA, hash=False, repr=repr)
    return declared


def untyped_field() -> Any:
    """Declare a field whose values may be of any type, even of one that can't be hashed."""
    return attrs.field(default=None, hash=False)
