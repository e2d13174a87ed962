"""Find the service's own reason in an error body, whose structure is not documented."""

from __future__ import annotations

import json
from collections.abc import Mapping

LARGEST_BODY = 512 * 1024
"""The maximum size of an error body to parse, in bytes."""
_LONGEST = 200
"""The maximum length of a reason."""
_MOST_ITEMS = 5
"""The maximum number of items to search in an array."""
_DEPTH = 3
"""The levels of objects and arrays that are searched."""
_NAMES = ("message", "messages", "detail", "description", "reason", "error", "errors", "results")
"""The fields that may contain a reason."""
_NO_REASONS = ("error", "fail", "failed", "failure", "false", "true", "none", "null")
"""Words that indicate an error but don't explain it."""
_SUCCESSES = ("success", "ok", "true", "1", "200")
"""The values with which an envelope says that a request succeeded."""


def reason_in_body(body: bytes) -> str:
    """Return the reason in a JSON body, or an empty string."""
    if len(body) > LARGEST_BODY:
        return ""
    try:
        return reason_in(json.loads(body))
    except (ValueError, RecursionError):
        return ""


def reason_in(value: object) -> str:
    """Return the reason in parsed JSON as one string, or an empty string."""
    return "; ".join(_strings(value, _DEPTH))[:_LONGEST]


def claims_success(envelope: Mapping[str, object]) -> bool:
    """Return whether an envelope says that the request succeeded."""
    claims = [envelope.get(name) for name in ("status", "success", "ok")]
    return any(str(claim).lower() in _SUCCESSES for claim in claims)


def _strings(value: object, depth: int) -> list[str]:
    """Return the strings in a value that may be reasons, down to `depth` levels."""
    if isinstance(value, str):
        string = value.strip()
        return [string] if string and string.lower() not in _NO_REASONS else []
    if depth == 0:
        return []
    strings = []
    if isinstance(value, list):
        for item in value[:_MOST_ITEMS]:
            strings += _strings(item, depth - 1)
    elif isinstance(value, dict):
        for name in _NAMES:
            strings += _strings(value.get(name), depth - 1)
    # a body may contain the same error twice
    return list(dict.fromkeys(strings))
