"""The envelope around every payload: parsed, refused if it is an error, its two feed shapes normalised."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from seorep_async.errors import DecodeError, ProtocolError, StatusError, status_error_type
from seorep_async.normalisation import values

_MESSAGE_LENGTH = 200
_BOM = b"\xef\xbb\xbf"  # the byte order mark that some services begin with
_METADATA = frozenset({"total_pages", "total_records", "version"})
_SURROGATE = re.compile("[\ud800-\udfff]")
_INVALID_BYTE = re.compile("[\udc80-\udcff]")  # Python's escape of a byte that is not UTF-8
_NO_NUMBER = object()
_OUT_OF_RANGE = object()


class Metadata(msgspec.Struct):
    """An envelope's `metadata`: the counts that make sense, and its other fields."""

    total_pages: int | None
    total_records: int | None
    version: bool | None
    extra: dict[str, Any]


class FeedPayload(msgspec.Struct, frozen=True):
    """A feed's rows and totals, from either shape of response."""

    metadata: Metadata
    rows: list[Any]
    rows_path: str
    totals: Any
    totals_path: str
    extra: dict[str, Any]


def parse(body: bytes | memoryview, *, needs_data: bool = True) -> dict[str, Any]:
    """Return the envelope in a body, with `data` if that is needed.

    Raises:
        ProtocolError: the body is not complete JSON (empty, cut short, HTML …), but may be next time.
        StatusError: the body is an error under a success status.
        DecodeError: the body is JSON, but no envelope.
    """
    if not body:
        raise ProtocolError("the response is empty, but JSON was expected")
    try:
        envelope = msgspec.json.decode(body[len(_BOM) :] if body[: len(_BOM)] == _BOM else body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if problem := _find_problem(body):
            raise refused(*problem) from None
        if isinstance(error, msgspec.ValidationError):
            raise refused("", f"holds a number that is out of range ({error})") from None
        raise ProtocolError(f"the response is not complete JSON: {error}") from None
    except RecursionError:
        raise refused("", "is nested too deeply") from None
    if not isinstance(envelope, dict):
        raise refused("", f"is {values.describe(envelope)} where an object was expected")
    if _is_error(envelope):
        raise _service_error(envelope)
    if needs_data and "data" not in envelope:
        raise refused("data", "is missing")
    return envelope


def metadata(envelope: dict[str, Any]) -> Metadata:
    """Read `metadata`; counts that make no sense are None, an absent or empty `metadata` holds nothing."""
    found = envelope.get("metadata")
    if found is None or found == []:
        found = {}
    if not isinstance(found, dict):
        raise refused("metadata", str(values.refusal("an object", found)))
    version = found.get("version")
    has_version = values.is_boolean(version)
    known = _METADATA if has_version or version is None else _METADATA - {"version"}
    return Metadata(
        total_pages=_count(found.get("total_pages")),
        total_records=_count(found.get("total_records")),
        version=values.boolean(version) if has_version else None,
        extra={name: found[name] for name in found if name not in known},
    )


def normalise_feed(envelope: dict[str, Any]) -> FeedPayload:
    """Normalise the two shapes of a feed (reference, section 4.4), told apart by `data`; any other is a DecodeError."""
    found, data = metadata(envelope), envelope["data"]
    beside = unknown_fields(envelope, found)
    if isinstance(data, list):
        totals = beside.pop("totals", None)
        return FeedPayload(found, rows=data, rows_path="data", totals=totals, totals_path="totals", extra=beside)
    if isinstance(data, dict):
        if "rows" not in data:
            raise refused("data.rows", "is missing")
        if not isinstance(data["rows"], list):
            raise refused("data.rows", str(values.refusal("an array", data["rows"])))
        unknown = {name: data[name] for name in data.keys() - {"rows", "totals"}}
        return FeedPayload(
            found,
            rows=data["rows"],
            rows_path="data.rows",
            totals=data.get("totals"),
            totals_path="data.totals",
            extra=beside | ({"data": unknown} if unknown else {}),
        )
    raise refused("data", str(values.refusal("an array of rows, or an object with rows", data)))


def unknown_fields(envelope: dict[str, Any], found: Metadata) -> dict[str, Any]:
    """Return what stands beside `metadata` and `data`, and what `metadata` holds besides."""
    beside = {name: envelope[name] for name in envelope.keys() - {"metadata", "data"}}
    return beside | ({"metadata": found.extra} if found.extra else {})


def refused(path: str, problem: str) -> DecodeError:
    """Return the error for an undocumented part of a response."""
    return DecodeError(f"{path}: {problem}" if path else f"the response {problem}", field_path=path or None)


def _count(value: object) -> int | None:
    try:
        count = values.integer(value)
    except ValueError:
        return None
    return count if count >= 0 else None


def _is_error(envelope: dict[str, Any]) -> bool:
    status = envelope.get("status")
    if isinstance(status, str) and status.lower() in ("error", "fail", "failed"):
        return True
    if any(_error_code(envelope, name) for name in ("status", "code")):
        return True
    if any(_is_false(envelope.get(name)) for name in ("success", "ok")):
        return True
    if any(envelope.get(name) and not _is_false(envelope[name]) for name in ("error", "errors")):
        return True
    return "data" not in envelope and any(name in envelope for name in ("error", "errors", "message", "messages"))


def _is_false(value: object) -> bool:
    return values.is_boolean(value) and not values.boolean(value)


def _error_code(envelope: dict[str, Any], name: str) -> int | None:
    code = _count(envelope.get(name))
    return code if code is not None and 400 <= code <= 599 else None


def _service_error(envelope: dict[str, Any]) -> StatusError:
    said = values.escape_controls("; ".join(_strings(envelope))[:_MESSAGE_LENGTH])
    code = _error_code(envelope, "code") or _error_code(envelope, "status")
    kind = StatusError if code is None else status_error_type(code)
    reason = said or "it gave no reason"
    return kind(f"the service reported an error in a response that claims success: {reason}", status=200)


def _strings(value: object, depth: int = 3) -> list[str]:
    if isinstance(value, str):
        return [value]
    if depth and isinstance(value, list):
        return [one for item in value[:5] for one in _strings(item, depth - 1)]
    if depth and isinstance(value, dict):
        found = [value.get(name) for name in ("message", "messages", "error", "errors", "results")]
        return [one for item in found for one in _strings(item, depth - 1)]
    return []


def _number(digits: str) -> object:
    try:
        msgspec.json.decode(digits)
    except msgspec.ValidationError:  # a float beyond the largest, or more digits than Python converts to an int
        return _OUT_OF_RANGE
    return None


def _find_problem(body: bytes | memoryview) -> tuple[str, str] | None:
    """Return path and problem of the first value that retrying won't fix, or None if the JSON is incomplete.

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
