"""What to pull, as one checked record, held by all that takes part: runs, staging areas, shards, the command."""

from __future__ import annotations

import datetime as dt
import difflib
import hashlib
import json
import re
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Annotated, Any, TypedDict, Unpack

import attrs
import msgspec

from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, one_line, shown
from seorep_async.models import Campaign, Feed
from seorep_async.old_export.csv_options import RFC_4180, CsvOptions
from seorep_async.old_export.formats import Format
from seorep_async.resources.arguments import (
    asks_to_compare,
    check_account_name,
    check_date,
    check_dates,
    check_feed,
    check_ids,
)
from seorep_async.resources.rankings import FeedOptions, FeedValue, feed_params
from seorep_async.tables.declared import table_of

VERSION = 6
"""Version of the JSON of a spec; a run does not resume one of another version."""
_NEAR_TITLES = 5
_MOST_OF_A_VALUE = 200


@attrs.frozen
class CampaignChoice:
    """Which of the account's campaigns to pull: all, unless it says otherwise.

    Attributes:
        groups: titles of groups, in any case; none for campaigns of any group.
        filter: a string by which the service filters campaigns.
        none_found: called with a message if there are none, or none of a group; it may raise.
    """

    groups: tuple[str, ...] = ()
    filter: str | None = None
    none_found: Callable[[str], object] = attrs.field(default=str, eq=False, repr=False)

    async def campaigns(self, client: SeoRepClient) -> AsyncIterator[Campaign]:
        """List the campaigns; raises as `client.campaigns.list` does."""
        titles: dict[str, str] = {}
        waiting: list[Campaign] = []
        count = 0
        async for campaign in client.campaigns.list(filter=self.filter):
            count += 1
            if not self.groups:
                yield campaign
            elif campaign.group_title is not None:
                titles[folded(campaign.group_title)] = campaign.group_title
                waiting.append(campaign)
        if not count:
            self.report_none()
        for group in self.groups if count else ():
            if folded(group) not in titles:
                self.none_found(self._unknown(group, titles))
        for campaign in waiting:
            if folded(campaign.group_title or "") in map(folded, self.groups):
                yield campaign

    def report_none(self) -> None:
        found = "the account has" if self.filter is None else f"the filter {self.filter!r} finds"
        self.none_found(f"{found} no campaign")

    def _unknown(self, group: str, titles: Mapping[str, str]) -> str:
        near = [title for title in titles if folded(group) in title][:_NEAR_TITLES]
        near = near or difflib.get_close_matches(folded(group), titles, _NEAR_TITLES, 0.5)
        named = ", ".join(repr(titles[title]) for title in near or list(titles)[:_NEAR_TITLES]) or "none"
        among = "near it" if near else "there are" if len(titles) <= _NEAR_TITLES else "some of them"
        within = f" among the campaigns that the filter {self.filter!r} finds" if self.filter is not None else ""
        return f"there is no group {group!r}{within}; {among}: {named}"


def folded(title: str) -> str:
    return title.strip().casefold()


EVERY_CAMPAIGN = CampaignChoice()


class SpecOptions(TypedDict, total=False):
    """The optional arguments of a spec: labels of its rows as the caller gave them, CSV's options, another service."""

    account: str | None
    snapshot_date: dt.date | str | None
    key_renewed: str | None
    csv: CsvOptions
    service: str | None
    choice: CampaignChoice


class Parameters(TypedDict):
    """The JSON of the spec of an earlier run, with its dates as objects."""

    service: str
    account: str
    started_at: Annotated[dt.datetime, msgspec.Meta(tz=False)]
    snapshot_date: dt.date
    feeds: list[str]
    start_date: dt.date
    end_date: dt.date
    campaigns: Any
    options: str
    format: str
    version: Annotated[list[int], msgspec.Meta(min_length=2)]


@attrs.frozen(kw_only=True)
class PullSpec:
    """What to pull, and under which labels.

    Attributes:
        service: its address, or another name for it.
        feeds: in the order in which they are pulled.
        campaigns: in their order, or None for those of the choice.
        options: further arguments of the feeds.
        started_at: in UTC.
        snapshot_date: the UTC day on which the pull began, unless the caller named one.
        snapshot_is_default: whether the caller named no snapshot date, so that a resumed run has that of its first run.
        key_renewed: the mark of the only new API key or address that may add to the account's rows, or None.
        fingerprint: returns for a salt a digest that identifies the API key without showing it.
        is_shard: whether it is a part of a larger pull.
    """

    service: str
    account: str
    feeds: tuple[Feed, ...]
    start_date: dt.date
    end_date: dt.date
    campaigns: tuple[int, ...] | None
    choice: CampaignChoice = EVERY_CAMPAIGN
    options: FeedOptions
    started_at: dt.datetime
    snapshot_date: dt.date
    snapshot_is_default: bool
    key_renewed: str | None
    fingerprint: Callable[[bytes], str] = attrs.field(eq=False, repr=False)
    csv: CsvOptions = RFC_4180
    is_shard: bool = False

    @classmethod
    def of(
        cls,
        client: SeoRepClient,
        ids: Iterable[int] | None,
        start_date: dt.date | str,
        end_date: dt.date | str,
        feeds: Iterable[Feed | FeedValue] | Feed | FeedValue,
        options: FeedOptions,
        **more: Unpack[SpecOptions],
    ) -> PullSpec:
        """Check the arguments of a pull, and return them as a spec; nothing is sent."""
        account, snapshot_date, csv = more.get("account"), more.get("snapshot_date"), more.get("csv", RFC_4180)
        if not isinstance(csv, CsvOptions):
            problem = f"csv must be CsvOptions, such as CsvOptions(bom=True), got {shown(csv)}"
            raise ConfigurationError(problem, argument="csv")
        several = feeds if isinstance(feeds, Iterable) and not isinstance(feeds, str) else [feeds]
        wanted = [check_feed(feed) for feed in several]
        if not wanted:
            raise ConfigurationError("feeds must name at least one feed", argument="feeds")
        campaigns = None if ids is None else tuple(check_ids("campaign", ids))
        start, end = check_dates(start_date, end_date)
        for feed in wanted:
            feed_params(feed, options)
        now = client.now()
        return cls(
            service=more.get("service") or client.base_url,
            account=client.account if account is None else check_account_name(account),
            feeds=tuple(feed for feed in Feed if feed in wanted),
            start_date=start,
            end_date=end,
            campaigns=campaigns,
            choice=more.get("choice", EVERY_CAMPAIGN),
            options=options,
            started_at=now,
            snapshot_date=_snapshot_date(snapshot_date, now.date()),
            snapshot_is_default=snapshot_date is None,
            key_renewed=check_key_mark(more.get("key_renewed")),
            fingerprint=client.key_digest,
            csv=csv,
        )

    @property
    def compares(self) -> bool:
        """Whether changes from the previous period are requested."""
        return asks_to_compare(self.options.get("compare_previous_period"))

    @property
    def window(self) -> tuple[dt.date, dt.date]:
        return self.start_date, self.end_date

    @property
    def selection(self) -> str | None:
        """Which campaigns are requested, in a form that equal choices share; None for all."""
        chosen = self.to_json(Format.DUCKDB)["campaigns"]
        if isinstance(chosen, list):
            return f"{len(chosen)} ids, SHA-256 {hashlib.sha256(repr(sorted(chosen)).encode()).hexdigest()[:16]}"
        return json.dumps(chosen) if any(chosen.values()) else None

    def check_format(self, kind: Format) -> None:
        if self.csv != RFC_4180 and kind is not Format.CSV:
            raise ConfigurationError("csv is only for CSV: leave it out, or write CSV", argument="csv")

    def check_whole(self, label: object) -> None:
        """Refuse a search: a database or dataset must not store parts of reports."""
        if self.options.get("search") is not None:
            raise ConfigurationError(
                f"search narrows the rows, and the rows found would replace whole reports in {label}; "
                "leave it out, or write to a separate file: .csv, .jsonl or .parquet",
                argument="search",
            )

    def key_digest(self) -> str:
        """Return a digest of the API key, salted by service and account; it takes a twentieth of a second, once."""
        return self.fingerprint(hashlib.sha256(f"{self.service}\n{self.account}".encode()).digest()[:16])

    def key_mark(self) -> str:
        """Return six hexadecimal digits of the digest, by which a person confirms this service and API key."""
        return hashlib.sha256(f"{self.service}\n{self.key_digest()}".encode()).hexdigest()[:6]

    def confirms_key(self) -> bool:
        return self.key_renewed is not None and self.key_renewed == self.key_mark()

    def check_account(self, label: object, service: str, key_digest: str) -> None:
        """Refuse rows under the account's name of another service or key, unless the caller confirmed this one."""
        if (service, key_digest) == (self.service, self.key_digest()) or self.confirms_key():
            return
        problem, change = "that another API key fetched", "its key was renewed"
        if service != self.service:
            problem, change = f"of the service {service}, not {self.service}", "the account moved to another address"
        stale = "" if self.key_renewed is None else "; the mark that was given is of another key or address"
        raise ConfigurationError(
            f"{label} has rows under the account name {self.account} {problem}. If this is another account, give this "
            f"account a name of its own with account=…; if {change}, confirm it once with "
            f'key_renewed="{self.key_mark()}"{stale}',
            argument="key_renewed",
        )

    def to_json(self, kind: Format) -> dict[str, Any]:
        """Return it, for a run into a format, as JSON gives it back."""
        # only compared, and `extra_params` may hold any object; `limit` does not change the rows
        options = {name: one for name, one in self.options.items() if one is not None and name != "limit"}
        digest = hashlib.sha256(json.dumps(options, sort_keys=True, default=_as_json).encode()).hexdigest()
        chosen = {"groups": sorted(map(folded, self.choice.groups)), "filter": self.choice.filter}
        columns = [(column.name, column.type.value) for feed in self.feeds for column in table_of(feed).columns]
        return {
            "service": self.service,
            "account": self.account,
            "started_at": self.started_at.isoformat(),
            "snapshot_date": self.snapshot_date.isoformat(),
            "feeds": [feed.value for feed in self.feeds],
            "start_date": self.start_date.isoformat(),
            "end_date": self.end_date.isoformat(),
            "campaigns": chosen if self.campaigns is None else list(self.campaigns),
            "options": digest,
            "format": str(self.csv) if kind is Format.CSV else kind.value,
            "version": [VERSION, zlib.crc32(repr(columns).encode())],
        }

    def wanted(self, kind: Format) -> dict[str, Any]:
        """Return what it must share with a run that it resumes: all but its start, and the snapshot date by default."""
        found = self.to_json(kind)
        del found["started_at"]
        if self.snapshot_is_default:
            del found["snapshot_date"]
        return found


def shared(record: attrs.AttrsInstance, kind: type[attrs.AttrsInstance]) -> dict[str, Any]:
    """Return the attributes of a record that another kind of record has under the same names: a spec, its shards …"""
    names = attrs.fields_dict(type(record)).keys() & attrs.fields_dict(kind).keys()
    return {name: getattr(record, name) for name in names}


def differences(earlier: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return the differences between the JSON of two specs, in words."""
    if earlier["version"][0] != wanted["version"][0]:
        return ["another version of seorep"]
    found = []
    for name, value in wanted.items():
        before = earlier.get(name)
        if before == value:
            continue
        if name == "version":  # it depends on the feeds, too
            if earlier.get("feeds") == wanted.get("feeds"):
                found.append("another version of seorep")
        elif name in ("campaigns", "options"):
            found.append(f"other {name}")
        else:
            found.append(f"{name.replace('_', ' ')} {_in_words(before)}, not {_in_words(value)}")
    return found


def _in_words(value: object) -> str:
    return one_line(" and ".join(map(str, value)) if isinstance(value, list) else str(value))[:_MOST_OF_A_VALUE]


def _snapshot_date(named: object, today: dt.date) -> dt.date:
    found = today if named is None else check_date("snapshot_date", named)
    if found > today + dt.timedelta(1):
        problem = f"snapshot_date must be tomorrow (UTC) at the latest, got {found}"
        raise ConfigurationError(problem, argument="snapshot_date")
    return found


def _as_json(value: object) -> object:
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else str(value)


def check_key_mark(mark: object) -> str | None:
    """Return the mark of a key, or None; the error does not show the value, as it may be the key itself."""
    if mark is None or (isinstance(mark, str) and re.fullmatch("[0-9a-f]{6}", mark)):
        return mark
    problem = 'key_renewed must be the mark of the new key, six hexadecimal digits such as "3f9a21"'
    advice = "leave it out, and the refusal of the key names its mark"
    raise ConfigurationError(f"{problem}; {advice}", argument="key_renewed")
