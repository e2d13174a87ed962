"""Checked values encoded as a query, form data or JSON."""

from __future__ import annotations

import datetime as dt
import json
import urllib.parse
from collections.abc import Mapping
from typing import TypeAlias

from seorep_async.errors import ConfigurationError
from seorep_async.settings import ArrayEncoding, RequestEncoding

ParamValue: TypeAlias = str | int | float | bool | dt.date | tuple[str, ...]


def encode_query(values: Mapping[str, ParamValue], arrays: ArrayEncoding) -> str:
    """Return values as a percent-encoded query without `?`."""
    return urllib.parse.urlencode(_pairs(values, arrays), quote_via=urllib.parse.quote) if values else ""


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
            form = urllib.parse.urlencode(_pairs(values, arrays))
            return "", form.encode(), "application/x-www-form-urlencoded"


def _pairs(values: Mapping[str, ParamValue], arrays: ArrayEncoding) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, value in values.items():
        if not isinstance(value, tuple):
            pairs.append((_string(name), _string(value)))
        elif arrays is ArrayEncoding.COMMA:
            if any("," in item for item in value):
                problem = f"{name}: a value with a comma can't be sent as ArrayEncoding.COMMA"
                raise ConfigurationError(problem, argument=_string(name))
            pairs += [(_string(name), ",".join(value))] if value else []
        else:
            key = _string(name) + ("[]" if arrays is ArrayEncoding.BRACKETS else "")
            pairs += [(key, _string(item)) for item in value]
    return pairs


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
