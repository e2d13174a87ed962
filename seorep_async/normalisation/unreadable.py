"""Explain why msgspec cannot read a body: whether a retry may help, and where the problem is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from seorep_async.errors import DecodeError, ProtocolError
from seorep_async.plain_values import SURROGATE

_LONGEST_PATH = 300

_INVALID_BYTE = re.compile("[\udc80-\udcff]")  # Python's escape of a byte that is not UTF-8


def refused(path: str, problem: str) -> DecodeError:
    """Return the error for a part of a response that the client refuses."""
    if path:
        return DecodeError(f"{path}: {problem}", field_path=path)
    return DecodeError(f"the response {problem}")


def unreadable(body: bytes, error: Exception, path: str) -> DecodeError | ProtocolError:
    """Return the error for JSON at `path` that msgspec refused.

    Returns:
        A DecodeError if the JSON is complete, so that retrying does not help. It has the path of
        the bad value if that was found. A ProtocolError if the body is cut short or is not JSON.
    """
    with suppress(ValueError, RecursionError):
        # A whole body that does not end with } or ] was cut short. A part of a body (with a `path`)
        # may end with anything.
        if not path and not body.rstrip().endswith((b"}", b"]")):
            raise ValueError("no end")
        problem = _find_problem(body)
        if problem is None:
            return refused("", "contains a character that JSON does not allow")
        return refused(f"{path}{problem.path}".removeprefix("."), problem.words)
    if isinstance(error, msgspec.ValidationError):
        return refused("", f"contains a number that is out of range ({error})")
    return ProtocolError(f"the response is not complete JSON: {error}")


class _Problem:
    """A bad value, which a retry will not change. Its path is relative to the searched value."""

    def __init__(self, path: str, words: str) -> None:
        self.path = path
        self.words = words


def _find_problem(body: bytes) -> _Problem | None:
    """Return the first problem in a body, or None.

    While parsing, each object is replaced with its first problem or None. Keeping millions of
    objects would slow the garbage collector.

    Raises:
        ValueError: the body is cut short or is not JSON.
    """
    problem_or_value = json.loads(
        body.decode(errors="surrogateescape"),
        strict=False,
        object_pairs_hook=_problem_of_object,
        parse_int=_problem_of_number,
        parse_float=_problem_of_number,
        parse_constant=_problem_of_constant,
    )
    return _problem_within(problem_or_value)


def _problem_of_object(fields: list[tuple[str, Any]]) -> _Problem | None:
    """Return the first problem in an object, or None. The decoder calls this with each object."""
    # The encoder fails if a value is a `_Problem` or contains invalid Unicode, and is ten times as
    # fast as checking each field.
    try:
        msgspec.json.encode(fields)
    except (ValueError, TypeError):
        return _first_problem(fields)
    return None


def _first_problem(items: Iterable[tuple[str | int, Any]]) -> _Problem | None:
    """Return the first problem in named or numbered values, with its path."""
    for step, value in items:
        if isinstance(step, str) and SURROGATE.search(step):
            # The name itself can't be written, so the path ends at the object.
            return _Problem("", "has a field whose name is not valid Unicode")
        problem = _problem_within(value)
        if problem is not None:
            written_step = f"[{step}]" if isinstance(step, int) else f".{step}"
            path = f"{written_step}{problem.path}"
            return _Problem(path[-_LONGEST_PATH:], problem.words)
    return None


def _problem_within(value: Any) -> _Problem | None:
    """Return the problem with a parsed value, or the first one in its items."""
    if isinstance(value, _Problem):
        return value
    if isinstance(value, list):
        return _first_problem(enumerate(value))
    if isinstance(value, str) and _INVALID_BYTE.search(value):
        return _Problem("", "is not valid UTF-8")
    if isinstance(value, str) and SURROGATE.search(value):
        return _Problem("", "contains half a surrogate pair")
    return None


def _problem_of_number(digits: str) -> _Problem | None:
    """Return the problem with a number, or None. The decoder calls this with each number."""
    try:
        msgspec.json.decode(digits)
    except msgspec.ValidationError:
        # The number is beyond the largest float, or has more digits than Python converts.
        return _Problem("", "contains a number that is out of range")
    return None


def _problem_of_constant(_name: str) -> _Problem:
    return _Problem("", "is not a JSON number")
