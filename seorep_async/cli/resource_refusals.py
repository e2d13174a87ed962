"""Why the service refused, in its own words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from seorep_async.cli.screen import printable
from seorep_async.errors import SeoRepError

_LONGEST = 300
_NAMES = ("message", "messages", "error", "errors", "detail", "description", "results")


def words_of_service(error: SeoRepError) -> str | None:
    """Return what the service said about a failure, as one line, or None if that is nothing to read.

    The shape of error bodies is not documented (`service-api-v3.md` §7): texts are looked for under the names that
    services use.
    """
    body = error.body_excerpt
    if error.status is None or not body or body.startswith("<"):
        return None
    try:
        found = list(dict.fromkeys(_texts(json.loads(body))))
    except (ValueError, RecursionError):
        found = [] if body.startswith(("{", "[")) and body.endswith("…") else [body]
    told = printable("; ".join(found))
    # an error that was read from the body has told it already
    if not told or told in printable(error.message):
        return None
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}…"


def _texts(body: Any) -> Iterator[str]:
    if isinstance(body, str):
        yield body
    elif isinstance(body, list):
        for item in body:
            yield from _texts(item)
    elif isinstance(body, dict):
        named = [name for name in _NAMES if name in body]
        for name in named or body:
            # of a mapping without such names, each field may be a parameter and its problems
            yield from (_texts(body[name]) if named else _problems(name, body[name]))


def _problems(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, str | list | dict):
        yield from (f"{name}: {text}" for text in _texts(value))
