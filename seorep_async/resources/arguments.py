"""Check arguments before anything is sent. Each `check_…` raises a ConfigurationError.

Each returns a plain value (`plain_values.py`), so members of a `StrEnum`, numpy numbers and
pendulum dates work wherever plain values do.
"""

from __future__ import annotations

import calendar
import datetime as dt
import functools
import inspect
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from inspect import Parameter, Signature
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from seorep_async.errors import ConfigurationError, DecodeError, short_repr, suggestion
from seorep_async.models import Backlink, Campaign, Feed, Keyword, User
from seorep_async.plain_values import (
    SURROGATE,
    UNFROZEN,
    plain_date,
    plain_integer,
    plain_string,
)
from seorep_async.resources.encoding import ParamValue
from seorep_async.resources.secret_arguments import (
    ExtraParams as ExtraParams,
    Params as Params,
    SecretInteger,
    described,
    mask_secrets as mask_secrets,
    secrets_in as secrets_in,
)
from seorep_async.secret import Secret

F = TypeVar("F", bound=Callable[..., object])

MAX_ID = 2**31 - 1
VALID_IDS = range(1, MAX_ID + 1)
_IDS = list[Annotated[int, msgspec.Meta(ge=1, le=MAX_ID)]]
"""A list of valid ids, for msgspec."""
_NO_STRINGS = ("0", "false", "no", "off")
"""Strings of `compare_previous_period` that request no changes."""
_HOW_TO_GIVE = {"page": ".page(…)"}
"""How to give a documented parameter whose argument has another name."""
_OTHER_WAYS = {
    "campaign_ids": "Pass them as ids.",
    "filter": "Pass it as search.",
    "keyword_ids": "Pass them as ids.",
    "month": 'Pass after="2023-03", or "2023-03" as both start_date and end_date.',
    "on_progress": "Only `pull_to` reports its progress. Here, write `async for outcome in "
    "tqdm(pull, total=len(pull))`.",
    "page": "Write .page(…) after the call.",
    "timeout": "Write `with client.timeout(…):` around the call.",
}
"""Advice for arguments that other clients have."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")
_FORM_OF_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}")  # matches months that don't exist as well
_LONGEST_NAME = 100
"""The maximum length of an account's name."""

Date: TypeAlias = dt.date | str


def unknown_argument(name: str, names: Collection[str]) -> ConfigurationError:
    """Return the error for an unknown argument."""
    advice = suggestion(name, names)
    if name in _OTHER_WAYS:
        advice = f" {_OTHER_WAYS[name]}"
    problem = f"there is no argument {short_repr(name)}.{advice}"
    return ConfigurationError(f"{problem} The arguments are {', '.join(names)}", argument=name)


def names_unknown_arguments(method: F, options: Iterable[str] = ()) -> F:
    """Make a method report a misspelt argument or option, such as `start=`.

    Python would instead report a missing argument, such as `start_date`, or suggest nothing.
    """
    signature = signature_with_options(method, options)
    names = [name for name in signature.parameters if name != "self"]

    @functools.wraps(method)
    def checked(*arguments: object, **keywords: object) -> object:
        """Refuse unknown names, mask secrets in `extra_params`, and call the method."""
        for name in keywords:
            if name not in names:
                # A traceback with locals shows this frame, and a value may be a secret.
                keywords.clear()
                raise unknown_argument(name, names)
        if "extra_params" in keywords:
            keywords["extra_params"] = mask_secrets(keywords["extra_params"])
        return method(*arguments, **keywords)

    checked.__signature__ = signature  # type: ignore[attr-defined]
    return checked  # type: ignore[return-value]  # it has the same signature


def signature_with_options(
    function: Callable[..., Any],
    options: Iterable[str],
    defaults: Mapping[str, object] = MappingProxyType({}),
) -> Signature:
    """Return a signature that names each option in place of `**options`.

    Notebooks and `help()` read it. Type checkers find the options in `Unpack`.

    Args:
        defaults: the defaults that are not None. Tools may read defaults, and pass them on.
    """
    signature = inspect.signature(function)
    parameters = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    parameters += [
        Parameter(name, Parameter.KEYWORD_ONLY, default=defaults.get(name)) for name in options
    ]
    return signature.replace(parameters=parameters)


def check_id(name: str, value: object) -> int:
    """Accept an integer from 1 to 2**31 - 1. Strings and booleans are rejected."""
    number = plain_integer(value)
    if number is None or number not in VALID_IDS:
        problem = f"{name} must be an integer from 1 to {MAX_ID}, got {short_repr(value)}"
        if isinstance(value, Campaign | Keyword | User | Backlink):
            problem += "; pass its .id"
        elif (isinstance(value, str) and value.isdecimal()) or (
            isinstance(value, float) and value.is_integer()
        ):
            problem += "; convert it with int()"
        raise ConfigurationError(problem, argument=name)
    return number


def check_count(name: str, value: object) -> int:
    """Accept a count from 1 to 2**31 - 1, the same range as that of ids."""
    return check_id(name, value)


def listed_ids(ids: Iterable[int]) -> tuple[list[int], dict[int, DecodeError]]:
    """Return the valid ids among those that the service listed, and an error for each other id."""
    valid_ids = []
    errors = {}
    for id_ in ids:
        if id_ in VALID_IDS:
            valid_ids.append(id_)
        else:
            errors[id_] = DecodeError(f"the service listed an invalid id: {id_}")
    return valid_ids, errors


def check_ids(object_name: str, values: Iterable[int]) -> Collection[int]:
    """Return the ids of campaigns or keywords in order and without duplicates."""
    name = f"{object_name}_id"
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        problem = f"ids must be several {object_name} ids, got {short_repr(values)}"
        if values is None:
            problem += f"; for all of them, list them first (client.{object_name}s.list)"
        elif isinstance(values, int):
            problem += f"; write [{values}]"
        raise ConfigurationError(problem, argument="ids")
    if isinstance(values, range):
        # A range may be huge. Its smallest and largest ids are at its ends.
        for end in (*values[:1], *values[-1:]):
            check_id(name, end)
        return values
    ids = values if isinstance(values, list | tuple) else list(values)
    try:
        # msgspec checks a million ids in 0.1 s
        return _without_duplicates(msgspec.convert(ids, _IDS))
    except (msgspec.ValidationError, UnicodeError):
        # Checked one by one: this accepts numpy integers as well, and the error names the wrong id.
        return _without_duplicates(check_id(name, value) for value in ids)


def _without_duplicates(ids: Iterable[int]) -> list[int]:
    # A pull keeps its ids, and a list takes an eighth of a dict's memory.
    return list(dict.fromkeys(ids))


def check_feed(value: object) -> Feed:
    """Accept a feed or its value."""
    try:
        return Feed(value)
    except ValueError:
        feeds = ", ".join(f'{feed} or "{feed.value}"' for feed in Feed)
        problem = f"feed must be one of {feeds}; got {short_repr(value)}."
        problem += suggestion(value, [feed.value for feed in Feed])
        raise ConfigurationError(problem, argument="feed") from None


def check_feeds(value: object) -> tuple[Feed, ...]:
    """Accept one feed or several, or their values. Return them without duplicates."""
    values = value if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    requested_feeds = {check_feed(item) for item in values}
    if not requested_feeds:
        raise ConfigurationError("feeds must name at least one feed", argument="feeds")
    return tuple(feed for feed in Feed if feed in requested_feeds)


def check_date(name: str, value: object, *, takes_month: bool = False) -> dt.date:
    """Accept a date or a string `YYYY-MM-DD`.

    A datetime is rejected, because its date depends on the time zone.
    """
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return plain_date(value)
    # `fromisoformat` alone would also accept weeks, such as 2023-W05
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return UNFROZEN.date.fromisoformat(value)
        except ValueError:
            problem = f"{name}: the date {plain_string(value)} does not exist"
            raise ConfigurationError(problem, argument=name) from None
    forms = 'a datetime.date or a string "YYYY-MM-DD"'
    if takes_month:
        forms = 'a datetime.date, a day "YYYY-MM-DD" or a month "YYYY-MM"'
        if isinstance(value, str) and _FORM_OF_MONTH.fullmatch(value):
            problem = f"{name}: the month {plain_string(value)} does not exist"
            raise ConfigurationError(problem, argument=name)
    problem = f"{name} must be {forms}, got {short_repr(value)}"
    if isinstance(value, dt.datetime):
        problem += "; pass its .date()"
    elif hasattr(value, "strftime"):  # a pandas Period
        problem += "; pass its str()"
    raise ConfigurationError(problem, argument=name)


def check_dates(start_date: object, end_date: object) -> tuple[dt.date, dt.date]:
    """Return the first and last day of a range. A range that ends before it starts is rejected.

    A month, such as 2023-03, starts with its first day and ends with its last one.
    """
    start = check_day_or_month("start_date", start_date, first=True)
    end = check_day_or_month("end_date", end_date, first=False)
    if end < start:
        problem = f"end_date {end} is before start_date {start}; swap them"
        raise ConfigurationError(problem, argument="end_date")
    return start, end


def check_day_or_month(name: str, value: object, *, first: bool) -> dt.date:
    """Return a day. A month stands for its first day if `first`, otherwise for its last day."""
    if isinstance(value, str) and _MONTH.fullmatch(value):
        year, month = map(int, value.split("-"))
        day = 1 if first else calendar.monthrange(year, month)[1]
        value = f"{plain_string(value)}-{day:02}"
    # `takes_month` only widens the error message
    return check_date(name, value, takes_month=True)


def check_limit(value: object) -> int | None:
    """Return the records per page, from 1 to 2**31 - 1, or None for the service's default."""
    return None if value is None else check_count("limit", value)


def check_account_name(account: object) -> str:
    """Return an account's name if it is 1 to 100 printable characters, without spaces around it."""
    if isinstance(account, str) and account.isprintable() and account == account.strip():
        name = plain_string(account)
        if 0 < len(name) <= _LONGEST_NAME:
            return name
    problem = "account must be a name of 1 to 100 printable characters, without surrounding spaces"
    raise ConfigurationError(problem, argument="account")


def check_engine_names(names: object) -> tuple[str, str]:
    """Return the names that people use for engine A and engine B."""
    words = list(names) if isinstance(names, list | tuple) else []
    if len(words) != 2 or not all(isinstance(word, str) and word.strip() for word in words):
        expected = "the two names of engines A and B, such as Google and Bing"
        problem = f"engine_names must be {expected}, got {short_repr(names)}"
        raise ConfigurationError(problem, argument="engine_names")
    engine_a, engine_b = words
    return engine_a, engine_b


def required_strings(**values: object) -> dict[str, str]:
    """Return strings by name. An empty one is rejected, and the error shows no value."""
    strings = {}
    for name, value in values.items():
        if not isinstance(value, str) or not value:
            raise ConfigurationError(f"{name} must be a non-empty string", argument=name)
        strings[name] = value
    return strings


def optional_strings(**values: object) -> dict[str, str | None]:
    """Return strings by name. None means that an argument is left out.

    They are checked here, because a parameter may have another name than its argument.
    """
    strings: dict[str, str | None] = {}
    for name, value in values.items():
        if value is None:
            strings[name] = None
        elif isinstance(value, str):
            strings[name] = _checked_string(name, value)
        else:
            problem = f"{name} must be a string, got {described(value)}"
            raise ConfigurationError(problem, argument=name)
    return strings


def one_or_several_strings(name: str, value: object) -> Iterable[str] | None:
    """Accept one string or several. None means that an argument is left out."""
    if value is None:
        return None
    if isinstance(value, str):
        return (plain_string(value),)
    if isinstance(value, Iterable) and not isinstance(value, bytes | Mapping):
        strings = value if isinstance(value, set | frozenset) else tuple(value)
        if strings:
            return strings
    problem = f"{name} must be a string or several strings, got {described(value)}"
    raise ConfigurationError(problem, argument=name)


def asks_to_compare(value: object) -> bool:
    """Return whether a value of `compare_previous_period` requests changes.

    The reference lists no values. Every value requests changes except None, False, 0, an empty
    value, and the strings `0`, `false`, `no` and `off`, regardless of case.
    """
    string = plain_string(value) if isinstance(value, str) else str(value)
    return bool(value) and string.strip().lower() not in _NO_STRINGS


def build_params(
    documented: Params,
    extra_params: ExtraParams | None,
    *,
    argument: str = "extra_params",
    how_to_give: Mapping[str, str] = _HOW_TO_GIVE,
) -> dict[str, ParamValue]:
    """Check the documented and the additional parameters, and return all that are not None.

    Args:
        documented: the documented parameters. A parameter that is None is not sent, but no
            additional parameter may have its name.
        extra_params: the additional parameters.
        argument: the name of the caller's argument with the additional parameters.
        how_to_give: how to give documented parameters whose arguments have other names.

    Raises:
        ConfigurationError: a value can't be sent, or an additional parameter is a documented one.
    """
    checked = {}
    for name, value in documented.items():
        if value is not None:
            checked[name] = _checked_value(name, value)
    if extra_params is None:
        return checked
    extra_params = mask_secrets(extra_params, argument=argument)
    if not isinstance(extra_params, Mapping):
        problem = f"{argument} must map names to values, got {described(extra_params)}"
        raise ConfigurationError(problem, argument=argument)
    for extra_name, value in extra_params.items():
        checked_name = _checked_name(extra_name, documented, argument, how_to_give)
        if value is not None:
            checked[checked_name] = _checked_value(checked_name, value)
    return checked


def _checked_name(
    name: object, documented: Params, argument: str, how_to_give: Mapping[str, str]
) -> str:
    """Return the name of an additional parameter. The name of a documented one is rejected."""
    if not isinstance(name, str) or not name:
        problem = f"{argument}: a name must be a non-empty string, got {described(name)}"
        raise ConfigurationError(problem, argument=argument)
    if SURROGATE.search(name):
        problem = f"{argument}: the name {short_repr(name)} is not valid Unicode"
        raise ConfigurationError(problem, argument=argument)
    # `Settings.array_encoding` may send the documented `role` as `role[]`.
    documented_name = name.removesuffix("[]")
    if documented_name in documented:
        example = how_to_give.get(documented_name, f"{documented_name}=…")
        problem = f"{argument}: {plain_string(name)!r} is an argument of its own: {example}"
        raise ConfigurationError(problem, argument=argument)
    return plain_string(name)


def _checked_value(name: str, value: object) -> ParamValue:
    """Return a parameter's value in a form that can be sent. A secret stays masked."""
    # A SecretInteger is left as it is: a plain int would show its digits.
    number = None if isinstance(value, SecretInteger) else plain_integer(value)
    if number is not None:
        value = number
    match value:
        case int() if abs(value) < 2**63:
            return value
        case str():
            return _checked_string(name, value)
        case float() if math.isfinite(value):
            return value
        case dt.date() if not isinstance(value, dt.datetime):
            return plain_date(value)
        case Iterable() if not isinstance(value, Mapping | bytes):
            strings = _strings_of_array(name, value)
            if strings is not None:
                return strings
    raise ConfigurationError(f"{name} cannot be sent as {described(value)}", argument=name)


def _strings_of_array(name: str, values: Iterable[object]) -> tuple[str, ...] | None:
    """Check the strings of an array and return them, or None if a value is not a string."""
    # An iterator can be read only once.
    items = tuple(values)
    strings = [item for item in items if isinstance(item, str)]
    if len(strings) < len(items):
        return None
    strings = [_checked_string(name, item) for item in strings]
    # A set has no order, but a query should be the same in each run.
    if isinstance(values, set | frozenset):
        strings.sort()
    return tuple(strings)


def _checked_string(name: str, value: str) -> str:
    """Return a plain string, or a secret as it is. Refuse a string that is not valid Unicode."""
    if SURROGATE.search(value):
        raise ConfigurationError(f"{name} is not valid Unicode", argument=name)
    return value if isinstance(value, Secret) else plain_string(value)
