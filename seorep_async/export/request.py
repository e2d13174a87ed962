"""What a pull asks for: checked once, stored with its reports as JSON, and compared when the pull is resumed."""

from __future__ import annotations

import datetime as dt
import difflib
import hashlib
import json
import logging
import zlib
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Annotated, Any, cast

import msgspec

from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, one_line, shown
from seorep_async.models import Campaign, Feed
from seorep_async.resources.arguments import (
    Date,
    asks_to_compare,
    check_account_name,
    check_date,
    check_dates,
    check_feeds,
    check_ids,
    optional_strings,
)
from seorep_async.resources.rankings import FeedOptions, FeedValue, feed_params
from seorep_async.settings import require_booleans
from seorep_async.tables.columns import FeedTable, Table
from seorep_async.tables.output_tables import all_tables

_log = logging.getLogger("seorep_async")
LAYOUT = 2
"""Raised with every change of what is staged: a pull does not resume one of another layout."""
_UNNAMED = {
    "layout": "another version of seorep",
    "options": "other options",
    "campaigns": "other campaigns",
}
"""Differences whose values say nothing to a reader."""
_NEAR_TITLES = 5
_LONGEST_VALUE = 200


class PullOptions(FeedOptions, total=False):
    """The optional arguments of a pull that say what is asked for; `pull_to` explains them."""

    feeds: Iterable[Feed | FeedValue] | Feed | FeedValue
    groups: Iterable[str]
    filter: str | None
    exclude: Iterable[int]
    account: str | None
    snapshot_date: dt.date | str | None
    excel: bool


def of_feeds(options: PullOptions) -> FeedOptions:
    """Return those that are not the pull's own: what no feed takes is refused with them."""
    own = PullOptions.__annotations__.keys() - FeedOptions.__annotations__.keys()
    return cast(FeedOptions, {name: value for name, value in options.items() if name not in own})


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a pull asks for: whose rows, of which campaigns and feeds, for which days, in which form.

    All but `started_at` must be equal to resume; `snapshot_date` only if the caller named it: `names_night`.
    """

    layout: tuple[int, int]
    format: str = ""
    service: str
    account: str
    feeds: tuple[Feed, ...]
    campaigns: tuple[int, ...] | None
    groups: tuple[str, ...]
    filter: str | None
    exclude: tuple[int, ...]
    start_date: dt.date
    end_date: dt.date
    options: str
    compared: bool
    excel: bool
    snapshot_date: dt.date
    names_night: bool
    started_at: Annotated[dt.datetime, msgspec.Meta(tz=False)]

    @classmethod
    def of(
        cls,
        client: SeoRepClient,
        ids: Iterable[int] | None,
        dates: tuple[Date, Date],
        options: PullOptions,
    ) -> Request:
        """Check the arguments; nothing is sent. A wrong one raises a ConfigurationError."""
        account, excel = options.get("account"), options.get("excel", False)
        require_booleans(excel=excel)
        feeds = check_feeds(options.get("feeds", Feed.CAMPAIGN))
        for feed in feeds:
            feed_params(feed, of_feeds(options))
        start, end = check_dates(*dates)
        now = client.now()
        return cls(
            layout=(LAYOUT, _columns()),
            service=client.base_url,
            account=client.account if account is None else check_account_name(account),
            feeds=feeds,
            **_chosen(
                ids, options.get("groups", ()), options.get("filter"), options.get("exclude", ())
            ),
            start_date=start,
            end_date=end,
            options=_digest(of_feeds(options)),
            compared=asks_to_compare(options.get("compare_previous_period")),
            excel=excel,
            snapshot_date=_night(options.get("snapshot_date"), now.date()),
            names_night=options.get("snapshot_date") is not None,
            started_at=now.replace(tzinfo=None),
        )

    @property
    def labels(self) -> dict[str, Any]:
        """The values that all rows of a feed share, by column."""
        return {
            name: getattr(self, name)
            for name in ("account", "snapshot_date", "start_date", "end_date")
        }

    @property
    def feed_names(self) -> str:
        """The feeds as `pulls` has them."""
        return ",".join(feed.value for feed in self.feeds)

    @property
    def fetched_feeds(self) -> tuple[Feed, ...]:
        """The feeds to fetch, in their order: the keywords of a campaign are found by the campaign feed."""
        needs_keywords = Feed.KEYWORD_BY_DATE in self.feeds
        return tuple(
            feed
            for feed in Feed
            if feed in self.feeds or (feed is Feed.CAMPAIGN and needs_keywords)
        )

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of the pull, those of its feeds first."""
        return tuple(
            table
            for table in all_tables()
            if not isinstance(table, FeedTable) or table.feed in self.feeds
        )

    @property
    def selection(self) -> str | None:
        """Which campaigns are asked for, as JSON that equal choices share; None for all."""
        all_of_them = {
            "ids": sorted(self.campaigns or ()),
            "filter": self.filter,
            "groups": sorted(self.folded_groups),
        }
        chosen = {
            name: one
            for name, one in (all_of_them | {"exclude": sorted(self.exclude)}).items()
            if one
        }
        return json.dumps(chosen, ensure_ascii=False, sort_keys=True) if chosen else None

    @property
    def folded_groups(self) -> frozenset[str]:
        return frozenset(map(_folded, self.groups))

    def differences(self, earlier: Request) -> list[str]:
        """Return how it differs from the request of an unfinished pull, in words; nothing if it resumes that pull."""
        ignored = {"started_at", "names_night", "" if self.names_night else "snapshot_date"}
        ignored |= {"groups"} if self.folded_groups == earlier.folded_groups else set()
        values = {
            name: (getattr(earlier, name), getattr(self, name)) for name in self.__struct_fields__
        }
        return [
            _UNNAMED.get(
                name, f"{name.replace('_', ' ')} {_in_words(before)}, not {_in_words(now)}"
            )
            for name, (before, now) in values.items()
            if before != now and name not in ignored
        ]

    def may_have(self, campaign: int) -> bool:
        """Return whether its ids take a campaign."""
        return campaign not in self.exclude and (
            self.campaigns is None or campaign in self.campaigns
        )

    def among(self, listed: Sequence[Campaign]) -> list[Campaign]:
        """Return the chosen of the listed campaigns; ConfigurationError: a group is none of theirs."""
        left_out = frozenset(self.exclude)
        left = [one for one in listed if one.id not in left_out]
        if absent := sorted(left_out.difference(one.id for one in listed)):
            _log.warning(
                "exclude=…: not among the campaigns found: %s", ", ".join(map(str, absent))
            )
        titles = {_folded(one.group_title): one.group_title for one in listed if one.group_title}
        for group in self.groups:
            if listed and _folded(group) not in titles:
                raise ConfigurationError(_unknown(group, titles), argument="groups")
        return [
            one
            for one in left
            if not self.groups or _folded(one.group_title or "") in self.folded_groups
        ]


class Plan(msgspec.Struct, frozen=True):
    """The campaigns to pull, in their order, the accounts that the service says they are of, and a campaign of one."""

    ids: tuple[int, ...] = ()
    account_ids: tuple[int, ...] = ()
    known: int | None = None

    @classmethod
    def of(cls, ids: Iterable[int], campaigns: Iterable[Campaign]) -> Plan:
        known = [
            (one.account_id, one.id) for one in campaigns if one.account_id
        ]  # neither 0 nor null names one
        return cls(
            tuple(ids),
            tuple(sorted({account for account, _ in known})),
            known[0][1] if known else None,
        )


def _folded(title: str) -> str:
    """Return the title of a group as it is compared: without case and outer blanks."""
    return title.strip().casefold()


def _chosen(
    ids: Iterable[int] | None, groups: object, filter: str | None, exclude: Iterable[int]
) -> dict[str, Any]:
    """Return the checked choice of campaigns: ids, or what picks them from the account's list."""
    titles: Any = (
        [groups] if isinstance(groups, str) or not isinstance(groups, Iterable) else [*groups]
    )
    if isinstance(groups, str) or not all(isinstance(one, str) for one in titles):
        raise ConfigurationError(
            f"groups must hold titles of groups, got {shown(groups)}", argument="groups"
        )
    optional_strings(filter=filter)
    left_out = frozenset(check_ids("campaign", () if exclude is None else exclude))
    chosen = {"groups": tuple(sorted({*titles})), "filter": filter}
    if ids is None:
        return {"campaigns": None, **chosen, "exclude": tuple(sorted(left_out))}
    if titles or filter is not None:
        problem = "ids can't be combined with groups=… or filter=…: name the campaigns, or let the service list them"
        raise ConfigurationError(problem, argument="ids")
    campaigns = tuple(one for one in check_ids("campaign", ids) if one not in left_out)
    if not campaigns:
        if left_out:
            raise ConfigurationError(
                "exclude leaves none of the named campaigns", argument="exclude"
            )
        raise ConfigurationError(
            "ids is empty; give at least one, or None for all campaigns", argument="ids"
        )
    return {"campaigns": campaigns, **chosen, "exclude": ()}


def _unknown(group: str, titles: Mapping[str, str]) -> str:
    near = [title for title in titles if _folded(group) in title][:_NEAR_TITLES]
    near = near or difflib.get_close_matches(_folded(group), titles, _NEAR_TITLES, 0.5)
    named = (
        ", ".join(repr(titles[title]) for title in near or list(titles)[:_NEAR_TITLES]) or "none"
    )
    among = "near it" if near else "there are" if len(titles) <= _NEAR_TITLES else "some of them"
    return f"there is no group {group!r}; {among}: {named}"


def _night(named: object, today: dt.date) -> dt.date:
    found = today if named is None else check_date("snapshot_date", named)
    if found > today + dt.timedelta(1):
        problem = f"snapshot_date must be tomorrow (UTC) at the latest, got {found}"
        raise ConfigurationError(problem, argument="snapshot_date")
    return found


def _in_words(value: object) -> str:
    words = [getattr(one, "value", one) for one in value] if isinstance(value, tuple) else [value]
    return one_line(" and ".join(map(str, words)) or "none")[:_LONGEST_VALUE]


def _columns() -> int:
    """Return a checksum of the tables' columns: rows staged by a version with other ones are not resumed."""
    return zlib.crc32(
        repr(
            [(one.name, one.type.value) for table in all_tables() for one in table.columns]
        ).encode()
    )


def _digest(options: FeedOptions) -> str:
    """Return a digest of the options that change rows; `extra_params` may hold any object, so they are not stored."""
    relevant = {name: one for name, one in options.items() if one is not None and name != "limit"}
    in_json = json.dumps(relevant, sort_keys=True, default=_as_json)
    return hashlib.sha256(in_json.encode()).hexdigest()


def _as_json(value: object) -> object:
    return sorted(map(str, value)) if isinstance(value, Set) else str(value)
