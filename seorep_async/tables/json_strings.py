"""Values that other formats hold as JSON strings: tags, and fields that nobody documented."""

from __future__ import annotations

import json
from typing import Any

from seorep_async.models import Tag

_ENCODE = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode


def as_json(value: object) -> str:
    """Return a JSON string, the same for equal values."""
    return _ENCODE(value)


def plain_tags(tags: tuple[Tag, ...]) -> list[dict[str, Any]]:
    """Return tags as JSON objects; `extra` is a member only of tags with unknown fields."""
    return [{"id": tag.id, "label": tag.label} | ({"extra": tag.extra} if tag.extra else {}) for tag in tags]
