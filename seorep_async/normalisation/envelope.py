"""The envelope around every payload: parsed, refused if it is an error, its two feed shapes normalised."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from seorep_async.errors import DecodeError, ProtocolError, StatusError, one_line, status_error_type
from seorep_async.models import Page
from seorep_async.models.model import NO_EXTRA
from seorep_async.normalisation import values
from seorep_async.plain_values import SURROGATE
from seorep_async.reasons import reason_in

_PATH_LENGTH = 300
_INVALID_BYTE = re.compile("[\udc80-\udcff]")  # Python's escape of a byte that is not UTF-8


def parse(body: bytes, *, needs_data: bool = True) -> dict[str, Any]:
    """Return the envelope in a body, with `data` if that is needed.

    Raises:
        ProtocolError: the body is not complete JSON (empty, cut short, HTML …), but may be next time.
        StatusError: the body is an error under a success status.
        DecodeError: the body is JSON, but no envelope.
    """
    body = body.removeprefix(BOM_UTF8)
    if not body:
        raise ProtocolError("the response is empty, but JSON was expected")
    try:
        envelope = msgspec.json.decode(body)
    except ValueError as error:  # also those of msgspec
        raise _unreadable(body, error) from None
    except RecursionError:
        raise refused("", "is nested too deeply") from None
    if not isinstance(envelope, dict):
        raise refused("", f"is {values.describe(envelope)} where an object was expected")
    if _is_error(envelope):
        raise _service_error(envelope)
    if needs_data and "data" not in envelope:
        raise refused("data", "is missing")
    return envelope


def parse_any(body: bytes) -> dict[str, Any]:
    """Return the envelope of any response; no body (204) is an empty one."""
    return parse(body, needs_data=False) if body else {}


def _unreadable(body: bytes, error: Exception) -> DecodeError | ProtocolError:
    with suppress(ValueError, RecursionError):  # cut short, the most frequent problem
        return refused(*(_find_problem(body) or ("", "holds a character that JSON does not allow")))
    if isinstance(error, msgspec.ValidationError):
        return refused("", f"holds a number that is out of range ({error})")
    return ProtocolError(f"the response is not complete JSON: {error}")


def raw_page(envelope: dict[str, Any], number: int, *, is_feed: bool) -> tuple[Page[Any], str, str]:
    """Return a page whose rows and totals are as they came, and the paths of both.

    It is a list (reference, section 1), or either shape of a feed (section 4.4), told by its `data`. An absent or empty
    `metadata` holds nothing; any other shape is a DecodeError.
    """
    extra, path, totals_path, totals = dict(envelope), "data", "totals", None
    data, found = extra.pop("data"), extra.pop("metadata", None)
    if isinstance(data, dict) and is_feed:
        if "rows" not in data:
            raise refused("data.rows", "is missing")
        path, totals_path, beside = "data.rows", "data.totals", dict(data)
        data, totals = beside.pop("rows"), beside.pop("totals", None)
        if beside:
            extra["data"] = beside
    elif is_feed and isinstance(data, list):
        totals = extra.pop("totals", None)
    if not isinstance(data, list):
        expected = (
            "an array of rows, or an object with rows" if is_feed and path == "data" else "an array"
        )
        raise refused(path, str(values.refusal(expected, data)))
    if not isinstance(found, dict) and not values.is_no_object(found):
        raise refused("metadata", str(values.refusal("an object", found)))
    metadata = dict(found or {})
    pages, records = (_count(metadata.pop(name, None)) for name in ("total_pages", "total_records"))
    version = metadata.pop("version", None)
    if version is not None and not values.is_boolean(version):
        metadata["version"], version = version, None
    if metadata:
        extra["metadata"] = metadata
    version = None if version is None else values.boolean(version)
    totals = None if totals is False or values.is_no_object(totals) else totals
    return (
        Page(tuple(data), number, pages, records, totals, version, extra or NO_EXTRA),
        path,
        totals_path,
    )


def refuse_another(
    envelope: dict[str, Any], unknown: Collection[str] | None, kind: str, asked: int
) -> None:
    """Refuse a page that says, wherever it does, that it is about another campaign or keyword than the one asked for.

    `unknown` are the names in its rows that the reference does not have, if they are known. Of a row's own id, such as
    a keyword's in a campaign's feed, the kind is another.
    """
    names, data = (f"{kind}_id", f"{kind}Id", kind), envelope["data"]
    places = [("", envelope), ("metadata.", envelope.get("metadata")), ("data.", data)]
    if unknown is None or any(name in unknown for name in names):
        rows, way = (data.get("rows"), "data.rows") if isinstance(data, dict) else (data, "data")
        places += [
            (f"{way}[{number}].", row)
            for number, row in enumerate(rows if isinstance(rows, list) else ())
        ]
    for path, place in places:
        for name in names if isinstance(place, dict) else ():
            found = place.get(name)
            if name == kind:
                name, found = f"{name}.id", found.get("id") if isinstance(found, dict) else None
            if _count(found) not in (None, asked):
                problem = f"the response is about {values.describe(found)}, not about {asked}, which was asked for"
                raise refused(f"{path}{name}", problem)


def refused(path: str, problem: str) -> DecodeError:
    """Return the error for an undocumented part of a response."""
    return DecodeError(
        f"{path}: {problem}" if path else f"the response {problem}", field_path=path or None
    )


def _count(value: object) -> int | None:
    if value is None:  # an error costs more than all the rest
        return None
    try:
        count = values.integer(value)
    except ValueError:
        return None
    return count if count >= 0 else None


def _is_error(envelope: dict[str, Any]) -> bool:
    status = envelope.get("status")
    return (
        (isinstance(status, str) and status.lower() in ("error", "fail", "failed"))
        or any(_error_code(envelope, name) for name in ("status", "code"))
        or any(_is_false(envelope.get(name)) for name in ("success", "ok"))
        or any(envelope.get(name) and not _is_false(envelope[name]) for name in ("error", "errors"))
        or not (
            "data" in envelope
            or envelope.keys().isdisjoint(("error", "errors", "message", "messages"))
        )
    )


def _is_false(value: object) -> bool:
    return values.is_boolean(value) and not values.boolean(value)


def _error_code(envelope: dict[str, Any], name: str) -> int | None:
    code = _count(envelope.get(name))
    return code if code is not None and 400 <= code <= 599 else None


def _service_error(envelope: dict[str, Any]) -> StatusError:
    said = one_line(reason_in(envelope))
    code = _error_code(envelope, "code") or _error_code(envelope, "status")
    kind = StatusError if code is None else status_error_type(code)
    reported = f"the service reported an error in a response that claims success: {said or 'it gave no reason'}"
    return kind(reported, status=200)


_Found: TypeAlias = tuple[str, str]
"""The path to a problem, from where the search stands, and the problem; no JSON value becomes a tuple."""


def _number(digits: str) -> _Found | None:
    try:
        msgspec.json.decode(digits)
    except (
        msgspec.ValidationError
    ):  # a float beyond the largest, or more digits than Python converts to an int
        return "", "holds a number that is out of range"
    return None


def _find_problem(body: bytes) -> _Found | None:
    """Return path and problem of the first value that retrying won't fix, or None; a ValueError: it is cut short.

    No object of the body is kept: millions would keep the garbage collector busy.
    """
    if not body.rstrip().endswith((b"}", b"]")):
        raise ValueError("no end")
    numbers: Any = {
        "parse_int": _number,
        "parse_float": _number,
        "parse_constant": lambda _: ("", "is not a JSON number"),
    }
    text = body.decode(errors="surrogateescape")
    found = _within(json.loads(text, strict=False, object_pairs_hook=_first, **numbers))
    return found and (found[0].removeprefix("."), found[1])


def _first(items: Iterable[tuple[str | int, Any]]) -> _Found | None:
    for step, value in items:
        if isinstance(step, str) and SURROGATE.search(step):
            return "", "has a field whose name is not valid Unicode"
        if found := _within(value):
            written = f"[{step}]" if isinstance(step, int) else f".{step}"
            return f"{written}{found[0]}"[-_PATH_LENGTH:], found[1]
    return None


def _within(value: Any) -> _Found | None:
    if isinstance(value, str) and SURROGATE.search(value):
        return "", "is not valid UTF-8" if _INVALID_BYTE.search(
            value
        ) else "holds half a surrogate pair"
    if isinstance(value, list):
        return _first(enumerate(value))
    return value if isinstance(value, tuple) else None
