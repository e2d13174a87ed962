"""The arguments of the tools for agents: their JSON schema, and checks of what a host sends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from seorep_async.errors import ConfigurationError
from seorep_async.history.comparing import ChangeKind, Engine
from seorep_async.integrations.questions import MOST_CHANGES

FeedName: TypeAlias = Literal["campaign", "campaign-by-date", "keyword-by-date"]


def _about(description: str, *, ge: int | None = None, le: int | None = None) -> msgspec.Meta:
    return msgspec.Meta(description=description, ge=ge, le=le)


FirstDay: TypeAlias = Annotated[str, _about("First day, YYYY-MM-DD, or month, YYYY-MM.")]
LastDay: TypeAlias = Annotated[str, _about("Last day, YYYY-MM-DD, or month, YYYY-MM.")]
PageNumber: TypeAlias = Annotated[int, _about("Page, from 1.", ge=1)]
PageSize: TypeAlias = Annotated[int, _about("Rows a page.", ge=1)]


class Arguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of a tool. Agents see only these descriptions."""


class CampaignsArguments(Arguments):
    filter: Annotated[str | None, _about("Only campaigns with this in name or URL.")] = None
    page: PageNumber = 1
    limit: PageSize = 50


class RankingsArguments(Arguments):
    campaign_id: Annotated[int, _about("From the tool campaigns.")]
    start_date: FirstDay
    end_date: LastDay
    search: Annotated[str | None, _about("Only keywords like this.")] = None
    columns: Annotated[
        list[str] | None,
        _about(
            "Of keyword_rankings. Default: phrase, location, ranks, URLs. all: every one. "
            "..._change: sign unknown."
        ),
    ] = None
    page: PageNumber = 1
    limit: PageSize = 25


class ChangesArguments(Arguments):
    before: Annotated[
        str | None,
        _about("Earlier ranking day, or a month. Default: the last before after, or its month."),
    ] = None
    after: Annotated[
        str | None, _about("Later ranking day, or a month. Default: of most campaigns.")
    ] = None
    campaign: Annotated[int | None, _about("Only this campaign id.")] = None
    group: Annotated[str | None, _about("Only this group.")] = None
    kind: Annotated[
        list[ChangeKind] | None,
        _about(
            "rose, fell: by moved places, ranked on both days. found, lost: its rank. "
            "new, removed: the keyword."
        ),
    ] = None
    engine: Annotated[
        list[Engine] | None, _about("Only in these. Default: all. places: map results.")
    ] = None
    by_campaign: Annotated[
        bool,
        _about(
            "Count each campaign's changes, most places up or down first. places: net gained, "
            "without found, lost. Kind rose: gains alone."
        ),
    ] = False
    moved: Annotated[int, _about("Least places of rose and fell.", ge=1)] = 3
    limit: Annotated[int, _about("Most rows.", ge=1, le=MOST_CHANGES)] = 25


class HistoryArguments(Arguments):
    sql: Annotated[str, _about("One SELECT, DuckDB's SQL; 20 s, 1 GB.")]


class PullArguments(Arguments):
    start_date: FirstDay
    end_date: LastDay
    campaign_ids: Annotated[list[int] | None, _about("Default: every campaign.")] = None
    group: Annotated[str | None, _about("Only this group.")] = None
    feeds: Annotated[
        list[FeedName] | None,
        _about("Default: campaign, a row a keyword, which changes needs."),
    ] = None
    restart: Annotated[bool, _about("Drop an unfinished pull.")] = False


_LISTS = ("campaign_ids", "columns", "engine", "feeds", "kind")
"""The arguments that take one value or several."""
_ABSENT = (None, "", "null")
"""The values that hosts send for omitted arguments."""


def read_arguments(
    values: Mapping[str, object], kind: type[Arguments], engines: Mapping[str, str]
) -> Any:
    """Check the arguments that a host sent.

    Null, also as a string, and an empty string mean that an argument is omitted. Numbers, booleans
    and lists may be strings, and one item may replace a list. `engines` has the engines by their
    names in the descriptions of the tools, in lower case.

    Raises:
        ConfigurationError: an argument is unknown, missing or wrong.
    """
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if value not in _ABSENT:
            arguments[name] = _as_list(value) if name in _LISTS else value
    if "engine" in arguments:
        arguments["engine"] = [engines.get(str(name).lower(), name) for name in arguments["engine"]]
    try:
        return msgspec.convert(arguments, kind, strict=False)
    except msgspec.ValidationError as error:
        names = ", ".join(field.name for field in msgspec.structs.fields(kind))
        raise ConfigurationError(f"{error}; the arguments are {names}") from None


def _as_list(value: object) -> list[object]:
    """Return the items of a list. Some hosts send one as JSON, or separated by commas."""
    items = value
    if isinstance(value, str):
        try:
            items = json.loads(value)
        except ValueError:
            # names and numbers contain no commas, so commas separate them
            return [part.strip() for part in value.split(",")]
    return items if isinstance(items, list) else [items]
