"""The problem, and its path, of complete JSON that retrying won't fix."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

_SURROGATE = re.compile("[\ud800-\udfff]")
_INVALID_BYTE = re.compile("[\udc80-\udcff]")  # Python's escape of a byte that is not UTF-8
_NO_NUMBER = object()
_OUT_OF_RANGE = object()


def _number(digits: str) -> object:
    try:
        msgspec.json.decode(digits)
    except msgspec.ValidationError:  # a float beyond the largest, or more digits than Python converts to an int
        return _OUT_OF_RANGE
    return None


def find_problem(body: bytes | memoryview) -> tuple[str, str] | None:
    """Return the path and the problem of the first undecodable value, or None if the JSON is incomplete.

    The path is empty if it is not known.
    """
    body = bytes(body).strip()
    if not body.endswith((b"}", b"]")):
        return None  # cut short, the most frequent problem
    try:
        parsed = json.loads(
            body.decode(errors="surrogateescape"),
            strict=False,
            parse_int=_number,
            parse_float=_number,
            parse_constant=lambda _: _NO_NUMBER,
        )
    except (ValueError, RecursionError):
        return None
    remaining: list[tuple[str, Any]] = [("", parsed)]
    while remaining:
        path, value = remaining.pop()
        if value is _NO_NUMBER:
            return path, "is not a JSON number"
        if value is _OUT_OF_RANGE:
            return path, "holds a number that is out of range"
        if isinstance(value, str) and _SURROGATE.search(value):
            return path, "is not valid UTF-8" if _INVALID_BYTE.search(value) else "holds half a surrogate pair"
        if isinstance(value, dict):
            if any(map(_SURROGATE.search, value)):
                return path, "has a field whose name is not valid Unicode"
            parts = [(f"{path}.{name}" if path else name, item) for name, item in value.items()]
            remaining += reversed(parts)
        elif isinstance(value, list):
            remaining += reversed([(f"{path}[{index}]", item) for index, item in enumerate(value)])
    return "", "holds a character that JSON does not allow"
