"""The arguments of the tools for agents: their JSON schema, and checks of what a host sends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from seorep_async.errors import ConfigurationError, short_repr
from seorep_async.history.comparing import ChangeKind, Engine
from seorep_async.integrations.questions import MOST_CHANGES

FeedName: TypeAlias = Literal["campaign", "campaign-by-date", "keyword-by-date"]


def _about(description: str, *, ge: int | None = None, le: int | None = None) -> msgspec.Meta:
    return msgspec.Meta(description=description, ge=ge, le=le)


FirstDay: TypeAlias = Annotated[str, _about("First day, YYYY-MM-DD, or month, YYYY-MM.")]
LastDay: TypeAlias = Annotated[str, _about("Last day, YYYY-MM-DD, or month, YYYY-MM.")]
PageNumber: TypeAlias = Annotated[int, _about("Page, from 1.", ge=1)]
RowsPerPage: TypeAlias = Annotated[int, _about("Rows per page.", ge=1)]


class Arguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of a tool. Agents see only these descriptions."""


class CampaignsArguments(Arguments):
    filter: Annotated[str | None, _about("Only campaigns with this in name or URL.")] = None
    page: PageNumber = 1
    limit: RowsPerPage = 50


class RankingsArguments(Arguments):
    campaign_id: Annotated[int, _about("From the tool campaigns.")]
    start_date: FirstDay
    end_date: LastDay
    search: Annotated[str | None, _about("Only keywords like this.")] = None
    columns: Annotated[
        list[str] | None,
        _about(
            "Default: phrase, location, ranks, URLs. all: every column. "
            "The sign of ..._change is unknown."
        ),
    ] = None
    page: PageNumber = 1
    limit: RowsPerPage = 25


class ChangesArguments(Arguments):
    before: Annotated[
        str | None,
        _about("Earlier ranking day or month. Default: the last day, or month, before `after`."),
    ] = None
    after: Annotated[
        str | None,
        _about("Later ranking day or month. Default: the last pulled for most campaigns."),
    ] = None
    campaign: Annotated[int | None, _about("Only this campaign id.")] = None
    group: Annotated[str | None, _about("Only this group.")] = None
    kind: Annotated[
        list[ChangeKind] | None,
        _about(
            "rose, fell: ranked on both days. found, lost: ranked on one. new, removed: "
            "keyword in one report."
        ),
    ] = None
    engine: Annotated[
        list[Engine] | None, _about("Only these. Default: all. places: map results.")
    ] = None
    by_campaign: Annotated[
        bool,
        _about(
            "Count each campaign's changes, largest net change first. places: net gain, "
            "without found and lost; with kind rose, only gains."
        ),
    ] = False
    moved: Annotated[int, _about("Minimum places for rose, fell.", ge=1)] = 3
    limit: Annotated[int, _about("Maximum rows.", ge=1, le=MOST_CHANGES)] = 25


class HistoryArguments(Arguments):
    sql: Annotated[str, _about("One SELECT in DuckDB's SQL; 20 s, 1 GB.")]


class PullArguments(Arguments):
    start_date: FirstDay
    end_date: LastDay
    campaign_ids: Annotated[list[int] | None, _about("Default: all.")] = None
    group: Annotated[str | None, _about("Only this group.")] = None
    feeds: Annotated[
        list[FeedName] | None,
        _about("Default: campaign (a row per keyword); changes needs it."),
    ] = None
    restart: Annotated[bool, _about("Drop an unfinished pull.")] = False


_SYNONYMS = (
    {"campaign", "campaign_id", "campaign_ids", "campaigns"},
    {"filter", "search"},
    {"kind", "kinds"},
    {"engine", "engines"},
    {"feed", "feeds"},
    {"sql", "query"},
)
"""Names that agents confuse. No tool has two arguments from the same set."""
_ABSENT = (None, "", "null")
"""The values that hosts send for omitted arguments."""
_EMPTY_LISTS: tuple[object, ...] = ([], [None], "[]")
"""The values that some hosts send for omitted lists."""
_LISTS_IDS = "the tool campaigns lists ids"
_FORMS_OF_DAYS = "write 2023-03-01, or 2023-03 for a month"
_ADVICE = {
    "start_date": _FORMS_OF_DAYS,
    "end_date": _FORMS_OF_DAYS,
    "before": _FORMS_OF_DAYS,
    "after": _FORMS_OF_DAYS,
    "campaign": _LISTS_IDS,
    "campaign_id": _LISTS_IDS,
    "campaign_ids": _LISTS_IDS,
    "engine": "if the description of this tool does not name the engines, ask which one is A",
    "group": "the tool campaigns lists group titles",
}
_IN_WORDS = {
    int: "a number",
    str: "text",
    bool: "true or false",
    list[int]: "one or several numbers",
    list[str]: "one or several names",
    list[ChangeKind]: f"one or several of {', '.join(get_args(ChangeKind))}",
    list[Engine]: f"one or several of {', '.join(get_args(Engine))}",
    list[FeedName]: f"one or several of {', '.join(get_args(FeedName))}",
}
"""The types of arguments, in an agent's words."""


def read_arguments(
    values: Mapping[str, object], kind: type[Arguments], engines: Mapping[str, str]
) -> Any:
    """Check the arguments that a host sent.

    An argument counts as omitted if its value is null, the string `null`, an empty string or an
    empty list. Only an empty list of campaigns is an error, because it must not select all of them.
    Numbers, booleans and lists may arrive as strings, and a single item in place of a list.

    Args:
        values: the values as the host sent them, by name.
        kind: the arguments of the called tool.
        engines: the engines by their names in the tools' descriptions, in lower case.

    Raises:
        ConfigurationError: an argument is unknown, missing or wrong.
    """
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    arguments: dict[str, Any] = {}
    for sent_name, value in values.items():
        name = _documented_name(sent_name, fields)
        # an empty list of campaigns is kept, and refused below
        if value in _ABSENT or (value in _EMPTY_LISTS and name != "campaign_ids"):
            continue
        if name in arguments:
            raise ConfigurationError(f"{name} was sent twice, once as {sent_name}; send one")
        arguments[name] = _converted(fields[name], value, engines)
    missing = [name for name, field in fields.items() if field.required and name not in arguments]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ConfigurationError(f"{' and '.join(missing)} {verb} missing")
    return kind(**arguments)


def _documented_name(name: str, fields: Mapping[str, FieldInfo]) -> str:
    """Return the name that the schema gives an argument. The host may have sent a synonym."""
    if name in fields:
        return name
    for names in _SYNONYMS:
        if name in names:
            # a tool has at most one argument of each set in `_SYNONYMS`
            for synonym in names.intersection(fields):
                return synonym
    raise ConfigurationError(
        f"there is no argument {short_repr(name)}; the arguments are {', '.join(fields)}"
    )


def _converted(field: FieldInfo, value: object, engines: Mapping[str, str]) -> object:
    """Convert a sent value to the type of its argument.

    Kinds may be in upper or lower case. Engines may be named as in the schema or in the tool's
    description.

    Raises:
        ConfigurationError: the value can't be converted.
    """
    name = field.name
    # the type of each field is Annotated[type, description]
    expected_type, _ = get_args(field.type)
    # the value is not None, so `type | None` becomes `type`
    if isinstance(expected_type, UnionType):
        expected_type, _ = get_args(expected_type)
    converted = value
    if get_origin(expected_type) is list:
        converted = [_documented_item(name, item, engines) for item in _as_list(value)]
    # some agents put a single value into a list
    elif isinstance(value, list) and len(value) == 1:
        converted = value[0]
    try:
        # an empty list of campaigns is refused like a wrong value: it must not select all of them
        if converted == []:
            raise ValueError
        return msgspec.convert(converted, field.type, strict=False)
    except (ValueError, msgspec.ValidationError):
        problem = (
            f"{name} must be {_accepted_values(field, expected_type)}, got {short_repr(value)}"
        )
        if name in _ADVICE:
            problem = f"{problem}; {_ADVICE[name]}"
        raise ConfigurationError(problem) from None


def _accepted_values(field: FieldInfo, expected_type: Any) -> str:
    """Describe the values that an argument accepts, such as `a number from 1 to 100`."""
    _, limits = get_args(field.type)
    words = _IN_WORDS[expected_type]
    if limits.ge is not None:
        words = f"{words} from {limits.ge}"
    if limits.le is not None:
        words = f"{words} to {limits.le}"
    return words


def _documented_item(name: str, item: object, engines: Mapping[str, str]) -> object:
    """Return an item of a list as the schema spells it.

    Hosts may vary the case, or name an engine as the tool's description does. `engines` maps those
    names, in lower case, to the schema's.
    """
    if name == "engine":
        return engines.get(str(item).lower(), item)
    if name == "kind":
        return str(item).lower()
    return item


def _as_list(value: object) -> list[object]:
    """Return the items of a list. Some hosts send a list as JSON, or separated by commas."""
    items = value
    if isinstance(value, str):
        try:
            items = json.loads(value)
        except ValueError:
            # names and numbers contain no commas, so commas separate them
            return [part.strip() for part in value.split(",")]
    return items if isinstance(items, list) else [items]
