"""The job of an export: what to pull, and whether an earlier run of the same job can be resumed."""

from __future__ import annotations

import datetime as dt
import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, shown
from seorep_async.export.campaign_choice import EVERY_CAMPAIGN, CampaignChoice, folded
from seorep_async.export.checkpoint import Checkpoint
from seorep_async.export.formats import Format
from seorep_async.export.target import Target
from seorep_async.models import Feed
from seorep_async.resources.arguments import (
    asks_to_compare,
    check_account_name,
    check_date,
    check_feed,
    check_ids,
    check_key_mark,
)
from seorep_async.resources.rankings import FeedOptions, FeedValue
from seorep_async.tables.declared import table_of
from seorep_async.tables.text import RFC_4180, CsvOptions

VERSION = 5
"""Checkpoint format version; other versions are not resumed."""


@attrs.frozen
class Snapshot:
    """The labels of every row, account and night, as the caller named them.

    Attributes:
        account: the account's name, or None for the client's.
        snapshot_date: the night, or None for the UTC day on which the pull began.
        key_renewed: the mark of a new API key or address of the account, or None if there is none to confirm.
    """

    account: str | None = None
    snapshot_date: dt.date | str | None = None
    key_renewed: str | None = None


@attrs.frozen
class ExportJob:
    """The checked arguments of a pull.

    Attributes:
        feeds: in the order in which they are pulled.
        campaigns: in their order, or None for those of the choice.
        account: its name in tables.
        started_at: in UTC.
        snapshot_date: the UTC day on which the pull began, unless the caller named one.
        snapshot_is_default: whether the caller named no snapshot date, so that a resumed run has that of its first run.
        key_renewed: the mark of the only new API key or address that may add to the account's rows, or None.
        fingerprint: returns for a salt a digest that identifies the API key without showing it.
    """

    service: str
    feeds: tuple[Feed, ...]
    start_date: dt.date
    end_date: dt.date
    campaigns: tuple[int, ...] | None
    options: FeedOptions
    account: str
    started_at: dt.datetime
    snapshot_date: dt.date
    snapshot_is_default: bool
    key_renewed: str | None
    fingerprint: Callable[[bytes], str] = attrs.field(eq=False, repr=False)
    choice: CampaignChoice = EVERY_CAMPAIGN
    csv: CsvOptions = RFC_4180
    is_shard: bool = False

    @property
    def compares(self) -> bool:
        """Whether changes from the previous period are requested."""
        return asks_to_compare(self.options.get("compare_previous_period"))

    def check_target(self, target: Target) -> None:
        """Refuse a target that can't hold the requested reports."""
        if target.accumulates:
            self.check_whole(target.label)

    def check_whole(self, label: object) -> None:
        """Refuse a search: a database or dataset must not store parts of reports."""
        if self.options.get("search") is not None:
            raise ConfigurationError(
                f"search narrows the rows, and the rows found would replace whole reports in {label}; "
                "leave it out, or write to a separate file: .csv, .jsonl or .parquet"
            )

    def key_digest(self) -> str:
        """Return a digest of the API key, salted by service and account; it takes a twentieth of a second, once."""
        return self.fingerprint(hashlib.sha256(f"{self.service}\n{self.account}".encode()).digest()[:16])

    def key_mark(self) -> str:
        """Return six hexadecimal digits of the digest, by which a person confirms this service and API key."""
        return hashlib.sha256(f"{self.service}\n{self.key_digest()}".encode()).hexdigest()[:6]

    def check_account(self, label: object, service: str, key_digest: str) -> None:
        """Refuse rows under the account's name of another service or key, unless the caller confirmed this one."""
        if (service, key_digest) == (self.service, self.key_digest()) or self.key_renewed == self.key_mark():
            return
        problem, change = "that another API key fetched", "its key was renewed"
        if service != self.service:
            problem, change = f"of the service {service}, not {self.service}", "the account moved to another address"
        stale = "" if self.key_renewed is None else "; the mark that was given is of another key or address"
        raise ConfigurationError(
            f"{label} has rows under the account name {self.account} {problem}. If this is another account, give this "
            f"account a name of its own with account=…; if {change}, confirm it once with "
            f'key_renewed="{self.key_mark()}"{stale}'
        )

    def resumed(self, checkpoint: Checkpoint) -> ExportJob:
        """Return this job with the start and the snapshot date of the run of a checkpoint."""
        return attrs.evolve(
            self,
            started_at=dt.datetime.fromisoformat(checkpoint.read("started_at")),
            snapshot_date=dt.date.fromisoformat(checkpoint.read("parameters")["snapshot date"]),
        )

    def parameters(self, target: Target) -> dict[str, Any]:
        """Return the parameters that a resumed run must share with the earlier one, by their names in messages."""
        options = {name: _json_value(value) for name, value in self.options.items() if value is not None}
        options.pop("limit", None)  # changes the number of requests, but not the rows
        chosen = {
            name: value
            for name, value in (("groups", sorted(map(folded, self.choice.groups))), ("filter", self.choice.filter))
            if value
        }
        columns = [(column.name, column.type.value) for feed in self.feeds for column in table_of(feed).columns]
        return {
            "service": self.service,
            "account": self.account,
            "snapshot date": self.snapshot_date.isoformat(),
            "feeds": [feed.value for feed in self.feeds],
            "start date": self.start_date.isoformat(),
            "end date": self.end_date.isoformat(),
            "campaigns": chosen or None if self.campaigns is None else list(self.campaigns),
            # only compared, and `extra_params` may hold any object
            "options": hashlib.sha256(repr(sorted(options.items())).encode()).hexdigest(),
            "format": str(self.csv) if target.format is Format.CSV else target.format.value,
            "version": [VERSION, zlib.crc32(repr(columns).encode())],
        }

    def resumes(self, checkpoint: Checkpoint, target: Target, *, retry_failed: bool) -> bool:
        """Return whether the export resumes from a checkpoint, with `retry_failed` also one that ended with failures.

        Otherwise it starts over. ConfigurationError: it would resume, but the earlier run was of another job.
        """
        earlier = checkpoint.read("parameters")
        if earlier is None or checkpoint.is_empty() or (checkpoint.read("ended") and not retry_failed):
            return False
        wanted = self.parameters(target)
        if self.snapshot_is_default:
            del wanted["snapshot date"]
        wrong = _differences(earlier, wanted)
        same_account = earlier.get("service") == self.service and earlier.get("account") == self.account
        if same_account and checkpoint.read("key") != self.key_digest() and self.key_renewed != self.key_mark():
            confirm = f'key_renewed="{self.key_mark()}" confirms the new one'
            wrong.append(f"another API key (another account's, or an older one of the same: {confirm})")
        if wrong and (self.is_shard or (checkpoint.read("ended") and target.accumulates)):
            return False  # its rows and failures are in the target, or it is a shard; only requests are lost
        if wrong:
            first, last = earlier["start date"], earlier["end date"]
            dates = f' with start_date="{first}" and end_date="{last}"' if (first, last) != self._window else ""
            raise ConfigurationError(
                f"{target.label} has an unfinished pull of {'; '.join(wrong)}. "
                f"Repeat the original call{dates} to resume it, or pass restart=True to start over"
            )
        return True

    @property
    def _window(self) -> tuple[str, str]:
        return self.start_date.isoformat(), self.end_date.isoformat()


def _snapshot_date(snapshot: Snapshot, today: dt.date) -> dt.date:
    found = today if snapshot.snapshot_date is None else check_date("snapshot_date", snapshot.snapshot_date)
    if found > today + dt.timedelta(1):
        raise ConfigurationError(f"snapshot_date must be tomorrow (UTC) at the latest, got {found}")
    return found


def export_job(
    client: SeoRepClient,
    ids: Iterable[int] | None,
    start_date: dt.date | str,
    end_date: dt.date | str,
    feeds: Iterable[Feed | FeedValue] | Feed | FeedValue,
    options: FeedOptions,
    service: str | None = None,
    choice: CampaignChoice = EVERY_CAMPAIGN,
    snapshot: Snapshot = Snapshot(),
    csv: CsvOptions = RFC_4180,
) -> ExportJob:
    """Check the arguments of a pull, and return them as one job; nothing is sent."""
    if not isinstance(csv, CsvOptions):
        raise ConfigurationError(f"csv must be CsvOptions, such as CsvOptions(bom=True), got {shown(csv)}")
    wanted = [
        check_feed(feed) for feed in ([feeds] if isinstance(feeds, str) or not isinstance(feeds, Iterable) else feeds)
    ]
    if not wanted:
        raise ConfigurationError("feeds must name at least one feed")
    if ids is not None and isinstance(ids, Iterable) and not isinstance(ids, str | bytes):
        ids = check_ids("campaign_id", ids)
    for feed in wanted:
        # a pull that is never entered only checks its arguments
        client.rankings.pull((), start_date, end_date, feed=feed, **options)
    client.rankings.pull(() if ids is None else ids, start_date, end_date)
    now = dt.datetime.fromtimestamp(client._session.clock.wall_clock(), dt.UTC).replace(tzinfo=None)
    return ExportJob(
        service=service or client.base_url,
        feeds=tuple(feed for feed in Feed if feed in wanted),
        start_date=check_date("start_date", start_date),
        end_date=check_date("end_date", end_date),
        campaigns=None if ids is None else tuple(ids),
        options=options,
        account=client.account if snapshot.account is None else check_account_name(snapshot.account),
        started_at=now,
        snapshot_date=_snapshot_date(snapshot, now.date()),
        snapshot_is_default=snapshot.snapshot_date is None,
        key_renewed=check_key_mark(snapshot.key_renewed),
        fingerprint=cache(client._key_fingerprint),
        choice=choice,
        csv=csv,
    )


def _json_value(value: Any) -> Any:
    """Return a value as JSON gives it back."""
    if isinstance(value, dict):
        return {str(name): _json_value(held) for name, held in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(held) for held in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _differences(earlier: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return the differences between two runs' parameters, in words."""
    found = []
    for name, value in wanted.items():
        before = earlier.get(name)
        if before == value:
            continue
        if name == "version":  # it depends on the feeds, too
            if earlier.get("feeds") != wanted.get("feeds"):
                continue
            found.append("another version of seorep")
        elif name in ("campaigns", "options"):
            found.append(f"other {name}")
        else:
            found.append(f"{name} {_in_words(before)}, not {_in_words(value)}")
    return found


def _in_words(value: object) -> str:
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)
