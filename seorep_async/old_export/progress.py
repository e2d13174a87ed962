"""The progress of a pull while it runs, and its summary at the end."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from seorep_async.errors import SeoRepError
from seorep_async.models import Feed
from seorep_async.old_export.spec import PullSpec, shared
from seorep_async.session import Stats, check_callback
from seorep_async.tables.columns import Column, ColumnType
from seorep_async.tables.declared import table_of
from seorep_async.tables.html import html_table


class Stage(enum.Enum):
    """The stages of a pull."""

    LISTING = "listing campaigns"
    """Listing the campaigns of the account; there is no total yet."""
    KEYWORDS = "finding keywords"
    """Fetching the keywords of each campaign; counted in campaigns."""
    ROWS = "pulling rows"
    """Fetching reports; counted in campaigns, or in keywords for `Feed.KEYWORD_BY_DATE`."""
    WRITING = "writing"
    """Writing the target from the staged reports; there is no total."""


@attrs.frozen
class PullFailure:
    """A report whose rows are missing: one feed of a campaign, or of one of its keywords.

    Attributes:
        keyword_id: the keyword, or None if the whole campaign failed.
    """

    feed: Feed
    campaign_id: int
    keyword_id: int | None
    error: SeoRepError


@attrs.frozen(kw_only=True)
class PullProgress:
    """The progress of a pull.

    Attributes:
        feed: the feed that the stage is for.
        done: reports of this stage that are stored, by this run or an earlier one, and those that failed.
        total: reports that this stage needs, or None if that is not known.
        resumed: those of `done` that an earlier run has stored.
        rows: rows stored so far, of all feeds and runs.
        failures: reports that have failed so far, in all stages.
    """

    stage: Stage
    feed: Feed
    done: int
    total: int | None
    resumed: int
    rows: int
    failures: int


@attrs.frozen
class StagedPull:
    """The number of reports that a run has staged, its start in local time, and its dates.

    It `ended` with failures, or else was interrupted.
    """

    started_at: dt.datetime
    start_date: dt.date
    end_date: dt.date
    reports: int
    ended: bool


OnProgress: TypeAlias = Callable[[PullProgress], object]


@attrs.frozen
class CampaignOutcome:
    """The outcome of one campaign.

    Attributes:
        rows: rows of it in the target, by feed.
        failures: the reports of it that are missing, and why.
    """

    campaign_id: int
    rows: Mapping[Feed, int]
    failures: tuple[PullFailure, ...]

    @property
    def ok(self) -> bool:
        """Whether no report is missing."""
        return not self.failures


def any_received(outcomes: Sequence[CampaignOutcome]) -> bool:
    """Return whether anything was received; if every campaign failed, no rows are replaced."""
    return not outcomes or any(outcome.rows or outcome.ok for outcome in outcomes)


@attrs.frozen(kw_only=True, repr=False)
class PullSummary:
    """The summary of a pull.

    Attributes:
        account: the account's name, which every row bears.
        snapshot_date: the night that the rows are of, which every row bears.
        compared: whether changes from the previous period were asked for.
        paths: the finished files, rows first, or of a dataset the night's folder of each feed's table; in an object
            store, addresses. Empty if every campaign failed: then older files are unchanged, and a database or dataset
            gets rows of `pulls` and `failures` only.
        outcomes: one for each campaign requested, in their order.
        resumed: reports that an earlier run had stored.
        requests: requests that the client sent meanwhile, retries included.
        seconds: how long it took.
        started_at: when the pull began, in UTC; unchanged when a pull is resumed.
        stats: what the client did meanwhile: retries by cause, refusals, waits by reason; None of shards.
        leftover: the staging folder beside the target if it could not be removed, or None. Nothing is resumed from it.
    """

    feeds: tuple[Feed, ...]
    start_date: dt.date
    end_date: dt.date
    account: str
    snapshot_date: dt.date
    compared: bool
    paths: tuple[Path | str, ...]
    outcomes: tuple[CampaignOutcome, ...]
    resumed: int
    requests: int
    seconds: float
    started_at: dt.datetime
    stats: Stats | None = None
    leftover: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether no report is missing."""
        return all(outcome.ok for outcome in self.outcomes)

    @property
    def failures(self) -> tuple[PullFailure, ...]:
        """The reports that are missing, and why, in the order of the campaigns."""
        return tuple(failure for outcome in self.outcomes for failure in outcome.failures)

    @property
    def campaigns(self) -> int:
        """Campaigns requested."""
        return len(self.outcomes)

    @property
    def campaigns_complete(self) -> int:
        """Campaigns of which no report is missing."""
        return sum(outcome.ok for outcome in self.outcomes)

    @property
    def rows(self) -> int:
        """Rows in the target, of all feeds."""
        return sum(self.rows_of(feed) for feed in self.feeds)

    def rows_of(self, feed: Feed) -> int:
        """Return how many rows of a feed are in the target."""
        return sum(outcome.rows.get(feed, 0) for outcome in self.outcomes)

    def __repr__(self) -> str:
        failed = f", {len(self.failures):,} reports failed" if self.failures else ""
        counts = f"{self.campaigns:,} campaigns, {self.rows:,} rows{failed}"
        return f"<PullSummary of {self.account}, {self.snapshot_date}: {counts}, in {self.seconds:.3g} s>"

    def _repr_html_(self) -> str:
        names = [table_of(feed).name for feed in self.feeds]
        columns = [Column(name, ColumnType.INTEGER, "") for name in ("campaign_id", *names)]
        rows = (
            (
                one.campaign_id,
                *(one.rows.get(feed, 0) for feed in self.feeds),
                "; ".join(str(failure.error) for failure in one.failures) or None,
            )
            for one in sorted(self.outcomes, key=lambda one: one.ok)  # those with failures first
        )
        columns.append(Column("failures", ColumnType.STRING, ""))
        return html_table(repr(self).strip("<>"), columns, rows, self.campaigns)


def summary_of(spec: PullSpec, **further: Any) -> PullSummary:
    """Return the summary of a pull; `further` are the attributes that its spec does not give."""
    return PullSummary(compared=spec.compares, **shared(spec, PullSummary), **further)


class ProgressTracker:
    """Counts while a pull runs, and reports each step to `on_progress`.

    `on_resume` is called with the staged reports of an earlier run with which it begins; `on_stop` with those that it
    leaves, or None, if it ends early.
    """

    def __init__(
        self,
        on_progress: OnProgress | None = None,
        on_resume: Callable[[StagedPull], object] = lambda _: None,
        on_stop: Callable[[StagedPull | None], object] = lambda _: None,
    ) -> None:
        check_callback("on_progress", on_progress, "a PullProgress")
        self._on_progress = on_progress
        self.on_resume = on_resume
        self.on_stop = on_stop
        self._progress: PullProgress | None = None
        self.rows: int = 0
        self.failures: list[PullFailure] = []
        self.names_error: SeoRepError | None = None
        """Why the campaigns' names are missing, or None."""

    def start_stage(self, stage: Stage, feed: Feed, total: int | None = None, stored: int = 0) -> None:
        """Enter a stage of which `stored` reports are stored already."""
        self._report(PullProgress(stage=stage, feed=feed, done=stored, total=total, resumed=stored, **self._counts()))

    def advance(self, reports: int = 1, rows: int = 0) -> None:
        """Count reports of the stage, stored or failed, and rows stored now."""
        self.rows += rows
        if (last := self._progress) is not None:
            self._report(attrs.evolve(last, done=last.done + reports, **self._counts()))

    def _counts(self) -> dict[str, Any]:
        return {"rows": self.rows, "failures": len(self.failures)}

    def _report(self, progress: PullProgress) -> None:
        self._progress = progress
        if self._on_progress is not None:
            self._on_progress(progress)
