"""The progress of a pull while it runs, and its summary at the end."""

from __future__ import annotations

import datetime as dt
import enum
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.export.request import ExportRequest
from seorep_async.export.staging import Staging
from seorep_async.models import Feed
from seorep_async.resources.arguments import check_id
from seorep_async.session import Stats, check_callback
from seorep_async.tables.columns import Column, ColumnType
from seorep_async.tables.html import html_table
from seorep_async.tables.output_tables import table_of


class Stage(enum.Enum):
    """The stages of a pull; of writing there is no total, of listing only 0: no campaign was found."""

    LISTING = "listing campaigns"
    KEYWORDS = "finding keywords"
    ROWS = "pulling rows"
    WRITING = "writing"


@attrs.frozen(kw_only=True)
class PullProgress:
    """How far a stage is: reports stored or failed, of a `total` or None, of which an earlier run has stored `resumed`.

    `rows` and `failures` are those of all stages and feeds.
    """

    stage: Stage
    feed: Feed
    done: int
    total: int | None
    resumed: int
    rows: int
    failures: int


OnProgress: TypeAlias = Callable[[PullProgress], object]


@attrs.frozen
class PullFailure:
    """A report that is missing, as in the table `failures`; without keyword if the whole campaign failed.

    `error` is the name of its class, such as `NotFoundError`, `status` that of the last response or None, `attempts`
    the number of requests for the page that failed.
    """

    feed: Feed
    campaign_id: int
    keyword_id: int | None
    error: str
    message: str
    status: int | None
    attempts: int | None


@attrs.frozen
class CampaignOutcome:
    """The outcome of one campaign: its rows in the target, by feed, and its reports that are missing."""

    campaign_id: int
    rows: Mapping[Feed, int]
    failures: tuple[PullFailure, ...]

    @property
    def ok(self) -> bool:
        """Whether no report is missing."""
        return not self.failures


@attrs.frozen(kw_only=True, repr=False)
class PullSummary:
    """What a pull did.

    Attributes:
        started_at: when the pull began, in UTC; unchanged when a pull is resumed.
        compared: whether changes from the previous period were asked for.
        paths: the finished files, rows first. Empty if every campaign failed: then older files are unchanged, and a
            database gets rows of `pulls` and `failures` only.
        outcomes: one for each campaign, in their order.
        resumed: reports that an earlier run had stored.
        seconds: how long it took.
        stats: what the client did meanwhile: requests, retries by cause, responses with 429, waits by reason.
    """

    feeds: tuple[Feed, ...]
    start_date: dt.date
    end_date: dt.date
    account: str
    snapshot_date: dt.date
    started_at: dt.datetime
    compared: bool
    paths: tuple[Path, ...]
    outcomes: tuple[CampaignOutcome, ...]
    resumed: int
    seconds: float
    stats: Stats

    @property
    def ok(self) -> bool:
        """Whether no report is missing."""
        return all(one.ok for one in self.outcomes)

    @property
    def requests(self) -> int:
        """Requests that the client sent meanwhile, retries included."""
        return self.stats.attempts

    @property
    def failures(self) -> tuple[PullFailure, ...]:
        """The reports that are missing, in the order of the campaigns."""
        return tuple(failure for one in self.outcomes for failure in one.failures)

    @property
    def campaigns(self) -> int:
        """Campaigns requested."""
        return len(self.outcomes)

    @property
    def campaigns_complete(self) -> int:
        """Campaigns of which no report is missing."""
        return sum(one.ok for one in self.outcomes)

    @property
    def rows(self) -> int:
        """Rows in the target, of all feeds."""
        return sum(map(self.rows_of, self.feeds))

    def rows_of(self, feed: Feed) -> int:
        """Return how many rows of a feed are in the target."""
        return sum(one.rows.get(feed, 0) for one in self.outcomes)

    @property
    def received(self) -> bool:
        """Whether anything was received; if every campaign failed, no rows are replaced."""
        return not self.outcomes or any(one.ok or one.rows for one in self.outcomes)

    def __repr__(self) -> str:
        failed = f", {len(self.failures):,} reports failed" if self.failures else ""
        counts = f"{self.campaigns:,} campaigns, {self.rows:,} rows{failed}"
        return f"<PullSummary of {self.account}, {self.snapshot_date}: {counts}, in {self.seconds:.3g} s>"

    def _repr_html_(self) -> str:
        columns = [Column(table_of(feed).name, ColumnType.INTEGER, "") for feed in self.feeds]
        columns = [
            Column("campaign_id", ColumnType.INTEGER, ""),
            *columns,
            Column("failures", ColumnType.STRING, ""),
        ]
        rows = []
        for one in sorted(self.outcomes, key=lambda one: one.ok):  # those with failures first
            failed = (
                "; ".join(f"{failure.error}: {failure.message}" for failure in one.failures) or None
            )
            rows.append((one.campaign_id, *(one.rows.get(feed, 0) for feed in self.feeds), failed))
        return html_table(repr(self).strip("<>"), columns, rows, self.campaigns)


def outcomes_of(
    ids: Iterable[int], reports: Iterable[tuple[Feed, int, int]], failures: Iterable[PullFailure]
) -> tuple[CampaignOutcome, ...]:
    """Return the outcome of each campaign, from feed, campaign and rows of each report, and from the failures."""
    rows, failed = (
        defaultdict[int, Counter[Feed]](Counter),
        defaultdict[int, list[PullFailure]](list),
    )
    for feed, id_, count in reports:
        rows[id_][feed] += count
    for one in failures:
        failed[one.campaign_id].append(one)
    return tuple(CampaignOutcome(id_, dict(rows[id_]), tuple(failed[id_])) for id_ in ids)


class Tracker:
    """What a pull has done and cost so far, told to `on_progress`, and the requests that it may still send."""

    def __init__(
        self, client: SeoRepClient, on_progress: OnProgress | None, most: int | None = None
    ) -> None:
        check_callback("on_progress", on_progress, "a PullProgress")
        self._client, self._most = client, None if most is None else check_id("max_requests", most)
        self._report = on_progress or (lambda _: None)
        self._last: Any = None
        self.written: PullSummary | None = None
        self.rows = self.failures = self.resumed = 0
        self._started, self._before = time.monotonic(), client.stats
        self._sent = self._before.attempts

    def start(self, stage: Stage, feed: Feed, total: int | None = None, stored: int = 0) -> None:
        """Enter a stage of which `stored` reports are stored already."""
        facts = {"rows": self.rows, "failures": self.failures}
        self._last = PullProgress(
            stage=stage, feed=feed, done=stored, total=total, resumed=stored, **facts
        )
        self._report(self._last)

    def advance(self, reports: int, rows: int, failures: int) -> None:
        """Count reports of the stage, stored and failed, and rows of them."""
        self.rows += rows if self._last.stage is Stage.ROWS else 0
        self.failures += failures
        done = self._last.done + reports + failures
        self._last = attrs.evolve(self._last, done=done, rows=self.rows, failures=self.failures)
        self._report(self._last)

    def resume(self, staging: Staging) -> None:
        """Count what earlier runs have stored, and leave out what was sent until now: few requests get further so."""
        feeds = staging.request.feeds
        self.resumed = sum(map(staging.count, feeds))
        self.rows = sum(staging.rows[table_of(feed).name] for feed in feeds)
        self._sent = self._client.stats.attempts

    def requests_left(self) -> int | None:
        """Return how many requests it may still send, or None for any."""
        return (
            None
            if self._most is None
            else max(0, self._most - (self._client.stats.attempts - self._sent))
        )

    def summary(
        self,
        request: ExportRequest,
        outcomes: tuple[CampaignOutcome, ...] = (),
        paths: Iterable[Path] = (),
    ) -> PullSummary:
        names = (
            "feeds",
            "start_date",
            "end_date",
            "account",
            "snapshot_date",
            "started_at",
            "compared",
        )
        asked: Any = {name: getattr(request, name) for name in names}
        cost: Any = {
            "stats": self._client.stats.since(self._before),
            "seconds": time.monotonic() - self._started,
        }
        return PullSummary(
            outcomes=outcomes, paths=tuple(paths), resumed=self.resumed, **asked, **cost
        )
