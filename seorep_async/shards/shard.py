"""A shard and its receipt: plain data, and its JSON."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

import attrs
from cattrs.preconf.json import JsonConverter, make_converter

from seorep_async import errors
from seorep_async.errors import ConfigurationError, SeoRepError
from seorep_async.export.job import ExportJob
from seorep_async.export.progress import CampaignOutcome, PullFailure
from seorep_async.export.receipts import Part, Partition
from seorep_async.models import Feed
from seorep_async.resources.rankings import FeedOptions
from seorep_async.settings import Settings

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Shard:
    """One piece of a pull, as plain data: it pickles, and `to_json` and `from_json` carry it anywhere.

    Attributes:
        number: its number, from 0.
        count: how many shards the pull has.
        pull: the name of the pull.
        base_url: the service's address.
        account: the account's name.
        key_from: where a worker finds the API key.
        key_digest: a salted digest that recognises the account's key.
        snapshot_date: the night.
        started_at: when the pull was planned, in UTC.
        ids: its campaigns.
        start_date: first day.
        end_date: last day.
        feeds: the feeds.
        options: further arguments of the feeds.
        settings: of the client of each worker.
        out: the dataset.
        storage_options: of the dataset's object store; no secrets.
        work_dir: a local folder for the checkpoint, or None for one in the system's folder for temporary files.
    """

    number: int
    count: int
    pull: str
    base_url: str
    account: str
    key_from: str
    key_digest: str
    snapshot_date: dt.date
    started_at: dt.datetime
    ids: tuple[int, ...]
    start_date: dt.date
    end_date: dt.date
    feeds: tuple[Feed, ...]
    options: Mapping[str, Any]
    settings: Settings
    out: str
    storage_options: Mapping[str, str]
    work_dir: str | None

    def job(self, fingerprint: Callable[[bytes], str] | None = None) -> ExportJob:
        """Return its job, for a client's key, or for none if nothing is fetched."""
        return ExportJob(
            service=self.base_url,
            feeds=self.feeds,
            start_date=self.start_date,
            end_date=self.end_date,
            campaigns=self.ids,
            options=FeedOptions(**self.options),  # type: ignore[typeddict-item]
            account=self.account,
            started_at=self.started_at,
            snapshot_date=self.snapshot_date,
            keeps_snapshot=False,
            key_renewed=False,
            fingerprint=fingerprint or (lambda _: self.key_digest),
            is_shard=True,
        )

    def to_json(self) -> str:
        """Return it as JSON."""
        return _converter().dumps(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Shard:
        """Return it from its JSON.

        Raises:
            ConfigurationError: it is none.
        """
        return _from_json(text, cls)

    @property
    def night(self) -> Partition:
        """The night of the dataset that it is for."""
        return Partition(self.account, self.snapshot_date)

    @property
    def receipt_name(self) -> str:
        """The name of its receipt in the dataset."""
        return self.night.shard_receipt(self.pull, self.number)


@attrs.frozen(kw_only=True)
class ShardReceipt:
    """What one shard has brought.

    Attributes:
        number: the shard's number.
        pull: the name of its pull.
        parts: its parts of the dataset.
        outcomes: one for each of its campaigns.
        requests: requests that its last run sent, retries included.
        seconds: how long that took.
        finished_at: when it ended, in UTC.
    """

    number: int
    pull: str
    parts: tuple[Part, ...]
    outcomes: tuple[CampaignOutcome, ...]
    requests: int
    seconds: float
    finished_at: dt.datetime

    @property
    def ok(self) -> bool:
        """Whether no report is missing."""
        return all(outcome.ok for outcome in self.outcomes)

    @property
    def rows(self) -> int:
        """Rows of all feeds."""
        return sum(sum(outcome.rows.values()) for outcome in self.outcomes)

    def to_json(self) -> str:
        """Return it as JSON."""
        return _converter().dumps(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> ShardReceipt:
        """Return it from its JSON.

        Raises:
            ConfigurationError: it is none.
        """
        return _from_json(text, cls)


def _from_json(text: str | bytes, kind: type[T]) -> T:
    try:
        return _converter().loads(text, kind)
    except Exception as error:
        raise ConfigurationError(f"this is not the JSON of a {kind.__name__}: {type(error).__name__}") from error


@cache
def _converter() -> JsonConverter:
    converter = make_converter(forbid_extra_keys=True)
    converter.register_unstructure_hook(CampaignOutcome, lambda one: _plain_outcome(one, converter))
    converter.register_structure_hook(CampaignOutcome, lambda found, _: _outcome(found))
    return converter


def _plain_outcome(outcome: CampaignOutcome, converter: JsonConverter) -> dict[str, Any]:
    failures = [
        {
            "feed": failure.feed.value,
            "keyword_id": failure.keyword_id,
            "error": type(failure.error).__name__,
            "message": failure.error.message,
            "status": failure.error.status,
            "attempts": failure.error.attempts,
        }
        for failure in outcome.failures
    ]
    rows = {feed.value: count for feed, count in outcome.rows.items()}
    return {"campaign_id": outcome.campaign_id, "rows": rows, "failures": failures}


def _outcome(found: Mapping[str, Any]) -> CampaignOutcome:
    id_ = int(found["campaign_id"])
    failures = []
    for one in found["failures"]:
        kind = getattr(errors, one["error"], SeoRepError)
        error = kind(one["message"], status=one["status"], attempts=one["attempts"])
        failures.append(PullFailure(Feed(one["feed"]), id_, one["keyword_id"], error))
    return CampaignOutcome(id_, {Feed(feed): int(count) for feed, count in found["rows"].items()}, tuple(failures))
