"""Arguments checked and written as the wire wants them, before any I/O."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from seorep_async.errors import ConfigurationError
from seorep_async.settings import ArrayEncoding

MAX_ID = 2**31 - 1

Value: TypeAlias = str | int | float | bool | dt.date | None
ExtraParams: TypeAlias = Mapping[str, Value | Iterable[str]]


def check_id(name: str, value: object) -> int:
    """Return an id, an int from 1 to 2**31 - 1.

    Raises:
        ConfigurationError: it is something else; text and bools are no ids.
    """
    if type(value) is not int or not 1 <= value <= MAX_ID:
        raise ConfigurationError(f"{name} must be an integer from 1 to {MAX_ID}, got {_shown(value)}")
    return value


def check_date(name: str, value: object) -> dt.date:
    """Return a date, from a date or ISO text `YYYY-MM-DD`.

    Raises:
        ConfigurationError: it is neither; a datetime is none, as its zone would matter.
    """
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    if isinstance(value, str) and len(value) == 10:
        try:
            return dt.date.fromisoformat(value)
        except ValueError:
            pass
    raise ConfigurationError(f'{name} must be a datetime.date or text "YYYY-MM-DD", got {_shown(value)}')


def check_dates(start_date: object, end_date: object) -> tuple[dt.date, dt.date]:
    """Return the first and the last day of a range.

    Raises:
        ConfigurationError: one is no date, or the range ends before it starts.
    """
    start, end = check_date("start_date", start_date), check_date("end_date", end_date)
    if end < start:
        raise ConfigurationError(f"end_date {end} is before start_date {start}; swap them")
    return start, end


def check_limit(value: object) -> int | None:
    """Return the number of records to ask for a page, or None for the service's default.

    Raises:
        ConfigurationError: it is neither None nor an int from 1 to 2**31 - 1.
    """
    if value is not None and (type(value) is not int or not 1 <= value <= MAX_ID):
        raise ConfigurationError(f"limit must be an integer from 1 to {MAX_ID}, got {_shown(value)}")
    return value


def parameters(
    named: Mapping[str, Value | Iterable[str]], extra_params: ExtraParams | None, arrays: ArrayEncoding
) -> list[tuple[str, str]]:
    """Return the parameters that were given, as text, the additional ones last.

    Args:
        named: documented parameters; None means not given.
        extra_params: additional ones, sent as they are.
        arrays: how a value of several texts is written.

    Raises:
        ConfigurationError: a value can't be written, or an additional parameter is one of the documented.
    """
    pairs = [pair for name, value in named.items() for pair in _written(name, value, arrays)]
    for name, value in (extra_params or {}).items():
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"extra_params: a name must be text, got {_shown(name)}")
        if name in named or name == "page":
            raise ConfigurationError(f"extra_params: {name!r} is an argument (or method) of its own; give it there")
        pairs += _written(name, value, arrays)
    return pairs


def _written(name: str, value: object, arrays: ArrayEncoding) -> list[tuple[str, str]]:
    match value:
        case None:
            return []
        case bool():
            return [(name, "true" if value else "false")]
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ConfigurationError(f"{name} is not valid Unicode text") from None
            return [(name, value)]
        case int():
            return [(name, str(value))]
        case float() if math.isfinite(value):
            return [(name, repr(value))]
        case dt.date() if not isinstance(value, dt.datetime):
            return [(name, value.isoformat())]
        case list() | tuple() | set() | frozenset() if all(isinstance(item, str) for item in value):
            texts = [text for item in value for _, text in _written(name, item, arrays)]
            if arrays is ArrayEncoding.COMMA:
                return [(name, ",".join(texts))] if texts else []
            key = f"{name}[]" if arrays is ArrayEncoding.BRACKETS else name
            return [(key, text) for text in texts]
    raise ConfigurationError(f"{name} can't be sent as {_shown(value)}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
