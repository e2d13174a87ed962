"""The request of an export.

It is checked once, and staged as JSON with the reports. A later pull with an equal request resumes
the staged pull.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Annotated, Any, cast

import attrs
import msgspec

from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, one_line, short_repr, suggestion
from seorep_async.models import Campaign, Feed
from seorep_async.plain_values import SURROGATE
from seorep_async.resources.arguments import (
    Date,
    asks_to_compare,
    check_account_name,
    check_date,
    check_dates,
    check_feeds,
    check_ids,
    optional_strings,
    unknown_argument,
)
from seorep_async.resources.rankings import FeedOptions, FeedValue, feed_params
from seorep_async.session.base_url import BaseURL
from seorep_async.tables.columns import FeedTable, Table
from seorep_async.tables.output_tables import all_tables
from seorep_async.version import __version__

_log = logging.getLogger("seorep_async")
_ROW_OPTIONS = ("options", "compared", "engine_names", "feed_search_param")
"""The fields that determine how a response becomes rows. Pulls that differ in one of them can't
share a target.
"""
_GROUPS_SHOWN = 5
"""The maximum number of groups listed in the error about an unknown group."""
_LONGEST_VALUE = 200


class ExportOptions(FeedOptions, total=False):
    """The optional arguments that say what an export contains; `pull_to` explains them."""

    feeds: Iterable[Feed | FeedValue] | Feed | FeedValue
    groups: Iterable[str]
    filter: str | None
    exclude: Iterable[int]
    account: str | None
    snapshot_date: dt.date | str | None


DEFAULT_OPTIONS: Mapping[str, Any] = {"feeds": (Feed.CAMPAIGN,), "groups": (), "exclude": ()}
"""The options whose default is not None. `exclude` accepts None as well."""


def feed_options(options: ExportOptions) -> FeedOptions:
    """Return only the options of the feeds, because the feeds accept no others."""
    own_names = ExportOptions.__annotations__.keys() - FeedOptions.__annotations__.keys()
    passed_on = {name: value for name, value in options.items() if name not in own_names}
    return cast(FeedOptions, passed_on)


ARGUMENTS_OF_PULL_TO = (
    "out",
    "on_progress",
    "restart",
    "retry_failed",
    "force",
    "max_requests",
    "engine_names",
)
"""The arguments of `pull_to` itself. A misspelt argument may be meant for one of them."""


# The names of two fields in staging files. They stay as they are: otherwise, a file that an earlier
# version left after failures could not be read, and the next pulls would be refused.
_STORED_NAMES = {
    "account_given": "names_account",
    "snapshot_date_given": "names_snapshot_date",
}


class ExportRequest(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=_STORED_NAMES
):
    """Everything that an export requests.

    A staged pull is resumed only if its request is equal. The comparison ignores `started_at`, both
    `…_given` fields, a snapshot date that the caller did not give, and case and surrounding spaces
    in group titles.

    Attributes:
        version: the version of this package; a pull never resumes what another version has staged.
        service: the address of the service.
        account_given: whether the caller or the client named the account. Otherwise it is named
            after the service's host.
        snapshot_date_given: whether the caller gave the snapshot date.
        campaigns: the ids that the caller named and did not exclude, or None if the service lists
            the campaigns.
        options: a digest of each option of the feeds, by name; not the values, which may be secret.
        engine_names: the engines' names in responses, as `Settings.engine_names` has them.
        feed_search_param: the parameter that carries the search string; None without a search.
        compared: whether changes from the previous period are requested.
    """

    version: str
    service: str
    account: str
    account_given: bool
    feeds: tuple[Feed, ...]
    campaigns: tuple[int, ...] | None
    groups: tuple[str, ...]
    filter: str | None
    exclude: tuple[int, ...]
    start_date: dt.date
    end_date: dt.date
    options: dict[str, str]
    engine_names: tuple[str, ...]
    feed_search_param: str | None
    compared: bool
    snapshot_date: dt.date
    snapshot_date_given: bool
    started_at: Annotated[dt.datetime, msgspec.Meta(tz=False)]

    @classmethod
    def of(
        cls,
        client: SeoRepClient,
        ids: Iterable[int] | None,
        dates: tuple[Date, Date],
        options: ExportOptions,
    ) -> ExportRequest:
        """Check the arguments of an export. Nothing is sent.

        Raises:
            ConfigurationError: an argument is wrong.
        """
        unknown_names = options.keys() - ExportOptions.__annotations__.keys()
        if unknown_names:
            names = [*ARGUMENTS_OF_PULL_TO, *ExportOptions.__annotations__]
            raise unknown_argument(min(unknown_names), names)
        feeds = check_feeds(options.get("feeds", DEFAULT_OPTIONS["feeds"]))
        # checked here, because otherwise a wrong option would be refused only when its feed begins
        for feed in feeds:
            feed_params(feed, feed_options(options))
        start_date, end_date = check_dates(*dates)
        account = options.get("account")
        # without a name, the account is named after the service's host
        _, host, _ = BaseURL(client.base_url).origin
        # without a search, the name of its parameter does not matter
        search_param = None
        if options.get("search") is not None:
            search_param = client.settings.feed_search_param.value
        now = client.now()
        return cls(
            version=__version__,
            service=client.base_url,
            account=client.account if account is None else check_account_name(account),
            account_given=account is not None or client.account != host,
            feeds=feeds,
            **_choice_of_campaigns(ids, options),
            start_date=start_date,
            end_date=end_date,
            options=_digests(feed_options(options)),
            engine_names=attrs.astuple(client.settings.engine_names),
            feed_search_param=search_param,
            compared=asks_to_compare(options.get("compare_previous_period")),
            snapshot_date=_snapshot_date(options.get("snapshot_date"), now.date()),
            snapshot_date_given=options.get("snapshot_date") is not None,
            started_at=now.replace(tzinfo=None),
        )

    @property
    def labels(self) -> dict[str, Any]:
        """The values that all rows of a feed share, by column."""
        names = ("account", "snapshot_date", "start_date", "end_date")
        return {name: getattr(self, name) for name in names}

    @property
    def feed_names(self) -> str:
        """The feeds in the form in which the table `pulls` stores them."""
        return ",".join(feed.value for feed in self.feeds)

    @property
    def fetched_feeds(self) -> tuple[Feed, ...]:
        """The feeds to fetch. `keyword-by-date` needs the campaign feed, to find the keywords."""
        needed = set(self.feeds)
        if Feed.KEYWORD_BY_DATE in needed:
            needed.add(Feed.CAMPAIGN)
        return tuple(feed for feed in Feed if feed in needed)

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of the export. The tables of its feeds come first."""
        return tuple(
            table
            for table in all_tables()
            if not isinstance(table, FeedTable) or table.feed in self.feeds
        )

    @property
    def selection(self) -> str | None:
        """The choice of campaigns as JSON, or None for all campaigns.

        The order of ids and groups makes no difference.
        """
        choice = {
            "ids": sorted(self.campaigns or ()),
            "filter": self.filter,
            "groups": sorted(self.folded_groups),
            "exclude": sorted(self.exclude),
        }
        choice = {name: value for name, value in choice.items() if value}
        if not choice:
            return None
        return json.dumps(choice, ensure_ascii=False, sort_keys=True)

    @property
    def folded_groups(self) -> frozenset[str]:
        """The titles of the requested groups, normalised for comparison."""
        return frozenset(map(_folded, self.groups))

    @property
    def row_options(self) -> str:
        """A digest of the options and settings that determine how a response becomes rows."""
        return _digest([getattr(self, name) for name in _ROW_OPTIONS])

    def differences(self, earlier: ExportRequest) -> dict[str, str]:
        """Describe how this request differs from an earlier one, by field.

        The result is empty if this request resumes the earlier one.
        """
        ignored = {"started_at", "account_given", "snapshot_date_given"}
        # a pull resumed after midnight keeps its snapshot date, unless the caller gives one
        if not self.snapshot_date_given:
            ignored.add("snapshot_date")
        if self.folded_groups == earlier.folded_groups:
            ignored.add("groups")
        differences = {}
        for name in self.__struct_fields__:
            before = getattr(earlier, name)
            now = getattr(self, name)
            if before != now and name not in ignored:
                differences[name] = _difference(name, before, now)
        return differences

    def only(self, campaign_ids: Iterable[int]) -> ExportRequest:
        """Return the same request for these campaigns only."""
        return msgspec.structs.replace(
            self, campaigns=tuple(campaign_ids), groups=(), filter=None, exclude=()
        )

    def select(self, campaigns: Sequence[Campaign]) -> list[Campaign]:
        """Return the listed campaigns that are in the requested groups and not excluded.

        The service has already applied `filter`.

        Raises:
            ConfigurationError: a requested group has no campaign.
        """
        excluded = frozenset(self.exclude)
        absent = excluded.difference(campaign.id for campaign in campaigns)
        if absent:
            absent_ids = ", ".join(map(str, sorted(absent)))
            _log.warning("exclude=… names campaigns that were not found: %s", absent_ids)
        titles = {}
        for campaign in campaigns:
            if campaign.group_title:
                titles[_folded(campaign.group_title)] = campaign.group_title
        for group in self.groups:
            # if the account has no campaigns, a missing group is not a mistake
            if campaigns and _folded(group) not in titles:
                raise ConfigurationError(_unknown_group(group, titles), argument="groups")
        groups = self.folded_groups
        selected = []
        for campaign in campaigns:
            is_in_group = not groups or _folded(campaign.group_title or "") in groups
            if is_in_group and campaign.id not in excluded:
                selected.append(campaign)
        return selected


def is_about_row_options(differences: Mapping[str, str]) -> bool:
    """Return whether requests differ only in how a response becomes rows."""
    return bool(differences) and differences.keys() <= set(_ROW_OPTIONS)


class Plan(msgspec.Struct, frozen=True):
    """The campaigns of an export, found at its start and kept when it is resumed.

    Attributes:
        ids: the campaigns, in the order of their rows.
        account_ids: the service's ids of the accounts that own them.
        sample: a campaign whose owner is known, or None. A resumed pull gets it first, to find out
            whether the key belongs to the same account.
    """

    ids: tuple[int, ...] = ()
    account_ids: tuple[int, ...] = ()
    sample: int | None = None

    @classmethod
    def of(cls, ids: Iterable[int], campaigns: Iterable[Campaign]) -> Plan:
        """Return a plan. `campaigns` are those that could be looked up, perhaps not all."""
        # an account id of 0 or null means that the owner is unknown
        owners = {campaign.id: campaign.account_id for campaign in campaigns if campaign.account_id}
        return cls(
            ids=tuple(ids),
            account_ids=tuple(sorted(set(owners.values()))),
            sample=next(iter(owners), None),
        )


def _folded(title: str) -> str:
    """Return a group's title for comparison, in lower case and without surrounding spaces."""
    return title.strip().casefold()


def _choice_of_campaigns(ids: Iterable[int] | None, options: ExportOptions) -> dict[str, Any]:
    """Check the choice of campaigns. Return the fields of a request that describe it."""
    groups: Any = options.get("groups", DEFAULT_OPTIONS["groups"])
    titles = list(groups) if isinstance(groups, Iterable) else [groups]
    are_titles = all(isinstance(title, str) and not SURROGATE.search(title) for title in titles)
    # a string is iterable as well
    if isinstance(groups, str) or not are_titles:
        raise ConfigurationError(
            f"groups must be a list of group titles, got {short_repr(groups)}", argument="groups"
        )
    # refuses anything but None or a string
    filter_text = optional_strings(filter=options.get("filter"))["filter"]
    excluded = frozenset(check_ids("campaign", options.get("exclude") or ()))
    if ids is None:
        # Groups and excluded ids are sorted, because their order does not matter. The order of
        # named campaigns is kept, because their rows are written in it.
        return {
            "campaigns": None,
            "groups": tuple(sorted(set(titles))),
            "filter": filter_text,
            "exclude": tuple(sorted(excluded)),
        }
    if titles or filter_text is not None:
        raise ConfigurationError(
            "ids can't be combined with groups=… or filter=…: name the campaigns, or let the "
            "service list them",
            argument="ids",
        )
    campaign_ids = check_ids("campaign", ids)
    if not campaign_ids:
        raise ConfigurationError(
            "ids is empty; give at least one, or None for all campaigns", argument="ids"
        )
    remaining = tuple(id_ for id_ in campaign_ids if id_ not in excluded)
    if not remaining:
        raise ConfigurationError("exclude leaves none of the named campaigns", argument="exclude")
    return {"campaigns": remaining, "groups": (), "filter": None, "exclude": ()}


def _unknown_group(group: str, titles: Mapping[str, str]) -> str:
    """Return the message about an unknown group."""
    if not titles:
        return f"there is no group {group!r}: none of the campaigns found has a group"
    guess = suggestion(group, titles.values())
    if guess:
        return f"there is no group {group!r}.{guess}"
    names = ", ".join(map(repr, list(titles.values())[:_GROUPS_SHOWN]))
    return f"there is no group {group!r}; the groups include {names}"


def _snapshot_date(value: object, today: dt.date) -> dt.date:
    """Return the checked argument `snapshot_date`; the default is today."""
    if value is None:
        return today
    snapshot_date = check_date("snapshot_date", value)
    # the caller's day may have begun before the UTC day
    if snapshot_date > today + dt.timedelta(1):
        raise ConfigurationError(
            f"snapshot_date must not be after tomorrow (UTC), got {snapshot_date}",
            argument="snapshot_date",
        )
    return snapshot_date


def _difference(name: str, before: Any, now: Any) -> str:
    """Describe how one field of a request differs from the staged request's."""
    if name == "version":
        return "another version of seorep"
    if name == "campaigns":
        return "other campaigns"
    if name == "options":
        option_names = sorted(
            option for option in before.keys() | now.keys() if before.get(option) != now.get(option)
        )
        return "different " + ", ".join(f"{option}=…" for option in option_names)
    return f"{name.replace('_', ' ')} {_in_words(before)}, not {_in_words(now)}"


def _in_words(value: object) -> str:
    values = value if isinstance(value, tuple) else (value,)
    # members of an enumeration are shown by their values
    words = ", ".join(str(getattr(member, "value", member)) for member in values)
    return one_line(words or "none")[:_LONGEST_VALUE]


def _digests(options: FeedOptions) -> dict[str, str]:
    """Return a digest of each option that changes rows.

    `extra_params` may contain secrets and any kind of object, so values are never stored.
    """
    # the page size changes no row
    values = {name: value for name, value in options.items() if name != "limit"}
    # None and extra_params={} send nothing, so they count as not given
    return {
        name: _digest(value) for name, value in sorted(values.items()) if value not in (None, {})
    }


def _digest(value: object) -> str:
    """Return half of a SHA-256, which is enough to tell values apart."""
    as_json = json.dumps(value, sort_keys=True, default=_json_of_any)
    return hashlib.sha256(as_json.encode()).hexdigest()[:32]


def _json_of_any(value: object) -> object:
    # sorted, because the order of a set differs between processes, and the digest must be the same
    return sorted(map(str, value)) if isinstance(value, Set) else str(value)
