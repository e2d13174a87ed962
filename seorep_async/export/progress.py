"""The progress of a pull while it runs, and its summary at the end."""

from __future__ import annotations

import datetime as dt
import enum
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.errors import counted, is_of_wrong_address
from seorep_async.export.request import ExportRequest
from seorep_async.export.staging import Staging
from seorep_async.models import Feed
from seorep_async.resources.arguments import check_count
from seorep_async.session import Stats, check_callback
from seorep_async.session.failures import cause_of_status
from seorep_async.tables.output_tables import table_of


class Stage(enum.Enum):
    """The stages of a pull.

    WRITING has no total. LISTING has none either, except 0 if there are no campaigns.
    """

    LISTING = "listing campaigns"
    KEYWORDS = "finding keywords"
    ROWS = "pulling rows"
    WRITING = "writing"
    DONE = "done"


@attrs.frozen(kw_only=True)
class PullProgress:
    """The progress of a stage.

    Attributes:
        stage: the current stage.
        feed: the feed of its reports.
        done: reports that are stored or failed, including those of earlier runs.
        total: all reports of the stage, or None if their number is unknown.
        resumed: reports that an earlier run had stored.
        rows: rows of all stages and feeds.
        failures: failed reports of all stages and feeds.
    """

    stage: Stage
    feed: Feed
    done: int
    total: int | None
    resumed: int
    rows: int
    failures: int


OnProgress: TypeAlias = Callable[[PullProgress], object]


PERMANENT_ERRORS = [
    "AuthenticationError",
    "NotFoundError",
    "InvalidRequestError",
    "DecodeError",
    "ExportError",  # a value that the format of the target can't store
]
"""The classes of errors after which a report would fail again."""
RETRYABLE_STATUSES = [status for status in range(400, 500) if cause_of_status(status).retryable]
"""The statuses 4xx after which a retry may succeed, whatever the class of the error."""


def fails_again(error: str, status: int | None) -> bool:
    """Return whether a report would fail again.

    `error` is the class name of its error; `status` is the response's status.
    """
    # At a wrong address, another server answers. Retrying will not help, but the reports may exist.
    # So its errors are not in PERMANENT_ERRORS: `history` takes a window for complete if all its
    # failures are listed there. Nor is the error of a response that is too large for the settings.
    if error == "BodyTooLargeError" or is_of_wrong_address(error, status):
        return True
    return error in PERMANENT_ERRORS and status not in RETRYABLE_STATUSES


def id_in_text(failed_id: int) -> re.Pattern[str]:
    """Return a pattern that finds an id, but not in an address, a time or a decimal number."""
    return re.compile(rf"(?<![\w.:]){failed_id}(?!\w|[.:]\d)")


@attrs.frozen
class PullFailure:
    """A missing report, as in the table `failures`.

    Attributes:
        feed: the feed of the report.
        campaign_id: its campaign.
        keyword_id: its keyword; None if the report of a whole campaign failed.
        error: the name of the error's class, such as `NotFoundError`.
        message: what happened, with the service's own reason if it gave one.
        status: HTTP status of the last response, or None if there was none.
        attempts: attempts made to fetch the failed page.
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
    """The outcome of one campaign. It counts the rows by feed, and has the missing reports."""

    campaign_id: int
    rows: Mapping[Feed, int]
    failures: tuple[PullFailure, ...]

    @property
    def ok(self) -> bool:
        """Whether no report is missing."""
        return not self.failures


@attrs.frozen(kw_only=True, repr=False)
class PullSummary:
    """The result of a pull.

    Attributes:
        started_at: when the pull began, in UTC. Resuming a pull does not change it.
        compared: whether changes from the previous period were requested.
        paths: the finished files, rows first. Empty if every campaign failed: older files are
            unchanged then, and a database gets rows of `pulls` and `failures` only.
        outcomes: the outcome of each campaign, in their order.
        resumed: reports that an earlier run had stored.
        seconds: how long the pull took.
        stats: what the client did during the pull: requests, retries by cause, responses with
            status 429, waits by reason.
        notes: sentences about what may surprise the caller, for example that the file had
            another period, or that the database has another name for the account.
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
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no report is missing."""
        return all(outcome.ok for outcome in self.outcomes)

    @property
    def requests(self) -> int:
        """Requests that the client sent during the pull, retries included."""
        return self.stats.attempts

    @property
    def failures(self) -> tuple[PullFailure, ...]:
        """The missing reports, in the order of the campaigns."""
        return tuple(failure for outcome in self.outcomes for failure in outcome.failures)

    @property
    def campaigns(self) -> int:
        """The number of campaigns requested."""
        return len(self.outcomes)

    @property
    def campaigns_complete(self) -> int:
        """The number of campaigns without a missing report."""
        return sum(outcome.ok for outcome in self.outcomes)

    @property
    def rows(self) -> int:
        """Rows in the target, of all feeds."""
        return sum(map(self.rows_of, self.feeds))

    def rows_of(self, feed: Feed) -> int:
        """Return the number of rows of a feed in the target."""
        return sum(outcome.rows.get(feed, 0) for outcome in self.outcomes)

    @property
    def received(self) -> bool:
        """Whether anything was received; if every campaign failed, no rows are replaced."""
        # an account without campaigns has no failures, and its target becomes empty
        if not self.outcomes:
            return True
        return any(outcome.ok or outcome.rows for outcome in self.outcomes)

    def __repr__(self) -> str:
        counts = [counted(self.campaigns, "campaign"), counted(self.rows, "row")]
        if self.failures:
            errors = ", ".join(sorted({failure.error for failure in self.failures}))
            reports = counted(len(self.failures), "report")
            advice = "retry_failed=True tries again"
            if all(fails_again(failure.error, failure.status) for failure in self.failures):
                advice = "see failures; retrying will not help"
            counts.append(f"{reports} failed ({errors}; {advice})")
        counts += [f"in {self.seconds:.3g} s", *self.notes]
        return f"<PullSummary of {self.account}, {self.snapshot_date}: {', '.join(counts)}>"


def outcomes_of(
    campaign_ids: Iterable[int],
    reports: Iterable[tuple[Feed, int, int]],
    failures: Iterable[PullFailure],
) -> tuple[CampaignOutcome, ...]:
    """Return the outcome of each campaign.

    Args:
        reports: the feed, the campaign and the number of rows of each report.
    """
    rows: defaultdict[int, Counter[Feed]] = defaultdict(Counter)
    failed: defaultdict[int, list[PullFailure]] = defaultdict(list)
    for feed, campaign_id, row_count in reports:
        rows[campaign_id][feed] += row_count
    for failure in failures:
        failed[failure.campaign_id].append(failure)
    outcomes = []
    for campaign_id in campaign_ids:
        rows_by_feed = dict(rows[campaign_id])
        outcomes.append(CampaignOutcome(campaign_id, rows_by_feed, tuple(failed[campaign_id])))
    return tuple(outcomes)


class Tracker:
    """Counts what a pull has done and sent, for `on_progress` and against `max_requests`.

    Attributes:
        progress: the current state. Its rows and failures count all stages so far.
        resumed: reports that an earlier run had stored.
        written: the summary, once the target is written.
        max_requests: how many requests may be sent, or None for any number.
    """

    def __init__(
        self,
        client: SeoRepClient,
        feed: Feed,
        on_progress: OnProgress | None,
        max_requests: int | None = None,
    ) -> None:
        check_callback("on_progress", on_progress, "a PullProgress")
        if max_requests is not None:
            max_requests = check_count("max_requests", max_requests)
        self._client = client
        self._on_progress = on_progress
        self.max_requests: int | None = max_requests
        self._started = time.monotonic()
        self._stats_before = client.stats
        self._attempts_before = self._stats_before.attempts
        self.progress: PullProgress = PullProgress(
            stage=Stage.LISTING, feed=feed, done=0, total=None, resumed=0, rows=0, failures=0
        )
        self.resumed: int = 0
        self.written: PullSummary | None = None

    def start(self, stage: Stage, feed: Feed, *, total: int | None = None, stored: int = 0) -> None:
        """Enter a stage of `total` reports. Some may already be stored."""
        self._report(stage=stage, feed=feed, done=stored, total=total, resumed=stored)

    def finish(self) -> None:
        """Report that everything is done."""
        self._report(stage=Stage.DONE)

    def advance(self, *, reports: int = 0, rows: int = 0, failures: int = 0) -> None:
        """Count reports of the stage that are stored, their rows, and reports that failed."""
        progress = self.progress
        # rows that are fetched only to find the keywords are not written to the target
        if progress.stage is not Stage.ROWS:
            rows = 0
        self._report(
            done=progress.done + reports + failures,
            rows=progress.rows + rows,
            failures=progress.failures + failures,
        )

    def _report(self, **changes: Any) -> None:
        """Change the progress, and pass it to `on_progress`."""
        self.progress = attrs.evolve(self.progress, **changes)
        if self._on_progress is not None:
            self._on_progress(self.progress)

    def resume(self, staging: Staging) -> None:
        """Count the reports that earlier runs have stored.

        Requests sent so far don't count, so a run with a small `max_requests` gets further.
        """
        feeds = staging.request.feeds
        self.resumed = sum(map(staging.count, feeds))
        stored_rows = sum(staging.rows[table_of(feed).name] for feed in feeds)
        self.progress = attrs.evolve(self.progress, rows=stored_rows)
        self._attempts_before = self._client.stats.attempts

    def requests_left(self) -> int | None:
        """Return how many requests may still be sent, or None for any number."""
        if self.max_requests is None:
            return None
        # requests of the client's other calls count as well, because they use the same quota
        sent = self._client.stats.attempts - self._attempts_before
        # retries, and requests in flight, may exceed the maximum
        return max(0, self.max_requests - sent)

    def summary(
        self,
        request: ExportRequest,
        outcomes: tuple[CampaignOutcome, ...] = (),
        paths: Iterable[Path] = (),
        notes: tuple[str, ...] = (),
    ) -> PullSummary:
        """Return the summary of the pull so far."""
        return PullSummary(
            **request.labels,
            feeds=request.feeds,
            started_at=request.started_at,
            compared=request.compared,
            paths=tuple(paths),
            outcomes=outcomes,
            resumed=self.resumed,
            seconds=time.monotonic() - self._started,
            stats=self._client.stats.since(self._stats_before),
            notes=notes,
        )
