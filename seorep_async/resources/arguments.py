"""Arguments checked before any I/O; every `check_…` raises a ConfigurationError for a wrong one."""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, TypeAlias, cast

import msgspec

from seorep_async.errors import ConfigurationError, shown
from seorep_async.models import Feed
from seorep_async.secret import Secret
from seorep_async.session import ParamValue

MAX_ID = 2**31 - 1
_IDS = list[Annotated[int, msgspec.Meta(ge=1, le=MAX_ID)]]
_NO = ("0", "false", "no", "off")
_PLACES = {"page": ".page(…)"}
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")  # fromisoformat alone takes weeks too
_SURROGATE = re.compile("[\ud800-\udfff]")  # UTF-8 cannot encode these
_SECRET_NAME = re.compile(
    "(?i)password|passwd|passphrase|pwd|token|secret|api[_-]?key|(?<![a-z])pass(?![a-z])"
)

Date: TypeAlias = dt.date | str
Params: TypeAlias = Mapping[str, ParamValue | Iterable[str] | None]
ExtraParams: TypeAlias = Params


def mask_secrets(
    values: ExtraParams | None, *, argument: str = "extra_params"
) -> ExtraParams | None:
    """Return additional parameters, the values of those with secret names as `Secret`s."""
    if values is None or not isinstance(values, Mapping):
        return values  # refused later
    names = [name for name, _ in values.items()]
    if len({*names}) < len(names):  # a MultiDict, say
        twice = next(name for name in names if names.count(name) > 1)
        problem = f"{argument}: {shown(twice)} is given more than once; pass its values as one list"
        raise ConfigurationError(problem, argument=argument)
    return {
        name: _masked(value) if _is_secret(name) else _hidden(value)
        for name, value in values.items()
    }


class _Hidden:
    """In place of a value that can't be sent, and may hold a secret."""

    def __repr__(self) -> str:
        return "***"


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return Secret(value)
    if isinstance(value, Mapping | bytes | bytearray):
        return _Hidden()
    return tuple(map(_masked, value)) if isinstance(value, Iterable) else value


def _hidden(value: Any) -> Any:
    """Hide a value that can't be sent if a secret name is in it, at any depth."""
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return value
    try:
        return (
            _Hidden()
            if isinstance(value, Mapping | list | tuple) and _is_secret(repr(value))
            else value
        )
    except ValueError:  # an integer of thousands of digits beside it
        return _Hidden()


def secrets_in(values: Mapping[str, ParamValue]) -> tuple[str, ...]:
    """Return the strings among the values with secret names."""
    found = (
        value if isinstance(value, tuple) else (value,)
        for name, value in values.items()
        if _is_secret(name)
    )
    return tuple(one for several in found for one in several if isinstance(one, str))


def _is_secret(name: object) -> bool:
    return isinstance(name, str) and _SECRET_NAME.search(name) is not None


def as_int(value: object) -> int | None:
    """Return an integer of any type, such as numpy's, as an int; None for a bool or any other value."""
    try:
        return None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]  # it raises a TypeError
    except TypeError:
        return None


def check_id(name: str, value: object) -> int:
    """Return an id, an int from 1 to 2**31 - 1; a string or a bool is none."""
    number = as_int(value)
    if number is None or not 1 <= number <= MAX_ID:
        raise ConfigurationError(
            f"{name} must be an integer from 1 to {MAX_ID}, got {shown(value)}", argument=name
        )
    return number


def check_ids(object_name: str, values: Iterable[int]) -> Collection[int]:
    """Return many ids of campaigns or keywords, each once, in their order."""
    name = f"{object_name}_id"
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ConfigurationError(
            f"ids must be several {object_name} ids, got {shown(values)}", argument="ids"
        )
    if isinstance(values, range):  # may be huge, and holds its largest at an end
        for end in (*values[:1], *values[-1:]):
            check_id(name, end)
        return values
    ids = values if isinstance(values, list | tuple) else list(values)
    try:
        return dict.fromkeys(msgspec.convert(ids, _IDS))  # a million take 0.1 s
    except msgspec.ValidationError:
        return dict.fromkeys(check_id(name, one) for one in ids)


def check_feed(value: object) -> Feed:
    """Return a feed, from a feed or its value."""
    try:
        return Feed(value)
    except ValueError:
        feeds = ", ".join(f'{one} or "{one.value}"' for one in Feed)
        raise ConfigurationError(
            f"feed must be one of {feeds}; got {shown(value)}", argument="feed"
        ) from None


def check_feeds(value: object) -> tuple[Feed, ...]:
    """Return one or several feeds, from feeds or their values, each once."""
    several = value if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    wanted = {check_feed(one) for one in several}
    if not wanted:
        raise ConfigurationError("feeds must name at least one feed", argument="feeds")
    return tuple(feed for feed in Feed if feed in wanted)


def check_date(name: str, value: object) -> dt.date:
    """Return a date, from a date or a string `YYYY-MM-DD`; a datetime is none, as its zone would matter."""
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return dt.date.fromisoformat(value)
        except ValueError:
            pass
    hint = "; pass its .date()" if isinstance(value, dt.datetime) else ""
    problem = f'{name} must be a datetime.date or a string "YYYY-MM-DD", got {shown(value)}{hint}'
    raise ConfigurationError(problem, argument=name)


def check_dates(start_date: object, end_date: object) -> tuple[dt.date, dt.date]:
    """Return the first and the last day of a range, which must not end before it starts."""
    start, end = check_date("start_date", start_date), check_date("end_date", end_date)
    if end < start:
        raise ConfigurationError(
            f"end_date {end} is before start_date {start}; swap them", argument="end_date"
        )
    return start, end


def check_limit(value: object) -> int | None:
    """Return the records per page, 1 to 2**31 - 1, or None for the service's default."""
    return None if value is None else check_id("limit", value)


def required_strings(**named: object) -> dict[str, str]:
    """Return strings by their names, none of which may be empty; the error shows none of them."""
    for name, value in named.items():
        if not isinstance(value, str) or not value:
            raise ConfigurationError(f"{name} must be a string that is not empty", argument=name)
    return cast("dict[str, str]", named)


def check_account_name(account: object) -> str:
    """Return the name of an account."""
    if (
        isinstance(account, str)
        and account == account.strip()
        and account.isprintable()
        and 0 < len(account) <= 100
    ):
        return account
    problem = "account must be a name of 1 to 100 printable characters, without surrounding spaces"
    raise ConfigurationError(problem, argument="account")


def optional_strings(**named: object) -> dict[str, str | None]:
    """Return strings by their names; None means not given, anything else is a ConfigurationError."""
    for name, value in named.items():
        if value is not None and not isinstance(value, str):
            raise ConfigurationError(f"{name} must be a string, got {shown(value)}", argument=name)
    return cast("dict[str, str | None]", named)


def check_strings(name: str, value: object) -> Iterable[str] | None:
    """Return one string or several as several; None means not given."""
    if value is None or isinstance(value, str):
        return None if value is None else (value,)
    if isinstance(value, Iterable) and not isinstance(value, bytes | Mapping):
        strings = tuple(sorted(value, key=str) if isinstance(value, set | frozenset) else value)
        if strings:
            return strings
    raise ConfigurationError(
        f"{name} must be a string or several strings, got {shown(value)}", argument=name
    )


def asks_to_compare(value: object) -> bool:
    """Return whether a value of `compare_previous_period` requests changes.

    The reference does not name its values: all request them but None, False, 0, an empty value, and the strings `0`,
    `false`, `no` and `off` in any case.
    """
    return bool(value) and str(value).strip().lower() not in _NO


def build_params(
    named: Params,
    extra_params: ExtraParams | None,
    *,
    argument: str = "extra_params",
    places: Mapping[str, str] = _PLACES,
) -> dict[str, ParamValue]:
    """Return the documented parameters that are not None, checked, and then the additional ones.

    Raises a ConfigurationError if a value can't be sent, or an additional parameter is a documented one. `argument` is
    the caller's name for the additional ones; `places` names the arguments of parameters that have other names.
    """
    checked = {name: _checked(name, value) for name, value in named.items() if value is not None}
    if extra_params is None:
        return checked
    extra_params = mask_secrets(extra_params, argument=argument)
    if not isinstance(extra_params, Mapping):
        raise ConfigurationError(
            f"{argument} must map names to values, got {shown(extra_params)}", argument=argument
        )
    for name, value in extra_params.items():
        if not isinstance(name, str) or not name:
            raise ConfigurationError(
                f"{argument}: a name must be a string, got {shown(name)}", argument=argument
            )
        _check_unicode(f"{argument}: a name", name)
        if (own := name.removesuffix("[]")) in named:
            own = places.get(own, f"{own}=…")
            raise ConfigurationError(
                f"{argument}: {name!r} has a place of its own: {own}", argument=argument
            )
        if value is not None:
            checked[name] = _checked(name, value)
    return checked


def _checked(name: str, value: object) -> ParamValue:
    if (number := as_int(value)) is not None:
        value = number
    match value:
        case int() if abs(value) < 2**63:
            return value
        case str():
            _check_unicode(name, value)
            return value
        case float() if math.isfinite(value):
            return value
        case dt.date() if not isinstance(value, dt.datetime):
            return value
        case Iterable() if not isinstance(value, Mapping | bytes):
            items = tuple(value)
            if all(isinstance(item, str) for item in items):
                for item in items:
                    _check_unicode(name, item)
                return tuple(sorted(items)) if isinstance(value, set | frozenset) else items
    raise ConfigurationError(f"{name} cannot be sent as {shown(value)}", argument=name)


def _check_unicode(name: str, value: str) -> None:
    if _SURROGATE.search(value):
        raise ConfigurationError(f"{name} is not valid Unicode", argument=name)
