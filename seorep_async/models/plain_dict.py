"""A model as plain Python, for frameworks and serialisers that take no attrs classes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import attrs


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
