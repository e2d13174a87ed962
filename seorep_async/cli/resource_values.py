"""What a model holds, as values that JSON, CSV and tables are made from."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

EXTRA = "extra"
# null in every documented answer, and nothing to show in any other
_HIDDEN = ("password",)


def field_names(model: type[Any]) -> tuple[str, ...]:
    """Return the names that a model's values have here: its attributes, `extra` last."""
    names = [field.name for field in attrs.fields(model) if field.name not in (*_HIDDEN, EXTRA)]
    return (*names, EXTRA)


def values_of(one: Any, columns: Sequence[str]) -> dict[str, Any]:
    """Return some fields of a model for JSON, dates in ISO format.

    With `extra`, what the model does not know stands beside them under the service's names; only what bears the name
    of an attribute is under `extra`.
    """
    values = {name: _plain(getattr(one, name)) for name in columns if name != EXTRA}
    if EXTRA in columns:
        reserved = {field.name for field in attrs.fields(type(one))}
        extra: Mapping[str, Any] = one.extra
        values |= {name: value for name, value in extra.items() if name not in reserved}
        if clashing := {name: value for name, value in extra.items() if name in reserved}:
            values[EXTRA] = clashing
    return values


def text_of(value: object) -> str:
    """Return a value as text: booleans `true` and `false`, dates in ISO format, None empty, what is nested as JSON."""
    match value:
        case None:
            return ""
        case str():
            return value
        case dt.date():
            return value.isoformat()
        case Mapping() if not value:
            return ""
    return as_json(value)


def as_json(value: object, *, indent: int | None = None) -> str:
    """Return JSON text; control characters and the like are escaped in it, so that no terminal obeys them."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.replace("\n", "").isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter == "\n" else json.dumps(letter)[1:-1] for letter in text)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else value
