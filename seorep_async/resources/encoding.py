"""Encode parameters as a query, a form or JSON."""

from __future__ import annotations

import datetime as dt
import json
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from seorep_async.errors import ConfigurationError
from seorep_async.plain_values import plain_string
from seorep_async.settings import ArrayEncoding, RequestEncoding

ParamValue: TypeAlias = str | int | float | bool | dt.date | tuple[str, ...]
"""A checked value of a parameter, which can be encoded."""


def encode_query(values: Mapping[str, ParamValue], arrays: ArrayEncoding) -> str:
    """Return values as a percent-encoded query without `?`."""
    if not values:
        return ""
    return urllib.parse.urlencode([*_pairs(values, arrays)], quote_via=urllib.parse.quote)


def encode_write(
    values: Mapping[str, ParamValue], encoding: RequestEncoding, arrays: ArrayEncoding
) -> tuple[str, bytes | None, str | None]:
    """Return a write's query, body and media type."""
    match encoding:
        case RequestEncoding.QUERY:
            return encode_query(values, arrays), None, None
        case RequestEncoding.JSON:
            parameters = json.dumps({name: _json(value) for name, value in values.items()})
            return "", parameters.encode(), "application/json"
        case RequestEncoding.FORM:
            form = urllib.parse.urlencode([*_pairs(values, arrays)])
            return "", form.encode(), "application/x-www-form-urlencoded"


def _pairs(values: Mapping[str, ParamValue], arrays: ArrayEncoding) -> Iterator[tuple[str, str]]:
    """Yield each name with its value as a string. A tuple is joined or repeated, as `arrays` says.

    The strings are not collected in a list here: if a later value were refused, a traceback with
    local variables would show the secrets in that list.
    """
    for name, value in values.items():
        if not isinstance(value, tuple):
            yield name, _string(value)
        elif arrays is ArrayEncoding.COMMA:
            if any("," in item for item in value):
                problem = f"{name}: a value with a comma can't be sent as ArrayEncoding.COMMA"
                raise ConfigurationError(problem, argument=name)
            if value:
                yield name, ",".join(value)
        else:
            key = f"{name}[]" if arrays is ArrayEncoding.BRACKETS else name
            for item in value:
                yield key, plain_string(item)


def _string(value: str | float | dt.date) -> str:
    """Return a value in the service's spelling, with any secret unmasked."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, str):
        return plain_string(value)
    # A subclass of int or float may hide its value in `__repr__`, so the base class's is called.
    if isinstance(value, int):
        return int.__repr__(value)
    return float.__repr__(value)


def _json(value: ParamValue) -> str | float | list[str]:
    if isinstance(value, tuple):
        return list(value)
    # The reference defines booleans as the strings "true" and "false", even in JSON.
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return _string(value)
