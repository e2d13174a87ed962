"""Checked values encoded as a query, form data or JSON."""

from __future__ import annotations

import datetime as dt
import json
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from seorep_async.errors import ConfigurationError
from seorep_async.settings import ArrayEncoding, RequestEncoding

ParamValue: TypeAlias = str | int | float | bool | dt.date | tuple[str, ...]


def encode_query(values: Mapping[str, ParamValue], arrays: ArrayEncoding) -> str:
    """Return values as a percent-encoded query without `?`."""
    return urllib.parse.urlencode([*_pairs(values, arrays)], quote_via=urllib.parse.quote) if values else ""


def encode_write(
    values: Mapping[str, ParamValue], encoding: RequestEncoding, arrays: ArrayEncoding
) -> tuple[str, bytes | None, str | None]:
    """Return a write's query, body and media type."""
    match encoding:
        case RequestEncoding.QUERY:
            return encode_query(values, arrays), None, None
        case RequestEncoding.JSON:
            return "", json.dumps({name: _json(value) for name, value in values.items()}).encode(), "application/json"
        case RequestEncoding.FORM:
            form = urllib.parse.urlencode([*_pairs(values, arrays)])
            return "", form.encode(), "application/x-www-form-urlencoded"


def _pairs(values: Mapping[str, ParamValue], arrays: ArrayEncoding) -> Iterator[tuple[str, str]]:
    """Give names and strings one by one: a traceback with locals would show the secrets in a list of them."""
    for name, value in values.items():
        if not isinstance(value, tuple):
            yield _string(name), _string(value)
        elif arrays is ArrayEncoding.COMMA:
            if any("," in item for item in value):
                problem = f"{name}: a value with a comma can't be sent as ArrayEncoding.COMMA"
                raise ConfigurationError(problem, argument=_string(name))
            if value:
                yield _string(name), ",".join(value)
        else:
            key = _string(name) + ("[]" if arrays is ArrayEncoding.BRACKETS else "")
            yield from ((key, _string(item)) for item in value)


def _string(value: str | float | dt.date) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.date):
        return value.isoformat()
    # str() of an enum's member would be its name
    if isinstance(value, str):
        return str.__str__(value)
    return int.__repr__(value) if isinstance(value, int) else float.__repr__(value)


def _json(value: ParamValue) -> str | float | list[str]:
    if isinstance(value, tuple):
        return list(value)
    # the reference types booleans as strings: "true" and "false" in JSON too
    return value if isinstance(value, int | float) and not isinstance(value, bool) else _string(value)
